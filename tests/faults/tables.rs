//! SIGKILL of a rank in the middle of changes to a map: the others go on, and what is left can be walked.

use crate::job::Setup;
use crate::runner::{note, side_by_side, tests};
use std::time::Duration;

tests![a_rank_killed_in_the_middle_of_changes_leaves_a_map_that_can_be_used];

/// How often somebody is killed, on one node and on two.
const KILLS: u64 = 12;

fn a_rank_killed_in_the_middle_of_changes_leaves_a_map_that_can_be_used() {
    let jobs: Vec<(u32, u64)> = (0..KILLS).flat_map(|number| [(1, number), (2, number)]).collect();
    side_by_side(2, jobs, |(nodes, number)| {
        let mut job = Setup::new("table-storm")
            .ranks(4)
            .nodes(nodes)
            .continues()
            .variable("FAULTS_NUMBER", number + 1)
            .start();
        job.expect("storming");
        // Somewhere in the middle: changes follow each other without a pause.
        std::thread::sleep(Duration::from_millis(5 + number * 3));
        job.signal(job.rank(1), libc::SIGKILL);
        let ended = job.finish();
        ended.expect_code(137);
        let wrong = [ended.said("wrong:"), ended.said("torn")].concat();
        assert!(wrong.is_empty(), "{nodes} nodes, {number}: {wrong:?}: {}", ended.show());
        let seen = ended.said("came to");
        let all_lost = seen.len() == 3 && seen.iter().all(|text| text.starts_with("PeerLost(1,"));
        assert!(all_lost, "{nodes} nodes, {number}: {}", ended.show());
        assert_eq!(ended.said("walked").len(), 3, "{nodes} nodes, {number}: {}", ended.show());
    });
    note(&format!("{KILLS} kills on one node, {KILLS} on two"));
}
