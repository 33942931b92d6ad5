//! The area of a rank: where the others leave what they send to it.
//!
//! ```text
//! head      number of the exchange, lock, round, bytes of a half and of an element, where the halves are
//! guests    for each rank of the node: whether it will never touch this area again
//! halves    two, used in turn: how many bytes are taken, and then records: source and count in a word, elements
//! ```
//!
//! Whoever sends takes room by one change of the word of a half, and writes there; nobody else does. The owner looks at a half when all
//! have said that they have written, and empties it before it says so of the next round: whoever writes to the same half again has heard
//! that. So a round that is ahead never meets one that is being read.
//!
//! A SIGKILL of a sender leaves room that was taken and not written: the round does not end well then, for anybody, and nobody reads it.
//! Ranks of the node write without asking, so that an area is given back when all of them that live have said that they are done with it.
//! Those of other nodes ask the owner: when the number is out of the area, what is in flight to it is refused.

use crate::{Error, GlobalAddress, Rank, Result};
use kumiki_mem::codec::{Reader, Writer};
use kumiki_mem::{Local, Span};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

const NUMBER_AT: u64 = 0;
const LOCK_AT: u64 = 8;
const ROUND_AT: u64 = 16;
const ROOM_AT: u64 = 24;
const ELEMENT_AT: u64 = 32;
const HALVES_AT: u64 = 40;
/// The number again, which stays when the area is closed.
const MADE_AT: u64 = 48;
const GUESTS_AT: u64 = 64;
/// Bytes before the records of a half: the word that everybody changes is alone.
const HALF_HEAD_BYTES: u64 = 64;
/// No half is as long as this: sums of lengths do not overflow.
const MOST_BYTES: u64 = 1 << 40;
/// Elements are not longer than this: one goes in a message.
pub(super) const MOST_ELEMENT_BYTES: u64 = 8 << 20;
/// Bytes before the elements of a record.
const RECORD_HEAD_BYTES: u64 = 8;

/// What is where in an area: the same on all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Bytes of an element.
    pub(super) element: u64,
    /// Bytes of the records of a half.
    pub(super) room: u64,
    /// Where the halves begin.
    halves: u64,
}

impl Layout {
    /// Room for so many elements in each half, where a node has so many ranks at most.
    pub(super) fn new(element: usize, elements: usize, most_near: u32) -> Option<Layout> {
        let (element, elements) = (element as u64, elements as u64);
        let room = elements.checked_mul(element)?.checked_next_multiple_of(8)?;
        let room = room.checked_add(RECORD_HEAD_BYTES)?.checked_next_multiple_of(64)?;
        let halves = GUESTS_AT + u64::from(most_near).next_multiple_of(64);
        let layout = Layout { element, room, halves };
        // Counts of elements go into half a word.
        let counts = 1..=u64::from(u32::MAX);
        let fits = counts.contains(&elements) && (1..=MOST_ELEMENT_BYTES).contains(&element);
        let fits = fits && room < MOST_BYTES;
        fits.then_some(layout)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.halves + 2 * (HALF_HEAD_BYTES + self.room)
    }

    /// Where ranks of the node say that they are done with the area.
    pub(super) fn guests(&self) -> u64 {
        GUESTS_AT
    }

    fn half_at(&self, round: u64) -> u64 {
        self.halves + (round % 2) * (HALF_HEAD_BYTES + self.room)
    }

    fn half<'a>(&self, area: Span<'a>, round: u64) -> Result<Span<'a>> {
        area.part(self.half_at(round), HALF_HEAD_BYTES + self.room)
    }
}

fn gone(rank: Rank) -> Error {
    Error::Refused(format!("rank {rank} has left the sparse exchange"))
}

/// Writes the head of a new area, which is zero.
pub(super) fn prepare(local: Local<'_>, area: GlobalAddress, layout: &Layout, number: u64) -> Result<()> {
    let head = local.span(area, layout.bytes())?;
    head.store(ROOM_AT, layout.room)?;
    head.store(ELEMENT_AT, layout.element)?;
    head.store(HALVES_AT, layout.halves)?;
    head.store(MADE_AT, number)?;
    head.store(NUMBER_AT, number)
}

/// Whether there is an area of an exchange at this place: then it stays there until this rank parts with it. If its owner could not make
/// it, something else may be there.
pub(super) fn is_made(local: Local<'_>, area: GlobalAddress, number: u64) -> bool {
    local.span(area, GUESTS_AT).and_then(|head| head.load(MADE_AT)) == Ok(number)
}

