//! What the translated text looks like.

use crate::{mark, translate, Options};
use std::collections::HashMap;

const HEAD: &str = "\
#pragma xmp nodes p[2][2]
#pragma xmp template t[8][9]
#pragma xmp distribute t[block][block] onto p
#pragma xmp template l[8]
#pragma xmp nodes q[4]
#pragma xmp distribute l[cyclic] onto q
double a[8][9], b[8][9], v[8], w[8][3];
#pragma xmp align a[i][j] with t[i][j]
#pragma xmp align b[i][j] with t[i][j]
#pragma xmp align v[i] with l[i]
#pragma xmp align w[i][*] with t[i][*]
";

fn translated(body: &str, omni_local_subscripts: bool) -> String {
    let text = format!("{HEAD}{body}");
    let marked = mark(&text, &mut |_, _| None);
    let files = HashMap::from([("a.c".to_owned(), text)]);
    translate(
        &format!("# 1 \"a.c\"\n{marked}"),
        &files,
        &Options { omni_local_subscripts, ..Options::default() },
    )
    .unwrap_or_else(|problems| panic!("{}", problems[0]))
}

#[test]
fn a_block_loop_has_plain_subscripts_and_shared_dimensions() {
    let out = translated(
        "void f(void)\n{\n  int i, j;\n#pragma xmp loop (i,j) on t[i][j]\n  for (i = 0; i < 8; i++)\n    for (j = 0; j < 9; j++)\n      a[i][j] = b[i][j] + 1;\n}\n",
        false,
    );
    assert!(out.contains("const long kxe1_a = kxa_a.map->dim[1].extent;"), "{out}");
    assert!(out.contains("double (*__restrict kxp_a)[kxe1_a] = (void *)kxa_a.origin;"), "{out}");
    assert!(out.contains("double (*__restrict kxp_b)[kxe1_a] = (void *)kxa_b.origin;"), "{out}");
    assert!(out.contains("kxp_a[i][j] = kxp_b[i][j] + 1;"), "{out}");
    assert!(out.contains("_Pragma(\"GCC ivdep\") for (j = kx_b1_1; j <= kx_e1_1; j++)"), "{out}");
}

#[test]
fn iterations_that_depend_on_each_other_are_not_called_independent() {
    let bodies = [
        "b[i][j] = b[i][j - 1] + 1;",
        "a[i][0] += b[i][j];",
        "count[0] += j;",
        "a[i][j] = *q;",
        "a[i][j] = g(j);",
        "{ int k = count[i]; b[i][j + k] = 1; }",
        "a[i][j] = lead[0][j];",
    ];
    for body in bodies {
        let out = translated(
            &format!("void f(double *q)\n{{\n  int i, j, count[3];\n  double *lead[2];\n#pragma xmp loop (i,j) on t[i][j]\n  for (i = 0; i < 8; i++)\n    for (j = 0; j < 9; j++)\n      {body}\n}}\n"),
            false,
        );
        assert!(!out.contains("ivdep"), "{out}");
        assert!(!out.contains('\u{1}'), "{out}");
    }
}

#[test]
fn cyclic_subscripts_are_turned_into_local_ones_once_each() {
    let out = translated("double f(int k)\n{\n  return v[k++] + w[k][2];\n}\n", false);
    assert!(
        out.contains("({ const long kx_g = k++; KXMP_CYCLIC_INDEX(kxa_v.map->dim[0], kx_g); })"),
        "{out}"
    );
    assert!(out.contains("((double (*)[3])kxa_w.origin)[k][2]"), "{out}");
}

#[test]
fn a_loop_over_what_is_dealt_out_one_by_one_is_counted() {
    let out = translated("void f(void)\n{\n  int i;\n#pragma xmp loop on l[i]\n  for (i = 0; i < 8; i++) v[i] = v[i] + w[i][0];\n}\n", false);
    assert!(out.contains("{ long kx_t1_0; "), "{out}");
    assert!(out.contains("for (i = kx_b1_0, kx_t1_0 = 0; i <= kx_e1_0; i += kx_s1_0, kx_t1_0++)"), "{out}");
    let element = "kxp_v[KXMP_TURN(kxd0_v, (long)kx_b1_0 + 0) + (long)kx_t1_0]";
    assert!(out.contains(&format!("{element} = {element} + kxp_w[i][0];")), "{out}");
    let down = "void f(void)\n{\n#pragma xmp loop on l[i]\n  for (int i = 7; i >= 0; i--) v[i] = 1;\n}\n";
    let out = translated(down, false);
    assert!(
        out.contains("for (int i = kx_b1_0, kx_t1_0 = 0; i >= kx_e1_0; i += kx_s1_0, kx_t1_0++)"),
        "{out}"
    );
    assert!(out.contains("kxp_v[KXMP_TURN(kxd0_v, (long)kx_b1_0 + 0) - (long)kx_t1_0] = 1;"), "{out}");
    // Other steps, and variables that the body changes, are computed each time.
    for (step, body) in [("i += 2", "v[i] = 1;"), ("i++", "{ v[i] = 1; i = i; }")] {
        let text = format!(
            "void f(void)\n{{\n  int i;\n#pragma xmp loop on l[i]\n  for (i = 0; i < 8; {step}) {body}\n}}\n"
        );
        assert!(translated(&text, false).contains("kxp_v[KXMP_CYCLIC_INDEX(kxd0_v, i)] = 1;"));
    }
}

