//! Every collective with every algorithm, of several types and operations, from every root, with nothing, little and uneven parts:
//! what each member has afterwards is compared with what one member alone computes. For suites that make groups of their own.

use kumiki::comm::{
    Algorithm, And, Combine, Group, Integer, Located, Max, MaxAt, Min, MinAt, Number, Operation, Or, Product,
    Sum, Xor,
};
use kumiki::{Pod, Result};
use std::fmt::Debug;

/// All of it, with parts of these lengths.
pub(crate) fn sweep(group: &Group<'_>, lengths: &[usize]) -> Result<()> {
    for algorithm in std::iter::once(None).chain(Algorithm::ALL.map(Some)) {
        group.force(algorithm);
        group.barrier()?;
        for &len in lengths {
            moves::<u64>(group, len, |member, index| u64::from(member) << 32 | index as u64)?;
            moves::<u8>(group, len, |member, index| (7 * member as usize + index) as u8)?;
            moves::<[u16; 3]>(group, len, |member, index| [member as u16, index as u16, 9])?;
            numbers(group, len, |value| value as f64)?;
            numbers(group, len, |value| value as i32)?;
            integers(group, len, u64::from)?;
            special(group, len)?;
        }
        alike(group)?;
        not_numbers(group)?;
    }
    group.force(None);
    Ok(())
}

/// Every collective with every algorithm, but with few types and operations: for where each call takes long.
pub(crate) fn brief(group: &Group<'_>, lengths: &[usize]) -> Result<()> {
    for algorithm in std::iter::once(None).chain(Algorithm::ALL.map(Some)) {
        group.force(algorithm);
        group.barrier()?;
        for &len in lengths {
            moves::<[u16; 3]>(group, len, |member, index| [member as u16, index as u16, 9])?;
            combine(group, len, |member, index| f64::from(value(member, index)), Sum)?;
            combine(group, len, line, Combine::ordered(after))?;
        }
        alike(group)?;
        not_numbers(group)?;
    }
    group.force(None);
    started(group, lengths[0])
}

/// What is so long that it goes straight, with every algorithm.
pub(crate) fn long(group: &Group<'_>) -> Result<()> {
    let (me, ranks, len) = (group.rank(), group.ranks() as usize, 10_000);
    let own =
        |member: u32| (0..len as u64).map(|index| u64::from(member) << 32 | index).collect::<Vec<u64>>();
    let all: Vec<u64> = (0..group.ranks()).flat_map(own).collect();
    let sum: Vec<u64> = (0..len).map(|at| (0..ranks).map(|member| all[member * len + at]).sum()).collect();
    let root = group.ranks() / 2;
    for algorithm in std::iter::once(None).chain(Algorithm::ALL.map(Some)) {
        group.force(algorithm);
        let mut data = if me == root { own(root) } else { vec![0; len] };
        group.broadcast(root, &mut data)?;
        assert_eq!(data, own(root), "broadcast");
        let mut data = own(me);
        group.allreduce(&mut data, Sum)?;
        assert_eq!(data, sum, "allreduce");
        // Some have their numbers elsewhere.
        let (given, mut data) = (own(me), if me % 2 == 0 { own(me) } else { vec![7; len] });
        match me % 2 {
            0 => group.allreduce(&mut data, Sum)?,
            _ => group.allreduce_into(&given, &mut data, Sum)?,
        }
        assert!(given == own(me) && data == sum, "allreduce_into");
        let mut data = own(me);
        group.reduce(root, &mut data, Combine::ordered(|one: u64, other: u64| one + other))?;
        assert_eq!(data, if me == root { sum.clone() } else { own(me) }, "reduce");
        let mut data = vec![0; all.len()];
        group.allgather(&own(me), &mut data)?;
        assert_eq!(data, all, "allgather");
        let mut data = vec![0; if me == root { all.len() } else { 0 }];
        group.gather(root, &own(me), &mut data)?;
        assert!(me != root || data == all, "gather");
        let mut data = vec![0; len];
        group.scatter(root, if me == root { &all } else { &[] }, &mut data)?;
        assert_eq!(data, own(me), "scatter");
        let mut data = vec![0; len - len % ranks];
        group.alltoall(&own(me)[..data.len()], &mut data)?;
        let part = data.len() / ranks;
        let first = |from: u32| own(from)[me as usize * part];
        assert!((0..group.ranks()).all(|from| data[from as usize * part] == first(from)), "alltoall");
    }
    group.force(None);
    let data = group.start_allreduce(own(me), Sum)?.wait()?;
    assert_eq!(data, sum, "started");
    Ok(())
}

