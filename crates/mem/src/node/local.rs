//! What can be done on this node without a message: spans of arena memory, and locks that outlive their holders.
//!
//! Data structures are written once, as code over [`Local`]. A rank of the owner's node runs that code itself; for a
//! rank of another node the owner runs it, as a [service](crate::Service).

use crate::node::access::Reach;
use crate::node::address::{GlobalAddress, Registration};
use crate::node::copy;
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::os::{process, time};
use kumiki_net::shm::barrier::Intent;
use kumiki_net::shm::lock::{self, OwnerTag};
use kumiki_net::shm::world::Status;
use kumiki_net::Rank;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How often a lock is tried before its holder is looked at.
const SPINS: u32 = 256;
/// Looks at the holder before whoever serves others gives up for now.
const SERVING_ROUNDS: u32 = 8;
/// The same for whoever comes back later anyway.
const BRIEF_ROUNDS: u32 = 64;

/// The memory of this node, as one of its ranks sees it.
#[derive(Clone, Copy)]
pub struct Local<'a> {
    pub(crate) node: &'a Node,
    /// Set while a peer is served: who serves must not wait, and says here that it would have had to.
    pub(crate) busy: Option<&'a Cell<bool>>,
}

impl std::fmt::Debug for Local<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Local(rank {}, node {})", self.node.rank.0, self.node.node)
    }
}

impl<'a> Local<'a> {
    /// The rank whose process this is.
    #[inline]
    pub fn rank(self) -> u32 {
        self.node.rank.0
    }

    /// The number of this rank among those of its node.
    #[inline]
    pub fn index(self) -> u32 {
        self.node.local
    }

    /// How many ranks there are.
    #[inline]
    pub fn ranks(self) -> u32 {
        self.node.ranks()
    }

    /// Whether a rank lives on this node, so that its arena memory can be touched here.
    #[inline]
    pub fn is_near(self, rank: u32) -> bool {
        !process::is_forked_child()
            && self.node.arena.place(Rank(rank)).is_some_and(|word| word.load().node == self.node.node)
    }

    /// Whether a rank of this node is alive, and this process may touch its arena memory: what a span that is kept for
    /// longer must be asked before each use.
    #[inline]
    pub fn can_touch(self, rank: u32) -> bool {
        if process::is_forked_child() {
            return false;
        }
        let place = self.node.arena.place(Rank(rank)).map(|word| word.load());
        place.is_some_and(|place| place.node == self.node.node && place.status == Status::Alive)
    }

    /// Whether a rank of this node has begun to finalize, or to start over.
    pub fn is_finalizing(self, rank: u32) -> bool {
        let place = self.node.arena.place(Rank(rank)).map(|word| word.load());
        let near = place.filter(|place| place.node == self.node.node);
        let control = near.and_then(|place| self.node.arena.control(place.local));
        control.is_some_and(|control| control.intent.load(Ordering::SeqCst) != Intent::Sync as u32)
    }

    /// The rank that an address belongs to.
    #[inline]
    pub fn rank_of(self, address: GlobalAddress) -> u32 {
        self.node.format.rank(address).0
    }

