//! `kumiki bench comm --memory`: what a rank takes that has sent one message to every other, beside MPI libraries.
//!
//! Each number of ranks is a job of real processes. What they took is measured by themselves (`crowd.rs`, and `rma memory` for peers) while
//! all of them are there; here is who is asked, for how long, and what is said about it.

use super::super::{harness, launch, peers};
use super::crowd::{self, FAST_PAIRS, LINE_BYTES};
use crate::bench::catalogue::Place;
use crate::bench::harness::Rival;
use crate::chart::{bytes_text, Bars, Group, Scale, Unit};
use crate::commands::mem::{picture_line, Lines, Spread};
use crate::commands::{print, Outcome};
use crate::progress::bar;
use serde_json::{json, Value};
use std::path::PathBuf;
use std::time::Duration;

/// What private memory and the arena may take, together, for each rank.
const BOUND_BYTES: u64 = 256 << 10;
/// The most ranks with which peers are started: that takes them most of a minute on two cores already, and megabytes each.
const PEER_MOST_RANKS: u32 = 256;
/// How long a job may take from its start to its end.
const LIMIT: Duration = Duration::from_secs(300);
const PEER_LIMIT: Duration = Duration::from_secs(150);
const OURS: &str = "kumiki";
/// The code of a command whose bound is missed.
const MISSED_CODE: i32 = 1;

const COUNTED: &str = "\
Private: Private_Clean + Private_Dirty after the messages less Anonymous before init, of mappings that are not shared (/proc/self/smaps).
Shared: the arena's committed bytes by the number of ranks; of peers the Pss of shared mappings, summed up and divided likewise.
The sum is that of the largest private figure and the share. Page tables are the kernel's, and not in the sum.
";

/// What is asked for.
pub(super) struct Plan {
    pub(super) ranks: Vec<u32>,
    pub(super) peers: String,
    pub(super) json: bool,
    pub(super) png: Option<PathBuf>,
}

/// What the ranks of a job took, in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Taken {
    private: Spread,
    /// The share of each in what is shared.
    shared: u64,
    page_tables: Spread,
    seconds: f64,
}

impl Taken {
    /// From what each rank said.
    fn new(lines: &[Value], ranks: u32, seconds: f64) -> Result<Taken, String> {
        if lines.len() != ranks as usize {
            return Err(format!("only {} of {ranks} ranks have said what they took", lines.len()));
        }
        let all = |name: &str| -> Result<Vec<u64>, String> {
            let figures = lines.iter().map(|line| line[name].as_u64());
            figures.collect::<Option<_>>().ok_or_else(|| format!("a rank did not say its {name} bytes"))
        };
        // What is committed and mapped by nobody is in the first only.
        let committed = lines.iter().filter_map(|line| line["arena"].as_u64()).sum::<u64>();
        let shared = committed.max(all("shared")?.iter().sum());
        Ok(Taken {
            private: Spread::new(all("private")?),
            shared: shared.div_ceil(u64::from(ranks)),
            page_tables: Spread::new(all("page_tables")?),
            seconds,
        })
    }

    /// Private bytes and the share of the rank that has the most of them, and of the one in the middle.
    fn most(&self) -> u64 {
        self.private.max + self.shared
    }

    fn middle(&self) -> u64 {
        self.private.median + self.shared
    }
}

/// A job, and what came of it.
struct Row {
    name: String,
    ranks: u32,
    taken: Result<Taken, String>,
}

impl Row {
    fn is_ours(&self) -> bool {
        self.name == OURS
    }

    /// Whether the bound holds; there is none for others.
    fn holds(&self) -> Option<bool> {
        self.is_ours().then(|| self.taken.as_ref().is_ok_and(|taken| taken.most() <= BOUND_BYTES))
    }

    fn json(&self) -> Value {
        let mut value = json!({"metric": "memory.messages", "contender": self.name, "ranks": self.ranks});
        if self.is_ours() {
            value["fast_pairs"] = json!(FAST_PAIRS);
            value["bound_bytes"] = json!(BOUND_BYTES);
            value["holds"] = json!(self.holds());
        }
        match &self.taken {
            Ok(taken) => {
                value["private_bytes"] = taken.private.json();
                value["shared_bytes_per_rank"] = json!(taken.shared);
                value["bytes_per_rank"] = json!({"median": taken.middle(), "max": taken.most()});
                value["page_table_bytes"] = taken.page_tables.json();
                value["seconds"] = json!(taken.seconds);
            }
            Err(why) => value["error"] = json!(why),
        }
        value
    }

