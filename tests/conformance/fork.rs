//! A fork of a rank may not use the world, and does not disturb it.

use crate::stage::Stage;
use kumiki::data::{Deque, List, Map, On, Spread, Vector};
use kumiki::{AtomicOp, Error, GlobalPtr, Order, Result, World};

pub(crate) fn fork(stage: &Stage) {
    let block = stage.block(4096);
    let region = stage.world.alloc::<u64>(8).expect("alloc");
    let mut vector = Vector::<u64>::create(&stage.world, On::rank(stage.me())).expect("create");
    let map =
        Map::create(&stage.world, Spread::over(&[0, 1]).slots(4).directory(stage.me())).expect("create");
    map.insert(b"one", b"1").expect("insert");
    let group = stage.world.group().expect("a group");
    let all = stage.exchange(block.address());
    let next = all[(stage.me() + 1) as usize % all.len()].add(64 * stage.me() as u64);
    for round in 0..5u64 {
        // SAFETY: the child only calls the library, whose calls must fail in it, and ends without returning.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            let wrong = calls_that_do_not_fail(stage, &region, next).max(structures_that_do_not_fail(
                stage,
                &mut vector,
                &map,
            ));
            let met = group.barrier();
            let wrong = wrong.max(if matches!(met, Err(Error::Misuse(_))) { 0 } else { 120 });
            // SAFETY: the child has its own copy of the world, and ends before the other owner is dropped.
            let world = unsafe { std::ptr::read(&stage.world) };
            let finalized = world.finalize();
            let right = matches!(&finalized, Err(Error::Misuse(why)) if why.contains("fork"));
            let wrong = wrong.max(if right { 0 } else { 100 });
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(wrong) };
        }
        // Meanwhile the parent goes on.
        let word = GlobalPtr::<u64>::from_address(next);
        assert_eq!(stage.world.fetch_add(word, 1).expect("add"), round);
        stage.sync();
        let mut status = 0;
        // SAFETY: the status is a place for one number.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        let code = libc::WEXITSTATUS(status);
        assert!(
            libc::WIFEXITED(status) && code == 0,
            "call {code} of a forked child did not fail with Misuse"
        );
    }
    group.free().expect("the group has lost nobody");
    stage.sync();
    assert_eq!(stage.word(next), 5, "the parents alone have added");
    stage.sync();
}

/// The same with data structures, whose memory the child does not see; numbers from 101.
fn structures_that_do_not_fail(stage: &Stage, vector: &mut Vector<'_, u64>, map: &Map<'_>) -> i32 {
    let world = &stage.world;
    let results: [Result<()>; 7] = [
        vector.push(1),
        vector.get(0).map(drop),
        Vector::<u64>::create(world, On::rank(stage.me())).map(drop),
        map.insert(b"two", b"2").map(drop),
        map.get(b"one").map(drop),
        List::create(world, stage.me()).map(drop),
        Deque::<u64>::create(world, On::rank(stage.me()).elements(4)).map(drop),
    ];
    let right = |result: &Result<()>| matches!(result, Err(Error::Misuse(why)) if why.contains("fork"));
    results.iter().position(|result| !right(result)).map_or(0, |index| index as i32 + 101)
}

/// The number of the first call that does not fail as it should, 0 if there is none.
fn calls_that_do_not_fail(stage: &Stage, region: &kumiki::Region<u64>, there: kumiki::GlobalAddress) -> i32 {
    let world = &stage.world;
    let mine = stage.starter(stage.me());
    let word = GlobalPtr::<u64>::from_address(there);
    let nothing = |_: Result<()>| ();
    let results: [Result<()>; 18] = [
        world.progress().map(drop),
        world.put(word, 1),
        world.get(word).map(drop),
        world.put(mine, 1),
        world.get(mine).map(drop),
        world.fetch_add(word, 1).map(drop),
        world.fetch_add(mine, 1).map(drop),
        world.put_slice(word, &[1, 2]),
        world.get_slice(word, &mut [1, 2]),
        world.copy(there, mine.address(), 8, Order::None).map(drop),
        world.copy(mine.address(), mine.address(), 8, Order::All).map(drop),
        world.atomic(mine.address(), there, AtomicOp::Add(1u64), Order::None).map(drop),
        world.alloc::<u64>(1).map(drop),
        world.register(vec![1u64]).map(drop),
        world.lend(&mut [1u64], |lent| nothing(world.put(lent.ptr(), 1))),
        region.read(0, &mut [0]),
        world.sync(),
        World::init().map(drop),
    ];
    let right = |result: &Result<()>| matches!(result, Err(Error::Misuse(why)) if why.contains("fork"));
    results.iter().position(|result| !right(result)).map_or(0, |index| index as i32 + 1)
}
