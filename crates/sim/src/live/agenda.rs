//! What will happen, by time: the moves of packets and what concerns ranks, in one queue, so that events of one time happen
//! in the order in which they were made.

use super::hall::Frame;
use crate::fabric::event;
use crate::queue::{Queue, Wheel};
use crate::Time;

/// Something that concerns ranks.
#[derive(Debug)]
pub(super) enum Event {
    /// A sleep or a computation is over, unless the rank was woken meanwhile.
    Wake { rank: u32, ticket: u64 },
    /// The processor of the sender has done its part of a message, or it is time to send it again.
    Launch { flight: u32 },
    /// All packets of a message have come.
    Landed { flight: u32 },
    /// Those that were late, too.
    Complete { flight: u32 },
    /// A message should have come long ago.
    Overdue { flight: u32, serial: u64 },
    /// The receiver has taken a frame.
    Arrive(Box<Frame>),
    /// A link goes down or comes up.
    Link { outage: u32, down: bool },
    /// The connection of two ranks has been silent for too long.
    Sever { one: u32, other: u32 },
    /// Everybody hears that a rank could not be reached by another.
    Unreachable { rank: u32, by: u32 },
    /// Everybody hears that a rank is gone.
    Notice { rank: u32 },
    /// The connection with a rank that has left is closed, behind everything that it sent.
    Goodbye { from: u32, to: u32 },
}

/// The queue.
pub(super) struct Agenda {
    /// For packets, which put in their own words.
    pub(super) queue: Wheel,
    events: Vec<Option<Event>>,
    unused: Vec<u32>,
}

impl Agenda {
    /// A queue for a network in which most events lie less than this ahead.
    pub(super) fn new(span: Time) -> Agenda {
        Agenda { queue: Wheel::new(span.as_ps(), 0), events: Vec::new(), unused: Vec::new() }
    }

    pub(super) fn push(&mut self, at: Time, event: Event) {
        let index = match self.unused.pop() {
            Some(index) => {
                self.events[index as usize] = Some(event);
                index
            }
            None => {
                self.events.push(Some(event));
                self.events.len() as u32 - 1
            }
        };
        self.queue.push(at.as_ps(), event::ENGINE | u64::from(index));
    }

    /// The event behind a word of the queue.
    pub(super) fn take(&mut self, word: u64) -> Option<Event> {
        let index = (word & event::VALUE) as u32;
        let event = self.events[index as usize].take()?;
        self.unused.push(index);
        Some(event)
    }
}
