//! One TCP connection: a socket, the protocol state of its wire, and what waits to be sent on it.

use super::in_place::{self, InPlace};
use crate::auth::{Identity, Secret};
use crate::contract::{Message, Outbox, Path, Payload, Sink, Source, FLAG_MORE, IN_PLACE_BYTES, PIECE_BYTES};
use crate::os::{socket, time};
use crate::shm::arena::Arena;
use crate::shm::world::Status;
use crate::wire::{frame, Connection, Event, Header, Landed, WireError, FLAG_UNSTEADY, FRAME_HEADER_BYTES};
use crate::{Error, Rank, Result};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes read from a socket at a time before the first large payload, and after it.
pub(super) const FIRST_RECEIVE_BYTES: usize = 4 * 1024;
const RECEIVE_BYTES: usize = 256 * 1024;

/// A rest of a payload that is shorter than this is not worth a place of its own.
const LEAST_IN_PLACE_BYTES: usize = 16 * 1024;

/// Where the payload starts in the buffer of a large frame. The header ends there; buffers of the allocator start at a
/// sixteenth byte, so that the payload lies on cache lines as its source does.
const LEAD_BYTES: usize = 112;
const _: () = assert!(LEAD_BYTES >= FRAME_HEADER_BYTES);
/// About so much payload has a frame of a large message; the last may have a little more.
const USUAL_PIECE_BYTES: usize = 128 * 1024;
const _: () = assert!(USUAL_PIECE_BYTES < PIECE_BYTES);
/// A payload is copied and summed in blocks that stay in the innermost cache between the two.
const BLOCK_BYTES: usize = 16 * 1024;

/// Messages with payloads up to here that wait together go out together…
const SMALL_BYTES: u64 = 2 * 1024;
/// …as many as fit.
const GATHERED_BYTES: usize = 16 * 1024;
const _: () = assert!(GATHERED_BYTES <= PIECE_BYTES && SMALL_BYTES < IN_PLACE_BYTES);

/// What the socket did not take yet of a frame.
enum Unsent {
    /// The bytes from `start` to `end`.
    Copied {
        bytes: Vec<u8>,
        start: usize,
        end: usize,
    },
    InPlace(InPlace),
}

/// The state of one connection. The size is the budget of design §9 for a connected peer.
pub(super) struct Link {
    wire: Connection,
    /// The frame whose payload is coming in.
    incoming: Header,
    queue: VecDeque<Message>,
    unsent: Option<Box<Unsent>>,
    /// When this link was last used, in ticks of its transport.
    pub(super) used: u64,
    /// Until when it plays dead, for fault injection.
    pub(super) stalled_until_ms: u64,
    /// When the first attempt to connect was made.
    pub(super) first_attempt_ms: u64,
    /// How far the first message of the queue has been sent.
    progress: u64,
    /// Its place in the table of its transport.
    pub(super) index: u32,
    pub(super) fd: OwnedFd,
    /// The peer; for an accepted link known once it is established.
    pub(super) peer: Option<Rank>,
    /// Messages sent whose answers have not come.
    pub(super) unanswered: u32,
    pub(super) established: bool,
    /// Whether the link was opened by us.
    pub(super) initiated: bool,
    /// Whether epoll tells us when the socket takes bytes again.
    pub(super) watching_writes: bool,
    /// Whether one of the two sides has said goodbye.
    pub(super) parting: bool,
    /// Whether we have.
    said_goodbye: bool,
    pub(super) corrupt_next: bool,
    pub(super) drop_next: bool,
    /// Whether a piece of the message that is coming in was torn.
    torn: bool,
}

const _: () = assert!(std::mem::size_of::<Link>() <= 512);

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
    fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| vec![0; LEAD_BYTES + PIECE_BYTES])
    }

    fn give(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < 2 && buffer.len() == LEAD_BYTES + PIECE_BYTES {
            self.spare.push(buffer);
        }
    }
}

/// Who may come in: whoever knows the secret and is still part of the world.
pub(super) struct Admission<'a> {
    pub(super) secret: &'a Secret,
    pub(super) admit: &'a dyn Fn(Identity) -> Result<()>,
}

