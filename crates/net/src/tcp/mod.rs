//! Messages between nodes over TCP: direct connections between ranks, opened at first use.
//!
//! A rank calls another through the one port of the other's node; the agent there checks the first record and
//! hands the socket to the rank. Connections are capped; the least recently used idle one is closed in good
//! order to make room. Nothing is kept for a peer that was never spoken to.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the table of connections, routing, the cap |
//! | `link.rs`, `link/` | one connection |
//! | `buffers.rs` | memory that all connections share |
//! | `admission.rs` | who may come in |
//! | `callers.rs` | sockets of callers, on their way from the agent |
//! | `in_place.rs` | a frame that is sent without a copy |
//! | `late.rs` | answers that wait for long, to go out together |
//! | `sending.rs` | which connection a message goes on, and what goes out together |
//! | `pacing.rs` | large payloads that meet, and how they give way |
//! | `routes.rs` | which connection questions to a rank go on |
//! | `surplus.rs` | two ranks that have called each other at once, and need one connection |
//! | `mending.rs` | connections that break, and streams that go on over another |
//! | `reach.rs` | calling, calling again, and when a peer is lost |
//! | `room.rs` | how many connections there may be |
//! | `sleeper.rs` | how a thread sleeps until something comes |

mod admission;
mod buffers;
mod callers;
#[cfg(test)]
mod cuts;
#[cfg(test)]
mod handshakes;
mod in_place;
mod late;
mod link;
mod mending;
mod pacing;
mod reach;
mod room;
mod routes;
mod sending;
mod sleeper;
mod surplus;
#[cfg(test)]
mod tests;

use crate::auth::{Identity, JobId, Secret, NONCE_BYTES};
use crate::contract::{
    Accounts, Capabilities, Closing, Fault, Footprint, Leeway, Message, Outbox, Sink, Sleeper, Transport,
};
use crate::os::descriptor::{Epoll, Event, Readiness};
use crate::os::{self, socket, time};
use crate::route::Route;
use crate::shm::arena::Arena;
use crate::wire::Header;
use crate::{Rank, Result};
use admission::{admit, not_lost, Admission};
use buffers::Buffers;
pub use callers::Callers;
use late::Late;
use link::{Link, Received};
pub use pacing::Pacing;
use pacing::{Grants, LARGE_BYTES};
use reach::Retry;
use routes::Routes;
use sending::More;
use sleeper::EpollSleeper;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Private bytes of one connection, beside what is queued on it.
pub const CONNECTION_BYTES: u64 = std::mem::size_of::<Link>() as u64;
/// What is booked for one: itself, and its places in the tables.
const BOOKED_BYTES: u64 = CONNECTION_BYTES + 32;
/// Tokens of epoll below this are links; this one is the agent's channel.
const AGENT_TOKEN: u64 = u64::MAX;
/// …and this one the event that ends a sleep.
const WAKE_TOKEN: u64 = u64::MAX - 1;
/// After so many polls of the hot link alone all are looked at. Twice as many each time that nothing was found on the
/// others, up to the second figure: a rank that is asked by one and asks another has two links that are hot.
const POLLS_PER_ROUND: u32 = 1;
const MOST_POLLS_PER_ROUND: u32 = 64;
/// Without any connection, one poll of so many looks whether somebody calls.
const LONE_POLLS: u32 = 4;
/// A hushed link is looked at so often in one poll: whoever waits for it alone need not come through all layers each time.
const LOOKS_PER_POLL: u32 = 8;
/// A hushed link is announced to sleepers only when so many bytes wait on it. Most frames are shorter.
const HUSHED_BYTES: u32 = 2048;
/// So many places callers leave to us, or a quarter if there are few: our own calls may be what they wait for.
const OWN_PLACES: usize = 4;
/// So many callers may be there in any case that have not proven who they are.
const LEAST_CALLERS: usize = 64;
/// Callers that say they are the same rank, and have not proven it. A rank makes one call at a time, and the next when it has given
/// that up.
const CALLERS_PER_RANK: usize = 2;
/// So often in the peer timeout the machines of peers are looked at that owe us an answer.
const CHECKS_PER_TIMEOUT: u64 = 8;
/// And at least so often: the promise is the peer timeout and a second.
const MOST_CHECK_MS: u64 = 100;

