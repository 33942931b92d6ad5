//! Global memory: raw remote bytes in, checked handles out.
//!
//! This crate is the soundness boundary of Kumiki. Below it are shared mappings and frames; above it is safe code that
//! cannot touch memory it was not given. Users name the crate `kumiki`, which gives all of this on.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | [`World`]: init, finalize, who is who, the ledger |
//! | `operations.rs` | what a program does with memory |
//! | `address.rs` | [`GlobalAddress`], [`GlobalPtr`] |
//! | `region.rs`, `slots.rs`, `heap.rs` | memory that others can address, its place in the table, and where it is taken from |
//! | `access.rs`, `neighbours.rs` | from an address to a pointer, with every check; the memories of other processes |
//! | `copy.rs`, `atomic.rs`, `errand.rs` | touching memory |
//! | `handle.rs`, `table.rs`, `order.rs` | operations that are not complete, and what they wait for |
//! | `serve.rs`, `protocol.rs` | what frames mean and what is done when they come |
//! | `local.rs`, `pool.rs` | memory of this node in the hands of safe code: spans, locks, the pool of each rank |
//! | `call.rs` | work that another rank does for us: services and calls |
//! | `progress.rs`, `barrier.rs` | who polls, who sleeps, how all ranks meet |
//! | `ledger.rs`, `measure.rs` | what it all costs |

mod access;
mod address;
mod atomic;
mod barrier;
mod call;
mod copy;
mod core;
mod errand;
mod error;
mod handle;
mod heap;
#[cfg(test)]
mod hostile;
mod ledger;
mod local;
mod measure;
mod neighbours;
mod operations;
mod order;
mod plain;
mod pool;
mod progress;
mod protocol;
mod region;
#[cfg(test)]
mod region_promises;
mod serve;
mod slots;
mod table;
mod world;

pub use address::{GlobalAddress, GlobalPtr, SLOT_BITS};
pub use atomic::{AtomicOp, AtomicWord};
pub use call::{Call, Service};
pub use error::{Error, Fate, Result};
pub use handle::Handle;
pub use kumiki_net::agent::bootstrap::{Attachment, STARTER_BYTES};
pub use kumiki_net::agent::portfile::Part;
pub use kumiki_net::Rank;
pub use ledger::{Booking, Entry, Ledger, Purpose};
pub use local::{Change, Local, Locked, Span};
pub use order::Order;
pub use plain::{Pod, Zeroable};
pub use pool::{Pool, PoolAddresses, PoolSpan};
pub use region::{Lent, Region, RegionKey, Registered};
pub use world::World;
