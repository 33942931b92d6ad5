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
use crate::os::{descriptor, socket};
use crate::{Error, Result};
use files::{Files, Listening, Target};
use gate::Gate;
pub use gate::{Opening, PORT};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long an address that is called directly may take to answer, where somebody waits for it…
const CONNECT_MS: u64 = 1_000;
/// …and where there are files for those that do not.
const TRY_MS: u64 = 500;
/// How long it may take until what was sent is on its way.
const SETTLE_MS: u64 = 10_000;

/// The way to the other processes of a job.
#[derive(Clone, Debug, Default)]
pub enum Route {
    /// Each address is called as it is.
    #[default]
    Direct,
    /// Addresses beyond the networks of this machine are reached through a relay.
    Relay(Arc<Gate>),
    /// All go through files; or those that no direct connection reaches.
    Files(Arc<Files>, Sockets),
}

/// What sockets are good for beside files.
#[derive(Clone, Debug)]
pub enum Sockets {
    /// Nothing.
    Never,
    /// For machines that they reach: those that were tried, and whether they were reached.
    Tried(Arc<Mutex<HashMap<IpAddr, bool>>>),
}

/// A stream that has begun to be opened.
pub struct Started {
    /// The socket, which does not block.
    pub socket: OwnedFd,
    /// What has to be done on it before its bytes are those of the other end.
    pub opening: Option<Box<Opening>>,
    /// Whether its other end is a thread of this process, whatever lies behind that.
    pub is_local: bool,
}

impl Route {
    /// Through the relay at `host:port`, which knows the same secret.
    pub fn through(relay: &str, secret: &[u8]) -> Result<Route> {
        Ok(Route::Relay(Arc::new(Gate::new(relay, gate::key(secret))?)))
    }

    /// Through the files of a folder; over sockets, too, if that is so wanted and where they reach.
    pub fn by_files(files: Files, with_sockets: bool) -> Route {
        let sockets = if with_sockets { Sockets::Tried(Arc::default()) } else { Sockets::Never };
        Route::Files(Arc::new(files), sockets)
    }

    /// The files through which an address is reached, if it is.
    fn files_to(&self, address: &SocketAddr) -> Option<&Files> {
        let Route::Files(files, sockets) = self else { return None };
        match sockets {
            _ if Files::is_listener(address) => Some(files),
            Sockets::Never => Some(files),
            Sockets::Tried(tried) => (!reaches(tried, address)).then_some(files),
        }
    }

    /// Opens a stream to an address, and waits for it.
    pub fn connect(&self, address: &SocketAddr) -> Result<OwnedFd> {
        if let Some(files) = self.files_to(address) {
            return files.open(address);
        }
        match self {
            Route::Relay(gate) if !gate.is_near(address) => gate.connect(address),
            _ => TcpStream::connect_timeout(address, Duration::from_millis(CONNECT_MS))
                .map(OwnedFd::from)
                .map_err(|error| Error::from_io("connect", &error)),
        }
    }

    /// Begins to open a stream to an address, over several networks if that is wanted and can be.
    pub fn start(&self, address: &SocketAddr, multipath: bool) -> Result<Started> {
        if let Some(files) = self.files_to(address) {
            let socket = files.open(address)?;
            descriptor::set_nonblocking(socket.as_fd(), true)?;
            return Ok(Started { socket, opening: None, is_local: true });
        }
        let (socket, opening) = match self {
            Route::Relay(gate) if !gate.is_near(address) => {
                let (socket, opening) = gate.start(address)?;
                (socket, Some(opening))
            }
            _ => (socket::start_connect(address, multipath)?, None),
        };
        Ok(Started { socket, opening, is_local: false })
    }

    /// Lets others find somebody of this process who listens at this port: the address that they must know, and what keeps it so. An address of this machine alone
    /// gets one that others can use.
    pub fn announce(&self, port: SocketAddr) -> Result<(SocketAddr, Option<Listening>)> {
        let Route::Files(files, _) = self else { return Ok((port, None)) };
        let address = if port.ip().is_loopback() {
            SocketAddr::new(Files::fresh_address()?, port.port())
        } else {
            port
        };
        let listening = files.listen(address, Target::Port(port))?;
        Ok((address, Some(listening)))
    }

    /// How long an answer may take on this way that takes so long on a direct one.
    pub fn longer(&self, direct_ms: u64) -> u64 {
        match self {
            Route::Direct => direct_ms,
            Route::Relay(_) => direct_ms * 5,
            Route::Files(..) => direct_ms * 15,
        }
    }

    /// The relay on the way, if there is one.
    pub fn relay(&self) -> Option<&str> {
        match self {
            Route::Relay(gate) => Some(gate.name()),
            _ => None,
        }
    }

    /// Whether no address of this machine is needed, because files are.
    pub fn has_files(&self) -> bool {
        matches!(self, Route::Files(..))
    }

    /// Waits, for a while, until what this process has sent is on its way without it: on streams that it has opened and ended, and, `with_callers`, on those
    /// that others have opened.
    pub fn settle(&self, with_callers: bool) {
        if let Route::Files(files, _) = self {
            files.settle(with_callers, Duration::from_millis(SETTLE_MS));
        }
    }

    /// Removes, where there are files, what processes have left that were killed. It takes some seconds if there is something to be removed.
    pub fn sweep(&self) {
        if let Route::Files(files, _) = self {
            files.sweep();
        }
    }

    /// For a process that shall go the same way; only over a line that nobody else hears.
    pub(crate) fn write(&self, writer: Writer) -> Writer {
        match self {
            Route::Direct => writer.byte(0),
            Route::Relay(gate) => writer.byte(1).text(gate.name()).fixed(gate.key().expose()),
            Route::Files(files, sockets) => {
                let has_sockets = matches!(sockets, Sockets::Tried(_));
                let path = files.path().as_os_str().as_encoded_bytes();
                writer.byte(2).bytes(path).long(files.most_bytes()).flag(has_sockets)
            }
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
            2 => {
                let path = Path::new(OsStr::from_bytes(reader.bytes()?));
                let files = Files::at(path, reader.long()?)?;
                Ok(Route::by_files(files, reader.flag()?))
            }
            _ => Err(bad("there is no such way")),
        }
    }
}

/// Whether sockets reach the machine of an address; it is tried once.
fn reaches(tried: &Mutex<HashMap<IpAddr, bool>>, address: &SocketAddr) -> bool {
    let known = || tried.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reached) = known().get(&address.ip()) {
        return *reached;
    }
    // A refusal may be a firewall's.
    let reached = TcpStream::connect_timeout(address, Duration::from_millis(TRY_MS)).is_ok();
    known().insert(address.ip(), reached);
    reached
}
