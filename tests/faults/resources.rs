//! Too little of something: memory, descriptors, file systems.

use crate::job::Setup;
use crate::runner::{skip, tests};
use crate::space;
use std::path::{Path, PathBuf};

tests![
    a_used_up_budget_is_an_error_and_the_job_goes_on,
    few_descriptors_are_enough_and_too_few_are_named,
    callers_beyond_the_limit_on_open_files_all_get_through,
    memory_that_no_thread_can_serve_is_not_registered,
    a_job_needs_no_file_system,
    a_full_control_group_gives_errors_and_nobody_is_killed,
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

/// Words before a rank's command line, that limit its open files.
fn limited(limit: &str) -> Vec<String> {
    ["sh", "-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")].map(str::to_string).to_vec()
}

fn callers_beyond_the_limit_on_open_files_all_get_through() {
    let words = limited("28");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Rank 0 has room for twelve connections, and 38 ranks of other nodes call it.
    let ended = Setup::new("gather").ranks(40).nodes(20).before_rank(&words).finish();
    ended.expect_code(0);
    assert_eq!(ended.said("gathered"), ["40"], "{}", ended.show());
    assert!(ended.reports().is_empty(), "{}", ended.show());
}

fn memory_that_no_thread_can_serve_is_not_registered() {
    let ended = Setup::new("threadless").finish();
    ended.expect_code(0);
    assert_eq!(ended.said("refused"), ["System"], "{}", ended.show());
    assert_eq!(ended.said("served"), ["5"], "{}", ended.show());
}

fn few_descriptors_are_enough_and_too_few_are_named() {
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

/// A control group with a limit on memory, below that of this process; gone when dropped.
struct Group(PathBuf);

impl Group {
    /// `None` if none can be made here.
    fn new(limit: &str) -> Option<Group> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = |controllers: &str| {
            let line = groups.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(controllers));
            line.map(|path| path.trim_start_matches('/').to_string())
        };
        let places = [
            (own("memory:").map(|own| Path::new("/sys/fs/cgroup/memory").join(own)), "memory.limit_in_bytes"),
            (own(":").map(|own| Path::new("/sys/fs/cgroup").join(own)), "memory.max"),
        ];
        let made = |(place, file): (Option<PathBuf>, &str)| {
            let group = Group(place?.join(format!("kumiki-faults-{}", std::process::id())));
            std::fs::create_dir(&group.0).ok()?;
            // Where no control groups are mounted the folder stays empty, and nothing must be made in it.
            std::fs::OpenOptions::new().write(true).open(group.0.join(file)).ok()?;
            std::fs::write(group.0.join(file), limit).ok()?;
            Some(group)
        };
        places.into_iter().find_map(made)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn a_full_control_group_gives_errors_and_nobody_is_killed() {
    let Some(group) = Group::new("100663296") else {
        return skip("a memory limit of 96 MiB", "no control group can be made here");
    };
    let joins = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    for nodes in [1, 2] {
        let words = ["sh", "-c", &joins, "sh"];
        let ended = Setup::new("budget").nodes(nodes).before_launcher(&words).finish();
        ended.expect_code(0);
        let full = ended.said("full");
        assert_eq!(full.len(), 2, "{nodes} nodes: {}", ended.show());
        for line in full {
            assert!(line.contains("OutOfMemory") && line.contains("control group"), "{}", ended.show());
        }
        // The canary: some of the memory was had.
        let taken = |line: &&str| line.split(' ').next().and_then(|word| word.parse::<u32>().ok());
        assert!(ended.said("full").iter().filter_map(taken).sum::<u32>() > 64, "{}", ended.show());
        assert_eq!(ended.said("after"), ["77", "77"], "{nodes} nodes: {}", ended.show());
    }
}
