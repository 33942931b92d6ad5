//! Too little of something: memory, descriptors, file systems.

use crate::job::Setup;
use crate::runner::{skip, tests};
use crate::space;

tests![
    a_used_up_budget_is_an_error_and_the_job_goes_on,
    few_descriptors_are_enough_and_too_few_are_named,
    a_job_needs_no_file_system,
];

fn a_used_up_budget_is_an_error_and_the_job_goes_on() {
    for nodes in [1, 2] {
        let ended = Setup::new("budget").nodes(nodes).option("--budget=4M").finish();
        ended.expect_code(0);
        let full = ended.said("full");
        assert_eq!(full.len(), 2, "{nodes} nodes: {}", ended.show());
        for line in full {
            let regions: u32 = line.split(' ').next().and_then(|word| word.parse().ok()).unwrap();
            // Sixteen regions of 256 KiB would be all of it, and something is needed for the library itself.
            assert!((8..16).contains(&regions) && line.contains("OutOfMemory"), "{}", ended.show());
        }
        assert_eq!(ended.said("after"), ["77", "77"], "{nodes} nodes: {}", ended.show());
    }
    // The canary: without a budget the same role would go on taking; so the budget is what stopped it.
    let ended = Setup::new("budget").option("--budget=8M").finish();
    let more =
        |line: &&str| line.split(' ').next().and_then(|word| word.parse().ok()).is_some_and(|n: u32| n > 16);
    assert!(ended.said("full").iter().all(more), "{}", ended.show());
}

fn few_descriptors_are_enough_and_too_few_are_named() {
    let limited = |limit: &str| -> Vec<String> {
        ["sh", "-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")].map(str::to_string).to_vec()
    };
    let run = |limit: &str, nodes: u32| {
        let words = limited(limit);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Setup::new("meet").ranks(4).nodes(nodes).before_rank(&words).finish()
    };
    for nodes in [1, 2] {
        run("32", nodes).expect_code(0);
    }
    let ended = run("16", 2);
    assert_ne!(ended.code, 0, "{}", ended.show());
    ended.expect_error("open files").expect_error("20");
    // The launcher and its agents have a limit, too.
    let words = limited("32");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = Setup::new("meet").ranks(4).before_launcher(&words).finish();
    assert_ne!(ended.code, 0, "{}", ended.show());
    ended.expect_error("open files").expect_error("ulimit -n");
}

fn a_job_needs_no_file_system() {
    if !space::is_root() && !space::is_own() {
        return skip("a small /dev/shm and a read-only /tmp", "neither root nor user namespaces");
    }
    let script = "mount -t tmpfs -o size=1m tmpfs /dev/shm && mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && unset HOME && exec \"$@\"";
    for nodes in [1, 2] {
        let words = ["unshare", "-m", "sh", "-c", script, "sh"];
        let setup = Setup::new("budget").nodes(nodes).option("--budget=64M").before_launcher(&words);
        let ended = setup.finish();
        ended.expect_code(0);
        // Far more than /dev/shm would have held.
        assert_eq!(ended.said("after"), ["77", "77"], "{}", ended.show());
    }
}
