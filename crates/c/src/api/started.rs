//! Collectives that are started, and waited for later.
//!
//! What goes through them is copied when it is started, and again when it has ended: so nobody touches memory of the program in between.

use super::buffers::{apart, readable, size_for, Promised};
use super::edge;
use super::elements::how;
use super::groups::{check_root, with, GroupThing, KumikiGroup};
use super::moves::all_bytes;
use super::requests::{keep, prepare, Asked, Ended, KumikiMessageInfo, KumikiRequest};
use crate::things::Here;
use kumiki::comm::Started;
use kumiki::raw::{self, groups, groups::Combination, Booking};
use kumiki::{Purpose, Result, World};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A collective under way. What was started comes before the group that it borrows.
struct Underway {
    started: Started<'static, 'static, u8>,
    /// Where the program wants what comes of it.
    into: Promised,
    _booked: Booking,
    _group: Arc<GroupThing>,
}

impl Asked for Underway {
    fn is_done(&mut self) -> bool {
        self.started.is_done()
    }

    fn finish(self: Box<Self>, _: &World) -> Ended {
        let Underway { started, into, _booked, _group } = *self;
        let came = started.wait()?;
        let bytes = came.len().min(into.len());
        // SAFETY: the program leaves the memory alone until the request has ended, as those who start one demand.
        unsafe { into.fill(&came[..bytes]) };
        Ok(KumikiMessageInfo::of_bytes(bytes))
    }

    fn give_up(self: Box<Self>, _: &World) {}
}

/// What a request is about: what is copied for it, and where it goes.
struct Plan {
    copied: usize,
    into: Promised,
}

/// Starts a collective, and keeps it for the program.
///
/// # Safety
/// `request` must be writable.
unsafe fn start(
    here: &Here<'_>,
    group: &Arc<GroupThing>,
    request: *mut *mut KumikiRequest,
    Plan { copied, into }: Plan,
    begin: impl FnOnce(&'static GroupThing) -> Result<Started<'static, 'static, u8>>,
) -> Result<()> {
    // In and out.
    let booked = raw::book(here.world, Purpose::Comm, copied)?;
    // SAFETY: the request keeps the group, and is dropped before it.
    let lasting: &'static GroupThing = unsafe { &*Arc::as_ptr(group) };
    let started = begin(lasting)?;
    // SAFETY: as the caller promises.
    unsafe { keep(here, request, Underway { started, into, _booked: booked, _group: group.clone() }) };
    Ok(())
}

/// Starts a barrier.
///
/// # Safety
/// `request` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_start_barrier(
    group: *const KumikiGroup,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        let plan = Plan { copied: 0, into: Promised::new(std::ptr::null_mut(), 0, "nothing")? };
        // SAFETY: as the caller promises.
        with(group, |here, group| unsafe { start(here, group, request, plan, |group| group.start_barrier()) })
    })
}

/// Starts a broadcast.
///
/// # Safety
/// `request` must be writable, or NULL; `data` must be writable for `bytes`, and left alone until the request has ended.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_start_broadcast(
    group: *const KumikiGroup,
    root: u32,
    data: *mut c_void,
    bytes: usize,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        // SAFETY: as the caller promises.
        let given = unsafe { readable(data, bytes, "data") }?;
        let plan = Plan { copied: bytes, into: Promised::new(data, bytes, "data")? };
        with(group, |here, group| {
            check_root(group, root)?;
            // SAFETY: as the caller promises.
            unsafe { start(here, group, request, plan, |group| group.start_broadcast(root, given.to_vec())) }
        })
    })
}

/// Starts a reduction of elements in memory of the program, in place.
///
/// # Safety
/// As [`kumiki_group_start_allreduce`].
unsafe fn start_combining(
    group: *const KumikiGroup,
    root: Option<u32>,
    (data, count): (*mut c_void, usize),
    (element, operation): (c_int, c_int),
    request: *mut *mut KumikiRequest,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { prepare(request) }?;
    let how = how(element, operation)?;
    let bytes = size_for(count, how.element_bytes(), "count")?;
    // SAFETY: as the caller promises.
    let given = unsafe { readable(data, bytes, "data") }?;
    let plan = Plan { copied: bytes, into: Promised::new(data, bytes, "data")? };
    let begin = |group: &'static GroupThing| match root {
        Some(root) => groups::start_reduce(group, root, given.to_vec(), how),
        None => groups::start_allreduce(group, given.to_vec(), how),
    };
    with(group, |here, group| {
        root.map_or(Ok(()), |root| check_root(group, root))?;
        // SAFETY: as the caller promises.
        unsafe { start(here, group, request, plan, begin) }
    })
}

/// Starts a reduction into the elements of the root.
///
/// # Safety
/// As [`kumiki_group_start_allreduce`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_start_reduce(
    group: *const KumikiGroup,
    root: u32,
    data: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
    request: *mut *mut KumikiRequest,
) -> c_int {
    // SAFETY: as the caller promises.
    edge(|| unsafe { start_combining(group, Some(root), (data, count), (element, operation), request) })
}

/// Starts a reduction on all members.
///
/// # Safety
/// `request` must be writable, or NULL; `data` must be writable for `count` elements, and left alone until the request has ended.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_start_allreduce(
    group: *const KumikiGroup,
    data: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
    request: *mut *mut KumikiRequest,
) -> c_int {
    // SAFETY: as the caller promises.
    edge(|| unsafe { start_combining(group, None, (data, count), (element, operation), request) })
}

/// Starts to bring as many bytes of each member to all.
///
/// # Safety
/// `request` must be writable, or NULL; `data` must be readable for `bytes`, and `into` writable for as many of each member, and left alone until
/// the request has ended.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_start_allgather(
    group: *const KumikiGroup,
    data: *const c_void,
    bytes: usize,
    into: *mut c_void,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        // SAFETY: as the caller promises.
        let given = unsafe { readable(data, bytes, "data") }?;
        with(group, |here, group| {
            let all = all_bytes(group, bytes, "bytes")?;
            apart((data, bytes), (into, all))?;
            let plan = Plan { copied: all, into: Promised::new(into, all, "into")? };
            // SAFETY: as the caller promises.
            unsafe { start(here, group, request, plan, |group| group.start_allgather(given)) }
        })
    })
}

/// Starts to give as many bytes of each member to each.
///
/// # Safety
/// `request` must be writable, or NULL; `data` must be readable and `into` writable for `bytes` for each member, and `into` left alone until the
/// request has ended.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_start_alltoall(
    group: *const KumikiGroup,
    data: *const c_void,
    into: *mut c_void,
    bytes: usize,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        with(group, |here, group| {
            let all = all_bytes(group, bytes, "bytes")?;
            apart((data, all), (into, all))?;
            // SAFETY: as the caller promises.
            let given = unsafe { readable(data, all, "data") }?;
            let plan = Plan { copied: all, into: Promised::new(into, all, "into")? };
            // SAFETY: as the caller promises.
            unsafe { start(here, group, request, plan, |group| group.start_alltoall(given)) }
        })
    })
}
