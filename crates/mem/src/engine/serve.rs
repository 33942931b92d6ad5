//! What is done with memory when an operation starts or a frame comes: the owner's side and the initiator's side.
//!
//! What is done for a peer runs under the lock of the engine, and unregistering waits for that; what is done for the
//! program itself may run without, and pins private memory instead.

use crate::drive::core::Core;
use crate::drive::wait::Receiver;
use crate::engine::calls;
use crate::engine::frames::{self, about, answer, question, Few, Signal, FEW_BYTES};
use crate::engine::operations::{Action, AtomicCall, Client, Operation, Operations, Side, FIRST_INTERNAL};
use crate::engine::order::Condition;
use crate::node::access::{Access, Reach};
use crate::node::address::{GlobalAddress, Registration};
use crate::node::atomic;
use crate::node::copy;
use crate::{Error, Result};
use kumiki_net::contract::{Message, Outbox, Payload, Source, FLAG_MORE};
use kumiki_net::os::socket::{Lent, Place};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::sync::atomic::Ordering;

/// `Source::kind` for global memory of this node; the place is an address, the generation is above.
const SOURCE_GLOBAL: u64 = 1;
/// `Source::kind` for memory that the caller of an operation lends; the number of the operation is above.
const SOURCE_LENT: u64 = 2;
/// Set in `Source::kind` of a payload that may be sent in place.
const SOURCE_IN_PLACE: u64 = 0x80;
const SOURCE_KINDS: u64 = 0x7f;
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

/// Starts an operation; one that is `repeated` with a payload that is copied before it is sent.
pub(crate) fn start(core: &Core, id: u64, action: Action, repeated: bool) -> Result<Started> {
    match action {
        Action::Copy { dst, src, bytes } => {
            let in_place = !repeated && core.sends_in_place(bytes);
            start_copy(core, id, dst, src, bytes, in_place)
        }
        Action::Atomic { call, .. } => start_atomic(core, id, call),
        Action::Call { to, service, bytes, few } => {
            Ok(Started::Sent(to, calls::request(id, service, bytes, few)))
        }
    }
}

fn start_copy(core: &Core, id: u64, dst: Side, src: Side, bytes: u64, in_place: bool) -> Result<Started> {
    let to = reach_side(core, dst, bytes)?.check_writable(bytes)?;
    let from = reach_side(core, src, bytes)?;
    let is_far = matches!(to, Reach::Remote(_)) || matches!(from, Reach::Remote(_));
    if !is_far && copy::move_here(core, to, from, bytes)? {
        return Ok(Started::Complete(None));
    }
    // What move_here could not do needs somebody else. A neighbour whose memory we may not copy is asked like a
    // rank of another node.
    let whole = |header: Header| Header { c: bytes, ..header };
    match (asks(core, to), asks(core, from)) {
        (Some(owner), None) => {
            let Side::Global(address, registration) = dst else { return Err(lent_elsewhere()) };
            if let Some(few) = read_few(core, from, bytes) {
                let header = few.in_header(about(frames::PUT_FEW, id, address, registration));
                return Ok(Started::Sent(owner, question(header, Payload::None)));
            }
            let header = whole(about(frames::PUT, id, address, registration));
            Ok(Started::Sent(owner, question(header, source_payload(id, src, bytes, in_place))))
        }
        (_, Some(owner)) => {
            let Side::Global(address, registration) = src else { return Err(lent_elsewhere()) };
            if asks(core, to).is_none() {
                let header = whole(about(frames::GET, id, address, registration));
                let header = Header { flags: if in_place { frames::FLAG_IN_PLACE } else { 0 }, ..header };
                return Ok(Started::Sent(owner, question(header, Payload::None)));
            }
            let Side::Global(to, other) = dst else { return Err(lent_elsewhere()) };
            let header = whole(about(frames::COPY, id, address, registration));
            let header = Header { b: to.bits(), generation_b: other.generation(), ..header };
            Ok(Started::Sent(owner, question(header, Payload::None)))
        }
        (None, None) => Err(Error::Refused("memory of this node could not be copied".into())),
    }
}

