//! About how long an algorithm takes, so that what cannot be the fastest need not be tried. On a node the numbers are what they usually
//! are; between nodes they are measured, once in each group, by a few small exchanges.

use super::operation::{merge, Max, Reduction};
use super::rooms::{goes_in_rooms, ROOM_PIECE};
use super::wide::{FAR_LONG_BYTES, SHORT_BYTES, WIDE_PIECE};
use super::{Algorithm, Group, Talk, LONG_BYTES};
use crate::Result;

/// One that is expected to take so many times as long as the best is not tried.
const HOPELESS: u64 = 4;
/// Bytes whose exchange is measured: as many as need no wide rings, of which there are few.
const MEASURED_BYTES: usize = SHORT_BYTES;
/// How often, of which the fastest counts; before that it is done once, for connections may be made.
const MEASURED: u32 = 2;

/// What messages between members take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Speed {
    /// A message, and a byte of it.
    pub(super) message_ns: u64,
    pub(super) byte_ps: u64,
    /// What each piece but the first costs beside its bytes.
    pub(super) piece_ns: u64,
}

impl Speed {
    /// Of members of one node.
    pub(super) const NODE: Speed = Speed { message_ns: 500, byte_ps: 300, piece_ns: 20_000 };
    /// What a byte takes at most by itself: what it takes beyond that is for the pieces that bytes come in.
    const MOST_BYTE_PS: u64 = 1_000;
    /// What is slower than this is so for another reason.
    const MOST_NS: u64 = 1_000_000_000;

    /// From what a step with one word took, and one with [`MEASURED_BYTES`].
    fn measured(word_ns: u64, bytes_ns: u64, piece: u64) -> Speed {
        let [word_ns, bytes_ns] = [word_ns, bytes_ns].map(|ns| ns.min(Speed::MOST_NS));
        let stream_ps = bytes_ns.saturating_sub(word_ns) * 1_000 / MEASURED_BYTES as u64;
        let byte_ps = stream_ps.clamp(1, Speed::MOST_BYTE_PS);
        // Whoever sends many waits for room, which comes in a message: in the few bytes that are measured nobody does.
        let piece_ns = (stream_ps.saturating_sub(byte_ps).saturating_mul(piece) / 1_000).max(word_ns / 2);
        Speed { message_ns: word_ns.max(1), byte_ps, piece_ns }
    }
}

/// What a model needs to know of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) ranks: u64,
    pub(super) nodes: u64,
    pub(super) piece: u64,
    pub(super) half: u64,
    /// Whether members pipe what is longer than a half: then they do not wait for each half.
    pub(super) pipes: bool,
    pub(super) speed: Speed,
}

impl Facts {
    /// Bytes of the pieces that so many go in.
    fn piece_of(self, bytes: u64) -> u64 {
        match self.nodes > 1 && bytes > SHORT_BYTES as u64 {
            true => self.piece.max(WIDE_PIECE as u64),
            false => self.piece.max(1),
        }
    }

