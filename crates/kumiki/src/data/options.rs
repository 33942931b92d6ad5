//! Where a structure is made and how large, by name: the arguments of constructors.

use crate::{Rank, World};

/// One rank, and how many elements: where a vector or a deque is made.
///
/// ```
/// use kumiki::data::{Deque, On, Vector};
///
/// # fn main() -> kumiki::Result<()> {
/// # let world = kumiki::World::init()?;
/// let empty = Vector::<u64>::create(&world, On::rank(0))?;
/// let roomy = Deque::<u64>::create(&world, On::rank(0).elements(100))?;
/// assert_eq!((empty.len()?, roomy.len()?, roomy.capacity()?), (0, 0, 100));
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct On {
    pub(crate) rank: Rank,
    pub(crate) elements: usize,
}

impl On {
    /// On this rank, with no elements.
    pub const fn rank(rank: Rank) -> On {
        On { rank, elements: 0 }
    }

    /// With so many elements: a vector has them, a deque has room for them.
    pub const fn elements(mut self, count: usize) -> On {
        self.elements = count;
        self
    }
}

/// The ranks that a hash table is spread over, and how many slots it has on each.
///
/// A key belongs to one slot, and a slot is a list: with as many slots as keys that is short. The table does not grow
/// slots, and a slot takes 40 bytes.
///
/// ```
/// use kumiki::data::{Map, Set, Spread};
///
/// # fn main() -> kumiki::Result<()> {
/// # let world = kumiki::World::init()?;
/// let map = Map::create(&world, Spread::everywhere().slots(10_000))?;
/// let small = Set::create(&world, Spread::over(&[0]).slots(16).directory(0))?;
/// # map.destroy()?;
/// # small.destroy()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct Spread {
    /// `None` is all ranks.
    ranks: Option<Vec<Rank>>,
    slots: usize,
    directory: Option<Rank>,
}

impl Spread {
    /// Slots on each rank, if nothing else is said.
    const SLOTS: usize = 1024;

    /// Over all ranks of the world.
    pub const fn everywhere() -> Spread {
        Spread { ranks: None, slots: Self::SLOTS, directory: None }
    }

    /// Over these ranks; one that is named twice has twice the slots.
    pub fn over(ranks: &[Rank]) -> Spread {
        Spread { ranks: Some(ranks.to_vec()), slots: Self::SLOTS, directory: None }
    }

    /// With so many slots on each rank; 1,024 if this is not said.
    pub fn slots(mut self, slots: usize) -> Spread {
        self.slots = slots;
        self
    }

    /// With its directory, which each process reads once, on this rank; on the first of its ranks if this is not said.
    pub fn directory(mut self, rank: Rank) -> Spread {
        self.directory = Some(rank);
        self
    }

    /// The ranks, the slots of each, and the rank of the directory.
    pub(crate) fn resolve(self, world: &World) -> (Vec<Rank>, u64, Rank) {
        let ranks = self.ranks.unwrap_or_else(|| (0..world.ranks()).collect());
        let directory = self.directory.or(ranks.first().copied()).unwrap_or(0);
        (ranks, self.slots as u64, directory)
    }
}

/// How a workspace is cut: the length of its chunks, and the rank of the first.
///
/// ```
/// use kumiki::data::{Chunks, Workspace};
///
/// # fn main() -> kumiki::Result<()> {
/// # let world = kumiki::World::init()?;
/// let block = Workspace::shared_with(&world, 1 << 16, Chunks::of(4096).from_rank(0))?;
/// assert_eq!(block.chunks().count(), 16);
/// # block.destroy()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct Chunks {
    pub(crate) bytes: usize,
    pub(crate) start: Rank,
}

impl Chunks {
    /// Chunks of so many bytes, the first of them on rank 0.
    pub const fn of(bytes: usize) -> Chunks {
        Chunks { bytes, start: 0 }
    }

    /// The first chunk is on this rank.
    pub const fn from_rank(mut self, rank: Rank) -> Chunks {
        self.start = rank;
        self
    }
}
