//! `kumiki bench comm`: patterns of communication beside what MPI libraries have for them.
//!
//! | file | what |
//! |---|---|
//! | `catalogue.rs` | the metrics, and the bounds that must hold |
//! | `ours.rs`, `halo.rs` | a job that measures Kumiki |

mod catalogue;
mod halo;
mod ours;

pub(super) use ours::Comm;

use crate::commands::Outcome;

const EXAMPLES: &str = "\
Examples:
  kumiki bench comm                         everything, against every MPI found here
  kumiki bench comm --quick --only channel  channels only; fewer and shorter samples
  kumiki bench comm --peers none --json     no peers; one JSON object a line
  kumiki bench comm --list                  the metrics, their units and their bounds

Channels and messages are compared with MPI_Send and MPI_Recv, a sparse exchange with MPI_Reduce_scatter_block, MPI_Isend, MPI_Probe and
MPI_Recv, random updates with MPI_Accumulate, random reads with MPI_Get, a halo with MPI_Isend and MPI_Irecv of subarrays. On a node words
are updated and read through views, with bare words as the floor; between nodes by a stream and by lists, with a bare socket that carries
64 requests a write as the floor.";

/// Patterns of communication: channels, messages, batches of words, collectives, halos, sparse exchanges.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CommArguments {
    /// Which MPI libraries to compare with: auto (all found), none, or names such as openmpi4,mpich.
    #[arg(long, value_name = "LIST", default_value = "auto")]
    peers: String,
    #[command(flatten)]
    options: super::Options,
}

pub(super) fn run(arguments: &CommArguments) -> Outcome {
    crate::commands::warn_of_unknown_variables();
    let metrics = super::catalogue::choose(catalogue::all(), arguments.options.only.as_deref())?;
    arguments.options.compare(&metrics, || super::peers::rivals(&arguments.peers), false)
}
