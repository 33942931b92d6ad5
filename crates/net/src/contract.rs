//! What a transport must provide, in prose and as a trait.
//!
//! Kumiki reaches another rank in one of two ways. On the same node it maps the other's memory: that is
//! [`shm`](crate::shm), which is not a transport but a place. Everything else goes through messages, and whoever
//! moves messages implements [`Transport`]. The checklist:
//!
//! 1. **Order.** Messages from one rank to another arrive in the order sent, each once, or not at all.
//! 2. **Never blocks.** [`Transport::send`] queues what does not go at once; [`Transport::poll`] does what can be
//!    done now. Sleeping is done outside, on [`Transport::sleeper`], so that no lock is held meanwhile. A transport that has
//!    nothing to sleep on has no sleeper, and is polled.
//! 3. **Lazy payloads.** A large payload is fetched from the [`Sink`] piece by piece when it can be sent, so a
//!    queued message costs bytes, not buffers. The sink may say [`Filled::NotYet`], as for memory of a device: the message then
//!    waits, those behind it to the same rank wait with it, and the sink is asked again at a later poll. It arrives as pieces: `header.d` is the offset of the piece and
//!    [`FLAG_MORE`] is set on all but the last; both belong to the transport in messages with such a payload.
//! 4. **In place.** A payload of [`IN_PLACE_BYTES`] or more may be sent straight from the memory that [`Sink::lend`] shows.
//!    Others may write to it meanwhile; then it arrives torn, and [`Sink::torn`] is told instead of [`Sink::frame`]. The layer
//!    above asks for it again, from a source that it does not lend. What was sent behind it has overtaken it by then.
//! 5. **Whole or lost.** A frame reaches [`Sink::frame`] only when all of it came and its checksum is right. When
//!    a peer cannot be reached any more, [`Sink::lost`] is told once, and everything queued for it is dropped. A peer that is
//!    slow is not lost: the agents know who lives. Trouble of our own is told to [`Sink::unsent`] instead.
//! 6. **Trust.** Nothing reaches the sink from a peer that has not proved that it belongs to the job.
//! 7. **Bounded.** Bytes per peer are stated in [`Transport::footprint`]; a peer never spoken to costs nothing. What is taken for
//!    connections, frames and queues is booked with [`Accounts`] first.
//! 8. **Faults on demand.** [`Transport::inject`] breaks things the way the world does, for the tests above.
//! 9. **Asked, not assumed.** What a transport can do beyond messages is in [`Transport::capabilities`]. One that reaches memory of
//!    another rank without its help registers memory ([`Transport::register`]) and takes [`OneSided`] operations; the others refuse
//!    both. How a transport comes by its connections (who hands it sockets, say) is between it and its constructor.
//!
//! A new transport implements this trait in a folder of its own: [`stub`](crate::stub) is where it begins,
//! [`loopback`](crate::loopback) shows all of it in memory, `tcp/` what a real one needs. `contract/suite.rs` is the checklist as a program:
//! every transport passes it.

use crate::os::socket::{Lent, Place};
use crate::wire::Header;
use crate::{Error, Rank, Result};
use std::sync::{Arc, Weak};

#[cfg(any(test, feature = "suite"))]
pub mod suite;

/// Set by the transport on every piece of a large payload but the last.
pub const FLAG_MORE: u8 = 0x80;
/// The most bytes of one piece of a lazy payload that is copied.
pub const PIECE_BYTES: usize = 144 * 1024;
/// Lazy payloads of so many bytes and more may be sent in place.
pub const IN_PLACE_BYTES: u64 = 256 * 1024;

/// The most bytes of a [letter](Transport::letter) that is short: of which [few](MOST_LETTERS) go one after the other while nothing comes.
pub const LETTER_BYTES: usize = 1024;
/// So many short letters go one after the other to a rank while nothing comes, from whomever.
pub const MOST_LETTERS: u8 = 2;
/// And so many while nothing comes from that rank: it keeps those that it cannot do at once.
pub const MOST_UNHEARD: u8 = 32;
/// The most bytes of a letter.
pub const LONG_LETTER_BYTES: usize = PIECE_BYTES;

/// Where the bytes of a lazy payload come from: two words that only the [`Sink`] understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// For the sink.
    pub place: u64,
    /// For the sink.
    pub kind: u64,
}

