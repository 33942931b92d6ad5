//! Large payloads that meet, at one receiver or on one link of the network, and would be in everybody's way there.
//!
//! **Who receives grants.** A rank that takes large payloads from several others at once lets them have under way, together, what
//! its network brings in a millisecond and the time of the way; each has its share of that, in the window that TCP tells it. What
//! others send to the same node finds no longer queue before it, and no queue overflows because all began at once.
//!
//! **Who sends spaces.** Senders whose ways meet before they part again have no receiver that sees all of them. But a connection
//! that is busy, and whose round trip takes two milliseconds longer than the shortest, or whose segments get lost, stands in a queue
//! somewhere: then its segments go out evenly, a little slower than the other side has acknowledged them, until the queue is gone, or
//! all is handed to the system; never slower than half of what it had a second ago, or others that do not give way would have it all.
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
/// After so many rounds without a byte of a large payload a sender has no share any more.
const QUIET_ROUNDS: u8 = 8;
/// The rate of the best round loses one part in so many a round, until another is as good.
const FORGETTING: u64 = 64;
/// The least and the most that one sender has under way.
const LEAST_WINDOW: u64 = 8 * 1024;
const MOST_WINDOW: u64 = 64 << 20;
/// So often a sender looks at its round trip…
const LOOK_MS: u64 = 10;
/// …and what it saw longer ago was of another payload.
const FRESH_MS: u64 = 5 * LOOK_MS;
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

/// What a receiver has granted on one of its connections.
#[derive(Clone, Copy, Default)]
pub(super) struct Grant {
    /// What the peer may have under way to us, if that is bounded.
    window: Option<u32>,
    /// Bytes of large payloads that have come in this round.
    came_bytes: u32,
    /// Rounds in which none have.
    quiet: u8,
    /// Whether the system refuses it.
    is_refused: bool,
}

impl Grant {
    /// Whether the peer sends large payloads now: it has begun to, or goes on.
    fn is_of_sender(&self) -> bool {
        self.came_bytes >= SENDER_BYTES || self.window.is_some() && self.came_bytes > 0
    }

    /// A round is over, in which senders have this share. The window to be set, if it is another one.
    fn next(&mut self, share: Option<u32>) -> Option<Option<u32>> {
        let is_sender = self.is_of_sender();
        self.quiet = if std::mem::take(&mut self.came_bytes) > 0 { 0 } else { self.quiet.saturating_add(1) };
        let next = match (is_sender, self.window) {
            (true, _) => share,
            (false, window) => window.filter(|_| self.quiet < QUIET_ROUNDS),
        };
        let is_new = match (self.window, next) {
            (None, None) => false,
            // A share that is nearly the present one is not worth telling.
            (Some(now), Some(next)) => now.abs_diff(next) > now / 8,
            _ => true,
        };
        is_new.then_some(next)
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
    /// When it was looked at last, what had been sent again by then, and whether it stood in a queue.
    looked_ms: u64,
    repeated: u32,
    stood: bool,
    /// Whether the system refuses it.
    is_refused: bool,
}

impl Spacing {
    /// Whether it is held to a rate.
    pub(super) fn is_held(&self) -> bool {
        self.rate.is_some()
    }

    /// Whether it is time to look.
    fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.looked_ms + LOOK_MS
    }

    /// The kernel says this of the connection: whether its rate changes. One look alone tells little: the first round trips of a
    /// payload are those of what was sent before, and an acknowledgement may have waited for an answer.
    fn look(&mut self, flow: &Flow, now_ms: u64) -> bool {
        let is_fresh = now_ms < self.looked_ms.saturating_add(FRESH_MS);
        self.looked_ms = now_ms;
        if !is_fresh || now_ms >= self.base_ms.saturating_add(BASE_MS) {
            (self.base, self.base_ms) = (flow.bytes_per_second, now_ms);
        }
        let queue_us = flow.round_trip_us.saturating_sub(flow.least_round_trip_us);
        let has_lost = std::mem::replace(&mut self.repeated, flow.repeated) != flow.repeated && is_fresh;
        let stands = queue_us > 2 * QUEUE_US || has_lost;
        let stood = std::mem::replace(&mut self.stood, stands) && is_fresh;
        let next = match (stands && stood, flow.bytes_per_second) {
            // It had nothing more to send: what it could do is not known.
            (true, 0) => self.rate,
            (true, rate) => Some((rate - rate / 10).max(self.base / 2).max(LEAST_RATE)),
            (false, rate) => {
                // It is let go when it has not done what it might.
                let faster = self.rate.map(|rate| rate.saturating_add(rate / 8));
                faster.filter(|&faster| faster / 4 < rate.max(LEAST_RATE))
            }
        };
        std::mem::replace(&mut self.rate, next) != next
    }

    /// All is handed to the system: what comes next is perhaps small. Whether it was held to a rate.
    fn end(&mut self) -> bool {
        self.stood = false;
        self.rate.take().is_some()
    }
}

impl Tcp {
    /// Bytes have come on a link, of a large payload if the latest frame is one.
    pub(super) fn note_came(&mut self, index: u32, bytes: usize) {
        if self.setup.pacing == Pacing::Off {
            return;
        }
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if link.is_here || !link.established || link.grant.is_refused {
            return;
        }
        link.grant.came_bytes = link.grant.came_bytes.saturating_add(bytes as u32);
        if self.grants.came(bytes, time::now_ns() / 1_000) {
            self.grant();
        }
    }

