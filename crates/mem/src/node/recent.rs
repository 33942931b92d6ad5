//! The regions that a thread used last, so that it finds them again in a few steps.
//!
//! A thread has a small table of its own, which no other thread sees: there is nothing to lock. What it remembers of a region is where
//! that lies and its *stamp*: the world it was found in, and how often something had been taken away on the node before
//! (`kumiki_net::shm::changes`). Each access compares that with the stamp of now. So a region that was freed, or whose owner is
//! gone, is never found here, and nobody has to tell a table; but whenever any region of the node is freed, every thread looks once
//! more for each that it uses.

use crate::node::address::{GlobalAddress, Registration, SLOT_BITS};
use crate::node::Node;
use kumiki_net::shm::changes::Signs;
use kumiki_net::shm::finder::Spot;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// Regions that a thread remembers. A region has one place among them.
const REGIONS: usize = 16;

/// Bits of a stamp that are the number of the world. Above them is the count of what was taken away: of that, which stands in shared
/// memory, nothing gets into the number, whoever wrote it. It comes round after years.
const LIFE_BITS: u32 = 16;

/// Worlds of a process that have stamps, in its whole life. Those that come later have no short way to memory.
pub(super) const STAMPED_LIVES: u64 = 1 << LIFE_BITS;

/// What is in every stamp of a world.
pub(super) fn stamp_of(life: u64) -> u64 {
    life % STAMPED_LIVES
}

/// A region that was used.
#[repr(C, align(64))]
struct Recent {
    /// Its name: generation, rank and slot.
    name: u64,
    /// When and where it was found. None is remembered with a count of 0, which a forked child reads.
    stamp: u64,
    /// Its first address.
    start: u64,
    spot: Spot,
}

impl Recent {
    /// `bytes` at an address, if it is of this region. (What is before its start is far beyond its end.)
    #[inline(always)]
    fn find(&self, glance: Glance<'_>, address: GlobalAddress, bytes: u64) -> Option<*mut u8> {
        if self.stamp != glance.stamp {
            return None;
        }
        // SAFETY: a lasting spot of this world, whose finder is there as long as its node is; and its changes are what they were
        // before the spot was looked for.
        unsafe { self.spot.at(address.bits().wrapping_sub(self.start), bytes) }
    }
}

/// No glance has its stamp: the last world that has one would have to count for years.
const NOTHING: Recent = Recent { name: 0, stamp: u64::MAX, start: u64::MAX, spot: Spot::NOWHERE };

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

/// What an access sees of the node before it begins. It is good for that access, and for nothing that comes later.
#[derive(Clone, Copy)]
pub(crate) struct Glance<'a> {
    signs: &'a Signs,
    stamp: u64,
}

impl Glance<'_> {
    /// Whether a rank of the node may sleep until somebody writes to its memory: asked now, right behind the write.
    #[inline(always)]
    pub(crate) fn anybody_listens(self) -> bool {
        self.signs.listeners.any()
    }

    /// Of which world, and how often something had been taken away on its node.
    #[inline(always)]
    pub(super) fn stamp(self) -> u64 {
        self.stamp
    }
}

impl Node {
    /// A look at the node, to be taken before each access.
    #[inline(always)]
    pub(crate) fn glance(&self) -> Glance<'_> {
        let signs = self.finder.signs();
        Glance { signs, stamp: signs.changes.count() << LIFE_BITS | self.stamp }
    }

    /// `bytes` at an address of a region with a name, if this thread has used that region lately.
    #[inline(always)]
    pub(crate) fn recent(
        &self,
        glance: Glance<'_>,
        address: GlobalAddress,
        name: Registration,
        bytes: u64,
    ) -> Option<*mut u8> {
        // SAFETY: of this thread alone, which only changes it in `meet`.
        let recent = unsafe { &*at(place(name.bits())) };
        match recent.name == name.bits() {
            true => recent.find(glance, address, bytes),
            false => None,
        }
    }

    /// The same for whatever region an address lies in.
    #[inline(always)]
    pub(crate) fn recent_any(
        &self,
        glance: Glance<'_>,
        address: GlobalAddress,
        bytes: u64,
    ) -> Option<*mut u8> {
        // SAFETY: as above.
        let recent = unsafe { &*at(place(self.format.region(address))) };
        recent.find(glance, address, bytes)
    }

    /// Finds a region that this thread has not used lately, and remembers it. `None` for the long way round.
    #[cold]
    #[inline(never)]
    pub(crate) fn meet(
        &self,
        address: GlobalAddress,
        registration: Registration,
        bytes: u64,
    ) -> Option<NonNull<u8>> {
        let is_any = registration == Registration::ANY;
        // What is taken away from here on makes this stamp an old one.
        let glance = self.glance();
        // A pointer that was made of an address names no region, and was not looked for above.
        if let Some(pointer) = is_any.then(|| self.recent_any(glance, address, bytes)).flatten() {
            return NonNull::new(pointer);
        }
        let region = if is_any { self.format.region(address) } else { registration.region() };
        let (name, spot) = self.finder.spot(region)?;
        if !is_any && name != registration.bits() {
            return None;
        }
        let start = self.format.start(region);
        if spot.is_lasting() && glance.stamp >= STAMPED_LIVES {
            let recent = Recent { name, stamp: glance.stamp, start, spot };
            // SAFETY: of this thread alone, and no reference to it is kept.
            unsafe { *at(place(region)) = recent };
        }
        spot.now(address.bits().wrapping_sub(start), bytes).and_then(NonNull::new)
    }
}

