//! `kumiki selftest`: random one-sided operations for a while, every result checked. What a user runs first on a
//! new cluster.
//!
//! Results can be checked because nobody disturbs anybody: each rank owns an *area* in the memory of its partners,
//! writes to it and keeps a shadow copy (`areas.rs`), does random operations on it in random orders
//! (`operations.rs`), and shares with the others only words whose totals are known (`shared.rs`). At the end the
//! owners of the memory check what lies in it, too.

mod areas;
mod operations;
mod shared;

use super::job::Job;
use super::Outcome;
use crate::chart::bytes_text;
use crate::progress::bar;
use kumiki::{GlobalPtr, World};
use operations::Tester;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  kumiki selftest                               four ranks on this machine, for three seconds
  kumiki selftest --virtual-nodes 2             the same, with TCP between two halves of them
  kumiki run --host alpha,beta -n 16 kumiki selftest --seconds 30
  kumiki selftest --seed 7 --rounds 12          exactly this once more

One line a rank and a summary; the exit code is 0 only if every result was right.";

/// Do random copies, atomics and barriers for a while, and check every result.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How long to go on.
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Where the random numbers start; the operations of each rank follow from it. Random if not given.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Do exactly this many rounds instead, however long they take.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Number of ranks to start; not used when this is a rank already.
    #[arg(short = 'n', long, value_name = "N", value_parser = super::run::ranks, default_value_t = 4, env = "KUMIKI_RANKS", hide_env = true)]
    ranks: u32,
    /// Make this many nodes of this one machine, with TCP between them.
    #[arg(long, value_name = "K", value_parser = super::run::count, env = "KUMIKI_VIRTUAL_NODES", hide_env = true)]
    virtual_nodes: Option<u32>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('s').parse::<f64>().ok();
    value
        .filter(|value| (0.0..=1e9).contains(value))
        .ok_or_else(|| "it should be seconds, such as 3 or 0.5".into())
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if kumiki_run::is_rank() {
        return run_rank(arguments);
    }
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut words = vec!["selftest".into(), "--seed".into(), seed.to_string().into()];
    match arguments.rounds {
        Some(rounds) => words.extend(["--rounds".into(), rounds.to_string().into()]),
        None => words.extend(["--seconds".into(), arguments.seconds.to_string().into()]),
    }
    let (ranks, virtual_nodes) = (arguments.ranks, arguments.virtual_nodes);
    Job { ranks, virtual_nodes, arguments: words, ..Job::default() }.run()
}

fn run_rank(arguments: &Arguments) -> Outcome {
    let world = World::init().map_err(|error| error.to_string())?;
    match test(&world, arguments) {
        Ok(wrong) => {
            world.finalize().map_err(|error| error.to_string())?;
            Ok((wrong > 0) as i32)
        }
        // The others wait for us: they must hear of it.
        Err(error) => world.abort(&format!("the self test of rank {} cannot go on: {error}", world.rank())),
    }
}

/// Words of starter memory.
pub(super) mod word {
    /// Of rank 0: the seed, for ranks that were started without one.
    pub(crate) const SEED: u64 = 0;
    /// Of rank 0: the last round.
    pub(crate) const LAST: u64 = 1;
    /// Of rank 0: totals.
    pub(crate) const OPERATIONS: u64 = 2;
    pub(crate) const BYTES: u64 = 3;
    pub(crate) const ERRORS: u64 = 4;
    /// Of each rank: the round that the rank before it is in.
    pub(crate) const ROUND: u64 = 5;
    /// Of each rank: where its memory is.
    pub(crate) const ARENA: u64 = 6;
    pub(crate) const PRIVATE: u64 = 7;
    pub(crate) const WORDS: u64 = 8;
    pub(crate) const LEDGER: u64 = 9;
    pub(crate) const COUNT: u64 = 10;
}

/// Tests until the time is over. Returns the number of wrong results of all ranks.
fn test(world: &World, arguments: &Arguments) -> kumiki::Result<u64> {
    if world.starter_bytes() < (word::COUNT * 8) as usize {
        world.abort("the self test needs 80 bytes of starter memory (--starter, KUMIKI_STARTER)");
    }
    let seed = agree_on_seed(world, arguments.seed)?;
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(arguments.seconds);
    let mut tester = Tester::new(world, seed)?;
    let mut round = 0;
    let bar = progress(arguments, world.rank() == 0);
    loop {
        round += 1;
        tester.round(round)?;
        bar.set_position(if arguments.rounds.is_some() {
            round
        } else {
            started.elapsed().as_millis() as u64
        });
        if world.rank() == 0 {
            let over = arguments.rounds.map_or(Instant::now() >= end, |rounds| round >= rounds);
            world.put(at(world, 0, word::LAST)?, if over { round } else { u64::MAX })?;
        }
        if tester.meet(round)? {
            break;
        }
    }
    tester.finish()?;
    bar.finish_and_clear();
    report(world, &tester.tally, seed, round, started.elapsed())
}

/// A bar on the terminal: of rounds, or of time.
fn progress(arguments: &Arguments, wanted: bool) -> indicatif::ProgressBar {
    match arguments.rounds {
        Some(rounds) => bar(rounds, "selftest {bar:48.cyan/blue} {pos}/{len} rounds, {eta} left", wanted),
        None => bar((arguments.seconds * 1e3) as u64, "selftest {bar:48.cyan/blue} {eta} left", wanted),
    }
}

fn agree_on_seed(world: &World, seed: Option<u64>) -> kumiki::Result<u64> {
    if world.rank() == 0 {
        world.put(at(world, 0, word::SEED)?, seed.unwrap_or_else(|| fastrand::u64(..1 << 32)))?;
    }
    world.sync()?;
    world.get(at(world, 0, word::SEED)?)
}

/// A word of starter memory.
fn at(world: &World, rank: u32, word: u64) -> kumiki::Result<GlobalPtr<u64>> {
    Ok(world.starter::<u64>(rank)?.add(word as usize))
}

/// What a rank has done and found.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) errors: u64,
}

/// One line a rank, then the summary. Returns the errors of all.
fn report(world: &World, tally: &Tally, seed: u64, rounds: u64, time: Duration) -> kumiki::Result<u64> {
    let totals =
        [(word::OPERATIONS, tally.operations), (word::BYTES, tally.bytes), (word::ERRORS, tally.errors)];
    for (word, value) in totals {
        world.fetch_add(at(world, 0, word)?, value)?;
    }
    let Tally { operations, bytes, errors } = *tally;
    say(
        world,
        format!(
            "rank {} on node {}: {operations} operations, {}, {errors} errors\n",
            world.rank(),
            world.node(),
            bytes_text(bytes as f64)
        ),
    );
    world.sync()?;
    let total = |word| world.get(at(world, 0, word)?);
    let errors = total(word::ERRORS)?;
    if world.rank() == 0 {
        let verdict =
            if errors == 0 { "all results right".into() } else { format!("{errors} WRONG RESULTS") };
        let summary = format!(
            "selftest: {} ranks on {} nodes, {} operations, {} in {:.1} s, {rounds} rounds, seed {seed}: {verdict}\n",
            world.ranks(),
            world.nodes(),
            total(word::OPERATIONS)?,
            bytes_text(total(word::BYTES)? as f64),
            time.as_secs_f64(),
        );
        say(world, summary);
    }
    world.sync()?;
    Ok(errors)
}

/// Prints a line. A result that cannot be told is none.
fn say(world: &World, line: String) {
    if let Err(why) = super::print_of_rank(&line) {
        world.abort(&why);
    }
}
