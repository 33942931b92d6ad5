//! The checklist as a program: two ranks call [`check`] at the same time, each with its end of a transport, and it panics if the
//! transport does not keep the contract.

use super::{
    Closing, Filled, Key, Leeway, Memory, Message, OneSided, Outbox, Path, Payload, Sink, Source, Spot,
    Transport, Update, FLAG_MORE, PIECE_BYTES,
};
use crate::os::time;
use crate::wire::Header;
use crate::{Error, Rank, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The first kind of frame that the suite uses; the wire keeps those below.
pub const FIRST_KIND: u8 = 40;
const HELLO: u8 = FIRST_KIND;
const NOTE: u8 = FIRST_KIND + 1;
const QUESTION: u8 = FIRST_KIND + 2;
const ANSWER: u8 = FIRST_KIND + 3;
const KEYS: u8 = FIRST_KIND + 4;
const BYE: u8 = FIRST_KIND + 5;

/// Sources of payloads, by their kind: always there, never there, there up to a place, and there when asked often enough.
const STEADY: u64 = 1;
const GONE: u64 = 2;
const CUT: u64 = 3;
const LATE: u64 = 4;
/// So often a late payload is not there.
const LATE_TIMES: u64 = 3;

/// Only a transport that fails gets there.
const LIMIT_MS: u64 = 120_000;

/// A message as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Came {
    header: Header,
    bytes: Vec<u8>,
}

/// The layer above: keeps what it is told.
pub struct Recorder<'a> {
    agent: &'a mut dyn FnMut(),
    came: VecDeque<Came>,
    /// What has come of a message.
    bytes: Vec<u8>,
    /// Peers that were reported lost.
    pub lost: Vec<Rank>,
    withdrawn: Vec<u64>,
    answers: Vec<u64>,
    performed: HashMap<u64, Result<Option<u64>>>,
    /// How often a late payload has been asked for, by its place.
    asked: HashMap<u64, u64>,
}

impl<'a> Recorder<'a> {
    /// `agent` is called when the transport says that the agent has sent something.
    pub fn new(agent: &'a mut dyn FnMut()) -> Recorder<'a> {
        Recorder {
            agent,
            came: VecDeque::new(),
            bytes: Vec::new(),
            lost: Vec::new(),
            withdrawn: Vec::new(),
            answers: Vec::new(),
            performed: HashMap::new(),
            asked: HashMap::new(),
        }
    }
}

/// The byte of a payload at a place.
fn byte(seed: u64, at: u64) -> u8 {
    (seed.wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Sink for Recorder<'_> {
    fn part(&mut self, _: Rank, header: &Header, at: u32, bytes: &[u8]) {
        let offset = header.d as usize + at as usize;
        if offset == 0 {
            self.bytes.clear();
        }
        assert_eq!(self.bytes.len(), offset, "a piece is missing");
        self.bytes.extend_from_slice(bytes);
    }

    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        if header.flags & FLAG_MORE != 0 {
            return false;
        }
        match header.kind {
            QUESTION => {
                let header = Header { kind: ANSWER, op: header.op, ..Header::default() };
                let path = Path::Answer(path);
                let message = Message {
                    header,
                    payload: Payload::None,
                    expects_answer: false,
                    path,
                    leeway: Leeway::None,
                };
                out.messages.push((from, message));
            }
            ANSWER => {
                self.answers.push(header.op);
                return true;
            }
            _ => {
                // The suite writes the length of the payload into `c`.
                let bytes = if header.c == 0 { Vec::new() } else { std::mem::take(&mut self.bytes) };
                self.came.push_back(Came { header: *header, bytes });
            }
        }
        false
    }

    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> Filled {
        match source.kind {
            GONE => return Filled::Gone,
            CUT if offset >= PIECE_BYTES as u64 => return Filled::Gone,
            LATE => {
                let asked = self.asked.entry(source.place ^ offset << 20).or_default();
                *asked += 1;
                if *asked <= LATE_TIMES {
                    return Filled::NotYet;
                }
            }
            _ => {}
        }
        for (at, place) in (offset..).zip(place) {
            *place = byte(source.place, at);
        }
        Filled::Whole
    }

    fn torn(&mut self, _: Rank, _: u32, _: &Header, _: &mut Outbox) -> bool {
        panic!("nothing was lent that could be torn");
    }

    fn withdrawn(&mut self, _: Rank, header: &Header, _: &mut Outbox) {
        self.withdrawn.push(header.op);
    }

    fn lost(&mut self, peer: Rank, _: Error, _: &mut Outbox) {
        self.lost.push(peer);
    }

    fn unsent(&mut self, peer: Rank, error: Error, _: bool, _: &mut Outbox) {
        panic!("{peer}: {error}");
    }

    fn performed(&mut self, op: u64, result: Result<Option<u64>>, _: &mut Outbox) {
        assert!(self.performed.insert(op, result).is_none(), "an operation ended twice");
    }

    fn agent(&mut self, _: &mut Outbox) {
        (self.agent)();
    }
}

/// Memory of the suite.
struct Cells(Vec<AtomicU64>);

impl Memory for Cells {
    fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        (offset..).zip(into).all(|(at, place)| {
            let word = self.0.get(at as usize / 8).map(|word| word.load(Ordering::Relaxed).to_le_bytes());
            word.is_some_and(|word| {
                *place = word[at as usize % 8];
                true
            })
        })
    }

