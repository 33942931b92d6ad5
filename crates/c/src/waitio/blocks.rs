//! Start, end, who is who.

use super::arguments::{face, face_in_fortran, Number, Out};
use super::{edge, edge_or, session};
use crate::api::buffers::list_mut;
use crate::guard::misuse;
use crate::status;
use kumiki::{Error, Result};
use std::ffi::{c_char, c_int, CStr};
use std::time::Duration;

/// How long `waitio_finalize` waits for those who may be in a collective with this process. They may be waiting for it, in `MPI_Finalize`.
const OTHERS: Duration = Duration::from_secs(2);

unsafe fn init(timeout_seconds: Number) -> Result<()> {
    let seconds = u64::try_from(timeout_seconds.0).ok().filter(|&seconds| seconds > 0);
    session::join(seconds.map(Duration::from_secs))
}

unsafe fn finalize() -> Result<()> {
    session::leave(OTHERS)
}

unsafe fn pb_size(size: Out) -> Result<()> {
    // SAFETY: as the caller promises.
    session::with(|here| unsafe { size.give("the number of blocks", here.join.blocks().len() as c_int) })
}

unsafe fn pb_rank(rank: Out) -> Result<()> {
    // SAFETY: as the caller promises.
    session::with(|here| unsafe { rank.give("the block", here.join.block() as c_int) })
}

/// Tells the processes of each block; how many blocks there are.
unsafe fn get_nprocs(counts: *mut c_int) -> Result<c_int> {
    session::with(|here| {
        let blocks = here.join.blocks();
        // SAFETY: as the caller promises.
        let counts = unsafe { list_mut(counts, blocks.len(), "counts") }?;
        counts.iter_mut().zip(blocks).for_each(|(count, ranks)| *count = *ranks as c_int);
        Ok(blocks.len() as c_int)
    })
}

unsafe fn get_nprocs_in_fortran(counts: Out) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { get_nprocs(counts.0) }.map(drop)
}

face! {
    /// Waits until all processes of all blocks have come. Again: nothing.
    waitio_init, waitio_init_ waitio_init_f_ = init(timeout_seconds: Number);
    /// Leaves: what was sent arrives, and nobody is waited for.
    waitio_finalize, waitio_finalize_ waitio_finalize_f_ = finalize();
    /// How many blocks there are.
    waitio_pb_size, waitio_pb_size_ waitio_pb_size_f_ = pb_size(size: Out);
    /// Which block this is.
    waitio_pb_rank, waitio_pb_rank_ waitio_pb_rank_f_ = pb_rank(rank: Out);
}

face_in_fortran! {
    /// The processes of each block.
    waitio_get_nprocs, waitio_get_nprocs_ waitio_get_nprocs_f_ = get_nprocs_in_fortran(counts: Out);
}

/// The processes of each block; gives how many blocks there are, or -1.
///
/// # Safety
/// `counts` must be writable for a number for each block, or NULL.
#[no_mangle]
pub unsafe extern "C" fn waitio_get_nprocs(counts: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    edge_or("waitio_get_nprocs", -1, || unsafe { get_nprocs(counts) })
}

/// What went wrong last in this thread; good until its next failure.
#[no_mangle]
pub extern "C" fn waitio_error() -> *const c_char {
    status::last()
}

/// The same for Fortran: as much of it as there is room for, and blanks behind it.
unsafe fn error_in_fortran(text: *mut c_char, ierr: *mut c_int, room: usize) {
    let code = edge("waitio_error", || {
        if text.is_null() {
            return Err(misuse("the text is NULL"));
        }
        // SAFETY: a text that is good until the next failure of this thread.
        let last = unsafe { CStr::from_ptr(status::last()) }.to_bytes();
        for at in 0..room {
            // SAFETY: as the caller promises: a text of Fortran has so many letters.
            unsafe { text.wrapping_add(at).write(last.get(at).copied().unwrap_or(b' ') as c_char) };
        }
        Ok::<(), Error>(())
    });
    if !ierr.is_null() {
        // SAFETY: as the caller promises.
        unsafe { ierr.write_unaligned(code) };
    }
}

/// For Fortran: what went wrong last in this thread.
///
/// # Safety
/// `text` must have room for so many letters, or be NULL; so must `ierr` for a number.
#[no_mangle]
pub unsafe extern "C" fn waitio_error_(text: *mut c_char, ierr: *mut c_int, room: usize) {
    // SAFETY: as the caller promises.
    unsafe { error_in_fortran(text, ierr, room) }
}

/// The same.
///
/// # Safety
/// As [`waitio_error_`].
#[no_mangle]
pub unsafe extern "C" fn waitio_error_f_(text: *mut c_char, ierr: *mut c_int, room: usize) {
    // SAFETY: as the caller promises.
    unsafe { error_in_fortran(text, ierr, room) }
}
