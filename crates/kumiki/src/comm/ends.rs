//! The two ends of a channel, as their ranks have them: what is to be sent, what is waited for, and how far both are.
//!
//! An end goes on when somebody of its process makes it ([`advance`](SendEnd::advance)): whoever waits for anything makes all ends go on. Nothing
//! here waits.

use super::door::{Knock, What};
use super::lane::{Cell, Lane, Part, Stub, STUB_BYTES};
use super::lobby::Lobby;
use super::{BREAK, COMM, PUSH, TELL};
use crate::data::heap;
use crate::{Error, GlobalAddress, Purpose, Rank, Result, World};
use kumiki_mem::{Booking, Posted};
use std::any::Any;
use std::collections::{HashMap, VecDeque};

/// Bytes of the tables for an end, and for a request.
const END_BYTES: u64 = 512;
/// Requests to another node that may be under way at once for an end.
const MOST_POSTED: usize = 16;

/// The request of an end that is closed because all are.
const NOBODY: u64 = 0;

/// Memory of the program that a message is written to.
pub trait Room: Send {
    /// All of it.
    fn bytes(&mut self) -> &mut [u8];
}

/// Where a message goes.
pub(crate) enum Basket {
    /// Into as much as it takes.
    Growing(Vec<u8>),
    /// Into memory of the program.
    Room(Box<dyn Room>),
}

impl Basket {
    /// Room for a piece of a message behind what is there: less than that, where the program has given less.
    fn piece(&mut self, at: u64, bytes: u64) -> &mut [u8] {
        let (at, end) = (at as usize, (at + bytes) as usize);
        match self {
            Basket::Growing(memory) => {
                memory.resize(end, 0);
                &mut memory[at..]
            }
            Basket::Room(room) => {
                let room = room.bytes();
                let length = room.len();
                &mut room[at.min(length)..end.min(length)]
            }
        }
    }

    /// How many bytes of a message go into it.
    fn takes(&mut self, whole: u64) -> u64 {
        match self {
            Basket::Growing(_) => whole,
            Basket::Room(room) => whole.min(room.bytes().len() as u64),
        }
    }
}

/// What became of a request.
pub(crate) struct Done {
    /// Bytes of the message that are in the basket, or what went wrong.
    pub(crate) result: Result<u64>,
    /// Bytes of the message as it was sent.
    pub(crate) whole: u64,
    pub(crate) basket: Option<Basket>,
}

impl Done {
    fn empty(result: Result<u64>) -> Done {
        Done { result, whole: 0, basket: None }
    }
}

/// What became of requests that nobody has asked for yet.
pub(crate) type Results = HashMap<u64, Done>;

/// What keeps memory that is lent, if not whoever lends it.
type Keeper = Option<Box<dyn Any + Send>>;

/// What a send has to send.
pub(crate) enum Load {
    /// Bytes of its own.
    Bytes(Vec<u8>),
    /// Memory that the receiver fetches; the guard keeps it until then.
    Memory(GlobalAddress, u64, Keeper),
    /// That nothing comes any more.
    End,
}

struct Outgoing {
    request: u64,
    load: Load,
    /// Bytes that are in cells already.
    at: usize,
    /// For the bytes that are kept.
    _booked: Option<Booking>,
}

/// The end that sends.
pub(crate) struct SendEnd {
    pub(super) peer: Rank,
    number: u64,
    stub: Stub,
    lane: Option<Lane>,
    /// Cells that were sent.
    sent: u64,
    queue: VecDeque<Outgoing>,
    /// Messages that are to be fetched: the request, its length, and its memory.
    lent: VecDeque<(u64, u64, Keeper)>,
    /// How many messages were to be fetched in all.
    lendings: u64,
    posted: VecDeque<Posted>,
    /// The request that frees it, when its last cell is sent, until that is done.
    freeing: Option<u64>,
    /// Nothing is sent any more.
    is_ended: bool,
    failed: Option<Error>,
    _booked: Booking,
}

