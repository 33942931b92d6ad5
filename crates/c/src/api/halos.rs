//! Halos: the cells around a piece of a field, from those who have them.

use super::buffers::{list, readable, writable};
use super::grids::{self, KumikiGrid};
use super::{edge, edge_or, give, handle};
use crate::guard::misuse;
use crate::things::{self, Here};
use kumiki::comm::{Halo, HaloOptions};
use kumiki::{raw, Result};
use std::ffi::{c_int, c_void};

handle! {
    /// `struct kumiki_halo`.
    KumikiHalo
}

const NAME: &str = "halo";

struct Held {
    halo: Halo<'static, u8>,
    element_bytes: usize,
    fields: usize,
    ghosts: Vec<[usize; 2]>,
}

impl Held {
    /// Where a cell is in memory, in elements.
    fn index(&self, place: &[i64]) -> Result<usize> {
        let mut axes = place.iter().zip(&self.ghosts).zip(self.halo.padded());
        let found = axes.try_fold(0, |index, ((at, [low, _]), extent)| {
            let at = at.checked_add(i64::try_from(*low).ok()?)?;
            let at = usize::try_from(at).ok().filter(|at| at < extent)?;
            Some(index * extent + at)
        });
        found.ok_or_else(|| misuse(format!("place: there is no cell {place:?} in {:?}", self.halo.extents())))
    }

    /// The fields that a list of C names.
    ///
    /// # Safety
    /// `fields` must be readable for as many pointers as the halo has fields.
    unsafe fn pointers<'a>(&self, fields: *const *mut c_void) -> Result<&'a [*mut c_void]> {
        // SAFETY: as the caller promises.
        let fields = unsafe { list(fields, self.fields, "fields") }?;
        let is_twice = fields
            .iter()
            .enumerate()
            .any(|(at, field)| fields[..at].iter().any(|other| self.meet(*other, *field)));
        match is_twice {
            true => Err(misuse("fields: two of them are in the same memory")),
            false => Ok(fields),
        }
    }

    fn meet(&self, one: *mut c_void, other: *mut c_void) -> bool {
        (one as usize).abs_diff(other as usize) < self.halo.len()
    }

    /// # Safety
    /// Each must be readable for the bytes of a field, which nobody changes before the call returns.
    unsafe fn shared<'a>(&self, fields: *const *mut c_void) -> Result<Vec<&'a [u8]>> {
        // SAFETY: as the caller promises.
        let pointers = unsafe { self.pointers(fields) }?.iter();
        // SAFETY: as the caller promises.
        pointers.map(|field| unsafe { readable(*field, self.halo.len(), "fields") }).collect()
    }

    /// # Safety
    /// Each must be writable for the bytes of a field, which nobody else touches before the call returns.
    unsafe fn lent<'a>(&self, fields: *const *mut c_void) -> Result<Vec<&'a mut [u8]>> {
        // SAFETY: as the caller promises.
        let pointers = unsafe { self.pointers(fields) }?.iter();
        // SAFETY: as the caller promises.
        pointers.map(|field| unsafe { writable(*field, self.halo.len(), "fields") }).collect()
    }
}

/// Makes a halo. Collective among the members of the grid.
///
/// # Safety
/// `extents` must be readable for a number for each dimension, `ghosts` for two; `halo` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_halo_create(
    grid: *const KumikiGrid,
    element_bytes: usize,
    extents: *const usize,
    ghosts: *const usize,
    corners: c_int,
    fields: usize,
    halo: *mut *mut KumikiHalo,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(halo, "the halo", std::ptr::null_mut()) }?;
        grids::with(grid, |here, grid| {
            let dimensions = grid.dimensions();
            // SAFETY: as the caller promises.
            let extents = unsafe { list(extents, dimensions, "extents") }?;
            // SAFETY: as the caller promises; there are as many pairs.
            let ghosts = unsafe { list(ghosts.cast::<[usize; 2]>(), dimensions, "ghosts") }?;
            for (name, value) in [("element_bytes", element_bytes), ("fields", fields)] {
                if value == 0 {
                    return Err(misuse(format!(
                        "{name}: 0; a halo has at least one field, of elements of at least 1 byte"
                    )));
                }
            }
            let mut options = HaloOptions::sides(ghosts).fields(fields);
            if corners != 0 {
                options = options.corners();
            }
            let made = raw::halo(&grid.view()?, element_bytes, extents, options)?;
            let held = Held { halo: made, element_bytes, fields, ghosts: ghosts.to_vec() };
            // SAFETY: it was written before.
            unsafe { halo.write(here.keep(held)) };
            Ok(())
        })
    })
}

