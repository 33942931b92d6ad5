//! How often something was taken away from the ranks of a node: a region, a part of one, or a rank.
//!
//! A rank that has found a region may remember where it lies, together with the number of changes *before* it looked. As long as
//! that number stands, the region is where it was and its owner is alive: one comparison, whatever was remembered. Whoever takes
//! something away changes the entry or the word first, and counts then. So whoever reads the new number sees what was changed, and
//! whoever saw what was there before has an older number.
//!
//! A SIGKILL between the two leaves something that is gone from its table and remembered by others. It is memory of a rank that is
//! no longer there to give it to anybody; or of a pool, whose pages are given back behind the count, and so by nobody. The agent
//! finds the rank lost, which counts.

use super::bell::Listeners;
use super::sync::{AtomicU64, Ordering};

/// Counts what was taken away. 0 where there is no arena, as in a forked child: a count begins with 1.
#[repr(transparent)]
#[derive(Debug)]
pub struct Changes(AtomicU64);

/// What ranks look at in each access to memory of the node, side by side in a cache line that is seldom written.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Signs {
    /// What was taken away.
    pub changes: Changes,
    /// Who wants to be woken by writes.
    pub listeners: Listeners,
}

const _: () = assert!(cfg!(loom) || std::mem::size_of::<Signs>() == 64);

/// The signs of no node: nothing was ever found there.
#[cfg(not(loom))]
pub(super) static NO_SIGNS: Signs =
    Signs { changes: Changes(AtomicU64::new(0)), listeners: Listeners::nobody() };

impl Changes {
    /// Nothing was taken away.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        Changes(AtomicU64::new(1))
    }

    /// Begins to count, in an arena that nobody else has.
    #[cfg(not(loom))]
    pub(super) fn begin(&self) {
        self.0.store(1, Ordering::Release);
    }

    /// How many there were. Asked before what is to be remembered is looked at, and again before it is used.
    #[inline(always)]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Something was taken away: what said that it was there says so no longer.
    pub(super) fn note(&self) {
        // Each note goes on from the one before it, so that whoever sees this one sees what all of them were about.
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(any(test, loom))]
impl Default for Changes {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::super::region::{Kind, RegionEntry, RegionView};
    use super::*;
    use loom::sync::Arc;

    fn view(number: u64) -> RegionView {
        RegionView { kind: Kind::Arena, base: number * 64, bytes: 8, generation: number as u16, colour: 0 }
    }

    /// Whoever knows that a region was freed does not find it in what it remembers, be the slot free or taken again.
    #[test]
    fn loom_a_region_that_was_freed_is_not_remembered() {
        loom::model(|| {
            let shared = Arc::new((RegionEntry::new(), Changes::new(), AtomicU64::new(0)));
            shared.0.publish(view(1), &shared.1);
            let owners = shared.clone();
            let owner = loom::thread::spawn(move || {
                let (entry, changes, told) = &*owners;
                entry.retire(changes);
                told.store(1, Ordering::Release);
                entry.publish(view(2), changes);
            });
            let (entry, changes, told) = &*shared;
            let (since, seen) = (changes.count(), entry.view());
            if told.load(Ordering::Acquire) == 1 && changes.count() == since {
                assert!(seen.is_none() || seen == Some(view(2)), "{seen:?}");
            }
            owner.join().unwrap();
        });
    }

    /// Two that take something away at once do not hide each other's notes.
    #[test]
    fn loom_every_change_is_counted() {
        loom::model(|| {
            let shared = Arc::new((RegionEntry::new(), RegionEntry::new(), Changes::new()));
            shared.0.publish(view(1), &shared.2);
            shared.1.publish(view(2), &shared.2);
            let others = shared.clone();
            let other = loom::thread::spawn(move || others.0.retire(&others.2));
            let (one, two, changes) = &*shared;
            let since = changes.count();
            let seen = (one.view(), two.view());
            two.retire(changes);
            assert!(changes.count() != since && seen.1.is_some());
            other.join().unwrap();
            assert!(seen.0.is_none() || changes.count() >= since + 2);
        });
    }

    /// A region that became shorter is not remembered as it was.
    #[test]
    fn loom_a_part_that_was_cut_off_is_not_remembered() {
        loom::model(|| {
            let shared = Arc::new((RegionEntry::new(), Changes::new(), AtomicU64::new(0)));
            shared.0.publish(view(1), &shared.1);
            let owners = shared.clone();
            let owner = loom::thread::spawn(move || {
                owners.0.resize(4, &owners.1);
                owners.2.store(1, Ordering::Release);
            });
            let (entry, changes, told) = &*shared;
            let (since, seen) = (changes.count(), entry.bytes());
            if told.load(Ordering::Acquire) == 1 && changes.count() == since {
                assert_eq!(seen, 4);
            }
            owner.join().unwrap();
        });
    }
}
