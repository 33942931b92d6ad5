//! The queue of events. Events come out by time, and those of one time in the order in which they went in, so a run does not depend on which queue
//! holds them. [`Wheel`] is the fast one: nearly all events of a packet network lie a hop or a packet time ahead. [`Heap`] is the plain one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the engine needs of a queue. Times are picoseconds; an event is a number below 2^[`EVENT_BITS`] that only the engine understands.
pub(crate) trait Queue {
    /// Takes an event that is not earlier than the last one given out.
    fn push(&mut self, time: u64, event: u64);

    /// Gives out the earliest event.
    fn pop(&mut self) -> Option<(u64, u64)>;
}

/// The bits of an event.
const EVENT_BITS: u32 = 36;

/// How many slots the wheel has.
const SLOTS: u64 = 1024;

/// An event in a slot: above its bits lies how long after the begin of the slot it comes.
#[derive(Clone, Copy)]
struct Entry(u64);

impl Entry {
    #[inline(always)]
    fn offset_ps(self) -> u64 {
        self.0 >> EVENT_BITS
    }

    #[inline(always)]
    fn event(self) -> u64 {
        self.0 & ((1 << EVENT_BITS) - 1)
    }
}

/// A timing wheel. A slot holds the events of a short span of time in the order in which they came; it is sorted when its turn comes.
/// What lies further ahead than a turn of the wheel waits in a heap.
pub(crate) struct Wheel {
    slots: Box<[Vec<Entry>; SLOTS as usize]>,
    /// One bit a slot: whether it holds anything.
    occupied: [u64; (SLOTS / 64) as usize],
    /// A slot spans 2^shift picoseconds.
    shift: u32,
    /// The slot being given out, counted from time zero.
    current: u64,
    /// Its events, sorted, and how many of them are gone.
    ready: Vec<Entry>,
    gone: usize,
    /// Events later than the wheel reaches, with the order in which they came.
    far: BinaryHeap<Reverse<(u64, u64, u64)>>,
    pushed_far: u64,
}

impl Wheel {
    /// A wheel of which one turn covers at least this time (as far as the bits of an entry go), with room for so many events in each slot to
    /// begin with.
    pub(crate) fn new(span_ps: u64, room: usize) -> Wheel {
        let slot_ps = (span_ps / SLOTS + 1).next_power_of_two();
        Wheel {
            slots: Box::new(std::array::from_fn(|_| Vec::with_capacity(room))),
            occupied: [0; (SLOTS / 64) as usize],
            shift: slot_ps.trailing_zeros().min(u64::BITS - EVENT_BITS),
            current: 0,
            ready: Vec::new(),
            gone: 0,
            far: BinaryHeap::new(),
            pushed_far: 0,
        }
    }

    /// An event as it lies in the slot of its time.
    #[inline(always)]
    fn entry(&self, time: u64, event: u64) -> Entry {
        debug_assert!(event < 1 << EVENT_BITS);
        Entry((time & !(!0 << self.shift)) << EVENT_BITS | event)
    }

