//! Global malloc and free: the allocator of each rank's pool.
//!
//! Any rank of the node allocates in the pool of any other directly, under the pool's lock; a rank of another node asks
//! the owner. Blocks lie side by side, each behind one word (length, two flags, and a check that depends on its place),
//! so neighbours are found and merged at once. Free blocks are in lists by length, eight for each power of two, with
//! bit maps of the lists that are not empty: both operations take a bounded number of steps.
//!
//! A block is at most one eighth longer than the shortest list that surely fits it, and free neighbours are always one
//! block; [`HeapUse`] says what that comes to.
//!
//! Short blocks that are freed first go to quick lists, one for each length, as they are: most are asked for again at
//! once, and short blocks are cut several at a time. A quick list that is full, a heap that has no room, and one that empties give their blocks to the lists proper,
//! where they are merged.
//!
//! A SIGKILL between two stores leaves a row of blocks that can be walked: a word of a block is written only when
//! what lies behind it fits. Whoever takes over the lock walks them and makes the lists anew; at worst the block that
//! the dead rank was about to get stays taken.

use super::message::{unknown, Reader, Writer};
use super::HEAP;
use crate::{Error, GlobalAddress, Result, World};
use kumiki_mem::{Local, Locked, Pool, Span};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// `magic`, `end`, `blocks`, a spare word, map of lists, maps of lists by power, heads of lists; blocks begin on the next page.
const MAGIC_AT: u64 = 0;
const END_AT: u64 = 8;
const BLOCKS_AT: u64 = 16;
const POWERS_AT: u64 = 32;
const MAPS_AT: u64 = 40;
const HEADS_AT: u64 = MAPS_AT + 8 * POWERS;
/// For each short length, the first block of its quick list and how many there are.
const QUICK_AT: u64 = HEADS_AT + 8 * POWERS * LISTS;
const FIRST_BLOCK: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"pool\0\0\0\x01");

/// Powers of two that have lists, and lists of each.
const POWERS: u64 = 44;
const LISTS: u64 = 8;
/// A word for whoever has something to tell to all ranks.
const NOTICE_AT: u64 = FIRST_BLOCK - 8;
const QUICK_END: u64 = QUICK_AT + 16 * QUICK_LISTS;
const _: () = assert!(QUICK_END <= NOTICE_AT);

/// The word before each block: the length of word and block, flags, check.
const WORD: u64 = 8;
const FREE: u64 = 1;
const PREVIOUS_FREE: u64 = 2;
/// In a quick list: free, but not to be merged.
const QUICK: u64 = 4;
const FLAGS: u64 = FREE | PREVIOUS_FREE | QUICK;
const LENGTH_BITS: u64 = ((1 << 44) - 1) & !7;
/// The word, two links and, at its end, the length: what a free block holds.
const SHORTEST: u64 = 32;

/// Lengths up to this have quick lists, of at most so many blocks each.
const QUICK_LENGTH: u64 = 288;
const QUICK_LISTS: u64 = QUICK_LENGTH / 8 + 1;
const QUICK_BLOCKS: u64 = 64;
/// Short blocks that are cut at a time.
const CARVED: u64 = 16;

/// The first piece of memory of a pool; what an empty heap keeps.
const FIRST_BYTES: u64 = 64 << 10;
/// A free block at the end of the pool goes back to the system from this length on.
const TRIM_BYTES: u64 = 1 << 20;

const MALLOC: u8 = 1;
const RELEASE: u8 = 2;
const USE: u8 = 3;

/// What the heap of a rank holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeapUse {
    /// Bytes that the pool has taken from the system.
    pub pool_bytes: u64,
    /// Bytes in blocks that are in use, the word before each included.
    pub used_bytes: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// The longest free block.
    pub largest_free_bytes: u64,
}

impl HeapUse {
    /// The part of the free bytes that the longest free block does not hold: 0 is none, close to 1 is bad.
    pub fn fragmentation(&self) -> f64 {
        let free = self.pool_bytes.saturating_sub(self.used_bytes + FIRST_BLOCK + WORD);
        match free {
            0 => 0.0,
            _ => 1.0 - (self.largest_free_bytes as f64 / free as f64).min(1.0),
        }
    }
}

