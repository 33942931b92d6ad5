//! Groups in the simulator, where each rank has a node of its own. Those on one node, and on several, are in the conformance suite.

#[path = "../../../tests/sweep.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod sweep;

use kumiki::comm::{Algorithm, Combine, GroupOptions, Max, Sum};
use kumiki::{Error, Members, Purpose, Result, World};
use kumiki_sim::{Cluster, Crash, End, Faults, Network, Time};

fn cluster(ranks: u32) -> Cluster {
    Cluster::new(ranks, Network::torus(&[ranks]))
}

/// Runs a program on all ranks of a small cluster; each must end like this.
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
fn every_collective_gives_what_one_member_alone_computes() {
    for ranks in (1..=9).chain([16]) {
        everywhere(ranks, |world| {
            let group = world.group()?;
            sweep::sweep(&group, &[0, 1, 6])?;
            sweep::started(&group, 6)?;
            group.free()
        });
    }
}

#[test]
fn all_types_of_numbers_and_what_does_not_fit_into_a_block() {
    everywhere(5, |world| {
        let group = world.group()?;
        sweep::types(&group, 3)?;
        sweep::brief(&group, &[700])?;
        group.free()
    });
}

#[test]
fn groups_that_overlap_go_on_at_once_and_give_back_all_they_took() {
    everywhere(6, |world| {
        let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
        let before = of();
        let all = world.group()?;
        let odd = world.team_split(world.rank() % 2, -i64::from(world.rank()))?.expect("a colour");
        let pair = world.team(Members::from([4, 1]))?;
        let (half, two) = (odd.group(world)?, pair.as_ref().map(|pair| pair.group(world)).transpose()?);
        for round in 0..5 {
            let mut last = [world.rank() + round];
            all.allreduce(&mut last, Max)?;
            assert_eq!(last, [5 + round]);
            let mut sum = [world.rank()];
            half.allreduce(&mut sum, Sum)?;
            assert_eq!(sum, [if world.rank() % 2 == 0 { 6 } else { 9 }]);
            if let Some(two) = &two {
                let mut text = [[u64::from(world.rank())]];
                two.allreduce(
                    &mut text,
                    Combine::ordered(|[one]: [u64; 1], [other]: [u64; 1]| [10 * one + other]),
                )?;
                assert_eq!(text, [[41]]);
            }
        }
        assert!(all.block_bytes() <= 16 << 10 && world.ledger().of(Purpose::Comm) < before[0] + (64 << 10));
        two.map_or(Ok(()), |two| two.free())?;
        half.free()?;
        all.free()?;
        odd.free()?;
        pair.map_or(Ok(()), |pair| pair.free())?;
        world.sync()?;
        assert_eq!(of(), before);
        assert_eq!(world.heap_use(0)?.blocks, 0, "nothing is left of the tables");
        Ok(())
    });
}

/// After the trials all members keep the same algorithm; another group learns it and tries nothing. A text that is wrong is refused.
#[test]
fn all_members_keep_the_same_algorithm_and_others_learn_it() {
    everywhere(6, |world| {
        let group = world.group()?;
        for round in 0..130u64 {
            let mut sum = [round; 8];
            group.allreduce(&mut sum, Sum)?;
            assert_eq!(sum, [6 * round; 8]);
            let mut all = [0; 6];
            group.allgather(&[world.rank()], &mut all)?;
            assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        }
        let (decided, text) = (group.decisions(), group.decisions_as_text());
        assert_eq!(decided.len(), 2, "{text}");
        let marks = [decided[0].algorithm as u8, decided[1].algorithm as u8];
        let mut all = [0; 12];
        group.allgather(&marks, &mut all)?;
        assert_eq!(all[..], marks.repeat(6), "the same on all");
        let other = world.group()?;
        other.learn(&text)?;
        assert_eq!(other.decisions_as_text(), text);
        let wrong = other.learn("kumiki decisions 1\nallreduce quick").expect_err("not a decision");
        assert!(wrong.to_string().contains("line 2"), "{wrong}");
        let fixed = world.group_with(GroupOptions::default().fixed())?;
        (0..120).try_for_each(|_| fixed.allreduce(&mut [1.5], Sum))?;
        assert!(fixed.decisions().is_empty());
        [group, other, fixed].into_iter().try_for_each(|group| group.free())
    });
}

