//! The directory of a table, as a process knows it.
//!
//! It never changes while the table lives, so it is read once. For handles that come from elsewhere, as plain data, a
//! world keeps the directories it has read. One that has been destroyed since is noticed by the owner of a part: the
//! number of the table does not fit any more.

use super::layout::*;
use super::part;
use super::RawTable;
use crate::{Error, GlobalAddress, GlobalPtr, Result, World};
use kumiki_mem::{Booking, Purpose};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Directories that a world keeps; when there are more, it begins anew.
const KEPT: usize = 256;

/// Where the parts of a table are.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(super) kind: Kind,
    /// The number of the table.
    pub(super) nonce: u64,
    /// Slots of each entry.
    slots: u64,
    pub(super) entries: Box<[Entry]>,
    _booked: Option<Booking>,
}

const _: () = assert!(size_of::<Entry>() == 16 && size_of::<Directory>() <= 80);

/// One entry of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The first slot.
    pub(super) address: GlobalAddress,
    /// The rank in whose memory that is.
    pub(super) rank: u32,
    /// Whether it is on this node.
    pub(super) near: bool,
}

impl Directory {
    pub(super) fn new(
        world: &World,
        kind: Kind,
        nonce: u64,
        slots: u64,
        addresses: &[u64],
        booked: Option<Booking>,
    ) -> Directory {
        let local = world.local();
        let entry = |&bits: &u64| {
            let address = GlobalAddress::from_bits(bits);
            let rank = local.rank_of(address);
            Entry { address, rank, near: local.is_near(rank) }
        };
        let entries = addresses.iter().map(entry).collect();
        Directory { kind, nonce, slots, entries, _booked: booked }
    }

    /// Books the memory of a directory with so many entries.
    pub(super) fn book(world: &World, entries: u64) -> Result<Option<Booking>> {
        let bytes = size_of::<Directory>() as u64 + size_of::<Entry>() as u64 * entries;
        world.book(Purpose::Directory, bytes).map(Some)
    }

    /// Reads it from memory.
    pub(super) fn read(world: &World, kind: Kind, raw: RawTable) -> Result<Directory> {
        let limit = world.ranks() as u64 * 1024;
        if raw.address.is_null() || raw.ranks == 0 || raw.slots == 0 || raw.ranks > limit {
            return Err(part::destroyed(kind));
        }
        let booked = Directory::book(world, raw.ranks)?;
        let mut words = vec![0u64; (HEADER_BYTES / 8 + raw.ranks) as usize];
        let start = GlobalAddress::from_bits(raw.address.bits().wrapping_sub(HEADER_BYTES));
        match world.get_slice(GlobalPtr::from_address(start), &mut words) {
            Ok(()) => {}
            Err(Error::Bounds { .. }) => return Err(part::destroyed(kind)),
            Err(error) => return Err(error),
        }
        let (header, addresses) = words.split_at((HEADER_BYTES / 8) as usize);
        if header[0] != kind.directory_mark() || header[2] != raw.ranks || header[3] != raw.slots {
            return Err(part::destroyed(kind));
        }
        Ok(Directory::new(world, kind, header[1], raw.slots, addresses, booked))
    }

    /// A part, as its owner is asked for it.
    #[inline]
    pub(super) fn part(&self, index: usize) -> Part {
        Part { kind: self.kind, nonce: self.nonce, address: self.entries[index].address }
    }
}

/// The directories that a world has read.
#[derive(Debug, Default)]
pub(crate) struct Directories(Mutex<HashMap<GlobalAddress, Arc<Directory>>>);

impl Directories {
    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<GlobalAddress, Arc<Directory>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// One that was read before, if it is of this kind and size.
    pub(super) fn find(&self, kind: Kind, raw: RawTable) -> Option<Arc<Directory>> {
        let kept = self.kept();
        let directory = kept.get(&raw.address)?;
        let shape = (directory.entries.len() as u64, directory.slots);
        let fits = directory.kind == kind && shape == (raw.ranks, raw.slots);
        fits.then(|| directory.clone())
    }

    pub(super) fn keep(&self, raw: RawTable, directory: Directory) -> Arc<Directory> {
        let mut kept = self.kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        let directory = Arc::new(directory);
        kept.insert(raw.address, directory.clone());
        directory
    }

    pub(super) fn forget(&self, address: GlobalAddress) {
        self.kept().remove(&address);
    }
}
