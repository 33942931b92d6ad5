//! Messages between an agent and one of its ranks: one packet each, over a socket pair that keeps boundaries.
//!
//! The rank's end of the pair is inherited (or passed by descriptor), so nobody else can reach it.

use crate::auth::JobId;
use crate::codec::{bad, Reader, Writer};
use crate::os::socket::Passed;
use crate::os::{descriptor, socket, time};
use crate::shm::world::Cause;
use crate::{Error, Rank, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of a packet.
pub const MAX_PACKET_BYTES: usize = 4096;
/// The most bytes of the text in a packet; longer texts are cut.
pub const MAX_TEXT_BYTES: usize = 3072;
/// How long a send may wait for an agent that does not read.
const SEND_TIMEOUT_MS: u64 = 5_000;

/// What a rank tells its agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToAgent {
    /// It wants to join the world. The process id may be that of a descendant of the process that was started.
    Attach {
        /// The process that joins.
        pid: u32,
    },
    /// It has finalized.
    Leave,
    /// The job must end.
    Abort {
        /// The exit code of the job.
        code: u8,
        /// What the user should read.
        message: String,
    },
    /// The world shall start over, with this rank number for this process.
    Reset {
        /// The rank it wants to be.
        new_rank: u32,
    },
    /// It cannot reach a peer any more.
    ReportLost {
        /// Who is out of reach.
        rank: Rank,
        /// Why.
        cause: Cause,
    },
}

/// What an agent tells a rank.
#[derive(Debug)]
pub enum FromAgent {
    /// The rank is in: the arena of its node and who it is.
    Welcome {
        /// The node's arena.
        arena: OwnedFd,
        /// Its number in the world.
        rank: Rank,
        /// Its index on its node.
        local: u32,
        /// The job.
        job: JobId,
        /// A sealed memfd with the job's secret, which itself is never written to a socket.
        secret: OwnedFd,
    },
    /// The rank cannot join, and why.
    Refused {
        /// What the user should read.
        why: String,
    },
    /// A peer's connection, its HELLO still unread.
    Socket(OwnedFd),
    /// Something in the arena has changed: a loss, a leave, the end of the job.
    Notice,
    /// The world has started over.
    ResetDone {
        /// The number of this process from now on.
        rank: Rank,
    },
    /// The world cannot start over.
    ResetRefused {
        /// What the user should read.
        why: String,
    },
}

impl ToAgent {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToAgent::Attach { pid } => Writer::new(1).word(*pid),
            ToAgent::Leave => Writer::new(2),
            ToAgent::Abort { code, message } => Writer::new(3).byte(*code).text(cut(message)),
            ToAgent::Reset { new_rank } => Writer::new(4).word(*new_rank),
            ToAgent::ReportLost { rank, cause } => Writer::new(5).word(rank.0).byte(cause.0),
        }
        .finish()
    }

    /// The message of a packet.
    pub fn decode(bytes: &[u8]) -> Result<ToAgent> {
        let mut reader = Reader::new(bytes);
        let message = match reader.byte()? {
            1 => ToAgent::Attach { pid: reader.word()? },
            2 => ToAgent::Leave,
            3 => ToAgent::Abort { code: reader.byte()?, message: reader.text()? },
            4 => ToAgent::Reset { new_rank: reader.word()? },
            5 => ToAgent::ReportLost { rank: Rank(reader.word()?), cause: Cause(reader.byte()?) },
            _ => return Err(bad("its kind is unknown")),
        };
        reader.end()?;
        Ok(message)
    }
}

/// A packet for a rank, ready to be sent.
#[derive(Debug)]
pub(in crate::agent) struct Packet {
    pub(in crate::agent) bytes: Vec<u8>,
    pub(in crate::agent) passed: Vec<OwnedFd>,
}

/// The kind of a [`Packet::waiting`].
const WAITING: u8 = 7;

impl Packet {
    /// That the world cannot begin yet, and why; nothing if that is over. To the rank it is one of many notices, whose text
    /// is kept for as long as it waits ([`Channel::waiting`]).
    pub(in crate::agent) fn waiting(why: &str) -> Packet {
        Packet { bytes: Writer::new(WAITING).text(cut(why)).finish(), passed: Vec::new() }
    }
}