/// Whether `next` may be sent right behind `previous`, which is not complete, and still take effect after it: both
/// first go to the same rank, which takes frames in order, and neither needs what the other brings back.
pub(crate) fn pipelines(core: &Core, previous: &Operation, next: Action) -> bool {
    let Some(peer) = previous.peer else { return false };
    if previous.action.may_be_repeated() {
        return false;
    }
    match (question_kind(core, previous.action), question_kind(core, next)) {
        (Some((frames::PUT, _)), Some((_, to))) => to == peer,
        // The old value comes back here before the answer to the next question, but no earlier: that is in time if
        // its place is ours, where neither the peer nor whoever the peer pushes to can meet it.
        (Some((frames::ATOMIC, _)), Some((frames::GET | frames::ATOMIC, to))) => {
            to == peer && old_value_stays_here(core, previous.action)
        }
        _ => false,
    }
}

/// What `next` must wait for so as not to overtake a copy from the same rank to the same rank (an atomic: any copy to the
/// rank of its word): nothing, if there is no such copy, or if the way itself keeps them in order.
pub(crate) fn turn(core: &Core, operations: &Operations, next: Action) -> Condition {
    let Some((from, to)) = ends(core, next) else { return Condition::Free };
    let same_way = |operation: &Operation| match operation.action {
        Action::Copy { .. } => ends(core, operation.action)
            .is_some_and(|ends| ends.1 == to && (ends.0 == from || matches!(next, Action::Atomic { .. }))),
        Action::Atomic { .. } | Action::Call { .. } => false,
    };
    let keeps_order = |previous: &Operation| match (
        previous.peer,
        question_kind(core, previous.action),
        question_kind(core, next),
    ) {
        (None, ..) => false,
        _ if previous.action.may_be_repeated() => false,
        (_, Some((frames::PUT, one)), Some((frames::PUT | frames::ATOMIC, other))) => one == other,
        // Answers come back in the order of the questions.
        (_, Some((frames::GET, one)), Some((frames::GET, other))) => one == other,
        // The source's side pushes all of them over one connection, unless it can touch the destination itself.
        (_, Some((frames::COPY, one)), Some((frames::COPY, other))) => {
            one == other && node_of(core, from) != node_of(core, to)
        }
        _ => false,
    };
    // Those before the latest are in order with it, but for large ones, any of which may be sent again.
    let latest = operations.latest().find(|(_, operation)| same_way(operation));
    let latest = latest.filter(|(_, operation)| !keeps_order(operation));
    let large = operations.latest_large().filter(|(_, operation)| same_way(operation));
    let mut ahead: Vec<u64> = latest.into_iter().chain(large).map(|(id, _)| id).collect();
    ahead.dedup();
    match ahead[..] {
        [] => Condition::Free,
        [id] => Condition::Exactly(id),
        [id, ..] => Condition::UpTo(id),
    }
}

/// From which rank to which rank an operation brings something.
fn ends(core: &Core, action: Action) -> Option<(Rank, Rank)> {
    let rank = |side: Side| match side {
        Side::Global(address, _) => Some(core.format.rank(address)),
        Side::Lent(_) => None,
    };
    match action {
        Action::Copy { dst, src, .. } => Some((rank(src)?, rank(dst)?)),
        Action::Atomic { call, .. } => Some((core.rank, core.format.rank(call.target))),
        Action::Call { .. } => None,
    }
}

fn node_of(core: &Core, rank: Rank) -> Option<u32> {
    core.arena.place(rank).map(|word| word.load().node)
}

fn old_value_stays_here(core: &Core, action: Action) -> bool {
    match action {
        Action::Atomic { dst: Some(dst), .. } => core.format.rank(dst) == core.rank,
        Action::Atomic { dst: None, .. } => true,
        Action::Copy { .. } | Action::Call { .. } => false,
    }
}

