//! Starting a job, with a watchdog, and looking for what it left behind.

use crate::rank::ACTION;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A job that takes longer than this has hung.
const WATCHDOG: Duration = Duration::from_secs(60);

/// The environment variable by which the processes of one job are told from all others.
const MARK: &str = "E2E_MARK";

/// The `kumiki` command.
pub(crate) fn kumiki() -> PathBuf {
    env!("CARGO_BIN_EXE_kumiki").into()
}

/// This test program as a rank: program and arguments.
pub(crate) fn rank_command() -> Vec<String> {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_string();
    [&program, "--exact", "rank::rank_body", "--nocapture", "-q"].map(String::from).to_vec()
}

/// One `kumiki run`.
pub(crate) struct Job {
    command: Command,
    mark: String,
    input: Vec<u8>,
}

impl Job {
    /// `kumiki run` with these options and this program.
    pub(crate) fn new(options: &[&str], program: &[&str]) -> Job {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new(kumiki());
        command.arg("run").args(options).args(program).env(MARK, &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Job { command, mark, input: Vec::new() }
    }

    /// `kumiki run` of ranks that carry out this action.
    pub(crate) fn ranks(options: &[&str], action: &str) -> Job {
        let command = rank_command();
        let program: Vec<&str> = command.iter().map(String::as_str).collect();
        Job::new(options, &program).env(ACTION, action)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Job {
        self.command.env(name, value);
        self
    }

    pub(crate) fn input(mut self, bytes: &[u8]) -> Job {
        self.input = bytes.to_vec();
        self
    }

    /// Starts it, to be meddled with.
    pub(crate) fn start(mut self) -> Running {
        let mut child = self.command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let input = self.input;
        std::thread::spawn(move || pipe.write_all(&input));
        Running { child, mark: self.mark }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Ended {
        self.start().wait()
    }
}

/// A job that runs.
pub(crate) struct Running {
    child: Child,
    mark: String,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: i32) {
        send_signal(self.pid(), signal);
    }

    /// The processes of the job whose command line contains `text`.
    pub(crate) fn processes(&self, text: &str) -> Vec<u32> {
        marked(&self.mark).into_iter().filter(|(_, line)| line.contains(text)).map(|(pid, _)| pid).collect()
    }

    /// Waits until the job has this many processes with `text` in their command line.
    pub(crate) fn wait_for(&self, count: usize, text: &str) -> Vec<u32> {
        let start = Instant::now();
        loop {
            let found = self.processes(text);
            if found.len() >= count {
                return found;
            }
            assert!(start.elapsed() < WATCHDOG, "{count} processes with {text} never came");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end; nothing of the job may be left then.
    pub(crate) fn wait(self) -> Ended {
        let Running { child, mark } = self;
        let pid = child.id();
        let (done, watch) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            let hung = watch
                .recv_timeout(WATCHDOG)
                .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout);
            if hung {
                send_signal(pid, libc::SIGKILL);
            }
            hung
        });
        let output = child.wait_with_output().unwrap();
        drop(done);
        let ended = Ended { output };
        assert!(!watchdog.join().unwrap(), "the job hung:\n{}{}", ended.stdout(), ended.stderr());
        assert_nothing_left(&mark);
        ended
    }
}

/// A job that has ended.
pub(crate) struct Ended {
    output: Output,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Fails unless the exit code and what the launcher said are as expected.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, said: &str) -> &Ended {
        let all = format!("{}{}", self.stdout(), self.stderr());
        assert_eq!(self.code(), Some(code), "{all}");
        assert!(all.contains(said), "`{said}` is not in:\n{all}");
        self
    }
}

/// Sends a signal with the tool that every system has.
pub(crate) fn send_signal(pid: u32, signal: i32) {
    let status = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status().unwrap();
    assert!(status.success(), "kill -{signal} {pid}");
}

/// Waits a little for the processes of a job to be gone (the kernel takes its time), then fails.
#[track_caller]
pub(crate) fn assert_nothing_left(mark: &str) {
    let start = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(5), "processes are left: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Every process with this mark in its environment: number and command line.
fn marked(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("{MARK}={mark}\0");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned() + "\0";
        if environment.contains(&wanted) {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}
