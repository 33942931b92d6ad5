//! Giving up ranks that nobody may be able to reach and that may live on.
//!
//! Others take over the locks of a lost rank and free what it still may use. So a rank that the hub gives up is first ended by
//! its own agent; only when that has told its end is it lost for all. A process that cannot be ended ends the job.

use super::{Hub, Standing};
use crate::agent::protocol::ToNode;
use crate::shm::world::Cause;
use crate::Rank;

/// A rank whose end its agent has to bring about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    rank: u32,
    cause: Cause,
    /// When its process counts as one that cannot be ended.
    limit_ms: u64,
}

impl Hub {
    /// Gives a rank up. Not while the job ends: then its agent ends it in any case, and it has the same grace as the others.
    pub(super) fn give_up(&mut self, rank: u32, cause: Cause, now_ms: u64) {
        if self.closing.is_some() {
            return;
        }
        let home = self.members[rank].place.0;
        if !self.listens(home) {
            // Nobody is there who could: its node is lost as a whole, and the others cut it off.
            return self.lose_and_fail(rank, cause, None, 1, now_ms);
        }
        self.members.set_suspected(rank, true);
        self.fences.push(Fence { rank, cause, limit_ms: now_ms + self.timeout_ms() });
        self.send(home, ToNode::Fence { rank: Rank(rank) });
    }

    /// Why a rank was given up that has now ended, if it was.
    pub(super) fn given_up(&self, rank: u32) -> Option<Cause> {
        self.fences.iter().find(|fence| fence.rank == rank).map(|fence| fence.cause)
    }

    /// A rank whose end is waited for.
    pub(super) fn first_fenced(&self) -> Option<u32> {
        self.fences.first().map(|fence| fence.rank)
    }

    /// It is known what has become of a rank.
    pub(super) fn forget_fence(&mut self, rank: u32) {
        self.hurry_deserter(rank);
        if self.members[rank].suspected {
            self.fences.retain(|fence| fence.rank != rank);
            self.members.set_suspected(rank, self.suspects.iter().any(|suspect| suspect.rank == rank));
        }
    }

    /// When the next of them counts as one that cannot be ended.
    pub(super) fn fence_limit_ms(&self) -> Option<u64> {
        self.fences.iter().map(|fence| fence.limit_ms).min()
    }

    /// Nobody was listened to for a while: all have their time once more.
    pub(super) fn excuse_fences(&mut self, now_ms: u64) {
        let limit_ms = now_ms + self.timeout_ms();
        self.fences.iter_mut().for_each(|fence| fence.limit_ms = limit_ms);
    }

    /// An agent that is silent itself cannot tell of an end: first it is waited for what comes of its silence.
    fn await_silent_homes(&mut self, now_ms: u64) {
        let pause_ms = 2 * self.beat_interval_ms();
        let timeout_ms = self.timeout_ms();
        for fence in self.fences.iter_mut().filter(|fence| fence.limit_ms <= now_ms) {
            let heard_ms = self.nodes[self.members[fence.rank].place.0 as usize].heard_ms;
            if heard_ms + pause_ms < now_ms {
                fence.limit_ms = heard_ms + timeout_ms + pause_ms;
            }
        }
    }

    pub(super) fn check_fences(&mut self, now_ms: u64) {
        self.await_silent_homes(now_ms);
        if let Some(fence) = self.fences.iter().copied().find(|fence| fence.limit_ms <= now_ms) {
            self.unfenced(fence.rank, "its process does not end", now_ms);
        }
    }

    /// A rank that was given up may still write: nobody may take over what it holds.
    pub(super) fn unfenced(&mut self, rank: u32, why: &str, now_ms: u64) {
        let cause = self.given_up(rank).unwrap_or(Cause::STOPPED);
        self.forget_fence(rank);
        if self.members[rank].standing == Standing::In {
            self.first_lost.get_or_insert(rank);
            let who = self.describe(rank);
            self.end(1, format!("{who} is given up ({cause}) and cannot be ended: {why}"), now_ms);
        }
    }
}
