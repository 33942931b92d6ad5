//! For bindings to other languages, tools and tests: the memory below a [`World`], with what programs in Rust do not need.
//!
//! Nothing here is promised to stay: a program that names it is written for one version of the library.

use crate::World;

pub use crate::comm::ends::Room;
pub use kumiki_mem::{Attachment, Booking, Hosting, RegionKey, Vouched, SLOT_BITS};

/// The global memory that a world stands on: raw registrations, operations that keep their turn, pointers to own memory.
#[inline]
pub fn memory(world: &World) -> &kumiki_mem::World {
    &world.memory
}

/// Books memory that a binding takes for its program.
pub fn book(world: &World, purpose: crate::Purpose, bytes: usize) -> crate::Result<Booking> {
    world.book(purpose, bytes as u64)
}

/// Counts an error of a binding as one that the world has returned.
pub fn note<T>(world: &World, result: crate::Result<T>) -> crate::Result<T> {
    world.note(result)
}

pub use kumiki_mem::{start_mpi, stop_mpi, variable};

/// Messages out of memory, and into some, that the binding vouches for; and requests of any kind.
pub mod messages {
    use crate::comm::{MessageLanding, MessageRequest, MessageSending, Messages, Tag};
    use crate::raw::Room;
    use crate::{Rank, Result, World};
    use kumiki_mem::Vouched;

    /// What a request is known by, and whose message it is about.
    pub type Name = crate::comm::message::Name;

    /// Begins to send a message: a short one is copied, and the memory of a long one vouched for.
    pub fn start_send<'w>(
        messages: Messages<'w>,
        to: Rank,
        tag: Tag,
        message: &[u8],
        vouch: impl FnOnce() -> Result<Vouched>,
    ) -> Result<MessageSending<'w>> {
        messages.start_send_vouched(to, tag, message, vouch)
    }

    /// What somebody does now and then who waits for others to take messages, and not by one of these calls: fetches one that they have lent, and may wait for.
    pub fn fetch_early(world: &World) {
        world.fetch_early(crate::comm::message::Takes::All(None));
    }

    /// Begins to receive a message into memory that the caller vouches for.
    pub fn start_receive<'w>(
        messages: Messages<'w>,
        from: Option<Rank>,
        tag: Option<Tag>,
        room: Box<dyn Room>,
    ) -> Result<MessageLanding<'w>> {
        messages.start_landing(from, tag, room)
    }

    /// Waits until a message is on its way. Whatever became of it, nobody reads its memory afterwards.
    pub fn end_sending(world: &World, sending: MessageSending<'_>) -> Result<()> {
        world.end_sending(sending)
    }

    /// Gives up a message that is being sent: nobody reads its memory afterwards. Whoever comes to fetch it gets an error.
    pub fn abandon_sending(world: &World, sending: MessageSending<'_>) {
        world.abandon_sending(sending);
    }

    /// What a request is known by.
    pub fn name_of(request: &impl MessageRequest) -> Name {
        request.name()
    }

    /// Waits until one of several requests is done, or has failed: which one.
    pub fn wait_any(world: &World, names: &[Name]) -> Result<usize> {
        world.wait_any_named(names)
    }
}

/// Messages of joined programs, with memory that the binding vouches for.
pub mod join {
    use crate::comm::{MessageLanding, MessageSending, Tag};
    use crate::join::JoinGroup;
    use crate::raw::Room;
    use crate::{Rank, Result};
    use kumiki_mem::Vouched;

    /// Begins to send a message to a member: a short one is copied, and the memory of a long one vouched for.
    pub fn start_send<'j>(
        group: &JoinGroup<'j>,
        to: Rank,
        tag: Tag,
        message: &[u8],
        vouch: impl FnOnce() -> Result<Vouched>,
    ) -> Result<MessageSending<'j>> {
        group.messages().start_send_vouched(group.peer(to)?, tag, message, vouch)
    }

    /// Begins to receive a message of a member into memory that the caller vouches for.
    pub fn start_receive<'j>(
        group: &JoinGroup<'j>,
        from: Rank,
        tag: Tag,
        room: Box<dyn Room>,
    ) -> Result<MessageLanding<'j>> {
        group.messages().start_landing(group.peer(from)?, tag, room)
    }
}

