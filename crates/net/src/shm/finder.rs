//! The way of every access on the node, from the name of a region to a pointer, in as few instructions as it takes.
//!
//! A [`Finder`] has everything that the way needs side by side, ready to use: no arena, configuration or layout is gone through. It
//! says `None` for whatever is not plain (another node, a rank that is gone, memory that is not of the arena, a coloured region, a
//! length of 0, an error of any kind): the caller then goes the long way, which tells them apart. What it has found, a [`Spot`], can
//! be kept, and used again as long as nothing was taken away on the node since: [`Finder::changes`] then is what it was before the
//! spot was looked for. What is read from shared memory is read once and checked before it is used, whoever wrote it.

use super::arena::{Config, Whole};
use super::bell::Listeners;
use super::changes::{Signs, NO_SIGNS};
use super::layout::{Layout, ENTRY_BYTES, PAGE_SLOTS_SHIFT};
use super::region::{RegionEntry, GENERATION_BITS};
use super::world::PlaceWord;
use crate::os::memory::PAGE_BYTES;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bits of the slot in the name of a region.
const SLOT_BITS: u32 = 16;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
/// The usual length of an access.
const WORD_BYTES: u64 = 8;
/// Slots in a page of a table.
const PAGE_SLOTS: u64 = 1 << PAGE_SLOTS_SHIFT;

/// Finds memory of a node.
#[derive(Debug)]
pub struct Finder {
    world: NonNull<PlaceWord>,
    /// What the word of the first rank of this node holds while that is alive: the others of the node follow.
    here: u64,
    local_ranks: u64,
    /// The first page of the first region table.
    tables: NonNull<u8>,
    base: NonNull<u8>,
    /// What was taken away, for whoever can be found.
    signs: NonNull<Signs>,
    /// Who wants to be woken by writes.
    listeners: NonNull<Listeners>,
    arena_bytes: u64,
    /// Ranks that can be found: none when every access shall go the long way.
    ranks: u32,
    table_shift: u32,
    /// Keeps what the pointers lead to.
    _whole: Arc<Whole>,
}

// SAFETY: the pointers lead into the mapping that `_whole` keeps, which is `Send` and `Sync`; it is only read here, through
// atomics.
unsafe impl Send for Finder {}
// SAFETY: as above.
unsafe impl Sync for Finder {}

/// A region of the arena that was found once.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    first: *mut u8,
    bytes: u64,
    /// Where the last eight bytes of the region begin, if it has so many.
    last_word: u64,
}

impl Spot {
    /// One that leads nowhere: nothing is in it.
    pub const NOWHERE: Spot = Spot { first: std::ptr::null_mut(), bytes: 0, last_word: 0 };

    /// Whether it can be asked with [`at`](Self::at).
    #[inline]
    pub fn is_lasting(&self) -> bool {
        self.bytes >= WORD_BYTES
    }

    /// `bytes` at `offset` of the region, as it was when it was found.
    #[inline]
    pub fn now(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let is_inside = bytes != 0 && offset < self.bytes && bytes <= self.bytes - offset;
        // SAFETY: it lies in the region, which lies in the arena.
        is_inside.then(|| unsafe { self.first.add(offset as usize) })
    }

    /// `bytes` at `offset` of the region, if they are in it; sometimes not of the last seven of it.
    ///
    /// # Safety
    /// It must come from [`Finder::spot`] and be [lasting](Self::is_lasting), that finder must still be there, and its
    /// [changes](Finder::changes) must be what they were before it was asked for the spot.
    #[inline(always)]
    pub unsafe fn at(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let is_outside = match bytes {
            0 => true,
            // One comparison for whatever is no longer than a word.
            1..=WORD_BYTES => offset > self.last_word,
            _ => offset > self.last_word || bytes - WORD_BYTES > self.last_word - offset,
        };
        // SAFETY: it lies in the region, which lies in the arena.
        (!is_outside).then(|| unsafe { self.first.add(offset as usize) })
    }
}

