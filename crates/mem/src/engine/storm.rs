//! Random programs over two to five engines and a network that does what a script says: for the tests below, and for the
//! fuzzer (`fuzz/targets/engines.rs`).
//!
//! Each engine has a node of its own, in an arena made here, and there is no clock but the one of the script. The script says
//! who issues what, which message is delivered next and in how many pieces, who dies and who hears of it in which way and
//! when, and what a rank that belongs to the job but lies sends besides. What must hold, whatever it says: nothing panics;
//! every operation of a rank that lives completes, once; those with which neither a dead nor a lying rank has to do
//! succeed, unless they ask for what is not there; and memory holds what the program says.

mod shapes;

use crate::engine::calls::{Service, Services};
use crate::engine::operations::{Action, Handle, Operation, Side, TORN_BYTES};
use crate::engine::order::{Condition, Order};
use crate::engine::start::{self, Started};
use crate::engine::{frames, turn, Engine};
use crate::node::address::{GlobalAddress, Registration, STARTER_SLOT};
use crate::node::atomic::{AtomicCall, AtomicOp};
use crate::node::ledger::Purpose;
use crate::node::local::Local;
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::contract::{Filled, Leeway, Message, Outbox, Payload, Sink, FLAG_MORE};
use kumiki_net::shm::arena::Arena;
use kumiki_net::shm::world::{Cause, Status};
use kumiki_net::terms::Terms;
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Starter memory of each rank: what is only read; places that one operation each writes to; words; and what belongs to
/// whoever lies.
const STARTER_BYTES: u64 = 4096;
const SOURCE_BYTES: u64 = 1024;
const PLACES_AT: u64 = 1024;
const PLACE_BYTES: u64 = 128;
const PLACES: u64 = 12;
const WORDS_AT: u64 = PLACES_AT + PLACES * PLACE_BYTES;
const WORDS: u64 = 4;
const OLD_AT: u64 = WORDS_AT + WORDS * 8;
const OLDS: u64 = 64;
const SCRATCH_AT: u64 = 3584;
const _: () = assert!(OLD_AT + OLDS * 8 <= SCRATCH_AT);

/// So many operations a program, at most.
const MOST_OPERATIONS: usize = 48;

static SERVICES: [Service; 1] = [Service { name: "echo", serve: echo }];

fn echo(_: Local<'_>, from: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    reply.extend(request.iter().map(|byte| byte ^ 0x55));
    reply.push(from as u8);
    Ok(())
}

/// The bytes that say what happens. When they are used up, nothing more does.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn next(&mut self) -> u64 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                u64::from(*first)
            }
            None => 0,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A number of 64 bits, of few bytes of the script: bytes at the ends, where things go wrong.
    fn wide(&mut self) -> u64 {
        let (byte, shift) = (self.next(), self.next());
        match shift & 0xc0 {
            0 => byte,
            0x40 => byte << (shift & 0x3f),
            0x80 => u64::MAX - (byte << (shift & 0x3f)),
            _ => byte | self.next() << (shift & 0x3f),
        }
    }
}

/// What an operation was for, to check what became of it.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// To copy bytes of the source of a rank to a place.
    Copy { from: u32, at: u64, bytes: u64, place: (u32, u64) },
    /// To add one to a word, and put its old value somewhere.
    Add { word: (u32, u64), old: (u32, u64) },
    /// To be answered.
    Call { to: u32, bytes: u64 },
    /// To copy rows: to a place with a word behind them, or into a buffer.
    Shape { to: u32, place: u64, wants: bool, lent: usize },
    /// What is not there.
    Nothing { to: u32 },
}

struct Issued {
    rank: u32,
    id: u64,
    wanted: Wanted,
    ended: Option<Result<()>>,
}

/// A rank.
struct Member {
    node: Node,
    engine: Engine,
    alive: bool,
    next_handle: u64,
    last: Option<u64>,
}

struct Storm {
    members: Vec<Member>,
    /// What is on its way, by sender and receiver.
    ways: BTreeMap<(u32, u32), VecDeque<Message>>,
    issued: Vec<Issued>,
    /// How often a place was written to: places that were written to more than once in order hold the last.
    used: BTreeMap<u32, u64>,
    olds: u64,
    /// What operations read and write in this process.
    lent: Vec<Box<[u8]>>,
    liar: Option<u32>,
    now_ms: u64,
    /// Who has heard of which death.
    told: Vec<(u32, u32)>,
}

