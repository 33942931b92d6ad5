//! The ends of segment buffers as programs have them: typed, over memory of their own.

use super::segments::Segments;
use crate::{Error, GlobalPtr, Pod, Rank, Registered, Result, World};

/// The end of a segment buffer that is filled: from [`World::segment_source`].
///
/// Both ends have a buffer of the same number of segments of the same length, and are made by their ranks without waiting for each other.
/// The source writes into the segment at its tail, in its own memory, and [sends](Self::send) it; the destination reads it in its own
/// memory, and [gives it back](SegmentDestination::release).
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let (next, last) = ((world.rank() + 1) % world.ranks(), (world.rank() + world.ranks() - 1) % world.ranks());
/// let mut source = world.segment_source::<f64>(next, 100, 4)?;
/// let mut destination = world.segment_destination::<f64>(last, 100, 4)?;
/// for step in 0..10 {
///     source.wait()?;
///     source.fill(&[step as f64; 100])?;
///     source.send()?;
///     destination.wait()?;
///     assert_eq!(destination.read()?, [step as f64; 100]);
///     destination.release()?;
/// }
/// source.free()?;
/// world.sync()?;
/// destination.free()?;
/// # world.finalize()
/// # }
/// ```
pub struct SegmentSource<'w, T: Pod> {
    world: &'w World,
    segments: Segments,
    memory: Registered<T>,
}

/// The end of a segment buffer that is read: from [`World::segment_destination`]. See [`SegmentSource`].
pub struct SegmentDestination<'w, T: Pod> {
    world: &'w World,
    segments: Segments,
    memory: Registered<T>,
}

impl<T: Pod> std::fmt::Debug for SegmentSource<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.segments.fmt(f)
    }
}

impl<T: Pod> std::fmt::Debug for SegmentDestination<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.segments.fmt(f)
    }
}

fn memory_for<T: Pod>(world: &World, length: usize, count: usize) -> Result<Registered<T>> {
    let elements =
        length.checked_mul(count).filter(|elements| elements.checked_mul(size_of::<T>()).is_some());
    match elements {
        Some(elements) => world.register(vec![T::zeroed(); elements]),
        None => world.note(Err(Error::Misuse(format!("{count} segments of {length} elements are too many")))),
    }
}

impl World {
    /// Makes the end of a segment buffer that is filled, with `count` segments of `length` elements. See [`SegmentSource`].
    pub fn segment_source<T: Pod>(
        &self,
        to: Rank,
        length: usize,
        count: usize,
    ) -> Result<SegmentSource<'_, T>> {
        let memory = memory_for(self, length, count)?;
        let segments = Segments::source(self, to, memory.ptr().address(), length * size_of::<T>(), count)?;
        Ok(SegmentSource { world: self, segments, memory })
    }

    /// Makes the end of a segment buffer that is read. See [`SegmentSource`].
    pub fn segment_destination<T: Pod>(
        &self,
        from: Rank,
        length: usize,
        count: usize,
    ) -> Result<SegmentDestination<'_, T>> {
        let memory = memory_for(self, length, count)?;
        let segments =
            Segments::destination(self, from, memory.ptr().address(), length * size_of::<T>(), count)?;
        Ok(SegmentDestination { world: self, segments, memory })
    }
}

impl<T: Pod> SegmentSource<'_, T> {
    /// Waits until the segment at the tail may be filled.
    pub fn wait(&mut self) -> Result<()> {
        self.segments.wait_ready(self.world)
    }

    /// Whether the segment at the tail may be filled.
    pub fn is_ready(&mut self) -> Result<bool> {
        Ok(self.segments.is_connected(self.world)? && self.segments.is_ready(self.world)?)
    }

    /// The elements of the segment at the tail, in memory of this rank.
    pub fn segment(&self) -> GlobalPtr<T> {
        segment(&self.memory, &self.segments)
    }

    /// Writes elements to the beginning of the segment at the tail.
    pub fn fill(&self, elements: &[T]) -> Result<()> {
        self.world.note(fits::<T>(&self.segments, elements.len()))?;
        self.world.put_slice(self.segment(), elements)
    }

    /// Sends the segment at the tail. False if all are full.
    pub fn send(&mut self) -> Result<bool> {
        self.segments.advance(self.world)
    }

    /// Waits until everything that was sent is at its place, and gives the memory back.
    pub fn free(self) -> Result<Box<[T]>> {
        self.segments.free(self.world)?;
        self.memory.take()
    }
}

impl<T: Pod> SegmentDestination<'_, T> {
    /// Waits until there is a segment at the head.
    pub fn wait(&mut self) -> Result<()> {
        self.segments.wait_ready(self.world)
    }

    /// Whether there is a segment at the head.
    pub fn is_ready(&mut self) -> Result<bool> {
        Ok(self.segments.is_connected(self.world)? && self.segments.is_ready(self.world)?)
    }

    /// The elements of the segment at the head, in memory of this rank.
    pub fn segment(&self) -> GlobalPtr<T> {
        segment(&self.memory, &self.segments)
    }

    /// Reads the segment at the head.
    pub fn read(&self) -> Result<Vec<T>> {
        let length = self.segments.segment_bytes() / size_of::<T>().max(1);
        self.world.get_vec(self.segment(), length)
    }

    /// Gives the segment at the head back to the source. False if there is none.
    pub fn release(&mut self) -> Result<bool> {
        self.segments.advance(self.world)
    }

    /// Gives the memory back. The source must not send any more.
    pub fn free(self) -> Result<Box<[T]>> {
        self.segments.free(self.world)?;
        self.memory.take()
    }
}

fn segment<T: Pod>(memory: &Registered<T>, segments: &Segments) -> GlobalPtr<T> {
    let at = segments.segment_at() as usize;
    memory.ptr().add(at / size_of::<T>().max(1))
}

fn fits<T: Pod>(segments: &Segments, elements: usize) -> Result<()> {
    let length = segments.segment_bytes() / size_of::<T>().max(1);
    match elements <= length {
        true => Ok(()),
        false => Err(Error::Misuse(format!("{elements} elements for a segment of {length}"))),
    }
}
