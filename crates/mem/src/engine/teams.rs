//! Teams: ordered subsets of the ranks of a world, each with a barrier of its own.
//!
//! A member keeps its own view of a team: the rule that says who is in it ([`Members`]), and, if it is the first member on its
//! node, whom it exchanges signals with. That is found by looking once through the members when the team is made; no rank
//! keeps a table of ranks that is longer than the team, and one that is a range takes none.
//!
//! A team whose member has left can never meet again. Who hears that, from another leader or on its own node, tells it to all
//! whom it signals, once: so it gets round in as many steps as a barrier has rounds. Such a signal is marked, and does not
//! count as one of a barrier: whoever passes it on may not have come that far itself.

use crate::engine::barrier::{Heard, BARRIER_ROUNDS};
use crate::engine::frames::{self, Signal};
use crate::engine::Report;
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::contract::Message;
use kumiki_net::shm::barrier::{Discord, Intent};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::sync::Arc;

/// Which ranks are in a team, in the order of the team.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Members {
    /// `first`, `first + stride`, … : `count` of them.
    Range {
        /// The first.
        first: u32,
        /// From one to the next; at least 1.
        stride: u32,
        /// How many.
        count: u32,
    },
    /// These, each once.
    List(Arc<[u32]>),
}

impl Members {
    /// Every `stride`-th rank from `first`, `count` of them.
    pub fn strided(first: u32, stride: u32, count: u32) -> Members {
        Members::Range { first, stride, count }
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        match self {
            Members::Range { count, .. } => *count,
            Members::List(list) => list.len() as u32,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The member of this number in the team.
    pub fn get(&self, index: u32) -> Option<u32> {
        match self {
            Members::Range { first, stride, count } => {
                (index < *count).then(|| first.wrapping_add(stride.wrapping_mul(index)))
            }
            Members::List(list) => list.get(index as usize).copied(),
        }
    }

    /// The number in the team of a rank. A list is looked through.
    pub fn position(&self, rank: u32) -> Option<u32> {
        match self {
            Members::Range { first, stride, count } => {
                let away = rank.checked_sub(*first)?;
                let index = away / (*stride).max(1);
                (away.is_multiple_of((*stride).max(1)) && index < *count).then_some(index)
            }
            Members::List(list) => list.iter().position(|member| *member == rank).map(|at| at as u32),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The same members by their numbers in another team.
    pub fn of(&self, parent: &Members) -> Members {
        match (self, parent) {
            (
                Members::Range { first, stride, count },
                Members::Range { first: base, stride: step, count: _ },
            ) => {
                // One member has no distance to the next, and may have been given any.
                let stride = if *count == 1 { 1 } else { stride * step };
                Members::Range { first: base + first * step, stride, count: *count }
            }
            _ => {
                let member = |index| parent.get(index).unwrap_or(u32::MAX);
                self.iter().map(member).collect::<Vec<u32>>().into()
            }
        }
    }

    /// Fails if they cannot be members of a team among so many ranks.
    pub fn check(&self, ranks: u32) -> Result<()> {
        let wrong = |what: String| Err(Error::misuse(format!("a team of {what}, among {ranks} ranks")));
        match self {
            Members::Range { count: 0, .. } => wrong("no members".into()),
            Members::Range { first, stride, count } => {
                let last = u64::from(*first) + u64::from(*stride) * u64::from(count - 1);
                match (*stride, last < u64::from(ranks)) {
                    (1.., true) => Ok(()),
                    (0, _) => wrong("ranks with a stride of 0".into()),
                    _ => wrong(format!("ranks {first} to {last}")),
                }
            }
            Members::List(list) => {
                if list.is_empty() {
                    return wrong("no members".into());
                }
                if let Some(rank) = list.iter().find(|rank| **rank >= ranks) {
                    return wrong(format!("rank {rank}"));
                }
                let mut sorted = list.to_vec();
                sorted.sort_unstable();
                match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => wrong(format!("rank {} twice", pair[0])),
                    None => Ok(()),
                }
            }
        }
    }

    /// Bytes that they take beside their own.
    pub fn bytes(&self) -> u64 {
        match self {
            Members::Range { .. } => 0,
            Members::List(list) => std::mem::size_of_val::<[u32]>(list) as u64 + 16,
        }
    }
}

impl From<std::ops::Range<u32>> for Members {
    fn from(ranks: std::ops::Range<u32>) -> Members {
        let count = ranks.end.saturating_sub(ranks.start);
        Members::Range { first: ranks.start, stride: 1, count }
    }
}

impl From<Vec<u32>> for Members {
    fn from(ranks: Vec<u32>) -> Members {
        Members::from(&ranks[..])
    }
}

impl From<&[u32]> for Members {
    /// Ranks at even distances become a range, which takes no memory.
    fn from(ranks: &[u32]) -> Members {
        let even = |&[first, second, ..]: &[u32; 2]| {
            let stride = second.checked_sub(first)?;
            let at = |index: usize| u64::from(first) + index as u64 * u64::from(stride);
            let fits =
                stride > 0 && ranks.iter().enumerate().all(|(index, rank)| u64::from(*rank) == at(index));
            fits.then_some(Members::Range { first, stride, count: ranks.len() as u32 })
        };
        match ranks {
            [] => Members::Range { first: 0, stride: 1, count: 0 },
            [only] => Members::Range { first: *only, stride: 1, count: 1 },
            _ => ranks.first_chunk::<2>().and_then(even).unwrap_or_else(|| Members::List(ranks.into())),
        }
    }
}

impl<const N: usize> From<[u32; N]> for Members {
    fn from(ranks: [u32; N]) -> Members {
        Members::from(&ranks[..])
    }
}

/// Whom a leader exchanges signals with in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    pub(crate) to: Rank,
    pub(crate) from: Rank,
}

/// A team as one of its members sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Roster {
    pub(crate) members: Members,
    /// The number of this rank in the team.
    pub(crate) own: u32,
    /// Members on this node.
    pub(crate) here: u32,
    /// The first of them.
    pub(crate) leader: Rank,
    /// Nodes that have members.
    pub(crate) nodes: u32,
    /// By round; of a leader.
    pub(crate) ways: Box<[Way]>,
}

impl Roster {
    /// Looks through the members; they are checked. `None` if this rank is not among them.
    pub(crate) fn new(node: &Node, members: Members) -> Option<Roster> {
        let own = members.position(node.rank.0)?;
        let node_of = |rank: u32| node.arena.place(Rank(rank)).map_or(u32::MAX, |word| word.load().node);
        // One bit for each node, while this looks.
        let mut bits = vec![0u64; (node.arena.config().nodes as usize).div_ceil(64)];
        let (mut here, mut leader) = (0, node.rank);
        for rank in members.iter() {
            let at = node_of(rank);
            if let Some(word) = bits.get_mut(at as usize / 64) {
                *word |= 1 << (at % 64);
            }
            if at == node.node {
                leader = if here == 0 { Rank(rank) } else { leader };
                here += 1;
            }
        }
        let nodes = bits.iter().map(|word| word.count_ones()).sum();
        let leads = leader == node.rank && nodes > 1;
        let ways = if leads { ways(&members, &node_of, &bits, node.node, nodes) } else { Box::default() };
        Some(Roster { members, own, here, leader, nodes, ways })
    }

