//! Lists against sequential models, their elements on every rank; workspaces and counters.

use crate::job::Job;
use crate::stage::{assert_same, part, patterned, Stage};
use crate::way::{self, NODES};
use kumiki::data::{Chunks, Counter, List, Position, Workspace};
use kumiki::{Error, GlobalPtr};
use libtest_mimic::Trial;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

const CASES: u32 = 10;

/// One operation; places are parts of what there is.
#[derive(Clone, Copy, Debug)]
struct Step {
    code: u8,
    one: bool,
    other: bool,
    at: u16,
    from: u16,
    count: u16,
    rank: u32,
    bytes: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![40 => 0..4usize, 10 => 0..50usize, 1 => 60_000..300_000usize];
    (0..24u8, any::<[bool; 2]>(), any::<[u16; 3]>(), any::<u32>(), bytes).prop_map(
        |(code, [one, other], [at, from, count], rank, bytes)| Step {
            code,
            one,
            other,
            at,
            from,
            count,
            rank,
            bytes,
        },
    )
}

/// What a list should hold: payloads and their ranks.
type Model = Vec<(Vec<u8>, u32)>;

/// The words of the list, read as programs read them: forwards, backwards, count, sizes, ranks.
fn check(stage: &Stage, list: &List<'_>, model: &Model) -> Result<(), TestCaseError> {
    let [first, last, count] = *stage.read::<u64>(list.address(), 3).first_chunk::<3>().expect("a header");
    prop_assert_eq!(count, model.len() as u64);
    let (mut forwards, mut backwards) = (vec![list.address().bits()], vec![list.address().bits()]);
    for (trail, start, word) in [(&mut forwards, first, 0), (&mut backwards, last, 1)] {
        let mut node = start;
        while node != list.address().bits() && trail.len() <= model.len() {
            trail.push(node);
            node = stage.read::<u64>(kumiki::GlobalAddress::from_bits(node), 2)[word];
        }
    }
    prop_assert_eq!(forwards.len(), model.len() + 1, "forwards");
    backwards[1..].reverse();
    prop_assert_eq!(&forwards, &backwards);
    for (&node, (payload, rank)) in forwards[1..].iter().zip(model) {
        let position = Position::from_address(kumiki::GlobalAddress::from_bits(node));
        let element = list.element(position).expect("element");
        prop_assert_eq!((element.address.bits(), element.bytes), (node + 24, payload.len()));
        prop_assert_eq!(stage.world.rank_of(position.address()), Some(*rank));
    }
    let found = list.to_vec().expect("to_vec");
    prop_assert!(found.iter().eq(model.iter().map(|(payload, _)| payload)), "payloads");
    Ok(())
}

fn against_model(stage: &Stage, ranks: [u32; 2], steps: &[Step]) -> Result<(), TestCaseError> {
    let mut lists = ranks.map(|rank| List::create(&stage.world, rank).expect("create"));
    let mut models: [Model; 2] = Default::default();
    for (number, step) in steps.iter().enumerate() {
        apply(stage, &mut lists, &mut models, number, step)?;
        for (list, model) in lists.iter().zip(&models) {
            check(stage, list, model)?;
        }
    }
    lists.into_iter().for_each(|list| list.destroy().expect("destroy"));
    Ok(())
}

