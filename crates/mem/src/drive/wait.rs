//! Progress: what happens when frames come, who polls, and who sleeps.
//!
//! The [`Engine`] is the transport and the table of operations behind one lock. A thread that waits polls it inline;
//! the service thread polls it when nobody does. Nobody sleeps while holding the lock.

use crate::drive::core::{Busy, Core};
use crate::engine::calls::{self, Calls};
use crate::engine::frames::{self, Signal};
use crate::engine::operations::{Action, Client, Operation, Operations, OPERATION_BYTES};
use crate::engine::serve;
use crate::error::Fate;
use crate::node::ledger::Purpose;
use crate::{Error, Result};
use kumiki_net::agent::channel::{Channel, FromAgent, ToAgent};
use kumiki_net::contract::{Message, Outbox, Payload, Sink, Sleeper, Source, Transport, FLAG_MORE};
use kumiki_net::os::socket::{Lent, Place};
use kumiki_net::os::{futex, process, time};
use kumiki_net::shm::barrier::Discord;
use kumiki_net::shm::control::{Activity, NOBODY};
use kumiki_net::shm::world::{Cause, Status};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Rounds of a dissemination barrier between nodes: enough for 2^24 of them.
pub(crate) const BARRIER_ROUNDS: usize = 24;
/// Naps of the service thread beside threads that poll inline, and beside one that sleeps and rings when it leaves.
const SHORTEST_NAP_US: u64 = 15;
const LONGEST_NAP_US: u64 = 1_000;
const SLEEPERS_NAP_US: u64 = 50_000;
/// How long messages that are kept to go out together wait for whoever issued them to send them.
const KEPT_US: u64 = 50;
/// So many short waits between two looks of the service thread do not keep it from serving.
const FEW_TURNS: u64 = 4;
/// Messages of the agent that are taken at a time.
const AGENT_MESSAGES: usize = 4;
/// The longest sleep without looking at the job.
const SLICE_MS: u64 = 100;
/// How long a broken connection is only a suspicion: the agents may know how the peer ended. The promise is 1 s.
const SUSPECT_MS: u64 = 900;

/// The transport and everything its frames act on.
pub(crate) struct Engine {
    pub(crate) transport: Option<Box<dyn Transport>>,
    pub(crate) sleeper: Option<Arc<dyn Sleeper>>,
    /// How often the transport has begun to keep messages.
    keeps: u32,
    pub(crate) state: State,
}

/// What frames act on.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) operations: Operations,
    /// Requests and replies of calls.
    pub(crate) calls: Calls,
    /// Barrier signals received, by round: the latest.
    pub(crate) signals: [Signal; BARRIER_ROUNDS],
    /// A barrier that another node has found broken.
    pub(crate) discord: Option<(u64, Discord)>,
    pub(crate) channel: Option<Channel>,
    /// Sockets that the agent handed over before there was a transport.
    pub(crate) early_sockets: Vec<OwnedFd>,
    /// Whose signal a barrier waits for.
    pub(crate) awaited: Option<Rank>,
    /// Peers whose connection broke and of whom the agent has said nothing yet.
    suspects: Vec<Suspect>,
    /// Why something could not be sent that nobody will ask for: this rank cannot go on.
    trouble: Option<Error>,
    /// Whether something happened since the sleepers were last woken that one of them may wait for.
    pub(crate) stirred: bool,
}

/// A peer whose connection broke.
struct Suspect {
    peer: Rank,
    /// What the operations that wait for it come to, if nothing better is known by then.
    error: Error,
    until_ms: u64,
}

/// The state together with the world it belongs to: the receiving end of a transport.
pub(crate) struct Receiver<'a> {
    pub(crate) core: &'a Core,
    pub(crate) state: &'a mut State,
}

impl Engine {
    pub(crate) fn new(channel: Option<Channel>) -> Engine {
        Engine { transport: None, sleeper: None, keeps: 0, state: State { channel, ..State::default() } }
    }

