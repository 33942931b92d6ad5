//! Exchanges of halos against a model: every cell of the whole field has a value that anybody can compute.

use kumiki::comm::{Group, HaloOptions};
use kumiki::{Pod, Result};

/// A field that lies in a grid of members.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) grid: Vec<u32>,
    pub(crate) periodic: Vec<bool>,
    pub(crate) ghosts: Vec<[usize; 2]>,
    pub(crate) has_corners: bool,
    pub(crate) fields: usize,
}

impl Case {
    fn options(&self) -> HaloOptions {
        let options = HaloOptions::sides(&self.ghosts).fields(self.fields);
        if self.has_corners {
            options.corners()
        } else {
            options
        }
    }

    /// Own cells of whoever is at a place of a dimension: at least two, so that two ghost cells have one owner.
    fn extent(&self, place: u32) -> usize {
        2 + (place as usize * 3) % 4
    }

    fn extents(&self, place: &[u32]) -> Vec<usize> {
        place.iter().map(|place| self.extent(*place)).collect()
    }

    /// The place in the whole field of a cell, by its place in the piece of a member; `None` if no exchange fills it.
    fn find(&self, place: &[u32], cell: &[i64]) -> Option<Vec<i64>> {
        let mut beyond = 0;
        let mut found = Vec::new();
        for (axis, at) in cell.iter().enumerate() {
            let before: usize = (0..place[axis]).map(|place| self.extent(place)).sum();
            let total: usize = (0..self.grid[axis]).map(|place| self.extent(place)).sum();
            let (global, total) = (before as i64 + at, total as i64);
            beyond += usize::from(!(0..self.extent(place[axis]) as i64).contains(at));
            if !self.periodic[axis] && !(0..total).contains(&global) {
                return None;
            }
            found.push(global.rem_euclid(total));
        }
        (beyond <= 1 || self.has_corners).then_some(found)
    }

    /// All cells of a piece with its ghosts, in the order of memory.
    fn cells(&self, extents: &[usize]) -> Vec<Vec<i64>> {
        let mut all = vec![Vec::new()];
        for (extent, [low, high]) in extents.iter().zip(&self.ghosts) {
            let range = -(*low as i64)..(*extent + *high) as i64;
            let longer = |cell: &Vec<i64>| {
                let cell = cell.clone();
                range.clone().map(move |at| [&cell[..], &[at]].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// Exchanges so many times, in all ways, and looks at every cell each time.
    pub(crate) fn run<T: Pod + PartialEq + std::fmt::Debug>(
        &self,
        group: &Group<'_>,
        times: u64,
        make: impl Fn(u64) -> T,
    ) -> Result<()> {
        let grid = group.cartesian(&self.grid, &self.periodic)?;
        let place = grid.coordinates().to_vec();
        let extents = self.extents(&place);
        let mut halo = grid.halo::<T>(&extents, self.options())?;
        let cells = self.cells(&extents);
        assert_eq!((halo.len(), halo.extents()), (cells.len(), &extents[..]));
        assert!(cells.iter().enumerate().all(|(index, cell)| halo.index(cell) == index));
        let is_own = |cell: &[i64]| cell.iter().zip(&extents).all(|(at, end)| (0..*end as i64).contains(at));
        let untouched = make(77);
        for time in 0..times {
            let value = |field: usize, cell: &[i64]| {
                let found = self.find(&place, cell)?;
                let mixed =
                    found.iter().fold(time * 8 + field as u64, |mixed, at| mixed * 37 + *at as u64 + 1);
                Some(make(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            };
            let start = |field: usize| -> Vec<T> {
                let own = |cell: &Vec<i64>| value(field, cell).filter(|_| is_own(cell)).unwrap_or(untouched);
                cells.iter().map(own).collect()
            };
            let mut fields: Vec<Vec<T>> = (0..self.fields).map(start).collect();
            let mut lent: Vec<&mut [T]> = fields.iter_mut().map(Vec::as_mut_slice).collect();
            match time % 3 {
                0 => halo.exchange_all(&mut lent)?,
                1 => {
                    halo.start_all(&lent.iter().map(|field| &**field).collect::<Vec<_>>())?;
                    // What is changed now, the neighbours do not see.
                    let before: Vec<Vec<T>> = lent.iter().map(|field| field.to_vec()).collect();
                    lent.iter_mut().for_each(|field| field.fill(make(99)));
                    lent.iter_mut().zip(&before).for_each(|(field, before)| field.copy_from_slice(before));
                    halo.finish_all(&mut lent)?;
                }
                _ => {
                    let seen = halo.overlap_all(&mut lent, |fields| fields[0][0])?;
                    assert_eq!(seen, start(0)[0]);
                }
            }
            for (number, field) in fields.iter().enumerate() {
                for (cell, found) in cells.iter().zip(field) {
                    let wanted = value(number, cell).unwrap_or(untouched);
                    assert_eq!(*found, wanted, "{cell:?} of field {number} at {place:?}: {self:?}");
                }
            }
        }
        halo.free()
    }
}

/// Grids of so many members, in one to four dimensions.
pub(crate) fn grids(ranks: u32) -> Vec<Vec<u32>> {
    let small = (2..=ranks).find(|factor| ranks.is_multiple_of(*factor)).unwrap_or(1);
    let mut grids =
        vec![vec![ranks], vec![1, ranks], vec![ranks / small, 1, small], vec![1, small, 1, ranks / small]];
    grids.dedup();
    grids
}

/// All cases for a grid: each dimension a ring or not, ghosts of all kinds.
pub(crate) fn cases(grid: &[u32]) -> Vec<Case> {
    let ghosts = [[1, 1], [2, 1], [0, 2], [1, 0]];
    let mut cases = Vec::new();
    for bits in [0, usize::MAX, 0b0110, 0b1001] {
        for first in 0..ghosts.len() {
            let periodic: Vec<bool> = (0..grid.len()).map(|axis| bits >> axis & 1 == 1).collect();
            let ghosts = ghosts.iter().cycle().skip(first).take(grid.len()).copied().collect();
            let (has_corners, fields) = (first.wrapping_add(bits) % 2 == 0, 1 + first % 2);
            cases.push(Case { grid: grid.to_vec(), periodic, ghosts, has_corners, fields });
        }
    }
    cases
}