/// Makes a block of this rank into the memory of an end, which takes its number: the block is given back if that fails.
fn settle(
    world: &World,
    bytes: u64,
    lay_out: impl FnOnce(GlobalAddress) -> Result<()>,
    number: impl FnOnce() -> Result<u64>,
) -> Result<(GlobalAddress, u64)> {
    let block = world.malloc(bytes as usize, world.rank())?;
    match lay_out(block).and_then(|()| number()) {
        Ok(number) => Ok((block, number)),
        Err(error) => {
            let _ = heap::release(world.local(), block);
            Err(error)
        }
    }
}

impl SendEnd {
    pub(super) fn new(world: &World, lobby: &mut Lobby, to: Rank) -> Result<SendEnd> {
        let booked = world.book(Purpose::Comm, END_BYTES)?;
        let lay_out = |block| Stub(block).lay_out(world.local(), to);
        let (block, number) = settle(world, STUB_BYTES, lay_out, || lobby.number(world, What::Sender, to))?;
        let stub = Stub(block);
        let words = [stub.0.bits(), 0, 0];
        lobby.knock(to, Knock { what: What::Sender, from: world.rank(), number, words });
        Ok(SendEnd {
            peer: to,
            number,
            stub,
            lane: None,
            sent: 0,
            queue: VecDeque::new(),
            lent: VecDeque::new(),
            lendings: 0,
            posted: VecDeque::new(),
            freeing: None,
            is_ended: false,
            failed: None,
            _booked: booked,
        })
    }

    /// Whether it has something to do for this end's program.
    pub(super) fn is_busy(&self) -> bool {
        self.failed.is_none() && (self.open_requests() > 0 || self.freeing.is_some())
    }

    /// How far it has come: another number if something has moved.
    pub(super) fn moves(&self) -> u64 {
        self.sent + self.lendings - self.lent.len() as u64
    }

    /// Requests that are not done.
    pub(super) fn open_requests(&self) -> usize {
        self.queue.len() + self.lent.len()
    }

    pub(super) fn is_freed(&self) -> bool {
        self.is_ended || self.queue.iter().any(|outgoing| matches!(outgoing.load, Load::End))
    }

