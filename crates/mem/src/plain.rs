//! Plain data: the traits of bytemuck, with macros of our own that derive them in programs which do not know bytemuck.

// The traits come by a glob, which the macros of the same names go before. By name they could bring bytemuck's macros along:
// anybody in the build of a program can turn those on.
pub use bytemuck::*;
pub use kumiki_derive::{Pod, Zeroable};

/// A value and where it was found: the elements of reductions that ask who has the smallest or the largest. Its fields have no gap
/// between them, so they are read by methods.
#[derive(Clone, Copy, Default)]
#[repr(C, packed)]
pub struct Located<T> {
    value: T,
    place: u64,
}

// SAFETY: zero bytes are a value of both fields.
unsafe impl<T: bytemuck::Zeroable> bytemuck::Zeroable for Located<T> {}
// SAFETY: both fields are plain data of any bytes, and a packed struct has no padding.
unsafe impl<T: bytemuck::Pod> bytemuck::Pod for Located<T> {}

impl<T: Copy> Located<T> {
    /// A value that was found at a place: a rank, or an index of the program.
    pub const fn new(value: T, place: u64) -> Located<T> {
        Located { value, place }
    }

    /// What was found.
    pub const fn value(&self) -> T {
        self.value
    }

    /// Where.
    pub const fn place(&self) -> u64 {
        self.place
    }
}

impl<T: Copy + PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.value(), self.place()) == (other.value(), other.place())
    }
}

impl<T: Copy + std::fmt::Debug> std::fmt::Debug for Located<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at {}", self.value(), self.place())
    }
}
