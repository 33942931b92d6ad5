//! Sparse exchanges: each rank knows to whom it sends, and nobody from whom something comes.

use super::buffers::readable;
use super::{edge, edge_or, give, handle, KumikiWorld};
use crate::guard::misuse;
use crate::things::{self, Here};
use kumiki::comm::{SparseExchange, SparseOptions};
use kumiki::{Error, Result};
use std::ffi::{c_int, c_void};

handle! {
    /// `struct kumiki_sparse`.
    KumikiSparse
}

type SparseThing = SparseExchange<'static, u8>;
const NAME: &str = "sparse exchange";
/// Bytes of the room if nothing is said, and how what came is aligned.
const ROOM_BYTES: usize = 64 << 10;
const ALIGNED: usize = 16;

/// Makes a sparse exchange among all ranks. Collective.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `sparse` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sparse_create(
    world: *const KumikiWorld,
    room_bytes: usize,
    sparse: *mut *mut KumikiSparse,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(sparse, "the sparse exchange", std::ptr::null_mut()) }?;
        let options = SparseOptions::default().room(if room_bytes == 0 { ROOM_BYTES } else { room_bytes });
        let make = |here: &Here<'_>| {
            // SAFETY: what borrows the world is kept.
            let made: SparseThing = unsafe { here.lasting() }.sparse_exchange(options)?;
            // SAFETY: it was written before.
            unsafe { sparse.write(here.keep(made)) };
            Ok(())
        };
        things::enter(world, make)
    })
}

fn with<R>(
    sparse: *const KumikiSparse,
    work: impl FnOnce(&Here<'_>, &mut SparseThing) -> Result<R>,
) -> Result<R> {
    things::with(sparse, NAME, work)
}

/// Sends bytes to a rank.
///
/// # Safety
/// `data` must be readable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sparse_send(
    sparse: *mut KumikiSparse,
    to: u32,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let data = unsafe { readable(data, bytes, "data") }?;
        with(sparse, |_, exchange| exchange.send(to, data))
    })
}

/// Waits until everything that all ranks have sent has come. Collective.
///
/// # Safety
/// `sources` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sparse_finish(sparse: *mut KumikiSparse, sources: *mut usize) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(sources, "the sources", 0) }?;
        let count = with(sparse, |_, exchange| {
            let came = exchange.finish()?;
            let start = came.elements().as_ptr() as usize;
            match came.is_empty() || start.is_multiple_of(ALIGNED) {
                true => Ok(came.iter().len()),
                // The allocator does not do it; elements of the program would lie where they may not.
                false => Err(Error::Refused("what came is not aligned".into())),
            }
        })?;
        // SAFETY: it was written before.
        unsafe { sources.write(count) };
        Ok(())
    })
}

/// What one of those who have sent something has sent.
///
/// # Safety
/// All must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sparse_arrival(
    sparse: *const KumikiSparse,
    index: usize,
    source: *mut u32,
    data: *mut *const c_void,
    bytes: *mut usize,
) -> c_int {
    edge(|| {
        let (rank, start, length) = with(sparse, |_, exchange| {
            let came = exchange.arrivals();
            let count = came.iter().len();
            let none = || misuse(format!("index: {index} of {count} ranks that have sent something"));
            let (rank, elements) = came.iter().nth(index).ok_or_else(none)?;
            Ok((rank, elements.as_ptr() as usize, elements.len()))
        })?;
        // SAFETY: as the caller promises.
        unsafe { give(source, "the source", rank) }?;
        // SAFETY: as the caller promises.
        unsafe { give(data, "the data", start as *const c_void) }?;
        // SAFETY: as the caller promises.
        unsafe { give(bytes, "the bytes", length) }
    })
}

/// Rounds that there were; -1 if there is no such exchange.
#[no_mangle]
pub extern "C" fn kumiki_sparse_rounds(sparse: *const KumikiSparse) -> i64 {
    edge_or(-1, || with(sparse, |_, exchange| Ok(exchange.rounds() as i64)))
}

/// Waits until all ranks have come here, and gives the exchange back. Collective.
#[no_mangle]
pub extern "C" fn kumiki_sparse_free(sparse: *mut KumikiSparse) -> c_int {
    edge(|| things::take(sparse, NAME, |_, exchange: SparseThing| exchange.free()))
}
