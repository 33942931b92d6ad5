//! `kumiki bench join --memory`: a master and groups of workers that are an MPI job each, as one world (`macprun`) and by `MPI_Comm_spawn`.
//!
//! The master sends 4 bytes to the root of every group, which broadcasts them inside its MPI. What each of them takes then it says itself
//! (`benches/peers/join.c`, built with each MPI, and for our master without any).

use super::super::peers::{self, Peer};
use super::super::workshop::{self, Workshop};
use super::super::{harness, launch};
use super::apart::library;
use crate::chart::{bytes_text, Bars, Group, Scale, Unit};
use crate::commands::mem::picture_line;
use crate::commands::{print, Outcome};
use crate::progress::bar;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = include_str!("../../../embedded/join.c");
/// What our master may take of what that of `MPI_Comm_spawn` takes.
const MASTER_SHARE: f64 = 0.05;
/// What joining may add to a root.
const ROOT_BYTES: u64 = 100 << 10;
/// How long a job may take from its start to its end.
const LIMIT: Duration = Duration::from_secs(150);
/// The code of a command whose bound is missed.
const MISSED_CODE: i32 = 1;

const COUNTED: &str = "\
Anonymous memory of the whole process (/proc/self/smaps_rollup), when all is done and everybody is still there; it is what is compared. The columns before it are
Private_Clean + Private_Dirty: there, pages of a program's file count as well if no other process has it mapped, which are memory of the file cache.
Added to a root: Anonymous less what it was when MPI had been initialised and had broadcast once, the library of Kumiki, which is loaded then,
included (its pages that the loader must change are `library`, the rest is what joining took). What is shared, the arena and MPI's segments, is in
neither. Of roots the largest figure counts. Our master has no MPI, and the library linked into it (libkumiki.a, -static) where that is there.
";

/// How the workers are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    groups: u32,
    size: u32,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.groups, self.size)
    }
}

/// Parses `GROUPSxSIZE`.
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let numbers =
        text.split_once('x').and_then(|(groups, size)| Some((groups.parse().ok()?, size.parse().ok()?)));
    match numbers {
        Some((groups @ 1..=1024, size @ 1..=1024)) => Ok(Shape { groups, size }),
        _ => Err("it should be groups and their size, such as 4x8".into()),
    }
}

/// What is asked for.
pub(super) struct Plan {
    pub(super) shapes: Vec<Shape>,
    pub(super) peers: String,
    pub(super) json: bool,
    pub(super) png: Option<PathBuf>,
}

/// What a process took, in bytes. Pages of a file that was written a moment ago, as a library that was just built, are Private_Dirty in a process that has them
/// alone: what is added is therefore told by Anonymous.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Taken {
    private: u64,
    anonymous: u64,
    /// What the library and joining added, where that is known.
    library: Option<u64>,
    added: Option<u64>,
}

impl Taken {
    fn new(line: &Value) -> Result<Taken, String> {
        let figure = |when: &str, name: &str| line[when][name].as_u64().map(|kib| kib << 10);
        let both = |when: &str| Some(figure(when, "clean")? + figure(when, "dirty")?);
        let (before, opened) = (figure("before", "anonymous"), figure("opened", "anonymous"));
        let missing = || format!("a figure is missing in {line}");
        let after = figure("after", "anonymous").ok_or_else(missing)?;
        Ok(Taken {
            private: both("after").ok_or_else(missing)?,
            anonymous: after,
            library: before.zip(opened).map(|(before, opened)| opened.saturating_sub(before)),
            added: before.map(|before| after.saturating_sub(before)),
        })
    }

    /// The largest of each.
    fn most(self, other: Taken) -> Taken {
        Taken {
            private: self.private.max(other.private),
            anonymous: self.anonymous.max(other.anonymous),
            library: self.library.max(other.library),
            added: self.added.max(other.added),
        }
    }

    fn json(&self) -> Value {
        json!({
            "private_bytes": self.private, "anonymous_bytes": self.anonymous,
            "library_bytes": self.library, "added_bytes": self.added,
        })
    }
}

/// What the master and the roots of a job said.
fn parse(text: &str, groups: u32) -> Result<(Taken, Taken), String> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (mut master, mut roots, mut count) = (None, Taken::default(), 0);
    for line in lines {
        match line["who"].as_str() {
            Some("master") => master = Some(Taken::new(&line)?),
            Some("root") => (roots, count) = (roots.most(Taken::new(&line)?), count + 1),
            _ => {}
        }
    }
    match master {
        Some(master) if count == groups => Ok((master, roots)),
        _ => Err(format!("only {count} of {groups} roots have said what they took")),
    }
}

