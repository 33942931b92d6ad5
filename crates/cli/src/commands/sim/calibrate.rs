//! `kumiki sim calibrate`: the parameters of this machine, from `kumiki bench` and from two ranks that put to each other.
//!
//! Over TCP a put is a + b/B: latency and bandwidth, as they are when both sides send at once, because the same processors
//! carry both directions here. On one node a put is a copy by the rank that puts. A rank that looks at its memory computes as
//! far as the network is concerned, so what wakes it (the flag overhead) is how much longer a put to a computing rank takes.

use super::real;
use crate::commands::Outcome;
use kumiki_sim::{mgen, simulate, source::Source, Network, Options, Time};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  kumiki sim calibrate --over tcp --out here.toml       measure this machine (half a minute) and write a network
  kumiki sim run ring --net here.toml --bytes 64K
  kumiki sim calibrate --over shm --ranks 4 --bench bench.jsonl
                                                        from rows of `kumiki bench mem --json` taken before";

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
    /// Rows of `kumiki bench mem --json` taken before, instead of measuring them now.
    #[arg(long, value_name = "FILE")]
    bench: Option<PathBuf>,
    /// Write the network into this file instead of printing it.
    #[arg(long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let bench = match &arguments.bench {
        Some(path) => Bench::read(path)?,
        None => Bench::measure()?,
    };
    let network = Calibration::fit(&bench, arguments.over == "tcp", arguments.ranks)?;
    let text = network.toml();
    match &arguments.out {
        Some(path) => {
            std::fs::write(path, text)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            Ok(0)
        }
        None => super::super::print(&text),
    }
}

/// Rows of `kumiki bench mem --json`.
pub(super) struct Bench {
    rows: Vec<(String, f64)>,
}