/// Collectives of elements that are known at run time only.
pub mod groups {
    use crate::comm::{Group, Merger, Reduction, Started};
    use crate::{Error, Rank, Result};
    use std::ops::Range;

    /// How elements that lie in bytes are combined.
    pub trait Combination: Send {
        /// Bytes of an element.
        fn element_bytes(&self) -> usize;

        /// Whether the order of the members does not matter.
        fn commutes(&self) -> bool;

        /// A number that differs between operations: [`Operation::mark`](crate::comm::Operation::mark).
        fn mark(&self) -> u64;

        /// Combines elements in place with as many others, which are of members before (`others_first`) or behind.
        fn merge(&self, into: &mut [u8], others: &[u8], others_first: bool);
    }

    /// Combines elements in place with as many others, as an operation does: for a [`Combination`].
    pub fn merge<T: crate::Pod>(
        operation: &impl crate::comm::Operation<T>,
        into: &mut [u8],
        others: &[u8],
        others_first: bool,
    ) {
        crate::comm::merge(operation, into, others, others_first);
    }

    struct Kept<C>(C);

    impl<C: Combination> Merger for Kept<C> {
        fn traits(&self) -> (usize, bool, u64) {
            (self.0.element_bytes(), self.0.commutes(), self.0.mark())
        }

        fn merge(&self, into: &mut [u8], others: &[u8], others_first: bool) {
            self.0.merge(into, others, others_first);
        }
    }

    /// Lets something be done with a combination of so many whole elements.
    fn with<R>(
        how: &dyn Combination,
        bytes: usize,
        work: impl FnOnce(Reduction<'_>) -> Result<R>,
    ) -> Result<R> {
        let element = how.element_bytes();
        if element == 0 || !bytes.is_multiple_of(element) {
            return Err(Error::Misuse(format!("{bytes} bytes are no number of elements of {element} bytes")));
        }
        let merge = |into: &mut [u8], others: &[u8], first: bool| how.merge(into, others, first);
        work(Reduction { element, commutes: how.commutes(), mark: how.mark(), merge: &merge })
    }

    /// As [`Group::reduce`].
    pub fn reduce(group: &Group<'_>, root: Rank, data: &mut [u8], how: &dyn Combination) -> Result<()> {
        with(how, data.len(), |reduction| group.reduce_by(root, data, reduction))
    }

    /// As [`Group::allreduce`].
    pub fn allreduce(group: &Group<'_>, data: &mut [u8], how: &dyn Combination) -> Result<()> {
        with(how, data.len(), |reduction| group.allreduce_by(None, data, reduction))
    }

    /// As [`Group::allreduce_into`].
    pub fn allreduce_into(
        group: &Group<'_>,
        data: &[u8],
        into: &mut [u8],
        how: &dyn Combination,
    ) -> Result<()> {
        with(how, into.len(), |reduction| group.allreduce_by(Some(data), into, reduction))
    }

    /// As [`Group::scan`], or [`Group::exscan`] if it `excludes` each member's own elements.
    pub fn scan(group: &Group<'_>, data: &mut [u8], how: &dyn Combination, excludes: bool) -> Result<()> {
        with(how, data.len(), |reduction| group.scan_by(data, reduction, excludes))
    }

    /// As [`Group::reduce_scatter`].
    pub fn reduce_scatter(
        group: &Group<'_>,
        data: &mut [u8],
        counts: &[usize],
        how: &dyn Combination,
    ) -> Result<Range<usize>> {
        let elements = data.len() / how.element_bytes().max(1);
        with(how, data.len(), |reduction| group.reduce_scatter_by(data, elements, counts, reduction))
    }

    /// As [`Group::start_reduce`].
    pub fn start_reduce<'g, 'w>(
        group: &'g Group<'w>,
        root: Rank,
        data: Vec<u8>,
        how: impl Combination + 'static,
    ) -> Result<Started<'g, 'w, u8>> {
        with(&how, data.len(), |_| Ok(()))?;
        group.start_reduce_by(root, data, Box::new(Kept(how)))
    }

    /// As [`Group::start_allreduce`].
    pub fn start_allreduce<'g, 'w>(
        group: &'g Group<'w>,
        data: Vec<u8>,
        how: impl Combination + 'static,
    ) -> Result<Started<'g, 'w, u8>> {
        with(&how, data.len(), |_| Ok(()))?;
        group.start_allreduce_by(data, Box::new(Kept(how)))
    }
}

/// As [`Cartesian::halo`](crate::comm::Cartesian::halo), of elements of so many bytes, over fields of bytes. Its lengths are in bytes.
pub fn halo<'w>(
    grid: &crate::comm::Cartesian<'_, 'w>,
    element_bytes: usize,
    extents: &[usize],
    options: crate::comm::HaloOptions,
) -> crate::Result<crate::comm::Halo<'w, u8>> {
    grid.halo_of(element_bytes, extents, options)
}

