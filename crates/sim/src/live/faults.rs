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

/// Ranks that cannot reach the others for some time: a link that is down is one rank against one, a partition any set
/// against the rest.
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

/// What goes wrong in a run. Nothing, by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The part of messages that are lost once and sent again after [`retry`](Self::retry).
    pub loss: f64,
    /// How long it takes to notice a loss.
    pub retry: Time,
    /// The part of messages that are delayed, by anything up to [`delay_up_to`](Self::delay_up_to). Messages of different
    /// pairs overtake each other; those of one pair do not, as on a connection.
    pub delay: f64,
    /// See [`delay`](Self::delay).
    pub delay_up_to: Time,
    /// Links that are down, and partitions.
    pub outages: Vec<Outage>,
    /// Ranks that crash.
    pub crashes: Vec<Crash>,
    /// Ranks that compute and send this many times slower.
    pub slow: Vec<(u32, u32)>,
    /// How long it takes until everybody knows of a crash; 1 ms if zero.
    pub notice: Time,
}

impl Faults {
    /// Loss, delays, a short outage and a slow rank, drawn from a seed: nothing that a program may notice but the time.
    pub fn harmless(seed: u64, ranks: u32) -> Faults {
        let mut random = Random::of(seed, 1, 0);
        let from = Time::from_us(random.below(500));
        let outage = Outage {
            side: (0..ranks).filter(|_| random.below(2) == 0).collect(),
            other: Vec::new(),
            from,
            until: from + Time::from_us(1 + random.below(20_000)),
        };
        Faults {
            loss: random.below(20) as f64 / 100.0,
            retry: Time::from_us(50 + random.below(1000)),
            delay: random.below(60) as f64 / 100.0,
            delay_up_to: Time::from_us(1 + random.below(300)),
            outages: vec![outage],
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

/// The faults of one run as they unfold.
pub(super) struct Plan {
    faults: Faults,
    random: Random,
    /// Pairs whose connection is broken, the smaller rank first.
    severed: HashSet<(u32, u32)>,
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
                return Err(Error::Options(format!(
                    "{name} of {part}: write a part of all messages, 0 to 1"
                )));
            }
        }
        let random = Random::of(seed, 3, 0);
        Ok(Plan { faults: faults.clone(), random, severed: HashSet::new() })
    }

    fn chance(&mut self, part: f64) -> bool {
        part > 0.0 && (self.random.next() >> 11) as f64 / (1u64 << 53) as f64 <= part
    }

    /// How long a message is delayed by faults, and whether it never arrives.
    pub(super) fn delay(&mut self, from: u32, to: u32, at: Time, timeout: Time, bytes: u64) -> (Time, bool) {
        if from == to {
            return (Time::ZERO, false);
        }
        let mut delay = Time::ZERO;
        // Long messages are lost more often: they have more packets.
        for _ in 0..1 + bytes / (64 << 10) {
            while self.chance(self.faults.loss) && delay < timeout {
                delay += self.faults.retry + Time::from_ns(1);
            }
        }
        if self.chance(self.faults.delay) {
            delay += Time::from_ps(self.random.below(self.faults.delay_up_to.as_ps() + 1));
        }
        let heals = self.heals(from, to, at + delay);
        if heals.since(at) > timeout {
            return (Time::ZERO, true);
        }
        (heals.since(at), false)
    }

    /// When two ranks that may be apart at a time can reach each other again.
    fn heals(&self, from: u32, to: u32, at: Time) -> Time {
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

    /// A time of a rank that may be slow.
    pub(super) fn stretch(&self, rank: u32, time: Time) -> Time {
        let factor =
            self.faults.slow.iter().find(|&&(slow, _)| slow == rank).map_or(1, |&(_, factor)| factor);
        time * u64::from(factor.max(1))
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