/// Takes the number out of an area: from now on nobody of another node writes to it.
pub(super) fn close(local: Local<'_>, area: GlobalAddress) -> Result<()> {
    let head = local.span(area, GUESTS_AT)?;
    let _held = local.lock(head.word(LOCK_AT)?)?;
    head.word(NUMBER_AT)?.store(0, Release);
    Ok(())
}

/// What somebody sends in a round of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter<'a> {
    pub(super) number: u64,
    pub(super) round: u64,
    pub(super) source: Rank,
    pub(super) elements: &'a [u8],
}

/// Leaves as many elements as there is room for in the area of a rank of this node: how many.
pub(super) fn leave(
    local: Local<'_>,
    address: GlobalAddress,
    layout: &Layout,
    letter: Letter<'_>,
) -> Result<u64> {
    let area = local.span(address, layout.bytes())?;
    if area.load(NUMBER_AT)? != letter.number {
        return Err(gone(local.rank_of(address)));
    }
    let wanted = letter.elements.len() as u64 / layout.element;
    let half = layout.half(area, letter.round)?;
    let Some((at, count)) = reserve(half, layout, wanted)? else { return Ok(0) };
    half.store(HALF_HEAD_BYTES + at, u64::from(letter.source) | count << 32)?;
    let bytes = &letter.elements[..(count * layout.element) as usize];
    half.write(HALF_HEAD_BYTES + at + RECORD_HEAD_BYTES, bytes)?;
    Ok(count)
}

/// Takes room for some of so many elements, if there is any: where, and for how many.
fn reserve(half: Span<'_>, layout: &Layout, wanted: u64) -> Result<Option<(u64, u64)>> {
    let used = half.word(0)?;
    let mut now = used.load(Acquire);
    loop {
        let left = layout.room.checked_sub(now).filter(|_| now.is_multiple_of(8)).ok_or_else(damaged)?;
        let fits = left.saturating_sub(RECORD_HEAD_BYTES) / layout.element;
        let count = wanted.min(fits).min(u32::MAX.into());
        if count == 0 {
            return Ok(None);
        }
        let bytes = RECORD_HEAD_BYTES + (count * layout.element).next_multiple_of(8);
        match used.compare_exchange_weak(now, now + bytes, AcqRel, Acquire) {
            Ok(_) => return Ok(Some((now, count))),
            Err(other) => now = other,
        }
    }
}

fn damaged() -> Error {
    Error::Refused("the area of a sparse exchange holds something that nobody sent".into())
}

/// What came from a rank in a round: a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Piece {
    pub(super) source: Rank,
    at: u64,
    pub(super) count: u32,
}

/// The own half of a round, which everybody has written.
#[derive(Clone, Copy)]
pub(super) struct Mail<'a> {
    half: Span<'a>,
    layout: Layout,
    ranks: u32,
    used: u64,
}

impl<'a> Mail<'a> {
    pub(super) fn open(
        local: Local<'a>,
        area: GlobalAddress,
        layout: Layout,
        round: u64,
    ) -> Result<Mail<'a>> {
        let half = layout.half(local.span(area, layout.bytes())?, round)?;
        let used = half.load(0)?;
        match used <= layout.room && used.is_multiple_of(8) {
            true => Ok(Mail { half, layout, ranks: local.ranks(), used }),
            false => Err(damaged()),
        }
    }

    /// The record at a place, and where the next one is. What it says may have been written by anybody on this node.
    pub(super) fn next(&self, at: u64) -> Result<Option<(Piece, u64)>> {
        if at >= self.used {
            return Ok(None);
        }
        let head = self.half.load(HALF_HEAD_BYTES + at)?;
        let (source, count) = (head as u32, (head >> 32) as u32);
        let bytes = u64::from(count).checked_mul(self.layout.element).ok_or_else(damaged)?;
        let first = at + RECORD_HEAD_BYTES;
        let end = bytes.checked_next_multiple_of(8).and_then(|bytes| first.checked_add(bytes));
        match end {
            Some(end) if end <= self.used && count > 0 && source < self.ranks => {
                Ok(Some((Piece { source, count, at: first }, end)))
            }
            _ => Err(damaged()),
        }
    }

    /// Copies the elements of a record.
    pub(super) fn read(&self, piece: Piece, into: &mut [u8]) -> Result<()> {
        self.half.read(HALF_HEAD_BYTES + piece.at, into)
    }

    /// There is room for all again, in the round after the next one.
    pub(super) fn empty(self) -> Result<()> {
        self.half.store(0, 0)
    }
}

