//! What waits to be sent: elements that were gathered for their destinations, or that found no room.

use super::area::{self, Layout, Letter};
use crate::comm::{COMM, SPARSE};
use crate::data::SharedArray;
use crate::{Error, Pod, Purpose, Rank, Result, World};
use kumiki_mem::{Booking, Call};
use std::collections::BTreeMap;

/// Bytes that are gathered before they are sent.
pub(super) const GATHERED_BYTES: usize = 32 << 10;
/// What waits is booked twice: while it is sent to another node, it is in the message, too.
pub(super) const fn booked_bytes<T>() -> u64 {
    let element = size_of::<T>();
    2 * (if element > GATHERED_BYTES { element } else { GATHERED_BYTES }) as u64
}

/// Bytes of a message to another node, if one element is not longer.
const MESSAGE_BYTES: usize = 32 << 10;
/// Messages under way at a time, to as many ranks.
const MOST_UNDERWAY: usize = 8;

/// Where elements go: all areas, and the round.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) world: &'a World,
    pub(super) areas: &'a SharedArray<u64>,
    pub(super) layout: Layout,
    pub(super) number: u64,
    pub(super) round: u64,
}

impl Way<'_> {
    fn letter<'e, T: Pod>(&self, elements: &'e [T]) -> Letter<'e> {
        let elements = bytemuck::cast_slice(elements);
        Letter { number: self.number, round: self.round, source: self.world.rank(), elements }
    }

    pub(super) fn is_near(&self, to: Rank) -> bool {
        self.world.local().is_near(to)
    }

    /// Leaves elements at a rank of this node: how many there was room for.
    pub(super) fn leave<T: Pod>(&self, to: Rank, elements: &[T]) -> Result<usize> {
        let area = self.areas.ptr(to).address();
        let left = area::leave(self.world.local(), area, &self.layout, self.letter(elements));
        left.map(|count| count as usize)
    }

    /// Begins to leave elements at a rank of another node: how many of them are under way.
    fn start<T: Pod>(&self, to: Rank, elements: &[T]) -> Result<(Call<'_>, usize)> {
        let count = elements.len().min((MESSAGE_BYTES / size_of::<T>()).max(1));
        let area = self.areas.ptr(to).address();
        let request = self.letter(&elements[..count]).request(SPARSE, area);
        Ok((self.world.start_call(to, COMM, request)?, count))
    }
}

/// Elements for one rank.
struct Heap<T> {
    elements: Vec<T>,
    /// So many of them have been sent.
    sent: usize,
    /// Whether the rank has no room for more in this round.
    is_full: bool,
}

/// Everything that waits.
pub(super) struct Outgoing<T> {
    heaps: BTreeMap<Rank, Heap<T>>,
    /// Elements in all.
    count: usize,
    /// When there are as many, they are sent.
    enough: usize,
    /// For more than what is booked with the exchange.
    booked: Vec<Booking>,
    booked_bytes: u64,
}

impl<T: Pod> Outgoing<T> {
    pub(super) fn new() -> Outgoing<T> {
        let (heaps, booked) = Default::default();
        Outgoing { heaps, count: 0, enough: few::<T>(), booked, booked_bytes: booked_bytes::<T>() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether something waits for a rank: what comes later waits behind it.
    pub(super) fn has_for(&self, to: Rank) -> bool {
        self.heaps.get(&to).is_some_and(|heap| !heap.waiting().is_empty())
    }

    /// Whether it is time to send.
    pub(super) fn is_enough(&self) -> bool {
        self.count >= self.enough
    }

    /// Lets elements wait.
    pub(super) fn add(&mut self, world: &World, to: Rank, elements: &[T]) -> Result<()> {
        let bytes = 2 * size_of::<T>() as u64 * (self.count + elements.len()) as u64;
        if bytes > self.booked_bytes {
            // By and by more at a time, as vectors grow.
            let more = (bytes - self.booked_bytes).max(self.booked_bytes);
            self.booked.push(world.book(Purpose::Comm, more)?);
            self.booked_bytes += more;
        }
        let empty = || Heap { elements: Vec::new(), sent: 0, is_full: false };
        self.heaps.entry(to).or_insert_with(empty).elements.extend_from_slice(elements);
        self.count += elements.len();
        Ok(())
    }

    /// Sends everything that there is room for.
    pub(super) fn flush(&mut self, way: Way<'_>) -> Result<()> {
        let mut far = Vec::new();
        for (&to, heap) in &mut self.heaps {
            if heap.waiting().is_empty() || heap.is_full {
                continue;
            }
            match way.is_near(to) {
                true => {
                    let (count, asked) = (way.leave(to, heap.waiting())?, heap.waiting().len());
                    self.count -= heap.count(count, asked);
                }
                false => far.push(to),
            }
        }
        self.flush_far(way, far)?;
        // Those that have no room are not asked for each element.
        self.enough = few::<T>().max(2 * self.count);
        Ok(())
    }

    /// One message to each rank at a time, so that none overtakes another.
    fn flush_far(&mut self, way: Way<'_>, mut ranks: Vec<Rank>) -> Result<()> {
        while !ranks.is_empty() {
            let mut calls = Vec::with_capacity(MOST_UNDERWAY.min(ranks.len()));
            for &to in ranks.iter().take(MOST_UNDERWAY) {
                let Some(heap) = self.heaps.get(&to) else { continue };
                let (call, asked) = way.start(to, heap.waiting())?;
                calls.push((to, call, asked));
            }
            for (to, call, asked) in calls {
                let reply = call.wait()?;
                let count = answer(&reply, asked)?;
                let Some(heap) = self.heaps.get_mut(&to) else { continue };
                self.count -= heap.count(count, asked);
            }
            let heaps = &self.heaps;
            let is_left = |heap: &Heap<T>| !heap.is_full && !heap.waiting().is_empty();
            ranks.retain(|to| heaps.get(to).is_some_and(is_left));
        }
        Ok(())
    }

    /// In the next round there is room again. What was taken for a moment is given back.
    pub(super) fn renew(&mut self) {
        self.heaps.retain(|_, heap| {
            heap.is_full = false;
            !heap.waiting().is_empty()
        });
        self.enough = few::<T>();
        if self.count == 0 {
            self.booked.clear();
            self.booked_bytes = booked_bytes::<T>();
        }
    }
}

impl<T> Heap<T> {
    fn waiting(&self) -> &[T] {
        &self.elements[self.sent..]
    }

    /// So many of those that were asked for are sent: how many.
    fn count(&mut self, count: usize, asked: usize) -> usize {
        self.is_full = count < asked;
        self.sent += count;
        if self.sent == self.elements.len() {
            // Heaps of many ranks are not to keep what each has once needed.
            (self.elements, self.sent) = (Vec::new(), 0);
        } else if self.sent > self.elements.len() / 2 {
            // What is moved is no more than what was sent.
            self.elements.drain(..self.sent);
            self.sent = 0;
        }
        count
    }
}

/// Elements that are gathered before they are sent.
fn few<T>() -> usize {
    (GATHERED_BYTES / size_of::<T>()).max(1)
}

/// How many elements the owner of an area has taken.
fn answer(reply: &[u8], asked: usize) -> Result<usize> {
    let count = reply.try_into().map(u64::from_le_bytes).ok().and_then(|count| usize::try_from(count).ok());
    count
        .filter(|count| *count <= asked)
        .ok_or_else(|| Error::Refused("a rank says that it took more than it was sent".into()))
}
