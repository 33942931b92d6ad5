//! Quick lists: short blocks that were freed, one list for each length, as they are.
//!
//! Most blocks are short, and asked for again soon after they were freed. So they are neither merged nor cut: freeing one
//! puts it in front of its list, allocating takes the first. A list is one word, the offset of its first block and how
//! many there are; a link is the word behind that of a block. One compare-and-swap takes the lock of the pool, plain
//! stores do the rest.
//!
//! There are several sets of lists, which the ranks of a node share out: neighbours that allocate in one pool at the same
//! time get blocks that lie apart, and only the lock goes to and fro between their processors.
//!
//! A SIGKILL between two stores leaves a block that is marked as free but in no list. Whoever takes over the lock merges it.

use super::blocks::{
    check, Heap, FIRST_BLOCK, FIRST_BYTES, FLAGS, FREE, LENGTH_BITS, QUICK, QUICK_AT, SHORTEST, WORD,
};
use crate::{GlobalAddress, Result};
use kumiki_mem::{Local, Pool, PoolSpan};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Lengths up to this have quick lists, of at most so many blocks each.
pub(super) const QUICK_LENGTH: u64 = 288;
const QUICK_LISTS: u64 = QUICK_LENGTH / 8 + 1;
const QUICK_BLOCKS: u64 = 64;
/// Sets of lists, and the bytes of each: whole cache lines.
pub(super) const SHELVES: u64 = 4;
pub(super) const SHELF_BYTES: u64 = (8 * QUICK_LISTS).next_multiple_of(64);
/// Short blocks that are cut at a time.
const CARVED: u64 = 64;

/// Of the word of a list: how many blocks there are is above this, the offset of the first below.
const COUNT_SHIFT: u32 = 48;
const ONE: u64 = 1 << COUNT_SHIFT;
const _: () = assert!(LENGTH_BITS < ONE);

/// The length of a block for so many bytes, if it can be in a quick list.
#[inline]
fn length_of(bytes: u64) -> Option<u64> {
    (bytes <= QUICK_LENGTH - WORD).then(|| ((bytes + WORD + 7) & !7).max(SHORTEST))
}

/// Allocates in the pool of a rank, if that is of this node and alive, its lock is free, and its quick list has a block.
#[inline]
pub(super) fn allocate(local: Local<'_>, rank: u32, bytes: u64) -> Option<GlobalAddress> {
    let length = length_of(bytes)?;
    let pool = local.live_pool(rank)?;
    let _held = pool.try_lock()?;
    let span = pool.span();
    let at = take(local, pool, span, length)?;
    Some(span.address(at + WORD))
}

/// Frees a block of a pool, if its rank is of this node and alive, the lock is free, the block is short and in use, its
/// quick list is not full, and the heap is not empty then.
#[inline]
pub(super) fn release(local: Local<'_>, address: GlobalAddress) -> Option<()> {
    let rank = local.rank_of(address);
    let pool = local.live_pool(rank)?;
    // Of an address in no pool this is beyond every pool.
    let at = local.pool_addresses(rank).offset(address).checked_sub(WORD).filter(|&at| at >= FIRST_BLOCK)?;
    let _held = pool.try_lock()?;
    let span = pool.span();
    let block = span.try_pair(at)?;
    let word = block[0].load(Relaxed);
    // In use, of a short length, and with the check that belongs here.
    let length = word & LENGTH_BITS;
    let flags = word & (FREE | QUICK);
    if word & !(LENGTH_BITS | FLAGS) != check(at)
        || flags != 0
        || !(SHORTEST..=QUICK_LENGTH).contains(&length)
    {
        return None;
    }
    let empties = pool.blocks().load(Relaxed) == 1 && span.len() > FIRST_BYTES;
    (!empties && put(local, pool, span, block, (at, word, length))?).then_some(())
}

/// Says that a block will be allocated soon.
#[inline]
pub(super) fn prepare(local: Local<'_>, rank: u32, bytes: u64) {
    let (Some(length), Some(pool)) = (length_of(bytes), local.live_pool(rank)) else { return };
    pool.prepare_lock();
    let span = pool.span();
    // Whatever is seen there without the lock, nothing is done but to fetch it.
    if let Some(list) = span.try_word(list_at(local, length)) {
        let first = list.load(Relaxed) & (ONE - 1);
        span.prepare(first);
        span.prepare(first + 64);
    }
}

