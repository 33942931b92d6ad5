//! C programs with the directives of XcalableMP: `xmpcc` compiles them, `xmprun` starts them.
//!
//! | folder | what |
//! |---|---|
//! | `programs/` | each is about a directive, a clause or a group of functions, and checks itself. The first lines say on how many nodes it runs, with which flags and other units |
//! | `wrong/` | each is wrong in one way; the first line has the line and what must be said |
//!
//! The examples in XMP C are run here, too, and what they print is compared.

#[path = "../c/stage.rs"]
#[allow(dead_code)]
mod stage;

use libtest_mimic::{Arguments, Trial};
use stage::{fail, repository, succeed, Stage};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let stage = Arc::new(Stage::new());
    let mut trials = Vec::new();
    for path in files("tests/xmp/programs").into_iter().filter(|path| said(path, "nodes:").is_some()) {
        for hosts in ["1", "2"] {
            let (stage, path) = (stage.clone(), path.clone());
            trials.push(Trial::test(format!("programs::{}_on_{hosts}", stem(&path)), move || {
                program(&stage, &path, hosts);
                Ok(())
            }));
        }
    }
    for path in files("tests/xmp/wrong") {
        let stage = stage.clone();
        trials.push(Trial::test(format!("wrong::{}", stem(&path)), move || {
            wrong(&stage, &path);
            Ok(())
        }));
    }
    for (name, expected) in EXAMPLES {
        let stage = stage.clone();
        trials.push(Trial::test(format!("examples::{name}"), move || {
            example(&stage, name, expected);
            Ok(())
        }));
    }
    for (name, body) in [
        ("steps", steps as fn(&Stage)),
        ("text", text),
        ("encoding", encoding),
        ("mpi", mpi),
        ("structures", structures),
        ("lines", lines),
        ("mark_of_encoding", mark_of_encoding),
        ("dependencies", dependencies),
        ("questions", questions),
        ("temporary", temporary),
        ("without_mpi", without_mpi),
        ("elements", elements),
        ("without_communication", without_communication),
        ("checked", checked),
        ("conversion_of_a_section", conversion_of_a_section),
        ("images_from_1", images_from_1),
        ("main_of_others", main_of_others),
        ("without_memory", without_memory),
        ("dummies", dummies),
    ] {
        let stage = stage.clone();
        trials.push(Trial::test(format!("command::{name}"), move || {
            body(&stage);
            Ok(())
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    stage.clear();
    conclusion.exit_code()
}

/// What the examples print, on any number of nodes.
const EXAMPLES: [(&str, &str); 6] = [
    ("laplace", "after 200 steps: largest change 1.173795e-03, sum 680.212186107\n"),
    ("himeno", "33 x 33 x 65, 20 steps: gosa 4.490207e-03\n"),
    ("ep", "2^18 pairs: "),
    ("stream", "triad of 1000000 elements: 0 wrong\n"),
    ("randomaccess", " updates, 0 wrong\n"),
    ("cg", "zeta 8.5971775079, residual small\n"),
];

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("the folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "c"));
    files.sort();
    files
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

/// What a line of the comments at the start says behind a word, to the end of the comment.
fn said(path: &Path, word: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).expect("a program");
    let line =
        text.lines().take(3).find_map(|line| line.split_once(word).map(|(_, rest)| rest.to_owned()))?;
    Some(line.trim_end_matches("*/").trim().to_owned())
}

fn program(stage: &Stage, path: &Path, hosts: &str) {
    let nodes = said(path, "nodes:").expect("how many nodes");
    let nodes = nodes.split(' ').next().unwrap_or("4");
    let program = stage.path("built").join(format!("xmp-{}-{hosts}", stem(path)));
    let mut compile = stage.command("xmpcc");
    compile.args(["-O1", "-Wno-implicit-int"]).arg(path);
    for unit in said(path, "units:").iter().flat_map(|units| units.split(' ')) {
        compile.arg(path.with_file_name(unit));
    }
    compile.args(said(path, "flags:").iter().flat_map(|flags| flags.split(' ')));
    succeed(compile.arg("-o").arg(&program).arg("-lm"));
    let mut job = stage.command("xmprun");
    succeed(job.args(["-n", nodes]).arg(&program).env("KUMIKI_VIRTUAL_NODES", hosts));
}

fn wrong(stage: &Stage, path: &Path) {
    let says = said(path, "says:").expect("what is said");
    let (line, text) = says.split_once(": ").expect("a line");
    let mut compile = stage.command("xmpcc");
    compile.arg("-c").arg(path).arg("-o").arg(stage.path("built/wrong.o"));
    let said = fail(&mut compile, 1, text);
    assert!(said.contains(&format!("{}.c:{line}:", stem(path))), "line {line} is not named:\n{said}");
    assert!(said.contains(" | ") && said.ends_with("^\n"), "the line is not shown:\n{said}");
}

fn example(stage: &Stage, name: &str, expected: &str) {
    let source = repository().join("examples/xmp").join(format!("{name}.c"));
    let program = stage.path("built").join(format!("xmp-example-{name}"));
    let mut compile = stage.command("xmpcc");
    succeed(compile.args(["-O2", "-DM=18"]).arg(source).arg("-o").arg(&program).arg("-lm"));
    for nodes in ["1", "2", "4"] {
        let printed = succeed(stage.command("xmprun").args(["-np", nodes]).arg(&program));
        assert!(printed.contains(expected), "{printed}");
    }
}

/// Objects first, then a program of them; the names of objects and what `--save` keeps.
fn steps(stage: &Stage) {
    let folder = stage.path("built/steps");
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = |name: &str| repository().join("tests/xmp/programs").join(name);
    let mut compile = stage.command("xmpcc");
    succeed(
        compile
            .current_dir(&folder)
            .args(["-c", "--save"])
            .args([source("units.c"), source("units_other.c")]),
    );
    let kept = std::fs::read_to_string(folder.join("units.xmp.c")).expect("the text that is kept");
    assert!(kept.contains("kxmp_start(") && kept.contains("/* Several units:"), "{kept}");
    succeed(stage.command("xmpcc").current_dir(&folder).args(["units.o", "units_other.o", "-o", "units"]));
    succeed(stage.command("xmprun").current_dir(&folder).args(["-n", "4", "./units"]));
    // As `make CC=xmpcc` has it.
    let mut compile = stage.command("xmpcc");
    compile.current_dir(&folder).env("CC", stage.path("bin/xmpcc")).args(["-o", "units"]);
    succeed(compile.args([source("units.c"), source("units_other.c")]));
    let mut twice = stage.command("xmpcc");
    fail(
        twice.current_dir(&folder).arg("--save").args([source("units.c"), source("units.c")]),
        2,
        "units.xmp.c",
    );
    let shown = succeed(stage.command("xmpcc").args(["--show", "-DX=1", "a.c", "-o", "a"]));
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].contains(" -E ") && lines[0].contains("-DX=1") && lines[1].contains("a.xmp.c"),
        "{shown}"
    );
    assert!(lines[1].contains("-lkumiki") && !lines[1].contains("-DX=1"), "{shown}");
}

/// What is not a directive stays as it is written, and the compiler names the user's lines.
fn text(stage: &Stage) {
    let source = stage.path("built/text.c");
    let program = "#include <xmp.h>\n#pragma xmp nodes p[*]\nint main(void)\n{\n#pragma xmp barrier\n  int odd = \"text\";\n  return 0;\n}\n";
    std::fs::write(&source, program).expect("a file");
    let mut compile = stage.command("xmpcc");
    compile.args(["-Werror", "-c"]).arg(&source).arg("-o").arg(stage.path("built/text.o"));
    let said = fail(&mut compile, 1, "text.c:6:");
    assert!(said.contains("int odd"), "{said}");
    let printed = succeed(stage.command("xmpcc").arg("-E").arg(&source));
    assert!(printed.contains("kxmp_barrier(\"") && printed.contains("int odd = \"text\";"), "{printed}");
}

/// Writes a program, compiles it without a word about libraries, and says where it is.
fn built(stage: &Stage, name: &str, text: &[u8]) -> PathBuf {
    let source = stage.path("built").join(format!("xmp-{name}.c"));
    std::fs::write(&source, text).expect("a file");
    let program = source.with_extension("");
    succeed(stage.command("xmpcc").arg(&source).arg("-o").arg(&program).env("MPICC", "mpicc.openmpi"));
    program
}

/// A text that is no UTF-8 stays as it is, here in EUC-JP; and functions of elements are there without `-lm`.
fn encoding(stage: &Stage) {
    let before = b"#include <math.h>\n#include <string.h>\n#include <xmp.h>\n#pragma xmp nodes p[*]\nint main(int argc, char **argv)\n{\n";
    let text = b"  const char *name = \"\xc1\xc8\xcc\xda\"; /* \xc1\xc8 */\n";
    let after = b"  (void)argv;\n  return strlen(name) != 4 || (name[3] & 255) != 0xda || pow(sin(argc), 2.0) > 1.0;\n}\n";
    let program = built(stage, "encoding", &[&before[..], text, after].concat());
    succeed(stage.command("xmprun").args(["-n", "2"]).arg(&program));
    let printed =
        stage.command("xmpcc").arg("-E").arg(program.with_extension("c")).output().expect("a compiler");
    assert!(printed.stdout.windows(6).any(|bytes| bytes == b"\"\xc1\xc8\xcc\xda\""), "{printed:?}");
}

/// A program that includes `xmp.h` before `mpi.h`, or not at all the latter, compiles as it is.
fn mpi(stage: &Stage) {
    let text = "#include <xmp.h>\n#include <mpi.h>\n#pragma xmp nodes p[*]\nint main(int argc, char **argv)\n{\n  int size;\n  \
                xmp_init_mpi(&argc, &argv);\n  MPI_Comm_size(xmp_get_mpi_comm(), &size);\n  xmp_finalize_mpi();\n  return size != 2;\n}\n";
    let program = built(stage, "mpi", text.as_bytes());
    let mut job = std::process::Command::new("mpirun.openmpi");
    job.args(["--oversubscribe", "--allow-run-as-root", "-np", "2"]).arg(&program);
    succeed(job.env("KUMIKI_TIMEOUT", "120s"));
    built(stage, "mpi-alone", text.replace("#include <mpi.h>\n", "").as_bytes());
}

/// `#line` says which file and line a directive is of, also to programs that run.
fn lines(stage: &Stage) {
    let text = "#include <xmp.h>\n#include <string.h>\n#line 100 \"solver.y\"\n#pragma xmp nodes p[*]\n#pragma xmp template t[10]\n\
                #pragma xmp distribute t[block] onto p\ndouble a[10];\n#pragma xmp align a[i] with t[i]\nint line(void) { return __LINE__; }\n\
                #line 7 \"main.y\"\nint main(void)\n{\n  int s = 0;\n#pragma xmp loop on t[i] reduction(+:s)\n  for (int i = 0; i < 10; i++) s += i;\n\
                # 50 \"third.y\"\n  return s != 45 || line() != 105 || strcmp(__FILE__, \"third.y\") || __LINE__ != 50;\n}\n";
    let program = built(stage, "lines", text.as_bytes());
    succeed(stage.command("xmprun").args(["-n", "2"]).arg(&program));
    let source = program.with_extension("c");
    for (right, wrong, said) in [
        ("with t[i]", "with u[i]", "solver.y:104:29: error: template `u`"),
        ("reduction(+:s)", "reduction(+:q)", "main.y:10:38: error: `q` is not declared"),
        ("return s", "return r", "third.y:50:10: error:"),
    ] {
        std::fs::write(&source, text.replace(right, wrong)).expect("a file");
        fail(stage.command("xmpcc").arg("-c").arg(&source), 1, said);
    }
}

/// A mark of the encoding at the beginning, and lines that end with two characters, in the program and in what it includes.
fn mark_of_encoding(stage: &Stage) {
    let header = b"\xef\xbb\xbf#define LIMIT 3\r\n#pragma xmp nodes q[2]\r\n";
    std::fs::write(stage.path("built/marked.h"), header).expect("a file");
    let text = "#pragma xmp nodes p[2]\r\n#include <xmp.h>\r\n#include \"marked.h\"\r\n#define \\\r\n N 8\r\n#pragma xmp template t[N]\r\n\
                #pragma xmp distribute t[block] \\\r\n  onto q\r\nint a[N];\r\n#pragma xmp align a[i] with t[i] // each\r\n\
                int main(void) {\r\n  int s = 0;\r\n#pragma xmp loop on t[i] \\\r\n  reduction(+:s)\r\n  for (int i = 0; i < N; i++) s += LIMIT;\r\n  \
                return s != 8 * LIMIT;\r\n}\r\n";
    let marked = |text: &str| [&b"\xef\xbb\xbf"[..], text.as_bytes()].concat();
    let program = built(stage, "marked", &marked(text));
    succeed(stage.command("xmprun").args(["-n", "2"]).arg(&program));
    let source = program.with_extension("c");
    for (right, wrong, said) in [("p[2]", "p[", "marked.c:1:"), ("+:s", "+:r", "marked.c:14:15: error: `r`")]
    {
        std::fs::write(&source, marked(&text.replace(right, wrong))).expect("a file");
        fail(stage.command("xmpcc").arg("-c").arg(&source), 1, said);
    }
}

/// All that a node had of an array was converted, and booked, where a section was meant.
fn conversion_of_a_section(stage: &Stage) {
    let folder = stage.path("built/conversion");
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = "#include <xmp.h>\n#define N 4194304\n#pragma xmp nodes p[*]\n#pragma xmp template t[N]\n#pragma xmp distribute t[block] onto p\n\
                double a[N];\n#pragma xmp align a[i] with t[i]\nint x, every[16];\nint main(void)\n{\n  int i;\n\
                #pragma xmp loop on t[i]\n  for (i = 0; i < N; i++) a[i] = i + 0.5;\n\
                #pragma xmp gmove\n  x = a[7];\n\
                #pragma xmp gmove\n  every[:] = a[0:16:262144];\n\
                for (i = 0; i < 16; i++) if (every[i] != i * 262144) return 2;\n  return x != 7;\n}\n";
    std::fs::write(folder.join("large.c"), text).expect("a file");
    succeed(stage.command("xmpcc").current_dir(&folder).args(["large.c", "-o", "large"]));
    for hosts in ["1", "2"] {
        let mut job = stage.command("xmprun");
        job.current_dir(&folder).args(["-n", "2", "./large"]).env("KUMIKI_VIRTUAL_NODES", hosts);
        // The array has 16 MiB on each; all of it as numbers of 4 bytes would take 8 more.
        succeed(job.env("KUMIKI_BUDGET", "20M"));
    }
}

/// Old programs count images from 1: an option says so, and who needs it is told.
fn images_from_1(stage: &Stage) {
    let text =
        "#include <xmp.h>\nint x:[*];\nint main(void)\n{\n  x = xmp_this_image();\n  xmp_sync_all(NULL);\n  \
                return x:[1] != 1 || x:[xmp_num_images()] != xmp_num_images();\n}\n";
    let source = stage.path("built/xmp-old-images.c");
    std::fs::write(&source, text).expect("a file");
    let program = source.with_extension("");
    let compile = |options: &[&str]| {
        succeed(stage.command("xmpcc").args(options).arg(&source).arg("-o").arg(&program));
        let mut job = stage.command("xmprun");
        job.args(["-n", "2"]).arg(&program);
        job
    };
    succeed(&mut compile(&["--images-from-1"]));
    let said = compile(&[]).output().expect("a job");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("there is no image 2, counted from 0") || said.contains("status 1"), "{said}");
    std::fs::write(&source, text.replace("x:[1] != 1 || ", "")).expect("a file");
    fail(&mut compile(&[]), 1, "xmpcc --images-from-1");
}

