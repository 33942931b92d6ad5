//! Vectors: elements side by side on one rank.

use super::agreement::{share, Handed, Wish};
use super::ring::{Kind, Op, Ring, Tail, END};
use super::sequence::{bytes_of_count, element, typed_sequence, Elements, Sequence};
use super::On;
use crate::{GlobalAddress, GlobalPtr, Pod, Rank, Result, World};
use std::marker::PhantomData;
use std::ops::Range;

/// A handle to a vector of plain data, which lives on one rank and can be used from every rank. With `u8`, the default,
/// it is a sequence of bytes.
///
/// Its header is three words that programs may read: address of the body, size and capacity in bytes. The capacity is a
/// multiple of 8 and doubles when it is spent. Each operation from another node is one round trip; elements longer
/// than 64 KiB together take one more.
///
/// Several ranks may use it in turn (with a [`sync`](crate::World::sync) between them), not at once: that gives
/// errors or mixed elements, never damage elsewhere. When a rank is killed in the middle of a change, every operation
/// fails until somebody assigns, clears or destroys the vector. When memory runs out nothing has changed.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// use kumiki::{data::{On, Vector}, World};
///
/// let world = World::init()?;
/// let mut squares = Vector::<u64>::create(&world, On::rank(world.ranks() - 1))?;
/// for number in 0..10 {
///     squares.push(number * number)?;
/// }
/// squares.erase(0..8)?;
/// squares.insert(1, &[65, 66])?;
/// assert_eq!(squares.to_vec()?, [64, 65, 66, 81]);
/// // Another rank can use it by its address.
/// let same = Vector::<u64>::from_address(&world, squares.address());
/// assert_eq!(same.get(3)?, 81);
/// squares.destroy()?;
/// # world.finalize()
/// # }
/// ```
pub struct Vector<'w, T: Pod = u8> {
    sequence: Sequence<'w>,
    /// Header and body, when they are on this node.
    tail: Option<Tail<'w>>,
    element: PhantomData<T>,
}

typed_sequence!(Vector, "vector");

impl<'w, T: Pod> Vector<'w, T> {
    fn new(sequence: Sequence<'w>) -> Self {
        Vector { sequence, tail: None, element: PhantomData }
    }

    /// Makes a vector on a rank. What its elements are, if it is to have any, is not defined.
    pub fn create(world: &'w World, place: On) -> Result<Self> {
        let bytes = world.note(bytes_of_count::<T>(place.elements))?;
        Sequence::create(world, Kind::Vector, bytes, place.rank).map(Self::new)
    }

    /// Where an element is. It stays there until the vector grows, is assigned or swapped.
    pub fn at(&self, index: usize) -> Result<GlobalPtr<T>> {
        let [(place, _), _] =
            self.sequence.locate(self.sequence.bytes_of::<T>(index)?, self.sequence.bytes_of::<T>(1)?)?;
        Ok(GlobalPtr::from_address(place))
    }

    /// One element.
    #[inline]
    pub fn get(&self, index: usize) -> Result<T> {
        let (at, mut value) = (self.sequence.bytes_of::<T>(index)?, T::zeroed());
        let bytes = bytemuck::bytes_of_mut(&mut value);
        if let Some(tail) = &self.tail {
            if tail.read(self.sequence.world.local(), at, bytes) {
                return Ok(value);
            }
        }
        self.sequence.read(at, bytes)?;
        Ok(value)
    }

    /// Adds an element at the end.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<()> {
        let bytes = bytemuck::bytes_of(&value);
        if let Some(tail) = &self.tail {
            if tail.push(self.sequence.world.local(), bytes) {
                return Ok(());
            }
        }
        self.push_slowly(bytes)
    }

    #[cold]
    #[inline(never)]
    fn push_slowly(&mut self, bytes: &[u8]) -> Result<()> {
        self.sequence.insert(END, bytes)?;
        let local = self.sequence.world.local();
        self.tail = match local.can_touch(self.rank()) {
            true => Some(Ring::open(local, Kind::Vector, self.address())?.tail()?),
            false => None,
        };
        Ok(())
    }
}
