//! What `kumiki sim calibrate` and `predict` run for real: a job whose ranks do several things in turn, many times over, so
//! that whatever disturbs the machine disturbs all of them.

use crate::commands::{print_of_rank, rank, Outcome};
use crate::progress;
use indicatif::ProgressBar;
use kumiki::{GlobalPtr, Order, Region, World};
use serde_json::{json, Value};
use std::cell::Cell;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a batch of turns takes, in microseconds, and how many rounds there are, each with one batch of everything. Short
/// batches are rarely disturbed; where ranks share processors, a batch must see many of their turns.
const ALONE: (u64, u64) = (1_000, 200);
const CROWDED: (u64, u64) = (10_000, 30);
/// Words of starter memory: where a rank's region is, how long a batch took, the turn, and from there on what others tell
/// of rounds.
const REGION_WORD: u64 = 0;
const TIME_WORD: u64 = 1;
const TURN_WORD: u64 = 8;
const ROUND_WORD: u64 = 16;
/// Words of a cache line: what different ranks write lies apart.
const LINE_WORDS: u64 = 8;
/// How often a rank looks at a word before it gives the processor away.
const LOOKS: u32 = 1000;
/// The round of words that nobody waits for.
const OTHER_ROUND: u64 = 8;
/// The word with which rank 0 tells of every round, on standard error, and the line with which it does.
const TELLING: &str = "telling";
const ROUND_LINE: &str = "a round is done";
/// Puts in a row of [`Work::Stream`].
pub(super) const STREAM: u32 = 4;

/// Something that ranks do over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Everybody puts to its partner (0 with 1, 2 with 3, …) and waits.
    Exchange,
    /// Everybody puts several times in a row, and waits once.
    Stream,
    /// Partners tell each other in turn, by a put, and look at their memory until they are told.
    PingPong,
    /// Partners tell each other at once, twice, and look at their memory until they are told for the second time.
    Cross,
    /// The barrier of the world.
    Barrier,
    /// Everybody puts to the next rank; then a barrier.
    Ring,
    /// Everybody puts to both neighbours; then a barrier.
    Halo,
    /// Everybody puts to everybody; then a barrier.
    AllToAll,
    /// A barrier made of puts.
    Dissemination,
}

impl Work {
    const ALL: [Work; 9] = [
        Work::Exchange,
        Work::Stream,
        Work::PingPong,
        Work::Cross,
        Work::Barrier,
        Work::Ring,
        Work::Halo,
        Work::AllToAll,
        Work::Dissemination,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Exchange => "exchange",
            Work::Stream => "stream",
            Work::PingPong => "ping-pong",
            Work::Cross => "cross",
            Work::Barrier => "barrier",
            Work::Ring => "ring",
            Work::Halo => "halo",
            Work::AllToAll => "alltoall",
            Work::Dissemination => "dissemination",
        }
    }

    fn named(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }
}

/// Runs a job that does all these things with so many bytes each, and gives microseconds of a turn: for each thing, one
/// number a round. The bar gets one step for each of the [`rounds_of`] rounds.
pub(super) fn measure(
    things: &[(Work, u64)],
    ranks: u32,
    tcp: bool,
    rounds: Option<u64>,
    bar: &ProgressBar,
) -> Result<Vec<Vec<f64>>, String> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let cores = kumiki_run::system::allowed_cores().len();
    let crowded = ranks as usize > cores;
    let bind = if crowded { "none" } else { "core" };
    let (batch_us, _) = if crowded { CROWDED } else { ALONE };
    let rounds = rounds_of(ranks, rounds);
    let nodes = if tcp { ranks } else { 1 };
    let mut command = Command::new(&program);
    command.args(["run", "--ranks", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
    command.args(["--bind", bind, "--timeout", "120s", "--"]).arg(&program).args(rank::words("sim"));
    command.args((!bar.is_hidden()).then_some(TELLING));
    command.args([batch_us.to_string(), rounds.to_string()]);
    command.args(things.iter().map(|(work, bytes)| format!("{}:{bytes}", work.name())));
    let (status, text, said) = watched(command, bar).map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("measuring with {ranks} ranks: {}", said.trim()));
    }
    let wrong = |why: String| format!("measuring with {ranks} ranks printed `{text}`: {why}");
    let value: Value = serde_json::from_str(text.trim()).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_value(value["us"].clone()).map_err(|error| wrong(error.to_string()))
}

/// How often everything is measured.
pub(super) fn rounds_of(ranks: u32, said: Option<u64>) -> u64 {
    let crowded = ranks as usize > kumiki_run::system::allowed_cores().len();
    said.unwrap_or(if crowded { CROWDED.1 } else { ALONE.1 })
}

