//! Vectors and deques against sequential models: random operations from every rank on sequences of every rank.

use crate::job::Job;
use crate::stage::{assert_same, part, patterned, Stage};
use crate::way::{self, NODES};
use kumiki::data::{Deque, On, Vector};
use kumiki::{Error, GlobalAddress, GlobalPtr};
use libtest_mimic::{Failed, Trial};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

const CASES: u32 = 12;
/// Longer than what travels in one request.
const LONG: usize = 70_000;

/// One operation. `at` and `count` are parts of what there is; `one` says which of the two sequences.
#[derive(Clone, Copy, Debug)]
struct Step {
    code: u8,
    one: bool,
    other: bool,
    at: u16,
    from: u16,
    count: u16,
    bytes: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![30 => 0..60usize, 1 => LONG..3 * LONG];
    (0..18u8, any::<bool>(), any::<bool>(), any::<[u16; 3]>(), bytes).prop_map(
        |(code, one, other, [at, from, count], bytes)| Step { code, one, other, at, from, count, bytes },
    )
}

/// What the test needs to know of a vector or a deque.
trait Subject<'w>: Sized {
    const HEADER_WORDS: u64;
    fn make(stage: &'w Stage, capacity: usize, rank: u32) -> Self;
    fn push_front(&mut self, data: &[u8]);
    fn pop_front(&mut self) -> Option<u8>;
    fn check_header(&self, words: &[u64]);
}

impl<'w> Subject<'w> for Vector<'w> {
    const HEADER_WORDS: u64 = 3;

    fn make(stage: &'w Stage, capacity: usize, rank: u32) -> Self {
        let mut vector = Vector::create(&stage.world, On::rank(rank).elements(capacity)).expect("create");
        assert_eq!(vector.len().expect("len"), capacity);
        vector.clear().expect("clear");
        vector
    }

    fn push_front(&mut self, data: &[u8]) {
        self.insert(0, data).expect("insert");
    }

    fn pop_front(&mut self) -> Option<u8> {
        let first = self.get(0).ok()?;
        self.erase(0..1).expect("erase");
        Some(first)
    }

    fn check_header(&self, words: &[u64]) {
        assert_eq!(
            words[1..3],
            [self.len().expect("len"), self.capacity().expect("capacity")].map(|count| count as u64)
        );
        assert_eq!(words[2] % 8, 0, "the capacity of a vector is a multiple of 8");
        if words[1] > 0 {
            assert_eq!(
                words[0],
                self.at(0).expect("at").address().bits(),
                "the body begins with the first byte"
            );
        }
    }
}

impl<'w> Subject<'w> for Deque<'w> {
    const HEADER_WORDS: u64 = 4;

    fn make(stage: &'w Stage, capacity: usize, rank: u32) -> Self {
        let deque = Deque::create(&stage.world, On::rank(rank).elements(capacity)).expect("create");
        assert_eq!((deque.len().expect("len"), deque.capacity().expect("capacity")), (0, capacity));
        deque
    }

    fn push_front(&mut self, data: &[u8]) {
        self.extend_front(data).expect("extend_front");
    }

    fn pop_front(&mut self) -> Option<u8> {
        Deque::pop_front(self).expect("pop_front")
    }

    fn check_header(&self, words: &[u64]) {
        assert_eq!(
            words[2..4],
            [self.len().expect("len"), self.capacity().expect("capacity")].map(|count| count as u64)
        );
        assert!(words[1] < words[3].max(1), "the offset {} is no index of {} bytes", words[1], words[3]);
        if words[2] > 0 {
            let [(first, _), _] = self.pieces(0..1).expect("pieces");
            assert_eq!(first.bits(), words[0] + words[1], "the first byte is at the offset");
        }
    }
}

