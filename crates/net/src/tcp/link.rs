//! One TCP connection: a socket, the protocol state of its wire, and what waits to be sent on it. What comes in on it is in
//! `link/receiving.rs`, messages become frames in `link/framing.rs`, headers that go
//! together in one frame in `link/bundling.rs`, and a stream that outlives its connection in
//! `link/stream.rs`.

mod bundling;
mod framing;
mod receiving;
mod stream;

use super::buffers::{is_frame, Buffers};
use super::in_place::InPlace;
use super::pacing::{Grant, Spacing, LARGE_BYTES};
use super::reach::Attempt;
use crate::auth::Identity;
use crate::contract::{Accounts, Message, Outbox, Payload, Sink, IN_PLACE_BYTES, PIECE_BYTES};
use crate::os::descriptor::{self, Readiness};
use crate::os::{socket, time};
use crate::route::Opening;
use crate::wire::{Connection, Header, WireError};
use crate::{Error, Rank, Result};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
pub(super) use stream::{Broken, Mending, Stream};

/// A rest of a payload that is shorter than this is not worth a place of its own.
const LEAST_IN_PLACE_BYTES: usize = 16 * 1024;

/// About so much payload has a frame of a large message; the last may have a little more.
const USUAL_PIECE_BYTES: usize = 128 * 1024;
const _: () = assert!(USUAL_PIECE_BYTES < PIECE_BYTES);
/// So much is sent on one connection before others have their turn: a millisecond or less, and enough that looking at the others
/// costs next to nothing.
pub(super) const BURST_BYTES: u32 = 1 << 20;

/// The payload of a frame when the budget has no room for more.
const LITTLE_BYTES: usize = 2 * 1024;

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
    /// What has to be done before the bytes of the socket are the peer's.
    pub(super) opening: Option<Box<Opening>>,
    /// What has come of the headers of a bundle, while some are missing.
    unbundled: Vec<u8>,
    /// What is kept of what was sent, if the link is to outlive its connection.
    pub(super) stream: Option<Box<Stream>>,
    /// That it is there for the stream of another link.
    pub(super) mending: Option<Box<Mending>>,
    /// When this link was last used, in ticks of its transport.
    pub(super) used: u64,
    /// [How often](Tcp::comings) something had come when the last short letters went, and how many went since.
    pub(super) letters: (u8, u8),
    /// How many of them went since something came from this peer.
    pub(super) unheard: u8,
    /// Until when it plays dead, for fault injection.
    pub(super) stalled_until_ms: u64,
    /// When the peer is asked whether our goodbye has come, while it does not answer that; 0 while none is said.
    knock_at_ms: u64,
    /// Since when something is not acknowledged, of a connection over several networks; 0 while nothing is.
    pub(super) owed_since_ms: u64,
    /// How calling the peer went so far.
    pub(super) attempt: Attempt,
    /// How far the first message of the queue has been sent.
    progress: u64,
    /// Bytes that the latest flush has sent.
    burst_bytes: u32,
    /// Bytes that are booked for what waits here.
    booked_bytes: u32,
    /// What the peer may have under way to us.
    pub(super) grant: Grant,
    /// How fast we send large payloads.
    pub(super) spacing: Spacing,
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
    /// Whether the other side has refused the handshake, whoever that is; or has said nothing yet, where somebody else may end it.
    pub(super) turned_away: bool,
    /// Whether the peer is on this machine: no network can come between us.
    pub(super) is_here: bool,
    /// Whether epoll tells us when the socket takes bytes again.
    pub(super) watching_writes: bool,
    /// Whether one of the two sides has said goodbye.
    pub(super) parting: bool,
    /// Whether we have.
    said_goodbye: bool,
    pub(super) corrupt_next: bool,
    pub(super) drop_next: bool,
    /// Whether a message has begun to come that is not complete; and whether a piece of it was torn.
    has_begun: bool,
    torn: bool,
    /// Whether the last frame had a large payload, as the next may have; and the kind of the last that had, and no place of its own.
    expects_large: bool,
    homeless: u8,
    /// Whether its transport knows that it was given messages which go out together.
    pub(super) fed: bool,
    /// Whether the payload of the first message is not there yet: the sink is asked for it again at a later poll.
    pub(super) waits_for_sink: bool,
    /// Whether the peer must acknowledge what is kept before more is sent.
    pub(super) waits_for_peer: bool,
    /// Whether the peer has opened another, which is enough for both.
    pub(super) surplus: bool,
}

