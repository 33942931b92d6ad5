//! A phase in which every rank reads and writes any element of an array: its memory is lent for as long, and all meet at the end.

use super::Array;
use crate::array::schedule::Reach;
use crate::array::space::{misuse, Mapping, Section, Sub};
use crate::{GlobalPtr, Pod, Rank, Result, World};
use std::sync::Arc;

/// An array that all its nodes share for a while: from [`Array::share`].
pub struct Shared<'s, 'w, T: Pod, const N: usize> {
    world: &'w World,
    mapping: &'s Arc<Mapping>,
    /// Where the part of each node is.
    parts: Vec<GlobalPtr<T>>,
}

impl<T: Pod, const N: usize> std::fmt::Debug for Shared<'_, '_, T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared<{}>({:?})", std::any::type_name::<T>(), self.mapping.sizes())
    }
}

impl<'w, T: Pod, const N: usize> Array<'w, T, N> {
    /// Lets all nodes read and write any element while `work` runs on each. All of them come to the beginning before one reads, and to the end before one
    /// goes on. What two ranks do to one element without waiting for each other is in no order. Collective.
    ///
    /// ```
    /// # use kumiki::array::Array;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let mut array = Array::<u64, 1>::block(&world, &[100], &[0])?;
    /// array.update(|[i], cell| *cell = i as u64);
    /// let far = array.share(|shared| shared.get([99]))?;
    /// assert_eq!(far, 99);
    /// # drop(array);
    /// # world.finalize()
    /// # }
    /// ```
    #[track_caller]
    pub fn share<R>(&mut self, work: impl FnOnce(&Shared<'_, 'w, T, N>) -> Result<R>) -> Result<R> {
        self.check("share", String::new)?;
        let (club, mapping, world) = (self.club.clone(), self.mapping.clone(), self.world());
        let group = club.group()?;
        let phase = |own: GlobalPtr<T>| {
            let mut parts = vec![GlobalPtr::NULL; group.ranks() as usize];
            group.allgather(&[own], &mut parts)?;
            let result = work(&Shared { world, mapping: &mapping, parts });
            group.barrier()?;
            result
        };
        match self.cells.is_empty() {
            true => phase(GlobalPtr::NULL),
            false => world.lend(&mut self.cells, |lent| phase(lent.ptr()))?,
        }
    }
}

impl<T: Pod, const N: usize> Shared<'_, '_, T, N> {
    fn part(&self, rank: Rank) -> Result<GlobalPtr<T>> {
        let position = self.mapping.nodes().position(rank);
        let part =
            position.and_then(|position| self.parts.get(position as usize)).filter(|part| !part.is_null());
        part.copied().ok_or_else(|| misuse(format!("rank {rank} has nothing of the array")))
    }

    /// Where an element is, the nearest of its copies or each of them.
    fn places(&self, index: [i64; N], all: bool) -> Result<Vec<GlobalPtr<T>>> {
        let owners = self.mapping.owners(&index)?;
        let (me, nearest) = (self.world.rank(), owners.first());
        let chosen = if owners.contains(me) { Some(me) } else { nearest };
        let ranks: Vec<Rank> = if all { owners.ranks().collect() } else { chosen.into_iter().collect() };
        let place = |rank: Rank| {
            let place = self.mapping.part(rank).place(&index);
            Ok(self.part(rank)? + place.ok_or_else(|| misuse("an element that its owner has not"))?)
        };
        ranks.into_iter().map(place).collect()
    }

    /// Reads an element.
    pub fn get(&self, index: [i64; N]) -> Result<T> {
        match self.world.note(self.places(index, false))?.first() {
            Some(place) => self.world.get(*place),
            None => self.world.note(Err(misuse(format!("nobody has element {index:?}")))),
        }
    }

    /// Writes an element. It is there when this returns.
    pub fn put(&self, index: [i64; N], value: T) -> Result<()> {
        self.world
            .note(self.places(index, true))?
            .into_iter()
            .try_for_each(|place| self.world.put(place, value))
    }

    fn section(&self, subscripts: &[Sub]) -> Result<Section> {
        self.world.note(self.mapping.section(subscripts))
    }

    /// Reads the elements of a section, in C's order.
    pub fn get_section(&self, subscripts: &[Sub]) -> Result<Vec<T>> {
        let section = self.section(subscripts)?;
        let mut values = vec![T::zeroed(); section.len() as usize];
        for Reach { rank, there, here } in
            self.world.note(Reach::dense(self.world.rank(), self.mapping, &section, false))?
        {
            let from = self.world.note(self.part(rank))? + there.start;
            self.world.get_shape(from, &there.shape()?, &mut values[here.start..], &here.shape()?)?;
        }
        Ok(values)
    }

    /// Writes the elements of a section, given in C's order. They are there when this returns.
    pub fn put_section(&self, subscripts: &[Sub], values: &[T]) -> Result<()> {
        let section = self.section(subscripts)?;
        if section.len() != values.len() as u64 {
            let (given, wanted) = (values.len(), section.len());
            return self.world.note(Err(misuse(format!("{given} elements for a section of {wanted}"))));
        }
        for Reach { rank, there, here } in
            self.world.note(Reach::dense(self.world.rank(), self.mapping, &section, true))?
        {
            let to = self.world.note(self.part(rank))? + there.start;
            self.world.put_shape(to, &there.shape()?, &values[here.start..], &here.shape()?)?;
        }
        Ok(())
    }
}
