//! Two ends of a connection and a network that does what the input says: cut, delay, damage, repeat, drop, invent.
//!
//! The input is a list of steps of four bytes. What must hold, whatever they are: nothing panics; what an end receives
//! is what the other sent, in order, without gap or repetition, until the connection fails; an end is established
//! only with the right peer; a failed connection stays failed; and while the network and both ends are honest,
//! nothing fails.
#![no_main]

use kumiki_net::auth::{Identity, JobId, Purpose, Secret};
use kumiki_net::wire::frame::{
    self, HEADER_BYTES, KIND_ACKNOWLEDGE, KIND_BUNDLE, KIND_GOODBYE, KIND_KNOCK, KIND_RESUME,
};
use kumiki_net::wire::{bundle, Connection, Event, Header, Landed, Resumption, WireError};
use libfuzzer_sys::fuzz_target;

const JOB: JobId = JobId(77);
const LEFT: Identity = Identity { rank: 3, incarnation: 1 };
const RIGHT: Identity = Identity { rank: 9, incarnation: 4 };
/// Steps that double what is on its way must not double it for ever.
const MAX_INCOMING_BYTES: usize = 1 << 16;

fuzz_target!(|script: &[u8]| {
    let secret = Secret::from_bytes([0x5a; 32]);
    let initiator = Connection::initiate(JOB, &secret, LEFT, RIGHT.rank, Purpose::Data, [0x11; 32], 0);
    let responder = Connection::accept(JOB, RIGHT, Purpose::Data, [0x22; 32], 0);
    let mut ends = [End::new(initiator, RIGHT), End::new(responder, LEFT)];
    // A tail of the script serves as bytes from nowhere.
    let (steps, tail) = script.split_at(script.len() - script.len() / 4);
    for step in steps.chunks_exact(4) {
        run_step(&mut ends, &secret, [step[0], step[1], step[2], step[3]], tail);
    }
    if ends.iter().all(|end| end.honest) {
        settle(&mut ends, &secret);
    }
});

/// One end, and the bytes on their way to it.
struct End {
    connection: Connection,
    incoming: Vec<u8>,
    expected_peer: Identity,
    /// What the *other* end has sealed for this one, and how much of it has arrived here.
    sealed_for_me: Vec<Sealed>,
    arrived: usize,
    /// Whether all bytes to this end are what an honest peer sent over an honest network.
    honest: bool,
    said_goodbye: bool,
    heard_goodbye: bool,
    payload: Vec<u8>,
}

struct Sealed {
    /// Of a bundle only the kind, and its headers are the payload.
    header: [u8; HEADER_BYTES],
    payload: Vec<u8>,
}

impl End {
    fn new(connection: Connection, expected_peer: Identity) -> Self {
        Self {
            connection,
            incoming: Vec::new(),
            expected_peer,
            sealed_for_me: Vec::new(),
            arrived: 0,
            honest: true,
            said_goodbye: false,
            heard_goodbye: false,
            payload: Vec::new(),
        }
    }

    fn fails(&mut self, error: WireError) {
        assert!(!matches!(error, WireError::Misuse(_)), "{error}");
        // Who says goodbye with a reply outstanding, as scripts may, hears that reply after the end.
        assert!(!self.honest || (self.said_goodbye && error == WireError::Closed), "{error}");
        assert_eq!(self.connection.error(), Some(error));
        self.incoming.clear();
    }

    fn happens(&mut self, event: Event) {
        let header = match event {
            Event::NeedMore => return,
            Event::Established(peer) => return assert_eq!(peer, self.expected_peer),
            Event::Frame(header) => header,
            Event::Bundle => {
                assert!(self.connection.awaits_bundle());
                Header { kind: KIND_BUNDLE, ..Header::default() }
            }
            Event::Goodbye | Event::Closed => {
                assert!(!self.heard_goodbye, "a goodbye is said once");
                self.heard_goodbye = true;
                Header { kind: KIND_GOODBYE, ..Header::default() }
            }
            Event::Knock => {
                assert!(self.heard_goodbye, "nobody knocks without a goodbye");
                Header { kind: KIND_KNOCK, ..Header::default() }
            }
            Event::Acknowledged(a) => Header { kind: KIND_ACKNOWLEDGE, a, ..Header::default() },
            Event::Resume(Resumption { session: a, received: b, known }) => {
                Header { kind: KIND_RESUME, a, b, c: known.into(), ..Header::default() }
            }
        };
        let sealed = &self.sealed_for_me[self.arrived];
        match header.kind {
            KIND_BUNDLE => assert_eq!(sealed.header[0], KIND_BUNDLE),
            _ => assert_eq!(frame::encode(&header), sealed.header),
        }
        self.arrived += 1;
        self.payload.clear();
    }

