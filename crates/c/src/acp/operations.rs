//! Copies, atomics, completion.

use super::{channels, edge, WORLD};
use crate::guard::misuse;
use kumiki::raw;
use kumiki::{AtomicOp, GlobalAddress, Handle, Order, Result, World};
use std::ffi::c_int;

/// `ACP_HANDLE_ALL`.
const ALL: i64 = -1;
/// `ACP_HANDLE_CONT`.
const CONTINUE: i64 = -2;
/// `ACP_HANDLE_NULL`.
const NULL: i64 = 0;

fn order(handle: i64) -> Result<Order> {
    match handle {
        NULL => Ok(Order::None),
        ALL => Ok(Order::All),
        CONTINUE => Ok(Order::Continue),
        1.. => Ok(Order::After(Handle::from_number(handle as u64))),
        _ => Err(misuse(format!("{handle} is not a handle, so nothing can be ordered by it"))),
    }
}

/// Copies `size` bytes from any rank to any rank.
#[no_mangle]
pub extern "C" fn acp_copy(dst: u64, src: u64, size: usize, handle: i64) -> i64 {
    edge("acp_copy", NULL, || {
        let order = order(handle)?;
        WORLD.with(|world| {
            let (mut dst, mut src) = (GlobalAddress::from_bits(dst), GlobalAddress::from_bits(src));
            if size == 0 {
                // Nothing is touched, so the addresses do not matter; but it has its turn and its handle.
                let own = world.starter_address(world.rank())?;
                (dst, src) = (own, own);
            }
            let copied = raw::memory(world).copy_in_turn(dst, src, size as u64, order)?;
            Ok(copied.number() as i64)
        })
    })
}

/// A function for an atomic operation with one operand.
macro_rules! atomic {
    ($name:ident, $word:ty, $operation:ident, $does:literal) => {
        #[doc = concat!($does, " the word at `src`, and puts its old value at `dst`.")]
        #[no_mangle]
        pub extern "C" fn $name(dst: u64, src: u64, value: $word, handle: i64) -> i64 {
            edge(stringify!($name), NULL, || atomic(dst, src, AtomicOp::$operation(value), handle))
        }
    };
}

/// A function for compare-and-swap.
macro_rules! compare_swap {
    ($name:ident, $word:ty) => {
        /// Stores `new` at `src` if `old` is there, and puts what was there at `dst`.
        #[no_mangle]
        pub extern "C" fn $name(dst: u64, src: u64, old: $word, new: $word, handle: i64) -> i64 {
            edge(stringify!($name), NULL, || atomic(dst, src, AtomicOp::CompareSwap(old, new), handle))
        }
    };
}

compare_swap!(acp_cas4, u32);
compare_swap!(acp_cas8, u64);
atomic!(acp_swap4, u32, Swap, "Replaces");
atomic!(acp_swap8, u64, Swap, "Replaces");
atomic!(acp_add4, u32, Add, "Adds to");
atomic!(acp_add8, u64, Add, "Adds to");
atomic!(acp_xor4, u32, Xor, "Exclusive-ors");
atomic!(acp_xor8, u64, Xor, "Exclusive-ors");
atomic!(acp_or4, u32, Or, "Ors");
atomic!(acp_or8, u64, Or, "Ors");
atomic!(acp_and4, u32, And, "Ands");
atomic!(acp_and8, u64, And, "Ands");

fn atomic<W: kumiki::AtomicWord>(dst: u64, src: u64, operation: AtomicOp<W>, handle: i64) -> Result<i64> {
    let order = order(handle)?;
    let (dst, target) = (GlobalAddress::from_bits(dst), GlobalAddress::from_bits(src));
    WORLD.with(|world| Ok(raw::memory(world).atomic_in_turn(dst, target, operation, order)?.number() as i64))
}

/// The last operation that a handle speaks of; `None` if it speaks of none.
fn last_of(world: &World, handle: i64) -> Option<Handle> {
    let issued = raw::memory(world).last_issued();
    match handle {
        ALL | CONTINUE => Some(issued),
        1.. => Some(Handle::from_number(handle as u64)).filter(|&handle| handle <= issued),
        _ => None,
    }
}

/// Waits for an operation and all before it.
#[no_mangle]
pub extern "C" fn acp_complete(handle: i64) {
    edge("acp_complete", (), || {
        WORLD.with(|world| {
            channels::go_on(world);
            last_of(world, handle).map_or(Ok(()), |handle| world.complete(handle))
        })
    });
}

/// 0 when an operation and all before it are complete, 1 when not.
#[no_mangle]
pub extern "C" fn acp_inquire(handle: i64) -> c_int {
    edge("acp_inquire", 0, || {
        WORLD.with(|world| {
            channels::go_on(world);
            // A handle that was never issued: everything that was is before it.
            let last = if handle > 0 {
                raw::memory(world).last_issued().min(Handle::from_number(handle as u64))
            } else {
                last_of(world, handle).unwrap_or(Handle::from_number(0))
            };
            world.inquire(last).map(|complete| c_int::from(!complete))
        })
    })
}
