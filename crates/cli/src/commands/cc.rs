//! `kumiki cc` and `kumiki c++`, also under the names `acpcc` and `acpc++` and others that ACP has for them: the C compiler with what
//! it needs to find `acp.h`, `kumiki.h` and the library, which lie beside this program. `macpcc` and `macpc++` do the same around
//! the compiler wrapper of an MPI, `acpfc` around a Fortran compiler.

use super::Outcome;
use kumiki_run::{say, system};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  kumiki cc -O2 heat.c -o heat             compile and link; `acpcc` is the same, and `acpgcc` with gcc
  kumiki c++ -c part.cc                    only compile; `acpc++` and `acpcxx` are the same, and `acpg++` with g++
  kumiki cc --mpi ocean.c -o ocean         for a program that uses MPI, too; `macpcc`, `macpgcc` and `macpc++` are the same
  acpfc -c part.f90                        Fortran, which declares by bind(C) what it calls: there is no module yet
  kumiki cc --show heat.c -o heat          print the command line, and do nothing; --showme is the same
  kumiki cc --showme:compile               what is added to compile; also :command, :link, :incdirs, :libdirs, :libs, :version

The compiler is that of CC or CXX, or cc or c++; with --mpi that of MPICC or MPICXX, or mpicc or mpicxx; for Fortran that of FC, or gfortran. The
program finds the library where it lies now, with no variable set. -ndev DEVICE, which ACP has, is taken: one library serves all networks.
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

/// Functions of threads, without `pthread_`. Static run-time libraries of compilers (that of gfortran) call them only if they are there, and take
/// it that they are if one of them is.
const THREADS: [&str; 24] = [
    "cond_broadcast",
    "cond_destroy",
    "cond_init",
    "cond_wait",
    "create",
    "getspecific",
    "join",
    "key_create",
    "key_delete",
    "mutex_destroy",
    "mutex_init",
    "mutex_lock",
    "mutex_trylock",
    "mutex_unlock",
    "once",
    "rwlock_destroy",
    "rwlock_init",
    "rwlock_rdlock",
    "rwlock_tryrdlock",
    "rwlock_trywrlock",
    "rwlock_unlock",
    "rwlock_wrlock",
    "self",
    "setspecific",
];

/// Which compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    C,
    Cxx,
    Fortran,
}

/// A name under which this program compiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wrapper {
    language: Language,
    /// For programs that use MPI, too.
    mpi: bool,
    /// The compiler of GNU, whatever the environment says.
    gnu: bool,
}

/// Whether a word starts the program that runs, under any of its names.
fn is_this_program(word: &OsStr) -> bool {
    let file = |path: &Path| path.metadata().ok().map(|data| (data.dev(), data.ino()));
    let own = file(Path::new("/proc/self/exe"));
    own.is_some() && system::find_program(word).and_then(|path| file(&path)) == own
}

impl Wrapper {
    pub(crate) fn new(language: Language) -> Wrapper {
        Wrapper { language, mpi: false, gnu: false }
    }

