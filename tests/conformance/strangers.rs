//! Ranks that no launcher started: they meet by the address of rank 0 and a file with the job's secret.

use crate::job::{Job, Running};
use crate::way::{self, Way};
use crate::{Topic, TOPICS};
use libtest_mimic::{Failed, Trial};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

const LEFT_OUT: [&str; 4] = ["copy", "large", "far_offsets", "heap_memory_goes_back"];
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
    trials
}

fn strangers(way: &'static Way, topic: &'static Topic) -> Result<(), Failed> {
    let secret = SecretFile::new(&format!("{}-{}", way.name, topic.name));
    let master = crate::loopback::address().to_string();
    let start = |rank: u32| {
        Job::alone(way, topic.name)
            .env("KUMIKI_MASTER", &master)
            .env("KUMIKI_RANK", &rank.to_string())
            .env("KUMIKI_RANKS", &topic.ranks.to_string())
            .env("KUMIKI_NODE", &format!("node {}", rank % way.nodes_of(topic.ranks)))
            .env("KUMIKI_SECRET_FILE", secret.0.to_str().unwrap_or_default())
            .start()
    };
    let running: Vec<Running> = (0..topic.ranks).map(start).collect();
    // All are waited for, whatever becomes of the first.
    let ended: Vec<_> = running.into_iter().map(|rank| rank.wait().success()).collect();
    ended.into_iter().collect()
}

/// A file with a secret that goes with its owner.
struct SecretFile(PathBuf);

impl SecretFile {
    fn new(name: &str) -> SecretFile {
        let path = std::env::temp_dir().join(format!("kumiki-conformance-{}-{name}", std::process::id()));
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        std::io::Write::write_all(&mut file.expect("a file"), &[0x5a; 32]).expect("a secret");
        SecretFile(path)
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