/// The operations have the same names on both, and no trait.
macro_rules! against_model {
    ($name:ident, $subject:ident) => {
        fn $name(
            stage: &Stage,
            ranks: [u32; 2],
            capacity: usize,
            steps: &[Step],
        ) -> Result<(), TestCaseError> {
            let mut pair = ranks.map(|rank| <$subject as Subject>::make(stage, capacity, rank));
            let mut models = [Vec::<u8>::new(), Vec::new()];
            for (number, step) in steps.iter().enumerate() {
                let (one, other) = (step.one as usize, step.other as usize);
                let data = patterned(number as u64, step.bytes);
                let len = models[one].len();
                let at = part(step.at, len);
                let to = at + part(step.count, len - at);
                let from = part(step.from, models[other].len());
                let until = from + part(step.count, models[other].len() - from);
                let range = from..until;
                let twin = $subject::<u8>::from_address(&stage.world, pair[other].address());
                let subject = &mut pair[one];
                let grown = models[one].len() + data.len() > subject.capacity().expect("capacity");
                match step.code {
                    0..=2 => {
                        subject.extend(&data).expect("extend");
                        models[one].extend(&data);
                        if grown && stringify!($subject) == "Deque" {
                            prop_assert_eq!(subject.capacity().expect("capacity"), models[one].len());
                        }
                    }
                    3 | 4 => {
                        Subject::push_front(subject, &data);
                        models[one].splice(0..0, data);
                    }
                    5 => {
                        subject.insert(at, &data).expect("insert");
                        models[one].splice(at..at, data);
                    }
                    6 | 7 => {
                        subject.erase(at..to).expect("erase");
                        models[one].drain(at..to);
                    }
                    8 => {
                        subject.drop_back(len - at).expect("drop_back");
                        models[one].truncate(at);
                    }
                    9 => prop_assert_eq!(subject.pop().expect("pop"), models[one].pop()),
                    10 => {
                        let first = if len > 0 { Some(models[one].remove(0)) } else { None };
                        prop_assert_eq!(Subject::pop_front(subject), first);
                    }
                    11 => {
                        subject.assign(&data).expect("assign");
                        models[one] = data;
                    }
                    12 => {
                        subject.assign_range(&twin, range).expect("assign_range");
                        models[one] = models[other][from..until].to_vec();
                    }
                    13 => {
                        subject.insert_range(at, &twin, range).expect("insert_range");
                        let copy = models[other][from..until].to_vec();
                        models[one].splice(at..at, copy);
                    }
                    14 => {
                        let [first, second] = &mut pair;
                        first.swap(second).expect("swap");
                        models.swap(0, 1);
                    }
                    15 => {
                        subject.clear().expect("clear");
                        models[one].clear();
                    }
                    16 => {
                        let wanted = len + step.bytes;
                        subject.reserve(wanted).expect("reserve");
                        prop_assert!(subject.capacity().expect("capacity") >= wanted);
                    }
                    _ => {
                        let count = data.len().min(len - at);
                        subject.write(at, &data[..count]).expect("write");
                        models[one][at..at + count].copy_from_slice(&data[..count]);
                    }
                }
                for (subject, model) in pair.iter().zip(&models) {
                    let found = subject.to_vec().expect("to_vec");
                    prop_assert!(
                        &found == model,
                        "step {}: {} bytes for {}",
                        number,
                        found.len(),
                        model.len()
                    );
                    let words = stage.read(subject.address(), <$subject as Subject>::HEADER_WORDS as usize);
                    subject.check_header(&words);
                }
            }
            pair.into_iter().for_each(|subject| subject.destroy().expect("destroy"));
            Ok(())
        }
    };
}
against_model!(vectors, Vector);
against_model!(deques, Deque);

type Case = fn(&Stage, [u32; 2], usize, &[Step]) -> Result<(), TestCaseError>;

fn random(stage: &Stage, case: Case) {
    for target in 0..stage.ranks() {
        let programs = (prop::collection::vec(step(), 1..40), 0..40usize, any::<bool>());
        stage.cases(CASES, [7, target as u8], programs, |(steps, capacity, apart)| {
            let second = (target + apart as u32) % stage.ranks();
            case(stage, [target, second], capacity, &steps)
        });
    }
    stage.expect_all_freed();
}