    /// Gives the connection some of the bytes that have arrived.
    fn receive(&mut self, secret: &Secret, bytes: &[u8]) -> Result<(), WireError> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let left = self.connection.payload_left() as usize;
            if left > 0 {
                let missing = if self.connection.awaits_bundle() { left - self.payload.len() } else { left };
                let (now, later) = bytes.split_at(missing.min(bytes.len()));
                self.payload.extend_from_slice(now);
                if self.connection.awaits_bundle() {
                    if self.payload.len() == left {
                        self.connection.bundle(&self.payload)?;
                        // Nobody else could have made the hash, whatever the network has done.
                        assert_eq!(self.payload, self.sealed_for_me[self.arrived - 1].payload);
                        assert!(bundle::headers(&self.payload).all(|header| header.kind >= 16));
                    }
                    bytes = later;
                    continue;
                }
                let landed = self.connection.payload(now)?;
                assert!(!self.honest || landed != Landed::Torn, "nobody touched it");
                if landed == Landed::Wholly && self.honest {
                    assert_eq!(self.payload, self.sealed_for_me[self.arrived - 1].payload);
                }
                bytes = later;
            } else {
                let (taken, event) = self.connection.feed(secret, bytes)?;
                assert!(taken > 0, "feed must make progress");
                bytes = &bytes[taken..];
                self.happens(event);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, secret: &Secret, bytes: usize) {
        let arrived: Vec<u8> = self.incoming.drain(..bytes.min(self.incoming.len())).collect();
        if let Some(error) = self.connection.error() {
            assert_eq!(self.connection.feed(secret, &arrived), Err(error), "failed is failed");
        } else if let Err(error) = self.receive(secret, &arrived) {
            self.fails(error);
        }
    }
}

fn run_step(ends: &mut [End; 2], secret: &Secret, [what, a, b, c]: [u8; 4], tail: &[u8]) {
    let [left, right] = ends;
    let (me, other) = if what & 0x80 == 0 { (left, right) } else { (right, left) };
    let at = usize::from(a) % me.incoming.len().max(1);
    let length = usize::from(b);
    match what & 0x7f {
        0..=3 => me.deliver(secret, 1 + length + 256 * usize::from(c & 3)),
        4 => drain(me, other),
        5 => send(me, other, a, b, c),
        6 => say_goodbye(me),
        7 => send_raw(me, other, tail, a, b),
        8 => tamper(me, |bytes| {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= b;
            }
        }),
        9 => tamper(me, |bytes| drop(bytes.drain(at..bytes.len().min(at + length)))),
        10 => tamper(me, |bytes| {
            let copy: Vec<u8> = bytes.iter().skip(at).take(length).copied().collect();
            bytes.splice(at..at, copy);
        }),
        11 => tamper(me, |bytes| drop(bytes.splice(at..at, tail.iter().take(length).copied()))),
        12 => tamper(me, |bytes| bytes.extend_from_slice(&other.incoming)),
        13 => {
            (me.honest, other.honest) = (false, false);
            let _ = me.connection.expired(u64::from(a) * 100);
        }
        15 => send_bundle(me, other, a, b),
        16 => knock(me, other),
        14 => {
            (me.honest, other.honest) = (false, false);
            let _ = me.connection.end_of_input();
        }
        _ => {}
    }
    if me.connection.error().is_some() {
        // The other end may be told, and may wait in vain.
        other.honest = false;
    }
}

fn drain(me: &mut End, other: &mut End) {
    while let Some(output) = me.connection.take_output() {
        if me.connection.peer().is_some() && output.len() == frame::FRAME_HEADER_BYTES {
            let header = frame::encode(&Header { kind: KIND_GOODBYE, ..Header::default() });
            other.sealed_for_me.push(Sealed { header, payload: Vec::new() });
        }
        other.incoming.extend_from_slice(&output);
    }
    assert!(!me.connection.has_output());
}

