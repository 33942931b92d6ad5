//! Long messages that are packed into memory which all ranks can address, and unpacked from where they lie: so do arrays.

use super::bytes::Short;
use super::handles::{Fetching, MessageSending, Ticket};
use super::matching::Envelope;
use super::messages::Told;
use super::requests::Started;
use super::{Messages, Tag};
use crate::{GlobalPtr, Rank, Result, World};
use kumiki_mem::Span;
use std::any::Any;
use std::cell::RefCell;

/// A message of so many bytes is tried to be sent as it is.
pub(crate) const SHORT_BYTES: usize = 8 << 10;

/// A message that has come.
pub(crate) enum Came<'w> {
    /// It was short: so many bytes of the memory that was given are it.
    Here(usize),
    /// It was not so short, and came through a wide lane.
    Whole(Vec<u8>),
    Lies(Lying<'w>),
}

/// A message that lies where its sender has it. The sender is told when this is dropped.
pub(crate) struct Lying<'w> {
    memory: GlobalPtr<u8>,
    bytes: u64,
    fetching: Fetching<'w>,
}

impl<'w> Lying<'w> {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn ptr(&self) -> GlobalPtr<u8> {
        self.memory
    }

    /// The memory, if this process can touch it.
    pub(crate) fn span(&self) -> Option<Span<'w>> {
        let world: &'w World = self.fetching.world;
        world.local().span(self.memory.address(), self.bytes).ok()
    }
}

impl<'w> Messages<'w> {
    /// Begins to send a message if it is short enough to go as it is.
    pub(crate) fn start_short(self, to: Rank, tag: Tag, bytes: &[u8]) -> Result<Option<MessageSending<'w>>> {
        let (world, to) = (self.world(), self.to(to, tag));
        let ticket = match world.note(world.start_short(to, bytes, false))? {
            Started::TooLong => return Ok(None),
            Started::Gone | Started::Full => None,
            Started::Waits(request) => Some(Ticket { world, request }),
        };
        Ok(Some(MessageSending { ticket, to: to.rank }))
    }

    /// Begins to send a message that lies in memory which the receiver can address. What keeps that memory is dropped when the receiver has it.
    pub(crate) fn start_lend(
        self,
        to: Rank,
        tag: Tag,
        (memory, bytes): (GlobalPtr<u8>, u64),
        keeper: Box<dyn Any + Send>,
    ) -> Result<MessageSending<'w>> {
        let (world, to) = (self.world(), self.to(to, tag));
        let request = world.note(world.start_lent(to, memory.into(), bytes, Some(keeper)))?;
        Ok(MessageSending { ticket: Some(Ticket { world, request }), to: to.rank })
    }

    /// Waits for a message. A short one is copied to the memory that is given for it, and a long one stays where it lies.
    pub(crate) fn receive_lying(self, from: Rank, tag: Tag, room: &mut [u8]) -> Result<Came<'w>> {
        let world = self.world();
        let room = RefCell::new(room);
        let short = |envelope: Envelope, message: Short<'_>| {
            let (mut room, bytes) = (room.borrow_mut(), envelope.bytes as usize);
            match room.get_mut(..bytes) {
                Some(place) => message.copy_to(place).map(|()| Came::Here(bytes)),
                None => {
                    let mut whole = vec![0; bytes];
                    message.copy_to(&mut whole).map(|()| Came::Whole(whole))
                }
            }
        };
        let (envelope, told) = world.note(self.receive_or_be_told(self.selector(from, tag), short))?;
        Ok(match told {
            Told::Read(came) => came,
            Told::Lies(place, fetching) => {
                Came::Lies(Lying { memory: place.ptr(), bytes: envelope.bytes, fetching })
            }
        })
    }
}