/// A job, and what came of it.
struct Row {
    shape: Shape,
    mpi: String,
    is_ours: bool,
    taken: Result<(Taken, Taken), String>,
    seconds: f64,
    /// Private bytes of the master of the same shape by `MPI_Comm_spawn`.
    spawned: Option<u64>,
}

impl Row {
    fn name(&self) -> String {
        if self.is_ours {
            format!("kumiki, {}", self.mpi)
        } else {
            format!("{} spawn", self.mpi)
        }
    }

    /// The master beside that of `MPI_Comm_spawn`.
    fn share(&self) -> Option<f64> {
        let (master, _) = self.taken.as_ref().ok().filter(|_| self.is_ours)?;
        Some(master.anonymous as f64 / self.spawned? as f64)
    }

    /// Whether the bounds hold of what is ours.
    fn holds(&self) -> Option<bool> {
        let added = self.taken.as_ref().ok().and_then(|(_, root)| root.added);
        let holds = added.is_some_and(|added| added <= ROOT_BYTES)
            && self.share().is_none_or(|share| share <= MASTER_SHARE);
        self.is_ours.then_some(holds)
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "metric": "memory.join", "contender": self.name(), "groups": self.shape.groups, "size": self.shape.size,
            "seconds": self.seconds,
        });
        match &self.taken {
            Ok((master, root)) => {
                value["master"] = master.json();
                value["root"] = root.json();
            }
            Err(why) => value["error"] = json!(why),
        }
        if self.is_ours {
            value["master_to_spawn"] = json!(self.share());
            value["bounds"] = json!({"master_to_spawn": MASTER_SHARE, "root_added_bytes": ROOT_BYTES});
            value["holds"] = json!(self.holds());
        }
        value
    }

    fn line(&self) -> String {
        let start = format!("{:>7}  {:<18}", self.shape.to_string(), self.name());
        let text = |bytes: u64| bytes_text(bytes as f64);
        let maybe = |bytes: Option<u64>| bytes.map_or("-".into(), text);
        match &self.taken {
            Err(why) => format!("{start}  {why}\n"),
            Ok((master, root)) => format!(
                "{start}{:>11}{:>11}{:>9}{:>11}{:>11}{:>11}{:>11}{:>7.1}\n",
                text(master.private),
                text(master.anonymous),
                self.share().map_or("-".into(), |share| format!("{:.1} %", share * 100.0)),
                text(root.private),
                text(root.anonymous),
                maybe(root.library.filter(|_| self.is_ours)),
                maybe(root.added.filter(|_| self.is_ours)),
                self.seconds
            ),
        }
    }
}

fn heads() -> String {
    format!(
        "A master sends 4 bytes to the root of every group, which broadcasts them inside its MPI job\n\n\
         {:>7}  {:<18}{:>11}{:>11}{:>9}{:>11}{:>11}{:>11}{:>11}{:>7}\n",
        "groups", "", "master", "anonymous", "/spawn", "root", "anonymous", "library", "added", "s"
    )
}