const _: () = assert!(std::mem::size_of::<Link>() <= 512);

/// What came of receiving on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Received {
    /// There is no more to read now; this many bytes were read.
    Bytes(usize),
    /// Both sides have said goodbye.
    Finished,
}

impl Link {
    /// A link to a peer that we call, or of a caller that has not said who it is.
    pub(super) fn new(fd: OwnedFd, wire: Connection, peer: Option<Rank>, attempt: Attempt) -> Link {
        Link {
            wire,
            incoming: Header::default(),
            queue: VecDeque::new(),
            unsent: None,
            opening: None,
            unbundled: Vec::new(),
            stream: None,
            mending: None,
            used: 0,
            letters: (0, 0),
            unheard: 0,
            stalled_until_ms: 0,
            knock_at_ms: 0,
            owed_since_ms: 0,
            attempt,
            progress: 0,
            burst_bytes: 0,
            booked_bytes: 0,
            grant: Grant::default(),
            spacing: Spacing::default(),
            index: u32::MAX,
            fd,
            peer,
            unanswered: 0,
            established: false,
            initiated: peer.is_some(),
            turned_away: false,
            is_here: false,
            watching_writes: false,
            parting: false,
            said_goodbye: false,
            corrupt_next: false,
            drop_next: false,
            has_begun: false,
            torn: false,
            expects_large: false,
            homeless: 0,
            fed: false,
            waits_for_sink: false,
            waits_for_peer: false,
            surplus: false,
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
        if !self.may_send_now() || !self.may_go_on(message) {
            return Ok(None);
        }
        self.send_bare(message).map(Some)
    }

    /// Whether nothing goes before what is sent now.
    pub(super) fn may_send_now(&self) -> bool {
        let is_next = self.established && self.queue.is_empty() && !self.has_unsent();
        is_next && !self.is_broken() && !self.stream_is_full() && self.stalled_until_ms == 0
    }

    /// The messages that were never sent, for another attempt.
    pub(super) fn take_queue(&mut self) -> VecDeque<Message> {
        std::mem::take(&mut self.queue)
    }

    /// Whether saying goodbye now would lose nothing: letters that were sent are taken before it.
    pub(super) fn is_idle(&self) -> bool {
        let settled = self.established && self.unanswered == 0 && !self.has_output();
        settled && !self.is_broken() && self.wire.is_between_frames()
    }

    /// Whether the machine of the peer must show that it lives: something is under way to it, through a network.
    pub(super) fn owes_life(&self) -> bool {
        !self.is_here && self.established && !self.is_broken() && (!self.is_idle() || self.has_said_all())
    }

    /// Whether all that can be done here is to read: nothing to send, no goodbye, no fault.
    pub(super) fn is_plain(&self) -> bool {
        let has_nothing_to_do = self.established && !self.has_output() && !self.parting;
        has_nothing_to_do && self.stalled_until_ms == 0 && !self.is_broken()
    }

    /// Whether all that keeps messages from being sent is that others are to go with them.
    pub(super) fn takes_more(&self) -> bool {
        self.established && !self.has_unsent() && !self.parting && self.stalled_until_ms == 0
    }

    /// How many messages wait here.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
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
        let has_more = self.established && !self.queue.is_empty() || self.parting && self.owes_last_word();
        self.has_unsent() || self.wire.has_output() || has_more
    }

