//! `kumiki agent`: the agent of a node. The launcher starts it; it is of no use by hand.

use super::Outcome;
use kumiki_net::os::{descriptor, memory};
use std::os::fd::AsFd;

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
    let (input, output) = match arguments.fd {
        Some(number) => {
            let fd = descriptor::adopt(number).map_err(|error| format!("agent --fd {number}: {error}"))?;
            descriptor::set_close_on_exec(fd.as_fd(), true).map_err(|error| error.to_string())?;
            (memory::duplicate(fd.as_fd()), Ok(fd))
        }
        // Duplicates are close-on-exec, so that no rank inherits the control stream.
        None => (memory::duplicate(std::io::stdin().as_fd()), memory::duplicate(std::io::stdout().as_fd())),
    };
    let input = input.map_err(|error| error.to_string())?;
    let output = output.map_err(|error| error.to_string())?;
    Ok(kumiki_net::agent::process::serve(input, output))
}
