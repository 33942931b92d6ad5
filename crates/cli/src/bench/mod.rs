//! `kumiki bench`: what global memory costs, beside the bare machine and other libraries, in one run.
//!
//! | file | what |
//! |---|---|
//! | `catalogue.rs` | the metrics, and the bounds that must hold |
//! | `harness.rs` | takes the samples, contender after contender, round after round |
//! | `contender.rs` | a process that measures what it is told, line by line |
//! | `peers.rs` | the MPI libraries of this machine, and how each is built and started |
//! | `workshop.rs` | where programs of peers are built and kept |
//! | `launch.rs` | start-up time and memory, which need a job for each sample |
//! | `report.rs` | rows, ratios, tables, JSON and the chart |
//! | `data/`, `comm/` | the same for data structures, and for patterns of communication |
//! | `join/` | the same for separate programs that join |
//! | `array/` | the same for distributed arrays, in Rust and in translated C |
//! | `pacing.rs` | senders that meet at one receiver, in network namespaces with shaped cables |
//! | `sim.rs` | the simulator, beside SimGrid |
//! | `worker.rs`, `ours.rs`, `between.rs`, `floor.rs` | the other side: a job that measures Kumiki or the bare machine |

mod array;
mod between;
mod catalogue;
pub(crate) mod comm;
mod contender;
mod data;
mod floor;
mod harness;
mod join;
mod launch;
mod ours;
mod pacing;
mod peers;
mod primitives;
mod report;
mod sim;
mod statistics;
mod worker;
mod workshop;

use crate::commands::Outcome;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  kumiki bench mem                          everything, against every MPI found here (about ten minutes)
  kumiki bench mem --quick                  fewer and shorter samples (about two minutes)
  kumiki bench mem --only put8,barrier      the metrics whose name contains put8 or barrier
  kumiki bench mem --peers none --json      no peers; one JSON object a line
  kumiki bench mem --peers mpich,impi --png bench.png
  kumiki bench mem --list                   the metrics, their units and their bounds

Every ratio is such that under 1 is better than the other, also for bandwidth. The spread is the distance between the
quartiles of Kumiki's samples, in per cent of the median. `./x peers` installs the MPI libraries to compare with.";

/// Measure Kumiki beside the bare machine and other libraries.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  kumiki bench mem --quick --peers none    global memory against the bare machine, in a minute"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Mem(MemArguments),
    Data(data::DataArguments),
    Comm(comm::CommArguments),
    Join(join::JoinArguments),
    Array(array::ArrayArguments),
    Pacing(pacing::Arguments),
    Sim(sim::Arguments),
    /// A rank of `kumiki bench pacing`.
    #[command(hide = true)]
    PacingRank(pacing::RankArguments),
    /// Measures what rank 0 reads from standard input; `kumiki bench mem` starts it.
    #[command(hide = true)]
    Worker(worker::Arguments),
    /// Starts programs that know nothing of each other; `kumiki bench join` starts it.
    #[command(hide = true)]
    Apart(join::apart::Arguments),
}

/// Global memory: put, get, atomics, bandwidth, barrier, start-up, memory.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MemArguments {
    /// Which MPI libraries to compare with: auto (all found), none, or names such as openmpi4,mpich.
    #[arg(long, value_name = "LIST", default_value = "auto")]
    peers: String,
    #[command(flatten)]
    options: Options,
    /// Start peers with 256 ranks too: each takes up to a minute of the whole machine.
    #[arg(long)]
    startup_peers: bool,
}

/// What every comparison can be told.
#[derive(clap::Args)]
struct Options {
    /// Fewer and shorter samples.
    #[arg(long)]
    quick: bool,
    /// Only metrics whose name contains this; several are separated by commas.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Samples of each contender. Without it those that take a moment are taken more often.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: Option<u32>,
    /// One JSON object a line instead of tables.
    #[arg(long)]
    json: bool,
    /// Draw the ratios as a chart into this file.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// List the metrics and their bounds, and measure nothing.
    #[arg(long)]
    list: bool,
}

impl Options {
    /// Measures these metrics and reports them, or lists them if that is all that is asked for.
    fn compare(
        &self,
        metrics: &[catalogue::Metric],
        ours: harness::Ours,
        peers: impl FnOnce() -> Result<Vec<Box<dyn harness::Rival>>, String>,
        startup_peers: bool,
    ) -> Outcome {
        if self.list {
            return report::list(metrics);
        }
        let samples = self.samples.unwrap_or(if self.quick { 3 } else { 9 });
        let fills_time = self.samples.is_none();
        let plan = harness::Plan { samples, fills_time, ours, peers: peers()?, startup_peers };
        let mut report = report::Report::new(self.json);
        harness::run(&plan, metrics, &mut report)?;
        report.finish()?;
        if let Some(path) = &self.png {
            report.draw(path)?;
        }
        Ok(0)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.what {
        What::Mem(arguments) => mem(arguments),
        What::Data(arguments) => data::run(arguments),
        What::Comm(arguments) => comm::run(arguments),
        What::Pacing(arguments) => pacing::run(arguments),
        What::PacingRank(arguments) => pacing::rank(arguments),
        What::Sim(arguments) => sim::run(arguments),
        What::Join(arguments) => join::run(arguments),
        What::Array(arguments) => array::run(arguments),
        What::Apart(arguments) => join::apart::run(arguments),
        What::Worker(arguments) => worker::serve(arguments),
    }
}

fn mem(arguments: &MemArguments) -> Outcome {
    crate::commands::warn_of_unknown_variables();
    let options = &arguments.options;
    let metrics = catalogue::select(options.only.as_deref(), options.quick)?;
    options.compare(&metrics, launch::worker, || peers::rivals(&arguments.peers), arguments.startup_peers)
}
