//! The memory of this node: what a process does with memory that it can touch itself, without a message.
//!
//! | file | what |
//! |---|---|
//! | `address.rs` | [`GlobalAddress`](crate::GlobalAddress), [`GlobalPtr`](crate::GlobalPtr) |
//! | `region.rs`, `slots.rs`, `heap.rs` | memory that others can address, its place in the table, and where it is taken from |
//! | `cells.rs` | registered memory in the hands of its owner |
//! | `access.rs`, `neighbours.rs` | from an address to a pointer, with every check; the memories of other processes |
//! | `copy.rs`, `atomic.rs` | touching memory |
//! | `local.rs`, `pool.rs` | memory of this node in the hands of safe code: spans, locks, the pool of each rank |
//! | `view.rs` | regions that are pinned once and then touched at the speed of the machine |
//! | `ledger.rs` | what it all costs |

pub(crate) mod access;
pub(crate) mod address;
pub(crate) mod atomic;
pub(crate) mod cells;
pub(crate) mod copy;
pub(crate) mod heap;
pub(crate) mod ledger;
pub(crate) mod local;
pub(crate) mod neighbours;
pub(crate) mod pool;
pub(crate) mod region;
#[cfg(test)]
mod region_promises;
pub(crate) mod slots;
pub(crate) mod view;
