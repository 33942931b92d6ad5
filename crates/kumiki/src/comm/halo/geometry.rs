//! Who gets which cells of whom: boxes of a field, and where they lie in the block of whoever receives them. Values only.
//!
//! The block of a member: a head, a head for each link, and behind them the strips, into which the neighbours write. Everybody can compute
//! where those of a neighbour are, by the extents that it has said.
//!
//! ```text
//! head      why the halo is broken, a word for whoever says so
//! link ...  how many exchanges have come, whether the neighbour will never touch this block again
//! strip ... two for each link, used in turn; one for a link to the member itself
//! ```

use crate::comm::collective::GridShape;
use crate::comm::rows::Section;
use crate::{Error, Rank, Result};

/// In the head of a block.
pub(super) const BROKEN_AT: u64 = 0;
pub(super) const SCRATCH_AT: u64 = 8;
/// In the head of a link.
pub(super) const ARRIVED_AT: u64 = 0;
pub(super) const PARTED_AT: u64 = 8;
/// That this neighbour has left.
pub(super) const LEFT_AT: u64 = 16;
/// Of both: a line of the cache, so that those who write to one do not disturb the others.
const HEAD_BYTES: u64 = 64;
/// The least bytes of a strip: where there is nothing to be sent, a word goes all the same.
pub(super) const LEAST_STRIP: u64 = 8;
/// So many dimensions a field may have: there are 3 to that power places around it.
const MOST_DIMENSIONS: usize = 8;

/// What all members say alike.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Rules {
    pub(super) grid: GridShape,
    /// How many cells of others there are below and above the own ones, by dimension.
    pub(super) ghosts: Vec<[usize; 2]>,
    pub(super) has_corners: bool,
    pub(super) element: usize,
    pub(super) fields: usize,
}

/// A neighbour, in one direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LinkPlan {
    /// Which direction it is: digits of base 3, one for each dimension, of which 1 is here.
    pub(super) code: usize,
    /// Its number in the group.
    pub(super) member: Rank,
    /// The own cells that it gets, and the ghost cells that it fills; of one field, in bytes.
    pub(super) sends: Section,
    pub(super) takes: Section,
    /// Where its head is in the own block, and the strips that it fills.
    pub(super) head: u64,
    pub(super) strips: [u64; 2],
}

/// All of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub(super) links: Vec<LinkPlan>,
    /// Extents with ghosts.
    pub(super) padded: Vec<usize>,
    /// Elements of a field with ghosts.
    pub(super) elements: usize,
    /// Bytes of the block.
    pub(super) bytes: u64,
}

impl Rules {
    /// Directions that there may be.
    fn directions(&self) -> usize {
        3usize.pow(self.ghosts.len() as u32)
    }

    /// The direction from there to here.
    pub(super) fn opposite(&self, code: usize) -> usize {
        self.directions() - 1 - code
    }

    /// The steps of a direction, by dimension.
    pub(super) fn steps(&self, code: usize) -> Vec<i64> {
        let (mut left, count) = (code, self.ghosts.len());
        let mut steps = vec![0; count];
        for step in steps.iter_mut().rev() {
            *step = (left % 3) as i64 - 1;
            left /= 3;
        }
        steps
    }

    pub(super) fn check(&self) -> Result<()> {
        let (own, grid) = (self.ghosts.len(), self.grid.dimensions.len());
        let wrong = match () {
            () if own != grid => format!("ghost cells of {own} dimensions for a grid of {grid}"),
            () if grid == 0 || grid > MOST_DIMENSIONS => {
                format!("a halo in {grid} dimensions; there are 1 to {MOST_DIMENSIONS}")
            }
            () if self.element == 0 || self.fields == 0 => {
                "a halo of elements or fields without bytes".into()
            }
            () => return Ok(()),
        };
        Err(Error::Misuse(wrong))
    }

