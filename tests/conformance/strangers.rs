//! Ranks that no launcher started: they meet by the address of rank 0 and a file with the job's secret.

use crate::abort::MESSAGE;
use crate::job::{Ended, Job, Running};
use crate::way::{self, Way};
use crate::{Topic, TOPICS};
use kumiki::{Error, World};
use libtest_mimic::{Failed, Trial};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

const LEFT_OUT: [&str; 6] =
    ["copy", "large", "far_offsets", "heap_memory_goes_back", "long_collectives", "many_collectives"];
const WAYS: [&str; 4] = ["shm", "tcp", "mixed", "private_off"];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for topic in TOPICS.iter().filter(|topic| !LEFT_OUT.contains(&topic.name)) {
        let ways = WAYS.iter().map(|name| way::named(name));
        for way in ways.filter(|way| topic.ways.iter().any(|list| list.contains(way))) {
            let name = format!("strangers::{}::{}", way.name, topic.name);
            trials.push(Trial::test(name, move || strangers(way, topic)));
        }
    }
    trials.push(Trial::test("strangers::shm::abort", abort));
    for way in ["shm", "tcp"] {
        let name = format!("strangers::{way}::a_host_that_finalized_early_was_killed_before_its_report");
        trials.push(Trial::test(name, move || report_of_a_host(way::named(way))));
    }
    trials
}

/// The ranks of a topic, each started by itself.
fn run(way: &'static Way, topic: &str, ranks: u32) -> Vec<Ended> {
    let secret = SecretFile::new(&format!("{}-{topic}", way.name));
    let master = crate::loopback::address().to_string();
    let start = |rank: u32| {
        Job::alone(way, topic)
            .env("KUMIKI_MASTER", &master)
            .env("KUMIKI_RANK", &rank.to_string())
            .env("KUMIKI_RANKS", &ranks.to_string())
            .env("KUMIKI_NODE", &format!("node {}", rank % way.nodes_of(ranks)))
            .env("KUMIKI_SECRET_FILE", secret.0.to_str().unwrap_or_default())
            .start()
    };
    let running: Vec<Running> = (0..ranks).map(start).collect();
    // All are waited for, whatever becomes of the first.
    running.into_iter().map(Running::wait).collect()
}

fn strangers(way: &'static Way, topic: &'static Topic) -> Result<(), Failed> {
    run(way, topic.name, topic.ranks).into_iter().try_for_each(Ended::success)
}

/// Nobody ends the ranks but they themselves: each does, and the message is shown, once.
fn abort() -> Result<(), Failed> {
    let mut ended = run(way::named("shm"), "abort", 4);
    let output: String = ended.iter().map(|ended| ended.output.as_str()).collect();
    let aborted = ended.remove(2).code(1)?;
    let report = |line: &&str| line.starts_with("kumiki:") && line.contains(MESSAGE);
    let printed = output.lines().filter(report).count();
    aborted.expect(printed == 1, &format!("the message is printed {printed} times: {output}"))
}

/// Rank 0 finalizes while rank 1 goes on. Its process holds the job together, and must live to tell why it ends, also if the
/// program still has memory of the world.
pub(crate) fn finalized_early(_: &'static Way) {
    let world = World::init().expect("init");
    if world.rank() == 1 {
        while !matches!(world.sync(), Err(Error::Closed(_))) {
            std::thread::yield_now();
        }
        return;
    }
    let region = world.alloc::<u64>(1).expect("alloc");
    let finalized = world.finalize();
    assert!(matches!(finalized, Err(Error::Misuse(_))), "{finalized:?}");
    while has_thread("kumiki-hub") {
        std::thread::yield_now();
    }
    drop(region);
}

fn has_thread(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").expect("the threads of this process").flatten();
    let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|other| other.trim() == name)
}

fn report_of_a_host(way: &'static Way) -> Result<(), Failed> {
    let mut ended = run(way, "finalized_early", 2);
    let host = ended.swap_remove(0);
    let told = host.output.contains("rank 0") && host.output.contains("is lost: it finalized");
    host.code(0)?.expect(told, "there is no report of it")
}

/// A file with a secret that goes with its owner.
pub(crate) struct SecretFile(pub(crate) PathBuf);

impl SecretFile {
    fn new(name: &str) -> SecretFile {
        let path = std::env::temp_dir().join(format!("kumiki-conformance-{}-{name}", std::process::id()));
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        std::io::Write::write_all(&mut file.expect("a file"), &[0x5a; 32]).expect("a secret");
        SecretFile(path)
    }

    /// A portfile of a job of so many ranks.
    pub(crate) fn portfile(name: &str, ranks: u32) -> SecretFile {
        let file = SecretFile::new(name);
        let master = crate::loopback::address();
        let secret = "5a".repeat(32);
        std::fs::write(&file.0, format!("ranks {ranks}\nmaster {master}\nsecret {secret}\n"))
            .expect("a portfile");
        file
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
