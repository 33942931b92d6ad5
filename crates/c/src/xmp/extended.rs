//! `long double` of x86-64: numbers of 80 bits in 16 bytes, combined by the processor's instructions for them.

use super::values::{bytes_of, Op, Type};
use crate::api::elements::How;
use kumiki::comm::Operation;
use std::arch::asm;
use std::cmp::Ordering;

/// A `long double`.
pub(super) type Long = [u64; 2];
/// A `long double _Complex`.
type Complex = [u64; 4];

const ONE: Long = [1 << 63, 0x3fff];
const INFINITY: Long = [1 << 63, 0x7fff];
const BELOW_ALL: Long = [1 << 63, 0xffff];

/// Two numbers on the stack of the processor become one, which is written to the place of the first.
macro_rules! combined {
    ($left:expr, $right:expr, $instruction:literal) => {{
        let (mut left, right): (Long, Long) = ($left, $right);
        // SAFETY: both are memory of 16 bytes, of which ten are read and written; the stack is left empty, as it was.
        unsafe {
            asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                $instruction,
                "fstp tbyte ptr [{left}]",
                left = in(reg) &raw mut left,
                right = in(reg) &raw const right,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack)
            );
        }
        left
    }};
}

fn plus(left: Long, right: Long) -> Long {
    combined!(left, right, "faddp st(1), st")
}

fn minus(left: Long, right: Long) -> Long {
    combined!(left, right, "fsubp st(1), st")
}

fn times(left: Long, right: Long) -> Long {
    combined!(left, right, "fmulp st(1), st")
}

/// None if one of them is no number.
fn compared(left: Long, right: Long) -> Option<Ordering> {
    let (below, equal, unordered): (u8, u8, u8);
    // SAFETY: both are memory of 16 bytes, of which ten are read; the stack is left empty, as it was.
    unsafe {
        asm!(
            "fld tbyte ptr [{right}]",
            "fld tbyte ptr [{left}]",
            "fucomip st, st(1)",
            "setb {below}",
            "sete {equal}",
            "setp {unordered}",
            "fstp st(0)",
            left = in(reg) &raw const left,
            right = in(reg) &raw const right,
            below = out(reg_byte) below,
            equal = out(reg_byte) equal,
            unordered = out(reg_byte) unordered,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack)
        );
    }
    match (unordered, equal, below) {
        (0, 0, 0) => Some(Ordering::Greater),
        (0, 0, _) => Some(Ordering::Less),
        (0, _, _) => Some(Ordering::Equal),
        _ => None,
    }
}

pub(super) fn is_true(value: Long) -> bool {
    compared(value, [0; 2]) != Some(Ordering::Equal)
}

/// A number goes through the processor, which reads it as one type and writes it as another.
macro_rules! converted {
    ($from:expr, $load:literal, $to:expr, $store:literal) => {{
        let (from, mut to) = ($from, $to);
        // SAFETY: as many bytes are read and written as both have, at most; the stack is left empty, as it was.
        unsafe {
            asm!(
                $load,
                $store,
                from = in(reg) &raw const from,
                to = in(reg) &raw mut to,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack)
            );
        }
        to
    }};
}

pub(super) fn of_double(number: f64) -> Long {
    converted!(number, "fld qword ptr [{from}]", [0, 0], "fstp tbyte ptr [{to}]")
}

/// Of a number that has 64 bits, with or without a sign.
pub(super) fn of_whole(number: i128) -> Long {
    let bits = number.unsigned_abs() as u64;
    if bits == 0 {
        return [0; 2];
    }
    let above = bits.leading_zeros();
    [bits << above, u64::from(0x3fff + 63 - above) | if number < 0 { 0x8000 } else { 0 }]
}

pub(super) fn double(number: Long) -> f64 {
    converted!(number, "fld tbyte ptr [{from}]", 0.0f64, "fstp qword ptr [{to}]")
}

pub(super) fn single(number: Long) -> f32 {
    converted!(number, "fld tbyte ptr [{from}]", 0.0f32, "fstp dword ptr [{to}]")
}

