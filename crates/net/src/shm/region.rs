//! One entry of a region table: where a region lies, how long it is, and its generation, in two words.
//!
//! Both words carry the generation, so a reader that sees two halves of different registrations knows it. An
//! entry is published by its owner alone, read by every rank of the node, and retired by its owner. A SIGKILL
//! between the two stores of `publish` leaves the first word zero: the entry is free.

use super::changes::Changes;
use super::sync::{fence, fence_after_exchange, AtomicU64, Ordering};

const GENERATION_SHIFT: u32 = 52;
const KIND_SHIFT: u32 = 48;
const KIND_MASK: u64 = 15;
pub(super) const LOW_BITS: u64 = (1 << 48) - 1;
/// The bits of the generation in both words of an entry.
pub(super) const GENERATION_BITS: u64 = (MAX_GENERATION as u64) << GENERATION_SHIFT;
/// Generations run from 1 to this, then start again.
pub const MAX_GENERATION: u16 = (1 << 12) - 1;
/// The largest colour that an entry can hold.
pub const MAX_COLOUR: u8 = 15;

/// Where the bytes of a region are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// In the arena: `base` is a place there.
    Arena,
    /// In the owner's own memory: `base` is an address there.
    Private,
    /// As private, but the owner itself may only read it, and so may everybody.
    ReadOnly,
}

impl Kind {
    fn bits(self) -> u64 {
        match self {
            Kind::Arena => 0,
            Kind::Private => 1,
            Kind::ReadOnly => 2,
        }
    }

    /// The kind that the first word of an entry names; `None` if there is no such kind.
    #[inline(always)]
    fn of(place: u64) -> Option<Kind> {
        match place >> KIND_SHIFT & KIND_MASK {
            0 => Some(Kind::Arena),
            1 => Some(Kind::Private),
            2 => Some(Kind::ReadOnly),
            _ => None,
        }
    }
}

/// A region as an entry describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionView {
    /// Where the bytes are.
    pub kind: Kind,
    /// Place in the arena, or address in the owner's process.
    pub base: u64,
    /// Bytes from `base` to the end of the region.
    pub bytes: u64,
    /// Which registration of this slot it is, never 0.
    pub generation: u16,
    /// The colour given at registration.
    pub colour: u8,
}

/// The shared words of an entry; both zero when it is free.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct RegionEntry {
    place: AtomicU64,
    extent: AtomicU64,
}

const _: () = assert!(cfg!(loom) || std::mem::size_of::<RegionEntry>() == 16);

