//! Channels as programs have them: typed, one end each.

use super::ends::{Load, Now};
use super::state::{ChannelEnd, Request};
use crate::{Error, Pod, Rank, Result, Wait, World};
use kumiki_mem::{Activity, Vouched};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Messages of so many bytes and more are not copied into the channel: the receiver reads them where they are.
const FETCHED_BYTES: usize = 32 << 10;

/// The slots of a channel: how much of what was sent and not received it has room for. They lie in the memory of the rank that receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Slots {
    count: usize,
    bytes: usize,
}

impl Slots {
    /// So many slots of so many bytes each; they have 16 at least.
    pub const fn new(count: usize, bytes: usize) -> Slots {
        Slots { count, bytes: if bytes < 16 { 16 } else { bytes } }
    }
}

impl Default for Slots {
    /// 16 slots of 1 KiB.
    fn default() -> Slots {
        Slots::new(16, 1024)
    }
}

/// The end of a channel that sends: from [`World::sender`].
///
/// A channel goes from one rank to one other (or to itself), and delivers messages in the order in which they were sent. Both ends are
/// made, without waiting, by their ranks: the first sender that a rank makes towards another meets the first receiver that the other has
/// made for it, and so on.
///
/// A message that is longer than a slot goes in pieces, so that memory is bounded by the slots; one of 32 KiB or more that was
/// [handed over](Self::start_send) is read by the receiver where it lies. Waiting for a channel makes all channels of the process go on.
///
/// ```
/// use kumiki::comm::Slots;
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let (next, last) = ((world.rank() + 1) % world.ranks(), (world.rank() + world.ranks() - 1) % world.ranks());
/// let right = world.sender::<f64>(next)?;
/// let left = world.receiver::<f64>(last, Slots::default())?;
/// right.send(&[world.rank().into(), 0.5])?;
/// assert_eq!(left.receive()?, [last.into(), 0.5]);
/// right.start_free()?;
/// left.free()?;
/// # world.finalize()
/// # }
/// ```
///
/// A sender that is dropped without being freed leaves its channel open until the world ends.
#[derive(Debug)]
pub struct Sender<'w, T: Pod> {
    world: &'w World,
    end: ChannelEnd,
    element: PhantomData<fn(T)>,
}

/// The end of a channel that receives: from [`World::receiver`]. See [`Sender`].
#[derive(Debug)]
pub struct Receiver<'w, T: Pod> {
    world: &'w World,
    end: ChannelEnd,
    from: Rank,
    element: PhantomData<fn() -> T>,
}

/// A message that is being sent, or a sender that is being freed. Dropping it forgets about it: it goes on all the same.
#[derive(Debug)]
#[must_use = "the message may still be on its way: wait for it"]
pub struct Sending<'w>(Ticket<'w>);

/// A message that is waited for.
#[derive(Debug)]
#[must_use = "a message that nobody takes holds up those behind it"]
pub struct Receiving<'w, T: Pod> {
    ticket: Ticket<'w>,
    element: PhantomData<fn() -> T>,
}

/// A request that is forgotten when this is dropped.
#[derive(Debug)]
struct Ticket<'w> {
    world: &'w World,
    request: Request,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.world.forget_request(self.request);
    }
}

impl Ticket<'_> {
    fn wait(self) -> Result<Vec<u8>> {
        let (world, request) = (self.world, self.request);
        // It is asked for now, and not to be forgotten.
        std::mem::forget(self);
        world.wait_request(request).map(|received| received.message)
    }
}

impl World {
    /// Makes the end of a channel that sends elements to a rank. It does not wait for the other end. See [`Sender`].
    pub fn sender<T: Pod>(&self, to: Rank) -> Result<Sender<'_, T>> {
        let end = self.open_sender(to)?;
        Ok(Sender { world: self, end, element: PhantomData })
    }

    /// Makes the end of a channel that receives elements from a rank, with these slots. It does not wait for the other end. See
    /// [`Sender`].
    pub fn receiver<T: Pod>(&self, from: Rank, slots: Slots) -> Result<Receiver<'_, T>> {
        let end = self.open_receiver(from, slots.count, slots.bytes)?;
        Ok(Receiver { world: self, end, from, element: PhantomData })
    }
}

