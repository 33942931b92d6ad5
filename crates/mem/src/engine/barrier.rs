//! Barriers as a value: what a rank does next to pass one, and what leaders of other nodes have said, by team.
//!
//! Ranks of a node meet in the arena. The leader of each node (its first rank) then exchanges signals with the leaders of the
//! others in ⌈log2(nodes)⌉ rounds, and opens its node's barrier. A [`Passage`] says what is to be done next; whoever drives
//! it does that, waits if it must, and says what came of it.
//!
//! Every arrival says what it is for: to go on, to finalize, to reset. Signals carry what all of those came for of whom
//! their sender knows, so that in the end every leader knows of all. A barrier where not all came for the same never
//! opens: everybody gets an error.
//!
//! A signal carries the number of the team whose barrier it is of; 0 is the world. Those of teams are kept in `teams.rs`.

use crate::engine::frames::{Signal, FLAG_NEWS};
use crate::engine::teams::Halls;
use crate::engine::Report;
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::contract::Message;
use kumiki_net::shm::barrier::{Discord, Intent, Ticket};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::ops::Range;

/// The number of the world among teams.
pub(crate) const WORLD: u64 = 0;

/// Rounds of a dissemination barrier between nodes: enough for 2^24 of them.
pub(crate) const BARRIER_ROUNDS: usize = 24;

/// A barrier that this rank has entered and not passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passage {
    pub(crate) ticket: Ticket,
    pub(crate) epoch: u64,
    pub(crate) intent: Intent,
    stage: Stage,
    /// What is known of all who have come; for leaders.
    signal: Signal,
    nodes: u32,
    /// Whether the agent knows that the barrier is broken.
    told: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The leader waits for the ranks of its node.
    Gather,
    /// The leader exchanges signals of this round; the flag says whether its own is sent.
    Round(u32, bool),
    /// Everybody else waits for the leader, or for the last arrival.
    Open,
}

/// What is to be done to pass a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// To wait until the ranks of this node have come.
    AwaitNode,
    /// To send this signal to the leader of the node of this round.
    Send(u32, Signal),
    /// To wait for the signal of this round.
    AwaitSignal(u32),
    /// To wait until the barrier of this node is opened; then it is passed.
    AwaitOpening,
    /// To open the barrier of this node; then it is passed.
    Open,
    /// To give up, and say so: not all came for the same.
    Broken(Discord),
}

/// What came of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// Nothing yet: what is to be done is asked for the first time, or again.
    Nothing,
    /// All ranks of this node have come.
    NodeCame,
    /// The signal is sent.
    Sent,
    /// The signal of the round.
    Heard(Signal),
}

impl Passage {
    /// Of a rank that has arrived at barrier number `epoch` of so many nodes; a leader speaks for its own.
    pub(crate) fn new(
        ticket: Ticket,
        epoch: u64,
        intent: Intent,
        rank: Rank,
        nodes: u32,
        leads: bool,
    ) -> Passage {
        let stage = if leads { Stage::Gather } else { Stage::Open };
        Passage { ticket, epoch, intent, stage, signal: Signal::new(epoch, intent, rank), nodes, told: false }
    }

    /// What is to be done, after what came of the last step.
    pub(crate) fn advance(&mut self, news: News) -> Step {
        match (self.stage, news) {
            (Stage::Gather, News::NodeCame) => self.stage = Stage::Round(0, false),
            (Stage::Round(round, false), News::Sent) => self.stage = Stage::Round(round, true),
            (Stage::Round(round, true), News::Heard(heard)) => {
                self.signal = self.signal.and(heard);
                if let Some(discord) = self.signal.discord() {
                    return Step::Broken(discord);
                }
                self.stage = Stage::Round(round + 1, false);
            }
            _ => {}
        }
        match self.stage {
            Stage::Gather => Step::AwaitNode,
            Stage::Round(round, _) if !self.has_round(round) => Step::Open,
            Stage::Round(round, false) => Step::Send(round, self.signal),
            Stage::Round(round, true) => Step::AwaitSignal(round),
            Stage::Open => Step::AwaitOpening,
        }
    }

    /// Whether the leaders exchange signals of this round.
    fn has_round(&self, round: u32) -> bool {
        1u64 << round < u64::from(self.nodes)
    }

    /// The barrier is broken: the signal that says so, and the rounds in which it is to be sent. `None` if that was asked before.
    pub(crate) fn break_off(&mut self, discord: Discord) -> Option<(Range<u32>, Signal)> {
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        let rounds = self.nodes.max(1).next_power_of_two().trailing_zeros();
        let first = match self.stage {
            Stage::Gather => 0,
            Stage::Round(round, sent) => round + u32::from(sent),
            Stage::Open => rounds,
        };
        Some((first..rounds.max(first), self.signal.broken_by(discord)))
    }
}

/// The barriers that this rank comes to: those of the world, and of the teams that it leads on its node.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    pub(crate) world: Heard,
    pub(crate) teams: Halls,
}

