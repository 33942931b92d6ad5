//! An installation of what was built, in a folder of its own; compiling against it, and running what came out.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

/// Programs that were compiled.
static FRESH: AtomicU64 = AtomicU64::new(0);

/// The folder, laid out as `./x install` does it.
pub(crate) struct Stage {
    folder: PathBuf,
}

/// Which wrapper compiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    C,
    Cxx,
}

impl Language {
    pub(crate) const BOTH: [Language; 2] = [Language::C, Language::Cxx];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cxx => "cxx",
        }
    }

    fn wrapper(self) -> &'static str {
        match self {
            Language::C => "acpcc",
            Language::Cxx => "acpc++",
        }
    }

    /// The standard that the programs are written in, and that the file is of this language whatever its name.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Language::C => &["-std=gnu99", "-x", "c"],
            Language::Cxx => &["-std=c++11", "-x", "c++"],
        }
    }
}

impl Stage {
    /// Installs.
    pub(crate) fn new() -> Stage {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("c-{}", std::process::id()));
        let stage = Stage { folder };
        let _ = std::fs::remove_dir_all(&stage.folder);
        std::fs::create_dir_all(stage.folder.join("bin")).expect("a folder");
        std::fs::create_dir_all(stage.folder.join("built")).expect("a folder");
        // A link, not a copy: the command looks for everything else beside itself.
        std::fs::hard_link(env!("CARGO_BIN_EXE_kumiki"), stage.folder.join("bin/kumiki")).expect("a link");
        let built =
            std::env::current_exe().expect("this program").parent().expect("its folder").to_path_buf();
        let script = repository().join("crates/c/install");
        succeed(Command::new(script).arg(&stage.folder).arg(built));
        stage
    }

    /// Takes everything away.
    pub(crate) fn clear(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A command of the installation, without the variables of whoever runs the tests.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.path("bin").join(name));
        let foreign = |name: &str| {
            name.starts_with("KUMIKI_")
                || name.starts_with("WAITIO_")
                || ["CC", "CXX", "LD_LIBRARY_PATH"].contains(&name)
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| foreign(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        // A job that hangs is ended, and fails.
        command.env("KUMIKI_TIMEOUT", "120s").stdin(std::process::Stdio::null());
        command
    }

    /// Compiles a program of `programs/`, or an example, with every warning an error; gives where it is.
    pub(crate) fn compile(&self, name: &str, language: Language, more: &[&str]) -> PathBuf {
        let tag: String =
            more.iter().flat_map(|word| word.chars()).filter(char::is_ascii_alphanumeric).collect();
        let file = name.replace('/', "-");
        let program = self.path("built").join(format!("{file}-{}-{tag}", language.name()));
        let source = program_source(name);
        let mut command = self.command(language.wrapper());
        command.args(["-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread"]).args(language.flags());
        // Under a name of its own first: another test may be running the same program.
        let fresh = self.path("built").join(format!("fresh-{}", FRESH.fetch_add(1, Ordering::Relaxed)));
        succeed(command.arg(source).args(["-x", "none"]).args(more).arg("-o").arg(&fresh));
        std::fs::rename(&fresh, &program).expect("a name");
        program
    }

    /// `acprun` with these options and this program.
    pub(crate) fn acprun(&self, options: &[&str], program: &Path, words: &[&str]) -> Command {
        let mut command = self.command("acprun");
        command.args(options).arg(program).args(words);
        command
    }
}

/// Where a program of `programs/` lies, or an example.
pub(crate) fn program_source(name: &str) -> PathBuf {
    let folder = if name.starts_with("examples/") { "" } else { "tests/c/programs" };
    repository().join(folder).join(format!("{name}.c"))
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command that must succeed; gives what it printed.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} ended with {}:\n{}", output.status, said(&output));
    said(&output)
}

/// Runs a command that must end with this code and say this.
#[track_caller]
pub(crate) fn fail(command: &mut Command, code: i32, text: &str) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = said(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}:\n{said}");
    assert!(said.contains(text), "{command:?} should say `{text}`:\n{said}");
    said
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
