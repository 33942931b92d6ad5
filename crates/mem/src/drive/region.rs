//! Regions in the hands of a program: memory that it has given to all ranks, and takes back.
//!
//! A region is taken from the arena ([`World::alloc`]), is memory that the program hands over ([`World::register`]) or
//! lends for a while ([`World::lend`]), or, for other languages, raw memory that the caller vouches for
//! ([`World::register_raw`]).

use crate::drive::world::World;
use crate::drive::Drive;
use crate::node::access::Reach;
use crate::node::address::{GlobalAddress, GlobalPtr, Registration, STARTER_GENERATION, STARTER_SLOT};
use crate::node::copy;
use crate::node::heap::GRAIN_BYTES;
use crate::node::region::Granted;
use crate::node::view::View;
use crate::{Error, Result};
use bytemuck::Pod;
use kumiki_net::os::process;
use kumiki_net::os::rights::{self, Rights};
use kumiki_net::shm::region::Kind;
use kumiki_net::Rank;
use std::marker::PhantomData;
use std::sync::Arc;

impl Drive {
    /// Takes a region back. When this returns nobody touches private memory any more, and nobody on another node memory of
    /// the arena; a neighbour that is just copying there finishes, and the memory stays for those who have it in view.
    pub(crate) fn unregister(&self, slot: u16, generation: u16) -> Result<()> {
        let withdrawn = self.withdraw(slot, generation)?;
        // Whoever serves a frame holds the engine: after this, only neighbours can still be copying.
        drop(self.machine());
        self.release(withdrawn);
        Ok(())
    }
}

/// An arena region of `T` that this rank owns; freed when dropped. (Memory that somebody has in [view](crate::View) stays until
/// nobody has.)
///
/// Other ranks read and write it through [`ptr`](Self::ptr). So does the owner, or by [`read`](Self::read) and
/// [`write`](Self::write), which copy: memory that others can write is never lent as a reference.
pub struct Region<T: Pod> {
    core: Arc<Drive>,
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
        unsafe { copy::move_bytes(bytes.as_mut_ptr(), pointer, bytes.len()) };
        Ok(())
    }

    /// Copies elements in, from `first`.
    pub fn write(&self, first: usize, from: &[T]) -> Result<()> {
        let pointer = self.elements(first, from.len())?;
        let bytes: &[u8] = bytemuck::cast_slice(from);
        // SAFETY: `elements` checked the range; `from` is only read.
        unsafe { copy::move_bytes(pointer, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// The memory itself, for programs that keep their own discipline (a phase between two barriers, say).
    pub fn as_mut_ptr(&self) -> *mut T {
        self.core.arena.pointer(self.granted.base).cast()
    }

    fn elements(&self, first: usize, count: usize) -> Result<*mut u8> {
        self.core.check_usable()?;
        if first.checked_add(count).is_none_or(|end| end > self.length) {
            return self.core.note(Err(Error::Bounds {
                what: "elements past the end of the region",
                address: self.granted.address.bits(),
                rank: self.core.rank.0,
                bytes: (count * std::mem::size_of::<T>()) as u64,
            }));
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
    world: Arc<Drive>,
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

    /// The world it is registered in.
    pub(super) fn world(&self) -> &Drive {
        &self.world
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
        self.note(self.allocated(count, colour))
    }

    /// As [`alloc`](Self::alloc), for whoever can go on without: an error does not count as one that this world has returned.
    pub fn try_alloc<T: Pod>(&self, count: usize) -> Result<Region<T>> {
        self.allocated(count, 0)
    }

    fn allocated<T: Pod>(&self, count: usize, colour: u32) -> Result<Region<T>> {
        let bytes = byte_count::<T>(count)?;
        if std::mem::align_of::<T>() as u64 > GRAIN_BYTES {
            return Err(Error::misuse(format!(
                "{} needs more than {GRAIN_BYTES} bytes of alignment",
                std::any::type_name::<T>()
            )));
        }
        let granted = self.core().allocate(bytes, colour)?;
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
        self.try_to_register(memory.into()).or_else(|(error, _)| self.note(Err(error)))
    }

    /// The same for whoever goes on after an error: it does not count as one that this world has returned, and the memory comes back.
    pub fn try_to_register<T: Pod>(
        &self,
        memory: Box<[T]>,
    ) -> std::result::Result<Registered<T>, (Error, Box<[T]>)> {
        let memory: *mut [T] = Box::into_raw(memory);
        let bytes = memory.len() as u64 * std::mem::size_of::<T>() as u64;
        let granted =
            self.serve_private().and_then(|()| self.core().register(memory.cast(), bytes, Kind::Private, 0));
        match granted {
            Ok(granted) => Ok(Registered { world: self.core().clone(), granted, memory }),
            // SAFETY: the pointer came from `Box::into_raw` and was not registered.
            Err(error) => Err((error, unsafe { Box::from_raw(memory) })),
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
        self.lend_as(Kind::Private, memory.as_mut_ptr(), memory.len(), work)
    }

    /// Lends memory to all ranks that may only read it: whoever writes to it gets [`Bounds`](Error::Bounds).
    ///
    /// ```
    /// # fn main() -> kumiki_mem::Result<()> {
    /// let world = kumiki_mem::World::init()?;
    /// let field = [1u32, 2, 3];
    /// world.lend_to_read(&field, |lent| {
    ///     assert_eq!(world.get(lent.ptr().add(1)), Ok(2));
    ///     assert!(world.put(lent.ptr(), 7).is_err());
    /// })?;
    /// # world.reset(0)?.finalize()
    /// # }
    /// ```
    pub fn lend_to_read<T: Pod, R>(&self, memory: &[T], work: impl FnOnce(&Lent<'_, T>) -> R) -> Result<R> {
        self.lend_as(Kind::ReadOnly, memory.as_ptr().cast_mut(), memory.len(), work)
    }

    /// The memory must be the caller's to lend in this way until this returns.
    fn lend_as<T: Pod, R>(
        &self,
        kind: Kind,
        start: *mut T,
        length: usize,
        work: impl FnOnce(&Lent<'_, T>) -> R,
    ) -> Result<R> {
        struct Return<'a>(&'a Drive, Granted);
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
        let bytes = (length * size_of::<T>()) as u64;
        let granted = self.note(self.core().register(start.cast(), bytes, kind, 0))?;
        let _back = Return(self.core(), granted);
        Ok(work(&Lent { granted, length, memory: PhantomData }))
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
            Ok(Reach::Direct(pointer)) => Some(pointer),
            Ok(Reach::Private(private)) => Some(private.pointer()),
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

impl World {
    /// A view of `len` elements from `start`, which must lie in one region of the arena of this node, aligned as `T` is. A rank
    /// can have 64 views at a time.
    pub fn view<T: Pod>(&self, start: GlobalPtr<T>, len: usize) -> Result<View<'_, T>> {
        self.core().note(View::new(self.core(), start, len))
    }

    /// A view of all of a region of this rank.
    pub fn view_of<T: Pod>(&self, region: &Region<T>) -> Result<View<'_, T>> {
        if !Arc::ptr_eq(&region.core, self.core()) {
            return self.note(Err(Error::misuse("a view of a region of another world")));
        }
        self.view(region.ptr(), region.len())
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
    use crate::node::ledger::Purpose;
    use crate::node::slots::MOST_SLOTS;
    use kumiki_net::os::memory::PAGE_BYTES;

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