impl RegionEntry {
    /// A free entry.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        RegionEntry { place: AtomicU64::new(0), extent: AtomicU64::new(0) }
    }

    /// Makes an entry describe a region. Only the owner of the table does this.
    pub fn publish(&self, view: RegionView, changes: &Changes) {
        debug_assert!(view.base <= LOW_BITS && view.bytes <= LOW_BITS);
        debug_assert!(view.generation != 0 && view.generation <= MAX_GENERATION && view.colour <= MAX_COLOUR);
        let generation = (view.generation as u64) << GENERATION_SHIFT;
        let kind = view.kind.bits();
        let was_free = self.place.load(Ordering::Relaxed) == 0;
        // The extent first: a reader that sees the new place also sees the new extent.
        self.extent.store(generation | (view.colour as u64) << KIND_SHIFT | view.bytes, Ordering::Release);
        self.place.store(generation | kind << KIND_SHIFT | view.base, Ordering::Release);
        if !was_free {
            changes.note();
        }
    }

    /// Changes the length of a region that stays where it is. A reader sees the old length or the new one.
    pub fn resize(&self, bytes: u64, changes: &Changes) {
        debug_assert!(bytes <= LOW_BITS);
        let extent = self.extent.load(Ordering::Relaxed);
        self.extent.store(extent & !LOW_BITS | bytes, Ordering::Release);
        // Who remembers that it was shorter looks again when that is too short.
        if bytes < extent & LOW_BITS {
            changes.note();
        }
    }

    /// Makes the entry free. Only the owner of the table does this.
    pub fn retire(&self, changes: &Changes) {
        let is_of_arena = Kind::of(self.place.load(Ordering::Relaxed)) == Some(Kind::Arena);
        self.place.store(0, Ordering::Release);
        // Nobody remembers where private memory is.
        if is_of_arena {
            changes.note();
        }
        // A reader announces itself in a hazard word, then reads the entry; we write the entry, then look for
        // announcements. With a fence on both sides, at least one sees the other.
        fence(Ordering::SeqCst);
    }

    /// The generation that the next registration in this slot should have. Only the owner of the table asks.
    pub fn next_generation(&self) -> u16 {
        let last = (self.extent.load(Ordering::Relaxed) >> GENERATION_SHIFT) as u16;
        if last >= MAX_GENERATION {
            1
        } else {
            last + 1
        }
    }

    /// What the entry describes, if it is in use and its two halves belong together.
    #[inline]
    pub fn view(&self) -> Option<RegionView> {
        let place = self.place.load(Ordering::Acquire);
        let extent = self.extent.load(Ordering::Acquire);
        Self::decode(place, extent)
    }

    /// Bytes of the region that the entry describes; 0 if it is free.
    #[inline]
    pub fn bytes(&self) -> u64 {
        let place = self.place.load(Ordering::Acquire);
        let extent = self.extent.load(Ordering::Acquire);
        match place >> GENERATION_SHIFT {
            0 => 0,
            generation if generation != extent >> GENERATION_SHIFT => 0,
            _ => extent & LOW_BITS,
        }
    }

    /// Where `bytes` at `offset` of the region lie in the arena. `None` if it is no region of the arena, or not of this
    /// generation (0: of any), or too short. The path of every same-node access, so it is short.
    #[inline]
    pub fn in_arena(&self, generation: u16, offset: u64, bytes: u64) -> Option<u64> {
        let place = self.place.load(Ordering::Acquire);
        let extent = self.extent.load(Ordering::Acquire);
        let found = place >> KIND_SHIFT;
        let wanted = (generation as u64) << (GENERATION_SHIFT - KIND_SHIFT);
        // An entry of the arena has nothing but its generation up there; a free one not even that.
        if found == 0 || (found != wanted && (generation != 0 || Kind::of(place) != Some(Kind::Arena))) {
            return None;
        }
        let whole = extent & LOW_BITS;
        if (place ^ extent) >> GENERATION_SHIFT != 0 || bytes > whole || offset > whole - bytes {
            return None;
        }
        Some((place & LOW_BITS) + offset)
    }

    /// Both words as they are.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn words(&self) -> (u64, u64) {
        (self.place.load(Ordering::Acquire), self.extent.load(Ordering::Acquire))
    }

    /// Place and length, from both words; `None` if they are of two registrations, or it is no region of the arena without a colour.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn plain((place, extent): (u64, u64)) -> Option<(u64, u64)> {
        let kind = place & KIND_MASK << KIND_SHIFT;
        let is_plain = place >> GENERATION_SHIFT != 0 && (place ^ extent) >> KIND_SHIFT | kind == 0;
        is_plain.then_some((place & LOW_BITS, extent & LOW_BITS))
    }

    /// Where `bytes` at `offset` of the region are, as [`RegionView::base`] says it, with kind and generation. `None` if the
    /// entry is free, or the region too short.
    #[inline]
    pub fn locate(&self, offset: u64, bytes: u64) -> Option<(Kind, u64, u16)> {
        let place = self.place.load(Ordering::Acquire);
        let extent = self.extent.load(Ordering::Acquire);
        let (generation, whole) = (place >> GENERATION_SHIFT, extent & LOW_BITS);
        let halves_differ = generation != extent >> GENERATION_SHIFT;
        if generation == 0 || halves_differ || bytes > whole || offset > whole - bytes {
            return None;
        }
        Some((Kind::of(place)?, (place & LOW_BITS) + offset, generation as u16))
    }

    /// As [`view`](Self::view), ordered after an announcement in a hazard word, which is an exchange and comes right before.
    #[inline]
    pub fn view_announced(&self) -> Option<RegionView> {
        fence_after_exchange();
        self.view()
    }

    #[inline]
    fn decode(place: u64, extent: u64) -> Option<RegionView> {
        let generation = (place >> GENERATION_SHIFT) as u16;
        if generation == 0 || generation != (extent >> GENERATION_SHIFT) as u16 {
            return None;
        }
        Some(RegionView {
            kind: Kind::of(place)?,
            base: place & LOW_BITS,
            bytes: extent & LOW_BITS,
            generation,
            colour: (extent >> KIND_SHIFT & 15) as u8,
        })
    }
}

