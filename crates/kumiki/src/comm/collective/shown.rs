//! Flat: the members of a node show each other what they have, in their blocks, a half at a time; or what is long in rooms (`rooms.rs`).
//!
//! In a round each member writes to a half of its own block, all meet, and each reads what it wants of the others. The next round uses
//! the other halves; when all have met in that, nobody reads the first ones any more. So a round is one meeting.
//!
//! Where each member has a core it does not take one: each looks at the others until they show something in this turn, and has thereby
//! seen that they are done with the turn before. What is short and comes from one of them goes another way there (`told.rs`).

use super::block::{ARRIVED_AT, HALF_HEAD_BYTES, TURN_AT};
use super::direct::Circle;
use super::lanes::differs;
use super::operation::{Aligned, Reduction};
use super::rooms::{Rooms, ROOM_PIECE};
use super::{Group, Talk, MERGED_BYTES};
use crate::{Error, Rank, Result};
use kumiki_mem::Span;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

/// Looks at a member of this node before one waits for it as one waits for others, where each has a core.
const LOOKS: u32 = 200;

/// What a member wants of another, of which it knows how many bytes that shows in all: a range of them, and where it goes.
pub(super) type Wanted<'a> = &'a dyn Fn(usize, usize) -> Result<(Range<usize>, usize)>;