/// Whoever has no memory, or says something else, keeps all from having the group, and nobody is out of step afterwards.
#[test]
fn a_group_that_one_member_cannot_be_in_is_nobodys() {
    let outcome = cluster(4).budget_bytes(1 << 20).run(|attachment| {
        let world = World::attach(attachment)?;
        let hog = (world.rank() == 2).then(|| {
            let left = world.ledger().budget_bytes.expect("a budget")
                - world.ledger().entries.iter().map(|entry| entry.bytes).sum::<u64>();
            world.alloc::<u8>(left as usize - 12_000)
        });
        let short = world.group().expect_err("one has no memory");
        let own = matches!(short, Error::OutOfMemory { .. });
        assert!(own == (world.rank() == 2) && (own || matches!(short, Error::Refused(_))), "{short}");
        drop(hog);
        let bytes = if world.rank() == 1 { 8 << 10 } else { 4 << 10 };
        let other = world.group_with(GroupOptions::default().block_bytes(bytes)).expect_err("they differ");
        assert!(matches!(other, Error::Misuse(_)), "{other}");
        let small = world.group_with(GroupOptions::default().block_bytes(100)).expect_err("too small");
        assert!(matches!(small, Error::Misuse(_)), "{small}");
        let group = world.group()?;
        group.barrier()?;
        group.free()?;
        world.finalize()
    });
    assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 4]);
}

/// Each of these is an error on every member, and so is every later call.
#[test]
fn members_that_do_different_things_all_get_an_error() {
    type Call = fn(&kumiki::comm::Group<'_>, bool) -> Result<()>;
    let calls: &[(&str, Call)] = &[
        ("another collective", |group, odd| match odd {
            true => group.allreduce(&mut [1u64], Sum),
            false => group.broadcast(0, &mut [1u64]),
        }),
        ("another operation", |group, odd| match odd {
            true => group.allreduce(&mut [1u64], Sum),
            false => group.allreduce(&mut [1u64], Max),
        }),
        ("another length", |group, odd| group.allreduce(&mut vec![1u64; 3 + usize::from(odd)], Sum)),
        ("no room", |group, odd| group.allreduce_into(&[1u64; 3], &mut vec![0; 3 - usize::from(odd)], Sum)),
        ("another root", |group, odd| group.reduce(u32::from(odd), &mut [1u64], Sum)),
        ("a root that is not there", |group, odd| group.broadcast(if odd { 9 } else { 0 }, &mut [1u64])),
        ("a length that does not fit", |group, odd| {
            group.alltoall(&[1u8; 5], &mut vec![0; 5 + usize::from(odd)])
        }),
        ("another count", |group, odd| {
            let mut into = [0u64; 5];
            group.alltoallv(
                &[1; 5],
                &[1; 5],
                &mut into[..if odd { 4 } else { 5 }],
                &[1, 1, 1, 1, u32::from(!odd) as usize],
            )
        }),
        ("one that leaves", |group, odd| {
            if odd {
                Err(Error::Misuse("it leaves".into()))
            } else {
                group.barrier().and_then(|()| group.allreduce(&mut [1u8], Sum))
            }
        }),
    ];
    for (what, call) in calls {
        everywhere(5, |world| {
            let group = world.group()?;
            let odd = world.rank() == 3;
            // Whoever only sends may not notice it at once.
            let _ = (0..3).map(|_| call(&group, odd)).find(Result::is_err);
            if odd {
                drop(group);
            } else {
                let later = group.allreduce(&mut [1u64], Sum);
                assert!(later.is_err(), "{what}");
            }
            Ok(())
        });
    }
}

/// One that has another root may be done at once, and go on: the others must not wait for it, nor it for them.
#[test]
fn a_member_that_finished_with_another_root_and_went_on_is_found_out() {
    everywhere(3, |world| {
        let group = world.group()?;
        let root = if world.rank() == 1 { 2 } else { 0 };
        let mut into = [0; 3];
        let gathered = group.gather(root, &[world.rank()], &mut into);
        let met = group.barrier();
        assert!(gathered.is_err() || met.is_err(), "rank {}", world.rank());
        Ok(())
    });
}

/// What each tells the others while it leaves is no error that the program has seen.
#[test]
fn groups_that_go_out_of_scope_leave_the_world_as_it_was() {
    everywhere(4, |world| {
        for _ in 0..3 {
            let group = world.group()?;
            group.allreduce(&mut [1.0], Sum)?;
        }
        world.sync()?;
        assert!(!world.has_returned_an_error());
        Ok(())
    });
}

/// Others may still be in it: what they need of it they get.
#[test]
fn whoever_is_done_with_the_last_call_may_drop_the_group() {
    let algorithms = [None, Some(Algorithm::Tree), Some(Algorithm::Doubling), Some(Algorithm::Ring)];
    for (ranks, algorithm) in [4, 5, 8].into_iter().flat_map(|ranks| algorithms.map(|by| (ranks, by))) {
        everywhere(ranks, |world| {
            // Each is behind the others in some of them: a little, or for so long that they ask what it does.
            for (late, delay) in (0..ranks).flat_map(|late| [20, 300_000].map(|delay| (late, delay))) {
                for last in 0..4 {
                    let group = world.group()?;
                    group.force(algorithm);
                    if late == world.rank() {
                        kumiki_sim::compute(Time::from_us(delay));
                    }
                    let mut sum = vec![u64::from(world.rank()); 700];
                    match last {
                        0 => group.allreduce(&mut sum, Sum)?,
                        1 => sum = group.start_allreduce(sum, Sum)?.wait()?,
                        2 => group.broadcast(late, &mut sum)?,
                        _ => group.barrier()?,
                    }
                    let expected = [ranks * (ranks - 1) / 2, ranks * (ranks - 1) / 2, late, world.rank()];
                    assert!(sum.iter().all(|sum| *sum == u64::from(expected[last])));
                }
            }
            Ok(())
        });
    }
}

#[test]
fn an_operation_that_calls_its_own_group_is_misuse() {
    everywhere(2, |world| {
        let group = world.group()?;
        let add = |one: u64, other: u64| {
            assert!(matches!(group.barrier(), Err(Error::Misuse(_))));
            one + other
        };
        let mut sum = [1];
        group.allreduce(&mut sum, Combine::any_order(add))?;
        assert_eq!(sum, [2]);
        group.free()
    });
}

#[test]
fn what_is_long_goes_straight_and_comes_whole() {
    for ranks in [1, 2, 3, 5] {
        everywhere(ranks, |world| {
            let comm = world.ledger().of(Purpose::Comm);
            let group = world.group()?;
            sweep::long(&group)?;
            group.free()?;
            assert_eq!(world.ledger().of(Purpose::Comm), comm);
            Ok(())
        });
    }
}

/// In the middle of a collective: an error on all, and nothing is left of it.
#[test]
fn a_member_without_memory_in_a_collective_is_an_error_on_all_and_leaks_nothing() {
    let outcome = cluster(4).budget_bytes(2 << 20).run(|attachment| {
        let world = World::attach(attachment)?;
        let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
        let before = of();
        for is_started in [false, true] {
            let group = world.group()?;
            let hog = (world.rank() == 2).then(|| {
                let left = world.ledger().budget_bytes.expect("a budget")
                    - world.ledger().entries.iter().map(|entry| entry.bytes).sum::<u64>();
                world.alloc::<u8>(left as usize - 20_000)
            });
            world.sync()?;
            let short = match is_started {
                false => group.allreduce(&mut vec![1u64; 40_000], Sum),
                true => group.start_alltoall(&[1u64; 16_000]).and_then(|started| started.wait()).map(drop),
            };
            let short = short.expect_err("one has no memory");
            let own = matches!(short, Error::OutOfMemory { .. });
            assert!(own == (world.rank() == 2), "rank {}: {short}", world.rank());
            drop((hog, group));
            world.sync()?;
            let later = world.group()?;
            later.barrier()?;
            later.free()?;
            world.sync()?;
            assert_eq!(of(), before);
        }
        world.finalize()
    });
    assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 4]);
}

