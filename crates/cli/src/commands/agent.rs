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
    /// Keep the agent or the hub of programs that join, which a rank hands over by standard input.
    #[arg(long)]
    host: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.host {
        return kumiki_run::agent::host().map_err(|error| format!("agent: {error}"));
    }
    kumiki_run::agent::serve(arguments.fd).map_err(|error| format!("agent: {error}"))
}