    /// Puts a transport in place and gives it the sockets that came early.
    pub(crate) fn install(&mut self, mut transport: Box<dyn Transport>) -> Result<()> {
        for socket in self.state.early_sockets.drain(..) {
            // One that there is no room for is closed, and its caller tries again.
            let _ = transport.adopt(socket);
        }
        self.sleeper = Some(transport.sleeper());
        self.transport = Some(transport);
        Ok(())
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, core: &Core, to: Rank, message: Message) -> Result<()> {
        let Some(transport) = self.transport.as_mut() else {
            return Err(Error::Closed("there is no transport".into()));
        };
        let mut receiver = Receiver { core, state: &mut self.state };
        transport.send(to, message, &mut receiver).map_err(Error::from)
    }

    /// Sends a message of an operation, at once or together with others that follow.
    pub(crate) fn post(&mut self, core: &Core, to: Rank, message: Message) -> Result<()> {
        let Some(transport) = self.transport.as_mut() else {
            return Err(Error::Closed("there is no transport".into()));
        };
        let mut receiver = Receiver { core, state: &mut self.state };
        let kept = transport.post(to, message, &mut receiver)?;
        if kept != (core.waiting.kept.load(Ordering::Relaxed) != 0) {
            self.note_kept(core, kept);
        }
        Ok(())
    }

    /// Remembers whether the transport keeps messages. If it does, the service thread sends them when nobody else has soon.
    fn note_kept(&mut self, core: &Core, kept: bool) {
        if !kept {
            core.waiting.kept.store(0, Ordering::Relaxed);
            return;
        }
        self.keeps = self.keeps.wrapping_add(1).max(1);
        core.waiting.kept.store(self.keeps, Ordering::SeqCst);
        core.rouse_service(self.sleeper.as_deref());
    }

    /// Does what can be done now. Returns how many things happened.
    #[inline]
    pub(crate) fn poll(&mut self, core: &Core) -> Result<usize> {
        let Some(transport) = self.transport.as_mut() else { return Ok(0) };
        if core.waiting.kept.load(Ordering::Relaxed) != 0 {
            core.waiting.kept.store(0, Ordering::Relaxed);
        }
        let errands = if core.control().errands.may_wait() { core.run_errands() } else { 0 };
        let mut receiver = Receiver { core, state: &mut self.state };
        let happened = errands + transport.poll(&mut receiver)?;
        if !self.state.suspects.is_empty() {
            self.judge_suspects(core);
        }
        if self.state.calls.has_stalled() {
            let mut out = Outbox::default();
            calls::serve_stalled(&mut Receiver { core, state: &mut self.state }, &mut out);
            self.send_all(core, out);
        }
        self.start_ready(core)?;
        Ok(happened)
    }

    /// Gives up the peers of whom nothing better was heard in time.
    fn judge_suspects(&mut self, core: &Core) {
        let now_ms = time::now_ms();
        let mut out = Outbox::default();
        while let Some(index) = self.state.suspects.iter().position(|suspect| suspect.until_ms <= now_ms) {
            let Suspect { peer, error, .. } = self.state.suspects.swap_remove(index);
            Receiver { core, state: &mut self.state }.fail_peer(peer, &error, &mut out);
        }
        self.send_all(core, out);
    }

    /// Starts the deferred operations whose time has come.
    pub(crate) fn start_ready(&mut self, core: &Core) -> Result<()> {
        while let Some(id) = self.state.operations.next_ready() {
            let Some(operation) = self.state.operations.get(id).copied() else { continue };
            self.start(core, id, operation.action);
        }
        Ok(())
    }

    /// Starts an operation that is in the table.
    pub(crate) fn start(&mut self, core: &Core, id: u64, action: Action) {
        let mut out = Outbox::default();
        Receiver { core, state: &mut self.state }.start(id, action, &mut out);
        self.send_all(core, out);
    }

