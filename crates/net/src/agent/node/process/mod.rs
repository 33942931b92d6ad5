//! The agent as a process of its own: the parent of the ranks of its node.
//!
//! One thread, one epoll. The launcher is at the other end of the link; when that ends, so do the ranks.

mod children;
mod program;
mod streams;

use super::desk::{Desk, Tick};
use super::port::Port;
use super::seat::Seat;
use super::{token, Node};
use crate::agent::link::Link;
use crate::agent::protocol::{Launch, Listen, ToHub, ToNode};
use crate::agent::report;
use crate::auth::Secret;
use crate::environment;
use crate::os::descriptor::{self, Readiness};
use crate::os::process::{self, Signals};
use crate::os::time;
use crate::shm::world::Cause;
use crate::{Error, Result};
use children::Child;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use streams::{Input, Outputs};

/// How long processes that outlive their rank have to end by themselves.
const ORPHAN_MS: u64 = 200;

/// How long the launcher may take to take the last output of a job that is being ended.
const LEAVE_MS: u64 = 5_000;

/// Runs an agent whose launcher is at the other end of these descriptors, and has left it the job's secret. Returns the exit
/// code of the process.
pub fn serve(secret: Secret, input: OwnedFd, output: OwnedFd) -> i32 {
    match Agent::new(secret, input, output).and_then(|mut agent| agent.run()) {
        Ok(()) => 0,
        Err(error) => {
            report::print(&format!("the agent of a node fails: {error}"));
            1
        }
    }
}

struct Agent {
    secret: Secret,
    desk: Desk,
    signals: Signals,
    children: Vec<Child>,
    outputs: Outputs,
    input: Input,
    started: bool,
    /// When processes that are left are killed.
    kill_at_ms: Option<u64>,
    ending: bool,
    /// Every rank has ended, and we have said so.
    done: bool,
    /// When what the launcher has not taken of the last output is given up.
    leave_at_ms: Option<u64>,
    suspended: bool,
}

impl Agent {
    fn new(secret: Secret, input: OwnedFd, output: OwnedFd) -> Result<Agent> {
        process::become_subreaper()?;
        let signals =
            Signals::new(&[libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE])?;
        let mut desk = Desk::new()?;
        desk.epoll.add(signals.as_fd(), token::SIGNALS, false)?;
        desk.connect(Link::new(input, output, false)?)?;
        // The greeting.
        desk.settle();
        Ok(Agent {
            secret,
            desk,
            signals,
            children: Vec::new(),
            outputs: Outputs::default(),
            input: Input::default(),
            started: false,
            kill_at_ms: None,
            ending: false,
            done: false,
            leave_at_ms: None,
            suspended: false,
        })
    }

    fn run(&mut self) -> Result<()> {
        loop {
            let events = self.desk.wait(self.wake_up_at(), 60_000)?;
            let busy = !events.is_empty();
            for (token, readiness) in events {
                self.handle_event(token, readiness)?;
            }
            if self.desk.is_cut_off() {
                self.kill_everything();
                return Ok(());
            }
            if self.desk.is_time(busy) {
                self.tick()?;
            }
            self.desk.conclude(busy);
            if let Some(node) = &self.desk.node {
                self.outputs.throttle(&node.epoll, self.desk.backlog_bytes());
            }
            if self.is_over() && !std::mem::replace(&mut self.done, true) {
                self.wind_up()?;
            }
            if self.done && self.may_leave() {
                return Ok(());
            }
        }
    }

    fn handle_event(&mut self, token: u64, readiness: Readiness) -> Result<()> {
        let index = token as u32;
        match token & !0xffff_ffff {
            0 => match token {
                token::LINK => self.read_link()?,
                token::SIGNALS => self.read_signals()?,
                token::INPUT => self.push_input(),
                token::PORT => self.desk.serve_port(token),
                _ => {}
            },
            token::CHANNEL => {
                if let Some(node) = &mut self.desk.node {
                    if readiness.readable || readiness.hung_up {
                        node.receive_rank(index);
                    }
                    if readiness.writable {
                        node.flush_rank(index);
                    }
                }
            }
            token::PIDFD => self.joined_process_ended(index),
            token::OUTPUT => self.read_output(index, false),
            token::ERROR => self.read_output(index, true),
            _ => self.desk.serve_port(token),
        }
        Ok(())
    }

