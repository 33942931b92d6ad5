//! Messages between nodes over TCP: direct connections between ranks, opened at first use.
//!
//! A rank calls another through the one port of the other's node; the agent there checks the first record and
//! hands the socket to the rank. Connections are capped; the least recently used idle one is closed in good
//! order to make room. Nothing is kept for a peer that was never spoken to.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the table of connections, routing, the cap |
//! | `link.rs` | one connection |
//! | `in_place.rs` | a frame that is sent without a copy |
//! | `sending.rs` | which connection a message goes on, and what goes out together |
//! | `routes.rs` | which connection questions to a rank go on |
//! | `sleeper.rs` | how a thread sleeps until something comes |

#[cfg(test)]
mod handshakes;
mod in_place;
mod link;
mod routes;
mod sending;
mod sleeper;

use crate::auth::{Identity, JobId, Purpose, Secret, NONCE_BYTES};
use crate::contract::{Closing, Fault, Footprint, Message, Outbox, Sink, Sleeper, Transport};
use crate::os::descriptor::{Epoll, Event, Readiness};
use crate::os::{self, socket, time};
use crate::shm::arena::Arena;
use crate::shm::world::Status;
use crate::wire::Connection;
use crate::{Error, Rank, Result};
use link::{admit, Admission, Buffers, Link, Received, FIRST_RECEIVE_BYTES};
use routes::Routes;
use sending::More;
use sleeper::EpollSleeper;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Private bytes of one connection, beside what is queued on it.
pub const CONNECTION_BYTES: u64 = std::mem::size_of::<Link>() as u64;
/// Tokens of epoll below this are links; this one is the agent's channel.
const AGENT_TOKEN: u64 = u64::MAX;
/// …and this one the event that ends a sleep.
const WAKE_TOKEN: u64 = u64::MAX - 1;
/// After so many polls of the hot link alone all are looked at. Twice as many each time that nothing was found on the
/// others, up to the second figure: two ranks that ask each other have two links, and both are hot.
const POLLS_PER_ROUND: u32 = 1;
const MOST_POLLS_PER_ROUND: u32 = 64;
/// A hushed link is looked at so often in one poll: whoever waits for it alone need not come through all layers each time.
const LOOKS_PER_POLL: u32 = 8;
/// A hushed link is announced to sleepers only when so many bytes wait on it. Most frames are shorter.
const HUSHED_BYTES: u32 = 2048;
/// How long to wait before a failed call is tried again.
const RETRY_MS: u64 = 20;

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
    /// The most connections.
    pub connection_cap: usize,
}

