//! `kumiki sim`: what it refuses, and how.

use std::path::PathBuf;
use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kumiki"))
        .arg("sim")
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A file that is gone when the test is over.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("kumiki-sim-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn bad_input_is_refused_with_its_place_and_what_would_be_right() {
    let mgen = File::new("wrong.mgen", "let right = (rank + 1) % ranks\nsned 8 to right\n");
    let goal = File::new("wrong.goal", "num_ranks 2\nrank 0 {\nl1: send 8b to 9\n}\n");
    let toml = File::new("wrong.toml", "topology = \"torus:4x4\"\n[parameters]\nlink_latenzy = \"1us\"\n");
    let trace = File::new("wrong.json", "[\n{\"ph\":\"i\",\"pid\":0,\"name\":\"nothing\"}\n]\n");
    let empty = File::new("empty.json", "[\n]\n");
    for (arguments, parts) in [
        (
            vec!["run", mgen.name(), "--net", "torus:4x4"],
            vec![":2:1:", "sned 8 to right", "^^^^", "maybe you meant `send`"],
        ),
        (vec!["run", goal.name(), "--net", "torus:4x4"], vec![":3:16:", "no rank 9"]),
        (vec!["run", "ring", "--net", toml.name()], vec![":3:1:", "maybe you meant `link_latency`"]),
        (vec!["run", trace.name(), "--net", "torus:4x4"], vec![":2:", "`nothing` is no event"]),
        (vec!["run", empty.name(), "--net", "torus:4x4"], vec!["--virtual-nodes"]),
        (vec!["run", "rign", "--net", "torus:4x4"], vec!["maybe you meant ring"]),
        (vec!["run", "ring", "--net", "tours:4x4"], vec!["unknown topology", "torus:8x8x8"]),
        (vec!["run", "ring", "--net", "infinband"], vec!["maybe you meant `infiniband`"]),
        (vec!["run", "ring", "--net", "torus:4x4", "--ranks", "99"], vec!["room for 16 ranks"]),
        (vec!["run", "ring", "--net", "torus:4x4", "--set", "color=red"], vec!["unknown parameter 'color'"]),
        (vec!["run", "ring", "--net", "torus:4x4", "--param", "k"], vec!["NAME=VALUE"]),
        (vec!["run", "ring", "--net", "torus:4x4", "--pacing", "soon"], vec!["off, overlap, hops or a time"]),
        (vec!["run", "xor-pairwise", "--net", "torus:3x3"], vec!["power of two"]),
        (vec!["compare", "ring", "--net", "torus:4x4", "--vary", "k"], vec!["NAME=VALUE"]),
        (vec!["fmt", mgen.name()], vec![":2:1:"]),
        (vec!["fmt", "no-such.mgen"], vec!["cannot read no-such.mgen"]),
    ] {
        let output = sim(&arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?} was accepted");
        for part in parts {
            assert!(said.contains(part), "{arguments:?} said:\n{said}");
        }
    }
}

#[test]
fn the_formatter_rewrites_and_checks() {
    let file = File::new("form.mgen", "if rank==0{send 8 to 1;}\n");
    let check = sim(&["fmt", "--check", file.name()]);
    assert_eq!(check.status.code(), Some(1));
    assert!(text(&check.stderr).contains("is not formatted"));
    assert!(sim(&["fmt", file.name()]).status.success());
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "if rank == 0 {\n    send 8 to 1\n}\n");
    assert!(sim(&["fmt", "--check", file.name()]).status.success());
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = sim(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_run_gives_exactly_the_fields_that_were_promised() {
    let value =
        json(&["run", "ring", "--net", "torus:4x4x4", "--messages", "16", "--bytes", "64K", "--json"]);
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(|key| key.as_str()).collect();
    keys.sort_unstable();
    let promised = [
        "bound_us",
        "cpu_seconds",
        "net",
        "packet_hops",
        "packets",
        "parameters",
        "pattern",
        "peak_rss_bytes",
        "ranks",
        "time_us",
    ];
    assert_eq!(keys, promised);
    assert_eq!((&value["pattern"], &value["ranks"]), (&"ring".into(), &64.into()));
    let (time, bound) = (value["time_us"].as_f64().unwrap(), value["bound_us"].as_f64().unwrap());
    assert!((bound - 209.7152).abs() < 0.01 && time >= bound && time < bound * 1.05, "{time} {bound}");
    assert_eq!(value["parameters"]["buffer_packets"], "4");
}

#[test]
fn the_report_names_bound_causes_links_and_parameters() {
    let output = sim(&[
        "run",
        "examples/sim/programs/halo.mgen",
        "--net",
        "k-rack",
        "--ranks",
        "64",
        "--param",
        "bytes=8K",
    ]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        "predicted time",
        "link-load bound",
        "hottest links",
        "waiting of packets",
        "param.bytes",
        "8192",
        "buffer_packets",
    ] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
}

#[test]
fn pictures_and_time_lines_are_written() {
    let (picture, line) = (File::new("heat.png", ""), File::new("line.json", ""));
    let arguments =
        ["run", "halo", "--net", "torus:4x4x4", "--heatmap", picture.name(), "--timeline", line.name()];
    let output = sim(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(std::fs::read(&picture.0).unwrap().starts_with(b"\x89PNG"));
    let events: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(&line.0).unwrap()).unwrap();
    assert!(
        events.iter().any(|event| event["ph"] == "b" && event["args"]["bytes"] == 65536),
        "{}",
        events.len()
    );
}

#[test]
fn runs_are_compared_side_by_side() {
    let chart = File::new("compare.png", "");
    let arguments = [
        "compare",
        "shift-pairwise",
        "xor-pairwise",
        "--net",
        "torus:4x4",
        "--net",
        "fattree:levels=2,arity=4",
        "--pacings",
        "off,overlap",
        "--depths",
        "2,8",
        "--sync-steps",
        "--png",
        chart.name(),
    ];
    let table = text(&sim(&arguments).stdout);
    assert_eq!(table.lines().count(), 1 + 16, "{table}");
    assert!(table.contains("pacing overlap, buffers 8") && table.contains("beside"), "{table}");
    assert!(std::fs::read(&chart.0).unwrap().starts_with(b"\x89PNG"));
    let vary = [
        "compare",
        "examples/sim/programs/allreduce.mgen",
        "--net",
        "torus:4x4",
        "--vary",
        "algorithm=0,1,2,3",
        "--json",
    ];
    let lines = text(&sim(&vary).stdout);
    let times: Vec<f64> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["time_us"].as_f64().unwrap())
        .collect();
    assert_eq!(times.len(), 4, "{lines}");
    assert!(times[1] < times[0], "a ring should win for a megabyte: {times:?}");
}

