//! A job that measures: rank 0 reads `METRIC REPS` lines, all ranks take part, rank 0 answers with one line of JSON.
//!
//! It speaks as `benches/peers/rma.c` does. Between two lines rank 0 is in a read and the others are asleep in a
//! barrier, so that other contenders have the machine.

use super::array::Arrays;
use super::comm::Comm;
use super::data::{Data, Redis};
use super::floor::Floor;
use super::ours::Ours;
use crate::commands::Outcome;
use kumiki::join::Join;
use kumiki::World;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Duration;

/// How long one sample takes.
const SAMPLE_SECONDS: f64 = 5e-3;
/// Samples thrown away before the first that counts.
const WARM_UPS: u32 = 2;
/// Starter memory: a line, then words.
const LINE_BYTES: usize = 128;
/// The first word of starter memory behind the line.
pub(super) const FIRST_WORD: u64 = (LINE_BYTES / 8) as u64;

/// The memory that messages come from, and go to, while each has a place of its own.
const KEEP_BYTES: u64 = 16 << 20;

/// How many of the messages of so many bytes that are under way have a place of their own, for every contender.
pub(super) fn places(bytes: u64, flying: u64) -> usize {
    (KEEP_BYTES / bytes.max(1)).clamp(1, flying) as usize
}

/// Words that are read and changed in random order: 32 MiB, more than the caches near a core hold.
pub(super) const RANDOM_WORDS: usize = 1 << 22;

/// Random places among them, the same for every contender. (Shifts and exclusive ors, so that the next one is there in a few cycles.)
#[derive(Clone, Copy)]
pub(super) struct Places(u64);

impl Default for Places {
    fn default() -> Places {
        Places(0x9e37_79b9_7f4a_7c15)
    }
}

impl Places {
    #[inline(always)]
    pub(super) fn next_place(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize % RANDOM_WORDS
    }
}

/// Random places in a table, the same as those of peers. They are drawn some at a time, as a program has a list of them: then a processor asks for as many words at
/// once as it can, and not for as many as it finds between two draws.
pub(super) struct Draws {
    state: u64,
    words: usize,
    places: [usize; 64],
}

impl Draws {
    pub(super) fn new(rank: u32, words: usize) -> Draws {
        let state = 0x9e37_79b9_7f4a_7c15u64.wrapping_add(rank.into());
        Draws { state, words, places: [0; 64] }
    }

    /// The next places, at most so many.
    #[inline]
    pub(super) fn some(&mut self, most: u64) -> &[usize] {
        let count = most.min(self.places.len() as u64) as usize;
        for place in &mut self.places[..count] {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            *place = self.state as usize % self.words;
        }
        &self.places[..count]
    }
}

/// What went wrong with a measurement.
pub(super) type Measured = Result<Vec<f64>, String>;

/// Calibrates and takes samples; remembers the shortest time of one operation of each metric.
#[derive(Default)]
pub(super) struct Sampler {
    best_seconds: HashMap<String, f64>,
}

impl Sampler {
    /// Seconds of one operation, `reps` times. `work` does so many operations and says how long they took, or what
    /// was wrong.
    ///
    /// How many operations make a sample follows from the shortest time known: a sample that something disturbed is
    /// not taken for one of enough operations, which would let the disturbed ones count and the others not.
    pub(super) fn sample(
        &mut self,
        metric: &str,
        reps: u32,
        mut work: impl FnMut(u64) -> Result<Duration, String>,
    ) -> Measured {
        let best = self.best_seconds.entry(metric.to_string()).or_insert(f64::INFINITY);
        let wanted = |best: f64| (SAMPLE_SECONDS / best).clamp(1.0, 1e12) as u64;
        let (mut count, mut warm_ups) = (wanted(*best), WARM_UPS);
        let mut samples = Vec::new();
        while samples.len() < reps as usize {
            let seconds = work(count)?.as_secs_f64().max(1e-9) / count as f64;
            *best = best.min(seconds);
            if count < wanted(*best) / 2 {
                count = wanted(*best).min(count * 4);
            } else if warm_ups > 0 {
                warm_ups -= 1;
            } else {
                samples.push(seconds);
            }
        }
        Ok(samples)
    }
}

/// What a line asks for.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) metric: String,
    pub(super) reps: u32,
}

impl Request {
    fn parse(line: &str) -> Option<Request> {
        let (metric, reps) = line.trim().split_once(' ')?;
        Some(Request { metric: metric.to_string(), reps: reps.parse().ok().filter(|&reps| reps > 0)? })
    }

    /// The parts of the name.
    pub(super) fn parts(&self) -> Vec<&str> {
        self.metric.split('.').collect()
    }
}

