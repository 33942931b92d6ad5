//! Maps, sets and multisets: keys spread over ranks.
//!
//! What they have in common is written once, as a macro; what they have apart is behind it.

use super::types::{pointer, rank_of, Element, Pair};
use super::{edge, WORLD};
use crate::guard::misuse;
use kumiki::data::{self, Cursor, Extent, RawTable};
use kumiki::{GlobalAddress, Result};
use std::ffi::c_int;

impl From<Extent> for Element {
    fn from(extent: Extent) -> Element {
        Element { ga: extent.address.bits(), size: extent.bytes }
    }
}

/// The ranks that C gives.
///
/// # Safety
/// `ranks` must be readable for `count` numbers, or NULL.
unsafe fn ranks_of(count: c_int, ranks: *const c_int) -> Result<Vec<u32>> {
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    let count = count.ok_or_else(|| misuse("the number of ranks must be 1 or more"))?;
    if ranks.is_null() {
        return Err(misuse("the list of ranks is at NULL"));
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(ranks, count) }.iter().map(|&rank| rank_of(rank)).collect()
}

/// The struct of a table, that of its iterators, and the functions that all tables have.
macro_rules! table {
    (
        $table:ident, $it:ident, $field:ident, $what:literal,
        assign $assign:ident $assign_local:ident, begin $begin:ident $begin_local:ident,
        clear $clear:ident $clear_local:ident, create $create:ident, destroy $destroy:ident,
        empty $empty:ident $empty_local:ident, end $end:ident $end_local:ident, find $find:ident,
        merge $merge:ident $merge_local:ident, take $move:ident $move_local:ident,
        size $size:ident $size_local:ident, swap $swap:ident, increment $increment:ident
    ) => {
        #[doc = concat!("`acp_", $what, "_t`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $table {
            /// Where its directory is.
            pub ga: u64,
            /// Entries of the directory.
            pub num_ranks: u64,
            /// Slots of each entry.
            pub num_slots: u64,
        }

        #[doc = concat!("`acp_", $what, "_it_t`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $it {
            /// What it goes through.
            pub $field: $table,
            /// The index in the directory; that behind the last one at the end.
            pub rank: c_int,
            /// The slot.
            pub slot: c_int,
            /// The element.
            pub elem: u64,
        }

        impl $table {
            /// Does something with it.
            fn with<T>(self, body: impl FnOnce(data::$table<'_>) -> Result<T>) -> Result<T> {
                WORLD.with(|world| {
                    let raw = RawTable::from_words([self.ga, self.num_ranks, self.num_slots]);
                    body(data::$table::from_raw(world, raw)?)
                })
            }

            /// Does something with the key that a program names.
            fn with_key<T>(
                self,
                key: Element,
                body: impl FnOnce(data::$table<'_>, &[u8]) -> Result<T>,
            ) -> Result<T> {
                let key = WORLD.with(|world| key.read_item(world))?;
                self.with(|open| body(open, &key))
            }

            /// Does something with two of them.
            fn with_other(
                self,
                other: $table,
                body: impl FnOnce(data::$table<'_>, &data::$table<'_>) -> Result<()>,
            ) -> Result<()> {
                self.with(|one| other.with(|other| body(one, &other)))
            }

            fn at(self, cursor: Cursor) -> $it {
                let Cursor { index, slot, element } = cursor;
                $it { $field: self, rank: index as c_int, slot: slot as c_int, elem: element.bits() }
            }

            fn at_end(self) -> $it {
                $it { $field: self, rank: self.num_ranks as c_int, slot: 0, elem: 0 }
            }
        }

        impl $it {
            fn cursor(self) -> Cursor {
                Cursor {
                    index: self.rank as u64,
                    slot: self.slot as u64,
                    element: GlobalAddress::from_bits(self.elem),
                }
            }
        }

        /// Empties the first, then inserts what the second has.
        #[no_mangle]
        pub extern "C" fn $assign(one: $table, other: $table) {
            edge(stringify!($assign), (), || one.with_other(other, |one, other| one.assign(other)));
        }

        /// The same with what both have on this rank.
        #[no_mangle]
        pub extern "C" fn $assign_local(one: $table, other: $table) {
            edge(stringify!($assign_local), (), || {
                one.with_other(other, |one, other| one.assign_local(other))
            });
        }

        /// The first element.
        #[no_mangle]
        pub extern "C" fn $begin(table: $table) -> $it {
            edge(stringify!($begin), table.at_end(), || table.with(|open| Ok(table.at(open.begin()?))))
        }

        /// The first element on this rank.
        #[no_mangle]
        pub extern "C" fn $begin_local(table: $table) -> $it {
            edge(stringify!($begin_local), table.at_end(), || {
                table.with(|open| Ok(table.at(open.begin_local()?)))
            })
        }

        /// Takes everything out.
        #[no_mangle]
        pub extern "C" fn $clear(table: $table) {
            edge(stringify!($clear), (), || table.with(|open| open.clear()));
        }

        /// Takes out what is on this rank.
        #[no_mangle]
        pub extern "C" fn $clear_local(table: $table) {
            edge(stringify!($clear_local), (), || table.with(|open| open.clear_local()));
        }

        /// Makes an empty one over these ranks, with its directory on a rank; at 0 if that failed.
        ///
        /// # Safety
        /// `ranks` must be readable for `num_ranks` numbers, or NULL.
        #[no_mangle]
        pub unsafe extern "C" fn $create(
            num_ranks: c_int,
            ranks: *const c_int,
            num_slots: c_int,
            rank: c_int,
        ) -> $table {
            edge(stringify!($create), $table::default(), || {
                // SAFETY: as the caller promises.
                let ranks = unsafe { ranks_of(num_ranks, ranks) }?;
                let slots =
                    usize::try_from(num_slots).map_err(|_| misuse(format!("{num_slots} slots cannot be")))?;
                let spread = data::Spread::over(&ranks).slots(slots).directory(rank_of(rank)?);
                WORLD.with(|world| {
                    let [ga, num_ranks, num_slots] = data::$table::create(world, spread)?.raw().words();
                    Ok($table { ga, num_ranks, num_slots })
                })
            })
        }

        /// Gives all its memory back.
        #[no_mangle]
        pub extern "C" fn $destroy(table: $table) {
            edge(stringify!($destroy), (), || table.with(|open| open.destroy()));
        }

        /// 1 if it has no key, 0 if it has.
        #[no_mangle]
        pub extern "C" fn $empty(table: $table) -> c_int {
            edge(stringify!($empty), 1, || table.with(|open| open.is_empty().map(c_int::from)))
        }

        /// 1 if it has no key on this rank, 0 if it has.
        #[no_mangle]
        pub extern "C" fn $empty_local(table: $table) -> c_int {
            edge(stringify!($empty_local), 1, || table.with(|open| open.is_empty_local().map(c_int::from)))
        }

        /// The place behind the last element.
        #[no_mangle]
        pub extern "C" fn $end(table: $table) -> $it {
            edge(stringify!($end), table.at_end(), || Ok(table.at_end()))
        }

        /// What comes behind the last element on this rank.
        #[no_mangle]
        pub extern "C" fn $end_local(table: $table) -> $it {
            edge(stringify!($end_local), table.at_end(), || {
                table.with(|open| Ok(table.at(open.end_local()?)))
            })
        }

        /// Where a key is; the end if it is not there.
        #[no_mangle]
        pub extern "C" fn $find(table: $table, key: Element) -> $it {
            edge(stringify!($find), table.at_end(), || {
                let found = table.with_key(key, |open, key| open.find(key))?;
                Ok(found.map_or(table.at_end(), |cursor| table.at(cursor)))
            })
        }

        /// Inserts into the first what the second has and the first has not.
        #[no_mangle]
        pub extern "C" fn $merge(one: $table, other: $table) {
            edge(stringify!($merge), (), || one.with_other(other, |one, other| one.merge(other)));
        }

        /// The same with what the second has on this rank.
        #[no_mangle]
        pub extern "C" fn $merge_local(one: $table, other: $table) {
            edge(stringify!($merge_local), (), || one.with_other(other, |one, other| one.merge_local(other)));
        }

        /// Merges, then empties the second.
        #[no_mangle]
        pub extern "C" fn $move(one: $table, other: $table) {
            edge(stringify!($move), (), || one.with_other(other, |one, other| one.move_from(other)));
        }

        /// The same with what the second has on this rank.
        #[no_mangle]
        pub extern "C" fn $move_local(one: $table, other: $table) {
            edge(stringify!($move_local), (), || {
                one.with_other(other, |one, other| one.move_from_local(other))
            });
        }

        /// How many different keys it has.
        #[no_mangle]
        pub extern "C" fn $size(table: $table) -> usize {
            edge(stringify!($size), 0, || table.with(|open| open.len().map(|keys| keys as usize)))
        }

        /// How many different keys it has on this rank.
        #[no_mangle]
        pub extern "C" fn $size_local(table: $table) -> usize {
            edge(stringify!($size_local), 0, || table.with(|open| open.len_local().map(|keys| keys as usize)))
        }

        /// Exchanges what two of them hold.
        #[no_mangle]
        pub extern "C" fn $swap(one: $table, other: $table) {
            edge(stringify!($swap), (), || one.with_other(other, |one, other| one.swap(other)));
        }

        /// The next element.
        #[no_mangle]
        pub extern "C" fn $increment(it: $it) -> $it {
            edge(stringify!($increment), it.$field.at_end(), || {
                it.$field.with(|open| Ok(it.$field.at(open.next(it.cursor())?)))
            })
        }
    };
}

