//! Gather and scatter: elements whose indices are themselves elements of arrays. Requests go to the owners, all at once.

use super::order::exchange_counted;
use super::Array;
use crate::array::club::Club;
use crate::array::space::{misuse, Mapping};
use crate::comm::Group;
use crate::{Pod, Result};
use std::sync::Arc;

/// Places in the memory of others that elements of this rank are about, sorted by member.
struct Requests {
    /// The position among the own elements, by request.
    positions: Vec<usize>,
    /// Where in the memory of the member.
    places: Vec<u64>,
    counts: Vec<usize>,
}

/// The indices that index arrays give for each own element, in the order of loops.
fn indices<const N: usize, const M: usize>(
    own: &Mapping,
    arrays: &[&Array<'_, i64, N>; M],
) -> Result<Vec<[i64; M]>> {
    let mut all: Vec<[i64; M]> = Vec::new();
    for (dimension, array) in arrays.iter().enumerate() {
        if *array.mapping != *own {
            return Err(misuse(
                "index arrays lie as the elements do that they are for: use the same mapping",
            ));
        }
        let mut at = 0;
        array.for_each(|_, index| {
            if dimension == 0 {
                all.push([0; M]);
            }
            all[at][dimension] = index;
            at += 1;
        });
    }
    Ok(all)
}

/// Who has which elements, and where; every copy of each, or one.
fn requests<const M: usize>(
    mapping: &Mapping,
    group: &Group<'_>,
    indices: &[[i64; M]],
    copies: bool,
) -> Result<Requests> {
    let mut found: Vec<(u32, usize, u64)> = Vec::with_capacity(indices.len());
    let members: std::collections::HashMap<u32, u32> =
        (0..group.ranks()).filter_map(|member| Some((group.world_rank(member)?, member))).collect();
    let mut parts = std::collections::HashMap::new();
    for (position, index) in indices.iter().enumerate() {
        let owners = mapping.owners(index)?;
        for rank in owners.ranks().take(if copies { usize::MAX } else { 1 }) {
            let member = *members.get(&rank).ok_or_else(|| misuse(format!("rank {rank} takes no part")))?;
            let part = parts.entry(rank).or_insert_with(|| mapping.part(rank));
            let place =
                part.place(index).ok_or_else(|| misuse(format!("rank {rank} has no element {index:?}")))?;
            found.push((member, position, place as u64));
        }
    }
    found.sort_unstable();
    let mut counts = vec![0; group.ranks() as usize];
    found.iter().for_each(|(member, ..)| counts[*member as usize] += 1);
    let positions = found.iter().map(|(_, position, _)| *position).collect();
    let places = found.iter().map(|(_, _, place)| *place).collect();
    Ok(Requests { positions, places, counts })
}

impl<'w, T: Pod, const N: usize> Array<'w, T, N> {
    /// Those who have this array or another, as a group.
    fn club_with<const M: usize>(&self, other: &Array<'w, T, M>) -> Result<Arc<Club<'w>>> {
        if self.club.nodes.contains_all(&other.club.nodes) {
            return Ok(self.club.clone());
        }
        let mut ranks: Vec<_> = self.club.nodes.ranks().chain(other.club.nodes.ranks()).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let nodes = crate::array::space::Nodes::of(&ranks, &[ranks.len() as u32])?;
        Ok(Club::new(self.world(), &nodes))
    }

    /// Gives each element that of another array whose index stands in index arrays, one for each dimension of the other: `self[i] = from[index[i]]`. The index
    /// arrays have the mapping of this one. Collective among the nodes of both.
    #[track_caller]
    pub fn gather_from<const M: usize>(
        &mut self,
        from: &Array<'w, T, M>,
        index: &[&Array<'w, i64, N>; M],
    ) -> Result<()> {
        self.check("gather_from", String::new)?;
        let world = self.world();
        let club = world.note(self.club_with(from))?;
        let group = club.group()?;
        let wanted =
            indices(&self.mapping, index).and_then(|all| requests(&from.mapping, group, &all, false));
        let Requests { positions, places, counts } = agreed(group, wanted)?;
        let (asked, came) = exchange_counted(group, &places, &counts)?;
        let answers: Vec<T> = asked.iter().map(|place| from.cells[*place as usize]).collect();
        let (values, _) = exchange_counted(group, &answers, &came)?;
        let mut by_position = vec![T::zeroed(); positions.len()];
        positions.iter().zip(values).for_each(|(position, value)| by_position[*position] = value);
        let mut values = by_position.into_iter();
        self.update(|_, cell| {
            if let Some(value) = values.next() {
                *cell = value;
            }
        });
        Ok(())
    }

    /// Gives elements of another array whose indices stand in index arrays those of this one: `to[index[i]] = self[i]`. The index arrays have the mapping of
    /// this one. Where two have the same index, one of them is there. Collective among the nodes of both.
    #[track_caller]
    pub fn scatter_into<const M: usize>(
        &self,
        to: &mut Array<'w, T, M>,
        index: &[&Array<'w, i64, N>; M],
    ) -> Result<()> {
        self.check("scatter_into", String::new)?;
        let world = self.world();
        let club = world.note(self.club_with(to))?;
        let group = club.group()?;
        let wanted = indices(&self.mapping, index).and_then(|all| requests(&to.mapping, group, &all, true));
        let Requests { positions, places, counts } = agreed(group, wanted)?;
        let mut own = Vec::new();
        self.for_each(|_, value| own.push(value));
        let values: Vec<T> = positions.iter().map(|position| own[*position]).collect();
        let (places, _) = exchange_counted(group, &places, &counts)?;
        let (values, _) = exchange_counted(group, &values, &counts)?;
        for (place, value) in places.iter().zip(values) {
            to.cells[*place as usize] = value;
        }
        Ok(())
    }
}

/// What a member could not do, nobody goes on with.
pub(super) fn agreed<R>(group: &Group<'_>, own: Result<R>) -> Result<R> {
    let mut failed = [u64::from(own.is_err())];
    group.allreduce(&mut failed, crate::comm::Sum)?;
    let own = own?;
    match failed[0] {
        0 => Ok(own),
        count => {
            Err(crate::Error::Refused(format!("{count} members could not take part; their errors say why")))
        }
    }
}
