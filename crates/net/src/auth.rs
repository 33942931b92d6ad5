//! The job's secret, and the handshake that proves both sides of a connection know it.
//!
//! Three records travel before a connection is believed: HELLO, CHALLENGE and PROOF, 196 bytes in all. Each side
//! proves that it holds the job's secret over a transcript of everything both have said; each direction of the
//! connection then gets a key of its own. A side that refuses says why in a REFUSED record. `docs/wire.md` has the
//! formats and the reasons.
//!
//! This module is pure: it reads no clock, no random source and no socket. [`crate::wire::Connection`] drives the
//! handshake; the node agent uses [`check_hello`] to turn strangers away before it hands a socket to a rank.

#![forbid(unsafe_code)]

use crate::wire::frame::TAG_BYTES;
use constant_time_eq::constant_time_eq_16;
use siphasher::sip128::SipHasher24;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroize;

/// The first bytes of every handshake record.
pub const MAGIC: [u8; 4] = *b"KMKI";
/// The protocol version as a literal, so that the contexts below are made from the same number.
macro_rules! protocol_version {
    () => {
        15
    };
}
/// The protocol version that this build speaks. It speaks no other.
pub const PROTOCOL_VERSION: u16 = protocol_version!();
/// Bytes of the prefix that every handshake record of every version begins with.
pub const PREFIX_BYTES: usize = 8;
/// Bytes of a HELLO record.
pub const HELLO_BYTES: usize = 76;
/// Bytes of a CHALLENGE record.
pub const CHALLENGE_BYTES: usize = 80;
/// Bytes of a PROOF record.
pub const PROOF_BYTES: usize = 40;
/// Bytes of a REFUSED record, in every version.
pub const REFUSED_BYTES: usize = PREFIX_BYTES;
/// Bytes of the nonce that each side must draw afresh from the system for each connection.
pub const NONCE_BYTES: usize = 32;

/// A HELLO without its authentication code.
const HELLO_BODY_BYTES: usize = HELLO_BYTES - TAG_BYTES;
/// A CHALLENGE without its proof.
const CHALLENGE_BODY_BYTES: usize = CHALLENGE_BYTES - 32;

/// What may arrive before authentication is bounded (P5 of `docs/faults.md`).
const _: () = assert!(HELLO_BYTES + CHALLENGE_BYTES + PROOF_BYTES <= 256);

// One BLAKE3 key-derivation context for each use of the secret. The role is in the context, so that what one side
// says can never pass for what the other side must say, and so is the version.
macro_rules! context {
    ($use:literal) => {
        concat!("kumiki wire version ", protocol_version!(), ": ", $use)
    };
}
const HELLO_CONTEXT: &str = context!("hello of the initiator");
const RESPONDER_CONTEXT: &str = context!("proof of the responder");
const INITIATOR_CONTEXT: &str = context!("proof of the initiator");
const FORWARD_CONTEXT: &str = context!("frames from initiator to responder");
const BACKWARD_CONTEXT: &str = context!("frames from responder to initiator");

/// The 32 bytes that every process of a job knows and nobody else does.
///
/// It is never printed, cannot be copied by accident, and is overwritten when dropped.
///
/// ```
/// use kumiki_net::auth::Secret;
/// let secret = Secret::from_bytes([7; 32]);
/// assert_eq!(format!("{secret:?}"), "Secret(hidden)");
/// ```
pub struct Secret([u8; 32]);

impl Secret {
    /// Takes 32 random bytes as the secret of a job.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, to hand them to a process of the job in memory that nobody else can open. They never go over a socket.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The same secret once more, for another part of this process.
    pub fn duplicate(&self) -> Secret {
        Secret(self.0)
    }

    /// A key for one purpose; from it nobody can compute the secret or the key of another purpose.
    fn derive(&self, context: &str) -> FrameKey {
        FrameKey(blake3::derive_key(context, &self.0))
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(hidden)")
    }
}

/// The key that authenticates the frames of one direction of one connection.
///
/// It is never printed and is overwritten when dropped.
pub struct FrameKey([u8; 32]);

