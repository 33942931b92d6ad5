//! Where an element of a local part lies in memory, with what does not change computed once.

use crate::array::space::{misuse, Axis, Owned, Part, Shadow};
use crate::Result;

/// The local part of an array of `N` dimensions.
#[derive(Clone, Debug)]
pub(super) struct Frame<const N: usize> {
    pub(super) extents: [usize; N],
    pub(super) strides: [usize; N],
    pub(super) len: usize,
    /// Indices of the own elements go from here…
    pub(super) first: [i64; N],
    /// …to here; below it, if there are none.
    pub(super) last: [i64; N],
    /// What is added to an index to give its place: if all dimensions are of that kind.
    pub(super) shift: Option<[i64; N]>,
    dimensions: [Kind; N],
}

#[derive(Clone, Debug)]
struct Kind {
    axis: Axis,
    node: u32,
    size: i64,
    shift: Option<i64>,
    full: bool,
}

impl<const N: usize> Frame<N> {
    pub(super) fn new(part: &Part<'_>) -> Result<Frame<N>> {
        let mapping = part.mapping();
        if mapping.dimensions().len() != N {
            let given = mapping.dimensions().len();
            return Err(misuse(format!("a mapping of {given} dimensions for an array of {N}")));
        }
        let len = usize::try_from(part.len()).ok().filter(|len| *len <= isize::MAX as usize);
        let len = len.ok_or_else(|| misuse("an array with more elements than there is memory"))?;
        let ends: [Option<(i64, i64)>; N] = std::array::from_fn(|at| part.ends(at));
        let dimensions: [Kind; N] = std::array::from_fn(|at| {
            let dimension = &mapping.dimensions()[at];
            Kind {
                axis: dimension.axis().clone(),
                node: part.node(at).unwrap_or(u32::MAX),
                size: dimension.size() as i64,
                shift: part.shift(at),
                full: dimension.shadow() == Shadow::Full,
            }
        });
        // Where own elements have holes between them, places have to be asked for.
        let is_plain = dimensions.iter().all(|kind| kind.shift.is_some() && !kind.axis.is_cyclic());
        let is_here = part.coordinates().is_some() && ends.iter().all(Option::is_some);
        Ok(Frame {
            extents: std::array::from_fn(|at| part.extents()[at] as usize),
            strides: std::array::from_fn(|at| part.strides()[at] as usize),
            len,
            first: ends.map(|ends| ends.filter(|_| is_here).map_or(0, |(first, _)| first)),
            last: ends.map(|ends| ends.filter(|_| is_here).map_or(-1, |(_, last)| last)),
            shift: is_plain.then(|| std::array::from_fn(|at| dimensions[at].shift.unwrap_or(0))),
            dimensions,
        })
    }

    /// Whether there are no own elements.
    pub(super) fn is_empty(&self) -> bool {
        self.first.iter().zip(&self.last).any(|(first, last)| first > last)
    }

    /// Where an own element lies.
    #[inline]
    pub(super) fn own_at(&self, index: [i64; N]) -> Option<usize> {
        let mut place = 0usize;
        if let Some(shift) = &self.shift {
            for at in 0..N {
                if index[at] < self.first[at] || index[at] > self.last[at] {
                    return None;
                }
                place += (index[at] + shift[at]) as usize * self.strides[at];
            }
            return Some(place);
        }
        for (at, kind) in self.dimensions.iter().enumerate() {
            if index[at] < self.first[at]
                || index[at] > self.last[at]
                || kind.axis.owner(index[at]) != Some(kind.node)
            {
                return None;
            }
            place += self.place(at, index[at])? * self.strides[at];
        }
        Some(place)
    }

    /// Where an element lies that is the rank's own or in its shadow.
    #[inline]
    pub(super) fn shadow_at(&self, index: [i64; N]) -> Option<usize> {
        let mut place = 0usize;
        if let Some(shift) = &self.shift {
            for at in 0..N {
                let here = (index[at] + shift[at]) as usize;
                if here >= self.extents[at] {
                    return None;
                }
                place += here * self.strides[at];
            }
            return Some(place);
        }
        for (at, index) in index.iter().enumerate() {
            place += self.place(at, *index)? * self.strides[at];
        }
        Some(place)
    }

    fn place(&self, at: usize, index: i64) -> Option<usize> {
        let kind = &self.dimensions[at];
        let place = match kind.shift {
            Some(shift) => index + shift,
            None if kind.axis.owner(index) == Some(kind.node) => kind.axis.local(index)?,
            None => return None,
        };
        usize::try_from(place).ok().filter(|place| *place < self.extents[at])
    }

    /// Where so many elements side by side begin.
    #[inline]
    pub(super) fn row(&self, first: [i64; N], len: usize, with_shadow: bool) -> Option<usize> {
        let at = |index| if with_shadow { self.shadow_at(index) } else { self.own_at(index) };
        let start = at(first)?;
        if let (Some(shift), Some(end)) = (&self.shift, N.checked_sub(1)) {
            // So many are left of this row.
            let until = if with_shadow { self.extents[end] as i64 } else { self.last[end] + shift[end] + 1 };
            return (len as u64 <= (until - first[end] - shift[end]) as u64).then_some(start);
        }
        if len > 1 {
            let mut last = first;
            if let Some(end) = last.last_mut() {
                *end += len as i64 - 1;
            }
            (at(last)? - start == len - 1).then_some(())?;
            if let (false, Some(kind)) = (with_shadow, self.dimensions.last()) {
                // All elements are here then, side by side, and those between may be others'.
                let is_dealt = kind.full && kind.axis.is_cyclic();
                let owned = || kind.axis.owned(kind.node, last[N - 1] + 1 - len as i64, 1, len as i64);
                (!is_dealt || owned().iter().any(|part| part.count == len as i64)).then_some(())?;
            }
        }
        Some(start)
    }

    /// The own elements that lie in a box, dimension by dimension: `start` is an index here.
    pub(super) fn owned(&self, bounds: &[(i64, i64); N]) -> [Vec<Owned>; N] {
        std::array::from_fn(|at| {
            let kind = &self.dimensions[at];
            let (low, high) = (bounds[at].0.max(self.first[at]), bounds[at].1.min(self.last[at]));
            if low > high {
                return Vec::new();
            }
            let mut owned = kind.axis.owned(kind.node, low, 1, high - low + 1);
            for part in &mut owned {
                part.start += low;
                if let Some(shift) = kind.shift {
                    (part.local, part.local_stride) = (part.start + shift, part.stride);
                }
            }
            owned
        })
    }

    /// Where the own elements begin, and their extents and strides, if they lie at equal distances.
    pub(super) fn own(&self, part: &Part<'_>) -> Result<(usize, [usize; N], [usize; N])> {
        if self.is_empty() {
            return Ok((0, [0; N], self.strides));
        }
        let mut start = 0;
        let mut extents = [0; N];
        let mut strides = [0; N];
        for (at, kind) in self.dimensions.iter().enumerate() {
            let mut by = 1;
            extents[at] = part.count(at) as usize;
            if kind.full && kind.axis.is_cyclic() {
                let owned = kind.axis.owned(kind.node, 0, 1, kind.size);
                match owned.as_slice() {
                    [one] => by = one.stride as usize,
                    _ => {
                        return Err(misuse(format!(
                            "dimension {at} is spread in turn and has a full shadow: its own elements are no view"
                        )))
                    }
                }
            }
            let first =
                self.place(at, self.first[at]).ok_or_else(|| misuse("an element that is not here"))?;
            start += first * self.strides[at];
            strides[at] = self.strides[at] * by;
        }
        Ok((start, extents, strides))
    }
}
