//! What the nodes of arrays do together: a group, made when it is first needed.
//!
//! A rank that drops an array may be ahead of others, who are still in the last call. So its part of the group ends without a word, and what the others may need of it is kept
//! until they have certainly passed: when the same nodes have made another group, or the world ends.

use super::space::Nodes;
use crate::comm::{Group, Remains};
use crate::{Result, Team, World};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The name under which nodes make their group.
const TEAM: u64 = 0x61_7272_6179;

/// The nodes of arrays, and their group.
pub(super) struct Club<'w> {
    pub(super) world: &'w World,
    pub(super) nodes: Nodes,
    group: OnceLock<(Group<'w>, Team)>,
}

/// What is left of groups that this rank has left, and whose they were.
#[derive(Default, Debug)]
pub(super) struct Left {
    all: Mutex<Vec<(Nodes, Team, Remains)>>,
}

impl<'w> Club<'w> {
    pub(super) fn new(world: &'w World, nodes: &Nodes) -> Arc<Club<'w>> {
        Arc::new(Club { world, nodes: nodes.clone(), group: OnceLock::new() })
    }

    /// The group, if there is one: on all nodes, or on none, unless making it went wrong.
    pub(super) fn known_group(&self) -> Option<&Group<'w>> {
        self.group.get().map(|(group, _)| group)
    }

    /// Collective among the nodes when it is called first.
    pub(super) fn group(&self) -> Result<&Group<'w>> {
        if let Some((group, _)) = self.group.get() {
            return Ok(group);
        }
        let left = &self.world.arrays().left;
        let earlier = left.take(|nodes| *nodes == self.nodes);
        let made = self.world.team_among(self.nodes.members(), TEAM).and_then(|team| {
            let group = team.group(self.world)?;
            Ok((group, team))
        });
        match made {
            Ok(made) => {
                self.world.meet(TEAM, self.nodes.members());
                // All are here, and so have passed whatever this rank left before.
                earlier.into_iter().for_each(|(_, team, remains)| {
                    remains.end(self.world);
                    drop(team);
                });
                Ok(&self.group.get_or_init(|| made).0)
            }
            Err(error) => {
                left.keep(earlier);
                Err(error)
            }
        }
    }
}

impl Left {
    fn take(&self, is_it: impl Fn(&Nodes) -> bool) -> Vec<(Nodes, Team, Remains)> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.extract_if(.., |(nodes, ..)| is_it(nodes)).collect()
    }

    fn keep(&self, some: Vec<(Nodes, Team, Remains)>) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).extend(some);
    }
}

impl Drop for Club<'_> {
    fn drop(&mut self) {
        let Some((group, team)) = self.group.take() else { return };
        // After an error others may wait for this rank: then they are told that it has left.
        if !std::thread::panicking() && self.world.is_in() && !self.world.has_returned_an_error() {
            self.world.arrays().left.keep(vec![(self.nodes.clone(), team, group.end_quietly())]);
        }
    }
}
