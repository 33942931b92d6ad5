//! MPI beside XcalableMP: what the functions in `xmp.h` need that are made of calls of the program's own MPI, and an XMP library in an MPI program.

use super::inquiry::{self, Descriptor};
use super::sets::{self, Set};
use super::{edge, session};
use crate::guard::misuse;
use kumiki::{Error, Members, Result};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::{Arc, Mutex, PoisonError};

/// Room for a communicator, which is a number or a pointer.
const ROOM: usize = 16;

/// What MPI is told of a set of nodes: their ranks, and where the program keeps their communicator.
struct Told {
    ranks: Box<[c_int]>,
    communicator: Box<[u8; ROOM]>,
    is_made: bool,
}

static TOLD: Mutex<Option<HashMap<Members, Told>>> = Mutex::new(None);

/// Does something with what is told of nodes: those of a descriptor, or those that execute.
/// None if this node is not among them.
unsafe fn with_told<R>(nodes: Descriptor, work: impl FnOnce(&mut Told) -> R) -> Result<Option<R>> {
    let members = match nodes.is_null() {
        true => sets::executing()?.members.clone(),
        // SAFETY: as the caller promises.
        false => unsafe { inquiry::nodes(nodes) }?.members.clone(),
    };
    let set: Option<Arc<Set>> = session::with(|world| Ok(sets::of(world, members)))?;
    let Some(set) = set else { return Ok(None) };
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let told = told.get_or_insert_with(HashMap::new).entry(set.members.clone()).or_insert_with(|| Told {
        ranks: set.members.iter().map(|rank| rank as c_int).collect(),
        communicator: Box::new([0; ROOM]),
        is_made: false,
    });
    Ok(Some(work(told)))
}

/// The ranks of nodes, in their order: those of a descriptor, or with NULL those that execute; NULL if this node is not among them.
///
/// # Safety
/// `nodes` must be a descriptor, or NULL; `count` must be writable.
#[no_mangle]
pub unsafe extern "C" fn kxmp_members(nodes: Descriptor, count: *mut c_int) -> *const c_int {
    // SAFETY: as the caller promises; there is no place. The list stays where it is.
    unsafe {
        edge(std::ptr::null(), "xmp_get_mpi_comm", || {
            count.write(0);
            let told = with_told(nodes, |told| {
                count.write(told.ranks.len() as c_int);
                told.ranks.as_ptr()
            })?;
            Ok(told.unwrap_or(std::ptr::null()))
        })
    }
}

/// Where the communicator of nodes is kept, and whether it is to be made now; NULL if this node is not among them.
///
/// # Safety
/// `nodes` must be a descriptor, or NULL; `is_new` must be writable.
#[no_mangle]
pub unsafe extern "C" fn kxmp_communicator(nodes: Descriptor, is_new: *mut c_int) -> *mut c_void {
    // SAFETY: as the caller promises; there is no place. The memory stays where it is.
    unsafe {
        edge(std::ptr::null(), "xmp_get_mpi_comm", || {
            is_new.write(0);
            let told = with_told(nodes, |told| {
                is_new.write(c_int::from(!std::mem::replace(&mut told.is_made, true)));
                told.communicator.as_mut_ptr().cast()
            })?;
            Ok(told.unwrap_or(std::ptr::null_mut()))
        })
    }
}

/// Ends the job because MPI and XcalableMP do not go together.
///
/// # Safety
/// `what` must be a text.
#[no_mangle]
pub unsafe extern "C" fn kxmp_refuse(what: *const c_char) {
    // SAFETY: as the caller promises; there is no place.
    unsafe {
        edge(std::ptr::null(), "MPI beside XcalableMP", || {
            Err::<(), Error>(misuse(CStr::from_ptr(what).to_string_lossy()))
        });
    }
}

/// Leaves XcalableMP, which was started for a library in an MPI program. All nodes call it.
#[no_mangle]
pub extern "C" fn xmp_finalize() {
    // SAFETY: there is no place.
    unsafe { edge(std::ptr::null(), "xmp_finalize", session::leave) }
}
