//! Whose turn it is: ranks are threads of which one runs at a time, until it waits; then the next event decides.
//!
//! There is no thread beside those of the ranks: the one that begins to wait takes events from the queue until one
//! wakes somebody, hands over, and sleeps. Events are ordered by time and then by the order in which they were made, so
//! everything that happens is decided by the input.

use super::agenda::{Agenda, Event};
use super::carrier::{Cargo, Carrier};
use super::faults::Plan;
use crate::{Error as SimError, Time};
use kumiki_net::contract::Server;
use kumiki_net::os::time::Clock;
use kumiki_net::shm::arena::Arena;
use kumiki_net::shm::control::Activity;
use kumiki_net::shm::world::{Cause, Place, Status};
use kumiki_net::wire::Header;
use kumiki_net::{Error, Rank};
use std::collections::VecDeque;
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

/// What was sent in a run, and when it ended.
pub(super) struct Totals {
    pub(super) time: Time,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) packet_hops: u64,
    pub(super) lost: u64,
}

/// What a poll finds.
pub(super) enum News {
    Frame(Frame),
    Lost(Rank, Error),
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
    /// Until when its processor is busy sending, and receiving.
    sends_until: Time,
    receives_until: Time,
    server: Option<Weak<dyn Server>>,
    crashed: bool,
    /// It has finalized its world.
    departed: bool,
}

struct State {
    agenda: Agenda,
    seats: Vec<Seat>,
    ready: VecDeque<u32>,
    carrier: Carrier,
    plan: Plan,
    ended: usize,
    messages: u64,
    bytes: u64,
    /// Links that each outage takes down.
    wires: Vec<Vec<u32>>,
    peer_timeout: Time,
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
    limits: Limits,
}

