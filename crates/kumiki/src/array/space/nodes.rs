//! Ordered n-dimensional sets of ranks. A set that was cut out of a grid is a first rank and strides; any other is a list.

use super::section::{resolve, Sub};
use super::{misuse, MAX_DIMENSIONS};
use crate::{Members, Rank, Result};
use std::sync::Arc;

/// An ordered n-dimensional set of ranks, the last dimension fastest. No rank is in it twice.
///
/// ```
/// use kumiki::array::{Nodes, Sub};
///
/// # fn main() -> kumiki::Result<()> {
/// let grid = Nodes::grid(&[2, 3])?;
/// assert_eq!(grid.rank_at(&[1, 0]), Some(3));
/// // The row of rank 4: `Sub::Own` is the own coordinate.
/// let row = grid.subset(&[Sub::Own, Sub::All], 4)?;
/// assert_eq!(row.ranks().collect::<Vec<_>>(), [3, 4, 5]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Nodes {
    sizes: Vec<u32>,
    place: Place,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Place {
    /// The rank at some coordinates is the first one and for each coordinate a stride. Each dimension lies between two steps of another.
    Strides { first: Rank, strides: Vec<i64> },
    /// In their order, and sorted with their positions, to be found.
    List { ranks: Arc<[Rank]>, sorted: Arc<[(Rank, u32)]> },
}

impl Nodes {
    /// The ranks from 0 on, as a grid of these sizes.
    pub fn grid(sizes: &[u32]) -> Result<Nodes> {
        Nodes::progression(0, 1, sizes)
    }

    /// The ranks from 0 on, in a line.
    pub fn line(ranks: u32) -> Nodes {
        Nodes { sizes: vec![ranks], place: Place::Strides { first: 0, strides: vec![1] } }
    }

    /// One rank, as a set without dimensions.
    pub fn single(rank: Rank) -> Nodes {
        Nodes { sizes: Vec::new(), place: Place::Strides { first: rank, strides: Vec::new() } }
    }