/// Which question an operation starts with, and to whom; `None` if it needs none.
fn question_kind(core: &Core, action: Action) -> Option<(u8, Rank)> {
    match action {
        Action::Atomic { call, .. } => {
            let reach = core.reach(call.target, call.registration, 4).ok()?;
            match reach {
                Reach::Direct(_) => None,
                Reach::Private(private) if private.rank() == core.rank => None,
                Reach::Private(private) => Some((frames::ATOMIC, private.rank())),
                Reach::Remote(rank) => Some((frames::ATOMIC, rank)),
            }
        }
        Action::Copy { dst, src, bytes } => {
            let to = asks(core, reach_side(core, dst, bytes).ok()?);
            let from = asks(core, reach_side(core, src, bytes).ok()?);
            match (to, from) {
                (Some(owner), None) => Some((frames::PUT, owner)),
                (None, Some(owner)) => Some((frames::GET, owner)),
                (Some(_), Some(owner)) => Some((frames::COPY, owner)),
                (None, None) => None,
            }
        }
        Action::Call { to, .. } => Some((frames::CALL, to)),
    }
}

fn lent_elsewhere() -> Error {
    Error::misuse("memory of this process cannot be at another rank")
}

fn reach_side(core: &Core, side: Side, bytes: u64) -> Result<Reach> {
    match side {
        Side::Global(address, registration) => core.reach(address, registration, bytes),
        Side::Lent(pointer) => Ok(Reach::Direct(pointer as *mut u8)),
    }
}

/// Whom to ask for memory that this process cannot touch.
fn asks(core: &Core, reach: Reach) -> Option<Rank> {
    match reach {
        Reach::Direct(_) => None,
        Reach::Private(private) => {
            let touchable = private.rank() == core.rank || core.may_touch(private);
            (!touchable).then_some(private.rank())
        }
        Reach::Remote(rank) => Some(rank),
    }
}

/// A few bytes that this process can touch, read now; `None` if they are more, or cannot be read.
fn read_few(core: &Core, from: Reach, bytes: u64) -> Option<Few> {
    if bytes > FEW_BYTES as u64 {
        return None;
    }
    let mut few = Few::zeroes(bytes);
    copy::read_here(core, from, few.bytes_mut()).then_some(few)
}

/// The payload of a put, read when it can be sent.
fn source_payload(id: u64, src: Side, bytes: u64, in_place: bool) -> Payload {
    let source = match src {
        Side::Global(address, registration) => global_source(address, registration.generation(), in_place),
        Side::Lent(pointer) => {
            Source { place: pointer as u64, kind: SOURCE_LENT | in_place_flag(in_place) | id << 8 }
        }
    };
    Payload::Lazy(source, bytes)
}