#[test]
fn a_grid_has_rows_columns_and_neighbours() {
    everywhere(6, |world| {
        let group = world.group()?;
        let grid = group.cartesian(&[2, 3], &[false, true])?;
        let (me, rank) = (grid.coordinates().to_vec(), world.rank());
        assert_eq!((me[0], me[1]), (rank / 3, rank % 3));
        assert_eq!(grid.neighbours(0), [rank.checked_sub(3), Some(rank + 3).filter(|rank| *rank < 6)]);
        assert_eq!(grid.neighbour(1, 4), Some(rank / 3 * 3 + (rank + 1) % 3));
        let (row, column) = (grid.line(1)?, grid.line(0)?);
        let (mut in_row, mut in_column) = ([rank], [rank]);
        row.allreduce(&mut in_row, Sum)?;
        column.allreduce(&mut in_column, Sum)?;
        assert_eq!((in_row, in_column), ([if rank < 3 { 3 } else { 12 }], [2 * (rank % 3) + 3]));
        assert_eq!((row.rank(), column.rank()), (me[1], me[0]));
        assert!(matches!(grid.line(2), Err(Error::Misuse(_))));
        let all = grid.part(&[0, 1])?;
        assert_eq!((all.rank(), all.ranks()), (rank, 6));
        [row, column, all, group].into_iter().try_for_each(|group| group.free())
    });
}

/// Whenever a member crashes, every other one learns it, and nobody waits for ever: a run in which everybody does would be an error.
#[test]
fn a_member_that_crashes_at_any_message_is_missed_by_all() {
    const VICTIM: u32 = 2;
    for operation in (1..).step_by(3) {
        let faults = Faults { crashes: vec![Crash { rank: VICTIM, operation }], ..Faults::default() };
        let outcome = cluster(5).faults(faults).run(|attachment| -> Result<()> {
            let world = World::attach(attachment)?;
            let told = collectives_until_lost(&world);
            if told.is_err() {
                // Whoever ends now would be missed, too.
                for _ in 0..3 {
                    kumiki_sim::compute(Time::from_seconds(1.0));
                    let _ = world.progress();
                }
                return told;
            }
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

fn collectives_until_lost(world: &World) -> Result<()> {
    let group = world.group()?;
    for _ in 0..2 {
        group.allreduce(&mut [1u64; 400], Sum)?;
        group.broadcast(1, &mut [1u8; 3000])?;
        group.alltoall(&[1u32; 5], &mut [0; 5])?;
    }
    group.free()
}