    fn write(&self, offset: u64, from: &[u8]) -> bool {
        (offset..).zip(from).all(|(at, &value)| {
            let shift = at % 8 * 8;
            self.0.get(at as usize / 8).is_some_and(|word| {
                word.fetch_and(!(0xff << shift), Ordering::Relaxed);
                word.fetch_or(u64::from(value) << shift, Ordering::Relaxed);
                true
            })
        })
    }

    fn update(&self, offset: u64, update: Update) -> Option<u64> {
        let word = self.0.get(offset as usize / 8).filter(|_| offset.is_multiple_of(8))?;
        Some(match update {
            Update::Add(value) => word.fetch_add(value, Ordering::SeqCst),
            Update::Swap(value) => word.swap(value, Ordering::SeqCst),
            Update::CompareSwap(old, new) => word
                .compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
                .unwrap_or_else(|held| held),
        })
    }
}

/// One side of the suite.
struct Side<'t, 'a> {
    transport: &'t mut dyn Transport,
    sink: Recorder<'a>,
    rank: Rank,
    peer: Rank,
}

/// Checks one end of a transport, while the other rank checks the other. `agent` is called when the transport says that the agent
/// has something, and does what the agent does.
///
/// # Panics
/// If the transport does not keep the contract.
pub fn check(rank: Rank, peer: Rank, transport: &mut dyn Transport, agent: &mut dyn FnMut()) {
    let mut side = Side { transport, sink: Recorder::new(agent), rank, peer };
    if side.meet() {
        side.order();
        side.late();
        side.withdrawals();
        side.answers();
        side.one_sided();
        side.bounds();
        side.part();
    }
    side.close();
}

impl Side<'_, '_> {
    fn message(&self, kind: u8, op: u64, payload: Payload) -> Message {
        let c = match payload {
            Payload::None => 0,
            Payload::Lazy(_, bytes) => bytes,
        };
        let header = Header { kind, op, a: self.rank.0.into(), c, ..Header::default() };
        Message { header, payload, expects_answer: false, path: Path::Route, leeway: Leeway::None }
    }

    fn send(&mut self, kind: u8, op: u64, payload: Payload) {
        let message = self.message(kind, op, payload);
        self.transport.send(self.peer, message, &mut self.sink).expect("the peer is there");
    }

