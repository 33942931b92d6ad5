//! Injects faults: at the n-th message that this rank sends, something bad happens to it or to its connection.
//!
//! `KUMIKI_FAULT` is a list like `reset@5,1:stall=500ms@9`: what, optionally for which rank alone, and at which message
//! (the first is 1). What: `drop` (the frame vanishes behind the numbering of the wire, as if a switch had
//! lost it and TCP had not noticed), `delay=TIME`, `reset`, `corrupt` (one bit), `tear` (a
//! large payload changes while it is being sent), `stall=TIME`.

use super::tap::Hook;
use crate::contract::{Fault, Message};
use crate::os::time;
use crate::wire::Header;
use crate::{environment, Error, Rank, Result};
use std::collections::VecDeque;

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Delay { milliseconds: u64 },
    Break(Fault),
}

/// One planned fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Planned {
    rank: Option<u32>,
    at: u64,
    act: Act,
}

/// The faults to inject.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct FaultPlan(Vec<Planned>);

impl FaultPlan {
    /// Reads a plan; the message of the error says what would be right.
    pub(super) fn parse(text: &str) -> Result<FaultPlan> {
        let wrong = |part: &str| {
            Error::Misuse(format!(
                "KUMIKI_FAULT: `{part}` is not a fault; write for instance reset@5, 1:drop@2, corrupt@3, tear@1, \
                 delay=50ms@4 or stall=500ms@1"
            ))
        };
        let parse_one = |part: &str| -> Option<Planned> {
            let (rank, rest) = match part.split_once(':') {
                Some((rank, rest)) => (Some(rank.trim().parse().ok()?), rest),
                None => (None, part),
            };
            let (what, at) = rest.split_once('@')?;
            let at = at.trim().parse().ok().filter(|&at| at > 0)?;
            let (what, time) = match what.split_once('=') {
                Some((what, time)) => (what, Some(environment::parse_duration(time)?.as_millis() as u64)),
                None => (what, None),
            };
            let act = match (what.trim(), time) {
                ("drop", None) => Act::Break(Fault::Drop),
                ("reset", None) => Act::Break(Fault::Reset),
                ("corrupt", None) => Act::Break(Fault::Corrupt),
                ("tear", None) => Act::Break(Fault::Tear),
                ("delay", Some(milliseconds)) => Act::Delay { milliseconds },
                ("stall", Some(milliseconds)) => Act::Break(Fault::Stall { milliseconds }),
                _ => return None,
            };
            Some(Planned { rank, at, act })
        };
        text.split(',')
            .map(|part| parse_one(part.trim()).ok_or_else(|| wrong(part)))
            .collect::<Result<_>>()
            .map(FaultPlan)
    }

    /// The part of the plan that concerns a rank.
    pub(super) fn of(&self, rank: Rank) -> FaultPlan {
        let mine = |planned: &&Planned| planned.rank.is_none_or(|number| number == rank.0);
        FaultPlan(self.0.iter().filter(mine).copied().collect())
    }
}

/// What injects the faults of a plan.
pub(super) struct Inject {
    plan: FaultPlan,
    sent: u64,
    /// Faults up to this message have been given to the connection.
    dealt: u64,
    delayed: VecDeque<(u64, Rank, Message)>,
    broken: Vec<(Rank, Fault)>,
}

impl Inject {
    pub(super) fn new(plan: FaultPlan) -> Inject {
        Inject { plan, sent: 0, dealt: 0, delayed: VecDeque::new(), broken: Vec::new() }
    }

    /// What happens at the message that is sent next: how long it is delayed. Its connection breaks once, however often it is tried.
    fn strike(&mut self, to: Rank) -> Option<u64> {
        let next = self.sent + 1;
        let planned = || self.plan.0.iter().filter(|planned| planned.at == next).map(|planned| planned.act);
        if self.dealt < next {
            self.dealt = next;
            self.broken.extend(planned().filter_map(|act| match act {
                Act::Break(fault) => Some((to, fault)),
                Act::Delay { .. } => None,
            }));
        }
        let mut delays = planned().rev().filter_map(|act| match act {
            Act::Delay { milliseconds } => Some(milliseconds),
            Act::Break(_) => None,
        });
        delays.next()
    }

    /// Looks at a message about to be sent. True if it is held back.
    fn judge(&mut self, to: Rank, message: &Message) -> bool {
        let delay_ms = self.strike(to);
        self.sent += 1;
        // Once one message is delayed, those behind it wait too: order is part of the contract.
        let last_ms = self.delayed.back().map(|(until_ms, ..)| *until_ms);
        let until_ms = delay_ms.map(|milliseconds| time::now_ms() + milliseconds).or(last_ms);
        match until_ms {
            Some(until_ms) => {
                self.delayed.push_back((until_ms, to, *message));
                true
            }
            None => false,
        }
    }
}

impl Hook for Inject {
    fn sending(&mut self, to: Rank, message: &Message) -> bool {
        !self.judge(to, message)
    }

    fn may_write(&mut self, to: Rank) -> bool {
        // What is delayed goes as a message, and so does what is behind it.
        self.delayed.is_empty() && self.strike(to).is_none()
    }

    fn written(&mut self, _to: Rank, _header: &Header, _bytes: u64) {
        self.sent += 1;
    }

    fn due(&mut self) -> Option<(Rank, Message)> {
        let now_ms = time::now_ms();
        let (until_ms, ..) = self.delayed.front()?;
        if *until_ms > now_ms {
            return None;
        }
        self.delayed.pop_front().map(|(_, to, message)| (to, message))
    }

    fn fault(&mut self) -> Option<(Rank, Fault)> {
        (!self.broken.is_empty()).then(|| self.broken.remove(0))
    }

    fn wake_up_at(&self) -> Option<u64> {
        self.delayed.front().map(|(until_ms, ..)| *until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_and_a_wrong_one_is_refused() {
        let plan = FaultPlan::parse("reset@5, 1:stall=500ms@9").unwrap();
        assert_eq!(plan.0.len(), 2);
        assert_eq!(plan.of(Rank(0)).0.len(), 1);
        assert_eq!(plan.of(Rank(1)).0[1].act, Act::Break(Fault::Stall { milliseconds: 500 }));
        for wrong in ["", "reset", "reset@0", "x:reset@1", "delay@3", "explode@1"] {
            let message = FaultPlan::parse(wrong).unwrap_err().to_string();
            assert!(message.contains("KUMIKI_FAULT"), "{wrong}: {message}");
        }
    }
}
