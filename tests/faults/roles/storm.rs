//! Ranks that are killed in the middle of something that matters: a large put, a storm of atomics.

use super::{all_are_here, is_here, kind, rank, report, say, wait_for_word};
use kumiki::raw;
use kumiki::{AtomicOp, Error, Fate, GlobalAddress, GlobalPtr, Handle, Order, Region, Result, Wait, World};
use kumiki_net::agent::bootstrap;
use kumiki_net::Rank;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// The word of rank 0's starter memory in which the ranks are counted that have begun.
const BEGUN_WORD: u64 = 16;
/// Bytes of the large put.
const PUT_BYTES: usize = 256 << 20;
/// Bytes on either side of it that nobody may touch.
const CANARY_BYTES: usize = 64 << 10;
const CANARY: u8 = 0xc5;
const WRITTEN: u8 = 0x11;
const CHUNK_BYTES: usize = 1 << 20;

/// Rank 0 writes 256 MiB into the target again and again, until somebody is lost.
pub(crate) fn big_put() -> Result<()> {
    let world = World::init()?;
    let target = if world.nodes() == 1 { 1 } else { 2 };
    let bytes = if rank() == target { PUT_BYTES } else { CHUNK_BYTES };
    let region = world.alloc::<u8>(bytes + 2 * CANARY_BYTES)?;
    region.write(0, &[CANARY; CANARY_BYTES])?;
    region.write(CANARY_BYTES + bytes, &[CANARY; CANARY_BYTES])?;
    if rank() == target {
        world.put(world.starter::<u64>(0)?, region.address().bits())?;
    }
    world.sync()?;
    is_here(&world, BEGUN_WORD)?;
    if rank() == 0 {
        let seen = put_until_lost(&world);
        say(&format!("came to {}", seen.err().map_or("ok".into(), |error| kind(&error))));
    } else {
        let lost = (0..).try_for_each(|_: u32| world.sync());
        assert!(matches!(lost, Err(Error::PeerLost { .. })), "{lost:?}");
        // Whatever was put before its initiator died is either there or not; what was not put must be as it was.
        if rank() == target || rank() == target + 1 {
            look(&region, bytes)?;
        }
    }
    // Only who is lost is missing; the victim's test does not ask how we leave.
    let _ = world.finalize();
    Ok(())
}

/// Bytes of a copy that its rank shares with the one that waits.
const HAUL_BYTES: usize = 4 << 20;

/// Rank 0 copies into and out of private memory of rank 1, which waits for a word and so takes a share of that: so many times, or until one of
/// both is lost.
pub(crate) fn haul() -> Result<()> {
    let world = World::init()?;
    let memory = world.register(vec![1u64; HAUL_BYTES / 8])?;
    if rank() == 1 {
        world.put(world.starter::<u64>(0)?, memory.address().bits())?;
    }
    world.sync()?;
    let over = world.starter::<u64>(1)?.add(1);
    if rank() == 1 {
        say("ready");
        let (memory, said) = (raw::memory(&world), AtomicBool::new(false));
        let until = |value: u64| {
            if memory.shares_done() > 0 && !said.swap(true, Ordering::Relaxed) {
                say("helped");
            }
            value == 1
        };
        report("waits", &world.wait_until(over, until, Wait::FOREVER.from(0)).map(drop));
    } else {
        let theirs = GlobalAddress::from_bits(world.get(world.starter::<u64>(0)?)?);
        let enough = Arc::new(AtomicBool::new(false));
        let told = enough.clone();
        std::thread::spawn(move || {
            wait_for_word();
            told.store(true, Ordering::Relaxed);
        });
        let copied = haul_until(&world, GlobalPtr::from_address(theirs), &enough);
        report("copies", &copied.and_then(|()| world.put(over, 1)));
    }
    let _ = world.finalize();
    Ok(())
}

fn haul_until(world: &World, theirs: GlobalPtr<u64>, enough: &AtomicBool) -> Result<()> {
    let mut came = vec![0u64; HAUL_BYTES / 8];
    for round in (0..).take_while(|_| !enough.load(Ordering::Relaxed)) {
        let sent: Vec<u64> = (0..came.len() as u64).map(|at| at ^ round).collect();
        raw::memory(world).put_awaited(theirs, &sent)?;
        raw::memory(world).get_awaited(theirs, &mut came)?;
        if came != sent {
            say("wrong");
        }
    }
    Ok(())
}

