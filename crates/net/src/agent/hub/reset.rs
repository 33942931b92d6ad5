//! Starting the world over with new rank numbers, in two steps.
//!
//! First every node clears its arena and takes over the new numbers; only when all have, the ranks go on. So no
//! rank can write into the memory of another that is about to be cleared.

use super::{Hub, NodeState, Standing};
use crate::agent::protocol::ToNode;

impl Hub {
    pub(super) fn reset_wish(&mut self, rank: u32, new_rank: u32) {
        self.members.set_wish(rank, new_rank);
        let missing = match (self.members.count(Standing::Lost), self.first_lost, self.members.first_left()) {
            (1.., lost, _) => Some(format!("rank {} is lost", lost.unwrap_or(0))),
            (0, _, Some(left)) => Some(format!("rank {left} has finalized")),
            (0, _, None) => None,
        };
        match missing {
            Some(why) if self.members.wishes() > 1 => return self.refuse_reset(&why),
            Some(why) => {
                // The others have been told already.
                self.members.forget_wishes();
                return self.send(self.members[rank].place.0, ToNode::ResetRefused { why });
            }
            None if self.members.wishes() < self.members.len() => return,
            None => {}
        }
        if let Some(doubted) = self.doubted() {
            // It will be lost soon, and is known by its old number.
            return self.refuse_reset(&format!("rank {doubted} is about to be given up"));
        }
        let wishes: Vec<u32> = self.members.walk().filter_map(|member| member.wish).collect();
        match check_permutation(&wishes) {
            Err(why) => self.refuse_reset(&why),
            Ok(()) => self.renumber(&wishes),
        }
    }

    /// A rank of which it is open whether it is lost.
    fn doubted(&self) -> Option<u32> {
        let suspect = self.suspects.iter().map(|suspect| suspect.rank).next();
        suspect.or_else(|| self.first_fenced()).or(self.deserter.as_ref().and(self.first_lost))
    }

    /// Tells all who wait for new numbers that there are none, also if nodes have begun to take them over.
    pub(super) fn refuse_reset(&mut self, why: &str) {
        let resetting = self.end_reset();
        if resetting || self.members.wishes() > 0 {
            self.members.forget_wishes();
            self.broadcast(ToNode::ResetRefused { why: why.to_string() });
        }
    }

    pub(super) fn reset_prepared(&mut self, node: u32) {
        if !self.resetting {
            // It was refused meanwhile.
            return;
        }
        self.nodes[node as usize].reset_prepared = true;
        let ready = |state: NodeState, prepared: bool| state != NodeState::Running || prepared;
        if self.nodes.iter().all(|entry| ready(entry.state, entry.reset_prepared)) {
            self.end_reset();
            self.broadcast(ToNode::ResetGo);
        }
    }

    /// Nobody waits for nodes to take over new numbers any more; whether somebody did.
    fn end_reset(&mut self) -> bool {
        self.nodes.iter_mut().for_each(|entry| entry.reset_prepared = false);
        std::mem::take(&mut self.resetting)
    }

    fn renumber(&mut self, wishes: &[u32]) {
        for (old, &new) in wishes.iter().enumerate() {
            let (node, local) = self.members[old as u32].place;
            self.nodes[node as usize].seats[local as usize] = new;
        }
        self.members.renumber(wishes);
        self.resetting = true;
        let table = self.table();
        self.broadcast(ToNode::ResetPrepare(table));
    }
}

fn check_permutation(wishes: &[u32]) -> Result<(), String> {
    let mut taken = vec![None; wishes.len()];
    for (old, &new) in wishes.iter().enumerate() {
        match taken.get_mut(new as usize) {
            None => {
                return Err(format!("rank {old} wants to be rank {new}, which is not below {}", wishes.len()))
            }
            Some(Some(other)) => {
                return Err(format!(
                    "ranks {other} and {old} both want to be rank {new}: give each its own number"
                ))
            }
            Some(place) => *place = Some(old),
        }
    }
    Ok(())
}
