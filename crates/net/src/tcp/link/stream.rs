//! The stream of a link that outlives its connection: what was sent is kept until the peer has acknowledged it.
//!
//! Small frames are copied, and large payloads keep the buffer in which they were sent, or that the sink shares; what was sent in place is kept as
//! where it lies, and read once more if it must be sent again (it may be torn then, as ever). The link is established only when each side
//! knows that the other has the stream, too: until then it carries nothing, and can be given up like a call that failed.

use super::{Link, Unsent};
use crate::auth::Purpose;
use crate::os::time;
use crate::tcp::buffers::{is_frame, Buffers};
use crate::tcp::in_place::InPlace;
use crate::tcp::reach::Attempt;
use crate::wire::{Kept, Resumption, WireError};
use crate::{Error, Result};
use std::os::fd::AsFd;

/// How long the peer of a call that was mended has at least to show that it has the stream.
const CONFIRM_MS: u64 = 1_000;
/// The peer is told how much has come after so many bytes.
const ACKNOWLEDGE_BYTES: u64 = 64 * 1024;
/// Small frames are copied into chunks of so many bytes.
const CHUNK_BYTES: usize = 4 * 1024;
/// The most buffers of large frames that are kept, and bytes of small ones: then the stream waits for the peer.
const MOST_FRAMES: u32 = 16;
const MOST_COPIED_BYTES: usize = 512 * 1024;
/// A buffer in which there is less is not kept for it.
const LEAST_KEPT_BYTES: usize = 16 * 1024;
/// When a stream is full its peer has more than it needs to acknowledge, or will have: otherwise both would wait for ever. (At least every
/// second chunk of copies is half full.)
const _: () = assert!(LEAST_KEPT_BYTES as u64 * MOST_FRAMES as u64 > 2 * ACKNOWLEDGE_BYTES);
const _: () = assert!(MOST_COPIED_BYTES as u64 / 4 >= 2 * ACKNOWLEDGE_BYTES);
/// The most frames that are kept altogether: those in place take no memory but their own.
const MOST_CHUNKS: usize = 4096;

/// A stream, and how its connections come and go.
pub(in crate::tcp) struct Stream {
    kept: Kept<Unsent>,
    /// How both sides name it.
    pub(in crate::tcp) session: u64,
    /// Until when the peer must show that it has the stream, before the link is established.
    pub(in crate::tcp) confirm_by_ms: u64,
    /// Since when its connection is broken, and how calling again goes.
    pub(in crate::tcp) broken: Option<Broken>,
    /// The same of a connection that was mended since, until something has come through it: otherwise breaking and mending could go on
    /// for ever.
    pub(in crate::tcp) trouble: Option<Broken>,
    /// How many bytes had come when it was last mended, here and to the peer.
    received_before: u64,
    acknowledged_before: u64,
    /// Whether a message has come since the peer was told how much has.
    is_news: bool,
    /// Whether the peer was told that nothing more comes.
    is_shut: bool,
    /// Whether the peer was told how much has come in all, when both had said goodbye.
    has_told_last: bool,
    /// Where the acknowledgements at the end of the stream begin, and where they end: nobody acknowledges those.
    tail: (u64, u64),
    /// Buffers of large frames that are kept, and payloads that are shared; bytes of copies, and of what is shared.
    frames: u32,
    copied_bytes: usize,
    shared_bytes: usize,
}

/// A connection that broke.
#[derive(Clone, Copy)]
pub(in crate::tcp) struct Broken {
    pub(in crate::tcp) since_ms: u64,
    /// The same of the first one since something came through.
    pub(in crate::tcp) first_ms: u64,
    /// When it is called next; nobody calls while a call is under way.
    pub(in crate::tcp) call_at_ms: Option<u64>,
    pub(in crate::tcp) attempt: Attempt,
}

/// A link that is there to carry the stream of another one on.
#[derive(Default)]
pub(in crate::tcp) struct Mending {
    /// Which link, if we are calling, and its stream.
    pub(in crate::tcp) link: u32,
    pub(in crate::tcp) session: u64,
    /// What we say of it, until it is said.
    pub(in crate::tcp) ours: Option<Resumption>,
    /// What the peer has said of it.
    pub(in crate::tcp) theirs: Option<Resumption>,
    /// Until when it must have, once the handshake is done.
    pub(in crate::tcp) until_ms: u64,
}

