//! The transports of a rank: who is reached by which, and what they hear.

use crate::drive::naps::Naps;
use crate::drive::Drive;
use crate::engine::{Engine, Feed};
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::agent::channel::{Channel, FromAgent};
use kumiki_net::contract::{
    Closing, Filled, Footprint, Leeway, Message, Outbox, Sink, Sleeper, Source, Transport,
};
use kumiki_net::os::socket::{Lent, Place};
use kumiki_net::os::time;
use kumiki_net::tcp::Callers;
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::ops::Range;
use std::sync::atomic::Ordering;
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

    /// Sends what they keep to send it together.
    pub(crate) fn flush(&mut self, sink: &mut dyn Sink) {
        self.all.iter_mut().for_each(|way| way.transport.flush(sink));
    }

    /// Whether one of them keeps messages, and how long they may be: the least of them.
    pub(crate) fn keep(&self) -> Option<Leeway> {
        let kept = self.all.iter().filter_map(|way| way.transport.keeps());
        kept.min_by_key(|leeway| *leeway == Leeway::Long)
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
        let first = self.all.last()?;
        Some(first.transport.sleeper().unwrap_or_else(|| Arc::new(Naps::default())))
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
struct Ear<'a> {
    feed: Feed<'a>,
    channel: Option<&'a Channel>,
    callers: &'a Callers,
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
    fn room(&mut self, from: Rank, header: &Header, at: u32, bytes: usize) -> Option<Place<'_>> {
        self.feed.room(from, header, at, bytes)
    }

    #[inline]
    fn share(&mut self, source: Source) -> Option<Arc<Vec<u8>>> {
        self.feed.share(source)
    }

    #[inline]
    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        self.feed.frame(from, path, header, out)
    }

    #[inline]
    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> Filled {
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
                Ok(Some(FromAgent::Socket(socket))) => self.callers.push(socket),
                Ok(Some(FromAgent::Notice)) => self.feed.notice(out),
                // Whoever asked for one of these waits for it at the channel.
                Ok(Some(
                    FromAgent::Welcome { .. }
                    | FromAgent::Refused { .. }
                    | FromAgent::ResetDone { .. }
                    | FromAgent::ResetRefused { .. },
                )) => {}
                // A packet without its descriptor: this process may not have one more.
                Err(kumiki_net::Error::Refused(_)) => self.callers.crowd(),
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
    /// Sockets that the agent hands over, for the transport.
    pub(crate) callers: Arc<Callers>,
}

impl Machine {
    pub(crate) fn new(engine: Engine, channel: Option<Channel>) -> Machine {
        Machine { engine, transports: Transports::default(), sleeper: None, channel, callers: Arc::default() }
    }

    /// Puts a transport in place that reaches everybody.
    pub(crate) fn install(&mut self, transport: Box<dyn Transport>) {
        self.transports.add(0..u32::MAX, transport);
        self.sleeper = self.transports.sleeper();
    }