/// A rank of an earlier life of the world, or one that was given up, is not let in again.
pub(super) fn admit(arena: &Arena, identity: Identity) -> Result<()> {
    let current = arena.shared().incarnation();
    if identity.incarnation != current {
        let theirs = identity.incarnation;
        return Err(Error::Refused(format!(
            "rank {} is of life {theirs} of a world in life {current}",
            identity.rank
        )));
    }
    match arena.place(Rank(identity.rank)).map(|word| word.load().status) {
        None => Err(Error::Refused(format!("there is no rank {}", identity.rank))),
        Some(Status::Lost) => Err(Error::Refused(format!("rank {} was given up as lost", identity.rank))),
        Some(_) => Ok(()),
    }
}

/// What was read from a socket.
struct Read {
    /// How far the present payload is, if some of it went to its place.
    landed: Option<Landed>,
    /// Bytes that came behind it, or instead of it, and are in the scratch.
    staged: usize,
    /// All bytes.
    bytes: usize,
}

/// What came of receiving on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Received {
    /// There is no more to read now; this many bytes were read.
    Bytes(usize),
    /// Both sides have said goodbye.
    Finished,
}

impl Link {
    pub(super) fn new(
        fd: OwnedFd,
        wire: Connection,
        peer: Option<Rank>,
        initiated: bool,
        now_ms: u64,
    ) -> Link {
        Link {
            wire,
            incoming: Header::default(),
            queue: VecDeque::new(),
            unsent: None,
            used: 0,
            stalled_until_ms: 0,
            first_attempt_ms: now_ms,
            progress: 0,
            index: u32::MAX,
            fd,
            peer,
            unanswered: 0,
            established: false,
            initiated,
            watching_writes: false,
            parting: false,
            said_goodbye: false,
            corrupt_next: false,
            drop_next: false,
            torn: false,
        }
    }

    /// Puts a message behind those that wait.
    pub(super) fn push(&mut self, message: Message) {
        self.queue.push_back(message);
    }

    /// Sends a message without payload at once if nothing goes before it. `None`: it must wait its turn; otherwise whether all of
    /// it went.
    pub(super) fn send_now(&mut self, message: &Message) -> Result<Option<bool>> {
        if message.payload != Payload::None {
            return Ok(None);
        }
        let is_next = self.established && self.queue.is_empty() && self.unsent.is_none();
        if !is_next || self.stalled_until_ms != 0 || !self.may_go_on(message) {
            return Ok(None);
        }
        self.send_bare(message).map(Some)
    }

    /// The messages that were never sent, for another attempt.
    pub(super) fn take_queue(&mut self) -> VecDeque<Message> {
        std::mem::take(&mut self.queue)
    }

