//! Calls: work that the rank which owns the memory does for us, in one round trip.
//!
//! A layer above gives a table of [services](Service) when the world is made, the same on every rank. A call carries
//! the number of a service and a request; whoever polls at the other rank runs the service over its node's memory and
//! sends the reply. A service never waits: one that meets a lock held by somebody else is run again a little later, so
//! it must take its locks before it changes anything.

use crate::engine::frames::{self, answer, question, Few};
use crate::engine::{letters, Feed};
use crate::error::Fate;
use crate::node::ledger::{Books, Purpose};
use crate::node::local::Local;
use crate::{Error, Result};
use kumiki_net::contract::{Leeway, Message, Outbox, Payload, Source, FLAG_MORE, LETTER_BYTES, MOST_UNHEARD};
use kumiki_net::os::socket::Place;
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// `Source::kind` for the request of a call; the place is the number of the operation.
pub(crate) const SOURCE_REQUEST: u64 = 3;
/// `Source::kind` for the reply to a call; the place is its number here.
const SOURCE_REPLY: u64 = 4;
/// The most bytes of a request or a reply: larger things are copied.
pub(crate) const MAX_CALL_BYTES: u64 = 16 << 20;
/// A buffer that is kept for the next request is no longer than this…
const SPARE_BYTES: usize = 4096;
/// …or than this where requests are longer: then it is booked.
const LONG_SPARE_BYTES: usize = 160 << 10;
/// `flags` of a Call that nobody waits for: its answer may go out with something else, and may wait for that a little, or for longer.
const UNHURRIED: u8 = 1;
const PATIENT: u8 = 2;
/// `flags` of a Return whose payload is an error.
const FAILED: u8 = 1;

/// Work that every rank does for the others.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// What it is called in errors.
    pub name: &'static str,
    /// Does it: reads the request of a rank and writes the reply. An error goes back to the caller.
    pub serve: fn(local: Local<'_>, from: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()>,
}

/// What a rank does for others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Services {
    /// The table of the layer above.
    pub(crate) table: &'static [Service],
    /// Whether a panic in a service is the end of the rank, which unwinds to there. Otherwise it is an error of the call.
    pub(crate) may_unwind: bool,
}

/// Requests and replies on their way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Our own calls, by number of the operation.
    own: HashMap<u64, Own>,
    /// Requests of others that are still arriving.
    arriving: Vec<Arriving>,
    /// Requests that met a lock, in the order they came.
    stalled: VecDeque<Request>,
    /// Replies that are not sent yet.
    replies: HashMap<u64, (Rank, Vec<u8>)>,
    next_reply: u64,
    /// A buffer for the next request, and one for the next that is long.
    spare: Vec<u8>,
    long_spare: Vec<u8>,
    /// Bytes of all of these, for the ledger.
    bytes: u64,
}

/// A request of which a part has come.
#[derive(Debug)]
struct Arriving {
    /// Its sender, and its number there.
    key: (Rank, u64),
    /// What is booked for it: all that its first frame spoke of.
    booked: u64,
    /// Its memory. What is behind `filled` may be of an earlier request.
    bytes: Vec<u8>,
    /// How many bytes have come; and up to where the transport may have written since by itself.
    filled: usize,
    lent: usize,
}

/// The sender of a request, and its number there. A long letter, which is one frame, goes by the sum of that: two of them may come at a time while a rank goes
/// from one connection to another.
fn key_of(from: Rank, header: &Header) -> (Rank, u64) {
    (from, if header.kind == frames::LETTER { LETTER | u64::from(header.payload_crc) } else { header.op })
}

/// Whether a call says that it is a letter.
fn is_no_call(header: &Header) -> bool {
    header.kind == frames::CALL && header.op & LETTER != 0
}

/// Bytes of a request that waits for a lock, for the ledger.
fn stalled_bytes(request: &Request) -> u64 {
    request.bytes.len() as u64 + REQUEST_BYTES
}

impl Arriving {
    /// Whether all before this place has come.
    fn has_come_to(&mut self, place: u64) -> bool {
        let place = place as usize;
        if (self.filled..=self.lent).contains(&place) {
            self.filled = place;
        }
        self.filled == place
    }