/// Runs the program that a script describes. Panics if something does not hold.
#[cfg_attr(not(fuzzing), allow(unreachable_pub))]
pub fn run(script: &[u8]) {
    let mut script = Script(script);
    let ranks = 2 + script.below(4) as u32;
    let lies = script.below(3) == 0;
    let mut storm = Storm::new(ranks);
    storm.liar = lies.then(|| script.below(ranks.into()) as u32);
    while !script.0.is_empty() {
        storm.step(&mut script);
    }
    storm.settle();
    storm.check();
}

impl Storm {
    fn new(ranks: u32) -> Storm {
        let terms = Terms {
            peer_timeout_ms: 60_000,
            starter_bytes: STARTER_BYTES,
            allow_process_vm: 0,
            ..Terms::default()
        };
        let arenas = Arena::apart(1, ranks, terms).expect("an arena");
        let services = Services { table: &SERVICES, may_unwind: true };
        let member = |(rank, arena)| Member {
            node: Node::new(Arc::new(arena), Rank(rank), true, true, 0).expect("a node"),
            engine: Engine::new(services),
            alive: true,
            next_handle: 1,
            last: None,
        };
        let storm = Storm {
            members: (0..).zip(arenas).map(member).collect(),
            ways: BTreeMap::new(),
            issued: Vec::new(),
            used: BTreeMap::new(),
            olds: 0,
            lent: Vec::new(),
            liar: None,
            now_ms: 1,
            told: Vec::new(),
        };
        for rank in 0..ranks {
            let source: Vec<u8> = (0..SOURCE_BYTES).map(|at| pattern(rank, at)).collect();
            storm.write(rank, 0, &source);
        }
        storm
    }

    fn ranks(&self) -> u32 {
        self.members.len() as u32
    }

    fn address(&self, rank: u32, at: u64) -> GlobalAddress {
        self.members[0].node.format.address(Rank(rank), STARTER_SLOT, at)
    }

    fn write(&self, rank: u32, at: u64, bytes: &[u8]) {
        let local = Local { node: &self.members[rank as usize].node, busy: None };
        local.span(self.address(rank, at), bytes.len() as u64).and_then(|span| span.write(0, bytes)).unwrap();
    }

    fn read(&self, rank: u32, at: u64, bytes: u64) -> Vec<u8> {
        let local = Local { node: &self.members[rank as usize].node, busy: None };
        let mut found = vec![0; bytes as usize];
        local.span(self.address(rank, at), bytes).and_then(|span| span.read(0, &mut found)).unwrap();
        found
    }

    fn read_word(&self, rank: u32, at: u64) -> u64 {
        u64::from_le_bytes(self.read(rank, at, 8).try_into().unwrap())
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let rank = script.below(self.ranks().into()) as u32;
        let what = script.below(16);
        if !self.members[rank as usize].alive && what < 10 {
            return;
        }
        match what {
            0..=1 => self.copy(rank, script),
            2 => self.add(rank, script),
            3 => self.call(rank, script),
            4 => self.ask_for_nothing(rank, script),
            5 => self.lie(script),
            6 => self.go_on(rank),
            7 => self.tick(rank, script.below(8) * 200),
            8 if script.below(4) == 0 => self.die(rank),
            9 => self.hear(rank, script),
            10 if self.members[rank as usize].alive => self.shape(rank, script),
            _ => self.deliver_some(script),
        }
        self.look();
    }

    // ---- what programs do ----

    fn full(&self) -> bool {
        self.issued.len() >= MOST_OPERATIONS
    }

    fn copy(&mut self, rank: u32, script: &mut Script<'_>) {
        let (from, to) = (script.below(self.ranks().into()) as u32, script.below(self.ranks().into()) as u32);
        let order = [Order::None, Order::All, Order::Continue, Order::None][script.below(4) as usize];
        let bytes = script.below(PLACE_BYTES + 1);
        let at = script.next() * 3 % (SOURCE_BYTES - PLACE_BYTES);
        if self.full() {
            return;
        }
        let used = self.used.entry(to).or_default();
        if *used == PLACES {
            return;
        }
        let mut place = (to, PLACES_AT + *used * PLACE_BYTES);
        // A chain writes to one place again and again: the last one counts.
        let before = self.issued.iter().rev().find(|issued| issued.rank == rank);
        match before.map(|issued| issued.wanted) {
            Some(Wanted::Copy { place: again, .. }) if order != Order::None && again.0 == to => place = again,
            _ => *used += 1,
        }
        let side = |address| Side::Global(address, Registration::ANY);
        let (dst, src) = (self.address(place.0, place.1), self.address(from, at));
        let action = Action::Copy { dst: side(dst), src: side(src), bytes };
        self.issue(rank, action, order, Wanted::Copy { from, at, bytes, place });
    }

