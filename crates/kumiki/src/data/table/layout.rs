//! Where everything of a table lies, in 8-byte words. Existing C programs read this, so it is fixed.
//!
//! | what | words |
//! |---|---|
//! | directory | one address of a row of slots for each entry |
//! | slot | lock, head, tail, count |
//! | element of a map | next, previous, 8 + key bytes + value bytes, key bytes, key, value |
//! | element of a set | next, previous, key bytes, key |
//! | element of a multiset | next, previous, counter, key bytes, key |
//!
//! Links are global addresses, and 0 ends a list. Before the directory, and before each row of slots, lie four words that
//! C programs do not see: what it is, a number that no other table has, and two more.

use crate::{GlobalAddress, Result};

use super::super::message::{unknown, Reader, Writer};

/// Bytes before the directory and before each row of slots: mark, number of the table, two more words.
pub(super) const HEADER_BYTES: u64 = 32;
pub(super) const MARK_AT: u64 = 0;
pub(super) const NONCE_AT: u64 = 8;
/// Of a row of slots, the address of the block that it lies in.
pub(super) const BLOCK_AT: u64 = 16;
/// Slots of each entry.
pub(super) const SLOTS_AT: u64 = 24;

/// Bytes of a slot, whose first word is its lock.
pub(super) const SLOT_BYTES: u64 = 32;
/// Bytes of the version of a slot. Versions lie behind the slots, one for each.
pub(super) const VERSION_BYTES: u64 = 8;
/// A row of slots begins with a cache line, so that no slot lies in two.
pub(super) const ROW_ALIGNMENT: u64 = 64;
pub(super) const HEAD_AT: u64 = 8;
pub(super) const TAIL_AT: u64 = 16;
pub(super) const COUNT_AT: u64 = 24;
/// In the count of a slot that is being exchanged with another one: the rest is the offset of the other in the pool, and
/// the tail is the head that this slot will have. Only seen under the lock, or behind somebody who died with it.
pub(super) const SWAPPING: u64 = 1 << 63;

/// Of an element.
pub(super) const NEXT_AT: u64 = 0;
pub(super) const PREVIOUS_AT: u64 = 8;
/// Of a map's element, 8 + bytes of key and value; of a multiset's, the counter.
pub(super) const THIRD_AT: u64 = 16;

/// The most bytes of a key and its value in a table together: what is longer is kept in a block of its own, and its address here.
pub const LARGEST_ITEM: usize = 8 << 20;

const DIRECTORY_MARK: u64 = u64::from_le_bytes(*b"tabledi\0");
const SLOTS_MARK: u64 = u64::from_le_bytes(*b"tablesl\0");

/// What a table holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Map = 1,
    Set = 2,
    Multiset = 3,
}

impl Kind {
    /// What it is called in errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Map => "map",
            Kind::Set => "set",
            Kind::Multiset => "multiset",
        }
    }

    #[inline]
    pub(super) fn key_bytes_at(self) -> u64 {
        match self {
            Kind::Map | Kind::Multiset => 24,
            Kind::Set => 16,
        }
    }

    #[inline]
    pub(super) fn key_at(self) -> u64 {
        self.key_bytes_at() + 8
    }

    /// The first word of the header of a directory.
    pub(super) fn directory_mark(self) -> u64 {
        DIRECTORY_MARK | (self as u64) << 56
    }

    /// The first word of the header of a row of slots.
    #[inline]
    pub(super) fn slots_mark(self) -> u64 {
        SLOTS_MARK | (self as u64) << 56
    }

    fn from_code(code: u8) -> Result<Kind> {
        [Kind::Map, Kind::Set, Kind::Multiset]
            .into_iter()
            .find(|&kind| kind as u8 == code)
            .ok_or_else(|| unknown(code))
    }
}

/// One entry of a directory, as its owner is asked for it: the row of slots, and which table it must belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) nonce: u64,
    pub(super) address: GlobalAddress,
}

impl Part {
    /// Begins a request about this part.
    pub(super) fn request(self, code: u8) -> Writer {
        Writer::new(code).byte(self.kind as u8).long(self.nonce).long(self.address.bits())
    }

    /// Reads what [`request`](Self::request) wrote behind the code.
    pub(super) fn read(request: &mut Reader<'_>) -> Result<Part> {
        Ok(Part {
            kind: Kind::from_code(request.byte()?)?,
            nonce: request.long()?,
            address: GlobalAddress::from_bits(request.long()?),
        })
    }
}