fn global_source(address: GlobalAddress, generation: u16, in_place: bool) -> Source {
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

fn start_atomic(core: &Core, id: u64, call: AtomicCall) -> Result<Started> {
    let bytes = atomic::width(call.code)?;
    let reach = core.reach(call.target, call.registration, bytes)?.check_writable(bytes)?;
    let (reach, _pin) = core.pin_own(reach)?;
    match reach {
        Reach::Direct(pointer) => atomic::perform(pointer, &call).map(|old| Started::Complete(Some(old))),
        Reach::Private(private) => Ok(ask_atomic(id, private.rank(), call)),
        Reach::Remote(rank) => Ok(ask_atomic(id, rank, call)),
    }
}

fn ask_atomic(id: u64, owner: Rank, call: AtomicCall) -> Started {
    let header = about(frames::ATOMIC, id, call.target, call.registration);
    let header = Header { flags: call.code, b: call.first, c: call.second, ..header };
    Started::Sent(owner, question(header, Payload::None))
}

/// Stores the old value of an atomic; if its place is elsewhere, gives the put that does it.
pub(crate) fn store_value(
    core: &Core,
    id: u64,
    dst: GlobalAddress,
    old: u64,
    code: u8,
) -> Result<Option<(Rank, Message)>> {
    let bytes = atomic::width(code)?;
    let value = &old.to_le_bytes()[..bytes as usize];
    let reach = core.reach(dst, Registration::ANY, bytes)?;
    if copy::write_here(core, reach, value)? {
        return Ok(None);
    }
    let owner = match reach {
        Reach::Private(private) => private.rank(),
        Reach::Remote(rank) => rank,
        Reach::Direct(_) => return Err(Error::Refused("memory of this node could not be written".into())),
    };
    let few = Few::new(value).ok_or_else(|| Error::misuse("a value wider than a word"))?;
    let header = few.in_header(about(frames::PUT_FEW, id, dst, Registration::ANY));
    Ok(Some((owner, question(header, Payload::None))))
}

/// Whether the old value of an atomic must be sent to its place.
pub(crate) fn needs_delivery(core: &Core, dst: GlobalAddress, code: u8) -> Result<bool> {
    let bytes = atomic::width(code)?;
    let reach = core.reach(dst, Registration::ANY, bytes)?.check_writable(bytes)?;
    Ok(asks(core, reach).is_some())
}

/// Puts a part of a payload where its header says. What may not be written is dropped: false, and the answer will say
/// so.
pub(crate) fn land(core: &Core, operations: &Operations, header: &Header, at: u32, bytes: &[u8]) -> bool {
    let offset = header.d.saturating_add(at as u64);
    let reach = match header.kind {
        frames::PUT => {
            let whole = asked_for(core, header, Access::Write);
            match whole {
                Ok(start) if within(offset, bytes.len(), header.c) => {
                    // SAFETY: the whole range was checked, and the part lies within it.
                    Some(Reach::Direct(unsafe { start.add(offset as usize) }))
                }
                _ => return false,
            }
        }
        frames::DATA => match operations.get(header.op).map(|operation| operation.action) {
            Some(Action::Copy { dst, bytes: whole, .. }) if within(offset, bytes.len(), whole) => match dst {
                Side::Lent(pointer) => Some(Reach::Direct((pointer + offset as usize) as *mut u8)),
                Side::Global(address, registration) => {
                    core.reach(address.add(offset), registration, bytes.len() as u64).ok()
                }
            },
            _ => return false,
        },
        _ => return false,
    };
    reach.is_some_and(|reach| copy::write_here(core, reach, bytes).unwrap_or(false))
}

/// Shows the memory where a part of a payload belongs that was sent in place; the engine is held meanwhile. Only what this rank
/// has asked for and has a place of its own for: whoever asked for something waits for it. What others put somewhere may be
/// answered there as soon as it is seen, and the answer would count as damage.
pub(crate) fn place<'a>(
    core: &'a Core,
    operations: &'a Operations,
    header: &Header,
    at: u32,
    bytes: usize,
) -> Option<Place<'a>> {
    let operation = operations.get(header.op).filter(|_| header.kind == frames::DATA)?;
    let offset = header.d.checked_add(at as u64)?;
    let pointer = match operation.action {
        Action::Copy { dst, bytes: whole, .. } if within(offset, bytes, whole) => match dst {
            Side::Lent(pointer) => (pointer + offset as usize) as *mut u8,
            Side::Global(address, registration) => {
                owned(core, address.add(offset), registration, bytes as u64, Access::Write).ok()?
            }
        },
        _ => return None,
    };
    // SAFETY: the range was checked. The arena stays mapped with the world; private memory, until the engine is free; lent
    // memory, while its operation is in the table, which is changed with the engine held.
    Some(unsafe { Place::new(pointer, bytes) })
}

fn within(offset: u64, length: usize, whole: u64) -> bool {
    offset.checked_add(length as u64).is_some_and(|end| end <= whole)
}

/// Fills a piece of a payload that is about to be sent.
pub(crate) fn fill(
    core: &Core,
    operations: &Operations,
    source: Source,
    offset: u64,
    place: &mut [u8],
) -> bool {
    let reach = reach_source(core, operations, source, offset, place.len());
    reach.is_some_and(|reach| copy::read_here(core, reach, place))
}

/// Shows the memory of a piece of a payload that is about to be sent in place; the engine is held meanwhile.
pub(crate) fn lend<'a>(
    core: &'a Core,
    operations: &'a Operations,
    source: Source,
    offset: u64,
    bytes: usize,
) -> Option<Lent<'a>> {
    if source.kind & SOURCE_IN_PLACE == 0 {
        return None;
    }
    let pointer = match reach_source(core, operations, source, offset, bytes)? {
        Reach::Direct(pointer) => pointer,
        Reach::Private(private) if private.rank() == core.rank => private.pointer(),
        Reach::Private(_) | Reach::Remote(_) => return None,
    };
    // SAFETY: the range was checked. The arena stays mapped with the world; private memory, until the engine is free; lent
    // memory, while its operation is in the table, which is changed with the engine held.
    Some(unsafe { Lent::new(pointer, bytes) })
}