    /// About how long an algorithm takes, in nanoseconds. What comes in many pieces, or is shown in many halves, waits for others as many
    /// times: only there the numbers are far apart.
    fn estimate(self, collective: &str, algorithm: Algorithm, bytes: u64) -> u64 {
        let Speed { message_ns: message, byte_ps, piece_ns } = self.speed;
        let is_long = bytes >= if self.nodes > 1 { FAR_LONG_BYTES } else { LONG_BYTES } as u64;
        let steps_of = |count: u64| u64::from(count.next_power_of_two().ilog2());
        let steps = steps_of(self.ranks);
        let moved = |bytes: u64| bytes * byte_ps / 1000;
        let stream = |bytes: u64| match collective == "broadcast" && is_long {
            // It is read from where it is.
            true => moved(bytes) + 3 * message,
            false => moved(bytes) + bytes.div_ceil(self.piece_of(bytes)).saturating_sub(1) * piece_ns,
        };
        let in_rooms = self.in_rooms(collective, bytes);
        // Where each has a core nobody has to wait for one to meet the others, and all copy at the same time.
        let (meeting, shares) = if self.pipes { (1_500, 1) } else { (15_000, self.ranks) };
        let parts = if collective == "allgather" { self.ranks.max(1) } else { 1 };
        let shown = |bytes: u64| {
            // Of what comes together each shows a part.
            let again = (bytes / parts).div_ceil(self.half.max(1)).saturating_sub(1);
            1_000 + again * meeting + bytes * 300 / 1000 * shares
        };
        match algorithm {
            // Written once, and read by all at the same time.
            Algorithm::Flat if in_rooms => {
                moved(bytes) * 2 + (bytes / parts).div_ceil(ROOM_PIECE as u64) * meeting
            }
            Algorithm::Flat if collective == "allreduce" && self.pipes => {
                1_000 + bytes * 300 / 1000 * self.ranks
            }
            Algorithm::Flat => shown(bytes),
            // Each step has twice as much as the one before, or half of it.
            Algorithm::Doubling if collective == "allgather" => steps * message + stream(bytes),
            Algorithm::Doubling if collective == "alltoall" => steps * (message + stream(bytes / 2)),
            Algorithm::Tree | Algorithm::Doubling => steps * (message + stream(bytes)),
            Algorithm::Halving => 2 * (steps * message + stream(bytes)),
            // (Of few members it is as long as one message, when all goes straight to all; of so few none is dropped for that.)
            Algorithm::Ring => {
                let rounds = if collective == "allreduce" { 2 } else { 1 };
                rounds * (self.ranks * message + stream(bytes))
            }
            Algorithm::Direct => {
                // All read from the node of one, and share its line.
                let times = if collective == "broadcast" && self.nodes > 1 { self.ranks } else { 2 };
                // Lending takes as long as some messages.
                4 * steps * message + self.ranks * message / 4 + 5_000 + times * moved(bytes)
            }
            Algorithm::Levels => {
                let far = steps_of(self.nodes);
                let near = match bytes >= LONG_BYTES as u64 {
                    true => 2 * (10_000 + bytes * 300 / 1000),
                    false => 2 * shown(bytes) / self.nodes.max(1),
                };
                near + match is_long {
                    true => 4 * far * message + 2 * moved(bytes),
                    false => far * (message + stream(bytes)),
                }
            }
        }
    }

    /// Whether what all show goes through rooms. Of the calls that are decided about together the shortest have half as many bytes.
    fn in_rooms(self, collective: &str, bytes: u64) -> bool {
        matches!(collective, "broadcast" | "allgather" | "allreduce")
            && self.nodes == 1
            && (self.pipes || collective != "allreduce")
            && goes_in_rooms((self.ranks, self.pipes), self.half, bytes / 2)
            && (collective != "allgather" || bytes / 2 > self.half * self.ranks)
    }

    /// Those that can be the fastest.
    pub(super) fn promising(self, collective: &str, candidates: &[Algorithm], bytes: u64) -> Vec<Algorithm> {
        let estimates = candidates.iter().map(|algorithm| self.estimate(collective, *algorithm, bytes));
        let best = estimates.min().unwrap_or(0);
        // Trees and rings take twice as long as rooms where each has a core, but not in the first calls of each root, whose room is new to all.
        let is_misleading = collective == "broadcast" && self.pipes && self.in_rooms(collective, bytes);
        let hope = |algorithm: &Algorithm| {
            self.estimate(collective, *algorithm, bytes) <= HOPELESS * best
                && !(is_misleading && matches!(algorithm, Algorithm::Ring | Algorithm::Tree))
        };
        // The first is what is usually best: a few measurements do not tell the contrary.
        let is_usual = |algorithm: &Algorithm| candidates.first() == Some(algorithm);
        candidates.iter().copied().filter(|algorithm| is_usual(algorithm) || hope(algorithm)).collect()
    }
}

