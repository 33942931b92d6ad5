//! Traces of real runs (`kumiki run --trace`) replayed on a simulated network.
//!
//! A trace has every message of every rank. What a rank asked of others becomes an operation (put, get, atomic, or a
//! send for what is not answered), and the answers that it waited for become waits: the time of a wait is not kept,
//! only that there was one. The time between two events of a rank in which it did not wait is computing, kept or
//! scaled. What the service thread answered while the program computed costs the program nothing, as on the machine.
//!
//! A put that a rank received while it waited is taken for what it waited for; one that arrived while it computed is
//! not. Ranks of one node share memory and leave no messages: only traffic between nodes is replayed.

use crate::program::{Gap, Handle, Op, Order, Script, Source as From, View, Wait, Workload};
use crate::source::{Mistake, Source, Span};
use crate::words::lines_with_comments;
use crate::Time;
use serde_json::Value;
use std::collections::HashMap;

/// Kinds of messages of global memory, as the trace writes them.
mod kind {
    pub(super) const PUT: u64 = 16;
    pub(super) const GET: u64 = 17;
    pub(super) const COPY: u64 = 18;
    pub(super) const ATOMIC: u64 = 19;
    pub(super) const DATA: u64 = 20;
    pub(super) const VALUE: u64 = 21;
    pub(super) const DONE: u64 = 22;
    pub(super) const SIGNAL: u64 = 23;
    pub(super) const NUDGE: u64 = 24;
    pub(super) const NUDGED: u64 = 25;
    pub(super) const CALL: u64 = 26;
    pub(super) const RETURN: u64 = 27;
    /// As PUT and DATA, with a few bytes, which go in the header.
    pub(super) const PUT_FEW: u64 = 28;
    pub(super) const DATA_FEW: u64 = 29;

    pub(super) fn is_question(kind: u64) -> bool {
        matches!(kind, PUT | PUT_FEW | GET | COPY | ATOMIC | CALL)
    }

    pub(super) fn is_answer(kind: u64) -> bool {
        matches!(kind, DATA | DATA_FEW | VALUE | DONE | RETURN)
    }

    /// Whether something of the program goes in the header, beside the payload.
    pub(super) fn is_in_header(kind: u64) -> bool {
        matches!(kind, PUT_FEW | DATA_FEW | SIGNAL)
    }

    pub(super) fn is_about_the_connection(kind: u64) -> bool {
        kind < PUT || matches!(kind, NUDGE | NUDGED)
    }
}

/// Bytes that count for what goes in a header: the trace does not say how many there were.
const WORD_BYTES: u64 = 8;

/// The tag of messages that nobody answers.
const TAG: u64 = 1;

/// One event of the trace.
#[derive(Clone, Copy, Debug)]
struct Event {
    at_us: f64,
    sends: bool,
    kind: u64,
    peer: u32,
    op: u64,
    bytes: u64,
    waited_us: f64,
    service: bool,
    /// For messages about it.
    place: Span,
}

/// What a rank does in the replay. Peers are offsets, so that ranks can be compared and multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Item {
    Compute(f64),
    Put {
        offset: i64,
        bytes: u64,
    },
    Get {
        offset: i64,
        bytes: u64,
    },
    Atomic {
        offset: i64,
    },
    Send {
        offset: i64,
        bytes: u64,
    },
    Receive {
        offset: i64,
        bytes: u64,
    },
    /// Waits for the operation that was issued so many operations ago.
    Wait {
        back: u64,
    },
    /// Waits for so many puts from a rank.
    AwaitPuts {
        offset: i64,
        count: u64,
    },
}

impl Item {
    /// Whether the rank does it to another one.
    fn is_issued(&self) -> bool {
        matches!(self, Item::Put { .. } | Item::Get { .. } | Item::Atomic { .. } | Item::Send { .. })
    }
}

/// A trace, ready to be simulated.
#[derive(Debug)]
pub struct Replay {
    name: String,
    ranks: u32,
    programs: Vec<Vec<(Item, Span)>>,
    multiply: u32,
    compute_scale: f64,
}

impl Replay {
    /// Reads a trace. Computing takes `compute_scale` times as long as it did.
    pub fn parse(source: &Source, compute_scale: f64) -> Result<Replay, Mistake> {
        let events = read(source)?;
        let ranks = events.len() as u32;
        let programs =
            events.iter().enumerate().map(|(rank, events)| program(rank as u32, ranks, events)).collect();
        Ok(Replay { name: source.name.to_string(), ranks, programs, multiply: 1, compute_scale })
    }

