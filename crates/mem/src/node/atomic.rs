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
    /// Stores the second value if the word holds the first, bit by bit: of floating-point numbers too, so that a NaN is
    /// itself and 0 is not -0.
    CompareSwap(W, W),
    /// Stores the value.
    Swap(W),
    /// Adds; integers wrap around.
    Add(W),
    /// Exclusive or, of the bits of whatever the word is.
    Xor(W),
    /// Or, likewise.
    Or(W),
    /// And, likewise.
    And(W),
    /// Keeps the smaller one. Of a number and a NaN that is the number.
    Min(W),
    /// Keeps the larger one. Of a number and a NaN that is the number.
    Max(W),
}

/// The words that atomics work on: `u32`, `u64`, `i32`, `i64`, `f32` and `f64`.
///
/// Floating-point numbers are added in the order in which the atomics come to the word, so that sums may differ in their last
/// bits from run to run.
pub trait AtomicWord: bytemuck::Pod + PartialOrd + sealed::Word {}

/// Bits of the code of an operation that say what is done.
const OPERATION: u8 = 15;
/// The bit of a code that says that the word has 8 bytes.
const WIDE: u8 = 16;

/// The operations by number. Those of signed and floating-point numbers follow where they differ.
mod number {
    pub(super) const COMPARE_SWAP: u8 = 1;
    pub(super) const SWAP: u8 = 2;
    pub(super) const ADD: u8 = 3;
    pub(super) const XOR: u8 = 4;
    pub(super) const OR: u8 = 5;
    pub(super) const AND: u8 = 6;
    pub(super) const MIN: u8 = 7;
    pub(super) const MAX: u8 = 8;
    pub(super) const SIGNED_MIN: u8 = 9;
    pub(super) const SIGNED_MAX: u8 = 10;
    pub(super) const FLOAT_ADD: u8 = 11;
    pub(super) const FLOAT_MIN: u8 = 12;
    pub(super) const FLOAT_MAX: u8 = 13;
}

pub(crate) mod sealed {
    /// A word as the wire carries it.
    pub trait Word {
        /// The bit of a code for words of 8 bytes, or nothing.
        const WIDE: u8;
        /// The numbers of adding, and of keeping the smaller and the larger one.
        const ADD_MIN_MAX: [u8; 3];
        /// To 64 bits.
        fn widen(self) -> u64;
        /// From 64 bits.
        fn narrow(wide: u64) -> Self;
    }
}

/// Makes a type a word: by way of the unsigned integer of its size.
macro_rules! word {
    ($word:ty, $bits:ty, $wide:expr, $numbers:expr, $to_bits:expr, $from_bits:expr) => {
        impl AtomicWord for $word {}

        impl sealed::Word for $word {
            const WIDE: u8 = $wide;
            const ADD_MIN_MAX: [u8; 3] = $numbers;

            #[inline(always)]
            fn widen(self) -> u64 {
                let to_bits: fn($word) -> $bits = $to_bits;
                to_bits(self) as u64
            }

            #[inline(always)]
            fn narrow(wide: u64) -> $word {
                let from_bits: fn($bits) -> $word = $from_bits;
                from_bits(wide as $bits)
            }
        }
    };
}

const UNSIGNED: [u8; 3] = [number::ADD, number::MIN, number::MAX];
const SIGNED: [u8; 3] = [number::ADD, number::SIGNED_MIN, number::SIGNED_MAX];
const FLOAT: [u8; 3] = [number::FLOAT_ADD, number::FLOAT_MIN, number::FLOAT_MAX];

word!(u32, u32, 0, UNSIGNED, |word| word, |bits| bits);
word!(u64, u64, WIDE, UNSIGNED, |word| word, |bits| bits);
word!(i32, u32, 0, SIGNED, |word| word as u32, |bits| bits as i32);
word!(i64, u64, WIDE, SIGNED, |word| word as u64, |bits| bits as i64);
word!(f32, u32, 0, FLOAT, f32::to_bits, f32::from_bits);
word!(f64, u64, WIDE, FLOAT, f64::to_bits, f64::from_bits);

impl<W: AtomicWord> AtomicOp<W> {
    /// The operation as the wire carries it: code, first and second operand.
    #[inline(always)]
    pub(crate) fn encode(self) -> (u8, u64, u64) {
        let [add, min, max] = W::ADD_MIN_MAX;
        let (number, first, second) = match self {
            AtomicOp::CompareSwap(old, new) => (number::COMPARE_SWAP, old.widen(), new.widen()),
            AtomicOp::Swap(value) => (number::SWAP, value.widen(), 0),
            AtomicOp::Add(value) => (add, value.widen(), 0),
            AtomicOp::Xor(value) => (number::XOR, value.widen(), 0),
            AtomicOp::Or(value) => (number::OR, value.widen(), 0),
            AtomicOp::And(value) => (number::AND, value.widen(), 0),
            AtomicOp::Min(value) => (min, value.widen(), 0),
            AtomicOp::Max(value) => (max, value.widen(), 0),
        };
        (number | W::WIDE, first, second)
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
    match code & OPERATION {
        number::COMPARE_SWAP..=number::FLOAT_MAX if code & !(OPERATION | WIDE) == 0 => {
            Ok(if code & WIDE != 0 { 8 } else { 4 })
        }
        _ => Err(Error::misuse(format!("there is no atomic operation with code {code}"))),
    }
}

/// Whether a code that exists compares first, and so has two operands.
pub(crate) fn is_compare_swap(code: u8) -> bool {
    code & OPERATION == number::COMPARE_SWAP
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
            8 => change::<u64>(pointer, call.code, call.first, call.second),
            _ => change::<u32>(pointer, call.code, call.first, call.second),
        }
    })
}

