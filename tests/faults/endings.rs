//! The ways a rank can end, and what the job says of each.

use crate::job::Setup;
use crate::runner::{side_by_side, tests};

tests![
    every_way_to_end_has_its_exit_code_and_its_report,
    a_rank_that_cannot_join_ends_the_job_and_is_named,
    memory_freed_after_a_world_that_met_an_error_is_not_written_by_neighbours,
    an_early_return_on_one_rank_lets_nobody_through_a_barrier,
    the_report_names_the_rank_that_left_first_and_not_its_victim,
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

/// Rank 1 leaves the others in whatever way, at their next barrier: nobody gets through it, everybody is told who left, and
/// so is the user, with the words and the code of rank 1.
fn an_early_return_on_one_rank_lets_nobody_through_a_barrier() {
    let ways = [
        ("early-return", 9, "then it exited with code 9"),
        ("leave-early", 3, "then it exited with code 3"),
        // Rank 2 comes when rank 1 is known to be lost.
        ("leave-early-late", 3, "then it exited with code 3"),
        ("finalize-early", 1, "then it exited with code 0"),
    ];
    let nodes = |way| [1, 2, 3].map(|nodes| (way, nodes));
    side_by_side(2, ways.iter().flat_map(nodes).collect(), |(&(way, code, end), nodes)| {
        // Whoever is told goes on, and is not ended before it can say so.
        let setup = Setup::new("exits").option("--peer-timeout=30000s").continues();
        let ended = setup.ranks(4).nodes(nodes).variable("FAULTS_WAY", way).finish();
        let shown = || format!("{way}, {nodes} nodes: {}", ended.show());
        assert_eq!(ended.code, code, "{}", shown());
        assert_eq!(ended.reports().len(), 1, "{}", shown());
        let report = ended.reports()[0];
        assert!(report.starts_with("rank 1") && report.ends_with(end), "{}", shown());
        assert_eq!(ended.said("passed"), ["0"; 3], "{}", shown());
        let told = ended.said("got");
        let missed = |text: &&str| text.contains("rank 1 is lost: it finalized, or dropped its world");
        assert_eq!(
            told.iter().filter(|text| text.contains("waiting") && missed(text)).count(),
            3,
            "{}",
            shown()
        );
        match way {
            "early-return" => drop(ended.expect_error("rank 1: refused: No such file")),
            "finalize-early" => {
                let told = told.iter().filter(|text| text.contains("finalize Misuse"));
                assert_eq!(told.count(), 1, "{}", shown());
            }
            _ => {}
        }
    });
}

/// The same when the job ends because of it: the report is about rank 1, whoever ends first.
fn the_report_names_the_rank_that_left_first_and_not_its_victim() {
    side_by_side(2, vec![1, 2], |nodes| {
        let setup = Setup::new("exits").ranks(4).nodes(nodes).variable("FAULTS_WAY", "early-return");
        let ended = setup.finish();
        let shown = || format!("{nodes} nodes: {}", ended.show());
        assert_eq!((ended.code, ended.reports().len()), (9, 1), "{}", shown());
        let report = ended.reports()[0];
        assert!(
            report.starts_with("rank 1") && report.ends_with("then it exited with code 9"),
            "{}",
            shown()
        );
        assert!(ended.said("passed").iter().all(|&passed| passed == "0"), "{}", shown());
        ended.expect_error("rank 1: refused: No such file");
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
