//! What bindings to other languages need: messages out of memory that they vouch for, and waiting for requests of any kind.

use super::handles::Ticket;
use super::requests::Started;
use super::{MessageRequest, MessageSending, Messages, Tag};
use crate::{Rank, Result, World};
use kumiki_mem::Vouched;

/// What a request is known by, and whose message it is about.
pub(crate) type Name = (u64, Option<Rank>);

impl<'w> Messages<'w> {
    /// Begins to send a message. A short one is copied; the memory of a long one is vouched for, until the receiver has fetched it.
    pub(crate) fn start_send_vouched(
        self,
        to: Rank,
        tag: Tag,
        message: &[u8],
        vouch: impl FnOnce() -> Result<Vouched>,
    ) -> Result<MessageSending<'w>> {
        let (world, to) = (self.world(), self.to(to, tag));
        let request = match world.note(world.start_short(to, message, false))? {
            Started::Gone | Started::Full => None,
            Started::Waits(request) => Some(request),
            Started::TooLong => {
                let memory = vouch()?;
                let (place, bytes) = (memory.ptr().into(), memory.len() as u64);
                Some(world.note(world.start_lent(to, place, bytes, Some(Box::new(memory))))?)
            }
        };
        let ticket = request.map(|request| Ticket { world, request });
        Ok(MessageSending { ticket, to: to.rank })
    }
}

impl World {
    /// Waits until a message is on its way. Whatever became of it, nobody reads its memory afterwards.
    pub(crate) fn end_sending(&self, sending: MessageSending<'_>) -> Result<()> {
        let (request, to) = (MessageRequest::name(&sending).0, sending.to);
        let waited = sending.wait();
        self.end_lent(to, request);
        waited
    }

    /// Gives up a message that is being sent: nobody reads its memory afterwards.
    pub(crate) fn abandon_sending(&self, sending: MessageSending<'_>) {
        let (request, to) = (MessageRequest::name(&sending).0, sending.to);
        // A short one goes on all the same.
        drop(sending);
        self.end_lent(to, request);
    }

    /// Of a short one, which has no memory of the program, nothing is to be ended.
    fn end_lent(&self, to: Rank, request: u64) {
        if request != 0 && self.comm().with_post(|post| post.is_lent(request)) {
            self.end_lending(to, request);
        }
    }

    /// Waits until one of several requests is done, or has failed: which one.
    pub(crate) fn wait_any_named(&self, names: &[Name]) -> Result<usize> {
        match names.iter().position(|(request, _)| *request == 0) {
            Some(done) => Ok(done),
            None => self.wait_any_message(names),
        }
    }
}
