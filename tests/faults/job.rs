//! One job under test: how it is started, how it is talked to, and the watchdog that ends it with all its stacks.

use crate::litter::{self, Process, Snapshot};
use kumiki_net::os::{process, time};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The variable that makes this program a rank; its value is the role.
pub(crate) const ROLE: &str = "FAULTS_ROLE";
/// The variable that marks every process of one job.
const MARK: &str = "FAULTS_JOB";
/// How long a job may take before the watchdog ends it. Jobs of this suite take a second or two, a few take ten; the rest is
/// for a busy machine.
const WATCHDOG: Duration = Duration::from_secs(400);
/// How long a debugger may take to show the stacks of one process.
const DEBUGGER: Duration = Duration::from_secs(20);

/// Whether two ranks of a node copy long messages together here: each has a core, and the system lets it.
pub(crate) fn can_share_copies() -> bool {
    let has_cores = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    has_cores && kumiki_net::os::probe::try_process_vm().is_ok()
}

/// A job that is about to be started.
pub(crate) struct Setup {
    ranks: u32,
    nodes: u32,
    variables: Vec<(String, String)>,
    options: Vec<String>,
    before_launcher: Vec<String>,
    /// The command line of another launcher, to be used instead of ours.
    foreign: Vec<String>,
    before_rank: Vec<String>,
}

impl Setup {
    /// A job whose ranks play this role: two ranks on one node, unless said otherwise.
    pub(crate) fn new(role: &str) -> Setup {
        Setup {
            ranks: 2,
            nodes: 1,
            variables: vec![(ROLE.into(), role.into())],
            options: Vec::new(),
            before_launcher: Vec::new(),
            foreign: Vec::new(),
            before_rank: Vec::new(),
        }
    }

    pub(crate) fn ranks(self, ranks: u32) -> Setup {
        Setup { ranks, ..self }
    }

    /// On so many virtual nodes, with TCP between them.
    pub(crate) fn nodes(self, nodes: u32) -> Setup {
        Setup { nodes, ..self }
    }

    /// A variable for every process of the job.
    pub(crate) fn variable(mut self, name: &str, value: impl ToString) -> Setup {
        self.variables.push((name.into(), value.to_string()));
        self
    }

    /// An option of `kumiki run`.
    pub(crate) fn option(mut self, option: &str) -> Setup {
        self.options.push(option.into());
        self
    }

    /// Survivors go on when a rank is lost.
    pub(crate) fn continues(self) -> Setup {
        self.option("--on-loss=continue")
    }

    /// Words before the launcher's command line: a program that starts it.
    pub(crate) fn before_launcher(mut self, words: &[&str]) -> Setup {
        self.before_launcher = words.iter().map(ToString::to_string).collect();
        self
    }

    /// Starts the ranks by another launcher than ours.
    pub(crate) fn foreign(mut self, words: &[&str]) -> Setup {
        self.foreign = words.iter().map(ToString::to_string).collect();
        self
    }

    /// Words before each rank's command line.
    pub(crate) fn before_rank(mut self, words: &[&str]) -> Setup {
        self.before_rank = words.iter().map(ToString::to_string).collect();
        self
    }

    /// The command line.
    fn words(&self) -> Vec<String> {
        // A launcher leaves alone what whoever started it ignores, and that may be so here.
        let mut words = ["env", "--default-signal=INT,TERM,HUP,TSTP,CHLD"].map(String::from).to_vec();
        words.extend(self.before_launcher.clone());
        words.extend(self.foreign.clone());
        if self.foreign.is_empty() {
            words.extend([env!("CARGO_BIN_EXE_kumiki").to_string(), "run".into()]);
            words.extend(["-n".into(), self.ranks.to_string()]);
            if self.nodes > 1 {
                words.extend(["--virtual-nodes".into(), self.nodes.to_string()]);
            }
            words.extend(self.options.clone());
            words.push("--".into());
        }
        words.extend(self.before_rank.clone());
        words.push(own_path());
        words
    }

