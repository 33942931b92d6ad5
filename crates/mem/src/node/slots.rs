//! The free slots of this rank's region table, and which pages of it are there.
//!
//! Only the owner of a table gives slots out, so this is private state: a sorted map of runs of free slots. A slot is
//! reused late, so that a pointer to what was registered there before finds nothing, not something else: slots are given
//! out in turn. But a page of the table that has been used stays: so the turn is only as long as it must be, and gets
//! longer when half of it is in use.

use crate::node::address::FAR_POOL_SLOT;
use kumiki_net::shm::arena::{table_page, SLOTS, TABLE_PAGES};
use std::collections::BTreeMap;

/// The first slot that regions of the program get.
pub(crate) const FIRST_SLOT: u16 = FAR_POOL_SLOT + 1;
/// How many there are, and so the most registrations of a rank at a time.
pub(crate) const MOST_SLOTS: u16 = (SLOTS - FIRST_SLOT as usize) as u16;

/// The slots that are given out in turn as long as few are in use.
const FIRST_TURN: u32 = 4096;

/// The free slots of a table.
#[derive(Debug)]
pub(crate) struct Slots {
    /// First slot and length of each run of free ones, of those that are given out in turn.
    free: BTreeMap<u16, u16>,
    /// How many slots these are, from slot 0 on; the others are free.
    turn: u32,
    /// Slots in use.
    used: u32,
    /// Where the search starts: behind the slot given out last.
    cursor: u16,
    /// A bit for each page of the table that is committed. The first one always is.
    committed: [u64; TABLE_PAGES / 64],
}

impl Slots {
    pub(crate) fn new() -> Slots {
        let mut committed = [0; TABLE_PAGES / 64];
        committed[0] = 1;
        let free = BTreeMap::from([(FIRST_SLOT, FIRST_TURN as u16 - FIRST_SLOT)]);
        Slots { free, turn: FIRST_TURN, used: 0, cursor: FIRST_SLOT, committed }
    }

    /// Takes `count` slots in a row. One is found in a few steps, however many are taken; several may take a step for each run.
    pub(crate) fn take(&mut self, count: u16) -> Option<u16> {
        while self.turn < SLOTS as u32 && 2 * (self.used + count as u32) > self.turn {
            self.lengthen();
        }
        let (run, first) = match self.find(count) {
            None if self.turn < SLOTS as u32 => {
                self.lengthen();
                return self.take(count);
            }
            found => found?,
        };
        let length = self.free.remove(&run)?;
        let (end, taken) = (run as u32 + length as u32, first as u32 + count as u32);
        if first > run {
            self.free.insert(run, first - run);
        }
        if taken < end {
            self.free.insert(taken as u16, (end - taken) as u16);
        }
        self.cursor = u16::try_from(taken).ok().filter(|_| taken < self.turn).unwrap_or(FIRST_SLOT);
        self.used += count as u32;
        Some(first)
    }

    /// Doubles the slots that are given out in turn.
    fn lengthen(&mut self) {
        let (start, slots) = (self.turn, self.turn.min(SLOTS as u32 - self.turn));
        self.turn += slots;
        self.used += slots;
        self.give(start as u16, slots as u16);
    }

    /// The run in which there is room, and the slot in it.
    fn find(&self, count: u16) -> Option<(u16, u16)> {
        let around = self.free.range(..self.cursor).next_back();
        let fits = |(&run, &length): (&u16, &u16), first: u16| {
            let room = (run as u32 + length as u32).checked_sub(first as u32)?;
            (room >= count as u32).then_some((run, first))
        };
        let rest = around.and_then(|around| fits(around, self.cursor));
        let behind = self.free.range(self.cursor..).chain(self.free.range(..self.cursor));
        rest.or_else(|| behind.into_iter().find_map(|run| fits(run, *run.0)))
    }

    /// Gives slots back.
    pub(crate) fn give(&mut self, first: u16, count: u16) {
        self.used -= count as u32;
        let (mut start, mut length) = (first, count);
        if let Some((&before, &slots)) = self.free.range(..first).next_back() {
            if before as u32 + slots as u32 == first as u32 {
                self.free.remove(&before);
                (start, length) = (before, slots + length);
            }
        }
        let end = u16::try_from(first as u32 + count as u32).ok();
        length += end.and_then(|end| self.free.remove(&end)).unwrap_or(0);
        self.free.insert(start, length);
    }

