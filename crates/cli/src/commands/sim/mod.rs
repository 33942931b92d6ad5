//! `kumiki sim`: the network simulator from the command line.
//!
//! | file | what |
//! |---|---|
//! | `input.rs` | programs and networks by whatever the user calls them, and the options that all runs share |
//! | `run.rs`, `report.rs`, `pictures.rs`, `progress.rs` | one run, and what is shown of it |
//! | `compare.rs` | several runs side by side |
//! | `pacing.rs` | the table and chart of docs/pacing.md |
//! | `calibrate.rs`, `predict.rs`, `real.rs` | the parameters of this machine, and prediction beside measurement |
//! | `format.rs` | the formatter of MGEN |

mod calibrate;
mod compare;
mod format;
mod input;
mod pacing;
mod pictures;
mod predict;
mod progress;
mod real;
mod report;
mod run;

use super::Outcome;
pub(crate) use real::rank;

const EXAMPLES: &str = "\
Examples:
  kumiki sim run shift-pairwise --net torus:8x8x8 --bytes 64K
  kumiki sim run examples/sim/programs/halo.mgen --net k-rack --ranks 64 --param bytes=16K
  kumiki sim compare ring halo --net torus:8x8 --net infiniband --ranks 64 --png nets.png
  kumiki sim fmt examples/sim/programs/halo.mgen

share/doc/kumiki/docs/mgen.md is the language of programs, share/doc/kumiki/examples has some; `kumiki sim run --help` lists patterns, networks \
and options.";

/// Predict what communication takes on a simulated network.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Run(Box<run::Arguments>),
    Compare(Box<compare::Arguments>),
    Calibrate(calibrate::Arguments),
    Predict(predict::Arguments),
    Pacing(pacing::Arguments),
    Fmt(format::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.what {
        What::Run(arguments) => run::run(arguments),
        What::Compare(arguments) => compare::run(arguments),
        What::Calibrate(arguments) => calibrate::run(arguments),
        What::Predict(arguments) => predict::run(arguments),
        What::Pacing(arguments) => pacing::run(arguments),
        What::Fmt(arguments) => format::run(arguments),
    }
}
