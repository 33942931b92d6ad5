//! `kumiki top`: the worlds that run now on this machine, of this user, and who waits for whom in them.
//!
//! Nobody is asked: no agent and no rank notices it. Ranks keep what is shown here in the shared memory of their node, which is found among the
//! descriptors of this user's processes, and read as a file (`net/src/shm/glance.rs`).
//!
//! | file | what |
//! |---|---|
//! | `worlds.rs` | what runs, as values |
//! | `waits.rs` | who waits for whom: chains and circles |
//! | `page.rs` | all of it as text |
//! | `json.rs` | and as JSON |
//! | `screen.rs` | the terminal |

mod json;
mod page;
mod screen;
mod waits;
mod worlds;

use super::Outcome;
use std::io::IsTerminal;

const EXAMPLES: &str = "\
Examples:
  kumiki top                            every second, until q or Ctrl-C
  kumiki top --once                     one table, and end; so it is, too, where the output is no terminal
  kumiki top --json | jq '.worlds[].members[] | {rank, waits}'
  kumiki top --json | jq '.worlds[].circles'          who waits for each other: perhaps for ever

MEMORY is what the rank's ledger holds (with --budget: of how much). SENT and RECEIVED are messages (kumiki::comm, kumiki::join, WaitIO), KEPT those that \
have come and nobody has asked for, RECV receives that are posted, SEND messages that are not on their way or not fetched, OPS operations on global \
memory that are not complete: each as of the last time that the rank waited for a message, or after some dozen messages. Ranks of joined programs are \
BLOCK.RANK. Programs that still wait for other blocks in the roll call are not shown yet: they say themselves for whom they wait. Of ranks on other \
machines is known where they are; run it there, too.

Waits in a circle (CIRCLE; circles in JSON) are named when each has lasted for a second: a deadlock, unless another thread of theirs goes on or a wait has \
a time limit.";

/// Show the worlds that run here now: memory, messages, who waits for whom.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print one table and end.
    #[arg(long)]
    once: bool,
    /// Print one JSON object and end.
    #[arg(long, conflicts_with = "once")]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.json {
        return super::print(&format!("{:#}\n", json::of(&worlds::now())));
    }
    if arguments.once || !std::io::stdout().is_terminal() {
        return super::print(&(page::of(&worlds::now()).join("\n") + "\n"));
    }
    screen::run()
}