/// A program whose `main` no translator has seen is told so, whatever its loops are over.
fn main_of_others(stage: &Stage) {
    let folder = stage.path("built/main-of-others");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("main.c"), "int work(void);\nint main(void) { return work(); }\n")
        .expect("a file");
    let text = "#include <xmp.h>\n#pragma xmp nodes p[2][*]\n#pragma xmp template t[8][8]\n#pragma xmp distribute t[block][block] onto p\n\
                double a[8][8];\n#pragma xmp align a[i][j] with t[i][j]\nint work(void)\n{\n\
                #pragma xmp loop on t[i][j]\n  for (int i = 0; i < 8; i++)\n    for (int j = 0; j < 8; j++) a[i][j] = i;\n  return 0;\n}\n";
    std::fs::write(folder.join("work.c"), text).expect("a file");
    succeed(std::process::Command::new("cc").current_dir(&folder).args(["-c", "main.c"]));
    succeed(stage.command("xmpcc").current_dir(&folder).args(["main.o", "work.c", "-o", "foreign"]));
    let mut job = stage.command("xmprun");
    fail(job.current_dir(&folder).args(["-n", "2", "./foreign"]), 1, "main must be compiled by xmpcc");
    succeed(stage.command("xmpcc").current_dir(&folder).args(["main.c", "work.c", "-o", "own"]));
    succeed(stage.command("xmprun").current_dir(&folder).args(["-n", "2", "./own"]));
}

