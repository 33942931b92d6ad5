//! The ways a rank can end, and what the job says of each.

use crate::job::Setup;
use crate::runner::{side_by_side, tests};

tests![
    every_way_to_end_has_its_exit_code_and_its_report,
    a_rank_that_cannot_join_ends_the_job_and_is_named,
    a_rank_that_left_early_is_missed_however_patient_the_others_are,
    memory_freed_after_a_world_that_met_an_error_is_not_written_by_neighbours,
];

/// A way to end: the exit code of the job, and what its report says of rank 1 (nothing if it ended well).
struct Way {
    name: &'static str,
    code: i32,
    report: &'static str,
}

const fn way(name: &'static str, code: i32, report: &'static str) -> Way {
    Way { name, code, report }
}

const WAYS: &[Way] = &[
    way("return", 0, ""),
    way("drop", 0, ""),
    way("exit-0", 1, "exited with code 0 without finalizing"),
    way("exit-3", 3, "exited with code 3 without finalizing"),
    way("return-unfinalized", 1, "exited with code 0 without finalizing"),
    way("panic", 101, "exited with code 101 without finalizing"),
    way("thread-panic", 101, "exited with code 101 without finalizing"),
    way("abort", 134, "was killed by signal 6 (SIGABRT)"),
    way("segv", 139, "was killed by signal 11 (SIGSEGV)"),
    way("7", 135, "was killed by signal 7 (SIGBUS)"),
    way("8", 136, "was killed by signal 8 (SIGFPE)"),
    way("4", 132, "was killed by signal 4 (SIGILL)"),
    way("15", 143, "was killed by signal 15 (SIGTERM)"),
    way("9", 137, "was killed by signal 9 (SIGKILL)"),
    way("_exit-0", 1, "exited with code 0 without finalizing"),
    way("_exit-before-init", 1, "exited before it joined the world that others wait in"),
    way("exec", 1, "exited with code 0 without finalizing"),
    way("finalize-exit", 5, "exited with code 5"),
    way("world-abort", 1, "aborted the job: the input makes no sense"),
];

fn every_way_to_end_has_its_exit_code_and_its_report() {
    let both = |way: &'static Way| [(way, 1), (way, 2)];
    side_by_side(2, WAYS.iter().flat_map(both).collect(), |(way, nodes)| {
        // No core files of the crashes.
        let setup = Setup::new("exits").before_launcher(&["sh", "-c", "ulimit -c 0; exec \"$@\"", "sh"]);
        let ended = setup.ranks(4).nodes(nodes).variable("FAULTS_WAY", way.name).finish();
        let shown = || format!("{}, {nodes} nodes: {}", way.name, ended.show());
        assert_eq!(ended.code, way.code, "{}", shown());
        let reports = ended.reports();
        if way.report.is_empty() {
            assert!(reports.is_empty(), "{}", shown());
            return;
        }
        assert_eq!(reports.len(), 1, "{}", shown());
        assert!(reports[0].starts_with("rank 1") && reports[0].contains(way.report), "{}", shown());
    });
}

/// A rank that has its seat but cannot start its transport is lost, whether it ends or goes on without the world, and has not
/// come to the barrier of the others.
fn a_rank_that_cannot_join_ends_the_job_and_is_named() {
    let spoil = r#"[ "$KUMIKI_RANK" != 1 ] || export KUMIKI_FAULT=nonsense; exec "$@""#;
    for (stays, ways) in [
        // It has a moment to end before it is given up.
        ("no", &["exited with code 9 without finalizing", "is lost: it could not join the world"][..]),
        ("yes", &["is lost: it could not join the world"]),
    ] {
        let setup = Setup::new("meet").ranks(4).nodes(2).variable("FAULTS_STAYS", stays);
        let ended = setup.before_rank(&["sh", "-c", spoil, "sh"]).finish();
        let reports = ended.reports();
        let named = |way: &&str| reports[0].starts_with(&format!("rank 1 on node 0 {way}"));
        assert!(ended.code != 0 && reports.len() == 1, "{}", ended.show());
        assert!(ways.iter().any(named), "{}", ended.show());
    }
}

/// Rank 1 gives up for a reason of its own: dropping its world meets the others' first barrier, and it does not come to
/// their second.
fn a_rank_that_left_early_is_missed_however_patient_the_others_are() {
    side_by_side(2, vec![1, 2], |nodes| {
        let setup = Setup::new("exits").option("--peer-timeout=30000s");
        let ended = setup.ranks(4).nodes(nodes).variable("FAULTS_WAY", "leave-early").finish();
        let shown = || format!("{nodes} nodes: {}", ended.show());
        assert_eq!(ended.code, 3, "{}", shown());
        assert!(ended.reports()[0].starts_with("rank 1"), "{}", shown());
        let told = ended.said("got");
        let missed = |text: &&str| text.contains("rank 1 is lost: it has finalized and will not come");
        assert_eq!(told.iter().filter(|text| missed(text)).count(), 3, "{}", shown());
    });
}

/// Safe code may drop its world first and the memory that others write afterwards.
fn memory_freed_after_a_world_that_met_an_error_is_not_written_by_neighbours() {
    let mut job = Setup::new("outlive").start();
    assert_eq!(job.expect("freed"), "true");
    job.tell("go");
    let got = job.expect("got 0");
    // Whether the rank is lost by then is for its agent to say; the memory is gone in any case.
    assert!(got.contains("put Bounds") || got.contains("put PeerLost"), "{got}");
    job.finish();
}