impl<'w> Talk<'_, 'w> {
    /// How many members there are on this node, and which of them this is.
    pub(super) fn near(&self) -> (usize, usize) {
        (self.group.near.count as usize, self.group.near.me as usize)
    }

    /// Meets the members of this node.
    pub(super) fn meet(&mut self) -> Result<()> {
        if self.group.near.count == 1 {
            return Ok(());
        }
        match self.group.looks {
            true => self.show(0, &[]).map(drop),
            false => self.meet_in(true),
        }
    }

    /// Waits until all members of this node show something in this turn.
    fn await_all(&mut self) -> Result<()> {
        self.wake_near()?;
        let (group, turn) = (self.group, self.state.turn);
        for index in (0..group.near.count).filter(|index| *index != group.near.me) {
            let shown = self.half(index)?.word(TURN_AT)?;
            self.look_at(|| rank_of(group, index), shown, turn)?;
        }
        Ok(())
    }

    /// Wakes whoever of this node waits for what this member has written.
    pub(super) fn wake_near(&self) -> Result<()> {
        let group = self.group;
        let others = (0..group.near.count).filter(|index| *index != group.near.me);
        group.world.memory.wake_all(others.filter_map(|index| rank_of(group, index)))
    }

    /// Looks at a word of a member of this node until it has come so far; after a while as one waits for others.
    #[inline]
    pub(super) fn look_at(
        &mut self,
        rank: impl Fn() -> Option<Rank>,
        word: &AtomicU64,
        until: u64,
    ) -> Result<()> {
        let (mut looks, most) = (0, if self.group.looks { LOOKS } else { 0 });
        while word.load(Acquire) < until {
            looks += 1;
            if looks > most {
                return self.await_turn(rank().unwrap_or(u32::MAX), word, until);
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Shows bytes, which are a part of so many, and meets the others; gives the most that any of them shows in all.
    pub(super) fn show(&mut self, total: usize, bytes: &[u8]) -> Result<usize> {
        self.state.turn += 1;
        self.write_half(total, bytes)?;
        match self.group.looks {
            true => self.await_all()?,
            false => self.meet_in(true)?,
        }
        // Whoever has come here has read all that was piped before.
        self.state.is_unread = false;
        let mut most = 0;
        for index in 0..self.group.near.count {
            let half = self.half(index)?;
            if half.load(0)? != self.mark {
                return Err(self.another_call(index));
            }
            most = most.max(half.load(8)? as usize);
        }
        Ok(most)
    }

    fn half(&self, index: u32) -> Result<Span<'w>> {
        let layout = &self.group.layout;
        let at = layout.half_of(self.state.turn);
        self.block_near(index)?.part(at, HALF_HEAD_BYTES + layout.half)
    }

    /// Every member shows bytes, and takes what it wants of those of the others.
    pub(super) fn stream(&mut self, mine: &[u8], into: &mut [u8], wanted: Wanted<'_>) -> Result<()> {
        self.stream_through(None, mine, into, wanted)
    }

    /// The same through the halves of the blocks, or through rooms.
    pub(super) fn stream_through(
        &mut self,
        rooms: Option<&[Span<'w>]>,
        mine: &[u8],
        into: &mut [u8],
        wanted: Wanted<'_>,
    ) -> Result<()> {
        let (count, me) = self.near();
        if count == 1 {
            let (range, place) = wanted(me, mine.len())?;
            into[place..place + range.len()].copy_from_slice(&mine[range]);
            return Ok(());
        }
        let step = if rooms.is_some() { ROOM_PIECE } else { self.group.layout.half as usize };
        let mut at = 0;
        loop {
            let end = (at + step).min(mine.len());
            let piece = mine.get(at..end).unwrap_or(&[]);
            let place = (at / step % 2 * step) as u64;
            let most = match rooms {
                None => self.show(mine.len(), piece)?,
                Some(rooms) => {
                    rooms[me].write(place, piece)?;
                    self.show(mine.len(), &[])?
                }
            };
            for index in 0..count {
                let half = self.half(index as u32)?;
                let total = half.load(8)? as usize;
                let (range, goes) = wanted(index, total)?;
                if range.end > total {
                    return Err(differs(format!(
                        "member {index} of the node has {total} bytes instead of {}",
                        range.end
                    )));
                }
                let (from, to) = (range.start.max(at), range.end.min(at + step));
                if from < to {
                    let goes = goes + from - range.start;
                    let (into, from) = (&mut into[goes..goes + to - from], (from - at) as u64);
                    match rooms {
                        None => half.read(HALF_HEAD_BYTES + from, into)?,
                        Some(rooms) => rooms[index].read(place + from, into)?,
                    }
                }
            }
            at += step;
            if at >= most {
                break;
            }
        }
        match rooms {
            None => Ok(()),
            // Nobody reads in rooms any more.
            Some(_) => self.meet(),
        }
    }

    /// Bytes of one member of the node go to all of them.
    pub(super) fn show_all(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        let (count, me) = self.near();
        if count == 1 {
            return Ok(());
        }
        let bytes = data.len();
        if self.fits_line(bytes) {
            return self.tell_all(root as u32, data);
        }
        let rooms = match self.rooms(bytes)? {
            Rooms::Short => None,
            Rooms::Open(rooms) => Some(rooms),
            Rooms::None => return self.direct_broadcast(Circle::Near, root, data),
        };
        let wanted = |index: usize, total: usize| match index == root {
            true if me == root => Ok((0..0, 0)),
            true if total != bytes => Err(differs(format!("the root has {total} bytes instead of {bytes}"))),
            true => Ok((0..bytes, 0)),
            false => Ok((0..0, 0)),
        };
        match me == root {
            true => self.stream_through(rooms.as_deref(), data, &mut [], &wanted),
            false => self.stream_through(rooms.as_deref(), &[], data, &wanted),
        }
    }

    /// Combines elements of the members of the node, in their order, on all of them: where each has a core, and there are enough, through rooms.
    pub(super) fn show_all_merged(&mut self, data: &mut [u8], reduction: Reduction<'_>) -> Result<()> {
        let (count, _) = self.near();
        let rooms = match self.group.looks && (1..=ROOM_PIECE).contains(&reduction.element) {
            true => self.rooms(data.len())?,
            false => Rooms::Short,
        };
        match rooms {
            Rooms::Open(rooms) => self.merge_in_rooms(&rooms, data, reduction),
            Rooms::Short | Rooms::None => self.show_merged(data, reduction, count),
        }
    }

    /// Combines elements of the members of the node, in their order: of so many of the first of them, for this member. Whoever wants none keeps
    /// what it has.
    pub(super) fn show_merged(
        &mut self,
        data: &mut [u8],
        reduction: Reduction<'_>,
        wanted: usize,
    ) -> Result<()> {
        let element = reduction.element;
        let (count, me) = self.near();
        if count == 1 || element == 0 {
            return Ok(());
        }
        if let Some(step) = self.piped_step(data.len(), element) {
            return self.pipe_merged(data, reduction, wanted, step);
        }
        let step = (self.group.layout.half as usize / element).max(1) * element;
        let _booked = self.scratch(2 * step.min(data.len()))?;
        let mut buffers = std::mem::take(&mut self.state.merged);
        let mut at = 0;
        loop {
            let end = (at + step).min(data.len());
            self.show(data.len(), &data[at..end])?;
            let shown = |index, into: &mut [u8]| self.half(index)?.read(HALF_HEAD_BYTES, into);
            merge_shown(&mut data[at..end], reduction, (me, wanted), &mut buffers, shown)?;
            at = end;
            if at >= data.len() {
                break;
            }
        }
        if 2 * step.min(data.len()) <= MERGED_BYTES {
            self.state.merged = buffers;
        }
        Ok(())
    }

    /// Whether the first member of this node can gather from the others and give to them: they know its block, and it theirs.
    pub(super) fn is_led(&self, bytes: usize) -> bool {
        !self.group.known.is_empty() && bytes as u64 <= self.group.layout.half
    }

    /// Combines elements of the members of this node, in their order, on the first of them; and gives all of them what that makes of it. The
    /// others wait once, and only the last of them to come wakes the first.
    pub(super) fn led(
        &mut self,
        data: &mut [u8],
        reduction: Reduction<'_>,
        work: impl FnOnce(&mut Self, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let (count, me) = self.near();
        if count == 1 {
            return work(self, data);
        }
        self.state.led += 1;
        let first = self.group.known(0).ok_or_else(|| Error::Closed("the group has ended".into()))?;
        let (arrived, all) = (first.word(ARRIVED_AT)?, self.state.led * (count as u64 - 1));
        let (group, local) = (self.group, self.local());
        let rank_of = |block: &Span<'_>| local.rank_of(block.address());
        if me > 0 {
            self.state.turn += 1;
            self.write_half(data.len(), data)?;
            if arrived.fetch_add(1, AcqRel) + 1 == all {
                group.world.wake(rank_of(&first))?;
            }
            self.state.turn += 1;
            let half = self.half(0)?;
            self.await_turn(rank_of(&first), half.word(TURN_AT)?, self.state.turn)?;
            self.check_half(0, data.len())?;
            return half.read(HALF_HEAD_BYTES, data);
        }
        self.state.turn += 1;
        self.await_word(arrived, all)?;
        let _booked = self.scratch(data.len())?;
        let [mut other, kept] = std::mem::take(&mut self.state.merged);
        other.resize(data.len());
        for index in 1..count as u32 {
            self.check_half(index, data.len())?;
            self.half(index)?.read(HALF_HEAD_BYTES, other.bytes_mut())?;
            (reduction.merge)(data, other.bytes(), false);
        }
        if data.len() <= MERGED_BYTES / 2 {
            self.state.merged = [other, kept];
        }
        work(self, data)?;
        self.state.turn += 1;
        self.write_half(data.len(), data)?;
        group.known.iter().skip(1).map(rank_of).try_for_each(|rank| group.world.wake(rank))
    }

    /// Writes what this member shows in this turn.
    fn write_half(&mut self, total: usize, bytes: &[u8]) -> Result<()> {
        if !bytes.is_empty() {
            self.await_readers()?;
        }
        let half = self.half(self.group.near.me)?;
        half.write(HALF_HEAD_BYTES, bytes)?;
        half.store(0, self.mark)?;
        half.store(8, total as u64)?;
        half.store(TURN_AT, self.state.turn)
    }

    /// Fails if a member shows something else, or not so many bytes.
    fn check_half(&self, index: u32, bytes: usize) -> Result<()> {
        let half = self.half(index)?;
        match half.load(0)? == self.mark && half.load(8)? == bytes as u64 {
            true => Ok(()),
            false => Err(self.another_call(index)),
        }
    }

    pub(super) fn another_call(&self, index: u32) -> Error {
        let rank = self.group.near_block(index).map_or(u32::MAX, |block| self.local().rank_of(block));
        differs(format!("rank {rank} came with another call"))
    }
}

/// The rank of a member of this node whose block is known.
pub(super) fn rank_of(group: &Group<'_>, index: u32) -> Option<Rank> {
    let block = group.known.get(index as usize)?;
    Some(group.world.local().rank_of(block.address()))
}

/// Combines what members show, which `shown` reads, with what this one has where it has it, in their order: of so many of the first of them.
pub(super) fn merge_shown(
    own: &mut [u8],
    reduction: Reduction<'_>,
    (me, wanted): (usize, usize),
    [kept, other]: &mut [Aligned; 2],
    shown: impl Fn(u32, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let bytes = own.len();
    let read = |index: usize, into: &mut Aligned| {
        into.resize(bytes);
        shown(index as u32, into.bytes_mut())
    };
    let before = me.min(wanted);
    for index in 0..before {
        read(index, if index == 0 { &mut *kept } else { &mut *other })?;
        if index > 0 {
            (reduction.merge)(kept.bytes_mut(), other.bytes(), false);
        }
    }
    match (before > 0, me < wanted) {
        // All do the same with the same operands: a sum of what is no number is the same one everywhere.
        (true, true) => {
            (reduction.merge)(kept.bytes_mut(), own, false);
            own.copy_from_slice(kept.bytes());
        }
        (true, false) => own.copy_from_slice(kept.bytes()),
        (false, _) => {}
    }
    for index in me + 1..wanted {
        read(index, other)?;
        (reduction.merge)(own, other.bytes(), false);
    }
    Ok(())
}
