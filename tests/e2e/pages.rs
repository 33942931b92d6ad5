//! The documents that the command names: `./x install` puts them where the help says.

use crate::strangers::Folder;
use std::path::Path;
use std::process::Command;

/// Where documents are installed, from the prefix on.
const INSTALLED: &str = "share/doc/kumiki/";

/// The help of every command, as manual pages, and what `kumiki info` prints.
fn help() -> String {
    let folder = Folder::new("pages");
    let kumiki = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_kumiki")).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    kumiki(&["man", "--dir", folder.0.to_str().unwrap()]);
    let pages = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
    let mut text: String = pages.map(|page| std::fs::read_to_string(page).unwrap()).collect();
    text.push_str(&kumiki(&["info"]));
    text
}

#[test]
fn the_help_names_documents_that_are_installed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let help = help();
    let of_path = |character: char| character.is_ascii_alphanumeric() || "_./".contains(character);
    let named = help.split(INSTALLED).skip(1).map(|rest| {
        let end = rest.find(|character| !of_path(character)).unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    });
    let mut count = 0;
    for name in named {
        count += 1;
        // They are laid out as in the repository.
        assert!(root.join(name).exists(), "{INSTALLED}{name} is not installed");
    }
    assert!(count >= 3, "{count}");
    let elsewhere = help.lines().find(|line| line.contains("docs/") && !line.contains(INSTALLED));
    assert_eq!(elsewhere, None, "the folder docs of the repository is not installed");
}

#[test]
fn the_examples_of_the_simulator_run_as_the_help_has_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kumiki = || Command::new(env!("CARGO_BIN_EXE_kumiki"));
    let mut count = 0;
    for command in [&["sim"][..], &["sim", "run"], &["sim", "compare"]] {
        let help = kumiki().args(command).arg("--help").output().unwrap().stdout;
        let help = String::from_utf8(help).unwrap();
        // Those with a file of ours: they need what lies there, and are short. `fmt` would rewrite it.
        let ours = |line: &&str| line.contains("examples/") && !line.contains(" fmt ");
        for line in help.lines().filter_map(|line| line.strip_prefix("  kumiki ")).filter(ours) {
            count += 1;
            let done = kumiki().args(line.split_whitespace()).current_dir(&root).output().unwrap();
            assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }
    assert!(count >= 3, "{count} examples");
}