impl Stream {
    fn new(session: u64, confirm_by_ms: u64) -> Stream {
        let kept = Kept::default();
        Stream {
            kept,
            session,
            confirm_by_ms,
            broken: None,
            trouble: None,
            received_before: 0,
            acknowledged_before: 0,
            is_news: false,
            is_shut: false,
            has_told_last: false,
            tail: (0, 0),
            frames: 0,
            copied_bytes: 0,
            shared_bytes: 0,
        }
    }

    /// Its connection broke, for the first time since something came through it or once more.
    pub(in crate::tcp) fn break_off(&mut self, fresh: Broken) {
        let again =
            |trouble: Broken| Broken { first_ms: trouble.first_ms, attempt: trouble.attempt, ..fresh };
        self.broken.get_or_insert(self.trouble.map_or(fresh, again));
    }

    /// Whether something has come since it was last mended, as far as is known.
    fn has_come(&self) -> bool {
        self.kept.received() > self.received_before || self.kept.acknowledged() > self.acknowledged_before
    }

    /// Whether it breaks and is mended again and again, for longer than this, and nothing comes through. That can only be said when it was
    /// mended: then the peer has told what it has.
    pub(in crate::tcp) fn is_vain(&self, patience_ms: u64, now_ms: u64) -> bool {
        let is_again = |trouble: &Broken| trouble.first_ms < trouble.since_ms;
        self.trouble.filter(is_again).is_some_and(|trouble| now_ms >= trouble.first_ms + patience_ms)
    }

    /// Whether what the peer says that it has was said before something that it has said since.
    pub(in crate::tcp) fn is_outdated(&self, theirs: Resumption) -> bool {
        theirs.received < self.kept.acknowledged()
    }

    /// What has come, and what we know, for the peer.
    pub(in crate::tcp) fn resumption(&self) -> Resumption {
        Resumption { session: self.session, received: self.kept.received(), known: true }
    }

    /// Whether so much is kept that the peer must acknowledge some of it first.
    fn is_full(&self) -> bool {
        self.frames >= MOST_FRAMES
            || self.copied_bytes >= MOST_COPIED_BYTES
            || self.kept.chunks() >= MOST_CHUNKS
    }

    /// Bytes that are kept here, beside buffers of frames.
    pub(super) fn bytes(&self) -> usize {
        let copies = self.copied_bytes + self.shared_bytes;
        copies + std::mem::size_of::<Stream>() + self.kept.chunks() * std::mem::size_of::<Unsent>()
    }

    /// Whether the peer has all that was said to it, as far as that is ever acknowledged.
    fn is_settled(&self) -> bool {
        let (start, end) = self.tail;
        self.kept.acknowledged() >= if self.kept.end() == end { start } else { self.kept.end() }
    }

    /// Keeps a copy of what the peer need not acknowledge, and may take for the end: it belongs to the tail.
    fn copy_unacknowledged(&mut self, bytes: &[u8]) {
        let start = if self.tail.1 == self.kept.end() { self.tail.0 } else { self.kept.end() };
        self.copy(bytes, 0);
        self.tail = (start, self.kept.end());
    }

    /// Keeps a copy of bytes of which the socket has taken so many.
    fn copy(&mut self, bytes: &[u8], sent: usize) {
        let room = |chunk: &Unsent| match chunk {
            Unsent::Copied { bytes, .. } if !is_frame(bytes) => bytes.capacity() - bytes.len(),
            _ => 0,
        };
        match self.kept.last() {
            Some(last) if room(last) >= bytes.len() => {
                if let Unsent::Copied { bytes: chunk, end, .. } = last {
                    chunk.extend_from_slice(bytes);
                    *end = chunk.len();
                }
                self.kept.grow(bytes.len() as u64);
            }
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES.max(bytes.len()));
                chunk.extend_from_slice(bytes);
                self.copied_bytes += chunk.capacity();
                self.kept
                    .push(Unsent::Copied { end: chunk.len(), bytes: chunk, start: 0 }, bytes.len() as u64);
            }
        }
        self.kept.sent(sent as u64);
    }

    /// Keeps the buffer of a frame of which the socket has taken so many bytes.
    fn keep(&mut self, bytes: Vec<u8>, start: usize, end: usize, sent: usize) {
        self.frames += 1;
        self.kept.push(Unsent::Copied { bytes, start, end }, (end - start) as u64);
        self.kept.sent(sent as u64);
    }

    /// Gives back the memory of what the peer has.
    fn release(&mut self, buffers: &mut Buffers) {
        while let Some(chunk) = self.kept.release() {
            self.let_go(chunk, buffers);
        }
    }

    fn let_go(&mut self, chunk: Unsent, buffers: &mut Buffers) {
        match chunk {
            Unsent::Copied { bytes, .. } if is_frame(&bytes) => {
                self.frames -= 1;
                buffers.give(bytes);
            }
            Unsent::Copied { bytes, .. } => self.copied_bytes -= bytes.capacity(),
            Unsent::InPlace(frame) if frame.is_shared() => {
                self.frames -= 1;
                self.shared_bytes -= frame.bytes();
            }
            Unsent::InPlace(_) => {}
        }
    }
}

