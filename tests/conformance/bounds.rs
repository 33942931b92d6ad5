//! Addresses that are wrong: everybody who uses one gets an error that says so, and nothing is touched.

use crate::stage::{Block, Stage};
use crate::way::Memory;
use kumiki::raw;
use kumiki::{AtomicOp, Error, GlobalAddress, GlobalPtr, Order, Pod, Region, Registered, Result};

const BYTES: u64 = 104;
const KINDS: [Memory; 2] = [Memory::Arena, Memory::Private];

/// Past the end, far past it, across it, overflowing, null, slot 0, a slot without a region, a rank that does not exist.
pub(crate) fn bounds(stage: &Stage) {
    for kind in KINDS {
        let victim = Block::new(&stage.world, kind, BYTES as usize);
        let mine = Block::new(&stage.world, kind, 1 << 16);
        stage.write(victim.address(), &[0x55u8; BYTES as usize]);
        for base in stage.exchange(victim.address()) {
            for (address, bytes) in bad_ranges(stage, base) {
                refuse(stage, mine.address(), address, bytes);
            }
            accept_the_whole_region(stage, mine.address(), base);
        }
        stage.sync();
        assert_eq!(stage.read::<u8>(victim.address(), BYTES as usize), [0x55; BYTES as usize]);
        assert!(stage.read::<u8>(mine.address(), 1 << 16).iter().all(|&byte| byte == 0x55 || byte == 0));
        stage.sync();
    }
}

fn bad_ranges(stage: &Stage, base: GlobalAddress) -> Vec<(GlobalAddress, u64)> {
    // Of 64 bits, two name one of three ranks, and sixteen the slot.
    let (rank_shift, slot_shift) = (62, 46);
    let rank = base.bits() >> rank_shift;
    let place = |rank: u64, slot: u64, offset: u64| {
        GlobalAddress::from_bits(rank << rank_shift | slot << slot_shift | offset)
    };
    assert_eq!(stage.ranks(), 3);
    vec![
        (base.add(BYTES), 1),
        (base.add(BYTES - 1), 2),
        (base, BYTES + 1),
        (base, 1 << 16),
        (base.add(1 << 32), 8),
        (base.add((1 << slot_shift) - 8), 8),
        (base, u64::MAX),
        (base.add(8), u64::MAX - 4),
        (base.add(BYTES), u64::MAX - BYTES),
        (GlobalAddress::from_bits(u64::MAX), 1),
        (GlobalAddress::from_bits(u64::MAX - 7), 8),
        (GlobalAddress::NULL, 8),
        (GlobalAddress::from_bits(64), 8),
        (place(rank, 0, 8), 8),
        (place(rank, 4000, 0), 8),
        (place(rank, 65535, 64), 8),
        (place(3, 1, 0), 8),
        (place(3, 2, 0), 8),
    ]
}

fn is_bounds<T: std::fmt::Debug>(result: Result<T>, what: &str, address: GlobalAddress, bytes: u64) {
    match result {
        // Whoever says so, the error names the rank that the address belongs to: with three or four, by two bits.
        Err(Error::Bounds { rank, address: named, .. }) if named == 0 || u64::from(rank) == named >> 62 => {}
        other => panic!("{what} at {address:#x} with {bytes} bytes gave {other:?}; it should be Bounds"),
    }
}

