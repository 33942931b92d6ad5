//! Regions: pieces of memory of a rank that others can address.
//!
//! A region is taken from the arena, or is private memory of the process. Each has one slot in the rank's table, or several in
//! a row if it is larger than a slot spans. Who holds a region, and when it is taken back, is the business of `drive/region.rs`.

use crate::error::NO_SLOTS;
use crate::node::address::{GlobalAddress, Registration};
use crate::node::heap::Heap;
use crate::node::ledger::Purpose;
use crate::node::slots::Slots;
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::os::{futex, memory::PAGE_BYTES, process, time};
use kumiki_net::shm::control::{Activity, NOBODY};
use kumiki_net::shm::hazard;
use kumiki_net::shm::region::{Kind, RegionView, MAX_COLOUR};
use kumiki_net::shm::world::Status;
use kumiki_net::Rank;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Private bytes of the tables for one region, for the ledger.
pub(crate) const RECORD_BYTES: u64 = 96;
/// The machine is asked what it can still give whenever so much has been taken.
const ASK_EVERY_BYTES: u64 = 1 << 20;

/// A region in the owner's books.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    slots: u16,
    generation: u16,
    kind: Kind,
    base: u64,
    /// Bytes taken from the heap; 0 for private memory.
    heap_bytes: u64,
}

/// The regions of this rank, and the free parts of its table and its heap.
#[derive(Debug)]
pub(crate) struct Registry {
    records: BTreeMap<u16, Record>,
    slots: Slots,
    heap: Heap,
    /// Regions that were freed while somebody had them in view: their memory is not free yet.
    held: Vec<(u16, Record)>,
    /// Whether a reset has given the table and the slice to the next life: then this one changes nothing there.
    passed_on: bool,
}

/// A region that nobody finds any more, and whose memory somebody may still touch.
#[derive(Debug)]
#[must_use]
pub(crate) struct Withdrawn {
    slot: u16,
    record: Record,
    /// Whether the table is still this life's.
    ours: bool,
}

/// A region as the registry gives it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Granted {
    pub(crate) address: GlobalAddress,
    pub(crate) registration: Registration,
    pub(crate) generation: u16,
    pub(crate) slot: u16,
    pub(crate) base: u64,
}

impl Registry {
    pub(crate) fn new(heap: [Range<u64>; 2]) -> Registry {
        Registry {
            records: BTreeMap::new(),
            slots: Slots::new(),
            heap: Heap::new(heap),
            held: Vec::new(),
            passed_on: false,
        }
    }
}

impl Node {
    /// A reset gives the table to the next life: what is in it goes, and regions that are dropped later change nothing there.
    pub(crate) fn pass_on(&self) {
        let mut registry = self.registry();
        registry.passed_on = true;
        for (&slot, record) in &registry.records {
            self.retire(slot, record.slots);
        }
    }

    /// Makes the entries of a region free.
    fn retire(&self, slot: u16, slots: u16) {
        for index in 0..slots {
            let entry = self.arena.region(self.local, (slot + index) as usize).expect("the slot exists");
            entry.retire(self.arena.changes());
        }
    }

    /// Publishes a region in free slots.
    fn publish(&self, registry: &mut Registry, view: RegionView, heap_bytes: u64) -> Result<Granted> {
        let span = self.format.slot_span();
        let slots = view.bytes.div_ceil(span).max(1);
        let taken = u16::try_from(slots).ok().and_then(|count| Some((registry.slots.take(count)?, count)));
        let Some((first, slots)) = taken else {
            return Err(Error::OutOfMemory { asked: slots, left: registry.slots.longest(), what: NO_SLOTS });
        };
        let ready = self.commit_slots(&mut registry.slots, first, slots);
        if let Err(error) = ready.and_then(|()| self.books.book(Purpose::RegionTable, RECORD_BYTES)) {
            registry.slots.give(first, slots);
            return Err(error);
        }
        let mut generation = 0;
        for index in 0..slots {
            let slot = (first + index) as usize;
            let entry = self.arena.region(self.local, slot).expect("the slot exists");
            generation = entry.next_generation().max(generation);
        }
        // From the last to the first, so that a region is whole as soon as its first slot can be seen.
        for index in (0..slots).rev() {
            let entry = self.arena.region(self.local, (first + index) as usize).expect("the slot exists");
            let skipped = index as u64 * span;
            let bytes = view.bytes - skipped.min(view.bytes);
            let part = RegionView { base: view.base + skipped, bytes, generation, ..view };
            entry.publish(part, self.arena.changes());
        }
        registry
            .records
            .insert(first, Record { slots, generation, kind: view.kind, base: view.base, heap_bytes });
        let address = self.format.address(self.rank, first, 0);
        let registration = self.format.registration(self.rank, first, generation);
        Ok(Granted { address, registration, generation, slot: first, base: view.base })
    }

