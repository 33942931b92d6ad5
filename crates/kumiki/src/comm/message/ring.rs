//! A ring of records in the memory of the rank that reads them: the mailbox of a rank, where anybody writes, and lanes, where one does.
//!
//! A record counts from the moment on when its first word is not zero: so whoever waits for one looks at the line where it comes, and at no
//! other. A writer writes a zero behind it, where the next one will be, then all of it but that word; and then the word. Of several records that
//! one is last which is first. (The zero may lie in another line: a record of one line is then written in one go, however the reader looks at
//! that line.) The reader reads records, and then moves the head. Those who write to a mailbox hold its lock meanwhile, and leave behind how far
//! they have come; a lane has one writer on the node, who knows. A writer that finds no room says so in a word, and the reader wakes it when it
//! has made room.
//!
//! What stands in a ring may have been written by anybody who is in the job: every number is checked before it is used. A SIGKILL of a
//! writer leaves bytes behind a zero that nobody reads, or records that count and that the tail does not know of, which the next writer passes;
//! and a lock that the next one takes over.

use super::record::{words_of, Record, HEAD_BYTES, HEAD_WORDS, SHORT_WORDS};
use crate::data::heap::{self, Heap};
use crate::{Error, Fate, GlobalAddress, Result};
use kumiki_mem::{Local, Locked, Mark, Span};
use std::sync::atomic::{fence, Ordering};

const MAGIC_AT: u64 = 0;
const BYTES_AT: u64 = 8;
const FROM_AT: u64 = 16;
/// Beside what nobody writes: whoever writes to the ring looks at it each time.
const CLOSED_AT: u64 = 24;
/// Written by writers, but for the tail of a lane on the node…
const TAIL_AT: u64 = 64;
const LOCK_AT: u64 = 72;
const HUNGRY_AT: u64 = 80;
/// How far a writer of another node has read the lane of this rank there, as it has said with its letters; 0 if it has not.
const OPPOSITE_AT: u64 = 88;
/// …and by the reader: in lines of their own. How far it has read, and how far it has told a sender of another node that it has.
const HEAD_AT: u64 = 128;
const TOLD_AT: u64 = 136;
/// Bytes before the records.
pub(super) const FRAME_BYTES: u64 = 192;
const MAGIC: u64 = u64::from_le_bytes(*b"mail\0\0\0\x02");
/// The zero behind the last record.
const END_BYTES: u64 = 8;
/// What processors take from each other at a time.
const LINE_BYTES: u64 = 64;
const _: () = assert!(LINE_BYTES < LEAST_RING);
/// `from` of a ring that anybody writes to.
const ANYBODY: u64 = u64::MAX;
/// Where the address of a mailbox stands, if a rank has closed without ever having had one.
const NEVER: u64 = 1;

/// The least and the most bytes of records that a ring has room for.
pub(super) const LEAST_RING: u64 = 256;
pub(super) const LARGEST_RING: u64 = 1 << 20;
/// Those of a mailbox.
pub(super) const MAILBOX_BYTES: u64 = (16 << 10) - FRAME_BYTES;

/// Where a ring is, and for how many bytes of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ring {
    pub(super) address: GlobalAddress,
    pub(super) bytes: u64,
}

/// Where a lap of a ring began, for whoever goes round it again and again: a place is found without a division then, which takes as long as
/// much of what is done for a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lap(u64);

impl Lap {
    /// The place behind so many bytes of a ring, which is the same each time.
    #[inline(always)]
    fn place(&mut self, ring: Ring, count: u64) -> u64 {
        let place = count.wrapping_sub(self.0);
        if place < ring.bytes {
            return place;
        }
        let place = count % ring.bytes;
        self.0 = count - place;
        place
    }
}

/// A rank reads no messages any more.
pub(in super::super) fn closed(rank: u32) -> Error {
    Error::PeerLost { rank, fate: Fate::NotDone, why: "it is finalizing".into() }
}

fn broken() -> Error {
    Error::Refused("the memory of a mailbox holds what nobody writes there".into())
}

