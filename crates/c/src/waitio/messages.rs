//! Messages of bytes, as WaitIO has them.

use super::arguments::{face, BytesOut, Group, Length, Number, Out, Requests, Tag};
use super::groups;
use super::requests::{self, Asked};
use crate::api::buffers::readable;
use crate::buffer::Buffer;
use crate::guard::misuse;
use kumiki::join::JoinGroup;
use kumiki::raw;
use kumiki::{Rank, Result};
use std::ffi::{c_char, c_int, c_void};

fn check(memory: *const c_void, bytes: usize) -> Result<()> {
    // What stands for "in place" is no memory.
    let is_none = memory.is_null() || [1, usize::MAX].contains(&(memory as usize));
    match is_none && bytes > 0 || bytes > isize::MAX as usize {
        true => Err(misuse(format!("buf: {bytes} bytes at {memory:p}"))),
        false => Ok(()),
    }
}

/// A member that this process talks to.
pub(super) fn peer_of(group: &JoinGroup<'_>, peer: c_int) -> Result<Rank> {
    if group.rank().is_none() {
        return Err(misuse(format!("this process is no member of the group {}", group.name())));
    }
    let rank = u32::try_from(peer).ok().filter(|&rank| rank < group.size());
    rank.ok_or_else(|| {
        misuse(format!("there is no member {peer} in the group {}, which has {}", group.name(), group.size()))
    })
}

/// Begins to send so many bytes, if it is known how many.
///
/// # Safety
/// The memory must be readable for so many bytes, and stay as it is until the request was waited for.
pub(super) unsafe fn start_send(
    group: Group,
    peer: c_int,
    (memory, bytes): (*const c_void, Result<usize>),
    tag: u64,
    request: Requests,
) -> Result<()> {
    let begin = || {
        let bytes = bytes?;
        check(memory, bytes)?;
        // SAFETY: as the caller promises.
        let message = unsafe { readable(memory, bytes, "buf") }?;
        groups::with(group, |here, group| {
            // SAFETY: the program leaves the memory as it is until it has waited, or has left: then it is given back.
            let vouch = || unsafe { raw::memory(here.join.world()).vouch(memory.cast(), bytes) };
            let to = peer_of(group, peer)?;
            raw::join::start_send(group, to, tag, message, vouch).map(Asked::Sending)
        })
    };
    // SAFETY: as the caller promises.
    unsafe { request.start(begin) }
}

/// Begins to receive so many bytes, if it is known how many.
///
/// # Safety
/// The memory must be writable for so many bytes, and left alone until the request was waited for.
pub(super) unsafe fn start_receive(
    group: Group,
    peer: c_int,
    (memory, bytes): (*mut c_void, Result<usize>),
    tag: u64,
    request: Requests,
) -> Result<()> {
    let begin = || {
        let bytes = bytes?;
        check(memory, bytes)?;
        // SAFETY: as the caller promises.
        let room = Box::new(unsafe { Buffer::new(memory.cast(), bytes) });
        groups::with(group, |_, group| {
            let from = peer_of(group, peer)?;
            raw::join::start_receive(group, from, tag, room).map(Asked::Receiving)
        })
    };
    // SAFETY: as the caller promises.
    unsafe { request.start(begin) }
}

/// # Safety
/// It must be writable, or NULL.
pub(super) unsafe fn probe(group: Group, peer: Number, tag: Tag, len: BytesOut) -> Result<()> {
    let bytes = groups::with(group, |here, group| {
        let (from, mut looks) = (peer_of(group, peer.0)?, 0);
        while requests::any_underway() {
            if let Some(bytes) = group.try_probe(from, tag.0)? {
                return Ok(bytes);
            }
            if !requests::move_on(here, &mut looks) {
                break;
            }
        }
        group.probe(from, tag.0)
    })?;
    // SAFETY: as the caller promises.
    unsafe { len.give(bytes) }
}

/// # Safety
/// Both must be writable, or NULL.
pub(super) unsafe fn iprobe(group: Group, peer: Number, tag: Tag, found: Out, len: BytesOut) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { found.give("the answer", 0) }?;
    let bytes = groups::with(group, |_, group| {
        requests::glance();
        group.try_probe(peer_of(group, peer.0)?, tag.0)
    })?;
    if let Some(bytes) = bytes {
        // SAFETY: as the caller promises.
        unsafe {
            len.give(bytes)?;
            found.give("the answer", 1)?;
        }
    }
    Ok(())
}

unsafe fn isend(group: Group, peer: Number, buf: Bytes, len: Length, tag: Tag, req: Requests) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { start_send(group, peer.0, (buf.0.cast(), Ok(len.0)), tag.0, req) }
}

unsafe fn irecv(group: Group, peer: Number, buf: Bytes, len: Length, tag: Tag, req: Requests) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { start_receive(group, peer.0, (buf.0.cast(), Ok(len.0)), tag.0, req) }
}

/// Memory of letters, as the header of WaitIO has it.
pub struct Bytes(*mut c_char);

impl super::arguments::Argument for Bytes {
    type C = *mut c_char;
    type Fortran = *mut c_void;

    fn of_c(given: *mut c_char) -> Self {
        Bytes(given)
    }

    unsafe fn of_fortran(given: *mut c_void) -> Result<Self> {
        Ok(Bytes(given.cast()))
    }
}

face! {
    /// Begins to send bytes to a member.
    waitio_isend, waitio_isend_ waitio_isend_f_ =
        isend(group: Group, peer: Number, buf: Bytes, len: Length, tag: Tag, req: Requests);
    /// Begins to receive up to so many bytes of a member.
    waitio_irecv, waitio_irecv_ waitio_irecv_f_ =
        irecv(group: Group, peer: Number, buf: Bytes, len: Length, tag: Tag, req: Requests);
    /// Waits for a message of a member, and leaves it where it is: its bytes.
    waitio_probe, waitio_probe_ waitio_probe_f_ = probe(group: Group, peer: Number, tag: Tag, len: BytesOut);
    /// Whether a message of a member has come, and its bytes.
    waitio_iprobe, waitio_iprobe_ waitio_iprobe_f_ =
        iprobe(group: Group, peer: Number, tag: Tag, found: Out, len: BytesOut);
}