    /// Puts a part at its place, to which all has come.
    fn put(&mut self, part: &[u8]) {
        let there = (self.bytes.len() - self.filled).min(part.len());
        let (over, behind) = part.split_at(there);
        self.bytes[self.filled..self.filled + there].copy_from_slice(over);
        self.bytes.extend_from_slice(behind);
        self.filled += part.len();
    }
}

/// Bytes of the tables for a request that has come, for the ledger.
const REQUEST_BYTES: u64 = 64;
/// So many short letters of a rank wait for a lock: it sends [fewer](MOST_UNHEARD) while it hears nothing from here; and so many bytes of all of them: of long ones it sends no more than
/// there is room for.
const MOST_STALLED: usize = 2 * MOST_UNHEARD as usize;
const MOST_STALLED_BYTES: u64 = MAX_CALL_BYTES;
/// In the number of a long letter; calls are counted from 1 on.
const LETTER: u64 = 1 << 63;
/// So much is taken for requests even if the budget is spent: by requests others give memory back.
const RESERVE_BYTES: u64 = 64 << 10;
const _: () = assert!(size_of::<Request>() <= REQUEST_BYTES as usize);
const _: () = assert!(size_of::<Arriving>() <= REQUEST_BYTES as usize);

#[derive(Debug)]
struct Own {
    request: Vec<u8>,
    /// The request, once it is shared with a transport.
    shared: Option<Arc<Vec<u8>>>,
    reply: Vec<u8>,
}

impl Own {
    fn request(&self) -> &Vec<u8> {
        self.shared.as_deref().unwrap_or(&self.request)
    }

    /// Bytes of both.
    fn bytes(&self) -> u64 {
        (self.request().len() + self.reply.len()) as u64
    }
}

