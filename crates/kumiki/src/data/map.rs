//! Maps: keys with values, spread over ranks.

use super::agreement::{share, Handed, Wish};
use super::table::{table_methods, Core, Item, Kind, Op, Scan, Scope};
use super::{Cursor, Extent, RawTable, Spread};
use crate::{Pod, Result, World};
use std::marker::PhantomData;

/// A map from byte strings to byte strings, spread over ranks, that all ranks use at once.
///
/// Each operation on a key is atomic, and takes one lock (on this node) or one round trip (to another one). The map
/// holds no empty values: inserting one removes the key. A key and its value have at most [`LARGEST_ITEM`](super::LARGEST_ITEM)
/// bytes together.
///
/// A rank that is killed in the middle of an operation leaves it done or not done: whoever needs its lock next takes it
/// over and repairs the slot; at worst one block stays taken. When a rank that holds a part of the map dies, operations on
/// the keys there fail with [`PeerLost`](crate::Error::PeerLost), and others go on. When memory runs out nothing has changed.
///
/// ```
/// use kumiki::data::{Insert, Map, Spread};
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let map = Map::create(&world, Spread::everywhere())?;
/// assert_eq!(map.insert(b"joint", b"dovetail")?, Insert::New);
/// assert_eq!(map.insert(b"joint", b"mortise")?, Insert::Exists);
/// assert_eq!(map.get(b"joint")?.as_deref(), Some(&b"dovetail"[..]));
/// assert!(map.remove(b"joint")?);
/// map.destroy()?;
/// # world.finalize()
/// # }
/// ```
///
/// All ranks make one together, and each has a handle to it:
///
/// ```
/// # use kumiki::{data::{Map, Spread}, World};
/// # fn main() -> kumiki::Result<()> {
/// # let world = World::init()?;
/// let map = Map::shared(&world, Spread::everywhere().slots(64))?;
/// map.insert(&world.rank().to_le_bytes(), b"was here")?;
/// # world.sync()?;
/// # assert_eq!(map.len()?, world.ranks() as usize);
/// # world.finalize()
/// # }
/// ```
#[derive(Debug)]
pub struct Map<'w>(Core<'w>);

/// What became of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// The key was not there, and now is.
    New,
    /// The key was there; its value is as it was.
    Exists,
    /// The value was empty: the key is not there (any more).
    Removed,
}

table_methods!(Map, Kind::Map);

fn pair<'k>(key: &'k [u8], value: &'k [u8]) -> Item<'k> {
    Item { key, value, number: 0 }
}

impl<'w> Map<'w> {
    /// Gives a key a value, unless it has one.
    #[inline]
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Insert> {
        if value.is_empty() {
            return self.remove(key).map(|_| Insert::Removed);
        }
        let new = self.0.run(Op::Insert, pair(key, value), &mut ())?;
        Ok(if new == 1 { Insert::New } else { Insert::Exists })
    }

    /// Gives a key a value, in place of the one it may have. Others see the old value or the new one.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if value.is_empty() {
            return self.remove(key).map(drop);
        }
        self.0.run(Op::Put, pair(key, value), &mut ()).map(drop)
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let answer = self.0.run(Op::Get, pair(key, &[]), &mut value)?;
        Ok((answer > 0).then_some(value))
    }

    /// Copies the value of a key into a buffer, as much as fits, and gives how long it is. On this node nothing is
    /// allocated.
    #[inline]
    pub fn get_into(&self, key: &[u8], mut buffer: &mut [u8]) -> Result<Option<usize>> {
        let answer = self.0.run(Op::Get, pair(key, &[]), &mut buffer)?;
        Ok(answer.checked_sub(1).map(|bytes| bytes as usize))
    }

    /// Removes a key. False if it was not there.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.0.run(Op::Remove, pair(key, &[]), &mut ()).map(|removed| removed > 0)
    }

    /// Inserts many at once, and gives what became of each, in their order. Keys for other nodes travel together, in
    /// several messages at once; which of two equal keys in one batch comes first is not said.
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<Vec<Insert>> {
        let mut done = vec![Insert::Exists; pairs.len()];
        let (mut numbers, mut items) = (Vec::new(), Vec::new());
        for (number, (key, value)) in pairs.iter().enumerate() {
            let (key, value) = (key.as_ref(), value.as_ref());
            match value.is_empty() {
                true => done[number] = self.insert(key, value)?,
                false => {
                    numbers.push(number);
                    items.push(pair(key, value));
                }
            }
        }
        self.0.run_many(Op::Insert, &items, |item, new, _| {
            done[numbers[item]] = if new == 1 { Insert::New } else { Insert::Exists };
        })?;
        Ok(done)
    }

    /// The values of many keys, in their order; see [`insert_many`](Self::insert_many) for what it costs.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let items: Vec<Item<'_>> = keys.iter().map(|key| pair(key.as_ref(), &[])).collect();
        let mut found = vec![None; items.len()];
        self.0.run_many(Op::Get, &items, |item, answer, value| {
            found[item] = (answer > 0).then(|| value.to_vec());
        })?;
        Ok(found)
    }

    /// Removes many keys at once; whether each was there, in their order.
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let items: Vec<Item<'_>> = keys.iter().map(|key| pair(key.as_ref(), &[])).collect();
        let mut removed = vec![false; items.len()];
        self.0.run_many(Op::Remove, &items, |item, answer, _| removed[item] = answer > 0)?;
        Ok(removed)
    }

    /// All keys and values, fetched many at a time. What others insert or remove meanwhile may be among them or not.
    pub fn iter(&self) -> Result<MapIter<'_>> {
        self.0.scan(Scope::Everywhere).map(MapIter)
    }

    /// The keys and values in the memory of this rank; nothing is sent.
    pub fn iter_local(&self) -> Result<MapIter<'_>> {
        self.0.scan(Scope::Mine).map(MapIter)
    }

    /// Where key and value of an element are.
    pub fn dereference(&self, cursor: Cursor) -> Result<(Extent, Extent)> {
        self.0.dereference(cursor).map(|(key, value, _)| (key, value))
    }
}

