//! Copies by which every node gets all that all have: their group gathers that, without a message for each pair.

use super::plan::Plan;
use crate::array::space::{Dimension, Mapping, Nodes, Section, Shadow};
use crate::comm::Group;
use crate::{Result, World};

/// Bytes of each node's part, if a copy is of all of an array whose parts follow each other, to all of one that every node has whole. All ranks get the same.
pub(super) fn parts(
    among: &Nodes,
    element: usize,
    (to, left): (&Mapping, &Section),
    (from, right): (&Mapping, &Section),
) -> Option<Vec<usize>> {
    let nodes = from.nodes();
    let is_bare = |dimension: &&Dimension| dimension.shadow() == Shadow::NONE;
    let is_whole = |dimension: &Dimension| is_bare(&dimension) && dimension.node_dimension().is_none();
    let (first, others) = from.dimensions().split_first()?;
    let cut = Some(first).filter(is_bare).filter(|first| first.node_dimension() == Some(0))?;
    let fits = nodes.sizes().len() == 1
        && nodes.len() > 1
        && nodes == among
        && nodes == to.nodes()
        && nodes.ranks().is_sorted()
        && !cut.axis().is_cyclic()
        && others.iter().chain(to.dimensions()).all(is_whole)
        && (*left == to.whole() && *right == from.whole());
    if !fits {
        return None;
    }
    let row = others.iter().try_fold(element as u64, |bytes, one| bytes.checked_mul(one.size()))?;
    let mut next = 0;
    let mut parts = Vec::with_capacity(nodes.len() as usize);
    for node in 0..nodes.len() {
        let rows = match cut.ends(node) {
            Some((low, high)) if low == next => (high - low) as u64 + 1,
            Some(_) => return None,
            None => 0,
        };
        next += rows as i64;
        parts.push(usize::try_from(rows.checked_mul(row)?).ok()?);
    }
    (next as u64 == cut.size()).then_some(parts)
}

impl Plan {
    /// As [`run`](Self::run). Where every node gets all, the group of the nodes gathers it, if there is one: all give theirs, or none.
    pub fn run_with(
        &self,
        world: &World,
        group: Option<&Group<'_>>,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        match (&self.parts, group) {
            (Some(parts), Some(group)) => group.allgatherv(from, parts, to),
            _ => self.run(world, from, to),
        }
    }
}
