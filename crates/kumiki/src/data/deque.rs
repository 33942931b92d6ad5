//! Deques: elements on one rank, added and taken at both ends.

use super::agreement::{share, Handed, Wish};
use super::ring::{Kind, Op, END};
use super::sequence::{bytes_of_count, element, typed_sequence, Elements, Sequence};
use super::On;
use crate::{GlobalAddress, GlobalPtr, Pod, Rank, Result, World};
use std::marker::PhantomData;
use std::ops::Range;

/// A handle to a deque of plain data, which lives on one rank and can be used from every rank. With `u8`, the default, it
/// is a sequence of bytes.
///
/// Its header is four words that programs may read: address of the body, offset of the first byte in it, size and
/// capacity in bytes. Elements behind the end of the body go on at its start, so an element may be in two
/// pieces: [`pieces`](Self::pieces). When the capacity is spent it grows to exactly what is needed; behind the body there is
/// spare memory, so that this is seldom a copy.
///
/// What is said of a [`Vector`](super::Vector) about messages, several ranks, deaths and memory holds here too.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// use kumiki::{data::{Deque, On}, World};
///
/// let world = World::init()?;
/// let mut queue = Deque::<u32>::create(&world, On::rank(0).elements(4))?;
/// queue.extend(&[2, 3])?;
/// queue.push_front(1)?;
/// assert_eq!((queue.pop_front()?, queue.pop()?), (Some(1), Some(3)));
/// assert_eq!(queue.to_vec()?, [2]);
/// queue.destroy()?;
/// # world.finalize()
/// # }
/// ```
pub struct Deque<'w, T: Pod = u8> {
    sequence: Sequence<'w>,
    element: PhantomData<T>,
}

typed_sequence!(Deque, "deque");

impl<'w, T: Pod> Deque<'w, T> {
    fn new(sequence: Sequence<'w>) -> Self {
        Deque { sequence, element: PhantomData }
    }

    /// Makes an empty deque on a rank, with room for so many elements.
    pub fn create(world: &'w World, place: On) -> Result<Self> {
        let bytes = world.note(bytes_of_count::<T>(place.elements))?;
        Sequence::create(world, Kind::Deque, bytes, place.rank).map(Self::new)
    }

    /// Where the bytes of a range of elements are: address and length of one piece, or of two when they wrap (otherwise
    /// the second has no length). They stay there until the deque changes.
    pub fn pieces(&self, range: Range<usize>) -> Result<[(GlobalAddress, usize); 2]> {
        let (at, bytes) = self.sequence.bytes_of_range::<T>(&range)?;
        Ok(self.sequence.locate(at, bytes)?.map(|(address, bytes)| (address, bytes as usize)))
    }

    /// One element.
    pub fn get(&self, index: usize) -> Result<T> {
        let mut value = T::zeroed();
        self.read(index, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Adds an element at the end.
    pub fn push(&mut self, value: T) -> Result<()> {
        self.extend(&[value])
    }

    /// Adds an element at the front.
    pub fn push_front(&mut self, value: T) -> Result<()> {
        self.extend_front(&[value])
    }

    /// Adds elements at the front, in the order given.
    pub fn extend_front(&mut self, values: &[T]) -> Result<()> {
        self.sequence.insert(0, bytemuck::cast_slice(values)).map(drop)
    }

    /// Takes the first element, if there is one.
    pub fn pop_front(&mut self) -> Result<Option<T>> {
        self.sequence.take(0, self.sequence.bytes_of::<T>(1)?).map(|bytes| element(&bytes))
    }

    /// Takes so many elements off the front, unread; they must be there.
    pub fn drop_front(&mut self, count: usize) -> Result<()> {
        self.sequence.erase(0, self.sequence.bytes_of::<T>(count)?).map(drop)
    }
}
