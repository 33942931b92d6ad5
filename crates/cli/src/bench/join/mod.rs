//! `kumiki bench join`: separate programs that join, beside bare sockets, MPI inside one job and between two, and ZeroMQ.
//!
//! | file | what |
//! |---|---|
//! | `catalogue.rs` | the metrics, and the bounds that must hold |
//! | `apart.rs` | starts programs that know nothing of each other |
//! | `rivals.rs` | the contenders, and how each is built and started |
//! | `memory.rs` | memory of a master and the roots of several MPI jobs in one world, beside `MPI_Comm_spawn` |
//!
//! What is measured is in `comm/ours.rs`, with the programs as one world, and in `comm/flat.rs`.

pub(super) mod apart;
mod catalogue;
mod memory;
mod rivals;

pub(super) use apart::stay_on_a_core;

use crate::commands::Outcome;

const EXAMPLES: &str = "\
Examples:
  kumiki bench join                         everything that can be compared here (about three minutes)
  kumiki bench join --quick --only join8    half a round trip of 8 bytes only; fewer and shorter samples
  kumiki bench join --peers none --json     no peers; one JSON object a line
  kumiki bench join --peers openmpi4,zeromq
  kumiki bench join --list                  the metrics, their units and their bounds
  kumiki bench join --memory --png memory.png
                                            memory of one world of several MPI jobs, beside MPI_Comm_spawn (some minutes)

Two programs are started by themselves and join, on one node through shared memory (shm) and as if on two machines (tcp, on loopback). Beside them:
bare sockets (the floor); MPI_Send and MPI_Recv inside one job; the same between two jobs (MPI_Comm_accept, `openmpi4-connect`); PAIR sockets
of ZeroMQ (`apt-get install libzmq3-dev`). Collectives are of 2 programs with 8 processes each, beside a binomial tree of 16 over bare sockets
(`flat`). `waitio` is Kumiki again, by its C interface with eight messages under way, and is not compared with. `./x peers` installs what to compare with; what is not there is left out. Memory has bounds, and the command fails (1) if one is missed.";

/// Separate programs that join: messages and collectives between them; memory of one world of several MPI jobs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct JoinArguments {
    /// What to compare with: auto (all found), none, or names such as openmpi4,mpich4,zeromq,waitio,flat.
    #[arg(long, value_name = "LIST", default_value = "auto")]
    peers: String,
    /// Measure no times, but the memory of a master and 32 workers in several MPI jobs.
    #[arg(long, conflicts_with_all = ["quick", "only", "samples", "list"])]
    memory: bool,
    /// With --memory: how the workers are grouped, as GROUPSxSIZE, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1x32,2x16,4x8,8x4,16x2,32x1", value_parser = memory::shape, requires = "memory")]
    groups: Vec<memory::Shape>,
    #[command(flatten)]
    options: super::Options,
}

pub(super) fn run(arguments: &JoinArguments) -> Outcome {
    crate::commands::warn_of_unknown_variables();
    let options = &arguments.options;
    if arguments.memory {
        return memory::run(&memory::Plan {
            shapes: arguments.groups.clone(),
            peers: arguments.peers.clone(),
            json: options.json,
            png: options.png.clone(),
        });
    }
    let metrics = super::catalogue::choose(catalogue::all(), options.only.as_deref())?;
    options.compare(&metrics, apart::joined, || rivals::find(&arguments.peers), false)
}
