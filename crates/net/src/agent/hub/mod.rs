//! What holds the nodes of a job together: a value fed with messages and times, drained for effects.
//!
//! It knows who is where, who has joined, left or died, and when the job must end. It does no I/O: the launcher
//! and, under a foreign launcher, the process of rank 0 carry its messages. So it is tested without processes.
//!
//! A *round* is one life of the world, from the first rank that joins to the last that leaves. A program may
//! initialise and finalize many times; each round has a new arena.

mod closing;
#[cfg(test)]
mod crossings;
mod deserter;
mod fence;
mod reset;
mod roll;
#[cfg(test)]
mod scale;
#[cfg(test)]
pub(super) mod tests;

use super::talk::protocol::{Ending, Launch, Leaves, Table, ToHub, ToNode};
use crate::shm::world::Cause;
use crate::terms::Terms;
use crate::Rank;
use closing::{Closing, Survey};
use deserter::Deserter;
use fence::Fence;
use roll::{Roll, Standing};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// How long the processes of a job have to end before they are killed.
pub const GRACE_MS: u32 = 2_000;
/// How long a rank whose connection broke is only suspected: its own agent may be about to tell how it ended.
const SUSPECT_MS: u64 = 200;
/// How long the agent of such a rank may take to say that it knows of nothing. The promise is 1 s in all.
const PROBE_MS: u64 = 700;
/// How long an agent may take to get ready.
const PREPARE_MS: u64 = 60_000;
/// Who has left is told to all nodes: at most so many of them in a millisecond. Few nodes learn it at once, of many ranks at a
/// time otherwise.
const LEAVES_PER_MS: u64 = 64;

/// What the hub is told at the start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Ranks of the world.
    pub ranks: u32,
    /// For each node, its name for people and its ranks; none if ranks come by themselves.
    pub nodes: Vec<(String, Vec<u32>)>,
    /// What all hold to.
    pub terms: Terms,
    /// What agents are told that were not started by a launcher; the hub fills in who is where.
    pub template: Option<Box<Launch>>,
}

