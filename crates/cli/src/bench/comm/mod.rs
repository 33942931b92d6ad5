//! `kumiki bench comm`: patterns of communication beside what MPI libraries and Lamellar have for them.
//!
//! | file | what |
//! |---|---|
//! | `catalogue.rs` | the metrics, and the bounds that must hold |
//! | `ours.rs`, `halo.rs` | a job that measures Kumiki |
//! | `lamellar.rs` | Lamellar, for batches |
//! | `flat.rs` | collectives over bare sockets, for `kumiki bench join` |
//! | `memory.rs`, `crowd.rs` | memory of many ranks that send to each other, and what each of them does |

mod catalogue;
pub(crate) mod crowd;
mod flat;
mod halo;
mod lamellar;
mod memory;
mod ours;

pub(super) use flat::FLAT;
pub(super) use ours::{text, together, Comm, Done, WINDOW};

use crate::commands::Outcome;

const EXAMPLES: &str = "\
Examples:
  kumiki bench comm                         everything, against every MPI found here, and Lamellar
  kumiki bench comm --quick --only channel  channels only; fewer and shorter samples
  kumiki bench comm --peers none --json     no peers; one JSON object a line
  kumiki bench comm --only gather,histogram --peers lamellar
  kumiki bench comm --list                  the metrics, their units and their bounds
  kumiki bench comm --memory                memory of 16 to 1,024 ranks that each send to every other (some minutes)
  kumiki bench comm --memory --ranks 32 --peers none --json

Channels and messages are compared with MPI_Send and MPI_Recv, a sparse exchange with MPI_Reduce_scatter_block, MPI_Isend, MPI_Probe and
MPI_Recv, random updates with MPI_Accumulate, random reads with MPI_Get, both on a node also with batches of Lamellar, a halo with MPI_Isend
and MPI_Irecv of subarrays. On a node words are updated and read through views, with bare words as the floor; between nodes by a stream and
by lists, with a bare socket that carries 64 requests a write as the floor. Collectives are measured behind the calls in which a group
tries its algorithms. Memory of messages has a bound, and the command fails (1) if it
is missed.";

/// Patterns of communication: channels, messages, batches of words, collectives, halos, sparse exchanges.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CommArguments {
    /// Which libraries to compare with: auto (all found), none, or names such as openmpi4,mpich,lamellar.
    #[arg(long, value_name = "LIST", default_value = "auto")]
    peers: String,
    /// Measure no times, but the memory of many ranks of which each sends one message to every other.
    #[arg(long, conflicts_with_all = ["quick", "only", "samples", "list"])]
    memory: bool,
    /// With --memory: numbers of ranks, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "16,64,256,1024", value_parser = crate::commands::run::ranks, requires = "memory")]
    ranks: Vec<u32>,
    #[command(flatten)]
    options: super::Options,
}

pub(super) fn run(arguments: &CommArguments) -> Outcome {
    crate::commands::warn_of_unknown_variables();
    if arguments.memory {
        return memory::run(&memory::Plan {
            ranks: arguments.ranks.clone(),
            peers: arguments.peers.clone(),
            json: arguments.options.json,
            png: arguments.options.png.clone(),
        });
    }
    let metrics = super::catalogue::choose(catalogue::all(), arguments.options.only.as_deref())?;
    arguments.options.compare(
        &metrics,
        super::launch::worker,
        || lamellar::rivals(&arguments.peers, &metrics),
        false,
    )
}
