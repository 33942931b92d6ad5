//! Reading, writing and copying.

use super::World;
use crate::{GlobalAddress, GlobalPtr, Handle, Order, Pod, Result};

impl World {
    /// Writes one element; it is at its place when this returns.
    #[inline(always)]
    pub fn put<T: Pod>(&self, to: GlobalPtr<T>, value: T) -> Result<()> {
        self.memory.put(to, value)
    }

    /// Reads one element.
    #[inline(always)]
    pub fn get<T: Pod>(&self, from: GlobalPtr<T>) -> Result<T> {
        self.memory.get(from)
    }

    /// Writes elements from memory that need not be registered; they are at their place when this returns.
    #[inline]
    pub fn put_slice<T: Pod>(&self, to: GlobalPtr<T>, values: &[T]) -> Result<()> {
        self.memory.put_slice(to, values)
    }

    /// Reads elements into memory that need not be registered.
    #[inline]
    pub fn get_slice<T: Pod>(&self, from: GlobalPtr<T>, into: &mut [T]) -> Result<()> {
        self.memory.get_slice(from, into)
    }

    /// Reads elements into new memory. A count that cannot be there, from a program that is wrong or from memory that was
    /// overwritten, is an error: nothing is allocated for it.
    pub fn get_vec<T: Pod>(&self, from: GlobalPtr<T>, count: usize) -> Result<Vec<T>> {
        self.memory.get_vec(from, count as u64)
    }

    /// Starts to copy `bytes` from `src` to `dst`, which may be anybody's. Ranges of one region may overlap. It is done when
    /// its handle is [complete](Self::complete).
    ///
    /// ```
    /// use kumiki::Order;
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let (from, to) = (world.alloc::<u64>(8)?, world.alloc::<u64>(8)?);
    /// from.write(0, &[7; 8])?;
    /// let handle = world.copy(to.address(), from.address(), 64, Order::None)?;
    /// world.complete(handle)?;
    /// assert_eq!(world.get(to.ptr() + 7)?, 7);
    /// # drop((from, to));
    /// # world.finalize()
    /// # }
    /// ```
    #[inline(always)]
    pub fn copy(&self, dst: GlobalAddress, src: GlobalAddress, bytes: usize, order: Order) -> Result<Handle> {
        self.memory.copy(dst, src, bytes as u64, order)
    }
}
