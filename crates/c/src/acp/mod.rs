//! The functions of `acp.h`: a thin layer on the calls of Kumiki.
//!
//! | file | what |
//! |---|---|
//! | `streams.rs` | output of the program that is on its way |
//! | `options.rs` | the `--acp-…` arguments that the launcher of ACP adds |
//! | `infrastructure.rs` | start, end, barrier, who is who |
//! | `ending.rs` | the end of a process that has not called `acp_finalize` |
//! | `memory.rs` | registration and global addresses |
//! | `operations.rs` | copies, atomics, completion |
//! | `heap.rs` | memory on any rank |
//! | `types.rs` | structs that several of them use |
//! | `sequences.rs` | vectors and deques: bytes on one rank |
//! | `list.rs` | lists |
//! | `tables.rs` | maps, sets and multisets |
//! | `workspace.rs` | one block over all ranks |
//! | `freed.rs` | what a program has freed a short time ago, for messages |
//! | `channels.rs`, `segbuf.rs` | messages and segments from one process to another |
//! | `alone.rs` | channels of a process with itself |
//!
//! The interface has few error returns: a failing call prints one line on standard error (once; those like it are counted), then gives
//! the value that stands for failure.

mod alone;
pub mod channels;
mod ending;
mod freed;
pub mod heap;
pub mod infrastructure;
pub mod list;
pub mod memory;
pub mod operations;
mod options;
pub mod segbuf;
pub mod sequences;
mod streams;
pub mod tables;
pub mod types;
pub mod workspace;

use crate::complaints;
use crate::guard::guard;
use crate::place::Place;
pub(crate) use ending::flush_output;
use kumiki::Error;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// The world of `acp_init`.
pub(crate) static WORLD: Place = Place::new();

/// The rank of this process, for messages; -1 while it has none.
static RANK: AtomicI64 = AtomicI64::new(-1);

/// The process that has called `acp_init`; 0 while none has.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether this process was forked off the one that called `acp_init`.
fn is_forked_child() -> bool {
    let process = PROCESS.load(Ordering::Relaxed);
    process != 0 && process != std::process::id()
}

/// What was made in the world of `acp_init` is gone: it has been left, or this process has another number in it now.
pub(crate) fn begin_again(rank: Option<u32>) {
    workspace::forget_all();
    channels::forget_all();
    segbuf::forget_all();
    if rank.is_some() {
        infrastructure::note_reset();
    }
    RANK.store(rank.map_or(-1, i64::from), Ordering::Relaxed);
}

/// A line on standard error, with the rank.
fn complain(message: &str) {
    let rank = RANK.load(Ordering::Relaxed);
    let who = if rank < 0 { String::new() } else { format!("rank {rank}: ") };
    complaints::complain(&format!("acp: {who}{message}"));
}

/// The body of a function of `acp.h`: says why it failed, and gives `failed` then.
pub(crate) fn edge<T>(name: &str, failed: T, body: impl FnOnce() -> Result<T, Error>) -> T {
    match guard(body) {
        Ok(value) => value,
        Err(failure) => {
            complain(&format!("{name}: {failure}"));
            failed
        }
    }
}