    /// Whether a message waits here, or a part of one.
    pub(super) fn has_messages(&self) -> bool {
        !self.queue.is_empty() || self.has_unsent()
    }

    /// Bytes that are booked for what waits here, beside frames, which the buffers have booked.
    pub(super) fn booked_bytes(&self) -> u64 {
        u64::from(self.booked_bytes)
    }

    /// Bytes that wait here now, beside frames.
    fn queued_bytes(&self) -> usize {
        let unsent = match self.unsent.as_deref() {
            Some(Unsent::Copied { bytes, .. }) if !is_frame(bytes) => {
                bytes.capacity() + std::mem::size_of::<Unsent>()
            }
            Some(_) => std::mem::size_of::<Unsent>(),
            None => 0,
        };
        let kept = self.stream.as_ref().map_or(0, |stream| stream.bytes());
        unsent + kept + self.unbundled.capacity() + self.queue.capacity() * std::mem::size_of::<Message>()
    }

    /// Books what waits here. It cannot be refused: questions wait because an operation was booked that asks them, answers
    /// because a peer waits for them, and neither may do that for more than a bounded number; behind what is left of a letter no other goes.
    pub(super) fn balance(&mut self, accounts: &dyn Accounts) {
        let (now, before) = (self.queued_bytes() as u32, self.booked_bytes);
        if now > before {
            accounts.force(u64::from(now - before));
        } else if now < before {
            accounts.unbook(u64::from(before - now));
        }
        self.booked_bytes = now;
    }

    /// The link is closed: what it held is given back. What waits to be sent stays, for another link.
    pub(super) fn close_books(&mut self, buffers: &mut Buffers) {
        buffers.unbook(u64::from(std::mem::take(&mut self.booked_bytes)));
        self.close_stream(buffers);
        match self.unsent.take().map(|unsent| *unsent) {
            Some(Unsent::Copied { bytes, .. }) if is_frame(&bytes) => buffers.give(bytes),
            // The last word of a handshake that was refused is still to be sent.
            other => self.unsent = other.map(Box::new),
        }
    }

    /// Says goodbye: nothing more will be asked here. A peer that has not answered within `patience_ms` is asked whether it has come.
    pub(super) fn goodbye(&mut self, patience_ms: u64) {
        if self.knock_at_ms == 0 {
            self.knock_at_ms = time::now_ms() + patience_ms;
        }
        // An error means that the link is failing or not yet open, and then it is dropped anyhow.
        let _ = self.wire.goodbye();
        self.parting = true;
        self.said_goodbye = true;
    }

    /// Whether both sides have said goodbye and nothing is left to send.
    pub(super) fn is_finished(&self) -> bool {
        self.wire.is_finished() && !self.has_unsent()
    }

    /// Whether both sides have said goodbye: nothing more goes on it.
    pub(super) fn has_said_all(&self) -> bool {
        self.wire.is_over()
    }

    /// Whether both sides have said goodbye, and its stream is kept until the peer has all.
    pub(super) fn is_over(&self) -> bool {
        self.stream.is_some() && self.wire.is_finished()
    }

    /// Whether a message has begun to come of which the rest has not.
    pub(super) fn is_within_message(&self) -> bool {
        self.has_begun
    }

    /// When it must be looked at even if nothing comes.
    pub(super) fn wake_up_at(&self) -> Option<u64> {
        let knock_at = Some(self.knock_at_ms).filter(|&at_ms| at_ms != 0 && !self.is_over());
        self.greeted_by().into_iter().chain(knock_at).min()
    }

    /// When its handshake must be done.
    pub(super) fn greeted_by(&self) -> Option<u64> {
        let opened_by = self.opening.as_ref().map(|opening| opening.until_ms());
        let greeted_by = self.wire.wake_up_at().or(self.unconfirmed_until());
        opened_by.into_iter().chain(greeted_by).min()
    }

