//! Loops over the own elements. A box of indices is nested loops over few progressions; the innermost one runs over a slice.

use super::rows::{Rows, Walk};
use super::Array;
use crate::array::space::{margin, Owned};
use crate::Pod;

/// A row of own elements: the index of the first, where it lies, how many there are, and the way from one to the next, of indices and of places.
struct Row<const N: usize> {
    first: [i64; N],
    place: usize,
    count: usize,
    by: i64,
    stride: usize,
}

/// All rows of the product of what there is in each dimension, and a walk through others that goes along.
fn rows<const N: usize, W: Walk<N>>(
    owned: &[Vec<Owned>; N],
    strides: &[usize; N],
    walk: &mut W,
    mut work: impl FnMut(&mut W, Row<N>),
) {
    let sizes: [usize; N] = std::array::from_fn(|at| owned[at].len());
    if sizes.contains(&0) {
        return;
    }
    let mut which = [0usize; N];
    loop {
        let parts: [Owned; N] = std::array::from_fn(|at| owned[at][which[at]]);
        rows_of_box(&parts, strides, walk, &mut work);
        if !next(&mut which, &sizes) {
            return;
        }
    }
}

/// The next place in a box, the last dimension fastest.
fn next<const N: usize>(place: &mut [usize; N], sizes: &[usize; N]) -> bool {
    for at in (0..N).rev() {
        place[at] += 1;
        if place[at] < sizes[at] {
            return true;
        }
        place[at] = 0;
    }
    false
}

/// Rows of the last dimension, in lines of the last but one, in which a row is found from the one before by an addition.
#[inline]
fn rows_of_box<const N: usize, W: Walk<N>>(
    parts: &[Owned; N],
    strides: &[usize; N],
    walk: &mut W,
    work: &mut impl FnMut(&mut W, Row<N>),
) {
    let (count, by, stride) = match parts.last() {
        Some(last) => (last.count as usize, last.stride, last.local_stride as usize),
        None => (1, 1, 1),
    };
    let inner = N.wrapping_sub(2);
    let (lines, step, jump) = match parts.get(inner) {
        Some(part) => (part.count, part.stride, part.local_stride as usize * strides[inner]),
        None => (1, 0, 0),
    };
    let mut sizes: [usize; N] = std::array::from_fn(|at| parts[at].count as usize);
    sizes[N.saturating_sub(2)..].fill(1);
    let mut at = [0usize; N];
    loop {
        let mut first = [0; N];
        let mut place = 0;
        for dimension in 0..N {
            let part = &parts[dimension];
            let steps = at[dimension] as i64;
            first[dimension] = part.start + steps * part.stride;
            place += (part.local + steps * part.local_stride) as usize * strides[dimension];
        }
        walk.go_to(&first);
        for _ in 0..lines {
            work(walk, Row { first, place, count, by, stride });
            if let Some(index) = first.get_mut(inner) {
                *index += step;
            }
            place += jump;
            walk.step(step);
        }
        if !next(&mut at, &sizes) {
            return;
        }
    }
}

