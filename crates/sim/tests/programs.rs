//! Programs in MGEN, schedules and traces on the simulated network: they end, at the right time, with the right traffic, or
//! say what is wrong.

use kumiki_sim::mgen::{parameter, verbs, Program};
use kumiki_sim::source::Source;
use kumiki_sim::{description, goal, replay, simulate, Network, Options, Report, Workload};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn network(short: &str) -> Network {
    Network::parse_short(short).unwrap()
}

fn run_on(network: &Network, ranks: u32, text: &str) -> Result<Report, String> {
    let source = Source::new("t.mgen", text);
    let program = Program::new(&source, ranks, &[], 7)?;
    let done = simulate(network, &program, &Options::default());
    match program.mistake() {
        Some(mistake) => Err(mistake.to_string()),
        None => done.map_err(|error| error.to_string()),
    }
}

fn run(ranks: u32, text: &str) -> Report {
    run_on(&network("torus:4x5"), ranks, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Microseconds of a program of two ranks on a network without latency and overheads.
fn time(text: &str) -> f64 {
    let network = network("mesh:2,latency=0,router_delay=0,bandwidth=1GB/s,packet=1024");
    run_on(&network, 2, text).unwrap_or_else(|error| panic!("{text}: {error}")).time.as_us()
}

#[test]
fn every_collective_ends_for_every_number_of_ranks() {
    for verb in verbs::VERBS.iter().filter(|verb| verb.is_collective()) {
        for algorithm in verb.algorithms {
            for ranks in 1..=17u32 {
                let needs_power =
                    matches!((verb.name, *algorithm), (_, "xor") | ("allgather", "recursive-doubling"));
                if needs_power && !ranks.is_power_of_two() {
                    continue;
                }
                let root = verb.must.first().map_or(String::new(), |key| format!("{key} {}", ranks / 2));
                let bytes = if verb.amount == verbs::Amount::Bytes { "640" } else { "" };
                // Twice, so that messages of one would be taken for those of the other if they could.
                let line = format!("{} {bytes} {root} by {algorithm}\n", verb.name);
                run(ranks, &line.repeat(2));
            }
        }
    }
}

#[test]
fn collectives_move_what_they_should() {
    let messages = |text: &str| run(16, text).messages;
    assert_eq!(messages("alltoall 1K by pairwise"), 16 * 15);
    assert_eq!(messages("alltoall 1K by bruck"), 16 * 4);
    assert_eq!(messages("allreduce 1K by ring"), 16 * 30);
    assert_eq!(messages("allreduce 1K by recursive-doubling"), 16 * 4);
    assert_eq!(messages("bcast 1K from 3 by binomial"), 15);
    assert_eq!(messages("gather 1K to 3 by linear"), 15);
    assert_eq!(messages("barrier by dissemination"), 16 * 4);
    assert_eq!(messages("barrier by ideal"), 0);
}

#[test]
fn values_and_control_flow_are_right() {
    for (text, us) in [
        ("compute 10 us", 10.0),
        ("compute 1.5 us * 4", 6.0),
        ("for i in 0..5 { compute i us }", 10.0),
        ("for i in 0..5 { compute (i + 1) us }", 15.0),
        ("for i in 5..0 step -2 { compute 1 us }", 3.0),
        ("repeat 3 { compute 2 us }", 6.0),
        ("let n = 1\nwhile n < 100 { n = n * 2; compute 1 us }", 7.0),
        ("for i in 0..10 { if i % 2 == 1 { next }; if i > 6 { break }; compute 1 us }", 4.0),
        ("func f(x) = x * x\nfunc g(x, y) = f(x) + f(y)\ncompute g(3, 4) us", 25.0),
        ("proc p(n) { if n == 0 { return }; compute 1 us; p(n - 1) }\np(6)", 6.0),
        ("let a = 3\nproc p() { compute a us }\na = 5\np()", 5.0),
        ("compute (7 ^ 2) us", 5.0),
        ("compute ((0 - 1) % 8) us", 7.0),
        ("compute ((0 - 7) / 2 + 10) us", 6.0),
        (
            "compute (log2(9) + log2_up(9) + pow2(3) + div_up(7, 2) + gcd(12, 18) + sqrt(17) + bits(255)) us",
            37.0,
        ),
        ("compute (min(3, 1, 2) + max(3, 9) + abs(0 - 4)) us", 14.0),
        ("if 1 > 2 { compute 1 us } else if 2 > 1 and not 0 { compute 2 us } else { compute 3 us }", 2.0),
        ("compute max(1 us, 500 ns)", 1.0),
        ("compute 10 us\nassert now() == 10 us\ncompute 1 us", 11.0),
        ("compute 10 us / 4", 2.5),
        ("compute (10 us / 3 us) us", 3.0),
    ] {
        assert_eq!(time(text), us, "{text}");
    }
}

#[test]
fn operations_take_their_time() {
    // 64 KiB at 1 GB/s.
    let transfer = 65.536;
    let other = "(rank + 1) % ranks";
    assert_eq!(time(&format!("isend 64K to {other}\nrecv 64K from {other}\nwait all")), transfer);
    assert_eq!(time(&format!("put 64K to {other} flag 1\nawait 1\nwait all")), transfer);
    assert_eq!(time(&format!("let g = get 64K from {other}\nwait g\nassert done(g) == 1")), transfer);
    // In order, one after the other: still the time of all bytes.
    assert_eq!(time(&format!("repeat 4 {{ put 16K to {other} order continue }}\nwait all")), transfer);
    // 64 packets with 63 gaps of a microsecond between them.
    let paced = time(&format!("isend 64K to {other} gap 1 us\nrecv 64K from {other}\nwait all"));
    assert!((paced - (transfer + 63.0)).abs() < 0.01, "{paced}");
    assert_eq!(time("if rank == 0 { compute 5 us }\nbarrier by ideal\ncompute 1 us"), 6.0);
}

#[test]
fn what_goes_wrong_while_running_has_its_place_and_rank() {
    let two = network("torus:2");
    for (text, parts) in [
        ("send 8 to rank + 1", vec!["t.mgen:1:11", "there is no rank 2: ranks are 0 to 1", "on rank 1 of 2"]),
        ("let a = 1 / (rank - 1)", vec!["t.mgen:1:9", "divides by zero", "on rank 1"]),
        ("compute 10", vec!["t.mgen:1:", "expected a time such as 10 us, found a number"]),
        ("let h = 3\nwait h", vec!["t.mgen:2:6", "expected a handle"]),
        ("send 0 - 1 to 0", vec!["bytes cannot be -1"]),
        ("send 8 to 0 tag 4_000_000_000", vec!["a tag cannot be"]),
        ("while 1 {}", vec!["without end"]),
        ("proc p() { p() }\np()", vec!["t.mgen:1:12", "deep"]),
        ("let a = 1\nwhile 1 { a = a * 3 }", vec!["too large"]),
        ("assert rank == 0, \"only one, please\"", vec!["only one, please", "on rank 1"]),
        (
            "alltoall 8 by pairwise\nallgather 8 by recursive-doubling\nbcast 8 from 5",
            vec!["t.mgen:3:14", "there is no such rank"],
        ),
        ("if rank == 0 { recv 8 from 1 }", vec!["deadlock", "rank 0 waits"]),
        ("recv 8 from (rank + 1) % ranks\nsend 8 to (rank + 1) % ranks", vec!["deadlock", "circle"]),
    ] {
        let error = run_on(&two, 2, text).err().unwrap_or_else(|| panic!("{text} was accepted"));
        for part in parts {
            assert!(error.contains(part), "{text}:\n{error}");
        }
    }
}

#[test]
fn shipped_programs_end_on_shipped_networks() {
    let folder = root().join("examples/sim");
    let mut programs: Vec<PathBuf> =
        std::fs::read_dir(folder.join("programs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    programs.sort();
    for net in
        ["k-rack", "infiniband", "infiniband-tapered", "torus:4x4", "dragonfly:routers=4,nodes=2,globals=2"]
    {
        let network = description::network(net).unwrap();
        for path in &programs {
            let source = Source::read(path).unwrap();
            let workload: Box<dyn Workload> = match path.extension().and_then(|ending| ending.to_str()) {
                Some("goal") => Box::new(goal::Schedule::parse(&source).unwrap()),
                _ => Box::new(Program::new(&source, 16, &[], 1).unwrap()),
            };
            let report = simulate(&network, workload.as_ref(), &Options::default());
            let report = report.unwrap_or_else(|error| panic!("{} on {net}: {error}", path.display()));
            assert!(report.time >= report.bound && report.packets > 0, "{} on {net}", path.display());
        }
    }
}

#[test]
fn the_examples_of_the_reference_end() {
    let text = std::fs::read_to_string(root().join("docs/mgen.md")).unwrap();
    for block in text.split("```mgen\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        run(16, block);
    }
}

#[test]
fn a_parameter_changes_the_program() {
    let source = Source::new("t.mgen", "param work = 1 us\ncompute work\n");
    let given = [parameter("work=3us").unwrap()];
    let program = Program::new(&source, 2, &given, 0).unwrap();
    let report = simulate(&network("torus:2"), &program, &Options::default()).unwrap();
    assert_eq!(report.time.as_us(), 3.0);
}

#[test]
fn a_schedule_waits_for_what_it_requires() {
    let text = "num_ranks 2\nrank 0 {\nc: calc 5000\ns: send 1000b to 1\ns requires c\nd: calc 7000\nd irequires c\n}\n\
                rank 1 {\nr: recv 1000b from 0\nc: calc 1000\nc requires r\n}\n";
    let schedule = goal::Schedule::parse(&Source::new("t.goal", text)).unwrap();
    let network = network("torus:2,latency=0,router_delay=0,bandwidth=1GB/s");
    let report = simulate(&network, &schedule, &Options::default()).unwrap();
    // Rank 0 sends before it goes on computing; rank 1 has 5 + 1 + 1 microseconds.
    let times: Vec<f64> = report.rank_times.iter().map(|time| time.as_us()).collect();
    assert_eq!(times, [12.0, 7.0]);
}

/// A trace of a ring: everyone computes 10 µs, puts to the next, and waits for the put of the one before.
fn ring_trace(ranks: u32) -> String {
    let mut text = String::from("[\n");
    for rank in 0..ranks {
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let mut line = |at: u32, what: &str, peer: u32, bytes: u32, waited: u32| {
            let (name, kind) = what.split_once(" kind ").expect("a kind");
            text += &format!(
                "{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"{name} it\",\"ts\":{at}.0,\"pid\":{rank},\"tid\":0,\"args\":{{\"kind\":{kind},\"peer\":{peer},\
                 \"op\":1,\"bytes\":{bytes},\"waited\":{waited}.0}}}},\n"
            );
        };
        line(0, "send kind 23", next, 0, 0);
        line(10, "send kind 16", next, 1000, 0);
        line(500, "receive kind 16", last, 1000, 490);
        line(900, "receive kind 23", last, 0, 400);
        line(1200, "receive kind 22", next, 0, 300);
    }
    text + "]\n"
}

#[test]
fn a_trace_is_replayed_without_its_waits() {
    let source = Source::new("t.json", &ring_trace(4));
    let network = network("torus:16,latency=0,router_delay=0,bandwidth=1GB/s");
    let time = |scale: f64, times: u32| {
        let trace = replay::Replay::parse(&source, scale).unwrap().multiplied(&source, times).unwrap();
        simulate(&network, &trace, &Options::default()).unwrap().time.as_us()
    };
    // 10 µs of computing, 1 µs of transfer, and nothing of the milliseconds of waiting.
    assert!((time(1.0, 1) - 11.0).abs() < 0.1, "{}", time(1.0, 1));
    assert!((time(0.5, 1) - 6.0).abs() < 0.1, "{}", time(0.5, 1));
    assert!((time(1.0, 4) - 11.0).abs() < 0.1, "{}", time(1.0, 4));
}