/// What is started at once, with something that waits between, and is waited for in another order.
pub(crate) fn started(group: &Group<'_>, len: usize) -> Result<()> {
    let (me, ranks) = (group.rank(), group.ranks());
    let own = |member: u32| (0..len).map(|index| u64::from(value(member, index))).collect::<Vec<u64>>();
    let sum = |len: usize| {
        (0..len)
            .map(|index| (0..ranks).map(|member| u64::from(value(member, index))).sum())
            .collect::<Vec<u64>>()
    };
    for root in roots(group) {
        let sums = group.start_allreduce(own(me), Sum)?;
        let met = group.start_barrier()?;
        let all = group.start_allgather(&own(me))?;
        let given = group.start_broadcast(root, own(me))?;
        let forgotten = group.start_allreduce(own(me), Max)?;
        drop(forgotten);
        let one = group.start_reduce(root, own(me), Sum)?;
        let lines: Vec<[u32; 2]> = (0..len).map(|index| line(me, index)).collect();
        let text = group.start_allreduce(lines, Combine::ordered(after))?;
        let row: Vec<[u32; 2]> = (0..ranks).flat_map(|to| [[me, to]; 3]).collect();
        let column = group.start_alltoall(&row)?;
        let mut last = [me];
        group.allreduce(&mut last, Max)?;
        assert_eq!(last, [ranks - 1]);
        // What is made to wait behind them is done when they are.
        assert!(column.is_done() && sums.is_done());
        let wanted: Vec<[u32; 2]> = (0..ranks).flat_map(|from| [[from, me]; 3]).collect();
        assert_eq!(column.wait()?, wanted);
        let whole = |index| (1..ranks).fold(line(0, index), |left, member| after(left, line(member, index)));
        assert_eq!(text.wait()?, (0..len).map(whole).collect::<Vec<_>>());
        assert_eq!(one.wait()?, if me == root { sum(len) } else { own(me) });
        assert_eq!(given.wait()?, own(root));
        assert_eq!(all.wait()?, (0..ranks).flat_map(own).collect::<Vec<_>>());
        assert!(met.wait()?.is_empty());
        assert_eq!(sums.wait()?, sum(len));
    }
    Ok(())
}

fn line(member: u32, index: usize) -> [u32; 2] {
    [u32::from(value(member, index)), member]
}

/// One straight line after the other: the order counts.
fn after([a, b]: [u32; 2], [c, d]: [u32; 2]) -> [u32; 2] {
    [c.wrapping_mul(a), c.wrapping_mul(b).wrapping_add(d)]
}

/// All types of numbers, with the algorithms that are chosen.
pub(crate) fn types(group: &Group<'_>, len: usize) -> Result<()> {
    numbers(group, len, |value| value as f32)?;
    numbers(group, len, |value| value as f64)?;
    macro_rules! integers_of {
        ($($name:ty)*) => { $( integers(group, len, |value| value as $name)?; )* };
    }
    integers_of!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize);
    Ok(())
}

/// Bits differ between members, and are small numbers.
fn value(member: u32, index: usize) -> u16 {
    ((member as usize * 7 + index * 3) % 5 + 1) as u16
}

fn numbers<T: Number + Debug>(group: &Group<'_>, len: usize, of: impl Fn(u16) -> T) -> Result<()> {
    let own = |member, index| of(value(member, index));
    combine(group, len, own, Sum)?;
    combine(group, len, own, Product)?;
    combine(group, len, own, Min)?;
    combine(group, len, own, Max)
}

fn integers<T: Integer + Debug>(group: &Group<'_>, len: usize, of: impl Fn(u16) -> T) -> Result<()> {
    numbers(group, len, &of)?;
    let own = |member, index| of(value(member, index));
    combine(group, len, own, And)?;
    combine(group, len, own, Or)?;
    combine(group, len, own, Xor)
}