impl FrameKey {
    /// Takes 32 bytes as a key. Connections derive theirs; this is for tests and fuzzers of single frames.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The keyed hash of a message.
    pub(crate) fn hash(&self, message: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.0, message)
    }

    /// The tag of a frame header: 128 bits of SipHash-2-4, whose key is the first half of this one.
    ///
    /// It is made for short messages. A header comes with every operation of a few bytes, and its tag is computed on
    /// both sides of both ways.
    pub(crate) fn tag_header(&self, message: &[u8]) -> [u8; TAG_BYTES] {
        let mut key = [0; 16];
        key.copy_from_slice(&self.0[..16]);
        SipHasher24::new_with_key(&key).hash(message).as_bytes()
    }

    /// The hash of the headers of a bundle, which its own header carries: as a tag, but its key is the second half of this one.
    pub(crate) fn hash_bundle(&self, packed: &[u8]) -> [u8; TAG_BYTES] {
        let mut key = [0; 16];
        key.copy_from_slice(&self.0[16..]);
        SipHasher24::new_with_key(&key).hash(packed).as_bytes()
    }

    /// The keyed hash of a message, cut to the length of a tag.
    pub(crate) fn tag(&self, message: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&self.hash(message).as_bytes()[..TAG_BYTES]);
        tag
    }
}

impl Drop for FrameKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for FrameKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FrameKey(hidden)")
    }
}

/// The number of a job. It is not secret; it tells jobs apart in messages to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// What a connection is for. One kind can never be taken for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Rank to rank: frames of global memory.
    Data = 1,
    /// Agent to hub: frames of the launcher. Ranks in the handshake are then node indices.
    Control = 2,
    /// Rank to rank, as [`Data`](Self::Data): both sides keep what they send until it is acknowledged, so that the stream can go on
    /// over another connection when this one breaks.
    KeptData = 3,
    /// Rank to rank: a stream of [`KeptData`](Self::KeptData) whose connection broke goes on here.
    MendData = 4,
    /// Agent to hub: the stream of a control connection that broke goes on here.
    MendControl = 5,
}

impl Purpose {
    const ALL: [Self; 5] = [Self::Data, Self::Control, Self::KeptData, Self::MendData, Self::MendControl];

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&purpose| purpose as u8 == code)
    }

    /// Whether ranks call for this, or agents.
    pub fn is_data(self) -> bool {
        matches!(self, Self::Data | Self::KeptData | Self::MendData)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Data => "data",
            Self::Control => "control",
            Self::KeptData => "data that is kept",
            Self::MendData => "data that goes on",
            Self::MendControl => "control that goes on",
        })
    }
}

/// One end of a connection: a rank (or a node index, for [`Purpose::Control`]) in one of its lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The rank, or the node index.
    pub rank: u32,
    /// How often the rank has been started over. A peer that was declared lost stays lost: its incarnation is fenced.
    pub incarnation: u32,
}

/// What a checked HELLO says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the connection is for.
    pub purpose: Purpose,
    /// Who calls.
    pub from: Identity,
    /// Whom the caller wants to reach: a rank, or a node index for [`Purpose::Control`].
    pub to: u32,
}

/// The handshake records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Record {
    /// Initiator to responder: who I am, whom I want.
    Hello = 1,
    /// Responder to initiator: who I am, and a proof that I know the secret.
    Challenge = 2,
    /// Initiator to responder: the same proof from me.
    Proof = 3,
    /// Either way: no, and why.
    Refused = 4,
}

impl Record {
    /// Bytes of the record in this version.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Hello => HELLO_BYTES,
            Self::Challenge => CHALLENGE_BYTES,
            Self::Proof => PROOF_BYTES,
            Self::Refused => REFUSED_BYTES,
        }
    }
}

