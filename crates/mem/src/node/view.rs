//! Views: a region of the node, pinned once, and then touched at the speed of the machine.
//!
//! A typed access looks up its region each time, because the region may have been freed since. A [`View`] keeps the memory of its
//! region from being given to another one (`kumiki_net::shm::pin`), so that a comparison with the length is all that is left to
//! do. Who frees a region that somebody has in view does not wait: the region is gone for everybody else at once, and its
//! memory goes back to the heap when the owner allocates or frees and finds that no living rank has it in view.

use crate::node::access::Reach;
use crate::node::address::{GlobalAddress, GlobalPtr, FAR_POOL_SLOT, POOL_SLOT};
use crate::node::atomic::{change, AtomicOp, AtomicWord};
use crate::node::{copy, Node};
use crate::{Error, Result};
use bytemuck::Pod;
use kumiki_net::os::process;
use kumiki_net::shm::hazard;
use kumiki_net::shm::pin::PINS;
use kumiki_net::shm::region::Kind;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements of a region of this node, kept from being given to another region while they are in view.
///
/// Every access is one comparison with the length and one instruction on memory. Others may write there at any time, so it is
/// never lent as a reference: elements of 1, 2, 4 and 8 bytes that are aligned to their size are loaded and stored as a whole,
/// others are copied, and may be torn if somebody writes them meanwhile. [`load`](Self::load) and [`store`](Self::store) order
/// nothing else; use [`load_acquire`](Self::load_acquire) and [`store_release`](Self::store_release) for a word that says
/// that other memory is ready. Atomics order both ways.
///
/// A view is not told when the owner of the memory frees it or is lost: what is written then is seen by nobody. In the simulator
/// nothing comes while a rank looks at a view again and again: call `progress` in between. A view must not be used in a
/// forked child.
///
/// ```
/// # fn main() -> kumiki_mem::Result<()> {
/// let world = kumiki_mem::World::init()?;
/// let table = world.alloc::<u64>(100)?;
/// let view = world.view_of(&table)?;
/// for index in 0..view.len() {
///     view.store(index, index as u64)?;
/// }
/// assert_eq!(view.fetch_add(7, 1)?, 7);
/// assert_eq!(view.load(7)?, 8);
/// assert!(view.load(100).is_err());
/// drop(view);
/// # drop(table);
/// # world.finalize()
/// # }
/// ```
///
/// It borrows the world, so it ends before the world does:
///
/// ```compile_fail,E0505
/// # fn main() -> kumiki_mem::Result<()> {
/// let world = kumiki_mem::World::init()?;
/// let view = world.view(world.starter::<u64>(0)?, 4)?;
/// world.finalize()?;
/// view.load(0)?;
/// # Ok(())
/// # }
/// ```
///
/// and it is of plain data only:
///
/// ```compile_fail,E0277
/// # fn main() -> kumiki_mem::Result<()> {
/// let world = kumiki_mem::World::init()?;
/// let view = world.view(world.starter::<&u64>(0)?, 1)?;
/// # Ok(())
/// # }
/// ```
pub struct View<'w, T: Pod> {
    base: *mut u8,
    length: usize,
    address: GlobalAddress,
    _pin: Pinned<'w>,
    element: PhantomData<fn() -> T>,
}

// SAFETY: a view is memory of the arena, which stays mapped for its lifetime and is only touched by copies and atomics.
unsafe impl<T: Pod> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for View<'_, T> {}

/// A pin word that is taken back when this is dropped.
struct Pinned<'w> {
    node: &'w Node,
    word: usize,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        if !process::is_forked_child() {
            self.node.control().pins.unpin(self.word);
        }
    }
}

