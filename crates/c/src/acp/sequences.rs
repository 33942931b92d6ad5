//! Vectors and deques: bytes on one rank, in one piece or in a ring.
//!
//! What they have in common is written once, as a macro; what they have apart is behind it.

use super::types::{index_of, pointer, rank_of, Element, Pair};
use super::{edge, WORLD};
use kumiki::{data, GlobalAddress, Result, World};
use std::ffi::c_int;
use std::ops::Range;

/// A length of bytes as the iterators of C count it: no sequence that they reach is longer.
fn as_index(bytes: usize) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

/// The struct of a sequence, that of its iterators, and the functions that both have.
macro_rules! sequence {
    (
        $sequence:ident, $it:ident, $field:ident, $what:literal,
        assign $assign:ident $assign_range:ident, begin $begin:ident, capacity $capacity:ident, clear $clear:ident,
        create $create:ident, destroy $destroy:ident, empty $empty:ident, end $end:ident,
        erase $erase:ident $erase_range:ident, insert $insert:ident $insert_range:ident,
        pop_back $pop_back:ident, push_back $push_back:ident, reserve $reserve:ident, size $size:ident,
        swap $swap:ident, advance $advance:ident, distance $distance:ident
    ) => {
        #[doc = concat!("`acp_", $what, "_t`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $sequence {
            /// Where it is.
            pub ga: u64,
        }

        #[doc = concat!("`acp_", $what, "_it_t`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $it {
            /// What it goes through.
            pub $field: $sequence,
            /// The index of a byte.
            pub index: c_int,
        }

        impl $sequence {
            fn open(self, world: &World) -> data::$sequence<'_> {
                data::$sequence::from_address(world, GlobalAddress::from_bits(self.ga))
            }

            /// Does something with it.
            fn with<T>(self, body: impl FnOnce(data::$sequence<'_>) -> Result<T>) -> Result<T> {
                WORLD.with(|world| body(self.open(world)))
            }

            fn at(self, index: c_int) -> $it {
                $it { $field: self, index }
            }
        }

        impl $it {
            /// The range between two iterators.
            fn to(self, end: $it) -> Result<Range<usize>> {
                Ok(index_of(self.index)?..index_of(end.index)?)
            }

            /// The range of so many bytes, or as many as there are.
            fn first(self, size: usize, bytes: &data::$sequence<'_>) -> Result<Range<usize>> {
                let start = index_of(self.index)?;
                Ok(start..start.saturating_add(size).min(bytes.len()?.max(start)))
            }
        }

        /// Makes the first a copy of the second.
        #[no_mangle]
        pub extern "C" fn $assign(one: $sequence, other: $sequence) {
            edge(stringify!($assign), (), || {
                WORLD.with(|world| one.open(world).assign_all(&other.open(world)))
            });
        }

        /// Makes it a copy of a range.
        #[no_mangle]
        pub extern "C" fn $assign_range(one: $sequence, start: $it, end: $it) {
            edge(stringify!($assign_range), (), || {
                let range = start.to(end)?;
                WORLD.with(|world| one.open(world).assign_range(&start.$field.open(world), range))
            });
        }

        /// The iterator of the first byte.
        #[no_mangle]
        pub extern "C" fn $begin(one: $sequence) -> $it {
            edge(stringify!($begin), one.at(0), || Ok(one.at(0)))
        }

        /// How many bytes fit before it moves.
        #[no_mangle]
        pub extern "C" fn $capacity(one: $sequence) -> usize {
            edge(stringify!($capacity), 0, || one.with(|bytes| bytes.capacity()))
        }

        /// Takes everything out.
        #[no_mangle]
        pub extern "C" fn $clear(one: $sequence) {
            edge(stringify!($clear), (), || one.with(|mut bytes| bytes.clear()));
        }

        /// Makes one: a vector has so many bytes, a deque is empty and has room for them. At 0 if that failed.
        #[no_mangle]
        pub extern "C" fn $create(size: usize, rank: c_int) -> $sequence {
            edge(stringify!($create), $sequence::default(), || {
                let rank = rank_of(rank)?;
                WORLD.with(|world| {
                    let made = data::$sequence::<u8>::create(world, data::On::rank(rank).elements(size))?;
                    Ok($sequence { ga: made.address().bits() })
                })
            })
        }

        /// Gives its memory back.
        #[no_mangle]
        pub extern "C" fn $destroy(one: $sequence) {
            edge(stringify!($destroy), (), || one.with(|bytes| bytes.destroy()));
        }

        /// 1 if it has no bytes, 0 if it has.
        #[no_mangle]
        pub extern "C" fn $empty(one: $sequence) -> c_int {
            edge(stringify!($empty), 1, || one.with(|bytes| bytes.is_empty().map(c_int::from)))
        }

        /// The iterator behind the last byte.
        #[no_mangle]
        pub extern "C" fn $end(one: $sequence) -> $it {
            edge(stringify!($end), one.at(0), || one.with(|bytes| Ok(one.at(as_index(bytes.len()?)))))
        }

        /// Takes bytes out, as many as there are; gives the iterator of what came behind them.
        #[no_mangle]
        pub extern "C" fn $erase(it: $it, size: usize) -> $it {
            edge(stringify!($erase), it, || {
                it.$field.with(|mut bytes| {
                    let range = it.first(size, &bytes)?;
                    bytes.erase(range)
                })?;
                Ok(it)
            })
        }

        /// Takes a range out; gives the iterator of what came behind it.
        #[no_mangle]
        pub extern "C" fn $erase_range(start: $it, end: $it) -> $it {
            edge(stringify!($erase_range), start, || {
                let range = start.to(end)?;
                start.$field.with(|mut bytes| bytes.erase(range))?;
                Ok(start)
            })
        }

        /// Puts bytes from anywhere before the iterator; gives the iterator of the first of them.
        #[no_mangle]
        pub extern "C" fn $insert(it: $it, ga: u64, size: usize) -> $it {
            edge(stringify!($insert), it, || {
                let index = index_of(it.index)?;
                it.$field.with(|mut bytes| bytes.insert_from(index, pointer(ga), size))?;
                Ok(it)
            })
        }

        /// Puts a range before the iterator; gives the iterator of the first byte.
        #[no_mangle]
        pub extern "C" fn $insert_range(it: $it, start: $it, end: $it) -> $it {
            edge(stringify!($insert_range), it, || {
                let (index, range) = (index_of(it.index)?, start.to(end)?);
                WORLD.with(|world| {
                    it.$field.open(world).insert_range(index, &start.$field.open(world), range)
                })?;
                Ok(it)
            })
        }

        /// Takes bytes off the end, as many as there are.
        #[no_mangle]
        pub extern "C" fn $pop_back(one: $sequence, size: usize) {
            edge(stringify!($pop_back), (), || {
                one.with(|mut bytes| {
                    let count = size.min(bytes.len()?);
                    bytes.drop_back(count)
                })
            });
        }

        /// Puts bytes from anywhere at the end.
        #[no_mangle]
        pub extern "C" fn $push_back(one: $sequence, ga: u64, size: usize) {
            edge(stringify!($push_back), (), || one.with(|mut bytes| bytes.extend_from(pointer(ga), size)));
        }

        /// Makes room for so many bytes in all.
        #[no_mangle]
        pub extern "C" fn $reserve(one: $sequence, size: usize) {
            edge(stringify!($reserve), (), || one.with(|mut bytes| bytes.reserve(size)));
        }

        /// How many bytes it has.
        #[no_mangle]
        pub extern "C" fn $size(one: $sequence) -> usize {
            edge(stringify!($size), 0, || one.with(|bytes| bytes.len()))
        }

        /// Exchanges what two of them hold.
        #[no_mangle]
        pub extern "C" fn $swap(one: $sequence, other: $sequence) {
            edge(stringify!($swap), (), || WORLD.with(|world| one.open(world).swap(&mut other.open(world))));
        }

        /// The iterator `n` bytes further on.
        #[no_mangle]
        pub extern "C" fn $advance(it: $it, n: c_int) -> $it {
            edge(stringify!($advance), it, || Ok(it.$field.at(it.index.wrapping_add(n))))
        }

        /// How many bytes there are between two iterators.
        #[no_mangle]
        pub extern "C" fn $distance(first: $it, last: $it) -> c_int {
            edge(stringify!($distance), 0, || Ok(last.index.wrapping_sub(first.index)))
        }
    };
}

