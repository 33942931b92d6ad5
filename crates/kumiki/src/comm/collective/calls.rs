//! The collectives, as programs call them.

use super::direct::Circle;
use super::lanes::differs;
use super::operation::{merge, Operation, Reduction};
use super::rooms::{goes_in_rooms, Rooms};
use super::Algorithm::{self, Direct, Doubling, Flat, Halving, Levels, Ring, Tree};
use super::{mix, Group, Talk, LONG_BYTES};
use crate::{Error, Pod, Purpose, Rank, Result};
use kumiki_mem::Booking;
use std::ops::Range;

/// What is shorter for each member goes together with that for others.
const SHORT_BYTES: usize = 512;

impl<'w> Group<'w> {
    /// Waits until all members have come here. What they wrote before is seen behind it.
    pub fn barrier(&self) -> Result<()> {
        let _turn = self.enter()?;
        let algorithm = self.choose(&[Flat, Levels, Doubling], 0);
        // The team has levels of its own, whatever the group has.
        let meets = algorithm != Doubling || self.forced_none();
        self.run("barrier", meets.into(), |talk| match meets {
            true if self.looks && self.near.count == self.count => talk.meet(),
            true => talk.meet_in(false),
            false => talk.doubling_barrier(self.all),
        })
    }

    /// Gives the elements of the root to all members, in place. All give the same root and number of elements.
    ///
    /// ```
    /// # use kumiki::prelude::*;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = World::init()?;
    /// # let group = world.group()?;
    /// let mut settings = if group.rank() == 0 { [0.1, 25.0] } else { [0.0; 2] };
    /// group.broadcast(0, &mut settings)?;
    /// assert_eq!(settings, [0.1, 25.0]);
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn broadcast<T: Pod>(&self, root: Rank, data: &mut [T]) -> Result<()> {
        let _turn = self.enter()?;
        let bytes = size_of_val(data);
        // Between nodes all would read from the one that the root is on.
        let candidates: &[Algorithm] = match (bytes >= LONG_BYTES, self.nodes == 1) {
            // Where each has a core, too, all read what is in a room sooner than what is in the memory of one.
            (true, true)
                if goes_in_rooms((self.count.into(), self.looks), self.layout.half, bytes as u64) =>
            {
                &[Flat, Direct, Ring, Tree]
            }
            (true, true) => &[Direct, Flat, Ring, Tree],
            (true, false) => &[Levels, Tree, Ring, Direct],
            (false, _) => &[Flat, Levels, Tree, Ring, Direct],
        };
        let choice = self.pick(("broadcast", true, Some(bytes)), candidates, 1)?;
        let algorithm = choice.algorithm;
        let mark = self.mark::<T>(algorithm, &[root.into(), bytes as u64]);
        let data = bytemuck::cast_slice_mut(data);
        let broadcast = |talk: &mut Talk<'_, 'w>| {
            self.check_root(root)?;
            match algorithm {
                Flat => talk.show_all(root as usize, data),
                Levels => talk.levels_broadcast(root, data),
                Direct => talk.direct_broadcast(talk.circle(), root as usize, data),
                Ring => talk.ring_broadcast(self.all, root, data),
                _ => talk.tree_broadcast(self.all, root, data),
            }
        };
        self.timed(choice, || self.run("broadcast", mark, broadcast))
    }

    /// Combines the elements of all members, one by one, into those of the root; the others keep theirs.
    pub fn reduce<T: Pod>(&self, root: Rank, data: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let merge = |into: &mut [u8], others: &[u8], first: bool| merge::<T>(&operation, into, others, first);
        self.reduce_by(root, bytemuck::cast_slice_mut(data), Reduction::of::<T, _>(&operation, &merge))
    }

