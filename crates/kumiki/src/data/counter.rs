//! Counters: a number that all ranks draw from.

use super::agreement::{share, Handed, Wish};
use crate::{GlobalAddress, GlobalPtr, Rank, Result, World};
use std::ops::Range;

/// A handle to a number on one rank from which all ranks draw at once: who is done with its piece of work takes the next.
///
/// Drawing is one atomic addition: a round trip from another node. A rank that dies takes what it has drawn with it; the
/// counter goes on.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// use kumiki::{data::Counter, World};
///
/// let world = World::init()?;
/// let counter = Counter::create(&world, 0)?;
/// assert_eq!(counter.next()?, 0);
/// assert_eq!(counter.next_block(10)?, 1..11);
/// assert_eq!(counter.value()?, 11);
/// counter.destroy()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Counter<'w> {
    world: &'w World,
    word: GlobalPtr<u64>,
}

impl std::fmt::Debug for Counter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Counter({:#x})", self.address())
    }
}

impl<'w> Handed<'w> for Counter<'w> {
    fn words(&self) -> [u64; 3] {
        [self.address().bits(), 0, 0]
    }

    fn open(world: &'w World, words: [u64; 3]) -> Result<Self> {
        Ok(Counter::from_address(world, GlobalAddress::from_bits(words[0])))
    }

    fn discard(self) -> Result<()> {
        self.destroy()
    }
}

impl<'w> Counter<'w> {
    /// Makes a counter on a rank. It begins with 0.
    pub fn create(world: &'w World, rank: u32) -> Result<Self> {
        let counter = Counter::from_address(world, world.malloc(8, rank)?);
        counter.set(0)?;
        Ok(counter)
    }

    /// Makes a counter on a rank, for all ranks: each gets a handle to the same. Collective: all ranks call it with the same
    /// rank; if they do not, every rank gets an error.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// # let jobs: [u32; 3] = [1, 2, 3];
    /// let next = kumiki::data::Counter::shared(&world, 0)?;
    /// while let Some(job) = jobs.get(next.next()? as usize) {
    ///     println!("rank {} does job {job}", world.rank());
    /// }
    /// # world.finalize()
    /// # }
    /// ```
    pub fn shared(world: &'w World, rank: Rank) -> Result<Self> {
        share(world, Wish::new("a counter", rank), || Self::create(world, rank))
    }

    /// The counter in any word of global memory, by its address.
    pub fn from_address(world: &'w World, address: GlobalAddress) -> Self {
        Counter { world, word: GlobalPtr::from_address(address) }
    }

    /// The address of its word: what other ranks need to use it.
    pub fn address(&self) -> GlobalAddress {
        self.word.address()
    }

    /// Draws the next number.
    #[inline]
    pub fn next(&self) -> Result<u64> {
        self.world.fetch_add(self.word, 1)
    }

    /// Draws the next `count` numbers.
    #[inline]
    pub fn next_block(&self, count: u64) -> Result<Range<u64>> {
        let first = self.world.fetch_add(self.word, count)?;
        Ok(first..first.wrapping_add(count))
    }

    /// The number that is drawn next.
    pub fn value(&self) -> Result<u64> {
        self.world.get(self.word)
    }

    /// Lets it go on from a number.
    pub fn set(&self, value: u64) -> Result<()> {
        self.world.swap(self.word, value).map(drop)
    }

    /// Frees its word. Dropping a handle does not: other ranks may go on using it.
    pub fn destroy(self) -> Result<()> {
        self.world.free(self.address())
    }
}
