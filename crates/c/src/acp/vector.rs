//! Vectors: bytes in one piece on one rank.

use super::types::{index_of, pointer, rank_of};
use super::{edge, WORLD};
use kumiki::data::Vector as Bytes;
use kumiki::{GlobalAddress, Result, World};
use std::ffi::c_int;

/// `acp_vector_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Vector {
    /// Where it is.
    pub ga: u64,
}

/// `acp_vector_it_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct VectorIt {
    /// The vector.
    pub vector: Vector,
    /// The index of a byte.
    pub index: c_int,
}

impl Vector {
    fn open(self, world: &World) -> Bytes<'_> {
        Bytes::from_address(world, GlobalAddress::from_bits(self.ga))
    }

    /// Does something with it.
    fn with<T>(self, body: impl FnOnce(Bytes<'_>) -> Result<T>) -> Result<T> {
        WORLD.with(|world| body(self.open(world)))
    }

    fn at(self, index: c_int) -> VectorIt {
        VectorIt { vector: self, index }
    }
}

/// Where a byte is. Behind the last one, which some programs ask for, is an address, too.
fn place(vector: &Bytes<'_>, index: c_int) -> Result<u64> {
    let index = index_of(index)?;
    match vector.at(index) {
        Ok(place) => Ok(place.address().bits()),
        Err(_) if index > 0 && vector.len()? == index => Ok(vector.at(index - 1)?.address().add(1).bits()),
        Err(error) => Err(error),
    }
}

/// The range between two iterators.
fn range(start: VectorIt, end: VectorIt) -> Result<std::ops::Range<u64>> {
    Ok(index_of(start.index)?..index_of(end.index)?)
}

/// Makes the first a copy of the second.
#[no_mangle]
pub extern "C" fn acp_assign_vector(vector1: Vector, vector2: Vector) {
    edge("acp_assign_vector", (), || {
        WORLD.with(|world| vector1.open(world).assign_all(&vector2.open(world)))
    });
}

/// Makes it a copy of a range.
#[no_mangle]
pub extern "C" fn acp_assign_range_vector(vector: Vector, start: VectorIt, end: VectorIt) {
    edge("acp_assign_range_vector", (), || {
        let range = range(start, end)?;
        WORLD.with(|world| vector.open(world).assign_range(&start.vector.open(world), range))
    });
}

/// The address of a byte.
#[no_mangle]
pub extern "C" fn acp_at_vector(vector: Vector, index: c_int) -> u64 {
    edge("acp_at_vector", 0, || vector.with(|bytes| place(&bytes, index)))
}

/// The iterator of the first byte.
#[no_mangle]
pub extern "C" fn acp_begin_vector(vector: Vector) -> VectorIt {
    edge("acp_begin_vector", vector.at(0), || Ok(vector.at(0)))
}

/// How many bytes fit before it moves.
#[no_mangle]
pub extern "C" fn acp_capacity_vector(vector: Vector) -> usize {
    edge("acp_capacity_vector", 0, || vector.with(|bytes| bytes.capacity().map(|bytes| bytes as usize)))
}

/// Takes everything out.
#[no_mangle]
pub extern "C" fn acp_clear_vector(vector: Vector) {
    edge("acp_clear_vector", (), || vector.with(|mut bytes| bytes.clear()));
}

/// Makes a vector of so many bytes; at 0 if that failed.
#[no_mangle]
pub extern "C" fn acp_create_vector(size: usize, rank: c_int) -> Vector {
    edge("acp_create_vector", Vector::default(), || {
        let rank = rank_of(rank)?;
        WORLD.with(|world| {
            let made = Bytes::<u8>::create(world, size as u64, rank)?;
            Ok(Vector { ga: made.address().bits() })
        })
    })
}

/// Gives its memory back.
#[no_mangle]
pub extern "C" fn acp_destroy_vector(vector: Vector) {
    edge("acp_destroy_vector", (), || vector.with(|bytes| bytes.destroy()));
}

/// 1 if it has no bytes, 0 if it has.
#[no_mangle]
pub extern "C" fn acp_empty_vector(vector: Vector) -> c_int {
    edge("acp_empty_vector", 1, || vector.with(|bytes| bytes.is_empty().map(c_int::from)))
}