/// What a message carries beside its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Nothing.
    None,
    /// As many bytes as said, fetched from the sink when they can be sent.
    Lazy(Source, u64),
}

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// A question: the transport chooses.
    Route,
    /// A question that must be asked so that one of somebody else can be answered. It waits neither for room under a cap nor for
    /// a connection on which the peer has said goodbye: whoever asked may be who holds them.
    Relay,
    /// An answer: back the way the question came, as [`Sink::frame`] was told it. Dropped if that way is gone.
    Answer(u32),
}

/// A message to a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The header; payload length, checksum and, with a lazy payload, `d` are filled in by the transport.
    pub header: Header,
    /// What it carries.
    pub payload: Payload,
    /// Whether the receiver will answer; the connection is kept until it has.
    pub expects_answer: bool,
    /// Which way it goes.
    pub path: Path,
    /// How long an answer that nobody waits for just now may be kept.
    pub leeway: Leeway,
}

/// How long a message may be kept, to go with whatever else goes to that rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Leeway {
    /// It goes at once.
    #[default]
    None,
    /// As one that is [posted](Transport::post): until the next [`poll`](Transport::poll) or [`flush`](Transport::flush).
    Short,
    /// For some polls, or a few milliseconds, while few of them wait; or until the next [`flush`](Transport::flush). Others overtake it.
    Long,
}

/// What a sink wants done after a callback; the transport does it when the callback has returned.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Messages to send.
    pub messages: Vec<(Rank, Message)>,
}

/// What became of bytes that a transport asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// They are there.
    Whole,
    /// They will be: the message waits, and they are asked for again.
    NotYet,
    /// They never will be: the message is dropped, and [`Sink::withdrawn`] is told.
    Gone,
}

/// What a transport can do beyond messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Whether it takes [`OneSided::Put`] and [`OneSided::Get`].
    pub one_sided_copies: bool,
    /// Whether it takes [`OneSided::Atomic`]. They are atomic together with those of the processor that has the memory.
    pub one_sided_atomics: bool,
    /// Whether it sends large payloads from where they lie, if the sink lends them: then they may come torn.
    pub in_place: bool,
    /// The most bytes of the payload of a message.
    pub largest_message: u64,
    /// Whether it calls a [`Server`] by itself when something has come and nobody polls. Otherwise somebody must poll.
    pub serves_by_itself: bool,
    /// Whether time passes only while somebody sleeps, as in a simulation: whoever waits sleeps at once.
    pub sleeps_at_once: bool,
}

impl Default for Capabilities {
    /// Messages of any length, and nothing else.
    fn default() -> Capabilities {
        Capabilities {
            one_sided_copies: false,
            one_sided_atomics: false,
            in_place: false,
            largest_message: u64::MAX,
            serves_by_itself: false,
            sleeps_at_once: false,
        }
    }
}

/// Memory that can be registered with a transport. It stays where it is until it is unregistered, and others may write to it.
pub trait Memory: Send + Sync {
    /// Where it begins in this process, for a device that reads and writes it by itself.
    fn address(&self) -> usize;
    /// How many bytes it has.
    fn bytes(&self) -> u64;
    /// Reads bytes from `offset`. False if there are not so many.
    fn read(&self, offset: u64, into: &mut [u8]) -> bool;
    /// Writes bytes from `offset` on. False if there are not so many.
    fn write(&self, offset: u64, from: &[u8]) -> bool;
    /// Changes the word of 8 bytes at `offset` and gives its old value; `None` if there is none, or it is not aligned.
    fn update(&self, offset: u64, update: Update) -> Option<u64>;
}

/// Names memory that is registered with a transport; others learn it in a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(pub u64);

/// A place in registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Which memory.
    pub key: Key,
    /// The byte.
    pub offset: u64,
}

/// What is done to a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// Adds, wrapping around.
    Add(u64),
    /// Stores the value.
    Swap(u64),
    /// Stores the second if the word holds the first.
    CompareSwap(u64, u64),
}

/// An operation on registered memory of another rank, which does nothing for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OneSided {
    /// Copies bytes from here to there.
    Put {
        /// Our memory.
        here: Spot,
        /// Theirs.
        there: Spot,
        /// How many.
        bytes: u64,
    },
    /// Copies bytes from there to here.
    Get {
        /// Our memory.
        here: Spot,
        /// Theirs.
        there: Spot,
        /// How many.
        bytes: u64,
    },
    /// Changes a word.
    Atomic {
        /// Their word.
        there: Spot,
        /// What is done to it.
        update: Update,
    },
}

