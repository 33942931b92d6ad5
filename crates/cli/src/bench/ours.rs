//! What Kumiki costs: rank 0 is the initiator, rank 1 the target, rank 2 the third party.

use super::statistics;
use super::worker::{Measured, Places, Request, Sampler, FIRST_WORD, RANDOM_WORDS};
use kumiki::{AtomicOp, GlobalPtr, Order, Region, Registered, World};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What the target holds before a get.
pub(super) const SEED: u64 = 0x5eed_5eed_5eed_5eed;
/// The smallest region, so that consecutive operations need not use the same word.
pub(super) const LEAST_WORDS: usize = 512;
/// Private memory begins on a page, as `allocate` in `benches/peers/rma.c` gives it to the peers. Elsewhere in a heap the
/// distance of the two sides to a cache line differs, and the system's copy of 1 MiB takes up to a tenth longer.
const PAGE_BYTES: usize = 4096;
/// Private memory and its number of places for one copy; each measurement of a bandwidth takes the next, as in `rma.c`. How
/// fast two MiB are copied depends on which physical pages they happen to have, by up to a tenth.
const PLACES_BYTES: u64 = 16 << 20;
const PLACES: u64 = 16;
/// Copies in flight when bandwidth is measured, as peers have before a flush.
pub(super) const WINDOW: usize = 8;
/// How long the target computes at a time, and how long the initiator lets it before the first operation.
const BUSY: Duration = Duration::from_millis(50);
const BUSY_LEAD: Duration = Duration::from_millis(2);
/// Operations on a computing target in one such time.
const BUSY_OPERATIONS: usize = 8;

/// Words of starter memory behind the line: where a rank's region is, a count from rank 0, a result for rank 0, which region it
/// is.
pub(super) const REGION_WORD: u64 = FIRST_WORD;
pub(super) const COUNT_WORD: u64 = FIRST_WORD + 1;
const RESULT_WORD: u64 = FIRST_WORD + 2;
const REGISTRATION_WORD: u64 = FIRST_WORD + 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Put,
    Get,
    FetchAdd,
    CompareSwap,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Arena,
    Private,
}

/// This rank's region of a measurement.
pub(super) enum Memory {
    Arena(Region<u64>),
    Private {
        region: Registered<u64>,
        /// The first word of it that is on a page.
        first: u64,
    },
}

impl Memory {
    fn new(world: &World, kind: Kind, words: usize) -> kumiki::Result<Memory> {
        match kind {
            Kind::Arena => world.alloc(words).map(Memory::Arena),
            Kind::Private => {
                let memory = vec![0u64; words + PAGE_BYTES / 8].into_boxed_slice();
                let first = memory.as_ptr().align_offset(PAGE_BYTES) as u64;
                world.register(memory).map(|region| Memory::Private { region, first })
            }
        }
    }

    pub(super) fn ptr(&self) -> GlobalPtr<u64> {
        match self {
            Memory::Arena(region) => region.ptr(),
            Memory::Private { region, first } => region.ptr().add(*first as usize),
        }
    }
}

impl Memory {
    /// Writes one value to every word of the arena, so that all of it is there.
    fn fill(&self, value: u64) -> Done<()> {
        let Memory::Arena(region) = self else { return Err("not of the arena".into()) };
        let page = [value; PAGE_BYTES / 8];
        (0..region.len()).step_by(page.len()).try_for_each(|first| region.write(first, &page)).map_err(text)
    }
}

/// The regions of all ranks, as this rank sees them.
pub(super) struct Regions {
    kind: Kind,
    words: usize,
    pub(super) mine: Memory,
    /// The region of rank 1, and that of rank 2 if there is one.
    pub(super) target: GlobalPtr<u64>,
    third: GlobalPtr<u64>,
}

/// Measures operations of a world.
pub(super) struct Ours<'a> {
    pub(super) world: &'a World,
    pub(super) sampler: Sampler,
    pub(super) regions: Option<Regions>,
    /// Measurements of bandwidths so far.
    bulks: u64,
}

pub(super) type Done<T> = Result<T, String>;

pub(super) fn text(error: kumiki::Error) -> String {
    error.to_string()
}

