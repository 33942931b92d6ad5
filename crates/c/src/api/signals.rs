//! Waiting for a word, puts that end with a signal, and sections.

use super::buffers::{list, readable, writable};
use super::operations::operation;
use super::{edge, limit, place, KumikiWorld};
use crate::guard::misuse;
use kumiki::{AtomicWord, GlobalAddress, GlobalPtr, Is, Result, Shape, Wait};
use std::ffi::{c_int, c_void};

/// How many elements, and how far apart: `kumiki_stride`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KumikiStride {
    /// How many.
    pub count: usize,
    /// How far apart, in elements.
    pub stride: isize,
}

fn comparison<W: AtomicWord>(number: c_int, value: W) -> Result<Is<W>> {
    Ok(match number {
        1 => Is::Equal(value),
        2 => Is::NotEqual(value),
        3 => Is::Less(value),
        4 => Is::AtMost(value),
        5 => Is::Greater(value),
        6 => Is::AtLeast(value),
        _ => return Err(misuse(format!("comparison: {number} is none; see enum kumiki_comparison"))),
    })
}

fn wait(from: u32, milliseconds: u64) -> Wait {
    let wait = if milliseconds == u64::MAX { Wait::FOREVER } else { Wait::at_most(limit(milliseconds)) };
    if from == u32::MAX {
        wait
    } else {
        wait.from(from)
    }
}

/// The functions for words of one width.
macro_rules! signals {
    ($word:ty, $wait_until:ident, $put_signal:ident) => {
        /// Waits until a word of this rank's memory is what it shall be.
        ///
        /// # Safety
        /// `world` must be a world, or NULL for that of `acp_init`; `found` must be writable, or NULL if it is not wanted.
        #[no_mangle]
        pub unsafe extern "C" fn $wait_until(
            world: *const KumikiWorld,
            word: u64,
            number: c_int,
            value: $word,
            from: u32,
            milliseconds: u64,
            found: *mut $word,
        ) -> c_int {
            edge(|| {
                let until = comparison(number, value)?;
                let word = GlobalPtr::<$word>::from_address(GlobalAddress::from_bits(word));
                let place = place(world)?;
                let is = place.with(|world| {
                    if from != u32::MAX && from >= world.ranks() {
                        return Err(misuse(format!("from: rank {from}; there are {} ranks", world.ranks())));
                    }
                    world.wait_until(word, until, wait(from, milliseconds))
                })?;
                if !found.is_null() {
                    // SAFETY: as the caller promises.
                    unsafe { found.write(is) };
                }
                Ok(())
            })
        }

        /// Writes bytes, and then changes a word of the same rank.
        ///
        /// # Safety
        /// `world` must be a world, or NULL for that of `acp_init`; `from` must be readable for `bytes`.
        #[no_mangle]
        #[allow(clippy::too_many_arguments)] // As C has them.
        pub unsafe extern "C" fn $put_signal(
            world: *const KumikiWorld,
            to: u64,
            from: *const c_void,
            bytes: usize,
            word: u64,
            number: c_int,
            first: $word,
            second: $word,
        ) -> c_int {
            edge(|| {
                let signal = operation(number, first, second)?;
                // SAFETY: as the caller promises.
                let values = unsafe { readable(from, bytes, "from") }?;
                let to = GlobalPtr::<u8>::from_address(GlobalAddress::from_bits(to));
                let word = GlobalPtr::<$word>::from_address(GlobalAddress::from_bits(word));
                place(world)?.with(|world| world.put_signal(to, values, word, signal))
            })
        }
    };
}

signals!(u32, kumiki_wait_until_u32, kumiki_put_signal_u32);
signals!(u64, kumiki_wait_until_u64, kumiki_put_signal_u64);

/// Wakes the threads of a rank of this node that wait for a word.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_wake(world: *const KumikiWorld, rank: u32) -> c_int {
    edge(|| place(world)?.with(|world| world.wake(rank)))
}

