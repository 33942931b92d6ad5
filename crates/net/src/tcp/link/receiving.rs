//! What comes in on a connection, and where it goes.

use super::{Link, Received, LEAST_IN_PLACE_BYTES};
use crate::contract::{Outbox, Sink, FLAG_MORE};
use crate::os::socket;
use crate::tcp::admission::Admission;
use crate::tcp::buffers::{Buffers, BLOCK_BYTES, FIRST_RECEIVE_BYTES};
use crate::wire::{Event, Landed, FLAG_UNSTEADY, FRAME_HEADER_BYTES};
use crate::{Error, Rank, Result};
use std::os::fd::AsFd;

/// So often is read at a time what there is of a payload: who waits for it would only look again.
const MOST_READS: u32 = 8;
/// And no more when so much has been read: others wait meanwhile.
const ENOUGH_BYTES: usize = 256 * 1024;

/// What was read from a socket.
struct Read {
    /// How far the present payload is, if some of it went to its place.
    landed: Option<Landed>,
    /// Bytes that came behind it, or instead of it, and are in the scratch.
    staged: usize,
    /// All bytes.
    bytes: usize,
}

impl Link {
    /// Reads what has come and hands it to the sink: up to the end of a payload, if that is there.
    pub(in crate::tcp) fn receive(
        &mut self,
        admission: &Admission<'_>,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<Received> {
        // What makes it a connection is seen to before anything else.
        let reads = if self.established { MOST_READS } else { 1 };
        let (mut bytes, mut left) = (0, u32::MAX);
        for _ in 0..reads {
            match self.receive_once(admission, buffers, sink, out)? {
                Received::Bytes(0) => break,
                Received::Bytes(more) => bytes += more,
                Received::Finished => return Ok(Received::Finished),
            }
            // With the end of a payload the header of the next one may have come.
            let before = std::mem::replace(&mut left, self.wire.payload_left());
            if left == 0 || left >= before || bytes >= ENOUGH_BYTES {
                break;
            }
        }
        Ok(Received::Bytes(bytes))
    }

    fn receive_once(
        &mut self,
        admission: &Admission<'_>,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<Received> {
        if !self.is_open()? {
            return Ok(Received::Bytes(0));
        }
        let was_established = self.established;
        let read = match self.read(buffers, sink) {
            // What was sent is kept: the wire need not hear of it before it is clear that nobody calls again.
            Ok(Read { bytes: 0, .. }) if self.can_be_mended() && !self.has_parted() => {
                return Err(Error::Closed("the other side closed it, or something in between did".into()));
            }
            Ok(Read { bytes: 0, .. }) => {
                return match self.wire.end_of_input() {
                    Ok(()) => Ok(Received::Finished),
                    Err(error) => Err(self.broken(&error)),
                };
            }
            Ok(read) => read,
            Err(error) if error.would_block() => return Ok(Received::Bytes(0)),
            Err(error) => return Err(error),
        };
        // Whoever says something is there.
        self.turned_away = false;
        if let Some(landed) = read.landed {
            self.took(read.bytes - read.staged);
            self.land(landed, sink, out);
        }
        let mut at = 0;
        while at < read.staged {
            // The handshake is not part of the stream.
            let is_stream = self.stream.is_some();
            let taken = self.digest(admission, &buffers.scratch[at..read.staged], sink, out)?;
            if is_stream {
                self.took(taken);
            }
            at += taken;
        }
        self.keep_books_of_stream(buffers)?;
        if self.wire.is_finished() && !self.lingers() {
            return Ok(Received::Finished);
        }
        if self.initiated && self.established && !was_established && self.has_hung_up() {
            // A rank that was stopped may find an answer that came in time, from a peer that has given up since.
            self.established = false;
            return Err(Error::Closed("the peer has given up the handshake".into()));
        }
        Ok(Received::Bytes(read.bytes))
    }

    /// Whether the peer has ended the connection, behind what has been read.
    fn has_hung_up(&self) -> bool {
        match socket::receive(self.fd.as_fd(), &mut [0], true) {
            Ok(bytes) => bytes == 0,
            Err(error) => !error.would_block(),
        }
    }