impl Group<'_> {
    /// What messages between members take: the same on all members, who all measure it. The slowest of them counts.
    pub(super) fn measure(&self) -> Result<Speed> {
        if self.nodes == 1 {
            return Ok(Speed::NODE);
        }
        let merge = |into: &mut [u8], others: &[u8], first: bool| merge::<u64>(&Max, into, others, first);
        let reduction = Reduction::of::<u64, _>(&Max, &merge);
        self.run("measure", 0, |talk| {
            let mut words = [0u64; MEASURED_BYTES / 8];
            let step = |talk: &mut Talk<'_, '_>, words: &mut [u64]| -> Result<u64> {
                let began_ns = self.world.memory.now_ns();
                talk.doubling_allreduce(self.all, bytemuck::cast_slice_mut(words), reduction)?;
                Ok((self.world.memory.now_ns() - began_ns) / u64::from(self.all.rounds().max(1)))
            };
            let mut least = [u64::MAX; 2];
            for (least, count) in least.iter_mut().zip([1, words.len()]) {
                // Whoever comes early waits for those who are not done with what was before: that is not what it takes.
                step(talk, &mut words[..count])?;
                for _ in 0..MEASURED {
                    *least = step(talk, &mut words[..count])?.min(*least);
                }
            }
            talk.doubling_allreduce(self.all, bytemuck::cast_slice_mut(&mut least), reduction)?;
            Ok(Speed::measured(least[0], least[1], self.layout.ring / 2))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_the_fastest_is_not_tried() {
        let facts = Facts { ranks: 16, nodes: 1, piece: 400, half: 3000, pipes: false, speed: Speed::NODE };
        let all = [Algorithm::Flat, Algorithm::Doubling, Algorithm::Ring, Algorithm::Tree];
        let small = facts.promising("allreduce", &all, 8);
        assert!(small.contains(&Algorithm::Flat) && !small.contains(&Algorithm::Ring), "{small:?}");
        let with_direct = [Algorithm::Direct, Algorithm::Flat, Algorithm::Ring, Algorithm::Doubling];
        assert_eq!(facts.promising("allreduce", &with_direct, 1 << 22), [Algorithm::Direct]);
        let speed = Speed { message_ns: 50_000, byte_ps: 1_000, piece_ns: 200_000 };
        let far = Facts { nodes: 16, speed, ..facts };
        assert_eq!(far.promising("allreduce", &with_direct[..], 1 << 22)[0], Algorithm::Direct);
        assert!(!far.promising("allreduce", &with_direct, 1 << 22).contains(&Algorithm::Doubling));
        assert!(far
            .promising("broadcast", &[Algorithm::Tree, Algorithm::Ring], 1 << 22)
            .contains(&Algorithm::Ring));
        let large = far.promising("allreduce", &[Algorithm::Doubling, Algorithm::Ring], 1 << 22);
        assert!(large.contains(&Algorithm::Ring), "{large:?}");
        assert_eq!(facts.promising("broadcast", &[Algorithm::Tree], 1 << 40), [Algorithm::Tree]);
        // Flat, through rooms: from 1 MiB on, where halves are short and there are not too many.
        let is_tried = |facts: Facts, bytes| {
            facts.promising("broadcast", &with_direct, bytes).contains(&Algorithm::Flat)
        };
        assert!(is_tried(facts, 1 << 21) && is_tried(facts, 1 << 30) && !is_tried(facts, 1 << 20));
        for other in [Facts { ranks: 33, ..facts }, Facts { ranks: 3, half: 500, ..facts }] {
            assert!(!is_tried(other, 1 << 24), "{other:?}");
        }
    }

    #[test]
    fn a_speed_is_what_was_measured_and_never_nothing() {
        let fast = Speed::measured(1_000, 1_400, 500);
        assert_eq!(fast, Speed { message_ns: 1_000, byte_ps: 390, piece_ns: 500 });
        let slow = Speed::measured(50_000, 850_000, 512);
        assert_eq!(slow, Speed { message_ns: 50_000, byte_ps: 1_000, piece_ns: 399_488 });
        assert_eq!(Speed::measured(0, 0, 0), Speed { message_ns: 1, byte_ps: 1, piece_ns: 0 });
        assert_eq!(Speed::measured(900, 100, 8).byte_ps, 1);
        // What no clock of anybody's can have shown.
        let wrong = Facts {
            ranks: 1 << 20,
            nodes: 1 << 20,
            piece: 1,
            half: 1,
            pipes: false,
            speed: Speed::measured(u64::MAX, u64::MAX, u64::MAX),
        };
        wrong.promising("allreduce", &[Algorithm::Ring, Algorithm::Direct, Algorithm::Doubling], 1 << 30);
    }

    #[test]
    fn noise_in_two_measurements_dropped_the_one_that_long_data_need() {
        let all = [Algorithm::Direct, Algorithm::Ring, Algorithm::Doubling];
        for ranks in [2, 4, 8] {
            let speed = Speed::measured(50_000, 49_000, 2048);
            let facts = Facts { ranks, nodes: ranks, piece: 2048, half: 3000, pipes: false, speed };
            assert!(facts.promising("allreduce", &all, 1 << 22).contains(&Algorithm::Direct));
        }
    }
}
