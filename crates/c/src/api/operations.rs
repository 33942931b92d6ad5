//! Put, get, copy, atomics, completion.

use super::buffers::{readable, writable};
use super::{edge, give, limit, place, KumikiWorld};
use crate::guard::misuse;
use kumiki::{AtomicOp, AtomicWord, GlobalAddress, GlobalPtr, Handle, Order, Result, World};
use std::ffi::{c_int, c_void};

/// An order as `kumiki.h` writes it: a handle, or one of three words.
fn order(word: u64) -> Order {
    match word {
        0 => Order::None,
        u64::MAX => Order::All,
        word if word == u64::MAX - 1 => Order::Continue,
        number => Order::After(Handle::from_number(number)),
    }
}

/// Writes bytes; they are at their place when this returns.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `from` must be readable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_put(
    world: *const KumikiWorld,
    to: u64,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let values = unsafe { readable(from, bytes, "from") }?;
        let to = GlobalPtr::<u8>::from_address(GlobalAddress::from_bits(to));
        place(world)?.with(|world| world.put_slice(to, values))
    })
}

/// Reads bytes.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `into` must be writable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_get(
    world: *const KumikiWorld,
    into: *mut c_void,
    from: u64,
    bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let into = unsafe { writable(into, bytes, "into") }?;
        let from = GlobalPtr::<u8>::from_address(GlobalAddress::from_bits(from));
        place(world)?.with(|world| world.get_slice(from, into))
    })
}

/// Starts a copy between any two ranks.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `handle` must be writable, or NULL if it is not wanted.
#[no_mangle]
pub unsafe extern "C" fn kumiki_copy(
    world: *const KumikiWorld,
    dst: u64,
    src: u64,
    bytes: usize,
    after: u64,
    handle: *mut u64,
) -> c_int {
    edge(|| {
        let (dst, src) = (GlobalAddress::from_bits(dst), GlobalAddress::from_bits(src));
        let copied = place(world)?.with(|world| world.copy(dst, src, bytes, order(after)))?;
        // SAFETY: as the caller promises.
        unsafe { tell(handle, copied) }
    })
}

/// Gives a handle to whoever wants it.
///
/// # Safety
/// `to` must be writable, or NULL.
unsafe fn tell(to: *mut u64, handle: Handle) -> Result<()> {
    match to.is_null() {
        true => Ok(()),
        // SAFETY: as the caller promises.
        false => unsafe { give(to, "the handle", handle.number()) },
    }
}

/// The operation with a number of `kumiki.h`.
pub(super) fn operation<W: AtomicWord>(number: c_int, first: W, second: W) -> Result<AtomicOp<W>> {
    Ok(match number {
        1 => AtomicOp::CompareSwap(first, second),
        2 => AtomicOp::Swap(first),
        3 => AtomicOp::Add(first),
        4 => AtomicOp::Xor(first),
        5 => AtomicOp::Or(first),
        6 => AtomicOp::And(first),
        7 => AtomicOp::Min(first),
        8 => AtomicOp::Max(first),
        _ => return Err(misuse(format!("{number} is not an atomic operation; see enum kumiki_atomic"))),
    })
}

/// Does an operation on a word and gives back its old value.
fn fetch<W: AtomicWord + kumiki::Pod>(world: &World, target: u64, operation: AtomicOp<W>) -> Result<W> {
    let word = GlobalPtr::<W>::from_address(GlobalAddress::from_bits(target));
    match operation {
        AtomicOp::CompareSwap(old, new) => world.compare_swap(word, old, new),
        AtomicOp::Swap(value) => world.swap(word, value),
        AtomicOp::Add(value) => world.fetch_add(word, value),
        AtomicOp::Xor(value) => world.fetch_xor(word, value),
        AtomicOp::Or(value) => world.fetch_or(word, value),
        AtomicOp::And(value) => world.fetch_and(word, value),
        AtomicOp::Min(value) => world.fetch_min(word, value),
        AtomicOp::Max(value) => world.fetch_max(word, value),
    }
}

/// The functions for atomics on words of one width.
macro_rules! atomics {
    ($word:ty, $fetch:ident, $start:ident) => {
        /// Does an atomic operation and gives back the old value.
        ///
        /// # Safety
        /// `world` must be a world, or NULL for that of `acp_init`; `old` must be writable, or NULL if it is not wanted.
        #[no_mangle]
        pub unsafe extern "C" fn $fetch(
            world: *const KumikiWorld,
            number: c_int,
            target: u64,
            first: $word,
            second: $word,
            old: *mut $word,
        ) -> c_int {
            edge(|| {
                let operation = operation(number, first, second)?;
                let found = place(world)?.with(|world| fetch(world, target, operation))?;
                if old.is_null() {
                    return Ok(());
                }
                // SAFETY: as the caller promises.
                unsafe { give(old, "the old value", found) }
            })
        }

        /// Starts an atomic operation that puts the old value at a global address.
        ///
        /// # Safety
        /// `world` must be a world, or NULL for that of `acp_init`; `handle` must be writable, or NULL if it is not wanted.
        #[no_mangle]
        #[allow(clippy::too_many_arguments)] // As C has them.
        pub unsafe extern "C" fn $start(
            world: *const KumikiWorld,
            number: c_int,
            dst: u64,
            target: u64,
            first: $word,
            second: $word,
            after: u64,
            handle: *mut u64,
        ) -> c_int {
            edge(|| {
                let operation = operation(number, first, second)?;
                let (dst, target) = (GlobalAddress::from_bits(dst), GlobalAddress::from_bits(target));
                let place = place(world)?;
                let started = place.with(|world| world.atomic(dst, target, operation, order(after)))?;
                // SAFETY: as the caller promises.
                unsafe { tell(handle, started) }
            })
        }
    };
}

atomics!(u32, kumiki_fetch_u32, kumiki_atomic_u32);
atomics!(u64, kumiki_fetch_u64, kumiki_atomic_u64);

/// Waits for an operation and all before it; tells the first failure among them.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_complete(world: *const KumikiWorld, handle: u64) -> c_int {
    edge(|| place(world)?.with(|world| world.complete(Handle::from_number(handle))))
}

/// As [`kumiki_complete`], for at most this long.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_complete_for(
    world: *const KumikiWorld,
    handle: u64,
    milliseconds: u64,
) -> c_int {
    edge(|| place(world)?.with(|world| world.wait(Handle::from_number(handle), limit(milliseconds))))
}

/// Waits for all operations.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_complete_all(world: *const KumikiWorld) -> c_int {
    edge(|| place(world)?.with(|world| world.complete_all()))
}

/// Whether an operation and all before it are complete.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `complete` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_inquire(
    world: *const KumikiWorld,
    handle: u64,
    complete: *mut c_int,
) -> c_int {
    edge(|| {
        let is = place(world)?.with(|world| world.inquire(Handle::from_number(handle)))?;
        // SAFETY: as the caller promises.
        unsafe { give(complete, "the answer", c_int::from(is)) }
    })
}
