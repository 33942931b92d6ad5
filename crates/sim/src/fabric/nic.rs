//! Network interfaces. An interface sends its messages one after the other, packet by packet, into a few slots; each packet in a slot asks the router
//! for its own output. Behind each packet of a message lies the message's gap: that is pacing.

use super::{event, Fabric, Packet, Rest};
use crate::queue::Queue;
use crate::wiring::{Way, Wiring, NONE};
use std::ops::Deref;

/// A message on its way into the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// Its number.
    pub(crate) message: u32,
    /// From which node to which.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Its size.
    pub(crate) bytes: u64,
    /// Idle time behind each of its packets.
    pub(crate) gap_ps: u64,
}

/// A message in the queue of an interface.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    outgoing: Outgoing,
    /// Packets sent so far.
    sent: u32,
    /// The message behind it.
    next: u32,
}

/// One interface.
pub(super) struct Nic {
    /// When the next packet may enter.
    next_ps: u64,
    /// The last message that waits; the one behind it is the first.
    tail: u32,
    /// A bit for each slot that is free.
    free: u32,
}

const _: () = assert!(size_of::<Nic>() == 16);

impl Nic {
    /// The bit of `next_ps` that says whether an event for the next packet is on its way.
    const TIMED: u64 = 1 << 63;

    pub(super) fn new(free: u32) -> Nic {
        Nic { next_ps: 0, tail: NONE, free }
    }
}

impl<W: Deref<Target = Wiring>> Fabric<W> {
    /// Takes a message for an interface of its node.
    pub(crate) fn send(&mut self, outgoing: Outgoing, nic: u32, now: u64, events: &mut impl Queue) {
        let message = outgoing.message as usize;
        if self.rests.len() <= message {
            self.rests.resize(message + 1, Rest::default());
        }
        let packets = self.packets_of(outgoing.bytes);
        let before = u64::from(packets - 1) * u64::from(self.payload_bytes());
        let last_bytes = (outgoing.bytes - before) as u32 + self.header_bytes;
        self.rests[message] = Rest { packets, last_bytes };
        let nic = outgoing.from * self.nics_per_node + nic;
        let waiting = Waiting { outgoing, sent: 0, next: NONE };
        let index = match self.unused_waiting.pop() {
            Some(index) => {
                self.waiting[index as usize] = waiting;
                index
            }
            None => {
                self.waiting.push(waiting);
                self.waiting.len() as u32 - 1
            }
        };
        // The messages of an interface lie in a circle.
        let last = std::mem::replace(&mut self.nics[nic as usize].tail, index);
        let first = match last {
            NONE => index,
            _ => std::mem::replace(&mut self.waiting[last as usize].next, index),
        };
        self.waiting[index as usize].next = first;
        match self.plain {
            true => self.pump_and_tell::<true>(nic, now, events),
            false => self.pump_and_tell::<false>(nic, now, events),
        }
    }

    fn pump_and_tell<const PLAIN: bool>(&mut self, nic: u32, now: u64, events: &mut impl Queue) {
        self.pump::<PLAIN>(nic, now, events);
        self.tell_senders::<PLAIN>(now, events);
    }

    fn payload_bytes(&self) -> u32 {
        self.packet_bytes - self.header_bytes
    }

    fn packets_of(&self, bytes: u64) -> u32 {
        bytes.div_ceil(u64::from(self.payload_bytes())).max(1) as u32
    }

    /// An interface may send again.
    pub(super) fn nic_ready<const PLAIN: bool>(&mut self, nic: u32, now: u64, events: &mut impl Queue) {
        self.nics[nic as usize].next_ps &= !Nic::TIMED;
        self.pump::<PLAIN>(nic, now, events);
    }

    /// A slot has become free.
    pub(super) fn slot_free<const PLAIN: bool>(&mut self, slot: usize, now: u64, events: &mut impl Queue) {
        let nic = slot / self.slots as usize;
        self.nics[nic].free |= 1 << (slot % self.slots as usize);
        self.pump::<PLAIN>(nic as u32, now, events);
    }

    /// Puts packets into slots while there are slots and it is time.
    fn pump<const PLAIN: bool>(&mut self, nic: u32, now: u64, events: &mut impl Queue) {
        loop {
            let state = &mut self.nics[nic as usize];
            if state.free == 0 || state.tail == NONE {
                return;
            }
            if now < state.next_ps {
                if state.next_ps & Nic::TIMED == 0 {
                    events.push(state.next_ps, event::NIC | u64::from(nic));
                    state.next_ps |= Nic::TIMED;
                }
                return;
            }
            let slot = state.free.trailing_zeros();
            state.free &= !(1 << slot);
            let (packet, tail_in) = self.next_packet(nic, now);
            let index = self.keep(packet);
            if !PLAIN {
                self.tails_in.resize(self.packets.len(), 0);
                self.tails_in[index as usize] = tail_in;
            }
            let queue = self.link_queues + (nic * self.slots + slot) as usize;
            (self.inputs[queue].head, self.inputs[queue].tail) = (index, index);
            self.request::<PLAIN>(queue, now, events);
        }
    }

    /// The next packet of an interface, and when its tail is there; the one after it may follow later.
    fn next_packet(&mut self, nic: u32, now: u64) -> (Packet, u64) {
        let tail = self.nics[nic as usize].tail;
        let head = self.waiting[tail as usize].next;
        let Waiting { outgoing: front, sent: index, next } = self.waiting[head as usize];
        let last = (u64::from(index) + 1) * u64::from(self.payload_bytes()) >= front.bytes;
        let salt = self.wiring.salt(front.from, front.to, index, || self.random.next());
        let nic_ps = match self.speeds.last() {
            Some(speed) if self.nic_limited => self.time_on(speed, front.message, last).1,
            _ => 0,
        };
        let state = &mut self.nics[nic as usize];
        // The gap lies behind every packet, the last one too: the next message keeps the pace.
        let rest_ps = if last { self.message_ps } else { 0 };
        let pause = match front.gap_ps {
            0 => nic_ps + rest_ps,
            gap => nic_ps.max(self.speeds[0].packet_ps) + gap.max(rest_ps),
        };
        state.next_ps = now + pause;
        match last {
            true => {
                if head == tail {
                    state.tail = NONE;
                } else {
                    self.waiting[tail as usize].next = next;
                }
                self.unused_waiting.push(head);
            }
            false => self.waiting[head as usize].sent += 1,
        }
        let mut way = Way::to(front.to, salt);
        way.label = (nic % self.nics_per_node) as u8 | if last { Packet::LAST } else { 0 };
        (Packet { arrived: now, message: front.message, next: NONE, way }, now + nic_ps)
    }

    fn keep(&mut self, packet: Packet) -> u32 {
        match self.unused.pop() {
            Some(index) => {
                self.packets[index as usize] = packet;
                index
            }
            None => {
                self.packets.push(packet);
                self.most_in_flight = self.packets.len() as u64;
                self.packets.len() as u32 - 1
            }
        }
    }
}
