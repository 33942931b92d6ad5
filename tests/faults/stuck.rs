//! Ranks that are slow, stopped or busy.

use crate::job::{can_share_copies, Setup};
use crate::runner::{note, tests};
use std::time::Duration;

tests![
    a_short_stop_is_no_loss,
    a_halo_waits_for_a_rank_that_was_stopped,
    a_copy_is_shared_with_a_rank_that_is_stopped_again_and_again,
    a_long_stop_is_a_loss_and_the_report_says_so,
    a_wait_with_a_deadline_names_who_is_missing,
    an_agent_that_was_silent_for_too_long_does_not_come_back,
    a_rank_that_computes_still_serves_its_memory,
];

/// The peer timeout where somebody is stopped for longer.
const SHORT_TIMEOUT: Duration = Duration::from_secs(2);
/// The peer timeout where nobody is, on however busy a machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);
/// A stop that is seen as one, and is shorter.
const SHORT_STOP: Duration = Duration::from_millis(1000);

fn setup(nodes: u32, timeout: Duration) -> Setup {
    Setup::new("paused")
        .ranks(2)
        .nodes(nodes)
        .variable("KUMIKI_PEER_TIMEOUT", format!("{}ms", timeout.as_millis()))
        .variable("KUMIKI_PROCESS_VM", "off")
}

fn a_short_stop_is_no_loss() {
    for nodes in [1, 2] {
        let mut job = setup(nodes, LONG_TIMEOUT).start();
        job.expect_all("ready", 2);
        let stopped = job.rank(1);
        job.signal(stopped, libc::SIGSTOP);
        std::thread::sleep(SHORT_STOP);
        job.signal(stopped, libc::SIGCONT);
        job.tell("stop");
        let ended = job.finish();
        ended.expect_code(0);
        assert!(ended.reports().is_empty(), "{nodes} nodes: {}", ended.show());
    }
}

/// It may be stopped at any place of that, and nothing is missing in the end.
fn a_copy_is_shared_with_a_rank_that_is_stopped_again_and_again() {
    let mut job = Setup::new("haul").ranks(2).start();
    job.expect("ready");
    if can_share_copies() {
        job.expect("helped");
    }
    let stopped = job.rank(1);
    for _ in 0..5 {
        job.signal(stopped, libc::SIGSTOP);
        std::thread::sleep(SHORT_STOP / 20);
        job.signal(stopped, libc::SIGCONT);
        std::thread::sleep(SHORT_STOP / 50);
    }
    job.tell("stop");
    let ended = job.finish();
    ended.expect_code(0);
    let is_well = ended.said("got").iter().filter(|line| line.ends_with(" ok")).count() == 2;
    assert!(is_well && ended.said("wrong").is_empty(), "{}", ended.show());
}

fn a_halo_waits_for_a_rank_that_was_stopped() {
    for (nodes, what) in [(1, "plain"), (2, "plain"), (1, "thread"), (2, "thread")] {
        let timeout = format!("{}ms", LONG_TIMEOUT.as_millis());
        let setup = Setup::new("halos").ranks(4).nodes(nodes).variable("FAULTS_WHAT", what);
        let mut job = setup.variable("FAULTS_STEPS", "3000").variable("KUMIKI_PEER_TIMEOUT", timeout).start();
        job.expect("ready");
        let stopped = job.rank(1);
        job.signal(stopped, libc::SIGSTOP);
        std::thread::sleep(SHORT_STOP / 4);
        job.signal(stopped, libc::SIGCONT);
        let ended = job.finish();
        ended.expect_code(0);
        assert!(ended.said("wrong").is_empty(), "{what} on {nodes} nodes: {}", ended.show());
        assert_eq!(ended.said("right").len(), 4, "{what} on {nodes} nodes: {}", ended.show());
    }
}

fn a_long_stop_is_a_loss_and_the_report_says_so() {
    for (nodes, policy) in [(1, "continue"), (2, "continue"), (1, "abort"), (2, "abort")] {
        let mut job = setup(nodes, SHORT_TIMEOUT).option("--on-loss").option(policy).start();
        job.expect_all("ready", 2);
        job.signal(job.rank(1), libc::SIGSTOP);
        let ended = job.finish();
        assert_ne!(ended.code, 0, "{nodes} nodes: {}", ended.show());
        ended.expect_error("rank 1").expect_error("stopped for longer than the peer timeout");
        if policy == "continue" {
            let seen = ended.said("got 0");
            let lost = seen.iter().any(|line| {
                line.contains("PeerLost(1,") && line.contains("stopped for longer than the peer timeout")
            });
            assert!(lost, "{nodes} nodes: {}", ended.show());
        } else {
            ended.expect_error("rank 0 waits in a barrier");
        }
    }
}

fn a_wait_with_a_deadline_names_who_is_missing() {
    for nodes in [1, 2] {
        let mut job = setup(nodes, LONG_TIMEOUT).variable("FAULTS_DEADLINE", "yes").start();
        job.expect_all("ready", 2);
        let stopped = job.rank(1);
        job.signal(stopped, libc::SIGSTOP);
        job.tell("go");
        job.expect("waited");
        job.signal(stopped, libc::SIGCONT);
        job.tell("stop");
        let ended = job.finish();
        ended.expect_code(0);
        for what in ["barrier-deadline", "operation-deadline"] {
            let said = ended.said("got 0");
            let line = said.iter().find(|line| line.contains(what));
            let named = line.is_some_and(|line| line.contains("Timeout") && line.contains("rank 1"));
            assert!(named, "{what}, {nodes} nodes: {}", ended.show());
        }
    }
}

fn an_agent_that_was_silent_for_too_long_does_not_come_back() {
    for (policy, comes_back) in [("continue", true), ("continue", false), ("abort", true), ("abort", false)] {
        let setup = Setup::new("idle").ranks(2).nodes(2).option("--on-loss").option(policy);
        let mut job = setup.variable("KUMIKI_PEER_TIMEOUT", "1s").start();
        job.expect_all("ready", 2);
        let agents = job.agents();
        let stopped = agents[0];
        job.signal(stopped, libc::SIGSTOP);
        job.until_report("has not answered for");
        if comes_back {
            job.signal(stopped, libc::SIGCONT);
        }
        if policy == "continue" {
            // The ranks of the other node go on until they are told; those of the lost node must not.
            if comes_back {
                while job.processes().iter().filter(|process| process.rank.is_some()).count() > 1 {
                    job.watch("waiting for the end of the ranks of a lost node");
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            job.signal(job.launcher(), libc::SIGTERM);
        }
        let ended = job.finish();
        assert_ne!(ended.code, 0, "{policy}: {}", ended.show());
    }
}

fn a_rank_that_computes_still_serves_its_memory() {
    let mut job = Setup::new("busy").ranks(2).nodes(2).start();
    // It computes until it is told; if nobody served its memory meanwhile, this line would not come.
    let served = job.expect("served");
    job.signal(job.rank(1), libc::SIGUSR1);
    job.finish().expect_code(0);
    let (rounds, slowest_us) = served.split_once(' ').unwrap();
    note(&format!("{rounds} rounds of put, get and fetch-add, the slowest took {slowest_us} µs"));
}
