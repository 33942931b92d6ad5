//! The end that sends.

use super::{never_made, reap, settle, Done, Results, END_BYTES, MOST_POSTED, MOST_SPARES, NOBODY};
use crate::comm::door::{Knock, What};
use crate::comm::lane::{Lane, Part, Stub, STUB_BYTES};
use crate::comm::lobby::Lobby;
use crate::comm::spares::{Spares, LEAST_SPARE};
use crate::comm::{BREAK, COMM, PUSH};
use crate::data::heap;
use crate::{Error, GlobalAddress, Purpose, Rank, Result, World};
use kumiki_mem::{Booking, Mark, Posted};
use std::any::Any;
use std::collections::VecDeque;

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
    pub(in crate::comm) peer: Rank,
    number: u64,
    stub: Stub,
    lane: Option<(Lane, Mark)>,
    /// Cells that were sent, and how many of them a neighbour had taken when that was looked at.
    sent: u64,
    taken: u64,
    queue: VecDeque<Outgoing>,
    /// Messages that are to be fetched: the request, its length, and its memory.
    lent: VecDeque<(u64, u64, Keeper)>,
    /// How many messages were to be fetched in all.
    lendings: u64,
    posted: VecDeque<Posted>,
    spares: Spares,
    /// Whether something went as a letter since it was looked at last.
    sends_letters: bool,
    /// Why the receiver has refused something, until that is looked at.
    refused: Option<Error>,
    /// The request that frees it, when its last cell is sent, until that is done.
    freeing: Option<u64>,
    /// Nothing is sent any more.
    is_ended: bool,
    failed: Option<Error>,
    _booked: Booking,
}