    /// What transports hear of.
    fn ear<'a>(&'a mut self, node: &'a Node) -> (&'a mut Transports, Ear<'a>) {
        let channel = self.channel.as_ref();
        (&mut self.transports, Ear { feed: self.engine.feed(node), channel, callers: &self.callers })
    }

    /// Sends a message.
    #[inline]
    pub(crate) fn send(&mut self, node: &Node, to: Rank, message: Message) -> Result<()> {
        let (transports, mut ear) = self.ear(node);
        transports.to(to)?.send(to, message, &mut ear).map_err(Error::from)
    }

    /// Sends a letter, if it can go at once: whether it has.
    pub(crate) fn letter(&mut self, node: &Node, to: Rank, header: Header, bytes: &[u8]) -> Result<bool> {
        let (transports, mut ear) = self.ear(node);
        transports.to(to)?.letter(to, header, bytes, &mut ear).map_err(Error::from)
    }

    /// Sends a message of an operation, at once or together with others that follow.
    #[inline]
    pub(crate) fn post(&mut self, drive: &Drive, to: Rank, message: Message) -> Result<()> {
        let (transports, mut ear) = self.ear(drive);
        let kept = transports.to(to)?.post(to, message, &mut ear)?;
        if kept != (drive.waiting.kept.load(Ordering::Relaxed) != 0) {
            self.note_kept(drive, kept);
        }
        Ok(())
    }

    /// Remembers whether a transport keeps messages. If it does, the service thread sends them when nobody else has soon.
    fn note_kept(&mut self, drive: &Drive, kept: bool) {
        if !kept {
            drive.waiting.kept.store(0, Ordering::Relaxed);
            return;
        }
        // The machine is held: nobody else counts.
        let times = drive.waiting.times_kept.load(Ordering::Relaxed).wrapping_add(1).max(1);
        drive.waiting.times_kept.store(times, Ordering::Relaxed);
        drive.waiting.kept.store(times, Ordering::SeqCst);
        drive.rouse_service(self.sleeper.as_deref());
    }

    /// Does what can be done now. Returns how many things happened. The clock is only looked at if the engine wants it.
    #[inline]
    pub(crate) fn poll(&mut self, drive: &Drive) -> Result<usize> {
        if self.transports.is_empty() {
            return Ok(0);
        }
        if drive.waiting.kept.load(Ordering::Relaxed) != 0 {
            drive.waiting.kept.store(0, Ordering::Relaxed);
        }
        let may_wait = drive.control().errands.may_wait();
        let errands = if may_wait { self.engine.feed(drive).run_errands() } else { 0 };
        let (transports, mut ear) = self.ear(drive);
        let happened = errands + transports.poll(&mut ear)?;
        if happened > 0 {
            drive.pace.came();
            drive.ring_own();
        }
        let mut out = Outbox::default();
        if self.engine.wants_time() {
            self.engine.feed(drive).tick(time::now_ms(), &mut out);
        }
        self.engine.feed(drive).go_on(&mut out);
        if !out.messages.is_empty() {
            self.post_all(drive, out);
        }
        Ok(happened)
    }

    /// Answers that may wait for what this rank sends next were kept by a poll, and nobody polls again at once.
    pub(crate) fn leave_kept(&mut self, drive: &Drive) {
        match self.transports.keep() {
            None => {}
            Some(Leeway::Long) => drive.leave_late(self.sleeper.as_deref()),
            Some(_) => self.note_kept(drive, true),
        }
    }

    /// Sends what a poll has kept, but for what may wait for long: that is left if whoever polled goes on with something else.
    pub(crate) fn send_kept(&mut self, drive: &Drive, goes_on: bool) {
        match self.transports.keep() {
            None => {}
            Some(Leeway::Long) if !goes_on || drive.has_left_late() => {}
            Some(Leeway::Long) => drive.leave_late(self.sleeper.as_deref()),
            Some(_) => {
                let (transports, mut ear) = self.ear(drive);
                transports.flush(&mut ear);
            }
        }
    }

    /// Sends what the engine asked for outside of a poll.
    pub(crate) fn post_all(&mut self, drive: &Drive, mut out: Outbox) {
        let (mut next, mut kept) = (0, false);
        while let Some(&(to, message)) = out.messages.get(next) {
            next += 1;
            let (transports, mut ear) = self.ear(drive);
            let posted = transports.to(to).and_then(|way| Ok(way.post(to, message, &mut ear)?));
            match posted {
                Ok(keeps) => kept |= keeps,
                // Others may wait for what can no longer be done: they are told behind the rest.
                Err(error) => self.engine.feed(drive).fail_peer(to, &error, &mut out),
            }
        }
        // Nobody is told that something is kept: it is sent before anybody could see it.
        if kept || drive.waiting.kept.load(Ordering::Relaxed) != 0 {
            drive.waiting.kept.store(0, Ordering::Relaxed);
            let (transports, mut ear) = self.ear(drive);
            transports.flush(&mut ear);
        }
    }

    /// Closes what can be closed now, and polls: how far that is, and whether it failed.
    pub(crate) fn close(&mut self, node: &Node) -> (Closing, Result<usize>) {
        let (transports, mut ear) = self.ear(node);
        let closing = transports.close(&mut ear);
        (closing, if closing == Closing::Closed { Ok(0) } else { transports.poll(&mut ear) })
    }

    /// When something must be done even if nothing comes (milliseconds of the monotonic clock).
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.engine.next_deadline_ms().into_iter().chain(self.transports.wake_up_at()).min()
    }
}