/// With places, and operations of the program: one that does not commute, and one that does.
fn special(group: &Group<'_>, len: usize) -> Result<()> {
    let located = |member, index| Located::new(f64::from(value(member, index)), u64::from(member));
    combine(group, len, located, MinAt)?;
    combine(group, len, located, MaxAt)?;
    combine(group, len, line, Combine::ordered(after))?;
    let large = |member, index| [u64::from(value(member, index)); 64];
    let add = |one: [u64; 64], other: [u64; 64]| std::array::from_fn(|at| one[at] + other[at]);
    combine(group, len.min(20), large, Combine::any_order(add))
}

/// So many elements for each member: some none, some more than others.
fn uneven(group: &Group<'_>, len: usize) -> Vec<usize> {
    (0..group.ranks() as usize).map(|member| (member * 5 + 2) % 4 * len / 3).collect()
}

fn starts(counts: &[usize]) -> Vec<usize> {
    (0..counts.len()).map(|part| counts[..part].iter().sum()).collect()
}

fn roots(group: &Group<'_>) -> Vec<u32> {
    let mut roots = vec![0, group.ranks() / 2, group.ranks() - 1];
    roots.dedup();
    roots
}

fn moves<T: Pod + PartialEq + Debug>(
    group: &Group<'_>,
    len: usize,
    own: impl Fn(u32, usize) -> T,
) -> Result<()> {
    let (me, ranks) = (group.rank(), group.ranks());
    let of = |member: u32, count: usize| (0..count).map(|index| own(member, index)).collect::<Vec<T>>();
    let (even, counts) = (vec![len; ranks as usize], uneven(group, len));
    let all_of =
        |counts: &[usize]| (0..ranks).flat_map(|member| of(member, counts[member as usize])).collect();
    let blank = |count: usize| vec![T::zeroed(); count];
    let (all, mixed): (Vec<T>, Vec<T>) = (all_of(&even), all_of(&counts));
    let mine = counts[me as usize];
    for root in roots(group) {
        let is_root = me == root;
        let mut data = if is_root { of(root, len) } else { blank(len) };
        group.broadcast(root, &mut data)?;
        assert_eq!(data, of(root, len), "broadcast from {root}");
        let mut into = blank(if is_root { all.len() } else { 0 });
        group.gather(root, &of(me, len), &mut into)?;
        assert!(!is_root || into == all, "gather to {root}");
        let mut into = blank(if is_root { mixed.len() } else { 0 });
        group.gatherv(root, &of(me, mine), &counts, &mut into)?;
        assert!(!is_root || into == mixed, "gatherv to {root}");
        let mut into = blank(len);
        group.scatter(root, if is_root { &all } else { &[] }, &mut into)?;
        assert_eq!(into, of(me, len), "scatter from {root}");
        let mut into = blank(mine);
        group.scatterv(root, if is_root { &mixed } else { &[] }, &counts, &mut into)?;
        assert_eq!(into, of(me, mine), "scatterv from {root}");
    }
    let mut into = blank(all.len());
    group.allgather(&of(me, len), &mut into)?;
    assert_eq!(into, all, "allgather");
    let mut into = blank(mixed.len());
    group.allgatherv(&of(me, mine), &counts, &mut into)?;
    assert_eq!(into, mixed, "allgatherv");
    let mut into = blank(mixed.len());
    let start = starts(&counts)[me as usize];
    into[start..start + mine].copy_from_slice(&of(me, mine));
    group.allgatherv_in_place(&counts, &mut into)?;
    assert_eq!(into, mixed, "allgatherv in place");
    everyone(group, len, own)
}

/// From each to each: who is sent to counts, too.
fn everyone<T: Pod + PartialEq + Debug>(
    group: &Group<'_>,
    len: usize,
    own: impl Fn(u32, usize) -> T,
) -> Result<()> {
    let (me, ranks) = (group.rank(), group.ranks());
    let part =
        |from: u32, to: u32, count: usize| (0..count).map(|index| own(from, index + to as usize)).collect();
    let parts = |pair: &dyn Fn(u32) -> Vec<T>| (0..ranks).flat_map(pair).collect::<Vec<T>>();
    let mut into = vec![T::zeroed(); len * ranks as usize];
    group.alltoall(&parts(&|other| part(me, other, len)), &mut into)?;
    assert_eq!(into, parts(&|other| part(other, me, len)), "alltoall");
    let count = |from: u32, to: u32| (from as usize + 3 * to as usize) % 3 * len / 2;
    let counts = |pair: &dyn Fn(u32) -> usize| (0..ranks).map(pair).collect::<Vec<usize>>();
    let (out, comes) = (counts(&|other| count(me, other)), counts(&|other| count(other, me)));
    let mut into = vec![T::zeroed(); comes.iter().sum()];
    group.alltoallv(&parts(&|other| part(me, other, count(me, other))), &out, &mut into, &comes)?;
    assert_eq!(into, parts(&|other| part(other, me, count(other, me))), "alltoallv");
    Ok(())
}

