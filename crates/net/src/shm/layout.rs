//! Where the parts of an arena are.
//!
//! ```text
//! head | world table | node table | controls | starters | near heaps | near pools | region tables | slice 0 | slice 1 | …
//!      | 8 B a rank  | 64 B a node|  4 KiB   |  pages   |   64 KiB   |   64 KiB   | 1 MiB virtual |  far heap, far pool
//! ```
//! A process pays 4 KiB of page tables for every 2 MiB of addresses in which it touches a byte. So what a rank touches of
//! many others lies side by side: the small parts of all ranks are packed, and only what has outgrown them lies in the
//! slices, at a large stride. The region tables lie page by page: the first pages of all ranks, then the second ones, and
//! so on, as most ranks need only the first.
//!
//! Places are offsets in the arena, the same in every process.

use super::arena::Config;
use super::barrier::MOST_MEMBERS;
use super::region::RegionEntry;
use super::world::MAX_PER_WORLD;
use crate::os::memory::PAGE_BYTES;
use crate::{Error, Result};

/// Slots in a region table.
pub const SLOTS: usize = 1 << 16;
/// Bytes of a rank's heap, and of its pool, that lie near those of the others.
pub const NEAR_BYTES: u64 = 64 << 10;
/// The most address space that the slices may take: half of what a process has.
pub(super) const MAX_SLICES_BYTES: u64 = 1 << 46;
pub(super) const MIN_STRIDE: u64 = 1 << 24;

pub(super) const ENTRY_BYTES: u64 = std::mem::size_of::<RegionEntry>() as u64;
/// Slots in a page of a region table, as a power of two.
pub(super) const PAGE_SLOTS_SHIFT: u32 = (PAGE_BYTES / ENTRY_BYTES).trailing_zeros();
/// Pages of a whole region table.
pub const TABLE_PAGES: usize = SLOTS >> PAGE_SLOTS_SHIFT;

/// Where the parts of an arena are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) world: u64,
    pub(super) nodes: u64,
    pub(super) controls: u64,
    starters: u64,
    starter_stride: u64,
    heaps: u64,
    pools: u64,
    pub(super) tables: u64,
    /// Bytes from a page of a region table to the next page of the same one, as a power of two.
    pub(super) table_shift: u32,
    slices: u64,
    pub(super) stride: u64,
    pub(super) total: u64,
}

impl Layout {
    pub(super) fn new(config: &Config, head_bytes: u64, stride: u64) -> Result<Layout> {
        let limits = [config.ranks, config.nodes, config.local_ranks];
        let too_many = limits.iter().any(|&n| n > MAX_PER_WORLD) || config.local_ranks > MOST_MEMBERS;
        if too_many || limits.contains(&0) || config.node >= config.nodes {
            return Err(Error::Misuse(format!(
                "a world of {} ranks on {} nodes, {} of them on node {}, cannot be",
                config.ranks, config.nodes, config.local_ranks, config.node
            )));
        }
        let ranks = config.local_ranks as u64;
        let too_large = || Error::Misuse(format!("an arena of {ranks} slices is too large"));
        let fits = stride.checked_mul(ranks).is_some_and(|all| all <= MAX_SLICES_BYTES);
        if !fits || !stride.is_multiple_of(MIN_STRIDE) {
            return Err(too_large());
        }
        if config.starter_bytes > stride / 4 {
            return Err(Error::Misuse(format!(
                "starter memory of {} bytes does not fit",
                config.starter_bytes
            )));
        }
        // Nothing overflows from here on: there are at most 2^24 ranks, and all starter memory is a quarter of the slices.
        let world = page_up(head_bytes);
        let nodes = (world + 8 * config.ranks as u64).next_multiple_of(64);
        let controls = page_up(nodes + 64 * config.nodes as u64);
        let starters = controls + PAGE_BYTES * ranks;
        let starter_stride = page_up(config.starter_bytes.max(1));
        let heaps = starters + starter_stride * ranks;
        let pools = heaps + NEAR_BYTES * ranks;
        let tables = pools + NEAR_BYTES * ranks;
        let table_shift = PAGE_BYTES.trailing_zeros() + ranks.next_power_of_two().trailing_zeros();
        let slices = (tables + ((TABLE_PAGES as u64) << table_shift)).next_multiple_of(MIN_STRIDE);
        Ok(Layout {
            world,
            nodes,
            controls,
            starters,
            starter_stride,
            heaps,
            pools,
            tables,
            table_shift,
            slices,
            stride,
            total: slices + stride * ranks,
        })
    }

