//! How elements are combined: the operations of reductions and scans.

use crate::Pod;
use kumiki_mem::Located;
use std::marker::PhantomData;

/// How two elements become one. It must be associative, as far as the program cares: which pairs are combined first depends on the
/// algorithm, but the order of the members is kept unless it [commutes](Self::commutes).
pub trait Operation<T> {
    /// The element that stands for both; `left` is of a member before that of `right`.
    fn apply(&self, left: T, right: T) -> T;

    /// Whether the order of the two does not matter. Then more algorithms will do.
    fn commutes(&self) -> bool {
        true
    }

    /// A number that differs between operations, so that members who come with different ones are found out.
    fn mark(&self) -> u64;
}

/// A number that can be added, multiplied and compared: all integers of 1 to 16 bytes and both floating-point types. Sums and
/// products of integers wrap around.
pub trait Number: Pod + PartialOrd {
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
}

/// A number with bits.
pub trait Integer: Number {
    /// Bits of both.
    fn and(self, other: Self) -> Self;
    /// Bits of either.
    fn or(self, other: Self) -> Self;
    /// Bits of one of the two.
    fn xor(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($name:ty)*) => {$(
        impl Number for $name {
            #[inline]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline]
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
        }
        impl Integer for $name {
            #[inline]
            fn and(self, other: Self) -> Self { self & other }
            #[inline]
            fn or(self, other: Self) -> Self { self | other }
            #[inline]
            fn xor(self, other: Self) -> Self { self ^ other }
        }
    )*};
}

macro_rules! floats {
    ($($name:ty)*) => {$(
        impl Number for $name {
            #[inline]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline]
            fn times(self, other: Self) -> Self { self * other }
        }
    )*};
}

integers!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize);
floats!(f32 f64);

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident, $kind:ident, $mark:literal, $apply:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name;

        impl<T: $kind> Operation<T> for $name {
            #[inline]
            fn apply(&self, left: T, right: T) -> T {
                let apply: fn(T, T) -> T = $apply;
                apply(left, right)
            }

            fn mark(&self) -> u64 {
                $mark
            }
        }
    )*};
}

operations! {
    /// The sum of all.
    Sum, Number, 1, T::plus;
    /// The product of all.
    Product, Number, 2, T::times;
    /// The smallest. A NaN counts only if all are.
    Min, Number, 3, |left, right| if right < left || is_nan(left) { right } else { left };
    /// The largest. A NaN counts only if all are.
    Max, Number, 4, |left, right| if right > left || is_nan(left) { right } else { left };
    /// The bits that all have.
    And, Integer, 5, T::and;
    /// The bits that any has.
    Or, Integer, 6, T::or;
    /// The bits that an odd number of members has.
    Xor, Integer, 7, T::xor;
}

/// Whether it is not even equal to itself: it loses to every number, so that the order in which pairs are compared does not matter.
#[inline]
#[allow(clippy::eq_op)]
fn is_nan<T: Number>(value: T) -> bool {
    value != value
}

/// The smallest [`Located`] value; of equal ones, that of the smallest place. A NaN counts only if all are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MinAt;

/// The largest [`Located`] value; of equal ones, that of the smallest place. A NaN counts only if all are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MaxAt;

impl<T: Number> Operation<Located<T>> for MinAt {
    #[inline]
    fn apply(&self, left: Located<T>, right: Located<T>) -> Located<T> {
        if right.value() < left.value() || ties(left, right) {
            right
        } else {
            left
        }
    }

    fn mark(&self) -> u64 {
        8
    }
}

impl<T: Number> Operation<Located<T>> for MaxAt {
    #[inline]
    fn apply(&self, left: Located<T>, right: Located<T>) -> Located<T> {
        if right.value() > left.value() || ties(left, right) {
            right
        } else {
            left
        }
    }

    fn mark(&self) -> u64 {
        9
    }
}

/// Whether the right one is preferred, if neither value is before the other.
#[inline]
fn ties<T: Number>(left: Located<T>, right: Located<T>) -> bool {
    let is_first = right.place() < left.place();
    match is_nan(left.value()) {
        true => !is_nan(right.value()) || is_first,
        false => left.value() == right.value() && is_first,
    }
}

/// An operation of the program: a closure of two elements.
///
/// ```
/// use kumiki::comm::Combine;
/// # use kumiki::prelude::*;
/// # fn main() -> kumiki::Result<()> {
/// # let world = World::init()?;
/// let group = world.group()?;
/// // Straight lines y = ax + b, applied one after the other: the order matters.
/// let mut line = [[2.0, 1.0]];
/// group.allreduce(&mut line, Combine::ordered(|[a, b]: [f64; 2], [c, d]: [f64; 2]| [c * a, c * b + d]))?;
/// # group.free()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Combine<F> {
    apply: F,
    commutes: bool,
}

impl<F> std::fmt::Debug for Combine<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Combine({})", if self.commutes { "in any order" } else { "in order" })
    }
}

impl<F> Combine<F> {
    /// One for which the order of the members matters.
    pub const fn ordered(apply: F) -> Combine<F> {
        Combine { apply, commutes: false }
    }

    /// One for which it does not.
    pub const fn any_order(apply: F) -> Combine<F> {
        Combine { apply, commutes: true }
    }
}

impl<T, F: Fn(T, T) -> T> Operation<T> for Combine<F> {
    #[inline]
    fn apply(&self, left: T, right: T) -> T {
        (self.apply)(left, right)
    }

    fn commutes(&self) -> bool {
        self.commutes
    }

    fn mark(&self) -> u64 {
        10 + u64::from(self.commutes)
    }
}

