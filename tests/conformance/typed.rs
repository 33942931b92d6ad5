//! Typed access: elements, slices, memory handed over and memory lent.

use crate::stage::Stage;
use kumiki::{GlobalPtr, Pod};
use std::fmt::Debug;

pub(crate) fn typed(stage: &Stage) {
    elements(stage);
    slices(stage);
    registered_memory_comes_back(stage);
    lent_memory_comes_back(stage);
    regions_read_and_write(stage);
}

/// Elements of many types, at every rank, at places that fit their alignment and at places that do not.
fn elements(stage: &Stage) {
    let block = stage.block(4096);
    for (rank, base) in stage.exchange(block.address()).into_iter().enumerate() {
        let at = |lane: u64| base.add(stage.me() as u64 * 512 + lane);
        let salt = rank as u64 * 31 + stage.me() as u64;
        element(stage, GlobalPtr::from_address(at(0)), salt as u8);
        element(stage, GlobalPtr::from_address(at(2)), salt as u16 * 257);
        element(stage, GlobalPtr::from_address(at(8)), salt as u32 * 0x0101_0101);
        element(stage, GlobalPtr::from_address(at(16)), u64::MAX - salt);
        element(stage, GlobalPtr::from_address(at(24)), -1.5 * salt as f64);
        element(stage, GlobalPtr::from_address(at(33)), u64::MAX / 3 - salt);
        element(stage, GlobalPtr::from_address(at(43)), [salt as u8, 2, 3]);
        element(stage, GlobalPtr::from_address(at(47)), [salt; 7]);
        element(stage, GlobalPtr::from_address(at(128)), [salt as u128; 20]);
        element(stage, GlobalPtr::from_address(at(500)), ());
    }
    stage.sync();
}

fn element<T: Pod + PartialEq + Debug>(stage: &Stage, place: GlobalPtr<T>, value: T) {
    stage.world.put(place, value).expect("put");
    assert_eq!(stage.world.get(place).expect("get"), value, "{}", std::any::type_name::<T>());
}

fn slices(stage: &Stage) {
    const WORDS: usize = 40_000;
    let block = stage.block(4 * WORDS * stage.ranks() as usize);
    let blocks = stage.exchange(block.address());
    for count in [0, 1, 2, 4, 5, 1000, WORDS] {
        for (rank, base) in blocks.iter().enumerate() {
            let lane = GlobalPtr::<u32>::from_address(base.add((stage.me() as usize * 4 * WORDS) as u64));
            let values: Vec<u32> = (0..count as u32).map(|i| i * 7 + ((rank as u32) << 20)).collect();
            stage.world.put_slice(lane, &values).expect("put a slice");
            let mut found = vec![0; count];
            stage.world.get_slice(lane, &mut found).expect("get a slice");
            assert!(found == values, "{count} words at rank {rank}");
        }
    }
    stage.sync();
}

/// What others wrote to registered memory is in the box that comes back.
fn registered_memory_comes_back(stage: &Stage) {
    let ranks = stage.ranks() as usize;
    let memory: Vec<u64> = (0..100 * ranks as u64).collect();
    let registered = stage.world.register(memory.clone()).expect("register");
    let all = stage.exchange(registered.address());
    for base in &all {
        let first = stage.me() as usize * 100;
        let before: Vec<u64> = stage.read(base.add(8 * first as u64), 100);
        assert_eq!(before, &memory[first..first + 100]);
        stage.write(base.add(8 * (first as u64 + 1)), &[7000 + stage.me() as u64; 98]);
    }
    stage.sync();
    let back = registered.take().expect("take");
    for (index, &word) in back.iter().enumerate() {
        let (rank, place) = (index / 100, index % 100);
        let wanted = if (1..99).contains(&place) { 7000 + rank as u64 } else { index as u64 };
        assert_eq!(word, wanted, "word {index}");
    }
    stage.sync();
}

fn lent_memory_comes_back(stage: &Stage) {
    let mut memory = vec![0u32; stage.ranks() as usize];
    let lent = stage.world.lend(&mut memory, |lent| {
        assert_eq!((lent.len(), lent.is_empty()), (stage.ranks() as usize, false));
        for base in stage.exchange(lent.ptr().address()) {
            let mine = GlobalPtr::<u32>::from_address(base).add(stage.me() as usize);
            stage.world.fetch_add(mine, 100 + stage.me()).expect("add to lent memory");
        }
        stage.sync();
        "done"
    });
    assert_eq!(lent.expect("lend"), "done");
    let wanted: Vec<u32> = (0..stage.ranks()).map(|rank| 100 + rank).collect();
    assert_eq!(memory, wanted);
    stage.sync();
}

fn regions_read_and_write(stage: &Stage) {
    let region = stage.world.alloc::<u16>(1000).expect("alloc");
    assert_eq!((region.len(), region.is_empty()), (1000, false));
    let mut found = vec![1u16; 1000];
    region.read(0, &mut found).expect("read");
    assert!(found.iter().all(|&value| value == 0), "new memory is zero");
    let values: Vec<u16> = (0..500).collect();
    region.write(250, &values).expect("write");
    let next = stage.exchange(region.address())[(stage.me() + 1) as usize % stage.ranks() as usize];
    assert_eq!(stage.read::<u16>(next.add(500), 500), values);
    for (first, count) in [(1000, 1), (999, 2), (usize::MAX, 1), (1, usize::MAX)] {
        let count = count.min(2000);
        assert!(region.read(first, &mut vec![0; count]).is_err(), "{count} from {first}");
        assert!(region.write(first, &vec![9; count]).is_err(), "{count} from {first}");
    }
    region.read(1000, &mut []).expect("nothing at the end");
    stage.sync();
}
