//! An agent whose connection to the hub broke comes back: both prove once more who they are, and say how much of the stream has come
//! to them. Then it goes on where it was cut.

use super::greet::{self, Greeted};
use crate::auth::{Identity, JobId, Purpose, Secret};
use crate::os::{descriptor, socket, time};
use crate::route::Route;
use crate::wire::{Connection, Event, Resumption};
use crate::{Error, Result};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How long the answer may take on a direct way.
const ANSWER_MS: u64 = 1_000;

/// A connection on which a stream is to go on.
pub(super) struct Returning {
    socket: OwnedFd,
    connection: Connection,
    rest: Vec<u8>,
    until_ms: u64,
}

impl Returning {
    /// The handshake is done; the other side may take so long to say how far the stream has come.
    pub(super) fn new(greeted: Greeted, patience_ms: u64) -> Returning {
        let Greeted { socket, connection, rest, .. } = greeted;
        Returning { socket, connection, rest, until_ms: time::now_ms() + patience_ms }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Says how far the stream has come here.
    pub(super) fn say(&mut self, ours: Resumption) -> Result<()> {
        let sealed = self.connection.resume(ours).map_err(|error| Error::Closed(error.to_string()))?;
        // It is far smaller than the buffer of a new socket, so it goes whole or not at all.
        match socket::send(self.socket.as_fd(), &sealed)? {
            sent if sent == sealed.len() => Ok(()),
            _ => Err(Error::Closed("the other side takes no bytes".into())),
        }
    }

    /// What the other side says, if it has. Nothing is read that comes behind it.
    pub(super) fn hear(&mut self, secret: &Secret) -> Result<Option<Resumption>> {
        loop {
            let event = if self.rest.is_empty() {
                let mut frame = [0; 128];
                let most = self.connection.missing().min(frame.len());
                match socket::receive(self.socket.as_fd(), &mut frame[..most], false) {
                    Ok(0) => return Err(Error::Closed("the other side has hung up".into())),
                    Ok(count) => self.feed(secret, &frame[..count])?.1,
                    Err(error) if error.would_block() && time::now_ms() < self.until_ms => return Ok(None),
                    Err(error) => return Err(error),
                }
            } else {
                let rest = std::mem::take(&mut self.rest);
                let (used, event) = self.feed(secret, &rest)?;
                self.rest = rest[used..].to_vec();
                event
            };
            match event {
                Event::NeedMore => {}
                Event::Resume(theirs) if self.rest.is_empty() => return Ok(Some(theirs)),
                _ => return Err(Error::Refused("a stream was to go on, and something else came".into())),
            }
        }
    }

    fn feed(&mut self, secret: &Secret, bytes: &[u8]) -> Result<(usize, Event)> {
        self.connection.feed(secret, bytes).map_err(|error| Error::Refused(error.to_string()))
    }

    /// The socket, on which the stream goes on.
    pub(super) fn into_socket(self) -> OwnedFd {
        self.socket
    }
}

/// Calls the hub again. What it says of the stream, and the socket on which that goes on; nothing if it has given this node up.
pub(super) fn call(
    route: &Route,
    hub: SocketAddr,
    job: JobId,
    secret: &Secret,
    me: Identity,
    ours: Resumption,
) -> Result<Option<(OwnedFd, Resumption)>> {
    let stream = route.connect(&hub)?;
    let patience_ms = route.longer(ANSWER_MS);
    let greeted = greet::call_for(Purpose::MendControl, stream, job, secret, me, patience_ms)?;
    let mut returning = Returning::new(greeted, patience_ms);
    returning.say(ours)?;
    loop {
        match returning.hear(secret)? {
            Some(theirs) => return Ok(theirs.known.then(|| (returning.into_socket(), theirs))),
            None => descriptor::poll(&[(returning.as_fd(), false)], 50).map(drop)?,
        }
    }
}
