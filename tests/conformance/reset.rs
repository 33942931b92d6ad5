//! Starting over with other rank numbers.

use crate::job::{Ended, Job};
use crate::stage::Stage;
use crate::way::{Way, NODES};
use kumiki::{Error, GlobalPtr, World};
use libtest_mimic::{Failed, Trial};

/// Ranks are renumbered by several permutations; each time memory starts over.
pub(crate) fn reset(way: &'static Way) {
    let mut stage = Stage { world: World::init().expect("init"), way };
    let home = stage.world.node();
    for permutation in [[1, 2, 3, 0], [3, 2, 1, 0], [0, 1, 2, 3], [2, 0, 1, 3]] {
        let region = stage.world.alloc::<u64>(64).expect("alloc");
        let private = stage.world.register(vec![5u64; 64]).expect("register");
        let old = stage.exchange(region.address());
        let old_private = stage.exchange(private.address());
        for rank in 0..stage.ranks() {
            stage.world.put(stage.starter(rank).add(stage.me() as usize), 99).expect("put");
        }
        stage.sync();
        let new_rank = permutation[stage.me() as usize];
        let world = stage.world.reset(new_rank).expect("reset");
        assert_eq!((world.rank(), world.ranks()), (new_rank, 4));
        stage = Stage { world, way };
        started_over(&stage, home);
        let closed = region.read(0, &mut [0]);
        assert!(matches!(closed, Err(Error::Closed(_))), "a region of the old world gave {closed:?}");
        for address in old.iter().chain(&old_private) {
            let found = stage.world.get(GlobalPtr::<u64>::from_address(*address));
            assert!(matches!(found, Err(Error::Bounds { .. })), "memory of the old world gave {found:?}");
        }
        stage.sync();
        let fresh = stage.block(1024);
        // What outlives its world is not mistaken for something of the next.
        drop((region, private));
        for base in stage.exchange(fresh.address()) {
            let word = GlobalPtr::<u64>::from_address(base).add(stage.me() as usize);
            assert_eq!(stage.world.fetch_add(word, stage.me() as u64).expect("add"), 0);
        }
        stage.sync();
        assert_eq!(stage.read::<u64>(fresh.address(), 4), [0, 1, 2, 3]);
        stage.sync();
    }
    stage.world.finalize().expect("finalize");
}

fn started_over(stage: &Stage, home: u32) {
    let world = &stage.world;
    assert_eq!((world.node(), world.node_of(stage.me())), (home, Some(home)), "a process stays where it is");
    for rank in 0..stage.ranks() {
        let memory: Vec<u8> = stage.read(world.starter_address(rank).expect("starter"), 4096);
        assert!(memory.iter().all(|&byte| byte == 0), "starter memory of rank {rank} is zero again");
    }
    stage.sync();
    assert_eq!(stage.exchange_word(stage.me() as u64), [0, 1, 2, 3]);
    let nodes = stage.exchange_word(world.node() as u64);
    (0..4).for_each(|rank| assert_eq!(world.node_of(rank), Some(nodes[rank as usize] as u32)));
}

/// Everybody wants to be rank 0.
pub(crate) fn reset_to_one(_: &'static Way) {
    let error = World::init().expect("init").reset(0).expect_err("four ranks cannot all be rank 0");
    println!("reset gave {error:?}");
}

/// Rank 1 wants a number that does not exist.
pub(crate) fn reset_outside(_: &'static Way) {
    let world = World::init().expect("init");
    let new_rank = if world.rank() == 1 { 4 } else { world.rank() };
    let error = world.reset(new_rank).expect_err("there is no rank 4");
    println!("reset gave {error:?}");
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(topic, way): (&'static str, &'static Way)| {
        Trial::test(format!("{}::{topic}", way.name), move || refused(Job::new(way, topic, 4).run()))
    };
    let topics = ["reset_to_one", "reset_outside"];
    topics.iter().flat_map(|topic| NODES.iter().map(move |way| (*topic, way))).map(trial).collect()
}

/// All four ranks were told that the numbers cannot be.
fn refused(ended: Ended) -> Result<(), Failed> {
    let ended = ended.code(0)?;
    let told = ended.output.matches("reset gave misuse: ").count();
    ended.expect(told == 4, &format!("{told} of 4 ranks were told of a misuse"))
}
