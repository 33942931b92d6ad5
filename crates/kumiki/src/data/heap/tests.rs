//! The heap of one rank against a model, and what it refuses.

use super::blocks::*;
use crate::{Error, GlobalAddress, Result, World};
use proptest::prelude::*;
use std::collections::BTreeMap;

impl Heap<'_> {
    /// Every block is where the one before it ends, no two free ones are neighbours, and the lists hold all of them.
    fn verify(&self) -> Result<()> {
        if !self.is_made() {
            return Ok(());
        }
        let (mut at, mut was_free, mut free, mut blocks) = (FIRST_BLOCK, false, 0, 0);
        loop {
            let word = self.span.load(at)?;
            let length = word & LENGTH_BITS;
            assert_eq!(word & !(LENGTH_BITS | FLAGS), check(at), "check at {at}");
            assert_eq!(word & PREVIOUS_FREE != 0, was_free, "flag at {at}");
            let is_free = word & FREE != 0;
            assert!(!(is_free && was_free), "two free neighbours at {at}");
            if length == 0 {
                break;
            }
            if is_free {
                assert_eq!(self.span.load(at + length - WORD)?, length);
                free += 1;
            } else if word & QUICK == 0 && at != GUARD_AT {
                blocks += 1;
            }
            assert!(at + length <= GUARD_AT || at >= GUARD_AT, "a block across the border at {at}");
            was_free = is_free;
            at += length;
        }
        assert_eq!(self.span.load(END_AT)?, at + WORD);
        assert_eq!(self.pool.blocks().load(std::sync::atomic::Ordering::Relaxed), blocks);
        let mut listed = 0;
        for power in 0..POWERS {
            for list in 0..LISTS {
                let mut at = self.span.load(head_at(power, list))?;
                let mapped = self.span.load(MAPS_AT + 8 * power)? >> list & 1 == 1;
                assert_eq!(at != 0, mapped);
                while at != 0 {
                    let length = self.span.load(at)? & LENGTH_BITS;
                    assert_eq!(list_of(length), (power, list));
                    listed += 1;
                    at = self.span.load(at + 8)?;
                }
            }
        }
        assert_eq!(listed, free);
        Ok(())
    }
}

fn verify(world: &World) {
    Heap::open(world.local(), 0).and_then(|heap| heap.verify()).expect("the heap is sound");
}

#[test]
fn lines_begin_where_lines_of_the_cache_do_and_are_given_back() {
    let world = World::init().unwrap();
    let local = world.local();
    for bytes in [1, 8, 24, 40, 100, 3072, 70_000] {
        let first = super::allocate_lines(local, bytes).unwrap();
        let others = [8, 16, 24].map(|bytes| world.malloc(bytes, 0).unwrap());
        let second = super::allocate_lines(local, bytes).unwrap();
        for lines in [first, second] {
            let word = local.span(lines, 8).unwrap().word(0).unwrap();
            assert_eq!(std::ptr::from_ref(word).addr() % 64, 0);
        }
        super::release_lines(local, first).unwrap();
        assert!(super::release_lines(local, first).is_err());
        super::release_lines(local, second).unwrap();
        others.into_iter().for_each(|block| world.free(block).unwrap());
    }
    verify(&world);
    world.finalize().unwrap();
}

#[test]
fn lists_hold_what_they_say() {
    for length in (SHORTEST..100_000).step_by(8).chain([1 << 30, 1 << 43]) {
        let (power, list) = list_for(length);
        assert!(power < POWERS && list < LISTS);
        // The shortest block of that list is long enough, and blocks that long are found again in it or above.
        assert!(list_of(length) <= (power, list));
        if length < 1 << 20 {
            let shortest = (SHORTEST..).step_by(8).find(|&l| list_of(l) == (power, list));
            assert!(shortest.is_some_and(|shortest| shortest >= length), "{length}");
        }
    }
}

#[test]
fn what_is_no_block_is_not_freed() {
    let world = World::init().expect("a world of one");
    let place = world.malloc(100, 0).expect("memory");
    let other = world.malloc(100, 0).expect("memory");
    for wrong in [
        GlobalAddress::NULL,
        place.add(8),
        place.add(1),
        place.add(1 << 30),
        world.starter::<u64>(0).expect("starter memory").address(),
    ] {
        let error = world.free(wrong).expect_err("refused");
        assert!(matches!(error, Error::Misuse(_)), "{wrong:x}: {error}");
        let inside = wrong == place.add(8) || wrong == place.add(1);
        assert_eq!(error.to_string().contains("not the start of a block"), inside, "{wrong:x}: {error}");
    }
    world.free(place).expect("freed");
    assert!(matches!(world.free(place), Err(Error::Misuse(_))));
    world.free(other).expect("freed");
    assert!(matches!(world.free(other), Err(Error::Misuse(_))));
    verify(&world);
    assert_eq!(world.heap_use(0).expect("use").blocks, 0);
}

