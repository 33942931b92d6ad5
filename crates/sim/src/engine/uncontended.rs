//! The network without contention (LogGOPS): a message takes its interface for its bytes, then the time of its hops, then the interface of the
//! receiver. Links are never shared. The ideal line of every plot, and an oracle for tests.

use crate::wiring::Wiring;
use crate::{Bandwidth, Parameters};

/// When each interface is free.
pub(super) struct Uncontended {
    sending_ps: Vec<u64>,
    receiving_ps: Vec<u64>,
    nics: u32,
    bandwidth: Bandwidth,
    message_ps: u64,
}

/// When a message has left and when it has come.
pub(super) struct Passage {
    pub(super) sent_ps: u64,
    pub(super) arrived_ps: u64,
}

impl Uncontended {
    pub(super) fn new(wiring: &Wiring, parameters: &Parameters) -> Uncontended {
        let nics = wiring.nodes as usize * parameters.nics as usize;
        let nic = parameters.nic_bandwidth.unwrap_or(parameters.link_bandwidth);
        Uncontended {
            sending_ps: vec![0; nics],
            receiving_ps: vec![0; nics],
            nics: parameters.nics,
            bandwidth: nic.min(parameters.link_bandwidth),
            message_ps: parameters.message_time.as_ps(),
        }
    }

    /// Sends bytes (headers included) from node to node; `gaps` are how many lie between its packets, and how long one is.
    pub(super) fn pass(
        &mut self,
        nodes: (u32, u32),
        nic: u32,
        wire_bytes: u64,
        gaps: (u64, u64),
        flight_ps: u64,
        now: u64,
    ) -> Passage {
        let sender = &mut self.sending_ps[(nodes.0 * self.nics + nic) as usize];
        let receiver = &mut self.receiving_ps[(nodes.1 * self.nics + nic) as usize];
        let busy = self.bandwidth.time_of(wire_bytes).as_ps() + gaps.0 * gaps.1;
        let start = now.max(*sender);
        // One more gap lies behind the last packet.
        let sent = start + busy;
        *sender = sent + self.message_ps.max(gaps.1);
        let arrived = (start + flight_ps).max(*receiver) + busy;
        *receiver = arrived;
        Passage { sent_ps: sent, arrived_ps: arrived }
    }
}
