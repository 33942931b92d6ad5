//! A rank of the job that is not content with the library: it speaks the wire itself, with the job's secret.
//!
//! Rank 0 sends rank 1 frames that no correct rank sends. Rank 1 must refuse each and stay as it was.

use super::say;
use kumiki::{GlobalAddress, Result, World};
use kumiki_net::agent::bootstrap;
use kumiki_net::auth::{Identity, Purpose, Secret};
use kumiki_net::os::{random_bytes, time};
use kumiki_net::wire::{Connection, Event, Header, FIRST_USER_KIND};
use kumiki_net::Rank;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PUT: u8 = FIRST_USER_KIND;
const GET: u8 = FIRST_USER_KIND + 1;
const COPY: u8 = FIRST_USER_KIND + 2;
const ATOMIC: u8 = FIRST_USER_KIND + 3;
const DONE: u8 = FIRST_USER_KIND + 6;
const ADD_WIDE: u8 = 16 | 3;
/// Bytes of the region that the frames aim at; there are canaries on both sides.
const ROOM_BYTES: u64 = 4096;
const CANARY: u8 = 0xc5;

pub(crate) fn play() -> Result<()> {
    let attachment = bootstrap::attach(None, bootstrap::STARTER_BYTES)?;
    let (arena, job) = (attachment.arena.clone(), attachment.job);
    let secret = Secret::from_bytes(*attachment.secret.expose());
    let world = World::attach(attachment)?;
    let canaries = [guard(&world)?, guard(&world)?, guard(&world)?];
    // The middle one is the target, an earlier one is freed: its address is stale.
    let stale = world.alloc::<u8>(ROOM_BYTES as usize)?;
    let words = [canaries[1].address().bits(), stale.address().bits()];
    if world.rank() == 1 {
        world.put_slice(world.starter::<u64>(0)?, &words)?;
    }
    drop(stale);
    world.sync()?;
    if world.rank() == 0 {
        let [target, stale] =
            [0, 1].map(|index| world.starter::<u64>(0).and_then(|p| world.get(p.add(index))));
        let address = arena.node(1).and_then(|node| node.load()).unwrap();
        let incarnation = arena.shared().incarnation();
        let me = Identity { rank: world.rank(), incarnation };
        let mut peer = Peer::call(address, job, secret, me);
        for (name, header, payload) in
            frames(GlobalAddress::from_bits(target?), GlobalAddress::from_bits(stale?))
        {
            say(&format!("frame {name} {}", peer.ask(header, &payload)));
        }
        // The canary of this test: the same client is served when it asks for what exists.
        let header = Header { kind: GET, op: 7, a: words_address(&world)?, c: 8, ..Header::default() };
        say(&format!("honest {}", peer.ask(header, &[])));
        peer.leave();
    }
    world.sync()?;
    let intact = canaries.iter().all(|region| {
        let mut bytes = vec![0; ROOM_BYTES as usize];
        region.read(0, &mut bytes).is_ok() && bytes.iter().all(|&byte| byte == CANARY)
    });
    say(if intact { "intact" } else { "damaged" });
    world.finalize()
}

fn guard(world: &World) -> Result<kumiki::Region<u8>> {
    let region = world.alloc::<u8>(ROOM_BYTES as usize)?;
    region.write(0, &[CANARY; ROOM_BYTES as usize])?;
    Ok(region)
}

fn words_address(world: &World) -> Result<u64> {
    Ok(world.starter_address(1)?.bits())
}

