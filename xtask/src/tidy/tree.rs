//! The files that the rules look at: what git tracks, and what it would track if added now, so that a violation is
//! seen before it is committed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::source::Source;
use super::Violation;
use crate::output_of;

/// Folders that hold what tools make, for a copy of the tree that came without git.
const MADE_BY_TOOLS: [&str; 3] = [".git", "target", "artifacts"];

/// The text files of the repository by their path from its root, with `/` between the parts.
pub(super) struct Tree {
    files: BTreeMap<String, File>,
}

struct File {
    /// `None` for what is not text.
    text: Option<String>,
    /// For `.rs` files: the tokens, or where and why they could not be read.
    source: Option<Result<Source, (usize, String)>>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut paths = Vec::new();
        // The owner of a checkout in a container is often somebody else, which git would refuse.
        let listing =
            ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        match output_of(root, "git", &listing) {
            Ok(listed) => paths.extend(listed.split_terminator('\0').map(str::to_owned)),
            Err(_) => walk(root, "", &mut paths)?,
        }
        let mut files = BTreeMap::new();
        for path in paths {
            let place = root.join(&path);
            // A file that was deleted but not yet from the index is listed too; a link is checked where it points.
            if !fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_file()) {
                continue;
            }
            let bytes = fs::read(&place).map_err(|error| format!("{path} could not be read: {error}"))?;
            files.insert(path.clone(), File::new(&path, bytes));
        }
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files =
            files.iter().map(|(path, text)| ((*path).to_owned(), File::new(path, text.as_bytes().to_vec())));
        Self { files: files.collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether `path` is a file, or a folder with a file in it.
    pub(super) fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// Every text file.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, file)| Some((path.as_str(), file.text.as_deref()?)))
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }

    /// Every Rust file that could be read.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.files
            .iter()
            .filter_map(|(path, file)| Some((path.as_str(), file.source.as_ref()?.as_ref().ok()?)))
    }

    /// The Rust files that could not be read, which no other rule would see.
    pub(super) fn unreadable(&self) -> Vec<Violation> {
        let failures = self.files.iter().filter_map(|(path, file)| match &file.source {
            Some(Err((line, message))) => Some(Violation::new(
                path,
                *line,
                format!("cannot be read as Rust: {message}"),
                "repair it, or give a file that is meant to be wrong another ending",
            )),
            _ => None,
        });
        failures.collect()
    }
}

impl File {
    fn new(path: &str, bytes: Vec<u8>) -> Self {
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        let source = path.ends_with(".rs").then(|| match &text {
            Some(text) => Source::parse(text),
            None => Err((1, "it is not UTF-8 text".to_owned())),
        });
        Self { text, source }
    }
}

/// Lists the files below `root/folder`, for a copy of the tree that came without git.
fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> Result<(), String> {
    let refused = |error| format!("{}/{folder} could not be read: {error}", root.display());
    for entry in fs::read_dir(root.join(folder)).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if !entry.file_type().map_err(refused)?.is_dir() {
            paths.push(path);
        } else if !MADE_BY_TOOLS.contains(&name.as_str()) {
            walk(root, &path, paths)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_contained_when_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/wire.md", ""), ("docs-old/x.md", "")]);
        assert!(tree.contains("docs/wire.md") && tree.contains("docs") && tree.contains(""));
        assert!(!tree.contains("doc") && !tree.contains("docs/wire"));
    }

    #[test]
    fn rust_that_cannot_be_read_is_found() {
        let tree = Tree::of(&[("a.rs", "//! A.\nfn f() {\n"), ("b.rs", "//! B.\n")]);
        assert_eq!(tree.sources().map(|(path, _)| path).collect::<Vec<_>>(), ["b.rs"]);
        assert_eq!(tree.unreadable()[0].path, "a.rs");
    }

    #[test]
    fn what_is_not_text_is_not_shown_as_text() {
        let tree = Tree::of(&[("a.png", "P\0NG"), ("a.md", "text")]);
        assert_eq!(tree.texts().collect::<Vec<_>>(), [("a.md", "text")]);
    }

    #[test]
    fn without_git_the_folders_are_walked() {
        let root = crate::root();
        let mut paths = Vec::new();
        walk(&root, "xtask/src", &mut paths).unwrap();
        assert!(paths.contains(&"xtask/src/tidy/tree.rs".to_owned()), "{paths:?}");
    }
}
