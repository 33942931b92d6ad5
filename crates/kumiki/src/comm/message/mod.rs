//! Messages between any two ranks, without channels.
//!
//! Every rank has a *mailbox*, a ring of 16 KiB in its heap (`ring.rs`), where others leave records (`record.rs`): short messages as they
//! are, of longer ones where they lie in memory of the sender (the receiver fetches them, and says so), and what is said about messages.
//! On the node whoever sends writes there itself, under a lock that outlives its holder; from another node a request has it written, one
//! request of many records at a time for each pair, so that none overtakes another. A sender has [`CREDIT`] messages in the mailbox
//! of another rank, or taken out of it and not received, and not more: all others wait at the sender. So what a rank keeps for receives
//! that are not posted yet is bounded by the number of those who really send to it, and is in the ledger. Only while a receive waits that
//! may want a message which still waits at its sender, that sender gets credit in advance; and that, too, has an end.
//!
//! Who sends much gets a *lane* (`incoming.rs`): a ring of its own, without a lock, and with as much credit as it has bytes. There are at
//! most as many as [`MessageOptions::fast_pairs`] says; those that are used least are taken back.
//!
//! Which message goes to which receive is decided by a value of its own (`matching.rs`).
//!
//! | file | what |
//! |---|---|
//! | `matching.rs` | messages and receives: which goes to which |
//! | `bytes.rs`, `by_rank.rs` | the bytes of a short message; a value for each of some ranks |
//! | `record.rs`, `ring.rs` | what stands in a mailbox or a lane, and how it gets there |
//! | `outgoing.rs` | what a rank has to send to one other |
//! | `incoming.rs` | who sends to a rank, and who gets a lane |
//! | `post.rs`, `arrivals.rs`, `receipts.rs` | all messages of a process |
//! | `early.rs` | what is fetched before anybody asks for it, because somebody may wait for that |
//! | `glance.rs` | the short way of a message to whoever waits for it |
//! | `requests.rs`, `results.rs` | asking for messages, waiting for them, and what has come of that |
//! | `messages.rs`, `handles.rs` | messages as programs have them |
//! | `scope.rs` | and out of, and into, memory that they lend |
//! | `vouched.rs`, `landing.rs` | and as bindings do |
//! | `lying.rs` | those that are read where they lie |

mod arrivals;
#[cfg(test)]
mod between_tests;
mod by_rank;
mod bytes;
mod early;
mod glance;
#[cfg(test)]
mod glance_tests;
mod handles;
mod incoming;
mod landing;
mod lying;
mod matching;
mod messages;
#[cfg(test)]
mod opposite_tests;
mod outgoing;
mod post;
mod receipts;
mod record;
mod requests;
mod results;
mod ring;
#[cfg(test)]
mod ring_tests;
mod scope;
#[cfg(test)]
mod tests;
mod vouched;

pub(crate) use early::Takes;
pub(super) use glance::Glance;
pub use handles::{MessageReceiving, MessageRequest, MessageSending};
pub use landing::MessageLanding;
pub(crate) use lying::{Came, Lying, SHORT_BYTES};
pub use messages::{Message, MessageInfo, MessageOptions, MessageWay, Messages, Tag};
pub(crate) use post::{Fetch, Post};
pub(super) use ring::closed;
pub use scope::MessageScope;
pub(crate) use vouched::Name;

use super::{LANE, LANE_LETTER, MAIL};
use crate::{Error, GlobalAddress, GlobalPtr, Pod, Result};
use bytes::Bytes;
use kumiki_mem::codec::Reader;
use kumiki_mem::Local;
use matching::Envelope;
use record::Record;
use results::Results;
use ring::Ring;

/// Messages of one sender that are in a mailbox, or were taken out of it and not received.
const CREDIT: u8 = 8;
/// A message of at most so many bytes goes as it is…
const EAGER_BYTES: u64 = 1024;
/// …or of so many where there is a lane that is long enough. Beyond it takes less time that the receiver fetches the message: on a node one
/// copy less is then worth more than that both sides copy at the same time, and between nodes it is two round trips.
const LONGEST_NEAR: u64 = 64 << 10;
const LONGEST_FAR: u64 = 128 << 10;
/// The longest that a mailbox has room for. One that is longer, and has lost its lane, is fetched.
const LONGEST_MAILED: u64 = 8000;
const _: () = assert!(LONGEST_MAILED <= ring::MAILBOX_BYTES / 2 - record::HEAD_BYTES);
/// Bytes of a lane for those who send much that is not short: for four messages of the longest sort, and more.
const WIDE_NEAR: u64 = 320 << 10;
const WIDE_FAR: u64 = 640 << 10;
/// So much of what came through a lane is kept while nobody asks for it: the rest stays in a wide one.
const MOST_KEPT: u64 = 64 << 10;
const _: () =
    assert!(WIDE_FAR <= ring::LARGEST_RING && 4 * LONGEST_FAR <= WIDE_FAR && 4 * LONGEST_NEAR <= WIDE_NEAR);