#[test]
fn memory_goes_back_when_the_heap_empties() {
    let world = World::init().expect("a world of one");
    let places: Vec<_> = (0..100).map(|_| world.malloc(32 << 10, 0).expect("memory")).collect();
    let full = world.heap_use(0).expect("use");
    assert!(full.pool_bytes >= (100 * 32) << 10 && full.blocks == 100, "{full:?}");
    places.into_iter().for_each(|place| world.free(place).expect("freed"));
    let empty = world.heap_use(0).expect("use");
    assert!(empty.pool_bytes <= FIRST_BYTES && empty.used_bytes == 0, "{empty:?}");
    assert!(matches!(world.malloc((u64::MAX) as usize, 0), Err(Error::OutOfMemory { .. })));
    verify(&world);
}

#[test]
fn blocks_lie_on_one_side_of_the_border_of_a_pool() {
    let world = World::init().expect("a world of one");
    let near = world.malloc(40 << 10, 0).expect("memory");
    assert_eq!(world.heap_use(0).expect("use").pool_bytes, FIRST_BYTES);
    // What does not fit in front of the border lies behind it, and what fits is still found in front.
    let far = world.malloc(20 << 10, 0).expect("memory");
    let small = world.malloc(8000, 0).expect("memory");
    let side = |place| world.local().pool_offset(place) >= kumiki_mem::Pool::BORDER;
    assert_eq!([near, far, small].map(side), [false, true, false]);
    verify(&world);
    for place in [far, near, small] {
        world.free(place).expect("freed");
        verify(&world);
    }
    assert_eq!(world.heap_use(0).expect("use").pool_bytes, FIRST_BYTES);
    let long = world.malloc(1 << 20, 0).expect("memory");
    assert!(side(long));
    verify(&world);
    let guard = world.local().pool_address(0, kumiki_mem::Pool::BORDER);
    assert!(
        matches!(world.free(guard), Err(Error::Misuse(_))),
        "the word in front of the border is no block"
    );
    world.free(long).expect("freed");
    verify(&world);
}

#[test]
fn a_heap_that_was_cut_off_at_the_border_is_repaired() {
    let world = World::init().expect("a world of one");
    let long = world.malloc(1 << 20, 0).expect("memory");
    let heap = Heap::open(world.local(), 0).expect("the heap");
    let guard = heap.span.load(GUARD_AT).expect("a word");
    assert_eq!(guard & LENGTH_BITS, WORD);
    // Grown, but the end is not noted yet.
    heap.span.store(END_AT, kumiki_mem::Pool::BORDER).expect("stored");
    heap.repair().and_then(|()| heap.verify()).expect("repaired");
    drop(heap);
    world.free(long).expect("freed");
    verify(&world);
    // The row ends in front of the border already or still, and the pool is longer.
    let long = world.malloc(1 << 20, 0).expect("memory");
    world.free(long).expect("freed");
    let mut heap = Heap::open(world.local(), 0).expect("the heap");
    heap.grow(1 << 20).expect("grown");
    heap.span.store(GUARD_AT, guard & !LENGTH_BITS).expect("stored");
    heap.repair().and_then(|()| heap.verify()).expect("repaired");
    assert_eq!(heap.span.load(END_AT), Ok(kumiki_mem::Pool::BORDER));
    let place = heap.allocate(1 << 20).expect("memory");
    heap.verify().expect("sound");
    heap.free(place).and_then(|()| heap.verify()).expect("freed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Blocks never overlap, hold what was written, and the heap is sound after every step and after a repair.
    #[test]
    fn blocks_are_apart(steps in proptest::collection::vec((0u64..5000, any::<bool>(), any::<u8>()), 1..200)) {
        let world = World::init().expect("a world of one");
        let mut model: BTreeMap<GlobalAddress, (u64, u8)> = BTreeMap::new();
        for (bytes, free, fill) in steps {
            if free && !model.is_empty() {
                let (&place, &(bytes, fill)) = model.iter().nth(bytes as usize % model.len()).expect("one");
                let mut seen = vec![0u8; bytes as usize];
                world.get_slice(kumiki_mem::GlobalPtr::from_address(place), &mut seen).expect("read");
                prop_assert!(seen.iter().all(|&byte| byte == fill));
                world.free(place).expect("freed");
                model.remove(&place);
            } else {
                let place = world.malloc(bytes as usize, 0).expect("memory");
                let after = model.range(place..).next().map(|(&next, _)| next);
                prop_assert!(after.is_none_or(|next| place.add(bytes) <= next));
                let before = model.range(..place).next_back();
                prop_assert!(before.is_none_or(|(&start, &(bytes, _))| start.add(bytes) <= place));
                let block = vec![fill; bytes as usize];
                world.put_slice(kumiki_mem::GlobalPtr::from_address(place), &block).expect("written");
                model.insert(place, (bytes, fill));
            }
            verify(&world);
        }
        Heap::open(world.local(), 0).and_then(|heap| heap.repair()).expect("repaired");
        verify(&world);
        for (place, _) in model {
            world.free(place).expect("freed");
        }
        prop_assert_eq!(world.heap_use(0).expect("use").used_bytes, 0);
    }
}