    fn add(&mut self, rank: u32, script: &mut Script<'_>) {
        let (to, old_to) =
            (script.below(self.ranks().into()) as u32, script.below(self.ranks().into()) as u32);
        if self.olds == OLDS || self.full() {
            return;
        }
        let (word, old) = ((to, WORDS_AT + script.below(WORDS) * 8), (old_to, OLD_AT + self.olds * 8));
        self.olds += 1;
        let (code, first, second) = AtomicOp::Add(1u64).encode();
        let call = AtomicCall {
            target: self.address(word.0, word.1),
            registration: Registration::ANY,
            code,
            first,
            second,
        };
        let action = Action::Atomic { dst: Some(self.address(old.0, old.1)), call };
        self.issue(rank, action, Order::None, Wanted::Add { word, old });
    }

    fn ask_for_nothing(&mut self, rank: u32, script: &mut Script<'_>) {
        let to = script.below(self.ranks().into()) as u32;
        if self.full() || to == rank {
            return;
        }
        let side = |address| Side::Global(address, Registration::ANY);
        let beyond = self.address(to, STARTER_BYTES - script.below(8));
        let action = match script.below(2) {
            0 => Action::Copy { dst: side(beyond), src: side(self.address(rank, 0)), bytes: 9 },
            _ => Action::Copy { dst: side(self.address(rank, SCRATCH_AT)), src: side(beyond), bytes: 9 },
        };
        self.issue(rank, action, Order::None, Wanted::Nothing { to });
    }

    /// Issues an operation as a program does: at once, or into the table if it has an order.
    fn issue(&mut self, rank: u32, action: Action, order: Order, wanted: Wanted) {
        let mut out = Outbox::default();
        let Member { node, engine, next_handle, last, .. } = &mut self.members[rank as usize];
        let id = *next_handle;
        *next_handle += 1;
        let mut ended = None;
        if order == Order::None {
            match start::start(node, action) {
                Ok(Started::Sent(peer, message)) => {
                    let message = engine.enter(id, peer, action, message);
                    out.messages.push((peer, message));
                }
                Ok(Started::Complete(value)) => {
                    ended = Some(finish(node, engine, id, action, value, &mut out))
                }
                Err(error) => ended = Some(Some(Err(error))),
            }
        } else {
            let ahead = turn::turn(node, &engine.operations, action);
            let condition = order.condition(id, *last).and(ahead);
            let pipelines = match condition {
                Condition::Exactly(previous) => engine
                    .operations
                    .get(previous)
                    .is_some_and(|previous| turn::pipelines(node, previous, action)),
                _ => false,
            };
            let condition = if pipelines { Condition::Free } else { condition };
            engine.operations.insert(id, Operation::of_program(action, condition));
            engine.feed(node).start_ready(&mut out);
        }
        *last = Some(id);
        assert_eq!(Handle::from_number(id).number(), id);
        self.issued.push(Issued { rank, id, wanted, ended: ended.flatten() });
        self.post(rank, out);
    }

    fn call(&mut self, rank: u32, script: &mut Script<'_>) {
        let to = script.below(self.ranks().into()) as u32;
        let bytes = script.below(100);
        if self.full() || to == rank {
            return;
        }
        let request: Vec<u8> = (0..bytes).map(|at| pattern(rank, at)).collect();
        let Member { node, engine, .. } = &mut self.members[rank as usize];
        let id = engine.new_internal();
        let action = Action::Call {
            to: Rank(to),
            service: 0,
            leeway: if to.is_multiple_of(2) { Leeway::Short } else { Leeway::Long },
            bytes,
            few: frames::Few::new(&request),
        };
        engine.calls.begin(id, request);
        let Ok(Started::Sent(peer, message)) = start::start(node, action) else { panic!("a call is sent") };
        let message = engine.enter(id, peer, action, message);
        engine.feed(node).settle();
        self.issued.push(Issued { rank, id, wanted: Wanted::Call { to, bytes }, ended: None });
        let mut out = Outbox::default();
        out.messages.push((peer, message));
        self.post(rank, out);
    }