/// What the transport needs to know about its process.
pub struct Setup {
    /// The node's arena: who is where.
    pub arena: Arc<Arena>,
    /// This rank.
    pub rank: Rank,
    /// The job.
    pub job: JobId,
    /// The job's secret.
    pub secret: Arc<Secret>,
    /// The most connections that this rank opens for itself; beyond it idle ones are closed.
    pub connection_cap: usize,
    /// The most connections that the system lets this process have.
    pub most_connections: usize,
    /// Whether large payloads give way to each other.
    pub pacing: Pacing,
    /// Whether connections go over several networks.
    pub multipath: bool,
    /// The way to other machines.
    pub route: Route,
    /// Where the memory of connections is booked.
    pub accounts: Arc<dyn Accounts>,
    /// Where the sockets of callers come in: when the agent has sent something, and before the first poll.
    pub callers: Arc<Callers>,
}

/// The TCP transport of one rank.
pub struct Tcp {
    setup: Setup,
    sleeper: Arc<EpollSleeper>,
    links: Vec<Option<Box<Link>>>,
    free: Vec<u32>,
    /// On which link questions to a rank go.
    routes: Routes,
    /// Questions that wait for a place under the cap.
    waiting: Vec<(Rank, Message)>,
    /// Bytes that are booked for them.
    waiting_bytes: u64,
    retries: Vec<Retry>,
    buffers: Buffers,
    tick: u64,
    /// Goes up whenever something comes, from whomever. Links keep what it was: that it is the same again, the long way round, matters little.
    comings: u8,
    open: usize,
    /// How many of them we have opened.
    called: usize,
    /// Links that must be flushed or looked at although epoll says nothing.
    unsettled: Vec<u32>,
    /// Links that were given messages which go out together, when all of them are there.
    fed: Vec<u32>,
    /// Answers that may wait for long.
    late: Late,
    next_deadline_ms: Option<u64>,
    /// When the machines of peers are looked at that owe us an answer; none while none does.
    check_at_ms: Option<u64>,
    /// When peers are told what has come of their streams, if there is something that they do not know.
    tell_at_ms: Option<u64>,
    /// Whether messages are being sent that were taken from where they waited, and who was lost meanwhile: what is left of them
    /// for those must not be sent.
    draining: bool,
    lost_meanwhile: Vec<Rank>,
    events: Vec<(u64, Readiness)>,
    /// Kept between calls for its memory.
    outbox: Outbox,
    /// The link with the latest traffic: looked at first, by itself, because its next bytes are likely the next.
    hot: Option<u32>,
    /// Polls of the hot link alone since all were looked at, and how many there may be.
    polls: u32,
    polls_per_round: u32,
    /// What others may have under way to us.
    grants: Grants,
    /// The link whose bytes wake nobody, because it is polled all the time. It is the hot one.
    hushed: Option<u32>,
}

impl Tcp {
    /// A transport without connections. `agent` is watched, and [`Sink::agent`] called when it is readable.
    pub fn new(setup: Setup, agent: Option<BorrowedFd<'_>>) -> Result<Tcp> {
        let (epoll, wake) = (Epoll::new()?, Event::new()?);
        epoll.add(wake.as_fd(), WAKE_TOKEN, false)?;
        if let Some(agent) = agent {
            epoll.add(agent, AGENT_TOKEN, false)?;
        }
        let mut tcp = Tcp {
            sleeper: Arc::new(EpollSleeper { epoll, wake, slept: AtomicBool::new(true) }),
            links: Vec::new(),
            free: Vec::new(),
            routes: Routes::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            retries: Vec::new(),
            buffers: Buffers::new(setup.accounts.clone()),
            tick: 0,
            comings: 0,
            open: 0,
            called: 0,
            unsettled: Vec::new(),
            fed: Vec::new(),
            late: Late::default(),
            next_deadline_ms: None,
            check_at_ms: None,
            tell_at_ms: None,
            draining: false,
            lost_meanwhile: Vec::new(),
            events: Vec::new(),
            outbox: Outbox::default(),
            hot: None,
            polls: 0,
            polls_per_round: POLLS_PER_ROUND,
            grants: Grants::default(),
            hushed: None,
            setup,
        };
        for socket in tcp.setup.callers.take().0 {
            // One that there is no room for is closed, and its caller tries again.
            let _ = tcp.take_in(socket);
        }
        Ok(tcp)
    }