    #[inline(always)]
    fn put(&mut self, slot: u64, entry: Entry) {
        let index = (slot % SLOTS) as usize;
        self.slots[index].push(entry);
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    /// Takes an event that does not go into a slot of the wheel.
    #[cold]
    fn put_aside(&mut self, time: u64, event: u64) {
        if time >> self.shift <= self.current {
            debug_assert!(time >> self.shift == self.current, "events do not come before those given out");
            return self.put_now(self.entry(time, event));
        }
        self.far.push(Reverse((time, self.pushed_far, event)));
        self.pushed_far += 1;
    }

    /// Puts an event into the slot that is being given out, behind those of the same time.
    fn put_now(&mut self, entry: Entry) {
        let rest = &self.ready[self.gone..];
        match rest.last() {
            Some(last) if last.offset_ps() > entry.offset_ps() => {
                let at = self.gone + rest.partition_point(|other| other.offset_ps() <= entry.offset_ps());
                self.ready.insert(at, entry);
            }
            _ => self.ready.push(entry),
        }
    }

    /// The next slot after the current one that holds something.
    fn next_occupied(&self) -> Option<u64> {
        let start = ((self.current + 1) % SLOTS) as usize;
        let words = self.occupied.len();
        for turn in 0..=words {
            let word = (start / 64 + turn) % words;
            let mut bits = self.occupied[word];
            if turn == 0 {
                bits &= !0 << (start % 64);
            } else if turn == words {
                bits &= !(!0 << (start % 64));
            }
            if bits != 0 {
                let index = word as u64 * 64 + u64::from(bits.trailing_zeros());
                return Some(self.current + 1 + (index + SLOTS - start as u64) % SLOTS);
            }
        }
        None
    }

    /// Goes on to the next slot that holds something.
    fn advance(&mut self) -> bool {
        let next = match (self.next_occupied(), self.far.peek()) {
            (Some(slot), _) => slot,
            (None, Some(Reverse((time, _, _)))) => time >> self.shift,
            (None, None) => return false,
        };
        self.current = next;
        while let Some(&Reverse((time, _, event))) = self.far.peek() {
            let slot = time >> self.shift;
            if slot >= self.current + SLOTS {
                break;
            }
            self.far.pop();
            self.put(slot, self.entry(time, event));
        }
        let index = (next % SLOTS) as usize;
        self.ready.clear();
        self.gone = 0;
        std::mem::swap(&mut self.ready, &mut self.slots[index]);
        self.occupied[index / 64] &= !(1 << (index % 64));
        // A stable sort keeps the order in which events of one time came.
        self.ready.sort_by_key(|entry| entry.offset_ps());
        true
    }
}

impl Queue for Wheel {
    #[inline]
    fn push(&mut self, time: u64, event: u64) {
        let slot = time >> self.shift;
        if slot.wrapping_sub(self.current + 1) < SLOTS - 1 {
            self.put(slot, self.entry(time, event));
        } else {
            self.put_aside(time, event);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<(u64, u64)> {
        loop {
            if let Some(entry) = self.ready.get(self.gone) {
                self.gone += 1;
                return Some((self.current << self.shift | entry.offset_ps(), entry.event()));
            }
            if !self.advance() {
                return None;
            }
        }
    }
}

/// A binary heap over time and order of arrival.
#[derive(Default)]
pub(crate) struct Heap {
    events: BinaryHeap<Reverse<(u64, u64, u64)>>,
    pushed: u64,
}

impl Queue for Heap {
    fn push(&mut self, time: u64, event: u64) {
        self.events.push(Reverse((time, self.pushed, event)));
        self.pushed += 1;
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        self.events.pop().map(|Reverse((time, _, event))| (time, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Some events at the start, then two new ones for every one given out, until a limit.
    fn order_of(queue: &mut impl Queue, delays: &[u64]) -> Vec<(u64, u64)> {
        let mut given = Vec::new();
        let mut pushed = 0;
        for &delay in delays.iter().take(10) {
            queue.push(delay, pushed);
            pushed += 1;
        }
        while let Some((now, event)) = queue.pop() {
            given.push((now, event));
            for _ in 0..2 {
                if pushed < 2 * delays.len() as u64 {
                    queue.push(now + delays[pushed as usize % delays.len()], pushed);
                    pushed += 1;
                }
            }
        }
        given
    }

    proptest! {
        #[test]
        fn wheel_and_heap_give_the_same_order(
            delays in prop::collection::vec(prop_oneof![0..3u64, 0..1000u64, 0..5_000_000u64], 1..300),
            span in 1..1_000_000u64,
        ) {
            let wheel = order_of(&mut Wheel::new(span, 0), &delays);
            let heap = order_of(&mut Heap::default(), &delays);
            prop_assert_eq!(wheel, heap);
        }
    }

    #[test]
    fn events_of_one_time_come_out_as_they_went_in() {
        let mut wheel = Wheel::new(1000, 4);
        // The first goes to the heap because it is far away, the others are pushed when it is near.
        wheel.push(5000, 0);
        wheel.push(4500, 1);
        assert_eq!(wheel.pop(), Some((4500, 1)));
        wheel.push(5000, 2);
        wheel.push(5000, 3);
        assert_eq!(
            [wheel.pop(), wheel.pop(), wheel.pop()],
            [Some((5000, 0)), Some((5000, 2)), Some((5000, 3))]
        );
        assert_eq!(wheel.pop(), None);
    }
}