    /// Whether this rank speaks for the members of its node.
    pub(crate) fn leads(&self) -> bool {
        !self.ways.is_empty()
    }
}

/// The leaders that a leader exchanges signals with.
pub(crate) fn ways(
    members: &Members,
    node_of: &dyn Fn(u32) -> u32,
    bits: &[u64],
    own: u32,
    nodes: u32,
) -> Box<[Way]> {
    let all: Vec<u32> =
        (0..bits.len() as u32 * 64).filter(|at| bits[*at as usize / 64] >> (at % 64) & 1 == 1).collect();
    let at = all.partition_point(|node| *node < own) as u64;
    let nodes = u64::from(nodes);
    let rounds = (nodes.next_power_of_two().trailing_zeros() as usize).min(BARRIER_ROUNDS);
    let pair = |round: usize| {
        let far = (1u64 << round) % nodes;
        [all[((at + far) % nodes) as usize], all[((at + nodes - far) % nodes) as usize]]
    };
    let wanted: Vec<[u32; 2]> = (0..rounds).map(pair).collect();
    let mut first: Vec<(u32, Option<Rank>)> = wanted.iter().flatten().map(|node| (*node, None)).collect();
    first.sort_unstable_by_key(|(node, _)| *node);
    first.dedup_by_key(|(node, _)| *node);
    for rank in members.iter() {
        if let Ok(found) = first.binary_search_by_key(&node_of(rank), |(node, _)| *node) {
            first[found].1.get_or_insert(Rank(rank));
        }
    }
    let leader = |node: u32| {
        let found = first.binary_search_by_key(&node, |(node, _)| *node).ok();
        found.and_then(|found| first[found].1).unwrap_or(Rank(u32::MAX))
    };
    wanted.iter().map(|[to, from]| Way { to: leader(*to), from: leader(*from) }).collect()
}

/// What a leader has heard of the barriers of a team.
#[derive(Debug)]
pub(crate) struct Hall {
    team: u64,
    members: Members,
    ways: Box<[Way]>,
    /// The barrier that this rank has come to.
    entered: u64,
    pub(crate) heard: Heard,
}

impl Hall {
    pub(crate) fn new(team: u64, roster: &Roster) -> Hall {
        let (members, ways) = (roster.members.clone(), roster.ways.clone());
        Hall { team, members, heard: Heard::new(ways.len()), ways, entered: 0 }
    }

