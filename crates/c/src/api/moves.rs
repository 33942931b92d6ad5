//! What moves bytes between the members of a group: broadcast, gather, scatter, all-to-all.

use super::buffers::{apart, is_in_place, list, readable, size_for, writable};
use super::edge;
use super::groups::{check_root, with, GroupThing, KumikiGroup};
use kumiki::raw::{self, Booking};
use kumiki::{Purpose, Result, World};
use std::ffi::{c_int, c_void};

/// Bytes of all members, where each has so many.
pub(super) fn all_bytes(group: &GroupThing, bytes: usize, name: &str) -> Result<usize> {
    size_for(bytes, group.ranks() as usize, name)
}

/// How many bytes of each member there are, as C says it, and where those of this one begin.
///
/// # Safety
/// `counts` must be readable for a number for each member, or NULL.
unsafe fn counts_of<'a>(
    group: &GroupThing,
    counts: *const usize,
    name: &str,
) -> Result<(&'a [usize], usize, usize)> {
    // SAFETY: as the caller promises.
    let counts = unsafe { list(counts, group.ranks() as usize, name) }?;
    let sum = |counts: &[usize]| counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
    Ok((counts, sum(counts), sum(&counts[..group.rank() as usize])))
}

/// A copy of bytes of the program, for a while.
fn copy_of(world: &World, bytes: &[u8]) -> Result<(Vec<u8>, Booking)> {
    let booked = raw::book(world, Purpose::Comm, bytes.len())?;
    Ok((bytes.to_vec(), booked))
}

/// Gives the bytes of the root to all members.
///
/// # Safety
/// `data` must be writable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_broadcast(
    group: *const KumikiGroup,
    root: u32,
    data: *mut c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let data = unsafe { writable(data, bytes, "data") }?;
        with(group, |_, group| check_root(group, root).and_then(|()| group.broadcast(root, data)))
    })
}

/// Brings as many bytes of each member to the root.
///
/// # Safety
/// `data` must be readable for `bytes`, or be `KUMIKI_IN_PLACE` on the root; `into` must be writable there for as many of each member.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_gather(
    group: *const KumikiGroup,
    root: u32,
    data: *const c_void,
    bytes: usize,
    into: *mut c_void,
) -> c_int {
    edge(|| {
        with(group, |here, group| {
            check_root(group, root)?;
            let is_root = group.rank() == root;
            let all = if is_root { all_bytes(group, bytes, "bytes")? } else { 0 };
            // SAFETY: as the caller promises.
            let into_all = unsafe { writable(into, all, "into") }?;
            if is_root && is_in_place(data) {
                let own = group.rank() as usize * bytes;
                let (data, _booked) = copy_of(here.world, &into_all[own..own + bytes])?;
                return group.gather(root, &data, into_all);
            }
            apart((data, bytes), (into, all))?;
            // SAFETY: as the caller promises.
            group.gather(root, unsafe { readable(data, bytes, "data") }?, into_all)
        })
    })
}

/// As [`kumiki_group_gather`], with any number of bytes of each member.
///
/// # Safety
/// As there; `counts` must be readable on the root for a number for each member.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_gatherv(
    group: *const KumikiGroup,
    root: u32,
    data: *const c_void,
    bytes: usize,
    counts: *const usize,
    into: *mut c_void,
) -> c_int {
    edge(|| {
        with(group, |here, group| {
            check_root(group, root)?;
            let is_root = group.rank() == root;
            let (counts, all, own) = match is_root {
                // SAFETY: as the caller promises.
                true => unsafe { counts_of(group, counts, "counts") }?,
                false => (&[][..], 0, 0),
            };
            // SAFETY: as the caller promises.
            let into_all = unsafe { writable(into, all, "into") }?;
            if is_root && is_in_place(data) {
                let own = own..own + counts[group.rank() as usize];
                let (data, _booked) = copy_of(here.world, &into_all[own])?;
                return group.gatherv(root, &data, counts, into_all);
            }
            apart((data, bytes), (into, all))?;
            // SAFETY: as the caller promises.
            group.gatherv(root, unsafe { readable(data, bytes, "data") }?, counts, into_all)
        })
    })
}

/// Gives as many bytes of the root to each member.
///
/// # Safety
/// `data` must be readable on the root for `bytes` for each member; `into` must be writable for `bytes`, or be `KUMIKI_IN_PLACE` there.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_scatter(
    group: *const KumikiGroup,
    root: u32,
    data: *const c_void,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        with(group, |here, group| {
            check_root(group, root)?;
            let is_root = group.rank() == root;
            let all = if is_root { all_bytes(group, bytes, "bytes")? } else { 0 };
            // SAFETY: as the caller promises.
            let from = unsafe { readable(data, all, "data") }?;
            if is_root && is_in_place(into) {
                let own = group.rank() as usize * bytes;
                let (mut unused, _booked) = copy_of(here.world, &from[own..own + bytes])?;
                return group.scatter(root, from, &mut unused);
            }
            apart((data, all), (into, bytes))?;
            // SAFETY: as the caller promises.
            group.scatter(root, from, unsafe { writable(into, bytes, "into") }?)
        })
    })
}

