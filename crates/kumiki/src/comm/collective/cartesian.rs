//! Groups whose members lie in a grid.

use super::Group;
use crate::{Error, Rank, Result};

/// A grid of the members of a group: from [`Group::cartesian`]. The last dimension goes fastest with the numbers of the members.
///
/// ```
/// use kumiki::comm::Sum;
/// # use kumiki::prelude::*;
/// # fn main() -> kumiki::Result<()> {
/// # let world = World::init()?;
/// let group = world.group()?;
/// // A ring of rows of one.
/// let grid = group.cartesian(&[group.ranks(), 1], &[true, false])?;
/// assert_eq!(grid.coordinates(), [group.rank(), 0]);
/// let [before, behind] = grid.neighbours(0);
/// assert_eq!(behind, Some((group.rank() + 1) % group.ranks()));
/// # assert_eq!(before, Some((group.rank() + group.ranks() - 1) % group.ranks()));
/// assert_eq!(grid.neighbours(1), [None, None]);
/// let row = grid.line(1)?;
/// let mut sum = [1];
/// row.allreduce(&mut sum, Sum)?;
/// assert_eq!(sum, [1]);
/// row.free()?;
/// # group.free()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Debug)]
pub struct Cartesian<'g, 'w> {
    pub(in crate::comm) group: &'g Group<'w>,
    pub(in crate::comm) shape: Shape,
    coordinates: Vec<u32>,
}

/// The measures of a grid.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::comm) struct Shape {
    pub(in crate::comm) dimensions: Vec<u32>,
    periodic: Vec<bool>,
}

impl Shape {
    pub(in crate::comm) fn new(dimensions: &[u32], periodic: &[bool], ranks: u32) -> Result<Shape> {
        let places = dimensions.iter().try_fold(1u32, |places, dimension| places.checked_mul(*dimension));
        if places != Some(ranks) || dimensions.len() != periodic.len() {
            let wrong = format!(
                "a grid of {dimensions:?}, of {} dimensions that are periodic or not, for {ranks} members",
                periodic.len()
            );
            return Err(Error::Misuse(wrong));
        }
        Ok(Shape { dimensions: dimensions.to_vec(), periodic: periodic.to_vec() })
    }

    pub(in crate::comm) fn coordinates_of(&self, rank: Rank) -> Vec<u32> {
        let mut left = rank;
        let mut coordinates: Vec<u32> = self
            .dimensions
            .iter()
            .rev()
            .map(|dimension| {
                let coordinate = left % dimension;
                left /= dimension;
                coordinate
            })
            .collect();
        coordinates.reverse();
        coordinates
    }

    pub(in crate::comm) fn rank_at(&self, coordinates: &[i64]) -> Option<Rank> {
        if coordinates.len() != self.dimensions.len() {
            return None;
        }
        let sizes = self.dimensions.iter().map(|dimension| i64::from(*dimension));
        let mut axes = coordinates.iter().zip(sizes).zip(&self.periodic);
        axes.try_fold(0i64, |rank, ((coordinate, size), is_periodic)| {
            let inside = if *is_periodic { coordinate.rem_euclid(size) } else { *coordinate };
            (0..size).contains(&inside).then_some(rank * size + inside)
        })
        .and_then(|rank| u32::try_from(rank).ok())
    }
}

impl<'w> Group<'w> {
    /// Sees the members as a grid of so many in each dimension, of which each closes to a ring or does not. Not collective: nothing is made.
    pub fn cartesian(&self, dimensions: &[u32], periodic: &[bool]) -> Result<Cartesian<'_, 'w>> {
        let shape = self.world.note(Shape::new(dimensions, periodic, self.count))?;
        let coordinates = shape.coordinates_of(self.me);
        Ok(Cartesian { group: self, shape, coordinates })
    }
}

