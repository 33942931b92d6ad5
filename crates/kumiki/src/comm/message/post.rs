//! All messages of a process: what it has to send, what has come, and what it waits for.
//!
//! Nothing here waits: it goes on when somebody of the process makes it ([`advance`](Post::advance)).

use super::by_rank::ByRank;
use super::bytes::Bytes;
use super::early::Early;
use super::incoming::{Incoming, Stage};
use super::matching::{Envelope, Matching};
use super::outgoing::{Item, Other, Out};
use super::record::Note;
use super::ring::{closed, Ring};
use super::{MessageOptions, Outcome, Place, Results};
use crate::comm::ends::Room;
use crate::comm::spares::Spares;
use crate::{Error, GlobalAddress, Purpose, Rank, Result, World};
use kumiki_mem::{Booking, Traffic};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// Bytes of the tables for a message that nobody has asked for, and for a message that is lent.
pub(super) const KEPT_BYTES: u64 = 128;
/// Bytes of the tables for so many entries: a rank to which something waits to be sent, and sixteen neighbours of which something is known,
/// are four.
const TABLE_BYTES: u64 = 2048;
const TABLE_ENTRIES: usize = 32;

/// A receive that is posted.
pub(super) struct Wanted {
    /// The request, and in the lowest bit whether whoever waits for it fetches a message that was lent itself: one word, as there may be many.
    bits: u64,
}

impl Wanted {
    pub(super) fn new(request: u64, fetches: bool) -> Wanted {
        Wanted { bits: request << 1 | u64::from(fetches) }
    }

    pub(super) fn request(&self) -> u64 {
        self.bits >> 1
    }

    pub(super) fn fetches(&self) -> bool {
        self.bits & 1 != 0
    }
}

/// A message that nobody has asked for.
pub(super) struct Kept {
    pub(super) body: Body,
    pub(super) way: Way,
    pub(super) _booked: Booking,
    /// What it has of being [fetched early](super::early).
    pub(super) early: super::early::State,
}

impl Kept {
    /// What counts for it since it has come.
    pub(super) fn counted(&self) -> u64 {
        match &self.early {
            super::early::State::Fetched(_) => KEPT_BYTES,
            _ => self.body.kept_bytes(),
        }
    }
}

pub(super) enum Body {
    Here(Bytes),
    Lent(Place, u64),
    /// It is being [fetched early](super::early), by this request.
    Coming(u64),
}

impl Body {
    /// What is booked for it while it is kept.
    pub(super) fn kept_bytes(&self) -> u64 {
        match self {
            Body::Here(bytes) => KEPT_BYTES + bytes.as_slice().len() as u64,
            Body::Lent(..) | Body::Coming(_) => KEPT_BYTES,
        }
    }
}

/// How a message came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Mailbox,
    Lane(GlobalAddress),
}

/// A message of this rank that the other one fetches.
pub(super) struct Lending {
    pub(super) request: u64,
    pub(super) to: Rank,
    _memory: Option<Box<dyn Any + Send>>,
    /// For its entries, and for its bytes if they are not the program's.
    _booked: (Booking, Option<Booking>),
}

impl Lending {
    /// If the first message that waits for a rank has lost its lane, and is too long for the mailbox, it is lent. False if it is not so, or there is
    /// no memory for that now.
    fn replaces_first(
        world: &World,
        to: Rank,
        out: &mut Out,
        (lent, numbers, forgotten): (&mut BTreeMap<u64, Lending>, &mut u64, &mut HashSet<u64>),
    ) -> bool {
        if !out.has_to_lend() {
            return false;
        }
        let Ok(booked) = world.memory.book(Purpose::Comm, KEPT_BYTES) else { return false };
        // One that is sent, as far as anybody knows, nobody asks for.
        let is_sent = out.first_request() == 0;
        *numbers += u64::from(is_sent);
        let request = if is_sent { *numbers } else { out.first_request() };
        let mut memory = None;
        let registered = out.lend_first(request, |bytes| {
            let registered = world.memory.try_to_register(bytes).map_err(|(_, bytes)| bytes)?;
            let place = registered.ptr().into();
            memory = Some(Box::new(registered) as Box<dyn Any + Send>);
            Ok(place)
        });
        let Some(of_bytes) = registered else { return false };
        lent.insert(request, Lending { request, to, _memory: memory, _booked: (booked, of_bytes) });
        if is_sent {
            forgotten.insert(request);
        }
        true
    }
}

