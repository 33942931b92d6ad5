//! What one rank leaves for another: a few words, and behind them the bytes of a short message, or which registration a long one has.

use super::matching::Envelope;
use super::ring::Ring;
use super::EAGER_BYTES;
use crate::{Error, GlobalAddress, Result};
use kumiki_mem::codec::{Reader, Writer};
use kumiki_mem::Local;

/// Words before the bytes, at most.
pub(super) const HEAD_WORDS: usize = 6;
pub(super) const HEAD_BYTES: u64 = 8 * HEAD_WORDS as u64;
/// Those of a short message: with eight bytes it is half a cache line.
pub(super) const SHORT_WORDS: usize = 3;
/// Bytes behind the words of a message that is lent: the registration of its memory, which tells it from what lies there later.
pub(super) const LENT_BYTES: u64 = 8;

/// A record without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) from: u32,
    /// Whoever sent it can send no more until it hears that some were received.
    pub(super) hungry: bool,
    pub(super) note: Note,
}

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Note {
    /// A message, whose bytes are behind it.
    Short { context: u32, tag: u64, bytes: u64 },
    /// A message that lies in memory of its sender until it was fetched, and its number there.
    Lent { context: u32, tag: u64, bytes: u64, place: GlobalAddress, number: u64 },
    /// So many messages that came through the mailbox were received.
    Received { count: u64 },
    /// A message that was lent has been fetched, or is not wanted.
    Fetched { number: u64 },
    /// A lane for whoever reads this.
    Offer { lane: GlobalAddress, bytes: u64 },
    /// The next messages come in this lane…
    Begin { lane: GlobalAddress },
    /// …until this, which stands in the lane.
    End,
    /// Whoever reads this shall leave the lane.
    Leave { lane: GlobalAddress },
    /// How far a lane of another node was read.
    Room { lane: GlobalAddress, head: u64 },
    /// Whoever sends this waits for a message, and is to be told when none comes any more…
    Awaits,
    /// …by this.
    Gone,
}

const SHORT: u64 = 1;
const LENT: u64 = 2;
const RECEIVED: u64 = 3;
const FETCHED: u64 = 4;
const OFFER: u64 = 5;
const BEGIN: u64 = 6;
const END: u64 = 7;
const LEAVE: u64 = 8;
const ROOM: u64 = 9;
const AWAITS: u64 = 10;
const GONE: u64 = 11;
const HUNGRY: u64 = 1 << 8;
/// Where the length of a short message is beside its kind: none is longer than a ring.
const SHORT_BYTES_AT: u32 = 32;

/// How many words a record has, as the first of them says.
#[inline(always)]
pub(super) fn words_of(first: u64) -> usize {
    if first & 0xff == SHORT {
        SHORT_WORDS
    } else {
        HEAD_WORDS
    }
}

impl Record {
    /// The words: kind and flags, which are never zero; who and context, tag, and three more that a short message [has not](words_of).
    #[inline(always)]
    pub(super) fn words(&self) -> [u64; HEAD_WORDS] {
        let place = |lane: GlobalAddress| lane.bits();
        let (kind, context, tag, bytes, one, two) = match self.note {
            Note::Short { context, tag, bytes } => (SHORT | bytes << SHORT_BYTES_AT, context, tag, 0, 0, 0),
            Note::Lent { context, tag, bytes, place, number } => {
                (LENT, context, tag, bytes, place.bits(), number)
            }
            Note::Received { count } => (RECEIVED, 0, 0, 0, count, 0),
            Note::Fetched { number } => (FETCHED, 0, 0, 0, 0, number),
            Note::Offer { lane, bytes } => (OFFER, 0, 0, bytes, place(lane), 0),
            Note::Begin { lane } => (BEGIN, 0, 0, 0, place(lane), 0),
            Note::End => (END, 0, 0, 0, 0, 0),
            Note::Leave { lane } => (LEAVE, 0, 0, 0, place(lane), 0),
            Note::Room { lane, head } => (ROOM, 0, 0, 0, place(lane), head),
            Note::Awaits => (AWAITS, 0, 0, 0, 0, 0),
            Note::Gone => (GONE, 0, 0, 0, 0, 0),
        };
        let flags = if self.hungry { HUNGRY } else { 0 };
        [kind | flags, u64::from(self.from) | u64::from(context) << 32, tag, bytes, one, two]
    }

    /// The record of such words; nothing if there is none.
    pub(super) fn from_words([kind, who, tag, bytes, one, two]: [u64; HEAD_WORDS]) -> Option<Record> {
        let (from, context) = (who as u32, (who >> 32) as u32);
        let place = GlobalAddress::from_bits(one);
        let note = match kind & 0xff {
            SHORT => Note::Short { context, tag, bytes: kind >> SHORT_BYTES_AT },
            LENT => Note::Lent { context, tag, bytes, place, number: two },
            RECEIVED => Note::Received { count: one },
            FETCHED => Note::Fetched { number: two },
            OFFER => Note::Offer { lane: place, bytes },
            BEGIN => Note::Begin { lane: place },
            END => Note::End,
            LEAVE => Note::Leave { lane: place },
            ROOM => Note::Room { lane: place, head: two },
            AWAITS => Note::Awaits,
            GONE => Note::Gone,
            _ => return None,
        };
        Some(Record { from, hungry: kind & HUNGRY != 0, note })
    }