    /// Starts it.
    pub(crate) fn start(self) -> Job {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let words = self.words();
        let before = Snapshot::take();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(MARK, &name).envs(self.variables.clone());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let output = Text::read(child.stdout.take().unwrap());
        let errors = Text::read(child.stderr.take().unwrap());
        Job {
            input: child.stdin.take(),
            child,
            mark: format!("{MARK}={name}"),
            output,
            errors,
            taken: 0,
            before,
            deadline: Instant::now() + WATCHDOG,
            over: false,
        }
    }

    /// Starts it and waits for its end.
    pub(crate) fn finish(self) -> Ended {
        self.start().finish()
    }
}

/// Where this program is.
pub(crate) fn own_path() -> String {
    std::env::current_exe().unwrap().to_string_lossy().into_owned()
}

/// What comes out of a stream, line by line.
#[derive(Clone)]
pub(crate) struct Text {
    lines: Arc<Mutex<Vec<String>>>,
    closed: Arc<Mutex<bool>>,
}

impl Text {
    fn read(stream: impl Read + Send + 'static) -> Text {
        let text = Text { lines: Arc::default(), closed: Arc::default() };
        let shared = text.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_string();
                shared.lines.lock().unwrap().push(text);
                line.clear();
            }
            *shared.closed.lock().unwrap() = true;
        });
        text
    }

    fn all(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn is_closed(&self) -> bool {
        *self.closed.lock().unwrap()
    }
}

/// A job that runs.
pub(crate) struct Job {
    child: Child,
    input: Option<ChildStdin>,
    mark: String,
    output: Text,
    errors: Text,
    /// Lines of output that [`Job::expect`] has passed.
    taken: usize,
    before: Snapshot,
    deadline: Instant,
    over: bool,
}

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code of the launcher, 128 plus the signal if one ended it.
    pub(crate) code: i32,
    pub(crate) output: Vec<String>,
    pub(crate) errors: Vec<String>,
}

impl Ended {
    /// The lines of output that begin with these words, without them.
    pub(crate) fn said(&self, words: &str) -> Vec<&str> {
        self.output.iter().filter_map(|line| line.strip_prefix(words)).map(str::trim).collect()
    }

    /// Lines of standard error that begin a report of the launcher or of an agent.
    pub(crate) fn reports(&self) -> Vec<&str> {
        self.errors.iter().filter_map(|line| line.strip_prefix("kumiki: ")).collect()
    }

    /// Everything, for a message.
    pub(crate) fn show(&self) -> String {
        let Ended { code, output, errors } = self;
        format!("exit code {code}\n--- output\n{}\n--- errors\n{}", output.join("\n"), errors.join("\n"))
    }

    #[track_caller]
    pub(crate) fn expect_code(&self, code: i32) -> &Ended {
        assert_eq!(self.code, code, "{}", self.show());
        self
    }

    #[track_caller]
    pub(crate) fn expect_error(&self, part: &str) -> &Ended {
        assert!(self.errors.iter().any(|line| line.contains(part)), "no `{part}` in: {}", self.show());
        self
    }
}