/// Cut off at the point.
pub(super) fn whole([bits, rest]: Long) -> i128 {
    let below = 0x3fff + 63 - (rest & 0x7fff) as i64;
    let size = match below {
        64.. => 0,
        0.. => i128::from(bits >> below),
        -62.. => i128::from(bits) << -below,
        _ => i128::MAX,
    };
    if rest & 0x8000 == 0 {
        size
    } else {
        -size
    }
}

fn truth(truth: bool) -> Long {
    if truth {
        ONE
    } else {
        [0; 2]
    }
}

/// An operation by a function of two.
macro_rules! operations {
    ($($name:ident, $type:ty, $mark:literal, $apply:expr;)*) => {$(
        #[derive(Default)]
        struct $name;

        impl Operation<$type> for $name {
            fn apply(&self, left: $type, right: $type) -> $type {
                let apply: fn($type, $type) -> $type = $apply;
                apply(left, right)
            }

            fn mark(&self) -> u64 {
                $mark
            }
        }
    )*};
}

operations! {
    Sum, Long, 36, plus;
    Product, Long, 37, times;
    Max, Long, 38, |left, right| if compared(right, left) == Some(Ordering::Greater) { right } else { left };
    Min, Long, 39, |left, right| if compared(right, left) == Some(Ordering::Less) { right } else { left };
    Both, Long, 40, |left, right| truth(is_true(left) && is_true(right));
    Either, Long, 41, |left, right| truth(is_true(left) || is_true(right));
    ComplexSum, Complex, 42, |[a, b, c, d], [e, f, g, h]| joined(plus([a, b], [e, f]), plus([c, d], [g, h]));
    ComplexProduct, Complex, 43, |[a, b, c, d], [e, f, g, h]| {
        let ([real, imaginary], [other, turned]) = ([[a, b], [c, d]], [[e, f], [g, h]]);
        joined(
            minus(times(real, other), times(imaginary, turned)),
            plus(times(real, turned), times(imaginary, other)),
        )
    };
}

fn joined([a, b]: Long, [c, d]: Long) -> Complex {
    [a, b, c, d]
}

fn order(left: &[u8], right: &[u8]) -> Option<Ordering> {
    compared(super::values::read(left), super::values::read(right))
}

/// `long double`.
pub(super) fn long_double() -> Type {
    let how = |op| {
        Some(match op {
            Op::Sum => How::of::<Long, Sum>(),
            Op::Product => How::of::<Long, Product>(),
            Op::Max => How::of::<Long, Max>(),
            Op::Min => How::of::<Long, Min>(),
            Op::Both => How::of::<Long, Both>(),
            Op::Either => How::of::<Long, Either>(),
            _ => return None,
        })
    };
    let identity = |op| {
        Some(match op {
            Op::Sum | Op::Either => [0; 32],
            Op::Product | Op::Both => bytes_of(ONE),
            Op::Max => bytes_of(BELOW_ALL),
            Op::Min => bytes_of(INFINITY),
            _ => return None,
        })
    };
    Type::of(16, "long double", how, identity, order)
}

/// `long double _Complex`.
pub(super) fn long_complex() -> Type {
    let how = |op| {
        Some(match op {
            Op::Sum => How::of::<Complex, ComplexSum>(),
            Op::Product => How::of::<Complex, ComplexProduct>(),
            _ => return None,
        })
    };
    let identity = |op| {
        Some(match op {
            Op::Sum => [0; 32],
            Op::Product => bytes_of(ONE),
            _ => return None,
        })
    };
    Type::of(32, "long double _Complex", how, identity, |_, _| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_eighty_bits_are_combined() {
        let two = plus(ONE, ONE);
        assert_eq!(two, [1 << 63, 0x4000]);
        assert_eq!(minus(times(two, two), plus(two, ONE)), ONE);
        assert_eq!(compared(ONE, two), Some(Ordering::Less));
        assert_eq!(compared(BELOW_ALL, INFINITY), Some(Ordering::Less));
        assert_eq!(compared(two, two), Some(Ordering::Equal));
        assert!(is_true(two) && !is_true([0; 2]));
    }
}
