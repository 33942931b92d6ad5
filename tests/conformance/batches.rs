//! Many single words at once: streams and lists of updates and reads, over memory of both kinds, against a model.

use crate::stage::{Block, Stage};
use crate::way::Memory;
use kumiki::{AtomicOp, Error, GlobalPtr, Purpose};

/// Words of each table of each rank.
const WORDS: usize = 256;
/// Updates that each rank makes.
const UPDATES: u64 = 4_000;

/// One table of arena memory and one of private memory on each rank: [kind][rank].
type Tables = [Vec<GlobalPtr<u64>>; 2];

fn tables(stage: &Stage) -> ([Block; 2], Tables) {
    let blocks = [Memory::Arena, Memory::Private].map(|memory| Block::new(&stage.world, memory, 8 * WORDS));
    let told = [0, 1].map(|kind: usize| {
        let addresses = stage.exchange(blocks[kind].address());
        addresses.into_iter().map(GlobalPtr::from_address).collect()
    });
    (blocks, told)
}

/// The numbers of a rank: the same for whoever asks.
fn numbers(rank: u32) -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ u64::from(rank + 1) << 20;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// An update: the kind, rank and index of its word, and what is done. Of the words with an index below `WORDS / 2` everybody adds to
/// any; of the others each rank writes its own, so that the order of its updates shows.
fn update(next: &mut impl FnMut() -> u64, from: u32, ranks: u32) -> (usize, u32, usize, AtomicOp<u64>) {
    let number = next();
    let (kind, rank, index) =
        (number as usize & 1, (number >> 8) as u32 % ranks, (number >> 32) as usize % WORDS);
    if index < WORDS / 2 {
        return (kind, rank, index, AtomicOp::Add(number));
    }
    let own = WORDS / 2 + (index - WORDS / 2) / ranks as usize * ranks as usize + from as usize;
    let operation = match number >> 60 {
        0..8 => AtomicOp::Swap(number),
        8..12 => AtomicOp::Add(number),
        12..14 => AtomicOp::Xor(number),
        14 => AtomicOp::Max(number),
        _ => AtomicOp::CompareSwap(number, 1),
    };
    (kind, rank, own.min(WORDS - ranks as usize + from as usize), operation)
}

fn apply(word: &mut u64, operation: AtomicOp<u64>) {
    *word = match operation {
        AtomicOp::Add(value) => word.wrapping_add(value),
        AtomicOp::Swap(value) => value,
        AtomicOp::Xor(value) => *word ^ value,
        AtomicOp::Max(value) => (*word).max(value),
        AtomicOp::CompareSwap(old, new) if *word == old => new,
        _ => *word,
    };
}

/// Random updates by all ranks at once.
pub(crate) fn streams(stage: &Stage) {
    let world = &stage.world;
    let (me, ranks) = (stage.me(), stage.ranks());
    let (blocks, tables) = tables(stage);
    let booked = || world.ledger().of(Purpose::Comm);
    let before = booked();
    let mut stream = world.stream();
    let mut next = numbers(me);
    for number in 0..UPDATES {
        let (kind, rank, index, operation) = update(&mut next, me, ranks);
        let word = tables[kind][rank as usize].add(index);
        match operation {
            AtomicOp::Swap(value) => stream.put(word, value).expect("put"),
            AtomicOp::Add(value) => stream.add(word, value).expect("add"),
            operation => stream.update(word, operation).expect("update"),
        }
        if number == UPDATES / 2 {
            stream.flush().expect("flush");
        }
    }
    stream.flush().expect("flush");
    // Ranks whose private memory the others of their node cannot touch count as nodes.
    let most = world.nodes() + ranks;
    assert!(stream.bytes() <= most as usize * (64 << 10), "{stream:?}");
    assert_eq!(booked() - before, stream.bytes() as u64);
    drop(stream);
    assert_eq!(booked(), before);
    stage.sync();
    let mut model = [vec![0u64; WORDS], vec![0u64; WORDS]];
    for from in 0..ranks {
        let mut next = numbers(from);
        for _ in 0..UPDATES {
            let (kind, rank, index, operation) = update(&mut next, from, ranks);
            if rank == me {
                apply(&mut model[kind][index], operation);
            }
        }
    }
    for (kind, block) in blocks.iter().enumerate() {
        assert_eq!(stage.read::<u64>(block.address(), WORDS), model[kind], "kind {kind}");
    }
    // Everybody reads everything, in an order of its own.
    let places = || {
        let mut next = numbers(me + 100);
        (0..2_000).map(move |_| {
            let number = next();
            (number as usize & 1, (number >> 8) as u32 % ranks, (number >> 32) as usize % WORDS)
        })
    };
    let word = |(kind, rank, index): (usize, u32, usize)| tables[kind][rank as usize].add(index);
    let many = world.get_many(places().map(word)).expect("get_many");
    for (place, value) in places().zip(many) {
        assert_eq!(world.get(word(place)), Ok(value), "{place:?}");
    }
    stage.sync();
}

