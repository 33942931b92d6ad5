//! Flat, for what is longer than a half: members of a node show it in pieces, and read one piece behind what they show, so that nobody waits for another one who is as
//! fast.
//!
//! The room of both halves but their heads is four places, used in turn. Whoever writes piece *n* has seen that the others have written piece *n* − 2, which they
//! do when they have read piece *n* − 4, the one that was in the same place. When a member has read all it says so by one more on its count, and before somebody writes to
//! a half again it has seen that of all, or that they have come to a later call.

use super::block::PIPED_AT;
use super::operation::Reduction;
use super::shown::merge_shown;
use super::Talk;
use crate::{Error, Result};
use kumiki_mem::Span;

impl<'w> Talk<'_, 'w> {
    /// Bytes of a piece, if so many bytes of such elements are shown in pieces: where all members have a core, and know each other's blocks.
    pub(super) fn piped_step(&self, bytes: usize, element: usize) -> Option<usize> {
        let (group, layout) = (self.group, &self.group.layout);
        let step = (layout.quarter() as usize).checked_div(element)? * element;
        let is_long = bytes as u64 > layout.half;
        (is_long && step > 0 && group.looks && !group.known.is_empty()).then_some(step)
    }

    /// Combines elements of so many of the first members of the node, in their order, as [`show_merged`](Self::show_merged) does.
    pub(super) fn pipe_merged(
        &mut self,
        data: &mut [u8],
        reduction: Reduction<'_>,
        wanted: usize,
        step: usize,
    ) -> Result<()> {
        let _booked = self.scratch(2 * step)?;
        let (own, begun) = ((self.near().1, wanted), self.state.piped);
        // Behind this nobody reads what lies there, and all do the same.
        self.show(data.len(), &[])?;
        let mut buffers = Default::default();
        let pieces = data.len().div_ceil(step);
        for piece in 0..=pieces {
            if let Some(bytes) = data.chunks(step).nth(piece) {
                self.place(self.near().1 as u32, begun + piece as u64)?.write(0, bytes)?;
                self.count_pieces(begun + piece as u64 + 1)?;
            }
            let Some(before) = piece.checked_sub(1) else { continue };
            self.await_pieces(begun + piece as u64)?;
            let end = data.len().min(piece * step);
            let shown = |index, into: &mut [u8]| self.place(index, begun + before as u64)?.read(0, into);
            merge_shown(&mut data[before * step..end], reduction, own, &mut buffers, shown)?;
        }
        self.state.is_unread = true;
        self.count_pieces(begun + pieces as u64 + 1)
    }

    /// Waits until nobody reads a piece of this member.
    pub(super) fn await_readers(&mut self) -> Result<()> {
        if self.state.is_unread {
            self.await_pieces(self.state.piped)?;
            self.state.is_unread = false;
        }
        Ok(())
    }

    /// The block of a member, which is known.
    fn known(&self, index: u32) -> Result<Span<'w>> {
        self.group.known(index).ok_or_else(|| Error::Closed("the group has ended".into()))
    }

    /// Where a member shows a piece.
    fn place(&self, index: u32, piece: u64) -> Result<Span<'w>> {
        let layout = &self.group.layout;
        self.known(index)?.part(layout.quarter_of(piece), layout.quarter())
    }

    /// Says how far this member has come, to all others of the node.
    fn count_pieces(&mut self, count: u64) -> Result<()> {
        let (group, local) = (self.group, self.local());
        self.state.piped = count;
        self.known(group.near.me)?.store(PIPED_AT, count)?;
        let others = group.known.iter().enumerate().filter(|(index, _)| *index != group.near.me as usize);
        others.map(|(_, block)| local.rank_of(block.address())).try_for_each(|rank| group.world.wake(rank))
    }

    /// Waits until all others of the node have come so far.
    fn await_pieces(&mut self, count: u64) -> Result<()> {
        let (group, local) = (self.group, self.local());
        for index in (0..group.near.count).filter(|index| *index != group.near.me) {
            let block = self.known(index)?;
            self.look_at(|| Some(local.rank_of(block.address())), block.word(PIPED_AT)?, count)?;
        }
        Ok(())
    }
}