    /// A round is over: everybody who has sent large payloads in it has a share.
    fn grant(&mut self) {
        let senders = self.links.iter().flatten().filter(|link| link.grant.is_of_sender()).count();
        let are_paced = senders >= self.setup.pacing.least_senders();
        for link in self.links.iter_mut().flatten().filter(|link| !link.is_broken()) {
            // Who is near has no more under way than it needs because somebody else is far.
            let share = || {
                let way_us = flow::of(link.fd.as_fd()).map_or(0, |flow| flow.least_round_trip_us);
                self.grants.share(senders, way_us)
            };
            let share = (are_paced && link.grant.is_of_sender()).then(share);
            let Some(window) = link.grant.next(share) else { continue };
            // Without it the connection works as it would have.
            match flow::set_window(link.fd.as_fd(), window) {
                Ok(()) => link.grant.window = window,
                Err(_) => link.grant.is_refused = true,
            }
        }
    }

    /// A link has sent a part of a large payload, and perhaps all that was to be sent.
    pub(super) fn note_went(&mut self, index: u32, all: bool) {
        if self.setup.pacing == Pacing::Off {
            return;
        }
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if link.is_here || !link.established || link.spacing.is_refused {
            return;
        }
        if all {
            if link.spacing.end() {
                let _ = flow::set_rate(link.fd.as_fd(), None);
            }
            return;
        }
        let now_ms = time::now_ms();
        if !link.spacing.is_due(now_ms) {
            return;
        }
        let Some(flow) = flow::of(link.fd.as_fd()) else { return };
        if link.spacing.look(&flow, now_ms) {
            link.spacing.is_refused = flow::set_rate(link.fd.as_fd(), link.spacing.rate).is_err();
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
        assert!(!spacing.look(&flow(10_000_000, 5_000), 1_010), "once is not enough");
        assert!(spacing.look(&flow(10_000_000, 5_000), 1_020));
        assert_eq!(spacing.rate, Some(9_000_000));
        assert!(spacing.look(&flow(9_000_000, 500), 1_030), "the queue is gone: a little faster");
        assert_eq!(spacing.rate, Some(10_125_000));
        let rates: Vec<_> = (0..20)
            .map(|look| {
                spacing.look(&flow(9_000_000, 500), 1_040 + 10 * look);
                spacing.rate
            })
            .collect();
        assert_eq!(rates.last(), Some(&None), "it is let go in the end: {rates:?}");
    }

    #[test]
    fn a_connection_that_was_quiet_was_held_to_what_it_had_sent_then() {
        let mut spacing = Spacing::default();
        // Small messages, whose answers took their time; and segments that were lost long ago.
        assert!(!spacing.look(&Flow { repeated: 3, ..flow(5_000, 40_000) }, 1_000));
        assert!(
            !spacing.look(&Flow { repeated: 3, ..flow(0, 40_000) }, 1_010),
            "nothing more was to be sent"
        );
        assert!(!spacing.look(&flow(5_000, 40_000), 9_000), "that was of another payload");
        spacing.look(&flow(10_000_000, 40_000), 9_010);
        assert_eq!(spacing.rate, Some(9_000_000));
        assert!(spacing.end(), "all is handed to the system");
        assert_eq!(spacing.rate, None);
        assert!(!spacing.end());
    }

    #[test]
    fn a_connection_that_loses_segments_goes_slower_too() {
        let mut spacing = Spacing::default();
        let lost = |repeated| Flow { repeated, ..flow(10_000_000, 0) };
        spacing.look(&lost(3), 1_000);
        spacing.look(&lost(4), 1_010);
        assert_eq!(spacing.rate, None);
        spacing.look(&lost(5), 1_020);
        assert_eq!(spacing.rate, Some(9_000_000));
        spacing.look(&lost(5), 1_030);
        assert_eq!(spacing.rate, Some(10_125_000), "it has lost no more");
    }

    #[test]
    fn others_that_do_not_give_way_leave_half_in_a_second() {
        let mut spacing = Spacing::default();
        let mut rate = 100_000_000;
        spacing.look(&flow(rate, 50_000), 9_990);
        for look in 0..90 {
            spacing.look(&flow(rate, 50_000), 10_000 + 10 * look);
            rate = spacing.rate.expect("it stands in a queue");
            assert!(rate >= 50_000_000, "{rate}");
        }
        for look in 0..10_000 {
            spacing.look(&flow(rate, 50_000), 10_900 + 10 * look);
            rate = spacing.rate.expect("it stands in a queue");
        }
        assert_eq!(rate, LEAST_RATE, "and something always");
    }

    #[test]
    fn a_window_goes_with_who_sends_and_is_wide_again_for_who_does_not() {
        let mut grant = Grant { came_bytes: SENDER_BYTES - 1, ..Grant::default() };
        assert!(!grant.is_of_sender(), "that is little");
        assert_eq!(grant.next(Some(9_000)), None);
        let mut round = |came_bytes, share: Option<u32>| {
            grant.came_bytes = came_bytes;
            let is_sender = grant.is_of_sender();
            if let Some(window) = grant.next(share) {
                grant.window = window;
            }
            (is_sender, grant.window)
        };
        assert_eq!(round(SENDER_BYTES, Some(9_000)), (true, Some(9_000)));
        assert_eq!(round(1, Some(9_100)), (true, Some(9_000)), "it goes on, with nearly the same share");
        assert_eq!(round(1, Some(20_000)), (true, Some(20_000)));
        assert_eq!(round(1, None), (true, None), "it is alone");
        assert_eq!(round(SENDER_BYTES, Some(9_000)), (true, Some(9_000)));
        for _ in 1..QUIET_ROUNDS {
            assert_eq!(round(0, Some(9_000)), (false, Some(9_000)));
        }
        assert_eq!(
            round(0, Some(9_000)),
            (false, None),
            "a far one that was silent for long had it for ever"
        );
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
