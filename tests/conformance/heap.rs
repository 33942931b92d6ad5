//! Global malloc and free from every rank in the memory of every rank.

use crate::stage::Stage;
use kumiki::{Error, GlobalAddress, GlobalPtr};

/// Numbers that look random and are the same in every run.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// All ranks allocate on all ranks at once, write their mark, and find it again; blocks are freed by others.
pub(crate) fn malloc(stage: &Stage) {
    let world = &stage.world;
    let (me, ranks) = (world.rank(), world.ranks());
    let mut seed = 77 + me as u64;
    let mut held: Vec<(GlobalAddress, usize)> = Vec::new();
    for turn in 0..600 {
        if held.len() > 40 || (turn % 3 == 2 && !held.is_empty()) {
            let (place, words) = held.swap_remove(next(&mut seed) as usize % held.len());
            let mut seen = vec![0u64; words];
            world.get_slice(GlobalPtr::from_address(place), &mut seen).unwrap();
            let mark = place.bits() ^ me as u64;
            assert!(seen.iter().all(|&word| word == mark), "a block holds what its owner wrote");
            world.free(place).unwrap();
        } else {
            let words = next(&mut seed) as usize % 300 + 1;
            let place = world.malloc(8 * words, next(&mut seed) as u32 % ranks).unwrap();
            world.put_slice(GlobalPtr::from_address(place), &vec![place.bits() ^ me as u64; words]).unwrap();
            held.push((place, words));
        }
    }
    held.into_iter().for_each(|(place, _)| world.free(place).unwrap());
    // A block of each rank is freed by the next one.
    let target = (me + 1) % ranks;
    let gift = world.malloc(1000, me).unwrap();
    world.put(world.starter::<u64>(target).unwrap(), gift.bits()).unwrap();
    world.sync().unwrap();
    let received = GlobalAddress::from_bits(world.get(world.starter::<u64>(me).unwrap()).unwrap());
    world.free(received).unwrap();
    let again = world.free(received);
    assert!(matches!(again, Err(Error::Misuse(_))), "{again:?}");
    world.sync().unwrap();
    for rank in 0..ranks {
        let heap = world.heap_use(rank).unwrap();
        assert_eq!((heap.blocks, heap.used_bytes), (0, 0), "everything was freed");
        assert!(heap.pool_bytes <= 64 << 10, "and went back: {heap:?}");
    }
    assert!(matches!(world.malloc(8, ranks), Err(Error::Misuse(_))));
    let huge = world.malloc(1 << 60, target);
    assert!(matches!(huge, Err(Error::OutOfMemory { .. })), "{huge:?}");
}
