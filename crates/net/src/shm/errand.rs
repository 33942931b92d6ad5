//! Errands: small requests that a neighbour leaves in a rank's control block, for whoever polls there.
//!
//! Only its owner can change a word of private memory by a CPU atomic. A neighbour that wants one changed *posts* the request
//! here; a thread of the owner that polls *takes* it, does it and writes the result. Nobody is woken for an errand: one that is
//! not taken soon is *withdrawn*, and the neighbour asks in another way. One exchange of the state decides between taking and
//! withdrawing, so an errand is done once or not at all.
//!
//! A SIGKILL of the neighbour leaves its errand posted, done, or half written; [`Errands::forget`] frees it, and whoever takes one
//! of a neighbour that is gone must not do it: others may have repaired what it is about. A SIGKILL of the
//! owner leaves it posted or taken, in a control block that nobody uses again.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use crate::Rank;

/// Errands that can be under way to one rank at once; further neighbours ask in another way.
pub const ERRANDS: usize = 4;
/// Words of a request.
pub const REQUEST_WORDS: usize = 4;

/// The steps of an errand, in the low byte of its state; the rank of the neighbour plus one is above. A free one is 0.
const WRITING: u64 = 1;
const POSTED: u64 = 2;
const TAKEN: u64 = 3;
const DONE: u64 = 4;
const REFUSED: u64 = 5;
const STEP: u64 = 0xff;

/// One errand, in a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
struct Errand {
    state: AtomicU64,
    /// The request; then the result in the first word.
    words: [AtomicU64; REQUEST_WORDS],
}

/// The errands of one rank; all zero when there is none.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Errands {
    /// A bit for each errand that may have been posted.
    posted: AtomicU32,
    errands: [Errand; ERRANDS],
}

/// An errand as the neighbour that posted it sees it.
#[derive(Debug)]
pub struct Posted<'a> {
    errand: &'a Errand,
    tag: u64,
}

/// An errand as the owner sees it that has taken it.
#[derive(Debug)]
pub struct Taken<'a> {
    errand: &'a Errand,
    tag: u64,
    /// Who asks.
    pub neighbour: Rank,
    /// What is asked.
    pub request: [u64; REQUEST_WORDS],
}

/// How far an errand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nobody has taken it.
    Posted,
    /// Somebody is doing it.
    Taken,
    /// It is done, with this result; the errand is free again.
    Done(u64),
    /// It was refused, and nothing was done; the errand is free again.
    Refused,
}

