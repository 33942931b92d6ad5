//! Tests of handshakes that somebody in between disturbs.

use super::*;
use crate::auth::{refused_record, Refusal, HELLO_BYTES};
use crate::contract::{Filled, Leeway, Path, Payload, Source};
use crate::shm::arena::Config;
use crate::shm::world::{Cause, Place, Status};
use crate::terms::Terms;
use crate::wire::Header;
use crate::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

/// A layer above that hears of losses, and counts frames.
#[derive(Default)]
struct Listening(Vec<String>, u32);

impl Sink for Listening {
    fn part(&mut self, _: Rank, _: &Header, _: u32, _: &[u8]) {}
    fn frame(&mut self, _: Rank, _: u32, _: &Header, _: &mut Outbox) -> bool {
        self.1 += 1;
        false
    }
    fn fill(&mut self, _: Source, _: u64, _: &mut [u8]) -> Filled {
        Filled::Gone
    }
    fn torn(&mut self, _: Rank, _: u32, _: &Header, _: &mut Outbox) -> bool {
        false
    }
    fn withdrawn(&mut self, _: Rank, _: &Header, _: &mut Outbox) {}
    fn lost(&mut self, _: Rank, error: Error, _: &mut Outbox) {
        self.0.push(error.to_string());
    }
    fn unsent(&mut self, _: Rank, error: Error, _: bool, _: &mut Outbox) {
        self.0.push(error.to_string());
    }
    fn agent(&mut self, _: &mut Outbox) {}
}

/// Rank 0 of two, each on a node of its own; the other is at this address.
fn caller(other: SocketAddr, peer_timeout_ms: u32) -> Tcp {
    rank_of_two(0, other, peer_timeout_ms)
}

fn rank_of_two(rank: u32, other: SocketAddr, peer_timeout_ms: u32) -> Tcp {
    let arena = Arena::create(Config {
        job: 5,
        ranks: 2,
        nodes: 2,
        node: rank,
        local_ranks: 1,
        machine_ranks: 1,
        machine_cores: 1,
        terms: Terms {
            peer_timeout_ms,
            starter_bytes: 1024,
            connection_cap: 4,
            allow_process_vm: 0,
            ..Terms::default()
        },
    })
    .unwrap();
    arena.prepare_rank(0).unwrap();
    for rank in 0..2 {
        let place = Place { node: rank, local: 0, status: Status::Alive, cause: Cause::UNKNOWN };
        arena.place(Rank(rank)).unwrap().store(place, arena.changes());
    }
    arena.node(1 - rank).unwrap().store(other);
    let secret = Arc::new(Secret::from_bytes([7; 32]));
    let setup = Setup {
        arena: Arc::new(arena),
        rank: Rank(rank),
        job: JobId(5),
        secret,
        connection_cap: 4,
        most_connections: 4,
        pacing: Pacing::Auto,
        multipath: false,
        route: crate::route::Route::Direct,
        accounts: Arc::new(super::tests::Unlimited),
        callers: Arc::default(),
    };
    Tcp::new(setup, None).unwrap()
}

fn question() -> Message {
    let header = Header { kind: 16, ..Header::default() };
    Message { header, payload: Payload::None, expects_answer: true, path: Path::Route, leeway: Leeway::None }
}

/// Sends a message, and refuses every call that is made for it, until enough were made or the other rank counts as lost.
fn refuse_calls(peer_timeout_ms: u32, enough: u32) -> (u32, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut tcp = caller(listener.local_addr().unwrap(), peer_timeout_ms);
    listener.set_nonblocking(true).unwrap();
    let mut sink = Listening::default();
    tcp.send(Rank(1), question(), &mut sink).unwrap();
    let mut calls = 0;
    while calls < enough && sink.0.is_empty() {
        tcp.poll(&mut sink).unwrap();
        if let Ok((mut called, _)) = listener.accept() {
            calls += 1;
            called.set_nonblocking(false).unwrap();
            while called.peek(&mut [0; HELLO_BYTES]).unwrap() < HELLO_BYTES {
                tcp.poll(&mut sink).unwrap();
            }
            called.read_exact(&mut [0; HELLO_BYTES]).unwrap();
            called.write_all(&refused_record(&Refusal::Secret).unwrap()).unwrap();
        }
        os::process::yield_now();
    }
    (calls, sink.0)
}

#[test]
fn a_refusal_that_nobody_vouches_for_is_tried_again_and_named_in_the_end() {
    let (calls, lost) = refuse_calls(60_000, 4);
    assert_eq!((calls, lost.len()), (4, 0), "{lost:?}");
    let (_, lost) = refuse_calls(200, u32::MAX);
    assert!(lost.len() == 1 && lost[0].contains("refused the connection: the secrets differ"), "{lost:?}");
}

#[test]
fn what_a_rank_says_after_it_was_given_up_comes_too_late() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (mut one, mut other) = (caller(address, 60_000), rank_of_two(1, address, 60_000));
    let (mut sink, mut heard) = (Listening::default(), Listening::default());
    one.send(Rank(1), question(), &mut sink).unwrap();
    other.take_in(listener.accept().unwrap().0.into()).unwrap();
    while heard.1 == 0 {
        one.poll(&mut sink).unwrap();
        other.poll(&mut heard).unwrap();
    }
    // It is still connected, and knows of nothing.
    let arena = &other.setup.arena;
    arena.place(Rank(0)).unwrap().set_status(Status::Lost, Cause::STOPPED, arena.changes());
    one.send(Rank(1), question(), &mut sink).unwrap();
    while heard.0.is_empty() && heard.1 == 1 {
        one.poll(&mut sink).unwrap();
        other.poll(&mut heard).unwrap();
    }
    assert_eq!(heard.1, 1, "nothing of it is done any more");
    assert!(heard.0[0].contains("stopped for longer than the peer timeout"), "{:?}", heard.0);
}