fn refuse(stage: &Stage, mine: GlobalAddress, bad: GlobalAddress, bytes: u64) {
    let world = &stage.world;
    is_bounds(stage.copied(bad, mine, bytes), "a copy to it", bad, bytes);
    is_bounds(stage.copied(mine, bad, bytes), "a copy from it", bad, bytes);
    is_bounds(stage.copied(bad, bad, bytes), "a copy within it", bad, bytes);
    is_bounds(
        stage.copied(world.starter_address(1).expect("starter").add(2048), bad, bytes),
        "a copy away",
        bad,
        bytes,
    );
    if bytes <= 1 << 16 {
        let mut place = vec![0x77u8; bytes as usize];
        is_bounds(world.put_slice(GlobalPtr::from_address(bad), &place), "put_slice", bad, bytes);
        is_bounds(world.get_slice(GlobalPtr::from_address(bad), &mut place), "get_slice", bad, bytes);
        assert!(place.iter().all(|&byte| byte == 0x77), "what was not read is not changed");
    }
    if bytes == 8 && bad.bits().is_multiple_of(8) {
        let word = GlobalPtr::<u64>::from_address(bad);
        is_bounds(world.get(word), "get", bad, bytes);
        is_bounds(world.put(word, 1), "put", bad, bytes);
        is_bounds(world.fetch_add(word, 1), "fetch_add", bad, bytes);
        is_bounds(world.compare_swap(word, 0, 1), "compare_swap", bad, bytes);
        let atomic = |dst, target| {
            let handle = world.atomic(dst, target, AtomicOp::Add(1u64), Order::None)?;
            world.complete(handle)
        };
        is_bounds(atomic(mine, bad), "an atomic", bad, bytes);
        if world.rank_of(bad).is_none_or(|rank| world.node_of(rank) == Some(world.node())) {
            let before = stage.word(mine.add(8));
            is_bounds(atomic(bad, mine.add(8)), "the old value of an atomic", bad, bytes);
            assert_eq!(stage.word(mine.add(8)), before, "an atomic that was refused took effect");
        }
    }
}

/// After all the refusals everything still works.
fn accept_the_whole_region(stage: &Stage, mine: GlobalAddress, base: GlobalAddress) {
    stage.copied(mine, base, BYTES).expect("the whole region");
    stage.copied(base.add(BYTES), mine, 0).expect("nothing at the end");
    assert_eq!(stage.read::<u8>(base.add(BYTES - 1), 1), [0x55]);
}

/// Memory that was unregistered, and pointers to an earlier registration of a slot.
pub(crate) fn unregistered(stage: &Stage) {
    let arena = stage.world.alloc::<u64>(16).expect("alloc");
    let private = stage.world.register(vec![1u64; 16]).expect("register");
    gone(stage, arena.ptr(), || drop(arena));
    gone(stage, private.ptr(), || {
        let back = private.take().expect("take");
        assert!(back.iter().all(|&word| word == 1 || word == 2));
    });
    let mut memory = [1u64; 16];
    let lent = stage.world.lend(&mut memory, |lent| lent.ptr()).expect("lend");
    gone(stage, lent, || ());
    stale(stage, || stage.world.alloc::<u64>(4).expect("alloc"), Region::ptr);
    stale(stage, || stage.world.register(vec![0u64; 4]).expect("register"), Registered::ptr);
    moved_out(stage);
}

/// A pointer that was moved out of its region reaches no other one, neither of the same rank nor of another.
fn moved_out(stage: &Stage) {
    let arena = [0; 2].map(|_| stage.world.alloc::<u64>(8).expect("alloc"));
    let private = [0; 2].map(|_| stage.world.register(vec![0u64; 8]).expect("register"));
    let own = [arena[0].ptr(), arena[1].ptr(), private[0].ptr(), private[1].ptr()];
    let mut all = Vec::new();
    for pointer in own {
        let (address, registration) = pointer.parts();
        let (addresses, registrations) = (stage.exchange(address), stage.exchange_word(registration));
        let pair = |(address, registration)| GlobalPtr::<u8>::from_parts(address, registration);
        all.extend(addresses.into_iter().zip(registrations).map(pair));
    }
    for (index, from) in all.iter().enumerate() {
        assert_eq!(stage.world.get(from.cast::<u64>()).expect("its own region"), 0);
        for to in all.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, to)| to.address()) {
            let moved = from.add(to.bits().wrapping_sub(from.address().bits()) as usize).cast::<u64>();
            is_bounds(stage.world.get(moved), "get by a pointer moved out of its region", to, 8);
            is_bounds(stage.world.put(moved, 5), "put by a pointer moved out of its region", to, 8);
            is_bounds(stage.world.put_slice(moved, &[5; 4]), "put_slice by such a pointer", to, 32);
            is_bounds(stage.world.get_slice(moved, &mut [5; 4]), "get_slice by such a pointer", to, 32);
            is_bounds(stage.world.fetch_add(moved, 5), "fetch_add by such a pointer", to, 8);
        }
    }
    stage.sync();
}

