//! Starting the launchers of a job, and ending with them.

use super::common::Common;
use super::tagged::Tagged;
use super::{Part, Parts};
use crate::{Result, RunError};
use kumiki_net::agent::report;
use kumiki_net::environment;
use kumiki_net::os::process::{self, ChildSetup, Signals};
use kumiki_net::os::{file, time};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};

/// How long a part whose rank was lost may take to tell how it ended.
const PATIENCE_MS: u64 = 4_000;
/// How long other foreign launchers may take to notice by themselves that their ranks have failed: told to end in the
/// middle of that, Open MPI's crashes, and leaves files behind.
const COURTESY_MS: u64 = 1_500;
/// How long launchers may take to end their ranks, before everything is killed.
const GRACE_MS: u64 = 5_000;
/// How long what was killed may take to be gone.
const BURIAL_MS: u64 = 2_000;

/// A launcher that was started.
struct Running {
    child: Child,
    /// Its part.
    part: usize,
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

pub(super) struct Starter<'a> {
    job: &'a Parts,
    meeting: Common,
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
    /// The output of the parts, if each line gets the number of its part.
    tagged: Option<Tagged>,
}

impl<'a> Starter<'a> {
    pub(super) fn new(job: &'a Parts, meeting: Common, tags: bool) -> Result<Starter<'a>> {
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
            tagged: tags.then(Tagged::default),
        })
    }

    /// Starts the next part.
    pub(super) fn start(&mut self, line: Vec<OsString>) -> Result<()> {
        self.start_of(self.running.len(), line)
    }

    /// Starts something of a part.
    pub(super) fn start_of(&mut self, index: usize, line: Vec<OsString>) -> Result<()> {
        let part = &self.job.parts[index];
        let missing = || RunError::Options(format!("{}: there is no {}", part.title, line[0].display()));
        let mut command = file::command(&line[0]).ok_or_else(missing)?;
        command.args(&line[1..]);
        // A launcher in the background that reads a terminal would be stopped.
        if !self.running.is_empty() || !self.job.forward_input || std::io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        if self.tagged.is_some() {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let setup = ChildSetup { parent_death: Some(libc::SIGTERM), ..ChildSetup::default() };
        let mut child = process::spawn(command, setup).map_err(|error| {
            let launcher = line[0].to_string_lossy();
            RunError::Options(format!("{}: cannot start `{launcher}`: {error}", part.title))
        })?;
        if let Some(tagged) = &mut self.tagged {
            tagged.follow(index, &mut child)?;
        }
        self.running.push(Running { child, part: index, code: None, tell_at_ms: None, told: false });
        Ok(())
    }

    pub(super) fn run(&mut self) -> Result<i32> {
        loop {
            if self.meeting.serve(self.signals.as_fd(), self.wake_up_at())? {
                self.read_signals();
            }
            self.look_at_meeting();
            self.reap();
            self.look_at_clock();
            if self.running.iter().all(|part| part.code.is_some()) {
                if let Some(tagged) = self.tagged.take() {
                    tagged.finish();
                }
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
        for running in &mut self.running {
            let part = &self.job.parts[running.part];
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
        for running in &mut self.running {
            let wait_ms = match self.job.parts[running.part].is_ours {
                _ if self.blamed == Some(running.part) => PATIENCE_MS,
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
