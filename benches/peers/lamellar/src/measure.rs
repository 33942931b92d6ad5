//! What a PE measures.

use lamellar::array::prelude::*;
use lamellar::LamellarWorld;
use std::io::{BufRead, Write};
use std::time::Instant;

/// The name and the version of what is measured stand here.
const LOCK: &str = include_str!("../Cargo.lock");

/// Operations of a call, which are a sample. With a sixteenth of it each takes twice as long: Lamellar sends what a call has for a PE at its end at the latest.
const BATCH: usize = 1 << 20;
/// What every word of a table has that is read.
const VALUE: u64 = 7;
/// Runs that do not count, and the most that may be asked for.
const WARM_UPS: u64 = 2;
const MOST_REPS: u64 = 100_000;
/// The largest table, in words.
const MOST_WORDS: usize = 1 << 26;

/// What a line asks for.
#[derive(PartialEq, Debug)]
struct Request {
    pattern: Pattern,
    words: usize,
    reps: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Pattern {
    Histogram,
    Gather,
}

/// Joins the others, and answers lines until `quit`. All PEs get the same lines; the first one answers.
pub(crate) fn serve() -> Result<(), String> {
    let world = LamellarWorldBuilder::new().build();
    let bench = Bench::new(&world);
    bench.say(&format!("ready lamellar {}", version()));
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        if line.trim() == "quit" {
            break;
        }
        let metric = line.split_whitespace().next().unwrap_or("");
        match parse(&line).and_then(|request| bench.measure(&request)) {
            Ok(samples) => {
                let samples: Vec<String> = samples.iter().map(|sample| format!("{sample:.3}")).collect();
                let samples = samples.join(",");
                bench.say(&format!(r#"{{"metric":"{metric}","unit":"ns","samples":[{samples}]}}"#));
            }
            Err(why) => {
                // What came in may be anything.
                let metric: String =
                    metric.chars().filter(|c| c.is_ascii_graphic() && !"\"\\".contains(*c)).collect();
                bench.say(&format!(r#"{{"metric":"{metric}","error":"{why}"}}"#));
            }
        }
    }
    Ok(())
}

fn parse(line: &str) -> Result<Request, String> {
    let wrong = || "not a metric known here".to_string();
    let [metric, reps] = line.split_whitespace().collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let reps = reps.parse().ok().filter(|reps| (1..=MOST_REPS).contains(reps)).ok_or_else(wrong)?;
    let (pattern, words) = match metric.split('.').collect::<Vec<_>>()[..] {
        ["comm", "histogram", words] => (Pattern::Histogram, words),
        ["comm", "gather", words] => (Pattern::Gather, words),
        _ => return Err(wrong()),
    };
    let words = words.parse().ok().filter(|words| (1..=MOST_WORDS).contains(words)).ok_or_else(wrong)?;
    Ok(Request { pattern, words, reps })
}

/// The version of Lamellar that this was built with.
fn version() -> &'static str {
    let entry = LOCK.split("[[package]]").find(|entry| entry.contains("name = \"lamellar\"\n"));
    entry.and_then(|entry| entry.split('"').nth(3)).unwrap_or("?")
}

/// Samples, or what went wrong.
type Measured = Result<Vec<f64>, String>;

struct Bench<'w> {
    world: &'w LamellarWorld,
}

impl Bench<'_> {
    fn new(world: &LamellarWorld) -> Bench<'_> {
        world.barrier();
        Bench { world }
    }

    fn say(&self, line: &str) {
        if self.world.my_pe() == 0 {
            let mut out = std::io::stdout();
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    }

    /// Nanoseconds of one update or read.
    fn measure(&self, request: &Request) -> Measured {
        let share = request.words / self.world.num_pes();
        if share == 0 {
            return Err("needs as many words as PEs".into());
        }
        let words = share * self.world.num_pes();
        let table = AtomicArray::<u64>::new(self.world, words, Distribution::Block).block();
        let mut next = random(self.world.my_pe());
        let mut place = move || (next() % words as u64) as usize;
        match request.pattern {
            Pattern::Histogram => self.histogram(&table, request.reps, &mut place),
            Pattern::Gather => self.gather(&table, request.reps, &mut place),
        }
    }

    fn histogram(&self, table: &AtomicArray<u64>, reps: u64, place: &mut dyn FnMut() -> usize) -> Measured {
        let samples = self.samples(reps, || {
            let places: Vec<usize> = (0..BATCH).map(|_| place()).collect();
            table.batch_add(places, 1).block();
        });
        let found = table.sum().block().unwrap_or(0);
        let due = (WARM_UPS + reps) * (BATCH * self.world.num_pes()) as u64;
        self.world.barrier();
        match found == due {
            true => Ok(samples),
            false => Err(format!("{found} updates of {due} are in the table")),
        }
    }

    fn gather(&self, table: &AtomicArray<u64>, reps: u64, place: &mut dyn FnMut() -> usize) -> Measured {
        table.local_data().iter().for_each(|word| word.store(VALUE));
        let wrong = AtomicArray::<u64>::new(self.world, self.world.num_pes(), Distribution::Block).block();
        let samples = self.samples(reps, || {
            let places: Vec<usize> = (0..BATCH).map(|_| place()).collect();
            let sum: u64 = table.batch_load(places).block().into_iter().sum();
            if sum != VALUE * BATCH as u64 {
                wrong.add(0, 1).block();
            }
        });
        let found = wrong.load(0).block();
        self.world.barrier();
        match found {
            0 => Ok(samples),
            _ => Err("a word was wrong".into()),
        }
    }

    /// Nanoseconds of one of the operations of a batch that every PE does at once, by the clock of this one.
    fn samples(&self, reps: u64, mut work: impl FnMut()) -> Vec<f64> {
        let times = (0..WARM_UPS + reps).map(|_| {
            self.world.barrier();
            let start = Instant::now();
            work();
            self.world.wait_all();
            self.world.barrier();
            start.elapsed().as_secs_f64() * 1e9 / BATCH as f64
        });
        times.skip(WARM_UPS as usize).collect()
    }
}

/// Random numbers, the same as those of the others.
fn random(pe: usize) -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_add(pe as u64);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_refused() {
        let good = parse("comm.histogram.1048576 3").expect("a request");
        assert_eq!((good.pattern, good.words, good.reps), (Pattern::Histogram, 1 << 20, 3));
        for bad in
            ["comm.histogram.0 1", "comm.bw.8 1", "comm.gather.8", "comm.gather.8 0", "comm.gather.x 1", ""]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_version_of_what_is_measured_is_known() {
        assert!(version().starts_with("0."), "{}", version());
    }
}