/// A process that measures.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// It joins others that were started like it, as the environment says.
    #[arg(long)]
    joined: bool,
}

/// The body of every rank of the job.
pub(super) fn serve(arguments: &Arguments) -> Outcome {
    let served = if arguments.joined { serve_joined() } else { serve_ranks() };
    match served {
        Ok(()) => Ok(0),
        // Whoever measures has ended the job, and says why if there is something to say.
        Err(kumiki::Error::Closed(_)) => Ok(1),
        Err(error) => Err(error.to_string()),
    }
}

fn serve_ranks() -> kumiki::Result<()> {
    let world = World::init()?;
    serve_lines(&world, None)?;
    world.finalize()
}

fn serve_joined() -> kumiki::Result<()> {
    let join = Join::from_env()?;
    super::join::stay_on_a_core(join.world());
    serve_lines(join.world(), Some(&join))?;
    join.leave()
}

fn serve_lines(world: &World, join: Option<&Join>) -> kumiki::Result<()> {
    if world.rank() == 0 {
        say(format_args!("ready kumiki {}", env!("CARGO_PKG_VERSION")));
    }
    let mut ours = Ours::new(world);
    let mut floor = Floor::new(world);
    let mut data = Data::new(world);
    let mut comm = Comm::new(world, join);
    let mut redis = Redis::new(world);
    let mut arrays = Arrays::new(world);
    while let Some(line) = next_line(world)? {
        let answer = match Request::parse(&line) {
            None => json!({"metric": line, "error": "not `METRIC REPS`"}),
            Some(request) => {
                let (unit, measured) = match request.metric.split_once('.') {
                    Some(("floor", _)) => floor.measure(&request),
                    Some(("data", _)) => data.measure(&request),
                    Some(("comm", _)) => comm.measure(&request),
                    Some(("array", _)) => arrays.measure(&request),
                    Some(("redis", _)) => redis.measure(&request),
                    _ => ours.measure(&request),
                };
                answer(&request, unit, measured)
            }
        };
        if world.rank() == 0 {
            say(format_args!("{answer}"));
        }
    }
    Ok(())
}

fn answer(request: &Request, unit: &str, measured: Measured) -> Value {
    match measured {
        Ok(samples) => json!({"metric": request.metric, "unit": unit, "samples": samples}),
        Err(error) => json!({"metric": request.metric, "error": error}),
    }
}

fn say(text: std::fmt::Arguments<'_>) {
    let mut output = std::io::stdout().lock();
    // Whoever does not read us any more has ended, and ends us.
    let _ = writeln!(output, "{text}").and_then(|()| output.flush());
}

/// The next line, on every rank; `None` at the end. Every rank calls it.
fn next_line(world: &World) -> kumiki::Result<Option<String>> {
    let mut line = [0u8; LINE_BYTES];
    if world.rank() == 0 {
        let mut text = String::new();
        let got = std::io::stdin().lock().read_line(&mut text).unwrap_or(0);
        let text = text.trim();
        if got > 0 && text != "quit" && text.len() < LINE_BYTES {
            line[..text.len()].copy_from_slice(text.as_bytes());
        }
        for rank in 1..world.ranks() {
            world.put_slice(world.starter::<u8>(rank)?, &line)?;
        }
    }
    world.sync()?;
    if world.rank() != 0 {
        world.get_slice(world.starter::<u8>(world.rank())?, &mut line)?;
    }
    let text = String::from_utf8_lossy(&line);
    let text = text.trim_end_matches('\0');
    Ok((!text.is_empty()).then(|| text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_metric_and_a_count() {
        let request = Request::parse("putbw.arena.64 3\n").unwrap();
        assert_eq!((request.parts(), request.reps), (vec!["putbw", "arena", "64"], 3));
        assert!(Request::parse("put8").is_none() && Request::parse("put8 0").is_none());
    }

    #[test]
    fn short_work_is_repeated_until_it_can_be_measured() {
        let mut done = 0;
        let mut sampler = Sampler::default();
        let work = |count| {
            done += count;
            Ok(Duration::from_micros(100 * count))
        };
        assert_eq!(sampler.sample("work", 3, work).unwrap().len(), 3);
        assert!(done > 100, "{done}");
    }

    #[test]
    fn one_disturbed_run_is_no_sample_of_its_own() {
        let mut sampler = Sampler::default();
        let mut runs = 0;
        let work = |count| {
            runs += 1;
            // Something else had the processor in the first run, and in every fifth.
            Ok(Duration::from_micros(10 * count + if runs % 5 == 1 { 20_000 } else { 0 }))
        };
        let samples = sampler.sample("work", 4, work).unwrap();
        assert!(samples.iter().all(|&seconds| seconds < 100e-6), "{samples:?}");
    }
}
