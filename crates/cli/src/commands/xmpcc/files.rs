//! The user's files, as the preprocessor reads them, and the folder for what is made on the way.

use super::texts::{bytes_of, source_of};
use kumiki_run::system::read_bytes;
use kumiki_run::watch;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// A longer file is no source.
const MOST_SOURCE_BYTES: u64 = 64 << 20;

/// A folder that is gone when this is.
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    pub(super) fn new() -> Result<Folder, String> {
        let path =
            std::env::temp_dir().join(format!("kumiki-xmpcc-{}-{:x}", std::process::id(), fastrand::u64(..)));
        // What a user writes is not for others to read.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        let folder = Folder { path };
        folder.outlive_nothing()?;
        Ok(folder)
    }

    /// Sees to it that the folder is gone also when a signal ends this process. Compilers that it starts have signals of their own.
    fn outlive_nothing(&self) -> Result<(), String> {
        let path = self.path.clone();
        let signals = watch::Signals::new(&[SIGHUP, SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
        let wait = move || loop {
            let _ = watch::poll(&[(signals.as_fd(), false)], -1);
            if let Some(signal) = signals.next() {
                let _ = std::fs::remove_dir_all(&path);
                std::process::exit(128 + signal);
            }
        };
        std::thread::Builder::new()
            .spawn(wait)
            .map(drop)
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The user's files, as the preprocessor reads them.
pub(super) struct Files<'a> {
    pub(super) folder: &'a Path,
    /// Where `-I` and `-iquote` look.
    pub(super) folders: &'a [PathBuf],
    /// Copies by the files they are of.
    pub(super) copies: HashMap<PathBuf, String>,
    /// Texts by the names that line markers have.
    pub(super) originals: HashMap<String, String>,
}

impl Files<'_> {
    /// Writes the copy of a file with its directives marked, and those of the files that it includes.
    pub(super) fn copy(&mut self, path: &Path, text: &str) -> Result<String, String> {
        let shown = path.to_string_lossy().into_owned();
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let copy = self.folder.join(format!("{}-{name}", self.copies.len()));
        let copied = copy.to_string_lossy().into_owned();
        self.copies.insert(known_as(path), copied.clone());
        self.originals.insert(shown.clone(), text.to_owned());
        for name in named_by_lines(text) {
            // Generated text, whose lines are those of another file.
            self.originals.entry(name.clone()).or_insert_with(|| named_source(&name));
        }
        let parent = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut failed = None;
        let marked = kumiki_xmp::mark(text, &mut |name, quoted| match self.included(&parent, name, quoted) {
            Ok(found) => found,
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let escaped = shown.replace('\\', "\\\\").replace('"', "\\\"");
        std::fs::write(&copy, bytes_of(&format!("# 1 \"{escaped}\"\n{marked}")))
            .map_err(|error| format!("cannot write {copied}: {error}"))?;
        Ok(copied)
    }

    /// Files that the preprocessor found by itself, through a macro, `-include` or its own folders, are the user's if they have
    /// directives.
    pub(super) fn find_more(&mut self, preprocessed: &str) {
        let mut current = "";
        for line in preprocessed.lines().filter(|line| line.starts_with('#')) {
            let words = line[1..].trim_start();
            let directive = words.strip_prefix("pragma").map(str::trim_start);
            if directive.is_some_and(|words| words.starts_with("xmp ") || words.starts_with("kumiki ")) {
                if !self.originals.contains_key(current) {
                    self.originals.insert(current.to_owned(), named_source(&current.replace("\\\\", "\\")));
                }
            } else if words.starts_with(|c: char| c.is_ascii_digit()) {
                current = words.split('"').nth(1).unwrap_or("");
            }
        }
    }

    /// The copy of an included file, if it is one of the user's.
    fn included(&mut self, parent: &Path, name: &str, quoted: bool) -> Result<Option<String>, String> {
        let beside = quoted.then(|| parent.join(name));
        let places = beside.into_iter().chain(self.folders.iter().map(|folder| folder.join(name)));
        let Some(path) = places.into_iter().find(|path| path.is_file()) else { return Ok(None) };
        if let Some(copy) = self.copies.get(&known_as(&path)) {
            return Ok(Some(copy.clone()));
        }
        let Ok(bytes) = std::fs::read(&path) else { return Ok(None) };
        self.copy(&path, &source_of(&bytes)).map(Some)
    }
}

/// The text of a file that another text names; none of what is no file (a terminal, say, or what never ends), or longer than any source.
fn named_source(name: &str) -> String {
    let is_source = |found: &std::fs::Metadata| found.is_file() && found.len() <= MOST_SOURCE_BYTES;
    match std::fs::metadata(name).is_ok_and(|found| is_source(&found)) {
        true => {
            let read = File::open(name).and_then(|file| read_bytes(file, MOST_SOURCE_BYTES));
            source_of(&read.unwrap_or_default())
        }
        false => String::new(),
    }
}

/// The files that `#line` names in a text, those left out that a preprocessor has marked as the system's.
fn named_by_lines(text: &str) -> Vec<String> {
    let name_of = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("line").unwrap_or(rest).trim_start();
        let (number, rest) = rest.split_once('"')?;
        let (name, flags) = rest.rsplit_once('"')?;
        let is_number = !number.trim().is_empty() && number.trim().bytes().all(|byte| byte.is_ascii_digit());
        (is_number && !flags.split_whitespace().any(|flag| flag == "3")).then(|| name.replace("\\\\", "\\"))
    };
    text.lines().filter_map(name_of).collect()
}

fn known_as(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_lines_name_are_those_of_the_user() {
        let text = "#line 7 \"main.y\"\n# 9 \"own.c\" 2\n# 1 \"/usr/include/stdio.h\" 1 3 4\n#line 5\n#include \"a.h\"\n# LINE \"b.y\"\n";
        assert_eq!(named_by_lines(text), ["main.y", "own.c"]);
    }

    #[test]
    fn a_line_that_names_what_never_ends_was_read_for_ever() {
        for name in ["/dev/zero", "/proc/self", "/no/such/file"] {
            assert_eq!(named_source(name), "", "{name}");
        }
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(named_source(own).contains("[package]"));
    }
}
