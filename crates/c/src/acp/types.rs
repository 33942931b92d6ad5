//! The structs of `acp.h`, and what they are in Rust.

use super::WORLD;
use crate::guard::misuse;
use kumiki::data::LARGEST_ITEM;
use kumiki::{GlobalAddress, GlobalPtr, Result, World};
use std::ffi::c_int;

/// `acp_element_t`: a place in global memory and its length.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Element {
    /// The first byte.
    pub ga: u64,
    /// How many there are.
    pub size: usize,
}

/// `acp_pair_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    /// The key of a map, or the first piece of a deque's range.
    pub first: Element,
    /// The value, or the second piece.
    pub second: Element,
}

impl Element {
    /// Its bytes, from wherever they are.
    pub(super) fn read(self, world: &World) -> Result<Vec<u8>> {
        world.get_vec(pointer(self.ga), self.size)
    }

    /// The same for a key or a value: what no table takes is not read.
    pub(super) fn read_item(self, world: &World) -> Result<Vec<u8>> {
        if self.size > LARGEST_ITEM {
            return Err(misuse(format!("a key or value of {} bytes; at most {LARGEST_ITEM}", self.size)));
        }
        self.read(world)
    }
}

/// A pointer to bytes in global memory.
pub(super) fn pointer(ga: u64) -> GlobalPtr<u8> {
    GlobalPtr::from_address(GlobalAddress::from_bits(ga))
}

/// A rank as C gives it.
pub(super) fn rank_of(rank: c_int) -> Result<u32> {
    u32::try_from(rank).or_else(|_| {
        WORLD.with(|world| {
            Err(misuse(format!("rank {rank}: there are {} ranks, numbered from 0", world.ranks())))
        })
    })
}

/// An index as C gives it.
pub(super) fn index_of(index: c_int) -> Result<usize> {
    usize::try_from(index).map_err(|_| misuse(format!("index {index} cannot be")))
}
