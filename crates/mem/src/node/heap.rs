//! The free ranges of this rank's heap: where arena regions are taken from.
//!
//! Only the owner of a heap allocates in it, so this is private state: a sorted map of free ranges, first fit,
//! neighbours merged. It says which ranges to take and which whole pages have become free; committing and releasing
//! them is the caller's business.
//!
//! A heap has two parts. What fits goes into the near one, which lies beside those of the other ranks, so that neighbours
//! who touch many small heaps pay few page tables; everything else goes into the far one. A range lies in one of them.

use kumiki_net::os::memory::{HUGE_BYTES, LARGE_BYTES, PAGE_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;

/// Allocations are multiples of this, and aligned to it.
pub(crate) const GRAIN_BYTES: u64 = 64;

/// The free ranges of a heap.
#[derive(Debug)]
pub(crate) struct Heap {
    near: Ranges,
    far: Ranges,
    /// Where the far part begins, which is behind the near one.
    far_start: u64,
}

impl Heap {
    /// The heap with this near and this far part.
    pub(crate) fn new([near, far]: [Range<u64>; 2]) -> Heap {
        debug_assert!(near.end <= far.start);
        Heap { far_start: far.start, near: Ranges::new(near), far: Ranges::new(far) }
    }

    /// The rounded size of an allocation.
    pub(crate) fn rounded(bytes: u64) -> Option<u64> {
        bytes.max(1).checked_next_multiple_of(GRAIN_BYTES)
    }

    /// Takes a range of `bytes` (a multiple of the grain).
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        self.near.take(bytes).or_else(|| self.far.take(bytes))
    }

    /// Gives a range back. Returns the whole pages that are free now and were not before.
    pub(crate) fn give(&mut self, at: u64, bytes: u64) -> Range<u64> {
        if at < self.far_start { &mut self.near } else { &mut self.far }.give(at, bytes)
    }

    /// A range up to `end` is in use. Returns up to where its part was in use at some time before; beyond, it is as the system
    /// gave it.
    pub(crate) fn note_used(&mut self, at: u64, end: u64) -> u64 {
        let part = if at < self.far_start { &mut self.near } else { &mut self.far };
        let before = part.used_end;
        part.used_end = before.max(end);
        before
    }

    /// The longest range that could be taken.
    pub(crate) fn largest(&self) -> u64 {
        self.near.largest().max(self.far.largest())
    }

    /// The whole pages of a range that were not in use before it was taken, as far as pages go.
    pub(crate) fn pages(at: u64, bytes: u64) -> Range<u64> {
        at / PAGE_BYTES * PAGE_BYTES..(at + bytes).next_multiple_of(PAGE_BYTES)
    }

    /// Ranges in the maps, for the ledger.
    pub(crate) fn ranges(&self) -> usize {
        self.near.free.len() + self.far.free.len()
    }
}

/// The free ranges of a part.
#[derive(Debug)]
struct Ranges {
    free: BTreeMap<u64, u64>,
    /// It was in use at some time up to here.
    used_end: u64,
}

impl Ranges {
    fn new(range: Range<u64>) -> Ranges {
        Ranges { free: BTreeMap::from([(range.start, range.end - range.start)]), used_end: range.start }
    }

    /// The lowest range that fits. Whole pages are page-aligned, and long ranges can be of huge pages.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let align = match bytes {
            LARGE_BYTES.. => HUGE_BYTES,
            PAGE_BYTES.. => PAGE_BYTES,
            _ => GRAIN_BYTES,
        };
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

    fn give(&mut self, at: u64, bytes: u64) -> Range<u64> {
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

    fn largest(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
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
            let (near, far) = (4096..1 << 16, 1 << 20..1 << 21);
            let mut heap = Heap::new([near.clone(), far.clone()]);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (size, give) in sizes {
                let bytes = Heap::rounded(size).unwrap();
                if let Some(at) = heap.take(bytes) {
                    let lies_in = |part: &Range<u64>| at >= part.start && at + bytes <= part.end;
                    prop_assert!(lies_in(&near) || lies_in(&far));
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
                heap.near.check();
                heap.far.check();
            }
            for (at, bytes) in taken {
                heap.give(at, bytes);
            }
            prop_assert_eq!((heap.near.largest(), heap.largest()), (near.end - near.start, far.end - far.start));
            prop_assert_eq!(heap.ranges(), 2);
        }
    }

    #[test]
    fn small_ranges_lie_near_while_they_fit_and_long_ones_begin_at_a_huge_page() {
        let mut heap = Heap::new([4096..4096 + (64 << 10), 1 << 24..1 << 30]);
        assert_eq!((heap.take(64), heap.take(60 << 10)), (Some(4096), Some(8192)));
        assert_eq!((heap.take(4096), heap.take(64)), (Some(1 << 24), Some(4160)));
        assert_eq!(heap.take(LARGE_BYTES), Some((1 << 24) + HUGE_BYTES));
        assert_eq!(heap.take(LARGE_BYTES - GRAIN_BYTES), Some((1 << 24) + HUGE_BYTES + LARGE_BYTES));
    }
}
