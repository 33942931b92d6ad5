//! Global malloc and free: the allocator of each rank's pool.
//!
//! Any rank of the node allocates in the pool of any other directly, under the pool's lock; a rank of another node asks
//! the owner.
//!
//! | file | what |
//! |---|---|
//! | `blocks.rs` | blocks side by side, the lists of free ones, growing, merging, repairing |
//! | `quick.rs` | short blocks that are freed and asked for again: the way most calls go |

mod blocks;
mod quick;
#[cfg(test)]
mod tests;

pub(crate) use blocks::Heap;

use super::message::{unknown, Reader, Writer};
use super::HEAP;
use crate::{Error, GlobalAddress, Rank, Result, World};
use blocks::{DOOR_AT, FIRST_BLOCK, MAILBOX_AT, NOTICE_AT, WORD};
use kumiki_mem::{Local, Span};

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
    #[inline]
    pub fn malloc(&self, bytes: usize, rank: Rank) -> Result<GlobalAddress> {
        match quick::allocate(self.local(), rank, bytes as u64) {
            Some(address) => Ok(address),
            None => self.note(self.malloc_slowly(bytes as u64, rank)),
        }
    }

    /// The same for whoever can do without.
    pub(crate) fn try_malloc(&self, bytes: u64, rank: u32) -> Option<GlobalAddress> {
        quick::allocate(self.local(), rank, bytes).or_else(|| self.malloc_slowly(bytes, rank).ok())
    }

    #[cold]
    #[inline(never)]
    fn malloc_slowly(&self, bytes: u64, rank: u32) -> Result<GlobalAddress> {
        let local = self.local();
        if local.is_near(rank) {
            return Heap::open(local, rank)?.allocate(bytes);
        }
        local.check_alive(rank)?;
        let reply = self.call(rank, HEAP, Writer::new(MALLOC).long(bytes).finish())?;
        Ok(GlobalAddress::from_bits(Reader::new(&reply).long()?))
    }

    /// Frees a block of [`malloc`](Self::malloc), whoever allocated it. A block that was freed before, or an address that
    /// is no block, is [`Misuse`](Error::Misuse).
    #[inline]
    pub fn free(&self, address: GlobalAddress) -> Result<()> {
        match quick::release(self.local(), address) {
            Some(()) => Ok(()),
            None => self.note(self.free_slowly(address)),
        }
    }

    #[cold]
    #[inline(never)]
    fn free_slowly(&self, address: GlobalAddress) -> Result<()> {
        let local = self.local();
        let rank = local.rank_of(address);
        if address.is_null() || local.is_near(rank) {
            return release_slowly(local, address);
        }
        local.check_alive(rank)?;
        self.call(rank, HEAP, release_request(address)).map(drop)
    }

    /// What the heap of a rank holds now.
    pub fn heap_use(&self, rank: Rank) -> Result<HeapUse> {
        let local = self.local();
        if local.is_near(rank) {
            return self.note(Heap::open(local, rank).and_then(|mut heap| heap.measure()));
        }
        let reply = self.call(rank, HEAP, Writer::new(USE).finish())?;
        let mut reply = Reader::new(&reply);
        Ok(HeapUse {
            pool_bytes: reply.long()?,
            used_bytes: reply.long()?,
            blocks: reply.long()?,
            largest_free_bytes: reply.long()?,
        })
    }
}

/// Allocates in the pool of a rank of this node.
#[inline]
pub(crate) fn allocate(local: Local<'_>, rank: u32, bytes: u64) -> Result<GlobalAddress> {
    match quick::allocate(local, rank, bytes) {
        Some(address) => Ok(address),
        None => Heap::open(local, rank)?.allocate(bytes),
    }
}

/// Says that a block of so many bytes will be allocated soon: the processor fetches what that takes, if it can be seen.
#[inline]
pub(crate) fn prepare(local: Local<'_>, rank: u32, bytes: u64) {
    quick::prepare(local, rank, bytes);
}

