//! `kumiki sim predict`: what the simulator predicts for this machine after calibration, beside what is measured.

use super::calibrate::{self, undisturbed, Calibration, Small};
use super::real::{self, Work};
use crate::commands::{print, Outcome};
use indicatif::ProgressBar;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  kumiki sim predict                          2 ranks, over TCP and shared memory (some ten seconds)
  kumiki sim predict --ranks 2,4,8 --json

Ring, halo exchange and all-to-all are written with puts and end with a barrier; `dissemination` is a barrier made of puts.
What calibration measures and the patterns themselves take turns in one job, so that noise falls on both; of each, the tenth percentile counts.
Where ranks outnumber the cores, they share processors, which the simulator does not know: the deviation is stated.";

/// Calibrate, predict four patterns, run them for real, and compare.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Numbers of ranks.
    #[arg(short = 'n', long, value_name = "LIST", value_delimiter = ',', default_value = "2")]
    ranks: Vec<u32>,
    /// Bytes of each put.
    #[arg(long, value_name = "BYTES", default_value_t = 65536, value_parser = clap::value_parser!(u64).range(64..))]
    bytes: u64,
    /// How often everything is measured; by itself 200 times, or 30 where ranks outnumber the cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// How often a pattern is repeated in the simulation.
const TURNS: u32 = 20;
const PATTERNS: [Work; 4] = [Work::Ring, Work::Halo, Work::AllToAll, Work::Dissemination];

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(wrong) = arguments.ranks.iter().find(|ranks| !(2..=64).contains(*ranks)) {
        return Err(format!("--ranks {wrong}: expected 2 to 64"));
    }
    let cores = kumiki_run::system::allowed_cores().len();
    if !arguments.json {
        print(&format!(
            "{:<14} {:>5} {:<4} {:>12} {:>12} {:>10}\n",
            "pattern", "ranks", "over", "predicted µs", "measured µs", "deviation"
        ))?;
    }
    let rounds = |ranks: &u32| 2 * real::rounds_of(*ranks, arguments.rounds);
    let bar = real::bar(arguments.ranks.iter().map(rounds).sum());
    let done = arguments.ranks.iter().try_for_each(|&ranks| {
        for tcp in [false, true] {
            for row in compare(ranks, tcp, arguments.bytes, arguments.rounds, &bar)? {
                bar.suspend(|| print(&row.text(ranks as usize > cores, arguments.json)))?;
            }
        }
        Ok(())
    });
    bar.finish_and_clear();
    done.map(|()| 0)
}

/// One line of the table.
struct Row {
    pattern: &'static str,
    ranks: u32,
    over: &'static str,
    predicted: f64,
    measured: f64,
}

impl Row {
    fn text(&self, crowded: bool, as_json: bool) -> String {
        let Row { pattern, ranks, over, predicted, measured } = self;
        let deviation = 100.0 * (predicted / measured - 1.0);
        if as_json {
            let row = json!({
                "pattern": pattern, "ranks": ranks, "over": over, "predicted_us": predicted,
                "measured_us": measured, "deviation_percent": deviation, "ranks_outnumber_cores": crowded,
            });
            return format!("{row}\n");
        }
        let note = if crowded { "  (more ranks than cores)" } else { "" };
        format!(
            "{pattern:<14} {ranks:>5} {over:<4} {predicted:>12.3} {measured:>12.3} {deviation:>+9.1} %{note}\n"
        )
    }
}

/// Calibrates and measures in one job, and predicts.
fn compare(
    ranks: u32,
    tcp: bool,
    bytes: u64,
    rounds: Option<u64>,
    bar: &ProgressBar,
) -> Result<Vec<Row>, String> {
    let mut things = calibrate::things(bytes, tcp);
    let first = things.len();
    things.extend(PATTERNS.map(|work| (work, if work == Work::Dissemination { 8 } else { bytes })));
    let samples = real::measure(&things, ranks, tcp, rounds, bar)?;
    let fitted = Calibration::fit(&Small::of(&samples, bytes)?, tcp, ranks)?;
    let row = |(work, samples): (Work, &Vec<f64>)| {
        let predicted = fitted.simulate(&program(work, bytes, tcp))? / f64::from(TURNS);
        let over = if tcp { "tcp" } else { "shm" };
        Ok(Row { pattern: work.name(), ranks, over, predicted, measured: undisturbed(samples) })
    };
    PATTERNS.into_iter().zip(&samples[first..]).map(row).collect()
}

/// The pattern in MGEN, so many turns. On one node a put has been done when it returns: the rank that puts copies.
fn program(pattern: Work, bytes: u64, tcp: bool) -> String {
    let done = if tcp { "" } else { "wait all" };
    let put = |to: &str| format!("put {bytes} to {to}\n{done}\n");
    let body = match pattern {
        Work::Ring => put("(rank + 1) % ranks"),
        Work::Halo => put("(rank - 1) % ranks") + &put("(rank + 1) % ranks"),
        Work::AllToAll => format!("for shift in 1..ranks {{\n{}\n}}\n", put("(rank + shift) % ranks")),
        _ => {
            return format!(
                "repeat {TURNS} {{\nlet distance = 1\nlet round = 0\nwhile distance < ranks {{\n\
                 let told = put 8 to (rank + distance) % ranks flag round\nwait told\nawait round\n\
                 distance = distance * 2\nround = round + 1\n}}\n}}\n"
            )
        }
    };
    format!("repeat {TURNS} {{\n{body}wait all\nbarrier by ideal\n}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiki_sim::{mgen, source::Source};

    #[test]
    fn every_pattern_is_a_program() {
        for pattern in PATTERNS {
            for tcp in [false, true] {
                let source = Source::new(pattern.name(), &program(pattern, 64, tcp));
                assert!(mgen::Program::new(&source, 4, &[], 0).is_ok(), "{}", source.text);
            }
        }
    }
}
