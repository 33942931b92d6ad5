//! Teams of ranks on one node, on several, and on both together.

use crate::stage::Stage;
use kumiki::{Error, Members, Purpose, Team};
use std::time::Duration;

/// Where members write to each other: a place for each of them.
const PLACES_AT: usize = 32;

/// What a member wrote before a barrier of its team is seen after it.
fn meet(stage: &Stage, team: &Team, rounds: u64) {
    let (world, me, members) = (&stage.world, team.rank(), team.ranks());
    let member = |rank: u32| team.world_rank(rank % members).expect("a member");
    for round in 1..=rounds {
        let place = |rank: u32, from: u32| stage.starter(rank).add(PLACES_AT + from as usize);
        world.put(place(member(me + 1), stage.me()), round).expect("put");
        team.sync().expect("the team meets");
        let before = member(me + members - 1);
        assert_eq!(world.get(place(stage.me(), before)).expect("get"), round, "of rank {before}");
        team.sync().expect("the team meets");
    }
}

/// Teams of all shapes, made again and again, some of them alive at once; each meets while others do something else.
pub(crate) fn teams(stage: &Stage) {
    let (world, me, ranks) = (&stage.world, stage.me(), stage.ranks());
    let heap = |purpose| world.ledger().of(purpose);
    let before = (heap(Purpose::Team), heap(Purpose::Heap));
    for round in 0..10 {
        let shapes: [Members; 4] =
            [(0..ranks).into(), (1..3).into(), Members::strided(0, 2, 2), [3, 0, 2].into()];
        let teams: Vec<Team> =
            shapes.into_iter().filter_map(|members| world.team(members).expect("a team")).collect();
        for team in teams.iter().rev() {
            meet(stage, team, 20);
        }
        let halves = world.team_split((me + round) % 2, -i64::from(me)).expect("a split").expect("a colour");
        meet(stage, &halves, 20);
        let alone = halves.team_split(world, halves.rank(), 0).expect("a split").expect("a colour");
        assert_eq!((alone.ranks(), alone.world_rank(0)), (1, Some(me)));
        meet(stage, &alone, 2);
        meet(stage, &teams[0], 5);
        alone.free().expect("free");
        halves.free().expect("free");
        teams.into_iter().for_each(|team| team.free().expect("free"));
    }
    // The first member on a node gives the memory back that all of them there share, when the last of them has left.
    stage.sync();
    drop(world.team(0..ranks).expect("a team"));
    stage.sync();
    drop(world.team(0..1).expect("a team"));
    assert_eq!((heap(Purpose::Team), heap(Purpose::Heap)), before);
}

/// Threads of a rank are in different teams at once.
pub(crate) fn teams_of_threads(stage: &Stage) {
    let (world, me, ranks) = (&stage.world, stage.me(), stage.ranks());
    let row = world.team_split(me / 2, 0).expect("a split").expect("a colour");
    let column = world.team_split(me % 2, 0).expect("a split").expect("a colour");
    let all = world.team(0..ranks).expect("a team").expect("a member");
    let meets = |team: &'static str, in_team: &dyn Fn() -> Result<(), Error>| {
        (0..200).for_each(|_| in_team().unwrap_or_else(|error| panic!("{team}: {error}")));
    };
    stage.at_once([
        Box::new(|| meets("row", &|| row.sync())) as Box<dyn FnOnce() + Send>,
        Box::new(|| meets("column", &|| column.sync())),
        Box::new(|| meets("all", &|| all.sync())),
    ]);
    // Two threads make teams in one circle: each team is one thread's on every rank, whichever that is.
    let make = || {
        for _ in 0..20 {
            let team = row.team_split(world, 0, 0).expect("a split").expect("a colour");
            team.sync().expect("the team meets");
        }
    };
    stage.at_once([Box::new(make) as Box<dyn FnOnce() + Send>, Box::new(make)]);
    [row, column, all].into_iter().for_each(|team| team.free().expect("free"));
}

/// A barrier of a team that timed out goes on with the next call; a member that leaves ends the wait of the others.
pub(crate) fn late_and_left(stage: &Stage) {
    let (world, me, ranks) = (&stage.world, stage.me(), stage.ranks());
    for leaver in 0..ranks {
        let team = world.team(0..ranks).expect("a team").expect("a member");
        let timed_out = stage.starter(leaver).add(PLACES_AT + ranks as usize);
        world.put(stage.starter(me).add(PLACES_AT + ranks as usize), 0u64).expect("put");
        stage.sync();
        if me == leaver {
            // Comes only when everybody else has given up once.
            while world.get(timed_out).expect("get") < u64::from(ranks - 1) {
                std::thread::yield_now();
            }
            team.sync().expect("the barrier goes on");
            drop(team);
        } else {
            let early = team.sync_for(Duration::from_millis(5));
            assert!(matches!(early, Err(Error::Timeout { .. })), "{early:?}");
            world.fetch_add(timed_out, 1u64).expect("add");
            team.sync_for(Duration::from_secs(60)).expect("the barrier goes on");
            for _ in 0..2 {
                let lost = team.sync();
                let named = matches!(lost, Err(Error::PeerLost { rank, .. }) if rank == leaver);
                assert!(named, "{lost:?} instead of {leaver}");
            }
        }
        // The others leave only when all know whom they miss.
        stage.sync();
    }
}
