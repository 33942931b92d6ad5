//! The functions of `kumiki.h`: our own interface for C. Each gives a status, and keeps a message when it fails.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | init, finalize, who is who, barrier, versions and messages |
//! | `memory.rs` | memory that others can address |
//! | `operations.rs` | put, get, copy, atomics, completion |
//! | `signals.rs` | waiting for a word, puts with a signal, sections |
//! | `batches.rs` | many single words |
//! | `requests.rs` | what was started and is not waited for |
//! | `messages.rs`, `channels.rs`, `segments.rs` | between two ranks |
//! | `groups.rs`, `grids.rs` | ranks that do things together, and lie in a grid |
//! | `elements.rs` | types of elements, and how they are combined |
//! | `collectives.rs`, `moves.rs`, `started.rs` | what they do: combining, moving bytes, and without waiting |
//! | `join.rs` | programs that join |
//! | `halos.rs`, `sparse.rs`, `relay.rs` | the cells around a piece of a field, sparse exchanges, relays |
//! | `buffers.rs` | memory that C gives |
//! | `ledger.rs` | what it costs |

pub mod batches;
pub(crate) mod buffers;
pub mod channels;
pub mod collectives;
pub mod elements;
pub mod grids;
pub mod groups;
pub mod halos;
pub mod join;
pub mod ledger;
pub mod memory;
pub mod messages;
pub mod moves;
pub mod operations;
pub mod relay;
pub mod requests;
pub mod segments;
pub mod signals;
pub mod sparse;
pub mod started;
pub mod world;

/// What a handle points to, as far as programs know.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _private: [u8; 0],
        }
    };
}
use handle;

use crate::guard::{guard, misuse};
use crate::status;
pub(crate) use crate::worlds::find as place;
use kumiki::Result;
use std::ffi::c_int;
use std::time::Duration;

handle!(
    /// `kumiki_world`, which nothing is behind: its address is a number.
    KumikiWorld
);

/// The body of a function of `kumiki.h`.
pub(crate) fn edge(body: impl FnOnce() -> Result<()>) -> c_int {
    match guard(body) {
        Ok(()) => 0,
        Err(failure) => status::keep(&failure),
    }
}

/// As [`edge`], for functions that give something else; `failed` stands for failure.
pub(crate) fn edge_or<T>(failed: T, body: impl FnOnce() -> Result<T>) -> T {
    guard(body).unwrap_or_else(|failure| {
        status::keep(&failure);
        failed
    })
}

/// Stores a result where C wants it.
///
/// # Safety
/// `to` must be NULL or writable.
pub(crate) unsafe fn give<T>(to: *mut T, what: &str, value: T) -> Result<()> {
    if to.is_null() {
        return Err(misuse(format!("the place for {what} is NULL")));
    }
    // SAFETY: not NULL, so it is writable.
    unsafe { to.write(value) };
    Ok(())
}

/// A time limit in milliseconds.
pub(crate) fn limit(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
