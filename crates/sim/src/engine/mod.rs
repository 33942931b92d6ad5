//! Ranks, messages and the loop over events.
//!
//! | file | what |
//! |---|---|
//! | `mod` | the entrance, the state of a run, the loop |
//! | `rank` | what a script may see of its rank: operations and flags |
//! | `scripts` | running scripts: what each operation does, blocking and waking |
//! | `transfer` | the life of a message, from being issued to being acknowledged |
//! | `message` | the record of a message |
//! | `pacing` | the gap of a message |
//! | `uncontended` | the network without contention |
//! | `finish` | the report |
//! | `diagnose` | who waits for whom |

mod diagnose;
mod finish;
mod message;
mod pacing;
mod rank;
mod scripts;
mod transfer;
mod uncontended;

pub(crate) use finish::{causes, parameter_list};
pub(crate) use rank::RankState;

use std::collections::VecDeque;

use crate::bound::Loads;
use crate::clock::CpuClock;
use crate::fabric::{event, Fabric, Note};
use crate::program::{Order, Script, Source, Wait};
use crate::queue::{Heap, Queue, Wheel};
use crate::report::{OperationRecord, Span, StepReport};
use crate::wiring::Wiring;
use crate::{Engine, Error, EventQueue, Network, Options, Parameters, Progress, Report, Time, Workload};
use finish::Shares;
use message::{Messages, Receive};
use pacing::{Noted, Pacer};
use uncontended::Uncontended;

/// Runs a workload on a network.
///
/// ```
/// use kumiki_sim::{simulate, Network, Op, Options, Order, Script, Time, View, Wait, Workload};
///
/// /// Rank 0 puts 64 KiB to the rank at the other end.
/// struct OnePut;
/// struct Puts(u32);
///
/// impl Workload for OnePut {
///     fn name(&self) -> String { "one put".to_owned() }
///     fn ranks(&self) -> u32 { 8 }
///     fn start(&self, rank: u32) -> Box<dyn Script + '_> { Box::new(Puts(if rank == 0 { 0 } else { 2 })) }
/// }
///
/// impl Script for Puts {
///     fn next(&mut self, _view: &View<'_>) -> Op {
///         self.0 += 1;
///         match self.0 {
///             1 => Op::Put { to: 4, bytes: 65_536, flag: None, gap: Default::default(), order: Order::None },
///             2 => Op::Wait(Wait::All),
///             _ => Op::End,
///         }
///     }
/// }
///
/// let network = Network::parse_short("torus:8").unwrap();
/// let report = simulate(&network, &OnePut, &Options::default()).unwrap();
/// // Four hops of 100 ns there, the bytes at 5 GB/s, and the acknowledgement back.
/// assert_eq!(report.time, Time::from_ps(400_000 + 13_107_200 + 400_000));
/// ```
pub fn simulate(network: &Network, workload: &dyn Workload, options: &Options<'_>) -> Result<Report, Error> {
    let wiring = Wiring::new(network)?;
    simulate_on(network, &wiring, workload, options)
}

/// Runs a workload on a network that is wired already.
pub(crate) fn simulate_on(
    network: &Network,
    wiring: &Wiring,
    workload: &dyn Workload,
    options: &Options<'_>,
) -> Result<Report, Error> {
    let ranks = u64::from(workload.ranks());
    if ranks == 0 || ranks > network.ranks() {
        return Err(Error::Options(format!(
            "the workload has {ranks} ranks, but {} has room for 1 to {}",
            network.name,
            network.ranks()
        )));
    }
    let run = Run { network, parameters: &network.parameters, options, workload, wiring };
    Ok(run_with(run, Pacer::new(run)?)?.0)
}

/// Runs with a pacer; gives the report and what the pacer has noted.
fn run_with<'a>(run: Run<'a>, pacer: Pacer<'a>) -> Result<(Report, Vec<Noted>), Error> {
    // Nearly every event lies a hop or a packet time ahead; the wheel covers both.
    let span = run.parameters.hop() + run.parameters.packet_time();
    match run.options.queue {
        EventQueue::Wheel => {
            Simulation::new(run, pacer, Wheel::new(span.as_ps() * 5 / 4, run.wiring.links.len() / 256)).run()
        }
        EventQueue::Heap => Simulation::new(run, pacer, Heap::default()).run(),
    }
}

