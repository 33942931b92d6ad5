//! What the frames between ranks mean: the kinds of the wire that belong to global memory.
//!
//! | kind | sender → receiver | fields |
//! |---|---|---|
//! | Put | initiator → owner of the destination | `a` address, `c` whole length, payload |
//! | PutFew | the same, at most 16 bytes | `a` address, `c` length, `b` and `d` the bytes |
//! | Get | initiator → owner of the source | `a` address, `c` length, `flags` whether the answer may be sent in place |
//! | Copy | initiator → owner of the source | `a` source, `b` destination, `c` length |
//! | Atomic | initiator → owner of the word | `a` address, `b`, `c` operands, `flags` operation |
//! | Data | owner → initiator, answer to Get | payload |
//! | DataFew | the same, at most 16 bytes | `c` length, `b` and `d` the bytes |
//! | Value | owner → initiator, answer to Atomic | `b` old value |
//! | Done | answer to Put, Copy, or anything that failed | `flags` status, `b`, `c` details |
//! | Signal | barrier leader → barrier leader, no answer | `op` team, `a` round, `b` epoch, `c` what ranks came for, `d` who came for something else than to go on, `flags` whether it is only about that |
//! | Call | initiator → whoever does the work | `a` service, `c` length, `flags` whether nobody waits for the answer just now, the request: in `b` and `d` if it fits, else payload |
//! | Return | answer to Call | `c` length, `flags` status, the reply, or the error in words, as in Call |
//! | Scatter | initiator → owner of the destination | `a` digest and `b` bytes of the recipe, `c` bytes of data, payload: both |
//! | Gather | initiator → owner of the source | the same, without data; answered by Data |
//! | Letter | as Call, but nobody waits for it and `op` is the sender's name for it; in one frame | `a` service, `c` length, payload |
//! | Refusal | answer to a Letter that could not be done; there is none to others | `op` of the letter, `flags` status, `b`, `c` details |
//! | Nudge, Nudged | whoever waits long → whoever owes an answer, and back | a lost frame shows in the numbering |
//!
//! `op` is the initiator's number and comes back in the answer; `generation` is that of the registration of `a`, 0 for any.
//! `generation_b` is that of `b` in Copy; elsewhere it is the first slot of the region that `a` must lie in, 0 for any.

use crate::error::{Fate, READ_ONLY};
use crate::node::address::{AddressFormat, GlobalAddress, Registration};
use crate::{Error, Result};
use kumiki_net::contract::{Leeway, Message, Path, Payload};
use kumiki_net::shm::barrier::{Discord, Intent};
use kumiki_net::wire::{Header, FIRST_USER_KIND};
use kumiki_net::Rank;

pub(crate) const PUT: u8 = FIRST_USER_KIND;
pub(crate) const GET: u8 = FIRST_USER_KIND + 1;
pub(crate) const COPY: u8 = FIRST_USER_KIND + 2;
pub(crate) const ATOMIC: u8 = FIRST_USER_KIND + 3;
pub(crate) const DATA: u8 = FIRST_USER_KIND + 4;
pub(crate) const VALUE: u8 = FIRST_USER_KIND + 5;
pub(crate) const DONE: u8 = FIRST_USER_KIND + 6;
pub(crate) const SIGNAL: u8 = FIRST_USER_KIND + 7;
pub(crate) const NUDGE: u8 = FIRST_USER_KIND + 8;
pub(crate) const NUDGED: u8 = FIRST_USER_KIND + 9;
pub(crate) const CALL: u8 = FIRST_USER_KIND + 10;
pub(crate) const RETURN: u8 = FIRST_USER_KIND + 11;
pub(crate) const PUT_FEW: u8 = FIRST_USER_KIND + 12;
pub(crate) const DATA_FEW: u8 = FIRST_USER_KIND + 13;
pub(crate) const SCATTER: u8 = FIRST_USER_KIND + 14;
pub(crate) const GATHER: u8 = FIRST_USER_KIND + 15;
pub(crate) const LETTER: u8 = FIRST_USER_KIND + 16;
pub(crate) const REFUSAL: u8 = FIRST_USER_KIND + 17;

