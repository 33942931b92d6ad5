//! The pool of a rank: arena memory in which every rank of the node may allocate, without the owner's help.
//!
//! It has fixed slots, so every rank knows the address of every other's. It begins without a byte and grows and
//! shrinks at its end, by whoever holds its lock; what it takes is booked on its owner's budget. What lies in it is the
//! business of the layer above, which keeps its allocator there.
//!
//! The bytes of a pool are numbered from 0, but lie in two places: the first ones near those of the other ranks, so that
//! whoever uses many small pools pays few page tables, and the rest apart. Each part has a slot of its own. Where the first
//! ends is [`Pool::BORDER`]: no block may lie across it.

use crate::node::address::{AddressFormat, GlobalAddress, FAR_POOL_SLOT, POOL_SLOT};
use crate::node::ledger;
use crate::node::local::{self, Local, Locked, Span};
use crate::node::region::out_of_memory;
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::os::memory::PAGE_BYTES;
use kumiki_net::os::process;
use kumiki_net::shm::arena::NEAR_BYTES;
use kumiki_net::shm::control::Control;
use kumiki_net::shm::region::RegionEntry;
use kumiki_net::Rank;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pool leaves of its owner's budget: a rank that others have filled can still start operations, and so give
/// memory back.
const RESERVE_BYTES: u64 = 64 << 10;

/// Where a pool goes on in another place: its first bytes lie near those of other ranks. Nothing may lie across it.
const BORDER: u64 = NEAR_BYTES;

/// The pool of a rank of this node.
#[derive(Clone, Copy)]
pub struct Pool<'a> {
    local: Local<'a>,
    owner: Rank,
    owner_local: u32,
    control: &'a Control,
}

/// How the bytes of a pool are addressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolAddresses {
    /// The address of byte 0.
    base: u64,
}

impl PoolAddresses {
    #[inline]
    fn new(format: &AddressFormat, owner: Rank) -> PoolAddresses {
        PoolAddresses { base: format.address(owner, POOL_SLOT, 0).bits() }
    }

    /// How much further away the far part is than it would be if it followed the near one: its slot is the next one.
    #[inline]
    fn skip(self) -> u64 {
        // The lowest bit of the address is that of the slot's number, which is 2: so half of it is what a slot spans.
        const { assert!(POOL_SLOT == 2 && FAR_POOL_SLOT == 3) };
        ((self.base & self.base.wrapping_neg()) >> 1).wrapping_sub(BORDER)
    }

    /// The address of a byte.
    #[inline]
    pub fn address(self, offset: u64) -> GlobalAddress {
        let skip = if offset < BORDER { 0 } else { self.skip() };
        GlobalAddress::from_bits(self.base.wrapping_add(skip)).add(offset)
    }

    /// The byte at an address. More than any pool has, if the address is of no pool or of another one.
    #[inline]
    pub fn offset(self, address: GlobalAddress) -> u64 {
        let offset = address.bits().wrapping_sub(self.base);
        if offset < BORDER {
            return offset;
        }
        match offset.wrapping_sub(self.skip()) {
            far @ BORDER.. => far,
            _ => u64::MAX,
        }
    }
}

impl std::fmt::Debug for Pool<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool(of {}, {} bytes)", self.owner, self.len())
    }
}

impl<'a> Local<'a> {
    /// The pool of a live rank of this node.
    #[inline]
    pub fn pool(self, rank: u32) -> Result<Pool<'a>> {
        self.live_pool(rank).ok_or_else(|| self.why_no_pool(rank))
    }

    /// The pool of a rank, if that is alive and on this node: [`pool`](Self::pool) says why not.
    #[inline]
    pub fn live_pool(self, rank: u32) -> Option<Pool<'a>> {
        if process::is_forked_child() {
            return None;
        }
        let arena = &self.node.arena;
        let owner_local = arena.place(Rank(rank))?.local_on(self.node.node)?;
        let control = arena.control(owner_local)?;
        Some(Pool { local: self, owner: Rank(rank), owner_local, control })
    }

    #[cold]
    fn why_no_pool(self, rank: u32) -> Error {
        if let Err(error) = self.node.check_usable() {
            return error;
        }
        let Some(place) = self.node.arena.place(Rank(rank)).map(|word| word.load()) else {
            return Error::misuse(format!("there is no rank {rank}"));
        };
        let wrong = self.node.check_alive(Rank(rank), place);
        wrong.err().unwrap_or_else(|| Error::misuse(format!("rank {rank} is on another node")))
    }

    /// Whether an address lies in the pool of its rank, wherever that is.
    #[inline]
    pub fn is_in_pool(self, address: GlobalAddress) -> bool {
        matches!(self.node.format.slot(address), POOL_SLOT | FAR_POOL_SLOT)
    }

    /// The offset of an address in the pool of its rank.
    #[inline]
    pub fn pool_offset(self, address: GlobalAddress) -> u64 {
        self.pool_addresses(self.rank_of(address)).offset(address)
    }

    /// The address of a byte of the pool of any rank.
    #[inline]
    pub fn pool_address(self, rank: u32, offset: u64) -> GlobalAddress {
        self.pool_addresses(rank).address(offset)
    }

    /// How the bytes of the pool of any rank are addressed.
    #[inline]
    pub fn pool_addresses(self, rank: u32) -> PoolAddresses {
        PoolAddresses::new(&self.node.format, Rank(rank))
    }
}