/// As [`kumiki_group_scatter`], with any number of bytes for each member.
///
/// # Safety
/// As there; `counts` must be readable on the root for a number for each member.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_scatterv(
    group: *const KumikiGroup,
    root: u32,
    data: *const c_void,
    counts: *const usize,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        with(group, |here, group| {
            check_root(group, root)?;
            let is_root = group.rank() == root;
            let (counts, all, own) = match is_root {
                // SAFETY: as the caller promises.
                true => unsafe { counts_of(group, counts, "counts") }?,
                false => (&[][..], 0, 0),
            };
            // SAFETY: as the caller promises.
            let from = unsafe { readable(data, all, "data") }?;
            if is_root && is_in_place(into) {
                let own = own..own + counts[group.rank() as usize];
                let (mut unused, _booked) = copy_of(here.world, &from[own])?;
                return group.scatterv(root, from, counts, &mut unused);
            }
            apart((data, all), (into, bytes))?;
            // SAFETY: as the caller promises.
            group.scatterv(root, from, counts, unsafe { writable(into, bytes, "into") }?)
        })
    })
}

/// Brings as many bytes of each member to all.
///
/// # Safety
/// `data` must be readable for `bytes`, or be `KUMIKI_IN_PLACE`; `into` must be writable for as many of each member.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_allgather(
    group: *const KumikiGroup,
    data: *const c_void,
    bytes: usize,
    into: *mut c_void,
) -> c_int {
    edge(|| {
        with(group, |here, group| {
            let all = all_bytes(group, bytes, "bytes")?;
            // SAFETY: as the caller promises.
            let into_all = unsafe { writable(into, all, "into") }?;
            if is_in_place(data) {
                // Those who do not do it in place make the same call.
                let own = group.rank() as usize * bytes;
                let (data, _booked) = copy_of(here.world, &into_all[own..own + bytes])?;
                return group.allgather(&data, into_all);
            }
            apart((data, bytes), (into, all))?;
            // SAFETY: as the caller promises.
            group.allgather(unsafe { readable(data, bytes, "data") }?, into_all)
        })
    })
}

/// As [`kumiki_group_allgather`], with any number of bytes of each member.
///
/// # Safety
/// As there; `counts` must be readable for a number for each member.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_allgatherv(
    group: *const KumikiGroup,
    data: *const c_void,
    bytes: usize,
    counts: *const usize,
    into: *mut c_void,
) -> c_int {
    edge(|| {
        with(group, |_, group| {
            // SAFETY: as the caller promises.
            let (counts, all, _) = unsafe { counts_of(group, counts, "counts") }?;
            // SAFETY: as the caller promises.
            let into_all = unsafe { writable(into, all, "into") }?;
            if is_in_place(data) {
                return group.allgatherv_in_place(counts, into_all);
            }
            apart((data, bytes), (into, all))?;
            // SAFETY: as the caller promises.
            group.allgatherv(unsafe { readable(data, bytes, "data") }?, counts, into_all)
        })
    })
}

/// Gives as many bytes of each member to each.
///
/// # Safety
/// `data` must be readable and `into` writable for `bytes` for each member.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_alltoall(
    group: *const KumikiGroup,
    data: *const c_void,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        with(group, |_, group| {
            let all = all_bytes(group, bytes, "bytes")?;
            apart((data, all), (into, all))?;
            // SAFETY: as the caller promises.
            let (data, into) = unsafe { (readable(data, all, "data")?, writable(into, all, "into")?) };
            group.alltoall(data, into)
        })
    })
}

/// As [`kumiki_group_alltoall`], with any number of bytes for each member and of each.
///
/// # Safety
/// Both lists must be readable for a number for each member; `data` must be readable and `into` writable for as many bytes as they come to.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_alltoallv(
    group: *const KumikiGroup,
    data: *const c_void,
    out_counts: *const usize,
    into: *mut c_void,
    in_counts: *const usize,
) -> c_int {
    edge(|| {
        with(group, |_, group| {
            // SAFETY: as the caller promises.
            let (out_counts, out, _) = unsafe { counts_of(group, out_counts, "out_counts") }?;
            // SAFETY: as the caller promises.
            let (in_counts, all, _) = unsafe { counts_of(group, in_counts, "in_counts") }?;
            apart((data, out), (into, all))?;
            // SAFETY: as the caller promises.
            let (data, into) = unsafe { (readable(data, out, "data")?, writable(into, all, "into")?) };
            group.alltoallv(data, out_counts, into, in_counts)
        })
    })
}
