//! Types of elements as C has them, how reductions combine them, and what changes nothing when it is combined.

use crate::api::elements::How;
use crate::guard::misuse;
use kumiki::comm::{And, Integer, Max, Min, Number, Operation, Or, Product, Sum, Xor};
use kumiki::{Pod, Result};
use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_long, c_longlong, c_short, c_uchar, c_uint, c_ulong, c_ulonglong, c_ushort};

/// What a reduction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Sum,
    Product,
    And,
    Or,
    Xor,
    Both,
    Either,
    Max,
    Min,
    FirstMax,
    FirstMin,
    LastMax,
    LastMin,
}

impl Op {
    const ALL: [Op; 13] = [
        Op::Sum,
        Op::Product,
        Op::And,
        Op::Or,
        Op::Xor,
        Op::Both,
        Op::Either,
        Op::Max,
        Op::Min,
        Op::FirstMax,
        Op::FirstMin,
        Op::LastMax,
        Op::LastMin,
    ];

    pub(super) fn new(number: c_int) -> Result<Op> {
        let op = usize::try_from(number).ok().and_then(|number| Op::ALL.get(number));
        op.copied().ok_or_else(|| misuse(format!("there is no reduction {number}")))
    }

    /// As programs write it.
    fn name(self) -> &'static str {
        match self {
            Op::Sum => "+",
            Op::Product => "*",
            Op::And => "&",
            Op::Or => "|",
            Op::Xor => "^",
            Op::Both => "&&",
            Op::Either => "||",
            Op::Max => "max",
            Op::Min => "min",
            Op::FirstMax => "firstmax",
            Op::FirstMin => "firstmin",
            Op::LastMax => "lastmax",
            Op::LastMin => "lastmin",
        }
    }

    /// Whether it has a location: which extremum it is, and whether the first of equals counts.
    pub(super) fn located(self) -> Option<(Op, bool)> {
        match self {
            Op::FirstMax => Some((Op::Max, true)),
            Op::FirstMin => Some((Op::Min, true)),
            Op::LastMax => Some((Op::Max, false)),
            Op::LastMin => Some((Op::Min, false)),
            _ => None,
        }
    }
}

/// A type of elements.
#[derive(Clone, Copy)]
pub(super) struct Type {
    pub(super) bytes: usize,
    name: &'static str,
    how: fn(Op) -> Option<How>,
    identity: fn(Op) -> Option<[u8; 32]>,
    order: fn(&[u8], &[u8]) -> Option<Ordering>,
}

impl Type {
    /// The type with this number.
    pub(super) fn new(number: c_int) -> Result<Type> {
        Ok(match number {
            1 => integer::<c_char>("char"),
            2 => integer::<c_uchar>("unsigned char"),
            3 => integer::<c_short>("short"),
            4 => integer::<c_ushort>("unsigned short"),
            5 => integer::<c_int>("int"),
            6 => integer::<c_uint>("unsigned int"),
            7 => integer::<c_long>("long"),
            8 => integer::<c_ulong>("unsigned long"),
            9 => integer::<c_longlong>("long long"),
            10 => integer::<c_ulonglong>("unsigned long long"),
            11 => float::<f32>("float"),
            12 => float::<f64>("double"),
            #[cfg(target_arch = "x86_64")]
            13 => super::extended::long_double(),
            14 => complex::<f32>("float _Complex"),
            15 => complex::<f64>("double _Complex"),
            #[cfg(target_arch = "x86_64")]
            16 => super::extended::long_complex(),
            17 => truth(),
            18 => integer::<i8>("signed char"),
            _ => return Err(misuse("the variable is of a type that is not combined: it must be a number, not a structure or a pointer")),
        })
    }

    pub(super) const fn of(
        bytes: usize,
        name: &'static str,
        how: fn(Op) -> Option<How>,
        identity: fn(Op) -> Option<[u8; 32]>,
        order: fn(&[u8], &[u8]) -> Option<Ordering>,
    ) -> Type {
        Type { bytes, name, how, identity, order }
    }

    /// How elements are combined.
    pub(super) fn how(&self, op: Op) -> Result<How> {
        (self.how)(op).ok_or_else(|| self.without(op))
    }

    /// What changes nothing.
    pub(super) fn identity(&self, op: Op) -> Result<Vec<u8>> {
        let op = op.located().map_or(op, |(extremum, _)| extremum);
        (self.identity)(op).map(|identity| identity[..self.bytes].to_vec()).ok_or_else(|| self.without(op))
    }

    /// Which of two is greater.
    pub(super) fn order(&self, left: &[u8], right: &[u8]) -> Option<Ordering> {
        (self.order)(left, right)
    }

    fn without(&self, op: Op) -> kumiki::Error {
        misuse(format!("reduction {}: there is none for {}", op.name(), self.name))
    }
}

/// An element out of bytes that may lie anywhere.
pub(super) fn read<T: Pod>(bytes: &[u8]) -> T {
    let mut value = T::zeroed();
    // SAFETY: any bytes are a value of it, and so many are copied as it has.
    unsafe {
        let count = size_of::<T>().min(bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), std::ptr::from_mut(&mut value).cast::<u8>(), count);
    }
    value
}

/// The bytes of an element.
pub(super) fn bytes_of<T: Pod>(value: T) -> [u8; 32] {
    let mut bytes = [0; 32];
    // SAFETY: an element is plain data of at most so many bytes.
    unsafe {
        let count = size_of::<T>().min(32);
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(&value).cast::<u8>(), bytes.as_mut_ptr(), count);
    }
    bytes
}

/// `&&` of C, which gives 0 or 1.
#[derive(Default)]
struct Both;
/// `||` of C.
#[derive(Default)]
struct Either;