/// A call that failed and will be made again.
struct Retry {
    at_ms: u64,
    peer: Rank,
    first_attempt_ms: u64,
    messages: std::collections::VecDeque<Message>,
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
    retries: Vec<Retry>,
    buffers: Buffers,
    tick: u64,
    open: usize,
    /// Links that must be flushed or looked at although epoll says nothing.
    unsettled: Vec<u32>,
    /// Links that were given messages which go out together, when all of them are there.
    fed: Vec<u32>,
    next_deadline_ms: Option<u64>,
    events: Vec<(u64, Readiness)>,
    /// Kept between calls for its memory.
    outbox: Outbox,
    /// The link with the latest traffic: looked at first, by itself, because its next bytes are likely the next.
    hot: Option<u32>,
    /// Polls of the hot link alone since all were looked at, and how many there may be.
    polls: u32,
    polls_per_round: u32,
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
        Ok(Tcp {
            setup,
            sleeper: Arc::new(EpollSleeper { epoll, wake, slept: AtomicBool::new(true) }),
            links: Vec::new(),
            free: Vec::new(),
            routes: Routes::default(),
            waiting: Vec::new(),
            retries: Vec::new(),
            buffers: Buffers::default(),
            tick: 0,
            open: 0,
            unsettled: Vec::new(),
            fed: Vec::new(),
            next_deadline_ms: None,
            events: Vec::new(),
            outbox: Outbox::default(),
            hot: None,
            polls: 0,
            polls_per_round: POLLS_PER_ROUND,
            hushed: None,
        })
    }

    fn identity(&self) -> Identity {
        Identity { rank: self.setup.rank.0, incarnation: self.setup.arena.shared().incarnation() }
    }

    fn address(&self, peer: Rank) -> Result<std::net::SocketAddr> {
        let place = self.setup.arena.place(peer).map(|word| word.load());
        let place = place.ok_or_else(|| Error::Misuse(format!("there is no {peer}")))?;
        match place.status {
            Status::Lost => return Err(Error::PeerLost { rank: peer, why: place.cause.to_string() }),
            Status::Left => return Err(Error::PeerLost { rank: peer, why: "it has finalized".into() }),
            Status::Expected | Status::Alive => {}
        }
        self.setup
            .arena
            .node(place.node)
            .and_then(|node| node.load())
            .ok_or_else(|| Error::Closed(format!("node {} of {peer} has no port", place.node)))
    }

    /// The link for questions to `peer`, opened if there is none; `None` when the cap leaves no room now.
    fn route(&mut self, peer: Rank, sink: &mut dyn Sink, out: &mut Outbox) -> Result<Option<u32>> {
        if let Some(&index) = self.routes.get(&peer.0) {
            return Ok(Some(index));
        }
        if self.open >= self.setup.connection_cap {
            self.evict(sink, out);
            return Ok(None);
        }
        self.call(peer, time::now_ms()).map(Some)
    }

    /// Opens a link to `peer`.
    fn call(&mut self, peer: Rank, first_attempt_ms: u64) -> Result<u32> {
        let address = self.address(peer)?;
        let fd = socket::start_connect(&address)?;
        socket::tune_tcp(fd.as_fd(), self.setup.arena.config().peer_timeout_ms)?;
        let now_ms = time::now_ms();
        let me = self.identity();
        let wire = Connection::initiate(
            self.setup.job,
            &self.setup.secret,
            me,
            peer.0,
            Purpose::Data,
            fresh_nonce()?,
            now_ms,
        );
        let mut link = Link::new(fd, wire, Some(peer), true, first_attempt_ms);
        link.watching_writes = true;
        let index = self.insert(link)?;
        self.routes.insert(peer.0, index);
        Ok(index)
    }

    fn insert(&mut self, mut link: Link) -> Result<u32> {
        if self.buffers.scratch.is_empty() {
            self.buffers.scratch = vec![0; FIRST_RECEIVE_BYTES];
        }
        self.tick += 1;
        link.used = self.tick;
        let index = self.free.pop().unwrap_or(self.links.len() as u32);
        link.index = index;
        self.sleeper.epoll.add(link.fd.as_fd(), index as u64, link.watching_writes)?;
        self.note_deadline(link.wake_up_at());
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

    /// Says goodbye on the idle link that was used longest ago.
    fn evict(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        let oldest = (0..self.links.len())
            .filter_map(|index| self.links[index].as_ref().map(|link| (index, link)))
            .filter(|(_, link)| link.is_idle() && link.may_request())
            .min_by_key(|(_, link)| link.used)
            .map(|(index, _)| index as u32);
        let Some(index) = oldest else { return };
        if let Some(link) = self.links[index as usize].as_mut() {
            link.goodbye();
        }
        self.flush(index, sink, out);
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
        let link = self.links[index as usize].take()?;
        self.hot = self.hot.filter(|&hot| hot != index);
        self.hushed = self.hushed.filter(|&hushed| hushed != index);
        let _ = self.sleeper.epoll.remove(link.fd.as_fd());
        if let Some(peer) = link.peer {
            self.unroute(peer, index);
        }
        self.free.push(index);
        self.open -= 1;
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

    fn flush(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) {
        let done = self.with_link(index, sink, out, |link, buffers, _, sink, out| {
            if link.is_stalled() {
                return Ok(None);
            }
            link.flush(buffers, sink, out).map(Some)
        });
        match done {
            Some(Some(all_sent)) => self.watch_writes(index, !all_sent),
            Some(None) => self.unsettled.push(index),
            None => {}
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

    /// A link broke: tries again if it never stood, tells the sink otherwise.
    fn fail(&mut self, index: u32, error: Error, sink: &mut dyn Sink, out: &mut Outbox) {
        let Some(mut link) = self.remove(index) else { return };
        // The last word of a refused handshake tells the peer why.
        let _ = link.flush(&mut self.buffers, sink, out);
        let Some(peer) = link.peer else { return };
        let now_ms = time::now_ms();
        let patience_ms = self.setup.arena.config().peer_timeout_ms as u64;
        let gone = self.address(peer).err();
        let refused = matches!(error, Error::Refused(_));
        let may_retry = link.initiated && !link.established && !refused && gone.is_none();
        if may_retry && now_ms < link.first_attempt_ms + patience_ms {
            self.retries.push(Retry {
                at_ms: now_ms + RETRY_MS,
                peer,
                first_attempt_ms: link.first_attempt_ms,
                messages: link.take_queue(),
            });
            self.note_deadline(Some(now_ms + RETRY_MS));
            return;
        }
        let has_other = self.routes.contains_key(&peer.0);
        // Without a goodbye nobody knows what was under way, even if no answer is missing: a signal of a barrier has
        // none, and would be missed for ever.
        let cut_off = link.established && !link.parting;
        if link.unanswered > 0 || !link.take_queue().is_empty() || !has_other || cut_off {
            // What is reported as lost must not be done after all.
            self.waiting.retain(|(to, _)| *to != peer);
            let why = match (gone, error) {
                (Some(Error::PeerLost { why, .. }), _) => why,
                (_, error) => format!("the connection broke ({error})"),
            };
            sink.lost(peer, Error::PeerLost { rank: peer, why }, out);
        }
    }

    fn readable(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) -> usize {
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return 0 };
        if link.is_stalled() {
            self.unsettled.push(index);
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
            link.receive(&Admission { secret: &setup.secret, admit: &admit }, buffers, sink, out)
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
                self.flush(index, sink, out);
                self.keep_unasked(index);
                self.remove(index);
                1
            }
            Some(Received::Bytes(got)) => {
                self.settle(index, was_established, sink, out);
                (got > 0) as usize
            }
            None => 1,
        }
    }

    /// After bytes came in: routes a new link, answers a goodbye, sends what can go.
    fn settle(&mut self, index: u32, was_established: bool, sink: &mut dyn Sink, out: &mut Outbox) {
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if link.established && !was_established {
            if let Some(peer) = link.peer {
                // Two ranks that call each other at once keep both links: each asks on its own, and answers go
                // back the way the question came.
                self.routes.entry(peer.0).or_insert(index);
            }
            self.flush(index, sink, out);
        } else if link.has_output() {
            self.flush(index, sink, out);
        }
        self.answer_goodbye(index, sink, out);
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
            link.goodbye();
            self.flush(index, sink, out);
            let finished = self.links[index as usize].as_ref().is_some_and(|link| link.is_finished());
            if finished {
                self.remove(index);
            }
        }
    }

    /// Questions that can no longer be asked on a link wait until it is gone. The link stays their route until then, so
    /// that nothing overtakes what was asked on it.
    fn keep_unasked(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        let Some(peer) = link.peer else { return };
        self.waiting.extend(link.take_unasked().into_iter().map(|message| (peer, message)));
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
        }
        if !self.waiting.is_empty() {
            for (to, message) in std::mem::take(&mut self.waiting) {
                if let Err(error) = self.send_inner(to, message, More::No, sink, out) {
                    sink.lost(to, error, out);
                }
            }
        }
        for index in std::mem::take(&mut self.unsettled) {
            self.readable(index, sink, out);
            self.flush(index, sink, out);
        }
    }

    /// Gives up a link whose handshake takes too long.
    fn check_time(&mut self, index: u32, now_ms: u64, sink: &mut dyn Sink, out: &mut Outbox) {
        let wake_up = self.links[index as usize].as_ref().and_then(|link| link.wake_up_at());
        if wake_up.is_some_and(|at_ms| at_ms <= now_ms) {
            // What came in time counts, even if nobody was there to look.
            self.readable(index, sink, out);
        }
        let checked =
            self.links[index as usize].as_mut().map(|link| (link.check_time(now_ms), link.wake_up_at()));
        match checked {
            Some((Ok(()), wake_up)) => self.note_deadline(wake_up),
            Some((Err(error), _)) => self.fail(index, error, sink, out),
            None => {}
        }
    }

    fn make_retries(&mut self, now_ms: u64, sink: &mut dyn Sink, out: &mut Outbox) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.retries).into_iter().partition(|retry| retry.at_ms <= now_ms);
        self.retries = later;
        let next = self.retries.iter().map(|retry| retry.at_ms).min();
        self.note_deadline(next);
        for retry in due {
            let index = match self.routes.get(&retry.peer.0) {
                Some(&index) => Ok(index),
                None => self.call(retry.peer, retry.first_attempt_ms),
            };
            match index {
                Ok(index) => {
                    if let Some(link) = self.links[index as usize].as_mut() {
                        retry.messages.into_iter().for_each(|message| link.push(message));
                    }
                    self.flush(index, sink, out);
                }
                Err(error) => sink.lost(retry.peer, error, out),
            }
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
                self.flush(index, sink, &mut out);
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

    /// Looks at everything.
    fn poll_all(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let mut out = std::mem::take(&mut self.outbox);
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        self.sleeper.epoll.wait(0, |token, readiness| events.push((token, readiness)))?;
        let mut happened = 0;
        let elsewhere = events.iter().any(|&(token, _)| Some(token) != self.hot.map(u64::from));
        self.polls_per_round =
            if elsewhere { POLLS_PER_ROUND } else { (self.polls_per_round * 2).min(MOST_POLLS_PER_ROUND) };
        for &(token, readiness) in &events {
            if token == AGENT_TOKEN {
                sink.agent(&mut out);
                happened += 1;
                continue;
            }
            if token == WAKE_TOKEN {
                self.sleeper.wake.clear();
                continue;
            }
            let index = token as u32;
            if readiness.writable {
                self.flush(index, sink, &mut out);
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

    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        let mut out = std::mem::take(&mut self.outbox);
        let sent = self.send_inner(to, message, More::No, sink, &mut out);
        self.settle_outbox(&mut out, sink);
        self.outbox = out;
        sent
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let slept = self.sleeper.slept.load(Ordering::Relaxed);
        if slept {
            self.sleeper.slept.store(false, Ordering::Relaxed);
        }
        match self.hot {
            Some(hot) if !slept && self.polls < self.polls_per_round => {
                self.polls += 1;
                Ok(self.poll_one(hot, sink))
            }
            _ => {
                self.polls = 0;
                self.poll_all(sink)
            }
        }
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.sleeper.clone()
    }

    fn adopt(&mut self, socket: OwnedFd) -> Result<()> {
        os::descriptor::set_nonblocking(socket.as_fd(), true)?;
        socket::tune_tcp(socket.as_fd(), self.setup.arena.config().peer_timeout_ms)?;
        let now_ms = time::now_ms();
        let wire = Connection::accept(self.setup.job, self.identity(), Purpose::Data, fresh_nonce()?, now_ms);
        self.insert(Link::new(socket, wire, None, false, now_ms)).map(drop)
    }

    fn wake_up_at(&self) -> Option<u64> {
        if !self.unsettled.is_empty() || !self.waiting.is_empty() {
            return Some(time::now_ms() + 1);
        }
        self.next_deadline_ms
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
        let mut sending = !self.retries.is_empty() || !self.waiting.is_empty();
        for index in 0..self.links.len() as u32 {
            let Some(link) = self.links[index as usize].as_mut() else { continue };
            if link.has_messages() {
                sending = true;
                continue;
            }
            if !link.established {
                self.remove(index);
                continue;
            }
            link.goodbye();
            self.flush(index, sink, &mut out);
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
            fixed_bytes: std::mem::size_of::<Tcp>() as u64 + tables as u64,
            connected: self.open as u64,
            bytes_per_connection: CONNECTION_BYTES,
            queued_bytes: self.buffers.bytes()
                + self.links.iter().flatten().map(|link| link.queued_bytes()).sum::<u64>(),
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

/// Fails if a rank was given up.
#[inline]
fn not_lost(arena: &Arena, rank: Rank) -> Result<()> {
    match arena.place(rank).map(|word| word.load()) {
        Some(place) if place.status == Status::Lost => {
            Err(Error::PeerLost { rank, why: place.cause.to_string() })
        }
        _ => Ok(()),
    }
}

fn fresh_nonce() -> Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    os::random_bytes(&mut nonce)?;
    Ok(nonce)
}
