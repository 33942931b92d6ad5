//! The packet network: virtual cut-through with credits. A packet waits in a queue (a virtual channel at the far end of a link, or a slot of a
//! network interface) until the output it wants is free and the next buffer has room; then its head is at the next router a hop later, and
//! its tail leaves a packet time later, which frees output and buffer. Outputs serve their queues in turn. Two events a packet and hop.
//!
//! | file | what |
//! |---|---|
//! | `mod` | queues, outputs, arbitration |
//! | `nic` | network interfaces: how packets come in |
//! | `stuck` | the circle of buffers when nothing moves |

mod nic;
mod stuck;

use crate::queue::Queue;
use crate::random::Random;
use crate::report::Histogram;
use crate::wiring::{Candidate, Speed, Way, Wiring, NONE};
use crate::{Parameters, Time};
pub(crate) use nic::Outgoing;
use nic::{Nic, Waiting};

/// Kinds of events, in the highest byte of the word. Those of the engine begin at [`event::ENGINE`].
pub(crate) mod event {
    /// The head of a packet has come to the end of a link.
    pub(crate) const HEAD: u64 = 0;
    /// The tail of a packet has left an output.
    pub(crate) const TAIL: u64 = 1 << 56;
    /// An interface may send its next packet.
    pub(crate) const NIC: u64 = 2 << 56;
    /// Room in a buffer has become known to the sender.
    pub(crate) const CREDIT: u64 = 3 << 56;
    /// A packet has left the network without an interface that limits it.
    pub(crate) const DRAIN: u64 = 4 << 56;
    /// The first kind of the engine.
    pub(crate) const ENGINE: u64 = 8 << 56;
    /// The part that is not the kind.
    pub(crate) const VALUE: u64 = (1 << 56) - 1;
}

/// A packet in the network.
struct Packet {
    /// When its head came to where it is.
    arrived: u64,
    /// When its tail comes there.
    tail_in: u64,
    message: u32,
    /// The packet behind it in its queue.
    next: u32,
    /// The queue it is in or on its way to.
    queue: u32,
    /// Its bytes on the wire.
    bytes: u32,
    /// The router of its destination.
    end: u32,
    way: Way,
    /// The interface it goes to.
    nic: u8,
    /// Whether it is the last of its message.
    last: bool,
}

const _: () = assert!(size_of::<Packet>() <= 64);

/// Where packets wait: a virtual channel at the end of a link, or a slot of an interface.
struct Input {
    head: u32,
    tail: u32,
    router: u32,
    /// Its bit in the requests of the router's outputs.
    bit: u16,
    class: u8,
    /// Whether its first packet is on its way out; the next waits until the tail has left.
    sending: bool,
}

/// A link, or the way out to an interface.
struct Output {
    /// Carried so far.
    bytes: u64,
    /// The queue that sends, and its packet.
    source: u32,
    packet: u32,
    /// Where the queues of its router begin in the table.
    table: u32,
    /// The bit of the queue that was served last.
    last: u16,
    speed: u16,
    busy: bool,
}

const _: () = assert!(size_of::<Output>() == 32);

/// What the engine is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The last packet of a message has left its node.
    Sent(u32),
    /// All packets of a message have come.
    Delivered(u32),
}

/// The network in operation.
pub(crate) struct Fabric<'a> {
    wiring: &'a Wiring,
    links: usize,
    classes: usize,
    lanes: usize,
    channels: usize,
    /// Words of requests for each output and class.
    words: usize,
    nics_per_node: u32,
    slots: u32,
    /// Bytes of a full packet on the wire, and its header.
    packet_bytes: u32,
    header_bytes: u32,
    credit_ps: u64,
    /// Speeds of links, and the interface's last.
    speeds: Vec<Speed>,
    nic_limited: bool,
    outputs: Vec<Output>,
    requests: Vec<u64>,
    inputs: Vec<Input>,
    credits: Vec<u16>,
    /// For each router, which queue a bit of the requests stands for.
    queue_of_bit: Vec<u32>,
    packets: Vec<Packet>,
    unused: Vec<u32>,
    /// For each message, how many of its packets have not come.
    missing: Vec<u32>,
    nics: Vec<Nic>,
    waiting: Vec<Waiting>,
    unused_waiting: Vec<u32>,
    random: Random,
    found: Vec<Candidate>,
    withdrawn: Vec<Candidate>,
    /// For the engine, which empties it.
    pub(crate) notes: Vec<Note>,
    pub(crate) packet_hops: u64,
    pub(crate) delivered: u64,
    pub(crate) most_in_flight: u64,
    pub(crate) queueing: Histogram,
}

