//! The ledger, the budget, and memory that goes back to the system.

use crate::job::Job;
use crate::stage::Stage;
use crate::way::{self, NODES};
use kumiki::{Error, GlobalPtr, Purpose, Region};
use libtest_mimic::Trial;
use std::os::unix::fs::MetadataExt;

const BUDGET: u64 = 2 << 20;

/// Under a budget: what is too much is refused with what is left, and everything goes on.
pub(crate) fn budget(stage: &Stage) {
    let world = &stage.world;
    let before = world.ledger();
    assert_eq!(before.budget_bytes, Some(BUDGET));
    assert!(
        before.of(Purpose::Heap) == 0 && before.private_bytes() > 0 && before.arena_bytes() > 0,
        "{before}"
    );
    refused(world.alloc::<u8>(BUDGET as usize), BUDGET);
    refused(world.alloc::<u8>(1 << 40), 1 << 40);
    let half = world.alloc::<u8>(BUDGET as usize / 2).expect("half of the budget");
    assert!(world.ledger().of(Purpose::Heap) >= BUDGET / 2);
    refused(world.alloc::<u8>(BUDGET as usize / 2), BUDGET / 2);
    still_usable(stage);
    drop(half);
    assert_eq!(world.ledger().of(Purpose::Heap), 0);
    fill_and_free(stage);
    operations_are_booked_back(stage);
    let after = world.ledger();
    assert_eq!(after.of(Purpose::Heap), 0);
    assert_eq!(after.of(Purpose::RegionTable), before.of(Purpose::RegionTable));
    stage.sync();
}

fn refused(result: kumiki::Result<Region<u8>>, wanted: u64) {
    match result {
        Err(Error::OutOfMemory { asked, left, .. }) => {
            assert!(asked >= wanted && left < asked && left < BUDGET, "asked {asked}, left {left}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{wanted} bytes of a budget of {BUDGET}"),
    }
}

fn still_usable(stage: &Stage) {
    for rank in stage.others().chain([stage.me()]) {
        let word = stage.starter(rank).add(stage.me() as usize);
        stage.world.put(word, 3).expect("put");
        assert_eq!(stage.world.fetch_add(word, 4).expect("add"), 3);
        assert_eq!(stage.world.get(word).expect("get"), 7);
    }
    stage.sync();
}

/// Small regions until nothing is left; then all goes back, and as much can be had again.
fn fill_and_free(stage: &Stage) {
    let fill = || {
        let mut regions = Vec::new();
        loop {
            match stage.world.alloc::<u64>(1000) {
                Ok(region) => regions.push(region),
                Err(Error::OutOfMemory { left, .. }) => {
                    assert!(left < 10_000, "{left} bytes are left");
                    return regions;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let regions = fill();
    assert!(regions.len() > 100, "{} regions", regions.len());
    for (index, region) in regions.iter().enumerate() {
        stage.world.put(region.ptr().add(999), index as u64).expect("put");
    }
    for (index, region) in regions.iter().enumerate() {
        assert_eq!(stage.world.get(region.ptr().add(999)).expect("get"), index as u64);
    }
    let count = regions.len();
    drop(regions);
    assert_eq!(stage.world.ledger().of(Purpose::Heap), 0);
    assert!(fill().len() >= count - 2);
    stage.sync();
}

/// Operations in flight are booked, and booked back when they are complete.
fn operations_are_booked_back(stage: &Stage) {
    let region = stage.world.alloc::<u64>(500).expect("alloc");
    let there = stage.exchange(region.address())[(stage.me() + 1) as usize % stage.ranks() as usize];
    let local = stage.world.alloc::<u64>(500).expect("alloc");
    for index in 0..500 {
        stage.copy(there.add(8 * index), local.address().add(8 * index), 8);
    }
    stage.complete_all();
    assert_eq!(stage.world.ledger().of(Purpose::Operation), 0, "no operation is incomplete");
    let put = stage.world.put(GlobalPtr::from_address(there), 5u64);
    put.expect("put");
    assert_eq!(stage.world.ledger().of(Purpose::Operation), 0);
    stage.sync();
}

/// Freed memory goes back to the system at once.
pub(crate) fn heap_memory_goes_back(stage: &Stage) {
    const BYTES: usize = 24 << 20;
    stage.sync();
    let before = stage.exchange_word(arena_bytes())[0];
    let region = stage.world.alloc::<u64>(BYTES / 8).expect("alloc");
    let small: Vec<Region<u8>> = (0..100).map(|_| stage.world.alloc(100).expect("alloc")).collect();
    region.write(BYTES / 8 - 1000, &[7; 1000]).expect("write");
    stage.sync();
    let here = stage.world.node_ranks().len() as u64;
    assert!(arena_bytes() >= here * BYTES as u64, "what is allocated is there");
    stage.sync();
    drop((region, small));
    stage.sync();
    let after = arena_bytes();
    stage.sync();
    assert!(after <= before + here * 64 * 1024, "{before} bytes of arena have become {after}");
    let again = stage.world.alloc::<u64>(BYTES / 8).expect("alloc");
    let mut found = vec![1; 1000];
    again.read(BYTES / 8 - 1000, &mut found).expect("read");
    assert!(found.iter().all(|&word| word == 0), "memory that comes back is zero");
    stage.sync();
}

/// Bytes that the node's arena takes of the machine.
fn arena_bytes() -> u64 {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let is_arena = |link: std::path::PathBuf| link.to_string_lossy().starts_with("/memfd:kumiki-arena");
    let arena = descriptors
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(is_arena))
        .filter_map(|entry| std::fs::metadata(entry.path()).ok());
    arena.map(|data| data.blocks() * 512).max().expect("this process has the arena open")
}

/// A pool that has no room for anything says that it is out of memory, and stays usable.
pub(crate) fn small_pool(stage: &Stage) {
    for bytes in [1, 64, 300, 5000, 1 << 20] {
        for _ in 0..3 {
            match stage.world.malloc(bytes, 0) {
                Ok(place) => stage.world.free(place).expect("freed"),
                Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{bytes} bytes: {error:?}"),
            }
        }
    }
    let full = stage.world.malloc(1 << 20, 0).expect_err("more than there is");
    assert!(matches!(full, Error::OutOfMemory { .. }), "{full:?}");
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = NODES
        .iter()
        .map(|way| {
            Trial::test(format!("{}::budget", way.name), move || {
                Job::new(way, "budget", 4).env("KUMIKI_BUDGET", "2M").run().success()
            })
        })
        .collect();
    for pool in ["1", "4096", "8192", "8200", "12288", "16384"] {
        trials.push(Trial::test(format!("alone::small_pool_{pool}"), move || {
            Job::alone(way::named("shm"), "small_pool").env("KUMIKI_POOL", pool).run().success()
        }));
    }
    trials.push(Trial::test("alone::budget", || {
        Job::alone(way::named("shm"), "budget").env("KUMIKI_BUDGET", "2M").run().success()
    }));
    trials
}
