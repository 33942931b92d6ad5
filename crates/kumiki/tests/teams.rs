//! Teams in the simulator, where each rank has a node of its own. Those on one node, and on several, are in the conformance suite.

use kumiki::{Error, Members, Purpose, Result, Team, World};
use kumiki_sim::{Cluster, Network};
use std::time::Duration;

/// Runs a program on all ranks of a small cluster; each must end like this.
fn everywhere(ranks: u32, program: impl Fn(&World) -> Result<()> + Send + Sync) {
    let outcome = Cluster::new(ranks, Network::torus(&[ranks])).run(|attachment| {
        let world = World::attach(attachment)?;
        program(&world)?;
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); ranks as usize]);
}

/// Members take turns: what one writes before a barrier, the next sees behind it.
fn pass_round(world: &World, team: &Team) -> Result<()> {
    let (me, members) = (team.rank(), team.ranks());
    let next = team.world_rank((me + 1) % members).expect("a member");
    for round in 0..3u64 {
        world.put(world.starter::<u64>(next)?, round << 32 | u64::from(me))?;
        team.sync()?;
        let before = u64::from((me + members - 1) % members);
        assert_eq!(world.get(world.starter::<u64>(world.rank())?)?, round << 32 | before);
        team.sync()?;
    }
    Ok(())
}

#[test]
fn teams_of_every_shape_meet_without_the_others() {
    everywhere(9, |world| {
        let me = world.rank();
        let shapes: [Members; 5] =
            [(2..7).into(), Members::strided(1, 3, 3), [8, 0, 5, 6].into(), [4].into(), (0..9).into()];
        for members in shapes {
            let team = world.team(members.clone())?;
            assert_eq!(team.is_some(), members.position(me).is_some(), "{members:?}");
            let Some(team) = team else { continue };
            assert_eq!((Some(team.rank()), team.ranks()), (members.position(me), members.len()));
            assert!((0..9).all(|rank| team.rank_of(rank) == members.position(rank)));
            pass_round(world, &team)?;
            team.free()?;
        }
        world.sync()
    });
}

#[test]
fn a_split_orders_by_key_and_is_split_again() {
    everywhere(8, |world| {
        let me = world.rank();
        // Rows of a matrix, the last first; and nobody knows of rank 7.
        let row = world.team_split((me != 7).then_some(me / 4), -i64::from(me))?;
        let Some(row) = row else {
            assert_eq!(me, 7);
            return Ok(());
        };
        let ranks = if me < 4 { vec![3, 2, 1, 0] } else { vec![6, 5, 4] };
        assert_eq!(row.members().iter().collect::<Vec<_>>(), ranks);
        pass_round(world, &row)?;
        // Halves of each row, that live beside it.
        let half = row.team_split(world, row.rank() / 2, 0)?.expect("a colour");
        assert!(half.members().iter().all(|rank| row.rank_of(rank).map(|at| at / 2) == Some(row.rank() / 2)));
        pass_round(world, &half)?;
        let first = row.team(world, 0..1)?;
        assert_eq!(first.is_some(), row.rank() == 0);
        pass_round(world, &row)?;
        half.free()?;
        drop(first);
        row.free()
    });
}

#[test]
fn ranks_that_name_different_members_get_an_error_and_go_on() {
    everywhere(4, |world| {
        let odd = world.rank() == 2;
        let refused = world.team(if odd { 0..3 } else { 0..2 }).expect_err("they differ");
        assert!(matches!(refused, Error::Misuse(_)), "{refused}");
        let refused = world.team(if odd { 0..5 } else { 0..2 }).expect_err("there is no rank 4");
        assert!(matches!(refused, Error::Misuse(_)), "{refused}");
        let refused = world.team([1, 3, 1]).expect_err("rank 1 twice");
        assert!(matches!(refused, Error::Misuse(_)), "{refused}");
        let all = world.team(0..4)?.expect("a member");
        let refused = all.team(world, if odd { 0..3 } else { 0..2 }).expect_err("they differ");
        assert!(matches!(refused, Error::Misuse(_)), "{refused}");
        pass_round(world, &all)?;
        assert_eq!(world.heap_use(0)?.blocks, 0, "nothing is left of the tables");
        all.free()
    });
}

#[test]
fn a_team_takes_what_the_ledger_says_and_gives_it_back() {
    everywhere(8, |world| {
        let of = || world.ledger().of(Purpose::Team);
        let (before, heap) = (of(), world.ledger().of(Purpose::Heap));
        let all = world.team(0..8)?.expect("a member");
        assert_eq!(of() - before, all.bytes() as u64);
        // However many members: the ways of a leader are one for each round.
        assert!(all.bytes() <= 1024, "{} bytes", all.bytes());
        let mixed = world.team_split(0, i64::from(world.rank() * 5 % 8))?.expect("a member");
        assert!(mixed.bytes() <= all.bytes() + 4 * 8 + 16, "{} bytes", mixed.bytes());
        assert_eq!(of() - before, (all.bytes() + mixed.bytes()) as u64);
        all.free()?;
        mixed.free()?;
        assert_eq!((of(), world.ledger().of(Purpose::Heap)), (before, heap));
        Ok(())
    });
}

#[test]
fn a_member_that_leaves_ends_the_wait_of_all_others() {
    everywhere(7, |world| {
        let team = world.team(0..7)?.expect("a member");
        team.sync()?;
        if world.rank() == 3 {
            drop(team);
        } else {
            for _ in 0..2 {
                let lost = team.sync().expect_err("one is missing");
                assert!(matches!(lost, Error::PeerLost { rank: 3, .. }), "{lost}");
            }
        }
        // The world is whole.
        world.sync()
    });
}

#[test]
fn a_member_that_frees_while_the_others_go_on_ends_their_next_wait() {
    everywhere(5, |world| {
        let team = world.team(0..5)?.expect("a member");
        if world.rank() == 1 {
            team.free()?;
        } else {
            team.sync()?;
            let lost = team.sync().expect_err("one is missing");
            assert!(matches!(lost, Error::PeerLost { rank: 1, .. }), "{lost}");
        }
        world.sync()
    });
}

#[test]
fn a_team_of_one_member_has_any_stride() {
    everywhere(4, |world| {
        let odd = world.team(Members::strided(1, 2, 2))?;
        if let Some(odd) = odd {
            let one = odd.team(world, Members::strided(1, u32::MAX, 1))?;
            assert_eq!(one.map(|one| one.world_rank(0)), (world.rank() == 3).then_some(Some(3)));
            odd.free()?;
        }
        Ok(())
    });
}

#[test]
fn a_barrier_that_was_given_up_is_gone_on_with() {
    everywhere(3, |world| {
        let team = world.team(0..3)?.expect("a member");
        if world.rank() == 2 {
            kumiki_sim::compute(kumiki_sim::Time::from_us(50_000));
        } else {
            let late = team.sync_for(Duration::from_millis(5)).expect_err("rank 2 computes");
            assert!(matches!(late, Error::Timeout { .. }), "{late}");
        }
        team.sync()?;
        pass_round(world, &team)?;
        team.free()
    });
}

#[test]
fn whoever_finalizes_is_missed_in_its_teams() {
    let outcome = Cluster::new(3, Network::torus(&[3])).run(|attachment| {
        let world = World::attach(attachment)?;
        let team = world.team(0..2)?;
        match &team {
            Some(team) if world.rank() == 0 => {
                let lost = team.sync().expect_err("rank 1 comes no more");
                assert!(matches!(lost, Error::PeerLost { rank: 1, .. }), "{lost}");
            }
            _ => {}
        }
        world.finalize()
    });
    assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 3]);
}
