//! Segment buffers: equal buffers at both ends, through which segments go in one direction.

use super::freed::Freed;
use super::types::rank_of;
use super::{edge, WORLD};
use crate::guard::{about, misuse};
use kumiki::comm::Segments;
use kumiki::{GlobalAddress, Result, World};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `struct segbufitem`: what an `acp_segbuf_t` points to, as far as programs know.
#[repr(C)]
#[derive(Debug)]
pub struct SegmentBuffer {
    _private: [u8; 0],
}

struct Held {
    /// Gone once it is freed.
    segments: Option<Segments>,
    /// The buffer of the program, registered.
    buffer: GlobalAddress,
    /// What it is, for messages.
    name: Arc<str>,
}

struct Table {
    held: BTreeMap<usize, Arc<Mutex<Held>>>,
    freed: Freed,
    last: usize,
}

static TABLE: Mutex<Table> = Mutex::new(Table { held: BTreeMap::new(), freed: Freed::new(), last: 0 });

/// What is not so, and what cannot be asked.
const NO: c_int = 1;
const WRONG: c_int = -1;

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The world has ended, and its segment buffers with it.
pub(super) fn forget_all() {
    let mut table = table();
    table.held.clear();
    table.freed.clear();
}

fn create(
    peer: c_int,
    buf: *mut c_void,
    segsize: usize,
    segnum: usize,
    make: fn(&World, u32, GlobalAddress, usize, usize) -> Result<Segments>,
) -> Result<*mut SegmentBuffer> {
    let peer = rank_of(peer)?;
    let name: Arc<str> = format!("segment buffer with rank {peer}").into();
    let bytes = segsize.checked_mul(segnum).filter(|bytes| *bytes > 0 && *bytes <= isize::MAX as usize);
    let bytes = bytes
        .ok_or_else(|| misuse(format!("a {name}, of {segnum} segments of {segsize} bytes, cannot be")))?;
    // SAFETY: memory of the program, which it leaves to the library until it frees the segment buffer: so ACP has it.
    let buffer = unsafe { WORLD.register(buf.cast(), bytes, 0) }?;
    let made = WORLD.with(|world| make(world, peer, buffer, segsize, segnum));
    if made.is_err() {
        let _ = WORLD.unregister(buffer.bits());
    }
    let segments = Some(made.map_err(|error| about(error, &name))?);
    let held = Arc::new(Mutex::new(Held { segments, buffer, name }));
    let mut table = table();
    table.last += 16;
    let number = table.last;
    table.held.insert(number, held);
    Ok(number as *mut SegmentBuffer)
}

/// Makes the end of a segment buffer that is filled.
#[no_mangle]
pub extern "C" fn acp_create_src_segbuf(
    dst_rank: c_int,
    buf: *mut c_void,
    segsize: usize,
    segnum: usize,
) -> *mut SegmentBuffer {
    edge("acp_create_src_segbuf", std::ptr::null_mut(), || {
        create(dst_rank, buf, segsize, segnum, Segments::source)
    })
}

/// Makes the end of a segment buffer that is read.
#[no_mangle]
pub extern "C" fn acp_create_dst_segbuf(
    src_rank: c_int,
    buf: *mut c_void,
    segsize: usize,
    segnum: usize,
) -> *mut SegmentBuffer {
    edge("acp_create_dst_segbuf", std::ptr::null_mut(), || {
        create(src_rank, buf, segsize, segnum, Segments::destination)
    })
}

fn gone(segbuf: *mut SegmentBuffer) -> kumiki::Error {
    match table().freed.find(segbuf as usize) {
        Some(name) => misuse(format!("the {name} has been freed")),
        None => misuse("there is no such segment buffer: it has been freed, or was never given"),
    }
}

/// Does something with a segment buffer that a program names. While one thread does, others wait that name the same one.
fn with<T>(segbuf: *mut SegmentBuffer, work: impl FnOnce(&World, &mut Segments) -> Result<T>) -> Result<T> {
    let held = table().held.get(&(segbuf as usize)).cloned();
    let held = held.ok_or_else(|| gone(segbuf))?;
    WORLD.with(|world| {
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let name = held.name.clone();
        let segments = held.segments.as_mut().ok_or_else(|| gone(segbuf))?;
        work(world, segments).map_err(|error| about(error, &name))
    })
}

/// Waits until both ends know each other: 0, or -1.
#[no_mangle]
pub extern "C" fn acp_connect_segbuf(segbuf: *mut SegmentBuffer) -> c_int {
    edge("acp_connect_segbuf", WRONG, || with(segbuf, |world, segments| segments.connect(world).map(|()| 0)))
}

/// Whether both ends know each other: 0 if so, 1 if not, -1 if they cannot.
#[no_mangle]
pub extern "C" fn acp_isconnected_segbuf(segbuf: *mut SegmentBuffer) -> c_int {
    edge("acp_isconnected_segbuf", WRONG, || {
        with(segbuf, |world, segments| segments.is_connected(world).map(yes))
    })
}

