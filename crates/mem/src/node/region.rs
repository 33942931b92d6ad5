//! Regions: pieces of memory of a rank that others can address.
//!
//! A region is taken from the arena ([`World::alloc`]), is memory that the program hands over ([`World::register`]) or
//! lends for a while ([`World::lend`]), or, for other languages, raw memory that the caller vouches for
//! ([`World::register_raw`]). Each has one slot in the rank's table, or several in a row if it is larger than a
//! slot spans.

use crate::drive::core::Core;
use crate::drive::world::World;
use crate::error::NO_SLOTS;
use crate::node::address::{GlobalAddress, GlobalPtr, Registration, STARTER_GENERATION, STARTER_SLOT};
use crate::node::heap::{Heap, GRAIN_BYTES};
use crate::node::ledger::Purpose;
use crate::node::slots::Slots;
use crate::{Error, Result};
use bytemuck::Pod;
use kumiki_net::os::rights::{self, Rights};
use kumiki_net::os::{futex, memory::PAGE_BYTES, process, time};
use kumiki_net::shm::control::{Activity, NOBODY};
use kumiki_net::shm::hazard;
use kumiki_net::shm::region::{Kind, RegionView, MAX_COLOUR};
use kumiki_net::shm::world::Status;
use kumiki_net::Rank;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

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

impl Core {
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
            self.arena.region(self.local, (slot + index) as usize).expect("the slot exists").retire();
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
            entry.publish(RegionView {
                base: view.base + skipped,
                bytes: view.bytes - skipped.min(view.bytes),
                generation,
                ..view
            });
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