    /// `bytes` at `address`, which must lie in arena memory of a live rank of this node.
    #[inline]
    pub fn span(self, address: GlobalAddress, bytes: u64) -> Result<Span<'a>> {
        match self.node.here_any(address, bytes) {
            Some(base) => Ok(Span::new(base, bytes, address)),
            None => self.span_otherwise(address, bytes),
        }
    }

    #[inline(never)]
    fn span_otherwise(self, address: GlobalAddress, bytes: u64) -> Result<Span<'a>> {
        if let Some(base) = self.node.direct(address, Registration::ANY, bytes) {
            return Ok(Span::new(base, bytes, address));
        }
        match self.node.reach(address, Registration::ANY, bytes)? {
            Reach::Direct(base) => Ok(Span::new(base, bytes, address)),
            _ => Err(Error::Bounds {
                what: "not arena memory of this node",
                address: address.bits(),
                rank: self.node.format.rank(address).0,
                bytes,
            }),
        }
    }

    /// Takes a lock, waiting for its holder; for at most the peer timeout. When the holder is gone the lock is taken
    /// over, and [`Locked::is_inherited`] says so: what it guards may be half changed.
    #[inline]
    pub fn lock(self, word: &'a AtomicU64) -> Result<Locked<'a>> {
        let tag = OwnerTag::new(self.node.local, thread_number());
        if lock::try_lock(word, tag).is_ok() {
            return Ok(Locked { word, inherited: false });
        }
        self.lock_slowly(word, tag, self.busy.map(|busy| (busy, SERVING_ROUNDS)))
    }

    /// Takes a lock, or gives up after a moment: for whoever must not wait for a holder that is stopped, and comes back later.
    pub fn lock_briefly(self, word: &'a AtomicU64) -> Result<Option<Locked<'a>>> {
        let tag = OwnerTag::new(self.node.local, thread_number());
        if lock::try_lock(word, tag).is_ok() {
            return Ok(Some(Locked { word, inherited: false }));
        }
        let busy = Cell::new(false);
        match self.lock_slowly(word, tag, Some((&busy, BRIEF_ROUNDS))) {
            Err(_) if busy.get() => Ok(None),
            locked => locked.map(Some),
        }
    }

    /// Takes a lock if nobody has it.
    #[inline]
    pub fn try_lock(self, word: &'a AtomicU64) -> Option<Locked<'a>> {
        let tag = OwnerTag::new(self.node.local, thread_number());
        lock::try_lock(word, tag).ok().map(|()| Locked { word, inherited: false })
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(
        self,
        word: &'a AtomicU64,
        tag: OwnerTag,
        patience: Option<(&Cell<bool>, u32)>,
    ) -> Result<Locked<'a>> {
        let mut since_ms = None;
        let mut rounds = 0;
        loop {
            for _ in 0..SPINS {
                if word.load(Ordering::Relaxed) == 0 && lock::try_lock(word, tag).is_ok() {
                    return Ok(Locked { word, inherited: false });
                }
                std::hint::spin_loop();
            }
            let Err(holder) = lock::try_lock(word, tag) else { return Ok(Locked { word, inherited: false }) };
            if self.node.is_gone(holder.local()) && lock::take_over(word, holder, tag) {
                return Ok(Locked { word, inherited: true });
            }
            rounds += 1;
            if let Some((busy, _)) = patience.filter(|(_, most)| rounds >= *most) {
                busy.set(true);
                return Err(Error::Timeout { what: "a lock of this node".into(), after_ms: 0 });
            }
            self.node.check_usable()?;
            let now_ms = time::now_ms();
            let since_ms = *since_ms.get_or_insert(now_ms);
            if now_ms - since_ms > self.node.arena.config().peer_timeout_ms as u64 {
                let what = format!("waiting for a lock that rank {} holds", self.rank_at(holder.local()));
                return Err(Error::Timeout { what, after_ms: now_ms - since_ms });
            }
            process::yield_now();
        }
    }

    /// The version of what a lock guards, to read it without the lock; `None` while somebody changes it. What is read is
    /// right if the version [has not changed](Self::is_unchanged) afterwards, and may be anything otherwise.
    #[inline]
    pub fn version(self, word: &AtomicU64) -> Option<u64> {
        lock::version(word)
    }

    /// Whether nothing has begun to change since the [`version`](Self::version) was asked for.
    #[inline]
    pub fn is_unchanged(self, word: &AtomicU64, version: u64) -> bool {
        lock::is_unchanged(word, version)
    }

    /// Says to those who read without the lock, which the caller holds, that what it guards changes until the guard is
    /// dropped.
    #[inline]
    pub fn begin_change(self, word: &'a AtomicU64) -> Change<'a> {
        lock::begin_change(word);
        Change(word)
    }

    /// Whether a service met a lock that somebody else holds. Whoever asks deals with it: a service that has done a part
    /// of its work replies with that part, instead of being run again as a whole.
    pub fn met_lock(self) -> bool {
        self.busy.is_some_and(Cell::take)
    }

    fn rank_at(self, local: u32) -> u32 {
        let here = |rank: &u32| {
            let place = self.node.arena.place(Rank(*rank)).map(|word| word.load());
            place.is_some_and(|place| place.node == self.node.node && place.local == local)
        };
        (0..self.ranks()).find(here).unwrap_or(u32::MAX)
    }

    /// Fails if a rank is gone.
    pub fn check_alive(self, rank: u32) -> Result<()> {
        if process::is_forked_child() {
            self.node.check_usable()?;
        }
        let place = self.node.arena.place(Rank(rank)).map(|word| word.load());
        let place = place.ok_or_else(|| Error::misuse(format!("there is no rank {rank}")))?;
        self.node.check_alive(Rank(rank), place)
    }
}

impl Node {
    /// Whether a rank of this node (the holder of a lock, say) is no longer alive. One that never was counts as dead.
    pub(crate) fn is_gone(&self, local: u32) -> bool {
        let ranks = (0..self.ranks()).filter_map(|rank| self.arena.place(Rank(rank)));
        let mut here = ranks.map(|word| word.load()).filter(|place| place.node == self.node);
        !here.any(|place| place.local == local && place.status == Status::Alive)
    }
}

/// A number for this thread, for the tags of locks.
#[inline]
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static NUMBER: Cell<u32> = const { Cell::new(0) });
    match NUMBER.get() {
        0 => {
            NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
            NUMBER.get()
        }
        number => number,
    }
}

/// Lets the processor fetch a cache line, to be written. Nothing is read: any address will do.
#[inline]
pub fn fetch_to_write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch touches no memory that the program can see, and does not fault.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// The same, to be read before long: it need not come nearer than the second cache.
#[inline]
pub fn fetch_to_read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prefetcht1 [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// A lock that is held; dropping it frees it. Dropped while its thread unwinds, it is left to whoever comes next, who inherits it.
#[derive(Debug)]
pub struct Locked<'a> {
    word: &'a AtomicU64,
    inherited: bool,
}

impl Locked<'_> {
    /// Whether it was taken over from a holder that died with it: repair what it guards first.
    #[inline]
    pub fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// Leaves the lock to whoever comes next, who then inherits it too: what it guards could not be repaired.
    pub fn leave(self) {
        lock::leave(self.word);
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // Whoever unwinds may have left what it guards half changed: the next holder repairs it, as after a death.
        if std::thread::panicking() {
            return lock::leave(self.word);
        }
        lock::unlock(self.word);
    }
}

