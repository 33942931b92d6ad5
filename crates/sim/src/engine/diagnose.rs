//! Who waits for whom, when nothing moves any more.

use super::{Blocked, Carrier, Simulation};
use crate::deadlock::{Blocked as BlockedRank, Deadlock};
use crate::program::{Source, Wait};
use crate::queue::Queue;
use crate::Time;

impl<Q: Queue> Simulation<'_, Q> {
    pub(super) fn diagnose(&self) -> Deadlock {
        let blocked: Vec<BlockedRank> =
            (0..self.ranks.len() as u32).filter_map(|rank| self.blocked(rank)).collect();
        let (credit_circle, packets) = match &self.carrier {
            Carrier::Packets(fabric) => (fabric.credit_circle(), fabric.in_flight()),
            Carrier::Uncontended(_) => (Vec::new(), 0),
        };
        let circle = circle(&blocked, self.ranks.len());
        Deadlock { time: Time::from_ps(self.now), blocked, circle, credit_circle, packets }
    }

    /// What a rank waits for.
    fn blocked(&self, index: u32) -> Option<BlockedRank> {
        let rank = &self.ranks[index as usize];
        let (what, on) = match rank.blocked {
            Blocked::Ended => return None,
            Blocked::No => ("its turn".to_owned(), None),
            Blocked::Wait(wait) => self.waits_for(index, wait),
            Blocked::Flag { flag, count } => {
                let raised = rank.state.flag(flag);
                let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
                (format!("flag {flag} to be raised {times} (it is at {raised})"), None)
            }
            Blocked::Barrier => self.missing_at(Blocked::Barrier, "the barrier"),
            Blocked::Step => self.missing_at(Blocked::Step, "the end of the step"),
        };
        Some(BlockedRank { rank: index, what, on })
    }

    /// Somebody who is not where others wait.
    fn missing_at(&self, place: Blocked, name: &str) -> (String, Option<u32>) {
        let missing =
            self.ranks.iter().position(|rank| rank.blocked != place && rank.blocked != Blocked::Ended);
        match missing {
            Some(rank) => (format!("rank {rank} to come to {name}"), Some(rank as u32)),
            None => (name.to_owned(), None),
        }
    }

    /// The operation that a wait is for: of several, the oldest.
    fn waits_for(&self, index: u32, wait: Wait) -> (String, Option<u32>) {
        let rank = &self.ranks[index as usize];
        let wanted = |handle| match wait {
            Wait::Handle(only) => handle == only,
            Wait::UpTo(last) => handle <= last,
            Wait::All | Wait::Outstanding(_) => true,
        };
        let receive = rank.posted.iter().find(|posted| wanted(posted.receive.handle));
        let message = self
            .messages
            .live()
            .filter(|message| message.initiator == index && wanted(message.handle))
            .min_by_key(|message| message.handle);
        let handle = receive.map(|posted| posted.receive.handle);
        match (receive, message) {
            (Some(posted), _) if message.is_none_or(|message| Some(message.handle) > handle) => {
                let tag = posted.tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
                match posted.from {
                    Source::Any => (format!("a message from anyone with {tag}; none is sent"), None),
                    Source::Rank(from) => {
                        let ended = self.ranks[from as usize].blocked == Blocked::Ended;
                        let why = if ended { ", which has ended" } else { "" };
                        (format!("a message from rank {from}{why} with {tag}; none is sent"), Some(from))
                    }
                }
            }
            (_, Some(message)) => {
                let other = if message.to == index { message.from } else { message.to };
                let what = message.kind.name();
                (format!("its {what} with rank {other} (operation {})", message.handle.0), Some(other))
            }
            (_, None) => ("an operation".to_owned(), None),
        }
    }
}

/// Ranks of which each waits for the next.
fn circle(blocked: &[BlockedRank], ranks: usize) -> Vec<u32> {
    let mut on = vec![None; ranks];
    for entry in blocked {
        on[entry.rank as usize] = entry.on;
    }
    let mut seen = vec![false; ranks];
    for start in 0..ranks as u32 {
        let mut path = Vec::new();
        let mut at = Some(start);
        while let Some(rank) = at.filter(|&rank| !seen[rank as usize]) {
            seen[rank as usize] = true;
            path.push(rank);
            at = on[rank as usize];
        }
        if let Some(first) = at.and_then(|rank| path.iter().position(|&passed| passed == rank)) {
            return path.split_off(first);
        }
    }
    Vec::new()
}