    /// The record of such words, if it is a short message without anything else to say.
    #[inline(always)]
    pub(super) fn short([kind, who, tag]: [u64; SHORT_WORDS]) -> Option<Record> {
        let note = Note::Short { context: (who >> 32) as u32, tag, bytes: kind >> SHORT_BYTES_AT };
        (u64::from(kind as u32) == SHORT).then_some(Record { from: who as u32, hungry: false, note })
    }

    /// Bytes of its words.
    #[inline(always)]
    pub(super) fn head_bytes(&self) -> u64 {
        match self.note {
            Note::Short { .. } => 8 * SHORT_WORDS as u64,
            _ => HEAD_BYTES,
        }
    }

    /// Bytes that stand behind it.
    #[inline(always)]
    pub(super) fn body_bytes(&self) -> u64 {
        match self.note {
            Note::Short { bytes, .. } => bytes,
            Note::Lent { .. } => LENT_BYTES,
            _ => 0,
        }
    }

    /// Bytes that it takes in a ring. Its body must not be longer than a ring can be.
    #[inline(always)]
    pub(super) fn ring_bytes(&self) -> u64 {
        self.head_bytes() + self.body_bytes().next_multiple_of(8)
    }

    /// The message that it is, if it is one.
    pub(super) fn envelope(&self) -> Option<Envelope> {
        match self.note {
            Note::Short { context, tag, bytes } | Note::Lent { context, tag, bytes, .. } => {
                Some(Envelope { context, source: self.from, tag, bytes })
            }
            _ => None,
        }
    }

    /// Whether its sender may leave it in a mailbox, and can have what it speaks of.
    pub(super) fn can_be_mailed(&self, local: Local<'_>) -> bool {
        match self.note {
            Note::End => false,
            Note::Lent { place, .. } => local.rank_of(place) == self.from,
            Note::Offer { lane, bytes } => {
                let ring = Ring::new(lane, bytes).ok();
                local.rank_of(lane) == self.from
                    && ring.is_some_and(|ring| ring.longest_body() >= EAGER_BYTES)
            }
            _ => true,
        }
    }

    pub(super) fn write(&self, request: Writer, body: &[u8]) -> Writer {
        let words = self.words();
        words[..words_of(words[0])].iter().copied().fold(request, Writer::long).bytes(body)
    }

    /// Reads one of a rank out of a request.
    pub(super) fn read<'a>(from: u32, request: &mut Reader<'a>) -> Result<(Record, &'a [u8])> {
        let mut words = [0; HEAD_WORDS];
        words[0] = request.long()?;
        let count = words_of(words[0]);
        for word in &mut words[1..count] {
            *word = request.long()?;
        }
        let body = request.bytes()?;
        let record = Record::from_words(words).map(|record| Record { from, ..record });
        match record.filter(|record| record.body_bytes() == body.len() as u64) {
            Some(record) => Ok((record, body)),
            None => Err(Error::Misuse("a message that cannot be".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_read_as_it_was_written_and_none_other_is() {
        let lane = GlobalAddress::from_bits(0x1234_5678);
        let notes = [
            Note::Short { context: 7, tag: u64::MAX, bytes: 3 },
            Note::Lent { context: 7, tag: 1, bytes: 1 << 40, place: lane, number: 9 },
            Note::Received { count: 4 },
            Note::Fetched { number: u64::MAX },
            Note::Offer { lane, bytes: 2880 },
            Note::Begin { lane },
            Note::End,
            Note::Leave { lane },
            Note::Room { lane, head: 77 },
            Note::Awaits,
            Note::Gone,
        ];
        for (note, hungry) in notes.into_iter().zip([true, false].into_iter().cycle()) {
            let record = Record { from: 5, hungry, note };
            assert_eq!(Record::from_words(record.words()), Some(record));
            let body = vec![1; record.body_bytes() as usize];
            let request = record.write(Writer::new(0), &body).finish();
            let read = Record::read(6, &mut Reader::new(&request[1..])).unwrap();
            assert_eq!(read, (Record { from: 6, ..record }, &body[..]), "whoever asks is who it is from");
            for cut in 1..request.len() {
                assert!(Record::read(6, &mut Reader::new(&request[1..cut])).is_err());
            }
        }
        assert_eq!(Record::from_words([0; 6]), None);
        assert_eq!(Record::from_words([12, 0, 0, 0, 0, 0]), None);
        let long = Record { from: 0, hungry: false, note: Note::Short { context: 0, tag: 0, bytes: 9 } };
        let request = long.write(Writer::new(0), &[0; 8]).finish();
        assert!(
            Record::read(0, &mut Reader::new(&request[1..])).is_err(),
            "its body is shorter than it says"
        );
    }
}
