//! Files that are named in the documents and in the tables at the head of modules: each must be there, under that name.

use pulldown_cmark::{Event, Parser};

use super::tree::Tree;
use super::Violation;

/// Folders that are named before a tool has made them.
const MADE_LATER: [&str; 1] = ["fuzz/artifacts"];

/// Tells of names that have gone since.
const HISTORY: &str = "CHANGELOG.md";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.texts() {
        let missing = match path.rsplit_once('.') {
            Some((_, "md")) if path != HISTORY => in_document(tree, text),
            Some((_, "rs")) => in_table(tree, path, text),
            _ => continue,
        };
        for (line, name) in missing {
            found.push(Violation::new(path, line, format!("{name} is not there"), "name what is"));
        }
    }
    found
}

/// Paths between backquotes that lead nowhere, with their lines.
fn in_document(tree: &Tree, text: &str) -> Vec<(usize, String)> {
    let mut missing = Vec::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        let Event::Code(code) = event else { continue };
        if place_of(tree, &code).is_some_and(|place| !tree.contains(&place)) {
            missing.push((text[..range.start].matches('\n').count() + 1, code.into_string()));
        }
    }
    missing
}

/// Where in the repository a path leads: from its root, or from the folder of the crates. `None` for what is no such path.
fn place_of(tree: &Tree, code: &str) -> Option<String> {
    let path = code.trim_end_matches('/');
    let (first, rest) = path.split_once('/')?;
    let of_path = |character: char| character.is_ascii_alphanumeric() || "_./+-".contains(character);
    if first.is_empty() || !path.chars().all(of_path) || MADE_LATER.contains(&path) {
        return None;
    }
    let of_crate = rest == "src" || rest.starts_with("src/") || rest.starts_with("include/");
    if tree.contains(first) {
        Some(path.to_owned())
    } else {
        (of_crate && tree.contains(&format!("crates/{first}"))).then(|| format!("crates/{path}"))
    }
}

/// Files in the first column of a module's table that do not lie beside it, with their lines.
fn in_table(tree: &Tree, path: &str, text: &str) -> Vec<(usize, String)> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut missing = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(row) = line.strip_prefix("//! | ") else { continue };
        let names = row.split('|').next().unwrap_or_default().split('`').skip(1).step_by(2);
        for name in names.filter(|name| name.ends_with(".rs") || name.ends_with('/')) {
            if !tree.contains(&format!("{folder}/{}", name.trim_end_matches('/'))) {
                missing.push((index + 1, name.to_owned()));
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::of(&[(path, text), ("crates/net/src/agent/hub/mod.rs", ""), ("docs/a.md", "")]);
        check(&tree).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn files_that_are_named_and_not_there_are_found() {
        assert_eq!(lines_found("docs/b.md", "a\n`net/src/agent/hub.rs`, `docs/c.md`\n"), [2, 2]);
        assert_eq!(lines_found("README.md", "`crates/net/src/no/`\n"), [1]);
    }

    #[test]
    fn files_that_are_there_and_what_is_no_path_of_ours_pass() {
        let text = "`net/src/agent/hub`, `crates/net/`, `docs/a.md`, `net/hub`, `/dev/shm`, `a/b`, `docs/*.md`, `fuzz/artifacts/`\n";
        assert_eq!(lines_found("docs/b.md", text), [0_usize; 0]);
        assert_eq!(lines_found("CHANGELOG.md", "`docs/gone.md`\n"), [0_usize; 0]);
    }

    #[test]
    fn a_table_that_calls_a_folder_a_file_is_found() {
        let text = "//! A.\n//!\n//! | file | what |\n//! | `hub.rs` | a value |\n//! | `hub/`, `mod.rs` | in `old.rs` |\n";
        assert_eq!(lines_found("crates/net/src/agent/mod.rs", text), [4]);
    }
}