/// Combines bytes of elements in place with as many others, which are of members before or behind.
pub(crate) type Merging<'a> = &'a dyn Fn(&mut [u8], &[u8], bool);

/// An operation on elements of some type, as the algorithms know it: they are compiled once, and not for each type and operation.
#[derive(Clone, Copy)]
pub(crate) struct Reduction<'a> {
    pub(crate) element: usize,
    pub(crate) commutes: bool,
    /// What tells it from others.
    pub(crate) mark: u64,
    pub(crate) merge: Merging<'a>,
}

impl<'a> Reduction<'a> {
    pub(super) fn of<T: Pod, O: Operation<T>>(operation: &O, merge: Merging<'a>) -> Reduction<'a> {
        let (commutes, mark) = (operation.commutes(), operation.mark());
        Reduction { element: size_of::<T>(), commutes, mark, merge }
    }
}

/// An operation on elements that lie in bytes, which a collective that was started keeps.
pub(crate) trait Merger: Send {
    /// Bytes of an element, whether the order of the members does not matter, and what tells it from others.
    fn traits(&self) -> (usize, bool, u64);

    /// Combines elements in place with as many others, which are of members before or behind.
    fn merge(&self, into: &mut [u8], others: &[u8], others_first: bool);
}

/// An [`Operation`] as one.
pub(super) struct Typed<T, O>(O, PhantomData<fn(T)>);

impl<T, O> Typed<T, O> {
    pub(super) fn new(operation: O) -> Typed<T, O> {
        Typed(operation, PhantomData)
    }
}

impl<T: Pod, O: Operation<T> + Send> Merger for Typed<T, O> {
    fn traits(&self) -> (usize, bool, u64) {
        (size_of::<T>(), self.0.commutes(), self.0.mark())
    }

    fn merge(&self, into: &mut [u8], others: &[u8], others_first: bool) {
        merge::<T>(&self.0, into, others, others_first);
    }
}

/// Combines elements that came as bytes.
pub(crate) fn merge<T: Pod>(
    operation: &impl Operation<T>,
    into: &mut [u8],
    others: &[u8],
    others_first: bool,
) {
    let (into, others): (&mut [T], &[T]) =
        match (bytemuck::try_cast_slice_mut(into), bytemuck::try_cast_slice(others)) {
            (Ok(into), Ok(others)) => (into, others),
            // Both are aligned as any usual type must be.
            _ => return merge_unaligned(operation, into, others, others_first),
        };
    if others_first {
        into.iter_mut().zip(others).for_each(|(own, other)| *own = operation.apply(*other, *own));
    } else {
        into.iter_mut().zip(others).for_each(|(own, other)| *own = operation.apply(*own, *other));
    }
}

#[cold]
fn merge_unaligned<T: Pod>(
    operation: &impl Operation<T>,
    into: &mut [u8],
    others: &[u8],
    others_first: bool,
) {
    let size = size_of::<T>().max(1);
    for (own, other) in into.chunks_exact_mut(size).zip(others.chunks_exact(size)) {
        let pair: [T; 2] = [bytemuck::pod_read_unaligned(own), bytemuck::pod_read_unaligned(other)];
        let [left, right] = if others_first { [pair[1], pair[0]] } else { pair };
        own.copy_from_slice(bytemuck::bytes_of(&operation.apply(left, right)));
    }
}

/// Bytes that are aligned as elements of any usual type must be.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    memory: Vec<u128>,
    bytes: usize,
}

impl Aligned {
    /// Makes it so many bytes long. Those that it had stay.
    pub(super) fn resize(&mut self, bytes: usize) {
        self.memory.resize(bytes.div_ceil(size_of::<u128>()), 0);
        self.bytes = bytes;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.memory)[..self.bytes]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.memory)[..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_combine_and_ties_go_to_the_smallest_place() {
        assert_eq!((Sum.apply(250u8, 10), Product.apply(-3i64, 5), Sum.apply(0.5f32, 1.0)), (4, -15, 1.5));
        assert_eq!((Min.apply(2.0, 1.0), Max.apply(2u16, 1), Min.apply(1.0, f64::NAN)), (1.0, 2, 1.0));
        assert_eq!((And.apply(6u32, 3), Or.apply(6i8, 3), Xor.apply(6u128, 3)), (2, 7, 5));
        let [near, far] = [Located::new(1.5, 2), Located::new(1.5, 7)];
        assert_eq!([MinAt.apply(far, near), MaxAt.apply(far, near), MinAt.apply(near, far)], [near; 3]);
        assert_eq!(MaxAt.apply(near, Located::new(2.5, 9)).place(), 9);
        // In whatever order: a NaN loses to every number.
        let [one, nan] = [Located::new(1.0, 3), Located::new(f64::NAN, 1)];
        for [left, right] in [[one, nan], [nan, one]] {
            assert_eq!((MinAt.apply(left, right), MaxAt.apply(left, right)), (one, one));
            assert_eq!(
                (Min.apply(left.value(), right.value()), Max.apply(left.value(), right.value())),
                (1.0, 1.0)
            );
        }
        let mut words = [1u64, 2, 0];
        let others: Vec<u8> = bytemuck::cast_slice(&[3u64, 4]).to_vec();
        let in_order = Combine::ordered(|left: u64, right: u64| 10 * left + right);
        merge(&in_order, &mut bytemuck::cast_slice_mut(&mut words)[..16], &others, true);
        assert_eq!(words, [31, 42, 0]);
        // Where they are not aligned, too.
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        bytes.copy_within(0..16, 1);
        merge(&in_order, &mut bytes[1..17], &others, false);
        bytes.copy_within(1..17, 0);
        assert_eq!(words[..2], [313, 424]);
    }
}