/// Lists: old values come in order, also those of one word; words of 4 bytes and floating-point numbers.
pub(crate) fn lists(stage: &Stage) {
    let world = &stage.world;
    let (me, ranks) = (stage.me(), stage.ranks());
    let (_blocks, tables) = tables(stage);
    let everywhere = || (0..2).flat_map(|kind| (0..ranks as usize).map(move |rank| (kind, rank)));
    let own = |(kind, rank): (usize, usize)| tables[kind][rank].add(me as usize);
    world.put_many(everywhere().map(|place| (own(place), 100))).expect("put_many");
    let rounds = || (0..50u64).flat_map(|round| everywhere().map(move |place| (round, place)));
    let old = world.fetch_add_many(rounds().map(|(_, place)| (own(place), 3))).expect("fetch_add_many");
    for ((round, place), old) in rounds().zip(old) {
        assert_eq!(old, 100 + 3 * round, "{place:?}");
    }
    let swap = |(round, place)| (own(place), AtomicOp::CompareSwap(250 + round, 251 + round));
    let old = world.fetch_many(rounds().map(swap)).expect("fetch_many");
    for ((round, place), old) in rounds().zip(old) {
        assert_eq!(old, 250 + round, "{place:?}");
    }
    // The second half of each table, as other words.
    let narrow = |(kind, rank): (usize, usize)| {
        GlobalPtr::<i32>::from_address(tables[kind][rank].add(WORDS / 2).address()).add(me as usize)
    };
    world.put_many(everywhere().map(|place| (narrow(place), -5))).expect("put_many");
    let least = world.fetch_many(everywhere().map(|place| (narrow(place), AtomicOp::Min(-7)))).expect("min");
    assert!(least.iter().all(|old| *old == -5), "{least:?}");
    assert!(world.get_many(everywhere().map(narrow)).expect("get_many").iter().all(|word| *word == -7));
    let real = |(kind, rank): (usize, usize)| {
        GlobalPtr::<f64>::from_address(tables[kind][rank].add(WORDS - 64).address()).add(me as usize)
    };
    let mut stream = world.stream();
    everywhere().for_each(|place| (0..4).for_each(|_| stream.add(real(place), 0.5).expect("add")));
    drop(stream);
    assert!(world.get_many(everywhere().map(real)).expect("get_many").iter().all(|word| *word == 2.0));
    assert_eq!(world.get_many(std::iter::empty::<GlobalPtr<u64>>()), Ok(Vec::new()));
    stage.sync();
}

/// What is wrong is told by the flush, whoever was asked; and the stream goes on behind it.
pub(crate) fn wrong_words(stage: &Stage) {
    let world = &stage.world;
    let (me, ranks) = (stage.me(), stage.ranks());
    let (_blocks, tables) = tables(stage);
    for (kind, rank) in (0..2).flat_map(|kind| (0..ranks as usize).map(move |rank| (kind, rank))) {
        let good = tables[kind][rank].add(me as usize);
        let outside = tables[kind][rank].add(WORDS);
        let crooked = GlobalPtr::<u64>::from_address(good.address().add(4));
        for (wrong, is_bounds) in [(outside, true), (crooked, false), (GlobalPtr::NULL, true)] {
            let mut stream = world.stream();
            let failed =
                stream.add(good, 1).and_then(|()| stream.add(wrong, 1)).and_then(|()| stream.flush());
            match &failed {
                Err(Error::Bounds { .. }) => assert!(is_bounds, "{failed:?}"),
                Err(Error::Misuse(_)) => assert!(!is_bounds, "{failed:?}"),
                other => panic!("kind {kind} of rank {rank}: {other:?}"),
            }
            let _ = stream.flush();
            stream.add(good, 1).expect("add");
            stream.flush().expect("flush");
            let asked = world.get_many([good, wrong, good]);
            assert!(is_bounds == matches!(asked, Err(Error::Bounds { .. })) || asked.is_ok(), "{asked:?}");
        }
    }
    stage.sync();
}
