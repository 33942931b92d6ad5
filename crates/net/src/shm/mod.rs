//! Shared memory of a node: the arena and the structures that live in it.
//!
//! | file | what |
//! |---|---|
//! | `arena.rs` | the one memory object of a node: creation, attachment |
//! | `layout.rs` | where its parts are: side by side what a rank touches of many others |
//! | `finder.rs` | the short way from the name of a region to a pointer |
//! | `world.rs` | who is where and who is gone: one word a rank, 64 bytes a node |
//! | `board.rs` | what a rank tells whoever looks from outside |
//! | `glance.rs` | the look from outside: what stands in an arena that others use |
//! | `control.rs` | the control block of a rank: what it waits for, which regions it has |
//! | `region.rs` | one entry of a region table: published, read and retired without a lock |
//! | `changes.rs` | how often something was taken away, so that what was found once need not be looked for again |
//! | `hazard.rs` | who is touching a private region right now, so that it is not freed under them |
//! | `pin.rs` | who has a region of the arena in view, so that its memory is not given to another |
//! | `errand.rs` | small requests of neighbours, done by whoever polls at the owner |
//! | `haul.rs` | large copies of neighbours, of which whoever waits at the owner takes a share |
//! | `barrier.rs` | the barrier of the ranks of a node |
//! | `bell.rs` | how a rank that waits for a word is woken by whoever writes there |
//! | `team.rs` | what the members of a team on a node share, and how they find it |
//! | `lock.rs` | a lock that names its holder, so that the death of the holder does not keep it |
//!
//! No structure here holds a blocking lock. Each says what a SIGKILL between two of its stores leaves behind.
#![allow(unsafe_code)]

#[cfg(not(loom))]
pub mod arena;
pub mod barrier;
pub mod bell;
#[cfg(not(loom))]
pub mod board;
pub mod changes;
#[cfg(not(loom))]
pub mod control;
pub mod errand;
#[cfg(not(loom))]
pub mod finder;
#[cfg(not(loom))]
pub mod glance;
pub mod haul;
pub mod hazard;
#[cfg(not(loom))]
mod layout;
pub mod lock;
pub mod pin;
pub mod region;
#[cfg(not(loom))]
pub mod team;
#[cfg(not(loom))]
pub mod world;

/// Atomics of the standard library, or of loom when a model is checked.
pub(crate) mod sync {
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

    /// A sequentially consistent fence right behind a successful exchange. On x86-64 every exchange is one itself, so that
    /// only the compiler must be held back.
    #[inline]
    pub(crate) fn fence_after_exchange() {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        fence(Ordering::SeqCst);
    }
}