/// Where a piece of a payload lies now.
fn reach_source(
    core: &Core,
    operations: &Operations,
    source: Source,
    offset: u64,
    bytes: usize,
) -> Option<Reach> {
    let detail = source.kind >> 8;
    match source.kind & SOURCE_KINDS {
        SOURCE_GLOBAL => {
            let address = GlobalAddress::from_bits(source.place).add(offset);
            core.reach(address, Registration::of_generation(detail as u16), bytes as u64).ok()
        }
        // The caller lends the memory while the operation is in the table, and no longer.
        SOURCE_LENT if operations.get(detail).is_some() => {
            Some(Reach::Direct((source.place + offset) as usize as *mut u8))
        }
        _ => None,
    }
}

/// A payload could not be sent because its memory is gone: tells whoever waits for it.
pub(crate) fn withdrawn(receiver: &mut Receiver<'_>, to: Rank, header: &Header, out: &mut Outbox) {
    let error = Error::Bounds {
        what: "the source was unregistered while it was being sent",
        address: header.a,
        rank: receiver.core.rank.0,
        bytes: header.c,
    };
    match header.kind {
        frames::PUT => receiver.complete(header.op, Err(error), out),
        // `b` of a Data header is the path of its question, for this case.
        frames::DATA => {
            out.messages.push((to, frames::done(header.op, &Err(error), header.b as u32)));
        }
        _ => {}
    }
}

/// A message came torn: what it brought must come again, copied. True if it is an answer.
pub(crate) fn torn(
    receiver: &mut Receiver<'_>,
    from: Rank,
    path: u32,
    header: &Header,
    out: &mut Outbox,
) -> bool {
    match header.kind {
        frames::PUT => {
            out.messages.push((from, frames::torn(header.op, path)));
            false
        }
        frames::DATA => {
            repeat(receiver, from, header.op, out);
            true
        }
        // Nothing else is sent in place.
        _ => false,
    }
}

/// Starts a copy once more, whose payload was torn.
fn repeat(receiver: &mut Receiver<'_>, from: Rank, op: u64, out: &mut Outbox) {
    receiver.core.copy_for_a_while();
    // It is said of copies only: an atomic is never done twice.
    let is_copy = |operation: &&mut Operation| matches!(operation.action, Action::Copy { .. });
    let Some(operation) = receiver.state.operations.get_mut(op).filter(is_copy) else { return };
    if std::mem::replace(&mut operation.repeated, true) {
        let why = format!(
            "what was copied and sent a second time came damaged all the same, by the word of {from}"
        );
        return receiver.complete(op, Err(Error::Refused(why)), out);
    }
    let action = operation.action;
    receiver.start(op, action, out);
}

