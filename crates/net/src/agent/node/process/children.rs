//! Starting, signalling and burying the processes of ranks.

use super::streams::{Input, Outputs};
use super::Agent;
use crate::agent::node::seat::{Seat, Standing};
use crate::agent::node::Node;
use crate::agent::protocol::{Ending, ToHub};
use crate::os::process::{self, ChildEvent, ChildSetup};
use crate::os::{socket, time};
use crate::shm::world::Cause;
use crate::{Error, Result};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The process of a rank.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: u32,
    pub(super) path: PathBuf,
    pub(super) ended: bool,
    /// Since when it has been stopped.
    pub(super) stopped_ms: Option<u64>,
}

impl Child {
    pub(super) fn new(path: PathBuf) -> Child {
        Child { pid: 0, path, ended: false, stopped_ms: None }
    }

    /// Starts to count anew how long it has been stopped: we were not looking.
    pub(super) fn forgive(&mut self, now_ms: u64) {
        if self.stopped_ms.is_some() {
            self.stopped_ms = Some(now_ms);
        }
    }
}

/// Starts one rank and gives it its seat.
pub(super) fn spawn(
    node: &mut Node,
    path: &std::path::Path,
    rank: u32,
    core: Option<u32>,
    outputs: &mut Outputs,
    input: &mut Input,
) -> Result<Child> {
    let launch = &node.launch;
    let local = node.seats.len() as u32;
    let (ours, theirs) = socket::packet_pair()?;
    let mut command = Command::new(path);
    command.arg0(OsStr::from_bytes(&launch.command[0]));
    command.args(launch.command[1..].iter().map(|word| OsStr::from_bytes(word)));
    // A world that we are a part of is not that of our ranks, unless the launcher says so.
    command.env_remove("KUMIKI_PORTFILE").env_remove("KUMIKI_OFFSET_RANK");
    for (name, value) in &launch.environment {
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    command.env("KUMIKI_AGENT_FD", theirs.as_raw_fd().to_string());
    command.env("KUMIKI_RANK", rank.to_string()).env("KUMIKI_RANKS", launch.ranks.to_string());
    if !launch.directory.is_empty() {
        command.current_dir(OsStr::from_bytes(&launch.directory));
    }
    let takes_input = rank == 0 && launch.forward_input;
    command.stdin(if takes_input { Stdio::piped() } else { Stdio::null() });
    if launch.pipe_output {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let setup = ChildSetup {
        keep: Some(theirs.as_fd()),
        parent_death: Some(libc::SIGKILL),
        core,
        own_network: false,
    };
    let mut child = process::spawn(command, setup).map_err(|error| Error::from_io("exec", &error))?;
    if let Some(pipe) = child.stdin.take() {
        input.open(pipe.into())?;
    }
    if let (Some(output), Some(error)) = (child.stdout.take(), child.stderr.take()) {
        outputs.add(&node.epoll, local, output.into(), error.into())?;
    }
    node.add_seat(rank, ours)?;
    Ok(Child { pid: child.id(), path: path.to_path_buf(), ended: false, stopped_ms: None })
}

/// Kills every child that is left, orphans of ranks included.
pub(super) fn kill_orphans() {
    for pid in process::children() {
        let _ = process::signal(pid, libc::SIGKILL);
    }
}

impl Agent {
    /// Takes note of what happened to children.
    pub(super) fn reap(&mut self) -> Result<()> {
        while let Some((pid, event)) = process::next_child_event()? {
            let Some(local) = self.children.iter().position(|child| child.pid == pid as u32 && !child.ended)
            else {
                continue; // an orphan that we adopted
            };
            match event {
                ChildEvent::Stopped => self.children[local].stopped_ms = Some(time::now_ms()),
                ChildEvent::Continued => self.children[local].stopped_ms = None,
                ChildEvent::Exited(code) => self.child_ended(local as u32, Ending::Code(code)),
                ChildEvent::Killed(signal) => self.child_ended(local as u32, Ending::Signal(signal)),
            }
        }
        Ok(())
    }

    fn child_ended(&mut self, local: u32, ending: Ending) {
        self.children[local as usize].ended = true;
        self.children[local as usize].stopped_ms = None;
        let Some(node) = &mut self.desk.node else { return };
        // What it said before it ended comes first.
        node.receive_rank(local);
        self.outputs.read(&node.epoll, local, &mut node.outbox);
        node.outbox.push(ToHub::Ended { local, ending });
        node.rank_gone(local, ending.cause(), None);
        // Whatever it was to the world: a descriptor of the dead stays readable, and would never let us sleep again.
        node.seats[local as usize].pidfd = None;
    }

    /// A rank that has been stopped for too long counts as lost, and must not come back.
    pub(super) fn check_stopped(&mut self, now_ms: u64, timeout_ms: u64) {
        if self.suspended {
            return;
        }
        let Some(node) = &mut self.desk.node else { return };
        for (local, child) in self.children.iter_mut().enumerate() {
            if child.stopped_ms.is_none_or(|since_ms| now_ms < since_ms + timeout_ms) {
                continue;
            }
            let local = local as u32;
            let news = ToHub::Lost { local, cause: Cause::STOPPED };
            match node.seats[local as usize].standing {
                Standing::In | Standing::Pending => {
                    child.stopped_ms = None;
                    // What is stopped and then killed does nothing more.
                    let _ = process::signal_group(child.pid as i32, libc::SIGKILL);
                    node.rank_gone(local, Cause::STOPPED, Some(news));
                }
                // Whether anybody waits for it the hub knows: it answers with the loss, or not, and is asked again.
                Standing::Out => {
                    child.stopped_ms = Some(now_ms);
                    node.outbox.push(news);
                }
                // The next world may need it.
                Standing::Left => child.stopped_ms = Some(now_ms),
                Standing::Lost => child.stopped_ms = None,
            }
        }
    }

    /// A rank of ours that the world has given up must not come back, if this is how it stands.
    pub(super) fn fence(&mut self, rank: u32, stands: impl Fn(&Seat) -> bool) {
        let Some(node) = &self.desk.node else { return };
        let position = node.seats.iter().position(|seat| seat.rank == rank);
        let Some(local) = position.filter(|&local| stands(&node.seats[local])) else { return };
        if let Some(child) = self.children.get(local).filter(|child| !child.ended && child.pid != 0) {
            let _ = process::signal_group(child.pid as i32, libc::SIGKILL);
            if let Some(joined) = &node.seats[local].pidfd {
                let _ = process::signal_pidfd(joined.as_fd(), libc::SIGKILL);
            }
        }
    }

    /// Sends a signal to the process group of every rank that has not ended.
    pub(super) fn signal_ranks(&mut self, signal: i32) {
        for child in self.children.iter().filter(|child| !child.ended && child.pid != 0) {
            let _ = process::signal_group(child.pid as i32, signal);
        }
    }

    pub(super) fn suspend(&mut self, on: bool) {
        self.suspended = on;
        self.children.iter_mut().for_each(|child| child.forgive(time::now_ms()));
        self.desk.heard_ms = time::now_ms();
        self.signal_ranks(if on { libc::SIGSTOP } else { libc::SIGCONT });
    }

    pub(super) fn terminate(&mut self, signal: i32, grace_ms: u32, reason: &str) {
        self.ending = true;
        if !self.started {
            self.children.clear();
        }
        if let Some(node) = &mut self.desk.node {
            node.announce_end(reason);
            node.settle();
        }
        self.signal_ranks(signal);
        if signal != libc::SIGKILL {
            // A stopped process would not see the signal.
            self.signal_ranks(libc::SIGCONT);
        }
        let at_ms = time::now_ms() + grace_ms as u64;
        self.kill_at_ms = Some(self.kill_at_ms.map_or(at_ms, |before_ms| before_ms.min(at_ms)));
    }

    /// The launcher is gone, or we are told to go: nothing may be left.
    pub(super) fn kill_everything(&mut self) {
        self.signal_ranks(libc::SIGKILL);
        let limit_ms = time::now_ms() + 2_000;
        while !process::children().is_empty() && time::now_ms() < limit_ms {
            kill_orphans();
            while matches!(process::next_child_event(), Ok(Some(_))) {}
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}
