//! Waits for members of this node. Messages of the program go on meanwhile: whoever waits for one may come to this call only then.

use super::block::BROKEN_AT;
use super::lanes::{ends, SLOW, WAIT_A_WHILE};
use super::Talk;
use crate::{Error, Rank, Result, Wait};
use std::sync::atomic::AtomicU64;

impl Talk<'_, '_> {
    fn look_in_slices<T>(&self, look: &impl Fn() -> Option<Result<T>>, wait: Wait) -> Result<T> {
        let world = self.group.world;
        world.wait_with_messages(SLOW, |limit| world.look_for(look, wait.for_at_most(limit)))
    }

    /// Waits until a member of this node shows what it has in a turn.
    pub(super) fn await_turn(&mut self, rank: Rank, shown: &AtomicU64, turn: u64) -> Result<()> {
        use std::sync::atomic::Ordering::Acquire;
        let broken = self.own()?.word(BROKEN_AT)?;
        let call = self.call;
        // Whoever has shown what it has may have left since.
        let look = || match (broken.load(Acquire), shown.load(Acquire) >= turn) {
            (_, true) => Some(Ok(0)),
            (word, false) => ends(word, call).then_some(Ok(word)),
        };
        loop {
            match self.look_in_slices(&look, WAIT_A_WHILE.from(rank)) {
                Ok(0) => return Ok(()),
                Ok(word) => return Err(self.heard(word)),
                late => {
                    let trouble = match late {
                        Err(Error::Timeout { .. }) => self.look_out(),
                        late => late.map(drop),
                    };
                    if shown.load(Acquire) < turn {
                        trouble?;
                    }
                }
            }
        }
    }

    /// Waits until members of this node have brought a word of the first of them, which this is, so far.
    pub(super) fn await_word(&mut self, word: &AtomicU64, until: u64) -> Result<()> {
        use std::sync::atomic::Ordering::Acquire;
        let broken = self.own()?.word(BROKEN_AT)?;
        let call = self.call;
        let look = || match (broken.load(Acquire), word.load(Acquire) >= until) {
            (_, true) => Some(Ok(0)),
            (word, false) => ends(word, call).then_some(Ok(word)),
        };
        loop {
            let wait = match self.state.has_lost_strangers {
                // Who of the members is lost is looked at now and then.
                true => WAIT_A_WHILE.from(self.group.world.rank()),
                false => WAIT_A_WHILE,
            };
            match self.look_in_slices(&look, wait) {
                Ok(0) => return Ok(()),
                Ok(word) => return Err(self.heard(word)),
                Err(Error::PeerLost { rank, .. }) if !self.group.has(rank) => {
                    self.state.has_lost_strangers = true;
                }
                late => {
                    let trouble = match late {
                        Err(Error::Timeout { .. }) => self.look_out(),
                        late => late.map(drop),
                    };
                    if word.load(Acquire) < until {
                        trouble?;
                    }
                }
            }
        }
    }
}