impl From<FromAgent> for Packet {
    fn from(message: FromAgent) -> Packet {
        let (writer, passed) = match message {
            FromAgent::Welcome { arena, rank, local, job, secret } => {
                (Writer::new(1).word(rank.0).word(local).long(job.0), vec![arena, secret])
            }
            FromAgent::Refused { why } => (Writer::new(2).text(cut(&why)), Vec::new()),
            FromAgent::Socket(socket) => (Writer::new(3), vec![socket]),
            FromAgent::Notice => (Writer::new(4), Vec::new()),
            FromAgent::ResetDone { rank } => (Writer::new(5).word(rank.0), Vec::new()),
            FromAgent::ResetRefused { why } => (Writer::new(6).text(cut(&why)), Vec::new()),
        };
        Packet { bytes: writer.finish(), passed }
    }
}

impl FromAgent {
    /// The message of a packet and of the descriptors that came with it.
    pub fn decode(bytes: &[u8], [first, second]: Passed) -> Result<FromAgent> {
        let need = |passed: Option<OwnedFd>| passed.ok_or_else(|| bad("its descriptor is missing"));
        let mut reader = Reader::new(bytes);
        let message = match reader.byte()? {
            1 => FromAgent::Welcome {
                rank: Rank(reader.word()?),
                local: reader.word()?,
                job: JobId(reader.long()?),
                arena: need(first)?,
                secret: need(second)?,
            },
            2 => FromAgent::Refused { why: reader.text()? },
            3 => FromAgent::Socket(need(first)?),
            4 => FromAgent::Notice,
            5 => FromAgent::ResetDone { rank: Rank(reader.word()?) },
            6 => FromAgent::ResetRefused { why: reader.text()? },
            _ => return Err(bad("its kind is unknown")),
        };
        reader.end()?;
        Ok(message)
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A rank's end of the line to its agent. Clones share the one socket.
#[derive(Clone, Debug)]
pub struct Channel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    socket: OwnedFd,
    closed: AtomicBool,
    /// Why the world had not begun when the agent last said so.
    waiting: Mutex<String>,
}

impl Channel {
    /// Takes the rank's end of the socket pair; close-on-exec from now on.
    pub fn new(socket: OwnedFd) -> Result<Channel> {
        descriptor::set_close_on_exec(socket.as_fd(), true)?;
        descriptor::set_nonblocking(socket.as_fd(), true)?;
        Ok(Channel(Arc::new(Inner { socket, closed: AtomicBool::new(false), waiting: Mutex::default() })))
    }

    /// Sends one message. Waits, within a limit, when the agent is slow to read.
    pub fn send(&self, message: &ToAgent) -> Result<()> {
        let bytes = message.encode();
        let start = time::now_ms();
        loop {
            match socket::send_message(self.0.socket.as_fd(), &bytes, &[]) {
                Ok(_) => return Ok(()),
                Err(error) if error.would_block() => {}
                Err(Error::System { errno: libc::EPIPE | libc::ECONNRESET, .. }) => {
                    self.0.closed.store(true, Ordering::Relaxed);
                    return Err(agent_gone());
                }
                Err(error) => return Err(error),
            }
            let after_ms = time::now_ms() - start;
            if after_ms >= SEND_TIMEOUT_MS {
                return Err(Error::Timeout { what: "waiting for the node agent to read".into(), after_ms });
            }
            descriptor::poll(&[(self.0.socket.as_fd(), true)], 100)?;
        }
    }

