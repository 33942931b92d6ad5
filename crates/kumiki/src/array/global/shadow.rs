//! Reflect: filling the shadow with what its owners have. The shadow is read through what a reflect returns, and only while the array has not been changed since: that borrows
//! the array, and changing it ends the borrow.

use super::Array;
use crate::array::schedule::{Plan, Underway, Width};
use crate::comm::{Number, Operation};
use crate::{Pod, Result};
use ndarray::{ArrayViewD, IxDyn};
use std::ops::{Deref, Index};

/// An array whose shadow is valid: elements around the own part are read by their index, as the own ones are. From [`Array::reflect`].
///
/// While it exists nobody changes the array; when somebody does it is gone:
///
/// ```compile_fail
/// # use kumiki::array::Array;
/// # fn main() -> kumiki::Result<()> {
/// # let world = kumiki::World::init()?;
/// let mut heat = Array::<f64, 1>::block(&world, &[100], &[1])?;
/// let around = heat.reflect()?;
/// heat.fill(1.0);
/// println!("{}", around[[0]]); // The shadow is not valid any more.
/// # Ok(())
/// # }
/// ```
pub struct Reflected<'a, 'w, T: Pod, const N: usize> {
    pub(super) array: &'a Array<'w, T, N>,
}

impl<T: Pod, const N: usize> Clone for Reflected<'_, '_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod, const N: usize> Copy for Reflected<'_, '_, T, N> {}

impl<T: Pod, const N: usize> std::fmt::Debug for Reflected<'_, '_, T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reflected({:?})", self.array)
    }
}

impl<'a, T: Pod, const N: usize> Reflected<'a, '_, T, N> {
    /// The whole local part with its shadow, without a copy. Where the first own element is in it says [`first`](Self::first).
    pub fn local(&self) -> Result<ArrayViewD<'a, T>> {
        let array = self.array;
        let view = ArrayViewD::from_shape(IxDyn(&array.frame.extents), &array.cells);
        view.map_err(|error| crate::array::space::misuse(format!("a view of an array: {error}")))
    }

    /// Where the first own element is in [`local`](Self::local).
    pub fn first(&self) -> Option<[usize; N]> {
        let frame = &self.array.frame;
        let mut rest = frame.own_at(frame.first)?;
        Some(std::array::from_fn(|at| {
            let place = rest / frame.strides[at].max(1);
            rest %= frame.strides[at].max(1);
            place
        }))
    }

    /// An own element or one of the shadow; `None` if this rank has it not.
    #[inline]
    pub fn get(&self, index: [i64; N]) -> Option<&'a T> {
        let array = self.array;
        array.frame.shadow_at(index).map(|at| &array.cells[at])
    }

    /// Elements side by side in the last dimension, own ones and those of the shadow: so many from an index on.
    ///
    /// # Panics
    ///
    /// If this rank does not have all of them side by side.
    #[inline]
    #[track_caller]
    pub fn row(&self, first: [i64; N], len: usize) -> &'a [T] {
        let array = self.array;
        match array.frame.row(first, len, true) {
            Some(start) => &array.cells[start..start + len],
            None => panic!("there are no {len} elements from {first:?} on in {self:?}"),
        }
    }
}

impl<'w, T: Pod, const N: usize> Deref for Reflected<'_, 'w, T, N> {
    type Target = Array<'w, T, N>;

    fn deref(&self) -> &Array<'w, T, N> {
        self.array
    }
}

impl<T: Pod, const N: usize> Index<[i64; N]> for Reflected<'_, '_, T, N> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: [i64; N]) -> &T {
        match self.array.frame.shadow_at(index) {
            Some(at) => &self.array.cells[at],
            None => panic!("element {index:?} is neither own nor in the shadow of {:?}", self.array),
        }
    }
}

/// A reflect that is under way: from [`Array::start_reflect`]. The own elements are read as ever; the shadow when it is [finished](Self::finish).
#[must_use = "the shadow is filled when it is finished"]
pub struct Reflecting<'a, 'w, T: Pod, const N: usize> {
    array: &'a mut Array<'w, T, N>,
    underway: Underway<'w>,
}

