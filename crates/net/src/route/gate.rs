//! The way through a relay, as those see it who use it.

use super::words::{self, Answer, Asking, Trouble};
use crate::auth::{Secret, NONCE_BYTES};
use crate::os::{self, descriptor, socket, time};
use crate::wire::WireError;
use crate::{Error, Result};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// The customary port of relays.
pub const PORT: u16 = 7200;
/// How long the relay may take to be there, and then to call somebody.
const REACH_MS: u64 = 2_000;
const ANSWER_MS: u64 = super::relay::DIAL_MS + 2_000;
/// More than everything that a relay says before it carries the bytes of others.
const WORDS_BYTES: usize = 256;

/// A relay, and who is reached without it.
pub struct Gate {
    name: String,
    addresses: Vec<SocketAddr>,
    /// Which of them answered last, or is to be tried next.
    usual: AtomicUsize,
    key: Secret,
    near: Vec<(IpAddr, u8)>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({})", self.name)
    }
}

impl Gate {
    /// The relay at `host:port` (or a host, for the customary port).
    pub(super) fn new(name: &str, key: Secret) -> Result<Gate> {
        let wrong = |why: String| Error::Refused(format!("WAITIO_RELAY={name}: {why}"));
        let addresses = resolve(name).map_err(|why| wrong(format!("{why}; it should be host:port")))?;
        let near = socket::attached_networks()?;
        Ok(Gate { name: name.into(), addresses, usual: AtomicUsize::new(0), key, near })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn key(&self) -> &Secret {
        &self.key
    }

    /// Whether an address is called without the relay: it is of this machine, or of a network that this machine is in.
    pub(super) fn is_near(&self, address: &SocketAddr) -> bool {
        address.ip().is_loopback() || self.near.iter().any(|network| contains(*network, address.ip()))
    }

    /// Waits for a connection to an address.
    pub(super) fn connect(self: &Arc<Self>, wanted: &SocketAddr) -> Result<OwnedFd> {
        let mut last = Error::Closed(format!("relay {} has no address", self.name));
        for _ in &self.addresses {
            let (at, address) = self.usual();
            match TcpStream::connect_timeout(&address, Duration::from_millis(REACH_MS)) {
                Ok(stream) => return self.ask(stream.into(), at, wanted),
                Err(error) => last = self.away(&error),
            }
            self.missed(at);
        }
        Err(last)
    }

    /// The address that is called first, and its number.
    fn usual(&self) -> (usize, SocketAddr) {
        let at = self.usual.load(Ordering::Relaxed) % self.addresses.len();
        (at, self.addresses[at])
    }

    /// At this address the relay does not answer: the next one is tried from now on.
    fn missed(&self, at: usize) {
        let next = (at + 1) % self.addresses.len();
        // Another call may have found out before us.
        let _ = self.usual.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn ask(self: &Arc<Self>, socket: OwnedFd, at: usize, wanted: &SocketAddr) -> Result<OwnedFd> {
        descriptor::set_nonblocking(socket.as_fd(), true)?;
        let mut opening = Opening::new(self, at, wanted)?;
        while !opening.advance(socket.as_fd())? {
            descriptor::poll(&[(socket.as_fd(), opening.has_output())], 50)?;
        }
        descriptor::set_nonblocking(socket.as_fd(), false)?;
        Ok(socket)
    }

    /// Begins a connection to an address.
    pub(super) fn start(self: &Arc<Self>, wanted: &SocketAddr) -> Result<(OwnedFd, Box<Opening>)> {
        let (at, address) = self.usual();
        let socket = socket::start_connect(&address, false).inspect_err(|_| self.missed(at))?;
        Ok((socket, Box::new(Opening::new(self, at, wanted)?)))
    }

    fn away(&self, error: &dyn std::fmt::Display) -> Error {
        Error::Closed(format!("relay {}: {error}", self.name))
    }
}

/// The addresses of `host:port`, `[host]:port` or a host alone.
pub(super) fn resolve(name: &str) -> std::result::Result<Vec<SocketAddr>, String> {
    let found = match name.to_socket_addrs() {
        Ok(found) => Ok(found.collect::<Vec<_>>()),
        Err(_) if !name.contains(':') || name.parse::<IpAddr>().is_ok() => {
            (name, PORT).to_socket_addrs().map(|found| found.collect())
        }
        Err(error) => Err(error),
    };
    let found: Vec<SocketAddr> = found.map_err(|error| error.to_string())?;
    if found.is_empty() || found.iter().any(|address| address.ip().is_unspecified()) {
        return Err("it has no address of its own".into());
    }
    Ok(found)
}

/// Whether a network holds an address.
pub(super) fn contains((network, prefix): (IpAddr, u8), address: IpAddr) -> bool {
    let (network, address, bits) = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u128::from(network.to_bits()), u128::from(address.to_bits()), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (network.to_bits(), address.to_bits(), 128),
        _ => return false,
    };
    prefix == 0 || (network ^ address) >> (bits - u32::from(prefix).min(bits)) == 0
}

/// A connection whose relay has not said yet that it stands. It is driven by whoever has the socket.
pub struct Opening {
    gate: Arc<Gate>,
    /// The number of the relay's address.
    at: usize,
    asking: Asking,
    /// When it is given up.
    until_ms: u64,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
}

impl Opening {
    fn new(gate: &Arc<Gate>, at: usize, wanted: &SocketAddr) -> Result<Opening> {
        let mut nonce = [0; NONCE_BYTES];
        os::random_bytes(&mut nonce)?;
        let now_ms = time::now_ms();
        let asking = Asking::new(&gate.key, *wanted, nonce, now_ms);
        Ok(Opening { gate: gate.clone(), at, asking, until_ms: now_ms + ANSWER_MS, unsent: Vec::new() })
    }

