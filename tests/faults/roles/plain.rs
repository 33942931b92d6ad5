//! Ranks to which nothing happens, or something that they should survive.

use super::{argument, rank, report, say, sleep_forever, wait_for_word};
use kumiki::comm::Sum;
use kumiki::{Order, Result, World};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Joins and then does nothing, until somebody ends the job.
pub(crate) fn idle() -> Result<()> {
    let world = World::init()?;
    if argument("FAULTS_STUBBORN") == "yes" {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: ignoring a signal needs no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        // A process that outlives its parent, as daemons and shells leave them.
        let shell = std::process::Command::new("sh").args(["-c", "sleep 600 & "]).status();
        assert!(shell.is_ok_and(|status| status.success()));
    }
    world.sync()?;
    say("ready");
    sleep_forever()
}

/// Joins, meets everybody, leaves.
pub(crate) fn meet() -> Result<()> {
    let world = World::init().inspect_err(|error| {
        while argument("FAULTS_STAYS") == "yes" {
            say(&format!("goes on without the world: {error}"));
            std::thread::sleep(Duration::from_secs(600));
        }
    })?;
    world.sync()?;
    say(&format!("met {}", world.ranks()));
    world.finalize()
}

/// Ranks that read and write each other's memory until rank 0 is told to stop, and check what they read.
pub(crate) fn steady() -> Result<()> {
    let world = World::init()?;
    let (me, ranks) = (world.rank() as u64, world.ranks());
    let stop = world.starter::<u64>(0)?.add(100);
    let waiter = (me == 0).then(|| std::thread::spawn(wait_for_word));
    world.sync()?;
    say("ready");
    let mut rounds = 0u64;
    while world.get(stop)? == 0 {
        for peer in (0..ranks).filter(|&peer| peer as u64 != me) {
            let place = world.starter::<u64>(peer)?.add(me as usize);
            rounds += 1;
            world.put(place, rounds)?;
            assert_eq!(world.get(place)?, rounds, "a value that nobody wrote");
        }
        if waiter.as_ref().is_some_and(|waiter| waiter.is_finished()) {
            world.put(stop, 1)?;
        }
    }
    say(&format!("rounds {rounds}"));
    world.finalize()
}

/// Rank 1 is stopped for a while; how long decides what the others see.
pub(crate) fn paused() -> Result<()> {
    let world = World::init()?;
    let own = world.register(vec![0u64; 8])?;
    if world.rank() == 1 {
        world.put(world.starter::<u64>(0)?, own.address().bits())?;
    }
    world.sync()?;
    say("ready");
    if argument("FAULTS_DEADLINE") == "yes" && world.rank() == 0 {
        wait_for_word();
        deadlines(&world)?;
    }
    let seen = meet_until_told(&world);
    report("meeting", &seen);
    let left = world.finalize();
    seen.and(left)
}

/// Barriers, one after another, until rank 0 is told to stop or somebody is lost.
fn meet_until_told(world: &World) -> Result<()> {
    let mut waiter = (world.rank() == 0).then(|| std::thread::spawn(wait_for_word));
    let last = world.starter::<u64>(0)?.add(8);
    for round in 1.. {
        std::thread::sleep(Duration::from_millis(25));
        if waiter.take_if(|waiter| waiter.is_finished()).is_some() {
            // Not this one: rank 0 may have come to it before, in a wait that ended without it.
            world.put(last, round + 1)?;
        }
        world.sync()?;
        if world.get(last)? == round {
            break;
        }
    }
    Ok(())
}

/// What a wait with a deadline says about a rank that does not answer.
fn deadlines(world: &World) -> Result<()> {
    let limit = Duration::from_millis(200);
    report("barrier-deadline", &world.sync_for(limit));
    let address = kumiki::GlobalAddress::from_bits(world.get(world.starter::<u64>(0)?)?);
    let scratch = world.alloc::<u64>(8)?;
    let handle = world.copy(scratch.address(), address, 64, Order::None)?;
    report("operation-deadline", &world.wait(handle, limit));
    say("waited");
    // The barrier goes on with the next call.
    world.complete(handle)
}

/// Rounds of put, get and fetch-add with the memory of a rank that computes.
const SERVED: u64 = 300;

