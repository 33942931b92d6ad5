//! `kumiki sim predict`: what the simulator predicts for this machine after calibration, beside what is measured.

use super::calibrate::{Bench, Calibration};
use super::real;
use crate::commands::Outcome;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  kumiki sim predict                          2 ranks, over TCP and shared memory (about a minute)
  kumiki sim predict --ranks 2,4,8 --json

Ring, halo exchange and all-to-all are written with puts and end with a barrier; `dissemination` is a barrier made of puts.
Where ranks outnumber the cores, they share processors, which the simulator does not know: the deviation is stated.";

/// Calibrate, predict four patterns, run them for real, and compare.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Numbers of ranks.
    #[arg(short = 'n', long, value_name = "LIST", value_delimiter = ',', default_value = "2")]
    ranks: Vec<u32>,
    /// Bytes of each put.
    #[arg(long, value_name = "BYTES", default_value_t = 65536)]
    bytes: u64,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

const TURNS: u32 = 20;

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(wrong) = arguments.ranks.iter().find(|ranks| !(2..=64).contains(*ranks)) {
        return Err(format!("--ranks {wrong}: expected 2 to 64"));
    }
    let bench = Bench::measure()?;
    let cores = kumiki_run::system::allowed_cores().len();
    if !arguments.json {
        println!(
            "{:<6} {:>5} {:<14} {:>12} {:>12} {:>10}",
            "over", "ranks", "pattern", "predicted µs", "measured µs", "deviation"
        );
    }
    for &ranks in &arguments.ranks {
        for tcp in [false, true] {
            let fitted = Calibration::fit(&bench, tcp, ranks)?;
            for pattern in ["ring", "halo", "alltoall", "dissemination"] {
                let predicted = fitted.simulate(&program(pattern, arguments.bytes, tcp))? / TURNS as f64;
                let bytes = if pattern == "dissemination" { 8 } else { arguments.bytes };
                let measured = real::measure(pattern, ranks, bytes, tcp)?;
                let deviation = 100.0 * (predicted / measured - 1.0);
                let over = if tcp { "tcp" } else { "shm" };
                let crowded = ranks as usize > cores;
                if arguments.json {
                    let row = json!({
                        "over": over, "ranks": ranks, "pattern": pattern, "predicted_us": predicted,
                        "measured_us": measured, "deviation_percent": deviation, "ranks_outnumber_cores": crowded,
                    });
                    println!("{row}");
                } else {
                    let note = if crowded { "  (more ranks than cores)" } else { "" };
                    println!("{over:<6} {ranks:>5} {pattern:<14} {predicted:>12.3} {measured:>12.3} {deviation:>+9.1} %{note}");
                }
            }
        }
    }
    Ok(0)
}

/// The pattern in MGEN, so many turns. On one node a put has been done when it returns: the rank that puts copies.
fn program(pattern: &str, bytes: u64, tcp: bool) -> String {
    let done = if tcp { "" } else { "wait all" };
    let put = |to: &str| format!("put {bytes} to {to}\n{done}\n");
    let body = match pattern {
        "ring" => put("(rank + 1) % ranks"),
        "halo" => put("(rank - 1) % ranks") + &put("(rank + 1) % ranks"),
        "alltoall" => format!("for shift in 1..ranks {{\n{}\n}}\n", put("(rank + shift) % ranks")),
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
        for pattern in ["ring", "halo", "alltoall", "dissemination"] {
            for tcp in [false, true] {
                let source = Source::new(pattern, &program(pattern, 64, tcp));
                assert!(mgen::Program::new(&source, 4, &[], 0).is_ok(), "{}", source.text);
            }
        }
    }
}
