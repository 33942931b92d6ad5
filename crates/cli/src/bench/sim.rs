//! `kumiki bench sim`: how fast the simulator is, beside SimGrid on the same pattern.
//!
//! Every run is a process of its own, so that its CPU time and its memory are its own.

use super::workshop::{self, Workshop};
use crate::chart::bytes_text;
use crate::commands::{print, Outcome};
use crate::progress::bar;
use indicatif::ProgressBar;
use kumiki_run::report;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const PROGRAM: &str = include_str!("../../embedded/simgrid.cpp");

const EXAMPLES: &str = "\
Examples:
  kumiki bench sim                  512 nodes, all steps, and 8,192 nodes, sampled; SimGrid beside it (some minutes)
  kumiki bench sim --quick          fewer steps
  kumiki bench sim --peers none --json

SimGrid's flow model knows no packets, buffers or credits; where all steps are in time with each other it has little to do.
`./x peers` installs it (libsimgrid-dev).";

/// The simulator: packet-hops a second, memory, CPU time, beside SimGrid.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Compare with SimGrid if it is here (auto), or not (none).
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = ["auto", "none"])]
    peers: String,
    /// Fewer steps.
    #[arg(long)]
    quick: bool,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// A measurement: what is simulated, and what SimGrid is asked for beside it.
struct Case {
    name: &'static str,
    arguments: Vec<String>,
    /// Mode, sizes, bytes and steps for SimGrid, and how many steps it would have to run in all.
    peer: Option<[String; 4]>,
}

/// What a run gave.
struct Measured {
    time_us: f64,
    cpu_seconds: f64,
    wall_seconds: f64,
    peak_rss_bytes: f64,
    packet_hops: Option<f64>,
}

const LINK_BYTES_PER_SECOND: &str = "5000000000";
const SECONDS_PER_HOP: &str = "1e-7";

fn cases(quick: bool) -> Vec<Case> {
    let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let steps = if quick { "50" } else { "511" };
    // SimGrid's free-running model needs minutes for what is seconds here: it runs fewer steps.
    let free_steps = if quick { "10" } else { "50" };
    let common = "--threads 1 --json --bytes 64K --net torus:8x8x8,buffers=2 --ties plus";
    let peer = |mode: &str, steps: &str| Some(["8x8x8", "65536", steps, mode].map(String::from));
    let mut cases = vec![
        Case {
            name: "512 nodes, shift-pairwise, in step",
            arguments: words(&format!("run shift-pairwise --sync-steps --steps {steps} {common}")),
            peer: peer("sync", steps),
        },
        Case {
            name: "512 nodes, shift-pairwise, free-running",
            arguments: words(&format!("run shift-pairwise --steps {free_steps} {common}")),
            peer: peer("free", free_steps),
        },
    ];
    let sampled = if quick { "sample:3:1" } else { "sample:17:1" };
    for pacing in ["off", "overlap"] {
        let name = if pacing == "off" {
            "8,192 nodes, sampled steps, unpaced"
        } else {
            "8,192 nodes, sampled steps, paced"
        };
        let line = format!(
            "run shift-pairwise --net torus:128x64 --bytes 16K --steps {sampled} --sync-steps --buffers 2 --pacing {pacing} \
             --threads 1 --json"
        );
        cases.push(Case { name, arguments: words(&line), peer: None });
    }
    cases
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let program =
        std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let simgrid = if arguments.peers == "none" { None } else { find_simgrid() };
    if !arguments.json {
        print(&format!(
            "{:<42} {:>14} {:>10} {:>10} {:>12} {:>16}\n",
            "", "predicted", "CPU s", "wall s", "memory", "packet-hops/s"
        ))?;
    }
    let cases = cases(arguments.quick);
    let peers = cases.iter().filter(|case| case.peer.is_some() && simgrid.is_some()).count();
    let runs = (cases.len() + peers) as u64;
    let bar = bar(runs, "{bar:40.cyan/blue} {pos} of {len} runs, {elapsed}: {msg}", true);
    let done = cases.iter().try_for_each(|case| {
        let (ours, peer) = run_case(case, &program, simgrid.as_ref(), &bar)?;
        bar.suspend(|| print(&text_of(case, &ours, peer.as_ref(), arguments.json))).map(drop)
    });
    bar.finish_and_clear();
    done.map(|()| 0)
}

