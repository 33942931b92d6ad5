//! Global addresses: 64 bits that name a byte of any rank's registered memory.
//!
//! `rank | slot | offset`, from the top: ⌈log2(ranks)⌉ bits, 16 bits, and the rest. Slot 0 is never handed out, so
//! that 0 is null and small numbers are caught.

use crate::{Pod, Zeroable};
use kumiki_net::shm::arena::SLOTS;
use kumiki_net::Rank;
use std::marker::PhantomData;

/// Bits of the slot.
pub const SLOT_BITS: u32 = 16;
const _: () = assert!(1 << SLOT_BITS == SLOTS);
/// The slot of starter memory.
pub(crate) const STARTER_SLOT: u16 = 1;
/// Starter memory is registered once, for the life of a world.
pub(crate) const STARTER_GENERATION: u16 = 1;
/// The slot of the near part of the pool.
pub(crate) const POOL_SLOT: u16 = 2;
/// The slot of what the pool has beyond that.
pub(crate) const FAR_POOL_SLOT: u16 = 3;

/// The address of a byte in global memory; plain data, so it can itself be stored in global memory.
///
/// Arithmetic inside a region is ordinary arithmetic: `address.add(bytes)`.
///
/// ```
/// use kumiki_mem::GlobalAddress;
/// let base = GlobalAddress::from_bits(0x1000);
/// assert_eq!(base.add(8).bits(), 0x1008);
/// assert!(GlobalAddress::NULL.is_null());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Pod, Zeroable)]
#[kumiki(crate = "crate")]
#[repr(transparent)]
pub struct GlobalAddress(u64);

impl GlobalAddress {
    /// The address of nothing.
    pub const NULL: GlobalAddress = GlobalAddress(0);

    /// An address from its 64 bits, as another rank may have sent them.
    pub const fn from_bits(bits: u64) -> Self {
        GlobalAddress(bits)
    }

    /// The 64 bits.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether this is the address of nothing.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `bytes` further on. An address knows no region: when it is used it is checked against the one that it then
    /// lies in, which may be another. A [`GlobalPtr`] knows its own.
    #[inline]
    pub const fn add(self, bytes: u64) -> Self {
        GlobalAddress(self.0.wrapping_add(bytes))
    }
}

/// The address so many bytes further on: [`GlobalAddress::add`].
impl std::ops::Add<usize> for GlobalAddress {
    type Output = GlobalAddress;

    #[inline]
    fn add(self, bytes: usize) -> GlobalAddress {
        GlobalAddress::add(self, bytes as u64)
    }
}

impl std::fmt::LowerHex for GlobalAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::LowerHex::fmt(&self.0, f)
    }
}

/// How addresses are cut in a world of a given size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AddressFormat {
    /// Bits of the offset.
    pub(crate) offset_bits: u32,
    /// Bits of slot and offset together.
    pub(crate) rank_shift: u32,
    /// The most bytes that one slot spans.
    span: u64,
}

impl AddressFormat {
    pub(crate) fn new(ranks: u32) -> AddressFormat {
        let rank_bits = ranks.max(1).next_power_of_two().trailing_zeros();
        let rank_shift = 64 - rank_bits;
        AddressFormat::cut(rank_shift - SLOT_BITS, rank_shift)
    }

    /// So many bits of offset, and of slot and offset together.
    pub(crate) fn cut(offset_bits: u32, rank_shift: u32) -> AddressFormat {
        AddressFormat { offset_bits, rank_shift, span: 1 << offset_bits }
    }

    /// The most bytes that one slot spans.
    pub(crate) fn slot_span(&self) -> u64 {
        self.span
    }

    #[inline]
    pub(crate) fn rank(&self, address: GlobalAddress) -> Rank {
        // In two steps: with one rank the shift is 64, no bits, rank 0.
        Rank((address.0 >> 1 >> ((self.rank_shift - 1) & 63)) as u32)
    }

    #[inline]
    pub(crate) fn slot(&self, address: GlobalAddress) -> u16 {
        (address.0 >> self.offset_bits) as u16
    }

    #[inline]
    pub(crate) fn offset(&self, address: GlobalAddress) -> u64 {
        address.0 & (self.slot_span() - 1)
    }

    /// Where an address leads in the region that it must belong to (that which it lies in, if any will do): rank, first slot,
    /// and offset. A region of several slots is described as a whole by its first; so whatever lies before its beginning or
    /// behind its end has an offset beyond its length, and no other region is ever found.
    #[inline(always)]
    pub(crate) fn find(&self, address: GlobalAddress, registration: Registration) -> (Rank, u16, u64) {
        let region = match registration.region() {
            0 => address.0 >> self.offset_bits,
            region => region,
        };
        let offset = address.0.wrapping_sub(region << self.offset_bits);
        (Rank((region >> SLOT_BITS) as u32), region as u16, offset)
    }

