//! Nodes that cannot hear each other for a while: each has a network namespace of its own, and its cable is cut.

use crate::job::{Job, Setup};
use crate::runner::{skip, tests};
use crate::space;
use std::process::Command;
use std::time::Duration;

tests![a_cut_that_is_mended_in_time_is_no_loss, a_cut_that_lasts_is_a_loss_with_a_name,];

/// How long a cut lasts that is mended.
const SHORT_CUT: Duration = Duration::from_millis(1300);

/// Two ranks on two nodes that write and read each other's memory all the time; `None` where nobody may cut cables.
fn start(peer_timeout: &str) -> Option<Job> {
    if !space::is_root() {
        skip("cables that are cut", "only root may do that to a namespace");
        return None;
    }
    let mut job = Setup::new("steady")
        .ranks(2)
        .nodes(2)
        .option("--netns")
        .continues()
        .variable("KUMIKI_PEER_TIMEOUT", peer_timeout)
        .start();
    job.expect_all("ready", 2);
    Some(job)
}

/// Cuts the cable of node 1, or mends it. Whoever sends into it is told nothing.
fn turn(job: &Job, state: &str) {
    let launcher = job.launcher().to_string();
    let words = ["--target", &launcher, "--net", "ip", "link", "set", "node1", state];
    let done = Command::new("nsenter").args(words).output().expect("nsenter");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn a_cut_that_is_mended_in_time_is_no_loss() {
    // Far longer than the cut: the streams only try again when their own timers say so, and the machine may be busy.
    let Some(mut job) = start("30s") else { return };
    turn(&job, "down");
    std::thread::sleep(SHORT_CUT);
    turn(&job, "up");
    job.tell("stop");
    let ended = job.finish();
    ended.expect_code(0);
    assert!(ended.reports().is_empty(), "{}", ended.show());
    assert_eq!(ended.said("rounds").len(), 2, "{}", ended.show());
}

fn a_cut_that_lasts_is_a_loss_with_a_name() {
    let Some(job) = start("4s") else { return };
    turn(&job, "down");
    let ended = job.finish();
    assert_ne!(ended.code, 0, "{}", ended.show());
    // Whose operation ran into the timeout first decides who of the two is given up.
    let lost = |rank: u32| ended.errors.iter().any(|line| line.contains(&format!("rank {rank} is lost")));
    assert!(lost(0) || lost(1), "{}", ended.show());
    assert!(ended.said("rounds").is_empty(), "{}", ended.show());
}