    /// These ranks, in this order, as a grid of these sizes.
    pub fn of(ranks: &[Rank], sizes: &[u32]) -> Result<Nodes> {
        let count = count_of(sizes)?;
        if count as usize != ranks.len() {
            return Err(misuse(format!(
                "{} ranks for nodes of sizes {sizes:?}, which are {count}",
                ranks.len()
            )));
        }
        let step = match ranks {
            [first, second, ..] => i64::from(*second) - i64::from(*first),
            _ => 1,
        };
        let is_even = ranks.windows(2).all(|pair| i64::from(pair[1]) - i64::from(pair[0]) == step);
        if let (true, Some(first)) = (is_even && step != 0, ranks.first()) {
            return Nodes::progression(*first, step, sizes);
        }
        let mut sorted: Vec<(Rank, u32)> = ranks.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(misuse(format!("rank {} is twice in a set of nodes", twice[0].0)));
        }
        let place = Place::List { ranks: ranks.into(), sorted: sorted.into() };
        Ok(Nodes { sizes: sizes.to_vec(), place })
    }

    fn progression(first: Rank, step: i64, sizes: &[u32]) -> Result<Nodes> {
        count_of(sizes)?;
        let mut strides = vec![step; sizes.len()];
        for dimension in (1..sizes.len()).rev() {
            strides[dimension - 1] = strides[dimension] * i64::from(sizes[dimension]);
        }
        Ok(Nodes { sizes: sizes.to_vec(), place: Place::Strides { first, strides } })
    }

    /// The same ranks in the same order, with other sizes.
    pub fn reshape(&self, sizes: &[u32]) -> Result<Nodes> {
        if count_of(sizes)? != self.len() {
            let (own, count) = (&self.sizes, self.len());
            return Err(misuse(format!("nodes of sizes {sizes:?} out of {own:?}, which are {count}")));
        }
        Nodes::of(&self.ranks().collect::<Vec<_>>(), sizes)
    }

    /// Some of them: dimensions with one index are left out, the others keep their order. [`Sub::Own`] is the coordinate of `me`, which must be in
    /// the set then.
    pub fn subset(&self, subscripts: &[Sub], me: Rank) -> Result<Nodes> {
        let own = self.coordinates(me);
        let mut chosen = Vec::with_capacity(subscripts.len());
        for (dimension, subscript) in subscripts.iter().enumerate() {
            let subscript = match (subscript, &own) {
                (Sub::Own, Some(own)) => Sub::Index(own.get(dimension).copied().unwrap_or(0).into()),
                (Sub::Own, None) => {
                    return Err(misuse(format!(
                        "rank {me} asks for its own coordinate, and is not in the nodes"
                    )))
                }
                (other, _) => other.clone(),
            };
            chosen.push(subscript);
        }
        let bounds: Vec<_> = self.sizes.iter().map(|size| (0, i64::from(*size) - 1)).collect();
        let spans = resolve("nodes", &bounds, &chosen)?;
        let sizes: Vec<u32> =
            spans.iter().filter(|span| !span.is_index).map(|span| span.count as u32).collect();
        if let Place::Strides { first, strides } = &self.place {
            let mut start = i64::from(*first);
            let mut kept = Vec::new();
            for (span, stride) in spans.iter().zip(strides) {
                start += span.base * stride;
                if !span.is_index {
                    kept.push(stride * span.step);
                }
            }
            let place = Place::Strides { first: start as Rank, strides: kept };
            return Ok(Nodes { sizes, place });
        }
        let lists: Vec<Vec<u32>> = spans
            .iter()
            .map(|span| (0..span.count).map(|k| (span.base + k * span.step) as u32).collect())
            .collect();
        let ranks: Vec<Rank> = combinations(&lists).filter_map(|place| self.rank_at(&place)).collect();
        Nodes::of(&ranks, &sizes)
    }

    /// Those whose coordinates are in the list of each dimension, in that order.
    pub fn product(&self, coordinates: &[Vec<u32>]) -> Result<Nodes> {
        let sizes: Vec<u32> = coordinates.iter().map(|list| list.len() as u32).collect();
        let ranks: Option<Vec<Rank>> = combinations(coordinates).map(|place| self.rank_at(&place)).collect();
        let ranks = ranks.ok_or_else(|| misuse(format!("nodes {coordinates:?} of {:?}", self.sizes)))?;
        Nodes::of(&ranks, &sizes)
    }

    /// Its sizes.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// How many ranks are in it.
    pub fn len(&self) -> u32 {
        self.sizes.iter().product()
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rank at some coordinates, if they are in it.
    pub fn rank_at(&self, coordinates: &[u32]) -> Option<Rank> {
        let inside = coordinates.len() == self.sizes.len()
            && coordinates.iter().zip(&self.sizes).all(|(at, size)| at < size);
        inside.then(|| match &self.place {
            Place::Strides { first, strides } => {
                let steps = coordinates.iter().zip(strides).map(|(at, stride)| i64::from(*at) * stride);
                (i64::from(*first) + steps.sum::<i64>()) as Rank
            }
            Place::List { ranks, .. } => ranks[self.position_at(coordinates) as usize],
        })
    }

    fn position_at(&self, coordinates: &[u32]) -> u32 {
        coordinates.iter().zip(&self.sizes).fold(0, |position, (at, size)| position * size + at)
    }

    /// The coordinates of a rank, if it is in it.
    pub fn coordinates(&self, rank: Rank) -> Option<Vec<u32>> {
        match &self.place {
            Place::Strides { first, strides } => {
                // From the longest stride to the shortest, each takes what the shorter ones cannot reach.
                let mut order: Vec<usize> = (0..strides.len()).filter(|d| self.sizes[*d] > 1).collect();
                order.sort_unstable_by_key(|dimension| std::cmp::Reverse(strides[*dimension].abs()));
                let mut coordinates = vec![0; strides.len()];
                let mut left = i64::from(rank) - i64::from(*first);
                for (at, &dimension) in order.iter().enumerate() {
                    let stride = strides[dimension];
                    let shorter = &order[at + 1..];
                    let reach = |sign: i64| -> i64 {
                        let spans = shorter.iter().map(|d| (i64::from(self.sizes[*d]) - 1) * strides[*d]);
                        spans.filter(|span| span.signum() == sign).sum()
                    };
                    let rest = left - if stride > 0 { reach(-1) } else { reach(1) };
                    let digit =
                        if stride > 0 { rest.div_euclid(stride) } else { (-rest).div_euclid(-stride) };
                    coordinates[dimension] =
                        u32::try_from(digit).ok().filter(|at| *at < self.sizes[dimension])?;
                    left -= digit * stride;
                }
                (left == 0 && !self.is_empty()).then_some(coordinates)
            }
            Place::List { sorted, .. } => {
                let found = sorted.binary_search_by_key(&rank, |(rank, _)| *rank).ok()?;
                let mut position = sorted[found].1;
                let mut coordinates = vec![0; self.sizes.len()];
                for (at, size) in coordinates.iter_mut().zip(&self.sizes).rev() {
                    *at = position % size;
                    position /= size;
                }
                Some(coordinates)
            }
        }
    }

    /// Where a rank is among all of them, in their order.
    pub fn position(&self, rank: Rank) -> Option<u32> {
        self.coordinates(rank).map(|place| self.position_at(&place))
    }

    /// Whether a rank is in it.
    pub fn contains(&self, rank: Rank) -> bool {
        self.coordinates(rank).is_some()
    }

    /// Whether all of `others` are in it.
    pub fn contains_all(&self, others: &Nodes) -> bool {
        self == others || others.ranks().all(|rank| self.contains(rank))
    }

    /// The ranks, in their order.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        let mut next = (!self.is_empty()).then(|| vec![0; self.sizes.len()]);
        std::iter::from_fn(move || {
            let place = next.as_mut()?;
            let rank = self.rank_at(place);
            if !advance(place, &self.sizes) {
                next = None;
            }
            rank
        })
    }

    /// The first of them.
    pub fn first(&self) -> Option<Rank> {
        self.ranks().next()
    }

    /// As what teams are made of.
    pub fn members(&self) -> Members {
        match &self.place {
            Place::Strides { first, strides } if strides.len() == 1 && strides[0] > 0 => {
                Members::strided(*first, strides[0] as u32, self.len())
            }
            _ => Members::from(self.ranks().collect::<Vec<_>>()),
        }
    }
}

