//! Groups of ranks on one node, on several, and on both together: the sweep of all collectives, and what breaks a group.

use crate::stage::Stage;
use crate::sweep;
use kumiki::comm::{Group, GroupOptions, Sum};
use kumiki::{Error, Members, Purpose};

/// Every collective, algorithm, type and operation.
pub(crate) fn collectives(stage: &Stage) {
    let group = stage.world.group().expect("a group");
    sweep::sweep(&group, &[0, 1, 5]).expect("the sweep");
    sweep::types(&group, 3).expect("all types");
    group.free().expect("free");
}

/// What is longer than a block, in blocks of several sizes, and in groups that are only some of the ranks.
pub(crate) fn long_collectives(stage: &Stage) {
    let world = &stage.world;
    let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
    let before = of();
    for bytes in [4 << 10, 256 << 10] {
        let group = world.group_with(GroupOptions::default().block_bytes(bytes)).expect("a group");
        assert!(group.block_bytes() <= bytes);
        sweep::sweep(&group, &[500]).expect("the sweep");
        group.free().expect("free");
    }
    let members: [Members; 2] = [Members::from([3, 0, 2]), (1..3).into()];
    for team in members.map(|members| world.team(members).expect("a team")) {
        let Some(team) = team else { continue };
        let group = team.group(world).expect("a group");
        sweep::sweep(&group, &[0, 40]).expect("the sweep");
        group.free().expect("free");
        team.free().expect("free");
    }
    stage.sync();
    drop(world.team(0..stage.ranks()).expect("a team"));
    stage.sync();
    drop(world.team(0..1).expect("a team"));
    assert_eq!(of(), before);
}

/// A member that does something else, fails or leaves is an error for all, in whatever they wait.
pub(crate) fn broken_collectives(stage: &Stage) {
    type Call = fn(&Group<'_>, bool) -> kumiki::Result<()>;
    let calls: [Call; 5] = [
        |group, odd| match odd {
            true => group.allreduce(&mut [1u64], Sum),
            false => group.broadcast(0, &mut [1u64]),
        },
        |group, odd| group.allreduce(&mut vec![1u64; if odd { 30_000 } else { 2 }], Sum),
        |group, odd| group.broadcast(if odd { 9 } else { 0 }, &mut [1u64]),
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
