//! `kumiki sim run`: one simulation.

use super::input::{self, Settings};
use super::{pictures, progress, report};
use crate::commands::Outcome;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  kumiki sim run shift-pairwise --net torus:8x8x8 --bytes 64K --sync-steps
  kumiki sim run shift-pairwise --net torus:128x64 --bytes 16K --steps sample:17:1 --sync-steps --buffers 2 --pacing overlap
  kumiki sim run examples/sim/programs/halo.mgen --net infiniband --ranks 64 --param bytes=16K
  kumiki sim run examples/sim/programs/dissemination.goal --net fattree:levels=2,arity=8
  kumiki run -n 4 --virtual-nodes 4 --trace out.json ./heat && kumiki sim run out.json --net torus:4 --compute-scale 0.5

Programs: a file in MGEN (share/doc/kumiki/docs/mgen.md), a GOAL schedule (.goal), a trace of `kumiki run --trace` (.json), or a pattern:
  ring, shift-pairwise, xor-pairwise, alltoall, random-ring, random-permutation, halo, allreduce-ring,
  barrier-dissemination.
Networks: a file NAME.toml (share/doc/kumiki/examples/sim/networks), a preset (k, k-rack, fx10, infiniband, infiniband-tapered), or in short
  torus:8x8x8   mesh:16x16   fattree:levels=3,arity=16,taper=2   dragonfly:groups=9,routers=4,nodes=2,globals=2
  with parameters behind commas: torus:8x8,buffers=2,bandwidth=10GB/s.";

/// Simulate a program or a pattern on a network.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A pattern, or the file of a program (.mgen), a schedule (.goal) or a trace (.json).
    #[arg(value_name = "PROGRAM")]
    program: String,
    /// The network: a file, a preset, or a short form such as torus:8x8x8.
    #[arg(long, value_name = "NET")]
    net: String,
    #[command(flatten)]
    settings: Settings,
    /// Draw how busy the links of each router were, into this file.
    #[arg(long, value_name = "FILE.png")]
    heatmap: Option<PathBuf>,
    /// Write what each rank did when, for Perfetto and Chrome.
    #[arg(long, value_name = "FILE.json")]
    timeline: Option<PathBuf>,
    /// Use so many threads where steps are independent; 0 is one for each core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// One JSON object instead of a report.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let settings = &arguments.settings;
    input::check_parameters(settings, std::iter::once(&arguments.program))?;
    let network = input::network(&arguments.net, settings)?;
    let program = input::program(&arguments.program, &network, settings)?;
    let shown = progress::Bar::new(!arguments.json);
    let tell = |progress: &kumiki_sim::Progress| shown.tell(progress);
    let mut options = input::options(settings);
    options.threads = arguments.threads;
    options.record_timeline = arguments.timeline.is_some();
    options.record_operations = arguments.timeline.is_some();
    options.progress = Some(&tell);
    let done = program.run(&network, &options);
    shown.clear();
    let made = done?;
    let parameters = report::parameters(&made, program.parameters(settings));
    if let Some(path) = &arguments.heatmap {
        pictures::heat_map(&made, &network, path)?;
    }
    if let Some(path) = &arguments.timeline {
        pictures::time_line(&made, path)?;
    }
    match arguments.json {
        true => super::super::print(&format!("{}\n", report::json(&made, &parameters))),
        false => super::super::print(&report::text(&made, &network, &parameters)),
    }
}