impl<'a> Fabric<'a> {
    /// An empty network.
    pub(crate) fn new(wiring: &'a Wiring, parameters: &Parameters, seed: u64) -> Fabric<'a> {
        let links = wiring.links.len();
        let classes = usize::from(wiring.classes);
        let lanes = parameters.lanes as usize;
        let channels = classes * lanes;
        let packet_bytes = parameters.packet_bytes + parameters.header_bytes;
        let mut speeds = wiring.speeds.clone();
        if let Some(bandwidth) = parameters.nic_bandwidth {
            let packet_ps = bandwidth.time_of(u64::from(packet_bytes)).as_ps();
            speeds.push(Speed { bandwidth, hop_ps: 0, packet_ps });
        }
        let mut fabric = Fabric {
            wiring,
            links,
            classes,
            lanes,
            channels,
            words: 1,
            nics_per_node: parameters.nics,
            slots: parameters.injection_slots,
            packet_bytes,
            header_bytes: parameters.header_bytes,
            credit_ps: parameters.credit_delay.as_ps(),
            nic_limited: parameters.nic_bandwidth.is_some(),
            speeds,
            outputs: Vec::new(),
            requests: Vec::new(),
            inputs: Vec::new(),
            credits: vec![parameters.buffer_packets as u16; links * channels],
            queue_of_bit: Vec::new(),
            packets: Vec::new(),
            unused: Vec::new(),
            missing: Vec::new(),
            nics: Vec::new(),
            waiting: Vec::new(),
            unused_waiting: Vec::new(),
            random: Random::of(seed, 0xfab, 0),
            found: Vec::new(),
            withdrawn: Vec::new(),
            notes: Vec::new(),
            packet_hops: 0,
            delivered: 0,
            most_in_flight: 0,
            queueing: Histogram::default(),
        };
        fabric.connect();
        fabric
    }

    /// Makes queues and outputs, and tells each queue its bit at its router.
    fn connect(&mut self) {
        let wiring = self.wiring;
        let nics = wiring.nodes as usize * self.nics_per_node as usize;
        let mut of_router: Vec<Vec<u32>> = vec![Vec::new(); wiring.routers as usize];
        let add = |inputs: &mut Vec<Input>, of_router: &mut Vec<Vec<u32>>, router: u32, class: usize| {
            let queues = &mut of_router[router as usize];
            let bit = queues.len() as u16;
            queues.push(inputs.len() as u32);
            inputs.push(Input { head: NONE, tail: NONE, router, bit, class: class as u8, sending: false });
        };
        for link in &wiring.links {
            for channel in 0..self.channels {
                // A link that leads nowhere keeps its numbers but is at no router.
                if link.to == NONE {
                    self.inputs.push(Input {
                        head: NONE,
                        tail: NONE,
                        router: NONE,
                        bit: 0,
                        class: 0,
                        sending: false,
                    });
                } else {
                    add(&mut self.inputs, &mut of_router, link.to, channel / self.lanes);
                }
            }
        }
        for nic in 0..nics {
            let router = wiring.router_of(nic as u32 / self.nics_per_node);
            for _ in 0..self.slots {
                add(&mut self.inputs, &mut of_router, router, 0);
            }
        }
        let mut tables = Vec::with_capacity(of_router.len());
        for queues in &of_router {
            tables.push(self.queue_of_bit.len() as u32);
            self.queue_of_bit.extend_from_slice(queues);
            self.words = self.words.max(queues.len().div_ceil(64));
        }
        let output = |router: u32, speed: u16| Output {
            bytes: 0,
            source: NONE,
            packet: NONE,
            table: tables[router as usize],
            last: 0,
            speed,
            busy: false,
        };
        self.outputs.extend(wiring.links.iter().map(|link| output(link.from, link.speed)));
        let nic_speed = self.speeds.len() as u16 - 1;
        let routers = (0..nics).map(|nic| wiring.router_of(nic as u32 / self.nics_per_node));
        self.outputs.extend(routers.map(|router| output(router, nic_speed)));
        self.requests = vec![0; self.outputs.len() * self.classes * self.words];
        let free = !0 >> (32 - self.slots);
        self.nics = (0..nics).map(|_| Nic::new(free)).collect();
        self.inputs.shrink_to_fit();
        self.queue_of_bit.shrink_to_fit();
        self.outputs.shrink_to_fit();
    }

    /// Handles one of its events.
    #[inline]
    pub(crate) fn handle(&mut self, now: u64, event: u64, events: &mut impl Queue) {
        let value = (event & event::VALUE) as u32;
        match event & !event::VALUE {
            event::HEAD => self.head(value, now, events),
            event::TAIL => self.tail(value as usize, now, events),
            event::NIC => self.nic_ready(value, now, events),
            event::CREDIT => self.credit(value as usize, now, events),
            _ => self.drained(value as usize, now, events),
        }
    }

    /// A head has come to the end of its link.
    #[inline]
    fn head(&mut self, index: u32, now: u64, events: &mut impl Queue) {
        let packet = &mut self.packets[index as usize];
        packet.arrived = now;
        let queue = packet.queue as usize;
        self.join(queue, index, now, events);
    }

    /// A packet joins a queue, and asks for its output if it is the first there.
    #[inline]
    fn join(&mut self, queue: usize, index: u32, now: u64, events: &mut impl Queue) {
        let input = &mut self.inputs[queue];
        if input.head == NONE {
            input.head = index;
            input.tail = index;
            if !input.sending {
                self.request(queue, now, events);
            }
        } else {
            let last = std::mem::replace(&mut input.tail, index);
            self.packets[last as usize].next = index;
        }
    }

    /// The first packet of a queue asks for where it wants to go.
    fn request(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        let Input { head, router, bit, .. } = self.inputs[queue];
        let packet = &mut self.packets[head as usize];
        if packet.end == router {
            if !self.nic_limited {
                self.drain(queue, now, events);
                return;
            }
            let output =
                self.links + (packet.way.dest * self.nics_per_node) as usize + usize::from(packet.nic);
            self.ask(output, 0, bit, now, events);
        } else if self.wiring.several_ways {
            let mut found = std::mem::take(&mut self.found);
            self.wiring.candidates(&packet.way, router, &mut found);
            for candidate in &found {
                self.set_request(candidate.link as usize, usize::from(candidate.class), bit);
            }
            for candidate in &found {
                self.arbitrate(candidate.link as usize, now, events);
            }
            self.found = found;
        } else {
            let next = self.wiring.next(&mut packet.way, router);
            self.ask(next.link as usize, usize::from(next.class), bit, now, events);
        }
    }

    #[inline]
    fn ask(&mut self, output: usize, class: usize, bit: u16, now: u64, events: &mut impl Queue) {
        self.set_request(output, class, bit);
        self.arbitrate(output, now, events);
    }

    #[inline]
    fn set_request(&mut self, output: usize, class: usize, bit: u16) {
        let word = (output * self.classes + class) * self.words + usize::from(bit / 64);
        self.requests[word] |= 1 << (bit % 64);
    }

    /// Gives a free output to the next queue that asks for it and whose packet has room ahead.
    #[inline]
    fn arbitrate(&mut self, output: usize, now: u64, events: &mut impl Queue) {
        if self.outputs[output].busy {
            return;
        }
        let last = self.outputs[output].last;
        let granted = if self.words == 1 {
            next_bit(self.eligible(output, 0), last)
        } else {
            self.next_of_words(output, last)
        };
        if let Some(bit) = granted {
            self.grant(output, bit, now, events);
        }
    }

    /// One word of the queues that ask for an output and have room ahead.
    #[inline]
    fn eligible(&self, output: usize, word: usize) -> u64 {
        let first = output * self.classes * self.words + word;
        let mut eligible = 0;
        for class in 0..self.classes {
            let asked = self.requests[first + class * self.words];
            if asked != 0 && self.room(output, class).is_some() {
                eligible |= asked;
            }
        }
        eligible
    }

    /// The channel of a class with the most room behind an output, if there is any.
    #[inline]
    fn room(&self, output: usize, class: usize) -> Option<usize> {
        if output >= self.links {
            return Some(0);
        }
        let first = output * self.channels + class * self.lanes;
        if self.lanes == 1 {
            return (self.credits[first] > 0).then_some(first);
        }
        let best =
            (first..first + self.lanes).max_by_key(|&channel| (self.credits[channel], usize::MAX - channel));
        best.filter(|&channel| self.credits[channel] > 0)
    }

    fn next_of_words(&self, output: usize, last: u16) -> Option<u16> {
        let start = usize::from(last / 64);
        for turn in 0..=self.words {
            let word = (start + turn) % self.words;
            let mut bits = self.eligible(output, word);
            let up_to = (!0u64 << (last % 64)) << 1;
            if turn == 0 {
                bits &= up_to;
            } else if turn == self.words {
                bits &= !up_to;
            }
            if bits != 0 {
                return Some((word * 64) as u16 + bits.trailing_zeros() as u16);
            }
        }
        None
    }

    /// A queue sends its first packet through an output.
    fn grant(&mut self, output: usize, bit: u16, now: u64, events: &mut impl Queue) {
        let queue = self.queue_of_bit[self.outputs[output].table as usize + usize::from(bit)];
        let (word, mask) = (usize::from(bit / 64), 1u64 << (bit % 64));
        let mut class = 0;
        let mut channel = 0;
        for candidate in 0..self.classes {
            let at = (output * self.classes + candidate) * self.words + word;
            if self.requests[at] & mask == 0 {
                continue;
            }
            if let Some(room) = self.room(output, candidate) {
                self.requests[at] &= !mask;
                (class, channel) = (candidate, room);
                break;
            }
        }
        let index = self.inputs[queue as usize].head;
        if self.wiring.several_ways && output < self.links {
            self.withdraw(queue as usize, index, bit);
        }
        let input = &mut self.inputs[queue as usize];
        let packet = &mut self.packets[index as usize];
        input.head = packet.next;
        input.sending = true;
        packet.next = NONE;
        let out = &mut self.outputs[output];
        let speed = &self.speeds[usize::from(out.speed)];
        let ps = match packet.bytes == self.packet_bytes {
            true => speed.packet_ps,
            false => speed.bandwidth.time_of(u64::from(packet.bytes)).as_ps(),
        };
        // A tail cannot leave before it has come: a fast link behind a slow one waits for it.
        let tail = (now + ps).max(packet.tail_in);
        out.busy = true;
        out.source = queue;
        out.packet = index;
        out.last = bit;
        out.bytes += u64::from(packet.bytes);
        self.queueing.add(Time::from_ps(now - packet.arrived));
        if output < self.links {
            debug_assert_eq!(channel, output * self.channels + class * self.lanes + channel % self.lanes);
            self.credits[channel] -= 1;
            packet.queue = channel as u32;
            packet.tail_in = tail + speed.hop_ps;
            self.packet_hops += 1;
            events.push(now + speed.hop_ps, event::HEAD | u64::from(index));
        }
        events.push(tail, event::TAIL | output as u64);
        self.leave(queue as usize, tail, now, events);
    }

    /// The first packet of a queue has begun to leave. Its room empties as it goes, and the next packet fills it no faster than its link
    /// carries it: so the sender may start when the rest of the one is gone by the time that the other has come. Between links of one
    /// speed that is at once, as with credits that are counted in flits.
    #[inline]
    fn leave(&mut self, queue: usize, tail: u64, now: u64, events: &mut impl Queue) {
        if queue >= self.links * self.channels {
            return;
        }
        let upstream = &self.outputs[queue / self.channels];
        let at =
            tail.saturating_sub(self.speeds[usize::from(upstream.speed)].packet_ps).max(now) + self.credit_ps;
        if at == now {
            self.credit(queue, now, events);
        } else {
            events.push(at, event::CREDIT | queue as u64);
        }
    }

    /// Takes back what a packet with several ways has asked for.
    fn withdraw(&mut self, queue: usize, index: u32, bit: u16) {
        let mut found = std::mem::take(&mut self.withdrawn);
        let way = &mut self.packets[index as usize].way;
        self.wiring.candidates(way, self.inputs[queue].router, &mut found);
        way.hops = way.hops.saturating_add(1);
        for candidate in &found {
            let first = candidate.link as usize * self.classes + usize::from(candidate.class);
            self.requests[first * self.words + usize::from(bit / 64)] &= !(1 << (bit % 64));
        }
        self.withdrawn = found;
    }

    /// A tail has left an output: the output is free, and so is the place in the buffer.
    fn tail(&mut self, output: usize, now: u64, events: &mut impl Queue) {
        let out = &mut self.outputs[output];
        out.busy = false;
        let (queue, index) = (out.source as usize, out.packet);
        self.vacate(queue, index, now, events);
        if output >= self.links {
            self.deliver(index);
        }
        self.arbitrate(output, now, events);
    }

    /// The first packet of a queue is gone: its place is free, and the next one asks.
    fn vacate(&mut self, queue: usize, index: u32, now: u64, events: &mut impl Queue) {
        let input = &mut self.inputs[queue];
        input.sending = false;
        let waits = input.head != NONE;
        if queue < self.links * self.channels {
            if waits {
                self.request(queue, now, events);
            }
        } else {
            let packet = &self.packets[index as usize];
            if packet.last {
                self.notes.push(Note::Sent(packet.message));
            }
            self.slot_free(queue - self.links * self.channels, now, events);
        }
    }

    /// The sender of a link learns of room in a buffer.
    #[inline]
    fn credit(&mut self, channel: usize, now: u64, events: &mut impl Queue) {
        self.credits[channel] += 1;
        let output = channel / self.channels;
        let class = usize::from(self.inputs[channel].class);
        let first = (output * self.classes + class) * self.words;
        if self.requests[first..first + self.words].iter().any(|&word| word != 0) {
            self.arbitrate(output, now, events);
        }
    }

    /// The first packet of a queue leaves the network, limited by nothing but its own tail.
    fn drain(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        let input = &mut self.inputs[queue];
        input.sending = true;
        let packet = &self.packets[input.head as usize];
        // At the rate of the link it came over; from a slot, at that of the network's links.
        let speed = match self.outputs.get(queue / self.channels) {
            Some(link) if queue < self.links * self.channels => usize::from(link.speed),
            _ => 0,
        };
        let ps = self.speeds[speed].bandwidth.time_of(u64::from(packet.bytes)).as_ps();
        self.queueing.add(Time::from_ps(now - packet.arrived));
        let tail = (now + ps).max(packet.tail_in);
        events.push(tail, event::DRAIN | queue as u64);
        self.leave(queue, tail, now, events);
    }

    fn drained(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        let input = &mut self.inputs[queue];
        let index = input.head;
        input.head = self.packets[index as usize].next;
        self.vacate(queue, index, now, events);
        self.deliver(index);
    }

    /// A packet is where it should be.
    fn deliver(&mut self, index: u32) {
        let message = self.packets[index as usize].message;
        self.unused.push(index);
        self.delivered += 1;
        let missing = &mut self.missing[message as usize];
        *missing -= 1;
        if *missing == 0 {
            self.notes.push(Note::Delivered(message));
        }
    }

    /// Packets in the network now.
    pub(crate) fn in_flight(&self) -> u64 {
        (self.packets.len() - self.unused.len()) as u64
    }

    /// What each link has carried, in bytes.
    pub(crate) fn link_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.outputs[..self.links].iter().map(|output| output.bytes)
    }

    /// Bytes of state that grow with the network, not with what is in it.
    pub(crate) fn bytes(&self) -> usize {
        self.outputs.capacity() * size_of::<Output>()
            + self.requests.capacity() * size_of::<u64>()
            + self.inputs.capacity() * size_of::<Input>()
            + self.credits.capacity() * size_of::<u16>()
            + self.queue_of_bit.capacity() * size_of::<u32>()
            + self.nics.capacity() * size_of::<Nic>()
    }
}

/// The first set bit after the last one served, around the end.
#[inline]
fn next_bit(bits: u64, last: u16) -> Option<u16> {
    if bits == 0 {
        return None;
    }
    let after = bits & ((!0u64 << last) << 1);
    Some(if after != 0 { after.trailing_zeros() } else { bits.trailing_zeros() } as u16)
}
