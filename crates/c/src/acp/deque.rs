//! Deques: a ring of bytes on one rank.

use super::types::{index_of, pointer, rank_of, Element, Pair};
use super::{edge, WORLD};
use kumiki::data::Deque as Bytes;
use kumiki::{GlobalAddress, Result, World};
use std::ffi::c_int;

/// `acp_deque_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Deque {
    /// Where it is.
    pub ga: u64,
}

/// `acp_deque_it_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DequeIt {
    /// The deque.
    pub deque: Deque,
    /// The index of a byte.
    pub index: c_int,
}

impl Deque {
    fn open(self, world: &World) -> Bytes<'_> {
        Bytes::from_address(world, GlobalAddress::from_bits(self.ga))
    }

    /// Does something with it.
    fn with<T>(self, body: impl FnOnce(Bytes<'_>) -> Result<T>) -> Result<T> {
        WORLD.with(|world| body(self.open(world)))
    }

    fn at(self, index: c_int) -> DequeIt {
        DequeIt { deque: self, index }
    }
}

/// Where the bytes behind an index are, as many as there are: one piece, or two if they wrap round.
fn pieces(deque: &Bytes<'_>, index: c_int, size: usize) -> Result<Pair> {
    let start = index_of(index)?;
    let end = start.saturating_add(size as u64).min(deque.len()?.max(start));
    let piece = |(address, bytes): (GlobalAddress, u64)| match bytes {
        0 => Element::default(),
        bytes => Element { ga: address.bits(), size: bytes as usize },
    };
    let [first, second] = deque.pieces(start..end)?;
    Ok(Pair { first: piece(first), second: piece(second) })
}

/// The range between two iterators.
fn range(start: DequeIt, end: DequeIt) -> Result<std::ops::Range<u64>> {
    Ok(index_of(start.index)?..index_of(end.index)?)
}

/// Makes the first a copy of the second.
#[no_mangle]
pub extern "C" fn acp_assign_deque(deque1: Deque, deque2: Deque) {
    edge("acp_assign_deque", (), || WORLD.with(|world| deque1.open(world).assign_all(&deque2.open(world))));
}

/// Makes it a copy of a range.
#[no_mangle]
pub extern "C" fn acp_assign_range_deque(deque: Deque, start: DequeIt, end: DequeIt) {
    edge("acp_assign_range_deque", (), || {
        let range = range(start, end)?;
        WORLD.with(|world| deque.open(world).assign_range(&start.deque.open(world), range))
    });
}

/// The address of a byte.
#[no_mangle]
pub extern "C" fn acp_at_deque(deque: Deque, index: c_int) -> u64 {
    edge("acp_at_deque", 0, || deque.with(|bytes| Ok(pieces(&bytes, index, 1)?.first.ga)))
}

/// The iterator of the first byte.
#[no_mangle]
pub extern "C" fn acp_begin_deque(deque: Deque) -> DequeIt {
    edge("acp_begin_deque", deque.at(0), || Ok(deque.at(0)))
}

/// How many bytes fit before it moves.
#[no_mangle]
pub extern "C" fn acp_capacity_deque(deque: Deque) -> usize {
    edge("acp_capacity_deque", 0, || deque.with(|bytes| bytes.capacity().map(|bytes| bytes as usize)))
}

/// Takes everything out.
#[no_mangle]
pub extern "C" fn acp_clear_deque(deque: Deque) {
    edge("acp_clear_deque", (), || deque.with(|mut bytes| bytes.clear()));
}

/// Makes an empty deque with room for so many bytes; at 0 if that failed.
#[no_mangle]
pub extern "C" fn acp_create_deque(size: usize, rank: c_int) -> Deque {
    edge("acp_create_deque", Deque::default(), || {
        let rank = rank_of(rank)?;
        WORLD.with(|world| {
            let made = Bytes::<u8>::create(world, size as u64, rank)?;
            Ok(Deque { ga: made.address().bits() })
        })
    })
}

/// Gives its memory back.
#[no_mangle]
pub extern "C" fn acp_destroy_deque(deque: Deque) {
    edge("acp_destroy_deque", (), || deque.with(|bytes| bytes.destroy()));
}

/// 1 if it has no bytes, 0 if it has.
#[no_mangle]
pub extern "C" fn acp_empty_deque(deque: Deque) -> c_int {
    edge("acp_empty_deque", 1, || deque.with(|bytes| bytes.is_empty().map(c_int::from)))
}

/// The iterator behind the last byte.
#[no_mangle]
pub extern "C" fn acp_end_deque(deque: Deque) -> DequeIt {
    edge("acp_end_deque", deque.at(0), || deque.with(|bytes| Ok(deque.at(bytes.len()? as c_int))))
}