#[test]
fn what_a_head_sets_beside_its_variable_is_set_before() {
    let body = |steps: &str| {
        format!("void f(void)\n{{\n  int i, j, n;\n#pragma xmp loop (i,j) on t[i][j]\n  for (i = 0, n = 9; i < 8; i++)\n    for (int j = 0, k = n; j < k; j++{steps})\n      a[i][j] = k;\n}}\n")
    };
    let out = translated(&body(""), false);
    // The outermost before everything else, the inner one where its loop stands.
    assert!(out.contains("{ n = 9; kxmp_nest kx_n"), "{out}");
    assert!(out.contains("{ int k = n; { kxmp_nest kx_n"), "{out}");
    assert!(out.contains("for (int j = kx_b"), "{out}");
    assert!(!out.contains("kxmp_no_memory"), "{out}");
    // Plain loops with two steps are nobody's to take apart.
    let plain = "void f(void)\n{\n  int e[20];\n  for (int x = 0, y = 9; x < 9; x++, y--) e[x + y] = 1;\n}\n";
    assert!(!translated(plain, false).contains("ivdep"));
}

#[test]
fn pointers_that_each_iteration_needs_are_tested_once_for_a_box() {
    let head = "int *d, *e;\n#pragma xmp align [i] with l[i] :: d, e\n";
    let text = format!("{head}void f(int *c)\n{{\n#pragma xmp loop on l[i]\n  for (int i = 0; i < 8; i++) {{\n    if (c[0]) e[i] = 1;\n    d[i] = v[i] ? e[i] : 0;\n  }}\n}}\n");
    let out = translated(&text, false);
    let tests: Vec<&str> = out.matches("kxmp_no_memory(").collect();
    assert!(
        tests.len() == 1 && out.contains("if (__builtin_expect(!kxa_d.base, 0)) kxmp_no_memory("),
        "{out}"
    );
    assert!(out.contains("{ kxmp_array_await(&kxa_a);"), "{out}");
}

#[test]
fn subscripts_of_omni_stay_local_inside_loops() {
    let body = "double f(int *c)\n{\n  int i;\n  double s = 0;\n#pragma xmp loop on t[i][*]\n  for (i = 0; i < 8; i++) s += w[c[3]][0] + w[i + 1][1];\n  return s;\n}\n";
    let out = translated(body, true);
    assert!(out.contains("kxp_w[(c[3]) - kxa_w.map->dim[0].shift][0] + kxp_w[i + 1][1]"), "{out}");
    assert!(translated(body, false).contains("kxp_w[c[3]][0]"));
}

#[test]
fn main_joins_first_and_file_scope_is_made_in_order() {
    let out = translated("int main(int argc, char **argv) { return argc > 1; }\n", false);
    assert!(out.contains("{ kxmp_start((void *)&argc, (void *)&argv); return argc > 1; }"), "{out}");
    let made =
        ["kxn_p = ", "kxt_t = ", "kxmp_distribute(", "kxmp_array_make(&kxa_a", "kxmp_array_make(&kxa_w"];
    let places: Vec<Option<usize>> = made.iter().map(|piece| out.find(piece)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{out}");
    assert!(out.ends_with("kxmp_unit(kx_initialise); }\n"), "{out}");
}

#[test]
fn lines_stay_lines() {
    let body = "int f(void)\n{\n  int x[4];\n  x[0:\n    4] = 7;\n#pragma xmp barrier \\\n  on p\n  return\n    x[1];\n}\n";
    let out = translated(body, false);
    let first = HEAD.lines().count();
    // Behind what was replaced over several lines a marker says where the text goes on.
    assert!(out.contains(&format!("# {} \"a.c\"", first + 5)), "{out}");
    assert!(out.contains(&format!("# {} \"a.c\"", first + 7)), "{out}");
}
