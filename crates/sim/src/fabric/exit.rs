//! How packets leave the network: through an interface that takes one packet after the other, or, where interfaces are as fast as the links, at once.

use super::{event, Fabric, Note, TOLD};
use crate::queue::Queue;
use crate::report::Histogram;
use crate::wiring::Wiring;
use crate::Time;
use std::ops::Deref;

impl<W: Deref<Target = Wiring>> Fabric<W> {
    /// The first packet of a queue is at the router of its node.
    pub(super) fn request_exit<const PLAIN: bool>(
        &mut self,
        queue: usize,
        now: u64,
        events: &mut impl Queue,
    ) {
        let output = self.exit_of(self.inputs[queue].head);
        if self.nic_limited && self.outputs[output].until > now {
            self.wait::<PLAIN>(output, 0, queue, now, events);
        } else {
            self.exit::<PLAIN>(output, queue, now, events);
        }
    }

    /// The way out that a packet takes.
    pub(super) fn exit_of(&self, packet: u32) -> usize {
        let packet = &self.packets[packet as usize];
        self.links + (packet.way.dest * self.nics_per_node) as usize + packet.nic()
    }

    /// The first packet of a queue begins to leave the network.
    fn exit<const PLAIN: bool>(&mut self, output: usize, queue: usize, now: u64, events: &mut impl Queue) {
        let from_link = queue < self.link_queues;
        // Without an interface that limits it, at the rate of the link it came over; from a slot, at that of the network's links.
        let speed = match (self.nic_limited, from_link) {
            (true, _) => self.speeds.len() - 1,
            (false, true) => usize::from(self.outputs[self.link_of::<PLAIN>(queue)].speed),
            (false, false) => 0,
        };
        let index = self.inputs[queue].head;
        let packet = &self.packets[index as usize];
        let (_, ps) = self.time_on(&self.speeds[speed], packet.message, packet.is_last());
        let tail = if PLAIN { now + ps } else { (now + ps).max(self.tails_in[index as usize]) };
        let input = &mut self.inputs[queue];
        let packet = &mut self.packets[index as usize];
        input.head = std::mem::replace(&mut packet.next, queue as u32);
        input.gone = TOLD;
        self.waited[Histogram::bucket(Time::from_ps(now - packet.arrived))] += 1;
        let out = &mut self.outputs[output];
        (out.until, out.last) = (TOLD, input.place.bit());
        events.push(tail, event::EXIT | u64::from(index));
        self.hold_others::<PLAIN>(queue);
        if from_link {
            self.make_room::<PLAIN>(queue, tail, now, events);
        }
    }

    /// The tail of a packet has left the network.
    pub(super) fn exited<const PLAIN: bool>(&mut self, index: u32, now: u64, events: &mut impl Queue) {
        let queue = self.packets[index as usize].next as usize;
        // While it still counts as busy, the next packet of the queue only asks: others may have waited longer.
        self.vacate::<PLAIN>(queue, now, events);
        let output = self.exit_of(index);
        self.deliver(index);
        if self.nic_limited {
            self.outputs[output].until = now;
            if let Some(queue) = self.next_for_exit::<PLAIN>(output) {
                self.exit::<PLAIN>(output, queue, now, events);
            }
        }
    }

    /// A packet is where it should be.
    fn deliver(&mut self, index: u32) {
        let message = self.packets[index as usize].message;
        self.unused.push(index);
        self.delivered += 1;
        let missing = &mut self.rests[message as usize].packets;
        *missing -= 1;
        if *missing == 0 {
            self.notes.push(Note::Delivered(message));
        }
    }
}
