//! A model of tori and meshes that looks closer than the packet network, and was written apart from it: flits and cycles. Every cycle each output of a
//! router sends one flit, each input gives one; virtual channels belong to a packet from its head to its tail, and credits are counted in
//! flits. Slow and simple, it is here to be compared with, as BookSim is by others.

use std::collections::VecDeque;

pub(crate) const FLIT_BYTES: usize = 128;
pub(crate) const PACKET_FLITS: usize = 2048 / FLIT_BYTES;
/// 100 ns at 5 GB/s, in flit times of 25.6 ns.
const HOP_CYCLES: u64 = 4;
const CHANNELS: usize = 2;

/// Interfaces of a node, each with a port of the router.
const INTERFACES: usize = 4;

/// What is not the same in all comparisons.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// Buffer space of a channel.
    pub(crate) buffer_packets: usize,
    /// Channels of an interface's port, which its packets take in turn.
    pub(crate) entrances: usize,
    /// For what is drawn.
    pub(crate) seed: u64,
}

#[derive(Clone, Copy)]
struct Flit {
    packet: usize,
    head: bool,
    tail: bool,
}

struct Packet {
    to: usize,
    interface: usize,
    port: usize,
    channel: usize,
    hops_left: usize,
    ties: u64,
}

/// A virtual channel of an input: its flits with the cycle from which they can go on, and the output that its packet has.
#[derive(Default)]
struct Channel {
    flits: VecDeque<(u64, Flit)>,
    wants: Option<(usize, usize)>,
    granted: bool,
}

/// An interface: the messages it has still to send, as a target and packets, the packet that is entering with its next flit, and the channel of
/// its port that it enters by.
#[derive(Clone, Default)]
struct Interface {
    messages: VecDeque<(usize, usize)>,
    entering: Option<(usize, usize)>,
    channel: usize,
}

/// Routers in so many dimensions. The last ports of a router belong to its node.
pub(crate) struct Model {
    sizes: Vec<usize>,
    wraps: bool,
    ports: usize,
    buffer_flits: usize,
    inputs: Vec<Channel>,
    credits: Vec<usize>,
    taken: Vec<bool>,
    turn_of_channel: Vec<usize>,
    turn_of_output: Vec<usize>,
    returning: VecDeque<(u64, usize)>,
    packets: Vec<Packet>,
    random: u64,
    entrances: usize,
}

impl Model {
    pub(crate) fn new(sizes: &[usize], wraps: bool, setup: Setup) -> Model {
        let nodes: usize = sizes.iter().product();
        let ports = 2 * sizes.len() + INTERFACES;
        let channels = nodes * ports * CHANNELS;
        Model {
            sizes: sizes.to_vec(),
            wraps,
            ports,
            buffer_flits: setup.buffer_packets * PACKET_FLITS,
            inputs: (0..channels).map(|_| Channel::default()).collect(),
            credits: vec![setup.buffer_packets * PACKET_FLITS; channels],
            taken: vec![false; channels],
            turn_of_channel: vec![0; channels],
            turn_of_output: vec![0; nodes * ports],
            returning: VecDeque::new(),
            packets: Vec::new(),
            random: setup.seed,
            entrances: setup.entrances,
        }
    }

    /// Every node sends messages of so many packets; returns the microseconds until all have come.
    pub(crate) fn exchange(&mut self, packets: usize, targets: &[Vec<usize>]) -> f64 {
        let mut interfaces = vec![Interface::default(); targets.len() * INTERFACES];
        let mut missing = 0;
        for (node, targets) in targets.iter().enumerate() {
            for (index, &to) in targets.iter().enumerate() {
                interfaces[node * INTERFACES + (node + index) % INTERFACES].messages.push_back((to, packets));
                missing += packets;
            }
        }
        let mut now = 0;
        while missing > 0 {
            assert!(now < 1_000_000, "the model is stuck");
            while self.returning.front().is_some_and(|&(at, _)| at <= now) {
                let (_, channel) = self.returning.pop_front().unwrap();
                self.credits[channel] += 1;
            }
            for (index, interface) in interfaces.iter_mut().enumerate() {
                self.inject(index, interface, now);
            }
            for router in 0..targets.len() {
                self.allocate_channels(router, now);
                missing -= self.move_flits(router, now);
            }
            now += 1;
        }
        now as f64 * FLIT_BYTES as f64 / 5000.0
    }

