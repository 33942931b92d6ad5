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
        Action::Call { to, service, leeway, bytes, few } => {
            return Ok(Started::Sent(to, calls::request(service, leeway, bytes, few)))
        }
        Action::Shape { to, digest, bytes, recipe_bytes, wants } => {
            return Ok(Started::Sent(to, sections::request(digest, bytes, recipe_bytes, wants)))
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
        Reach::Private(private) if private.rank() == node.rank => None,
        other => {
            let touchable = other.with_kind(|kind| kind.may_touch(node)).unwrap_or(false);
            other.owner().filter(|_| !touchable)
        }
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
    if let Some(pointer) = reach.word() {
        let old = atomic::perform(pointer, &call)?;
        node.wrote(pointer);
        return Ok(Started::Complete(Some(old)));
    }
    reach.owner().map(|owner| ask_atomic(owner, call)).ok_or_else(unreachable_here)
}

/// What can neither be touched here nor asked for is of no kind that there is.
fn unreachable_here() -> Error {
    Error::Refused("memory of this node could not be written".into())
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
    let owner = reach.owner().ok_or_else(unreachable_here)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stage::Stage;
    use kumiki_net::contract::IN_PLACE_BYTES;

    /// The question that an action of rank 0 becomes, and for whom.
    fn asked(stage: &Stage, action: Action) -> (u32, Message) {
        match start(&stage.nodes[0], action).expect("it starts") {
            Started::Sent(peer, message) => (peer.0, message),
            Started::Complete(_) => panic!("{action:?} asks nobody"),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn what_can_be_done_here_asks_nobody() {
        let stage = Stage::new(2);
        stage.write(0, 0, b"abcdefgh");
        let done = start(&stage.nodes[0], stage.copy((0, 64), (0, 0), 8)).expect("it starts");
        assert!(matches!(done, Started::Complete(None)));
        assert_eq!(stage.read(0, 64, 8), b"abcdefgh");
        let call = stage.adding(0, 128, 5);
        for old in [0, 5] {
            let done = start(&stage.nodes[0], Action::Atomic { dst: None, call }).expect("it starts");
            assert!(matches!(done, Started::Complete(Some(value)) if value == old));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn whoever_has_the_other_side_is_asked_and_of_two_the_one_with_the_source() {
        let stage = Stage::new(3);
        stage.write(0, 0, b"few");
        for (to, from, bytes, wanted) in [
            ((1, 8), (0, 0), 3, (1, frames::PUT_FEW)),
            ((1, 8), (0, 0), 64, (1, frames::PUT)),
            ((0, 8), (1, 0), 3, (1, frames::GET)),
            ((2, 8), (1, 0), 3, (1, frames::COPY)),
            ((1, 8), (2, 0), 64, (2, frames::COPY)),
            ((1, 8), (1, 0), 64, (1, frames::COPY)),
        ] {
            let (peer, message) = asked(&stage, stage.copy(to, from, bytes));
            assert_eq!((peer, message.header.kind), wanted, "{from:?} to {to:?}, {bytes} bytes");
            assert_eq!(message.header.c, bytes);
            assert!(message.expects_answer);
            let about = if matches!(wanted.1, frames::GET | frames::COPY) { from } else { to };
            assert_eq!(message.header.a, stage.address(about.0, about.1).bits());
        }
        let (_, few) = asked(&stage, stage.copy((1, 8), (0, 0), 3));
        assert_eq!(Few::of(&few.header).expect("few").bytes(), b"few", "they travel in the header");
        let (_, copy) = asked(&stage, stage.copy((2, 8), (1, 0), 3));
        assert_eq!(copy.header.b, stage.address(2, 8).bits(), "and where to is said");
        let (peer, atomic) = asked(&stage, Action::Atomic { dst: None, call: stage.adding(2, 0, 5) });
        assert_eq!((peer, atomic.header.kind, atomic.header.b), (2, frames::ATOMIC, 5));
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn what_is_not_there_is_refused_before_anybody_is_asked() {
        let stage = Stage::new(2);
        for action in [
            stage.copy((1, 0), (0, 4090), 64),
            stage.copy((0, 4090), (1, 0), 64),
            Action::Atomic { dst: None, call: stage.adding(0, 4096, 1) },
        ] {
            assert!(
                matches!(start(&stage.nodes[0], action), Err(Error::Bounds { rank: 0, .. })),
                "{action:?}"
            );
        }
        let call = AtomicCall { code: 0, ..stage.adding(1, 0, 1) };
        assert!(matches!(start(&stage.nodes[0], Action::Atomic { dst: None, call }), Err(Error::Misuse(_))));
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_payload_carries_the_number_by_which_its_memory_is_found() {
        let stage = Stage::new(2);
        let memory = [7u8; 64];
        let lent = Side::Lent(memory.as_ptr() as usize);
        let source = |message: Message| match message.payload {
            Payload::Lazy(source, bytes) => (source.kind, bytes),
            other => panic!("{other:?}"),
        };
        let (_, put) = asked(&stage, Action::Copy { dst: stage.side(1, 0), src: lent, bytes: 64 });
        let put = numbered(put, 0x1234, false);
        assert_eq!(put.header.op, 0x1234);
        assert_eq!(source(put), (SOURCE_LENT | 0x1234 << 8, 64));
        let (_, put) = asked(&stage, stage.copy((1, 0), (0, 0), 64));
        let (kind, _) = source(numbered(put, 0x1234, true));
        assert_eq!(kind & SOURCE_KINDS, SOURCE_GLOBAL);
        assert_ne!(kind & SOURCE_IN_PLACE, 0);
        for (in_place, flags) in [(false, 0), (true, frames::FLAG_IN_PLACE)] {
            let (_, get) = asked(&stage, stage.copy((0, 0), (1, 0), 64.min(IN_PLACE_BYTES)));
            assert_eq!(numbered(get, 1, in_place).header.flags, flags);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn the_old_value_of_an_atomic_is_stored_here_or_put_where_it_belongs() {
        let stage = Stage::new(2);
        let code = stage.adding(0, 0, 1).code;
        for (rank, is_far) in [(0, false), (1, true)] {
            let place = stage.address(rank, 8);
            assert_eq!(needs_delivery(&stage.nodes[0], place, code), Ok(is_far));
            let sent = store_value(&stage.nodes[0], place, 99, code).expect("it is stored or sent");
            let sent = sent.map(|(peer, message)| (peer.0, message.header.kind, message.header.b));
            assert_eq!(sent, is_far.then_some((1, frames::PUT_FEW, 99)));
        }
        assert_eq!(stage.word(0, 8), 99);
        let beyond = stage.address(0, 4096);
        assert!(needs_delivery(&stage.nodes[0], beyond, code).is_err());
    }
}
