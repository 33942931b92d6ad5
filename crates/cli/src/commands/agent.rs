//! `kumiki agent`: the agent of a node. The launcher starts it; it is of no use by hand.

use super::Outcome;

/// The agent of a node; started by `kumiki run`.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Arguments {
    /// Talk to the launcher over this inherited descriptor.
    #[arg(long)]
    fd: Option<i32>,
    /// Talk to the launcher over standard input and output.
    #[arg(long)]
    stdio: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    kumiki_run::agent::serve(arguments.fd).map_err(|error| format!("agent: {error}"))
}
