//! Lists: each element on the rank that was given for it.

use super::types::{rank_of, Element};
use super::{edge, WORLD};
use crate::guard::misuse;
use kumiki::data::{self, Position};
use kumiki::{GlobalAddress, Result, World};
use std::cmp::Ordering;
use std::ffi::c_int;

/// `acp_list_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct List {
    /// Where it is.
    pub ga: u64,
}

/// `acp_list_it_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ListIt {
    /// The list.
    pub list: List,
    /// The element; the list itself at the end.
    pub elem: u64,
}

/// How a program compares two elements: less than 0, 0 or more than 0.
pub type Compare = Option<unsafe extern "C" fn(Element, Element) -> c_int>;

impl List {
    fn open(self, world: &World) -> data::List<'_> {
        data::List::from_address(world, GlobalAddress::from_bits(self.ga))
    }

    /// Does something with it.
    fn with<T>(self, body: impl FnOnce(data::List<'_>) -> Result<T>) -> Result<T> {
        WORLD.with(|world| body(self.open(world)))
    }

    fn at(self, position: Position) -> ListIt {
        ListIt { list: self, elem: position.address().bits() }
    }

    fn at_end(self) -> ListIt {
        ListIt { list: self, elem: self.ga }
    }
}

impl ListIt {
    fn position(self) -> Position {
        Position::from_address(GlobalAddress::from_bits(self.elem))
    }
}

impl From<data::Element> for Element {
    fn from(element: data::Element) -> Element {
        Element { ga: element.address.bits(), size: element.bytes }
    }
}

impl From<Element> for data::Element {
    fn from(element: Element) -> data::Element {
        data::Element { address: GlobalAddress::from_bits(element.ga), bytes: element.size }
    }
}

/// The comparison of a program as one of Rust.
fn comparison(compare: Compare) -> Result<impl FnMut(data::Element, data::Element) -> Ordering> {
    let compare = compare.ok_or_else(|| misuse("the comparison is NULL"))?;
    // SAFETY: the program gave the function for this, and `acp.h` says what it is called with.
    Ok(move |one: data::Element, other: data::Element| unsafe { compare(one.into(), other.into()) }.cmp(&0))
}

/// Makes the first a copy of the second, on the ranks of the originals.
#[no_mangle]
pub extern "C" fn acp_assign_list(list1: List, list2: List) {
    edge("acp_assign_list", (), || WORLD.with(|world| list1.open(world).assign(&list2.open(world))));
}

/// Makes it a copy of a range.
#[no_mangle]
pub extern "C" fn acp_assign_range_list(list: List, start: ListIt, end: ListIt) {
    edge("acp_assign_range_list", (), || {
        WORLD.with(|world| {
            list.open(world).assign_range(&start.list.open(world), start.position(), end.position())
        })
    });
}

/// The first element, or the end.
#[no_mangle]
pub extern "C" fn acp_begin_list(list: List) -> ListIt {
    edge("acp_begin_list", list.at_end(), || list.with(|open| Ok(list.at(open.begin()?))))
}

/// Takes everything out.
#[no_mangle]
pub extern "C" fn acp_clear_list(list: List) {
    edge("acp_clear_list", (), || list.with(|mut open| open.clear()));
}

/// Makes an empty list; at 0 if that failed.
#[no_mangle]
pub extern "C" fn acp_create_list(rank: c_int) -> List {
    edge("acp_create_list", List::default(), || {
        let rank = rank_of(rank)?;
        WORLD.with(|world| Ok(List { ga: data::List::create(world, rank)?.address().bits() }))
    })
}

/// Gives all its memory back.
#[no_mangle]
pub extern "C" fn acp_destroy_list(list: List) {
    edge("acp_destroy_list", (), || list.with(|open| open.destroy()));
}

/// 1 if it has no element, 0 if it has.
#[no_mangle]
pub extern "C" fn acp_empty_list(list: List) -> c_int {
    edge("acp_empty_list", 1, || list.with(|open| open.is_empty().map(c_int::from)))
}

/// The end: behind the last element.
#[no_mangle]
pub extern "C" fn acp_end_list(list: List) -> ListIt {
    edge("acp_end_list", list.at_end(), || Ok(list.at_end()))
}

/// Takes an element out; gives the next one.
#[no_mangle]
pub extern "C" fn acp_erase_list(it: ListIt) -> ListIt {
    edge("acp_erase_list", it.list.at_end(), || {
        it.list.with(|mut open| Ok(it.list.at(open.erase(it.position())?)))
    })
}

/// Takes a range out; gives what came behind it.
#[no_mangle]
pub extern "C" fn acp_erase_range_list(start: ListIt, end: ListIt) -> ListIt {
    edge("acp_erase_range_list", end, || {
        start.list.with(|mut open| Ok(start.list.at(open.erase_range(start.position(), end.position())?)))
    })
}

/// Puts a copy of an element before the iterator, on a rank; gives its iterator.
#[no_mangle]
pub extern "C" fn acp_insert_list(it: ListIt, elem: Element, rank: c_int) -> ListIt {
    edge("acp_insert_list", ListIt { elem: 0, ..it }, || {
        let rank = rank_of(rank)?;
        it.list.with(|mut open| Ok(it.list.at(open.insert_from(it.position(), elem.into(), rank)?)))
    })
}

/// Puts copies of a range before the iterator, on the ranks of the originals; gives the iterator of the first.
#[no_mangle]
pub extern "C" fn acp_insert_range_list(it: ListIt, start: ListIt, end: ListIt) -> ListIt {
    edge("acp_insert_range_list", ListIt { elem: 0, ..it }, || {
        WORLD.with(|world| {
            let other = start.list.open(world);
            let mut open = it.list.open(world);
            let first = open.insert_range(it.position(), &other, start.position(), end.position())?;
            Ok(it.list.at(first))
        })
    })
}

