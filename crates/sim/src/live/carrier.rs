//! What carries messages: the packet network of the engine, fed as the program goes.
//!
//! A message is a flight until all of its packets have come. What is lost of it flies again. The messages of a pair take
//! effect in the order sent, as on a connection: one that has overtaken another waits for it.

use super::agenda::{Agenda, Event};
use super::hall::Frame;
use crate::fabric::{event, Fabric, Note, Outgoing};
use crate::wiring::{Wiring, NONE};
use crate::{Error, Network, Pacing, Parameters, Time};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a message is for.
#[derive(Debug)]
pub(super) enum Cargo {
    Frame(Box<Frame>),
    /// The last word of a rank that leaves.
    Goodbye,
}

/// A message under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) from: u32,
    pub(super) to: u32,
    /// What has still to come.
    pub(super) bytes: u64,
    /// When it was first sent.
    pub(super) since: Time,
    /// Tells this message from an earlier one in the same place.
    pub(super) serial: u64,
    /// Its place among the messages of its pair.
    turn: u64,
    cargo: Cargo,
}

/// A pair of ranks, in one direction.
#[derive(Default)]
struct Connection {
    /// Messages sent, and messages that have taken effect.
    sent: u64,
    taken: u64,
    /// Those that have come before their turn.
    early: BTreeMap<u64, Cargo>,
}

/// What carries messages.
pub(super) struct Carrier {
    wiring: Arc<Wiring>,
    fabric: Fabric<Arc<Wiring>>,
    parameters: Parameters,
    pacing: Pacing,
    flights: Vec<Option<Flight>>,
    unused: Vec<u32>,
    serial: u64,
    connections: HashMap<(u32, u32), Connection>,
    /// With whom each rank has exchanged messages.
    partners: Vec<Vec<u32>>,
    /// Messages of each rank, which take its interfaces in turn.
    injected: Vec<u32>,
}

impl Carrier {
    pub(super) fn new(network: &Network, ranks: u32, pacing: Pacing, seed: u64) -> Result<Carrier, Error> {
        if pacing == Pacing::Overlap {
            return Err(Error::Options(
                "pacing by overlap: a program has no steps to count messages in; write off, hops or a time"
                    .to_owned(),
            ));
        }
        let wiring = Arc::new(Wiring::new(network)?);
        let parameters = network.parameters.clone();
        Ok(Carrier {
            fabric: Fabric::new(wiring.clone(), &parameters, seed),
            wiring,
            parameters,
            pacing,
            flights: Vec::new(),
            unused: Vec::new(),
            serial: 0,
            connections: HashMap::new(),
            partners: vec![Vec::new(); ranks as usize],
            injected: vec![0; ranks as usize],
        })
    }

