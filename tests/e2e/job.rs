//! Starting a job, with a watchdog, and looking for what it left behind.

use crate::rank::ACTION;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A job that takes longer than this has hung.
const WATCHDOG: Duration = Duration::from_secs(200);

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
        // A launcher leaves alone what whoever started it ignores, and that may be so here.
        Job::under("--default-signal=INT,TERM,HUP,TSTP,CHLD", options, program)
    }

    /// The same by way of `env` with this option.
    pub(crate) fn under(signals: &str, options: &[&str], program: &[&str]) -> Job {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new("/usr/bin/env");
        command.arg(signals).arg(kumiki()).arg("run").args(options).args(program).env(MARK, &mark);
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

    /// In a process group of its own, which we could continue if it is stopped: where nobody can, Ctrl-Z stops nobody.
    pub(crate) fn in_own_group(mut self) -> Job {
        std::os::unix::process::CommandExt::process_group(&mut self.command, 0);
        self
    }

    /// Starts it, to be meddled with.
    pub(crate) fn start(mut self) -> Running {
        let mut child = self.command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let input = self.input;
        std::thread::spawn(move || pipe.write_all(&input));
        let output = Stream::read(child.stdout.take().unwrap());
        let errors = Stream::read(child.stderr.take().unwrap());
        Running { child, mark: self.mark, output, errors, began: Instant::now() }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Ended {
        self.start().wait()
    }
}

/// What comes out of a job, as far as it has come.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Stream {
    fn read(mut pipe: impl Read + Send + 'static) -> Stream {
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let shared = bytes.clone();
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                shared.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        Stream { bytes, reader }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// Everything, once all who could write have closed it.
    fn whole(self) -> String {
        self.reader.join().unwrap();
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// A job that runs.
pub(crate) struct Running {
    child: Child,
    mark: String,
    output: Stream,
    errors: Stream,
    began: Instant,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: i32) {
        send_signal(self.pid(), signal);
    }

    /// Waits until the job has this many processes with `text` in their command line.
    pub(crate) fn wait_for(&self, count: usize, text: &str) -> Vec<u32> {
        loop {
            let all = marked(&self.mark).into_iter();
            let found: Vec<u32> =
                all.filter(|process| process.line.contains(text)).map(|process| process.pid).collect();
            if found.len() >= count {
                return found;
            }
            self.watch(&format!("{count} processes with {text} never came"));
        }
    }

    /// Waits until the job has this many processes that are ranks; gives them, by rank.
    pub(crate) fn ranks(&self, count: usize) -> Vec<u32> {
        loop {
            let mut ranks: Vec<(u32, u32)> =
                marked(&self.mark).iter().filter_map(|process| Some((process.rank?, process.pid))).collect();
            ranks.sort_unstable();
            if ranks.len() >= count {
                return ranks.into_iter().map(|(_, pid)| pid).collect();
            }
            self.watch(&format!("{count} ranks never came"));
        }
    }

    /// Waits until this many ranks have joined the world; gives their processes, by rank.
    pub(crate) fn joined(&self, count: usize) -> Vec<u32> {
        while self.output.so_far().matches("attached rank").count() < count {
            self.watch(&format!("{count} ranks never joined"));
        }
        self.ranks(count)
    }

    /// Asks the launcher who waits for whom until an answer contains these words.
    pub(crate) fn until_report(&self, words: &str) {
        // A launcher that has started a rank is ready to be asked.
        self.ranks(1);
        while !self.errors.so_far().contains(words) {
            self.signal(libc::SIGUSR2);
            self.watch(&format!("the report never said `{words}`"));
        }
    }

    /// Lets a little time pass, and fails if the job has taken too much.
    pub(crate) fn watch(&self, what: &str) {
        let said = || format!("{}{}", self.output.so_far(), self.errors.so_far());
        assert!(self.began.elapsed() < WATCHDOG, "{what}:\n{}", said());
        std::thread::sleep(Duration::from_millis(20));
    }

    /// Waits for the end; nothing of the job may be left then.
    pub(crate) fn wait(self) -> Ended {
        let Running { mut child, mark, output, errors, .. } = self;
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
        let (stdout, stderr) = (output.whole(), errors.whole());
        let ended = Ended { status: child.wait().unwrap(), stdout, stderr };
        drop(done);
        assert!(!watchdog.join().unwrap(), "the job hung:\n{}{}", ended.stdout(), ended.stderr());
        assert_nothing_left(&mark);
        ended
    }
}

/// A job that has ended.
pub(crate) struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.clone()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.clone()
    }

    /// Fails unless the exit code and what the launcher said are as expected.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, said: &str) -> &Ended {
        let all = format!("{}{}", self.stdout, self.stderr);
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

/// How long after the end of a job its processes may still be there (5 s are promised), doubled for a busy machine.
const GONE_AFTER: Duration = Duration::from_secs(10);

/// Waits a little for the processes of a job to be gone (the kernel takes its time), then fails.
#[track_caller]
pub(crate) fn assert_nothing_left(mark: &str) {
    let start = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < GONE_AFTER, "processes are left: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process of a job.
#[derive(Debug)]
struct Process {
    pid: u32,
    line: String,
    /// Its rank, if it is one: the launcher and the agents have the rank's command line or variables, but no agent.
    rank: Option<u32>,
}

/// Every process with this mark in its environment.
fn marked(mark: &str) -> Vec<Process> {
    let mark = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        if environment.split('\0').any(|variable| variable == mark) {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let value = |name: &str| environment.split('\0').find_map(|variable| variable.strip_prefix(name));
            let rank =
                value("KUMIKI_AGENT_FD=").and(value("KUMIKI_RANK=")).and_then(|text| text.parse().ok());
            found.push(Process { pid, line, rank });
        }
    }
    found
}
