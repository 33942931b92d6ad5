//! Atomic operations on words of 4 and 8 bytes.
//!
//! Wherever the request comes from, the word is changed by a CPU atomic in a process that has it mapped: so local,
//! same-node and remote updates of one word are atomic together.

use crate::node::address::{GlobalAddress, Registration};
use crate::{Error, Result};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What an atomic operation does to a word. Every one gives back the old value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp<W> {
    /// Stores the second value if the word holds the first.
    CompareSwap(W, W),
    /// Stores the value.
    Swap(W),
    /// Adds, wrapping around.
    Add(W),
    /// Exclusive or.
    Xor(W),
    /// Or.
    Or(W),
    /// And.
    And(W),
}

/// The words that atomics work on: `u32` and `u64`.
pub trait AtomicWord: bytemuck::Pod + sealed::Word {}

impl AtomicWord for u32 {}
impl AtomicWord for u64 {}

pub(crate) mod sealed {
    /// A word as the wire carries it.
    pub trait Word {
        /// 8 for words of 8 bytes, 0 for words of 4: a bit of the code on the wire.
        const WIDE: u8;
        /// To 64 bits.
        fn widen(self) -> u64;
        /// From 64 bits.
        fn narrow(wide: u64) -> Self;
    }

    impl Word for u32 {
        const WIDE: u8 = 0;

        fn widen(self) -> u64 {
            self as u64
        }

        fn narrow(wide: u64) -> u32 {
            wide as u32
        }
    }

    impl Word for u64 {
        const WIDE: u8 = 8;

        fn widen(self) -> u64 {
            self
        }

        fn narrow(wide: u64) -> u64 {
            wide
        }
    }
}

impl<W: AtomicWord> AtomicOp<W> {
    /// The operation as the wire carries it: code, first and second operand.
    #[inline]
    pub(crate) fn encode(self) -> (u8, u64, u64) {
        let (code, first, second) = match self {
            AtomicOp::CompareSwap(old, new) => (1, old.widen(), new.widen()),
            AtomicOp::Swap(value) => (2, value.widen(), 0),
            AtomicOp::Add(value) => (3, value.widen(), 0),
            AtomicOp::Xor(value) => (4, value.widen(), 0),
            AtomicOp::Or(value) => (5, value.widen(), 0),
            AtomicOp::And(value) => (6, value.widen(), 0),
        };
        (code | W::WIDE, first, second)
    }
}

/// An atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AtomicCall {
    pub(crate) target: GlobalAddress,
    pub(crate) registration: Registration,
    pub(crate) code: u8,
    pub(crate) first: u64,
    pub(crate) second: u64,
}

/// The bytes of the word that a code works on; refuses codes that do not exist.
pub(crate) fn width(code: u8) -> Result<u64> {
    match code & 7 {
        1..=6 if code < 16 => Ok(if code & 8 != 0 { 8 } else { 4 }),
        _ => Err(Error::misuse(format!("there is no atomic operation with code {code}"))),
    }
}

/// What is said to whoever gives a word that is not aligned.
pub(crate) fn misaligned(target: GlobalAddress, bytes: u64) -> Error {
    Error::misuse(format!("the address {:#x} of an atomic is not a multiple of {bytes}", target.bits()))
}

/// Does an operation on a word that was checked to be in bounds.
pub(crate) fn perform(pointer: *mut u8, call: &AtomicCall) -> Result<u64> {
    let bytes = width(call.code)?;
    if !(pointer as usize).is_multiple_of(bytes as usize) {
        return Err(misaligned(call.target, bytes));
    }
    // SAFETY: the pointer was checked for `bytes` by `reach` and is aligned; the word is only ever touched by atomics
    // or by copies that take whole words.
    Ok(unsafe {
        match bytes {
            8 => perform_wide(&*pointer.cast::<AtomicU64>(), call.code & 7, call.first, call.second),
            _ => perform_narrow(
                &*pointer.cast::<AtomicU32>(),
                call.code & 7,
                call.first as u32,
                call.second as u32,
            ) as u64,
        }
    })
}

#[inline]
pub(crate) fn perform_wide(word: &AtomicU64, code: u8, first: u64, second: u64) -> u64 {
    let order = Ordering::AcqRel;
    match code {
        1 => match word.compare_exchange(first, second, order, Ordering::Acquire) {
            Ok(old) | Err(old) => old,
        },
        2 => word.swap(first, order),
        3 => word.fetch_add(first, order),
        4 => word.fetch_xor(first, order),
        5 => word.fetch_or(first, order),
        _ => word.fetch_and(first, order),
    }
}

#[inline]
pub(crate) fn perform_narrow(word: &AtomicU32, code: u8, first: u32, second: u32) -> u32 {
    let order = Ordering::AcqRel;
    match code {
        1 => match word.compare_exchange(first, second, order, Ordering::Acquire) {
            Ok(old) | Err(old) => old,
        },
        2 => word.swap(first, order),
        3 => word.fetch_add(first, order),
        4 => word.fetch_xor(first, order),
        5 => word.fetch_or(first, order),
        _ => word.fetch_and(first, order),
    }
}
