//! Rank 1 is killed at a place of its life; the others say what they saw of it.

use super::{argument, rank, report, say, sleep_forever, wait_for_word};
use kumiki::{Result, World};
use std::time::Duration;

/// Who is killed.
const VICTIM: u32 = 1;

pub(crate) fn play() -> Result<()> {
    let place = argument("FAULTS_PLACE");
    match place.as_str() {
        "before" if rank() == VICTIM => {
            say("there");
            sleep_forever()
        }
        "between" if rank() == VICTIM => say("there"),
        // Without rank 0 nobody gets past init.
        "between" if rank() == 0 => wait_for_word(),
        _ => {}
    }
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            report("init", &Err(error));
            return Ok(());
        }
    };
    let seen = match place.as_str() {
        "compute" => compute(&world),
        "barrier" => barrier(&world),
        "put" => puts(&world),
        "wait" => waits(&world),
        "awaited" => awaited(&world),
        "finalize" => return finalize(world),
        other => panic!("nobody is killed in {other}"),
    };
    report(&place, &seen);
    // A survivor leaves in good order, and must not count as lost itself. There is nobody to meet, so it says why.
    report("finalize", &world.finalize());
    Ok(())
}

fn compute(world: &World) -> Result<()> {
    world.sync()?;
    if world.rank() == VICTIM {
        say("there");
        loop {
            std::hint::black_box(std::time::Instant::now());
        }
    }
    meet_until_lost(world)
}

/// The victim dies among those who wait in a barrier that rank 0 has not come to.
fn barrier(world: &World) -> Result<()> {
    world.sync()?;
    if world.rank() == VICTIM {
        say("there");
    }
    if world.rank() == 0 {
        wait_for_word();
    }
    meet_until_lost(world)
}

/// A barrier that everybody has entered may still open after a death; the next one cannot.
fn meet_until_lost(world: &World) -> Result<()> {
    (0..100).try_for_each(|_| world.sync())
}

/// The victim dies while it writes to everybody and everybody writes to it.
fn puts(world: &World) -> Result<()> {
    world.sync()?;
    if world.rank() == VICTIM {
        say("there");
    }
    let mine = world.rank() as u64;
    // Survivors leave one by one, so they only write to the victim; the victim writes to everybody.
    let peers = if world.rank() == VICTIM { 0..world.ranks() } else { VICTIM..VICTIM + 1 };
    loop {
        for peer in peers.clone() {
            world.put(world.starter::<u64>(peer)?.add(mine as usize), mine)?;
        }
    }
}

/// The victim dies while it waits for an answer of rank 0, which is stopped by the test.
fn waits(world: &World) -> Result<()> {
    let region = world.register(vec![7u64; 64])?;
    let place = world.starter::<u64>(VICTIM)?;
    if world.rank() == 0 {
        world.put(place, region.address().bits())?;
    }
    world.sync()?;
    if world.rank() == VICTIM {
        say("there");
        // Private memory needs its owner, because `process_vm` is off in this test.
        let address = kumiki::GlobalAddress::from_bits(world.get(place)?);
        let scratch = world.alloc::<u64>(64)?;
        loop {
            std::thread::sleep(Duration::from_millis(1));
            let handle = world.copy(scratch.address(), address, 512, kumiki::Order::None)?;
            world.complete(handle)?;
        }
    }
    meet_until_lost(world)
}

/// The others wait for an answer of the victim, which is stopped and then killed by the test.
fn awaited(world: &World) -> Result<()> {
    let region = world.register(vec![7u64; 64])?;
    if world.rank() == VICTIM {
        for peer in 0..world.ranks() {
            world.put(world.starter::<u64>(peer)?, region.address().bits())?;
        }
    }
    world.sync()?;
    if world.rank() == VICTIM {
        say("there");
        sleep_forever();
    }
    let address = kumiki::GlobalAddress::from_bits(world.get(world.starter::<u64>(world.rank())?)?);
    let scratch = world.alloc::<u64>(64)?;
    loop {
        std::thread::sleep(Duration::from_millis(1));
        let handle = world.copy(scratch.address(), address, 512, kumiki::Order::None)?;
        world.complete(handle)?;
    }
}

/// The victim dies in finalize, where rank 0 has not come.
fn finalize(world: World) -> Result<()> {
    let met = world.sync();
    if met.is_err() {
        // The victim was already out of the barrier, and dead.
        report("finalize", &met);
        return world.finalize().or(Ok(()));
    }
    if world.rank() == VICTIM {
        say("there");
    }
    if world.rank() == 0 {
        wait_for_word();
    }
    let seen = world.finalize();
    report("finalize", &seen);
    Ok(())
}