/// When a run counts as stuck.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For how long nothing may arrive anywhere.
    pub(super) patience: Time,
    /// When it must be over.
    pub(super) time: Time,
    /// How many messages it may send.
    pub(super) messages: u64,
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
        limits: Limits,
    ) -> Result<Hall, SimError> {
        let seat = |_| Seat {
            mood: Mood::Ready,
            ticket: 0,
            news: VecDeque::new(),
            called: false,
            operations: 0,
            sends_until: Time::ZERO,
            receives_until: Time::ZERO,
            server: None,
            crashed: false,
            departed: false,
        };
        let parameters = carrier.parameters();
        let mut agenda = Agenda::new(parameters.hop() + parameters.packet_time());
        let mut wires = Vec::new();
        for (outage, index) in plan.links().iter().zip(0u32..) {
            wires.push(carrier.links(outage.wire)?);
            agenda.push(outage.from, Event::Link { outage: index, down: true });
            agenda.push(outage.until, Event::Link { outage: index, down: false });
        }
        let peer_timeout = Time::from_us(u64::from(arenas[0].config().peer_timeout_ms) * 1000);
        let state = State {
            agenda,
            seats: arenas.iter().map(seat).collect(),
            ready: (0..arenas.len() as u32).collect(),
            carrier,
            plan,
            ended: 0,
            messages: 0,
            bytes: 0,
            wires,
            peer_timeout,
            alive_at: Time::ZERO,
            verdict: None,
        };
        let turns = arenas.iter().map(|_| (Mutex::new(false), Condvar::new())).collect();
        Ok(Hall { now: AtomicU64::new(0), state: Mutex::new(state), turns, arenas, limits })
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

    /// What was sent, and why the run was given up, if it was.
    pub(super) fn result(&self) -> (Totals, Option<String>) {
        let state = self.state();
        let (packets, packet_hops) = state.carrier.counts();
        let State { messages, bytes, .. } = *state;
        let lost = state.plan.lost;
        (Totals { time: self.now(), messages, bytes, packets, packet_hops, lost }, state.verdict.clone())
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
        state.agenda.push(at, Event::Wake { rank, ticket });
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
            let next = state.next_event();
            let in_time = next.as_ref().is_none_or(|(at, _)| *at <= self.limits.time);
            let until = self.limits.time.min(state.alive_at + self.limits.patience);
            if let Some((at, _)) = &next {
                // Also if it does not happen any more: what ranks do while they leave comes behind it.
                self.now.fetch_max(at.as_ps(), Ordering::Relaxed);
            }
            let Some((_, event)) = next.filter(|(at, _)| *at <= until) else {
                let why = self.who_waits(&state, in_time);
                state.verdict = Some(why);
                continue;
            };
            let servers = self.happen(&mut state, event);
            drop(state);
            servers.into_iter().for_each(|server| server.serve());
        }
    }

    /// An event happens. Gives the servers that must act on it.
    fn happen(&self, state: &mut State, event: Event) -> Vec<Arc<dyn Server>> {
        let now = self.now();
        let server = match event {
            Event::Wake { rank, ticket } => {
                let seat = &mut state.seats[rank as usize];
                if seat.ticket == ticket && matches!(seat.mood, Mood::Asleep | Mood::Computing) {
                    seat.mood = Mood::Ready;
                    state.ready.push_back(rank);
                }
                None
            }
            Event::Launch { flight } => {
                state.launch(flight, now);
                None
            }
            Event::Landed { flight } => return state.landed(flight, now),
            Event::Complete { flight } => return state.complete(flight, now),
            Event::Overdue { flight, serial } => {
                let late = state.carrier.flight(flight).filter(|flight| flight.serial == serial);
                if let Some((one, other)) = late.map(|flight| (flight.from, flight.to)) {
                    self.give_up(state, one, other);
                }
                None
            }
            Event::Arrive(frame) => state.arrive(*frame, now),
            Event::Link { outage, down } => {
                for link in state.wires[outage as usize].clone() {
                    state.carrier.set_down(link, down, now, &mut state.agenda);
                }
                None
            }
            Event::Sever { one, other } => {
                self.give_up(state, one, other);
                None
            }
            Event::Unreachable { rank, by } => {
                self.declare_lost(state, rank, by);
                None
            }
            Event::Notice { rank } => {
                self.announce(state, rank, Status::Lost, Cause::signal(9));
                None
            }
            Event::Goodbye { from, to } => {
                let why = "it has finalized".to_owned();
                state.tell(to, News::Lost(Rank(from), Error::PeerLost { rank: Rank(from), why }))
            }
        };
        server.into_iter().collect()
    }

    /// A rank has not reached another for the peer timeout. Its connection breaks, and it says so: then the other counts as
    /// lost, as the agents of real nodes would have it.
    fn give_up(&self, state: &mut State, by: u32, rank: u32) {
        if self.sever(state, by, rank) {
            state.agenda.push(self.now() + state.plan.notice(), Event::Unreachable { rank, by });
        }
    }

    /// Everybody knows that a rank could not be reached, unless one of the two is known to be gone.
    fn declare_lost(&self, state: &mut State, rank: u32, by: u32) {
        let is_alive = |rank: u32| {
            self.arenas[0].place(Rank(rank)).is_some_and(|place| place.load().status == Status::Alive)
        };
        if !is_alive(rank) || !is_alive(by) {
            return;
        }
        self.announce(state, rank, Status::Lost, Cause::DISCONNECTED);
        // To itself, it is the others that are gone.
        self.arenas[rank as usize].shared().announce_loss(Rank(by), true);
        for other in (0..state.seats.len() as u32).filter(|&other| other != rank) {
            self.sever(state, rank, other);
        }
    }

    /// Breaks the connection of two ranks, which both hear of; false if it was broken before.
    fn sever(&self, state: &mut State, one: u32, other: u32) -> bool {
        if !state.plan.sever(one, other) {
            return false;
        }
        for (at, peer) in [(one, other), (other, one)] {
            let why = "nothing came from it for the peer timeout".to_owned();
            let lost = News::Lost(Rank(peer), Error::PeerLost { rank: Rank(peer), why });
            // Whoever computes hears of it when it polls.
            let _ = state.tell(at, lost);
        }
        true
    }

    /// Everybody knows that a rank has left or is lost, and wakes up to look.
    fn announce(&self, state: &mut State, rank: u32, status: Status, cause: Cause) {
        let arena = &self.arenas[0];
        if let Some(place) = arena.place(Rank(rank)) {
            place.store(Place { node: rank, local: 0, status, cause }, arena.changes());
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
        self.announce(&mut state, rank, Status::Left, Cause::UNKNOWN);
        let now = self.now();
        for to in state.carrier.partners(rank) {
            state.send(rank, to, 0, Cargo::Goodbye, now);
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
            state.agenda.push(at, Event::Notice { rank });
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
        if state.messages > self.limits.messages {
            // Everybody sees it who waits next.
            let why = format!(
                "the ranks come to no end: they have sent {} messages in {} of simulated time, the latest from rank {from} to rank {to}; \
                 a program that needs more says so (Cluster::most_messages)",
                state.messages - 1,
                self.now()
            );
            state.verdict.get_or_insert(why);
        }
        state.send(from, to, bytes, Cargo::Frame(Box::new(frame)), self.now());
        Ok(())
    }

    /// Breaks a connection now.
    pub(super) fn break_connection(&self, one: u32, other: u32) {
        let mut state = self.state();
        self.sever(&mut state, one, other);
    }

    /// Who waits for whom, when nothing can happen any more, or not in time.
    fn who_waits(&self, state: &State, in_time: bool) -> String {
        let mut text = match in_time {
            true => String::from("the ranks are stuck: everybody waits and nothing is under way"),
            false => format!("the ranks are stuck: they have come to no end in {}", self.limits.time),
        };
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
        let circle = state.carrier.circle();
        if !circle.is_empty() {
            let _ = write!(text, "; packets wait for each other: {}", circle.join("; "));
        }
        text
    }
}

impl State {
    /// Lets packets move until something happens that concerns ranks.
    fn next_event(&mut self) -> Option<(Time, Event)> {
        self.carrier.run(&mut self.agenda)
    }

    /// A message is sent: first the processor of its sender is busy with it.
    fn send(&mut self, from: u32, to: u32, bytes: u64, cargo: Cargo, now: Time) {
        let overhead = self.plan.overhead(from, self.carrier.parameters().send_overhead);
        let seat = &mut self.seats[from as usize];
        let leaves = seat.sends_until.max(now) + overhead;
        seat.sends_until = leaves;
        let flight = self.carrier.book(from, to, bytes, leaves, cargo);
        if !self.plan.links().is_empty() {
            if let Some(serial) = self.carrier.flight(flight).map(|flight| flight.serial) {
                self.agenda.push(leaves + self.peer_timeout, Event::Overdue { flight, serial });
            }
        }
        match leaves == now {
            true => self.launch(flight, now),
            false => self.agenda.push(leaves, Event::Launch { flight }),
        }
    }

    /// The packets of a message enter the network, if its ranks can reach each other.
    fn launch(&mut self, index: u32, now: Time) {
        let Some(flight) = self.carrier.flight(index) else { return };
        let (from, to) = (flight.from, flight.to);
        let heals = if from == to { now } else { self.plan.heals(from, to, now) };
        if heals > now {
            return self.relaunch(index, heals);
        }
        if let Some(there) = self.carrier.launch(index, now, &mut self.agenda) {
            self.agenda.push(there, Event::Landed { flight: index });
        }
    }

    /// A message is sent again at a time, unless its sender gives up before.
    fn relaunch(&mut self, index: u32, at: Time) {
        let Some(flight) = self.carrier.flight(index) else { return };
        let (one, other) = (flight.from, flight.to);
        let gives_up = flight.since + self.peer_timeout;
        if at > gives_up {
            self.carrier.forget(index);
            self.agenda.push(gives_up, Event::Sever { one, other });
        } else {
            self.agenda.push(at, Event::Launch { flight: index });
        }
    }

    /// All packets of a message have come, but for those that faults took or hold.
    fn landed(&mut self, index: u32, now: Time) -> Vec<Arc<dyn Server>> {
        let Some(flight) = self.carrier.flight(index) else { return Vec::new() };
        let (from, to, bytes) = (flight.from, flight.to, flight.bytes);
        if from == to {
            return self.complete(index, now);
        }
        if self.plan.is_severed(from, to) {
            self.carrier.forget(index);
            return Vec::new();
        }
        let heals = self.plan.heals(from, to, now);
        if heals > now {
            self.relaunch(index, heals);
            return Vec::new();
        }
        let packets = self.carrier.packets_of(bytes);
        let lost = self.plan.lose(packets);
        if lost > 0 {
            self.carrier.lose(index, lost);
            let again = now + self.plan.retry();
            self.relaunch(index, again);
            return Vec::new();
        }
        match self.plan.delay(packets) {
            Time::ZERO => self.complete(index, now),
            delay => {
                self.agenda.push(now + delay, Event::Complete { flight: index });
                Vec::new()
            }
        }
    }

    /// A message has come, and with it those that waited for it: their receiver is busy with each.
    fn complete(&mut self, index: u32, now: Time) -> Vec<Arc<dyn Server>> {
        let mut servers = Vec::new();
        let overhead = self.carrier.parameters().recv_overhead;
        for (from, to, cargo) in self.carrier.take(index) {
            let overhead = self.plan.overhead(to, overhead);
            let seat = &mut self.seats[to as usize];
            let taken = seat.receives_until.max(now) + overhead;
            seat.receives_until = taken;
            match cargo {
                Cargo::Frame(frame) if taken == now => servers.extend(self.arrive(*frame, now)),
                Cargo::Frame(frame) => self.agenda.push(taken, Event::Arrive(frame)),
                Cargo::Goodbye => self.agenda.push(taken, Event::Goodbye { from, to }),
            }
        }
        servers
    }

    /// A frame is where it should be.
    fn arrive(&mut self, frame: Frame, now: Time) -> Option<Arc<dyn Server>> {
        self.alive_at = self.alive_at.max(now);
        let to = frame.to.0;
        if self.plan.is_severed(frame.from.0, to) {
            return None;
        }
        self.tell(to, News::Frame(frame))
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
