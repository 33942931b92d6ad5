//! What is done with one part of a table, in the memory of its node: by a rank of that node itself, or by the owner as
//! a service for a rank of another node.
//!
//! Work on many keys or slots is cut into pieces. A service that meets a lock after it has done a piece replies with
//! that piece, and is asked for the rest; one that has done nothing yet is run again.

use super::layout::*;
use super::slot::{self, Item, Op, Sink, Slots};
use crate::data::message::{unknown, Reader};
use crate::{Error, Result};
use kumiki_mem::Local;

/// Requests. Each but [`MAKE`] begins with the part.
pub(super) const EXECUTE: u8 = 1;
pub(super) const MAKE: u8 = 2;
pub(super) const UNMAKE: u8 = 3;
pub(super) const SIZE: u8 = 4;
pub(super) const CLEAR: u8 = 5;
pub(super) const SCAN: u8 = 6;
pub(super) const NEXT: u8 = 7;
pub(super) const SWAP: u8 = 8;

/// The first byte of a reply: the table has been destroyed, or what was asked for follows.
pub(super) const GONE: u8 = 0;
pub(super) const DONE: u8 = 1;

/// The slot from which on nothing is left to do.
pub(super) const FINISHED: u64 = u64::MAX;
/// The most elements that are removed before somebody else has a turn.
const CLEAR_ELEMENTS: u64 = 4096;
/// The most slots that are looked at before somebody else has a turn.
const CLEAR_SLOTS: u64 = 64 << 10;
/// A reply that is longer is sent, and the rest asked for again.
const REPLY_BYTES: usize = 4 << 20;
/// A piece of a scan ends behind the slot that makes it this long...
pub(super) const SCAN_BYTES: usize = 64 << 10;
/// ... and in the middle of a slot only if it has more than this.
const SCAN_SLOT_BYTES: usize = 4 << 20;

/// Does something with one key here; `None` if the table has been destroyed.
#[inline]
pub(super) fn apply(
    local: Local<'_>,
    part: Part,
    slot: u64,
    op: Op,
    item: Item<'_>,
    sink: &mut impl Sink,
) -> Result<Option<u64>> {
    let Some(slots) = Slots::open(local, part)? else { return Ok(None) };
    slots.apply(slot, op, item, sink)
}

/// Whether a part of this node still belongs to its table.
pub(super) fn is_there(local: Local<'_>, part: Part) -> bool {
    Slots::open(local, part).is_ok_and(|slots| slots.is_some())
}

/// Elements of a part.
pub(super) fn size(local: Local<'_>, part: Part) -> Result<Option<u64>> {
    Slots::open(local, part)?.map_or(Ok(None), |slots| slots.elements())
}

