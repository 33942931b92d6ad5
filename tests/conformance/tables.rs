//! Maps, sets and multisets against a sequential model, their layout in memory, and whole-table operations.

use crate::job::Job;
use crate::stage::Stage;
use crate::way::NODES;
use kumiki::data::{Cursor, Insert, Map, Multiset, RawTable, Set, Spread, TypedMap};
use kumiki::{Error, GlobalAddress, World};
use libtest_mimic::Trial;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;

/// Rank 0 makes something and tells the others of it.
pub(crate) fn shared(stage: &Stage, make: impl FnOnce() -> RawTable) -> RawTable {
    let words = if stage.me() == 0 { make().words() } else { [0; 3] };
    RawTable::from_words(words.map(|word| stage.exchange_word(word)[0]))
}

fn everybody(world: &World) -> Vec<u32> {
    (0..world.ranks()).collect()
}

/// What is done with a key, by number.
#[derive(Clone, Debug)]
enum Step {
    Insert(u8, Vec<u8>),
    Put(u8, Vec<u8>),
    Get(u8),
    Remove(u8),
    Batch(Vec<(u8, Vec<u8>)>),
    GetMany(Vec<u8>),
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..200)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (any::<u8>(), value()).prop_map(|(key, value)| Step::Insert(key % 40, value)),
        (any::<u8>(), value()).prop_map(|(key, value)| Step::Put(key % 40, value)),
        any::<u8>().prop_map(|key| Step::Get(key % 40)),
        any::<u8>().prop_map(|key| Step::Remove(key % 40)),
        proptest::collection::vec((0u8..60, value()), 0..40).prop_map(Step::Batch),
        proptest::collection::vec(0u8..60, 0..40).prop_map(Step::GetMany),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Keys of different lengths, different on each rank.
fn key(rank: u32, number: u8) -> Vec<u8> {
    let mut key = vec![rank as u8];
    key.extend(std::iter::repeat_n(number, number as usize % 23));
    key.push(number);
    key
}

/// Every rank works on its own keys of one shared map, and always finds what its model has.
pub(crate) fn map_model(stage: &Stage) {
    let world = &stage.world;
    let raw = shared(stage, || {
        Map::create(world, Spread::over(&everybody(world)).slots(7).directory(stage.ranks() - 1))
            .unwrap()
            .raw()
    });
    let map = Map::from_raw(world, raw).unwrap();
    stage.cases(24, [1, 1], steps(), |steps| {
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in steps {
            check_step(stage, &map, &mut model, step)?;
        }
        for key in model.keys() {
            prop_assert!(map.remove(key).unwrap());
        }
        Ok(())
    });
    stage.sync();
    assert!(map.is_empty().unwrap());
    stage.sync();
    // The same content from all ranks, seen by all of them.
    for number in 0..50 {
        map.insert(&key(stage.me(), number), &[number + 1]).unwrap();
    }
    stage.sync();
    assert_eq!(map.len().unwrap(), 50 * stage.ranks() as usize);
    let all: BTreeMap<_, _> = map.iter().unwrap().map(|pair| pair.unwrap()).collect();
    assert_eq!(all.len(), map.len().unwrap());
    for rank in 0..stage.ranks() {
        (0..50).for_each(|number| assert_eq!(all[&key(rank, number)], [number + 1]));
    }
    let mine = map.iter_local().unwrap().count();
    assert_eq!(mine, map.len_local().unwrap());
    assert_eq!(map.is_empty_local().unwrap(), mine == 0);
    let parts = stage.exchange_word(mine as u64);
    assert_eq!(parts.iter().sum::<u64>() as usize, map.len().unwrap());
    layout(stage, &map, &all);
    stage.sync();
    map.clear_local().unwrap();
    stage.sync();
    assert!(map.is_empty().unwrap() && map.begin().unwrap() == map.end());
    stage.sync();
    if stage.me() == 0 {
        map.destroy().unwrap();
    }
    stage.sync();
    stage.expect_all_freed();
}

