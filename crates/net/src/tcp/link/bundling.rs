//! Headers without payload that wait together go out in one frame, under one tag.

use super::{Link, GATHERED_BYTES};
use crate::contract::{Message, Outbox, Path, Payload, Sink};
use crate::tcp::buffers::FIRST_RECEIVE_BYTES;
use crate::wire::bundle::{self, MAX_BUNDLE_BYTES, MOST_PACKED_BYTES};
use crate::wire::FRAME_HEADER_BYTES;
use crate::Result;
use std::collections::VecDeque;

/// Fewer are not worth a bundle, which has a header and a hash of its own.
const LEAST_BUNDLED: usize = 4;
const _: () = assert!(FRAME_HEADER_BYTES + MAX_BUNDLE_BYTES <= GATHERED_BYTES);
/// One can be received at once.
const _: () = assert!(FRAME_HEADER_BYTES + MAX_BUNDLE_BYTES <= FIRST_RECEIVE_BYTES);

impl Link {
    /// Makes a bundle of the headers at the head of the queue, behind what is in the buffer. Where it ends; `None` if there are too
    /// few.
    pub(super) fn seal_bundle(&mut self, buffer: &mut [u8], start: usize) -> Result<Option<usize>> {
        let body = start + FRAME_HEADER_BYTES;
        let Some(place) = buffer.get_mut(body..) else { return Ok(None) };
        let most = place.len().min(MAX_BUNDLE_BYTES);
        let goes = |message: &&Message| message.payload == Payload::None && self.may_go_on(message);
        if self.queue.iter().take(LEAST_BUNDLED).filter(goes).count() < LEAST_BUNDLED {
            return Ok(None);
        }
        let (mut count, mut bytes) = (0, 0);
        let (mut requests, mut asked) = (false, 0);
        for message in self.queue.iter().take_while(goes) {
            let Some(place) = place[bytes..most].first_chunk_mut::<MOST_PACKED_BYTES>() else { break };
            bytes += bundle::pack(&message.header, place);
            count += 1;
            requests |= message.path == Path::Route;
            asked += message.expects_answer as u32;
        }
        if count < LEAST_BUNDLED {
            return Ok(None);
        }
        let sealed = self.wire.seal_bundle(&place[..bytes], requests).map_err(|error| self.broken(&error))?;
        let end = body + bytes;
        buffer[start..body].copy_from_slice(&sealed);
        self.unanswered += asked;
        self.queue.drain(..count);
        if self.queue.is_empty() && self.queue.capacity() > 8 {
            self.queue = VecDeque::new();
        }
        Ok(Some(end))
    }

    /// Whether a bundle has come, and not all of it.
    #[inline]
    pub(in crate::tcp) fn holds_part_of_bundle(&self) -> bool {
        !self.unbundled.is_empty()
    }

    /// Takes the headers of a bundle, of `whole` bytes, or what has come of them. How many bytes were taken.
    pub(super) fn take_bundle(
        &mut self,
        whole: usize,
        bytes: &[u8],
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<usize> {
        if let Some(packed) = bytes.get(..whole).filter(|_| self.unbundled.is_empty()) {
            self.unpack(packed, sink, out)?;
            return Ok(whole);
        }
        let missing = whole - self.unbundled.len();
        let taken = missing.min(bytes.len());
        self.unbundled.reserve_exact(missing);
        self.unbundled.extend_from_slice(&bytes[..taken]);
        if taken == missing {
            let packed = std::mem::take(&mut self.unbundled);
            self.unpack(&packed, sink, out)?;
        }
        Ok(taken)
    }

    /// Does with each header of a bundle as if it had come by itself.
    fn unpack(&mut self, packed: &[u8], sink: &mut dyn Sink, out: &mut Outbox) -> Result<()> {
        self.expects_frames()?;
        self.wire.bundle(packed).map_err(|error| self.broken(&error))?;
        self.torn = false;
        for header in bundle::headers(packed) {
            self.incoming = header;
            self.complete(sink, out);
        }
        Ok(())
    }
}
