//! The end of a launcher or an agent, by whatever signal: nothing of the job is left.

use crate::job::{Job, Setup};
use crate::litter::GONE_AFTER;
use crate::runner::{note, side_by_side, tests};
use std::time::{Duration, Instant};

tests![nothing_is_left_after_the_launcher_or_an_agent_ends, a_job_that_nobody_signals_goes_on,];

/// Ranks that ignore every signal they can, each with a process that outlives it.
fn stubborn(nodes: u32) -> Job {
    let setup = Setup::new("idle").ranks(4).nodes(nodes).variable("FAULTS_STUBBORN", "yes");
    let mut job = setup.start();
    job.expect_all("ready", 4);
    job
}

/// Whom to signal and how, and what the launcher's exit code is then.
const CASES: &[(&str, &[i32], i32)] = &[
    ("agent", &[libc::SIGKILL], 1),
    ("agent", &[libc::SIGTERM], 143),
    ("launcher", &[libc::SIGKILL], 137),
    ("launcher", &[libc::SIGINT], 130),
    ("launcher", &[libc::SIGINT, libc::SIGINT], 130),
    ("launcher", &[libc::SIGHUP], 129),
    ("launcher", &[libc::SIGTERM], 143),
];

fn nothing_is_left_after_the_launcher_or_an_agent_ends() {
    let both = |case: &(&'static str, &'static [i32], i32)| [(*case, 1), (*case, 2)];
    side_by_side(2, CASES.iter().flat_map(both).collect(), |((whom, signals, code), nodes)| {
        let mut job = stubborn(nodes);
        let victim = if whom == "agent" { job.agents()[0] } else { job.launcher() };
        let began = Instant::now();
        for (index, &signal) in signals.iter().enumerate() {
            if index > 0 {
                // Two presses of Ctrl-C, not one.
                std::thread::sleep(Duration::from_millis(100));
            }
            job.signal(victim, signal);
        }
        let ended = job.end();
        while !job.processes().is_empty() {
            assert!(
                began.elapsed() < GONE_AFTER,
                "{whom}, {signals:?}, {nodes} nodes: {:?}",
                job.processes()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let after = began.elapsed();
        job.check_litter();
        assert_eq!(ended.code, code, "{whom}, {signals:?}, {nodes} nodes: {}", ended.show());
        if whom == "agent" && signals == [libc::SIGKILL] {
            ended.expect_error("the agent of").expect_error("killed by signal 9");
        }
        note(&format!("{whom} gets {signals:?}, {nodes} nodes: all gone after {} ms", after.as_millis()));
    });
}

/// The canary: it is the signal that ends these jobs.
fn a_job_that_nobody_signals_goes_on() {
    let job = stubborn(2);
    std::thread::sleep(Duration::from_millis(500));
    let ranks = job.processes().iter().filter(|process| process.rank.is_some()).count();
    assert!(ranks >= 4, "{:?}", job.processes());
    job.signal(job.launcher(), libc::SIGTERM);
    job.finish().expect_code(143);
}
