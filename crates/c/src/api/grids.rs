//! Members of a group in a grid.

use super::buffers::{list, list_mut};
use super::groups::{self, GroupThing, KumikiGroup};
use super::{edge, give, handle};
use crate::guard::misuse;
use crate::things::{self, Here};
use kumiki::comm::Cartesian;
use kumiki::Result;
use std::ffi::c_int;
use std::sync::Arc;

handle! {
    /// `struct kumiki_grid`.
    KumikiGrid
}

const NAME: &str = "grid";
/// The most dimensions of a grid: a halo has no more.
const MOST_DIMENSIONS: usize = 8;

/// A grid, by the group that it is a view of.
pub(super) struct Grid {
    group: Arc<GroupThing>,
    dimensions: Vec<u32>,
    periodic: Vec<bool>,
}

impl Grid {
    pub(super) fn dimensions(&self) -> usize {
        self.dimensions.len()
    }

    pub(super) fn view(&self) -> Result<Cartesian<'_, 'static>> {
        self.group.cartesian(&self.dimensions, &self.periodic)
    }
}

/// Does something with a grid.
pub(super) fn with<R>(
    grid: *const KumikiGrid,
    work: impl FnOnce(&Here<'_>, &Grid) -> Result<R>,
) -> Result<R> {
    things::share(grid, NAME, |here, grid: &Arc<Grid>| work(here, grid))
}

/// Sees the members of a group as a grid. Nothing is made together with others.
///
/// # Safety
/// `extents` and `periodic` must be readable for `dimensions` numbers; `grid` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_grid_create(
    group: *const KumikiGroup,
    dimensions: usize,
    extents: *const u32,
    periodic: *const c_int,
    grid: *mut *mut KumikiGrid,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(grid, "the grid", std::ptr::null_mut()) }?;
        if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
            return Err(misuse(format!("dimensions: {dimensions}; a grid has 1 to {MOST_DIMENSIONS}")));
        }
        // SAFETY: as the caller promises.
        let dimensions_of = unsafe { list(extents, dimensions, "extents") }?.to_vec();
        // SAFETY: as the caller promises.
        let periodic = unsafe { list(periodic, dimensions, "periodic") }?.iter().map(|is| *is != 0).collect();
        groups::with(group, |here, group| {
            let made = Grid { group: group.clone(), dimensions: dimensions_of, periodic };
            made.view()?;
            // SAFETY: it was written before.
            unsafe { grid.write(here.keep(Arc::new(made))) };
            Ok(())
        })
    })
}

/// Where a member is.
///
/// # Safety
/// `place` must be writable for as many numbers as the grid has dimensions.
#[no_mangle]
pub unsafe extern "C" fn kumiki_grid_coordinates(
    grid: *const KumikiGrid,
    member: u32,
    place: *mut u32,
) -> c_int {
    edge(|| {
        with(grid, |_, grid| {
            let none = || misuse(format!("member: {member} of a grid of {}", grid.group.ranks()));
            let found = grid.view()?.coordinates_of(member).ok_or_else(none)?;
            // SAFETY: as the caller promises.
            unsafe { list_mut(place, found.len(), "place") }?.copy_from_slice(&found);
            Ok(())
        })
    })
}

/// The member at a place; -1 if that is nobody's.
///
/// # Safety
/// `place` must be readable for as many numbers as the grid has dimensions; `member` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_grid_member_at(
    grid: *const KumikiGrid,
    place: *const i64,
    member: *mut i64,
) -> c_int {
    edge(|| {
        let found = with(grid, |_, grid| {
            // SAFETY: as the caller promises.
            let place = unsafe { list(place, grid.dimensions(), "place") }?;
            Ok(grid.view()?.rank_at(place))
        })?;
        // SAFETY: as the caller promises.
        unsafe { give(member, "the member", found.map_or(-1, i64::from)) }
    })
}

/// The member so many steps from this one in a dimension; -1 if there is none.
///
/// # Safety
/// `member` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_grid_neighbour(
    grid: *const KumikiGrid,
    dimension: usize,
    steps: i64,
    member: *mut i64,
) -> c_int {
    edge(|| {
        let found = with(grid, |_, grid| {
            if dimension >= grid.dimensions() {
                let count = grid.dimensions();
                return Err(misuse(format!("dimension: {dimension} of a grid of {count} dimensions")));
            }
            Ok(grid.view()?.neighbour(dimension, steps))
        })?;
        // SAFETY: as the caller promises.
        unsafe { give(member, "the member", found.map_or(-1, i64::from)) }
    })
}

/// Makes a group of those that differ from this member in these dimensions only. Collective.
///
/// # Safety
/// `dimensions` must be readable for `count` numbers; `part` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_grid_part(
    grid: *const KumikiGrid,
    dimensions: *const usize,
    count: usize,
    part: *mut *mut KumikiGroup,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { groups::prepare(part) }?;
        // SAFETY: as the caller promises.
        let dimensions = unsafe { list(dimensions, count, "dimensions") }?;
        with(grid, |here, grid| {
            let made = grid.view()?.part(dimensions)?;
            // SAFETY: it was written before.
            unsafe { groups::keep(here, part, GroupThing::Own(made)) };
            Ok(())
        })
    })
}

/// Frees a grid. Not collective; its group stays.
#[no_mangle]
pub extern "C" fn kumiki_grid_free(grid: *mut KumikiGrid) -> c_int {
    edge(|| {
        things::take_shared(grid, NAME, |_, grid: Grid| {
            drop(grid);
            Ok(())
        })
    })
}
