//! Halos in the simulator, where each rank has a node of its own. Those on one node, and on several, are in the conformance suite.

#[path = "../../../tests/halo_model.rs"]
mod halo_model;

use halo_model::{cases, grids, Case};
use kumiki::comm::{Group, Halo, HaloOptions};
use kumiki::{AtomicOp, Error, Pending, Purpose, Region, Result, World};
use kumiki_sim::{Cluster, Crash, End, Faults, Network, Time};
use std::panic::{catch_unwind, AssertUnwindSafe};

fn cluster(ranks: u32) -> Cluster {
    Cluster::new(ranks, Network::torus(&[ranks]))
}

/// Runs a program on all ranks of a small cluster.
fn everywhere(ranks: u32, program: impl Fn(&World) -> Result<()> + Send + Sync) {
    let outcome = cluster(ranks).run(|attachment| {
        let world = World::attach(attachment)?;
        program(&world)?;
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); ranks as usize]);
}

#[test]
fn every_ghost_cell_gets_the_value_of_its_owner() {
    for ranks in 1..=9 {
        everywhere(ranks, |world| {
            let group = world.group()?;
            for case in grids(ranks).iter().flat_map(|grid| cases(grid)) {
                case.run(&group, 3, |value| value)?;
            }
            group.free()
        });
    }
}

#[test]
fn elements_of_any_plain_type_are_exchanged() {
    everywhere(4, |world| {
        let group = world.group()?;
        let case = Case {
            grid: vec![2, 2],
            periodic: vec![true, false],
            ghosts: vec![[1, 2], [2, 1]],
            has_corners: true,
            fields: 2,
        };
        case.run(&group, 4, |value| value as u8)?;
        case.run(&group, 4, |value| [value as u8, (value >> 8) as u8, (value >> 16) as u8])?;
        case.run(&group, 4, |value| value as u16 as f32)?;
        case.run(&group, 4, |value| [value as u32 as f64, 0.5])?;
        case.run(&group, 4, |value| [value; 64])?;
        group.free()
    });
}

#[test]
fn a_halo_gives_back_all_it_took_and_its_memory_is_in_the_ledger() {
    everywhere(4, |world| {
        let group = world.group()?;
        let of = || [Purpose::Comm, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
        let before = of();
        let grid = group.cartesian(&[4], &[true])?;
        let mut halo = grid.halo::<u64>(&[1000], HaloOptions::width(100))?;
        // Two strips for each side, and two parcels.
        assert!(halo.block_bytes() >= 4 * 800 && halo.block_bytes() <= 4 * 800 + 1024);
        let [private, heap] = of();
        assert!(private >= before[0] + 4 * 800 && private <= before[0] + 4 * 800 + (16 << 10), "{private}");
        assert!(heap >= before[1] + halo.block_bytes() as u64);
        halo.exchange(&mut vec![0; halo.len()])?;
        halo.free()?;
        world.sync()?;
        assert_eq!(of(), before);
        // Whoever just drops it gives it back, too.
        let halo = grid.halo::<u64>(&[1000], HaloOptions::width(100))?;
        drop(halo);
        world.sync()?;
        assert_eq!(of(), before);
        group.free()?;
        assert_eq!(world.heap_use(0)?.blocks, 0, "nothing is left of the tables");
        Ok(())
    });
}

/// Whoever has no memory, or comes with something that does not fit, keeps all from having the halo.
#[test]
fn a_halo_that_one_member_cannot_have_is_nobodys() {
    let outcome = cluster(4).budget_bytes(1 << 20).run(|attachment| {
        let world = World::attach(attachment)?;
        let (group, me) = (world.group()?, world.rank());
        let grid = group.cartesian(&[4, 1], &[true, false])?;
        let of = || [Purpose::Comm, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
        let before = of();
        let whose = |failed: Result<Halo<'_, u64>>, rank: u32, is_it: fn(&Error) -> bool| {
            let error = failed.expect_err("one cannot");
            assert!(if me == rank { is_it(&error) } else { matches!(error, Error::Refused(_)) }, "{error}");
        };
        let is_short = |error: &Error| matches!(error, Error::OutOfMemory { .. });
        let is_misuse = |error: &Error| matches!(error, Error::Misuse(_));
        let width = |cells| HaloOptions::sides(&[[cells; 2], [0; 2]]);
        let hog = (me == 2).then(|| world.alloc::<u8>(800 << 10)).transpose()?;
        whose(grid.halo(&[3000, 2], width(3000)), 2, is_short);
        drop(hog);
        whose(grid.halo(&[if me == 1 { 0 } else { 10 }, 2], width(1)), 1, is_misuse);
        whose(grid.halo(&[if me == 3 { 2 } else { 10 }, 2], width(3)), 3, is_misuse);
        // Beside each other they must have the same extents in the other dimensions: both neighbours find that out.
        let failed = grid.halo::<u64>(&[10, if me == 0 { 3 } else { 2 }], width(1)).expect_err("they differ");
        assert!(is_misuse(&failed) || me == 2 && matches!(failed, Error::Refused(_)), "{failed}");
        let failed = grid.halo::<u64>(&[10, 2], width(if me == 0 { 2 } else { 1 })).expect_err("they differ");
        assert!(is_misuse(&failed), "{failed}");
        assert_eq!(of(), before, "nothing is left of these");
        let mut halo = grid.halo::<u64>(&[10, 2], width(1))?;
        let mut field = vec![u64::from(me); halo.len()];
        // What is wrong here alone is an error here, and nobody is out of step.
        for wrong in [halo.finish(&mut field), halo.exchange(&mut []), halo.exchange_all(&mut [])] {
            assert!(matches!(wrong, Err(Error::Misuse(_))), "{wrong:?}");
        }
        halo.start(&field)?;
        assert!(matches!(halo.start(&field), Err(Error::Misuse(_))));
        halo.finish(&mut field)?;
        assert_eq!(field[halo.index(&[-1, 1])], u64::from((me + 3) % 4));
        halo.free()?;
        group.free()?;
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); 4]);
}

