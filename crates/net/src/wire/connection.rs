//! One connection, as a value: fed with bytes and times, drained for bytes and a wake-up time.
//!
//! It does the handshake, numbers and authenticates frames, checks payloads, and says goodbye. It allocates nothing
//! and never sees a payload it need not see: the user of the wire receives payloads wherever it likes and reports
//! the bytes. `docs/wire.md` has the state diagram.

mod keeping;

use super::bundle::{self, HASH_BYTES};
use super::frame::{
    self, Header, FIRST_USER_KIND, FLAG_UNSTEADY, FRAME_HEADER_BYTES, KIND_ACKNOWLEDGE, KIND_BUNDLE,
    KIND_GOODBYE, KIND_KNOCK, KIND_RESUME,
};
use super::WireError;
use crate::auth::{self, FrameKey, Hello, Identity, JobId, Purpose, Record, Refusal, Secret, Transcript};
pub use keeping::Resumption;
use std::fmt;

/// How long a handshake may take for the side that connects.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 2_000;
/// How long it may take for the side that was connected to, which began to count later. It must not give up while the
/// other side still may go on: what that sends behind its PROOF would be lost, and nobody could tell.
pub const ANSWER_TIMEOUT_MS: u64 = 3_000;
const _: () = assert!(ANSWER_TIMEOUT_MS > HANDSHAKE_TIMEOUT_MS);

/// The longest thing that is ever kept: a CHALLENGE record.
const BUFFER_BYTES: usize = auth::CHALLENGE_BYTES;
const _: () = assert!(auth::HELLO_BYTES <= BUFFER_BYTES && auth::PROOF_BYTES <= BUFFER_BYTES);
const _: () = assert!(FRAME_HEADER_BYTES <= BUFFER_BYTES && HASH_BYTES <= BUFFER_BYTES);

const UNASKED_KNOCK: &str = "a knock without a goodbye before it";

/// All that a connected peer costs the wire. `docs/memory.md` counts on it.
const _: () = assert!(std::mem::size_of::<Connection>() <= 200);

/// The protocol state of one connection.
///
/// Bytes must be sent in the order in which they were taken from [`take_output`](Self::take_output),
/// [`seal`](Self::seal) and [`seal_reply`](Self::seal_reply); a payload goes right behind its header.
///
/// An error from [`feed`](Self::feed), [`payload`](Self::payload), [`expired`](Self::expired) or
/// [`end_of_input`](Self::end_of_input) is final, [`WireError::Misuse`] excepted: every later call returns it again.
/// An error from a seal leaves the connection as it was.
///
/// ```
/// use kumiki_net::auth::{Identity, JobId, Purpose, Secret};
/// use kumiki_net::wire::{Connection, Event, Header, Landed};
///
/// let (job, secret) = (JobId(1), Secret::from_bytes([7; 32]));
/// let (left, right) = (Identity { rank: 0, incarnation: 0 }, Identity { rank: 1, incarnation: 0 });
/// // Nonces come from the system's random source; times from a monotonic clock.
/// let mut initiator = Connection::initiate(job, &secret, left, right.rank, Purpose::Data, [1; 32], 0);
/// let mut responder = Connection::accept(job, right, Purpose::Data, [2; 32], 0);
///
/// let hello = initiator.take_output().unwrap();
/// assert_eq!(responder.feed(&secret, &hello)?, (hello.len(), Event::NeedMore));
/// let challenge = responder.take_output().unwrap();
/// let (_, event) = initiator.feed(&secret, &challenge)?;
/// assert_eq!(event, Event::Established(right));
/// let proof = initiator.take_output().unwrap();
/// let (_, event) = responder.feed(&secret, &proof)?;
/// assert_eq!(event, Event::Established(left));
///
/// let header = Header { kind: 16, op: 1, ..Header::default() }.with_payload(b"data");
/// let sealed = initiator.seal(header)?;
/// assert_eq!(responder.feed(&secret, &sealed)?, (sealed.len(), Event::Frame(header)));
/// assert_eq!(responder.payload_left(), 4);
/// assert_eq!(responder.payload(b"da")?, Landed::Partly);
/// assert_eq!(responder.payload(b"ta")?, Landed::Wholly);
/// # Ok::<(), kumiki_net::wire::WireError>(())
/// ```
pub struct Connection {
    me: Identity,
    /// Whom the handshake must prove; the incarnation is known once it has.
    peer: Identity,
    phase: Phase,
    /// Either what has come so far of a record or header, or a handshake record that waits to be sent. Never both:
    /// the handshake is half duplex, so one buffer is enough. While the headers of a bundle come: their hash.
    buffer: [u8; BUFFER_BYTES],
    filled_bytes: u8,
    buffer_is_output: bool,
    /// What it is for: as we said, or, once its HELLO has come, as the caller said.
    purpose: Purpose,
}