impl<'a> Ours<'a> {
    pub(super) fn new(world: &'a World) -> Ours<'a> {
        Ours { world, sampler: Sampler::default(), regions: None, bulks: 0 }
    }

    /// Every rank calls it; the answer of rank 0 counts. The first value is the unit.
    pub(super) fn measure(&mut self, request: &Request) -> (&'static str, Measured) {
        let parts = request.parts();
        let unit = match parts[0] {
            "putbw" | "getbw" | "putone" | "getone" | "putrows" | "getrows" => "MB/s",
            "busy" | "busy1" | "barrier" | "team" => "us",
            "idle" => "%",
            _ => "ns",
        };
        let measured = match parts[..] {
            ["barrier"] => {
                let world = self.world;
                self.barrier(request, &|| world.sync())
            }
            ["team"] => self.team_barrier(request),
            ["idle", seconds] => self.idle(seconds, request.reps),
            [name @ ("busy" | "busy1"), operation] => self.busy(operation, name == "busy", request),
            ["third8", kind] => self.third(kind, request),
            ["put8", "threads"] => self.threads(request),
            [name @ ("randread" | "randupd"), interface] => {
                self.random(name == "randupd", interface, request)
            }
            ["putrows", row] => self.rows(true, row, request),
            ["getrows", row] => self.rows(false, row, request),
            ["word", "put"] => self.words_to_and_fro(false, request),
            ["word", "signal"] => self.words_to_and_fro(true, request),
            ["many", "put8"] => self.many_puts(request),
            ["both", "get8"] => self.gets_both_ways(request),
            [name, kind, bytes] => self.bulk(name, kind, bytes, request),
            [operation, interface] => self.small(operation, interface, request),
            _ => Err(unknown(request)),
        };
        // Whatever became of it, the ranks meet again before the next line.
        let met = self.world.sync().map_err(text);
        (unit, met.and(measured))
    }

    /// Makes a region on each rank, unless those of the last measurement will do. Every rank calls it.
    pub(super) fn prepare(&mut self, kind: Kind, words: usize) -> Done<&Regions> {
        let words = words.max(LEAST_WORDS);
        if self.regions.as_ref().is_none_or(|have| have.kind != kind || have.words != words) {
            self.regions = None;
            let mine = Memory::new(self.world, kind, words).map_err(text)?;
            let (world, (address, registration)) = (self.world, mine.ptr().parts());
            world.put(word(world, world.rank(), REGION_WORD)?, address.bits()).map_err(text)?;
            world.put(word(world, world.rank(), REGISTRATION_WORD)?, registration).map_err(text)?;
            world.sync().map_err(text)?;
            let region_of = |rank: u32| {
                let of = |name| world.get(word(world, rank.min(world.ranks() - 1), name)?).map_err(text);
                let address = kumiki::GlobalAddress::from_bits(of(REGION_WORD)?);
                Ok::<_, String>(GlobalPtr::from_parts(address, of(REGISTRATION_WORD)?))
            };
            let (target, third) = (region_of(1)?, region_of(2)?);
            self.regions = Some(Regions { kind, words, mine, target, third });
        }
        self.regions.as_ref().ok_or_else(|| "there are no regions".into())
    }

    /// Fills this rank's region, and waits until every rank has.
    pub(super) fn fill(&self, regions: &Regions, value: impl Fn(u64) -> u64) -> Done<()> {
        self.fill_words(regions.mine.ptr(), regions.words as u64, value)
    }

    /// Fills words of this rank, and waits until every rank has.
    fn fill_words(&self, first: GlobalPtr<u64>, words: u64, value: impl Fn(u64) -> u64) -> Done<()> {
        let values: Vec<u64> = (0..words).map(value).collect();
        self.world.put_slice(first, &values).map_err(text)?;
        self.world.sync().map_err(text)
    }

    /// The words of a region for copies of so many bytes, and the first of them that this measurement uses. Every rank
    /// calls it, and they agree.
    fn next_place(&mut self, kind: Kind, bytes: u64) -> (u64, u64) {
        let step = bytes.next_multiple_of(PAGE_BYTES as u64) / 8;
        if kind == Kind::Arena {
            return (bytes / 8, 0);
        }
        let places = (PLACES_BYTES / 8 / step).clamp(1, PLACES);
        self.bulks += 1;
        (places * step, self.bulks % places * step)
    }

    fn small(&mut self, name: &str, interface: &str, request: &Request) -> Measured {
        let operation = operation(name).ok_or_else(|| unknown(request))?;
        let kind = if interface == "private" { Kind::Private } else { Kind::Arena };
        if !["typed", "view", "handle", "private"].contains(&interface) {
            return Err(unknown(request));
        }
        let world = self.world;
        self.prepare(kind, LEAST_WORDS)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        let is_target = world.rank() == 1;
        // The initiator's words are all different, so that each put has something new to bring.
        self.fill(regions, |i| match (is_target, operation) {
            (true, Operation::Get) => SEED,
            (true, _) => 0,
            (false, _) => i + 1,
        })?;
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let mut initiator = Initiator { world, regions, count: 0, wrong: 0 };
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            match interface {
                "typed" => initiator.typed(operation, n),
                "view" => initiator.in_view(operation, n),
                _ => initiator.handle(operation, n),
            }
            .map_err(text)?;
            let time = started.elapsed();
            initiator.check(operation, interface).map(|()| time)
        })?;
        Ok(seconds.into_iter().map(|s| s * 1e9).collect())
    }

    /// Words of rank 1 in random order, read or changed.
    fn random(&mut self, changes: bool, interface: &str, request: &Request) -> Measured {
        let world = self.world;
        self.prepare(Kind::Arena, RANDOM_WORDS)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        if world.rank() == 1 {
            regions.mine.fill(1)?;
        }
        world.sync().map_err(text)?;
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let (target, mut places) = (regions.target, Places::default());
        let view = world.view(target, RANDOM_WORDS).map_err(text)?;
        let words = view.words();
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            // One loop each, as a program would have it.
            let sum = match (changes, interface) {
                (false, "view") => visit(n, &mut places, |place| Ok(words[place].load(Relaxed))),
                (true, "view") => visit(n, &mut places, |place| {
                    let value = words[place].load(Relaxed);
                    words[place].store(value ^ 2, Relaxed);
                    Ok(value)
                }),
                (false, _) => visit(n, &mut places, |place| world.get(target.add(place))),
                (true, _) => visit(n, &mut places, |place| {
                    let value = world.get(target.add(place))?;
                    world.put(target.add(place), value ^ 2).map(|()| value)
                }),
            };
            black_box(sum.map_err(text)?);
            Ok(started.elapsed())
        })?;
        Ok(seconds.into_iter().map(|s| s * 1e9).collect())
    }

    /// Two threads copy to words of their own, each copy completed by its handle.
    fn threads(&mut self, request: &Request) -> Measured {
        let world = self.world;
        self.prepare(Kind::Arena, LEAST_WORDS)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let (here, there) = (regions.mine.ptr().address(), regions.target.address());
        let copies = |n: u64, line: u64| -> kumiki::Result<()> {
            let (to, from) =
                (there.add(line * PAGE_BYTES as u64 / 2), here.add(line * PAGE_BYTES as u64 / 2));
            for _ in 0..n {
                world.complete(world.copy(black_box(to), black_box(from), 8, Order::None)?)?;
            }
            Ok(())
        };
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let each = n.div_ceil(2);
            let started = Instant::now();
            let done = std::thread::scope(|scope| {
                let other = scope.spawn(|| copies(each, 1));
                let mine = copies(each, 0).map_err(text);
                other.join().map_err(|_| "the other thread panicked".to_string())?.map_err(text).and(mine)
            });
            done.map(|()| started.elapsed())
        })?;
        Ok(seconds.into_iter().map(|s| s * 1e9).collect())
    }

    fn third(&mut self, kind: &str, request: &Request) -> Measured {
        let kind = parse_kind(kind).ok_or_else(|| unknown(request))?;
        let world = self.world;
        if world.ranks() < 3 {
            return Err("needs three ranks".into());
        }
        self.prepare(kind, LEAST_WORDS)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        self.fill(regions, |_| if world.rank() == 1 { SEED } else { 0 })?;
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let (to, from) = (regions.third.address(), regions.target.address());
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            for _ in 0..n {
                let handle = world.copy(black_box(to), black_box(from), 8, Order::None).map_err(text)?;
                world.complete(handle).map_err(text)?;
            }
            Ok(started.elapsed())
        })?;
        expect(world.get(regions.third).map_err(text)?, SEED)?;
        Ok(seconds.into_iter().map(|s| s * 1e9).collect())
    }

    fn bulk(&mut self, name: &str, kind: &str, bytes: &str, request: &Request) -> Measured {
        let kind = parse_kind(kind).ok_or_else(|| unknown(request))?;
        let bytes: u64 = bytes.parse().map_err(|_| unknown(request))?;
        let (is_put, window) = match name {
            "putbw" => (true, WINDOW),
            "getbw" => (false, WINDOW),
            "putone" => (true, 1),
            "getone" => (false, 1),
            _ => return Err(unknown(request)),
        };
        let world = self.world;
        let (words, first) = self.next_place(kind, bytes);
        self.prepare(kind, words as usize)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        let (here, there) = (regions.mine.ptr().add(first as usize), regions.target.add(first as usize));
        self.fill_words(here, bytes / 8, |_| if world.rank() == 1 { SEED } else { 1 })?;
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let (to, from) = if is_put { (there, here) } else { (here, there) };
        let ends = [0, bytes / 8 - 1];
        let mut stamp = if is_put { 2 } else { SEED };
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            stamp += is_put as u64;
            for end in ends {
                world.put(here.add(end as usize), if is_put { stamp } else { 0 }).map_err(text)?;
            }
            let mut flying = VecDeque::with_capacity(window);
            let started = Instant::now();
            for _ in 0..n {
                if flying.len() == window {
                    flying.pop_front().map_or(Ok(()), |first| world.complete(first)).map_err(text)?;
                }
                let handle = world.copy(
                    black_box(to.address()),
                    black_box(from.address()),
                    bytes as usize,
                    Order::None,
                );
                flying.push_back(handle.map_err(text)?);
            }
            flying.pop_back().map_or(Ok(()), |last| world.complete(last)).map_err(text)?;
            let time = started.elapsed();
            let arrived = |&end: &u64| expect(world.get(to.add(end as usize)).map_err(text)?, stamp);
            ends.iter().try_for_each(arrived).map(|()| time)
        })?;
        Ok(seconds.into_iter().map(|s| bytes as f64 / s / 1e6).collect())
    }

    /// The target computes and calls nothing; if `both`, a thread of the initiator computes too, on its core.
    fn busy(&mut self, name: &str, both: bool, request: &Request) -> Measured {
        let operation = operation(name).ok_or_else(|| unknown(request))?;
        let world = self.world;
        self.prepare(Kind::Arena, LEAST_WORDS)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        self.fill(regions, |_| if operation == Operation::Get { SEED } else { 0 })?;
        let mut initiator = Initiator { world, regions, count: 0, wrong: 0 };
        let mut samples = Vec::new();
        for _ in 0..=request.reps {
            world.sync().map_err(text)?;
            match world.rank() {
                0 => samples.push(initiator.while_computing(operation, both)?),
                1 => compute(BUSY),
                _ => {}
            }
            world.sync().map_err(text)?;
        }
        if world.rank() == 0 {
            initiator.check(operation, "typed")?;
        }
        // The first opens the connection.
        Ok(samples.into_iter().skip(1).map(|s| s * 1e6).collect())
    }

    /// The barrier of a team that has all ranks, the last first.
    fn team_barrier(&mut self, request: &Request) -> Measured {
        let team = self.world.team_split(0, -i64::from(self.world.rank())).map_err(text)?;
        let team = team.ok_or("a rank without a team")?;
        let measured = self.barrier(request, &|| team.sync());
        team.free().map_err(text)?;
        measured
    }

    fn barrier(&mut self, request: &Request, sync: &dyn Fn() -> kumiki::Result<()>) -> Measured {
        let world = self.world;
        let counter = word(world, world.rank(), COUNT_WORD)?;
        // Rank 0 tells the others how many barriers come; none is the end.
        let tell = |count: u64| -> Done<()> {
            for rank in 0..world.ranks() {
                world.put(word(world, rank, COUNT_WORD)?, count).map_err(text)?;
            }
            world.sync().map_err(text)
        };
        let pass = |count: u64| (0..count).try_for_each(|_| sync()).map_err(text);
        if world.rank() != 0 {
            loop {
                world.sync().map_err(text)?;
                match world.get(counter).map_err(text)? {
                    0 => return Ok(Vec::new()),
                    count => pass(count + 1)?,
                }
            }
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, |count| {
            tell(count)?;
            pass(1)?;
            let started = Instant::now();
            pass(count).map(|()| started.elapsed())
        });
        tell(0)?;
        Ok(seconds?.into_iter().map(|s| s * 1e6).collect())
    }

    /// Processor time of the ranks that wait in a barrier while rank 0 sleeps, in per cent of a core; the largest.
    fn idle(&mut self, seconds: &str, reps: u32) -> Measured {
        let world = self.world;
        let seconds: u64 = seconds.parse().map_err(|_| "idle.SECONDS".to_string())?;
        let result = word(world, world.rank(), RESULT_WORD)?;
        let mut samples = Vec::new();
        for _ in 0..reps {
            world.sync().map_err(text)?;
            let before = processor_ns();
            if world.rank() == 0 {
                std::thread::sleep(Duration::from_secs(seconds));
            }
            world.sync().map_err(text)?;
            world.put(result, processor_ns().saturating_sub(before)).map_err(text)?;
            world.sync().map_err(text)?;
            let mut most = 0;
            for rank in 1..world.ranks() {
                most = most.max(world.get(word(world, rank, RESULT_WORD)?).map_err(text)?);
            }
            samples.push(most as f64 / 1e7 / seconds as f64);
        }
        Ok(samples)
    }
}