    /// Polls until something holds, and sleeps in between as a rank would.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Recorder<'_>) -> bool) {
        let (sleeper, started_ms) = (self.transport.sleeper(), time::now_ms());
        while !holds(&mut self.sink) {
            if self.transport.poll(&mut self.sink).expect("a poll does what can be done") > 0 {
                continue;
            }
            match &sleeper {
                Some(sleeper) => sleeper.sleep(1).expect("sleep"),
                None => std::thread::yield_now(),
            }
            assert_eq!(self.sink.lost, [], "{what}");
            assert!(time::now_ms() < started_ms + LIMIT_MS, "{what}: still not");
        }
    }

    /// The next message, which must be this one, whole.
    fn expect(&mut self, kind: u8, op: u64, seed: u64, bytes: u64) {
        self.until("waiting for a message", |sink| !sink.came.is_empty());
        let came = self.sink.came.pop_front().expect("it came");
        let Header { kind: its_kind, op: its_op, a, c, .. } = came.header;
        assert_eq!((its_kind, its_op, a, c), (kind, op, self.peer.0.into(), bytes), "{came:?}");
        assert_eq!(came.bytes.len() as u64, bytes);
        assert!((0..).zip(&came.bytes).all(|(at, &value)| value == byte(seed, at)), "message {op}");
    }

    /// Whether the peer can be reached at all. If not, that is said once, and nothing comes.
    fn meet(&mut self) -> bool {
        assert_eq!(self.transport.footprint().connected, 0, "nobody was spoken to");
        let hello = self.message(HELLO, 0, Payload::None);
        if self.transport.send(self.peer, hello, &mut self.sink).is_ok() {
            self.expect(HELLO, 0, 0, 0);
            return true;
        }
        for _ in 0..10 {
            assert_eq!(self.transport.poll(&mut self.sink).expect("a poll"), 0);
        }
        assert!(self.sink.came.is_empty() && self.sink.lost.is_empty(), "an error told all there is to tell");
        false
    }

    /// Messages of all lengths arrive in order, each once.
    fn order(&mut self) {
        const COUNT: u64 = 120;
        let lengths = [0, 1, 100, 2048, 2049, 5000, PIECE_BYTES as u64, PIECE_BYTES as u64 + 1, 300 << 10];
        let most = self.transport.capabilities().largest_message;
        let length = |op: u64| lengths[op as usize % lengths.len()].min(most);
        for op in 0..COUNT {
            let payload = match length(op) {
                0 => Payload::None,
                bytes => Payload::Lazy(Source { kind: STEADY, place: op }, bytes),
            };
            self.send(NOTE, op, payload);
        }
        (0..COUNT).for_each(|op| self.expect(NOTE, op, op, length(op)));
    }

    /// What is not there yet is asked for again, and nothing behind it overtakes it.
    fn late(&mut self) {
        for (op, bytes) in [(0, 10), (2, 5000), (4, PIECE_BYTES as u64 * 2)] {
            self.send(NOTE, op, Payload::Lazy(Source { kind: LATE, place: op }, bytes));
            self.send(NOTE, op + 1, Payload::None);
            self.expect(NOTE, op, op, bytes);
            self.expect(NOTE, op + 1, 0, 0);
            self.until("waiting for a late payload to go", |sink| sink.asked.get(&op) > Some(&LATE_TIMES));
        }
    }

    /// What is gone is said to whoever sent it, and to nobody else; what is behind it comes.
    fn withdrawals(&mut self) {
        self.send(NOTE, 0, Payload::Lazy(Source { kind: GONE, place: 0 }, 100));
        self.send(NOTE, 1, Payload::None);
        self.send(NOTE, 2, Payload::Lazy(Source { kind: CUT, place: 2 }, 3 * PIECE_BYTES as u64));
        self.send(NOTE, 3, Payload::Lazy(Source { kind: STEADY, place: 3 }, 77));
        self.expect(NOTE, 1, 0, 0);
        self.expect(NOTE, 3, 3, 77);
        self.until("waiting for withdrawals", |sink| sink.withdrawn.len() == 2);
        assert_eq!(self.sink.withdrawn, [0, 2]);
    }

    /// Questions that go out together are answered in order, and mix with others.
    fn answers(&mut self) {
        const COUNT: u64 = 300;
        for op in 0..COUNT {
            let message = Message { expects_answer: true, ..self.message(QUESTION, op, Payload::None) };
            self.transport.post(self.peer, message, &mut self.sink).expect("the peer is there");
            if op == COUNT / 2 {
                self.send(NOTE, op, Payload::None);
            }
        }
        self.transport.flush(&mut self.sink);
        self.until("waiting for answers", |sink| sink.answers.len() as u64 == COUNT);
        assert!(self.sink.answers.iter().copied().eq(0..COUNT));
        self.expect(NOTE, COUNT / 2, 0, 0);
    }

    fn performed(&mut self, op: u64, operation: OneSided) -> Result<Option<u64>> {
        self.transport.perform(self.peer, op, operation, &mut self.sink).expect("it is begun");
        self.until("waiting for a one-sided operation", |sink| sink.performed.contains_key(&op));
        self.sink.performed.remove(&op).expect("it ended")
    }

    /// One-sided operations work, or are refused.
    fn one_sided(&mut self) {
        let capabilities = self.transport.capabilities();
        let cells = |first: u64| Arc::new(Cells((0..64).map(|word| AtomicU64::new(first + word)).collect()));
        let (mine, scratch) = (cells(100 * u64::from(self.rank.0)), cells(0));
        if !capabilities.one_sided_copies {
            assert!(self.transport.register(mine).is_err(), "what is not offered is refused");
            return;
        }
        let [mine_key, scratch_key] = [mine.clone(), scratch.clone()]
            .map(|memory| self.transport.register(memory).expect("memory is registered"));
        self.send(KEYS, mine_key.0, Payload::None);
        self.until("waiting for a key", |sink| !sink.came.is_empty());
        let key = Key(self.sink.came.pop_front().map_or(0, |came| came.header.op));
        let there = |offset| Spot { key, offset };
        let here = |offset| Spot { key: scratch_key, offset };
        let get = OneSided::Get { here: here(0), there: there(8), bytes: 17 };
        assert_eq!(self.performed(1, get), Ok(None));
        assert_eq!(scratch.0[1].load(Ordering::Relaxed), 100 * u64::from(self.peer.0) + 2);
        let put = OneSided::Put { here: here(8), there: there(256), bytes: 8 };
        assert_eq!(self.performed(2, put), Ok(None));
        for (op, bytes) in [(3, 1 << 20), (4, u64::MAX)] {
            let past = OneSided::Put { here: here(0), there: there(8), bytes };
            assert!(self.performed(op, past).is_err(), "past the end");
        }
        if capabilities.one_sided_atomics {
            let add = OneSided::Atomic { there: there(504), update: Update::Add(5) };
            assert_eq!(self.performed(5, add), Ok(Some(100 * u64::from(self.peer.0) + 63)));
        }
        self.send(NOTE, 0, Payload::None);
        self.expect(NOTE, 0, 0, 0);
        assert_eq!(mine.0[32].load(Ordering::Relaxed), 100 * u64::from(self.rank.0) + 2);
        for key in [mine_key, scratch_key] {
            self.transport.unregister(key).expect("it is registered");
        }
        assert!(self.transport.unregister(mine_key).is_err(), "once is enough");
    }

    /// What is queued costs bytes, not buffers.
    fn bounds(&mut self) {
        const COUNT: u64 = 64;
        let bytes = (1 << 20).min(self.transport.capabilities().largest_message);
        for op in 0..COUNT {
            self.send(NOTE, op, Payload::Lazy(Source { kind: STEADY, place: op }, bytes));
        }
        let footprint = self.transport.footprint();
        assert!(footprint.queued_bytes < COUNT / 2 * bytes, "{footprint:?}");
        assert!(footprint.connected <= 2, "{footprint:?}");
        (0..COUNT).for_each(|op| self.expect(NOTE, op, op, bytes));
    }

    /// Both have all they want before one of them goes.
    fn part(&mut self) {
        self.send(BYE, 0, Payload::None);
        self.expect(BYE, 0, 0, 0);
        assert!(self.sink.came.is_empty());
    }

    fn close(&mut self) {
        let sleeper = self.transport.sleeper();
        while self.transport.close(&mut self.sink) != Closing::Closed {
            self.transport.poll(&mut self.sink).expect("a poll");
            sleeper.iter().for_each(|sleeper| sleeper.sleep(1).expect("sleep"));
        }
        assert_eq!(self.sink.lost, [], "a goodbye is no loss");
    }
}
