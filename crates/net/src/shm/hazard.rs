//! Who is touching a private region right now.
//!
//! A rank that copies straight into or out of another rank's private memory first announces the region in one of
//! its own hazard words, then looks at the region's entry again. The owner retires the entry first, then waits
//! until no live rank announces it. So memory is never given back to the program while a peer still copies.
//! A SIGKILL while a word is set leaves it set: the owner passes over words of ranks that are gone.

use super::sync::{AtomicU64, Ordering};

/// How many regions of others a rank can be touching at once; more threads wait their turn.
pub const HAZARD_WORDS: usize = 16;
/// Who touches two regions announces the first in one of these words. The others are left to those who wait for no further word, so there is
/// always somebody who goes on; some of these wait for a neighbour that copies a part for them, and waits for no word.
pub const FIRST_WORDS: usize = HAZARD_WORDS / 2;

/// The hazard words of one rank; all zero when it touches nothing.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Hazards {
    words: [AtomicU64; HAZARD_WORDS],
}

/// The name of a registration as a hazard word holds it; never 0.
#[inline]
pub fn name(owner_local: u32, slot: u16, generation: u16) -> u64 {
    (owner_local as u64) << 32 | (slot as u64) << 16 | generation as u64
}

impl Hazards {
    /// Words that announce nothing.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        Hazards { words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Announces a region in one of the first `among` words; `None` when each is taken by another thread.
    #[inline]
    pub fn announce(&self, name: u64, among: usize) -> Option<usize> {
        (0..among.min(HAZARD_WORDS)).find(|&index| {
            self.words[index].compare_exchange(0, name, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// Takes an announcement back.
    #[inline]
    pub fn withdraw(&self, index: usize) {
        self.words[index].store(0, Ordering::Release);
    }

    /// Whether a region is announced here.
    pub fn announces(&self, name: u64) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Acquire) == name)
    }

    /// Forgets all announcements; for a rank that is gone, or a world that starts over.
    pub fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Ordering::Release));
    }
}

#[cfg(any(test, loom))]
impl Default for Hazards {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::super::changes::Changes;
    use super::super::region::{Kind, RegionEntry, RegionView};
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// The owner never frees memory (here: writes to the cell) while a peer that was let in reads it.
    #[test]
    fn loom_retired_region_is_not_freed_under_a_reader() {
        loom::model(|| {
            let entry = Arc::new(RegionEntry::new());
            let hazards = Arc::new(AtomicU64::new(0));
            let memory = Arc::new(UnsafeCell::new(1));
            let view = RegionView { kind: Kind::Private, base: 64, bytes: 8, generation: 1, colour: 0 };
            let changes = Changes::new();
            entry.publish(view, &changes);
            let me = name(0, 1, 1);
            let (e, h, m) = (entry.clone(), hazards.clone(), memory.clone());
            let reader = loom::thread::spawn(move || {
                // One word stands for the array: the protocol is the same for each.
                h.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).unwrap();
                if e.view_announced().is_some() {
                    // SAFETY: the protocol under test keeps the owner from writing meanwhile; loom checks it.
                    m.with(|value| unsafe { assert_eq!(*value, 1) });
                }
                h.store(0, Ordering::Release);
            });
            entry.retire(&changes);
            while hazards.load(Ordering::Acquire) == me {
                loom::thread::yield_now();
            }
            // SAFETY: as above: no reader is let in any more.
            memory.with_mut(|value| unsafe { *value = 2 });
            reader.join().unwrap();
        });
    }
}
