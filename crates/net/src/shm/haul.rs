//! Hauls: large copies that a rank shares with a neighbour that waits.
//!
//! A rank that copies much into or out of private memory of a neighbour *offers* it a share: it says in the neighbour's control block
//! where both memories are. Then both *claim* pieces: the rank from the front, threads of the neighbour that wait for something from
//! behind. When none is left the rank waits for the pieces that others have claimed. Nobody is asked to come: without the neighbour the
//! rank copies all of it, at its usual speed.
//!
//! One word says what can be claimed, and of which haul: whoever has read what a haul is about claims a piece of that one, or nothing.
//!
//! A SIGKILL of the rank leaves its haul offered, until another rank takes its place; whoever has claimed a piece looks whether the rank is known
//! to be gone. A SIGKILL of the neighbour leaves pieces that are claimed and not done: the rank looks whether its process is there.
//!
//! What stands here may have been written by anybody who is in the job: every number is checked before it is used.

use super::sync::{AtomicU64, Ordering};
use crate::Rank;

/// The most pieces of a haul.
pub const MOST_PIECES: u64 = (1 << PIECE_BITS) - 1;
/// Words that say what a haul is about.
pub const ABOUT_WORDS: usize = 5;

const PIECE_BITS: u32 = 12;
const PIECE: u64 = (1 << PIECE_BITS) - 1;
/// Where the number of the haul begins in both words that have it. It never comes back: 2^40 hauls of a microsecond each take twelve days,
/// and no piece does.
const NUMBER_AT: u32 = 2 * PIECE_BITS;
/// In what is done: that some of it could not be.
const FAILED: u64 = 1 << PIECE_BITS;

/// The haul that a rank is offered a share of; all zero when there is none.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Haul {
    /// The rank that offers it plus one; 0 if none does.
    holder: AtomicU64,
    /// The number of the haul, the first piece that nobody has claimed, and the one behind the last of them.
    claims: AtomicU64,
    /// The number of the haul, whether a piece failed, and how many of those that were claimed from behind are over.
    done: AtomicU64,
    about: [AtomicU64; ABOUT_WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(std::mem::size_of::<Haul>() == 64);

/// A haul as the rank sees it that has offered it.
#[derive(Debug)]
pub struct Offered<'a> {
    haul: &'a Haul,
    holder: u64,
    number: u64,
    pieces: u64,
}

/// A piece as the neighbour sees it that has claimed it. One that is dropped has failed.
#[derive(Debug)]
pub struct Share<'a> {
    haul: &'a Haul,
    number: u64,
    /// What the haul is about.
    pub about: [u64; ABOUT_WORDS],
    /// Which piece of it this is.
    pub piece: u64,
}

/// What the neighbours of whoever offered a haul have made of their pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pieces {
    /// Somebody is still at it.
    UnderWay,
    /// They are done, if there were any.
    Done,
    /// They are over, and at least one could not be done.
    Failed,
}

