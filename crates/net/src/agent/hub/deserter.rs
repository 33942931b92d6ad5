//! A rank that finalized, or dropped its world, while others went on.
//!
//! All who meet in the broken barrier get an error at the same time, and end because of it in any order. The job fails
//! because of the one that left, so what becomes of the others is held back until that one has ended, with its own words
//! and its own code, or until its time is over.

use super::{how_it_ended, Hub, Standing, GRACE_MS};
use crate::agent::protocol::Ending;
use crate::shm::world::Cause;

/// The most failures of others that are shown with it.
const MOST_HELD: usize = 16;

/// The rank, and what has failed since.
#[derive(Debug)]
pub(super) struct Deserter {
    rank: u32,
    /// When its agent is asked to end it, if it has not ended; none once that has been asked.
    pub(super) until_ms: Option<u64>,
    /// Codes and reports.
    held: Vec<(i32, String)>,
}

impl Hub {
    /// Somebody has found out that a rank left.
    pub(super) fn desert(&mut self, rank: u32, now_ms: u64) {
        let is_in = self.members[rank].standing == Standing::In;
        if is_in && self.deserter.is_none() && self.closing.is_none() {
            self.first_lost.get_or_insert(rank);
            let until_ms = Some(now_ms + u64::from(GRACE_MS));
            self.deserter = Some(Deserter { rank, until_ms, held: Vec::new() });
        }
    }

    /// Whether this rank is the one that left, and nothing has come of it yet.
    pub(super) fn is_deserter(&self, rank: u32) -> bool {
        self.deserter.as_ref().is_some_and(|deserter| deserter.rank == rank)
    }

    /// Ends the rank that left, if its time is over: it may hold what others would take over.
    pub(super) fn check_deserter(&mut self, now_ms: u64) {
        let due = |deserter: &&mut Deserter| deserter.until_ms.is_some_and(|until_ms| until_ms <= now_ms);
        let Some(deserter) = self.deserter.as_mut().filter(due) else { return };
        deserter.until_ms = None;
        let rank = deserter.rank;
        if self.members[rank].standing != Standing::In {
            self.judge_deserter(None, None, now_ms);
        } else if self.given_up(rank).is_none() {
            self.give_up(rank, Cause::LEFT, now_ms);
        }
    }

    /// Nobody ends this rank any more: if it is the one that left, it need not be waited for.
    pub(super) fn hurry_deserter(&mut self, rank: u32) {
        if let Some(deserter) = self.deserter.as_mut().filter(|deserter| deserter.rank == rank) {
            deserter.until_ms.get_or_insert(0);
        }
    }

    /// Keeps a failure that may be due to a rank that left; false if there is no such rank.
    pub(super) fn hold(&mut self, code: i32, headline: &str) -> bool {
        let Some(deserter) = &mut self.deserter else { return false };
        if deserter.held.len() < MOST_HELD {
            deserter.held.push((code, headline.to_owned()));
        }
        true
    }

    /// The job ends for another reason, which is the one that counts: what a report of that adds about the rank that left.
    pub(super) fn forget_deserter(&mut self) -> String {
        let Some(Deserter { rank, held, .. }) = self.deserter.take() else { return String::new() };
        let before = format!("\n  before that {} was missed: {}", self.describe(rank), Cause::LEFT);
        before + &list(&held)
    }

    /// The rank that left has ended, or nobody can end it. `knows` is the node that need not be told.
    pub(super) fn judge_deserter(&mut self, ending: Option<Ending>, knows: Option<u32>, now_ms: u64) {
        let Some(Deserter { rank, held, .. }) = self.deserter.take() else { return };
        let was_ended = self.given_up(rank).is_some();
        // Who left because of it did so later.
        let leaves = std::mem::take(&mut self.leaves);
        self.lose(rank, Cause::LEFT, knows);
        self.leaves = leaves;
        // What we did is no ending of its own.
        let ending = ending.filter(|&ending| !was_ended || ending != Ending::Signal(libc::SIGKILL));
        let mut headline = format!("{} is lost: {}", self.describe(rank), Cause::LEFT);
        let mut code = 1;
        if let Some(ending) = ending {
            headline = format!("{headline}; then it {}", how_it_ended(ending, false));
            code = ending.code().max(1);
        }
        if self.goes_on_after_loss() {
            self.fail(code, headline, now_ms);
            held.into_iter().for_each(|(code, text)| self.fail(code, text, now_ms));
        } else {
            self.fail(code, headline + &list(&held), now_ms);
        }
    }
}

/// What became of others, as a report shows it.
fn list(held: &[(i32, String)]) -> String {
    held.iter().map(|(_, text)| format!("\n  then {text}")).collect()
}
