//! Looks at arenas that are as they should be, and at bytes that are not.

use super::*;
use crate::shm::arena::tests::config as usual;
use crate::shm::arena::Arena;
use crate::shm::world::Cause;
use crate::Rank;
use proptest::prelude::*;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

/// An arena of which some bytes are others.
struct Altered {
    file: std::fs::File,
    bytes: u64,
    changes: Vec<(u64, u8)>,
}

impl Source for Altered {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, place: u64, into: &mut [u8]) -> bool {
        let end = place.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.bytes) || self.file.read_exact_at(into, place).is_err() {
            return false;
        }
        for (at, byte) in &self.changes {
            if let Some(old) = at.checked_sub(place).and_then(|at| into.get_mut(at as usize)) {
                *old ^= byte;
            }
        }
        true
    }
}

fn altered(arena: &Arena, changes: Vec<(u64, u8)>) -> Altered {
    let file = std::fs::File::from(crate::os::memory::duplicate(arena.descriptor()).unwrap());
    Altered { file, bytes: arena.bytes(), changes }
}

/// A world of three, of whom the last has not come; rank 0 waits for a message of rank 1.
fn arena() -> Arena {
    let arena = Arena::create(Config { nodes: 2, ..usual(3) }).unwrap();
    for local in 0..2u32 {
        arena.prepare_rank(local).unwrap();
        let place = Place { node: 0, local, status: Status::Alive, cause: Cause::UNKNOWN };
        arena.place(Rank(local)).unwrap().store(place, arena.changes());
        let control = arena.control(local).unwrap();
        control.board.introduce(Rank(local), Origin::Block { block: local, rank: 7 });
        control.pid.store(100 + local, Ordering::Relaxed);
        control.booked.store(5000, Ordering::Relaxed);
    }
    arena.node(1).unwrap().store("10.0.0.7:80".parse().unwrap());
    let place = Place { node: 1, local: 0, status: Status::Alive, cause: Cause::UNKNOWN };
    arena.place(Rank(2)).unwrap().store(place, arena.changes());
    arena.control(0).unwrap().begin_wait(Activity::Receive, 1, 77);
    arena.control(1).unwrap().begin_wait(Activity::Send, 2, 78);
    arena.shared().set_phase(Phase::Ready);
    arena
}

#[test]
fn who_is_there_and_what_it_waits_for_is_seen() {
    let arena = arena();
    let traffic = Traffic {
        sent: 1,
        sent_bytes: 2,
        received: 3,
        received_bytes: 4,
        unexpected: 5,
        receives: 6,
        sends: 7,
    };
    arena.control(1).unwrap().board.tell(&traffic);
    arena.control(1).unwrap().board.tell_operations(1 << 40);
    let before = arena.occupied_bytes().unwrap();
    let glance = Glance::at(&altered(&arena, vec![])).unwrap();
    assert_eq!(arena.occupied_bytes().unwrap(), before, "a look takes no memory");
    assert_eq!((glance.job, glance.ranks, glance.nodes, glance.phase), (7, 3, 2, Phase::Ready));
    assert_eq!((glance.members.len(), glance.budget_bytes), (2, None));
    let [zero, one] = [glance.members[0], glance.members[1]];
    assert_eq!((zero.rank, zero.pid, zero.booked_bytes), (0, 100, 5000));
    assert_eq!((zero.activity, zero.waits_for, zero.since_ms), (Activity::Receive, Some(1), 77));
    assert_eq!((one.origin, one.traffic), (Origin::Block { block: 1, rank: 7 }, traffic));
    assert_eq!((one.operations, one.status), (u32::MAX, Status::Alive));
    let far = glance.awaited[&2];
    assert_eq!((far.node, far.address), (1, Some("10.0.0.7:80".parse().unwrap())));
}

#[test]
fn what_is_no_arena_of_this_version_is_said_to_be_none() {
    let arena = arena();
    let of = |changes| Glance::at(&altered(&arena, changes)).unwrap_err();
    let own = (MAGIC >> 56) as u8;
    assert_eq!(of(vec![(7, own ^ 99)]), Strange::OtherVersion(99));
    assert_eq!(of(vec![(0, 1)]), Strange::NoArena);
    assert_eq!(of(vec![(offset_of!(Head, arena_bytes) as u64, 1)]), Strange::Contradiction);
    let short = Altered { bytes: 20, ..altered(&arena, vec![]) };
    assert_eq!(Glance::at(&short), Err(Strange::NoArena));
    let other = Altered { bytes: arena.bytes() - 4096, ..altered(&arena, vec![]) };
    assert_eq!(Glance::at(&other), Err(Strange::Contradiction));
}

#[test]
fn a_rank_that_cannot_be_is_not_there() {
    let arena = arena();
    arena.control(0).unwrap().board.introduce(Rank(3), Origin::Run);
    arena.control(1).unwrap().board.introduce(Rank(u32::MAX), Origin::Run);
    assert_eq!(Glance::at(&altered(&arena, vec![])).unwrap().members, []);
    arena.control(0).unwrap().board.introduce(Rank(2), Origin::Run);
    arena.control(1).unwrap().board.introduce(Rank(2), Origin::Run);
    arena.control(0).unwrap().begin_wait(Activity::Receive, 3, 1);
    let members = Glance::at(&altered(&arena, vec![])).unwrap().members;
    assert_eq!(members.iter().map(|member| (member.rank, member.waits_for)).collect::<Vec<_>>(), [(2, None)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever others write: something is seen, or it is said why not, and no rank is seen that there is not.
    #[test]
    fn whatever_stands_there_is_read_or_refused(
        head in proptest::collection::vec((0u64..HEAD_BYTES, any::<u8>()), 0..12),
        tables in proptest::collection::vec((0u64..40_000, any::<u8>()), 0..200),
        bytes in prop_oneof![Just(None), any::<u64>().prop_map(Some), (0u64..50_000).prop_map(Some)],
    ) {
        let arena = arena();
        let mut source = altered(&arena, head);
        source.changes.extend(tables);
        source.bytes = bytes.unwrap_or(source.bytes);
        if let Ok(glance) = Glance::at(&source) {
            prop_assert!(glance.members.len() <= glance.local_ranks as usize);
            prop_assert!(glance.members.iter().all(|member| member.rank < glance.ranks));
            prop_assert!(glance.awaited.keys().all(|rank| *rank < glance.ranks));
        }
    }
}
