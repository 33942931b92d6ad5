//! Reductions over all elements, through the group of the nodes.

use super::Array;
use crate::array::space::misuse;
use crate::comm::{Max, MaxAt, Min, MinAt, Number, Operation, Sum};
use crate::{Pod, Result};
use kumiki_mem::Located;

impl<T: Pod, const N: usize> Array<'_, T, N> {
    /// Whether this rank's elements count where each counts once: of copies, the first does.
    fn is_first_copy(&self) -> bool {
        let place = self.mapping.nodes().coordinates(self.world().rank());
        place.is_some_and(|place| self.mapping.replicated().iter().all(|at| place[*at] == 0))
    }

    /// All elements combined by an operation, beginning with what stands for nothing of it. Collective.
    #[track_caller]
    pub fn reduce(&self, nothing: T, operation: impl Operation<T>) -> Result<T> {
        self.check("reduce", String::new)?;
        let mut total = nothing;
        if self.is_first_copy() {
            self.for_each(|_, value| total = operation.apply(total, value));
        }
        let mut all = [total];
        self.group()?.allreduce(&mut all, operation)?;
        Ok(all[0])
    }

    /// The sum of all elements. Collective.
    #[track_caller]
    pub fn sum(&self) -> Result<T>
    where
        T: Number,
    {
        self.reduce(T::zeroed(), Sum)
    }

    /// The smallest element. Collective.
    #[track_caller]
    pub fn min(&self) -> Result<T>
    where
        T: Number,
    {
        self.check("min", String::new)?;
        self.extreme(Min)
    }

    /// The largest element. Collective.
    #[track_caller]
    pub fn max(&self) -> Result<T>
    where
        T: Number,
    {
        self.check("max", String::new)?;
        self.extreme(Max)
    }

    fn extreme(&self, operation: impl Operation<T>) -> Result<T> {
        let mut best = None;
        self.for_each(|_, value| best = Some(best.map_or(value, |best| operation.apply(best, value))));
        let nothing = self.stand_in(best)?;
        let mut all = [best.unwrap_or(nothing)];
        self.group()?.allreduce(&mut all, operation)?;
        Ok(all[0])
    }

    /// What whoever has no elements comes with: the best one of the rank that has the first element.
    fn stand_in<V: Pod>(&self, own: Option<V>) -> Result<V> {
        let dimensions = self.mapping.dimensions();
        if self.mapping.is_empty() {
            return self.world().note(Err(misuse("an extremum of an array without elements")));
        }
        let has_gaps = dimensions
            .iter()
            .any(|dimension| (0..dimension.axis().nodes()).any(|node| dimension.ends(node).is_none()));
        if !has_gaps {
            return Ok(own.unwrap_or_else(V::zeroed));
        }
        let owner =
            self.mapping.owners(&[0; N])?.first().and_then(|rank| self.mapping.nodes().position(rank));
        let mut value = [own.unwrap_or_else(V::zeroed)];
        self.group()?.broadcast(owner.unwrap_or(0), &mut value)?;
        Ok(value[0])
    }

    /// The smallest element, and the first index at which it is, in C's order. Collective.
    #[track_caller]
    pub fn min_at(&self) -> Result<(T, [i64; N])>
    where
        T: Number,
    {
        self.check("min_at", String::new)?;
        self.extreme_at(MinAt)
    }

    /// The largest element, and the first index at which it is, in C's order. Collective.
    #[track_caller]
    pub fn max_at(&self) -> Result<(T, [i64; N])>
    where
        T: Number,
    {
        self.check("max_at", String::new)?;
        self.extreme_at(MaxAt)
    }

    fn extreme_at(&self, operation: impl Operation<Located<T>>) -> Result<(T, [i64; N])> {
        let sizes = self.mapping.sizes();
        let place =
            |index: [i64; N]| index.iter().zip(&sizes).fold(0, |place, (at, size)| place * size + *at as u64);
        let mut best: Option<Located<T>> = None;
        self.for_each(|index, value| {
            let here = Located::new(value, place(index));
            best = Some(best.map_or(here, |best| operation.apply(best, here)));
        });
        let nothing = self.stand_in(best)?;
        let mut all = [best.unwrap_or(nothing)];
        self.group()?.allreduce(&mut all, operation)?;
        let (value, mut place) = (all[0].value(), all[0].place());
        let mut index = [0; N];
        for (at, size) in index.iter_mut().zip(&sizes).rev() {
            *at = (place % size) as i64;
            place /= size;
        }
        Ok((value, index))
    }
}
