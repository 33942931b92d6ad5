//! What each side of a stream in files says of itself, again and again, in a small file: that it lives, how far it has read, and whether more will
//! come. Values, without I/O and clock.

#![forbid(unsafe_code)]

use crate::wire::frame::checksum;

/// Bytes of a pulse.
pub const PULSE_BYTES: usize = 48;
const MARK: u32 = 0x4b55_4d31;
/// Whoever has not been heard of for so long is gone.
pub const SILENT_MS: u64 = 5_000;

/// How far a side is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// It writes and reads.
    #[default]
    Going,
    /// It has written all, and reads.
    Ended,
    /// It has written all, and does not read any more: no more pulses come.
    Gone,
}

/// One pulse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pulse {
    /// Another number each time.
    pub count: u64,
    /// How the tracks are cut.
    pub segment_bytes: u64,
    /// How far it has read: all before that may go.
    pub taken: u64,
    /// How far it has written, when that was all.
    pub written: u64,
    /// How far it is.
    pub stage: Stage,
}

impl Pulse {
    /// Its bytes.
    pub fn encode(&self) -> [u8; PULSE_BYTES] {
        let Pulse { count, segment_bytes, taken, written, stage } = *self;
        let mut bytes = [0; PULSE_BYTES];
        bytes[..4].copy_from_slice(&MARK.to_le_bytes());
        for (word, place) in [count, segment_bytes, taken, written].iter().zip(bytes[8..40].chunks_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[40] = stage as u8;
        let sum = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// A pulse, if these are the bytes of one: while it is written, they may not be.
    pub fn decode(bytes: &[u8]) -> Option<Pulse> {
        let bytes: &[u8; PULSE_BYTES] = bytes.try_into().ok()?;
        let word =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let stage = match bytes[40] {
            0 => Stage::Going,
            1 => Stage::Ended,
            2 => Stage::Gone,
            _ => return None,
        };
        let pulse =
            Pulse { count: word(8), segment_bytes: word(16), taken: word(24), written: word(32), stage };
        (pulse.encode() == *bytes).then_some(pulse)
    }
}

/// How another is heard of.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// What it said last.
    pub last: Option<Pulse>,
    /// When that was new, or one looked for the first time.
    heard_ms: u64,
    looked_ms: u64,
}

impl Watch {
    /// Begins to look.
    pub fn new(at_ms: u64) -> Watch {
        Watch { last: None, heard_ms: at_ms, looked_ms: at_ms }
    }

    /// What was found at this time. What cannot be (a side that takes back what it said) is not heard.
    pub fn note(&mut self, found: Option<Pulse>, at_ms: u64) {
        // Whoever did not look for a while cannot say that the other was silent.
        if at_ms.saturating_sub(self.looked_ms) > SILENT_MS / 4 {
            self.heard_ms += at_ms - self.looked_ms;
        }
        self.looked_ms = at_ms;
        let Some(pulse) = found else { return };
        let is_new = self.last.is_none_or(|last| {
            pulse.count != last.count
                && pulse.taken >= last.taken
                && pulse.stage as u8 >= last.stage as u8
                && pulse.segment_bytes == last.segment_bytes
        });
        if is_new {
            (self.last, self.heard_ms) = (Some(pulse), at_ms);
        }
    }

    /// Whether it has been silent for too long.
    pub fn is_lost(&self, at_ms: u64) -> bool {
        self.is_silent(at_ms, SILENT_MS)
    }

    /// Whether it has been silent for so long, and has not said that it would be.
    pub fn is_silent(&self, at_ms: u64, limit_ms: u64) -> bool {
        at_ms.saturating_sub(self.heard_ms) >= limit_ms && self.stage() != Stage::Gone
    }

    /// How far it is, as far as is known.
    pub fn stage(&self) -> Stage {
        self.last.map_or(Stage::Going, |last| last.stage)
    }

    /// How far it has read.
    pub fn taken(&self) -> u64 {
        self.last.map_or(0, |last| last.taken)
    }

    /// How far it has written, if that is all.
    pub fn written(&self) -> Option<u64> {
        self.last.filter(|last| last.stage != Stage::Going).map(|last| last.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_said_is_heard(words in any::<[u64; 4]>(), stage in 0..3usize, at in 0..PULSE_BYTES, by in 1u8..) {
            let [count, segment_bytes, taken, written] = words;
            let stage = [Stage::Going, Stage::Ended, Stage::Gone][stage];
            let pulse = Pulse { count, segment_bytes, taken, written, stage };
            let mut bytes = pulse.encode();
            prop_assert_eq!(Pulse::decode(&bytes), Some(pulse));
            prop_assert_eq!(Pulse::decode(&bytes[1..]), None);
            bytes[at] ^= by;
            prop_assert_eq!(Pulse::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_a_pulse_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(Pulse::decode(&bytes), None);
        }
    }

    #[test]
    fn whoever_is_silent_for_long_is_lost_and_whoever_did_not_look_cannot_tell() {
        let pulse = |count| Some(Pulse { count, ..Pulse::default() });
        let mut watch = Watch::new(0);
        (0..40).for_each(|turn| watch.note(pulse(turn), turn * 1_000));
        assert!(!watch.is_lost(43_000));
        (40..46).for_each(|turn| watch.note(pulse(39), turn * 1_000));
        assert!(watch.is_lost(45_000) && !watch.is_silent(45_000, 60_000));
        // A long sleep of our own.
        let mut watch = Watch::new(0);
        watch.note(pulse(1), 1_000);
        watch.note(pulse(1), 60_000);
        assert!(!watch.is_lost(60_000));
        // One that has gone need not say more.
        watch.note(Some(Pulse { count: 2, stage: Stage::Gone, written: 7, ..Pulse::default() }), 60_100);
        assert!(!watch.is_lost(100_000));
        assert_eq!((watch.stage(), watch.written()), (Stage::Gone, Some(7)));
        watch.note(pulse(3), 60_200);
        assert_eq!(watch.stage(), Stage::Gone);
    }
}
