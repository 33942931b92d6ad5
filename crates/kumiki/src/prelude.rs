//! What most programs name: `use kumiki::prelude::*;`.

pub use crate::data::{Chunks, On, Spread};
pub use crate::data::{Counter, Deque, List, Map, Multiset, Set, SharedArray, TypedMap, Vector, Workspace};
pub use crate::{
    Error, GlobalAddress, GlobalPtr, Is, Order, Pod, Rank, Region, Shape, Wait, World, Zeroable,
};
