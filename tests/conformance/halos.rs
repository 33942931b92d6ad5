//! Halos on one node, on several, and on both together: the model of all shapes, members that run ahead, and what breaks a halo.

use crate::halo_model::{cases, grids, Case};
use crate::job::Job;
use crate::stage::Stage;
use crate::way::NODES;
use kumiki::comm::{Halo, HaloOptions};
use kumiki::{Error, Purpose};
use libtest_mimic::Trial;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

/// All shapes, as in the tests of the crate, where there are more members.
pub(crate) fn halos(stage: &Stage) {
    let group = stage.world.group().expect("a group");
    for grid in grids(stage.ranks()).into_iter().chain([vec![2, 2], vec![2, 1, 2]]) {
        for case in cases(&grid) {
            case.run(&group, 3, |value| value).expect("the model");
        }
    }
    let case = Case {
        grid: vec![2, 2],
        periodic: vec![false, true],
        ghosts: vec![[2, 1], [1, 2]],
        has_corners: true,
        fields: 3,
    };
    case.run(&group, 4, |value| value as u8).expect("bytes");
    case.run(&group, 4, |value| [value as u16; 3]).expect("six bytes");
    // Rows that are longer than what is gathered at a time.
    case.run(&group, 4, |value| [value; 256]).expect("long elements");
    group.free().expect("free");
}

/// Cells go one way, or both: whoever runs ahead waits for the others in time, and nothing is overtaken.
pub(crate) fn halos_in_step(stage: &Stage) {
    let world = &stage.world;
    let (group, me) = (world.group().expect("a group"), stage.me());
    let grid = group.cartesian(&[stage.ranks()], &[true]).expect("a grid");
    for sides in [[1, 0], [0, 1], [1, 1]] {
        let mut halo = grid.halo::<u64>(&[64], HaloOptions::sides(&[sides])).expect("a halo");
        let mut field = vec![0u64; halo.len()];
        let beside = grid.neighbours(0).map(|rank| u64::from(rank.expect("a ring")));
        for step in 0..200u64 {
            field.fill(step * 100 + u64::from(me));
            if (step + u64::from(me) * 7).is_multiple_of(40) {
                std::thread::sleep(Duration::from_millis(1));
            }
            match step % 2 {
                0 => halo.exchange(&mut field).expect("exchange"),
                _ => {
                    halo.start(&field).expect("start");
                    field.fill(step * 100 + u64::from(me));
                    halo.finish(&mut field).expect("finish");
                }
            }
            for (side, place) in [-1, 64].into_iter().enumerate().filter(|(side, _)| sides[*side] > 0) {
                assert_eq!(
                    field[halo.index(&[place])],
                    step * 100 + beside[side],
                    "step {step} of {sides:?}"
                );
            }
        }
        halo.free().expect("free");
    }
    group.free().expect("free");
}