impl World {
    /// Allocates `bytes` in the memory of a rank, without that rank's help. The memory is not cleared. Anybody can
    /// [`free`](Self::free) it.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let place = world.malloc(64, world.rank())?;
    /// world.put(kumiki::GlobalPtr::from_address(place), 42u64)?;
    /// world.free(place)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn malloc(&self, bytes: u64, rank: u32) -> Result<GlobalAddress> {
        let local = self.local();
        if local.is_near(rank) {
            return allocate(local, rank, bytes);
        }
        local.check_alive(rank)?;
        let reply = self.call(rank, HEAP, Writer::new(MALLOC).word(bytes).finish())?;
        Reader::new(&reply).word().map(GlobalAddress::from_bits)
    }

    /// Frees a block of [`malloc`](Self::malloc), whoever allocated it. A block that was freed before, or an address that
    /// is no block, is [`Misuse`](Error::Misuse).
    pub fn free(&self, address: GlobalAddress) -> Result<()> {
        let local = self.local();
        let rank = local.rank_of(address);
        if address.is_null() || local.is_near(rank) {
            return release(local, address);
        }
        local.check_alive(rank)?;
        self.call(rank, HEAP, Writer::new(RELEASE).word(address.bits()).finish()).map(drop)
    }

    /// What the heap of a rank holds now.
    pub fn heap_use(&self, rank: u32) -> Result<HeapUse> {
        let local = self.local();
        if local.is_near(rank) {
            return Heap::open(local, rank)?.measure();
        }
        let reply = self.call(rank, HEAP, Writer::new(USE).finish())?;
        let mut reply = Reader::new(&reply);
        Ok(HeapUse {
            pool_bytes: reply.word()?,
            used_bytes: reply.word()?,
            blocks: reply.word()?,
            largest_free_bytes: reply.word()?,
        })
    }
}

/// Allocates in the pool of a rank of this node.
pub(crate) fn allocate(local: Local<'_>, rank: u32, bytes: u64) -> Result<GlobalAddress> {
    Heap::open(local, rank)?.allocate(bytes)
}

/// The address of a word in the pool of a rank that all ranks know, for work that they do together. It is there once
/// something was allocated on that rank.
pub(crate) fn notice(local: Local<'_>, rank: u32) -> GlobalAddress {
    local.pool_address(rank, NOTICE_AT)
}

/// Frees a block of the pool of a rank of this node.
pub(crate) fn release(local: Local<'_>, address: GlobalAddress) -> Result<()> {
    if address.is_null() || !local.is_in_pool(address) {
        return Err(Error::Misuse(format!("free of {:#x}, which malloc never gave", address)));
    }
    Heap::open(local, local.rank_of(address))?.release(local.pool_offset(address))
}

/// Does it for a rank of another node.
pub(crate) fn serve(local: Local<'_>, _from: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    let mut request = Reader::new(request);
    let words: Vec<u64> = match request.byte()? {
        MALLOC => vec![allocate(local, local.rank(), request.word()?)?.bits()],
        RELEASE => {
            release(local, GlobalAddress::from_bits(request.word()?))?;
            vec![]
        }
        USE => {
            let HeapUse { pool_bytes, used_bytes, blocks, largest_free_bytes } =
                Heap::open(local, local.rank())?.measure()?;
            vec![pool_bytes, used_bytes, blocks, largest_free_bytes]
        }
        code => return Err(unknown(code)),
    };
    words.iter().for_each(|word| reply.extend_from_slice(&word.to_le_bytes()));
    Ok(())
}

/// The heap of a rank of this node, with its lock held. Who needs several blocks, or gives one up for another, opens it
/// once: a service that has changed something cannot be run again because it met a lock.
pub(crate) struct Heap<'a> {
    pool: Pool<'a>,
    span: Span<'a>,
    held: Locked<'a>,
    local: Local<'a>,
    rank: u32,
}

/// The check of a block: a wrong address hardly ever has it.
#[inline]
fn check(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !((1 << 44) - 1)
}

/// The list for free blocks of a length: (power, list).
#[inline]
fn list_of(length: u64) -> (u64, u64) {
    let units = length / 8;
    if units < LISTS {
        return (0, units);
    }
    let power = 63 - units.leading_zeros() as u64;
    (power - 2, units >> (power - 3) & (LISTS - 1))
}

