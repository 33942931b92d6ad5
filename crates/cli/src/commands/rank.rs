//! `kumiki rank`: what the ranks of `kumiki demo` and `kumiki mem` do. These commands start it; it is of no use by hand.

use super::{demo, Outcome};
use kumiki::World;

/// A rank of a job that another command starts.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    work: Work,
}

#[derive(clap::Subcommand)]
enum Work {
    /// Join the world, meet the others, and leave.
    Probe,
    /// Solve a part of the heat problem.
    Demo(demo::Problem),
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.work {
        Work::Probe => probe().map(|()| 0).map_err(|error| error.to_string()),
        Work::Demo(problem) => demo::rank(problem),
    }
}

fn probe() -> kumiki::Result<()> {
    let world = World::init()?;
    world.sync()?;
    world.finalize()
}