/// Says in the own area which round this rank is in.
pub(super) fn enter(local: Local<'_>, area: GlobalAddress, round: u64) -> Result<()> {
    local.span(area, GUESTS_AT)?.store(ROUND_AT, round)
}

impl Letter<'_> {
    /// As a request to the owner of an area on another node.
    pub(super) fn request(&self, code: u8, area: GlobalAddress) -> Vec<u8> {
        let request = Writer::new(code).long(area.bits()).long(self.number).long(self.round);
        request.bytes(self.elements).finish()
    }
}

/// Leaves what a rank of another node sends: the reply says how many elements there was room for.
pub(in crate::comm) fn serve(
    local: Local<'_>,
    from: Rank,
    request: &[u8],
    reply: &mut Vec<u8>,
) -> Result<()> {
    let mut request = Reader::new(request);
    let address = GlobalAddress::from_bits(request.long()?);
    let (number, round, elements) = (request.long()?, request.long()?, request.bytes()?);
    let me = local.rank();
    let own = |bytes: u64| match local.rank_of(address) == me {
        true => local.span(address, bytes).map_err(|_| gone(me)),
        false => Err(gone(me)),
    };
    let head = own(GUESTS_AT)?;
    // Whoever gives the area back has the lock, too.
    let _held = match head.load(NUMBER_AT)? == number && number != 0 {
        true => local.lock(head.word(LOCK_AT)?)?,
        false => return Err(gone(me)),
    };
    let now = head.load(ROUND_AT)?;
    if head.load(NUMBER_AT)? != number || round != now && Some(round) != now.checked_add(1) {
        return Err(gone(me));
    }
    let layout = layout_of(head, &own)?;
    if !(elements.len() as u64).is_multiple_of(layout.element) {
        return Err(damaged());
    }
    let letter = Letter { number, round, source: from, elements };
    let count = leave(local, address, &layout, letter)?;
    reply.extend_from_slice(&count.to_le_bytes());
    Ok(())
}

