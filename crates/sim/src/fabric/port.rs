//! The channels of a link share one way into the router, unless the crossbar is free: while one of them sends a packet, the others hold theirs. One
//! that had asked for an output takes that back, and asks again when the tail is gone.

use super::{event, Fabric, Input, TOLD};
use crate::queue::Queue;
use crate::wiring::{Wiring, NONE};
use std::ops::Deref;

impl<W: Deref<Target = Wiring>> Fabric<W> {
    /// The other channels of the link that feeds a queue, the next one first. A plain network has two.
    #[inline(always)]
    fn others<const PLAIN: bool>(&self, queue: usize) -> impl Iterator<Item = usize> {
        if PLAIN {
            return (queue ^ 1..(queue ^ 1) + 1).chain(0..0);
        }
        let first = queue / self.channels * self.channels;
        (queue + 1..first + self.channels).chain(first..queue)
    }

    /// Whether a queue shares its way into the router.
    #[inline(always)]
    fn shares_port(&self, queue: usize) -> bool {
        self.shared_ports && queue < self.link_queues
    }

    /// Whether another channel of a queue's port sends. The queue is looked at again when that is over.
    #[inline(always)]
    pub(super) fn is_held<const PLAIN: bool>(&self, queue: usize, now: u64, events: &mut impl Queue) -> bool {
        if !self.shares_port(queue) {
            return false;
        }
        let gone = match PLAIN {
            true => self.inputs[queue ^ 1].gone,
            false => self.others::<PLAIN>(queue).map(|other| self.inputs[other].gone).max().unwrap_or(0),
        };
        if gone > now && gone != TOLD {
            events.push(gone, event::HEAD | queue as u64);
        }
        gone > now
    }

    /// A queue begins to send: those that share its port take back what they have asked for. Returns whether any of them holds a packet.
    #[inline(always)]
    pub(super) fn hold_others<const PLAIN: bool>(&mut self, queue: usize) -> bool {
        if !self.shares_port(queue) {
            return false;
        }
        let mut any = false;
        for other in self.others::<PLAIN>(queue) {
            let Input { head, place, .. } = self.inputs[other];
            any |= head != NONE;
            if place.has_asked() {
                self.take_back::<PLAIN>(other);
            }
        }
        any
    }

    /// The first packet of a queue asks for nothing any more, and stands where it was before it asked.
    fn take_back<const PLAIN: bool>(&mut self, queue: usize) {
        let input = &mut self.inputs[queue];
        input.place.set_asked(false);
        let (head, router, bit) = (input.head as usize, input.router, input.place.bit());
        if self.is_there::<PLAIN>(head, router) {
            let output = self.exit_of(head as u32);
            let (word, mask) = self.requests_of::<PLAIN>(output, 0, bit);
            *word &= !mask;
        } else if !PLAIN && self.wiring.several_ways {
            self.withdraw(queue, bit);
        } else {
            let way = &mut self.packets[head].way;
            self.wiring.back(way);
            let next = self.wiring.next(&mut way.clone(), router);
            let (word, mask) = self.requests_of::<PLAIN>(next.link as usize, usize::from(next.class), bit);
            *word &= !mask;
        }
    }

    /// The tail of a packet of a queue is gone: the others of its port may ask again, the next one first.
    #[inline(always)]
    pub(super) fn release_others<const PLAIN: bool>(
        &mut self,
        queue: usize,
        now: u64,
        events: &mut impl Queue,
    ) {
        if !self.shares_port(queue) {
            return;
        }
        for other in self.others::<PLAIN>(queue) {
            if self.can_ask(other, now) {
                self.request::<PLAIN>(other, now, events);
            }
        }
    }

    /// Whether a queue has a packet that is there, has not asked for anything, and has nobody before it that still leaves.
    #[inline(always)]
    pub(super) fn can_ask(&self, queue: usize, now: u64) -> bool {
        let input = &self.inputs[queue];
        input.head != NONE
            && input.gone <= now
            && !input.place.has_asked()
            && self.packets[input.head as usize].arrived <= now
    }
}
