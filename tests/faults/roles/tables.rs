//! Ranks that change a map all the time, until one of them is killed; then the others look at what is left.

use super::{all_are_here, argument, is_here, kind, say};
use kumiki::data::{Map, RawTable, Spread};
use kumiki::{Error, Result, World};

/// Who is killed.
const VICTIM: u32 = 1;
/// The word of rank 0's starter memory in which the ranks are counted that have begun.
const BEGUN_WORD: u64 = 16;
/// Operations of each survivor after it knows.
const AFTERWARDS: u32 = 3000;

/// The value that belongs to a key: so long, and different everywhere.
fn value(key: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (key.wrapping_mul(31).wrapping_add(at * 7)) as u8).collect()
}

/// One operation with a random key; values are checked.
fn step(map: &Map<'_>, seed: &mut u64) -> Result<()> {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let random = *seed >> 33;
    let (key, bytes) = (random % 64, 1 + (random >> 6) as usize % 100);
    let name = key.to_le_bytes();
    match random >> 20 & 3 {
        0 => map.insert(&name, &value(key, bytes)).map(drop),
        1 => map.put(&name, &value(key, bytes)),
        2 => map.remove(&name).map(drop),
        _ => {
            let found = map.get(&name)?;
            if let Some(found) = found.filter(|found| *found != value(key, found.len())) {
                say(&format!("torn value of {key}: {found:?}"));
            }
            Ok(())
        }
    }
}

/// The storm, and what is left of the map.
pub(crate) fn play() -> Result<()> {
    let world = World::init()?;
    let place = world.starter::<[u64; 3]>(0)?;
    if world.rank() == 0 {
        let ranks: Vec<u32> = (0..world.ranks()).collect();
        world.put(place, Map::create(&world, Spread::over(&ranks).slots(2).directory(0))?.raw().words())?;
    }
    world.sync()?;
    let map = Map::from_raw(&world, RawTable::from_words(world.get(place)?))?;
    let mut seed = argument("FAULTS_NUMBER").parse::<u64>().unwrap_or(1) * 77 + world.rank() as u64;
    is_here(&world, BEGUN_WORD)?;
    if world.rank() == VICTIM {
        all_are_here(&world, BEGUN_WORD)?;
        say("storming");
    }
    let lost = loop {
        if let Err(error) = step(&map, &mut seed) {
            break error;
        }
    };
    say(&format!("came to {}", kind(&lost)));
    for _ in 0..AFTERWARDS {
        match step(&map, &mut seed) {
            Ok(()) | Err(Error::PeerLost { .. }) => {}
            Err(error) => say(&format!("wrong: {error}")),
        }
    }
    look(&world, &map)?;
    // Only who is lost is missing.
    let _ = world.finalize();
    Ok(())
}

/// Waits for the other survivors, then goes through the part of this rank.
fn look(world: &World, map: &Map<'_>) -> Result<()> {
    let counts = world.starter::<u64>(0)?.add(8);
    world.fetch_add(counts, 1)?;
    while world.get(counts)? < world.ranks() as u64 - 1 {
        std::thread::yield_now();
    }
    // Rank 0 has the counts, so it stays until all have seen them; it may be gone before the answer is here.
    let _ = world.fetch_add(counts.add(1), 1);
    while world.rank() == 0 && world.get(counts.add(1))? < world.ranks() as u64 - 1 {
        std::thread::yield_now();
    }
    let mut elements = 0;
    for pair in map.iter_local()? {
        let (key, found) = pair?;
        elements += 1;
        let number = u64::from_le_bytes(key.try_into().unwrap_or_default());
        if found != value(number, found.len()) {
            say(&format!("torn value of {number}: {found:?}"));
        }
    }
    if elements != map.len_local()? {
        say(&format!("wrong: {elements} elements, and the counts say {}", map.len_local()?));
    }
    map.clear_local()?;
    // What is left is the row of slots, the directory, and at most the block that the dead rank was busy with.
    let blocks = world.heap_use(world.rank())?.blocks;
    let wanted = if world.rank() == 0 { 2 } else { 1 };
    if !map.is_empty_local()? || !(wanted..=wanted + 1).contains(&blocks) {
        say(&format!("wrong: {blocks} blocks are left"));
    }
    say(&format!("walked {elements}"));
    Ok(())
}