    // ---- what the network does ----

    fn post(&mut self, from: u32, out: Outbox) {
        for (to, message) in out.messages {
            let other = self.members.get(to.index()).map(|member| member.alive);
            match other {
                Some(true) if self.members[from as usize].alive => {
                    self.ways.entry((from, to.0)).or_default().push_back(message);
                }
                // Whoever calls the dead finds that out once more.
                Some(false) => self.told.retain(|told| *told != (from, to.0)),
                _ => {}
            }
        }
    }

    fn deliver_some(&mut self, script: &mut Script<'_>) {
        let busy: Vec<(u32, u32)> =
            self.ways.iter().filter(|(_, way)| !way.is_empty()).map(|(key, _)| *key).collect();
        if busy.is_empty() {
            return;
        }
        let way = busy[script.below(busy.len() as u64) as usize];
        let pieces = 1 + script.below(3);
        let tear = script.below(16) == 0;
        let twice = self.liar == Some(way.0) && script.below(4) == 0;
        if let Some(message) = self.ways.get_mut(&way).and_then(VecDeque::pop_front) {
            if twice {
                self.deliver(way, message, pieces, false);
            }
            self.deliver(way, message, pieces, tear);
        }
    }

    fn deliver(&mut self, (from, to): (u32, u32), message: Message, pieces: u64, tear: bool) {
        let (mut out, mut back) = (Outbox::default(), Outbox::default());
        match message.payload {
            Payload::None => {
                let Member { node, engine, .. } = &mut self.members[to as usize];
                engine.feed(node).frame(Rank(from), 5, &message.header, &mut out);
            }
            Payload::Lazy(source, bytes) => {
                let piece = bytes.div_ceil(pieces).max(1);
                let mut at = 0;
                while at < bytes {
                    let length = piece.min(bytes - at);
                    let mut buffer = vec![0; length as usize];
                    let Member { node, engine, .. } = &mut self.members[from as usize];
                    if engine.feed(node).fill(source, at, &mut buffer) != Filled::Whole {
                        engine.feed(node).withdrawn(Rank(to), &message.header, &mut back);
                        break;
                    }
                    let mut header = Header { d: at, ..message.header };
                    at += length;
                    if at < bytes {
                        header.flags |= FLAG_MORE;
                    }
                    let Member { node, engine, .. } = &mut self.members[to as usize];
                    let mut feed = engine.feed(node);
                    let (first, second) = buffer.split_at(buffer.len() / 2);
                    feed.part(Rank(from), &header, 0, first);
                    feed.part(Rank(from), &header, first.len() as u32, second);
                    // Only what is large and copied from memory to memory is ever sent in place, and its second try is not.
                    let large = bytes >= TORN_BYTES && matches!(header.kind, frames::PUT | frames::DATA);
                    let torn = tear && at == bytes && large;
                    if torn && !self.is_repeated(from, to, &header) {
                        let Member { node, engine, .. } = &mut self.members[to as usize];
                        engine.feed(node).torn(Rank(from), 5, &header, &mut out);
                    } else {
                        let Member { node, engine, .. } = &mut self.members[to as usize];
                        engine.feed(node).frame(Rank(from), 5, &header, &mut out);
                    }
                }
            }
        }
        self.post(to, out);
        self.post(from, back);
    }

    /// Whether the payload of an operation goes for the second time.
    fn is_repeated(&self, from: u32, to: u32, header: &Header) -> bool {
        let initiator = if header.kind == frames::PUT { from } else { to };
        let operation = self.members[initiator as usize].engine.operations.get(header.op);
        let is_copy = |operation: &Operation| matches!(operation.action, Action::Copy { .. });
        operation.is_none_or(|operation| operation.repeated || !is_copy(operation))
    }

    fn go_on(&mut self, rank: u32) {
        let mut out = Outbox::default();
        let Member { node, engine, .. } = &mut self.members[rank as usize];
        engine.feed(node).go_on(&mut out);
        while engine.next_report().is_some() {}
        self.post(rank, out);
    }