/// The iterator behind the last byte.
#[no_mangle]
pub extern "C" fn acp_end_vector(vector: Vector) -> VectorIt {
    edge("acp_end_vector", vector.at(0), || vector.with(|bytes| Ok(vector.at(bytes.len()? as c_int))))
}

/// Takes bytes out, as many as there are; gives the iterator of what came behind them.
#[no_mangle]
pub extern "C" fn acp_erase_vector(it: VectorIt, size: usize) -> VectorIt {
    edge("acp_erase_vector", it, || {
        it.vector.with(|mut bytes| {
            let start = index_of(it.index)?;
            let end = start.saturating_add(size as u64).min(bytes.len()?.max(start));
            bytes.erase(start..end)?;
            Ok(it)
        })
    })
}

/// Takes a range out; gives the iterator of what came behind it.
#[no_mangle]
pub extern "C" fn acp_erase_range_vector(start: VectorIt, end: VectorIt) -> VectorIt {
    edge("acp_erase_range_vector", start, || {
        let range = range(start, end)?;
        start.vector.with(|mut bytes| bytes.erase(range))?;
        Ok(start)
    })
}

/// Puts bytes from anywhere before the iterator; gives the iterator of the first of them.
#[no_mangle]
pub extern "C" fn acp_insert_vector(it: VectorIt, ga: u64, size: usize) -> VectorIt {
    edge("acp_insert_vector", it, || {
        it.vector.with(|mut bytes| bytes.insert_from(index_of(it.index)?, pointer(ga), size as u64))?;
        Ok(it)
    })
}

/// Puts a range of a vector before the iterator; gives the iterator of the first byte.
#[no_mangle]
pub extern "C" fn acp_insert_range_vector(it: VectorIt, start: VectorIt, end: VectorIt) -> VectorIt {
    edge("acp_insert_range_vector", it, || {
        let (index, range) = (index_of(it.index)?, range(start, end)?);
        WORLD.with(|world| it.vector.open(world).insert_range(index, &start.vector.open(world), range))?;
        Ok(it)
    })
}

/// Takes bytes off the end, as many as there are.
#[no_mangle]
pub extern "C" fn acp_pop_back_vector(vector: Vector, size: usize) {
    edge("acp_pop_back_vector", (), || {
        vector.with(|mut bytes| {
            let count = (size as u64).min(bytes.len()?);
            bytes.drop_back(count)
        })
    });
}

/// Puts bytes from anywhere at the end.
#[no_mangle]
pub extern "C" fn acp_push_back_vector(vector: Vector, ga: u64, size: usize) {
    edge("acp_push_back_vector", (), || vector.with(|mut bytes| bytes.extend_from(pointer(ga), size as u64)));
}

/// Makes room for so many bytes in all.
#[no_mangle]
pub extern "C" fn acp_reserve_vector(vector: Vector, size: usize) {
    edge("acp_reserve_vector", (), || vector.with(|mut bytes| bytes.reserve(size as u64)));
}

/// How many bytes it has.
#[no_mangle]
pub extern "C" fn acp_size_vector(vector: Vector) -> usize {
    edge("acp_size_vector", 0, || vector.with(|bytes| bytes.len().map(|bytes| bytes as usize)))
}

/// Exchanges what two of them hold.
#[no_mangle]
pub extern "C" fn acp_swap_vector(vector1: Vector, vector2: Vector) {
    edge("acp_swap_vector", (), || WORLD.with(|world| vector1.open(world).swap(&mut vector2.open(world))));
}

/// The iterator `n` bytes further on.
#[no_mangle]
pub extern "C" fn acp_advance_vector_it(it: VectorIt, n: c_int) -> VectorIt {
    edge("acp_advance_vector_it", it, || Ok(it.vector.at(it.index.wrapping_add(n))))
}

/// The address of the byte of an iterator.
#[no_mangle]
pub extern "C" fn acp_dereference_vector_it(it: VectorIt) -> u64 {
    edge("acp_dereference_vector_it", 0, || it.vector.with(|bytes| place(&bytes, it.index)))
}

/// How many bytes there are between two iterators.
#[no_mangle]
pub extern "C" fn acp_distance_vector_it(first: VectorIt, last: VectorIt) -> c_int {
    edge("acp_distance_vector_it", 0, || Ok(last.index.wrapping_sub(first.index)))
}