    pub(super) fn send(&mut self, request: u64, load: Load) {
        self.queue.push_back(Outgoing { request, load, at: 0, _booked: None });
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Nothing is sent any more, behind what is to be sent.
    pub(super) fn close(&mut self) {
        if !self.is_freed() && self.failed.is_none() {
            self.send(NOBODY, Load::End);
        }
    }

    /// Sends a message that there is room for, where none waits; whether it did.
    pub(super) fn send_now(&mut self, world: &World, bytes: &[u8]) -> Result<bool> {
        let Some(lane) = self.lane.filter(|_| self.queue.is_empty() && self.failed.is_none()) else {
            return Ok(false);
        };
        let part = Part::Bytes { whole: Some(bytes.len() as u64), bytes };
        let room = self.room(world, lane)?;
        if part.cell_count(lane.slot_bytes) > room {
            return Ok(false);
        }
        self.put(world, lane, part, room)?;
        Ok(true)
    }

    /// Keeps a message until there is room for it.
    pub(super) fn keep(&mut self, request: u64, message: Vec<u8>, booked: Booking) {
        self.queue.push_back(Outgoing { request, load: Load::Bytes(message), at: 0, _booked: Some(booked) });
    }

    /// Sends what can be sent. Whether the end is over, and its memory given back.
    pub(super) fn advance(&mut self, world: &World, lobby: &mut Lobby, done: &mut Results) -> bool {
        if self.failed.is_none() {
            if let Err(error) = self.try_advance(world, lobby, done) {
                self.fail(error, done);
                self.break_off(world);
            }
        } else if let Some(error) = self.failed.clone() {
            self.fail(error, done);
        }
        let local = world.local();
        let is_through = self.failed.is_some() || self.posted.is_empty() && self.lent.is_empty();
        if let Some(request) = self.freeing.take_if(|_| is_through) {
            done.insert(request, Done::empty(Ok(0)));
        }
        if !self.is_ended || !is_through {
            return false;
        }
        // The receiver may still write to the stub: it is given back when it says that it does not, or cannot.
        let is_alone = local.check_alive(self.peer).is_err();
        let is_over = is_alone || self.stub.is_closed(local).unwrap_or(true);
        if is_over {
            let _ = heap::release(local, self.stub.0);
            self.posted.drain(..).for_each(|posted| world.memory.forget_call(posted));
        }
        is_over
    }

    pub(super) fn fail(&mut self, error: Error, done: &mut Results) {
        for outgoing in self.queue.drain(..) {
            match outgoing.load {
                Load::End => {
                    self.freeing = Some(outgoing.request);
                    self.is_ended = true;
                }
                _ => drop(done.insert(outgoing.request, Done::empty(Err(error.clone())))),
            }
        }
        for (request, ..) in self.lent.drain(..) {
            done.insert(request, Done::empty(Err(error.clone())));
        }
        self.failed = Some(error);
    }

    fn try_advance(&mut self, world: &World, lobby: &mut Lobby, done: &mut Results) -> Result<()> {
        // What the receiver has said counts before that it is gone: asked now, it may have said more by the time it is looked at.
        let (reaped, alive) = (reap(world, &mut self.posted), world.local().check_alive(self.peer));
        self.settle_fetched(world, done)?;
        reaped?;
        let lane = match self.lane {
            Some(lane) => lane,
            None => match lobby.answer(What::Sender, self.peer, self.number) {
                Some(knock) if knock.is_refusal() => return Err(never_made(self.peer)),
                Some(Knock { words: [address, slots, slot_bytes], .. }) => {
                    let lane = Lane::new(GlobalAddress::from_bits(address), slots, slot_bytes)?;
                    *self.lane.insert(lane)
                }
                None => {
                    lobby.trouble(What::Sender, self.peer, self.number)?;
                    return world.local().check_alive(self.peer);
                }
            },
        };
        if !self.lent.is_empty() {
            // Whoever is to fetch it may be gone, and nothing else would tell.
            alive?;
        }
        while let Some(mut first) = self.queue.pop_front() {
            let sent = self.send_first(world, lane, &mut first);
            match sent {
                Ok(true) => match first.load {
                    Load::Bytes(bytes) => {
                        let whole = bytes.len() as u64;
                        done.insert(first.request, Done { whole, ..Done::empty(Ok(whole)) });
                    }
                    Load::Memory(_, bytes, guard) => self.lent.push_back((first.request, bytes, guard)),
                    Load::End => {
                        self.freeing = Some(first.request);
                        self.is_ended = true;
                    }
                },
                Ok(false) => {
                    self.queue.push_front(first);
                    break;
                }
                Err(error) => {
                    self.queue.push_front(first);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Ends the requests for messages that were fetched.
    fn settle_fetched(&mut self, world: &World, done: &mut Results) -> Result<()> {
        let fetched = self.stub.fetched(world.local())?;
        while self.lendings - self.lent.len() as u64 != fetched {
            let Some((request, bytes, _)) = self.lent.pop_front() else { break };
            done.insert(request, Done { whole: bytes, ..Done::empty(Ok(bytes)) });
        }
        Ok(())
    }

    /// Sends what there is room for of a message: whether that is all.
    fn send_first(&mut self, world: &World, lane: Lane, first: &mut Outgoing) -> Result<bool> {
        let room = self.room(world, lane)?;
        if room == 0 {
            return Ok(false);
        }
        match &first.load {
            Load::Bytes(bytes) => {
                let whole = (first.at == 0).then_some(bytes.len() as u64);
                let rest = &bytes[first.at..];
                let length = rest.len().min((room * lane.slot_bytes) as usize);
                let is_all = length == rest.len();
                self.put(world, lane, Part::Bytes { whole, bytes: &rest[..length] }, room)?;
                first.at += length;
                Ok(is_all)
            }
            Load::Memory(address, bytes, _) => {
                let place = address.bits().to_le_bytes();
                self.put(world, lane, Part::Fetch { place: &place, bytes: *bytes }, room)?;
                self.lendings += 1;
                Ok(true)
            }
            Load::End => self.put(world, lane, Part::End, room).map(|()| true),
        }
    }

    /// Cells that the receiver has room for.
    fn room(&self, world: &World, lane: Lane) -> Result<u64> {
        let local = world.local();
        let near = local.is_near(self.peer);
        let taken = if near { lane.head(local)? } else { self.stub.credit(local)? };
        if !near && self.posted.len() >= MOST_POSTED {
            return Ok(0);
        }
        let under_way = self.sent.checked_sub(taken).filter(|cells| *cells <= lane.slots);
        under_way.map(|cells| lane.slots - cells).ok_or_else(|| {
            Error::Refused(format!("rank {} has taken cells of a channel that were never sent", self.peer))
        })
    }

    /// Tells a receiver that lives that nothing comes any more.
    fn break_off(&mut self, world: &World) {
        let (local, Some(lane)) = (world.local(), self.lane) else { return };
        if local.is_near(self.peer) {
            let _ = lane.break_off(local);
            let _ = world.memory.wake(self.peer);
        } else if let Ok(posted) = world.memory.post_call(self.peer, COMM, lane.break_request(BREAK)) {
            self.posted.push_back(posted);
        }
    }

    /// Puts a part into cells, of which there are so many.
    fn put(&mut self, world: &World, lane: Lane, part: Part<'_>, room: u64) -> Result<()> {
        let local = world.local();
        // With the last of them: the receiver says when it has taken some.
        let hungry = part.cell_count(lane.slot_bytes) == room;
        if local.is_near(self.peer) {
            lane.write(local, self.sent, part)?;
            world.wake(self.peer)?;
        } else {
            let request = lane.request(PUSH, self.sent, part, hungry);
            self.posted.push_back(world.memory.post_call(self.peer, COMM, request)?);
        }
        self.sent += part.cell_count(lane.slot_bytes);
        Ok(())
    }
}

/// Why an end will not meet the other one.
pub(super) fn never_made(peer: Rank) -> Error {
    Error::Closed(format!("rank {peer} ends, and has never made its end"))
}

/// Takes the answers to requests that are there; fails with the first that says so.
fn reap(world: &World, posted: &mut VecDeque<Posted>) -> Result<()> {
    while let Some(first) = posted.front() {
        match world.memory.answer_of(*first) {
            None => break,
            Some(answer) => {
                posted.pop_front();
                answer?;
            }
        }
    }
    Ok(())
}

struct Wanted {
    request: u64,
    basket: Basket,
}

/// A message that is to be fetched from memory of the sender: whoever waits does it, and [says so](ReceiveEnd::fetched).
pub(crate) struct Fetch {
    pub(super) end: u64,
    pub(super) place: GlobalAddress,
    pub(super) whole: u64,
    request: u64,
    pub(super) basket: Basket,
}

impl Fetch {
    /// Fetches it. Nothing of the channel is held meanwhile.
    pub(super) fn run(&mut self, world: &World) -> Result<()> {
        let from = crate::GlobalPtr::from_address(self.place);
        match &mut self.basket {
            Basket::Growing(memory) => {
                *memory = world.get_vec(from, self.whole as usize)?;
                Ok(())
            }
            basket => {
                let bytes = basket.takes(self.whole);
                world.get_slice(from, basket.piece(0, bytes))
            }
        }
    }
}

/// What became of a message that was asked for at once.
pub(super) enum Now {
    /// None is there.
    Nothing,
    /// It was taken, and has so many bytes.
    Taken(u64),
    /// It is to be fetched from there, and has so many bytes.
    Fetch(GlobalAddress, u64),
    /// It comes in pieces, or others are before it, or none comes any more.
    Otherwise,
}

/// The end that receives.
pub(crate) struct ReceiveEnd {
    pub(super) peer: Rank,
    number: u64,
    lane: Lane,
    stub: Option<Stub>,
    /// Whether the sender was told that this was the last.
    is_closed: bool,
    /// Cells that were taken, and how many of them the sender was told of.
    head: u64,
    told: u64,
    wanted: VecDeque<Wanted>,
    /// A message of which a part was taken: its length, and what was.
    current: Option<(u64, u64)>,
    /// Messages that were fetched, and how many of them the sender was told of.
    fetched: u64,
    fetched_told: u64,
    is_fetching: bool,
    posted: VecDeque<Posted>,
    /// The sender sends no more.
    ended: bool,
    /// The request that frees it.
    freeing: Option<u64>,
    /// Whether what nobody wants is dropped.
    drops: bool,
    failed: Option<Error>,
    _booked: Booking,
}

impl ReceiveEnd {
    pub(super) fn new(
        world: &World,
        lobby: &mut Lobby,
        from: Rank,
        slots: u64,
        slot_bytes: u64,
    ) -> Result<Self> {
        let booked = world.book(Purpose::Comm, END_BYTES)?;
        let measures = Lane::new(GlobalAddress::from_bits(0), slots, slot_bytes)?;
        let lay_out = |address| Lane { address, ..measures }.lay_out(world.local(), from);
        let number = || lobby.number(world, What::Receiver, from);
        let (address, number) = settle(world, measures.bytes(), lay_out, number)?;
        let lane = Lane { address, ..measures };
        let words = [address.bits(), slots, slot_bytes];
        lobby.knock(from, Knock { what: What::Receiver, from: world.rank(), number, words });
        Ok(ReceiveEnd {
            peer: from,
            number,
            lane,
            stub: None,
            is_closed: false,
            head: 0,
            told: 0,
            wanted: VecDeque::new(),
            current: None,
            fetched: 0,
            fetched_told: 0,
            is_fetching: false,
            posted: VecDeque::new(),
            ended: false,
            freeing: None,
            drops: false,
            failed: None,
            _booked: booked,
        })
    }

    pub(super) fn is_freed(&self) -> bool {
        self.freeing.is_some()
    }

    pub(super) fn want(&mut self, request: u64, basket: Basket) {
        self.wanted.push_back(Wanted { request, basket });
    }

    pub(super) fn free(&mut self, request: u64) {
        self.freeing = Some(request);
    }

    /// Whether somebody waits for something of it.
    pub(super) fn is_busy(&self) -> bool {
        self.failed.is_none() && (self.is_fetching || !self.wanted.is_empty())
    }

    /// How far it has come: another number if something has moved.
    pub(super) fn moves(&self) -> u64 {
        self.head + self.fetched
    }

    /// Whether its sender is there, and has not said that nothing comes any more.
    pub(super) fn is_awaiting_more(&self) -> bool {
        self.failed.is_none() && (self.is_fetching || self.stub.is_some() && !self.ended)
    }

    /// Whether its sender may still wait for room.
    pub(super) fn is_missed(&self) -> bool {
        self.failed.is_none() && !self.ended
    }

    /// Whether a message has begun to come, or none can.
    pub(super) fn has_mail(&self, world: &World) -> Result<bool> {
        Ok(self.ended || self.failed.is_some() || self.lane.tail(world.local())? != self.head)
    }

    /// Takes a message that has come in one cell into memory of the program, where nobody has asked for one before; or says where it is
    /// to be fetched from. Then whoever asked fetches it, and [says so](Self::fetched_alone).
    pub(super) fn take_now(&mut self, world: &World, into: &mut [u8]) -> Result<Now> {
        let is_idle =
            self.wanted.is_empty() && self.current.is_none() && !self.is_fetching && !self.is_closed;
        if !is_idle || self.failed.is_some() || self.freeing.is_some() {
            return Ok(Now::Otherwise);
        }
        let local = world.local();
        let Some(cell) = self.lane.next_cell(local, self.head)? else { return Ok(Now::Nothing) };
        match cell {
            // The sender must be told that it was taken.
            _ if self.stub.is_none() => Ok(Now::Otherwise),
            Cell::First(whole) if whole <= self.lane.slot_bytes => {
                let length = into.len().min(whole as usize);
                self.lane.read(local, self.head, &mut into[..length])?;
                self.head += 1;
                // What goes wrong with that is met when nothing is left to be taken.
                let _ = reap(world, &mut self.posted).and_then(|()| self.tell(world));
                Ok(Now::Taken(whole))
            }
            Cell::Fetch(whole) => {
                let Ok(place) = self.place_to_fetch(world) else { return Ok(Now::Otherwise) };
                self.head += 1;
                self.is_fetching = true;
                Ok(Now::Fetch(place, whole))
            }
            _ => Ok(Now::Otherwise),
        }
    }

    /// What was to be fetched was, or could not be.
    pub(super) fn fetched_alone(&mut self) {
        self.is_fetching = false;
        self.fetched += 1;
    }

    /// Where the message of the next cell lies: in memory of the sender.
    fn place_to_fetch(&self, world: &World) -> Result<GlobalAddress> {
        let local = world.local();
        let place = self.lane.place(local, self.head)?;
        match local.rank_of(place) == self.peer {
            true => Ok(place),
            false => Err(broken(self.peer)),
        }
    }

    /// Takes what has come. What is to be fetched is given out; whether the end is over.
    pub(super) fn advance(
        &mut self,
        id: u64,
        world: &World,
        lobby: &mut Lobby,
        done: &mut Results,
        drops: bool,
    ) -> (Option<Fetch>, bool) {
        self.drops = drops || self.freeing.is_some();
        let mut fetch = None;
        match self.failed.clone() {
            None => match self.try_advance(id, world, lobby, done) {
                Ok(found) => fetch = found,
                Err(error) => self.fail(error, done),
            },
            Some(error) => self.fail(error, done),
        }
        let Some(request) = self.freeing.filter(|_| !self.is_fetching && fetch.is_none()) else {
            return (fetch, false);
        };
        if (self.ended || self.failed.is_some()) && !self.is_closed {
            self.close(world);
        }
        let is_over = self.failed.is_some() || self.is_closed && self.posted.is_empty();
        if is_over {
            let local = world.local();
            self.posted.drain(..).for_each(|posted| world.memory.forget_call(posted));
            let _ = self.lane.raze(local).and_then(|()| heap::release(local, self.lane.address));
            done.insert(request, Done::empty(Ok(0)));
        }
        (fetch, is_over)
    }

    /// Tells the sender that nothing is written to its words any more, if it is known.
    fn close(&mut self, world: &World) {
        let local = world.local();
        let Some(stub) = self.stub else { return };
        self.is_closed = true;
        if local.is_near(self.peer) {
            let _ = stub.tell(local, self.head, self.fetched, true);
            let _ = world.memory.wake(self.peer);
            return;
        }
        let request = stub.request(TELL, self.head, self.fetched, true);
        if let Ok(posted) = world.memory.post_call(self.peer, COMM, request) {
            self.posted.push_back(posted);
        }
    }

    /// Nobody wants what comes any more, and no memory of the program is written to.
    pub(super) fn abandon(&mut self) {
        self.wanted.clear();
    }

    pub(super) fn fail(&mut self, error: Error, done: &mut Results) {
        for wanted in self.wanted.drain(..) {
            done.insert(wanted.request, Done::empty(Err(error.clone())));
        }
        self.failed = Some(error);
    }

    fn try_advance(
        &mut self,
        id: u64,
        world: &World,
        lobby: &mut Lobby,
        done: &mut Results,
    ) -> Result<Option<Fetch>> {
        let reaped = reap(world, &mut self.posted);
        if self.stub.is_none() {
            match lobby.answer(What::Receiver, self.peer, self.number) {
                Some(knock) if knock.is_refusal() => return Err(never_made(self.peer)),
                answer => self.stub = answer.map(|knock| Stub(GlobalAddress::from_bits(knock.words[0]))),
            }
        }
        let local = world.local();
        // Before the cells are looked at: what it sent before it went is there then.
        let alive = local.check_alive(self.peer);
        let fetch = self.take_cells(id, world, done)?;
        let told = if self.is_closed { Ok(()) } else { self.tell(world) };
        if fetch.is_none() && !self.is_fetching && !self.ended && self.lane.tail(local)? == self.head {
            // What the sender sent before it went, or failed, was taken first.
            alive?;
            if self.lane.is_broken(local)? {
                let failed = format!("rank {} could not send on; its own error says why", self.peer);
                return Err(Error::Closed(failed));
            }
            reaped.and(told)?;
            // Its sender has never heard of this end.
            lobby.check_refused(What::Receiver, self.peer, self.number)?;
            if self.stub.is_none() {
                lobby.trouble(What::Receiver, self.peer, self.number)?;
            }
        }
        Ok(fetch)
    }

    fn take_cells(&mut self, id: u64, world: &World, done: &mut Results) -> Result<Option<Fetch>> {
        let local = world.local();
        let tail = self.lane.tail(local)?;
        if tail.wrapping_sub(self.head) > self.lane.slots {
            return Err(broken(self.peer));
        }
        while self.head != tail && !self.is_fetching {
            if self.wanted.is_empty() && !self.drops {
                // An end is news to whoever asks whether something comes.
                self.ended |= self.lane.cell(local, self.head)? == Cell::End;
                break;
            }
            let slot = self.lane.slot_bytes;
            match (self.lane.cell(local, self.head)?, self.current) {
                (Cell::First(whole), None) => {
                    self.current = Some((whole, 0));
                    self.take_piece(world, whole.min(slot), done)?;
                }
                (Cell::More(bytes), Some((whole, at))) if bytes <= slot && bytes <= whole - at => {
                    self.take_piece(world, bytes, done)?;
                }
                (Cell::Fetch(whole), None) => {
                    let place = self.place_to_fetch(world)?;
                    self.head += 1;
                    match self.wanted.pop_front() {
                        Some(Wanted { request, basket }) => {
                            self.is_fetching = true;
                            return Ok(Some(Fetch { end: id, place, whole, request, basket }));
                        }
                        None => self.fetched += 1,
                    }
                }
                (Cell::End, None) => {
                    self.ended = true;
                    let closed = Error::Closed(format!("rank {} has freed the channel", self.peer));
                    for wanted in self.wanted.drain(..) {
                        done.insert(wanted.request, Done::empty(Err(closed.clone())));
                    }
                    // It stays there: nothing comes behind it.
                    break;
                }
                _ => return Err(broken(self.peer)),
            }
        }
        Ok(None)
    }

    /// Takes a cell of a message, and ends the message with its last one.
    fn take_piece(&mut self, world: &World, bytes: u64, done: &mut Results) -> Result<()> {
        let Some((whole, at)) = self.current else { return Ok(()) };
        if let Some(wanted) = self.wanted.front_mut() {
            let room = wanted.basket.piece(at, bytes);
            self.lane.read(world.local(), self.head, room)?;
        }
        self.head += 1;
        if at + bytes < whole {
            self.current = Some((whole, at + bytes));
            return Ok(());
        }
        self.current = None;
        if let Some(Wanted { request, mut basket }) = self.wanted.pop_front() {
            let result = Ok(basket.takes(whole));
            done.insert(request, Done { result, whole, basket: Some(basket) });
        }
        Ok(())
    }

    /// A message was fetched, or could not be.
    pub(super) fn fetched(&mut self, fetch: Fetch, fetched: Result<()>, done: &mut Results) {
        self.is_fetching = false;
        self.fetched += 1;
        let Fetch { request, whole, mut basket, .. } = fetch;
        let result = fetched.map(|()| basket.takes(whole));
        done.insert(request, Done { result, whole, basket: Some(basket) });
    }

    /// Tells the sender how far this end is, if that is worth a message.
    fn tell(&mut self, world: &World) -> Result<()> {
        let local = world.local();
        let near = local.is_near(self.peer);
        if self.head == self.told && self.fetched == self.fetched_told {
            return Ok(());
        }
        let hungry = self.lane.take_up_to(local, self.head)?;
        let Some(stub) = self.stub else {
            // A neighbour looks here by itself.
            return if near { world.wake(self.peer) } else { Ok(()) };
        };
        if near {
            stub.tell(local, self.head, self.fetched, false)?;
            world.wake(self.peer)?;
        } else {
            let much = self.head - self.told >= (self.lane.slots / 2).max(1);
            let worth_it = much || hungry && self.head != self.told || self.fetched != self.fetched_told;
            // The last of them says it all: who waits for it is told however many are under way.
            let waited_for = hungry || self.fetched != self.fetched_told;
            if !worth_it || self.posted.len() >= MOST_POSTED && !waited_for {
                return Ok(());
            }
            let request = stub.request(TELL, self.head, self.fetched, false);
            self.posted.push_back(world.memory.post_call(self.peer, COMM, request)?);
        }
        (self.told, self.fetched_told) = (self.head, self.fetched);
        Ok(())
    }
}

fn broken(peer: Rank) -> Error {
    Error::Refused(format!("the cells that rank {peer} has sent are no messages"))
}