impl Ring {
    /// Fails if there cannot be such a ring.
    pub(super) fn new(address: GlobalAddress, bytes: u64) -> Result<Ring> {
        match bytes.is_multiple_of(8) && (LEAST_RING..=LARGEST_RING).contains(&bytes) {
            true => Ok(Ring { address, bytes }),
            false => Err(broken()),
        }
    }

    /// Makes one of new memory of a rank of this node, for one writer or for all.
    fn make(local: Local<'_>, address: GlobalAddress, bytes: u64, from: Option<u32>) -> Result<Ring> {
        let span = local.span(address, FRAME_BYTES + END_BYTES)?;
        span.clear(0, FRAME_BYTES + END_BYTES)?;
        span.store(BYTES_AT, bytes)?;
        span.store(FROM_AT, from.map_or(ANYBODY, u64::from))?;
        span.store(MAGIC_AT, MAGIC)?;
        Ok(Ring { address, bytes })
    }

    /// Makes a lane of this rank for a writer.
    pub(super) fn lane(local: Local<'_>, from: u32, bytes: u64) -> Result<Ring> {
        let address = heap::allocate_lines(local, FRAME_BYTES + bytes)?;
        Ring::make(local, address, bytes, Some(from))
    }

    /// Gives the memory of a lane back: nobody writes to it any more.
    pub(super) fn raze(self, local: Local<'_>) {
        let razed = local.span(self.address, FRAME_BYTES).and_then(|span| span.store(MAGIC_AT, 0));
        let _ = razed.and_then(|()| heap::release_lines(local, self.address));
    }

    /// The mailbox of a rank of this node, if it has one.
    pub(super) fn mailbox(local: Local<'_>, rank: u32) -> Result<Option<Ring>> {
        if local.pool(rank)?.is_empty() {
            return Ok(None);
        }
        let address = local.span(heap::mailbox(local, rank), 8)?.load(0)?;
        let ring = Ring { address: GlobalAddress::from_bits(address), bytes: MAILBOX_BYTES };
        match address {
            NEVER => Err(closed(rank)),
            _ => Ok((address != 0).then_some(ring)),
        }
    }

    /// The same, made if there is none.
    pub(super) fn mailbox_made(local: Local<'_>, rank: u32) -> Result<Ring> {
        if let Some(ring) = Ring::mailbox(local, rank)? {
            return Ok(ring);
        }
        if local.is_finalizing(rank) {
            return Err(closed(rank));
        }
        // Many may come at once. Whoever waits here for another finds what that has made: memory for two would stay with the pool.
        let mut heap = Heap::open(local, rank)?;
        if let Some(ring) = Ring::mailbox(local, rank)? {
            return Ok(ring);
        }
        let made = Ring::make(local, heap.allocate(FRAME_BYTES + MAILBOX_BYTES)?, MAILBOX_BYTES, None)?;
        let place = local.span(heap::mailbox(local, rank), 8)?.word(0)?;
        match place.compare_exchange(0, made.address.bits(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                drop(heap);
                // It may have looked for a mailbox for the last time: but then it has begun to finalize before.
                fence(Ordering::SeqCst);
                if local.is_finalizing(rank) {
                    made.close(local)?;
                    return Err(closed(rank));
                }
                Ok(made)
            }
            Err(other) => {
                heap.free(made.address)?;
                if other == NEVER {
                    return Err(closed(rank));
                }
                Ok(Ring { address: GlobalAddress::from_bits(other), ..made })
            }
        }
    }

    /// This rank reads no messages any more. If it never had a mailbox, it gets none; else this is it, and nothing comes into it from now
    /// on.
    pub(super) fn close_mailbox(local: Local<'_>) -> Result<Option<Ring>> {
        let rank = local.rank();
        if local.pool(rank)?.is_empty() {
            return Ok(None);
        }
        let place = local.span(heap::mailbox(local, rank), 8)?.word(0)?;
        let address = match place.compare_exchange(0, NEVER, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(NEVER) => return Ok(None),
            Err(address) => GlobalAddress::from_bits(address),
        };
        let ring = Ring { address, bytes: MAILBOX_BYTES };
        ring.close(local)?;
        Ok(Some(ring))
    }

