//! The memory that all connections of a rank share: one place to receive into, and frames that are being sent.

use crate::contract::{Sink, Source, PIECE_BYTES};
use crate::wire::{frame, FRAME_HEADER_BYTES};

/// Where the payload starts in the buffer of a large frame. The header ends there; buffers of the allocator start at a
/// sixteenth byte, so that the payload lies on cache lines as its source does.
pub(super) const LEAD_BYTES: usize = 112;
const _: () = assert!(LEAD_BYTES >= FRAME_HEADER_BYTES);
/// A payload is copied and summed in blocks that stay in the innermost cache between the two.
pub(super) const BLOCK_BYTES: usize = 16 * 1024;

/// What all links of a transport share.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) scratch: Vec<u8>,
    spare: Vec<Vec<u8>>,
    /// For fault injection: the next payload in place leaves as zeroes.
    pub(super) tear_next: bool,
}

impl Buffers {
    /// Bytes that the buffers hold now.
    pub(super) fn bytes(&self) -> u64 {
        (self.scratch.capacity() + self.spare.iter().map(Vec::capacity).sum::<usize>()) as u64
    }

    /// A buffer for a frame of the largest size. It holds whatever it held before: clearing what is about to be
    /// overwritten would cost a pass over memory.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| vec![0; LEAD_BYTES + PIECE_BYTES])
    }

    pub(super) fn give(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < 2 && buffer.len() == LEAD_BYTES + PIECE_BYTES {
            self.spare.push(buffer);
        }
    }
}

/// Fills a payload from the sink and sums it up. `None` when the sink has it no more.
pub(super) fn fill(sink: &mut dyn Sink, source: Source, offset: u64, place: &mut [u8]) -> Option<u32> {
    let mut crc = 0;
    let mut at = offset;
    for block in place.chunks_mut(BLOCK_BYTES) {
        if !sink.fill(source, at, block) {
            return None;
        }
        crc = frame::checksum_more(crc, block);
        at += block.len() as u64;
    }
    Some(crc)
}
