//! Takes the samples: for each metric, round after round, one sample of each contender in turn, so that whatever else
//! the machine does falls on all of them alike.

use super::catalogue::{How, Metric, Place, Session, OF_OURS};
use super::contender::{Contender, NoAnswer};
use super::launch;
use super::report::{PeerColumn, Report, Row};
use super::statistics::Samples;
use std::io::{IsTerminal, Write};
use std::process::Command;
use std::time::{Duration, Instant};

/// The most ranks with which peers are started without being asked to: more take them minutes.
const PEER_START_UP_RANKS: u32 = 32;
/// Jobs of so many ranks are started a few times only.
const MANY_RANKS: u32 = 32;
const FEW_SAMPLES: u32 = 3;
const SIGKILL: i32 = 9;

/// Samples of a few milliseconds are taken for so long, but not more than so many times as many: what else the machine does lasts longer than a few of them.
const ROW_TIME: Duration = Duration::from_millis(400);
const MOST_TIMES: u32 = 4;

/// From this load on the machine is said to be busy.
const BUSY_LOAD: f64 = 0.5;

/// Something to compare with: a program that answers lines as our own job does.
pub(super) trait Rival {
    /// What reports call it.
    fn name(&self) -> &str;
    /// Whether it can be measured with so many ranks there.
    fn is_for(&self, _place: Place, _ranks: u32) -> bool {
        true
    }
    /// Whether it is ours by another interface: then it is shown, and not compared with.
    fn is_ours(&self) -> bool {
        false
    }
    /// Whether it has an answer to this line.
    fn knows(&self, _line: &str) -> bool {
        true
    }
    /// The command that starts it with so many ranks.
    fn command(&self, ranks: u32, arguments: &[&str]) -> Result<Command, String>;
}

/// How a job of ours is started that answers lines.
pub(super) type Ours = fn(Session) -> Result<Command, String>;

/// What to run.
pub(super) struct Plan {
    pub(super) samples: u32,
    /// Whether metrics that are measured fast are given more samples than that.
    pub(super) fills_time: bool,
    /// The command that starts a job of ours for a session.
    pub(super) ours: Ours,
    pub(super) peers: Vec<Box<dyn Rival>>,
    pub(super) startup_peers: bool,
}

/// Measures every metric and hands its row to the report.
pub(super) fn run(plan: &Plan, metrics: &[Metric], report: &mut Report) -> Result<(), String> {
    // Launchers that die leave their ranks to us, and we end them.
    let _ = kumiki_run::system::become_subreaper();
    warn_of_load();
    let progress = Progress::new(metrics.len());
    let mut floor = None;
    let mut done = 0;
    for group in metrics.chunk_by(|one, other| key(one) == key(other)) {
        let mut stage = match group[0].how {
            How::Ask { .. } => Some(Stage::open(plan, group, &mut floor)?),
            _ => None,
        };
        for metric in group {
            done += 1;
            progress.show(done, &metric.name);
            let row = match (&metric.how, stage.as_mut()) {
                (How::Ask { .. }, Some(stage)) => stage.measure(metric, floor.as_mut(), plan),
                (How::MemoryGrowth { from }, _) => memory_growth(metric, *from, report),
                (How::Memory, _) => memory(plan, metric),
                _ => start_up(plan, metric),
            };
            progress.clear();
            report.add(row)?;
        }
        if let Some(stage) = stage {
            stage.close(floor.as_ref().map(Contender::pid));
        }
        report.end_section()?;
    }
    if let Some(floor) = floor {
        floor.end();
    }
    Ok(())
}

/// Says if the machine has other things to do: what is measured then is how it shares, not how fast it is.
fn warn_of_load() {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    if let Some(load) = load.filter(|load| *load > BUSY_LOAD) {
        let advice = "measure again when it is not, and mind the spread";
        kumiki_run::report(&format!("this machine is busy (load {load}): {advice}"));
    }
}

/// Metrics with the same key share their contenders, or at least a table.
fn key(metric: &Metric) -> Option<Session> {
    matches!(metric.how, How::Ask { .. }).then_some(metric.session)
}

