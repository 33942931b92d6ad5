//! The transports of a rank: who is reached by which, and what they hear.

use crate::engine::{Engine, Feed};
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::agent::channel::{Channel, FromAgent};
use kumiki_net::contract::{Closing, Footprint, Message, Outbox, Sink, Sleeper, Source, Transport};
use kumiki_net::os::socket::{Lent, Place};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Messages of the agent that are taken at a time.
const AGENT_MESSAGES: usize = 4;

/// The set of transports: each rank is reached by one of them.
#[derive(Default)]
pub(crate) struct Transports {
    all: Vec<Way>,
}

/// A transport, and the ranks that it reaches.
struct Way {
    ranks: Range<u32>,
    transport: Box<dyn Transport>,
}

impl Transports {
    /// Adds a transport for these ranks. They go by it even if another one reaches them too.
    pub(crate) fn add(&mut self, ranks: Range<u32>, transport: Box<dyn Transport>) {
        self.all.insert(0, Way { ranks, transport });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    /// The transport that reaches a rank.
    #[inline]
    pub(crate) fn to(&mut self, rank: Rank) -> Result<&mut dyn Transport> {
        let way = self.all.iter_mut().find(|way| way.ranks.contains(&rank.0));
        match way {
            Some(way) => Ok(&mut *way.transport),
            None => Err(Error::Closed("there is no transport".into())),
        }
    }

    /// Does what can be done now. Returns how many things happened.
    #[inline]
    pub(crate) fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let mut happened = 0;
        for way in &mut self.all {
            happened += way.transport.poll(sink)?;
        }
        Ok(happened)
    }

    /// Closes what can be closed now; how far the last of them is.
    pub(crate) fn close(&mut self, sink: &mut dyn Sink) -> Closing {
        let closing = self.all.iter_mut().map(|way| way.transport.close(sink));
        closing.fold(Closing::Closed, |one, other| match (one, other) {
            (Closing::Sending, _) | (_, Closing::Sending) => Closing::Sending,
            (Closing::Parting, _) | (_, Closing::Parting) => Closing::Parting,
            (Closing::Closed, Closing::Closed) => Closing::Closed,
        })
    }

    /// When one of them must be polled even if nothing comes.
    pub(crate) fn wake_up_at(&self) -> Option<u64> {
        self.all.iter().filter_map(|way| way.transport.wake_up_at()).min()
    }

    pub(crate) fn hush(&mut self) {
        self.all.iter_mut().for_each(|way| way.transport.hush());
    }

    pub(crate) fn watch(&mut self) {
        self.all.iter_mut().for_each(|way| way.transport.watch());
    }

    /// How to sleep until one of them has something to do: that of the first. A second must wake it, too.
    pub(crate) fn sleeper(&self) -> Option<Arc<dyn Sleeper>> {
        self.all.last().map(|way| way.transport.sleeper())
    }

    /// The memory that they take together.
    pub(crate) fn footprint(&self) -> Footprint {
        self.all.iter().map(|way| way.transport.footprint()).fold(Footprint::default(), |sum, one| {
            Footprint {
                fixed_bytes: sum.fixed_bytes + one.fixed_bytes,
                connected: sum.connected + one.connected,
                bytes_per_connection: sum.bytes_per_connection.max(one.bytes_per_connection),
                queued_bytes: sum.queued_bytes + one.queued_bytes,
            }
        })
    }
}

/// What transports hear of: frames go to the engine; what the agent says is read here, and told to it.
pub(crate) struct Ear<'a> {
    feed: Feed<'a>,
    channel: Option<&'a Channel>,
}

impl<'a> Ear<'a> {
    pub(crate) fn new(node: &'a Node, engine: &'a mut Engine, channel: Option<&'a Channel>) -> Ear<'a> {
        Ear { feed: engine.feed(node), channel }
    }
}

impl Sink for Ear<'_> {
    #[inline]
    fn part(&mut self, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        self.feed.part(from, header, at, bytes);
    }