    fn tick(&mut self, rank: u32, later_ms: u64) {
        self.now_ms += later_ms;
        let mut out = Outbox::default();
        let Member { node, engine, .. } = &mut self.members[rank as usize];
        engine.feed(node).tick(self.now_ms, &mut out);
        self.post(rank, out);
    }

    // ---- what goes wrong ----

    fn die(&mut self, rank: u32) {
        let alive = self.members.iter().filter(|member| member.alive).count();
        if alive > 1 {
            self.members[rank as usize].alive = false;
            self.ways.retain(|(from, to), _| *from != rank && *to != rank);
        }
    }

    /// A rank hears of a death: by its connection, by the agents, or by both in whichever order.
    fn hear(&mut self, rank: u32, script: &mut Script<'_>) {
        let dead = (0..self.ranks()).filter(|dead| !self.members[*dead as usize].alive).collect::<Vec<_>>();
        if dead.is_empty() {
            return;
        }
        let dead = dead[script.below(dead.len() as u64) as usize];
        if script.below(2) == 0 {
            self.notice(rank, dead);
        } else {
            self.break_connection(rank, dead);
        }
    }

    fn notice(&mut self, rank: u32, dead: u32) {
        let mut out = Outbox::default();
        let Member { node, engine, .. } = &mut self.members[rank as usize];
        let (arena, cause) = (&node.arena, Cause::signal(9));
        arena.place(Rank(dead)).unwrap().set_status(Status::Lost, cause, arena.changes());
        engine.feed(node).notice(&mut out);
        self.post(rank, out);
    }

    fn break_connection(&mut self, rank: u32, dead: u32) {
        if self.told.contains(&(rank, dead)) {
            return;
        }
        self.told.push((rank, dead));
        let mut out = Outbox::default();
        let Member { node, engine, .. } = &mut self.members[rank as usize];
        let error = kumiki_net::Error::PeerLost { rank: Rank(dead), why: "the connection broke".into() };
        engine.feed(node).lost(Rank(dead), error, &mut out);
        self.post(rank, out);
    }

    /// Whoever lies sends a frame of its own making: with numbers that are in use, and addresses that are not.
    fn lie(&mut self, script: &mut Script<'_>) {
        let Some(liar) = self.liar.filter(|liar| self.members[*liar as usize].alive) else { return };
        let to = script.below(self.ranks().into()) as u32;
        let scratch = self.address(script.below(self.ranks().into()) as u32, SCRATCH_AT + script.below(512));
        let garbage = script.wide() | 0xfff0 << 32;
        let op = match script.below(3) {
            0 => script.below(64),
            1 => operations_of(&self.members[to as usize], script.below(8)),
            _ => script.wide(),
        };
        let mut header = Header {
            kind: frames::PUT + script.below(16) as u8,
            flags: script.next() as u8,
            op,
            a: if script.below(2) == 0 { scratch.bits() } else { garbage },
            b: if script.below(2) == 0 { scratch.bits() } else { garbage },
            c: script.wide(),
            d: script.wide(),
            generation: script.below(3) as u16,
            generation_b: script.below(3) as u16,
            ..Header::default()
        };
        if matches!(header.kind, frames::PUT | frames::PUT_FEW | frames::ATOMIC | frames::COPY | frames::GET)
        {
            // What the liar may write to is its own business, so that the rest can be checked.
            header.c = header.c.min(64);
        }
        if to == liar {
            return;
        }
        let bytes = vec![0xee; script.below(64) as usize];
        let mut out = Outbox::default();
        let Member { node, engine, alive, .. } = &mut self.members[to as usize];
        if *alive {
            let mut feed = engine.feed(node);
            if !bytes.is_empty() {
                feed.part(Rank(liar), &header, script.below(8) as u32, &bytes);
            }
            feed.frame(Rank(liar), 5, &header, &mut out);
        }
        self.post(to, out);
    }

    // ---- what must hold ----

