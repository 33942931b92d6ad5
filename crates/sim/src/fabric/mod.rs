//! The packet network: virtual cut-through with credits. A packet waits in a queue (a virtual channel at the far end of a link, or a slot of a
//! network interface) until the output it wants is free and the next buffer has room; then its head is at the next router a hop later, and
//! its tail leaves a packet time later, which frees the output. Outputs serve their queues in turn.
//!
//! An event is made only where something is to be done when it comes. A packet joins the next queue when it starts: its head is an event only if
//! nobody is in front of it there, and its tail only if somebody waits for what it frees. So a hop takes two events at most, and under
//! load little more than one.
//!
//! On long rings, and where buffers have places to spare, a packet from an interface enters only where there is room for one more behind it:
//! otherwise those that enter would take every place that those on their way wait for.
//!
//! | file | what |
//! |---|---|
//! | `mod` | queues and outputs, and how they are connected |
//! | `switch` | asking for outputs, arbitration, going from queue to queue |
//! | `nic` | network interfaces: how packets come in |
//! | `port` | the way from the channels of a link into the router |
//! | `exit` | how they come out |
//! | `stuck` | the circle of buffers when nothing moves |

mod exit;
mod nic;
mod port;
mod stuck;
mod switch;

use crate::engine::LONGEST_PS;
use crate::queue::Queue;
use crate::random::Random;
use crate::report::Histogram;
use crate::wiring::{Candidate, Speed, Way, Ways, Wiring, NONE};
use crate::{Crossbar, Parameters};
pub(crate) use nic::Outgoing;
use nic::{Nic, Waiting};
use std::ops::Deref;
use switch::WORD;

/// Kinds of events, in the four bits above the value. Those of the engine begin at [`event::ENGINE`].
pub(crate) mod event {
    /// The head of the first packet of a queue is there, and the packet before it is gone.
    pub(crate) const HEAD: u64 = 0;
    /// The tail of a packet has left an output.
    pub(crate) const TAIL: u64 = 1 << 32;
    /// An interface may send its next packet.
    pub(crate) const NIC: u64 = 2 << 32;
    /// Room in a buffer has become known to the sender.
    pub(crate) const CREDIT: u64 = 3 << 32;
    /// A packet has left the network.
    pub(crate) const EXIT: u64 = 4 << 32;
    /// No event of the queue: there are notes for the engine.
    pub(crate) const NOTES: u64 = 7 << 32;
    /// The first kind of the engine.
    pub(crate) const ENGINE: u64 = 8 << 32;
    /// The part that is not the kind.
    pub(crate) const VALUE: u64 = (1 << 32) - 1;
}

/// A packet in the network. Two of them lie in one cache line.
#[repr(align(32))]
struct Packet {
    /// When its head comes to where it is.
    arrived: u64,
    message: u32,
    /// The packet behind it in its queue; while it leaves the network, the queue that it comes from.
    next: u32,
    /// Its way, whose label says to which interface it goes, and whether it is the last of its message.
    way: Way,
}

const _: () = assert!(size_of::<Packet>() == 32);

impl Packet {
    /// The bit of the label for the last packet of a message.
    const LAST: u8 = 1 << 7;

    #[inline(always)]
    fn is_last(&self) -> bool {
        self.way.label & Packet::LAST != 0
    }

    /// The interface it goes to.
    #[inline(always)]
    fn nic(&self) -> usize {
        usize::from(self.way.label & !Packet::LAST)
    }
}

/// What is known of a message while its packets are in the network.
#[derive(Clone, Copy, Default)]
struct Rest {
    /// How many of them have not come.
    packets: u32,
    /// Bytes on the wire of the last one; the others are full.
    last_bytes: u32,
}

