//! Hash tables spread over ranks: what [`Map`](super::Map), [`Set`](super::Set) and [`Multiset`](super::Multiset) share.
//!
//! A table has a directory, on a rank that its maker chooses, and for each entry of the directory a row of slots, on
//! the rank given for it. A key belongs to one slot; the elements of a slot are a list in the memory of the slot's rank.
//! Any rank changes a slot under the slot's own lock: directly on the same node, otherwise by asking the owner, in one
//! round trip. What a SIGKILL leaves behind is said in `slot.rs`: every list can be walked, and whoever takes over a
//! lock repairs the rest.
//!
//! | file | what |
//! |---|---|
//! | `layout.rs` | where everything lies |
//! | `slot.rs` | one slot: the algorithms |
//! | `part.rs` | one part, piece by piece; the service for other nodes |
//! | `directory.rs` | where the parts are |
//! | `core.rs` | a table: placement, one key, whole-table operations |
//! | `batch.rs` | many keys at once |
//! | `scan.rs` | going through a table |

mod batch;
mod core;
mod directory;
mod layout;
mod part;
mod scan;
mod slot;

pub(crate) use self::core::Core;
pub(crate) use self::core::Scope;
pub(crate) use directory::Directories;
pub(crate) use layout::Kind;
pub use layout::LARGEST_ITEM;
pub(crate) use part::serve;
pub(crate) use scan::Scan;
pub(crate) use slot::{Item, Op};

use crate::GlobalAddress;

/// A table as plain data: what other ranks need to use it. It has the layout of `acp_map_t`, `acp_set_t` and
/// `acp_multiset_t`; its [words](Self::words) can be put into global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RawTable {
    /// The directory: an array of addresses, one for each entry.
    pub address: GlobalAddress,
    /// Entries of the directory.
    pub ranks: u64,
    /// Slots of each entry.
    pub slots: u64,
}

impl RawTable {
    /// Its fields, which can be put into global memory.
    pub fn words(self) -> [u64; 3] {
        [self.address.bits(), self.ranks, self.slots]
    }

    /// The table with these [words](Self::words).
    pub fn from_words([address, ranks, slots]: [u64; 3]) -> RawTable {
        RawTable { address: GlobalAddress::from_bits(address), ranks, slots }
    }
}

/// A place in a table: an element, or the end (`index` is the number of entries, the others are 0).
///
/// A cursor of an element that has been removed goes on with the next slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The index in the directory.
    pub index: u64,
    /// The slot.
    pub slot: u64,
    /// The element.
    pub element: GlobalAddress,
}

/// Bytes somewhere in global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The first byte.
    pub address: GlobalAddress,
    /// How many.
    pub bytes: usize,
}