/// The contenders of a session.
struct Stage<'p> {
    ours: Contender,
    peers: Vec<(&'p dyn Rival, Contender)>,
    /// Peers that could not be started.
    absent: Vec<(&'p dyn Rival, String)>,
}

impl<'p> Stage<'p> {
    fn open(plan: &'p Plan, group: &[Metric], floor: &mut Option<Contender>) -> Result<Stage<'p>, String> {
        let session = group[0].session;
        let needs = |wanted: fn(&How) -> bool| group.iter().any(|metric| wanted(&metric.how));
        if floor.is_none() && needs(|how| matches!(how, How::Ask { floors, .. } if !floors.is_empty())) {
            let command = launch::worker(Session { place: Place::Shm, ranks: 2 })?;
            *floor = Some(Contender::start(command, true).map_err(|error| format!("the floor: {error}"))?);
        }
        let command = (plan.ours)(session)?;
        let ours = Contender::start(command, true)
            .map_err(|error| format!("kumiki with {} ranks: {error}", session.ranks))?;
        let mut stage = Stage { ours, peers: Vec::new(), absent: Vec::new() };
        let asked = |peer: &dyn Rival| {
            let knows = |how: &How| matches!(how, How::Ask { peers: Some(line), .. } if peer.knows(line));
            group.iter().any(|metric| knows(&metric.how)) && peer.is_for(session.place, session.ranks)
        };
        for peer in plan.peers.iter().map(|peer| &**peer).filter(|peer| asked(*peer)) {
            match peer.command(session.ranks, &[]).and_then(|command| Contender::start(command, false)) {
                Ok(contender) => stage.peers.push((peer, contender)),
                Err(error) => stage.absent.push((peer, error)),
            }
        }
        Ok(stage)
    }

    fn measure(&mut self, metric: &Metric, mut floor: Option<&mut Contender>, plan: &Plan) -> Row {
        let How::Ask { ours, floors, peers } = &metric.how else { return Row::new(metric) };
        let mut row = Row::new(metric);
        row.floors = floors.iter().map(|(name, _)| (*name, Samples::default())).collect();
        if let Some(line) = peers {
            let here = self.peers.iter().filter(|(peer, _)| peer.knows(line));
            row.peers.extend(here.map(|(peer, _)| PeerColumn::of(*peer)));
            let absent = self.absent.iter().filter(|(peer, _)| peer.knows(line));
            row.peers.extend(absent.map(|(peer, error)| PeerColumn::failed(*peer, error)));
        }
        // Ten seconds of waiting are one sample.
        let rounds = if metric.unit == "%" { 1 } else { plan.samples };
        let most = if plan.fills_time && rounds > 1 { MOST_TIMES * rounds } else { rounds };
        let began = Instant::now();
        for round in 0..most {
            if round >= rounds && began.elapsed() >= ROW_TIME {
                break;
            }
            match self.ours.ask(ours) {
                Ok(answer) => answer.samples.into_iter().for_each(|sample| row.ours.push(sample)),
                Err(NoAnswer::Refused(error) | NoAnswer::Gone(error)) => row.error = Some(error),
            }
            for ((_, line), (_, samples)) in floors.iter().zip(&mut row.floors) {
                let answer = match (line.strip_prefix(OF_OURS), floor.as_mut()) {
                    (Some(line), _) => self.ours.ask(line),
                    (None, Some(floor)) => floor.ask(line),
                    (None, None) => continue,
                };
                if let Ok(answer) = answer {
                    answer.samples.into_iter().for_each(|sample| samples.push(sample));
                }
            }
            if let Some(line) = peers {
                self.ask_peers(line, &mut row);
            }
        }
        row
    }

    fn ask_peers(&mut self, line: &str, row: &mut Row) {
        let mut gone = Vec::new();
        for (peer, contender) in &mut self.peers {
            let column =
                row.peers.iter_mut().find(|column| column.name == peer.name() && column.error.is_none());
            let Some(column) = column else { continue };
            match contender.ask(line) {
                Ok(answer) => {
                    column.incomplete += answer.incomplete;
                    answer.samples.into_iter().for_each(|sample| column.samples.push(sample));
                }
                Err(NoAnswer::Refused(error)) => column.error = Some(error),
                Err(NoAnswer::Gone(error)) => {
                    column.error = Some(error.clone());
                    gone.push((*peer, error));
                }
            }
        }
        self.peers.retain(|(peer, _)| !gone.iter().any(|(lost, _)| lost.name() == peer.name()));
        self.absent.extend(gone);
    }

    /// Ends the contenders, and whatever a launcher has left behind.
    fn close(self, floor: Option<i32>) {
        self.ours.end();
        self.peers.into_iter().for_each(|(_, contender)| contender.end());
        end_orphans(floor);
    }
}

/// Kills the children of this process that nobody knows: ranks whose launcher has gone without them.
pub(super) fn end_orphans(known: Option<i32>) {
    for pid in kumiki_run::system::children() {
        if Some(pid) != known {
            let _ = kumiki_run::system::signal(pid, SIGKILL);
        }
    }
}

fn start_up(plan: &Plan, metric: &Metric) -> Row {
    let ranks = metric.session.ranks;
    let mut row = Row::new(metric);
    let with_peers = ranks <= PEER_START_UP_RANKS || plan.startup_peers;
    let peers: Vec<&dyn Rival> = plan.peers.iter().map(|peer| &**peer).collect();
    let peers: Vec<&dyn Rival> =
        peers.into_iter().filter(|peer| with_peers && peer.is_for(Place::Shm, ranks)).collect();
    row.peers = peers.iter().map(|peer| PeerColumn::of(*peer)).collect();
    let rounds = if ranks >= MANY_RANKS { plan.samples.min(FEW_SAMPLES) } else { plan.samples };
    for round in 0..rounds {
        match launch::job(Place::Shm, ranks, &["rank", "probe"]).and_then(launch::time) {
            Ok(seconds) => row.ours.push(seconds),
            Err(error) => row.error = Some(error),
        }
        // A minute of a peer is one sample.
        if ranks > PEER_START_UP_RANKS && round > 0 {
            continue;
        }
        for (peer, column) in peers.iter().zip(&mut row.peers).filter(|(_, column)| column.error.is_none()) {
            match peer.command(ranks, &["init"]).and_then(launch::time) {
                Ok(seconds) => column.samples.push(seconds),
                Err(error) => column.error = Some(error),
            }
            end_orphans(None);
        }
    }
    row
}

fn memory(plan: &Plan, metric: &Metric) -> Row {
    let ranks = metric.session.ranks;
    let mut row = Row::new(metric);
    match launch::memory(ranks) {
        Ok(added) => added.into_iter().for_each(|kib| row.ours.push(kib)),
        Err(error) => row.error = Some(error),
    }
    // Peers say what a rank has in all: the bare program is a small part of it.
    for peer in plan.peers.iter().filter(|peer| ranks <= 2 && peer.is_for(Place::Shm, ranks)) {
        let started = peer.command(ranks, &[]).and_then(|command| Contender::start(command, false));
        let answer = started.and_then(|mut contender| {
            let answer = contender.ask("mem");
            contender.end();
            answer.map_err(|error| format!("{error:?}"))
        });
        let mut column = PeerColumn::of(&**peer);
        match answer {
            Ok(answer) => answer.samples.into_iter().for_each(|bytes| column.samples.push(bytes / 1024.0)),
            Err(error) => column.error = Some(error),
        }
        row.peers.push(column);
    }
    row
}

fn memory_growth(metric: &Metric, from: u32, report: &Report) -> Row {
    let mut row = Row::new(metric);
    let value = |ranks: u32| report.value(&format!("memory.{ranks}"));
    match (value(from), value(metric.session.ranks)) {
        (Some(few), Some(many)) => row.ours.push(many - few),
        _ => row.error = Some("needs the two memory rows".into()),
    }
    row
}

/// A line on standard error that says what is being measured, if that is a terminal.
struct Progress {
    total: usize,
    shown: bool,
}

impl Progress {
    fn new(total: usize) -> Progress {
        Progress { total, shown: std::io::stderr().is_terminal() }
    }

    fn show(&self, done: usize, name: &str) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K[{done}/{}] {name}", self.total);
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