    fn read_link(&mut self) -> Result<()> {
        for message in self.desk.hear()? {
            self.handle_hub(ToNode::decode(&message)?)?;
        }
        Ok(())
    }

    fn handle_hub(&mut self, message: ToNode) -> Result<()> {
        match message {
            ToNode::Launch(launch) => {
                if let Err(error) = self.prepare(*launch) {
                    let (code, message) = match error {
                        program::Trouble::NotFound(message) => (127, message),
                        program::Trouble::NoDirectory(message) => (2, message),
                        program::Trouble::NotExecutable(message) => (126, message),
                        program::Trouble::Other(error) => (1, error.to_string()),
                    };
                    self.tell(ToHub::Failed { code, message });
                }
            }
            ToNode::Start => self.start()?,
            ToNode::Signal { signal } => self.signal_ranks(signal),
            ToNode::Suspend(on) => self.suspend(on),
            ToNode::Input(bytes) => {
                self.input.queue(bytes);
                self.push_input();
            }
            ToNode::Terminate { signal, grace_ms, reason } => self.terminate(signal, grace_ms, &reason),
            ToNode::Describe => self.describe(),
            // Its end is noticed as that of any child.
            ToNode::Fence { rank } => self.fence(rank.0, Seat::can_be_given_up),
            ToNode::Heartbeat => {}
            other => {
                // Before anybody here takes over what it held.
                if let ToNode::Loss { rank, .. } = &other {
                    self.fence(rank.0, |_| true);
                }
                if let Some(node) = &mut self.desk.node {
                    if let Err(error) = node.handle_hub(other) {
                        let message = format!("the arena of the node: {error}");
                        self.tell(ToHub::Failed { code: 1, message });
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks everything that can be checked before a process is started.
    fn prepare(&mut self, launch: Launch) -> std::result::Result<(), program::Trouble> {
        if launch.remote {
            // What the launcher's user set for agents counts here too. This process has one thread.
            let ours = launch.environment.iter().filter(|(name, _)| name.starts_with(b"KUMIKI_"));
            ours.for_each(|(name, value)| {
                std::env::set_var(OsStr::from_bytes(name), OsStr::from_bytes(value))
            });
        }
        let path = program::find(&launch)?;
        let pipes = if launch.pipe_output { 2 } else { 0 };
        let needed = 32 + launch.here.len() as u64 * (2 + pipes);
        let limit = descriptor::raise_limit()?;
        if limit < needed {
            return Err(program::Trouble::Other(Error::Refused(format!(
                "{} ranks on a node need {needed} open files, the limit is {limit}: raise it (ulimit -n {needed})",
                launch.here.len()
            ))));
        }
        if self.desk.node.is_some() {
            return Err(program::Trouble::Other(Error::Refused("a second launch".into())));
        }
        let port = Port::bind(listen_on(&launch.listen)?, token::PORT, token::STRANGER)?;
        let address = port.address();
        let node = Node::new(launch, self.secret.duplicate(), self.desk.epoll.clone(), port)?;
        self.desk.node = Some(node);
        self.children = vec![Child::new(path)];
        self.tell(ToHub::Prepared { address });
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        let Some(path) = self.children.pop().map(|template| template.path) else { return Ok(()) };
        let Some(node) = &self.desk.node else { return Ok(()) };
        self.started = true;
        let ranks = node.launch.here.clone();
        let cores = if node.launch.bind_cores { process::allowed_cores() } else { Vec::new() };
        let before = node.launch.machine_before as usize;
        for (local, &rank) in ranks.iter().enumerate() {
            // Many ranks take their time, and the launcher must not think that we are gone.
            self.desk.beat(time::now_ms());
            let Some(node) = &mut self.desk.node else { break };
            let core = cores.get((before + local) % cores.len().max(1)).copied();
            match children::spawn(node, &path, rank, core, &mut self.outputs, &mut self.input) {
                Ok(child) => self.children.push(child),
                Err(error) => {
                    let message = format!("cannot start {}: {error}", path.display());
                    self.tell(ToHub::Failed { code: 126, message });
                    break;
                }
            }
        }
        Ok(())
    }

    /// A message for the hub.
    fn tell(&mut self, message: ToHub) {
        self.desk.tell(&message);
    }

    fn wake_up_at(&self) -> u64 {
        let stopped = self.children.iter().filter_map(|child| child.stopped_ms).min();
        let stopped = stopped.filter(|_| !self.suspended).map(|since_ms| since_ms + self.desk.timeout_ms());
        let own = [self.kill_at_ms, self.leave_at_ms, stopped];
        own.into_iter().flatten().fold(self.desk.wake_up_at(), u64::min)
    }

    fn tick(&mut self) -> Result<()> {
        let now_ms = time::now_ms();
        let Some(Tick { timeout_ms, slept, .. }) = self.desk.tick(now_ms) else { return Ok(()) };
        if slept {
            self.children.iter_mut().for_each(|child| child.forgive(now_ms));
        }
        let remote = self.desk.node.as_ref().is_some_and(|node| node.launch.remote);
        if remote && !self.suspended && now_ms >= self.desk.heard_ms + timeout_ms {
            report::print(&format!(
                "the launcher has not answered for {} s; this node ends",
                timeout_ms / 1000
            ));
            self.kill_everything();
            return Err(Error::Timeout { what: "waiting for the launcher".into(), after_ms: timeout_ms });
        }
        self.check_stopped(now_ms, timeout_ms);
        if self.kill_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.kill_at_ms = None;
            self.signal_ranks(libc::SIGKILL);
            children::kill_orphans();
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        (self.started || self.ending) && self.children.iter().all(|child| child.ended)
    }

    /// Every rank has ended: what they left behind ends too, and the last output is on its way.
    fn wind_up(&mut self) -> Result<()> {
        let limit_ms = time::now_ms() + if self.ending { 0 } else { ORPHAN_MS };
        while !process::children().is_empty() && time::now_ms() < limit_ms + 2_000 {
            while process::next_child_event()?.is_some() {}
            if time::now_ms() >= limit_ms {
                children::kill_orphans();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(node) = &mut self.desk.node {
            self.outputs.drain(&mut node.outbox);
        }
        self.desk.settle();
        self.tell(ToHub::Done);
        self.desk.settle();
        Ok(())
    }

    /// Whether the launcher has everything. Whoever reads it may take as long as it likes, unless the job is being ended.
    fn may_leave(&mut self) -> bool {
        let now_ms = time::now_ms();
        if self.ending {
            self.leave_at_ms.get_or_insert(now_ms + LEAVE_MS);
        }
        self.desk.backlog_bytes() == 0 || self.leave_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }

    fn describe(&mut self) {
        let Some(node) = &mut self.desk.node else { return };
        let mut waits = node.waits();
        for (wait, child) in waits.iter_mut().zip(&self.children) {
            if child.stopped_ms.is_some() {
                wait.doing = format!("is stopped; it {}", wait.doing);
            }
        }
        node.outbox.push(ToHub::Waits { waits });
    }

    fn joined_process_ended(&mut self, local: u32) {
        let Some(node) = &mut self.desk.node else { return };
        // What it said before it ended comes first.
        node.receive_rank(local);
        let own = self
            .children
            .get(local as usize)
            .is_some_and(|child| child.pid == node.seats[local as usize].pid);
        if own {
            // The wait for our own child tells more: the exit code, or the signal.
            return self.reap().unwrap_or_default();
        }
        let news = ToHub::Lost { local, cause: Cause::EXITED };
        if !node.rank_gone(local, Cause::EXITED, Some(news)) {
            node.seats[local as usize].pidfd = None;
        }
    }

    fn read_signals(&mut self) -> Result<()> {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD | libc::SIGPIPE => {}
                // Somebody ends the agent: the ranks end with it, and the launcher sees the link close.
                signal => {
                    self.kill_everything();
                    let what = format!("the agent was ended by signal {signal}");
                    self.tell(ToHub::Failed { code: 128 + signal, message: what.clone() });
                    return Err(Error::Closed(what));
                }
            }
        }
        self.reap()
    }
}

/// The address an agent listens on: never the wildcard.
fn listen_on(listen: &Listen) -> Result<IpAddr> {
    match listen {
        Listen::Loopback => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Listen::Address(address) => Ok(address.ip()),
        Listen::Reached => environment::reached_address(),
    }
}