fn apply(
    stage: &Stage,
    lists: &mut [List<'_>; 2],
    models: &mut [Model; 2],
    number: usize,
    step: &Step,
) -> Result<(), TestCaseError> {
    let (one, other) = (step.one as usize, step.other as usize);
    let rank = step.rank % stage.ranks();
    let data = patterned(number as u64 % 3, step.bytes);
    let at = part(step.at, models[one].len());
    let from = part(step.from, models[other].len());
    let until = from + part(step.count, models[other].len() - from);
    let place = |list: &List<'_>, index: usize| {
        let begin = list.begin().expect("begin");
        list.advance(begin, index as isize).expect("advance")
    };
    let (mut list, mut second) = (lists[one], lists[other]);
    let position = place(&list, at);
    let (start, end) = (place(&second, from), place(&second, until));
    match step.code {
        0..=3 => {
            list.push_back(&data, rank).expect("push_back");
            models[one].push((data, rank));
        }
        4 => {
            list.push_front(&data, rank).expect("push_front");
            models[one].insert(0, (data, rank));
        }
        5 | 6 => {
            let new = list.insert(position, &data, rank).expect("insert");
            prop_assert_eq!(list.next(new).expect("next"), position);
            models[one].insert(at, (data, rank));
        }
        7 => {
            let items: Vec<(&[u8], u32)> =
                (0..20).map(|index| (&data[..], (rank + index) % stage.ranks())).collect();
            list.insert_many(position, &items).expect("insert_many");
            models[one].splice(at..at, items.iter().map(|&(data, rank)| (data.to_vec(), rank)));
        }
        8 | 9 if at < models[one].len() => {
            let next = list.next(position).expect("next");
            prop_assert_eq!(list.erase(position).expect("erase"), next);
            models[one].remove(at);
        }
        10 => {
            prop_assert_eq!(second.distance(start, end).expect("distance"), until - from);
            prop_assert_eq!(second.erase_range(start, end).expect("erase_range"), end);
            models[other].drain(from..until);
        }
        11 => prop_assert_eq!(list.pop_back().expect("pop"), models[one].pop().map(|(data, _)| data)),
        12 => {
            let first = if models[one].is_empty() { None } else { Some(models[one].remove(0).0) };
            prop_assert_eq!(list.pop_front().expect("pop"), first);
        }
        13 => {
            list.assign_range(&second, start, end).expect("assign_range");
            models[one] = models[other][from..until].to_vec();
        }
        14 => {
            list.insert_range(position, &second, start, end).expect("insert_range");
            let copy = models[other][from..until].to_vec();
            models[one].splice(at..at, copy);
        }
        15 if from < models[other].len() => {
            list.splice(position, &mut second, start).expect("splice");
            let moved = models[other].remove(from);
            let to = if one == other && at > from { at - 1 } else { at };
            models[one].insert(to, moved);
        }
        16 => {
            let inside = one == other && at > from && at < until;
            let spliced = list.splice_range(position, &mut second, start, end);
            prop_assert_eq!(spliced.is_err(), inside);
            if !inside {
                let moved: Model = models[other].drain(from..until).collect();
                let to = if one == other && at >= until { at - moved.len() } else { at };
                models[one].splice(to..to, moved);
            }
        }
        17.. => whole(lists, models, [one, other], step.code, &data)?,
        _ => {}
    }
    Ok(())
}