    /// Nobody begins to write any more. Whoever writes with the lock at this moment is done first; one that is stopped meanwhile is not
    /// waited for.
    pub(super) fn close(self, local: Local<'_>) -> Result<()> {
        let span = self.span(local)?;
        let held = local.lock_briefly(span.word(LOCK_AT)?)?;
        span.store(CLOSED_AT, 1)?;
        drop(held);
        Ok(())
    }

    /// Fails if a rank of this node reads no messages any more.
    pub(super) fn check_open(local: Local<'_>, rank: u32) -> Result<()> {
        let is_closed = match Ring::mailbox(local, rank)? {
            Some(ring) => ring.span(local)?.load(CLOSED_AT)? != 0,
            // It has nothing to send, and looks at nothing.
            None => local.is_finalizing(rank),
        };
        if is_closed {
            return Err(closed(rank));
        }
        Ok(())
    }

    /// A lane of this rank, if it is one, and of that writer.
    pub(super) fn lane_of(local: Local<'_>, from: u32, address: GlobalAddress) -> Result<Ring> {
        let head = local.span(address, FRAME_BYTES)?;
        if local.rank_of(address) != local.rank() || head.load(MAGIC_AT)? != MAGIC {
            return Err(Error::Closed("the lane for these messages is gone".into()));
        }
        if head.load(FROM_AT)? != u64::from(from) {
            return Err(Error::Misuse("a lane of another sender".into()));
        }
        Ring::new(address, head.load(BYTES_AT)?)
    }

    /// A mark for whoever uses it again and again.
    pub(super) fn mark(self) -> Mark {
        Mark::new(self.address, FRAME_BYTES + self.bytes)
    }

