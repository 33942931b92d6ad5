//! The packet network against a model that was written apart from it and looks closer: flits and cycles. Every cycle each output of a router sends one
//! flit, each input gives one; virtual channels belong to a packet from its head to its tail, and credits are counted in flits. Slow and
//! simple, it is here to be compared with, as BookSim is by others.

use kumiki_sim::{run_pattern, Network, Options, Pattern, PatternKind};
use std::collections::VecDeque;

const FLIT_BYTES: usize = 128;
const PACKET_FLITS: usize = 2048 / FLIT_BYTES;
/// 100 ns at 5 GB/s, in flit times of 25.6 ns.
const HOP_CYCLES: u64 = 4;
const CHANNELS: usize = 2;

#[derive(Clone, Copy)]
struct Flit {
    packet: usize,
    head: bool,
    tail: bool,
}

struct Packet {
    to: usize,
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

/// A torus of the given size in each of three dimensions. The last port of a router belongs to its node.
struct Torus {
    size: usize,
    buffer_flits: usize,
    inputs: Vec<Channel>,
    credits: Vec<usize>,
    taken: Vec<bool>,
    turn_of_channel: Vec<usize>,
    turn_of_output: Vec<usize>,
    returning: VecDeque<(u64, usize)>,
    packets: Vec<Packet>,
    random: u64,
}

const PORTS: usize = 7;
const NODE: usize = 6;

impl Torus {
    fn new(size: usize, buffer_packets: usize) -> Torus {
        let channels = size.pow(3) * PORTS * CHANNELS;
        Torus {
            size,
            buffer_flits: buffer_packets * PACKET_FLITS,
            inputs: (0..channels).map(|_| Channel::default()).collect(),
            credits: vec![buffer_packets * PACKET_FLITS; channels],
            taken: vec![false; channels],
            turn_of_channel: vec![0; channels],
            turn_of_output: vec![0; size.pow(3) * PORTS],
            returning: VecDeque::new(),
            packets: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn coordinate(&self, router: usize, dimension: usize) -> usize {
        router / self.size.pow(dimension as u32) % self.size
    }

    fn neighbour(&self, router: usize, port: usize) -> usize {
        let (stride, at) = (self.size.pow(port as u32 / 2), self.coordinate(router, port / 2));
        let next = if port % 2 == 0 { (at + 1) % self.size } else { (at + self.size - 1) % self.size };
        router - at * stride + next * stride
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Dimension order; the channel is the second one for packets that go over the wrap-around link.
    fn route(&mut self, router: usize, packet: usize) -> (usize, usize) {
        if self.packets[packet].hops_left == 0 {
            let (to, ties) = (self.packets[packet].to, self.packets[packet].ties);
            let (mut port, mut channel, mut hops) = (NODE, 0, 0);
            for dimension in 0..3 {
                let (at, end) = (self.coordinate(router, dimension), self.coordinate(to, dimension));
                if at == end {
                    continue;
                }
                let ahead = (end + self.size - at) % self.size;
                let rising =
                    if 2 * ahead == self.size { ties >> dimension & 1 == 0 } else { 2 * ahead < self.size };
                hops = if rising { ahead } else { self.size - ahead };
                channel = usize::from(if rising { at + hops >= self.size } else { hops > at });
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
        let first = router * PORTS * CHANNELS;
        for index in first..first + PORTS * CHANNELS {
            if let Some(&(ready, flit)) = self.inputs[index].flits.front() {
                if ready <= now && flit.head && self.inputs[index].wants.is_none() {
                    self.inputs[index].wants = Some(self.route(router, flit.packet));
                }
            }
        }
        for output in first..first + PORTS * CHANNELS {
            if self.taken[output] {
                continue;
            }
            let (port, channel) = ((output - first) / CHANNELS, output % CHANNELS);
            let start = self.turn_of_channel[output];
            let asks = |index: usize| {
                let input = &self.inputs[first + index];
                !input.granted
                    && input
                        .wants
                        .is_some_and(|(wanted, on)| wanted == port && (on == channel || port == NODE))
            };
            let found =
                (0..PORTS * CHANNELS).map(|at| (start + at) % (PORTS * CHANNELS)).find(|&index| asks(index));
            if let Some(index) = found {
                self.inputs[first + index].granted = true;
                self.inputs[first + index].wants = Some((port, channel));
                self.taken[output] = true;
                self.turn_of_channel[output] = index + 1;
            }
        }
    }

    /// Each output sends a flit, each input gives one; returns how many packets have come to their node.
    fn move_flits(&mut self, router: usize, now: u64) -> usize {
        let first = router * PORTS * CHANNELS;
        let mut used = [false; PORTS];
        let mut delivered = 0;
        for port in (0..PORTS).map(|port| (port + now as usize) % PORTS) {
            let start = self.turn_of_output[router * PORTS + port];
            let can_send = |index: usize| {
                let input = &self.inputs[first + index];
                let Some((wanted, channel)) = input.wants.filter(|_| input.granted) else { return false };
                let room = port == NODE || self.credits[first + port * CHANNELS + channel] > 0;
                let ready = input.flits.front().is_some_and(|&(ready, _)| ready <= now);
                wanted == port && ready && room && !used[index / CHANNELS]
            };
            let found = (0..PORTS * CHANNELS)
                .map(|at| (start + at) % (PORTS * CHANNELS))
                .find(|&index| can_send(index));
            let Some(index) = found else { continue };
            used[index / CHANNELS] = true;
            self.turn_of_output[router * PORTS + port] = index + 1;
            let (_, flit) = self.inputs[first + index].flits.pop_front().unwrap();
            let channel = self.inputs[first + index].wants.unwrap().1;
            let output = first + port * CHANNELS + channel;
            if index / CHANNELS != NODE {
                let sender = self.neighbour(router, index / CHANNELS);
                let feeding = (sender * PORTS + ((index / CHANNELS) ^ 1)) * CHANNELS + index % CHANNELS;
                self.returning.push_back((now + 1, feeding));
            }
            if port == NODE {
                delivered += usize::from(flit.tail);
            } else {
                self.credits[output] -= 1;
                if flit.head {
                    self.packets[flit.packet].hops_left -= 1;
                }
                let next = self.neighbour(router, port);
                self.inputs[(next * PORTS + (port ^ 1)) * CHANNELS + channel]
                    .flits
                    .push_back((now + HOP_CYCLES, flit));
            }
            if flit.tail {
                self.taken[output] = false;
                self.inputs[first + index].wants = None;
                self.inputs[first + index].granted = false;
            }
        }
        delivered
    }

    /// Every node sends so many packets to its partner; returns the cycles until all have come.
    fn exchange(&mut self, packets: usize, partner: impl Fn(usize) -> usize) -> u64 {
        let nodes = self.size.pow(3);
        let mut sent = vec![0; nodes];
        let mut entering: Vec<Option<(usize, usize, usize)>> = vec![None; nodes];
        let mut delivered = 0;
        let mut now = 0;
        while delivered < packets * nodes {
            assert!(now < 1_000_000, "the model is stuck");
            while self.returning.front().is_some_and(|&(at, _)| at <= now) {
                let (_, channel) = self.returning.pop_front().unwrap();
                self.credits[channel] += 1;
            }
            for node in 0..nodes {
                let buffer = (node * PORTS + NODE) * CHANNELS;
                if entering[node].is_none() && sent[node] < packets {
                    let free =
                        (buffer..buffer + CHANNELS).find(|&channel| self.inputs[channel].flits.is_empty());
                    if let Some(channel) = free {
                        let ties = self.draw();
                        self.packets.push(Packet {
                            to: partner(node),
                            port: 0,
                            channel: 0,
                            hops_left: 0,
                            ties,
                        });
                        entering[node] = Some((self.packets.len() - 1, 0, channel));
                        sent[node] += 1;
                    }
                }
                if let Some((packet, flit, channel)) = entering[node] {
                    if self.inputs[channel].flits.len() < self.buffer_flits {
                        let tail = flit + 1 == PACKET_FLITS;
                        self.inputs[channel].flits.push_back((now, Flit { packet, head: flit == 0, tail }));
                        entering[node] = (!tail).then_some((packet, flit + 1, channel));
                    }
                }
            }
            for router in 0..nodes {
                self.allocate_channels(router, now);
                delivered += self.move_flits(router, now);
            }
            now += 1;
        }
        now
    }
}

#[test]
fn synchronised_steps_on_64_nodes_agree_with_flits_within_10_percent() {
    for (kind, bytes) in [(PatternKind::ShiftPairwise, 65_536), (PatternKind::XorPairwise, 65_536)] {
        let network = Network::parse_short("torus:4x4x4,buffers=2,ties=random").unwrap();
        let mut pattern = Pattern::new(kind, &network);
        pattern.bytes = bytes;
        let report =
            run_pattern(&network, &pattern, &Options { sync_steps: true, ..Options::default() }).unwrap();
        // Every second step is enough, and half the time.
        let mut cycles = 0;
        let mut time_us = 0.0;
        for step in (1..64usize).step_by(2) {
            time_us += report.steps[step - 1].time.as_us();
            let partner = |rank: usize| match kind {
                PatternKind::XorPairwise => rank ^ step,
                _ => (rank + step) % 64,
            };
            cycles += Torus::new(4, 2).exchange(bytes as usize / 2048, partner);
        }
        let flits_us = cycles as f64 * FLIT_BYTES as f64 / 5000.0;
        let deviation = time_us / flits_us - 1.0;
        println!("{}: {time_us:.1} µs, flits {flits_us:.1} µs, {:+.1} %", kind.name(), 100.0 * deviation);
        assert!(deviation.abs() < 0.1, "{}: {time_us:.1} against {flits_us:.1} µs", kind.name());
    }
}
