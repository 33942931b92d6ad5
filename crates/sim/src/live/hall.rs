//! Whose turn it is: ranks are threads of which one runs at a time, until it waits; then the next event decides.
//!
//! There is no thread beside those of the ranks: the one that begins to wait takes events from the queue until one
//! wakes somebody, hands over, and sleeps. Events are ordered by time and then by the order in which they were made, so
//! everything that happens is decided by the input.

use super::carrier::Carrier;
use super::faults::Plan;
use crate::Time;
use kumiki_net::contract::Server;
use kumiki_net::os::time::Clock;
use kumiki_net::shm::arena::Arena;
use kumiki_net::shm::control::Activity;
use kumiki_net::shm::world::{Cause, Place, Status};
use kumiki_net::wire::Header;
use kumiki_net::{Error, Rank};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

/// What a rank is unwound with when it crashes, or when the run is given up.
pub(super) struct Crashed;

/// A frame on its way, or come.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
}

/// What a poll finds.
pub(super) enum News {
    Frame(Frame),
    Lost(Rank, Error),
}

#[derive(Debug)]
enum Event {
    /// A sleep or a computation is over, unless the rank was woken meanwhile.
    Wake { rank: u32, ticket: u64 },
    /// A frame has come.
    Arrive(Box<Frame>),
    /// The connection of two ranks has been silent for too long.
    Sever { one: u32, other: u32 },
    /// Everybody hears that a rank is gone.
    Notice { rank: u32 },
    /// The connection with a rank that has left is closed, behind everything that it sent.
    Goodbye { from: u32, to: u32 },
}

struct Entry {
    at: Time,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    /// Runs, or will run when its turn comes.
    Ready,
    /// Waits for something to poll.
    Asleep,
    /// Computes: others are served by its server.
    Computing,
    /// Its function has ended, or it has crashed.
    Ended,
}

struct Seat {
    mood: Mood,
    /// Goes up with every wait, so that a wake-up that came too late is known.
    ticket: u64,
    news: VecDeque<News>,
    /// Somebody called for it while it was not asleep.
    called: bool,
    /// Frames it has sent: what crashes are counted in.
    operations: u64,
    /// Until when its processor is busy sending.
    busy_until: Time,
    server: Option<Weak<dyn Server>>,
    crashed: bool,
    /// It has finalized its world.
    departed: bool,
}

struct State {
    queue: BinaryHeap<Reverse<Entry>>,
    next_number: u64,
    seats: Vec<Seat>,
    ready: VecDeque<u32>,
    carrier: Carrier,
    plan: Plan,
    ended: usize,
    messages: u64,
    bytes: u64,
    /// When something last arrived anywhere, or a rank last computed.
    alive_at: Time,
    verdict: Option<String>,
}

/// The place where the ranks of a run wait for each other.
pub(super) struct Hall {
    /// Picoseconds.
    now: AtomicU64,
    state: Mutex<State>,
    turns: Vec<(Mutex<bool>, Condvar)>,
    arenas: Vec<Arc<Arena>>,
    patience: Time,
    limit: Time,
}

impl Clock for Hall {
    fn now_ns(&self) -> u64 {
        // A clock that begins at zero would be taken for one that was never read.
        self.now.load(Ordering::Relaxed) / 1000 + 1_000_000_000
    }
}

