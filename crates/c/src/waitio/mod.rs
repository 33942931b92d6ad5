//! The functions of `waitio.h` and `waitio_mpi.h`, and of Fortran: a thin layer on [`kumiki::join`].
//!
//! | file | what |
//! |---|---|
//! | `session.rs` | the one join of the process: before, while and after there is one |
//! | `ending.rs` | the end of a process that has not called `waitio_finalize` |
//! | `arguments.rs` | what functions take, from C and from Fortran, and the functions with all their names |
//! | `blocks.rs` | start, end, who is who |
//! | `groups.rs` | groups behind handles of four bytes |
//! | `requests.rs` | what was started, in memory of the caller |
//! | `messages.rs` | messages of bytes, as WaitIO has them |
//! | `conversion.rs` | messages and requests in the words of MPI |
//! | `elements.rs` | types of elements, and how they are combined |
//! | `collectives.rs` | what all members of a group do together |
//!
//! Every failure is told in a line on standard error (once; those like it are counted), kept for `waitio_error`, and gives 1.

mod arguments;
pub mod blocks;
pub mod collectives;
pub mod conversion;
mod elements;
mod ending;
pub mod groups;
pub mod messages;
pub mod requests;
mod session;

use crate::complaints::complain;
use crate::guard::{guard, Failure};
use crate::status;
use kumiki::Result;
use std::ffi::c_int;

/// The body of a function: 0, or 1 and why.
fn edge(name: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    edge_or(name, 1, || body().map(|()| 0))
}

/// As [`edge`], for functions that give something else; `failed` stands for failure.
fn edge_or<T>(name: &str, failed: T, body: impl FnOnce() -> Result<T>) -> T {
    guard(body).unwrap_or_else(|failure| {
        let why = match &failure {
            Failure::Error(error) => session::explain(error),
            Failure::Panic(_) => failure.to_string(),
        };
        let text = format!("{name}: {why}");
        complain(&format!("waitio: {}{text}", session::name()));
        status::keep_text(&text);
        failed
    })
}
