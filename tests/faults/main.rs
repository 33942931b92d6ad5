//! What happens when things go wrong: every promise of `docs/faults.md`, tested with real jobs.
//!
//! The test program is also the rank program: with `FAULTS_ROLE` set it plays a role of `roles/` and ends as that role
//! ends, which is why it has a `main` of its own. Without it, it runs the tests, one after another, in its own mount
//! and network namespaces where the system allows that.
//!
//! | file | what |
//! |---|---|
//! | `runner.rs` | the list of tests, and what they share |
//! | `space.rs` | private `/tmp`, `/dev/shm` and network |
//! | `job.rs` | one job: starting, talking to it, the watchdog |
//! | `litter.rs` | what a job may not leave behind |
//! | `roles/` | what ranks do |
//! | the others | the tests, by kind of fault |

mod endings;
mod foreign;
mod job;
mod kills;
mod links;
mod litter;
#[path = "../loopback.rs"]
mod loopback;
mod network;
mod partition;
mod patterns;
mod repeated;
mod resources;
mod roles;
mod runner;
#[path = "../running.rs"]
mod running;
mod signals;
mod space;
mod strangers;
mod structures;
mod stuck;
mod tables;

use runner::Test;

fn main() -> std::process::ExitCode {
    if let Ok(role) = std::env::var(job::ROLE) {
        return roles::play(&role);
    }
    let tests: Vec<Test> = [
        runner::TESTS,
        litter::TESTS,
        kills::TESTS,
        signals::TESTS,
        stuck::TESTS,
        network::TESTS,
        partition::TESTS,
        links::TESTS,
        endings::TESTS,
        strangers::TESTS,
        resources::TESTS,
        repeated::TESTS,
        foreign::TESTS,
        tables::TESTS,
        structures::TESTS,
        patterns::TESTS,
    ]
    .concat();
    runner::run(&tests)
}