    /// Sends what a callback asked for outside of a poll.
    fn send_all(&mut self, core: &Core, mut out: Outbox) {
        let mut next = 0;
        while let Some(&(to, message)) = out.messages.get(next) {
            next += 1;
            if let Err(error) = self.post(core, to, message) {
                // Others may wait for what can no longer be done: they are told behind the rest.
                Receiver { core, state: &mut self.state }.fail_peer(to, &error, &mut out);
            }
        }
        self.flush(core);
    }

    /// Sends what the transport keeps.
    fn flush(&mut self, core: &Core) {
        let Some(transport) = self.transport.as_mut() else { return };
        if core.waiting.kept.load(Ordering::Relaxed) != 0 {
            core.waiting.kept.store(0, Ordering::Relaxed);
            transport.flush(&mut Receiver { core, state: &mut self.state });
        }
    }

    /// Before anybody sleeps in the sleeper: whatever comes must wake it.
    pub(crate) fn watch(&mut self) {
        if let Some(transport) = self.transport.as_mut() {
            transport.watch();
        }
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        let transport = self.transport.as_ref().and_then(|transport| transport.wake_up_at());
        let suspects = self.state.suspects.iter().map(|suspect| suspect.until_ms);
        let stalled = self.state.calls.has_stalled().then_some(0);
        suspects.chain(transport).chain(stalled).min()
    }
}

impl State {
    /// Whether something is under way that ends without the program and gives memory back then.
    pub(crate) fn gives_memory_back(&self) -> bool {
        self.operations.len() > 0 || self.calls.is_serving()
    }
}

impl Core {
    /// Whether one more operation may be in the table, by its length and by the budget.
    #[inline]
    pub(crate) fn has_room(&self, state: &State) -> bool {
        state.operations.len() < self.most_operations && self.books.left() >= OPERATION_BYTES
    }
}

impl Receiver<'_> {
    /// Starts an operation that is in the table.
    pub(crate) fn start(&mut self, id: u64, action: Action, out: &mut Outbox) {
        let operation = self.state.operations.get(id).copied();
        let repeated = operation.is_some_and(|operation| operation.repeated);
        let for_others = operation.is_some_and(|operation| operation.client != Client::Program);
        match serve::start(self.core, id, action, repeated) {
            Ok(serve::Started::Complete(value)) => self.complete(id, Ok(value), out),
            Ok(serve::Started::Sent(peer, message)) => {
                if let Some(operation) = self.state.operations.get_mut(id) {
                    operation.peer = Some(peer);
                }
                let message = if for_others { frames::relayed(message) } else { message };
                out.messages.push((peer, message));
            }
            Err(error) => self.complete(id, Err(error), out),
        }
    }

    /// Ends an operation: tells its client.
    pub(crate) fn complete(&mut self, id: u64, result: Result<Option<u64>>, out: &mut Outbox) {
        let Some(operation) = self.state.operations.remove(id) else { return };
        self.state.stirred = true;
        if let Client::Peer { rank, path, op } = operation.client {
            let ended = result.map(drop);
            out.messages.push((rank, frames::done(op, &ended, path)));
            self.note_pending();
            return;
        }
        match (result, operation.action) {
            (Ok(Some(old)), Action::Atomic { dst: Some(dst), call }) => {
                // The old value goes to a place that may itself be remote: the operation goes on as a copy of it.
                match serve::store_value(self.core, id, dst, old, call.code) {
                    Ok(None) => {}
                    Ok(Some((peer, message))) => {
                        let next = Operation { action: serve::DELIVERY, peer: Some(peer), ..operation };
                        self.state.operations.insert(id, next);
                        out.messages.push((peer, message));
                        return;
                    }
                    Err(error) => self.state.operations.keep_failure(id, error),
                }
            }
            (Ok(Some(old)), _) => self.state.operations.keep_value(id, old),
            (Ok(None), _) => {}
            (Err(error), _) => self.state.operations.keep_failure(id, error),
        }
        self.note_pending();
        self.core.raise_completion();
    }

    /// Publishes how much is pending, for the path that completes without a lock.
    pub(crate) fn note_pending(&self) {
        let pending = if self.state.operations.is_quiet() { 0 } else { self.state.operations.len().max(1) };
        self.core.pending.store(pending as u64, Ordering::Release);
        let bytes = self.state.operations.bytes() + self.state.calls.bytes();
        if self.core.books.of(Purpose::Operation) != bytes {
            self.core.books.set(Purpose::Operation, bytes);
        }
    }

    /// Fails everything that waits for an answer of `peer`.
    pub(crate) fn fail_peer(&mut self, peer: Rank, error: &Error, out: &mut Outbox) {
        for id in self.state.operations.waiting_for(peer) {
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
        frames::answers_operation(header.kind) && !self.state.operations.awaits(header.op, from)
    }

    /// After news of the agent: fails what waits for ranks that are gone.
    fn look_for_losses(&mut self, out: &mut Outbox) {
        for peer in self.state.operations.peers() {
            let Some(place) = self.core.arena.place(peer).map(|word| word.load()) else { continue };
            if place.status == Status::Lost {
                let error =
                    Error::PeerLost { rank: peer.0, fate: Fate::Unknown, why: place.cause.to_string() };
                self.state.suspects.retain(|suspect| suspect.peer != peer);
                self.fail_peer(peer, &error, out);
            }
        }
    }
}

