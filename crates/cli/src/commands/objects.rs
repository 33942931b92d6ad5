//! What objects in global memory cost beyond what a program keeps in them, measured: some are made, and the heap is asked.

use crate::chart::bytes_text;
use kumiki::data::{Counter, Deque, List, Map, Multiset, On, Set, Spread, Vector};
use kumiki::World;
use serde_json::{Map as Json, Value};

/// How many are made of each.
const COUNT: u64 = 1000;
/// Bytes of a key, and of a value.
const KEY_BYTES: u64 = 8;
const VALUE_BYTES: u64 = 64;
/// What an entry of a map may cost beyond key and value.
const ENTRY_BUDGET_BYTES: u64 = 48;

/// One kind of object: its name in reports, and bytes of each beyond what the program keeps in it.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Object {
    name: &'static str,
    bytes: f64,
    budget_bytes: Option<u64>,
}

/// All kinds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Objects(Vec<Object>);

impl Objects {
    /// Makes some of each kind in a world of one rank, and looks at its heap.
    pub(crate) fn measure() -> Result<Objects, String> {
        if kumiki_run::is_rank() {
            return Err("this process is a rank of a job".into());
        }
        let measured = World::init().and_then(|world| {
            let objects = measure_in(&world)?;
            world.finalize().map(|()| objects)
        });
        measured.map(Objects).map_err(|error| error.to_string())
    }

    pub(crate) fn json(&self) -> Value {
        let key = |name: &str| name.replace(' ', "_");
        let pairs = self.0.iter().map(|object| (key(object.name), object.bytes.into()));
        Value::Object(pairs.collect::<Json<String, Value>>())
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!("{:<34}{:>10}{:>10}\n", "bytes per object beyond its data", "bytes", "budget");
        for Object { name, bytes, budget_bytes } in &self.0 {
            let verdict = budget_bytes.map_or(String::new(), |budget| {
                let verdict = if *bytes <= budget as f64 { "OK" } else { "over" };
                format!("{:>10}  {verdict}", bytes_text(budget as f64))
            });
            text += format!("{name:<34}{:>10}{verdict}", bytes_text(*bytes)).trim_end();
            text += "\n";
        }
        text
    }
}

/// Bytes of each object that `make` makes, beyond `data` bytes of each.
fn each(
    world: &World,
    name: &'static str,
    data: u64,
    mut make: impl FnMut(&[u8]) -> kumiki::Result<()>,
) -> kumiki::Result<Object> {
    let used = || world.heap_use(0).map(|heap| heap.used_bytes);
    let before = used()?;
    (0..COUNT).try_for_each(|number| make(&number.to_le_bytes()))?;
    let bytes = (used()? - before) as f64 / COUNT as f64 - data as f64;
    Ok(Object { name, bytes, budget_bytes: None })
}

fn measure_in(world: &World) -> kumiki::Result<Vec<Object>> {
    let value = [0u8; VALUE_BYTES as usize];
    let map = Map::create(world, Spread::over(&[0]).slots(COUNT as usize))?;
    let set = Set::create(world, Spread::over(&[0]).slots(COUNT as usize))?;
    let multiset = Multiset::create(world, Spread::over(&[0]).slots(COUNT as usize))?;
    let mut list = List::create(world, 0)?;
    let table = |slots: u64| {
        each(world, "", 0, |_| Map::create(world, Spread::over(&[0]).slots(slots as usize)).map(drop))
    };
    let slots = 8;
    let pair_bytes = KEY_BYTES + VALUE_BYTES;
    let entry = each(world, "map entry", pair_bytes, |key| map.insert(key, &value).map(drop))?;
    Ok(vec![
        Object { budget_bytes: Some(ENTRY_BUDGET_BYTES), ..entry },
        each(world, "set entry", KEY_BYTES, |key| set.insert(key).map(drop))?,
        each(world, "multiset entry", KEY_BYTES, |key| multiset.insert(key).map(drop))?,
        Object {
            name: "table slot",
            bytes: (table(2 * slots)?.bytes - table(slots)?.bytes) / slots as f64,
            budget_bytes: None,
        },
        each(world, "list element", VALUE_BYTES, |_| list.push_back(&value, 0).map(drop))?,
        each(world, "list", 0, |_| List::create(world, 0).map(drop))?,
        each(world, "vector", VALUE_BYTES, |_| {
            Vector::<u8>::create(world, On::rank(0).elements(VALUE_BYTES as usize)).map(drop)
        })?,
        each(world, "deque", VALUE_BYTES, |_| {
            Deque::<u8>::create(world, On::rank(0).elements(VALUE_BYTES as usize)).map(drop)
        })?,
        each(world, "counter", 8, |_| Counter::create(world, 0).map(drop))?,
        each(world, "malloc block", VALUE_BYTES, |_| world.malloc(VALUE_BYTES as usize, 0).map(drop))?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_a_map_costs_what_the_document_says() {
        let objects = Objects::measure().expect("measured");
        let json = objects.json();
        // Now and then a block is a little longer than was asked for.
        for (name, bytes) in [("map_entry", 40.0), ("table_slot", 40.0), ("malloc_block", 8.0)] {
            assert_eq!(json[name].as_f64().map(f64::round), Some(bytes), "{json}");
        }
        assert!(objects.table().contains("OK"), "{}", objects.table());
    }
}