/// Before `take_back` (of a region that is there) others may write, after it nobody may do anything.
fn gone(stage: &Stage, place: GlobalPtr<u64>, take_back: impl FnOnce()) {
    let all = stage.exchange(place.address());
    stage.sync();
    take_back();
    stage.sync();
    for address in all {
        let mine = stage.world.starter_address(stage.me()).expect("starter").add(1024);
        is_bounds(stage.world.get(GlobalPtr::<u64>::from_address(address)), "get", address, 8);
        is_bounds(stage.world.put(GlobalPtr::from_address(address), 3u64), "put", address, 8);
        is_bounds(stage.world.fetch_add(GlobalPtr::from_address(address), 3u32), "fetch_add", address, 4);
        is_bounds(stage.copied(mine, address, 64), "a copy from it", address, 64);
        is_bounds(stage.copied(address, mine, 64), "a copy to it", address, 64);
    }
    stage.sync();
}

/// A pointer to a registration is refused when another one has taken its slot.
fn stale<R>(stage: &Stage, make: impl Fn() -> R, pointer: impl Fn(&R) -> GlobalPtr<u64>) {
    let first = make();
    let (address, generation) = pointer(&first).parts();
    drop(first);
    let again = (0..5000).map(|_| make()).find(|again| pointer(again).address() == address);
    let again = again.expect("a slot is used again in the end");
    assert_ne!(pointer(&again).parts().1, generation);
    let addresses = stage.exchange(address);
    let old = stage.exchange_word(generation);
    let new = stage.exchange_word(pointer(&again).parts().1);
    for rank in 0..stage.ranks() as usize {
        let stale = GlobalPtr::<u64>::from_parts(addresses[rank], old[rank]);
        is_bounds(stage.world.get(stale), "get by a stale pointer", address, 8);
        is_bounds(stage.world.put(stale, 5), "put by a stale pointer", address, 8);
        is_bounds(stage.world.fetch_add(stale.add(1), 5), "fetch_add by a stale pointer", address, 8);
        is_bounds(stage.world.put_slice(stale, &[5; 4]), "put_slice by a stale pointer", address, 32);
        is_bounds(stage.world.get_slice(stale, &mut [5; 4]), "get_slice by a stale pointer", address, 32);
        let fresh = GlobalPtr::<u64>::from_parts(addresses[rank], new[rank]).add(stage.me() as usize);
        assert_eq!(stage.world.fetch_add(fresh, 10).expect("a fresh pointer"), 0);
        assert_eq!(stage.world.get(fresh).expect("a fresh pointer"), 10);
    }
    stage.sync();
}

static CONSTANT: [u64; 2048] = [3; 2048];

/// Memory that its owner may only read is read-only for everybody, by every way and at every length.
pub(crate) fn read_only(stage: &Stage) {
    let (start, bytes) = (CONSTANT.as_ptr() as *mut u8, size_of_val(&CONSTANT));
    // SAFETY: a constant can be read for ever, and it is not a register's business to write.
    let key =
        unsafe { raw::memory(&stage.world).register_raw(start, bytes, 0) }.expect("memory that can be read");
    let mine = stage.block(bytes);
    let is_refused = |result: Result<()>, what: &str, address: GlobalAddress| {
        let said = result.as_ref().err().map(ToString::to_string);
        assert!(said.is_some_and(|said| said.contains("read-only")), "{what} gave {result:?}");
        is_bounds(result, what, address, 8);
    };
    for address in stage.exchange(key.address) {
        let place = GlobalPtr::<u64>::from_address(address);
        // Having been there once must not make it easier to write.
        for _ in 0..2 {
            assert_eq!(stage.world.get(place.add(2047)).expect("get"), 3);
            for count in [1, 2, 3, 512, 513, 2048] {
                assert_eq!(stage.world.get_vec(place, count).expect("get_vec"), vec![3; count]);
                is_refused(stage.world.put_slice(place, &vec![9; count]), "put_slice", address);
                stage.copied(mine.address(), address, (8 * count) as u64).expect("a copy from it");
                is_refused(
                    stage.copied(address, mine.address(), (8 * count) as u64),
                    "a copy to it",
                    address,
                );
            }
            is_refused(stage.world.put(place, 9), "put", address);
            is_refused(stage.world.fetch_add(place, 9).map(drop), "fetch_add", address);
            is_refused(stage.world.swap(place.cast::<u32>(), 9).map(drop), "swap", address);
        }
    }
    stage.sync();
    assert_eq!(CONSTANT, [3; 2048]);
    raw::memory(&stage.world).unregister_raw(key).expect("unregister");
}

