//! One direction of a stream in files: where which bytes lie, how they are told from what is not there yet, and when those go who have been
//! read. Values, without I/O and clock.
//!
//! A track is cut into segments of one length, a file each. In them records lie one behind the other: how long it is, a checksum of that, of its place and of
//! its bytes, and the bytes. A file may show a length before it shows what was written, or a part of it, or a hole: a record counts when its checksum is right, and until then
//! it is not there yet. So whoever dies while it writes leaves nothing that is believed.

#![forbid(unsafe_code)]

use crate::wire::frame::{checksum, checksum_more};

/// Bytes before those of a record.
pub const HEAD_BYTES: usize = 8;
/// A rest of a segment that is shorter stays empty.
const LEAST_BYTES: u64 = HEAD_BYTES as u64 + 1;

/// A place of a track: in which segment, and where there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// The number of the segment.
    pub segment: u64,
    /// The place in it.
    pub at: u64,
}

/// How a track is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut(u64);

impl Cut {
    /// Segments of so many bytes; `None` if that is no good length.
    pub fn new(segment_bytes: u64) -> Option<Cut> {
        ((1 << 12)..=(1 << 30)).contains(&segment_bytes).then_some(Cut(segment_bytes))
    }

    /// Bytes of a segment.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// The place of the next record, if the last ended here.
    fn next(self, place: Place) -> Place {
        match self.0.saturating_sub(place.at) < LEAST_BYTES {
            true => Place { segment: place.segment.saturating_add(1), at: 0 },
            false => place,
        }
    }

    /// Bytes of the track before a place.
    pub fn position(self, place: Place) -> u64 {
        place.segment.saturating_mul(self.0).saturating_add(place.at)
    }

    /// The place behind so many bytes of the track.
    pub fn place(self, position: u64) -> Place {
        Place { segment: position / self.0, at: position % self.0 }
    }
}

/// The end at which bytes are written.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    cut: Cut,
    place: Place,
}

impl Writing {
    /// From the beginning of a track.
    pub fn new(cut: Cut) -> Writing {
        Writing { cut, place: Place::default() }
    }

    /// Where the next record goes, and how many bytes it may hold.
    pub fn next(&self) -> (Place, usize) {
        let place = self.cut.next(self.place);
        (place, (self.cut.0 - place.at) as usize - HEAD_BYTES)
    }

    /// The head of a record of these bytes, which is written at its place with them behind it.
    pub fn seal(&mut self, bytes: &[u8]) -> [u8; HEAD_BYTES] {
        let (place, _) = self.next();
        let head = head(self.cut.position(place), bytes);
        self.place = Place { at: place.at + (HEAD_BYTES + bytes.len()) as u64, ..place };
        head
    }

    /// Bytes of the track so far.
    pub fn position(&self) -> u64 {
        self.cut.position(self.place)
    }
}

/// The end at which they are read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    cut: Cut,
    place: Place,
}

impl Reading {
    /// From the beginning of a track.
    pub fn new(cut: Cut) -> Reading {
        Reading { cut, place: Place::default() }
    }

    /// Where the next record is looked for.
    pub fn next(&self) -> Place {
        self.cut.next(self.place)
    }

    /// The bytes of the next record, if `found`, which was read at its place, holds it whole.
    pub fn open<'a>(&mut self, found: &'a [u8]) -> Option<&'a [u8]> {
        let place = self.next();
        let (said, rest) = found.split_first_chunk::<HEAD_BYTES>()?;
        let length = u32::from_le_bytes([said[0], said[1], said[2], said[3]]) as usize;
        // A hole is no record.
        let bytes = rest.get(..length).filter(|bytes| !bytes.is_empty())?;
        if place.at + (HEAD_BYTES + length) as u64 > self.cut.0
            || head(self.cut.position(place), bytes) != *said
        {
            return None;
        }
        self.place = Place { at: place.at + (HEAD_BYTES + length) as u64, ..place };
        Some(bytes)
    }

    /// How long the record is that begins here, if it is one: so many bytes must be read to open it.
    pub fn needs(&self, found: &[u8]) -> Option<usize> {
        let said = found.first_chunk::<4>()?;
        let length = u64::from(u32::from_le_bytes(*said));
        let room = self.cut.0 - self.next().at;
        (length > 0 && length + HEAD_BYTES as u64 <= room).then_some(length as usize + HEAD_BYTES)
    }

    /// Bytes of the track so far.
    pub fn position(&self) -> u64 {
        self.cut.position(self.place)
    }
}

