//! Tests of connections that somebody in between cuts, and of streams that go on.

use super::tests::{listener, rank_of};
use super::*;
use crate::contract::{Filled, Leeway, Path, Payload, Source};
use crate::shm::world::{Cause, Status};
use crate::wire::Header;
use crate::Error;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

const KIND: u8 = 40;
/// Longer than any of these tests takes to mend a connection, on a machine that has other things to do.
const PATIENCE_MS: u32 = 20_000;

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The byte at this place of the payload of a message.
fn byte(op: u64, at: u64) -> u8 {
    (op.wrapping_mul(31) ^ at ^ (at >> 8)) as u8
}

/// A layer above that checks what comes.
#[derive(Default)]
struct Checked {
    /// Messages that have come whole.
    next: u64,
    /// Bytes of the payload of the one that is coming.
    landed: u64,
    lost: Vec<String>,
}

impl Sink for Checked {
    fn part(&mut self, _: Rank, header: &Header, at: u32, bytes: &[u8]) {
        assert_eq!(header.op, self.next, "one was lost, or came before its turn");
        let start = header.d + u64::from(at);
        assert_eq!(start, self.landed, "a part was lost, or came twice");
        assert!(bytes.iter().zip(start..).all(|(&got, at)| got == byte(header.op, at)));
        self.landed += bytes.len() as u64;
    }

    fn frame(&mut self, _: Rank, _: u32, header: &Header, _: &mut Outbox) -> bool {
        assert_eq!(header.op, self.next, "one was lost, or came before its turn");
        if header.flags & crate::contract::FLAG_MORE == 0 {
            assert_eq!(self.landed, header.a, "its payload came whole");
            (self.next, self.landed) = (self.next + 1, 0);
        }
        false
    }

    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> Filled {
        place.iter_mut().zip(offset..).for_each(|(place, at)| *place = byte(source.place, at));
        Filled::Whole
    }

    fn torn(&mut self, _: Rank, _: u32, _: &Header, _: &mut Outbox) -> bool {
        panic!("nothing was sent in place");
    }

    fn withdrawn(&mut self, _: Rank, _: &Header, _: &mut Outbox) {}

    fn lost(&mut self, _: Rank, error: Error, _: &mut Outbox) {
        self.lost.push(error.to_string());
    }

    fn unsent(&mut self, _: Rank, error: Error, _: bool, _: &mut Outbox) {
        self.lost.push(error.to_string());
    }

    fn agent(&mut self, _: &mut Outbox) {}
}

fn message(op: u64, bytes: u64) -> Message {
    let header = Header { kind: KIND, op, a: bytes, ..Header::default() };
    let payload = match bytes {
        0 => Payload::None,
        bytes => Payload::Lazy(Source { place: op, kind: 1 }, bytes),
    };
    Message { header, payload, expects_answer: false, path: Path::Route, leeway: Leeway::None }
}

/// One end of what is carried, what has come from there and not gone on, and whether that is all.
type Side = (TcpStream, VecDeque<u8>, bool);

/// Whoever is between the ranks: carries what it likes, and cuts when it likes.
struct Between {
    front: TcpListener,
    back: std::net::SocketAddr,
    /// The two sides of each connection, and what has come from its caller.
    carried: Vec<([Side; 2], usize)>,
    cuts: u32,
    /// A connection on which more has come from its caller is cut.
    most_bytes: usize,
}

impl Between {
    fn new(behind: &TcpListener) -> Between {
        let back = behind.local_addr().unwrap();
        Between { front: listener(), back, carried: Vec::new(), cuts: 0, most_bytes: usize::MAX }
    }

