//! Parts of memory: subscripts with base, length and step, and what they come to in bytes.

use super::MOST_DIMENSIONS;
use crate::guard::misuse;
use kumiki::{Result, Shape};
use std::ffi::{c_int, c_long, c_void};

/// A part of a subscript that was left out.
pub(super) const REST: c_long = c_long::MIN;

/// `kxmp_part`: one subscript.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpPart {
    pub(super) is_range: c_int,
    pub(super) base: c_long,
    pub(super) length: c_long,
    pub(super) step: c_long,
}

/// `kxmp_side`: one side of an assignment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpSide {
    pub(super) array: *mut c_void,
    pub(super) base: *mut c_void,
    pub(super) element: usize,
    pub(super) kind: c_int,
    pub(super) ndims: c_int,
    pub(super) extent: *const c_long,
    pub(super) part: [KxmpPart; MOST_DIMENSIONS],
}

/// Indices of one dimension, from a first one on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Indices {
    pub(super) is_range: bool,
    pub(super) first: i64,
    pub(super) count: i64,
    pub(super) step: i64,
}

impl KxmpPart {
    /// The indices that it names in a dimension of so many elements.
    pub(super) fn indices(&self, name: &str, dimension: usize, extent: i64) -> Result<Indices> {
        let wrong = |what: String| {
            misuse(format!("{name}: {what} in dimension {}, which has {extent} elements", dimension + 1))
        };
        let inside = |index: i64| (0..extent).contains(&index);
        if self.is_range == 0 {
            return match inside(self.base) {
                true => Ok(Indices { is_range: false, first: self.base, count: 1, step: 1 }),
                false => Err(wrong(format!("there is no index {}", self.base))),
            };
        }
        let step = if self.step == REST { 1 } else { self.step };
        if step == 0 {
            return Err(wrong("a step of 0".into()));
        }
        let first = match (self.base, step > 0) {
            (REST, true) => 0,
            (REST, false) => extent - 1,
            (base, _) => base,
        };
        let rest = if step > 0 { (extent - first + step - 1) / step } else { first / -step + 1 };
        let count = if self.length == REST { rest.max(0) } else { self.length };
        if count < 0 {
            return Err(wrong(format!("a length of {count}")));
        }
        let last = (count - 1).checked_mul(step).and_then(|way| first.checked_add(way));
        if count > 0 && !(inside(first) && last.is_some_and(inside)) {
            return Err(wrong(format!("the section {first}:{count}:{step} leaves the array")));
        }
        Ok(Indices { is_range: true, first, count, step })
    }
}

/// Where the elements of a section lie in a memory, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section {
    /// The first element.
    pub(super) first: i64,
    /// Of each range, the slowest first: how many, and how far apart.
    pub(super) ranges: Vec<(i64, i64)>,
}

impl Section {
    /// The section of a memory with these extents, the last of which runs fastest.
    pub(super) fn new(name: &str, extents: &[c_long], parts: &[KxmpPart], element: usize) -> Result<Section> {
        let mut stride = element as i64;
        let (mut first, mut ranges) = (0, Vec::new());
        for (dimension, (part, &extent)) in parts.iter().zip(extents).enumerate().rev() {
            let indices = part.indices(name, dimension, extent)?;
            first += indices.first * stride;
            if indices.is_range {
                ranges.push((indices.count, indices.step * stride));
            }
            stride *= extent;
        }
        ranges.reverse();
        Ok(Section { first, ranges })
    }

    /// How many elements.
    pub(super) fn count(&self) -> i64 {
        self.ranges.iter().map(|(count, _)| count).product()
    }

    /// The lengths of its ranges.
    pub(super) fn lengths(&self) -> Vec<i64> {
        self.ranges.iter().map(|(count, _)| *count).collect()
    }

    /// The same elements of both, so that those of this one lie in ascending order.
    pub(super) fn ascend(&mut self, other: &mut Section) {
        for (own, theirs) in self.ranges.iter_mut().zip(&mut other.ranges) {
            if own.1 < 0 {
                self.first += (own.0 - 1) * own.1;
                own.1 = -own.1;
                other.first += (theirs.0 - 1) * theirs.1;
                theirs.1 = -theirs.1;
            }
        }
    }

