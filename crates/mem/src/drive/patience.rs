//! How long a thread that waits spins before it sleeps, and what it does for others meanwhile.

use crate::drive::Drive;
use kumiki_net::os::{process, time};
use std::sync::atomic::Ordering;

/// Decides between spinning, yielding and sleeping.
pub(crate) struct Patience<'a> {
    drive: &'a Drive,
    /// Whether to sleep at once.
    none: bool,
    spin_ns: u64,
    yields: u32,
    since_ns: u64,
    turns: u32,
    all_turns: u32,
}

/// After so many turns a wait that spins asks that what comes wake nobody else.
const SILENCE_TURNS: u32 = 8;

/// A piece of a neighbour's copy takes as long as so many turns.
const SHARE_TURNS: u32 = 64;

/// Turns of yielding before a sleep when ranks outnumber cores…
const YIELD_TURNS: u32 = 64;
/// …by no more than this. Where there are many more, each turn of one is taken from all the others.
const FEW_RANKS: u32 = 4;

impl<'a> Patience<'a> {
    pub(crate) fn new(drive: &'a Drive) -> Patience<'a> {
        Patience {
            drive,
            none: drive.pace.sleeps_at_once(),
            spin_ns: drive.waiting.spin_ns.load(Ordering::Relaxed),
            yields: (YIELD_TURNS * FEW_RANKS / drive.waiting.crowd.max(FEW_RANKS)).max(1),
            since_ns: 0,
            turns: 0,
            all_turns: 0,
        }
    }

    /// Something happened: start over.
    pub(crate) fn renew(&mut self) {
        self.since_ns = 0;
        self.turns = 0;
    }

    /// True once in so many turns, whether or not something happened meanwhile; more often where a turn gives the core away,
    /// and may last as long as others keep it.
    pub(crate) fn must_look_up(&mut self, turns: u32) -> bool {
        let turns = if self.spin_ns == 0 { (turns / YIELD_TURNS).max(1) } else { turns };
        self.all_turns += 1;
        let must = self.all_turns >= turns;
        if must {
            self.all_turns = 0;
        }
        must
    }

    /// Whether it is time to ask for silence: this wait spins, and has not ended at once.
    #[inline]
    pub(crate) fn spins_on(&self) -> bool {
        self.spin_ns != 0 && self.turns.is_multiple_of(SILENCE_TURNS)
    }

    /// One more turn without success. True when it is time to sleep.
    #[inline]
    pub(crate) fn exhausted(&mut self) -> bool {
        if self.none {
            return true;
        }
        self.turns += 1;
        if self.spin_ns == 0 {
            if self.turns <= self.yields {
                process::yield_now();
                return false;
            }
            return true;
        }
        if self.drive.helps() {
            self.renew();
            self.all_turns = self.all_turns.saturating_add(SHARE_TURNS);
            return false;
        }
        std::hint::spin_loop();
        // Looking at the clock costs more than looking at a word.
        if !self.turns.is_multiple_of(32) {
            return false;
        }
        let now_ns = time::now_ns();
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        now_ns - self.since_ns > self.spin_ns
    }
}