impl Sink for Receiver<'_> {
    fn part(&mut self, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        if self.is_uncalled_for(from, header) {
            return;
        }
        if matches!(header.kind, frames::CALL | frames::RETURN) {
            return self.state.calls.part(&self.core.books, from, header, at, bytes);
        }
        let landed = serve::land(self.core, &self.state.operations, header, at, bytes);
        if !landed && header.kind == frames::DATA {
            self.state.operations.spoil(header.op);
        }
    }

    fn place(&mut self, from: Rank, header: &Header, at: u32, bytes: usize) -> Option<Place<'_>> {
        if self.is_uncalled_for(from, header) {
            return None;
        }
        serve::place(self.core, &self.state.operations, header, at, bytes)
    }

    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        if self.is_uncalled_for(from, header) {
            return header.flags & FLAG_MORE == 0;
        }
        serve::frame(self, from, path, header, out)
    }

    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> bool {
        match self.state.calls.fill(source, offset, place) {
            Some(filled) => {
                // A reply that is on its way gives its memory back.
                self.note_pending();
                filled
            }
            None => serve::fill(self.core, &self.state.operations, source, offset, place),
        }
    }

    fn lend(&mut self, source: Source, offset: u64, bytes: usize) -> Option<Lent<'_>> {
        serve::lend(self.core, &self.state.operations, source, offset, bytes)
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
        self.state.calls.forget_peer(peer);
        self.note_pending();
        let place = self.core.arena.place(peer).map(|word| word.load());
        let alive = place.is_some_and(|place| place.status == Status::Alive);
        let error = match place {
            // The agents' word came between the break and now.
            Some(place) if place.status == Status::Lost => {
                Error::PeerLost { rank: peer.0, fate: Fate::NotDone, why: place.cause.to_string() }
            }
            _ => error,
        };
        let Some(channel) = self.state.channel.as_ref().filter(|_| alive) else {
            return self.fail_peer(peer, &error, out);
        };
        if self.state.suspects.iter().any(|suspect| suspect.peer == peer) {
            return;
        }
        // A process that dies takes its connections with it: the agents know why in a moment.
        if !self.core.closed.load(Ordering::Acquire) {
            let _ = channel.send(&ToAgent::ReportLost { rank: peer, cause: Cause::DISCONNECTED });
        }
        self.state.suspects.push(Suspect { peer, error, until_ms: time::now_ms() + SUSPECT_MS });
    }

    fn unsent(&mut self, peer: Rank, error: kumiki_net::Error, silent: bool, out: &mut Outbox) {
        let error = Error::from(error);
        self.fail_peer(peer, &error, out);
        // What nobody answers, the signal of a barrier above all, is missed by others who cannot know why: whatever the
        // program waits for next, it learns that it cannot go on.
        if silent {
            self.state.stirred = true;
            self.state.trouble.get_or_insert(error);
        }
    }

    fn agent(&mut self, out: &mut Outbox) {
        let Some(channel) = self.state.channel.clone() else { return };
        self.state.stirred = true;
        // Few at a time: each may be a descriptor, of which we have few to spare before they find their places.
        for _ in 0..AGENT_MESSAGES {
            match channel.try_receive() {
                Ok(Some(FromAgent::Socket(socket))) => out.sockets.push(socket),
                Ok(Some(FromAgent::Notice)) => self.look_for_losses(out),
                // Whoever asked for one of these waits for it at the channel.
                Ok(Some(
                    FromAgent::Welcome { .. }
                    | FromAgent::Refused { .. }
                    | FromAgent::ResetDone { .. }
                    | FromAgent::ResetRefused { .. },
                )) => {}
                // A packet without its descriptor: this process may not have one more.
                Err(kumiki_net::Error::Refused(_)) => out.crowded = true,
                Ok(None) | Err(_) => return,
            }
        }
    }
}

