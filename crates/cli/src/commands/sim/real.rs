//! The patterns of `kumiki sim predict` as real programs, written with puts: what the ranks of a job do, and how the job
//! is started and asked.

use crate::commands::{rank, Outcome};
use kumiki::{GlobalPtr, Order, Region, World};
use serde_json::{json, Value};
use std::cell::Cell;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a batch of turns takes.
const BATCH: Duration = Duration::from_millis(8);
/// Batches, of which the median counts.
const BATCHES: usize = 25;
/// Words of starter memory: where a rank's region is, how many turns come, and from there on what tells of rounds.
const REGION_WORD: u64 = 0;
const COUNT_WORD: u64 = 1;
const ROUND_WORD: u64 = 4;
/// How often a rank looks at a word before it gives the processor away.
const LOOKS: u32 = 2000;

/// The patterns, by name.
pub(super) const PATTERNS: &[&str] =
    &["put", "exchange", "barrier", "ring", "halo", "alltoall", "dissemination"];

/// Measures a pattern: starts a job, and gives microseconds of a turn.
pub(super) fn measure(pattern: &str, ranks: u32, bytes: u64, tcp: bool) -> Result<f64, String> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let cores = kumiki_run::system::allowed_cores().len();
    let bind = if ranks as usize <= cores { "core" } else { "none" };
    let nodes = if tcp { ranks } else { 1 };
    let mut command = Command::new(&program);
    command.args(["run", "--ranks", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
    command.args(["--bind", bind, "--timeout", "120s", "--"]).arg(&program).args(rank::words("sim"));
    command.args([pattern, &bytes.to_string()]).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{pattern} with {ranks} ranks: {}", said.trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let value: Value =
        serde_json::from_str(text.trim()).map_err(|error| format!("it printed `{text}`: {error}"))?;
    value["us"].as_f64().ok_or_else(|| format!("it printed `{text}`"))
}

/// What a rank of such a job does: `PATTERN BYTES`.
pub(crate) fn rank(words: Vec<OsString>) -> Outcome {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let [pattern, bytes] = words[..] else { return Err("rank sim PATTERN BYTES".into()) };
    let bytes: u64 = bytes.parse().map_err(|_| format!("{bytes} is no number of bytes"))?;
    if !PATTERNS.contains(&pattern) {
        return Err(format!("there is no pattern {pattern}"));
    }
    let text = |error: kumiki::Error| error.to_string();
    let world = World::init().map_err(text)?;
    let turns = Turns::new(&world, bytes).map_err(text)?;
    let samples = turns.sample(pattern).map_err(text)?;
    if world.rank() == 0 {
        let us = median(samples);
        println!("{}", json!({"pattern": pattern, "bytes": bytes, "ranks": world.ranks(), "us": us}));
    }
    drop(turns);
    world.finalize().map_err(text)?;
    Ok(0)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}

/// Turns of a pattern in a world.
struct Turns<'a> {
    world: &'a World,
    bytes: u64,
    /// Held so that it stays registered.
    _mine: Region<u64>,
    /// The region of every rank: a part for what is sent, then one for each rank that may put here.
    regions: Vec<GlobalPtr<u64>>,
    turn: Cell<u64>,
}

impl<'a> Turns<'a> {
    fn new(world: &'a World, bytes: u64) -> kumiki::Result<Turns<'a>> {
        let words = (bytes.div_ceil(8) as usize * (world.ranks() as usize + 1)).max(1);
        let mine: Region<u64> = world.alloc(words)?;
        // Touched once, so that no page is new when it counts.
        world.put_slice(mine.ptr(), &vec![1u64; words])?;
        world.put(word(world, world.rank(), REGION_WORD)?, mine.ptr().address().bits())?;
        world.sync()?;
        let region = |rank| {
            let address = world.get(word(world, rank, REGION_WORD)?)?;
            Ok(GlobalPtr::from_address(kumiki::GlobalAddress::from_bits(address)))
        };
        let regions = (0..world.ranks()).map(region).collect::<kumiki::Result<Vec<_>>>()?;
        Ok(Turns { world, bytes, _mine: mine, regions, turn: Cell::new(0) })
    }

    /// Microseconds of a turn, batch by batch. Rank 0 says how many turns a batch has; none is the end.
    fn sample(&self, pattern: &str) -> kumiki::Result<Vec<f64>> {
        let mut samples = Vec::new();
        let mut count = 1u64;
        loop {
            if self.world.rank() == 0 {
                let next = if samples.len() == BATCHES { 0 } else { count };
                for rank in 0..self.world.ranks() {
                    self.world.put(word(self.world, rank, COUNT_WORD)?, next)?;
                }
            }
            self.world.sync()?;
            let turns = self.world.get(word(self.world, self.world.rank(), COUNT_WORD)?)?;
            self.world.sync()?;
            if turns == 0 {
                return Ok(samples);
            }
            let started = Instant::now();
            (0..turns).try_for_each(|_| self.turn(pattern))?;
            let took = started.elapsed();
            if took < BATCH / 2 && samples.is_empty() {
                count = (count * 4).min(1 << 20);
            } else {
                samples.push(took.as_secs_f64() * 1e6 / turns as f64);
            }
            self.world.sync()?;
        }
    }

    fn turn(&self, pattern: &str) -> kumiki::Result<()> {
        let (rank, ranks) = (self.world.rank(), self.world.ranks());
        let (left, right) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        match pattern {
            // One rank puts, the others stand in the barrier behind it.
            "put" if rank == 0 => {
                self.put(right)?;
                return self.world.complete_all();
            }
            "put" => return Ok(()),
            "exchange" => {
                self.put((rank ^ 1) % ranks)?;
                return self.world.complete_all();
            }
            "dissemination" => return self.dissemination(),
            "barrier" => {}
            "ring" => self.put(right)?,
            "halo" => {
                self.put(left)?;
                self.put(right)?;
            }
            _ => (1..ranks).try_for_each(|shift| self.put((rank + shift) % ranks))?,
        }
        self.world.complete_all()?;
        self.world.sync()
    }

    /// Starts to put to another rank, into the part that is ours there.
    fn put(&self, to: u32) -> kumiki::Result<()> {
        let (rank, words) = (self.world.rank(), self.bytes.div_ceil(8));
        let there = self.regions[to as usize].add(words * (rank as u64 + 1));
        let here = self.regions[rank as usize];
        self.world.copy(there.address(), here.address(), self.bytes, Order::None).map(drop)
    }

    /// A barrier of puts: in round i, tell the rank 2^i further on, and wait to be told.
    fn dissemination(&self) -> kumiki::Result<()> {
        let (world, rank, ranks) = (self.world, self.world.rank(), self.world.ranks());
        let turn = self.turn.get() + 1;
        self.turn.set(turn);
        let (mut distance, mut round) = (1, 0);
        while distance < ranks {
            world.put(word(world, (rank + distance) % ranks, ROUND_WORD + round)?, turn)?;
            let told = word(world, rank, ROUND_WORD + round)?;
            let mut looks = 0;
            while world.get(told)? < turn {
                looks += 1;
                if looks > LOOKS {
                    std::thread::yield_now();
                }
            }
            (distance, round) = (distance * 2, round + 1);
        }
        Ok(())
    }
}

fn word(world: &World, rank: u32, number: u64) -> kumiki::Result<GlobalPtr<u64>> {
    Ok(world.starter::<u64>(rank)?.add(number))
}
