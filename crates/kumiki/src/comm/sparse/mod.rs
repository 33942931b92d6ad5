//! Sparse exchange: each rank knows to whom it sends, and nobody from whom he receives.
//!
//! | file | what |
//! |---|---|
//! | `area.rs` | where the others leave what they send to a rank |
//! | `outgoing.rs` | what waits to be sent |
//! | `arrivals.rs` | what came, in the order of who sent it |
//!
//! Each rank has an area of fixed size. Whoever sends takes room in it and writes there: on the node by itself, from another node with one
//! message. Then all meet, once, and each finds in its own area what came for it. What found no room waits where it is for another
//! *round* of the same exchange: when all meet, they learn whether anybody needs one. So nobody says to anybody how much he will send.

mod area;
mod arrivals;
mod outgoing;

pub(super) use area::serve;
pub use arrivals::{Arrivals, ArrivalsIter};

use super::collective::retired::{self, Retired};
use super::collective::{hash, mix};
use super::{Group, Max};
use crate::data::SharedArray;
use crate::{Error, Pod, Purpose, Rank, Result, World};
use area::{Layout, Mail};
use arrivals::Inbox;
use kumiki_mem::Booking;
use outgoing::{booked_bytes, Outgoing, Way};
use std::collections::BTreeMap;

/// How a sparse exchange is made: the argument of [`World::sparse_exchange`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct SparseOptions {
    room: usize,
}

impl Default for SparseOptions {
    fn default() -> SparseOptions {
        SparseOptions { room: 1024 }
    }
}

impl SparseOptions {
    /// Elements that each rank has room for at a time: 1024 if nothing is said. If more come they come in several rounds, which takes
    /// longer. Each rank has twice as much memory for it in its heap.
    pub const fn room(mut self, elements: usize) -> SparseOptions {
        self.room = elements;
        self
    }
}

/// Elements that go from any ranks to any ranks, where only those who send know who receives: from [`World::sparse_exchange`].
///
/// Each rank sends what it has to send, and all [finish](Self::finish) together: then each has what was sent to it, in the order of those
/// who sent it, and of each in the order in which it was sent. There is one meeting of all ranks, and no message to a rank that is sent
/// nothing.
///
/// ```
/// use kumiki::comm::SparseOptions;
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let (me, ranks) = (world.rank(), world.ranks());
/// let mut exchange = world.sparse_exchange::<[f64; 3]>(SparseOptions::default().room(100))?;
/// for step in 0..10 {
///     // Particles that leave this rank.
///     exchange.push((me + 1) % ranks, [0.5, f64::from(me), f64::from(step)])?;
///     exchange.send(me, &[[1.5, f64::from(me), 0.0]; 3])?;
///     for (source, particles) in exchange.finish()? {
///         assert!(particles.iter().all(|particle| particle[1] == f64::from(source)));
///     }
/// }
/// exchange.free()?;
/// # world.finalize()
/// # }
/// ```
///
/// **Memory.** The area of a rank is of fixed size, and [`SparseOptions::room`] says what it holds. What finds no room waits with the rank
/// that sends it and comes in another round; all ranks go through as many rounds as the one that needs most. `finish` keeps everything
/// that came, and `send` what waits, in memory that is booked as [`Purpose::Comm`]; where there is not so much, they fail with
/// [`OutOfMemory`](Error::OutOfMemory). [`run`](Self::run) keeps nothing: however much is sent, it takes no more than what was booked when
/// the exchange was made, and a few bytes for each piece that comes in a round beyond one from each rank.
///
/// **Errors.** When a rank is lost, leaves, or gets an error of its own, the exchange is broken: every rank gets an error, now or with its
/// next call. What has come by then is dropped. If a rank panics in [`run`](Self::run), or drops the exchange while it unwinds, and goes on
/// all the same, ranks of other nodes are told with its next call of the exchange; if it has none any more, when its process ends.
pub struct SparseExchange<'w, T: Pod> {
    world: &'w World,
    /// Where all meet. Gone when the exchange has been freed.
    group: Option<Group<'w>>,
    /// The areas, until the own one is given back; and what is booked for them here.
    areas: Option<(SharedArray<u64>, Booking)>,
    layout: Layout,
    number: u64,
    round: u64,
    outgoing: Outgoing<T>,
    inbox: Inbox<T>,
    /// Why nothing more can be sent.
    failed: Option<Error>,
}

impl<T: Pod> std::fmt::Debug for SparseExchange<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, bytes) = (std::any::type_name::<T>(), self.area_bytes());
        write!(f, "SparseExchange<{name}>({bytes} bytes on each rank, round {})", self.round)
    }
}

