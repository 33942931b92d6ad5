//! Views: memory of the node at the speed of the machine, and what becomes of it when its owner frees it.

use crate::stage::{Block, Stage};
use kumiki::{Error, GlobalPtr, Purpose};

/// Every rank counts in words of every rank, in a view where it can have one.
pub(crate) fn views(stage: &Stage) {
    let world = &stage.world;
    let block = stage.block(4096);
    let blocks = stage.exchange(block.address());
    for (rank, &address) in blocks.iter().enumerate() {
        let start = GlobalPtr::<u64>::from_address(address);
        let is_near = world.node_of(rank as u32) == Some(world.node());
        let view = world.view(start, 512);
        if !is_near || matches!(block, Block::Private(_)) {
            let refused = matches!(&view, Err(Error::Misuse(why)) if why.contains("use put, get"));
            assert!(refused, "a view of what is elsewhere: {view:?}");
            (0..512).for_each(|index| assert!(world.fetch_add(start.add(index), 1).expect("add") < 4));
            continue;
        }
        let view = view.expect("a view");
        for index in 0..view.len() {
            view.fetch_add(index, 1).expect("add in a view");
        }
        assert!(view.load(512).is_err());
    }
    let all = u64::from(stage.ranks());
    stage.sync();
    assert_eq!(stage.read::<u64>(block.address(), 512), [all; 512]);
    stage.sync();
}

/// The owner frees what a neighbour has in view: it does not wait, and nothing else gets the memory until the view is gone.
pub(crate) fn freed_in_view(stage: &Stage) {
    const WORDS: usize = 1024;
    let world = &stage.world;
    let heap = || world.ledger().of(Purpose::Heap);
    let before = heap();
    let region = world.alloc::<u64>(WORDS).expect("alloc");
    let bytes = heap() - before;
    let next = (stage.me() + 1) % stage.ranks();
    let theirs = stage.exchange(region.address())[next as usize];
    let is_near = |rank: u32| world.node_of(rank) == Some(world.node());
    let view =
        is_near(next).then(|| world.view(GlobalPtr::<u64>::from_address(theirs), WORDS).expect("a view"));
    stage.sync();
    let place = region.as_mut_ptr();
    drop(region);
    let held = if is_near((stage.me() + stage.ranks() - 1) % stage.ranks()) { bytes } else { 0 };
    assert_eq!(heap() - before, held, "memory in view is not free");
    let other = world.alloc::<u64>(WORDS).expect("alloc");
    assert_eq!(other.as_mut_ptr() == place, held == 0);
    stage.sync();
    if let Some(view) = &view {
        view.write(0, &[9; WORDS]).expect("write");
        assert_eq!(view.swap(7, 8).expect("swap"), 9);
        assert!(world.get(GlobalPtr::<u64>::from_address(theirs)).is_err(), "it is gone for new accesses");
    }
    stage.sync();
    let mut found = [1; WORDS];
    other.read(0, &mut found).expect("read");
    assert_eq!(found, [0; WORDS]);
    drop(view);
    stage.sync();
    drop(other);
    assert_eq!(heap(), before, "the owner looks again when it frees");
    stage.sync();
}