/// Does the operation of a code on a word, and gives back its old value.
///
/// # Safety
/// The pointer must be valid for a `W` and aligned.
#[inline(always)]
pub(crate) unsafe fn change<W: AtomicWord>(pointer: *mut u8, code: u8, first: u64, second: u64) -> u64 {
    // SAFETY: as the caller promises; every bit pattern is valid.
    unsafe {
        match size_of::<W>() {
            8 => change_wide(&*pointer.cast(), code & OPERATION, first, second),
            _ => change_narrow(&*pointer.cast(), code & OPERATION, first as u32, second as u32) as u64,
        }
    }
}

/// A function that does an operation on words of one width.
macro_rules! change {
    ($name:ident, $atomic:ty, $word:ty, $signed:ty, $float:ty) => {
        #[inline(always)]
        fn $name(word: &$atomic, number: u8, first: $word, second: $word) -> $word {
            let order = Ordering::AcqRel;
            // What the machine has no instruction for: read, and store if nobody else has meanwhile.
            let by = |new: fn($word, $word) -> $word| {
                let changed = word.fetch_update(order, Ordering::Acquire, |old| Some(new(old, first)));
                changed.unwrap_or_else(|old| old)
            };
            match number {
                number::COMPARE_SWAP => {
                    match word.compare_exchange(first, second, order, Ordering::Acquire) {
                        Ok(old) | Err(old) => old,
                    }
                }
                number::SWAP => word.swap(first, order),
                number::ADD => word.fetch_add(first, order),
                number::XOR => word.fetch_xor(first, order),
                number::OR => word.fetch_or(first, order),
                number::AND => word.fetch_and(first, order),
                number::MIN => word.fetch_min(first, order),
                number::MAX => word.fetch_max(first, order),
                number::SIGNED_MIN => by(|old, first| (old as $signed).min(first as $signed) as $word),
                number::SIGNED_MAX => by(|old, first| (old as $signed).max(first as $signed) as $word),
                number::FLOAT_ADD => {
                    by(|old, first| (<$float>::from_bits(old) + <$float>::from_bits(first)).to_bits())
                }
                number::FLOAT_MIN => {
                    by(|old, first| <$float>::from_bits(old).min(<$float>::from_bits(first)).to_bits())
                }
                _ => by(|old, first| <$float>::from_bits(old).max(<$float>::from_bits(first)).to_bits()),
            }
        }
    };
}

change!(change_wide, AtomicU64, u64, i64, f64);
change!(change_narrow, AtomicU32, u32, i32, f32);

#[cfg(test)]
mod tests {
    use super::*;

    fn changed<W: AtomicWord>(before: W, operation: AtomicOp<W>) -> W {
        let mut word = 0u64;
        let pointer: *mut u8 = (&raw mut word).cast();
        let (code, first, second) = operation.encode();
        assert_eq!(width(code).unwrap() as usize, size_of::<W>());
        // SAFETY: the word is ours, large enough and aligned.
        unsafe {
            pointer.cast::<W>().write(before);
            assert_eq!(change::<W>(pointer, code, first, second), before.widen());
            pointer.cast::<W>().read()
        }
    }

    #[test]
    fn a_word_is_compared_as_what_it_is() {
        assert_eq!(changed(5u32, AtomicOp::Min(u32::MAX)), 5);
        assert_eq!(changed(5u64, AtomicOp::Max(u64::MAX)), u64::MAX);
        assert_eq!(changed(5i32, AtomicOp::Min(-1)), -1);
        assert_eq!(changed(-5i32, AtomicOp::Max(-1)), -1);
        assert_eq!(changed(i64::MIN, AtomicOp::Add(-1)), i64::MAX);
        assert_eq!(changed(-5i64, AtomicOp::Min(3)), -5);
        assert_eq!(changed(-5i64, AtomicOp::Max(3)), 3);
        assert_eq!(changed(1.5f32, AtomicOp::Add(0.25)), 1.75);
        assert_eq!(changed(-1.5f32, AtomicOp::Min(-2.0)), -2.0);
        assert_eq!(changed(1.5f64, AtomicOp::Add(-3.0)), -1.5);
        assert_eq!(changed(-1.5f64, AtomicOp::Max(-2.0)), -1.5);
        assert_eq!(changed(2.0f64, AtomicOp::CompareSwap(2.0, 7.0)), 7.0);
    }

    #[test]
    fn a_nan_gives_way_to_a_number_and_spoils_a_sum() {
        assert_eq!(changed(f64::NAN, AtomicOp::Min(3.0)), 3.0);
        assert_eq!(changed(3.0f32, AtomicOp::Max(f32::NAN)), 3.0);
        assert!(changed(3.0f64, AtomicOp::Add(f64::NAN)).is_nan());
        assert_eq!(changed(f64::NAN, AtomicOp::CompareSwap(f64::NAN, 1.0)), 1.0);
    }

    #[test]
    fn codes_that_no_operation_has_are_refused() {
        let known = (0..=u8::MAX).filter(|&code| width(code).is_ok()).count();
        assert_eq!(known, 26);
        for code in [0, 14, 15, 16, 30, 31, 32 + 3, 64 + 3, 128 + 3] {
            assert!(width(code).is_err(), "{code}");
        }
    }
}
