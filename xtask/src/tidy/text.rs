//! What no file may hold: paths of somebody's machine, stray white space, unfinished code, tests that do not run.

use super::source::{attribute_at, is_mark, is_word, line_of, Source};
use super::tree::Tree;
use super::Violation;

/// Folders at the root of a file system that differ from machine to machine.
const MACHINE_FOLDERS: [&str; 4] = ["work", "root", "home", "farm"];

/// Macros that mark code as unfinished.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Folders whose files are inputs of a fuzzer: bytes, even where they look like text.
const INPUTS: [&str; 2] = ["corpus", "seeds"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !path.split('/').any(|part| INPUTS.contains(&part))) {
        for (index, line) in text.split_terminator('\n').enumerate() {
            found.extend(check_line(path, index + 1, line));
        }
    }
    for (path, source) in tree.sources() {
        if !source.text().starts_with("//!") {
            let remedy = "open it with a paragraph: what it is, what it may use, who uses it";
            found.push(Violation::new(path, 1, "does not start with `//!`", remedy));
        }
        found.extend(unfinished(path, source));
    }
    found
}

fn check_line(path: &str, number: usize, line: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    if let Some(folder) = machine_path(line) {
        let remedy = "use a path from the root of the repository, or a variable";
        found.push(Violation::new(path, number, format!("has a path of one machine, {folder}"), remedy));
    }
    // A patch keeps the white space of what it patches.
    if line.ends_with([' ', '\t', '\r']) && !path.ends_with(".patch") && !path.ends_with(".diff") {
        found.push(Violation::new(path, number, "has white space at its end", "delete it"));
    }
    if line.contains('\t') && path.ends_with(".rs") {
        found.push(Violation::new(
            path,
            number,
            "has a tab",
            "indent with spaces, and write `\\t` in a string",
        ));
    }
    found
}

/// The machine's folder that an absolute path in `line` starts with.
fn machine_path(line: &str) -> Option<String> {
    let continues_a_path = |character: char| character.is_alphanumeric() || "._-~/})>*$".contains(character);
    MACHINE_FOLDERS.iter().map(|folder| format!("/{folder}/")).find(|folder| {
        line.match_indices(folder.as_str()).any(|(at, _)| !line[..at].ends_with(continues_a_path))
    })
}

fn unfinished(path: &str, source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    source.each_level(&mut |level| {
        for (at, token) in level.iter().enumerate() {
            let name = UNFINISHED.iter().find(|name| is_word(Some(token), name));
            if let Some(name) = name.filter(|_| is_mark(level.get(at + 1), '!')) {
                let remedy = "finish it, or return an error that says what is missing";
                found.push(Violation::new(path, line_of(token), format!("has {name}!"), remedy));
            }
            if attribute_at(level, at).is_some_and(|attribute| is_word(attribute.content.first(), "ignore")) {
                let remedy = "repair the test or delete it";
                found.push(Violation::new(path, line_of(token), "has a test that does not run", remedy));
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&Tree::of(&[(path, text)]))
            .into_iter()
            .map(|violation| (violation.line, violation.what))
            .collect()
    }

    #[test]
    fn clean_text_passes() {
        let text =
            "//! A.\n// todo!() and #[ignore]\nconst A: &str = \"dbg!(1)\";\nfn todo() { ignore(); }\n";
        assert_eq!(found("a.rs", text), []);
        assert_eq!(found("Makefile", "a:\n\tb\n"), []);
        assert_eq!(found("a.patch", " \n"), []);
        assert_eq!(found("fuzz/corpus/frame/1", "a \n"), []);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(found("a.md", &format!("see\n`/{folder}/x`\n"))[0].0, 2);
            assert_eq!(found("a", &format!("/{folder}/x\n")).len(), 1);
            assert_eq!(
                found("a", &format!("$HOME/{folder}/x https://a.org/{folder}/ {{dir}}/{folder}/x\n")),
                []
            );
        }
    }

    #[test]
    fn stray_white_space_is_found() {
        assert_eq!(found("a.md", "a \nb\t\nc\r\nd\n").len(), 3);
        assert_eq!(found("a.rs", "//! A.\n\tfn f() {}\n"), [(2, "has a tab".to_owned())]);
    }

    #[test]
    fn unfinished_code_is_found() {
        for name in UNFINISHED {
            let text = format!("//! A.\nfn f() {{\n    g({name}!())\n}}\n");
            assert_eq!(found("a.rs", &text), [(3, format!("has {name}!"))]);
        }
    }

    #[test]
    fn tests_that_do_not_run_are_found() {
        assert_eq!(found("a.rs", "//! A.\n#[test]\n#[ignore]\nfn f() {}\n")[0].0, 3);
        assert_eq!(found("a.rs", "//! A.\nmod t {\n    #[ignore = \"slow\"]\n    fn f() {}\n}\n")[0].0, 3);
    }

    #[test]
    fn a_module_without_its_paragraph_is_found() {
        assert_eq!(found("a.rs", "// A.\n")[0].1, "does not start with `//!`");
        assert_eq!(found("a.rs", "")[0].0, 1);
    }
}
