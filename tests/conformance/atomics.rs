//! Atomic operations: what they do, and that all paths to one word are atomic together.

use crate::stage::Stage;
use kumiki::{AtomicOp, AtomicWord, GlobalAddress, GlobalPtr, Order};
use std::fmt::Debug;

/// Every operation on both widths, from every rank to every rank, with the old value going to every rank.
pub(crate) fn operations(stage: &Stage) {
    let block = stage.block(4096);
    let blocks = stage.exchange(block.address());
    for &target in &blocks {
        for &old in &blocks {
            // Each caller has words of its own.
            let lane = stage.me() as u64 * 64;
            widths(stage, old.add(1024 + lane), target.add(lane));
        }
        typed(stage, target.add(stage.me() as u64 * 64));
    }
    stage.sync();
}

fn widths(stage: &Stage, old: GlobalAddress, target: GlobalAddress) {
    let wide = 0x0123_4567_89ab_cdefu64;
    for (operation, new) in [
        (AtomicOp::CompareSwap(wide, 5), 5),
        (AtomicOp::CompareSwap(wide + 1, 5), wide),
        (AtomicOp::Swap(u64::MAX), u64::MAX),
        (AtomicOp::Add(u64::MAX), wide - 1),
        (AtomicOp::Xor(0xff00_0000_0000_00ff), wide ^ 0xff00_0000_0000_00ff),
        (AtomicOp::Or(0xf0f0), wide | 0xf0f0),
        (AtomicOp::And(0xffff_0000), wide & 0xffff_0000),
        (AtomicOp::Min(u64::MAX), wide),
        (AtomicOp::Max(u64::MAX), u64::MAX),
    ] {
        operation_on(stage, old, target, wide, operation, new);
    }
    numbers(stage, old, target);
    let narrow = 0x89ab_cdefu32;
    for place in [0, 4] {
        for (operation, new) in [
            (AtomicOp::CompareSwap(narrow, 5), 5),
            (AtomicOp::CompareSwap(narrow - 1, 5), narrow),
            (AtomicOp::Swap(0), 0),
            (AtomicOp::Add(0x8000_0000), 0x09ab_cdef),
            (AtomicOp::Xor(u32::MAX), !narrow),
            (AtomicOp::Or(1 << 30), narrow | 1 << 30),
            (AtomicOp::And(0xff), 0xef),
            (AtomicOp::Min(0x7fff_ffff), 0x7fff_ffff),
            (AtomicOp::Max(0x7fff_ffff), narrow),
        ] {
            operation_on(stage, old.add(4), target.add(place), narrow, operation, new);
        }
    }
}

/// Signed and floating-point numbers.
fn numbers(stage: &Stage, old: GlobalAddress, target: GlobalAddress) {
    let below = i64::MIN + 1;
    for (operation, new) in [
        (AtomicOp::Add(-2), i64::MAX),
        (AtomicOp::Min(5), below),
        (AtomicOp::Max(-5), -5),
        (AtomicOp::CompareSwap(below, 7), 7),
    ] {
        operation_on(stage, old, target, below, operation, new);
    }
    for (operation, new) in
        [(AtomicOp::Add(i32::MIN), i32::MAX), (AtomicOp::Min(5), -1), (AtomicOp::Max(5), 5)]
    {
        operation_on(stage, old, target, -1i32, operation, new);
    }
    for (operation, new) in [
        (AtomicOp::Add(0.125), -1.375),
        (AtomicOp::Min(-2.0), -2.0),
        (AtomicOp::Min(f64::NAN), -1.5),
        (AtomicOp::Max(-2.0), -1.5),
        (AtomicOp::Swap(f64::INFINITY), f64::INFINITY),
    ] {
        operation_on(stage, old, target, -1.5f64, operation, new);
    }
    for (operation, new) in
        [(AtomicOp::Add(0.25), 1.75), (AtomicOp::Min(1e30), 1.5), (AtomicOp::Max(1e30), 1e30)]
    {
        operation_on(stage, old, target, 1.5f32, operation, new);
    }
}

fn operation_on<W: AtomicWord + PartialEq + Debug>(
    stage: &Stage,
    old: GlobalAddress,
    target: GlobalAddress,
    before: W,
    operation: AtomicOp<W>,
    after: W,
) {
    let world = &stage.world;
    // Words on both sides must stay as they are.
    let surroundings = |place: GlobalAddress| [0u64, 8].map(|offset| stage.word(place.add(24 + offset)));
    let bytes = std::mem::size_of::<W>() as u64;
    stage.write(target.add(24), &[0xaaaa_u64, 0xbbbb]);
    stage.write(old, &[W::zeroed()]);
    stage.write(target, &[before]);
    let beside = GlobalAddress::from_bits(target.bits() ^ 4);
    let word_beside = stage.read::<u32>(beside, 1);
    let handle = world.atomic(old, target, operation, Order::None).expect("atomic");
    world.complete(handle).expect("complete");
    assert_eq!(stage.read::<W>(target, 1), [after], "{operation:?} on {before:?}");
    assert_eq!(stage.read::<W>(old, 1), [before], "the old value of {operation:?}");
    assert_eq!(surroundings(target), [0xaaaa, 0xbbbb]);
    if bytes == 4 {
        assert_eq!(stage.read::<u32>(beside, 1), word_beside, "{operation:?} touches the word beside");
    }
}