    fn span(self, local: Local<'_>) -> Result<Span<'_>> {
        local.span(self.address, FRAME_BYTES + self.bytes)
    }

    /// The longest body of a record in it: two of these have room.
    pub(super) fn longest_body(self) -> u64 {
        (self.bytes / 2 - HEAD_BYTES) & !7
    }

    /// Begins to write behind `tail`, for whoever writes alone and knows how far that is; and up to where the reader was once.
    #[inline(always)]
    pub(super) fn write_at<'a>(
        self,
        local: Local<'a>,
        (mark, lap): (&mut Mark, &mut Lap),
        (tail, head): (u64, u64),
    ) -> Result<Writing<'a>> {
        let (span, place) = (local.span_at(mark)?, lap.place(self, tail));
        // The reader looks at this line, and has it: it is on its way while the record is made.
        span.prepare(FRAME_BYTES + place);
        Writing::new(self, local, (span, place), (tail, head), None)
    }

    /// The same for a ring that others write to, too: they wait meanwhile.
    pub(super) fn write_locked(self, local: Local<'_>) -> Result<Writing<'_>> {
        let span = self.span(local)?;
        let held = local.lock(span.word(LOCK_AT)?)?;
        self.write_holding(local, span, held)
    }

    fn write_holding<'a>(self, local: Local<'a>, span: Span<'a>, held: Locked<'a>) -> Result<Writing<'a>> {
        let (tail, head) = (span.load(TAIL_AT)?, span.load(HEAD_AT)?);
        // Whoever held it before may have been killed before it could say that these count.
        let mut uncounted = self.read_in(span, &mut Lap::default(), tail)?;
        while let Some(record) = uncounted.record()? {
            if uncounted.skip(&record).wrapping_sub(tail) > self.bytes {
                return Err(broken());
            }
        }
        Writing::new(self, local, (span, uncounted.place), (uncounted.at, head), Some(held))
    }

    /// The same for whoever must not wait: nothing if somebody holds the lock for longer.
    pub(super) fn write_briefly(self, local: Local<'_>) -> Result<Option<Writing<'_>>> {
        let span = self.span(local)?;
        let Some(held) = local.lock_briefly(span.word(LOCK_AT)?)? else { return Ok(None) };
        self.write_holding(local, span, held).map(Some)
    }

    /// Begins to read behind `head`.
    #[inline]
    pub(super) fn read(self, local: Local<'_>, head: u64) -> Result<Reading<'_>> {
        self.read_in(self.span(local)?, &mut Lap::default(), head)
    }

    /// The same where a [mark](Self::mark) has led.
    #[inline(always)]
    pub(super) fn read_in<'a>(self, span: Span<'a>, lap: &mut Lap, head: u64) -> Result<Reading<'a>> {
        match head.is_multiple_of(8) {
            true => Ok(Reading { ring: self, span, at: head, place: lap.place(self, head) }),
            false => Err(broken()),
        }
    }

    /// Whether something is there behind `head`.
    #[inline]
    pub(super) fn has_more(self, local: Local<'_>, head: u64) -> bool {
        self.read(local, head).is_ok_and(|reading| !reading.is_empty())
    }

    /// Bytes of records that there is room for behind `tail`, if the reader is at `head`.
    #[inline]
    pub(super) fn room(self, tail: u64, head: u64) -> u64 {
        (self.bytes - END_BYTES).saturating_sub(tail.wrapping_sub(head))
    }

    /// Gives room back up to `head`. Whether somebody waits for it. Only a `thorough` look surely sees somebody who says so at this moment:
    /// one that is missed looks again after a moment by itself.
    #[inline]
    pub(super) fn free_up_to(self, local: Local<'_>, head: u64, is_thorough: bool) -> Result<bool> {
        free_up_to(self.span(local)?, head, is_thorough)
    }

    /// The place so many bytes behind one, of which there are not more than the ring has.
    #[inline(always)]
    fn behind(self, place: u64, bytes: u64) -> u64 {
        let place = place + bytes;
        if place >= self.bytes {
            place - self.bytes
        } else {
            place
        }
    }

    /// Copies bytes to or from a place that may be at the end and the beginning of the records.
    fn pieces(self, place: u64, bytes: usize) -> [(u64, std::ops::Range<usize>); 2] {
        let first = bytes.min((self.bytes - place) as usize);
        [(FRAME_BYTES + place, 0..first), (FRAME_BYTES, first..bytes)]
    }
}

/// [Gives room back](Ring::free_up_to) in a ring that a mark has led to.
#[inline]
pub(super) fn free_up_to(span: Span<'_>, head: u64, is_thorough: bool) -> Result<bool> {
    span.store(HEAD_AT, head)?;
    if is_thorough {
        // Whoever says that it is hungry looks at the head once more: one of both sees the other.
        fence(Ordering::SeqCst);
    }
    let hungry = span.word(HUNGRY_AT)?;
    Ok(hungry.load(Ordering::Relaxed) != 0 && hungry.swap(0, Ordering::AcqRel) != 0)
}

/// How far the reader has told a sender of another node that it has read, or is about to.
#[inline]
pub(super) fn told(span: Span<'_>) -> Result<u64> {
    span.load(TOLD_AT)
}

/// It tells it now.
pub(super) fn tell(span: Span<'_>, head: u64) -> Result<()> {
    span.store(TOLD_AT, head)
}

/// How far the writer of a lane, on another node, has read the lane of this rank there, if it has said so with a letter.
#[inline]
pub(super) fn opposite(span: Span<'_>) -> Result<Option<u64>> {
    let said = span.load(OPPOSITE_AT)?;
    Ok((said != 0).then_some(said & !1))
}

/// What was said is not about the lane that this rank uses from now on.
pub(super) fn forget_opposite(span: Span<'_>) -> Result<()> {
    span.store(OPPOSITE_AT, 0)
}