/// A frame is complete: does what it asks, or takes it as the answer of the rank that was asked. True if it is an answer.
pub(crate) fn frame(
    receiver: &mut Receiver<'_>,
    from: Rank,
    path: u32,
    header: &Header,
    out: &mut Outbox,
) -> bool {
    match header.kind {
        frames::PUT => serve_put(receiver.core, from, path, header, out),
        frames::PUT_FEW => serve_put_few(receiver.core, from, path, header, out),
        frames::GET => serve_get(receiver.core, from, path, header, out),
        frames::COPY => serve_copy(receiver, from, path, header, out),
        frames::ATOMIC => serve_atomic(receiver.core, from, path, header, out),
        // What barriers believe comes from one rank a round.
        frames::SIGNAL if !receiver.core.is_signaller(from, header.a) => {}
        frames::SIGNAL => {
            let signal = Signal::of(header, receiver.core.ranks());
            if let Some(place) = receiver.state.signals.get_mut(header.a as usize) {
                if signal.epoch >= place.epoch {
                    *place = signal;
                }
                receiver.state.stirred = true;
            }
            if let Some(discord) = signal.discord() {
                receiver.state.discord.get_or_insert((signal.epoch, discord));
                // Whoever has not come to it yet looks when it does.
                if signal.epoch <= receiver.core.epoch.load(Ordering::SeqCst) {
                    receiver.core.break_up(discord);
                }
            }
        }
        frames::NUDGE => {
            let header = Header { kind: frames::NUDGED, ..Header::default() };
            out.messages.push((from, answer(header, Payload::None, path)));
        }
        frames::NUDGED => return true,
        frames::CALL if header.flags & FLAG_MORE == 0 => calls::serve(receiver, from, path, header, out),
        frames::RETURN if header.flags & FLAG_MORE != 0 => {}
        frames::RETURN => {
            let result = calls::take_reply(receiver, from, header);
            receiver.complete(header.op, result, out);
            return true;
        }
        frames::DATA if header.flags & FLAG_MORE != 0 => {}
        frames::DATA => {
            let whole = if receiver.state.operations.is_spoiled(header.op) {
                Err(spoiled(receiver, header))
            } else {
                Ok(None)
            };
            receiver.complete(header.op, whole, out);
            return true;
        }
        frames::DATA_FEW => {
            let landed = land_few(receiver, header);
            receiver.complete(header.op, landed, out);
            return true;
        }
        frames::VALUE => {
            receiver.complete(header.op, Ok(Some(header.b)), out);
            return true;
        }
        frames::DONE if frames::is_torn(header) => {
            repeat(receiver, from, header.op, out);
            return true;
        }
        frames::DONE => {
            // What a third party refused is its own, whoever passed the refusal on.
            let result = frames::result_of(from, header).map_err(|error| match error {
                Error::Bounds { what, address, bytes, .. } if address != 0 => {
                    let rank = receiver.core.format.rank(GlobalAddress::from_bits(address));
                    Error::Bounds { what, address, rank: rank.0, bytes }
                }
                other => other,
            });
            receiver.complete(header.op, result.map(|()| None), out);
            return true;
        }
        _ => {}
    }
    false
}

/// What an initiator is told when the data came and its place was gone.
fn spoiled(receiver: &Receiver<'_>, header: &Header) -> Error {
    let what = "the destination was unregistered while the data came";
    let (address, bytes) = match receiver.state.operations.get(header.op).map(|operation| operation.action) {
        Some(Action::Copy { dst: Side::Global(address, _), bytes, .. }) => (address.bits(), bytes),
        _ => (0, 0),
    };
    Error::Bounds { what, address, rank: receiver.core.rank.0, bytes }
}

fn serve_put(core: &Core, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    if header.flags & FLAG_MORE != 0 {
        return;
    }
    let reached = asked_for(core, header, Access::Write).map(drop);
    out.messages.push((from, frames::done(header.op, &reached, path)));
}

fn serve_put_few(core: &Core, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let few = Few::of(header).ok_or_else(|| Error::misuse("more bytes than a header carries"));
    let put = few.and_then(|few| {
        let place = asked_for(core, header, Access::Write)?;
        copy::write_here(core, Reach::Direct(place), few.bytes()).map(drop)
    });
    out.messages.push((from, frames::done(header.op, &put, path)));
}

/// Puts a few bytes of an answer where the operation wants them.
fn land_few(receiver: &Receiver<'_>, header: &Header) -> Result<Option<u64>> {
    let operation = receiver.state.operations.get(header.op);
    let (Some(few), Some(Action::Copy { dst, bytes, .. })) =
        (Few::of(header), operation.map(|operation| operation.action))
    else {
        return Err(spoiled(receiver, header));
    };
    if bytes != header.c {
        return Err(spoiled(receiver, header));
    }
    let reach = reach_side(receiver.core, dst, bytes)?;
    if copy::write_here(receiver.core, reach, few.bytes())? {
        return Ok(None);
    }
    Err(spoiled(receiver, header))
}

/// Reaches the memory that a question of a peer is about.
fn asked_for(core: &Core, header: &Header, access: Access) -> Result<*mut u8> {
    let registration = frames::registration(&core.format, core.rank, header);
    owned(core, GlobalAddress::from_bits(header.a), registration, header.c, access)
}