impl World {
    /// Makes a sparse exchange among all ranks. Collective: all ranks call it, with the same type and options; if they do not, or if a
    /// rank has no memory for it, every rank gets an error. See [`SparseExchange`].
    pub fn sparse_exchange<T: Pod>(&self, options: SparseOptions) -> Result<SparseExchange<'_, T>> {
        let group = self.group()?;
        // Whatever is wrong here, the others must learn it.
        let prepared = prepare::<T>(self, options);
        let (layout, booked) = match agree::<T>(&group, options, prepared) {
            Ok(agreed) => agreed,
            Err(error) => {
                // Whoever just left might do so before another one has heard what all have said.
                let _ = group.free();
                return self.note(Err(error));
            }
        };
        let areas = self.shared_array::<u64>((layout.bytes() / 8) as usize)?;
        let number = mix(group.number(), hash("sparse exchange")).max(1);
        let area = areas.own().address();
        let mut exchange = SparseExchange {
            world: self,
            group: Some(group),
            areas: Some((areas, booked)),
            layout,
            number,
            round: 0,
            outgoing: Outgoing::new(),
            inbox: Inbox::new(options.room, self.ranks()),
            failed: None,
        };
        // From here on others may have it and use it: if this rank has not, it leaves it.
        let made = area::prepare(self.local(), area, &layout, number);
        let met = made.and_then(|()| exchange.group()?.barrier());
        exchange.settle(met)?;
        Ok(exchange)
    }
}

/// What this rank needs beside its area.
fn prepare<T: Pod>(world: &World, options: SparseOptions) -> Result<(Layout, Booking)> {
    let Some(layout) = Layout::new(size_of::<T>(), options.room, most_near(world)) else {
        let (room, bytes) = (options.room, size_of::<T>());
        return Err(Error::Misuse(format!(
            "a sparse exchange with room for {room} elements, each of {bytes} bytes; from 1 to 2^32 elements of 1 byte to 8 MiB, and \
             less than 1 TiB, can be had"
        )));
    };
    let private = booked_bytes::<T>()
        + Inbox::<T>::bytes(options.room, world.ranks())
        + size_of::<SparseExchange<'_, T>>() as u64;
    world.book(Purpose::Comm, private).map(|booked| (layout, booked))
}

/// Whether all ranks are ready, and want the same.
fn agree<T: Pod>(
    group: &Group<'_>,
    options: SparseOptions,
    prepared: Result<(Layout, Booking)>,
) -> Result<(Layout, Booking)> {
    let mark = mix(hash(std::any::type_name::<T>()), mix(size_of::<T>() as u64, options.room as u64));
    let mut seen = [u64::from(prepared.is_err()), mark, !mark];
    group.allreduce(&mut seen, Max)?;
    let prepared = prepared?;
    match seen {
        [0, largest, least] if largest == mark && least == !mark => Ok(prepared),
        [0, ..] => Err(Error::Misuse(
            "a sparse exchange: ranks came with different types of elements, or different options".into(),
        )),
        _ => {
            let why = "another rank could not make the sparse exchange; its own error says why";
            Err(Error::Refused(why.into()))
        }
    }
}

/// The most ranks that a node has.
fn most_near(world: &World) -> u32 {
    let mut counts = BTreeMap::<Option<u32>, u32>::new();
    (0..world.ranks()).for_each(|rank| *counts.entry(world.node_of(rank)).or_default() += 1);
    counts.into_values().max().unwrap_or(1)
}

impl<'w, T: Pod> SparseExchange<'w, T> {
    /// Bytes of the area of each rank, in its heap.
    pub fn area_bytes(&self) -> usize {
        self.layout.bytes() as usize
    }

    /// Rounds that there were, since the exchange was made: one for each [`finish`](Self::finish), and one more whenever a rank had more to
    /// send than another has room for.
    pub fn rounds(&self) -> u64 {
        self.round
    }

