//! Global memory: raw remote bytes in, checked handles out.
//!
//! This crate is the soundness boundary of Kumiki. Below it are shared mappings and frames; above it is safe code that
//! cannot touch memory it was not given. Users name the crate `kumiki`, which gives all of this on.
//!
//! Three rooms, and arrows between them that point one way: `drive` → `engine` → `node`.
//!
//! | room | what |
//! |---|---|
//! | `node/` | memory that this process can touch: addresses, regions, copies, atomics, locks, pools, the ledger |
//! | `engine/` | operations that need another rank, frames, calls |
//! | `drive/` | waiting, the service thread, the transport, [`World`] |

mod drive;
mod engine;
mod error;
mod node;
mod plain;

pub use drive::accounts::Booking;
pub use drive::call::{Call, Posted};
pub use drive::cells::Celled;
pub use drive::loans::Loan;
pub use drive::pending::{Completion, Pending, Scope};
pub use drive::region::{Lent, Region, RegionKey, Registered};
pub use drive::team::Team;
pub use drive::vouched::Vouched;
pub use drive::word::{Is, ShownWait, Until, Wait};
pub use drive::world::World;
pub use drive::world::{place_in_job, start_mpi, stop_mpi, variable};
pub use engine::calls::Service;
pub use engine::operations::Handle;
pub use engine::order::Order;
pub use engine::teams::Members;
pub use error::{Error, Fate, Result};
pub use kumiki_net::agent::blocks::Summons;
pub use kumiki_net::agent::bootstrap::{Attachment, Hosting, STARTER_BYTES};
pub use kumiki_net::agent::portfile::Part;
pub use kumiki_net::codec;
pub use kumiki_net::contract::{Leeway, LETTER_BYTES, LONG_LETTER_BYTES};
pub use kumiki_net::environment::parse_duration;
#[doc(hidden)]
pub use kumiki_net::os::memory::prefer_huge_pages;
#[doc(hidden)]
pub use kumiki_net::os::process::is_forked_child;
pub use kumiki_net::shm::board::Traffic;
pub use kumiki_net::shm::control::Activity;
pub use kumiki_net::Rank;
pub use node::address::{GlobalAddress, GlobalPtr, SLOT_BITS};
pub use node::atomic::{AtomicOp, AtomicWord};
pub use node::batch::{serve as serve_batch, Batch, Done, Outcome, WordTask};
pub use node::ledger::{Entry, Ledger, Purpose};
pub use node::local::{fetch_to_read, fetch_to_write, Change, Local, Locked, Span};
pub use node::mark::Mark;
pub use node::pool::{Pool, PoolAddresses, PoolSpan};
pub use node::shape::{Shape, MOST_DIMENSIONS};
pub use node::view::View;
pub use plain::{Located, Pod, Zeroable};

/// What the fuzzer runs.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::engine::storm::run as engines;
}
