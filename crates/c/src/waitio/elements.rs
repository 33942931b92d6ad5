//! Types of elements, and how they are combined, as WaitIO numbers them.

use crate::api::elements::{how as known, How};
use crate::guard::misuse;
use kumiki::comm::Operation;
use kumiki::{Pod, Result, Zeroable};
use std::ffi::c_int;

/// Where the numbers begin, of types and of operations.
const BASE: c_int = 0x80000;

/// Types in the order of their numbers: the name, the type of `kumiki.h` that does the same (0: none), and bytes.
const TYPES: [(&str, c_int, usize); 18] = [
    ("INT", 5, 4),
    ("LONG", 7, 8),
    ("CHAR", 1, 1),
    ("FLOAT", 9, 4),
    ("DOUBLE", 10, 8),
    ("SHORT", 3, 2),
    ("LONG_LONG", 7, 8),
    ("UNSIGNED_CHAR", 2, 1),
    ("UNSIGNED_SHORT", 4, 2),
    ("UNSIGNED", 6, 4),
    ("UNSIGNED_LONG", 8, 8),
    ("UNSIGNED_LONG_LONG", 8, 8),
    ("SIGNED_CHAR", 1, 1),
    ("BYTE", 2, 1),
    ("C_BOOL", 2, 1),
    ("LOGICAL", 5, 4),
    ("COMPLEX", 0, 8),
    ("DOUBLE_COMPLEX", 0, 16),
];

/// Operations in the order of their numbers: the name, and the one of `kumiki.h` that does the same (0: none).
const OPERATIONS: [(&str, c_int); 10] = [
    ("SUM", 3),
    ("MAX", 8),
    ("MIN", 7),
    ("PROD", 9),
    ("LAND", 0),
    ("BAND", 6),
    ("LOR", 0),
    ("BOR", 5),
    ("LXOR", 0),
    ("BXOR", 4),
];

/// What a number stands for in a table.
fn find<T: Copy>(table: &[T], number: c_int, name: &str) -> Result<T> {
    let at = number.checked_sub(BASE + 1).and_then(|at| usize::try_from(at).ok());
    let found = at.and_then(|at| table.get(at)).copied();
    found.ok_or_else(|| misuse(format!("{name}: {number:#x} is none of WaitIO; see waitio_mpi.h")))
}

/// Bytes of an element.
pub(super) fn bytes_of(datatype: c_int) -> Result<usize> {
    find(&TYPES, datatype, "type").map(|(_, _, bytes)| bytes)
}

/// Bytes of so many elements.
pub(super) fn bytes_for(count: c_int, datatype: c_int) -> Result<usize> {
    let element = bytes_of(datatype)?;
    let count =
        usize::try_from(count).map_err(|_| misuse(format!("count: there are no {count} elements")))?;
    Ok(count * element)
}

/// What elements of a type and an operation come to.
pub(super) fn how(datatype: c_int, operation: c_int) -> Result<How> {
    let (element, number, _) = find(&TYPES, datatype, "type")?;
    let (name, same) = find(&OPERATIONS, operation, "op")?;
    let found = match (number, same) {
        (0, _) if element == "COMPLEX" => complex::<f32>(name),
        (0, _) => complex::<f64>(name),
        (_, 0) => logical(number, name),
        _ => known(number, same).ok(),
    };
    found.ok_or_else(|| {
        misuse(format!("op: elements of the type WAITIO_MPI_{element} have no WAITIO_MPI_{name}"))
    })
}

/// A number that is true if it is not 0.
trait Truth: Pod + PartialEq {
    const TRUE: Self;
}

macro_rules! truths {
    ($($name:ty = $one:literal)*) => {$(
        impl Truth for $name {
            const TRUE: $name = $one;
        }
    )*};
}

truths!(i8 = 1 u8 = 1 i16 = 1 u16 = 1 i32 = 1 u32 = 1 i64 = 1 u64 = 1 f32 = 1.0 f64 = 1.0);