/// What a kind of frame is called in a trace.
pub(crate) fn name(kind: u8) -> &'static str {
    match kind {
        PUT | PUT_FEW => "put",
        GET => "get",
        SCATTER => "put of a shape",
        GATHER => "get of a shape",
        COPY => "copy",
        ATOMIC => "atomic",
        DATA | DATA_FEW => "data",
        VALUE => "value",
        DONE => "done",
        SIGNAL => "barrier signal",
        NUDGE | NUDGED => "nudge",
        CALL => "call",
        RETURN => "return",
        LETTER => "letter",
        REFUSAL => "refusal",
        _ => "frame",
    }
}

/// Whether a frame answers an operation, or is a part of such an answer: only the rank that was asked may send it.
pub(crate) fn answers_operation(kind: u8) -> bool {
    matches!(kind, DATA | DATA_FEW | VALUE | DONE | RETURN)
}

const OK: u8 = 0;
const BOUNDS: u8 = 1;
const MISUSE: u8 = 2;
const LOST: u8 = 3;
const LOST_UNKNOWN: u8 = 4;
const CLOSED: u8 = 5;
const OTHER: u8 = 6;
const OUT_OF_MEMORY: u8 = 7;
const TORN: u8 = 8;
const NOT_WRITABLE: u8 = 9;

/// What has no more memory, of a rank that was asked for something.
const OWNER_IS_FULL: &str = "the pool or the budget of the owner";

/// A Get whose answer may be sent in place.
pub(crate) const FLAG_IN_PLACE: u8 = 1;

/// A Signal that says who has left a team, and not that anybody has come.
pub(crate) const FLAG_NEWS: u8 = 1;

/// A question: something that is answered.
pub(crate) fn question(header: Header, payload: Payload) -> Message {
    Message { header, payload, expects_answer: true, path: Path::Route, leeway: Leeway::None }
}

/// A question of ours that becomes one for somebody else, who waits for what comes of it.
pub(crate) fn relayed(message: Message) -> Message {
    Message { path: Path::Relay, ..message }
}

/// Something that nobody answers.
pub(crate) fn notice(header: Header) -> Message {
    Message { header, payload: Payload::None, expects_answer: false, path: Path::Route, leeway: Leeway::None }
}

/// An answer.
pub(crate) fn answer(header: Header, payload: Payload, path: u32) -> Message {
    Message { header, payload, expects_answer: false, path: Path::Answer(path), leeway: Leeway::None }
}

/// Up to so many bytes travel in the header itself, whose tag vouches for them.
pub(crate) const FEW_BYTES: usize = 16;

/// A few bytes, on their way in a header.
// Aligned, so that a word of them is stored as one.
#[repr(align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Few {
    bytes: [u8; FEW_BYTES],
    length: u8,
}

impl Few {
    /// `None` if they are too many.
    pub(crate) fn new(bytes: &[u8]) -> Option<Few> {
        let mut few = Few { bytes: [0; FEW_BYTES], length: bytes.len() as u8 };
        few.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(few)
    }

    /// Room for so many bytes; at most as many as fit.
    pub(crate) fn zeroes(length: u64) -> Few {
        Few { bytes: [0; FEW_BYTES], length: length.min(FEW_BYTES as u64) as u8 }
    }

    /// Those that a header carries; `None` if its `c` says that they are too many.
    pub(crate) fn of(header: &Header) -> Option<Few> {
        if header.c > FEW_BYTES as u64 {
            return None;
        }
        let whole = u128::from(header.b) | u128::from(header.d) << 64;
        Some(Few { bytes: whole.to_le_bytes(), length: header.c as u8 })
    }