/// Why a handshake was refused. The message says what is wrong and what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The bytes are not ours at all: a port scanner, a browser, another program. No answer is sent.
    #[error("the other side does not speak the Kumiki protocol: its first bytes are not \"KMKI\"; check the address and the port")]
    NotKumiki,
    /// Another version of Kumiki.
    #[error("the other side speaks version {theirs} of the wire protocol, this one speaks version {ours}: run the same Kumiki release on both")]
    Version {
        /// The version of the record.
        theirs: u16,
        /// [`PROTOCOL_VERSION`].
        ours: u16,
    },
    /// A process of another job, often a stale one of an earlier job.
    #[error(
        "the caller belongs to job {theirs}, this is job {ours}: a process of another job uses this address"
    )]
    Job {
        /// The job the caller named.
        theirs: JobId,
        /// The job that was called.
        ours: JobId,
    },
    /// A data connection where a control connection belongs, or the other way round.
    #[error("the caller wants a {theirs} connection, this end takes {ours} connections: the caller used the wrong address")]
    Purpose {
        /// What the caller asked for.
        theirs: Purpose,
        /// What is served here.
        ours: Purpose,
    },
    /// The caller wants another rank than the one that it reached.
    #[error("the caller wants rank {asked}, this is rank {ours}: its table of addresses is wrong or stale")]
    Target {
        /// The rank the caller asked for.
        asked: u32,
        /// The rank that was reached.
        ours: u32,
    },
    /// Another rank answered than the one that was called.
    #[error(
        "rank {asked} was called and rank {answered} answered: the table of addresses is wrong or stale"
    )]
    Answerer {
        /// The rank that was called.
        asked: u32,
        /// The rank that answered.
        answered: u32,
    },
    /// The authentication code of the HELLO is wrong.
    #[error("the caller does not know the secret of this job, or its hello was damaged on the way: both ends need the same secret")]
    Secret,
    /// The proof is wrong: another secret, a replay, a reflection, or damage.
    #[error("the other side's proof is wrong: it does not know the job's secret, or repeats an earlier handshake, or bytes were damaged on the way")]
    Proof,
    /// A record that does not belong here, such as our own HELLO sent back to us.
    #[error("handshake record {got} came where {expected:?} was expected: the other side is in the wrong role or sends our own bytes back")]
    Record {
        /// The record that belongs here.
        expected: Record,
        /// The number of the record that came.
        got: u8,
    },
    /// A field holds what no sender of this version writes.
    #[error("the handshake record is malformed: {what}")]
    Malformed {
        /// The field, and what it should hold.
        what: &'static str,
    },
    /// The connection ended within a record.
    #[error("the connection ended after {got} of the {need} bytes of a handshake record")]
    Truncated {
        /// Bytes that came.
        got: u32,
        /// Bytes of the record.
        need: u32,
    },
    /// The other side sent bytes before it was its turn.
    #[error("the other side sent bytes before it was its turn: hello, challenge and proof each wait for the one before")]
    OutOfTurn,
    /// The other side refused us and said why. Nobody vouches for that reason: it is for people to read.
    #[error(
        "the other side (wire protocol version {version}, ours is {}) refused the connection: {reason}",
        PROTOCOL_VERSION
    )]
    ByPeer {
        /// The reason it gave.
        reason: Reason,
        /// The version it speaks.
        version: u16,
    },
}

impl Refusal {
    /// The reason code to send to the refused side, or `None` where no answer should be sent.
    ///
    /// A stranger that does not speak the protocol learns nothing, and a refusal is never answered with a refusal.
    pub fn reason(&self) -> Option<Reason> {
        Some(match self {
            Self::NotKumiki | Self::ByPeer { .. } => return None,
            Self::Version { .. } => Reason::Version,
            Self::Job { .. } => Reason::Job,
            Self::Purpose { .. } => Reason::Purpose,
            Self::Target { .. } => Reason::Target,
            Self::Answerer { .. } => Reason::Answerer,
            Self::Secret => Reason::Secret,
            Self::Proof => Reason::Proof,
            Self::Record { .. } => Reason::Record,
            Self::Malformed { .. } => Reason::Malformed,
            Self::Truncated { .. } => Reason::Truncated,
            Self::OutOfTurn => Reason::OutOfTurn,
        })
    }
}

/// The reason in a REFUSED record: a [`Refusal`] without its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Reason {
    /// [`Refusal::Version`].
    #[error("the versions differ; run the same Kumiki release on both sides")]
    Version,
    /// [`Refusal::Job`].
    #[error("it belongs to another job")]
    Job,
    /// [`Refusal::Purpose`].
    #[error("data and control connections were mixed up")]
    Purpose,
    /// [`Refusal::Target`].
    #[error("it is not the rank that was called")]
    Target,
    /// [`Refusal::Answerer`].
    #[error("it called another rank than the one that answered")]
    Answerer,
    /// [`Refusal::Secret`].
    #[error("the secrets differ, or bytes were damaged on the way")]
    Secret,
    /// [`Refusal::Proof`].
    #[error("the proof was wrong: secrets differ, a replay, or bytes damaged on the way")]
    Proof,
    /// [`Refusal::Record`].
    #[error("a handshake record came out of order")]
    Record,
    /// [`Refusal::Malformed`].
    #[error("a handshake record was malformed")]
    Malformed,
    /// [`Refusal::Truncated`].
    #[error("a handshake record was cut short")]
    Truncated,
    /// [`Refusal::OutOfTurn`].
    #[error("bytes came before their turn")]
    OutOfTurn,
    /// A reason that this version does not know.
    #[error("reason code {0}, which this version does not know")]
    Other(u8),
}

