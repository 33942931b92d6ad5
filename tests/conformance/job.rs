//! Starting a job and watching it: after a time it is killed, with the stacks of its ranks, and the test fails.

use crate::way::{ProcessVm, Way};
use libtest_mimic::Failed;
use std::fmt::Write as _;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// How long a job may take before the watchdog ends it. Most take less than a second, but every message between ranks
/// can wait for its turn behind everything else that runs on the machine, which makes hundreds of times that of some.
const LIMIT: Duration = Duration::from_secs(400);
/// How long the output of a job that has ended may take.
const OUTPUT_LIMIT: Duration = Duration::from_secs(10);

/// A job to run.
pub(crate) struct Job {
    command: Command,
    name: String,
}

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Ended {
    name: String,
    status: ExitStatus,
    pub(crate) output: String,
    /// What the watchdog saw, if it had to act.
    stacks: Option<String>,
}

impl Job {
    /// Ranks of this program under `kumiki run`.
    pub(crate) fn new(way: &Way, topic: &str, ranks: u32) -> Job {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki"));
        let nodes = way.nodes_of(ranks).to_string();
        command.args(["run", "--tag-output", "-n", &ranks.to_string(), "--virtual-nodes", &nodes]);
        command.arg(std::env::current_exe().expect("this program has a path"));
        Job::of(command, way, topic)
    }

    /// One process of this program without a launcher.
    pub(crate) fn alone(way: &Way, topic: &str) -> Job {
        let command = Command::new(std::env::current_exe().expect("this program has a path"));
        Job::of(command, way, topic)
    }

    fn of(mut command: Command, way: &Way, topic: &str) -> Job {
        command.args(["--rank", way.name, topic]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("KUMIKI_") {
                command.env_remove(name);
            }
        }
        if way.process_vm == ProcessVm::Off {
            command.env("KUMIKI_PROCESS_VM", "off");
        }
        command.env("RUST_BACKTRACE", "0");
        Job { command, name: format!("{} over {}", topic, way.name) }
    }

    /// The same with a variable set.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Job {
        self.command.env(name, value);
        self
    }

    /// Starts it.
    pub(crate) fn start(mut self) -> Running {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the job starts");
        let outputs = [read(child.stdout.take()), read(child.stderr.take())];
        Running { child, outputs, name: self.name }
    }

    /// Runs it to its end, which the watchdog brings about if need be.
    pub(crate) fn run(self) -> Ended {
        self.start().wait()
    }
}

/// A job that has been started.
pub(crate) struct Running {
    child: Child,
    outputs: [Receiver<String>; 2],
    name: String,
}

impl Running {
    /// Waits for its end, which the watchdog brings about if need be.
    pub(crate) fn wait(mut self) -> Ended {
        let pid = self.child.id();
        let (ended, watch) = mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || match watch.recv_timeout(LIMIT) {
            Err(RecvTimeoutError::Timeout) => {
                let stacks = stacks(pid);
                // SAFETY: kill touches no memory. The child has not been waited for, so its number is its own.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
                Some(stacks)
            }
            _ => None,
        });
        let status = self.child.wait().expect("the job can be waited for");
        drop(ended);
        let stacks = watchdog.join().expect("the watchdog does not panic");
        let mut output = String::new();
        for part in self.outputs {
            // Somebody who outlives the job may hold the pipe: that is a failure of its own, and must not hang.
            let text = part.recv_timeout(OUTPUT_LIMIT);
            output.push_str(text.as_deref().unwrap_or("(a process of the job has not closed its output)\n"));
        }
        Ended { name: self.name, status, output, stacks }
    }
}

impl Ended {
    /// Nothing wrong happened.
    pub(crate) fn success(self) -> Result<(), Failed> {
        self.code(0).map(drop)
    }

    /// It ended by itself, with this exit code.
    pub(crate) fn code(self, code: i32) -> Result<Ended, Failed> {
        let wanted = self.stacks.is_none() && self.status.code() == Some(code);
        if wanted {
            Ok(self)
        } else {
            Err(self.failure(&format!("it should have ended with exit code {code}")))
        }
    }

    /// A failure with all that is known.
    pub(crate) fn failure(&self, why: &str) -> Failed {
        let mut text = format!("{}: {why}; {}\n", self.name, self.status);
        if let Some(stacks) = &self.stacks {
            let _ = writeln!(text, "it was killed after {} s; its ranks:\n{stacks}", LIMIT.as_secs());
        }
        let _ = writeln!(text, "its output:\n{}", self.output);
        text.into()
    }

    /// Fails unless something holds.
    pub(crate) fn expect(&self, holds: bool, what: &str) -> Result<(), Failed> {
        if holds {
            Ok(())
        } else {
            Err(self.failure(what))
        }
    }
}

fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receive
}

/// The stacks of the processes below `root` that are ranks, if there is a debugger.
fn stacks(root: u32) -> String {
    let mut text = String::new();
    for pid in descendants(root) {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if !String::from_utf8_lossy(&command).contains("--rank") {
            continue;
        }
        let pid = pid.to_string();
        let debugger = Command::new("timeout")
            .args(["20", "gdb", "-p", &pid, "-batch", "-ex", "thread apply all backtrace 30"])
            .stdin(Stdio::null())
            .output();
        match debugger {
            Ok(output) => text.push_str(&String::from_utf8_lossy(&output.stdout)),
            Err(error) => drop(writeln!(text, "process {pid}: no stack ({error})")),
        }
    }
    text
}

fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    found
}
