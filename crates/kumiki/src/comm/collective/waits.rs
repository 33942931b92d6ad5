//! Waits for members of this node. Messages of the program go on meanwhile: whoever waits for one may come to this call only then.

use super::block::{self, BROKEN_AT, HEAD_BYTES};
use super::lanes::{differs, ends, standing, Standing, SLOW, WAIT_A_WHILE};
use super::Talk;
use crate::{Error, GlobalAddress, Rank, Result, Wait};
use std::sync::atomic::AtomicU64;

impl Talk<'_, '_> {
    fn look_in_slices<T>(&self, look: &impl Fn() -> Option<Result<T>>, wait: Wait) -> Result<T> {
        let world = self.group.world;
        world.wait_with_messages(SLOW, |limit| world.look_for(look, wait.for_at_most(limit)))
    }

    /// Waits until a word of a member of this node has come so far.
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

    /// Waits until the other members of this node have brought a word of this one so far.
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

    /// Looks whether a member of this node is in another call.
    pub(super) fn look_around(&self) -> Result<()> {
        for block in self.group.near_blocks() {
            if self.standing_of(block) == Some(Standing::Elsewhere) {
                let rank = self.local().rank_of(block);
                return Err(differs(format!("rank {rank} came with another call")));
            }
        }
        Ok(())
    }

    /// Fails if a member of this node is gone that is not known to have finished this call.
    pub(super) fn check_near(&self) -> Result<()> {
        let local = self.local();
        if self.group.layout.half > 0 {
            // It has the table of the others.
            local.check_alive(local.rank_of(self.group.near.first))?;
        }
        let mut open =
            self.group.near_blocks().filter(|block| self.standing_of(*block) != Some(Standing::Ahead));
        open.try_for_each(|block| local.check_alive(local.rank_of(block)))
    }

    /// Where a member of this node is, if that can be seen.
    fn standing_of(&self, block: GlobalAddress) -> Option<Standing> {
        let head = self.local().span(block, HEAD_BYTES);
        let [board, past, _] = head.and_then(|head| block::look(head, self.call)).ok()?;
        Some(standing(self.state.board, board, past))
    }
}
