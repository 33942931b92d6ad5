//! What a connection says of streams that outlive it: their names, how much has come, and that one goes on here.

use super::{Connection, Phase};
use crate::wire::frame::{Header, FRAME_HEADER_BYTES, KIND_ACKNOWLEDGE, KIND_RESUME};
use crate::wire::WireError;

/// What both sides of a stream must agree on when it goes on over another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// Which stream: see [`Connection::session`].
    pub session: u64,
    /// So many bytes of it have come to whoever says this, since the handshake.
    pub received: u64,
    /// Whether that side knows the stream at all.
    pub known: bool,
}

impl Connection {
    /// The name that both sides have for this stream and nobody else can guess; none before the handshake is done.
    pub fn session(&self) -> Option<u64> {
        let Phase::Open(open) = &self.phase else { return None };
        let forward = if open.is_forward { &open.send_key } else { &open.receive_key };
        forward.hash(b"session").as_bytes().first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// Says how many bytes of the stream have come.
    ///
    /// # Errors
    /// As [`seal_reply`](Self::seal_reply).
    pub fn acknowledge(&mut self, received: u64) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        let header = Header { kind: KIND_ACKNOWLEDGE, a: received, ..Header::default() };
        self.seal_own(&header)
    }

    /// Says how far the stream of another connection has come, to go on with it here.
    ///
    /// # Errors
    /// As [`seal_reply`](Self::seal_reply).
    pub fn resume(&mut self, resumption: Resumption) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        let Resumption { session, received, known } = resumption;
        let header =
            Header { kind: KIND_RESUME, a: session, b: received, c: known.into(), ..Header::default() };
        self.seal_own(&header)
    }

    /// Numbers and authenticates a frame of the wire itself.
    pub(in crate::wire) fn seal_own(
        &mut self,
        header: &Header,
    ) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
        match &mut self.phase {
            Phase::Failed { error, .. } => Err(*error),
            Phase::Open(open) if !self.buffer_is_output => open.seal(header),
            _ => Err(WireError::Misuse("the handshake is not done")),
        }
    }

    /// Whether a handshake record, which is no part of the stream, is what [`take_output`](Self::take_output) gives next.
    pub fn has_record(&self) -> bool {
        self.buffer_is_output
    }

    /// Ends the connection because of what an authentic frame has said.
    pub fn refuse(&mut self, what: &'static str) -> WireError {
        self.fail(WireError::BadHeader { what })
    }

    /// How many bytes are missing of the record or header that comes; of a payload, all.
    pub fn missing(&self) -> usize {
        let filled = if self.buffer_is_output { 0 } else { usize::from(self.filled_bytes) };
        match (&self.phase, self.expected_record()) {
            (_, Some(record)) => record.bytes() - filled,
            (Phase::Open(open), _) if open.payload_left_bytes > 0 => open.payload_left_bytes as usize,
            _ => FRAME_HEADER_BYTES - filled,
        }
    }
}