    /// Reads from the socket: what is left of a payload into the memory where it belongs, if that may be; everything else into
    /// the scratch.
    fn read(&mut self, buffers: &mut Buffers, sink: &mut dyn Sink) -> Result<Read> {
        let left = self.wire.payload_left() as usize;
        // The headers of a bundle are fewer.
        if left >= LEAST_IN_PLACE_BYTES {
            if let Some(read) = self.read_in_place(left, &mut buffers.scratch, sink)? {
                return Ok(read);
            }
        }
        if !self.wire.awaits_bundle() {
            buffers.expect(left);
        }
        let most = match &self.mending {
            // What comes behind belongs to another link.
            Some(_) => self.wire.missing().min(buffers.scratch.len()),
            // The next payload may well be as large as the last one, and have a place.
            None if left == 0 && self.expects_large && self.incoming.kind != self.homeless => {
                FIRST_RECEIVE_BYTES.min(buffers.scratch.len())
            }
            None => buffers.scratch.len(),
        };
        let bytes = socket::receive(self.fd.as_fd(), &mut buffers.scratch[..most], false)?;
        Ok(Read { landed: None, staged: bytes, bytes })
    }

    /// Reads into the memory where the payload belongs, and behind it no more than the next header: another payload may follow
    /// it. `None` if there is no such memory.
    fn read_in_place(
        &mut self,
        left: usize,
        scratch: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<Option<Read>> {
        let (at, from) = (self.incoming.payload_bytes - left as u32, self.peer.unwrap_or_default());
        let place = match self.incoming.flags & FLAG_UNSTEADY {
            0 => sink.room(from, &self.incoming, at, left),
            _ => sink.place(from, &self.incoming, at, left),
        };
        let Some(mut place) = place else {
            self.homeless = self.incoming.kind;
            return Ok(None);
        };
        let bytes = socket::receive_into(self.fd.as_fd(), &mut place, &mut scratch[..FRAME_HEADER_BYTES])?;
        let in_place = bytes.min(left);
        let landed = self.wire.payload_summed(in_place, |crc| place.checksum_more(crc, in_place));
        let landed = landed.map_err(|error| self.broken(&error))?;
        Ok(Some(Read { landed: Some(landed), staged: bytes - in_place, bytes }))
    }

    /// So far a payload has come.
    fn land(&mut self, landed: Landed, sink: &mut dyn Sink, out: &mut Outbox) {
        self.torn |= landed == Landed::Torn;
        if landed != Landed::Partly {
            self.complete(sink, out);
        }
    }

    /// Takes some of the bytes: a piece of a payload, or a record or header.
    fn digest(
        &mut self,
        admission: &Admission<'_>,
        bytes: &[u8],
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<usize> {
        let left = self.wire.payload_left() as usize;
        if left > 0 && self.wire.awaits_bundle() {
            return self.take_bundle(left, bytes, sink, out);
        }
        if left > 0 {
            let taken = left.min(bytes.len()).min(BLOCK_BYTES);
            let at = self.incoming.payload_bytes - left as u32;
            let from = self.peer.unwrap_or_default();
            sink.part(from, &self.incoming, at, &bytes[..taken]);
            let sum = |crc| socket::checksum_more(crc, &bytes[..taken]);
            let landed = self.wire.payload_summed(taken, sum).map_err(|error| self.broken(&error))?;
            self.land(landed, sink, out);
            return Ok(taken);
        }
        let (taken, event) = self.wire.feed(admission.secret, bytes).map_err(|error| self.broken(&error))?;
        match event {
            Event::NeedMore | Event::Bundle => {}
            Event::Established(identity) => {
                (admission.admit)(identity)?;
                self.peer = Some(Rank(identity.rank));
                self.established = self.begin_stream(admission.patience_ms)?;
            }
            Event::Acknowledged(bytes) => self.acknowledged(bytes)?,
            Event::Resume(resumption) => self.resumed(resumption)?,
            Event::Frame(header) => {
                self.expects_frames()?;
                self.incoming = header;
                self.has_begun = true;
                // What comes with its header is not read again.
                let least = LEAST_IN_PLACE_BYTES + FIRST_RECEIVE_BYTES;
                self.expects_large = header.payload_bytes as usize >= least;
                // A message may end in the middle, when its memory is gone: what begins anew is not torn by it.
                self.torn &= header.payload_bytes > 0 && header.d > 0;
                if header.payload_bytes == 0 {
                    self.complete(sink, out);
                }
            }
            Event::Goodbye => self.parting = true,
            Event::Closed | Event::Knock => {}
        }
        Ok(taken)
    }

    #[inline]
    pub(super) fn complete(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        let from = self.peer.unwrap_or_default();
        self.has_begun = self.incoming.flags & FLAG_MORE != 0;
        let is_answer = match (self.torn, self.has_begun) {
            (false, _) => sink.frame(from, self.index, &self.incoming, out),
            // The rest of the message comes, but it is of no use.
            (true, true) => false,
            (true, false) => {
                self.torn = false;
                sink.torn(from, self.index, &self.incoming, out)
            }
        };
        if is_answer {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
    }
}
