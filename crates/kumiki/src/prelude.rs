//! What most programs name: `use kumiki::prelude::*;`.

pub use crate::data::{Counter, Deque, List, Map, Multiset, Set, TypedMap, Vector, Workspace};
pub use crate::{Error, GlobalAddress, GlobalPtr, Order, Pod, Rank, Region, World, Zeroable};