fn head(position: u64, bytes: &[u8]) -> [u8; HEAD_BYTES] {
    let length = (bytes.len() as u32).to_le_bytes();
    let sum = checksum_more(checksum(&[&position.to_le_bytes()[..], &length].concat()), bytes);
    // What follows a hole in a file is zero, and must not be right by chance.
    let sum = (sum ^ 0x6b75_6d69).to_le_bytes();
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&length);
    head[4..].copy_from_slice(&sum);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Segments = BTreeMap<u64, Vec<u8>>;

    fn write(segments: &mut Segments, writing: &mut Writing, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (place, room) = writing.next();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            let head = writing.seal(now);
            let segment = segments.entry(place.segment).or_default();
            assert!(segment.len() as u64 <= place.at);
            segment.resize(place.at as usize, 0);
            segment.extend(head);
            segment.extend(now);
            bytes = later;
        }
    }

    proptest! {
        /// Whatever is written comes out in its order, and no more of it than is there.
        #[test]
        fn what_is_written_is_read(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..3000), 1..20),
            holes in proptest::collection::vec((any::<u16>(), 1..200usize), 0..4),
        ) {
            let cut = Cut::new(4096).unwrap();
            let (mut segments, mut writing, mut reading) = (Segments::new(), Writing::new(cut), Reading::new(cut));
            let all = pieces.concat();
            pieces.iter().for_each(|piece| write(&mut segments, &mut writing, piece));
            // Some of it is not to be seen at first.
            let mut seen = segments.clone();
            for (at, length) in holes {
                let Place { segment, at } = cut.place(u64::from(at) % writing.position());
                let bytes = seen.get_mut(&segment).unwrap();
                let at = (at as usize).min(bytes.len());
                let end = (at + length).min(bytes.len());
                bytes[at..end].fill(0);
            }
            let mut came = Vec::new();
            for shown in [seen, segments] {
                loop {
                    let place = reading.next();
                    let Some(found) = shown.get(&place.segment).and_then(|bytes| bytes.get(place.at as usize..)) else { break };
                    let Some(bytes) = reading.open(found) else { break };
                    came.extend_from_slice(bytes);
                    prop_assert!(all.starts_with(&came));
                }
            }
            prop_assert_eq!(came, all);
            prop_assert_eq!(reading.position(), writing.position());
        }

        #[test]
        fn any_bytes_are_a_record_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..100), segment in 0..9u64) {
            let mut reading = Reading { cut: Cut::new(4096).unwrap(), place: Place { segment, at: 4000 } };
            let _ = reading.needs(&bytes);
            prop_assert_eq!(reading.open(&bytes), None);
        }
    }

    #[test]
    fn a_record_is_good_at_its_own_place_only() {
        let cut = Cut::new(4096).unwrap();
        let (mut segments, mut writing) = (Segments::new(), Writing::new(cut));
        write(&mut segments, &mut writing, b"one");
        write(&mut segments, &mut writing, b"two");
        let bytes = &segments[&0];
        let mut reading = Reading::new(cut);
        assert_eq!(reading.open(&bytes[11..]), None);
        assert_eq!(reading.open(bytes), Some(&b"one"[..]));
        assert_eq!((reading.needs(&bytes[11..]), reading.needs(&[0; 20])), (Some(11), None));
        assert_eq!(reading.open(&bytes[11..]), Some(&b"two"[..]));
        assert!(Cut::new(100).is_none() && Cut::new(1 << 40).is_none());
    }
}
