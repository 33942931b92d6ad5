//! When a message arrives: the time of its way, and of its bytes through the interfaces at both ends.
//!
//! Messages of one rank leave one after another, those to one rank arrive one after another, and those of a pair arrive
//! in the order sent. In between they do not meet: contention inside the network is the packet engine's business.

use crate::{Bandwidth, Error, Network, Time};
use std::collections::HashMap;

/// What moves messages.
pub(super) struct Carrier {
    bandwidth: Bandwidth,
    hop: Time,
    overhead: Time,
    receive: Time,
    memory: Bandwidth,
    header_bytes: u64,
    packet_bytes: u64,
    hops: Hops,
    out_free: Vec<Time>,
    in_free: Vec<Time>,
    last: HashMap<(u32, u32), Time>,
}

/// How far it is from node to node.
enum Hops {
    /// Sizes of a grid, and whether each dimension wraps.
    Grid(Vec<(u32, bool)>),
    /// Everywhere alike.
    Same(u64),
}

impl Hops {
    fn between(&self, one: u32, other: u32) -> u64 {
        match self {
            Hops::Same(hops) => *hops,
            Hops::Grid(dimensions) => {
                let (mut one, mut other, mut hops) = (one, other, 0);
                for &(size, wraps) in dimensions {
                    let apart = (one % size).abs_diff(other % size);
                    hops += u64::from(if wraps { apart.min(size - apart) } else { apart });
                    (one, other) = (one / size, other / size);
                }
                hops
            }
        }
    }
}

impl Carrier {
    pub(super) fn new(network: &Network, ranks: u32) -> Result<Carrier, Error> {
        let parameters = &network.parameters;
        if parameters.packet_bytes == 0 {
            return Err(Error::Network("packet_bytes must be at least 1".to_owned()));
        }
        let hops = match &network.topology {
            crate::Topology::Grid(dimensions) => {
                Hops::Grid(dimensions.iter().map(|dimension| (dimension.size, dimension.wraps)).collect())
            }
            crate::Topology::FatTree { down, .. } => Hops::Same(2 * down.len() as u64),
            crate::Topology::Dragonfly { .. } => Hops::Same(5),
            crate::Topology::Graph(graph) => Hops::Same(u64::from(graph.routers).min(4)),
        };
        Ok(Carrier {
            bandwidth: parameters.nic_bandwidth.unwrap_or(parameters.link_bandwidth),
            hop: parameters.hop(),
            overhead: parameters.send_overhead,
            receive: parameters.recv_overhead,
            memory: parameters.memory_bandwidth,
            header_bytes: u64::from(parameters.header_bytes),
            packet_bytes: u64::from(parameters.packet_bytes),
            hops,
            out_free: vec![Time::ZERO; ranks as usize],
            in_free: vec![Time::ZERO; ranks as usize],
            last: HashMap::new(),
        })
    }

    /// With whom a rank has exchanged messages, in order.
    pub(super) fn partners(&self, rank: u32) -> Vec<u32> {
        let partner = |&(from, to): &(u32, u32)| match (from == rank, to == rank) {
            (true, false) => Some(to),
            (false, true) => Some(from),
            _ => None,
        };
        let mut partners: Vec<u32> = self.last.keys().filter_map(partner).collect();
        partners.sort_unstable();
        partners.dedup();
        partners
    }

    /// Time of the sender's processor for a message.
    pub(super) fn overhead(&self) -> Time {
        self.overhead
    }

    /// When a message that leaves now is there, `delay` included.
    pub(super) fn arrival(&mut self, from: u32, to: u32, bytes: u64, leaves: Time, delay: Time) -> Time {
        let packets = bytes.div_ceil(self.packet_bytes).max(1);
        let length = bytes + packets * self.header_bytes;
        let arrived = if from == to {
            leaves + self.memory.time_of(bytes)
        } else {
            let time = self.bandwidth.time_of(length);
            let begins = self.out_free[from as usize].max(leaves);
            self.out_free[from as usize] = begins + time;
            let head = begins + delay + self.hop * self.hops.between(from, to);
            let tail = self.in_free[to as usize].max(head) + time;
            self.in_free[to as usize] = tail;
            tail
        };
        let last = self.last.entry((from, to)).or_insert(Time::ZERO);
        *last = (*last).max(arrived + self.receive);
        *last
    }
}
