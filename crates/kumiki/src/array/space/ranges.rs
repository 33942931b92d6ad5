//! Loops: which global indices of a progression a node runs through, and the margins of boxes.

use super::{misuse, Axis};
use crate::Result;

/// `first`, `first + step`, … up to and with `last`: never empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Progression {
    /// The first index.
    pub first: i64,
    /// The last index.
    pub last: i64,
    /// From one to the next; negative if it goes down.
    pub step: i64,
}

impl Progression {
    /// How many indices it has.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u64 {
        ((i128::from(self.last) - i128::from(self.first)) / i128::from(self.step)) as u64 + 1
    }

    /// Its indices.
    pub fn indices(self) -> impl Iterator<Item = i64> {
        (0..self.len() as i64).map(move |k| self.first + k * self.step)
    }

    /// `first`, `first + step`, … not beyond `last`, as far as it lies from `low` to `high`.
    pub fn clipped(first: i64, last: i64, step: i64, low: i64, high: i64) -> Option<Progression> {
        let [from, to, by, low, high] = [first, last, step, low, high].map(i128::from);
        if by == 0 || (to - from).signum() * by.signum() < 0 || low > high {
            return None;
        }
        let (near, far) = if by > 0 { (low, high.min(to)) } else { (high, low.max(to)) };
        let skipped = ((near - from) * by.signum()).max(0);
        let skipped = (skipped + by.abs() - 1) / by.abs();
        let count = ((far - from) * by.signum()).div_euclid(by.abs());
        (skipped <= count).then(|| Progression {
            first: (from + skipped * by) as i64,
            last: (from + count * by) as i64,
            step,
        })
    }
}

impl Axis {
    /// The indices of `first`, `first + step`, … not beyond `last` that a node has: few progressions, in the direction of the step. What is beyond the
    /// bounds is nobody's.
    pub fn ranges(&self, node: u32, first: i64, last: i64, step: i64) -> Vec<Progression> {
        let Some(inside) = Progression::clipped(first, last, step, self.lower(), self.upper()) else {
            return Vec::new();
        };
        let owned = self.owned(node, inside.first, step, inside.len() as i64);
        let range = |start: i64, stride: i64, count: i64| {
            let (first, step) = (inside.first + start * step, step.saturating_mul(stride));
            Progression { first, last: if count > 1 { first + (count - 1) * step } else { first }, step }
        };
        owned.into_iter().map(|part| range(part.start, part.stride, part.count)).collect()
    }

    /// The block of a node, wider by `low` below and `high` above; narrower if those are negative. It does not leave the bounds unless it is `unbound`.
    /// `None` if the node has nothing, or nothing is left. A dimension that is spread in turn has no block.
    pub fn widened(&self, node: u32, low: i64, high: i64, unbound: bool) -> Result<Option<(i64, i64)>> {
        if self.is_cyclic() && (low != 0 || high != 0) {
            return Err(misuse("a dimension that is spread in turn (cyclic) has no block to be widened"));
        }
        Ok(self.ends(node, self.lower(), self.upper()).and_then(|(first, last)| {
            let (first, last) = (first.saturating_sub(low), last.saturating_add(high));
            let (first, last) = match unbound {
                true => (first, last),
                false => (first.max(self.lower()), last.min(self.upper())),
            };
            (first <= last).then_some((first, last))
        }))
    }
}

/// What a box has outside of a box that lies in it, as boxes that do not overlap, in order of the outermost dimension. Bounds are inclusive; one whose lower bound is
/// above the upper one is empty.
pub fn margin(outer: &[(i64, i64)], inner: &[(i64, i64)]) -> Vec<Vec<(i64, i64)>> {
    let is_empty = |bounds: &[(i64, i64)]| bounds.iter().any(|(low, high)| low > high);
    if is_empty(outer) {
        return Vec::new();
    }
    if is_empty(inner) {
        return vec![outer.to_vec()];
    }
    let mut boxes = Vec::new();
    for (dimension, ((low, high), (from, to))) in outer.iter().zip(inner).enumerate() {
        for side in [(*low, from - 1), (to + 1, *high)] {
            let mut slab: Vec<(i64, i64)> = inner[..dimension].to_vec();
            slab.push(side);
            slab.extend_from_slice(&outer[dimension + 1..]);
            if !is_empty(&slab) {
                boxes.push(slab);
            }
        }
    }
    boxes
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_index_of_a_loop_is_run_by_its_owner_once(
            (lower, extent, nodes) in (-20i64..20, 0i64..40, 1u32..6),
            (first, last, step) in (-30i64..70, -30i64..70, prop_oneof![-5i64..0, 1i64..6]),
            width in 0u64..6,
        ) {
            let format = if width == 0 { Format::Block(None) } else { Format::Cyclic(width) };
            let axis = Axis::new(lower, lower + extent - 1, &format, nodes).unwrap();
            let mut model = Vec::new();
            let mut at = first;
            while if step > 0 { at <= last } else { at >= last } {
                model.extend(axis.owner(at).map(|owner| (at, owner)));
                at += step;
            }
            let mut all = Vec::new();
            for node in 0..nodes {
                for range in axis.ranges(node, first, last, step) {
                    prop_assert_eq!(range.step.signum(), step.signum());
                    all.extend(range.indices().map(|at| (at, node)));
                }
            }
            all.sort_unstable();
            model.sort_unstable();
            prop_assert_eq!(all, model);
        }

        #[test]
        fn a_margin_is_what_is_outside(
            sides in proptest::collection::vec((-3i64..6, 0i64..6, 0i64..4, 0i64..4), 1..4),
        ) {
            let outer: Vec<_> = sides.iter().map(|(low, size, ..)| (*low, low + size)).collect();
            let inner: Vec<_> = outer.iter().zip(&sides).map(|((l, h), (_, _, a, b))| (l + a, h - b)).collect();
            let cells = |bounds: &[(i64, i64)]| {
                let mut all = vec![Vec::new()];
                for (low, high) in bounds {
                    all = all.iter().flat_map(|cell: &Vec<i64>| (*low..=*high).map(move |at| [&cell[..], &[at]].concat())).collect();
                }
                all
            };
            let inside = cells(&inner);
            let mut model: Vec<_> = cells(&outer).into_iter().filter(|cell| !inside.contains(cell)).collect();
            let mut all: Vec<_> = margin(&outer, &inner).iter().flat_map(|bounds| cells(bounds)).collect();
            all.sort();
            model.sort();
            prop_assert_eq!(all, model);
        }
    }

    #[test]
    fn blocks_are_widened_and_narrowed() {
        let axis = Axis::new(1, 10, &Format::Block(None), 3).unwrap();
        assert_eq!(axis.widened(0, 1, 1, false).unwrap(), Some((1, 5)));
        assert_eq!(axis.widened(0, 1, 1, true).unwrap(), Some((0, 5)));
        assert_eq!(axis.widened(1, -1, -1, false).unwrap(), Some((6, 7)));
        assert_eq!(axis.widened(2, -1, -1, false).unwrap(), None);
        assert!(Axis::new(1, 10, &Format::Cyclic(1), 3).unwrap().widened(0, 1, 1, false).is_err());
    }
}