/// Operations on whole lists.
fn whole(
    lists: &mut [List<'_>; 2],
    models: &mut [Model; 2],
    [one, other]: [usize; 2],
    code: u8,
    data: &[u8],
) -> Result<(), TestCaseError> {
    let (mut list, mut second) = (lists[one], lists[other]);
    match code {
        17 => {
            for index in 0..2 {
                lists[index].sort_by(|one, two| one.cmp(two)).expect("sort");
                models[index].sort_by(|(one, _), (two, _)| one.cmp(two));
            }
            list.merge_by(&mut second, |one, two| one.cmp(two)).expect("merge");
            if one != other {
                let moved = std::mem::take(&mut models[other]);
                models[one].extend(moved);
                models[one].sort_by(|(one, _), (two, _)| one.cmp(two));
            }
        }
        18 => {
            list.sort_elements_by(|one, two| two.bytes.cmp(&one.bytes)).expect("sort");
            models[one].sort_by_key(|(data, _)| std::cmp::Reverse(data.len()));
        }
        19 => {
            list.reverse().expect("reverse");
            models[one].reverse();
        }
        20 => {
            let before = models[one].len();
            models[one].retain(|(found, _)| found != data);
            prop_assert_eq!(list.remove(data).expect("remove"), before - models[one].len());
        }
        21 => {
            let before = models[one].len();
            models[one].dedup_by(|(one, _), (two, _)| one == two);
            prop_assert_eq!(list.unique().expect("unique"), before - models[one].len());
        }
        22 => {
            let [first, second] = lists;
            first.swap(second).expect("swap");
            models.swap(0, 1);
        }
        _ => {
            list.clear().expect("clear");
            models[one].clear();
        }
    }
    Ok(())
}

pub(crate) fn list(stage: &Stage) {
    for target in 0..stage.ranks() {
        let programs = (prop::collection::vec(step(), 1..30), 0..stage.ranks());
        stage.cases(CASES, [9, target as u8], programs, |(steps, second)| {
            against_model(stage, [target, second], &steps)
        });
    }
    edges(stage, (stage.me() + 1) % stage.ranks());
    stage.expect_all_freed();
}

/// The end, what is no element, values, iteration, and what a dead rank leaves.
fn edges(stage: &Stage, rank: u32) {
    let world = &stage.world;
    let mut list = List::create(world, rank).expect("create");
    assert_eq!((list.begin().expect("begin"), list.end().address()), (list.end(), list.address()));
    assert_eq!(list.pop_back().expect("pop"), None);
    assert_eq!(list.advance(list.end(), 3).expect("advance"), list.end());
    for value in 0..2000u64 {
        list.push_value(&value, (stage.me() + value as u32 / 500) % stage.ranks()).expect("push");
    }
    let last = list.previous(list.end()).expect("previous");
    assert_eq!(list.value::<u64>(last).expect("value"), 1999);
    let middle = list.advance(list.end(), -1000).expect("advance");
    assert_eq!(list.value::<u64>(middle).expect("value"), 1000);
    assert_eq!(list.advance(middle, -5000).expect("advance"), list.end());
    let values =
        list.iter().map(|payload| u64::from_le_bytes(payload.expect("payload").try_into().expect("8 bytes")));
    assert!(values.eq(0..2000), "in order");
    let misuses = [
        list.erase(list.end()).err(),
        list.read(list.end()).err(),
        list.value::<u32>(last).err(),
        list.distance(last, middle).err(),
        list.insert(list.end(), &[1], stage.ranks()).err(),
        List::from_address(world, list.address().add(8)).len().err(),
        List::create(world, stage.ranks()).err(),
    ];
    for (index, error) in misuses.into_iter().enumerate() {
        assert!(matches!(error, Some(Error::Misuse(_))), "case {index}: {error:?}");
    }
    list.erase_range(list.begin().expect("begin"), list.end()).expect("erase all");
    let state = GlobalPtr::<u64>::from_address(list.address()).add(3);
    world.put(state, u64::from_le_bytes(*b"changing")).expect("put");
    let refused = [list.len().err(), list.push_back(&[1], rank).err(), list.reverse().err()];
    for error in refused {
        assert!(matches!(error, Some(Error::Refused(_))), "{error:?}");
    }
    list.clear().expect("clear");
    list.push_back(&[1], stage.me()).expect("push");
    assert_eq!(list.to_vec().expect("to_vec"), [[1]]);
    list.destroy().expect("destroy");
}

/// Under a budget: a batch that does not fit leaves nothing behind.
pub(crate) fn list_budget(stage: &Stage) {
    let next = (stage.me() + 1) % stage.ranks();
    let mut list = List::create(&stage.world, next).expect("create");
    let data = patterned(5, 10_000);
    let items: Vec<(&[u8], u32)> =
        (0..16).map(|index| (&data[..], (stage.me() + index) % stage.ranks())).collect();
    let mut count = 0;
    let full = loop {
        match list.insert_many(list.end(), &items) {
            Ok(_) => count += 16,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::OutOfMemory { .. }), "{full}");
    assert_eq!(list.to_vec().expect("to_vec").len(), count);
    assert!(list.iter().all(|payload| payload.expect("payload") == data));
    list.destroy().expect("destroy");
    stage.expect_all_freed();
    let refused = Workspace::shared(&stage.world, 64 << 20);
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    stage.expect_all_freed();
}

/// Every rank writes its stripes of a workspace and reads everybody's.
pub(crate) fn workspace(stage: &Stage) {
    let (me, ranks) = (stage.me() as usize, stage.ranks() as usize);
    for (bytes, start, chunk) in
        [(10_000, 1, 37), (300_000, 0, 4096), (5, 0, 100), (0, 0, 8), (2_500_000, 1, 1000)]
    {
        let start = start % stage.ranks();
        let workspace =
            Workspace::shared_with(&stage.world, bytes, Chunks::of(chunk).from_rank(start)).expect("create");
        let places: Vec<u32> = workspace.chunks().map(|chunk| chunk.rank).collect();
        assert_eq!(places.len(), bytes.div_ceil(chunk));
        assert!(places
            .iter()
            .enumerate()
            .all(|(index, &rank)| rank == (start + index as u32) % stage.ranks()));
        let mut found = vec![1; bytes];
        workspace.read(0, &mut found).expect("read");
        assert!(found.iter().all(|&byte| byte == 0), "it begins with zeros");
        stage.sync();
        let wanted = patterned(chunk as u64, bytes);
        let stripe = bytes.div_ceil(ranks);
        let own = (stripe * me).min(bytes)..(stripe * (me + 1)).min(bytes);
        let half = own.start + own.len() / 2;
        workspace.write(own.start, &wanted[own.start..half]).expect("write");
        let block = stage.block(own.len() + 8);
        stage.write(block.address(), &wanted[half..own.end]);
        workspace.write_from(half, block.address(), own.end - half).expect("write_from");
        stage.sync();
        workspace.read(0, &mut found).expect("read");
        assert_same(&found, &wanted, || format!("{bytes} bytes in chunks of {chunk}"));
        workspace.read_to(own.start, block.address(), own.len()).expect("read_to");
        assert!(stage.read::<u8>(block.address(), own.len()) == wanted[own.clone()]);
        let outside = workspace.read(bytes, &mut [0]);
        assert!(matches!(outside, Err(Error::Misuse(_))), "{outside:?}");
        workspace.destroy().expect("destroy");
    }
    stage.expect_all_freed();
}

/// Every number is drawn once.
pub(crate) fn counter(stage: &Stage) {
    let own = Counter::create(&stage.world, stage.me()).expect("create");
    let all = stage.exchange(own.address());
    let counter = Counter::from_address(&stage.world, all[1 % all.len()]);
    let (mut sum, mut drawn) = (0, 0);
    for turn in 0..500u64 {
        let block = if turn % 3 == 0 {
            counter.next_block(turn % 7).expect("block")
        } else {
            let number = counter.next().expect("next");
            number..number + 1
        };
        drawn += block.end - block.start;
        sum += block.sum::<u64>();
    }
    let (sums, counts) = (stage.exchange_word(sum), stage.exchange_word(drawn));
    let total: u64 = counts.iter().sum();
    assert_eq!(counter.value().expect("value"), total);
    assert_eq!(sums.iter().sum::<u64>(), total * (total - 1) / 2, "each number once");
    stage.sync();
    own.destroy().expect("destroy");
    stage.expect_all_freed();
}

pub(crate) fn trials() -> Vec<Trial> {
    let budget = |way: &'static way::Way| {
        Trial::test(format!("{}::list_budget", way.name), move || {
            Job::new(way, "list_budget", 4).env("KUMIKI_BUDGET", "4M").run().success()
        })
    };
    let mut trials: Vec<Trial> = NODES.iter().map(budget).collect();
    trials.extend(["list", "workspace", "counter"].map(|topic| {
        Trial::test(format!("alone::{topic}"), move || Job::alone(way::named("shm"), topic).run().success())
    }));
    trials
}
