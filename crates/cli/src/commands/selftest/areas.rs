//! The areas of a rank: pieces of its partners' memory that only it touches, each with a shadow of what must be in it.
//!
//! Also who must wait for whom: an operation that touches bytes of an earlier, incomplete one must be ordered behind
//! it, or the outcome could not be known.

use fastrand::Rng;
use kumiki::{GlobalAddress, Handle, Order};

/// The most bytes of one operation.
const MOST_BYTES: usize = 1 << 20;

/// One area.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) rank: u32,
    pub(super) private: bool,
    pub(super) address: GlobalAddress,
    pub(super) shadow: Vec<u8>,
}

/// A range of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) area: usize,
    pub(super) start: usize,
    pub(super) bytes: usize,
}

impl Span {
    fn overlaps(&self, other: &Span) -> bool {
        self.area == other.area
            && self.start < other.start + other.bytes
            && other.start < self.start + self.bytes
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.bytes
    }
}

/// All areas of a rank.
#[derive(Debug)]
pub(super) struct Areas(pub(super) Vec<Area>);

impl Areas {
    /// A random range: small sizes are as likely as large ones, and now and then it is empty.
    pub(super) fn span(&self, random: &mut Rng) -> Span {
        let area = random.usize(..self.0.len());
        let room = self.0[area].shadow.len();
        let bytes = match random.u32(..50) {
            0 => 0,
            _ => {
                let most = room.min(MOST_BYTES);
                let top = 1usize << random.u32(..=most.ilog2());
                random.usize(top..=(2 * top - 1).min(most))
            }
        };
        Span { area, start: random.usize(..=room - bytes), bytes }
    }

    /// A random range of the same length: often elsewhere, sometimes overlapping.
    pub(super) fn other(&self, random: &mut Rng, span: Span) -> Span {
        let area = if random.u32(..4) == 0 { span.area } else { random.usize(..self.0.len()) };
        let last = self.0[area].shadow.len() - span.bytes;
        let start = if area == span.area && random.bool() {
            // Near it, before or behind.
            let step = random.usize(..=span.bytes);
            if random.bool() {
                span.start.saturating_sub(step)
            } else {
                span.start + step
            }
        } else {
            random.usize(..=last)
        };
        Span { area, start: start.min(last), ..span }
    }

    /// A random word of so many bytes.
    pub(super) fn word(&self, random: &mut Rng, bytes: usize) -> Span {
        let area = random.usize(..self.0.len());
        let words = self.0[area].shadow.len() / bytes;
        Span { area, start: random.usize(..words) * bytes, bytes }
    }

    pub(super) fn address(&self, span: Span) -> GlobalAddress {
        self.0[span.area].address.add(span.start as u64)
    }

    pub(super) fn shadow(&self, span: Span) -> &[u8] {
        &self.0[span.area].shadow[span.start..span.end()]
    }

    pub(super) fn shadow_mut(&mut self, span: Span) -> &mut [u8] {
        &mut self.0[span.area].shadow[span.start..span.end()]
    }

    /// What a copy does to the shadows.
    pub(super) fn copy(&mut self, dst: Span, src: Span) {
        if dst.area == src.area {
            self.0[src.area].shadow.copy_within(src.start..src.end(), dst.start);
        } else {
            let bytes = self.shadow(src).to_vec();
            self.shadow_mut(dst).copy_from_slice(&bytes);
        }
    }

    /// A word, as a number.
    pub(super) fn value(&self, span: Span) -> u64 {
        let mut bytes = [0; 8];
        bytes[..span.bytes].copy_from_slice(self.shadow(span));
        u64::from_le_bytes(bytes)
    }

    pub(super) fn set_value(&mut self, span: Span, value: u64) {
        self.shadow_mut(span).copy_from_slice(&value.to_le_bytes()[..span.bytes]);
    }
}

/// An operation that may be incomplete.
#[derive(Debug)]
struct Issued {
    number: u64,
    reads: Span,
    writes: [Span; 2],
}

/// Which operations were complete when another one started: all up to `up_to`, and those from `run_from` on.
#[derive(Clone, Copy, Debug)]
struct Behind {
    number: u64,
    up_to: u64,
    run_from: u64,
}

/// The operations that may be incomplete, in the order issued.
#[derive(Debug, Default)]
pub(super) struct Pending {
    list: Vec<Issued>,
    last: Option<Behind>,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A random incomplete operation.
    pub(super) fn any(&self, random: &mut Rng) -> Option<Handle> {
        let index = (!self.list.is_empty()).then(|| random.usize(..self.list.len()))?;
        Some(Handle::from_number(self.list[index].number))
    }