impl Errands {
    /// No errands.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        let errand =
            |_| Errand { state: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) };
        Errands { posted: AtomicU32::new(0), errands: std::array::from_fn(errand) }
    }

    /// Posts a request of a neighbour; `None` when every errand is taken up.
    pub fn post(&self, neighbour: Rank, request: [u64; REQUEST_WORDS]) -> Option<Posted<'_>> {
        let tag = (neighbour.0 as u64 + 1) << 8;
        let free = |errand: &Errand| {
            errand.state.compare_exchange(0, tag | WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let index = (0..ERRANDS).find(|&index| free(&self.errands[index]))?;
        let errand = &self.errands[index];
        for (word, value) in errand.words.iter().zip(request) {
            word.store(value, Ordering::Relaxed);
        }
        // The words before the state, and the state before the bit: whoever sees the later one sees the earlier ones.
        errand.state.store(tag | POSTED, Ordering::Release);
        self.posted.fetch_or(1 << index, Ordering::Release);
        Some(Posted { errand, tag })
    }

    /// Whether something may have been posted: what a thread that polls looks at.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.posted.load(Ordering::Relaxed) != 0
    }

    /// Takes an errand that was posted and not withdrawn.
    pub fn take(&self) -> Option<Taken<'_>> {
        loop {
            let index = self.posted.load(Ordering::Relaxed).trailing_zeros();
            let errand = self.errands.get(index as usize)?;
            // The bit goes first: whoever posts after this sets it again.
            self.posted.fetch_and(!(1 << index), Ordering::Acquire);
            let state = errand.state.load(Ordering::Relaxed);
            let tag = state & !STEP;
            if state & STEP != POSTED {
                continue;
            }
            if errand.state.compare_exchange(state, tag | TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                let request = std::array::from_fn(|word| errand.words[word].load(Ordering::Relaxed));
                return Some(Taken { errand, tag, neighbour: neighbour_of(state), request });
            }
        }
    }

    /// Frees the errands of neighbours that are gone.
    pub fn forget(&self, is_gone: impl Fn(Rank) -> bool) {
        for errand in &self.errands {
            let state = errand.state.load(Ordering::Relaxed);
            // What is being done is its owner's to end.
            if state != 0 && state & STEP != TAKEN && is_gone(neighbour_of(state)) {
                let _ = errand.state.compare_exchange(state, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

/// Who posted an errand that is in this state.
fn neighbour_of(state: u64) -> Rank {
    Rank((state >> 8).wrapping_sub(1) as u32)
}

#[cfg(any(test, loom))]
impl Default for Errands {
    fn default() -> Self {
        Self::new()
    }
}

impl Posted<'_> {
    /// How far it is. After [`Progress::Done`] and [`Progress::Refused`] it is somebody else's: do not ask again.
    #[inline]
    pub fn progress(&self) -> Progress {
        let progress = match self.errand.state.load(Ordering::Acquire) & STEP {
            POSTED => return Progress::Posted,
            TAKEN => return Progress::Taken,
            DONE => Progress::Done(self.errand.words[0].load(Ordering::Relaxed)),
            _ => Progress::Refused,
        };
        self.errand.state.store(0, Ordering::Release);
        progress
    }

    /// Takes it back. False if somebody has taken it: then it has a result soon.
    pub fn withdraw(&self) -> bool {
        let posted = self.tag | POSTED;
        self.errand.state.compare_exchange(posted, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl Taken<'_> {
    /// It is done, or was refused.
    pub fn finish(self, result: Option<u64>) {
        self.errand.words[0].store(result.unwrap_or(0), Ordering::Relaxed);
        let step = if result.is_some() { DONE } else { REFUSED };
        self.errand.state.store(self.tag | step, Ordering::Release);
    }

    /// Nobody waits for it any more: it is not done, and free again.
    pub fn drop_it(self) {
        self.errand.state.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_errand_is_done_and_its_place_is_free_again() {
        let errands = Errands::new();
        for round in 0..100 {
            assert!(!errands.may_wait() && errands.take().is_none());
            let posted = errands.post(Rank(3), [round, 1, 2, 3]).unwrap();
            assert!(errands.may_wait());
            assert_eq!(posted.progress(), Progress::Posted);
            let taken = errands.take().unwrap();
            assert_eq!((taken.neighbour, taken.request), (Rank(3), [round, 1, 2, 3]));
            assert_eq!(posted.progress(), Progress::Taken);
            assert!(!posted.withdraw());
            taken.finish((round % 2 == 0).then_some(round + 7));
            let wanted = if round % 2 == 0 { Progress::Done(round + 7) } else { Progress::Refused };
            assert_eq!(posted.progress(), wanted);
        }
    }

    #[test]
    fn what_is_withdrawn_is_not_done() {
        let errands = Errands::new();
        let posted = errands.post(Rank(0), [1, 2, 3, 4]).unwrap();
        assert!(posted.withdraw());
        assert!(errands.take().is_none());
        assert!(!errands.may_wait(), "the bit of a withdrawn errand goes when somebody looks");
    }

    #[test]
    fn an_errand_that_is_dropped_is_free_again() {
        let errands = Errands::new();
        for _ in 0..2 * ERRANDS {
            errands.post(Rank(1), [0; 4]).unwrap();
            errands.take().unwrap().drop_it();
        }
        assert!(errands.take().is_none());
    }

    #[test]
    fn the_dead_keep_no_errand() {
        let errands = Errands::new();
        let posted: Vec<_> =
            (0..ERRANDS as u32).map(|rank| errands.post(Rank(rank), [0; 4]).unwrap()).collect();
        assert!(errands.post(Rank(9), [0; 4]).is_none(), "they are all taken up");
        errands.take().unwrap().finish(Some(1));
        let _held = errands.take().unwrap();
        errands.forget(|rank| rank.0 < 3);
        // The one that is being done stays; the one that is done and the one that was only posted go.
        let free = (0..ERRANDS).filter(|_| errands.post(Rank(9), [0; 4]).is_some()).count();
        assert_eq!(free, 2);
        assert_eq!(posted[3].progress(), Progress::Posted, "of a neighbour that lives");
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    /// An errand that was withdrawn was not done, and one that was not withdrawn was done once, with its own request.
    #[test]
    fn loom_an_errand_is_done_once_or_withdrawn() {
        loom::model(|| {
            let errands = Arc::new(Errands::new());
            let word = Arc::new(AtomicU64::new(0));
            let (there, target) = (errands.clone(), word.clone());
            let owner = loom::thread::spawn(move || {
                for _ in 0..2 {
                    if let Some(taken) = there.take() {
                        let old = target.fetch_add(taken.request[0], Ordering::Relaxed);
                        taken.finish(Some(old));
                    }
                    loom::thread::yield_now();
                }
            });
            let mut wanted = 0;
            for add in [1, 16] {
                let posted = errands.post(Rank(0), [add, 0, 0, 0]).unwrap();
                if posted.withdraw() {
                    continue;
                }
                loop {
                    match posted.progress() {
                        Progress::Done(old) => {
                            assert_eq!(old, wanted);
                            wanted += add;
                            break;
                        }
                        Progress::Taken => loom::thread::yield_now(),
                        other => panic!("{other:?}"),
                    }
                }
            }
            owner.join().unwrap();
            assert_eq!(word.load(Ordering::Relaxed), wanted);
        });
    }
}
