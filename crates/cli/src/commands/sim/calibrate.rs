//! `kumiki sim calibrate`: the parameters of this machine, from a job whose ranks put to each other.
//!
//! What is measured is small: puts by both sides at once, short and long, one and several in a row, words that go to and fro or
//! cross each other, the barrier. None of it is a pattern that `kumiki sim predict` predicts. Rows of `kumiki bench` taken before can
//! stand in for what they also measure.
//!
//! Over TCP a put takes a + b/B when both sides put at once, because the same processors carry both directions here, and each
//! further put in a row takes the interface for some time of its own (`message_time`). On one node a put is a copy by the
//! rank that puts. What it takes to see a word that was put (`flag_overhead`) is what words take beside their puts: over TCP one that goes to
//! and fro, on one node two that cross each other, because there it matters that both sides write and look at once.

use super::real::{self, Work, STREAM};
use crate::commands::{save, Outcome};
use kumiki_sim::{mgen, simulate, source::Source, Network, Options, Time};
use serde_json::Value;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  kumiki sim calibrate --over tcp --out here.toml       measure this machine (a few seconds) and write a network
  kumiki sim run ring --net here.toml --bytes 64K
  kumiki sim calibrate --over shm --ranks 4 --bench bench.jsonl
                                                        with what rows of `kumiki bench mem --json` have";

/// A longer file of rows is something else, or never ends.
const BENCH_BYTES: u64 = 64 << 20;

/// Fit latency, overheads and bandwidth of this machine, and write them as a network.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Between nodes made of this machine (tcp), or within one (shm).
    #[arg(long, value_name = "WAY", default_value = "tcp", value_parser = ["tcp", "shm"])]
    over: String,
    /// Ranks of the network.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    ranks: u32,
    /// The size of message at which the fit is exact, beside the smallest.
    #[arg(long, value_name = "BYTES", default_value_t = 65536, value_parser = clap::value_parser!(u64).range(64..))]
    bytes: u64,
    /// How often everything is measured; by itself 200 times, or 30 where ranks outnumber the cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Rows of `kumiki bench mem --json` taken before: the barrier and short puts on one node are taken from there.
    #[arg(long, value_name = "FILE")]
    bench: Option<PathBuf>,
    /// Write the network into this file instead of printing it.
    #[arg(long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let tcp = arguments.over == "tcp";
    let bar = real::bar(real::rounds_of(arguments.ranks, arguments.rounds));
    let things = things(arguments.bytes, tcp);
    let samples = real::measure(&things, arguments.ranks, tcp, arguments.rounds, &bar);
    bar.finish_and_clear();
    let samples = samples?;
    let mut small = Small::of(&samples, arguments.bytes)?;
    if let Some(path) = &arguments.bench {
        small.replace(&Bench::read(path)?, &arguments.over, arguments.ranks);
    }
    let text = Calibration::fit(&small, tcp, arguments.ranks)?.toml();
    match &arguments.out {
        Some(path) => save(path, &text).map(|()| 0),
        None => super::super::print(&text),
    }
}

/// What calibration measures, in the order of [`Small`].
pub(super) fn things(bytes: u64, tcp: bool) -> Vec<(Work, u64)> {
    vec![
        (Work::Exchange, 8),
        (Work::Exchange, bytes),
        (Work::Stream, 8),
        (Work::Stream, bytes),
        (if tcp { Work::PingPong } else { Work::Cross }, 8),
        (Work::Barrier, 8),
    ]
}

/// The small measurements, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Small {
    /// Bytes of the longer puts.
    bytes: f64,
    exchange: f64,
    long_exchange: f64,
    stream: f64,
    long_stream: f64,
    /// A word to and fro, or words that cross.
    words: f64,
    barrier: f64,
}

impl Small {
    /// From the samples of [`things`], which come first.
    pub(super) fn of(samples: &[Vec<f64>], bytes: u64) -> Result<Small, String> {
        let typical: Vec<f64> = samples.iter().map(|samples| undisturbed(samples)).collect();
        let [exchange, long_exchange, stream, long_stream, words, barrier, ..] = typical[..] else {
            return Err(format!("the job measured {} things", typical.len()));
        };
        let bytes = bytes as f64;
        Ok(Small { bytes, exchange, long_exchange, stream, long_stream, words, barrier })
    }