    /// The incomplete operations that an operation which touches these ranges would disturb.
    fn conflicts(&self, reads: Span, writes: [Span; 2]) -> impl Iterator<Item = u64> + '_ {
        self.list.iter().filter(move |issued| issued.disturbs(reads, writes)).map(|issued| issued.number)
    }

    /// The last of them: what must be complete before an operation without a handle.
    pub(super) fn last_conflict(&self, reads: Span, writes: [Span; 2]) -> Option<Handle> {
        self.conflicts(reads, writes).last().map(Handle::from_number)
    }

    /// A random order that is strict enough.
    pub(super) fn order(&self, random: &mut Rng, reads: Span, writes: [Span; 2]) -> Order {
        let last = self.conflicts(reads, writes).last();
        let continues = self.last.is_some_and(|behind| {
            let covered = |number| number <= behind.up_to || number >= behind.run_from;
            self.conflicts(reads, writes).all(covered)
        });
        match random.u32(..4) {
            0 if last.is_none() => Order::None,
            1 if continues => Order::Continue,
            2 => {
                let later = self.list.iter().filter(|issued| last.is_none_or(|last| issued.number >= last));
                let later: Vec<u64> = later.map(|issued| issued.number).collect();
                random.choice(later).map_or(Order::All, |number| Order::After(Handle::from_number(number)))
            }
            _ => Order::All,
        }
    }

    /// Notes an operation that was issued in an order.
    pub(super) fn issued(&mut self, handle: Handle, order: Order, reads: Span, writes: [Span; 2]) {
        if handle == Handle::DONE {
            // It is complete, with everything before it.
            self.list.clear();
            self.last = None;
            return;
        }
        let number = handle.number();
        let behind = Behind { number, up_to: 0, run_from: number };
        self.last = Some(match (order, self.last) {
            (Order::None, _) => behind,
            (Order::After(handle), _) => Behind { up_to: handle.number(), ..behind },
            (Order::Continue, Some(last)) if last.number + 1 == number => Behind { number, ..last },
            (Order::Continue, _) => behind,
            (Order::All, _) => Behind { up_to: number - 1, ..behind },
        });
        self.list.push(Issued { number, reads, writes });
    }

    /// Another operation comes in between: what continues the last one no longer continues one of these.
    pub(super) fn interrupt(&mut self) {
        self.last = None;
    }

    /// Forgets the operations up to this one: they are complete.
    pub(super) fn completed(&mut self, handle: Handle) {
        self.list.retain(|issued| issued.number > handle.number());
    }

    /// Forgets this one only.
    pub(super) fn completed_one(&mut self, handle: Handle) {
        self.list.retain(|issued| issued.number != handle.number());
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }
}

impl Issued {
    fn disturbs(&self, reads: Span, writes: [Span; 2]) -> bool {
        let written = |span: &Span| self.writes.iter().any(|write| write.overlaps(span));
        written(&reads) || writes.iter().any(|write| written(write) || self.reads.overlaps(write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize, bytes: usize) -> Span {
        Span { area: 0, start, bytes }
    }

    #[test]
    fn an_operation_that_would_disturb_another_is_ordered_behind_it() {
        let mut random = Rng::with_seed(1);
        let mut pending = Pending::default();
        let nothing = span(0, 0);
        pending.issued(Handle::from_number(1), Order::None, span(0, 8), [span(16, 8), nothing]);
        pending.issued(Handle::from_number(2), Order::None, span(32, 8), [span(48, 8), nothing]);
        for _ in 0..100 {
            // It reads what the first writes: the second being complete says nothing about the first.
            let order = pending.order(&mut random, span(20, 8), [span(100, 8), nothing]);
            assert!(!matches!(order, Order::None | Order::Continue), "{order:?}");
            // It writes what the second reads.
            let order = pending.order(&mut random, span(200, 8), [span(39, 8), nothing]);
            assert!(order != Order::None && order != Order::After(Handle::from_number(1)), "{order:?}");
        }
        pending.completed(Handle::from_number(1));
        let orders: Vec<Order> =
            (0..100).map(|_| pending.order(&mut random, span(20, 8), [span(100, 8), nothing])).collect();
        assert!(orders.contains(&Order::None) && orders.contains(&Order::Continue));
    }
}
