//! Large payloads that meet, at one receiver or on one link of the network, and would be in everybody's way there.
//!
//! **Who receives grants.** A rank that takes large payloads from several others at once lets them have under way, together, what
//! its network brings in a millisecond and the time of the way; each has its share of that, in the window that TCP tells it. What
//! others send to the same node finds no longer queue before it, and no queue overflows because all began at once.
//!
//! **Who sends spaces.** Senders whose ways meet before they part again have no receiver that sees all of them. But a connection
//! whose round trip takes two milliseconds longer than the shortest, or whose segments get lost, stands in a queue somewhere: then its segments go out evenly, a
//! little slower than the other side has acknowledged them, until the queue is gone; never slower than half of what it had a second ago,
//! or others that do not give way would have it all.
//!
//! Both look at the clock only while large payloads move, and at connections that leave the machine. Nothing is set on a connection
//! before something stands in a queue, or a second sender comes.

use super::Tcp;
use crate::os::flow::{self, Flow};
use crate::os::time;
use crate::{environment, Result};
use std::os::fd::AsFd;

/// Whether large payloads are paced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// Never.
    Off,
    /// Always: a single sender, too, has under way what its receiver grants.
    On,
    /// When several meet.
    Auto,
}

impl Pacing {
    /// As `KUMIKI_PACING` says.
    pub fn from_environment() -> Result<Pacing> {
        Ok(match environment::choice("KUMIKI_PACING", &["auto", "on", "off"])? {
            Some("off") => Pacing::Off,
            Some("on") => Pacing::On,
            _ => Pacing::Auto,
        })
    }

    /// With so many senders at once each has under way what it is granted.
    fn least_senders(self) -> usize {
        match self {
            Pacing::Off => usize::MAX,
            Pacing::On => 1,
            Pacing::Auto => 2,
        }
    }
}

/// Fewer bytes at a time are of small messages.
pub(super) const LARGE_BYTES: usize = 4 * 1024;
/// Who has sent so much in a round is a sender of large payloads.
const SENDER_BYTES: u32 = 16 * 1024;
/// How long a round takes, after which shares are dealt anew.
const ROUND_US: u64 = 5_000;
/// A round that took longer than this had a pause in it, and tells nothing of the network.
const MOST_ROUND_US: u64 = 4 * ROUND_US;
/// So long what is under way may take beyond the way itself.
const QUEUE_US: u64 = 1_000;
/// The rate of the best round loses one part in so many a round, until another is as good.
const FORGETTING: u64 = 64;
/// The least and the most that one sender has under way.
const LEAST_WINDOW: u64 = 8 * 1024;
const MOST_WINDOW: u64 = 64 << 20;
/// So often a sender looks at its round trip…
const LOOK_MS: u64 = 10;
/// …and anew at what it has.
const BASE_MS: u64 = 1_000;
/// The slowest that a connection is spaced to, in bytes a second.
const LEAST_RATE: u64 = 256 * 1024;

/// What a receiver knows of its network.
#[derive(Default)]
pub(super) struct Grants {
    /// When the present round began; 0 if none has.
    began_us: u64,
    /// Bytes of large payloads that have come in it.
    bytes: u64,
    /// Bytes a second of the best round of late.
    rate: u64,
}

impl Grants {
    /// Bytes of a large payload have come. Whether a round is over.
    fn came(&mut self, bytes: usize, now_us: u64) -> bool {
        if self.began_us == 0 {
            self.began_us = now_us;
        }
        self.bytes += bytes as u64;
        let took_us = now_us.saturating_sub(self.began_us);
        if took_us < ROUND_US {
            return false;
        }
        self.rate -= self.rate / FORGETTING;
        if took_us <= MOST_ROUND_US {
            self.rate = self.rate.max(self.bytes.saturating_mul(1_000_000) / took_us);
        }
        (self.began_us, self.bytes) = (now_us, 0);
        true
    }

    /// What each of so many senders may have under way, on ways that take so long.
    fn share(&self, senders: usize, way_us: u64) -> u32 {
        let under_way = u128::from(self.rate) * u128::from(way_us + way_us / 4 + QUEUE_US) / 1_000_000;
        let share = under_way.min(u128::from(u64::MAX)) as u64 / senders.max(1) as u64;
        share.clamp(LEAST_WINDOW, MOST_WINDOW) as u32
    }
}

