//! Orders, handles, and waiting for them.

use crate::stage::{patterned, Stage};
use crate::way::{Memory, ProcessVm};
use kumiki::raw;
use kumiki::{AtomicOp, Error, GlobalAddress, Handle, Order};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Chains of operations in which each needs what the one before it did.
pub(crate) fn chains(stage: &Stage) {
    for target in 0..stage.ranks() {
        put_add_get(stage, target);
        old_value_then_get(stage, target);
        after_and_all(stage, target);
        relay(stage, target);
        behind_a_refusal(stage, target);
    }
}

/// What a rank has issued arrives while it does nothing but look at its own memory: nobody is asked to send what goes out together.
pub(crate) fn issued_and_left_alone(stage: &Stage) {
    const WORDS: u64 = 1000;
    for round in 1..=3u64 {
        let (local, remote) = (stage.block(8 * WORDS as usize), stage.block(8 * WORDS as usize));
        let next = stage.exchange(remote.address())[((stage.me() + 1) % stage.ranks()) as usize];
        stage.write(local.address(), &(0..WORDS).map(|word| word + round).collect::<Vec<u64>>());
        // Every rank first has what others may write to at zero.
        stage.sync();
        for word in 0..WORDS {
            stage.copy(next.add(8 * word), local.address().add(8 * word), 8);
        }
        let last = remote.address().add(8 * (WORDS - 1));
        while stage.word(last) != WORDS - 1 + round {
            std::thread::yield_now();
        }
        stage.complete_all();
        stage.sync();
        let came = stage.read::<u64>(remote.address(), WORDS as usize);
        assert!((0..WORDS).all(|word| came[word as usize] == word + round));
        stage.sync();
    }
}

/// An operation that is refused leaves the chain as it was, and the next one does not wait for it.
fn behind_a_refusal(stage: &Stage, target: u32) {
    const BYTES: u64 = 1 << 20;
    let (local, remote) = (stage.block(BYTES as usize), stage.block(BYTES as usize));
    let there = stage.exchange(remote.address())[target as usize];
    stage.write(local.address(), &[stage.me() as u64 + 1]);
    for _ in 0..8 {
        stage.copy(there.add(64), local.address().add(64), BYTES - 64);
        let refused = stage.world.copy(GlobalAddress::NULL, local.address(), 8, Order::None);
        assert!(refused.is_err(), "null was written to");
        let word = there.add(8 * stage.me() as u64);
        let next = stage.world.copy(word, local.address(), 8, Order::Continue).expect("copy");
        stage.world.complete(next).expect("the copy behind the refused one completes");
        assert_eq!(stage.word(word), stage.me() as u64 + 1);
    }
    stage.sync();
}

/// Put, add and get the same word, with `Continue`: many chains in flight at once.
fn put_add_get(stage: &Stage, target: u32) {
    const CHAINS: u64 = 100;
    let (local, remote) = (stage.block(8 * 3 * CHAINS as usize), stage.block(8 * 4 * CHAINS as usize));
    let lane = stage.exchange(remote.address())[target as usize].add(8 * CHAINS * stage.me() as u64);
    let values: Vec<u64> = (0..CHAINS).map(|chain| chain * 1000 + stage.me() as u64).collect();
    stage.write(local.address(), &values);
    let (olds, news) = (local.address().add(8 * CHAINS), local.address().add(16 * CHAINS));
    for chain in 0..CHAINS {
        let word = lane.add(8 * chain);
        stage.copy(word, local.address().add(8 * chain), 8);
        stage.world.atomic(olds.add(8 * chain), word, AtomicOp::Add(7u64), Order::Continue).expect("atomic");
        stage.world.copy(news.add(8 * chain), word, 8, Order::Continue).expect("copy");
    }
    stage.complete_all();
    assert_eq!(stage.read::<u64>(olds, CHAINS as usize), values, "what the atomics found");
    let wanted: Vec<u64> = values.iter().map(|value| value + 7).collect();
    assert_eq!(stage.read::<u64>(news, CHAINS as usize), wanted, "what the gets found");
    stage.sync();
}

