//! A lock in shared memory that its owner's death does not keep: one word, 0 when free, the owner's tag otherwise.
//!
//! It never blocks by itself: whoever wants it tries, and decides how long. A tag says which rank of the node holds it,
//! so whoever waits can see that the holder is gone and take the lock over, with the duty to repair what it guards. A
//! SIGKILL leaves the word free (before or after the owner's time) or with the tag of the dead.
//!
//! What a lock guards can also be read without it, if the holder keeps a *version* beside it: a word that is odd while
//! something changes. A SIGKILL leaves it odd, until whoever takes the lock over has repaired what it guards.

use super::sync::{fence, AtomicU64, Ordering};

/// Who holds a lock: the rank of the node, and something that tells its threads apart. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerTag(u64);

impl OwnerTag {
    /// A tag of somebody who is gone: no node has as many ranks.
    pub const GONE: OwnerTag = OwnerTag(u64::MAX);

    /// The tag of a thread of the `local`-th rank of the node.
    #[inline]
    pub fn new(local: u32, thread: u32) -> OwnerTag {
        OwnerTag((local as u64 + 1) << 32 | thread as u64)
    }

    /// The rank of the node that it names.
    pub fn local(self) -> u32 {
        ((self.0 >> 32) as u32).wrapping_sub(1)
    }
}

/// Takes a free lock. Otherwise says who holds it.
#[inline]
pub fn try_lock(word: &AtomicU64, tag: OwnerTag) -> Result<(), OwnerTag> {
    match word.compare_exchange(0, tag.0, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(holder) => Err(OwnerTag(holder)),
    }
}

/// Takes the lock of a holder that is gone. False if somebody else was faster.
pub fn take_over(word: &AtomicU64, dead: OwnerTag, tag: OwnerTag) -> bool {
    word.compare_exchange(dead.0, tag.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Frees a lock that this thread holds.
#[inline]
pub fn unlock(word: &AtomicU64) {
    word.store(0, Ordering::Release);
}

/// Leaves a lock that this thread holds as a dead holder does: whoever comes next takes it over, and repairs what it guards.
pub fn leave(word: &AtomicU64) {
    word.store(OwnerTag::GONE.0, Ordering::Release);
}

/// Something is about to change; the caller holds the lock.
#[inline]
pub fn begin_change(version: &AtomicU64) {
    version.store(version.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
    // A reader that sees anything of the change sees this too.
    fence(Ordering::Release);
}

/// The change is complete; the caller still holds the lock.
#[inline]
pub fn end_change(version: &AtomicU64) {
    version.store((version.load(Ordering::Relaxed) | 1).wrapping_add(1), Ordering::Release);
}

/// The version of what is to be read; `None` while it changes.
#[inline]
pub fn version(version: &AtomicU64) -> Option<u64> {
    Some(version.load(Ordering::Acquire)).filter(|number| number & 1 == 0)
}

/// Whether nothing has begun to change since [`version`] was asked for. What was read in between is right then.
#[inline]
pub fn is_unchanged(version: &AtomicU64, number: u64) -> bool {
    fence(Ordering::Acquire);
    version.load(Ordering::Relaxed) == number
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_can_be_taken_from_the_dead() {
        let word = AtomicU64::new(0);
        let (first, second) = (OwnerTag::new(0, 7), OwnerTag::new(3, 0));
        assert_eq!(try_lock(&word, first), Ok(()));
        assert_eq!(try_lock(&word, second), Err(first));
        assert_eq!((first.local(), second.local()), (0, 3));
        assert!(take_over(&word, first, second));
        assert!(!take_over(&word, first, second));
        unlock(&word);
        assert_eq!(try_lock(&word, first), Ok(()));
        leave(&word);
        assert!(try_lock(&word, second).is_err_and(|holder| take_over(&word, holder, second)));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// Two ranks want the lock of a third that died with it: one takes it over, the other gets it afterwards, and what
    /// it guards is never touched by both.
    #[test]
    fn loom_the_lock_of_the_dead_is_taken_over_once() {
        loom::model(|| {
            let dead = OwnerTag::new(9, 0);
            let shared = Arc::new((AtomicU64::new(dead.0), UnsafeCell::new(0u32)));
            let threads: Vec<_> = (0..2)
                .map(|local| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || {
                        let tag = OwnerTag::new(local, 0);
                        let mut recovered = false;
                        loop {
                            match try_lock(&shared.0, tag) {
                                Ok(()) => break,
                                Err(holder) if holder == dead && take_over(&shared.0, dead, tag) => {
                                    recovered = true;
                                    break;
                                }
                                Err(_) => loom::thread::yield_now(),
                            }
                        }
                        // SAFETY: of the model: loom itself reports a second access at the same time.
                        shared.1.with_mut(|count| unsafe { *count += 1 });
                        unlock(&shared.0);
                        recovered
                    })
                })
                .collect();
            let recovered =
                threads.into_iter().filter_map(|thread| thread.join().ok()).filter(|&r| r).count();
            assert_eq!(recovered, 1);
            // SAFETY: both threads have ended.
            shared.1.with(|count| assert_eq!(unsafe { *count }, 2));
        });
    }

    /// A reader without the lock sees both words of one change, or knows that it does not.
    #[test]
    fn loom_what_is_read_without_the_lock_is_whole_or_known_to_be_torn() {
        loom::model(|| {
            let shared = Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)));
            let writer = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    begin_change(&shared.0);
                    shared.1.store(2, Ordering::Release);
                    shared.2.store(2, Ordering::Release);
                    end_change(&shared.0);
                })
            };
            if let Some(before) = version(&shared.0) {
                let pair = (shared.1.load(Ordering::Acquire), shared.2.load(Ordering::Acquire));
                if is_unchanged(&shared.0, before) {
                    assert_eq!(pair, (before, before));
                }
            }
            assert!(writer.join().is_ok());
        });
    }
}