/// A message that is to be fetched: whoever waits does it, and [says so](Post::fetched).
pub(crate) struct Fetch {
    pub(super) request: u64,
    pub(super) envelope: Envelope,
    pub(super) place: Place,
    pub(super) number: u64,
    /// Where it goes, if the program has given memory for it; there is enough.
    pub(super) room: Option<Box<dyn Room>>,
}

impl Fetch {
    /// Fetches it: the bytes, unless they go to memory of the program. Nothing of this is held meanwhile.
    pub(crate) fn run(&mut self, world: &World) -> Result<Option<Vec<u8>>> {
        let (place, bytes) = (self.place.ptr(), self.envelope.bytes as usize);
        match &mut self.room {
            Some(room) => world.memory.get_awaited(place, &mut room.bytes()[..bytes]).map(|()| None),
            None => world.memory.get_vec_awaited(place, bytes as u64).map(Some),
        }
    }

    /// Fetches some: what [`run`](Self::run) gives for each. Those of another node are under way together, so that the line between is not empty
    /// between two.
    pub(crate) fn run_all(fetches: &mut [Fetch], world: &World) -> Vec<Result<Option<Vec<u8>>>> {
        let together = match fetches {
            [_] => false,
            _ => {
                let begun = world.memory.scope(|scope| {
                    let rooms = fetches.iter_mut().filter_map(|fetch| {
                        let bytes = fetch.envelope.bytes as usize;
                        fetch.room.as_mut().map(|room| (fetch.place.ptr(), &mut room.bytes()[..bytes]))
                    });
                    rooms.into_iter().try_for_each(|(place, room)| scope.get(place, room))
                });
                begun.is_ok()
            }
        };
        // If one has failed each is asked for by itself: then it is known which.
        fetches.iter_mut().map(|fetch| if together { Ok(None) } else { fetch.run(world) }).collect()
    }

    /// Whether it may be fetched together with others: that of another node, into memory of the program.
    fn is_shared(&self, world: &World) -> bool {
        self.room.is_some() && !world.local().is_near(self.envelope.source)
    }
}

/// Messages of a rank of another node are fetched together until they have so many bytes…
const MOST_TOGETHER: u64 = 4 << 20;
/// …or there are so many.
const MANY_TOGETHER: usize = 16;

/// What of the messages somebody outside sees: while it is the same nothing is told. The moves, receives, messages that are kept, and those that are lent.
type Shown = (u64, usize, usize, usize);

/// While a rank is busy it tells how far it has come after so many moves.
const MOVES_UNTOLD: u64 = 64;

