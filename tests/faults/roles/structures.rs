//! Ranks that change one structure all the time, until one of them is killed; then the others look at what is left.
//!
//! Nothing of the structures lies in the memory of the one who is killed, unless it says so: whatever survivors do with
//! them must go on to work.

use super::{all_are_here, argument, is_here, say};
use kumiki::data::{
    Chunks, Counter, Deque, List, Map, Multiset, On, RawTable, Set, Spread, Vector, Workspace,
};
use kumiki::raw;
use kumiki::{Error, GlobalAddress, GlobalPtr, Result, World};
use std::collections::BTreeMap;

/// Words of the starter memory of rank 0: addresses of what is used together, and who has come so far.
const SHARED_WORD: u64 = 0;
const MEETING_WORD: u64 = 16;
const BEGUN_WORD: u64 = 8;
/// Keys of each rank.
const KEYS: u64 = 32;

/// Plays the storm that the test names.
pub(crate) fn play() -> Result<()> {
    let world = World::init()?;
    let storm = Storm::new(&world);
    match argument("FAULTS_WHAT").as_str() {
        "vector" => vectors(storm)?,
        "deque" => deques(storm)?,
        "list" => lists(storm)?,
        "set" => sets(storm)?,
        "multiset" => multisets(storm)?,
        "swap" => swaps(storm)?,
        "malloc" => blocks(storm)?,
        "workspace" => workspaces(storm)?,
        "counter" => counters(storm)?,
        other => panic!("there is no storm {other}"),
    }
    say("looked");
    // Only who is lost is missing.
    let _ = world.finalize();
    Ok(())
}

/// What a storm needs: the world, who is killed in it, and numbers that nobody foresees.
struct Storm<'w> {
    world: &'w World,
    victim: u32,
    seed: u64,
}

