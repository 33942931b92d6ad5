//! Numbers of one type as those of another, as an assignment of C converts them.

use super::values::{bytes_of, read};
use crate::guard::misuse;
use kumiki::Result;
use std::ffi::{c_char, c_int};

/// A number of any type.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

/// Reads a number of a type.
fn number(kind: c_int, bytes: &[u8]) -> Option<Number> {
    Some(match kind {
        1 => Number::Whole(read::<c_char>(bytes).into()),
        18 => Number::Whole(read::<i8>(bytes).into()),
        2 | 17 => Number::Whole(read::<u8>(bytes).into()),
        3 => Number::Whole(read::<i16>(bytes).into()),
        4 => Number::Whole(read::<u16>(bytes).into()),
        5 => Number::Whole(read::<i32>(bytes).into()),
        6 => Number::Whole(read::<u32>(bytes).into()),
        7 | 9 => Number::Whole(read::<i64>(bytes).into()),
        8 | 10 => Number::Whole(read::<u64>(bytes).into()),
        11 => Number::Real(read::<f32>(bytes).into()),
        12 => Number::Real(read::<f64>(bytes)),
        _ => return None,
    })
}

/// Reads a whole number of a type; none of a type of other numbers, or if it is too large.
pub(super) fn whole(kind: c_int, bytes: &[u8]) -> Option<i64> {
    match number(kind, bytes)? {
        Number::Whole(number) => i64::try_from(number).ok(),
        Number::Real(_) => None,
    }
}

/// The bytes of a number as one of a type.
fn bytes(kind: c_int, number: Number) -> Option<([u8; 32], usize)> {
    // What does not fit wraps around, or ends at the last that does.
    let whole = match number {
        Number::Whole(number) => number,
        Number::Real(number) => number as i128,
    };
    let real = match number {
        Number::Whole(number) => number as f64,
        Number::Real(number) => number,
    };
    Some(match kind {
        1 | 2 | 18 => (bytes_of(whole as u8), 1),
        17 => (bytes_of(u8::from(real != 0.0)), 1),
        3 | 4 => (bytes_of(whole as u16), 2),
        5 | 6 => (bytes_of(whole as u32), 4),
        7..=10 => (bytes_of(whole as u64), 8),
        11 => (bytes_of(real as f32), 4),
        12 => (bytes_of(real), 8),
        _ => return None,
    })
}

/// Whether numbers of one type can become those of another.
pub(super) fn is_possible(from: c_int, to: c_int) -> bool {
    number(from, &[0; 32]).and_then(|number| bytes(to, number)).is_some()
}

/// Elements of one type, one behind the other, as those of another.
pub(super) fn converted(values: &[u8], element: usize, from: c_int, to: c_int) -> Result<Vec<u8>> {
    let mut result = Vec::with_capacity(values.len());
    for value in values.chunks_exact(element.max(1)) {
        let converted = number(from, value).and_then(|number| bytes(to, number));
        let (bytes, count) =
            converted.ok_or_else(|| misuse("these types are not converted into each other"))?;
        result.extend_from_slice(&bytes[..count]);
    }
    Ok(result)
}

/// Bytes of an element of a type that is converted.
pub(super) fn element_of(kind: c_int) -> usize {
    bytes(kind, Number::Whole(0)).map_or(0, |(_, count)| count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_converted_as_c_does() {
        let one = |value: &[u8], from, to| converted(value, value.len(), from, to).unwrap();
        assert_eq!(one(&(-3i32).to_ne_bytes(), 5, 12), (-3.0f64).to_ne_bytes());
        assert_eq!(one(&2.75f64.to_ne_bytes(), 12, 7), 2i64.to_ne_bytes());
        assert_eq!(one(&300i32.to_ne_bytes(), 5, 2), [44]);
        assert_eq!(one(&0.5f32.to_ne_bytes(), 11, 17), [1]);
        assert!(is_possible(5, 12) && !is_possible(5, 15) && !is_possible(0, 5));
    }
}
