//! The engine: operations that need another rank, and what is done for other ranks, as a value.
//!
//! It is fed with frames (as the [`Sink`] of a transport), with notices of the agent and with times; it is drained for
//! messages (an [`Outbox`]), for what has completed, and for [reports](Report). It has no clock, no socket, no thread, and it
//! never waits: whoever drives it does. It touches memory of its own node through [`Node`].
//!
//! | file | what |
//! |---|---|
//! | `operations.rs`, `table.rs`, `order.rs`, `turn.rs` | operations that are not complete, what they wait for, and which may go before which |
//! | `frames.rs` | what frames mean |
//! | `start.rs` | the side of the initiator: what an operation asks whom |
//! | `serve.rs` | what is done when a frame comes |
//! | `calls.rs` | work that another rank does for us: services and calls |
//! | `sections.rs` | copies of shapes and puts with a signal, by recipe |
//! | `errands.rs` | atomics that neighbours have left for us |
//! | `barrier.rs` | signals of the barrier between nodes |
//! | `teams.rs` | who is in a team, and signals of its barrier |
//! | `suspects.rs` | peers whose connection broke |
//! | `stage.rs` | a few ranks for the unit tests |
//! | `storm.rs` | random programs over several engines, for tests and the fuzzer |
//! | `team_storm.rs` | random meetings of teams, for tests |

pub(crate) mod barrier;
pub(crate) mod calls;
mod errands;
pub(crate) mod frames;
#[cfg(test)]
pub(crate) mod hostile;
pub(crate) mod letters;
pub(crate) mod operations;
pub(crate) mod order;
#[cfg(test)]
mod recipes;
pub(crate) mod sections;
pub(crate) mod serve;
#[cfg(test)]
pub(crate) mod stage;
pub(crate) mod start;
#[cfg(any(test, fuzzing))]
pub(crate) mod storm;
mod suspects;
pub(crate) mod table;
#[cfg(test)]
mod team_storm;
pub(crate) mod teams;
pub(crate) mod turn;

use crate::error::Fate;
use crate::node::ledger::Purpose;
use crate::node::Node;
use crate::{Error, Result};
use barrier::Barriers;
use calls::{Calls, Services};
use kumiki_net::contract::{Filled, Message, Outbox, Sink, Source, FLAG_MORE, IN_PLACE_BYTES};
use kumiki_net::os::socket::{Lent, Place};
use kumiki_net::shm::barrier::Discord;
use kumiki_net::shm::world::{Cause, Status};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use letters::Letters;
use operations::{Action, Client, Operation, Operations, FIRST_INTERNAL};
use sections::Sections;
use std::collections::VecDeque;
use std::sync::Arc;
use suspects::Suspects;

/// So many payloads are copied after one was torn: who writes to memory that is being sent may well do it again.
const COPIED_AFTER_TORN: u32 = 64;

/// What frames act on, and what the program waits for.
pub(crate) struct Engine {
    pub(crate) operations: Operations,
    /// Requests and replies of calls.
    pub(crate) calls: Calls,
    pub(crate) letters: Letters,
    /// Recipes of copies of shapes.
    pub(crate) sections: Sections,
    pub(crate) barriers: Barriers,
    suspects: Suspects,
    /// Why something could not be sent that nobody will ask for: this rank cannot go on.
    trouble: Vec<(Rank, Error)>,
    /// Whether something happened since the sleepers were last woken that one of them may wait for.
    stirred: bool,
    /// Whether an operation of the program has completed since that was last asked for.
    completed: bool,
    /// What somebody else must hear of.
    reports: VecDeque<Report>,
    /// So many payloads are still copied before they are sent: one that was not was torn.
    copied: u32,
    next_internal: u64,
    services: Services,
}

/// What somebody else must hear of: for whoever drives the engine to pass on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    /// For the agent: the connection to a rank broke that it has not said to be lost.
    Lost(Rank, Cause),
    /// For the node: a barrier of a team never opens, because not all came to it for the same.
    Discord(u64, u64, Discord),
}

/// The engine together with the memory of its node: the receiving end of a transport.
pub(crate) struct Feed<'a> {
    pub(crate) node: &'a Node,
    pub(crate) engine: &'a mut Engine,
}

