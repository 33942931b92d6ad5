//! Nodes that have two networks between them: connections go over both, and one of them may fail.

use crate::job::{Job, Setup};
use crate::runner::{skip, tests};
use crate::space;
use std::process::Command;
use std::time::{Duration, Instant};

tests![
    a_halo_goes_over_both_networks,
    one_network_of_two_may_be_cut,
    one_network_after_the_other_is_a_loss_with_a_name,
];

/// Two ranks on two nodes with two networks between them; `None` where nobody may cut cables, or the kernel has no Multipath TCP.
fn start(role: &str, peer_timeout: &str) -> Option<Job> {
    if !space::is_root() {
        skip("two networks", "only root may do that to a namespace");
        return None;
    }
    if !std::path::Path::new("/proc/sys/net/mptcp/enabled").exists() {
        skip("two networks", "this kernel has no Multipath TCP");
        return None;
    }
    let setup = Setup::new(role).ranks(2).nodes(2).option("--netns").option("--links=2");
    let mut job =
        setup.option("--link-rate=200M").continues().variable("KUMIKI_PEER_TIMEOUT", peer_timeout).start();
    job.expect_all("ready", 2);
    Some(job)
}

fn a_halo_goes_over_both_networks() {
    let Some(mut job) = start("wide", "30s") else { return };
    let ended = job.end();
    ended.expect_code(0);
    let said = ended.said("sent");
    assert_eq!(said.len(), 2, "{}", ended.show());
    for line in said {
        let bytes: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [first, second] = bytes[..] else { panic!("{line}") };
        // The scheduler of the kernel decides how much; without a second network it would be next to nothing.
        assert!(first.min(second) * 5 > first.max(second), "{line}");
    }
}

fn one_network_of_two_may_be_cut() {
    let Some(mut job) = start("steady", "30s") else { return };
    await_second_network(&job);
    cut(&job, "node1");
    std::thread::sleep(Duration::from_secs(1));
    job.tell("stop");
    let ended = job.finish();
    ended.expect_code(0);
    assert!(ended.reports().is_empty(), "{}", ended.show());
    assert_eq!(ended.said("rounds").len(), 2, "{}", ended.show());
}

fn one_network_after_the_other_is_a_loss_with_a_name() {
    let Some(job) = start("steady", "2s") else { return };
    await_second_network(&job);
    cut(&job, "node1");
    // The connection goes on without its first network, which the kernel has given up by then.
    std::thread::sleep(Duration::from_secs(6));
    cut(&job, "node1.1");
    let ended = job.finish();
    assert_ne!(ended.code, 0, "{}", ended.show());
    let lost = |rank: u32| ended.errors.iter().any(|line| line.contains(&format!("rank {rank} is lost")));
    assert!(lost(0) || lost(1), "{}", ended.show());
}

/// Cuts a cable of a node.
fn cut(job: &Job, cable: &str) {
    let launcher = job.launcher().to_string();
    let words = ["--target", &launcher, "--net", "ip", "link", "set", cable, "down"];
    let done = Command::new("nsenter").args(words).output().expect("nsenter");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Waits until what connects the ranks goes over the second network, too: each connection, for two that call each other at the same
/// moment have two of them for a while.
fn await_second_network(job: &Job) {
    let table = format!("/proc/{}/net/tcp", job.rank(0));
    let count = || {
        let table = std::fs::read_to_string(&table).expect("a table of connections");
        let mut counts = [0, 0, 0];
        for line in table.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, own, _, state, ..] = words[..] else { continue };
            // The addresses here end in these bytes, in the order of this machine. 01 is a connection that stands, 06 and 07 are none
            // any more, and 0A is a port.
            let network = ["4D0A", "4E0A"]
                .iter()
                .position(|end| own.split(':').next().is_some_and(|ip| ip.ends_with(end)));
            match (network, state) {
                (Some(network), "01") => counts[network] += 1,
                (Some(_), "06" | "07" | "0A") | (None, _) => {}
                (Some(_), _) => counts[2] += 1,
            }
        }
        counts
    };
    let began = Instant::now();
    loop {
        let counts @ [first, second, others] = count();
        if first > 0 && first == second && others == 0 {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "not all goes over the second network: {counts:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