/// What the owner of the hub must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send a message to the agent of a node.
    Send(u32, ToNode),
    /// Send a message to the agents of all nodes that [`Hub::listens`] says yes to, but not to this one. It is there once for all
    /// of them: with a million ranks it may be large.
    SendAll(Option<u32>, ToNode),
    /// Show this to the user.
    Report(String),
    /// The job is over, with this exit code.
    Finished(i32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NodeState {
    Preparing,
    Running,
    Done,
    Gone,
}

impl NodeState {
    fn is_over(self) -> bool {
        matches!(self, NodeState::Done | NodeState::Gone)
    }
}

#[derive(Debug)]
struct NodeEntry {
    name: String,
    /// The rank whose process the agent is in, if it has none of its own.
    host: Option<u32>,
    /// The rank of each local index.
    seats: Vec<u32>,
    state: NodeState,
    address: Option<SocketAddr>,
    heard_ms: u64,
    reset_prepared: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum World {
    /// Agents are getting ready.
    Preparing,
    /// Agents have an arena, ranks join.
    Gathering,
    /// Everybody is in.
    Ready,
    /// Everybody has left; the next to join begins a round.
    Over,
    /// Nobody can join any more.
    Broken,
}

/// A rank that somebody cannot reach.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    rank: u32,
    cause: Cause,
    /// When it counts as lost, if its agent knows of nothing else.
    known_at_ms: u64,
    /// When it counts as lost, even if its agent does not answer.
    lost_at_ms: u64,
}

/// The state of a job.
#[derive(Debug)]
pub struct Hub {
    plan: Plan,
    nodes: Vec<NodeEntry>,
    /// How many nodes have ended or are given up, and how many are ready.
    over: u32,
    running: u32,
    members: Roll,
    /// Who has left, and after how many barriers: what the nodes have not been told yet.
    leaves: Vec<(u32, u32)>,
    leaves_told_ms: u64,
    world: World,
    /// Whether the agents have been told to start their ranks.
    started: bool,
    /// Why nobody can join any more.
    refused: Option<String>,
    /// Whether a rank has ever joined: only then is leaving without joining a mistake.
    used: bool,
    exit_code: i32,
    first_lost: Option<u32>,
    closing: Option<Closing>,
    survey: Option<Survey>,
    suspects: Vec<Suspect>,
    deserter: Option<Deserter>,
    /// The nodes have been told new numbers, and not all have said yet that they are ready to go on with them.
    resetting: bool,
    fences: Vec<Fence>,
    beat_ms: u64,
    ticked_ms: u64,
    finished: bool,
    effects: VecDeque<Effect>,
    /// What reports call rank 0.
    first_rank: u32,
}

impl Hub {
    /// A job that is about to start.
    pub fn new(mut plan: Plan, now_ms: u64) -> Hub {
        let nodes = std::mem::take(&mut plan.nodes).into_iter().map(|(name, ranks)| NodeEntry {
            name,
            host: None,
            seats: ranks,
            state: NodeState::Preparing,
            address: None,
            heard_ms: now_ms,
            reset_prepared: false,
        });
        let mut hub = Hub {
            nodes: nodes.collect(),
            over: 0,
            running: 0,
            members: Roll::new(plan.ranks),
            leaves: Vec::new(),
            leaves_told_ms: now_ms,
            plan,
            world: World::Preparing,
            started: false,
            refused: None,
            used: false,
            exit_code: 0,
            first_lost: None,
            closing: None,
            survey: None,
            suspects: Vec::new(),
            deserter: None,
            resetting: false,
            fences: Vec::new(),
            beat_ms: now_ms,
            ticked_ms: now_ms,
            finished: false,
            effects: VecDeque::new(),
            first_rank: 0,
        };
        for node in 0..hub.nodes.len() as u32 {
            (0..hub.nodes[node as usize].seats.len() as u32).for_each(|local| hub.place_seat(node, local));
        }
        hub
    }

    /// In reports ranks count from this number: the job is one part of a larger one, in whose world rank 0 is called so.
    pub fn count_from(&mut self, first_rank: u32) {
        self.first_rank = first_rank;
    }

    /// The next thing to do.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Adds a node that has introduced itself; for agents that were not started by us, but are in the process of this rank.
    /// Returns its index.
    pub fn add_node(&mut self, name: String, host: u32, now_ms: u64) -> u32 {
        self.nodes.push(NodeEntry {
            name,
            host: Some(host),
            seats: Vec::new(),
            state: NodeState::Preparing,
            address: None,
            heard_ms: now_ms,
            reset_prepared: false,
        });
        self.nodes.len() as u32 - 1
    }

    /// Whether every rank has a place.
    pub fn is_complete(&self) -> bool {
        self.members.is_complete()
    }

    /// Whether messages to the agent of a node still make sense.
    pub fn listens(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|entry| !entry.state.is_over())
    }

    /// Where the port of a node is, once it has one.
    pub fn address(&self, node: u32) -> Option<SocketAddr> {
        self.nodes.get(node as usize).and_then(|entry| entry.address)
    }

    /// The ranks that have no place, while others that came wait for them.
    pub fn missing(&self) -> Vec<u32> {
        let missing: Vec<u32> = (0..self.plan.ranks).filter(|&rank| !self.members.is_placed(rank)).collect();
        if missing.len() < self.members.len() as usize {
            missing
        } else {
            Vec::new()
        }
    }

    /// Whether the job is ending because something failed: the exit code, and the rank that was lost first, if any.
    pub fn failure(&self) -> Option<(i32, Option<u32>)> {
        self.closing.as_ref().map(|_| (self.exit_code, self.first_lost))
    }

    /// The rank that sits at a place, as people should read it.
    pub fn rank_at(&self, node: u32, local: u32) -> Option<Rank> {
        self.nodes.get(node as usize)?.seats.get(local as usize).map(|&rank| Rank(rank))
    }

    /// A message from an agent.
    pub fn receive(&mut self, node: u32, message: ToHub, now_ms: u64) {
        let Some(entry) = self.nodes.get_mut(node as usize) else { return };
        if entry.state == NodeState::Gone {
            return;
        }
        entry.heard_ms = now_ms;
        match message {
            ToHub::Arrived { rank, ranks } => self.arrived(node, rank, ranks, now_ms),
            ToHub::Prepared { address } => self.prepared(node, address),
            ToHub::Failed { code, message } => self.node_failed(node, code, message, now_ms),
            ToHub::Attached { local } => self.with_seat(node, local, |hub, rank| hub.attached(rank, now_ms)),
            ToHub::Left { local, barriers } => {
                self.with_seat(node, local, |hub, rank| hub.left(rank, barriers))
            }
            ToHub::Unfenced { local, why } => {
                self.with_seat(node, local, |hub, rank| hub.unfenced(rank, &why, now_ms))
            }
            ToHub::Lost { local, cause } => self.with_seat(node, local, |hub, rank| {
                let cause = hub.given_up(rank).unwrap_or(cause);
                let is_out = hub.members[rank].standing == Standing::Out;
                if !(is_out && cause == Cause::STOPPED) {
                    hub.lose_and_fail(rank, cause, Some(node), 1, now_ms);
                } else if hub.used && hub.world == World::Gathering {
                    // Others wait for it. Its agent does not know that, and has to end it.
                    hub.lose_and_fail(rank, cause, None, 1, now_ms);
                }
            }),
            ToHub::Ended { local, ending } => {
                self.with_seat(node, local, |hub, rank| hub.ended(rank, ending, now_ms));
            }
            ToHub::Unreachable { local, rank, cause } => {
                self.with_seat(node, local, |hub, by| hub.unreachable(rank, by, cause, now_ms));
            }
            ToHub::Abort { local, code, message } => self.with_seat(node, local, |hub, rank| {
                let headline = format!("{} aborted the job: {message}", hub.describe(rank));
                hub.end(i32::from(code.max(1)), headline, now_ms);
            }),
            ToHub::Reset { local, new_rank } => {
                self.with_seat(node, local, |hub, rank| hub.reset_wish(rank, new_rank));
            }
            ToHub::ResetPrepared => self.reset_prepared(node),
            ToHub::Waits { waits } => self.surveyed(node, waits),
            ToHub::Probed { rank } => self.probed(rank),
            ToHub::Done => {
                self.set_state(node, NodeState::Done);
                self.check_finished();
            }
            ToHub::Heartbeat | ToHub::Output { .. } | ToHub::InputTaken { .. } => {}
        }
    }

    /// The stream of an agent has ended, or its process has.
    pub fn node_gone(&mut self, node: u32, why: &str, now_ms: u64) {
        let Some(entry) = self.nodes.get_mut(node as usize) else { return };
        if entry.state.is_over() {
            return;
        }
        let was_preparing = entry.state == NodeState::Preparing;
        self.first_lost = self.first_lost.or(entry.host);
        let name = entry.name.clone();
        self.set_state(node, NodeState::Gone);
        let what = if was_preparing { "could not be started" } else { "ended unexpectedly" };
        self.lose_node(node, Cause::AGENT, 1, format!("the agent of {name} {what}: {why}"), now_ms);
    }

    /// An agent cannot do its part: its ranks are lost, those included that it has not started. Those in the world end first.
    fn node_failed(&mut self, node: u32, code: i32, message: String, now_ms: u64) {
        let name = &self.nodes[node as usize].name;
        let text = if self.nodes.len() > 1 { format!("{name}: {message}") } else { message };
        if self.goes_on_after_loss() {
            let reason = text.clone();
            self.send(node, ToNode::Terminate { signal: libc::SIGTERM, grace_ms: GRACE_MS, reason });
            for rank in self.nodes[node as usize].seats.clone() {
                match self.members[rank].standing {
                    Standing::In if self.given_up(rank).is_none() => self.give_up(rank, Cause::AGENT, now_ms),
                    Standing::Out if self.members[rank].ending.is_none() => {
                        self.lose(rank, Cause::AGENT, None)
                    }
                    _ => {}
                }
            }
            self.fail(code, text, now_ms);
        } else {
            self.fail(code, text, now_ms);
        }
    }

    /// Something went wrong outside: the job ends with this code and this report, which shows who waits for whom.
    pub fn end(&mut self, code: i32, headline: String, now_ms: u64) {
        self.plan.terms.continue_on_loss = 0;
        let headline = headline + &self.forget_deserter();
        self.fail(code, headline, now_ms);
    }

    /// The user wants the job to end: the ranks get the signal, and what is left is killed after the grace.
    pub fn interrupt(&mut self, signal: i32, grace_ms: u32, now_ms: u64) {
        if self.exit_code == 0 {
            self.exit_code = 128 + signal;
        }
        let reason = format!("the job was ended by signal {signal}");
        // Who died or was missed is still worth a report, though nobody waits for the rest of it now.
        self.flush_closing();
        let missed = self.forget_deserter();
        if !missed.is_empty() {
            self.effects.push_back(Effect::Report(format!("{reason}{missed}")));
        }
        self.closing = Some(Closing::announced(now_ms, grace_ms));
        let signal = if grace_ms == 0 { libc::SIGKILL } else { signal };
        self.broadcast(ToNode::Terminate { signal, grace_ms, reason });
        self.check_finished();
    }

    /// Sends something to every agent.
    pub fn broadcast(&mut self, message: ToNode) {
        self.broadcast_except(None, message);
    }

    /// When [`tick`](Self::tick) wants to be called next.
    pub fn wake_up_at(&self) -> u64 {
        let beat = self.beat_ms + self.beat_interval_ms();
        let closing = self.closing.as_ref().and_then(Closing::deadline_ms);
        let survey = self.survey.as_ref().map(Survey::deadline_ms);
        let suspect = self.suspects.iter().map(|suspect| suspect.lost_at_ms).min();
        let leaves = self.has_leaves_to_tell().then_some(self.leaves_told_ms + self.leaves_pause_ms());
        let deserter = self.deserter.as_ref().and_then(|deserter| deserter.until_ms);
        let fence = self.fence_limit_ms();
        [closing, survey, suspect, leaves, deserter, fence].into_iter().flatten().fold(beat, u64::min)
    }

    /// Lets time pass. All messages that have arrived must have been handed in before.
    pub fn tick(&mut self, now_ms: u64) {
        let slept_ms = now_ms.saturating_sub(self.ticked_ms);
        self.ticked_ms = now_ms;
        if slept_ms > self.timeout_ms() / 2 {
            // We were not looking: the machine was suspended, or we were stopped.
            self.excuse_silence(now_ms);
        }
        if now_ms >= self.beat_ms + self.beat_interval_ms() {
            self.beat_ms = now_ms;
            self.broadcast(ToNode::Heartbeat);
            self.check_silence(now_ms);
        }
        if now_ms >= self.leaves_told_ms + self.leaves_pause_ms() {
            self.leaves_told_ms = now_ms;
            self.tell_leaves();
        }
        self.judge_suspects(now_ms);
        self.check_deserter(now_ms);
        self.check_fences(now_ms);
        self.tick_closing(now_ms);
        self.tick_survey(now_ms);
    }

    /// Nobody was listened to for a while: silence until now is nobody's fault.
    pub fn excuse_silence(&mut self, now_ms: u64) {
        self.ticked_ms = now_ms;
        self.nodes.iter_mut().for_each(|node| node.heard_ms = now_ms);
        self.excuse_fences(now_ms);
    }

    fn check_silence(&mut self, now_ms: u64) {
        let timeout_ms = self.timeout_ms();
        for node in 0..self.nodes.len() as u32 {
            let entry = &mut self.nodes[node as usize];
            let limit_ms = match entry.state {
                NodeState::Preparing => PREPARE_MS.max(timeout_ms),
                NodeState::Running => timeout_ms,
                NodeState::Done | NodeState::Gone => continue,
            };
            let silent_ms = now_ms.saturating_sub(entry.heard_ms);
            if silent_ms >= limit_ms {
                let text = format!("{} has not answered for {} s", entry.name, silent_ms / 1000);
                // If it was only slow it must not go on without the others.
                let reason = text.clone();
                self.send(node, ToNode::Terminate { signal: libc::SIGKILL, grace_ms: 0, reason });
                self.set_state(node, NodeState::Gone);
                self.lose_node(node, Cause::UNREACHABLE, 1, text, now_ms);
            }
        }
    }

    fn beat_interval_ms(&self) -> u64 {
        (self.timeout_ms() / 5).max(10)
    }

    fn prepared(&mut self, node: u32, address: SocketAddr) {
        let entry = &mut self.nodes[node as usize];
        if entry.state != NodeState::Preparing {
            return;
        }
        entry.address = Some(address);
        self.set_state(node, NodeState::Running);
        let all = self.running as usize == self.nodes.len();
        if all && self.is_complete() && self.closing.is_none() {
            self.started = true;
            self.broadcast(ToNode::Start);
            self.begin_round();
        }
    }

    /// A rank that nobody planned. Once all are there, the agents learn who is where.
    fn arrived(&mut self, node: u32, rank: u32, ranks: u32, now_ms: u64) {
        let name = &self.nodes[node as usize].name;
        let wrong = match self.members.get(rank) {
            _ if ranks != self.plan.ranks => {
                Some(format!("{name}: rank {rank} counts {ranks} ranks, rank 0 counts {}", self.plan.ranks))
            }
            None => Some(format!("{name}: rank {rank} is not below {ranks}")),
            Some(_) if self.members.is_placed(rank) => {
                Some(format!("{name}: there are two processes with rank {rank}"))
            }
            Some(_) => None,
        };
        if let Some(why) = wrong {
            return self.fail(1, why, now_ms);
        }
        self.nodes[node as usize].seats.push(rank);
        self.place_seat(node, self.nodes[node as usize].seats.len() as u32 - 1);
        if !self.is_complete() {
            return;
        }
        if let Some(template) = self.plan.template.take() {
            for index in 0..self.nodes.len() as u32 {
                let here = self.nodes[index as usize].seats.clone();
                self.send(
                    index,
                    ToNode::Launch(Box::new(Launch {
                        node: index,
                        nodes: self.nodes.len() as u32,
                        ranks: self.plan.ranks,
                        machine_ranks: here.len() as u32,
                        here,
                        ..(*template).clone()
                    })),
                );
            }
        }
    }

    fn place_seat(&mut self, node: u32, local: u32) {
        let rank = self.nodes[node as usize].seats[local as usize];
        if rank < self.members.len() {
            self.members.set_place(rank, (node, local));
        }
    }

    fn set_state(&mut self, node: u32, state: NodeState) {
        let before = std::mem::replace(&mut self.nodes[node as usize].state, state);
        self.over = self.over + state.is_over() as u32 - before.is_over() as u32;
        let runs = |state: NodeState| (state == NodeState::Running) as u32;
        self.running = self.running + runs(state) - runs(before);
    }

    fn begin_round(&mut self) {
        if self.deserter.is_some() {
            // It broke the round before, and that counts also if all have left since.
            return self.judge_deserter(None, None, self.ticked_ms);
        }
        self.members.begin_round();
        self.world = World::Gathering;
        let table = self.table();
        self.broadcast(ToNode::Begin(table));
        self.check_ready();
    }

    fn table(&self) -> Table {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Table {
            places: self.members.walk().map(|member| member.place).collect(),
            addresses: self.nodes.iter().map(|entry| entry.address.unwrap_or(nowhere)).collect(),
        }
    }

    fn attached(&mut self, rank: u32, now_ms: u64) {
        self.used = true;
        if self.refused.is_some() {
            // It asked before it could know.
            let why = self.refused.clone().unwrap_or_default();
            return self.send(self.members[rank].place.0, ToNode::Refuse { why });
        }
        match (self.members[rank].standing, self.world) {
            (Standing::Out, World::Gathering) => self.members.set_standing(rank, Standing::In),
            _ => self.members.set_again(rank),
        }
        if self.world == World::Over {
            self.begin_round();
        }
        if let Some(early) = self.members.first_early() {
            self.ended_early(early, now_ms);
        }
        self.check_ready();
    }

    fn check_ready(&mut self) {
        if self.world == World::Gathering && self.members.are_all(Standing::In) {
            self.world = World::Ready;
            self.broadcast(ToNode::Ready);
        }
    }

    fn left(&mut self, rank: u32, barriers: u32) {
        if self.members[rank].standing != Standing::In {
            return;
        }
        self.members.set_standing(rank, Standing::Left);
        self.suspects.retain(|suspect| suspect.rank != rank);
        self.forget_fence(rank);
        self.leaves.push((rank, barriers));
        if self.members.are_all(Standing::Left) {
            self.world = World::Over;
            if self.members.is_awaited() {
                self.begin_round();
            }
        }
    }

    /// Whether nodes are to be told who has left: not before they know of one that left others alone, because whoever left
    /// after it would be blamed for that.
    fn has_leaves_to_tell(&self) -> bool {
        !self.leaves.is_empty() && self.deserter.is_none()
    }

    /// Tells the nodes who has left.
    fn tell_leaves(&mut self) {
        if self.has_leaves_to_tell() {
            let leaves = Leaves::new(std::mem::take(&mut self.leaves));
            self.effects.push_back(Effect::SendAll(None, ToNode::Leave(leaves)));
        }
    }

    /// How long to wait before nodes are told again who has left.
    fn leaves_pause_ms(&self) -> u64 {
        self.nodes.len() as u64 / LEAVES_PER_MS
    }

    fn ended(&mut self, rank: u32, ending: Ending, now_ms: u64) {
        self.members.set_ending(rank, ending);
        let member = &self.members[rank];
        let standing = if member.again { Standing::In } else { member.standing };
        let code = ending.code();
        match standing {
            Standing::Lost => {}
            Standing::In if self.is_deserter(rank) => {
                self.judge_deserter(Some(ending), Some(self.members[rank].place.0), now_ms);
            }
            Standing::In if self.given_up(rank).is_some() => {
                let cause = self.given_up(rank).unwrap_or(ending.cause());
                self.lose_and_fail(rank, cause, Some(self.members[rank].place.0), 1, now_ms);
            }
            Standing::In => {
                self.lose(rank, ending.cause(), Some(self.members[rank].place.0));
                let text = format!("{} {}", self.describe(rank), how_it_ended(ending, true));
                self.fail(code.max(1), text, now_ms);
            }
            Standing::Left | Standing::Out if code != 0 => {
                let text = format!("{} {}", self.describe(rank), how_it_ended(ending, false));
                if standing == Standing::Left && matches!(ending, Ending::Code(_)) {
                    // It has finished its part in an orderly way; the others may still be at it.
                    self.note_failure(code, text);
                } else {
                    let knows = (standing == Standing::Left).then_some(self.members[rank].place.0);
                    self.lose(rank, ending.cause(), knows);
                    self.fail(code, text, now_ms);
                }
            }
            Standing::Left => {}
            Standing::Out if self.used && self.world != World::Broken => self.ended_early(rank, now_ms),
            Standing::Out => {}
        }
        self.check_finished();
    }

    /// A process ended before it joined, and others wait for it.
    fn ended_early(&mut self, rank: u32, now_ms: u64) {
        self.lose(rank, Cause::EXITED, None);
        let text = format!("{} exited before it joined the world that others wait in", self.describe(rank));
        self.fail(1, text, now_ms);
    }

    /// A broken connection has two ends, and each blames the other: the first to complain is believed.
    fn unreachable(&mut self, rank: Rank, by: u32, cause: Cause, now_ms: u64) {
        let Some(member) = self.members.get(rank.0) else { return };
        if cause == Cause::LEFT {
            return self.desert(rank.0, now_ms);
        }
        let settled = member.suspected || self.members[by].suspected;
        if member.standing == Standing::In && !settled {
            let home = member.place.0;
            self.members.set_suspected(rank.0, true);
            let (known_at_ms, lost_at_ms) = (now_ms + SUSPECT_MS, now_ms + PROBE_MS);
            self.suspects.push(Suspect { rank: rank.0, cause, known_at_ms, lost_at_ms });
            self.send(home, ToNode::Probe { rank });
        }
    }

    /// The agent of a suspect has nothing to tell that it has not told.
    fn probed(&mut self, rank: Rank) {
        let suspect = self.suspects.iter_mut().find(|suspect| suspect.rank == rank.0);
        if let Some(suspect) = suspect {
            suspect.lost_at_ms = suspect.known_at_ms;
        }
    }

    /// Gives up the ranks that nothing better was heard of in time.
    fn judge_suspects(&mut self, now_ms: u64) {
        let (due, later) = self.suspects.iter().partition(|suspect| suspect.lost_at_ms <= now_ms);
        self.suspects = later;
        let due: Vec<Suspect> = due;
        for Suspect { rank, cause, .. } in due {
            self.members.set_suspected(rank, false);
            if self.members[rank].standing == Standing::In {
                self.give_up(rank, cause, now_ms);
            }
        }
    }

    fn lose_and_fail(&mut self, rank: u32, cause: Cause, knows: Option<u32>, code: i32, now_ms: u64) {
        if self.members[rank].standing == Standing::Lost {
            return;
        }
        if self.is_deserter(rank) {
            return self.judge_deserter(None, knows, now_ms);
        }
        self.lose(rank, cause, knows);
        self.fail(code, format!("{} is lost: {cause}", self.describe(rank)), now_ms);
    }

    fn lose_node(&mut self, node: u32, cause: Cause, code: i32, headline: String, now_ms: u64) {
        for rank in self.nodes[node as usize].seats.clone() {
            if self.members[rank].ending.is_some() {
                continue;
            }
            match self.members[rank].standing {
                // It is missed by nobody now, but there is no other world without it.
                Standing::Left => self.refuse(format!("rank {rank} is gone: {cause}")),
                _ => self.lose(rank, cause, None),
            }
        }
        self.fail(code, headline, now_ms);
        self.check_finished();
    }

    /// Marks a rank as lost and tells every node, except the one that knows.
    fn lose(&mut self, rank: u32, cause: Cause, knows: Option<u32>) {
        if self.members[rank].standing == Standing::Lost {
            return;
        }
        self.members.set_standing(rank, Standing::Lost);
        self.forget_fence(rank);
        self.first_lost.get_or_insert(rank);
        self.broadcast_except(knows, ToNode::Loss { rank: Rank(rank), cause });
        self.refuse_reset(&format!("rank {rank} is lost"));
        if self.world != World::Ready {
            self.world = World::Broken;
        }
        // There will be no other world: whoever waits for one is told.
        self.refuse(format!("rank {rank} is gone: {cause}"));
    }

    /// Tells whoever waits for a world to begin, or ever will, that none does. Once: agents remember it.
    fn refuse(&mut self, why: String) {
        self.members.forget_again();
        if self.refused.is_none() {
            self.refused = Some(why.clone());
            self.broadcast(ToNode::Refuse { why });
        }
    }

    /// How long an agent may be silent.
    fn timeout_ms(&self) -> u64 {
        self.plan.terms.peer_timeout_ms.into()
    }

    fn goes_on_after_loss(&self) -> bool {
        self.plan.terms.continues_on_loss() && self.started
    }

    fn check_finished(&mut self) {
        if !self.finished && self.over as usize == self.nodes.len() {
            self.judge_deserter(None, None, self.ticked_ms);
            self.flush_closing();
            self.finished = true;
            self.effects.push_back(Effect::Finished(self.exit_code));
        }
    }

    /// A rank as people should read it.
    fn describe(&self, rank: u32) -> String {
        let node = self.members[rank].place.0;
        let number = self.first_rank.saturating_add(rank);
        match self.nodes.get(node as usize) {
            Some(entry) if self.nodes.len() > 1 => format!("rank {number} on {}", entry.name),
            _ => format!("rank {number}"),
        }
    }

    fn with_seat(&mut self, node: u32, local: u32, then: impl FnOnce(&mut Self, u32)) {
        if let Some(rank) = self.rank_at(node, local).filter(|rank| rank.0 < self.members.len()) {
            then(self, rank.0);
        }
    }

    fn broadcast_except(&mut self, node: Option<u32>, message: ToNode) {
        // Who has left did so before: a world that begins must not take it for news of its own.
        self.tell_leaves();
        self.effects.push_back(Effect::SendAll(node, message));
    }

    fn send(&mut self, node: u32, message: ToNode) {
        if self.listens(node) {
            self.effects.push_back(Effect::Send(node, message));
        }
    }
}

fn how_it_ended(ending: Ending, in_world: bool) -> String {
    match ending {
        Ending::Code(code) if in_world => format!("exited with code {code} without finalizing"),
        Ending::Code(code) => format!("exited with code {code}"),
        Ending::Signal(signal) => format!(
            "was killed by signal {signal} ({})",
            crate::shm::world::signal_name(signal.clamp(0, 255) as u8)
        ),
    }
}