sequence!(
    Vector, VectorIt, vector, "vector",
    assign acp_assign_vector acp_assign_range_vector, begin acp_begin_vector, capacity acp_capacity_vector,
    clear acp_clear_vector, create acp_create_vector, destroy acp_destroy_vector, empty acp_empty_vector,
    end acp_end_vector, erase acp_erase_vector acp_erase_range_vector,
    insert acp_insert_vector acp_insert_range_vector, pop_back acp_pop_back_vector,
    push_back acp_push_back_vector, reserve acp_reserve_vector, size acp_size_vector, swap acp_swap_vector,
    advance acp_advance_vector_it, distance acp_distance_vector_it
);
sequence!(
    Deque, DequeIt, deque, "deque",
    assign acp_assign_deque acp_assign_range_deque, begin acp_begin_deque, capacity acp_capacity_deque,
    clear acp_clear_deque, create acp_create_deque, destroy acp_destroy_deque, empty acp_empty_deque,
    end acp_end_deque, erase acp_erase_deque acp_erase_range_deque,
    insert acp_insert_deque acp_insert_range_deque, pop_back acp_pop_back_deque,
    push_back acp_push_back_deque, reserve acp_reserve_deque, size acp_size_deque, swap acp_swap_deque,
    advance acp_advance_deque_it, distance acp_distance_deque_it
);

