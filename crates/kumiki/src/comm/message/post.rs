//! All messages of a process: what it has to send, what has come, and what it waits for.
//!
//! Nothing here waits: it goes on when somebody of the process makes it ([`advance`](Post::advance)).

use super::incoming::Incoming;
use super::matching::{Envelope, Matching};
use super::outgoing::{Item, Out};
use super::record::Note;
use super::ring::Ring;
use super::{MessageOptions, Outcome, Results};
use crate::{Error, GlobalAddress, GlobalPtr, Purpose, Rank, Result, World};
use kumiki_mem::Booking;
use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Bytes of the tables for a message that nobody has asked for, and for a message that is lent.
const KEPT_BYTES: u64 = 128;
/// Bytes of the tables for so many ranks that this one sends to or receives from.
const TABLE_BYTES: u64 = 2048;
const TABLE_ENTRIES: usize = 32;

/// A receive that is posted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) request: u64,
    /// Whoever waits for it fetches a message that was lent itself.
    pub(super) fetches: bool,
}

/// A message that nobody has asked for.
pub(super) struct Kept {
    pub(super) body: Body,
    pub(super) way: Way,
    pub(super) _booked: Booking,
}

pub(super) enum Body {
    Here(Vec<u8>),
    Lent(GlobalAddress, u64),
}

