//! The memory that all connections of a rank share: one place to receive into, and frames that are being sent.

use crate::contract::{Accounts, Filled, Sink, Source, PIECE_BYTES};
use crate::os::socket;
use crate::wire::FRAME_HEADER_BYTES;
use std::sync::Arc;

/// Where the payload starts in the buffer of a large frame. The header ends there; buffers of the allocator start at a
/// sixteenth byte, so that the payload lies on cache lines as its source does.
pub(super) const LEAD_BYTES: usize = 112;
const _: () = assert!(LEAD_BYTES >= FRAME_HEADER_BYTES);
/// A payload is copied and summed in blocks that stay in the innermost cache between the two.
pub(super) const BLOCK_BYTES: usize = 16 * 1024;

/// Bytes read from a socket at a time before the first large payload, and after it.
pub(super) const FIRST_RECEIVE_BYTES: usize = 4 * 1024;
const RECEIVE_BYTES: usize = 256 * 1024;

/// Bytes of the buffer of a frame.
const FRAME_BYTES: usize = LEAD_BYTES + PIECE_BYTES;

/// What all links of a transport share. Whatever is here, or was taken from here, is booked.
pub(super) struct Buffers {
    pub(super) scratch: Vec<u8>,
    spare: Vec<Vec<u8>>,
    /// Frames that were taken and not given back.
    taken: usize,
    accounts: Arc<dyn Accounts>,
    /// For fault injection: the next payload in place leaves as zeroes.
    pub(super) tear_next: bool,
}

impl Buffers {
    pub(super) fn new(accounts: Arc<dyn Accounts>) -> Buffers {
        Buffers { scratch: Vec::new(), spare: Vec::new(), taken: 0, tear_next: false, accounts }
    }

    /// Bytes that the buffers hold now, those of frames on their way included.
    pub(super) fn bytes(&self) -> u64 {
        (self.scratch.capacity() + (self.spare.len() + self.taken) * FRAME_BYTES) as u64
    }

    /// Before the first connection: a place to receive into. Without it nothing could be heard, so it cannot be refused.
    pub(super) fn prepare(&mut self) {
        if self.scratch.is_empty() {
            self.accounts.force(FIRST_RECEIVE_BYTES as u64);
            self.scratch = vec![0; FIRST_RECEIVE_BYTES];
        }
    }

    /// A payload of so many bytes comes. The first large one makes the place large, if the budget allows it; processes that
    /// exchange words keep a small one.
    pub(super) fn expect(&mut self, bytes: usize) {
        let more = RECEIVE_BYTES.saturating_sub(self.scratch.len());
        if bytes > self.scratch.len() && more > 0 && self.accounts.book(more as u64).is_ok() {
            self.scratch = vec![0; RECEIVE_BYTES];
        }
    }

    pub(super) fn unbook(&self, bytes: u64) {
        self.accounts.unbook(bytes);
    }

    /// A buffer for a frame of the largest size, of which so many bytes can be written; `None` when the budget is spent, or the system has no memory. It
    /// holds whatever it held before: clearing what is about to be overwritten would cost a pass over memory.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut frame = match self.spare.pop() {
            Some(spare) => spare,
            None => self.fresh()?,
        };
        if frame.len() < bytes {
            frame.resize(bytes, 0);
        }
        self.taken += 1;
        Some(frame)
    }

    /// Another buffer. It takes no memory of the system before something is written to it.
    fn fresh(&self) -> Option<Vec<u8>> {
        self.accounts.book(FRAME_BYTES as u64).ok()?;
        let mut frame = Vec::new();
        match frame.try_reserve_exact(FRAME_BYTES) {
            Ok(()) => Some(frame),
            Err(_) => {
                self.accounts.unbook(FRAME_BYTES as u64);
                None
            }
        }
    }

    pub(super) fn give(&mut self, buffer: Vec<u8>) {
        if !is_frame(&buffer) {
            return;
        }
        self.taken -= 1;
        if self.spare.len() < 2 {
            self.spare.push(buffer);
        } else {
            self.accounts.unbook(FRAME_BYTES as u64);
        }
    }
}

/// Whether this is a frame that was taken from the buffers: nothing else is as long.
pub(super) fn is_frame(buffer: &Vec<u8>) -> bool {
    buffer.capacity() >= FRAME_BYTES
}

/// Fills a payload from the sink and sums it up. What is not filled wholly is said instead.
pub(super) fn fill(
    sink: &mut dyn Sink,
    source: Source,
    offset: u64,
    place: &mut [u8],
) -> Result<u32, Filled> {
    let mut crc = 0;
    let mut at = offset;
    for block in place.chunks_mut(BLOCK_BYTES) {
        match sink.fill(source, at, block) {
            Filled::Whole => crc = socket::checksum_more(crc, block),
            unfilled => return Err(unfilled),
        }
        at += block.len() as u64;
    }
    Ok(crc)
}
