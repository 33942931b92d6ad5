//! What is done when a frame comes: what it asks, if it is a question, and what its operation waits for, if it is an answer.
//!
//! All of it runs while the engine is held, and unregistering waits for that: private memory needs no pin here.

use crate::engine::calls;
use crate::engine::frames::{self, answer, Few, FEW_BYTES};
use crate::engine::operations::{Action, Client, Operation, Operations, Side};
use crate::engine::order::Condition;
use crate::engine::start::{
    self, global_source, reach_side, Started, SOURCE_GLOBAL, SOURCE_IN_PLACE, SOURCE_KINDS, SOURCE_LENT,
};
use crate::engine::{Feed, COPIED_AFTER_TORN};
use crate::node::access::{Access, Reach};
use crate::node::address::{GlobalAddress, Registration};
use crate::node::atomic::{self, AtomicCall};
use crate::node::{copy, Node};
use crate::{Error, Result};
use kumiki_net::contract::{Message, Outbox, Payload, Source, FLAG_MORE};
use kumiki_net::os::socket::{Lent, Place};
use kumiki_net::wire::Header;
use kumiki_net::Rank;

/// Puts a part of a payload where its header says. What may not be written is dropped: false, and the answer will say
/// so.
pub(crate) fn land(node: &Node, operations: &Operations, header: &Header, at: u32, bytes: &[u8]) -> bool {
    let offset = header.d.saturating_add(at as u64);
    let reach = match header.kind {
        frames::PUT => {
            let whole = asked_for(node, header, Access::Write);
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
                    node.reach(address.add(offset), registration, bytes.len() as u64).ok()
                }
            },
            _ => return false,
        },
        _ => return false,
    };
    reach.is_some_and(|reach| copy::write_here(node, reach, bytes).unwrap_or(false))
}

/// Shows the memory where a part of a payload belongs that was sent in place; the engine is held meanwhile. Only what this rank
/// has asked for and has a place of its own for: whoever asked for something waits for it. What others put somewhere may be
/// answered there as soon as it is seen, and the answer would count as damage.
pub(crate) fn place<'a>(
    node: &'a Node,
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
                owned(node, address.add(offset), registration, bytes as u64, Access::Write).ok()?
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
    node: &Node,
    operations: &Operations,
    source: Source,
    offset: u64,
    place: &mut [u8],
) -> bool {
    let reach = reach_source(node, operations, source, offset, place.len());
    reach.is_some_and(|reach| copy::read_here(node, reach, place))
}

/// Shows the memory of a piece of a payload that is about to be sent in place; the engine is held meanwhile.
pub(crate) fn lend<'a>(
    node: &'a Node,
    operations: &'a Operations,
    source: Source,
    offset: u64,
    bytes: usize,
) -> Option<Lent<'a>> {
    if source.kind & SOURCE_IN_PLACE == 0 {
        return None;
    }
    let pointer = match reach_source(node, operations, source, offset, bytes)? {
        Reach::Direct(pointer) => pointer,
        Reach::Private(private) if private.rank() == node.rank => private.pointer(),
        Reach::Private(_) | Reach::Remote(_) => return None,
    };
    // SAFETY: the range was checked. The arena stays mapped with the world; private memory, until the engine is free; lent
    // memory, while its operation is in the table, which is changed with the engine held.
    Some(unsafe { Lent::new(pointer, bytes) })
}

/// Where a piece of a payload lies now.
fn reach_source(
    node: &Node,
    operations: &Operations,
    source: Source,
    offset: u64,
    bytes: usize,
) -> Option<Reach> {
    let detail = source.kind >> 8;
    match source.kind & SOURCE_KINDS {
        SOURCE_GLOBAL => {
            let address = GlobalAddress::from_bits(source.place).add(offset);
            node.reach(address, Registration::of_generation(detail as u16), bytes as u64).ok()
        }
        // The caller lends the memory while the operation is in the table, and no longer.
        SOURCE_LENT if operations.get(detail).is_some() => {
            Some(Reach::Direct((source.place + offset) as usize as *mut u8))
        }
        _ => None,
    }
}

/// A payload could not be sent because its memory is gone: tells whoever waits for it.
pub(crate) fn withdrawn(feed: &mut Feed<'_>, to: Rank, header: &Header, out: &mut Outbox) {
    let error = Error::Bounds {
        what: "the source was unregistered while it was being sent",
        address: header.a,
        rank: feed.node.rank.0,
        bytes: header.c,
    };
    match header.kind {
        frames::PUT => feed.complete(header.op, Err(error), out),
        // `b` of a Data header is the path of its question, for this case.
        frames::DATA => {
            out.messages.push((to, frames::done(header.op, &Err(error), header.b as u32)));
        }
        _ => {}
    }
}