/// Runs ours and the peer's.
fn run_case(
    case: &Case,
    program: &Path,
    simgrid: Option<&SimGrid>,
    bar: &ProgressBar,
) -> Result<(Measured, Option<Measured>), String> {
    bar.set_message(case.name);
    let ours = measure(Command::new(program).arg("sim").args(&case.arguments))
        .map_err(|error| format!("{}: {error}", case.name))?;
    bar.inc(1);
    let (Some([sizes, bytes, steps, mode]), Some(simgrid)) = (&case.peer, simgrid) else {
        return Ok((ours, None));
    };
    let mut command = Command::new(&simgrid.program);
    command.current_dir(&simgrid.scratch).args([
        "--log=root.thres:critical",
        mode,
        sizes,
        bytes,
        steps,
        LINK_BYTES_PER_SECOND,
        SECONDS_PER_HOP,
    ]);
    let peer = measure(&mut command).map_err(|error| format!("SimGrid: {error}"))?;
    bar.inc(1);
    Ok((ours, Some(peer)))
}

fn text_of(case: &Case, ours: &Measured, peer: Option<&Measured>, as_json: bool) -> String {
    let rate = |of: &Measured| of.packet_hops.map(|hops| hops / of.cpu_seconds.max(1e-9));
    let values = |of: &Measured| {
        json!({
            "time_us": of.time_us, "cpu_seconds": of.cpu_seconds, "wall_seconds": of.wall_seconds,
            "peak_rss_bytes": of.peak_rss_bytes, "packet_hops": of.packet_hops, "packet_hops_per_second": rate(of),
        })
    };
    if as_json {
        let row = json!({"case": case.name, "kumiki": values(ours), "simgrid": peer.map(values)});
        return format!("{row}\n");
    }
    let line = |name: &str, of: &Measured| {
        let rate = rate(of).map_or("-".to_string(), |rate| format!("{:.2} million", rate / 1e6));
        format!(
            "{name:<42} {:>11.1} µs {:>10.2} {:>10.2} {:>12} {rate:>16}\n",
            of.time_us,
            of.cpu_seconds,
            of.wall_seconds,
            bytes_text(of.peak_rss_bytes)
        )
    };
    line(case.name, ours) + &peer.map_or(String::new(), |peer| line("  SimGrid, flows", peer))
}

/// Runs a command that prints one JSON object.
fn measure(command: &mut Command) -> Result<Measured, String> {
    let started = Instant::now();
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let wall_seconds = started.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or("");
    let value: Value = serde_json::from_str(last).map_err(|error| format!("it printed `{last}`: {error}"))?;
    let number = |key: &str| value[key].as_f64().ok_or_else(|| format!("it did not say {key}"));
    Ok(Measured {
        time_us: number("time_us")?,
        cpu_seconds: number("cpu_seconds")?,
        wall_seconds,
        peak_rss_bytes: number("peak_rss_bytes")?,
        packet_hops: value["packet_hops"].as_f64(),
    })
}

/// The program of the peer, and where it runs.
struct SimGrid {
    program: PathBuf,
    scratch: PathBuf,
}

/// Builds the program of the peer, unless that has been done; `None` if SimGrid is not here.
fn find_simgrid() -> Option<SimGrid> {
    if !Path::new("/usr/include/simgrid/s4u.hpp").exists() {
        report("SimGrid was not found to compare with; `./x peers` installs it. Going on without.");
        return None;
    }
    build_simgrid().map_err(|why| report(&format!("SimGrid is left out: {why}"))).ok()
}

fn build_simgrid() -> Result<SimGrid, String> {
    let mut compiler = workshop::tool("c++")?;
    compiler.arg("-O2");
    let workshop = Workshop::open()?;
    let program = workshop.build("simgrid", ("cpp", PROGRAM), compiler, &["-lsimgrid"])?;
    Ok(SimGrid { program, scratch: workshop.scratch()? })
}