impl Engine {
    pub(crate) fn new(services: Services) -> Engine {
        Engine {
            operations: Operations::default(),
            calls: Calls::default(),
            letters: Letters::default(),
            sections: Sections::default(),
            barriers: Barriers::default(),
            suspects: Suspects::default(),
            trouble: Vec::new(),
            stirred: false,
            completed: false,
            reports: VecDeque::new(),
            copied: 0,
            next_internal: 0,
            services,
        }
    }

    /// The engine as the receiving end of a transport.
    pub(crate) fn feed<'a>(&'a mut self, node: &'a Node) -> Feed<'a> {
        Feed { node, engine: self }
    }

    /// The next number for an operation that nobody holds a handle to.
    pub(crate) fn new_internal(&mut self) -> u64 {
        let number = FIRST_INTERNAL | self.next_internal;
        self.next_internal += 1;
        number
    }

    /// Operations incomplete, or failed and not told: 0 means that completing is free.
    #[inline]
    pub(crate) fn pending(&self) -> u64 {
        if self.operations.is_quiet() {
            0
        } else {
            self.operations.len().max(1) as u64
        }
    }

    /// Whether something happened since this was last asked that a sleeper may wait for.
    pub(crate) fn take_stirred(&mut self) -> bool {
        std::mem::take(&mut self.stirred)
    }

    /// Whether an operation of the program has completed since this was last asked.
    #[inline]
    pub(crate) fn take_completed(&mut self) -> bool {
        std::mem::take(&mut self.completed)
    }

    /// What somebody else must hear of.
    #[inline]
    pub(crate) fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Why this rank cannot go on, if it cannot. Whoever waits for a rank that is lost, and is known to be, is told so without
    /// this; the others go on.
    pub(crate) fn trouble(&self, node: &Node) -> Option<&Error> {
        let is_lost =
            |peer: &Rank| node.arena.place(*peer).is_some_and(|word| word.load().status == Status::Lost);
        self.trouble.iter().find(|(peer, _)| !is_lost(peer)).map(|(_, error)| error)
    }

    /// Whether something is under way that ends without the program and gives memory back then.
    pub(crate) fn gives_memory_back(&self) -> bool {
        self.operations.len() > 0 || self.calls.is_serving() || self.sections.is_serving()
    }

    /// Whether [`tick`](Self::tick) must be called.
    #[inline]
    pub(crate) fn wants_time(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// When something must be done even if nothing comes; 0: at once.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let stalled = self.calls.has_stalled().then_some(0);
        self.suspects.next_deadline_ms().into_iter().chain(stalled).min()
    }

    /// Whether a payload of so many bytes may be sent from where it lies.
    pub(crate) fn sends_in_place(&mut self, bytes: u64) -> bool {
        if bytes < IN_PLACE_BYTES || self.copied == 0 {
            return bytes >= IN_PLACE_BYTES;
        }
        self.copied -= 1;
        false
    }

    /// An operation of the program, or one that nobody holds a handle to, goes to a peer: the message as it must be sent.
    #[inline]
    pub(crate) fn enter(&mut self, id: u64, peer: Rank, action: Action, message: Message) -> Message {
        let operation =
            Operation { peer: Some(peer), ..Operation::of_program(action, order::Condition::Free) };
        self.operations.insert(id, operation);
        let in_place = match action {
            Action::Copy { bytes, .. } => self.sends_in_place(bytes),
            _ => false,
        };
        start::numbered(message, id, in_place)
    }
}