/// Decides between spinning, yielding and sleeping.
pub(crate) struct Patience {
    /// Whether to sleep at once.
    none: bool,
    spin_ns: u64,
    yields: u32,
    since_ns: u64,
    turns: u32,
    all_turns: u32,
}

/// Turns after which a wait looks at the clock and at the job even if something happens at every turn.
const LOOK_UP_TURNS: u32 = 256;

/// After so many turns a wait that spins asks that what comes wake nobody else.
const SILENCE_TURNS: u32 = 8;

/// Turns of yielding before a sleep when ranks outnumber cores…
const YIELD_TURNS: u32 = 64;
/// …by no more than this. Where there are many more, each turn of one is taken from all the others.
const FEW_RANKS: u32 = 4;

impl Patience {
    pub(crate) fn new(core: &Core) -> Patience {
        Patience {
            none: core.simulated,
            spin_ns: core.waiting.spin_ns.load(Ordering::Relaxed),
            yields: (YIELD_TURNS * FEW_RANKS / core.waiting.crowd.max(FEW_RANKS)).max(1),
            since_ns: 0,
            turns: 0,
            all_turns: 0,
        }
    }

    /// Something happened: start over.
    pub(crate) fn renew(&mut self) {
        self.since_ns = 0;
        self.turns = 0;
    }

    /// True once in so many turns, whether or not something happened meanwhile.
    pub(crate) fn must_look_up(&mut self, turns: u32) -> bool {
        self.all_turns = self.all_turns.wrapping_add(1);
        self.all_turns.is_multiple_of(turns)
    }

    /// Whether it is time to ask for silence: this wait spins, and has not ended at once.
    #[inline]
    fn spins_on(&self) -> bool {
        self.spin_ns != 0 && self.turns.is_multiple_of(SILENCE_TURNS)
    }

    /// One more turn without success. True when it is time to sleep.
    #[inline]
    pub(crate) fn exhausted(&mut self) -> bool {
        if self.none {
            return true;
        }
        self.turns += 1;
        if self.spin_ns == 0 {
            if self.turns <= self.yields {
                process::yield_now();
                return false;
            }
            return true;
        }
        std::hint::spin_loop();
        // Looking at the clock costs more than looking at a word.
        if !self.turns.is_multiple_of(32) {
            return false;
        }
        let now_ns = time::now_ns();
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        now_ns - self.since_ns > self.spin_ns
    }
}

