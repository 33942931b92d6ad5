//! Tests of what regions promise: to the programs that own them, and to those who hold pointers.

use crate::engine::order::Order;
use crate::node::access::Reach;
use crate::node::address::{AddressFormat, GlobalPtr, Registration};
use crate::node::atomic::AtomicOp;
use crate::{Error, Result, World};
use kumiki_net::os::memory::PAGE_BYTES;

fn is_bounds<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::Bounds { .. })), "{result:?}");
}

/// A world that is dropped after an error is not finalized: neighbours may go on, and must find the region gone.
#[test]
fn memory_that_outlives_a_world_dropped_after_an_error_is_retired_before_it_is_freed() {
    let world = World::init().unwrap();
    let field = world.register(vec![1.0f64; 100]).unwrap();
    is_bounds(world.get(field.ptr().add(100)));
    let (core, slot) = (world.core().clone(), field.granted.slot as usize);
    let entry = || core.arena.region(core.local, slot).unwrap().view();
    drop(world);
    assert!(entry().is_some(), "it is still the program's to read and write by others");
    drop(field);
    assert_eq!(entry(), None);
}

#[test]
fn what_a_reset_gave_to_the_next_life_is_left_alone() {
    let world = World::init().unwrap();
    let (field, table) = (world.register(vec![1u8; 100]).unwrap(), world.alloc::<u8>(100).unwrap());
    let world = world.reset(0).unwrap();
    let (next_field, next_table) = (world.register(vec![2u8; 9]).unwrap(), world.alloc::<u8>(9).unwrap());
    assert_eq!((next_field.address(), next_table.address()), (field.address(), table.address()));
    drop((field, table));
    assert_eq!(world.get(next_field.ptr()).unwrap(), 2);
    world.put(next_table.ptr(), 3).unwrap();
    drop((next_field, next_table));
    world.finalize().unwrap();
}

#[test]
fn a_pointer_moved_out_of_its_region_does_not_reach_another() {
    // A slot spans 64 KiB here.
    let world = World::with_format(AddressFormat::cut(16, 64));
    let regions = [0; 3].map(|_| world.alloc::<u64>(10).unwrap());
    let private = world.register(vec![7u64; 10]).unwrap();
    let starter = world.starter::<u64>(0).unwrap();
    let starts = [regions[0].ptr(), regions[1].ptr(), regions[2].ptr(), private.ptr(), starter];
    for (from, start) in starts.iter().enumerate() {
        for to in (0..starts.len()).filter(|to| *to != from) {
            let moved =
                start.add((starts[to].address().bits().wrapping_sub(start.address().bits()) / 8) as usize);
            if moved.address() != starts[to].address() {
                continue;
            }
            assert!(world.get(GlobalPtr::<u64>::from_address(moved.address())).is_ok(), "something is there");
            is_bounds(world.get(moved));
            is_bounds(world.put(moved, 1));
            is_bounds(world.fetch_add(moved, 1));
            is_bounds(world.put_slice(moved, &[1, 2]));
            is_bounds(world.get_slice(moved, &mut [1, 2]));
        }
        let (address, registration) = start.parts();
        assert!(world.get(GlobalPtr::<u64>::from_parts(address, registration)).is_ok());
        is_bounds(world.get(start.add(1 << 40)));
        is_bounds(world.get(start.add(usize::MAX)));
    }
    drop((regions, private));
    world.finalize().unwrap();
}

/// A neighbour that was let in before the region was freed goes on copying, into pages that the system has taken back.
#[test]
fn what_a_neighbour_wrote_into_freed_memory_is_not_found_in_the_next_region() {
    let world = World::init().unwrap();
    for bytes in [100, PAGE_BYTES as usize, 3 * PAGE_BYTES as usize + 100, 64 << 10] {
        let region = world.alloc::<u8>(bytes).unwrap();
        let late = region.as_mut_ptr();
        drop(region);
        // SAFETY: the arena stays mapped with the world, and nobody else is using this part of it.
        unsafe { std::ptr::write_bytes(late, 0xee, bytes) };
        let next = world.alloc::<u8>(bytes).unwrap();
        assert_eq!(next.as_mut_ptr(), late, "the same memory");
        assert!(
            world.get_vec(next.ptr(), bytes as u64).unwrap().iter().all(|&byte| byte == 0),
            "{bytes} bytes"
        );
        drop(next);
        // Beyond what was ever in use there is nothing to find, and behind it neither.
        let longer = world.alloc::<u8>(2 * bytes).unwrap();
        assert!(world.get_vec(longer.ptr(), 2 * bytes as u64).unwrap().iter().all(|&byte| byte == 0));
    }
    world.finalize().unwrap();
}

static CONSTANT: [u64; 64] = [3; 64];

#[test]
fn memory_that_may_only_be_read_is_a_read_only_region() {
    let world = World::init().unwrap();
    // SAFETY: a constant can be read for ever.
    let key = unsafe { world.register_raw(CONSTANT.as_ptr() as *mut u8, 512, 0) }.unwrap();
    let (constant, word) = (GlobalPtr::<u64>::from_address(key.address), world.starter::<u64>(0).unwrap());
    assert_eq!((world.get(constant.add(63)).unwrap(), world.get_vec(constant, 64).unwrap().len()), (3, 64));
    let (here, there) = (word.address(), key.address);
    let done = |handle: Result<_>| handle.and_then(|handle| world.complete(handle));
    done(world.copy(here, there, 8, Order::None)).unwrap();
    assert_eq!(world.get(word).unwrap(), 3);
    let refused = |result: Result<()>| {
        let error = result.expect_err("nobody can write there");
        assert!(matches!(error, Error::Bounds { address, .. } if address == there.bits()), "{error:?}");
        assert!(error.to_string().contains("read-only memory"), "{error}");
    };
    refused(world.put(constant, 1));
    refused(world.put_slice(constant, &[1; 32]));
    refused(world.fetch_add(constant, 1).map(drop));
    refused(world.compare_swap(constant.cast::<u32>(), 1, 2).map(drop));
    refused(done(world.copy(there, here, 8, Order::None)));
    refused(done(world.copy_in_turn(there, here, 256, Order::All)));
    refused(done(world.atomic(here, there, AtomicOp::Add(1u64), Order::None)));
    // The old value has no place to go to: the word is not changed either.
    refused(done(world.atomic(there, here, AtomicOp::Add(1u64), Order::None)));
    assert_eq!((world.get(word).unwrap(), CONSTANT), (3, [3; 64]));
    world.unregister_raw(key).unwrap();
    // SAFETY: nothing is registered.
    let nowhere = unsafe { world.register_raw(64 as *mut u8, 8, 0) };
    assert!(matches!(&nowhere, Err(Error::Misuse(why)) if why.contains("not mapped")), "{nowhere:?}");
    world.finalize().unwrap();
}

/// What comes from other nodes is written by the owner: it would end by a fault.
#[test]
fn an_owner_writes_nothing_into_read_only_memory_for_others() {
    let world = World::init().unwrap();
    // SAFETY: as above.
    let key = unsafe { world.register_raw(CONSTANT.as_ptr() as *mut u8, 512, 0) }.unwrap();
    let core = world.core();
    let reach = core.reach(key.address, Registration::ANY, 8).unwrap();
    assert!(matches!(reach, Reach::Private(_)) && reach.check_writable(8).is_err());
    crate::engine::hostile::put_is_refused(&world, key.address);
    world.unregister_raw(key).unwrap();
    world.finalize().unwrap();
}