/// The old value of an atomic goes to the rank of the word; what continues behind it finds it there.
fn old_value_then_get(stage: &Stage, target: u32) {
    let (local, remote) = (stage.block(64), stage.block(1024));
    let all = stage.exchange(remote.address());
    let lane = |rank: u32| all[rank as usize].add(128 * stage.me() as u64);
    for round in 0..50u64 {
        for place in 0..stage.ranks() {
            let (word, old) = (lane(target), lane(place).add(64));
            stage.write(word, &[round + 1]);
            stage.write(old, &[0u64]);
            stage.write(local.address(), &[0u64; 2]);
            let then = |order, dst, target| {
                stage.world.atomic(dst, target, AtomicOp::Add(100u64), order).expect("atomic")
            };
            then(Order::None, old, word);
            stage.world.copy(local.address(), old, 8, Order::Continue).expect("copy");
            stage.complete_all();
            assert_eq!(stage.word(local.address()), round + 1, "copy of an old value kept at rank {place}");
            then(Order::None, old, word);
            then(Order::Continue, local.address().add(8), old);
            stage.complete_all();
            assert_eq!(
                stage.word(local.address().add(8)),
                round + 101,
                "atomic on an old value at rank {place}"
            );
            assert_eq!(stage.word(old), round + 201);
        }
    }
    stage.sync();
}

/// A value goes from here to one rank, to another, and back, each step after the one before.
fn after_and_all(stage: &Stage, target: u32) {
    let (local, remote) = (stage.block(300_000), stage.block(4 * 100_000));
    let all = stage.exchange(remote.address());
    let lane = |rank: u32| all[(rank % stage.ranks()) as usize].add(100_000 * stage.me() as u64);
    let back = local.address().add(100_000);
    for (round, &size) in [8usize, 9, 16, 64, 5000, 100_000, 8, 33, 100_000, 8].iter().enumerate() {
        let data = patterned(round as u64 * 17 + target as u64, size);
        stage.write(local.address(), &data);
        let bytes = size as u64;
        let first = stage.copy(lane(target), local.address(), bytes);
        let second = stage
            .world
            .copy(lane(target + 1), lane(target), bytes as usize, Order::After(first))
            .expect("copy");
        stage
            .world
            .copy(lane(target + 2), lane(target + 1), bytes as usize, Order::After(second))
            .expect("copy");
        let last = stage.world.copy(back, lane(target + 2), bytes as usize, Order::All).expect("copy");
        stage.world.complete(last).expect("complete");
        assert_eq!(stage.read::<u8>(back, size), data, "{size} bytes by way of rank {target}");
    }
    stage.sync();
}

/// The same with `Continue` only, and with the last step overwriting the source of the first.
fn relay(stage: &Stage, target: u32) {
    let (local, remote) = (stage.block(100_000), stage.block(4 * 100_000));
    let all = stage.exchange(remote.address());
    let lane = |rank: u32| all[(rank % stage.ranks()) as usize].add(100_000 * stage.me() as u64);
    for size in [8, 16, 17, 4096, 100_000] {
        let (data, other) = (patterned(size as u64, size), patterned(!size as u64, size));
        stage.write(local.address(), &data);
        stage.write(lane(target + 1), &other);
        let bytes = size as u64;
        stage.copy(lane(target), local.address(), bytes);
        stage.world.copy(local.address(), lane(target + 1), bytes as usize, Order::Continue).expect("copy");
        stage.world.copy(lane(target + 1), lane(target), bytes as usize, Order::Continue).expect("copy");
        stage.complete_all();
        assert_eq!(stage.read::<u8>(lane(target), size), data, "{size} bytes put");
        assert_eq!(stage.read::<u8>(local.address(), size), other, "{size} bytes fetched");
        assert_eq!(stage.read::<u8>(lane(target + 1), size), data, "{size} bytes passed on");
    }
    stage.sync();
}

/// Two copies from one rank to the same place arrive in the order issued, whatever their sizes.
pub(crate) fn issue_order(stage: &Stage) {
    const SIZES: [usize; 6] = [200_000, 8, 16, 70_000, 17, 8];
    let (local, remote) = (stage.block(200_000 * SIZES.len()), stage.block(4 * 200_000));
    let all = stage.exchange(remote.address());
    for target in 0..stage.ranks() {
        let lane = all[target as usize].add(200_000 * stage.me() as u64);
        for round in 0..6u64 {
            let mut model = vec![0u8; 200_000];
            for (index, &size) in SIZES.iter().enumerate() {
                let data = patterned(round * 100 + index as u64, size);
                model[..size].copy_from_slice(&data);
                stage.write(local.address().add(200_000 * index as u64), &data);
            }
            for (index, &size) in SIZES.iter().enumerate() {
                stage.copy(lane, local.address().add(200_000 * index as u64), size as u64);
            }
            stage.complete_all();
            assert!(stage.read::<u8>(lane, 200_000) == model, "copies to rank {target} changed places");
        }
    }
    stage.sync();
}