fn check_step(
    stage: &Stage,
    map: &Map<'_>,
    model: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    step: Step,
) -> std::result::Result<(), TestCaseError> {
    let key = |number| key(stage.me(), number);
    match step {
        Step::Insert(number, value) => {
            let done = map.insert(&key(number), &value).unwrap();
            let wanted = match (value.is_empty(), model.contains_key(&key(number))) {
                (true, _) => Insert::Removed,
                (false, true) => Insert::Exists,
                (false, false) => Insert::New,
            };
            prop_assert_eq!(done, wanted);
            match done {
                Insert::New => drop(model.insert(key(number), value)),
                Insert::Removed => drop(model.remove(&key(number))),
                Insert::Exists => {}
            }
        }
        Step::Put(number, value) => {
            map.put(&key(number), &value).unwrap();
            match value.is_empty() {
                true => drop(model.remove(&key(number))),
                false => drop(model.insert(key(number), value)),
            }
        }
        Step::Get(number) => {
            let wanted = model.get(&key(number));
            let found = map.get(&key(number)).unwrap();
            prop_assert_eq!(found.as_ref(), wanted);
            prop_assert_eq!(map.contains(&key(number)).unwrap(), wanted.is_some());
            let mut buffer = [0; 50];
            let found = map.get_into(&key(number), &mut buffer).unwrap();
            prop_assert_eq!(found, wanted.map(Vec::len));
            if let Some(wanted) = wanted {
                let fits = wanted.len().min(50);
                prop_assert_eq!(&buffer[..fits], &wanted[..fits]);
            }
        }
        Step::Remove(number) => {
            prop_assert_eq!(map.remove(&key(number)).unwrap(), model.remove(&key(number)).is_some());
        }
        Step::Batch(pairs) => {
            // Which of two equal keys in a batch comes first is not said, and neither when an empty value removes.
            let pairs: BTreeMap<Vec<u8>, Vec<u8>> =
                pairs.into_iter().map(|(number, value)| (key(number), value)).collect();
            let pairs: Vec<_> = pairs.into_iter().collect();
            let done = map.insert_many(&pairs).unwrap();
            for ((key, value), done) in pairs.into_iter().zip(done) {
                match (value.is_empty(), model.contains_key(&key)) {
                    (true, _) => {
                        prop_assert_eq!(done, Insert::Removed);
                        model.remove(&key);
                    }
                    (false, there) => {
                        prop_assert_eq!(done, if there { Insert::Exists } else { Insert::New });
                        model.entry(key).or_insert(value);
                    }
                }
            }
        }
        Step::GetMany(numbers) => {
            let keys: Vec<_> = numbers.into_iter().map(key).collect();
            let wanted: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
            prop_assert_eq!(map.get_many(&keys).unwrap(), wanted);
        }
    }
    Ok(())
}