fn typed(stage: &Stage, target: GlobalAddress) {
    let world = &stage.world;
    let wide = GlobalPtr::<u64>::from_address(target);
    let narrow = GlobalPtr::<u32>::from_address(target.add(12));
    stage.write(target, &[10u64]);
    stage.write(target.add(12), &[20u32]);
    assert_eq!(world.fetch_add(wide, 5).expect("add"), 10);
    assert_eq!(world.compare_swap(wide, 14, 1).expect("cas"), 15);
    assert_eq!(world.compare_swap(wide, 15, 0b1100).expect("cas"), 15);
    assert_eq!(world.fetch_xor(wide, 0b1010).expect("xor"), 0b1100);
    assert_eq!(world.fetch_or(wide, 1).expect("or"), 0b0110);
    assert_eq!(world.fetch_and(wide, 0b0011).expect("and"), 0b0111);
    assert_eq!(world.swap(wide, 99).expect("swap"), 0b0011);
    assert_eq!(world.get(wide).expect("get"), 99);
    assert_eq!(world.fetch_add(narrow, u32::MAX).expect("add"), 20);
    assert_eq!(world.swap(narrow, 7).expect("swap"), 19);
    assert_eq!(world.fetch_max(wide.cast::<i64>(), 3).expect("max"), 99);
    assert_eq!(world.fetch_min(wide.cast::<i64>(), 100).expect("min"), 99);
    assert_eq!(world.get(narrow).expect("get"), 7);
    assert_eq!(world.get(GlobalPtr::<u32>::from_address(target.add(8))).expect("get"), 0);
}

/// All ranks add to one word at once: its owner directly, its neighbours, ranks of other nodes, by typed calls and by
/// handles, from two threads each. Nothing is lost and no old value is seen twice.
pub(crate) fn one_word(stage: &Stage) {
    const ROUNDS: u64 = 150;
    for owner in 0..2 {
        let block = stage.block(64);
        let word = stage.exchange(block.address())[owner];
        let place = GlobalPtr::<u64>::from_address(word);
        let half = GlobalPtr::<u32>::from_address(word.add(12));
        let olds = stage.block(8 * ROUNDS as usize);
        let mut typed: Vec<u64> = Vec::new();
        stage.at_once([
            Box::new(|| {
                for round in 0..ROUNDS {
                    let old = olds.address().add(8 * round);
                    stage.world.atomic(old, word, AtomicOp::Add(1u64), Order::None).expect("atomic");
                    stage.world.fetch_add(half, 3).expect("add to the narrow word");
                }
            }) as Box<dyn FnOnce() + Send>,
            Box::new(|| {
                typed.extend((0..ROUNDS).map(|_| stage.world.fetch_add(place, 1).expect("fetch_add")))
            }),
        ]);
        stage.complete_all();
        stage.sync();
        let total = 2 * ROUNDS * stage.ranks() as u64;
        assert_eq!(stage.word(word), total);
        assert_eq!(stage.world.get(half).expect("get"), 3 * (ROUNDS * stage.ranks() as u64) as u32);
        let mut seen: Vec<u64> = stage.read(olds.address(), ROUNDS as usize);
        assert!(typed.windows(2).all(|pair| pair[0] < pair[1]), "old values of one thread go up");
        seen.extend(typed);
        every_old_value_once(stage, seen, total);
    }
}

/// Gathers the old values of all ranks at rank 0.
fn every_old_value_once(stage: &Stage, mine: Vec<u64>, total: u64) {
    let block = stage.block(8 * total as usize);
    let first = stage.exchange(block.address())[0];
    stage.write(first.add(8 * (stage.me() as usize * mine.len()) as u64), &mine);
    stage.sync();
    if stage.me() == 0 {
        let mut all: Vec<u64> = stage.read(first, total as usize);
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..total), "every old value is seen once");
    }
    stage.sync();
}

/// A lock made of compare-and-swap protects two words that are not atomic together.
pub(crate) fn spin_lock(stage: &Stage) {
    const ROUNDS: u64 = 40;
    let block = stage.block(64);
    let base = stage.exchange(block.address())[1];
    let word = |index| GlobalPtr::<u64>::from_address(base).add(index);
    let (lock, first, second) = (word(0), word(2), word(3));
    for _ in 0..ROUNDS {
        while stage.world.compare_swap(lock, 0, 1 + stage.me() as u64).expect("lock") != 0 {
            std::thread::yield_now();
        }
        let (one, two) = (stage.world.get(first).expect("get"), stage.world.get(second).expect("get"));
        assert_eq!(two, 3 * one, "the pair is whole while the lock is held");
        stage.world.put(first, one + 1).expect("put");
        stage.world.put(second, two + 3).expect("put");
        let held = stage.world.swap(lock, 0).expect("unlock");
        assert_eq!(held, 1 + stage.me() as u64, "nobody else has had the lock");
    }
    stage.sync();
    assert_eq!(stage.world.get(first).expect("get"), ROUNDS * stage.ranks() as u64);
    stage.sync();
}
