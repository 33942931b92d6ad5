//! Messages that are under way, as programs have them.

use super::bytes::Short;
use super::messages::elements_of;
use super::{Delivery, Message};
use crate::{Error, Pod, Rank, Result, World};
use kumiki_mem::Activity;
use std::marker::PhantomData;

/// A request that is forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct Ticket<'w> {
    pub(super) world: &'w World,
    pub(super) request: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.world.forget_message(self.request);
    }
}

/// Memory of the program that is lent until this is dropped.
pub(super) struct Lending<'w> {
    pub(super) world: &'w World,
    pub(super) request: u64,
    pub(super) to: Rank,
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        self.world.end_lending(self.to, self.request);
    }
}

/// A message that is being fetched: its sender is told when this is dropped.
pub(super) struct Fetching<'w> {
    pub(super) world: &'w World,
    pub(super) source: Rank,
    pub(super) number: u64,
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.world.message_fetched(self.source, self.number);
    }
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// A message that is being sent or received.
pub trait MessageRequest: sealed::Sealed {
    /// What becomes of it.
    type Done;

    /// Waits until it is done.
    fn wait(self) -> Result<Self::Done>;

    /// Whether [`wait`](Self::wait) would not wait.
    fn is_done(&self) -> bool;

    #[doc(hidden)]
    fn name(&self) -> (u64, Option<Rank>);
}

/// A message that is being sent. Dropping it forgets about it: it goes on all the same.
#[derive(Debug)]
#[must_use = "the message may still be on its way: wait for it"]
pub struct MessageSending<'w> {
    /// None if it is on its way.
    pub(super) ticket: Option<Ticket<'w>>,
    pub(super) to: Rank,
}

/// A message that is waited for. Dropping it gives it up: a message that it has got already is lost.
#[derive(Debug)]
#[must_use = "a receive that is dropped is given up"]
pub struct MessageReceiving<'w, T: Pod> {
    pub(super) ticket: Ticket<'w>,
    pub(super) from: Option<Rank>,
    pub(super) element: PhantomData<fn() -> T>,
}

impl MessageSending<'_> {
    /// Waits until the message is on its way, and its memory free.
    pub fn wait(self) -> Result<()> {
        let Some(ticket) = self.ticket else { return Ok(()) };
        let sent = ticket.world.wait_message(Activity::Send, ticket.request, Some(self.to));
        ticket.end(sent).map(drop)
    }

    /// Whether [`wait`](Self::wait) would not wait.
    pub fn is_done(&self) -> bool {
        let waits = |ticket: &Ticket<'_>| ticket.world.test_message(ticket.request, Some(self.to));
        self.ticket.as_ref().is_none_or(waits)
    }

    /// Whether it was on its way at once.
    pub(super) fn is_gone(&self) -> bool {
        self.ticket.is_none()
    }

    /// To whom it goes, and its request; none if it is on its way.
    pub(crate) fn whither(&self) -> Option<(Rank, Option<u64>)> {
        self.ticket.as_ref().map(|ticket| (self.to, Some(ticket.request)))
    }
}

impl Ticket<'_> {
    /// It was asked for, and is not to be forgotten.
    pub(super) fn end<T>(self, result: Result<T>) -> Result<T> {
        let world = self.world;
        std::mem::forget(self);
        world.note(result)
    }
}

impl<T: Pod> MessageReceiving<'_, T> {
    /// Waits for the message.
    pub fn wait(self) -> Result<Message<T>> {
        let (world, ticket) = (self.ticket.world, self.ticket);
        let delivery = world.wait_message(Activity::Receive, ticket.request, self.from);
        match ticket.end(delivery)? {
            Some(Delivery::Here { envelope, bytes }) => {
                let elements = world.note(elements_of(envelope, Short::Taken(bytes.as_slice())));
                world.reuse_buffer(bytes);
                Ok(Message { from: envelope.source, tag: envelope.tag, elements: elements? })
            }
            _ => world.note(Err(Error::Misuse("a message that nobody has fetched".into()))),
        }
    }

    /// Whether [`wait`](Self::wait) would not wait.
    pub fn is_done(&self) -> bool {
        self.ticket.world.test_message(self.ticket.request, self.from)
    }

    /// Takes the message, whenever it comes, and throws it away. An empty one says that none comes for the receives of its source and tag that were
    /// thrown away before.
    pub(crate) fn throw_away(self) {
        self.ticket.world.throw_message_away(self.ticket.request);
        std::mem::forget(self.ticket);
    }

    /// Gives the receive up: the message that it would have got goes to the next one. If it has got its message already, here it is.
    pub fn cancel(self) -> Result<Option<Message<T>>> {
        match self.ticket.world.cancel_message(self.ticket.request) {
            true => {
                std::mem::forget(self.ticket);
                Ok(None)
            }
            false => self.wait().map(Some),
        }
    }
}

impl sealed::Sealed for MessageSending<'_> {}
impl<T: Pod> sealed::Sealed for MessageReceiving<'_, T> {}

impl MessageRequest for MessageSending<'_> {
    type Done = ();

    fn wait(self) -> Result<()> {
        MessageSending::wait(self)
    }

    fn is_done(&self) -> bool {
        MessageSending::is_done(self)
    }

    fn name(&self) -> (u64, Option<Rank>) {
        (self.ticket.as_ref().map_or(0, |ticket| ticket.request), Some(self.to))
    }
}

impl<T: Pod> MessageRequest for MessageReceiving<'_, T> {
    type Done = Message<T>;

    fn wait(self) -> Result<Message<T>> {
        MessageReceiving::wait(self)
    }

    fn is_done(&self) -> bool {
        MessageReceiving::is_done(self)
    }

    fn name(&self) -> (u64, Option<Rank>) {
        (self.ticket.request, self.from)
    }
}