impl Feed<'_> {
    /// The time is `now_ms`: gives up the peers of whom nothing better was heard in time.
    pub(crate) fn tick(&mut self, now_ms: u64, out: &mut Outbox) {
        while let Some((peer, error)) = self.engine.suspects.judge(now_ms) {
            self.fail_peer(peer, &error, out);
        }
    }

    /// Between frames: tries again what met a lock, and starts the deferred operations whose time has come.
    #[inline]
    pub(crate) fn go_on(&mut self, out: &mut Outbox) {
        if self.engine.calls.has_stalled() {
            calls::serve_stalled(self, out);
        }
        self.start_ready(out);
    }

    /// Starts the deferred operations whose time has come.
    #[inline]
    pub(crate) fn start_ready(&mut self, out: &mut Outbox) {
        while let Some(id) = self.engine.operations.next_ready() {
            if let Some(action) = self.engine.operations.get(id).map(|operation| operation.action) {
                self.start(id, action, out);
            }
        }
    }

    /// Starts an operation that is in the table.
    pub(crate) fn start(&mut self, id: u64, action: Action, out: &mut Outbox) {
        let operation = self.engine.operations.get(id).copied();
        let repeated = operation.is_some_and(|operation| operation.repeated);
        let for_others = operation.is_some_and(|operation| operation.client != Client::Program);
        let in_place = match action {
            Action::Copy { bytes, .. } => !repeated && self.engine.sends_in_place(bytes),
            _ => false,
        };
        match start::start(self.node, action) {
            Ok(start::Started::Complete(value)) => self.complete(id, Ok(value), out),
            Ok(start::Started::Sent(peer, message)) => {
                if let Some(operation) = self.engine.operations.get_mut(id) {
                    operation.peer = Some(peer);
                }
                let message = start::numbered(message, id, in_place);
                out.messages.push((peer, if for_others { frames::relayed(message) } else { message }));
            }
            Err(error) => self.complete(id, Err(error), out),
        }
    }

    /// Ends an operation: tells its client.
    pub(crate) fn complete(&mut self, id: u64, result: Result<Option<u64>>, out: &mut Outbox) {
        let Some(operation) = self.engine.operations.remove(id) else { return };
        self.engine.stirred = true;
        if let Client::Peer { rank, path, op } = operation.client {
            let ended = result.map(drop);
            out.messages.push((rank, frames::done(op, &ended, path)));
            self.settle();
            return;
        }
        match (result, operation.action) {
            (Ok(Some(old)), Action::Atomic { dst: Some(dst), call }) => {
                // The old value goes to a place that may itself be remote: the operation goes on as a copy of it.
                match start::store_value(self.node, dst, old, call.code) {
                    Ok(None) => {}
                    Ok(Some((peer, message))) => {
                        let next = Operation { action: start::DELIVERY, peer: Some(peer), ..operation };
                        self.engine.operations.insert(id, next);
                        out.messages.push((peer, start::numbered(message, id, false)));
                        return;
                    }
                    Err(error) => self.engine.operations.keep_failure(id, error),
                }
            }
            (Ok(Some(old)), _) => self.engine.operations.keep_value(id, old),
            (Ok(None), _) => {}
            (Err(error), _) => self.engine.operations.keep_failure(id, error),
        }
        self.engine.completed = true;
        self.settle();
    }

    /// Books what operations and calls take now.
    pub(crate) fn settle(&self) {
        let calls = self.engine.calls.bytes() + self.engine.letters.bytes();
        let bytes = self.engine.operations.bytes() + calls + self.engine.sections.bytes();
        if self.node.books.of(Purpose::Operation) != bytes {
            self.node.books.set(Purpose::Operation, bytes);
        }
    }

    /// Fails everything that waits for an answer of `peer`.
    pub(crate) fn fail_peer(&mut self, peer: Rank, error: &Error, out: &mut Outbox) {
        for id in self.engine.operations.waiting_for(peer) {
            let error = match error {
                Error::PeerLost { rank, why, .. } => {
                    Error::PeerLost { rank: *rank, fate: Fate::Unknown, why: why.clone() }
                }
                other => other.clone(),
            };
            self.complete(id, Err(error), out);
        }
    }

    /// Whether a frame is an answer, but not of the rank that its operation waits for: it is not believed. The operation may be
    /// over, or somebody has guessed its number.
    #[inline]
    fn is_uncalled_for(&self, from: Rank, header: &Header) -> bool {
        frames::answers_operation(header.kind) && !self.engine.operations.awaits(header.op, from)
    }

    /// Something happened that a sleeper may wait for.
    pub(crate) fn stir(&mut self) {
        self.engine.stirred = true;
    }

    /// The agent has news: fails what waits for ranks that are gone.
    pub(crate) fn notice(&mut self, out: &mut Outbox) {
        self.engine.stirred = true;
        for peer in self.engine.operations.peers() {
            let Some(place) = self.node.arena.place(peer).map(|word| word.load()) else { continue };
            if place.status == Status::Lost {
                let error =
                    Error::PeerLost { rank: peer.0, fate: Fate::Unknown, why: place.cause.to_string() };
                self.engine.suspects.clear(peer);
                self.fail_peer(peer, &error, out);
            }
        }
    }
}