fn with<R>(halo: *const KumikiHalo, work: impl FnOnce(&Here<'_>, &mut Held) -> Result<R>) -> Result<R> {
    things::with(halo, NAME, work)
}

/// Elements of a field with its ghost cells; -1 if there is no such halo.
#[no_mangle]
pub extern "C" fn kumiki_halo_elements(halo: *const KumikiHalo) -> i64 {
    edge_or(-1, || with(halo, |_, held| Ok((held.halo.len() / held.element_bytes) as i64)))
}

/// Bytes of this member's block in the arena; -1 if there is no such halo.
#[no_mangle]
pub extern "C" fn kumiki_halo_block_bytes(halo: *const KumikiHalo) -> i64 {
    edge_or(-1, || with(halo, |_, held| Ok(held.halo.block_bytes() as i64)))
}

/// Where a cell is in memory, in elements.
///
/// # Safety
/// `place` must be readable for a number for each dimension; `index` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_halo_index(
    halo: *const KumikiHalo,
    place: *const i64,
    index: *mut usize,
) -> c_int {
    edge(|| {
        let found = with(halo, |_, held| {
            // SAFETY: as the caller promises.
            held.index(unsafe { list(place, held.ghosts.len(), "place") }?)
        })?;
        // SAFETY: as the caller promises.
        unsafe { give(index, "the index", found) }
    })
}

/// Fills the ghost cells of all fields.
///
/// # Safety
/// There must be as many fields as the halo has, each writable for its elements.
#[no_mangle]
pub unsafe extern "C" fn kumiki_halo_exchange(halo: *mut KumikiHalo, fields: *const *mut c_void) -> c_int {
    edge(|| {
        with(halo, |_, held| {
            // SAFETY: as the caller promises.
            let mut fields = unsafe { held.lent(fields) }?;
            held.halo.exchange_all(&mut fields)
        })
    })
}

/// Sends the cells that neighbours need.
///
/// # Safety
/// There must be as many fields as the halo has, each readable for its elements.
#[no_mangle]
pub unsafe extern "C" fn kumiki_halo_start(halo: *mut KumikiHalo, fields: *const *mut c_void) -> c_int {
    edge(|| {
        with(halo, |_, held| {
            // SAFETY: as the caller promises.
            let fields = unsafe { held.shared(fields) }?;
            held.halo.start_all(&fields)
        })
    })
}

/// Waits for the cells of all neighbours, and fills the ghost cells with them.
///
/// # Safety
/// As [`kumiki_halo_exchange`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_halo_finish(halo: *mut KumikiHalo, fields: *const *mut c_void) -> c_int {
    edge(|| {
        with(halo, |_, held| {
            // SAFETY: as the caller promises.
            let mut fields = unsafe { held.lent(fields) }?;
            held.halo.finish_all(&mut fields)
        })
    })
}

/// Does an exchange, with a helper thread, while a function of the program computes.
///
/// # Safety
/// As [`kumiki_halo_exchange`]; `work` must only read the fields, and return.
#[no_mangle]
pub unsafe extern "C" fn kumiki_halo_overlap(
    halo: *mut KumikiHalo,
    fields: *const *mut c_void,
    work: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
) -> c_int {
    edge(|| {
        let work = work.ok_or_else(|| misuse("work: the function is NULL"))?;
        with(halo, |_, held| {
            // SAFETY: as the caller promises.
            let mut fields = unsafe { held.lent(fields) }?;
            // SAFETY: a function of the program, called in the thread that gave it.
            held.halo.overlap_all(&mut fields, |_| unsafe { work(context) })
        })
    })
}

/// Waits until all members have come here, and gives the halo back. Collective.
#[no_mangle]
pub extern "C" fn kumiki_halo_free(halo: *mut KumikiHalo) -> c_int {
    edge(|| things::take(halo, NAME, |_, held: Held| held.halo.free()))
}
