//! Messages as programs have them.

use super::bytes::Short;
use super::handles::{Fetching, Lending, MessageReceiving, MessageRequest, MessageSending, Ticket};
use super::matching::{Envelope, Selector};
use super::requests::{Begun, Received, Started, To};
use super::ring::{FRAME_BYTES, LARGEST_RING};
use super::{Delivery, Place, EAGER_BYTES};
use crate::{Error, Pod, Rank, Result, World};
use kumiki_mem::Activity;
use std::marker::PhantomData;

/// What a message is told apart by, besides its sender.
pub type Tag = u64;

/// How messages of a pair of ranks are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MessageWay {
    /// In a lane of their own where a pair sends much, otherwise in the mailbox.
    #[default]
    Automatic,
    /// In the mailbox, which all who send to a rank share.
    Mailbox,
    /// In lanes, as far as there may be so many.
    Lane,
}

/// How a rank receives messages: [`Messages::set_options`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageOptions {
    /// How those of each pair are received.
    pub way: MessageWay,
    /// The most senders that have a lane at a time.
    pub fast_pairs: usize,
    /// Bytes of a lane, from 2.5 KiB to 1 MiB. A message of a little less than half of that, but at most 64 KiB on a node and 128 KiB between
    /// nodes, need not be fetched.
    pub lane_bytes: usize,
    /// The most of these senders that have a wide lane instead, because they send many messages of that length: 320 KiB on a node, and
    /// 640 KiB between nodes.
    pub wide_pairs: usize,
    /// A receive that waits for a message which was sent behind others has those kept until they are received: up to so many bytes, then it
    /// fails. (What a few messages of each sender take comes on top.) Long ones that nobody has asked for are fetched within this, too, while this rank waits and
    /// their senders may wait for it: ranks that all send first, and then receive, do not wait for each other for ever.
    pub kept_bytes: usize,
}

impl Default for MessageOptions {
    /// At most 64 lanes of 3 KiB, for those who send much, 4 of them wide, and 16 MiB that are kept for a receive.
    fn default() -> Self {
        MessageOptions {
            way: MessageWay::Automatic,
            fast_pairs: 64,
            lane_bytes: 3072,
            wide_pairs: 4,
            kept_bytes: 16 << 20,
        }
    }
}

/// Messages between any two ranks: from [`World::messages`].
///
/// A message has a tag; a receive names the rank and the tag that it wants, or takes any (`None`). Of the messages of one rank that fit a
/// receive the one that was sent first is received first. Messages that nobody has asked for yet are kept, a few of each sender; the
/// others wait at their senders.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let (me, ranks) = (world.rank(), world.ranks());
/// let messages = world.messages();
/// // Everybody sends to the next, and does not know who sends to it.
/// let sending = messages.start_send((me + 1) % ranks, 7, vec![f64::from(me); 1000])?;
/// let message = messages.receive::<f64>(None, 7)?;
/// assert_eq!(message.from, (me + ranks - 1) % ranks);
/// assert_eq!(message.elements, vec![f64::from(message.from); 1000]);
/// sending.wait()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Messages<'w> {
    world: &'w World,
    context: u32,
}

/// What is known of a message before it is received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageInfo {
    /// Who sent it.
    pub from: Rank,
    /// Its tag.
    pub tag: Tag,
    /// Its bytes.
    pub bytes: usize,
}

impl From<Envelope> for MessageInfo {
    fn from(envelope: Envelope) -> Self {
        MessageInfo { from: envelope.source, tag: envelope.tag, bytes: envelope.bytes as usize }
    }
}

/// What came of waiting for a message.
pub(super) enum Told<'w, R> {
    Read(R),
    /// It lies there until the guard is dropped.
    Lies(Place, Fetching<'w>),
}

/// A message that was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<T> {
    /// Who sent it.
    pub from: Rank,
    /// Its tag.
    pub tag: Tag,
    /// What is in it.
    pub elements: Vec<T>,
}

impl World {
    /// Messages between any two ranks. See [`Messages`].
    pub fn messages(&self) -> Messages<'_> {
        Messages { world: self, context: 0 }
    }
}