impl Body {
    /// What is booked for it while it is kept.
    pub(super) fn kept_bytes(&self) -> u64 {
        match self {
            Body::Here(bytes) => KEPT_BYTES + bytes.len() as u64,
            Body::Lent(..) => KEPT_BYTES,
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
    _booked: Booking,
}

/// A message that is to be fetched: whoever waits does it, and [says so](Post::fetched).
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(super) request: u64,
    pub(super) envelope: Envelope,
    pub(super) place: GlobalAddress,
    pub(super) number: u64,
}

impl Fetch {
    /// Fetches it. Nothing of this is held meanwhile.
    pub(crate) fn run(&self, world: &World) -> Result<Vec<u8>> {
        world.get_vec(GlobalPtr::from_address(self.place), self.envelope.bytes as usize)
    }
}

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
    pub(super) fetches: Vec<Fetch>,
    pub(super) outs: BTreeMap<Rank, Out>,
    /// Messages in mailboxes of others of which is not known that they were received.
    pub(super) debts: BTreeMap<Rank, u8>,
    /// Ranks to which nothing can be sent any more, though they may be there.
    pub(super) torn: HashMap<Rank, Error>,
    pub(super) incoming: Incoming,
    pub(super) lent: BTreeMap<u64, Lending>,
    /// Bytes of all messages that are kept.
    pub(super) kept_bytes: u64,
    /// For the tables.
    pub(super) booked: Vec<Booking>,
    /// Why what has come cannot be kept: until there is memory…
    pub(super) blocked: Option<Error>,
    /// …or for ever.
    pub(super) broken: Option<Error>,
    /// Whether a lane is not read further, though somebody waits for its source, because so much is kept.
    pub(super) is_starved: bool,
    /// Whether lanes are read though what came in them and nobody wants is as much as they hold.
    pub(super) reads_all: bool,
    /// Whether what nobody has asked for is dropped.
    pub(super) is_closing: bool,
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) numbers: u64,
    /// Whether somebody waits for a message without posting a receive: then as much comes as for one.
    pub(super) is_probed: bool,
    pub(super) moves: u64,
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
        self.done.contains_key(&request)
    }

    /// What became of a request, or why that will not be known.
    pub(super) fn outcome(&mut self, request: u64) -> Option<Outcome> {
        if let Some(outcome) = self.done.remove(&request) {
            return Some(outcome);
        }
        let error = self.trouble()?;
        self.forget(request);
        Some(Err(error))
    }

    /// Whether a send is done without an error: then nobody need ask for it.
    pub(super) fn is_sent(&mut self, request: u64) -> bool {
        let is_sent = matches!(self.done.get(&request), Some(Ok(_)));
        if is_sent {
            self.done.remove(&request);
        }
        is_sent
    }

    /// How far everything has come: another number if something has moved.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    pub(crate) fn next_fetch(&mut self) -> Option<Fetch> {
        self.fetches.pop()
    }

    pub(crate) fn has_fetches(&self) -> bool {
        !self.fetches.is_empty()
    }

    /// Why nothing more can be received.
    pub(super) fn trouble(&self) -> Option<Error> {
        let starves = || self.is_starved || self.incoming.hungry().any(|source| self.is_awaited(source));
        let too_much = (self.keeps_much() && starves()).then_some(Error::OutOfMemory {
            asked: KEPT_BYTES,
            left: 0,
            what: "messages that nobody has received",
        });
        self.broken.clone().or_else(|| self.blocked.clone()).or(too_much)
    }

    /// Whether somebody waits for a message of this source.
    pub(super) fn is_awaited(&self, source: Rank) -> bool {
        self.is_probed || self.matching.awaits(source)
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
        let before = self.done.len();
        // Before what they have sent is looked at: what they sent before they went is taken first.
        let gone = self.somebody_gone(world);
        self.blocked = None;
        self.is_starved = false;
        if let Err(error) = self.read_mailbox(world) {
            self.broken = Some(error);
        }
        self.read_lanes(world);
        if let Some((rank, error)) = gone {
            self.lose(world, rank, &error);
        }
        self.send(world);
        if !self.forgotten.is_empty() {
            let Post { done, forgotten, .. } = self;
            done.retain(|request, _| !forgotten.remove(request));
        }
        self.done.len() > before
    }

    // ---- sending ----

    /// Sends a short message at once if that is possible. False if it is not.
    pub(super) fn send_now(&mut self, world: &World, to: Rank, note: Note, body: &[u8]) -> Result<bool> {
        self.check_torn(to)?;
        self.book_tables(world)?;
        let mut debt = self.debts.get(&to).copied().unwrap_or(0);
        let sent = match self.outs.get_mut(&to) {
            Some(out) => out.send_now(world, to, &mut debt, note, body)?,
            None => Out::default().send_now(world, to, &mut debt, note, body)?,
        };
        if debt > 0 {
            self.debts.insert(to, debt);
        }
        self.moves += u64::from(sent);
        Ok(sent)
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
        Ok(())
    }

    /// Lends a message to a rank, which fetches it.
    pub(super) fn lend(
        &mut self,
        world: &World,
        to: Rank,
        request: u64,
        note: Note,
        memory: Option<Box<dyn Any + Send>>,
    ) -> Result<()> {
        self.check_torn(to)?;
        let booked = world.memory.book(Purpose::Comm, KEPT_BYTES)?;
        self.book_tables(world)?;
        let Note::Lent { number, .. } = note else { return Ok(()) };
        self.lent.insert(number, Lending { request, to, _memory: memory, _booked: booked });
        let item = Item { request, note, body: Vec::new(), _booked: None };
        self.outs.entry(to).or_default().send(item);
        Ok(())
    }

    /// A message that was lent is lent no more: what was not sent of it is not sent, and nobody asks for it.
    pub(super) fn end_lending(&mut self, to: Rank, request: u64) {
        if let Some(out) = self.outs.get_mut(&to) {
            out.withdraw(request);
        }
        self.lent.remove(&request);
        self.done.remove(&request);
        self.forgotten.remove(&request);
    }

    /// The longest message to a rank that need not be lent.
    pub(super) fn longest_short(&self, to: Rank) -> u64 {
        self.outs.get(&to).map_or(super::EAGER_BYTES, Out::longest_short)
    }

    fn check_torn(&self, to: Rank) -> Result<()> {
        self.torn.get(&to).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Books the tables before they grow.
    pub(super) fn book_tables(&mut self, world: &World) -> Result<()> {
        let entries = self.debts.len() + 4 * self.outs.len() + self.incoming.entries();
        while entries >= self.booked.len() * TABLE_ENTRIES {
            self.booked.push(world.memory.book(Purpose::Comm, TABLE_BYTES)?);
        }
        Ok(())
    }

    fn send(&mut self, world: &World) {
        if !self.outs.values().any(Out::is_busy) {
            return;
        }
        let Post { outs, debts, done, moves, .. } = self;
        let mut failed = Vec::new();
        outs.retain(|to, out| {
            if out.is_busy() {
                let mut debt = debts.remove(to).unwrap_or(0);
                let advanced = out.advance(world, *to, &mut debt, done);
                if debt > 0 {
                    debts.insert(*to, debt);
                }
                match advanced {
                    Ok(moved) => *moves += moved,
                    // A lock that somebody holds who is stopped: it is tried again.
                    Err(Error::Timeout { .. }) if world.local().is_near(*to) => {}
                    Err(error) => failed.push((*to, std::mem::take(out), error)),
                }
            }
            !out.is_empty()
        });
        for (to, out, error) in failed {
            if out.fail(world, &error, &mut self.done) {
                self.torn.insert(to, error.clone());
            }
            self.fail_lendings(to, &error);
        }
    }

    pub(super) fn say(&mut self, to: Rank, note: Note) {
        if self.is_closing && !matches!(note, Note::Fetched { .. } | Note::Received { .. }) {
            return;
        }
        self.outs.entry(to).or_default().say(note);
    }
}