/// A loop over a pointer that has no memory says so; one that does not come to it does not.
fn without_memory(stage: &Stage) {
    let text = "#include <xmp.h>\n#pragma xmp nodes p[*]\n#pragma xmp template t[:]\n#pragma xmp distribute t[block] onto p\nint *a, *b;\n\
                #pragma xmp align [i] with t[i] :: a, b\nint main(int count, char **words)\n{\n  int n = 10;\n\
                #pragma xmp template_fix t[10]\n#pragma xmp loop on t[i]\n  for (int i = 0; i < n - 10; i++) a[i] = 1;\n\
                #pragma xmp loop on t[i]\n  for (int i = 0; i < n; i++) {\n    if (!count) a[i] = 1;\n  }\n\
                b = (int *)xmp_malloc(xmp_desc_of(b), 10);\n  if (count > 1) a = (int *)xmp_malloc(xmp_desc_of(a), 10);\n\
                #pragma xmp loop on t[i]\n  for (int i = 0; i < n; i++) {\n    b[i] = i;\n    a[i] = b[i];\n  }\n  return 0;\n}\n";
    let program = built(stage, "no-memory", text.as_bytes());
    let job = |words: &[&str]| {
        let mut job = stage.command("xmprun");
        job.args(["-n", "4"]).arg(&program).args(words);
        job
    };
    succeed(&mut job(&["fill"]));
    fail(
        &mut job(&[]),
        1,
        "xmp-no-memory.c:19: loop: misuse: array a has no memory yet: call xmp_malloc first",
    );
}

