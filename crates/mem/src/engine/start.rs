//! Starting an operation: what can be done here is done, and what cannot becomes a question to whoever can. The side of the
//! initiator; what comes of a question at the other side is in `serve.rs`.
//!
//! What is done for the program itself may run without the engine, and pins private memory instead.

use crate::engine::frames::{self, about, question, Few, FEW_BYTES};
use crate::engine::operations::{Action, Side, FIRST_INTERNAL};
use crate::engine::{calls, sections};
use crate::node::access::Reach;
use crate::node::address::{GlobalAddress, Registration};
use crate::node::atomic::{self, AtomicCall};
use crate::node::{copy, Node};
use crate::{Error, Result};
use kumiki_net::contract::{Message, Payload, Source};
use kumiki_net::wire::Header;
use kumiki_net::Rank;

/// `Source::kind` for global memory of this node; the place is an address, the generation is above.
pub(crate) const SOURCE_GLOBAL: u64 = 1;
/// `Source::kind` for memory that the caller of an operation lends; the number of the operation is above.
pub(crate) const SOURCE_LENT: u64 = 2;
/// Set in `Source::kind` of a payload that may be sent in place.
pub(crate) const SOURCE_IN_PLACE: u64 = 0x80;
pub(crate) const SOURCE_KINDS: u64 = 0x7f;
const _: () =
    assert!((FIRST_INTERNAL * 2 - 1) << 8 >> 8 == FIRST_INTERNAL * 2 - 1, "a number fits above the kind");

/// What is left of an atomic that is done when its old value is on its way to another rank.
pub(crate) const DELIVERY: Action = Action::Copy { dst: Side::Lent(0), src: Side::Lent(0), bytes: 0 };

/// What became of an operation when it was started.
pub(crate) enum Started {
    /// It is done; an atomic has its old value.
    Complete(Option<u64>),
    /// This message must go to this rank, and its answer will complete it.
    Sent(Rank, Message),
}

/// Starts an operation. A message that comes of it must be [numbered](numbered) before it is sent.
pub(crate) fn start(node: &Node, action: Action) -> Result<Started> {
    let (dst, src, bytes) = match action {
        Action::Copy { dst, src, bytes } => (dst, src, bytes),
        Action::Atomic { call, .. } => return start_atomic(node, call),
        Action::Call { to, service, bytes, few } => {
            return Ok(Started::Sent(to, calls::request(service, bytes, few)))
        }
        Action::Shape { to, address, bytes, recipe_bytes, wants } => {
            return Ok(Started::Sent(to, sections::request(address, bytes, recipe_bytes, wants)))
        }
    };
    let to = reach_side(node, dst, bytes)?.check_writable(bytes)?;
    let from = reach_side(node, src, bytes)?;
    let is_far = matches!(to, Reach::Remote(_)) || matches!(from, Reach::Remote(_));
    if !is_far && copy::move_here(node, to, from, bytes)? {
        return Ok(Started::Complete(None));
    }
    // What move_here could not do needs somebody else. A neighbour whose memory we may not copy is asked like a
    // rank of another node.
    let whole = |header: Header| Header { c: bytes, ..header };
    match (asks(node, to), asks(node, from)) {
        (Some(owner), None) => {
            let Side::Global(address, registration) = dst else { return Err(lent_elsewhere()) };
            if let Some(few) = read_few(node, from, bytes) {
                let header = few.in_header(about(frames::PUT_FEW, address, registration));
                return Ok(Started::Sent(owner, question(header, Payload::None)));
            }
            let header = whole(about(frames::PUT, address, registration));
            Ok(Started::Sent(owner, question(header, source_payload(src, bytes))))
        }
        (_, Some(owner)) => {
            let Side::Global(address, registration) = src else { return Err(lent_elsewhere()) };
            if asks(node, to).is_none() {
                let header = whole(about(frames::GET, address, registration));
                return Ok(Started::Sent(owner, question(header, Payload::None)));
            }
            let Side::Global(to, other) = dst else { return Err(lent_elsewhere()) };
            let header = whole(about(frames::COPY, address, registration));
            let header = Header { b: to.bits(), generation_b: other.generation(), ..header };
            Ok(Started::Sent(owner, question(header, Payload::None)))
        }
        (None, None) => Err(Error::Refused("memory of this node could not be copied".into())),
    }
}