    /// Takes from the benchmark what it has.
    fn replace(&mut self, bench: &Bench, place: &str, ranks: u32) {
        // On one node nobody is in the way of a put; between nodes both sides at once are another matter than one.
        if let Some(ns) = bench.get("put8.shm.handle").filter(|_| place == "shm") {
            self.exchange = ns / 1e3;
        }
        if let Some(us) = bench.get(&format!("barrier.{place}.{ranks}")) {
            self.barrier = us;
        }
    }

    /// How long a further short put takes when several are made in a row.
    fn further(&self) -> f64 {
        ((self.stream - self.exchange) / f64::from(STREAM - 1)).max(0.0)
    }

    /// How long a byte takes: as one put shows it, and as the further ones of a row do.
    fn byte(&self) -> f64 {
        let single = (self.long_exchange - self.exchange) / (self.bytes - 8.0);
        let long_further = (self.long_stream - self.long_exchange) / f64::from(STREAM - 1);
        let further = (long_further - self.further()) / (self.bytes - 8.0);
        ((single + further) / 2.0).max(1e-9)
    }
}

/// The tenth percentile: what disturbs a measurement only makes it longer.
pub(super) fn undisturbed(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 10).copied().unwrap_or(0.0)
}

/// Rows of `kumiki bench mem --json`.
struct Bench {
    rows: Vec<(String, f64)>,
}

impl Bench {
    fn read(path: &Path) -> Result<Bench, String> {
        let text = kumiki_run::system::read_text(path, BENCH_BYTES)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Bench::parse(&path.display().to_string(), &text)
    }

    fn parse(name: &str, text: &str) -> Result<Bench, String> {
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |what: &str| {
                format!("{name}:{}: {what}; expected a row of `kumiki bench mem --json`", number + 1)
            };
            let value: Value = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
            let metric = value["metric"].as_str().ok_or_else(|| wrong("there is no \"metric\""))?;
            if let Some(measured) = value["kumiki"].as_f64() {
                rows.push((metric.to_string(), measured));
            }
        }
        Ok(Bench { rows })
    }

    fn get(&self, metric: &str) -> Option<f64> {
        self.rows.iter().find(|(name, _)| name == metric).map(|(_, value)| *value)
    }
}

/// The parameters of this machine for so many ranks.
pub(super) struct Calibration {
    tcp: bool,
    ranks: u32,
    /// Microseconds.
    byte_us: f64,
    put_us: f64,
    message_us: f64,
    flag_us: f64,
    barrier_us: f64,
    latency: Time,
}

impl Calibration {
    pub(super) fn fit(small: &Small, tcp: bool, ranks: u32) -> Result<Calibration, String> {
        // A word to and fro is two ways and two looks; the way there is half of a put that waits for its answer. Words that cross are
        // two puts and a look.
        let flag_us = match tcp {
            true => small.words / 2.0 - small.exchange / 2.0,
            false => small.words - 2.0 * small.exchange,
        };
        let mut fitted = Calibration {
            tcp,
            ranks,
            byte_us: small.byte(),
            put_us: small.exchange,
            message_us: small.further(),
            flag_us: flag_us.max(0.0),
            barrier_us: small.barrier,
            latency: Time::ZERO,
        };
        if tcp {
            fitted.latency = fitted.fit_latency()?;
        }
        Ok(fitted)
    }

    /// The link latency with which a simulated short put takes as long as a real one.
    fn fit_latency(&mut self) -> Result<Time, String> {
        let mut simulated = |latency: Time| -> Result<f64, String> {
            self.latency = latency;
            self.simulate("put 8 to (rank + 1) % ranks\nwait all\n")
        };
        let (without, with) = (simulated(Time::ZERO)?, simulated(Time::from_us(1))?);
        Ok(Time::from_seconds((self.put_us - without).max(0.0) / (with - without) / 1e6))
    }