impl Hall {
    pub(super) fn new(
        arenas: Vec<Arc<Arena>>,
        carrier: Carrier,
        plan: Plan,
        patience: Time,
        limit: Time,
    ) -> Hall {
        let seat = |_| Seat {
            mood: Mood::Ready,
            ticket: 0,
            news: VecDeque::new(),
            called: false,
            operations: 0,
            busy_until: Time::ZERO,
            server: None,
            crashed: false,
            departed: false,
        };
        let state = State {
            queue: BinaryHeap::new(),
            next_number: 0,
            seats: arenas.iter().map(seat).collect(),
            ready: (0..arenas.len() as u32).collect(),
            carrier,
            plan,
            ended: 0,
            messages: 0,
            bytes: 0,
            alive_at: Time::ZERO,
            verdict: None,
        };
        let turns = arenas.iter().map(|_| (Mutex::new(false), Condvar::new())).collect();
        Hall { now: AtomicU64::new(0), state: Mutex::new(state), turns, arenas, patience, limit }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn now(&self) -> Time {
        Time::from_ps(self.now.load(Ordering::Relaxed))
    }

    /// A rank has no thread: the run ends as soon as everybody has seen that.
    pub(super) fn absent(&self, rank: u32) {
        let mut state = self.state();
        state.seats[rank as usize].mood = Mood::Ended;
        state.ready.retain(|&other| other != rank);
        state.ended += 1;
        let why = format!("no thread for rank {rank}; raise the limit on processes (ulimit -u)");
        state.verdict.get_or_insert(why);
    }

    /// A rank begins, when its turn comes.
    pub(super) fn enter(&self, rank: u32) {
        self.await_turn(rank);
        self.check_verdict();
    }

    /// (time, messages, bytes, why it was given up).
    pub(super) fn result(&self) -> (Time, u64, u64, Option<String>) {
        let state = self.state();
        (self.now(), state.messages, state.bytes, state.verdict.clone())
    }

    /// Gives the first rank its turn; all threads have been started.
    pub(super) fn begin(&self) {
        self.hand_on(None);
    }

    /// Sleeps until it is this rank's turn.
    fn await_turn(&self, rank: u32) {
        let (flag, bell) = &self.turns[rank as usize];
        let mut mine = flag.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while !*mine {
            mine = bell.wait(mine).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *mine = false;
    }

    fn give_turn(&self, rank: u32) {
        let (flag, bell) = &self.turns[rank as usize];
        *flag.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        bell.notify_one();
    }

    /// The rank sleeps until there is something to poll, somebody calls, or the time is over.
    pub(super) fn sleep(&self, rank: u32, time: Time) {
        self.wait(rank, Mood::Asleep, time);
    }

    /// The rank computes for some time.
    pub(super) fn compute(&self, rank: u32, time: Time) {
        let time = self.state().plan.stretch(rank, time);
        self.wait(rank, Mood::Computing, time);
    }

    fn wait(&self, rank: u32, mood: Mood, time: Time) {
        let mut state = self.state();
        let seat = &mut state.seats[rank as usize];
        if mood == Mood::Asleep && (std::mem::take(&mut seat.called) || !seat.news.is_empty()) {
            return;
        }
        seat.ticket += 1;
        seat.mood = mood;
        let ticket = seat.ticket;
        let at = self.now() + time;
        if mood == Mood::Computing {
            state.alive_at = state.alive_at.max(at);
        }
        state.push(at, Event::Wake { rank, ticket });
        drop(state);
        self.hand_on(Some(rank));
        self.check_verdict();
    }

    /// Unwinds this thread if the run was given up.
    fn check_verdict(&self) {
        if self.state().verdict.is_some() && !std::thread::panicking() {
            panic::resume_unwind(Box::new(Crashed));
        }
    }

    /// Takes events until somebody can run, and gives it the turn. `me` then waits for its own turn.
    fn hand_on(&self, me: Option<u32>) {
        loop {
            let mut state = self.state();
            if let Some(next) = state.ready.pop_front() {
                drop(state);
                if me == Some(next) {
                    return;
                }
                self.give_turn(next);
                if let Some(me) = me {
                    self.await_turn(me);
                }
                return;
            }
            if state.ended == state.seats.len() {
                return;
            }
            if state.verdict.is_some() {
                // Everybody who waits is woken, and sees it.
                state.wake_everybody();
                continue;
            }
            let entry = state.queue.pop();
            let stuck = entry
                .as_ref()
                .is_none_or(|entry| entry.0.at > self.limit.min(state.alive_at + self.patience));
            let Some(Reverse(Entry { at, event, .. })) = entry.filter(|_| !stuck) else {
                let why = self.who_waits(&state);
                state.verdict = Some(why);
                continue;
            };
            self.now.fetch_max(at.as_ps(), Ordering::Relaxed);
            let server = self.happen(&mut state, event);
            drop(state);
            if let Some(server) = server {
                server.serve();
            }
        }
    }

    /// An event happens. Gives the server that must act on it.
    fn happen(&self, state: &mut State, event: Event) -> Option<Arc<dyn Server>> {
        match event {
            Event::Wake { rank, ticket } => {
                let seat = &mut state.seats[rank as usize];
                if seat.ticket == ticket && matches!(seat.mood, Mood::Asleep | Mood::Computing) {
                    seat.mood = Mood::Ready;
                    state.ready.push_back(rank);
                }
                None
            }
            Event::Arrive(frame) => {
                state.alive_at = state.alive_at.max(self.now());
                let to = frame.to.0;
                if state.plan.is_severed(frame.from.0, to) {
                    return None;
                }
                state.tell(to, News::Frame(*frame))
            }
            Event::Sever { one, other } => {
                self.sever(state, one, other);
                None
            }
            Event::Notice { rank } => {
                self.announce(state, rank, Status::Lost);
                None
            }
            Event::Goodbye { from, to } => {
                let why = "it has finalized".to_owned();
                state.tell(to, News::Lost(Rank(from), Error::PeerLost { rank: Rank(from), why }))
            }
        }
    }

    /// Breaks the connection of two ranks, which both hear of.
    fn sever(&self, state: &mut State, one: u32, other: u32) {
        if !state.plan.sever(one, other) {
            return;
        }
        for (at, peer) in [(one, other), (other, one)] {
            let why = "nothing came from it for the peer timeout".to_owned();
            let lost = News::Lost(Rank(peer), Error::PeerLost { rank: Rank(peer), why });
            // Whoever computes hears of it when it polls.
            let _ = state.tell(at, lost);
        }
    }

    /// Everybody knows that a rank has left or is lost, and wakes up to look.
    fn announce(&self, state: &mut State, rank: u32, status: Status) {
        let cause = if status == Status::Lost { Cause::signal(9) } else { Cause::UNKNOWN };
        if let Some(place) = self.arenas[0].place(Rank(rank)) {
            place.store(Place { node: rank, local: 0, status, cause });
        }
        for other in (0..state.seats.len() as u32).filter(|&other| other != rank) {
            self.arenas[other as usize].shared().announce_loss(Rank(rank), status == Status::Lost);
            if status == Status::Lost {
                let lost = Error::PeerLost { rank: Rank(rank), why: cause.to_string() };
                let _ = state.tell(other, News::Lost(Rank(rank), lost));
            }
        }
    }

    /// A rank has finalized its world.
    pub(super) fn depart(&self, rank: u32) {
        let mut state = self.state();
        state.seats[rank as usize].departed = true;
        self.announce(&mut state, rank, Status::Left);
        let now = self.now();
        for to in state.carrier.partners(rank) {
            let at = state.carrier.arrival(rank, to, 0, now, Time::ZERO);
            state.push(at, Event::Goodbye { from: rank, to });
        }
    }

    /// The function of a rank has ended. One that did not finalize counts as lost, as a process would.
    pub(super) fn leave(&self, rank: u32) {
        let mut state = self.state();
        let seat = &mut state.seats[rank as usize];
        (seat.mood, seat.news) = (Mood::Ended, VecDeque::new());
        let departed = seat.departed;
        state.ended += 1;
        if !departed {
            let at = self.now() + state.plan.notice();
            state.push(at, Event::Notice { rank });
        }
        drop(state);
        self.hand_on(None);
    }

    /// A rank can be polled on behalf of others.
    pub(super) fn set_server(&self, rank: u32, server: Weak<dyn Server>) {
        self.state().seats[rank as usize].server = Some(server);
    }

    /// Calls a rank that sleeps.
    pub(super) fn call(&self, rank: u32) {
        let mut state = self.state();
        let seat = &mut state.seats[rank as usize];
        match seat.mood {
            Mood::Asleep => {
                seat.mood = Mood::Ready;
                state.ready.push_back(rank);
            }
            Mood::Ended => {}
            Mood::Ready | Mood::Computing => seat.called = true,
        }
    }

    /// The next thing that has come to a rank.
    pub(super) fn next_news(&self, rank: u32) -> Option<News> {
        self.state().seats[rank as usize].news.pop_front()
    }

    /// Whether a fault has crashed the rank.
    pub(super) fn is_crashed(&self, rank: u32) -> bool {
        self.state().seats[rank as usize].crashed
    }

    /// Counts an operation of a rank's own thread, which may be its last.
    pub(super) fn count(&self, rank: u32) {
        let mut state = self.state();
        let seat = &mut state.seats[rank as usize];
        seat.operations += 1;
        let operations = seat.operations;
        if !seat.crashed && state.plan.crashes(rank, operations) {
            state.seats[rank as usize].crashed = true;
            drop(state);
            panic::resume_unwind(Box::new(Crashed));
        }
    }

    /// Sends a frame.
    pub(super) fn send(&self, frame: Frame) -> Result<(), Error> {
        let mut state = self.state();
        let (from, to) = (frame.from.0, frame.to.0);
        let place = self.arenas[0].place(frame.to).map(|word| word.load());
        let lost = place.is_none_or(|place| place.status == Status::Lost);
        if lost || state.plan.is_severed(from, to) {
            let why = if lost { "it is lost" } else { "its connection broke" };
            return Err(Error::PeerLost { rank: frame.to, why: why.to_owned() });
        }
        let bytes = frame.bytes.len() as u64;
        (state.messages, state.bytes) = (state.messages + 1, state.bytes + bytes);
        let now = self.now();
        let overhead = state.carrier.overhead();
        let overhead = state.plan.stretch(from, overhead);
        let leaves = state.seats[from as usize].busy_until.max(now) + overhead;
        state.seats[from as usize].busy_until = leaves;
        let timeout = Time::from_us(u64::from(self.arenas[0].config().peer_timeout_ms) * 1000);
        let (delay, gone) = state.plan.delay(from, to, leaves, timeout, bytes);
        if gone {
            // It is repeated until one side gives up.
            state.push(leaves + timeout, Event::Sever { one: from, other: to });
            return Ok(());
        }
        let at = state.carrier.arrival(from, to, bytes, leaves, delay);
        state.push(at, Event::Arrive(Box::new(frame)));
        Ok(())
    }

    /// Breaks a connection now.
    pub(super) fn break_connection(&self, one: u32, other: u32) {
        let mut state = self.state();
        self.sever(&mut state, one, other);
    }

    /// Who waits for whom, when nothing can happen any more.
    fn who_waits(&self, state: &State) -> String {
        let mut text = String::from("the ranks are stuck: everybody waits and nothing is under way");
        let waiting = state.seats.iter().zip(0u32..).filter(|(seat, _)| seat.mood != Mood::Ended);
        for (_, rank) in waiting.take(16) {
            let Some(control) = self.arenas[rank as usize].control(0) else { continue };
            let (activity, peer, _) = control.waiting();
            let whom = if peer == kumiki_net::shm::control::NOBODY {
                String::new()
            } else {
                format!(" for rank {peer}")
            };
            let doing =
                if activity == Activity::Computing { "waits".to_owned() } else { activity.to_string() };
            let _ = write!(text, "; rank {rank} {doing}{whom}");
        }
        text
    }
}

impl State {
    fn push(&mut self, at: Time, event: Event) {
        self.next_number += 1;
        self.queue.push(Reverse(Entry { at, number: self.next_number, event }));
    }

    /// Something has come to a rank. Gives its server if nobody else would look.
    fn tell(&mut self, rank: u32, news: News) -> Option<Arc<dyn Server>> {
        let seat = &mut self.seats[rank as usize];
        if seat.mood == Mood::Ended {
            return None;
        }
        seat.news.push_back(news);
        match seat.mood {
            Mood::Asleep => {
                seat.mood = Mood::Ready;
                self.ready.push_back(rank);
                None
            }
            Mood::Computing => seat.server.as_ref().and_then(Weak::upgrade),
            Mood::Ready | Mood::Ended => None,
        }
    }

    fn wake_everybody(&mut self) {
        for (seat, rank) in self.seats.iter_mut().zip(0u32..) {
            if matches!(seat.mood, Mood::Asleep | Mood::Computing) {
                seat.mood = Mood::Ready;
                self.ready.push_back(rank);
            }
        }
    }
}