impl Haul {
    /// No haul.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        let word = || AtomicU64::new(0);
        Haul { holder: word(), claims: word(), done: word(), about: std::array::from_fn(|_| word()) }
    }

    /// Offers a share of a haul of so many pieces, in the name of a rank. `None` while another rank that is not gone has offered one.
    pub fn offer(
        &self,
        rank: Rank,
        is_gone: impl Fn(Rank) -> bool,
        about: [u64; ABOUT_WORDS],
        pieces: u64,
    ) -> Option<Offered<'_>> {
        let (mut holder, own) = (self.holder.load(Ordering::Relaxed), u64::from(rank.0) + 1);
        if holder != 0 && !is_gone(Rank((holder - 1) as u32)) {
            return None;
        }
        while let Err(other) = self.holder.compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed)
        {
            // Somebody else was faster, or the one that was there is.
            if other != 0 {
                return None;
            }
            holder = other;
        }
        // Nothing can be claimed of a haul whose rank is gone before other words are written: whoever has read some of both gets nothing.
        let next = |claims: u64| Some(((claims >> NUMBER_AT) + 1) << NUMBER_AT);
        let last = self.claims.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        let number = last.map_or(0, |claims| ((claims >> NUMBER_AT) + 1) & (u64::MAX >> NUMBER_AT));
        for (word, value) in self.about.iter().zip(about) {
            word.store(value, Ordering::Relaxed);
        }
        // Behind what others have counted there of the one before it.
        self.done.swap(number << NUMBER_AT, Ordering::AcqRel);
        let pieces = pieces.min(MOST_PIECES);
        self.claims.store(number << NUMBER_AT | pieces, Ordering::Release);
        Some(Offered { haul: self, holder: own, number, pieces })
    }

    /// Whether there is a piece to claim: what a thread that waits looks at.
    #[inline]
    pub fn has_pieces(&self) -> bool {
        is_left(self.claims.load(Ordering::Relaxed))
    }

    /// Claims the last piece.
    pub fn claim(&self) -> Option<Share<'_>> {
        let mut claims = self.claims.load(Ordering::Acquire);
        loop {
            if !is_left(claims) {
                return None;
            }
            let about = std::array::from_fn(|word| self.about[word].load(Ordering::Relaxed));
            // What was read is of this haul: its words are only written when nothing of it is left.
            match self.claims.compare_exchange(claims, claims - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let (number, piece) = (claims >> NUMBER_AT, (claims & PIECE) - 1);
                    return Some(Share { haul: self, number, about, piece });
                }
                Err(others) => claims = others,
            }
        }
    }
}

#[cfg(any(test, loom))]
impl Default for Haul {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a piece can be claimed.
fn is_left(claims: u64) -> bool {
    claims >> PIECE_BITS & PIECE < claims & PIECE
}

impl Offered<'_> {
    fn is_of_this(&self, word: u64) -> bool {
        word >> NUMBER_AT == self.number
    }

    /// Claims the first piece.
    pub fn claim(&self) -> Option<u64> {
        let may = |claims| self.is_of_this(claims) && is_left(claims);
        let one_more = |claims| may(claims).then(|| claims + (1 << PIECE_BITS));
        let claimed = self.haul.claims.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        claimed.ok().map(|claims| claims >> PIECE_BITS & PIECE)
    }

    /// Lets nobody claim any more. Gives the first of the pieces that others have claimed, which are all that are behind it; nothing if what
    /// stands here is not what both sides write: then nobody knows what others are at.
    pub fn close(&self) -> Option<u64> {
        let none_left = |claims| {
            let last = claims & PIECE;
            (self.is_of_this(claims) && last <= self.pieces)
                .then_some(claims & !(PIECE << PIECE_BITS) | last << PIECE_BITS)
        };
        let closed = self.haul.claims.fetch_update(Ordering::AcqRel, Ordering::Acquire, none_left);
        closed.ok().map(|claims| claims & PIECE)
    }

    /// What has become of the pieces from `first` on, that others have [claimed](Self::close).
    pub fn pieces(&self, first: u64) -> Pieces {
        let done = self.haul.done.load(Ordering::Acquire);
        match self.is_of_this(done) && done & PIECE < self.pieces.saturating_sub(first) {
            true => Pieces::UnderWay,
            false if self.is_of_this(done) && done & FAILED == 0 => Pieces::Done,
            false => Pieces::Failed,
        }
    }

    /// Makes room for the next haul, when all pieces are over, or nobody is left who could go on with one.
    pub fn end(self) {
        // If this rank counts as gone, another one may have its place.
        let _ = self.haul.holder.compare_exchange(self.holder, 0, Ordering::Release, Ordering::Relaxed);
    }
}

