//! How a rank that waits for a word of its memory is woken by whoever writes there.
//!
//! A rank has a *bell* in its control block, and the node counts those whose owners *listen*. A thread that wants to sleep counts its
//! rank, says so at the bell, looks at its word once more, and sleeps on the rings of the bell. Whoever has written to memory of the
//! node looks at the count; if it is not zero it goes on to the bell of the owner, and rings it if somebody listens. That takes the
//! announcement back, so that many writes wake a sleeper once; it looks at its word, and announces itself again.
//!
//! The way of a writer has no fence: its look at the count may come before its store is seen by others. Then the sleeper has
//! looked too early as well, and nobody wakes it. A store is seen after less than a microsecond all the same, so the sleep right
//! behind an announcement is a short one, with a look behind it. (The model below has the fence instead of the time.)
//!
//! A SIGKILL of a sleeper leaves its announcement, which [`Bell::withdraw`] takes back, and one in the middle of announcing or ringing may
//! leave the count one too high: then writers look at bells that nobody listens to. One that rings and is killed before it wakes anybody
//! loses that wake-up: the sleeper looks again by itself, 50 ms later at most.

use super::sync::{fence, AtomicU32, Ordering};

/// How many ranks of a node listen to their bells: what every writer looks at. Zero at the start.
#[repr(transparent)]
#[derive(Debug)]
pub struct Listeners(AtomicU32);

/// The bell of a rank; zero at the start.
#[repr(C)]
#[derive(Debug)]
pub struct Bell {
    /// Whether a thread of the rank may sleep.
    listens: AtomicU32,
    /// How often it was rung: the word to sleep on.
    rings: AtomicU32,
}

impl Listeners {
    /// Nobody listens.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        Listeners(AtomicU32::new(0))
    }

    /// Where nobody can listen.
    #[cfg(not(loom))]
    pub(super) const fn nobody() -> Self {
        Listeners(AtomicU32::new(0))
    }

    /// Whether somebody may listen.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Forgets everybody, for a world that starts over. Only while no rank is inside.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Bell {
    /// A bell that nobody listens to.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        Bell { listens: AtomicU32::new(0), rings: AtomicU32::new(0) }
    }

    /// How often it was rung. Read it before the announcement: a sleep on the word ends at once if it has changed since.
    pub fn rings(&self) -> u32 {
        self.rings.load(Ordering::Acquire)
    }

    /// Announces that the caller is about to sleep; it must look at its word once more, and then not sleep. Whether that is new: then
    /// the sleep must be short.
    pub fn announce(&self, listeners: &Listeners) -> bool {
        // Counted first: whoever dies in between leaves the count too high, and not too low.
        listeners.0.fetch_add(1, Ordering::Relaxed);
        let is_new = self.listens.swap(1, Ordering::Relaxed) == 0;
        if !is_new {
            listeners.0.fetch_sub(1, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        is_new
    }

    /// Takes the announcement back, if there is one: then the sleepers on the word must be woken, and announce themselves again.
    pub fn withdraw(&self, listeners: &Listeners) -> bool {
        if self.listens.load(Ordering::Relaxed) == 0 || self.listens.swap(0, Ordering::AcqRel) == 0 {
            return false;
        }
        listeners.0.fetch_sub(1, Ordering::Relaxed);
        self.rings.fetch_add(1, Ordering::Release);
        true
    }

    /// Whether a thread of the rank has announced itself.
    pub fn is_listened_to(&self) -> bool {
        self.listens.load(Ordering::Relaxed) != 0
    }

    /// The word to sleep on while it holds what [`rings`](Self::rings) gave.
    #[cfg(not(loom))]
    pub fn word(&self) -> &AtomicU32 {
        &self.rings
    }
}

#[cfg(any(test, loom))]
impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(any(test, loom))]
impl Default for Listeners {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    /// Whoever would sleep was rung for, or will be: its word had not been written when it looked.
    #[test]
    fn loom_a_writer_rings_for_whoever_sleeps() {
        loom::model(|| {
            let shared = Arc::new((Listeners::new(), Bell::new(), AtomicU32::new(0)));
            let theirs = shared.clone();
            let writer = loom::thread::spawn(move || {
                let (listeners, bell, word) = &*theirs;
                word.store(1, Ordering::Release);
                // On the machine it is time that does this.
                fence(Ordering::SeqCst);
                if listeners.any() {
                    bell.withdraw(listeners);
                }
            });
            let (listeners, bell, word) = &*shared;
            let seen = bell.rings();
            bell.announce(listeners);
            let sleeps = word.load(Ordering::Acquire) == 0;
            writer.join().unwrap();
            assert!(!sleeps || bell.rings() != seen, "would sleep for ever");
            bell.withdraw(listeners);
            assert!(!listeners.any());
        });
    }

    /// Two threads of a rank share its bell: one that has found its word takes back what the other has announced, and wakes it.
    #[test]
    fn loom_a_thread_that_leaves_does_not_silence_the_bell_of_another() {
        loom::model(|| {
            let shared = Arc::new((Listeners::new(), Bell::new(), AtomicU32::new(0)));
            let theirs = shared.clone();
            let leaver = loom::thread::spawn(move || {
                let (listeners, bell, _) = &*theirs;
                bell.announce(listeners);
                bell.withdraw(listeners);
            });
            let (listeners, bell, word) = &*shared;
            let seen = bell.rings();
            bell.announce(listeners);
            let sleeps = word.load(Ordering::Acquire) == 0;
            leaver.join().unwrap();
            // Asleep with the bell unrung: then whoever writes finds somebody who listens.
            assert!(sleeps && (bell.rings() != seen || listeners.any() && bell.withdraw(listeners)));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_bell_rings_once_for_each_announcement_and_the_count_goes_back_to_nothing() {
        let (listeners, bells) = (Listeners::new(), [Bell::new(), Bell::new()]);
        assert!(!listeners.any() && !bells[0].withdraw(&listeners));
        assert!(bells[0].announce(&listeners) && !bells[0].announce(&listeners));
        assert!(bells[1].announce(&listeners));
        let rings = bells[0].rings();
        assert!(bells[0].withdraw(&listeners) && !bells[0].withdraw(&listeners));
        assert_eq!(bells[0].rings(), rings + 1);
        assert!(listeners.any() && bells[1].withdraw(&listeners) && !listeners.any());
    }
}
