//! `kumiki bench`: that it measures and says so in the right form. How fast anything is, no test asserts.

use crate::strangers::Folder;
use serde_json::Value;
use std::os::unix::fs::{chown, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    bench_of("mem", arguments)
}

fn bench_of(what: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kumiki")).arg("bench").arg(what).args(arguments).output().unwrap()
}

#[test]
fn a_short_benchmark_gives_rows_with_the_right_fields() {
    let output = bench(&["--quick", "--samples", "1", "--only", "put8", "--peers", "none", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["metric"].as_str()).collect();
    for name in ["put8.shm.typed", "put8.shm.handle", "put8.shm.private", "put8.tcp.typed", "busy.put8.tcp"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    for row in &rows {
        assert!(row.get("error").is_none(), "{row}");
        assert!(row["kumiki"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        assert!(row["unit"].is_string() && row["spread"].is_number(), "{row}");
        assert_eq!(row["peers"], serde_json::json!({}));
        assert!(row["best_peer"].is_null() && row["ratio_peer"].is_null(), "{row}");
        let without = ["busy", "put8.shm.threads", "put8.tcp.many"];
        let has_floor = !without.iter().any(|name| row["metric"].as_str().unwrap().starts_with(name));
        assert_eq!(row["floor"].is_number() && row["ratio_floor"].is_number(), has_floor, "{row}");
    }
}

#[test]
fn wrong_questions_are_answered_with_what_would_be_right() {
    let unknown = bench(&["--only", "putt8", "--peers", "none"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("--list"));
    let peer = bench(&["--only", "put8", "--peers", "openmmpi"]);
    assert_eq!(peer.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&peer.stderr).contains("openmpi4"));
    let list = bench(&["--list", "--only", "barrier"]);
    assert!(list.status.success() && String::from_utf8_lossy(&list.stdout).contains("barrier.shm.16"));
}

#[test]
fn senders_that_meet_are_measured_on_links_that_are_as_slow_as_asked() {
    let words = ["--senders", "3", "--mib", "1", "--link-rate", "100M", "--samples", "1", "--json"];
    let output = bench_of("pacing", &words);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("--netns needs root or user namespaces") {
        return println!("skipped: {}", errors.trim());
    }
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let modes: Vec<&str> = rows.iter().filter_map(|row| row["pacing"].as_str()).collect();
    assert_eq!(modes, ["off", "auto", "on"]);
    for row in &rows {
        let figure = |name: &str| row[name]["median"].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        // 3 MiB at 12.5 MB/s, but for what leaves at once.
        assert!(figure("slowest_s") > 0.2, "{row}");
        assert!(figure("get_median_us") > 0.0 && figure("get_p99_us") <= figure("get_most_us"), "{row}");
    }
    let unknown = Command::new(env!("CARGO_BIN_EXE_kumiki"))
        .args([
            "run",
            "-n",
            "2",
            "--virtual-nodes",
            "2",
            env!("CARGO_BIN_EXE_kumiki"),
            "bench",
            "pacing-rank",
            "1",
        ])
        .env("KUMIKI_PACING", "fast")
        .output()
        .unwrap();
    assert!(!unknown.status.success());
    let errors = String::from_utf8_lossy(&unknown.stderr);
    assert!(errors.contains("KUMIKI_PACING") && errors.contains("auto"), "{errors}");
}

#[test]
fn the_structures_are_measured_and_right() {
    let output = bench_of("data", &["--quick", "--samples", "1", "--peers", "none", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= 15, "{} rows", rows.len());
    for row in &rows {
        assert!(row.get("error").is_none(), "{row}");
        assert!(row["kumiki"].as_f64().is_some_and(|value| value > 0.0), "{row}");
    }
    let bytes = rows.iter().find(|row| row["metric"] == "map.entry_bytes").unwrap();
    assert!(bytes["kumiki"].as_f64().unwrap() <= 48.0, "{bytes}");
    let peer = bench_of("data", &["--peers", "memcached"]);
    assert_eq!(peer.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&peer.stderr).contains("std, redis"));
}

#[test]
fn programs_that_join_are_measured_on_one_node_and_between_two() {
    let words = ["--samples", "1", "--only", "join8,joinbw.tcp.64K,bcast8.shm", "--peers", "none", "--json"];
    let output = bench_of("join", &words);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["metric"].as_str()).collect();
    assert_eq!(names, ["join8.shm", "bcast8.shm.2x8", "join8.tcp", "joinbw.tcp.64K"]);
    for row in &rows {
        assert!(row.get("error").is_none(), "{row}");
        assert!(row["kumiki"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        let is_between = row["metric"].as_str().unwrap().contains("tcp");
        assert_eq!(
            row["ratio_floor"].is_number() && row["bounds"][0]["holds"].is_boolean(),
            is_between,
            "{row}"
        );
    }
}

#[test]
fn wrong_questions_about_joining_are_answered() {
    let peer = bench_of("join", &["--peers", "zeromqq", "--only", "join8"]);
    assert_eq!(peer.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&peer.stderr);
    assert!(errors.contains("openmpi4") && errors.contains("zeromq, waitio, flat"), "{errors}");
    for words in [&["--memory", "--groups", "32"][..], &["--groups", "2x2"], &["--memory", "--peers", "none"]]
    {
        assert_eq!(bench_of("join", words).status.code(), Some(2), "{words:?}");
    }
    let list = bench_of("join", &["--list"]);
    let text = String::from_utf8_lossy(&list.stdout);
    assert!(list.status.success() && text.contains("allreduce8.tcp.2x8"), "{text}");
}

#[test]
fn a_rank_that_sends_to_every_other_stays_within_its_memory() {
    let words = ["--memory", "--ranks", "8,32", "--peers", "none", "--json"];
    let output = bench_of("comm", &words);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ranks: Vec<u64> = rows.iter().filter_map(|row| row["ranks"].as_u64()).collect();
    assert_eq!(ranks, [8, 32], "{text}");
    for row in &rows {
        let most = row["bytes_per_rank"]["max"].as_u64().unwrap_or_else(|| panic!("{row}"));
        let (private, shared) = (&row["private_bytes"]["max"], &row["shared_bytes_per_rank"]);
        assert_eq!(Some(most), private.as_u64().zip(shared.as_u64()).map(|(a, b)| a + b), "{row}");
        assert!(most <= 256 << 10 && row["holds"] == true && row["bound_bytes"] == 256 << 10, "{row}");
        // A mailbox and what every rank has in the arena.
        assert!(shared.as_u64().is_some_and(|bytes| bytes >= 28 << 10), "{row}");
        assert!(row["page_table_bytes"]["median"].as_u64().is_some_and(|bytes| bytes > 0), "{row}");
    }
    let alone = bench_of("comm", &["--ranks", "8"]);
    assert_eq!(alone.status.code(), Some(2), "--ranks is for --memory");
}

/// A program of a stranger where one of ours is expected, beside the very source that ours would be built from.
fn plant(folder: &Path, witness: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let source = format!("{}/../../benches/peers/local.cpp", env!("CARGO_MANIFEST_DIR"));
    std::fs::copy(source, folder.join("local.cpp")).unwrap();
    let program = folder.join("local");
    std::fs::write(&program, format!("#!/bin/sh\necho > {}\necho ready\n", witness.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Measures one thing beside the C++ library. Returns what was said to standard error.
fn beside_std(cache: &Path, temporary: &Path, directory: &Path) -> String {
    let words = ["bench", "data", "--quick", "--samples", "1", "--only", "map.find.own", "--peers", "std"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki"));
    command.args(words).env("XDG_CACHE_HOME", cache).env("TMPDIR", temporary).current_dir(directory);
    let output = command.env_remove("KUMIKI_PEERS_DIR").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_that_somebody_else_planted_is_not_run() {
    let folder = Folder::new("planted");
    let (cache, witness) = (folder.0.join("cache"), folder.0.join("witness"));
    let bench = cache.join("kumiki/bench");
    // Where it was looked for once: among temporary files, and above the current folder.
    let user =
        std::fs::metadata("/proc/self").map(|data| std::os::unix::fs::MetadataExt::uid(&data)).unwrap();
    let inner = folder.0.join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    plant(&folder.0.join(format!("tmp/kumiki-peers-{user}")), &witness);
    plant(&folder.0.join("target/peers"), &witness);
    let said = beside_std(&cache, &folder.0.join("tmp"), &inner);
    assert!(!witness.exists() && !said.contains("left out"), "{said}");

    // Where it is now: a folder that others can write to, and one of another user.
    std::fs::remove_dir_all(&bench).unwrap();
    plant(&bench, &witness);
    std::fs::set_permissions(&bench, std::fs::Permissions::from_mode(0o777)).unwrap();
    let said = beside_std(&cache, &folder.0, &inner);
    assert!(!witness.exists() && said.contains("others may write to it"), "{said}");
    std::fs::set_permissions(&bench, std::fs::Permissions::from_mode(0o700)).unwrap();
    if user == 0 {
        chown(&bench, Some(12345), None).unwrap();
        let said = beside_std(&cache, &folder.0, &inner);
        assert!(!witness.exists() && said.contains("another user"), "{said}");
        // What another user left in a folder that is ours now is built anew.
        chown(&bench, Some(0), None).unwrap();
        chown(bench.join("local"), Some(12345), None).unwrap();
        let said = beside_std(&cache, &folder.0, &inner);
        assert!(!witness.exists() && !said.contains("left out"), "{said}");
    }
}
