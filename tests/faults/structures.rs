//! SIGKILL of a rank in the middle of changes to a structure: survivors get right results or errors, and never wait for it.

use crate::job::Setup;
use crate::runner::{note, side_by_side, tests};
use std::time::Duration;

tests![
    a_rank_killed_in_the_middle_leaves_vectors_that_can_be_used,
    a_rank_killed_in_the_middle_leaves_deques_that_can_be_used,
    a_rank_killed_in_the_middle_leaves_lists_that_can_be_used,
    a_rank_killed_in_the_middle_leaves_sets_that_can_be_used,
    a_rank_killed_in_the_middle_leaves_multisets_that_can_be_used,
    a_rank_killed_while_it_swaps_tables_loses_nothing,
    a_rank_killed_in_malloc_or_free_leaves_heaps_that_can_be_used,
    a_rank_killed_in_the_middle_leaves_the_rest_of_a_workspace,
    a_rank_killed_in_the_middle_leaves_a_counter_that_can_be_used,
];

/// How often somebody is killed in each storm: the neighbour of the owner, and a rank of another node.
const KILLS: u64 = 6;

fn a_rank_killed_in_the_middle_leaves_vectors_that_can_be_used() {
    storm("vector");
}

fn a_rank_killed_in_the_middle_leaves_deques_that_can_be_used() {
    storm("deque");
}

fn a_rank_killed_in_the_middle_leaves_lists_that_can_be_used() {
    storm("list");
}

fn a_rank_killed_in_the_middle_leaves_sets_that_can_be_used() {
    storm("set");
}

fn a_rank_killed_in_the_middle_leaves_multisets_that_can_be_used() {
    storm("multiset");
}

fn a_rank_killed_while_it_swaps_tables_loses_nothing() {
    storm("swap");
}

fn a_rank_killed_in_malloc_or_free_leaves_heaps_that_can_be_used() {
    storm("malloc");
}

fn a_rank_killed_in_the_middle_leaves_the_rest_of_a_workspace() {
    storm("workspace");
}

fn a_rank_killed_in_the_middle_leaves_a_counter_that_can_be_used() {
    storm("counter");
}

fn storm(what: &str) {
    // (nodes, who is killed): rank 1 shares a node with rank 0, which owns what there is one of; rank 2 does not.
    let places = [(1, 1), (2, 1), (2, 2)];
    let jobs: Vec<(u32, u32, u64)> =
        (0..KILLS).flat_map(|number| places.map(|(nodes, victim)| (nodes, victim, number))).collect();
    side_by_side(2, jobs, |(nodes, victim, number)| {
        let mut job = Setup::new("structure-storm")
            .ranks(4)
            .nodes(nodes)
            .continues()
            .variable("FAULTS_WHAT", what)
            .variable("FAULTS_VICTIM", victim)
            .variable("FAULTS_NUMBER", number + 1)
            .start();
        job.expect("storming");
        // Somewhere in the middle: changes follow each other without a pause.
        std::thread::sleep(Duration::from_millis(3 + number * 5));
        job.signal(job.rank(victim), libc::SIGKILL);
        let ended = job.finish();
        ended.expect_code(137);
        let case = format!("{what}, {nodes} nodes, rank {victim}, {number}");
        assert!(ended.said("wrong:").is_empty(), "{case}: {}", ended.show());
        assert_eq!(ended.said("looked").len(), 3, "{case}: {}", ended.show());
    });
    note(&format!("{KILLS} kills of a neighbour on one node and on two, and of a rank of the other node"));
}