/// What a sender knows of one of its connections.
#[derive(Clone, Copy, Default)]
pub(super) struct Spacing {
    /// The rate at which it sends, if it is held to one.
    rate: Option<u64>,
    /// What it had when its base was taken, and when that was.
    base: u64,
    base_ms: u64,
    /// When it was looked at last, and what had been sent again by then.
    looked_ms: u64,
    repeated: u32,
}

impl Spacing {
    /// Whether it is time to look.
    fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.looked_ms + LOOK_MS
    }

    /// The kernel says this of the connection: whether its rate changes.
    fn look(&mut self, flow: &Flow, now_ms: u64) -> bool {
        self.looked_ms = now_ms;
        if now_ms >= self.base_ms + BASE_MS {
            (self.base, self.base_ms) = (flow.bytes_per_second, now_ms);
        }
        let queue_us = flow.round_trip_us.saturating_sub(flow.least_round_trip_us);
        let has_lost = std::mem::replace(&mut self.repeated, flow.repeated) != flow.repeated;
        let next = if queue_us > 2 * QUEUE_US || has_lost {
            let slower = flow.bytes_per_second - flow.bytes_per_second / 10;
            Some(slower.max(self.base / 2).max(LEAST_RATE))
        } else {
            // What it can do is not known while it is held, so that it is let go when it has not done what it might.
            let faster = self.rate.map(|rate| rate.saturating_add(rate / 8));
            faster.filter(|&rate| rate / 4 < flow.bytes_per_second.max(LEAST_RATE))
        };
        std::mem::replace(&mut self.rate, next) != next
    }
}

impl Tcp {
    /// Bytes of a large payload have come on a link.
    pub(super) fn note_came(&mut self, index: u32, bytes: usize) {
        if self.setup.pacing == Pacing::Off {
            return;
        }
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if link.is_here || !link.established {
            return;
        }
        link.came_bytes = link.came_bytes.saturating_add(bytes as u32);
        if self.grants.came(bytes, time::now_ns() / 1_000) {
            self.grant();
        }
    }

    /// A round is over: everybody who has sent large payloads in it has a share.
    fn grant(&mut self) {
        let is_sender = |came_bytes: u32| came_bytes >= SENDER_BYTES;
        let senders = || self.links.iter().flatten().filter(|link| is_sender(link.came_bytes));
        let count = senders().count();
        let window = (count >= self.setup.pacing.least_senders()).then(|| {
            let ways = senders().filter_map(|link| flow::of(link.fd.as_fd()));
            self.grants.share(count, ways.map(|flow| flow.least_round_trip_us).min().unwrap_or(0))
        });
        for link in self.links.iter_mut().flatten() {
            if is_sender(std::mem::take(&mut link.came_bytes)) {
                link.grant(window);
            }
        }
    }

    /// A link has sent a part of a large payload.
    pub(super) fn note_went(&mut self, index: u32) {
        if self.setup.pacing == Pacing::Off {
            return;
        }
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if link.is_here || !link.established {
            return;
        }
        let now_ms = time::now_ms();
        if link.spacing.is_due(now_ms) {
            link.space(now_ms);
        }
    }
}

impl super::Link {
    /// What the peer may have under way to us. A share that is nearly the present one is not worth telling.
    fn grant(&mut self, window: Option<u32>) {
        let is_new = match (self.window, window) {
            (None, None) => false,
            (Some(now), Some(next)) => now.abs_diff(next) > now / 8,
            _ => true,
        };
        // Without it the connection works as it would have.
        if is_new && flow::set_window(self.fd.as_fd(), window).is_ok() {
            self.window = window;
        }
    }