#[cfg(any(test, loom))]
impl Default for RegionEntry {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    /// A reader sees the first registration, the second, or none; never a mixture.
    #[test]
    fn loom_region_entry_is_never_torn() {
        loom::model(|| {
            let view = |n: u64| RegionView {
                kind: Kind::Arena,
                base: n * 4096,
                bytes: n,
                generation: n as u16,
                colour: 0,
            };
            let (entry, changes) = (Arc::new(RegionEntry::new()), Changes::new());
            entry.publish(view(1), &changes);
            let shared = entry.clone();
            let owner = loom::thread::spawn(move || {
                shared.retire(&changes);
                shared.publish(view(2), &changes);
            });
            if let Some(seen) = entry.view() {
                assert!(seen == view(1) || seen == view(2), "torn: {seen:?}");
            }
            owner.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_gives_back_what_was_published() {
        let entry = RegionEntry::new();
        assert_eq!(entry.view(), None);
        let view = RegionView {
            kind: Kind::Private,
            base: 0x7fff_1234_5678,
            bytes: 1 << 40,
            generation: MAX_GENERATION,
            colour: 3,
        };
        entry.publish(view, &Changes::new());
        assert_eq!((entry.view(), entry.bytes()), (Some(view), view.bytes));
        entry.retire(&Changes::new());
        assert_eq!((entry.view(), entry.bytes()), (None, 0));
    }

    #[test]
    fn every_way_of_reading_an_entry_finds_the_same_kind() {
        let entry = RegionEntry::new();
        for bits in 0..16u64 {
            let generation = 9 << GENERATION_SHIFT;
            entry.extent.store(generation | 100, Ordering::Release);
            entry.place.store(generation | bits << KIND_SHIFT | 4096, Ordering::Release);
            let kind = entry.view().map(|view| view.kind);
            assert_eq!(entry.locate(0, 1).map(|(kind, ..)| kind), kind);
            for generation in [0, 9] {
                let found = entry.in_arena(generation, 0, 1).is_some();
                assert_eq!(found, kind == Some(Kind::Arena), "kind {bits}, generation {generation}");
            }
            if let Some(kind) = kind {
                assert_eq!(kind.bits(), bits);
            }
        }
    }

    #[test]
    fn only_what_lies_in_a_region_of_the_arena_has_a_place_in_its_slice() {
        let entry = RegionEntry::new();
        assert_eq!(entry.in_arena(0, 0, 0), None);
        let view = RegionView { kind: Kind::Arena, base: 4096, bytes: 100, generation: 5, colour: 3 };
        entry.publish(view, &Changes::new());
        for generation in [0, 5] {
            assert_eq!(entry.in_arena(generation, 0, 100), Some(4096));
            assert_eq!(entry.in_arena(generation, 92, 8), Some(4188));
            assert_eq!(entry.in_arena(generation, 100, 0), Some(4196));
            assert_eq!(entry.in_arena(generation, 93, 8), None);
            assert_eq!(entry.in_arena(generation, u64::MAX, 2), None);
            assert_eq!(entry.in_arena(generation, 1, u64::MAX), None);
        }
        assert_eq!(entry.in_arena(4, 0, 1), None);
        entry.retire(&Changes::new());
        assert_eq!(entry.in_arena(0, 0, 0), None);
        entry.publish(RegionView { kind: Kind::Private, ..view }, &Changes::new());
        assert_eq!((entry.in_arena(0, 0, 1), entry.in_arena(5, 0, 1)), (None, None));
    }
}
