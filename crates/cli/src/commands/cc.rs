//! `kumiki cc` and `kumiki c++`, also under the names `acpcc` and `acpc++`: the C compiler with what it needs to find
//! `acp.h`, `kumiki.h` and the library, which lie beside this program. `macpcc` and `macpc++` do the same around the compiler
//! wrapper of an MPI.

use super::Outcome;
use kumiki_run::system::find_program;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  kumiki cc -O2 heat.c -o heat             compile and link; `acpcc` is the same
  kumiki c++ -c part.cc                    only compile; `acpc++` is the same
  kumiki cc --mpi ocean.c -o ocean         for a program that uses MPI, too; `macpcc` and `macpc++` are the same
  kumiki cc --show heat.c -o heat          print the command line, and do nothing

The compiler is that of CC or CXX, or cc or c++; with --mpi that of MPICC or MPICXX, or mpicc or mpicxx. The program finds the library where it lies now, with no variable set.
pkg-config (kumiki.pc) and CMake (find_package(Kumiki)) work, too.";

/// Compile a C program that uses kumiki.h or acp.h.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What the compiler shall be told.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) words: Vec<OsString>,
}

/// Compile a C++ program that uses kumiki.h or acp.h.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CxxArguments {
    /// What the compiler shall be told.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) words: Vec<OsString>,
}

/// Which compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    C,
    Cxx,
}

/// Becomes the compiler; returns only if there is none.
pub(crate) fn run(language: Language, words: &[OsString]) -> Outcome {
    let prefix = prefix()?;
    let asked = |option: &str| words.iter().any(|word| word == option);
    let (show, mpi) = (asked("--show"), asked("--mpi"));
    let ours = |word: &&OsStr| *word == "--show" || *word == "--mpi";
    let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).filter(|word| !ours(word)).collect();
    let (variable, usual) = match (language, mpi) {
        (Language::C, false) => ("CC", "cc"),
        (Language::Cxx, false) => ("CXX", "c++"),
        (Language::C, true) => ("MPICC", "mpicc"),
        (Language::Cxx, true) => ("MPICXX", "mpicxx"),
    };
    let compiler = std::env::var(variable).ok().filter(|name| !name.trim().is_empty());
    let compiler = compiler.unwrap_or_else(|| usual.into());
    let mut line: Vec<OsString> = compiler.split_whitespace().map(OsString::from).collect();
    line.extend(flags(&prefix, &words));
    if show {
        let shown: Vec<String> = line.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        return super::print(&(shown.join(" ") + "\n"));
    }
    // Whoever builds with `make CC=acpcc` has that variable name this very program: it must not start itself for ever.
    let become_it =
        |program: PathBuf| Command::new(program).arg0(&line[0]).args(&line[1..]).env_remove(variable).exec();
    let error = find_program(&line[0]).map_or_else(|| std::io::ErrorKind::NotFound.into(), become_it);
    let advice = if mpi {
        "install an MPI with its compiler wrappers (Debian: libopenmpi-dev or libmpich-dev), or "
    } else {
        ""
    };
    Err(format!(
        "cannot start the compiler `{}`: {error}; {advice}set {variable} to yours",
        line[0].to_string_lossy()
    ))
}

/// As [`run`], for a program that uses MPI, too.
pub(crate) fn run_mpi(language: Language, words: &[OsString]) -> Outcome {
    let words: Vec<OsString> = std::iter::once("--mpi".into()).chain(words.iter().cloned()).collect();
    run(language, &words)
}

/// Where everything is installed: the folder above that of this program.
fn prefix() -> Result<PathBuf, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_path_buf();
    if !prefix.join("include/acp.h").is_file() {
        return Err(format!(
            "{} is not there: install the C files with `./x install --prefix P`, and use P/bin/kumiki",
            prefix.join("include/acp.h").display()
        ));
    }
    Ok(prefix)
}

/// The arguments of the compiler: ours around those of the user.
fn flags(prefix: &Path, words: &[&OsStr]) -> Vec<OsString> {
    const NO_LINKING: [&str; 6] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"];
    let mut line: Vec<OsString> = vec!["-I".into(), prefix.join("include").into()];
    line.extend(words.iter().map(OsString::from));
    let is_input = |word: &OsStr| word == "-" || !word.to_string_lossy().starts_with('-');
    let has_input = words.iter().any(|word| is_input(word));
    if !has_input || words.iter().any(|word| NO_LINKING.iter().any(|option| word == option)) {
        return line;
    }
    let library = prefix.join("lib");
    if words.iter().any(|word| *word == "-static") {
        line.push(library.join("libkumiki.a").into());
        line.extend(["-lgcc_eh", "-lrt", "-lpthread", "-lm", "-ldl"].map(OsString::from));
        return line;
    }
    line.extend(["-L".into(), library.clone().into(), "-lkumiki".into()]);
    line.extend(["-Xlinker".into(), "-rpath".into(), "-Xlinker".into(), library.into()]);
    line
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=+:,@%".contains(letter);
    match word.chars().all(plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> String {
        let words: Vec<&OsStr> = words.split(' ').map(OsStr::new).collect();
        let line: Vec<String> =
            flags(Path::new("/p"), &words).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        line.join(" ")
    }

    #[test]
    fn linking_gets_the_library_and_compiling_does_not() {
        let linked = "-L /p/lib -lkumiki -Xlinker -rpath -Xlinker /p/lib";
        assert_eq!(line("a.c -o a"), format!("-I /p/include a.c -o a {linked}"));
        assert_eq!(line("-c a.c"), "-I /p/include -c a.c");
        assert_eq!(line("--version"), "-I /p/include --version");
        assert_eq!(line("-xc -"), format!("-I /p/include -xc - {linked}"));
        assert!(line("a.c -static").contains("/p/lib/libkumiki.a -lgcc_eh"));
    }

    #[test]
    fn what_is_shown_can_be_given_to_a_shell() {
        assert_eq!(quoted("-O2"), "-O2");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