impl Sink for Feed<'_> {
    fn part(&mut self, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        if self.is_uncalled_for(from, header) {
            return;
        }
        if matches!(header.kind, frames::CALL | frames::RETURN) {
            return self.engine.calls.part(&self.node.books, from, header, at, bytes);
        }
        if header.kind == frames::LETTER {
            if letters::is_long(header) {
                return self.engine.calls.part(&self.node.books, from, header, at, bytes);
            }
            return self.engine.letters.part(from, header, at, bytes);
        }
        if matches!(header.kind, frames::SCATTER | frames::GATHER) {
            return self.engine.sections.part(self.node, from, header, at, bytes);
        }
        let by_recipe = match header.kind {
            frames::DATA => self.engine.sections.land(self.node, header, at, bytes),
            _ => None,
        };
        let landed =
            by_recipe.unwrap_or_else(|| serve::land(self.node, &self.engine.operations, header, at, bytes));
        if !landed && header.kind == frames::DATA {
            self.engine.operations.spoil(header.op);
        }
    }

    fn place(&mut self, from: Rank, header: &Header, at: u32, bytes: usize) -> Option<Place<'_>> {
        if self.is_uncalled_for(from, header) {
            return None;
        }
        serve::place(self.node, &self.engine.operations, header, at, bytes)
    }

    fn room(&mut self, from: Rank, header: &Header, at: u32, bytes: usize) -> Option<Place<'_>> {
        match header.kind {
            frames::LETTER if !letters::is_long(header) || self.is_uncalled_for(from, header) => None,
            frames::CALL | frames::LETTER => {
                self.engine.calls.room(&self.node.books, from, header, at, bytes)
            }
            frames::DATA if !self.is_uncalled_for(from, header) => {
                self.engine.sections.room(header, at, bytes)
            }
            _ => None,
        }
    }

    fn share(&mut self, source: Source) -> Option<Arc<Vec<u8>>> {
        self.engine.calls.share(source)
    }

    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        if self.is_uncalled_for(from, header) {
            return header.flags & FLAG_MORE == 0;
        }
        serve::frame(self, from, path, header, out)
    }

    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> Filled {
        let filled = self.engine.calls.fill(source, offset, place);
        let filled = filled.or_else(|| self.engine.sections.fill(self.node, source, offset, place));
        let filled = match filled {
            Some(filled) => {
                // A reply that is on its way gives its memory back.
                self.settle();
                filled
            }
            None => serve::fill(self.node, &self.engine.operations, source, offset, place),
        };
        if filled {
            Filled::Whole
        } else {
            Filled::Gone
        }
    }

    fn lend(&mut self, source: Source, offset: u64, bytes: usize) -> Option<Lent<'_>> {
        serve::lend(self.node, &self.engine.operations, source, offset, bytes)
    }

    fn torn(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        if self.is_uncalled_for(from, header) {
            return true;
        }
        serve::torn(self, from, path, header, out)
    }

    fn withdrawn(&mut self, to: Rank, header: &Header, out: &mut Outbox) {
        serve::withdrawn(self, to, header, out);
    }

    fn lost(&mut self, peer: Rank, error: kumiki_net::Error, out: &mut Outbox) {
        let error = Error::from(error);
        self.engine.calls.forget_peer(peer);
        self.engine.letters.forget_peer(peer);
        self.engine.sections.forget_peer(peer);
        self.settle();
        let place = self.node.arena.place(peer).map(|word| word.load());
        match place {
            // The agents' word came between the break and now.
            Some(place) if place.status == Status::Lost => {
                let why = place.cause.to_string();
                self.fail_peer(peer, &Error::PeerLost { rank: peer.0, fate: Fate::NotDone, why }, out);
            }
            // A process that dies takes its connections with it: the agents know why in a moment.
            Some(place) if place.status == Status::Alive && self.node.has_agent => {
                if self.engine.suspects.add(peer, error) {
                    self.engine.reports.push_back(Report::Lost(peer, Cause::DISCONNECTED));
                }
            }
            _ => self.fail_peer(peer, &error, out),
        }
    }

    fn unsent(&mut self, peer: Rank, error: kumiki_net::Error, silent: bool, out: &mut Outbox) {
        let error = Error::from(error);
        self.fail_peer(peer, &error, out);
        // What nobody answers, the signal of a barrier above all, is missed by others who cannot know why: whatever the
        // program waits for next, it learns that it cannot go on.
        if silent {
            self.engine.stirred = true;
            // One for each peer: when one is lost, what the others miss is no less trouble.
            self.engine.trouble.retain(|(other, _)| *other != peer);
            self.engine.trouble.push((peer, error));
        }
    }

    /// What the agent has to say is read by whoever drives the engine, and told with [`notice`](Self::notice).
    fn agent(&mut self, _out: &mut Outbox) {}
}