impl Core {
    /// Waits until `done` gives a value, polling inline. `deadline_ms` is of the monotonic clock.
    pub(crate) fn wait_until<T>(
        &self,
        activity: Activity,
        deadline_ms: Option<u64>,
        mut done: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Result<T> {
        if let Some(value) = done(&mut self.engine()) {
            return Ok(value);
        }
        let mut patience = Patience::new(self);
        // Since when, once the wait is long enough to look at the clock.
        let mut since_ms = None;
        let nudge_every_ms = (self.arena.config().peer_timeout_ms as u64 / 2).max(1);
        let mut nudge_at_ms = 0;
        let mut hushed = false;
        self.waiting.inline_turns.fetch_add(1, Ordering::Relaxed);
        let busy = self.waiting.busy();
        let result = loop {
            let seen = self.waiting.progress.load(Ordering::SeqCst);
            let (found, happened) = self.poll_once(&mut done);
            match (found, happened) {
                (Some(value), _) => break Ok(value),
                (None, Err(error)) => break Err(error),
                (None, Ok(count)) if count > 0 => patience.renew(),
                _ => {}
            }
            self.make_way();
            let tired = patience.exhausted();
            if !hushed && patience.spins_on() {
                hushed = self.hush();
            }
            if !tired && !patience.must_look_up(LOOK_UP_TURNS) {
                continue;
            }
            let now_ms = time::now_ms();
            let started_ms = *since_ms.get_or_insert_with(|| {
                let peer = self.engine().state.operations.oldest_peer(u64::MAX);
                self.control().begin_wait(activity, peer.map_or(NOBODY, |peer| peer.0), now_ms);
                nudge_at_ms = now_ms + nudge_every_ms;
                now_ms
            });
            if deadline_ms.is_some_and(|deadline_ms| now_ms >= deadline_ms) {
                break Err(self.timeout(activity, now_ms - started_ms));
            }
            if let Err(error) = self.check_wait() {
                break Err(error);
            }
            if now_ms >= nudge_at_ms {
                nudge_at_ms = now_ms + nudge_every_ms;
                self.nudge();
            }
            if tired {
                hushed = false;
                self.sleep(seen, deadline_ms, now_ms);
            }
        };
        self.leave_wait(busy, since_ms.is_some());
        result
    }

    /// One look at the engine: what `done` found, and how much happened.
    #[inline]
    pub(crate) fn poll_once<T>(
        &self,
        done: &mut impl FnMut(&mut Engine) -> Option<T>,
    ) -> (Option<T>, Result<usize>) {
        let mut engine = self.engine();
        let happened = engine.poll(self);
        let found = done(&mut engine);
        let stirred = std::mem::take(&mut engine.state.stirred);
        drop(engine);
        if self.simulated && matches!(happened, Ok(1..)) {
            self.forget_looks();
        }
        if stirred {
            self.wake_sleepers();
        }
        (found, happened)
    }

    fn leave_wait(&self, busy: Busy<'_>, announced: bool) {
        if announced {
            self.control().end_wait();
        }
        drop(busy);
        // A thread that slept took the service thread's place: give it back. After a short spin the service
        // thread comes back by itself.
        if announced && self.waiting.service_parked.load(Ordering::SeqCst) {
            self.waiting.service.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.waiting.service);
        }
        if announced {
            self.wake_sleepers();
        }
    }

    /// Sends something to everybody who owes an answer: a connection on which a frame was lost shows it then.
    fn nudge(&self) {
        let mut engine = self.engine();
        let awaited = engine.state.awaited;
        for peer in engine.state.operations.peers().into_iter().chain(awaited) {
            let header = Header { kind: frames::NUDGE, ..Header::default() };
            // A peer that cannot be reached is reported through the operations that wait for it.
            let _ = engine.send(self, peer, frames::question(header, Payload::None));
        }
    }

    fn timeout(&self, activity: Activity, after_ms: u64) -> Error {
        let peer = self.engine().state.operations.oldest_peer(u64::MAX);
        let whom = peer.map_or(String::new(), |peer| format!(" of {peer}"));
        let what = match activity {
            Activity::Complete => {
                format!("waiting for an operation to complete (an answer{whom} is missing)")
            }
            other => format!("({other})"),
        };
        Error::Timeout { what, after_ms }
    }

    /// Fails when the job is ending or the agent is gone.
    pub(crate) fn check_wait(&self) -> Result<()> {
        self.check_job()?;
        let engine = self.engine();
        if let Some(trouble) = &engine.state.trouble {
            return Err(trouble.clone());
        }
        match &engine.state.channel {
            Some(channel) if engine.transport.is_none() => {
                let channel = channel.clone();
                drop(engine);
                self.listen(&channel)
            }
            Some(channel) if channel.is_closed() => {
                Err(Error::Closed("the node agent of this process is gone; the job is ending".into()))
            }
            _ => Ok(()),
        }
    }