/// Goes through a [`Map`].
#[derive(Debug)]
pub struct MapIter<'t>(Scan<'t>);

impl Iterator for MapIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|element| element.map(|element| (element.key, element.value)))
    }
}

/// Goes through a [`TypedMap`]; what is of other lengths is passed over.
#[derive(Debug)]
pub struct TypedMapIter<'t, K, V>(MapIter<'t>, PhantomData<fn() -> (K, V)>);

impl<K: Pod, V: Pod> Iterator for TypedMapIter<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.find_map(|entry| match entry {
            Ok((key, value)) => {
                let key = bytemuck::try_pod_read_unaligned(&key).ok()?;
                Some(Ok((key, bytemuck::try_pod_read_unaligned(&value).ok()?)))
            }
            Err(error) => Some(Err(error)),
        })
    }
}

/// A [`Map`] whose keys and values are plain data.
///
/// ```
/// use kumiki::data::{Spread, TypedMap};
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let map = TypedMap::<u64, [f64; 3]>::create(&world, Spread::everywhere().slots(256))?;
/// map.insert(7, [0.5, 1.0, 2.0])?;
/// assert_eq!(map.get(7)?, Some([0.5, 1.0, 2.0]));
/// assert_eq!(map.get_many(&[7, 8])?, [Some([0.5, 1.0, 2.0]), None]);
/// for entry in map.iter()? {
///     let (key, [x, ..]) = entry?;
///     assert_eq!((key, x), (7, 0.5));
/// }
/// # map.destroy()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Debug)]
pub struct TypedMap<'w, K, V> {
    map: Map<'w>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'w, K: Pod, V: Pod> TypedMap<'w, K, V> {
    /// As [`Map::create`].
    pub fn create(world: &'w World, spread: Spread) -> Result<Self> {
        Map::create(world, spread).map(Self::from_bytes)
    }

    /// As [`Map::shared`]; the types are the same on all ranks, too.
    pub fn shared(world: &'w World, spread: Spread) -> Result<Self> {
        let wish = Wish::of::<(K, V)>("a typed map", &spread);
        share(world, wish, || Map::create(world, spread.clone())).map(Self::from_bytes)
    }

    /// As [`Map::from_raw`].
    pub fn from_raw(world: &'w World, raw: RawTable) -> Result<Self> {
        Map::from_raw(world, raw).map(Self::from_bytes)
    }

    /// A map seen as one of these types. Values of another length are not found.
    pub fn from_bytes(map: Map<'w>) -> Self {
        TypedMap { map, types: PhantomData }
    }

    /// The map itself, which has all the operations on the whole of it.
    pub fn as_bytes(&self) -> &Map<'w> {
        &self.map
    }

    /// Gives the map back.
    pub fn into_bytes(self) -> Map<'w> {
        self.map
    }

    /// As [`Map::insert`].
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Result<Insert> {
        self.map.insert(bytemuck::bytes_of(&key), bytemuck::bytes_of(&value))
    }

    /// As [`Map::put`].
    #[inline]
    pub fn put(&self, key: K, value: V) -> Result<()> {
        self.map.put(bytemuck::bytes_of(&key), bytemuck::bytes_of(&value))
    }

    /// The value of a key. On this node nothing is allocated.
    #[inline]
    pub fn get(&self, key: K) -> Result<Option<V>> {
        let mut value = V::zeroed();
        let found = self.map.get_into(bytemuck::bytes_of(&key), bytemuck::bytes_of_mut(&mut value))?;
        Ok((found == Some(size_of::<V>())).then_some(value))
    }

    /// As [`Map::remove`].
    pub fn remove(&self, key: K) -> Result<bool> {
        self.map.remove(bytemuck::bytes_of(&key))
    }

    /// How many different keys there are, those of other lengths included.
    pub fn len(&self) -> Result<usize> {
        self.map.len()
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// All keys and values, fetched many at a time. What others insert or remove meanwhile may be among them or not.
    pub fn iter(&self) -> Result<TypedMapIter<'_, K, V>> {
        self.map.iter().map(|entries| TypedMapIter(entries, PhantomData))
    }

    /// The keys and values in the memory of this rank; nothing is sent.
    pub fn iter_local(&self) -> Result<TypedMapIter<'_, K, V>> {
        self.map.iter_local().map(|entries| TypedMapIter(entries, PhantomData))
    }

    /// Gives all its memory back: see [`Map::destroy`].
    pub fn destroy(self) -> Result<()> {
        self.map.destroy()
    }

    /// As [`Map::insert_many`].
    pub fn insert_many(&self, pairs: &[(K, V)]) -> Result<Vec<Insert>> {
        let bytes: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(key, value)| (bytemuck::bytes_of(key), bytemuck::bytes_of(value))).collect();
        self.map.insert_many(&bytes)
    }

    /// As [`Map::get_many`].
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys: Vec<&[u8]> = keys.iter().map(bytemuck::bytes_of).collect();
        let items: Vec<Item<'_>> = keys.iter().map(|key| pair(key, &[])).collect();
        let mut found = vec![None; items.len()];
        self.map.0.run_many(Op::Get, &items, |item, answer, value| {
            found[item] = (answer > 0).then(|| bytemuck::try_pod_read_unaligned(value).ok()).flatten();
        })?;
        Ok(found)
    }
}