    /// The header, with these bytes in `b` and `d` and their number in `c`.
    pub(crate) fn in_header(self, header: Header) -> Header {
        let whole = u128::from_le_bytes(self.bytes);
        Header { b: whole as u64, d: (whole >> 64) as u64, c: self.length as u64, ..header }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).min(FEW_BYTES)]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length).min(FEW_BYTES)]
    }
}

/// The answer that tells how an operation ended.
pub(crate) fn done(op: u64, result: &Result<()>, path: u32) -> Message {
    let mut header = Header { kind: DONE, op, ..Header::default() };
    let (status, b, c) = match result {
        Ok(()) => (OK, 0, 0),
        Err(Error::Bounds { what: READ_ONLY, address, bytes, .. }) => (NOT_WRITABLE, *address, *bytes),
        Err(Error::Bounds { address, bytes, .. }) => (BOUNDS, *address, *bytes),
        Err(Error::Misuse(_)) => (MISUSE, 0, 0),
        Err(Error::PeerLost { rank, fate: Fate::NotDone, .. }) => (LOST, *rank as u64, 0),
        Err(Error::PeerLost { rank, fate: Fate::Unknown, .. }) => (LOST_UNKNOWN, *rank as u64, 0),
        Err(Error::OutOfMemory { asked, left, .. }) => (OUT_OF_MEMORY, *asked, *left),
        Err(Error::Closed(_)) => (CLOSED, 0, 0),
        Err(_) => (OTHER, 0, 0),
    };
    (header.flags, header.b, header.c) = (status, b, c);
    answer(header, Payload::None, path)
}

/// What the sender of a letter is told that could not be done. It may have said goodbye since on the connection on which that came, as nobody owes it an answer.
pub(crate) fn refusal(op: u64, error: Error, path: u32) -> Message {
    let done = done(op, &Err(error), path);
    Message { header: Header { kind: REFUSAL, ..done.header }, path: Path::Relay, ..done }
}

/// The answer to a put that came torn: it must be sent again.
pub(crate) fn torn(op: u64, path: u32) -> Message {
    answer(Header { kind: DONE, op, flags: TORN, ..Header::default() }, Payload::None, path)
}

/// Whether the answer to a put says that it came torn.
pub(crate) fn is_torn(header: &Header) -> bool {
    header.kind == DONE && header.flags == TORN
}

/// How an operation ended, from its answer.
pub(crate) fn result_of(from: Rank, header: &Header) -> Result<()> {
    let lost = |fate| {
        let rank = Rank(header.b as u32);
        Err(Error::PeerLost { rank: rank.0, fate, why: format!("{from} cannot reach it") })
    };
    match header.flags {
        OK => Ok(()),
        BOUNDS => Err(Error::Bounds {
            what: "the owner refused it: no live region holds this range",
            address: header.b,
            rank: from.0,
            bytes: header.c,
        }),
        NOT_WRITABLE => {
            Err(Error::Bounds { what: READ_ONLY, address: header.b, rank: from.0, bytes: header.c })
        }
        MISUSE => Err(Error::Misuse(format!("{from} refused a misaligned or malformed operation"))),
        LOST => lost(Fate::NotDone),
        LOST_UNKNOWN => lost(Fate::Unknown),
        OUT_OF_MEMORY => Err(Error::OutOfMemory { asked: header.b, left: header.c, what: OWNER_IS_FULL }),
        CLOSED => Err(Error::PeerLost { rank: from.0, fate: Fate::NotDone, why: "it is finalizing".into() }),
        _ => Err(Error::Refused(format!("{from} could not do it"))),
    }
}