impl<'w, T: Pod> Sender<'w, T> {
    /// Sends a message. When this returns the elements are on their way, and the slice is free: it waits only while there is no room for it
    /// in the slots. One of 32 KiB or more that finds none is read by the receiver where it lies.
    pub fn send(&self, message: &[T]) -> Result<()> {
        let (world, bytes) = (self.world, bytemuck::cast_slice::<T, u8>(message));
        if bytes.len() < FETCHED_BYTES {
            return match world.send_now(self.end, bytes)? {
                Some(request) => world.wait_request(request).map(drop),
                None => Ok(()),
            };
        }
        if world.send_if_room(self.end, bytes)? {
            return Ok(());
        }
        world.memory.lend_to_read(bytes, |lent| {
            let request = world.start_send_from(self.end, lent.ptr().address(), bytes.len())?;
            world.wait_request(request).map(drop)
        })?
    }

    /// Begins to send a message, without waiting. A long one stays where it is until the receiver has read it.
    pub fn start_send(&self, message: impl Into<Vec<T>>) -> Result<Sending<'w>> {
        let message: Vec<T> = message.into();
        let bytes: &[u8] = bytemuck::cast_slice(&message);
        let request = if bytes.len() < FETCHED_BYTES {
            self.world.start_send(self.end, bytes)?
        } else {
            let memory = self.world.register(bytes.to_vec())?;
            let (address, length) = (memory.ptr().address(), bytes.len() as u64);
            let load = Load::Memory(address, length, Some(Box::new(memory)));
            self.world.note(self.world.begin_send(self.end, load))?
        };
        Ok(Sending(Ticket { world: self.world, request }))
    }

    /// Begins to send a message of a binding. A short one is copied; the memory of a long one is vouched for, until the receiver has read it.
    pub(crate) fn start_send_vouched(
        &self,
        message: &[u8],
        vouch: impl FnOnce() -> Result<Vouched>,
    ) -> Result<Sending<'w>> {
        let request = if message.len() < FETCHED_BYTES {
            self.world.start_send(self.end, message)?
        } else {
            let memory = vouch()?;
            let (address, length) = (memory.ptr().address(), memory.len() as u64);
            let load = Load::Memory(address, length, Some(Box::new(memory)));
            self.world.note(self.world.begin_send(self.end, load))?
        };
        Ok(Sending(Ticket { world: self.world, request }))
    }

    /// Begins to free the channel, behind everything that was sent.
    pub fn start_free(self) -> Result<Sending<'w>> {
        let request = self.world.start_free(self.end)?;
        Ok(Sending(Ticket { world: self.world, request }))
    }

    /// Frees the channel: returns when everything that was sent is with the receiver, which need not have taken it.
    pub fn free(self) -> Result<()> {
        self.start_free()?.wait()
    }
}

impl Sending<'_> {
    /// Waits until the message is on its way, and its memory free.
    pub fn wait(self) -> Result<()> {
        self.0.wait().map(drop)
    }

    /// Whether [`wait`](Self::wait) would not wait.
    pub fn is_done(&self) -> bool {
        self.0.world.test_request(self.0.request)
    }
}

impl<'w, T: Pod> Receiver<'w, T> {
    /// Waits for the next message.
    pub fn receive(&self) -> Result<Vec<T>> {
        self.start_receive()?.wait()
    }