/// Data to one kind of memory, then a flag to another kind at the same rank: whoever sees the flag sees the data.
pub(crate) fn in_turn(stage: &Stage) {
    const BYTES: usize = 50_000;
    const ROUNDS: u64 = 60;
    let (local, remote) = (stage.block(BYTES + 8), stage.block(BYTES));
    let all = stage.exchange(remote.address());
    let (next, before) = ((stage.me() + 1) % stage.ranks(), (stage.me() + stage.ranks() - 1) % stage.ranks());
    let send = |dst, src, bytes, order| {
        raw::memory(&stage.world).copy_in_turn(dst, src, bytes, order).expect("copy")
    };
    let flag = local.address().add(BYTES as u64);
    let wait = |word: u64, value: u64| {
        while stage.world.get(stage.starter(stage.me()).add(word as usize)).expect("own starter memory")
            != value
        {
            std::thread::yield_now();
        }
    };
    for round in 1..=ROUNDS {
        stage.write(local.address(), &patterned(round, BYTES));
        stage.write(flag, &[round]);
        // Now and then the data must wait for something else; the flag must not overtake it then, either.
        let order = if round % 3 == 0 { Order::All } else { Order::None };
        send(local.address(), all[next as usize], 8, Order::None);
        stage.complete_all();
        stage.write(local.address(), &patterned(round, BYTES));
        send(stage.starter(before).address().add(64), flag, 8, Order::None);
        send(all[next as usize], local.address(), BYTES as u64, order);
        if round % 2 == 0 {
            send(stage.starter(next).address(), flag, 8, Order::None);
        } else {
            let (dst, add) = (stage.starter(stage.me()).address().add(72), AtomicOp::Add(1u64));
            let target = stage.starter(next).address();
            raw::memory(&stage.world).atomic_in_turn(dst, target, add, Order::None).expect("atomic");
        }
        wait(0, round);
        assert!(stage.read::<u8>(remote.address(), BYTES) == patterned(round, BYTES), "round {round}");
        stage.complete_all();
        send(stage.starter(before).address().add(8), flag, 8, Order::None);
        wait(1, round);
        stage.complete_all();
    }
    stage.sync();
}

/// What completing one handle says about others.
pub(crate) fn completion(stage: &Stage) {
    const COUNT: u64 = 3000;
    let (local, remote) = (stage.block(8 * COUNT as usize), stage.block(8 * 4 * COUNT as usize));
    let all = stage.exchange(remote.address());
    let lane = |rank: u32| all[rank as usize].add(8 * COUNT * stage.me() as u64);
    let values: Vec<u64> = (0..COUNT).map(|value| value * value + stage.me() as u64).collect();
    stage.write(local.address(), &values);
    // More at once than the library keeps: issuing waits for the oldest.
    let to = |index: u64| lane((index % stage.ranks() as u64) as u32).add(8 * index);
    let handles: Vec<Handle> =
        (0..COUNT).map(|index| stage.copy(to(index), local.address().add(8 * index), 8)).collect();
    let numbered: Vec<Handle> = handles.iter().copied().filter(|&handle| handle != Handle::DONE).collect();
    assert!(numbered.windows(2).all(|pair| pair[0] < pair[1]), "numbers go up");
    let middle = COUNT as usize / 2;
    stage.world.complete(handles[middle]).expect("complete");
    for &handle in &handles[..=middle] {
        assert!(
            stage.world.inquire(handle).expect("inquire"),
            "everything before a complete handle is complete"
        );
    }
    (0..=middle as u64).for_each(|index| assert_eq!(stage.word(to(index)), values[index as usize]));
    stage.world.complete_one(handles[COUNT as usize - 1]).expect("complete one");
    assert_eq!(stage.word(to(COUNT - 1)), values[COUNT as usize - 1]);
    while !stage.world.inquire(handles[COUNT as usize - 1]).expect("inquire") {
        std::thread::yield_now();
    }
    (0..COUNT).for_each(|index| assert_eq!(stage.word(to(index)), values[index as usize]));
    stage.complete_all();
    failures_are_told_once(stage, lane(1));
    completion_descriptor(stage, &all);
    stage.sync();
}

