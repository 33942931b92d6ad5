//! Deques that are emptied and filled again: their bytes, and what their header says.

use super::{create, Done, Kind, Ring};
use crate::{GlobalAddress, World};
use proptest::prelude::*;
use std::collections::VecDeque;

/// What is done at an end: bytes are added, or so many taken; at the front, or at the back.
fn steps() -> impl Strategy<Value = Vec<(bool, bool, u64)>> {
    proptest::collection::vec((any::<bool>(), any::<bool>(), 1..24u64), 1..120)
}

/// Does one thing to a deque and to its model.
fn step(ring: &mut Ring<'_>, model: &mut VecDeque<u8>, (adds, at_front, bytes): (bool, bool, u64)) {
    let size = model.len() as u64;
    if adds {
        let data: Vec<u8> = (0..bytes).map(|byte| (byte * 7 + size) as u8).collect();
        let at = if at_front { 0 } else { size };
        ring.insert(at, bytes, Some(&data)).expect("insert");
        let behind = model.split_off(at as usize);
        model.extend(data.into_iter().chain(behind));
        return;
    }
    let bytes = if bytes > 12 { size } else { bytes.min(size) };
    let at = if at_front { 0 } else { size - bytes };
    ring.erase(at, bytes).expect("erase");
    model.drain(at as usize..(at + bytes) as usize);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_offset_is_an_index_of_the_body(capacity in 0..40u64, steps in steps()) {
        let world = World::init().expect("a world of one");
        let local = world.local();
        let Done { at, .. } = create(local, Kind::Deque, 0, capacity).expect("create");
        let mut model = VecDeque::new();
        for one in steps {
            let mut ring = Ring::open(local, Kind::Deque, GlobalAddress::from_bits(at)).expect("open");
            step(&mut ring, &mut model, one);
            let shape = Ring::open(local, Kind::Deque, GlobalAddress::from_bits(at)).expect("open").shape();
            prop_assert!(shape.offset < shape.capacity.max(1), "{shape:?} after {one:?}");
            let mut found = vec![0; model.len()];
            ring.read(0, &mut found).expect("read");
            prop_assert!(model == found && shape.size == model.len() as u64);
        }
        world.finalize().expect("finalize");
    }
}
