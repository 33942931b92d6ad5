//! Groups of ranks on one node, on several, and on both together: the sweep of all collectives, and what breaks a group.

use crate::job::Job;
use crate::stage::Stage;
use crate::sweep;
use crate::way::{self, CLOSE};
use kumiki::comm::{Algorithm, Combine, Group, GroupOptions, Sum};
use kumiki::{Error, Members, Purpose};
use libtest_mimic::{Failed, Trial};

/// Every collective and algorithm. All types and operations are in the tests of the crate, on simulated ranks: they do not depend on the way.
pub(crate) fn collectives(stage: &Stage) {
    let group = stage.world.group().expect("a group");
    sweep::brief(&group, &[5, 0]).expect("the sweep");
    sweep::types(&group, 3).expect("all types");
    group.free().expect("free");
}

/// Groups of many sizes, of some of the ranks.
pub(crate) fn many_collectives(stage: &Stage) {
    let world = &stage.world;
    for count in (1..=9).chain([stage.ranks()]) {
        // On several nodes, where there are several.
        let members =
            if 2 * count <= stage.ranks() { Members::strided(0, 2, count) } else { (0..count).into() };
        let Some(team) = world.team(members).expect("a team") else { continue };
        let group = team.group(world).expect("a group");
        sweep::brief(&group, &[3]).expect("the sweep");
        group.free().expect("free");
        team.free().expect("free");
    }
    stage.sync();
}

/// What is longer than a block, in blocks of several sizes; what goes straight; and groups of some of the ranks in an order of their own.
pub(crate) fn long_collectives(stage: &Stage) {
    let world = &stage.world;
    let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
    let before = of();
    for bytes in [4 << 10, 256 << 10] {
        let group = world.group_with(GroupOptions::default().block_bytes(bytes)).expect("a group");
        assert!(group.block_bytes() <= bytes);
        // In small blocks what is long comes in a thousand pieces.
        match bytes == 4 << 10 {
            true => sweep::brief(&group, &[300]).expect("the sweep"),
            false => sweep::long(&group).expect("what is long"),
        }
        group.free().expect("free");
    }
    if let Some(team) = world.team(Members::from([3, 0, 2])).expect("a team") {
        let group = team.group(world).expect("a group");
        sweep::brief(&group, &[40]).expect("the sweep");
        group.free().expect("free");
        team.free().expect("free");
    }
    stage.sync();
    drop(world.team(0..stage.ranks()).expect("a team"));
    stage.sync();
    drop(world.team(0..1).expect("a team"));
    assert_eq!(of(), before);
}

/// More ranks than blocks of neighbours are remembered, straight: whole and uneven parts, and fewer elements than members; in the order of the members.
pub(crate) fn crowded_collectives(stage: &Stage) {
    let (group, me) = (stage.world.group().expect("a group"), u64::from(stage.me()));
    group.force(Algorithm::Direct);
    let ranks = u64::from(stage.ranks());
    // One element on one member's left, one on its right: a product of matrices, which does not commute.
    type Affine = [u64; 2];
    let then = |left: Affine, right: Affine| {
        [left[0].wrapping_mul(right[0]), left[1].wrapping_mul(right[0]).wrapping_add(right[1])]
    };
    for count in [1u64, ranks - 1, 3001] {
        let own = |rank: u64| (0..count).map(move |at| [2 * at + rank + 3, at * rank + 1]);
        let mut all: Vec<Affine> = own(me).collect();
        group.allreduce(&mut all, Combine::ordered(then)).expect("allreduce");
        let mut wanted: Vec<Affine> = own(0).collect();
        for rank in 1..ranks {
            wanted.iter_mut().zip(own(rank)).for_each(|(left, right)| *left = then(*left, right));
        }
        assert_eq!(all, wanted, "{count} elements");
        let given: Vec<Affine> = own(me).collect();
        all.fill([5, 9]);
        group.allreduce_into(&given, &mut all, Combine::ordered(then)).expect("allreduce_into");
        assert!(all == wanted && given.iter().copied().eq(own(me)), "{count} elements from elsewhere");
        let mut sums: Vec<f64> = (0..count).map(|at| at as f64 + me as f64).collect();
        group.allreduce(&mut sums, Sum).expect("allreduce");
        let more = (ranks * (ranks - 1) / 2) as f64;
        assert!(sums.iter().enumerate().all(|(at, sum)| *sum == at as f64 * ranks as f64 + more));
        let root = (count % ranks) as u32;
        let mut given = vec![if stage.me() == root { 7 * count } else { 0 }; count as usize];
        group.broadcast(root, &mut given).expect("broadcast");
        assert_eq!(given, vec![7 * count; count as usize]);
        let mut gathered = vec![0; (count * ranks) as usize];
        group.allgather(&vec![me; count as usize], &mut gathered).expect("allgather");
        assert!(gathered
            .chunks(count as usize)
            .zip(0..)
            .all(|(part, rank)| part.iter().all(|one| *one == rank)));
        let mut crossed = vec![0; (count * ranks) as usize];
        let dealt: Vec<u64> = (0..ranks).flat_map(|to| vec![100 * me + to; count as usize]).collect();
        group.alltoall(&dealt, &mut crossed).expect("alltoall");
        let is_mine = |(part, from): (&[u64], u64)| part.iter().all(|one| *one == 100 * from + me);
        assert!(crossed.chunks(count as usize).zip(0..).all(is_mine));
    }
    group.free().expect("free");
}