/// Of a dummy that stands on one side alone there is a warning.
fn dummies(stage: &Stage) {
    let source = repository().join("tests/xmp/programs/dummies.c");
    let mut compile = stage.command("xmpcc");
    compile.args(["-Werror", "-c"]).arg(source).arg("-o").arg(stage.path("built/dummies.o"));
    fail(&mut compile, 1, "dummies.c:10:13: error: c: i does not stand on the side of the template");
}

/// What depends on what is written for `make`, and names the user's files.
fn dependencies(stage: &Stage) {
    let folder = stage.path("built/dependencies");
    std::fs::create_dir_all(folder.join("sub")).expect("a folder");
    let text = "#include <xmp.h>\n#include \"sub/own.h\"\n#pragma xmp nodes p[*]\nint main(void)\n{\n#pragma xmp barrier\n  return ZERO;\n}\n";
    std::fs::write(folder.join("main.c"), text).expect("a file");
    std::fs::write(folder.join("sub/own.h"), "#define ZERO 0\n").expect("a file");
    let xmpcc = |words: &str| succeed(stage.command("xmpcc").current_dir(&folder).args(words.split(' ')));
    let written =
        |name: &str| std::fs::read_to_string(folder.join(name)).expect("the rules").replace("\\\n", "");
    let headers = format!("{} sub/own.h", stage.path("include/xmp.h").display());
    for (words, name, target) in [
        ("-MMD -c main.c", "main.d", "main.o"),
        ("-MMD -c main.c -o sub/other.o", "sub/other.d", "sub/other.o"),
        // As automake, CMake and the kernel have it.
        ("-MT goal.o -MMD -MP -MF sub/goal.Tpo -c -o goal.o main.c", "sub/goal.Tpo", "goal.o"),
        ("-MMD -MQ a.dir/main.c.o -MF main.c.o.d -o main.c.o -c main.c", "main.c.o.d", "a.dir/main.c.o"),
        ("-Wp,-MMD,kernel.d -c main.c", "kernel.d", "main.o"),
        ("-MMD main.c -o program", "program.d", "program"),
        ("-MM main.c -MF only.d", "only.d", "main.o"),
        ("-MM main.c -o only2.d -MT x", "only2.d", "x"),
    ] {
        xmpcc(words);
        let rules = written(name);
        let first = rules.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(first, format!("{target}: main.c {headers}"), "{words}");
        assert_eq!(rules.contains("sub/own.h:\n"), words.contains("-MP"), "{words}: {rules}");
    }
    assert!(!folder.join("only.o").exists() && folder.join("sub/other.o").exists());
    assert!(xmpcc("-M main.c").contains("main.o: main.c"));
    // It goes before whatever else is asked for.
    for behind in ["-c", "-S", "-fsyntax-only"] {
        assert!(xmpcc(&format!("-MM main.c {behind}")).contains("main.o: main.c"), "{behind}");
    }
    // What is for one file has those of all: the last ones went where the others had been.
    std::fs::write(folder.join("more.c"), "#warning once\nint more;\n").expect("a file");
    let mut compile = stage.command("xmpcc");
    let said = fail(compile.current_dir(&folder).args("-MMD main.c more.c -o two".split(' ')), 0, "once");
    assert_eq!(said.matches("#warning").count(), 2, "the line and its text: {said}");
    let of_all = |name: &str, targets: [&str; 2]| {
        let rules = written(name);
        let is_there = |rule: String| rules.starts_with(&rule) || rules.contains(&format!("\n{rule}"));
        is_there(format!("{}: main.c", targets[0])) && is_there(format!("{}: more.c", targets[1]))
    };
    assert!(of_all("two.d", ["two"; 2]));
    xmpcc("--show -MMD main.c more.c -o shown");
    assert!(!folder.join("shown.d").exists());
    for words in ["-MM main.c more.c -o both.d", "-M main.c more.c -MF both.d"] {
        std::fs::write(folder.join("both.d"), "old").expect("a file");
        succeed(stage.command("xmpcc").current_dir(&folder).args(words.split(' ')));
        assert!(of_all("both.d", ["main.o", "more.o"]), "{words}");
    }
    xmpcc("-MD -c main.c");
    assert!(written("main.d").contains("stdc-predef.h") || written("main.d").contains("/usr/"));
    succeed(stage.command("xmprun").current_dir(&folder).args(["-n", "2", "./program"]));
}