impl<T: Pod, const N: usize> Array<'_, T, N> {
    /// The first and the last own index of each dimension; between them all are own, unless a dimension is spread in turn. `None` if there are none.
    pub fn bounds(&self) -> Option<[(i64, i64); N]> {
        (!self.frame.is_empty())
            .then(|| std::array::from_fn(|at| (self.frame.first[at], self.frame.last[at])))
    }

    /// What is left of the own box without so many cells below and above: what is computed while a reflect is under way.
    pub fn interior(&self, widths: &[(i64, i64); N]) -> Option<[(i64, i64); N]> {
        let bounds = self.bounds()?;
        let inner: [(i64, i64); N] =
            std::array::from_fn(|at| (bounds[at].0 + widths[at].0, bounds[at].1 - widths[at].1));
        inner.iter().all(|(low, high)| low <= high).then_some(inner)
    }

    /// The rest of the own box: boxes that do not overlap.
    pub fn boundary(&self, widths: &[(i64, i64); N]) -> Vec<[(i64, i64); N]> {
        let Some(bounds) = self.bounds() else { return Vec::new() };
        let Some(inner) = self.interior(widths) else { return vec![bounds] };
        let boxes = margin(&bounds, &inner);
        boxes.into_iter().map(|one| std::array::from_fn(|at| one[at])).collect()
    }

    fn everything(&self) -> [(i64, i64); N] {
        std::array::from_fn(|at| (self.frame.first[at], self.frame.last[at]))
    }

    /// Calls a function with the index of every own element and its value.
    pub fn for_each(&self, mut work: impl FnMut([i64; N], T)) {
        let cells: &[T] = &self.cells;
        rows(&self.frame.owned(&self.everything()), &self.frame.strides, &mut (), |(), row| {
            let Row { mut first, place, count, by, stride } = row;
            for step in 0..count {
                work(first, cells[place + step * stride]);
                if let Some(last) = first.last_mut() {
                    *last += by;
                }
            }
        });
    }

    /// Calls a function with the index of the first element of every own row, and the row: elements side by side in the last dimension.
    pub fn for_rows(&self, mut work: impl FnMut([i64; N], &[T])) {
        let cells: &[T] = &self.cells;
        rows(&self.frame.owned(&self.everything()), &self.frame.strides, &mut (), |(), row| {
            let Row { mut first, place, count, by, stride } = row;
            if by == 1 && stride == 1 {
                return work(first, &cells[place..place + count]);
            }
            for step in 0..count {
                work(first, &cells[place + step * stride..][..1]);
                if let Some(last) = first.last_mut() {
                    *last += by;
                }
            }
        });
    }

    /// Calls a function with the index of every own element and the element, which it may change.
    pub fn update(&mut self, work: impl FnMut([i64; N], &mut T)) {
        self.update_in(self.everything(), work);
    }

    /// The same for those in a box: from the first to the last index of each dimension.
    pub fn update_in(&mut self, bounds: [(i64, i64); N], mut work: impl FnMut([i64; N], &mut T)) {
        let cells: &mut [T] = &mut self.cells;
        rows(&self.frame.owned(&bounds), &self.frame.strides, &mut (), |(), row| {
            let Row { mut first, place, count, by, stride } = row;
            if stride == 1 {
                for cell in &mut cells[place..place + count] {
                    work(first, cell);
                    if let Some(last) = first.last_mut() {
                        *last += by;
                    }
                }
                return;
            }
            for step in 0..count {
                work(first, &mut cells[place + step * stride]);
                if let Some(last) = first.last_mut() {
                    *last += by;
                }
            }
        });
    }

    /// Calls a function with the index of the first element of every own row, and the row: elements side by side in the last dimension. The fastest loop:
    /// the function runs over slices, of this array and, with [`zip_rows`](Self::zip_rows), of others, as the compiler likes it.
    ///
    /// ```
    /// # use kumiki::array::Array;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let mut a = Array::<f64, 1>::block(&world, &[1000], &[0])?;
    /// a.update_rows(|[first], row| {
    ///     for (cell, index) in row.iter_mut().zip(first..) {
    ///         *cell = index as f64;
    ///     }
    /// });
    /// assert_eq!(a.sum()?, 499_500.0);
    /// # drop(a);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn update_rows(&mut self, work: impl FnMut([i64; N], &mut [T])) {
        self.update_rows_in(self.everything(), work);
    }

    /// The same for what is in a box.
    pub fn update_rows_in(&mut self, bounds: [(i64, i64); N], mut work: impl FnMut([i64; N], &mut [T])) {
        self.zip_rows_in(bounds, (), |first, row, ()| work(first, row));
    }

    /// As [`update_rows`](Self::update_rows), beside rows of others: of arrays, as slices, and of arrays with their shadow, as [slices and those around
    /// them](super::Near). A loop over many short rows costs what it costs over plain memory: rows are not looked up one by one.
    ///
    /// ```
    /// # use kumiki::array::Array;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let mut heat = Array::<f64, 2>::block(&world, &[100, 60], &[1, 0])?;
    /// heat.update(|[i, _], cell| *cell = i as f64);
    /// let mut next = heat.like()?;
    /// let mut rate = heat.like()?;
    /// rate.fill(0.5);
    /// let inside = [(1, 98), (0, 59)];
    /// next.zip_rows_in(inside, (heat.reflect()?, &rate), |_first, row, (heat, rate)| {
    ///     let (above, below) = (heat.row([-1, 0]), heat.row([1, 0]));
    ///     for (at, cell) in row.iter_mut().enumerate() {
    ///         *cell = rate[at] * (above[at] + below[at]);
    ///     }
    /// });
    /// assert_eq!(next.sum()?, 60.0 * (98.0 * 99.0 / 2.0));
    /// # drop((heat, next, rate));
    /// # world.finalize()
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If this rank does not have what belongs to one of its rows of another array.
    #[track_caller]
    pub fn zip_rows<R: Rows<N>>(&mut self, others: R, work: impl FnMut([i64; N], &mut [T], R::Row)) {
        self.zip_rows_in(self.everything(), others, work);
    }

    /// The same for what is in a box.
    ///
    /// # Panics
    ///
    /// As [`zip_rows`](Self::zip_rows).
    #[track_caller]
    pub fn zip_rows_in<R: Rows<N>>(
        &mut self,
        bounds: [(i64, i64); N],
        others: R,
        mut work: impl FnMut([i64; N], &mut [T], R::Row),
    ) {
        let own = self.everything();
        let cells: &mut [T] = &mut self.cells;
        let bounds = std::array::from_fn(|at| (bounds[at].0.max(own[at].0), bounds[at].1.min(own[at].1)));
        let mut walk = others.walk(&bounds);
        rows(&self.frame.owned(&bounds), &self.frame.strides, &mut walk, |walk, row| {
            let Row { mut first, place, count, by, stride } = row;
            if by == 1 && stride == 1 {
                return work(first, &mut cells[place..place + count], walk.row(&first, count));
            }
            for step in 0..count {
                walk.go_to(&first);
                work(first, &mut cells[place + step * stride..][..1], walk.row(&first, 1));
                if let Some(last) = first.last_mut() {
                    *last += by;
                }
            }
        });
    }

    /// As [`update_rows`](Self::update_rows), in as many threads as `rayon` has: slabs of the first dimension at a time. Where a dimension is spread in turn it is done by this
    /// thread.
    #[cfg(feature = "rayon")]
    pub fn update_rows_parallel(&mut self, work: impl Fn([i64; N], &mut [T]) + Sync)
    where
        T: Send,
    {
        use rayon::prelude::*;
        let owned = self.frame.owned(&self.everything());
        let is_plain = owned.iter().all(|parts| matches!(parts[..], [part] if part.stride == 1));
        if N == 0 || !is_plain || self.cells.is_empty() {
            return self.update_rows(work);
        }
        let strides = self.frame.strides;
        let parts: [Owned; N] = std::array::from_fn(|at| owned[at][0]);
        // One row of the outermost dimension at a time, or, if there is no other, some of its elements.
        let chunk = if N == 1 { 4096 } else { strides[0].max(1) };
        self.cells.par_chunks_mut(chunk).enumerate().for_each(|(number, cells)| {
            let mut part = parts;
            let outer = &mut part[0];
            let (low, high) = match N {
                1 => (number * chunk, number * chunk + cells.len()),
                _ => (number, number + 1),
            };
            let (own_low, own_high) = (outer.local as usize, (outer.local + outer.count) as usize);
            let (from, to) = (low.max(own_low), high.min(own_high));
            if from >= to {
                return;
            }
            outer.start += (from - own_low) as i64;
            outer.local = (from - low) as i64;
            outer.count = (to - from) as i64;
            rows_of_box(&part, &strides, &mut (), &mut |(), row: Row<N>| {
                work(row.first, &mut cells[row.place..row.place + row.count]);
            });
        });
    }
}
