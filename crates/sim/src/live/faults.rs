//! What goes wrong: described by the user, drawn by seed, and the same in every run with that seed.

use crate::random::Random;
use crate::{Error, Time};
use std::collections::HashSet;

/// A rank that ends in the middle of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Who.
    pub rank: u32,
    /// At which of the messages that it sends, from 1.
    pub operation: u64,
}

/// Ranks that cannot reach others for some time: one rank and another, or a partition of any set against the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// One side.
    pub side: Vec<u32>,
    /// The other side; empty for all ranks that are not on the first.
    pub other: Vec<u32>,
    /// When it begins.
    pub from: Time,
    /// When it heals.
    pub until: Time,
}

/// A link of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Between two routers that are neighbours, both ways. The routers of grids have the numbers of their nodes.
    Between(u32, u32),
    /// The one that this number falls on, both ways; numbers go round.
    Drawn(u64),
}

/// A link that is down for some time. What is on it arrives; packets that want to go over it wait, or take another way where
/// the routing is adaptive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOutage {
    /// Which.
    pub wire: Wire,
    /// When it goes down.
    pub from: Time,
    /// When it comes up again.
    pub until: Time,
}

/// What goes wrong in a run. Nothing, by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The part of packets that are lost. They are sent again after [`retry`](Self::retry), as often as it takes; a peer that
    /// cannot be reached for the peer timeout is lost.
    pub loss: f64,
    /// How long it takes to notice a loss; 100 µs if zero.
    pub retry: Time,
    /// The part of packets that are delayed, by anything up to [`delay_up_to`](Self::delay_up_to). Packets of a message
    /// overtake each other, and so do messages of different pairs; those of one pair do not, as on a connection.
    pub delay: f64,
    /// See [`delay`](Self::delay).
    pub delay_up_to: Time,
    /// Ranks that cannot reach each other, and partitions: what is sent, or still under way, is sent again when they heal.
    pub outages: Vec<Outage>,
    /// Links that are down.
    pub links: Vec<LinkOutage>,
    /// Ranks that crash.
    pub crashes: Vec<Crash>,
    /// Ranks that compute, send and receive this many times slower. An overhead below 100 ns counts as that.
    pub slow: Vec<(u32, u32)>,
    /// How long it takes until everybody knows of a crash; 1 ms if zero.
    pub notice: Time,
}

impl Faults {
    /// Loss, delays, a short partition, a link that is down for a while and a slow rank, drawn from a seed: nothing that a
    /// program may notice but the time.
    pub fn harmless(seed: u64, ranks: u32) -> Faults {
        let mut random = Random::of(seed, 1, 0);
        let from = Time::from_us(random.below(500));
        let outage = Outage {
            side: (0..ranks).filter(|_| random.below(2) == 0).collect(),
            other: Vec::new(),
            from,
            until: from + Time::from_us(1 + random.below(20_000)),
        };
        let from = Time::from_us(random.below(500));
        let until = from + Time::from_us(1 + random.below(20_000));
        Faults {
            loss: random.below(20) as f64 / 100.0,
            retry: Time::from_us(50 + random.below(1000)),
            delay: random.below(60) as f64 / 100.0,
            delay_up_to: Time::from_us(1 + random.below(300)),
            outages: vec![outage],
            links: vec![LinkOutage { wire: Wire::Drawn(random.next()), from, until }],
            slow: vec![(random.below(u64::from(ranks)) as u32, 1 + random.below(50) as u32)],
            ..Faults::default()
        }
    }

    /// As [`harmless`](Self::harmless), and one rank crashes at one of its first `operations` messages.
    pub fn deadly(seed: u64, ranks: u32, operations: u64) -> Faults {
        let mut random = Random::of(seed, 2, 0);
        let rank = random.below(u64::from(ranks)) as u32;
        let crash = Crash { rank, operation: 1 + random.below(operations.max(1)) };
        Faults { crashes: vec![crash], ..Faults::harmless(seed, ranks) }
    }
}

/// The least overhead of a slow rank before it is multiplied.
const SLOW_OVERHEAD: Time = Time::from_ns(100);

/// The faults of one run as they unfold.
pub(super) struct Plan {
    faults: Faults,
    random: Random,
    /// Pairs whose connection is broken, the smaller rank first.
    severed: HashSet<(u32, u32)>,
    /// Packets that were lost.
    pub(super) lost: u64,
}

