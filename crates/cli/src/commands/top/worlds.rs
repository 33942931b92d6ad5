//! What runs now, as values.

use kumiki_run::watch::{self, Activity, Glance, Held, Origin, Phase, Status, Traffic, Whereabouts};
use std::collections::BTreeMap;

/// The most ranks that one is said to wait for.
const MOST_AWAITED: usize = 64;

/// Everything.
#[derive(Debug, Default)]
pub(super) struct Now {
    pub(super) worlds: Vec<World>,
    /// What could not be read, and why.
    pub(super) strange: Vec<String>,
}

/// A world, as far as this machine has it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) job: u64,
    pub(super) origin: Origin,
    pub(super) ranks: u32,
    pub(super) nodes: u32,
    /// How many of its nodes are here.
    pub(super) nodes_here: usize,
    pub(super) phase: Phase,
    pub(super) budget_bytes: Option<u64>,
    pub(super) members: Vec<Member>,
    /// Ranks of nodes that are here which have not come.
    pub(super) missing: u32,
    /// And those that are not looked at, because they are too many.
    pub(super) unseen: u32,
    /// What is known of ranks that somebody waits for.
    pub(super) awaited: BTreeMap<u32, Whereabouts>,
}

/// A rank.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) rank: u32,
    pub(super) node: u32,
    pub(super) block: Option<(u32, u32)>,
    pub(super) pid: u32,
    /// What it runs; `None` if its process is gone, or not to be seen, as that of another PID namespace.
    pub(super) program: Option<String>,
    pub(super) status: Status,
    pub(super) booked_bytes: u64,
    pub(super) traffic: Traffic,
    pub(super) operations: u32,
    pub(super) wait: Option<Wait>,
}

/// What a rank waits for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) what: Activity,
    /// For whom, as far as that is known.
    pub(super) whom: Vec<u32>,
    /// For how many more.
    pub(super) more: usize,
    pub(super) for_ms: u64,
}

/// Looks at everything.
pub(super) fn now() -> Now {
    let mut now = Now::default();
    let mut jobs: BTreeMap<u64, Vec<(Held, Glance)>> = BTreeMap::new();
    for held in watch::held(watch::NAME) {
        match Glance::at(&held) {
            Ok(glance) => jobs.entry(glance.job).or_default().push((held, glance)),
            Err(why) => now.strange.push(format!("{}: {why}", processes(&held.holders))),
        }
    }
    now.strange.sort();
    now.strange.dedup();
    let now_ms = watch::now_ms();
    now.worlds = jobs.into_values().filter_map(|nodes| world(&nodes, now_ms)).collect();
    now
}

fn processes(pids: &[u32]) -> String {
    let names: Vec<String> = pids.iter().take(4).map(u32::to_string).collect();
    let more = if pids.len() > 4 { ", …" } else { "" };
    format!("process{} {}{more}", if pids.len() > 1 { "es" } else { "" }, names.join(", "))
}

/// The nodes of a job that are here.
fn world(nodes: &[(Held, Glance)], now_ms: u64) -> Option<World> {
    let (_, first) = nodes.first()?;
    let came: BTreeMap<u32, u32> = nodes
        .iter()
        .flat_map(|(_, glance)| &glance.members)
        .filter(|member| member.status == Status::Alive)
        .map(|member| (member.rank, member.barriers))
        .collect();
    let mut members: Vec<Member> = nodes
        .iter()
        .flat_map(|(held, glance)| glance.members.iter().map(move |member| (held, glance.node, member)))
        .map(|(held, node, member)| self::member(held, node, member, &came, now_ms))
        .collect();
    members.sort_by_key(|member| member.rank);
    members.dedup_by_key(|member| member.rank);
    let locals = || nodes.iter().map(|(_, glance)| glance.local_ranks);
    let seen = locals().map(|ranks| ranks.min(watch::MOST_MEMBERS_SEEN)).fold(0, u32::saturating_add);
    let origin = nodes.iter().flat_map(|(_, glance)| &glance.members).map(|member| member.origin);
    let known = members.iter().map(|member| member.rank);
    let known: std::collections::BTreeSet<u32> = known.collect();
    let awaited = nodes.iter().flat_map(|(_, glance)| glance.awaited.clone());
    Some(World {
        job: first.job,
        origin: origin.max_by_key(|origin| *origin != Origin::Unknown).unwrap_or_default(),
        ranks: first.ranks,
        nodes: first.nodes,
        nodes_here: nodes.len(),
        phase: first.phase,
        budget_bytes: first.budget_bytes,
        missing: seen.saturating_sub(members.len() as u32),
        unseen: locals().fold(0, u32::saturating_add).saturating_sub(seen),
        awaited: awaited.filter(|(rank, _)| !known.contains(rank)).collect(),
        members,
    })
}