pub(super) fn run(plan: &Plan) -> Outcome {
    // Launchers that die leave their ranks to us, and we end them.
    let _ = kumiki_run::system::become_subreaper();
    let peers: Vec<Peer> = peers::find(&plan.peers)?.into_iter().filter(|peer| !peer.tcp).collect();
    if peers.is_empty() {
        return Err("there is no MPI library whose jobs could be one world; `./x peers` installs some".into());
    }
    let parts = Parts::find()?;
    let jobs = plan.shapes.len() * peers.len() * 2;
    let bar = bar(jobs as u64, "{bar:40.cyan/blue} {pos} of {len} jobs, {elapsed}: {msg}", true);
    let mut rows: Vec<Row> = Vec::new();
    if !plan.json {
        print(&heads())?;
    }
    for &shape in &plan.shapes {
        for peer in &peers {
            let program = parts.compile(peer);
            let mut spawned = None;
            for is_ours in [false, true] {
                bar.set_message(format!("{shape}, {}", peer.name));
                let command = program.as_ref().map_err(String::clone).and_then(|program| match is_ours {
                    true => parts.world(peer, program, shape),
                    false => spawn(peer, program, shape, &rows),
                });
                let output = command.and_then(|command| launch::output(command, LIMIT, is_ours));
                harness::end_orphans(None);
                let seconds = output.as_ref().map_or(0.0, |(_, seconds)| *seconds);
                let taken = output.and_then(|(text, _)| parse(&text, shape.groups));
                if !is_ours {
                    spawned = taken.as_ref().ok().map(|(master, _)| master.anonymous);
                }
                let row = Row { shape, mpi: peer.name.clone(), is_ours, taken, seconds, spawned };
                let text = if plan.json { format!("{}\n", row.json()) } else { row.line() };
                bar.suspend(|| print(&text))?;
                bar.inc(1);
                rows.push(row);
            }
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

/// Whether the bounds are met, a line each.
fn verdict(rows: &[Row]) -> String {
    let ours = || rows.iter().filter(|row| row.is_ours);
    if let Some(row) = ours().find(|row| row.taken.is_err()) {
        return format!("missed: there is no figure of {} for {}\n", row.name(), row.shape);
    }
    let word = |holds: bool| if holds { "met" } else { "missed" };
    let mut text = String::new();
    let most = ours().filter_map(|row| Some((row.share()?, row))).max_by(|a, b| a.0.total_cmp(&b.0));
    match most {
        None => text += "open: no MPI here could start the groups by MPI_Comm_spawn, and there is no master to compare with\n",
        Some((share, row)) => {
            text += &format!(
                "{}: the master takes {:.1} % of that of MPI_Comm_spawn at most ({}, {}); the bound is {:.0} %\n",
                word(share <= MASTER_SHARE), share * 100.0, row.mpi, row.shape, MASTER_SHARE * 100.0
            );
        }
    }
    let added = ours().filter_map(|row| Some((row.taken.as_ref().ok()?.1.added?, row)));
    if let Some((bytes, row)) = added.max_by_key(|(bytes, _)| *bytes) {
        text += &format!(
            "{}: {} are added to a root at most ({}, {}); the bound is {}\n",
            word(bytes <= ROOT_BYTES),
            bytes_text(bytes as f64),
            row.mpi,
            row.shape,
            bytes_text(ROOT_BYTES as f64)
        );
    }
    text
}

/// A job that starts its groups itself, unless that has failed before.
fn spawn(peer: &Peer, program: &Path, shape: Shape, rows: &[Row]) -> Result<Command, String> {
    let failed = rows.iter().any(|row| !row.is_ours && row.mpi == peer.name && row.taken.is_err());
    if failed {
        return Err("not started: MPI_Comm_spawn failed before".into());
    }
    let words = peer.crowded();
    let mut command = workshop::tool(&words[0])?;
    command.args(&words[1..]).args(["-n", "1"]).arg(program).arg("spawn");
    command.args([shape.groups.to_string(), shape.size.to_string()]);
    command.current_dir(Workshop::open()?.scratch()?);
    Ok(command)
}

/// What one world of several jobs is made of.
struct Parts {
    workshop: Workshop,
    /// The master, without MPI.
    master: PathBuf,
    library: PathBuf,
    /// A folder of this run's own.
    folder: PathBuf,
    /// This program under the name by which it starts a part.
    launcher: PathBuf,
    file: PathBuf,
}

/// The master has the library linked into it, and is no position-independent program: a process that is small then has no page that
/// the loader has to change. Where there is no archive, or no C library to link in, it loads the library as the groups do.
fn build_master(workshop: &Workshop, library: &Path) -> Result<PathBuf, String> {
    let compiler = || -> Result<Command, String> {
        let mut compiler = workshop::tool("cc")?;
        compiler.args(["-O2", "-DWITHOUT_MPI"]);
        Ok(compiler)
    };
    let archive = library.with_extension("a");
    if let Ok(data) = archive.metadata() {
        // With another archive it is another program.
        let made = data.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let text = format!("{PROGRAM}/* with {} of {} bytes, {made:?} */\n", archive.display(), data.len());
        let mut linked = compiler()?;
        linked.args(["-DLINKED", "-static", "-w", "-Wl,--gc-sections"]);
        let archive = archive.to_string_lossy().into_owned();
        if let Ok(master) = workshop.build("join-linked", ("c", &text), linked, &[&archive]) {
            return Ok(master);
        }
    }
    workshop.build("join", ("c", PROGRAM), compiler()?, &["-ldl"])
}

impl Parts {
    fn find() -> Result<Parts, String> {
        let workshop = Workshop::open()?;
        let folder = workshop.scratch()?.join(format!("parts-{}", std::process::id()));
        let program = launch::program()?;
        let library = library()?;
        let master = build_master(&workshop, &library)?;
        let (launcher, file) = (folder.join("acprun"), folder.join("parts"));
        // One that ended early and had the same number may have left its own.
        let _ = std::fs::remove_dir_all(&folder);
        kumiki_run::system::private_folder(&folder).map_err(|error| error.to_string())?;
        let linked = std::os::unix::fs::symlink(&program, &launcher);
        linked.map_err(|error| format!("cannot make {}: {error}", launcher.display()))?;
        Ok(Parts { workshop, master, library, folder, launcher, file })
    }

    fn compile(&self, peer: &Peer) -> Result<PathBuf, String> {
        peer.compile(&self.workshop, "join", PROGRAM, "-O2")
    }

    /// A master, and each group under a launcher of its own.
    fn world(&self, peer: &Peer, program: &Path, shape: Shape) -> Result<Command, String> {
        let quoted = |word: String| format!("'{word}'");
        let launcher = peer.crowded().into_iter().map(quoted).collect::<Vec<_>>().join(" ");
        let groups = 0..shape.groups;
        let line = |path: &Path, who: &str| {
            let (Shape { groups, size }, library) = (shape, self.library.display());
            format!("'{}' {who} {groups} {size} '{library}'\n", path.display())
        };
        let mut text = format!("{}\n'{}'\n", shape.groups + 1, self.launcher.display());
        groups.clone().for_each(|_| text += &format!("{launcher}\n"));
        text += "1\n";
        groups.clone().for_each(|_| text += &format!("{}\n", shape.size));
        text += &line(&self.master, "master");
        groups.for_each(|_| text += &line(program, "group"));
        std::fs::write(&self.file, text).map_err(|error| format!("{}: {error}", self.file.display()))?;
        let mut command = Command::new(launch::program()?);
        command.arg("macprun").arg(&self.file);
        Ok(command)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn chart(rows: &[Row]) -> Bars {
    let good = || rows.iter().filter(|row| row.taken.is_ok());
    let mut series: Vec<String> = good().map(Row::name).collect();
    series.sort();
    series.dedup();
    let mut shapes: Vec<Shape> = rows.iter().map(|row| row.shape).collect();
    shapes.dedup();
    let value = |shape: Shape, is_master: bool, name: &String| {
        let row = good().find(|row| row.shape == shape && row.name() == *name)?;
        let (master, root) = row.taken.as_ref().ok()?;
        Some(if is_master { master.anonymous } else { root.anonymous } as f64)
    };
    let group = |shape: Shape, who: &str| Group {
        name: format!("{shape}, {who}"),
        values: series.iter().map(|name| value(shape, who == "master", name)).collect(),
    };
    Bars {
        title: "One world of several MPI jobs, beside MPI_Comm_spawn".into(),
        subtitle: "anonymous memory of the master and of the largest root, by groups and their size".into(),
        groups: shapes.iter().flat_map(|&shape| ["master", "root"].map(|who| group(shape, who))).collect(),
        series,
        unit: Unit::Bytes,
        scale: Scale::Logarithmic,
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(is_ours: bool, master: u64, added: u64, spawned: Option<u64>) -> Row {
        let taken = |bytes| Taken { private: bytes, anonymous: bytes, library: None, added: Some(added) };
        let shape = Shape { groups: 2, size: 4 };
        Row { shape, mpi: "mpi".into(), is_ours, taken: Ok((taken(master), taken(9))), seconds: 1.0, spawned }
    }

    #[test]
    fn a_shape_is_two_numbers() {
        assert_eq!(shape("4x8"), Ok(Shape { groups: 4, size: 8 }));
        assert!(shape("4").is_err() && shape("0x8").is_err() && shape("4x").is_err());
    }

    #[test]
    fn the_largest_root_counts_and_none_may_be_missing() {
        let root = |kib: u64| {
            format!(
                r#"{{"who":"root","before":{{"clean":9,"dirty":5,"anonymous":5}},"opened":{{"clean":0,"dirty":6,"anonymous":6}},"after":{{"clean":1,"dirty":{kib},"anonymous":{kib}}}}}"#
            )
        };
        let master = r#"{"who":"master","after":{"clean":1,"dirty":2,"anonymous":3}}"#;
        let text = format!("a warning\n{}\n{master}\n{}\n", root(8), root(10));
        let (master, most) = parse(&text, 2).unwrap();
        assert_eq!((master.private, master.added), (3 << 10, None));
        let kib = |count: u64| Some(count << 10);
        assert_eq!((Some(most.private), most.library, most.added), (kib(11), kib(1), kib(5)));
        assert!(parse(&text, 3).unwrap_err().contains("2 of 3"));
    }

    #[test]
    fn both_bounds_are_judged_and_those_of_others_are_not() {
        assert_eq!(row(false, 1 << 30, 1 << 30, None).holds(), None);
        assert_eq!(row(true, 50, 100 << 10, Some(1000)).holds(), Some(true));
        assert_eq!(row(true, 51, 0, Some(1000)).holds(), Some(false));
        assert_eq!(row(true, 50, (100 << 10) + 1, Some(1000)).holds(), Some(false));
        assert_eq!(row(true, 51, 0, None).holds(), Some(true), "there is no master to compare with");
        let text = verdict(&[row(true, 51, 0, Some(1000)), row(true, 10, 1, Some(1000))]);
        assert!(text.starts_with("missed: the master takes 5.1 %") && text.contains("\nmet: 1 B"), "{text}");
    }
}
