//! Joined programs on simulated ranks, with faults by seed: blocks, groups and messages are drawn from a seed, too, so that each run is another conversation,
//! and the same one whenever it is repeated.

use kumiki::comm::Sum;
use kumiki::join::{Join, JoinGroup};
use kumiki::{Error, Rank, Result};
use kumiki_sim::{Cluster, End, Faults, Network};
use std::time::{Duration, Instant};

/// Seeds that are tried at least, and as many more as there is time for.
const LEAST: u64 = 20;
const MOST: u64 = 400;
const TIME: Duration = Duration::from_secs(4);

/// Numbers that look like chance, the same for whoever asks.
struct Numbers(u64);

impl Numbers {
    fn of(seed: u64, what: u64) -> Numbers {
        Numbers(
            (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (what + 1).wrapping_mul(0xd1b5_4a32_d192_ed03),
        )
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Two to four blocks of one to three processes.
fn blocks_of(seed: u64) -> Vec<u32> {
    let mut numbers = Numbers::of(seed, 1);
    let count = 2 + numbers.below(3);
    (0..count).map(|_| 1 + numbers.below(3) as u32).collect()
}

/// A message of the plan that everybody knows: from whom, to whom, by which of the groups, with which tag, and how long.
#[derive(Clone, Copy)]
struct Planned {
    from: Rank,
    to: Rank,
    group: usize,
    tag: u64,
    words: usize,
    number: u64,
}

fn plan(seed: u64, ranks: u32) -> Vec<Planned> {
    let mut numbers = Numbers::of(seed, 2);
    let count = 10 + numbers.below(40);
    let lengths = [1, 3, 100, 128, 129, 900, 3000, 40_000];
    (0..count)
        .map(|number| Planned {
            from: numbers.below(ranks.into()) as Rank,
            to: numbers.below(ranks.into()) as Rank,
            group: numbers.below(2) as usize,
            tag: numbers.below(3) << 40,
            words: lengths[numbers.below(8) as usize],
            number,
        })
        .collect()
}

/// The members of a group in an order of their own.
fn shuffled(seed: u64, ranks: u32) -> Vec<Rank> {
    let mut numbers = Numbers::of(seed, 3);
    let mut members: Vec<Rank> = (0..ranks).collect();
    for at in (1..members.len()).rev() {
        members.swap(at, numbers.below(at as u64 + 1) as usize);
    }
    members
}

/// The whole conversation: messages in two groups whose members have other numbers, and collectives across blocks and in each.
fn converse(join: &Join, seed: u64) -> Result<()> {
    let (me, ranks) = (join.world().rank(), join.world().ranks());
    let groups = [join.group(1, shuffled(seed, ranks))?, join.group(2, (0..ranks).collect())?];
    let member =
        |group: &JoinGroup<'_>, rank: Rank| (0..ranks).find(|at| group.world_rank(*at) == Some(rank));
    let plan = plan(seed, ranks);
    let mut sendings = Vec::new();
    for message in plan.iter().filter(|message| message.from == me) {
        let to = member(&groups[message.group], message.to).expect("a member");
        let words = vec![message.number; message.words];
        sendings.push(groups[message.group].start_send(to, message.tag, words)?);
    }
    // In an order of the receiver's own: but those of one sender, group and tag come in theirs.
    let mut wanted: Vec<&Planned> = plan.iter().filter(|message| message.to == me).collect();
    wanted
        .sort_by_key(|message| (message.tag, message.group, std::cmp::Reverse(message.from), message.number));
    for message in wanted {
        let from = member(&groups[message.group], message.from).expect("a member");
        let came = groups[message.group].receive::<u64>(from, message.tag)?;
        assert_eq!(came, vec![message.number; message.words], "seed {seed}, message {}", message.number);
    }
    sendings.into_iter().try_for_each(|sending| sending.wait())?;
    let mut sum = [u64::from(me), 1];
    groups[0].collectives()?.allreduce(&mut sum, Sum)?;
    assert_eq!(sum, [u64::from(ranks) * u64::from(ranks - 1) / 2, u64::from(ranks)], "seed {seed}");
    let own = join.of_block(join.block())?;
    let mut count = [1u32];
    own.collectives()?.allreduce(&mut count, Sum)?;
    assert_eq!(count[0], join.blocks()[join.block() as usize], "seed {seed}");
    let mut text = vec![if me == 0 { 7u8 } else { 0 }; 2000];
    groups[1].collectives()?.broadcast(0, &mut text)?;
    assert!(text.iter().all(|byte| *byte == 7), "seed {seed}");
    Ok(())
}

/// Block and rank there of a rank of the world.
fn place_of(rank: Rank, blocks: &[u32]) -> (usize, u32) {
    let mut left = rank;
    for (block, size) in blocks.iter().enumerate() {
        match left.checked_sub(*size) {
            Some(less) => left = less,
            None => return (block, left),
        }
    }
    panic!("there is no rank {rank} in {blocks:?}");
}

/// Runs conversations of one seed after the other until time is over; how many.
fn seeds(run: impl Fn(u64)) -> u64 {
    let began = Instant::now();
    let tried = (0..MOST).take_while(|seed| *seed < LEAST || began.elapsed() < TIME);
    let count = tried.inspect(|seed| run(*seed)).count() as u64;
    println!("{count} seeds");
    count
}

#[test]
fn faults_that_heal_change_nothing_but_the_time() {
    seeds(|seed| {
        let blocks = blocks_of(seed);
        let ranks = blocks.iter().sum();
        let cluster = Cluster::new(ranks, Network::torus(&[ranks])).seed(seed);
        let outcome = cluster.faults(Faults::harmless(seed, ranks)).run(|attachment| {
            let join = Join::attach(attachment, &blocks)?;
            converse(&join, seed)?;
            join.leave()
        });
        let ends = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}")).values();
        assert_eq!(ends, Ok(vec![Ok(()); ranks as usize]), "seed {seed}, blocks {blocks:?}");
    });
}

#[test]
fn a_process_that_crashes_anywhere_is_named_by_block_and_rank_and_nobody_waits_for_ever() {
    let crashes = std::sync::atomic::AtomicU64::new(0);
    let tried = seeds(|seed| {
        let blocks = blocks_of(seed);
        let ranks: u32 = blocks.iter().sum();
        let cluster = Cluster::new(ranks, Network::torus(&[ranks])).seed(seed);
        let outcome = cluster.faults(Faults::deadly(seed, ranks, 80)).run(|attachment| {
            let join = Join::attach(attachment, &blocks)?;
            let done = converse(&join, seed).inspect_err(|error| {
                let Error::PeerLost { rank, .. } = error else { return };
                let (block, rank) = place_of(*rank, &blocks);
                let said = join.explain(error);
                assert!(
                    said.starts_with(&format!("rank {rank} of block {block} is lost")),
                    "seed {seed}: {said}"
                );
            });
            let left = join.leave();
            done.and(left)
        });
        let ends = outcome.unwrap_or_else(|error| panic!("seed {seed}, blocks {blocks:?}: {error}")).ends;
        let has_crashed = ends.contains(&End::Crashed);
        for (rank, end) in ends.iter().enumerate() {
            let is_right = match end {
                End::Crashed | End::Returned(Ok(())) => true,
                // Whoever is named has crashed, or given up because of somebody else, and so in the end of one that has.
                End::Returned(Err(Error::PeerLost { rank: named, .. })) => {
                    let because = &ends[*named as usize];
                    has_crashed
                        && *named != rank as u32
                        && matches!(because, End::Crashed | End::Returned(Err(_)))
                }
                End::Returned(Err(error)) => {
                    has_crashed && matches!(error, Error::Closed(_) | Error::Refused(_))
                }
                End::Panicked(_) => false,
            };
            assert!(is_right, "seed {seed}, blocks {blocks:?}, rank {rank}: {ends:?}");
        }
        crashes.fetch_add(u64::from(has_crashed), std::sync::atomic::Ordering::Relaxed);
    });
    let crashes = crashes.into_inner();
    assert!(crashes * 4 > tried, "{crashes} crashes of {tried}");
}