/// In a letter: that it does not say how far its sender has read the lane of its receiver.
const NOT_SAID: u64 = u64::MAX;

/// What became of a request.
type Outcome = Result<Option<Delivery>>;

/// A message that was received.
#[derive(Debug)]
enum Delivery {
    /// It is here.
    Here { envelope: Envelope, bytes: Bytes },
    /// It is where the program wants it.
    Landed { envelope: Envelope },
    /// Whoever waited for it fetches it.
    Lent { envelope: Envelope, place: Place, number: u64 },
}

/// Where a message that is lent lies, and as what that memory is registered: what lies there later is not it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    address: GlobalAddress,
    registration: u64,
}

impl Place {
    fn ptr<T: Pod>(self) -> GlobalPtr<T> {
        GlobalPtr::from_parts(self.address, self.registration)
    }
}

impl<T: Pod> From<GlobalPtr<T>> for Place {
    fn from(pointer: GlobalPtr<T>) -> Place {
        let (address, registration) = pointer.parts();
        Place { address, registration }
    }
}

/// Puts records into the mailbox of this rank for one of another node: how many there was room for.
pub(super) fn serve_mail(
    local: Local<'_>,
    from: u32,
    request: &mut Reader<'_>,
    reply: &mut Vec<u8>,
) -> Result<()> {
    let ring = Ring::mailbox_made(local, local.rank()).map_err(|error| match error {
        // A request for which there is no memory goes again later; this one never could.
        Error::OutOfMemory { .. } => Error::Refused("there is no room for a mailbox".into()),
        error => told(error),
    })?;
    let mut writing = ring.write_locked(local).map_err(told)?;
    let mut count = 0u32;
    while !request.is_empty() {
        let (record, body) = Record::read(from, request)?;
        if record.body_bytes() > LONGEST_MAILED || !record.can_be_mailed(local) {
            return Err(Error::Misuse("a message that cannot be in a mailbox".into()));
        }
        if !writing.push(&record, body)? {
            break;
        }
        count += 1;
    }
    writing.publish()?;
    reply.extend_from_slice(&count.to_le_bytes());
    Ok(())
}

/// What whoever asks is told of an error: that this rank is finalizing.
fn told(error: Error) -> Error {
    match error {
        Error::PeerLost { .. } => Error::Closed("no more messages are received".into()),
        error => error,
    }
}

/// Puts records into a lane of this rank for one of another node, which knows that there is room. It is told how far the lane was read, if it waits for
/// an answer.
pub(super) fn serve_lane(
    local: Local<'_>,
    from: u32,
    request: &mut Reader<'_>,
    reply: Option<&mut Vec<u8>>,
) -> Result<()> {
    let address = GlobalAddress::from_bits(request.long()?);
    let first = request.long()?;
    // Whoever waits for an answer may wait for room; a letter says how far its sender has read.
    let (hungry, opposite) = match reply {
        Some(_) => (request.flag()?, NOT_SAID),
        None => (false, request.long()?),
    };
    let ring = Ring::lane_of(local, from, address)?;
    // Its sender writes alone: but this rank may close it at this moment.
    let mut writing = ring.write_locked(local).map_err(told)?;
    if writing.tail() != first {
        return Err(Error::Misuse("messages for a lane that cannot be of its sender".into()));
    }
    while !request.is_empty() {
        let (record, body) = Record::read(from, request)?;
        if record.body_bytes() > LONGEST_FAR || !writing.push(&record, body)? {
            return Err(Error::Misuse("messages for which a lane has no room".into()));
        }
    }
    if hungry {
        writing.say_hungry()?;
    }
    if opposite != NOT_SAID {
        writing.say_opposite(opposite)?;
    }
    if let Some(reply) = reply {
        reply.extend_from_slice(&writing.tell_head()?.to_le_bytes());
    }
    writing.publish()?;
    Ok(())
}
