//! What a job may not leave behind: files, segments, ports, names of sockets, processes.

use crate::runner::tests;
use crate::space;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long after the end of a job its litter may still be there (promise 3 says 5 s), doubled for a busy machine.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(10);

tests![litter_is_noticed];

/// Everything that a job could leave behind, except processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Snapshot(BTreeSet<String>);

impl Snapshot {
    pub(crate) fn take() -> Snapshot {
        let mut all = BTreeSet::new();
        for folder in ["/tmp", "/dev/shm"] {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.path().to_string_lossy().into_owned());
            all.extend(names.filter(|name| space::is_own() || name.contains("kumiki")));
        }
        if space::is_own() {
            for table in ["/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"] {
                // The first two columns: key and number.
                let key = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
                all.extend(lines(table).iter().map(|line| format!("{table}: {}", key(line))));
            }
            let port = |(address, inode)| format!("listening port {address}, inode {inode}");
            all.extend(listening().into_iter().map(port));
            let table = lines("/proc/net/unix");
            let words = table.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let named = words.filter(|words| words.len() > 7);
            all.extend(named.map(|words| format!("socket {}, inode {}", words[7], words[6])));
        }
        Snapshot(all)
    }

    /// What is here now and was not then.
    pub(crate) fn new_since(&self) -> Vec<String> {
        Snapshot::take().0.difference(&self.0).cloned().collect()
    }
}

/// Waits until nothing is new and no process with this mark is left; panics with what is.
pub(crate) fn check(before: &Snapshot, mark: &str) {
    let began = Instant::now();
    loop {
        let mut left = before.new_since();
        if !left.is_empty() {
            let others = sockets_of_others(mark);
            left.retain(|name| !others.iter().any(|inode| name.ends_with(&format!(", inode {inode}"))));
        }
        left.extend(processes(mark).into_iter().map(|process| process.to_string()));
        if left.is_empty() {
            return;
        }
        assert!(began.elapsed() < GONE_AFTER, "left after the end of the job: {left:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) command: Vec<String>,
    /// Its rank, if it is one.
    pub(crate) rank: Option<u32>,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({})", self.pid, self.command.join(" "))
    }
}

/// The processes whose environment carries the mark.
pub(crate) fn processes(mark: &str) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| process(pid, mark)).collect()
}

fn process(pid: i32, mark: &str) -> Option<Process> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let environment = std::fs::read(folder.join("environ")).ok()?;
    let variables: Vec<&[u8]> = environment.split(|&byte| byte == 0).collect();
    variables.iter().find(|variable| **variable == mark.as_bytes())?;
    let command = std::fs::read(folder.join("cmdline")).ok()?;
    let words = command.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let has_agent = variables.iter().any(|variable| variable.starts_with(b"KUMIKI_AGENT_FD="));
    let rank = variables.iter().find_map(|variable| variable.strip_prefix(b"KUMIKI_RANK="));
    let rank = rank.filter(|_| has_agent).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    Some(Process { pid, command: words.filter(|word| !word.is_empty()).collect(), rank })
}

/// The sockets of other jobs of this test program, which run at the same time.
fn sockets_of_others(mark: &str) -> Vec<u64> {
    let Some((own, _)) = mark.rsplit_once('-') else { return Vec::new() };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of_a_job = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|&byte| byte == 0);
        variables.any(|variable| variable.starts_with(own.as_bytes()) && variable != mark.as_bytes())
    };
    let descriptors = pids.filter(of_a_job).flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")));
    let targets = descriptors.flatten().flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let inode = |target: PathBuf| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    targets.filter_map(inode).collect()
}

/// The listening TCP sockets of this network: address as `/proc` writes it, and inode.
pub(crate) fn listening() -> Vec<(String, u64)> {
    let tables = [lines("/proc/net/tcp"), lines("/proc/net/tcp6")].concat();
    let listener = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(3) == Some(&"0A")).then(|| (words[1].to_string(), words[9].parse().unwrap_or(0)))
    };
    tables.iter().filter_map(listener).collect()
}

/// The lines of a table of `/proc`, without its heading.
fn lines(table: &str) -> Vec<String> {
    let text = std::fs::read_to_string(table).unwrap_or_default();
    text.lines().skip(1).map(str::to_string).collect()
}

/// The canary of the litter check: a file, a port and a process are found.
fn litter_is_noticed() {
    let before = Snapshot::take();
    let file = std::path::Path::new("/dev/shm").join(format!("kumiki-canary-{}", std::process::id()));
    std::fs::write(&file, "litter").unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mark = format!("FAULTS_JOB=canary-{}", std::process::id());
    let mut sleeper = std::process::Command::new("sleep")
        .arg("60")
        .env("FAULTS_JOB", mark.trim_start_matches("FAULTS_JOB="))
        .spawn()
        .unwrap();
    let new = before.new_since();
    let found = processes(&mark);
    std::fs::remove_file(&file).unwrap();
    drop(port);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(new.iter().any(|name| name.contains("kumiki-canary")), "{new:?}");
    assert_eq!(new.iter().any(|name| name.contains("listening port")), space::is_own(), "{new:?}");
    assert!(found.iter().any(|process| process.pid == sleeper.id() as i32), "{found:?}");
    check(&before, &mark);
}
