//! The regions that a thread used last, so that it finds them again in a few steps.
//!
//! A thread has a small table of its own, which no other thread sees: there is nothing to lock. What it remembers of a region is where
//! that lies and what must still hold for it to be there; whether it holds is looked at in each access ([`Spot::at`]). So a region
//! that was freed, or whose owner is gone, is never found here, and the table need not be told.

use crate::node::address::{GlobalAddress, Registration, SLOT_BITS};
use crate::node::Node;
use kumiki_net::shm::finder::Spot;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// Regions that a thread remembers. A region has one place among them.
const REGIONS: usize = 8;

/// A region that was used.
#[repr(align(128))]
struct Recent {
    /// Whose it is: the life of the world, which no other world ever has.
    life: u64,
    /// Its name: generation, rank and slot.
    name: u64,
    /// Its first address.
    start: u64,
    spot: Spot,
}

impl Recent {
    /// `bytes` at an address, if it is of this region. (What is before its start is far beyond its end.)
    #[inline(always)]
    fn find(&self, node: &Node, address: GlobalAddress, bytes: u64) -> Option<*mut u8> {
        if self.life != node.life {
            return None;
        }
        // SAFETY: a lasting spot of this world, whose finder is there as long as its node is.
        unsafe { self.spot.at(address.bits().wrapping_sub(self.start), bytes) }
    }
}

const NOTHING: Recent = Recent { life: 0, name: 0, start: 0, spot: Spot::NOWHERE };

thread_local! {
    static RECENT: Table = const { Table([const { UnsafeCell::new(NOTHING) }; REGIONS]) };
}

/// The table of a thread.
struct Table([UnsafeCell<Recent>; REGIONS]);

/// What this thread remembers in a place of its table. (A pointer, because `with` is not always compiled into its caller, and what is
/// done here would then be a call.)
#[inline(always)]
fn at(place: usize) -> *mut Recent {
    RECENT.with(|table| table.0[place].get())
}

/// The place of a region in the table: the sum of rank and slot, so that neither the regions of one rank nor those of many in one
/// slot get in each other's way. The generation is not looked at: registrations of one slot follow each other.
#[inline(always)]
fn place(region: u64) -> usize {
    ((region as u32).wrapping_mul(0x1_0001) >> SLOT_BITS) as usize % REGIONS
}

impl Node {
    /// `bytes` at an address of a region with a name, if this thread has used that region lately.
    #[inline(always)]
    pub(super) fn recent(&self, address: GlobalAddress, name: Registration, bytes: u64) -> Option<*mut u8> {
        // SAFETY: of this thread alone, which only changes it in `meet`.
        let recent = unsafe { &*at(place(name.bits())) };
        match recent.name == name.bits() {
            true => recent.find(self, address, bytes),
            false => None,
        }
    }

    /// The same for whatever region an address lies in.
    #[inline(always)]
    pub(crate) fn recent_any(&self, address: GlobalAddress, bytes: u64) -> Option<*mut u8> {
        // SAFETY: as above.
        let recent = unsafe { &*at(place(self.format.region(address))) };
        recent.find(self, address, bytes)
    }

    /// Finds a region that this thread has not used lately, and remembers it. `None` for the long way round.
    #[cold]
    #[inline(never)]
    pub(super) fn meet(
        &self,
        address: GlobalAddress,
        registration: Registration,
        bytes: u64,
    ) -> Option<NonNull<u8>> {
        let is_any = registration == Registration::ANY;
        // A pointer that was made of an address names no region, and was not looked for above.
        if let Some(pointer) = is_any.then(|| self.recent_any(address, bytes)).flatten() {
            return NonNull::new(pointer);
        }
        let region = if is_any { self.format.region(address) } else { registration.region() };
        let (name, spot) = self.finder.spot(region)?;
        if !is_any && name != registration.bits() {
            return None;
        }
        let start = self.format.start(region);
        if spot.is_lasting() {
            // SAFETY: of this thread alone, and no reference to it is kept.
            unsafe { *at(place(region)) = Recent { life: self.life, name, start, spot } };
        }
        spot.now(address.bits().wrapping_sub(start), bytes).and_then(NonNull::new)
    }
}

#[cfg(test)]
mod tests {
    use crate::{GlobalPtr, Order, World};

