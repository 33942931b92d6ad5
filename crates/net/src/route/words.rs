//! What is said to a relay, and what it answers: two values, without I/O and clock.
//!
//! Both sides prove that they know the secret, by the handshake of every connection of ours ([`crate::wire`]), under a key that is made of the
//! secret for this alone. Then the caller says in one sealed header whom it wants to reach, and the relay in another what
//! became of it. Behind that answer the connection carries the bytes of others, and neither value sees any of them.

#![forbid(unsafe_code)]

use crate::auth::{Identity, JobId, Purpose, Secret, NONCE_BYTES};
use crate::wire::frame::FIRST_USER_KIND;
use crate::wire::{Connection, Event, Header, WireError};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// There is one job of relays, so that another secret is found out as another secret.
const JOB: JobId = JobId(0x7265_6c61_7931);
/// Nobody at a relay has a number.
const NOBODY: Identity = Identity { rank: 0, incarnation: 0 };
const KIND_WANTED: u8 = FIRST_USER_KIND;
const KIND_ANSWER: u8 = FIRST_USER_KIND + 1;

/// The key of relays, made of what all blocks know.
pub fn key(secret: &[u8]) -> Secret {
    Secret::from_bytes(blake3::derive_key("kumiki relay secret version 1", secret))
}

/// What became of a connection that a relay was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It stands: from now on bytes are carried.
    Open,
    /// Nobody listens there.
    Refused,
    /// Nobody answers there.
    Silent,
    /// There is no way there from the relay.
    Unreachable,
    /// The relay may not call that address.
    Forbidden,
    /// The relay has as many connections as it may have.
    Full,
    /// The relay could not call, for another reason.
    Failed,
}

impl Answer {
    const ALL: [Answer; 7] = [
        Answer::Open,
        Answer::Refused,
        Answer::Silent,
        Answer::Unreachable,
        Answer::Forbidden,
        Answer::Full,
        Answer::Failed,
    ];

    /// How the error of a call is told.
    pub fn of_error(errno: i32) -> Answer {
        match errno {
            libc::ECONNREFUSED => Answer::Refused,
            libc::ETIMEDOUT => Answer::Silent,
            libc::ENETUNREACH | libc::EHOSTUNREACH => Answer::Unreachable,
            _ => Answer::Failed,
        }
    }

    /// What became of a connection to this address.
    pub fn tell(self, wanted: &SocketAddr) -> String {
        match self {
            Answer::Open => format!("connection to {wanted} open"),
            Answer::Refused => format!("connection to {wanted} refused"),
            Answer::Silent => format!("connection to {wanted} timed out"),
            Answer::Unreachable => format!("it has no route to {wanted}"),
            Answer::Forbidden => format!("it may not call {wanted} (see its --allow)"),
            Answer::Full => format!("it has no room for a connection to {wanted} (see its --connections)"),
            Answer::Failed => format!("it could not call {wanted}"),
        }
    }

    fn encode(self) -> Header {
        let code = Answer::ALL.iter().position(|answer| *answer == self).unwrap_or(Answer::ALL.len() - 1);
        Header { kind: KIND_ANSWER, a: code as u64, ..Header::default() }
    }

    fn decode(header: &Header) -> Option<Answer> {
        let answer = *Answer::ALL.get(usize::try_from(header.a).ok()?)?;
        (*header == answer.encode()).then_some(answer)
    }
}

/// An address in the words of a header: it has one way to be written.
fn encode(wanted: &SocketAddr) -> Header {
    let (family, bits) = match wanted.ip() {
        IpAddr::V4(v4) => (4, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (6, v6.to_bits()),
    };
    let (a, b) = ((bits >> 64) as u64, bits as u64);
    Header { kind: KIND_WANTED, a, b, c: u64::from(wanted.port()), d: family, ..Header::default() }
}

fn decode(header: &Header) -> Option<SocketAddr> {
    let bits = u128::from(header.a) << 64 | u128::from(header.b);
    let ip = match header.d {
        4 => IpAddr::V4(u32::try_from(bits).ok()?.into()),
        6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        _ => return None,
    };
    let wanted = SocketAddr::new(ip, u16::try_from(header.c).ok().filter(|&port| port != 0)?);
    (*header == encode(&wanted)).then_some(wanted)
}

/// Why it came to nothing, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The handshake failed.
    Wire(WireError),
    /// What was said is no word of a relay.
    Strange,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Wire(error) => error.fmt(f),
            Trouble::Strange => f.write_str("it says what no relay and nobody who calls one says"),
        }
    }
}