/// What was heard of the barriers of the world, or of a team.
#[derive(Debug)]
pub(crate) struct Heard {
    /// By round: the latest.
    signals: Box<[Signal]>,
    /// A barrier that never opens, as somebody else has found.
    discord: Option<(u64, Discord)>,
    /// Whose signal is waited for.
    pub(crate) awaited: Option<Rank>,
}

impl Default for Heard {
    fn default() -> Heard {
        Heard::new(BARRIER_ROUNDS)
    }
}

impl Barriers {
    /// Takes a signal of a rank. What barriers believe comes from one rank a round.
    pub(crate) fn hear(
        &mut self,
        node: &Node,
        from: Rank,
        header: &Header,
        out: &mut Vec<(Rank, Message)>,
    ) -> Option<Report> {
        if header.op != WORLD {
            return self.teams.hear(from, header, out);
        }
        if !is_signaller(node, from, header.a) || header.flags & FLAG_NEWS != 0 {
            return None;
        }
        let signal = Signal::of(header, node.ranks());
        self.world.hear(header.a, signal).map(|discord| Report::Discord(WORLD, signal.epoch, discord))
    }

    /// Whose signals are waited for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Rank> + '_ {
        self.world.awaited.into_iter().chain(self.teams.awaited())
    }
}

impl Heard {
    /// Nothing, of barriers of so many rounds.
    pub(crate) fn new(rounds: usize) -> Heard {
        Heard { signals: vec![Signal::default(); rounds].into(), discord: None, awaited: None }
    }

    /// The latest signal of a round.
    pub(crate) fn signal(&self, round: u32) -> Signal {
        self.signals.get(round as usize).copied().unwrap_or_default()
    }

    /// A barrier up to this one that another node has found broken.
    pub(crate) fn discord(&self, epoch: u64) -> Option<Discord> {
        self.discord.filter(|(at, _)| *at <= epoch).map(|(_, discord)| discord)
    }

    /// A barrier never opens, nor does any after it. Whether that is new.
    pub(crate) fn learn(&mut self, epoch: u64, discord: Discord) -> bool {
        let new = self.discord.is_none_or(|(at, _)| epoch < at);
        if new {
            self.discord = Some((epoch, discord));
        }
        new
    }

    /// Takes a signal. Gives what it says of a barrier that is broken.
    pub(crate) fn hear(&mut self, round: u64, signal: Signal) -> Option<Discord> {
        let place = usize::try_from(round).ok().and_then(|round| self.signals.get_mut(round))?;
        if signal.epoch >= place.epoch {
            *place = signal;
        }
        let discord = signal.discord()?;
        self.discord.get_or_insert((signal.epoch, discord));
        Some(discord)
    }
}

/// The node whose leader this one signals in a round.
pub(crate) fn signalled(node: &Node, round: u32) -> u32 {
    let nodes = node.arena.config().nodes as u64;
    ((node.node as u64 + (1 << round)) % nodes) as u32
}

/// The node whose leader signals this one in a round.
pub(crate) fn signaller(node: &Node, round: u32) -> u32 {
    let nodes = node.arena.config().nodes as u64;
    ((node.node as u64 + nodes - (1 << round) % nodes) % nodes) as u32
}

/// Whether a rank is the one that signals us in a round.
fn is_signaller(node: &Node, rank: Rank, round: u64) -> bool {
    round < BARRIER_ROUNDS as u64 && leader(node, signaller(node, round as u32)) == Ok(rank)
}