    pub(crate) fn reduce_by(&self, root: Rank, data: &mut [u8], reduction: Reduction<'_>) -> Result<()> {
        let _turn = self.enter()?;
        let bytes = data.len();
        let candidates: &[Algorithm] = match (reduction.commutes, bytes >= LONG_BYTES) {
            (true, true) => &[Direct, Flat, Levels, Tree],
            (false, true) => &[Direct, Flat, Tree],
            (true, false) => &[Flat, Levels, Tree, Direct],
            (false, false) => &[Flat, Tree, Direct],
        };
        let algorithm = self.choose(candidates, reduction.element);
        let arguments = [root.into(), bytes as u64, reduction.mark];
        let mark = self.mark_of(reduction.element, algorithm, &arguments);
        self.run("reduce", mark, |talk| {
            self.check_root(root)?;
            match algorithm {
                Flat => talk.show_merged(data, reduction, if self.me == root { self.count() } else { 0 }),
                Levels => talk.levels_reduce(root, data, reduction),
                Direct => talk.direct_reduce(talk.circle(), root as usize, data, reduction),
                _ => talk.tree_reduce(self.all, root, data, reduction),
            }
        })
    }

    /// Combines the elements of all members, one by one, on all of them, in place. The result is the same on all to the last bit.
    ///
    /// ```
    /// use kumiki::comm::{Located, MinAt};
    /// # use kumiki::prelude::*;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = World::init()?;
    /// # let group = world.group()?;
    /// // Who has the smallest?
    /// let mut smallest = [Located::new((f64::from(group.rank()) - 1.0).abs(), group.rank().into())];
    /// group.allreduce(&mut smallest, MinAt)?;
    /// assert_eq!(smallest[0].place(), u64::from(group.ranks() > 1));
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn allreduce<T: Pod>(&self, data: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let merge = |into: &mut [u8], others: &[u8], first: bool| merge::<T>(&operation, into, others, first);
        self.allreduce_by(None, bytemuck::cast_slice_mut(data), Reduction::of::<T, _>(&operation, &merge))
    }

