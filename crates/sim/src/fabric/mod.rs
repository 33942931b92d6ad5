//! The packet network: virtual cut-through with credits. A packet waits in a queue (a virtual channel at the far end of a link, or a slot of a
//! network interface) until the output it wants is free and the next buffer has room; then its head is at the next router a hop later, and
//! its tail leaves a packet time later, which frees the output. Outputs serve their queues in turn. Two events a packet and hop.
//! On rings a packet from an interface enters only where there is room for one more behind it: otherwise those that enter would take
//! every place that those on their way wait for.
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
use crate::{ChannelRule, Parameters, Time};
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

/// A packet in the network. It lies in one cache line.
#[repr(align(64))]
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
#[derive(Clone, Copy)]
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
#[derive(Clone, Copy)]
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
    /// The queues with lower bits than this belong to links, the others to interfaces.
    through: u16,
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
    /// Room that a packet from an interface needs ahead.
    entrance: u16,
    /// Queues whose first packet has begun to leave: their senders are to be told.
    left: Vec<u32>,
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
            entrance: entrance(wiring, parameters),
            left: Vec::new(),
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
        let link_queues = self.links * self.channels;
        let throughs: Vec<u16> = of_router
            .iter()
            .map(|queues| queues.iter().filter(|&&queue| (queue as usize) < link_queues).count() as u16)
            .collect();
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
            through: throughs[router as usize],
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
        self.tell_senders(now, events);
    }

    /// Tells senders of room, which may let them send, which makes room for others.
    #[inline]
    fn tell_senders(&mut self, now: u64, events: &mut impl Queue) {
        let mut told = 0;
        while let Some(&channel) = self.left.get(told) {
            told += 1;
            self.credit(channel as usize, now, events);
        }
        self.left.clear();
    }

    /// A head has come to the end of its link.
    #[inline(always)]
    fn head(&mut self, index: u32, now: u64, events: &mut impl Queue) {
        let packet = &mut self.packets[index as usize];
        packet.arrived = now;
        let queue = packet.queue as usize;
        self.join(queue, index, now, events);
    }

    /// A packet joins a queue, and asks for its output if it is the first there.
    #[inline(always)]
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
        let Input { head, router, .. } = self.inputs[queue];
        let packet = &mut self.packets[head as usize];
        if packet.end == router {
            if !self.nic_limited {
                self.drain(queue, now, events);
                return;
            }
            let output =
                self.links + (packet.way.dest * self.nics_per_node) as usize + usize::from(packet.nic);
            self.ask(output, 0, queue, now, events);
        } else if self.wiring.several_ways {
            self.ask_all(queue, now, events);
        } else {
            let next = self.wiring.next(&mut packet.way, router);
            self.ask(next.link as usize, usize::from(next.class), queue, now, events);
        }
    }

    /// A queue asks for one output. One that is free has nobody waiting who could use it: whoever comes is served at once, or waits for room.
    #[inline(always)]
    fn ask(&mut self, output: usize, class: usize, queue: usize, now: u64, events: &mut impl Queue) {
        let bit = self.inputs[queue].bit;
        match self.open(output, class, bit) {
            Some(channel) => self.transmit(output, queue, channel, now, events),
            None => self.set_request(output, class, bit),
        }
    }

    /// A queue asks for every output that its packet may take, and takes the first that is open.
    fn ask_all(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        let Input { head, router, bit, .. } = self.inputs[queue];
        let mut found = std::mem::take(&mut self.found);
        self.wiring.candidates(&self.packets[head as usize].way, router, &mut found);
        let open = found.iter().find_map(|candidate| {
            let output = candidate.link as usize;
            self.open(output, usize::from(candidate.class), bit).map(|channel| (output, channel))
        });
        match open {
            Some((output, channel)) => {
                let way = &mut self.packets[head as usize].way;
                way.hops = way.hops.saturating_add(1);
                self.transmit(output, queue, channel, now, events);
            }
            None => found.iter().for_each(|candidate| {
                self.set_request(candidate.link as usize, usize::from(candidate.class), bit)
            }),
        }
        self.found = found;
    }

    /// The channel that a queue could send to through an output now.
    #[inline(always)]
    fn open(&self, output: usize, class: usize, bit: u16) -> Option<usize> {
        let out = &self.outputs[output];
        if out.busy {
            return None;
        }
        let needed = if bit < out.through { 1 } else { self.entrance };
        let (channel, room) = self.room(output, class);
        (room >= needed).then_some(channel)
    }

    #[inline(always)]
    fn set_request(&mut self, output: usize, class: usize, bit: u16) {
        let word = (output * self.classes + class) * self.words + usize::from(bit / 64);
        self.requests[word] |= 1 << (bit % 64);
    }

    /// Gives an output that has become free to the next queue that asks for it and whose packet has room ahead.
    fn arbitrate(&mut self, output: usize, now: u64, events: &mut impl Queue) {
        let last = self.outputs[output].last;
        let bit = match self.words {
            1 => next_bit(self.eligible(output, 0), last),
            _ => next_of_words(self.words, last, |word| self.eligible(output, word)),
        };
        let Some(bit) = bit else { return };
        for class in (0..self.classes).rev() {
            let word = (output * self.classes + class) * self.words + usize::from(bit / 64);
            if self.requests[word] & 1 << (bit % 64) != 0 {
                if let Some(channel) = self.open(output, class, bit) {
                    self.serve(output, class, bit, channel, now, events);
                    return;
                }
            }
        }
    }

    /// A queue that has asked for an output sends through it.
    #[inline(always)]
    fn serve(
        &mut self,
        output: usize,
        class: usize,
        bit: u16,
        channel: usize,
        now: u64,
        events: &mut impl Queue,
    ) {
        let queue = self.queue_of_bit[self.outputs[output].table as usize + usize::from(bit)] as usize;
        if self.wiring.several_ways && output < self.links {
            self.withdraw(queue, bit);
        } else {
            let word = (output * self.classes + class) * self.words + usize::from(bit / 64);
            self.requests[word] &= !(1 << (bit % 64));
        }
        self.transmit(output, queue, channel, now, events);
    }

    /// One word of the queues that ask for an output and have room ahead.
    #[inline(always)]
    fn eligible(&self, output: usize, word: usize) -> u64 {
        let first = output * self.classes * self.words + word;
        let through = ones(usize::from(self.outputs[output].through).saturating_sub(64 * word));
        let mut eligible = 0;
        for class in 0..self.classes {
            let asked = self.requests[first + class * self.words];
            if asked != 0 {
                let room = self.room(output, class).1;
                if room >= self.entrance {
                    eligible |= asked;
                } else if room > 0 {
                    eligible |= asked & through;
                }
            }
        }
        eligible
    }

    /// The channel of a class with the most room behind an output, and how much it has.
    #[inline(always)]
    fn room(&self, output: usize, class: usize) -> (usize, u16) {
        if output >= self.links {
            return (0, u16::MAX);
        }
        let first = output * self.channels + class * self.lanes;
        let mut best = (first, self.credits[first]);
        for channel in first + 1..first + self.lanes {
            if self.credits[channel] > best.1 {
                best = (channel, self.credits[channel]);
            }
        }
        best
    }

    /// A queue sends its first packet through an output into a channel.
    fn transmit(&mut self, output: usize, queue: usize, channel: usize, now: u64, events: &mut impl Queue) {
        let input = &mut self.inputs[queue];
        let index = input.head;
        let bit = input.bit;
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
        out.source = queue as u32;
        out.packet = index;
        out.last = bit;
        out.bytes += u64::from(packet.bytes);
        self.queueing.add(Time::from_ps(now - packet.arrived));
        if output < self.links {
            debug_assert_eq!(channel / self.channels, output);
            self.credits[channel] -= 1;
            packet.queue = channel as u32;
            packet.tail_in = tail + speed.hop_ps;
            self.packet_hops += 1;
            events.push(now + speed.hop_ps, event::HEAD | u64::from(index));
        }
        events.push(tail, event::TAIL | output as u64);
        self.leave(queue, tail, now, events);
    }

    /// The first packet of a queue has begun to leave. Its room empties as it goes, and the next packet fills it no faster than its link
    /// carries it: so the sender may start when the rest of the one is gone by the time that the other has come. Between links of one
    /// speed that is at once, as with credits that are counted in flits.
    #[inline(always)]
    fn leave(&mut self, queue: usize, tail: u64, now: u64, events: &mut impl Queue) {
        if queue >= self.links * self.channels {
            return;
        }
        let upstream = &self.outputs[self.output_of(queue)];
        let at =
            tail.saturating_sub(self.speeds[usize::from(upstream.speed)].packet_ps).max(now) + self.credit_ps;
        if at == now {
            self.left.push(queue as u32);
        } else {
            events.push(at, event::CREDIT | queue as u64);
        }
    }

    /// Takes back what a packet with several ways has asked for.
    fn withdraw(&mut self, queue: usize, bit: u16) {
        let Input { head, router, .. } = self.inputs[queue];
        let mut found = std::mem::take(&mut self.found);
        let way = &mut self.packets[head as usize].way;
        self.wiring.candidates(way, router, &mut found);
        way.hops = way.hops.saturating_add(1);
        for candidate in &found {
            let first = candidate.link as usize * self.classes + usize::from(candidate.class);
            self.requests[first * self.words + usize::from(bit / 64)] &= !(1 << (bit % 64));
        }
        self.found = found;
    }

    /// A tail has left an output: the output is free, and so is the place in the buffer.
    fn tail(&mut self, output: usize, now: u64, events: &mut impl Queue) {
        // While it still counts as busy, the next packet of the queue only asks: others may have waited longer.
        let Output { source, packet, .. } = self.outputs[output];
        self.vacate(source as usize, packet, now, events);
        if output >= self.links {
            self.deliver(packet);
        }
        self.outputs[output].busy = false;
        self.arbitrate(output, now, events);
    }

    /// The first packet of a queue is gone: its place is free, and the next one asks.
    #[inline]
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

    /// The sender of a link learns of room in a buffer: a free output serves whoever waited for it.
    #[inline]
    fn credit(&mut self, channel: usize, now: u64, events: &mut impl Queue) {
        self.credits[channel] += 1;
        let output = self.output_of(channel);
        let Output { busy, last, through, .. } = self.outputs[output];
        if busy {
            return;
        }
        let class = usize::from(self.inputs[channel].class);
        let first = (output * self.classes + class) * self.words;
        let room = self.credits[channel];
        let asked = |word: usize| match room >= self.entrance {
            true => self.requests[first + word],
            false => self.requests[first + word] & ones(usize::from(through).saturating_sub(64 * word)),
        };
        let bit = match self.words {
            1 => next_bit(asked(0), last),
            words => next_of_words(words, last, asked),
        };
        if let Some(bit) = bit {
            self.serve(output, class, bit, channel, now, events);
        }
    }

    /// The link that feeds a queue.
    #[inline(always)]
    fn output_of(&self, queue: usize) -> usize {
        match self.channels {
            1 => queue,
            2 => queue / 2,
            channels => queue / channels,
        }
    }

    /// The first packet of a queue leaves the network, limited by nothing but its own tail.
    fn drain(&mut self, queue: usize, now: u64, events: &mut impl Queue) {
        let input = &mut self.inputs[queue];
        input.sending = true;
        let packet = &self.packets[input.head as usize];
        // At the rate of the link it came over; from a slot, at that of the network's links.
        let speed = match self.outputs.get(self.output_of(queue)) {
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

/// Room that a packet from an interface needs ahead. Without a rule for channels, rings are to deadlock: then nothing keeps a place free either.
fn entrance(wiring: &Wiring, parameters: &Parameters) -> u16 {
    if wiring.has_rings() && parameters.channel_rule != ChannelRule::None {
        parameters.injection_room.min(parameters.buffer_packets) as u16
    } else {
        1
    }
}

/// The lowest so many bits.
#[inline]
fn ones(count: usize) -> u64 {
    if count >= 64 {
        !0
    } else {
        (1 << count) - 1
    }
}

/// The same over several words.
fn next_of_words(words: usize, last: u16, bits_of: impl Fn(usize) -> u64) -> Option<u16> {
    let start = usize::from(last / 64);
    let after = (!0u64 << (last % 64)) << 1;
    for turn in 0..=words {
        let word = (start + turn) % words;
        let mut bits = bits_of(word);
        if turn == 0 {
            bits &= after;
        } else if turn == words {
            bits &= !after;
        }
        if bits != 0 {
            return Some((word * 64) as u16 + bits.trailing_zeros() as u16);
        }
    }
    None
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