    /// Notes what has completed.
    fn look(&mut self) {
        for issued in &mut self.issued {
            let Member { node, engine, alive, .. } = &mut self.members[issued.rank as usize];
            if !*alive || issued.ended.is_some() {
                continue;
            }
            let Some(result) = engine.operations.take_result_of(issued.id) else { continue };
            if let Wanted::Call { to, bytes } = issued.wanted {
                let reply = engine.calls.end(issued.id);
                engine.feed(node).settle();
                // Whoever lies may ask for two things under one number.
                if result.is_ok() && ![Some(to), Some(issued.rank)].contains(&self.liar) {
                    let right = (0..bytes).map(|at| pattern(issued.rank, at) ^ 0x55);
                    assert!(reply.iter().copied().eq(right.chain([issued.rank as u8])), "a reply of {to}");
                }
            }
            if matches!(issued.wanted, Wanted::Shape { .. }) {
                engine.sections.end(issued.id);
                engine.feed(node).settle();
            }
            issued.ended = Some(result);
        }
    }

    /// Delivers everything, tells everybody of the dead, and lets time pass.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut quiet = true;
            let ways: Vec<(u32, u32)> = self.ways.keys().copied().collect();
            for way in ways {
                while let Some(message) = self.ways.get_mut(&way).and_then(VecDeque::pop_front) {
                    quiet = false;
                    self.deliver(way, message, 1, false);
                }
            }
            for rank in
                (0..self.ranks()).filter(|rank| self.members[*rank as usize].alive).collect::<Vec<_>>()
            {
                for dead in 0..self.ranks() {
                    if !self.members[dead as usize].alive && !self.told.contains(&(rank, dead)) {
                        quiet = false;
                        self.break_connection(rank, dead);
                    }
                }
                self.go_on(rank);
                if self.members[rank as usize].engine.wants_time() {
                    quiet = false;
                    self.tick(rank, 1000);
                }
            }
            self.look();
            if quiet && self.ways.values().all(VecDeque::is_empty) && self.all_are_told() {
                return;
            }
        }
        panic!("the engines come to no end");
    }

    /// Whether everybody has heard of the dead, also whoever has called them since.
    fn all_are_told(&self) -> bool {
        let is_alive = |rank: &u32| self.members[*rank as usize].alive;
        let dead: Vec<u32> = (0..self.ranks()).filter(|rank| !is_alive(rank)).collect();
        (0..self.ranks())
            .filter(is_alive)
            .all(|rank| dead.iter().all(|dead| self.told.contains(&(rank, *dead))))
    }

    /// Whether a rank does what it is asked.
    fn is_honest(&self, rank: u32) -> bool {
        self.members[rank as usize].alive && self.liar != Some(rank)
    }

    fn check(&self) {
        for issued in self.issued.iter().filter(|issued| self.members[issued.rank as usize].alive) {
            let Some(result) = &issued.ended else {
                let left = self.members[issued.rank as usize].engine.operations.get(issued.id);
                let Storm { liar, told, .. } = self;
                panic!(
                    "{:?} of rank {} does not complete: {left:?}, liar {liar:?}, told {told:?}",
                    issued.wanted, issued.rank
                );
            };
            let with = match issued.wanted {
                Wanted::Copy { from, place, .. } => vec![from, place.0],
                Wanted::Add { word, old } => vec![word.0, old.0],
                Wanted::Call { to, .. } | Wanted::Shape { to, .. } | Wanted::Nothing { to } => vec![to],
            };
            if !with.iter().chain([&issued.rank]).all(|rank| self.is_honest(*rank)) {
                continue;
            }
            match issued.wanted {
                Wanted::Nothing { .. } => {
                    assert!(matches!(result, Err(Error::Bounds { .. })), "{result:?}");
                }
                wanted => assert_eq!(result, &Ok(()), "{wanted:?} of rank {}", issued.rank),
            }
        }
        for rank in (0..self.ranks()).filter(|rank| self.is_honest(*rank)) {
            self.check_places(rank);
            self.check_words(rank);
        }
        self.check_shapes();
        for (rank, member) in (0..).zip(&self.members).filter(|(_, member)| member.alive) {
            if self.liar.is_none() {
                assert_eq!(member.engine.pending(), 0, "rank {rank} has something left");
                assert_eq!(member.node.books.of(Purpose::Operation), 0, "rank {rank} has bytes booked");
            }
        }
    }

    /// A place holds what the last copy to it brought, if all copies to it came from honest ranks.
    fn check_places(&self, rank: u32) {
        let mut places: BTreeMap<u64, Vec<&Issued>> = BTreeMap::new();
        for issued in &self.issued {
            if let Wanted::Copy { place, .. } = issued.wanted {
                if place.0 == rank {
                    places.entry(place.1).or_default().push(issued);
                }
            }
        }
        for (place, writers) in places {
            let by_honest = |issued: &&Issued| match issued.wanted {
                Wanted::Copy { from, .. } => self.is_honest(from) && self.is_honest(issued.rank),
                _ => false,
            };
            if !writers.iter().all(by_honest) {
                continue;
            }
            let mut wanted = vec![0; PLACE_BYTES as usize];
            for writer in writers {
                let Wanted::Copy { from, at, bytes, .. } = writer.wanted else { continue };
                (0..bytes).for_each(|byte| wanted[byte as usize] = pattern(from, at + byte));
            }
            assert_eq!(self.read(rank, place, PLACE_BYTES), wanted, "rank {rank}, place {place}");
        }
        let source: Vec<u8> = (0..SOURCE_BYTES).map(|at| pattern(rank, at)).collect();
        assert_eq!(self.read(rank, 0, SOURCE_BYTES), source, "what is only read");
    }

    /// A word was added to once by every operation that succeeded, and at most once by those of whom nobody knows.
    fn check_words(&self, rank: u32) {
        for word in (0..WORDS).map(|index| WORDS_AT + index * 8) {
            let adds = self.issued.iter().filter_map(|issued| match issued.wanted {
                Wanted::Add { word: at, old } if at == (rank, word) => Some((issued, old)),
                _ => None,
            });
            let adds: Vec<(&Issued, (u32, u64))> = adds.collect();
            let sure = adds.iter().filter(|(issued, _)| issued.ended == Some(Ok(()))).count() as u64;
            let value = self.read_word(rank, word);
            let honest = adds.iter().all(|(issued, _)| self.liar != Some(issued.rank));
            assert!(value >= sure || !honest, "{value} of {sure}");
            // Whoever lies may say everything twice.
            assert!(value <= adds.len() as u64 || !honest, "{value} of {}", adds.len());
            for (issued, old) in adds {
                if issued.ended == Some(Ok(())) && self.is_honest(old.0) && self.is_honest(issued.rank) {
                    assert!(self.read_word(old.0, old.1) < value, "an old value");
                }
            }
        }
    }
}