fn combine<T: Pod + PartialEq + Debug, O: Operation<T> + Copy>(
    group: &Group<'_>,
    len: usize,
    own: impl Fn(u32, usize) -> T,
    operation: O,
) -> Result<()> {
    let (me, ranks) = (group.rank(), group.ranks());
    let of = |member: u32, len: usize| (0..len).map(|index| own(member, index)).collect::<Vec<T>>();
    let up_to = |end: u32, len: usize| {
        let one =
            |index| (1..end).fold(own(0, index), |left, member| operation.apply(left, own(member, index)));
        (0..len).map(one).collect::<Vec<T>>()
    };
    let mine = of(me, len);
    for root in roots(group) {
        let mut data = mine.clone();
        group.reduce(root, &mut data, operation)?;
        assert_eq!(data, if me == root { up_to(ranks, len) } else { mine.clone() }, "reduce to {root}");
    }
    let mut data = mine.clone();
    group.allreduce(&mut data, operation)?;
    assert_eq!(data, up_to(ranks, len), "allreduce");
    let mut data = of(ranks, len);
    group.allreduce_into(&mine, &mut data, operation)?;
    assert_eq!(data, up_to(ranks, len), "allreduce_into");
    let mut data = mine.clone();
    group.scan(&mut data, operation)?;
    assert_eq!(data, up_to(me + 1, len), "scan");
    let mut data = mine.clone();
    group.exscan(&mut data, operation)?;
    assert_eq!(data, if me == 0 { mine } else { up_to(me, len) }, "exscan");
    let counts = uneven(group, len);
    let total = counts.iter().sum();
    let mut data = of(me, total);
    let part = group.reduce_scatter(&mut data, &counts, operation)?;
    assert_eq!(part.start, starts(&counts)[me as usize]);
    assert_eq!(data[part.clone()], up_to(ranks, total)[part], "reduce_scatter");
    Ok(())
}

/// A NaN of any member loses to the numbers of the others, whatever is compared first.
fn not_numbers(group: &Group<'_>) -> Result<()> {
    let (me, ranks) = (group.rank(), group.ranks());
    let len = ranks as usize;
    // Element i is a NaN on member i; the others have numbers that all differ.
    let own: Vec<f64> =
        (0..ranks).map(|index| if index == me { f64::NAN } else { f64::from(me * 10) }).collect();
    let (mut least, mut most) = (own.clone(), own);
    group.allreduce(&mut least, Min)?;
    group.allreduce(&mut most, Max)?;
    let others = |index: usize| (0..len).filter(move |member| *member != index);
    for index in 0..len {
        let [least_of, most_of] = [others(index).min(), others(index).max()];
        assert_eq!(least_of.map(|member| member as f64 * 10.0), Some(least[index]).filter(|_| len > 1));
        assert_eq!(most_of.map(|member| member as f64 * 10.0), Some(most[index]).filter(|_| len > 1));
    }
    Ok(())
}

/// Sums that round differently in each order are the same on all members, to the last bit.
fn alike(group: &Group<'_>) -> Result<()> {
    let mut sums: Vec<f64> = (0..50).map(|index| 1.0 / f64::from(3 + index + 11 * group.rank())).collect();
    group.allreduce(&mut sums, Sum)?;
    let bits: Vec<u64> = sums.iter().map(|sum| sum.to_bits()).collect();
    let mut all = vec![0; 50 * group.ranks() as usize];
    group.allgather(&bits, &mut all)?;
    assert!(all.chunks(50).all(|other| other == bits), "the same on all");
    Ok(())
}