/// A bar for so many rounds of measuring.
pub(super) fn bar(rounds: u64) -> ProgressBar {
    progress::bar(rounds, "measuring {bar:40.cyan/blue} {pos}/{len} rounds, {eta} left", true)
}

/// Runs a command to its end; steps the bar whenever it tells of a round. Returns what it printed, and its other complaints.
fn watched(mut command: Command, bar: &ProgressBar) -> std::io::Result<(ExitStatus, String, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let bar = bar.clone();
    // Both must be read, or the one that is full would hold up the other.
    let listener = std::thread::spawn(move || {
        let mut said = String::new();
        for line in errors.into_iter().flat_map(|errors| BufReader::new(errors).lines().map_while(Result::ok))
        {
            match line.as_str() {
                ROUND_LINE => bar.inc(1),
                other => said += &format!("{other}\n"),
            }
        }
        said
    });
    let mut text = String::new();
    let read = output.map_or(Ok(0), |mut output| output.read_to_string(&mut text));
    let status = child.wait()?;
    read?;
    Ok((status, text, listener.join().unwrap_or_default()))
}

/// What a rank of such a job does: `[telling] BATCH_US ROUNDS WORK:BYTES …`.
pub(crate) fn rank(words: Vec<OsString>) -> Outcome {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let usage = || format!("rank sim [{TELLING}] BATCH_US ROUNDS WORK:BYTES …, not {}", words.join(" "));
    let telling = words.first() == Some(&TELLING);
    let [batch_us, rounds, things @ ..] = &words[telling as usize..] else { return Err(usage()) };
    let number = |word: &str| word.parse::<u64>().map_err(|_| usage());
    let (batch, rounds) = (Duration::from_micros(number(batch_us)?), number(rounds)?);
    let thing = |word: &&str| {
        let (name, bytes) = word.split_once(':')?;
        Some((Work::named(name)?, bytes.parse().ok()?))
    };
    let things: Vec<(Work, u64)> = things.iter().map(thing).collect::<Option<_>>().ok_or_else(usage)?;
    let text = |error: kumiki::Error| error.to_string();
    let world = World::init().map_err(text)?;
    let turns = Turns::new(&world, things.iter().map(|thing| thing.1).max().unwrap_or(8)).map_err(text)?;
    let tells = telling && world.rank() == 0;
    let samples = turns.sample(&things, batch, rounds, tells).map_err(text)?;
    if world.rank() == 0 {
        print_of_rank(&format!("{}\n", json!({"us": samples})))?;
    }
    drop(turns);
    world.finalize().map_err(text)?;
    Ok(0)
}

/// Turns of a job.
struct Turns<'a> {
    world: &'a World,
    words: u64,
    /// Held so that it stays registered.
    _mine: Region<u64>,
    /// The region of every rank: a part for what is sent, then one for each rank that may put here.
    regions: Vec<GlobalPtr<u64>>,
    turn: Cell<u64>,
}

