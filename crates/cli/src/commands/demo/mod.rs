//! `kumiki demo`: several processes solve a heat problem in one global memory, and show what it took.
//!
//! `heat.rs` is the problem, `rank.rs` what each process does, `report.rs` what is printed and drawn.

mod heat;
mod rank;
mod report;

use super::job::Job;
use super::Outcome;
use kumiki_run::system;
pub(crate) use rank::rank;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The picture of the field.
const FIELD_PICTURE: &str = "heat.png";
/// The picture of the ledger.
const LEDGER_PICTURE: &str = "ledger.png";

const EXAMPLES: &str = "\
Examples:
  kumiki demo                        four processes, heat.png and ledger.png here
  kumiki demo --virtual-nodes 2      the same with TCP between two halves of them
  kumiki demo --ranks 8 --size 1024 --steps 4000 --out /tmp
  kumiki demo --json

Each process keeps a block of rows. In every step it puts its outermost rows into the memory of its neighbours, without \
their help, and meets them at a barrier. The result is checked against one process that does it all.";

/// Solve a heat problem with several processes in one global memory.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Number of processes.
    #[arg(short = 'n', long, value_name = "N", value_parser = super::run::ranks, default_value_t = 4, env = "KUMIKI_RANKS", hide_env = true)]
    ranks: u32,
    /// Make this many nodes of this one machine, with TCP between them.
    #[arg(long, value_name = "K", value_parser = super::run::count, env = "KUMIKI_VIRTUAL_NODES", hide_env = true)]
    virtual_nodes: Option<u32>,
    #[command(flatten)]
    problem: Problem,
}

/// What is to be solved, and where the results go.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Problem {
    /// Points of the grid in each direction.
    #[arg(long, value_name = "N", value_parser = super::run::count, default_value_t = 512, value_parser = clap::value_parser!(u32).range(8..=16384))]
    size: u32,
    /// Steps in time.
    #[arg(long, value_name = "N", value_parser = super::run::count, default_value_t = 2000)]
    steps: u32,
    /// Folder for the pictures.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Problem {
    /// The problem as words for the ranks.
    fn words(self) -> [OsString; 4] {
        [
            self.size.to_string().into(),
            self.steps.to_string().into(),
            self.json.to_string().into(),
            self.out.into_os_string(),
        ]
    }

    /// The problem from such words.
    fn from_words(words: &[OsString]) -> Option<Problem> {
        let [size, steps, json, out] = words else { return None };
        Some(Problem {
            size: size.to_str()?.parse().ok()?,
            steps: steps.to_str()?.parse().ok()?,
            json: json.to_str()?.parse().ok()?,
            out: out.into(),
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Problem { size, out, .. } = &arguments.problem;
    if arguments.ranks > *size {
        return Err(format!("--ranks {}: a grid of {size} rows has work for {size} ranks", arguments.ranks));
    }
    let out = check_folder(out)?;
    let mut words = super::rank::words("demo");
    let problem = Problem { out, ..arguments.problem.clone() };
    words.extend(problem.words());
    let (ranks, virtual_nodes) = (arguments.ranks, arguments.virtual_nodes);
    Job { ranks, virtual_nodes, arguments: words, ..Job::default() }.run()
}

/// Makes sure, before the work starts, that the pictures can be written.
fn check_folder(folder: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| {
        format!(
            "--out {}: cannot write there ({error}); name a folder that you may write to",
            folder.display()
        )
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let folder = std::path::absolute(folder).map_err(failed)?;
    // The pictures are written beside what is there, and then take its place.
    [FIELD_PICTURE, LEDGER_PICTURE]
        .iter()
        .try_for_each(|name| system::can_replace(&folder.join(name)))
        .map_err(failed)?;
    Ok(folder)
}