    pub(super) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// (packets that have come, their hops).
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.fabric.delivered, self.fabric.packet_hops)
    }

    /// With whom a rank has exchanged messages, in order.
    pub(super) fn partners(&self, rank: u32) -> Vec<u32> {
        let mut partners = self.partners[rank as usize].clone();
        partners.sort_unstable();
        partners
    }

    /// Takes a message that is sent now; it flies when it is launched.
    pub(super) fn book(&mut self, from: u32, to: u32, bytes: u64, since: Time, cargo: Cargo) -> u32 {
        if !self.connections.contains_key(&(from, to))
            && !self.connections.contains_key(&(to, from))
            && from != to
        {
            self.partners[from as usize].push(to);
            self.partners[to as usize].push(from);
        }
        let connection = self.connections.entry((from, to)).or_default();
        let turn = connection.sent;
        connection.sent += 1;
        self.serial += 1;
        let flight = Some(Flight { from, to, bytes, since, serial: self.serial, turn, cargo });
        match self.unused.pop() {
            Some(index) => {
                self.flights[index as usize] = flight;
                index
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        }
    }

    /// A message that has not taken effect.
    pub(super) fn flight(&mut self, index: u32) -> Option<&mut Flight> {
        self.flights.get_mut(index as usize).and_then(Option::as_mut)
    }

    /// Packets of so many bytes.
    pub(super) fn packets_of(&self, bytes: u64) -> u64 {
        self.parameters.packets_of(bytes)
    }

    /// What has to fly again when so many packets of a message are lost.
    pub(super) fn lose(&mut self, index: u32, packets: u64) {
        let bytes = packets * u64::from(self.parameters.packet_bytes);
        if let Some(flight) = self.flight(index) {
            flight.bytes = flight.bytes.min(bytes);
        }
    }

    /// Puts the packets of a message into the network. `Some` if it needs none, and when it is there.
    pub(super) fn launch(&mut self, index: u32, now: Time, agenda: &mut Agenda) -> Option<Time> {
        let &Flight { from, to, bytes, .. } = self.flights[index as usize].as_ref()?;
        let per_node = self.parameters.ranks_per_node;
        let (here, there) = (from / per_node, to / per_node);
        if here == there {
            return Some(now + self.parameters.memory_bandwidth.time_of(bytes));
        }
        let gap_ps = match self.pacing {
            Pacing::Off | Pacing::Overlap => 0,
            Pacing::Fixed(gap) => gap.as_ps(),
            Pacing::Hops => {
                let further = self.wiring.hops(here, there).saturating_sub(1);
                u64::from(further) * self.parameters.packet_time().as_ps()
            }
        };
        let injected = &mut self.injected[from as usize];
        let nic = from.wrapping_add(*injected) % self.parameters.nics;
        *injected = injected.wrapping_add(1);
        let outgoing = Outgoing { message: index, from: here, to: there, bytes, gap_ps };
        self.fabric.send(outgoing, nic, now.as_ps(), &mut agenda.queue);
        None
    }

    /// Lets packets move until something happens that concerns ranks.
    pub(super) fn run(&mut self, agenda: &mut Agenda) -> Option<(Time, Event)> {
        let mut handled = 0;
        loop {
            let (at, word) = self.fabric.run(&mut agenda.queue, &mut handled)?;
            if word != event::NOTES {
                return Some((Time::from_ps(at), agenda.take(word)?));
            }
            let mut landed = None;
            for note in self.fabric.notes.drain(..) {
                if let Note::Delivered(flight) = note {
                    // One event lets one packet out of the network.
                    debug_assert!(landed.is_none());
                    landed = Some(Event::Landed { flight });
                }
            }
            if let Some(event) = landed {
                return Some((Time::from_ps(at), event));
            }
        }
    }

    /// A link goes down or comes up.
    pub(super) fn set_down(&mut self, link: u32, down: bool, now: Time, agenda: &mut Agenda) {
        self.fabric.set_down(link, down, now.as_ps(), &mut agenda.queue);
    }

    /// All of a message has come: gives it, and those behind it that came before their turn; nothing while another is missing.
    pub(super) fn take(&mut self, index: u32) -> Vec<(u32, u32, Cargo)> {
        let mut taken = Vec::new();
        let Some(Flight { from, to, turn, cargo, .. }) = self.forget(index) else { return taken };
        let Some(connection) = self.connections.get_mut(&(from, to)) else { return taken };
        connection.early.insert(turn, cargo);
        while let Some(cargo) = connection.early.remove(&connection.taken) {
            connection.taken += 1;
            taken.push((from, to, cargo));
        }
        taken
    }

    /// A message is given up.
    pub(super) fn forget(&mut self, index: u32) -> Option<Flight> {
        let flight = self.flights.get_mut(index as usize)?.take()?;
        self.unused.push(index);
        Some(flight)
    }

    /// Links between two routers, or the one that a number stands for, with its way back.
    pub(super) fn links(&self, wire: super::Wire) -> Result<Vec<u32>, Error> {
        let all = || self.wiring.links.iter().zip(0u32..).filter(|(link, _)| link.to != NONE);
        let ends = match wire {
            super::Wire::Between(one, other) => (one, other),
            super::Wire::Drawn(number) => {
                let count = all().count() as u64;
                let drawn = number.checked_rem(count).and_then(|index| all().nth(index as usize));
                let Some((link, _)) = drawn else { return Ok(Vec::new()) };
                (link.from, link.to)
            }
        };
        let found: Vec<u32> = all()
            .filter(|(link, _)| (link.from, link.to) == ends || (link.to, link.from) == ends)
            .map(|(_, index)| index)
            .collect();
        if found.is_empty() && matches!(wire, super::Wire::Between(..)) {
            return Err(Error::Options(format!(
                "a fault of the link between routers {} and {}: there is no such link",
                ends.0, ends.1
            )));
        }
        Ok(found)
    }

    /// The circle of buffers, if packets wait for each other.
    pub(super) fn circle(&self) -> Vec<String> {
        match self.fabric.in_flight() {
            0 => Vec::new(),
            _ => self.fabric.credit_circle(),
        }
    }
}
