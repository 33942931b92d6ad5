//! The life of a message: launched when its order allows, started when the side that has the data knows of it, carried by the network, taking effect
//! at its target, and acknowledged to whoever issued it. Requests, announcements and acknowledgements are not packets: they take the time
//! of the hops between their ranks.

use super::message::Receive;
use super::{kind, Carrier, Simulation};
use crate::fabric::Outgoing;
use crate::queue::Queue;
use crate::report::OperationKind;
use crate::wiring::NONE;
use crate::Time;

impl<Q: Queue> Simulation<'_, Q> {
    /// The time of a word between ranks.
    fn flight_ps(&self, from: u32, to: u32) -> u64 {
        let (from, to) = (self.node_of(from), self.node_of(to));
        if from == to {
            return 0;
        }
        self.run.wiring.flight_ps(from, to)
    }

    /// Tells a rank something: at once on the same node, otherwise after the time of the hops.
    fn tell(&mut self, from: u32, to: u32, what: u64, message: u32) {
        match self.flight_ps(from, to) {
            0 => self.handle(what, message),
            delay => self.push_in(delay, what, message),
        }
    }

    /// An operation begins.
    pub(super) fn launch(&mut self, id: u32) {
        let message = *self.messages.get(id);
        match message.kind {
            OperationKind::Send if message.bytes > self.run.parameters.rendezvous_bytes => {
                self.tell(message.from, message.to, kind::ANNOUNCED, id);
            }
            OperationKind::Send | OperationKind::Put => self.start(id),
            OperationKind::Get | OperationKind::Copy => {
                self.tell(message.initiator, message.from, kind::START, id);
            }
            OperationKind::Atomic => {
                let there_and_back = 2 * self.flight_ps(message.from, message.to);
                let at_target = self.run.parameters.atomic_time.as_ps();
                self.push_in(there_and_back + at_target, kind::ACKNOWLEDGED, id);
            }
            OperationKind::Recv => unreachable!("a receive is no message"),
        }
    }

    /// The data of a message enters the network.
    pub(super) fn start(&mut self, id: u32) {
        let message = *self.messages.get(id);
        if let Some(entry) = self.operations.get_mut(message.record as usize) {
            entry.started = Time::from_ps(self.now);
        }
        let parameters = self.run.parameters;
        let (from, to) = (self.node_of(message.from), self.node_of(message.to));
        if from == to {
            let time = parameters.memory_bandwidth.time_of(message.bytes).as_ps();
            self.push_in(time, kind::SENT, id);
            self.push_in(time, kind::ARRIVED, id);
            return;
        }
        let packets = parameters.packets_of(message.bytes);
        let wire_bytes = message.bytes + packets * u64::from(parameters.header_bytes);
        self.loads.add(from, to, wire_bytes);
        self.pacer.note(message.step, from, to);
        let flight_ps = self.run.wiring.flight_ps(from, to);
        self.longest_flight_ps = self.longest_flight_ps.max(flight_ps);
        let gap_ps = self.pacer.gap_ps(message.gap, message.step, from, to);
        let sender = &mut self.ranks[message.from as usize];
        let nic = (message.from.wrapping_add(sender.messages)) % parameters.nics;
        sender.messages = sender.messages.wrapping_add(1);
        let now = self.now;
        match &mut self.carrier {
            Carrier::Packets(fabric) => {
                let outgoing = Outgoing { message: id, from, to, bytes: message.bytes, gap_ps };
                fabric.send(outgoing, nic, now, &mut self.events);
            }
            Carrier::Uncontended(network) => {
                let passage =
                    network.pass((from, to), nic, wire_bytes, (packets - 1, gap_ps), flight_ps, now);
                self.events.push(passage.sent_ps, kind::SENT | u64::from(id));
                self.events.push(passage.arrived_ps, kind::ARRIVED | u64::from(id));
            }
        }
    }

    /// The last byte of a message has left its node.
    pub(super) fn sent(&mut self, id: u32) {
        let message = *self.messages.get(id);
        if message.kind == OperationKind::Send {
            self.complete(message.initiator, message.handle, message.record);
        }
    }

    /// All of a message is at its target.
    pub(super) fn arrived(&mut self, id: u32) {
        let message = self.messages.get_mut(id);
        message.arrived = true;
        if !message.follows {
            self.take_effect(id);
        }
    }

    /// A message, and those behind it that waited for it, take effect at their target.
    fn take_effect(&mut self, id: u32) {
        let mut next = id;
        while next != NONE {
            let id = next;
            next = self.messages.get(id).follower;
            if next != NONE {
                let follower = self.messages.get_mut(next);
                follower.follows = false;
                if !follower.arrived {
                    next = NONE;
                }
            }
            self.take_effect_alone(id);
        }
    }

    fn take_effect_alone(&mut self, id: u32) {
        self.undelivered -= 1;
        self.delivered += 1;
        let message = *self.messages.get(id);
        match message.kind {
            OperationKind::Send => match message.receive {
                Some(_) => self.finish_receive(id),
                None => self.offer(id),
            },
            OperationKind::Put | OperationKind::Copy => {
                if let Some(flag) = message.flag {
                    self.ranks[message.to as usize].state.raise(flag, self.now);
                    self.wake(message.to);
                }
                self.tell(message.to, message.initiator, kind::ACKNOWLEDGED, id);
            }
            OperationKind::Get => self.acknowledged(id),
            OperationKind::Atomic | OperationKind::Recv => unreachable!("carries no data"),
        }
        self.try_step();
    }

    /// The announcement of a message has come to its receiver.
    pub(super) fn announced(&mut self, id: u32) {
        self.offer(id);
    }

    /// Gives a message, or its announcement, to the first receive that matches, or keeps it for a later one.
    fn offer(&mut self, id: u32) {
        let message = *self.messages.get(id);
        let rank = &mut self.ranks[message.to as usize];
        let found = rank.posted.iter().position(|posted| message.matches(posted.from, posted.tag));
        match found.and_then(|at| rank.posted.remove(at)) {
            Some(posted) => self.matched(id, posted.receive),
            None => rank.unexpected.push_back(id),
        }
    }

    /// A message and a receive belong together.
    pub(super) fn matched(&mut self, id: u32, receive: Receive) {
        let message = self.messages.get_mut(id);
        message.receive = Some(receive);
        let message = *message;
        if message.bytes > receive.bytes {
            let text = format!(
                "receives {} bytes from rank {} (tag {}) into room for {}",
                message.bytes, message.from, message.tag, receive.bytes
            );
            return self.fail(message.to, text);
        }
        if let Some(entry) = self.operations.get_mut(receive.record as usize) {
            entry.peer = Some(message.from);
        }
        if message.arrived {
            self.finish_receive(id);
        } else if !message.asked && message.bytes > self.run.parameters.rendezvous_bytes {
            self.messages.get_mut(id).asked = true;
            self.tell(message.to, message.from, kind::START, id);
        }
    }

    /// The data of a receive is there: its CPU takes the receive overhead when it is free.
    fn finish_receive(&mut self, id: u32) {
        let to = self.messages.get(id).to;
        let overhead = self.run.parameters.recv_overhead.as_ps();
        if overhead == 0 {
            return self.received(id);
        }
        let rank = &mut self.ranks[to as usize];
        rank.cpu_ps = rank.cpu_ps.max(self.now) + overhead;
        let at = rank.cpu_ps;
        self.events.push(at, kind::RECEIVED | u64::from(id));
    }

    pub(super) fn received(&mut self, id: u32) {
        let message = *self.messages.get(id);
        let receive = message.receive.expect("only a matched message is received");
        self.messages.forget(id);
        self.complete(message.to, receive.handle, receive.record);
    }

    /// Word of the end of an operation is back.
    pub(super) fn acknowledged(&mut self, id: u32) {
        let message = *self.messages.get(id);
        self.messages.forget(id);
        if message.kind == OperationKind::Atomic {
            self.undelivered -= 1;
            self.delivered += 1;
        }
        self.complete(message.initiator, message.handle, message.record);
        if message.kind == OperationKind::Atomic {
            self.try_step();
        }
    }
}
