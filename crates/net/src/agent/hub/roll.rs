//! The ranks of a job, and how many of them stand where: what one rank says never makes the hub look at all of them.

use crate::agent::protocol::Ending;
use std::collections::BTreeSet;

/// How a rank stands in the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Not in the world.
    Out,
    In,
    Left,
    Lost,
}

/// What is known of one rank.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its node and its index there; see [`Roll::is_placed`].
    pub(super) place: (u32, u32),
    /// How its process ended.
    pub(super) ending: Option<Ending>,
    /// The rank it wants to be when the world starts over.
    pub(super) wish: Option<u32>,
    pub(super) standing: Standing,
    /// It has asked to join the next round, before this one was over.
    pub(super) again: bool,
    /// Somebody cannot reach it.
    pub(super) suspected: bool,
}

/// A job may have a million ranks.
const _: () = assert!(std::mem::size_of::<Member>() <= 32);

const NOWHERE: (u32, u32) = (u32::MAX, 0);

/// All ranks. They are read by index, and changed by methods, which keep the counts.
#[derive(Debug)]
pub(super) struct Roll {
    members: Vec<Member>,
    /// How many have each standing.
    counts: [u32; 4],
    placed: u32,
    again: u32,
    wishes: u32,
    /// Those whose process ended before it joined.
    early: BTreeSet<u32>,
    first_left: Option<u32>,
    /// How often all members were looked at.
    #[cfg(test)]
    pub(super) walks: std::cell::Cell<u32>,
}

impl std::ops::Index<u32> for Roll {
    type Output = Member;

    fn index(&self, rank: u32) -> &Member {
        &self.members[rank as usize]
    }
}

impl Roll {
    pub(super) fn new(ranks: u32) -> Roll {
        let member = Member {
            place: NOWHERE,
            ending: None,
            wish: None,
            standing: Standing::Out,
            again: false,
            suspected: false,
        };
        Roll {
            members: vec![member; ranks as usize],
            counts: [ranks, 0, 0, 0],
            placed: 0,
            again: 0,
            wishes: 0,
            early: BTreeSet::new(),
            first_left: None,
            #[cfg(test)]
            walks: Default::default(),
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.members.len() as u32
    }

    pub(super) fn get(&self, rank: u32) -> Option<&Member> {
        self.members.get(rank as usize)
    }

    /// All members in their order. That takes its time: only for what happens once in a round.
    pub(super) fn walk(&self) -> impl Iterator<Item = &Member> {
        #[cfg(test)]
        self.walks.set(self.walks.get() + 1);
        self.members.iter()
    }

    /// How many have this standing.
    pub(super) fn count(&self, standing: Standing) -> u32 {
        self.counts[standing as usize]
    }

    /// Whether all have this standing.
    pub(super) fn are_all(&self, standing: Standing) -> bool {
        self.count(standing) == self.len()
    }

    pub(super) fn is_placed(&self, rank: u32) -> bool {
        self[rank].place != NOWHERE
    }

    /// Whether every rank has a place.
    pub(super) fn is_complete(&self) -> bool {
        self.placed == self.len()
    }

    pub(super) fn set_place(&mut self, rank: u32, place: (u32, u32)) {
        self.placed += !self.is_placed(rank) as u32;
        self.members[rank as usize].place = place;
    }

    pub(super) fn set_standing(&mut self, rank: u32, standing: Standing) {
        let before = std::mem::replace(&mut self.members[rank as usize].standing, standing);
        self.counts[before as usize] -= 1;
        self.counts[standing as usize] += 1;
        if standing == Standing::Left {
            self.first_left.get_or_insert(rank);
        }
        self.note_early(rank);
    }

    pub(super) fn set_ending(&mut self, rank: u32, ending: Ending) {
        self.members[rank as usize].ending = Some(ending);
        self.note_early(rank);
    }

    fn note_early(&mut self, rank: u32) {
        if self.is_early(rank) {
            self.early.insert(rank);
        } else {
            self.early.remove(&rank);
        }
    }

    /// The first whose process ended before it joined.
    pub(super) fn first_early(&self) -> Option<u32> {
        self.early.first().copied()
    }

    /// Whoever left first in this round.
    pub(super) fn first_left(&self) -> Option<u32> {
        self.first_left
    }

    pub(super) fn set_suspected(&mut self, rank: u32, suspected: bool) {
        self.members[rank as usize].suspected = suspected;
    }

    pub(super) fn set_again(&mut self, rank: u32) {
        self.again += !std::mem::replace(&mut self.members[rank as usize].again, true) as u32;
    }

    /// Whether somebody waits for the next round.
    pub(super) fn is_awaited(&self) -> bool {
        self.again > 0
    }

    /// Nobody comes again.
    pub(super) fn forget_again(&mut self) {
        if std::mem::take(&mut self.again) > 0 {
            self.members.iter_mut().for_each(|member| member.again = false);
        }
    }

    pub(super) fn set_wish(&mut self, rank: u32, wish: u32) {
        self.wishes += self.members[rank as usize].wish.replace(wish).is_none() as u32;
    }

    /// How many want the world to start over.
    pub(super) fn wishes(&self) -> u32 {
        self.wishes
    }

    pub(super) fn forget_wishes(&mut self) {
        if std::mem::take(&mut self.wishes) > 0 {
            self.members.iter_mut().for_each(|member| member.wish = None);
        }
    }

    /// A round begins: in it is who has asked for it, and nobody else yet.
    pub(super) fn begin_round(&mut self) {
        #[cfg(test)]
        self.walks.set(self.walks.get() + 1);
        self.counts = [0; 4];
        (self.again, self.wishes, self.first_left) = (0, 0, None);
        self.early.clear();
        for (rank, member) in self.members.iter_mut().enumerate() {
            member.standing = if member.again { Standing::In } else { Standing::Out };
            (member.again, member.wish) = (false, None);
            self.counts[member.standing as usize] += 1;
            if member.ending.is_some() && member.standing == Standing::Out {
                self.early.insert(rank as u32);
            }
        }
    }

    /// Everybody gets the number it wished for; the wishes are a permutation.
    pub(super) fn renumber(&mut self, wishes: &[u32]) {
        self.forget_wishes();
        let before = self.members.clone();
        for (member, &new) in before.into_iter().zip(wishes) {
            self.members[new as usize] = member;
        }
        self.early = (0..self.len()).filter(|&rank| self.is_early(rank)).collect();
    }

    fn is_early(&self, rank: u32) -> bool {
        self[rank].ending.is_some() && self[rank].standing == Standing::Out
    }
}