    /// The layout as the `local`-th rank sees it that is alone on its node: its parts are those of local rank 0.
    pub(super) fn seen_by(&self, local: u32) -> Layout {
        let local = local as u64;
        Layout {
            controls: self.controls + PAGE_BYTES * local,
            starters: self.starters + self.starter_stride * local,
            heaps: self.heaps + NEAR_BYTES * local,
            pools: self.pools + NEAR_BYTES * local,
            tables: self.tables + PAGE_BYTES * local,
            slices: self.slices + self.stride * local,
            ..*self
        }
    }

    #[inline]
    pub(super) fn control(&self, local: u32) -> u64 {
        self.controls + PAGE_BYTES * local as u64
    }

    /// The entry of a slot; the slot is less than [`SLOTS`].
    #[inline]
    pub(super) fn entry(&self, local: u32, slot: usize) -> u64 {
        let first_page = self.tables + PAGE_BYTES * local as u64;
        // Most regions have their entry there: the processor goes on without waiting for the distance between pages.
        if slot < 1 << PAGE_SLOTS_SHIFT {
            return first_page + ENTRY_BYTES * slot as u64;
        }
        let (page, index) = (slot >> PAGE_SLOTS_SHIFT, slot & ((1 << PAGE_SLOTS_SHIFT) - 1));
        first_page + ((page as u64) << self.table_shift) + ENTRY_BYTES * index as u64
    }

    #[inline]
    pub(super) fn starter(&self, local: u32) -> u64 {
        self.starters + self.starter_stride * local as u64
    }

    pub(super) fn starter_bytes(&self) -> u64 {
        self.starter_stride
    }

    #[inline]
    pub(super) fn near_heap(&self, local: u32) -> u64 {
        self.heaps + NEAR_BYTES * local as u64
    }

    /// The first half of the slice.
    #[inline]
    pub(super) fn far_heap(&self, local: u32) -> u64 {
        self.slices + self.stride * local as u64
    }

    #[inline]
    pub(super) fn near_pool(&self, local: u32) -> u64 {
        self.pools + NEAR_BYTES * local as u64
    }

    /// The second half of the slice.
    #[inline]
    pub(super) fn far_pool(&self, local: u32) -> u64 {
        self.far_heap(local) + self.half()
    }

    /// Whose starter memory, heap or pool a place lies in. What is behind the last of them counts as that of a rank that does not exist.
    pub(super) fn owner(&self, place: u64) -> Option<u32> {
        let parts = [
            (self.slices, self.stride),
            (self.pools, NEAR_BYTES),
            (self.heaps, NEAR_BYTES),
            (self.starters, self.starter_stride),
        ];
        if place >= self.tables && place < self.slices {
            return None;
        }
        let (start, stride) = parts.into_iter().find(|(start, _)| place >= *start)?;
        u32::try_from((place - start) / stride).ok()
    }

    /// Bytes of a far heap, and of a far pool.
    #[inline]
    pub(super) fn half(&self) -> u64 {
        self.stride / 2
    }
}

/// The page of its table in which a slot is.
pub fn table_page(slot: usize) -> usize {
    slot >> PAGE_SLOTS_SHIFT
}

