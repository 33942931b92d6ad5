//! Several launchers, one world: starts the parts of a job, is the place where their ranks meet, and ends with them.
//!
//! A part is a launcher, ours or `mpirun` or the like, with its program. Its ranks find the others by a portfile. That is a
//! descriptor of this process, which goes with it, unless the user wants a file that other machines see.

use crate::{Result, RunError};
use kumiki_net::agent::meeting::{Meeting, Settings};
use kumiki_net::agent::report;
use kumiki_net::environment;
use kumiki_net::os::process::{self, ChildSetup, Signals};
use kumiki_net::os::{file, memory, time};
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

/// How long a part whose rank was lost may take to tell how it ended.
const PATIENCE_MS: u64 = 4_000;
/// How long other foreign launchers may take to notice by themselves that their ranks have failed: told to end in the
/// middle of that, Open MPI's crashes, and leaves files behind.
const COURTESY_MS: u64 = 1_500;
/// How long launchers may take to end their ranks, before everything is killed.
const GRACE_MS: u64 = 5_000;
/// How long what was killed may take to be gone.
const BURIAL_MS: u64 = 2_000;

/// One part of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// What it is called when something is wrong with it.
    pub title: String,
    /// The launcher and its options.
    pub launcher: Vec<OsString>,
    /// Whether the launcher is ours, and so takes the options of a part.
    pub is_ours: bool,
    /// How many ranks it has.
    pub ranks: u32,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// A job in parts.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The parts; ranks are numbered through all of them.
    pub parts: Vec<Part>,
    /// Starter memory of each rank.
    pub starter_bytes: u64,
    /// The most memory of a rank for `malloc` and data structures.
    pub pool_bytes: Option<u64>,
    /// Where the portfile shall be, if other machines must see it.
    pub portfile: Option<PathBuf>,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// Whether the first part gets our standard input.
    pub forward_input: bool,
}

/// Runs a job in parts to its end. Returns the exit code: that of the part whose rank failed first.
pub fn run(job: &Parts) -> Result<i32> {
    environment::check()?;
    let ranks = job.parts.iter().try_fold(0u32, |sum, part| sum.checked_add(part.ranks));
    let ranks = ranks.ok_or_else(|| RunError::Options("there are too many ranks".into()))?;
    let meeting =
        Meeting::new(Settings { ranks, starter_bytes: job.starter_bytes, pool_bytes: job.pool_bytes })?;
    let file = Held::new(job.portfile.as_deref(), &meeting.portfile().text())?;
    let mut starter = Starter::new(job, meeting)?;
    starter.start(&file)?;
    starter.run()
}

/// The portfile while the job runs.
enum Held {
    /// In memory, open here: other processes of the user on this machine get at it by our number.
    Memory(File),
    Path(PathBuf),
}

