//! Moving bytes that this process can touch itself.
//!
//! Memory that other ranks can write is never a Rust reference here: it is read and written through raw pointers,
//! small aligned words as atomics, everything else by a plain memory copy. A program that races with itself gets
//! bytes of either side, never anything outside the range that was checked.

use crate::node::access::Reach;
use crate::node::address::GlobalAddress;
use crate::node::kind::Kind;
use crate::node::Node;
use crate::Result;
use bytemuck::Pod;
use std::mem::transmute_copy;
use std::sync::atomic::{fence, AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};

/// Bytes that go through this process at a time when both sides are other processes' private memory.
const BOUNCE_BYTES: usize = 16 * 1024;

/// Copies a word between two regions of the arena that this thread has used lately; otherwise false.
#[inline(always)]
pub(crate) fn move_word(node: &Node, dst: GlobalAddress, src: GlobalAddress) -> bool {
    let glance = node.glance();
    let Some(to) = node.recent_any(glance, dst, 8) else { return false };
    let Some(from) = node.recent_any(glance, src, 8) else { return false };
    if !(to as usize | from as usize).is_multiple_of(8) {
        return false;
    }
    // SAFETY: both were checked for a word, and are aligned.
    unsafe { store_word(to, load_word(from)) };
    node.wrote_after(glance, to);
    true
}

/// Copies between memories of this node if nothing stands in the way; otherwise false, and the long way round finds out
/// what does.
#[inline]
pub(crate) fn move_near(node: &Node, dst: GlobalAddress, src: GlobalAddress, bytes: u64) -> bool {
    if let Some(to) = node.here_any(dst, bytes) {
        if let Some(from) = node.here_any(src, bytes) {
            // SAFETY: both ranges were checked and lie in the arena.
            unsafe { move_bytes(to, from, bytes as usize) };
            node.wrote(to);
            return true;
        }
    }
    move_private(node, dst, src, bytes)
}

/// As [`move_near`], where at least one of the two is private.
#[inline(never)]
fn move_private(node: &Node, dst: GlobalAddress, src: GlobalAddress, bytes: u64) -> bool {
    // What is far is known to be at the first of the two.
    let Some(to) = node.near(dst, bytes) else { return false };
    let Some(from) = node.near(src, bytes) else { return false };
    node.check_usable().is_ok() && move_here(node, to, from, bytes) == Ok(true)
}

/// Copies if this process can touch both sides; false if it must ask somebody.
#[inline]
pub(crate) fn move_here(node: &Node, to: Reach, from: Reach, bytes: u64) -> Result<bool> {
    let (to, to_pin) = node.pin_own(to.check_writable(bytes)?)?;
    let (from, _from_pin) = if to_pin.is_some() { node.pin_own_too(from)? } else { node.pin_own(from)? };
    match (to, from) {
        (Reach::Direct(to), Reach::Direct(from)) => {
            // SAFETY: both ranges were checked by `reach` (or are lent by the caller), and `move_bytes` allows overlap.
            unsafe { move_bytes(to, from, bytes as usize) };
            node.wrote(to);
            Ok(true)
        }
        (to, Reach::Direct(from)) => {
            // SAFETY: both were checked for `bytes`; the source is only read.
            to.with_kind(|to| unsafe { to.write(node, 0, from, bytes) }).unwrap_or(Ok(false))
        }
        (Reach::Direct(to), from) => {
            // SAFETY: both were checked for `bytes`.
            from.with_kind(|from| unsafe { from.read(node, 0, to, bytes) }).unwrap_or(Ok(false))
        }
        (to, from) => {
            let backwards = to.follows(from);
            let bounced = to.with_kind(|to| from.with_kind(|from| bounce(node, to, from, bytes, backwards)));
            bounced.flatten().unwrap_or(Ok(false))
        }
    }
}

