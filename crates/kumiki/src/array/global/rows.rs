//! Walking through several arrays at once, row by row: where a row of each of them lies is known from where the last one was, so that a loop over many arrays costs what
//! it costs over plain memory.

use super::{Array, Reflected, Reflecting};
use crate::Pod;

/// What [`Array::zip_rows`] walks through beside an array: another array (`&Array`), whose rows are slices; one with its shadow ([`Reflected`]), whose rows
/// come with those [around them](Near); one whose shadow is on its way (`&Reflecting`), whose rows come with own ones around them; tuples and lists of these.
pub trait Rows<const N: usize> {
    /// What a loop is given of each row.
    type Row;
    /// What walks.
    #[doc(hidden)]
    type Walk: Walk<N, Row = Self::Row>;

    /// Ready to walk through a box.
    #[doc(hidden)]
    fn walk(self, bounds: &[(i64, i64); N]) -> Self::Walk;
}

/// A walk through the rows of a box.
#[doc(hidden)]
pub trait Walk<const N: usize> {
    /// What there is of a row.
    type Row;

    /// To the row that begins with this element.
    fn go_to(&mut self, first: &[i64; N]);

    /// So many rows on, in the last dimension but one.
    fn step(&mut self, by: i64);

    /// The row, whose first element this is.
    fn row(&self, first: &[i64; N], len: usize) -> Self::Row;
}

/// Where the rows of a box begin in a local part: if all of the box is here, and an index is one more where the place is one more.
#[derive(Clone, Copy)]
struct Line<const N: usize> {
    place: usize,
    /// The place of index 0, 0, …, which may be none.
    origin: usize,
    strides: [usize; N],
    /// If not, every row is asked for.
    is_straight: bool,
}

impl<const N: usize> Line<N> {
    const CROOKED: Line<N> = Line { place: 0, origin: 0, strides: [0; N], is_straight: false };

    fn new(strides: &[usize; N], shift: &[i64; N]) -> Line<N> {
        let line = Line { place: 0, origin: 0, strides: *strides, is_straight: true };
        let origin = line.place_of(shift);
        Line { origin, ..line }
    }

    #[inline]
    fn place_of(&self, index: &[i64; N]) -> usize {
        let distances = index.iter().zip(&self.strides);
        distances.fold(self.origin, |place, (index, stride)| {
            place.wrapping_add((*index as usize).wrapping_mul(*stride))
        })
    }

    #[inline]
    fn step(&mut self, by: i64) {
        if let Some(stride) = N.checked_sub(2).and_then(|line| self.strides.get(line)) {
            self.place = self.place.wrapping_add((by as usize).wrapping_mul(*stride));
        }
    }
}

/// Walks through the own elements of an array.
#[doc(hidden)]
pub struct OwnWalk<'a, 'w, T: Pod, const N: usize> {
    array: &'a Array<'w, T, N>,
    cells: &'a [T],
    line: Line<N>,
}

impl<'a, 'w, T: Pod, const N: usize> Rows<N> for &'a Array<'w, T, N> {
    type Row = &'a [T];
    type Walk = OwnWalk<'a, 'w, T, N>;

    fn walk(self, bounds: &[(i64, i64); N]) -> OwnWalk<'a, 'w, T, N> {
        let frame = &self.frame;
        let is_own = |at: usize| bounds[at].0 >= frame.first[at] && bounds[at].1 <= frame.last[at];
        let line = match &frame.shift {
            Some(shift) if (0..N).all(is_own) => Line::new(&frame.strides, shift),
            _ => Line::CROOKED,
        };
        OwnWalk { array: self, cells: &self.cells, line }
    }
}

impl<'a, T: Pod, const N: usize> Walk<N> for OwnWalk<'a, '_, T, N> {
    type Row = &'a [T];

    #[inline]
    fn go_to(&mut self, first: &[i64; N]) {
        self.line.place = self.line.place_of(first);
    }

    #[inline]
    fn step(&mut self, by: i64) {
        self.line.step(by);
    }

    #[inline]
    fn row(&self, first: &[i64; N], len: usize) -> &'a [T] {
        let start = match self.line.is_straight {
            true => self.line.place,
            false => ask(self.array, first, len, false),
        };
        &self.cells[start..start + len]
    }
}

/// Where a row begins, from what the array knows.
#[cold]
#[inline(never)]
#[track_caller]
fn ask<T: Pod, const N: usize>(
    array: &Array<'_, T, N>,
    first: &[i64; N],
    len: usize,
    with_shadow: bool,
) -> usize {
    match array.frame.row(*first, len, with_shadow) {
        Some(start) => start,
        None => {
            let rank = array.world().rank();
            panic!("rank {rank} does not have {len} elements from {first:?} on of {array:?}, or does not have them side by side")
        }
    }
}

/// A row, and those around it that the rank has: of an array with its shadow, in [`Array::zip_rows`].
#[derive(Clone, Copy, Debug)]
pub struct Near<'a, 'w, T: Pod, const N: usize> {
    array: &'a Array<'w, T, N>,
    cells: &'a [T],
    first: [i64; N],
    len: usize,
    place: usize,
    beyond: [u64; N],
    with_shadow: bool,
}

impl<'a, T: Pod, const N: usize> Near<'a, '_, T, N> {
    /// As many elements as the row has, so far away: `[0, 1]` is the row of the elements to the right.
    ///
    /// # Panics
    ///
    /// If the rank does not have them: its shadow is not so wide, or is on its way.
    #[inline]
    #[track_caller]
    pub fn row(&self, by: [i64; N]) -> &'a [T] {
        let (mut is_far, mut start) = (N == 0, self.place);
        for ((by, beyond), stride) in by.iter().zip(&self.beyond).zip(&self.array.frame.strides) {
            is_far |= by.unsigned_abs() >= *beyond;
            start = start.wrapping_add((*by as usize).wrapping_mul(*stride));
        }
        if is_far {
            let first = std::array::from_fn(|at| self.first[at].saturating_add(by[at]));
            start = ask(self.array, &first, self.len, self.with_shadow);
        }
        // What is found has the length of the row, whichever way: the compiler sees that.
        &self.cells[start..start + self.len]
    }
}