pub(crate) fn vector(stage: &Stage) {
    random(stage, vectors);
    let next = (stage.me() + 1) % stage.ranks();
    typed(stage, next);
    handed_over(stage);
    half_changed(stage, next);
    edges(stage, next);
    stage.expect_all_freed();
}

pub(crate) fn deque(stage: &Stage) {
    random(stage, deques);
    let next = (stage.me() + 1) % stage.ranks();
    wrapped(stage, next);
    both_ends(stage, next);
    stage.expect_all_freed();
}

fn typed(stage: &Stage, rank: u32) {
    let mut vector = Vector::<[u32; 3]>::create(&stage.world, On::rank(rank)).expect("create");
    let values: Vec<[u32; 3]> = (0..20_000).map(|value| [value, value * 2, value * 3]).collect();
    vector.extend(&values[..100]).expect("extend");
    values[100..200].iter().for_each(|&value| vector.push(value).expect("push"));
    vector.extend(&values[200..]).expect("extend");
    let found: Vec<[u32; 3]> = vector.iter().collect::<kumiki::Result<_>>().expect("iter");
    assert!(found == values, "an iterator gives every element");
    assert_eq!(vector.get(19_999).expect("get"), values[19_999]);
    vector.set(7, [1, 2, 3]).expect("set");
    assert_eq!(vector.pop().expect("pop"), Some(values[19_999]));
    let bytes = vector.cast::<u8>();
    assert_eq!(bytes.len().expect("len"), 19_999 * 12);
    bytes.destroy().expect("destroy");
}

/// Each rank adds to a vector that the one before it has added to; all keep their handles.
fn handed_over(stage: &Stage) {
    let mine = Vector::<u64>::create(&stage.world, On::rank(stage.me())).expect("create");
    let all = stage.exchange(mine.address());
    let mut handles: Vec<Vector<u64>> =
        all.iter().map(|&address| Vector::from_address(&stage.world, address)).collect();
    for round in 0..3 * stage.ranks() {
        let index = ((stage.me() + round) % stage.ranks()) as usize;
        for value in 0..50 {
            handles[index].push((round * 1000 + value) as u64).expect("push");
        }
        stage.sync();
    }
    let wanted: Vec<u64> = (0..3 * stage.ranks())
        .flat_map(|round| (0..50).map(move |value| (round * 1000 + value) as u64))
        .collect();
    assert_eq!(mine.to_vec().expect("to_vec"), wanted);
    stage.sync();
    mine.destroy().expect("destroy");
    let stale = handles[((stage.me() + 1) % stage.ranks()) as usize].push(1);
    stage.sync();
    let stale_again = handles[stage.me() as usize].push(1);
    assert!(matches!(stale_again, Err(Error::Misuse(_))), "{stale_again:?}, {stale:?}");
    stage.sync();
}

/// What a rank that died in the middle of a change leaves: errors, until it is put right.
fn half_changed(stage: &Stage, rank: u32) {
    let world = &stage.world;
    let mut vector = Vector::<u64>::create(world, On::rank(rank)).expect("create");
    (0..10).for_each(|value| vector.push(value).expect("push"));
    let state = GlobalPtr::<u64>::from_address(vector.address()).add(3);
    let changing = u64::from_le_bytes(*b"changing");
    for repair in 0..2 {
        world.put(state, changing).expect("put");
        let refused = [vector.push(1).err(), vector.pop().err(), vector.get(0).err(), vector.len().err()];
        for error in refused {
            assert!(matches!(error, Some(Error::Refused(_))), "{error:?}");
        }
        match repair {
            0 => vector.clear().expect("clear"),
            _ => vector.assign(&[4, 5]).expect("assign"),
        }
        vector.push(6).expect("push");
    }
    assert_eq!(vector.to_vec().expect("to_vec"), [4, 5, 6]);
    world.put(state, changing).expect("put");
    vector.destroy().expect("destroy");
}