impl<'w, T: Pod> View<'w, T> {
    pub(crate) fn new(node: &'w Node, start: GlobalPtr<T>, length: usize) -> Result<View<'w, T>> {
        let bytes = (length as u64).checked_mul(size_of::<T>() as u64);
        let bytes = bytes.ok_or_else(|| Error::misuse(format!("a view of {length} elements is too long")))?;
        let (base, pin) = node.pin_in_view(start, bytes)?;
        if !(base as usize).is_multiple_of(align_of::<T>()) {
            return Err(Error::misuse(format!(
                "a view from {:#x}, which is not aligned for {}",
                start.address,
                std::any::type_name::<T>()
            )));
        }
        Ok(View { base, length, address: start.address, _pin: pin, element: PhantomData })
    }

    /// Elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The place of an element: aligned for a `T`, and valid while the view is there.
    #[inline(always)]
    fn at(&self, index: usize) -> Result<*mut u8> {
        if index < self.length {
            // SAFETY: the element lies inside the view.
            return Ok(unsafe { self.base.add(index * size_of::<T>()) });
        }
        Err(self.outside(index, 1))
    }

    #[cold]
    #[inline(never)]
    fn outside(&self, first: usize, count: usize) -> Error {
        self._pin.node.faulted.store(true, Ordering::Relaxed);
        Error::Bounds {
            what: "elements past the end of a view",
            address: self.address.add(first.wrapping_mul(size_of::<T>()) as u64).bits(),
            rank: u32::MAX,
            bytes: count.wrapping_mul(size_of::<T>()) as u64,
        }
    }

    /// Reads an element. It orders nothing.
    #[inline(always)]
    pub fn load(&self, index: usize) -> Result<T> {
        // SAFETY: `at` checked the place, and the view is aligned.
        self.at(index).map(|place| unsafe { copy::load_aligned(place, Ordering::Relaxed) })
    }

    /// Writes an element. It orders nothing.
    #[inline(always)]
    pub fn store(&self, index: usize, value: T) -> Result<()> {
        // SAFETY: as in `load`.
        self.at(index).map(|place| unsafe { copy::store_aligned(place, value, Ordering::Relaxed) })
    }

    /// Reads an element of 1, 2, 4 or 8 bytes before whatever this thread reads or writes next: what was written before it
    /// was [released](Self::store_release) is seen.
    #[inline(always)]
    pub fn load_acquire(&self, index: usize) -> Result<T> {
        // SAFETY: as in `load`.
        self.at(index).map(|place| unsafe { copy::load_aligned(place, Ordering::Acquire) })
    }

    /// Writes an element of 1, 2, 4 or 8 bytes behind whatever this thread has read or written before.
    #[inline(always)]
    pub fn store_release(&self, index: usize, value: T) -> Result<()> {
        // SAFETY: as in `load`.
        self.at(index).map(|place| unsafe { copy::store_aligned(place, value, Ordering::Release) })
    }

    /// Copies elements out, from `first`.
    pub fn read(&self, first: usize, into: &mut [T]) -> Result<()> {
        let from = self.range(first, into.len())?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        // SAFETY: `range` checked the source; the destination is the caller's.
        unsafe { copy::move_bytes(bytes.as_mut_ptr(), from, bytes.len()) };
        Ok(())
    }

    /// Copies elements in, from `first`.
    pub fn write(&self, first: usize, from: &[T]) -> Result<()> {
        let to = self.range(first, from.len())?;
        let bytes: &[u8] = bytemuck::cast_slice(from);
        // SAFETY: `range` checked the destination; the source is only read.
        unsafe { copy::move_bytes(to, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn range(&self, first: usize, count: usize) -> Result<*mut u8> {
        match first.checked_add(count) {
            // SAFETY: the elements lie inside the view.
            Some(end) if end <= self.length => Ok(unsafe { self.base.add(first * size_of::<T>()) }),
            _ => Err(self.outside(first, count)),
        }
    }
}

impl View<'_, u64> {
    /// The words themselves, for loops that visit many: where they lie and how many there are stays in registers, while the methods of a view look
    /// that up again behind each access, because an atomic access may have changed any memory.
    ///
    /// ```
    /// # fn main() -> kumiki_mem::Result<()> {
    /// use std::sync::atomic::Ordering::Relaxed;
    /// let world = kumiki_mem::World::init()?;
    /// let counts = world.alloc::<u64>(100)?;
    /// let view = world.view_of(&counts)?;
    /// let words = view.words();
    /// for sample in 0..1000 {
    ///     words[sample * 7 % 100].fetch_add(1, Relaxed);
    /// }
    /// assert!(words.iter().all(|word| word.load(Relaxed) == 10));
    /// drop(view);
    /// # drop(counts);
    /// # world.finalize()
    /// # }
    /// ```
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the view has so many words, which are aligned and stay mapped while it is there; every bit pattern is valid, and nobody has a
        // plain reference to memory of the arena.
        unsafe { std::slice::from_raw_parts(self.base.cast::<AtomicU64>(), self.length) }
    }
}

impl<W: AtomicWord> View<'_, W> {
    /// Does an atomic operation on a word, and gives back its old value.
    #[inline(always)]
    pub fn atomic(&self, index: usize, operation: AtomicOp<W>) -> Result<W> {
        let (code, first, second) = operation.encode();
        let place = self.at(index)?;
        // SAFETY: `at` checked the place; words are aligned in a view of words.
        Ok(W::narrow(unsafe { change::<W>(place, code, first, second) }))
    }

    /// Adds to a word; gives back the old value.
    #[inline(always)]
    pub fn fetch_add(&self, index: usize, value: W) -> Result<W> {
        self.atomic(index, AtomicOp::Add(value))
    }

    /// Keeps the smaller of a word and a value; gives back the old value.
    #[inline(always)]
    pub fn fetch_min(&self, index: usize, value: W) -> Result<W> {
        self.atomic(index, AtomicOp::Min(value))
    }

    /// Keeps the larger of a word and a value; gives back the old value.
    #[inline(always)]
    pub fn fetch_max(&self, index: usize, value: W) -> Result<W> {
        self.atomic(index, AtomicOp::Max(value))
    }

    /// Stores `new` if the word holds `old`; gives back what it held.
    #[inline(always)]
    pub fn compare_swap(&self, index: usize, old: W, new: W) -> Result<W> {
        self.atomic(index, AtomicOp::CompareSwap(old, new))
    }

    /// Stores a value; gives back the old one.
    #[inline(always)]
    pub fn swap(&self, index: usize, value: W) -> Result<W> {
        self.atomic(index, AtomicOp::Swap(value))
    }
}

impl<T: Pod> std::fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let element = std::any::type_name::<T>();
        write!(f, "View<{element}>({:#x}, {} elements)", self.address, self.length)
    }
}