table!(
    Map, MapIt, map, "map",
    assign acp_assign_map acp_assign_local_map, begin acp_begin_map acp_begin_local_map,
    clear acp_clear_map acp_clear_local_map, create acp_create_map, destroy acp_destroy_map,
    empty acp_empty_map acp_empty_local_map, end acp_end_map acp_end_local_map, find acp_find_map,
    merge acp_merge_map acp_merge_local_map, take acp_move_map acp_move_local_map,
    size acp_size_map acp_size_local_map, swap acp_swap_map, increment acp_increment_map_it
);
table!(
    Set, SetIt, set, "set",
    assign acp_assign_set acp_assign_local_set, begin acp_begin_set acp_begin_local_set,
    clear acp_clear_set acp_clear_local_set, create acp_create_set, destroy acp_destroy_set,
    empty acp_empty_set acp_empty_local_set, end acp_end_set acp_end_local_set, find acp_find_set,
    merge acp_merge_set acp_merge_local_set, take acp_move_set acp_move_local_set,
    size acp_size_set acp_size_local_set, swap acp_swap_set, increment acp_increment_set_it
);
table!(
    Multiset, MultisetIt, set, "multiset",
    assign acp_assign_multiset acp_assign_local_multiset, begin acp_begin_multiset acp_begin_local_multiset,
    clear acp_clear_multiset acp_clear_local_multiset, create acp_create_multiset, destroy acp_destroy_multiset,
    empty acp_empty_multiset acp_empty_local_multiset, end acp_end_multiset acp_end_local_multiset,
    find acp_find_multiset,
    merge acp_merge_multiset acp_merge_local_multiset, take acp_move_multiset acp_move_local_multiset,
    size acp_size_multiset acp_size_local_multiset, swap acp_swap_multiset, increment acp_increment_multiset_it
);

