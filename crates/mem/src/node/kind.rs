//! Kinds of memory. What one must be able to do so that copies, fills and atomics work with it is [`Kind`]; all of them stand behind
//! [`Reach`], which says how memory that was found can be touched from here.
//!
//! | kind | where it is | how it is touched |
//! |---|---|---|
//! | [`Mapped`] | the arena of this node, and memory of this process | loads and stores |
//! | [`Private`] | memory of a neighbour that it has registered | the system copies it, or its owner is asked |
//!
//! A new kind, memory of a device for one, is a variant of [`Reach`] with an implementation of [`Kind`], and a line in
//! [`Reach::with_kind`]; `access.rs` says which addresses are of it. What it cannot do here it leaves to its owner, and says so: no word
//! to change means that atomics are sent there, `Ok(false)` that copies are.

use crate::node::access::{Private, Reach};
use crate::node::{copy, Node};
use crate::Result;
use kumiki_net::os::memory::Direction;
use kumiki_net::Rank;

/// Memory that was found, and is as long as it was asked for.
pub(crate) trait Kind {
    /// Where this process may load and store, and change words atomically. Nobody does unless this says so.
    fn word(&self) -> Option<*mut u8> {
        None
    }

    /// Whether it can be copied from here at all: asked before anything is, where half a copy would be worse than none.
    fn may_touch(&self, _node: &Node) -> bool {
        true
    }

    /// Copies bytes from an offset of it to memory of this process; false if this process cannot.
    ///
    /// # Safety
    /// `to` must be valid for writes of `bytes`, and these must lie in what was found, which must be pinned if it is this process's own.
    unsafe fn read(&self, node: &Node, offset: u64, to: *mut u8, bytes: u64) -> Result<bool>;

    /// Copies bytes of this process to an offset of it; likewise.
    ///
    /// # Safety
    /// As [`read`](Self::read), with `from` valid for reads.
    unsafe fn write(&self, node: &Node, offset: u64, from: *const u8, bytes: u64) -> Result<bool>;
}

/// Memory at an address of this process.
pub(crate) struct Mapped(*mut u8);

impl Kind for Mapped {
    fn word(&self) -> Option<*mut u8> {
        Some(self.0)
    }

    unsafe fn read(&self, _node: &Node, offset: u64, to: *mut u8, bytes: u64) -> Result<bool> {
        // SAFETY: as the caller promises.
        unsafe { copy::move_bytes(to, self.0.add(offset as usize), bytes as usize) };
        Ok(true)
    }

    unsafe fn write(&self, node: &Node, offset: u64, from: *const u8, bytes: u64) -> Result<bool> {
        // SAFETY: as the caller promises.
        unsafe { copy::move_bytes(self.0.add(offset as usize), from, bytes as usize) };
        node.wrote(self.0);
        Ok(true)
    }
}

impl Kind for Private {
    fn may_touch(&self, node: &Node) -> bool {
        node.may_touch(*self)
    }

    unsafe fn read(&self, node: &Node, offset: u64, to: *mut u8, bytes: u64) -> Result<bool> {
        // SAFETY: as the caller promises.
        unsafe { node.copy_neighbour(self.add(offset), Direction::Read, to, bytes, false) }
    }

    unsafe fn write(&self, node: &Node, offset: u64, from: *const u8, bytes: u64) -> Result<bool> {
        // SAFETY: as the caller promises; the source is only read.
        unsafe { node.copy_neighbour(self.add(offset), Direction::Write, from.cast_mut(), bytes, false) }
    }
}

impl Reach {
    /// Does something with memory of whatever kind; `None` if only its owner can touch it.
    pub(crate) fn with_kind<R>(self, work: impl FnOnce(&dyn Kind) -> R) -> Option<R> {
        match self {
            Reach::Direct(pointer) => Some(work(&Mapped(pointer))),
            Reach::Private(private) => Some(work(&private)),
            Reach::Remote(_) => None,
        }
    }

    /// Where this process may change a word itself.
    #[inline]
    pub(crate) fn word(self) -> Option<*mut u8> {
        match self {
            Reach::Direct(pointer) => Some(pointer),
            other => other.with_kind(|kind| kind.word()).flatten(),
        }
    }

    /// Whose it is, if that is for others to know: whoever cannot touch it asks this rank.
    pub(crate) fn owner(self) -> Option<Rank> {
        match self {
            Reach::Direct(_) => None,
            Reach::Private(private) => Some(private.rank()),
            Reach::Remote(rank) => Some(rank),
        }
    }

    /// The memory `bytes` further on, inside of what was found.
    #[inline]
    pub(crate) fn add(self, bytes: u64) -> Reach {
        match self {
            Reach::Direct(pointer) => Reach::Direct(pointer.wrapping_add(bytes as usize)),
            Reach::Private(private) => Reach::Private(private.add(bytes)),
            Reach::Remote(rank) => Reach::Remote(rank),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    /// Memory that can only be copied through this process, as that of a device: a vector stands for it.
    struct Afar(Vec<u8>);

    impl Kind for Afar {
        unsafe fn read(&self, _: &Node, offset: u64, to: *mut u8, bytes: u64) -> Result<bool> {
            // SAFETY: as the caller promises.
            unsafe { self.0.as_ptr().add(offset as usize).copy_to(to, bytes as usize) };
            Ok(true)
        }

        unsafe fn write(&self, _: &Node, _: u64, _: *const u8, _: u64) -> Result<bool> {
            Ok(false)
        }
    }

    #[test]
    fn a_kind_that_only_reads_is_copied_from_and_leaves_the_rest_to_its_owner() {
        let world = World::init().unwrap();
        let node: &Node = world.core();
        let mut bytes: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        let (afar, mut found) = (Afar(bytes.clone()), vec![0u8; 100_000]);
        let (here, there) = (Mapped(bytes.as_mut_ptr()), Mapped(found.as_mut_ptr()));
        assert!(copy::bounce(node, &there, &afar, 100_000, false).unwrap());
        assert_eq!(found, bytes);
        assert!(!copy::bounce(node, &afar, &here, 100_000, false).unwrap(), "its owner must be asked");
        assert!(afar.word().is_none() && here.word().is_some() && afar.may_touch(node));
        world.finalize().unwrap();
    }

    #[test]
    fn a_copy_through_a_buffer_that_overlaps_goes_the_right_way() {
        let world = World::init().unwrap();
        let node: &Node = world.core();
        for (to, from, backwards) in [(1000, 0, true), (0, 1000, false)] {
            let mut bytes: Vec<u8> = (0..100_000u32).map(|i| (i / 7) as u8).collect();
            let mut wanted = bytes.clone();
            wanted.copy_within(from..from + 99_000, to);
            let start = bytes.as_mut_ptr();
            let [target, source] = [to, from].map(|offset| Mapped(start.wrapping_add(offset)));
            assert!(copy::bounce(node, &target, &source, 99_000, backwards).unwrap());
            assert_eq!(bytes, wanted);
        }
        world.finalize().unwrap();
    }
}