    #[test]
    fn a_region_that_was_freed_is_not_found_where_it_was_used_last() {
        let world = World::init().unwrap();
        let first = world.alloc::<u64>(8).unwrap();
        let (old, spare) = (first.ptr(), world.alloc::<u64>(8).unwrap());
        world.put(old, 7).unwrap();
        drop(first);
        assert!(world.get(old).is_err() && world.put(old, 8).is_err());
        assert!(world.copy(spare.address(), old.address(), 8, Order::None).is_err());
        // Slots are given out in turn: in time another region has that of the old one, in its next generation.
        let mut others = (0..10_000).map(|_| world.alloc::<u64>(1).unwrap());
        let again = others.find(|other| other.address() == old.address()).expect("the slot was taken again");
        world.put(again.ptr(), 9).unwrap();
        assert!(world.get(old).is_err() && world.fetch_add(old, 1).is_err());
        assert_eq!(world.get(GlobalPtr::<u64>::from_address(old.address())).unwrap(), 9);
        drop((again, spare));
        world.finalize().unwrap();
    }

    #[test]
    fn a_pointer_that_has_left_its_region_finds_no_other_one_that_was_used() {
        let world = World::init().unwrap();
        let regions = [world.alloc::<u64>(4).unwrap(), world.alloc::<u64>(4).unwrap()];
        let [one, other] = [regions[0].ptr(), regions[1].ptr()];
        world.put(one, 1).unwrap();
        world.put(other, 2).unwrap();
        let bytes = other.address().bits() - one.address().bits();
        let moved = one + (bytes / 8) as usize;
        assert_eq!(moved.address(), other.address());
        assert!(world.get(moved).is_err(), "it is of the other region");
        assert!(world.get(one + 4).is_err() && world.get(one + usize::MAX / 8).is_err());
        assert_eq!(world.get(GlobalPtr::<u64>::from_address(moved.address())).unwrap(), 2);
        drop(regions);
        world.finalize().unwrap();
    }

    #[test]
    fn short_regions_and_the_last_bytes_of_others_are_found_each_time() {
        let world = World::init().unwrap();
        for length in [1, 3, 8, 9, 17] {
            let region = world.alloc::<u8>(length).unwrap();
            for time in 0..3 {
                for index in 0..length {
                    world.put(region.ptr() + index, index as u8 + time).unwrap();
                    assert_eq!(world.get(region.ptr() + index).unwrap(), index as u8 + time);
                }
                assert!(world.get(region.ptr() + length).is_err());
                assert!(world.get((region.ptr() + (length - 1)).cast::<u64>()).is_err());
            }
        }
        let triples = world.alloc::<[u64; 3]>(5).unwrap();
        for index in 0..5 {
            world.put(triples.ptr() + index, [index as u64; 3]).unwrap();
            assert_eq!(world.get(triples.ptr() + index).unwrap(), [index as u64; 3]);
        }
        assert!(world.get(triples.ptr() + 5).is_err());
        drop(triples);
        world.finalize().unwrap();
    }

    #[test]
    fn regions_that_share_a_place_in_the_table_do_not_take_each_others_memory() {
        let world = World::init().unwrap();
        let regions: Vec<_> = (0..40).map(|_| world.alloc::<u64>(2).unwrap()).collect();
        for round in 0..3u64 {
            for (number, region) in (0..).zip(&regions) {
                assert_eq!(world.fetch_add(region.ptr() + 1, number).unwrap(), round * number);
            }
        }
        drop(regions);
        world.finalize().unwrap();
    }

    #[test]
    fn a_world_does_not_find_what_was_used_in_another_one() {
        // Both have the same names for their first regions.
        let worlds = [World::init().unwrap(), World::init().unwrap()];
        let regions = [worlds[0].alloc::<u64>(8).unwrap(), worlds[1].alloc::<u64>(8).unwrap()];
        assert_eq!(regions[0].ptr().parts(), regions[1].ptr().parts());
        worlds[0].put(regions[0].ptr(), 1).unwrap();
        worlds[1].put(regions[1].ptr(), 2).unwrap();
        let found = [0, 1].map(|which| worlds[which].get(regions[which].ptr()).unwrap());
        assert_eq!(found, [1, 2]);
        drop(regions);
        worlds.into_iter().for_each(|world| world.finalize().unwrap());
    }
}
