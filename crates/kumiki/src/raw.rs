//! For bindings to other languages, tools and tests: the memory below a [`World`], with what programs in Rust do not need.
//!
//! Nothing here is promised to stay: a program that names it is written for one version of the library.

use crate::World;

pub use kumiki_mem::{Attachment, RegionKey, SLOT_BITS};

/// The global memory that a world stands on: raw registrations, operations that keep their turn, pointers to own memory.
#[inline]
pub fn memory(world: &World) -> &kumiki_mem::World {
    &world.memory
}