    /// The next message, `None` if there is none now.
    pub fn try_receive(&self) -> Result<Option<FromAgent>> {
        let mut buffer = [0; MAX_PACKET_BYTES];
        let mut receive = || socket::receive_message(self.0.socket.as_fd(), &mut buffer, false);
        let received = match receive() {
            // The agent closed with packets unread. That is reported once; what it sent can still be read.
            Err(Error::System { errno: libc::ECONNRESET, .. }) => receive(),
            other => other,
        };
        match received {
            Ok((0, _)) => {
                self.0.closed.store(true, Ordering::Relaxed);
                Err(agent_gone())
            }
            Ok((length, _)) if buffer[0] == WAITING => {
                let mut reader = Reader::new(&buffer[1..length]);
                *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner) = reader.text()?;
                Ok(Some(FromAgent::Notice))
            }
            Ok((length, passed)) => FromAgent::decode(&buffer[..length], passed).map(Some),
            Err(error) if error.would_block() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next message; waits for it until `deadline_ms` of the monotonic clock at most.
    pub fn receive(&self, deadline_ms: u64) -> Result<Option<FromAgent>> {
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(Some(message));
            }
            let left_ms = deadline_ms.saturating_sub(time::now_ms());
            if left_ms == 0 {
                return Ok(None);
            }
            descriptor::poll(&[(self.as_fd(), false)], left_ms.min(1_000) as i32)?;
        }
    }

    /// Why the world has not begun, as the agent last said; nothing if it has not said.
    pub fn waiting(&self) -> String {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the agent is gone, as far as a send or a receive has noticed.
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// The descriptor, to wait on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

fn agent_gone() -> Error {
    Error::Closed("the node agent of this process is gone; the job is ending".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::memory;
    use proptest::prelude::*;

    fn to_agent() -> impl Strategy<Value = ToAgent> {
        prop_oneof![
            any::<u32>().prop_map(|pid| ToAgent::Attach { pid }),
            Just(ToAgent::Leave),
            (any::<u8>(), ".{0,80}").prop_map(|(code, message)| ToAgent::Abort { code, message }),
            any::<u32>().prop_map(|new_rank| ToAgent::Reset { new_rank }),
            (any::<u32>(), any::<u8>())
                .prop_map(|(rank, cause)| ToAgent::ReportLost { rank: Rank(rank), cause: Cause(cause) }),
        ]
    }

    proptest! {
        #[test]
        fn what_a_rank_says_survives_the_packet(message in to_agent()) {
            prop_assert_eq!(ToAgent::decode(&message.encode()).unwrap(), message);
        }

        #[test]
        fn no_packet_makes_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ToAgent::decode(&bytes);
            let _ = FromAgent::decode(&bytes, Passed::default());
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let message = ToAgent::Abort { code: 1, message: "é".repeat(MAX_TEXT_BYTES) };
        assert!(message.encode().len() <= MAX_PACKET_BYTES);
        assert!(ToAgent::decode(&message.encode()).is_ok());
    }

    #[test]
    fn a_welcome_arrives_with_its_descriptors_and_an_end_is_noticed() {
        let (agent, rank) = socket::packet_pair().unwrap();
        let channel = Channel::new(rank).unwrap();
        assert!(channel.try_receive().unwrap().is_none());
        let packet = Packet::from(FromAgent::Welcome {
            arena: memory::create_sealed(c"arena", 4096).unwrap(),
            rank: Rank(3),
            local: 1,
            job: JobId(9),
            secret: memory::seal_bytes(c"secret", &[5; 32]).unwrap(),
        });
        assert!(!packet.bytes.windows(4).any(|bytes| bytes == [5; 4]), "no secret is written to a socket");
        let passed: Vec<_> = packet.passed.iter().map(|fd| fd.as_fd()).collect();
        socket::send_message(agent.as_fd(), &packet.bytes, &passed).unwrap();
        match channel.try_receive().unwrap().unwrap() {
            FromAgent::Welcome { rank, local, job, secret, .. } => {
                let secret = memory::read_start(secret.as_fd()).unwrap();
                assert_eq!((rank, local, job, secret), (Rank(3), 1, JobId(9), [5; 32]));
            }
            other => panic!("{other:?}"),
        }
        drop(agent);
        assert!(matches!(channel.try_receive(), Err(Error::Closed(_))));
        assert!(channel.is_closed());
        assert!(matches!(channel.send(&ToAgent::Leave), Err(Error::Closed(_))));
    }
}