/// Neighbours learn it, and theirs.
#[test]
fn a_member_that_leaves_breaks_the_halo_for_all() {
    everywhere(6, |world| {
        let group = world.group()?;
        let grid = group.cartesian(&[6], &[false])?;
        let mut halo = grid.halo::<u32>(&[5], HaloOptions::width(1))?;
        let mut field = vec![0; halo.len()];
        halo.exchange(&mut field)?;
        if world.rank() == 0 {
            drop(halo);
        } else {
            let broken = (0..10).find_map(|_| halo.exchange(&mut field).err()).expect("it is broken");
            assert!(matches!(broken, Error::PeerLost { rank: 0, .. }), "{broken}");
            let later = halo.start(&field).expect_err("it is broken");
            assert!(matches!(later, Error::PeerLost { rank: 0, .. }), "{later}");
        }
        group.free()
    });
}

/// Others may still be in it: they wait for cells of those who are late.
#[test]
fn whoever_is_done_with_the_last_exchange_may_drop_the_halo() {
    everywhere(5, |world| {
        let group = world.group()?;
        for (late, delay) in (0..5).flat_map(|late| [20, 300_000].map(|delay| (late, delay))) {
            let grid = group.cartesian(&[5], &[true])?;
            let mut halo = grid.halo::<u32>(&[3], HaloOptions::width(1))?;
            let mut field = vec![world.rank(); halo.len()];
            if late == world.rank() {
                kumiki_sim::compute(Time::from_us(delay));
            }
            halo.exchange(&mut field)?;
            let me = world.rank();
            assert_eq!(field, [(me + 4) % 5, me, me, me, (me + 1) % 5]);
            drop(halo);
        }
        group.free()
    });
}

/// Whenever a member crashes, every other one learns who, and nobody waits for ever: a run in which everybody does would be an error.
#[test]
fn a_member_that_crashes_at_any_message_is_named_to_all() {
    const VICTIM: u32 = 2;
    for operation in (1..).step_by(2) {
        let faults = Faults { crashes: vec![Crash { rank: VICTIM, operation }], ..Faults::default() };
        let outcome = cluster(5).faults(faults).run(|attachment| -> Result<()> {
            let world = World::attach(attachment)?;
            let group = world.group();
            let told = group.as_ref().map_err(Error::clone).and_then(halo_until_lost);
            if told.is_err() {
                // Whoever ends now, or leaves the group, would be missed, too.
                for _ in 0..3 {
                    kumiki_sim::compute(Time::from_seconds(1.0));
                    let _ = world.progress();
                }
                return told;
            }
            drop(group);
            world.finalize()
        });
        let outcome = outcome.expect("nobody hangs");
        let mut crashed = false;
        for (rank, end) in outcome.ends.iter().enumerate() {
            match end {
                End::Crashed => crashed = true,
                End::Returned(Ok(())) => {}
                End::Returned(Err(error)) => {
                    let lost = matches!(error, Error::PeerLost { rank, .. } if *rank == VICTIM);
                    assert!(lost, "rank {rank}, crash at {operation}: {error}");
                }
                other => panic!("rank {rank}, crash at {operation}: {other:?}"),
            }
        }
        if !crashed {
            return;
        }
    }
}

fn halo_until_lost(group: &Group<'_>) -> Result<()> {
    let mut halo = group.cartesian(&[5], &[true])?.halo::<u64>(&[50], HaloOptions::width(3))?;
    let mut field = vec![1; halo.len()];
    (0..5).try_for_each(|_| halo.exchange(&mut field))?;
    halo.free()
}

