//! What can go wrong on a connection.

use super::frame::MAX_PAYLOAD_BYTES;
use crate::auth::Refusal;
use thiserror::Error;

/// Why a connection failed, or why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The handshake was refused, by us or by the peer. Close the connection after sending what
    /// [`take_output`](super::Connection::take_output) still gives.
    #[error("handshake refused: {0}")]
    Refused(#[from] Refusal),
    /// A frame header was forged, damaged, repeated, dropped or reordered. Close the connection.
    #[error("the tag of a frame header is wrong: it was damaged, repeated, dropped, reordered or forged on the way")]
    BadTag,
    /// A payload was damaged. What was received of it must not be used. Close the connection.
    #[error(
        "the checksum of a payload is wrong: it was damaged on the way, or changed while it was being sent"
    )]
    BadChecksum,
    /// An authentic header holds what no correct sender writes. Close the connection.
    #[error("a frame header is malformed: {what}")]
    BadHeader {
        /// The field, and what it should hold.
        what: &'static str,
    },
    /// A payload is larger than a frame may carry. A sender must cut it into several frames.
    #[error("a payload of {bytes} bytes is too large: a frame carries at most {}", MAX_PAYLOAD_BYTES)]
    TooLarge {
        /// The size of the payload.
        bytes: u32,
    },
    /// The connection ended without both sides having said goodbye, or bytes came after both had.
    #[error("the connection was closed without a goodbye, or used after it")]
    Closed,
    /// The handshake took longer than [`HANDSHAKE_TIMEOUT_MS`](super::HANDSHAKE_TIMEOUT_MS), or for the side that was
    /// connected to [`ANSWER_TIMEOUT_MS`](super::ANSWER_TIMEOUT_MS).
    #[error("the handshake took too long")]
    Timeout,
    /// The caller broke a rule of the interface. The call had no effect and the connection is as it was.
    #[error("misuse of the wire: {0}")]
    Misuse(&'static str),
}
