//! The rules of the tree, made executable. Each rule is a module with a function from a [`Tree`] to its
//! [`Violation`]s, so that each is tested on a made-up tree of a few lines: once clean, and once broken, because a
//! check that cannot fail checks nothing.
//!
//! To add a rule, write such a module and add it to [`violations`].

mod arrows;
mod features;
mod layers;
mod length;
mod links;
mod names;
mod source;
mod text;
mod tree;
mod unsafety;
mod values;

use std::fmt;
use std::path::Path;

use crate::{environment, output_of};
use tree::Tree;

/// One broken rule at one place, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Violation {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} — {}", self.path, self.line, self.what, self.remedy)
    }
}

/// Checks everything, prints what is wrong and a summary, and says whether all is well.
pub(crate) fn run(root: &Path) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let found = violations(root, &tree)?;
    for violation in &found {
        println!("{violation}");
    }
    match found.len() {
        0 => println!("tidy: {} files, all is well", tree.len()),
        1 => println!("tidy: {} files, 1 violation", tree.len()),
        n => println!("tidy: {} files, {n} violations", tree.len()),
    }
    Ok(found.is_empty())
}

fn violations(root: &Path, tree: &Tree) -> Result<Vec<Violation>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let metadata = output_of(root, &cargo, &["metadata", "--no-deps", "--format-version", "1"])?;

    let mut found = arrows::check(&metadata)?;
    found.extend(features::check(&output_of(root, &cargo, &features::TREE)?));
    found.extend(tree.unreadable());
    found.extend(unsafety::check(tree));
    found.extend(length::check(tree));
    found.extend(text::check(tree));
    found.extend(layers::check(tree));
    found.extend(values::check(tree));
    found.extend(links::check(tree));
    found.extend(names::check(tree));
    found.extend(environment::check(root));
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let root = crate::root();
        let tree = Tree::read(&root).unwrap();
        let found = violations(&root, &tree).unwrap();
        let shown: Vec<String> = found.iter().map(Violation::to_string).collect();
        assert!(found.is_empty(), "{} violations:\n{}", found.len(), shown.join("\n"));
    }

    #[test]
    fn a_violation_says_where_what_and_what_to_do() {
        let violation = Violation::new("a/b.rs", 3, "is long", "split it");
        assert_eq!(violation.to_string(), "a/b.rs:3: is long — split it");
    }
}