/// A failure among several operations is told once, and the others take effect.
fn failures_are_told_once(stage: &Stage, lane: kumiki::GlobalAddress) {
    let local = stage.block(16);
    stage.write(local.address(), &[41u64]);
    stage.copy(lane, local.address(), 8);
    let failed = stage.world.copy(lane.add(1 << 30), local.address(), 8, Order::None);
    let last = stage.copy(lane.add(8), local.address(), 8);
    let told = failed.and_then(|_| stage.world.complete(last));
    assert!(matches!(told, Err(Error::Bounds { .. })), "{told:?}");
    stage.world.complete(last).expect("a failure is told once");
    assert!(stage.world.inquire(last).expect("inquire"));
    assert_eq!(stage.read::<u64>(lane, 2), [41, 41]);
}

/// The descriptor becomes readable when something completes, and inquire then says what.
fn completion_descriptor(stage: &Stage, all: &[kumiki::GlobalAddress]) {
    let local = stage.block(100_000);
    let descriptor = stage.world.completion_fd().expect("a descriptor").as_raw_fd();
    for (rank, base) in all.iter().enumerate() {
        for bytes in [8, 90_000] {
            stage.world.clear_completion();
            assert!(!readable(descriptor, 0), "nothing has completed");
            let handle = stage.copy(local.address(), *base, bytes);
            while !stage.world.inquire(handle).expect("inquire") {
                assert!(readable(descriptor, 30_000), "a copy from rank {rank} completes");
                stage.world.clear_completion();
            }
        }
    }
    let handle = stage.copy(local.address(), all[0], 8);
    stage.world.complete(handle).expect("complete");
    assert!(readable(descriptor, 0), "something has completed");
}

fn readable(descriptor: i32, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one element, which lives until the call returns.
    let ready = unsafe { libc::poll(&mut poll, 1, timeout_ms) };
    ready == 1 && poll.revents & libc::POLLIN != 0
}

/// A wait with a deadline times out while the other rank is stopped, and succeeds when it goes on.
pub(crate) fn deadlines(stage: &Stage) {
    let block = stage.block(64);
    let all = stage.exchange(block.address());
    let pids = stage.exchange_word(std::process::id() as u64);
    let last = stage.ranks() - 1;
    let target = all[last as usize];
    if stage.me() == 0 {
        let same_node = stage.world.node_of(last) == Some(stage.world.node());
        let needs_nobody =
            same_node && (stage.way.memory == Memory::Arena || stage.way.process_vm == ProcessVm::Auto);
        stage.write(target.add(8), &[1u64]);
        stop(pids[last as usize] as i32);
        stage.write(block.address(), &[5u64]);
        let handle = stage.copy(target, block.address(), 8);
        let waited = stage.world.wait(handle, Duration::from_millis(20));
        match waited {
            Ok(()) => assert!(needs_nobody, "a stopped rank has answered"),
            Err(Error::Timeout { .. }) => {
                assert!(!needs_nobody, "same-node memory needs nobody's help");
                assert!(!stage.world.inquire(handle).expect("inquire"));
                let again = stage.world.wait(handle, Duration::from_millis(1));
                assert!(matches!(again, Err(Error::Timeout { .. })), "{again:?}");
            }
            Err(error) => panic!("{error}"),
        }
        signal(pids[last as usize] as i32, libc::SIGCONT);
        stage.world.wait(handle, Duration::from_secs(30)).expect("it completes when the rank goes on");
        assert_eq!(stage.word(target), 5);
    }
    stage.sync();
}

/// Stops a process and returns when all its threads have stopped.
fn stop(pid: i32) {
    signal(pid, libc::SIGSTOP);
    let stopped = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    while !std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks").flatten().all(stopped) {
        std::thread::yield_now();
    }
}

fn signal(pid: i32, number: i32) {
    // SAFETY: kill touches no memory.
    assert_eq!(unsafe { libc::kill(pid, number) }, 0, "{}", std::io::Error::last_os_error());
}
