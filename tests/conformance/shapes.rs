//! Shapes and signals: sections and lists of pieces against a model, what reaches out of a region, and data that is there when its
//! word is.

use crate::stage::{patterned, Stage};
use kumiki::{AtomicOp, Error, GlobalPtr, Is, Shape, Wait};
use proptest::prelude::*;

const WORDS: usize = 4096;

/// Where the elements of a section lie, in order.
fn places(start: i64, dimensions: &[(usize, isize)]) -> Vec<i64> {
    dimensions.iter().fold(vec![start], |all, &(extent, stride)| {
        all.iter().flat_map(|at| (0..extent as i64).map(move |step| at + step * stride as i64)).collect()
    })
}

/// A shape, and the places of its elements.
fn shapes() -> impl Strategy<Value = (Shape, Vec<i64>)> {
    let section = prop::collection::vec((1..5usize, -40..40isize), 0..4).prop_map(|dimensions| {
        let shape = Shape::section(&dimensions).expect("a section");
        (shape, places(0, &dimensions))
    });
    let list = prop::collection::vec((0..900usize, 0..30usize), 0..8).prop_map(|pieces| {
        let places = pieces.iter().flat_map(|&(at, length)| at as i64..(at + length) as i64).collect();
        (Shape::pieces(&pieces).expect("a list"), places)
    });
    let rows = (1..7usize, -160..320isize, 30..200usize).prop_map(|(count, stride, row)| {
        let dimensions = [(count, stride), (row, 1)];
        (Shape::section(&dimensions).expect("a section"), places(0, &dimensions))
    });
    prop_oneof![section, list, rows]
}

/// Every rank has a part of its own in the block of the next; a model says what must be there.
pub(crate) fn shapes_of_all_kinds(stage: &Stage) {
    let world = &stage.world;
    let block = stage.block(WORDS * 2 * stage.ranks() as usize);
    let places = stage.exchange(block.address());
    let next = (stage.me() + 1) % stage.ranks();
    let base =
        GlobalPtr::<u16>::from_address(places[next as usize].add(WORDS as u64 * 2 * stage.me() as u64));
    let values: Vec<u16> = (0..WORDS).map(|at| at as u16 ^ 0x5aa5).collect();
    stage.cases(24, *b"sh", (shapes(), 0..1000usize, any::<bool>()), |((shape, there), start, strided)| {
        let start = start + 1000;
        let count = shape.len();
        // Here: side by side, or every third.
        let (here, step) =
            if strided { (Shape::section(&[(count, 3)]), 3) } else { (Shape::contiguous(count), 1) };
        let here = here.expect("a shape");
        let mut model = world.get_vec(base, WORDS).expect("get");
        world.put_shape(base + start, &shape, &values[..count * step], &here).expect("put");
        for (index, at) in there.iter().enumerate() {
            model[(start as i64 + at) as usize] = values[index * step];
        }
        prop_assert_eq!(&world.get_vec(base, WORDS).expect("get"), &model);
        let mut found = vec![9; count * step];
        world.get_shape(base + start, &shape, &mut found, &here).expect("get");
        for (index, value) in found.iter().enumerate() {
            let at = there.get(index / step).filter(|_| index % step == 0);
            prop_assert_eq!(*value, at.map_or(9, |at| model[(start as i64 + at) as usize]));
        }
        Ok(())
    });
    stage.sync();
    refused(stage, places[next as usize]);
    stage.sync();
}

