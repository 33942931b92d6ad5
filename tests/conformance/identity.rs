//! Who we are, who the others are, and the memory that all have from the start.

use crate::stage::{Stage, FIRST_FREE};
use kumiki::raw;
use kumiki::{Error, GlobalAddress};

pub(crate) fn identity(stage: &Stage) {
    let world = &stage.world;
    starter_is_zero(stage);
    assert_eq!((world.ranks(), world.nodes()), (4, stage.way.nodes_of(4)));
    assert!(world.rank() < 4 && world.node() < world.nodes());
    let ranks: Vec<u64> = (0..4).collect();
    assert_eq!(stage.exchange_word(world.rank() as u64), ranks, "every rank has a number of its own");
    let nodes = stage.exchange_word(world.node() as u64);
    for rank in 0..4 {
        assert_eq!(world.node_of(rank), Some(nodes[rank as usize] as u32), "the node of rank {rank}");
    }
    assert_eq!(world.node_of(4), None);
    let neighbours: Vec<u32> = (0..4).filter(|&rank| nodes[rank as usize] == world.node() as u64).collect();
    assert_eq!(world.node_ranks(), neighbours);
    assert_eq!(neighbours.len() as u32, 4 / world.nodes(), "as many ranks on each node");
    starter_is_addressable(stage);
}

fn starter_is_zero(stage: &Stage) {
    let bytes = stage.world.starter_bytes();
    assert_eq!(bytes, 4096);
    for rank in 0..stage.ranks() {
        let memory: Vec<u8> = stage.read(stage.world.starter_address(rank).expect("starter"), bytes);
        assert!(memory.iter().all(|&byte| byte == 0), "starter memory of rank {rank} is zero at the start");
    }
    stage.sync();
}

fn starter_is_addressable(stage: &Stage) {
    let (world, me) = (&stage.world, stage.me() as u64);
    for rank in 0..stage.ranks() {
        world
            .put(stage.starter(rank).add(me as usize), 1000 * me + rank as u64)
            .expect("put to starter memory");
    }
    stage.sync();
    for rank in 0..stage.ranks() {
        for from in 0..stage.ranks() as u64 {
            let found = world.get(stage.starter(rank).add(from as usize)).expect("get from starter memory");
            assert_eq!(found, 1000 * from + rank as u64);
        }
        let address = world.starter_address(rank).expect("starter").add(FIRST_FREE);
        assert_eq!(world.rank_of(address), Some(rank));
        assert_eq!(raw::memory(world).local_pointer(address).is_some(), rank == stage.me());
    }
    let mine = world.starter_address(stage.me()).expect("starter").add(FIRST_FREE + 8 * me);
    let pointer = raw::memory(world).local_pointer(mine).expect("own memory has a pointer");
    // SAFETY: the pointer is to a word of starter memory that nobody writes in this phase.
    assert_eq!(unsafe { pointer.cast::<u64>().read() }, 1001 * me);
    assert_eq!(world.rank_of(GlobalAddress::NULL), None);
    assert!(matches!(world.starter_address(stage.ranks()), Err(Error::Misuse(_))));
}