    fn identity(&self) -> Identity {
        Identity { rank: self.setup.rank.0, incarnation: self.setup.arena.shared().incarnation() }
    }

    /// Takes a connection into the table. It is booked, but not refused when the budget is spent: others give memory back by
    /// asking for it, and a barrier is passed by telling others. Callers and calls of our own stay below `most_connections`; calls
    /// that are made for others or once more may go beyond, until the system gives this process no more descriptors.
    fn insert(&mut self, mut link: Link) -> Result<u32> {
        self.buffers.prepare();
        self.setup.accounts.force(BOOKED_BYTES);
        self.tick += 1;
        link.used = self.tick;
        let index = self.free.pop().unwrap_or(self.links.len() as u32);
        link.index = index;
        if let Err(error) = self.sleeper.epoll.add(link.fd.as_fd(), index as u64, link.watching_writes) {
            self.free.push(index);
            self.setup.accounts.unbook(BOOKED_BYTES);
            return Err(error);
        }
        self.note_deadline(link.wake_up_at());
        self.called += link.initiated as usize;
        if index as usize == self.links.len() {
            self.links.push(None);
        }
        self.links[index as usize] = Some(Box::new(link));
        self.open += 1;
        Ok(index)
    }

    fn note_deadline(&mut self, at_ms: Option<u64>) {
        if let Some(at_ms) = at_ms {
            self.next_deadline_ms = Some(self.next_deadline_ms.map_or(at_ms, |now| now.min(at_ms)));
        }
    }

    /// This link is gone: questions to `peer` go on another one, if there is another.
    fn unroute(&mut self, peer: Rank, index: u32) {
        if self.routes.get(&peer.0) != Some(&index) {
            return;
        }
        let other = self.links.iter().flatten().find(|link| {
            link.peer == Some(peer) && link.index != index && link.established && link.may_request()
        });
        match other.map(|link| link.index) {
            Some(other) => self.routes.insert(peer.0, other),
            None => self.routes.remove(&peer.0),
        };
    }

    /// Closes a link that has nothing left to do.
    fn remove(&mut self, index: u32) -> Option<Box<Link>> {
        let mut link = self.links[index as usize].take()?;
        link.close_books(&mut self.buffers);
        self.setup.accounts.unbook(BOOKED_BYTES);
        self.hot = self.hot.filter(|&hot| hot != index);
        self.hushed = self.hushed.filter(|&hushed| hushed != index);
        let _ = self.sleeper.epoll.remove(link.fd.as_fd());
        if let Some(peer) = link.peer {
            self.unroute(peer, index);
        }
        self.free.push(index);
        self.open -= 1;
        self.called -= link.initiated as usize;
        Some(link)
    }

