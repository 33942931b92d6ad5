//! A lock in shared memory that its owner's death does not keep: one word, 0 when free, the owner's tag otherwise.
//!
//! It never blocks by itself: whoever wants it tries, and decides how long. A tag says which rank of the node holds it,
//! so whoever waits can see that the holder is gone and take the lock over, with the duty to repair what it guards. A
//! SIGKILL leaves the word free (before or after the owner's time) or with the tag of the dead.

use super::sync::{AtomicU64, Ordering};

/// Who holds a lock: the rank of the node, and something that tells its threads apart. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerTag(u64);

impl OwnerTag {
    /// The tag of a thread of the `local`-th rank of the node.
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
}
