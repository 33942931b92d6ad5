//! A roll call to which anybody comes and says anything, as a script of bytes says: for the fuzzer, and for a property test.
//!
//! What must hold: nothing panics; what decodes encodes to the same bytes; whoever was noted is on the roll until it went, and nobody
//! else is; the roll is complete when each has come of each block, and then nobody is missing.

use super::notes::{Here, Told, VERSION};
use super::roll::Roll;
use std::collections::BTreeMap;

/// Runs the roll call that a script describes. Panics if something does not hold.
#[cfg_attr(not(fuzzing), allow(unreachable_pub))]
pub fn run(script: &[u8]) {
    decode(script);
    let mut script = Script(script);
    let blocks = 1 + u32::from(script.byte() % 4);
    let mut storm = Storm { blocks, roll: Roll::new(blocks), model: BTreeMap::new(), now_ms: 0 };
    while !script.0.is_empty() {
        storm.step(&mut script);
        storm.check();
    }
}

/// Both decoders: what they take is said again in the same bytes.
fn decode(bytes: &[u8]) {
    match Here::decode(bytes) {
        Ok(here) if here.version == VERSION => assert_eq!(here.encode(), bytes),
        // Of another version only the number is read.
        Ok(here) => assert_eq!(bytes[1..5], here.version.to_le_bytes()),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    if let Ok(told) = Told::decode(bytes) {
        assert_eq!(told.encode(), bytes);
    }
}

/// What is left of the script; behind its end there are zeroes.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, most: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(most.min(self.0.len()));
        self.0 = tail;
        head
    }
}

/// A roll, and who must be on it: token, processes of its block as it said, and when it was heard of.
struct Storm {
    blocks: u32,
    roll: Roll,
    model: BTreeMap<(u32, u32), (u64, u32, u64)>,
    now_ms: u64,
}

impl Storm {
    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 4 {
            0 => {
                let bytes = usize::from(script.byte());
                if let Ok(here) = Here::decode(script.take(bytes)) {
                    self.note(&here);
                }
            }
            1 => {
                let here = self.somebody(script);
                decode(&here.encode());
                self.note(&here);
            }
            2 => {
                let Here { block, rank, token, .. } = self.somebody(script);
                self.roll.forget(block, rank, token);
                if self.model.get(&(block, rank)).is_some_and(|(known, ..)| *known == token) {
                    self.model.remove(&(block, rank));
                }
            }
            _ => {
                let (since_ms, here) = (u64::from(script.byte()), u64::from(script.byte() % 4));
                self.roll.forget_silent(since_ms, |token| token == here);
                self.model.retain(|_, (token, _, heard_ms)| *heard_ms >= since_ms || *token == here);
            }
        }
        self.now_ms += 1;
    }

    /// One of few, so that they meet.
    fn somebody(&self, script: &mut Script<'_>) -> Here {
        let [block, rank, ranks] = [5, 4, 5].map(|most| u32::from(script.byte() % most));
        let (token, name) = (u64::from(script.byte() % 4), "somebody".to_owned());
        Here { version: VERSION, block, blocks: self.blocks, rank, ranks, token, name }
    }

    fn note(&mut self, here: &Here) {
        let Here { version, block, blocks, rank, ranks, token, .. } = *here;
        let noted = self.roll.note(here, self.now_ms);
        let agrees = |(at, (_, known, _)): (&(u32, u32), &(u64, u32, u64))| at.0 != block || *known == ranks;
        let fits = version == VERSION && blocks == self.blocks && block < blocks && rank < ranks;
        let may_come = match self.model.get(&(block, rank)) {
            Some((known, ..)) => *known == token,
            None => self.model.iter().all(agrees),
        };
        assert_eq!(noted.is_ok(), fits && may_come, "{here:?}: {noted:?}");
        match noted {
            Err(why) => assert!(!why.is_empty()),
            Ok(()) => {
                // Whoever comes again does not change what it said first.
                let entry = self.model.entry((block, rank)).or_insert((token, ranks, 0));
                entry.2 = self.now_ms;
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.roll.len(), self.model.len());
        let size = |block| self.model.range((block, 0)..=(block, u32::MAX)).next().map(|(_, said)| said.1);
        let sizes: Option<Vec<u32>> = (0..self.blocks).map(size).collect();
        let all = |sizes: &Vec<u32>| sizes.iter().map(|&ranks| u64::from(ranks)).sum::<u64>();
        let complete = sizes.filter(|sizes| all(sizes) == self.model.len() as u64);
        assert_eq!(self.roll.missing().is_empty(), complete.is_some());
        assert_eq!(self.roll.complete(), complete);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whoever_comes_and_whatever_is_said_the_roll_is_right(
            script in proptest::collection::vec(any::<u8>(), 0..400),
            steps in proptest::collection::vec((1u8..4, 0u8..5, 0u8..4, 0u8..5, 0u8..4), 0..60),
        ) {
            super::run(&script);
            let mut apt = vec![script.first().copied().unwrap_or(0)];
            steps.iter().for_each(|(kind, block, rank, ranks, token)| apt.extend([*kind, *block, *rank, *ranks, *token]));
            super::run(&apt);
        }
    }
}
