//! What runs now as text: a table for each world, and who waits for whom.

use super::waits::{self, Chain};
use super::worlds::{Member, Now, Wait, World};
use crate::chart::bytes_text;
use kumiki_run::watch::{Activity, Origin, Phase, Status};

/// The most chains of a world that are shown.
const MOST_CHAINS: usize = 8;
/// The most ranks that are named in one place.
const MOST_NAMES: usize = 6;
/// The longest name of a program that is shown whole.
const PROGRAM_LETTERS: usize = 18;

/// How lines begin that name a circle.
pub(super) const CIRCLE: &str = "  CIRCLE";
/// What that means: of a rank one wait is known, and neither its other threads nor a time limit.
const WARNING: &str =
    "each waits for the next: a deadlock, unless another thread of theirs goes on or a wait has a time limit";

/// The lines.
pub(super) fn of(now: &Now) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, world) in now.worlds.iter().enumerate() {
        if index > 0 {
            lines.push(String::new());
        }
        lines.push(title(world));
        if !world.members.is_empty() {
            lines.extend(table(world));
            lines.extend(summary(world));
        }
    }
    if now.worlds.is_empty() {
        lines.push("No world of this user runs on this machine.".into());
    }
    lines.extend(now.strange.iter().map(|strange| format!("Not shown: {strange}")));
    lines
}

fn title(world: &World) -> String {
    let blocks = world.blocks();
    let shown: Vec<String> = blocks.keys().take(MOST_NAMES).map(u32::to_string).collect();
    let blocks = match (blocks.len(), blocks.len().saturating_sub(MOST_NAMES)) {
        (0, _) => String::new(),
        (1, _) => format!(" of block {}", shown.join(", ")),
        (_, 0) => format!(" of blocks {}", shown.join(", ")),
        (_, more) => format!(" of blocks {} and {more} more", shown.join(", ")),
    };
    let here = match world.members.len() {
        0 if world.nodes_here as u32 == world.nodes => ", none has come yet".into(),
        0 => ", none of this machine has come yet".into(),
        here if here as u32 == world.ranks => blocks,
        here if blocks.is_empty() => format!(", {here} of them here"),
        here => format!(", {here} of them here,{blocks}"),
    };
    let nodes = match world.nodes {
        1 => String::new(),
        nodes => format!(" on {nodes} nodes ({} here)", world.nodes_here),
    };
    let phase = match world.phase {
        Phase::Gathering => "; it begins",
        Phase::Ready => "",
        Phase::Aborting => "; it is being ended",
    };
    let missing = match world.missing {
        count if count == 0 || world.members.is_empty() => String::new(),
        1 => "; 1 of this machine has not come".into(),
        count => format!("; {count} of this machine have not come"),
    };
    let unseen = match world.unseen {
        0 => String::new(),
        count => format!("; {count} of this machine are not shown: they are too many"),
    };
    let kind = match world.origin {
        Origin::Unknown => "World",
        Origin::Alone => "Process by itself",
        Origin::Run => "kumiki run",
        Origin::Part => "Job in parts (macprun)",
        Origin::Launcher => "Job of another launcher",
        Origin::Block { .. } => "Joined programs",
    };
    let ranks = if world.ranks == 1 { "rank" } else { "ranks" };
    format!("{kind} {:08x}: {} {ranks}{here}{nodes}{phase}{missing}{unseen}", world.job >> 32, world.ranks)
}

