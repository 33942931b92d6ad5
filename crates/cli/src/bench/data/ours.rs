//! What the structures cost: each rank at once, with memory of its own, of its neighbour, or spread over both.

use super::super::worker::{Measured, Request, Sampler, FIRST_WORD};
use super::{key, BATCH, KEYS, VALUE_BYTES};
use kumiki::data::{Insert, Map, On, Spread, Vector};
use kumiki::{GlobalAddress, World};
use std::time::{Duration, Instant};

/// Slots of a map on each rank: about one for each key, as the C++ library has.
const SLOTS: u64 = KEYS;
/// Words of starter memory: a count from rank 0, the time of a rank.
const COUNT_WORD: u64 = FIRST_WORD + 3;
const TIME_WORD: u64 = FIRST_WORD + 4;
/// Elements of a vector before it is emptied.
const PUSHES: u64 = 65_536;
/// Elements of the vector that something is inserted into.
const MIDDLE: u64 = (1 << 20) / 8;

type Done<T> = Result<T, String>;

fn text(error: kumiki::Error) -> String {
    error.to_string()
}

/// Measures the structures of a world.
pub(in crate::bench) struct Data<'a> {
    world: &'a World,
    sampler: Sampler,
}

impl<'a> Data<'a> {
    pub(in crate::bench) fn new(world: &'a World) -> Data<'a> {
        Data { world, sampler: Sampler::default() }
    }

    /// Every rank calls it; the answer of rank 0 counts. The first value is the unit.
    pub(in crate::bench) fn measure(&mut self, request: &Request) -> (&'static str, Measured) {
        let parts = request.parts();
        let unit = if parts[1] == "entry_bytes" { "B" } else { "ns" };
        let measured = match parts[1..] {
            ["malloc", whose] => self.malloc(whose, request),
            [name @ ("malloc_each" | "free_each"), whose] => self.half(name, whose, request),
            ["push", _] => self.push(request),
            ["find" | "insert" | "find_many" | "insert_many", whose] => self.map(parts[1], whose, request),
            ["middle", whose] => self.middle(whose, request),
            ["entry_bytes"] => self.entry_bytes(),
            _ => Err(format!("{} is not a metric known here", request.metric)),
        };
        let met = self.world.sync().map_err(text);
        (unit, met.and(measured))
    }

    /// The ranks that a structure lies on.
    fn ranks_of(&self, whose: &str) -> Done<Vec<u32>> {
        let (me, ranks) = (self.world.rank(), self.world.ranks());
        match whose {
            "own" => Ok(vec![me]),
            "other" => Ok(vec![(me + 1) % ranks]),
            "all" => Ok((0..ranks).collect()),
            other => Err(format!("{other} is no place known here")),
        }
    }

    /// Nanoseconds of one operation that rank 0 does while the others sleep.
    fn alone(
        &mut self,
        request: &Request,
        mut work: impl FnMut(u64) -> Result<Duration, String>,
    ) -> Measured {
        if self.world.rank() != 0 {
            return Ok(Vec::new());
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, &mut work)?;
        Ok(seconds.into_iter().map(|seconds| seconds * 1e9).collect())
    }

    fn malloc(&mut self, whose: &str, request: &Request) -> Measured {
        let (world, rank) = (self.world, self.ranks_of(whose)?[0]);
        // Something else lives there too: a heap that empties gives its memory back, which is not what is measured.
        let kept = world.malloc(64, rank).map_err(text)?;
        let measured = self.alone(request, |count| {
            let began = Instant::now();
            for _ in 0..count {
                let place = world.malloc(64, rank).map_err(text)?;
                world.free(place).map_err(text)?;
            }
            Ok(began.elapsed())
        });
        world.free(kept).map_err(text)?;
        measured
    }

    /// Malloc alone, or free alone.
    fn half(&mut self, name: &str, whose: &str, request: &Request) -> Measured {
        let (world, rank) = (self.world, self.ranks_of(whose)?[0]);
        let is_malloc = name == "malloc_each";
        let mut places: Vec<GlobalAddress> = Vec::new();
        self.alone(request, |count| {
            let began = Instant::now();
            for _ in 0..count {
                places.push(world.malloc(64, rank).map_err(text)?);
            }
            let allocated = began.elapsed();
            let began = Instant::now();
            for place in places.drain(..) {
                world.free(place).map_err(text)?;
            }
            Ok(if is_malloc { allocated } else { began.elapsed() })
        })
    }

    fn push(&mut self, request: &Request) -> Measured {
        let world = self.world;
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let mut numbers = Vector::<u64>::create(world, On::rank(0)).map_err(text)?;
        let measured = self.alone(request, |count| {
            numbers.clear().map_err(text)?;
            let began = Instant::now();
            for number in 0..count {
                if number % PUSHES == 0 {
                    numbers.clear().map_err(text)?;
                }
                numbers.push(number).map_err(text)?;
            }
            let time = began.elapsed();
            match numbers.len().map_err(text)? {
                length if length == ((count - 1) % PUSHES + 1) as usize => Ok(time),
                length => Err(format!("the vector has {length} elements after {count} pushes")),
            }
        });
        numbers.destroy().map_err(text)?;
        measured
    }

    /// Something is put into the middle of a vector and taken out again.
    fn middle(&mut self, whose: &str, request: &Request) -> Measured {
        let (world, rank) = (self.world, self.ranks_of(whose)?[0]);
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let mut numbers =
            Vector::<u64>::create(world, On::rank(rank).elements(MIDDLE as usize)).map_err(text)?;
        let measured = self.alone(request, |count| {
            let began = Instant::now();
            for number in 0..count {
                numbers.insert((MIDDLE / 2) as usize, &[number]).map_err(text)?;
                numbers.erase((MIDDLE / 2) as usize..(MIDDLE / 2 + 1) as usize).map_err(text)?;
            }
            Ok(began.elapsed() / 2)
        });
        numbers.destroy().map_err(text)?;
        measured
    }

    /// A map of this rank's, with every key in it unless insertions are measured. `all` is one map for all ranks.
    fn map(&mut self, name: &str, whose: &str, request: &Request) -> Measured {
        let (world, ranks) = (self.world, self.ranks_of(whose)?);
        let map = if whose == "all" {
            shared_map(world)?
        } else {
            Map::create(world, Spread::over(&ranks).slots(SLOTS as usize).directory(ranks[0]))
                .map_err(text)?
        };
        let (value, first) = ([world.rank() as u8; VALUE_BYTES], KEYS * u64::from(world.rank()));
        let finds = name.starts_with("find");
        if finds && (whose != "all" || world.rank() == 0) {
            let pairs: Vec<_> = (0..KEYS).map(|index| (key(index), value)).collect();
            map.insert_many(&pairs).map_err(text)?;
        }
        world.sync().map_err(text)?;
        let mut next = 0;
        let measured = together(world, &mut self.sampler, request, |count| match name {
            "find" => timed(|| finds_of(&map, &mut next, count)),
            "find_many" => timed(|| finds_many_of(&map, &mut next, count)),
            "insert" => inserts_of(&map, &value, first, &mut next, count),
            _ => inserts_many_of(&map, &value, first, &mut next, count),
        });
        world.sync().map_err(text)?;
        if whose != "all" || world.rank() == 0 {
            map.destroy().map_err(text)?;
        }
        measured
    }

    /// Bytes of an entry of a map beside its key and its value; without its slot, which a table has also when it is empty.
    fn entry_bytes(&mut self) -> Measured {
        let world = self.world;
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let used = || world.heap_use(0).map(|heap| heap.used_bytes).map_err(text);
        let map = Map::create(world, Spread::over(&[0]).slots(1024)).map_err(text)?;
        let before = used()?;
        let pairs: Vec<_> = (0..KEYS).map(|index| (key(index), [0u8; VALUE_BYTES])).collect();
        map.insert_many(&pairs).map_err(text)?;
        let after = used()?;
        map.destroy().map_err(text)?;
        Ok(vec![(after - before) as f64 / KEYS as f64 - (8 + VALUE_BYTES) as f64])
    }
}

/// One map for all ranks, made by rank 0. Every rank calls it.
fn shared_map(world: &World) -> Done<Map<'_>> {
    let all: Vec<u32> = (0..world.ranks()).collect();
    let place = world.starter::<[u64; 3]>(0).map_err(text)?.add(10);
    let made = if world.rank() == 0 {
        Some(Map::create(world, Spread::over(&all).slots(SLOTS as usize).directory(0)).map_err(text)?)
    } else {
        None
    };
    if let Some(map) = &made {
        world.put(place, map.raw().words()).map_err(text)?;
    }
    world.sync().map_err(text)?;
    match made {
        Some(map) => Ok(map),
        None => {
            let raw = kumiki::data::RawTable::from_words(world.get(place).map_err(text)?);
            Map::from_raw(world, raw).map_err(text)
        }
    }
}