    /// Commits and books the pages of the table that these slots are the first to use.
    fn commit_slots(&self, slots: &mut Slots, first: u16, count: u16) -> Result<()> {
        for slot in first..=first + (count - 1) {
            if slots.is_committed(slot) {
                continue;
            }
            self.books.book(Purpose::ArenaControl, PAGE_BYTES)?;
            if let Err(error) = self.arena.commit_slot(self.local, slot as usize) {
                self.books.unbook(Purpose::ArenaControl, PAGE_BYTES);
                return Err(out_of_memory(error, PAGE_BYTES));
            }
            slots.note_committed(slot);
        }
        Ok(())
    }

    /// Takes a zeroed region of `bytes` from the arena.
    pub(crate) fn allocate(&self, bytes: u64, colour: u32) -> Result<Granted> {
        self.check_usable()?;
        let colour = check_colour(colour)?;
        self.free_unpinned(&mut self.registry());
        let too_large = || Error::OutOfMemory { asked: bytes, left: 0, what: "address space of a heap" };
        let rounded = Heap::rounded(bytes).ok_or_else(too_large)?;
        self.books.book(Purpose::Heap, rounded)?;
        let granted = self.allocate_booked(bytes, rounded, colour);
        if granted.is_err() {
            self.books.unbook(Purpose::Heap, rounded);
        }
        granted
    }

    fn allocate_booked(&self, bytes: u64, rounded: u64, colour: u8) -> Result<Granted> {
        self.check_machine(rounded)?;
        let mut registry = self.registry();
        let Some(at) = registry.heap.take(rounded) else {
            let left = registry.heap.largest();
            return Err(Error::OutOfMemory {
                asked: bytes,
                left,
                what: "the largest free range of the heap",
            });
        };
        let view = RegionView { kind: Kind::Arena, base: at, bytes, generation: 0, colour };
        let pages = Heap::pages(at, rounded);
        let zero = self.renew(&mut registry, at, rounded);
        let granted = self
            .arena
            .commit(pages.start, pages.end - pages.start)
            .map_err(|error| out_of_memory(error, pages.end - pages.start))
            .and_then(|()| {
                self.clear(at, rounded, zero);
                self.publish(&mut registry, view, rounded)
            });
        if granted.is_err() {
            self.give_back(&mut registry, at, rounded);
        }
        granted
    }

    /// Gives the whole pages of a range back to the system that were in use before; returns those that are fresh from it now.
    /// They were given back when their region was freed, but a neighbour that was just copying there has filled them again.
    fn renew(&self, registry: &mut Registry, at: u64, bytes: u64) -> Range<u64> {
        let (start, end) = (at.next_multiple_of(PAGE_BYTES), (at + bytes) / PAGE_BYTES * PAGE_BYTES);
        let used_end = registry.heap.note_used(at, (at + bytes).next_multiple_of(PAGE_BYTES));
        let first_fresh = used_end.max(start);
        let was_used = start..end.min(used_end);
        if was_used.is_empty() || self.release_pages(was_used).is_ok() {
            start..end.max(start)
        } else {
            first_fresh..end.max(first_fresh)
        }
    }

    /// Clears what of a new region does not lie on pages that are fresh from the system.
    fn clear(&self, at: u64, bytes: u64, fresh: Range<u64>) {
        let parts = match fresh.is_empty() {
            true => [at..at + bytes, at..at],
            false => [at..fresh.start, fresh.end..at + bytes],
        };
        for part in parts {
            let start = self.arena.pointer(part.start);
            // SAFETY: the range was just taken from the heap of this rank and its pages are committed; no region covers it
            // yet.
            unsafe { std::ptr::write_bytes(start, 0, (part.end - part.start) as usize) };
        }
    }

    fn give_back(&self, registry: &mut Registry, at: u64, bytes: u64) {
        let pages = registry.heap.give(at, bytes);
        if !pages.is_empty() {
            // Memory that the system does not take back stays committed; the heap will use it again.
            let _ = self.release_pages(pages);
        }
    }

    fn release_pages(&self, pages: Range<u64>) -> kumiki_net::Result<()> {
        self.arena.release(pages.start, pages.end - pages.start)
    }

    /// Registers memory of this process. Whoever calls vouches that it stays valid until it is unregistered.
    pub(crate) fn register(&self, pointer: *mut u8, bytes: u64, kind: Kind, colour: u32) -> Result<Granted> {
        self.check_usable()?;
        let colour = check_colour(colour)?;
        let base = pointer as usize as u64;
        if base.checked_add(bytes).is_none_or(|end| end >= 1 << 48) {
            return Err(Error::misuse(format!(
                "memory at {base:#x} with {bytes} bytes cannot be registered"
            )));
        }
        let view = RegionView { kind, base, bytes, generation: 0, colour };
        self.publish(&mut self.registry(), view, 0)
    }

    /// Begins to take a region back: nobody finds it any more. Whoever has found it before may still be at it, until it is
    /// [released](Self::release).
    pub(crate) fn withdraw(&self, slot: u16, generation: u16) -> Result<Withdrawn> {
        let mut registry = self.registry();
        let record = registry.records.get(&slot).copied();
        let Some(record) = record.filter(|record| generation == 0 || record.generation == generation) else {
            return Err(Error::misuse(format!(
                "slot {slot} holds no such region; was it unregistered before?"
            )));
        };
        registry.records.remove(&slot);
        registry.slots.give(slot, record.slots);
        // After a reset the slot is somebody else's. After any other end of the world neighbours may go on: they must find
        // the region gone, whatever the reason, before its memory is the program's again.
        let ours = !registry.passed_on;
        if ours {
            self.retire(slot, record.slots);
        }
        Ok(Withdrawn { slot, record, ours })
    }