    /// As [`allreduce`](Self::allreduce), but the elements of this member stay as they are, and what comes of it goes elsewhere. What goes straight to other nodes is not copied
    /// for that.
    ///
    /// ```
    /// use kumiki::comm::Sum;
    /// # use kumiki::prelude::*;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = World::init()?;
    /// # let group = world.group()?;
    /// let (mine, mut all) = ([1.0, f64::from(group.rank())], [0.0; 2]);
    /// group.allreduce_into(&mine, &mut all, Sum)?;
    /// assert_eq!(all[0], f64::from(group.ranks()));
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn allreduce_into<T: Pod>(
        &self,
        data: &[T],
        into: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let merge = |into: &mut [u8], others: &[u8], first: bool| merge::<T>(&operation, into, others, first);
        let (data, into) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(into));
        self.allreduce_by(Some(data), into, Reduction::of::<T, _>(&operation, &merge))
    }

    pub(crate) fn allreduce_by(
        &self,
        given: Option<&[u8]>,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let _turn = self.enter()?;
        let bytes = data.len();
        let candidates: &[Algorithm] = match (reduction.commutes, bytes >= LONG_BYTES) {
            (true, true) => &[Direct, Levels, Flat, Halving, Ring, Doubling, Tree],
            (true, false) => &[Flat, Levels, Doubling, Halving, Ring, Direct, Tree],
            (false, true) => &[Direct, Flat, Tree],
            (false, false) => &[Flat, Tree, Direct],
        };
        let class = ("allreduce", reduction.commutes, Some(bytes));
        let choice = self.pick(class, candidates, reduction.element)?;
        let algorithm = choice.algorithm;
        let mark = self.mark_of(reduction.element, algorithm, &[bytes as u64, reduction.mark]);
        let allreduce = |talk: &mut Talk<'_, 'w>| {
            if let Some(given) = given {
                fits("into", data.len(), given.len())?;
                if algorithm == Direct {
                    return talk.direct_allreduce(talk.circle(), Some(given), data, reduction);
                }
                data.copy_from_slice(given);
            }
            match algorithm {
                Flat => talk.show_all_merged(data, reduction),
                Levels => talk.levels_allreduce(data, reduction),
                Doubling => talk.doubling_allreduce(self.all, data, reduction),
                Halving => talk.halving_allreduce(self.all, data, reduction),
                Direct => talk.direct_allreduce(talk.circle(), None, data, reduction),
                Ring => talk.ring_allreduce(self.all, data, reduction),
                _ => {
                    talk.tree_reduce(self.all, 0, data, reduction)?;
                    talk.tree_broadcast(self.all, 0, data)
                }
            }
        };
        self.timed(choice, || self.run("allreduce", mark, allreduce))
    }

    /// Brings as many elements of each member to the root, in the order of the members. `into` counts on the root only.
    pub fn gather<T: Pod>(&self, root: Rank, data: &[T], into: &mut [T]) -> Result<()> {
        let _turn = self.enter()?;
        let algorithm = self.choose(rooted(size_of_val(data) * self.count()), 1);
        let mark = self.mark::<T>(algorithm, &[root.into(), data.len() as u64]);
        let counts = vec![data.len(); if self.me == root { self.count() } else { 0 }];
        self.run("gather", mark, |talk| talk.gather(algorithm, root, data, &counts, into))
    }

    /// As [`gather`](Self::gather), with a number of elements of its own for each member. `counts` and `into` count on the root
    /// only.
    pub fn gatherv<T: Pod>(&self, root: Rank, data: &[T], counts: &[usize], into: &mut [T]) -> Result<()> {
        let _turn = self.enter()?;
        // Not all know how much it is.
        let algorithm = self.choose(rooted(0), 1);
        let mark = self.mark::<T>(algorithm, &[root.into()]);
        self.run("gatherv", mark, |talk| talk.gather(algorithm, root, data, counts, into))
    }

    /// Gives as many elements of the root to each member, in the order of the members. `data` counts on the root only.
    ///
    /// ```
    /// # use kumiki::prelude::*;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = World::init()?;
    /// # let group = world.group()?;
    /// let (me, ranks) = (group.rank(), group.ranks());
    /// let all: Vec<u32> = if me == 0 { (0..2 * ranks).collect() } else { Vec::new() };
    /// let mut part = [0; 2];
    /// group.scatter(0, &all, &mut part)?;
    /// assert_eq!(part, [2 * me, 2 * me + 1]);
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn scatter<T: Pod>(&self, root: Rank, data: &[T], into: &mut [T]) -> Result<()> {
        let _turn = self.enter()?;
        let algorithm = self.choose(rooted(size_of_val(into) * self.count()), 1);
        let mark = self.mark::<T>(algorithm, &[root.into(), into.len() as u64]);
        let counts = vec![into.len(); if self.me == root { self.count() } else { 0 }];
        self.run("scatter", mark, |talk| talk.scatter(algorithm, root, data, &counts, into))
    }

    /// As [`scatter`](Self::scatter), with a number of elements of its own for each member. `data` and `counts` count on the root
    /// only.
    pub fn scatterv<T: Pod>(&self, root: Rank, data: &[T], counts: &[usize], into: &mut [T]) -> Result<()> {
        let _turn = self.enter()?;
        // Not all know how much it is.
        let algorithm = self.choose(rooted(0), 1);
        let mark = self.mark::<T>(algorithm, &[root.into()]);
        self.run("scatterv", mark, |talk| talk.scatter(algorithm, root, data, counts, into))
    }

    /// Brings as many elements of each member to all members, in the order of the members.
    ///
    /// ```
    /// # use kumiki::prelude::*;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = World::init()?;
    /// # let group = world.group()?;
    /// let mut squares = vec![0; group.ranks() as usize];
    /// group.allgather(&[group.rank().pow(2)], &mut squares)?;
    /// assert!(squares.iter().enumerate().all(|(rank, square)| *square as usize == rank.pow(2)));
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn allgather<T: Pod>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        self.allgather_of(Some(data), Counts::Same(data.len(), self.count()), into)
    }

    /// As [`allgather`](Self::allgather), with a number of elements of its own for each member. All give the same counts.
    pub fn allgatherv<T: Pod>(&self, data: &[T], counts: &[usize], into: &mut [T]) -> Result<()> {
        self.allgather_of(Some(data), Counts::Each(counts), into)
    }

    /// As [`allgatherv`](Self::allgatherv), in place: each member has put its own elements where they belong.
    pub fn allgatherv_in_place<T: Pod>(&self, counts: &[usize], data: &mut [T]) -> Result<()> {
        self.allgather_of(None, Counts::Each(counts), data)
    }

    fn allgather_of<T: Pod>(&self, data: Option<&[T]>, counts: Counts<'_>, into: &mut [T]) -> Result<()> {
        let _turn = self.enter()?;
        let bytes = size_of_val(into);
        let candidates = match bytes >= LONG_BYTES {
            true => [Direct, Flat, Ring, Doubling],
            false => [Flat, Doubling, Ring, Direct],
        };
        let choice = self.pick(("allgather", true, Some(bytes)), &candidates, 1)?;
        let algorithm = choice.algorithm;
        let counted = counts.iter().fold(0, |mark, count| mix(mark, count as u64));
        let mark = self.mark::<T>(algorithm, &[bytes as u64, counted]);
        let allgather = |talk: &mut Talk<'_, 'w>| {
            // What all of them show at once is there as soon.
            let is_short = counts.longest().saturating_mul(size_of::<T>()) as u64 <= self.layout.half;
            let rooms = if algorithm == Flat && !is_short { talk.rooms(bytes)? } else { Rooms::Short };
            let is_short = matches!(rooms, Rooms::Short);
            if let (Flat, Counts::Same(one, count), Some(data), true) = (algorithm, counts, data, is_short) {
                fits("memory", into.len(), one.saturating_mul(count))?;
                let part = size_of_val(data);
                let (data, into) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(into));
                return talk.stream(data, into, &|index, _| Ok((0..part, index * part)));
            }
            let counts: Vec<_> = counts.iter().collect();
            let places = self.places::<T>(&counts, into.len())?;
            let own = places[self.me as usize].clone();
            let into = bytemuck::cast_slice_mut(into);
            let given = data.map(bytemuck::cast_slice::<T, u8>);
            if let Some(data) = given {
                fits("data", data.len(), own.len())?;
            }
            let is_read = algorithm == Direct && talk.circle() == Circle::Near;
            if is_read || matches!(rooms, Rooms::None) {
                return talk.near_allgather(given, into, &places);
            }
            if let Some(data) = given {
                into[own.clone()].copy_from_slice(data);
            }
            match algorithm {
                Flat => {
                    let _booked = talk.scratch(if data.is_none() { own.len() } else { 0 })?;
                    let mine = match data {
                        Some(data) => std::borrow::Cow::Borrowed(bytemuck::cast_slice(data)),
                        None => std::borrow::Cow::Owned(into[own].to_vec()),
                    };
                    let wanted = |index: usize, _| Ok((0..places[index].len(), places[index].start));
                    let rooms = if let Rooms::Open(rooms) = &rooms { Some(&rooms[..]) } else { None };
                    talk.stream_through(rooms, &mine, into, &wanted)
                }
                Ring => talk.ring_allgather(self.all, into, &places),
                Direct => talk.direct_allgather(talk.circle(), into, &places),
                _ => talk.doubling_allgather(self.all, into, &places),
            }
        };
        self.timed(choice, || self.run("allgather", mark, allgather))
    }

    /// Gives elements of each member to each: the part of `data` of a number goes to the member of that number, and comes into the part of
    /// `into` of the number of the member that it comes from. All parts have the same length.
    ///
    /// ```
    /// # use kumiki::prelude::*;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = World::init()?;
    /// # let group = world.group()?;
    /// let (me, ranks) = (group.rank(), group.ranks());
    /// // A row of a matrix becomes a column.
    /// let row: Vec<u32> = (0..ranks).map(|column| 100 * me + column).collect();
    /// let mut column = vec![0; row.len()];
    /// group.alltoall(&row, &mut column)?;
    /// assert!((0..ranks).all(|row| column[row as usize] == 100 * row + me));
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn alltoall<T: Pod>(&self, data: &[T], into: &mut [T]) -> Result<()> {
        let _turn = self.enter()?;
        let (bytes, part) = (size_of_val(data), data.len() / self.count());
        // Doubling takes as much memory as there is to send.
        let candidates: &[Algorithm] = match (bytes / self.count() > SHORT_BYTES, self.few_apart()) {
            (true, true) => &[Flat, Ring, Direct],
            (true, false) if bytes >= LONG_BYTES => &[Direct, Flat],
            (true, false) => &[Flat, Direct],
            (false, true) => &[Flat, Doubling, Ring, Direct],
            (false, false) => &[Flat, Doubling, Direct],
        };
        let choice = self.pick(("alltoall", true, Some(bytes)), candidates, 1)?;
        let algorithm = choice.algorithm;
        let mark = self.mark::<T>(algorithm, &[bytes as u64]);
        let alltoall = |talk: &mut Talk<'_, 'w>| {
            fits("data", data.len(), part * self.count())?;
            fits("into", into.len(), data.len())?;
            let (data, into) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(into));
            let part = part * size_of::<T>();
            match algorithm {
                Flat => {
                    let own = self.me as usize * part;
                    talk.stream(data, into, &|index, _| Ok((own..own + part, index * part)))
                }
                Direct if talk.circle() == Circle::Near => talk.near_alltoall(data, into, part),
                Direct => {
                    let parts: Vec<_> =
                        (0..self.count()).map(|index| index * part..(index + 1) * part).collect();
                    talk.direct_alltoall(self.all, data, &parts, into, &parts)
                }
                Ring => talk.ring_alltoall(self.all, data, into),
                _ => talk.doubling_alltoall(self.all, data, into),
            }
        };
        self.timed(choice, || self.run("alltoall", mark, alltoall))
    }

    /// As [`alltoall`](Self::alltoall), with parts of any lengths: so many elements for each member, and so many from each.
    pub fn alltoallv<T: Pod>(
        &self,
        data: &[T],
        out_counts: &[usize],
        into: &mut [T],
        in_counts: &[usize],
    ) -> Result<()> {
        let _turn = self.enter()?;
        let algorithm = self.choose(&[Flat, Direct], 1);
        let mark = self.mark::<T>(algorithm, &[]);
        self.run("alltoallv", mark, |talk| {
            let out = self.places::<T>(out_counts, data.len())?;
            let places = self.places::<T>(in_counts, into.len())?;
            let (data, into) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(into));
            match algorithm {
                Flat => talk.flat_alltoallv(data, &out, into, &places),
                _ => talk.direct_alltoall(self.all, data, &out, into, &places),
            }
        })
    }

    /// Combines the elements of the members up to each one, in place: the last member has what [`allreduce`](Self::allreduce) gives.
    ///
    /// ```
    /// use kumiki::comm::Sum;
    /// # use kumiki::prelude::*;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = World::init()?;
    /// # let group = world.group()?;
    /// // Where do the lines of this rank begin?
    /// let lines = 10 + u64::from(group.rank());
    /// let mut end = [lines];
    /// group.scan(&mut end, Sum)?;
    /// let begin = end[0] - lines;
    /// assert!(group.rank() > 0 || begin == 0);
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn scan<T: Pod>(&self, data: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let merge = |into: &mut [u8], others: &[u8], first: bool| merge::<T>(&operation, into, others, first);
        self.scan_by(bytemuck::cast_slice_mut(data), Reduction::of::<T, _>(&operation, &merge), false)
    }

    /// Combines the elements of the members before each one, in place. The first member keeps what it has.
    pub fn exscan<T: Pod>(&self, data: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let merge = |into: &mut [u8], others: &[u8], first: bool| merge::<T>(&operation, into, others, first);
        self.scan_by(bytemuck::cast_slice_mut(data), Reduction::of::<T, _>(&operation, &merge), true)
    }

    /// A scan, which leaves out each member's own elements or does not.
    pub(crate) fn scan_by(&self, data: &mut [u8], reduction: Reduction<'_>, excludes: bool) -> Result<()> {
        let _turn = self.enter()?;
        let algorithm = self.choose(&[Flat, Doubling], reduction.element);
        let mark = self.mark_of(reduction.element, algorithm, &[data.len() as u64, reduction.mark]);
        self.run(if excludes { "exscan" } else { "scan" }, mark, |talk| match algorithm {
            Flat => talk.show_merged(data, reduction, self.me as usize + usize::from(!excludes)),
            _ => {
                talk.doubling_scan(self.all, data, reduction)?;
                if excludes {
                    talk.shift(self.all, data)?;
                }
                Ok(())
            }
        })
    }

    /// Combines the elements of all members, and leaves to each its part of the result: so many elements for each member, in their
    /// order. Gives the range of `data` in which this member's part is; the rest of `data` is undefined.
    pub fn reduce_scatter<T: Pod>(
        &self,
        data: &mut [T],
        counts: &[usize],
        operation: impl Operation<T>,
    ) -> Result<Range<usize>> {
        let merge = |into: &mut [u8], others: &[u8], first: bool| merge::<T>(&operation, into, others, first);
        let (len, reduction) = (data.len(), Reduction::of::<T, _>(&operation, &merge));
        self.reduce_scatter_by(bytemuck::cast_slice_mut(data), len, counts, reduction)
    }

    /// The same of so many elements.
    pub(crate) fn reduce_scatter_by(
        &self,
        data: &mut [u8],
        len: usize,
        counts: &[usize],
        reduction: Reduction<'_>,
    ) -> Result<Range<usize>> {
        let _turn = self.enter()?;
        let candidates: &[Algorithm] = match (reduction.commutes, data.len() >= LONG_BYTES) {
            (_, true) => &[Direct, Flat, Tree],
            (true, false) => &[Flat, Ring, Tree, Direct],
            (false, false) => &[Flat, Tree, Direct],
        };
        let algorithm = self.choose(candidates, reduction.element);
        let counted = counts.iter().fold(0, |mark, count| mix(mark, *count as u64));
        let mark = self.mark_of(reduction.element, algorithm, &[counted, reduction.mark]);
        self.run("reduce_scatter", mark, |talk| {
            let places = self.places_of(reduction.element, counts, len)?;
            let own = places[self.me as usize].clone();
            match algorithm {
                Flat => talk.show_merged(data, reduction, self.count())?,
                Ring => talk.ring_reduce_scatter(self.all, data, &places, reduction)?,
                Direct => {
                    let part = talk.direct_combined(talk.circle(), data, &places, reduction)?;
                    data[own.clone()].copy_from_slice(part.bytes());
                }
                _ => {
                    talk.tree_reduce(self.all, 0, data, reduction)?;
                    let _booked = talk.scratch(own.len())?;
                    let mut part = data[own.clone()].to_vec();
                    talk.tree_scatter(self.all, 0, data, &places, &mut part)?;
                    data[own.clone()].copy_from_slice(&part);
                }
            }
            Ok(self.places_of(1, counts, len)?[self.me as usize].clone())
        })
    }

    fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether there are several nodes, and a lane from each member to each.
    fn few_apart(&self) -> bool {
        self.nodes > 1 && self.all.reaches_all()
    }

    pub(super) fn check_root(&self, root: Rank) -> Result<()> {
        match root < self.count {
            true => Ok(()),
            false => Err(Error::Misuse(format!("root {root} of a group of {} members", self.count))),
        }
    }

    /// What must be the same on all members.
    fn mark<T>(&self, algorithm: Algorithm, arguments: &[u64]) -> u64 {
        self.mark_of(size_of::<T>(), algorithm, arguments)
    }

    fn mark_of(&self, element: usize, algorithm: Algorithm, arguments: &[u64]) -> u64 {
        let start = mix(algorithm as u64, element as u64);
        arguments.iter().fold(start, |mark, argument| mix(mark, *argument))
    }

    /// Where the bytes of each member are in memory for this many elements.
    fn places<T>(&self, counts: &[usize], len: usize) -> Result<Places> {
        self.places_of(size_of::<T>(), counts, len)
    }

    fn places_of(&self, size: usize, counts: &[usize], len: usize) -> Result<Places> {
        fits("counts", counts.len(), self.count())?;
        let booked = self.world.book(Purpose::Comm, (counts.len() * size_of::<Range<usize>>()) as u64)?;
        let mut end = 0usize;
        let places = counts.iter().map(|count| {
            let start = end;
            end = end.saturating_add(*count);
            start.saturating_mul(size)..end.saturating_mul(size)
        });
        let places = places.collect();
        fits("memory", len, end)?;
        Ok(Places(places, Some(booked)))
    }
}

