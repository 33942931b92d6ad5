//! Who has come to the roll call of the blocks, and who has not: a value.

use super::notes::{Here, MOST_BLOCKS, VERSION};
use std::collections::BTreeMap;

/// How many of those that are missing are named.
const SHOWN: usize = 8;

/// The roll.
#[derive(Debug)]
pub(super) struct Roll {
    /// Whoever calls the roll says how many blocks there are.
    blocks: u32,
    /// Processes of each block, once one of it has come.
    ranks: Vec<Option<u32>>,
    /// Who has come.
    came: BTreeMap<(u32, u32), Came>,
}

#[derive(Debug)]
struct Came {
    token: u64,
    name: String,
    /// When it was heard of last.
    heard_ms: u64,
}

impl Roll {
    pub(super) fn new(blocks: u32) -> Roll {
        Roll { blocks, ranks: vec![None; blocks.min(MOST_BLOCKS) as usize], came: BTreeMap::new() }
    }

    /// Notes who has come, or says why it cannot be one of us.
    pub(super) fn note(&mut self, here: &Here, now_ms: u64) -> Result<(), String> {
        let Here { version, block, blocks, rank, ranks, token, name } = here;
        if *version != VERSION {
            return Err(format!(
                "it speaks version {version} of the roll call, block 0 version {VERSION}: use the same release of the library everywhere"
            ));
        }
        if *blocks != self.blocks {
            return Err(format!(
                "it says that there are {blocks} blocks, block 0 says {}: set WAITIO_NPB to the same number everywhere",
                self.blocks
            ));
        }
        let Some(known) = self.ranks.get_mut(*block as usize) else {
            return Err(format!(
                "block {block} cannot be: there are {blocks} blocks, numbered from 0: set WAITIO_PBID to one of them"
            ));
        };
        if *ranks == 0 || rank >= ranks {
            return Err(format!("rank {rank} of {ranks} cannot be: ranks go from 0 to one less"));
        }
        if let Some(Came { token: other, name: who, heard_ms }) = self.came.get_mut(&(*block, *rank)) {
            return match other == token {
                true => {
                    *heard_ms = now_ms;
                    Ok(())
                }
                false => Err(format!(
                    "rank {rank} of block {block} has come already ({who}): two programs have WAITIO_PBID={block}, or this one was started twice; give each its own number, from 0 to {}",
                    self.blocks - 1
                )),
            };
        }
        if known.is_some_and(|known| known != *ranks) {
            return Err(format!(
                "block {block} has {} processes, and this one says {ranks}: two programs have WAITIO_PBID={block}; give each its own number, from 0 to {}",
                known.unwrap_or(0),
                self.blocks - 1
            ));
        }
        *known = Some(*ranks);
        self.came.insert((*block, *rank), Came { token: *token, name: name.clone(), heard_ms: now_ms });
        Ok(())
    }

    /// How many have come.
    pub(super) fn len(&self) -> usize {
        self.came.len()
    }

    /// Those who are not here and were not heard of since then have gone.
    pub(super) fn forget_silent(&mut self, since_ms: u64, is_here: impl Fn(u64) -> bool) {
        let silent = self.came.iter().filter(|(_, came)| came.heard_ms < since_ms && !is_here(came.token));
        let silent: Vec<_> = silent.map(|((block, rank), came)| (*block, *rank, came.token)).collect();
        silent.into_iter().for_each(|(block, rank, token)| self.forget(block, rank, token));
    }

    /// A process went before everybody had come: another may come in its place.
    pub(super) fn forget(&mut self, block: u32, rank: u32, token: u64) {
        if self.came.get(&(block, rank)).is_some_and(|came| came.token == token) {
            self.came.remove(&(block, rank));
            if self.came.range((block, 0)..=(block, u32::MAX)).next().is_none() {
                self.ranks[block as usize] = None;
            }
        }
    }

    /// How many processes each block has, when all have come.
    pub(super) fn complete(&self) -> Option<Vec<u32>> {
        let ranks: Vec<u32> = self.ranks.iter().copied().collect::<Option<_>>()?;
        let all: u64 = ranks.iter().map(|&ranks| u64::from(ranks)).sum();
        (all == self.came.len() as u64).then_some(ranks)
    }

    /// Who is missing, for a message.
    pub(super) fn missing(&self) -> String {
        let mut blocks = Vec::new();
        let mut parts = Vec::new();
        for (block, ranks) in (0..).zip(&self.ranks) {
            let Some(ranks) = ranks else {
                blocks.push(block);
                continue;
            };
            let came = || self.came.range((block, 0)..=(block, u32::MAX)).map(|((_, rank), _)| *rank);
            let absent = u64::from(*ranks) - came().count() as u64;
            if absent > 0 && parts.len() < SHOWN {
                let mut present = came().peekable();
                let names = (0..*ranks).filter(|rank| present.next_if_eq(rank).is_none());
                parts.push(format!("{} of block {block}", numbers("rank", absent, names)));
            }
        }
        if !blocks.is_empty() {
            parts.insert(0, numbers("block", blocks.len() as u64, blocks.into_iter()));
        }
        parts.join(", ")
    }
}