/// Where a byte of a vector is. Behind the last one, which some programs ask for, is an address, too.
fn place(vector: &data::Vector<'_>, index: c_int) -> Result<u64> {
    let index = index_of(index)?;
    match vector.at(index) {
        Ok(place) => Ok(place.address().bits()),
        Err(_) if index > 0 && vector.len()? == index => Ok(vector.at(index - 1)?.address().add(1).bits()),
        Err(error) => Err(error),
    }
}

/// The address of a byte.
#[no_mangle]
pub extern "C" fn acp_at_vector(vector: Vector, index: c_int) -> u64 {
    edge("acp_at_vector", 0, || vector.with(|bytes| place(&bytes, index)))
}

/// The address of the byte of an iterator.
#[no_mangle]
pub extern "C" fn acp_dereference_vector_it(it: VectorIt) -> u64 {
    edge("acp_dereference_vector_it", 0, || it.vector.with(|bytes| place(&bytes, it.index)))
}

/// Where the bytes behind an iterator of a deque are, as many as there are: one piece, or two if they wrap round.
fn pieces(it: DequeIt, size: usize) -> Result<Pair> {
    let piece = |(address, bytes): (GlobalAddress, usize)| match bytes {
        0 => Element::default(),
        bytes => Element { ga: address.bits(), size: bytes },
    };
    it.deque.with(|bytes| {
        let range = it.first(size, &bytes)?;
        let [first, second] = bytes.pieces(range)?;
        Ok(Pair { first: piece(first), second: piece(second) })
    })
}

/// The address of a byte.
#[no_mangle]
pub extern "C" fn acp_at_deque(deque: Deque, index: c_int) -> u64 {
    edge("acp_at_deque", 0, || Ok(pieces(deque.at(index), 1)?.first.ga))
}

/// Where the bytes behind an iterator are: in one piece, or in two if they wrap round.
#[no_mangle]
pub extern "C" fn acp_dereference_deque_it(it: DequeIt, size: usize) -> Pair {
    edge("acp_dereference_deque_it", Pair::default(), || pieces(it, size))
}

/// Takes bytes off the front, as many as there are.
#[no_mangle]
pub extern "C" fn acp_pop_front_deque(deque: Deque, size: usize) {
    edge("acp_pop_front_deque", (), || {
        deque.with(|mut bytes| {
            let count = size.min(bytes.len()?);
            bytes.drop_front(count)
        })
    });
}

/// Puts bytes from anywhere at the front.
#[no_mangle]
pub extern "C" fn acp_push_front_deque(deque: Deque, ga: u64, size: usize) {
    edge("acp_push_front_deque", (), || deque.with(|mut bytes| bytes.insert_from(0, pointer(ga), size)));
}
