//! Maps whose keys and values are any types that serde knows (feature `serde`).
//!
//! Both are kept as JSON: a rank that was built from another version of a type reads what it understands, and every language can.
//! Equal keys must be written alike, which holds for everything but hash maps and sets; `BTreeMap` and `BTreeSet` do.
//! JSON has one word for what is not there: numbers that are not finite, `None`, `Some(None)` and `()` are all written as `null`, so that
//! keys which differ in that only are one key, and such a number is not read back as a number.

use super::agreement::{share, Wish};
use super::map::{Insert, Map, MapIter};
use super::Spread;
use crate::{Error, Result, World};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::marker::PhantomData;

/// A [`Map`] whose keys and values are any types that serde knows: strings, vectors, enums, structs.
///
/// ```
/// use kumiki::data::{SerdeMap, Spread};
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let woods = SerdeMap::<String, (f64, Vec<String>)>::shared(&world, Spread::everywhere().slots(64))?;
/// woods.put(&"oak".into(), &(0.75, vec!["beams".into(), "barrels".into()]))?;
/// let (density, uses) = woods.get(&"oak".into())?.expect("it was put");
/// assert_eq!((density, uses.len()), (0.75, 2));
/// for entry in woods.iter()? {
///     let (name, _) = entry?;
///     assert_eq!(name, "oak");
/// }
/// # world.finalize()
/// # }
/// ```
#[derive(Debug)]
pub struct SerdeMap<'w, K, V> {
    world: &'w World,
    map: Map<'w>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'w, K: Serialize, V: Serialize + DeserializeOwned> SerdeMap<'w, K, V> {
    /// As [`Map::create`].
    pub fn create(world: &'w World, spread: Spread) -> Result<Self> {
        Map::create(world, spread).map(|map| Self::from_bytes(world, map))
    }

    /// As [`Map::shared`].
    pub fn shared(world: &'w World, spread: Spread) -> Result<Self> {
        let wish = Wish::new("a map of serde's types", (std::any::type_name::<(K, V)>(), &spread));
        share(world, wish, || Map::create(world, spread.clone())).map(|map| Self::from_bytes(world, map))
    }

    /// A map seen as one of these types. What is there and is none of them is an error when it is met.
    pub fn from_bytes(world: &'w World, map: Map<'w>) -> Self {
        SerdeMap { world, map, types: PhantomData }
    }

    /// The map itself, with what is written in it.
    pub fn as_bytes(&self) -> &Map<'w> {
        &self.map
    }

    /// As [`Map::insert`].
    pub fn insert(&self, key: &K, value: &V) -> Result<Insert> {
        self.map.insert(&self.write(key)?, &self.write(value)?)
    }

    /// As [`Map::put`].
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        self.map.put(&self.write(key)?, &self.write(value)?)
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        let value = self.map.get(&self.write(key)?)?;
        value.map(|value| read(self.world, &value)).transpose()
    }

    /// As [`Map::remove`].
    pub fn remove(&self, key: &K) -> Result<bool> {
        self.map.remove(&self.write(key)?)
    }

    /// How many different keys there are.
    pub fn len(&self) -> Result<usize> {
        self.map.len()
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// All keys and values, fetched many at a time. What others insert or remove meanwhile may be among them or not.
    pub fn iter(&self) -> Result<SerdeMapIter<'_, K, V>> {
        self.map.iter().map(|entries| SerdeMapIter { world: self.world, entries, types: PhantomData })
    }

    /// Gives all its memory back: see [`Map::destroy`].
    pub fn destroy(self) -> Result<()> {
        self.map.destroy()
    }

    fn write(&self, value: &impl Serialize) -> Result<Vec<u8>> {
        let wrong = |error| Error::Misuse(format!("a key or value that cannot be written: {error}"));
        self.world.note(serde_json::to_vec(value).map_err(wrong))
    }
}

fn read<T: DeserializeOwned>(world: &World, bytes: &[u8]) -> Result<T> {
    let wrong = |error| Error::Misuse(format!("{} cannot be read: {error}", std::any::type_name::<T>()));
    world.note(serde_json::from_slice(bytes).map_err(wrong))
}

/// Goes through a [`SerdeMap`].
#[derive(Debug)]
pub struct SerdeMapIter<'t, K, V> {
    world: &'t World,
    entries: MapIter<'t>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: DeserializeOwned, V: DeserializeOwned> Iterator for SerdeMapIter<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        Some(entry.and_then(|(key, value)| Ok((read(self.world, &key)?, read(self.world, &value)?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn keys_had_to_be_plain_data() {
        let world = World::init().unwrap();
        let map = SerdeMap::<(String, i8), BTreeMap<u32, Option<f32>>>::shared(&world, Spread::everywhere())
            .unwrap();
        let value = BTreeMap::from([(1, None), (7, Some(0.5))]);
        for number in 0..20 {
            assert_eq!(map.insert(&("key".into(), number), &value), Ok(Insert::New));
        }
        assert_eq!(map.get(&("key".into(), 3)), Ok(Some(value.clone())));
        assert_eq!((map.get(&("other".into(), 3)), map.remove(&("key".into(), 4))), (Ok(None), Ok(true)));
        let mut found: Vec<i8> = map.iter().unwrap().map(|entry| entry.unwrap().0 .1).collect();
        found.sort_unstable();
        assert_eq!((found.len(), found[4], map.len()), (19, 5, Ok(19)));
        // What is there and is no such value is an error, not a guess.
        map.as_bytes().put(b"[\"key\",3]", b"{}x").unwrap();
        assert!(matches!(map.get(&("key".into(), 3)), Err(Error::Misuse(_))));
        map.destroy().unwrap();
        world.finalize().unwrap();
    }
}