impl Reason {
    /// Every reason with its code on the wire. Codes are never given a second meaning; 12 and 13 had one once.
    const CODES: [(Self, u8); 11] = [
        (Self::Version, 1),
        (Self::Job, 2),
        (Self::Purpose, 3),
        (Self::Target, 4),
        (Self::Answerer, 5),
        (Self::Secret, 6),
        (Self::Proof, 7),
        (Self::Record, 8),
        (Self::Malformed, 9),
        (Self::Truncated, 10),
        (Self::OutOfTurn, 11),
    ];

    /// The code on the wire.
    pub fn code(self) -> u8 {
        match self {
            Self::Other(code) => code,
            known => Self::CODES.iter().find(|(reason, _)| *reason == known).map_or(0, |(_, code)| *code),
        }
    }

    /// The reason of a code.
    pub fn from_code(code: u8) -> Self {
        Self::CODES.iter().find(|(_, known)| *known == code).map_or(Self::Other(code), |(reason, _)| *reason)
    }
}

/// Checks a HELLO without keeping any state, as the node agent does before it looks for the rank that is called.
///
/// A right HELLO shows that its *sender once* knew the secret. It may be a replay: only the whole handshake, which
/// [`crate::wire::Connection`] does, proves that the caller is alive and knows the secret now. Whether `to` is here,
/// and whether the incarnation is still welcome, is for the caller of this function to decide.
///
/// ```
/// use kumiki_net::auth::{check_hello, Identity, JobId, Purpose, Refusal, Secret};
/// use kumiki_net::wire::Connection;
///
/// let (job, secret) = (JobId(1), Secret::from_bytes([7; 32]));
/// let me = Identity { rank: 3, incarnation: 0 };
/// let mut caller = Connection::initiate(job, &secret, me, 5, Purpose::Data, [9; 32], 0);
/// let bytes = caller.take_output().unwrap();
///
/// let hello = check_hello(&bytes, &secret, job).unwrap();
/// assert_eq!((hello.from.rank, hello.to), (3, 5));
/// assert_eq!(check_hello(b"GET / HTTP/1.1", &secret, job), Err(Refusal::NotKumiki));
/// ```
///
/// # Errors
/// The [`Refusal`] to report; [`refused_record`] makes the answer to send.
pub fn check_hello(bytes: &[u8], secret: &Secret, job: JobId) -> Result<Hello, Refusal> {
    check_prefix(bytes, Record::Hello)?;
    let truncated = Refusal::Truncated { got: bytes.len() as u32, need: HELLO_BYTES as u32 };
    let record: &[u8; HELLO_BYTES] =
        bytes.get(..HELLO_BYTES).and_then(|b| b.try_into().ok()).ok_or(truncated)?;
    if bytes.len() > HELLO_BYTES {
        return Err(Refusal::OutOfTurn);
    }
    // The job comes before the secret: another job has another secret, and its number is the better report.
    let theirs = JobId(u64::from_le_bytes(field(record, 8)));
    if theirs != job {
        return Err(Refusal::Job { theirs, ours: job });
    }
    let tag = secret.derive(HELLO_CONTEXT).tag(&record[..HELLO_BODY_BYTES]);
    if !constant_time_eq_16(&tag, &field(record, HELLO_BODY_BYTES)) {
        return Err(Refusal::Secret);
    }
    let purpose = Purpose::from_code(record[PREFIX_BYTES - 1])
        .ok_or(Refusal::Malformed { what: "the purpose is none of the five that there are" })?;
    Ok(Hello {
        purpose,
        from: Identity { rank: number(record, 16), incarnation: number(record, 24) },
        to: number(record, 20),
    })
}