    /// This rank has come to a barrier. Gives who left before that, if another node has said it.
    pub(crate) fn enter(&mut self, epoch: u64) -> Option<Discord> {
        self.entered = epoch;
        self.heard.discord(epoch)
    }

    /// Bytes of one, beside those of its members.
    pub(crate) fn bytes(rounds: usize) -> u64 {
        (std::mem::size_of::<Hall>() + rounds * (std::mem::size_of::<Way>() + std::mem::size_of::<Signal>()))
            as u64
    }

    /// The team never meets again from this barrier on: what is to be sent to whom. Nothing, if that was known.
    pub(crate) fn spread(&mut self, epoch: u64, discord: Discord) -> Vec<(Rank, Message)> {
        if !self.heard.learn(epoch, discord) {
            return Vec::new();
        }
        let signal = Signal::new(epoch, Intent::Sync, discord.rank).broken_by(discord);
        let message = |(round, way): (u32, &Way)| {
            let header = Header { flags: frames::FLAG_NEWS, ..signal.header(self.team, round) };
            // Nobody answers, as with any signal: if it cannot be sent, that is trouble of this rank, since others wait for it.
            (way.to, frames::notice(header))
        };
        (0..).zip(&self.ways).map(message).collect()
    }

    /// Takes a signal, if it comes from whoever signals this rank in its round and is about the team.
    fn hear(&mut self, from: Rank, header: &Header, out: &mut Vec<(Rank, Message)>) -> Option<Report> {
        let round = usize::try_from(header.a).ok()?;
        self.ways.get(round).filter(|way| way.from == from)?;
        let is_news = header.flags & frames::FLAG_NEWS != 0;
        // All leaders are at the barrier of this rank, or one before or behind it. What is said of others would stay for good, or
        // be passed on again and again.
        let (behind, ahead) = (self.entered.saturating_sub(1), self.entered + 1);
        if header.b > ahead || (is_news && header.b < behind.max(1)) {
            return None;
        }
        if !is_news {
            self.heard.hear(header.a, Signal::new(header.b, Intent::Sync, from));
            return None;
        }
        let discord = Signal::of(header, u32::MAX).discord()?;
        self.members.position(discord.rank.0)?;
        let news = self.spread(header.b, discord);
        let report = (!news.is_empty()).then_some(Report::Discord(self.team, header.b, discord));
        out.extend(news);
        report
    }
}

/// The teams that this rank is a leader of.
#[derive(Debug, Default)]
pub(crate) struct Halls {
    /// By number.
    all: Vec<Hall>,
}

impl Halls {
    fn find(&self, team: u64) -> std::result::Result<usize, usize> {
        self.all.binary_search_by_key(&team, |hall| hall.team)
    }