/// Walks the map as a C program does, by what lies in memory, and finds the same.
fn layout(stage: &Stage, map: &Map<'_>, all: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let raw = map.raw();
    let directory: Vec<u64> = stage.read(raw.address, raw.ranks as usize);
    let (mut found, mut cursor) = (0, map.begin().unwrap());
    for (index, &slots) in directory.iter().enumerate() {
        for slot in 0..raw.slots {
            let words: Vec<u64> = stage.read(GlobalAddress::from_bits(slots + 32 * slot), 4);
            let (mut element, mut previous, mut count) = (words[1], 0, 0);
            while element != 0 {
                let address = GlobalAddress::from_bits(element);
                assert_eq!(cursor, Cursor { index: index as u64, slot, element: address });
                let head: Vec<u64> = stage.read(address, 4);
                let (key_bytes, whole) = (head[3] as usize, head[2] as usize);
                let bytes: Vec<u8> = stage.read(address.add(32), whole - 8);
                let (key, value) = bytes.split_at(key_bytes);
                assert_eq!(all[key], value);
                let (at_key, at_value) = map.dereference(cursor).unwrap();
                assert_eq!((at_key.address, at_key.bytes), (address.add(32), key_bytes));
                assert_eq!((at_value.address, at_value.bytes), (at_key.address + at_key.bytes, 1));
                assert_eq!(map.find(key).unwrap(), Some(cursor));
                assert_eq!((stage.world.rank_of(address), head[1]), (Some(index as u32), previous));
                let hash = crc64(key) >> 16;
                assert_eq!((hash % raw.slots, hash / raw.slots % raw.ranks), (slot, index as u64));
                (previous, element, count) = (element, head[0], count + 1);
                cursor = map.next(cursor).unwrap();
            }
            assert_eq!((words[2], words[3]), (previous, count));
            found += count;
        }
    }
    assert_eq!((found as usize, cursor), (all.len(), map.end()));
    // Cursors take locks; when everybody is through, all are free.
    stage.sync();
    for slot in directory.iter().flat_map(|&slots| (0..raw.slots).map(move |slot| slots + 32 * slot)) {
        assert_eq!(stage.word(GlobalAddress::from_bits(slot)), 0, "the lock of a slot");
    }
    stage.sync();
    assert_eq!(map.find(b"nothing").unwrap(), None);
    // Local cursors go through the part of this rank.
    let (mut cursor, end, mut count) = (map.begin_local().unwrap(), map.end_local().unwrap(), 0);
    while cursor != end {
        assert_eq!(stage.world.rank_of(cursor.element), Some(stage.me()));
        (cursor, count) = (map.next(cursor).unwrap(), count + 1);
    }
    assert_eq!(count, map.len_local().unwrap());
}

/// CRC-64/XZ, bit by bit.
fn crc64(bytes: &[u8]) -> u64 {
    !bytes.iter().fold(!0u64, |crc, &byte| {
        (0..8).fold(crc ^ byte as u64, |crc, _| (crc >> 1) ^ (0xc96c_5795_d787_0f42 * (crc & 1)))
    })
}

/// Sets and multisets likewise.
pub(crate) fn set_model(stage: &Stage) {
    let world = &stage.world;
    let ranks = everybody(world);
    let set = shared(stage, || Set::create(world, Spread::over(&ranks).slots(5).directory(0)).unwrap().raw());
    let set = Set::from_raw(world, set).unwrap();
    let bag =
        shared(stage, || Multiset::create(world, Spread::over(&ranks).slots(5).directory(0)).unwrap().raw());
    let bag = Multiset::from_raw(world, bag).unwrap();
    let steps = proptest::collection::vec((0u8..5, 0u8..12, 0u64..4), 1..80);
    stage.cases(24, [1, 1], steps, |steps| {
        let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for (what, number, times) in steps {
            let key = key(stage.me(), number);
            let before = model.get(&key).copied().unwrap_or(0);
            let after = match what {
                0 => {
                    prop_assert_eq!(bag.insert(&key).unwrap(), before + 1);
                    prop_assert_eq!(set.insert(&key).unwrap(), before == 0);
                    before + 1
                }
                1 => {
                    prop_assert_eq!(bag.add(&key, times).unwrap(), before + times);
                    if times > 0 {
                        prop_assert_eq!(set.insert_many(&[&key]).unwrap(), [before == 0]);
                    }
                    before + times
                }
                2 => {
                    prop_assert_eq!(bag.remove(&key).unwrap(), before);
                    if before <= 1 {
                        prop_assert_eq!(set.remove(&key).unwrap(), before == 1);
                    }
                    before.saturating_sub(1)
                }
                3 => {
                    prop_assert_eq!(bag.remove_all(&key).unwrap(), before);
                    prop_assert_eq!(set.remove_many(&[&key]).unwrap(), [before > 0]);
                    0
                }
                _ => {
                    let mut counts = bag.insert_many(&[&key, &key, &key]).unwrap();
                    counts.sort_unstable();
                    prop_assert_eq!(counts, [before + 1, before + 2, before + 3]);
                    set.insert(&key).unwrap();
                    before + 3
                }
            };
            prop_assert_eq!(bag.count(&key).unwrap(), after);
            prop_assert_eq!(set.contains(&key).unwrap(), after > 0);
            match after {
                0 => drop(model.remove(&key)),
                after => drop(model.insert(key, after)),
            }
        }
        let keys: Vec<_> = model.keys().cloned().collect();
        prop_assert_eq!(bag.count_many(&keys).unwrap(), model.values().copied().collect::<Vec<_>>());
        for key in keys {
            bag.remove_all(&key).unwrap();
            set.remove(&key).unwrap();
        }
        Ok(())
    });
    stage.sync();
    assert!(bag.is_empty().unwrap() && set.is_empty().unwrap());
    stage.sync();
    if stage.me() == 0 {
        bag.destroy().unwrap();
        set.destroy().unwrap();
    }
    stage.sync();
    stage.expect_all_freed();
}

