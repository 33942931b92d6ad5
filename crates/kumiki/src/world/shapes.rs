//! Copies of more than a range of elements, and puts that end with a signal.

use super::World;
use crate::{AtomicOp, AtomicWord, GlobalPtr, Pod, Result, Shape};

impl World {
    /// Writes the elements of a [`Shape`] of `values` to those of a shape behind `to`: a block of a matrix, say, or a list of pieces. They are
    /// at their places when this returns. Both shapes have the same number of elements, and each is gone through in its own
    /// order. All of both must be inside their memories, or nothing is written. Between nodes it is one message; of a list, one for 4,000 pieces.
    ///
    /// ```
    /// use kumiki::prelude::*;
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let world = World::init()?;
    /// // A matrix of 10 rows and 100 columns; the block of rows 2 to 4 and columns 50 to 53.
    /// let matrix = world.alloc::<f64>(1000)?;
    /// let block = Shape::section(&[(3, 100), (4, 1)])?;
    /// world.put_shape(matrix.ptr() + 250, &block, &[1.5; 12], &Shape::contiguous(12)?)?;
    /// assert_eq!((world.get(matrix.ptr() + 453)?, world.get(matrix.ptr() + 454)?), (1.5, 0.0));
    /// // Its first column and its last one, turned round, into every second place of a vector.
    /// let mut columns = [0.0; 12];
    /// let ends = Shape::section(&[(2, 3), (3, -100)])?;
    /// world.get_shape(matrix.ptr() + 450, &ends, &mut columns, &Shape::section(&[(6, 2)])?)?;
    /// assert_eq!(columns, [1.5, 0.0].repeat(6)[..]);
    /// // Single pieces: where each begins and how long it is.
    /// world.put_shape(matrix.ptr(), &Shape::pieces(&[(7, 2), (90, 1)])?, &[1.0, 2.0, 3.0], &Shape::contiguous(3)?)?;
    /// assert_eq!(world.get(matrix.ptr() + 90)?, 3.0);
    /// # drop(matrix);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn put_shape<T: Pod>(
        &self,
        to: GlobalPtr<T>,
        there: &Shape,
        values: &[T],
        here: &Shape,
    ) -> Result<()> {
        self.memory.put_shape(to, there, values, here)
    }

    /// Reads the elements of a shape behind `from` into those of a shape of `into`; as [`put_shape`](Self::put_shape).
    pub fn get_shape<T: Pod>(
        &self,
        from: GlobalPtr<T>,
        there: &Shape,
        into: &mut [T],
        here: &Shape,
    ) -> Result<()> {
        self.memory.get_shape(from, there, into, here)
    }

    /// Writes elements, and then changes a word of the same rank. Whoever sees the word changed sees the elements, if it looks at the word by
    /// an atomic operation or by [waiting](Self::wait_until) for it. Between nodes it is one message. If it fails, the word is as it was,
    /// unless the error says that its fate is unknown.
    ///
    /// ```
    /// use kumiki::{prelude::*, AtomicOp};
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let world = World::init()?;
    /// let (inbox, filled) = (world.shared_array::<f32>(100)?, world.shared_array::<u64>(1)?);
    /// let (me, next) = (world.rank(), (world.rank() + 1) % world.ranks());
    /// world.put_signal(inbox.at(next, 0), &[2.5; 100], filled.at(next, 0), AtomicOp::Add(1))?;
    /// world.wait_until(filled.at(me, 0), Is::AtLeast(1), Wait::FOREVER)?;
    /// assert_eq!(inbox.get(99)?, 2.5);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn put_signal<T: Pod, W: AtomicWord>(
        &self,
        to: GlobalPtr<T>,
        values: &[T],
        word: GlobalPtr<W>,
        signal: AtomicOp<W>,
    ) -> Result<()> {
        self.memory.put_signal(to, values, word, signal)
    }
}