/// Operations on what is true or not.
macro_rules! logicals {
    ($($(#[$doc:meta])* $name:ident, $mark:literal, $apply:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Default)]
        struct $name;

        impl<T: Truth> Operation<T> for $name {
            fn apply(&self, left: T, right: T) -> T {
                let apply: fn(bool, bool) -> bool = $apply;
                let is_true = apply(left != T::zeroed(), right != T::zeroed());
                if is_true { T::TRUE } else { T::zeroed() }
            }

            fn mark(&self) -> u64 {
                $mark
            }
        }
    )*};
}

logicals! {
    /// Whether all are true.
    All, 20, |left, right| left && right;
    /// Whether any is true.
    Any, 21, |left, right| left || right;
    /// Whether an odd number is true.
    Odd, 22, |left, right| left != right;
}

fn logical(number: c_int, name: &str) -> Option<How> {
    fn on<T: Truth>(name: &str) -> Option<How> {
        Some(match name {
            "LAND" => How::of::<T, All>(),
            "LOR" => How::of::<T, Any>(),
            "LXOR" => How::of::<T, Odd>(),
            _ => return None,
        })
    }
    match number {
        1 => on::<i8>(name),
        2 => on::<u8>(name),
        3 => on::<i16>(name),
        4 => on::<u16>(name),
        5 => on::<i32>(name),
        6 => on::<u32>(name),
        7 => on::<i64>(name),
        8 => on::<u64>(name),
        9 => on::<f32>(name),
        10 => on::<f64>(name),
        _ => None,
    }
}

/// A complex number, as Fortran and C have it.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Complex<T>([T; 2]);

// SAFETY: an array of two numbers, of which all bits mean something.
unsafe impl<T: Zeroable> Zeroable for Complex<T> {}
// SAFETY: as above; there is nothing between the two.
unsafe impl<T: Pod> Pod for Complex<T> {}

#[derive(Default)]
struct ComplexSum;
#[derive(Default)]
struct ComplexProduct;

macro_rules! complexes {
    ($($name:ty)*) => {$(
        impl Operation<Complex<$name>> for ComplexSum {
            fn apply(&self, Complex([a, b]): Complex<$name>, Complex([c, d]): Complex<$name>) -> Complex<$name> {
                Complex([a + c, b + d])
            }

            fn mark(&self) -> u64 {
                23
            }
        }

        impl Operation<Complex<$name>> for ComplexProduct {
            fn apply(&self, Complex([a, b]): Complex<$name>, Complex([c, d]): Complex<$name>) -> Complex<$name> {
                Complex([a * c - b * d, a * d + b * c])
            }

            fn mark(&self) -> u64 {
                24
            }
        }
    )*};
}

complexes!(f32 f64);

fn complex<T: Pod>(name: &str) -> Option<How>
where
    ComplexSum: Operation<Complex<T>>,
    ComplexProduct: Operation<Complex<T>>,
{
    match name {
        "SUM" => Some(How::of::<Complex<T>, ComplexSum>()),
        "PROD" => Some(How::of::<Complex<T>, ComplexProduct>()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiki::raw::groups::Combination;

    fn combined<T: Pod>(datatype: c_int, operation: c_int, left: &[T], right: &[T]) -> Vec<T> {
        let how = how(BASE + datatype, BASE + operation).expect("there is one");
        let bytes = |elements: &[T]| -> Vec<u8> {
            let count = size_of_val(elements);
            // SAFETY: plain bytes of a slice.
            unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), count) }.to_vec()
        };
        let mut into = bytes(left);
        how.merge(&mut into, &bytes(right), false);
        // SAFETY: as many bytes as there were, of plain elements.
        (0..left.len()).map(|at| unsafe { into.as_ptr().cast::<T>().add(at).read_unaligned() }).collect()
    }

    #[test]
    fn every_type_has_its_bytes_and_sums() {
        for number in 1..=18 {
            let element = bytes_of(BASE + number).expect("it is one");
            assert_eq!(how(BASE + number, BASE + 1).expect("a sum").element_bytes(), element, "{number}");
        }
        assert!(bytes_of(BASE).is_err() && bytes_of(BASE + 19).is_err() && bytes_of(c_int::MIN).is_err());
        assert!(how(BASE + 4, BASE + 6).is_err(), "no bits of floats");
        assert!(how(BASE + 17, BASE + 2).is_err(), "no largest complex number");
        assert!(how(BASE + 1, BASE + 11).is_err() && how(BASE + 1, 0).is_err());
        assert_eq!(bytes_for(3, BASE + 5).expect("24"), 24);
        assert!(bytes_for(-1, BASE + 5).is_err());
    }

    #[test]
    fn operations_do_what_their_names_say() {
        assert_eq!(combined(1, 1, &[3, -4], &[5, 6]), [8, 2]);
        assert_eq!(combined(5, 2, &[3.0, -4.0], &[5.0, -6.0]), [5.0, -4.0]);
        assert_eq!(combined(2, 3, &[3i64, -4], &[5, 6]), [3, -4]);
        assert_eq!(combined(4, 4, &[3f32], &[0.5]), [1.5]);
        assert_eq!(combined(16, 5, &[7, 0, 7, 0], &[7, 7, 0, 0]), [1, 0, 0, 0]);
        assert_eq!(combined(15, 7, &[7u8, 0, 7, 0], &[7, 7, 0, 0]), [1, 1, 1, 0]);
        assert_eq!(combined(5, 9, &[7.0, 0.0, 7.0, 0.0], &[7.0, 7.0, 0.0, 0.0]), [0.0, 1.0, 1.0, 0.0]);
        assert_eq!(combined(10, 6, &[6u32], &[3]), [2]);
        assert_eq!(combined(9, 8, &[6u16], &[3]), [7]);
        assert_eq!(combined(12, 10, &[6u64], &[3]), [5]);
        assert_eq!(combined(17, 4, &[1f32, 2.0, 3.0, 4.0], &[5f32, 6.0, 0.0, 1.0]), [-7.0, 16.0, -4.0, 3.0]);
        assert_eq!(combined(18, 1, &[1.0, 2.0], &[5.0, 6.0]), [6.0, 8.0]);
    }
}