#[cfg(test)]
mod tests {
    use crate::node::address::{Registration, POOL_SLOT, STARTER_SLOT};
    use crate::node::{two_of_a_node, Node};
    use crate::{GlobalPtr, Order, World};
    use kumiki_net::os::memory::PAGE_BYTES;
    use kumiki_net::shm::arena::Arena;
    use kumiki_net::shm::region::{Kind, RegionView};
    use kumiki_net::shm::world::{Cause, Status};
    use kumiki_net::Rank;

    /// A node of two ranks, as the first of them sees it.
    fn node_of_two() -> Node {
        let [first, _] = two_of_a_node(1);
        first
    }

    #[test]
    fn whatever_takes_memory_of_a_neighbour_away_makes_a_thread_forget_it() {
        type Take = fn(&Arena);
        let takes: [(u16, Take); 5] = [
            (STARTER_SLOT, |arena| {
                arena.place(Rank(1)).unwrap().set_status(Status::Lost, Cause::EXITED, arena.changes());
            }),
            (STARTER_SLOT, |arena| arena.region(1, 1).unwrap().retire(arena.changes())),
            (STARTER_SLOT, |arena| arena.clear().unwrap()),
            (POOL_SLOT, |arena| arena.region(1, POOL_SLOT as usize).unwrap().resize(0, arena.changes())),
            (POOL_SLOT, |arena| {
                let view = RegionView { kind: Kind::Arena, base: 0, bytes: 4, generation: 2, colour: 0 };
                arena.region(1, POOL_SLOT as usize).unwrap().publish(view, arena.changes());
            }),
        ];
        for (number, (slot, take)) in takes.into_iter().enumerate() {
            let node = node_of_two();
            node.arena.region(1, POOL_SLOT as usize).unwrap().resize(PAGE_BYTES, node.arena.changes());
            let address = node.format.address(Rank(1), slot, 8);
            let name = node.format.registration(Rank(1), slot, 1);
            let found = |name| {
                let any = node.recent_any(node.glance(), address, 8);
                let named = node.recent(node.glance(), address, name, 8);
                assert_eq!(any, named);
                any
            };
            assert_eq!(found(name), None);
            let met = node.meet(address, Registration::ANY, 8).expect("it is there");
            assert_eq!(found(name), Some(met.as_ptr()));
            take(&node.arena);
            assert_eq!((found(name), node.here(address, name, 8)), (None, None), "{number}");
        }
    }

    #[test]
    fn a_pool_that_has_grown_is_found_to_its_new_end() {
        let node = node_of_two();
        let (entry, changes) = (node.arena.region(1, POOL_SLOT as usize).unwrap(), node.arena.changes());
        for pages in [1, 2, 5] {
            entry.resize(pages * PAGE_BYTES, changes);
            let end = node.format.address(Rank(1), POOL_SLOT, pages * PAGE_BYTES - 8);
            assert!(node.here_any(end, 8).is_some() && node.here_any(end.add(8), 8).is_none());
            assert!(node.recent_any(node.glance(), end, 8).is_some());
        }
    }

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
    fn a_count_that_somebody_has_written_leads_into_no_other_world() {
        // Both have the same names for their first regions.
        let worlds = [World::init().unwrap(), World::init().unwrap()];
        let regions = [worlds[0].alloc::<u64>(8).unwrap(), worlds[1].alloc::<u64>(8).unwrap()];
        worlds[0].put(regions[0].ptr(), 1).unwrap();
        let [one, other] = [0, 1].map(|which| -> &Node { worlds[which].core() });
        let stamp = one.glance().stamp;
        for count in [0, 1, stamp, stamp ^ other.stamp, (one.stamp ^ other.stamp) << 48 | 1, u64::MAX] {
            assert_ne!(count << super::LIFE_BITS | other.stamp, stamp, "{count:#x}");
        }
        drop(regions);
        worlds.into_iter().for_each(|world| world.finalize().unwrap());
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