impl Share<'_> {
    /// The piece is done.
    pub fn finish(self) {
        self.count(0);
        std::mem::forget(self);
    }

    fn count(&self, failed: u64) {
        let number = self.number;
        let one_more = |done: u64| (done >> NUMBER_AT == number).then(|| (done | failed) + 1);
        // Of a haul whose rank is gone nobody wants to know.
        let _ = self.haul.done.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.count(FAILED);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ABOUT: [u64; ABOUT_WORDS] = [1, 2, 3, 4, 5];

    fn nobody(_: Rank) -> bool {
        false
    }

    #[test]
    fn both_claim_until_nothing_is_left() {
        let haul = Haul::new();
        assert!(!haul.has_pieces() && haul.claim().is_none());
        for pieces in [1, 5, MOST_PIECES] {
            let offered = haul.offer(Rank(7), nobody, ABOUT, pieces).unwrap();
            assert!(haul.offer(Rank(7), nobody, ABOUT, pieces).is_none(), "one at a time");
            let (mut front, mut back) = (0, pieces);
            while haul.has_pieces() {
                assert_eq!(offered.claim(), Some(front));
                front += 1;
                let Some(share) = haul.claim() else { break };
                back -= 1;
                assert_eq!((share.piece, share.about), (back, ABOUT));
                if back == pieces - 1 {
                    assert_eq!(offered.pieces(back), Pieces::UnderWay);
                }
                share.finish();
            }
            assert!(offered.claim().is_none() && haul.claim().is_none());
            assert_eq!((front, offered.close(), offered.pieces(back)), (back, Some(back), Pieces::Done));
            offered.end();
        }
    }

    #[test]
    fn what_is_closed_is_not_claimed_and_what_is_dropped_has_failed() {
        let haul = Haul::new();
        let offered = haul.offer(Rank(0), nobody, ABOUT, 4).unwrap();
        let (first, second) = (haul.claim().unwrap(), haul.claim().unwrap());
        assert_eq!(offered.claim(), Some(0));
        assert_eq!(offered.close(), Some(2));
        assert!(haul.claim().is_none() && offered.claim().is_none() && !haul.has_pieces());
        drop(second);
        assert_eq!(offered.pieces(2), Pieces::UnderWay);
        first.finish();
        assert_eq!(offered.pieces(2), Pieces::Failed);
        offered.end();
        let offered = haul.offer(Rank(0), nobody, ABOUT, 4).unwrap();
        assert_eq!(
            (offered.close(), offered.pieces(4)),
            (Some(4), Pieces::Done),
            "the next one has not failed"
        );
    }

    #[test]
    fn the_dead_keep_no_haul_and_their_pieces_do_not_count() {
        let haul = Haul::new();
        let dead = haul.offer(Rank(1), nobody, [9; ABOUT_WORDS], 3).unwrap();
        let late = haul.claim().unwrap();
        assert!(haul.offer(Rank(2), nobody, ABOUT, 2).is_none());
        let offered = haul.offer(Rank(2), |rank| rank == Rank(1), ABOUT, 2).unwrap();
        let share = haul.claim().unwrap();
        assert_eq!((share.about, share.piece), (ABOUT, 1));
        assert_eq!(offered.close(), Some(1));
        late.finish();
        assert_eq!(offered.pieces(1), Pieces::UnderWay, "that was a piece of another haul");
        share.finish();
        assert_eq!(offered.pieces(1), Pieces::Done);
        // It lives after all: what it does concerns nobody.
        assert_eq!((dead.claim(), dead.close(), dead.pieces(1)), (None, None, Pieces::Failed));
        dead.end();
        assert!(haul.offer(Rank(3), nobody, ABOUT, 2).is_none(), "the place is not free");
        offered.end();
    }

    #[test]
    fn what_nobody_of_both_writes_is_believed_by_nobody() {
        let haul = Haul::new();
        let offered = haul.offer(Rank(1), nobody, ABOUT, 3).unwrap();
        let number = haul.claims.load(Ordering::Relaxed) & !(PIECE << PIECE_BITS | PIECE);
        for (first, last) in [(4, 3), (PIECE, 0), (0, 4), (0, PIECE)] {
            haul.claims.store(number | first << PIECE_BITS | last, Ordering::Relaxed);
            if first > last {
                assert!(!haul.has_pieces() && haul.claim().is_none() && offered.claim().is_none());
            } else {
                assert_eq!(offered.close(), None);
            }
        }
        haul.done.store(number | PIECE, Ordering::Relaxed);
        assert_eq!(offered.pieces(1), Pieces::Done, "more than there are end a wait, too");
        haul.claims.store(u64::MAX, Ordering::Relaxed);
        offered.end();
        let offered = haul.offer(Rank(1), nobody, ABOUT, 3).unwrap();
        assert_eq!((offered.claim(), offered.close()), (Some(0), Some(3)));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// Each piece of each haul is copied once, by one of both, and is there when the rank goes on.
    #[test]
    fn loom_each_piece_is_copied_once_before_the_rank_goes_on() {
        loom::model(|| {
            let haul = Arc::new(Haul::new());
            // What the hauls are about: two of two pieces each.
            let memory: Arc<[[UnsafeCell<u64>; 2]; 2]> =
                Arc::new(std::array::from_fn(|_| std::array::from_fn(|_| UnsafeCell::new(0))));
            // SAFETY: whoever has claimed a piece has it alone, which is what loom checks here.
            let copy = |memory: &[[UnsafeCell<u64>; 2]; 2], which: u64, piece: u64| unsafe {
                memory[which as usize][piece as usize].with_mut(|word| *word += 1 + which)
            };
            let (there, theirs) = (haul.clone(), memory.clone());
            let neighbour = loom::thread::spawn(move || {
                for _ in 0..2 {
                    if let Some(share) = there.claim() {
                        assert_eq!(share.about, [share.about[0]; ABOUT_WORDS]);
                        copy(&theirs, share.about[0], share.piece);
                        share.finish();
                    }
                }
            });
            for which in 0..2 {
                let offered = haul.offer(Rank(1), |_| false, [which; ABOUT_WORDS], 2).unwrap();
                while let Some(piece) = offered.claim() {
                    copy(&memory, which, piece);
                }
                let first = offered.close().unwrap();
                while offered.pieces(first) == Pieces::UnderWay {
                    loom::thread::yield_now();
                }
                assert_eq!(offered.pieces(first), Pieces::Done);
                for piece in &memory[which as usize] {
                    // SAFETY: nobody has a piece of this haul any more, which is what loom checks here.
                    piece.with(|word| assert_eq!(unsafe { *word }, 1 + which));
                }
                offered.end();
            }
            neighbour.join().unwrap();
        });
    }

    /// Whoever reads what a haul is about while another rank takes the place of one that is gone claims a piece of one of both, and knows of which.
    #[test]
    fn loom_the_haul_of_the_dead_is_not_mixed_with_the_next_one() {
        loom::model(|| {
            let haul = Arc::new(Haul::new());
            let _dead = haul.offer(Rank(0), |_| false, [0; ABOUT_WORDS], 1).unwrap();
            let copies = Arc::new(AtomicU64::new(0));
            let (there, count) = (haul.clone(), copies.clone());
            let neighbour = loom::thread::spawn(move || {
                for _ in 0..2 {
                    if let Some(share) = there.claim() {
                        assert_eq!(share.about, [share.about[0]; ABOUT_WORDS]);
                        count.fetch_add(share.about[0], Ordering::Relaxed);
                        share.finish();
                    }
                }
            });
            let offered = haul.offer(Rank(1), |_| true, [1; ABOUT_WORDS], 1).unwrap();
            let own = offered.claim().is_some();
            let first = offered.close().unwrap();
            while offered.pieces(first) == Pieces::UnderWay {
                loom::thread::yield_now();
            }
            assert_eq!(offered.pieces(first), Pieces::Done);
            // What was done for the dead one does not count here.
            assert_eq!(copies.load(Ordering::Relaxed) + u64::from(own), 1);
            offered.end();
            neighbour.join().unwrap();
        });
    }
}