impl Held {
    fn new(path: Option<&Path>, text: &str) -> Result<Held> {
        let Some(path) = path else {
            let mut file = File::from(memory::create_sealed(c"kumiki-portfile", text.len() as u64)?);
            let written = file.write_all(text.as_bytes());
            return written.map(|()| Held::Memory(file)).map_err(|error| wrong("the portfile", &error));
        };
        let shown = format!("the portfile {}", path.display());
        let path = std::path::absolute(path).map_err(|error| wrong(&shown, &error))?;
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                RunError::Options(format!("{shown} exists already: another job may use it; name another"))
            }
            _ => wrong(&shown, &error),
        })?;
        let held = Held::Path(path);
        file.write_all(text.as_bytes()).map_err(|error| wrong(&shown, &error))?;
        Ok(held)
    }

    fn path(&self) -> OsString {
        match self {
            Held::Memory(file) => format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into(),
            Held::Path(path) => path.clone().into(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Path(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn wrong(what: &str, error: &std::io::Error) -> RunError {
    RunError::Options(format!("cannot write {what}: {error}"))
}

/// The whole command line of a part.
fn command_line(part: &Part, offset: u32, portfile: OsString) -> Vec<OsString> {
    let mut line = part.launcher.clone();
    line.extend(["-n".into(), part.ranks.to_string().into()]);
    if part.is_ours {
        line.extend(["-multirun".into(), "-portfile".into(), portfile]);
        line.extend(["-offsetrank".into(), offset.to_string().into()]);
    } else {
        // Not every launcher hands its environment on to other machines.
        let mut file = OsString::from("KUMIKI_PORTFILE=");
        file.push(portfile);
        line.extend(["env".into(), file, format!("KUMIKI_OFFSET_RANK={offset}").into()]);
    }
    line.extend(part.program.iter().cloned());
    line
}

/// A launcher that was started.
struct Running {
    child: Child,
    /// The exit code, when it has ended.
    code: Option<i32>,
    /// When it shall be told to end.
    tell_at_ms: Option<u64>,
    /// Whether it was told to end before it did.
    told: bool,
}

impl Running {
    fn tell(&self, signal: i32) {
        if self.code.is_none() {
            let _ = process::signal(self.child.id() as i32, signal);
        }
    }

    /// How it failed, if it did, and not because it was told to end.
    fn failed(&self) -> Option<i32> {
        self.code.filter(|&code| code != 0 && !self.told)
    }
}

struct Starter<'a> {
    job: &'a Parts,
    meeting: Meeting,
    signals: Signals,
    running: Vec<Running>,
    /// When everything is killed, because the job is being ended.
    kill_at_ms: Option<u64>,
    /// The exit code that the user or the clock has asked for.
    asked: Option<i32>,
    /// The part to blame, when a rank was lost.
    blamed: Option<usize>,
    /// The exit code of the part that failed before anything else was wrong.
    first_failed: Option<i32>,
    /// Since when ranks have waited for others to come.
    waiting_since_ms: Option<u64>,
    init_limit_ms: u64,
    end_at_ms: Option<u64>,
    children_before: Vec<i32>,
}

impl<'a> Starter<'a> {
    fn new(job: &'a Parts, meeting: Meeting) -> Result<Starter<'a>> {
        let signals = Signals::new(&[
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGUSR2,
            libc::SIGTSTP,
            libc::SIGCHLD,
        ])?;
        process::become_subreaper()?;
        let limit =
            environment::duration("KUMIKI_INIT_TIMEOUT")?.map_or(120_000, |time| time.as_millis() as u64);
        Ok(Starter {
            job,
            meeting,
            signals,
            running: Vec::new(),
            kill_at_ms: None,
            asked: None,
            blamed: None,
            first_failed: None,
            waiting_since_ms: None,
            // A little sooner than the ranks themselves give up, for we know who is missing.
            init_limit_ms: limit.saturating_sub(1_000).max(limit / 2),
            end_at_ms: job.timeout.map(|timeout| time::now_ms() + timeout.as_millis() as u64),
            children_before: process::children(),
        })
    }

    fn start(&mut self, file: &Held) -> Result<()> {
        let mut offset = 0;
        for (index, part) in self.job.parts.iter().enumerate() {
            let line = command_line(part, offset, file.path());
            offset += part.ranks;
            let missing = || RunError::Options(format!("{}: there is no {}", part.title, line[0].display()));
            let mut command = file::command(&line[0]).ok_or_else(missing)?;
            command.args(&line[1..]);
            // A launcher in the background that reads a terminal would be stopped.
            if index > 0 || !self.job.forward_input || std::io::stdin().is_terminal() {
                command.stdin(Stdio::null());
            }
            let setup = ChildSetup { parent_death: Some(libc::SIGTERM), ..ChildSetup::default() };
            let child = process::spawn(command, setup).map_err(|error| {
                let launcher = line[0].to_string_lossy();
                RunError::Options(format!("{}: cannot start `{launcher}`: {error}", part.title))
            })?;
            self.running.push(Running { child, code: None, tell_at_ms: None, told: false });
        }
        Ok(())
    }

    fn run(&mut self) -> Result<i32> {
        loop {
            if self.meeting.serve(self.signals.as_fd(), self.wake_up_at())? {
                self.read_signals();
            }
            self.look_at_meeting();
            self.reap();
            self.look_at_clock();
            if self.running.iter().all(|part| part.code.is_some()) {
                return Ok(self.exit_code());
            }
        }
    }

    fn wake_up_at(&self) -> u64 {
        let untold = self.running.iter().filter(|part| part.code.is_none() && !part.told);
        let telling = untold.filter_map(|part| part.tell_at_ms).min();
        let waiting = self.waiting_since_ms.map(|since_ms| since_ms + self.init_limit_ms);
        [telling, self.kill_at_ms, waiting, self.end_at_ms].into_iter().flatten().fold(u64::MAX, u64::min)
    }

    fn read_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => {}
                libc::SIGUSR2 => self.meeting.survey(),
                libc::SIGTSTP => self.suspend(),
                signal => self.interrupt(signal),
            }
        }
    }

    /// The first time the launchers get the signal and a grace; the second time everything is killed.
    fn interrupt(&mut self, signal: i32) {
        let now_ms = time::now_ms();
        if self.asked.is_some() {
            return self.kill();
        }
        self.asked = Some(128 + signal);
        self.meeting.interrupt(signal);
        // Launchers know what these two mean.
        self.tell(if signal == libc::SIGINT { signal } else { libc::SIGTERM });
        self.running.iter_mut().for_each(|part| part.told = true);
        self.kill_at_ms = Some(now_ms + GRACE_MS);
    }

    /// Ctrl-Z: the parts stop, then we do; when we go on, so do they.
    fn suspend(&mut self) {
        self.tell(libc::SIGTSTP);
        process::stop_self();
        self.meeting.excuse_silence();
        self.tell(libc::SIGCONT);
    }

    fn tell(&self, signal: i32) {
        self.running.iter().for_each(|part| part.tell(signal));
    }

    /// Takes note of launchers that have ended.
    fn reap(&mut self) {
        let mut failed = false;
        for (part, running) in self.job.parts.iter().zip(&mut self.running) {
            if running.code.is_some() {
                continue;
            }
            if let Ok(Some(status)) = running.child.try_wait() {
                running.code = Some(code_of(status));
                if let Some(code) = running.failed() {
                    report::print(&format!("{} ended with code {code}", part.title));
                    if self.kill_at_ms.is_none() {
                        self.first_failed.get_or_insert(code);
                    }
                    failed = true;
                }
            }
        }
        if failed && !self.meeting.continues_on_loss() {
            self.end(COURTESY_MS);
        }
    }

    /// Ends the job. Foreign launchers are told after so long; the part to blame is left alone for longer, because how its
    /// launcher ends tells how its rank did.
    fn end(&mut self, courtesy_ms: u64) {
        let now_ms = time::now_ms();
        self.kill_at_ms.get_or_insert(now_ms + PATIENCE_MS + GRACE_MS);
        for (index, (running, part)) in self.running.iter_mut().zip(&self.job.parts).enumerate() {
            let wait_ms = match part.is_ours {
                _ if self.blamed == Some(index) => PATIENCE_MS,
                true => 0,
                false => courtesy_ms,
            };
            running.tell_at_ms.get_or_insert(now_ms + wait_ms);
        }
    }

    fn look_at_meeting(&mut self) {
        if let (Some(failure), None) = (self.meeting.failure(), self.blamed) {
            self.blamed = failure.lost.map(|rank| self.part_of(rank));
            self.end(COURTESY_MS);
        }
        let missing = self.meeting.missing();
        if missing.is_empty() || self.kill_at_ms.is_some() {
            self.waiting_since_ms = None;
            return;
        }
        let now_ms = time::now_ms();
        let since_ms = *self.waiting_since_ms.get_or_insert(now_ms);
        let gone = missing.iter().find(|&&rank| self.running[self.part_of(rank)].code.is_some());
        if let Some(&rank) = gone {
            let part = self.part_of(rank);
            let title = &self.job.parts[part].title;
            let ranks = self.list(&missing, part);
            self.meeting
                .end(1, format!("{title} has ended, but {ranks} never joined the world that others wait in"));
        } else if now_ms >= since_ms + self.init_limit_ms {
            let part = self.part_of(missing[0]);
            let (title, ranks) = (&self.job.parts[part].title, self.list(&missing, part));
            let seconds = self.init_limit_ms as f64 / 1000.0;
            self.meeting.end(
                1,
                format!("{ranks} of {title} did not join within {seconds:.1} s after others (KUMIKI_INIT_TIMEOUT)"),
            );
        }
    }

    /// The part that a rank belongs to.
    fn part_of(&self, rank: u32) -> usize {
        let mut end = 0;
        let mut past = |part: &Part| {
            end += part.ranks;
            rank >= end
        };
        self.job.parts.iter().take_while(|part| past(part)).count().min(self.job.parts.len() - 1)
    }

    /// Those of these ranks that belong to a part, for people.
    fn list(&self, ranks: &[u32], part: usize) -> String {
        let of_part: Vec<u32> = ranks.iter().copied().filter(|&rank| self.part_of(rank) == part).collect();
        let shown: Vec<String> = of_part.iter().take(8).map(u32::to_string).collect();
        let more = if of_part.len() > shown.len() { " and others" } else { "" };
        let noun = if of_part.len() == 1 { "rank" } else { "ranks" };
        format!("{noun} {}{more}", shown.join(", "))
    }

    fn look_at_clock(&mut self) {
        let now_ms = time::now_ms();
        if self.end_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.end_at_ms = None;
            let seconds = self.job.timeout.unwrap_or_default().as_secs_f64();
            report::print(&format!("the job did not end within {seconds} s (KUMIKI_TIMEOUT)"));
            self.asked.get_or_insert(124);
            self.end(0);
        }
        for part in
            self.running.iter_mut().filter(|part| part.tell_at_ms.is_some_and(|at_ms| at_ms <= now_ms))
        {
            if part.code.is_none() && !std::mem::replace(&mut part.told, true) {
                part.tell(libc::SIGTERM);
            }
        }
        if self.kill_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.kill_at_ms = Some(now_ms + GRACE_MS);
            self.kill();
        }
    }

    /// Kills the launchers, and what they leave behind.
    fn kill(&self) {
        for part in self.running.iter().filter(|part| part.code.is_none()) {
            let _ = process::signal_group(part.child.id() as i32, libc::SIGKILL);
        }
    }

    fn exit_code(&self) -> i32 {
        let blamed = self.blamed.and_then(|part| self.running[part].failed());
        let failure = self.meeting.failure().map(|failure| failure.code);
        self.asked.or(blamed).or(self.first_failed).or(failure).unwrap_or(0)
    }
}