/// What is long and goes to all, flat: through rooms where there is memory for them, which goes with the group.
pub(crate) fn collectives_in_rooms(stage: &Stage) {
    let world = &stage.world;
    let heap = || world.ledger().of(Purpose::Heap);
    let (before, me, ranks) = (heap(), u64::from(stage.me()), u64::from(stage.ranks()));
    let group = world.group().expect("a group");
    let made = heap();
    // One that has no memory for a room is enough for all.
    let is_poor = world.ledger().budget_bytes.is_some_and(|bytes| bytes < 8 << 20);
    let taken = (is_poor && stage.me() == 1).then(|| world.alloc::<u8>(3 << 20).expect("most of the budget"));
    group.force(Algorithm::Flat);
    for root in 0..ranks {
        // No whole number of pieces.
        let count = (1 << 17) + 13 + 5000 * root;
        let of_root = |at: u64| at * 7 + root;
        let mut data: Vec<u64> = (0..count).map(|at| if me == root { of_root(at) } else { 0 }).collect();
        group.broadcast(root as u32, &mut data).expect("broadcast");
        assert!(data.iter().zip(0..).all(|(word, at)| *word == of_root(at)), "from {root}");
    }
    let is_of = |part: &[u64], rank: u64| part.iter().zip(0..).all(|(word, at)| *word == at ^ rank << 40);
    let own = |rank: u64, count: usize| (0..count as u64).map(|at| at ^ rank << 40).collect::<Vec<_>>();
    for part in [40_000, 33_333] {
        let mut all = vec![0; part * ranks as usize];
        group.allgather(&own(me, part), &mut all).expect("allgather");
        assert!(all.chunks(part).zip(0..).all(|(part, rank)| is_of(part, rank)));
        let counts: Vec<usize> = (0..ranks as usize).map(|rank| rank * part).collect();
        let mut all = vec![0; counts.iter().sum()];
        group.allgatherv(&own(me, counts[me as usize]), &counts, &mut all).expect("allgatherv");
        let mut rest = &all[..];
        for (count, rank) in counts.iter().zip(0..) {
            let (now, later) = rest.split_at(*count);
            assert!(is_of(now, rank), "uneven, of {rank}");
            rest = later;
        }
    }
    for count in [40_000, (1 << 17) + 13] {
        let mut data = own(me, count);
        group.allreduce(&mut data, Sum).expect("allreduce");
        let summed = |at: u64| (0..ranks).map(|rank| at ^ rank << 40).sum::<u64>();
        assert!(data.iter().zip(0..).all(|(word, at)| *word == summed(at)), "sums of {count}");
        let of = |at: u64, rank: u64| 1.0 / (at * ranks + rank + 1) as f64;
        let mut data: Vec<f64> = (0..count as u64).map(|at| of(at, me)).collect();
        group.allreduce(&mut data, Sum).expect("allreduce");
        let in_order = |at: u64| (1..ranks).fold(of(at, 0), |sum, rank| sum + of(at, rank));
        assert!(data.iter().zip(0..).all(|(sum, at)| *sum == in_order(at)), "in the order of ranks");
    }
    drop(taken);
    assert_eq!(heap() - made >= 256 << 10, world.nodes() == 1 && !is_poor);
    group.free().expect("free");
    stage.sync();
    // Where its block lies is given back a little later.
    assert!(heap() < before + (32 << 10), "{} bytes more than before", heap() - before);
}

