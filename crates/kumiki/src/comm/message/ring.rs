//! A ring of records in the memory of the rank that reads them: the mailbox of a rank, where anybody writes, and lanes, where one does.
//!
//! Writers write records and then the tail, the reader reads records and then moves the head. Those who write to a mailbox hold its lock
//! meanwhile; a lane needs none. A writer that finds no room says so in a word, and the reader wakes it when it has made room.
//!
//! What stands in a ring may have been written by anybody who is in the job: every number is checked before it is used. A SIGKILL of a
//! writer leaves bytes behind the tail that nobody reads, and a lock that the next one takes over.

use super::record::{Record, HEAD_BYTES, HEAD_WORDS, SHORT_WORDS};
use crate::data::heap::{self, Heap};
use crate::{Error, Fate, GlobalAddress, Result};
use kumiki_mem::{Local, Locked, Mark, Span};
use std::sync::atomic::{fence, Ordering};

const MAGIC_AT: u64 = 0;
const BYTES_AT: u64 = 8;
const FROM_AT: u64 = 16;
/// Beside what nobody writes: whoever writes to the ring looks at it each time.
const CLOSED_AT: u64 = 24;
/// Written by writers…
const TAIL_AT: u64 = 64;
const LOCK_AT: u64 = 72;
const HUNGRY_AT: u64 = 80;
/// …and by the reader: in lines of their own.
const HEAD_AT: u64 = 128;
/// Bytes before the records.
pub(super) const FRAME_BYTES: u64 = 192;
const MAGIC: u64 = u64::from_le_bytes(*b"mail\0\0\0\x01");
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

