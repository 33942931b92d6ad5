//! What goes into a run beside network and workload: the engine, pacing, seeds, what is recorded, and how progress is told.

use std::fmt;
use std::str::FromStr;

use crate::Time;

/// How a simulation is run.
#[derive(Clone)]
pub struct Options<'a> {
    /// How closely the network is looked at.
    pub engine: Engine,
    /// Which queue holds the events. It changes the speed and nothing else.
    pub queue: EventQueue,
    /// The gap between the packets of messages that do not say their own.
    pub pacing: Pacing,
    /// Whether [`Op::Step`](crate::Op::Step) waits until all ranks are there and everything is delivered.
    pub sync_steps: bool,
    /// For everything that is drawn: ties, random ways.
    pub seed: u64,
    /// How many threads may be used where parts of a run are independent; 0 is one a core.
    pub threads: usize,
    /// Records every operation in [`Report::operations`](crate::Report).
    pub record_operations: bool,
    /// Records what every rank did when, in [`Report::timeline`](crate::Report).
    pub record_timeline: bool,
    /// Called now and then with how far the run is.
    pub progress: Option<&'a (dyn Fn(&Progress) + Send + Sync)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            engine: Engine::default(),
            queue: EventQueue::default(),
            pacing: Pacing::default(),
            sync_steps: false,
            seed: 1,
            threads: 0,
            record_operations: false,
            record_timeline: false,
            progress: None,
        }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("engine", &self.engine)
            .field("queue", &self.queue)
            .field("pacing", &self.pacing)
            .field("sync_steps", &self.sync_steps)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// How closely the network is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Packets, buffers, credits and arbitration: contention is seen.
    #[default]
    Packets,
    /// Overheads, latency, and the rate of the network interfaces; links are never shared (LogGOPS).
    Uncontended,
}

/// Which queue holds the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventQueue {
    /// A timing wheel with a heap for what is far away: the fast one.
    #[default]
    Wheel,
    /// A binary heap: the plain one, to compare with.
    Heap,
}

/// The idle time between two packets of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// None: packets follow each other as closely as the interface can.
    #[default]
    Off,
    /// (overlap − 1) packet times, where overlap is the largest number of messages of the same step on any link when steps are
    /// synchronised, and on a link of the way when they are not.
    Overlap,
    /// (hops − 1) packet times.
    Hops,
    /// The same for every message.
    Fixed(Time),
}

impl FromStr for Pacing {
    type Err = String;
    fn from_str(text: &str) -> Result<Pacing, String> {
        match text {
            "off" => Ok(Pacing::Off),
            "overlap" => Ok(Pacing::Overlap),
            "hops" => Ok(Pacing::Hops),
            _ => text
                .parse()
                .map(Pacing::Fixed)
                .map_err(|error| format!("{error}; pacing is off, overlap, hops or a time like 800ns")),
        }
    }
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pacing::Off => f.write_str("off"),
            Pacing::Overlap => f.write_str("overlap"),
            Pacing::Hops => f.write_str("hops"),
            Pacing::Fixed(gap) => gap.fmt(f),
        }
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Simulated time so far (of the step that runs, where steps run apart).
    pub simulated: Time,
    /// Packets delivered so far.
    pub packets: u64,
    /// Hops of packets so far.
    pub packet_hops: u64,
    /// How much of the run is done, from 0 to 1, where that is known.
    pub done: Option<f64>,
}