fn member(held: &Held, node: u32, member: &watch::Member, came: &BTreeMap<u32, u32>, now_ms: u64) -> Member {
    let block = match member.origin {
        Origin::Block { block, rank } => Some((block, rank)),
        _ => None,
    };
    // The number of a process that is gone may be that of another one.
    let is_there = held.holders.contains(&member.pid);
    Member {
        rank: member.rank,
        node,
        block,
        pid: member.pid,
        program: is_there.then(|| watch::program(member.pid)).flatten(),
        status: member.status,
        booked_bytes: member.booked_bytes,
        traffic: member.traffic,
        operations: member.operations,
        wait: wait_of(member, came, now_ms),
    }
}

fn wait_of(member: &watch::Member, came: &BTreeMap<u32, u32>, now_ms: u64) -> Option<Wait> {
    if member.activity == Activity::Computing || member.status != Status::Alive {
        return None;
    }
    let whom: Vec<u32> = match member.activity {
        // Those who have not come to it.
        Activity::Barrier | Activity::Finalize | Activity::Reset => {
            let is_behind = |barriers: u32| member.barriers.wrapping_sub(barriers) as i32 > 0;
            let behind =
                came.iter().filter(|(rank, barriers)| **rank != member.rank && is_behind(**barriers));
            behind.map(|(rank, _)| *rank).collect()
        }
        _ => member.waits_for.into_iter().collect(),
    };
    let more = whom.len().saturating_sub(MOST_AWAITED);
    let whom = whom.into_iter().take(MOST_AWAITED).collect();
    Some(Wait { what: member.activity, whom, more, for_ms: now_ms.saturating_sub(member.since_ms) })
}

impl World {
    /// How a rank is called: by block and rank where programs have joined.
    pub(super) fn name(&self, rank: u32) -> String {
        let found = self.members.binary_search_by_key(&rank, |member| member.rank).ok();
        match found.and_then(|at| self.members[at].block) {
            Some((block, rank)) => format!("{block}.{rank}"),
            None if matches!(self.origin, Origin::Block { .. }) => format!("rank {rank} of all"),
            None => rank.to_string(),
        }
    }

    /// What kind of world it is, in a word.
    pub(super) fn kind(&self) -> &'static str {
        match self.origin {
            Origin::Unknown => "world",
            Origin::Alone => "alone",
            Origin::Run => "run",
            Origin::Part => "parts",
            Origin::Launcher => "launcher",
            Origin::Block { .. } => "join",
        }
    }

    /// Which ranks of each block are here.
    pub(super) fn blocks(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut blocks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (block, rank) in self.members.iter().filter_map(|member| member.block) {
            blocks.entry(block).or_default().push(rank);
        }
        blocks
    }
}

/// What is waited for, in a word.
pub(super) fn what(activity: Activity) -> &'static str {
    match activity {
        Activity::Computing => "nothing",
        Activity::Init => "init",
        Activity::Barrier => "barrier",
        Activity::Complete => "operation",
        Activity::Finalize => "finalize",
        Activity::Reset => "reset",
        Activity::Unregister => "unregister",
        Activity::Word => "word",
        Activity::Receive => "message",
        Activity::Send => "receiver",
        Activity::Collective => "collective",
        Activity::Channel => "channel",
        Activity::Halo => "halo",
        Activity::Team => "team barrier",
        Activity::Leave => "leave",
    }
}

/// How a rank stands, in a word.
pub(super) fn standing(status: Status) -> &'static str {
    match status {
        Status::Expected => "expected",
        Status::Alive => "alive",
        Status::Left => "left",
        Status::Lost => "lost",
    }
}

pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Gathering => "gathering",
        Phase::Ready => "ready",
        Phase::Aborting => "aborting",
    }
}