    /// The plan of a member with these extents.
    pub(super) fn plan(&self, member: Rank, extents: &[usize]) -> Result<Plan> {
        self.check()?;
        let padded = self.padded(extents)?;
        let elements: usize = padded.iter().product();
        let place: Vec<i64> = self.grid.coordinates_of(member).into_iter().map(i64::from).collect();
        let mut links = Vec::new();
        for code in 0..self.directions() {
            let steps = self.steps(code);
            let count = steps.iter().filter(|step| **step != 0).count();
            if count == 0 || count > 1 && !self.has_corners {
                continue;
            }
            let there: Vec<i64> = place.iter().zip(&steps).map(|(at, step)| at + step).collect();
            let Some(neighbour) = self.grid.rank_at(&there) else { continue };
            let sends = self.section(&padded, extents, &steps, Self::sent);
            let takes = self.section(&padded, extents, &steps, Self::taken);
            if sends.is_empty() && takes.is_empty() {
                continue;
            }
            self.check_extents(extents, &steps)?;
            links.push(LinkPlan { code, member: neighbour, sends, takes, head: 0, strips: [0; 2] });
        }
        let bytes = self.lay_out(member, &mut links)?;
        Ok(Plan { links, padded, elements, bytes })
    }

    /// Extents with ghosts, of which the whole field can be in memory.
    fn padded(&self, extents: &[usize]) -> Result<Vec<usize>> {
        if extents.len() != self.ghosts.len() || extents.contains(&0) {
            let dimensions = self.ghosts.len();
            return Err(Error::Misuse(format!("extents {extents:?} of a field in {dimensions} dimensions")));
        }
        let sums = extents
            .iter()
            .zip(&self.ghosts)
            .map(|(extent, [low, high])| extent.checked_add(*low).and_then(|sum| sum.checked_add(*high)));
        let padded: Option<Vec<usize>> = sums.collect();
        let bytes = |padded: &Vec<usize>| {
            let bytes = padded.iter().try_fold(self.element, |bytes, extent| bytes.checked_mul(*extent));
            bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
        };
        padded.filter(bytes).ok_or_else(|| Error::Misuse(format!("extents {extents:?} are too large")))
    }

    /// What a neighbour gets must be there.
    fn check_extents(&self, extents: &[usize], steps: &[i64]) -> Result<()> {
        for ((extent, [low, high]), step) in extents.iter().zip(&self.ghosts).zip(steps) {
            let wanted = match step {
                -1 => *high,
                1 => *low,
                _ => 0,
            };
            if wanted > *extent {
                let wrong = format!("a neighbour has {wanted} ghost cells where a member has {extent} cells");
                return Err(Error::Misuse(wrong));
            }
        }
        Ok(())
    }

    /// In one dimension: where the cells begin that go to a neighbour in this direction, and how many they are.
    fn sent(extent: usize, [low, high]: [usize; 2], step: i64) -> (usize, usize) {
        match step {
            -1 => (low, high),
            1 => (extent.saturating_sub(low) + low, low),
            _ => (low, extent),
        }
    }

    /// Those that come from there.
    fn taken(extent: usize, [low, high]: [usize; 2], step: i64) -> (usize, usize) {
        match step {
            -1 => (0, low),
            1 => (low + extent, high),
            _ => (low, extent),
        }
    }

    fn section(
        &self,
        padded: &[usize],
        extents: &[usize],
        steps: &[i64],
        range: impl Fn(usize, [usize; 2], i64) -> (usize, usize),
    ) -> Section {
        let axes = extents.iter().zip(&self.ghosts).zip(steps);
        let ranges: Vec<_> = axes.map(|((extent, ghosts), step)| range(*extent, *ghosts, *step)).collect();
        Section::new(padded, &ranges, self.element)
    }

    /// Bytes that go over a link at once, of those of one field.
    pub(super) fn strip_bytes(&self, section: &Section) -> Result<u64> {
        let bytes = (section.bytes() as u64).checked_mul(self.fields as u64);
        bytes.map(|bytes| bytes.max(LEAST_STRIP)).ok_or_else(too_large)
    }