/// A rank reads no messages any more.
pub(super) fn closed(rank: u32) -> Error {
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
        let span = local.span(address, FRAME_BYTES)?;
        span.clear(0, FRAME_BYTES)?;
        span.store(BYTES_AT, bytes)?;
        span.store(FROM_AT, from.map_or(ANYBODY, u64::from))?;
        span.store(MAGIC_AT, MAGIC)?;
        Ok(Ring { address, bytes })
    }

    /// Makes a lane of this rank for a writer.
    pub(super) fn lane(local: Local<'_>, from: u32, bytes: u64) -> Result<Ring> {
        let address = heap::allocate(local, local.rank(), FRAME_BYTES + bytes)?;
        Ring::make(local, address, bytes, Some(from))
    }

    /// Gives the memory of a lane back: nobody writes to it any more.
    pub(super) fn raze(self, local: Local<'_>) {
        let razed = local.span(self.address, FRAME_BYTES).and_then(|span| span.store(MAGIC_AT, 0));
        let _ = razed.and_then(|()| heap::release(local, self.address));
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
        mark: &mut Mark,
        (tail, head): (u64, u64),
    ) -> Result<Writing<'a>> {
        let span = local.span_at(mark)?;
        Writing::new(self, local, span, (tail, head), None)
    }

    /// Begins to write, behind what is there.
    #[cfg(test)]
    pub(super) fn write(self, local: Local<'_>) -> Result<Writing<'_>> {
        let span = self.span(local)?;
        let (tail, head) = (span.load(TAIL_AT)?, span.load(HEAD_AT)?);
        Writing::new(self, local, span, (tail, head), None)
    }

    /// The same for a ring that others write to, too: they wait meanwhile.
    pub(super) fn write_locked(self, local: Local<'_>) -> Result<Writing<'_>> {
        let span = self.span(local)?;
        let held = local.lock(span.word(LOCK_AT)?)?;
        let (tail, head) = (span.load(TAIL_AT)?, span.load(HEAD_AT)?);
        Writing::new(self, local, span, (tail, head), Some(held))
    }

    /// The same for whoever must not wait: nothing if somebody holds the lock for longer.
    pub(super) fn write_briefly(self, local: Local<'_>) -> Result<Option<Writing<'_>>> {
        let span = self.span(local)?;
        let Some(held) = local.lock_briefly(span.word(LOCK_AT)?)? else { return Ok(None) };
        let (tail, head) = (span.load(TAIL_AT)?, span.load(HEAD_AT)?);
        Writing::new(self, local, span, (tail, head), Some(held)).map(Some)
    }

    /// Begins to read behind `head`.
    #[inline]
    pub(super) fn read(self, local: Local<'_>, head: u64) -> Result<Reading<'_>> {
        self.read_in(self.span(local)?, head)
    }

    /// The same where a [mark](Self::mark) has led.
    #[inline(always)]
    pub(super) fn read_in(self, span: Span<'_>, head: u64) -> Result<Reading<'_>> {
        let tail = span.load(TAIL_AT)?;
        if tail.wrapping_sub(head) > self.bytes {
            return Err(broken());
        }
        Ok(Reading { ring: self, span, at: head, tail })
    }

    /// Whether something is there behind `head`.
    #[inline]
    pub(super) fn has_more(self, local: Local<'_>, head: u64) -> bool {
        self.span(local).is_ok_and(|span| has_more(span, head))
    }

    /// Gives room back up to `head`. Whether somebody waits for it. Only a `thorough` look surely sees somebody who says so at this moment:
    /// one that is missed looks again after a moment by itself.
    #[inline]
    pub(super) fn free_up_to(self, local: Local<'_>, head: u64, is_thorough: bool) -> Result<bool> {
        free_up_to(self.span(local)?, head, is_thorough)
    }

    /// Copies words or bytes to or from a place that may be at the end and the beginning of the records.
    fn pieces(self, at: u64, bytes: usize) -> [(u64, std::ops::Range<usize>); 2] {
        let place = at % self.bytes;
        let first = bytes.min((self.bytes - place) as usize);
        [(FRAME_BYTES + place, 0..first), (FRAME_BYTES, first..bytes)]
    }
}

/// Whether something is there behind `head`, in a ring that a mark has led to.
#[inline]
pub(super) fn has_more(span: Span<'_>, head: u64) -> bool {
    span.load(TAIL_AT).is_ok_and(|tail| tail != head)
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

/// Records that are being written: they count when they are [published](Self::publish).
#[derive(Debug)]
pub(super) struct Writing<'a> {
    ring: Ring,
    span: Span<'a>,
    from: u64,
    tail: u64,
    /// Up to where the reader is, as far as is known.
    head: u64,
    _held: Option<Locked<'a>>,
}

impl<'a> Writing<'a> {
    #[inline(always)]
    fn new(
        ring: Ring,
        local: Local<'_>,
        span: Span<'a>,
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
        Ok(Writing { ring, span, from: tail, tail, head, _held: held })
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
        self.ring.bytes.saturating_sub(self.tail.wrapping_sub(self.head))
    }

    /// Writes a record. False if there is no room for it: then the reader knows that somebody waits.
    #[inline(always)]
    pub(super) fn push(&mut self, record: &Record, body: &[u8]) -> Result<bool> {
        let bytes = record.ring_bytes();
        if bytes > self.room() && !self.look_again(bytes)? {
            return Ok(false);
        }
        let place = self.tail % self.ring.bytes;
        match place + HEAD_BYTES + body.len() as u64 <= self.ring.bytes {
            true => {
                let words = self.span.words(FRAME_BYTES + place, HEAD_WORDS)?;
                words
                    .iter()
                    .zip(record.words())
                    .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
                self.span.write(FRAME_BYTES + place + HEAD_BYTES, body)?;
            }
            false => self.write_round(record, body)?,
        }
        self.tail = self.tail.wrapping_add(bytes);
        Ok(true)
    }

    /// Writes a record that goes round the end of the ring.
    #[inline(never)]
    fn write_round(&self, record: &Record, body: &[u8]) -> Result<()> {
        let mut words = [0; HEAD_BYTES as usize];
        for (place, word) in words.chunks_exact_mut(8).zip(record.words()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        for (at, bytes, source) in [
            (self.tail, HEAD_BYTES as usize, &words[..]),
            (self.tail.wrapping_add(HEAD_BYTES), body.len(), body),
        ] {
            for (place, range) in self.ring.pieces(at, bytes) {
                self.span.write(place, &source[range])?;
            }
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
        self.span.store(TAIL_AT, self.tail)?;
        Ok(true)
    }
}

/// Records that are being read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    ring: Ring,
    span: Span<'a>,
    at: u64,
    tail: u64,
}

impl Reading<'_> {
    /// The next record, if there is one.
    #[inline]
    pub(super) fn record(&self) -> Result<Option<Record>> {
        let there = self.tail.wrapping_sub(self.at);
        if there == 0 {
            return Ok(None);
        }
        if there < HEAD_BYTES {
            return Err(broken());
        }
        let record = Record::from_words(self.head_words()?).ok_or_else(broken)?;
        match record.body_bytes() <= self.ring.bytes && record.ring_bytes() <= there {
            true => Ok(Some(record)),
            false => Err(broken()),
        }
    }

    /// The next record, if it is a short message whose words are in one piece: a quick look, which says nothing of all others.
    #[inline(always)]
    pub(super) fn short(&self) -> Option<Record> {
        let there = self.tail.wrapping_sub(self.at);
        let place = self.at % self.ring.bytes;
        if there < HEAD_BYTES || place + HEAD_BYTES > self.ring.bytes {
            return None;
        }
        let words = self.span.words(FRAME_BYTES + place, SHORT_WORDS).ok()?;
        let record = Record::short([0, 1, 2, 3].map(|at: usize| words[at].load(Ordering::Relaxed)))?;
        (record.body_bytes() <= self.ring.bytes && record.ring_bytes() <= there).then_some(record)
    }

    /// Whether nothing is there.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.tail == self.at
    }

    /// The words of the next record. Each is read once.
    #[inline]
    fn head_words(&self) -> Result<[u64; HEAD_WORDS]> {
        let mut words = [0; HEAD_WORDS];
        let place = self.at % self.ring.bytes;
        if place + HEAD_BYTES <= self.ring.bytes {
            let there = self.span.words(FRAME_BYTES + place, HEAD_WORDS)?;
            words.iter_mut().zip(there).for_each(|(word, there)| *word = there.load(Ordering::Relaxed));
            return Ok(words);
        }
        let mut bytes = [0; HEAD_BYTES as usize];
        self.copy_out(self.at, &mut bytes)?;
        for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*place);
        }
        Ok(words)
    }

    /// Copies the beginning of the body of the next record.
    pub(super) fn body(&self, into: &mut [u8]) -> Result<()> {
        self.copy_out(self.at.wrapping_add(HEAD_BYTES), into)
    }

    /// Goes on behind a record. How far that is.
    pub(super) fn skip(&mut self, record: &Record) -> u64 {
        self.at = self.at.wrapping_add(record.ring_bytes());
        self.at
    }

    #[inline]
    fn copy_out(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let place = at % self.ring.bytes;
        if place + into.len() as u64 <= self.ring.bytes {
            return self.span.read(FRAME_BYTES + place, into);
        }
        for (place, range) in self.ring.pieces(at, into.len()) {
            self.span.read(place, &mut into[range])?;
        }
        Ok(())
    }
}