/// Nothing, too much, and what is not there.
fn edges(stage: &Stage, rank: u32) {
    let world = &stage.world;
    let mut vector = Vector::<u16>::create(world, On::rank(rank).elements(5)).expect("create");
    assert_eq!((vector.len().expect("len"), vector.capacity().expect("capacity")), (5, 8));
    vector.erase(5..5).expect("nothing at the end");
    vector.insert(5, &[]).expect("nothing at the end");
    vector.drop_back(0).expect("nothing");
    let misuses = [
        vector.insert(6, &[1]).err(),
        vector.erase(4..6).err(),
        vector.drop_back(6).err(),
        vector.read(5, &mut [0]).err(),
        vector.write(5, &[0]).err(),
        vector.at(5).err(),
        vector.reserve(usize::MAX).err(),
        Vector::<u16>::create(world, On::rank(rank).elements(usize::MAX / 4)).err(),
        Vector::<u16>::create(world, On::rank(stage.ranks()).elements(1)).err(),
        Vector::<u16>::from_address(world, GlobalAddress::NULL).len().err(),
        Vector::<u16>::from_address(world, vector.address().add(8)).len().err(),
        Deque::<u16>::from_address(world, stage.starter(rank).address()).len().err(),
    ];
    for (index, error) in misuses.into_iter().enumerate() {
        assert!(matches!(error, Some(Error::Misuse(_))), "case {index}: {error:?}");
    }
    // Its own elements, which move when it grows.
    vector.assign(&[1, 2, 3]).expect("assign");
    let own = vector.at(0).expect("at");
    vector.extend_from(own, 3).expect("extend_from");
    vector.insert_from(1, vector.at(4).expect("at"), 2).expect("insert_from");
    assert_eq!(vector.to_vec().expect("to_vec"), [1, 2, 3, 2, 3, 1, 2, 3]);
    // Long data from the memory of a third rank.
    let block = stage.block(2 * LONG);
    let data: Vec<u16> = (0..LONG).map(|index| index as u16).collect();
    stage.write(block.address(), &data);
    vector.insert_from(4, GlobalPtr::from_address(block.address()), LONG).expect("insert_from");
    assert_eq!(vector.len().expect("len"), LONG + 8);
    assert!(vector.to_vec().expect("to_vec")[4..LONG + 4] == data);
    let bad = vector.insert_from(4, GlobalPtr::from_address(block.address()), 4 * LONG);
    assert!(matches!(bad, Err(Error::Bounds { .. })), "{bad:?}");
    assert_eq!(vector.len().expect("len"), LONG + 8, "and nothing has changed");
    vector.destroy().expect("destroy");
}

/// An element that wraps is in two pieces.
fn wrapped(stage: &Stage, rank: u32) {
    let mut deque = Deque::<u8>::create(&stage.world, On::rank(rank).elements(16)).expect("create");
    deque.extend(&patterned(1, 12)).expect("extend");
    deque.drop_front(8).expect("drop_front");
    deque.extend(&patterned(2, 10)).expect("extend");
    let wanted = [&patterned(1, 12)[8..], &patterned(2, 10)].concat();
    let [(first, head), (second, tail)] = deque.pieces(2..12).expect("pieces");
    assert_eq!((head, tail), (6, 4));
    let found = [stage.read::<u8>(first, 6), stage.read(second, 4)].concat();
    assert_same(&found, &wanted[2..12], || "what wraps".into());
    assert_eq!(deque.capacity().expect("capacity"), 16);
    deque.destroy().expect("destroy");
}

/// Many elements at either end, which must not take the square of their number of steps.
fn both_ends(stage: &Stage, rank: u32) {
    let mut deque = Deque::<u64>::create(&stage.world, On::rank(rank)).expect("create");
    let mut model = std::collections::VecDeque::new();
    let count = if stage.way.nodes == 1 { 20_000 } else { 1_000 };
    for value in 0..count {
        match value % 5 {
            0 | 1 => (deque.push(value).expect("push"), model.push_back(value)).1,
            2 | 3 => (deque.push_front(value).expect("push_front"), model.push_front(value)).1,
            _ => assert_eq!(deque.pop_front().expect("pop_front"), model.pop_front()),
        }
    }
    assert!(model == deque.to_vec().expect("to_vec"));
    deque.destroy().expect("destroy");
}