/// Removes elements from slot `from` on; gives where to go on.
pub(super) fn clear(local: Local<'_>, part: Part, from: u64) -> Result<Option<u64>> {
    let Some(slots) = Slots::open(local, part)? else { return Ok(None) };
    let mut removed = 0;
    for slot in from..slots.count {
        if removed >= CLEAR_ELEMENTS || slot - from >= CLEAR_SLOTS {
            return Ok(Some(slot));
        }
        match slots.lock(slot).and_then(|slot| slot.map(|mut slot| slot.clear()).transpose()) {
            Ok(Some(count)) => removed += count,
            Ok(None) => return Ok(None),
            // Clearing a slot again does no harm, but what was done need not be done again.
            Err(_) if slot > from && local.met_lock() => return Ok(Some(slot)),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(FINISHED))
}

/// Removes everything from slot `from` on, and then the slots themselves. Nobody finds the table from the first call on.
pub(super) fn unmake(local: Local<'_>, part: Part, from: u64) -> Result<Option<u64>> {
    let dying = Part { nonce: !part.nonce, ..part };
    // It may have been marked before, by a call that then met a lock and is run again.
    if let Some(mut slots) = Slots::open(local, part)? {
        slots.refuse(dying.nonce)?;
    }
    match clear(local, dying, from)? {
        Some(FINISHED) => {}
        other => return Ok(other),
    }
    let Some(slots) = Slots::open(local, dying)? else { return Ok(None) };
    slots.release()?;
    Ok(Some(FINISHED))
}

/// Elements from a place on, and the place behind them.
pub(super) fn scan(
    local: Local<'_>,
    part: Part,
    (from, mut skip): (u64, u64),
    into: &mut Vec<u8>,
) -> Result<Option<(u64, u64)>> {
    let Some(slots) = Slots::open(local, part)? else { return Ok(None) };
    let start = into.len();
    let mut slot = slots.first_used(from)?;
    while slot < slots.count {
        match slots.list(slot, skip, start + SCAN_SLOT_BYTES, into) {
            Ok(Some(None)) => {}
            Ok(Some(Some(passed))) => return Ok(Some((slot, passed))),
            Ok(None) => return Ok(None),
            Err(_) if into.len() > start && local.met_lock() => return Ok(Some((slot, skip))),
            Err(error) => return Err(error),
        }
        skip = 0;
        slot = slots.first_used(slot + 1)?;
        if into.len() - start >= SCAN_BYTES {
            break;
        }
    }
    Ok(Some((if slot < slots.count { slot } else { FINISHED }, 0)))
}

/// The element behind another one (behind 0: the first of a slot), with its slot; 0 if no more are in this part.
pub(super) fn next(local: Local<'_>, part: Part, mut slot: u64, element: u64) -> Result<Option<(u64, u64)>> {
    let Some(slots) = Slots::open(local, part)? else { return Ok(None) };
    let mut element = element;
    while slot < slots.count {
        let Some(behind) = slots.after(slot, element)? else { return Ok(None) };
        element = behind;
        if element != 0 {
            return Ok(Some((slot, element)));
        }
        slot = slots.first_used(slot + 1)?;
    }
    Ok(Some((FINISHED, 0)))
}

/// Exchanges the elements of two parts of one rank, from slot `from` on; gives where to go on.
pub(super) fn swap(local: Local<'_>, one: Part, other: Part, from: u64) -> Result<Option<u64>> {
    // Whoever needs two locks takes that of the lower address first.
    let (low, high) = if one.address < other.address { (one, other) } else { (other, one) };
    let (Some(low), Some(high)) = (Slots::open(local, low)?, Slots::open(local, high)?) else {
        return Ok(None);
    };
    for slot in from..low.count.min(high.count) {
        if slot - from >= CLEAR_ELEMENTS {
            return Ok(Some(slot));
        }
        let both = || -> Result<_> { Ok((low.lock(slot)?, high.lock(slot)?)) };
        match both() {
            Ok((Some(mut low), Some(mut high))) => low.swap(&mut high)?,
            Ok(_) => return Ok(None),
            Err(_) if slot > from && local.met_lock() => return Ok(Some(slot)),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(FINISHED))
}

/// Does what a rank of another node asks for.
pub(crate) fn serve(local: Local<'_>, _from: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    let mut request = Reader::new(request);
    let code = request.byte()?;
    let part = Part::read(&mut request)?;
    reply.push(DONE);
    let words: Option<[u64; 2]> = match code {
        EXECUTE => return execute(local, part, request, reply),
        MAKE => {
            let made = slot::make(local, local.rank(), part.kind, part.nonce, request.long()?)?;
            Some([made.bits(), 0])
        }
        UNMAKE => unmake(local, part, request.long()?)?.map(|slot| [slot, 0]),
        SIZE => size(local, part)?.map(|elements| [elements, 0]),
        CLEAR => clear(local, part, request.long()?)?.map(|slot| [slot, 0]),
        SCAN => {
            // The place is known when the elements are; its room comes before them.
            reply.resize(1 + 16, 0);
            let place = (request.long()?, request.long()?);
            let Some((slot, skip)) = scan(local, part, place, reply)? else {
                reply.truncate(1);
                reply[0] = GONE;
                return Ok(());
            };
            reply[1..9].copy_from_slice(&slot.to_le_bytes());
            reply[9..17].copy_from_slice(&skip.to_le_bytes());
            return Ok(());
        }
        NEXT => next(local, part, request.long()?, request.long()?)?.map(|(slot, element)| [slot, element]),
        SWAP => {
            let other = Part::read(&mut request)?;
            swap(local, part, other, request.long()?)?.map(|slot| [slot, 0])
        }
        code => return Err(unknown(code)),
    };
    match words {
        Some(words) => words.iter().for_each(|word| reply.extend_from_slice(&word.to_le_bytes())),
        None => reply[0] = GONE,
    }
    Ok(())
}

/// Does something with many keys. The reply has how many were done, and for each a word, and its value if it has one.
fn execute(local: Local<'_>, part: Part, mut request: Reader<'_>, reply: &mut Vec<u8>) -> Result<()> {
    let code = request.byte()?;
    let op = Op::from_code(code).filter(|op| op.suits(part.kind)).ok_or_else(|| unknown(code))?;
    let Some(slots) = Slots::open(local, part)? else {
        reply[0] = GONE;
        return Ok(());
    };
    reply.resize(1 + 8, 0);
    let mut done = 0u64;
    while !request.is_empty() && reply.len() < REPLY_BYTES {
        let (slot, item) = read_item(&mut request, op)?;
        let answer_at = reply.len();
        reply.resize(answer_at + 8, 0);
        match slots.apply(slot, op, item, reply) {
            Ok(Some(answer)) => reply[answer_at..answer_at + 8].copy_from_slice(&answer.to_le_bytes()),
            Ok(None) => {
                reply.truncate(1);
                reply[0] = GONE;
                return Ok(());
            }
            // What was done is told; the caller asks for the rest, and gets the error if there is still one.
            Err(error) => {
                if done == 0 {
                    return Err(error);
                }
                local.met_lock();
                reply.truncate(answer_at);
                break;
            }
        }
        done += 1;
    }
    reply[1..9].copy_from_slice(&done.to_le_bytes());
    Ok(())
}

fn read_item<'k>(request: &mut Reader<'k>, op: Op) -> Result<(u64, Item<'k>)> {
    let (slot, key) = (request.long()?, request.bytes()?);
    let value = if op.takes_value() { request.bytes()? } else { &[] };
    let number = if op == Op::Add { request.long()? } else { 0 };
    Ok((slot, Item { key, value, number }))
}

/// The value of an answer, if its operation has one.
pub(super) fn read_value<'k>(reply: &mut Reader<'k>, op: Op, answer: u64) -> Result<&'k [u8]> {
    match (op, answer) {
        (Op::Get, 1..) => Ok(reply.take(usize::try_from(answer - 1).unwrap_or(usize::MAX))?),
        _ => Ok(&[]),
    }
}

/// The error for a table that is not there any more.
pub(super) fn destroyed(kind: Kind) -> Error {
    Error::Misuse(format!("this {} has been destroyed, or its handle was never one", kind.name()))
}