/// Short calls of several kinds in any order: what one of them tells the others stays until all have taken it, whoever tells the next thing and however fast.
pub(crate) fn mixed_collectives(stage: &Stage) {
    let group = stage.world.group().expect("a group");
    let (me, ranks) = (u64::from(stage.me()), u64::from(stage.ranks()));
    // The same numbers on all ranks.
    let mut seed = 1u64;
    let mut any = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for turn in 0..6000u64 {
        let (kind, root, words) = (any(12), any(ranks), [1, 2, 7, 40, 300, 3000][any(6) as usize]);
        let is_late = any(40) == 0 && any(ranks) == me;
        if is_late {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        let of = |rank: u64, at: u64| turn << 32 | rank << 24 | at;
        let own: Vec<u64> = (0..words).map(|at| of(me, at)).collect();
        match kind {
            0 => group.barrier().expect("barrier"),
            1 => {
                let mut sum = [me, turn];
                group.allreduce(&mut sum, Sum).expect("allreduce");
                assert_eq!(sum, [ranks * (ranks - 1) / 2, turn * ranks]);
            }
            2 => {
                let mut all = vec![0; own.len() * ranks as usize];
                group.allgather(&own, &mut all).expect("allgather");
                let parts = all.chunks(own.len()).zip(0..);
                parts
                    .for_each(|(part, rank)| assert!((0..words).all(|at| part[at as usize] == of(rank, at))));
            }
            3 => {
                let mut sums = own.clone();
                group.allreduce(&mut sums, Sum).expect("a long allreduce");
                assert!((0..words)
                    .all(|at| sums[at as usize] == (0..ranks).map(|rank| of(rank, at)).sum::<u64>()));
            }
            _ => {
                let mut told = own.clone();
                group.broadcast(root as u32, &mut told).expect("broadcast");
                assert!((0..words).all(|at| told[at as usize] == of(root, at)), "turn {turn}, from {root}");
            }
        }
    }
    group.free().expect("free");
}

/// A member that does something else, fails or leaves is an error for all, in whatever they wait.
pub(crate) fn broken_collectives(stage: &Stage) {
    type Call = fn(&Group<'_>, bool) -> kumiki::Result<()>;
    let calls: [Call; 7] = [
        // They wait in different teams, if the group has levels.
        |group, odd| match odd {
            true => group.barrier(),
            false => group.reduce(0, &mut [1u64], Sum),
        },
        |group, odd| match odd {
            true => group.allreduce(&mut [1u64], Sum),
            false => group.broadcast(0, &mut [1u64]),
        },
        |group, odd| group.allreduce(&mut vec![1u64; if odd { 30_000 } else { 2 }], Sum),
        |group, odd| group.broadcast(if odd { 9 } else { 0 }, &mut [1u64]),
        |group, odd| group.broadcast(u32::from(odd), &mut [1u64]),
        |group, odd| group.alltoall(&[1u8; 4], &mut vec![0; 4 + usize::from(odd)]),
        |group, odd| match odd {
            true => Err(Error::Misuse("it leaves".into())),
            false => group.allreduce(&mut [1u64], Sum),
        },
    ];
    for (number, call) in calls.into_iter().enumerate() {
        for odd in [0, stage.ranks() - 1] {
            let group = stage.world.group().expect("a group");
            let is_odd = stage.me() == odd;
            // Whoever only sends may not notice it at once.
            let _ = (0..3).map(|_| call(&group, is_odd)).find(|called| called.is_err());
            if !is_odd {
                assert!(group.allreduce(&mut [1u64], Sum).is_err(), "call {number}: the group is broken");
            }
            drop(group);
            stage.sync();
        }
    }
}

/// A block that neighbours may still touch is given back when they have left, too.
pub(crate) fn left_blocks(stage: &Stage) {
    let world = &stage.world;
    let heap = || world.ledger().of(Purpose::Heap);
    let before = heap();
    let group = world.group().expect("a group");
    stage.sync();
    let has_neighbours = world.node_ranks().len() > 1;
    let left = if stage.me() == 0 {
        drop(group);
        assert!(!has_neighbours || heap() > before + 1000, "it is kept for the others");
        None
    } else {
        Some(group)
    };
    stage.sync();
    drop(left);
    stage.sync();
    let other = world.group().expect("a group");
    other.free().expect("free");
    stage.sync();
    drop(world.team(0..1).expect("a team"));
    assert_eq!(heap(), before);
}

/// Threads of a rank that call at once come one after the other, whatever is tried meanwhile.
pub(crate) fn collectives_of_threads(stage: &Stage) {
    let group = &stage.world.group().expect("a group");
    let call = || {
        for _ in 0..40 {
            let mut sum = [1u64; 4];
            group.allreduce(&mut sum, Sum).expect("allreduce");
            assert_eq!(sum, [u64::from(stage.ranks()); 4]);
        }
    };
    stage.at_once((0..2).map(|_| Box::new(call) as Box<dyn FnOnce() + Send>));
    stage.sync();
}

pub(crate) fn trials() -> Vec<Trial> {
    let decisions =
        CLOSE.iter().map(|way| Trial::test(format!("{}::decisions_outlive_a_run", way.name), || tuned(way)));
    let topics = [
        "collectives",
        "long_collectives",
        "broken_collectives",
        "left_blocks",
        "collectives_in_rooms",
        "collectives_of_threads",
        "mixed_collectives",
    ];
    let spinning = CLOSE.iter().flat_map(|way| {
        topics.map(|topic| {
            Trial::test(format!("{}::spinning_{topic}", way.name), || {
                // As where each rank has a core: members look at each other instead of meeting.
                Job::new(way, topic, 5).env("KUMIKI_SPIN", "5").run().success()
            })
        })
    });
    let budgets = ["4M", "64M"].map(|budget| {
        Trial::test(format!("shm::collectives_in_rooms_of_{budget}"), move || {
            Job::new(way::named("shm"), "collectives_in_rooms", 5)
                .env("KUMIKI_BUDGET", budget)
                .run()
                .success()
        })
    });
    decisions.chain(spinning).chain(budgets).collect()
}

/// Decisions are written at the end of a run, read by the next, and a file that is wrong is an error on all ranks.
fn tuned(way: &'static crate::way::Way) -> Result<(), Failed> {
    let file = std::env::temp_dir().join(format!("kumiki-decisions-{}-{}", way.name, std::process::id()));
    let path = file.to_string_lossy();
    let run = |topic: &str| Job::new(way, topic, 4).env("KUMIKI_TUNE", &path).run().success();
    run("deciding")?;
    let text = std::fs::read_to_string(&file)?;
    let lines = text.lines().filter(|line| line.starts_with("allreduce order any ranks 4 nodes"));
    assert_eq!(lines.count(), 1, "{text}");
    run("decided")?;
    assert_eq!(std::fs::read_to_string(&file)?, text, "nothing new was learned");
    std::fs::write(&file, format!("{text}allreduce quick\n"))?;
    let wrong = run("decided_wrongly");
    std::fs::remove_file(&file)?;
    wrong
}

/// Decides something.
pub(crate) fn deciding(stage: &Stage) {
    let group = stage.world.group().expect("a group");
    assert!(group.decisions().is_empty());
    (0..200).try_for_each(|_| group.allreduce(&mut [1.5], Sum)).expect("allreduce");
    assert_eq!(group.decisions().len(), 1);
    group.free().expect("free");
}

/// Knows what the run before has decided.
pub(crate) fn decided(stage: &Stage) {
    let group = stage.world.group().expect("a group");
    assert_eq!(group.decisions().len(), 1);
    group.allreduce(&mut [1.5], Sum).expect("allreduce");
    group.free().expect("free");
}

pub(crate) fn decided_wrongly(stage: &Stage) {
    let wrong = stage.world.group().expect_err("the last line is wrong").to_string();
    assert!(wrong.contains("KUMIKI_TUNE=") && wrong.contains("line 3"), "{wrong}");
}