/// Work that another rank asks for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) from: Rank,
    pub(crate) path: u32,
    pub(crate) op: u64,
    pub(crate) service: u64,
    pub(crate) leeway: Leeway,
    /// Nobody waits for its answer: there is one only if it cannot be done.
    pub(crate) is_letter: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Calls {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether requests of others are coming in or replies to them are going out.
    pub(crate) fn is_serving(&self) -> bool {
        !self.arriving.is_empty() || !self.replies.is_empty()
    }

    pub(crate) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// A part of a request or of a reply has come. A request that there is no room for is not kept, which its sender is told when
    /// the last part is here.
    pub(crate) fn part(&mut self, books: &Books, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        let offset = header.d.saturating_add(at as u64);
        let end = offset.saturating_add(bytes.len() as u64);
        if end > header.c || header.c > MAX_CALL_BYTES || is_no_call(header) {
            return;
        }
        if header.kind == frames::RETURN {
            let Some(own) = self.own.get_mut(&header.op) else { return };
            // Parts come in order; what does not is caught by the length when the frame is complete.
            if own.reply.len() as u64 == offset {
                own.reply.extend_from_slice(bytes);
                self.bytes += bytes.len() as u64;
            }
            return;
        }
        if offset == 0 {
            self.admit(books, key_of(from, header), header.c);
        }
        let arriving = self.arriving.iter_mut().find(|arriving| arriving.key == key_of(from, header));
        if let Some(arriving) = arriving.filter(|arriving| arriving.booked - REQUEST_BYTES >= end) {
            if arriving.has_come_to(offset) {
                arriving.put(bytes);
            }
        }
    }

    /// The memory where a part of a request belongs, to be received there.
    pub(crate) fn room(
        &mut self,
        books: &Books,
        from: Rank,
        header: &Header,
        at: u32,
        bytes: usize,
    ) -> Option<Place<'_>> {
        let offset = header.d.checked_add(at.into())?;
        let end = offset.checked_add(bytes as u64)?;
        if end > header.c || header.c > MAX_CALL_BYTES || is_no_call(header) {
            return None;
        }
        if offset == 0 {
            self.admit(books, key_of(from, header), header.c);
        }
        let arriving = self.arriving.iter_mut().find(|arriving| arriving.key == key_of(from, header))?;
        if end > arriving.booked - REQUEST_BYTES || !arriving.has_come_to(offset) {
            return None;
        }
        let (start, end) = (offset as usize, end as usize);
        if arriving.bytes.len() < end {
            arriving.bytes.resize(end, 0);
        }
        arriving.lent = end;
        // SAFETY: the memory is borrowed for as long as the place is there.
        Some(unsafe { Place::new(arriving.bytes[start..end].as_mut_ptr(), bytes) })
    }

    /// Books a request, in the budget or, when that is spent, in the reserve.
    fn book(&mut self, books: &Books, bytes: u64) -> Result<()> {
        if let Err(spent) = books.book(Purpose::Operation, bytes) {
            // Letters are kept in any case.
            let arriving = self.arriving.iter().filter(|arriving| arriving.key.1 & LETTER == 0);
            let stalled = self.stalled.iter().filter(|request| !request.is_letter).map(stalled_bytes);
            let reserved = arriving.map(|arriving| arriving.booked).chain(stalled).sum::<u64>();
            if reserved + bytes > RESERVE_BYTES {
                return Err(spent);
            }
            books.set(Purpose::Operation, books.of(Purpose::Operation) + bytes);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Keeps a letter that met a lock, whether or not the budget is spent: its sender does not send it again.
    pub(crate) fn stall(&mut self, books: &Books, letter: Request) -> Result<()> {
        let of_it = || self.stalled.iter().filter(|other| other.is_letter && other.from == letter.from);
        let is_long = |letter: &Request| letter.bytes.len() > LETTER_BYTES;
        let bytes = stalled_bytes(&letter);
        let short = of_it().filter(|other| !is_long(other)).count();
        if !is_long(&letter) && short >= MOST_STALLED
            || of_it().map(stalled_bytes).sum::<u64>() + bytes > MOST_STALLED_BYTES
        {
            if is_long(&letter) {
                self.served(letter.bytes);
            }
            return Err(Error::Refused("too many letters that nobody could take".into()));
        }
        // A long one was booked when it came.
        if !is_long(&letter) {
            self.force(books, bytes);
        }
        self.stalled.push_back(letter);
        Ok(())
    }

    /// Books what cannot be refused.
    fn force(&mut self, books: &Books, bytes: u64) {
        books.force(Purpose::Operation, bytes);
        self.bytes += bytes;
    }

    /// Makes room for a request, if there is some. There is for a letter.
    fn admit(&mut self, books: &Books, key: (Rank, u64), length: u64) {
        let booked = length + REQUEST_BYTES;
        let is_letter = key.1 & LETTER != 0;
        if let Some(twice) = self.arriving.iter_mut().find(|arriving| arriving.key == key) {
            // A letter begins anew, if nothing of it came the first time, or its connection broke.
            if is_letter && twice.booked == booked {
                (twice.filled, twice.lent) = (0, 0);
            }
            return;
        }
        if self.book(books, booked).is_err() {
            // What is kept for convenience goes first.
            let freed = self.long_spare.capacity() as u64;
            drop(self.take_long_spare());
            books.unbook(Purpose::Operation, freed);
            match (freed == 0 || self.book(books, booked).is_err(), is_letter) {
                (true, true) => self.force(books, booked),
                (true, false) => return,
                (false, _) => {}
            }
        }
        let is_long = length as usize > SPARE_BYTES && length as usize <= self.long_spare.capacity();
        let mut bytes = if is_long { self.take_long_spare() } else { std::mem::take(&mut self.spare) };
        // More than the length is never taken: growing step by step could double it.
        if bytes.try_reserve_exact((length as usize).saturating_sub(bytes.len())).is_err() {
            self.bytes -= booked;
            return books.unbook(Purpose::Operation, booked);
        }
        self.arriving.push(Arriving { key, booked, bytes, filled: 0, lent: 0 });
    }

    /// The bytes of a request, for whoever sends them.
    pub(crate) fn share(&mut self, source: Source) -> Option<Arc<Vec<u8>>> {
        let own = self.own.get_mut(&source.place).filter(|_| source.kind == SOURCE_REQUEST)?;
        let request = &mut own.request;
        Some(own.shared.get_or_insert_with(|| Arc::new(std::mem::take(request))).clone())
    }

    /// Fills a piece of a payload that is about to be sent; `None` if the source is not ours.
    pub(crate) fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> Option<bool> {
        let bytes = match source.kind {
            SOURCE_REQUEST => self.own.get(&source.place).map(|own| own.request()),
            SOURCE_REPLY => self.replies.get(&source.place).map(|(_, reply)| reply),
            _ => return None,
        };
        let Some(bytes) = bytes else { return Some(false) };
        let range = offset as usize..(offset as usize).saturating_add(place.len());
        let last = range.end == bytes.len();
        let Some(piece) = bytes.get(range) else { return Some(false) };
        place.copy_from_slice(piece);
        if last && source.kind == SOURCE_REPLY {
            let sent = self.replies.remove(&source.place);
            self.recycle(sent.map(|(_, bytes)| bytes).unwrap_or_default());
        }
        Some(true)
    }

    /// A peer is gone: nothing of it will be answered.
    pub(crate) fn forget_peer(&mut self, peer: Rank) {
        self.arriving.retain(|arriving| arriving.key.0 != peer);
        self.stalled.retain(|request| request.from != peer);
        self.replies.retain(|_, (to, _)| *to != peer);
        let arriving = self.arriving.iter().map(|arriving| arriving.booked);
        let stalled = self.stalled.iter().map(stalled_bytes);
        let replies = self.replies.values().map(|(_, bytes)| bytes.len() as u64);
        let own = self.own.values().map(Own::bytes);
        let spare = [self.long_spare.capacity() as u64];
        self.bytes = arriving.chain(stalled).chain(replies).chain(own).chain(spare).sum();
    }

    /// Takes the request that has come wholly.
    pub(crate) fn arrived(&mut self, books: &Books, from: Rank, header: &Header) -> Result<Vec<u8>> {
        if let Some(few) = Few::of(header).filter(|_| header.kind == frames::CALL) {
            self.book(books, few.bytes().len() as u64 + REQUEST_BYTES)?;
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.extend_from_slice(few.bytes());
            return Ok(bytes);
        }
        let wrong = || Error::misuse("the request of a call is not as long as its header says");
        let index = self.arriving.iter().position(|arriving| arriving.key == key_of(from, header));
        let Some(index) = index else {
            let (asked, left) = (header.c, books.left());
            let what = "the budget of the rank that is called";
            return Err(if asked > MAX_CALL_BYTES {
                wrong()
            } else {
                Error::OutOfMemory { asked, left, what }
            });
        };
        let mut arriving = self.arriving.swap_remove(index);
        // The last piece has come wholly.
        arriving.has_come_to(header.d.saturating_add(header.payload_bytes.into()));
        let Arriving { booked, mut bytes, filled, .. } = arriving;
        if filled as u64 != header.c || booked - REQUEST_BYTES != header.c {
            self.bytes -= booked;
            return Err(wrong());
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// A request has been served.
    pub(crate) fn served(&mut self, bytes: Vec<u8>) {
        self.bytes -= REQUEST_BYTES;
        self.recycle(bytes);
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        self.bytes -= bytes.len() as u64;
        if self.spare.capacity() == 0 && bytes.capacity() <= SPARE_BYTES {
            bytes.clear();
            self.spare = bytes;
        } else if bytes.capacity() > SPARE_BYTES.max(self.long_spare.capacity())
            && bytes.capacity() <= LONG_SPARE_BYTES
        {
            // What is in it stays: the next one is written over that.
            self.take_long_spare();
            self.bytes += bytes.capacity() as u64;
            self.long_spare = bytes;
        }
    }

    pub(crate) fn take_long_spare(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.long_spare);
        self.bytes -= bytes.capacity() as u64;
        bytes
    }

    pub(crate) fn begin(&mut self, id: u64, request: Vec<u8>) {
        self.bytes += request.len() as u64;
        self.own.insert(id, Own { request, shared: None, reply: Vec::new() });
    }

    pub(crate) fn end(&mut self, id: u64) -> Vec<u8> {
        self.end_whole(id, false).1
    }

    /// The same, with the request: if it must be, or if nobody has it any more.
    pub(crate) fn end_whole(&mut self, id: u64, must_be: bool) -> (Vec<u8>, Vec<u8>) {
        let Some(own) = self.own.remove(&id) else { return Default::default() };
        self.bytes -= own.bytes();
        let Own { request, shared, reply } = own;
        let taken = shared.map(|shared| {
            Arc::try_unwrap(shared).unwrap_or_else(|shared| match must_be {
                true => shared.to_vec(),
                false => Vec::new(),
            })
        });
        (taken.unwrap_or(request), reply)
    }
}

/// The message that asks for work.
pub(crate) fn request(service: u8, leeway: Leeway, bytes: u64, few: Option<Few>) -> Message {
    let flags = match leeway {
        Leeway::None => 0,
        Leeway::Short => UNHURRIED,
        Leeway::Long => PATIENT,
    };
    let header = Header { kind: frames::CALL, flags, a: service as u64, c: bytes, ..Header::default() };
    match few {
        Some(few) => question(few.in_header(header), Payload::None),
        None => question(header, Payload::Lazy(Source { place: 0, kind: SOURCE_REQUEST }, bytes)),
    }
}

/// A request is complete: does what it asks.
pub(crate) fn serve(feed: &mut Feed<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    match feed.engine.calls.arrived(&feed.node.books, from, header) {
        Ok(bytes) => {
            let leeway = match (header.flags & PATIENT != 0, header.flags & UNHURRIED != 0) {
                (true, _) => Leeway::Long,
                (false, true) => Leeway::Short,
                (false, false) => Leeway::None,
            };
            let (op, service) = (header.op, header.a);
            let request = Request { from, path, op, service, leeway, is_letter: false, bytes };
            // Requests of one rank are done in the order they came.
            let waits = feed.engine.calls.stalled.iter().any(|other| other.from == from);
            let stalled = if waits { Some(request) } else { attempt(feed, request, out) };
            feed.engine.calls.stalled.extend(stalled);
        }
        Err(error) => out.messages.push((from, frames::done(header.op, &Err(error), path))),
    }
    feed.settle();
}

/// Tries again what met a lock.
pub(crate) fn serve_stalled(feed: &mut Feed<'_>, out: &mut Outbox) {
    let mut waiting = std::mem::take(&mut feed.engine.calls.stalled);
    let mut still: VecDeque<Request> = VecDeque::new();
    while let Some(request) = waiting.pop_front() {
        if still.iter().any(|other| other.from == request.from) {
            still.push_back(request);
        } else if let Some(request) = attempt(feed, request, out) {
            still.push_back(request);
        }
    }
    feed.engine.calls.stalled = still;
    feed.settle();
    letters::give_way(feed);
}

/// Runs a service once. Gives the request back if it met a lock.
fn attempt(feed: &mut Feed<'_>, request: Request, out: &mut Outbox) -> Option<Request> {
    let busy = Cell::new(false);
    let local = Local { node: feed.node, busy: Some(&busy) };
    let mut reply = Vec::new();
    let served = run(feed.engine.services, local, request.service, request.from, &request.bytes, &mut reply);
    if busy.get() {
        return Some(request);
    }
    if request.is_letter {
        feed.engine.calls.served(request.bytes);
        let refused = served.err().map(|error| frames::refusal(request.op, error, request.path));
        out.messages.extend(refused.map(|refusal| (request.from, refusal)));
        return None;
    }
    let flags = if served.is_err() { FAILED } else { 0 };
    if let Err(error) = served {
        reply = frames::error_bytes(&error);
    }
    let header =
        Header { kind: frames::RETURN, op: request.op, flags, c: reply.len() as u64, ..Header::default() };
    let calls = &mut feed.engine.calls;
    calls.served(request.bytes);
    let (header, payload) = match Few::new(&reply) {
        Some(few) => (few.in_header(header), Payload::None),
        None => {
            let bytes = reply.len() as u64;
            calls.next_reply += 1;
            calls.bytes += bytes;
            calls.replies.insert(calls.next_reply, (request.from, reply));
            (header, Payload::Lazy(Source { place: calls.next_reply, kind: SOURCE_REPLY }, bytes))
        }
    };
    // An error is told at once.
    let may_wait = flags == 0 && payload == Payload::None;
    let leeway = if may_wait { request.leeway } else { Leeway::None };
    out.messages.push((request.from, Message { leeway, ..answer(header, payload, request.path) }));
    None
}

/// Runs the service of a letter once. Nothing if it has to wait for a lock, or for what the same rank has asked for before.
pub(crate) fn attempt_letter(feed: &mut Feed<'_>, letter: &Request) -> Option<Result<()>> {
    if feed.engine.calls.stalled.iter().any(|other| other.from == letter.from) {
        return None;
    }
    let busy = Cell::new(false);
    let local = Local { node: feed.node, busy: Some(&busy) };
    let mut reply = Vec::new();
    let served = run(feed.engine.services, local, letter.service, letter.from, &letter.bytes, &mut reply);
    (!busy.get()).then_some(served)
}

/// Runs a service on this node.
pub(crate) fn run(
    services: Services,
    local: Local<'_>,
    service: u64,
    from: Rank,
    request: &[u8],
    reply: &mut Vec<u8>,
) -> Result<()> {
    let service = usize::try_from(service).ok().and_then(|index| services.table.get(index));
    match service {
        Some(service) if services.may_unwind => (service.serve)(local, from.0, request, reply),
        Some(service) => {
            // A panic must not unwind through a wait of the program that happens to serve.
            let served = std::panic::AssertUnwindSafe(|| (service.serve)(local, from.0, request, reply));
            let panicked = |_| Err(Error::Refused(format!("the service {} panicked", service.name)));
            std::panic::catch_unwind(served).unwrap_or_else(panicked)
        }
        None => {
            Err(Error::Refused("there is no such service; is the other rank of the same version?".into()))
        }
    }
}

/// How a call ended, when its reply is complete.
pub(crate) fn take_reply(feed: &mut Feed<'_>, from: Rank, header: &Header) -> Result<Option<u64>> {
    let calls = &mut feed.engine.calls;
    let Some(own) = calls.own.get_mut(&header.op) else { return Ok(None) };
    if let Some(few) = Few::of(header) {
        calls.bytes += few.bytes().len() as u64;
        own.reply.extend_from_slice(few.bytes());
    }
    if own.reply.len() as u64 != header.c {
        let why = format!("its reply has {} bytes and should have {}", own.reply.len(), header.c);
        return Err(Error::PeerLost { rank: from.0, fate: Fate::Unknown, why });
    }
    if header.flags & !FLAG_MORE == FAILED {
        return Err(frames::error_from_bytes(from, &own.reply));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::operations::{Action, Operation};
    use crate::engine::order::Condition;
    use crate::engine::Engine;
    use crate::node::Node;
    use crate::World;
    use kumiki_net::contract::Sink;
    use kumiki_net::os::socket;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_reply_of_a_rank_that_was_not_called_is_not_believed() {
        let world = World::init().unwrap();
        let node: &Node = world.core();
        let mut engine = Engine::new(Services::default());
        let id = engine.new_internal();
        let action = Action::Call { to: Rank(1), service: 0, leeway: Leeway::None, bytes: 0, few: None };
        let operation = Operation { peer: Some(Rank(1)), ..Operation::of_program(action, Condition::Free) };
        engine.operations.insert(id, operation);
        engine.calls.begin(id, Vec::new());
        let mut feed = engine.feed(node);
        let mut out = Outbox::default();
        let header = Header { kind: frames::RETURN, op: id, c: 20, ..Header::default() };
        let few = Few::new(&[9; 3]).map(|few| few.in_header(header)).unwrap();
        feed.part(Rank(2), &header, 0, &[9; 20]);
        feed.frame(Rank(2), 0, &few, &mut out);
        feed.frame(Rank(2), 0, &header, &mut out);
        assert!(feed.engine.operations.awaits(id, Rank(1)), "a stranger ended the call");
        feed.part(Rank(1), &header, 0, &[5; 20]);
        assert!(feed.frame(Rank(1), 0, &header, &mut out));
        assert_eq!(feed.engine.operations.take_result_of(id), Some(Ok(())));
        assert_eq!(feed.engine.calls.end(id), [5; 20]);
    }

    /// What a rank is asked, and how it answered.
    fn ask(feed: &mut Feed<'_>, bytes: usize) -> Result<()> {
        let header = Header { kind: frames::CALL, op: 5, a: 99, c: bytes as u64, ..Header::default() };
        let mut out = Outbox::default();
        let (first, second) = (vec![1; bytes / 2], vec![1; bytes - bytes / 2]);
        feed.part(Rank(1), &header, 0, &first);
        feed.part(Rank(1), &header, first.len() as u32, &second);
        let booked = feed.node.books.of(Purpose::Operation);
        assert!(booked == 0 || booked >= bytes as u64, "{booked} bytes are booked for {bytes}");
        feed.frame(Rank(1), 0, &header, &mut out);
        let answer = out.messages.pop().expect("an answer").1.header;
        match answer.kind {
            frames::DONE => frames::result_of(Rank(0), &answer),
            _ => Ok(()),
        }
    }

    /// Answers with what it was asked.
    const ECHO: &[Service] = &[Service {
        name: "echo",
        serve: |_, _, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        },
    }];

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn only_a_good_answer_to_a_call_that_was_posted_may_wait() {
        let world = World::init().unwrap();
        let mut engine = Engine::new(Services { table: ECHO, may_unwind: false });
        let mut feed = engine.feed(world.core());
        let mut answered = |service, leeway| {
            let few = Few::new(&[9; 3]);
            let header = Header { op: 7, ..request(service, leeway, 3, few).header };
            let mut out = Outbox::default();
            feed.frame(Rank(1), 0, &header, &mut out);
            out.messages.pop().expect("an answer").1.leeway
        };
        for leeway in [Leeway::None, Leeway::Short, Leeway::Long] {
            assert_eq!((answered(0, leeway), answered(1, leeway)), (leeway, Leeway::None));
        }
        world.finalize().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_request_is_booked_before_it_is_taken_and_one_beyond_the_budget_is_an_error_at_the_caller() {
        let world = World::init().unwrap();
        let node: &Node = world.core();
        let rest = node.books.left() - 1000;
        node.books.book(Purpose::Heap, rest).unwrap();
        let mut engine = Engine::new(Services::default());
        let mut feed = engine.feed(node);
        // There is no such service, which is an answer too; it is taken as sent here.
        assert_eq!(ask(&mut feed, 500), Ok(()));
        let sent = std::mem::take(&mut feed.engine.calls.replies);
        feed.engine.calls.bytes -= sent.values().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        feed.settle();
        assert_eq!((feed.engine.calls.bytes(), node.books.left()), (0, 1000));
        let refused = ask(&mut feed, 100_000);
        assert!(matches!(refused, Err(Error::OutOfMemory { asked: 100_000, left: 1000, .. })), "{refused:?}");
        assert_eq!((feed.engine.calls.bytes(), node.books.left()), (0, 1000));
        // The reserve: whoever wants to give memory back must be heard.
        assert_eq!(ask(&mut feed, 2000), Ok(()));
        node.books.unbook(Purpose::Heap, rest);
        world.finalize().unwrap();
    }

    /// Receives bytes as a transport does that was given room for them; whether it was.
    fn receive(feed: &mut Feed<'_>, header: &Header, at: u32, bytes: &[u8]) -> bool {
        let (mut here, there) = UnixStream::pair().expect("a pair of sockets");
        here.write_all(bytes).expect("they are sent");
        let Some(mut place) = feed.room(Rank(1), header, at, bytes.len()) else { return false };
        let received = socket::receive_into(there.as_fd(), &mut place, &mut []);
        assert_eq!(received.expect("they have come"), bytes.len());
        true
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_request_comes_in_parts_and_straight_to_its_place_and_nothing_of_an_earlier_one_is_left_in_it() {
        let world = World::init().unwrap();
        let mut engine = Engine::new(Services { table: ECHO, may_unwind: false });
        let mut feed = engine.feed(world.core());
        let header = |d, bytes: usize, flags| {
            let payload_bytes = bytes as u32;
            Header { kind: frames::CALL, op: 5, c: 30_000, d, payload_bytes, flags, ..Header::default() }
        };
        for round in 1..4u8 {
            let request: Vec<u8> = (0..30_000u32).map(|at| (at as u8).wrapping_mul(round)).collect();
            let mut out = Outbox::default();
            let (first, last) = (header(0, 20_000, FLAG_MORE), header(20_000, 10_000, 0));
            feed.part(Rank(1), &first, 0, &request[..100]);
            assert!(!receive(&mut feed, &first, 200, &request[200..300]), "what is before it has not come");
            assert!(receive(&mut feed, &first, 100, &request[100..19_000]));
            assert!(receive(&mut feed, &first, 19_000, &request[19_000..20_000]));
            feed.frame(Rank(1), 0, &first, &mut out);
            feed.part(Rank(1), &last, 0, &request[20_000..21_000]);
            assert!(receive(&mut feed, &last, 1000, &request[21_000..30_000]));
            assert!(!receive(&mut feed, &last, 10_000, &[1]), "more than it says");
            feed.frame(Rank(1), 0, &last, &mut out);
            let (number, (_, reply)) = feed.engine.calls.replies.drain().next().expect("a reply");
            assert_eq!((reply == request, number), (true, round.into()));
            feed.engine.calls.bytes -= reply.len() as u64;
        }
        // One that is not whole is refused, whatever is in its memory.
        let mut out = Outbox::default();
        feed.part(Rank(1), &header(0, 30_000, 0), 0, &[1; 100]);
        feed.frame(Rank(1), 0, &header(0, 100, 0), &mut out);
        let answer = out.messages.pop().expect("an answer").1.header;
        assert!(matches!(frames::result_of(Rank(0), &answer), Err(Error::Misuse(_))), "{answer:?}");
        feed.settle();
        world.finalize().unwrap();
    }

    #[test]
    fn a_request_that_is_being_sent_stays_and_comes_back_when_it_is_needed() {
        let mut calls = Calls::default();
        let source = Source { kind: SOURCE_REQUEST, place: 7 };
        for (must_be, is_kept, wanted) in [(false, false, 3), (false, true, 0), (true, true, 3)] {
            calls.begin(7, vec![1, 2, 3]);
            let shared = calls.share(source).expect("the request");
            assert_eq!((&shared[..], calls.bytes()), (&[1, 2, 3][..], 3));
            let mut piece = [0; 2];
            assert_eq!((calls.fill(source, 1, &mut piece), piece), (Some(true), [2, 3]));
            let kept = is_kept.then_some(shared);
            assert_eq!((calls.end_whole(7, must_be).0.len(), calls.bytes()), (wanted, 0));
            assert!(kept.is_none_or(|kept| kept[..] == [1, 2, 3]) && calls.share(source).is_none());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_request_that_says_it_is_longer_than_any_is_not_kept_and_is_an_error() {
        let world = World::init().unwrap();
        let node: &Node = world.core();
        let mut engine = Engine::new(Services::default());
        let mut feed = engine.feed(node);
        let header = |op, c| Header { kind: frames::CALL, op, a: 99, c, ..Header::default() };
        for c in [MAX_CALL_BYTES + 1, u64::MAX - REQUEST_BYTES, u64::MAX] {
            let mut out = Outbox::default();
            feed.part(Rank(1), &header(5, c), 0, &[1; 20]);
            assert_eq!(feed.engine.calls.bytes(), 0, "{c} bytes are booked");
            feed.frame(Rank(1), 0, &header(5, c), &mut out);
            let answer = out.messages.pop().expect("an answer").1.header;
            assert!(matches!(frames::result_of(Rank(0), &answer), Err(Error::Misuse { .. })), "{answer:?}");
            // A last piece that speaks of more than the first did.
            feed.part(Rank(1), &header(6, 20), 0, &[1; 20]);
            feed.frame(Rank(1), 0, &header(6, c), &mut out);
            let answer = out.messages.pop().expect("an answer").1.header;
            assert!(matches!(frames::result_of(Rank(0), &answer), Err(Error::Misuse { .. })), "{answer:?}");
        }
        assert_eq!(feed.engine.calls.bytes(), 0);
        world.finalize().unwrap();
    }
}