/// Rank 0 in a measurement.
struct Initiator<'a> {
    world: &'a World,
    regions: &'a Regions,
    /// Operations that changed the target so far.
    count: u64,
    /// Not zero once a value was wrong.
    wrong: u64,
}

impl Initiator<'_> {
    /// Operations on typed pointers.
    fn typed(&mut self, operation: Operation, n: u64) -> kumiki::Result<()> {
        let (world, target) = (self.world, self.regions.target);
        // In registers: the loops measure the operation, not a counter in memory.
        let (mut count, mut wrong) = (self.count, self.wrong);
        match operation {
            Operation::Put => {
                for _ in 0..n {
                    count += 1;
                    world.put(black_box(target), count)?;
                }
            }
            Operation::Get => {
                for _ in 0..n {
                    wrong |= world.get(black_box(target))? ^ SEED;
                }
            }
            Operation::FetchAdd => {
                for _ in 0..n {
                    wrong |= world.fetch_add(black_box(target), 1)? ^ count;
                    count += 1;
                }
            }
            Operation::CompareSwap => {
                for _ in 0..n {
                    wrong |= world.compare_swap(black_box(target), count, count + 1)? ^ count;
                    count += 1;
                }
            }
        }
        (self.count, self.wrong) = (count, wrong);
        Ok(())
    }

    /// The same in a view of the target's words.
    fn in_view(&mut self, operation: Operation, n: u64) -> kumiki::Result<()> {
        let view = self.world.view(self.regions.target, LEAST_WORDS)?;
        let words = view.words();
        let (mut count, mut wrong, at) = (self.count, self.wrong, black_box(0));
        match operation {
            Operation::Put => {
                for _ in 0..n {
                    count += 1;
                    words[black_box(0)].store(count, Relaxed);
                }
            }
            Operation::Get => {
                for _ in 0..n {
                    wrong |= words[black_box(0)].load(Relaxed) ^ SEED;
                }
            }
            Operation::FetchAdd => {
                for _ in 0..n {
                    wrong |= words[at].fetch_add(1, AcqRel) ^ count;
                    count += 1;
                }
            }
            Operation::CompareSwap => {
                for _ in 0..n {
                    let swapped = words[at].compare_exchange(count, count + 1, AcqRel, Acquire);
                    wrong |= swapped.unwrap_or_else(|held| held) ^ count;
                    count += 1;
                }
            }
        }
        (self.count, self.wrong) = (count, wrong);
        Ok(())
    }

    /// Operations between global addresses, each completed by its handle.
    fn handle(&mut self, operation: Operation, n: u64) -> kumiki::Result<()> {
        let (world, order) = (self.world, Order::None);
        let (here, target) = (self.regions.mine.ptr(), self.regions.target.address());
        let mask = LEAST_WORDS as u64 - 1;
        for _ in 0..n {
            let word = here.add((self.count & mask) as usize).address();
            let handle = match operation {
                Operation::Put => world.copy(black_box(target), black_box(word), 8, order)?,
                Operation::Get => world.copy(black_box(word), black_box(target), 8, order)?,
                Operation::FetchAdd => world.atomic(word, target, AtomicOp::Add(1u64), order)?,
                Operation::CompareSwap => {
                    world.atomic(word, target, AtomicOp::CompareSwap(self.count, self.count + 1), order)?
                }
            };
            world.complete(handle)?;
            self.count += 1;
        }
        Ok(())
    }

    /// Whether the target and the last value that came back are right.
    fn check(&self, operation: Operation, interface: &str) -> Done<()> {
        let mask = LEAST_WORDS as u64 - 1;
        let there = self.world.get(self.regions.target).map_err(text)?;
        let last = self.count.wrapping_sub(1);
        let came_back = self.world.get(self.regions.mine.ptr().add((last & mask) as usize)).map_err(text)?;
        expect(self.wrong, 0)?;
        match (operation, interface) {
            (Operation::Get, _) => expect(there, SEED)?,
            (Operation::Put, "typed" | "view") => expect(there, self.count)?,
            (Operation::Put, _) => expect(there, (last & mask) + 1)?,
            (Operation::FetchAdd | Operation::CompareSwap, _) => expect(there, self.count)?,
        }
        match (operation, interface) {
            (_, "typed" | "view") | (Operation::Put, _) => Ok(()),
            (Operation::Get, _) => expect(came_back, SEED),
            (Operation::FetchAdd | Operation::CompareSwap, _) => expect(came_back, last),
        }
    }

    /// Seconds of one operation, while a thread of this process computes if `here`; the median of a few.
    fn while_computing(&mut self, operation: Operation, here: bool) -> Done<f64> {
        let stop = AtomicBool::new(!here);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    compute(Duration::from_micros(100));
                }
            });
            let mut times = Vec::new();
            std::thread::sleep(BUSY_LEAD);
            for _ in 0..BUSY_OPERATIONS {
                std::thread::sleep(Duration::from_millis(1));
                let started = Instant::now();
                let done = self.typed(operation, 1).map_err(text);
                times.push(started.elapsed().as_secs_f64());
                if done.is_err() {
                    stop.store(true, Ordering::Relaxed);
                    done?;
                }
            }
            stop.store(true, Ordering::Relaxed);
            statistics::median(times).ok_or_else(|| "no operation was measured".into())
        })
    }
}