fn put_until_lost(world: &World) -> Result<()> {
    let to = GlobalAddress::from_bits(world.get(world.starter::<u64>(0)?)?).add(CANARY_BYTES as u64);
    let source = world.alloc::<u8>(PUT_BYTES)?;
    let chunk = vec![WRITTEN; CHUNK_BYTES];
    (0..PUT_BYTES / CHUNK_BYTES).try_for_each(|index| source.write(index * CHUNK_BYTES, &chunk))?;
    all_are_here(world, BEGUN_WORD)?;
    say("putting");
    loop {
        let handle = world.copy(to, source.address(), PUT_BYTES, Order::None)?;
        world.complete(handle)?;
    }
}

/// Looks for bytes that nobody wrote.
fn look(region: &Region<u8>, bytes: usize) -> Result<()> {
    let mut canary = vec![0; CANARY_BYTES];
    for first in [0, CANARY_BYTES + bytes] {
        region.read(first, &mut canary)?;
        if canary.iter().any(|&byte| byte != CANARY) {
            say(&format!("torn canary at {first}"));
        }
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    for index in 0..bytes / CHUNK_BYTES {
        region.read(CANARY_BYTES + index * CHUNK_BYTES, &mut chunk)?;
        if chunk.iter().any(|&byte| byte != 0 && byte != WRITTEN) {
            say(&format!("torn chunk {index}"));
        }
    }
    say("intact");
    Ok(())
}

/// How many increments a rank knows to be done, and how many nobody can tell.
#[derive(Default)]
struct Tally {
    acknowledged: AtomicU64,
    unknown: AtomicU64,
}

impl Tally {
    /// Counts a result; gives the error back if it is the end.
    fn count(&self, result: Result<()>) -> Result<()> {
        match &result {
            Ok(()) => drop(self.acknowledged.fetch_add(1, Ordering::Relaxed)),
            Err(Error::PeerLost { fate: Fate::Unknown, .. }) => {
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::PeerLost { fate: Fate::NotDone, .. }) => {}
            Err(other) => panic!("an increment came to {other}"),
        }
        result
    }
}

/// Ranks 0 and 1 add to a counter of rank 2, which is killed; rank 3, its neighbour, still sees its memory.
pub(crate) fn atomics() -> Result<()> {
    let attachment = bootstrap::attach(None, bootstrap::STARTER_BYTES)?;
    let arena = attachment.arena.clone();
    let world = World::attach(attachment)?;
    let counter = world.starter::<u64>(2)?;
    world.sync()?;
    is_here(&world, BEGUN_WORD)?;
    match world.rank() {
        0 | 1 => {
            let tally = Tally::default();
            if world.rank() == 0 {
                all_are_here(&world, BEGUN_WORD)?;
                tally.count(world.fetch_add(counter, 1).map(drop))?;
                say("storming");
            }
            std::thread::scope(|scope| {
                scope.spawn(|| one_by_one(&world, counter, &tally));
                scope.spawn(|| one_by_one(&world, counter, &tally));
                scope.spawn(|| in_flights(&world, counter, &tally));
            });
            say(&format!("acknowledged {}", tally.acknowledged.load(Ordering::Relaxed)));
            say(&format!("unknown {}", tally.unknown.load(Ordering::Relaxed)));
        }
        3 => {
            let lost = (0..).try_for_each(|_: u32| world.sync());
            assert!(matches!(lost, Err(Error::PeerLost { rank: 2, .. })), "{lost:?}");
            let place = arena.place(Rank(2)).unwrap().load();
            let starter = arena.pointer(arena.starter(place.local).start);
            // SAFETY: starter memory is committed and aligned; the arena outlives this line.
            let found = unsafe { (*starter.cast::<AtomicU64>()).load(Ordering::SeqCst) };
            say(&format!("found {found}"));
        }
        _ => drop(world.sync()),
    }
    let _ = world.finalize();
    Ok(())
}

fn one_by_one(world: &World, counter: GlobalPtr<u64>, tally: &Tally) {
    while tally.count(world.fetch_add(counter, 1).map(drop)).is_ok() {}
}

/// Thirty-two at a time, by handle.
fn in_flights(world: &World, counter: GlobalPtr<u64>, tally: &Tally) {
    let scratch = world.alloc::<u64>(1).unwrap();
    let issue = |_| world.atomic(scratch.address(), counter.address(), AtomicOp::Add(1u64), Order::None);
    loop {
        let issued: Vec<Result<Handle>> = (0..32).map(issue).collect();
        let complete = |handle: Result<Handle>| handle.and_then(|handle| world.complete_one(handle));
        let results: Vec<Result<()>> =
            issued.into_iter().map(|handle| tally.count(complete(handle))).collect();
        if results.iter().any(Result::is_err) {
            return;
        }
    }
}
