//! The blocks of a pool, and the lists of free ones.
//!
//! Blocks lie side by side, each behind one word (length, flags, and a check that depends on its place), so neighbours
//! are found and merged at once. Free blocks are in lists by length, eight for each power of two, with bit maps of the
//! lists that are not empty: both operations take a bounded number of steps.
//!
//! A block is at most one eighth longer than the shortest list that surely fits it, and free neighbours are always one
//! block; [`HeapUse`] says what that comes to. A quick list that is full, a heap that has no room, and one that empties
//! give their blocks to the lists proper, where they are merged.
//!
//! A pool lies in two parts, and no block lies across their border: the word in front of it is a block of its own, which is
//! never free and has no bytes. While the pool ends there, it is the word that ends the row.
//!
//! A SIGKILL between two stores leaves a row of blocks that can be walked: a word of a block is written only when
//! what lies behind it fits. Whoever takes over the lock walks them and makes the lists anew; at worst the block that
//! the dead rank was about to get stays taken.

use super::quick::{self, QUICK_LENGTH, SHELF_BYTES, SHELVES};
use super::HeapUse;
use crate::{Error, GlobalAddress, Result};
use kumiki_mem::{Local, Locked, Pool, PoolSpan};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// `magic`, `end`, two spare words, map of lists, maps of lists by power, heads of lists, quick
/// lists; blocks begin on the page after next.
const MAGIC_AT: u64 = 0;
pub(super) const END_AT: u64 = 8;
pub(super) const POWERS_AT: u64 = 32;
pub(super) const MAPS_AT: u64 = 40;
const HEADS_AT: u64 = MAPS_AT + 8 * POWERS;
/// The words of the quick lists.
pub(super) const QUICK_AT: u64 = (HEADS_AT + 8 * POWERS * LISTS).next_multiple_of(64);
pub(super) const FIRST_BLOCK: u64 = 8192;
const MAGIC: u64 = u64::from_le_bytes(*b"pool\0\0\0\x02");

/// Powers of two that have lists, and lists of each.
pub(super) const POWERS: u64 = 44;
pub(super) const LISTS: u64 = 8;
/// Words for what is told to all ranks.
pub(super) const NOTICE_AT: u64 = FIRST_BLOCK - 128;
/// A word for the address of where others say that they want to communicate with this rank.
pub(super) const DOOR_AT: u64 = NOTICE_AT - WORD;
/// A word for the address of where others leave messages for this rank.
pub(super) const MAILBOX_AT: u64 = DOOR_AT - WORD;
const QUICK_END: u64 = QUICK_AT + SHELVES * SHELF_BYTES;
const _: () = assert!(QUICK_END <= MAILBOX_AT);

/// The word before each block: the length of word and block, flags, check.
pub(super) const WORD: u64 = 8;
pub(super) const FREE: u64 = 1;
pub(super) const PREVIOUS_FREE: u64 = 2;
/// In a quick list: free, but not to be merged.
pub(super) const QUICK: u64 = 4;
pub(super) const FLAGS: u64 = FREE | PREVIOUS_FREE | QUICK;
pub(super) const LENGTH_BITS: u64 = ((1 << 44) - 1) & !7;
/// The word, two links and, at its end, the length: what a free block holds.
pub(super) const SHORTEST: u64 = 32;

/// The first piece of memory of a pool, if that is enough for what is asked for: a mailbox, say. There may be a thousand pools on a node.
const FIRST_PIECE: u64 = 32 << 10;
/// What it has from the second piece on, and what an empty heap keeps. All of the near part: that costs the fewest page tables.
pub(super) const FIRST_BYTES: u64 = Pool::BORDER;
/// The word in front of the border.
pub(super) const GUARD_AT: u64 = Pool::BORDER - WORD;
/// A free block at the end of the pool goes back to the system from this length on.
const TRIM_BYTES: u64 = 1 << 20;