/// The header of a structure at an address. The memory of one that was destroyed may be the system's again: then, too, there is
/// `none`.
pub(crate) fn header<'a>(
    local: Local<'a>,
    address: GlobalAddress,
    bytes: u64,
    none: impl Fn() -> Error,
) -> Result<Span<'a>> {
    local.span(address, bytes).map_err(|error| match error {
        Error::Bounds { .. } if local.is_in_pool(address) => none(),
        other => other,
    })
}

/// The address of 128 bytes in the pool of a rank that all ranks know, for work that they do together. They are there once
/// something was allocated on that rank.
pub(crate) fn notice(local: Local<'_>, rank: u32) -> GlobalAddress {
    local.pool_address(rank, NOTICE_AT)
}

/// The request that frees a block.
pub(crate) fn release_request(address: GlobalAddress) -> Vec<u8> {
    Writer::new(RELEASE).long(address.bits()).finish()
}

/// A word in the pool of a rank that all ranks know: what it is for is in `comm/door.rs`. It is there, and 0 at first, once something
/// was allocated on that rank.
pub(crate) fn door(local: Local<'_>, rank: u32) -> GlobalAddress {
    local.pool_address(rank, DOOR_AT)
}

/// Another such word: what it is for is in `comm/message/ring.rs`.
pub(crate) fn mailbox(local: Local<'_>, rank: u32) -> GlobalAddress {
    local.pool_address(rank, MAILBOX_AT)
}

/// Frees a block of the pool of a rank of this node.
pub(crate) fn release(local: Local<'_>, address: GlobalAddress) -> Result<()> {
    match quick::release(local, address) {
        Some(()) => Ok(()),
        None => release_slowly(local, address),
    }
}

fn release_slowly(local: Local<'_>, address: GlobalAddress) -> Result<()> {
    if address.is_null() || !local.is_in_pool(address) {
        return Err(Error::Misuse(format!("free of {:#x}, which malloc never gave", address)));
    }
    Heap::open(local, local.rank_of(address))?.release(local.pool_offset(address))
}

/// Bytes of a line of the cache.
const LINE_BYTES: u64 = 64;

/// Allocates memory in the pool of this rank that begins with a line of the cache: for what ranks write to each other again and again.
pub(crate) fn allocate_lines(local: Local<'_>, bytes: u64) -> Result<GlobalAddress> {
    let block = allocate(local, local.rank(), bytes.saturating_add(LINE_BYTES))?;
    // The word before it says how far it is from where the block begins.
    let before = LINE_BYTES - local.pool_offset(block) % LINE_BYTES;
    local.span(block, before)?.store(before - WORD, before)?;
    Ok(block.add(before))
}

/// Frees it.
pub(crate) fn release_lines(local: Local<'_>, address: GlobalAddress) -> Result<()> {
    let wrong = || Error::Misuse(format!("free of {address:#x}, which does not begin with a line"));
    let word = address.bits().checked_sub(WORD).map(GlobalAddress::from_bits).ok_or_else(wrong)?;
    let before = local.span(word, WORD)?.load(0)?;
    match (WORD..=LINE_BYTES).contains(&before) {
        true => release(local, GlobalAddress::from_bits(address.bits() - before)),
        false => Err(wrong()),
    }
}

/// Does it for a rank of another node.
pub(crate) fn serve(local: Local<'_>, _from: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    let mut request = Reader::new(request);
    let mut tell = |word: u64| reply.extend_from_slice(&word.to_le_bytes());
    match request.byte()? {
        MALLOC => tell(allocate(local, local.rank(), request.long()?)?.bits()),
        RELEASE => {
            let address = GlobalAddress::from_bits(request.long()?);
            release(local, address)?;
        }
        USE => {
            let HeapUse { pool_bytes, used_bytes, blocks, largest_free_bytes } =
                Heap::open(local, local.rank())?.measure()?;
            [pool_bytes, used_bytes, blocks, largest_free_bytes].into_iter().for_each(tell);
        }
        code => return Err(unknown(code)),
    }
    Ok(())
}