/// Rank 1 computes without calling us until it gets SIGUSR1; rank 0 uses its memory meanwhile.
pub(crate) fn busy() -> Result<()> {
    static ENOUGH: AtomicBool = AtomicBool::new(false);
    extern "C" fn enough(_: libc::c_int) {
        ENOUGH.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler does nothing but a store to an atomic.
    unsafe { libc::signal(libc::SIGUSR1, enough as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    let world = World::init()?;
    world.sync()?;
    if world.rank() == 1 {
        while !ENOUGH.load(Ordering::Relaxed) {
            std::hint::black_box(0);
        }
    } else if world.rank() == 0 {
        let word = world.starter::<u64>(1)?;
        let mut slowest = Duration::ZERO;
        for round in 0..SERVED {
            let began = Instant::now();
            world.put(word.add(1), round)?;
            assert_eq!(world.get(word.add(1))?, round);
            assert_eq!(world.fetch_add(word, 1)?, round);
            slowest = slowest.max(began.elapsed());
        }
        say(&format!("served {SERVED} {}", slowest.as_micros()));
    }
    world.finalize()
}

/// Ranks of jobs that run at the same time: each job has a number, and no other may ever be seen.
pub(crate) fn crosstalk() -> Result<()> {
    let world = World::init()?;
    let number: u64 = argument("FAULTS_NUMBER").parse().unwrap();
    let (me, ranks) = (world.rank(), world.ranks());
    for round in 0..200 {
        let value = number << 32 | round;
        for peer in 0..ranks {
            world.put(world.starter::<u64>(peer)?.add(me as usize), value)?;
        }
        world.complete_all()?;
        world.sync()?;
        for peer in 0..ranks {
            let found = world.get(world.starter::<u64>(me)?.add(peer as usize))?;
            assert_eq!(found, value, "rank {me} of job {number} finds something of job {}", found >> 32);
        }
        world.sync()?;
    }
    say("clean");
    world.finalize()
}

/// Joins and leaves many times in one process, and says what that costs.
pub(crate) fn cycles() -> Result<()> {
    let count: u32 = argument("FAULTS_COUNT").parse().unwrap();
    let warm_up = count / 5;
    let mut before = None;
    for round in 0..count {
        if round == warm_up {
            before = Some(Usage::now());
        }
        let world = World::init()?;
        let next = (world.rank() + 1) % world.ranks();
        world.put(world.starter::<u64>(next)?, round as u64 + 1)?;
        world.sync()?;
        assert_eq!(world.get(world.starter::<u64>(world.rank())?)?, round as u64 + 1);
        world.finalize()?;
    }
    let (before, after) = (before.unwrap_or_default(), Usage::now());
    say(&format!("usage {} {before} {after}", rank()));
    Ok(())
}

/// What this process uses: resident KiB that are its own, descriptors, mappings, threads.
#[derive(Default)]
struct Usage([u64; 4]);

impl Usage {
    fn now() -> Usage {
        let entries = |folder: &str| std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64);
        let text = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let status = text("/proc/self/status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        let maps = text("/proc/self/maps").lines().count() as u64;
        Usage([kib, entries("/proc/self/fd"), maps, crate::running::threads() as u64])
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [kib, descriptors, maps, threads] = self.0;
        write!(f, "{kib} {descriptors} {maps} {threads}")
    }
}

/// A group that does the same again and again, until one of it is killed.
pub(crate) fn collectives() -> Result<()> {
    let world = World::init()?;
    let group = world.group()?;
    super::is_here(&world, 50)?;
    if world.rank() == 0 {
        super::all_are_here(&world, 50)?;
        say("ready");
    }
    let call = || match argument("FAULTS_WHAT").as_str() {
        "short" => group.allreduce(&mut [1u64; 4], Sum).and_then(|()| group.broadcast(1, &mut [1u8; 3])),
        "long" => group.allreduce(&mut vec![1u64; 40_000], Sum),
        "started" => group.start_allreduce(vec![1u64; 4], Sum)?.wait().map(drop),
        other => panic!("there is no call {other}"),
    };
    let lost = std::iter::repeat_with(call).find(Result::is_err).unwrap_or(Ok(()));
    report("call", &lost);
    report("later", &group.barrier());
    drop(group);
    // The world has lost a rank.
    world.finalize().or(Ok(()))
}

/// Teams of which one has rank 1, which is killed, and one has not: the one cannot meet any more, the other goes on.
pub(crate) fn teams() -> Result<()> {
    let world = World::init()?;
    let with = world.team(0..world.ranks())?.expect("everybody is in it");
    let without: Vec<u32> = (0..world.ranks()).filter(|rank| *rank != 1).collect();
    let without = world.team(without)?;
    with.sync()?;
    super::is_here(&world, 50)?;
    let Some(without) = without else { super::sleep_forever() };
    if world.rank() == 0 {
        super::all_are_here(&world, 50)?;
        say("ready");
    }
    let lost = with.sync();
    report("team", &lost);
    (0..50).try_for_each(|_| without.sync())?;
    report("others", &Ok(()));
    drop(with);
    let parted = without.team_split(&world, 0, -i64::from(world.rank()))?.expect("a colour");
    parted.sync()?;
    parted.free()?;
    without.free()?;
    // The world has lost a rank.
    world.finalize().or(Ok(()))
}
