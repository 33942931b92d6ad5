//! The memory of a local part.
//!
//! Large pieces of memory begin at the beginning of a page, and so do all arrays of a program: elements with the same index are then in the same few places of the cache, and drive each other
//! out when a loop goes over many arrays; and a store looks to the processor like one to what the next load reads. So arrays begin a few lines of the cache apart.

use crate::{Pod, Result};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// How many places there are to begin at.
const PLACES: usize = 8;
/// Smaller ones lie anywhere.
const LARGE: usize = 32 << 10;

/// The elements of a local part.
#[derive(Default)]
pub(super) struct Cells<T> {
    all: Vec<T>,
    lead: usize,
}

impl<T: Pod> Cells<T> {
    /// So many elements, all zero, with at most so many bytes before them.
    pub(super) fn new(len: usize, most: usize) -> Result<Cells<T>> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let places = PLACES.min(most / LINE + 1);
        let lead = match size_of::<T>() {
            element if element > 0 && len >= LARGE / element => {
                NEXT.fetch_add(1, Ordering::Relaxed) % places * LINE / element
            }
            _ => 0,
        };
        let mut all = Vec::new();
        all.try_reserve_exact(lead + len).map_err(|_| crate::Error::OutOfMemory {
            asked: (len as u64).saturating_mul(size_of::<T>() as u64),
            left: 0,
            what: "the system has no memory for an array",
        })?;
        // A loop that goes through them in large steps finds the pages sooner, if these are few.
        kumiki_mem::prefer_huge_pages(all.spare_capacity_mut());
        all.resize(lead + len, T::zeroed());
        Ok(Cells { all, lead })
    }

    /// The elements by themselves.
    pub(super) fn into_vec(mut self) -> Vec<T> {
        self.all.drain(..self.lead);
        self.all
    }
}

impl<T> Deref for Cells<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.all[self.lead..]
    }
}

impl<T> DerefMut for Cells<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[self.lead..]
    }
}