impl<'a> Pool<'a> {
    /// Where its near part ends and the far one begins.
    pub const BORDER: u64 = BORDER;

    /// Bytes that it has now: a multiple of a page.
    #[inline]
    pub fn len(self) -> u64 {
        // Whatever stands there, nothing outside the pool is touched.
        self.control.pool.bytes.load(Ordering::Acquire).min(BORDER + self.local.node.arena.far_pool_bytes())
    }

    /// Whether it has no memory now.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The most bytes that it can have: what a slot spans and a slice holds, and the job allows.
    #[inline]
    pub fn limit(self) -> u64 {
        let Node { arena, format, .. } = self.local.node;
        let far = format.slot_span().min(arena.far_pool_bytes());
        (BORDER + far).min(arena.config().pool_bytes)
    }

    /// All its memory.
    #[inline]
    pub fn span(self) -> PoolSpan<'a> {
        let arena = &self.local.node.arena;
        let (near, far) = arena.pool(self.owner_local);
        PoolSpan {
            near: arena.pointer(near),
            skip: far - near - BORDER,
            bytes: self.len(),
            addresses: self.local.pool_addresses(self.owner.0),
            life: PhantomData,
        }
    }

    /// Takes the pool's lock; see [`Local::lock`].
    #[inline]
    pub fn lock(self) -> Result<Locked<'a>> {
        self.local.lock(&self.control.pool.lock)
    }

    /// Takes the pool's lock if nobody has it.
    #[inline]
    pub fn try_lock(self) -> Option<Locked<'a>> {
        self.local.try_lock(&self.control.pool.lock)
    }

    /// The number of blocks in use, beside the lock. Whoever holds that keeps it.
    #[inline]
    pub fn blocks(self) -> &'a AtomicU64 {
        &self.control.pool.blocks
    }

    /// Says that the pool will be locked soon: a hint to the processor.
    #[inline]
    pub fn prepare_lock(self) {
        local::fetch_to_write((&raw const self.control.pool).cast());
    }

    /// Gives the pool another length, in whole pages; the caller holds its lock. Memory that is cut off goes back to the system.
    ///
    /// New memory is zero, but for one case: who is killed between the store of a shorter length and the return of
    /// what was cut off leaves the old bytes there, and booked, and the next growth gets them as they are. Nobody counts on zeroes:
    /// blocks are handed out with whatever they hold, and their heads are written first.
    pub fn resize(self, bytes: u64, _held: &Locked<'_>) -> Result<()> {
        let node = self.local.node;
        let (before, bytes) = (self.len(), bytes.next_multiple_of(PAGE_BYTES));
        let control = self.control;
        let ([near, far], changes) = (self.entries(), node.arena.changes());
        if bytes > before {
            let more = bytes - before;
            if bytes > self.limit() {
                return Err(Error::OutOfMemory {
                    asked: more,
                    left: self.limit().saturating_sub(before),
                    what: "the pool of a rank; --pool or KUMIKI_POOL may limit it",
                });
            }
            node.check_machine(more)?;
            let budget_bytes = node.arena.config().budget_bytes;
            let budget_bytes = budget_bytes - RESERVE_BYTES.min(budget_bytes / 16);
            ledger::book_on(&control.booked, budget_bytes, more)?;
            let parts = self.parts(before..bytes);
            let committed = parts.into_iter().try_for_each(|(at, bytes)| node.arena.commit(at, bytes));
            if let Err(error) = committed {
                control.booked.fetch_sub(more, Ordering::Relaxed);
                return Err(out_of_memory(error, more));
            }
            near.resize(bytes.min(BORDER), changes);
            far.resize(bytes.saturating_sub(BORDER), changes);
            control.pool.bytes.store(bytes, Ordering::Release);
        } else if bytes < before {
            control.pool.bytes.store(bytes, Ordering::Release);
            far.resize(bytes.saturating_sub(BORDER), changes);
            near.resize(bytes.min(BORDER), changes);
            let parts = self.parts(bytes..before);
            parts.into_iter().try_for_each(|(at, bytes)| node.arena.release(at, bytes))?;
            control.booked.fetch_sub(before - bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The region entries of its parts.
    fn entries(self) -> [&'a RegionEntry; 2] {
        [POOL_SLOT, FAR_POOL_SLOT].map(|slot| {
            let entry = self.local.node.arena.region(self.owner_local, slot as usize);
            entry.expect("a rank that has a control block has a region table")
        })
    }

    /// Where a range lies in the arena, and how many bytes of it: in the near part, in the far one, or in both.
    fn parts(self, range: Range<u64>) -> impl IntoIterator<Item = (u64, u64)> {
        let (near, far) = self.local.node.arena.pool(self.owner_local);
        let near = (near + range.start, range.end.min(BORDER).saturating_sub(range.start));
        let start = range.start.max(BORDER);
        let far = (far + start - BORDER, range.end.saturating_sub(start));
        [near, far].into_iter().filter(|&(_, bytes)| bytes > 0)
    }
}

/// The memory of a pool, all of it; otherwise as a [`Span`], which a part of it is. What lies across the border of the two
/// parts is refused.
#[derive(Clone, Copy)]
pub struct PoolSpan<'a> {
    near: *mut u8,
    /// As [`PoolAddresses::skip`], in the memory of this process.
    skip: u64,
    bytes: u64,
    addresses: PoolAddresses,
    life: PhantomData<&'a Node>,
}

impl std::fmt::Debug for PoolSpan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PoolSpan({:#x}, {} bytes)", self.addresses.base, self.bytes)
    }
}

impl<'a> PoolSpan<'a> {
    /// Bytes.
    #[inline]
    pub fn len(self) -> u64 {
        self.bytes
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.bytes == 0
    }

    /// Where a byte is.
    #[inline(always)]
    fn place(self, at: u64) -> *mut u8 {
        let skip = if at < BORDER { 0 } else { self.skip };
        self.near.wrapping_add(at as usize).wrapping_add(skip as usize)
    }

    /// A part of it, on one side of the border.
    #[inline(always)]
    pub fn part(self, at: u64, bytes: u64) -> Result<Span<'a>> {
        let end = at.wrapping_add(bytes);
        if end < at || end > self.bytes || (at < BORDER && end > BORDER) {
            return Err(self.outside(at, bytes));
        }
        Ok(Span::new(self.place(at), bytes, self.addresses.address(at)))
    }

    /// The address of a byte.
    #[inline(always)]
    pub fn address(self, at: u64) -> GlobalAddress {
        self.addresses.address(at)
    }

    /// The word at `at`, which must be aligned.
    #[inline(always)]
    pub fn word(self, at: u64) -> Result<&'a AtomicU64> {
        self.try_word(at).ok_or_else(|| self.outside(at, 8))
    }

    /// The word at `at`, if there is one.
    #[inline(always)]
    pub fn try_word(self, at: u64) -> Option<&'a AtomicU64> {
        // The pool and its parts begin at pages and have whole ones: a word at a multiple of 8 that begins inside ends inside,
        // and lies on one side of the border.
        if at >= self.bytes || !at.is_multiple_of(8) {
            return None;
        }
        // SAFETY: aligned, inside the pool, which is mapped for `'a`; every bit pattern is valid.
        Some(unsafe { &*self.place(at).cast::<AtomicU64>() })
    }

    /// The word at `at` and the next one, if they are there and on one side of the border.
    #[inline(always)]
    pub fn try_pair(self, at: u64) -> Option<&'a [AtomicU64; 2]> {
        if at >= self.bytes.saturating_sub(8) || !at.is_multiple_of(8) || at == BORDER - 8 {
            return None;
        }
        // SAFETY: as above; the second word begins inside too, on the same side.
        Some(unsafe { &*self.place(at).cast::<[AtomicU64; 2]>() })
    }

    #[cold]
    #[inline(never)]
    fn outside(self, at: u64, bytes: u64) -> Error {
        local::outside(self.addresses.address(at), bytes)
    }

    /// `count` words from `at`, which must be aligned.
    #[inline(always)]
    pub fn words(self, at: u64, count: usize) -> Result<&'a [AtomicU64]> {
        self.part(at, 8 * count as u64)?.words(0, count)
    }

    /// Reads the word at `at`.
    #[inline(always)]
    pub fn load(self, at: u64) -> Result<u64> {
        self.word(at).map(|word| word.load(Ordering::Acquire))
    }

    /// Writes the word at `at`.
    #[inline(always)]
    pub fn store(self, at: u64, value: u64) -> Result<()> {
        self.word(at).map(|word| word.store(value, Ordering::Release))
    }

    /// Says that the bytes at `at` will be read, or written, soon: a hint to the processor.
    #[inline]
    pub fn prepare(self, at: u64) {
        if at < self.bytes {
            local::fetch_to_write(self.place(at));
        }
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(self, at: u64, into: &mut [u8]) -> Result<()> {
        self.part(at, into.len() as u64)?.read(0, into)
    }

    /// Copies bytes in.
    #[inline]
    pub fn write(self, at: u64, from: &[u8]) -> Result<()> {
        self.part(at, from.len() as u64)?.write(0, from)
    }

    /// Whether the bytes at `at` are these.
    #[inline]
    pub fn matches(self, at: u64, bytes: &[u8]) -> Result<bool> {
        self.part(at, bytes.len() as u64)?.matches(0, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    #[test]
    fn a_pool_lies_in_two_parts_and_gives_both_back() {
        let world = World::init().unwrap();
        let (local, page) = (world.local(), PAGE_BYTES);
        let pool = local.pool(0).unwrap();
        let held = pool.lock().unwrap();
        let arena = &world.core().arena;
        let occupied = arena.occupied_bytes().unwrap();
        for bytes in [page, BORDER - page, BORDER, BORDER + page, 3 * BORDER, BORDER + page, page, 0] {
            pool.resize(bytes, &held).unwrap();
            assert_eq!((pool.len(), pool.span().len()), (bytes, bytes));
            assert_eq!(arena.occupied_bytes().unwrap(), occupied + bytes);
            for at in (0..bytes).step_by(page as usize / 2) {
                let address = local.pool_address(0, at);
                assert!(local.is_in_pool(address) && local.pool_offset(address) == at);
                // By the pool and by the address it is the same word.
                pool.span().store(at, at).unwrap();
                assert_eq!(world.get(crate::GlobalPtr::<u64>::from_address(address)), Ok(at));
                assert_eq!(pool.span().part(at, 8).unwrap().address(), address);
            }
            assert!(world.get(crate::GlobalPtr::<u8>::from_address(local.pool_address(0, bytes))).is_err());
        }
    }

    #[test]
    fn nothing_is_read_or_written_across_the_border_of_a_pool() {
        let world = World::init().unwrap();
        let pool = world.local().pool(0).unwrap();
        let held = pool.lock().unwrap();
        pool.resize(2 * BORDER, &held).unwrap();
        let span = pool.span();
        assert!(span.write(BORDER - 8, &[1; 8]).is_ok() && span.write(BORDER, &[2; 8]).is_ok());
        assert!(span.write(BORDER - 8, &[3; 16]).is_err() && span.read(BORDER - 1, &mut [0; 2]).is_err());
        assert!(span.words(BORDER - 8, 2).is_err() && span.part(0, 2 * BORDER).is_err());
        assert!(span.matches(BORDER - 8, &[1; 9]).is_err() && span.word(BORDER - 4).is_err());
        assert!(span.word(2 * BORDER - 8).is_ok() && span.word(2 * BORDER).is_err());
        assert!(span.try_pair(BORDER - 16).is_some() && span.try_pair(BORDER - 8).is_none());
        assert!(span.try_pair(2 * BORDER - 16).is_some() && span.try_pair(2 * BORDER - 8).is_none());
        assert!(span.part(u64::MAX, 8).is_err() && span.word(u64::MAX - 7).is_err());
        assert_eq!(
            (span.load(BORDER - 8), span.load(BORDER)),
            (Ok(0x0101010101010101), Ok(0x0202020202020202))
        );
        // An ordinary span is in one piece, however long.
        let region = world.alloc::<u8>(2 * BORDER as usize).unwrap();
        let span = world.local().span(region.address(), 2 * BORDER).unwrap();
        assert!(span.write(BORDER - 8, &[3; 16]).is_ok());
        assert_eq!(world.get(region.ptr().add((BORDER + 7) as usize)), Ok(3));
    }

    #[test]
    fn an_address_of_no_pool_is_beyond_every_pool() {
        for ranks in [1, 2, 1000, 1 << 20, 1 << 24] {
            let format = AddressFormat::new(ranks);
            let addresses = PoolAddresses::new(&format, Rank(ranks - 1));
            let far_end = BORDER + format.slot_span();
            for offset in [0, 8, BORDER - 1, BORDER, BORDER + 1, far_end - 1] {
                let address = addresses.address(offset);
                assert_eq!((addresses.offset(address), format.rank(address).0), (offset, ranks - 1));
            }
            for (slot, offset) in [(POOL_SLOT, BORDER), (FAR_POOL_SLOT + 1, 0), (POOL_SLOT - 1, 0)] {
                let address = format.address(Rank(ranks - 1), slot, offset);
                assert!(addresses.offset(address) >= far_end, "slot {slot} of {ranks} ranks");
            }
            assert!(addresses.offset(GlobalAddress::NULL) >= far_end);
        }
    }
}