    /// Gives the handshake until then.
    pub(super) fn set_deadline(&mut self, at_ms: u64) {
        self.wire.set_deadline(at_ms);
        if let Some(stream) = &mut self.stream {
            stream.confirm_by_ms = at_ms;
        }
        if let Some(mending) = &mut self.mending {
            mending.until_ms = at_ms;
        }
    }

    /// Who the caller says it is, until it has proven it.
    pub(super) fn claimed(&self) -> Option<Identity> {
        self.wire.claimed()
    }

    /// Sends the first record of the handshake, if the connection stands already.
    pub(super) fn say_hello(&mut self) -> Result<()> {
        // An error of the socket must be left for the next look, which judges it.
        let stands = |state: &Readiness| state.writable && !state.hung_up;
        if !descriptor::poll(&[(self.fd.as_fd(), true)], 0)?.iter().all(stands) {
            return Ok(());
        }
        if !self.is_open()? {
            return Ok(());
        }
        match self.wire.take_output() {
            Some(hello) => self.send_record(&hello).map(drop),
            None => Ok(()),
        }
    }

    /// Whether what is said here is heard by the peer; before that, does what must be done for it.
    fn is_open(&mut self) -> Result<bool> {
        let Some(opening) = self.opening.as_mut() else { return Ok(true) };
        let opened = opening.advance(self.fd.as_fd());
        // Whoever stands between us does not speak for the peer's machine, and may be another before long.
        self.turned_away |= opened.is_err();
        let opened = match opened {
            Err(Error::Refused(why)) => Err(Error::Closed(why)),
            opened => opened,
        };
        if opened == Ok(true) {
            self.opening = None;
        }
        opened
    }

    /// Whether the connection stands, and the peer has heard who calls.
    pub(super) fn has_said_hello(&self) -> bool {
        self.opening.is_none() && !self.wire.has_output()
    }

    /// Fails if the handshake has taken too long. Asks whether a goodbye has come that is not answered for so long.
    pub(super) fn check_time(&mut self, now_ms: u64, patience_ms: u64) -> Result<()> {
        self.wire.expired(now_ms).map_err(|error| self.broken(&error))?;
        self.check_confirmation(now_ms)?;
        if self.knock_at_ms == 0 || now_ms < self.knock_at_ms {
            return Ok(());
        }
        self.knock_at_ms = now_ms + patience_ms;
        // What waits shows the same when it comes.
        let is_due = self.said_goodbye && !self.wire.is_over() && !self.is_broken();
        if !is_due || self.has_unsent() || self.wire.has_output() || self.stream_is_full() {
            return Ok(());
        }
        self.knock()
    }

