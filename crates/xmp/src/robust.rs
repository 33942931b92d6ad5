//! Whatever the text is, the translator answers: with C or with what is wrong.

use crate::{mark, translate, Options};
use std::collections::HashMap;
use std::path::Path;

fn answer(text: &str) -> Result<String, Vec<crate::Diagnostic>> {
    let marked = mark(text, &mut |_, _| None);
    let files = HashMap::from([("a.c".to_owned(), text.to_owned())]);
    let answer = translate(&format!("# 1 \"a.c\"\n{marked}"), &files, &Options::default());
    if let Err(problems) = &answer {
        for problem in problems {
            assert!(!problem.to_string().is_empty());
        }
    }
    answer
}

fn programs() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = Vec::new();
    for folder in ["tests/xmp/programs", "tests/xmp/wrong", "examples/xmp"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        texts.extend(paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()));
    }
    texts
}

/// A generator that is the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn programs_that_end_anywhere_are_answered() {
    for (index, text) in programs().iter().enumerate() {
        let mut at = index % 7;
        while at < text.len() {
            if let Some(piece) = text.get(..at) {
                let _ = answer(piece);
            }
            at += 41;
        }
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn programs_with_something_changed_are_answered() {
    const PIECES: [&str; 28] = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        ":[",
        "*",
        ";",
        ",",
        "\"",
        "'",
        "#",
        "#pragma xmp ",
        "\\\n",
        "/*",
        "=",
        "a",
        "0",
        "for (",
        "t(",
        "::",
        "é",
        "__kxmp_end__",
        "__kxmp_begin_xmp__",
        "struct",
        "typedef ",
    ];
    let mut random = Random(7);
    for text in programs() {
        for _ in 0..60 {
            let mut changed = text.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len());
                let end = (at + random.below(12)).min(changed.len());
                let piece = PIECES[random.below(PIECES.len())];
                if changed.is_char_boundary(at) && changed.is_char_boundary(end) {
                    changed.replace_range(at..end, if random.below(4) == 0 { "" } else { piece });
                }
            }
            let _ = answer(&changed);
        }
    }
}

#[test]
fn what_is_deep_is_refused() {
    for (open, close) in [("(", ")"), ("{", "}"), ("[", "]"), ("-", ""), ("if (a) ", ";"), ("a ? a : ", "a")]
    {
        let body = format!("{}1{}", open.repeat(5000), close.repeat(5000));
        let _ = answer(&format!(
            "#pragma xmp nodes p[4]\nint main(void) {{\n#pragma xmp barrier\n  x = {body}; {body} }}\n"
        ));
        let _ = answer(&format!("#pragma xmp nodes p{body}\n"));
        let _ = answer(&format!("int x{body};\n"));
    }
}

#[test]
fn what_has_nothing_of_xmp_stays_as_it_is() {
    let text = "int f(int x)\n{\n  return x ?: ({ 1; });   /* kept */\n}\nint g() { nested(int y) { } }\n";
    let out = answer(text).unwrap();
    assert!(out.contains(text), "{out}");
}
