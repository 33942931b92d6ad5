//! A frame whose payload is sent from the memory where it lies.
//!
//! Copying a large payload would cost as much as sending it does. But others may write to the memory between the moment when
//! it is summed up and the moment when the system takes it: such a frame says that its payload is unsteady, and whoever
//! receives it with a wrong sum asks again. Memory that is shared is nobody's to write to, and stays for as long as the frame may have to go again.

use crate::contract::{Sink, Source};
use crate::os::socket;
use crate::wire::{FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES};
use crate::Result;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The payload of a frame: nothing is held for it, so it may be long; but while one is summed up the one before it travels, and is
/// received, so it must not be too long.
pub(super) const USUAL_BYTES: usize = 256 * 1024;
/// The last frame takes a rest along, up to this.
pub(super) const MOST_BYTES: usize = 320 * 1024;
const _: () = assert!(MOST_BYTES <= MAX_PAYLOAD_BYTES as usize);

/// Goes out in the place of memory that is no more: the receiver was promised so many bytes.
static FILLER: [u8; 4096] = [0; 4096];

/// Where a payload lies.
pub(super) enum Memory {
    /// The sink lends it, while it is there.
    Lent(Source),
    Shared(Arc<Vec<u8>>),
}

/// A frame on its way.
pub(super) struct InPlace {
    header: [u8; FRAME_HEADER_BYTES],
    memory: Memory,
    /// Where the payload begins in its message.
    offset: u64,
    bytes: usize,
    /// Bytes of header and payload that have gone.
    sent: usize,
}

impl InPlace {
    pub(super) fn new(
        header: [u8; FRAME_HEADER_BYTES],
        memory: Memory,
        offset: u64,
        bytes: usize,
    ) -> InPlace {
        InPlace { header, memory, offset, bytes, sent: 0 }
    }

    /// Whether nobody writes to its payload, and it is there for as long as this is.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.memory, Memory::Shared(_))
    }

    /// Bytes that have gone.
    pub(super) fn sent(&self) -> usize {
        self.sent
    }

    /// Bytes of header and payload.
    pub(super) fn bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.bytes
    }

    /// It goes on behind so many bytes.
    pub(super) fn rewind(&mut self, sent: usize) {
        self.sent = sent;
    }

    /// Sends as much as the socket takes. Returns whether all has gone.
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, sink: &mut dyn Sink) -> Result<bool> {
        while self.sent < FRAME_HEADER_BYTES + self.bytes {
            match self.send_some(fd, sink) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.would_block() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn send_some(&self, fd: BorrowedFd<'_>, sink: &mut dyn Sink) -> Result<usize> {
        let header = self.header.get(self.sent..).unwrap_or_default();
        let behind = self.sent.saturating_sub(FRAME_HEADER_BYTES);
        let left = self.bytes - behind;
        match &self.memory {
            Memory::Shared(bytes) => {
                let from = self.offset as usize + behind;
                return socket::send_both(fd, header, &bytes[from..from + left]);
            }
            Memory::Lent(source) => {
                // The memory may have gone since the last time.
                if let Some(lent) = sink.lend(*source, self.offset + behind as u64, left) {
                    match socket::send_lent(fd, header, &lent) {
                        Err(error) if error.is_bad_memory() => {}
                        sent => return sent,
                    }
                }
            }
        }
        match header {
            [] => socket::send(fd, &FILLER[..left.min(FILLER.len())]),
            header => socket::send(fd, header),
        }
    }
}
