//! Frames and the state machine of a connection, as values: no I/O, no clock, no unsafe.
//!
//! A [`Connection`] is fed with bytes and times and drained for bytes and a wake-up time, so the same code runs over
//! sockets, under a fuzzer, and in tests with a made-up clock. A frame is a [`Header`] of opaque words and a payload; what they
//! mean is for the user of the wire to say. `docs/wire.md` has the formats and the state diagram.
//!
//! May use [`crate::auth`] and nothing else of this crate. Used by the transports that move bytes between nodes and by
//! the agent; the simulator, which moves no bytes, uses its [`Header`] alone.

#![forbid(unsafe_code)]

pub mod bundle;
mod connection;
mod error;
pub mod frame;
mod kept;

pub use connection::{
    Connection, Event, Landed, Output, Resumption, ANSWER_TIMEOUT_MS, HANDSHAKE_TIMEOUT_MS,
};
pub use error::WireError;
pub use frame::{Header, FIRST_USER_KIND, FLAG_UNSTEADY, FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES};
pub use kept::Kept;

#[cfg(test)]
mod tests;