/// A message came torn: what it brought must come again, copied. True if it is an answer.
pub(crate) fn torn(feed: &mut Feed<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
    match header.kind {
        frames::PUT => {
            out.messages.push((from, frames::torn(header.op, path)));
            false
        }
        frames::DATA => {
            repeat(feed, from, header.op, out);
            true
        }
        // Nothing else is sent in place.
        _ => false,
    }
}

/// Starts a copy once more, whose payload was torn.
fn repeat(feed: &mut Feed<'_>, from: Rank, op: u64, out: &mut Outbox) {
    feed.engine.copied = COPIED_AFTER_TORN;
    // It is said of copies only: an atomic is never done twice.
    let is_copy = |operation: &&mut Operation| matches!(operation.action, Action::Copy { .. });
    let Some(operation) = feed.engine.operations.get_mut(op).filter(is_copy) else { return };
    if std::mem::replace(&mut operation.repeated, true) {
        let why = format!(
            "what was copied and sent a second time came damaged all the same, by the word of {from}"
        );
        return feed.complete(op, Err(Error::Refused(why)), out);
    }
    let action = operation.action;
    feed.start(op, action, out);
}

/// The answer to what wants no more than one.
fn nudged(path: u32) -> Message {
    answer(Header { kind: frames::NUDGED, ..Header::default() }, Payload::None, path)
}

/// A frame is complete: does what it asks, or takes it as the answer of the rank that was asked. True if it is an answer.
pub(crate) fn frame(feed: &mut Feed<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
    match header.kind {
        frames::PUT => serve_put(feed.node, from, path, header, out),
        frames::PUT_FEW => serve_put_few(feed.node, from, path, header, out),
        frames::GET => serve_get(feed, from, path, header, out),
        frames::COPY => serve_copy(feed, from, path, header, out),
        frames::ATOMIC => serve_atomic(feed.node, from, path, header, out),
        frames::SIGNAL => {
            feed.engine.stirred = true;
            let report = feed.engine.barriers.hear(feed.node, from, header, &mut out.messages);
            feed.engine.reports.extend(report);
            if header.flags & frames::FLAG_NEWS != 0 {
                out.messages.push((from, nudged(path)));
            }
        }
        frames::NUDGE => out.messages.push((from, nudged(path))),
        frames::NUDGED => return true,
        frames::CALL if header.flags & FLAG_MORE == 0 => calls::serve(feed, from, path, header, out),
        frames::RETURN if header.flags & FLAG_MORE != 0 => {}
        frames::RETURN => {
            let result = calls::take_reply(feed, from, header);
            feed.complete(header.op, result, out);
            return true;
        }
        frames::DATA if header.flags & FLAG_MORE != 0 => {}
        frames::DATA => {
            let whole = if feed.engine.operations.is_spoiled(header.op) {
                Err(spoiled(feed, header))
            } else {
                Ok(None)
            };
            feed.complete(header.op, whole, out);
            return true;
        }
        frames::DATA_FEW => {
            let landed = land_few(feed, header);
            feed.complete(header.op, landed, out);
            return true;
        }
        frames::VALUE => {
            feed.complete(header.op, Ok(Some(header.b)), out);
            return true;
        }
        frames::DONE if frames::is_torn(header) => {
            repeat(feed, from, header.op, out);
            return true;
        }
        frames::DONE => {
            // What a third party refused is its own, whoever passed the refusal on.
            let result = frames::result_of(from, header).map_err(|error| match error {
                Error::Bounds { what, address, bytes, .. } if address != 0 => {
                    let rank = feed.node.format.rank(GlobalAddress::from_bits(address));
                    Error::Bounds { what, address, rank: rank.0, bytes }
                }
                other => other,
            });
            feed.complete(header.op, result.map(|()| None), out);
            return true;
        }
        _ => {}
    }
    false
}

/// What an initiator is told when the data came and its place was gone.
fn spoiled(feed: &Feed<'_>, header: &Header) -> Error {
    let what = "the destination was unregistered while the data came";
    let (address, bytes) = match feed.engine.operations.get(header.op).map(|operation| operation.action) {
        Some(Action::Copy { dst: Side::Global(address, _), bytes, .. }) => (address.bits(), bytes),
        _ => (0, 0),
    };
    Error::Bounds { what, address, rank: feed.node.rank.0, bytes }
}

fn serve_put(node: &Node, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    if header.flags & FLAG_MORE != 0 {
        return;
    }
    let reached = asked_for(node, header, Access::Write).map(drop);
    out.messages.push((from, frames::done(header.op, &reached, path)));
}

fn serve_put_few(node: &Node, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let few = Few::of(header).ok_or_else(|| Error::misuse("more bytes than a header carries"));
    let put = few.and_then(|few| {
        let place = asked_for(node, header, Access::Write)?;
        copy::write_here(node, Reach::Direct(place), few.bytes()).map(drop)
    });
    out.messages.push((from, frames::done(header.op, &put, path)));
}