    /// Whether closing it now would lose nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.established && self.unanswered == 0 && !self.has_output() && self.wire.is_between_frames()
    }

    /// Whether all that can be done here is to read: nothing to send, no goodbye, no fault.
    pub(super) fn is_plain(&self) -> bool {
        self.established && !self.has_output() && !self.parting && self.stalled_until_ms == 0
    }

    /// Whether it plays dead just now.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled_until_ms != 0 && self.stalled_until_ms > time::now_ms()
    }

    /// Whether new questions may be asked on it.
    pub(super) fn may_request(&self) -> bool {
        !self.established || self.wire.may_request()
    }

    /// Whether what must be asked for others may be asked on it: we have not said goodbye.
    pub(super) fn may_relay(&self) -> bool {
        !self.established || self.wire.may_reply() && !self.said_goodbye
    }

    /// Whether something waits to be sent.
    pub(super) fn has_output(&self) -> bool {
        self.unsent.is_some() || self.wire.has_output() || (self.established && !self.queue.is_empty())
    }

    /// Whether a message waits here, or a part of one.
    pub(super) fn has_messages(&self) -> bool {
        !self.queue.is_empty() || self.unsent.is_some()
    }

    /// Bytes that wait to be sent, for the ledger.
    pub(super) fn queued_bytes(&self) -> u64 {
        let unsent = match self.unsent.as_deref() {
            Some(Unsent::Copied { bytes, .. }) => bytes.capacity() + std::mem::size_of::<Unsent>(),
            Some(Unsent::InPlace(_)) => std::mem::size_of::<Unsent>(),
            None => 0,
        };
        (unsent + self.queue.capacity() * std::mem::size_of::<Message>()) as u64
    }

    /// Says goodbye: nothing more will be asked here.
    pub(super) fn goodbye(&mut self) {
        // An error means that the link is failing or not yet open, and then it is dropped anyhow.
        let _ = self.wire.goodbye();
        self.parting = true;
        self.said_goodbye = true;
    }

    /// Whether both sides have said goodbye and nothing is left to send.
    pub(super) fn is_finished(&self) -> bool {
        self.wire.is_finished() && self.unsent.is_none()
    }

    /// When it must be looked at even if nothing comes.
    pub(super) fn wake_up_at(&self) -> Option<u64> {
        self.wire.wake_up_at()
    }

    /// Fails if the handshake has taken too long.
    pub(super) fn check_time(&mut self, now_ms: u64) -> Result<()> {
        self.wire.expired(now_ms).map_err(|error| self.broken(&error))
    }

    /// Sends as much as the socket takes. Returns whether everything went.
    pub(super) fn flush(
        &mut self,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<bool> {
        loop {
            if !self.flush_unsent(buffers, sink)? {
                return Ok(false);
            }
            if let Some(output) = self.wire.take_output() {
                if !self.send_bytes(&output)? {
                    return Ok(false);
                }
                continue;
            }
            if !self.established || self.queue.is_empty() || !self.send_front(buffers, sink, out)? {
                return Ok(self.unsent.is_none() && (!self.established || self.queue.is_empty()));
            }
        }
    }

    /// Reads what has come and hands it to the sink.
    pub(super) fn receive(
        &mut self,
        admission: &Admission<'_>,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<Received> {
        if self.initiated && !self.established {
            // A rank that was stopped may find an answer that came in time, from a peer that has given up since.
            self.check_time(time::now_ms())?;
        }
        let read = match self.read(buffers, sink) {
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
        if let Some(landed) = read.landed {
            self.land(landed, sink, out);
        }
        let mut at = 0;
        while at < read.staged {
            at += self.digest(admission, &buffers.scratch[at..read.staged], sink, out)?;
        }
        if self.wire.is_finished() {
            return Ok(Received::Finished);
        }
        Ok(Received::Bytes(read.bytes))
    }

    /// Reads from the socket: what is left of a payload into the memory where it belongs, if that may be; everything else into
    /// the scratch.
    fn read(&mut self, buffers: &mut Buffers, sink: &mut dyn Sink) -> Result<Read> {
        let left = self.wire.payload_left() as usize;
        if left >= LEAST_IN_PLACE_BYTES && self.incoming.flags & FLAG_UNSTEADY != 0 {
            if let Some(read) = self.read_in_place(left, &mut buffers.scratch, sink)? {
                return Ok(read);
            }
        }
        if left > buffers.scratch.len() {
            // The first large payload makes the buffer large; processes that exchange words keep a small one.
            buffers.scratch.resize(RECEIVE_BYTES, 0);
        }
        let bytes = socket::receive(self.fd.as_fd(), &mut buffers.scratch, false)?;
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
        let at = self.incoming.payload_bytes - left as u32;
        let place = sink.place(self.peer.unwrap_or_default(), &self.incoming, at, left);
        let Some(mut place) = place else { return Ok(None) };
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
        if left > 0 {
            let taken = left.min(bytes.len()).min(BLOCK_BYTES);
            let at = self.incoming.payload_bytes - left as u32;
            let from = self.peer.unwrap_or_default();
            sink.part(from, &self.incoming, at, &bytes[..taken]);
            let landed = self.wire.payload(&bytes[..taken]).map_err(|error| self.broken(&error))?;
            self.land(landed, sink, out);
            return Ok(taken);
        }
        let (taken, event) = self.wire.feed(admission.secret, bytes).map_err(|error| self.broken(&error))?;
        match event {
            Event::NeedMore => {}
            Event::Established(identity) => {
                (admission.admit)(identity)?;
                self.peer = Some(Rank(identity.rank));
                self.established = true;
            }
            Event::Frame(header) => {
                self.incoming = header;
                // A message may end in the middle, when its memory is gone: what begins anew is not torn by it.
                self.torn &= header.payload_bytes > 0 && header.d > 0;
                if header.payload_bytes == 0 {
                    self.complete(sink, out);
                }
            }
            Event::Goodbye => self.parting = true,
            Event::Closed => {}
        }
        Ok(taken)
    }

    fn complete(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        let from = self.peer.unwrap_or_default();
        let is_answer = match (self.torn, self.incoming.flags & FLAG_MORE != 0) {
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

    /// Sends the next frame of the first message. Returns whether to go on with the next one.
    fn send_front(&mut self, buffers: &mut Buffers, sink: &mut dyn Sink, out: &mut Outbox) -> Result<bool> {
        let Some(message) = self.queue.front().copied() else { return Ok(false) };
        if !self.may_go_on(&message) {
            return Ok(false);
        }
        if self.queue.len() > 1 && self.progress == 0 && payload_bytes(&message) <= SMALL_BYTES {
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
                self.send_copied(&message, source, total, buffers, sink, out)
            }
        }
    }

    /// Sends the small messages at the head of the queue with one system call. Returns whether all went.
    fn send_gathered(
        &mut self,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<bool> {
        let mut buffer = buffers.take();
        let mut end = 0;
        while let Some(message) = self.queue.front().copied() {
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
                Payload::Lazy(source, total) => {
                    let Some(crc) = fill(sink, source, 0, &mut buffer[start..next]) else {
                        self.leave_queue();
                        sink.withdrawn(self.peer.unwrap_or_default(), &message.header, out);
                        continue;
                    };
                    self.seal_piece(&message, total, total as usize, 0, crc)?
                }
            };
            buffer[end..start].copy_from_slice(&sealed);
            end = next;
            // A fault is done to one frame.
            if self.corrupt_next || self.drop_next {
                break;
            }
        }
        self.send_owned(buffer, 0, end, buffers)
    }

    /// Sends a piece of a payload from the memory where it lies; `None` if that cannot be. Returns whether all went.
    fn send_in_place(
        &mut self,
        message: &Message,
        source: Source,
        total: u64,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
    ) -> Result<Option<bool>> {
        let offset = self.progress;
        let piece = self.next_piece(total - offset, in_place::MOST_BYTES, in_place::MOST_BYTES);
        let Some(crc) = sink.lend(source, offset, piece).map(|lent| lent.checksum()) else {
            return Ok(None);
        };
        let sealed = self.seal_piece(message, total, piece, FLAG_UNSTEADY, crc)?;
        if std::mem::take(&mut self.drop_next) {
            return Ok(Some(true));
        }
        // A source of no kind is lent by nobody.
        let source = if std::mem::take(&mut buffers.tear_next) { Source::default() } else { source };
        let mut frame = InPlace::new(sealed, source, offset, piece);
        let sent = frame.send(self.fd.as_fd(), sink)?;
        if !sent {
            self.unsent = Some(Box::new(Unsent::InPlace(frame)));
        }
        Ok(Some(sent))
    }

    /// Sends a copy of a piece of a payload. Returns whether to go on.
    fn send_copied(
        &mut self,
        message: &Message,
        source: Source,
        total: u64,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<bool> {
        let piece = self.next_piece(total - self.progress, USUAL_PIECE_BYTES, PIECE_BYTES);
        let mut buffer = buffers.take();
        let (start, end) = (LEAD_BYTES - FRAME_HEADER_BYTES, LEAD_BYTES + piece);
        let place = &mut buffer[LEAD_BYTES..end];
        let Some(crc) = fill(sink, source, self.progress, place) else {
            buffers.give(buffer);
            self.leave_queue();
            sink.withdrawn(self.peer.unwrap_or_default(), &message.header, out);
            return Ok(true);
        };
        let sealed = self.seal_piece(message, total, piece, 0, crc)?;
        buffer[start..LEAD_BYTES].copy_from_slice(&sealed);
        self.send_owned(buffer, start, end, buffers)
    }

    /// The header of the next piece of the first message, which goes on behind that piece or leaves the queue.
    fn seal_piece(
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
    fn next_piece(&self, left: u64, usual: usize, most: usize) -> usize {
        // The last frame takes a small rest along.
        if left <= most as u64 {
            return left as usize;
        }
        piece_of_segments(usual, socket::segment_bytes(self.fd.as_fd()).unwrap_or(0) as usize)
    }

    /// Sends a message that is a header and nothing more.
    fn send_bare(&mut self, message: &Message) -> Result<bool> {
        let sealed = self.seal_bare(message)?;
        self.send_bytes(&sealed)
    }

    fn seal_bare(&mut self, message: &Message) -> Result<[u8; FRAME_HEADER_BYTES]> {
        let header = Header { payload_bytes: 0, payload_crc: 0, ..message.header };
        let sealed = self.seal(message, header)?;
        self.unanswered += message.expects_answer as u32;
        Ok(sealed)
    }

    /// Takes the first message from the queue.
    fn leave_queue(&mut self) {
        self.queue.pop_front();
        if self.queue.is_empty() && self.queue.capacity() > 8 {
            self.queue = VecDeque::new();
        }
        self.progress = 0;
    }

    /// A goodbye of the peer stops new questions of ours, not answers, not what others wait for, and not what has been begun.
    fn may_go_on(&self, message: &Message) -> bool {
        if message.path != Path::Route || self.progress > 0 {
            self.wire.may_reply()
        } else {
            self.wire.may_request()
        }
    }

    /// Takes back the questions that can no longer be asked on this link because the peer said goodbye.
    pub(super) fn take_unasked(&mut self) -> Vec<Message> {
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

    fn seal(&mut self, message: &Message, header: Header) -> Result<[u8; FRAME_HEADER_BYTES]> {
        let begun =
            message.path != Path::Route || header.d > 0 && matches!(message.payload, Payload::Lazy(..));
        let sealed = if begun { self.wire.seal_reply(header) } else { self.wire.seal(header) };
        sealed.map_err(|error| self.broken(&error))
    }

    /// Sends bytes, and keeps a copy of what the socket does not take. Returns whether all went.
    fn send_bytes(&mut self, bytes: &[u8]) -> Result<bool> {
        if std::mem::take(&mut self.drop_next) {
            return Ok(true);
        }
        let mut damaged;
        let bytes = if std::mem::take(&mut self.corrupt_next) {
            damaged = bytes.to_vec();
            let middle = damaged.len() / 2;
            damaged[middle] ^= 1;
            &damaged[..]
        } else {
            bytes
        };
        let sent = self.try_send(bytes)?;
        if sent == bytes.len() {
            return Ok(true);
        }
        let rest = bytes[sent..].to_vec();
        self.unsent = Some(Box::new(Unsent::Copied { start: 0, end: rest.len(), bytes: rest }));
        Ok(false)
    }

    /// Sends a large frame, and keeps it if the socket does not take all. Returns whether all went.
    fn send_owned(
        &mut self,
        mut bytes: Vec<u8>,
        start: usize,
        end: usize,
        buffers: &mut Buffers,
    ) -> Result<bool> {
        if std::mem::take(&mut self.drop_next) {
            buffers.give(bytes);
            return Ok(true);
        }
        if std::mem::take(&mut self.corrupt_next) {
            bytes[(start + end) / 2] ^= 1;
        }
        let start = start + self.try_send(&bytes[start..end])?;
        if start == end {
            buffers.give(bytes);
            return Ok(true);
        }
        self.unsent = Some(Box::new(Unsent::Copied { bytes, start, end }));
        Ok(false)
    }

    fn flush_unsent(&mut self, buffers: &mut Buffers, sink: &mut dyn Sink) -> Result<bool> {
        let Some(mut unsent) = self.unsent.take() else { return Ok(true) };
        let all = match &mut *unsent {
            Unsent::Copied { bytes, start, end } => {
                *start += self.try_send(&bytes[*start..*end])?;
                if start == end {
                    buffers.give(std::mem::take(bytes));
                }
                start == end
            }
            Unsent::InPlace(frame) => frame.send(self.fd.as_fd(), sink)?,
        };
        if !all {
            self.unsent = Some(unsent);
        }
        Ok(all)
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize> {
        match socket::send(self.fd.as_fd(), bytes) {
            Ok(sent) => Ok(sent),
            Err(error) if error.would_block() => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn broken(&self, error: &WireError) -> Error {
        match error {
            // Nobody vouches for what is said in a handshake, a refusal included: it may be of somebody in between, and is
            // worth another try. Only who has proved who it is can refuse us for good (see `admit`).
            WireError::Refused(refusal) => Error::Closed(refusal.to_string()),
            WireError::Timeout => Error::Timeout {
                what: "waiting for the handshake".into(),
                after_ms: crate::wire::HANDSHAKE_TIMEOUT_MS,
            },
            other => Error::Closed(other.to_string()),
        }
    }
}

fn payload_bytes(message: &Message) -> u64 {
    match message.payload {
        Payload::None => 0,
        Payload::Lazy(_, total) => total,
    }
}

/// Fills a payload from the sink and sums it up. `None` when the sink has it no more.
fn fill(sink: &mut dyn Sink, source: Source, offset: u64, place: &mut [u8]) -> Option<u32> {
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

    #[test]
    fn a_connected_peer_costs_at_most_half_a_kibibyte() {
        assert!(std::mem::size_of::<Link>() <= 512, "{}", std::mem::size_of::<Link>());
    }
}