impl<'w> Storm<'w> {
    fn new(world: &'w World) -> Storm<'w> {
        let number = |name: &str| argument(name).parse::<u64>().unwrap_or(1);
        let seed = number("FAULTS_NUMBER") * 7919 + u64::from(world.rank());
        Storm { world, victim: number("FAULTS_VICTIM") as u32, seed }
    }

    fn is_victim(&self) -> bool {
        self.world.rank() == self.victim
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    /// The ranks that stay.
    fn others(&self) -> Vec<u32> {
        (0..self.world.ranks()).filter(|&rank| rank != self.victim).collect()
    }

    /// A rank that stays.
    fn other(&mut self) -> u32 {
        let others = self.others();
        others[self.random(others.len() as u64) as usize]
    }

    /// What rank 0 makes and tells all.
    fn share<const N: usize>(&self, make: impl FnOnce() -> Result<[u64; N]>) -> Result<[u64; N]> {
        let place = self.world.starter::<u64>(0)?.add(SHARED_WORD as usize);
        if self.world.rank() == 0 {
            self.world.put_slice(place, &make()?)?;
        }
        self.world.sync()?;
        let mut words = [0; N];
        self.world.get_slice(place, &mut words)?;
        Ok(words)
    }

    /// Repeats a step until the victim is dead. What it fails with is wrong, unless `allowed` says otherwise.
    fn rage(
        &mut self,
        allowed: impl Fn(&Error) -> bool,
        mut step: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        is_here(self.world, BEGUN_WORD)?;
        if self.is_victim() {
            all_are_here(self.world, BEGUN_WORD)?;
            say("storming");
        }
        while raw::memory(self.world).local().check_alive(self.victim).is_ok() {
            match step(self) {
                Err(error) if !allowed(&error) => wrong(&format!("in the storm: {error}")),
                _ => {}
            }
        }
        self.meet(0)
    }

    /// Waits for the other survivors.
    fn meet(&self, number: u64) -> Result<()> {
        let word = self.world.starter::<u64>(0)?.add((MEETING_WORD + 2 * number) as usize);
        let all = self.world.ranks() as u64 - 1;
        self.world.fetch_add(word, 1)?;
        while self.world.get(word)? < all {
            std::thread::yield_now();
        }
        // Rank 0 has the words, so it stays until all have seen them; it may be gone before the answer is here.
        let _ = self.world.fetch_add(word.add(1), 1);
        while self.world.rank() == 0 && self.world.get(word.add(1))? < all {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// At most so many blocks are left on this rank, and the heap gives and takes all the same.
    fn expect_blocks(&self, most: u64) -> Result<()> {
        let rank = self.world.rank();
        let left = self.world.heap_use(rank)?.blocks;
        if left > most {
            wrong(&format!("{left} blocks are left, and at most {most} may be"));
        }
        let places: Vec<GlobalAddress> =
            [40, 1 << 20, 3000].iter().map(|&bytes| self.world.malloc(bytes, rank)).collect::<Result<_>>()?;
        places.into_iter().try_for_each(|place| self.world.free(place))?;
        if self.world.heap_use(rank)?.blocks != left {
            wrong("the heap counts its blocks wrongly");
        }
        Ok(())
    }
}

fn wrong(what: &str) {
    say(&format!("wrong: {what}"));
}

/// A value that tells whether it is whole.
fn value(number: u64) -> u64 {
    number << 32 | (number.wrapping_mul(2_654_435_761) & 0xffff_ffff)
}

fn is_whole(found: u64) -> bool {
    found == value(found >> 32)
}

/// A sequence or list that another rank changes is no longer, or not yet, what its header says.
fn in_the_middle(error: &Error) -> bool {
    matches!(error, Error::Refused(_) | Error::Misuse(_) | Error::Bounds { .. } | Error::OutOfMemory { .. })
}

/// One rank changes two sequences, the others read them.
macro_rules! sequences {
    ($name:ident, $kind:ident, $add:expr) => {
        fn $name(mut storm: Storm<'_>) -> Result<()> {
            let world = storm.world;
            let make = || $kind::<u64>::create(world, On::rank(0)).map(|made| made.address().bits());
            let shared = storm.share(|| Ok([make()?, make()?]))?;
            let open = |bits: u64| $kind::<u64>::from_address(world, GlobalAddress::from_bits(bits));
            let (mut one, mut two) = (open(shared[0]), open(shared[1]));
            let mut next = 0;
            let add: fn(&mut $kind<'_, u64>, u64, u64) -> Result<()> = $add;
            let is_victim = storm.is_victim();
            storm.rage(
                |error| !is_victim && in_the_middle(error),
                |storm| {
                    if !is_victim {
                        return one.to_vec().and(two.to_vec()).map(drop);
                    }
                    next += 1;
                    let length = one.len()?;
                    let (at, some) = (storm.random(length as u64 + 1) as usize, [value(next); 5]);
                    match storm.random(8) {
                        0 => one.insert(at, &some),
                        1 => one.erase(at..(at + 3).min(length)),
                        2 => one.pop().map(drop),
                        3 => one.swap(&mut two),
                        4 if length > 300 => one.clear(),
                        5 if length > 100 => two.assign(&some),
                        6 => two.insert(0, &some),
                        other => add(&mut one, other, value(next)),
                    }
                },
            )?;
            if world.rank() != 0 {
                return Ok(());
            }
            for mut sequence in [one, two] {
                match sequence.to_vec() {
                    Ok(numbers) if numbers.iter().all(|&number| is_whole(number)) => {}
                    Ok(numbers) => wrong(&format!("torn: {numbers:x?}")),
                    Err(Error::Refused(_)) => {}
                    Err(error) => wrong(&format!("afterwards: {error}")),
                }
                sequence.clear()?;
                (0..100).try_for_each(|number| add(&mut sequence, number % 2 * 7, value(number)))?;
                if sequence.len()? != 100 || !sequence.to_vec()?.into_iter().all(is_whole) {
                    wrong("what was added afterwards is not there");
                }
                sequence.destroy()?;
            }
            storm.expect_blocks(1)
        }
    };
}

sequences!(vectors, Vector, |vector, _, number| vector.push(number));
sequences!(deques, Deque, |deque, which, number| match which {
    7 => deque.push_front(number),
    _ => deque.push(number),
});

/// One rank changes two lists, the others read them.
fn lists(mut storm: Storm<'_>) -> Result<()> {
    let world = storm.world;
    let make = || List::create(world, 0).map(|made| made.address().bits());
    let shared = storm.share(|| Ok([make()?, make()?]))?;
    let [mut one, mut two] = shared.map(|bits| List::from_address(world, GlobalAddress::from_bits(bits)));
    let mut next = 0;
    let is_victim = storm.is_victim();
    storm.rage(
        |error| !is_victim && in_the_middle(error),
        |storm| {
            if !is_victim {
                return one.to_vec().and(two.to_vec()).map(drop);
            }
            next += 1;
            let (rank, bytes) = (storm.other(), value(next).to_le_bytes());
            let at = one.advance(one.begin()?, storm.random(8) as isize)?;
            match storm.random(10) {
                0 => one.push_front(&bytes, rank).map(drop),
                1 => one.insert(at, &bytes, rank).map(drop),
                2 if at != one.end() => one.erase(at).map(drop),
                3 => one.reverse(),
                4 => one.sort_by(|one, two| one.cmp(two)),
                5 => one.insert_many(at, &[(&bytes, rank), (&bytes, 0)]).map(drop),
                6 => {
                    let (begin, end, last) = (two.begin()?, two.end(), one.end());
                    two.splice_range(begin, &mut one, at, last)?;
                    two.erase_range(begin, end).map(drop)
                }
                7 => one.swap(&mut two),
                8 if one.len()? > 100 => one.clear(),
                _ => one.push_back(&bytes, rank).map(drop),
            }
        },
    )?;
    if world.rank() != 0 {
        storm.meet(1)?;
        // What was being moved, or made to be linked, stays; there are never so many.
        return storm.expect_blocks(400);
    }
    for mut list in [one, two] {
        match list.to_vec() {
            Ok(all) => {
                let whole = |bytes: &Vec<u8>| {
                    bytes.as_slice().try_into().is_ok_and(|b| is_whole(u64::from_le_bytes(b)))
                };
                if !all.iter().all(whole) || all.len().abs_diff(list.len()?) > 1 {
                    wrong(&format!("{} elements, and the count is {}: {all:x?}", all.len(), list.len()?));
                }
            }
            Err(Error::Refused(_)) => {}
            Err(error) => wrong(&format!("afterwards: {error}")),
        }
        list.clear()?;
        (0..10u64).try_for_each(|number| list.push_back(&number.to_le_bytes(), 0).map(drop))?;
        let backwards = list.advance(list.end(), -10)?;
        if list.to_vec()?.len() != 10 || backwards != list.begin()? {
            wrong("what was added afterwards is not there");
        }
        list.destroy()?;
    }
    storm.meet(1)?;
    storm.expect_blocks(400)
}

/// A key of a rank, and the rank of a key.
fn key(rank: u32, number: u64) -> [u8; 8] {
    (u64::from(rank) << 32 | number).to_le_bytes()
}

/// All ranks change a set, each its own keys, of which it knows at every moment which are there.
fn sets(mut storm: Storm<'_>) -> Result<()> {
    let world = storm.world;
    let others = storm.others();
    let raw =
        storm.share(|| Ok(Set::create(world, Spread::over(&others).slots(2).directory(0))?.raw().words()))?;
    let set = Set::from_raw(world, RawTable::from_words(raw))?;
    let mut model = [false; KEYS as usize];
    let rank = world.rank();
    storm.rage(
        |_| false,
        |storm| {
            let number = storm.random(KEYS);
            let (name, there) = (key(rank, number), model[number as usize]);
            let as_known = match storm.random(3) {
                0 => {
                    model[number as usize] = true;
                    set.insert(&name)? != there
                }
                1 => {
                    model[number as usize] = false;
                    set.remove(&name)? == there
                }
                _ => set.contains(&name)? == there,
            };
            if !as_known {
                wrong(&format!("key {number} of rank {rank}"));
            }
            Ok(())
        },
    )?;
    for (number, there) in (0..).zip(model) {
        if set.contains(&key(rank, number))? != there {
            wrong(&format!("afterwards: key {number} of rank {rank}"));
        }
    }
    storm.meet(1)?;
    let elements = set.iter_local()?.collect::<Result<Vec<_>>>()?.len() as u64;
    if elements != set.len_local()? as u64 {
        wrong(&format!("{elements} elements, and the counts say {}", set.len_local()?));
    }
    set.clear_local()?;
    storm.meet(2)?;
    // The row of slots, the directory, and what the dead rank was busy with.
    storm.expect_blocks(if rank == 0 { 3 } else { 2 })
}

/// The same with a multiset, and counts.
fn multisets(mut storm: Storm<'_>) -> Result<()> {
    let world = storm.world;
    let others = storm.others();
    let raw = storm
        .share(|| Ok(Multiset::create(world, Spread::over(&others).slots(2).directory(0))?.raw().words()))?;
    let set = Multiset::from_raw(world, RawTable::from_words(raw))?;
    let mut model = [0u64; KEYS as usize];
    let rank = world.rank();
    storm.rage(
        |_| false,
        |storm| {
            let number = storm.random(KEYS);
            let (name, count) = (key(rank, number), &mut model[number as usize]);
            let before = *count;
            let as_known = match storm.random(5) {
                0 | 1 => {
                    *count += 1;
                    set.insert(&name)? == *count
                }
                2 => {
                    *count = before.saturating_sub(1);
                    set.remove(&name)? == before
                }
                3 => {
                    *count = 0;
                    set.remove_all(&name)? == before
                }
                _ => set.count(&name)? == before,
            };
            if !as_known {
                wrong(&format!("key {number} of rank {rank}, which was there {before} times"));
            }
            Ok(())
        },
    )?;
    for (number, count) in (0..).zip(model) {
        if set.count(&key(rank, number))? != count {
            wrong(&format!("afterwards: key {number} of rank {rank}"));
        }
    }
    storm.meet(1)?;
    let elements = set.iter_local()?.collect::<Result<Vec<_>>>()?;
    if elements.len() != set.len_local()? || elements.iter().any(|(_, count)| *count == 0) {
        wrong(&format!("{elements:?}, and the counts say {}", set.len_local()?));
    }
    set.clear_local()?;
    storm.meet(2)?;
    storm.expect_blocks(if rank == 0 { 3 } else { 2 })
}

/// One rank exchanges two maps all the time: nothing is lost.
fn swaps(mut storm: Storm<'_>) -> Result<()> {
    let world = storm.world;
    let others = storm.others();
    let raw: [u64; 6] = storm.share(|| {
        let (one, two) = (
            Map::create(world, Spread::over(&others).slots(4).directory(0))?,
            Map::create(world, Spread::over(&others).slots(4).directory(0))?,
        );
        for number in 0..KEYS {
            let map = if number % 3 == 0 { &one } else { &two };
            map.insert(&key(0, number), &value(number).to_le_bytes())?;
        }
        let (one, two) = (one.raw().words(), two.raw().words());
        Ok([one[0], one[1], one[2], two[0], two[1], two[2]])
    })?;
    let open = |words: [u64; 3]| Map::from_raw(world, RawTable::from_words(words));
    let (one, two) = (open([raw[0], raw[1], raw[2]])?, open([raw[3], raw[4], raw[5]])?);
    let is_victim = storm.is_victim();
    storm.rage(
        |_| false,
        |storm| match is_victim {
            true => one.swap(&two),
            false => one.get(&key(0, storm.random(KEYS))).map(drop),
        },
    )?;
    if world.rank() == 0 {
        let mut seen = BTreeMap::new();
        for map in [&one, &two] {
            for pair in map.iter()? {
                let (name, found) = pair?;
                *seen.entry((name, found)).or_insert(0) += 1;
            }
        }
        let all =
            (0..KEYS).map(|number| ((key(0, number).to_vec(), value(number).to_le_bytes().to_vec()), 1));
        if seen != all.collect() || one.len()? + two.len()? != KEYS as usize {
            wrong(&format!("of {KEYS} keys {} and {} are left: {seen:x?}", one.len()?, two.len()?));
        }
        one.destroy()?;
        two.destroy()?;
    }
    storm.meet(1)?;
    storm.expect_blocks(0)
}

/// All ranks allocate and free everywhere: nobody gets what another one has.
fn blocks(mut storm: Storm<'_>) -> Result<()> {
    const HELD: usize = 8;
    let world = storm.world;
    let mut held: Vec<(GlobalAddress, Vec<u8>)> = Vec::new();
    world.sync()?;
    let give_back = |(place, data): (GlobalAddress, Vec<u8>)| -> Result<()> {
        let mut seen = vec![0; data.len()];
        world.get_slice(GlobalPtr::from_address(place), &mut seen)?;
        if seen != data {
            wrong("somebody else has written into a block");
        }
        world.free(place)
    };
    storm.rage(
        |_| false,
        |storm| {
            if held.len() == HELD || storm.random(2) == 0 && !held.is_empty() {
                let index = storm.random(held.len() as u64) as usize;
                return give_back(held.swap_remove(index));
            }
            let most = [64, 300, 5000][storm.random(3) as usize];
            let data = vec![world.rank() as u8 + 1; 1 + storm.random(most) as usize];
            let rank = storm.other();
            let place = world.malloc(data.len(), rank)?;
            world.put_slice(GlobalPtr::from_address(place), &data)?;
            held.push((place, data));
            Ok(())
        },
    )?;
    held.into_iter().try_for_each(give_back)?;
    storm.meet(1)?;
    // What the dead rank had, and what it was about to get.
    storm.expect_blocks(HELD as u64 + 1)
}

/// All ranks write into a workspace, which lies on the victim too: what lies elsewhere stays.
fn workspaces(mut storm: Storm<'_>) -> Result<()> {
    const BYTES: u64 = 16 << 10;
    let world = storm.world;
    let space = Workspace::shared_with(world, BYTES as usize, Chunks::of(512))?;
    let pattern =
        |from: u64, bytes: u64| -> Vec<u8> { (from..from + bytes).map(|at| at as u8 | 1).collect() };
    let check = |from: u64, bytes: u64| -> Result<()> {
        let mut seen = vec![0; bytes as usize];
        space.read(from as usize, &mut seen)?;
        let fits = seen.iter().zip(pattern(from, bytes)).all(|(&seen, wanted)| seen == 0 || seen == wanted);
        if !fits {
            wrong(&format!("bytes {from} to {}", from + bytes));
        }
        Ok(())
    };
    storm.rage(
        |error| matches!(error, Error::PeerLost { .. }),
        |storm| {
            let (from, bytes) = (storm.random(BYTES - 2000), 1 + storm.random(2000));
            match storm.random(2) {
                0 => space.write(from as usize, &pattern(from, bytes)),
                _ => check(from, bytes),
            }
        },
    )?;
    for (number, chunk) in (0u64..).zip(space.chunks()) {
        match check(number * 512, 512) {
            Ok(()) if chunk.rank != storm.victim => {}
            Err(Error::PeerLost { .. }) if chunk.rank == storm.victim => {}
            other => wrong(&format!("chunk {number} on rank {}: {other:?}", chunk.rank)),
        }
    }
    storm.meet(1)
}

/// All ranks take numbers from a counter: nobody gets one that another has.
fn counters(mut storm: Storm<'_>) -> Result<()> {
    let world = storm.world;
    let shared: [u64; 4] = storm.share(|| {
        let taken = Multiset::create(world, Spread::over(&[0]).slots(1 << 14))?.raw().words();
        Ok([Counter::create(world, 0)?.address().bits(), taken[0], taken[1], taken[2]])
    })?;
    let counter = Counter::from_address(world, GlobalAddress::from_bits(shared[0]));
    let taken = Multiset::from_raw(world, RawTable::from_words([shared[1], shared[2], shared[3]]))?;
    storm.rage(
        |_| false,
        |_| {
            let number = counter.next()?;
            if taken.insert(&number.to_le_bytes())? != 1 {
                wrong(&format!("{number} was given twice"));
            }
            Ok(())
        },
    )?;
    if world.rank() == 0 {
        let (value, known) = (counter.value()?, taken.len()?);
        if !(known..=known + 1).contains(&(value as usize)) {
            wrong(&format!("the counter is at {value}, and {known} numbers were taken"));
        }
        taken.destroy()?;
        counter.destroy()?;
        storm.expect_blocks(1)?;
    }
    Ok(())
}
