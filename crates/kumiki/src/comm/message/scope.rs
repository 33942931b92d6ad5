//! Messages out of memory that is borrowed, and into such: many at a time, without a copy.

use super::{MessageLanding, MessageSending, Messages, Tag};
use crate::comm::ends::Room;
use crate::{Error, Pod, Rank, Result};
use kumiki_mem::Loan;
use std::cell::RefCell;

/// Where messages out of borrowed memory, and into such, are begun; from [`Messages::scope`].
pub struct MessageScope<'a, 'env> {
    messages: Messages<'a>,
    memory: &'a kumiki_mem::Scope<'a, 'env>,
    /// The ranks of those who are named.
    ranks: Box<dyn Fn(Rank) -> Result<Rank> + 'a>,
    begun: RefCell<Vec<Begun<'a>>>,
}

enum Begun<'a> {
    Sending(MessageSending<'a>),
    /// A message of so many bytes.
    Receiving(MessageLanding<'a>, usize),
}

impl std::fmt::Debug for MessageScope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MessageScope({} begun)", self.begun.borrow().len())
    }
}

impl Room for Loan {
    fn bytes(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl<'w> Messages<'w> {
    /// Runs `work`, which begins to send and to receive messages, in any order; and waits until all of them are done. Long ones are read from where they
    /// are, and all are written to where they belong. If `work` fails or panics, what was begun is given up: what is short was sent all the same, a long one comes
    /// nowhere, or makes the receive fail that it is for; and what has come already is lost.
    ///
    /// ```
    /// use kumiki::prelude::*;
    ///
    /// fn main() -> kumiki::Result<()> {
    ///     let world = World::init()?;
    ///     let (next, before) = ((world.rank() + 1) % world.ranks(), (world.rank() + world.ranks() - 1) % world.ranks());
    ///     let (mine, mut theirs) = (vec![world.rank(); 1 << 20], vec![0; 1 << 20]);
    ///     world.messages().scope(|scope| {
    ///         scope.receive_into(&mut theirs, before, 7)?;
    ///         scope.send(next, 7, &mine)
    ///     })?;
    ///     assert!(theirs.iter().all(|rank| *rank == before));
    ///     world.finalize()
    /// }
    /// ```
    pub fn scope<'env, R>(self, work: impl FnOnce(&MessageScope<'_, 'env>) -> Result<R>) -> Result<R>
    where
        'w: 'env,
    {
        self.scope_of(Ok, work)
    }

    /// The same, of those who are named otherwise.
    pub(crate) fn scope_of<'env, R>(
        self,
        ranks: impl Fn(Rank) -> Result<Rank> + 'env,
        work: impl FnOnce(&MessageScope<'_, 'env>) -> Result<R>,
    ) -> Result<R>
    where
        'w: 'env,
    {
        self.world().memory.scope(|memory| {
            let ranks = Box::new(ranks);
            let scope = MessageScope { messages: self, memory, ranks, begun: RefCell::default() };
            let value = work(&scope)?;
            scope.wait()?;
            Ok(value)
        })
    }
}

impl<'env> MessageScope<'_, 'env> {
    /// Begins to send a message.
    pub fn send<T: Pod>(&self, to: Rank, tag: Tag, message: &'env [T]) -> Result<()> {
        let bytes: &'env [u8] = bytemuck::cast_slice(message);
        let to = (self.ranks)(to)?;
        let sending = self.messages.start_send_vouched(to, tag, bytes, || self.memory.lend_to_read(bytes))?;
        if !sending.is_gone() {
            self.begun.borrow_mut().push(Begun::Sending(sending));
        }
        Ok(())
    }

    /// Begins to receive a message of a rank, or of any, with a tag, or any. It must have as many bytes as there is memory for it.
    pub fn receive_into<T: Pod>(
        &self,
        into: &'env mut [T],
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<Tag>>,
    ) -> Result<()> {
        let into: &'env mut [u8] = bytemuck::cast_slice_mut(into);
        let bytes = into.len();
        let from = from.into().map(&self.ranks).transpose()?;
        let room = Box::new(self.memory.lend_to_write(into));
        let landing = self.messages.start_landing(from, tag, room)?;
        self.begun.borrow_mut().push(Begun::Receiving(landing, bytes));
        Ok(())
    }

    /// Waits for all that was begun; tells the first failure.
    fn wait(&self) -> Result<()> {
        let world = self.messages.world();
        self.begun.borrow_mut().reverse();
        // One by one: what is not waited for because of a panic is given up.
        let next = || self.begun.borrow_mut().pop();
        let ends = std::iter::from_fn(next).map(|begun| match begun {
            Begun::Sending(sending) => world.end_sending(sending),
            Begun::Receiving(landing, room) => landing.wait().and_then(|came| match came.bytes == room {
                true => Ok(()),
                false => {
                    let (bytes, tag) = (came.bytes, came.tag);
                    let wrong =
                        format!("a message with the tag {tag} of {bytes} bytes, and memory for {room}");
                    world.note(Err(Error::Misuse(wrong)))
                }
            }),
        });
        ends.fold(Ok(()), Result::and)
    }
}

impl Drop for MessageScope<'_, '_> {
    fn drop(&mut self) {
        for begun in self.begun.take() {
            match begun {
                Begun::Sending(sending) => self.messages.world().abandon_sending(sending),
                Begun::Receiving(landing, _) => drop(landing),
            }
        }
    }
}