impl Finder {
    /// A finder over a mapping that is laid out and configured like this.
    pub(super) fn new(
        whole: Arc<Whole>,
        base: NonNull<u8>,
        signs: &Signs,
        layout: &Layout,
        config: &Config,
    ) -> Finder {
        // In a forked child, where there is no arena, nothing has been counted, and no word of the world table says that anybody is
        // alive. Where that cannot be had every access goes the long way, which knows forked children.
        let finds = config.ranks > 0 && whole.is_blank_in_children(layout.controls);
        let at = |place: u64| {
            // SAFETY: both tables lie inside the mapping.
            unsafe { base.add(place as usize) }
        };
        Finder {
            world: at(layout.world).cast(),
            here: PlaceWord::first_alive_on(config.node),
            local_ranks: config.local_ranks as u64,
            tables: at(layout.tables),
            base,
            // Those of the arena are only looked at where a forked child may do so too.
            signs: NonNull::from(if finds { signs } else { &NO_SIGNS }),
            listeners: NonNull::from(&signs.listeners),
            arena_bytes: layout.total,
            ranks: if finds { config.ranks } else { 0 },
            table_shift: layout.table_shift,
            _whole: whole,
        }
    }

    /// What counts whatever was taken away, and who listens; of no node, if nothing is found here.
    #[inline(always)]
    pub fn signs(&self) -> &Signs {
        // SAFETY: the words of the node live as long as the mapping and what is beside it, which `_whole` keeps.
        unsafe { self.signs.as_ref() }
    }