/// Copies between two memories that are not mapped here, through a buffer; backwards if that is right because they overlap.
pub(crate) fn bounce(
    node: &Node,
    to: &dyn Kind,
    from: &dyn Kind,
    bytes: u64,
    backwards: bool,
) -> Result<bool> {
    if !to.may_touch(node) || !from.may_touch(node) {
        return Ok(false);
    }
    let mut buffer = [0u8; BOUNCE_BYTES];
    let mut done = 0;
    while done < bytes {
        let piece = (bytes - done).min(BOUNCE_BYTES as u64);
        let at = if backwards { bytes - done - piece } else { done };
        // SAFETY: the buffer is at least `piece` bytes long, and both memories were checked for `bytes`.
        let moved = unsafe {
            from.read(node, at, buffer.as_mut_ptr(), piece)? && to.write(node, at, buffer.as_ptr(), piece)?
        };
        if !moved {
            return Ok(false);
        }
        done += piece;
    }
    Ok(true)
}

/// Reads into `place` if this process can; false if it cannot.
pub(crate) fn read_here(node: &Node, from: Reach, place: &mut [u8]) -> bool {
    let to = Reach::Direct(place.as_mut_ptr());
    move_here(node, to, from, place.len() as u64).unwrap_or(false)
}

/// Writes bytes if this process can; false if it cannot.
pub(crate) fn write_here(node: &Node, to: Reach, bytes: &[u8]) -> Result<bool> {
    let from = Reach::Direct(bytes.as_ptr() as *mut u8);
    move_here(node, to, from, bytes.len() as u64)
}

/// Whether elements of `T` at their alignment can be loaded and stored as one word.
const fn is_word<T>() -> bool {
    matches!(size_of::<T>(), 1 | 2 | 4 | 8) && align_of::<T>() == size_of::<T>()
}

/// Reads an element; one of 1, 2, 4 or 8 bytes that is aligned to its size as one.
///
/// # Safety
/// `from` must be valid for reads of a `T`. Other processes may write there meanwhile.
#[inline(always)]
pub(crate) unsafe fn load<T: Pod>(from: *const u8) -> T {
    // SAFETY: the caller vouches for the range, which is aligned where that is needed.
    unsafe {
        match is_word::<T>() {
            true if (from as usize).is_multiple_of(align_of::<T>()) => load_aligned(from, Ordering::Acquire),
            true => load_unaligned(from),
            false => load_bytes(from),
        }
    }
}

/// # Safety
/// As [`load`].
#[cold]
#[inline(never)]
unsafe fn load_unaligned<T: Pod>(from: *const u8) -> T {
    // SAFETY: as the caller promises.
    unsafe { load_bytes(from) }
}

/// # Safety
/// As [`load`].
#[inline]
unsafe fn load_bytes<T: Pod>(from: *const u8) -> T {
    let mut value = T::zeroed();
    // SAFETY: the caller vouches for the source; every bit pattern is a `T`.
    unsafe { move_bytes((&mut value as *mut T).cast(), from, size_of::<T>()) };
    value
}

/// Writes an element, likewise.
///
/// # Safety
/// `to` must be valid for writes of a `T`. Other processes may touch it meanwhile.
#[inline(always)]
pub(crate) unsafe fn store<T: Pod>(to: *mut u8, value: T) {
    // SAFETY: the caller vouches for the range, which is aligned where that is needed.
    unsafe {
        match is_word::<T>() {
            true if (to as usize).is_multiple_of(align_of::<T>()) => {
                store_aligned(to, value, Ordering::Release);
            }
            true => store_unaligned(to, value),
            false => store_bytes(to, value),
        }
    }
}

/// # Safety
/// As [`store`].
#[cold]
#[inline(never)]
unsafe fn store_unaligned<T: Pod>(to: *mut u8, value: T) {
    // SAFETY: as the caller promises.
    unsafe { store_bytes(to, value) };
}

/// # Safety
/// As [`store`].
#[inline]
unsafe fn store_bytes<T: Pod>(to: *mut u8, value: T) {
    // SAFETY: the caller vouches for the destination; `value` is plain data of that size.
    unsafe { move_bytes(to, (&value as *const T).cast(), size_of::<T>()) };
}