/// What build systems ask a compiler, with and without sources.
fn questions(stage: &Stage) {
    let folder = stage.path("built/questions");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(
        folder.join("none.c"),
        "#include <xmp.h>\n#define OWN 5\nint main(void) { return OWN - FIVE; }\n",
    )
    .expect("a file");
    let xmpcc = |words: &str| {
        let mut compile = stage.command("xmpcc");
        compile.current_dir(&folder).args(words.split(' '));
        compile
    };
    let version = succeed(&mut xmpcc("--version"));
    assert!(version.lines().count() > 1 && version.contains("xmpcc of Kumiki"), "{version}");
    assert!(succeed(&mut xmpcc("--help")).contains("--omni-local-subscripts"));
    assert!(succeed(&mut xmpcc("--help")).contains("--images-from-1"));
    succeed(&mut xmpcc("-v"));
    assert!(!succeed(&mut xmpcc("-dumpmachine")).is_empty());
    assert!(succeed(&mut xmpcc("-E -dM -x c /dev/null")).contains("#define _XCALABLEMP "));
    assert!(succeed(&mut xmpcc("-E -dM none.c")).contains("#define OWN 5"));
    let text = succeed(&mut xmpcc("-E -P -DFIVE=5 none.c"));
    assert!(text.contains("kxmp_start(") && !text.contains("\n# "), "{text}");
    fail(&mut xmpcc("-E missing.c"), 2, "missing.c");
    fail(&mut xmpcc("--no-such-option -DFIVE=5 -c none.c"), 1, "--no-such-option");
    succeed(&mut xmpcc("-S -g -O2 -Wall -std=gnu11 -DFIVE=5 none.c"));
    succeed(&mut xmpcc("-c none.s"));
    succeed(&mut xmpcc("none.o -Wl,--as-needed -L . -lm -o none"));
    succeed(stage.command("xmprun").current_dir(&folder).args(["-n", "2", "./none"]));
    succeed(&mut xmpcc("-D FIVE=5 -U OWN -I . -isystem . -fsyntax-only none.c"));
}