    /// Rank and slot of an address as one number.
    #[inline(always)]
    pub(crate) fn region(&self, address: GlobalAddress) -> u64 {
        address.0 >> self.offset_bits
    }

    /// The first address of a rank and slot, as one number.
    #[inline]
    pub(crate) fn start(&self, region: u64) -> u64 {
        region << self.offset_bits
    }

    /// The name of a registration; of any in the slot if its generation is 0.
    pub(crate) fn registration(&self, rank: Rank, slot: u16, generation: u16) -> Registration {
        let region = self.address(rank, slot, 0).0 >> self.offset_bits;
        Registration(Registration::of_generation(generation).0 | region)
    }

    pub(crate) fn address(&self, rank: Rank, slot: u16, offset: u64) -> GlobalAddress {
        debug_assert!(slot != 0);
        let rank = (rank.0 as u64).checked_shl(self.rank_shift).unwrap_or(0);
        GlobalAddress((rank | (slot as u64) << self.offset_bits).wrapping_add(offset))
    }
}

/// Bits of rank and slot in a [`Registration`].
const REGION_BITS: u32 = 48;

/// Which registration an address must belong to: its generation (0: any) in the bits that the words of a region's entry have it
/// in, and, below, the rank and the first slot of the region as addresses have them (0: any region).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Registration(u64);

impl Registration {
    /// Any that is there.
    pub(crate) const ANY: Registration = Registration(0);

    /// Any region whose registration has this generation.
    pub(crate) const fn of_generation(generation: u16) -> Registration {
        // Generations have 12 bits. What is beyond them, in one that somebody made up, goes where an entry has its kind.
        Registration((generation.rotate_left(4) as u64) << REGION_BITS)
    }

    #[inline(always)]
    pub(crate) const fn generation(self) -> u16 {
        ((self.0 >> REGION_BITS) as u16).rotate_right(4)
    }

    /// From a name, whoever made it up.
    pub(crate) const fn from_bits(bits: u64) -> Registration {
        Registration(bits)
    }

    /// The whole name: the tag of the generation, rank and first slot.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Rank and slot as one number; 0 if any will do.
    #[inline(always)]
    pub(crate) const fn region(self) -> u64 {
        self.0 & ((1 << REGION_BITS) - 1)
    }

    /// The first slot; 0 if any will do.
    pub(crate) const fn slot(self) -> u16 {
        self.region() as u16
    }
}

/// A typed address: an element of plain data in some rank's region, and the registration it belongs to.
///
/// A pointer is only a name. It can be copied, sent to other ranks and kept after the region is gone; using it then
/// gives [`Bounds`](crate::Error::Bounds), and so does using one that was moved out of its region, whatever lies there.
///
/// It is itself plain data of 16 bytes, so it can be put into global memory. Memory that is all zeros holds
/// [null](Self::NULL) pointers, which point nowhere.
///
/// ```
/// # fn main() -> kumiki_mem::Result<()> {
/// # let world = kumiki_mem::World::init()?;
/// let (numbers, places) = (world.alloc::<u64>(10)?, world.alloc::<kumiki_mem::GlobalPtr<u64>>(2)?);
/// world.put(places.ptr(), numbers.ptr() + 7)?;
/// let seventh = world.get(places.ptr())?;
/// world.put(seventh, 49)?;
/// assert_eq!(world.get(numbers.ptr() + 7)?, 49);
/// assert!(world.get(places.ptr() + 1)?.is_null());
/// # drop((numbers, places));
/// # world.finalize()
/// # }
/// ```
#[repr(C)]
pub struct GlobalPtr<T> {
    pub(crate) address: GlobalAddress,
    pub(crate) registration: Registration,
    element: PhantomData<fn() -> T>,
}

const _: () = assert!(std::mem::size_of::<GlobalPtr<u64>>() == 16);

impl<T> Clone for GlobalPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalPtr<T> {}

impl<T> PartialEq for GlobalPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> Eq for GlobalPtr<T> {}

impl<T> std::hash::Hash for GlobalPtr<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.address.hash(state);
    }
}

impl<T: Pod> Default for GlobalPtr<T> {
    fn default() -> Self {
        Self::NULL
    }
}

// SAFETY: two words, of which zeros are the null pointer; the marker has no bytes.
unsafe impl<T> Zeroable for GlobalPtr<T> {}
// SAFETY: two words side by side, as the size asserted above shows, and nothing else. Any of their values is a pointer: what
// it leads to is checked at each use, because other ranks could always send whatever they like. What it points to need not be
// known to be plain data, so that a type can hold pointers to itself; it must be to be read or written.
unsafe impl<T: 'static> Pod for GlobalPtr<T> {}

