//! Members of a node tell each other where memory is that they lend, and say when they are done with it. Nobody meets: whoever uses what one lends waits for that one
//! alone, and one who lends waits until all have used it.

use super::block::{SPREAD_AT, SPREAD_END, SPREAD_MARK_AT, SPREAD_NOTE_AT, USED_AT};
use super::direct::{pointer, Note, Pieces};
use super::lanes::differs;
use super::Talk;
use crate::{Rank, Result};
use kumiki_mem::Span;
use std::sync::atomic::Ordering::AcqRel;

/// What goes to a member.
pub(super) struct Gift<'d> {
    /// The bytes, or how many of them, if they are in what this member lends, at the same place.
    pub(super) bytes: std::result::Result<&'d [u8], usize>,
    /// Where they go in what the other lends.
    pub(super) at: usize,
}

impl<'w> Talk<'_, 'w> {
    /// Tells the others of the node a note, and waits until each has [used](Self::use_spread) what it speaks of.
    pub(super) fn spread(&mut self, note: Note) -> Result<()> {
        self.state.spreads += 1;
        self.tell_near(&note)?;
        self.await_used()
    }

    /// Waits for what a member of the node [spreads](Self::spread), and uses it.
    pub(super) fn use_spread(&mut self, root: u32, use_it: impl FnOnce(Note) -> Result<()>) -> Result<()> {
        self.state.spreads += 1;
        use_it(self.told_near(root)?)?;
        self.has_used(root)
    }

    /// Gives something to each member of the node, in memory that it lends, and waits until all others have given something to this one. All lend as
    /// much.
    pub(super) fn give_near<'d>(&mut self, lent: Note, gift: impl Fn(usize) -> Gift<'d>) -> Result<()> {
        let ((count, me), world) = (self.near(), self.group.world);
        self.state.spreads += 1;
        self.tell_near(&lent)?;
        world.scope(|scope| {
            // Each begins with another one.
            for member in (1..=count).map(|step| (me + step) % count) {
                let note: Note = if member == me { lent } else { self.told_near(member as u32)? };
                if note[2] != lent[2] {
                    return Err(differs(format!("member {member} has room for {} bytes", note[2])));
                }
                let Gift { bytes, at } = gift(member);
                match bytes {
                    Ok([]) | Err(0) => {}
                    Ok(bytes) => scope.put(pointer(note, at), bytes)?,
                    Err(_) if member == me => {}
                    Err(bytes) => world.memory.copy_now(pointer(note, at), pointer(lent, at), bytes)?,
                }
            }
            Ok(())
        })?;
        self.part_near()
    }

    /// Tells all others of the node where the two pieces of memory are that it lends, and gives theirs. All lend as much, with their own parts; they do so until all
    /// have [parted](Self::part_near).
    pub(super) fn swap_pieces(&mut self, lent: Pieces) -> Result<Vec<Pieces>> {
        let (count, me) = self.near();
        self.state.spreads += 1;
        self.tell_near(&lent)?;
        let mut pieces = vec![lent; count];
        for member in (0..count).filter(|member| *member != me) {
            pieces[member] = self.told_near(member as u32)?;
        }
        match pieces.iter().position(|one| one[0] != lent[0]) {
            Some(member) => Err(differs(format!("member {member} has {} bytes", pieces[member][0]))),
            None => Ok(pieces),
        }
    }

    /// This member is done with what all others lend; waits until they are with what this one does.
    pub(super) fn part_near(&mut self) -> Result<()> {
        let (count, me) = self.near();
        (1..count).try_for_each(|step| self.has_used(((me + step) % count) as u32))?;
        self.await_used()
    }

    /// Tells all others of the node a note.
    fn tell_near<const WORDS: usize>(&mut self, note: &[u64; WORDS]) -> Result<()> {
        const { assert!(SPREAD_NOTE_AT + 8 * WORDS as u64 <= SPREAD_END) };
        let (group, own) = (self.group, self.own()?);
        // What was told before has been used by all.
        own.store(USED_AT, 0)?;
        own.store(SPREAD_MARK_AT, self.mark)?;
        for (at, word) in (SPREAD_NOTE_AT..).step_by(8).zip(note) {
            own.store(at, *word)?;
        }
        own.store(SPREAD_AT, self.state.spreads)?;
        let others = (0..group.near.count).filter(|index| *index != group.near.me);
        others.map(|index| self.rank_near(index)).try_for_each(|rank| group.world.wake(rank?))
    }

    /// What a member of the node tells, when it does.
    fn told_near<const WORDS: usize>(&mut self, index: u32) -> Result<[u64; WORDS]> {
        const { assert!(SPREAD_NOTE_AT + 8 * WORDS as u64 <= SPREAD_END) };
        let (rank, block) = (self.rank_near(index)?, self.block_near(index)?);
        self.look_at(|| Some(rank), block.word(SPREAD_AT)?, self.state.spreads)?;
        if block.load(SPREAD_MARK_AT)? != self.mark {
            return Err(self.another_call(index));
        }
        let mut note = [0; WORDS];
        for (at, word) in (SPREAD_NOTE_AT..).step_by(8).zip(&mut note) {
            *word = block.load(at)?;
        }
        Ok(note)
    }

    /// This member is done with what another one has told. The last one wakes that.
    fn has_used(&self, index: u32) -> Result<()> {
        let (group, block, rank) = (self.group, self.block_near(index)?, self.rank_near(index)?);
        // Behind this it may be gone.
        if block.word(USED_AT)?.fetch_add(1, AcqRel) + 2 == u64::from(group.near.count) {
            group.world.wake(rank)?;
        }
        Ok(())
    }

    /// Waits until all others are done with what this member has told.
    fn await_used(&mut self) -> Result<()> {
        let others = u64::from(self.group.near.count) - 1;
        self.await_word(self.own()?.word(USED_AT)?, others)
    }

    fn rank_near(&self, index: u32) -> Result<Rank> {
        Ok(self.local().rank_of(self.group.near_block(index)?))
    }

    /// The block of a member of this node.
    pub(super) fn block_near(&self, index: u32) -> Result<Span<'w>> {
        match self.group.known(index) {
            Some(block) => Ok(block),
            None if index == self.group.near.me => self.own(),
            None => self.local().span(self.group.near_block(index)?, self.group.layout.bytes),
        }
    }
}
