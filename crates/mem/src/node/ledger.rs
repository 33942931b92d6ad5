//! The ledger: every byte that the library takes, under a purpose, and the budget it must stay in.
//!
//! Booking comes before taking. When the budget is spent the caller gets
//! [`OutOfMemory`](crate::Error::OutOfMemory) with what was asked and what is left; the library never grows silently.

use crate::{Error, Result};
use kumiki_net::shm::arena::Arena;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// What memory is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Purpose {
    /// The world itself: fixed private state of the process.
    World,
    /// The control block and region table of this rank, in the arena.
    ArenaControl,
    /// Starter memory, in the arena.
    Starter,
    /// Regions that the program allocated, in the arena.
    Heap,
    /// Private tables of regions and free ranges.
    RegionTable,
    /// Connections and their buffers.
    Connection,
    /// Operations that are not complete.
    Operation,
    /// Stacks of the library's threads.
    Thread,
    /// Data structures that live in global memory.
    Data,
    /// What this process knows of hash tables and workspaces: where their parts are.
    Directory,
    /// Teams that this rank is in.
    Team,
    /// What this process knows of channels, groups and other patterns of communication, and what those need for a while.
    Comm,
}

impl Purpose {
    /// All purposes, in the order of reports.
    pub const ALL: [Purpose; 12] = [
        Purpose::World,
        Purpose::ArenaControl,
        Purpose::Starter,
        Purpose::Heap,
        Purpose::RegionTable,
        Purpose::Connection,
        Purpose::Operation,
        Purpose::Thread,
        Purpose::Data,
        Purpose::Directory,
        Purpose::Team,
        Purpose::Comm,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::World => "world",
            Purpose::ArenaControl => "arena control",
            Purpose::Starter => "starter memory",
            Purpose::Heap => "heap",
            Purpose::RegionTable => "region table",
            Purpose::Connection => "connections",
            Purpose::Operation => "operations",
            Purpose::Thread => "threads",
            Purpose::Data => "data structures",
            Purpose::Directory => "table directories",
            Purpose::Team => "teams",
            Purpose::Comm => "communication",
        }
    }

    /// Whether the memory is shared with the node rather than private to the process.
    pub fn is_arena(self) -> bool {
        matches!(self, Purpose::ArenaControl | Purpose::Starter | Purpose::Heap | Purpose::Data)
    }
}

/// The books of one process.
#[derive(Debug)]
pub(crate) struct Books {
    budget_bytes: u64,
    /// The total stands in the control block of this rank: neighbours book there too.
    arena: Arc<Arena>,
    local: u32,
    by_purpose: [AtomicU64; Purpose::ALL.len()],
}

/// Books bytes on a total that must not exceed a budget.
pub(crate) fn book_on(total: &AtomicU64, budget_bytes: u64, bytes: u64) -> Result<()> {
    let booked = total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| {
        total.checked_add(bytes).filter(|&total| total <= budget_bytes)
    });
    booked.map(drop).map_err(|total| Error::OutOfMemory {
        asked: bytes,
        left: budget_bytes.saturating_sub(total),
        what: "the budget of this rank; raise it with --budget or KUMIKI_BUDGET",
    })
}

impl Books {
    pub(crate) fn new(arena: Arc<Arena>, local: u32) -> Books {
        let budget_bytes = arena.config().budget_bytes;
        let books = Books { budget_bytes, arena, local, by_purpose: Default::default() };
        books.total().store(0, Ordering::Relaxed);
        books
    }

    #[inline]
    fn total(&self) -> &AtomicU64 {
        &self.arena.control(self.local).expect("this rank has a control block").booked
    }