#[test]
fn a_program_that_waits_for_itself_is_reported() {
    let file = File::new("stuck.mgen", "recv 8 from (rank + 1) % ranks\nsend 8 to (rank - 1) % ranks\n");
    let output = sim(&["run", file.name(), "--net", "torus:4"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("deadlock") && said.contains("circle"), "{said}");
}

#[test]
fn a_trace_of_the_self_test_is_replayed_to_its_end() {
    let trace = File::new("selftest.json", "");
    let program = env!("CARGO_BIN_EXE_kumiki");
    let words = ["run", "-n", "4", "--virtual-nodes", "2", "--trace", trace.name(), program];
    let run = Command::new(program).args(words).args(["selftest", "--rounds", "2", "--seed", "3"]).output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    let output = sim(&["run", trace.name(), "--net", "torus:4"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("nothing went over a link"), "{}", text(&output.stdout));
}

#[test]
fn options_that_have_no_effect_are_refused() {
    for (words, said) in [
        (&["run", "ring", "--net", "torus:4", "--param", "k=8"][..], "--param k"),
        (&["compare", "ring", "halo", "--net", "torus:4", "--param", "k=8"], "--param k"),
        (&["run", "ring", "--net", "torus:4", "--compute-scale", "nan"], "a number, 0 or more"),
        (&["run", "/dev/zero", "--net", "torus:4"], "longer than"),
    ] {
        let output = sim(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(said), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_trace_of_a_real_run_is_replayed() {
    let trace = File::new("trace.json", "");
    let kumiki = env!("CARGO_BIN_EXE_kumiki");
    let run = [
        "run",
        "-n",
        "3",
        "--virtual-nodes",
        "3",
        "--trace",
        trace.name(),
        "--",
        kumiki,
        "rank",
        "sim",
        "1000",
        "3",
        "ring:4096",
    ];
    let done = Command::new(kumiki).args(run).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let value = json(&["run", trace.name(), "--net", "torus:3", "--json"]);
    assert!(value["packets"].as_u64().unwrap() > 10 && value["time_us"].as_f64().unwrap() > 0.0, "{value}");
    let slow = json(&["run", trace.name(), "--net", "torus:3,bandwidth=1MB/s", "--json"]);
    assert!(slow["time_us"].as_f64() > value["time_us"].as_f64(), "{slow} {value}");
}

#[test]
fn the_page_on_pacing_is_made() {
    let output = sim(&["pacing", "--quick"]);
    let page = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(page.contains("| torus:32x16 | 512 | 2 |") && page.contains("## Imbalance"), "{page}");
}

#[test]
fn this_machine_is_calibrated_and_patterns_are_predicted_for_it() {
    let here = File::new("here.toml", "");
    for over in ["tcp", "shm"] {
        let done = sim(&["calibrate", "--over", over, "--rounds", "3", "--out", here.name()]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        let ring = json(&["run", "ring", "--net", here.name(), "--bytes", "64K", "--json"]);
        assert!(ring["time_us"].as_f64().is_some_and(|time| time > 0.0), "{ring}");
    }
    let predicted = sim(&["predict", "--bytes", "4096", "--rounds", "3", "--json"]);
    assert!(predicted.status.success(), "{}", text(&predicted.stderr));
    let rows: Vec<serde_json::Value> =
        text(&predicted.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let patterns: Vec<_> = rows.iter().map(|row| (row["over"].as_str(), row["pattern"].as_str())).collect();
    let wanted = ["ring", "halo", "alltoall", "dissemination"];
    let pair = |over| wanted.map(|pattern| (Some(over), Some(pattern)));
    assert_eq!(patterns, [pair("shm"), pair("tcp")].concat());
    for row in &rows {
        for field in ["predicted_us", "measured_us"] {
            assert!(row[field].as_f64().is_some_and(|time| time > 0.0), "{row}");
        }
        assert!(row["deviation_percent"].is_number() && row["ranks"] == 2, "{row}");
    }
}