    /// The wrapper that a name of this program stands for.
    pub(crate) fn named(name: &str) -> Option<Wrapper> {
        let (mpi, rest) = match name.strip_prefix('m') {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        let (language, gnu) = match rest.strip_prefix("acp")? {
            "cc" => (Language::C, false),
            "gcc" => (Language::C, true),
            "c++" | "cxx" => (Language::Cxx, false),
            "g++" => (Language::Cxx, true),
            "fc" if !mpi => (Language::Fortran, false),
            _ => return None,
        };
        Some(Wrapper { language, mpi, gnu })
    }

    /// The variable that names the compiler, and the one to take without it.
    fn usual(self) -> (&'static str, &'static str) {
        match (self.language, self.mpi) {
            (Language::C, false) if self.gnu => ("CC", "gcc"),
            (Language::Cxx, false) if self.gnu => ("CXX", "g++"),
            (Language::C, false) => ("CC", "cc"),
            (Language::Cxx, false) => ("CXX", "c++"),
            (Language::C, true) => ("MPICC", "mpicc"),
            (Language::Cxx, true) => ("MPICXX", "mpicxx"),
            (Language::Fortran, _) => ("FC", "gfortran"),
        }
    }

    /// The same, for programs that use MPI.
    pub(super) fn with_mpi(self, mpi: bool) -> Wrapper {
        Wrapper { mpi: self.mpi || mpi, ..self }
    }

    /// The words that start the compiler.
    pub(super) fn compiler(self) -> Vec<OsString> {
        let (variable, usual) = self.usual();
        let ignores = self.gnu && !self.mpi;
        let said = std::env::var(variable).ok().filter(|name| !ignores && !name.trim().is_empty());
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        // Whoever builds with `make CC=xmpcc` has that variable name this very program.
        let said = said.map(|line| words(&line)).filter(|line| !is_this_program(&line[0]));
        said.unwrap_or_else(|| words(usual))
    }

    /// What starts the compiler with its words.
    pub(super) fn command(self, line: &[OsString]) -> std::io::Result<Command> {
        let mut command = system::command(&line[0]).ok_or(ErrorKind::NotFound)?;
        // It may name this program in a way that is not seen, which must not start itself for ever.
        command.args(&line[1..]).env_remove(self.usual().0).envs(self.environment().iter().copied());
        Ok(command)
    }

    pub(super) fn cannot_start(self, compiler: &OsStr, error: &std::io::Error) -> String {
        let (variable, _) = self.usual();
        let advice = if self.mpi {
            "install an MPI with its compiler wrappers (Debian: libopenmpi-dev or libmpich-dev), or "
        } else {
            ""
        };
        format!(
            "cannot start the compiler `{}`: {error}; {advice}set {variable} to yours",
            compiler.to_string_lossy()
        )
    }

    /// What the wrappers of both families of MPI must be told to take the compiler of GNU.
    fn environment(self) -> &'static [(&'static str, &'static str)] {
        match (self.mpi && self.gnu, self.language) {
            (true, Language::C) => &[("OMPI_CC", "gcc"), ("MPICH_CC", "gcc")],
            (true, Language::Cxx) => &[("OMPI_CXX", "g++"), ("MPICH_CXX", "g++")],
            _ => &[],
        }
    }
}

/// What the words of a command line ask of us, and not of the compiler.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    /// `--show`: `Some("")` for the whole line, otherwise which piece.
    show: Option<String>,
    mpi: bool,
    device: Option<String>,
    words: Vec<&'a OsStr>,
}

fn asked(line: &[OsString]) -> Result<Asked<'_>, String> {
    let mut asked = Asked { show: None, mpi: false, device: None, words: Vec::new() };
    let mut rest = line.iter();
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("--mpi") => asked.mpi = true,
            Some("--show" | "--showme" | "-showme") => asked.show = Some(String::new()),
            Some("-ndev") => {
                let device = rest.next().ok_or("-ndev needs a value: which device")?;
                asked.device = Some(device.to_string_lossy().into_owned());
            }
            Some(text) => {
                let piece = text.strip_prefix("--showme:").or_else(|| text.strip_prefix("-showme:"));
                match piece {
                    Some(piece) => asked.show = Some(piece.to_owned()),
                    None => asked.words.push(word),
                }
            }
            None => asked.words.push(word),
        }
    }
    Ok(asked)
}