fn page_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::super::arena::tests::config;
    use super::*;
    use crate::terms::Terms;
    use std::collections::BTreeSet;

    fn layout(ranks: u32) -> Layout {
        Layout::new(&config(ranks), 4096, MAX_SLICES_BYTES / ranks.next_power_of_two() as u64).unwrap()
    }

    /// Bytes of page tables for touching these places: one page for each 2 MiB, for each GiB, and for each 512 GiB.
    fn page_tables(places: &[u64]) -> u64 {
        let pages = |shift: u32| places.iter().map(|at| at >> shift).collect::<BTreeSet<_>>().len();
        [21, 30, 39].map(pages).iter().sum::<usize>() as u64 * 4096
    }

    #[test]
    fn a_neighbour_that_was_touched_cost_a_page_table_of_its_own() {
        let (layout, ranks) = (layout(1024), 1024u64);
        let starter: Vec<u64> =
            (0..1024).flat_map(|local| [layout.entry(local, 1), layout.starter(local)]).collect();
        assert!(page_tables(&starter) <= 64 * ranks, "{} bytes", page_tables(&starter));
        let every_page = |start: u64| (start..start + NEAR_BYTES).step_by(4096);
        let mut heap = starter.clone();
        for local in 0..1024 {
            heap.extend([layout.control(local), layout.entry(local, 255)]);
            heap.extend(every_page(layout.near_heap(local)));
            heap.extend(every_page(layout.near_pool(local)));
        }
        assert!(page_tables(&heap) <= 1024 * ranks, "{} bytes", page_tables(&heap));
        let tables: Vec<u64> = (0..1024).map(|local| layout.entry(local, 1000)).collect();
        assert!(page_tables(&tables) <= 64 * ranks, "{} bytes", page_tables(&tables));
        // The measure itself: slices are as far apart as everything was.
        let far: Vec<u64> = (0..1024).map(|local| layout.far_heap(local)).collect();
        assert!(page_tables(&far) > 8000 * ranks);
    }

    #[test]
    fn no_two_parts_of_an_arena_overlap() {
        for ranks in [1, 2, 3, 7, 64] {
            let layout = layout(ranks);
            let mut parts = vec![(0, layout.controls)];
            for local in 0..ranks {
                parts.push((layout.control(local), PAGE_BYTES));
                parts.push((layout.starter(local), layout.starter_bytes()));
                parts.push((layout.near_heap(local), NEAR_BYTES));
                parts.push((layout.near_pool(local), NEAR_BYTES));
                parts.push((layout.far_heap(local), layout.half()));
                parts.push((layout.far_pool(local), layout.half()));
                let slots = (0..SLOTS).step_by(1 << PAGE_SLOTS_SHIFT);
                parts.extend(slots.map(|slot| (layout.entry(local, slot), PAGE_BYTES)));
                let alone = layout.seen_by(local);
                assert_eq!(alone.entry(0, SLOTS - 1), layout.entry(local, SLOTS - 1));
                assert_eq!(alone.far_pool(0), layout.far_pool(local));
                for part in [
                    Layout::starter,
                    Layout::near_heap,
                    Layout::near_pool,
                    Layout::far_heap,
                    Layout::far_pool,
                ] {
                    assert_eq!(layout.owner(part(&layout, local)), Some(local));
                }
                let last = layout.far_heap(local) + layout.stride - 1;
                assert_eq!((layout.owner(last), layout.owner(layout.control(local))), (Some(local), None));
                assert_eq!(layout.owner(layout.entry(local, 0)), None);
            }
            parts.sort_unstable();
            assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{ranks} ranks");
            assert!(parts.iter().all(|(start, bytes)| start + bytes <= layout.total));
        }
    }

    #[test]
    fn what_cannot_be_laid_out_is_refused() {
        let tight = |ranks, starter_bytes, stride| {
            let config = config(ranks);
            let terms = Terms { starter_bytes, ..config.terms };
            Layout::new(&Config { terms, ..config }, 4096, stride)
        };
        assert!(tight(1, 1 << 22, 1 << 24).is_ok());
        assert!(tight(1, (1 << 22) + 1, 1 << 24).is_err());
        assert!(tight(1, u64::MAX, 1 << 24).is_err());
        assert!(tight(2, 0, 1 << 46).is_err());
        assert!(tight(4, 0, u64::MAX / 2).is_err());
        assert!(tight(1, 0, (1 << 24) + 4096).is_err());
        let most = tight(MAX_PER_WORLD, 0, 1 << 22);
        assert!(most.is_err());
        assert!(Layout::new(&Config { node: 1, ..config(1) }, 4096, 1 << 24).is_err());
    }
}
