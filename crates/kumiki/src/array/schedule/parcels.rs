//! Memory of the arena that messages of arrays are packed into, and used again.
//!
//! A parcel is lent with its message, and comes back when the receiver has it. What is not in use is kept up to a bound; all of it is in the ledger, under the heap. Where the
//! budget has no room for one, the message is packed into private memory.

use crate::{GlobalPtr, Purpose, Region, Result, World};
use kumiki_mem::Span;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many bytes are kept at most that are not in use.
const MOST_IDLE: usize = 4 << 20;

/// How many bytes may be on their way to ranks that come later than this one.
const MOST_UNAWAITED: usize = 4 << 20;

/// A new parcel is made, and some are left to their receivers, where so many times their length can be booked: they are for speed, and what else needs
/// memory comes first.
const SHARE: u64 = 8;

/// Parcels have a power of two of bytes: this many, or more.
const SMALLEST: usize = 4 << 10;

/// The parcels of a world.
#[derive(Clone, Default, Debug)]
pub(super) struct Parcels {
    /// Those that are not in use.
    idle: Arc<Mutex<VecDeque<Region<u8>>>>,
    /// Bytes of those that are.
    used: Arc<AtomicUsize>,
}

/// Memory for a message. When it is dropped the next message gets it.
#[derive(Debug)]
pub(super) struct Parcel {
    /// Gone when it is dropped.
    region: Option<Region<u8>>,
    parcels: Parcels,
}

impl Parcels {
    fn idle(&self) -> MutexGuard<'_, VecDeque<Region<u8>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A parcel for so many bytes, unless there is no memory for it.
    pub(super) fn take(&self, world: &World, bytes: usize) -> Option<Parcel> {
        let bytes = bytes.max(SMALLEST).checked_next_power_of_two()?;
        let mut idle = self.idle();
        // The one that was used last is in the cache.
        let found = idle.iter().rposition(|region| region.len() == bytes).and_then(|at| idle.remove(at));
        drop(idle);
        let make = || has_room(world, bytes).then(|| world.memory.try_alloc::<u8>(bytes).ok()).flatten();
        // What is kept of other lengths may be in the way.
        let region = found.or_else(make).or_else(|| self.clear().then(make).flatten())?;
        self.used.fetch_add(bytes, Relaxed);
        Some(Parcel { region: Some(region), parcels: self.clone() })
    }

    /// Whether so few bytes are on their way that nobody need wait until they have come.
    pub(super) fn are_few(&self, world: &World) -> bool {
        let used = self.used.load(Relaxed);
        used <= MOST_UNAWAITED && has_room(world, used)
    }

    /// Gives back what is not in use. Whether there was anything.
    pub(super) fn clear(&self) -> bool {
        let idle = std::mem::take(&mut *self.idle());
        !idle.is_empty()
    }
}

fn has_room(world: &World, bytes: usize) -> bool {
    world.memory.book(Purpose::Comm, SHARE * bytes as u64).is_ok()
}

impl Parcel {
    pub(super) fn ptr(&self) -> GlobalPtr<u8> {
        self.region.as_ref().map_or(GlobalPtr::NULL, Region::ptr)
    }

    /// The first bytes of its memory.
    pub(super) fn span<'w>(&self, world: &'w World, bytes: usize) -> Result<Span<'w>> {
        world.local().span(self.ptr().address(), bytes as u64)
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        let Some(region) = self.region.take() else { return };
        self.parcels.used.fetch_sub(region.len(), Relaxed);
        let mut idle = self.parcels.idle();
        idle.push_back(region);
        let mut bytes: usize = idle.iter().map(Region::len).sum();
        let mut over = Vec::new();
        // Those that nobody has used for longest go first.
        while bytes > MOST_IDLE {
            let Some(region) = idle.pop_front() else { break };
            bytes -= region.len();
            over.push(region);
        }
        drop(idle);
        drop(over);
    }
}