/// A word of the starter memory of a rank.
pub(super) fn word(world: &World, rank: u32, word: u64) -> Done<GlobalPtr<u64>> {
    Ok(world.starter::<u64>(rank).map_err(text)?.add(word as usize))
}

fn operation(name: &str) -> Option<Operation> {
    Some(match name {
        "put8" => Operation::Put,
        "get8" => Operation::Get,
        "fadd8" => Operation::FetchAdd,
        "cas8" => Operation::CompareSwap,
        _ => return None,
    })
}

fn parse_kind(name: &str) -> Option<Kind> {
    match name {
        "arena" => Some(Kind::Arena),
        "private" => Some(Kind::Private),
        _ => None,
    }
}

fn unknown(request: &Request) -> String {
    format!("{} is not a metric known here", request.metric)
}

pub(super) fn expect(value: u64, wanted: u64) -> Done<()> {
    if value == wanted {
        return Ok(());
    }
    Err(format!("the value is {value:#x} and should be {wanted:#x}"))
}

/// Does something with `n` places in random order. The sum of what it gives.
#[inline(always)]
fn visit(n: u64, places: &mut Places, work: impl Fn(usize) -> kumiki::Result<u64>) -> kumiki::Result<u64> {
    // In registers, whatever the work may write to.
    let mut next = *places;
    let mut sum = 0u64;
    for _ in 0..n {
        sum = sum.wrapping_add(work(next.next_place())?);
    }
    *places = next;
    Ok(sum)
}

/// Keeps the processor busy without calling anybody.
fn compute(time: Duration) {
    let started = Instant::now();
    let mut value = 1u64;
    while started.elapsed() < time {
        for _ in 0..1000 {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Processor time of all threads of this process.
fn processor_ns() -> u64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let of_thread = |entry: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
        let text = std::fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    threads.filter_map(of_thread).sum()
}
