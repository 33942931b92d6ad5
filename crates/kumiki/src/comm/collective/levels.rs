//! Two levels: the members of each node by themselves, and the first of each node among them.

use super::direct::Circle;
use super::operation::Reduction;
use super::{Talk, Web, LONG_BYTES};
use crate::{Rank, Result};
use std::collections::BTreeSet;

impl Talk<'_, '_> {
    /// The web of the first members, if this is one of them.
    fn leaders(&self) -> Option<Web> {
        self.group.leaders.filter(|web| web.me != u32::MAX)
    }

    /// Which of the nodes a member is on, by their first members, and the number of the member there; the latter only if it is this node.
    fn node_of(&self, member: Rank) -> (u32, usize) {
        let (world, members) = (self.group.world, &self.group.members);
        let node = |rank: Rank| members.get(rank).and_then(|rank| world.node_of(rank)).unwrap_or(u32::MAX);
        let (wanted, mut seen) = (node(member), BTreeSet::new());
        let mut number = 0;
        for rank in 0..=member {
            if node(rank) == wanted {
                number += usize::from(rank < member);
                seen.insert(wanted);
            } else if !seen.contains(&wanted) {
                seen.insert(node(rank));
            }
        }
        (seen.len() as u32 - 1, number)
    }

    /// Whether a member is on this node.
    fn is_here(&self, member: Rank) -> bool {
        self.group.members.get(member).is_some_and(|rank| self.local().is_near(rank))
    }

    /// Bytes of the root go to all.
    pub(super) fn levels_broadcast(&mut self, root: Rank, data: &mut [u8]) -> Result<()> {
        let (node, number) = self.node_of(root);
        // What the first member of a node has goes on to the others before its own node has it.
        let is_here = self.is_here(root) && number > 0;
        if is_here {
            self.near_broadcast(number, data)?;
        }
        if let Some(web) = self.leaders() {
            self.tree_broadcast(web, node, data)?;
        }
        if !is_here {
            self.near_broadcast(0, data)?;
        }
        Ok(())
    }

    /// Combines elements of all, on the root; the order must not matter.
    pub(super) fn levels_reduce(
        &mut self,
        root: Rank,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let ((node, number), is_here) = (self.node_of(root), self.is_here(root));
        // The others keep what they have.
        let keeps = self.group.me != root && self.leaders().is_some();
        let _booked = self.scratch(if keeps { data.len() } else { 0 })?;
        let kept = if keeps { data.to_vec() } else { Vec::new() };
        let (near, me) = self.near();
        self.show_merged(data, reduction, if me == 0 { near } else { 0 })?;
        if let Some(web) = self.leaders() {
            self.tree_reduce(web, node, data, reduction)?;
        }
        if is_here && number != 0 {
            // Only the root takes it from the first one.
            let (bytes, wants) = (data.len(), self.group.me == root);
            match me {
                0 => self.stream(data, &mut [], &|_, _| Ok((0..0, 0)))?,
                _ => self.stream(&[], data, &|index, _| {
                    Ok(if wants && index == 0 { (0..bytes, 0) } else { (0..0, 0) })
                })?,
            }
        }
        if !kept.is_empty() {
            data.copy_from_slice(&kept);
        }
        Ok(())
    }

    /// Combines elements of all, on all; the order must not matter.
    pub(super) fn levels_allreduce(&mut self, data: &mut [u8], reduction: Reduction<'_>) -> Result<()> {
        let (near, me) = self.near();
        if data.len() >= LONG_BYTES {
            self.direct_allreduce(Circle::Near, None, data, reduction)?;
            if let Some(web) = self.leaders() {
                match self.group.is_read(data.len()) {
                    true => self.direct_allreduce(Circle::Lanes(web), None, data, reduction)?,
                    false => self.halving_allreduce(web, data, reduction)?,
                }
            }
        } else if self.is_led(data.len()) {
            let web = self.leaders();
            return self.led(data, reduction, |talk, data| match web {
                Some(web) => talk.doubling_allreduce(web, data, reduction),
                None => Ok(()),
            });
        } else {
            self.show_merged(data, reduction, if me == 0 { near } else { 0 })?;
            if let Some(web) = self.leaders() {
                self.doubling_allreduce(web, data, reduction)?;
            }
        }
        self.near_broadcast(0, data)
    }

    /// Bytes of a member of the node go to all of them.
    fn near_broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        match data.len() >= LONG_BYTES {
            true => self.direct_broadcast(Circle::Near, root, data),
            false => self.show_all(root, data),
        }
    }
}