impl Drop for Starter<'_> {
    /// Nothing of the job is left: what launchers have not ended has become ours.
    fn drop(&mut self) {
        self.kill();
        process::bury_children(&self.children_before, BURIAL_MS);
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(launcher: &str, is_ours: bool, ranks: u32) -> Part {
        let words = |line: &str| line.split(' ').map(OsString::from).collect();
        Part { title: "it".into(), launcher: words(launcher), is_ours, ranks, program: words("./a -x") }
    }

    #[test]
    fn a_part_is_told_its_ranks_and_where_the_others_are() {
        let line = |part: &Part| {
            let line = command_line(part, 3, "/f".into());
            line.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line(&part("mpirun -q", false, 2)),
            "mpirun -q -n 2 env KUMIKI_PORTFILE=/f KUMIKI_OFFSET_RANK=3 ./a -x"
        );
        assert_eq!(line(&part("acprun", true, 1)), "acprun -n 1 -multirun -portfile /f -offsetrank 3 ./a -x");
    }

    #[test]
    fn a_portfile_is_private_and_goes_with_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("kumiki-parts-{}", std::process::id()));
        for place in [None, Some(path.as_path())] {
            let held = Held::new(place, "text").unwrap();
            let file = held.path();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            if place.is_some() {
                assert!(Held::new(place, "other").is_err());
                assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
            }
            drop(held);
            assert!(!Path::new(&file).exists());
        }
    }
}