/// Records that are being written: they count when they are [published](Self::publish).
#[derive(Debug)]
pub(super) struct Writing<'a> {
    ring: Ring,
    span: Span<'a>,
    from: u64,
    tail: u64,
    /// The places of these.
    start: u64,
    place: u64,
    /// Up to where the reader is, as far as is known.
    head: u64,
    /// The first word of the first record.
    first: u64,
    held: Option<Locked<'a>>,
}

impl<'a> Writing<'a> {
    #[inline(always)]
    fn new(
        ring: Ring,
        local: Local<'_>,
        (span, place): (Span<'a>, u64),
        (tail, head): (u64, u64),
        held: Option<Locked<'a>>,
    ) -> Result<Self> {
        let is_right = tail.wrapping_sub(head) <= ring.bytes && tail.is_multiple_of(8);
        if !is_right || span.load(MAGIC_AT)? != MAGIC {
            return Err(broken());
        }
        if span.load(CLOSED_AT)? != 0 {
            return Err(closed(local.rank_of(ring.address)));
        }
        Ok(Writing { ring, span, from: tail, tail, start: place, place, head, first: 0, held })
    }

    /// How many bytes were ever written.
    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    /// How many of them the reader had read when that was looked at.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    fn room(&self) -> u64 {
        self.ring.room(self.tail, self.head)
    }

    /// Writes a record. False if there is no room for it: then the reader knows that somebody waits.
    #[inline(always)]
    pub(super) fn push(&mut self, record: &Record, body: &[u8]) -> Result<bool> {
        let bytes = record.ring_bytes();
        if bytes > self.room() && !self.look_again(bytes)? {
            return Ok(false);
        }
        let mut words = record.words();
        let count = words_of(words[0]);
        let words = &mut words[..count];
        if self.tail == self.from {
            // As long as this is zero nothing counts.
            self.first = std::mem::take(&mut words[0]);
        }
        let (place, head_bytes) = (self.place, 8 * words.len() as u64);
        self.place = self.ring.behind(place, bytes);
        // First, as it may lie in another line: whoever waited for that between two words of this one would lose this one to the reader, who looks
        // at it.
        self.span.word(FRAME_BYTES + self.place)?.store(0, Ordering::Relaxed);
        match place + head_bytes + body.len() as u64 <= self.ring.bytes {
            true => {
                let there = self.span.words(FRAME_BYTES + place, words.len())?;
                there.iter().zip(&*words).for_each(|(there, word)| there.store(*word, Ordering::Relaxed));
                self.span.write(FRAME_BYTES + place + head_bytes, body)?;
            }
            false => self.write_round(place, words, body)?,
        }
        self.tail = self.tail.wrapping_add(bytes);
        Ok(true)
    }

    /// Writes a record that goes round the end of the ring.
    #[inline(never)]
    fn write_round(&self, mut place: u64, words: &[u64], body: &[u8]) -> Result<()> {
        for word in words {
            self.span.word(FRAME_BYTES + place)?.store(*word, Ordering::Relaxed);
            place = self.ring.behind(place, 8);
        }
        for (place, range) in self.ring.pieces(place, body.len()) {
            self.span.write(place, &body[range])?;
        }
        Ok(())
    }

    /// Looks whether there is enough room now; if there is not, says so, and looks once more.
    #[inline(never)]
    fn look_again(&mut self, bytes: u64) -> Result<bool> {
        self.look_at_head()?;
        if bytes <= self.room() {
            return Ok(true);
        }
        self.span.word(HUNGRY_AT)?.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.look_at_head()?;
        Ok(bytes <= self.room())
    }

    fn look_at_head(&mut self) -> Result<()> {
        let head = self.span.load(HEAD_AT)?;
        if self.tail.wrapping_sub(head) > self.ring.bytes {
            return Err(broken());
        }
        self.head = head;
        Ok(())
    }

    /// How far the reader has read, for whoever asked for this to be written. The reader need not say so.
    pub(super) fn tell_head(&self) -> Result<u64> {
        let head = self.span.load(HEAD_AT)?;
        self.span.store(TOLD_AT, head)?;
        Ok(head)
    }

