//! `kumiki bench data`: the data structures beside the C++ library in one process and Redis on loopback.
//!
//! | file | what |
//! |---|---|
//! | `catalogue.rs` | the metrics, and the bounds that must hold |
//! | `ours.rs` | a job that measures Kumiki |
//! | `redis.rs` | a job of as many clients, and the server that they ask |
//! | `rivals.rs` | how the contenders are built and started |

mod catalogue;
mod ours;
mod redis;
mod rivals;

pub(super) use ours::Data;
pub(super) use redis::Redis;

use crate::commands::Outcome;

/// Keys of the maps, on each side.
const KEYS: u64 = 100_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 64;
/// Keys of a batch.
const BATCH: u64 = 256;

const EXAMPLES: &str = "\
Examples:
  kumiki bench data                     everything that can be compared here (about two minutes)
  kumiki bench data --only map --json   the maps; one JSON object a line
  kumiki bench data --list              the metrics, their units and their bounds

The C++ library is measured by a small program that g++ builds; Redis by `redis-server` (`apt-get install redis-server`),
which is started on loopback for the time of the run, with one client for each rank. What is not there is left out.";

/// Data structures: malloc, map, vector, beside the C++ library and Redis.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DataArguments {
    /// Which peers to compare with: auto (all found), none, or std, redis.
    #[arg(long, value_name = "LIST", default_value = "auto")]
    peers: String,
    #[command(flatten)]
    options: super::Options,
}

pub(super) fn run(arguments: &DataArguments) -> Outcome {
    crate::commands::warn_of_unknown_variables();
    let metrics = super::catalogue::choose(catalogue::all(), arguments.options.only.as_deref())?;
    arguments.options.compare(&metrics, super::launch::worker, || rivals::find(&arguments.peers), false)
}

/// The i-th key, the same for every contender.
fn key(index: u64) -> [u8; 8] {
    (index % KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}