enum Phase {
    /// Initiator: HELLO is made, CHALLENGE must come.
    AwaitChallenge { hello_digest: [u8; 32], deadline_ms: u64 },
    /// Responder: HELLO must come.
    AwaitHello { job: JobId, nonce: [u8; auth::NONCE_BYTES], deadline_ms: u64 },
    /// Responder: CHALLENGE is made, PROOF must come.
    AwaitProof { transcript: Transcript, deadline_ms: u64 },
    /// Both sides are proven; frames go both ways.
    Open(Open),
    /// Poisoned. `farewell` is a REFUSED record that is still to be sent.
    Failed { error: WireError, farewell: Option<[u8; auth::REFUSED_BYTES]> },
}

struct Open {
    send_key: FrameKey,
    receive_key: FrameKey,
    send_sequence: u64,
    receive_sequence: u64,
    payload_left_bytes: u32,
    payload_crc_so_far: u32,
    payload_crc_expected: u32,
    payload_is: Sort,
    my_goodbye: MyGoodbye,
    peer_said_goodbye: bool,
    /// Whether ours is the key of the initiator.
    is_forward: bool,
}

/// What comes behind a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Steady,
    Unsteady,
    Bundle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MyGoodbye {
    Unsaid,
    /// It will be the next frame.
    Wanted,
    Sent,
}

/// How far the payload of a frame is, after [`Connection::payload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// More must come.
    Partly,
    /// All of it came and its checksum is right.
    Wholly,
    /// All of it came, and it is not what the checksum was taken of: it changed while it was being sent, as the header
    /// said that it might ([`FLAG_UNSTEADY`]), or on the way. It must be asked for again.
    Torn,
}

/// What [`Connection::feed`] found in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All bytes were taken; more are needed before anything happens.
    NeedMore,
    /// The handshake is done and this is the proven peer. Send what [`Connection::take_output`] gives; then frames
    /// may go out.
    Established(Identity),
    /// An authentic header. Its payload follows, if it has one: see [`Connection::payload`].
    Frame(Header),
    /// The header of a bundle. Its headers follow: see [`Connection::bundle`].
    Bundle,
    /// The peer makes no more requests. Make no new ones, go on until your outstanding ones are answered, then call
    /// [`Connection::goodbye`].
    Goodbye,
    /// Both sides have said goodbye. Send what [`Connection::take_output`] still gives, then close.
    Closed,
    /// So many bytes have come of what was sent on this stream since the handshake.
    Acknowledged(u64),
    /// The stream of another connection is to go on, or goes on, behind this frame.
    Resume(Resumption),
    /// The peer still waits for our goodbye, and nothing of what it has sent is missing.
    Knock,
}

/// Bytes that must be sent. Dereferences to a slice.
#[derive(Clone, Copy)]
pub struct Output {
    bytes: [u8; BUFFER_BYTES],
    length: u8,
}

impl Output {
    fn new(bytes: &[u8]) -> Self {
        let mut output = Self { bytes: [0; BUFFER_BYTES], length: bytes.len() as u8 };
        output.bytes[..bytes.len()].copy_from_slice(bytes);
        output
    }
}

impl std::ops::Deref for Output {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Output({} bytes)", self.length)
    }
}

