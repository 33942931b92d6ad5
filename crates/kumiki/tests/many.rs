//! 1,024 simulated ranks in virtual time: collectives, a storm of messages, and batches of words. The same programs with fewer ranks and
//! faults by seed.

use kumiki::comm::{GroupOptions, Max, Sum};
use kumiki::{Error, Result, World};
use kumiki_sim::{Cluster, End, Faults, Network};
use std::sync::{Mutex, PoisonError};

const MANY: u32 = 1024;
const FEW: u32 = 24;
const SEEDS: u64 = 4;

/// There is no room in the addresses of a process for two of so many ranks.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a program on a torus of so many ranks, and says what must be so behind it.
fn everywhere(ranks: u32, faults: Option<u64>, program: fn(&World) -> Result<()>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let network = Network::torus(&if ranks == MANY { vec![16, 8, 8] } else { vec![ranks] });
    let mut cluster = Cluster::new(ranks, network);
    if let Some(seed) = faults {
        cluster = cluster.seed(seed).faults(Faults::harmless(seed, ranks));
    }
    let outcome = cluster.run(|attachment| {
        let world = World::attach(attachment)?;
        program(&world)?;
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    ends.into_iter().enumerate().for_each(|(rank, end)| assert_eq!(end, Ok(()), "rank {rank}, {faults:?}"));
}

fn with_faults(program: fn(&World) -> Result<()>) {
    (1..=SEEDS).for_each(|seed| everywhere(FEW, Some(seed), program));
}

/// Numbers that look like chance, the same for whoever asks.
fn numbers(rank: u32) -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ u64::from(rank + 1) << 17;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// What all do together: small, and longer than a block has room for.
fn collectives(world: &World) -> Result<()> {
    // Nothing is tried: what is tried with so many would take long.
    let group = world.group_with(GroupOptions::default().fixed())?;
    let (me, ranks) = (group.rank(), group.ranks());
    group.barrier()?;
    let mut sums = [u64::from(me), 1];
    group.allreduce(&mut sums, Sum)?;
    assert_eq!(sums, [u64::from(ranks) * u64::from(ranks - 1) / 2, u64::from(ranks)]);
    let root = ranks / 3;
    let mut text = vec![if me == root { 7u32 } else { 0 }; 1000];
    group.broadcast(root, &mut text)?;
    assert!(text.iter().all(|number| *number == 7));
    let out: Vec<u32> = (0..ranks).map(|to| me << 16 | to).collect();
    let mut into = vec![0; out.len()];
    group.alltoall(&out, &mut into)?;
    assert!((0..ranks).all(|from| into[from as usize] == from << 16 | me), "alltoall");
    let row = group.split(me / 16, 0)?.expect("a colour");
    let mut most = [me];
    row.allreduce(&mut most, Max)?;
    assert_eq!(most[0], (me / 16 * 16 + 15).min(ranks - 1));
    row.free()?;
    group.barrier()?;
    group.free()
}

/// Messages that each rank sends in a storm.
const STORM: u64 = 12;

/// To whom the messages of a rank go, and of how many words they are: some are too long for a mailbox.
fn storm_of(rank: u32, ranks: u32) -> Vec<(u32, usize)> {
    let mut next = numbers(rank);
    let length = |number: u64| if number.is_multiple_of(7) { 300 } else { 1 + number as usize % 9 };
    (0..STORM).map(|_| ((next() >> 20) as u32 % ranks, length(next() >> 20))).collect()
}

/// Everybody sends to whoever chance says, and receives what comes, from whomever and of any tag.
fn storm(world: &World) -> Result<()> {
    let (me, ranks, messages) = (world.rank(), world.ranks(), world.messages());
    let sends: Vec<_> = storm_of(me, ranks)
        .into_iter()
        .enumerate()
        .map(|(tag, (to, words))| messages.start_send(to, tag as u64, vec![me; words]))
        .collect::<Result<_>>()?;
    // How many come, nobody says: here the sums of chance are the same everywhere.
    let coming: usize =
        (0..ranks).map(|from| storm_of(from, ranks).iter().filter(|(to, _)| *to == me).count()).sum();
    let mut last = vec![None; ranks as usize];
    for _ in 0..coming {
        let message = messages.receive::<u32>(None, None)?;
        let (to, words) = storm_of(message.from, ranks)[message.tag as usize];
        assert!(to == me && message.elements == vec![message.from; words], "{message:?}");
        // Those of one rank come in the order in which it sent them.
        let last = &mut last[message.from as usize];
        assert!(last.replace(message.tag) < Some(message.tag), "{message:?} came behind {last:?}");
    }
    messages.wait_all(sends)?;
    assert!(messages.try_probe(None, None)?.is_none(), "more came than was sent");
    world.sync()
}

/// Words of the table of each rank, and updates that each makes.
const WORDS: usize = 8;
const UPDATES: u64 = 40;

/// A histogram over a table that lies on all ranks: one by one, and as a list.
fn histogram(world: &World) -> Result<()> {
    let ranks = world.ranks();
    let table = world.shared_array::<u64>(WORDS)?;
    let mut next = numbers(world.rank());
    let mut place = || {
        let number = next() >> 11;
        table.at(number as u32 % ranks, (number >> 32) as usize % WORDS)
    };
    let mut stream = world.stream();
    for _ in 0..UPDATES {
        stream.add(place(), 1)?;
    }
    stream.flush()?;
    drop(stream);
    world.fetch_add_many((0..UPDATES).map(|_| (place(), 1)))?;
    world.sync()?;
    let own: u64 = world.get_many((0..WORDS).map(|word| table.at(world.rank(), word)))?.iter().sum();
    let total = world.starter::<u64>(0)?;
    world.fetch_add(total, own)?;
    world.sync()?;
    assert_eq!(world.get(total)?, 2 * UPDATES * u64::from(ranks));
    world.sync()
}

#[test]
fn collectives_of_1024_ranks() {
    everywhere(MANY, None, collectives);
}

#[test]
fn a_storm_of_messages_of_1024_ranks() {
    everywhere(MANY, None, storm);
}

#[test]
fn a_histogram_of_1024_ranks() {
    everywhere(MANY, None, histogram);
}

#[test]
fn all_of_it_under_faults_that_heal() {
    [collectives, storm, histogram].into_iter().for_each(with_faults);
}

/// The same storm, but each receive says from whom: then it hears of a rank that is lost. (One from any rank goes on as long as there are
/// others who may send.)
fn orderly_storm(world: &World) -> Result<()> {
    let (me, ranks, messages) = (world.rank(), world.ranks(), world.messages());
    let sends: Vec<_> = storm_of(me, ranks)
        .into_iter()
        .map(|(to, words)| messages.start_send(to, 0, vec![me; words]))
        .collect::<Result<_>>()?;
    for from in 0..ranks {
        for (_, words) in storm_of(from, ranks).into_iter().filter(|(to, _)| *to == me) {
            assert_eq!(messages.receive::<u32>(from, 0)?.elements, vec![from; words]);
        }
    }
    messages.wait_all(sends)?;
    world.sync()
}

/// A rank crashes at one of its messages: the others are done, or hear of it; nobody waits for ever.
#[test]
fn all_of_it_with_a_rank_that_crashes() {
    let mut crashed = 0;
    for (seed, program) in (1..).zip([collectives, orderly_storm, histogram].repeat(3)) {
        let faults = Faults::deadly(seed, FEW, 60);
        let cluster = Cluster::new(FEW, Network::torus(&[FEW])).seed(seed).faults(faults);
        let outcome = cluster.run(|attachment| {
            let world = World::attach(attachment)?;
            let done = program(&world);
            let _ = world.finalize();
            done
        });
        let ends = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}")).ends;
        let has_crashed = ends.contains(&End::Crashed);
        for (rank, end) in ends.iter().enumerate() {
            let is_right = match end {
                End::Crashed | End::Returned(Ok(())) => true,
                End::Returned(Err(error)) => {
                    has_crashed
                        && matches!(error, Error::PeerLost { .. } | Error::Closed(_) | Error::Refused(_))
                }
                End::Panicked(_) => false,
            };
            assert!(is_right, "seed {seed}, rank {rank}: {end:?}");
        }
        crashed += usize::from(has_crashed);
    }
    assert!(crashed > 2, "{crashed} crashes");
}
