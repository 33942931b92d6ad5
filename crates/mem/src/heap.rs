//! The free ranges of this rank's slice: where arena regions are taken from.
//!
//! Only the owner of a slice allocates in it, so this is private state: a sorted map of free ranges, first fit,
//! neighbours merged. It says which ranges to take and which whole pages have become free; committing and releasing
//! them is the caller's business.

use kumiki_net::os::memory::PAGE_BYTES;
use std::collections::BTreeMap;
use std::ops::Range;

/// Allocations are multiples of this, and aligned to it.
pub(crate) const GRAIN_BYTES: u64 = 64;

/// The free ranges of a slice.
#[derive(Debug)]
pub(crate) struct Heap {
    free: BTreeMap<u64, u64>,
}

impl Heap {
    pub(crate) fn new(range: Range<u64>) -> Heap {
        Heap { free: BTreeMap::from([(range.start, range.end - range.start)]) }
    }

    /// The rounded size of an allocation.
    pub(crate) fn rounded(bytes: u64) -> Option<u64> {
        bytes.max(1).checked_next_multiple_of(GRAIN_BYTES)
    }

    /// Takes a range of `bytes` (a multiple of the grain); the lowest that fits. Whole pages are page-aligned.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let align = if bytes >= PAGE_BYTES { PAGE_BYTES } else { GRAIN_BYTES };
        let (start, length, at) = self.free.iter().find_map(|(&start, &length)| {
            let at = start.next_multiple_of(align);
            let fits = length.checked_sub(at - start).is_some_and(|rest| rest >= bytes);
            fits.then_some((start, length, at))
        })?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        let rest = start + length - (at + bytes);
        if rest > 0 {
            self.free.insert(at + bytes, rest);
        }
        Some(at)
    }

    /// Gives a range back. Returns the whole pages that are free now and were not before.
    pub(crate) fn give(&mut self, at: u64, bytes: u64) -> Range<u64> {
        let (mut start, mut end) = (at, at + bytes);
        if let Some((&before, &length)) = self.free.range(..at).next_back() {
            if before + length == at {
                self.free.remove(&before);
                start = before;
            }
        }
        if let Some(length) = self.free.remove(&end) {
            end += length;
        }
        self.free.insert(start, end - start);
        // Pages that straddle the edges of what was given back can have become free as a whole.
        let first = start.next_multiple_of(PAGE_BYTES).max(at / PAGE_BYTES * PAGE_BYTES);
        let last = (end / PAGE_BYTES * PAGE_BYTES).min((at + bytes).next_multiple_of(PAGE_BYTES));
        first..last.max(first)
    }

    /// The longest range that could be taken.
    pub(crate) fn largest(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// The whole pages of a range that were not in use before it was taken, as far as pages go.
    pub(crate) fn pages(at: u64, bytes: u64) -> Range<u64> {
        at / PAGE_BYTES * PAGE_BYTES..(at + bytes).next_multiple_of(PAGE_BYTES)
    }

    /// Ranges in the map, for the ledger.
    pub(crate) fn ranges(&self) -> usize {
        self.free.len()
    }

    #[cfg(test)]
    fn check(&self) {
        let mut previous = 0;
        for (&start, &length) in &self.free {
            assert!(length > 0 && (start > previous || previous == 0), "unmerged or empty range");
            previous = start + length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_never_overlap_and_all_comes_back(sizes in proptest::collection::vec((1u64..20_000, any::<bool>()), 1..60)) {
            let whole = 4096..1 << 20;
            let mut heap = Heap::new(whole.clone());
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (size, give) in sizes {
                let bytes = Heap::rounded(size).unwrap();
                if let Some(at) = heap.take(bytes) {
                    prop_assert!(at >= whole.start && at + bytes <= whole.end);
                    prop_assert!(taken.iter().all(|&(a, n)| at + bytes <= a || a + n <= at));
                    taken.push((at, bytes));
                }
                if give {
                    let (at, bytes) = taken.swap_remove(taken.len() / 2);
                    let pages = heap.give(at, bytes);
                    for (a, n) in &taken {
                        prop_assert!(pages.is_empty() || a + n <= pages.start || pages.end <= *a);
                    }
                }
                heap.check();
            }
            for (at, bytes) in taken {
                heap.give(at, bytes);
            }
            prop_assert_eq!(heap.largest(), whole.end - whole.start);
            prop_assert_eq!(heap.ranges(), 1);
        }
    }
}
