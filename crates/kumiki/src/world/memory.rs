//! Memory that others can address, and what it costs. (Global malloc and free are in `data/heap`.)

use super::World;
use crate::{Error, GlobalAddress, GlobalPtr, Ledger, Lent, Pod, Rank, Region, Registered, Result, View};

impl World {
    /// Starter memory of a rank, as elements of `T`: every rank has it from the start, zeroed, and every other rank can
    /// address it without any exchange.
    pub fn starter<T: Pod>(&self, rank: Rank) -> Result<GlobalPtr<T>> {
        self.memory.starter(rank)
    }

    /// The address of the starter memory of a rank.
    pub fn starter_address(&self, rank: Rank) -> Result<GlobalAddress> {
        self.memory.starter_address(rank)
    }

    /// Bytes of starter memory of each rank.
    pub fn starter_bytes(&self) -> usize {
        self.memory.starter_bytes() as usize
    }

    /// Takes a region of `count` zeroed elements from this rank's part of the arena.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let table = world.alloc::<u64>(100)?;
    /// world.put(table.ptr() + 3, 42)?;
    /// assert_eq!(world.get(table.ptr() + 3)?, 42);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn alloc<T: Pod>(&self, count: usize) -> Result<Region<T>> {
        match self.memory.try_alloc(count) {
            // What arrays keep for their next messages may be in the way.
            Err(Error::OutOfMemory { .. }) if self.arrays().give_back() => self.memory.alloc(count),
            allocated => self.note(allocated),
        }
    }

    /// Makes memory that the program has addressable by all ranks. The guard owns it meanwhile.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let field = world.register(vec![0.5f64; 1000])?;
    /// assert_eq!(world.get(field.ptr() + 999)?, 0.5);
    /// let field: Box<[f64]> = field.take()?;
    /// # drop(field);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn register<T: Pod>(&self, memory: impl Into<Box<[T]>>) -> Result<Registered<T>> {
        self.memory.register(memory)
    }

    /// Lends memory to all ranks while `work` runs; when it returns, or panics, the memory is the caller's again and
    /// nobody else touches it.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let mut field = [1u32, 2, 3];
    /// world.lend(&mut field, |lent| world.put(lent.ptr() + 1, 20))??;
    /// assert_eq!(field, [1, 20, 3]);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn lend<T: Pod, R>(&self, memory: &mut [T], work: impl FnOnce(&Lent<'_, T>) -> R) -> Result<R> {
        self.memory.lend(memory, work)
    }

    /// Pins `len` elements of a region of this node and gives a [`View`] of them, in which single elements are read, written and
    /// changed at the speed of the machine. They must lie in one region, aligned as `T` is; a rank can have 64 views at a time.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let counts = world.alloc::<u64>(256)?;
    /// let view = world.view_of(&counts)?;
    /// for byte in "what is counted".bytes() {
    ///     view.fetch_add(byte.into(), 1)?;
    /// }
    /// assert_eq!(view.load(b't'.into())?, 2);
    /// drop(view);
    /// # drop(counts);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn view<T: Pod>(&self, start: GlobalPtr<T>, len: usize) -> Result<View<'_, T>> {
        self.memory.view(start, len)
    }

    /// A [view](Self::view) of all of a region of this rank.
    pub fn view_of<T: Pod>(&self, region: &Region<T>) -> Result<View<'_, T>> {
        self.memory.view_of(region)
    }

    /// What the library has taken of this process's memory and of the node's, by purpose.
    pub fn ledger(&self) -> Ledger {
        self.memory.ledger()
    }
}