    /// Looks whether what we send stands in a queue.
    fn space(&mut self, now_ms: u64) {
        let Some(flow) = flow::of(self.fd.as_fd()) else { return };
        if self.spacing.look(&flow, now_ms) {
            let _ = flow::set_rate(self.fd.as_fd(), self.spacing.rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_over_after_its_time_and_tells_the_rate_unless_there_was_a_pause() {
        let mut grants = Grants::default();
        let mut over = Vec::new();
        for ms in 1..=20 {
            // 100 MB/s.
            if grants.came(100_000, ms * 1_000) {
                over.push((ms, grants.rate));
            }
        }
        assert_eq!(over.iter().map(|(ms, _)| *ms).collect::<Vec<_>>(), [6, 11, 16]);
        // The first bytes of the first round came before its time.
        assert_eq!(over[0].1, 120_000_000);
        assert!(over[2].1 >= 100_000_000 && over[2].1 < 120_000_000, "{over:?}");
        let before = grants.rate;
        assert!(grants.came(100_000, 10_000_000), "a round with a pause is over as well");
        assert!(grants.rate < before && grants.rate > before / 2, "but it tells nothing");
    }

    #[test]
    fn shares_hold_what_the_network_brings_in_a_millisecond_and_the_way() {
        let grants = Grants { rate: 125_000_000, ..Grants::default() };
        assert_eq!(grants.share(1, 0), 125_000);
        assert_eq!(grants.share(8, 0), 125_000 / 8);
        assert_eq!(grants.share(2, 4_000), 125_000 * 6 / 2);
        assert_eq!(grants.share(1_000, 0), 8 * 1024, "none has nothing");
        assert_eq!(Grants::default().share(1, 0), 8 * 1024);
        let fast = Grants { rate: u64::MAX, ..Grants::default() };
        assert_eq!(fast.share(0, u64::from(u32::MAX)), 64 << 20);
    }

    /// A connection on which so much is acknowledged, with so long a queue.
    fn flow(bytes_per_second: u64, queue_us: u64) -> Flow {
        Flow { round_trip_us: 100 + queue_us, least_round_trip_us: 100, repeated: 0, bytes_per_second }
    }

    #[test]
    fn a_connection_that_stands_in_a_queue_goes_slower_until_the_queue_is_gone() {
        let mut spacing = Spacing::default();
        assert!(spacing.is_due(1_000));
        assert!(!spacing.look(&flow(10_000_000, 500), 1_000), "no queue to speak of");
        assert!(!spacing.is_due(1_009) && spacing.is_due(1_010));
        assert!(spacing.look(&flow(10_000_000, 5_000), 1_010));
        assert_eq!(spacing.rate, Some(9_000_000));
        assert!(spacing.look(&flow(9_000_000, 500), 1_020), "the queue is gone: a little faster");
        assert_eq!(spacing.rate, Some(10_125_000));
        let rates: Vec<_> = (0..20)
            .map(|look| {
                spacing.look(&flow(9_000_000, 500), 1_030 + 10 * look);
                spacing.rate
            })
            .collect();
        assert_eq!(rates.last(), Some(&None), "it is let go in the end: {rates:?}");
    }

    #[test]
    fn a_connection_that_loses_segments_goes_slower_too() {
        let mut spacing = Spacing::default();
        assert!(spacing.look(&Flow { repeated: 3, ..flow(10_000_000, 0) }, 1_000));
        assert_eq!(spacing.rate, Some(9_000_000));
        spacing.look(&Flow { repeated: 3, ..flow(9_000_000, 0) }, 1_010);
        assert_eq!(spacing.rate, Some(10_125_000), "it has lost no more");
    }

    #[test]
    fn others_that_do_not_give_way_leave_half_in_a_second() {
        let mut spacing = Spacing::default();
        let mut rate = 100_000_000;
        for look in 0..90 {
            spacing.look(&flow(rate, 50_000), 10_000 + 10 * look);
            rate = spacing.rate.expect("it stands in a queue");
            assert!(rate >= 50_000_000, "{rate}");
        }
        for look in 0..1_000_000 {
            spacing.look(&flow(rate, 50_000), 20_000 + 10 * look);
            rate = spacing.rate.expect("it stands in a queue");
        }
        assert_eq!(rate, LEAST_RATE, "and something always");
    }

    #[test]
    fn numbers_of_the_kernel_that_cannot_be_are_no_harm() {
        let mut spacing = Spacing::default();
        for (rate, queue_us) in [(0, 0), (u64::MAX, 0), (u64::MAX, u64::MAX / 2), (0, u64::MAX / 2)] {
            spacing.look(&flow(rate, queue_us), u64::MAX / 2);
        }
        let mut grants = Grants { rate: u64::MAX, ..Grants::default() };
        assert!(!grants.came(usize::MAX / 2, u64::MAX / 2));
        assert!(!grants.came(0, 1), "a clock that goes back");
    }
}