/// Moves the elements of the second, which is sorted as the first is, to where they belong in the first.
///
/// # Safety
/// `comp` must be a function that compares two elements.
#[no_mangle]
pub unsafe extern "C" fn acp_merge_list(list1: List, list2: List, comp: Compare) {
    edge("acp_merge_list", (), || {
        let compare = comparison(comp)?;
        WORLD.with(|world| list1.open(world).merge_elements_by(&mut list2.open(world), compare))
    });
}

/// Takes the last element out.
#[no_mangle]
pub extern "C" fn acp_pop_back_list(list: List) {
    edge("acp_pop_back_list", (), || {
        list.with(|mut open| match open.last()? {
            last if last == open.end() => Ok(()),
            last => open.erase(last).map(drop),
        })
    });
}

/// Takes the first element out.
#[no_mangle]
pub extern "C" fn acp_pop_front_list(list: List) {
    edge("acp_pop_front_list", (), || {
        list.with(|mut open| match open.begin()? {
            first if first == open.end() => Ok(()),
            first => open.erase(first).map(drop),
        })
    });
}

/// Puts a copy of an element at the end, on a rank.
#[no_mangle]
pub extern "C" fn acp_push_back_list(list: List, elem: Element, rank: c_int) {
    edge("acp_push_back_list", (), || {
        let rank = rank_of(rank)?;
        list.with(|mut open| open.insert_from(open.end(), elem.into(), rank).map(drop))
    });
}

/// Puts a copy of an element at the front, on a rank.
#[no_mangle]
pub extern "C" fn acp_push_front_list(list: List, elem: Element, rank: c_int) {
    edge("acp_push_front_list", (), || {
        let rank = rank_of(rank)?;
        list.with(|mut open| {
            let first = open.begin()?;
            open.insert_from(first, elem.into(), rank).map(drop)
        })
    });
}

/// Takes every element out that is equal to this one.
#[no_mangle]
pub extern "C" fn acp_remove_list(list: List, elem: Element) {
    edge("acp_remove_list", (), || {
        let bytes = WORLD.with(|world| elem.read(world))?;
        list.with(|mut open| open.remove(&bytes).map(drop))
    });
}

/// Turns it round.
#[no_mangle]
pub extern "C" fn acp_reverse_list(list: List) {
    edge("acp_reverse_list", (), || list.with(|mut open| open.reverse()));
}

/// How many elements it has.
#[no_mangle]
pub extern "C" fn acp_size_list(list: List) -> usize {
    edge("acp_size_list", 0, || list.with(|open| open.len()))
}

/// Sorts it.
///
/// # Safety
/// `comp` must be a function that compares two elements.
#[no_mangle]
pub unsafe extern "C" fn acp_sort_list(list: List, comp: Compare) {
    edge("acp_sort_list", (), || {
        let compare = comparison(comp)?;
        list.with(|mut open| open.sort_elements_by(compare))
    });
}

/// Moves an element from wherever it is to before the first iterator.
#[no_mangle]
pub extern "C" fn acp_splice_list(it1: ListIt, it2: ListIt) {
    edge("acp_splice_list", (), || {
        WORLD.with(|world| {
            it1.list.open(world).splice(it1.position(), &mut it2.list.open(world), it2.position())
        })
    });
}

/// Moves a range from wherever it is to before the iterator.
#[no_mangle]
pub extern "C" fn acp_splice_range_list(it: ListIt, start: ListIt, end: ListIt) {
    edge("acp_splice_range_list", (), || {
        WORLD.with(|world| {
            let mut other = start.list.open(world);
            it.list.open(world).splice_range(it.position(), &mut other, start.position(), end.position())
        })
    });
}

/// Exchanges what two of them hold.
#[no_mangle]
pub extern "C" fn acp_swap_list(list1: List, list2: List) {
    edge("acp_swap_list", (), || WORLD.with(|world| list1.open(world).swap(&mut list2.open(world))));
}

/// Of each run of equal elements, takes all but the first out.
#[no_mangle]
pub extern "C" fn acp_unique_list(list: List) {
    edge("acp_unique_list", (), || list.with(|mut open| open.unique().map(drop)));
}

/// The iterator `n` elements further on, or back.
#[no_mangle]
pub extern "C" fn acp_advance_list_it(it: ListIt, n: c_int) -> ListIt {
    edge("acp_advance_list_it", it.list.at_end(), || {
        it.list.with(|open| Ok(it.list.at(open.advance(it.position(), n as isize)?)))
    })
}

/// The iterator of the element before.
#[no_mangle]
pub extern "C" fn acp_decrement_list_it(it: ListIt) -> ListIt {
    edge("acp_decrement_list_it", ListIt { elem: 0, ..it }, || {
        it.list.with(|open| Ok(it.list.at(open.previous(it.position())?)))
    })
}

/// Where the bytes of an element are.
#[no_mangle]
pub extern "C" fn acp_dereference_list_it(it: ListIt) -> Element {
    edge("acp_dereference_list_it", Element::default(), || {
        it.list.with(|open| open.element(it.position()).map(Element::from))
    })
}

/// How many elements it is from one iterator to another.
#[no_mangle]
pub extern "C" fn acp_distance_list_it(first: ListIt, last: ListIt) -> c_int {
    edge("acp_distance_list_it", 0, || {
        first.list.with(|open| open.distance(first.position(), last.position()).map(|far| far as c_int))
    })
}

/// The iterator of the next element.
#[no_mangle]
pub extern "C" fn acp_increment_list_it(it: ListIt) -> ListIt {
    edge("acp_increment_list_it", it.list.at_end(), || {
        it.list.with(|open| Ok(it.list.at(open.next(it.position())?)))
    })
}
