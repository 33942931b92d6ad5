//! Many threads of each rank at once.

use crate::stage::{patterned, Stage};
use kumiki::raw;
use kumiki::{AtomicOp, GlobalAddress, GlobalPtr, Order};

const THREADS: u64 = 4;
const ROUNDS: u64 = 40;
/// Bytes of a thread's lane at each rank.
const LANE: u64 = 32 * 1024;

/// Four threads a rank put, get, add and chain at once, while the first thread goes through barriers.
pub(crate) fn threads(stage: &Stage) {
    let ranks = stage.ranks() as u64;
    let block = stage.block((64 + ranks * THREADS * LANE) as usize);
    let all = stage.exchange(block.address());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let all = &all;
            scope.spawn(move || work(stage, all, thread));
        }
        (0..50).for_each(|_| stage.sync());
    });
    stage.complete_all();
    stage.sync();
    let added = 2 * ROUNDS * THREADS * ranks;
    assert_eq!(stage.word(block.address()), added, "every addition has arrived once");
    for rank in 0..ranks {
        for thread in 0..THREADS {
            let lane = block.address().add(64 + (rank * THREADS + thread) * LANE);
            let wanted = patterned(seed(rank, thread, ROUNDS - 1), LANE as usize / 2);
            assert!(
                stage.read::<u8>(lane, LANE as usize / 2) == wanted,
                "lane of thread {thread} of rank {rank}"
            );
        }
    }
    stage.sync();
}

fn seed(rank: u64, thread: u64, round: u64) -> u64 {
    rank << 32 | thread << 16 | round
}

fn work(stage: &Stage, all: &[GlobalAddress], thread: u64) {
    let (world, me) = (&stage.world, stage.me() as u64);
    let local = stage.block(LANE as usize);
    for round in 0..ROUNDS {
        let data = patterned(seed(me, thread, round), LANE as usize / 2);
        for base in all {
            let lane = base.add(64 + (me * THREADS + thread) * LANE);
            world.put_slice(GlobalPtr::from_address(lane), &data).expect("put a slice");
            world.fetch_add(GlobalPtr::<u64>::from_address(*base), 1).expect("add");
            assert!(stage.read::<u8>(lane, data.len()) == data, "thread {thread} reads what it wrote");
            chain(stage, local.address(), *base, lane.add(LANE / 2), round);
        }
    }
}

/// A chain of `Continue` belongs to the thread that issues it, whatever others issue in between.
fn chain(stage: &Stage, local: GlobalAddress, counter: GlobalAddress, word: GlobalAddress, round: u64) {
    let world = &stage.world;
    stage.write(local, &[round + 9, 0, 0, 0]);
    stage.copy(word, local, 8);
    world.atomic(local.add(8), word, AtomicOp::Xor(1u64 << 40), Order::Continue).expect("atomic");
    world.copy(local.add(16), word, 8, Order::Continue).expect("copy");
    let last = world.atomic(local.add(24), counter, AtomicOp::Add(1u64), Order::Continue).expect("atomic");
    world.complete(last).expect("complete");
    let found: Vec<u64> = stage.read(local, 3);
    assert_eq!(found, [round + 9, round + 9, (round + 9) ^ 1 << 40], "a chain among other threads");
}

/// Threads whose operations have orders do not wait for each other in a circle.
pub(crate) fn ordered_operations_of_many_threads_complete(stage: &Stage) {
    const MANY: u64 = 8;
    const TURNS: u64 = 60;
    let (local, remote) = (stage.block(16 * MANY as usize), stage.block(16 * MANY as usize));
    let next = (stage.me() + 1) % stage.ranks();
    let there = stage.exchange(remote.address())[next as usize];
    let world = &stage.world;
    let work = |thread: u64| {
        // The word that is added to, and the word behind it that gets a copy of what the addition found.
        let (here, there) = (local.address().add(16 * thread), there.add(16 * thread));
        for turn in 0..TURNS {
            let added = raw::memory(world)
                .atomic_in_turn(here, there, AtomicOp::Add(1u64), Order::None)
                .expect("add");
            let copied = raw::memory(world)
                .copy_in_turn(there.add(8), here, 8, Order::After(added))
                .expect("copy behind it");
            world.complete(copied).expect("complete");
            assert_eq!(stage.word(there.add(8)), turn, "thread {thread}: the copy went behind the addition");
            let added = world.atomic(here, there, AtomicOp::Add(0u64), Order::All).expect("add nothing");
            let copied = world.copy(here.add(8), there, 8, Order::After(added)).expect("copy behind it");
            world.complete(copied).expect("complete");
            assert_eq!(stage.read::<u64>(here, 2), [turn + 1; 2], "thread {thread}: old value and copy");
        }
    };
    let work = &work;
    stage.at_once((0..MANY).map(|thread| Box::new(move || work(thread)) as Box<dyn FnOnce() + Send>));
    stage.complete_all();
    stage.sync();
}