    /// Sends an element to a rank, which may be this one. Elements that are sent one by one travel together.
    #[inline]
    pub fn push(&mut self, to: Rank, element: T) -> Result<()> {
        self.check(to)?;
        let added = self.outgoing.add(self.world, to, std::slice::from_ref(&element));
        self.settle(added)?;
        match self.outgoing.is_enough() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Sends elements to a rank, which may be this one.
    pub fn send(&mut self, to: Rank, elements: &[T]) -> Result<()> {
        self.check(to)?;
        let sent = self.try_send(to, elements);
        self.settle(sent)
    }

    fn try_send(&mut self, to: Rank, elements: &[T]) -> Result<()> {
        let way = self.way()?;
        let left = match way.is_near(to) && !self.outgoing.has_for(to) {
            true => way.leave(to, elements)?,
            false => 0,
        };
        if left < elements.len() {
            self.outgoing.add(self.world, to, &elements[left..])?;
        }
        match self.outgoing.is_enough() {
            true => self.try_flush(),
            false => Ok(()),
        }
    }

    /// Waits until everything that all ranks have sent has come, and gives what came to this one. Collective.
    pub fn finish(&mut self) -> Result<Arrivals<'_, T>> {
        self.check_whole()?;
        self.inbox.clear();
        loop {
            let is_last = self.end_round(false)?;
            if is_last {
                break;
            }
        }
        let sorted = self.inbox.sort(self.world);
        self.settle(sorted)?;
        Ok(self.inbox.arrivals())
    }