    /// The network as a description.
    pub(super) fn toml(&self) -> String {
        let bandwidth = 1e6 / self.byte_us;
        let ns = |us: f64| format!("{:.0}ns", us * 1e3);
        let (ranks, flag, barrier) = (self.ranks, ns(self.flag_us), ns(self.barrier_us));
        match self.tcp {
            true => format!(
                "# This machine, fitted by `kumiki sim calibrate --over tcp --ranks {ranks}`: nodes of one rank with TCP between them.\n\
                 name = \"here, tcp\"\ntopology = \"fattree:down=1x{ranks},up=1\"\n\n[parameters]\n\
                 link_bandwidth = \"{bandwidth:.0}B/s\"\nlink_latency = \"{}ps\"\nrouter_delay = \"0\"\npacket_bytes = 8192\n\
                 buffer_packets = 64\nmessage_time = \"{}\"\nflag_overhead = \"{flag}\"\nbarrier_time = \"{barrier}\"\n",
                self.latency.as_ps(),
                ns(self.message_us),
            ),
            false => format!(
                "# This machine, fitted by `kumiki sim calibrate --over shm --ranks {ranks}`: one node whose ranks share memory.\n\
                 name = \"here, shm\"\ntopology = \"mesh:1,ranks_per_node={ranks}\"\n\n[parameters]\n\
                 memory_bandwidth = \"{bandwidth:.0}B/s\"\nsend_overhead = \"{}\"\nflag_overhead = \"{flag}\"\n\
                 barrier_time = \"{barrier}\"\n",
                ns(self.put_us),
            ),
        }
    }

    /// Microseconds that a program takes on it.
    pub(super) fn simulate(&self, text: &str) -> Result<f64, String> {
        let network: Network =
            kumiki_sim::description::parse(&Source::new("calibration", &self.toml()), Path::new(""))?;
        let program = mgen::Program::new(&Source::new("prediction", text), self.ranks, &[], 0)?;
        let report = simulate(&network, &program, &Options::default());
        if let Some(mistake) = program.mistake() {
            return Err(mistake.to_string());
        }
        Ok(report.map_err(|error| error.to_string())?.time.as_us())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine would show whose parameters are round numbers: 10 µs for a put, 4 µs more for each further one, 1 ns
    /// a byte.
    fn small() -> Small {
        let bytes = 65_544.0;
        Small {
            bytes,
            exchange: 10.0,
            long_exchange: 10.0 + 65.536,
            stream: 22.0,
            long_stream: 22.0 + 4.0 * 65.536,
            words: 12.0,
            barrier: 3.0,
        }
    }

    #[test]
    fn a_machine_of_round_numbers_is_found_again() {
        let fitted = Calibration::fit(&small(), true, 2).unwrap();
        let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-3, "{found} {wanted}");
        near(fitted.byte_us, 1e-3);
        near(fitted.message_us, 4.0);
        near(fitted.flag_us, 1.0);
        let both = |text: &str| fitted.simulate(text).unwrap();
        let words_to_and_fro =
            "if rank == 0 {\nput 8 to 1 flag 1\nawait 1\n} else {\nawait 1\nput 8 to 0 flag 1\n}\n";
        near(both(words_to_and_fro), 12.0);
        near(both("put 8 to (rank + 1) % ranks\nwait all\n"), 10.0);
        near(both("put 65544 to (rank + 1) % ranks\nwait all\n"), 75.536);
        near(both("repeat 4 {\nput 65544 to (rank + 1) % ranks\n}\nwait all\n"), 22.0 + 4.0 * 65.536);
        let fitted = Calibration::fit(&Small { words: 23.0, ..small() }, false, 2).unwrap();
        let crossing =
            "repeat 2 {\nlet told = put 8 to (rank + 1) % ranks flag 1\nwait told\n}\nawait 1 count 2\n";
        near(fitted.simulate(crossing).unwrap(), 23.016);
        near(fitted.simulate("put 65544 to (rank + 1) % ranks\nwait all\n").unwrap(), 75.544);
    }

    #[test]
    fn rows_of_the_benchmark_are_read_or_refused_with_their_line() {
        let rows = "{\"metric\":\"put8.shm.handle\",\"kumiki\":20.0}\n\n{\"metric\":\"barrier.tcp.2\",\"kumiki\":7.0}\n";
        let bench = Bench::parse("b", rows).unwrap();
        let taken = |place: &str| {
            let mut small = small();
            small.replace(&bench, place, 2);
            (small.exchange, small.barrier)
        };
        assert_eq!((taken("tcp"), taken("shm")), ((10.0, 7.0), (0.02, 3.0)));
        assert!(Bench::parse("b", "{}\n").err().unwrap().contains("b:1: there is no \"metric\""));
    }

    #[test]
    fn what_is_written_can_be_read() {
        for tcp in [true, false] {
            let fitted = Calibration::fit(&small(), tcp, 4).unwrap();
            let source = Source::new("c", &fitted.toml());
            let network = kumiki_sim::description::parse(&source, Path::new("")).unwrap();
            assert_eq!(network.ranks(), 4);
            assert_eq!(network.parameters.barrier_time, Time::from_us(3));
        }
    }
}