    /// Books bytes before they are taken.
    pub(crate) fn book(&self, purpose: Purpose, bytes: u64) -> Result<()> {
        book_on(self.total(), self.budget_bytes, bytes)?;
        self.by_purpose[purpose as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Books bytes that cannot be refused. They may exceed the budget, and then nothing else is taken until they are back.
    pub(crate) fn force(&self, purpose: Purpose, bytes: u64) {
        self.total().fetch_add(bytes, Ordering::Relaxed);
        self.by_purpose[purpose as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Books bytes back when they have been given back.
    pub(crate) fn unbook(&self, purpose: Purpose, bytes: u64) {
        self.by_purpose[purpose as usize].fetch_sub(bytes, Ordering::Relaxed);
        self.total().fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets the bytes of a purpose that is measured rather than counted; never refuses.
    pub(crate) fn set(&self, purpose: Purpose, bytes: u64) {
        let before = self.by_purpose[purpose as usize].swap(bytes, Ordering::Relaxed);
        if bytes >= before {
            self.total().fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.total().fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }

    /// Sets the bytes of a purpose that others book on the total.
    pub(crate) fn note(&self, purpose: Purpose, bytes: u64) {
        self.by_purpose[purpose as usize].store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn left(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.total().load(Ordering::Relaxed))
    }

    pub(crate) fn of(&self, purpose: Purpose) -> u64 {
        self.by_purpose[purpose as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn budget(&self) -> Option<u64> {
        (self.budget_bytes != u64::MAX).then_some(self.budget_bytes)
    }
}

/// One line of the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What for.
    pub purpose: Purpose,
    /// How many bytes now.
    pub bytes: u64,
}

/// The books as they stand: what [`World::ledger`](crate::World::ledger) gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ledger {
    /// Bytes by purpose.
    pub entries: Vec<Entry>,
    /// The budget, if there is one.
    pub budget_bytes: Option<u64>,
    /// Private bytes for each rank of the world that this one never spoke to.
    pub bytes_per_unknown_peer: u64,
    /// Private bytes for each rank that it knows by name only; the world table lies in the arena.
    pub bytes_per_known_peer: u64,
    /// Private bytes for each open connection.
    pub bytes_per_connected_peer: u64,
    /// Open connections.
    pub connected_peers: u64,
    /// Private bytes for each operation that is not complete.
    pub bytes_per_operation: u64,
    /// Private bytes for each region, as they are booked. Its entry in the table that the node reads was there before it.
    pub bytes_per_region: u64,
    /// Bytes of page tables that this process has now, as the kernel counts them: they grow with what it touches.
    pub page_table_bytes: u64,
}

impl Ledger {
    /// Bytes of one purpose.
    pub fn of(&self, purpose: Purpose) -> u64 {
        self.entries.iter().find(|entry| entry.purpose == purpose).map_or(0, |entry| entry.bytes)
    }

    /// Bytes private to the process.
    pub fn private_bytes(&self) -> u64 {
        self.entries.iter().filter(|entry| !entry.purpose.is_arena()).map(|entry| entry.bytes).sum()
    }

    /// Bytes in the arena.
    pub fn arena_bytes(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.purpose.is_arena()).map(|entry| entry.bytes).sum()
    }
}

impl std::fmt::Display for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for entry in self.entries.iter().filter(|entry| entry.bytes > 0) {
            let place = if entry.purpose.is_arena() { "arena" } else { "private" };
            writeln!(f, "{:<17} {:<8} {:>12}", entry.purpose.name(), place, entry.bytes)?;
        }
        writeln!(f, "{:<17} {:<8} {:>12}", "page tables", "kernel", self.page_table_bytes)?;
        write!(
            f,
            "per peer: {} unknown, {} known, {} connected ({} now)",
            self.bytes_per_unknown_peer,
            self.bytes_per_known_peer,
            self.bytes_per_connected_peer,
            self.connected_peers
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_costs_what_the_ledger_says_that_one_costs() {
        let world = crate::World::with_format(crate::node::address::AddressFormat::cut(16, 64));
        let before = world.ledger().of(Purpose::RegionTable);
        let kept: Vec<_> = (0..3).map(|_| world.register(vec![0u8; 8]).unwrap()).collect();
        let ledger = world.ledger();
        assert_eq!(ledger.of(Purpose::RegionTable) - before, 3 * ledger.bytes_per_region);
        drop(kept);
        world.finalize().unwrap();
    }

    #[test]
    fn a_budget_is_never_exceeded_and_says_what_is_left() {
        let alone = kumiki_net::agent::bootstrap::attach(None, 0).unwrap().arena;
        let terms = kumiki_net::terms::Terms { budget_bytes: 100, ..alone.config().terms };
        let config = kumiki_net::shm::arena::Config { terms, ..*alone.config() };
        let arena = Arena::create(config).unwrap();
        arena.prepare_rank(0).unwrap();
        let books = Books::new(Arc::new(arena), 0);
        books.book(Purpose::Heap, 60).unwrap();
        let error = books.book(Purpose::Operation, 50).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { asked: 50, left: 40, .. }), "{error}");
        books.unbook(Purpose::Heap, 60);
        books.book(Purpose::Operation, 50).unwrap();
        assert_eq!((books.of(Purpose::Heap), books.of(Purpose::Operation), books.left()), (0, 50, 50));
        assert!(matches!(books.book(Purpose::Heap, u64::MAX), Err(Error::OutOfMemory { .. })));
    }
}