/// An error as the payload of a Return: a status, two numbers, and the error in words.
pub(crate) fn error_bytes(error: &Error) -> Vec<u8> {
    let (status, b, c, text) = match error {
        Error::Bounds { address, bytes, .. } => (BOUNDS, *address, *bytes, String::new()),
        Error::Misuse(text) => (MISUSE, 0, 0, text.clone()),
        Error::PeerLost { rank, fate: Fate::NotDone, .. } => (LOST, *rank as u64, 0, String::new()),
        Error::PeerLost { rank, fate: Fate::Unknown, .. } => (LOST_UNKNOWN, *rank as u64, 0, String::new()),
        Error::OutOfMemory { asked, left, .. } => (OUT_OF_MEMORY, *asked, *left, String::new()),
        Error::Closed(text) => (CLOSED, 0, 0, text.clone()),
        Error::Refused(text) => (OTHER, 0, 0, text.clone()),
        other => (OTHER, 0, 0, other.to_string()),
    };
    let mut bytes = vec![status];
    bytes.extend_from_slice(&b.to_le_bytes());
    bytes.extend_from_slice(&c.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The error that a Return carries.
pub(crate) fn error_from_bytes(from: Rank, bytes: &[u8]) -> Error {
    let word =
        |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes);
    let text = || String::from_utf8_lossy(bytes.get(17..).unwrap_or_default()).into_owned();
    match bytes.first() {
        Some(&MISUSE) => Error::Misuse(text()),
        Some(&OTHER) | Some(&OK) | None => Error::Refused(format!("{from} could not do it: {}", text())),
        Some(&status) => {
            let header = Header { flags: status, b: word(1), c: word(9), ..Header::default() };
            result_of(from, &header)
                .err()
                .unwrap_or_else(|| Error::Refused(format!("{from} could not do it")))
        }
    }
}

/// What the leader of a node knows of those who have come to a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Signal {
    /// The barrier.
    pub(crate) epoch: u64,
    /// Bit *n* for every [`Intent`] *n* that somebody came with.
    intents: u8,
    /// A rank that came for something else than to go on, and one; 0 if none did. One that finalizes counts more.
    other: u32,
}

const FINALIZE: u8 = 1 << Intent::Finalize as u8;

impl Signal {
    /// Of a node whose ranks came for this, `rank` among them.
    pub(crate) fn new(epoch: u64, intent: Intent, rank: Rank) -> Signal {
        let other = if intent == Intent::Sync { 0 } else { rank.0 + 1 };
        Signal { epoch, intents: 1 << intent as u8, other }
    }

    /// What a frame says, among so many ranks.
    pub(crate) fn of(header: &Header, ranks: u32) -> Signal {
        Signal { epoch: header.b, intents: header.c as u8, other: header.d.min(ranks.into()) as u32 }
    }

    /// The frame of a round, in a barrier of a team.
    pub(crate) fn header(self, team: u64, round: u32) -> Header {
        let Signal { epoch, intents, other } = self;
        Header {
            kind: SIGNAL,
            op: team,
            a: round.into(),
            b: epoch,
            c: intents.into(),
            d: other.into(),
            ..Header::default()
        }
    }

    /// What is known of a barrier after another node has said this. Whoever signals a later one has passed this one, and
    /// so has everybody come for the same.
    pub(crate) fn and(self, heard: Signal) -> Signal {
        if heard.epoch != self.epoch {
            return self;
        }
        let finalizes = heard.intents & FINALIZE != 0 && self.intents & FINALIZE == 0;
        let other = if finalizes || self.other == 0 { heard.other } else { self.other };
        Signal { intents: self.intents | heard.intents, other, ..self }
    }

    /// The same, of a barrier that is broken.
    pub(crate) fn broken_by(self, discord: Discord) -> Signal {
        let intents = self.intents | 1 << discord.intent as u8 | 1 << Intent::Sync as u8;
        Signal { intents, other: discord.rank.0 + 1, ..self }
    }

    /// Who differs, if not all came for the same.
    pub(crate) fn discord(self) -> Option<Discord> {
        let rank = Rank(self.other.checked_sub(1)?);
        let intent = if self.intents & FINALIZE != 0 { Intent::Finalize } else { Intent::Reset };
        (self.intents.count_ones() > 1).then_some(Discord { rank, intent })
    }
}