    /// Reads what the agent sent when there is no transport that would.
    fn listen(&self, channel: &Channel) -> Result<()> {
        while let Some(message) = channel.try_receive().map_err(Error::from)? {
            if let FromAgent::Socket(socket) = message {
                self.engine().state.early_sockets.push(socket);
            }
        }
        Ok(())
    }

    /// Keeps what comes from waking anybody while this thread alone looks for it, turn after turn. The service thread
    /// must be out of the way, as it is soon after the first message; it sees to it afterwards that it is woken again.
    /// Whether that was asked of the transport.
    #[cold]
    fn hush(&self) -> bool {
        let mut engine = self.engine();
        let alone = self.waiting.inline.load(Ordering::SeqCst) == 1;
        if !alone || !self.waiting.service_parked.load(Ordering::SeqCst) {
            return false;
        }
        if let Some(transport) = engine.transport.as_mut() {
            transport.hush();
        }
        true
    }

    /// Sleeps until something may have happened: as the poller, or on the word that the poller changes.
    /// `seen` is what `progress` was before the last look: if it has changed, somebody else got what we wait for.
    fn sleep(&self, seen: u32, deadline_ms: Option<u64>, now_ms: u64) {
        let mut engine = self.engine();
        engine.watch();
        let until = engine.next_deadline_ms().into_iter().chain(deadline_ms).min().unwrap_or(u64::MAX);
        let slice_ms = until.saturating_sub(now_ms).clamp(1, SLICE_MS);
        let sleeper = engine.sleeper.clone();
        drop(engine);
        match sleeper {
            Some(sleeper) if !self.waiting.poller.swap(true, Ordering::SeqCst) => {
                // Whoever makes progress changes the word, then looks for a poller to wake; we are the poller, then
                // look at the word. One of us sees the other.
                if self.waiting.progress.load(Ordering::SeqCst) == seen {
                    let _ = sleeper.sleep(slice_ms as i32);
                }
                self.waiting.poller.store(false, Ordering::SeqCst);
            }
            _ => {
                self.waiting.sleepers.fetch_add(1, Ordering::SeqCst);
                futex::wait(&self.waiting.progress, seen, slice_ms.min(10));
                self.waiting.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Wakes the threads that wait for somebody else to poll.
    pub(crate) fn wake_sleepers(&self) {
        self.waiting.progress.fetch_add(1, Ordering::SeqCst);
        if self.waiting.sleepers.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&self.waiting.progress);
        }
        if self.waiting.poller.load(Ordering::SeqCst) {
            let sleeper = self.engine().sleeper.clone();
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
        }
    }

    /// The loop of the service thread; ends when the world is closed.
    pub(crate) fn serve(&self, sleeper: &dyn Sleeper) {
        while !self.closed.load(Ordering::Acquire) {
            let wake_up = self.engine().next_deadline_ms();
            let now_ms = time::now_ms();
            let slice_ms = wake_up.map_or(1000, |at| at.saturating_sub(now_ms).clamp(1, 1000));
            let turns = self.waiting.inline_turns.load(Ordering::Relaxed);
            self.waiting.service_sleeps.store(true, Ordering::SeqCst);
            // Whoever keeps messages says so, then looks whether we sleep; we do it the other way round.
            if self.waiting.kept.load(Ordering::SeqCst) == 0 {
                let _ = sleeper.sleep(slice_ms as i32);
            }
            self.waiting.service_sleeps.store(false, Ordering::SeqCst);
            self.send_kept();
            if self.waiting.inline.load(Ordering::SeqCst) == 0 {
                self.serve_while_busy();
            }
            // A thread that polls inline, now or again and again, is in no need of us.
            if self.waiting.inline.load(Ordering::SeqCst) > 0 || self.turns_since(turns) > FEW_TURNS {
                self.park_service();
            }
        }
    }

    /// Gets the service thread up, if it sleeps, because messages are kept: it sends them in a moment.
    fn rouse_service(&self, sleeper: Option<&dyn Sleeper>) {
        if self.waiting.service_naps.load(Ordering::SeqCst) {
            self.waiting.service.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.waiting.service);
        } else if let Some(sleeper) = sleeper.filter(|_| self.waiting.service_sleeps.load(Ordering::SeqCst)) {
            sleeper.wake();
        }
    }