    /// The same for `times` as many ranks, where every rank does the same relative to its own number; refused where
    /// one does not.
    pub fn multiplied(mut self, source: &Source, times: u32) -> Result<Replay, Mistake> {
        // What a rank does to others is its program; when others' messages came is a matter of timing.
        let issued = |program: &[(Item, Span)]| -> Vec<(Item, Span)> {
            program.iter().filter(|(item, _)| item.is_issued()).copied().collect()
        };
        let first = issued(&self.programs[0]);
        for (rank, program) in self.programs.iter().enumerate().skip(1) {
            let program = issued(program);
            let different = first.iter().zip(&program).find(|((one, _), (other, _))| one != other);
            let place = match different {
                Some((_, (_, place))) => *place,
                None if first.len() != program.len() => {
                    let longer = if program.len() > first.len() { &program } else { &first };
                    longer[first.len().min(program.len())].1
                }
                None => continue,
            };
            let message = format!(
                "the pattern is not regular, so its ranks cannot be multiplied: here rank {rank} does something else than \
                 rank 0, seen from its own number"
            );
            return Err(source.mistake(place, message));
        }
        self.multiply = times.max(1);
        Ok(self)
    }
}

fn read(source: &Source) -> Result<Vec<Vec<Event>>, Mistake> {
    let mut ranks: Vec<Vec<Event>> = Vec::new();
    for (start, line) in lines_with_comments(source) {
        let text = line.trim().trim_end_matches(',');
        let place = Span::new(start, start + line.len());
        if matches!(text, "" | "[" | "]") {
            continue;
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|error| source.mistake(place, format!("this is no event of a trace: {error}")))?;
        let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64);
        let Some(rank) = number(&value, "pid") else {
            return Err(source.mistake(place, "this event has no `pid`, the number of its rank"));
        };
        if rank >= 1 << 20 {
            return Err(source.mistake(place, format!("rank {rank} is too large for a trace")));
        }
        if ranks.len() <= rank as usize {
            ranks.resize_with(rank as usize + 1, Vec::new);
        }
        if value["ph"] == "i" {
            if let Some(event) = event(source, &value, place)? {
                ranks[rank as usize].push(event);
            }
        }
    }
    let count = ranks.len() as u32;
    for event in ranks.iter().flatten() {
        if event.peer >= count {
            let message =
                format!("rank {} leaves no trace of its own: ranks are 0 to {}", event.peer, count - 1);
            return Err(source.mistake(event.place, message));
        }
    }
    if ranks.iter().all(Vec::is_empty) {
        let message =
            "the trace has no messages: ranks of one node share memory; run with --virtual-nodes or hosts";
        return Err(source.mistake(Span::default(), message));
    }
    ranks.iter_mut().for_each(|events| events.sort_by(|one, other| one.at_us.total_cmp(&other.at_us)));
    Ok(ranks)
}

/// An event of a message; `None` for those about a connection.
fn event(source: &Source, value: &Value, place: Span) -> Result<Option<Event>, Mistake> {
    let name = value["name"].as_str().unwrap_or("");
    let what = name.split(' ').next().unwrap_or("");
    let (sends, kind) = match (what, value["args"]["kind"].as_u64()) {
        ("lost", _) => {
            return Err(source
                .mistake(place, "a rank was lost in this run; only a run that ended well can be replayed"))
        }
        ("send", Some(kind)) => (true, kind),
        ("receive", Some(kind)) => (false, kind),
        _ => {
            let message = format!(
                "`{name}` is no event of `kumiki run --trace`; expected `send …` or `receive …`, and its `kind` among its `args`"
            );
            return Err(source.mistake(place, message));
        }
    };
    let args = &value["args"];
    let number = |key: &str| {
        let found = args.get(key).and_then(Value::as_u64);
        found.ok_or_else(|| {
            source.mistake(place, format!("this event has no number `{key}` among its `args`"))
        })
    };
    let Some(at_us) = value["ts"].as_f64() else {
        return Err(source.mistake(place, "this event has no time `ts`"));
    };
    if kind::is_about_the_connection(kind) {
        return Ok(None);
    }
    Ok(Some(Event {
        at_us,
        sends,
        kind,
        peer: number("peer")?.min(u32::MAX as u64) as u32,
        op: number("op")?,
        bytes: number("bytes")?.max(if kind::is_in_header(kind) { WORD_BYTES } else { 0 }),
        waited_us: args["waited"].as_f64().unwrap_or(0.0),
        service: value["tid"].as_u64() == Some(1),
        place,
    }))
}