impl<T: Pod, const N: usize> std::fmt::Debug for Reflecting<'_, '_, T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reflecting({:?})", self.array)
    }
}

impl<'a, 'w, T: Pod, const N: usize> Reflecting<'a, 'w, T, N> {
    /// Waits for what others send.
    pub fn finish(self) -> Result<Reflected<'a, 'w, T, N>> {
        self.underway.finish(self.array.bytes_mut())?;
        Ok(Reflected { array: self.array })
    }

    /// Whether [`finish`](Self::finish) would not wait.
    pub fn is_done(&self) -> bool {
        self.underway.is_done()
    }
}

impl<'w, T: Pod, const N: usize> Deref for Reflecting<'_, 'w, T, N> {
    type Target = Array<'w, T, N>;

    fn deref(&self) -> &Array<'w, T, N> {
        self.array
    }
}

impl<'w, T: Pod, const N: usize> Array<'w, T, N> {
    /// Fills the whole shadow with what its owners have, corners too. Cells beyond the bounds of the array are left alone. Collective.
    #[track_caller]
    pub fn reflect(&mut self) -> Result<Reflected<'_, 'w, T, N>> {
        let widths = Width::all(&self.mapping);
        self.reflect_with(&widths, true)
    }

    /// Fills so much of the shadow of each dimension, with corners or without. Where a dimension closes to a ring, cells beyond the bounds get what is at the other end.
    /// Collective.
    #[track_caller]
    pub fn reflect_with(&mut self, widths: &[Width], corners: bool) -> Result<Reflected<'_, 'w, T, N>> {
        self.check("reflect", || format!(", {widths:?}, corners: {corners}"))?;
        let world = self.world();
        let plan = world.note(Plan::reflect(world, size_of::<T>(), &self.mapping, widths, corners))?;
        plan.run_inside(world, self.bytes_mut())?;
        Ok(Reflected { array: self })
    }

    /// Begins to fill the shadow: what others need is sent when this returns, and the program computes what needs no shadow. Collective.
    ///
    /// ```
    /// # use kumiki::array::{Array, Width};
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let mut heat = Array::<f64, 1>::block(&world, &[1000], &[1])?;
    /// let mut next = heat.like()?;
    /// let (interior, boundary) = (heat.interior(&[(1, 1)]), heat.boundary(&[(1, 1)]));
    /// let ring = Width { low: 1, high: 1, periodic: true };
    /// let heat = heat.start_reflect(&[ring], true)?;
    /// if let Some(interior) = interior {
    ///     next.update_in(interior, |[i], cell| *cell = heat[[i - 1]] + heat[[i + 1]]);
    /// }
    /// let heat = heat.finish()?;
    /// for part in boundary {
    ///     next.update_in(part, |[i], cell| *cell = heat[[i - 1]] + heat[[i + 1]]);
    /// }
    /// # drop(next);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn start_reflect(&mut self, widths: &[Width], corners: bool) -> Result<Reflecting<'_, 'w, T, N>> {
        self.check("start_reflect", || format!(", {widths:?}, corners: {corners}"))?;
        let world = self.world();
        let plan = world.note(Plan::reflect(world, size_of::<T>(), &self.mapping, widths, corners))?;
        let underway = plan.start(world, self.bytes())?;
        Ok(Reflecting { array: self, underway })
    }

    /// Adds what is in the shadow to what the owners have. The shadow keeps its values. Collective.
    #[track_caller]
    pub fn reduce_shadow(&mut self, widths: &[Width], corners: bool) -> Result<()>
    where
        T: Number,
    {
        self.reduce_shadow_by(widths, corners, crate::comm::Sum)
    }

    /// The same with another operation than addition.
    #[track_caller]
    pub fn reduce_shadow_by(
        &mut self,
        widths: &[Width],
        corners: bool,
        operation: impl Operation<T>,
    ) -> Result<()> {
        self.check("reduce_shadow", || format!(", {widths:?}, corners: {corners}"))?;
        let world = self.world();
        let plan = world.note(Plan::reduce_shadow(world, size_of::<T>(), &self.mapping, widths, corners))?;
        plan.run_combining(world, self.bytes_mut(), &mut |into, came| {
            crate::comm::merge(&operation, into, came, false);
        })
    }
}