impl Rest {
    /// The bytes of its last packet, and the time that they take.
    #[inline(always)]
    fn time_on(self, speed: &Speed, packet_bytes: u32) -> (u32, u64) {
        match self.last_bytes {
            bytes if bytes == packet_bytes => (bytes, speed.packet_ps),
            bytes => (bytes, speed.bandwidth.time_of(u64::from(bytes)).as_ps()),
        }
    }
}

/// Where packets wait: a virtual channel at the end of a link, or a slot of an interface.
#[derive(Clone, Copy)]
struct Input {
    /// When the tail of the packet that has left it last is gone, or [`TOLD`].
    gone: u64,
    /// Its first and its last packet. Of a slot, the last is the one that is in it, also while it leaves.
    head: u32,
    tail: u32,
    router: u32,
    place: Place,
    /// How many more packets its sender may send, and whether anybody waits for that.
    room: Room,
}

const _: () = assert!(size_of::<Input>() == 24);

/// The bit of a queue in the requests of its router's outputs, and whether it is set in any.
#[derive(Clone, Copy)]
struct Place(u16);

impl Place {
    const ASKED: u16 = 1 << 15;

    #[inline(always)]
    fn bit(self) -> u16 {
        self.0 & !Place::ASKED
    }

    #[inline(always)]
    fn has_asked(self) -> bool {
        self.0 & Place::ASKED != 0
    }

    #[inline(always)]
    fn set_asked(&mut self, asked: bool) {
        self.0 = self.bit() | if asked { Place::ASKED } else { 0 };
    }
}

/// Room in a buffer.
#[derive(Clone, Copy)]
struct Room(u16);

impl Room {
    /// The bit that says that the link to the buffer is free but somebody who asks for it needs more room.
    const AWAITED: u16 = 1 << 15;
    /// The most packets of a buffer.
    const MOST: u16 = Room::AWAITED - 1;

    #[inline(always)]
    fn packets(self) -> u16 {
        self.0 & Room::MOST
    }
}

/// The time of a tail that has an event of its own, which is to be waited for.
const TOLD: u64 = u64::MAX;

/// A link, or the way out to an interface.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Output {
    /// When the tail of its packet leaves it, or [`TOLD`].
    until: u64,
    /// The queues that ask for it, for each class a word, in a plain network.
    requests: [u32; 2],
    /// The queue that sends, if it is to be told of the tail.
    source: u32,
    /// Where the queues of its router begin in the table.
    table: u32,
    /// The bit of the queue that was served last.
    last: u16,
    /// The queues with lower bits than this belong to links, the others to interfaces.
    through: u16,
    speed: u16,
    health: Health,
}

/// Whether a link can be used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Up,
    /// It goes down when its packet has left.
    Failing,
    Down,
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

/// The network in operation, over a wiring that it borrows or shares.
pub(crate) struct Fabric<W: Deref<Target = Wiring>> {
    wiring: W,
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
    /// What a message costs its interface beside its packets.
    message_ps: u64,
    credit_ps: u64,
    /// The time of the latest of its events.
    now: u64,
    /// Room that a packet from an interface needs ahead.
    entrance: u16,
    /// Whether the channels of a link share one way into the router.
    shared_ports: bool,
    /// Queues whose first packet has begun to leave: their senders are to be told.
    left: Vec<u32>,
    /// Speeds of links, and the interface's last.
    speeds: Vec<Speed>,
    /// The speed of all links of a plain network.
    speed: Speed,
    nic_limited: bool,
    /// Whether this is a grid with one way, two classes of one channel each, few queues at a router, and interfaces as fast as the links:
    /// most are, and what is done for each packet is compiled once for them alone.
    plain: bool,
    outputs: Vec<Output>,
    /// Bytes that each link has carried.
    carried: Vec<u64>,
    /// The queues that ask for each output, for each class so many words, in a network that is not plain.
    requests: Vec<u32>,
    /// First those of links, then those of interfaces.
    inputs: Vec<Input>,
    link_queues: usize,
    /// For each router, which queue a bit of the requests stands for.
    queue_of_bit: Vec<u32>,
    packets: Vec<Packet>,
    /// For each packet, when its tail comes to where it is. In a plain network that is a packet time behind its head, which no output outruns.
    tails_in: Vec<u64>,
    unused: Vec<u32>,
    /// By message.
    rests: Vec<Rest>,
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
    waited: [u64; Histogram::BUCKETS],
}