/// The first list all of whose blocks are at least this long.
#[inline]
fn list_for(length: u64) -> (u64, u64) {
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
            heap.repair()?;
        }
        Ok(heap)
    }

    fn is_made(&self) -> bool {
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
        if length <= QUICK_LENGTH {
            if let Some(at) = self.take_quick(length)? {
                return Ok(self.local.pool_address(self.rank, at + WORD));
            }
        }
        self.allocate_slowly(length)
    }

    /// Takes the first block of a quick list.
    #[inline]
    fn take_quick(&self, length: u64) -> Result<Option<u64>> {
        let list = quick_at(length);
        // A pool without memory has no lists yet.
        let at = if self.span.is_empty() { 0 } else { self.span.load(list)? };
        if at == 0 {
            return Ok(None);
        }
        let block = self.span.words(at, 2)?;
        let list = self.span.words(list, 2)?;
        // Out of the list first: a block that is in no list is lost at worst, one that is in use and in a list would be
        // given twice.
        list[0].store(block[1].load(Relaxed), Release);
        list[1].store(list[1].load(Relaxed).wrapping_sub(1), Release);
        block[0].store(block[0].load(Relaxed) & !QUICK, Release);
        self.count(1)?;
        Ok(Some(at))
    }

    /// Puts a block in use into its quick list; false if that is full.
    #[inline]
    fn give_quick(&self, at: u64, word: u64, length: u64) -> Result<bool> {
        let list = self.span.words(quick_at(length), 2)?;
        let blocks = list[1].load(Relaxed);
        if blocks >= QUICK_BLOCKS {
            return Ok(false);
        }
        let block = self.span.words(at, 2)?;
        block[1].store(list[0].load(Relaxed), Release);
        block[0].store(word | QUICK, Release);
        list[0].store(at, Release);
        list[1].store(blocks + 1, Release);
        self.count(-1)?;
        Ok(true)
    }

    /// Gives the blocks of the quick lists to the lists proper. Whether there were any.
    #[cold]
    fn flush(&mut self) -> Result<bool> {
        let mut any = false;
        if !self.is_made() {
            return Ok(false);
        }
        for length in (SHORTEST..=QUICK_LENGTH).step_by(8) {
            let list = quick_at(length);
            loop {
                let at = self.span.load(list)?;
                if at == 0 {
                    break;
                }
                any = true;
                self.span.store(list, self.span.load(at + 8)?)?;
                let word = self.span.load(at)? & !QUICK;
                self.span.store(at, word)?;
                self.merge(at, word)?;
            }
            self.span.store(list + 8, 0)?;
        }
        Ok(any)
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
                let none =
                    || Error::Refused("the heap of a rank is damaged: it grew and still has no room".into());
                self.find(length)?.ok_or_else(none)?
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
        self.count(1)?;
        Ok(self.local.pool_address(self.rank, at + WORD))
    }

    /// Cuts blocks of a short length off the front of a free range, for their quick list, which is empty. The range is still
    /// inside a free block: nobody sees the new words before that one is made shorter. How many bytes were cut.
    fn carve(&self, at: u64, bytes: u64, length: u64) -> Result<u64> {
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
            self.span.store(quick_at(length), at)?;
            self.span.store(quick_at(length) + 8, count)?;
        }
        Ok(count * length)
    }

    /// Notes that blocks were taken, or given back when `blocks` is negative.
    #[inline]
    fn count(&self, blocks: i64) -> Result<()> {
        let word = self.span.word(BLOCKS_AT)?;
        word.store(word.load(Relaxed).wrapping_add_signed(blocks), Release);
        Ok(())
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

    fn release(&mut self, at: u64) -> Result<()> {
        let wrong = |why: &str| {
            let address = self.local.pool_address(self.rank, at);
            Err(Error::Misuse(format!("free of {address:#x}, which {why}")))
        };
        let end = if self.is_made() { self.span.load(END_AT)? } else { 0 };
        if at % 8 != 0 || at < FIRST_BLOCK + WORD || at >= end {
            return wrong("lies outside the heap");
        }
        let at = at - WORD;
        let word = self.span.load(at)?;
        let length = word & LENGTH_BITS;
        let fits = length >= SHORTEST && at.checked_add(length).is_some_and(|next| next < end);
        if word & !(LENGTH_BITS | FLAGS) != check(at) || !fits {
            return wrong("is not the start of a block, or was freed before");
        }
        if word & (FREE | QUICK) != 0 {
            return wrong("was freed before");
        }
        if length > QUICK_LENGTH || !self.give_quick(at, word, length)? {
            self.count(-1)?;
            self.merge(at, word)?;
        }
        // What an empty heap keeps is short: quick lists may stay in it.
        if self.span.len() > FIRST_BYTES && self.span.load(BLOCKS_AT)? == 0 {
            self.flush()?;
        }
        Ok(())
    }

    /// Makes a block that is no longer in use a free one, together with its free neighbours.
    fn merge(&mut self, at: u64, word: u64) -> Result<()> {
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
    fn grow(&mut self, length: u64) -> Result<()> {
        let end = if self.is_made() { self.span.load(END_AT)? } else { FIRST_BLOCK + WORD };
        // A block of the next longer list, which is what `find` looks for.
        let needed = end + length + length / 8 + SHORTEST;
        let wished = needed.max(end + end / 8).max(FIRST_BYTES).min(self.pool.limit());
        let before = self.pool.len();
        if self.pool.resize(wished.max(before), &self.held).is_err() {
            self.pool.resize(needed.max(before), &self.held)?;
        }
        self.span = self.pool.span();
        if !self.is_made() {
            self.span.store(FIRST_BLOCK, check(FIRST_BLOCK))?;
            self.span.store(END_AT, FIRST_BLOCK + WORD)?;
            self.span.store(MAGIC_AT, MAGIC)?;
        }
        self.extend(end)
    }

    /// Turns the memory behind the last block, and the word that ends the row, into a free block.
    fn extend(&self, end: u64) -> Result<()> {
        let (new_end, mut at) = (self.span.len(), end - WORD);
        let mut length = new_end - end;
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
        if at + length + WORD != end {
            return Ok(());
        }
        let empty = self.span.load(BLOCKS_AT)? == 0;
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
    fn repair(&self) -> Result<()> {
        if !self.is_made() {
            return Ok(());
        }
        self.span.clear(POWERS_AT, QUICK_END - POWERS_AT)?;
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
                blocks += 1;
            }
            at += length;
        }
        self.span.store(BLOCKS_AT, blocks)?;
        self.span.store(END_AT, at + WORD)
    }

    fn measure(&mut self) -> Result<HeapUse> {
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
                length if word & FREE == 0 => used_bytes += length,
                _ => {}
            }
            at += word & LENGTH_BITS;
        }
        let blocks = self.span.load(BLOCKS_AT)?;
        Ok(HeapUse { pool_bytes, used_bytes, blocks, largest_free_bytes })
    }
}