/// Under a budget: what does not fit is refused, and the sequence is what it was.
pub(crate) fn sequence_budget(stage: &Stage) {
    let rank = (stage.me() + 1) % stage.ranks();
    let mut vector = Vector::<u64>::create(&stage.world, On::rank(rank)).expect("create");
    let mut deque = Deque::<u64>::create(&stage.world, On::rank(rank)).expect("create");
    let mut count = 0;
    let piece: Vec<u64> = (0..1000).collect();
    let full = loop {
        if let Err(error) = vector.extend(&piece).and_then(|()| deque.extend_front(&piece)) {
            break error;
        }
        count += 1000;
    };
    assert!(matches!(full, Error::OutOfMemory { .. }), "{full}");
    assert!(count > 20_000, "{count} elements fit");
    let found = vector.to_vec().expect("to_vec");
    assert!((count..=count + 1000).contains(&found.len()));
    assert!(found.iter().enumerate().all(|(index, &value)| value == index as u64 % 1000));
    assert_eq!(deque.len().expect("len"), count);
    let huge = vector.reserve(1 << 30);
    assert!(matches!(huge, Err(Error::OutOfMemory { .. })), "{huge:?}");
    let long = vector.insert(10, &vec![0; 1 << 20]);
    assert!(matches!(long, Err(Error::OutOfMemory { .. })), "{long:?}");
    assert!(vector.to_vec().expect("to_vec") == found);
    vector.destroy().expect("destroy");
    deque.destroy().expect("destroy");
    stage.expect_all_freed();
}

/// Rank 0 puts bytes into the middle of a vector of `SEQUENCE_BYTES` on rank 1, and takes them out.
pub(crate) fn sequence_messages(stage: &Stage) {
    let bytes: usize = std::env::var("SEQUENCE_BYTES").expect("the test says").parse().expect("a number");
    if stage.me() == 0 {
        let mut vector = Vector::<u8>::create(&stage.world, On::rank(1).elements(bytes)).expect("create");
        for _ in 0..100 {
            vector.insert(bytes / 2, &[1; 100]).expect("insert");
            vector.erase(bytes / 2..bytes / 2 + 100).expect("erase");
        }
        vector.destroy().expect("destroy");
    }
}

/// The messages that rank 0 sends for that do not depend on the length.
fn messages() -> Result<(), Failed> {
    for bytes in ["1024", "1048576"] {
        let job = Job::new(way::named("tcp"), "sequence_messages", 2);
        let ended = job.env("KUMIKI_COUNT", "yes").env("SEQUENCE_BYTES", bytes).run().code(0)?;
        let counts =
            |line: &str| line.split(" over tcp: sent ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
        let sent: Vec<u64> = ended.output.lines().filter_map(counts).collect();
        ended.expect(sent.len() == 2, "each rank prints its counts")?;
        ended.expect(
            sent.iter().all(|&sent| (200..250).contains(&sent)),
            &format!("{sent:?} messages for 200"),
        )?;
    }
    Ok(())
}

pub(crate) fn trials() -> Vec<Trial> {
    let budget = |way: &'static way::Way| {
        Trial::test(format!("{}::sequence_budget", way.name), move || {
            Job::new(way, "sequence_budget", 4).env("KUMIKI_BUDGET", "4M").run().success()
        })
    };
    let mut trials: Vec<Trial> = NODES.iter().map(budget).collect();
    trials.push(Trial::test("tcp::sequence_messages", messages));
    trials.extend(["vector", "deque"].map(|topic| {
        Trial::test(format!("alone::{topic}"), move || Job::alone(way::named("shm"), topic).run().success())
    }));
    trials
}