/// The REFUSED record to send back for a refusal, or `None` where no answer should be sent.
pub fn refused_record(refusal: &Refusal) -> Option<[u8; REFUSED_BYTES]> {
    refusal.reason().map(|reason| prefix(Record::Refused, reason.code()))
}

/// Checks as much of a record's prefix as has arrived, so that a stranger is turned away at its first wrong byte.
pub(crate) fn check_prefix(bytes: &[u8], expected: Record) -> Result<(), Refusal> {
    let magic_bytes = bytes.len().min(MAGIC.len());
    if bytes[..magic_bytes] != MAGIC[..magic_bytes] {
        return Err(Refusal::NotKumiki);
    }
    let Some(prefix) = bytes.get(..PREFIX_BYTES) else { return Ok(()) };
    let version = u16::from_le_bytes([prefix[4], prefix[5]]);
    let (record, detail) = (prefix[6], prefix[7]);
    // A refusal is understood whatever the version: that is how versions that differ are reported by name.
    if record == Record::Refused as u8 {
        return Err(Refusal::ByPeer { reason: Reason::from_code(detail), version });
    }
    if version != PROTOCOL_VERSION {
        return Err(Refusal::Version { theirs: version, ours: PROTOCOL_VERSION });
    }
    if record != expected as u8 {
        return Err(Refusal::Record { expected, got: record });
    }
    if expected != Record::Hello && detail != 0 {
        return Err(Refusal::Malformed { what: "the detail byte of a challenge or proof is not 0" });
    }
    Ok(())
}

/// The HELLO of an initiator.
pub(crate) fn hello(
    hello: &Hello,
    job: JobId,
    nonce: &[u8; NONCE_BYTES],
    secret: &Secret,
) -> [u8; HELLO_BYTES] {
    let mut record = [0; HELLO_BYTES];
    record[..8].copy_from_slice(&prefix(Record::Hello, hello.purpose as u8));
    record[8..16].copy_from_slice(&job.0.to_le_bytes());
    record[16..20].copy_from_slice(&hello.from.rank.to_le_bytes());
    record[20..24].copy_from_slice(&hello.to.to_le_bytes());
    record[24..28].copy_from_slice(&hello.from.incarnation.to_le_bytes());
    record[28..60].copy_from_slice(nonce);
    let tag = secret.derive(HELLO_CONTEXT).tag(&record[..HELLO_BODY_BYTES]);
    record[HELLO_BODY_BYTES..].copy_from_slice(&tag);
    record
}

/// A digest of bytes that travel behind a header, for the header to carry: its tag then vouches for them, where a checksum guards
/// against accidents only.
pub fn digest(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    let first: [u8; 8] = std::array::from_fn(|index| hash.as_bytes()[index]);
    u64::from_le_bytes(first)
}

/// A digest of a HELLO: all that either side must remember of it.
pub(crate) fn hello_digest(hello: &[u8; HELLO_BYTES]) -> [u8; 32] {
    *blake3::hash(hello).as_bytes()
}

/// A digest of all that both sides have said: version, purpose, job, ranks, incarnations and nonces.
pub(crate) struct Transcript([u8; 32]);

impl Transcript {
    fn new(hello_digest: &[u8; 32], challenge_body: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(hello_digest).update(challenge_body);
        Self(*hasher.finalize().as_bytes())
    }
}

/// The CHALLENGE that a responder answers a HELLO with.
pub(crate) fn challenge(
    hello_digest: &[u8; 32],
    me: Identity,
    nonce: &[u8; NONCE_BYTES],
    secret: &Secret,
) -> ([u8; CHALLENGE_BYTES], Transcript) {
    let mut record = [0; CHALLENGE_BYTES];
    record[..8].copy_from_slice(&prefix(Record::Challenge, 0));
    record[8..12].copy_from_slice(&me.rank.to_le_bytes());
    record[12..16].copy_from_slice(&me.incarnation.to_le_bytes());
    record[16..48].copy_from_slice(nonce);
    let transcript = Transcript::new(hello_digest, &record[..CHALLENGE_BODY_BYTES]);
    let proof = secret.derive(RESPONDER_CONTEXT).hash(&transcript.0);
    record[CHALLENGE_BODY_BYTES..].copy_from_slice(proof.as_bytes());
    (record, transcript)
}

