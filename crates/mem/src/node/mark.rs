//! A place in memory of the node that is used again and again: whoever keeps a mark of it finds it with one comparison.
//!
//! A mark holds nothing: the memory may go at any time. It remembers, as the table of a thread does (`recent.rs`), where the place was found and the
//! stamp of then, and is asked for each access anew.

use crate::node::address::GlobalAddress;
use crate::node::local::{Local, Span};
use crate::node::recent::STAMPED_LIVES;
use crate::Result;

/// Where some bytes of arena memory of this node were found last: for [`Local::span_at`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    address: GlobalAddress,
    bytes: u64,
    base: *mut u8,
    /// When and in which world they were found. No glance has that of a mark that was not used yet.
    stamp: u64,
}

// SAFETY: the pointer is only used by `span_at`, for memory that any thread may touch by copies and atomics.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    /// A mark of `bytes` at an address.
    pub fn new(address: GlobalAddress, bytes: u64) -> Mark {
        Mark { address, bytes, base: std::ptr::null_mut(), stamp: u64::MAX }
    }
}

impl<'a> Local<'a> {
    /// The [span](Self::span) of a mark.
    #[inline(always)]
    pub fn span_at(self, mark: &mut Mark) -> Result<Span<'a>> {
        match self.node.glance().stamp() == mark.stamp {
            // Found in this world, of which nothing was taken away since. A forked child, which has no arena, has another stamp.
            true => Ok(Span::new(mark.base, mark.bytes, mark.address)),
            false => self.find_again(mark),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_again(self, mark: &mut Mark) -> Result<Span<'a>> {
        // What is taken away from here on makes this stamp an old one.
        let stamp = self.node.glance().stamp();
        let found = self.node.here_any(mark.address, mark.bytes);
        (mark.base, mark.stamp) = match found {
            Some(base) if stamp >= STAMPED_LIVES => (base, stamp),
            _ => (std::ptr::null_mut(), u64::MAX),
        };
        self.span(mark.address, mark.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    #[test]
    fn a_mark_finds_its_memory_until_that_is_gone_and_then_what_is_there() {
        let world = World::init().unwrap();
        let region = world.alloc::<u64>(8).unwrap();
        let mut mark = Mark::new(region.address(), 64);
        for value in 1..4 {
            world.local().span_at(&mut mark).unwrap().store(56, value).unwrap();
            assert_eq!(world.get(region.ptr() + 7).unwrap(), value);
        }
        // What has nothing to do with it goes, and it is found again.
        drop(world.alloc::<u64>(8).unwrap());
        assert_eq!(world.local().span_at(&mut mark).unwrap().load(56).unwrap(), 3);
        assert!(world.local().span_at(&mut Mark::new(region.address(), 72)).is_err(), "beyond its end");
        drop(region);
        assert!(world.local().span_at(&mut mark).is_err());
        assert!(world.local().span_at(&mut mark).is_err());
        world.finalize().unwrap();
    }

    #[test]
    fn a_mark_of_one_world_finds_nothing_of_it_in_another() {
        // Both have the same names for their first regions.
        let worlds = [World::init().unwrap(), World::init().unwrap()];
        let regions = [worlds[0].alloc::<u64>(8).unwrap(), worlds[1].alloc::<u64>(8).unwrap()];
        let mut mark = Mark::new(regions[0].address(), 8);
        for (world, value) in worlds.iter().zip([1, 2]) {
            world.local().span_at(&mut mark).unwrap().store(0, value).unwrap();
        }
        let found = [0, 1].map(|which: usize| worlds[which].get(regions[which].ptr()).unwrap());
        assert_eq!(found, [1, 2]);
        drop(regions);
        worlds.into_iter().for_each(|world| world.finalize().unwrap());
    }
}
