//! The same thing many times: nothing may grow.

use crate::job::Setup;
use crate::litter::Snapshot;
use crate::runner::{note, tests};

tests![many_jobs_in_a_row_leave_nothing, many_worlds_in_one_process_cost_no_more_than_one];

/// How many times, unless `FAULTS_REPEAT` says otherwise.
const REPEAT: u32 = 1000;

fn repeat() -> u32 {
    std::env::var("FAULTS_REPEAT").ok().and_then(|text| text.parse().ok()).unwrap_or(REPEAT)
}

/// This process starts the jobs, so what they leave open here shows here.
fn own_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn shared_kib() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn many_jobs_in_a_row_leave_nothing() {
    let before = (Snapshot::take(), own_descriptors(), shared_kib());
    for index in 0..repeat() {
        let ended = Setup::new("meet").ranks(2).nodes(index % 2 + 1).finish();
        ended.expect_code(0);
        assert_eq!(ended.said("met"), ["2", "2"], "job {index}: {}", ended.show());
    }
    assert!(before.0.new_since().is_empty(), "{:?}", before.0.new_since());
    assert!(own_descriptors() <= before.1 + 2, "{} descriptors, {} before", own_descriptors(), before.1);
    note(&format!("{} jobs; shared memory of the machine {:+} KiB", repeat(), shared_kib() - before.2));
}

fn many_worlds_in_one_process_cost_no_more_than_one() {
    for nodes in [1, 2] {
        let count = repeat();
        let ended = Setup::new("cycles").ranks(2).nodes(nodes).variable("FAULTS_COUNT", count).finish();
        ended.expect_code(0);
        let lines = ended.said("usage");
        assert_eq!(lines.len(), 2, "{}", ended.show());
        for line in lines {
            let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            let (before, after) = (&numbers[1..5], &numbers[5..9]);
            // A heap settles in steps of a buffer (256 KiB); 1 KiB a world would be more. The others are exact.
            assert!(after[0] <= before[0] + 512, "KiB: {before:?} {after:?}: {}", ended.show());
            assert_eq!(after[1], before[1], "descriptors: {}", ended.show());
            assert!(after[2] <= before[2] + 2, "mappings: {before:?} {after:?}: {}", ended.show());
            assert_eq!(after[3], before[3], "threads: {}", ended.show());
        }
        note(&format!("{count} worlds on {nodes} nodes: {:?}", ended.said("usage")));
    }
}
