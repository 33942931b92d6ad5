//! Data structures in global memory.
//!
//! Each structure is code over [`Local`](kumiki_mem::Local): a rank of the owner's node runs it itself, on the shared
//! memory; for a rank of another node the owner runs it as a service, so that an operation is one round trip. Where a
//! structure lives is an argument, never a change of algorithm.
//!
//! | file | what |
//! |---|---|
//! | `vector.rs`, `deque.rs` | elements on one rank |
//! | `sequence.rs` | what their handles share |
//! | `ring.rs` | the bytes of both, on this node |
//! | `map.rs`, `set.rs`, `multiset.rs` | hash tables spread over ranks |
//! | `table/` | what they share; `crc.rs` places their keys |
//! | `heap.rs` | global malloc and free: the allocator of each rank's pool |
//! | `message.rs` | requests and replies as bytes |

mod crc;
mod deque;
mod heap;
mod map;
mod message;
mod multiset;
mod ring;
mod sequence;
mod set;
mod table;
mod vector;

pub use deque::Deque;
pub use heap::HeapUse;
pub use map::{Insert, Map, MapIter, TypedMap};
pub use multiset::{Multiset, MultisetIter};
pub use sequence::Elements;
pub use set::{Set, SetIter};
pub(crate) use table::Directories;
pub use table::{Cursor, Extent, RawTable};
pub use vector::Vector;

use kumiki_mem::Service;

/// The numbers of the services.
pub(crate) const HEAP: u8 = 0;
pub(crate) const VECTOR: u8 = 1;
pub(crate) const DEQUE: u8 = 2;
pub(crate) const TABLE: u8 = 3;

/// What every rank does for the others, by number.
pub(crate) static SERVICES: &[Service] = &[
    Service { name: "heap", serve: heap::serve },
    Service { name: "vector", serve: ring::serve_vector },
    Service { name: "deque", serve: ring::serve_deque },
    Service { name: "table", serve: table::serve },
];
