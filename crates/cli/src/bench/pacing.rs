//! `kumiki bench pacing`: several senders into one receiver over links that carry less than they send, and what somebody else
//! notices who asks the same receiver for single words.
//!
//! Each measurement is a job of its own, in network namespaces with shaped cables: a receiver, the senders, and a bystander. All share
//! the cable of the receiver.

use super::statistics::{median, Samples};
use crate::commands::{print, print_of_rank, Outcome};
use crate::progress::bar;
use kumiki::{Result, World};
use serde_json::{json, Value};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  kumiki bench pacing                           8 senders, links of 500 Mbit/s
  kumiki bench pacing --senders 4 --link-rate 1G --link-queue 1M
  kumiki bench pacing --json

It needs network namespaces: root, or a machine that lets users make their own (see `kumiki doctor`).";

/// Large payloads that meet at one receiver: time of the slowest sender, and of a bystander's gets.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How many ranks send at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    senders: u32,
    /// MiB that each of them sends.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    mib: u32,
    /// Bits a second of each cable.
    #[arg(long, value_name = "BITS", default_value = "500M")]
    link_rate: String,
    /// Bytes that wait at the end of a cable.
    #[arg(long, value_name = "BYTES", default_value = "1M")]
    link_queue: String,
    /// Jobs of each kind, in turn.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    samples: u32,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// A rank of a job that `kumiki bench pacing` starts.
#[derive(clap::Args)]
pub(crate) struct RankArguments {
    /// MiB that each sender sends.
    mib: u32,
}