impl Link {
    /// Whether its connection is broken, and may be mended.
    pub(in crate::tcp) fn is_broken(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.broken.is_some())
    }

    /// Whether a caller has not shown yet that it has the stream.
    pub(in crate::tcp) fn is_unconfirmed(&self) -> bool {
        !self.initiated && !self.established && self.stream.is_some()
    }

    /// Whether its stream may go on over another connection.
    pub(in crate::tcp) fn can_be_mended(&self) -> bool {
        // A caller may have taken it for established before it broke.
        (self.established || !self.initiated) && self.stream.is_some() && self.wire.error().is_none()
    }

    /// Whether both have said goodbye, and the peer has not been told that all has come.
    pub(super) fn owes_last_word(&self) -> bool {
        let stream = self.stream.as_ref().filter(|stream| !stream.has_told_last);
        stream.is_some() && self.wire.is_finished()
    }

    /// Whether both have said goodbye, and the peer has all that was said to it: an end of the connection is the end, whoever made it.
    pub(in crate::tcp) fn has_parted(&self) -> bool {
        self.wire.is_finished() && self.stream.as_ref().is_none_or(|stream| stream.is_settled())
    }

    /// Both have said goodbye. The peer may not have ours yet: it is told that nothing more comes, and the stream is kept until it has
    /// ended the connection, too. A link that keeps nothing stays as well: the peer may not have read what was sent before our goodbye,
    /// and neither a knock may destroy that, nor what goes on another connection overtake it. False if not both have said it.
    pub(in crate::tcp) fn lingers(&mut self) -> bool {
        if self.stream.is_none() && self.wire.is_finished() {
            if !self.has_unsent() {
                let _ = crate::os::socket::end_output(self.fd.as_fd());
            }
            return true;
        }
        let has_unsent = self.has_unsent() || self.owes_last_word();
        let Some(stream) = self.stream.as_mut().filter(|_| self.wire.is_finished()) else { return false };
        if !has_unsent && stream.broken.is_none() && !std::mem::replace(&mut stream.is_shut, true) {
            let _ = crate::os::socket::end_output(self.fd.as_fd());
        }
        true
    }

    /// The handshake is done: a stream that is kept begins, or another one goes on here. Whether the link is established already.
    pub(super) fn begin_stream(&mut self, patience_ms: u64) -> Result<bool> {
        match self.wire.purpose() {
            Purpose::KeptData => {
                let session = self.wire.session().unwrap_or_default();
                let confirm_by_ms = time::now_ms() + patience_ms;
                self.stream = Some(Box::new(Stream::new(session, confirm_by_ms)));
                if !self.initiated {
                    self.acknowledge()?;
                }
                Ok(false)
            }
            Purpose::MendData => {
                let until_ms = time::now_ms() + patience_ms;
                self.mending.get_or_insert_default().until_ms = until_ms;
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    /// So many bytes of ours have come to the peer, and it has the stream.
    pub(super) fn acknowledged(&mut self, bytes: u64) -> Result<()> {
        let right = self.stream.as_mut().is_some_and(|stream| stream.kept.acknowledge(bytes));
        if !right {
            let error = self.wire.refuse("an acknowledgement of what was not sent");
            return Err(self.broken(&error));
        }
        if !self.established {
            self.established = true;
            if self.initiated {
                self.acknowledge()?;
            }
        }
        Ok(())
    }

    /// A user's frame has come: not before both sides know that they have the stream.
    pub(super) fn expects_frames(&mut self) -> Result<()> {
        if self.established {
            if let Some(stream) = &mut self.stream {
                stream.is_news = true;
            }
            return Ok(());
        }
        let error = self.wire.refuse("a frame of a stream that has not begun");
        Err(self.broken(&error))
    }

    /// The peer says how far a stream has come that is to go on here.
    pub(super) fn resumed(&mut self, resumption: Resumption) -> Result<()> {
        match &mut self.mending {
            Some(mending) if mending.theirs.is_none() => {
                mending.theirs = Some(resumption);
                Ok(())
            }
            _ => {
                let error = self.wire.refuse("a resumption of nothing");
                Err(self.broken(&error))
            }
        }
    }

    /// Tells the peer how much has come.
    pub(super) fn acknowledge(&mut self) -> Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let Ok(sealed) = self.wire.acknowledge(stream.kept.received()) else { return Ok(()) };
        stream.kept.tell();
        stream.is_news = false;
        stream.copy_unacknowledged(&sealed);
        Ok(())
    }

    /// Both have said goodbye, and nothing but acknowledgements comes any more: the peer is told that all has come.
    pub(super) fn say_last_word(&mut self) -> Result<()> {
        if let Some(stream) = &mut self.stream {
            stream.has_told_last = true;
        }
        self.acknowledge()
    }

    /// Whether messages have come of which the peer does not know yet that they have.
    pub(in crate::tcp) fn has_news(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_news && stream.broken.is_none())
    }

    /// The link is quiet: the peer is told what has come, so that it need not keep it any longer.
    pub(in crate::tcp) fn tell_news(&mut self) {
        if self.has_news() && !self.wire.is_finished() {
            let _ = self.acknowledge();
        }
    }

    /// Gives back what the peer has.
    pub(in crate::tcp) fn release_kept(&mut self, buffers: &mut Buffers) {
        if let Some(stream) = &mut self.stream {
            stream.release(buffers);
        }
    }

    /// Asks the peer whether our goodbye has come.
    pub(super) fn knock(&mut self) -> Result<()> {
        let knock = self.wire.knock().map_err(|error| self.broken(&error))?;
        match &mut self.stream {
            Some(stream) => stream.copy_unacknowledged(&knock),
            None => drop(self.send_bytes(&knock)?),
        }
        Ok(())
    }

    /// After bytes were taken: tells the peer if it is time, and gives back what it has told us that it has.
    pub(super) fn keep_books_of_stream(&mut self, buffers: &mut Buffers) -> Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.release(buffers);
        if self.established && stream.kept.untold() >= ACKNOWLEDGE_BYTES && !self.wire.is_finished() {
            self.acknowledge()?;
        }
        Ok(())
    }

    /// So many bytes of the stream have come.
    #[inline]
    pub(super) fn took(&mut self, bytes: usize) {
        if let Some(stream) = &mut self.stream {
            stream.kept.took(bytes as u64);
        }
    }

    /// Whether bytes of the stream wait for the socket.
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent.is_some() || self.stream.as_ref().is_some_and(|stream| stream.kept.has_unsent())
    }

    /// Whether so much is kept that nothing more may be sent before some of it is acknowledged.
    pub(super) fn stream_is_full(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_full())
    }

    /// Sends bytes on the stream, and keeps them. `None` if this link keeps nothing; otherwise whether all went.
    pub(super) fn send_on_stream(&mut self, bytes: &[u8]) -> Option<bool> {
        let waits = self.stream.as_ref()?.kept.has_unsent();
        // Once it is kept it is as good as sent. If the connection is broken, that is found by whoever reads, or sends the rest.
        let sent = if waits { 0 } else { self.try_send(bytes).unwrap_or(0) };
        if let Some(stream) = &mut self.stream {
            stream.copy(bytes, sent);
        }
        Some(sent == bytes.len())
    }

    /// The same for the buffer of a frame, which is kept as it is unless there is little in it: so many buffers are kept at most that
    /// they must be worth an acknowledgement.
    pub(super) fn send_buffer_on_stream(
        &mut self,
        bytes: Vec<u8>,
        start: usize,
        end: usize,
        buffers: &mut Buffers,
    ) -> bool {
        if end - start < LEAST_KEPT_BYTES {
            let sent = self.send_on_stream(&bytes[start..end]);
            buffers.give(bytes);
            return sent == Some(true);
        }
        let sent = self.try_send(&bytes[start..end]).unwrap_or(0);
        if let Some(stream) = &mut self.stream {
            stream.keep(bytes, start, end, sent);
        }
        sent == end - start
    }

    /// Keeps a frame in place of which the socket has taken some.
    pub(super) fn keep_in_place(&mut self, frame: InPlace) {
        if let Some(stream) = &mut self.stream {
            let (bytes, sent) = (frame.bytes(), frame.sent());
            if frame.is_shared() {
                stream.frames += 1;
                stream.shared_bytes += bytes;
            }
            stream.kept.push(Unsent::InPlace(frame), bytes as u64);
            stream.kept.sent(sent as u64);
        }
    }

    /// Sends what is kept and has not been sent on this connection. Returns whether all went.
    pub(super) fn flush_stream(&mut self, sink: &mut dyn crate::contract::Sink) -> Result<bool> {
        let Some(mut stream) = self.stream.take() else { return Ok(true) };
        let sent = self.flush_kept(&mut stream.kept, sink);
        self.stream = Some(stream);
        sent
    }

    fn flush_kept(&mut self, kept: &mut Kept<Unsent>, sink: &mut dyn crate::contract::Sink) -> Result<bool> {
        while let Some((chunk, from)) = kept.unsent() {
            let (sent, all) = match chunk {
                Unsent::Copied { bytes, start, end } => {
                    let left = &bytes[*start + from as usize..*end];
                    let sent = self.try_send(left)?;
                    (sent as u64, Ok(sent == left.len()))
                }
                Unsent::InPlace(frame) => {
                    frame.rewind(from as usize);
                    let all = self.send_frame(frame, sink);
                    (frame.sent() as u64 - from, all)
                }
            };
            // What went before an error went.
            kept.sent(sent);
            if !all? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The stream goes on over this socket, from where the peer says. False if that cannot be.
    #[must_use]
    pub(in crate::tcp) fn go_on(&mut self, socket: std::os::fd::OwnedFd, theirs: Resumption) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        if !stream.kept.rewind(theirs.received) {
            return false;
        }
        let broken = stream.broken.take();
        // On an idle link nothing has failed to come.
        stream.trouble = broken.filter(|_| !stream.has_come() && stream.kept.has_unsent());
        stream.received_before = stream.kept.received();
        stream.acknowledged_before = stream.kept.acknowledged();
        stream.confirm_by_ms = stream.confirm_by_ms.max(time::now_ms() + CONFIRM_MS);
        stream.is_shut = false;
        self.fd = socket;
        true
    }

    /// Gives all that is kept back: the link is closed.
    pub(super) fn close_stream(&mut self, buffers: &mut Buffers) {
        let Some(mut stream) = self.stream.take() else { return };
        let chunks: Vec<Unsent> = stream.kept.clear().collect();
        chunks.into_iter().for_each(|chunk| stream.let_go(chunk, buffers));
    }

    /// The frame that says which stream is to go on, if it has not been said.
    pub(super) fn take_resumption(&mut self) -> Option<std::result::Result<[u8; 72], WireError>> {
        self.wire.peer()?;
        let ours = self.mending.as_mut()?.ours.take()?;
        Some(self.wire.resume(ours))
    }

    /// Why a link is given up whose stream was not confirmed in time.
    pub(super) fn check_confirmation(&self, now_ms: u64) -> Result<()> {
        match self.unconfirmed_until() {
            Some(at_ms) if now_ms >= at_ms => {
                let after_ms = now_ms.saturating_sub(self.attempt.since_ms());
                Err(Error::Timeout { what: "waiting for the peer to begin the stream".into(), after_ms })
            }
            _ => Ok(()),
        }
    }

    /// Until when the peer must show that it has the stream, if it has not.
    pub(super) fn unconfirmed_until(&self) -> Option<u64> {
        let carrier =
            self.mending.as_ref().filter(|_| self.wire.peer().is_some()).map(|mending| mending.until_ms);
        let stream = self.stream.as_ref().filter(|stream| !self.established && stream.broken.is_none());
        stream.map(|stream| stream.confirm_by_ms).or(carrier)
    }
}
