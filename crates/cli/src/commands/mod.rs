//! The commands. Each has its arguments and a `run` that returns the exit code, or a message for the user.

pub(crate) mod agent;
pub(crate) mod demo;
pub(crate) mod job;
pub(crate) mod mem;
pub(crate) mod rank;
pub(crate) mod run;
pub(crate) mod selftest;

/// An exit code, or what the user should read.
pub(crate) type Outcome = Result<i32, String>;

/// Tells the user about `KUMIKI_*` variables that do not exist.
pub(crate) fn warn_of_unknown_variables() {
    for (name, nearest) in kumiki_net::environment::unknown_variables() {
        eprintln!("kumiki: there is no variable {name}; maybe you meant {nearest}");
    }
}