const MODES: [&str; 3] = ["off", "auto", "on"];
/// What a job tells, and its unit.
const FIGURES: [(&str, &str); 5] = [
    ("slowest_s", "slowest sender s"),
    ("fastest_s", "fastest sender s"),
    ("get_median_us", "get median µs"),
    ("get_p99_us", "get p99 µs"),
    ("get_most_us", "get most µs"),
];
/// How long a job may take.
const LIMIT_SECONDS: &str = "120s";

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let mut taken: Vec<Vec<Samples>> = MODES.map(|_| vec![Samples::default(); FIGURES.len()]).into();
    let bar = bar(
        u64::from(arguments.samples) * 3,
        "{bar:40.cyan/blue} {pos} of {len} jobs, {elapsed}: {msg}",
        true,
    );
    for _ in 0..arguments.samples {
        for (mode, samples) in MODES.iter().zip(&mut taken) {
            bar.set_message(format!("pacing {mode}"));
            let told = job(arguments, mode)?;
            for ((name, _), samples) in FIGURES.iter().zip(samples) {
                samples.push(told[*name].as_f64().ok_or_else(|| format!("the job did not say {name}"))?);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print(&shown(arguments, &taken))
}

/// The table, or a line a mode.
fn shown(arguments: &Arguments, taken: &[Vec<Samples>]) -> String {
    let middle = |samples: &Samples| samples.median().unwrap_or(f64::NAN);
    if arguments.json {
        let line = |(mode, samples): (&&str, &Vec<Samples>)| {
            let figures = FIGURES.iter().zip(samples).map(|((name, _), samples)| {
                (name.to_string(), json!({"median": middle(samples), "spread_percent": samples.spread()}))
            });
            let mut line: serde_json::Map<String, Value> = figures.collect();
            line.insert("pacing".into(), json!(mode));
            line.insert("senders".into(), json!(arguments.senders));
            format!("{}\n", Value::Object(line))
        };
        return MODES.iter().zip(taken).map(line).collect();
    }
    let mut text = format!(
        "{} senders of {} MiB into one receiver, cables of {} bit/s with queues of {}; medians of {} [spread]\n\n{:<8}",
        arguments.senders, arguments.mib, arguments.link_rate, arguments.link_queue, arguments.samples, "pacing"
    );
    FIGURES.iter().for_each(|(_, unit)| text += &format!("{unit:>24}"));
    for (mode, samples) in MODES.iter().zip(taken) {
        text += &format!("\n{mode:<8}");
        for samples in samples {
            let spread = samples.spread().unwrap_or(0.0);
            text += &format!("{:>24}", format!("{:.4} [{spread:.0} %]", middle(samples)));
        }
    }
    text + "\n"
}

/// Runs a job, and gives what its rank 0 said.
fn job(arguments: &Arguments, mode: &str) -> std::result::Result<Value, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let ranks = (arguments.senders + 2).to_string();
    let mut command = Command::new(&program);
    command.args([
        "run",
        "--ranks",
        &ranks,
        "--virtual-nodes",
        &ranks,
        "--netns",
        "--timeout",
        LIMIT_SECONDS,
    ]);
    command.args(["--link-rate", &arguments.link_rate, "--link-queue", &arguments.link_queue, "--"]);
    command.arg(&program).args(["bench", "pacing-rank", &arguments.mib.to_string()]);
    command.env("KUMIKI_PACING", mode).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("cannot start a job: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("the job said nothing of use: {error}"))
}

pub(super) fn rank(arguments: &RankArguments) -> Outcome {
    match measure(u64::from(arguments.mib) << 20).map_err(|error| error.to_string())? {
        Some(line) => print_of_rank(&format!("{line}\n")),
        None => Ok(0),
    }
}

/// What rank 0 has to say.
fn measure(bytes: u64) -> Result<Option<Value>> {
    let world = World::init()?;
    let (me, bystander) = (world.rank(), world.ranks() - 1);
    let senders = bystander - 1;
    let words = (bytes / 8) as usize;
    let fields = world.shared_array::<u64>(words * senders as usize)?;
    let payload = vec![u64::from(me); words];
    // A sender says there that it is done.
    let done = world.starter::<u64>(bystander)?;
    // Connections are made before the clock runs.
    if me != 0 {
        world.get(fields.at(0, 0))?;
        world.fetch_add(done, 0)?;
    }
    world.sync()?;
    let (mut seconds, mut gets) = (0.0, Vec::new());
    let began = Instant::now();
    if me == bystander {
        while world.get(done)? < u64::from(senders) {
            let asked = Instant::now();
            world.get(fields.at(0, 0))?;
            gets.push(asked.elapsed().as_secs_f64() * 1e6);
            std::thread::sleep(Duration::from_micros(200));
        }
    } else if me != 0 {
        let to = fields.at(0, (me as usize - 1) * words);
        world.put_slice(to, &payload)?;
        seconds = began.elapsed().as_secs_f64();
        world.fetch_add(done, 1)?;
    }
    world.sync()?;
    let came = if me == 0 { fields.to_vec()? } else { Vec::new() };
    if came.iter().enumerate().any(|(at, &value)| value != 1 + (at / words) as u64) {
        world.abort("what came is not what was sent");
    }
    let group = world.group()?;
    let mut all = vec![0.0; if me == 0 { world.ranks() as usize } else { 0 }];
    group.gather(0, &[seconds], &mut all)?;
    gets.sort_by(f64::total_cmp);
    let part = |part: f64| gets.get((part * gets.len() as f64) as usize).or(gets.last()).copied();
    let quantiles = [median(gets.iter().copied()), part(0.99), gets.last().copied()];
    let mut told = quantiles.map(|quantile| quantile.unwrap_or(f64::NAN));
    group.broadcast(bystander, &mut told)?;
    group.free()?;
    let times = || all[1..bystander as usize].iter().copied();
    let line = (me == 0).then(|| {
        json!({
            "slowest_s": times().fold(0.0, f64::max),
            "fastest_s": times().fold(f64::INFINITY, f64::min),
            "get_median_us": told[0], "get_p99_us": told[1], "get_most_us": told[2],
        })
    });
    world.finalize().map(|()| line)
}
