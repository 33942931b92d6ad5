//! Segment buffers: equal buffers at both ends, in memory of the program, through which segments go in one direction.

use super::{edge, give, handle, place, KumikiWorld};
use crate::guard::misuse;
use crate::things::{self, Here};
use kumiki::comm::Segments;
use kumiki::{GlobalAddress, Result, World};
use std::ffi::{c_int, c_void};

handle! {
    /// `struct kumiki_segments`.
    KumikiSegments
}

const NAME: &str = "segment buffer";

struct Held {
    segments: Segments,
    /// The buffer, and where it is registered.
    start: usize,
    buffer: GlobalAddress,
}

impl Held {
    /// The segment that can be filled, or read.
    fn segment(&self, world: &World) -> Result<*mut c_void> {
        let count = match self.segments.is_source() {
            true => self.segments.tail(world)?,
            false => self.segments.head(world)?,
        };
        let index = (count % self.segments.segments() as u64) as usize;
        Ok((self.start + index * self.segments.segment_bytes()) as *mut c_void)
    }
}

type Make = fn(&World, u32, GlobalAddress, usize, usize) -> Result<Segments>;

/// # Safety
/// As [`kumiki_segments_source`].
unsafe fn create(
    world: *const KumikiWorld,
    peer: u32,
    memory: *mut c_void,
    (segment_bytes, count): (usize, usize),
    segments: *mut *mut KumikiSegments,
    make: Make,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { give(segments, "the segment buffer", std::ptr::null_mut()) }?;
    let bytes = segment_bytes.checked_mul(count).filter(|bytes| (1..=isize::MAX as usize).contains(bytes));
    let bytes = bytes.ok_or_else(|| {
        misuse(format!("segment_bytes and count: {count} segments of {segment_bytes} bytes cannot be"))
    })?;
    if memory.is_null() {
        return Err(misuse("memory: the segment buffer is at NULL"));
    }
    let place = place(world)?;
    // SAFETY: the program leaves the memory to the library until it frees the segment buffer.
    let buffer = unsafe { place.register(memory.cast(), bytes, 0) }?;
    let keep = |here: &Here<'_>| {
        let made = make(here.world, peer, buffer, segment_bytes, count)?;
        let held = Held { segments: made, start: memory as usize, buffer };
        // SAFETY: it was written before.
        unsafe { segments.write(here.keep(held)) };
        Ok(())
    };
    let made = things::enter(world, keep);
    if made.is_err() {
        let _ = place.unregister(buffer.bits());
    }
    made
}

/// Makes the end of a segment buffer that is filled.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `segments` must be writable, or NULL; `memory` must have `count` times
/// `segment_bytes` bytes, which are there until the segment buffer has been freed.
#[no_mangle]
pub unsafe extern "C" fn kumiki_segments_source(
    world: *const KumikiWorld,
    to: u32,
    memory: *mut c_void,
    segment_bytes: usize,
    count: usize,
    segments: *mut *mut KumikiSegments,
) -> c_int {
    // SAFETY: as the caller promises.
    edge(|| unsafe { create(world, to, memory, (segment_bytes, count), segments, Segments::source) })
}

/// Makes the end of a segment buffer that is read.
///
/// # Safety
/// As [`kumiki_segments_source`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_segments_destination(
    world: *const KumikiWorld,
    from: u32,
    memory: *mut c_void,
    segment_bytes: usize,
    count: usize,
    segments: *mut *mut KumikiSegments,
) -> c_int {
    // SAFETY: as the caller promises.
    edge(|| unsafe { create(world, from, memory, (segment_bytes, count), segments, Segments::destination) })
}

/// Waits until there is a segment to fill, or to read.
///
/// # Safety
/// `segment` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_segments_wait(
    segments: *mut KumikiSegments,
    segment: *mut *mut c_void,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(segment, "the segment", std::ptr::null_mut()) }?;
        let found = things::with(segments, NAME, |here, held: &mut Held| {
            held.segments.wait_ready(here.world)?;
            held.segment(here.world)
        })?;
        // SAFETY: it was written before.
        unsafe { segment.write(found) };
        Ok(())
    })
}

/// The segment to fill, or to read, if there is one.
///
/// # Safety
/// As [`kumiki_segments_wait`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_segments_try(
    segments: *mut KumikiSegments,
    segment: *mut *mut c_void,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(segment, "the segment", std::ptr::null_mut()) }?;
        let found = things::with(segments, NAME, |here, held: &mut Held| {
            let is_ready = held.segments.is_connected(here.world)? && held.segments.is_ready(here.world)?;
            is_ready.then(|| held.segment(here.world)).transpose()
        })?;
        // SAFETY: it was written before.
        unsafe { segment.write(found.unwrap_or(std::ptr::null_mut())) };
        Ok(())
    })
}

/// Sends the segment that was filled, or gives back the one that was read.
#[no_mangle]
pub extern "C" fn kumiki_segments_advance(segments: *mut KumikiSegments) -> c_int {
    edge(|| {
        things::with(segments, NAME, |here, held: &mut Held| match held.segments.advance(here.world)? {
            true => Ok(()),
            false => Err(misuse("there is no segment to go on with: wait for one first")),
        })
    })
}

/// How many segments were given back, sent, and sent and are at their place.
///
/// # Safety
/// Each must be writable, or NULL if it is not wanted.
#[no_mangle]
pub unsafe extern "C" fn kumiki_segments_counts(
    segments: *mut KumikiSegments,
    head: *mut u64,
    tail: *mut u64,
    sent: *mut u64,
) -> c_int {
    edge(|| {
        let counts = things::with(segments, NAME, |here, held: &mut Held| {
            let Held { segments, .. } = held;
            Ok([segments.head(here.world)?, segments.tail(here.world)?, segments.sent(here.world)?])
        })?;
        for (to, count) in [head, tail, sent].into_iter().zip(counts) {
            if !to.is_null() {
                // SAFETY: as the caller promises.
                unsafe { to.write(count) };
            }
        }
        Ok(())
    })
}

/// Frees an end, when everything that was sent or given back is where it belongs.
#[no_mangle]
pub extern "C" fn kumiki_segments_free(segments: *mut KumikiSegments) -> c_int {
    edge(|| {
        things::take(segments, NAME, |here, held: Held| {
            let freed = held.segments.free(here.world);
            let unregistered = here.place().unregister(held.buffer.bits());
            freed.and(unregistered)
        })
    })
}