/// A change of what a lock guards; dropping it ends the change. It must end before the lock is freed.
#[derive(Debug)]
pub struct Change<'a>(&'a AtomicU64);

impl Drop for Change<'_> {
    #[inline]
    fn drop(&mut self) {
        // What is half changed stays marked as changing until somebody has repaired it.
        if !std::thread::panicking() {
            lock::end_change(self.0);
        }
    }
}

/// A checked piece of arena memory of this node. It is read and written by copies and atomics only: other ranks may
/// do the same at any time. Everything is checked against its length.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    base: *mut u8,
    bytes: u64,
    address: GlobalAddress,
    life: PhantomData<&'a Node>,
}

// SAFETY: a span is memory of the arena, which stays mapped for its lifetime and is only touched by copies and atomics.
unsafe impl Send for Span<'_> {}
// SAFETY: as above.
unsafe impl Sync for Span<'_> {}

impl std::fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Span({:#x}, {} bytes)", self.address, self.bytes)
    }
}

impl<'a> Span<'a> {
    /// Only for memory of the arena that stays mapped for `'a`.
    #[inline]
    pub(crate) fn new(base: *mut u8, bytes: u64, address: GlobalAddress) -> Span<'a> {
        Span { base, bytes, address, life: PhantomData }
    }

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

    /// The address of its first byte.
    #[inline]
    pub fn address(self) -> GlobalAddress {
        self.address
    }

    #[inline]
    fn at(self, at: u64, bytes: u64) -> Result<*mut u8> {
        match at.checked_add(bytes) {
            // SAFETY: the offset lies inside the span.
            Some(end) if end <= self.bytes => Ok(unsafe { self.base.add(at as usize) }),
            _ => Err(self.outside(at, bytes)),
        }
    }

    #[cold]
    fn outside(self, at: u64, bytes: u64) -> Error {
        outside(self.address.add(at), bytes)
    }

    /// The 8-byte word at `at`, which must be aligned.
    #[inline(always)]
    pub fn word(self, at: u64) -> Result<&'a AtomicU64> {
        let pointer = self.at(at, 8)?;
        if !(pointer as usize).is_multiple_of(8) {
            return Err(self.outside(at, 8));
        }
        // SAFETY: aligned, inside the span, mapped for `'a`; every bit pattern is valid.
        Ok(unsafe { &*pointer.cast::<AtomicU64>() })
    }

    /// `count` words from `at`, which must be aligned.
    #[inline]
    pub fn words(self, at: u64, count: usize) -> Result<&'a [AtomicU64]> {
        let pointer = self.at(at, 8 * count as u64)?;
        if !(pointer as usize).is_multiple_of(8) {
            return Err(self.outside(at, 8));
        }
        // SAFETY: aligned, inside the span, mapped for `'a`; every bit pattern is valid, and nobody has a plain
        // reference to arena memory.
        Ok(unsafe { std::slice::from_raw_parts(pointer.cast::<AtomicU64>(), count) })
    }

    /// Reads the word at `at`.
    #[inline]
    pub fn load(self, at: u64) -> Result<u64> {
        self.word(at).map(|word| word.load(Ordering::Acquire))
    }

    /// Writes the word at `at`.
    #[inline]
    pub fn store(self, at: u64, value: u64) -> Result<()> {
        self.word(at).map(|word| word.store(value, Ordering::Release))
    }

    /// Says that the bytes at `at` will be read, or written, soon: a hint to the processor.
    #[inline]
    pub fn prepare(self, at: u64) {
        if at < self.bytes {
            fetch_to_write(self.base.wrapping_add(at as usize));
        }
    }

    /// A part of it.
    #[inline]
    pub fn part(self, at: u64, bytes: u64) -> Result<Span<'a>> {
        let base = self.at(at, bytes)?;
        Ok(Span::new(base, bytes, self.address.add(at)))
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(self, at: u64, into: &mut [u8]) -> Result<()> {
        let from = self.at(at, into.len() as u64)?;
        // SAFETY: the source was checked; the destination is the caller's.
        unsafe { copy::move_bytes(into.as_mut_ptr(), from, into.len()) };
        Ok(())
    }

    /// Copies bytes in.
    #[inline]
    pub fn write(self, at: u64, from: &[u8]) -> Result<()> {
        let to = self.at(at, from.len() as u64)?;
        // SAFETY: the destination was checked; the source is the caller's.
        unsafe { copy::move_bytes(to, from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Moves bytes inside it; the ranges may overlap.
    pub fn shift(self, to: u64, from: u64, bytes: u64) -> Result<()> {
        let (to, from) = (self.at(to, bytes)?, self.at(from, bytes)?);
        // SAFETY: both ranges were checked, and may overlap.
        unsafe { copy::move_bytes(to, from, bytes as usize) };
        Ok(())
    }

    /// Copies bytes of another span in; the ranges may overlap.
    pub fn copy_from(self, to: u64, other: Span<'_>, from: u64, bytes: u64) -> Result<()> {
        let (to, from) = (self.at(to, bytes)?, other.at(from, bytes)?);
        // SAFETY: both ranges were checked, and may overlap.
        unsafe { copy::move_bytes(to, from, bytes as usize) };
        Ok(())
    }

    /// Whether the bytes at `at` are these.
    #[inline]
    pub fn matches(self, at: u64, bytes: &[u8]) -> Result<bool> {
        if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
            // A key of one word is the common one.
            let mut word = [0; 8];
            self.read(at, &mut word)?;
            return Ok(word == bytes);
        }
        let mut place = self.at(at, bytes.len() as u64)?;
        let mut buffer = [0u8; 64];
        for piece in bytes.chunks(buffer.len()) {
            // SAFETY: the whole range was checked; the buffer is as long as the longest piece.
            unsafe {
                copy::move_bytes(buffer.as_mut_ptr(), place, piece.len());
                place = place.add(piece.len());
            }
            if &buffer[..piece.len()] != piece {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sets bytes to zero.
    pub fn clear(self, at: u64, bytes: u64) -> Result<()> {
        let to = self.at(at, bytes)?;
        // SAFETY: the range was checked.
        unsafe { std::ptr::write_bytes(to, 0, bytes as usize) };
        Ok(())
    }
}

/// What was asked for at an address does not lie in its span.
#[cold]
pub(crate) fn outside(address: GlobalAddress, bytes: u64) -> Error {
    Error::Bounds {
        what: "past the end of a structure in global memory",
        address: address.bits(),
        rank: u32::MAX,
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use crate::World;

    #[test]
    fn a_lock_dropped_while_unwinding_is_inherited_and_what_it_guards_still_changes() {
        let world = World::init().unwrap();
        let region = world.alloc::<u64>(2).unwrap();
        let local = world.local();
        let words = local.span(region.address(), 16).unwrap().words(0, 2).unwrap();
        drop(local.lock(&words[0]).unwrap());
        assert!(!local.lock(&words[0]).unwrap().is_inherited());
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = local.lock(&words[0]);
            let _change = local.begin_change(&words[1]);
            std::panic::resume_unwind(Box::new("between two stores"));
        }));
        assert!(unwound.is_err());
        assert_eq!(local.version(&words[1]), None, "readers without the lock must not believe it");
        let held = local.lock(&words[0]).unwrap();
        assert!(held.is_inherited());
        drop(local.begin_change(&words[1]));
        drop(held);
        assert!(local.version(&words[1]).is_some() && !local.lock(&words[0]).unwrap().is_inherited());
        drop(region);
        world.finalize().unwrap();
    }
}
