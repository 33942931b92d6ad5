//! Transports of two ranks in one process, with a test between them that plays the agent.

use super::link::BURST_BYTES;
use super::*;
use crate::auth::Purpose;
use crate::contract::{suite, Filled, Leeway, Outbox, Path, Payload, Source, PIECE_BYTES};
use crate::shm::arena::Config;
use crate::shm::world::{Cause, Place, Status};
use crate::terms::Terms;
use crate::wire::{Connection, Header};
use crate::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;

mod goodbyes;
mod letters;

const JOB: JobId = JobId(5);
/// The peer timeout of these worlds.
const PATIENCE_MS: u64 = 100;
/// A frame of the layer above.
const KIND: u8 = 40;

pub(super) struct Unlimited;

impl Accounts for Unlimited {
    fn book(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn force(&self, _: u64) {}

    fn unbook(&self, _: u64) {}
}

/// Books with a budget.
struct Purse {
    booked: AtomicU64,
    budget: AtomicU64,
}

impl Accounts for Purse {
    fn book(&self, bytes: u64) -> Result<()> {
        let (booked, budget) = (self.booked.load(Ordering::Relaxed), self.budget.load(Ordering::Relaxed));
        if booked + bytes > budget {
            return Err(Error::OutOfMemory {
                asked: bytes,
                left: budget.saturating_sub(booked),
                what: "a test",
            });
        }
        self.force(bytes);
        Ok(())
    }

    fn force(&self, bytes: u64) {
        self.booked.fetch_add(bytes, Ordering::Relaxed);
    }

