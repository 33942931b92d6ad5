//! `kumiki bench array`: distributed arrays beside plain loops, and beside what is written by hand with MPI.
//!
//! | file | what |
//! |---|---|
//! | `catalogue.rs` | the metrics, and the bounds that must hold |
//! | `ours.rs`, `himeno.rs`, `nas.rs` | a job that measures arrays in Rust |
//! | `rivals.rs` | MPI by hand (`benches/peers/array.c`), and translated XcalableMP C (`benches/xmp/array.c`) |

mod catalogue;
mod himeno;
mod nas;
mod ours;
mod rivals;

pub(super) use ours::Arrays;

use crate::commands::Outcome;

const EXAMPLES: &str = "\
Examples:
  kumiki bench array                        everything, against every MPI found here (some minutes)
  kumiki bench array --quick --only reflect exchanges of shadows only; fewer and shorter samples
  kumiki bench array --translated           translated XcalableMP C instead of arrays in Rust
  kumiki bench array --peers none --json    no peers; one JSON object a line
  kumiki bench array --list                 the metrics, their units and their bounds

Loops over arrays are compared with the same loops over plain memory; reflect with MPI_Isend and MPI_Irecv of subarrays, moves with MPI_Alltoallv and packing by hand,
reductions with MPI_Allreduce; Himeno, CG and EP with programs for MPI. `xmp` is translated C beside arrays in Rust, and is not compared with.";

/// Distributed arrays: loops, reflect, moves, reductions, and whole programs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ArrayArguments {
    /// What to compare with: auto (all found), none, or names such as openmpi4,mpich4,xmp.
    #[arg(long, value_name = "LIST", default_value = "auto")]
    peers: String,
    /// Measure translated XcalableMP C, not arrays in Rust.
    #[arg(long)]
    translated: bool,
    #[command(flatten)]
    options: super::Options,
}

pub(super) fn run(arguments: &ArrayArguments) -> Outcome {
    crate::commands::warn_of_unknown_variables();
    let options = &arguments.options;
    let translated = arguments.translated;
    let metrics = super::catalogue::choose(catalogue::all(translated), options.only.as_deref())?;
    let ours = if translated { rivals::translated } else { super::launch::worker };
    options.compare(&metrics, ours, || rivals::find(&arguments.peers, translated), false)
}