/// All of it.
#[derive(Default)]
pub(crate) struct Post {
    pub(super) options: MessageOptions,
    /// The mailbox of this rank, and how far it was read; there is none until the program does something with messages.
    pub(super) mailbox: Option<(Ring, u64)>,
    pub(super) matching: Matching<Wanted, Kept>,
    pub(super) done: Results,
    /// Requests that nobody will ask for.
    pub(super) forgotten: HashSet<u64>,
    /// In the order in which they are to be fetched.
    pub(super) fetches: VecDeque<Fetch>,
    pub(super) spares: Spares,
    /// Requests whose message somebody is fetching.
    pub(super) under_way: Vec<u64>,
    /// Where the messages of requests go, if the program has given memory for them.
    pub(super) rooms: HashMap<u64, Box<dyn Room>>,
    /// Each by itself: nodes of a tree are half empty, and these are large.
    pub(super) outs: BTreeMap<Rank, Box<Out>>,
    /// Messages in mailboxes of others of which is not known that they were received.
    pub(super) debts: ByRank<u8>,
    /// Whether one of them is to be asked again for what it could not take.
    pub(crate) asks_again: bool,
    /// How many letters had come back when it was looked for those of messages.
    refusals: u64,
    /// Ranks to which nothing can be sent any more, though they may be there.
    pub(super) torn: HashMap<Rank, Error>,
    /// Ranks that have written what they may not: nothing of them is received any more.
    pub(super) refused: HashMap<Rank, Error>,
    pub(super) incoming: Incoming,
    pub(super) lent: BTreeMap<u64, Lending>,
    /// Bytes of all messages that are kept.
    pub(super) kept_bytes: u64,
    /// Messages that are fetched before anybody asks for them.
    pub(super) early: Early,
    /// For the tables.
    pub(super) booked: Vec<Booking>,
    /// Why what has come cannot be kept: until there is memory…
    pub(super) blocked: Option<Error>,
    /// …or for ever.
    pub(super) broken: Option<Error>,
    /// Sources whose lane is not read further, though somebody waits for them, because so much is kept.
    pub(super) starved: BTreeSet<Rank>,
    /// Whether lanes are read though what came in them and nobody wants is as much as they hold.
    pub(super) reads_all: bool,
    /// Whether messages that nobody waits for stay in their lanes.
    pub(crate) leaves_lanes: bool,
    /// Whether what nobody has asked for is dropped.
    pub(super) is_closing: bool,
    /// How often it was said that nothing comes any more.
    pub(super) shuts: u8,
    /// Ranks from which nothing comes any more, though they may be there.
    pub(super) closed: HashMap<Rank, Error>,
    /// Those that have said so since the last look.
    pub(super) leaving: Vec<Rank>,
    /// Ranks of other nodes that are to be told when this one goes, and those that tell it.
    pub(super) awaited_by: BTreeSet<Rank>,
    pub(super) asked: BTreeSet<Rank>,
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) numbers: u64,
    /// How many wait for a message without posting a receive: then as much comes as for one.
    pub(super) probes: u32,
    pub(super) moves: u64,
    /// How often something was received the short way, or waited for, since everything went on.
    pub(super) glances: u32,
    /// How many messages there were, and what of all this was told to whoever looks from outside.
    pub(super) traffic: Traffic,
    told: Shown,
    /// How often it has gone on, and the message that is lent whose peer was looked at last.
    pub(super) turn: (usize, u64),
}

impl Post {
    /// Makes the mailbox of this rank, if there is none.
    pub(super) fn enter(&mut self, world: &World) -> Result<()> {
        if self.mailbox.is_none() {
            self.mailbox = Some((Ring::mailbox_made(world.local(), world.rank())?, 0));
        }
        Ok(())
    }

