//! Random meetings of teams over several engines' halls, and a network that delivers as a seed says: some leave, and a rank of no
//! team makes signals up.
//!
//! What must hold: nobody passes a barrier before all members have come to it; where nobody leaves, all pass all of them; where
//! somebody does, every other member passes or is told who left; and what is made up changes nothing, and takes no memory.

use crate::engine::barrier::{News, Passage, Step};
use crate::engine::frames::{self, Signal};
use crate::engine::teams::{ways, Hall, Halls, Members, Roster};
use kumiki_net::contract::Message;
use kumiki_net::shm::barrier::{Discord, Intent, Ticket};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::collections::{BTreeMap, VecDeque};

const BARRIERS: u64 = 4;

/// A member's way through the barriers of a team.
struct Walk {
    rank: u32,
    team: u64,
    nodes: u32,
    entered: u64,
    passage: Option<(Passage, News)>,
    /// Who left, if that ended it.
    told: Option<Discord>,
    left: bool,
}

struct Storm {
    halls: Vec<Halls>,
    teams: Vec<Members>,
    walks: Vec<Walk>,
    ways: BTreeMap<(u32, u32), VecDeque<Message>>,
    state: u64,
}

impl Storm {
    /// Ranks that are nodes of their own, in teams of all kinds; and one more that is in none.
    fn new(ranks: u32, seed: u64) -> Storm {
        let mut storm = Storm {
            halls: (0..=ranks).map(|_| Halls::default()).collect(),
            teams: vec![(0..ranks).into(), Members::strided(0, 2, ranks.div_ceil(2)), [ranks - 1, 0].into()],
            walks: Vec::new(),
            ways: BTreeMap::new(),
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        for (team, members) in (1..).zip(storm.teams.clone()) {
            let bits = [members.iter().fold(0, |bits, rank| bits | 1 << rank)];
            for (own, rank) in (0..).zip(members.iter()) {
                let nodes = members.len();
                let ways = ways(&members, &|rank| rank, &bits, rank, nodes);
                let roster =
                    Roster { members: members.clone(), own, here: 1, leader: Rank(rank), nodes, ways };
                storm.halls[rank as usize].add(Hall::new(team, &roster));
                let walk = Walk { rank, team, nodes, entered: 0, passage: None, told: None, left: false };
                storm.walks.push(walk);
            }
        }
        storm
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % limit.max(1)
    }

    fn post(&mut self, from: u32, messages: Vec<(Rank, Message)>) {
        for (to, message) in messages {
            self.ways.entry((from, to.0)).or_default().push_back(message);
        }
    }

    /// Whether something is left to be delivered.
    fn deliver(&mut self) -> bool {
        self.ways.retain(|_, way| !way.is_empty());
        let busy: Vec<(u32, u32)> = self.ways.keys().copied().collect();
        if busy.is_empty() {
            return false;
        }
        let (from, to) = busy[self.below(busy.len())];
        let message = self.ways.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("it is not empty");
        self.hear(from, to, &message.header);
        true
    }

    fn hear(&mut self, from: u32, to: u32, header: &Header) {
        let mut out = Vec::new();
        self.halls[to as usize].hear(Rank(from), header, &mut out);
        self.post(to, out);
    }

    /// A member goes on. Whether it did.
    fn step(&mut self, index: usize) -> bool {
        let Walk { rank, team, nodes, entered, passage, told, left } = &mut self.walks[index];
        let hall = self.halls[*rank as usize].get(*team);
        let (false, None, Some(hall)) = (*left, &told, hall) else { return false };
        let Some((passage, news)) = passage else {
            if *entered == BARRIERS {
                return false;
            }
            *entered += 1;
            *told = hall.enter(*entered);
            let ticket = Ticket { generation: 0, last: true, mixed: false };
            let begun = Passage::new(ticket, *entered, Intent::Sync, Rank(*rank), *nodes, *nodes > 1);
            *passage = Some((begun, News::NodeCame));
            return true;
        };
        let epoch = passage.epoch;
        match passage.advance(*news) {
            Step::Send(round, signal) => {
                *news = News::Sent;
                let (from, team) = (*rank, *team);
                let to = ways_of(&self.teams[team as usize - 1], from)[round as usize];
                self.post(from, vec![(to, frames::notice(signal.header(team, round)))]);
                true
            }
            Step::AwaitSignal(round) if hall.heard.signal(round).epoch >= epoch => {
                *news = News::Heard(hall.heard.signal(round));
                true
            }
            Step::AwaitSignal(_) => {
                *news = News::Nothing;
                *told = hall.heard.discord(epoch);
                told.is_some()
            }
            Step::Open | Step::AwaitOpening => {
                self.walks[index].passage = None;
                let team = self.walks[index].team;
                let came =
                    self.walks.iter().filter(|walk| walk.team == team).all(|walk| walk.entered >= epoch);
                assert!(came, "barrier {epoch} of team {team} opened before all had come");
                true
            }
            other => panic!("{other:?}"),
        }
    }

    fn leave(&mut self, index: usize) {
        let Walk { rank, team, entered, passage, left, .. } = &mut self.walks[index];
        if std::mem::replace(left, true) {
            return;
        }
        let epoch = *entered + u64::from(passage.is_none());
        let (rank, team) = (*rank, *team);
        let discord = Discord { rank: Rank(rank), intent: Intent::Finalize };
        let hall = self.halls[rank as usize].get(team);
        let news = hall.map(|hall| hall.spread(epoch, discord)).unwrap_or_default();
        self.halls[rank as usize].remove(team);
        self.post(rank, news);
    }

    /// A rank of no team says that somebody has come, or left.
    fn lie(&mut self) {
        let liar = self.halls.len() as u32 - 1;
        let (to, round) = (self.below(liar as usize) as u32, self.below(4) as u32);
        let team = self.below(5) as u64;
        let discord = Discord { rank: Rank(self.below(9) as u32), intent: Intent::Finalize };
        let signal = Signal::new(self.below(9) as u64, Intent::Sync, Rank(liar)).broken_by(discord);
        let flags = self.below(2) as u8;
        self.hear(liar, to, &Header { flags, ..signal.header(team, round) });
    }

    fn run(&mut self, leavers: usize) {
        for _ in 0..leavers {
            for _ in 0..self.below(200) {
                self.turn();
            }
            let index = self.below(self.walks.len());
            self.leave(index);
        }
        // Until nothing more can happen.
        let mut quiet = 0;
        while quiet < 200 {
            quiet = if self.turn() { 0 } else { quiet + 1 };
        }
        while self.deliver() {}
        while (0..self.walks.len()).any(|index| self.step(index)) || self.deliver() {}
    }

    /// Whether something happened.
    fn turn(&mut self) -> bool {
        match self.below(8) {
            0..=3 => {
                let index = self.below(self.walks.len());
                self.step(index)
            }
            4 => {
                self.lie();
                false
            }
            _ => self.deliver(),
        }
    }

    fn check(&self, seed: u64) {
        for walk in self.walks.iter().filter(|walk| !walk.left) {
            let Walk { rank, team, .. } = walk;
            let leavers: Vec<Rank> = self
                .walks
                .iter()
                .filter(|other| other.team == *team && other.left)
                .map(|other| Rank(other.rank))
                .collect();
            match walk.told {
                Some(discord) => assert!(leavers.contains(&discord.rank), "seed {seed}: {discord:?}"),
                None => {
                    let passed = walk.entered == BARRIERS && walk.passage.is_none();
                    assert!(
                        passed,
                        "seed {seed}: rank {rank} waits for ever in team {team}, {leavers:?} left"
                    );
                }
            }
        }
    }
}

/// Whom a leader signals, by round.
fn ways_of(members: &Members, rank: u32) -> Vec<Rank> {
    let bits = [members.iter().fold(0, |bits, rank| bits | 1 << rank)];
    ways(members, &|rank| rank, &bits, rank, members.len()).iter().map(|way| way.to).collect()
}

#[test]
fn teams_meet_in_any_order_and_all_learn_who_left() {
    // Miri is a thousand times slower than the machine.
    for seed in 0..if cfg!(miri) { 4 } else { 400 } {
        let mut storm = Storm::new(2 + seed as u32 % 7, seed);
        storm.run(seed as usize % 4);
        storm.check(seed);
    }
}

/// A model that accepts everything checks nothing.
#[test]
fn a_team_that_is_not_told_waits_for_ever() {
    let mut storm = Storm::new(4, 1);
    storm.walks[1].left = true;
    storm.run(0);
    assert!(std::panic::catch_unwind(|| storm.check(1)).is_err());
}
