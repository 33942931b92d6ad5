//! The commands. Each has its arguments and a `run` that returns the exit code, or a message for the user.

pub(crate) mod acprun;
pub(crate) mod agent;
pub(crate) mod array;
pub(crate) mod cc;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod info;
pub(crate) mod job;
pub(crate) mod macprun;
pub(crate) mod man;
pub(crate) mod mem;
mod mpi_family;
mod objects;
pub(crate) mod rank;
pub(crate) mod relay;
pub(crate) mod run;
pub(crate) mod selftest;
pub(crate) mod sim;
pub(crate) mod top;
mod touch;
pub(crate) mod waitio_serv;
pub(crate) mod xmpcc;

use std::io::{ErrorKind, Write};

/// An exit code, or what the user should read.
pub(crate) type Outcome = Result<i32, String>;

/// Why nothing more is printed when whoever read our output has gone (`| head`). `main` ends without a word then, with the code that
/// a shell gives to programs that SIGPIPE ends.
pub(crate) const READER_GONE: &str = "nobody reads the output any more";
pub(crate) const READER_GONE_CODE: i32 = 128 + 13;

/// Tells the user about `KUMIKI_*` variables that do not exist. A process of a job says nothing: its launcher has.
pub(crate) fn warn_of_unknown_variables() {
    if std::env::var_os("KUMIKI_AGENT_FD").is_some() {
        return;
    }
    for (name, nearest) in kumiki_run::environment::unknown_variables() {
        kumiki_run::report(&format!("there is no variable {name}; maybe you meant {nearest}"));
    }
}

/// Takes `KUMIKI_*` variables that are empty out of the environment: they count as not set, and the parser of the command
/// line does not know that.
pub(crate) fn forget_empty_variables() {
    let empty = std::env::vars_os().filter(|(_, value)| value.is_empty()).map(|(name, _)| name);
    let ours = empty.filter(|name| name.to_str().is_some_and(|name| name.starts_with("KUMIKI_")));
    ours.collect::<Vec<_>>().iter().for_each(|name| std::env::remove_var(name));
}

/// Prints a text. Where it cannot be printed there is no point in going on.
pub(crate) fn print(text: &str) -> Outcome {
    print_bytes(text.as_bytes())
}

/// The same for text in any encoding.
pub(crate) fn print_bytes(bytes: &[u8]) -> Outcome {
    let mut output = std::io::stdout();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(READER_GONE.into()),
        Err(error) => Err(format!("cannot print: {error}")),
    }
}

/// The same for a rank, whose others need it: it goes on when nobody reads.
pub(crate) fn print_of_rank(text: &str) -> Outcome {
    print(text).or_else(|why| if why == READER_GONE { Ok(0) } else { Err(why) })
}

/// Writes a file wholly, or not at all.
pub(crate) fn save(path: &std::path::Path, text: &str) -> Result<(), String> {
    let written = kumiki_run::system::replace(path, |out| out.write_all(text.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}