/// Who receives: the layer above.
pub trait Sink {
    /// Bytes `at..` of the payload of a frame whose header is authentic. Its checksum is not known yet, so the bytes
    /// may only go where the header's sender may write anyhow.
    fn part(&mut self, from: Rank, header: &Header, at: u32, bytes: &[u8]);
    /// The memory where so many bytes `at..` of the payload of a frame belong, which was sent in place, to be received there.
    /// `None`: they must be handed to [`part`](Self::part). If the sum is wrong in the end, [`torn`](Self::torn) is told.
    fn place(&mut self, _from: Rank, _header: &Header, _at: u32, _bytes: usize) -> Option<Place<'_>> {
        None
    }
    /// Memory of the sink itself for so many bytes `at..` of the payload of a frame, to be received there: for whatever [`part`](Self::part) would
    /// copy there. `None`: it must be handed to that.
    fn room(&mut self, _from: Rank, _header: &Header, _at: u32, _bytes: usize) -> Option<Place<'_>> {
        None
    }
    /// A frame is complete; an answer to it takes [`Path::Answer`] of `path`. Returns whether it is itself the answer
    /// to a message that expected one.
    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool;
    /// Fills `place` with the bytes from `offset` of a lazy payload, if they are there.
    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> Filled;
    /// The memory of so many bytes from `offset` of a lazy payload, to be sent as it lies there. `None`: it must be asked for with
    /// [`fill`](Self::fill), or is gone.
    fn lend(&mut self, _source: Source, _offset: u64, _bytes: usize) -> Option<Lent<'_>> {
        None
    }
    /// All bytes of a lazy payload that stay as they are for as long as somebody has this: to be sent from there, and kept there until they have
    /// come. `None`: they must be asked for otherwise.
    fn share(&mut self, _source: Source) -> Option<Arc<Vec<u8>>> {
        None
    }
    /// A message whose payload was sent in place is complete, and not all of it is what was in memory at one time: some was
    /// changed meanwhile. Otherwise as [`frame`](Self::frame).
    fn torn(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool;
    /// A lazy payload could not be sent because [`Sink::fill`] said so.
    fn withdrawn(&mut self, to: Rank, header: &Header, out: &mut Outbox);
    /// A peer cannot be reached any more; nothing queued for it, and no answer from it, will ever arrive.
    fn lost(&mut self, peer: Rank, error: Error, out: &mut Outbox);
    /// Nothing can be sent to a peer for a reason of our own (the process has no descriptor left, the machine no port or no
    /// route), and trying again has not helped: what was queued for it is dropped. The peer is not to blame. `silent` says that
    /// something was dropped to which no answer was expected.
    fn unsent(&mut self, peer: Rank, error: Error, silent: bool, out: &mut Outbox);
    /// A one-sided operation is over; an atomic has the old value of its word.
    fn performed(&mut self, _op: u64, _result: Result<Option<u64>>, _out: &mut Outbox) {}
    /// The channel to the node agent has something to read.
    fn agent(&mut self, out: &mut Outbox);
}

/// How to sleep until a transport has something to do; used without holding the transport.
pub trait Sleeper: Send + Sync {
    /// Sleeps until there is something to poll, or the time is over.
    fn sleep(&self, timeout_ms: i32) -> Result<()>;
    /// Ends one sleep now, or the next.
    fn wake(&self);
}

/// Who keeps the books of the memory that a transport takes.
pub trait Accounts: Send + Sync {
    /// Books bytes before they are taken. An error: the budget is spent, and they must not be taken.
    fn book(&self, bytes: u64) -> Result<()>;
    /// Books bytes that cannot be refused, because somebody is owed what lies in them.
    fn force(&self, bytes: u64);
    /// Books bytes back.
    fn unbook(&self, bytes: u64);
}

/// Whoever answers for a rank while its program computes.
pub trait Server: Send + Sync {
    /// Takes what has come, and answers it.
    fn serve(&self);
}

/// How far a transport is with closing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// Messages wait to be sent.
    Sending,
    /// Everything is sent; peers have not said goodbye yet.
    Parting,
    /// Nothing is left to do.
    Closed,
}

