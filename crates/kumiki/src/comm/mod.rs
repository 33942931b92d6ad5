//! Patterns of communication over global memory: messages, channels, segment buffers, relays, batches of words, collectives, halos and
//! sparse exchanges.
//!
//! | need | pattern |
//! |---|---|
//! | messages between any ranks, by tag | [`World::messages`](crate::World::messages) |
//! | messages from one rank to another, in order | a [channel](Sender) |
//! | a stream of equal pieces that are made and used in place | a [segment buffer](SegmentSource) |
//! | many single words, here and there | a [stream](Stream), or [`put_many`](crate::World::put_many) and its like |
//! | what all ranks, or some of them, do together | a [group](Group) |
//! | the cells around a piece of a field, from those who have them | a [halo](Halo) |
//! | elements from any ranks to any ranks, where only those who send know who receives | a [sparse exchange](SparseExchange) |
//! | pieces that go from rank to rank, each adding its part | a [relay](Relay) |
//!
//! The memory of a pattern is known before it exists: it is in the heap of the rank that receives (`kumiki mem` shows it as data), and what
//! the process knows of it is in the ledger under [`Purpose::Comm`](crate::Purpose::Comm). Where there is not enough, making the pattern is
//! an error.
//!
//! | file | what |
//! |---|---|
//! | `door.rs`, `lobby.rs` | how two ends of something find each other, whoever made his first |
//! | `lane.rs` | a ring of cells from one rank to another, in shared memory |
//! | `ends.rs`, `ends/` | the ends of a channel: what is to be sent, what is waited for |
//! | `spares.rs` | buffers of long requests, kept for the next ones |
//! | `state.rs` | all ends of a process, and waiting for any of their requests |
//! | `channel.rs` | channels as programs have them |
//! | `message/` | messages between any two ranks |
//! | `segments.rs`, `segment_ends.rs` | segment buffers |
//! | `batch.rs` | many single words |
//! | `collective/` | what all members of a group do together |
//! | `rows.rs` | boxes of memory as rows of bytes |
//! | `halo/` | ghost cells of fields that lie in a grid of members |
//! | `sparse/` | sparse exchanges |
//! | `relay.rs` | relays: segment buffers from each rank to the next |

mod batch;
mod channel;
mod collective;
mod door;
pub(crate) mod ends;
mod halo;
mod lane;
mod left;
mod lobby;
pub(crate) mod message;
mod relay;
pub(crate) mod rows;
mod segment_ends;
mod segments;
mod spares;
mod sparse;
pub(crate) mod state;

pub use batch::Stream;
pub use channel::{Receiver, Receiving, Sender, Sending, Slots};
pub(crate) use collective::Remains;
pub(crate) use collective::{merge, serve as serve_collective, Groups, Merger, Reduction};
pub use collective::{
    Algorithm, And, Cartesian, Combine, Decision, Group, GroupOptions, Integer, Max, MaxAt, Min, MinAt,
    Number, Operation, Or, Product, Started, Sum, Xor,
};
pub use halo::{Halo, HaloOptions};
pub use kumiki_mem::Located;
pub use message::{
    Message, MessageInfo, MessageLanding, MessageOptions, MessageReceiving, MessageRequest, MessageScope,
    MessageSending, MessageWay, Messages, Tag,
};
pub use relay::{Relay, RelayOptions};
pub use segment_ends::{SegmentDestination, SegmentSource};
pub use segments::Segments;
pub use sparse::{Arrivals, ArrivalsIter, SparseExchange, SparseOptions};
pub(crate) use state::State;

use crate::data::message::unknown;
use crate::Result;
use door::Knock;
use kumiki_mem::codec::Reader;
use kumiki_mem::Local;
use lane::{Lane, Stub};

/// The numbers of the services: that of channels, and that of groups.
pub(crate) const COMM: u8 = 5;
pub(crate) const COLLECTIVE: u8 = 6;

/// What it does: leaves a knock (the reply says whether there was room), writes cells, tells a sender how far its receiver is, and a
/// receiver that its sender has failed; leaves messages in the mailbox (the reply says how many there was room for), or in a lane.
const KNOCK: u8 = 1;
const PUSH: u8 = 2;
const TELL: u8 = 3;
const BREAK: u8 = 4;
const MAIL: u8 = 5;
const LANE: u8 = 6;
/// The same by a letter.
const LANE_LETTER: u8 = 7;
/// Does many single words.
const BATCH: u8 = 32;
/// Leaves elements of a sparse exchange.
const SPARSE: u8 = 33;

/// Does it for a rank of another node.
pub(crate) fn serve(local: Local<'_>, from: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    if let [BATCH, words @ ..] = request {
        return kumiki_mem::serve_batch(local, words, reply);
    }
    if let [SPARSE, elements @ ..] = request {
        return sparse::serve(local, from, elements, reply);
    }
    let mut request = Reader::new(request);
    match request.byte()? {
        KNOCK => {
            let knock = Knock { from, ..Knock::read(&mut request)? };
            reply.push(door::leave(local, local.rank(), knock)?.into());
        }
        PUSH => Lane::serve(local, from, &mut request)?,
        TELL => Stub::serve(local, from, &mut request)?,
        BREAK => Lane::serve_break(local, from, &mut request)?,
        MAIL => message::serve_mail(local, from, &mut request, reply)?,
        LANE => message::serve_lane(local, from, &mut request, Some(reply))?,
        LANE_LETTER => message::serve_lane(local, from, &mut request, None)?,
        code => return Err(unknown(code)),
    }
    Ok(())
}
