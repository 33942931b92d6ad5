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
    // Of nothing there is nothing to gather.
    (next as u64 == cut.size() && next > 0 && row > 0).then_some(parts)
}

impl Plan {
    /// Whether every node gets all that all have: then [`run_with`](Self::run_with) lets a group gather it. The same on all ranks.
    pub fn gathers(&self) -> bool {
        self.parts.is_some()
    }

    /// As [`run`](Self::run). Where every node gets all, the group gathers it, if there is one: it must be of the nodes of the plan, in their order, and all of
    /// them give theirs, or none. What goes wrong there is the end of the group, as with its other calls.
    pub fn run_with(
        &self,
        world: &World,
        group: Option<&Group<'_>>,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        let (Some(parts), Some(group)) = (&self.parts, group) else { return self.run(world, from, to) };
        // Who was given an error when the group was made, and so has none, waits for messages.
        self.instead(world, || group.allgatherv(from, parts, to))
    }
}