/// The header of a question about an address.
pub(crate) fn about(kind: u8, address: GlobalAddress, registration: Registration) -> Header {
    let (generation, generation_b) = (registration.generation(), registration.slot());
    Header { kind, a: address.bits(), generation, generation_b, ..Header::default() }
}

/// The registration of a rank that a question, other than Copy, is about.
pub(crate) fn registration(format: &AddressFormat, owner: Rank, header: &Header) -> Registration {
    match header.generation_b {
        0 => Registration::of_generation(header.generation),
        slot => format.registration(owner, slot, header.generation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_bytes_travel_in_a_header() {
        let all: Vec<u8> = (1..=FEW_BYTES as u8 + 1).collect();
        for length in 0..=FEW_BYTES {
            let header = Few::new(&all[..length]).unwrap().in_header(Header { a: 5, ..Header::default() });
            assert_eq!((header.a, header.c), (5, length as u64));
            assert_eq!(Few::of(&header).unwrap().bytes(), &all[..length]);
        }
        assert_eq!(Few::new(&all), None);
        assert_eq!(Few::of(&Header { c: FEW_BYTES as u64 + 1, ..Header::default() }), None);
    }

    #[test]
    fn signals_gather_what_ranks_came_for() {
        use Intent::{Finalize, Reset, Sync};
        let signal = |intent, rank| Signal::new(5, intent, Rank(rank));
        for intent in [Sync, Finalize, Reset] {
            let there = Signal::of(&signal(intent, 3).header(0, 2), 8);
            assert_eq!((there, signal(intent, 4).and(there).discord()), (signal(intent, 3), None));
        }
        let left = Some(Discord { rank: Rank(3), intent: Finalize });
        for (here, there) in [(Sync, Finalize), (Finalize, Sync), (Reset, Finalize), (Finalize, Reset)] {
            let ranks = |intent| if intent == Finalize { 3 } else { 4 };
            let both = signal(here, ranks(here)).and(signal(there, ranks(there)));
            assert_eq!(both.discord(), left, "{here:?} {there:?}");
            assert_eq!(signal(Sync, 1).and(both).discord(), left, "it is passed on");
        }
        // Whoever is one barrier further has passed this one.
        let further = Signal { epoch: 6, ..signal(Finalize, 3) };
        assert_eq!(signal(Sync, 1).and(further).discord(), None);
        let broken = signal(Sync, 1).broken_by(Discord { rank: Rank(3), intent: Finalize });
        assert_eq!(Signal::of(&broken.header(0, 0), 8).discord(), left);
        assert_eq!(
            Signal::of(&Header { d: u64::MAX, ..broken.header(0, 0) }, 8).discord().unwrap().rank,
            Rank(7)
        );
    }

    #[test]
    fn an_error_survives_the_wire_as_far_as_it_matters() {
        let cases: [Result<()>; 5] = [
            Ok(()),
            Err(Error::Bounds { what: "", address: 0x123, rank: 2, bytes: 8 }),
            Err(Error::Bounds { what: READ_ONLY, address: 0x123, rank: 2, bytes: 8 }),
            Err(Error::PeerLost { rank: 7, fate: Fate::Unknown, why: String::new() }),
            Err(Error::Misuse("x".into())),
        ];
        for case in cases {
            let back = result_of(Rank(2), &done(1, &case, 0).header);
            assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&case));
            match (&back, &case) {
                (Err(Error::PeerLost { rank, fate, .. }), _) => {
                    assert_eq!((*rank, *fate), (7, Fate::Unknown));
                }
                (Err(Error::Bounds { what, address, bytes, .. }), Err(Error::Bounds { what: said, .. })) => {
                    assert_eq!((*address, *bytes), (0x123, 8));
                    assert_eq!(*what == READ_ONLY, *said == READ_ONLY);
                }
                (Err(error), Err(other)) => {
                    assert_eq!(std::mem::discriminant(error), std::mem::discriminant(other));
                }
                _ => assert!(back.is_ok()),
            }
        }
    }
}
