//! Waiting for a word: a token goes round by every way of writing, ranks that come late find it, and what never comes ends with the
//! time.

use crate::stage::Stage;
use kumiki::{AtomicOp, Error, GlobalPtr, Is, Order, Wait};
use std::time::Duration;

const ROUNDS: u64 = 12;

/// Each rank waits for its word, and writes the next number into the word of the next rank.
pub(crate) fn words(stage: &Stage) {
    let world = &stage.world;
    let block = stage.block(64);
    let places = stage.exchange(block.address());
    let next = (stage.me() + 1) % stage.ranks();
    let (mine, theirs) = (places[stage.me() as usize], places[next as usize]);
    let word = |address, index| GlobalPtr::<u64>::from_address(address).add(index);
    let before = (stage.me() + stage.ranks() - 1) % stage.ranks();
    for round in 1..=ROUNDS {
        if stage.me() != 0 || round > 1 {
            let due = if stage.me() == 0 { round - 1 } else { round };
            let wait = if round % 2 == 0 { Wait::FOREVER } else { Wait::FOREVER.from(before) };
            assert_eq!(world.wait_until(word(mine, 0), Is::AtLeast(due), wait), Ok(due));
        }
        match round % 4 {
            0 => world.put(word(theirs, 0), round).expect("put"),
            1 => drop(world.fetch_add(word(theirs, 0), 1).map(|old| assert_eq!(old, round - 1))),
            2 => {
                world.put(word(mine, 1), round).expect("put");
                let handle = world.copy(word(theirs, 0).address(), word(mine, 1).address(), 8, Order::None);
                world.complete(handle.expect("copy")).expect("complete");
            }
            _ => {
                let (old, target) = (word(mine, 2).address(), word(theirs, 0).address());
                let handle = world.atomic(old, target, AtomicOp::Swap(round), Order::None);
                world.complete(handle.expect("atomic")).expect("complete");
            }
        }
    }
    if stage.me() == 0 {
        world.wait_until(word(mine, 0), |value| value == ROUNDS, Wait::FOREVER).expect("the last");
    }
    stage.sync();
    // Half a word, and one that nobody writes.
    let half = GlobalPtr::<u32>::from_address(mine.add(24));
    world.put(GlobalPtr::<u32>::from_address(theirs.add(24)), 7).expect("put");
    assert_eq!(world.wait_until(half, Is::NotEqual(0), Wait::FOREVER), Ok(7));
    let late = world.wait_until(half, Is::Less(7), Wait::at_most(Duration::from_millis(20)));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    let foreign = world.wait_until(word(theirs, 0), Is::Equal(0), Wait::FOREVER);
    assert!(matches!(foreign, Err(Error::Misuse(_))), "{foreign:?}");
    stage.sync();
}