impl<W: Deref<Target = Wiring>> Fabric<W> {
    /// An empty network.
    pub(crate) fn new(wiring: W, parameters: &Parameters, seed: u64) -> Fabric<W> {
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
            links,
            classes,
            lanes,
            channels,
            words: 1,
            nics_per_node: parameters.nics,
            slots: parameters.injection_slots,
            packet_bytes,
            header_bytes: parameters.header_bytes,
            message_ps: parameters.message_time.as_ps(),
            credit_ps: parameters.credit_delay.as_ps(),
            now: 0,
            entrance: parameters.room_to_enter(wiring.longest_ring()) as u16,
            shared_ports: parameters.crossbar == Crossbar::Shared,
            left: Vec::new(),
            nic_limited: parameters.nic_bandwidth.is_some(),
            speed: speeds[0],
            speeds,
            outputs: Vec::new(),
            carried: vec![0; links],
            plain: false,
            requests: Vec::new(),
            inputs: Vec::new(),
            link_queues: links * channels,
            queue_of_bit: Vec::new(),
            packets: Vec::new(),
            tails_in: Vec::new(),
            unused: Vec::new(),
            rests: Vec::new(),
            nics: Vec::new(),
            waiting: Vec::new(),
            unused_waiting: Vec::new(),
            random: Random::of(seed, 0xfab, 0),
            found: Vec::new(),
            notes: Vec::new(),
            packet_hops: 0,
            delivered: 0,
            most_in_flight: 0,
            waited: [0; Histogram::BUCKETS],
            wiring,
        };
        fabric.connect(parameters.buffer_packets as u16);
        fabric
    }

    /// Makes queues and outputs, and tells each queue its bit at its router.
    fn connect(&mut self, room: u16) {
        let wiring = &*self.wiring;
        let nics = wiring.nodes as usize * self.nics_per_node as usize;
        let mut of_router: Vec<Vec<u32>> = vec![Vec::new(); wiring.routers as usize];
        let empty =
            Input { gone: 0, head: NONE, tail: NONE, router: NONE, place: Place(0), room: Room(room) };
        let add = |inputs: &mut Vec<Input>, of_router: &mut Vec<Vec<u32>>, router: u32| {
            let queues = &mut of_router[router as usize];
            let place = Place(queues.len() as u16);
            queues.push(inputs.len() as u32);
            inputs.push(Input { router, place, ..empty });
        };
        for link in &wiring.links {
            for _ in 0..self.channels {
                // A link that leads nowhere keeps its numbers but is at no router.
                if link.to == NONE {
                    self.inputs.push(empty);
                } else {
                    add(&mut self.inputs, &mut of_router, link.to);
                }
            }
        }
        for nic in 0..nics {
            let router = wiring.router_of(nic as u32 / self.nics_per_node);
            for _ in 0..self.slots {
                add(&mut self.inputs, &mut of_router, router);
            }
        }
        let mut tables = Vec::with_capacity(of_router.len());
        let link_queues = self.link_queues;
        let throughs: Vec<u16> = of_router
            .iter()
            .map(|queues| queues.iter().filter(|&&queue| (queue as usize) < link_queues).count() as u16)
            .collect();
        for queues in &of_router {
            tables.push(self.queue_of_bit.len() as u32);
            self.queue_of_bit.extend_from_slice(queues);
            self.words = self.words.max(queues.len().div_ceil(WORD));
        }
        let output = |router: u32, speed: u16| Output {
            until: 0,
            requests: [0; 2],
            source: NONE,
            table: tables[router as usize],
            last: 0,
            through: throughs[router as usize],
            speed,
            health: Health::Up,
        };
        self.outputs.extend(wiring.links.iter().map(|link| output(link.from, link.speed)));
        let nic_speed = self.speeds.len() as u16 - 1;
        let routers = (0..nics).map(|nic| wiring.router_of(nic as u32 / self.nics_per_node));
        self.outputs.extend(routers.map(|router| output(router, nic_speed)));
        self.plain = matches!(wiring.ways, Ways::Grid(_))
            && !wiring.several_ways
            && (self.classes, self.lanes, self.words) == (2, 1, 1)
            && self.speeds.iter().all(|speed| speed.bandwidth == self.speed.bandwidth);
        if !self.plain {
            self.requests = vec![0; self.outputs.len() * self.classes * self.words];
        }
        let free = !0 >> (32 - self.slots);
        self.nics = (0..nics).map(|_| Nic::new(free)).collect();
        self.inputs.shrink_to_fit();
        self.queue_of_bit.shrink_to_fit();
        self.outputs.shrink_to_fit();
    }

    /// Handles its events until one comes that is for the engine, or there are notes. Counts those that came.
    pub(crate) fn run(&mut self, events: &mut impl Queue, handled: &mut u64) -> Option<(u64, u64)> {
        match self.plain {
            true => self.run_in::<true>(events, handled),
            false => self.run_in::<false>(events, handled),
        }
    }

    fn run_in<const PLAIN: bool>(
        &mut self,
        events: &mut impl Queue,
        handled: &mut u64,
    ) -> Option<(u64, u64)> {
        let mut count = 0;
        let found = loop {
            if !self.notes.is_empty() {
                break Some((self.now, event::NOTES));
            }
            let Some((now, event)) = events.pop() else { break None };
            count += 1;
            if event >= event::ENGINE || now > LONGEST_PS {
                break Some((now, event));
            }
            self.now = now;
            self.handle::<PLAIN>(now, event, events);
        };
        *handled += count;
        found
    }

    /// Handles one of its events.
    #[inline(always)]
    fn handle<const PLAIN: bool>(&mut self, now: u64, event: u64, events: &mut impl Queue) {
        let value = (event & event::VALUE) as u32;
        match event & !event::VALUE {
            event::TAIL => self.tail::<PLAIN>(value as usize, now, events),
            event::HEAD => self.head::<PLAIN>(value as usize, now, events),
            event::NIC => self.nic_ready::<PLAIN>(value, now, events),
            event::CREDIT => self.credit::<PLAIN>(value as usize, now, events),
            _ => self.exited::<PLAIN>(value, now, events),
        }
        self.tell_senders::<PLAIN>(now, events);
    }

    /// The bytes of a packet of a message on the wire, and the time that they take.
    #[inline(always)]
    fn time_on(&self, speed: &Speed, message: u32, last: bool) -> (u32, u64) {
        match last {
            true => self.rests[message as usize].time_on(speed, self.packet_bytes),
            false => (self.packet_bytes, speed.packet_ps),
        }
    }

    /// Packets in the network now.
    pub(crate) fn in_flight(&self) -> u64 {
        (self.packets.len() - self.unused.len()) as u64
    }

    /// What each link has carried, in bytes.
    pub(crate) fn link_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.carried.iter().copied()
    }

    /// How long packets have waited at each hop.
    pub(crate) fn queueing(&self) -> Histogram {
        Histogram { counts: self.waited.to_vec() }
    }

    /// Bytes of state that grow with the network, not with what is in it.
    pub(crate) fn bytes(&self) -> usize {
        self.outputs.capacity() * size_of::<Output>()
            + self.carried.capacity() * size_of::<u64>()
            + self.requests.capacity() * size_of::<u32>()
            + self.inputs.capacity() * size_of::<Input>()
            + self.queue_of_bit.capacity() * size_of::<u32>()
            + self.nics.capacity() * size_of::<Nic>()
    }
}