impl<'a> Turns<'a> {
    fn new(world: &'a World, bytes: u64) -> kumiki::Result<Turns<'a>> {
        let words = bytes.div_ceil(8).max(1);
        let all = words as usize * (world.ranks() as usize + 1);
        let mine: Region<u64> = world.alloc(all)?;
        // Touched once, so that no page is new when it counts.
        world.put_slice(mine.ptr(), &vec![1u64; all])?;
        world.put(word(world, world.rank(), REGION_WORD)?, mine.ptr().address().bits())?;
        world.sync()?;
        let region = |rank| {
            let address = world.get(word(world, rank, REGION_WORD)?)?;
            Ok(GlobalPtr::from_address(kumiki::GlobalAddress::from_bits(address)))
        };
        let regions = (0..world.ranks()).map(region).collect::<kumiki::Result<Vec<_>>>()?;
        Ok(Turns { world, words, _mine: mine, regions, turn: Cell::new(0) })
    }

    /// Microseconds of a turn of each thing, round by round.
    fn sample(
        &self,
        things: &[(Work, u64)],
        batch: Duration,
        rounds: u64,
        tells: bool,
    ) -> kumiki::Result<Vec<Vec<f64>>> {
        let mut counts = Vec::new();
        for &thing in things {
            let mut count = 1;
            while count < 1 << 20 && self.fastest(thing, count)? < batch {
                count *= 2;
            }
            counts.push(count);
        }
        let mut samples = vec![Vec::new(); things.len()];
        for _ in 0..rounds {
            for ((&thing, &count), samples) in things.iter().zip(&counts).zip(&mut samples) {
                let took = self.batch(thing, count)?;
                samples.push(took.as_secs_f64() * 1e6 / count as f64);
            }
            if tells {
                let _ = writeln!(std::io::stderr(), "{ROUND_LINE}");
            }
        }
        Ok(samples)
    }

    /// The fastest of a few batches: one that was disturbed must not pass for a long one.
    fn fastest(&self, thing: (Work, u64), count: u64) -> kumiki::Result<Duration> {
        let mut fastest = Duration::MAX;
        for _ in 0..3 {
            fastest = fastest.min(self.batch(thing, count)?);
        }
        Ok(fastest)
    }

    /// So many turns; how long they took is what rank 0 says, to everybody.
    fn batch(&self, (work, bytes): (Work, u64), count: u64) -> kumiki::Result<Duration> {
        self.world.sync()?;
        let started = Instant::now();
        (0..count).try_for_each(|_| self.turn(work, bytes))?;
        // Until the last has done it.
        self.world.sync()?;
        let took = started.elapsed();
        if self.world.rank() == 0 {
            for rank in 0..self.world.ranks() {
                self.world.put(word(self.world, rank, TIME_WORD)?, took.as_nanos() as u64)?;
            }
        }
        self.world.sync()?;
        let took = self.world.get(word(self.world, self.world.rank(), TIME_WORD)?)?;
        Ok(Duration::from_nanos(took))
    }

    fn turn(&self, work: Work, bytes: u64) -> kumiki::Result<()> {
        let (rank, ranks) = (self.world.rank(), self.world.ranks());
        let (left, right) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        let partner = if rank ^ 1 < ranks { rank ^ 1 } else { left };
        match work {
            Work::Exchange if bytes == 8 => return self.tell(partner, OTHER_ROUND, 0),
            Work::Exchange => {
                self.put(partner, bytes)?;
                return self.world.complete_all();
            }
            Work::Stream => {
                (0..STREAM).try_for_each(|_| self.put(partner, bytes))?;
                return self.world.complete_all();
            }
            Work::PingPong | Work::Cross if partner ^ 1 != rank => return Ok(()),
            Work::Cross => {
                let turn = self.next_turn();
                self.tell(partner, OTHER_ROUND, turn)?;
                self.tell(partner, 0, turn)?;
                return self.await_told(0, turn);
            }
            Work::PingPong if rank % 2 == 0 => {
                let turn = self.next_turn();
                self.tell(partner, 0, turn)?;
                return self.await_told(0, turn);
            }
            Work::PingPong => {
                let turn = self.next_turn();
                self.await_told(0, turn)?;
                return self.tell(partner, 0, turn);
            }
            Work::Dissemination => return self.dissemination(),
            Work::Barrier => {}
            Work::Ring => self.put(right, bytes)?,
            Work::Halo => {
                self.put(left, bytes)?;
                self.put(right, bytes)?;
            }
            Work::AllToAll => (1..ranks).try_for_each(|shift| self.put((rank + shift) % ranks, bytes))?,
        }
        self.world.complete_all()?;
        self.world.sync()
    }

    /// Starts to put to another rank, into the part that is ours there.
    fn put(&self, to: u32, bytes: u64) -> kumiki::Result<()> {
        let rank = self.world.rank();
        let there = self.regions[to as usize].add((self.words * (u64::from(rank) + 1)) as usize);
        let here = self.regions[rank as usize];
        self.world.copy(there.address(), here.address(), bytes as usize, Order::None).map(drop)
    }

    fn next_turn(&self) -> u64 {
        self.turn.set(self.turn.get() + 1);
        self.turn.get()
    }

    /// Puts a word that tells another rank of a turn.
    fn tell(&self, to: u32, round: u64, turn: u64) -> kumiki::Result<()> {
        let here = word(self.world, self.world.rank(), TURN_WORD)?;
        self.world.put(here, turn)?;
        let there = word(self.world, to, ROUND_WORD + round * LINE_WORDS)?;
        self.world.copy(there.address(), here.address(), 8, Order::None)?;
        self.world.complete_all()
    }

    /// Looks at its own memory until it has been told.
    fn await_told(&self, round: u64, turn: u64) -> kumiki::Result<()> {
        let told = word(self.world, self.world.rank(), ROUND_WORD + round * LINE_WORDS)?;
        let mut looks = 0;
        while self.world.get(told)? < turn {
            self.world.progress()?;
            looks += 1;
            if looks > LOOKS {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// A barrier of puts: in round i, tell the rank 2^i further on, and wait to be told.
    fn dissemination(&self) -> kumiki::Result<()> {
        let (rank, ranks) = (self.world.rank(), self.world.ranks());
        let turn = self.next_turn();
        let (mut distance, mut round) = (1, 0);
        while distance < ranks {
            self.tell((rank + distance) % ranks, round, turn)?;
            self.await_told(round, turn)?;
            (distance, round) = (distance * 2, round + 1);
        }
        Ok(())
    }
}

fn word(world: &World, rank: u32, number: u64) -> kumiki::Result<GlobalPtr<u64>> {
    Ok(world.starter::<u64>(rank)?.add(number as usize))
}