/// Atomics on words that are not aligned, wherever the memory begins.
pub(crate) fn misaligned(stage: &Stage) {
    let block = stage.block(256);
    let mut bytes = [0u64; 32];
    let odd: &mut [u8] = &mut cast(&mut bytes)[1..200];
    let lent = stage.world.lend(odd, |lent| {
        for base in stage.exchange(block.address()) {
            for offset in [1, 2, 3, 4, 5, 6, 7, 9] {
                refuse_misaligned::<u64>(stage, base.add(offset));
                if offset % 4 != 0 {
                    refuse_misaligned::<u32>(stage, base.add(offset));
                }
            }
            let dst = base.add(8 * stage.me() as u64);
            assert_eq!(stage.world.fetch_add(GlobalPtr::<u64>::from_address(dst), 1).expect("aligned"), 0);
        }
        // The address is a multiple of 8, but the memory behind it is not aligned.
        for base in stage.exchange(lent.ptr().address()) {
            refuse_misaligned::<u64>(stage, base.add(8));
            refuse_misaligned::<u32>(stage, base);
        }
        stage.sync();
    });
    lent.expect("lend");
    // In memory whose alignment everybody knows the call itself refuses, whatever it would have to wait for.
    for rank in 0..stage.ranks() {
        let word = stage.starter(rank).address().add(4);
        let asked = stage.world.atomic(block.address(), word, AtomicOp::Add(1u64), Order::All);
        assert!(matches!(asked, Err(Error::Misuse(_))), "{asked:?}");
    }
    assert_eq!(bytes, [0; 32]);
    stage.sync();
}

fn cast(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: words are bytes without padding, and the borrow is passed on.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

fn refuse_misaligned<W: kumiki::AtomicWord + From<u8> + std::fmt::Debug + Pod>(
    stage: &Stage,
    place: GlobalAddress,
) {
    let misuse = |result: Result<()>, what: &str| match result {
        Err(Error::Misuse(_)) => {}
        other => panic!("{what} at {place:#x} gave {other:?}; it should be Misuse"),
    };
    let word = GlobalPtr::<W>::from_address(place);
    misuse(stage.world.fetch_add(word, W::from(1)).map(drop), "fetch_add");
    misuse(stage.world.compare_swap(word, W::from(0), W::from(1)).map(drop), "compare_swap");
    misuse(stage.world.swap(word, W::from(1)).map(drop), "swap");
    let mine = stage.starter(stage.me()).address();
    let atomic = |dst, target| {
        let handle = stage.world.atomic(dst, target, AtomicOp::Add(W::from(1)), Order::None)?;
        stage.world.complete(handle)
    };
    misuse(atomic(mine, place), "an atomic");
}

/// Colours are accepted, and remembered; one that cannot be is refused.
pub(crate) fn colours(stage: &Stage) {
    assert!(raw::memory(&stage.world).colours() >= 1);
    for colour in 0..=15 {
        let region = raw::memory(&stage.world).alloc_coloured::<u64>(4, colour).expect("a colour");
        assert_eq!(raw::memory(&stage.world).colour_of(region.address()), Some(colour));
        stage.world.put(region.ptr(), 4).expect("put");
        assert_eq!(stage.world.get(region.ptr()).expect("get"), 4);
    }
    let error = raw::memory(&stage.world).alloc_coloured::<u64>(4, 16).expect_err("there is no colour 16");
    assert!(matches!(&error, Error::Misuse(why) if why.contains("colour 16")), "{error}");
}
