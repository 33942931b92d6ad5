//! Subscripts, and what they name in an index space.

use super::misuse;
use crate::Result;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

/// A subscript of one dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Sub {
    /// One index. The dimension does not count in the rank of the section.
    Index(i64),
    /// `count` indices from `base` on, each `step` behind the one before; a step may be negative. Without a base it begins at the lower bound (with
    /// a negative step at the upper one), without a count it goes as far as it can.
    Range {
        /// The first index.
        base: Option<i64>,
        /// How many there are.
        count: Option<i64>,
        /// From one to the next; not 0.
        step: i64,
    },
    /// The whole dimension.
    All,
    /// Of nodes: the coordinate of whoever asks. Of templates: the dimension does not restrict.
    Own,
}

impl Sub {
    /// Indices `first` to `last`, both inside, by a step.
    pub fn triplet(first: i64, last: i64, step: i64) -> Sub {
        let count = match step {
            0 => 1,
            step if (step > 0) == (last >= first) || last == first => {
                let steps = (i128::from(last) - i128::from(first)) / i128::from(step);
                i64::try_from(steps + 1).unwrap_or(i64::MAX)
            }
            _ => 0,
        };
        Sub::Range { base: Some(first), count: Some(count), step }
    }

    /// `count` indices from `base` on, by a step.
    pub fn range(base: i64, count: i64, step: i64) -> Sub {
        Sub::Range { base: Some(base), count: Some(count), step }
    }
}

impl From<i64> for Sub {
    fn from(index: i64) -> Sub {
        Sub::Index(index)
    }
}

impl From<Range<i64>> for Sub {
    fn from(range: Range<i64>) -> Sub {
        Sub::range(range.start, (range.end.saturating_sub(range.start)).max(0), 1)
    }
}

impl From<RangeInclusive<i64>> for Sub {
    fn from(range: RangeInclusive<i64>) -> Sub {
        Sub::triplet(*range.start(), *range.end(), 1)
    }
}

impl From<RangeFrom<i64>> for Sub {
    fn from(range: RangeFrom<i64>) -> Sub {
        Sub::Range { base: Some(range.start), count: None, step: 1 }
    }
}

impl From<RangeTo<i64>> for Sub {
    /// From 0 on.
    fn from(range: RangeTo<i64>) -> Sub {
        Sub::range(0, range.end.max(0), 1)
    }
}

impl From<RangeFull> for Sub {
    fn from(_: RangeFull) -> Sub {
        Sub::All
    }
}

/// What a subscript names in its dimension: `base`, `base + step`, …
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// The first index.
    pub base: i64,
    /// How many there are.
    pub count: i64,
    /// From one to the next.
    pub step: i64,
    /// Whether it is a single index, which does not count in the rank.
    pub is_index: bool,
}

/// A section of an array, checked against its sizes: one span a dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Section {
    spans: Vec<Span>,
}

impl Section {
    /// The section of an array with these sizes that subscripts name.
    pub fn new(sizes: &[u64], subscripts: &[Sub]) -> Result<Section> {
        let bounds: Vec<(i64, i64)> = sizes.iter().map(|size| (0, *size as i64 - 1)).collect();
        Ok(Section { spans: resolve("an array", &bounds, subscripts)? })
    }

    /// All of an array with these sizes.
    pub fn whole(sizes: &[u64]) -> Section {
        let span = |size: &u64| Span { base: 0, count: *size as i64, step: 1, is_index: false };
        Section { spans: sizes.iter().map(span).collect() }
    }

    /// One span a dimension of the array.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many indices there are in each dimension that counts.
    pub fn shape(&self) -> Vec<u64> {
        self.spans.iter().filter(|span| !span.is_index).map(|span| span.count as u64).collect()
    }

    /// How many elements it has.
    pub fn len(&self) -> u64 {
        self.shape().iter().product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What subscripts name in an index space with these inclusive bounds.
pub(super) fn resolve(what: &str, bounds: &[(i64, i64)], subscripts: &[Sub]) -> Result<Vec<Span>> {
    if bounds.len() != subscripts.len() {
        let (own, given) = (bounds.len(), subscripts.len());
        return Err(misuse(format!("{given} subscripts for {what} of {own} dimensions")));
    }
    let spans = bounds.iter().zip(subscripts).enumerate();
    spans.map(|(dimension, (bounds, subscript))| one(what, dimension, *bounds, subscript)).collect()
}

fn one(what: &str, dimension: usize, (lower, upper): (i64, i64), subscript: &Sub) -> Result<Span> {
    let range = |base, count, step| Span { base, count, step, is_index: false };
    let whole = i128::from(upper) - i128::from(lower) + 1;
    let span = match *subscript {
        Sub::Index(index) => Span { base: index, count: 1, step: 1, is_index: true },
        Sub::All | Sub::Own => range(lower, whole as i64, 1),
        Sub::Range { step: 0, .. } => {
            return Err(misuse(format!("dimension {dimension} of {what}: a section with step 0")));
        }
        Sub::Range { base, count, step } => {
            let base = base.unwrap_or(if step > 0 { lower } else { upper });
            let end = i128::from(if step > 0 { upper } else { lower });
            let room = (end - i128::from(base)) / i128::from(step) + 1;
            let is_beyond = (end - i128::from(base)).signum() * i128::from(step).signum() < 0;
            range(base, count.unwrap_or(if is_beyond { 0 } else { room as i64 }), step)
        }
    };
    let Span { base, count, step, .. } = span;
    let last = i128::from(base) + (i128::from(count) - 1) * i128::from(step);
    let holds = |index: i128| (i128::from(lower)..=i128::from(upper)).contains(&index);
    if count < 0 || count > 0 && !(holds(base.into()) && holds(last)) {
        return Err(misuse(match span.is_index {
            true => format!("dimension {dimension} of {what}: index {base} is not in {lower}..={upper}"),
            false => format!(
                "dimension {dimension} of {what}: {count} indices from {base} on by {step} are not in {lower}..={upper}"
            ),
        }));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscripts_are_completed_and_checked() {
        let section = Section::new(&[10, 5, 7], &[Sub::from(2..), Sub::Index(4), Sub::All]).unwrap();
        assert_eq!((section.shape(), section.len()), (vec![8, 7], 56));
        let back = Sub::Range { base: None, count: None, step: -3 };
        let section = Section::new(&[10], &[back]).unwrap();
        assert_eq!(section.spans(), [Span { base: 9, count: 4, step: -3, is_index: false }]);
        assert_eq!(Sub::triplet(1, 9, 4), Sub::range(1, 3, 4));
        assert_eq!(Sub::triplet(9, 0, -4), Sub::range(9, 3, -4));
        assert_eq!(Sub::triplet(1, 0, 1), Sub::range(1, 0, 1));
        assert!(Section::new(&[10], &[Sub::from(3..3)]).unwrap().is_empty());
        for wrong in [
            Section::new(&[10], &[Sub::Index(10)]),
            Section::new(&[10], &[Sub::Index(-1)]),
            Section::new(&[10], &[Sub::range(3, 3, 4)]),
            Section::new(&[10], &[Sub::range(3, -1, 4)]),
            Section::new(&[10], &[Sub::range(3, 1, 0)]),
            Section::new(&[10], &[Sub::range(2, i64::MAX, i64::MAX)]),
            Section::new(&[10], &[Sub::All, Sub::All]),
            Section::new(&[0], &[Sub::Index(0)]),
        ] {
            assert!(matches!(wrong, Err(crate::Error::Misuse(_))), "{wrong:?}");
        }
    }
}
