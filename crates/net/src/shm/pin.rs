//! Who holds a region of the arena in view, so that its memory is not given to another one meanwhile.
//!
//! A rank that wants to touch a region for long *pins* it: it notes at the owner that it pins something there, writes the name of
//! the registration into one of its own pin words, then looks at the region's entry again. The owner retires the entry first,
//! then looks for pins of live ranks. Either the rank finds the region gone, or the owner finds the pin and keeps the memory until
//! a later look finds none. Nobody waits for anybody.
//!
//! A SIGKILL of the rank leaves its words as they are: the owner passes over those of ranks that are gone. The note at the owner
//! is never taken back, and only says whose words must be looked at.

use super::sync::{AtomicU64, Ordering};

/// How many regions a rank can pin at a time. (The models need no more than two.)
pub const PINS: usize = if cfg!(loom) { 2 } else { 64 };

/// The pin words of one rank, and who has ever pinned memory of it; all zero at the start.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Pins {
    /// A bit for each rank of the node (its number there, in turn) that has pinned memory of this one.
    by: AtomicU64,
    words: [AtomicU64; PINS],
}

fn bit(local: u32) -> u64 {
    1 << (local % 64)
}

impl Pins {
    /// Words that pin nothing.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        Pins { by: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Notes that the `local`-th rank of the node is about to pin memory of the owner of these.
    pub fn note(&self, local: u32) {
        if !self.may_be_pinned_by(local) {
            self.by.fetch_or(bit(local), Ordering::Relaxed);
        }
    }

    /// Whether the `local`-th rank may have pinned memory of the owner of these.
    pub fn may_be_pinned_by(&self, local: u32) -> bool {
        self.by.load(Ordering::Relaxed) & bit(local) != 0
    }

    /// Pins the registration with this [name](super::hazard::name); `None` when every word is taken. The entry must be
    /// looked at [afterwards](super::region::RegionEntry::view_announced).
    pub fn pin(&self, name: u64) -> Option<usize> {
        self.words
            .iter()
            .position(|word| word.compare_exchange(0, name, Ordering::Acquire, Ordering::Relaxed).is_ok())
    }

    /// Takes a pin back.
    pub fn unpin(&self, index: usize) {
        self.words[index].store(0, Ordering::Release);
    }

    /// Whether a registration is pinned here.
    pub fn holds(&self, name: u64) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Acquire) == name)
    }
}

#[cfg(any(test, loom))]
impl Default for Pins {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::super::changes::Changes;
    use super::super::hazard::name;
    use super::super::region::{Kind, RegionEntry, RegionView};
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// The owner never gives memory on (here: writes to the cell) while a rank that was let in has it in view.
    #[test]
    fn loom_pinned_memory_is_not_given_to_another_region() {
        loom::model(|| {
            let entry = Arc::new(RegionEntry::new());
            let (owners, readers) = (Arc::new(Pins::new()), Arc::new(Pins::new()));
            let memory = Arc::new(UnsafeCell::new(1));
            let view = RegionView { kind: Kind::Arena, base: 64, bytes: 8, generation: 1, colour: 0 };
            let changes = Changes::new();
            entry.publish(view, &changes);
            let region = name(0, 4, 1);
            let (e, o, r, m) = (entry.clone(), owners.clone(), readers.clone(), memory.clone());
            let reader = loom::thread::spawn(move || {
                o.note(1);
                let word = r.pin(region).unwrap();
                if e.view_announced().is_some() {
                    // SAFETY: the protocol under test keeps the owner from writing meanwhile; loom checks it.
                    m.with(|value| unsafe { assert_eq!(*value, 1) });
                }
                r.unpin(word);
            });
            entry.retire(&changes);
            if !owners.may_be_pinned_by(1) || !readers.holds(region) {
                // SAFETY: as above: nobody has it in view, and nobody is let in any more.
                memory.with_mut(|value| unsafe { *value = 2 });
            }
            reader.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_so_many_pins_and_each_can_be_taken_again() {
        let pins = Pins::new();
        let words: Vec<usize> = (1..=PINS as u64).map(|name| pins.pin(name).unwrap()).collect();
        assert!(pins.pin(99).is_none() && pins.holds(1) && pins.holds(PINS as u64) && !pins.holds(99));
        pins.unpin(words[7]);
        assert!(!pins.holds(8));
        assert_eq!(pins.pin(99), Some(words[7]));
        pins.note(3);
        assert!(pins.may_be_pinned_by(3) && !pins.may_be_pinned_by(4));
    }
}
