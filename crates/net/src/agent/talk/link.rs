//! The byte stream between the hub and an agent: whole messages in, whole messages out, never blocking.
//!
//! Each message goes behind its length in four bytes. The stream of an agent that a launcher started opens with
//! [`GREETING`]; it runs over an inherited socket or ssh. A stream over a bare network is *sealed*: its bytes travel
//! in the authenticated frames of [`crate::wire`], after the handshake. The header of each frame holds the hash of its payload
//! and vouches for it. Nothing of a frame is looked at before all of it has been checked. What was sent on a sealed stream is kept until
//! the other side has acknowledged it, so that the stream can go on over another connection ([`Link::go_on`]).

use super::protocol::{GREETING, MAX_MESSAGE_BYTES};
use crate::auth::Secret;
use crate::os::{descriptor, socket};
use crate::wire::frame::FIRST_USER_KIND;
use crate::wire::{Connection, Event, Header, Kept, Landed, Resumption, WireError};
use crate::{Error, Result};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

/// What a login script may print before the greeting.
const MAX_NOISE_BYTES: usize = 64 << 10;
/// The most payload of a frame of a sealed stream.
const FRAME_BYTES: usize = 256 << 10;

/// Messages are put into pieces of about so many bytes.
const PIECE_BYTES: usize = 16 << 10;
/// The other side of a sealed stream is told how much has come after so many bytes.
const ACKNOWLEDGE_BYTES: u64 = 16 << 10;

/// A message for many agents that is shorter is copied for each: to share it would take as much.
const LEAST_SHARED_BYTES: usize = 1024;

/// A message for many agents: its bytes are there once, however many have not taken it yet.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// The message behind its length.
    bytes: Vec<u8>,
    /// The headers of its frames, not sealed, if a sealed stream has needed them.
    headers: OnceLock<Vec<Header>>,
}

impl Shared {
    /// Takes the bytes of a message.
    pub fn new(message: &[u8]) -> Shared {
        let length = (message.len() as u32).to_le_bytes();
        Shared(Arc::new(Parts { bytes: [&length[..], message].concat(), headers: OnceLock::new() }))
    }

    fn headers(&self) -> &[Header] {
        let make = || self.0.bytes.chunks(FRAME_BYTES).map(header).collect();
        self.0.headers.get_or_init(make)
    }
}

/// A piece of what waits to be written.
#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(Shared, Range<usize>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(shared, range) => &shared.0.bytes[range.clone()],
        }
    }
}