impl Job {
    /// Waits until a rank has written a line that begins with these words; gives the rest of it.
    #[track_caller]
    pub(crate) fn expect(&mut self, words: &str) -> String {
        loop {
            let lines = self.output.all();
            while self.taken < lines.len() {
                self.taken += 1;
                if let Some(rest) = lines[self.taken - 1].strip_prefix(words) {
                    return rest.trim().to_string();
                }
            }
            self.watch(&format!("waiting for the line `{words}`"));
            if self.output.is_closed() && self.output.all().len() == self.taken {
                panic!("the job ended without the line `{words}`:\n{}", self.said());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until this many ranks have written a line that begins with these words.
    #[track_caller]
    pub(crate) fn expect_all(&mut self, words: &str, count: u32) {
        (0..count).for_each(|_| drop(self.expect(words)));
    }

    /// Asks the launcher who waits for whom until the answer contains these words.
    #[track_caller]
    pub(crate) fn until_report(&mut self, words: &str) {
        while !self.errors.all().iter().any(|line| line.contains(words)) {
            self.signal(self.launcher(), libc::SIGUSR2);
            std::thread::sleep(Duration::from_millis(50));
            self.watch(&format!("waiting for the report `{words}`"));
        }
    }

    /// Gives rank 0 a line to read.
    pub(crate) fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            // A rank 0 that does not read any more shows in how the job ends.
            let _ = input.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// The process of the launcher.
    pub(crate) fn launcher(&self) -> i32 {
        self.child.id() as i32
    }

    /// The processes of the job.
    pub(crate) fn processes(&self) -> Vec<Process> {
        litter::processes(&self.mark)
    }

    /// The process of a rank.
    #[track_caller]
    pub(crate) fn rank(&self, rank: u32) -> i32 {
        let all = self.processes();
        let found = all.iter().find(|process| process.rank == Some(rank));
        found.unwrap_or_else(|| panic!("rank {rank} is not among {all:?}:\n{}", self.said())).pid
    }

    /// The processes of the agents.
    pub(crate) fn agents(&self) -> Vec<i32> {
        let all = self.processes();
        let is_agent = |process: &&Process| process.command.get(1).is_some_and(|word| word == "agent");
        all.iter().filter(is_agent).map(|process| process.pid).collect()
    }

    /// Sends a signal to one process of the job. Gives the time just before, in nanoseconds.
    pub(crate) fn signal(&self, pid: i32, signal: i32) -> u64 {
        let now_ns = time::now_ns();
        process::signal(pid, signal).unwrap();
        now_ns
    }

    /// Waits for the end of the launcher.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Ended {
        self.input = None;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => self.watch("waiting for the end of the job"),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        // A rank that outlives the launcher may hold its output open; the litter check finds it.
        let limit = Instant::now() + litter::GONE_AFTER;
        while !(self.output.is_closed() && self.errors.is_closed()) && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(2));
        }
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ended { code, output: self.output.all(), errors: self.errors.all() }
    }

    /// Waits for the end of the job and checks that it leaves nothing behind.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Ended {
        let ended = self.end();
        self.check_litter();
        ended
    }

    /// Checks that nothing is left of the job, which has ended.
    pub(crate) fn check_litter(&mut self) {
        litter::check(&self.before, &self.mark);
        self.over = true;
    }

    /// Checks that no process is left of the job, which has ended; for launchers that leave files of their own.
    pub(crate) fn check_processes(&mut self) {
        let limit = Instant::now() + litter::GONE_AFTER;
        while !self.processes().is_empty() {
            assert!(Instant::now() < limit, "left after the end of the job: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.over = true;
    }

    /// Fails the test, with the stacks of every process, if the job takes too long.
    #[track_caller]
    pub(crate) fn watch(&self, what: &str) {
        if Instant::now() > self.deadline {
            let stacks: Vec<String> = self.processes().iter().map(stacks_of).collect();
            panic!("the watchdog ended a job {what}\n{}\n{}", self.said(), stacks.join("\n"));
        }
    }

    fn said(&self) -> String {
        let (output, errors) = (self.output.all().join("\n"), self.errors.all().join("\n"));
        format!("--- output\n{output}\n--- errors\n{errors}")
    }
}

impl Drop for Job {
    /// A test that failed leaves no job behind either.
    fn drop(&mut self) {
        if !self.over {
            for process in self.processes() {
                let _ = process::signal(process.pid, libc::SIGKILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The stacks of all threads of a process, as the debugger shows them.
fn stacks_of(process: &Process) -> String {
    let pid = process.pid.to_string();
    let arguments = ["-batch", "-p", &pid, "-ex", "thread apply all bt"];
    let debugger = Command::new("gdb").args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut debugger = match debugger {
        Ok(debugger) => debugger,
        Err(error) => return format!("--- {process}: no gdb ({error})"),
    };
    let text = Text::read(debugger.stdout.take().unwrap());
    let limit = Instant::now() + DEBUGGER;
    while Instant::now() < limit && matches!(debugger.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = debugger.kill();
    let _ = debugger.wait();
    let keep = |line: &&String| line.starts_with('#') || line.starts_with("Thread");
    let frames: Vec<String> = text.all().iter().filter(keep).cloned().collect();
    format!("--- {process}\n{}", frames.join("\n"))
}
