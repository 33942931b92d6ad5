//! How time passes for whoever waits.
//!
//! On a machine time passes by itself, and what is awaited comes while one looks for it. A transport may say that time passes only
//! in sleep ([`sleeps_at_once`](kumiki_net::contract::Capabilities::sleeps_at_once)), as that of a simulation does: there, whoever
//! asks again and again must sleep between two questions. Nobody but this file knows which of the two it is.

use crate::drive::Drive;
use crate::node::address::GlobalAddress;
use crate::Result;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A program that issues operations polls once in so many of them.
const ISSUES_PER_POLL: u64 = 8;
/// The same when they go out together: as many as do.
const KEPT_ISSUES_PER_POLL: u64 = 64;
/// How often a place may be looked at before its reader sleeps, where time passes only in sleep.
const LOOKS: u32 = 8;

thread_local! {
    /// The place that this thread looked at last, how often, and how much had come then.
    static LOOKED: Cell<(u64, u32, u64)> = const { Cell::new((0, 0, 0)) };
}

/// How time passes.
#[derive(Debug)]
pub(crate) struct Pace {
    sleeps_at_once: bool,
    /// Operations that are issued from one look for answers to the next: usually, and where they go out together.
    issues_per_poll: [u64; 2],
    /// Goes up when something has come.
    comings: AtomicU64,
}

impl Pace {
    pub(crate) fn new(sleeps_at_once: bool) -> Pace {
        let never = [u64::MAX; 2];
        let issues_per_poll = if sleeps_at_once { never } else { [ISSUES_PER_POLL, KEPT_ISSUES_PER_POLL] };
        Pace { sleeps_at_once, issues_per_poll, comings: AtomicU64::new(0) }
    }

    /// Whether whoever waits shall sleep at once, because nothing comes before.
    pub(crate) fn sleeps_at_once(&self) -> bool {
        self.sleeps_at_once
    }

    /// Whether it is time to look for answers, for a program that has issued so many operations, of which so many are incomplete.
    #[inline]
    pub(crate) fn is_time_to_look(&self, issued: u64, incomplete: u64, keeps_back: bool) -> bool {
        let together = keeps_back || incomplete >= KEPT_ISSUES_PER_POLL;
        let every = self.issues_per_poll[usize::from(together)];
        incomplete >= ISSUES_PER_POLL && issued % every == every - 1
    }

    /// How often something has come.
    pub(crate) fn comings(&self) -> u64 {
        self.comings.load(Ordering::Relaxed)
    }

    /// Something has come. (Told by whoever holds the machine.)
    #[inline]
    pub(crate) fn came(&self) {
        self.comings.store(self.comings() + 1, Ordering::Relaxed);
    }
}

impl Drive {
    /// Called between two questions of one who has found nothing: sleeps until something comes, where that takes sleep, and says
    /// whether it did.
    pub(crate) fn let_time_pass(&self) -> Result<bool> {
        if !self.pace.sleeps_at_once {
            return Ok(false);
        }
        let sleeper = self.machine().sleeper.clone();
        sleeper.map_or(Ok(()), |sleeper| sleeper.sleep(1))?;
        Ok(true)
    }

    /// Called by whoever looks at memory that others write: one who looks at one place again and again must let time pass.
    #[cold]
    pub(crate) fn breathe(&self, address: GlobalAddress) -> Result<()> {
        if !self.pace.sleeps_at_once {
            return Ok(());
        }
        let comings = self.pace.comings();
        let (last, times, before) = LOOKED.get();
        let times = if (last, before) == (address.bits(), comings) { times + 1 } else { 0 };
        LOOKED.set((address.bits(), times, comings));
        if times >= LOOKS {
            // That the run is over is told by the poll.
            let _ = self.let_time_pass();
            self.look_once(&mut |_| None::<()>).1?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_issues_looks_now_and_then_but_never_where_time_passes_only_in_sleep() {
        let looks = |pace: &Pace, incomplete, keeps_back| {
            (0..640).filter(|issued| pace.is_time_to_look(*issued, incomplete, keeps_back)).count()
        };
        let machine = Pace::new(false);
        assert_eq!(
            [looks(&machine, 8, false), looks(&machine, 8, true), looks(&machine, 7, false)],
            [80, 10, 0]
        );
        let simulation = Pace::new(true);
        assert_eq!([looks(&simulation, 8, false), looks(&simulation, 100, true)], [0, 0]);
    }
}
