//! The end that receives.

use super::{never_made, reap, settle, Basket, Done, Results, END_BYTES, MOST_POSTED};
use crate::comm::door::{Knock, What};
use crate::comm::lane::{Cell, Lane, Stub};
use crate::comm::lobby::Lobby;
use crate::comm::spares::Spares;
use crate::comm::{COMM, TELL};
use crate::data::heap;
use crate::{Error, GlobalAddress, Purpose, Rank, Result, World};
use kumiki_mem::{Booking, Mark, Posted};
use std::collections::VecDeque;

struct Wanted {
    request: u64,
    basket: Basket,
}

/// A message that is to be fetched from memory of the sender: whoever waits does it, and [says so](ReceiveEnd::fetched).
pub(crate) struct Fetch {
    pub(in crate::comm) end: u64,
    pub(in crate::comm) place: GlobalAddress,
    pub(in crate::comm) whole: u64,
    request: u64,
    pub(in crate::comm) basket: Basket,
}

impl Fetch {
    /// Fetches it. Nothing of the channel is held meanwhile.
    pub(in crate::comm) fn run(&mut self, world: &World) -> Result<()> {
        let from = crate::GlobalPtr::from_address(self.place);
        match &mut self.basket {
            Basket::Growing(memory) => {
                *memory = world.memory.get_vec_awaited(from, self.whole)?;
                Ok(())
            }
            basket => {
                let bytes = basket.takes(self.whole);
                world.memory.get_awaited(from, basket.piece(0, bytes))
            }
        }
    }
}

/// What became of a message that was asked for at once.
pub(in crate::comm) enum Now {
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
    pub(in crate::comm) peer: Rank,
    number: u64,
    lane: Lane,
    mark: Mark,
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
    pub(in crate::comm) fn new(
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
            mark: lane.mark(),
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

    pub(in crate::comm) fn is_freed(&self) -> bool {
        self.freeing.is_some()
    }

    pub(in crate::comm) fn want(&mut self, request: u64, basket: Basket) {
        self.wanted.push_back(Wanted { request, basket });
    }

    pub(in crate::comm) fn free(&mut self, request: u64) {
        self.freeing = Some(request);
    }

    /// Whether somebody waits for something of it.
    pub(in crate::comm) fn is_busy(&self) -> bool {
        self.failed.is_none() && (self.is_fetching || !self.wanted.is_empty())
    }

    /// How far it has come: another number if something has moved.
    pub(in crate::comm) fn moves(&self) -> u64 {
        self.head + self.fetched
    }

    /// Whether its sender is there, and has not said that nothing comes any more.
    pub(in crate::comm) fn is_awaiting_more(&self) -> bool {
        self.failed.is_none() && (self.is_fetching || self.stub.is_some() && !self.ended)
    }

    /// Whether its sender may still wait for room.
    pub(in crate::comm) fn is_missed(&self) -> bool {
        self.failed.is_none() && !self.ended
    }

    /// Whether a message has begun to come, or none can.
    pub(in crate::comm) fn has_mail(&self, world: &World) -> Result<bool> {
        Ok(self.ended || self.failed.is_some() || self.lane.next_cell(world.local(), self.head)?.is_some())
    }

    /// Takes a message that has come in one cell into memory of the program, where nobody has asked for one before; or says where it is
    /// to be fetched from. Then whoever asked fetches it, and [says so](Self::fetched_alone).
    pub(in crate::comm) fn take_now(&mut self, world: &World, into: &mut [u8]) -> Result<Now> {
        let is_idle =
            self.wanted.is_empty() && self.current.is_none() && !self.is_fetching && !self.is_closed;
        if !is_idle || self.failed.is_some() || self.freeing.is_some() {
            return Ok(Now::Otherwise);
        }
        let span = world.local().span_at(&mut self.mark)?;
        let Some(cell) = self.lane.take(span, self.head, into)? else { return Ok(Now::Nothing) };
        match cell {
            // The sender must be told that it was taken.
            _ if self.stub.is_none() => Ok(Now::Otherwise),
            Cell::First(whole) if cell.is_whole(self.lane.slot_bytes) => {
                self.head += 1;
                // What goes wrong with that is met when nothing is left to be taken.
                let _ = reap(world, &mut self.posted, &mut Spares::default()).and_then(|()| self.tell(world));
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
    pub(in crate::comm) fn fetched_alone(&mut self) {
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
    pub(in crate::comm) fn advance(
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
            let _ = self.lane.raze(local).and_then(|()| heap::release_lines(local, self.lane.address));
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
    pub(in crate::comm) fn abandon(&mut self) {
        self.wanted.clear();
    }

    pub(in crate::comm) fn fail(&mut self, error: Error, done: &mut Results) {
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
        let reaped = reap(world, &mut self.posted, &mut Spares::default());
        if self.stub.is_none() {
            match lobby.answer(What::Receiver, self.peer, self.number) {
                Some(knock) if knock.is_refusal() => return Err(never_made(self.peer)),
                answer => self.stub = answer.map(|knock| Stub(GlobalAddress::from_bits(knock.words[0]))),
            }
        }
        let local = world.local();
        // Before the cells are looked at: what it sent before it went is there then.
        let (alive, is_broken) = (local.check_alive(self.peer), self.lane.is_broken(local)?);
        let fetch = self.take_cells(id, world, done)?;
        let told = if self.is_closed { Ok(()) } else { self.tell(world) };
        if fetch.is_none()
            && !self.is_fetching
            && !self.ended
            && self.lane.next_cell(local, self.head)?.is_none()
        {
            // What the sender sent before it went, or failed, was taken first.
            alive?;
            if is_broken {
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
        // There are no more, before it is said that these were taken.
        for _ in 0..self.lane.slots {
            let Some(cell) = self.lane.next_cell(local, self.head)?.filter(|_| !self.is_fetching) else {
                break;
            };
            if self.wanted.is_empty() && !self.drops {
                // An end is news to whoever asks whether something comes.
                self.ended |= cell == Cell::End;
                break;
            }
            let slot = self.lane.slot_bytes;
            match (cell, self.current) {
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
    pub(in crate::comm) fn fetched(&mut self, fetch: Fetch, fetched: Result<()>, done: &mut Results) {
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
        self.lane.take_up_to(local.span_at(&mut self.mark)?, self.head)?;
        let Some(stub) = self.stub else {
            // A neighbour looks here by itself.
            return if near { world.wake(self.peer) } else { Ok(()) };
        };
        if near {
            if self.fetched != self.fetched_told {
                stub.tell(local, self.head, self.fetched, false)?;
            }
            world.wake(self.peer)?;
        } else {
            let hungry = self.lane.is_sender_hungry(local)?;
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
