//! What is done when a frame comes: what it asks, if it is a question, and what its operation waits for, if it is an answer.
//!
//! All of it runs while the engine is held, and unregistering waits for that: private memory needs no pin here.

use crate::engine::frames::{self, answer, Few, FEW_BYTES};
use crate::engine::operations::{Action, Client, Operation, Operations, Side};
use crate::engine::order::Condition;
use crate::engine::start::{
    self, global_source, reach_side, Started, SOURCE_GLOBAL, SOURCE_IN_PLACE, SOURCE_KINDS, SOURCE_LENT,
};
use crate::engine::{calls, letters, sections, Feed, COPIED_AFTER_TORN};
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
        address: if header.kind == frames::PUT { header.a } else { 0 },
        rank: feed.node.rank.0,
        bytes: header.c,
    };
    match header.kind {
        frames::PUT => feed.complete(header.op, Err(error), out),
        frames::SCATTER | frames::GATHER => {
            feed.complete(header.op, Err(error), out);
            // A part of it may be there, and is kept until the last one comes: that is this one, which brings nothing.
            out.messages.push((to, frames::question(*header, Payload::None)));
        }
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
    if let Some(Action::Shape { .. }) = feed.engine.operations.get(op).map(|operation| operation.action) {
        // Its payload is never sent from where it lies.
        let why = format!("what was copied and sent came damaged all the same, by the word of {from}");
        return feed.complete(op, Err(Error::Refused(why)), out);
    }
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
        frames::SCATTER => sections::serve_scatter(feed, from, path, header, out),
        frames::GATHER => sections::serve_gather(feed, from, path, header, out),
        frames::SIGNAL => {
            feed.engine.stirred = true;
            let report = feed.engine.barriers.hear(feed.node, from, header, &mut out.messages);
            feed.engine.reports.extend(report);
        }
        frames::NUDGE => out.messages.push((from, nudged(path))),
        frames::NUDGED => return true,
        frames::CALL if header.flags & FLAG_MORE == 0 => calls::serve(feed, from, path, header, out),
        frames::LETTER if header.flags & FLAG_MORE == 0 => letters::serve(feed, from, path, header, out),
        frames::REFUSAL => letters::take_refusal(feed, from, header),
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
                feed.engine.sections.came(feed.node, header.op);
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
pub(crate) fn owned(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stage::Stage;
    use kumiki_net::contract::{Filled, Message, Sink, IN_PLACE_BYTES};

    /// A question of rank 2 with the number 9.
    fn question(kind: u8, address: GlobalAddress, bytes: u64) -> Message {
        let header = Header { kind, op: 9, a: address.bits(), c: bytes, ..Header::default() };
        frames::question(header, Payload::None)
    }

    /// The one answer that rank 0 gives to rank 2.
    fn answer_of(stage: &mut Stage, message: &Message) -> Message {
        let mut said = stage.deliver(0, 2, message);
        let (to, answer) = said.pop().expect("an answer");
        assert!(said.is_empty() && to == 2 && answer.header.op == 9 && !answer.expects_answer);
        answer
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn parts_of_a_put_land_within_what_was_announced_and_nowhere_else() {
        let mut stage = Stage::new(3);
        let put = question(frames::PUT, stage.address(0, 64), 32);
        let mut feed = stage.feed(0);
        feed.part(Rank(2), &put.header, 16, &[2; 16]);
        feed.part(Rank(2), &put.header, 0, &[1; 16]);
        for at in [17, 32, u32::MAX] {
            feed.part(Rank(2), &put.header, at, &[9; 16]);
        }
        let beyond = Header { d: u64::MAX, ..put.header };
        feed.part(Rank(2), &beyond, 1, &[9; 16]);
        assert_eq!(stage.read(0, 64, 32), [[1; 16], [2; 16]].concat());
        assert_eq!(stage.read(0, 96, 64), [0; 64]);
        assert!(frames::result_of(Rank(0), &answer_of(&mut stage, &put).header).is_ok());
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn memory_of_others_is_nobodys_to_give() {
        let mut stage = Stage::new(3);
        for kind in [frames::PUT, frames::PUT_FEW, frames::GET, frames::COPY, frames::ATOMIC] {
            for address in [stage.address(1, 0), stage.address(0, 4096), GlobalAddress::NULL] {
                let mut message = question(kind, address, 8);
                message.header.flags = if kind == frames::ATOMIC { stage.adding(0, 0, 1).code } else { 0 };
                let told = frames::result_of(Rank(0), &answer_of(&mut stage, &message).header);
                assert!(matches!(told, Err(Error::Bounds { .. })), "kind {kind}: {told:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_get_is_answered_in_the_header_if_it_fits_and_else_read_when_it_is_sent() {
        let mut stage = Stage::new(3);
        stage.write(0, 0, &(0..64).collect::<Vec<u8>>());
        let get = |stage: &Stage, bytes| question(frames::GET, stage.address(0, 0), bytes);
        let none = get(&stage, 0);
        assert!(frames::result_of(Rank(0), &answer_of(&mut stage, &none).header).is_ok());
        let few = get(&stage, 5);
        let few = answer_of(&mut stage, &few);
        assert_eq!(few.header.kind, frames::DATA_FEW);
        assert_eq!(Few::of(&few.header).expect("few").bytes(), [0, 1, 2, 3, 4]);
        let many = get(&stage, 64);
        let many = answer_of(&mut stage, &many);
        assert_eq!(many.header.kind, frames::DATA);
        let Payload::Lazy(source, 64) = many.payload else { panic!("{many:?}") };
        stage.write(0, 3, &[99]);
        let mut piece = [0; 4];
        assert!(stage.feed(0).fill(source, 2, &mut piece) == Filled::Whole);
        assert_eq!(piece, [2, 99, 4, 5]);
        assert!(stage.feed(0).fill(source, 4096, &mut piece) == Filled::Gone);
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn an_atomic_for_a_peer_gives_it_the_old_value() {
        let mut stage = Stage::new(3);
        let call = stage.adding(0, 8, 5);
        let mut atomic = question(frames::ATOMIC, call.target, 0);
        (atomic.header.flags, atomic.header.b) = (call.code, call.first);
        for old in [0, 5] {
            let value = answer_of(&mut stage, &atomic);
            assert_eq!((value.header.kind, value.header.b), (frames::VALUE, old));
        }
        atomic.header.a += 4;
        let told = frames::result_of(Rank(0), &answer_of(&mut stage, &atomic).header);
        assert!(matches!(told, Err(Error::Misuse(_))), "a word that is not aligned: {told:?}");
        assert_eq!(stage.word(0, 8), 10);
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_third_party_is_told_the_end_of_the_copy_that_it_wanted() {
        let mut stage = Stage::new(3);
        let mut copy = question(frames::COPY, stage.address(0, 0), 64);
        copy.header.b = stage.address(1, 128).bits();
        let said = stage.deliver(0, 2, &copy);
        let [(1, put)] = &said[..] else { panic!("{said:?}") };
        assert_eq!((put.header.kind, put.header.a), (frames::PUT, copy.header.b));
        // The end of it is the word of rank 1 alone.
        let done = frames::done(put.header.op, &Ok(()), 0);
        assert!(stage.deliver(0, 2, &done).is_empty());
        let said = stage.deliver(0, 1, &done);
        let [(2, told)] = &said[..] else { panic!("{said:?}") };
        assert_eq!((told.header.kind, told.header.op), (frames::DONE, 9));
        // What this rank can do itself it does.
        copy.header.b = stage.address(0, 128).bits();
        stage.write(0, 0, b"abcd");
        assert!(frames::result_of(Rank(0), &answer_of(&mut stage, &copy).header).is_ok());
        assert_eq!(stage.read(0, 128, 4), b"abcd");
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn what_came_torn_is_asked_for_once_more_and_no_third_time() {
        let mut stage = Stage::new(3);
        let action = stage.copy((2, 0), (1, 0), IN_PLACE_BYTES);
        stage.enter(0, 5, action, Some(1));
        let torn = frames::torn(5, 0);
        assert!(stage.deliver(0, 2, &torn).is_empty(), "of somebody who was not asked");
        let again = stage.deliver(0, 1, &torn);
        let [(1, copy)] = &again[..] else { panic!("{again:?}") };
        assert_eq!((copy.header.kind, copy.header.op), (frames::COPY, 5));
        assert!(stage.deliver(0, 1, &torn).is_empty());
        let end = stage.engines[0].operations.take_result_of(5);
        assert!(matches!(end, Some(Err(Error::Refused(_)))), "{end:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn whoever_waits_for_memory_that_is_gone_is_told() {
        let mut stage = Stage::new(3);
        let action = stage.copy((1, 0), (0, 0), 64);
        stage.enter(0, 5, action, Some(1));
        let mut out = Outbox::default();
        let put = Header { kind: frames::PUT, op: 5, ..Header::default() };
        let data = Header { kind: frames::DATA, op: 7, ..Header::default() };
        stage.feed(0).withdrawn(Rank(1), &put, &mut out);
        stage.feed(0).withdrawn(Rank(2), &data, &mut out);
        let end = stage.engines[0].operations.take_result_of(5);
        assert!(matches!(end, Some(Err(Error::Bounds { .. }))), "{end:?}");
        let [(to, told)] = &out.messages[..] else { panic!("one of them waits elsewhere") };
        assert!(*to == Rank(2) && told.header.op == 7);
        assert!(frames::result_of(Rank(0), &told.header).is_err());
    }
}
