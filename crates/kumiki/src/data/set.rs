//! Sets: keys spread over ranks.

use super::agreement::{share, Handed, Wish};
use super::table::{table_methods, Core, Item, Kind, Op, Scan, Scope};
use super::{Cursor, Extent, RawTable, Spread};
use crate::{Result, World};

/// A set of byte strings, spread over ranks, that all ranks use at once. What [`Map`](super::Map) says of its operations
/// holds for these.
///
/// ```
/// use kumiki::data::{Set, Spread};
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let set = Set::create(&world, Spread::everywhere().slots(64))?;
/// assert!(set.insert(b"oak")?);
/// assert!(!set.insert(b"oak")?);
/// assert_eq!(set.contains_many(&["oak", "ash"])?, [true, false]);
/// set.destroy()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Debug)]
pub struct Set<'w>(Core<'w>);

table_methods!(Set, Kind::Set);

fn only(key: &[u8]) -> Item<'_> {
    Item { key, value: &[], number: 0 }
}

impl<'w> Set<'w> {
    /// Inserts a key. False if it was there.
    #[inline]
    pub fn insert(&self, key: &[u8]) -> Result<bool> {
        self.0.run(Op::Insert, only(key), &mut ()).map(|new| new == 1)
    }

    /// Removes a key. False if it was not there.
    #[inline]
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.0.run(Op::Remove, only(key), &mut ()).map(|removed| removed > 0)
    }

    /// Inserts many keys at once; whether each is new, in their order. Keys for other nodes travel together, in several
    /// messages at once.
    pub fn insert_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.many(Op::Insert, keys)
    }

    /// Removes many keys at once; whether each was there, in their order.
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.many(Op::Remove, keys)
    }

    fn many<K: AsRef<[u8]>>(&self, op: Op, keys: &[K]) -> Result<Vec<bool>> {
        let items: Vec<Item<'_>> = keys.iter().map(|key| only(key.as_ref())).collect();
        let mut done = vec![false; items.len()];
        self.0.run_many(op, &items, |item, answer, _| done[item] = answer > 0)?;
        Ok(done)
    }

    /// All keys, fetched many at a time. What others insert or remove meanwhile may be among them or not.
    pub fn iter(&self) -> Result<SetIter<'_>> {
        self.0.scan(Scope::Everywhere).map(SetIter)
    }

    /// The keys in the memory of this rank; nothing is sent.
    pub fn iter_local(&self) -> Result<SetIter<'_>> {
        self.0.scan(Scope::Mine).map(SetIter)
    }

    /// Where the key of an element is.
    pub fn dereference(&self, cursor: Cursor) -> Result<Extent> {
        self.0.dereference(cursor).map(|(key, _, _)| key)
    }
}

/// Goes through a [`Set`].
#[derive(Debug)]
pub struct SetIter<'t>(Scan<'t>);

impl Iterator for SetIter<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|element| element.map(|element| element.key))
    }
}