    /// When it must be looked at even if nothing comes.
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// Whether something waits until the socket takes it.
    pub fn has_output(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Says and hears what can be now. True when the connection stands: all that comes from now on is of the other end. An error when it takes too long.
    pub fn advance(&mut self, socket: BorrowedFd<'_>) -> Result<bool> {
        self.say(socket)?;
        loop {
            let mut bytes = [0; WORDS_BYTES];
            let got = match socket::receive(socket, &mut bytes, false) {
                Ok(0) => return Err(self.missed(&"it has hung up")),
                Ok(got) => got,
                Err(error) if error.would_block() && time::now_ms() >= self.until_ms => {
                    return Err(self.missed(&"it does not answer"))
                }
                Err(error) if error.would_block() => return Ok(false),
                Err(error) => return Err(self.missed(&reason(error))),
            };
            let fed = self.asking.feed(&self.gate.key, &bytes[..got]);
            self.say(socket)?;
            match fed.map_err(|trouble| self.refused(&trouble))? {
                (_, None) => {}
                // Nobody at the other end speaks before it is spoken to.
                (used, Some(Answer::Open)) if used == got => return Ok(true),
                (_, Some(Answer::Open)) => return Err(self.refused(&Trouble::Strange)),
                (_, Some(answer)) => return Err(self.gate.away(&answer.tell(self.asking.wanted()))),
            }
        }
    }

    fn say(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        while let Some(output) = self.asking.take_output() {
            self.unsent.extend(output);
        }
        while !self.unsent.is_empty() {
            match socket::send(socket, &self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.would_block() => break,
                Err(error) => return Err(self.missed(&reason(error))),
            }
        }
        Ok(())
    }

    /// The relay itself is not there; it may be at another of its addresses.
    fn missed(&self, why: &dyn std::fmt::Display) -> Error {
        self.gate.missed(self.at);
        self.gate.away(why)
    }

    fn refused(&self, trouble: &Trouble) -> Error {
        self.gate.missed(self.at);
        match trouble {
            Trouble::Wire(WireError::Closed | WireError::Timeout) => self.gate.away(trouble),
            trouble => Error::Refused(format!(
                "relay {} does not take us ({trouble}): it needs the secret of the blocks (--secret-file, WAITIO_SECRET_FILE) and the same release",
                self.gate.name
            )),
        }
    }
}

/// What the system says, without the call to which it said it.
fn reason(error: Error) -> String {
    match error {
        Error::System { errno, .. } => std::io::Error::from_raw_os_error(errno).to_string(),
        error => error.to_string(),
    }
}

/// The key of the gate that a secret opens.
pub(super) fn key(secret: &[u8]) -> Secret {
    words::key(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let holds = |network: &str, prefix, address: &str| {
            contains((network.parse().unwrap(), prefix), address.parse().unwrap())
        };
        assert!(holds("10.1.2.3", 24, "10.1.2.200") && !holds("10.1.2.3", 24, "10.1.3.3"));
        assert!(holds("10.1.2.3", 32, "10.1.2.3") && !holds("10.1.2.3", 32, "10.1.2.2"));
        assert!(holds("0.0.0.0", 0, "8.8.8.8") && !holds("0.0.0.0", 0, "::1"));
        assert!(holds("fd00::1", 64, "fd00::2") && !holds("fd00::1", 64, "fd01::2"));
    }

    #[test]
    fn an_address_at_which_no_relay_answers_gives_way_to_the_next() {
        let relay = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = relay.local_addr().unwrap();
        let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let gate =
            Gate { addresses: vec![nowhere, there], ..Gate::new("127.0.0.1", key(b"secret")).unwrap() };
        let (gate, wanted) = (Arc::new(gate), "192.0.2.1:9".parse().unwrap());
        assert_eq!(gate.usual(), (0, nowhere));
        let (socket, mut opening) = gate.start(&wanted).unwrap();
        let refused = loop {
            match opening.advance(socket.as_fd()) {
                Ok(_) => drop(descriptor::poll(&[(socket.as_fd(), true)], 50)),
                Err(error) => break error,
            }
        };
        assert!(refused.to_string().contains("refused"), "{refused}");
        // One that has failed twice at once is one step.
        gate.missed(0);
        assert_eq!(gate.usual(), (1, there));
        // It is there, and says nothing.
        let (socket, mut opening) = gate.start(&wanted).unwrap();
        let _callee = relay.accept().unwrap();
        assert_eq!(opening.advance(socket.as_fd()), Ok(false));
        opening.until_ms = time::now_ms();
        let silent = opening.advance(socket.as_fd()).unwrap_err();
        assert!(silent.to_string().contains("does not answer"), "{silent}");
        assert_eq!(gate.usual(), (0, nowhere));
    }

    #[test]
    fn a_relay_without_a_port_has_the_customary_one() {
        assert_eq!(resolve("127.0.0.1").unwrap(), ["127.0.0.1:7200".parse().unwrap()]);
        assert_eq!(resolve("127.0.0.1:9").unwrap(), ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(resolve("::1").unwrap(), ["[::1]:7200".parse().unwrap()]);
        assert_eq!(resolve("[::1]:9").unwrap(), ["[::1]:9".parse().unwrap()]);
        assert!(resolve("0.0.0.0:9").is_err() && resolve("127.0.0.1:x").is_err());
    }
}