    fn line(&self) -> String {
        let start = format!("{:>6}  {:<12}", self.ranks, self.name);
        let text = |bytes: u64| bytes_text(bytes as f64);
        match &self.taken {
            Err(why) => format!("{start}  {why}\n"),
            Ok(taken) => format!(
                "{start}{:>12}{:>12}{:>12}{:>12}{:>12}{:>14}{:>9.1}\n",
                text(taken.private.median),
                text(taken.private.max),
                text(taken.shared),
                text(taken.middle()),
                text(taken.most()),
                text(taken.page_tables.median),
                taken.seconds
            ),
        }
    }
}

fn heads() -> String {
    format!(
        "One message of 8 bytes from every rank to every other, at most {FAST_PAIRS} fast pairs a rank; bytes a rank\n\n\
         {:>6}  {:<12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>14}{:>9}\n",
        "ranks", "", "private", "… most", "shared", "sum", "… most", "page tables", "s"
    )
}

pub(super) fn run(plan: &Plan) -> Outcome {
    // Launchers that die leave their ranks to us, and we end them.
    let _ = kumiki_run::system::become_subreaper();
    let mut ranks = plan.ranks.clone();
    ranks.sort_unstable();
    ranks.dedup();
    let peers = peers::find(&plan.peers)?;
    let peers: Vec<&dyn Rival> = peers.iter().filter(|peer| !peer.tcp).map(|peer| peer as _).collect();
    let jobs = ranks.len() * (1 + peers.len());
    let bar = bar(jobs as u64, "{bar:40.cyan/blue} {pos} of {len} jobs, {elapsed}: {msg}", true);
    let mut rows: Vec<Row> = Vec::new();
    if !plan.json {
        print(&heads())?;
    }
    for ranks in ranks {
        for peer in [None].into_iter().chain(peers.iter().copied().map(Some)) {
            let name = peer.map_or(OURS, Rival::name).to_string();
            bar.set_message(format!("{name}, {ranks} ranks"));
            let taken = match peer {
                None => ours(ranks),
                Some(peer) => of_peer(peer, ranks, &rows),
            };
            let row = Row { name, ranks, taken };
            let text = if plan.json { format!("{}\n", row.json()) } else { row.line() };
            bar.suspend(|| print(&text))?;
            bar.inc(1);
            rows.push(row);
        }
    }
    bar.finish_and_clear();
    if !plan.json {
        print(&format!("\n{COUNTED}{}", verdict(&rows)))?;
    }
    if let Some(path) = &plan.png {
        chart(&rows).save(path)?;
        if !plan.json {
            print(&format!("{}\n", picture_line(path)))?;
        }
    }
    Ok(if rows.iter().any(|row| row.holds() == Some(false)) { MISSED_CODE } else { 0 })
}

/// Whether the bound is met, in a line.
fn verdict(rows: &[Row]) -> String {
    let bound = bytes_text(BOUND_BYTES as f64);
    let ours = || rows.iter().filter(|row| row.is_ours());
    if let Some(row) = ours().find(|row| row.taken.is_err()) {
        return format!("missed: there is no figure for {} ranks; at most {bound} a rank\n", row.ranks);
    }
    let most = ours().filter_map(|row| Some((row.taken.as_ref().ok()?.most(), row.ranks))).max();
    let Some((bytes, ranks)) = most else { return String::new() };
    let word = if bytes <= BOUND_BYTES { "met" } else { "missed" };
    format!(
        "{word}: {} a rank at most (with {ranks} ranks); the bound is {bound}\n",
        bytes_text(bytes as f64)
    )
}

/// A job of ours.
fn ours(ranks: u32) -> Result<Taken, String> {
    let file = Lines::new(c"kumiki-crowd", LINE_BYTES, ranks)?;
    let descriptor = file.descriptor().to_string();
    let command = launch::job(Place::Shm, ranks, &["rank", crowd::WORK, &descriptor, &ranks.to_string()])?;
    let (_, seconds) = launch::output(command, LIMIT, true)?;
    Taken::new(&file.read()?, ranks, seconds)
}

/// A job of a peer, unless one with fewer ranks came to nothing.
fn of_peer(peer: &dyn Rival, ranks: u32, rows: &[Row]) -> Result<Taken, String> {
    if ranks > PEER_MOST_RANKS {
        return Err(format!("not started: peers are tried with {PEER_MOST_RANKS} ranks at most"));
    }
    if !peer.is_for(Place::Shm, ranks) {
        return Err("not started: it is known to hang or die with so many ranks".into());
    }
    let failed = rows.iter().find(|row| row.name == peer.name() && row.taken.is_err());
    if let Some(failed) = failed {
        return Err(format!("not started: it failed with {} ranks", failed.ranks));
    }
    let command = peer.command(ranks, &["memory"])?;
    let output = launch::output(command, PEER_LIMIT, false);
    harness::end_orphans(None);
    let (text, seconds) = output?;
    let line = text.lines().find(|line| line.starts_with('{')).ok_or("it ended without a figure")?;
    let by_rank: Value = serde_json::from_str(line).map_err(|error| format!("it said `{line}`: {error}"))?;
    let line_of = |rank: usize| {
        let figure = |name: &str| by_rank[name][rank].clone();
        json!({"private": figure("private"), "shared": figure("shared"), "page_tables": figure("page_tables")})
    };
    Taken::new(&(0..ranks as usize).map(line_of).collect::<Vec<_>>(), ranks, seconds)
}