fn yes(is_so: bool) -> c_int {
    if is_so {
        0
    } else {
        NO
    }
}

/// Something that one end alone can do, once it is connected.
fn end_edge(
    name: &str,
    segbuf: *mut SegmentBuffer,
    at_source: bool,
    work: impl FnOnce(&World, &mut Segments) -> Result<bool>,
) -> c_int {
    edge(name, WRONG, || {
        with(segbuf, |world, segments| {
            if segments.is_source() != at_source {
                let end = if at_source { "source" } else { "destination" };
                return Err(misuse(format!(
                    "only the {end} of a segment buffer can do that, and this is the other end"
                )));
            }
            if !segments.is_connected(world)? {
                return Err(misuse(
                    "the segment buffer is not connected: call acp_connect_segbuf at both ends first",
                ));
            }
            let is_so = work(world, segments)?;
            if !is_so {
                // Whoever asks again at once would only keep from its core who is to answer.
                std::thread::yield_now();
            }
            Ok(yes(is_so))
        })
    })
}

/// At the destination: gives the segment at the head back. 0; 1 if there is none; -1 if that cannot be asked.
#[no_mangle]
pub extern "C" fn acp_ready_segbuf(segbuf: *mut SegmentBuffer) -> c_int {
    end_edge("acp_ready_segbuf", segbuf, false, |world, segments| segments.advance(world))
}

/// At the source: sends the segment at the tail. 0; 1 if all are full; -1 if that cannot be asked.
#[no_mangle]
pub extern "C" fn acp_ack_segbuf(segbuf: *mut SegmentBuffer) -> c_int {
    end_edge("acp_ack_segbuf", segbuf, true, |world, segments| segments.advance(world))
}

/// At the source: 0 if the segment at the tail may be filled, 1 if not.
#[no_mangle]
pub extern "C" fn acp_isready_segbuf(segbuf: *mut SegmentBuffer) -> c_int {
    end_edge("acp_isready_segbuf", segbuf, true, |world, segments| segments.is_ready(world))
}

/// At the destination: 0 if there is a segment at the head, 1 if not.
#[no_mangle]
pub extern "C" fn acp_isacked_segbuf(segbuf: *mut SegmentBuffer) -> c_int {
    end_edge("acp_isacked_segbuf", segbuf, false, |world, segments| segments.is_ready(world))
}

fn query_edge(
    name: &str,
    segbuf: *mut SegmentBuffer,
    count: fn(&World, &mut Segments) -> Result<u64>,
) -> i64 {
    edge(name, -1, || {
        with(segbuf, |world, segments| Ok((count(world, segments)? % segments.segments() as u64) as i64))
    })
}

/// The segment that is read next.
#[no_mangle]
pub extern "C" fn acp_query_segbuf_head(segbuf: *mut SegmentBuffer) -> i64 {
    query_edge("acp_query_segbuf_head", segbuf, |world, segments| segments.head(world))
}

/// The segment that is filled next.
#[no_mangle]
pub extern "C" fn acp_query_segbuf_tail(segbuf: *mut SegmentBuffer) -> i64 {
    query_edge("acp_query_segbuf_tail", segbuf, |world, segments| segments.tail(world))
}

/// The first segment that is not at its place yet, of those that were sent.
#[no_mangle]
pub extern "C" fn acp_query_segbuf_sent(segbuf: *mut SegmentBuffer) -> i64 {
    query_edge("acp_query_segbuf_sent", segbuf, |world, segments| segments.sent(world))
}

/// Waits until everything that was sent or given back is where it belongs: 0, or -1.
#[no_mangle]
pub extern "C" fn acp_disconnect_segbuf(segbuf: *mut SegmentBuffer) -> c_int {
    edge("acp_disconnect_segbuf", WRONG, || {
        with(segbuf, |world, segments| segments.disconnect(world).map(|()| 0))
    })
}

/// Frees an end, disconnected or not; the memory is the program's again: 0, or -1.
#[no_mangle]
pub extern "C" fn acp_free_segbuf(segbuf: *mut SegmentBuffer) -> c_int {
    edge("acp_free_segbuf", WRONG, || {
        let held = table().held.remove(&(segbuf as usize));
        let held = held.ok_or_else(|| gone(segbuf))?;
        let (freed, buffer, name) = WORLD.with(|world| {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            let segments = held.segments.take().ok_or_else(|| gone(segbuf))?;
            Ok((segments.free(world), held.buffer, held.name.clone()))
        })?;
        table().freed.note(segbuf as usize, name.to_string());
        WORLD.unregister(buffer.bits())?;
        freed.map(|()| 0).map_err(|error| about(error, &name))
    })
}