/// The layout that the head of an area says, which anybody on this node may have written.
fn layout_of<'a>(head: Span<'a>, own: &impl Fn(u64) -> Result<Span<'a>>) -> Result<Layout> {
    let (element, room, halves) = (head.load(ELEMENT_AT)?, head.load(ROOM_AT)?, head.load(HALVES_AT)?);
    let is_sound =
        element > 0 && room < MOST_BYTES && halves < MOST_BYTES && (room | halves).is_multiple_of(8);
    let layout = Layout { element, room, halves };
    match is_sound && own(layout.bytes()).is_ok() {
        true => Ok(layout),
        false => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;
    use kumiki_sim::{Cluster, Network};

    const NUMBER: u64 = 77;

    /// Does something with an area for ten elements of 12 bytes, on one of two ranks.
    fn with_area(work: impl Fn(Local<'_>, GlobalAddress, Layout) -> Result<()> + Send + Sync) {
        let outcome = Cluster::new(2, Network::torus(&[2])).run(|attachment| {
            let world = World::attach(attachment)?;
            let layout = Layout::new(12, 10, 1).expect("it fits");
            let memory = world.alloc::<u64>(layout.bytes() as usize / 8)?;
            prepare(world.local(), memory.address(), &layout, NUMBER)?;
            work(world.local(), memory.address(), layout)?;
            drop(memory);
            world.finalize()
        });
        assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 2]);
    }

    fn letter(elements: &[u8], source: Rank) -> Letter<'_> {
        Letter { number: NUMBER, round: 0, source, elements }
    }

    fn pieces(mail: Mail<'_>) -> Result<Vec<(Rank, u32)>> {
        let (mut all, mut at) = (Vec::new(), 0);
        while let Some((piece, next)) = mail.next(at)? {
            all.push((piece.source, piece.count));
            at = next;
        }
        Ok(all)
    }

    #[test]
    fn as_much_is_taken_as_there_is_room_for_and_found_again() {
        with_area(|local, area, layout| {
            let elements = [5; 12 * 7];
            assert_eq!(leave(local, area, &layout, letter(&elements, 1))?, 7);
            let some = leave(local, area, &layout, letter(&elements, 0))?;
            assert!((2..7).contains(&some), "{some}");
            assert_eq!(leave(local, area, &layout, letter(&elements[..12], 1))?, 0);
            let mail = Mail::open(local, area, layout, 0)?;
            assert_eq!(pieces(mail)?, [(1, 7), (0, some as u32)]);
            assert_eq!(pieces(Mail::open(local, area, layout, 1)?)?, []);
            let (first, _) = mail.next(0)?.expect("a record");
            let mut read = [0; 12 * 7];
            mail.read(first, &mut read)?;
            assert_eq!(read, elements);
            mail.empty()?;
            assert_eq!(leave(local, area, &layout, letter(&elements, 1))?, 7);
            Ok(())
        });
    }

    /// Anybody on the node can write to an area.
    #[test]
    fn what_cannot_have_been_sent_is_refused() {
        with_area(|local, area, layout| {
            let half = layout.half(local.span(area, layout.bytes())?, 0)?;
            for used in [layout.room + 8, 4, u64::MAX] {
                half.store(0, used)?;
                assert!(Mail::open(local, area, layout, 0).is_err(), "{used}");
                assert!(leave(local, area, &layout, letter(&[0; 12], 0)).is_err(), "{used}");
            }
            half.store(0, 32)?;
            // None, too many, by nobody, longer than what is used.
            for head in [1, 1 | u64::MAX << 32, 2 | 1 << 32, 1 | 3 << 32] {
                half.store(HALF_HEAD_BYTES, head)?;
                assert!(pieces(Mail::open(local, area, layout, 0)?).is_err(), "{head:#x}");
            }
            half.store(HALF_HEAD_BYTES, 1 | 2 << 32)?;
            assert_eq!(pieces(Mail::open(local, area, layout, 0)?)?, [(1, 2)]);
            Ok(())
        });
    }

    #[test]
    fn a_message_of_another_exchange_or_round_is_refused() {
        with_area(|local, area, layout| {
            let other = 1 - local.rank();
            let ask = |area: GlobalAddress, letter: Letter<'_>| {
                let mut reply = Vec::new();
                serve(local, other, &letter.request(9, area)[1..], &mut reply).map(|()| reply)
            };
            let good = letter(&[1; 24], other);
            assert_eq!(ask(area, good)?, 2u64.to_le_bytes());
            enter(local, area, 4)?;
            for round in [4, 5] {
                ask(area, Letter { round, ..good })?;
            }
            let good = Letter { round: 4, ..good };
            for wrong in [
                Letter { round: 3, ..good },
                Letter { round: 6, ..good },
                Letter { number: 78, ..good },
                Letter { number: 0, ..good },
                Letter { elements: &[0; 13], ..good },
            ] {
                assert!(ask(area, wrong).is_err(), "{wrong:?}");
            }
            assert!(ask(area.add(8), good).is_err() && ask(GlobalAddress::NULL, good).is_err());
            let request = good.request(9, area);
            for short in 1..request.len() {
                assert!(serve(local, other, &request[1..short], &mut Vec::new()).is_err());
            }
            let head = local.span(area, layout.bytes())?;
            for (at, value) in
                [(ROOM_AT, u64::MAX), (ELEMENT_AT, 0), (HALVES_AT, u64::MAX - 7), (ROOM_AT, 1 << 39)]
            {
                let right = head.load(at)?;
                head.store(at, value)?;
                assert!(ask(area, good).is_err(), "{value} at {at}");
                head.store(at, right)?;
            }
            assert!(is_made(local, area, NUMBER));
            close(local, area)?;
            assert!(ask(area, good).is_err(), "it is closed");
            assert!(is_made(local, area, NUMBER) && !is_made(local, area, NUMBER + 1));
            Ok(())
        });
    }

    #[test]
    fn a_layout_that_cannot_be_is_none() {
        let layout = Layout::new(24, 1000, 8).expect("it fits");
        assert!(layout.room >= 24_008 && layout.room < 24_100, "{layout:?}");
        assert!(Layout::new(8 << 20, 1, 1).is_some());
        for (element, elements) in
            [(0, 5), (5, 0), (8, usize::MAX), (1, 1 << 33), (1 << 20, 1 << 30), ((8 << 20) + 1, 1)]
        {
            assert_eq!(Layout::new(element, elements, 1), None);
        }
    }
}