/// Nothing of what is made on the way is left, and runs at the same time do not meet, whatever their sources are called.
fn temporary(stage: &Stage) {
    let folder = stage.path("built/temporary");
    let way = folder.join("way");
    std::fs::create_dir_all(&way).expect("a folder");
    let text = |number: usize, more: &str| {
        format!("#include <xmp.h>\n#pragma xmp nodes p[*]\nint main(void)\n{{\n#pragma xmp barrier {more}\n  return xmp_num_nodes() - 2 + {number} - NUMBER;\n}}\n")
    };
    let many: Vec<_> = (0..6)
        .map(|number| {
            let own = folder.join(number.to_string());
            std::fs::create_dir_all(&own).expect("a folder");
            std::fs::write(own.join("same.c"), text(number, "")).expect("a file");
            let mut compile = stage.command("xmpcc");
            compile.env("TMPDIR", &way).current_dir(&own).arg(format!("-DNUMBER={number}"));
            (own, compile.args(["-g", "same.c", "-o", "same"]).spawn().expect("a compiler"))
        })
        .collect();
    for (own, mut compile) in many {
        assert!(compile.wait().expect("an end").success());
        assert_eq!(files_of(&own), ["same", "same.c"]);
        succeed(stage.command("xmprun").current_dir(&own).args(["-n", "2", "./same"]));
    }
    let own = folder.join("0");
    for (words, more, said) in [
        ("-DNUMBER=0 -MMD", "on q", "wrong.c:5:"),
        ("-MMD", "", "wrong.c:6:"),
        ("-DNUMBER=0 -lnot_there", "", "-lnot_there"),
        ("-include not_there.h", "", "not_there.h"),
    ] {
        std::fs::write(own.join("wrong.c"), text(0, more)).expect("a file");
        let mut compile = stage.command("xmpcc");
        compile.env("TMPDIR", &way).current_dir(&own).args(words.split(' '));
        fail(compile.args(["wrong.c", "-o", "wrong"]), 1, said);
        assert!(!own.join("wrong").exists());
    }
    assert!(files_of(&way).is_empty(), "{:?}", files_of(&way));
}