impl Connection {
    /// The side that connects. `peer` is the rank (or node index) that must answer.
    ///
    /// `nonce` must be fresh from the system's random source, `now_ms` from a monotonic clock.
    pub fn initiate(
        job: JobId,
        secret: &Secret,
        me: Identity,
        peer: u32,
        purpose: Purpose,
        nonce: [u8; auth::NONCE_BYTES],
        now_ms: u64,
    ) -> Self {
        let hello = auth::hello(&Hello { purpose, from: me, to: peer }, job, &nonce, secret);
        let phase = Phase::AwaitChallenge {
            hello_digest: auth::hello_digest(&hello),
            deadline_ms: now_ms.saturating_add(HANDSHAKE_TIMEOUT_MS),
        };
        let mut connection = Self::new(me, Identity { rank: peer, incarnation: 0 }, phase, purpose);
        connection.put_output(&hello);
        connection
    }

    /// The side that was connected to. Feed it everything the initiator sent, its HELLO included. Of the purposes of ranks and of
    /// those of agents, the initiator may have any that is of the same sort as `purpose`; [`purpose`](Self::purpose) tells which.
    ///
    /// `nonce` must be fresh from the system's random source, `now_ms` from a monotonic clock.
    pub fn accept(
        job: JobId,
        me: Identity,
        purpose: Purpose,
        nonce: [u8; auth::NONCE_BYTES],
        now_ms: u64,
    ) -> Self {
        let deadline_ms = now_ms.saturating_add(ANSWER_TIMEOUT_MS);
        Self::new(me, Identity::default(), Phase::AwaitHello { job, nonce, deadline_ms }, purpose)
    }

    /// What the connection is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Bytes that must be sent now, before any further frame: a handshake record or a goodbye.
    ///
    /// Call it after every [`feed`](Self::feed), failed ones included, and after [`goodbye`](Self::goodbye), until
    /// it gives `None`. A failed handshake gives the peer a last REFUSED record.
    pub fn take_output(&mut self) -> Option<Output> {
        if self.buffer_is_output {
            let output = Output::new(&self.buffer[..usize::from(self.filled_bytes)]);
            self.clear_buffer();
            return Some(output);
        }
        match &mut self.phase {
            Phase::Failed { farewell, .. } => farewell.take().map(|record| Output::new(&record)),
            Phase::Open(open) if open.my_goodbye == MyGoodbye::Wanted => {
                let goodbye = open.seal(&Header { kind: KIND_GOODBYE, ..Header::default() }).ok()?;
                open.my_goodbye = MyGoodbye::Sent;
                Some(Output::new(&goodbye))
            }
            _ => None,
        }
    }

    /// Whether [`take_output`](Self::take_output) has something to give.
    pub fn has_output(&self) -> bool {
        self.buffer_is_output
            || match &self.phase {
                Phase::Failed { farewell, .. } => farewell.is_some(),
                Phase::Open(open) => open.my_goodbye == MyGoodbye::Wanted,
                _ => false,
            }
    }

    /// Takes bytes that came from the peer: how many were taken, and what they were.
    ///
    /// Feed the rest again until the event is [`Event::NeedMore`], which takes all. What is taken need not be kept.
    ///
    /// # Errors
    /// [`WireError::Misuse`] while a payload is outstanding, without effect. Every other error is final.
    pub fn feed(&mut self, secret: &Secret, bytes: &[u8]) -> Result<(usize, Event), WireError> {
        match &self.phase {
            Phase::Failed { error, .. } => return Err(*error),
            Phase::Open(open) if open.payload_left_bytes > 0 => {
                return Err(WireError::Misuse(
                    "feed was called while a payload is outstanding: call payload",
                ));
            }
            _ if bytes.is_empty() => return Ok((0, Event::NeedMore)),
            _ => {}
        }
        let result = match &self.phase {
            // An honest peer waits for our record before it speaks.
            _ if self.buffer_is_output => Err(Refusal::OutOfTurn.into()),
            Phase::Open(open) if open.is_over() => self.feed_late(bytes),
            Phase::Open(_) => self.feed_frame(bytes),
            _ => self.feed_handshake(secret, bytes),
        };
        result.map_err(|error| self.fail(error))
    }

    /// Bytes of the present frame's payload that have not been reported yet.
    pub fn payload_left(&self) -> u32 {
        match &self.phase {
            Phase::Open(open) => open.payload_left_bytes,
            _ => 0,
        }
    }