/// As many dimensions as there may be, and many neighbours that are few ranks.
#[test]
fn halos_of_many_dimensions_have_many_neighbours() {
    let six = ([2, 1, 2, 1, 1, 1].to_vec(), [1, 1]);
    let eight = ([1, 2, 1, 1, 1, 2, 1, 1].to_vec(), [1, 0]);
    everywhere(4, |world| {
        let group = world.group()?;
        for (grid, ghosts) in [&six, &eight] {
            let periodic = (0..grid.len()).map(|axis| axis % 3 != 0).collect();
            let ghosts = vec![*ghosts; grid.len()];
            Case { grid: grid.clone(), periodic, ghosts, has_corners: true, fields: 1 }.run(
                &group,
                3,
                |value| value,
            )?;
        }
        group.free()
    });
}

/// What keeps a budget spent.
type Spent<'w> = (Vec<Region<u8>>, Vec<Pending<'w, u64>>);

/// Takes all that the budget has, after as much for messages as a rank takes of others beyond it.
fn spend(world: &World) -> Result<Spent<'_>> {
    let there = world.starter::<u64>(1 - world.rank())?;
    let put = |_| world.put_vec_signal(there, vec![1], there + 1, AtomicOp::Add(1));
    let mut held = (0..60).map(put).collect::<Result<Vec<_>>>()?;
    // What is kept of them stays until somebody asks; the operations are over.
    held.iter_mut().take(1).for_each(|pending| while !pending.is_complete() {});
    world.sync()?;
    let sizes = (3..20).rev().map(|power| 1 << power);
    let taken = sizes.flat_map(|size| std::iter::from_fn(move || world.alloc(size).ok())).collect();
    held.extend(std::iter::from_fn(|| put(0).ok()));
    Ok((taken, held))
}

/// Cells that a rank has no memory to take come not at all: neither side waits for ever, and no old cell is taken for a new one.
#[test]
fn cells_that_are_refused_break_the_halo_for_both_sides() {
    let outcome = cluster(2).budget_bytes(1 << 20).run(|attachment| -> Result<()> {
        let world = World::attach(attachment)?;
        let (group, me) = (world.group()?, world.rank());
        let mut halo = group.cartesian(&[2], &[true])?.halo::<u64>(&[10], HaloOptions::width(1))?;
        let mut field = vec![u64::from(me); halo.len()];
        halo.exchange(&mut field)?;
        if me == 1 {
            halo.start(&field)?;
            let spent = spend(&world)?;
            // The other begins, and goes on.
            (0..2).try_for_each(|_| world.sync())?;
            let failed = halo.finish(&mut field).expect_err("the cells were refused");
            assert!(matches!(failed, Error::Refused(_)), "{failed}");
            drop(spent);
        } else {
            (0..2).try_for_each(|_| world.sync())?;
            // Those of the other have come, and so the first is whole for this side.
            halo.exchange(&mut field)?;
            world.sync()?;
            let failed = halo.exchange(&mut field).expect_err("it was refused");
            assert!(matches!(failed, Error::OutOfMemory { .. }), "{failed}");
        }
        drop(halo);
        group.free()?;
        world.finalize()
    });
    let ends = outcome.expect("nobody hangs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); 2]);
}

/// Whoever panics and goes on tells the others later.
#[test]
fn a_halo_that_is_dropped_while_its_thread_unwinds_is_broken_for_all() {
    everywhere(4, |world| {
        let group = world.group()?;
        let mut halo = group.cartesian(&[4], &[true])?.halo::<u64>(&[10], HaloOptions::width(1))?;
        let mut field = vec![0; halo.len()];
        halo.exchange(&mut field)?;
        if world.rank() == 2 {
            let panics = move || halo.overlap(&mut field, |_| std::panic::resume_unwind(Box::new("a test")));
            let unwound: std::thread::Result<Result<()>> = catch_unwind(AssertUnwindSafe(panics));
            assert!(unwound.is_err());
        } else {
            let broken = (0..10).find_map(|_| halo.exchange(&mut field).err()).expect("it is broken");
            assert!(matches!(broken, Error::PeerLost { rank: 2, .. }), "{broken}");
        }
        group.free()
    });
}

#[test]
fn a_halo_is_not_freed_in_the_middle_of_an_exchange() {
    everywhere(2, |world| {
        let group = world.group()?;
        let mut halo = group.cartesian(&[2], &[true])?.halo::<u64>(&[10], HaloOptions::width(1))?;
        halo.start(&vec![0; halo.len()])?;
        let refused = halo.free().expect_err("it was not finished");
        assert!(matches!(refused, Error::Misuse(_)), "{refused}");
        group.free()
    });
}