/// What a program does with an operation that was complete when it was started.
fn finish(
    node: &Node,
    engine: &mut Engine,
    id: u64,
    action: Action,
    value: Option<u64>,
    out: &mut Outbox,
) -> Option<Result<()>> {
    let (Some(old), Action::Atomic { dst: Some(dst), call }) = (value, action) else { return Some(Ok(())) };
    match start::store_value(node, dst, old, call.code) {
        Ok(None) => Some(Ok(())),
        Ok(Some((peer, message))) => {
            let message = engine.enter(id, peer, start::DELIVERY, message);
            out.messages.push((peer, message));
            None
        }
        Err(error) => Some(Err(error)),
    }
}

fn pattern(rank: u32, at: u64) -> u8 {
    (u64::from(rank) * 59 + at * 7 + at / 251 + 1) as u8
}

/// The number of one of the operations of a rank that wait for an answer.
fn operations_of(member: &Member, index: u64) -> u64 {
    let ids: Vec<u64> = member
        .engine
        .operations
        .peers()
        .into_iter()
        .flat_map(|peer| member.engine.operations.waiting_for(peer))
        .collect();
    ids.get(index as usize % ids.len().max(1)).copied().unwrap_or(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts as long and as random as they must be to meet everything.
    fn script(seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let length = 40 + seed % 900;
        (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn random_programs_over_engines_end_and_do_what_they_say() {
        for seed in 0..600 {
            let result = std::panic::catch_unwind(|| run(&script(seed)));
            assert!(result.is_ok(), "the script of seed {seed}");
        }
    }

    /// A model that accepts everything checks nothing.
    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_message_that_is_lost_is_noticed() {
        let noticed = (0..200).any(|seed| {
            let lossy = std::panic::AssertUnwindSafe(|| {
                let mut storm = Storm::new(2);
                let bytes = script(seed);
                let mut script = Script(&bytes);
                (0..4).for_each(|_| storm.copy(0, &mut script));
                assert!(storm.ways.values_mut().all(|way| way.pop_front().is_some()));
                storm.settle();
                storm.check();
            });
            std::panic::catch_unwind(lossy).is_err()
        });
        assert!(noticed);
    }
}
