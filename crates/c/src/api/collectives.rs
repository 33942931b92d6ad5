//! Barriers, and what combines elements of the members of a group.

use super::buffers::{list, size_for, writable};
use super::edge;
use super::elements::{how, How};
use super::groups::{check_root, with, GroupThing, KumikiGroup};
use kumiki::raw::groups::{self, Combination};
use kumiki::Result;
use std::ffi::{c_int, c_void};

/// Waits until all members have come here.
#[no_mangle]
pub extern "C" fn kumiki_group_barrier(group: *const KumikiGroup) -> c_int {
    edge(|| with(group, |_, group| group.barrier()))
}

/// Combines elements in memory of the program.
///
/// # Safety
/// `data` must be writable for `count` elements.
unsafe fn combine(
    group: *const KumikiGroup,
    (data, count): (*mut c_void, usize),
    (element, operation): (c_int, c_int),
    work: impl FnOnce(&GroupThing, &mut [u8], &How) -> Result<()>,
) -> Result<()> {
    let how = how(element, operation)?;
    let bytes = size_for(count, how.element_bytes(), "count")?;
    // SAFETY: as the caller promises.
    let data = unsafe { writable(data, bytes, "data") }?;
    with(group, |_, group| work(group, data, &how))
}

/// Combines the elements of all members into those of the root.
///
/// # Safety
/// `data` must be writable for `count` elements.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_reduce(
    group: *const KumikiGroup,
    root: u32,
    data: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe {
            combine(group, (data, count), (element, operation), |group, data, how| {
                check_root(group, root)?;
                groups::reduce(group, root, data, how)
            })
        }
    })
}

/// Combines the elements of all members, on all of them.
///
/// # Safety
/// As [`kumiki_group_reduce`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_allreduce(
    group: *const KumikiGroup,
    data: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe {
            combine(group, (data, count), (element, operation), |group, data, how| {
                groups::allreduce(group, data, how)
            })
        }
    })
}

/// Combines the elements of the members up to each one.
///
/// # Safety
/// As [`kumiki_group_reduce`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_scan(
    group: *const KumikiGroup,
    data: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe {
            combine(group, (data, count), (element, operation), |group, data, how| {
                groups::scan(group, data, how, false)
            })
        }
    })
}

/// Combines the elements of the members before each one; the first keeps what it has.
///
/// # Safety
/// As [`kumiki_group_reduce`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_exscan(
    group: *const KumikiGroup,
    data: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe {
            combine(group, (data, count), (element, operation), |group, data, how| {
                groups::scan(group, data, how, true)
            })
        }
    })
}

/// Combines the elements of all members, and leaves to each its part of the result, where it is.
///
/// # Safety
/// `counts` must be readable for a number for each member, and `data` writable for as many elements as these come to.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_reduce_scatter(
    group: *const KumikiGroup,
    data: *mut c_void,
    counts: *const usize,
    element: c_int,
    operation: c_int,
) -> c_int {
    edge(|| {
        let how = how(element, operation)?;
        with(group, |_, group| {
            // SAFETY: as the caller promises.
            let counts = unsafe { list(counts, group.ranks() as usize, "counts") }?;
            let all = counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
            let bytes = size_for(all, how.element_bytes(), "counts")?;
            // SAFETY: as the caller promises.
            let data = unsafe { writable(data, bytes, "data") }?;
            groups::reduce_scatter(group, data, counts, &how).map(drop)
        })
    })
}
