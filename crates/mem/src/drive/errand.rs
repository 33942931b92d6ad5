//! Atomics on private memory of a neighbour, without a message.
//!
//! The word must be changed by a CPU atomic of its owner. If a thread of the owner polls, it finds the request in its control
//! block within a microsecond. If none does, the request is withdrawn, and asked by a message that wakes the owner's service
//! thread. Used by `issue.rs` for atomics that need not keep their place behind messages.

use crate::drive::Drive;
use crate::engine::operations::Action;
use crate::error::Fate;
use crate::node::access::Reach;
use crate::node::atomic::{self, AtomicCall};
use crate::{Error, Result};
use kumiki_net::os::{process, time};
use kumiki_net::shm::errand::{Posted, Progress};
use kumiki_net::Rank;
use std::sync::atomic::{AtomicU32, Ordering};

/// An errand that nobody has taken for so long is withdrawn: a message then takes three times as long.
const PATIENCE_NS: u64 = 3_000;
/// Turns between two looks at the clock, and between two looks at whether the neighbour and the job are still there.
const CLOCK_TURNS: u32 = 16;
const LIFE_TURNS: u32 = 1024;
/// The most atomics that go by message before an errand is tried again.
const MOST_SKIPPED: u32 = 64;

/// Whether an errand is worth trying, by how the last ones went.
#[derive(Debug, Default)]
pub(crate) struct Manners {
    /// Errands that nobody took since one was taken.
    untaken: AtomicU32,
    /// Atomics that go by message before the next errand.
    skips: AtomicU32,
}

impl Manners {
    fn may_try(&self) -> bool {
        let one_less = |skips: u32| skips.checked_sub(1);
        self.skips.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    fn note(&self, taken: bool) {
        if taken {
            self.untaken.store(0, Ordering::Relaxed);
            return;
        }
        let untaken = self.untaken.fetch_add(1, Ordering::Relaxed).min(MOST_SKIPPED.ilog2());
        // The message that follows wakes somebody, who may still be there for the next errand: one more is tried at once.
        let skips = if untaken == 0 { 0 } else { 1 << untaken };
        self.skips.store(skips, Ordering::Relaxed);
    }
}

impl Drive {
    /// Does an atomic on a word of private memory of a neighbour that polls. `None`: nothing was done, ask in another way.
    #[inline]
    pub(crate) fn run_beside(&self, action: Action) -> Result<Option<u64>> {
        match action {
            // Where ranks outnumber cores nobody polls for long.
            Action::Atomic { call, .. } if self.waiting.spin_ns.load(Ordering::Relaxed) != 0 => {
                self.leave_errand(&call)
            }
            _ => Ok(None),
        }
    }

    fn leave_errand(&self, call: &AtomicCall) -> Result<Option<u64>> {
        let bytes = atomic::width(call.code)?;
        // What is wrong with an address is found out, and said, on the other way.
        let Ok(Reach::Private(private)) = self.reach(call.target, call.registration, bytes) else {
            return Ok(None);
        };
        if private.rank() == self.rank || !self.manners.may_try() {
            return Ok(None);
        }
        let Some(control) = self.arena.control(private.local()) else { return Ok(None) };
        let what = u64::from(private.generation()) << 8 | u64::from(call.code);
        let request = [call.target.bits(), what, call.first, call.second];
        let Some(posted) = control.errands.post(self.rank, request) else {
            control.errands.forget(|rank| !self.is_alive(rank));
            return Ok(None);
        };
        self.await_errand(&posted, private.rank())
    }

    fn await_errand(&self, posted: &Posted<'_>, owner: Rank) -> Result<Option<u64>> {
        let (mut turns, mut since_ns) = (0u32, 0);
        loop {
            match posted.progress() {
                Progress::Done(old) => {
                    self.manners.note(true);
                    return Ok(Some(old));
                }
                // It is asked again by message, whose answer says why.
                Progress::Refused => return Ok(None),
                Progress::Posted | Progress::Taken => {}
            }
            std::hint::spin_loop();
            turns = turns.wrapping_add(1);
            if !turns.is_multiple_of(CLOCK_TURNS) {
                continue;
            }
            let now_ns = time::now_ns();
            if since_ns == 0 {
                since_ns = now_ns;
            }
            if now_ns - since_ns <= PATIENCE_NS {
                continue;
            }
            if posted.withdraw() {
                self.manners.note(false);
                return Ok(None);
            }
            if turns.is_multiple_of(LIFE_TURNS) {
                // Somebody is doing it, and has lost the processor meanwhile, or its life.
                process::yield_now();
                self.check_job()?;
                if !self.is_alive(owner) {
                    let why = "it went away while it changed a word for us".to_string();
                    return Err(Error::PeerLost { rank: owner.0, fate: Fate::Unknown, why });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_computes_is_asked_by_message_most_of_the_time() {
        let manners = Manners::default();
        let tried = (0..1000)
            .filter(|_| {
                let tries = manners.may_try();
                if tries {
                    manners.note(false);
                }
                tries
            })
            .count();
        assert!((10..30).contains(&tried), "{tried} of 1000");
        assert!((0..=MOST_SKIPPED).any(|_| manners.may_try()), "it is tried again in the end");
        manners.note(true);
        assert!((0..100).all(|_| manners.may_try()));
    }
}
