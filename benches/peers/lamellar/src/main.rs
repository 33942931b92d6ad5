//! Random updates and reads of a table over all processes (PEs), with Lamellar's batches in shared memory, measured on request.
//!
//! ```text
//! batches PES     start so many, read `METRIC REPS` lines and answer each with one line of JSON; `quit` ends it
//! ```
//!
//! It first prints `ready VERSION`. Metrics are those of rma.c: `comm.histogram.WORDS` and `comm.gather.WORDS`, nanoseconds of a random
//! update or read of a table of so many words, by all PEs at once.
//!
//! | file | what |
//! |---|---|
//! | `start.rs` | starts the PEs, hands them lines, and stops them in between |
//! | `measure.rs` | what a PE does |

mod measure;
mod start;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        [pes] => pes.parse().map_err(|_| format!("{pes} is no number of PEs")).and_then(start::run),
        [start::AS_PE, starter, core] => start::become_pe(starter, core).and_then(|()| measure::serve()),
        _ => Err("usage: batches PES".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("batches: {why}");
            ExitCode::FAILURE
        }
    }
}