    fn unbook(&self, bytes: u64) {
        self.booked.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What a transport has told the layer above.
#[derive(Default)]
struct Heard {
    frames: Vec<Header>,
    lost: Vec<Error>,
    unsent: Vec<(Error, bool)>,
    filled_bytes: u64,
}

impl Sink for Heard {
    fn part(&mut self, _: Rank, _: &Header, _: u32, _: &[u8]) {}

    fn frame(&mut self, _: Rank, _: u32, header: &Header, _: &mut Outbox) -> bool {
        self.frames.push(*header);
        false
    }

    fn fill(&mut self, _: Source, _: u64, place: &mut [u8]) -> Filled {
        self.filled_bytes += place.len() as u64;
        Filled::Whole
    }

    fn torn(&mut self, _: Rank, _: u32, _: &Header, _: &mut Outbox) -> bool {
        false
    }

    fn withdrawn(&mut self, _: Rank, _: &Header, _: &mut Outbox) {}

    fn lost(&mut self, _: Rank, error: Error, _: &mut Outbox) {
        self.lost.push(error);
    }

    fn unsent(&mut self, _: Rank, error: Error, silent: bool, _: &mut Outbox) {
        self.unsent.push((error, silent));
    }

    fn agent(&mut self, _: &mut Outbox) {}
}

/// The world of so many ranks, one a node; calls to all of them come to this address.
fn world(ranks: u32, address: SocketAddr) -> Arc<Arena> {
    let arena = Arena::create(Config {
        job: JOB.0,
        ranks,
        nodes: ranks,
        node: 0,
        local_ranks: 1,
        machine_ranks: ranks,
        machine_cores: 1,
        terms: Terms {
            peer_timeout_ms: PATIENCE_MS as u32,
            starter_bytes: 0,
            allow_process_vm: 0,
            ..Terms::default()
        },
    });
    let arena = arena.unwrap();
    for rank in 0..ranks {
        let place = Place { node: rank, local: 0, status: Status::Alive, cause: Cause::UNKNOWN };
        arena.place(Rank(rank)).unwrap().store(place, arena.changes());
        arena.node(rank).unwrap().store(address);
    }
    Arc::new(arena)
}

fn transport(arena: &Arc<Arena>, rank: u32, cap: usize, most: usize) -> Tcp {
    let setup = Setup {
        arena: arena.clone(),
        rank: Rank(rank),
        job: JOB,
        secret: Arc::new(secret()),
        connection_cap: cap,
        most_connections: most,
        pacing: Pacing::Auto,
        multipath: false,
        route: crate::route::Route::Direct,
        accounts: Arc::new(Unlimited),
        callers: Arc::default(),
    };
    Tcp::new(setup, None).unwrap()
}

/// A rank of a world in which each rank is on a node of its own, at these addresses, and in which connections are mended or not.
pub(super) fn rank_of(rank: u32, addresses: &[SocketAddr], peer_timeout_ms: u32, mend_links: u32) -> Tcp {
    let ranks = addresses.len() as u32;
    let config = Config {
        job: JOB.0,
        ranks,
        nodes: ranks,
        node: rank,
        local_ranks: 1,
        machine_ranks: ranks,
        machine_cores: 1,
        terms: Terms {
            peer_timeout_ms,
            starter_bytes: 1024,
            allow_process_vm: 0,
            mend_links,
            ..Terms::default()
        },
    };
    let arena = Arena::create(config).unwrap();
    arena.prepare_rank(0).unwrap();
    for (other, address) in (0..).zip(addresses) {
        let place = Place { node: other, local: 0, status: Status::Alive, cause: Cause::UNKNOWN };
        arena.place(Rank(other)).unwrap().store(place, arena.changes());
        arena.node(other).unwrap().store(*address);
    }
    transport(&Arc::new(arena), rank, 8, 8)
}

fn secret() -> Secret {
    Secret::from_bytes([3; 32])
}

pub(super) fn listener() -> TcpListener {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn note() -> Message {
    let header = Header { kind: KIND, ..Header::default() };
    Message { header, payload: Payload::None, expects_answer: false, path: Path::Route, leeway: Leeway::None }
}

/// Hands the callers at the port to a rank, as its agent would.
fn hand_over(port: &TcpListener, to: &mut Tcp) {
    while let Ok((socket, _)) = port.accept() {
        to.take_in(socket.into()).unwrap();
    }
}

/// Two ranks, of which the first has called the second.
fn connected() -> [(Tcp, Heard); 2] {
    let port = listener();
    let arena = world(2, port.local_addr().unwrap());
    let (mut caller, mut callee) = (transport(&arena, 0, 8, 8), transport(&arena, 1, 8, 8));
    let (mut heard, mut reached) = (Heard::default(), Heard::default());
    caller.send(Rank(1), note(), &mut heard).unwrap();
    while reached.frames.is_empty() {
        hand_over(&port, &mut callee);
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    reached.frames.clear();
    [(caller, heard), (callee, reached)]
}

#[test]
fn a_peer_that_nobody_listens_for_in_files_is_lost_in_the_end() {
    let path = std::env::temp_dir().join(format!("kumiki-tcp-files-{}", std::process::id()));
    let files = crate::route::files::Files::at(&path, 1 << 20).unwrap();
    let arena = world(2, "127.0.0.1:9".parse().unwrap());
    let mut caller = transport(&arena, 0, 8, 8);
    caller.setup.route = crate::route::Route::by_files(files, false);
    let mut heard = Heard::default();
    caller.send(Rank(1), note(), &mut heard).unwrap();
    let until_ms = time::now_ms() + 200 * PATIENCE_MS;
    while heard.lost.is_empty() && time::now_ms() < until_ms {
        caller.poll(&mut heard).unwrap();
    }
    assert_eq!(heard.lost.len(), 1);
    drop(caller);
    assert!(!path.exists());
}

#[test]
fn a_peer_that_lives_and_turns_callers_away_is_called_again_and_again() {
    let port = listener();
    let arena = world(2, port.local_addr().unwrap());
    let (mut caller, mut callee) = (transport(&arena, 0, 8, 8), transport(&arena, 1, 8, 8));
    let (mut heard, mut reached) = (Heard::default(), Heard::default());
    caller.send(Rank(1), note(), &mut heard).unwrap();
    // Its agent has no room for us, for longer than the peer timeout: it is busy, not dead.
    let busy_until_ms = time::now_ms() + 3 * PATIENCE_MS;
    let mut turned_away = 0;
    while time::now_ms() < busy_until_ms {
        turned_away += port.accept().is_ok() as u32;
        caller.poll(&mut heard).unwrap();
    }
    assert!(turned_away > 1, "called {turned_away} times");
    while reached.frames.is_empty() && heard.lost.is_empty() {
        hand_over(&port, &mut callee);
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!((reached.frames.len(), heard.lost), (1, Vec::new()));
}

#[test]
fn a_caller_that_needs_long_for_its_proof_is_let_in() {
    let port = listener();
    let arena = world(2, port.local_addr().unwrap());
    let mut callee = transport(&arena, 1, 8, 8);
    let mut heard = Heard::default();
    let me = Identity { rank: 0, incarnation: arena.shared().incarnation() };
    let now_ms = time::now_ms();
    let mut wire = Connection::initiate(JOB, &secret(), me, 1, Purpose::Data, [1; 32], now_ms);
    let mut stream = TcpStream::connect(port.local_addr().unwrap()).unwrap();
    stream.write_all(&wire.take_output().unwrap()).unwrap();
    while callee.open == 0 {
        hand_over(&port, &mut callee);
    }
    // Longer than any handshake may take for somebody of whom nobody knows that it lives.
    let late_ms = now_ms + crate::wire::ANSWER_TIMEOUT_MS + PATIENCE_MS;
    while time::now_ms() < late_ms {
        callee.poll(&mut heard).unwrap();
        let _ = callee.sleeper.sleep(10);
    }
    assert_eq!(callee.open, 1, "the caller was sent away");
    let mut challenge = [0; crate::auth::CHALLENGE_BYTES];
    stream.read_exact(&mut challenge).unwrap();
    wire.feed(&secret(), &challenge).unwrap();
    stream.write_all(&wire.take_output().unwrap()).unwrap();
    stream.write_all(&wire.seal(note().header).unwrap()).unwrap();
    while heard.frames.is_empty() {
        callee.poll(&mut heard).unwrap();
    }
    // When it is given up, nobody waits for the next one that plays its HELLO.
    arena.place(Rank(0)).unwrap().set_status(Status::Lost, Cause::EXITED, arena.changes());
    let mut wire = Connection::initiate(JOB, &secret(), me, 1, Purpose::Data, [2; 32], now_ms);
    let mut stream = TcpStream::connect(port.local_addr().unwrap()).unwrap();
    stream.write_all(&wire.take_output().unwrap()).unwrap();
    while callee.open == 1 {
        hand_over(&port, &mut callee);
    }
    while callee.open == 2 {
        callee.poll(&mut heard).unwrap();
    }
}

#[test]
fn recorded_hellos_took_every_place() {
    let port = listener();
    let arena = world(3, port.local_addr().unwrap());
    let mut callee = transport(&arena, 1, 4, 8);
    let mut heard = Heard::default();
    let me = Identity { rank: 0, incarnation: arena.shared().incarnation() };
    let mut callers = Vec::new();
    for nonce in 0..5 {
        let now_ms = time::now_ms();
        let mut wire = Connection::initiate(JOB, &secret(), me, 1, Purpose::Data, [nonce; 32], now_ms);
        let mut stream = TcpStream::connect(port.local_addr().unwrap()).unwrap();
        stream.write_all(&wire.take_output().unwrap()).unwrap();
        callers.push((wire, stream));
        let before = callee.open;
        while callee.open == before {
            hand_over(&port, &mut callee);
        }
        while callee.links.iter().flatten().any(|link| link.claimed().is_none()) {
            callee.poll(&mut heard).unwrap();
        }
    }
    assert_eq!(callee.open, 2, "callers that have not proven who they are");
    // The latest of them is the rank itself, and comes in.
    let (mut wire, mut stream) = callers.pop().unwrap();
    let mut challenge = [0; crate::auth::CHALLENGE_BYTES];
    stream.read_exact(&mut challenge).unwrap();
    wire.feed(&secret(), &challenge).unwrap();
    stream.write_all(&wire.take_output().unwrap()).unwrap();
    stream.write_all(&wire.seal(note().header).unwrap()).unwrap();
    while heard.frames.is_empty() {
        callee.poll(&mut heard).unwrap();
    }
}

#[test]
fn a_connection_that_ends_behind_a_goodbye_is_no_loss() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    // It leaves, and does not wait for our goodbye. Its agent has not told anybody yet.
    while callee.close(&mut reached) == Closing::Sending {}
    // What it has not read makes the end of the connection a reset.
    caller.send(Rank(1), note(), &mut heard).unwrap();
    drop(callee);
    while caller.open > 0 {
        caller.poll(&mut heard).unwrap();
    }
    assert_eq!(heard.lost, Vec::new());
}

/// What makes a call wait for a while.
const NO_PORT: Error = Error::System { call: "connect", errno: libc::EADDRNOTAVAIL };

#[test]
fn a_question_that_was_reported_lost_was_asked_again() {
    let [(mut caller, mut heard), (callee, _)] = connected();
    drop(callee);
    caller.call_later(Rank(1), note(), &NO_PORT, &mut heard, &mut Outbox::default());
    while heard.lost.is_empty() {
        caller.poll(&mut heard).unwrap();
    }
    assert_eq!((caller.retries.len(), caller.open), (0, 0), "it is still to be asked");
}

#[test]
fn a_question_that_waited_behind_one_that_was_lost_was_asked_all_the_same() {
    let [(mut caller, mut heard), (callee, _)] = connected();
    // What it has not read makes the end of the connection a reset: the next question finds it.
    caller.send(Rank(1), note(), &mut heard).unwrap();
    drop(callee);
    caller.waiting.extend([(Rank(1), note()), (Rank(1), note())]);
    caller.tend(&mut heard, &mut Outbox::default());
    assert_eq!(heard.lost.len(), 1);
    let left = (caller.open, caller.retries.len(), caller.waiting.len());
    assert_eq!(left, (0, 0, 0), "the second one is still asked");
}

#[test]
fn an_idle_connection_to_another_machine_woke_its_rank_ten_times_a_second() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let mut out = Outbox::default();
    // Only links to other machines are looked after, and here are none.
    caller.links.iter_mut().flatten().for_each(|link| link.is_here = false);
    caller.next_deadline_ms = None;
    caller.check_peers(time::now_ms(), &mut heard, &mut out);
    assert_eq!(caller.wake_up_at(), None, "nothing is under way");
    caller.send(Rank(1), Message { expects_answer: true, ..note() }, &mut heard).unwrap();
    assert!(caller.wake_up_at().is_some(), "an answer is under way");
    caller.next_deadline_ms = None;
    caller.check_peers(time::now_ms(), &mut heard, &mut out);
    assert!(caller.wake_up_at().is_some(), "and still is");
    while reached.frames.is_empty() {
        callee.poll(&mut reached).unwrap();
    }
}

#[test]
fn a_question_overtook_one_that_waited_for_a_place() {
    let port = listener();
    let arena = world(2, port.local_addr().unwrap());
    let (mut caller, mut callee) = (transport(&arena, 0, 8, 8), transport(&arena, 1, 8, 8));
    let (mut heard, mut reached) = (Heard::default(), Heard::default());
    let numbered = |op| Message { header: Header { op, ..note().header }, ..note() };
    caller.call_later(Rank(1), numbered(1), &NO_PORT, &mut heard, &mut Outbox::default());
    caller.waiting.push((Rank(1), numbered(2)));
    caller.send(Rank(1), numbered(3), &mut heard).unwrap();
    while reached.frames.len() < 3 {
        hand_over(&port, &mut callee);
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!(reached.frames.iter().map(|header| header.op).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn trouble_of_our_own_is_no_loss_of_the_peer() {
    // The kernel has no way to an address of a group.
    let arena = world(2, SocketAddr::from(([224, 0, 0, 1], 9)));
    let mut caller = transport(&arena, 0, 8, 8);
    let mut heard = Heard::default();
    caller.send(Rank(1), note(), &mut heard).unwrap();
    caller.send(Rank(1), note(), &mut heard).unwrap();
    while heard.unsent.is_empty() && heard.lost.is_empty() {
        caller.poll(&mut heard).unwrap();
    }
    assert_eq!(heard.lost, Vec::new());
    let [(error, true)] = &heard.unsent[..] else { panic!("{:?}", heard.unsent) };
    assert!(matches!(error, Error::System { errno: libc::ENETUNREACH, .. }), "{error}");
    assert!(error.to_string().contains("KUMIKI_NET"), "{error}");
}

#[test]
fn callers_beyond_the_most_connections_all_get_their_turn() {
    const CALLERS: u32 = 12;
    let port = listener();
    let arena = world(CALLERS + 1, port.local_addr().unwrap());
    let (mut callee, mut reached) = (transport(&arena, 0, 2, 4), Heard::default());
    let mut callers: Vec<(Tcp, Heard)> =
        (1..=CALLERS).map(|rank| (transport(&arena, rank, 8, 8), Heard::default())).collect();
    for (caller, heard) in &mut callers {
        caller.send(Rank(0), note(), heard).unwrap();
    }
    while reached.frames.len() < CALLERS as usize {
        let mut out = Outbox::default();
        port.accept().into_iter().for_each(|(socket, _)| callee.setup.callers.push(socket.into()));
        callee.let_in(&mut reached, &mut out);
        callee.settle_outbox(&mut out, &mut reached);
        callee.poll(&mut reached).unwrap();
        assert!(callee.open <= 4, "{} connections", callee.open);
        for (caller, heard) in &mut callers {
            caller.poll(heard).unwrap();
            assert_eq!(heard.lost, Vec::new());
        }
    }
    // And those that are idle go, until the cap is kept.
    while callee.open > 2 {
        callee.poll(&mut reached).unwrap();
        callers.iter_mut().for_each(|(caller, heard)| drop(caller.poll(heard)));
    }
}

#[test]
fn callers_beyond_the_cap_kept_a_rank_from_calling() {
    const CALLERS: u32 = 6;
    let port = listener();
    let arena = world(CALLERS + 2, port.local_addr().unwrap());
    let (mut busy, mut reached) = (transport(&arena, 0, 2, 4), Heard::default());
    let mut callers: Vec<(Tcp, Heard)> =
        (1..=CALLERS).map(|rank| (transport(&arena, rank, 8, 8), Heard::default())).collect();
    // They wait for answers that depend on what the rank does next, and keep their connections meanwhile.
    for (caller, heard) in &mut callers {
        caller.send(Rank(0), Message { expects_answer: true, ..note() }, heard).unwrap();
    }
    while reached.frames.len() < 3 {
        hand_over(&port, &mut busy);
        busy.poll(&mut reached).unwrap();
        callers.iter_mut().for_each(|(caller, heard)| drop(caller.poll(heard)));
    }
    hand_over(&port, &mut busy);
    assert_eq!((busy.open, busy.is_full()), (3, true), "a place is left for its own calls");
    busy.send(Rank(CALLERS + 1), note(), &mut reached).unwrap();
    assert_eq!((busy.called, busy.waiting.len()), (1, 0), "its own call has to wait");
    let (mut other, mut told) = (transport(&arena, CALLERS + 1, 8, 8), Heard::default());
    while told.frames.is_empty() {
        hand_over(&port, &mut other);
        busy.poll(&mut reached).unwrap();
        other.poll(&mut told).unwrap();
    }
}

#[test]
fn a_rank_with_room_for_more_connections_opens_no_more_than_the_cap_for_itself() {
    let port = listener();
    let arena = world(7, port.local_addr().unwrap());
    let (mut caller, mut heard) = (transport(&arena, 0, 2, 16), Heard::default());
    for rank in 1..7 {
        caller.send(Rank(rank), note(), &mut heard).unwrap();
    }
    assert_eq!((caller.called, caller.open, caller.waiting.len()), (2, 2, 4));
}

#[test]
fn a_long_message_leaves_others_their_turn() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let total: u64 = 64 << 20;
    let long = Message { payload: Payload::Lazy(Source::default(), total), ..note() };
    caller.send(Rank(1), long, &mut heard).unwrap();
    let mut largest = heard.filled_bytes;
    while heard.filled_bytes < total {
        let before = heard.filled_bytes;
        caller.poll(&mut heard).unwrap();
        largest = largest.max(heard.filled_bytes - before);
        callee.poll(&mut reached).unwrap();
    }
    // One look may flush twice: because there is room, and because something has come.
    let most = 2 * (u64::from(BURST_BYTES) + PIECE_BYTES as u64);
    assert!(largest <= most, "{largest} bytes at a time");
}

/// What is booked is what is there, whatever happens to it.
fn assert_booked(transport: &Tcp, purse: &Purse) {
    let footprint = transport.footprint();
    let there = footprint.connected * BOOKED_BYTES + footprint.queued_bytes;
    assert_eq!(purse.booked.load(Ordering::Relaxed), there);
}

/// Two ranks whose budgets are spent, and their books.
fn poor_pair(arena: &Arc<Arena>) -> [(Tcp, Arc<Purse>); 2] {
    [0, 1].map(|rank| {
        let purse = Arc::new(Purse { booked: AtomicU64::new(0), budget: AtomicU64::new(0) });
        let Tcp { setup, .. } = transport(arena, rank, 8, 8);
        (Tcp::new(Setup { accounts: purse.clone(), ..setup }, None).unwrap(), purse)
    })
}

#[test]
fn a_spent_budget_kept_callers_out_for_ever() {
    let port = listener();
    let arena = world(2, port.local_addr().unwrap());
    let [(mut caller, out_purse), (mut callee, in_purse)] = poor_pair(&arena);
    let (mut heard, mut reached) = (Heard::default(), Heard::default());
    caller.send(Rank(1), note(), &mut heard).unwrap();
    assert_eq!(caller.open, 1, "no connection was begun");
    while callee.open == 0 {
        hand_over(&port, &mut callee);
    }
    while reached.frames.is_empty() {
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!((heard.lost.len(), heard.unsent.len()), (0, 0));
    assert_booked(&caller, &out_purse);
    assert_booked(&callee, &in_purse);
}

#[test]
fn frames_are_booked_before_they_are_taken_and_connections_and_queues_at_once() {
    let port = listener();
    let arena = world(2, port.local_addr().unwrap());
    let [(mut caller, out_purse), (mut callee, in_purse)] = poor_pair(&arena);
    let (mut heard, mut reached) = (Heard::default(), Heard::default());
    // There is room for no frame: long messages go in small pieces.
    let total: u64 = 3 << 20;
    let long = Message { payload: Payload::Lazy(Source::default(), total), ..note() };
    caller.send(Rank(1), long, &mut heard).unwrap();
    while reached.frames.iter().all(|header| header.flags & crate::contract::FLAG_MORE != 0) {
        hand_over(&port, &mut callee);
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
        assert_booked(&caller, &out_purse);
        assert_booked(&callee, &in_purse);
    }
    assert_eq!(heard.filled_bytes, total);
    assert!(out_purse.booked.load(Ordering::Relaxed) <= 12 << 10, "{}", caller.footprint().queued_bytes);
    // With room again frames are large again, and booked.
    out_purse.budget.store(u64::MAX, Ordering::Relaxed);
    caller.send(Rank(1), long, &mut heard).unwrap();
    assert!(caller.footprint().queued_bytes > 100 << 10);
    assert_booked(&caller, &out_purse);
    drop(callee);
    while heard.lost.is_empty() {
        caller.poll(&mut heard).unwrap();
        assert_booked(&caller, &out_purse);
    }
}

#[test]
fn what_is_posted_while_answers_are_awaited_goes_out_together_and_in_order() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let mut numbers = 1u64..;
    let mut question = || {
        let header = Header { op: numbers.next().unwrap(), ..note().header };
        Message { header, expects_answer: true, ..note() }
    };
    for _ in 0..8 {
        assert!(!caller.post(Rank(1), question(), &mut heard).unwrap(), "no answer is on its way that soon");
    }
    let kept = |caller: &Tcp| caller.links.iter().flatten().map(|link| link.queued()).sum::<usize>();
    assert!(caller.post(Rank(1), question(), &mut heard).unwrap());
    assert_eq!(kept(&caller), 1);
    // Another that must go now takes it along, and does not overtake it.
    caller.send(Rank(1), question(), &mut heard).unwrap();
    assert_eq!(kept(&caller), 0);
    for count in 1..64 {
        assert!(caller.post(Rank(1), question(), &mut heard).unwrap());
        assert_eq!(kept(&caller), count);
    }
    assert!(!caller.post(Rank(1), question(), &mut heard).unwrap(), "enough have come together");
    assert!(caller.post(Rank(1), question(), &mut heard).unwrap());
    caller.flush(&mut heard);
    assert_eq!(kept(&caller), 0);
    assert!(caller.post(Rank(1), question(), &mut heard).unwrap());
    caller.poll(&mut heard).unwrap();
    assert_eq!(kept(&caller), 0, "whoever looks for answers sends what was kept");
    let sent = 8 + 2 + 64 + 2;
    while reached.frames.len() < sent {
        callee.poll(&mut reached).unwrap();
    }
    let came: Vec<u64> = reached.frames.iter().map(|header| header.op).collect();
    assert_eq!(came, (1..=sent as u64).collect::<Vec<_>>());
}

#[test]
fn an_answer_that_may_wait_goes_with_the_next_message_or_the_next_poll_and_in_order() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let index = callee.links.iter().flatten().next().unwrap().index;
    let numbered = |op| Message { header: Header { op, ..note().header }, ..note() };
    let answer = |op| Message { path: Path::Answer(index), leeway: Leeway::Short, ..numbered(op) };
    let answers = |callee: &mut Tcp, reached: &mut Heard, messages: &[Message]| {
        let messages = messages.iter().map(|message| (Rank(0), *message)).collect();
        callee.settle_outbox(&mut Outbox { messages }, reached);
    };
    answers(&mut callee, &mut reached, &[answer(1), answer(2)]);
    assert!(
        callee.keeps() == Some(Leeway::Short) && callee.wake_up_at().is_some(),
        "who sleeps must not forget them"
    );
    assert!(!callee.post(Rank(0), numbered(3), &mut reached).unwrap(), "it took them along");
    assert!(callee.keeps().is_none());
    answers(&mut callee, &mut reached, &[answer(4)]);
    callee.poll(&mut reached).unwrap();
    assert!(callee.keeps().is_none());
    answers(&mut callee, &mut reached, &[answer(5)]);
    answers(&mut callee, &mut reached, &[answer(6), numbered(7)]);
    assert!(callee.keeps().is_none(), "one that may not wait takes all along");
    while heard.frames.len() < 7 {
        caller.poll(&mut heard).unwrap();
    }
    assert!(heard.frames.iter().map(|header| header.op).eq(1..=7));
}

/// Questions that are answered, numbered from 1, of all lengths that they have in a bundle.
fn questions() -> impl Iterator<Item = Message> {
    (1u64..).map(|op| {
        let word = |bit: u64| if op & bit == 0 { 0 } else { op };
        let header = Header { op, a: word(1), b: word(2), c: word(4), d: word(8), ..note().header };
        Message { header, expects_answer: true, ..note() }
    })
}

#[test]
fn headers_that_wait_together_go_in_few_frames_and_what_has_come_of_one_is_booked() {
    let port = listener();
    let arena = world(2, port.local_addr().unwrap());
    let [(mut caller, out_purse), (mut callee, in_purse)] = poor_pair(&arena);
    for purse in [&out_purse, &in_purse] {
        purse.budget.store(u64::MAX, Ordering::Relaxed);
    }
    let (mut heard, mut reached) = (Heard::default(), Heard::default());
    let mut questions = questions();
    caller.send(Rank(1), questions.next().unwrap(), &mut heard).unwrap();
    while reached.frames.is_empty() {
        hand_over(&port, &mut callee);
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    let total = 8 + 64 * 8;
    questions.by_ref().take(total - 1).for_each(|question| {
        caller.post(Rank(1), question, &mut heard).unwrap();
    });
    caller.flush(&mut heard);
    assert_booked(&caller, &out_purse);
    let mut held = 0;
    while reached.frames.len() < total {
        callee.poll(&mut reached).unwrap();
        assert_booked(&callee, &in_purse);
        let links = callee.links.iter().flatten();
        held = held.max(links.map(|link| link.holds_part_of_bundle() as u64 * link.booked_bytes()).sum());
    }
    let asked = self::questions().map(|question| question.header);
    assert!(asked.take(total).eq(reached.frames.iter().copied()), "something was lost, or overtook");
    // They are more than are read at a time.
    assert!((1..=4096).contains(&held), "{held}");
    assert_eq!(callee.links.iter().flatten().map(|link| link.booked_bytes()).sum::<u64>(), 0);
    assert_eq!(heard.lost.len() + reached.lost.len(), 0);
}

#[test]
fn of_a_damaged_bundle_nothing_is_done() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let mut questions = questions();
    for question in questions.by_ref().take(8 + 20) {
        caller.post(Rank(1), question, &mut heard).unwrap();
    }
    caller.inject(Rank(1), Fault::Corrupt);
    caller.flush(&mut heard);
    while reached.lost.is_empty() {
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!(reached.frames.len(), 8, "{:?}", reached.frames);
}

#[test]
fn questions_that_waited_for_a_place_were_not_booked() {
    let port = listener();
    let arena = world(4, port.local_addr().unwrap());
    (1..4).for_each(|node| arena.node(node).unwrap().store(port.local_addr().unwrap()));
    let purse = Arc::new(Purse { booked: AtomicU64::new(0), budget: AtomicU64::new(u64::MAX) });
    let Tcp { setup, .. } = transport(&arena, 0, 1, 8);
    let mut caller = Tcp::new(Setup { accounts: purse.clone(), ..setup }, None).unwrap();
    let mut heard = Heard::default();
    caller.send(Rank(1), note(), &mut heard).unwrap();
    let before = purse.booked.load(Ordering::Relaxed);
    (0..100).for_each(|_| caller.send(Rank(2), note(), &mut heard).unwrap());
    assert_eq!(caller.waiting.len(), 100);
    let added = purse.booked.load(Ordering::Relaxed) - before;
    assert!(added >= 100 * std::mem::size_of::<Message>() as u64, "{added}");
    assert_booked(&caller, &purse);
}

#[test]
fn tcp_keeps_the_contract() {
    let ports = [0, 1].map(|_| listener());
    let arena = world(2, ports[0].local_addr().unwrap());
    arena.node(1).unwrap().store(ports[1].local_addr().unwrap());
    std::thread::scope(|scope| {
        for (rank, port) in ports.iter().enumerate() {
            let Tcp { setup, .. } = transport(&arena, rank as u32, 8, 8);
            scope.spawn(move || {
                let callers = setup.callers.clone();
                let mut agent =
                    || port.accept().into_iter().for_each(|(socket, _)| callers.push(socket.into()));
                let mut tcp = Tcp::new(setup, Some(port.as_fd())).unwrap();
                suite::check(Rank(rank as u32), Rank(1 - rank as u32), &mut tcp, &mut agent);
            });
        }
    });
}

#[test]
fn two_ranks_that_called_each_other_at_once_kept_two_connections() {
    let ports = [0, 1].map(|_| listener());
    let arena = world(2, ports[0].local_addr().unwrap());
    arena.node(1).unwrap().store(ports[1].local_addr().unwrap());
    let mut ranks = [0, 1].map(|rank| (transport(&arena, rank, 8, 8), Heard::default()));
    let numbered = |op| Message { header: Header { op, ..note().header }, ..note() };
    let mut sent = 0;
    // Both call before either is called, and go on sending what nobody answers, until one connection is left and some time after.
    let mut left = 50;
    while left > 0 {
        for (rank, (tcp, heard)) in ranks.iter_mut().enumerate() {
            tcp.send(Rank(1 - rank as u32), numbered(sent), heard).unwrap();
        }
        sent += 1;
        for ((tcp, heard), port) in ranks.iter_mut().zip(&ports) {
            hand_over(port, tcp);
            tcp.poll(heard).unwrap();
            assert_eq!(heard.lost, Vec::new());
        }
        let is_one = ranks.iter().all(|(tcp, heard)| tcp.open == 1 && !heard.frames.is_empty());
        left -= is_one as u32;
        assert!(sent < 1_000_000, "two connections stay");
    }
    while ranks.iter().any(|(_, heard)| (heard.frames.len() as u64) < sent) {
        for (tcp, heard) in &mut ranks {
            tcp.poll(heard).unwrap();
        }
    }
    for (tcp, heard) in &ranks {
        assert!(heard.frames.iter().map(|header| header.op).eq(0..sent), "something was lost, or overtook");
        assert_eq!((tcp.open, tcp.waiting.len()), (1, 0));
    }
    let standing = |rank: usize| ranks[rank].0.links.iter().flatten().map(|link| link.initiated).next();
    assert_eq!((standing(0), standing(1)), (Some(true), Some(false)), "that of the lower rank stays");
}