/// What does not fit is refused, and nothing of it is written.
fn refused(stage: &Stage, theirs: kumiki::GlobalAddress) {
    let world = &stage.world;
    let bytes = WORDS * 2 * stage.ranks() as usize;
    let base = GlobalPtr::<u8>::from_address(theirs);
    let before = world.get_vec(base, bytes).expect("get");
    let here = |shape: &Shape| Shape::contiguous(shape.len()).expect("a shape");
    let beyond = [
        Shape::section(&[(3, bytes as isize / 2), (2, 1)]).expect("a section"),
        Shape::section(&[(2, -1)]).expect("a section"),
        Shape::pieces(&[(0, 4), (bytes - 1, 2)]).expect("a list"),
        Shape::pieces(&vec![(bytes, 1); 9000]).expect("a list"),
    ];
    for shape in &beyond {
        let mut some = vec![0xcc; shape.len()];
        let put = world.put_shape(base, shape, &some, &here(shape));
        let got = world.get_shape(base, shape, &mut some, &here(shape));
        // Without a region in its name, a pointer may lead to another one below: that is its owner's to say.
        for result in [put, got] {
            assert!(matches!(result, Err(Error::Bounds { .. })), "{shape:?}: {result:?}");
        }
    }
    let two = Shape::contiguous(2).expect("a shape");
    for wrong in [
        world.put_shape(base, &two, &[1, 2, 3], &Shape::contiguous(3).expect("a shape")),
        world.put_shape(base, &two, &[1], &two),
        world.put_signal(base, &[1], GlobalPtr::<u64>::from_address(theirs.add(4)), AtomicOp::Add(1)),
        world.put_signal(base, &[1], stage.starter((world.rank() + 2) % world.ranks()), AtomicOp::Add(1)),
    ] {
        assert!(matches!(wrong, Err(Error::Misuse(_))), "{wrong:?}");
    }
    let past = GlobalPtr::<u64>::from_address(theirs.add(bytes as u64));
    for beyond in [
        world.put_signal(past, &[1u64], past, AtomicOp::Add(1)),
        world.put_signal(base, &[1], past, AtomicOp::Add(1)),
    ] {
        assert!(matches!(beyond, Err(Error::Bounds { .. })), "{beyond:?}");
    }
    assert!(world.get_vec(base, bytes).expect("get") == before, "something was written");
    // A list that is longer than a message can say.
    let many: Vec<(usize, usize)> = (0..9000).map(|at| (at * 3 % 8000, 1)).collect();
    let shape = Shape::pieces(&many).expect("a list");
    let mut found = vec![0; 9000];
    world.get_shape(base, &shape, &mut found, &here(&shape)).expect("get");
    assert!(many.iter().zip(&found).all(|((at, _), value)| before[*at] == *value));
}

/// Each rank sends to the next, again and again: whoever sees the word sees the data of the same round.
pub(crate) fn signals(stage: &Stage) {
    let world = &stage.world;
    const BYTES: usize = 300_000;
    let block = stage.block(BYTES + 64);
    let places = stage.exchange(block.address());
    let next = (stage.me() + 1) % stage.ranks();
    let before = (stage.me() + stage.ranks() - 1) % stage.ranks();
    let word =
        |rank: u32, index| GlobalPtr::<u64>::from_address(places[rank as usize].add(BYTES as u64)).add(index);
    for round in 1..=8u64 {
        let bytes = [0, 1, 8, 17, 5000, 140_000, BYTES, 64][round as usize - 1];
        let data = patterned(round * 100 + u64::from(stage.me()), bytes);
        let signal = if round % 2 == 0 { AtomicOp::Swap(round) } else { AtomicOp::Add(1) };
        let to = GlobalPtr::<u8>::from_address(places[next as usize]);
        world.put_signal(to, &data, word(next, 0), signal).expect("put");
        let seen = world.wait_until(word(stage.me(), 0), Is::AtLeast(round), Wait::FOREVER.from(before));
        assert_eq!(seen, Ok(round));
        let found = stage.read::<u8>(block.address(), bytes);
        assert!(found == patterned(round * 100 + u64::from(before), bytes), "round {round}");
        // It may be written again.
        world.fetch_add(word(before, 1), 1).expect("add");
        world.wait_until(word(stage.me(), 1), Is::AtLeast(round), Wait::FOREVER).expect("wait");
    }
    stage.sync();
}