impl<'w> Cartesian<'_, 'w> {
    /// How many members there are in each dimension.
    pub fn dimensions(&self) -> &[u32] {
        &self.shape.dimensions
    }

    /// Where this member is.
    pub fn coordinates(&self) -> &[u32] {
        &self.coordinates
    }

    /// Where a member is; `None` if there is no such member.
    pub fn coordinates_of(&self, rank: Rank) -> Option<Vec<u32>> {
        (rank < self.group.count).then(|| self.shape.coordinates_of(rank))
    }

    /// The member at a place. Places beyond the border are inside again where the dimension is periodic, and nobody's where it is not.
    pub fn rank_at(&self, coordinates: &[i64]) -> Option<Rank> {
        self.shape.rank_at(coordinates)
    }

    /// The member so many steps from this one in a dimension, if there is one.
    pub fn neighbour(&self, dimension: usize, steps: i64) -> Option<Rank> {
        let mut place: Vec<i64> = self.coordinates.iter().map(|coordinate| i64::from(*coordinate)).collect();
        let coordinate = place.get_mut(dimension)?;
        *coordinate = coordinate.checked_add(steps)?;
        self.shape.rank_at(&place)
    }

    /// The members before this one and behind it in a dimension.
    pub fn neighbours(&self, dimension: usize) -> [Option<Rank>; 2] {
        [-1, 1].map(|step| self.neighbour(dimension, step))
    }

    /// Makes a group of those that differ from this member in one dimension only: its row, its column and so on. Collective among all
    /// members of the grid.
    pub fn line(&self, dimension: usize) -> Result<Group<'w>> {
        self.part(&[dimension])
    }

    /// Makes a group of those that differ from this member in these dimensions only. Collective among all members of the grid.
    /// A dimension that the grid does not have is [`Misuse`](Error::Misuse) on whoever gives it, before it meets the others: if they give
    /// another one they wait for it to come.
    pub fn part(&self, dimensions: &[usize]) -> Result<Group<'w>> {
        let count = self.coordinates.len();
        if let Some(wrong) = dimensions.iter().find(|dimension| **dimension >= count) {
            let wrong = format!("dimension {wrong} of a grid of {count} dimensions");
            return self.group.world.note(Err(Error::Misuse(wrong)));
        }
        let number = |counts: &dyn Fn(usize) -> bool| {
            let axes = self.coordinates.iter().zip(&self.shape.dimensions).enumerate();
            axes.filter(|(axis, _)| counts(*axis)).fold(0, |number, (_, (at, size))| number * size + at)
        };
        // Who is at the same place in all other dimensions is in the same group.
        let colour = number(&|axis| !dimensions.contains(&axis));
        let key = number(&|axis| dimensions.contains(&axis));
        let made = self.group.split(colour, key.into())?;
        made.ok_or_else(|| Error::Closed("a member without a group".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_places_and_borders_close_where_they_shall() {
        let shape = Shape::new(&[2, 3, 2], &[true, false, false], 12).expect("it fits");
        for rank in 0..12 {
            let place: Vec<i64> = shape.coordinates_of(rank).into_iter().map(i64::from).collect();
            assert_eq!(shape.rank_at(&place), Some(rank));
        }
        assert_eq!(shape.coordinates_of(7), [1, 0, 1]);
        assert_eq!((shape.rank_at(&[-1, 2, 1]), shape.rank_at(&[3, 0, 1])), (Some(11), Some(7)));
        assert_eq!(
            (shape.rank_at(&[0, 3, 0]), shape.rank_at(&[0, 0, -1]), shape.rank_at(&[0, 0])),
            (None, None, None)
        );
        for (dimensions, periodic) in
            [(&[2, 3][..], &[true; 2][..]), (&[12], &[]), (&[u32::MAX; 3], &[true; 3]), (&[0], &[true])]
        {
            assert!(matches!(Shape::new(dimensions, periodic, 12), Err(Error::Misuse(_))), "{dimensions:?}");
        }
    }
}
