//! `kumiki top`: what is seen from outside of programs that run.

use crate::job::{kumiki, Job};
use crate::join::{ended, process, Way};
use crate::loopback;
use serde_json::{json, Value};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Until something is seen; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `kumiki top --json` says.
fn top() -> Value {
    let output = Command::new(kumiki()).args(["top", "--json"]).output().expect("kumiki top");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The world that has this process.
fn world_of(pid: u32) -> Option<Value> {
    let worlds = top()["worlds"].as_array().cloned().expect("worlds");
    let has = |world: &Value| {
        world["members"].as_array().is_some_and(|all| all.iter().any(|one| one["pid"] == pid))
    };
    worlds.into_iter().find(has)
}

/// Looks again and again until the world of a process is as it should be.
fn until(pid: u32, is_right: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    let mut seen = Value::Null;
    while began.elapsed() < PATIENCE {
        seen = world_of(pid).unwrap_or_default();
        if is_right(&seen) {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it was never seen; at last: {seen:#}");
}

/// Processes of a test, which end with it.
struct Blocks(Vec<Child>);

impl Blocks {
    fn start(role: &str, way: Way, count: usize) -> Blocks {
        let master = loopback::address();
        let start = |block| {
            let mut command = process(role, way, master, (block, count), (0, 1));
            command.stdin(Stdio::piped()).spawn().expect("a process")
        };
        Blocks((0..count).map(start).collect())
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn who_waits_for_whom_is_seen_from_outside() {
    for way in [Way::Machine, Way::Apart] {
        let mut blocks = Blocks::start("chain", way, 3);
        let pids: Vec<u32> = blocks.0.iter().map(Child::id).collect();
        let waits = |world: &Value, rank: usize| world["members"][rank]["waits"].clone();
        let world = until(pids[0], |world| {
            waits(world, 0)["ranks"] == json!([1])
                && waits(world, 1)["ranks"] == json!([2])
                && waits(world, 2).is_null()
                && world["members"][1]["kept_messages"] == 1
        });
        assert_eq!((&world["kind"], &world["ranks"]), (&json!("join"), &json!(3)), "{world:#}");
        for (rank, pid) in pids.iter().enumerate() {
            let member = &world["members"][rank];
            assert_eq!(
                (&member["pid"], &member["name"]),
                (&json!(pid), &json!(format!("{rank}.0"))),
                "{world:#}"
            );
            assert!(member["booked_bytes"].as_u64() > Some(0), "{world:#}");
            assert!(member["program"].as_str().is_some_and(|name| name.starts_with("e2e")), "{world:#}");
        }
        assert_eq!(waits(&world, 0)["what"], "message");
        assert_eq!(waits(&world, 0)["names"], json!(["1.0"]));
        assert_eq!(world["members"][1]["received"], json!({"messages": 1, "bytes": 100}), "{world:#}");
        // However long it lasts it is no circle.
        let world = until(pids[0], |world| waits(world, 0)["for_ms"].as_u64() > Some(1500));
        assert_eq!(world["circles"], json!([]));
        let page = Command::new(kumiki()).args(["top", "--once"]).output().expect("kumiki top");
        let page = String::from_utf8(page.stdout).expect("text");
        assert!(
            page.contains("a message of 1.0") && page.contains("0.0 → 1.0 → 2.0, which does not wait"),
            "{page}"
        );
        blocks.0[2].stdin.take().expect("its input").write_all(b"go\n").expect("a line");
        for child in std::mem::take(&mut blocks.0) {
            let (code, text) = ended(child);
            assert_eq!(code, Some(0), "{way:?}: {text}");
        }
    }
}

#[test]
fn two_that_wait_for_each_other_are_a_circle() {
    for way in [Way::Machine, Way::Apart] {
        let blocks = Blocks::start("circle", way, 2);
        let world = until(blocks.0[0].id(), |world| world["circles"] == json!([[0, 1]]));
        assert_eq!(world["circle_names"], json!([["0.0", "1.0"]]), "{world:#}");
        let page = Command::new(kumiki()).args(["top", "--once"]).output().expect("kumiki top");
        let page = String::from_utf8(page.stdout).expect("text");
        assert!(page.contains("CIRCLE: 0.0 → 1.0 → 0.0"), "{page}");
    }
}

#[test]
fn a_barrier_in_which_messages_are_looked_after_lasts_long_enough_for_a_circle() {
    for way in [Way::Machine, Way::Apart] {
        let blocks = Blocks::start("barrier circle", way, 2);
        let world = until(blocks.0[0].id(), |world| world["circles"] == json!([[0, 1]]));
        assert_eq!(world["members"][0]["waits"]["what"], "barrier", "{world:#}");
    }
}

#[test]
fn ranks_of_a_run_are_seen_on_all_nodes_of_this_machine() {
    let options = ["-n", "3", "--virtual-nodes", "2", "--budget", "64M"];
    let job = Job::ranks(&options, "attach sleep_ms=100000").start();
    let pids = job.joined(3);
    let world = until(pids[0], |world| world["members"].as_array().is_some_and(|all| all.len() == 3));
    assert_eq!(
        (&world["kind"], &world["nodes"], &world["nodes_here"]),
        (&json!("run"), &json!(2), &json!(2))
    );
    assert_eq!((&world["budget_bytes"], &world["phase"]), (&json!(64 << 20), &json!("ready")));
    for (rank, pid) in pids.iter().enumerate() {
        assert_eq!(world["members"][rank]["pid"], json!(pid), "{world:#}");
    }
    job.signal(libc::SIGTERM);
    job.wait();
    assert!(world_of(pids[0]).is_none(), "it has ended");
}