    /// Takes a region back. When this returns nobody touches private memory any more, and nobody on another node memory of
    /// the arena; a neighbour that is just copying there finishes, and the memory stays for those who have it in view.
    pub(crate) fn unregister(&self, slot: u16, generation: u16) -> Result<()> {
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
        drop(registry);
        // Whoever serves a frame holds the engine: after this, only neighbours can still be copying.
        drop(self.engine());
        if ours && record.kind == Kind::Arena {
            let mut registry = self.registry();
            registry.held.push((slot, record));
            self.free_unpinned(&mut registry);
        }
        if record.kind == Kind::Arena {
            return Ok(());
        }
        if ours {
            self.books.unbook(Purpose::RegionTable, RECORD_BYTES);
        }
        (0..record.slots).for_each(|index| self.wait_for_hazards(slot + index, record.generation));
        Ok(())
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

/// An arena region of `T` that this rank owns; freed when dropped. (Memory that somebody has in [view](crate::View) stays until
/// nobody has.)
///
/// Other ranks read and write it through [`ptr`](Self::ptr). So does the owner, or by [`read`](Self::read) and
/// [`write`](Self::write), which copy: memory that others can write is never lent as a reference.
pub struct Region<T: Pod> {
    core: Arc<Core>,
    granted: Granted,
    length: usize,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> Region<T> {
    /// A pointer to the first element, for any rank.
    pub fn ptr(&self) -> GlobalPtr<T> {
        GlobalPtr::new(self.granted.address, self.granted.registration)
    }

    /// The address of the first byte.
    pub fn address(&self) -> GlobalAddress {
        self.granted.address
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies elements out, from `first`.
    pub fn read(&self, first: usize, into: &mut [T]) -> Result<()> {
        let pointer = self.elements(first, into.len())?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        // SAFETY: `elements` checked the range; `into` is ours.
        unsafe { crate::node::copy::move_bytes(bytes.as_mut_ptr(), pointer, bytes.len()) };
        Ok(())
    }

    /// Copies elements in, from `first`.
    pub fn write(&self, first: usize, from: &[T]) -> Result<()> {
        let pointer = self.elements(first, from.len())?;
        let bytes: &[u8] = bytemuck::cast_slice(from);
        // SAFETY: `elements` checked the range; `from` is only read.
        unsafe { crate::node::copy::move_bytes(pointer, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// The memory itself, for programs that keep their own discipline (a phase between two barriers, say).
    pub fn as_mut_ptr(&self) -> *mut T {
        self.core.arena.pointer(self.granted.base).cast()
    }

    fn elements(&self, first: usize, count: usize) -> Result<*mut u8> {
        self.core.check_usable()?;
        if first.checked_add(count).is_none_or(|end| end > self.length) {
            return Err(Error::Bounds {
                what: "elements past the end of the region",
                address: self.granted.address.bits(),
                rank: self.core.rank.0,
                bytes: (count * std::mem::size_of::<T>()) as u64,
            });
        }
        // SAFETY: the element lies inside the region, which lies inside the arena.
        Ok(unsafe { self.as_mut_ptr().add(first).cast() })
    }
}

impl<T: Pod> Drop for Region<T> {
    fn drop(&mut self) {
        if self.core.check_usable().is_ok() {
            let _ = self.core.unregister(self.granted.slot, self.granted.generation);
        }
    }
}

impl<T: Pod> std::fmt::Debug for Region<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Region<{}>({:#x}, {} elements)",
            std::any::type_name::<T>(),
            self.granted.address,
            self.length
        )
    }
}

/// Private memory that the program has handed over and others can address; comes back with [`take`](Self::take).
///
/// The guard owns the memory, so that nothing safe Rust can do, not even forgetting the guard, frees it while
/// others may still write to it.
pub struct Registered<T: Pod> {
    world: Arc<Core>,
    pub(crate) granted: Granted,
    /// Behind a raw pointer: others write to it.
    pub(super) memory: *mut [T],
}

// SAFETY: the memory is plain data that this value owns; it is reached through copies only.
unsafe impl<T: Pod> Send for Registered<T> {}
// SAFETY: as above; `&Registered` only gives out addresses, copies and atomics.
unsafe impl<T: Pod> Sync for Registered<T> {}

impl<T: Pod> Registered<T> {
    /// A pointer to the first element, for any rank.
    pub fn ptr(&self) -> GlobalPtr<T> {
        GlobalPtr::new(self.granted.address, self.granted.registration)
    }

    /// The address of the first byte.
    pub fn address(&self) -> GlobalAddress {
        self.granted.address
    }

    /// This rank.
    pub(super) fn owner(&self) -> u32 {
        self.world.rank.0
    }

    /// Unregisters the memory and gives it back.
    pub fn take(self) -> Result<Box<[T]>> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the `Arc` is moved out exactly once.
        let core = unsafe { std::ptr::read(&this.world) };
        if process::is_forked_child() {
            core.check_usable()?;
        }
        core.quiesce();
        core.unregister(this.granted.slot, this.granted.generation)?;
        // SAFETY: the pointer came from `Box::into_raw`, and after `unregister` nobody else touches it.
        Ok(unsafe { Box::from_raw(this.memory) })
    }
}

impl<T: Pod> Drop for Registered<T> {
    fn drop(&mut self) {
        if process::is_forked_child() {
            return;
        }
        self.world.quiesce();
        if self.world.unregister(self.granted.slot, self.granted.generation).is_ok() {
            // SAFETY: the pointer came from `Box::into_raw`, and after `unregister` nobody else touches it. Where
            // unregistering failed the memory is leaked rather than freed under somebody.
            drop(unsafe { Box::from_raw(self.memory) });
        }
    }
}

/// Private memory that is lent to all ranks while a closure runs: see [`World::lend`].
#[derive(Debug)]
pub struct Lent<'a, T: Pod> {
    granted: Granted,
    length: usize,
    memory: PhantomData<&'a mut [T]>,
}

impl<T: Pod> Lent<'_, T> {
    /// A pointer to the first element, for any rank.
    pub fn ptr(&self) -> GlobalPtr<T> {
        GlobalPtr::new(self.granted.address, self.granted.registration)
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// A registration of raw memory: what C programs hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegionKey {
    /// The address of the first byte.
    pub address: GlobalAddress,
    slot: u16,
    generation: u16,
}

impl World {
    /// Takes a region of `count` zeroed elements from this rank's part of the arena.
    ///
    /// ```
    /// # fn main() -> kumiki_mem::Result<()> {
    /// let world = kumiki_mem::World::init()?;
    /// let table = world.alloc::<u64>(100)?;
    /// world.put(table.ptr().add(3), 42)?;
    /// assert_eq!(world.get(table.ptr().add(3))?, 42);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn alloc<T: Pod>(&self, count: usize) -> Result<Region<T>> {
        self.alloc_coloured(count, 0)
    }

    /// As [`alloc`](Self::alloc), with a colour: a hint which of several networks serves the region.
    pub fn alloc_coloured<T: Pod>(&self, count: usize, colour: u32) -> Result<Region<T>> {
        let bytes = self.note(byte_count::<T>(count))?;
        if std::mem::align_of::<T>() as u64 > GRAIN_BYTES {
            return Err(Error::misuse(format!(
                "{} needs more than {GRAIN_BYTES} bytes of alignment",
                std::any::type_name::<T>()
            )));
        }
        let granted = self.core().note(self.core().allocate(bytes, colour))?;
        Ok(Region { core: self.core().clone(), granted, length: count, element: PhantomData })
    }

    /// Makes memory that the program has addressable by all ranks. The guard owns it meanwhile.
    ///
    /// ```
    /// # fn main() -> kumiki_mem::Result<()> {
    /// let world = kumiki_mem::World::init()?;
    /// let field = world.register(vec![0.5f64; 1000])?;
    /// assert_eq!(world.get(field.ptr().add(999))?, 0.5);
    /// let field: Box<[f64]> = field.take()?;
    /// # drop(field);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn register<T: Pod>(&self, memory: impl Into<Box<[T]>>) -> Result<Registered<T>> {
        let memory: *mut [T] = Box::into_raw(memory.into());
        let bytes = memory.len() as u64 * std::mem::size_of::<T>() as u64;
        let granted =
            self.serve_private().and_then(|()| self.core().register(memory.cast(), bytes, Kind::Private, 0));
        match granted {
            Ok(granted) => Ok(Registered { world: self.core().clone(), granted, memory }),
            Err(error) => {
                // SAFETY: the pointer came from `Box::into_raw` and was not registered.
                drop(unsafe { Box::from_raw(memory) });
                self.note(Err(error))
            }
        }
    }

    /// Lends memory to all ranks while `work` runs; when it returns, or panics, the memory is the caller's again and
    /// nobody else touches it.
    ///
    /// ```
    /// # fn main() -> kumiki_mem::Result<()> {
    /// let world = kumiki_mem::World::init()?;
    /// let mut field = [1u32, 2, 3];
    /// world.lend(&mut field, |lent| world.put(lent.ptr().add(1), 20))??;
    /// assert_eq!(field, [1, 20, 3]);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn lend<T: Pod, R>(&self, memory: &mut [T], work: impl FnOnce(&Lent<'_, T>) -> R) -> Result<R> {
        struct Return<'a>(&'a Core, Granted);
        impl Drop for Return<'_> {
            fn drop(&mut self) {
                if process::is_forked_child() {
                    return;
                }
                self.0.quiesce();
                if self.0.unregister(self.1.slot, self.1.generation).is_err() {
                    // The borrow ends here; if others could still write to the memory, going on would be unsound.
                    std::process::abort();
                }
            }
        }
        self.note(self.serve_private())?;
        let bytes = std::mem::size_of_val(memory) as u64;
        let granted = self.note(self.core().register(memory.as_mut_ptr().cast(), bytes, Kind::Private, 0))?;
        let _back = Return(self.core(), granted);
        Ok(work(&Lent { granted, length: memory.len(), memory: PhantomData }))
    }

    /// Registers raw memory, for other languages. Memory that this process may only read is read-only for all: whoever writes to
    /// it gets [`Bounds`](Error::Bounds). What it may do is looked up now.
    ///
    /// # Safety
    /// `pointer` must be valid for reads of `bytes`, and for writes if it is now, until [`unregister_raw`](Self::unregister_raw)
    /// has returned, and while it is registered the program may only touch it as if other threads did too.
    pub unsafe fn register_raw(&self, pointer: *mut u8, bytes: usize, colour: u32) -> Result<RegionKey> {
        self.note(self.serve_private())?;
        let kind = match rights::of_range(pointer as usize as u64, bytes as u64) {
            Rights::Write => Kind::Private,
            Rights::Read => Kind::ReadOnly,
            Rights::Nothing => {
                return self.note(Err(Error::misuse(format!(
                    "memory at {pointer:p} with {bytes} bytes cannot be registered: some of it is not mapped, or not readable"
                ))))
            }
        };
        let granted = self.note(self.core().register(pointer, bytes as u64, kind, colour))?;
        Ok(RegionKey { address: granted.address, slot: granted.slot, generation: granted.generation })
    }

    /// Takes raw memory back; later accesses of others get [`Bounds`](Error::Bounds).
    pub fn unregister_raw(&self, key: RegionKey) -> Result<()> {
        // Also when the job is ending: the program wants its memory back, and neighbours may still write to it.
        self.core().check_not_forked()?;
        self.core().quiesce();
        self.note(self.core().unregister(key.slot, key.generation))
    }

    /// How many colours there are; every colour is accepted, and today all are served alike.
    pub fn colours(&self) -> u32 {
        1
    }

    /// Starter memory of a rank, as elements of `T`: every rank has it from the start, zeroed, and every other rank can
    /// address it without any exchange.
    pub fn starter<T: Pod>(&self, rank: u32) -> Result<GlobalPtr<T>> {
        let address = self.starter_address(rank)?;
        Ok(GlobalPtr::new(
            address,
            self.core().format.registration(Rank(rank), STARTER_SLOT, STARTER_GENERATION),
        ))
    }

    /// The address of the starter memory of a rank.
    pub fn starter_address(&self, rank: u32) -> Result<GlobalAddress> {
        if rank >= self.ranks() {
            return self.note(Err(Error::misuse(format!("rank {rank}: there are {} ranks", self.ranks()))));
        }
        Ok(self.core().format.address(Rank(rank), STARTER_SLOT, 0))
    }

    /// Bytes of starter memory of each rank.
    pub fn starter_bytes(&self) -> u64 {
        self.core().arena.config().starter_bytes
    }

    /// The pointer to an address of this rank's own memory; `None` for other ranks' and for addresses that do not lie
    /// in a region.
    pub fn local_pointer(&self, address: GlobalAddress) -> Option<*mut u8> {
        let core = self.core();
        if core.format.rank(address) != core.rank {
            return None;
        }
        match core.reach(address, Registration::ANY, 0) {
            Ok(crate::node::access::Reach::Direct(pointer)) => Some(pointer),
            Ok(crate::node::access::Reach::Private(private)) => Some(private.pointer()),
            _ => None,
        }
    }

    /// The rank that owns an address; `None` for null and for ranks that do not exist.
    pub fn rank_of(&self, address: GlobalAddress) -> Option<u32> {
        let rank = self.core().format.rank(address);
        (!address.is_null() && rank.0 < self.ranks()).then_some(rank.0)
    }

    /// The colour of the region at an address of this node.
    pub fn colour_of(&self, address: GlobalAddress) -> Option<u32> {
        let core = self.core();
        if process::is_forked_child() {
            return None;
        }
        let place = core.arena.place(core.format.rank(address))?.load();
        if place.node != core.node {
            return None;
        }
        let view = core.arena.region(place.local, core.format.slot(address) as usize)?.view()?;
        Some(view.colour as u32)
    }
}

