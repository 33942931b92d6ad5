//! What goes by the order of all elements: sort, scan, pack and unpack. Elements are brought into blocks of that order, worked on there, and brought back.

use super::Array;
use crate::array::club::Club;
use crate::array::space::{misuse, Align, Format, Mapping, Nodes, Shadow, Sub, Template};
use crate::comm::{Group, Number, Operation};
use crate::{Pod, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// NaNs are the largest.
fn compare<T: PartialOrd>(one: &T, other: &T) -> Ordering {
    let is_number = |value: &T| value.partial_cmp(value).is_some();
    one.partial_cmp(other).unwrap_or_else(|| is_number(other).cmp(&is_number(one)))
}

/// How many elements each member has.
fn counts_of(group: &Group<'_>, own: usize) -> Result<Vec<u64>> {
    let mut counts = vec![0; group.ranks() as usize];
    group.allgather(&[own as u64], &mut counts)?;
    Ok(counts)
}

/// Elements that each member has some of, one behind the other.
fn pieces<'w, T: Pod>(club: &Arc<Club<'w>>, counts: &[u64], own: &[T]) -> Result<Array<'w, T, 1>> {
    let line = club.nodes.reshape(&[club.nodes.len()])?;
    let total = counts.iter().sum::<u64>();
    let template = Template::new(&[(0, total as i64 - 1)], &[Format::Irregular(counts.into())], &line)?;
    let mapping = Mapping::new(&template, &[total], &[Align::with(0, 0)], &[Shadow::NONE])?;
    let mut array = Array::make(Club::new(club.world, &line), &mapping)?;
    array.cells.copy_from_slice(own);
    Ok(array)
}

const ALL: Sub = Sub::All;

impl<'w, T: Pod, const N: usize> Array<'w, T, N> {
    /// The same elements in blocks of the first dimension, in the order of some nodes: each has some that follow each other in C's order.
    fn in_order(&self, nodes: &Nodes) -> Result<Array<'w, T, N>> {
        let sizes = self.mapping.sizes();
        let line = nodes.reshape(&[nodes.len()])?;
        let Some(first) = sizes.first() else {
            return Err(misuse("an order of an array without dimensions"));
        };
        let template = Template::block(&[*first], &line)?;
        let mut aligns = vec![Align::COLLAPSED; N];
        aligns[0] = Align::with(0, 0);
        let mapping = Mapping::new(&template, &sizes, &aligns, &[Shadow::NONE; N])?;
        let mut other: Array<'w, T, N> = Array::make(Club::new(self.world(), &line), &mapping)?;
        other.copy_from(&[ALL; N], self, &[ALL; N])?;
        Ok(other)
    }

    /// Gives this vector the elements of another array at which a mask is not 0, in C's order; how many those are. What is behind them stays as it is. Collective.
    #[track_caller]
    pub fn pack_into(&self, mask: &Array<'w, u8, N>, vector: &mut Array<'w, T, 1>) -> Result<u64> {
        self.check("pack_into", String::new)?;
        let world = self.world();
        let packed = world.note((|| {
            same_sizes(&self.mapping, &mask.mapping)?;
            within(&self.club.nodes, [("mask", &mask.club.nodes), ("vector", &vector.club.nodes)])?;
            let (values, mask) = (self.in_order(&self.club.nodes)?, mask.in_order(&self.club.nodes)?);
            let chosen: Vec<T> = values
                .cells
                .iter()
                .zip(mask.cells.iter())
                .filter(|(_, mask)| **mask != 0)
                .map(|(value, _)| *value)
                .collect();
            let counts = counts_of(self.group()?, chosen.len())?;
            pieces(&self.club, &counts, &chosen)
        })())?;
        let total = packed.mapping.len();
        vector.copy_from(&[Sub::range(0, total as i64, 1)], &packed, &[ALL])?;
        Ok(total)
    }

    /// Gives the elements of this array at which a mask is not 0 those of a vector, in C's order; how many those are. The others stay as they are. Collective.
    #[track_caller]
    pub fn unpack_from(&mut self, mask: &Array<'w, u8, N>, vector: &Array<'w, T, 1>) -> Result<u64> {
        self.check("unpack_from", String::new)?;
        let world = self.world();
        let (values, total) = world.note((|| {
            same_sizes(&self.mapping, &mask.mapping)?;
            within(&self.club.nodes, [("mask", &mask.club.nodes), ("vector", &vector.club.nodes)])?;
            let (mut values, mask) = (self.in_order(&self.club.nodes)?, mask.in_order(&self.club.nodes)?);
            let chosen = mask.cells.iter().filter(|mask| **mask != 0).count();
            let counts = counts_of(self.group()?, chosen)?;
            let mut packed = pieces(&self.club, &counts, &vec![T::zeroed(); chosen])?;
            let total = packed.mapping.len();
            packed.copy_from(&[ALL], vector, &[Sub::range(0, total as i64, 1)])?;
            let places = values.cells.iter_mut().zip(mask.cells.iter()).filter(|(_, mask)| **mask != 0);
            places.zip(packed.cells.iter()).for_each(|((place, _), value)| *place = *value);
            Ok((values, total))
        })())?;
        self.copy_from(&[ALL; N], &values, &[ALL; N])?;
        Ok(total)
    }
}

