//! What is on its way between ranks: one record a message, kept until everybody has heard of it.

use crate::program::{Gap, Handle};
use crate::report::OperationKind;
use crate::wiring::NONE;
use crate::Time;

/// A transfer between ranks, or an atomic operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) kind: OperationKind,
    /// Who issued it, and as what.
    pub(super) initiator: u32,
    pub(super) handle: Handle,
    /// Ranks that the data goes from and to.
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) bytes: u64,
    pub(super) tag: u64,
    pub(super) flag: Option<u64>,
    pub(super) gap: Gap,
    /// The step in which it was issued.
    pub(super) step: u32,
    /// Tells this message from an earlier one in the same place.
    pub(super) serial: u64,
    /// The message behind this one that must not take effect before it.
    pub(super) follower: u32,
    /// Whether it must wait for the one before it to take effect.
    pub(super) follows: bool,
    /// Whether all of its data is there.
    pub(super) arrived: bool,
    /// Whether its data has been asked for by the receiver (rendezvous).
    pub(super) asked: bool,
    /// The receive that it belongs to.
    pub(super) receive: Option<Receive>,
    /// Where it is recorded, if it is.
    pub(super) record: u32,
}

/// A receive that has been posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receive {
    pub(super) handle: Handle,
    pub(super) bytes: u64,
    pub(super) record: u32,
}

/// All messages, each under a number that is used again.
#[derive(Default)]
pub(super) struct Messages {
    all: Vec<Message>,
    unused: Vec<u32>,
    serial: u64,
}

impl Messages {
    pub(super) fn keep(&mut self, mut message: Message) -> u32 {
        self.serial += 1;
        message.serial = self.serial;
        match self.unused.pop() {
            Some(index) => {
                self.all[index as usize] = message;
                index
            }
            None => {
                self.all.push(message);
                self.all.len() as u32 - 1
            }
        }
    }

    pub(super) fn forget(&mut self, index: u32) {
        self.all[index as usize].serial = 0;
        self.unused.push(index);
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Message {
        &self.all[index as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Message {
        &mut self.all[index as usize]
    }

    /// How many are on their way.
    pub(super) fn count(&self) -> usize {
        self.all.len() - self.unused.len()
    }

    /// Those that are on their way.
    pub(super) fn live(&self) -> impl Iterator<Item = &Message> {
        self.all.iter().filter(|message| message.serial != 0)
    }
}

impl Message {
    /// A message that nothing is known of but its kind and who issued it.
    pub(super) fn new(kind: OperationKind, initiator: u32, from: u32, to: u32, bytes: u64) -> Message {
        Message {
            kind,
            initiator,
            handle: Handle(0),
            from,
            to,
            bytes,
            tag: 0,
            flag: None,
            gap: Gap::Fixed(Time::ZERO),
            step: 0,
            serial: 0,
            follower: NONE,
            follows: false,
            arrived: false,
            asked: false,
            receive: None,
            record: NONE,
        }
    }
}
