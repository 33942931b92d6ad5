//! Starting the world over with new rank numbers, in two steps.
//!
//! First every node clears its arena and takes over the new numbers; only when all have, the ranks go on. So no
//! rank can write into the memory of another that is about to be cleared.

use super::{Hub, NodeState, Standing};
use crate::agent::protocol::ToNode;

impl Hub {
    pub(super) fn reset_wish(&mut self, rank: u32, new_rank: u32) {
        self.members[rank as usize].wish = Some(new_rank);
        if let Some(lost) = self.members.iter().position(|member| member.standing == Standing::Lost) {
            return self.refuse_reset(&format!("rank {lost} is lost"));
        }
        if let Some(left) = self.members.iter().position(|member| member.standing == Standing::Left) {
            return self.refuse_reset(&format!("rank {left} has finalized"));
        }
        let wishes: Option<Vec<u32>> = self.members.iter().map(|member| member.wish).collect();
        let Some(wishes) = wishes else { return };
        match check_permutation(&wishes) {
            Err(why) => self.refuse_reset(&why),
            Ok(()) => self.renumber(&wishes),
        }
    }

    pub(super) fn refuse_reset(&mut self, why: &str) {
        if self.members.iter().all(|member| member.wish.is_none()) {
            return;
        }
        self.members.iter_mut().for_each(|member| member.wish = None);
        self.broadcast(&ToNode::ResetRefused { why: why.to_string() });
    }

    pub(super) fn reset_prepared(&mut self, node: u32) {
        self.nodes[node as usize].reset_prepared = true;
        let ready = |state: NodeState, prepared: bool| state != NodeState::Running || prepared;
        if self.nodes.iter().all(|entry| ready(entry.state, entry.reset_prepared)) {
            self.nodes.iter_mut().for_each(|entry| entry.reset_prepared = false);
            self.broadcast(&ToNode::ResetGo);
        }
    }

    fn renumber(&mut self, wishes: &[u32]) {
        let mut members = self.members.clone();
        for (old, &new) in wishes.iter().enumerate() {
            let (node, local) = self.members[old].place;
            members[new as usize] = self.members[old].clone();
            members[new as usize].wish = None;
            self.nodes[node as usize].seats[local as usize] = new;
        }
        self.members = members;
        let table = self.table();
        self.broadcast(&ToNode::ResetPrepare(table));
    }
}

fn check_permutation(wishes: &[u32]) -> Result<(), String> {
    let mut taken = vec![None; wishes.len()];
    for (old, &new) in wishes.iter().enumerate() {
        match taken.get_mut(new as usize) {
            None => {
                return Err(format!("rank {old} wants to be rank {new}, which is not below {}", wishes.len()))
            }
            Some(Some(other)) => return Err(format!("ranks {other} and {old} both want to be rank {new}")),
            Some(place) => *place = Some(old),
        }
    }
    Ok(())
}