/// The pointer so many elements further on: [`GlobalPtr::add`].
impl<T: Pod> std::ops::Add<usize> for GlobalPtr<T> {
    type Output = GlobalPtr<T>;

    #[inline]
    fn add(self, count: usize) -> GlobalPtr<T> {
        GlobalPtr::add(self, count)
    }
}

/// Moves the pointer so many elements on.
impl<T: Pod> std::ops::AddAssign<usize> for GlobalPtr<T> {
    #[inline]
    fn add_assign(&mut self, count: usize) {
        *self = *self + count;
    }
}

impl<T> std::fmt::Debug for GlobalPtr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GlobalPtr<{}>({:#x})", std::any::type_name::<T>(), self.address)
    }
}

impl<T: Pod> GlobalPtr<T> {
    /// The pointer to nothing: what memory of zeros holds. Using it gives [`Bounds`](crate::Error::Bounds).
    pub const NULL: GlobalPtr<T> = Self::from_address(GlobalAddress::NULL);

    /// Whether this is the pointer to nothing.
    pub const fn is_null(self) -> bool {
        self.address.is_null()
    }

    /// A pointer to what lies at `address`, whatever was registered there last. It knows no region, as the address does not.
    pub const fn from_address(address: GlobalAddress) -> Self {
        Self::new(address, Registration::ANY)
    }

    pub(crate) const fn new(address: GlobalAddress, registration: Registration) -> Self {
        GlobalPtr { address, registration, element: PhantomData }
    }

    /// The address and the registration it belongs to, as plain data that can be sent to another rank.
    pub const fn parts(self) -> (GlobalAddress, u64) {
        (self.address, self.registration.0)
    }

    /// The pointer with these [`parts`](Self::parts).
    pub const fn from_parts(address: GlobalAddress, registration: u64) -> Self {
        Self::new(address, Registration(registration))
    }

    /// The address of the first byte.
    #[inline]
    pub const fn address(self) -> GlobalAddress {
        self.address
    }

    /// The pointer `count` elements further on. Whether it still lies in its region is checked when it is used; one
    /// [from an address](Self::from_address) knows no region, and reaches whatever lies there.
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait)]
    pub const fn add(self, count: usize) -> Self {
        let bytes = (count as u64).wrapping_mul(std::mem::size_of::<T>() as u64);
        GlobalPtr { address: self.address.add(bytes), ..self }
    }

    /// The same place, seen as another type.
    #[must_use]
    pub const fn cast<U: Pod>(self) -> GlobalPtr<U> {
        GlobalPtr::new(self.address, self.registration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_format_follows_the_number_of_ranks() {
        assert_eq!(AddressFormat::new(1).offset_bits, 48);
        assert_eq!(AddressFormat::new(2).offset_bits, 47);
        assert_eq!(AddressFormat::new(3).offset_bits, 46);
        assert_eq!(AddressFormat::new(1024).offset_bits, 38);
        assert_eq!(AddressFormat::new(1 << 20).offset_bits, 28);
    }

    #[test]
    fn a_pointer_could_not_be_put_into_global_memory() {
        let pointer = GlobalPtr::<u64>::new(GlobalAddress(0x1_0000), Registration(3)) + 2;
        let words: [u64; 2] = bytemuck::cast(pointer);
        assert_eq!(words, [0x1_0010, 3]);
        let back: GlobalPtr<u64> = bytemuck::cast(words);
        assert_eq!((back, back.registration), (pointer, pointer.registration));
        assert!(GlobalPtr::<u64>::zeroed().is_null() && !back.is_null());
    }

    proptest! {
        #[test]
        fn an_address_gives_back_its_parts(ranks in 1u32..1 << 22, rank: u32, slot in 1u16.., offset: u64) {
            let format = AddressFormat::new(ranks);
            let (rank, offset) = (Rank(rank % ranks), offset % format.slot_span());
            let address = format.address(rank, slot, offset);
            prop_assert!(!address.is_null());
            prop_assert_eq!(format.rank(address), rank);
            prop_assert_eq!(format.slot(address), slot);
            prop_assert_eq!(format.offset(address), offset);
        }

        #[test]
        fn a_registration_is_where_its_region_begins_however_far_an_address_has_moved(
            ranks in 1u32..1 << 22, rank: u32, slot in 1u16..4096, generation: u16, moved: u64,
        ) {
            let format = AddressFormat::new(ranks);
            let rank = Rank(rank % ranks);
            let registration = format.registration(rank, slot, generation);
            prop_assert_eq!((registration.generation(), registration.slot()), (generation, slot));
            let address = format.address(rank, slot, 0).add(moved);
            prop_assert_eq!(format.find(address, registration), (rank, slot, moved));
            let there = (format.rank(address), format.slot(address), format.offset(address));
            prop_assert_eq!(format.find(address, Registration::ANY), there);
        }
    }
}