/// "rank 3", "ranks 3, 5 and 9 more".
fn numbers(what: &str, count: u64, numbers: impl Iterator<Item = u32>) -> String {
    let shown: Vec<String> = numbers.take(SHOWN).map(|number| number.to_string()).collect();
    let more = match count.saturating_sub(shown.len() as u64) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let plural = if shown.len() > 1 { "s" } else { "" };
    format!("{what}{plural} {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn here(block: u32, rank: u32, ranks: u32) -> Here {
        let (token, name) = (u64::from(block) << 32 | u64::from(rank), format!("host {block}.{rank}"));
        Here { version: VERSION, block, blocks: 3, rank, ranks, token, name }
    }

    #[test]
    fn those_who_are_missing_are_named() {
        let mut roll = Roll::new(3);
        assert_eq!(roll.missing(), "blocks 0, 1, 2");
        roll.note(&here(1, 1, 4), 0).unwrap();
        roll.note(&here(0, 0, 1), 0).unwrap();
        assert_eq!(roll.missing(), "block 2, ranks 0, 2, 3 of block 1");
        roll.note(&here(2, 19, 20), 0).unwrap();
        assert_eq!(
            roll.missing(),
            "ranks 0, 2, 3 of block 1, ranks 0, 1, 2, 3, 4, 5, 6, 7 and 11 more of block 2"
        );
        assert_eq!(roll.complete(), None);
    }

    #[test]
    fn who_cannot_be_one_of_us_is_told_why() {
        let mut roll = Roll::new(3);
        roll.note(&here(1, 0, 2), 0).unwrap();
        roll.note(&here(1, 0, 2), 0).unwrap();
        let strange = [
            (Here { version: 9, ..here(0, 0, 1) }, "version 9"),
            (Here { blocks: 2, ..here(0, 0, 1) }, "WAITIO_NPB"),
            (here(3, 0, 1), "block 3 cannot be"),
            (here(0, 2, 2), "rank 2 of 2"),
            (here(0, 0, 0), "rank 0 of 0"),
            (here(1, 1, 3), "two programs have WAITIO_PBID=1"),
            (Here { token: 77, ..here(1, 0, 2) }, "has come already (host 1.0)"),
        ];
        for (here, why) in strange {
            let refused = roll.note(&here, 0).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(roll.missing(), "blocks 0, 2, rank 1 of block 1");
    }

    #[test]
    fn who_went_leaves_its_place_to_another() {
        let mut roll = Roll::new(1);
        let one = |token, ranks| Here { blocks: 1, token, ..here(0, 0, ranks) };
        roll.note(&one(5, 2), 0).unwrap();
        roll.forget(0, 0, 6);
        assert!(roll.note(&one(7, 1), 0).is_err());
        roll.forget(0, 0, 5);
        roll.note(&one(7, 1), 0).unwrap();
        assert_eq!(roll.complete(), Some(vec![1]));
    }

    #[test]
    fn who_is_silent_for_long_and_not_here_has_gone() {
        let mut roll = Roll::new(3);
        roll.note(&here(1, 0, 3), 10).unwrap();
        roll.note(&here(1, 1, 3), 10).unwrap();
        roll.note(&here(1, 2, 3), 10).unwrap();
        roll.note(&here(1, 2, 3), 50).unwrap();
        roll.forget_silent(50, |token| token == here(1, 1, 3).token);
        assert_eq!((roll.len(), roll.missing().as_str()), (2, "blocks 0, 2, rank 0 of block 1"));
    }

    proptest! {
        /// Whatever the order in which they come, go and come again: when all are there, and only then, it is complete.
        #[test]
        fn all_have_come_when_each_has(
            sizes in proptest::collection::vec(1u32..5, 3..4),
            steps in proptest::collection::vec((0u32..3, 0u32..5, any::<bool>()), 0..80),
        ) {
            let mut roll = Roll::new(3);
            let mut model = std::collections::BTreeSet::new();
            for (block, rank, comes) in steps {
                let ranks = sizes[block as usize];
                if rank >= ranks { continue }
                let here = here(block, rank, ranks);
                if comes {
                    roll.note(&here, 0).unwrap();
                    model.insert((block, rank));
                } else {
                    roll.forget(block, rank, here.token);
                    model.remove(&(block, rank));
                }
                let all = model.len() as u32 == sizes.iter().sum::<u32>();
                prop_assert_eq!(roll.complete(), all.then(|| sizes.clone()));
                prop_assert_eq!(roll.missing().is_empty(), all);
            }
        }
    }
}
