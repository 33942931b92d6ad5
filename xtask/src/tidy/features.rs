//! What is installed has none of the optional features of our crates: the tests are built with all of them, and no line of a manifest
//! that was meant for a test may bring one into the command or the C library, and so onto the hot path.

use super::Violation;

/// What `./x install` installs, as `cargo tree` is asked about it: each crate in it, and its features behind a bar.
pub(super) const TREE: [&str; 11] = [
    "tree",
    "--package",
    "kumiki-cli",
    "--package",
    "kumiki-c",
    "--edges",
    "normal",
    "--prefix",
    "none",
    "--format",
    "{p}|{f}",
];

/// Checks the output of [`TREE`].
pub(super) fn check(tree: &str) -> Vec<Violation> {
    let mut found: Vec<Violation> = tree.lines().filter_map(violation).collect();
    found.sort();
    found.dedup();
    found
}

fn violation(line: &str) -> Option<Violation> {
    let (package, features) = line.split_once('|')?;
    let name = package.split(' ').next()?;
    // cargo marks what it has shown before.
    let features = features.trim_end_matches("(*)").trim();
    if features.is_empty() || !(name == "kumiki" || name.starts_with("kumiki-")) {
        return None;
    }
    let what = format!("what is installed has {name} with {features}");
    Some(Violation::new("Cargo.toml", 1, what, "ask for features in dev-dependencies only"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_others_pass() {
        let tree = "kumiki-cli v0.1.0 (/r/crates/cli)|\nclap v4.5.0|derive,env\nkumiki v0.1.0 (/r/crates/kumiki)| (*)\n\n";
        assert_eq!(check(tree), vec![]);
    }

    #[test]
    fn a_feature_of_ours_is_found_once() {
        let tree =
            "kumiki-mem v0.1.0 (/r/crates/mem)|tracing\nkumiki-mem v0.1.0 (/r/crates/mem)|tracing (*)\n";
        let found = check(tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "what is installed has kumiki-mem with tracing");
    }
}