    /// Runs `work` on a link and settles the outcome: more to write, finished, or broken.
    fn with_link<T>(
        &mut self,
        index: u32,
        sink: &mut dyn Sink,
        out: &mut Outbox,
        work: impl FnOnce(&mut Link, &mut Buffers, &Setup, &mut dyn Sink, &mut Outbox) -> Result<T>,
    ) -> Option<T> {
        let link = self.links.get_mut(index as usize)?.as_mut()?;
        match work(link, &mut self.buffers, &self.setup, sink, out) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(index, error, sink, out);
                None
            }
        }
    }

    fn flush_link(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) {
        let done = self.with_link(index, sink, out, |link, buffers, _, sink, out| {
            if link.is_stalled() || link.is_broken() {
                return Ok(None);
            }
            link.flush(buffers, sink, out).map(Some)
        });
        match done {
            Some(Some(all_sent)) => {
                let link = self.links[index as usize].as_ref();
                let waits_for_sink = link.is_some_and(|link| link.waits_for_sink);
                let waits_for_peer = link.is_some_and(|link| link.waits_for_peer);
                self.watch_writes(index, !all_sent && !waits_for_sink && !waits_for_peer);
                if waits_for_sink {
                    self.settle_later(index);
                }
                if let Some(link) = self.links[index as usize].as_mut() {
                    link.balance(&*self.setup.accounts);
                    if link.has_used_its_turn() {
                        // The next poll looks at everybody.
                        self.polls = MOST_POLLS_PER_ROUND;
                    }
                    if link.burst_bytes() >= LARGE_BYTES || all_sent && link.spacing.is_held() {
                        self.note_went(index, all_sent);
                    }
                }
                self.expect_life(index);
            }
            Some(None) if self.links[index as usize].as_ref().is_some_and(|link| link.is_broken()) => {}
            Some(None) => self.settle_later(index),
            None => {}
        }
    }

    /// The next round looks at a connection again, once.
    fn settle_later(&mut self, index: u32) {
        if !self.unsettled.contains(&index) {
            self.unsettled.push(index);
        }
    }

    fn watch_writes(&mut self, index: u32, wanted: bool) {
        if let Some(link) = self.links[index as usize].as_mut() {
            if link.watching_writes != wanted {
                link.watching_writes = wanted;
                let _ = self.sleeper.epoll.change(link.fd.as_fd(), index as u64, wanted);
            }
        }
    }

    fn readable(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) -> usize {
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return 0 };
        if link.is_broken() {
            return 0;
        }
        if link.is_stalled() {
            self.settle_later(index);
            return 0;
        }
        self.tick += 1;
        link.used = self.tick;
        self.heat(index);
        let Some(link) = self.links[index as usize].as_ref() else { return 0 };
        let was_established = link.established;
        let received = self.receive(index, sink, out);
        self.received(index, was_established, received, sink, out)
    }

    fn receive(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) -> Option<Received> {
        self.with_link(index, sink, out, |link, buffers, setup, sink, out| {
            // Others have taken over what a rank held that was given up: whatever it still says comes too late.
            if let Some(peer) = link.peer {
                not_lost(&setup.arena, peer)?;
            }
            let admit = |identity| admit(&setup.arena, identity);
            let held = link.holds_part_of_bundle();
            let patience_ms = setup.arena.config().peer_timeout_ms.into();
            let admission = Admission { secret: &setup.secret, admit: &admit, patience_ms };
            let received = link.receive(&admission, buffers, sink, out);
            if held || link.holds_part_of_bundle() || link.stream.is_some() {
                link.balance(&*setup.accounts);
            }
            received
        })
    }

    /// After something was read from a link, or it broke. Whether something happened.
    fn received(
        &mut self,
        index: u32,
        was_established: bool,
        received: Option<Received>,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> usize {
        match received {
            Some(Received::Finished) => {
                self.flush_link(index, sink, out);
                self.keep_unasked(index);
                self.remove(index);
                1
            }
            Some(Received::Bytes(_)) if self.take_over(index, sink, out) => 1,
            Some(Received::Bytes(got)) => {
                self.comings = self.comings.wrapping_add(u8::from(got > 0));
                let link = self.links[index as usize].as_mut().filter(|_| got > 0);
                if link.is_some_and(|link| {
                    link.unheard = 0;
                    link.takes_large_payload()
                }) {
                    self.note_came(index, got);
                }
                self.settle(index, was_established, sink, out);
                self.tell_later(index);
                (got > 0) as usize
            }
            None => 1,
        }
    }

    /// After bytes came in: routes a new link, answers a goodbye, sends what can go.
    fn settle(&mut self, index: u32, was_established: bool, sink: &mut dyn Sink, out: &mut Outbox) {
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if link.established && !was_established {
            if !link.is_here {
                // From now on a peer that does not read is slow, and `check_silence` tells it from one that is gone.
                let timeout_ms = self.setup.arena.config().peer_timeout_ms;
                let _ = socket::leave_verdict(link.fd.as_fd(), timeout_ms);
            }
            if let Some(peer) = link.peer {
                crate::event!(debug, peer = peer.0, "connected");
                self.routes.entry(peer.0).or_insert(index);
                self.note_surplus(peer);
                self.forget_calls_before(index);
            }
            self.flush_link(index, sink, out);
        } else if link.has_output() {
            self.flush_link(index, sink, out);
        }
        if !was_established {
            self.crowd_out(index);
        }
        self.expect_life(index);
        self.answer_goodbye(index, sink, out);
        self.part_with_surplus(index, sink, out);
    }

    /// After a goodbye, of the peer or ours: what was not asked yet waits, and our goodbye goes out when everything that
    /// was asked has been answered.
    fn answer_goodbye(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) {
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if !link.established || link.may_request() {
            return;
        }
        self.keep_unasked(index);
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if link.unanswered == 0 && !link.has_output() {
            self.say_goodbye(index, sink, out);
            let link = self.links[index as usize].as_mut();
            if link.is_some_and(|link| link.is_finished() && !link.lingers()) {
                self.remove(index);
            }
        }
    }

    /// Says goodbye on a link. A peer that does not answer is asked now and then whether that has come: what waits until the link is gone
    /// would wait for ever for one that was lost.
    fn say_goodbye(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) {
        let knock_ms = self.knock_every_ms();
        let Some(link) = self.links[index as usize].as_mut() else { return };
        link.goodbye(knock_ms);
        let wake_up = link.wake_up_at();
        self.note_deadline(wake_up);
        self.flush_link(index, sink, out);
    }

    /// How long a goodbye may be unanswered before the peer is asked: as those are that owe an answer to a question.
    fn knock_every_ms(&self) -> u64 {
        (u64::from(self.setup.arena.config().peer_timeout_ms) / 2).max(1)
    }

    /// Questions that can no longer be asked on a link wait until it is gone. The link stays their route until then, so
    /// that nothing overtakes what was asked on it.
    pub(super) fn keep_unasked(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        let Some(peer) = link.peer else { return };
        self.waiting.extend(link.take_unasked().into_iter().map(|message| (peer, message)));
        self.balance_waiting();
    }

    /// What time brings: handshakes that took too long, calls to be made again, stalls that are over.
    fn tend(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        let now_ms = time::now_ms();
        let due = self.next_deadline_ms.is_some_and(|at_ms| at_ms <= now_ms);
        if due {
            self.next_deadline_ms = None;
            for index in 0..self.links.len() as u32 {
                self.check_time(index, now_ms, sink, out);
            }
            self.make_retries(now_ms, sink, out);
            self.tend_broken(now_ms, sink, out);
            self.tell_all(now_ms, sink, out);
            self.check_peers(now_ms, sink, out);
        }
        if self.open > self.setup.connection_cap {
            self.keep_cap(sink, out);
        }
        if !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            self.drain(waiting, More::No, sink, out);
            self.balance_waiting();
        }
        for index in std::mem::take(&mut self.unsettled) {
            self.readable(index, sink, out);
            self.flush_link(index, sink, out);
        }
    }

    /// Something may be under way on a link: if it goes to another machine, that is looked at now and then.
    fn expect_life(&mut self, index: u32) {
        let link = self.links.get(index as usize).and_then(Option::as_ref);
        if self.check_at_ms.is_none() && link.is_some_and(|link| link.owes_life()) {
            self.check_later(time::now_ms());
        }
    }

    fn check_later(&mut self, now_ms: u64) {
        let every_ms = self.setup.arena.config().peer_timeout_ms as u64 / CHECKS_PER_TIMEOUT;
        self.check_at_ms = Some(now_ms + every_ms.clamp(1, MOST_CHECK_MS));
        self.note_deadline(self.check_at_ms);
    }

    /// Looks at the machines of peers, for as long as something is under way to another machine. An idle rank is not woken.
    fn check_peers(&mut self, now_ms: u64, sink: &mut dyn Sink, out: &mut Outbox) {
        if self.check_at_ms.is_some_and(|at_ms| now_ms < at_ms) {
            return self.note_deadline(self.check_at_ms);
        }
        self.check_at_ms = None;
        self.check_silence(sink, out);
        if self.links.iter().flatten().any(|link| link.owes_life()) {
            self.check_later(now_ms);
        }
    }

    /// This link has the latest traffic.
    fn heat(&mut self, index: u32) {
        if self.hot != Some(index) {
            self.watch();
            self.hot = Some(index);
            self.polls_per_round = POLLS_PER_ROUND;
        }
    }

    /// Looks at one link only: a turn of a spinning wait costs one system call.
    fn poll_one(&mut self, index: u32, sink: &mut dyn Sink) -> usize {
        let mut out = std::mem::take(&mut self.outbox);
        let link = self.links[index as usize].as_ref();
        let happened = if link.is_some_and(|link| link.is_plain()) {
            self.receive_plain(index, sink, &mut out)
        } else {
            if link.is_some_and(|link| link.has_output()) {
                self.flush_link(index, sink, &mut out);
            }
            self.readable(index, sink, &mut out)
        };
        self.settle_outbox(&mut out, sink);
        self.outbox = out;
        happened
    }

    /// Reads from a link on which nothing else is to be done. Most turns of a wait end here, with nothing.
    fn receive_plain(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) -> usize {
        let looks = if self.hushed == Some(index) { LOOKS_PER_POLL } else { 1 };
        for _ in 0..looks {
            match self.receive(index, sink, out) {
                // Each look counts: the other links must not wait the longer for it.
                Some(Received::Bytes(0)) => self.polls += 1,
                received => return self.received(index, true, received, sink, out),
            }
        }
        0
    }

    /// Whether there is no connection, and nobody waits for one.
    fn is_alone(&self) -> bool {
        self.open == 0 && self.waiting.is_empty() && self.retries.is_empty() && self.unsettled.is_empty()
    }

    /// Looks at everything.
    fn poll_all(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let mut out = std::mem::take(&mut self.outbox);
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        self.sleeper.epoll.wait(0, |token, readiness| events.push((token, readiness)))?;
        let mut happened = 0;
        // It is for somebody who sleeps.
        events.retain(|&(token, _)| token != WAKE_TOKEN);
        let elsewhere = events.iter().any(|&(token, _)| Some(token) != self.hot.map(u64::from));
        self.polls_per_round =
            if elsewhere { POLLS_PER_ROUND } else { (self.polls_per_round * 2).min(MOST_POLLS_PER_ROUND) };
        for &(token, readiness) in &events {
            if token == AGENT_TOKEN {
                sink.agent(&mut out);
                self.let_in(sink, &mut out);
                self.settle_outbox(&mut out, sink);
                happened += 1;
                continue;
            }
            let index = token as u32;
            if readiness.writable {
                self.flush_link(index, sink, &mut out);
                self.answer_goodbye(index, sink, &mut out);
                happened += 1;
            }
            if readiness.readable || readiness.hung_up {
                happened += self.readable(index, sink, &mut out);
            }
            self.settle_outbox(&mut out, sink);
        }
        self.events = events;
        self.tend(sink, &mut out);
        self.settle_outbox(&mut out, sink);
        self.outbox = out;
        Ok(happened)
    }
}

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { in_place: true, ..Capabilities::default() }
    }

    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        let mut out = std::mem::take(&mut self.outbox);
        let has_late = self.late.is_full();
        if has_late {
            self.feed_late(sink, &mut out);
        }
        let sent = self.send_inner(to, message, More::No, sink, &mut out);
        if has_late {
            self.flush_fed(sink, &mut out);
        }
        self.settle_outbox(&mut out, sink);
        self.outbox = out;
        sent
    }

    fn post(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<bool> {
        match self.keep(to, &message) {
            Some(false) => return Ok(true),
            Some(true) => self.flush(sink),
            None => self.send(to, message, sink)?,
        }
        Ok(!self.fed.is_empty())
    }

    fn letter(&mut self, to: Rank, header: Header, payload: &[u8], sink: &mut dyn Sink) -> Result<bool> {
        Ok(self.send_letter(to, header, payload, sink))
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        let mut out = std::mem::take(&mut self.outbox);
        self.feed_late(sink, &mut out);
        self.flush_fed(sink, &mut out);
        self.settle_outbox(&mut out, sink);
        self.outbox = out;
    }

    fn keeps(&self) -> Option<Leeway> {
        match (self.fed.is_empty(), self.late.is_empty()) {
            (false, _) => Some(Leeway::Short),
            (true, false) => Some(Leeway::Long),
            (true, true) => None,
        }
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let slept = self.sleeper.slept.load(Ordering::Relaxed);
        if self.late.is_due(slept) || !self.fed.is_empty() {
            self.flush(sink);
        }
        if slept {
            self.sleeper.slept.store(false, Ordering::Relaxed);
        }
        match self.hot {
            Some(hot) if !slept && self.polls < self.polls_per_round => {
                self.polls += 1;
                Ok(self.poll_one(hot, sink))
            }
            None if !slept && self.is_alone() && self.polls + 1 < LONE_POLLS => {
                self.polls += 1;
                Ok(0)
            }
            _ => {
                self.polls = 0;
                self.poll_all(sink)
            }
        }
    }

    fn sleeper(&self) -> Option<Arc<dyn Sleeper>> {
        Some(self.sleeper.clone())
    }

    fn wake_up_at(&self) -> Option<u64> {
        if !self.unsettled.is_empty() || !self.waiting.is_empty() || !self.fed.is_empty() {
            return Some(time::now_ms() + 1);
        }
        self.next_deadline_ms.into_iter().chain(self.late.until_ms()).min()
    }

    fn hush(&mut self) {
        // Not while other links have traffic: they would take turns.
        let Some(hot) = self.hot.filter(|_| self.polls_per_round == MOST_POLLS_PER_ROUND) else { return };
        if self.hushed.is_some() {
            return;
        }
        let Some(link) = self.links[hot as usize].as_ref().filter(|link| link.is_plain()) else { return };
        if socket::set_low_water(link.fd.as_fd(), HUSHED_BYTES).is_ok() {
            self.hushed = Some(hot);
        }
    }

    fn watch(&mut self) {
        let Some(hushed) = self.hushed.take() else { return };
        if let Some(link) = self.links[hushed as usize].as_ref() {
            // The kernel announces what has come meanwhile.
            let _ = socket::set_low_water(link.fd.as_fd(), 1);
        }
    }

    fn close(&mut self, sink: &mut dyn Sink) -> Closing {
        self.watch();
        let mut out = Outbox::default();
        self.feed_late(sink, &mut out);
        self.flush_fed(sink, &mut out);
        let mut sending = !self.retries.is_empty() || !self.waiting.is_empty();
        // Who has not said yet what it calls for may be there to mend one.
        let mends = self.links.iter().flatten().any(|link| link.is_broken());
        for index in 0..self.links.len() as u32 {
            let Some(link) = self.links[index as usize].as_mut() else { continue };
            // What a broken connection had taken may not have come.
            if link.has_messages() || link.established && link.is_broken() && !link.has_parted() {
                sending = true;
                continue;
            }
            if !link.established {
                if link.mending.is_none() && !mends || self.is_hopeless(index) {
                    self.remove(index);
                }
                continue;
            }
            self.say_goodbye(index, sink, &mut out);
        }
        self.settle_outbox(&mut out, sink);
        match (sending, self.open) {
            (true, _) => Closing::Sending,
            (false, 0) => Closing::Closed,
            (false, _) => Closing::Parting,
        }
    }

    fn footprint(&self) -> Footprint {
        let tables = self.links.capacity() * 8 + self.free.capacity() * 4 + self.routes.capacity() * 9;
        Footprint {
            fixed_bytes: std::mem::size_of::<Tcp>() as u64 + tables as u64 + self.late.bytes(),
            connected: self.open as u64,
            bytes_per_connection: CONNECTION_BYTES,
            queued_bytes: self.buffers.bytes()
                + self.waiting_bytes
                + self.links.iter().flatten().map(|link| link.booked_bytes()).sum::<u64>(),
        }
    }

    fn inject(&mut self, peer: Rank, fault: Fault) {
        let link = self.routes.get(&peer.0).and_then(|&index| self.links[index as usize].as_mut());
        match (fault, link) {
            (Fault::Tear, _) => self.buffers.tear_next = true,
            (_, None) => {}
            (Fault::Reset, Some(link)) => {
                let _ = socket::reset_on_close(link.fd.as_fd());
                let _ = socket::shut_down(link.fd.as_fd());
            }
            (Fault::Corrupt, Some(link)) => link.corrupt_next = true,
            (Fault::Drop, Some(link)) => link.drop_next = true,
            (Fault::Stall { milliseconds }, Some(link)) => {
                link.stalled_until_ms = time::now_ms() + milliseconds;
            }
        }
    }
}

fn fresh_nonce() -> Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    os::random_bytes(&mut nonce)?;
    Ok(nonce)
}