impl Node {
    /// Pins the region in which `bytes` from `start` lie, and gives their place. Valid while the pin is there.
    fn pin_in_view<T: Pod>(&self, start: GlobalPtr<T>, bytes: u64) -> Result<(*mut u8, Pinned<'_>)> {
        let address = start.address;
        let use_put = |what: &str| {
            Err(Error::misuse(format!("a view from {address:#x}, which is {what}: use put, get and atomics")))
        };
        match self.reach(address, start.registration, bytes)? {
            Reach::Direct(_) => {}
            Reach::Private(_) => return use_put("private memory"),
            Reach::Remote(rank) => return use_put(&format!("memory of {rank}, on another node")),
        }
        let (rank, slot, offset) = self.format.find(address, start.registration);
        if (POOL_SLOT..=FAR_POOL_SLOT).contains(&slot) {
            return use_put("memory of a pool, whose blocks are freed without asking");
        }
        let gone = || Error::Bounds {
            what: "a region that was unregistered",
            address: address.bits(),
            rank: rank.0,
            bytes,
        };
        let local = self.arena.place(rank).map(|word| word.load().local).ok_or_else(gone)?;
        let (Some(entry), Some(owner)) = (self.arena.region(local, slot as usize), self.arena.control(local))
        else {
            return Err(gone());
        };
        let view = entry.view().ok_or_else(gone)?;
        owner.pins.note(self.local);
        let pinned = self.control().pins.pin(hazard::name(local, slot, view.generation));
        let what = "the views that a rank can have at a time";
        let word = pinned.ok_or(Error::OutOfMemory { asked: PINS as u64 + 1, left: 0, what })?;
        let pin = Pinned { node: self, word };
        // What was there when we looked may be gone; what is there now stays.
        let still =
            entry.view_announced().filter(|now| *now == view && now.kind == Kind::Arena).ok_or_else(gone)?;
        let wanted = start.registration.generation();
        let whole = (wanted == 0 || wanted == still.generation)
            && offset.checked_add(bytes).is_some_and(|end| end <= still.bytes)
            && still.base + still.bytes <= self.arena.bytes();
        match whole {
            true => Ok((self.arena.pointer(still.base + offset), pin)),
            false => Err(gone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, World};

    #[test]
    fn memory_that_is_in_view_is_not_given_to_another_region() {
        let world = World::init().unwrap();
        let booked = || world.ledger().of(Purpose::Heap);
        let region = world.alloc::<u64>(1000).unwrap();
        let (start, place) = (region.ptr(), region.as_mut_ptr());
        let view = world.view_of(&region).unwrap();
        view.store(999, 5).unwrap();
        drop(region);
        assert!(world.get(start).is_err(), "it is gone for everybody else");
        assert!(world.view(start, 1).is_err());
        let others: Vec<_> = (0..100).map(|_| world.alloc::<u64>(1000).unwrap()).collect();
        assert!(others.iter().all(|other| other.as_mut_ptr() != place));
        others.iter().for_each(|other| other.write(0, &[7; 1000]).unwrap());
        assert_eq!(view.load(999).unwrap(), 5);
        let held = booked();
        drop((view, others));
        // The owner looks when it allocates and when it frees.
        let next = world.alloc::<u64>(1000).unwrap();
        assert_eq!((next.as_mut_ptr(), booked()), (place, held / 101));
        let mut found = vec![1; 1000];
        next.read(0, &mut found).unwrap();
        assert!(found.iter().all(|&word| word == 0));
        drop(next);
        assert_eq!(booked(), 0);
        world.finalize().unwrap();
    }

    #[test]
    fn a_view_reads_and_writes_elements_of_every_size_and_nothing_beyond() {
        fn check<T: Pod + PartialEq + std::fmt::Debug>(world: &World, value: T) {
            let region = world.alloc::<T>(3).unwrap();
            let view = world.view(region.ptr().add(1), 2).unwrap();
            view.store(0, value).unwrap();
            view.store_release(1, value).unwrap();
            assert_eq!((view.load(0).unwrap(), view.load_acquire(1).unwrap()), (value, value));
            assert_eq!(world.get(region.ptr().add(2)).unwrap(), value);
            assert_eq!(world.get(region.ptr()).unwrap(), T::zeroed());
            let mut both = [T::zeroed(); 2];
            view.read(0, &mut both).unwrap();
            assert_eq!(both, [value; 2]);
            view.write(1, &[T::zeroed()]).unwrap();
            assert_eq!(view.load(1).unwrap(), T::zeroed());
            for wrong in [view.load(2).map(drop), view.store(usize::MAX, value), view.write(1, &[value; 2])] {
                assert!(matches!(wrong, Err(Error::Bounds { .. })), "{wrong:?}");
            }
            assert!(view.read(usize::MAX, &mut both).is_err() && view.read(2, &mut []).is_ok());
            assert!(world.view(region.ptr().add(1), 3).is_err());
        }
        let world = World::init().unwrap();
        check(&world, 200u8);
        check(&world, -5i16);
        check(&world, 1.5f32);
        check(&world, u64::MAX);
        check(&world, [1u8, 2, 3]);
        check(&world, [1u32, 2]);
        check(&world, u128::MAX / 3);
        world.finalize().unwrap();
    }

    #[test]
    fn a_rank_has_sixty_four_views_at_a_time_and_pools_and_private_memory_are_refused() {
        let world = World::init().unwrap();
        let region = world.alloc::<u32>(4).unwrap();
        let mut views: Vec<_> = (0..PINS).map(|_| world.view_of(&region).unwrap()).collect();
        let full = world.view_of(&region).unwrap_err();
        assert!(matches!(full, Error::OutOfMemory { asked: 65, .. }), "{full}");
        views.pop();
        views.push(world.view_of(&region).unwrap());
        drop(views);
        let misuse = |result: Result<View<'_, u32>>, what: &str| match result {
            Err(Error::Misuse(why)) => assert!(why.contains(what), "{why}"),
            other => panic!("{other:?}"),
        };
        let private = world.register(vec![0u32; 4]).unwrap();
        misuse(world.view(private.ptr(), 4), "use put, get");
        misuse(world.view(GlobalPtr::from_address(region.address().add(2)), 1), "not aligned");
        misuse(world.view(region.ptr(), usize::MAX), "too long");
        assert!(world.view(GlobalPtr::<u32>::from_address(GlobalAddress::NULL), 1).is_err());
        drop((region, private));
        world.finalize().unwrap();
    }
}
