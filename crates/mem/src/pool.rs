//! The pool of a rank: arena memory in which every rank of the node may allocate, without the owner's help.
//!
//! It has a fixed slot, so every rank knows the address of every other's. It begins without a byte and grows and
//! shrinks at its end, by whoever holds its lock; what it takes is booked on its owner's budget. What lies in it is the
//! business of the layer above, which keeps its allocator there.

use crate::address::{GlobalAddress, POOL_SLOT};
use crate::ledger;
use crate::local::{self, Local, Locked, Span};
use crate::region::out_of_memory;
use crate::{Error, Result};
use kumiki_net::os::memory::PAGE_BYTES;
use kumiki_net::os::process;
use kumiki_net::shm::control::Control;
use kumiki_net::shm::region::RegionEntry;
use kumiki_net::Rank;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pool leaves of its owner's budget: a rank that others have filled can still start operations, and so give
/// memory back.
const RESERVE_BYTES: u64 = 64 << 10;

/// The pool of a rank of this node.
#[derive(Clone, Copy)]
pub struct Pool<'a> {
    local: Local<'a>,
    owner: Rank,
    owner_local: u32,
    entry: &'a RegionEntry,
    control: &'a Control,
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
        let arena = &self.core.arena;
        let owner_local = arena.place(Rank(rank))?.local_on(self.core.node)?;
        let entry = arena.region(owner_local, POOL_SLOT as usize)?;
        let control = arena.control(owner_local)?;
        Some(Pool { local: self, owner: Rank(rank), owner_local, entry, control })
    }

    #[cold]
    fn why_no_pool(self, rank: u32) -> Error {
        if let Err(error) = self.core.check_usable() {
            return error;
        }
        let Some(place) = self.core.arena.place(Rank(rank)).map(|word| word.load()) else {
            return Error::misuse(format!("there is no rank {rank}"));
        };
        let wrong = self.core.check_alive(Rank(rank), place);
        wrong.err().unwrap_or_else(|| Error::misuse(format!("rank {rank} is on another node")))
    }

    /// Whether an address lies in the pool of its rank, wherever that is.
    #[inline]
    pub fn is_in_pool(self, address: GlobalAddress) -> bool {
        self.core.format.slot(address) == POOL_SLOT
    }

    /// The offset of an address in the pool of its rank.
    #[inline]
    pub fn pool_offset(self, address: GlobalAddress) -> u64 {
        self.core.format.offset(address)
    }

    /// The address of a byte of the pool of any rank.
    #[inline]
    pub fn pool_address(self, rank: u32, offset: u64) -> GlobalAddress {
        self.core.format.address(Rank(rank), POOL_SLOT, offset)
    }
}

impl<'a> Pool<'a> {
    /// Bytes that it has now: a multiple of a page.
    #[inline]
    pub fn len(self) -> u64 {
        self.entry.bytes()
    }

    /// Whether it has no memory now.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The most bytes that it can have: what a slot spans and a slice holds, and the job allows.
    #[inline]
    pub fn limit(self) -> u64 {
        let arena = &self.local.core.arena;
        let room = self.local.core.format.slot_span().min(arena.slice_bytes() - arena.pool_start());
        room.min(arena.config().pool_bytes)
    }

    /// All its memory.
    #[inline]
    pub fn span(self) -> Span<'a> {
        let arena = &self.local.core.arena;
        let bytes = self.len().min(arena.slice_bytes() - arena.pool_start());
        // SAFETY: the pool lies in the slice of a rank of this node, behind its start.
        let base = unsafe { arena.slice(self.owner_local).add(arena.pool_start() as usize) };
        Span::new(base, bytes, self.local.pool_address(self.owner.0, 0))
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

    /// Gives the pool another length, in whole pages; the caller holds its lock. New memory is zero. Memory that is cut
    /// off goes back to the system.
    pub fn resize(self, bytes: u64, _held: &Locked<'_>) -> Result<()> {
        let core = self.local.core;
        let (before, bytes) = (self.len(), bytes.next_multiple_of(PAGE_BYTES));
        let start = core.arena.pool_start();
        let control = self.control;
        if bytes > before {
            let more = bytes - before;
            if bytes > self.limit() {
                return Err(Error::OutOfMemory {
                    asked: more,
                    left: self.limit().saturating_sub(before),
                    what: "the pool of a rank; --pool or KUMIKI_POOL may limit it",
                });
            }
            core.check_machine(more)?;
            let budget_bytes = core.arena.config().budget_bytes;
            let budget_bytes = budget_bytes - RESERVE_BYTES.min(budget_bytes / 16);
            ledger::book_on(&control.booked, budget_bytes, more)?;
            let committed = core.arena.commit_slice(self.owner_local, start + before, more);
            if let Err(error) = committed {
                control.booked.fetch_sub(more, Ordering::Relaxed);
                return Err(out_of_memory(error, more));
            }
            self.entry.resize(bytes);
        } else if bytes < before {
            self.entry.resize(bytes);
            core.arena.release_slice(self.owner_local, start + bytes, before - bytes)?;
            control.booked.fetch_sub(before - bytes, Ordering::Relaxed);
        }
        Ok(())
    }
}