/// Kinds of events of the engine, above the value.
mod kind {
    use crate::fabric::event::ENGINE;
    /// A rank goes on.
    pub(super) const RESUME: u64 = ENGINE;
    /// An operation starts, its overhead paid.
    pub(super) const LAUNCH: u64 = ENGINE + (1 << 32);
    /// The data of a message enters the network.
    pub(super) const START: u64 = ENGINE + (2 << 32);
    /// A message has left its node.
    pub(super) const SENT: u64 = ENGINE + (3 << 32);
    /// A message has come.
    pub(super) const ARRIVED: u64 = ENGINE + (4 << 32);
    /// The announcement of a message has come.
    pub(super) const ANNOUNCED: u64 = ENGINE + (5 << 32);
    /// Word of its end is back at the initiator.
    pub(super) const ACKNOWLEDGED: u64 = ENGINE + (6 << 32);
    /// A receive has paid its overhead.
    pub(super) const RECEIVED: u64 = ENGINE + (7 << 32);
}

/// What a run is given.
#[derive(Clone, Copy)]
struct Run<'a> {
    network: &'a Network,
    parameters: &'a Parameters,
    options: &'a Options<'a>,
    workload: &'a dyn Workload,
    wiring: &'a Wiring,
}

/// What carries the messages.
#[allow(clippy::large_enum_variant)] // There is one of it.
enum Carrier<'a> {
    Packets(Fabric<&'a Wiring>),
    Uncontended(Uncontended),
}

/// What a rank does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    /// Its script goes on, now or when its CPU is free.
    No,
    Wait(Wait),
    Flag {
        flag: u64,
        count: u64,
    },
    Barrier,
    Step,
    Ended,
}

/// One rank.
struct Rank<'a> {
    script: Box<dyn Script + 'a>,
    state: RankState,
    blocked: Blocked,
    /// Since when.
    since_ps: u64,
    /// Until when its CPU is busy.
    cpu_ps: u64,
    posted: VecDeque<Posted>,
    /// Messages that came, or were announced, before their receive.
    unexpected: VecDeque<u32>,
    deferred: Vec<Deferred>,
    /// The latest message, for the order `Continue`.
    latest: Option<(u32, u64)>,
    operations: u64,
    step: u32,
    messages: u32,
    end_ps: u64,
}

/// A receive that waits for its message.
#[derive(Clone, Copy, Debug)]
struct Posted {
    from: Source,
    tag: Option<u64>,
    receive: Receive,
}

/// An operation that waits for earlier ones.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    message: u32,
    order: Order,
    ready_ps: u64,
}

/// The state of a run.
struct Simulation<'a, Q: Queue> {
    run: Run<'a>,
    events: Q,
    now: u64,
    handled: u64,
    /// How many were handled when progress was told last.
    told: u64,
    carrier: Carrier<'a>,
    ranks: Vec<Rank<'a>>,
    messages: Messages,
    /// How many there is memory for.
    most_messages: u64,
    pacer: Pacer<'a>,
    /// Messages issued whose data is not there yet.
    undelivered: u64,
    delivered: u64,
    ended: u32,
    at_barrier: u32,
    at_step: u32,
    steps_passed: u64,
    step_start_ps: u64,
    loads: Loads<'a>,
    /// What links had carried when the step began.
    carried: Vec<u64>,
    longest_flight_ps: u64,
    shares: Shares,
    steps: Vec<StepReport>,
    operations: Vec<OperationRecord>,
    timeline: Vec<Span>,
    failed: Option<Error>,
    started: CpuClock,
}

/// The most time that is simulated.
pub(crate) const LONGEST_PS: u64 = 1 << 62;

/// How many events lie between two reports of progress, at least.
const EVENTS_TO_TELL: u64 = 1 << 18;