/// Walks through an array with what is around its rows.
#[doc(hidden)]
pub struct NearWalk<'a, 'w, T: Pod, const N: usize> {
    array: &'a Array<'w, T, N>,
    cells: &'a [T],
    with_shadow: bool,
    line: Line<N>,
    /// Nearer to every element of the box than this there are others, in each dimension. What is as far away is asked for.
    beyond: [u64; N],
}

impl<'a, 'w, T: Pod, const N: usize> NearWalk<'a, 'w, T, N> {
    fn new(array: &'a Array<'w, T, N>, bounds: &[(i64, i64); N], with_shadow: bool) -> Self {
        let cells: &[T] = &array.cells;
        let mut walk = NearWalk { array, cells, with_shadow, line: Line::CROOKED, beyond: [0; N] };
        let frame = &array.frame;
        if let Some(shift) = &frame.shift {
            let ends = |at: usize| match with_shadow {
                true => (-shift[at], frame.extents[at] as i64 - 1 - shift[at]),
                false => (frame.first[at], frame.last[at]),
            };
            let room = |at: usize| {
                let (first, last) = ends(at);
                bounds[at].0.saturating_sub(first).min(last.saturating_sub(bounds[at].1))
            };
            let rooms: [i64; N] = std::array::from_fn(room);
            if rooms.iter().all(|room| *room >= 0) {
                (walk.line, walk.beyond) =
                    (Line::new(&frame.strides, shift), rooms.map(|room| room as u64 + 1));
            }
        }
        walk
    }
}

impl<'a, 'w, T: Pod, const N: usize> Rows<N> for Reflected<'a, 'w, T, N> {
    type Row = Near<'a, 'w, T, N>;
    type Walk = NearWalk<'a, 'w, T, N>;

    fn walk(self, bounds: &[(i64, i64); N]) -> NearWalk<'a, 'w, T, N> {
        NearWalk::new(self.array, bounds, true)
    }
}

impl<'a, 'w, T: Pod, const N: usize> Rows<N> for &'a Reflecting<'_, 'w, T, N> {
    type Row = Near<'a, 'w, T, N>;
    type Walk = NearWalk<'a, 'w, T, N>;

    fn walk(self, bounds: &[(i64, i64); N]) -> NearWalk<'a, 'w, T, N> {
        NearWalk::new(self, bounds, false)
    }
}

impl<'a, 'w, T: Pod, const N: usize> Walk<N> for NearWalk<'a, 'w, T, N> {
    type Row = Near<'a, 'w, T, N>;

    #[inline]
    fn go_to(&mut self, first: &[i64; N]) {
        self.line.place = self.line.place_of(first);
    }

    #[inline]
    fn step(&mut self, by: i64) {
        self.line.step(by);
    }

    #[inline]
    fn row(&self, first: &[i64; N], len: usize) -> Near<'a, 'w, T, N> {
        let NearWalk { array, cells, with_shadow, line: Line { place, .. }, beyond } = *self;
        Near { array, cells, first: *first, len, place, beyond, with_shadow }
    }
}

impl<const N: usize, R: Rows<N>, const K: usize> Rows<N> for [R; K] {
    type Row = [R::Row; K];
    type Walk = [R::Walk; K];

    fn walk(self, bounds: &[(i64, i64); N]) -> [R::Walk; K] {
        self.map(|one| one.walk(bounds))
    }
}

impl<const N: usize, W: Walk<N>, const K: usize> Walk<N> for [W; K] {
    type Row = [W::Row; K];

    #[inline]
    fn go_to(&mut self, first: &[i64; N]) {
        self.iter_mut().for_each(|one| one.go_to(first));
    }

    #[inline]
    fn step(&mut self, by: i64) {
        self.iter_mut().for_each(|one| one.step(by));
    }

    #[inline]
    fn row(&self, first: &[i64; N], len: usize) -> [W::Row; K] {
        std::array::from_fn(|at| self[at].row(first, len))
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),*))*) => {$(
        impl<const N: usize, $($name: Rows<N>),*> Rows<N> for ($($name,)*) {
            type Row = ($($name::Row,)*);
            type Walk = ($($name::Walk,)*);

            fn walk(self, bounds: &[(i64, i64); N]) -> Self::Walk {
                ($(self.$at.walk(bounds),)*)
            }
        }

        impl<const N: usize, $($name: Walk<N>),*> Walk<N> for ($($name,)*) {
            type Row = ($($name::Row,)*);

            #[inline]
            fn go_to(&mut self, first: &[i64; N]) {
                $(self.$at.go_to(first);)*
            }

            #[inline]
            fn step(&mut self, by: i64) {
                $(self.$at.step(by);)*
            }

            #[inline]
            fn row(&self, first: &[i64; N], len: usize) -> Self::Row {
                ($(self.$at.row(first, len),)*)
            }
        }
    )*};
}

impl<const N: usize> Rows<N> for () {
    type Row = ();
    type Walk = ();

    fn walk(self, _bounds: &[(i64, i64); N]) {}
}

impl<const N: usize> Walk<N> for () {
    type Row = ();

    fn go_to(&mut self, _first: &[i64; N]) {}

    fn step(&mut self, _by: i64) {}

    fn row(&self, _first: &[i64; N], _len: usize) {}
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
