//! Multisets: keys that are counted, spread over ranks.

use super::agreement::{share, Handed, Wish};
use super::table::{table_methods, Core, Item, Kind, Op, Scan, Scope};
use super::{Cursor, Extent, RawTable, Spread};
use crate::{Result, World};

/// A set of byte strings that counts how often each was inserted, spread over ranks, that all ranks use at once. What
/// [`Map`](super::Map) says of its operations holds for these.
///
/// ```
/// use kumiki::data::{Multiset, Spread};
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let words = Multiset::create(&world, Spread::everywhere().slots(64))?;
/// words.insert_many(&["oak", "ash", "oak"])?;
/// assert_eq!(words.count(b"oak")?, 2);
/// assert_eq!(words.remove(b"oak")?, 2);
/// assert_eq!((words.count(b"oak")?, words.len()?), (1, 2));
/// words.destroy()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Debug)]
pub struct Multiset<'w>(Core<'w>);

table_methods!(Multiset, Kind::Multiset);

fn counted(key: &[u8], number: u64) -> Item<'_> {
    Item { key, value: &[], number }
}

impl<'w> Multiset<'w> {
    /// Counts a key once more; gives how often it is there then.
    #[inline]
    pub fn insert(&self, key: &[u8]) -> Result<u64> {
        self.add(key, 1)
    }

    /// Counts a key `times` more; gives how often it is there then.
    #[inline]
    pub fn add(&self, key: &[u8], times: u64) -> Result<u64> {
        match times {
            0 => self.count(key),
            times => self.0.run(Op::Add, counted(key, times), &mut ()),
        }
    }

    /// How often a key is there.
    #[inline]
    pub fn count(&self, key: &[u8]) -> Result<u64> {
        self.0.run(Op::Count, counted(key, 0), &mut ())
    }

    /// Counts a key once less; gives how often it was there. The last one removes it.
    #[inline]
    pub fn remove(&self, key: &[u8]) -> Result<u64> {
        self.0.run(Op::Take, counted(key, 0), &mut ())
    }

    /// Removes a key, however often it is there; gives how often that was.
    pub fn remove_all(&self, key: &[u8]) -> Result<u64> {
        self.0.run(Op::Remove, counted(key, 0), &mut ())
    }

    /// Counts many keys once more each; gives how often each was there when it was counted, in their order. Keys for
    /// other nodes travel together, in several messages at once.
    pub fn insert_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.many(Op::Add, keys)
    }

    /// How often each of many keys is there, in their order.
    pub fn count_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.many(Op::Count, keys)
    }

    /// Removes many keys, however often they are there; gives how often that was, in their order.
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.many(Op::Remove, keys)
    }

    fn many<K: AsRef<[u8]>>(&self, op: Op, keys: &[K]) -> Result<Vec<u64>> {
        let items: Vec<Item<'_>> = keys.iter().map(|key| counted(key.as_ref(), 1)).collect();
        let mut counts = vec![0; items.len()];
        self.0.run_many(op, &items, |item, count, _| counts[item] = count)?;
        Ok(counts)
    }

    /// All keys with their counts, fetched many at a time. What others change meanwhile may be among them or not.
    pub fn iter(&self) -> Result<MultisetIter<'_>> {
        self.0.scan(Scope::Everywhere).map(MultisetIter)
    }

    /// The keys in the memory of this rank with their counts; nothing is sent.
    pub fn iter_local(&self) -> Result<MultisetIter<'_>> {
        self.0.scan(Scope::Mine).map(MultisetIter)
    }

    /// Where the key of an element is, and how often it is there.
    pub fn dereference(&self, cursor: Cursor) -> Result<(Extent, u64)> {
        self.0.dereference(cursor).map(|(key, _, count)| (key, count))
    }
}

/// Goes through a [`Multiset`].
#[derive(Debug)]
pub struct MultisetIter<'t>(Scan<'t>);

impl Iterator for MultisetIter<'_> {
    type Item = Result<(Vec<u8>, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|element| element.map(|element| (element.key, element.number)))
    }
}