fn finds_of(map: &Map<'_>, next: &mut u64, count: u64) -> Done<()> {
    let mut value = [0u8; VALUE_BYTES];
    for _ in 0..count {
        *next += 1;
        if map.get_into(&key(*next), &mut value).map_err(text)? != Some(VALUE_BYTES) {
            return Err(format!("key {next} is not there"));
        }
    }
    Ok(())
}

fn finds_many_of(map: &Map<'_>, next: &mut u64, count: u64) -> Done<()> {
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        let keys: Vec<_> = (0..batch).map(|index| key(*next + index)).collect();
        let values = map.get_many(&keys).map_err(text)?;
        if values.iter().any(|value| value.as_ref().is_none_or(|value| value.len() != VALUE_BYTES)) {
            return Err("a key of a batch is not there".into());
        }
        (left, *next) = (left - batch, *next + batch);
    }
    Ok(())
}

/// Keys that differ between the ranks; when all are in, the map is emptied of this rank's.
fn own_key(first: u64, index: u64) -> [u8; 8] {
    (first + index % KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// How long something takes.
fn timed(work: impl FnOnce() -> Done<()>) -> Done<Duration> {
    let began = Instant::now();
    work().map(|()| began.elapsed())
}

/// Empties the map of this rank's keys when all are in; that is not what is measured.
fn empty(map: &Map<'_>, first: u64, next: u64) -> Done<()> {
    if next > 0 && next.is_multiple_of(KEYS) {
        let keys: Vec<_> = (0..KEYS).map(|index| own_key(first, index)).collect();
        map.remove_many(&keys).map_err(text)?;
    }
    Ok(())
}

/// Inserts that many new keys, and says how long that took.
fn inserts_of(map: &Map<'_>, value: &[u8], first: u64, next: &mut u64, count: u64) -> Done<Duration> {
    let (mut time, mut left) = (Duration::ZERO, count);
    while left > 0 {
        empty(map, first, *next)?;
        let run = left.min(KEYS - *next % KEYS);
        time += timed(|| {
            (*next..*next + run).try_for_each(|index| {
                match map.insert(&own_key(first, index), value).map_err(text)? {
                    Insert::New => Ok(()),
                    _ => Err("a new key was there".into()),
                }
            })
        })?;
        (left, *next) = (left - run, *next + run);
    }
    Ok(time)
}

fn inserts_many_of(map: &Map<'_>, value: &[u8], first: u64, next: &mut u64, count: u64) -> Done<Duration> {
    let (mut time, mut left) = (Duration::ZERO, count);
    while left > 0 {
        empty(map, first, *next)?;
        let batch = left.min(BATCH).min(KEYS - *next % KEYS);
        time += timed(|| {
            let pairs: Vec<_> = (0..batch).map(|index| (own_key(first, *next + index), value)).collect();
            match map.insert_many(&pairs).map_err(text)?.iter().all(|insert| *insert == Insert::New) {
                true => Ok(()),
                false => Err("a new key of a batch was there".into()),
            }
        })?;
        (left, *next) = (left - batch, *next + batch);
    }
    Ok(time)
}

/// Samples of what all ranks do at once: rank 0 says how often, and takes the longest time.
pub(super) fn together(
    world: &World,
    sampler: &mut Sampler,
    request: &Request,
    mut work: impl FnMut(u64) -> Result<Duration, String>,
) -> Measured {
    let word = |rank: u32, index: u64| {
        Ok::<_, String>(world.starter::<u64>(rank).map_err(text)?.add(index as usize))
    };
    let others = 1..world.ranks();
    if world.rank() != 0 {
        let mut error = None;
        loop {
            world.sync().map_err(text)?;
            let count = world.get(word(world.rank(), COUNT_WORD)?).map_err(text)?;
            if count == 0 {
                return error.map_or(Ok(Vec::new()), Err);
            }
            let time = work(count).unwrap_or_else(|what| {
                error = Some(what);
                Duration::ZERO
            });
            world.put(word(world.rank(), TIME_WORD)?, time.as_nanos() as u64).map_err(text)?;
            world.sync().map_err(text)?;
        }
    }
    let tell = |count: u64| {
        others.clone().try_for_each(|rank| world.put(word(rank, COUNT_WORD)?, count).map_err(text))?;
        world.sync().map_err(text)
    };
    let seconds = sampler.sample(&request.metric, request.reps, |count| {
        tell(count)?;
        let mut time = work(count);
        world.sync().map_err(text)?;
        for rank in others.clone() {
            let other = Duration::from_nanos(world.get(word(rank, TIME_WORD)?).map_err(text)?);
            time = time.map(|time| time.max(other));
        }
        time
    });
    tell(0)?;
    Ok(seconds?.into_iter().map(|seconds| seconds * 1e9).collect())
}