/// Channels by number, with memory that the binding vouches for.
pub mod channels {
    pub use crate::comm::state::{ChannelEnd, Received, Request};
    use crate::comm::{Sender, Sending};
    pub use crate::raw::Room;
    use crate::{GlobalAddress, Rank, Result, World};
    use kumiki_mem::Vouched;
    use std::time::Duration;

    /// Begins to send a message: a short one is copied, and the memory of a long one vouched for until the receiver has read it.
    pub fn start_send_vouched<'w>(
        sender: &Sender<'w, u8>,
        message: &[u8],
        vouch: impl FnOnce() -> Result<Vouched>,
    ) -> Result<Sending<'w>> {
        sender.start_send_vouched(message, vouch)
    }

    /// Makes the end of a channel that sends to a rank.
    pub fn open_sender(world: &World, to: Rank) -> Result<ChannelEnd> {
        world.open_sender(to)
    }

    /// Makes the end of a channel that receives from a rank.
    pub fn open_receiver(world: &World, from: Rank, slots: usize, slot_bytes: usize) -> Result<ChannelEnd> {
        world.open_receiver(from, slots, slot_bytes)
    }

    /// Begins to send bytes. They are copied where they cannot be sent at once.
    pub fn start_send(world: &World, end: ChannelEnd, bytes: &[u8]) -> Result<Request> {
        world.start_send(end, bytes)
    }

    /// Begins to send memory of this rank that the receiver reads itself. It must stay as it is until the request is done.
    pub fn start_send_from(
        world: &World,
        end: ChannelEnd,
        from: GlobalAddress,
        bytes: usize,
    ) -> Result<Request> {
        world.start_send_from(end, from, bytes)
    }

    /// Begins to receive a message into memory that is given.
    pub fn start_receive(world: &World, end: ChannelEnd, room: Box<dyn Room>) -> Result<Request> {
        world.start_receive(end, Some(room))
    }

    /// Begins to free an end: it is done behind all that was sent, and when both ends are freed.
    pub fn start_free(world: &World, end: ChannelEnd) -> Result<Request> {
        world.start_free(end)
    }

    /// Waits until a request is done, and says what became of it; it can be asked once.
    pub fn wait(world: &World, request: Request) -> Result<Received> {
        world.wait_request(request)
    }

    /// Makes all channels go on; whether something of them is not done: then whoever waits for something else must do this now and then.
    pub fn look_after(world: &World) -> bool {
        world.look_after_channels()
    }

    /// Nobody will ask for a request: it goes on all the same.
    pub fn forget(world: &World, request: Request) {
        world.forget_request(request);
    }

    /// No message is written to memory of the program any more: what it has asked to receive is dropped.
    pub fn abandon_receives(world: &World) {
        world.abandon_receives();
    }

    /// Ends all channels of this rank, when what was begun is finished; nobody is waited for longer than `limit`.
    pub fn end_all(world: &World, limit: Duration) -> Result<()> {
        world.end_channels(limit)
    }
}