    /// Reports bytes of the present frame's payload, in order, and says how far it is.
    ///
    /// Until it has landed wholly nothing of the payload may be believed.
    ///
    /// # Errors
    /// [`WireError::Misuse`] for more bytes than are left, and for a bundle, without effect. Every other error is final.
    pub fn payload(&mut self, bytes: &[u8]) -> Result<Landed, WireError> {
        self.payload_summed(bytes.len(), |crc| frame::checksum_more(crc, bytes))
    }

    /// The same for bytes that are elsewhere: `sum` gives the checksum of what had the checksum it is given, followed by them.
    ///
    /// # Errors
    /// As [`payload`](Self::payload).
    pub fn payload_summed(
        &mut self,
        bytes: usize,
        sum: impl FnOnce(u32) -> u32,
    ) -> Result<Landed, WireError> {
        let open = match &mut self.phase {
            Phase::Failed { error, .. } => return Err(*error),
            Phase::Open(open) if open.payload_is == Sort::Bundle && open.payload_left_bytes > 0 => {
                return Err(WireError::Misuse("a bundle is no payload: call bundle"));
            }
            Phase::Open(open) if bytes as u64 <= u64::from(open.payload_left_bytes) => open,
            _ => return Err(WireError::Misuse("payload was given more bytes than payload_left says")),
        };
        open.payload_crc_so_far = sum(open.payload_crc_so_far);
        open.payload_left_bytes -= bytes as u32;
        if open.payload_left_bytes > 0 {
            return Ok(Landed::Partly);
        }
        match (open.payload_crc_so_far == open.payload_crc_expected, open.payload_is) {
            (true, _) => Ok(Landed::Wholly),
            (false, Sort::Unsteady) => Ok(Landed::Torn),
            (false, _) => Err(self.fail(WireError::BadChecksum)),
        }
    }