/// Which bytes a section is about, and how far they go: `low` below where it begins, and `high` above.
struct Section {
    shape: Shape,
    low: isize,
    high: isize,
}

impl Section {
    /// # Safety
    /// `strides` must be readable for `dimensions` values.
    unsafe fn new(
        strides: *const KumikiStride,
        dimensions: usize,
        element: usize,
        name: &str,
    ) -> Result<Section> {
        // SAFETY: as the caller promises.
        let strides = unsafe { list(strides, dimensions, name) }?;
        let too_far = || misuse(format!("{name}: its counts and strides overflow"));
        let element = isize::try_from(element).ok().filter(|element| *element > 0);
        let element = element.ok_or_else(|| misuse("element_bytes: no element has so many"))?;
        let (mut dimensions, mut low, mut high) = (Vec::new(), 0isize, element);
        for KumikiStride { count, stride } in strides {
            let stride = stride.checked_mul(element).ok_or_else(too_far)?;
            let steps = isize::try_from(*count).map_err(|_| too_far())? - 1;
            let last = stride.checked_mul(steps.max(0)).ok_or_else(too_far)?;
            low = low.checked_add(last.min(0)).ok_or_else(too_far)?;
            high = high.checked_add(last.max(0)).ok_or_else(too_far)?;
            dimensions.push((*count, stride));
        }
        // A dimension of one element says nothing, and those of the elements themselves lie together.
        dimensions.retain(|(count, _)| *count != 1);
        dimensions.push((element as usize, 1));
        Ok(Section { shape: Shape::section(&dimensions)?, low, high })
    }

    /// Bytes of memory of the program that it is about: those that begin where it does.
    fn bytes(&self, name: &str) -> Result<usize> {
        match (self.shape.is_empty(), self.low) {
            (true, _) => Ok(0),
            (false, 0) => Ok(self.high as usize),
            _ => Err(misuse(format!("{name}: strides of memory of the program are not negative"))),
        }
    }
}

/// Writes the elements of a section of memory of the program to those of a section behind an address.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; both lists must be readable for their dimensions, and `from` for its section.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // As C has them.
pub unsafe extern "C" fn kumiki_put_section(
    world: *const KumikiWorld,
    to: u64,
    there: *const KumikiStride,
    there_dimensions: usize,
    from: *const c_void,
    here: *const KumikiStride,
    here_dimensions: usize,
    element_bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let there = unsafe { Section::new(there, there_dimensions, element_bytes, "there") }?;
        // SAFETY: as the caller promises.
        let here = unsafe { Section::new(here, here_dimensions, element_bytes, "here") }?;
        // SAFETY: as the caller promises.
        let values = unsafe { readable(from, here.bytes("here")?, "from") }?;
        let to = GlobalPtr::<u8>::from_address(GlobalAddress::from_bits(to));
        place(world)?.with(|world| world.put_shape(to, &there.shape, values, &here.shape))
    })
}

/// Reads the elements of a section behind an address into those of a section of memory of the program.
///
/// # Safety
/// As [`kumiki_put_section`]; `into` must be writable for its section.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // As C has them.
pub unsafe extern "C" fn kumiki_get_section(
    world: *const KumikiWorld,
    into: *mut c_void,
    here: *const KumikiStride,
    here_dimensions: usize,
    from: u64,
    there: *const KumikiStride,
    there_dimensions: usize,
    element_bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let there = unsafe { Section::new(there, there_dimensions, element_bytes, "there") }?;
        // SAFETY: as the caller promises.
        let here = unsafe { Section::new(here, here_dimensions, element_bytes, "here") }?;
        // SAFETY: as the caller promises.
        let into = unsafe { writable(into, here.bytes("here")?, "into") }?;
        let from = GlobalPtr::<u8>::from_address(GlobalAddress::from_bits(from));
        place(world)?.with(|world| world.get_shape(from, &there.shape, into, &here.shape))
    })
}