    /// The number of the next request; none is 0.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn is_done(&self, request: u64) -> bool {
        self.done.get(request).is_some()
    }

    /// What became of a request, or why that will not be known.
    pub(super) fn outcome(&mut self, request: u64, peer: Option<Rank>) -> Option<Outcome> {
        if let Some(outcome) = self.done.remove(request) {
            return Some(outcome);
        }
        let error = self.trouble_of(request, peer)?;
        self.give_up(request, peer);
        Some(Err(error))
    }

    /// Why a request with a rank, or with any, will not be done. What is on its way already goes on.
    pub(super) fn trouble_of(&self, request: u64, peer: Option<Rank>) -> Option<Error> {
        if self.broken.is_none() && self.blocked.is_none() && !self.keeps_much() {
            return None;
        }
        if let Some(selector) = self.matching.find(|wanted| wanted.request() == request) {
            return self.trouble(selector.source);
        }
        let waits = peer.and_then(|to| self.outs.get(&to)).is_some_and(|out| out.holds(request));
        // Credit for it is behind what cannot be read.
        let blocked = self.blocked.as_ref().filter(|_| waits);
        let broken = self.broken.as_ref().filter(|_| waits || self.lent.contains_key(&request));
        broken.or(blocked).cloned()
    }

    /// Nobody waits for a request any more: what is not on its way is not sent, or received.
    pub(super) fn give_up(&mut self, request: u64, peer: Option<Rank>) {
        let out = peer.and_then(|to| self.outs.get_mut(&to));
        match out.is_some_and(|out| out.withdraw(request)) {
            true => drop(self.lent.remove(&request)),
            false => self.forget(request),
        }
    }

    /// Whether a send is done without an error: then nobody need ask for it.
    pub(super) fn is_sent(&mut self, request: u64) -> bool {
        let is_sent = matches!(self.done.get(request), Some(Ok(_)));
        if is_sent {
            self.done.remove(request);
        }
        is_sent
    }

    /// How far everything has come: another number if something has moved.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// What is to be fetched next: one, or some of one rank that go together.
    pub(crate) fn next_fetches(&mut self, world: &World) -> Vec<Fetch> {
        let mut next: Vec<Fetch> = self.fetches.pop_front().into_iter().collect();
        let mut bytes = 0;
        while let Some(last) = next.last().filter(|last| last.is_shared(world)) {
            bytes += last.envelope.bytes;
            let source = last.envelope.source;
            let goes_with = |fetch: &Fetch| fetch.room.is_some() && fetch.envelope.source == source;
            if bytes >= MOST_TOGETHER
                || next.len() >= MANY_TOGETHER
                || !self.fetches.front().is_some_and(goes_with)
            {
                break;
            }
            next.extend(self.fetches.pop_front());
        }
        self.under_way.extend(next.iter().map(|fetch| fetch.request));
        next
    }

    /// Whether somebody fetches the message of a request.
    pub(super) fn is_under_way(&self, request: u64) -> bool {
        self.under_way.contains(&request)
    }

    /// Whether messages are being fetched, or are to be.
    pub(super) fn is_fetching(&self) -> bool {
        !self.fetches.is_empty() || !self.under_way.is_empty()
    }

    /// Whether a message is lent.
    pub(super) fn is_lent(&self, request: u64) -> bool {
        self.lent.contains_key(&request)
    }

    /// Whether a rank is going to say what it has taken of what is on its way to it, though it may take no more.
    pub(super) fn is_answered_by(&self, world: &World, rank: Rank) -> bool {
        self.outs.get(&rank).is_some_and(|out| out.is_mailing()) && world.local().check_alive(rank).is_ok()
    }

    /// Somebody who is there and has not fetched what was lent to it.
    pub(super) fn lends_to(&self, world: &World) -> Option<Rank> {
        let mut others = self.lent.values().map(|lending| lending.to).filter(|&to| to != world.rank());
        others.find(|&to| self.check_there(world, to).is_ok())
    }

    pub(crate) fn has_fetches(&self) -> bool {
        !self.fetches.is_empty()
    }

    /// Why nothing more can be received of a source, or of any.
    pub(super) fn trouble(&self, source: Option<Rank>) -> Option<Error> {
        let closed = source.and_then(|source| self.closed.get(&source)).cloned();
        self.trouble_but_closed(source).or(closed)
    }

    /// The same, but for its having gone in good order.
    pub(super) fn trouble_but_closed(&self, source: impl Into<Option<Rank>>) -> Option<Error> {
        let source = source.into();
        let starves = || match source {
            Some(source) => self.starved.contains(&source) || self.incoming.is_hungry(source),
            None => !self.starved.is_empty() || self.incoming.hungry().next().is_some(),
        };
        let refused = source.and_then(|source| self.refused.get(&source)).cloned();
        let too_much = (self.keeps_much() && starves()).then_some(Error::OutOfMemory {
            asked: KEPT_BYTES,
            left: 0,
            what: "messages that nobody has received",
        });
        self.broken.clone().or_else(|| self.blocked.clone()).or(too_much).or(refused)
    }

    /// Whether somebody waits for a message of this source.
    pub(super) fn is_awaited(&self, source: Rank) -> bool {
        self.probes > 0 || self.matching.awaits(source)
    }

    /// Whether so much is kept that nobody gets credit in advance.
    pub(super) fn keeps_much(&self) -> bool {
        self.kept_bytes >= self.options.kept_bytes as u64
    }

    /// Makes everything go on. Whether a request is done because of that.
    pub(crate) fn advance(&mut self, world: &World) -> bool {
        if self.mailbox.is_none() {
            return false;
        }
        let before = self.done.len() + self.fetches.len();
        // Before what they have sent is looked at: what they sent before they went is taken first.
        let gone = self.somebody_gone(world);
        self.blocked = None;
        self.starved.clear();
        self.read_what_came(world);
        self.read_lanes(world);
        let why = |rank| world.local().check_alive(rank).err().unwrap_or_else(|| closed(rank));
        let said = std::mem::take(&mut self.leaving).into_iter().map(|rank| (rank, why(rank)));
        for (rank, error) in gone.into_iter().chain(said) {
            self.lose(world, rank, &error);
        }
        self.feed_hungry();
        self.send(world);
        if !self.forgotten.is_empty() {
            let Post { done, forgotten, .. } = self;
            done.retain(|request| !forgotten.remove(&request));
        }
        if self.moves.wrapping_sub(self.told.0) >= MOVES_UNTOLD {
            self.tell(world);
        }
        // What is to be fetched whoever waits for it fetches.
        self.done.len() + self.fetches.len() > before
    }

    /// Whether there may be something that nobody has looked at: a quick look.
    pub(crate) fn has_news(&mut self, world: &World) -> bool {
        let local = world.local();
        let mut lanes = self.incoming.lanes.iter_mut().filter(|lane| lane.stage == Stage::Open);
        lanes.any(|lane| lane.read(local).is_ok_and(|reading| !reading.is_empty()))
            || self.mailbox.is_some_and(|(ring, head)| ring.has_more(local, head))
            || self.done.len() + self.fetches.len() > 0
    }

    // ---- sending ----

    /// Sends a short message at once into the lane that there is for it. Nothing if that is not all there is to it.
    #[inline]
    pub(super) fn send_in_lane(
        &mut self,
        world: &World,
        to: Rank,
        note: Note,
        body: &[u8],
    ) -> Option<Result<bool>> {
        if !self.torn.is_empty() || !self.closed.is_empty() {
            return None;
        }
        let (bytes, local) = (body.len() as u64, world.local());
        let sent = match local.can_touch(to) {
            true => {
                let out = self.outs.get_mut(&to).filter(|out| bytes <= out.longest_short(true))?;
                out.write_in_lane(world, to, (note, body))?
            }
            false => self.post_in_lane(world, to, note, body)?,
        };
        match &sent {
            Ok(true) => {
                self.moves += 1;
                self.count_sent(true, bytes);
            }
            Ok(false) => {}
            Err(error) => self.failed_at_once(world, to, error),
        }
        Some(sent)
    }

    /// The same to a rank that cannot be touched. How far its lane here was read goes along.
    fn post_in_lane(&mut self, world: &World, to: Rank, note: Note, body: &[u8]) -> Option<Result<bool>> {
        let out = self.outs.get_mut(&to)?;
        if body.len() as u64 > out.longest_short(world.local().is_near(to)) {
            return None;
        }
        let opposite = self.incoming.opposite(world, to);
        let mut news = None;
        if let Some(opposite) = &opposite {
            opposite.learn(out);
            news = opposite.news();
        }
        let was_news = news.is_some();
        let sent = out.post_now(world, to, (&mut self.spares, &mut news), (note, body))?;
        if let Some(opposite) = opposite.filter(|_| was_news && news.is_none()) {
            opposite.was_told();
        }
        Some(sent)
    }

    /// Sends a short message at once if that is possible. False if it is not.
    pub(super) fn send_now(&mut self, world: &World, to: Rank, note: Note, body: &[u8]) -> Result<bool> {
        self.check_torn(to)?;
        self.book_tables(world)?;
        let mut debt = self.debts.get(to);
        let own = (&mut debt, &mut self.spares);
        let sent = match self.outs.get_mut(&to) {
            Some(out) => out.send_now(world, to, own, note, body),
            None => Out::default().send_now(world, to, own, note, body),
        };
        self.debts.set(to, debt);
        let sent = sent.inspect_err(|error| self.failed_at_once(world, to, error))?;
        self.moves += u64::from(sent);
        self.count_sent(sent, body.len() as u64);
        Ok(sent)
    }

    /// Counts a message that the program has sent.
    #[inline]
    fn count_sent(&mut self, sent: bool, bytes: u64) {
        if sent {
            self.traffic.sent += 1;
            self.traffic.sent_bytes += bytes;
        }
    }

    /// Tells whoever looks from outside what the messages of this rank have come to, if that is news.
    pub(super) fn tell(&mut self, world: &World) {
        let counts = [self.matching.posted_count(), self.matching.kept_count(), self.lent.len()];
        let now = (self.moves, counts[0], counts[1], counts[2]);
        if self.told == now {
            return;
        }
        self.told = now;
        let waiting: usize = self.outs.values().map(|out| out.waiting()).sum();
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let [receives, unexpected, sends] = [counts[0], counts[1], counts[2] + waiting].map(small);
        world.memory.tell(&Traffic { unexpected, receives, sends, ..self.traffic });
    }

    /// Sends a short message as soon as possible.
    pub(super) fn send_later(
        &mut self,
        world: &World,
        to: Rank,
        request: u64,
        note: Note,
        body: &[u8],
    ) -> Result<()> {
        self.check_torn(to)?;
        let booked = world.memory.book(Purpose::Comm, KEPT_BYTES + body.len() as u64)?;
        self.book_tables(world)?;
        let item = Item { request, note, body: body.to_vec(), _booked: Some(booked) };
        self.outs.entry(to).or_default().send(item);
        self.count_sent(true, body.len() as u64);
        Ok(())
    }

    /// Lends a message to a rank, which fetches it.
    pub(super) fn lend(
        &mut self,
        world: &World,
        to: Rank,
        (request, note): (u64, Note),
        registration: u64,
        memory: Option<Box<dyn Any + Send>>,
    ) -> Result<()> {
        self.check_torn(to)?;
        let booked = world.memory.book(Purpose::Comm, KEPT_BYTES)?;
        self.book_tables(world)?;
        if let Note::Lent { bytes, .. } = note {
            self.count_sent(true, bytes);
        }
        self.lent.insert(request, Lending { request, to, _memory: memory, _booked: (booked, None) });
        let item = Item { request, note, body: registration.to_le_bytes().to_vec(), _booked: None };
        self.outs.entry(to).or_default().send(item);
        Ok(())
    }

    /// A message that was lent is lent no more: what was not sent of it is not sent, and nobody asks for it.
    pub(super) fn end_lending(&mut self, to: Rank, request: u64) {
        if let Some(out) = self.outs.get_mut(&to) {
            out.withdraw(request);
        }
        self.lent.remove(&request);
        self.done.remove(request);
        self.forgotten.remove(&request);
    }

    /// The longest message to a rank that need not be lent.
    pub(super) fn longest_short(&self, world: &World, to: Rank) -> u64 {
        self.outs.get(&to).map_or(super::EAGER_BYTES, |out| out.longest_short(world.local().is_near(to)))
    }

    fn check_torn(&self, to: Rank) -> Result<()> {
        if self.torn.is_empty() && self.closed.is_empty() {
            return Ok(());
        }
        let known = self.torn.get(&to).or_else(|| self.closed.get(&to));
        known.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Books the tables before they grow.
    pub(super) fn book_tables(&mut self, world: &World) -> Result<()> {
        let names = self.asked.len() + self.awaited_by.len();
        let rows = self.debts.rows() + self.incoming.rows();
        let entries = 4 * (rows + self.outs.len()) + names / 4;
        while entries >= self.booked.len() * TABLE_ENTRIES {
            self.booked.push(world.memory.book(Purpose::Comm, TABLE_BYTES)?);
        }
        Ok(())
    }

    fn send(&mut self, world: &World) {
        self.asks_again = false;
        let refusals = world.memory.refused_letters();
        if std::mem::replace(&mut self.refusals, refusals) != refusals {
            // Whoever sends nothing more would never hear of it.
            let outs = self.outs.iter();
            let refused = outs.filter_map(|(to, out)| Some((*to, out.check_letters(world, *to).err()?)));
            let refused: Vec<_> = refused.collect();
            refused.into_iter().for_each(|(to, error)| self.failed_to_send(world, to, error));
        }
        if !self.outs.values().any(|out| out.is_busy()) {
            return;
        }
        let Post { outs, debts, done, moves, lent, numbers, forgotten, spares, incoming, .. } = self;
        let mut failed = Vec::new();
        outs.retain(|to, out| {
            if out.is_busy() {
                let mut debt = debts.get(*to);
                incoming.opposite(world, *to).into_iter().for_each(|opposite| opposite.learn(out));
                let mut advanced = out.advance(world, *to, (&mut debt, spares), done);
                // What has lost its lane goes on as what is lent.
                while let Ok(moved) = advanced {
                    if !Lending::replaces_first(world, *to, out, (lent, numbers, forgotten)) {
                        break;
                    }
                    advanced = out.advance(world, *to, (&mut debt, spares), done).map(|more| moved + more);
                }
                debts.set(*to, debt);
                match advanced {
                    Ok(moved) => *moves += moved,
                    Err(error) => failed.push((*to, error)),
                }
            }
            !out.is_empty()
        });
        self.asks_again = outs.values().any(|out| out.asks_again());
        if outs.is_empty() {
            spares.clear();
        }
        failed.into_iter().for_each(|(to, error)| self.failed_to_send(world, to, error));
    }

    /// The same where the program is told: it may do without what there is no memory for.
    fn failed_at_once(&mut self, world: &World, to: Rank, error: &Error) {
        if !matches!(error, Error::OutOfMemory { .. }) {
            self.failed_to_send(world, to, error.clone());
        }
    }

    /// Something could not be sent to a rank: what that means for the rest of it.
    fn failed_to_send(&mut self, world: &World, to: Rank, error: Error) {
        match error {
            // It is tried again.
            Error::Timeout { .. } => {}
            // It takes nothing, and so sends nothing.
            error @ Error::PeerLost { .. } => self.lose(world, to, &error),
            Error::Closed(_) => self.lose(world, to, &closed(to)),
            error => self.fail_out(world, to, &error),
        }
    }

    /// A letter to a rank of another node may not have been taken: what it said of the lane of that rank is said in the mailbox.
    fn say_room_again(&mut self, world: &World, to: Rank) {
        let room = self.incoming.opposite(world, to).and_then(|opposite| opposite.told_room());
        room.into_iter().for_each(|room| self.say(to, room));
    }

    /// Something could not be sent to a rank.
    pub(super) fn fail_out(&mut self, world: &World, to: Rank, error: &Error) {
        if matches!(error, Error::OutOfMemory { .. }) {
            // Nothing was sent: what is on its way, and what was said about messages of the other rank, is as it was.
            let Post { outs, done, forgotten, .. } = self;
            let refused = outs.get_mut(&to).map(|out| out.refuse(error, done, forgotten));
            refused.into_iter().flatten().for_each(|request| drop(self.lent.remove(&request)));
            return;
        }
        let is_closed = matches!(error, Error::PeerLost { .. } | Error::Closed(_));
        let other = match world.local().check_alive(to) {
            Err(_) => Other::Gone,
            Ok(()) if is_closed => Other::Closed,
            Ok(()) => Other::IsThere,
        };
        if other != Other::IsThere {
            // What it said before it went.
            self.read_what_came(world);
        }
        let unsent = |request: &u64| self.outs.get(&to).is_some_and(|out| out.holds(*request));
        let unsent: Vec<u64> = self.lent.keys().copied().filter(unsent).collect();
        if let Some(mut out) = self.outs.remove(&to) {
            // What it has taken is sent: it may have said so just before it said that it goes.
            let mut debt = self.debts.get(to);
            let answered = out.reap_mail(world, &mut debt, &mut self.done);
            self.debts.set(to, debt);
            let is_torn = out.fail(world, answered.as_ref().err().unwrap_or(error), &mut self.done, other);
            if !out.is_empty() {
                self.outs.insert(to, out);
            }
            if is_torn || other != Other::IsThere {
                self.torn.insert(to, error.clone());
            }
        }
        self.fail_lendings(to, error, &unsent);
        if other == Other::IsThere {
            self.say_room_again(world, to);
        }
    }

    pub(super) fn read_what_came(&mut self, world: &World) {
        if let Err(error) = self.read_mailbox(world) {
            self.broken = Some(error);
        }
    }

    /// Whoever has no more credit, and may have what somebody waits for, gets some.
    fn feed_hungry(&mut self) {
        if self.incoming.hungry().next().is_none() || self.keeps_much() {
            return;
        }
        let awaited: Vec<Rank> = self.incoming.hungry().filter(|source| self.is_awaited(*source)).collect();
        awaited.into_iter().for_each(|source| self.give_in_advance(source));
    }

    pub(super) fn say(&mut self, to: Rank, note: Note) {
        if self.is_closing && matches!(note, Note::Offer { .. } | Note::Leave { .. }) {
            return;
        }
        self.outs.entry(to).or_default().say(note);
    }

    /// Whether something is under way that other ranks may wait for.
    pub(crate) fn is_active(&self) -> bool {
        let is_busy = || self.outs.values().any(|out| out.is_busy());
        self.has_fetches() || self.matching.posted_count() > 0 || !self.lent.is_empty() || is_busy()
    }

    /// Whether there ever were messages.
    pub(crate) fn is_in_use(&self) -> bool {
        self.mailbox.is_some()
    }
}