    /// An interface puts a flit into a channel of its port, if there is room: the packets take the channels in turn, as far as there is room.
    fn inject(&mut self, index: usize, interface: &mut Interface, now: u64) {
        let (node, which) = (index / INTERFACES, index % INTERFACES);
        let first = self.channel(node, self.ports - INTERFACES + which, 0);
        let has_room = |channel: &usize| self.inputs[first + channel].flits.len() < self.buffer_flits;
        if interface.entering.is_none() {
            let Some((to, packets)) = interface.messages.front_mut() else { return };
            let in_turn = (1..=self.entrances).map(|after| (interface.channel + after) % self.entrances);
            let Some(channel) = in_turn.into_iter().find(has_room) else { return };
            let ties = draw(&mut self.random);
            self.packets.push(Packet { to: *to, interface: which, port: 0, channel: 0, hops_left: 0, ties });
            interface.entering = Some((self.packets.len() - 1, 0));
            interface.channel = channel;
            *packets -= 1;
            if *packets == 0 {
                interface.messages.pop_front();
            }
        }
        let Some((packet, flit)) = interface.entering.filter(|_| has_room(&interface.channel)) else {
            return;
        };
        let tail = flit + 1 == PACKET_FLITS;
        self.inputs[first + interface.channel].flits.push_back((now, Flit { packet, head: flit == 0, tail }));
        interface.entering = (!tail).then_some((packet, flit + 1));
    }

    fn channel(&self, router: usize, port: usize, channel: usize) -> usize {
        (router * self.ports + port) * CHANNELS + channel
    }

    fn is_link(&self, port: usize) -> bool {
        port < self.ports - INTERFACES
    }

    fn stride(&self, dimension: usize) -> usize {
        self.sizes[..dimension].iter().product()
    }

    fn coordinate(&self, router: usize, dimension: usize) -> usize {
        router / self.stride(dimension) % self.sizes[dimension]
    }

    /// Even ports go up in their dimension, odd ones down.
    fn neighbour(&self, router: usize, port: usize) -> usize {
        let (size, stride) = (self.sizes[port / 2], self.stride(port / 2));
        let at = self.coordinate(router, port / 2);
        let next = if port.is_multiple_of(2) { (at + 1) % size } else { (at + size - 1) % size };
        router - at * stride + next * stride
    }

    /// Dimension order; the channel is the second one for packets that go over the wrap-around link.
    fn route(&mut self, router: usize, packet: usize) -> (usize, usize) {
        if self.packets[packet].hops_left == 0 {
            let Packet { to, ties, interface, .. } = self.packets[packet];
            let (mut port, mut channel, mut hops) = (self.ports - INTERFACES + interface, 0, 0);
            for (dimension, &size) in self.sizes.iter().enumerate() {
                let (at, end) = (self.coordinate(router, dimension), self.coordinate(to, dimension));
                if at == end {
                    continue;
                }
                let ahead = (end + size - at) % size;
                let rising = match self.wraps {
                    false => end > at,
                    true if 2 * ahead == size => ties >> dimension & 1 == 0,
                    true => 2 * ahead < size,
                };
                hops = if rising { ahead } else { size - ahead };
                channel = usize::from(if rising { at + hops >= size } else { hops > at });
                port = 2 * dimension + usize::from(!rising);
                break;
            }
            let packet = &mut self.packets[packet];
            (packet.port, packet.channel, packet.hops_left) = (port, channel, hops);
        }
        (self.packets[packet].port, self.packets[packet].channel)
    }

