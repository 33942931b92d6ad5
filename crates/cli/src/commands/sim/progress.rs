//! How far a simulation is, on a terminal.

use crate::progress::bar;
use indicatif::{HumanCount, ProgressBar};
use kumiki_sim::Progress;
use std::time::Instant;

/// Parts of the whole that the bar knows.
const PARTS: u64 = 1000;

/// A line on standard error with simulated time, packets a second and the time left; nothing if that is no terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
}

impl Bar {
    /// A bar, if it is wanted and there is a terminal.
    pub(crate) fn new(wanted: bool) -> Bar {
        let bar = bar(PARTS, "{bar:32.cyan/blue} {percent:>3} %  {msg}  {eta} left", wanted);
        Bar { bar, started: Instant::now() }
    }

    /// Shows how far it is. Many threads may call it.
    pub(crate) fn tell(&self, progress: &Progress) {
        if self.bar.is_hidden() {
            return;
        }
        let rate = progress.packets as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!(
            "{} simulated, {} packets/s",
            progress.simulated,
            HumanCount(rate as u64)
        ));
        if let Some(done) = progress.done {
            self.bar.set_position((done * PARTS as f64) as u64);
        } else {
            self.bar.tick();
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line on standard error that counts runs; nothing if that is no terminal.
pub(crate) struct Count(ProgressBar);

impl Count {
    /// None of so many is done.
    pub(crate) fn new(runs: usize) -> Count {
        Count(bar(runs as u64, "{bar:32.cyan/blue} {pos} of {len} runs  {eta} left", true))
    }

    /// One is done. Many threads may call it.
    pub(crate) fn one_more(&self) {
        self.0.inc(1);
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