    /// Says where the strips of links are. Gives the bytes of the block.
    fn lay_out(&self, member: Rank, links: &mut [LinkPlan]) -> Result<u64> {
        let mut end = HEAD_BYTES * (1 + links.len() as u64);
        for (index, link) in (1..).zip(links) {
            link.head = HEAD_BYTES * index;
            let bytes = self.strip_bytes(&link.takes)?.checked_next_multiple_of(HEAD_BYTES);
            let bytes = bytes.ok_or_else(too_large)?;
            let second = if link.member == member { 0 } else { bytes };
            let behind = end.checked_add(bytes).and_then(|first| first.checked_add(second));
            let behind = behind.filter(|end| *end <= i64::MAX as u64).ok_or_else(too_large)?;
            link.strips = [end, end + second];
            end = behind;
        }
        Ok(end)
    }
}

fn too_large() -> Error {
    Error::Misuse("a halo that no memory can hold".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(grid: &[u32], periodic: &[bool], ghosts: &[[usize; 2]], has_corners: bool) -> Rules {
        let grid = GridShape::new(grid, periodic, grid.iter().product()).expect("it fits");
        Rules { grid, ghosts: ghosts.to_vec(), has_corners, element: 4, fields: 1 }
    }

    /// Extents of a member: those of a dimension depend on the place in it alone.
    fn extents(rules: &Rules, member: Rank) -> Vec<usize> {
        rules.grid.coordinates_of(member).iter().map(|place| 2 + (*place as usize * 3) % 4).collect()
    }

    /// All cells of a member with ghosts, by their places from its first own cell on.
    fn cells(rules: &Rules, extents: &[usize]) -> Vec<Vec<i64>> {
        let mut all = vec![Vec::new()];
        for (extent, [low, high]) in extents.iter().zip(&rules.ghosts) {
            let range = -(*low as i64)..(*extent + *high) as i64;
            let longer = |cell: &Vec<i64>| {
                let cell = cell.clone();
                range.clone().map(move |at| [&cell[..], &[at]].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// The value of a cell of a member, by whoever owns it; `None` if it is a ghost that nobody fills.
    fn owner(rules: &Rules, member: Rank, cell: &[i64]) -> Option<u32> {
        let own = extents(rules, member);
        let mut place: Vec<i64> = rules.grid.coordinates_of(member).into_iter().map(i64::from).collect();
        let steps: Vec<i64> = cell
            .iter()
            .zip(&own)
            .map(|(at, extent)| i64::from(*at >= *extent as i64) - i64::from(*at < 0))
            .collect();
        if steps.iter().filter(|step| **step != 0).count() > 1 && !rules.has_corners {
            return None;
        }
        place.iter_mut().zip(&steps).for_each(|(at, step)| *at += step);
        let neighbour = rules.grid.rank_at(&place)?;
        let theirs = extents(rules, neighbour);
        let at = cell.iter().zip(&steps).zip(own.iter().zip(&theirs)).map(|((at, step), (own, theirs))| {
            (match step {
                -1 => at + *theirs as i64,
                1 => at - *own as i64,
                _ => *at,
            }) as u32
        });
        Some(at.fold(neighbour + 1, |value, at| value * 16 + at))
    }

    /// Fields of all members before an exchange: only the own cells have values.
    fn fields(rules: &Rules, ranks: u32) -> Vec<Vec<u32>> {
        let field = |member| {
            let own = extents(rules, member);
            let is_own = |cell: &[i64]| cell.iter().zip(&own).all(|(at, e)| (0..*e as i64).contains(at));
            let value =
                |cell: Vec<i64>| if is_own(&cell) { owner(rules, member, &cell).unwrap_or(0) } else { 0 };
            cells(rules, &own).into_iter().map(value).collect()
        };
        (0..ranks).map(field).collect()
    }

    /// Does an exchange as members do, and looks at every cell.
    fn check(rules: &Rules) {
        let ranks: u32 = rules.grid.dimensions.iter().product();
        let plans: Vec<Plan> =
            (0..ranks).map(|m| rules.plan(m, &extents(rules, m)).expect("a plan")).collect();
        let before = fields(rules, ranks);
        for member in 0..ranks {
            let plan = &plans[member as usize];
            let mut field: Vec<u8> = bytemuck::cast_slice(&before[member as usize]).to_vec();
            assert_eq!(field.len(), plan.elements * 4);
            for link in &plan.links {
                let there = &plans[link.member as usize].links;
                let back =
                    there.iter().find(|back| back.code == rules.opposite(link.code)).expect("a way back");
                assert_eq!(back.member, member);
                let theirs: &[u8] = bytemuck::cast_slice(&before[link.member as usize]);
                let mut strip = vec![0; back.sends.bytes()];
                assert_eq!(
                    (strip.len(), back.sends.rows().gather(theirs, &mut strip)),
                    (link.takes.bytes(), strip.len())
                );
                assert_eq!(link.takes.rows().scatter(&strip, &mut field), strip.len());
            }
            let found: &[u32] = bytemuck::cast_slice(&field);
            for (cell, value) in cells(rules, &extents(rules, member)).iter().zip(found) {
                assert_eq!(
                    *value,
                    owner(rules, member, cell).unwrap_or(0),
                    "{cell:?} of {member}: {rules:?}"
                );
            }
        }
    }

    #[test]
    fn every_ghost_cell_gets_the_value_of_its_owner_and_others_stay() {
        let grids: [&[u32]; 12] = [
            &[1],
            &[2],
            &[5],
            &[1, 1],
            &[2, 3],
            &[9, 1],
            &[1, 2, 2],
            &[3, 1, 2],
            &[1, 1, 1],
            &[2, 2, 2],
            &[1, 2, 1, 2],
            &[1, 1, 3, 1],
        ];
        let ghosts = [[1, 1], [2, 1], [0, 2], [1, 0]];
        for grid in grids {
            for bits in 0..1u32 << grid.len() {
                let periodic: Vec<bool> = (0..grid.len()).map(|axis| bits >> axis & 1 == 1).collect();
                for first in 0..ghosts.len() {
                    let own: Vec<_> = ghosts.iter().cycle().skip(first).take(grid.len()).copied().collect();
                    check(&rules(grid, &periodic, &own, false));
                    check(&rules(grid, &periodic, &own, true));
                }
            }
        }
    }

    #[test]
    fn strips_do_not_overlap_and_what_cannot_be_is_refused() {
        let rules = rules(&[2, 1, 3], &[true, true, false], &[[1, 2], [1, 0], [0, 1]], true);
        let plan = rules.plan(1, &[4, 5, 6]).expect("a plan");
        let mut places: Vec<(u64, u64)> = vec![(0, HEAD_BYTES)];
        for link in &plan.links {
            places.push((link.head, HEAD_BYTES));
            let bytes = rules.strip_bytes(&link.takes).expect("it fits");
            let count = if link.member == 1 { 1 } else { 2 };
            places.extend(link.strips[..count].iter().map(|at| (*at, bytes)));
        }
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{places:?}");
        assert!(places.last().is_some_and(|(at, bytes)| at + bytes <= plan.bytes));
        let wide = Rules { ghosts: vec![[3, 3]; 3], ..rules.clone() };
        for (rules, extents) in [
            (&rules, &[4, 5][..]),
            (&rules, &[4, 0, 6]),
            (&rules, &[usize::MAX, 5, 6]),
            (&rules, &[1 << 40, 1 << 20, 6]),
            (&wide, &[2, 5, 6]),
            (&Rules { element: 0, ..rules.clone() }, &[4, 5, 6]),
            (&Rules { fields: 0, ..rules.clone() }, &[4, 5, 6]),
            (&Rules { ghosts: vec![[1, 1]], ..rules.clone() }, &[4, 5, 6]),
            (&Rules { fields: usize::MAX, ..rules.clone() }, &[4, 5, 6]),
            (&Rules { fields: usize::MAX / 80, ..rules.clone() }, &[4, 5, 6]),
            (&Rules { fields: usize::MAX / 200, ..rules.clone() }, &[4, 5, 6]),
        ] {
            let refused = rules.plan(1, extents);
            assert!(matches!(refused, Err(Error::Misuse(_))), "{extents:?}: {refused:?}");
        }
    }
}
