//! The door of a rank: where others say that they have made their end of something that takes two.
//!
//! Both ends of a channel are made by their ranks, in any order, and neither waits for the other. Whoever has made an end *knocks* at
//! the other rank: it leaves a [`Knock`] in a ring of fixed size there, whatever the number of ranks. The owner takes knocks out of the
//! ring whenever it does something with channels, and keeps those for which it has made no end yet. The ring lies in the owner's pool
//! from the first knock on; a word that all ranks know has its address. A ring that is full is no error: the knock is tried again later.
//!
//! A SIGKILL of one who knocks leaves the lock behind, which the next one takes over; a knock counts only when the tail has been
//! stored, behind it.

use crate::data::heap;
use crate::{Error, GlobalAddress, Result};
use kumiki_mem::codec::{Reader, Writer};
use kumiki_mem::{Local, Span};
use std::sync::atomic::{fence, Ordering};

/// Knocks that there is room for.
const KNOCKS: u64 = 32;
const LOCK_AT: u64 = 0;
const HEAD_AT: u64 = 8;
const TAIL_AT: u64 = 16;
/// Not 0 once nobody opens any more.
const CLOSED_AT: u64 = 24;
const KNOCKS_AT: u64 = 64;
const KNOCK_BYTES: u64 = 48;
const RING_BYTES: u64 = KNOCKS_AT + KNOCKS * KNOCK_BYTES;
/// Where the address of a ring stands, if a rank has closed its door without ever having had one.
const NEVER: u64 = 1;

/// What an end is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u64)]
pub(crate) enum What {
    /// The end of a channel that sends…
    Sender = 1,
    /// …and the one that receives.
    Receiver = 2,
    /// The end of a segment buffer that is filled…
    Source = 3,
    /// …and the one that is read.
    Destination = 4,
    /// The same of a relay, whose numbers all ranks agree on.
    RelaySource = 5,
    RelayDestination = 6,
}

impl What {
    fn from_word(word: u64) -> Option<What> {
        let segments = [What::Source, What::Destination, What::RelaySource, What::RelayDestination];
        let mut all = [What::Sender, What::Receiver].into_iter().chain(segments);
        all.find(|what| *what as u64 == word)
    }

    /// What is at the other end.
    pub(crate) fn other(self) -> What {
        match self {
            What::Sender => What::Receiver,
            What::Receiver => What::Sender,
            What::Source => What::Destination,
            What::Destination => What::Source,
            What::RelaySource => What::RelayDestination,
            What::RelayDestination => What::RelaySource,
        }
    }

    /// Whether it is the end of a segment buffer that is filled.
    pub(crate) fn is_filled(self) -> bool {
        matches!(self, What::Source | What::RelaySource)
    }

    /// Whether its number was agreed on: then those of one rank do not follow each other.
    pub(crate) fn is_agreed(self) -> bool {
        matches!(self, What::RelaySource | What::RelayDestination)
    }
}

/// Somebody has made an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Knock {
    pub(crate) what: What,
    pub(crate) from: u32,
    /// Which end of this kind it is, of those that it has made towards this rank.
    pub(crate) number: u64,
    /// Where its control words are, and whatever else the other end must know.
    pub(crate) words: [u64; 3],
}

impl Knock {
    fn words(self) -> [u64; 6] {
        let [one, two, three] = self.words;
        [self.what as u64, self.from.into(), self.number, one, two, three]
    }

    fn from_words([what, from, number, one, two, three]: [u64; 6]) -> Option<Knock> {
        let (what, from) = (What::from_word(what)?, u32::try_from(from).ok()?);
        Some(Knock { what, from, number, words: [one, two, three] })
    }

    /// Whether it says that there is no such end, and never will be.
    pub(crate) fn is_refusal(self) -> bool {
        self.words[0] == 0
    }

    pub(crate) fn write(self, request: Writer) -> Writer {
        self.words().into_iter().fold(request, Writer::long)
    }

    pub(crate) fn read(request: &mut Reader<'_>) -> Result<Knock> {
        let mut words = [0; 6];
        for word in &mut words {
            *word = request.long()?;
        }
        Knock::from_words(words).ok_or_else(|| Error::Misuse("a knock that cannot be".into()))
    }
}

