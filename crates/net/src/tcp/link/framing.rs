//! How the messages that wait on a connection become frames: together, in place, or piece by piece.

use super::{
    is_small, payload_bytes, Link, Unsent, GATHERED_BYTES, LITTLE_BYTES, SMALL_BYTES, USUAL_PIECE_BYTES,
};
use crate::contract::{
    Filled, Message, Outbox, Path, Payload, Sink, Source, FLAG_MORE, IN_PLACE_BYTES, LETTER_BYTES,
    PIECE_BYTES,
};
use crate::os::socket;
use crate::tcp::buffers::{fill, Buffers, LEAD_BYTES};
use crate::tcp::in_place::{self, InPlace, Memory};
use crate::wire::{Header, FLAG_UNSTEADY, FRAME_HEADER_BYTES};
use crate::Result;
use std::collections::VecDeque;
use std::os::fd::AsFd;

/// A payload of so many bytes that stays as it is is sent from where it lies, and kept there.
const LEAST_SHARED_BYTES: u64 = 16 * 1024;

impl Link {
    /// Sends the next frame of the first message. Returns whether to go on with the next one.
    pub(super) fn send_front(
        &mut self,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<bool> {
        let Some(message) = self.queue.front().copied() else { return Ok(false) };
        if !self.may_go_on(&message) {
            return Ok(false);
        }
        if self.queue.len() > 1 && self.progress == 0 && is_small(&message) {
            return self.send_gathered(buffers, sink, out);
        }
        match message.payload {
            Payload::None => {
                let sent = self.send_bare(&message)?;
                self.leave_queue();
                Ok(sent)
            }
            Payload::Lazy(source, total) => {
                // A fault that damages bytes damages a copy of them.
                if total >= IN_PLACE_BYTES && !self.corrupt_next {
                    if let Some(sent) = self.send_in_place(&message, source, total, buffers, sink)? {
                        return Ok(sent);
                    }
                }
                if total >= LEAST_SHARED_BYTES && !self.corrupt_next {
                    if let Some(sent) = self.send_shared(&message, source, total, sink)? {
                        return Ok(sent);
                    }
                }
                self.send_copied(&message, source, total, buffers, sink, out)
            }
        }
    }

    /// Sends the small messages at the head of the queue with one system call. Returns whether all went.
    pub(super) fn send_gathered(
        &mut self,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<bool> {
        let Some(mut buffer) = buffers.take(GATHERED_BYTES) else { return self.send_single(sink, out) };
        let mut end = 0;
        while let Some(message) = self.queue.front().copied() {
            if let Some(next) = self.seal_bundle(&mut buffer[..GATHERED_BYTES], end)? {
                end = next;
                if self.corrupt_next || self.drop_next {
                    break;
                }
                continue;
            }
            let bytes = payload_bytes(&message);
            let start = end + FRAME_HEADER_BYTES;
            let next = start + bytes.min(SMALL_BYTES) as usize;
            if bytes > SMALL_BYTES || next > GATHERED_BYTES || !self.may_go_on(&message) {
                break;
            }
            let sealed = match message.payload {
                Payload::None => {
                    let sealed = self.seal_bare(&message)?;
                    self.leave_queue();
                    sealed
                }
                Payload::Lazy(source, total) => match fill(sink, source, 0, &mut buffer[start..next]) {
                    Ok(crc) => self.seal_piece(&message, total, total as usize, 0, crc)?,
                    Err(unfilled) if self.passes_over(unfilled, &message, sink, out) => continue,
                    // What goes before it need not wait for it.
                    Err(_) => break,
                },
            };
            buffer[end..start].copy_from_slice(&sealed);
            end = next;
            // A fault is done to one frame.
            if self.corrupt_next || self.drop_next {
                break;
            }
        }
        if end == 0 {
            buffers.give(buffer);
            return Ok(!self.waits_for_sink);
        }
        let sent = self.send_owned(buffer, 0, end, buffers)?;
        Ok(sent && !self.waits_for_sink)
    }

    /// Sends a piece of a payload from the memory where it lies; `None` if that cannot be. Returns whether all went.
    pub(super) fn send_in_place(
        &mut self,
        message: &Message,
        source: Source,
        total: u64,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
    ) -> Result<Option<bool>> {
        let offset = self.progress;
        let piece = self.next_piece(total - offset, in_place::USUAL_BYTES, in_place::MOST_BYTES);
        let Some(crc) = sink.lend(source, offset, piece).map(|lent| lent.checksum()) else {
            return Ok(None);
        };
        let sealed = self.seal_piece(message, total, piece, FLAG_UNSTEADY, crc)?;
        if std::mem::take(&mut self.drop_next) {
            return Ok(Some(true));
        }
        // A source of no kind is lent by nobody.
        let source = if std::mem::take(&mut buffers.tear_next) { Source::default() } else { source };
        self.begin_in_place(InPlace::new(sealed, Memory::Lent(source), offset, piece), sink).map(Some)
    }

    /// Sends a piece of a payload that stays as it is, and keeps it there; `None` if there is no such memory. Returns whether all went.
    fn send_shared(
        &mut self,
        message: &Message,
        source: Source,
        total: u64,
        sink: &mut dyn Sink,
    ) -> Result<Option<bool>> {
        let offset = self.progress;
        let piece = self.next_piece(total - offset, USUAL_PIECE_BYTES, PIECE_BYTES);
        let Some(bytes) = sink.share(source) else { return Ok(None) };
        let Some(part) = bytes.get(offset as usize..).and_then(|rest| rest.get(..piece)) else {
            return Ok(None);
        };
        let crc = socket::checksum(part);
        let sealed = self.seal_piece(message, total, piece, 0, crc)?;
        if std::mem::take(&mut self.drop_next) {
            return Ok(Some(true));
        }
        self.begin_in_place(InPlace::new(sealed, Memory::Shared(bytes), offset, piece), sink).map(Some)
    }

    /// Sends a frame in place, and keeps it if it must go on, or may have to go again. Returns whether all went.
    fn begin_in_place(&mut self, mut frame: InPlace, sink: &mut dyn Sink) -> Result<bool> {
        let sent = self.send_frame(&mut frame, sink);
        if self.stream.is_some() {
            self.keep_in_place(frame);
            return sent;
        }
        let sent = sent?;
        if !sent {
            self.unsent = Some(Box::new(Unsent::InPlace(frame)));
        }
        Ok(sent)
    }

    /// Sends a copy of a piece of a payload. Returns whether to go on.
    pub(super) fn send_copied(
        &mut self,
        message: &Message,
        source: Source,
        total: u64,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<bool> {
        let piece = self.next_piece(total - self.progress, USUAL_PIECE_BYTES, PIECE_BYTES);
        let (start, end) = (LEAD_BYTES - FRAME_HEADER_BYTES, LEAD_BYTES + piece);
        let Some(mut buffer) = buffers.take(end) else { return self.send_single(sink, out) };
        let place = &mut buffer[LEAD_BYTES..end];
        let crc = match fill(sink, source, self.progress, place) {
            Ok(crc) => crc,
            Err(unfilled) => {
                buffers.give(buffer);
                return Ok(self.passes_over(unfilled, message, sink, out));
            }
        };
        let sealed = self.seal_piece(message, total, piece, 0, crc)?;
        buffer[start..LEAD_BYTES].copy_from_slice(&sealed);
        self.send_owned(buffer, start, end, buffers)
    }

    /// Sends the first message, or a little of it: the budget has no room for a frame of the usual size. Returns whether to go on.
    pub(super) fn send_single(&mut self, sink: &mut dyn Sink, out: &mut Outbox) -> Result<bool> {
        let Some(message) = self.queue.front().copied() else { return Ok(false) };
        let Payload::Lazy(source, total) = message.payload else {
            let sent = self.send_bare(&message)?;
            self.leave_queue();
            return Ok(sent);
        };
        let mut frame = [0; FRAME_HEADER_BYTES + LITTLE_BYTES];
        let piece = (total - self.progress).min(LITTLE_BYTES as u64) as usize;
        let end = FRAME_HEADER_BYTES + piece;
        let crc = match fill(sink, source, self.progress, &mut frame[FRAME_HEADER_BYTES..end]) {
            Ok(crc) => crc,
            Err(unfilled) => return Ok(self.passes_over(unfilled, &message, sink, out)),
        };
        let sealed = self.seal_piece(&message, total, piece, 0, crc)?;
        frame[..FRAME_HEADER_BYTES].copy_from_slice(&sealed);
        self.send_bytes(&frame[..end])
    }

    /// The payload of the first message is not there. Whether the next one may go: not before one that only has to wait.
    pub(super) fn passes_over(
        &mut self,
        unfilled: Filled,
        message: &Message,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> bool {
        if unfilled == Filled::NotYet {
            self.waits_for_sink = true;
            return false;
        }
        self.leave_queue();
        sink.withdrawn(self.peer.unwrap_or_default(), &message.header, out);
        true
    }

    /// The header of the next piece of the first message, which goes on behind that piece or leaves the queue.
    pub(super) fn seal_piece(
        &mut self,
        message: &Message,
        total: u64,
        piece: usize,
        flags: u8,
        payload_crc: u32,
    ) -> Result<[u8; FRAME_HEADER_BYTES]> {
        let last = self.progress + piece as u64 == total;
        let header = Header {
            d: self.progress,
            flags: message.header.flags | flags | if last { 0 } else { FLAG_MORE },
            payload_bytes: piece as u32,
            payload_crc,
            ..message.header
        };
        let sealed = self.seal(message, header)?;
        self.progress += piece as u64;
        if last {
            self.leave_queue();
            self.unanswered += message.expects_answer as u32;
        }
        Ok(sealed)
    }

    /// How much of what is left goes into the next frame: header and payload fill segments of the network, so that no
    /// frame drags a segment of a few bytes behind it. Segments grow while a connection is young, so the system is asked
    /// each time.
    pub(super) fn next_piece(&self, left: u64, usual: usize, most: usize) -> usize {
        // The last frame takes a small rest along.
        if left <= most as u64 {
            return left as usize;
        }
        piece_of_segments(usual, socket::segment_bytes(self.fd.as_fd()).unwrap_or(0) as usize)
    }

    /// Sends a message that is a header and nothing more.
    pub(super) fn send_bare(&mut self, message: &Message) -> Result<bool> {
        let sealed = self.seal_bare(message)?;
        self.send_bytes(&sealed)
    }

    /// Sends a header and some bytes that nobody answers. Returns whether all went; nothing if there is no memory to send them from.
    pub(in crate::tcp) fn send_letter(
        &mut self,
        header: Header,
        payload: &[u8],
        buffers: &mut Buffers,
    ) -> Result<Option<bool>> {
        if payload.len() > LETTER_BYTES {
            return self.send_long_letter(header, payload, buffers);
        }
        let mut frame = [0; FRAME_HEADER_BYTES + LETTER_BYTES];
        let end = FRAME_HEADER_BYTES + payload.len();
        let sealed = self.wire.seal(header.with_payload(payload)).map_err(|error| self.broken(&error))?;
        frame[..FRAME_HEADER_BYTES].copy_from_slice(&sealed);
        frame[FRAME_HEADER_BYTES..end].copy_from_slice(payload);
        self.send_bytes(&frame[..end]).map(Some)
    }

    /// A long one goes from where it is, and only what the socket does not take is copied; if it must be kept until the peer has it, a copy goes. Once it
    /// has begun it cannot be taken back, so there must be memory for that before.
    fn send_long_letter(
        &mut self,
        header: Header,
        payload: &[u8],
        buffers: &mut Buffers,
    ) -> Result<Option<bool>> {
        let is_kept = self.stream.is_some() || self.corrupt_next || self.drop_next;
        let (start, end) = (LEAD_BYTES - FRAME_HEADER_BYTES, LEAD_BYTES + payload.len());
        let Some(mut buffer) = buffers.take(if is_kept { end } else { 0 }) else { return Ok(None) };
        let payload_crc = socket::checksum(payload);
        let header = Header { payload_bytes: payload.len() as u32, payload_crc, ..header };
        let sealed = match self.wire.seal(header) {
            Ok(sealed) => sealed,
            Err(error) => {
                buffers.give(buffer);
                return Err(self.broken(&error));
            }
        };
        if is_kept {
            buffer[start..LEAD_BYTES].copy_from_slice(&sealed);
            buffer[LEAD_BYTES..end].copy_from_slice(payload);
            return self.send_owned(buffer, start, end, buffers).map(Some);
        }
        let sent = match socket::send_both(self.fd.as_fd(), &sealed, payload) {
            Err(error) if error.would_block() => 0,
            Err(error) => {
                buffers.give(buffer);
                return Err(error);
            }
            Ok(sent) => sent,
        };
        self.burst_bytes = self.burst_bytes.saturating_add(sent as u32);
        if sent == FRAME_HEADER_BYTES + payload.len() {
            buffers.give(buffer);
            return Ok(Some(true));
        }
        buffer.clear();
        buffer.extend_from_slice(&sealed[sent.min(FRAME_HEADER_BYTES)..]);
        buffer.extend_from_slice(&payload[sent.saturating_sub(FRAME_HEADER_BYTES)..]);
        self.unsent = Some(Box::new(Unsent::Copied { start: 0, end: buffer.len(), bytes: buffer }));
        Ok(Some(false))
    }

    pub(super) fn seal_bare(&mut self, message: &Message) -> Result<[u8; FRAME_HEADER_BYTES]> {
        let header = Header { payload_bytes: 0, payload_crc: 0, ..message.header };
        let sealed = self.seal(message, header)?;
        self.unanswered += message.expects_answer as u32;
        Ok(sealed)
    }

    /// Takes the first message from the queue.
    pub(super) fn leave_queue(&mut self) {
        self.queue.pop_front();
        if self.queue.is_empty() && self.queue.capacity() > 8 {
            self.queue = VecDeque::new();
        }
        self.progress = 0;
    }

    /// A goodbye of the peer stops new questions of ours, not answers, not what others wait for, and not what has been begun.
    pub(super) fn may_go_on(&self, message: &Message) -> bool {
        if message.path != Path::Route || self.progress > 0 {
            self.wire.may_reply()
        } else {
            self.wire.may_request()
        }
    }

    /// Takes back the questions that can no longer be asked on this link because the peer said goodbye.
    pub(in crate::tcp) fn take_unasked(&mut self) -> Vec<Message> {
        let begun = self.progress > 0;
        let mut unasked = Vec::new();
        let mut index = 0;
        self.queue.retain(|message| {
            let keep = message.path != Path::Route || (begun && index == 0);
            index += 1;
            if !keep {
                unasked.push(*message);
            }
            keep
        });
        unasked
    }

    pub(super) fn seal(&mut self, message: &Message, header: Header) -> Result<[u8; FRAME_HEADER_BYTES]> {
        let begun =
            message.path != Path::Route || header.d > 0 && matches!(message.payload, Payload::Lazy(..));
        let sealed = if begun { self.wire.seal_reply(header) } else { self.wire.seal(header) };
        sealed.map_err(|error| self.broken(&error))
    }
}

/// The payload of a frame that fills whole segments with its header; of whole cache lines.
fn piece_of_segments(usual: usize, segment: usize) -> usize {
    let segments = usual.checked_div(segment).unwrap_or(0);
    match (segments * segment).saturating_sub(FRAME_HEADER_BYTES) & !63 {
        0 => usual,
        piece => piece,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fills_whole_segments() {
        // Loopback, Ethernet, a segment larger than a piece, and no answer of the system.
        let piece = |segment| piece_of_segments(USUAL_PIECE_BYTES, segment);
        assert_eq!(piece(65_483), 2 * 65_483 - 72 - 14);
        assert!(piece(1448) + FRAME_HEADER_BYTES <= 90 * 1448);
        assert!(piece(1448) + FRAME_HEADER_BYTES > 90 * 1448 - 64);
        assert_eq!(piece(1 << 20), USUAL_PIECE_BYTES);
        assert_eq!(piece(0), USUAL_PIECE_BYTES);
    }
}