/// As [`load`], of an element that is aligned, in this order.
///
/// # Safety
/// As [`load`], and `from` must be aligned for a `T`.
#[inline(always)]
pub(crate) unsafe fn load_aligned<T: Pod>(from: *const u8, order: Ordering) -> T {
    // SAFETY: the caller vouches for the range; a word is aligned to its size, and plain data of that size.
    unsafe {
        match size_of::<T>() {
            8 if is_word::<T>() => transmute_copy(&(*from.cast::<AtomicU64>()).load(order)),
            4 if is_word::<T>() => transmute_copy(&(*from.cast::<AtomicU32>()).load(order)),
            2 if is_word::<T>() => transmute_copy(&(*from.cast::<AtomicU16>()).load(order)),
            1 => transmute_copy(&(*from.cast::<AtomicU8>()).load(order)),
            bytes => {
                let mut value = T::zeroed();
                move_bytes((&mut value as *mut T).cast(), from, bytes);
                if order != Ordering::Relaxed {
                    fence(Ordering::Acquire);
                }
                value
            }
        }
    }
}

/// As [`store`], of an element that is aligned, in this order.
///
/// # Safety
/// As [`store`], and `to` must be aligned for a `T`.
#[inline(always)]
pub(crate) unsafe fn store_aligned<T: Pod>(to: *mut u8, value: T, order: Ordering) {
    // SAFETY: as in `load_aligned`.
    unsafe {
        match size_of::<T>() {
            8 if is_word::<T>() => (*to.cast::<AtomicU64>()).store(transmute_copy(&value), order),
            4 if is_word::<T>() => (*to.cast::<AtomicU32>()).store(transmute_copy(&value), order),
            2 if is_word::<T>() => (*to.cast::<AtomicU16>()).store(transmute_copy(&value), order),
            1 => (*to.cast::<AtomicU8>()).store(transmute_copy(&value), order),
            bytes => {
                if order != Ordering::Relaxed {
                    fence(Ordering::Release);
                }
                move_bytes(to, (&value as *const T).cast(), bytes);
            }
        }
    }
}

/// Copies bytes that may overlap; an aligned word of 1, 2, 4 or 8 bytes moves as one.
///
/// # Safety
/// `to` must be valid for writes and `from` for reads of `bytes`. Other processes may touch both meanwhile.
#[inline]
pub(crate) unsafe fn move_bytes(to: *mut u8, from: *const u8, bytes: usize) {
    let aligned = (to as usize | from as usize) & (bytes.wrapping_sub(1)) == 0;
    if aligned && matches!(bytes, 1 | 2 | 4 | 8) {
        // SAFETY: the caller vouches for both ranges, and both are aligned to their size.
        unsafe {
            match bytes {
                8 => store_word(to, load_word(from)),
                4 => (*to.cast::<AtomicU32>())
                    .store((*from.cast::<AtomicU32>()).load(Ordering::Acquire), Ordering::Release),
                2 => (*to.cast::<AtomicU16>())
                    .store((*from.cast::<AtomicU16>()).load(Ordering::Acquire), Ordering::Release),
                _ => (*to.cast::<AtomicU8>())
                    .store((*from.cast::<AtomicU8>()).load(Ordering::Acquire), Ordering::Release),
            }
        }
        return;
    }
    // SAFETY: the caller vouches for both ranges; `copy` allows overlap.
    unsafe { std::ptr::copy(from, to, bytes) };
}

/// # Safety
/// `from` must be valid for reads and aligned to 8.
#[inline]
unsafe fn load_word(from: *const u8) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { (*from.cast::<AtomicU64>()).load(Ordering::Acquire) }
}

/// # Safety
/// `to` must be valid for writes and aligned to 8.
#[inline]
unsafe fn store_word(to: *mut u8, value: u64) {
    // SAFETY: as the caller promises.
    unsafe { (*to.cast::<AtomicU64>()).store(value, Ordering::Release) }
}