/// Reaches memory on behalf of a peer, with the engine held: it must be this rank's own.
fn owned(
    core: &Core,
    address: GlobalAddress,
    registration: Registration,
    bytes: u64,
    access: Access,
) -> Result<*mut u8> {
    let rank = core.format.rank(address);
    let reach = core.reach(address, registration, bytes)?;
    match if access == Access::Write { reach.check_writable(bytes)? } else { reach } {
        Reach::Direct(pointer) if rank == core.rank => Ok(pointer),
        Reach::Private(private) if rank == core.rank => Ok(private.pointer()),
        _ => Err(Error::Bounds {
            what: "memory of another rank",
            address: address.bits(),
            rank: rank.0,
            bytes,
        }),
    }
}

fn serve_get(core: &Core, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let address = GlobalAddress::from_bits(header.a);
    let reply = Header { kind: frames::DATA, op: header.op, b: path as u64, ..Header::default() };
    let message = match asked_for(core, header, Access::Read) {
        Err(error) => frames::done(header.op, &Err(error), path),
        Ok(_) if header.c == 0 => frames::done(header.op, &Ok(()), path),
        Ok(pointer) if header.c <= FEW_BYTES as u64 => {
            let mut few = Few::zeroes(header.c);
            copy::read_here(core, Reach::Direct(pointer), few.bytes_mut());
            answer(few.in_header(Header { kind: frames::DATA_FEW, ..reply }), Payload::None, path)
        }
        Ok(_) => {
            let in_place = header.flags & frames::FLAG_IN_PLACE != 0 && core.sends_in_place(header.c);
            let source = global_source(address, header.generation, in_place);
            answer(reply, Payload::Lazy(source, header.c), path)
        }
    };
    out.messages.push((from, message));
}

/// A third party wants our memory copied to somebody: an operation of ours whose client is that third party.
fn serve_copy(receiver: &mut Receiver<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let src = GlobalAddress::from_bits(header.a);
    let dst = GlobalAddress::from_bits(header.b);
    let [from_region, to_region] = [header.generation, header.generation_b].map(Registration::of_generation);
    if let Err(error) = owned(receiver.core, src, from_region, header.c, Access::Read) {
        out.messages.push((from, frames::done(header.op, &Err(error), path)));
        return;
    }
    let id = receiver.core.new_internal();
    let action = Action::Copy {
        dst: Side::Global(dst, to_region),
        src: Side::Global(src, from_region),
        bytes: header.c,
    };
    let client = Client::Peer { rank: from, path, op: header.op };
    let mut operation =
        Operation { client, peer: Some(from), ..Operation::of_program(action, Condition::Free) };
    match start(receiver.core, id, action, false) {
        Ok(Started::Sent(peer, message)) => {
            operation.peer = Some(peer);
            receiver.state.operations.insert(id, operation);
            out.messages.push((peer, frames::relayed(message)));
        }
        Ok(Started::Complete(_)) => out.messages.push((from, frames::done(header.op, &Ok(()), path))),
        Err(error) => out.messages.push((from, frames::done(header.op, &Err(error), path))),
    }
}

fn serve_atomic(core: &Core, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let call = AtomicCall {
        target: GlobalAddress::from_bits(header.a),
        registration: frames::registration(&core.format, core.rank, header),
        code: header.flags,
        first: header.b,
        second: header.c,
    };
    let message = match perform_owned(core, &call) {
        Ok(old) => {
            let reply = Header { kind: frames::VALUE, op: header.op, b: old, ..Header::default() };
            answer(reply, Payload::None, path)
        }
        Err(error) => frames::done(header.op, &Err(error), path),
    };
    out.messages.push((from, message));
}

/// Does an atomic for a peer, with the engine held: on a word that must be this rank's own.
pub(crate) fn perform_owned(core: &Core, call: &AtomicCall) -> Result<u64> {
    let bytes = atomic::width(call.code)?;
    atomic::perform(owned(core, call.target, call.registration, bytes, Access::Write)?, call)
}