/// A question with the number of its operation, whose payload may, or may not, be sent in place.
#[inline]
pub(crate) fn numbered(message: Message, id: u64, in_place: bool) -> Message {
    let mut message = message;
    message.header.op = id;
    if in_place && message.header.kind == frames::GET {
        message.header.flags |= frames::FLAG_IN_PLACE;
    }
    if let Payload::Lazy(source, _) = &mut message.payload {
        match source.kind & SOURCE_KINDS {
            SOURCE_LENT => source.kind |= id << 8 | in_place_flag(in_place),
            SOURCE_GLOBAL => source.kind |= in_place_flag(in_place),
            calls::SOURCE_REQUEST | sections::SOURCE_SECTION => source.place = id,
            _ => {}
        }
    }
    message
}

fn lent_elsewhere() -> Error {
    Error::misuse("memory of this process cannot be at another rank")
}

pub(crate) fn reach_side(node: &Node, side: Side, bytes: u64) -> Result<Reach> {
    match side {
        Side::Global(address, registration) => node.reach(address, registration, bytes),
        Side::Lent(pointer) => Ok(Reach::Direct(pointer as *mut u8)),
    }
}

/// Whom to ask for memory that this process cannot touch.
pub(crate) fn asks(node: &Node, reach: Reach) -> Option<Rank> {
    match reach {
        Reach::Direct(_) => None,
        Reach::Private(private) => {
            let touchable = private.rank() == node.rank || node.may_touch(private);
            (!touchable).then_some(private.rank())
        }
        Reach::Remote(rank) => Some(rank),
    }
}

/// A few bytes that this process can touch, read now; `None` if they are more, or cannot be read.
fn read_few(node: &Node, from: Reach, bytes: u64) -> Option<Few> {
    if bytes > FEW_BYTES as u64 {
        return None;
    }
    let mut few = Few::zeroes(bytes);
    copy::read_here(node, from, few.bytes_mut()).then_some(few)
}

/// The payload of a put, read when it can be sent.
fn source_payload(src: Side, bytes: u64) -> Payload {
    let source = match src {
        Side::Global(address, registration) => global_source(address, registration.generation(), false),
        Side::Lent(pointer) => Source { place: pointer as u64, kind: SOURCE_LENT },
    };
    Payload::Lazy(source, bytes)
}

pub(crate) fn global_source(address: GlobalAddress, generation: u16, in_place: bool) -> Source {
    let kind = SOURCE_GLOBAL | in_place_flag(in_place) | (generation as u64) << 8;
    Source { place: address.bits(), kind }
}

fn in_place_flag(in_place: bool) -> u64 {
    if in_place {
        SOURCE_IN_PLACE
    } else {
        0
    }
}

fn start_atomic(node: &Node, call: AtomicCall) -> Result<Started> {
    let bytes = atomic::width(call.code)?;
    let reach = node.reach(call.target, call.registration, bytes)?.check_writable(bytes)?;
    let (reach, _pin) = node.pin_own(reach)?;
    match reach {
        Reach::Direct(pointer) => {
            let old = atomic::perform(pointer, &call)?;
            node.wrote(pointer);
            Ok(Started::Complete(Some(old)))
        }
        Reach::Private(private) => Ok(ask_atomic(private.rank(), call)),
        Reach::Remote(rank) => Ok(ask_atomic(rank, call)),
    }
}

fn ask_atomic(owner: Rank, call: AtomicCall) -> Started {
    let header = about(frames::ATOMIC, call.target, call.registration);
    let header = Header { flags: call.code, b: call.first, c: call.second, ..header };
    Started::Sent(owner, question(header, Payload::None))
}

/// Stores the old value of an atomic; if its place is elsewhere, gives the put that does it.
pub(crate) fn store_value(
    node: &Node,
    dst: GlobalAddress,
    old: u64,
    code: u8,
) -> Result<Option<(Rank, Message)>> {
    let bytes = atomic::width(code)?;
    let value = &old.to_le_bytes()[..bytes as usize];
    let reach = node.reach(dst, Registration::ANY, bytes)?;
    if copy::write_here(node, reach, value)? {
        return Ok(None);
    }
    let owner = match reach {
        Reach::Private(private) => private.rank(),
        Reach::Remote(rank) => rank,
        Reach::Direct(_) => return Err(Error::Refused("memory of this node could not be written".into())),
    };
    let few = Few::new(value).ok_or_else(|| Error::misuse("a value wider than a word"))?;
    let header = few.in_header(about(frames::PUT_FEW, dst, Registration::ANY));
    Ok(Some((owner, question(header, Payload::None))))
}

/// Whether the old value of an atomic must be sent to its place.
pub(crate) fn needs_delivery(node: &Node, dst: GlobalAddress, code: u8) -> Result<bool> {
    let bytes = atomic::width(code)?;
    let reach = node.reach(dst, Registration::ANY, bytes)?.check_writable(bytes)?;
    Ok(asks(node, reach).is_some())
}