/// Becomes the compiler; returns only if there is none.
pub(crate) fn run(wrapper: Wrapper, words: &[OsString]) -> Outcome {
    let asked = asked(words)?;
    let wrapper = wrapper.with_mpi(asked.mpi);
    let prefix = prefix()?;
    // Programs for UDP lose nothing: there is TCP.
    if let Some(device) = asked.device.filter(|device| !device.eq_ignore_ascii_case("udp")) {
        say(&format!("-ndev {device} has no effect: the one library of Kumiki uses shared memory and TCP"));
    }
    let mut line = wrapper.compiler();
    if let Some(piece) = asked.show.as_deref().filter(|piece| !piece.is_empty()) {
        return super::print(&(show(wrapper, &prefix, piece)? + "\n"));
    }
    line.extend(flags(&prefix, &asked.words));
    if asked.show.is_some() {
        return super::print(&(shown(&line) + "\n"));
    }
    let error = wrapper.command(&line).map_or_else(|error| error, |mut command| command.exec());
    Err(wrapper.cannot_start(&line[0], &error))
}

/// One piece of what this wrapper makes of a command line, as the wrappers of MPI show it.
fn show(wrapper: Wrapper, prefix: &Path, piece: &str) -> Result<String, String> {
    let of_mpi = |piece: &str| match wrapper.mpi {
        true => mpi_flags(wrapper, piece),
        false => Ok(Vec::new()),
    };
    let compile = || Ok::<_, String>([compile_flags(prefix), of_mpi("compile")?].concat());
    let link = || Ok::<_, String>([link_flags(prefix), of_mpi("link")?].concat());
    Ok(match piece {
        "command" => shown(&wrapper.compiler()),
        "compile" => shown(&compile()?),
        "link" => shown(&link()?),
        "incdirs" => shown(&values(&compile()?, "-I")),
        "libdirs" => shown(&values(&link()?, "-L")),
        "libs" => shown(&values(&link()?, "-l")),
        "version" => concat!("Kumiki ", env!("CARGO_PKG_VERSION"), ", the interface of ACP 3.0.0").into(),
        "help" => {
            "--showme, --showme:command, :compile, :link, :incdirs, :libdirs, :libs, :version, :help".into()
        }
        _ => return Err(format!("there is no --showme:{piece}; --showme:help lists what there is")),
    })
}

/// What the wrapper of an MPI adds to compile or to link: in the way of Open MPI, or else in that of MPICH.
fn mpi_flags(wrapper: Wrapper, piece: &str) -> Result<Vec<OsString>, String> {
    let compiler = wrapper.compiler();
    let ask = |option: String| {
        let answer = wrapper.command(&compiler).and_then(|mut command| command.arg(option).output());
        let answer = answer.map_err(|error| format!("{}: {error}", compiler[0].to_string_lossy()))?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        Ok::<_, String>(Some(text).filter(|_| answer.status.success()))
    };
    let words = |text: &str, skipped| text.split_whitespace().skip(skipped).map(OsString::from).collect();
    if let Some(text) = ask(format!("--showme:{piece}"))? {
        return Ok(words(&text, 0));
    }
    // The compiler comes first there.
    let text = ask(format!("-{piece}_info"))?;
    text.map(|text| words(&text, 1)).ok_or_else(|| {
        let name = compiler[0].to_string_lossy();
        format!("{name} knows neither --showme:{piece} nor -{piece}_info: what it adds is not known")
    })
}

/// The values of an option that stand behind it in the same word or in the next.
fn values(flags: &[OsString], option: &str) -> Vec<OsString> {
    let mut words = flags.iter().map(|word| word.to_string_lossy());
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix(option) {
            Some("") => values.extend(words.next().map(|word| OsString::from(word.as_ref()))),
            Some(value) => values.push(value.into()),
            None => {}
        }
    }
    values
}

