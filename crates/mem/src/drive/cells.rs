//! Registered memory in the hands of its owner while others may write to it: copied in and out, or looked at word by word through
//! atomics. Never a reference to an element.

use crate::drive::region::Registered;
use crate::node::copy::move_bytes;
use crate::{Error, Pod, Result};
use std::sync::atomic::{
    AtomicI16, AtomicI32, AtomicI64, AtomicI8, AtomicU16, AtomicU32, AtomicU64, AtomicU8,
};

/// Numbers that the processor reads and writes whole: their memory can be seen as cells of atomics.
pub trait Celled: Pod + sealed::Sealed {
    /// The atomic of the same size.
    type Cell: Send + Sync + 'static;
}

mod sealed {
    /// Only numbers whose atomics are of their size and alignment.
    pub trait Sealed {}
}

macro_rules! celled {
    ($($number:ty => $cell:ty),* $(,)?) => {$(
        const _: () = assert!(size_of::<$number>() == size_of::<$cell>() && align_of::<$number>() == align_of::<$cell>());
        impl sealed::Sealed for $number {}
        impl Celled for $number {
            type Cell = $cell;
        }
    )*};
}

celled! {
    u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64,
    i8 => AtomicI8, i16 => AtomicI16, i32 => AtomicI32, i64 => AtomicI64,
}

impl<T: Pod> Registered<T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies elements out, from `first`.
    ///
    /// ```
    /// # fn main() -> kumiki_mem::Result<()> {
    /// # let world = kumiki_mem::World::init()?;
    /// let field = world.register(vec![1u32, 2, 3])?;
    /// field.write(1, &[20, 30])?;
    /// let mut found = [0; 2];
    /// field.read(0, &mut found)?;
    /// assert_eq!((found, field.len()), ([1, 20], 3));
    /// # drop(field);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn read(&self, first: usize, into: &mut [T]) -> Result<()> {
        let pointer = self.elements(first, into.len())?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        // SAFETY: `elements` checked the range of memory that this value owns; `into` is ours.
        unsafe { move_bytes(bytes.as_mut_ptr(), pointer, bytes.len()) };
        Ok(())
    }

    /// Copies elements in, from `first`.
    pub fn write(&self, first: usize, from: &[T]) -> Result<()> {
        let pointer = self.elements(first, from.len())?;
        let bytes: &[u8] = bytemuck::cast_slice(from);
        // SAFETY: `elements` checked the range of memory that this value owns; `from` is only read.
        unsafe { move_bytes(pointer, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Its elements as cells of atomics: what others put is seen there, and what is stored there is seen by others. A whole element at a
    /// time, each as the processor reads and writes it.
    ///
    /// ```
    /// use std::sync::atomic::Ordering;
    ///
    /// # fn main() -> kumiki_mem::Result<()> {
    /// # let world = kumiki_mem::World::init()?;
    /// let flags = world.register(vec![0u32; 8])?;
    /// world.put(flags.ptr() + 3, 7)?;
    /// assert_eq!(flags.as_cells()[3].load(Ordering::Acquire), 7);
    /// # drop(flags);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn as_cells(&self) -> &[T::Cell]
    where
        T: Celled,
    {
        // SAFETY: the memory is this value's until it is dropped or taken, which a borrow of it excludes; it holds as many numbers,
        // for which the trait has chosen the atomic of the same size and alignment, and nobody has a reference to them.
        unsafe { std::slice::from_raw_parts(self.memory.cast::<T::Cell>(), self.memory.len()) }
    }

    /// Where elements are, if all of them are there.
    fn elements(&self, first: usize, count: usize) -> Result<*mut u8> {
        if first.checked_add(count).is_none_or(|end| end > self.len()) {
            return self.world().note(Err(Error::Bounds {
                what: "elements past the end of registered memory",
                address: self.address().bits(),
                rank: self.world().rank.0,
                bytes: count.saturating_mul(size_of::<T>()) as u64,
            }));
        }
        // SAFETY: the first element lies inside the memory, or right behind it if there is none to touch.
        Ok(unsafe { self.memory.cast::<T>().add(first).cast() })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, World};
    use std::sync::atomic::Ordering;

    #[test]
    fn registered_memory_could_only_be_read_by_taking_it_back() {
        let world = World::init().unwrap();
        let words = world.register(vec![5u64; 4]).unwrap();
        world.put(words.ptr() + 1, 6).unwrap();
        let mut found = [0; 4];
        words.read(0, &mut found).unwrap();
        assert_eq!(found, [5, 6, 5, 5]);
        words.write(3, &[9]).unwrap();
        words.as_cells()[2].store(8, Ordering::Release);
        assert_eq!((world.get(words.ptr() + 2), world.get(words.ptr() + 3)), (Ok(8), Ok(9)));
        for wrong in [words.read(4, &mut [0]), words.write(3, &[0; 2]), words.read(usize::MAX, &mut [0; 2])] {
            assert!(matches!(wrong, Err(Error::Bounds { .. })), "{wrong:?}");
        }
        assert!(words.read(4, &mut []).is_ok() && words.as_cells().len() == 4);
        assert_eq!(words.take().unwrap()[..], [5, 6, 8, 9]);
        world.finalize().unwrap();
    }
}