/// The ring of a rank of this node, if there is one.
fn ring(local: Local<'_>, rank: u32) -> Result<Option<Span<'_>>> {
    if local.pool(rank)?.is_empty() {
        return Ok(None);
    }
    let address = local.span(heap::door(local, rank), 8)?.word(0)?.load(Ordering::Acquire);
    match address {
        0 => Ok(None),
        NEVER => Err(closed()),
        _ => local.span(GlobalAddress::from_bits(address), RING_BYTES).map(Some),
    }
}

fn closed() -> Error {
    Error::Closed("it is finalizing".into())
}

/// The same, made if there is none; for somebody who knocks, if the rank is not going to finalize: one that does, and waits for knocks, has
/// made its own before.
fn ring_made(local: Local<'_>, rank: u32, knocks: bool) -> Result<Span<'_>> {
    if let Some(ring) = ring(local, rank)? {
        return Ok(ring);
    }
    if knocks && local.is_finalizing(rank) {
        return Err(closed());
    }
    let block = heap::allocate(local, rank, RING_BYTES)?;
    let span = local.span(block, RING_BYTES)?;
    span.clear(0, RING_BYTES)?;
    let door = local.span(heap::door(local, rank), 8)?.word(0)?;
    match door.compare_exchange(0, block.bits(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            // It may have looked for the last time: but then it has begun to finalize before.
            fence(Ordering::SeqCst);
            if knocks && local.is_finalizing(rank) {
                span.store(CLOSED_AT, 1)?;
                return Err(closed());
            }
            Ok(span)
        }
        Err(other) => {
            heap::release(local, block)?;
            match other {
                NEVER => Err(closed()),
                _ => local.span(GlobalAddress::from_bits(other), RING_BYTES),
            }
        }
    }
}

/// This rank is going to finalize, and opens all the same until it [closes](close) its door.
pub(crate) fn stay_open(local: Local<'_>) -> Result<()> {
    ring_made(local, local.rank(), false).map(drop)
}

/// Nobody knocks at this rank any more: whoever tries is told so. Whether it must be done again: somebody had knocked, and is to be heard, or
/// does so at this moment.
pub(crate) fn close(local: Local<'_>) -> Result<bool> {
    let rank = local.rank();
    if local.pool(rank)?.is_empty() {
        return Ok(false);
    }
    let door = local.span(heap::door(local, rank), 8)?.word(0)?;
    let ring = match door.compare_exchange(0, NEVER, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) | Err(NEVER) => return Ok(false),
        Err(ring) => local.span(GlobalAddress::from_bits(ring), RING_BYTES)?,
    };
    let Some(_held) = local.lock_briefly(ring.word(LOCK_AT)?)? else { return Ok(true) };
    ring.store(CLOSED_AT, 1)?;
    Ok(ring.load(HEAD_AT)? != ring.load(TAIL_AT)?)
}

/// Leaves a knock at a rank of this node. False if there is no room now.
pub(crate) fn leave(local: Local<'_>, rank: u32, knock: Knock) -> Result<bool> {
    let ring = ring_made(local, rank, true)?;
    let _held = local.lock(ring.word(LOCK_AT)?)?;
    if ring.load(CLOSED_AT)? != 0 {
        return Err(closed());
    }
    let (head, tail) = (ring.load(HEAD_AT)?, ring.load(TAIL_AT)?);
    if tail.wrapping_sub(head) >= KNOCKS {
        return Ok(false);
    }
    let place = ring.words(KNOCKS_AT + tail % KNOCKS * KNOCK_BYTES, 6)?;
    for (word, value) in place.iter().zip(knock.words()) {
        word.store(value, Ordering::Relaxed);
    }
    ring.word(TAIL_AT)?.store(tail.wrapping_add(1), Ordering::Release);
    Ok(true)
}

/// Whether somebody has knocked at this rank.
pub(crate) fn is_knocked_at(local: Local<'_>) -> bool {
    let words =
        |ring: Span<'_>| Some((ring.word(TAIL_AT).ok()?.load(Ordering::Acquire), ring.load(HEAD_AT).ok()?));
    let ring = ring(local, local.rank()).ok().flatten();
    ring.and_then(words).is_some_and(|(tail, head)| tail != head)
}

/// Takes the knocks at this rank, one after the other, until `keep` fails: that one stays.
pub(crate) fn open(local: Local<'_>, mut keep: impl FnMut(Knock) -> Result<()>) -> Result<()> {
    let Some(ring) = ring(local, local.rank())? else { return Ok(()) };
    let _held = local.lock(ring.word(LOCK_AT)?)?;
    let tail = ring.word(TAIL_AT)?.load(Ordering::Acquire);
    let mut head = ring.load(HEAD_AT)?;
    // What stands in shared memory may be anything.
    for _ in 0..tail.wrapping_sub(head).min(KNOCKS) {
        let place = ring.words(KNOCKS_AT + head % KNOCKS * KNOCK_BYTES, 6)?;
        let mut words = [0; 6];
        words.iter_mut().zip(place).for_each(|(word, place)| *word = place.load(Ordering::Relaxed));
        if let Some(knock) = Knock::from_words(words) {
            keep(knock)?;
        }
        head = head.wrapping_add(1);
        ring.word(HEAD_AT)?.store(head, Ordering::Release);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    fn knock(number: u64) -> Knock {
        Knock { what: What::Sender, from: 0, number, words: [number, 2, 3] }
    }

    #[test]
    fn knocks_are_taken_in_order_and_a_full_ring_refuses_more_of_them() {
        let world = World::init().unwrap();
        let local = world.local();
        assert!(!is_knocked_at(local));
        for round in 0..3 {
            let numbers = round * KNOCKS..(round + 1) * KNOCKS;
            for number in numbers.clone() {
                assert!(leave(local, 0, knock(number)).unwrap());
            }
            assert!(!leave(local, 0, knock(99)).unwrap(), "there is no room for one more");
            assert!(is_knocked_at(local));
            let mut taken = Vec::new();
            // One that cannot be kept stays.
            let full = open(local, |knock| match taken.len() {
                5 => Err(Error::Misuse("full".into())),
                _ => {
                    taken.push(knock);
                    Ok(())
                }
            });
            assert!(full.is_err() && taken.len() == 5);
            let keep = |knock| {
                taken.push(knock);
                Ok(())
            };
            open(local, keep).unwrap();
            assert_eq!(taken, numbers.map(knock).collect::<Vec<_>>());
            assert!(!is_knocked_at(local));
        }
        world.finalize().unwrap();
    }

    #[test]
    fn a_door_that_is_closed_stays_closed_and_what_was_left_there_is_heard() {
        let world = World::init().unwrap();
        let local = world.local();
        stay_open(local).unwrap();
        assert!(leave(local, 0, knock(0)).unwrap());
        assert!(close(local).unwrap());
        assert!(matches!(leave(local, 0, knock(1)), Err(Error::Closed(_))));
        let mut taken = 0;
        let count = |_| {
            taken += 1;
            Ok(())
        };
        open(local, count).unwrap();
        assert_eq!((taken, close(local)), (1, Ok(false)));
        world.finalize().unwrap();
        // One that never had a ring.
        let world = World::init().unwrap();
        let local = world.local();
        crate::data::heap::allocate(local, 0, 64).unwrap();
        assert_eq!(close(local), Ok(false));
        assert!(matches!(leave(local, 0, knock(1)), Err(Error::Closed(_))));
        assert!(!is_knocked_at(local));
        world.finalize().unwrap();
    }

    #[test]
    fn a_knock_goes_through_a_request_and_wrong_ones_are_refused() {
        let bytes = knock(7).write(Writer::new(1)).finish();
        let mut reader = Reader::new(&bytes[1..]);
        assert_eq!(Knock::read(&mut reader).unwrap(), knock(7));
        assert!(Knock::read(&mut Reader::new(&bytes[1..40])).is_err());
        let mut wrong = bytes.clone();
        wrong[1] = 9;
        assert!(Knock::read(&mut Reader::new(&wrong[1..])).is_err());
    }
}