/// Checks the CHALLENGE that answers our HELLO to `asked`.
pub(crate) fn check_challenge(
    record: &[u8; CHALLENGE_BYTES],
    hello_digest: &[u8; 32],
    asked: u32,
    secret: &Secret,
) -> Result<(Identity, Transcript), Refusal> {
    let transcript = Transcript::new(hello_digest, &record[..CHALLENGE_BODY_BYTES]);
    // Comparing two `blake3::Hash` takes the same time wherever they differ.
    if secret.derive(RESPONDER_CONTEXT).hash(&transcript.0) != field(record, CHALLENGE_BODY_BYTES) {
        return Err(Refusal::Proof);
    }
    let peer = Identity { rank: number(record, 8), incarnation: number(record, 12) };
    if peer.rank != asked {
        return Err(Refusal::Answerer { asked, answered: peer.rank });
    }
    Ok((peer, transcript))
}

/// The PROOF of an initiator.
pub(crate) fn proof(transcript: &Transcript, secret: &Secret) -> [u8; PROOF_BYTES] {
    let mut record = [0; PROOF_BYTES];
    record[..8].copy_from_slice(&prefix(Record::Proof, 0));
    record[8..].copy_from_slice(secret.derive(INITIATOR_CONTEXT).hash(&transcript.0).as_bytes());
    record
}

/// Checks the PROOF of an initiator.
pub(crate) fn check_proof(
    record: &[u8; PROOF_BYTES],
    transcript: &Transcript,
    secret: &Secret,
) -> Result<(), Refusal> {
    if secret.derive(INITIATOR_CONTEXT).hash(&transcript.0) == field(record, PREFIX_BYTES) {
        Ok(())
    } else {
        Err(Refusal::Proof)
    }
}

/// The keys of the two directions of a connection.
pub(crate) struct FrameKeys {
    /// From the initiator to the responder.
    pub(crate) forward: FrameKey,
    /// From the responder to the initiator.
    pub(crate) backward: FrameKey,
}

/// Derives the keys of a connection from the secret and the transcript of its handshake.
pub(crate) fn frame_keys(transcript: &Transcript, secret: &Secret) -> FrameKeys {
    let key = |context| FrameKey(secret.derive(context).hash(&transcript.0).into());
    FrameKeys { forward: key(FORWARD_CONTEXT), backward: key(BACKWARD_CONTEXT) }
}

fn prefix(record: Record, detail: u8) -> [u8; PREFIX_BYTES] {
    let [m0, m1, m2, m3] = MAGIC;
    let [v0, v1] = PROTOCOL_VERSION.to_le_bytes();
    [m0, m1, m2, m3, v0, v1, record as u8, detail]
}

/// A field of a record whose length the caller has checked by type.
fn field<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