/// What no correct rank sends: a name, the header, the payload.
fn frames(target: GlobalAddress, stale: GlobalAddress) -> Vec<(&'static str, Header, Vec<u8>)> {
    let (at, end) = (target.bits(), target.bits() + ROOM_BYTES);
    let put = |a: u64, c: u64, d: u64| Header { kind: PUT, op: 1, a, c, d, ..Header::default() };
    let get = |a: u64, c: u64| Header { kind: GET, op: 1, a, c, ..Header::default() };
    let add = |a: u64| Header { kind: ATOMIC, op: 1, flags: ADD_WIDE, a, b: 1, ..Header::default() };
    let eight = vec![1; 8];
    vec![
        ("put-past-the-end", put(end, 8, 0), eight.clone()),
        ("put-across-the-end", put(end - 4, 8, 0), eight.clone()),
        ("put-with-a-huge-length", put(at, u64::MAX, 0), eight.clone()),
        ("put-whose-end-overflows", put(at + 16, u64::MAX - 8, 0), eight.clone()),
        ("put-whose-offset-overflows", put(at, ROOM_BYTES + 8, u64::MAX - 3), eight.clone()),
        ("put-to-a-stale-region", put(stale.bits(), 8, 0), eight.clone()),
        ("put-of-an-old-generation", Header { generation: 999, ..put(at, 8, 0) }, eight.clone()),
        ("put-to-null", put(0, 8, 0), eight.clone()),
        ("put-to-nowhere", put(u64::MAX - 7, 8, 0), eight),
        ("get-past-the-end", get(end, 8), Vec::new()),
        ("get-across-the-end", get(end - 4, 8), Vec::new()),
        ("get-with-a-huge-length", get(at, u64::MAX), Vec::new()),
        ("get-of-a-stale-region", get(stale.bits(), 8), Vec::new()),
        ("copy-from-past-the-end", Header { kind: COPY, b: at, ..get(end, 8) }, Vec::new()),
        ("copy-to-past-the-end", Header { kind: COPY, b: end, ..get(at, 8) }, Vec::new()),
        ("add-past-the-end", add(end), Vec::new()),
        ("add-across-the-end", add(end - 4), Vec::new()),
        ("add-misaligned", add(at + 4), Vec::new()),
        ("add-to-a-stale-region", add(stale.bits()), Vec::new()),
        ("an-atomic-that-does-not-exist", Header { flags: 0x7f, ..add(at) }, Vec::new()),
    ]
}

/// A connection to rank 1 that the library knows nothing of.
struct Peer {
    stream: TcpStream,
    wire: Connection,
    secret: Secret,
    bytes: Vec<u8>,
}

impl Peer {
    fn call(
        address: std::net::SocketAddr,
        job: kumiki_net::auth::JobId,
        secret: Secret,
        me: Identity,
    ) -> Peer {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut nonce = [0; kumiki_net::auth::NONCE_BYTES];
        random_bytes(&mut nonce).unwrap();
        let now_ms = time::now_ms();
        let wire = Connection::initiate(job, &secret, me, Rank(1).0, Purpose::Data, nonce, now_ms);
        let mut peer = Peer { stream, wire, secret, bytes: Vec::new() };
        peer.flush();
        while !peer.wire.may_request() {
            assert!(peer.next().is_some(), "the handshake failed: {:?}", peer.wire.error());
            peer.flush();
        }
        peer
    }

    fn flush(&mut self) {
        while let Some(output) = self.wire.take_output() {
            self.stream.write_all(&output).unwrap();
        }
    }

    /// Takes one event out of what has come; reads more if there is not enough.
    fn next(&mut self) -> Option<Event> {
        loop {
            let (taken, event) = self.wire.feed(&self.secret, &self.bytes).ok()?;
            self.bytes.drain(..taken);
            if event != Event::NeedMore || taken > 0 {
                return Some(event);
            }
            let mut more = [0; 4096];
            match self.stream.read(&mut more) {
                Ok(count @ 1..) => self.bytes.extend_from_slice(&more[..count]),
                _ => return None,
            }
        }
    }

    /// Sends a frame and gives the answer in words.
    fn ask(&mut self, header: Header, payload: &[u8]) -> String {
        let sealed = self.wire.seal(header.with_payload(payload)).unwrap();
        self.stream.write_all(&sealed).unwrap();
        self.stream.write_all(payload).unwrap();
        loop {
            match self.next() {
                Some(Event::Frame(answer)) => return self.describe(answer),
                Some(Event::Closed | Event::Goodbye) | None => return "closed".into(),
                Some(_) => {}
            }
        }
    }

    /// A connection that ends without a goodbye would be a loss.
    fn leave(&mut self) {
        self.wire.goodbye().unwrap();
        self.flush();
        while !self.wire.is_finished() && self.next().is_some() {}
    }

    fn describe(&mut self, answer: Header) -> String {
        let mut left = self.wire.payload_left() as usize;
        while left > 0 {
            let mut more = [0; 4096];
            if self.bytes.is_empty() {
                let count = self.stream.read(&mut more).unwrap_or(0);
                self.bytes.extend_from_slice(&more[..count]);
            }
            let piece: Vec<u8> = self.bytes.drain(..left.min(self.bytes.len())).collect();
            let _ = self.wire.payload(&piece);
            left = self.wire.payload_left() as usize;
        }
        match (answer.kind, answer.flags) {
            (DONE, 0) => "done".into(),
            (DONE, 1) => "bounds".into(),
            (DONE, 2) => "misuse".into(),
            (DONE, other) => format!("refused with status {other}"),
            (other, _) => format!("served with kind {other}"),
        }
    }
}