/// What a rank does, from its events.
fn program(rank: u32, ranks: u32, events: &[Event]) -> Vec<(Item, Span)> {
    // How much came back, by peer and number.
    let mut answers: HashMap<(u32, u64), u64> = HashMap::new();
    for event in events.iter().filter(|event| !event.sends && kind::is_answer(event.kind)) {
        *answers.entry((event.peer, event.op)).or_default() += event.bytes;
    }
    let mut maker = Maker {
        items: Vec::new(),
        rank,
        ranks,
        issued: 0,
        open: HashMap::new(),
        puts: HashMap::new(),
        last_put: HashMap::new(),
    };
    let mut last_us = events.first().map_or(0.0, |event| event.at_us);
    for event in events {
        if !event.service {
            let worked_us = event.at_us - event.waited_us - last_us;
            if worked_us > 0.0 {
                maker.items.push((Item::Compute(worked_us), event.place));
            }
            last_us = event.at_us;
        }
        match (event.sends, kind::is_question(event.kind), kind::is_answer(event.kind)) {
            (true, true, _) => {
                maker.question(event, answers.get(&(event.peer, event.op)).copied().unwrap_or(0))
            }
            (false, true, _) => maker.was_asked(event),
            (false, _, true) => maker.answered(event),
            // The network interface answers, as it were.
            (true, _, true) => {}
            (true, ..) => {
                let offset = maker.offset(event.peer);
                maker.items.push((Item::Send { offset, bytes: event.bytes }, event.place));
                maker.issued += 1;
            }
            (false, ..) => {
                let offset = maker.offset_of_sender(event.peer);
                maker.items.push((Item::Receive { offset, bytes: event.bytes }, event.place));
                maker.issued += 1;
                maker.items.push((Item::Wait { back: 1 }, event.place));
            }
        }
    }
    maker.items
}

struct Maker {
    items: Vec<(Item, Span)>,
    rank: u32,
    ranks: u32,
    issued: u64,
    /// Operations that were not answered yet: their numbers here.
    open: HashMap<(u32, u64), u64>,
    /// Puts from each rank that nobody waited for.
    puts: HashMap<u32, u64>,
    /// The number of the last put from each rank: a long one is sent once, and comes in pieces.
    last_put: HashMap<u32, u64>,
}

impl Maker {
    /// How far a peer is, on the shorter way around.
    fn offset(&self, peer: u32) -> i64 {
        self.shorter(peer as i64 - self.rank as i64)
    }

    /// The same for a peer that sends: the way back of its own way, also where both ways are as long.
    fn offset_of_sender(&self, peer: u32) -> i64 {
        -self.shorter(self.rank as i64 - peer as i64)
    }

    fn shorter(&self, distance: i64) -> i64 {
        let ranks = self.ranks as i64;
        let offset = distance.rem_euclid(ranks);
        if offset > ranks / 2 {
            offset - ranks
        } else {
            offset
        }
    }

    fn question(&mut self, event: &Event, answer_bytes: u64) {
        let offset = self.offset(event.peer);
        let item = match event.kind {
            kind::PUT | kind::PUT_FEW => Item::Put { offset, bytes: event.bytes },
            kind::ATOMIC => Item::Atomic { offset },
            _ => Item::Get { offset, bytes: answer_bytes },
        };
        self.items.push((item, event.place));
        self.open.insert((event.peer, event.op), self.issued);
        self.issued += 1;
    }

    fn was_asked(&mut self, event: &Event) {
        if !matches!(event.kind, kind::PUT | kind::PUT_FEW) {
            return;
        }
        let puts = self.puts.entry(event.peer).or_default();
        if self.last_put.insert(event.peer, event.op) != Some(event.op) {
            *puts += 1;
        }
        if !event.service && event.waited_us > 0.0 && *puts > 0 {
            let count = std::mem::take(puts);
            let offset = self.offset_of_sender(event.peer);
            self.items.push((Item::AwaitPuts { offset, count }, event.place));
        }
    }