/// The next coordinates in a box of these sizes, the last fastest; `false` behind the last.
pub(crate) fn advance(place: &mut [u32], sizes: &[u32]) -> bool {
    for (at, size) in place.iter_mut().zip(sizes).rev() {
        *at += 1;
        if *at < *size {
            return true;
        }
        *at = 0;
    }
    false
}

/// One of each list, in all ways, the last list fastest.
pub(crate) fn combinations(lists: &[Vec<u32>]) -> impl Iterator<Item = Vec<u32>> + '_ {
    let sizes: Vec<u32> = lists.iter().map(|list| list.len() as u32).collect();
    let mut next = sizes.iter().all(|size| *size > 0).then(|| vec![0; sizes.len()]);
    std::iter::from_fn(move || {
        let place = next.as_mut()?;
        let combination = place.iter().zip(lists).map(|(at, list)| list[*at as usize]).collect();
        if !advance(place, &sizes) {
            next = None;
        }
        Some(combination)
    })
}

fn count_of(sizes: &[u32]) -> Result<u32> {
    if sizes.len() > MAX_DIMENSIONS {
        let count = sizes.len();
        return Err(misuse(format!("nodes of {count} dimensions: there are at most {MAX_DIMENSIONS}")));
    }
    let count = sizes.iter().try_fold(1u32, |count, size| count.checked_mul(*size));
    count.filter(|count| *count > 0).ok_or_else(|| misuse(format!("nodes of sizes {sizes:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(base: i64, count: i64, step: i64) -> Sub {
        Sub::Range { base: Some(base), count: Some(count), step }
    }

    #[test]
    fn a_rank_is_found_where_it_is() {
        let grid = Nodes::grid(&[3, 4, 2]).unwrap();
        let sets = [
            grid.clone(),
            grid.subset(&[range(2, 2, -2), Sub::All, Sub::Index(1)], 0).unwrap(),
            grid.subset(&[range(0, 2, 2), range(3, 2, -3), range(1, 2, -1)], 0).unwrap(),
            grid.subset(&[Sub::Own, Sub::Index(2), Sub::Own], 9).unwrap(),
            grid.subset(&[range(0, 2, 2), range(1, 2, 1), Sub::All], 0).unwrap().reshape(&[8]).unwrap(),
            Nodes::of(&[5, 1, 9, 3], &[2, 2]).unwrap(),
            Nodes::of(&[5, 1, 9, 3, 4, 0], &[3, 2])
                .unwrap()
                .subset(&[range(0, 2, 2), Sub::Index(1)], 0)
                .unwrap(),
        ];
        for nodes in sets {
            let ranks: Vec<Rank> = nodes.ranks().collect();
            assert_eq!(ranks.len(), nodes.len() as usize);
            for rank in 0..30 {
                let position = ranks.iter().position(|one| *one == rank);
                assert_eq!(nodes.position(rank), position.map(|at| at as u32), "{rank} in {nodes:?}");
                assert_eq!(nodes.coordinates(rank).and_then(|at| nodes.rank_at(&at)), position.map(|_| rank));
            }
            let members = nodes.members();
            assert!(members.iter().eq(ranks.iter().copied()));
        }
        assert_eq!(grid.subset(&[Sub::Own, Sub::Index(2), Sub::Own], 9).unwrap().first(), Some(13));
    }

    #[test]
    fn what_is_no_set_of_nodes_is_refused() {
        let grid = Nodes::grid(&[2, 3]).unwrap();
        for wrong in [
            Nodes::grid(&[2, 0]),
            Nodes::grid(&[1 << 16, 1 << 16]),
            Nodes::grid(&[1; 8]),
            Nodes::of(&[1, 2, 1], &[3]),
            Nodes::of(&[1, 2], &[3]),
            grid.reshape(&[5]),
            grid.subset(&[Sub::All], 0),
            grid.subset(&[Sub::All, Sub::Index(3)], 0),
            grid.subset(&[Sub::All, range(1, 3, 1)], 0),
            grid.subset(&[Sub::All, Sub::Own], 6),
        ] {
            assert!(matches!(wrong, Err(crate::Error::Misuse(_))), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn subsets_are_what_their_subscripts_say(
            sizes in proptest::collection::vec(1u32..5, 1..4),
            seed in proptest::collection::vec((0u32..100, 0u32..100, 0u32..100), 3),
            shuffle in any::<bool>(),
        ) {
            let grid = Nodes::grid(&sizes).unwrap();
            let mut ranks: Vec<Rank> = grid.ranks().collect();
            if shuffle {
                ranks.reverse();
                ranks.rotate_left(1);
            }
            let grid = Nodes::of(&ranks, &sizes).unwrap();
            let mut lists = Vec::new();
            let mut subs = Vec::new();
            for (size, (a, b, c)) in sizes.iter().zip(&seed) {
                let base = a % size;
                let step = 1 + b % 3;
                let most = (size - base).div_ceil(step);
                let count = 1 + c % most;
                subs.push(range(base.into(), count.into(), step.into()));
                lists.push((0..count).map(|k| base + k * step).collect::<Vec<u32>>());
            }
            let subset = grid.subset(&subs, 0).unwrap();
            let model: Vec<Rank> = combinations(&lists).map(|at| grid.rank_at(&at).unwrap()).collect();
            prop_assert_eq!(subset.ranks().collect::<Vec<_>>(), model.clone());
            for (position, rank) in model.iter().enumerate() {
                prop_assert_eq!(subset.position(*rank), Some(position as u32));
            }
            let flat = subset.reshape(&[subset.len()]).unwrap();
            prop_assert_eq!(flat.ranks().collect::<Vec<_>>(), model);
        }
    }
}
