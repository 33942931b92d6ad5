//! Joining and leaving a thousand times in one process leaves nothing behind.

use crate::job::Job;
use crate::stage::Stage;
use crate::way::{self, Way};
use kumiki::{GlobalPtr, World};
use libtest_mimic::Trial;

const CYCLES: u32 = 1000;
/// Cycles after which everything that is kept for later has been taken.
const WARM_UP: u32 = 100;
/// Memory that the allocator and the kernel may keep for themselves.
const SLACK_BYTES: u64 = 512 * 1024;

/// What a process holds of the system.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    mappings: usize,
    threads: usize,
    resident_bytes: u64,
}

impl Held {
    fn now() -> Held {
        let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident = pages.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        Held {
            descriptors: count("/proc/self/fd"),
            mappings: maps.lines().count(),
            threads: crate::running::threads(),
            resident_bytes: resident * 4096,
        }
    }
}

pub(crate) fn again(way: &'static Way) {
    let mut warm = None;
    for cycle in 0..CYCLES {
        let stage = Stage { world: World::init().expect("init"), way };
        if cycle % 100 == 0 && stage.ranks() > 1 {
            let second = World::init().map(drop);
            assert!(matches!(second, Err(kumiki::Error::Misuse(_))), "a second world at once: {second:?}");
        }
        one_life(&stage, cycle as u64);
        stage.world.finalize().expect("finalize");
        if cycle == WARM_UP {
            warm = Some(Held::now());
        }
    }
    let (warm, end) = (warm.expect("there are more cycles than that"), Held::now());
    assert_eq!((end.descriptors, end.threads), (warm.descriptors, warm.threads), "{warm:?} became {end:?}");
    assert!(end.mappings <= warm.mappings + 4, "{warm:?} became {end:?}");
    assert!(end.resident_bytes <= warm.resident_bytes + SLACK_BYTES, "{warm:?} became {end:?}");
}

/// Something of everything: arena and private memory, a put to the next rank, a barrier.
fn one_life(stage: &Stage, cycle: u64) {
    let next = (stage.me() + 1) % stage.ranks();
    assert_eq!(stage.world.get(stage.starter(stage.me())).expect("get"), 0, "starter memory is new");
    stage.sync();
    let region = stage.world.alloc::<u64>(1000).expect("alloc");
    let private = stage.world.register(vec![0u64; 10]).expect("register");
    stage.world.put(stage.starter(next), cycle + 1).expect("put");
    let there = stage.exchange(private.address())[next as usize];
    stage.world.put(GlobalPtr::from_address(there), cycle).expect("put to private memory");
    stage.sync();
    assert_eq!(stage.world.get(stage.starter(stage.me())).expect("get"), cycle + 1);
    assert_eq!(stage.world.get(private.ptr()).expect("get"), cycle);
    drop(region);
    assert_eq!(private.take().expect("take")[0], cycle);
    stage.sync();
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials =
        vec![Trial::test("alone::again", || Job::alone(way::named("shm"), "again").run().success())];
    trials.extend(["shm", "tcp"].map(|name| {
        Trial::test(format!("{name}::again"), move || Job::new(way::named(name), "again", 2).run().success())
    }));
    trials
}
