//! The functions of `kumiki.h`: our own interface for C. Each gives a status, and keeps a message when it fails.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | init, finalize, who is who, barrier, versions and messages |
//! | `memory.rs` | memory that others can address |
//! | `operations.rs` | put, get, copy, atomics, completion |
//! | `ledger.rs` | what it costs |

pub mod ledger;
pub mod memory;
pub mod operations;
pub mod world;

use crate::guard::{guard, misuse};
use crate::place::Place;
use crate::status;
use kumiki::Result;
use std::ffi::c_int;
use std::time::Duration;

/// What a `kumiki_world *` points to.
pub struct KumikiWorld(pub(crate) Place);

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

/// The place that a pointer from C names. The world of `acp_init` has no pointer of its own: NULL names it.
///
/// # Safety
/// `world` must come from `kumiki_init` and not have been finalized, or be NULL.
pub(crate) unsafe fn place<'a>(world: *const KumikiWorld) -> &'a Place {
    // SAFETY: as the caller promises; what it points to lives until `kumiki_finalize`.
    unsafe { world.as_ref() }.map_or(&crate::acp::WORLD, |world| &world.0)
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