/// The first rank of a node, as its agent wrote it into the table of nodes. Where there is no agent it is looked for; there
/// each rank is a node.
pub(crate) fn leader(node: &Node, index: u32) -> Result<Rank> {
    if let Some(leader) = node.arena.node(index).and_then(|word| word.leader()) {
        return Ok(leader);
    }
    let leads = |rank: &Rank| {
        node.arena.place(*rank).is_some_and(|word| {
            let place = word.load();
            place.node == index && place.local == 0
        })
    };
    let found = std::iter::once(index).chain(0..node.ranks()).map(Rank).find(leads);
    found.ok_or_else(|| Error::Closed(format!("node {index} has no ranks")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_signal_of_a_round_is_kept_and_an_older_one_changes_nothing() {
        let mut heard = Heard::default();
        let signal = |epoch| Signal::new(epoch, Intent::Sync, Rank(0));
        assert_eq!(heard.hear(2, signal(5)), None);
        heard.hear(2, signal(4));
        heard.hear(1 << 40, signal(9));
        assert_eq!((heard.signal(2).epoch, heard.signal(0).epoch, heard.signal(99).epoch), (5, 0, 0));
    }

    #[test]
    fn a_barrier_that_is_broken_is_remembered_for_whoever_comes_to_it() {
        let mut heard = Heard::default();
        let discord = Discord { rank: Rank(3), intent: Intent::Finalize };
        let broken = Signal::new(5, Intent::Sync, Rank(0)).broken_by(discord);
        assert_eq!(heard.hear(0, broken), Some(discord));
        assert_eq!(
            (heard.discord(4), heard.discord(5), heard.discord(6)),
            (None, Some(discord), Some(discord))
        );
    }

    /// Whoever waits for this rank's signal waits for ever; this one must learn that, whoever else is lost and when.
    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_signal_that_could_not_be_sent_is_trouble_although_another_peer_is_lost() {
        use crate::engine::stage::Stage;
        use kumiki_net::contract::{Outbox, Sink};
        use kumiki_net::shm::world::{Cause, Status};
        let full = || kumiki_net::Error::System { call: "socket", errno: 24 };
        for lost_at in [1, 2] {
            let mut stage = Stage::new(4);
            for step in [0, 1, 2] {
                if step == lost_at {
                    let arena = &stage.nodes[0].arena;
                    let place = arena.place(Rank(1)).expect("a place");
                    place.set_status(Status::Lost, Cause::EXITED, arena.changes());
                    continue;
                }
                let peer = if step == 0 { 1 } else { 2 };
                stage.feed(0).unsent(Rank(peer), full(), true, &mut Outbox::default());
                assert!(stage.engines[0].trouble(&stage.nodes[0]).is_some());
            }
            assert!(stage.engines[0].trouble(&stage.nodes[0]).is_some(), "lost at {lost_at}");
        }
    }

    /// Leaders that pass a barrier in the order that a seed says; what became of each.
    fn meet(intents: &[Intent], seed: u64) -> Vec<Step> {
        let nodes = intents.len() as u32;
        let ticket = Ticket { generation: 0, last: true, mixed: false };
        let leader =
            |(rank, intent): (u32, &Intent)| Passage::new(ticket, 1, *intent, Rank(rank), nodes, true);
        let mut leaders: Vec<Passage> = (0..).zip(intents).map(leader).collect();
        let mut heard: Vec<Heard> = intents.iter().map(|_| Heard::default()).collect();
        let mut news = vec![News::NodeCame; intents.len()];
        let mut ends: Vec<Option<Step>> = vec![None; intents.len()];
        let mut state = seed | 1;
        for _ in 0..10_000 {
            if ends.iter().all(Option::is_some) {
                break;
            }
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let who = (state >> 33) as usize % intents.len();
            if ends[who].is_some() {
                continue;
            }
            let to = |round: u32| (who + (1 << round)) % intents.len();
            match leaders[who].advance(news[who]) {
                Step::Send(round, signal) => {
                    heard[to(round)].hear(round.into(), signal);
                    news[who] = News::Sent;
                }
                Step::AwaitSignal(round) if heard[who].signal(round).epoch == 1 => {
                    news[who] = News::Heard(heard[who].signal(round));
                }
                Step::AwaitSignal(_) => news[who] = News::Nothing,
                Step::Broken(discord) => {
                    ends[who] = Some(Step::Broken(discord));
                    let (rounds, signal) = leaders[who].break_off(discord).expect("it is told once");
                    assert_eq!(leaders[who].break_off(discord), None);
                    for round in rounds {
                        heard[to(round)].hear(round.into(), signal);
                    }
                }
                end => ends[who] = Some(end),
            }
        }
        ends.into_iter().map(|end| end.expect("every leader comes to an end")).collect()
    }

    /// Orders that are tried for each number of nodes. Miri is a thousand times slower than the machine.
    const SEEDS: u64 = if cfg!(miri) { 1 } else { 20 };

    #[test]
    fn leaders_that_came_for_the_same_all_open_whoever_is_first() {
        for nodes in 2..10 {
            for seed in 0..SEEDS {
                let ends = meet(&vec![Intent::Sync; nodes], seed);
                assert!(ends.iter().all(|end| *end == Step::Open), "{nodes} nodes, seed {seed}: {ends:?}");
            }
        }
    }

    #[test]
    fn a_leader_that_finalizes_breaks_the_barrier_for_all() {
        for nodes in 2..10 {
            for seed in 0..SEEDS {
                let mut intents = vec![Intent::Sync; nodes];
                let leaver = seed as usize % nodes;
                intents[leaver] = Intent::Finalize;
                let broken = Step::Broken(Discord { rank: Rank(leaver as u32), intent: Intent::Finalize });
                let ends = meet(&intents, seed);
                assert!(ends.iter().all(|end| *end == broken), "{nodes} nodes, seed {seed}: {ends:?}");
            }
        }
    }

    #[test]
    fn a_step_that_failed_is_to_be_done_again() {
        let ticket = Ticket { generation: 0, last: false, mixed: false };
        let mut leader = Passage::new(ticket, 1, Intent::Sync, Rank(0), 2, true);
        assert_eq!(leader.advance(News::Nothing), Step::AwaitNode);
        let send = leader.advance(News::NodeCame);
        assert!(matches!(send, Step::Send(0, _)));
        assert_eq!(leader.advance(News::Nothing), send, "it was not sent");
        assert_eq!(leader.advance(News::Sent), Step::AwaitSignal(0));
        assert_eq!(leader.advance(News::Nothing), Step::AwaitSignal(0));
        let mut other = Passage::new(ticket, 1, Intent::Sync, Rank(1), 1, false);
        assert_eq!(other.advance(News::Nothing), Step::AwaitOpening);
    }
}
