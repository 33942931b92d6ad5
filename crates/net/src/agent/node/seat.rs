//! What an agent knows of one of its ranks, and the line to it.

use crate::agent::channel::{FromAgent, Packet};
use crate::os::socket;
use crate::shm::world::Cause;
use crate::Error;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

/// The most packets that wait for a rank which does not read.
const MAX_QUEUED: usize = 64;

/// How a local rank stands in the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::agent) enum Standing {
    /// It has not joined.
    Out,
    /// It has asked to join, and waits for the world to begin.
    Pending,
    /// It is in.
    In,
    /// It has finalized.
    Left,
    /// It is gone.
    Lost,
}

/// One local rank.
#[derive(Debug)]
pub(in crate::agent) struct Seat {
    pub(in crate::agent) rank: u32,
    pub(in crate::agent) standing: Standing,
    /// The agent's end of the socket pair; `None` once the other end is closed.
    pub(in crate::agent) channel: Option<OwnedFd>,
    queue: VecDeque<Packet>,
    /// The process that joined; 0 before.
    pub(in crate::agent) pid: u32,
    /// The process as the kernel names it, which then counts instead of what the rank says.
    pub(in crate::agent) known_pid: Option<u32>,
    /// Becomes readable when the process that joined ends.
    pub(in crate::agent) pidfd: Option<OwnedFd>,
    /// Why the agent has ended that process, if it has.
    pub(in crate::agent) given_up: Option<Cause>,
    /// Whether the agent has ended that process, for whatever reason.
    pub(in crate::agent) is_killed: bool,
    /// Whether it has left the present round. It may have asked to join the next since.
    pub(in crate::agent) has_left: bool,
    /// Since when it has been seen stopped, by an agent that is not its parent.
    pub(in crate::agent) stopped_ms: Option<u64>,
}

impl Seat {
    pub(in crate::agent) fn new(rank: u32, channel: Option<OwnedFd>) -> Seat {
        Seat {
            rank,
            standing: Standing::Out,
            channel,
            queue: VecDeque::new(),
            pid: 0,
            known_pid: None,
            pidfd: None,
            given_up: None,
            is_killed: false,
            has_left: false,
            stopped_ms: None,
        }
    }

    /// Whether the world may give it up: who has left in good order is ended by nobody, also if that was asked before it was known.
    /// The hub begins a round before it gives up anybody in it, and says so first: what it asks is about the present round.
    pub(in crate::agent) fn can_be_given_up(&self) -> bool {
        matches!(self.standing, Standing::In | Standing::Pending) && !self.has_left
    }

    /// Whether packets wait for room in the socket.
    pub(in crate::agent) fn has_backlog(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sends a packet, or keeps it until there is room. A rank that never reads loses the packets that do not
    /// fit any more, and with them connections; it cannot make the agent wait or grow.
    pub(in crate::agent) fn send(&mut self, message: FromAgent) {
        if self.queue.len() < MAX_QUEUED && self.channel.is_some() {
            self.queue.push_back(message.into());
            self.flush();
        }
    }

    /// Tells the rank to look at the arena. Where there is no room, the rank has unread packets that make it look.
    pub(in crate::agent) fn notice(&mut self) {
        if self.queue.is_empty() {
            self.send(FromAgent::Notice);
            self.queue.clear();
        }
    }

    /// Sends what fits.
    pub(in crate::agent) fn flush(&mut self) {
        while let (Some(channel), Some(packet)) = (&self.channel, self.queue.front()) {
            let passed: Vec<_> = packet.passed.iter().map(|fd| fd.as_fd()).collect();
            match socket::send_message(channel.as_fd(), &packet.bytes, &passed) {
                Err(error) if error.would_block() => return,
                // ETOOMANYREFS: too many descriptors in flight; wait as for room.
                Err(Error::System { errno: libc::ETOOMANYREFS, .. }) => return,
                Ok(_) | Err(_) => self.queue.pop_front(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_has_left_is_not_killed_by_a_fence_that_crossed_its_leaving() {
        let of = |standing| Seat { standing, ..Seat::new(0, None) }.can_be_given_up();
        assert!(of(Standing::In) && of(Standing::Pending));
        assert!(!of(Standing::Left) && !of(Standing::Out) && !of(Standing::Lost));
    }
}
