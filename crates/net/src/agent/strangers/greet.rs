//! The handshake of control connections: an agent calls the hub, a stranger calls the agent of its node.

use crate::auth::{Identity, JobId, Purpose, Secret, NONCE_BYTES};
use crate::os::{self, descriptor, socket, time};
use crate::terms::Terms;
use crate::wire::{Connection, Event, WireError, HANDSHAKE_TIMEOUT_MS};
use crate::{Error, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The number under which both hub and agents answer: there is one at each address.
const ANSWERER: u32 = 0;

/// A control connection: its socket, its proven peer, and what was read behind the handshake.
pub(super) struct Greeted {
    pub(super) socket: OwnedFd,
    pub(super) connection: Connection,
    pub(super) peer: Identity,
    pub(super) rest: Vec<u8>,
}

/// A control connection whose handshake is under way.
pub(super) struct Greeting {
    socket: OwnedFd,
    connection: Connection,
    rest: Vec<u8>,
    peer: Option<Identity>,
}

impl Greeting {
    /// The side that was called.
    pub(super) fn accept(socket: OwnedFd, job: JobId) -> Result<Greeting> {
        let me = Identity { rank: ANSWERER, incarnation: 0 };
        let connection = Connection::accept(job, me, Purpose::Control, nonce()?, time::now_ms());
        Greeting::new(socket, connection)
    }

    fn new(socket: OwnedFd, connection: Connection) -> Result<Greeting> {
        descriptor::set_nonblocking(socket.as_fd(), true)?;
        Ok(Greeting { socket, connection, rest: Vec::new(), peer: None })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether it has said who it is, as somebody would who knows the secret.
    pub(super) fn has_claim(&self) -> bool {
        self.peer.is_some() || self.connection.claimed().is_some()
    }

    /// Reads what has come and answers it. True when the handshake is done.
    pub(super) fn advance(&mut self, secret: &Secret) -> Result<bool> {
        self.answer()?;
        let mut buffer = [0; 512];
        while self.peer.is_none() {
            match socket::receive(self.socket.as_fd(), &mut buffer, false) {
                Ok(0) => {
                    self.connection.end_of_input().map_err(refused)?;
                    return Err(Error::Closed("the other side ended the handshake".into()));
                }
                Ok(count) => self.feed(secret, &buffer[..count])?,
                Err(error) if error.would_block() => break,
                Err(error) => return Err(error),
            }
        }
        self.connection.expired(time::now_ms()).map_err(refused)?;
        Ok(self.peer.is_some())
    }

    /// The connection, when the handshake is done.
    pub(super) fn finish(self) -> Option<Greeted> {
        let Greeting { socket, connection, rest, peer } = self;
        peer.map(|peer| Greeted { socket, connection, peer, rest })
    }

    fn feed(&mut self, secret: &Secret, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() && self.peer.is_none() {
            let claimed = self.connection.claimed().is_some();
            let fed = self.connection.feed(secret, bytes);
            self.answer()?;
            let (used, event) = fed.map_err(refused)?;
            bytes = &bytes[used..];
            if !claimed && self.connection.claimed().is_some() {
                // A right HELLO: most likely one of ours, which may be slow. It gives itself the peer timeout.
                self.connection.set_deadline(time::now_ms() + patience_ms() * 3 / 2);
            }
            if let Event::Established(peer) = event {
                self.peer = Some(peer);
            }
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn answer(&mut self) -> Result<()> {
        while let Some(output) = self.connection.take_output() {
            // A record is far smaller than the buffer of a new socket, so it goes whole or not at all.
            if socket::send(self.socket.as_fd(), &output)? != output.len() {
                return Err(Error::Closed("the other side takes no bytes".into()));
            }
        }
        Ok(())
    }
}

/// Calls the hub or an agent, and proves who we are.
pub(super) fn call(socket: OwnedFd, job: JobId, secret: &Secret, me: Identity) -> Result<Greeted> {
    call_within(socket, job, secret, me, u64::MAX)
}

/// The same, for whoever has not so long.
pub(super) fn call_within(
    socket: OwnedFd,
    job: JobId,
    secret: &Secret,
    me: Identity,
    limit_ms: u64,
) -> Result<Greeted> {
    call_for(Purpose::Control, socket, job, secret, me, limit_ms)
}

/// The same, for another purpose.
pub(super) fn call_for(
    purpose: Purpose,
    socket: OwnedFd,
    job: JobId,
    secret: &Secret,
    me: Identity,
    limit_ms: u64,
) -> Result<Greeted> {
    let now_ms = time::now_ms();
    let mut connection = Connection::initiate(job, secret, me, ANSWERER, purpose, nonce()?, now_ms);
    connection.set_deadline(now_ms + patience_ms().min(limit_ms));
    let mut greeting = Greeting::new(socket, connection)?;
    while !greeting.advance(secret)? {
        descriptor::poll(&[(greeting.as_fd(), false)], 50)?;
    }
    greeting.finish().ok_or_else(|| Error::Closed("the handshake is not done".into()))
}

/// How long whoever belongs to the job may take, as the environment says.
fn patience_ms() -> u64 {
    Terms::peer_timeout_ms().map_or(HANDSHAKE_TIMEOUT_MS, u64::from).max(HANDSHAKE_TIMEOUT_MS)
}

fn nonce() -> Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    os::random_bytes(&mut nonce)?;
    Ok(nonce)
}

fn refused(error: WireError) -> Error {
    match error {
        WireError::Closed => Error::Closed("the other side ended the handshake".into()),
        other => Error::Refused(other.to_string()),
    }
}