    fn answered(&mut self, event: &Event) {
        if let Some(number) = self.open.remove(&(event.peer, event.op)) {
            self.items.push((Item::Wait { back: self.issued - number }, event.place));
        }
    }
}

impl Workload for Replay {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn ranks(&self) -> u32 {
        self.ranks * self.multiply
    }

    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        let program = &self.programs[(rank % self.ranks) as usize];
        Box::new(Player { replay: self, rank, program, at: 0, issued: 0 })
    }
}

struct Player<'a> {
    replay: &'a Replay,
    rank: u32,
    program: &'a [(Item, Span)],
    at: usize,
    issued: u64,
}

impl Player<'_> {
    fn peer(&self, offset: i64) -> u32 {
        (self.rank as i64 + offset).rem_euclid(self.replay.ranks() as i64) as u32
    }
}

impl Script for Player<'_> {
    fn next(&mut self, _view: &View<'_>) -> Op {
        let Some((item, _)) = self.program.get(self.at) else { return Op::End };
        self.at += 1;
        let (gap, order) = (Gap::Default, Order::None);
        let op = match *item {
            Item::Compute(us) => {
                return Op::Compute(Time::from_seconds(us * self.replay.compute_scale / 1e6))
            }
            // A flag for each rank that may put here.
            Item::Put { offset, bytes } => {
                Op::Put { to: self.peer(offset), bytes, flag: Some(self.rank as u64), gap, order }
            }
            Item::Get { offset, bytes } => Op::Get { from: self.peer(offset), bytes, gap, order },
            Item::Atomic { offset } => Op::Atomic { to: self.peer(offset), order },
            Item::Send { offset, bytes } => Op::Send { to: self.peer(offset), bytes, tag: TAG, gap, order },
            Item::Receive { offset, bytes } => {
                Op::Recv { from: From::Rank(self.peer(offset)), bytes, tag: Some(TAG) }
            }
            Item::Wait { back } => return Op::Wait(Wait::Handle(Handle(self.issued - back))),
            Item::AwaitPuts { offset, count } => {
                return Op::WaitFlag { flag: self.peer(offset) as u64, count };
            }
        };
        self.issued += 1;
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of a trace; the message as peer, number and bytes.
    fn line(
        rank: u32,
        at: u32,
        what: &str,
        (peer, op, bytes): (u32, u32, u32),
        waited: u32,
        thread: u32,
    ) -> String {
        let (name, kind) = what.split_once(" kind ").unwrap_or((what, "0"));
        format!(
            "{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"{name} it\",\"ts\":{at}.000,\"pid\":{rank},\"tid\":{thread},\
             \"args\":{{\"kind\":{kind},\"peer\":{peer},\"op\":{op},\"bytes\":{bytes},\"waited\":{waited}.000}}}},\n"
        )
    }

    /// Every rank computes, puts to the next and waits for the answer.
    fn ring(ranks: u32) -> String {
        let mut text = String::from("[\n");
        for rank in 0..ranks {
            let next = (rank + 1) % ranks;
            let last = (rank + ranks - 1) % ranks;
            text += &line(rank, 0, "receive kind 1", (last, 0, 0), 0, 0);
            text += &line(rank, 10, "send kind 16", (next, 1, 4096), 0, 0);
            text += &line(rank, 12, "receive kind 16", (last, 1, 4096), 1, 0);
            text += &line(rank, 15, "receive kind 22", (next, 1, 0), 3, 0);
            text += &line(rank, 40, "send kind 16", (next, 2, 64), 0, 0);
            text += &line(rank, 41, "receive kind 16", (last, 2, 64), 0, 1);
        }
        text + "{\"ph\":\"M\",\"name\":\"trace_name\",\"pid\":0,\"args\":{\"name\":\"kumiki\"}}\n]\n"
    }

    fn parse(text: &str) -> Result<Replay, Mistake> {
        Replay::parse(&Source::new("t.json", text), 1.0)
    }

    #[test]
    fn waits_are_dependencies_and_the_rest_is_computing() {
        let replay = parse(&ring(4)).unwrap();
        let items: Vec<Item> = replay.programs[1].iter().map(|(item, _)| *item).collect();
        let expected = [
            Item::Put { offset: 1, bytes: 4096 },
            Item::Compute(1.0),
            Item::AwaitPuts { offset: -1, count: 1 },
            Item::Wait { back: 1 },
            Item::Compute(25.0),
            Item::Put { offset: 1, bytes: 64 },
        ];
        assert_eq!(items, expected);
        assert_eq!(replay.ranks(), 4);
    }

    #[test]
    fn a_put_that_comes_in_pieces_is_waited_for_once() {
        let mut text = String::new();
        text += &line(0, 10, "send kind 16", (1, 7, 3000), 0, 0);
        text += &line(1, 11, "receive kind 16", (0, 7, 2000), 5, 0);
        text += &line(1, 12, "receive kind 16", (0, 7, 1000), 1, 0);
        text += &line(0, 20, "send kind 17", (1, 8, 0), 0, 0);
        text += &line(0, 22, "receive kind 20", (1, 8, 400), 1, 0);
        text += &line(0, 23, "receive kind 20", (1, 8, 100), 1, 0);
        let replay = parse(&text).unwrap();
        let waits = |item: &&(Item, Span)| matches!(item.0, Item::AwaitPuts { .. });
        let waited: Vec<Item> = replay.programs[1].iter().filter(waits).map(|(item, _)| *item).collect();
        assert_eq!(waited, [Item::AwaitPuts { offset: -1, count: 1 }]);
        assert!(replay.programs[0].iter().any(|(item, _)| *item == Item::Get { offset: 1, bytes: 500 }));
    }

    #[test]
    fn puts_of_a_word_go_over_the_network() {
        let mut text = String::new();
        text += &line(0, 10, "send kind 28", (1, 7, 0), 0, 0);
        text += &line(1, 11, "receive kind 28", (0, 7, 0), 5, 0);
        text += &line(0, 12, "receive kind 22", (1, 7, 0), 1, 0);
        text += &line(1, 20, "send kind 17", (0, 3, 0), 0, 0);
        text += &line(1, 22, "receive kind 29", (0, 3, 0), 1, 0);
        text += &line(1, 30, "send kind 23", (0, 0, 0), 0, 0);
        text += &line(0, 31, "receive kind 23", (1, 0, 0), 1, 0);
        let replay = parse(&text).unwrap();
        let does = |rank: usize, wanted: Item| replay.programs[rank].iter().any(|(item, _)| *item == wanted);
        assert!(does(0, Item::Put { offset: 1, bytes: 8 }) && does(0, Item::Wait { back: 1 }));
        assert!(does(1, Item::Get { offset: -1, bytes: 8 }) || does(1, Item::Get { offset: 1, bytes: 8 }));
        assert!(replay.programs[1].iter().any(|(item, _)| matches!(item, Item::Send { bytes: 8, .. })));
        let network = crate::description::network("torus:2").unwrap();
        let report = crate::simulate(&network, &replay, &crate::Options::default()).unwrap();
        assert!(report.links.iter().any(|link| report.utilisation(link) > 0.0));
    }

    #[test]
    fn regular_ranks_can_be_multiplied_and_others_cannot() {
        let text = ring(4);
        let source = Source::new("t.json", &text);
        let many = parse(&text).unwrap().multiplied(&source, 8).unwrap();
        assert_eq!(many.ranks(), 32);
        let text = ring(4).replacen("\"bytes\":64,", "\"bytes\":65,", 3);
        let source = Source::new("t.json", &text);
        let refused = parse(&text).unwrap().multiplied(&source, 8).unwrap_err();
        assert!(refused.message.contains("not regular") && refused.line > 1, "{refused}");
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_place() {
        for (text, line, part) in [
            ("[\n]\n", 1, "no messages"),
            ("[\nhello\n]\n", 2, "no event of a trace"),
            ("[\n{\"ph\":\"i\"}\n]\n", 2, "`pid`"),
            (&line(0, 1, "receive kind 16", (5, 1, 1), 0, 0), 1, "rank 5 leaves no trace"),
            (&line(0, 1, "jump", (0, 1, 1), 0, 0), 1, "`jump it` is no event"),
            (&line(0, 1, "lost kind 0", (0, 1, 1), 0, 0), 1, "a rank was lost"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert!(mistake.message.contains(part), "{text}: {mistake}");
            assert_eq!(mistake.line, line, "{text}: {mistake}");
        }
    }
}