trait Scalar: Pod + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    const LEAST: Self;
    const MOST: Self;
}

macro_rules! scalars {
    ($($type:ty, $zero:expr, $one:expr, $least:expr, $most:expr;)*) => {$(
        impl Scalar for $type {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const LEAST: Self = $least;
            const MOST: Self = $most;
        }
    )*};
}

scalars! {
    i8, 0, 1, i8::MIN, i8::MAX;
    u8, 0, 1, u8::MIN, u8::MAX;
    i16, 0, 1, i16::MIN, i16::MAX;
    u16, 0, 1, u16::MIN, u16::MAX;
    i32, 0, 1, i32::MIN, i32::MAX;
    u32, 0, 1, u32::MIN, u32::MAX;
    i64, 0, 1, i64::MIN, i64::MAX;
    u64, 0, 1, u64::MIN, u64::MAX;
    f32, 0.0, 1.0, f32::NEG_INFINITY, f32::INFINITY;
    f64, 0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY;
}

fn truth_of<T: Scalar>(truth: bool) -> T {
    if truth {
        T::ONE
    } else {
        T::ZERO
    }
}

impl<T: Scalar> Operation<T> for Both {
    fn apply(&self, left: T, right: T) -> T {
        truth_of(left != T::ZERO && right != T::ZERO)
    }

    fn mark(&self) -> u64 {
        32
    }
}

impl<T: Scalar> Operation<T> for Either {
    fn apply(&self, left: T, right: T) -> T {
        truth_of(left != T::ZERO || right != T::ZERO)
    }

    fn mark(&self) -> u64 {
        33
    }
}

fn on_number<T: Scalar + Number>(op: Op) -> Option<How> {
    Some(match op {
        Op::Sum => How::of::<T, Sum>(),
        Op::Product => How::of::<T, Product>(),
        Op::Max => How::of::<T, Max>(),
        Op::Min => How::of::<T, Min>(),
        Op::Both => How::of::<T, Both>(),
        Op::Either => How::of::<T, Either>(),
        _ => return None,
    })
}

fn on_integer<T: Scalar + Integer>(op: Op) -> Option<How> {
    Some(match op {
        Op::And => How::of::<T, And>(),
        Op::Or => How::of::<T, Or>(),
        Op::Xor => How::of::<T, Xor>(),
        _ => return on_number::<T>(op),
    })
}

fn identity<T: Scalar>(op: Op) -> Option<[u8; 32]> {
    Some(match op {
        Op::Sum | Op::Or | Op::Xor | Op::Either => bytes_of(T::ZERO),
        Op::Product | Op::Both => bytes_of(T::ONE),
        Op::And => [0xff; 32],
        Op::Max => bytes_of(T::LEAST),
        Op::Min => bytes_of(T::MOST),
        _ => return None,
    })
}

fn order<T: Scalar>(left: &[u8], right: &[u8]) -> Option<Ordering> {
    read::<T>(left).partial_cmp(&read::<T>(right))
}

fn integer<T: Scalar + Integer>(name: &'static str) -> Type {
    Type::of(size_of::<T>(), name, on_integer::<T>, identity::<T>, order::<T>)
}

fn float<T: Scalar + Number>(name: &'static str) -> Type {
    let identity = |op| if op == Op::And { None } else { identity::<T>(op) };
    Type::of(size_of::<T>(), name, on_number::<T>, identity, order::<T>)
}

/// `_Bool`: what is not 0 is 1, so a sum is an or.
fn truth() -> Type {
    let how = |op| {
        Some(match op {
            Op::Sum | Op::Or | Op::Max | Op::Either => How::of::<u8, Either>(),
            Op::Product | Op::And | Op::Min | Op::Both => How::of::<u8, Both>(),
            Op::Xor => How::of::<u8, Xor>(),
            _ => return None,
        })
    };
    let identity = |op| {
        Some(match op {
            Op::Sum | Op::Or | Op::Max | Op::Either | Op::Xor => bytes_of(0u8),
            Op::Product | Op::And | Op::Min | Op::Both => bytes_of(1u8),
            _ => return None,
        })
    };
    Type::of(1, "_Bool", how, identity, order::<u8>)
}

/// A complex number, as C has it.
type Complex<T> = [T; 2];

/// The sum of complex numbers.
#[derive(Default)]
struct ComplexSum;
/// The product of complex numbers.
#[derive(Default)]
struct ComplexProduct;

trait Float:
    Scalar + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> + std::ops::Sub<Output = Self>
{
}
impl Float for f32 {}
impl Float for f64 {}

impl<T: Float> Operation<Complex<T>> for ComplexSum {
    fn apply(&self, left: Complex<T>, right: Complex<T>) -> Complex<T> {
        [left[0] + right[0], left[1] + right[1]]
    }

    fn mark(&self) -> u64 {
        34
    }
}

impl<T: Float> Operation<Complex<T>> for ComplexProduct {
    fn apply(&self, [a, b]: Complex<T>, [c, d]: Complex<T>) -> Complex<T> {
        [a * c - b * d, a * d + b * c]
    }

    fn mark(&self) -> u64 {
        35
    }
}

fn complex<T: Float>(name: &'static str) -> Type {
    let how = |op| {
        Some(match op {
            Op::Sum => How::of::<Complex<T>, ComplexSum>(),
            Op::Product => How::of::<Complex<T>, ComplexProduct>(),
            _ => return None,
        })
    };
    let identity = |op| {
        Some(match op {
            Op::Sum => bytes_of(T::ZERO),
            Op::Product => bytes_of(T::ONE),
            _ => return None,
        })
    };
    Type::of(2 * size_of::<T>(), name, how, identity, |_, _| None)
}
