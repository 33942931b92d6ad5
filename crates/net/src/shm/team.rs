//! Teams of ranks, as far as the ranks of a node share something of them: the barrier of a team's members there, and how they
//! find it.
//!
//! The first member of a team on a node takes a block for the barrier from its heap, and notes in its control block where it
//! lies while the team is made. The block counts who of the node uses it; the owner gives the memory back when nobody does
//! any more.
//!
//! A SIGKILL leaves a note, or a count that never becomes zero: the note is in the block of a rank that makes no team any
//! more, and the memory is the world's until that ends.

use super::barrier::NodeBarrier;
use super::sync::{AtomicU32, AtomicU64, Ordering};

/// So many teams can a rank be making at a time for which it takes the block.
pub const NOTES: usize = 8;
/// A note that is being written.
const WRITING: u64 = u64::MAX;

/// What the members of a team on a node share.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct TeamBlock {
    /// Where they meet.
    pub barrier: NodeBarrier,
    users: AtomicU32,
    pad: [u32; 15],
}

const _: () = assert!(std::mem::size_of::<TeamBlock>() == 256);

impl TeamBlock {
    /// A block that nobody uses.
    pub fn new() -> Self {
        TeamBlock { barrier: NodeBarrier::new(), users: AtomicU32::new(0), pad: [0; 15] }
    }

    /// So many will use it; said before they can find it.
    pub fn expect(&self, users: u32) {
        self.users.store(users, Ordering::Relaxed);
    }

    /// One fewer does. What it did to the block is seen by whoever finds it unused.
    pub fn leave(&self) {
        self.users.fetch_sub(1, Ordering::Release);
    }

    /// Whether anybody uses it.
    pub fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) != 0
    }
}

impl Default for TeamBlock {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the blocks of teams lie that a rank is making; zero at start. The owner writes, its neighbours read.
#[repr(C)]
#[derive(Debug, Default)]
pub struct TeamNotes {
    notes: [(AtomicU64, AtomicU64); NOTES],
}

impl TeamNotes {
    /// Notes where the block of a team lies. False if there is no room for one more.
    pub fn write(&self, team: u64, place: u64) -> bool {
        let free = self.notes.iter().find(|(name, _)| {
            name.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok()
        });
        let Some((name, word)) = free else { return false };
        // Who reads this place sees that the note is no more the one that was there before.
        word.store(place, Ordering::Release);
        name.store(team, Ordering::Release);
        true
    }

    /// Where the block of a team lies.
    pub fn find(&self, team: u64) -> Option<u64> {
        let (name, word) = self.notes.iter().find(|(name, _)| name.load(Ordering::Acquire) == team)?;
        let place = word.load(Ordering::Acquire);
        // The owner may have erased this note, and written another in its place.
        (name.load(Ordering::Relaxed) == team).then_some(place)
    }

    /// Forgets a team.
    pub fn erase(&self, team: u64) {
        for (name, _) in &self.notes {
            let _ = name.compare_exchange(team, 0, Ordering::Release, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_by_their_team_until_they_are_erased() {
        let notes = TeamNotes::default();
        for team in 1..=NOTES as u64 {
            assert!(notes.write(team, team * 64));
        }
        assert!(!notes.write(99, 64), "there is no room");
        assert_eq!((notes.find(3), notes.find(99)), (Some(192), None));
        notes.erase(3);
        assert_eq!(notes.find(3), None);
        assert!(notes.write(99, 640));
        assert_eq!(notes.find(99), Some(640));
    }

    #[test]
    fn a_block_is_used_until_the_last_has_left() {
        let block = TeamBlock::new();
        block.expect(2);
        block.leave();
        assert!(block.is_used());
        block.leave();
        assert!(!block.is_used());
    }
}