fn files_of(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A communicator of MPI before MPI is there, or when it is no more, is refused in words.
fn without_mpi(stage: &Stage) {
    let text = |before: &str| {
        format!("#include <xmp.h>\n#include <mpi.h>\n#pragma xmp nodes p[*]\nint main(int argc, char **argv)\n{{\n  int size;\n  (void)argc, (void)argv;\n  {before}\n  MPI_Comm_size(xmp_get_mpi_comm(), &size);\n  return 0;\n}}\n")
    };
    for (name, before, says) in [
        ("mpi-never", "", "MPI is not initialised: call xmp_init_mpi"),
        ("mpi-ended", "xmp_init_mpi(&argc, &argv); xmp_finalize_mpi();", "MPI is finalized"),
    ] {
        let program = built(stage, name, text(before).as_bytes());
        let mut job = std::process::Command::new("mpirun.openmpi");
        job.args(["--oversubscribe", "--allow-run-as-root", "-np", "1"]).arg(&program);
        let done = job.env("KUMIKI_TIMEOUT", "120s").output().expect("mpirun");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && said.contains(says), "{said}");
    }
}

/// What C cannot assign is refused where the assignment is.
fn structures(stage: &Stage) {
    let text = "#include <xmp.h>\n#pragma xmp nodes p[*]\n#pragma xmp template t[8]\n#pragma xmp distribute t[block] onto p\n\
                struct pair { int one, two; } a[8];\ndouble b[8];\n#pragma xmp align [i] with t[i] :: a, b\n\
                int main(void)\n{\n#pragma xmp gmove\n  b[:] = a[:];\n  return 0;\n}\n";
    let source = stage.path("built/pairs.c");
    std::fs::write(&source, text).expect("a file");
    let mut compile = stage.command("xmpcc");
    compile.arg("-c").arg(&source).arg("-o").arg(stage.path("built/pairs.o"));
    let said = fail(&mut compile, 1, "incompatible types when assigning to type");
    assert!(said.contains("pairs.c:10:") || said.contains("pairs.c:11:"), "{said}");
}