impl<'a, Q: Queue> Simulation<'a, Q> {
    fn new(run: Run<'a>, pacer: Pacer<'a>, events: Q) -> Simulation<'a, Q> {
        let Run { parameters, options, workload, wiring, .. } = run;
        let carrier = match options.engine {
            Engine::Packets => Carrier::Packets(Fabric::new(wiring, parameters, options.seed)),
            Engine::Uncontended => Carrier::Uncontended(Uncontended::new(wiring, parameters)),
        };
        let ranks = (0..workload.ranks()).map(|rank| Rank::new(workload.start(rank))).collect();
        Simulation {
            events,
            now: 0,
            handled: 0,
            told: 0,
            carrier,
            ranks,
            messages: Messages::default(),
            most_messages: (crate::memory::available_bytes() / 4 / crate::memory::MESSAGE_BYTES).max(1 << 16),
            pacer,
            undelivered: 0,
            delivered: 0,
            ended: 0,
            at_barrier: 0,
            at_step: 0,
            steps_passed: 0,
            step_start_ps: 0,
            loads: Loads::new(wiring, parameters),
            carried: Vec::new(),
            longest_flight_ps: 0,
            shares: Shares::default(),
            steps: Vec::new(),
            operations: Vec::new(),
            timeline: Vec::new(),
            failed: None,
            started: CpuClock::start(),
            run,
        }
    }

    fn run(mut self) -> Result<(Report, Vec<Noted>), Error> {
        for rank in 0..self.ranks.len() as u32 {
            self.events.push(0, kind::RESUME | u64::from(rank));
        }
        while let Some((time, word)) = self.next_event() {
            debug_assert!(time >= self.now, "time does not go back");
            if time > LONGEST_PS {
                let days = LONGEST_PS / 86_400 / 1_000_000_000_000;
                return Err(Error::Options(format!("more than {days} days of simulated time")));
            }
            self.now = time;
            match word {
                event::NOTES => self.take_notes(),
                _ => self.handle(word & !event::VALUE, (word & event::VALUE) as u32),
            }
            if self.failed.is_some() {
                break;
            }
            if self.handled >= self.told + EVENTS_TO_TELL {
                self.told = self.handled;
                self.tell_progress();
            }
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.ended < self.ranks.len() as u32 {
            return Err(Error::Deadlock(Box::new(self.diagnose())));
        }
        Ok(self.finish())
    }

    /// The next event for ranks: those of packets are handled on the way to it.
    fn next_event(&mut self) -> Option<(u64, u64)> {
        match &mut self.carrier {
            Carrier::Packets(fabric) => fabric.run(&mut self.events, &mut self.handled),
            Carrier::Uncontended(_) => {
                self.handled += 1;
                self.events.pop()
            }
        }
    }

    /// What the network has to say of messages.
    fn take_notes(&mut self) {
        let Carrier::Packets(fabric) = &mut self.carrier else {
            unreachable!("only packets have such events")
        };
        let mut notes = std::mem::take(&mut fabric.notes);
        for note in notes.drain(..) {
            match note {
                Note::Sent(message) => self.sent(message),
                Note::Delivered(message) => self.arrived(message),
            }
        }
        // The buffer is used again; what was noted meanwhile has its own.
        if let Carrier::Packets(fabric) = &mut self.carrier {
            if fabric.notes.is_empty() {
                fabric.notes = notes;
            }
        }
    }

    fn handle(&mut self, kind: u64, value: u32) {
        match kind {
            kind::RESUME => self.resume(value),
            kind::LAUNCH => self.launch(value),
            kind::START => self.start(value),
            kind::SENT => self.sent(value),
            kind::ARRIVED => self.arrived(value),
            kind::ANNOUNCED => self.announced(value),
            kind::ACKNOWLEDGED => self.acknowledged(value),
            kind::RECEIVED => self.received(value),
            _ => unreachable!("an event of an unknown kind"),
        }
    }

    fn now(&self) -> Time {
        Time::from_ps(self.now)
    }

    /// An event of the engine, in so many picoseconds.
    fn push_in(&mut self, delay_ps: u64, kind: u64, value: u32) {
        self.events.push(self.now + delay_ps, kind | u64::from(value));
    }

    fn node_of(&self, rank: u32) -> u32 {
        rank / self.run.parameters.ranks_per_node
    }

    fn tell_progress(&self) {
        let Some(progress) = self.run.options.progress else { return };
        let all = |steps: u32| f64::from(steps) * self.ranks.len() as f64;
        let (packets, packet_hops) = match &self.carrier {
            Carrier::Packets(fabric) => (fabric.delivered, fabric.packet_hops),
            Carrier::Uncontended(_) => (self.delivered, 0),
        };
        progress(&Progress {
            simulated: self.now(),
            packets,
            packet_hops,
            done: self
                .run
                .workload
                .steps()
                .map(|steps| (self.steps_passed as f64 / all(steps.max(1))).min(1.0)),
        });
    }
}

impl<'a> Rank<'a> {
    fn new(script: Box<dyn Script + 'a>) -> Rank<'a> {
        Rank {
            script,
            state: RankState::default(),
            blocked: Blocked::No,
            since_ps: 0,
            cpu_ps: 0,
            posted: VecDeque::new(),
            unexpected: VecDeque::new(),
            deferred: Vec::new(),
            latest: None,
            operations: 0,
            step: 0,
            messages: 0,
            end_ps: 0,
        }
    }
}

#[cfg(test)]
mod tests;