/// How many elements each member has.
#[derive(Clone, Copy)]
enum Counts<'a> {
    /// So many, each of so many members.
    Same(usize, usize),
    Each(&'a [usize]),
}

impl Counts<'_> {
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (same, each) = match self {
            Counts::Same(one, count) => (std::iter::repeat_n(*one, *count), &[][..]),
            Counts::Each(counts) => (std::iter::repeat_n(0, 0), *counts),
        };
        same.chain(each.iter().copied())
    }

    fn longest(&self) -> usize {
        match self {
            Counts::Same(one, _) => *one,
            Counts::Each(counts) => counts.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Where the bytes of each member are.
struct Places(Vec<Range<usize>>, #[allow(dead_code, reason = "held while it is used")] Option<Booking>);

impl Places {
    /// For those who need not know.
    const NONE: Places = Places(Vec::new(), None);
}

impl std::ops::Deref for Places {
    type Target = [Range<usize>];

    fn deref(&self) -> &[Range<usize>] {
        &self.0
    }
}

/// What does a gather or a scatter of so many bytes.
fn rooted(bytes: usize) -> &'static [Algorithm] {
    match bytes >= LONG_BYTES {
        true => &[Direct, Flat, Tree],
        false => &[Flat, Tree, Direct],
    }
}

fn fits(what: &str, len: usize, wanted: usize) -> Result<()> {
    match len == wanted {
        true => Ok(()),
        false => Err(Error::Misuse(format!("{what}: {len} elements where there must be {wanted}"))),
    }
}

/// Where the part of each begins, and where the last ends, as words that can be shown.
fn starts(places: &[Range<usize>]) -> Vec<u64> {
    let ends = places.iter().map(|place| place.end as u64);
    std::iter::once(0).chain(ends).collect()
}

impl Talk<'_, '_> {
    fn gather<T: Pod>(
        &mut self,
        algorithm: Algorithm,
        root: Rank,
        data: &[T],
        counts: &[usize],
        into: &mut [T],
    ) -> Result<()> {
        let group = self.group;
        group.check_root(root)?;
        let is_root = group.me == root;
        let places = if is_root { group.places::<T>(counts, into.len())? } else { Places::NONE };
        let (data, into) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(into));
        match algorithm {
            Flat => self.stream(data, into, &|index, total| match is_root {
                true if places[index].len() != total => {
                    let wanted = places[index].len();
                    Err(differs(format!("member {index} has {total} bytes instead of {wanted}")))
                }
                true => Ok((0..total, places[index].start)),
                false => Ok((0..0, 0)),
            }),
            Direct => self.direct_gather(self.circle(), root as usize, data, into, &places),
            _ => self.tree_gather(group.all, root, data, into, &places),
        }
    }

    fn scatter<T: Pod>(
        &mut self,
        algorithm: Algorithm,
        root: Rank,
        data: &[T],
        counts: &[usize],
        into: &mut [T],
    ) -> Result<()> {
        let group = self.group;
        group.check_root(root)?;
        let is_root = group.me == root;
        let places = if is_root { group.places::<T>(counts, data.len())? } else { Places::NONE };
        let data: &[u8] = if is_root { bytemuck::cast_slice(data) } else { &[] };
        let into = bytemuck::cast_slice_mut(into);
        match algorithm {
            Flat => {}
            Direct => return self.direct_scatter(self.circle(), root as usize, data, &places, into),
            _ => return self.tree_scatter(group.all, root, data, &places, into),
        }
        let table = if is_root { starts(&places) } else { Vec::new() };
        let (me, root) = (group.me as usize, root as usize);
        let mut own = [0u64; 2];
        let wanted = |index: usize, _| Ok(if index == root { (8 * me..8 * me + 16, 0) } else { (0..0, 0) });
        self.stream(bytemuck::cast_slice(&table), bytemuck::cast_slice_mut(&mut own), &wanted)?;
        let range = own[0] as usize..own[1] as usize;
        if range.len() != into.len() {
            return Err(differs(format!("the root has {} bytes instead of {}", range.len(), into.len())));
        }
        self.stream(data, into, &|index, _| Ok(if index == root { (range.clone(), 0) } else { (0..0, 0) }))
    }

    fn flat_alltoallv(
        &mut self,
        data: &[u8],
        out: &[Range<usize>],
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        let me = self.group.me as usize;
        let _booked = self.group.world.book(crate::Purpose::Comm, 24 * out.len() as u64)?;
        let mut starts_here = vec![[0u64; 2]; out.len()];
        let table = starts(out);
        self.stream(
            bytemuck::cast_slice(&table),
            bytemuck::cast_slice_mut(&mut starts_here),
            &|index, _| Ok((8 * me..8 * me + 16, 16 * index)),
        )?;
        self.stream(data, into, &|index, _| {
            let [start, end] = starts_here[index];
            let (bytes, wanted) = ((end.saturating_sub(start)) as usize, places[index].len());
            match bytes == wanted {
                true => Ok((start as usize..end as usize, places[index].start)),
                false => Err(differs(format!("member {index} sends {bytes} bytes instead of {wanted}"))),
            }
        })
    }
}