    /// Says how far the writer has read the lane of this rank. What is no number of that is no place in it either.
    pub(super) fn say_opposite(&self, head: u64) -> Result<()> {
        self.span.store(OPPOSITE_AT, head | 1)
    }

    /// Says that somebody waits for room. Whoever sees what was written sees that.
    pub(super) fn say_hungry(&self) -> Result<()> {
        self.span.store(HUNGRY_AT, 1)
    }

    /// Everything that was written counts. Whether that is something.
    #[inline(always)]
    pub(super) fn publish(self) -> Result<bool> {
        if self.tail == self.from {
            return Ok(false);
        }
        self.span.store(FRAME_BYTES + self.start, self.first)?;
        if self.held.is_some() {
            self.span.store(TAIL_AT, self.tail)?;
        }
        // The next zero may go into the next line, which the reader had in the lap before: nobody waits for it then.
        self.span.prepare(FRAME_BYTES + self.ring.behind(self.place, LINE_BYTES));
        Ok(true)
    }
}

/// Records that are being read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    ring: Ring,
    span: Span<'a>,
    at: u64,
    place: u64,
}

impl Reading<'_> {
    /// The first word of the next record; zero if there is none. What is behind it is as it was written before.
    #[inline(always)]
    fn first(&self) -> Result<u64> {
        self.span.load(FRAME_BYTES + self.place)
    }

    /// The next record, if there is one.
    #[inline]
    pub(super) fn record(&self) -> Result<Option<Record>> {
        let first = self.first()?;
        if first == 0 {
            return Ok(None);
        }
        let record = Record::from_words(self.head_words(first)?).ok_or_else(broken)?;
        match self.can_hold(&record) {
            true => Ok(Some(record)),
            false => Err(broken()),
        }
    }

    fn can_hold(&self, record: &Record) -> bool {
        record.body_bytes() <= self.ring.bytes && record.ring_bytes() <= self.ring.bytes - END_BYTES
    }

    /// The next record, if it is a short message whose words are in one piece: a quick look, which says nothing of all others.
    #[inline(always)]
    pub(super) fn short(&self) -> Option<Record> {
        if self.place + 8 * SHORT_WORDS as u64 > self.ring.bytes {
            return None;
        }
        let words = self.span.words(FRAME_BYTES + self.place, SHORT_WORDS).ok()?;
        let first = words[0].load(Ordering::Acquire);
        let record =
            Record::short([first, words[1].load(Ordering::Relaxed), words[2].load(Ordering::Relaxed)])?;
        self.can_hold(&record).then_some(record)
    }

    /// Whether nothing is there.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first().is_ok_and(|first| first == 0)
    }

    /// The words of the next record, behind the first. Each is read once.
    #[inline]
    fn head_words(&self, first: u64) -> Result<[u64; HEAD_WORDS]> {
        let mut words = [0; HEAD_WORDS];
        words[0] = first;
        for (word, number) in words.iter_mut().zip(0..words_of(first) as u64).skip(1) {
            let place = self.ring.behind(self.place, 8 * number);
            *word = self.span.word(FRAME_BYTES + place)?.load(Ordering::Relaxed);
        }
        Ok(words)
    }

    /// Copies the beginning of the body of the next record, which is this one.
    pub(super) fn body(&self, record: &Record, into: &mut [u8]) -> Result<()> {
        self.copy_out(self.ring.behind(self.place, record.head_bytes()), into)
    }

    /// Goes on behind a record. How far that is.
    pub(super) fn skip(&mut self, record: &Record) -> u64 {
        self.at = self.at.wrapping_add(record.ring_bytes());
        self.place = self.ring.behind(self.place, record.ring_bytes());
        self.at
    }

    #[inline]
    fn copy_out(&self, place: u64, into: &mut [u8]) -> Result<()> {
        if place + into.len() as u64 <= self.ring.bytes {
            return self.span.read(FRAME_BYTES + place, into);
        }
        for (place, range) in self.ring.pieces(place, into.len()) {
            self.span.read(place, &mut into[range])?;
        }
        Ok(())
    }
}