fn contents(map: &Map<'_>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    map.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

/// Assign, merge, move, swap and clear, between tables of the same and of another shape.
pub(crate) fn whole_tables(stage: &Stage) {
    let world = &stage.world;
    let ranks = everybody(world);
    if stage.me() == 0 {
        let one = Map::create(world, Spread::over(&ranks).slots(11).directory(0)).unwrap();
        for (other_ranks, slots) in [(ranks.clone(), 11), (vec![stage.ranks() - 1], 3)] {
            let other =
                Map::create(world, Spread::over(&other_ranks).slots(slots).directory(stage.ranks() - 1))
                    .unwrap();
            exchange_maps(&one, &other);
            other.destroy().unwrap();
        }
        one.destroy().unwrap();
        bags(world, &ranks);
        destroyed(world, &ranks);
        typed(world, &ranks);
    }
    stage.sync();
    stage.expect_all_freed();
    // Each rank moves its own part.
    let make = || {
        let map = Map::create(world, Spread::over(&ranks).slots(6).directory(0)).unwrap();
        (0..100u32)
            .for_each(|number| assert_eq!(map.insert(&number.to_le_bytes(), b"x").unwrap(), Insert::New));
        map.raw()
    };
    let (from, to) = (
        shared(stage, make),
        shared(stage, || Map::create(world, Spread::over(&ranks).slots(6).directory(0)).unwrap().raw()),
    );
    let (from, to) = (Map::from_raw(world, from).unwrap(), Map::from_raw(world, to).unwrap());
    to.merge_local(&from).unwrap();
    stage.sync();
    assert_eq!((from.len().unwrap(), to.len().unwrap()), (100, 100));
    stage.sync();
    to.assign_local(&from).unwrap();
    stage.sync();
    assert_eq!(to.len().unwrap(), 100);
    stage.sync();
    to.move_from_local(&from).unwrap();
    stage.sync();
    assert_eq!((from.len().unwrap(), to.len().unwrap()), (0, 100));
    stage.sync();
    if stage.me() == 0 {
        from.destroy().unwrap();
        to.destroy().unwrap();
    }
    stage.sync();
    stage.expect_all_freed();
}

fn exchange_maps(one: &Map<'_>, other: &Map<'_>) {
    one.clear().unwrap();
    let fill = |map: &Map<'_>, numbers: std::ops::Range<u32>, value: &str| {
        let pairs: Vec<_> = numbers.map(|number| (number.to_le_bytes(), value)).collect();
        assert!(map.insert_many(&pairs).unwrap().iter().all(|&done| done == Insert::New));
    };
    fill(one, 0..2000, "one");
    fill(other, 1500..3000, "the other");
    let (first, second) = (contents(one), contents(other));
    assert_eq!((first.len(), second.len()), (2000, 1500));
    one.swap(other).unwrap();
    assert!(contents(one) == second && contents(other) == first);
    one.swap(other).unwrap();
    assert!(contents(one) == first && contents(other) == second);
    one.swap(one).unwrap();
    one.merge(other).unwrap();
    let mut both = second.clone();
    both.extend(first.clone());
    assert!(contents(one) == both && contents(other) == second, "existing keys win");
    other.assign(one).unwrap();
    assert!(contents(other) == both);
    other.clear().unwrap();
    assert!(other.is_empty().unwrap());
    other.move_from(one).unwrap();
    assert!(contents(other) == both && one.is_empty().unwrap());
}

