//! All ranks work on a few keys at once; what each of them did and saw, and when, must fit one order.
//!
//! Each rank keeps a history: what it did, what came back, and the times before and after, on the machine's one clock.
//! For each key, rank 0 looks for an order of all operations that keeps those of each rank in turn, puts nothing before
//! what had ended when it began, and gives every operation the answer it got.

use crate::stage::Stage;
use crate::tables::shared;
use kumiki::data::{Insert, Map, Multiset, Set, Spread};
use kumiki::GlobalAddress;
use kumiki_net::os::time;
use libtest_mimic::Trial;
use std::collections::{BTreeMap, HashSet};

/// Operations of each rank on each structure.
const OPERATIONS: u64 = 400;
/// Keys that they share.
const KEYS: u64 = 3;
/// Words of an operation in memory.
const WORDS: usize = 6;

/// What can be done with a key, in the words of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// 1 if nothing was there, and now the argument is.
    Insert,
    /// The argument is there, whatever was.
    Put,
    /// What is there, or 0.
    Get,
    /// What was there, or 0; and now nothing is.
    Remove,
    /// 1 if something was there; and now nothing is.
    Discard,
    /// The argument is added; what is there then.
    Add,
    /// One is taken off, if there is one; what was there.
    Take,
}

const ALL: [What; 7] =
    [What::Insert, What::Put, What::Get, What::Remove, What::Discard, What::Add, What::Take];

/// One operation, as its rank saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Event {
    what: What,
    key: u64,
    argument: u64,
    answer: u64,
    began_ns: u64,
    ended_ns: u64,
}

impl Event {
    fn words(self) -> [u64; WORDS] {
        [self.what as u64, self.key, self.argument, self.answer, self.began_ns, self.ended_ns]
    }

    fn from_words(words: &[u64]) -> Event {
        Event {
            what: ALL[words[0] as usize],
            key: words[1],
            argument: words[2],
            answer: words[3],
            began_ns: words[4],
            ended_ns: words[5],
        }
    }

    /// What is there afterwards, if the answer fits what was there before.
    fn apply(self, state: u64) -> Option<u64> {
        let (answer, after) = match (self.what, state) {
            (What::Insert, 0) => (1, self.argument),
            (What::Insert, _) => (0, state),
            (What::Put, _) => (0, self.argument),
            (What::Get, _) => (state, state),
            (What::Remove, _) => (state, 0),
            (What::Discard, _) => ((state != 0) as u64, 0),
            (What::Add, _) => (state + self.argument, state + self.argument),
            (What::Take, _) => (state, state.saturating_sub(1)),
        };
        (answer == self.answer).then_some(after)
    }
}

/// Whether one order explains the histories of some ranks with one key.
fn is_linearizable(ranks: &[Vec<Event>]) -> bool {
    let mut seen: HashSet<(Vec<usize>, u64)> = HashSet::new();
    let mut open = vec![(vec![0; ranks.len()], 0)];
    while let Some((done, state)) = open.pop() {
        let next: Vec<Option<&Event>> = ranks.iter().zip(&done).map(|(events, &at)| events.get(at)).collect();
        // Whatever comes first now must have begun before every other one ended.
        let Some(first_end) = next.iter().flatten().map(|event| event.ended_ns).min() else { return true };
        for (rank, event) in next.iter().enumerate() {
            let Some(event) = event.filter(|event| event.began_ns <= first_end) else { continue };
            let Some(after) = event.apply(state) else { continue };
            let mut done = done.clone();
            done[rank] += 1;
            if seen.insert((done.clone(), after)) {
                open.push((done, after));
            }
        }
    }
    false
}

/// Does something many times, and writes down what happened.
fn record(stage: &Stage, whats: &[What], mut act: impl FnMut(What, &[u8], u64) -> u64) -> Vec<Event> {
    let mut seed = 1 + stage.me() as u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    stage.sync();
    let mut events = Vec::new();
    for number in 0..OPERATIONS {
        let (what, key) = (whats[next() as usize % whats.len()], next() % KEYS);
        let unique = number << 8 | stage.me() as u64 | 1 << 32;
        let argument = if what == What::Add { 1 + next() % 3 } else { unique };
        let began_ns = time::now_ns();
        let answer = act(what, format!("key {key}").as_bytes(), argument);
        events.push(Event { what, key, argument, answer, began_ns, ended_ns: time::now_ns() });
    }
    stage.sync();
    events
}

/// Brings all histories to rank 0; nothing to the others.
fn gather(stage: &Stage, words: Vec<u64>) -> Vec<Vec<u64>> {
    let block = stage.world.malloc(8 * words.len().max(1), stage.me()).unwrap();
    stage.write(block, &words);
    let (addresses, lengths) = (stage.exchange(block), stage.exchange_word(words.len() as u64));
    let gathered = match stage.me() {
        0 => addresses.iter().zip(lengths).map(|(&at, count)| stage.read(at, count as usize)).collect(),
        _ => Vec::new(),
    };
    stage.sync();
    stage.world.free(block).unwrap();
    gathered
}

fn check(stage: &Stage, name: &str, events: Vec<Event>) {
    let words = events.iter().flat_map(|event| event.words()).collect();
    let histories: Vec<Vec<Event>> = gather(stage, words)
        .iter()
        .map(|words| words.chunks(WORDS).map(Event::from_words).collect())
        .collect();
    for key in (0..KEYS).filter(|_| stage.me() == 0) {
        let of_key = |events: &Vec<Event>| events.iter().copied().filter(|event| event.key == key).collect();
        let ranks: Vec<Vec<Event>> = histories.iter().map(of_key).collect();
        assert!(is_linearizable(&ranks), "{name}: no order explains what happened to key {key}: {ranks:#?}");
    }
    stage.sync();
}