/// Only the nodes of the array know how many elements are meant.
fn within(nodes: &Nodes, others: [(&str, &Nodes); 2]) -> Result<()> {
    match others.iter().find(|(_, others)| !nodes.contains_all(others)) {
        None => Ok(()),
        Some((what, _)) => Err(misuse(format!("the {what} lies on nodes that the array does not lie on"))),
    }
}

fn same_sizes(one: &Mapping, other: &Mapping) -> Result<()> {
    match one.sizes() == other.sizes() {
        true => Ok(()),
        false => {
            Err(misuse(format!("an array of sizes {:?} and a mask of {:?}", one.sizes(), other.sizes())))
        }
    }
}

impl<'w, T: Pod> Array<'w, T, 1> {
    /// Gives every element what an operation makes of all elements up to it. Collective.
    ///
    /// ```
    /// # use kumiki::{array::Array, comm::Sum};
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let mut array = Array::<u64, 1>::block(&world, &[100], &[0])?;
    /// array.fill(1);
    /// array.scan(Sum)?;
    /// array.for_each(|[i], value| assert_eq!(value, i as u64 + 1));
    /// # drop(array);
    /// # world.finalize()
    /// # }
    /// ```
    #[track_caller]
    pub fn scan(&mut self, operation: impl Operation<T>) -> Result<()> {
        self.check("scan", String::new)?;
        let world = self.world();
        let mut ordered = world.note(self.in_order(&self.club.nodes))?;
        let mut last = None;
        for cell in ordered.cells.iter_mut() {
            *cell = last.map_or(*cell, |last| operation.apply(last, *cell));
            last = Some(*cell);
        }
        let group = self.group()?;
        let counts = counts_of(group, ordered.cells.len())?;
        let mut ends = vec![T::zeroed(); counts.len()];
        group.allgather(&[last.unwrap_or_else(T::zeroed)], &mut ends)?;
        let before = ends.iter().zip(&counts).take(group.rank() as usize).filter(|(_, count)| **count > 0);
        if let Some(before) = before.map(|(end, _)| *end).reduce(|one, other| operation.apply(one, other)) {
            ordered.cells.iter_mut().for_each(|cell| *cell = operation.apply(before, *cell));
        }
        self.copy_from(&[ALL], &ordered, &[ALL])
    }

    /// Sorts all elements, the smallest first. Of floating-point numbers NaNs are the largest. Collective.
    ///
    /// ```
    /// # use kumiki::array::Array;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let mut array = Array::<i64, 1>::block(&world, &[1000], &[0])?;
    /// array.update(|[i], cell| *cell = i * 7919 % 1000);
    /// array.sort()?;
    /// array.for_each(|[i], value| assert_eq!(value, i));
    /// # drop(array);
    /// # world.finalize()
    /// # }
    /// ```
    #[track_caller]
    pub fn sort(&mut self) -> Result<()>
    where
        T: Number,
    {
        self.sort_by(compare)
    }

    /// Sorts all elements, the largest first. Collective.
    #[track_caller]
    pub fn sort_down(&mut self) -> Result<()>
    where
        T: Number,
    {
        self.sort_by(|one, other| compare(other, one))
    }

    /// Sorts all elements by a comparison, which is a total order. Collective.
    #[track_caller]
    pub fn sort_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) -> Result<()> {
        self.check("sort_by", String::new)?;
        let world = self.world();
        let mut own = world.note(self.in_order(&self.club.nodes))?.cells.into_vec();
        own.sort_unstable_by(&compare);
        let group = self.group()?;
        let members = group.ranks() as usize;
        // As many samples of each as there are members, from which all choose the same borders.
        let count = if own.is_empty() { 0 } else { members };
        let samples: Vec<T> = (0..count).map(|at| own[at * own.len() / members]).collect();
        let counts: Vec<usize> =
            counts_of(group, samples.len())?.into_iter().map(|count| count as usize).collect();
        let mut all = vec![T::zeroed(); counts.iter().sum()];
        group.allgatherv(&samples, &counts, &mut all)?;
        all.sort_unstable_by(&compare);
        let mut out = Vec::with_capacity(members);
        let mut from = 0;
        for member in 1..=members {
            let to = match all.get(member * all.len() / members) {
                Some(border) if member < members => {
                    own.partition_point(|value| compare(value, border).is_lt())
                }
                _ => own.len(),
            };
            out.push(to.max(from) - from);
            from = to.max(from);
        }
        let mut came = exchange(group, &own, &out)?;
        came.sort_unstable_by(&compare);
        let counts = counts_of(group, came.len())?;
        let sorted = world.note(pieces(&self.club, &counts, &came))?;
        self.copy_from(&[ALL], &sorted, &[ALL])
    }
}

/// Sends so many elements to each member, and gives what all have sent to this one, in their order.
pub(super) fn exchange<T: Pod>(group: &Group<'_>, data: &[T], out: &[usize]) -> Result<Vec<T>> {
    Ok(exchange_counted(group, data, out)?.0)
}

/// The same, and how many each has sent.
pub(super) fn exchange_counted<T: Pod>(
    group: &Group<'_>,
    data: &[T],
    out: &[usize],
) -> Result<(Vec<T>, Vec<usize>)> {
    let told: Vec<u64> = out.iter().map(|count| *count as u64).collect();
    let mut came = vec![0u64; told.len()];
    group.alltoall(&told, &mut came)?;
    let counts: Vec<usize> = came.iter().map(|count| *count as usize).collect();
    let mut into = vec![T::zeroed(); counts.iter().sum()];
    group.alltoallv(data, out, &mut into, &counts)?;
    Ok((into, counts))
}