    /// While messages are kept to go out together: leaves it to whoever issues them to send them, for a moment, and then does it.
    /// Whether there were any.
    fn send_kept(&self) -> bool {
        let mut any = false;
        while !self.closed.load(Ordering::Acquire) {
            let kept = self.waiting.kept.load(Ordering::SeqCst);
            if kept == 0 {
                return any;
            }
            any = true;
            let seen = self.waiting.service.load(Ordering::SeqCst);
            futex::wait_us(&self.waiting.service, seen, KEPT_US);
            if self.waiting.kept.load(Ordering::SeqCst) == kept {
                let _ = self.poll_once(&mut |_| None::<()>);
            }
        }
        any
    }

    /// How often threads began to poll inline since there were `turns`.
    fn turns_since(&self, turns: u64) -> u64 {
        self.waiting.inline_turns.load(Ordering::Relaxed).wrapping_sub(turns)
    }

    /// Polls once, and goes on while there is traffic and the program only waits.
    fn serve_while_busy(&self) {
        let mut patience = Patience::new(self);
        loop {
            let (_, happened) = self.poll_once(&mut |_| None::<()>);
            match happened {
                Ok(count) if count > 0 => patience.renew(),
                Ok(_) => {}
                Err(_) => return,
            }
            let may_spin = self.waiting.arena_sleepers.load(Ordering::Relaxed) > 0
                && self.waiting.spin_ns.load(Ordering::Relaxed) > 0
                && self.waiting.inline.load(Ordering::Relaxed) == 0;
            if !may_spin || patience.exhausted() || self.closed.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Gets out of the way of threads that poll inline, until a nap passes with few of them: short naps first, since a
    /// program may wait once and then look at its memory; longer ones while threads go on polling.
    fn park_service(&self) {
        self.waiting.service_parked.store(true, Ordering::SeqCst);
        let mut nap_us = SHORTEST_NAP_US;
        // All service threads of a core together wake as often as one alone would.
        let longest_us = (LONGEST_NAP_US * u64::from(self.waiting.crowd.max(1))).min(SLEEPERS_NAP_US);
        loop {
            let seen = self.waiting.service.load(Ordering::SeqCst);
            let turns = self.waiting.inline_turns.load(Ordering::Relaxed);
            let asleep = self.waiting.poller.load(Ordering::Acquire);
            self.waiting.service_naps.store(true, Ordering::SeqCst);
            if !self.closed.load(Ordering::Acquire) && self.waiting.kept.load(Ordering::SeqCst) == 0 {
                futex::wait_us(&self.waiting.service, seen, if asleep { SLEEPERS_NAP_US } else { nap_us });
            }
            self.waiting.service_naps.store(false, Ordering::SeqCst);
            if self.send_kept() {
                nap_us = SHORTEST_NAP_US;
                continue;
            }
            nap_us = (nap_us * 2).min(longest_us);
            let rung = self.waiting.service.load(Ordering::SeqCst) != seen;
            let quiet = rung || self.turns_since(turns) <= FEW_TURNS;
            let idle = || quiet && self.waiting.inline.load(Ordering::SeqCst) == 0;
            if !idle() && !self.closed.load(Ordering::Acquire) {
                continue;
            }
            // With the engine held nobody hushes the transport behind our back.
            let mut engine = self.engine();
            if idle() || self.closed.load(Ordering::Acquire) {
                engine.watch();
                self.waiting.service_parked.store(false, Ordering::SeqCst);
                return;
            }
        }
    }
}