    /// Whether the headers of a bundle must come next, [`payload_left`](Self::payload_left) bytes of them.
    #[inline]
    pub fn awaits_bundle(&self) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.payload_is == Sort::Bundle && open.payload_left_bytes > 0)
    }

    /// Checks the headers of a bundle, all of them at once. Then [`bundle::headers`] gives them one by one.
    ///
    /// # Errors
    /// [`WireError::Misuse`] unless it [awaits](Self::awaits_bundle) so many bytes, without effect. Every other error is final.
    pub fn bundle(&mut self, packed: &[u8]) -> Result<(), WireError> {
        let promised = self.buffered();
        let open = match &mut self.phase {
            Phase::Failed { error, .. } => return Err(*error),
            Phase::Open(open)
                if open.payload_is == Sort::Bundle && packed.len() == open.payload_left_bytes as usize =>
            {
                open
            }
            _ => return Err(WireError::Misuse("bundle was given other bytes than payload_left says")),
        };
        open.payload_left_bytes = 0;
        open.payload_is = Sort::Steady;
        bundle::open(packed, &promised, &open.receive_key).map_err(|error| self.fail(error))
    }

    /// Numbers and authenticates the header of a request: any frame that is not an answer the peer waits for.
    ///
    /// # Errors
    /// Without effect: [`WireError::Misuse`] unless [`may_request`](Self::may_request), or for a kind that belongs
    /// to the wire; [`WireError::TooLarge`] or [`WireError::BadHeader`] for what the peer would refuse. The error of
    /// a failed connection.
    pub fn seal(&mut self, header: Header) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        let allowed = self.may_request();
        self.seal_if(allowed, header, "no new request may be sent now: check may_request, take_output first")
    }

    /// Numbers and authenticates the header of a reply: a frame that answers a request which came in on this
    /// connection and whose sender waits for it. Replies may still be sent after one goodbye, not after both.
    ///
    /// # Errors
    /// As [`seal`](Self::seal), with [`may_reply`](Self::may_reply).
    pub fn seal_reply(&mut self, header: Header) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        let allowed = self.may_reply();
        self.seal_if(allowed, header, "no reply may be sent now: check may_reply, take_output first")
    }

    /// Numbers and authenticates a bundle of [packed](bundle::pack) headers, which go right behind what this gives. If there are
    /// `requests` among them, they may be sent when [`may_request`](Self::may_request) says so, else as replies.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_bundle(
        &mut self,
        packed: &[u8],
        requests: bool,
    ) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        let allowed = if requests { self.may_request() } else { self.may_reply() };
        match &mut self.phase {
            Phase::Failed { error, .. } => Err(*error),
            Phase::Open(open) if allowed => {
                let header = bundle::header(packed, &open.send_key)?;
                open.seal(&header)
            }
            _ => Err(WireError::Misuse("no bundle may be sent now: check may_request or may_reply first")),
        }
    }

    /// Whether new requests may be sent: after the handshake, before either side's goodbye.
    pub fn may_request(&self) -> bool {
        self.may_reply() && matches!(&self.phase, Phase::Open(open) if !open.is_closing())
    }

    /// Whether replies may be sent: after the handshake, before both sides' goodbyes.
    pub fn may_reply(&self) -> bool {
        // A record or goodbye that waits in take_output comes first.
        !self.has_output() && matches!(&self.phase, Phase::Open(open) if !open.is_over())
    }

    /// Says goodbye: I make no more requests, and wait for no more replies. The peer then does likewise; what it
    /// still asks meanwhile must be answered. [`take_output`](Self::take_output) gives the frame.
    ///
    /// Call it when no request of this side is outstanding: to close the connection in good order, and to answer
    /// [`Event::Goodbye`]. A second call does nothing.
    ///
    /// # Errors
    /// [`WireError::Misuse`] before the handshake is done, without effect; the error of a failed connection.
    pub fn goodbye(&mut self) -> Result<(), WireError> {
        match &mut self.phase {
            Phase::Open(open) => {
                if open.my_goodbye == MyGoodbye::Unsaid {
                    open.my_goodbye = MyGoodbye::Wanted;
                }
                Ok(())
            }
            Phase::Failed { error, .. } => Err(*error),
            _ => Err(WireError::Misuse("goodbye was called before the handshake was done")),
        }
    }

    /// Asks a peer that has not answered our goodbye for long whether it has come: if not, the number of this frame is wrong for the peer,
    /// and ends the connection. It answers nothing otherwise: it may be slow.
    ///
    /// # Errors
    /// [`WireError::Misuse`] before our goodbye was taken from [`take_output`](Self::take_output) or behind the peer's, without effect; the
    /// error of a failed connection.
    pub fn knock(&mut self) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        match &mut self.phase {
            Phase::Failed { error, .. } => Err(*error),
            Phase::Open(open) if open.my_goodbye == MyGoodbye::Sent && !open.peer_said_goodbye => {
                open.seal(&Header { kind: KIND_KNOCK, ..Header::default() })
            }
            _ => Err(WireError::Misuse("knock was called where no goodbye waits for its answer")),
        }
    }

    /// When [`expired`](Self::expired) must be called, if at all: the end of the time for the handshake.
    pub fn wake_up_at(&self) -> Option<u64> {
        match self.phase {
            Phase::AwaitChallenge { deadline_ms, .. }
            | Phase::AwaitHello { deadline_ms, .. }
            | Phase::AwaitProof { deadline_ms, .. } => Some(deadline_ms),
            Phase::Open(_) | Phase::Failed { .. } => None,
        }
    }

    /// Moves the end of the time for the handshake. Who knows that the other side lives, and may only be slow, gives it longer
    /// than [`HANDSHAKE_TIMEOUT_MS`] and [`ANSWER_TIMEOUT_MS`].
    pub fn set_deadline(&mut self, at_ms: u64) {
        match &mut self.phase {
            Phase::AwaitChallenge { deadline_ms, .. }
            | Phase::AwaitHello { deadline_ms, .. }
            | Phase::AwaitProof { deadline_ms, .. } => *deadline_ms = at_ms,
            Phase::Open(_) | Phase::Failed { .. } => {}
        }
    }

    /// Who the caller says it is, from its HELLO until its PROOF. It may be somebody who has recorded that HELLO.
    pub fn claimed(&self) -> Option<Identity> {
        matches!(self.phase, Phase::AwaitProof { .. }).then_some(self.peer)
    }

    /// Tells the time.
    ///
    /// # Errors
    /// [`WireError::Timeout`] when the handshake has taken too long; the error of a failed connection.
    pub fn expired(&mut self, now_ms: u64) -> Result<(), WireError> {
        if let Phase::Failed { error, .. } = self.phase {
            return Err(error);
        }
        match self.wake_up_at() {
            Some(deadline_ms) if now_ms >= deadline_ms => Err(self.fail(WireError::Timeout)),
            _ => Ok(()),
        }
    }

    /// Tells that the peer will send nothing more.
    ///
    /// # Errors
    /// [`WireError::Closed`] unless both sides have said goodbye; during the handshake, within a record,
    /// [`Refusal::Truncated`]; the error of a failed connection.
    pub fn end_of_input(&mut self) -> Result<(), WireError> {
        let error = match &self.phase {
            Phase::Failed { error, .. } => return Err(*error),
            Phase::Open(open) if open.is_over() => return Ok(()),
            _ if self.buffer_is_output || self.filled_bytes == 0 => WireError::Closed,
            _ => match self.expected_record() {
                Some(record) => {
                    let (got, need) = (u32::from(self.filled_bytes), record.bytes() as u32);
                    Refusal::Truncated { got, need }.into()
                }
                None => WireError::Closed,
            },
        };
        Err(self.fail(error))
    }

    /// The proven peer, once the handshake is done.
    pub fn peer(&self) -> Option<Identity> {
        matches!(self.phase, Phase::Open(_)).then_some(self.peer)
    }

    /// This side.
    pub fn me(&self) -> Identity {
        self.me
    }

    /// The error that this connection failed with.
    pub fn error(&self) -> Option<WireError> {
        match self.phase {
            Phase::Failed { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether nothing of a frame has come that is not complete.
    pub fn is_between_frames(&self) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.payload_left_bytes == 0) && self.filled_bytes == 0
    }

    /// Whether both sides have said goodbye.
    pub fn is_over(&self) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.is_over())
    }

    /// Whether both sides have said goodbye and nothing is left to send: the connection can be closed without loss.
    pub fn is_finished(&self) -> bool {
        !self.has_output() && matches!(&self.phase, Phase::Open(open) if open.is_over())
    }

    /// An authentic header with any content, from an open connection: what a buggy peer that knows the secret could
    /// send. Only for fuzzing the other end.
    #[cfg(fuzzing)]
    pub fn seal_anything(&mut self, header: &[u8; frame::HEADER_BYTES]) -> Option<[u8; FRAME_HEADER_BYTES]> {
        match &mut self.phase {
            Phase::Open(open) if !self.buffer_is_output => {
                let sealed = frame::seal_encoded(header, &open.send_key, open.send_sequence);
                open.send_sequence += 1;
                Some(sealed)
            }
            _ => None,
        }
    }

    fn new(me: Identity, peer: Identity, phase: Phase, purpose: Purpose) -> Self {
        let buffer = [0; BUFFER_BYTES];
        Self { me, peer, phase, buffer, filled_bytes: 0, buffer_is_output: false, purpose }
    }

    fn put_output(&mut self, record: &[u8]) {
        self.buffer[..record.len()].copy_from_slice(record);
        self.filled_bytes = record.len() as u8;
        self.buffer_is_output = true;
    }

    fn clear_buffer(&mut self) {
        self.filled_bytes = 0;
        self.buffer_is_output = false;
    }

    /// Moves bytes into the buffer until it holds `need`: how many were moved.
    fn fill(&mut self, bytes: &[u8], need: usize) -> usize {
        let filled = usize::from(self.filled_bytes);
        let taken = bytes.len().min(need - filled);
        self.buffer[filled..filled + taken].copy_from_slice(&bytes[..taken]);
        self.filled_bytes += taken as u8;
        taken
    }

    /// The first bytes of the buffer, as a record whose length is known by type.
    fn buffered<const N: usize>(&self) -> [u8; N] {
        let mut record = [0; N];
        record.copy_from_slice(&self.buffer[..N]);
        record
    }

    /// Poisons the connection and gives the error back. A peer whose handshake we refuse is told why.
    fn fail(&mut self, error: WireError) -> WireError {
        let farewell = match &error {
            WireError::Refused(refusal) => auth::refused_record(refusal),
            _ => None,
        };
        self.clear_buffer();
        self.phase = Phase::Failed { error, farewell };
        error
    }

    fn expected_record(&self) -> Option<Record> {
        match self.phase {
            Phase::AwaitChallenge { .. } => Some(Record::Challenge),
            Phase::AwaitHello { .. } => Some(Record::Hello),
            Phase::AwaitProof { .. } => Some(Record::Proof),
            Phase::Open(_) | Phase::Failed { .. } => None,
        }
    }

    fn feed_handshake(&mut self, secret: &Secret, bytes: &[u8]) -> Result<(usize, Event), WireError> {
        let Some(record) = self.expected_record() else {
            return Err(WireError::Misuse("the handshake is over"));
        };
        let taken = self.fill(bytes, record.bytes());
        let filled = usize::from(self.filled_bytes);
        auth::check_prefix(&self.buffer[..filled], record)?;
        if filled < record.bytes() {
            return Ok((taken, Event::NeedMore));
        }
        let event = self.finish_record(secret)?;
        Ok((taken, event))
    }

    /// Acts on the complete handshake record in the buffer.
    fn finish_record(&mut self, secret: &Secret) -> Result<Event, Refusal> {
        match &self.phase {
            Phase::AwaitHello { job, nonce, deadline_ms } => {
                let record = self.buffered();
                let hello = auth::check_hello(&record, secret, *job)?;
                welcome(&hello, self.purpose, self.me.rank)?;
                let digest = auth::hello_digest(&record);
                let (challenge, transcript) = auth::challenge(&digest, self.me, nonce, secret);
                self.phase = Phase::AwaitProof { transcript, deadline_ms: *deadline_ms };
                self.peer = hello.from;
                self.purpose = hello.purpose;
                self.put_output(&challenge);
                Ok(Event::NeedMore)
            }
            Phase::AwaitChallenge { hello_digest, .. } => {
                let record = self.buffered();
                let (peer, transcript) =
                    auth::check_challenge(&record, hello_digest, self.peer.rank, secret)?;
                let keys = auth::frame_keys(&transcript, secret);
                self.peer = peer;
                self.phase = Phase::Open(Open::new(keys.forward, keys.backward, true));
                self.put_output(&auth::proof(&transcript, secret));
                Ok(Event::Established(peer))
            }
            Phase::AwaitProof { transcript, .. } => {
                auth::check_proof(&self.buffered(), transcript, secret)?;
                let keys = auth::frame_keys(transcript, secret);
                self.phase = Phase::Open(Open::new(keys.backward, keys.forward, false));
                self.clear_buffer();
                Ok(Event::Established(self.peer))
            }
            // `expected_record` gave no record in these phases.
            Phase::Open(_) | Phase::Failed { .. } => Ok(Event::NeedMore),
        }
    }

    fn feed_frame(&mut self, bytes: &[u8]) -> Result<(usize, Event), WireError> {
        let (taken, sealed) = match bytes.first_chunk::<FRAME_HEADER_BYTES>() {
            // The common case: a whole header, copied only once.
            Some(whole) if self.filled_bytes == 0 => (FRAME_HEADER_BYTES, *whole),
            _ => {
                let taken = self.fill(bytes, FRAME_HEADER_BYTES);
                if usize::from(self.filled_bytes) < FRAME_HEADER_BYTES {
                    return Ok((taken, Event::NeedMore));
                }
                self.filled_bytes = 0;
                (taken, self.buffered())
            }
        };
        let Phase::Open(open) = &mut self.phase else {
            return Err(WireError::Misuse("the connection is not open"));
        };
        let (event, promised) = open.receive(&sealed)?;
        if let Some(promised) = promised {
            self.buffer[..HASH_BYTES].copy_from_slice(&promised);
        }
        Ok((taken, event))
    }

    /// Both sides have said goodbye: a knock may come behind that, of a peer that had not heard ours yet, and on a stream that is kept
    /// acknowledgements.
    fn feed_late(&mut self, bytes: &[u8]) -> Result<(usize, Event), WireError> {
        match self.feed_frame(bytes)? {
            taken @ (_, Event::NeedMore | Event::Knock) => Ok(taken),
            taken @ (_, Event::Acknowledged(_)) if self.purpose == Purpose::KeptData => Ok(taken),
            _ => Err(WireError::Closed),
        }
    }

    fn seal_if(
        &mut self,
        allowed: bool,
        header: Header,
        otherwise: &'static str,
    ) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        match &mut self.phase {
            Phase::Failed { error, .. } => Err(*error),
            Phase::Open(_) if header.kind < FIRST_USER_KIND => Err(WireError::Misuse(
                "the kind belongs to the wire: call goodbye, seal_bundle, acknowledge or resume",
            )),
            Phase::Open(open) if allowed => open.seal(&header),
            _ => Err(WireError::Misuse(otherwise)),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase: &dyn fmt::Debug = match &self.phase {
            Phase::AwaitChallenge { .. } => &"awaits challenge",
            Phase::AwaitHello { .. } => &"awaits hello",
            Phase::AwaitProof { .. } => &"awaits proof",
            Phase::Open(open) if open.is_over() => &"over",
            Phase::Open(open) if open.is_closing() => &"closing",
            Phase::Open(_) => &"open",
            Phase::Failed { error, .. } => error,
        };
        let mut text = formatter.debug_struct("Connection");
        text.field("me", &self.me).field("peer", &self.peer).field("phase", phase).finish()
    }
}