fn chart(rows: &[Row]) -> Bars {
    let mut series: Vec<String> = Vec::new();
    let mut counts: Vec<u32> = Vec::new();
    for row in rows {
        if !series.contains(&row.name) {
            series.push(row.name.clone());
        }
        if !counts.contains(&row.ranks) {
            counts.push(row.ranks);
        }
    }
    let value = |name: &str, ranks: u32| {
        let row = rows.iter().find(|row| row.name == name && row.ranks == ranks)?;
        row.taken.as_ref().ok().map(|taken| taken.most() as f64)
    };
    let group = |&ranks: &u32| Group {
        name: format!("{ranks} ranks"),
        values: series.iter().map(|name| value(name, ranks)).collect(),
    };
    Bars {
        title: "Memory of a rank that has sent one message to every other".into(),
        subtitle: "the largest: private memory since before init, and its share of what is shared".into(),
        groups: counts.iter().map(group).collect(),
        series,
        unit: Unit::Bytes,
        scale: Scale::Logarithmic,
        references: vec![(format!("bound: {}", bytes_text(BOUND_BYTES as f64)), BOUND_BYTES as f64)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(private: u64, shared: u64, arena: Option<u64>) -> Value {
        json!({"private": private, "shared": shared, "page_tables": 4096, "arena": arena})
    }

    fn row(name: &str, ranks: u32, private: u64) -> Row {
        let lines = vec![line(private, 0, Some(8192)); ranks as usize];
        Row { name: name.into(), ranks, taken: Taken::new(&lines, ranks, 1.0) }
    }

    #[test]
    fn what_is_shared_counts_once_and_what_is_committed_counts_though_nobody_maps_it() {
        let lines = [line(100, 3000, Some(9000)), line(300, 3000, None), line(200, 3000, None)];
        let taken = Taken::new(&lines, 3, 1.0).unwrap();
        assert_eq!((taken.shared, taken.middle(), taken.most()), (3000, 3200, 3300));
        let more = [line(0, 3000, Some(12_000)), line(0, 3000, None)];
        assert_eq!(Taken::new(&more, 2, 1.0).unwrap().shared, 6000);
        assert!(Taken::new(&lines, 4, 1.0).unwrap_err().contains("3 of 4"));
        assert!(Taken::new(&[json!({})], 1, 1.0).unwrap_err().contains("shared"));
    }

    #[test]
    fn the_bound_is_for_ours_and_a_job_that_failed_misses_it() {
        let good = || vec![row(OURS, 4, 1000), row("mpich4", 4, 9 << 20)];
        assert!(verdict(&good()).starts_with("met"), "{}", verdict(&good()));
        assert_eq!(good().iter().map(Row::holds).collect::<Vec<_>>(), [Some(true), None]);
        let over = [row(OURS, 4, 1000), row(OURS, 8, 300 << 10)];
        assert!(verdict(&over).starts_with("missed") && verdict(&over).contains("8 ranks"));
        let failed = [row(OURS, 4, 1000), Row { name: OURS.into(), ranks: 8, taken: Err("no".into()) }];
        assert!(verdict(&failed).starts_with("missed"));
        assert_eq!((failed[1].holds(), &failed[1].json()["error"]), (Some(false), &json!("no")));
    }

    #[test]
    fn a_peer_that_failed_is_not_started_with_more_ranks() {
        struct Never;
        impl Rival for Never {
            fn name(&self) -> &str {
                "never"
            }
            fn command(&self, _: u32, _: &[&str]) -> Result<std::process::Command, String> {
                Err("it was started".into())
            }
        }
        let failed = [Row { name: "never".into(), ranks: 16, taken: Err("no".into()) }];
        assert!(of_peer(&Never, 64, &failed).unwrap_err().contains("failed with 16 ranks"));
        assert!(of_peer(&Never, 1024, &[]).unwrap_err().contains("not started"));
        assert_eq!(of_peer(&Never, 64, &[]), Err("it was started".into()));
    }
}
