//! The block where members of a team on one node meet, with two ranks of a node in this process.

use kumiki_mem::{Attachment, Error, Purpose, Rank, Team, World};
use kumiki_net::auth::JobId;
use kumiki_net::shm::arena::{Arena, Config, Phase};
use kumiki_net::shm::world::{Cause, Place, Status};
use kumiki_net::terms::Terms;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// Two ranks that meet in one arena. They come and go together, in threads of their own.
fn with_neighbours(body: impl FnOnce(&[World; 2])) {
    let (job, ranks, local_ranks, machine_ranks) = (1, 2, 2, 2);
    let (nodes, node, machine_cores, terms) = (1, 0, 1, Terms::default());
    let config = Config { job, ranks, nodes, node, local_ranks, machine_ranks, machine_cores, terms };
    let arena = Arc::new(Arena::create(config).unwrap());
    for local in 0..ranks {
        arena.prepare_rank(local).unwrap();
        let place = Place { node, local, status: Status::Alive, cause: Cause::UNKNOWN };
        arena.place(Rank(local)).unwrap().store(place, arena.changes());
        arena.control(local).unwrap().pid.store(std::process::id(), Ordering::Relaxed);
    }
    arena.shared().set_phase(Phase::Ready);
    let attach = |rank| {
        let attachment = Attachment::new(arena.clone(), Rank(rank), None, JobId(1));
        std::thread::spawn(move || World::attach(attachment, &[]).unwrap())
    };
    let worlds = [0, 1].map(attach).map(|thread| thread.join().unwrap());
    body(&worlds);
    let ends = worlds.map(|world| std::thread::spawn(move || world.finalize()));
    assert_eq!(ends.map(|thread| thread.join().unwrap()), [Ok(()), Ok(())]);
}

fn prepare(worlds: &[World; 2]) -> [Team; 2] {
    [0, 1].map(|rank: usize| worlds[rank].prepare_team(7, (0..2).into()).unwrap().unwrap())
}

#[test]
fn a_block_that_a_neighbour_has_found_is_not_given_back_before_it_has_left() {
    with_neighbours(|worlds| {
        let heap = || worlds[0].ledger().of(Purpose::Heap);
        let before = heap();
        let [first, second] = prepare(worlds);
        second.join().unwrap();
        // The first fails after all have prepared: it does not know who has joined.
        drop(first);
        let blocks: Vec<_> = (0..64).map(|_| worlds[0].alloc::<u64>(32).unwrap()).collect();
        let lost = second.sync_for(Duration::from_secs(10));
        assert!(matches!(lost, Err(Error::PeerLost { rank: 0, .. })), "{lost:?}");
        drop(second);
        for block in &blocks {
            let found = worlds[0].get_vec(block.ptr(), 32).unwrap();
            assert_eq!(found, [0; 32], "the neighbour wrote into memory of others");
        }
        drop(blocks);
        // Whoever makes the next one gives back what nobody uses any more.
        prepare(worlds).into_iter().for_each(Team::abandon);
        assert_eq!(heap(), before);
    });
}

#[test]
fn a_team_that_nobody_joins_leaves_nothing() {
    with_neighbours(|worlds| {
        let of = |purpose| worlds[0].ledger().of(purpose);
        let before = (of(Purpose::Heap), of(Purpose::Team));
        // Each time there is room for the note where the block lies.
        for _ in 0..20 {
            prepare(worlds).into_iter().for_each(Team::abandon);
            assert_eq!((of(Purpose::Heap), of(Purpose::Team)), before);
        }
    });
}