fn number(value: Vec<u8>) -> u64 {
    value.try_into().map_or(u64::MAX, u64::from_le_bytes)
}

/// Maps, sets and multisets.
pub(crate) fn linearizable(stage: &Stage) {
    let world = &stage.world;
    let ranks: Vec<u32> = (0..stage.ranks()).collect();
    let map = shared(stage, || Map::create(world, Spread::over(&ranks).slots(1).directory(0)).unwrap().raw());
    let map = Map::from_raw(world, map).unwrap();
    let whats = [What::Insert, What::Put, What::Get, What::Get, What::Discard];
    let events = record(stage, &whats, |what, key, argument| match what {
        What::Insert => (map.insert(key, &argument.to_le_bytes()).unwrap() == Insert::New) as u64,
        What::Put => map.put(key, &argument.to_le_bytes()).map(|()| 0).unwrap(),
        What::Get => map.get(key).unwrap().map_or(0, number),
        _ => map.remove(key).unwrap() as u64,
    });
    check(stage, "map", events);
    let set = shared(stage, || Set::create(world, Spread::over(&ranks).slots(1).directory(0)).unwrap().raw());
    let set = Set::from_raw(world, set).unwrap();
    let events = record(stage, &[What::Insert, What::Get, What::Discard], |what, key, _| match what {
        What::Insert => set.insert(key).unwrap() as u64,
        What::Get => set.contains(key).unwrap() as u64,
        _ => set.remove(key).unwrap() as u64,
    });
    check(stage, "set", events.into_iter().map(|event| Event { argument: 1, ..event }).collect());
    let bag =
        shared(stage, || Multiset::create(world, Spread::over(&ranks).slots(1).directory(0)).unwrap().raw());
    let bag = Multiset::from_raw(world, bag).unwrap();
    let whats = [What::Add, What::Add, What::Take, What::Take, What::Take, What::Get, What::Remove];
    let events = record(stage, &whats, |what, key, argument| match what {
        What::Add => bag.add(key, argument).unwrap(),
        What::Take => bag.remove(key).unwrap(),
        What::Get => bag.count(key).unwrap(),
        _ => bag.remove_all(key).unwrap(),
    });
    check(stage, "multiset", events);
}

/// Blocks that are in use at the same time never overlap.
pub(crate) fn linearizable_malloc(stage: &Stage) {
    let world = &stage.world;
    let mut words = Vec::new();
    stage.sync();
    for number in 0..OPERATIONS {
        let bytes = 1 + number * 7 % 300;
        let place = world.malloc(bytes as usize, (number as u32 + stage.me()) % stage.ranks()).unwrap();
        // From the time it was given until the time it was given back it is ours.
        let from_ns = time::now_ns();
        stage.write(place, &[stage.me() as u8]);
        assert_eq!(stage.read::<u8>(place, 1), [stage.me() as u8]);
        let until_ns = time::now_ns();
        world.free(place).unwrap();
        words.extend([place.bits(), bytes, from_ns, until_ns]);
    }
    stage.sync();
    let mut by_start: BTreeMap<u64, Vec<[u64; 3]>> = BTreeMap::new();
    for block in gather(stage, words).iter().flat_map(|words| words.chunks(4)) {
        by_start.entry(block[0]).or_default().push([block[1], block[2], block[3]]);
    }
    let longest = 300;
    for (&start, blocks) in &by_start {
        for block in blocks {
            let near = by_start.range(start.saturating_sub(longest)..start + block[0]);
            let others = near.flat_map(|(&at, others)| others.iter().map(move |other| (at, other)));
            let overlaps = |&(at, other): &(u64, &[u64; 3])| {
                let (in_space, in_time) = (at + other[0] > start, other[1] < block[2] && block[1] < other[2]);
                in_space && in_time && !std::ptr::eq(block, other)
            };
            let twice = others.filter(overlaps).count();
            assert_eq!(twice, 0, "{:#x} was given twice", GlobalAddress::from_bits(start));
        }
    }
    stage.sync();
}

/// The canaries: histories that no order explains are found out.
pub(crate) fn trials() -> Vec<Trial> {
    let event = |what, argument, answer, began_ns, ended_ns| Event {
        what,
        key: 0,
        argument,
        answer,
        began_ns,
        ended_ns,
    };
    let insert = event(What::Insert, 7, 1, 10, 20);
    let check = move || {
        let at_the_same_time = vec![vec![insert], vec![event(What::Get, 0, 0, 15, 25)]];
        assert!(is_linearizable(&at_the_same_time));
        let too_late = vec![vec![insert], vec![event(What::Get, 0, 0, 21, 25)]];
        assert!(!is_linearizable(&too_late), "an answer from the past");
        let both_new = vec![vec![insert], vec![event(What::Insert, 8, 1, 12, 22)]];
        assert!(!is_linearizable(&both_new), "both were first");
        let lost = vec![vec![insert, event(What::Add, 1, 8, 30, 40)], vec![event(What::Add, 1, 8, 30, 40)]];
        assert!(!is_linearizable(&lost), "one addition is lost");
        Ok(())
    };
    vec![Trial::test("checker::wrong_histories_are_found_out", check)]
}
