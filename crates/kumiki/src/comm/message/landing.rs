//! Messages that come into memory which a binding to another language vouches for.

use super::handles::{sealed, Ticket};
use super::{Delivery, MessageInfo, MessageRequest, Messages, Tag};
use crate::comm::ends::Room;
use crate::{Error, Rank, Result, World};
use kumiki_mem::Activity;
use std::time::Duration;

/// A message that is waited for, and is written to memory that was given for it as soon as it comes.
///
/// Dropping it gives it up: a message that it has got already is lost. It waits where the message is just being written: that memory is nobody else's before.
#[derive(Debug)]
#[must_use = "a receive that is dropped is given up"]
pub struct MessageLanding<'w> {
    ticket: Option<Ticket<'w>>,
    from: Option<Rank>,
}

impl<'w> Messages<'w> {
    /// Begins to receive a message into memory that the caller vouches for.
    pub(crate) fn start_landing(
        self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<Tag>>,
        room: Box<dyn Room>,
    ) -> Result<MessageLanding<'w>> {
        let (world, selector) = (self.world(), self.selector(from, tag));
        let request = world.note(world.start_landing(selector, room))?;
        Ok(MessageLanding { ticket: Some(Ticket { world, request }), from: selector.source })
    }
}

impl MessageLanding<'_> {
    /// Waits for the message: what it is.
    pub fn wait(mut self) -> Result<MessageInfo> {
        match self.ticket.take() {
            Some(ticket) => end(ticket, self.from),
            None => Err(Error::Misuse("a message that was waited for".into())),
        }
    }

    /// Whether [`wait`](Self::wait) would not wait.
    pub fn is_done(&self) -> bool {
        let done = |ticket: &Ticket<'_>| ticket.world.test_message(ticket.request, self.from);
        self.ticket.as_ref().is_none_or(done)
    }

    /// Gives the receive up: the message that it would have got goes to the next one. If it has got its message already, here it is.
    pub fn cancel(mut self) -> Result<Option<MessageInfo>> {
        match self.ticket.take() {
            Some(ticket) if ticket.world.cancel_message(ticket.request) => {
                std::mem::forget(ticket);
                Ok(None)
            }
            Some(ticket) => end(ticket, self.from).map(Some),
            None => Ok(None),
        }
    }
}

fn end(ticket: Ticket<'_>, from: Option<Rank>) -> Result<MessageInfo> {
    let world = ticket.world;
    let request = ticket.request;
    let delivery = world.wait_message(Activity::Receive, request, from);
    if delivery.is_err() {
        await_fetch(world, request);
    }
    match ticket.end(delivery)? {
        Some(Delivery::Landed { envelope }) => Ok(envelope.into()),
        _ => world.note(Err(Error::Misuse("a message that came somewhere else".into()))),
    }
}

/// Another thread may be fetching it all the same. It fails, too, or is done soon; in a child that this process has forked it is not there.
fn await_fetch(world: &World, request: u64) {
    while !kumiki_mem::is_forked_child() && world.comm().with_post(|post| post.is_under_way(request)) {
        std::thread::sleep(Duration::from_micros(50));
    }
}

impl Drop for MessageLanding<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let (world, request) = (ticket.world, ticket.request);
        // Nothing goes on for it: what has come stays for the next one, if nobody has looked at it.
        drop(ticket);
        await_fetch(world, request);
    }
}

impl sealed::Sealed for MessageLanding<'_> {}

impl MessageRequest for MessageLanding<'_> {
    type Done = MessageInfo;

    fn wait(self) -> Result<MessageInfo> {
        MessageLanding::wait(self)
    }

    fn is_done(&self) -> bool {
        MessageLanding::is_done(self)
    }

    fn name(&self) -> (u64, Option<Rank>) {
        (self.ticket.as_ref().map_or(0, |ticket| ticket.request), self.from)
    }
}