fn byte_count<T>(count: usize) -> Result<u64> {
    (count as u64).checked_mul(std::mem::size_of::<T>() as u64).filter(|&bytes| bytes < 1 << 48).ok_or_else(
        || Error::misuse(format!("{count} elements of {} are too many", std::any::type_name::<T>())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::order::Order;
    use crate::node::address::AddressFormat;
    use crate::node::slots::MOST_SLOTS;

    const SPAN: usize = 1 << 16;

    /// A world in which a slot spans 64 KiB.
    fn narrow_world() -> World {
        World::with_format(AddressFormat::cut(16, 64))
    }

    fn is_bounds<T: std::fmt::Debug>(result: Result<T>) {
        assert!(matches!(result, Err(Error::Bounds { .. })), "{result:?}");
    }

    fn check_whole(world: &World, start: GlobalPtr<u8>, bytes: usize) {
        let data: Vec<u8> = (0..bytes).map(|index| (index * 7 + index / 251) as u8).collect();
        world.put_slice(start, &data).unwrap();
        let mut found = vec![0; bytes];
        world.get_slice(start, &mut found).unwrap();
        assert!(found == data, "what was written across slots is read");
        for boundary in (SPAN..bytes.saturating_sub(4)).step_by(SPAN) {
            let word = start.add(boundary - 3).cast::<u64>();
            let wanted = u64::from_le_bytes(data[boundary - 3..boundary + 5].try_into().unwrap());
            assert_eq!(world.get(word).unwrap(), wanted, "a word across the boundary at {boundary}");
        }
        let handle =
            world.copy(start.address().add(5), start.address(), bytes as u64 - 5, Order::None).unwrap();
        world.complete(handle).unwrap();
        assert_eq!(world.get(start.add(bytes - 1)).unwrap(), data[bytes - 6]);
        is_bounds(world.get(start.add(bytes)));
        is_bounds(world.get_slice(start.add(1), &mut found));
        is_bounds(world.put(start.add(bytes - 7).cast::<u64>(), 1));
    }

    #[test]
    fn a_region_larger_than_a_slot_spans_is_one_range_of_addresses() {
        let world = narrow_world();
        for bytes in [SPAN - 1, SPAN, SPAN + 1, 5 * SPAN + 100, 6 * SPAN] {
            let region = world.alloc::<u8>(bytes).unwrap();
            let start = region.ptr();
            check_whole(&world, start, bytes);
            drop(region);
            (0..bytes).step_by(SPAN / 2).for_each(|at| is_bounds(world.get(start.add(at))));
            let private = world.register(vec![0u8; bytes]).unwrap();
            check_whole(&world, private.ptr(), bytes);
            let start = private.ptr();
            assert_eq!(private.take().unwrap().len(), bytes);
            (0..bytes).step_by(SPAN / 2).for_each(|at| is_bounds(world.get(start.add(at))));
        }
        world.finalize().unwrap();
    }

    #[test]
    fn a_program_that_never_unregisters_met_the_limit_after_4093_registrations() {
        let world = World::init().unwrap();
        let control = || world.ledger().of(Purpose::ArenaControl);
        let before = control();
        let kept: Vec<_> = (0..60_000u32).map(|number| world.register(vec![number]).unwrap()).collect();
        // 256 entries fit in a page of the table, and the first page was there.
        assert_eq!(control() - before, (60_000 / 256) * PAGE_BYTES);
        for number in [0, 251, 252, 4093, 59_999] {
            assert_eq!(world.get(kept[number as usize].ptr()).unwrap(), number);
        }
        drop(kept);
        world.finalize().unwrap();
    }

    #[test]
    fn slots_in_a_row_are_found_among_used_ones_and_a_full_table_says_so() {
        let world = narrow_world();
        let mut kept = Vec::new();
        // Every second slot stays in use, so no two free ones are in a row.
        let mut single: Vec<_> = (0..MOST_SLOTS).map(|_| world.alloc::<u8>(1).unwrap()).collect();
        let full = world.alloc::<u8>(1).unwrap_err();
        assert!(matches!(full, Error::OutOfMemory { asked: 1, left: 0, .. }), "{full}");
        assert!(full.to_string().starts_with("out of registrations: 1 asked, 0 left"), "{full}");
        assert!(!full.to_string().contains("bytes"), "{full}");
        while let Some(one) = single.pop() {
            kept.push(one);
            single.pop();
        }
        assert!(matches!(world.alloc::<u8>(SPAN + 1), Err(Error::OutOfMemory { asked: 2, .. })));
        world.alloc::<u8>(SPAN).unwrap();
        kept.truncate(kept.len() - 2);
        kept.remove(10);
        let region = world.alloc::<u8>(3 * SPAN).unwrap();
        check_whole(&world, region.ptr(), 3 * SPAN);
        for other in &kept {
            world.put(other.ptr(), 9).unwrap();
            assert_eq!(world.get(other.ptr()).unwrap(), 9);
        }
        drop((region, kept));
        world.finalize().unwrap();
    }
}