/// What all kinds of tables have.
macro_rules! table_methods {
    ($table:ident, $kind:expr) => {
        impl<'w> Handed<'w> for $table<'w> {
            fn words(&self) -> [u64; 3] {
                self.raw().words()
            }

            fn open(world: &'w World, words: [u64; 3]) -> Result<Self> {
                Self::from_raw(world, RawTable::from_words(words))
            }

            fn discard(self) -> Result<()> {
                self.destroy()
            }
        }

        impl<'w> $table<'w> {
            /// Makes an empty one. One rank makes it, and may tell others its [`raw`](Self::raw) form.
            pub fn create(world: &'w World, spread: Spread) -> Result<Self> {
                let (ranks, slots, directory) = spread.resolve(world);
                Core::create(world, $kind, &ranks, slots, directory).map($table)
            }

            /// Makes an empty one for all ranks: each gets a handle to the same. Collective: all ranks call it with the same
            /// arguments; if they do not, every rank gets an error.
            pub fn shared(world: &'w World, spread: Spread) -> Result<Self> {
                share(world, Wish::new(stringify!($table), &spread), || Self::create(world, spread.clone()))
            }

            /// One that another rank made. Nothing is sent if this world has used it before.
            pub fn from_raw(world: &'w World, raw: RawTable) -> Result<Self> {
                Core::from_raw(world, $kind, raw).map($table)
            }

            /// It as plain data, for other ranks.
            pub fn raw(&self) -> RawTable {
                self.0.raw
            }

            /// Gives all its memory back. Whoever uses it afterwards gets [`Misuse`](crate::Error::Misuse). (Dropping does
            /// nothing: a table belongs to all ranks.)
            pub fn destroy(self) -> Result<()> {
                self.0.destroy()
            }

            /// How many different keys there are.
            pub fn len(&self) -> Result<usize> {
                self.0.size(Scope::Everywhere).map(|keys| keys as usize)
            }

            /// How many different keys are in the memory of this rank; nothing is sent.
            pub fn len_local(&self) -> Result<usize> {
                self.0.size(Scope::Mine).map(|keys| keys as usize)
            }

            /// Whether it has no key.
            pub fn is_empty(&self) -> Result<bool> {
                self.len().map(|len| len == 0)
            }

            /// Whether it has no key in the memory of this rank; nothing is sent.
            pub fn is_empty_local(&self) -> Result<bool> {
                self.len_local().map(|len| len == 0)
            }

            /// Removes everything.
            pub fn clear(&self) -> Result<()> {
                self.0.clear(Scope::Everywhere)
            }

            /// Removes what is in the memory of this rank; nothing is sent.
            pub fn clear_local(&self) -> Result<()> {
                self.0.clear(Scope::Mine)
            }

            /// Whether a key is there.
            pub fn contains(&self, key: &[u8]) -> Result<bool> {
                self.0.run(Op::Find, Item { key, value: &[], number: 0 }, &mut ()).map(|element| element != 0)
            }

            /// Whether each of many keys is there, in their order; see [`insert_many`](Self::insert_many) for what it costs.
            pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
                let items: Vec<Item<'_>> =
                    keys.iter().map(|key| Item { key: key.as_ref(), value: &[], number: 0 }).collect();
                let mut found = vec![false; items.len()];
                self.0.run_many(Op::Find, &items, |item, element, _| found[item] = element != 0)?;
                Ok(found)
            }

            /// Where a key is, if it is there.
            pub fn find(&self, key: &[u8]) -> Result<Option<Cursor>> {
                self.0.find(key)
            }

            /// The first element; the order is that of directory, slots and insertion.
            pub fn begin(&self) -> Result<Cursor> {
                self.0.begin()
            }

            /// The place behind the last element.
            pub fn end(&self) -> Cursor {
                self.0.end()
            }

            /// The first element in the memory of this rank; the end if there is none.
            pub fn begin_local(&self) -> Result<Cursor> {
                self.0.begin_local()
            }

            /// What comes behind the last element in the memory of this rank; the end if there is none.
            pub fn end_local(&self) -> Result<Cursor> {
                self.0.end_local()
            }

            /// The element behind a place. To go through many elements of other nodes use [`iter`](Self::iter), which
            /// fetches many at a time.
            pub fn next(&self, cursor: Cursor) -> Result<Cursor> {
                self.0.next(cursor)
            }

            /// Inserts everything of another one that is not here; where counts are kept, they add up.
            pub fn merge(&self, other: &Self) -> Result<()> {
                self.0.merge(&other.0, Scope::Everywhere)
            }

            /// Inserts what another one has in the memory of this rank.
            pub fn merge_local(&self, other: &Self) -> Result<()> {
                self.0.merge(&other.0, Scope::Mine)
            }

            /// [Merges](Self::merge) another one into this one, then empties it.
            pub fn move_from(&self, other: &Self) -> Result<()> {
                self.0.take_all(&other.0, Scope::Everywhere)
            }

            /// The same with what the other one has in the memory of this rank.
            pub fn move_from_local(&self, other: &Self) -> Result<()> {
                self.0.take_all(&other.0, Scope::Mine)
            }

            /// Empties this one, then inserts everything of another one.
            pub fn assign(&self, other: &Self) -> Result<()> {
                self.0.assign(&other.0, Scope::Everywhere)
            }

            /// The same with what both have in the memory of this rank.
            pub fn assign_local(&self, other: &Self) -> Result<()> {
                self.0.assign(&other.0, Scope::Mine)
            }

            /// Exchanges the elements of two. If both lie on the same ranks with as many slots, no element is copied; otherwise
            /// both are copied first, so that nothing is lost when memory runs out.
            pub fn swap(&self, other: &Self) -> Result<()> {
                self.0.swap(&other.0)
            }
        }
    };
}
pub(crate) use table_methods;
