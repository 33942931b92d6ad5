//! For bindings to other languages, tools and tests: the memory below a [`World`], with what programs in Rust do not need.
//!
//! Nothing here is promised to stay: a program that names it is written for one version of the library.

use crate::World;

pub use kumiki_mem::{Attachment, RegionKey, SLOT_BITS};

/// The global memory that a world stands on: raw registrations, operations that keep their turn, pointers to own memory.
#[inline]
pub fn memory(world: &World) -> &kumiki_mem::World {
    &world.memory
}

/// Channels by number, with memory that the binding vouches for.
pub mod channels {
    pub use crate::comm::ends::Room;
    pub use crate::comm::state::{ChannelEnd, Received, Request};
    use crate::{GlobalAddress, Rank, Result, World};
    use std::time::Duration;

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