impl Open {
    fn new(send_key: FrameKey, receive_key: FrameKey, is_forward: bool) -> Self {
        Self {
            send_key,
            receive_key,
            send_sequence: 0,
            receive_sequence: 0,
            payload_left_bytes: 0,
            payload_crc_so_far: 0,
            payload_crc_expected: 0,
            payload_is: Sort::Steady,
            my_goodbye: MyGoodbye::Unsaid,
            peer_said_goodbye: false,
            is_forward,
        }
    }

    /// One side has said goodbye: no new requests.
    fn is_closing(&self) -> bool {
        self.my_goodbye != MyGoodbye::Unsaid || self.peer_said_goodbye
    }

    /// Both sides have said goodbye: no frames at all.
    fn is_over(&self) -> bool {
        self.my_goodbye != MyGoodbye::Unsaid && self.peer_said_goodbye
    }

    fn seal(&mut self, header: &Header) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        let sealed = frame::seal(header, &self.send_key, self.send_sequence)?;
        self.send_sequence += 1;
        Ok(sealed)
    }

    /// What a header says; of a bundle, the hash of its headers too.
    #[inline]
    fn receive(
        &mut self,
        sealed: &[u8; FRAME_HEADER_BYTES],
    ) -> Result<(Event, Option<[u8; HASH_BYTES]>), WireError> {
        let header = frame::open(sealed, &self.receive_key, self.receive_sequence)?;
        self.receive_sequence += 1;
        if header.kind >= FIRST_USER_KIND {
            self.payload_left_bytes = header.payload_bytes;
            self.payload_crc_so_far = 0;
            self.payload_crc_expected = header.payload_crc;
            self.payload_is = if header.flags & FLAG_UNSTEADY == 0 { Sort::Steady } else { Sort::Unsteady };
            return Ok((Event::Frame(header), None));
        }
        if header.kind == KIND_BUNDLE {
            self.payload_left_bytes = header.payload_bytes;
            self.payload_is = Sort::Bundle;
            return Ok((Event::Bundle, Some(bundle::promised(&header))));
        }
        if header.kind == KIND_ACKNOWLEDGE {
            return Ok((Event::Acknowledged(header.a), None));
        }
        if header.kind == KIND_RESUME {
            let (session, received, known) = (header.a, header.b, header.c == 1);
            return Ok((Event::Resume(Resumption { session, received, known }), None));
        }
        if header.kind == KIND_KNOCK {
            let is_due = self.peer_said_goodbye;
            return if is_due {
                Ok((Event::Knock, None))
            } else {
                Err(WireError::BadHeader { what: UNASKED_KNOCK })
            };
        }
        if self.peer_said_goodbye {
            return Err(WireError::BadHeader { what: "a second goodbye" });
        }
        self.peer_said_goodbye = true;
        Ok((if self.is_over() { Event::Closed } else { Event::Goodbye }, None))
    }
}

/// Whether an authentic HELLO is for us.
fn welcome(hello: &Hello, purpose: Purpose, rank: u32) -> Result<(), Refusal> {
    if hello.purpose.is_data() != purpose.is_data() {
        return Err(Refusal::Purpose { theirs: hello.purpose, ours: purpose });
    }
    if hello.to != rank {
        return Err(Refusal::Target { asked: hello.to, ours: rank });
    }
    Ok(())
}