    /// What came with the last [`finish`](Self::finish).
    pub fn arrivals(&self) -> Arrivals<'_, T> {
        self.inbox.arrivals()
    }

    /// Sends everything that an iterator gives, and takes what comes, as it comes: in each round, of each rank that sent something.
    /// Collective. Whatever was [sent](Self::send) before goes with it.
    ///
    /// However much it is, no more memory is needed than what the exchange has: the iterator is asked for as much as there is room for, and
    /// what has come is given away before more comes. If the iterator names a rank that is not there, or it or the closure panics, the
    /// exchange is broken: nobody else can know that this rank does not go on.
    ///
    /// ```
    /// use kumiki::comm::SparseOptions;
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let mut exchange = world.sparse_exchange::<u64>(SparseOptions::default().room(64))?;
    /// let ranks = world.ranks();
    /// let mut sum = 0;
    /// exchange.run((0..1000).map(|number| (number as u32 % ranks, number)), |_, numbers| {
    ///     sum += numbers.iter().sum::<u64>();
    /// })?;
    /// # if ranks == 1 {
    /// assert_eq!(sum, 499_500);
    /// # }
    /// exchange.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn run(
        &mut self,
        outgoing: impl IntoIterator<Item = (Rank, T)>,
        arrive: impl FnMut(Rank, &[T]),
    ) -> Result<()> {
        self.check_whole()?;
        let mut guard = Running { exchange: self, is_over: false };
        let done = guard.exchange.run_rounds(outgoing, arrive);
        guard.is_over = true;
        done
    }

    fn run_rounds(
        &mut self,
        outgoing: impl IntoIterator<Item = (Rank, T)>,
        mut arrive: impl FnMut(Rank, &[T]),
    ) -> Result<()> {
        let mut outgoing = outgoing.into_iter();
        loop {
            let has_more = self.gather(&mut outgoing)?;
            self.inbox.clear();
            let is_last = self.end_round(has_more)?;
            self.inbox.arrivals().into_iter().for_each(|(source, elements)| arrive(source, elements));
            if is_last {
                self.inbox.clear();
                return Ok(());
            }
        }
    }

    /// Sends what an iterator gives, as long as there is room for it. Whether it may give more.
    fn gather(&mut self, outgoing: &mut impl Iterator<Item = (Rank, T)>) -> Result<bool> {
        loop {
            if self.outgoing.is_enough() {
                self.flush()?;
                // Whoever has no room keeps up the others until the next round, so that what waits does not grow.
                if !self.outgoing.is_empty() {
                    return Ok(true);
                }
            }
            let Some((to, element)) = outgoing.next() else { return Ok(false) };
            // Nobody else can know that this rank does not go on.
            let added = self.check(to).and_then(|()| self.outgoing.add(self.world, to, &[element]));
            self.settle(added)?;
        }
    }

    /// Waits until all ranks have come here, and gives the exchange back. Collective. What was sent and not finished is dropped.
    pub fn free(mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        // A slower rank may still send something.
        group.barrier()?;
        self.part();
        // When all have met they have parted, too.
        group.free()
    }

    /// Sends what there is room for, meets the others, and takes what came. Whether nobody needs another round.
    fn end_round(&mut self, has_more: bool) -> Result<bool> {
        let ended = self.try_end_round(has_more);
        self.settle(ended)
    }

    fn try_end_round(&mut self, has_more: bool) -> Result<bool> {
        self.try_flush()?;
        let mut needs_more = [u64::from(has_more || !self.outgoing.is_empty())];
        self.group()?.allreduce(&mut needs_more, Max)?;
        let (world, layout, area) = (self.world, self.layout, self.own_area()?);
        let mail = Mail::open(world.local(), area, layout, self.round)?;
        self.inbox.take(world, mail)?;
        mail.empty()?;
        self.round += 1;
        area::enter(world.local(), area, self.round)?;
        self.outgoing.renew();
        Ok(needs_more == [0])
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.try_flush();
        self.settle(flushed)
    }

    fn try_flush(&mut self) -> Result<()> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let Some((areas, _)) = &self.areas else { return Err(ended()) };
        let SparseExchange { world, layout, number, round, .. } = *self;
        self.outgoing.flush(Way { world, areas, layout, number, round })
    }

    fn way(&self) -> Result<Way<'_>> {
        let Some((areas, _)) = &self.areas else { return Err(ended()) };
        let SparseExchange { world, layout, number, round, .. } = *self;
        Ok(Way { world, areas, layout, number, round })
    }

    fn group(&self) -> Result<&Group<'w>> {
        self.group.as_ref().ok_or_else(ended)
    }

    fn own_area(&self) -> Result<crate::GlobalAddress> {
        self.areas.as_ref().map(|(areas, _)| areas.own().address()).ok_or_else(ended)
    }

    /// Fails if the exchange is broken, or if there is no such rank.
    #[inline]
    fn check(&self, to: Rank) -> Result<()> {
        match to < self.world.ranks() && self.failed.is_none() {
            true => Ok(()),
            false => self.refuse(to),
        }
    }

    #[cold]
    fn refuse(&self, to: Rank) -> Result<()> {
        self.check_whole()?;
        let ranks = self.world.ranks();
        self.world
            .note(Err(Error::Misuse(format!("a sparse exchange with rank {to}: there are {ranks} ranks"))))
    }

    fn check_whole(&self) -> Result<()> {
        let Some(error) = &self.failed else { return Ok(()) };
        // Somebody may not have been told.
        let _ = self.group.as_ref().map(|group| group.fail(error.clone()));
        self.world.note(Err(error.clone()))
    }

    /// Breaks the exchange, for all ranks, if something has failed.
    fn settle<R>(&mut self, result: Result<R>) -> Result<R> {
        let error = match result {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let error = self.group.as_ref().map_or(error.clone(), |group| group.fail(error));
        self.failed = Some(error.clone());
        self.inbox.clear();
        self.world.note(Err(error))
    }

    /// Says to the ranks of this node that this one will never touch their areas again.
    fn part(&mut self) {
        let Some((areas, booked)) = self.areas.take() else { return };
        let (local, me) = (self.world.local(), self.world.rank());
        let near = (0..).zip(self.world.node_ranks());
        let (own, guests): (Vec<(u32, Rank)>, Vec<_>) = near.partition(|(_, rank)| *rank == me);
        let index = own.first().map_or(0, |(index, _)| *index);
        for area in guests.iter().map(|(_, rank)| areas.ptr(*rank).address()) {
            if area::is_made(local, area, self.number) {
                let _ = retired::part(local, area, self.layout.guests() + u64::from(index));
            }
        }
        let block = areas.into_own();
        let _ = area::close(local, block.address());
        let at = self.layout.guests();
        let guests = guests.into_iter().map(|(index, rank)| (at + u64::from(index), rank)).collect();
        self.world.retire(Retired { block, room: None, guests, booked });
    }
}

fn ended() -> Error {
    Error::Closed("the sparse exchange has ended".into())
}

impl<T: Pod> Drop for SparseExchange<'_, T> {
    fn drop(&mut self) {
        // A forked child has no part in it, and what a closed world had of it is gone.
        if self.world.local().check_alive(self.world.rank()).is_ok() {
            // Whoever finds the area closed has heard who has left.
            drop(self.group.take());
            self.part();
        }
    }
}

/// An exchange in the middle of a [run](SparseExchange::run): if the program panics in it, the others must know.
struct Running<'a, 'w, T: Pod> {
    exchange: &'a mut SparseExchange<'w, T>,
    is_over: bool,
}

impl<T: Pod> Drop for Running<'_, '_, T> {
    fn drop(&mut self) {
        // A forked child has no part in it.
        let world = self.exchange.world;
        if self.is_over || world.local().check_alive(world.rank()).is_err() {
            return;
        }
        let error = Error::Refused("the program panicked in the middle of a sparse exchange".into());
        self.exchange.group.iter().for_each(|group| group.abandon(error.clone()));
        self.exchange.failed.get_or_insert(error);
    }
}
