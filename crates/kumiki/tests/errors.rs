//! Errors of data structures are errors of their world: a rank that returns because of one has not come to its end.

use kumiki::data::{Chunks, Counter, Deque, List, Map, Multiset, On, Set, Spread, Vector, Workspace};
use kumiki::{GlobalAddress, Result, World};

/// Something that fails, in a world of its own.
type Case = (&'static str, fn(&World) -> Result<()>);

const CASES: &[Case] = &[
    ("malloc", |world| world.malloc(usize::MAX / 2, 0).map(drop)),
    ("malloc on a rank that is not there", |world| world.malloc(8, 7).map(drop)),
    ("free", |world| world.free(world.malloc(8, 0)?.add(8))),
    ("heap_use", |world| world.heap_use(7).map(drop)),
    ("a counter", |world| Counter::create(world, 7).map(drop)),
    ("a vector on a rank that is not there", |world| {
        Vector::<u64>::create(world, On::rank(7).elements(1)).map(drop)
    }),
    ("a vector that is too long", |world| {
        Vector::<u64>::create(world, On::rank(0).elements(usize::MAX)).map(drop)
    }),
    ("an element of a vector", |world| {
        Vector::<u64>::create(world, On::rank(0).elements(1))?.get(1).map(drop)
    }),
    ("an index of a vector", |world| {
        Vector::<u64>::create(world, On::rank(0).elements(1))?.get(usize::MAX).map(drop)
    }),
    ("the place of an element", |world| {
        Vector::<u64>::create(world, On::rank(0).elements(1))?.at(1).map(drop)
    }),
    ("a range of a vector", |world| Vector::<u64>::create(world, On::rank(0).elements(1))?.erase(0..2)),
    ("no vector", |world| Vector::<u64>::from_address(world, GlobalAddress::NULL).len().map(drop)),
    ("a write to a deque", |world| Deque::<u64>::create(world, On::rank(0).elements(1))?.write(0, &[1])),
    ("pieces of a deque", |world| {
        Deque::<u64>::create(world, On::rank(0).elements(1))?.pieces(0..1).map(drop)
    }),
    ("a list on a rank that is not there", |world| List::create(world, 7).map(drop)),
    ("the end of a list", |world| {
        let list = List::create(world, 0)?;
        list.read(list.end()).map(drop)
    }),
    ("an element on a rank that is not there", |world| List::create(world, 0)?.push_back(b"x", 7).map(drop)),
    ("a value of another length", |world| {
        let mut list = List::create(world, 0)?;
        let place = list.push_back(b"x", 0)?;
        list.value::<u64>(place).map(drop)
    }),
    ("erasing the end of a list", |world| {
        let mut list = List::create(world, 0)?;
        let end = list.end();
        list.erase(end).map(drop)
    }),
    ("a map on a rank that is not there", |world| {
        Map::create(world, Spread::over(&[7]).slots(8).directory(0)).map(drop)
    }),
    ("a map without slots", |world| Map::create(world, Spread::over(&[0]).slots(0)).map(drop)),
    ("a key that is too long", |world| {
        Map::create(world, Spread::over(&[0]).slots(8))?.get(&vec![0; 9 << 20]).map(drop)
    }),
    ("keys that are too long", |world| {
        Map::create(world, Spread::over(&[0]).slots(8))?.get_many(&[vec![0; 9 << 20]]).map(drop)
    }),
    ("a set that is gone", |world| {
        let set = Set::create(world, Spread::over(&[0]).slots(8))?;
        let raw = set.raw();
        let other = Set::from_raw(world, raw)?;
        set.destroy()?;
        other.insert(b"x").map(drop)
    }),
    ("the end of a multiset", |world| {
        let multiset = Multiset::create(world, Spread::over(&[0]).slots(8))?;
        multiset.dereference(multiset.end()).map(drop)
    }),
    ("a workspace without chunks", |world| Workspace::shared_with(world, 8, Chunks::of(0)).map(drop)),
    ("bytes behind a workspace", |world| Workspace::shared(world, 8)?.write(1, &[0; 8])),
];

#[test]
fn errors_of_data_structures_count_as_errors_of_the_world() {
    for (name, fails) in CASES {
        let world = World::init().unwrap();
        let failed = fails(&world);
        assert!(failed.is_err(), "{name}");
        assert!(world.has_returned_an_error(), "{name}: {failed:?}");
    }
}

#[test]
fn what_is_found_empty_is_no_error() {
    let world = World::init().unwrap();
    let map = Map::create(&world, Spread::over(&[0]).slots(8)).unwrap();
    assert_eq!(map.get(b"x"), Ok(None));
    assert_eq!(Deque::<u64>::create(&world, On::rank(0).elements(1)).unwrap().pop_front(), Ok(None));
    assert_eq!(List::create(&world, 0).unwrap().pop_back(), Ok(None));
    assert!(!world.has_returned_an_error());
    world.finalize().unwrap();
}