fn knock(me: &mut End, other: &mut End) {
    if let Ok(sealed) = me.connection.knock() {
        let header = frame::encode(&Header { kind: KIND_KNOCK, ..Header::default() });
        other.incoming.extend_from_slice(&sealed);
        other.sealed_for_me.push(Sealed { header, payload: Vec::new() });
    }
}

fn send(me: &mut End, other: &mut End, kind: u8, length: u8, fill: u8) {
    let payload = vec![fill; usize::from(length)];
    let header = Header { kind: kind | 16, flags: fill, op: 1, ..Header::default() }.with_payload(&payload);
    let sealed = if kind & 1 == 0 { me.connection.seal(header) } else { me.connection.seal_reply(header) };
    let allowed = if kind & 1 == 0 { me.connection.may_request() } else { me.connection.may_reply() };
    assert_eq!(sealed.is_ok(), allowed);
    if let Ok(sealed) = sealed {
        other.incoming.extend_from_slice(&sealed);
        other.incoming.extend_from_slice(&payload);
        other.sealed_for_me.push(Sealed { header: frame::encode(&header), payload });
    }
}

/// A few headers in one frame.
fn send_bundle(me: &mut End, other: &mut End, count: u8, words: u8) {
    let mut payload = Vec::new();
    for op in 0..u64::from(count & 31) + 1 {
        let word = |bit: u8| u64::from(words & bit) * op;
        let [a, b, c, d] = [1, 2, 4, 8].map(word);
        let header = Header { kind: words | 16, op, a, b, c, d, ..Header::default() };
        let mut place = [0; bundle::MOST_PACKED_BYTES];
        let length = bundle::pack(&header, &mut place);
        payload.extend_from_slice(&place[..length]);
    }
    let requests = count & 128 != 0;
    let sealed = me.connection.seal_bundle(&payload, requests);
    let allowed = if requests { me.connection.may_request() } else { me.connection.may_reply() };
    assert_eq!(sealed.is_ok(), allowed);
    if let Ok(sealed) = sealed {
        let header = frame::encode(&Header { kind: KIND_BUNDLE, ..Header::default() });
        other.incoming.extend_from_slice(&sealed);
        other.incoming.extend_from_slice(&payload);
        other.sealed_for_me.push(Sealed { header, payload });
    }
}

/// An authenticated peer that sends whatever header it likes.
fn send_raw(me: &mut End, other: &mut End, tail: &[u8], at: u8, value: u8) {
    let mut header = frame::encode(&Header { kind: 16, ..Header::default() });
    for (byte, from_tail) in header.iter_mut().zip(tail) {
        *byte ^= from_tail;
    }
    header[usize::from(at) % HEADER_BYTES] = value;
    if let Some(sealed) = me.connection.seal_anything(&header) {
        other.honest = false;
        other.incoming.extend_from_slice(&sealed);
        other.sealed_for_me.push(Sealed { header, payload: Vec::new() });
    }
}

fn say_goodbye(me: &mut End) {
    if me.connection.goodbye().is_ok() {
        me.said_goodbye = true;
    }
}

fn tamper(me: &mut End, change: impl FnOnce(&mut Vec<u8>)) {
    let before = me.incoming.clone();
    change(&mut me.incoming);
    me.incoming.truncate(MAX_INCOMING_BYTES);
    me.honest &= before == me.incoming;
}

/// Two honest ends on an honest network finish the handshake and receive everything.
fn settle(ends: &mut [End; 2], secret: &Secret) {
    for _ in 0..4 {
        let [left, right] = ends;
        drain(left, right);
        drain(right, left);
        left.deliver(secret, usize::MAX);
        right.deliver(secret, usize::MAX);
    }
    for end in ends {
        assert!(end.said_goodbye || end.connection.error().is_none());
        if end.connection.error().is_none() {
            assert_eq!(end.connection.peer(), Some(end.expected_peer));
            assert_eq!(end.arrived, end.sealed_for_me.len());
        }
    }
}