impl From<WireError> for Trouble {
    fn from(error: WireError) -> Trouble {
        Trouble::Wire(error)
    }
}

/// Whoever asks a relay for a connection.
#[derive(Debug)]
pub struct Asking {
    wire: Wire,
    wanted: SocketAddr,
    /// The request, when it may go.
    request: Option<Vec<u8>>,
}

/// A connection without its keys, for those who print it.
struct Wire(Connection);

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

impl Asking {
    /// Asks for this address. The number must be fresh, the time of a monotonic clock.
    pub fn new(key: &Secret, wanted: SocketAddr, nonce: [u8; NONCE_BYTES], now_ms: u64) -> Asking {
        let wire = Connection::initiate(JOB, key, NOBODY, NOBODY.rank, Purpose::Control, nonce, now_ms);
        Asking { wire: Wire(wire), wanted, request: None }
    }

    /// Whom it wants to reach.
    pub fn wanted(&self) -> &SocketAddr {
        &self.wanted
    }

    /// What must be sent now: to be asked for until there is nothing.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        self.wire.0.take_output().map(|output| output.to_vec()).or_else(|| self.request.take())
    }

    /// Takes what has come: how much of it was taken, and the answer when it is there.
    pub fn feed(&mut self, key: &Secret, bytes: &[u8]) -> Result<(usize, Option<Answer>), Trouble> {
        let mut at = 0;
        while at < bytes.len() {
            let (used, event) = self.wire.0.feed(key, &bytes[at..])?;
            at += used;
            match event {
                Event::NeedMore => break,
                Event::Established(_) => {
                    // Our proof goes first: then the request may be sealed.
                    let proof = self.wire.0.take_output().map(|output| output.to_vec()).unwrap_or_default();
                    let wanted = self.wire.0.seal(encode(&self.wanted))?;
                    self.request = Some([&proof[..], &wanted].concat());
                }
                Event::Frame(header) => {
                    return Answer::decode(&header).map(|answer| (at, Some(answer))).ok_or(Trouble::Strange)
                }
                _ => return Err(Trouble::Strange),
            }
        }
        Ok((at, None))
    }
}

/// The relay's side of a connection, until it carries bytes.
#[derive(Debug)]
pub struct Asked(Wire);

impl Asked {
    /// Somebody has called. The number must be fresh, the time of a monotonic clock.
    pub fn new(nonce: [u8; NONCE_BYTES], now_ms: u64) -> Asked {
        Asked(Wire(Connection::accept(JOB, NOBODY, Purpose::Control, nonce, now_ms)))
    }