impl SendEnd {
    pub(in crate::comm) fn new(world: &World, lobby: &mut Lobby, to: Rank) -> Result<SendEnd> {
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
            taken: 0,
            queue: VecDeque::new(),
            lent: VecDeque::new(),
            lendings: 0,
            posted: VecDeque::new(),
            spares: Spares::default(),
            sends_letters: false,
            refused: None,
            freeing: None,
            is_ended: false,
            failed: None,
            _booked: booked,
        })
    }

    /// Whether it has something to do for this end's program.
    pub(in crate::comm) fn is_busy(&self) -> bool {
        self.failed.is_none() && (self.open_requests() > 0 || self.freeing.is_some())
    }

    /// How far it has come: another number if something has moved.
    pub(in crate::comm) fn moves(&self) -> u64 {
        self.sent + self.lendings - self.lent.len() as u64
    }

    /// Requests that are not done.
    pub(in crate::comm) fn open_requests(&self) -> usize {
        self.queue.len() + self.lent.len()
    }

    pub(in crate::comm) fn is_freed(&self) -> bool {
        self.is_ended || self.queue.iter().any(|outgoing| matches!(outgoing.load, Load::End))
    }

    pub(in crate::comm) fn send(&mut self, request: u64, load: Load) {
        self.queue.push_back(Outgoing { request, load, at: 0, _booked: None });
    }

    pub(in crate::comm) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Nothing is sent any more, behind what is to be sent.
    pub(in crate::comm) fn close(&mut self) {
        if !self.is_freed() && self.failed.is_none() {
            self.send(NOBODY, Load::End);
        }
    }

    /// Sends a message that there is room for, where none waits; whether it did.
    pub(in crate::comm) fn send_now(&mut self, world: &World, bytes: &[u8]) -> Result<bool> {
        let lane = self.lane.map(|(lane, _)| lane);
        let is_idle = self.queue.is_empty() && self.failed.is_none() && self.refused.is_none();
        let Some(lane) = lane.filter(|_| is_idle) else {
            return Ok(false);
        };
        let part = Part::Bytes { whole: Some(bytes.len() as u64), bytes };
        let count = part.cell_count(lane.slot_bytes);
        let room = self.room(world, lane, count)?;
        if count > room {
            return Ok(false);
        }
        self.put(world, lane, part, room)?;
        Ok(true)
    }

    /// Keeps a message until there is room for it.
    pub(in crate::comm) fn keep(&mut self, request: u64, message: Vec<u8>, booked: Booking) {
        self.queue.push_back(Outgoing { request, load: Load::Bytes(message), at: 0, _booked: Some(booked) });
    }

    /// Sends what can be sent. Whether the end is over, and its memory given back.
    pub(in crate::comm) fn advance(&mut self, world: &World, lobby: &mut Lobby, done: &mut Results) -> bool {
        if self.failed.is_none() {
            if let Err(error) = self.try_advance(world, lobby, done) {
                self.fail(error, done);
                self.break_off(world);
            }
        } else if let Some(error) = self.failed.clone() {
            self.fail(error, done);
        }
        // What is kept for the next messages is for those that come soon.
        if self.failed.is_some() || self.posted.is_empty() && !std::mem::take(&mut self.sends_letters) {
            self.spares.clear();
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
            let _ = heap::release_lines(local, self.stub.0);
            self.posted.drain(..).for_each(|posted| world.memory.forget_call(posted));
        }
        is_over
    }

    pub(in crate::comm) fn fail(&mut self, error: Error, done: &mut Results) {
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
        let (reaped, alive) =
            (reap(world, &mut self.posted, &mut self.spares), world.local().check_alive(self.peer));
        self.settle_fetched(world, done)?;
        self.refused.take().map_or(reaped, Err)?;
        let lane = match self.lane {
            Some((lane, _)) => {
                let refused = world.memory.refused_letter(lane.address.bits(), |from| from == self.peer);
                refused.map_or(Ok(lane), Err)?
            }
            None => match lobby.answer(What::Sender, self.peer, self.number) {
                Some(knock) if knock.is_refusal() => return Err(never_made(self.peer)),
                Some(Knock { words: [address, slots, slot_bytes], .. }) => {
                    let lane = Lane::new(GlobalAddress::from_bits(address), slots, slot_bytes)?;
                    self.lane = Some((lane, lane.mark()));
                    lane
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
        let room = self.room(world, lane, lane.slots)?;
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

    /// Cells that the receiver has room for: enough of them, or all that there are.
    fn room(&mut self, world: &World, lane: Lane, enough: u64) -> Result<u64> {
        let local = world.local();
        let near = local.is_near(self.peer);
        // What a neighbour writes with each cell is only looked at when it must be.
        if near && self.sent - self.taken + enough <= lane.slots {
            return Ok(lane.slots - (self.sent - self.taken));
        }
        let taken = if near { lane.head(local)? } else { self.stub.credit(local)? };
        if !near && self.posted.len() >= MOST_POSTED {
            return Ok(0);
        }
        let under_way = self.sent.checked_sub(taken).filter(|cells| *cells <= lane.slots);
        let under_way = under_way.ok_or_else(|| {
            Error::Refused(format!("rank {} has taken cells of a channel that were never sent", self.peer))
        })?;
        self.taken = taken;
        Ok(lane.slots - under_way)
    }

    /// Tells a receiver that lives that nothing comes any more.
    fn break_off(&mut self, world: &World) {
        let (local, Some((lane, _))) = (world.local(), self.lane) else { return };
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
            let span = match &mut self.lane {
                Some((_, mark)) => local.span_at(mark)?,
                None => return Err(never_made(self.peer)),
            };
            lane.write(span, self.sent, part)?;
            world.wake(self.peer)?;
        } else {
            // What is long gives its memory back soon.
            if part.bytes() >= LEAST_SPARE && self.refused.is_none() {
                self.refused = reap(world, &mut self.posted, &mut self.spares).err();
            }
            // The answer to the end says that all before it has come.
            let is_letter = matches!(part, Part::Bytes { .. }) && self.posted.is_empty();
            let buffer = self.spares.take(part.bytes());
            let request = lane.request(PUSH, buffer, self.sent, part, hungry);
            let name = lane.address.bits();
            match is_letter && world.note(world.memory.send_letter(self.peer, COMM, name, &request))? {
                true => {
                    self.sends_letters = true;
                    self.spares.keep(world, request, MOST_SPARES);
                }
                false => self.posted.push_back(world.memory.post_call(self.peer, COMM, request)?),
            }
        }
        self.sent += part.cell_count(lane.slot_bytes);
        Ok(())
    }
}