/// The heap of a rank of this node, with its lock held. Who needs several blocks, or gives one up for another, opens it
/// once: a service that has changed something cannot be run again because it met a lock.
pub(crate) struct Heap<'a> {
    pub(super) pool: Pool<'a>,
    pub(super) span: PoolSpan<'a>,
    held: Locked<'a>,
    pub(super) local: Local<'a>,
    rank: u32,
}

/// The check of a block: a wrong address hardly ever has it.
#[inline]
pub(super) fn check(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !((1 << 44) - 1)
}

/// The list for free blocks of a length: (power, list).
#[inline]
pub(super) fn list_of(length: u64) -> (u64, u64) {
    let units = length / 8;
    if units < LISTS {
        return (0, units);
    }
    let power = 63 - units.leading_zeros() as u64;
    (power - 2, units >> (power - 3) & (LISTS - 1))
}

/// The first list all of whose blocks are at least this long.
#[inline]
pub(super) fn list_for(length: u64) -> (u64, u64) {
    let units = length / 8;
    if units < 2 * LISTS {
        return list_of(length);
    }
    let power = 63 - units.leading_zeros() as u64;
    list_of(length + (8 << (power - 3)) - 8)
}

impl<'a> Heap<'a> {
    pub(crate) fn open(local: Local<'a>, rank: u32) -> Result<Heap<'a>> {
        let pool = local.pool(rank)?;
        let held = pool.lock()?;
        let inherited = held.is_inherited();
        let heap = Heap { pool, span: pool.span(), held, local, rank };
        if inherited {
            if let Err(error) = heap.repair() {
                // Whoever comes next finds it as it is, and says so too.
                heap.held.leave();
                return Err(error);
            }
        }
        Ok(heap)
    }

    pub(super) fn is_made(&self) -> bool {
        self.span.load(MAGIC_AT).is_ok_and(|magic| magic == MAGIC)
    }

    /// Frees a block of this heap.
    pub(crate) fn free(&mut self, address: GlobalAddress) -> Result<()> {
        if !self.local.is_in_pool(address) || self.local.rank_of(address) != self.rank {
            return Err(Error::Misuse(format!("free of {address:#x}, which is not of this heap")));
        }
        self.release(self.local.pool_offset(address))
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<GlobalAddress> {
        let asked = bytes.checked_add(WORD).and_then(|bytes| bytes.checked_next_multiple_of(8));
        let limit = self.pool.limit();
        let too_large = || Error::OutOfMemory { asked: bytes, left: limit, what: "the pool of a rank" };
        let length = asked.filter(|&length| length <= limit).ok_or_else(too_large)?.max(SHORTEST);
        match (length <= QUICK_LENGTH)
            .then(|| quick::take(self.local, self.pool, self.span, length))
            .flatten()
        {
            Some(at) => Ok(self.local.pool_address(self.rank, at + WORD)),
            None => self.allocate_slowly(length),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(&mut self, length: u64) -> Result<GlobalAddress> {
        let at = match self.find(length)? {
            Some(at) => at,
            None => {
                if !self.flush()? || self.find(length)?.is_none() {
                    self.grow(length)?;
                }
                match self.find(length)? {
                    Some(at) => at,
                    None => return Err(self.no_room(length)?),
                }
            }
        };
        let word = self.span.load(at)?;
        let whole = word & LENGTH_BITS;
        self.unlink(at, whole)?;
        let rest = whole - length;
        let length = if rest >= SHORTEST {
            let cut = self.carve(at + length, rest, length)?;
            self.write_free(at + length + cut, rest - cut, 0)?;
            self.link(at + length + cut, rest - cut)?;
            length
        } else {
            let next = at + whole;
            self.span.store(next, self.span.load(next)? & !PREVIOUS_FREE)?;
            whole
        };
        self.span.store(at, check(at) | length | word & PREVIOUS_FREE)?;
        quick::add(self.pool.blocks(), 1);
        Ok(self.local.pool_address(self.rank, at + WORD))
    }

    /// Why there is no block of a length although the pool grew: it has all that it may have now, or the heap is damaged.
    fn no_room(&mut self, length: u64) -> Result<Error> {
        if self.pool.len() < self.pool.limit() {
            return Ok(Error::Refused("the heap of a rank is damaged: it grew and still has no room".into()));
        }
        let left = self.measure()?.largest_free_bytes.saturating_sub(WORD);
        Ok(Error::OutOfMemory { asked: length - WORD, left, what: "the pool of a rank" })
    }

    /// A free block of at least this length.
    fn find(&self, length: u64) -> Result<Option<u64>> {
        if !self.is_made() {
            return Ok(None);
        }
        // The list of this very length: programs ask for the same lengths again and again.
        let (power, list) = list_of(length);
        let first = self.span.load(head_at(power, list))?;
        if first != 0 && self.span.load(first)? & LENGTH_BITS >= length {
            return Ok(Some(first));
        }
        let (power, list) = list_for(length);
        if power >= POWERS {
            return Ok(None);
        }
        let lists = self.span.load(MAPS_AT + 8 * power)? & (u64::MAX << list);
        if lists != 0 {
            return self.span.load(head_at(power, lists.trailing_zeros() as u64)).map(Some);
        }
        let powers = self.span.load(POWERS_AT)? & (u64::MAX << power) & !(1 << power);
        if powers == 0 {
            return Ok(None);
        }
        let power = powers.trailing_zeros() as u64;
        let lists = self.span.load(MAPS_AT + 8 * power)?;
        self.span.load(head_at(power, lists.trailing_zeros() as u64)).map(Some)
    }

    /// Whether a block in use begins at an address.
    pub(crate) fn holds(&self, address: GlobalAddress) -> Result<bool> {
        let here = self.local.is_in_pool(address) && self.local.rank_of(address) == self.rank;
        Ok(here && self.in_use(self.local.pool_offset(address))?.is_ok())
    }

    /// The word of the block whose bytes begin at an offset; what is wrong with the offset, if there is no block in use.
    fn in_use(&self, at: u64) -> Result<std::result::Result<u64, &'static str>> {
        let end = if self.is_made() { self.span.load(END_AT)? } else { 0 };
        if at < FIRST_BLOCK + WORD || at >= end {
            return Ok(Err("lies outside the heap"));
        }
        if !at.is_multiple_of(8) {
            return Ok(Err("is not the start of a block"));
        }
        let at = at - WORD;
        let word = self.span.load(at)?;
        let length = word & LENGTH_BITS;
        let fits = length >= SHORTEST && at.checked_add(length).is_some_and(|next| next < end);
        if word & !(LENGTH_BITS | FLAGS) != check(at) || !fits {
            return Ok(Err("is not the start of a block, or was freed before"));
        }
        if word & (FREE | QUICK) != 0 {
            return Ok(Err("was freed before"));
        }
        Ok(Ok(word))
    }

    pub(super) fn release(&mut self, at: u64) -> Result<()> {
        let word = self.in_use(at)?.map_err(|why| {
            let address = self.local.pool_address(self.rank, at);
            Error::Misuse(format!("free of {address:#x}, which {why}"))
        })?;
        let (at, length) = (at - WORD, word & LENGTH_BITS);
        if length > QUICK_LENGTH || !quick::give(self.local, self.pool, self.span, at, word, length) {
            quick::add(self.pool.blocks(), -1);
            self.merge(at, word)?;
        }
        // What an empty heap keeps is short: quick lists may stay in it.
        if self.span.len() > FIRST_BYTES && self.pool.blocks().load(Relaxed) == 0 {
            self.flush()?;
        }
        Ok(())
    }

    /// Makes a block that is no longer in use a free one, together with its free neighbours.
    pub(super) fn merge(&mut self, at: u64, word: u64) -> Result<()> {
        let mut at = at;
        let mut length = word & LENGTH_BITS;
        let next = at + length;
        let next_word = self.span.load(next)?;
        if next_word & FREE != 0 {
            self.unlink(next, next_word & LENGTH_BITS)?;
            length += next_word & LENGTH_BITS;
        }
        let mut before = 0;
        if word & PREVIOUS_FREE != 0 {
            let previous_length = self.span.load(at - WORD)?;
            let previous = at.checked_sub(previous_length).filter(|&previous| previous >= FIRST_BLOCK);
            let previous = previous.ok_or_else(|| Error::Misuse("the heap of a rank is damaged".into()))?;
            let previous_word = self.span.load(previous)?;
            self.unlink(previous, previous_word & LENGTH_BITS)?;
            before = previous_word & PREVIOUS_FREE;
            (length, at) = (length + previous_length, previous);
        }
        let old_start = if word & PREVIOUS_FREE != 0 { Some(next - (word & LENGTH_BITS)) } else { None };
        self.write_free(at, length, before)?;
        // The words of the blocks that were swallowed are no blocks any more.
        if let Some(start) = old_start {
            self.span.store(start, 0)?;
        }
        if next_word & FREE != 0 {
            self.span.store(next, 0)?;
        }
        let after = at + length;
        self.span.store(after, self.span.load(after)? | PREVIOUS_FREE)?;
        self.link(at, length)?;
        self.trim(at, length)
    }

    /// Makes a free block of a range; the word comes last.
    fn write_free(&self, at: u64, length: u64, previous_free: u64) -> Result<()> {
        self.span.store(at + length - WORD, length)?;
        self.span.store(at, check(at) | length | FREE | previous_free)
    }

    /// Puts a free block at the head of its list.
    fn link(&self, at: u64, length: u64) -> Result<()> {
        let (power, list) = list_of(length);
        let head = head_at(power, list);
        let first = self.span.load(head)?;
        self.span.store(at + 8, first)?;
        self.span.store(at + 16, 0)?;
        if first != 0 {
            self.span.store(first + 16, at)?;
        } else {
            let map = MAPS_AT + 8 * power;
            self.span.store(map, self.span.load(map)? | 1 << list)?;
            self.span.store(POWERS_AT, self.span.load(POWERS_AT)? | 1 << power)?;
        }
        self.span.store(head, at)
    }

    /// Takes a free block out of its list.
    fn unlink(&self, at: u64, length: u64) -> Result<()> {
        let (next, previous) = (self.span.load(at + 8)?, self.span.load(at + 16)?);
        if next != 0 {
            self.span.store(next + 16, previous)?;
        }
        if previous != 0 {
            return self.span.store(previous + 8, next);
        }
        let (power, list) = list_of(length);
        self.span.store(head_at(power, list), next)?;
        if next == 0 {
            let map = MAPS_AT + 8 * power;
            let lists = self.span.load(map)? & !(1 << list);
            self.span.store(map, lists)?;
            if lists == 0 {
                self.span.store(POWERS_AT, self.span.load(POWERS_AT)? & !(1 << power))?;
            }
        }
        Ok(())
    }

    /// Gets memory from the system for a block of this length.
    pub(super) fn grow(&mut self, length: u64) -> Result<()> {
        let end = if self.is_made() { self.span.load(END_AT)? } else { FIRST_BLOCK + WORD };
        // A block of the next longer list, which is what `find` looks for; on one side of the border.
        let room = length + length / 8 + SHORTEST;
        let start = if end + room <= Pool::BORDER { end } else { end.max(Pool::BORDER) };
        let needed = start + room;
        let least = if needed <= FIRST_PIECE { FIRST_PIECE } else { FIRST_BYTES };
        let wished = needed.max(end + end / 8).max(least).min(self.pool.limit());
        if wished < end + SHORTEST && !self.is_made() {
            // The lists alone are more than the pool may have.
            return Err(Error::OutOfMemory { asked: length - WORD, left: 0, what: "the pool of a rank" });
        }
        let before = self.pool.len();
        if self.pool.resize(wished.max(before), &self.held).is_err() {
            self.pool.resize(needed.max(before), &self.held)?;
        }
        self.span = self.pool.span();
        if !self.is_made() {
            self.span.store(FIRST_BLOCK, check(FIRST_BLOCK))?;
            self.span.store(END_AT, FIRST_BLOCK + WORD)?;
            self.pool.blocks().store(0, Release);
            self.span.store(MAGIC_AT, MAGIC)?;
        }
        self.extend(end)
    }

    /// Turns the memory behind the last block into free blocks: one, or one on each side of the border.
    fn extend(&self, end: u64) -> Result<()> {
        let new_end = self.span.len();
        if end < Pool::BORDER {
            self.extend_to(end, new_end.min(Pool::BORDER))?;
        }
        match end.max(Pool::BORDER) {
            _ if new_end <= Pool::BORDER => Ok(()),
            Pool::BORDER => self.cross(new_end),
            end => self.extend_to(end, new_end),
        }
    }

    /// Makes a free block of all that is behind the border, where the row has ended so far.
    fn cross(&self, new_end: u64) -> Result<()> {
        let (at, length) = (Pool::BORDER, new_end - WORD - Pool::BORDER);
        self.span.store(new_end - WORD, check(new_end - WORD) | PREVIOUS_FREE)?;
        self.write_free(at, length, 0)?;
        // With this store the row goes on.
        let flag = self.span.load(GUARD_AT)? & PREVIOUS_FREE;
        self.span.store(GUARD_AT, check(GUARD_AT) | WORD | flag)?;
        self.span.store(END_AT, new_end)?;
        self.link(at, length)
    }

    /// Gives all that is behind the border back: a single free block of this length.
    fn retreat(&mut self, length: u64) -> Result<()> {
        self.unlink(Pool::BORDER, length)?;
        let flag = self.span.load(GUARD_AT)? & PREVIOUS_FREE;
        // With this store the row ends in front of the border.
        self.span.store(GUARD_AT, check(GUARD_AT) | flag)?;
        self.span.store(END_AT, Pool::BORDER)?;
        self.pool.resize(Pool::BORDER, &self.held)?;
        self.span = self.pool.span();
        Ok(())
    }

    /// Turns memory behind the last block, and the word that ends the row, into a free block.
    fn extend_to(&self, end: u64, new_end: u64) -> Result<()> {
        let (mut at, mut length) = (end - WORD, new_end - end);
        if length < SHORTEST {
            return Ok(());
        }
        let word = self.span.load(at)?;
        self.span.store(new_end - WORD, check(new_end - WORD) | PREVIOUS_FREE)?;
        let mut before = 0;
        if word & PREVIOUS_FREE != 0 {
            let previous_length = self.span.load(at - WORD)?;
            let previous = at - previous_length;
            let previous_word = self.span.load(previous)?;
            self.unlink(previous, previous_word & LENGTH_BITS)?;
            before = previous_word & PREVIOUS_FREE;
            (length, at) = (length + previous_length, previous);
        }
        self.write_free(at, length, before)?;
        self.span.store(END_AT, new_end)?;
        self.link(at, length)
    }

    /// Gives memory at the end of the pool back, if the free block there is long.
    fn trim(&mut self, at: u64, length: u64) -> Result<()> {
        let end = self.span.load(END_AT)?;
        let empty = self.pool.blocks().load(Relaxed) == 0;
        if empty && end > Pool::BORDER {
            let word = self.span.load(Pool::BORDER)?;
            let behind = word & LENGTH_BITS;
            if word & FREE != 0 && Pool::BORDER + behind + WORD == end {
                return self.retreat(behind);
            }
        }
        if at + length + WORD != end {
            return Ok(());
        }
        let keep = if empty { FIRST_BYTES } else { at + SHORTEST + WORD + end / 16 };
        let new_end = keep.max(at + SHORTEST + WORD).next_multiple_of(4096);
        let worth = if empty { 4096 } else { TRIM_BYTES };
        if new_end + worth > end {
            return Ok(());
        }
        self.unlink(at, length)?;
        let before = self.span.load(at)? & PREVIOUS_FREE;
        self.span.store(new_end - WORD, check(new_end - WORD) | PREVIOUS_FREE)?;
        self.write_free(at, new_end - WORD - at, before)?;
        self.span.store(END_AT, new_end)?;
        self.link(at, new_end - WORD - at)?;
        self.pool.resize(new_end, &self.held)?;
        self.span = self.pool.span();
        Ok(())
    }

    /// Makes the lists and the counts anew from the blocks themselves.
    pub(super) fn repair(&self) -> Result<()> {
        if !self.is_made() {
            return Ok(());
        }
        self.span.part(POWERS_AT, QUICK_END - POWERS_AT)?.clear(0, QUICK_END - POWERS_AT)?;
        let (mut blocks, mut at, mut previous_free) = (0, FIRST_BLOCK, false);
        let mut open: Option<(u64, u64)> = None;
        loop {
            let word = self.span.load(at)?;
            let length = word & LENGTH_BITS;
            if word & !(LENGTH_BITS | FLAGS) != check(at) {
                return Err(Error::Misuse(
                    "the heap of a rank is damaged: somebody wrote behind a block".into(),
                ));
            }
            if word & (FREE | QUICK) != 0 && length >= SHORTEST {
                // Free neighbours that were not merged yet become one.
                open = Some(open.map_or((at, length), |(start, before)| (start, before + length)));
            } else {
                if let Some((start, length)) = open.take() {
                    self.write_free(start, length, 0)?;
                    self.link(start, length)?;
                    previous_free = true;
                }
                let flag = if previous_free { PREVIOUS_FREE } else { 0 };
                self.span.store(at, check(at) | length | flag)?;
                previous_free = false;
                if length == 0 {
                    break;
                }
                blocks += (at != GUARD_AT) as u64;
            }
            at += length;
        }
        self.pool.blocks().store(blocks, Release);
        self.span.store(END_AT, at + WORD)
    }

    pub(super) fn measure(&mut self) -> Result<HeapUse> {
        self.flush()?;
        let pool_bytes = self.pool.len();
        if !self.is_made() {
            return Ok(HeapUse { pool_bytes, ..HeapUse::default() });
        }
        let powers = self.span.load(POWERS_AT)?;
        let mut largest_free_bytes = 0;
        if powers != 0 {
            let power = 63 - powers.leading_zeros() as u64;
            let lists = self.span.load(MAPS_AT + 8 * power)?;
            let mut at = self.span.load(head_at(power, 63 - lists.leading_zeros() as u64))?;
            while at != 0 {
                largest_free_bytes = largest_free_bytes.max(self.span.load(at)? & LENGTH_BITS);
                at = self.span.load(at + 8)?;
            }
        }
        let (mut used_bytes, mut at) = (0, FIRST_BLOCK);
        loop {
            let word = self.span.load(at)?;
            match word & LENGTH_BITS {
                0 => break,
                length if word & FREE == 0 && at != GUARD_AT => used_bytes += length,
                _ => {}
            }
            at += word & LENGTH_BITS;
        }
        let blocks = self.pool.blocks().load(Relaxed);
        Ok(HeapUse { pool_bytes, used_bytes, blocks, largest_free_bytes })
    }
}

#[inline]
pub(super) fn head_at(power: u64, list: u64) -> u64 {
    HEADS_AT + 8 * (power * LISTS + list)
}
