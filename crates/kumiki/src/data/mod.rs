//! Data structures in global memory.
//!
//! Each structure is code over [`Local`](kumiki_mem::Local): a rank of the owner's node runs it itself, on the shared
//! memory; for a rank of another node the owner runs it as a service, so that an operation is one round trip. Where a
//! structure lives is an argument, never a change of algorithm.
//!
//! | file | what |
//! |---|---|
//! | `heap.rs` | global malloc and free: the allocator of each rank's pool |
//! | `message.rs` | requests and replies as bytes |

mod heap;
mod message;

pub use heap::HeapUse;

use kumiki_mem::Service;

/// The number of the heap's service.
pub(crate) const HEAP: u8 = 0;

/// What every rank does for the others, by number.
pub(crate) static SERVICES: &[Service] = &[Service { name: "heap", serve: heap::serve }];
