//! Data structures in global memory.
//!
//! Each structure is code over [`Local`](kumiki_mem::Local): a rank of the owner's node runs it itself, on the shared
//! memory; for a rank of another node the owner runs it as a service, so that an operation is one round trip. Where a
//! structure lives is an argument, never a change of algorithm.
//!
//! | file | what |
//! |---|---|
//! | `vector.rs`, `deque.rs` | elements on one rank |
//! | `list/` | elements on the ranks that the program says |
//! | `workspace.rs` | one block over all ranks |
//! | `shared_array.rs` | a typed block on each rank |
//! | `agreement.rs` | how all ranks come to use one thing |
//! | `counter.rs` | a number that all ranks draw from |
//! | `sequence.rs` | what their handles share |
//! | `ring/` | the bytes of both, on this node |
//! | `map.rs`, `set.rs`, `multiset.rs` | hash tables spread over ranks |
//! | `serde_map.rs` | maps of any types that serde knows (feature `serde`) |
//! | `table/` | what they share; `crc.rs` places their keys |
//! | `heap/` | global malloc and free: the allocator of each rank's pool |
//! | `options.rs` | the arguments of constructors |
//! | `message.rs` | requests and replies as bytes |

pub(crate) mod agreement;
mod counter;
mod crc;
mod deque;
pub(crate) mod heap;
mod list;
mod map;
pub(crate) mod message;
mod multiset;
mod options;
mod ring;
mod sequence;
#[cfg(feature = "serde")]
mod serde_map;
mod set;
mod shared_array;
mod table;
mod vector;
mod workspace;

pub use counter::Counter;
pub use deque::Deque;
pub use heap::HeapUse;
pub use list::{Element, List, Payloads, Position};
pub use map::{Insert, Map, MapIter, TypedMap, TypedMapIter};
pub use multiset::{Multiset, MultisetIter};
pub use options::{Chunks, On, Spread};
pub use sequence::Elements;
#[cfg(feature = "serde")]
pub use serde_map::{SerdeMap, SerdeMapIter};
pub use set::{Set, SetIter};
pub use shared_array::SharedArray;
pub(crate) use table::Directories;
pub use table::{Cursor, Extent, RawTable, LARGEST_ITEM};
pub use vector::Vector;
pub use workspace::{Chunk, RawWorkspace, Workspace};

/// The numbers of the services, in `services.rs`.
pub(crate) const HEAP: u8 = 0;
pub(crate) const VECTOR: u8 = 1;
pub(crate) const DEQUE: u8 = 2;
pub(crate) const TABLE: u8 = 3;
pub(crate) const LIST: u8 = 4;

pub(crate) use list::chain::serve as serve_list;
pub(crate) use ring::{serve_deque, serve_vector};
pub(crate) use table::serve as serve_table;
