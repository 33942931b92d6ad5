//! What the process that starts several launchers is for their ranks: the place where they meet, or nothing.

use crate::Result;
use kumiki_net::agent::meeting::{Failure, Meeting};
use kumiki_net::os::{descriptor, time};
use std::os::fd::BorrowedFd;

/// How the parts of a job belong together.
pub(super) enum Common {
    /// They are one world, whose hub is here.
    World(Meeting),
    /// They are blocks, which meet by themselves.
    Blocks {
        /// Whether the others go on when one has failed.
        goes_on: bool,
    },
}

impl Common {
    /// Does what there is to do until the other descriptor can be read (true) or it is so late.
    pub(super) fn serve(&mut self, other: BorrowedFd<'_>, until_ms: u64) -> Result<bool> {
        match self {
            Common::World(meeting) => Ok(meeting.serve(other, until_ms)?),
            Common::Blocks { .. } => {
                let left_ms = until_ms.saturating_sub(time::now_ms()).min(60_000);
                Ok(descriptor::poll(&[(other, false)], left_ms as i32)?[0].readable)
            }
        }
    }

    fn meeting(&mut self) -> Option<&mut Meeting> {
        match self {
            Common::World(meeting) => Some(meeting),
            Common::Blocks { .. } => None,
        }
    }

    /// Whether the others go on when a rank is lost.
    pub(super) fn continues_on_loss(&self) -> bool {
        match self {
            Common::World(meeting) => meeting.continues_on_loss(),
            Common::Blocks { goes_on } => *goes_on,
        }
    }

    /// How the first world that failed did so.
    pub(super) fn failure(&self) -> Option<Failure> {
        match self {
            Common::World(meeting) => meeting.failure(),
            Common::Blocks { .. } => None,
        }
    }

    /// The ranks that others wait for, as far as anybody here knows.
    pub(super) fn missing(&self) -> Vec<u32> {
        match self {
            Common::World(meeting) => meeting.missing(),
            Common::Blocks { .. } => Vec::new(),
        }
    }

    /// Ends the world: its ranks are told why.
    pub(super) fn end(&mut self, code: i32, why: String) {
        if let Some(meeting) = self.meeting() {
            meeting.end(code, why);
        }
    }

    /// Tells the ranks that the user ends the job, without a report.
    pub(super) fn interrupt(&mut self, signal: i32) {
        if let Some(meeting) = self.meeting() {
            meeting.interrupt(signal);
        }
    }

    /// Reports who waits for whom.
    pub(super) fn survey(&mut self) {
        if let Some(meeting) = self.meeting() {
            meeting.survey();
        }
    }

    /// Nobody was listened to for a while: that was not the ranks' fault.
    pub(super) fn excuse_silence(&mut self) {
        if let Some(meeting) = self.meeting() {
            meeting.excuse_silence();
        }
    }
}