/// A member that leaves breaks the halo for all; another can be made, and in the end nothing is left of them.
pub(crate) fn left_halos(stage: &Stage) {
    let world = &stage.world;
    let group = world.group().expect("a group");
    let of = || [Purpose::Comm, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
    let before = of();
    for leaver in 0..stage.ranks() {
        let grid = group.cartesian(&[stage.ranks(), 1], &[leaver % 2 == 0, false]).expect("a grid");
        let mut halo = grid.halo::<f32>(&[9, 4], HaloOptions::width(1)).expect("a halo");
        let mut field = vec![0.0; halo.len()];
        halo.exchange(&mut field).expect("exchange");
        // Whoever is late would hear of the end before it has what came before.
        stage.sync();
        if stage.me() == leaver {
            drop(halo);
            continue;
        }
        let broken = (0..50).find_map(|_| halo.exchange(&mut field).err()).expect("it is broken");
        assert!(matches!(broken, Error::PeerLost { rank, .. } if rank == leaver), "{broken}");
        assert!(halo.free().is_err());
    }
    stage.sync();
    // What others of this node looked at until then is given back when something is made.
    let last = group.cartesian(&[stage.ranks()], &[true]).expect("a grid");
    last.halo::<u8>(&[1], HaloOptions::width(1)).expect("a halo").free().expect("free");
    expect_as_before(stage, of, before);
    group.free().expect("free");
}

/// Extents that do not fit are found out when all know each other's blocks: nobody has the halo, and nothing is left of it.
pub(crate) fn unfit_halos(stage: &Stage) {
    let world = &stage.world;
    let group = world.group().expect("a group");
    let of = || [Purpose::Comm, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
    let before = of();
    let grid = group.cartesian(&[stage.ranks(), 1], &[true, false]).expect("a grid");
    for unfit in 0..stage.ranks() {
        let extents = [8, if stage.me() == unfit { 3 } else { 2 }];
        let failed =
            grid.halo::<u64>(&extents, HaloOptions::sides(&[[2, 1], [0, 0]])).expect_err("one is unfit");
        assert!(matches!(failed, Error::Misuse(_) | Error::Refused(_)), "{failed}");
        assert!(stage.me() != unfit || matches!(failed, Error::Misuse(_)), "{failed}");
    }
    stage.sync();
    grid.halo::<u8>(&[1, 1], HaloOptions::width(1)).expect("a halo").free().expect("free");
    expect_as_before(stage, of, before);
    group.free().expect("free");
}

/// A member whose closure panics has left, if it goes on without the halo; or it finishes the exchange.
pub(crate) fn halos_and_panics(stage: &Stage) {
    let group = stage.world.group().expect("a group");
    let grid = group.cartesian(&[stage.ranks()], &[true]).expect("a grid");
    let panic = |_: &[u64]| -> () { std::panic::resume_unwind(Box::new("a test")) };
    for victim in 0..stage.ranks() {
        let mut halo = grid.halo::<u64>(&[100], HaloOptions::width(1)).expect("a halo");
        let mut field = vec![0; halo.len()];
        if stage.me() == victim {
            let unwound = catch_unwind(AssertUnwindSafe(|| halo.overlap(&mut field, panic)));
            assert!(unwound.is_err());
            halo.finish(&mut field).expect("it is whole");
            stage.sync();
            let unwound = catch_unwind(AssertUnwindSafe(move || {
                let mut halo = halo;
                halo.overlap(&mut field, panic)
            }));
            assert!(unwound.is_err());
        } else {
            halo.exchange(&mut field).expect("exchange");
            // Whoever is late would hear of the end before it has what came before.
            stage.sync();
            let broken = (0..50).find_map(|_| halo.exchange(&mut field).err()).expect("it is broken");
            assert!(matches!(broken, Error::PeerLost { rank, .. } if rank == victim), "{broken}");
        }
        stage.sync();
    }
    group.free().expect("free");
}

/// What teams shared is given back when the next one is made.
fn expect_as_before<const N: usize>(stage: &Stage, now: impl Fn() -> [u64; N], before: [u64; N]) {
    stage.sync();
    drop(stage.world.team(0..1).expect("a team"));
    assert_eq!(now(), before, "something is left");
    stage.sync();
}

/// Under a budget: what one member has no memory for is an error on all, and leaves nothing behind.
pub(crate) fn halo_budget(stage: &Stage) {
    let world = &stage.world;
    let (group, me) = (world.group().expect("a group"), stage.me());
    let grid = group.cartesian(&[stage.ranks()], &[true]).expect("a grid");
    let of = || [Purpose::Comm, Purpose::Heap, Purpose::Team].map(|purpose| world.ledger().of(purpose));
    let before = of();
    for short in 0..stage.ranks() {
        let hog = (me == short).then(|| world.alloc::<u8>(3 << 19).expect("most of the budget"));
        let failed: Result<Halo<'_, u64>, Error> = grid.halo(&[40_000], HaloOptions::width(20_000));
        match failed.expect_err("it does not fit") {
            Error::OutOfMemory { .. } if me == short => {}
            Error::Refused(_) if me != short => {}
            error => panic!("rank {short} has no memory, and rank {me} is told: {error}"),
        }
        drop(hog);
        expect_as_before(stage, of, before);
    }
    let mut halo = grid.halo::<u64>(&[40_000], HaloOptions::width(1000)).expect("memory again");
    let mut field = vec![u64::from(me); halo.len()];
    halo.exchange(&mut field).expect("exchange");
    halo.free().expect("free");
    group.free().expect("free");
    stage.expect_all_freed();
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |way: &'static crate::way::Way| {
        Trial::test(format!("{}::halo_budget", way.name), move || {
            Job::new(way, "halo_budget", 4).env("KUMIKI_BUDGET", "2M").run().success()
        })
    };
    NODES.iter().map(trial).collect()
}