/// Puts a few bytes of an answer where the operation wants them.
fn land_few(feed: &Feed<'_>, header: &Header) -> Result<Option<u64>> {
    let operation = feed.engine.operations.get(header.op);
    let (Some(few), Some(Action::Copy { dst, bytes, .. })) =
        (Few::of(header), operation.map(|operation| operation.action))
    else {
        return Err(spoiled(feed, header));
    };
    if bytes != header.c {
        return Err(spoiled(feed, header));
    }
    let reach = reach_side(feed.node, dst, bytes)?;
    if copy::write_here(feed.node, reach, few.bytes())? {
        return Ok(None);
    }
    Err(spoiled(feed, header))
}

/// Reaches the memory that a question of a peer is about.
fn asked_for(node: &Node, header: &Header, access: Access) -> Result<*mut u8> {
    let registration = frames::registration(&node.format, node.rank, header);
    owned(node, GlobalAddress::from_bits(header.a), registration, header.c, access)
}

/// Reaches memory on behalf of a peer, with the engine held: it must be this rank's own.
fn owned(
    node: &Node,
    address: GlobalAddress,
    registration: Registration,
    bytes: u64,
    access: Access,
) -> Result<*mut u8> {
    let rank = node.format.rank(address);
    let reach = node.reach(address, registration, bytes)?;
    match if access == Access::Write { reach.check_writable(bytes)? } else { reach } {
        Reach::Direct(pointer) if rank == node.rank => Ok(pointer),
        Reach::Private(private) if rank == node.rank => Ok(private.pointer()),
        _ => Err(Error::Bounds {
            what: "memory of another rank",
            address: address.bits(),
            rank: rank.0,
            bytes,
        }),
    }
}

fn serve_get(feed: &mut Feed<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let address = GlobalAddress::from_bits(header.a);
    let reply = Header { kind: frames::DATA, op: header.op, b: path as u64, ..Header::default() };
    let message = match asked_for(feed.node, header, Access::Read) {
        Err(error) => frames::done(header.op, &Err(error), path),
        Ok(_) if header.c == 0 => frames::done(header.op, &Ok(()), path),
        Ok(pointer) if header.c <= FEW_BYTES as u64 => {
            let mut few = Few::zeroes(header.c);
            copy::read_here(feed.node, Reach::Direct(pointer), few.bytes_mut());
            answer(few.in_header(Header { kind: frames::DATA_FEW, ..reply }), Payload::None, path)
        }
        Ok(_) => {
            let in_place = header.flags & frames::FLAG_IN_PLACE != 0 && feed.engine.sends_in_place(header.c);
            let source = global_source(address, header.generation, in_place);
            answer(reply, Payload::Lazy(source, header.c), path)
        }
    };
    out.messages.push((from, message));
}

/// A third party wants our memory copied to somebody: an operation of ours whose client is that third party.
fn serve_copy(feed: &mut Feed<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let src = GlobalAddress::from_bits(header.a);
    let dst = GlobalAddress::from_bits(header.b);
    let [from_region, to_region] = [header.generation, header.generation_b].map(Registration::of_generation);
    if let Err(error) = owned(feed.node, src, from_region, header.c, Access::Read) {
        out.messages.push((from, frames::done(header.op, &Err(error), path)));
        return;
    }
    let id = feed.engine.new_internal();
    let action = Action::Copy {
        dst: Side::Global(dst, to_region),
        src: Side::Global(src, from_region),
        bytes: header.c,
    };
    let client = Client::Peer { rank: from, path, op: header.op };
    let mut operation =
        Operation { client, peer: Some(from), ..Operation::of_program(action, Condition::Free) };
    match start::start(feed.node, action) {
        Ok(Started::Sent(peer, message)) => {
            operation.peer = Some(peer);
            feed.engine.operations.insert(id, operation);
            let in_place = feed.engine.sends_in_place(header.c);
            out.messages.push((peer, frames::relayed(start::numbered(message, id, in_place))));
        }
        Ok(Started::Complete(_)) => out.messages.push((from, frames::done(header.op, &Ok(()), path))),
        Err(error) => out.messages.push((from, frames::done(header.op, &Err(error), path))),
    }
}

fn serve_atomic(node: &Node, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let call = AtomicCall {
        target: GlobalAddress::from_bits(header.a),
        registration: frames::registration(&node.format, node.rank, header),
        code: header.flags,
        first: header.b,
        second: header.c,
    };
    let message = match perform_owned(node, &call) {
        Ok(old) => {
            let reply = Header { kind: frames::VALUE, op: header.op, b: old, ..Header::default() };
            answer(reply, Payload::None, path)
        }
        Err(error) => frames::done(header.op, &Err(error), path),
    };
    out.messages.push((from, message));
}

/// Does an atomic for a peer, with the engine held: on a word that must be this rank's own.
pub(crate) fn perform_owned(node: &Node, call: &AtomicCall) -> Result<u64> {
    let bytes = atomic::width(call.code)?;
    atomic::perform(owned(node, call.target, call.registration, bytes, Access::Write)?, call)
}