fn table(world: &World) -> Vec<String> {
    let heads =
        ["RANK", "PID", "PROGRAM", "WAITS FOR", "MEMORY", "SENT", "RECEIVED", "KEPT", "RECV", "SEND", "OPS"];
    let mut rows: Vec<[String; 11]> = vec![heads.map(String::from)];
    rows.extend(world.members.iter().map(|member| row(world, member)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 11] = std::array::from_fn(width);
    let line = |row: &[String; 11]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            2 | 3 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

fn row(world: &World, member: &Member) -> [String; 11] {
    let program = match (&member.program, member.status) {
        (_, Status::Left) => "(has left)".into(),
        (_, Status::Lost) => "(is lost)".into(),
        (Some(name), _) => short(name),
        // Its number is one of another PID namespace, in a container for instance.
        (None, Status::Alive) => "(elsewhere)".into(),
        (None, _) => "(gone)".into(),
    };
    let booked = bytes_text(member.booked_bytes as f64);
    let memory = match world.budget_bytes {
        Some(budget) => format!("{booked} of {}", bytes_text(budget as f64)),
        None => booked,
    };
    let traffic = member.traffic;
    [
        world.name(member.rank),
        member.pid.to_string(),
        program,
        member.wait.as_ref().map_or("-".into(), |wait| waits_for(world, wait)),
        memory,
        bytes_text(traffic.sent_bytes as f64),
        bytes_text(traffic.received_bytes as f64),
        traffic.unexpected.to_string(),
        traffic.receives.to_string(),
        traffic.sends.to_string(),
        member.operations.to_string(),
    ]
}

/// What somebody wrote who is not to be trusted with a terminal.
fn short(name: &str) -> String {
    let clean = name.chars().map(|letter| if letter.is_control() { '?' } else { letter });
    let clean: Vec<char> = clean.collect();
    match clean.len() <= PROGRAM_LETTERS {
        true => clean.into_iter().collect(),
        false => clean[..PROGRAM_LETTERS - 1].iter().chain(&['…']).collect(),
    }
}

fn waits_for(world: &World, wait: &Wait) -> String {
    let whom = names(world, &wait.whom, wait.more);
    let text = match (wait.what, whom.as_str()) {
        (Activity::Init, _) => "the others, in init".into(),
        (Activity::Barrier, "") => "others elsewhere, in a barrier".into(),
        (Activity::Barrier, whom) => format!("{whom}, in a barrier"),
        (Activity::Finalize, "") => "others, to finalize".into(),
        (Activity::Finalize, whom) => format!("{whom}, to finalize"),
        (Activity::Reset, _) => "the others, in reset".into(),
        (Activity::Complete, "") => "an operation".into(),
        (Activity::Complete, whom) => format!("an operation at {whom}"),
        (Activity::Unregister, whom) => format!("{whom} to let go of a region"),
        (Activity::Word, "") => "a word of its memory".into(),
        (Activity::Word, whom) => format!("{whom} to write a word"),
        (Activity::Receive, "") => "a message of anybody".into(),
        (Activity::Receive, whom) => format!("a message of {whom}"),
        (Activity::Send, whom) => format!("{whom} to receive a message"),
        (Activity::Collective, "") => "others, in a collective".into(),
        (Activity::Collective, whom) => format!("{whom}, in a collective"),
        (Activity::Channel, whom) => format!("{whom}, at a channel"),
        (Activity::Halo, whom) => format!("cells of {whom}"),
        (Activity::Leave, whom) => format!("{whom}, to leave"),
        (Activity::Team, _) => "its team, in a barrier".into(),
        (Activity::Computing, _) => "nothing".into(),
    };
    format!("{text}, {}", age(wait.for_ms))
}

fn names(world: &World, ranks: &[u32], more: usize) -> String {
    let shown: Vec<String> = ranks.iter().take(MOST_NAMES).map(|rank| world.name(*rank)).collect();
    match ranks.len().saturating_sub(MOST_NAMES) + more {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}

/// Time as people say it.
fn age(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds @ 1..=599 => format!("{seconds} s"),
        seconds @ 600..=35_999 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn summary(world: &World) -> Vec<String> {
    let circles = waits::circles_of(world);
    let mut lines: Vec<String> = circles
        .iter()
        .map(|circle| {
            let mut path: Vec<String> = circle.iter().map(|rank| world.name(*rank)).collect();
            path.extend(path.first().cloned());
            format!("{CIRCLE}: {}: {WARNING}", path.join(" → "))
        })
        .collect();
    let chains = waits::chains(&waits::edges(world, 0));
    let is_long = |chain: &&Chain| chain.then.len() > 1 || chain.ranks.len() > 1;
    let long: Vec<&Chain> = chains.iter().filter(is_long).collect();
    lines.extend(long.iter().take(MOST_CHAINS).map(|chain| chain_text(world, chain)));
    if long.len() > MOST_CHAINS {
        lines.push(format!("  and {} chains more", long.len() - MOST_CHAINS));
    }
    lines
}

fn chain_text(world: &World, chain: &Chain) -> String {
    let path: Vec<String> = chain.then.iter().map(|rank| world.name(*rank)).collect();
    let last = chain.then.last().and_then(|last| world.members.iter().find(|one| one.rank == *last));
    let elsewhere = chain.then.last().and_then(|last| world.awaited.get(last));
    let end = match (last, elsewhere) {
        (Some(Member { status: Status::Left, .. }), _) => ", which has left",
        (Some(Member { status: Status::Lost, .. }), _) => ", which is lost",
        (Some(Member { wait: None, .. }), _) => ", which does not wait",
        (Some(Member { wait: Some(wait), .. }), _) if wait.whom.is_empty() => {
            ", which waits for nobody in particular"
        }
        (Some(_), _) => "",
        (None, Some(place)) => {
            let at = place.address.map_or(String::new(), |address| format!(" ({})", address.ip()));
            return format!(
                "  {} → {}, on node {}{at}",
                names(world, &chain.ranks, 0),
                path.join(" → "),
                place.node
            );
        }
        (None, None) => ", elsewhere",
    };
    format!("  {} → {}{end}", names(world, &chain.ranks, 0), path.join(" → "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiki_run::watch::Traffic;

    fn world(ranks: u32, members: Vec<Member>) -> World {
        World {
            job: 0x5f0c_9a31 << 32,
            origin: Origin::Block { block: 0, rank: 0 },
            ranks,
            nodes: 1,
            nodes_here: 1,
            phase: Phase::Ready,
            budget_bytes: None,
            missing: ranks - members.len() as u32,
            unseen: 0,
            members,
            awaited: Default::default(),
        }
    }

    fn member(rank: u32) -> Member {
        Member {
            rank,
            node: 0,
            block: Some((rank, 0)),
            pid: 7,
            program: None,
            status: Status::Alive,
            booked_bytes: 0,
            traffic: Traffic::default(),
            operations: 0,
            wait: None,
        }
    }

    #[test]
    fn what_is_not_shown_is_said() {
        let none = Now { worlds: vec![world(3, Vec::new())], strange: Vec::new() };
        assert_eq!(of(&none), ["Joined programs 5f0c9a31: 3 ranks, none has come yet"]);
        let all = world(8, (0..8).map(member).collect());
        assert!(title(&all).ends_with(": 8 ranks of blocks 0, 1, 2, 3, 4, 5 and 2 more"), "{}", title(&all));
        let some = title(&World { unseen: 5, ..world(9, vec![member(3)]) });
        let end = "9 ranks, 1 of them here, of block 3; 8 of this machine have not come; 5 of this machine are not shown: they are too many";
        assert!(some.ends_with(end), "{some}");
        // It lives, by a number of a process that is not to be seen from here.
        assert_eq!(row(&all, &all.members[0])[2], "(elsewhere)");
        let gone = Member { status: Status::Expected, ..member(0) };
        assert_eq!(row(&all, &gone)[2], "(gone)");
    }
}