/// What would combine different elements of an array, or replace them, is refused; also where a node has none.
fn elements(stage: &Stage) {
    let text = |directive: &str| {
        format!(
            "#include <xmp.h>\n#pragma xmp nodes p[*]\n#pragma xmp template t[5]\n#pragma xmp distribute t[block] onto p\nint a[5];\n\
             #pragma xmp align a[i] with t[i]\nint main(void)\n{{\n#pragma xmp {directive}\n  return 0;\n}}\n"
        )
    };
    for (name, directive) in [("reduced", "reduction(+:a)"), ("given", "bcast(a)")] {
        let program = built(stage, name, text(directive).as_bytes());
        succeed(stage.command("xmprun").args(["-n", "1"]).arg(&program));
        let mut job = stage.command("xmprun");
        let said = fail(job.args(["-n", "4"]).arg(&program), 1, "have different elements");
        assert!(said.contains(&format!("xmp-{name}.c:9")), "{said}");
    }
}

/// A task with `nocomm` does not change who executes: what would wait for nodes outside it is refused, and nobody waits.
fn without_communication(stage: &Stage) {
    for (name, directive) in [
        ("nocomm-reduction", "reduction(+:s)"),
        ("nocomm-barrier", "barrier on p"),
        ("nocomm-bcast", "bcast(s) from p[0]"),
    ] {
        let text = format!(
            "#include <xmp.h>\n#pragma xmp nodes p[4]\nint main(void)\n{{\n  int s = 1;\n#pragma xmp task on p[1:2] nocomm\n  {{\n#pragma xmp {directive}\n  \
             }}\n  return s != 1;\n}}\n"
        );
        let program = built(stage, name, text.as_bytes());
        let mut job = stage.command("xmprun");
        let said = fail(job.args(["-n", "4"]).arg(&program), 1, "is not in the task around this");
        assert!(said.contains(&format!("xmp-{name}.c:8")), "{said}");
    }
}

/// In the checked mode what nodes do together is compared, and both places are named.
fn checked(stage: &Stage) {
    let text = "#include <xmp.h>\n#pragma xmp nodes p[*]\n#pragma xmp template t[8]\n#pragma xmp distribute t[block] onto p\nint a[8], b[8];\n\
                #pragma xmp align a[i] with t[i]\n#pragma xmp align b[i] with t[i]\nint main(int argc, char **argv)\n{\n  int first = argc > 1 ? xmpc_node_num() : 1;\n  \
                (void)argv;\n#pragma xmp barrier\n#pragma xmp gmove\n  a[first:4] = b[2:4];\n  if (xmpc_node_num() == 0) {\n#pragma xmp barrier\n  } else {\n\
                #pragma xmp barrier\n  }\n  return 0;\n}\n";
    let program = built(stage, "checked", text.as_bytes());
    succeed(stage.command("xmprun").args(["-n", "2"]).arg(&program).env("KUMIKI_CHECK", "1"));
    let mut job = stage.command("xmprun");
    let said = fail(
        job.args(["-n", "2"]).arg(&program).arg("differ").env("KUMIKI_CHECK", "1"),
        1,
        "rank 0 calls gmove(a ",
    );
    assert!(said.contains("and rank 1 calls gmove(a ") && said.contains("xmp-checked.c:13"), "{said}");
    let text = "#include <xmp.h>\n#pragma xmp nodes p[*]\n#pragma xmp template t[8]\n#pragma xmp distribute t[block] onto p\nint main(void)\n{\n  \
                int s = 0, end = 8 - xmpc_node_num();\n#pragma xmp loop on t[i] reduction(+:s)\n  for (int i = 0; i < end; i++) s += i;\n  return 0;\n}\n";
    let program = built(stage, "bounds", text.as_bytes());
    let mut job = stage.command("xmprun");
    let said = fail(
        job.args(["-n", "2"]).arg(&program).env("KUMIKI_CHECK", "1"),
        1,
        "rank 0 calls loop(0 to 7 by 1",
    );
    assert!(said.contains("and rank 1 calls loop(0 to 6 by 1") && said.contains("xmp-bounds.c:8"), "{said}");
}