#[inline]
fn quick_at(length: u64) -> u64 {
    QUICK_AT + 2 * length
}

#[inline]
fn head_at(power: u64, list: u64) -> u64 {
    HEADS_AT + 8 * (power * LISTS + list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Heap<'_> {
        /// Every block is where the one before it ends, no two free ones are neighbours, and the lists hold all of them.
        fn verify(&self) -> Result<()> {
            if !self.is_made() {
                return Ok(());
            }
            let (mut at, mut was_free, mut free, mut blocks) = (FIRST_BLOCK, false, 0, 0);
            loop {
                let word = self.span.load(at)?;
                let length = word & LENGTH_BITS;
                assert_eq!(word & !(LENGTH_BITS | FLAGS), check(at), "check at {at}");
                assert_eq!(word & PREVIOUS_FREE != 0, was_free, "flag at {at}");
                let is_free = word & FREE != 0;
                assert!(!(is_free && was_free), "two free neighbours at {at}");
                if length == 0 {
                    break;
                }
                if is_free {
                    assert_eq!(self.span.load(at + length - WORD)?, length);
                    free += 1;
                } else if word & QUICK == 0 {
                    blocks += 1;
                }
                was_free = is_free;
                at += length;
            }
            assert_eq!(self.span.load(END_AT)?, at + WORD);
            assert_eq!(self.span.load(BLOCKS_AT)?, blocks);
            let mut listed = 0;
            for power in 0..POWERS {
                for list in 0..LISTS {
                    let mut at = self.span.load(head_at(power, list))?;
                    let mapped = self.span.load(MAPS_AT + 8 * power)? >> list & 1 == 1;
                    assert_eq!(at != 0, mapped);
                    while at != 0 {
                        let length = self.span.load(at)? & LENGTH_BITS;
                        assert_eq!(list_of(length), (power, list));
                        listed += 1;
                        at = self.span.load(at + 8)?;
                    }
                }
            }
            assert_eq!(listed, free);
            Ok(())
        }
    }

    fn verify(world: &World) {
        Heap::open(world.local(), 0).and_then(|heap| heap.verify()).expect("the heap is sound");
    }

    #[test]
    fn lists_hold_what_they_say() {
        for length in (SHORTEST..100_000).step_by(8).chain([1 << 30, 1 << 43]) {
            let (power, list) = list_for(length);
            assert!(power < POWERS && list < LISTS);
            // The shortest block of that list is long enough, and blocks that long are found again in it or above.
            assert!(list_of(length) <= (power, list));
            if length < 1 << 20 {
                let shortest = (SHORTEST..).step_by(8).find(|&l| list_of(l) == (power, list));
                assert!(shortest.is_some_and(|shortest| shortest >= length), "{length}");
            }
        }
    }

    #[test]
    fn what_is_no_block_is_not_freed() {
        let world = World::init().expect("a world of one");
        let place = world.malloc(100, 0).expect("memory");
        let other = world.malloc(100, 0).expect("memory");
        for wrong in [
            GlobalAddress::NULL,
            place.add(8),
            place.add(1),
            place.add(1 << 30),
            world.starter::<u64>(0).expect("starter memory").address(),
        ] {
            let error = world.free(wrong).expect_err("refused");
            assert!(matches!(error, Error::Misuse(_)), "{wrong:x}: {error}");
        }
        world.free(place).expect("freed");
        assert!(matches!(world.free(place), Err(Error::Misuse(_))));
        world.free(other).expect("freed");
        assert!(matches!(world.free(other), Err(Error::Misuse(_))));
        verify(&world);
        assert_eq!(world.heap_use(0).expect("use").blocks, 0);
    }

    #[test]
    fn memory_goes_back_when_the_heap_empties() {
        let world = World::init().expect("a world of one");
        let places: Vec<_> = (0..100).map(|_| world.malloc(1 << 20, 0).expect("memory")).collect();
        let full = world.heap_use(0).expect("use");
        assert!(full.pool_bytes >= 100 << 20 && full.blocks == 100, "{full:?}");
        places.into_iter().for_each(|place| world.free(place).expect("freed"));
        let empty = world.heap_use(0).expect("use");
        assert!(empty.pool_bytes <= FIRST_BYTES && empty.used_bytes == 0, "{empty:?}");
        assert!(matches!(world.malloc(u64::MAX, 0), Err(Error::OutOfMemory { .. })));
        verify(&world);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Blocks never overlap, hold what was written, and the heap is sound after every step and after a repair.
        #[test]
        fn blocks_are_apart(steps in proptest::collection::vec((0u64..5000, any::<bool>(), any::<u8>()), 1..200)) {
            let world = World::init().expect("a world of one");
            let mut model: BTreeMap<GlobalAddress, (u64, u8)> = BTreeMap::new();
            for (bytes, free, fill) in steps {
                if free && !model.is_empty() {
                    let (&place, &(bytes, fill)) = model.iter().nth(bytes as usize % model.len()).expect("one");
                    let mut seen = vec![0u8; bytes as usize];
                    world.get_slice(kumiki_mem::GlobalPtr::from_address(place), &mut seen).expect("read");
                    prop_assert!(seen.iter().all(|&byte| byte == fill));
                    world.free(place).expect("freed");
                    model.remove(&place);
                } else {
                    let place = world.malloc(bytes, 0).expect("memory");
                    let after = model.range(place..).next().map(|(&next, _)| next);
                    prop_assert!(after.is_none_or(|next| place.add(bytes) <= next));
                    let before = model.range(..place).next_back();
                    prop_assert!(before.is_none_or(|(&start, &(bytes, _))| start.add(bytes) <= place));
                    let block = vec![fill; bytes as usize];
                    world.put_slice(kumiki_mem::GlobalPtr::from_address(place), &block).expect("written");
                    model.insert(place, (bytes, fill));
                }
                verify(&world);
            }
            Heap::open(world.local(), 0).and_then(|heap| heap.repair()).expect("repaired");
            verify(&world);
            for (place, _) in model {
                world.free(place).expect("freed");
            }
            prop_assert_eq!(world.heap_use(0).expect("use").used_bytes, 0);
        }
    }
}