/// Where the list of blocks of a length is, for this rank.
#[inline]
fn list_at(local: Local<'_>, length: u64) -> u64 {
    QUICK_AT + local.index() as u64 % SHELVES * SHELF_BYTES + length
}

/// Takes the first block of a quick list. The lock of the pool is held.
#[inline]
pub(super) fn take(local: Local<'_>, pool: Pool<'_>, span: PoolSpan<'_>, length: u64) -> Option<u64> {
    // A pool without memory has no lists yet.
    let list = span.try_word(list_at(local, length))?;
    let first = list.load(Relaxed);
    let at = first & (ONE - 1);
    if at == 0 {
        return None;
    }
    let [word, link] = span.try_pair(at)?;
    let next = link.load(Relaxed) & (ONE - 1);
    // Out of the list first: a block that is in no list is lost at worst, one that is in use and in a list would be
    // given twice.
    list.store((first & !(ONE - 1)).wrapping_sub(ONE) | next, Release);
    word.store(word.load(Relaxed) & !QUICK, Release);
    add(pool.blocks(), 1);
    Some(at)
}

/// Puts a block in use into its quick list; false if that is full. The lock of the pool is held.
#[inline]
pub(super) fn give(
    local: Local<'_>,
    pool: Pool<'_>,
    span: PoolSpan<'_>,
    at: u64,
    word: u64,
    length: u64,
) -> bool {
    let block = span.try_pair(at);
    block.and_then(|block| put(local, pool, span, block, (at, word, length))).unwrap_or(false)
}

/// The same with the first words of the block.
#[inline]
fn put(
    local: Local<'_>,
    pool: Pool<'_>,
    span: PoolSpan<'_>,
    [place, link]: &[AtomicU64; 2],
    (at, word, length): (u64, u64, u64),
) -> Option<bool> {
    let list = span.try_word(list_at(local, length))?;
    let first = list.load(Relaxed);
    if first >= QUICK_BLOCKS << COUNT_SHIFT {
        return Some(false);
    }
    link.store(first & (ONE - 1), Release);
    place.store(word | QUICK, Release);
    list.store(((first & !(ONE - 1)) + ONE) | at, Release);
    add(pool.blocks(), -1);
    Some(true)
}

/// Notes that blocks were taken, or given back when `blocks` is negative. The lock of the pool is held.
#[inline]
pub(super) fn add(counter: &AtomicU64, blocks: i64) {
    counter.store(counter.load(Relaxed).wrapping_add_signed(blocks), Release);
}

impl Heap<'_> {
    /// Gives the blocks of the quick lists to the lists proper. Whether there were any.
    #[cold]
    pub(super) fn flush(&mut self) -> Result<bool> {
        let mut any = false;
        if !self.is_made() {
            return Ok(false);
        }
        for list in (QUICK_AT..QUICK_AT + SHELVES * SHELF_BYTES).step_by(8) {
            loop {
                let first = self.span.load(list)?;
                let at = first & (ONE - 1);
                if at == 0 {
                    break;
                }
                any = true;
                let next = self.span.load(at + 8)? & (ONE - 1);
                self.span.store(list, (first & !(ONE - 1)).wrapping_sub(ONE) | next)?;
                let word = self.span.load(at)? & !QUICK;
                self.span.store(at, word)?;
                self.merge(at, word)?;
            }
            self.span.store(list, 0)?;
        }
        Ok(any)
    }

    /// Cuts blocks of a short length off the front of a free range, for their quick list, which is empty. The range is still
    /// inside a free block: nobody sees the new words before that one is made shorter. How many bytes were cut.
    pub(super) fn carve(&self, at: u64, bytes: u64, length: u64) -> Result<u64> {
        if length > QUICK_LENGTH {
            return Ok(0);
        }
        let count = ((bytes - SHORTEST) / length).min(CARVED - 1);
        for index in (0..count).rev() {
            let place = at + index * length;
            let next = if index + 1 == count { 0 } else { place + length };
            self.span.store(place + 8, next)?;
            self.span.store(place, check(place) | length | QUICK)?;
        }
        if count > 0 {
            self.span.store(list_at(self.local, length), count << COUNT_SHIFT | at)?;
        }
        Ok(count * length)
    }
}