    /// Bytes from the first element to the end of the last one, of a section that ascends.
    pub(super) fn span(&self, element: usize) -> usize {
        let way: i64 = self.ranges.iter().map(|(count, stride)| (count - 1) * stride).sum();
        way as usize + element
    }

    /// Whether its elements lie side by side.
    pub(super) fn is_dense(&self, element: usize) -> bool {
        let mut next = element as i64;
        self.ranges.iter().rev().all(|&(count, stride)| {
            let fits = count == 1 || stride == next;
            next *= count;
            fits
        })
    }

    /// As bytes behind the first.
    pub(super) fn shape(&self, element: usize) -> Result<Shape> {
        let rows = self.ranges.iter().map(|&(count, stride)| (count as usize, stride as isize));
        let dimensions: Vec<(usize, isize)> = rows.chain([(element, 1)]).collect();
        Shape::section(&dimensions)
    }

    /// Calls something with the place of each element, in order.
    pub(super) fn each(&self, mut work: impl FnMut(i64)) {
        if self.count() == 0 {
            return;
        }
        let mut turn = vec![0; self.ranges.len()];
        let mut at = self.first;
        loop {
            work(at);
            let mut dimension = self.ranges.len();
            loop {
                let Some(next) = dimension.checked_sub(1) else { return };
                dimension = next;
                let (count, stride) = self.ranges[dimension];
                turn[dimension] += 1;
                at += stride;
                if turn[dimension] < count {
                    break;
                }
                at -= count * stride;
                turn[dimension] = 0;
            }
        }
    }
}

impl KxmpSide {
    /// The section of a memory that a side names.
    ///
    /// # Safety
    /// `extent` must have as many numbers as there are dimensions.
    pub(super) unsafe fn section(&self, name: &str) -> Result<Section> {
        let ndims = usize::try_from(self.ndims).ok().filter(|&ndims| ndims <= MOST_DIMENSIONS);
        let ndims = ndims.ok_or_else(|| misuse(format!("{name}: {} dimensions", self.ndims)))?;
        // SAFETY: as the caller promises.
        let extents = unsafe { crate::api::buffers::list(self.extent, ndims, "the extents") }?;
        Section::new(name, extents, &self.part[..ndims], self.element)
    }
}

/// Fails if two sections have not the same shape. One element goes to all of a section.
pub(super) fn check_shapes(to: &Section, from: &Section) -> Result<()> {
    match from.ranges.is_empty() || to.lengths() == from.lengths() {
        true => Ok(()),
        false => Err(misuse(format!(
            "the sections differ: {:?} elements on the left, {:?} on the right; give both the same lengths",
            to.lengths(),
            from.lengths()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(base: c_long, length: c_long, step: c_long) -> KxmpPart {
        KxmpPart { is_range: 1, base, length, step }
    }

    #[test]
    fn sections_are_where_the_elements_are() {
        let extents = [4, 10];
        let parts = [range(REST, REST, 2), range(8, 3, -3)];
        let section = Section::new("a", &extents, &parts, 4).unwrap();
        let mut places = Vec::new();
        section.each(|place| places.push(place / 4));
        assert_eq!(places, [8, 5, 2, 28, 25, 22]);
        let index = KxmpPart { is_range: 0, base: 3, length: 1, step: 1 };
        let row = Section::new("a", &extents, &[index, range(5, REST, 1)], 4).unwrap();
        assert_eq!((row.first, row.lengths(), row.is_dense(4)), (140, vec![5], true));
        assert!(Section::new("a", &extents, &[index, range(5, 6, 1)], 4).is_err());
        let (mut one, mut other) = (section.clone(), section.clone());
        one.ascend(&mut other);
        assert_eq!((one.first, one.ranges), (8, vec![(2, 80), (3, 12)]));
    }
}