    /// Sends what the socket takes, up to a bound: the engine is held meanwhile, and others have to be served. Returns whether
    /// everything went.
    pub(super) fn flush(
        &mut self,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<bool> {
        self.burst_bytes = 0;
        self.waits_for_sink = false;
        self.waits_for_peer = false;
        if !self.is_open()? {
            return Ok(!self.opening.as_ref().is_some_and(|opening| opening.has_output()));
        }
        while self.burst_bytes < BURST_BYTES {
            if !self.flush_unsent(buffers, sink)? {
                return Ok(false);
            }
            let is_record = self.wire.has_record();
            if let Some(output) = self.wire.take_output() {
                let sent = if is_record { self.send_record(&output)? } else { self.send_bytes(&output)? };
                if !sent {
                    return Ok(false);
                }
                continue;
            }
            if let Some(sealed) = self.take_resumption() {
                let sealed = sealed.map_err(|error| self.broken(&error))?;
                return self.send_record(&sealed);
            }
            if self.parting && self.owes_last_word() {
                self.say_last_word()?;
                continue;
            }
            if self.established && !self.queue.is_empty() && self.stream_is_full() {
                self.waits_for_peer = true;
                return Ok(false);
            }
            if !self.established || self.queue.is_empty() || !self.send_front(buffers, sink, out)? {
                return Ok(!self.has_unsent() && (!self.established || self.queue.is_empty()));
            }
        }
        Ok(!self.has_output())
    }

    /// Whether what comes just now is a large payload.
    pub(super) fn takes_large_payload(&self) -> bool {
        self.incoming.payload_bytes as usize >= LARGE_BYTES
    }

    /// Bytes that the latest [`flush`](Self::flush) has sent.
    pub(super) fn burst_bytes(&self) -> usize {
        self.burst_bytes as usize
    }

    /// Whether the latest [`flush`](Self::flush) ended because others must have their turn.
    pub(super) fn has_used_its_turn(&self) -> bool {
        self.burst_bytes >= BURST_BYTES
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
        match self.send_on_stream(bytes) {
            Some(sent) => Ok(sent),
            None => self.send_record(bytes),
        }
    }

    /// Sends bytes that are not part of the stream, if it is kept: those of handshakes. Otherwise as [`send_bytes`](Self::send_bytes).
    fn send_record(&mut self, bytes: &[u8]) -> Result<bool> {
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
        if self.stream.is_some() {
            return Ok(self.send_buffer_on_stream(bytes, start, end, buffers));
        }
        let start = match self.try_send(&bytes[start..end]) {
            Ok(sent) => start + sent,
            Err(error) => {
                // A buffer that is lost stays booked.
                buffers.give(bytes);
                return Err(error);
            }
        };
        if start == end {
            buffers.give(bytes);
            return Ok(true);
        }
        self.unsent = Some(Box::new(Unsent::Copied { bytes, start, end }));
        Ok(false)
    }

    fn flush_unsent(&mut self, buffers: &mut Buffers, sink: &mut dyn Sink) -> Result<bool> {
        let Some(mut unsent) = self.unsent.take() else { return self.flush_stream(sink) };
        let all = match &mut *unsent {
            Unsent::Copied { bytes, start, end } => {
                match self.try_send(&bytes[*start..*end]) {
                    Ok(sent) => *start += sent,
                    Err(error) => {
                        buffers.give(std::mem::take(bytes));
                        return Err(error);
                    }
                }
                if start == end {
                    buffers.give(std::mem::take(bytes));
                }
                start == end
            }
            Unsent::InPlace(frame) => self.send_frame(frame, sink)?,
        };
        if !all {
            self.unsent = Some(unsent);
            return Ok(false);
        }
        self.flush_stream(sink)
    }

    fn send_frame(&mut self, frame: &mut InPlace, sink: &mut dyn Sink) -> Result<bool> {
        let before = frame.sent();
        let all = frame.send(self.fd.as_fd(), sink);
        self.burst_bytes = self.burst_bytes.saturating_add((frame.sent() - before) as u32);
        all
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize> {
        match socket::send(self.fd.as_fd(), bytes) {
            Ok(sent) => {
                self.burst_bytes = self.burst_bytes.saturating_add(sent as u32);
                Ok(sent)
            }
            Err(error) if error.would_block() => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn broken(&mut self, error: &WireError) -> Error {
        match error {
            // Nobody vouches for what is said in a handshake, a refusal included: it may be of somebody in between, and is
            // worth another try. Only who has proved who it is can refuse us for good (see `admit`).
            WireError::Refused(refusal) => {
                self.turned_away = true;
                Error::Closed(refusal.to_string())
            }
            WireError::Timeout => {
                let after_ms = time::now_ms().saturating_sub(self.attempt.since_ms());
                Error::Timeout { what: "waiting for the handshake".into(), after_ms }
            }
            other => Error::Closed(other.to_string()),
        }
    }
}

/// Whether a message goes out with others that wait.
pub(super) fn is_small(message: &Message) -> bool {
    payload_bytes(message) <= SMALL_BYTES
}

fn payload_bytes(message: &Message) -> u64 {
    match message.payload {
        Payload::None => 0,
        Payload::Lazy(_, total) => total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connected_peer_costs_at_most_half_a_kibibyte() {
        assert!(std::mem::size_of::<Link>() <= 512, "{}", std::mem::size_of::<Link>());
    }
}
