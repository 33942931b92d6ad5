//! What is short and comes from one member of a node, where each has a core: it writes a line of its block, and the others look at that
//! line and at nobody else.
//!
//! Each member has a few such lines, used in turn, one for each of these calls. It says how many of the calls it is done with; whoever writes a line again
//! looks whether all others are done with what was there, and remembers how far they are. So one that tells is ahead of the others by as many calls as
//! there are lines at most, and mostly waits for nobody.

use super::block::{LINE_BYTES, TOLD_LINES};
use super::shown::rank_of;
use super::Talk;
use crate::Result;
use kumiki_mem::Span;

/// Where things are in a line: a mark, the number of the call, and the bytes.
const NUMBER_AT: u64 = 8;
const BYTES_AT: u64 = 16;
const MOST_BYTES: usize = (LINE_BYTES - BYTES_AT) as usize;

impl<'w> Talk<'_, 'w> {
    /// Whether so many bytes go from one member of this node to the others in a line.
    pub(super) fn fits_line(&self, bytes: usize) -> bool {
        let group = self.group;
        group.looks && !group.known.is_empty() && group.layout.told > 0 && bytes <= MOST_BYTES
    }

    /// Bytes of one member go to all others of this node.
    pub(super) fn tell_all(&mut self, root: u32, data: &mut [u8]) -> Result<()> {
        let (group, me) = (self.group, self.group.near.me);
        self.state.told += 1;
        let (own, number) = (self.block_near(me)?, self.state.told);
        let line = |block: Span<'w>| {
            block.part(group.layout.told + (1 + number % TOLD_LINES) * LINE_BYTES, LINE_BYTES)
        };
        if me == root {
            self.await_takers(number.saturating_sub(TOLD_LINES))?;
            let line = line(own)?;
            line.write(BYTES_AT, data)?;
            line.store(0, self.mark)?;
            line.store(NUMBER_AT, number)?;
        } else {
            let line = line(self.block_near(root)?)?;
            self.look_at(|| rank_of(group, root), line.word(NUMBER_AT)?, number)?;
            if line.load(0)? != self.mark {
                return Err(self.another_call(root));
            }
            line.read(BYTES_AT, data)?;
        }
        own.store(group.layout.told, number)?;
        self.wake_near()
    }

    /// Waits until all others are done with so many of these calls.
    fn await_takers(&mut self, number: u64) -> Result<()> {
        if self.state.taken >= number {
            return Ok(());
        }
        let (group, mut least) = (self.group, u64::MAX);
        for index in (0..group.near.count).filter(|index| *index != group.near.me) {
            let block = self.block_near(index)?;
            let done = block.word(group.layout.told)?;
            self.look_at(|| rank_of(group, index), done, number)?;
            least = least.min(block.load(group.layout.told)?);
        }
        self.state.taken = least;
        Ok(())
    }
}
