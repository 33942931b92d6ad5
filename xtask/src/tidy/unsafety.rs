//! Where the keyword `unsafe` may stand, and that each use says why it is right.

use proc_macro2::Delimiter;

use super::source::{as_group, attribute_at, is_word, line_of, Source};
use super::tree::Tree;
use super::Violation;

/// Where `unsafe` is allowed, and why. The rest of `crates/` does without.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/net/src/os/", "the only system calls of the workspace"),
    ("crates/net/src/shm/", "structures in memory that other processes map"),
    ("crates/mem/src/", "the soundness boundary: raw remote bytes in, checked handles out"),
    ("crates/c/", "pointers that come from C"),
    ("crates/derive/src/", "implementations that are written into programs, behind checks"),
];

/// The crate that users name promises by an attribute that it has none.
const FORBIDS: &str = "crates/kumiki/src/lib.rs";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, source) in tree.sources().filter(|(path, _)| path.starts_with("crates/")) {
        if ALLOWED.iter().any(|(prefix, _)| path.starts_with(prefix)) {
            found.extend(unexplained(path, source));
        } else {
            found.extend(misplaced(path, source));
        }
        if path == FORBIDS && !forbids_unsafe(source) {
            found.push(Violation::new(path, 1, "may use unsafe code", "add #![forbid(unsafe_code)]"));
        }
    }
    found
}

fn misplaced(path: &str, source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    source.each_level(&mut |level| {
        for token in level.iter().filter(|token| is_word(Some(token), "unsafe")) {
            found.push(Violation::new(
                path,
                line_of(token),
                "`unsafe` outside the places for it",
                "use a safe wrapper of kumiki-net's os or of kumiki-mem, or add the place to xtask/src/tidy/unsafety.rs",
            ));
        }
    });
    found
}

/// Blocks and impls without a `// SAFETY:` comment. Clippy asks for it too, but only in what this configuration
/// compiles: not under other targets, `cfg(loom)`, or in a macro that nobody calls.
fn unexplained(path: &str, source: &Source) -> Vec<Violation> {
    let lines: Vec<&str> = source.text().lines().collect();
    let mut found = Vec::new();
    source.each_level(&mut |level| {
        for (at, token) in level.iter().enumerate() {
            let next = level.get(at + 1);
            let needs_reason = as_group(next, Delimiter::Brace).is_some() || is_word(next, "impl");
            if is_word(Some(token), "unsafe") && needs_reason && !explained(&lines, line_of(token)) {
                found.push(Violation::new(
                    path,
                    line_of(token),
                    "`unsafe` without a reason",
                    "add a `// SAFETY:` comment above it that names the invariant and who upholds it",
                ));
            }
        }
    });
    found
}

/// Whether the comment stands on the line (from 1), or above it in the same statement.
fn explained(lines: &[&str], line: usize) -> bool {
    let mut above = lines[..line].iter().rev();
    let has_comment =
        |line: &str| line.split_once("//").is_some_and(|(_, comment)| comment.contains("SAFETY:"));
    if above.next().is_some_and(|own| has_comment(own)) {
        return true;
    }
    for line in above.map(|line| line.trim()) {
        if has_comment(line) {
            return true;
        }
        let is_comment = line.starts_with("//");
        if line.is_empty() || (!is_comment && line.ends_with([';', '{', '}'])) {
            return false;
        }
    }
    false
}

fn forbids_unsafe(source: &Source) -> bool {
    let mut forbids = false;
    source.each_level(&mut |level| {
        for attribute in (0..level.len()).filter_map(|at| attribute_at(level, at)) {
            let lints = as_group(attribute.content.get(1), Delimiter::Parenthesis);
            let named = lints.is_some_and(|lints| {
                lints.stream().into_iter().any(|lint| is_word(Some(&lint), "unsafe_code"))
            });
            forbids |= attribute.inner && is_word(attribute.content.first(), "forbid") && named;
        }
    });
    forbids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(path: &str, text: &str) -> Vec<usize> {
        let mut lines: Vec<usize> =
            check(&Tree::of(&[(path, text)])).iter().map(|violation| violation.line).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn unsafe_outside_its_places_is_found() {
        let text = "//! A.\nfn f() {\n    unsafe { g() }\n}\nmacro_rules! m { () => { unsafe { g() } } }\n";
        assert_eq!(lines_found("crates/run/src/spawn.rs", text), [3, 5]);
        assert_eq!(lines_found("crates/net/src/wire/mod.rs", text), [3, 5]);
    }

    #[test]
    fn the_word_in_comments_strings_and_lints_is_not_the_keyword() {
        let text = "//! unsafe\n#![deny(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe {}\";\n";
        assert_eq!(lines_found("crates/run/src/lib.rs", text), [0_usize; 0]);
    }

    #[test]
    fn what_is_outside_crates_is_left_to_clippy() {
        assert_eq!(lines_found("benches/peers/a.rs", "fn f() { unsafe { g() } }"), [0_usize; 0]);
    }

    #[test]
    fn unsafe_without_a_reason_is_found() {
        let text = "fn f() {\n    unsafe { g() }\n}\n\nunsafe impl Send for A {}\n";
        assert_eq!(lines_found("crates/mem/src/node/copy.rs", text), [2, 5]);
        let far = "fn f() {\n    // SAFETY: Not of this statement.\n    h();\n    unsafe { g() }\n}\n";
        assert_eq!(lines_found("crates/mem/src/node/copy.rs", far), [4]);
    }

    #[test]
    fn unsafe_with_a_reason_passes() {
        let text = "fn f() {\n    // SAFETY: So that\n    // it is right;\n    let a =\n        unsafe { g() };\n}\n\
                    // SAFETY: No pointer.\n#[cfg(a)]\nunsafe impl Send for A {}\nunsafe fn h() {}\nunsafe extern \"C\" {}\n";
        assert_eq!(lines_found("crates/mem/src/node/copy.rs", text), [0_usize; 0]);
    }

    #[test]
    fn the_users_crate_without_its_promise_is_found() {
        assert_eq!(lines_found(FORBIDS, "//! A.\n#![deny(unsafe_code)]\n"), [1]);
        assert_eq!(lines_found(FORBIDS, "//! A.\n#![forbid(unsafe_code)]\n"), [0_usize; 0]);
    }
}