    /// Whether a rank of the node may sleep until somebody writes to its memory: what a writer asks right behind its write.
    #[inline(always)]
    pub fn anybody_listens(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.listeners.as_ref() }.any()
    }

    /// How often something was taken away on this node. It is 0 in a forked child, and where nothing is found.
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.signs().changes.count()
    }

    /// The place on this node of a rank that is alive; what it says is less than `local_ranks`.
    #[inline(always)]
    fn local(&self, rank: u32) -> Option<u64> {
        if rank >= self.ranks {
            return None;
        }
        // SAFETY: the world table has a word for each rank.
        let word = unsafe { self.world.add(rank as usize).as_ref() };
        // Alive, of this node, and one of its ranks: whatever else the word holds is far from `here`.
        let local = word.beyond(self.here);
        (local < self.local_ranks).then_some(local)
    }

    /// The entry of the slot in the lowest bits of a name, in the table of a rank of this node.
    ///
    /// # Safety
    /// `local` must come from [`local`](Self::local).
    #[inline(always)]
    unsafe fn entry(&self, local: u64, name: u64) -> &RegionEntry {
        let mut offset = local * PAGE_BYTES + (name & (PAGE_SLOTS - 1)) * ENTRY_BYTES;
        if name & SLOT_MASK & !(PAGE_SLOTS - 1) != 0 {
            offset += ((name & SLOT_MASK) >> PAGE_SLOTS_SHIFT) << self.table_shift;
        }
        // SAFETY: there are as many tables as local ranks, and this one has an entry for every slot, and is made of atomics.
        // A page that was never committed reads as zeroes, which is a free entry.
        unsafe { self.tables.add(offset as usize).cast().as_ref() }
    }

    /// Where the region lies that has this rank and slot now, and its name. `None` for what has no short way. Whoever wants to
    /// come again with it asks for the [changes](Self::changes) before.
    #[inline]
    pub fn spot(&self, region: u64) -> Option<(u64, Spot)> {
        let rank = (region >> SLOT_BITS) as u32;
        let local = self.local(rank)?;
        // SAFETY: it comes from there.
        let entry = unsafe { self.entry(local, region) };
        let words = entry.words();
        let (place, bytes) = RegionEntry::plain(words)?;
        // All of it must lie in the arena, so that no access has to ask. (None of these sums wraps round.)
        if bytes == 0 || place + bytes > self.arena_bytes {
            return None;
        }
        // SAFETY: it lies inside the mapping.
        let first = unsafe { self.base.add(place as usize).as_ptr() };
        let spot = Spot { first, bytes, last_word: bytes.wrapping_sub(WORD_BYTES) };
        Some((words.0 & GENERATION_BITS | region, spot))
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::tests::config;
    use super::super::arena::{Arena, SLOTS};
    use super::super::region::{Kind, RegionView};
    use super::super::world::{Cause, Place, Status};
    use super::Finder;
    use crate::Rank;

    fn arena() -> Arena {
        let arena = Arena::create(config(3)).unwrap();
        for local in 0..3 {
            arena.prepare_rank(local).unwrap();
            let place = Place { node: 0, local, status: Status::Alive, cause: Cause::UNKNOWN };
            arena.place(Rank(local)).unwrap().store(place, arena.changes());
        }
        arena
    }

    /// As whoever comes for the first time, and as whoever has been there: they agree, but for the last bytes of a region.
    fn named(finder: &Finder, name: u64, offset: u64, bytes: u64) -> Option<*mut u8> {
        let (found, spot) = finder.spot(name & ((1 << 48) - 1))?;
        let now = spot.now(offset, bytes).filter(|_| found == name)?;
        if spot.is_lasting() && (bytes >= 8 || spot.now(offset, 8).is_some()) {
            // SAFETY: the finder is there.
            assert_eq!(unsafe { spot.at(offset, bytes) }, Some(now));
        }
        Some(now)
    }

    fn name(rank: u64, slot: u64, generation: u64) -> u64 {
        generation << 52 | rank << 16 | slot
    }

    #[test]
    fn only_what_is_plain_is_found_and_it_is_where_the_entry_says() {
        let arena = arena();
        let finder = arena.finder(true);
        let base = arena.starter(2).start;
        let view = RegionView { kind: Kind::Arena, base, bytes: 100, generation: 5, colour: 0 };
        for slot in [7, 255, 256, SLOTS as u64 - 1] {
            arena.commit_slot(2, slot as usize).unwrap();
            let entry = arena.region(2, slot as usize).unwrap();
            let both = |offset, bytes| named(&finder, name(2, slot, 5), offset, bytes);
            assert_eq!(both(0, 1), None);
            entry.publish(view, arena.changes());
            let at = |offset| Some(arena.pointer(base + offset));
            assert_eq!((both(0, 100), both(92, 8), both(99, 1)), (at(0), at(92), at(99)));
            for (offset, bytes) in [(93, 8), (100, 1), (0, 0), (u64::MAX, 2), (1, u64::MAX), (1 << 48, 1)] {
                assert_eq!(both(offset, bytes), None, "{bytes} at {offset}");
            }
            for wrong in [name(2, slot, 4), name(2, slot, 0), name(1, slot, 5), name(3, slot, 5)] {
                assert_eq!(named(&finder, wrong, 0, 1), None, "{wrong:#x}");
            }
            for other in [
                RegionView { kind: Kind::Private, ..view },
                RegionView { kind: Kind::ReadOnly, ..view },
                RegionView { colour: 1, ..view },
                RegionView { base: arena.bytes() - 4, ..view },
            ] {
                entry.publish(other, arena.changes());
                assert_eq!(both(0, 8), None, "{other:?}");
            }
            entry.publish(view, arena.changes());
            entry.retire(arena.changes());
            assert_eq!(both(0, 1), None);
        }
    }

    #[test]
    fn nobody_is_found_who_is_gone_or_elsewhere_or_not_to_be_found() {
        let arena = arena();
        let (finder, blind) = (arena.finder(true), arena.finder(false));
        let base = arena.starter(1).start;
        let view = RegionView { kind: Kind::Arena, base, bytes: 8, generation: 1, colour: 0 };
        arena.region(1, 1).unwrap().publish(view, arena.changes());
        let found = || named(&finder, name(1, 1, 1), 0, 8).is_some();
        assert!(found() && named(&blind, name(1, 1, 1), 0, 8).is_none());
        let place = arena.place(Rank(1)).unwrap();
        let alive = place.load();
        for (status, cause) in
            [(Status::Lost, Cause::EXITED), (Status::Left, Cause(3)), (Status::Expected, Cause(0))]
        {
            place.set_status(status, cause, arena.changes());
            assert!(!found());
        }
        for elsewhere in [Place { node: 1, ..alive }, Place { local: 3, ..alive }] {
            place.store(elsewhere, arena.changes());
            assert!(!found());
        }
        place.store(alive, arena.changes());
        assert!(found());
    }

    #[test]
    fn whatever_is_taken_away_is_counted() {
        let arena = arena();
        let (finder, changes) = (arena.finder(true), arena.changes());
        let place = arena.place(Rank(1)).unwrap();
        let (entry, alive) = (arena.region(1, 1).unwrap(), place.load());
        let base = arena.starter(1).start;
        let view = RegionView { kind: Kind::Arena, base, bytes: 64, generation: 1, colour: 0 };
        let counts = |step: &dyn Fn()| {
            let before = finder.changes();
            step();
            finder.changes() != before
        };
        // What comes, or grows, makes nothing wrong that is remembered.
        assert!(!counts(&|| entry.publish(view, changes)));
        assert!(!counts(&|| entry.resize(128, changes)));
        assert!(!counts(&|| place.store(alive, changes)));
        assert!(counts(&|| entry.resize(120, changes)));
        assert!(counts(&|| entry.publish(RegionView { base: base + 64, ..view }, changes)));
        assert!(counts(&|| entry.retire(changes)));
        for gone in [
            Place { status: Status::Lost, cause: Cause::EXITED, ..alive },
            Place { status: Status::Left, ..alive },
            Place { status: Status::Expected, ..alive },
            Place { local: 2, ..alive },
            Place { node: 1, ..alive },
        ] {
            assert!(counts(&|| place.store(gone, changes)), "{gone:?}");
            place.store(alive, changes);
        }
        assert!(counts(&|| arena.clear().unwrap()));
    }

    #[test]
    fn a_forked_child_finds_nobody_however_many_finders_an_arena_has() {
        let arena = arena();
        let view = RegionView {
            kind: Kind::Arena,
            base: arena.starter(0).start,
            bytes: 8,
            generation: 1,
            colour: 0,
        };
        arena.region(0, 1).unwrap().publish(view, arena.changes());
        // A world that starts over has one while the last is still there.
        let finders = [arena.finder(true), arena.finder(true)];
        let found = || finders.iter().filter(|finder| named(finder, name(0, 1, 1), 0, 8).is_some()).count();
        assert_eq!(found(), 2);
        assert!(finders[0].changes() > 0 && in_a_child(|| finders[1].changes() as i32) == 0);
        // A fork of a fork, as of daemons, was aborted: the zeroes that it had inherited were in the way of its own.
        let grandchild = || found() as i32 + in_a_child(|| found() as i32);
        assert_eq!((in_a_child(|| found() as i32), in_a_child(grandchild)), (0, 0));
    }

    #[test]
    fn a_forked_child_looks_at_no_arena_that_has_no_short_way() {
        // It was killed: nothing of that arena reads as zeroes there.
        let arena = arena();
        let blind = arena.finder(false);
        assert_eq!((blind.changes(), in_a_child(|| blind.changes() as i32)), (0, 0));
        assert_eq!(in_a_child(|| named(&blind, name(0, 1, 1), 0, 8).is_some() as i32), 0);
    }

    /// What a forked child comes to; its signal if it was killed.
    fn in_a_child(work: impl Fn() -> i32) -> i32 {
        // SAFETY: the child looks at memory, and ends without returning.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(work()) };
        }
        let mut status = 0;
        // SAFETY: the status is a place for one number.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            libc::WTERMSIG(status)
        }
    }

    #[test]
    fn a_name_that_is_made_up_finds_no_private_memory_in_the_arena() {
        let arena = arena();
        let finder = arena.finder(true);
        for kind in [Kind::Private, Kind::ReadOnly] {
            let (base, colour) = (arena.starter(0).start, kind as u8);
            let view = RegionView { kind, base, bytes: 8, generation: 1, colour };
            arena.region(0, 1).unwrap().publish(view, arena.changes());
            // As if what stands for the kind and the colour were a part of the generation.
            for made_up in 0..16u64 {
                assert_eq!(named(&finder, name(0, 1, 1) | made_up << 48, 0, 8), None, "{kind:?}, {made_up}");
            }
        }
    }
}
