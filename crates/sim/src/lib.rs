//! A packet-level simulator of interconnection networks, and of programs that run on them.
//!
//! A [`Network`] is a topology with parameters, a [`Workload`] is a program with a script for every rank, and [`simulate`] runs one on the other
//! and gives a [`Report`]. Results are integers of simulated time and depend on nothing but the input and its seed.
//!
//! | module | what |
//! |---|---|
//! | `time` | picoseconds and bytes a second |
//! | `network`, `short` | the description of a network and its short form |
//! | `program` | what a rank can do |
//! | [`patterns`] | programs by name: ring, pairwise exchange, halo, … |
//! | `options`, `report`, `deadlock` | what goes into a run beside the two, and what comes out |
//! | `wiring` | routers, links and ways of a description |
//! | `queue` | the queue of events: a timing wheel, and a heap to compare it with |
//! | `fabric` | the packet network: buffers, credits, arbitration |
//! | `engine` | ranks, messages and the loop over events |
//! | `live` | real programs in virtual time, and faults by seed |
//! | `bound` | the time below which no schedule can be |
#![forbid(unsafe_code)]

mod bound;
mod clock;
mod deadlock;
pub mod description;
mod engine;
mod error;
mod fabric;
pub mod goal;
mod live;
mod memory;
pub mod mgen;
mod network;
mod options;
pub mod patterns;
mod program;
mod queue;
mod random;
pub mod replay;
mod report;
mod short;
pub mod source;
mod time;
mod wiring;
mod words;

pub use deadlock::{Blocked, Deadlock};
pub use engine::simulate;
pub use error::Error;
pub use live::{compute, now, run, Cluster, Crash, End, Faults, LinkOutage, Outage, Outcome, Wire};
pub use network::{
    ChannelRule, Crossbar, Dimension, Graph, GraphLink, Network, Parameters, Routing, RoutingTable, Ties,
    Topology,
};
pub use options::{Engine, EventQueue, Options, Pacing, Progress};
pub use patterns::{run_pattern, Pattern, PatternKind, Steps};
pub use program::{Gap, Handle, Op, Order, Script, Source, View, Wait, Workload};
pub use report::{
    Cause, Histogram, LinkUse, OperationKind, OperationRecord, Report, Sampling, Span, StepReport,
};
pub use short::set as set_parameter;
pub use time::{Bandwidth, Time};