fn number(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(record, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(0x1234);

    fn secret() -> Secret {
        Secret::from_bytes([0x5a; 32])
    }

    fn some_hello() -> Hello {
        Hello { purpose: Purpose::Data, from: Identity { rank: 3, incarnation: 1 }, to: 9 }
    }

    fn some_record() -> [u8; HELLO_BYTES] {
        hello(&some_hello(), JOB, &[0x11; 32], &secret())
    }

    #[test]
    fn a_hello_says_what_was_put_into_it() {
        assert_eq!(check_hello(&some_record(), &secret(), JOB), Ok(some_hello()));
    }

    #[test]
    fn every_flipped_bit_of_a_hello_is_refused() {
        for bit in 0..HELLO_BYTES * 8 {
            let mut record = some_record();
            record[bit / 8] ^= 1 << (bit % 8);
            assert!(check_hello(&record, &secret(), JOB).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_truncation_of_a_hello_is_refused_as_such() {
        let record = some_record();
        for length in 0..HELLO_BYTES {
            let expected = Refusal::Truncated { got: length as u32, need: HELLO_BYTES as u32 };
            assert_eq!(check_hello(&record[..length], &secret(), JOB), Err(expected));
        }
    }

    #[test]
    fn bytes_behind_a_hello_are_refused() {
        let mut bytes = some_record().to_vec();
        bytes.push(0);
        assert_eq!(check_hello(&bytes, &secret(), JOB), Err(Refusal::OutOfTurn));
    }

    #[test]
    fn a_secret_off_by_any_one_bit_is_refused() {
        let record = some_record();
        for bit in 0..256 {
            let mut bytes = [0x5a; 32];
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_hello(&record, &Secret::from_bytes(bytes), JOB), Err(Refusal::Secret));
        }
    }

    #[test]
    fn another_job_and_another_version_are_named() {
        let refusal = check_hello(&some_record(), &secret(), JobId(0x99)).unwrap_err();
        assert_eq!(refusal, Refusal::Job { theirs: JOB, ours: JobId(0x99) });
        let mut record = some_record();
        record[4] = 99;
        let refusal = check_hello(&record, &secret(), JOB).unwrap_err();
        assert_eq!(refusal, Refusal::Version { theirs: 99, ours: PROTOCOL_VERSION });
        // Another version may have another length: its name must be known from the prefix alone.
        assert_eq!(check_hello(&record[..PREFIX_BYTES], &secret(), JOB).unwrap_err(), refusal);
    }

    #[test]
    fn key_contexts_and_the_document_name_the_version_that_is_spoken() {
        let named = format!("kumiki wire version {PROTOCOL_VERSION}: ");
        for context in
            [HELLO_CONTEXT, RESPONDER_CONTEXT, INITIATOR_CONTEXT, FORWARD_CONTEXT, BACKWARD_CONTEXT]
        {
            assert!(context.starts_with(&named), "{context}");
        }
        let document = include_str!("../../../docs/wire.md");
        assert!(document.contains(&format!("The protocol version is **{PROTOCOL_VERSION}**.")));
    }

    #[test]
    fn an_unknown_purpose_is_malformed_even_with_the_right_secret() {
        let mut record = some_record();
        record[7] = 6;
        let tag = secret().derive(HELLO_CONTEXT).tag(&record[..HELLO_BODY_BYTES]);
        record[HELLO_BODY_BYTES..].copy_from_slice(&tag);
        assert!(matches!(check_hello(&record, &secret(), JOB), Err(Refusal::Malformed { .. })));
    }

    #[test]
    fn a_refusal_comes_back_with_its_reason() {
        for code in 0..=255 {
            let reason = Reason::from_code(code);
            assert_eq!(reason.code(), code);
            let refusal = check_prefix(&prefix(Record::Refused, code), Record::Challenge).unwrap_err();
            assert_eq!(refusal, Refusal::ByPeer { reason, version: PROTOCOL_VERSION });
            assert_eq!(refused_record(&refusal), None, "a refusal is never answered with a refusal");
        }
        assert_eq!(refused_record(&Refusal::NotKumiki), None);
        let record = refused_record(&Refusal::Secret).unwrap();
        let refusal = check_prefix(&record, Record::Challenge).unwrap_err();
        assert_eq!(refusal, Refusal::ByPeer { reason: Reason::Secret, version: PROTOCOL_VERSION });
    }

    #[test]
    fn a_challenge_of_another_rank_is_refused_even_with_the_right_secret() {
        let digest = hello_digest(&some_record());
        let (record, _) = challenge(&digest, Identity { rank: 8, incarnation: 0 }, &[1; 32], &secret());
        let refusal = check_challenge(&record, &digest, 9, &secret()).err();
        assert_eq!(refusal, Some(Refusal::Answerer { asked: 9, answered: 8 }));
    }

    #[test]
    fn the_roles_have_different_proofs_and_the_directions_different_keys() {
        let digest = hello_digest(&some_record());
        let (record, transcript) = challenge(&digest, Identity::default(), &[1; 32], &secret());
        let mut reflected = proof(&transcript, &secret());
        assert!(check_proof(&reflected, &transcript, &secret()).is_ok());
        reflected[PREFIX_BYTES..].copy_from_slice(&record[CHALLENGE_BODY_BYTES..]);
        assert_eq!(check_proof(&reflected, &transcript, &secret()), Err(Refusal::Proof));
        let keys = frame_keys(&transcript, &secret());
        assert_ne!(keys.forward.0, keys.backward.0);
    }

    #[test]
    fn nothing_secret_is_printed() {
        let text = format!("{:?} {:?}", Secret::from_bytes([171; 32]), FrameKey::from_bytes([171; 32]));
        assert!(!text.contains("171") && !text.contains("ab"), "{text}");
    }
}