    /// Waits for the next message, and takes it into memory that is there: how many elements it has. Of one that is longer than the memory
    /// the rest is dropped, and that is an error.
    pub fn receive_into(&self, into: &mut [T]) -> Result<usize> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        let now = match self.world.note(self.world.take_now(self.end, bytes, true))? {
            Now::Nothing => self.wait_into(bytes)?,
            now => now,
        };
        let length = match now {
            Now::Taken(whole) => whole as usize,
            Now::Fetch(place, whole) => {
                let length = bytes.len().min(whole as usize);
                self.world.fetch_alone(self.end, place, &mut bytes[..length])?;
                whole as usize
            }
            Now::Nothing | Now::Otherwise => self.receive_pieces(bytes)?,
        };
        let elements = length / size_of::<T>().max(1);
        match length <= bytes.len() && elements * size_of::<T>() == length {
            true => Ok(elements),
            false => {
                let (room, name) = (bytes.len(), std::any::type_name::<T>());
                let wrong = format!("a message of {length} bytes for {room} bytes of {name}");
                self.world.note(Err(Error::Misuse(wrong)))
            }
        }
    }

    /// Waits for a message, and takes it if it is there in one piece.
    fn wait_into(&self, into: &mut [u8]) -> Result<Now> {
        let (world, end, place) = (self.world, self.end, RefCell::new(into));
        let look = |is_quick| match world.take_now(end, &mut place.borrow_mut(), is_quick) {
            Ok(Now::Nothing) if is_quick || !world.has_to_fetch() => None,
            taken => Some(taken),
        };
        loop {
            match world
                .memory
                .wait_for_quick_or_whole(look, Wait::FOREVER.from(self.from).doing(Activity::Channel))?
            {
                // Something else is to be fetched first: its sender waits for that.
                Now::Nothing => drop(world.look_after_channels()),
                now => return Ok(now),
            }
        }
    }

    /// Takes a message that comes in several pieces: how many bytes it has.
    fn receive_pieces(&self, into: &mut [u8]) -> Result<usize> {
        let request = self.world.start_receive(self.end, None)?;
        let message = self.world.wait_request(request)?.message;
        let length = into.len().min(message.len());
        into[..length].copy_from_slice(&message[..length]);
        Ok(message.len())
    }

    /// As [`receive`](Self::receive), if the beginning of a message comes within this time. After [`Timeout`](Error::Timeout) the message, when
    /// it comes, is the next one.
    pub fn receive_for(&self, limit: Duration) -> Result<Vec<T>> {
        let (world, end) = (self.world, self.end);
        let until = Instant::now() + limit;
        let look = || match world.has_mail(end) {
            Ok(false) if !world.has_to_fetch() => None,
            found => Some(found),
        };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match world.wait_for(look, Wait::at_most(left).from(self.from).doing(Activity::Channel))? {
                true => return self.receive(),
                // Something else is to be fetched first: its sender waits for that.
                false => drop(world.look_after_channels()),
            }
        }
    }

    /// Whether the beginning of a message is there; also if none can come any more, because the sender was freed or is lost: then receiving
    /// fails at once, and says so.
    pub fn has_mail(&self) -> Result<bool> {
        self.world.note(self.world.has_mail(self.end))
    }

    /// Begins to receive a message: the next that nobody waits for yet.
    pub fn start_receive(&self) -> Result<Receiving<'w, T>> {
        let request = self.world.start_receive(self.end, None)?;
        Ok(Receiving { ticket: Ticket { world: self.world, request }, element: PhantomData })
    }

    /// Frees the channel: returns when the sender has freed it too. What was sent and is not received is dropped.
    pub fn free(self) -> Result<()> {
        let request = self.world.start_free(self.end)?;
        self.world.wait_request(request).map(drop)
    }
}

impl<T: Pod> Receiving<'_, T> {
    /// Waits for the message.
    pub fn wait(self) -> Result<Vec<T>> {
        let world = self.ticket.world;
        let bytes = self.ticket.wait()?;
        let mut elements = vec![T::zeroed(); bytes.len() / size_of::<T>().max(1)];
        let whole: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
        if whole.len() != bytes.len() {
            let (length, name) = (bytes.len(), std::any::type_name::<T>());
            let wrong = format!("a message of {length} bytes is no number of {name}");
            return world.note(Err(Error::Misuse(wrong)));
        }
        whole.copy_from_slice(&bytes);
        Ok(elements)
    }

    /// Whether [`wait`](Self::wait) would not wait.
    pub fn is_done(&self) -> bool {
        self.ticket.world.test_request(self.ticket.request)
    }
}