    /// Carries up to so many bytes of each connection each way.
    fn carry(&mut self, most: usize) {
        while let Ok((caller, _)) = self.front.accept() {
            let called = TcpStream::connect(self.back).unwrap();
            let sides = [caller, called].map(|side| {
                side.set_nonblocking(true).unwrap();
                side.set_nodelay(true).unwrap();
                (side, VecDeque::new(), false)
            });
            self.carried.push((sides, 0));
        }
        let (most_bytes, cuts) = (self.most_bytes, &mut self.cuts);
        self.carried.retain_mut(|([one, other], bytes)| {
            let left = most_bytes - *bytes;
            if left == 0 && one.0.peek(&mut [0]).is_ok() {
                *cuts += 1;
                return false;
            }
            let come = if left == 0 { Some(0) } else { pump(one, other, most.min(left)) };
            *bytes = bytes.saturating_add(come.unwrap_or(0)).min(most_bytes);
            let goes_on = come.is_some() && pump(other, one, most).is_some();
            let is_over = |side: &Side| side.1.is_empty() && side.2;
            goes_on && !(is_over(one) && is_over(other))
        });
    }

    /// Takes what is on its way, and then cuts: both see an end.
    fn swallow_and_cut(&mut self) {
        for (socket, ..) in self.carried.iter_mut().flat_map(|(sides, _)| sides) {
            while socket.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        }
        self.cut();
    }

    /// Cuts all connections: what is on its way is gone.
    fn cut(&mut self) {
        self.cuts += !self.carried.is_empty() as u32;
        self.carried.clear();
    }
}

