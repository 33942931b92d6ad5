//! Numbers of one type as those of another, as an assignment of C converts them.

#[cfg(target_arch = "x86_64")]
use super::extended::{self, Long};
use super::values::{bytes_of, read};
use crate::guard::misuse;
use kumiki::Result;
use std::ffi::{c_char, c_int};

/// A real number of any type.
#[derive(Clone, Copy)]
enum Part {
    Whole(i128),
    Real(f64),
    #[cfg(target_arch = "x86_64")]
    Long(Long),
}

impl Part {
    /// What does not fit ends at the last that does.
    fn whole(self) -> i128 {
        match self {
            Part::Whole(number) => number,
            Part::Real(number) => number as i128,
            #[cfg(target_arch = "x86_64")]
            Part::Long(number) => extended::whole(number),
        }
    }

    fn double(self) -> f64 {
        match self {
            Part::Whole(number) => number as f64,
            Part::Real(number) => number,
            #[cfg(target_arch = "x86_64")]
            Part::Long(number) => extended::double(number),
        }
    }

    /// Rounded once, not to a double before.
    fn single(self) -> f32 {
        match self {
            Part::Whole(number) => number as f32,
            Part::Real(number) => number as f32,
            #[cfg(target_arch = "x86_64")]
            Part::Long(number) => extended::single(number),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn long(self) -> Long {
        match self {
            Part::Whole(number) => extended::of_whole(number),
            Part::Real(number) => extended::of_double(number),
            Part::Long(number) => number,
        }
    }

    fn is_true(self) -> bool {
        match self {
            Part::Whole(number) => number != 0,
            Part::Real(number) => number != 0.0,
            #[cfg(target_arch = "x86_64")]
            Part::Long(number) => extended::is_true(number),
        }
    }
}

/// A number of any type: its real and its imaginary part.
type Number = (Part, Part);

/// Reads a number of a type.
fn number(kind: c_int, bytes: &[u8]) -> Option<Number> {
    let part = match kind {
        1 => Part::Whole(read::<c_char>(bytes).into()),
        18 => Part::Whole(read::<i8>(bytes).into()),
        2 | 17 => Part::Whole(read::<u8>(bytes).into()),
        3 => Part::Whole(read::<i16>(bytes).into()),
        4 => Part::Whole(read::<u16>(bytes).into()),
        5 => Part::Whole(read::<i32>(bytes).into()),
        6 => Part::Whole(read::<u32>(bytes).into()),
        7 | 9 => Part::Whole(read::<i64>(bytes).into()),
        8 | 10 => Part::Whole(read::<u64>(bytes).into()),
        11 => Part::Real(read::<f32>(bytes).into()),
        12 => Part::Real(read::<f64>(bytes)),
        #[cfg(target_arch = "x86_64")]
        13 => Part::Long(read(bytes)),
        14 => {
            let [real, imaginary]: [f32; 2] = read(bytes);
            return Some((Part::Real(real.into()), Part::Real(imaginary.into())));
        }
        15 => {
            let [real, imaginary]: [f64; 2] = read(bytes);
            return Some((Part::Real(real), Part::Real(imaginary)));
        }
        #[cfg(target_arch = "x86_64")]
        16 => {
            let [a, b, c, d]: [u64; 4] = read(bytes);
            return Some((Part::Long([a, b]), Part::Long([c, d])));
        }
        _ => return None,
    };
    Some((part, Part::Whole(0)))
}

/// Reads a whole number of a type; none of a type of other numbers, or if it is too large.
pub(super) fn whole(kind: c_int, bytes: &[u8]) -> Option<i64> {
    match number(kind, bytes)?.0 {
        Part::Whole(number) => i64::try_from(number).ok(),
        _ => None,
    }
}

/// The bytes of a number as one of a type. Of a whole number that does not fit the low bits stay.
fn bytes(kind: c_int, (real, imaginary): Number) -> Option<([u8; 32], usize)> {
    Some(match kind {
        1 | 2 | 18 => (bytes_of(real.whole() as u8), 1),
        17 => (bytes_of(u8::from(real.is_true() || imaginary.is_true())), 1),
        3 | 4 => (bytes_of(real.whole() as u16), 2),
        5 | 6 => (bytes_of(real.whole() as u32), 4),
        7..=10 => (bytes_of(real.whole() as u64), 8),
        11 => (bytes_of(real.single()), 4),
        12 => (bytes_of(real.double()), 8),
        #[cfg(target_arch = "x86_64")]
        13 => (bytes_of(real.long()), 16),
        14 => (bytes_of([real.single(), imaginary.single()]), 8),
        15 => (bytes_of([real.double(), imaginary.double()]), 16),
        #[cfg(target_arch = "x86_64")]
        16 => (bytes_of([real.long(), imaginary.long()]), 32),
        _ => return None,
    })
}

/// Whether numbers of one type can become those of another.
pub(super) fn is_possible(from: c_int, to: c_int) -> bool {
    number(from, &[0; 32]).and_then(|zero| bytes(to, zero)).is_some()
}

/// Elements of one type, one behind the other, as those of another.
pub(super) fn converted(values: &[u8], element: usize, from: c_int, to: c_int) -> Result<Vec<u8>> {
    let mut result = Vec::with_capacity(values.len());
    for value in values.chunks_exact(element.max(1)) {
        convert(value, from, to, &mut result)?;
    }
    Ok(result)
}

/// Puts an element of one type, as one of another, behind what is there.
pub(super) fn convert(value: &[u8], from: c_int, to: c_int, result: &mut Vec<u8>) -> Result<()> {
    let converted = number(from, value).and_then(|number| bytes(to, number));
    let (bytes, count) = converted.ok_or_else(|| misuse("these types are not converted into each other"))?;
    result.extend_from_slice(&bytes[..count]);
    Ok(())
}

/// Why types are not converted into each other. A `long double` lies otherwise on other processors, and nobody has written that.
pub(super) fn why_not(one: c_int, other: c_int) -> &'static str {
    let is_number = |kind| (1..=18).contains(&kind);
    let is_long = |kind| matches!(kind, 13 | 16);
    match is_number(one) && is_number(other) && (is_long(one) || is_long(other)) {
        true if !is_possible(13, 12) => {
            "are converted on x86-64 only (`long double`): use `double`, or the same type on both sides"
        }
        _ => "C does not convert into each other",
    }
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
        assert!(is_possible(5, 12) && is_possible(5, 15) && !is_possible(0, 5) && !is_possible(5, 0));
        assert!(why_not(0, 5).starts_with("C does not"));
        let is_long_there = cfg!(target_arch = "x86_64");
        assert_eq!(
            (is_possible(13, 12), why_not(13, 12).contains("x86-64")),
            (is_long_there, !is_long_there)
        );
        // Rounded once.
        let odd = (1i64 << 54) + (1 << 30) + 1;
        assert_eq!(one(&odd.to_ne_bytes(), 7, 11), (odd as f32).to_ne_bytes());
        let pair = [1.5f64.to_ne_bytes(), (-2.0f64).to_ne_bytes()].concat();
        assert_eq!(one(&pair, 15, 12), 1.5f64.to_ne_bytes());
        assert_eq!(one(&pair, 15, 14), [1.5f32.to_ne_bytes(), (-2.0f32).to_ne_bytes()].concat());
        assert_eq!(one(&4u8.to_ne_bytes(), 2, 14), [4.0f32.to_ne_bytes(), [0; 4]].concat());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    #[cfg_attr(miri, ignore)]
    fn long_doubles_are_converted_as_c_does() {
        let one = |value: &[u8], from, to| converted(value, value.len(), from, to).unwrap();
        for whole in [0, 1, -3, i64::MAX, i64::MIN + 1] {
            let long = one(&whole.to_ne_bytes(), 7, 13);
            assert_eq!(one(&long, 13, 7), whole.to_ne_bytes());
            assert_eq!(one(&long, 13, 12), (whole as f64).to_ne_bytes());
        }
        assert_eq!(one(&one(&u64::MAX.to_ne_bytes(), 8, 13), 13, 10), u64::MAX.to_ne_bytes());
        let long = one(&(-2.75f64).to_ne_bytes(), 12, 13);
        assert_eq!(one(&long, 13, 5), (-2i32).to_ne_bytes());
        assert_eq!(one(&long, 13, 11), (-2.75f32).to_ne_bytes());
        assert_eq!(one(&long, 13, 17), [1]);
        assert_eq!(one(&one(&long, 13, 16), 16, 13), long);
    }
}