fn bags(world: &World, ranks: &[u32]) {
    let (one, other) = (
        Multiset::create(world, Spread::over(ranks).slots(4).directory(0)).unwrap(),
        Multiset::create(world, Spread::over(&ranks[..1]).slots(9).directory(0)).unwrap(),
    );
    one.insert_many(&["a", "b", "a"]).unwrap();
    other.insert_many(&["b", "c", "c"]).unwrap();
    one.merge(&other).unwrap();
    let counts =
        |bag: &Multiset<'_>| -> BTreeMap<_, _> { bag.iter().unwrap().map(|each| each.unwrap()).collect() };
    let wanted = [("a", 2), ("b", 2), ("c", 2)].map(|(key, count)| (key.as_bytes().to_vec(), count));
    assert_eq!(counts(&one), BTreeMap::from(wanted), "counts add up");
    one.swap(&other).unwrap();
    assert_eq!((one.len().unwrap(), other.len().unwrap()), (2, 3));
    let (key, count) = other.dereference(other.find(b"a").unwrap().unwrap()).unwrap();
    assert_eq!((key.bytes, count), (1, 2));
    one.destroy().unwrap();
    other.destroy().unwrap();
}

/// A table that is gone is `Misuse`, and one that lies where it was is not taken for it.
fn destroyed(world: &World, ranks: &[u32]) {
    let misuse =
        |result: kumiki::Result<bool>| assert!(matches!(result, Err(Error::Misuse(_))), "{result:?}");
    let map = Map::create(world, Spread::over(ranks).slots(3).directory(ranks.len() as u32 - 1)).unwrap();
    let raw = map.raw();
    let (old, again) = (Map::from_raw(world, raw).unwrap(), Map::from_raw(world, raw).unwrap());
    old.insert(b"key", b"value").unwrap();
    map.destroy().unwrap();
    misuse(old.contains(b"key"));
    misuse(old.contains_many(&["key"]).map(|_| true));
    misuse(old.is_empty());
    misuse(old.iter().map(|_| true));
    misuse(again.destroy().map(|()| true));
    misuse(Map::from_raw(world, raw).and_then(|map| map.contains(b"key")));
    let next = Map::create(world, Spread::over(ranks).slots(3).directory(ranks.len() as u32 - 1)).unwrap();
    assert_eq!(next.raw(), raw, "it lies where the old one was");
    assert!(!old.contains(b"key").unwrap(), "a handle is an address, and this is what is there now");
    next.insert(b"key", b"new").unwrap();
    let handle = Map::from_raw(world, raw).unwrap();
    assert_eq!(handle.get(b"key").unwrap().unwrap(), b"new");
    misuse(Set::from_raw(world, raw).and_then(|set| set.contains(b"key")));
    misuse(Map::from_raw(world, RawTable { slots: 4, ..raw }).and_then(|map| map.is_empty()));
    misuse(Map::from_raw(world, RawTable { ranks: 900, ..raw }).and_then(|map| map.is_empty()));
    misuse(Map::from_raw(world, RawTable::default()).and_then(|map| map.is_empty()));
    misuse(Map::create(world, Spread::over(&[]).slots(3).directory(0)).map(|_| true));
    misuse(Map::create(world, Spread::over(&[world.ranks()]).slots(3).directory(0)).map(|_| true));
    misuse(Map::create(world, Spread::over(&[0]).slots(0)).map(|_| true));
    misuse(next.insert(&vec![1; 9 << 20], b"x").map(|_| true));
    next.destroy().unwrap();
}

