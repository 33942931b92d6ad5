//! Who is who.

use super::World;
use crate::{GlobalAddress, Rank};

impl World {
    /// This rank's number.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.memory.rank()
    }

    /// How many ranks there are.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.memory.ranks()
    }

    /// The index of this rank's node.
    pub fn node(&self) -> u32 {
        self.memory.node()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.memory.nodes()
    }

    /// The node of a rank; `None` if there is no such rank.
    pub fn node_of(&self, rank: Rank) -> Option<u32> {
        self.memory.node_of(rank)
    }

    /// The ranks of this rank's node, in order.
    pub fn node_ranks(&self) -> Vec<Rank> {
        self.memory.node_ranks()
    }

    /// The rank that owns an address; `None` for null and for ranks that do not exist.
    pub fn rank_of(&self, address: GlobalAddress) -> Option<Rank> {
        self.memory.rank_of(address)
    }
}