    /// Gives the memory of a region back, when nobody serves frames that have found it. When this returns nobody touches
    /// private memory any more; a neighbour that is just copying into memory of the arena finishes, and the memory stays for those
    /// who have it in view.
    pub(crate) fn release(&self, Withdrawn { slot, record, ours }: Withdrawn) {
        if record.kind != Kind::Arena {
            let registry = self.registry();
            // What a reset has passed on meanwhile is in the books of the next life no more.
            if ours && !registry.passed_on {
                self.books.unbook(Purpose::RegionTable, RECORD_BYTES);
            }
            drop(registry);
            return (0..record.slots)
                .for_each(|index| self.wait_for_hazards(slot + index, record.generation));
        }
        if ours {
            let mut registry = self.registry();
            registry.held.push((slot, record));
            self.free_unpinned(&mut registry);
        }
    }

    /// Gives the memory of retired regions back that nobody has in view any more.
    fn free_unpinned(&self, registry: &mut Registry) {
        if registry.held.is_empty() || registry.passed_on {
            return;
        }
        for (slot, record) in std::mem::take(&mut registry.held) {
            if self.is_in_view(slot, &record) {
                registry.held.push((slot, record));
                continue;
            }
            self.give_back(registry, record.base, record.heap_bytes);
            self.books.unbook(Purpose::Heap, record.heap_bytes);
            self.books.unbook(Purpose::RegionTable, RECORD_BYTES);
        }
    }

    /// Whether a living rank has a retired region in view. Nobody can take it in view any more.
    fn is_in_view(&self, slot: u16, record: &Record) -> bool {
        let names =
            || (0..record.slots).map(|index| hazard::name(self.local, slot + index, record.generation));
        let pins = &self.control().pins;
        (0..self.arena.config().local_ranks).any(|local| {
            let by = self.arena.control(local).filter(|_| pins.may_be_pinned_by(local));
            by.is_some_and(|by| names().any(|name| by.pins.holds(name))) && !self.is_gone(local)
        })
    }

    /// Waits until no live rank of the node copies into or out of a retired region.
    fn wait_for_hazards(&self, slot: u16, generation: u16) {
        let name = hazard::name(self.local, slot, generation);
        let since_ms = time::now_ms();
        let mut announced = false;
        for rank in (0..self.ranks()).map(Rank) {
            let Some(place) = self.arena.place(rank).map(|word| word.load()) else { continue };
            let Some(control) = self.arena.control(place.local).filter(|_| place.node == self.node) else {
                continue;
            };
            let alive = || self.arena.place(rank).is_some_and(|word| word.load().status == Status::Alive);
            while control.hazards.announces(name) && alive() {
                if !announced {
                    announced = true;
                    self.control().begin_wait(Activity::Unregister, rank.0, since_ms);
                }
                // A copy of a gigabyte takes a while; a word of our own serves as a timer.
                process::yield_now();
                futex::wait(&AtomicU32::new(0), 0, 1);
            }
        }
        if announced {
            self.control().begin_wait(Activity::Computing, NOBODY, since_ms);
        }
    }

    /// Refuses what the control group or the machine cannot hold, before the kernel kills somebody for it. Asking costs as much
    /// as some hundred pages: small amounts are only asked about when they have added up.
    pub(crate) fn check_machine(&self, bytes: u64) -> Result<()> {
        let taken = self.taken_unasked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if taken < ASK_EVERY_BYTES {
            return Ok(());
        }
        match kumiki_net::os::machine::memory_left() {
            Some(left) if left < bytes => {
                self.taken_unasked.fetch_sub(bytes, Ordering::Relaxed);
                let what = "the memory limit of the control group or machine";
                Err(Error::OutOfMemory { asked: bytes, left, what })
            }
            _ => {
                self.taken_unasked.store(0, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// The private bytes of the tables, for the ledger.
    pub(crate) fn region_count(&self) -> usize {
        let registry = self.registry();
        registry.records.len() + registry.held.len() + registry.slots.runs() + registry.heap.ranges()
    }
}

fn check_colour(colour: u32) -> Result<u8> {
    if colour > MAX_COLOUR as u32 {
        return Err(Error::misuse(format!("colour {colour} is larger than {MAX_COLOUR}")));
    }
    Ok(colour as u8)
}

/// A failure to commit `asked` bytes of memory is the machine being full.
pub(crate) fn out_of_memory(error: kumiki_net::Error, asked: u64) -> Error {
    match error {
        kumiki_net::Error::System { errno: 12 | 28, .. } => {
            Error::OutOfMemory { asked, left: 0, what: "the memory of the machine" }
        }
        other => other.into(),
    }
}