    /// One more.
    pub(crate) fn add(&mut self, hall: Hall) {
        match self.find(hall.team) {
            Ok(at) => self.all[at] = hall,
            Err(at) => self.all.insert(at, hall),
        }
    }

    pub(crate) fn remove(&mut self, team: u64) {
        if let Ok(at) = self.find(team) {
            self.all.remove(at);
        }
    }

    pub(crate) fn get(&mut self, team: u64) -> Option<&mut Hall> {
        self.find(team).ok().map(|at| &mut self.all[at])
    }

    /// Takes a signal; that of a team that this rank does not lead is not kept.
    pub(crate) fn hear(
        &mut self,
        from: Rank,
        header: &Header,
        out: &mut Vec<(Rank, Message)>,
    ) -> Option<Report> {
        self.get(header.op)?.hear(from, header, out)
    }

    /// Whose signals are waited for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Rank> + '_ {
        self.all.iter().filter_map(|hall| hall.heard.awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_numbers_and_their_ranks() {
        let cases: [(Members, &[u32]); 5] = [
            ((3..7).into(), &[3, 4, 5, 6]),
            (Members::strided(1, 5, 3), &[1, 6, 11]),
            ([9, 2, 4].into(), &[9, 2, 4]),
            (vec![5].into(), &[5]),
            (Members::strided(0, 2, 4).of(&Members::strided(1, 3, 9)), &[1, 7, 13, 19]),
        ];
        for (members, ranks) in cases {
            assert_eq!(members.iter().collect::<Vec<_>>(), ranks);
            assert_eq!(members.check(20), Ok(()));
            for (index, rank) in (0..).zip(ranks) {
                assert_eq!((members.get(index), members.position(*rank)), (Some(*rank), Some(index)));
            }
            let outside = (0..30).filter(|rank| !ranks.contains(rank));
            assert!(outside.clone().all(|rank| members.position(rank).is_none()), "{members:?}");
            assert_eq!(members.get(members.len()), None);
        }
        assert_eq!(Members::from([2, 4, 6]), Members::strided(2, 2, 3), "it takes no memory");
        assert_eq!(Members::from([1, 0]).of(&[7, 3, 5].into()), [3, 7].into());
    }

    #[test]
    fn members_that_cannot_be_are_refused() {
        let cases: [Members; 7] = [
            (2..2).into(),
            (2..9).into(),
            Members::strided(0, 0, 2),
            Members::strided(1, u32::MAX, u32::MAX),
            Vec::new().into(),
            vec![1, 2, 1].into(),
            vec![0, 8].into(),
        ];
        for members in cases {
            assert!(matches!(members.check(8), Err(Error::Misuse(_))), "{members:?}");
        }
    }

    fn hall() -> Hall {
        let ways = [1, 2].map(|far| Way { to: Rank(far), from: Rank(4 - far) });
        let roster =
            Roster { members: (0..4).into(), own: 0, here: 1, leader: Rank(0), nodes: 4, ways: ways.into() };
        let mut hall = Hall::new(7, &roster);
        hall.enter(5);
        hall
    }

    #[test]
    fn one_member_of_any_stride_is_found_in_a_team_of_its_own() {
        let parent = Members::strided(1, 3, 9);
        for stride in [1, 2, u32::MAX] {
            let one = Members::strided(2, stride, 1);
            assert_eq!(one.check(9), Ok(()));
            assert_eq!(one.of(&parent), Members::strided(7, 1, 1));
        }
    }

    /// What is said of barriers that nobody can be at: it would be believed in all later ones, or passed on each time.
    #[test]
    fn signals_and_news_of_barriers_that_no_leader_can_be_at_are_not_kept() {
        let mut hall = hall();
        let mut out = Vec::new();
        let signal = |epoch| Signal::new(epoch, Intent::Sync, Rank(3));
        for epoch in [7, u64::MAX] {
            assert_eq!(hall.hear(Rank(3), &signal(epoch).header(7, 0), &mut out), None);
            assert_eq!(hall.heard.signal(0).epoch, 0, "barrier {epoch}");
        }
        hall.hear(Rank(3), &signal(6).header(7, 0), &mut out);
        assert_eq!(hall.heard.signal(0).epoch, 6, "one ahead");
        let discord = Discord { rank: Rank(2), intent: Intent::Finalize };
        let news =
            |epoch| Header { flags: frames::FLAG_NEWS, ..signal(epoch).broken_by(discord).header(7, 0) };
        let mut passed_on = 0;
        for epoch in (0..1000).rev().chain([u64::MAX]) {
            passed_on += hall.hear(Rank(3), &news(epoch), &mut out).iter().count();
        }
        assert_eq!((passed_on, out.len()), (3, 6), "6, 5 and 4, each to two leaders");
    }

    #[test]
    fn news_that_cannot_be_sent_are_trouble_of_this_rank() {
        let discord = Discord { rank: Rank(0), intent: Intent::Finalize };
        let news = hall().spread(5, discord);
        assert!(news.iter().all(|(_, message)| !message.expects_answer) && news.len() == 2);
    }

    #[test]
    fn signals_of_made_up_teams_and_ranks_are_not_kept() {
        let mut halls = Halls::default();
        halls.add(hall());
        let mut out = Vec::new();
        let signal = Signal::new(5, Intent::Sync, Rank(3)).header(7, 0);
        for (from, header) in [
            (3, Header { op: 8, ..signal }),
            (2, signal),
            (3, Header { a: 2, ..signal }),
            (3, Header { a: u64::MAX, ..signal }),
        ] {
            assert_eq!(halls.hear(Rank(from), &header, &mut out), None);
        }
        assert_eq!(halls.get(7).unwrap().heard.signal(0).epoch, 0);
        let stranger = Discord { rank: Rank(9), intent: Intent::Finalize };
        let lie = Signal::new(5, Intent::Sync, Rank(3)).broken_by(stranger).header(7, 0);
        let lie = Header { flags: frames::FLAG_NEWS, ..lie };
        assert_eq!(halls.hear(Rank(3), &lie, &mut out), None, "no member has left");
        assert!(out.is_empty() && halls.all.len() == 1);
        assert_eq!(halls.hear(Rank(3), &signal, &mut out), None);
        assert_eq!(halls.get(7).unwrap().heard.signal(0).epoch, 5, "it is the leader's word that counts");
    }

    #[test]
    fn that_a_member_has_left_is_passed_on_once_and_is_no_arrival() {
        let mut hall = hall();
        let discord = Discord { rank: Rank(2), intent: Intent::Finalize };
        let news = Signal::new(6, Intent::Sync, Rank(3)).broken_by(discord).header(7, 0);
        let news = Header { flags: frames::FLAG_NEWS, ..news };
        let mut out = Vec::new();
        let report = hall.hear(Rank(3), &news, &mut out);
        assert_eq!(report, Some(Report::Discord(7, 6, discord)));
        assert_eq!(out.iter().map(|(to, _)| to.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((hall.heard.signal(0).epoch, hall.heard.discord(5)), (0, None));
        assert_eq!(hall.heard.discord(6), Some(discord));
        out.clear();
        assert_eq!(hall.hear(Rank(3), &news, &mut out), None);
        assert_eq!(out.len(), 0, "once");
        // Whoever left even before is told, too: those who wait there would not hear of it else.
        assert_eq!(hall.spread(5, discord).len(), 2);
    }
}