fn typed(world: &World, ranks: &[u32]) {
    let map = TypedMap::<u64, [u32; 4]>::create(world, Spread::over(ranks).slots(64).directory(0)).unwrap();
    let pairs: Vec<_> = (0..5000u64).map(|number| (number, [number as u32; 4])).collect();
    map.insert_many(&pairs).unwrap();
    assert_eq!(map.get(4321).unwrap(), Some([4321; 4]));
    map.put(4321, [1; 4]).unwrap();
    assert_eq!(map.get(4321).unwrap(), Some([1; 4]));
    assert!(map.remove(4321).unwrap());
    let keys: Vec<_> = (0..6000).collect();
    let found = map.get_many(&keys).unwrap();
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found, (*key < 5000 && *key != 4321).then_some([*key as u32; 4]));
    }
    // One large value among small ones, and one that nobody could have sent in a small message.
    let bytes = map.as_bytes();
    let large = vec![7; 3 << 20];
    bytes.put(b"large", &large).unwrap();
    assert!(bytes.get(b"large").unwrap().unwrap() == large);
    assert_eq!(bytes.iter().unwrap().map(|pair| pair.unwrap().1.len()).max(), Some(3 << 20));
    map.into_bytes().destroy().unwrap();
}

/// A budget that is spent in the middle of insertions: an error, nothing lost, nothing leaked.
pub(crate) fn table_budget(stage: &Stage) {
    let world = &stage.world;
    let raw = shared(stage, || {
        Map::create(world, Spread::over(&everybody(world)).slots(16).directory(0)).unwrap().raw()
    });
    let map = Map::from_raw(world, raw).unwrap();
    let mut mine: Vec<[u8; 8]> = Vec::new();
    let mut full = 0;
    for number in 0..4000u64 {
        let key = (number << 8 | stage.me() as u64).to_le_bytes();
        match map.insert(&key, &[stage.me() as u8 + 1; 3000]) {
            Ok(done) => {
                assert_eq!(done, Insert::New);
                mine.push(key);
            }
            Err(Error::OutOfMemory { .. }) => {
                full += 1;
                assert!(!map.contains(&key).unwrap(), "what was refused is not there");
            }
            Err(error) => panic!("{error}"),
        }
        if full == 20 {
            break;
        }
    }
    let inserted: u64 = stage.exchange_word(mine.len() as u64).iter().sum();
    assert!(full > 0 && inserted > 200, "{full} refused, {inserted} inserted by all");
    let batch: Vec<_> =
        (0..500u64).map(|number| ((number << 8 | 0x80).to_le_bytes(), vec![1; 4000])).collect();
    let refused = map.insert_many(&batch);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    for key in &mine {
        assert_eq!(map.get(key).unwrap().unwrap(), [stage.me() as u8 + 1; 3000]);
    }
    stage.sync();
    assert_eq!(map.iter().unwrap().collect::<kumiki::Result<Vec<_>>>().unwrap().len(), map.len().unwrap());
    stage.sync();
    if stage.me() == 0 {
        map.destroy().unwrap();
    }
    stage.sync();
    stage.expect_all_freed();
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for way in NODES {
        trials.push(Trial::test(format!("{}::table_budget", way.name), move || {
            Job::new(way, "table_budget", 4).env("KUMIKI_BUDGET", "2M").run().success()
        }));
        for ranks in (1..4).filter(|&ranks| ranks >= way.nodes_of(ranks)) {
            for topic in ["map_model", "set_model"] {
                trials.push(Trial::test(format!("{}::{topic}_of_{ranks}", way.name), move || {
                    Job::new(way, topic, ranks).run().success()
                }));
            }
        }
    }
    trials
}