impl<'w> Messages<'w> {
    /// Messages that are never received where others are waited for: those of a library, say, of messages of its program. The number
    /// is the same on all ranks.
    #[must_use]
    pub fn context(self, context: u32) -> Messages<'w> {
        Messages { context, ..self }
    }

    /// Says how this rank receives messages from now on. Lanes that there are stay.
    pub fn set_options(self, options: MessageOptions) -> Result<()> {
        let least = FRAME_BYTES as usize + 2 * (EAGER_BYTES as usize + 48);
        let lane_bytes = options.lane_bytes & !7;
        if !(least..=LARGEST_RING as usize).contains(&lane_bytes) {
            let wrong = format!("lanes of {lane_bytes} bytes: they have {least} to {LARGEST_RING}");
            return self.world.note(Err(Error::Misuse(wrong)));
        }
        self.world.set_message_options(MessageOptions { lane_bytes, ..options });
        Ok(())
    }

    pub(super) fn world(self) -> &'w World {
        self.world
    }

    pub(super) fn to(self, rank: Rank, tag: Tag) -> To {
        To { rank, context: self.context, tag }
    }

    pub(super) fn selector(self, from: impl Into<Option<Rank>>, tag: impl Into<Option<Tag>>) -> Selector {
        Selector { context: self.context, source: from.into(), tag: tag.into() }
    }

    /// Sends a message. When this returns the slice is free: a short message is on its way, a long one was received, or taken in by a receiver that
    /// waits for something else.
    pub fn send<T: Pod>(self, to: Rank, tag: Tag, message: &[T]) -> Result<()> {
        let (world, to) = (self.world, self.to(to, tag));
        let bytes: &[u8] = bytemuck::cast_slice(message);
        let mut started = world.note(world.start_short(to, bytes, true))?;
        if matches!(started, Started::Full) {
            if world.note(world.send_into_lane(to, bytes))? {
                return Ok(());
            }
            started = world.note(world.start_short(to, bytes, false))?;
        }
        match started {
            Started::Gone | Started::Full => Ok(()),
            Started::Waits(request) => {
                let ticket = Ticket { world, request };
                let sent = world.wait_message(Activity::Send, request, Some(to.rank));
                ticket.end(sent).map(drop)
            }
            Started::TooLong => world.memory.lend_to_read(bytes, |lent| {
                let request =
                    world.note(world.start_lent(to, lent.ptr().into(), bytes.len() as u64, None))?;
                let _end = Lending { world, request, to: to.rank };
                world.note(world.wait_message(Activity::Send, request, Some(to.rank)).map(drop))
            })?,
        }
    }

    /// Begins to send a message, without waiting. A long one stays where it is until the receiver has fetched it.
    pub fn start_send<T: Pod>(
        self,
        to: Rank,
        tag: Tag,
        message: impl Into<Vec<T>>,
    ) -> Result<MessageSending<'w>> {
        let (world, to) = (self.world, self.to(to, tag));
        let message: Vec<T> = message.into();
        let request = match world.note(world.start_short(to, bytemuck::cast_slice(&message), false))? {
            Started::Gone | Started::Full => None,
            Started::Waits(request) => Some(request),
            Started::TooLong => {
                let bytes = size_of_val(&message[..]) as u64;
                let memory = world.register(message)?;
                let place = memory.ptr().into();
                Some(world.note(world.start_lent(to, place, bytes, Some(Box::new(memory))))?)
            }
        };
        let ticket = request.map(|request| Ticket { world, request });
        Ok(MessageSending { ticket, to: to.rank })
    }

    /// Waits for a message of a rank, or of any, with a tag, or any.
    pub fn receive<T: Pod>(
        self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<Tag>>,
    ) -> Result<Message<T>> {
        let receive = |envelope: Envelope, place: Place| {
            self.world.memory.get_vec_awaited(place.ptr::<T>(), count_of::<T>(envelope)? as u64)
        };
        let selector = self.selector(from, tag);
        let (envelope, elements) = self.world.note(self.receive_directly(selector, elements_of, receive))?;
        Ok(Message { from: envelope.source, tag: envelope.tag, elements })
    }

    /// The same, into memory of the program. A message for which there is not enough is lost, and an error.
    pub fn receive_into<T: Pod>(
        self,
        into: &mut [T],
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<Tag>>,
    ) -> Result<MessageInfo> {
        let into = std::cell::RefCell::new(bytemuck::cast_slice_mut::<T, u8>(into));
        let room = |envelope: Envelope| {
            let (bytes, room) = (envelope.bytes as usize, into.borrow().len());
            match bytes <= room {
                true => Ok(bytes),
                false => Err(Error::Misuse(format!("a message of {bytes} bytes, and room for {room}"))),
            }
        };
        let short = |envelope, message: Short<'_>| {
            let length = room(envelope)?;
            message.copy_to(&mut into.borrow_mut()[..length])
        };
        let long = |envelope, place: Place| {
            let bytes = room(envelope)?;
            self.world.memory.get_awaited(place.ptr(), &mut into.borrow_mut()[..bytes])
        };
        let (envelope, ()) = self.world.note(self.receive_directly(self.selector(from, tag), short, long))?;
        Ok(envelope.into())
    }

    /// Waits for a message, and has it read by this thread.
    fn receive_directly<R>(
        self,
        selector: Selector,
        short: impl Fn(Envelope, Short<'_>) -> Result<R>,
        long: impl FnOnce(Envelope, Place) -> Result<R>,
    ) -> Result<(Envelope, R)> {
        let (envelope, told) = self.receive_or_be_told(selector, short)?;
        match told {
            Told::Read(read) => Ok((envelope, read)),
            Told::Lies(place, _fetching) => Ok((envelope, long(envelope, place)?)),
        }
    }

    /// Waits for a message, and has a short one read by this thread; of a long one it is said where it lies.
    pub(super) fn receive_or_be_told<R>(
        self,
        selector: Selector,
        short: impl Fn(Envelope, Short<'_>) -> Result<R>,
    ) -> Result<(Envelope, Told<'w, R>)> {
        let world = self.world;
        let received = match world.receive_now(selector, &short)? {
            Begun::Done(received) => received,
            Begun::Waits(request) => {
                let ticket = Ticket { world, request };
                let received = world.wait_received(selector, request, &short);
                ticket.end(received)
            }
        };
        let delivery = match received? {
            Received::Read((envelope, read)) => return Ok((envelope, Told::Read(read?))),
            Received::Delivered(delivery) => delivery,
        };
        match delivery {
            Some(Delivery::Here { envelope, bytes }) => {
                let read = short(envelope, Short::Taken(bytes.as_slice()));
                world.reuse_buffer(bytes);
                Ok((envelope, Told::Read(read?)))
            }
            Some(Delivery::Lent { envelope, place, number }) => {
                Ok((envelope, Told::Lies(place, Fetching { world, source: envelope.source, number })))
            }
            Some(Delivery::Landed { .. }) | None => {
                Err(Error::Misuse("a receive that was something else".into()))
            }
        }
    }

    /// Begins to receive a message: the first that fits, and that nobody waits for yet.
    pub fn start_receive<T: Pod>(
        self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<Tag>>,
    ) -> Result<MessageReceiving<'w, T>> {
        let selector = self.selector(from, tag);
        let request = self.world.note(self.world.start_receiving(selector))?;
        let ticket = Ticket { world: self.world, request };
        Ok(MessageReceiving { ticket, from: selector.source, element: PhantomData })
    }

    /// Waits until a message that fits has come, and leaves it where it is.
    pub fn probe(self, from: impl Into<Option<Rank>>, tag: impl Into<Option<Tag>>) -> Result<MessageInfo> {
        self.world.note(self.world.wait_probe(self.selector(from, tag))).map(MessageInfo::from)
    }

    /// The first message that fits, if one has come.
    pub fn try_probe(
        self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<Tag>>,
    ) -> Result<Option<MessageInfo>> {
        let found = self.world.note(self.world.probe_now(self.selector(from, tag)))?;
        Ok(found.map(MessageInfo::from))
    }

    /// Waits until one of several requests is done, or has failed: which one.
    pub fn wait_any<R: MessageRequest>(self, requests: &[R]) -> Result<usize> {
        let names: Vec<_> = requests.iter().map(MessageRequest::name).collect();
        self.world.wait_any_named(&names)
    }

    /// Waits until all of them are done, and gives what became of them, in their order.
    pub fn wait_all<R: MessageRequest>(self, requests: impl IntoIterator<Item = R>) -> Result<Vec<R::Done>> {
        requests.into_iter().map(MessageRequest::wait).collect()
    }
}

/// How many elements a message has.
fn count_of<T: Pod>(envelope: Envelope) -> Result<usize> {
    let (bytes, element) = (envelope.bytes, size_of::<T>() as u64);
    match element == 0 && bytes == 0 || element > 0 && bytes.is_multiple_of(element) {
        true => Ok((bytes / element.max(1)) as usize),
        false => {
            let name = std::any::type_name::<T>();
            Err(Error::Misuse(format!("a message of {bytes} bytes is no number of {name}")))
        }
    }
}

pub(super) fn elements_of<T: Pod>(envelope: Envelope, message: Short<'_>) -> Result<Vec<T>> {
    let mut elements = vec![T::zeroed(); count_of::<T>(envelope)?];
    message.copy_to(bytemuck::cast_slice_mut::<T, u8>(&mut elements))?;
    Ok(elements)
}
