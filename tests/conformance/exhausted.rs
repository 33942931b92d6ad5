//! Memory that runs out in the middle of an operation: it is an error, the structure is what it was, and nothing leaks.
//!
//! Every rank makes its structures on the next one, fills that one's pool to the last byte, and then asks for more.

use crate::job::Job;
use crate::stage::Stage;
use crate::way::NODES;
use kumiki::data::{Counter, Deque, Insert, List, Map, Multiset, On, Set, Spread, Vector, Workspace};
use kumiki::{Error, GlobalAddress, Result};
use libtest_mimic::Trial;

/// A rank whose pool has no byte left, until the blocks are freed.
struct Full<'s> {
    stage: &'s Stage,
    rank: u32,
    blocks: Vec<GlobalAddress>,
}

impl<'s> Full<'s> {
    fn new(stage: &'s Stage, rank: u32) -> Full<'s> {
        let mut blocks = Vec::new();
        for bytes in [1 << 20, 64 << 10, 4096, 256, 32, 1] {
            let full = loop {
                match stage.world.malloc(bytes, rank) {
                    Ok(block) => blocks.push(block),
                    Err(error) => break error,
                }
            };
            assert!(matches!(full, Error::OutOfMemory { .. }), "{full}");
        }
        Full { stage, rank, blocks }
    }

    /// What is asked for is too much, and leaves nothing behind.
    fn refuses<T: std::fmt::Debug>(&self, what: &str, ask: impl FnOnce() -> Result<T>) {
        let used = || {
            let heap = self.stage.world.heap_use(self.rank).expect("heap_use");
            (heap.blocks, heap.used_bytes)
        };
        let before = used();
        let asked = ask();
        assert!(matches!(asked, Err(Error::OutOfMemory { .. })), "{what}: {asked:?}");
        assert_eq!(used(), before, "{what} has left something behind");
    }

    fn free(self) {
        self.blocks.into_iter().for_each(|block| self.stage.world.free(block).expect("free"));
    }
}

pub(crate) fn exhausted(stage: &Stage) {
    let rank = (stage.me() + 1) % stage.ranks();
    sequences(stage, rank);
    stage.expect_all_freed();
    lists(stage, rank);
    stage.expect_all_freed();
    maps(stage, rank);
    stage.expect_all_freed();
    sets(stage, rank);
    stage.expect_all_freed();
    makings(stage, rank);
    stage.expect_all_freed();
}

fn sequences(stage: &Stage, rank: u32) {
    let world = &stage.world;
    let numbers: Vec<u64> = (0..1000).collect();
    let more = vec![7; 2000];
    let mut vector = Vector::<u64>::create(world, On::rank(rank)).expect("create");
    vector.assign(&numbers).expect("assign");
    let mut deque = Deque::<u64>::create(world, On::rank(rank)).expect("create");
    deque.assign(&numbers).expect("assign");
    // A source of its own for what is assigned from elsewhere.
    let mut source = Vector::<u64>::create(world, On::rank(rank)).expect("create");
    source.assign(&more).expect("assign");
    let full = Full::new(stage, rank);
    // What still fits into the block of each is no question of memory.
    while vector.len().expect("len") < vector.capacity().expect("capacity") {
        vector.push(0).expect("room");
    }
    let (in_vector, in_deque) = (vector.to_vec().expect("read"), deque.to_vec().expect("read"));
    full.refuses("push", || vector.push(1));
    full.refuses("extend", || vector.extend(&more));
    full.refuses("insert", || vector.insert(10, &more));
    full.refuses("assign", || vector.assign(&[1; 5000]));
    full.refuses("assign_all", || vector.assign_all(&source));
    full.refuses("insert_range", || vector.insert_range(3, &source, 0..2000));
    full.refuses("reserve", || vector.reserve(100_000));
    full.refuses("a long insert", || vector.insert(10, &vec![0; 100_000]));
    full.refuses("extend of a deque", || deque.extend(&more));
    full.refuses("extend_front", || deque.extend_front(&more));
    full.refuses("insert into a deque", || deque.insert(500, &more));
    full.refuses("assign of a deque", || deque.assign(&[1; 5000]));
    full.refuses("reserve of a deque", || deque.reserve(100_000));
    assert!(vector.to_vec().expect("read") == in_vector && deque.to_vec().expect("read") == in_deque);
    full.free();
    vector.push(1).expect("memory again");
    deque.push_front(1).expect("memory again");
    vector.destroy().expect("destroy");
    deque.destroy().expect("destroy");
    source.destroy().expect("destroy");
}

fn lists(stage: &Stage, rank: u32) {
    let world = &stage.world;
    let mut list = List::create(world, rank).expect("create");
    let mut other = List::create(world, rank).expect("create");
    for number in 0..20u64 {
        list.push_back(&number.to_le_bytes(), rank).expect("push");
        other.push_back(&[number as u8; 100], rank).expect("push");
    }
    let full = Full::new(stage, rank);
    let (before, second) =
        (list.to_vec().expect("read"), list.next(list.begin().expect("begin")).expect("next"));
    let items: Vec<(&[u8], u32)> = vec![(&[1; 200], rank); 10];
    full.refuses("push_back", || list.push_back(&[0; 100], rank));
    full.refuses("push_front", || list.push_front(&[0; 100], rank));
    full.refuses("insert", || list.insert(second, &[0; 100], rank));
    full.refuses("insert_many", || list.insert_many(second, &items));
    full.refuses("insert_range", || list.insert_range(second, &other, other.begin()?, other.end()));
    full.refuses("assign", || list.assign(&other));
    assert_eq!(list.to_vec().expect("read"), before);
    // What needs no memory goes on.
    list.reverse().expect("reverse");
    list.merge_by(&mut other, |one, two| one.cmp(two)).expect("merge");
    assert_eq!((list.len(), other.len()), (Ok(40), Ok(0)));
    full.free();
    list.destroy().expect("destroy");
    other.destroy().expect("destroy");
}

fn maps(stage: &Stage, rank: u32) {
    let world = &stage.world;
    let (map, other) = (
        Map::create(world, Spread::over(&[rank]).slots(4)),
        Map::create(world, Spread::over(&[rank]).slots(8)),
    );
    let (map, other) = (map.expect("create"), other.expect("create"));
    for number in 0..20u64 {
        map.insert(&number.to_le_bytes(), &[1; 50]).expect("insert");
        other.insert(&(100 + number).to_le_bytes(), &[2; 300]).expect("insert");
    }
    let full = Full::new(stage, rank);
    let contents = || -> Vec<(Vec<u8>, Vec<u8>)> {
        map.iter().expect("a scan").map(|pair| pair.expect("a pair")).collect()
    };
    let before = contents();
    full.refuses("insert", || map.insert(b"new", &[0; 100]));
    full.refuses("put of a new key", || map.put(b"new", &[0; 100]));
    full.refuses("put of an old key", || map.put(&3u64.to_le_bytes(), &[0; 100]));
    full.refuses("insert_many", || map.insert_many(&[(b"one", [0; 100]), (b"two", [0; 100])]));
    full.refuses("merge", || map.merge(&other));
    full.refuses("swap", || map.swap(&other));
    full.refuses("move_from", || map.move_from(&other));
    assert_eq!(map.insert(&5u64.to_le_bytes(), &[0; 100]), Ok(Insert::Exists), "an old key needs no memory");
    assert_eq!((contents(), other.len()), (before, Ok(20)));
    full.free();
    map.merge(&other).expect("memory again");
    assert_eq!(map.len(), Ok(40));
    map.destroy().expect("destroy");
    other.destroy().expect("destroy");
}

fn sets(stage: &Stage, rank: u32) {
    let world = &stage.world;
    let set = Set::create(world, Spread::over(&[rank]).slots(4)).expect("create");
    let bag = Multiset::create(world, Spread::over(&[rank]).slots(4)).expect("create");
    for number in 0..20u64 {
        set.insert(&number.to_le_bytes()).expect("insert");
        bag.insert(&number.to_le_bytes()).expect("insert");
    }
    let full = Full::new(stage, rank);
    full.refuses("insert", || set.insert(&[1; 100]));
    full.refuses("insert_many", || set.insert_many(&[[1; 100], [2; 100]]));
    full.refuses("insert into a multiset", || bag.insert(&[1; 100]));
    full.refuses("insert_many into a multiset", || bag.insert_many(&[[1; 100], [2; 100]]));
    assert_eq!(bag.insert(&3u64.to_le_bytes()), Ok(2), "an old key needs no memory");
    assert_eq!((set.len(), bag.len()), (Ok(20), Ok(20)));
    assert!((0..20u64).all(|number| set.contains(&number.to_le_bytes()) == Ok(true)));
    full.free();
    set.destroy().expect("destroy");
    bag.destroy().expect("destroy");
}

/// What cannot be made at all.
fn makings(stage: &Stage, rank: u32) {
    let world = &stage.world;
    let full = Full::new(stage, rank);
    full.refuses("malloc", || world.malloc(100, rank));
    full.refuses("a vector", || Vector::<u64>::create(world, On::rank(rank).elements(100)));
    full.refuses("a deque", || Deque::<u64>::create(world, On::rank(rank).elements(100)));
    full.refuses("a list", || List::create(world, rank));
    full.refuses("a counter", || Counter::create(world, rank));
    full.refuses("a map", || Map::create(world, Spread::over(&[rank]).slots(100)));
    full.refuses("a set", || Set::create(world, Spread::over(&[rank]).slots(100)));
    full.refuses("a multiset", || Multiset::create(world, Spread::over(&[rank]).slots(100)));
    stage.sync();
    full.refuses("a workspace", || Workspace::shared(world, 1 << 20));
    stage.sync();
    full.free();
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |way: &'static crate::way::Way| {
        Trial::test(format!("{}::exhausted", way.name), move || {
            Job::new(way, "exhausted", 4).env("KUMIKI_BUDGET", "2M").run().success()
        })
    };
    NODES.iter().map(trial).collect()
}