/// Takes bytes out, as many as there are; gives the iterator of what came behind them.
#[no_mangle]
pub extern "C" fn acp_erase_deque(it: DequeIt, size: usize) -> DequeIt {
    edge("acp_erase_deque", it, || {
        it.deque.with(|mut bytes| {
            let start = index_of(it.index)?;
            let end = start.saturating_add(size as u64).min(bytes.len()?.max(start));
            bytes.erase(start..end)?;
            Ok(it)
        })
    })
}

/// Takes a range out; gives the iterator of what came behind it.
#[no_mangle]
pub extern "C" fn acp_erase_range_deque(start: DequeIt, end: DequeIt) -> DequeIt {
    edge("acp_erase_range_deque", start, || {
        let range = range(start, end)?;
        start.deque.with(|mut bytes| bytes.erase(range))?;
        Ok(start)
    })
}

/// Puts bytes from anywhere before the iterator; gives the iterator of the first of them.
#[no_mangle]
pub extern "C" fn acp_insert_deque(it: DequeIt, ga: u64, size: usize) -> DequeIt {
    edge("acp_insert_deque", it, || {
        it.deque.with(|mut bytes| bytes.insert_from(index_of(it.index)?, pointer(ga), size as u64))?;
        Ok(it)
    })
}

/// Puts a range of a deque before the iterator; gives the iterator of the first byte.
#[no_mangle]
pub extern "C" fn acp_insert_range_deque(it: DequeIt, start: DequeIt, end: DequeIt) -> DequeIt {
    edge("acp_insert_range_deque", it, || {
        let (index, range) = (index_of(it.index)?, range(start, end)?);
        WORLD.with(|world| it.deque.open(world).insert_range(index, &start.deque.open(world), range))?;
        Ok(it)
    })
}

/// Takes bytes off the end, as many as there are.
#[no_mangle]
pub extern "C" fn acp_pop_back_deque(deque: Deque, size: usize) {
    edge("acp_pop_back_deque", (), || {
        deque.with(|mut bytes| {
            let count = (size as u64).min(bytes.len()?);
            bytes.drop_back(count)
        })
    });
}

/// Takes bytes off the front, as many as there are.
#[no_mangle]
pub extern "C" fn acp_pop_front_deque(deque: Deque, size: usize) {
    edge("acp_pop_front_deque", (), || {
        deque.with(|mut bytes| {
            let count = (size as u64).min(bytes.len()?);
            bytes.drop_front(count)
        })
    });
}

/// Puts bytes from anywhere at the front.
#[no_mangle]
pub extern "C" fn acp_push_front_deque(deque: Deque, ga: u64, size: usize) {
    edge("acp_push_front_deque", (), || {
        deque.with(|mut bytes| bytes.insert_from(0, pointer(ga), size as u64))
    });
}

/// Puts bytes from anywhere at the end.
#[no_mangle]
pub extern "C" fn acp_push_back_deque(deque: Deque, ga: u64, size: usize) {
    edge("acp_push_back_deque", (), || deque.with(|mut bytes| bytes.extend_from(pointer(ga), size as u64)));
}

/// Makes room for so many bytes in all.
#[no_mangle]
pub extern "C" fn acp_reserve_deque(deque: Deque, size: usize) {
    edge("acp_reserve_deque", (), || deque.with(|mut bytes| bytes.reserve(size as u64)));
}

/// How many bytes it has.
#[no_mangle]
pub extern "C" fn acp_size_deque(deque: Deque) -> usize {
    edge("acp_size_deque", 0, || deque.with(|bytes| bytes.len().map(|bytes| bytes as usize)))
}

/// Exchanges what two of them hold.
#[no_mangle]
pub extern "C" fn acp_swap_deque(deque1: Deque, deque2: Deque) {
    edge("acp_swap_deque", (), || WORLD.with(|world| deque1.open(world).swap(&mut deque2.open(world))));
}

/// The iterator `n` bytes further on.
#[no_mangle]
pub extern "C" fn acp_advance_deque_it(it: DequeIt, n: c_int) -> DequeIt {
    edge("acp_advance_deque_it", it, || Ok(it.deque.at(it.index.wrapping_add(n))))
}

/// Where the bytes behind an iterator are: in one piece, or in two if they wrap round.
#[no_mangle]
pub extern "C" fn acp_dereference_deque_it(it: DequeIt, size: usize) -> Pair {
    edge("acp_dereference_deque_it", Pair::default(), || {
        it.deque.with(|bytes| pieces(&bytes, it.index, size))
    })
}

/// How many bytes there are between two iterators.
#[no_mangle]
pub extern "C" fn acp_distance_deque_it(first: DequeIt, last: DequeIt) -> c_int {
    edge("acp_distance_deque_it", 0, || Ok(last.index.wrapping_sub(first.index)))
}
