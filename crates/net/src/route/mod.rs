//! How a stream to an address of a job is opened: directly, or by a detour where no direct connection can be.
//!
//! Whoever opens a connection for programs that have joined does it here. What is spoken over the stream, and how the two ends prove
//! to each other who they are, is the same on every way.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the ways |
//! | `files/` | through files, where a folder is all that the machines share |
//! | `gate.rs` | through a relay, as those see it who use one |
//! | `relay.rs` | the relay |
//! | `words.rs` | what the two say to each other: values |

pub mod files;
mod gate;
pub mod relay;
#[cfg(test)]
mod tests;
pub mod words;

use crate::codec::{bad, Reader, Writer};
use crate::os::socket;
use crate::{Error, Result};
use gate::Gate;
pub use gate::{Opening, PORT};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// How long an address that is called directly may take to answer, where somebody waits for it.
const CONNECT_MS: u64 = 1_000;

/// The way to the other processes of a job.
#[derive(Clone, Debug, Default)]
pub enum Route {
    /// Each address is called as it is.
    #[default]
    Direct,
    /// Addresses beyond the networks of this machine are reached through a relay.
    Relay(Arc<Gate>),
}

/// A stream that has begun to be opened.
pub struct Started {
    /// The socket, which does not block.
    pub socket: OwnedFd,
    /// What has to be done on it before its bytes are those of the other end.
    pub opening: Option<Box<Opening>>,
}

impl Route {
    /// Through the relay at `host:port`, which knows the same secret.
    pub fn through(relay: &str, secret: &[u8]) -> Result<Route> {
        Ok(Route::Relay(Arc::new(Gate::new(relay, gate::key(secret))?)))
    }

    /// Opens a stream to an address, and waits for it.
    pub fn connect(&self, address: &SocketAddr) -> Result<OwnedFd> {
        match self {
            Route::Relay(gate) if !gate.is_near(address) => gate.connect(address),
            _ => TcpStream::connect_timeout(address, Duration::from_millis(CONNECT_MS))
                .map(OwnedFd::from)
                .map_err(|error| Error::from_io("connect", &error)),
        }
    }

    /// Begins to open a stream to an address, over several networks if that is wanted and can be.
    pub fn start(&self, address: &SocketAddr, multipath: bool) -> Result<Started> {
        match self {
            Route::Relay(gate) if !gate.is_near(address) => {
                let (socket, opening) = gate.start(address)?;
                Ok(Started { socket, opening: Some(opening) })
            }
            _ => Ok(Started { socket: socket::start_connect(address, multipath)?, opening: None }),
        }
    }

    /// For a process that shall go the same way; only over a line that nobody else hears.
    pub(crate) fn write(&self, writer: Writer) -> Writer {
        match self {
            Route::Direct => writer.byte(0),
            Route::Relay(gate) => writer.byte(1).text(gate.name()).fixed(gate.key().expose()),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Route> {
        match reader.byte()? {
            0 => Ok(Route::Direct),
            1 => {
                let name = reader.text()?;
                let key = crate::auth::Secret::from_bytes(reader.fixed()?);
                Ok(Route::Relay(Arc::new(Gate::new(&name, key)?)))
            }
            _ => Err(bad("there is no such way")),
        }
    }
}
