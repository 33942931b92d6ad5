//! The wrapper around everything that C calls: a panic never crosses, it becomes a failure.

use kumiki::Error;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// As the library says.
    Error(Error),
    /// A panic, which is a bug of the library; its message.
    Panic(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Panic(message) => write!(f, "a bug of the library, please report it: {message}"),
        }
    }
}

/// A misuse, from its message.
pub(crate) fn misuse(message: impl Into<String>) -> Error {
    Error::Misuse(message.into())
}

/// A misuse says with what it was made; everything else says so itself.
pub(crate) fn about(error: Error, what: &str) -> Error {
    match error {
        Error::Misuse(message) => Error::Misuse(format!("{message} ({what})")),
        error => error,
    }
}

/// Runs the body of a C function. What it may leave half done is guarded by the locks of the library, which know
/// how to go on after a panic.
pub(crate) fn guard<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.map_err(Failure::Error),
        Err(cause) => {
            let text = cause.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
            Err(Failure::Panic(text.unwrap_or_else(|| "it gave no message".into())))
        }
    }
}