    #[inline]
    fn place(&mut self, from: Rank, header: &Header, at: u32, bytes: usize) -> Option<Place<'_>> {
        self.feed.place(from, header, at, bytes)
    }

    #[inline]
    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        self.feed.frame(from, path, header, out)
    }

    #[inline]
    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> bool {
        self.feed.fill(source, offset, place)
    }

    #[inline]
    fn lend(&mut self, source: Source, offset: u64, bytes: usize) -> Option<Lent<'_>> {
        self.feed.lend(source, offset, bytes)
    }

    fn torn(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        self.feed.torn(from, path, header, out)
    }

    fn withdrawn(&mut self, to: Rank, header: &Header, out: &mut Outbox) {
        self.feed.withdrawn(to, header, out);
    }

    fn lost(&mut self, peer: Rank, error: kumiki_net::Error, out: &mut Outbox) {
        self.feed.lost(peer, error, out);
    }

    fn unsent(&mut self, peer: Rank, error: kumiki_net::Error, silent: bool, out: &mut Outbox) {
        self.feed.unsent(peer, error, silent, out);
    }

    fn agent(&mut self, out: &mut Outbox) {
        let Some(channel) = self.channel else { return };
        self.feed.stir();
        // Few at a time: each may be a descriptor, of which we have few to spare before they find their places.
        for _ in 0..AGENT_MESSAGES {
            match channel.try_receive() {
                Ok(Some(FromAgent::Socket(socket))) => out.sockets.push(socket),
                Ok(Some(FromAgent::Notice)) => self.feed.notice(out),
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

/// The engine, what moves its messages, and the line to the agent: one lock is around them.
pub(crate) struct Machine {
    pub(crate) engine: Engine,
    pub(crate) transports: Transports,
    pub(crate) sleeper: Option<Arc<dyn Sleeper>>,
    pub(crate) channel: Option<Channel>,
    /// Sockets that the agent handed over before there was a transport.
    pub(crate) early_sockets: Vec<OwnedFd>,
}

impl Machine {
    pub(crate) fn new(engine: Engine, channel: Option<Channel>) -> Machine {
        Machine {
            engine,
            transports: Transports::default(),
            sleeper: None,
            channel,
            early_sockets: Vec::new(),
        }
    }

    /// Puts a transport in place that reaches everybody, and gives it the sockets that came early.
    pub(crate) fn install(&mut self, mut transport: Box<dyn Transport>) {
        for socket in self.early_sockets.drain(..) {
            // One that there is no room for is closed, and its caller tries again.
            let _ = transport.adopt(socket);
        }
        self.transports.add(0..u32::MAX, transport);
        self.sleeper = self.transports.sleeper();
    }

    /// Sends a message.
    #[inline]
    pub(crate) fn send(&mut self, node: &Node, to: Rank, message: Message) -> Result<()> {
        let transport = self.transports.to(to)?;
        let mut ear = Ear::new(node, &mut self.engine, self.channel.as_ref());
        transport.send(to, message, &mut ear).map_err(Error::from)
    }

    /// Does what can be done now. Returns how many things happened. The clock is only looked at if the engine wants it.
    #[inline]
    pub(crate) fn poll(&mut self, node: &Node, now_ms: impl FnOnce() -> u64) -> Result<usize> {
        if self.transports.is_empty() {
            return Ok(0);
        }
        let errands =
            if node.control().errands.may_wait() { self.engine.feed(node).run_errands() } else { 0 };
        let mut ear = Ear::new(node, &mut self.engine, self.channel.as_ref());
        let happened = errands + self.transports.poll(&mut ear)?;
        let mut out = Outbox::default();
        if self.engine.wants_time() {
            self.engine.feed(node).tick(now_ms(), &mut out);
        }
        self.engine.feed(node).go_on(&mut out);
        self.send_all(node, out);
        Ok(happened)
    }

    /// Sends what the engine asked for outside of a poll.
    #[inline]
    pub(crate) fn send_all(&mut self, node: &Node, mut out: Outbox) {
        let mut next = 0;
        while let Some(&(to, message)) = out.messages.get(next) {
            next += 1;
            if let Err(error) = self.send(node, to, message) {
                // Others may wait for what can no longer be done: they are told behind the rest.
                self.engine.feed(node).fail_peer(to, &error, &mut out);
            }
        }
    }

    /// When something must be done even if nothing comes (milliseconds of the monotonic clock).
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.engine.next_deadline_ms().into_iter().chain(self.transports.wake_up_at()).min()
    }
}