/// One end of a control stream.
#[derive(Debug)]
pub struct Link {
    input: OwnedFd,
    output: OwnedFd,
    received: Vec<u8>,
    queue: Kept<Piece>,
    /// Memory of a piece that has gone, for the next.
    spare: Vec<u8>,
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
    /// The frame that is coming in, and what has come of its payload.
    frame: Header,
    partial: Vec<u8>,
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
        let mut link = Link {
            input,
            output,
            received: Vec::new(),
            queue: Kept::default(),
            spare: Vec::new(),
            expects_greeting,
            ended: false,
            seal: None,
        };
        if !expects_greeting {
            link.queue_bytes(GREETING);
        }
        Ok(link)
    }

    /// A stream over a connection whose handshake is done; `raw` is what has been read behind it.
    pub fn sealed(socket: OwnedFd, connection: Connection, secret: Secret, raw: Vec<u8>) -> Result<Link> {
        let mut link = Link::new(crate::os::memory::duplicate(socket.as_fd())?, socket, true)?;
        link.expects_greeting = false;
        link.queue.took(raw.len() as u64);
        link.seal =
            Some(Box::new(Seal { connection, secret, raw, frame: Header::default(), partial: Vec::new() }));
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
        self.queue.unsent_bytes() as usize
    }

    /// How both sides name a sealed stream.
    pub fn session(&self) -> Option<u64> {
        self.seal.as_ref().and_then(|seal| seal.connection.session())
    }

    /// How far the stream has come, if it can go on over another connection.
    pub fn resumption(&self) -> Option<Resumption> {
        let session = self.session()?;
        Some(Resumption { session, received: self.queue.received(), known: true })
    }

    /// The stream goes on over another socket, behind what the other side says that it has.
    pub fn go_on(&mut self, socket: OwnedFd, theirs: Resumption) -> Result<()> {
        let refuse = || Error::Refused("the control stream: the other side has what was not sent".into());
        descriptor::set_nonblocking(socket.as_fd(), true)?;
        let input = crate::os::memory::duplicate(socket.as_fd())?;
        if Some(theirs.session) != self.session() || !self.queue.rewind(theirs.received) {
            return Err(refuse());
        }
        (self.input, self.output, self.ended) = (input, socket, false);
        self.flush();
        Ok(())
    }

    /// Queues a message and writes what fits.
    pub fn send(&mut self, message: &[u8]) {
        let length = (message.len() as u32).to_le_bytes();
        if self.seal.is_none() {
            self.queue_bytes(&length);
            self.queue_bytes(message);
        } else {
            for part in [&length[..], message].concat().chunks(FRAME_BYTES) {
                self.queue_header(header(part));
                self.queue_bytes(part);
            }
        }
        self.flush();
    }

    /// The same for a message that others get too.
    pub fn send_shared(&mut self, message: &Shared) {
        let bytes = message.0.bytes.len();
        if bytes < LEAST_SHARED_BYTES {
            return self.send(&message.0.bytes[4..]);
        }
        let frame_bytes = if self.seal.is_some() { FRAME_BYTES } else { bytes };
        for (index, start) in (0..bytes).step_by(frame_bytes).enumerate() {
            if self.seal.is_some() {
                self.queue_header(message.headers()[index]);
            }
            let range = start..bytes.min(start + frame_bytes);
            let count = range.len() as u64;
            self.queue.push(Piece::Shared(message.clone(), range), count);
        }
        self.flush();
    }

    /// Queues the header of a frame of a sealed stream.
    fn queue_header(&mut self, header: Header) {
        let Some(seal) = &mut self.seal else { return };
        match seal.connection.seal(header) {
            Ok(sealed) => self.queue_bytes(&sealed),
            Err(_) => self.ended = true,
        }
    }

    fn queue_bytes(&mut self, bytes: &[u8]) {
        match self.queue.last() {
            Some(Piece::Own(last)) if last.len() < PIECE_BYTES => {
                last.extend_from_slice(bytes);
                self.queue.grow(bytes.len() as u64);
            }
            _ => {
                // Most messages are short: the memory of one serves the next.
                let mut piece = std::mem::take(&mut self.spare);
                piece.extend_from_slice(bytes);
                self.queue.push(Piece::Own(piece), bytes.len() as u64);
            }
        }
    }

    /// Writes what fits. When nobody reads any more the bytes are dropped, or, on a sealed stream, kept; what the other side has said
    /// before can still be read, so only reading finds the end.
    pub fn flush(&mut self) {
        let is_sealed = self.seal.is_some();
        if is_sealed && self.ended {
            return;
        }
        while let Some((piece, from)) = self.queue.unsent() {
            let left = &piece.bytes()[from as usize..];
            // A sealed stream is a socket, which may be of a program that knows nothing of signals.
            let written = if is_sealed {
                socket::send(self.output.as_fd(), left)
            } else {
                descriptor::write(self.output.as_fd(), left)
            };
            match written {
                Ok(count) => self.queue.sent(count as u64),
                Err(error) if error.would_block() => break,
                Err(_) if is_sealed => break,
                Err(_) => self.queue.clear().for_each(drop),
            }
        }
        if self.seal.is_none() {
            self.queue.acknowledge_sent();
        }
        self.release();
    }

    /// Gives back the memory of what the other side has.
    fn release(&mut self) {
        while let Some(piece) = self.queue.release() {
            if let Piece::Own(mut bytes) = piece {
                bytes.clear();
                if bytes.capacity() <= 2 * PIECE_BYTES {
                    self.spare = bytes;
                }
            }
        }
    }

    /// Tells the other side of a sealed stream how much has come, if that is due.
    fn acknowledge(&mut self) {
        let Some(seal) = self.seal.as_mut().filter(|_| self.queue.untold() >= ACKNOWLEDGE_BYTES) else {
            return;
        };
        if let Ok(sealed) = seal.connection.acknowledge(self.queue.tell()) {
            self.queue_bytes(&sealed);
            self.flush();
        }
    }

    /// Reads what is there and returns the whole messages. Bad input is an error and the end of the stream.
    pub fn receive(&mut self) -> Result<Vec<Vec<u8>>> {
        // Small, for it is on the stack of a thread that does nothing else with so much.
        let mut buffer = [0; 4 << 10];
        // A bound, so that one busy stream does not starve the others.
        for _ in 0..64 {
            match descriptor::read(self.input.as_fd(), &mut buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    let place = self.seal.as_mut().map_or(&mut self.received, |seal| &mut seal.raw);
                    place.extend_from_slice(&buffer[..count]);
                    self.queue.took(count as u64);
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
            if let Err(error) = seal.open(&mut self.received, &mut self.queue) {
                self.ended = true;
                return Err(error);
            }
            self.release();
            self.acknowledge();
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

/// The header of a frame of a sealed stream. Its words are the hash of the payload: a checksum guards against accidents only,
/// and nobody in the network may change what agents are told.
fn header(part: &[u8]) -> Header {
    let hash = *blake3::hash(part).as_bytes();
    let word =
        |index: usize| hash[8 * index..][..8].iter().rev().fold(0, |word, &byte| word << 8 | byte as u64);
    let (a, b, c, d) = (word(0), word(1), word(2), word(3));
    Header { kind: FIRST_USER_KIND, a, b, c, d, ..Header::default() }.with_payload(part)
}

impl Seal {
    /// Checks what has come, and appends what whole frames hold to `plain`. What the other side has is noted.
    fn open(&mut self, plain: &mut Vec<u8>, queue: &mut Kept<Piece>) -> Result<()> {
        let refuse = |error: WireError| Error::Refused(format!("the control stream: {error}"));
        let mut start = 0;
        while start < self.raw.len() {
            let left = self.connection.payload_left() as usize;
            if left > 0 {
                let end = self.raw.len().min(start + left);
                let landed = self.connection.payload(&self.raw[start..end]).map_err(refuse)?;
                self.partial.extend_from_slice(&self.raw[start..end]);
                start = end;
                match landed {
                    Landed::Partly => {}
                    Landed::Wholly if self.frame == header(&self.partial) => plain.append(&mut self.partial),
                    Landed::Wholly | Landed::Torn => return Err(refuse(WireError::BadChecksum)),
                }
                continue;
            }
            let (used, event) = self.connection.feed(&self.secret, &self.raw[start..]).map_err(refuse)?;
            start += used;
            match event {
                Event::NeedMore if used == 0 => break,
                Event::Frame(header) if header.payload_bytes > 0 => self.frame = header,
                Event::NeedMore => {}
                Event::Acknowledged(bytes) if queue.acknowledge(bytes) => {}
                _ => {
                    // It cannot go on elsewhere either.
                    self.connection.refuse("no hub and no agent sends this");
                    return Err(Error::Refused(
                        "the control stream: a frame that no hub and no agent sends".into(),
                    ));
                }
            }
        }
        self.raw.drain(..start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Identity, JobId, Purpose};
    use crate::os::heap;
    use crate::os::memory::duplicate;
    use crate::os::socket::stream_pair;
    use crate::wire::frame::checksum;

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
    fn a_message_for_many_is_there_once_and_keeps_its_place_among_the_others() {
        let message = Shared::new(&(0..700_000u32).map(|n| n as u8).collect::<Vec<u8>>());
        let streams: Vec<_> = (0..20).map(|_| pair()).collect();
        let mut streams: Vec<_> = streams.into_iter().map(|(hub, agent, _)| (hub, agent)).collect();
        let before = heap::bytes();
        for (hub, _) in &mut streams {
            hub.send(b"before");
            hub.send_shared(&message);
            hub.send(b"behind");
            assert!(hub.backlog_bytes() > 100_000, "it does not fit into the socket");
        }
        assert!(heap::bytes() - before < 20 * 1024, "{} bytes", heap::bytes() - before);
        for (hub, agent) in &mut streams {
            let mut got = Vec::new();
            while got.len() < 3 {
                got.extend(agent.receive().unwrap());
                hub.flush();
            }
            assert_eq!(got[0], b"before");
            assert_eq!(got[1], message.0.bytes[4..]);
            assert_eq!(got[2], b"behind");
            assert_eq!(hub.backlog_bytes(), 0);
        }
    }

    /// A sealed stream, and somebody in the network who writes to it instead of its other end.
    fn overheard() -> (Link, Connection, OwnedFd) {
        let (job, secret) = (JobId(1), Secret::from_bytes([7; 32]));
        let [one, other] = [1, 2].map(|rank| Identity { rank, incarnation: 0 });
        let mut caller = Connection::initiate(job, &secret, one, 2, Purpose::Control, [1; 32], 0);
        let mut called = Connection::accept(job, other, Purpose::Control, [2; 32], 0);
        called.feed(&secret, &caller.take_output().unwrap()).unwrap();
        caller.feed(&secret, &called.take_output().unwrap()).unwrap();
        called.feed(&secret, &caller.take_output().unwrap()).unwrap();
        let (socket, network) = stream_pair().unwrap();
        (Link::sealed(socket, called, secret, Vec::new()).unwrap(), caller, network)
    }

    /// Two messages in one frame.
    const TWO: &[u8] = b"\x05\0\0\0first\x0e\0\0\0second message";

    #[test]
    fn a_control_message_is_believed_only_when_its_frame_has_been_checked() {
        for damaged in [false, true] {
            let (mut link, mut sender, network) = overheard();
            descriptor::write(network.as_fd(), &sender.seal(header(TWO)).unwrap()).unwrap();
            let (most, last) = TWO.split_at(TWO.len() - 1);
            descriptor::write(network.as_fd(), most).unwrap();
            assert!(
                link.receive().unwrap().is_empty(),
                "the first message is there, but nobody vouches for it"
            );
            descriptor::write(network.as_fd(), &[last[0] ^ damaged as u8]).unwrap();
            match link.receive() {
                Ok(messages) => assert_eq!((damaged, messages.len()), (false, 2)),
                Err(_) => assert!(damaged && link.is_ended()),
            }
        }
    }

    /// Changes four bytes at `at` such that the checksum becomes `wanted`.
    fn mend_checksum(bytes: &mut [u8], at: usize, wanted: u32) {
        // The checksum is linear: each bit that is flipped flips the same bits of it, whatever the others are.
        let now = checksum(bytes);
        let mut flips: Vec<(u32, u32)> = (0..32)
            .map(|bit| {
                bytes[at + bit / 8] ^= 1 << (bit % 8);
                let flipped = checksum(bytes) ^ now;
                bytes[at + bit / 8] ^= 1 << (bit % 8);
                (flipped, 1 << bit)
            })
            .collect();
        let (mut left, mut chosen) = (now ^ wanted, 0u32);
        for place in (0..32).rev() {
            let index = flips.iter().position(|(flipped, _)| flipped >> place == 1).unwrap();
            let (flipped, bits) = flips.swap_remove(index);
            for other in flips.iter_mut().filter(|(other, _)| other >> place & 1 == 1) {
                *other = (other.0 ^ flipped, other.1 ^ bits);
            }
            if left >> place & 1 == 1 {
                (left, chosen) = (left ^ flipped, chosen ^ bits);
            }
        }
        bytes[at..at + 4].iter_mut().zip(chosen.to_le_bytes()).for_each(|(byte, bits)| *byte ^= bits);
    }

    #[test]
    fn a_control_message_that_was_changed_and_keeps_its_checksum_is_refused() {
        let (mut link, mut sender, network) = overheard();
        let sealed = sender.seal(header(TWO)).unwrap();
        let mut forged = TWO.to_vec();
        forged[4..9].copy_from_slice(b"worst");
        mend_checksum(&mut forged, TWO.len() - 4, checksum(TWO));
        assert_eq!(checksum(&forged), checksum(TWO));
        descriptor::write(network.as_fd(), &sealed).unwrap();
        descriptor::write(network.as_fd(), &forged).unwrap();
        assert!(link.receive().is_err() && link.is_ended());
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