pub(super) fn shown(line: &[OsString]) -> String {
    line.iter().map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// Where everything is installed: the folder above that of this program.
pub(super) fn prefix() -> Result<PathBuf, String> {
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
pub(super) fn flags(prefix: &Path, words: &[&OsStr]) -> Vec<OsString> {
    const NO_LINKING: [&str; 6] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"];
    let mut line = compile_flags(prefix);
    line.extend(words.iter().map(OsString::from));
    let is_input = |word: &OsStr| word == "-" || !word.to_string_lossy().starts_with('-');
    let has_input = words.iter().any(|word| is_input(word));
    if !has_input || words.iter().any(|word| NO_LINKING.iter().any(|option| word == option)) {
        return line;
    }
    if words.iter().any(|word| *word == "-static") {
        line.push(prefix.join("lib/libkumiki.a").into());
        line.push(format!("-Wl{}", THREADS.map(|name| format!(",-u,pthread_{name}")).concat()).into());
        line.extend(["-lgcc_eh", "-lrt", "-lpthread", "-lm", "-ldl"].map(OsString::from));
        return line;
    }
    line.extend(link_flags(prefix));
    line
}

pub(super) fn compile_flags(prefix: &Path) -> Vec<OsString> {
    vec!["-I".into(), prefix.join("include").into()]
}

fn link_flags(prefix: &Path) -> Vec<OsString> {
    let library = prefix.join("lib");
    let mut flags: Vec<OsString> = vec!["-L".into(), library.clone().into()];
    // Linkers drop what nothing before it has asked for, in some distributions: these words may stand before the source.
    flags.extend(["-Wl,--push-state,--no-as-needed", "-lkumiki", "-Wl,--pop-state"].map(OsString::from));
    flags.extend(["-Xlinker".into(), "-rpath".into(), "-Xlinker".into(), library.into()]);
    flags
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
        let linked = "-L /p/lib -Wl,--push-state,--no-as-needed -lkumiki -Wl,--pop-state -Xlinker -rpath -Xlinker /p/lib";
        assert_eq!(line("a.c -o a"), format!("-I /p/include a.c -o a {linked}"));
        assert_eq!(line("-c a.c"), "-I /p/include -c a.c");
        assert_eq!(line("--version"), "-I /p/include --version");
        assert_eq!(line("-xc -"), format!("-I /p/include -xc - {linked}"));
        let fixed = line("a.c -static");
        assert!(
            fixed.contains("/p/lib/libkumiki.a -Wl,-u,pthread_") && fixed.contains(" -lgcc_eh -lrt"),
            "{fixed}"
        );
    }

    #[test]
    fn what_is_shown_can_be_given_to_a_shell() {
        assert_eq!(quoted("-O2"), "-O2");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn names_of_acp_were_missing() {
        let usual = |name| Wrapper::named(name).map(Wrapper::usual);
        assert_eq!(usual("acpgcc"), Some(("CC", "gcc")));
        assert_eq!(usual("acpg++"), Some(("CXX", "g++")));
        assert_eq!(usual("acpcxx"), usual("acpc++"));
        assert_eq!(usual("acpfc"), Some(("FC", "gfortran")));
        assert_eq!(usual("macpgcc"), Some(("MPICC", "mpicc")));
        assert_eq!(Wrapper::named("macpgcc").unwrap().environment()[0], ("OMPI_CC", "gcc"));
        assert_eq!((usual("acprun"), usual("kumiki"), usual("macp")), (None, None, None));
    }

    #[test]
    fn options_of_acpcc_went_to_the_compiler() {
        let words: Vec<OsString> = "-ndev UDP -O2 --showme:link a.c".split(' ').map(OsString::from).collect();
        let found = asked(&words).unwrap();
        assert_eq!((found.device.as_deref(), found.show.as_deref()), (Some("UDP"), Some("link")));
        assert_eq!(found.words, ["-O2", "a.c"]);
        assert!(asked(&["-ndev".into()]).unwrap_err().contains("needs a value"));
        let wrapper = Wrapper::new(Language::C);
        let piece = |piece| show(wrapper, Path::new("/p"), piece);
        assert_eq!(piece("compile").unwrap(), "-I /p/include");
        assert_eq!(piece("incdirs").unwrap(), "/p/include");
        assert_eq!((piece("libdirs").unwrap(), piece("libs").unwrap()), ("/p/lib".into(), "kumiki".into()));
        assert!(piece("nonsense").unwrap_err().contains("--showme:help"));
    }
}