    /// The longest run of free slots, once all are given out in turn.
    pub(crate) fn longest(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0) as u64
    }

    /// Runs in the map, for the ledger.
    pub(crate) fn runs(&self) -> usize {
        self.free.len()
    }

    /// Whether the page of a slot is committed.
    pub(crate) fn is_committed(&self, slot: u16) -> bool {
        let page = table_page(slot as usize);
        self.committed[page / 64] >> (page % 64) & 1 == 1
    }

    /// Notes that it is.
    pub(crate) fn note_committed(&mut self, slot: u16) {
        let page = table_page(slot as usize);
        self.committed[page / 64] |= 1 << (page % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_slot_is_given_once_and_reused_late() {
        let mut slots = Slots::new();
        let taken: BTreeSet<u16> = (0..MOST_SLOTS).map(|_| slots.take(1).unwrap()).collect();
        assert!(taken.len() == MOST_SLOTS as usize && taken.first() == Some(&FIRST_SLOT));
        assert_eq!((slots.take(1), slots.longest(), slots.runs()), (None, 0, 0));
        slots.give(u16::MAX, 1);
        slots.give(9, 1);
        slots.give(8, 1);
        assert_eq!((slots.take(3), slots.take(2)), (None, Some(8)));
        assert_eq!((slots.take(1), slots.take(1)), (Some(u16::MAX), None));
        assert_eq!(slots.longest(), 0);
        (FIRST_SLOT..=u16::MAX).rev().for_each(|slot| slots.give(slot, 1));
        assert_eq!((slots.longest(), slots.runs()), (MOST_SLOTS as u64, 1));
        assert_eq!(slots.take(MOST_SLOTS), Some(FIRST_SLOT));
    }

    #[test]
    fn a_slot_given_back_is_not_the_next_one_taken() {
        let mut slots = Slots::new();
        let first = slots.take(1).unwrap();
        slots.give(first, 1);
        assert_eq!(slots.take(1), Some(first + 1));
        assert_eq!(slots.take(MOST_SLOTS), None);
    }

    #[test]
    fn a_program_that_registers_in_a_loop_uses_few_pages_of_the_table() {
        let mut slots = Slots::new();
        for round in 0..20_000u32 {
            let slot = slots.take(1).unwrap();
            assert_eq!(slot as u32, FIRST_SLOT as u32 + round % (FIRST_TURN - FIRST_SLOT as u32));
            slots.give(slot, 1);
        }
        // Half of them in use: the turn is longer, so that none is used again soon.
        let kept: Vec<u16> = (0..2048).map(|_| slots.take(1).unwrap()).collect();
        let slot = slots.take(1).unwrap();
        slots.give(slot, 1);
        let again = (1..).find(|_| {
            let next = slots.take(1).unwrap();
            slots.give(next, 1);
            next == slot
        });
        assert!(again > Some(4096 - kept.len() as u32) && slots.turn == 8192, "{again:?}");
    }

    proptest! {
        #[test]
        fn slots_never_overlap_and_all_come_back(steps in proptest::collection::vec((1u16..9000, any::<bool>()), 1..80)) {
            let mut slots = Slots::new();
            let mut taken: Vec<(u32, u32)> = Vec::new();
            for (count, give) in steps {
                if let Some(first) = slots.take(count) {
                    let (first, count) = (first as u32, count as u32);
                    prop_assert!(first >= FIRST_SLOT as u32 && first + count <= SLOTS as u32);
                    prop_assert!(taken.iter().all(|&(a, n)| first + count <= a || a + n <= first));
                    taken.push((first, count));
                }
                if give && !taken.is_empty() {
                    let (first, count) = taken.swap_remove(taken.len() / 2);
                    slots.give(first as u16, count as u16);
                }
            }
            taken.into_iter().for_each(|(first, count)| slots.give(first as u16, count as u16));
            prop_assert_eq!((slots.used, slots.runs()), (0, 1));
            prop_assert_eq!(slots.take(MOST_SLOTS), Some(FIRST_SLOT));
        }
    }
}