/// Carries bytes from one side to the other, and its end behind them. How many have come; none if one of them is gone.
fn pump(from: &mut Side, to: &mut Side, most: usize) -> Option<usize> {
    let (source, held, has_ended) = from;
    let (mut buffer, mut come) = (vec![0; most], 0);
    if *has_ended && held.is_empty() {
        let _ = to.0.shutdown(std::net::Shutdown::Write);
        return Some(0);
    }
    if held.len() < most && !*has_ended {
        match source.read(&mut buffer) {
            Ok(0) => *has_ended = true,
            Ok(count) => {
                held.extend(&buffer[..count]);
                come = count;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
    let (front, _) = held.as_slices();
    match to.0.write(front) {
        Ok(count) => drop(held.drain(..count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(_) => return None,
    }
    Some(come)
}

struct Pair {
    ranks: Vec<(Tcp, Checked)>,
    ports: Vec<TcpListener>,
    between: Vec<Between>,
}

/// Two ranks whose links outlive their connections, and somebody between them.
fn pair(patience_ms: u32) -> Pair {
    let ports = vec![listener(), listener()];
    let between: Vec<Between> = ports.iter().map(Between::new).collect();
    let fronts = [0, 1].map(|rank: usize| between[rank].front.local_addr().unwrap());
    let ranks = [0, 1].map(|rank| (rank_of(rank, &fronts, patience_ms, 1), Checked::default()));
    Pair { ranks: ranks.into(), ports, between }
}

impl Pair {
    fn step(&mut self, most: usize) {
        self.between.iter_mut().for_each(|between| between.carry(most));
        for ((tcp, checked), port) in self.ranks.iter_mut().zip(&self.ports) {
            while let Ok((socket, _)) = port.accept() {
                tcp.take_in(socket.into()).unwrap();
            }
            tcp.poll(checked).unwrap();
        }
    }

    fn cut(&mut self) {
        self.between.iter_mut().for_each(Between::cut);
    }

    fn is_mended(&self) -> bool {
        let stands = |link: &Link| link.stream.is_some() && !link.is_broken();
        self.ranks.iter().all(|(tcp, _)| tcp.links.iter().flatten().all(|link| stands(link)))
    }

    /// After a cut: until both have noticed it, and it is mended.
    fn mend(&mut self) {
        for noticed in [true, false] {
            while self.is_mended() == noticed {
                self.step(100_000);
                self.assert_nobody_is_lost();
            }
        }
    }

    fn go_on_for(&mut self, milliseconds: u64) {
        let until_ms = time::now_ms() + milliseconds;
        while time::now_ms() < until_ms {
            self.step(100_000);
            os::process::yield_now();
        }
    }

    fn assert_nobody_is_lost(&self) {
        for (_, checked) in &self.ranks {
            assert_eq!(checked.lost, Vec::<String>::new());
        }
    }

    fn cuts(&self) -> u32 {
        self.between.iter().map(|between| between.cuts).sum()
    }
}

/// Sends messages of all sizes both ways while everything is cut again and again.
fn survive(seed: u64, messages: u64, both: bool) -> u32 {
    let mut dice = Dice(seed);
    let mut pair = pair(PATIENCE_MS);
    let (mut sent, mut steps) = ([0, 0], 0u64);
    let goals = [messages, if both { messages } else { 0 }];
    // What rank 0 sends comes to rank 1.
    while pair.ranks[1].1.next < goals[0] || pair.ranks[0].1.next < goals[1] {
        for rank in 0..2 {
            if sent[rank] < goals[rank] && dice.below(3) == 0 {
                let bytes = [0, 8, 3_000, 70_000, 500_000][dice.below(5) as usize];
                let (tcp, checked) = &mut pair.ranks[rank];
                tcp.send(Rank(1 - rank as u32), message(sent[rank], bytes), checked).unwrap();
                sent[rank] += 1;
            }
        }
        pair.step(1 + dice.below(200_000) as usize);
        if dice.below(25) == 0 && pair.cuts() < 60 {
            pair.cut();
        }
        for (_, checked) in &pair.ranks {
            assert_eq!(checked.lost, Vec::<String>::new(), "seed {seed}");
        }
        steps += 1;
        assert!(
            steps < 5_000_000,
            "seed {seed}: it hangs; {:?}",
            pair.ranks.iter().map(|(_, c)| c.next).collect::<Vec<_>>()
        );
    }
    // And they part as if nothing had happened.
    let end_ms = time::now_ms() + u64::from(PATIENCE_MS) / 2;
    while pair.ranks.iter_mut().map(|(tcp, checked)| tcp.close(checked)).any(|state| state != Closing::Closed)
    {
        pair.step(100_000);
        assert!(time::now_ms() < end_ms, "seed {seed}: they do not part");
    }
    for (tcp, checked) in &pair.ranks {
        assert_eq!(checked.lost, Vec::<String>::new());
        assert_eq!(tcp.footprint().connected, 0);
    }
    pair.cuts()
}

#[test]
fn whatever_is_cut_everything_comes_once_and_in_its_order() {
    let cuts: u32 = (1..=8).map(|seed| survive(seed, 200, false)).sum();
    assert!(cuts > 20, "{cuts}");
}

#[test]
fn two_that_call_each_other_and_are_cut_lose_nothing() {
    let cuts: u32 = (11..=18).map(|seed| survive(seed, 150, true)).sum();
    assert!(cuts > 20, "{cuts}");
}

/// Two ranks of which the first has sent something to the second.
fn speaking(patience_ms: u32) -> Pair {
    let mut pair = pair(patience_ms);
    let (tcp, checked) = &mut pair.ranks[0];
    tcp.send(Rank(1), message(0, 8), checked).unwrap();
    while pair.ranks[1].1.next == 0 {
        pair.step(100_000);
    }
    pair
}

#[test]
fn a_peer_that_is_known_to_be_gone_is_not_waited_for() {
    let mut pair = speaking(PATIENCE_MS);
    let begun_ms = time::now_ms();
    let arena = pair.ranks[0].0.setup.arena.clone();
    pair.cut();
    pair.between.clear();
    arena.place(Rank(1)).unwrap().set_status(Status::Lost, Cause::EXITED, arena.changes());
    while pair.ranks[0].1.lost.is_empty() {
        pair.step(100_000);
        os::process::yield_now();
    }
    assert!(time::now_ms() - begun_ms < u64::from(PATIENCE_MS) / 2);
    assert!(pair.ranks[0].1.lost[0].contains("rank 1"), "{:?}", pair.ranks[0].1.lost);
}

#[test]
fn a_connection_that_cannot_be_mended_is_a_loss_on_both_sides_after_the_peer_timeout() {
    let mut pair = speaking(200);
    pair.cut();
    pair.between.clear();
    while pair.ranks.iter().any(|(_, checked)| checked.lost.is_empty()) {
        pair.step(100_000);
        os::process::yield_now();
    }
    for (_, checked) in &pair.ranks {
        assert_eq!(checked.lost.len(), 1, "{:?}", checked.lost);
        assert!(
            checked.lost[0].contains("mended") || checked.lost[0].contains("reached"),
            "{:?}",
            checked.lost
        );
    }
}

#[test]
fn a_stream_that_the_peer_does_not_know_any_more_is_a_loss() {
    let mut pair = speaking(PATIENCE_MS);
    // The other side forgets the link, as after an error of its own.
    let tcp = &mut pair.ranks[1].0;
    let index = tcp.links.iter().flatten().next().unwrap().index;
    tcp.remove(index);
    while pair.ranks[0].1.lost.is_empty() {
        pair.step(100_000);
    }
    assert!(pair.ranks[0].1.lost[0].contains("the peer has given it up"), "{:?}", pair.ranks[0].1.lost);
}

#[test]
fn a_rank_that_was_closing_hung_up_on_whoever_came_to_mend_its_connection() {
    for closing in [0, 1] {
        let mut pair = speaking(PATIENCE_MS);
        let end_ms = time::now_ms() + u64::from(PATIENCE_MS) / 2;
        pair.cut();
        loop {
            let (tcp, checked) = &mut pair.ranks[closing];
            let state = tcp.close(checked);
            if state == Closing::Closed && pair.ranks[1 - closing].0.footprint().connected == 0 {
                break;
            }
            // Each step carries little, so that there are many looks while somebody comes.
            pair.step(10);
            assert!(time::now_ms() < end_ms, "rank {closing} closes: they do not part");
        }
        assert!(pair.ranks.iter().all(|(_, checked)| checked.lost.is_empty()));
    }
}

#[test]
fn a_connection_that_is_cut_after_a_goodbye_is_mended_and_nobody_is_lost() {
    for (speaker, early) in [(0, true), (0, false), (1, true), (1, false)] {
        let mut pair = speaking(PATIENCE_MS);
        let (tcp, checked) = &mut pair.ranks[speaker];
        assert!(tcp.evict(|_| true, checked, &mut Outbox::default()), "it is idle");
        if !early {
            // The goodbye comes, and is answered; that answer does not come.
            for _ in 0..200 {
                pair.between.iter_mut().for_each(|between| between.carry(100_000));
                let (tcp, checked) = &mut pair.ranks[1 - speaker];
                tcp.poll(checked).unwrap();
            }
        }
        pair.cut();
        let end_ms = time::now_ms() + u64::from(PATIENCE_MS) / 2;
        while pair.ranks.iter().any(|(tcp, _)| tcp.footprint().connected > 0) {
            pair.step(100_000);
            assert!(time::now_ms() < end_ms, "{speaker}, {early}: they do not part");
        }
        assert!(pair.ranks.iter().all(|(_, checked)| checked.lost.is_empty()));
        // And they find each other again.
        let (tcp, checked) = &mut pair.ranks[0];
        tcp.send(Rank(1), message(1, 8), checked).unwrap();
        while pair.ranks[1].1.next < 2 {
            pair.step(100_000);
        }
    }
}

#[test]
fn breaking_and_mending_went_on_for_ever_on_a_way_that_nothing_comes_through() {
    let mut pair = speaking(400);
    pair.cut();
    // A handshake and a resumption of the caller pass, and not a byte more.
    pair.between.iter_mut().for_each(|between| between.most_bytes = 188);
    let (tcp, checked) = &mut pair.ranks[0];
    tcp.send(Rank(1), message(1, 500_000), checked).unwrap();
    while pair.ranks[0].1.lost.is_empty() {
        pair.step(100);
        os::process::yield_now();
    }
    assert!(pair.cuts() > 2, "it was mended, and cut again: {}", pair.cuts());
}

#[test]
fn what_only_came_did_not_count_as_something_that_came() {
    let mut pair = speaking(PATIENCE_MS);
    let trouble = |pair: &Pair, rank: usize| {
        let mut links = pair.ranks[rank].0.links.iter().flatten();
        links.find_map(|link| Some(link.stream.as_ref()?.trouble.is_some()))
    };
    // Rank 0 only sends: what comes to rank 1 between two cuts is all that goes through.
    for turn in 1..5 {
        pair.cut();
        let (tcp, checked) = &mut pair.ranks[0];
        tcp.send(Rank(1), message(turn, 30_000), checked).unwrap();
        while pair.ranks[1].1.next <= turn {
            pair.step(100_000);
        }
    }
    pair.cut();
    pair.mend();
    assert_eq!([trouble(&pair, 0), trouble(&pair, 1)], [Some(false); 2]);
}

#[test]
fn a_quiet_link_keeps_nothing() {
    let mut pair = speaking(PATIENCE_MS);
    let (tcp, checked) = &mut pair.ranks[0];
    tcp.send(Rank(1), message(1, 60_000), checked).unwrap();
    let kept = |pair: &Pair| pair.ranks[0].0.footprint().queued_bytes - pair.ranks[0].0.buffers.bytes();
    let until_ms = time::now_ms() + u64::from(PATIENCE_MS);
    while pair.ranks[1].1.next < 2 || kept(&pair) > 2_048 {
        pair.step(100_000);
        assert!(time::now_ms() < until_ms, "{} bytes are kept", kept(&pair));
    }
    // And it stays quiet: what is told is not told back.
    let sent = |pair: &Pair| pair.ranks[1].0.links.iter().flatten().map(|link| link.used).max();
    let before = sent(&pair);
    let until_ms = time::now_ms() + 500;
    while time::now_ms() < until_ms {
        pair.step(100_000);
    }
    assert_eq!(sent(&pair), before);
}

#[test]
fn buffers_with_little_in_them_filled_a_stream_that_the_peer_saw_no_reason_to_acknowledge() {
    let mut pair = speaking(PATIENCE_MS);
    for op in 1..2_000 {
        // Three at a time go out together, in one buffer.
        for rank in 0..2 {
            let (tcp, checked) = &mut pair.ranks[rank];
            let op = if rank == 0 { op } else { op - 1 };
            tcp.send(Rank(1 - rank as u32), message(op, 16), checked).unwrap();
        }
        if op % 3 == 0 {
            pair.step(100_000);
        }
    }
    while pair.ranks[1].1.next < 2_000 || pair.ranks[0].1.next < 1_999 {
        pair.step(100_000);
    }
}

#[test]
fn what_is_kept_is_let_go_when_it_has_come_and_is_bounded_while_it_has_not() {
    let mut pair = speaking(PATIENCE_MS);
    let (tcp, checked) = &mut pair.ranks[0];
    for op in 1..200 {
        tcp.send(Rank(1), message(op, 400_000), checked).unwrap();
    }
    // The other side reads nothing.
    for _ in 0..1_000 {
        pair.between.iter_mut().for_each(|between| between.carry(1 << 20));
        let (tcp, checked) = &mut pair.ranks[0];
        tcp.poll(checked).unwrap();
    }
    let held = pair.ranks[0].0.footprint().queued_bytes;
    assert!(held < 4 << 20, "{held} bytes are kept of 80,000,000");
    while pair.ranks[1].1.next < 200 {
        pair.step(1 << 20);
    }
    for _ in 0..100 {
        pair.step(1 << 20);
    }
    let held = pair.ranks[0].0.footprint().queued_bytes;
    assert!(held < 1 << 20, "{held} bytes are kept although all has come");
}

/// Longer than it takes to mend a connection, and short enough to wait for.
const SHORT_MS: u32 = 1_500;

#[test]
fn an_idle_link_that_was_mended_twice_was_lost_at_its_next_cut_without_a_call() {
    let mut pair = speaking(SHORT_MS);
    pair.go_on_for(300);
    for _ in 0..4 {
        pair.cut();
        pair.mend();
        pair.go_on_for(u64::from(SHORT_MS) / 2);
        pair.assert_nobody_is_lost();
    }
    let (tcp, checked) = &mut pair.ranks[0];
    tcp.send(Rank(1), message(1, 8), checked).unwrap();
    while pair.ranks[1].1.next < 2 {
        pair.step(100_000);
        pair.assert_nobody_is_lost();
    }
}

#[test]
fn trouble_that_was_long_over_counted_at_the_next_cut() {
    let mut pair = speaking(SHORT_MS);
    pair.cut();
    pair.between.iter_mut().for_each(|between| between.most_bytes = 188);
    let (tcp, checked) = &mut pair.ranks[0];
    tcp.send(Rank(1), message(1, 30_000), checked).unwrap();
    // It is mended, and cut before anything comes.
    while pair.cuts() < 3 {
        pair.step(100_000);
    }
    pair.between.iter_mut().for_each(|between| {
        between.carried.clear();
        between.most_bytes = usize::MAX;
    });
    while pair.ranks[1].1.next < 2 {
        pair.step(100_000);
        pair.assert_nobody_is_lost();
    }
    for op in 2..4 {
        pair.go_on_for(u64::from(SHORT_MS) + 200);
        pair.cut();
        let (tcp, checked) = &mut pair.ranks[0];
        tcp.send(Rank(1), message(op, 30_000), checked).unwrap();
        while pair.ranks[1].1.next <= op {
            pair.step(100_000);
            pair.assert_nobody_is_lost();
        }
    }
}

#[test]
fn an_end_that_somebody_in_between_made_counted_as_the_peers_after_both_goodbyes() {
    let mut pair = speaking(PATIENCE_MS);
    pair.go_on_for(300);
    let (tcp, checked) = &mut pair.ranks[0];
    assert!(tcp.evict(|_| true, checked, &mut Outbox::default()), "it is idle");
    // The other side has something to say, hears the goodbye, and answers it. Nothing of that comes.
    for _ in 0..100 {
        pair.between.iter_mut().for_each(|between| between.carry(100_000));
    }
    let (tcp, checked) = &mut pair.ranks[1];
    tcp.send(Rank(0), message(0, 8), checked).unwrap();
    let is_over = |tcp: &Tcp| tcp.links.iter().flatten().any(|link| link.is_over());
    while !is_over(&pair.ranks[1].0) {
        let (tcp, checked) = &mut pair.ranks[1];
        tcp.poll(checked).unwrap();
    }
    pair.between.iter_mut().for_each(Between::swallow_and_cut);
    let end_ms = time::now_ms() + u64::from(PATIENCE_MS) / 2;
    while pair.ranks.iter().any(|(tcp, _)| tcp.footprint().connected > 0) {
        pair.step(100_000);
        assert!(time::now_ms() < end_ms, "they do not part");
    }
    assert_eq!(pair.ranks[0].1.next, 1, "what was said before the goodbye was lost");
    pair.assert_nobody_is_lost();
}

#[test]
fn a_mended_stream_kept_what_had_come_until_somebody_said_something() {
    let mut pair = speaking(PATIENCE_MS);
    pair.go_on_for(300);
    let (tcp, checked) = &mut pair.ranks[0];
    for op in 1..20 {
        tcp.send(Rank(1), message(op, 1_500), checked).unwrap();
    }
    while pair.ranks[1].1.next < 20 {
        pair.step(100_000);
    }
    pair.cut();
    // Nobody comes through for longer than it takes until news is told.
    let until_ms = time::now_ms() + 300;
    while time::now_ms() < until_ms {
        for (tcp, checked) in &mut pair.ranks {
            tcp.poll(checked).unwrap();
        }
    }
    while !pair.is_mended() {
        pair.step(100_000);
    }
    let kept = |pair: &Pair| pair.ranks[0].0.footprint().queued_bytes - pair.ranks[0].0.buffers.bytes();
    let until_ms = time::now_ms() + 5_000;
    while kept(&pair) > 2_048 {
        pair.step(100_000);
        assert!(time::now_ms() < until_ms, "{} bytes are kept", kept(&pair));
    }
}