    /// Channels of outputs go to packets in turn.
    fn allocate_channels(&mut self, router: usize, now: u64) {
        let (first, count) = (self.channel(router, 0, 0), self.ports * CHANNELS);
        let mut asked = false;
        for index in first..first + count {
            if let Some(&(ready, flit)) = self.inputs[index].flits.front() {
                if ready <= now && flit.head && self.inputs[index].wants.is_none() {
                    self.inputs[index].wants = Some(self.route(router, flit.packet));
                }
                asked |= !self.inputs[index].granted;
            }
        }
        for output in (first..first + count).filter(|_| asked) {
            if self.taken[output] {
                continue;
            }
            let wanted = Some(((output - first) / CHANNELS, output % CHANNELS));
            let start = self.turn_of_channel[output];
            let asks = |&index: &usize| {
                !self.inputs[first + index].granted && self.inputs[first + index].wants == wanted
            };
            if let Some(index) = (0..count).map(|at| (start + at) % count).find(asks) {
                self.inputs[first + index].granted = true;
                self.taken[output] = true;
                self.turn_of_channel[output] = index + 1;
            }
        }
    }

    /// Each output sends a flit, each input gives one; returns how many packets have come to their node.
    fn move_flits(&mut self, router: usize, now: u64) -> usize {
        let (first, count) = (self.channel(router, 0, 0), self.ports * CHANNELS);
        if self.inputs[first..first + count].iter().all(|input| !input.granted) {
            return 0;
        }
        let mut used = vec![false; self.ports];
        let mut delivered = 0;
        for turn in 0..self.ports {
            let port = (turn + now as usize) % self.ports;
            let start = self.turn_of_output[router * self.ports + port];
            let can_send = |&index: &usize| {
                let input = &self.inputs[first + index];
                let Some((wanted, channel)) = input.wants.filter(|_| input.granted) else { return false };
                let room = !self.is_link(port) || self.credits[first + port * CHANNELS + channel] > 0;
                let ready = input.flits.front().is_some_and(|&(ready, _)| ready <= now);
                wanted == port && ready && room && !used[index / CHANNELS]
            };
            let found = (0..count).map(|at| (start + at) % count).find(can_send);
            let Some(index) = found else { continue };
            used[index / CHANNELS] = true;
            self.turn_of_output[router * self.ports + port] = index + 1;
            delivered += self.move_flit(router, index, port, now);
        }
        delivered
    }

    /// A flit goes from an input over an output; returns 1 if it is the last of a packet that is where it should be.
    fn move_flit(&mut self, router: usize, index: usize, port: usize, now: u64) -> usize {
        let input = self.channel(router, 0, 0) + index;
        let (_, flit) = self.inputs[input].flits.pop_front().unwrap();
        let channel = self.inputs[input].wants.unwrap().1;
        let output = self.channel(router, port, channel);
        if self.is_link(index / CHANNELS) {
            let sender = self.neighbour(router, index / CHANNELS);
            let feeding = self.channel(sender, (index / CHANNELS) ^ 1, index % CHANNELS);
            self.returning.push_back((now + 1, feeding));
        }
        if flit.tail {
            self.taken[output] = false;
            self.inputs[input].wants = None;
            self.inputs[input].granted = false;
        }
        if !self.is_link(port) {
            return usize::from(flit.tail);
        }
        self.credits[output] -= 1;
        if flit.head {
            self.packets[flit.packet].hops_left -= 1;
        }
        let next = self.channel(self.neighbour(router, port), port ^ 1, channel);
        assert!(self.inputs[next].flits.len() < self.buffer_flits, "credits keep buffers from running over");
        self.inputs[next].flits.push_back((now + HOP_CYCLES, flit));
        0
    }
}

/// The next 64 bits of a stream.
fn draw(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (*random ^ (*random >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let bits = (bits ^ (bits >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    bits ^ (bits >> 32)
}