impl Bench {
    /// What calibration needs, measured now.
    pub(super) fn measure() -> Result<Bench, String> {
        let program = std::env::current_exe();
        let program = program.map_err(|error| format!("cannot tell where this program is: {error}"))?;
        let mut command = Command::new(program);
        command.args(["bench", "mem", "--quick", "--peers", "none", "--json"]);
        command.args(["--only", "put8.tcp.handle,busy.put8.tcp"]).stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("kumiki bench: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Bench::parse("kumiki bench", &String::from_utf8_lossy(&output.stdout))
    }

    fn read(path: &std::path::Path) -> Result<Bench, String> {
        let text = std::fs::read_to_string(path)
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

    fn need(&self, metric: &str) -> Result<f64, String> {
        self.get(metric)
            .ok_or_else(|| format!("the benchmark has no row {metric}; `kumiki bench mem --list` names all"))
    }
}

/// Sizes at which two ranks put to each other.
const SIZES: [u64; 4] = [8, 4 << 10, 64 << 10, 256 << 10];

/// The parameters of this machine for so many ranks.
pub(super) struct Calibration {
    pub(super) tcp: bool,
    pub(super) ranks: u32,
    /// The time of an empty put, and how long a byte takes, in microseconds.
    put_us: f64,
    byte_us: f64,
    barrier_us: f64,
    flag_us: f64,
    latency: Time,
}

impl Calibration {
    /// Measures what the benchmark does not have, and fits.
    pub(super) fn fit(bench: &Bench, tcp: bool, ranks: u32) -> Result<Calibration, String> {
        let mut points = Vec::new();
        for bytes in SIZES {
            points.push((bytes as f64, real::measure("exchange", 2, bytes, tcp)?));
        }
        let (put_us, byte_us) = line(&points);
        let place = if tcp { "tcp" } else { "shm" };
        let barrier_us = match bench.get(&format!("barrier.{place}.{ranks}")) {
            Some(barrier_us) => barrier_us,
            None => real::measure("barrier", ranks, 8, tcp)?,
        };
        let flag_us = match tcp {
            true => (bench.need("busy.put8.tcp")? - bench.need("put8.tcp.handle")? / 1e3).max(0.0),
            false => 0.0,
        };
        let mut fitted =
            Calibration { tcp, ranks, put_us, byte_us, barrier_us, flag_us, latency: Time::ZERO };
        if tcp {
            fitted.latency = fitted.fit_latency()?;
        }
        Ok(fitted)
    }

    /// The link latency with which a simulated empty put takes as long as a real one.
    fn fit_latency(&mut self) -> Result<Time, String> {
        let mut simulated = |latency: Time| -> Result<f64, String> {
            self.latency = latency;
            self.simulate("put 8 to (rank + 1) % ranks\nwait all\n")
        };
        let (without, with) = (simulated(Time::ZERO)?, simulated(Time::from_us(1))?);
        Ok(Time::from_seconds((self.put_us - without).max(0.0) / (with - without).max(1e-9) / 1e6))
    }

    /// The network as a description.
    pub(super) fn toml(&self) -> String {
        let bandwidth = 1e6 / self.byte_us.max(1e-9);
        let ns = |us: f64| format!("{:.0}ns", us * 1e3);
        let Calibration { ranks, .. } = self;
        match self.tcp {
            true => format!(
                "# This machine, fitted by `kumiki sim calibrate --over tcp --ranks {ranks}`: nodes of one rank with TCP between them.\n\
                 name = \"here, tcp\"\ntopology = \"fattree:levels=1,arity={ranks}\"\n\n[parameters]\n\
                 link_bandwidth = \"{bandwidth:.0}B/s\"\nlink_latency = \"{}ps\"\nrouter_delay = \"0\"\npacket_bytes = 8192\n\
                 buffer_packets = 64\nsend_overhead = \"0\"\nflag_overhead = \"{}\"\nbarrier_time = \"{}\"\n",
                self.latency.as_ps(),
                ns(self.flag_us),
                ns(self.barrier_us)
            ),
            false => format!(
                "# This machine, fitted by `kumiki sim calibrate --over shm --ranks {ranks}`: one node whose ranks share memory.\n\
                 name = \"here, shm\"\ntopology = \"mesh:1,ranks_per_node={ranks}\"\n\n[parameters]\n\
                 memory_bandwidth = \"{bandwidth:.0}B/s\"\nsend_overhead = \"{}\"\nflag_overhead = \"{}\"\nbarrier_time = \"{}\"\n",
                ns(self.put_us),
                ns(self.flag_us),
                ns(self.barrier_us)
            ),
        }
    }

    /// Microseconds that a program takes on it.
    pub(super) fn simulate(&self, text: &str) -> Result<f64, String> {
        let network: Network = kumiki_sim::description::parse(
            &Source::new("calibration", &self.toml()),
            std::path::Path::new(""),
        )?;
        let program = mgen::Program::new(&Source::new("prediction", text), self.ranks, &[], 0)?;
        let report = simulate(&network, &program, &Options::default());
        if let Some(mistake) = program.mistake() {
            return Err(mistake.to_string());
        }
        Ok(report.map_err(|error| error.to_string())?.time.as_us())
    }
}

/// The line through points that is nearest in proportion: what it is at 0, and how it rises.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in points {
        let weight = 1.0 / (y * y).max(1e-12);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let rise = (w * wxy - wx * wy) / (w * wxx - wx * wx).max(1e-30);
    (((wy - rise * wx) / w.max(1e-30)).max(0.0), rise.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<(f64, f64)> = SIZES.iter().map(|&x| (x as f64, 12.0 + x as f64 * 3e-4)).collect();
        let (at_zero, rise) = line(&points);
        assert!((at_zero - 12.0).abs() < 1e-6 && (rise - 3e-4).abs() < 1e-9, "{at_zero} {rise}");
    }

    #[test]
    fn rows_of_the_benchmark_are_read_or_refused_with_their_line() {
        let bench = Bench::parse("b", "{\"metric\":\"put8.tcp.handle\",\"kumiki\":12000.0}\n\n").unwrap();
        assert_eq!(bench.need("put8.tcp.handle").unwrap(), 12000.0);
        assert!(bench.need("busy.put8.tcp").unwrap_err().contains("no row busy.put8.tcp"));
        assert!(Bench::parse("b", "{}\n").err().unwrap().contains("b:1: there is no \"metric\""));
    }

    #[test]
    fn what_is_written_can_be_read() {
        for tcp in [true, false] {
            let fitted = Calibration {
                tcp,
                ranks: 4,
                put_us: 0.05,
                byte_us: 1e-4,
                barrier_us: 3.0,
                flag_us: 20.0,
                latency: Time::from_ns(700),
            };
            let source = Source::new("c", &fitted.toml());
            let network = kumiki_sim::description::parse(&source, std::path::Path::new("")).unwrap();
            assert_eq!(network.ranks(), 4);
            assert_eq!(network.parameters.barrier_time, Time::from_us(3));
        }
    }
}