impl Plan {
    pub(super) fn new(faults: &Faults, seed: u64, ranks: u32) -> Result<Plan, Error> {
        let outages =
            faults.outages.iter().flat_map(|outage| outage.side.iter().chain(&outage.other)).copied();
        let named = outages
            .chain(faults.crashes.iter().map(|crash| crash.rank))
            .chain(faults.slow.iter().map(|&(rank, _)| rank));
        if let Some(rank) = named.into_iter().find(|&rank| rank >= ranks) {
            return Err(Error::Options(format!("a fault of rank {rank}: there are {ranks} ranks, from 0")));
        }
        for (name, part) in [("loss", faults.loss), ("delay", faults.delay)] {
            if !(0.0..=1.0).contains(&part) {
                return Err(Error::Options(format!("{name} of {part}: write a part of all packets, 0 to 1")));
            }
        }
        let random = Random::of(seed, 3, 0);
        Ok(Plan { faults: faults.clone(), random, severed: HashSet::new(), lost: 0 })
    }

    /// Links that are down.
    pub(super) fn links(&self) -> &[LinkOutage] {
        &self.faults.links
    }

    fn chance(&mut self, part: f64) -> bool {
        part > 0.0 && (self.random.next() >> 11) as f64 / (1u64 << 53) as f64 <= part
    }

    /// How many of so many packets are lost.
    pub(super) fn lose(&mut self, packets: u64) -> u64 {
        if self.faults.loss == 0.0 {
            return 0;
        }
        let lost = (0..packets).filter(|_| self.chance(self.faults.loss)).count() as u64;
        self.lost += lost;
        lost
    }

    /// How long it takes until lost packets are sent again.
    pub(super) fn retry(&self) -> Time {
        match self.faults.retry {
            Time::ZERO => Time::from_us(100),
            time => time,
        }
    }

    /// How late the latest of so many packets is.
    pub(super) fn delay(&mut self, packets: u64) -> Time {
        if self.faults.delay == 0.0 {
            return Time::ZERO;
        }
        let mut latest = 0;
        for _ in 0..packets {
            if self.chance(self.faults.delay) {
                latest = latest.max(self.random.below(self.faults.delay_up_to.as_ps() + 1));
            }
        }
        Time::from_ps(latest)
    }

    /// When two ranks that may be apart at a time can reach each other again: that time, if they are not.
    pub(super) fn heals(&self, from: u32, to: u32, at: Time) -> Time {
        let mut at = at;
        // An outage can end in the middle of another one.
        for _ in 0..=self.faults.outages.len() {
            let apart = |outage: &&Outage| {
                let (first, second) = (outage.side.contains(&from), outage.side.contains(&to));
                let crosses = match outage.other.is_empty() {
                    true => first != second,
                    false => first && outage.other.contains(&to) || second && outage.other.contains(&from),
                };
                crosses && (outage.from..outage.until).contains(&at)
            };
            match self.faults.outages.iter().find(apart) {
                Some(outage) => at = outage.until,
                None => break,
            }
        }
        at
    }

    /// Whether a rank crashes at this operation.
    pub(super) fn crashes(&self, rank: u32, operation: u64) -> bool {
        self.faults.crashes.contains(&Crash { rank, operation })
    }

    /// The time of a computation of a rank that may be slow.
    pub(super) fn stretch(&self, rank: u32, time: Time) -> Time {
        time * self.slowness(rank)
    }

    /// The overhead of a message at a rank that may be slow.
    pub(super) fn overhead(&self, rank: u32, time: Time) -> Time {
        match self.slowness(rank) {
            1 => time,
            factor => time.max(SLOW_OVERHEAD) * factor,
        }
    }

    fn slowness(&self, rank: u32) -> u64 {
        let found = self.faults.slow.iter().find(|&&(slow, _)| slow == rank);
        found.map_or(1, |&(_, factor)| u64::from(factor.max(1)))
    }

    /// How long it takes until everybody knows of a crash.
    pub(super) fn notice(&self) -> Time {
        match self.faults.notice {
            Time::ZERO => Time::from_us(1000),
            time => time,
        }
    }

    pub(super) fn is_severed(&self, one: u32, other: u32) -> bool {
        !self.severed.is_empty() && self.severed.contains(&(one.min(other), one.max(other)))
    }

    /// Breaks a connection; false if it was broken before.
    pub(super) fn sever(&mut self, one: u32, other: u32) -> bool {
        self.severed.insert((one.min(other), one.max(other)))
    }
}