/// Memory that a transport takes, for the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Bytes that do not depend on the number of peers.
    pub fixed_bytes: u64,
    /// Connections now open.
    pub connected: u64,
    /// Bytes of one connection.
    pub bytes_per_connection: u64,
    /// Bytes queued and buffered now.
    pub queued_bytes: u64,
}

/// What [`Transport::inject`] can do to the connection with a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The connection is reset.
    Reset,
    /// The next frame to the peer vanishes after it was numbered.
    Drop,
    /// One bit of the next bytes to the peer is flipped.
    Corrupt,
    /// The next payload that is sent in place, to whomever, leaves as zeroes: as if its memory had been cleared after it was
    /// summed up.
    Tear,
    /// Nothing is sent to the peer, or read from it, for this long.
    Stall {
        /// How long.
        milliseconds: u64,
    },
}

/// Whoever moves messages between ranks. See the checklist at the top of this file.
pub trait Transport: Send {
    /// A short name for reports.
    fn name(&self) -> &'static str;
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// Queues a message. An error means that nothing was queued.
    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()>;
    /// As [`send`](Self::send), for one of many: while answers are on their way from the same rank, it may be kept to go out with
    /// those that follow. What is kept goes with the next message to that rank that is sent, with [`poll`](Self::poll) or with
    /// [`flush`](Self::flush), and whoever posts sees to it that one of them comes soon. Returns whether anything is kept.
    fn post(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<bool> {
        self.send(to, message, sink).map(|()| false)
    }
    /// Sends a header and some bytes, at most [`LONG_LETTER_BYTES`], that nobody answers, if they can go at once, nothing goes before them, and it is not one of
    /// many short ones: whether they have gone. Their order among messages is that in which they were sent.
    fn letter(&mut self, _to: Rank, _header: Header, _payload: &[u8], _sink: &mut dyn Sink) -> Result<bool> {
        Ok(false)
    }
    /// Sends what is kept.
    fn flush(&mut self, _sink: &mut dyn Sink) {}
    /// Whether messages are kept that [`flush`](Self::flush) would send, and how long they may be.
    fn keeps(&self) -> Option<Leeway> {
        None
    }
    /// Does what can be done now: sends, receives, accepts, gives up. Returns how many things happened.
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize>;
    /// How to sleep until there is something to poll; `None` if it must be polled to find out.
    fn sleeper(&self) -> Option<Arc<dyn Sleeper>>;
    /// Makes memory reachable for one-sided operations.
    fn register(&mut self, _memory: Arc<dyn Memory>) -> Result<Key> {
        Err(two_sided(self.name()))
    }
    /// Ends that. What is under way with it ends first, or with an error.
    fn unregister(&mut self, _key: Key) -> Result<()> {
        Err(two_sided(self.name()))
    }
    /// Begins an operation on memory of another rank; [`Sink::performed`] is told the end of it, with this number.
    fn perform(&mut self, _to: Rank, _op: u64, _operation: OneSided, _sink: &mut dyn Sink) -> Result<()> {
        Err(two_sided(self.name()))
    }
    /// When [`poll`](Self::poll) must be called even if nothing comes (milliseconds of the monotonic clock).
    fn wake_up_at(&self) -> Option<u64>;
    /// Closes every connection on which nothing waits to be sent, in good order and without waiting. Call it again,
    /// and [`poll`](Self::poll) in between, until nothing is left to do.
    fn close(&mut self, sink: &mut dyn Sink) -> Closing;
    /// The memory it takes.
    fn footprint(&self) -> Footprint;
    /// Does something bad to the connection with a peer.
    fn inject(&mut self, peer: Rank, fault: Fault);
    /// The caller polls again and again, and nobody sleeps in the [`sleeper`](Self::sleeper): what comes need not be
    /// announced there until [`watch`](Self::watch). Errors and ends still are.
    fn hush(&mut self) {}
    /// Announces again what comes, and what has come. Called before anybody sleeps.
    fn watch(&mut self) {}
    /// Whom to call when something has come and nobody polls: for a transport that serves by itself.
    fn serve_with(&mut self, _server: Weak<dyn Server>) {}
}

/// What a transport answers that knows messages only.
fn two_sided(name: &str) -> Error {
    Error::Misuse(format!("transport {name} has no operations on registered memory: its capabilities say so"))
}
