//! The byte stream between the hub and an agent: whole messages in, whole messages out, never blocking.
//!
//! Each message goes behind its length in four bytes. The stream of an agent that a launcher started opens with
//! [`GREETING`]; it runs over an inherited socket or ssh. A stream over a bare network is *sealed*: its bytes travel
//! in the authenticated frames of [`crate::wire`], after the handshake.

use super::protocol::{GREETING, MAX_MESSAGE_BYTES};
use crate::auth::Secret;
use crate::os::descriptor;
use crate::wire::frame::FIRST_USER_KIND;
use crate::wire::{Connection, Event, Header, Landed, WireError};
use crate::{Error, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a login script may print before the greeting.
const MAX_NOISE_BYTES: usize = 64 << 10;
/// The payload of a frame of a sealed stream.
const FRAME_BYTES: usize = 64 << 10;

/// One end of a control stream.
#[derive(Debug)]
pub struct Link {
    input: OwnedFd,
    output: OwnedFd,
    received: Vec<u8>,
    queued: Vec<u8>,
    sent_bytes: usize,
    expects_greeting: bool,
    ended: bool,
    seal: Option<Box<Seal>>,
}

/// What a sealed stream needs besides.
struct Seal {
    connection: Connection,
    secret: Secret,
    /// Bytes from the wire that have not been opened yet.
    raw: Vec<u8>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Link {
    /// A stream over two descriptors, which may be duplicates of one. The hub's end expects the greeting, the agent's sends it.
    pub fn new(input: OwnedFd, output: OwnedFd, expects_greeting: bool) -> Result<Link> {
        descriptor::set_nonblocking(input.as_fd(), true)?;
        descriptor::set_nonblocking(output.as_fd(), true)?;
        let queued = if expects_greeting { Vec::new() } else { GREETING.to_vec() };
        Ok(Link {
            input,
            output,
            received: Vec::new(),
            queued,
            sent_bytes: 0,
            expects_greeting,
            ended: false,
            seal: None,
        })
    }

    /// A stream over a connection whose handshake is done; `raw` is what has been read behind it.
    pub fn sealed(socket: OwnedFd, connection: Connection, secret: Secret, raw: Vec<u8>) -> Result<Link> {
        let mut link = Link::new(crate::os::memory::duplicate(socket.as_fd())?, socket, true)?;
        link.expects_greeting = false;
        link.seal = Some(Box::new(Seal { connection, secret, raw }));
        Ok(link)
    }

    /// The end to watch for reading.
    pub fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// The end to watch for writing.
    pub fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Whether the other side is gone.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Bytes that wait to be written.
    pub fn backlog_bytes(&self) -> usize {
        self.queued.len() - self.sent_bytes
    }

    /// Queues a message and writes what fits.
    pub fn send(&mut self, message: &[u8]) {
        let length = (message.len() as u32).to_le_bytes();
        match &mut self.seal {
            None => {
                self.queued.extend_from_slice(&length);
                self.queued.extend_from_slice(message);
            }
            Some(seal) => {
                for part in [&length[..], message].concat().chunks(FRAME_BYTES) {
                    let header = Header { kind: FIRST_USER_KIND, ..Header::default() }.with_payload(part);
                    match seal.connection.seal(header) {
                        Ok(sealed) => self.queued.extend_from_slice(&sealed),
                        Err(_) => self.ended = true,
                    }
                    self.queued.extend_from_slice(part);
                }
            }
        }
        self.flush();
    }

    /// Writes what fits. When nobody reads any more the bytes are dropped; what the other side has said before can
    /// still be read, so only reading finds the end.
    pub fn flush(&mut self) {
        while self.sent_bytes < self.queued.len() {
            match descriptor::write(self.output.as_fd(), &self.queued[self.sent_bytes..]) {
                Ok(count) => self.sent_bytes += count,
                Err(error) if error.would_block() => break,
                Err(_) => self.sent_bytes = self.queued.len(),
            }
        }
        if self.sent_bytes == self.queued.len() {
            self.queued.clear();
            self.sent_bytes = 0;
        } else if self.sent_bytes > 1 << 20 {
            self.queued.drain(..self.sent_bytes);
            self.sent_bytes = 0;
        }
    }

    /// Reads what is there and returns the whole messages. Bad input is an error and the end of the stream.
    pub fn receive(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut buffer = [0; 16 << 10];
        // A bound, so that one busy stream does not starve the others.
        for _ in 0..16 {
            match descriptor::read(self.input.as_fd(), &mut buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    let place = self.seal.as_mut().map_or(&mut self.received, |seal| &mut seal.raw);
                    place.extend_from_slice(&buffer[..count]);
                    if count == buffer.len() {
                        continue;
                    }
                }
                Err(error) if error.would_block() => {}
                Err(_) => self.ended = true,
            }
            break;
        }
        if let Some(seal) = &mut self.seal {
            if let Err(error) = seal.open(&mut self.received) {
                self.ended = true;
                return Err(error);
            }
        }
        if self.expects_greeting && !self.find_greeting()? {
            return Ok(Vec::new());
        }
        self.take_messages()
    }

    fn find_greeting(&mut self) -> Result<bool> {
        match self.received.windows(GREETING.len()).position(|window| window == GREETING) {
            Some(start) => {
                self.received.drain(..start + GREETING.len());
                self.expects_greeting = false;
                Ok(true)
            }
            None if self.received.len() > MAX_NOISE_BYTES => {
                self.ended = true;
                Err(Error::Refused("the program at the other end is not a Kumiki agent".into()))
            }
            None => Ok(false),
        }
    }

    fn take_messages(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut messages = Vec::new();
        let mut start = 0;
        while let Some(head) = self.received[start..].first_chunk::<4>() {
            let length = u32::from_le_bytes(*head) as usize;
            if length > MAX_MESSAGE_BYTES {
                self.ended = true;
                return Err(Error::Refused(format!("a control message of {length} bytes")));
            }
            let Some(body) = self.received[start + 4..].get(..length) else { break };
            messages.push(body.to_vec());
            start += 4 + length;
        }
        self.received.drain(..start);
        Ok(messages)
    }
}

impl Seal {
    /// Checks what has come, and appends what the frames hold to `plain`.
    fn open(&mut self, plain: &mut Vec<u8>) -> Result<()> {
        let refuse = |error: WireError| Error::Refused(format!("the control stream: {error}"));
        let mut start = 0;
        while start < self.raw.len() {
            let left = self.connection.payload_left() as usize;
            if left > 0 {
                let end = self.raw.len().min(start + left);
                if self.connection.payload(&self.raw[start..end]).map_err(refuse)? == Landed::Torn {
                    return Err(refuse(WireError::BadChecksum));
                }
                plain.extend_from_slice(&self.raw[start..end]);
                start = end;
                continue;
            }
            let (used, event) = self.connection.feed(&self.secret, &self.raw[start..]).map_err(refuse)?;
            start += used;
            if used == 0 && event == Event::NeedMore {
                break;
            }
        }
        self.raw.drain(..start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::memory::duplicate;
    use crate::os::socket::stream_pair;

    fn pair() -> (Link, Link, OwnedFd) {
        let (one, other) = stream_pair().unwrap();
        let spare = duplicate(other.as_fd()).unwrap();
        let hub = Link::new(duplicate(one.as_fd()).unwrap(), one, true).unwrap();
        let agent = Link::new(duplicate(other.as_fd()).unwrap(), other, false).unwrap();
        (hub, agent, spare)
    }

    #[test]
    fn messages_survive_noise_before_the_greeting_and_any_cut() {
        let (mut hub, mut agent, raw) = pair();
        descriptor::write(raw.as_fd(), b"Welcome to the cluster!\nKUMIKI-AGENT-").unwrap();
        agent.send(b"first");
        agent.send(&[7; 100_000]);
        agent.send(b"");
        let mut got = Vec::new();
        while got.len() < 3 {
            got.extend(hub.receive().unwrap());
            agent.flush();
        }
        assert_eq!(got, [b"first".to_vec(), vec![7; 100_000], Vec::new()]);
        drop((agent, raw));
        assert!(hub.receive().unwrap().is_empty());
        assert!(hub.is_ended());
    }

    #[test]
    fn a_message_that_is_too_long_ends_the_stream() {
        let (mut hub, mut agent, raw) = pair();
        agent.flush();
        descriptor::write(raw.as_fd(), &u32::MAX.to_le_bytes()).unwrap();
        assert!(hub.receive().is_err());
        assert!(hub.is_ended());
    }
}