    /// What must be sent now: to be asked for until there is nothing.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        self.0 .0.take_output().map(|output| output.to_vec())
    }

    /// Takes what has come: how much of it was taken, and whom the caller wants to reach, when it has proven that it may ask.
    pub fn feed(&mut self, key: &Secret, bytes: &[u8]) -> Result<(usize, Option<SocketAddr>), Trouble> {
        let mut at = 0;
        while at < bytes.len() {
            let (used, event) = self.0 .0.feed(key, &bytes[at..])?;
            at += used;
            match event {
                Event::NeedMore => break,
                Event::Established(_) => {}
                Event::Frame(header) => {
                    return decode(&header).map(|wanted| (at, Some(wanted))).ok_or(Trouble::Strange)
                }
                _ => return Err(Trouble::Strange),
            }
        }
        Ok((at, None))
    }

    /// The answer, to be sent.
    pub fn answer(&mut self, answer: Answer) -> Result<Vec<u8>, Trouble> {
        Ok(self.0 .0.seal(answer.encode())?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address() -> impl Strategy<Value = SocketAddr> {
        let ip =
            prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from),];
        (ip, 1u16..).prop_map(SocketAddr::from)
    }

    /// Carries what one says to the other in pieces of so many bytes, and spoils one byte.
    fn converse(
        (mine, theirs): (&Secret, &Secret),
        wanted: SocketAddr,
        answer: Answer,
        piece: usize,
        spoilt: Option<(usize, u8)>,
    ) -> Result<(SocketAddr, Answer), Trouble> {
        let mut asking = Asking::new(mine, wanted, [1; 32], 0);
        let mut asked = Asked::new([2; 32], 0);
        let (mut carried, mut heard) = (0, None);
        let mut spoil = |mut bytes: Vec<u8>| {
            if let Some((at, by)) = spoilt.filter(|(at, _)| (carried..carried + bytes.len()).contains(at)) {
                bytes[at - carried] ^= by.max(1);
            }
            carried += bytes.len();
            bytes
        };
        loop {
            let mut said = 0;
            while let Some(output) = asking.take_output() {
                said += output.len();
                for piece in spoil(output).chunks(piece) {
                    let (used, wanted) = asked.feed(theirs, piece)?;
                    assert_eq!(used, piece.len());
                    heard = heard.or(wanted);
                }
            }
            let mut outputs = Vec::new();
            while let Some(output) = asked.take_output() {
                outputs.push(output);
            }
            if heard.is_some() {
                outputs.push(asked.answer(answer)?);
            }
            for output in outputs {
                said += output.len();
                for piece in spoil(output).chunks(piece) {
                    if let (_, Some(answer)) = asking.feed(mine, piece)? {
                        return Ok((heard.expect("it was asked"), answer));
                    }
                }
            }
            if said == 0 {
                return Err(Trouble::Strange);
            }
        }
    }

    proptest! {
        #[test]
        fn whom_one_wants_and_what_became_of_it_arrive(wanted in address(), answer in 0..7usize, piece in 1..300usize) {
            let secret = key(b"a secret of all blocks");
            let answer = Answer::ALL[answer];
            prop_assert_eq!(converse((&secret, &secret), wanted, answer, piece, None), Ok((wanted, answer)));
        }

        /// Whatever byte is changed on the way, nobody is called who was not asked for.
        #[test]
        fn a_changed_byte_is_found_out(wanted in address(), at in 0..340usize, by: u8, piece in 1..300usize) {
            let secret = key(b"a secret of all blocks");
            let said = converse((&secret, &secret), wanted, Answer::Open, piece, Some((at, by)));
            prop_assert!(said.is_err(), "{at}: {said:?}");
        }

        #[test]
        fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 1..400), like_ours: bool) {
            let secret = key(b"a secret of all blocks");
            let bytes = if like_ours { [&b"KMKI"[..], &bytes].concat() } else { bytes };
            let mut asked = Asked::new([2; 32], 0);
            prop_assert!(!matches!(asked.feed(&secret, &bytes), Ok((_, Some(_)))));
            let mut asking = Asking::new(&secret, "10.0.0.1:1".parse().unwrap(), [1; 32], 0);
            while asking.take_output().is_some() {}
            prop_assert!(!matches!(asking.feed(&secret, &bytes), Ok((_, Some(_)))));
        }

        #[test]
        fn any_header_is_read_or_refused(kind in 14..20u8, a: u64, b: u64, c in prop_oneof![0..70_000u64, any::<u64>()], d in 0..8u64, op in 0..2u64) {
            let header = Header { kind, a, b, c, d, op, ..Header::default() };
            if let Some(wanted) = decode(&header) {
                prop_assert_eq!(encode(&wanted), header);
            }
            if let Some(answer) = Answer::decode(&header) {
                prop_assert_eq!(answer.encode(), header);
            }
        }
    }

    #[test]
    fn another_secret_reaches_nobody() {
        let (one, other) = (key(b"a secret of all blocks"), key(b"a secret of somebody else"));
        let wanted = "10.0.0.1:7100".parse().unwrap();
        let said = converse((&one, &other), wanted, Answer::Open, 300, None).unwrap_err().to_string();
        assert!(said.contains("secret"), "{said}");
    }
}