/// Gives a key a value: 1 if it is new, 0 if it is there already. A value of no bytes removes the key: 0.
#[no_mangle]
pub extern "C" fn acp_insert_map(map: Map, pair: Pair) -> c_int {
    edge("acp_insert_map", 0, || {
        let (key, value) =
            WORLD.with(|world| Ok((pair.first.read_item(world)?, pair.second.read_item(world)?)))?;
        map.with(|map| Ok(c_int::from(map.insert(&key, &value)? == data::Insert::New)))
    })
}

/// Removes a key.
#[no_mangle]
pub extern "C" fn acp_remove_map(map: Map, key: Element) {
    edge("acp_remove_map", (), || map.with_key(key, |map, key| map.remove(key).map(drop)));
}

/// Copies the value of a key to a place, as much as fits; gives how long it is, 0 if the key is not there.
#[no_mangle]
pub extern "C" fn acp_retrieve_map(map: Map, pair: Pair) -> usize {
    edge("acp_retrieve_map", 0, || {
        let Some(mut value) = map.with_key(pair.first, |map, key| map.get(key))? else { return Ok(0) };
        let bytes = value.len();
        value.truncate(pair.second.size);
        if !value.is_empty() {
            WORLD.with(|world| world.put_slice(pointer(pair.second.ga), &value))?;
        }
        Ok(bytes)
    })
}

/// Where key and value of an element are.
#[no_mangle]
pub extern "C" fn acp_dereference_map_it(it: MapIt) -> Pair {
    edge("acp_dereference_map_it", Pair::default(), || {
        let (key, value) = it.map.with(|map| map.dereference(it.cursor()))?;
        Ok(Pair { first: key.into(), second: value.into() })
    })
}

/// Inserts a key: 1, also if it is there already.
#[no_mangle]
pub extern "C" fn acp_insert_set(set: Set, key: Element) -> c_int {
    edge("acp_insert_set", 0, || set.with_key(key, |set, key| set.insert(key).map(|_| 1)))
}

/// Removes a key.
#[no_mangle]
pub extern "C" fn acp_remove_set(set: Set, key: Element) {
    edge("acp_remove_set", (), || set.with_key(key, |set, key| set.remove(key).map(drop)));
}

/// Where the key of an element is.
#[no_mangle]
pub extern "C" fn acp_dereference_set_it(it: SetIt) -> Element {
    edge("acp_dereference_set_it", Element::default(), || {
        it.set.with(|set| set.dereference(it.cursor()).map(Element::from))
    })
}

/// Counts a key once more: 1.
#[no_mangle]
pub extern "C" fn acp_insert_multiset(set: Multiset, key: Element) -> c_int {
    edge("acp_insert_multiset", 0, || set.with_key(key, |set, key| set.insert(key).map(|_| 1)))
}

/// Counts a key once less; the last one removes it.
#[no_mangle]
pub extern "C" fn acp_remove_multiset(set: Multiset, key: Element) {
    edge("acp_remove_multiset", (), || set.with_key(key, |set, key| set.remove(key).map(drop)));
}

/// Removes a key, however often it is there.
#[no_mangle]
pub extern "C" fn acp_remove_all_multiset(set: Multiset, key: Element) {
    edge("acp_remove_all_multiset", (), || set.with_key(key, |set, key| set.remove_all(key).map(drop)));
}

/// How often a key is there.
#[no_mangle]
pub extern "C" fn acp_retrieve_multiset(set: Multiset, key: Element) -> u64 {
    edge("acp_retrieve_multiset", 0, || set.with_key(key, |set, key| set.count(key)))
}

/// Where the key of an element is.
#[no_mangle]
pub extern "C" fn acp_dereference_multiset_it(it: MultisetIt) -> Element {
    edge("acp_dereference_multiset_it", Element::default(), || {
        it.set.with(|set| set.dereference(it.cursor()).map(|(key, _)| key.into()))
    })
}
