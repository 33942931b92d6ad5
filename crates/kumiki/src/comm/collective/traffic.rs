//! What goes out of the memory of a member and what comes into it while two members exchange something.

use super::operation::{Aligned, Reduction};
use std::ops::Range;

/// What is sent, and where goes what is received.
pub(super) trait Traffic {
    /// Bytes that go out.
    fn out_bytes(&self) -> usize;

    /// Bytes that come in.
    fn in_bytes(&self) -> usize;

    /// The bytes that go out from a place: at most so many, and fewer where they do not lie together.
    fn out(&self, at: usize, most: usize) -> &[u8];

    /// Takes bytes that came for a place.
    fn take(&mut self, at: usize, bytes: &[u8]);

    /// Whether what comes goes where something must have gone out from.
    fn keeps_pace(&self) -> bool {
        false
    }
}

/// Bytes out of one memory and into another.
pub(super) struct Bytes<'a> {
    pub(super) out: &'a [u8],
    pub(super) into: &'a mut [u8],
}

impl Traffic for Bytes<'_> {
    fn out_bytes(&self) -> usize {
        self.out.len()
    }

    fn in_bytes(&self) -> usize {
        self.into.len()
    }

    fn out(&self, at: usize, most: usize) -> &[u8] {
        &self.out[at..at + most]
    }

    fn take(&mut self, at: usize, bytes: &[u8]) {
        self.into[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Pieces of one memory, some of which go out and some of which come in.
pub(super) struct Pieces<'a> {
    pub(super) memory: &'a mut [u8],
    pub(super) out: &'a [Range<usize>],
    pub(super) into: &'a [Range<usize>],
    /// Whether pieces come in where others go out from.
    pub(super) same: bool,
}

/// Where a byte of a list of pieces is, and how many follow it in its piece.
fn find(pieces: &[Range<usize>], mut at: usize) -> (usize, usize) {
    for piece in pieces {
        if at < piece.len() {
            return (piece.start + at, piece.len() - at);
        }
        at -= piece.len();
    }
    (0, 0)
}

impl Traffic for Pieces<'_> {
    fn out_bytes(&self) -> usize {
        self.out.iter().map(Range::len).sum()
    }

    fn in_bytes(&self) -> usize {
        self.into.iter().map(Range::len).sum()
    }

    fn out(&self, at: usize, most: usize) -> &[u8] {
        let (start, bytes) = find(self.out, at);
        &self.memory[start..start + bytes.min(most)]
    }

    fn take(&mut self, mut at: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (start, room) = find(self.into, at);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.memory[start..start + now.len()].copy_from_slice(now);
            at += now.len();
            bytes = later;
        }
    }

    fn keeps_pace(&self) -> bool {
        self.same
    }
}

/// Elements of one memory, some of which go out, and some of which are combined with what comes. Ranges are of bytes.
pub(super) struct Merge<'a> {
    data: &'a mut [u8],
    out: Range<usize>,
    into: Range<usize>,
    reduction: Reduction<'a>,
    others_first: bool,
    come: Come,
}

/// How far what comes has been combined.
#[derive(Debug, Default)]
pub(super) struct Come {
    /// What has come and was not combined: a part of an element.
    waiting: Aligned,
    done: usize,
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        data: &'a mut [u8],
        [out, into]: [Range<usize>; 2],
        reduction: Reduction<'a>,
        others_first: bool,
    ) -> Self {
        Merge { data, out, into, reduction, others_first, come: Come::default() }
    }

    /// The same, where so much has come before.
    pub(super) fn go_on(self, come: Come) -> Self {
        Merge { come, ..self }
    }

    /// How far it is.
    pub(super) fn pause(self) -> Come {
        self.come
    }
}

impl Traffic for Merge<'_> {
    fn out_bytes(&self) -> usize {
        self.out.len()
    }

    fn in_bytes(&self) -> usize {
        self.into.len()
    }

    fn out(&self, at: usize, most: usize) -> &[u8] {
        &self.data[self.out.clone()][at..at + most]
    }

    fn take(&mut self, _: usize, bytes: &[u8]) {
        let Come { waiting: kept, done } = &mut self.come;
        let before = kept.bytes().len();
        kept.resize(before + bytes.len());
        let waiting = kept.bytes_mut();
        waiting[before..].copy_from_slice(bytes);
        let whole = waiting.len() / self.reduction.element.max(1) * self.reduction.element;
        let start = self.into.start + *done;
        (self.reduction.merge)(&mut self.data[start..start + whole], &waiting[..whole], self.others_first);
        *done += whole;
        let left = waiting.len() - whole;
        waiting.copy_within(whole.., 0);
        kept.resize(left);
    }

    fn keeps_pace(&self) -> bool {
        self.out.start < self.into.end && self.into.start < self.out.end
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::{merge, Sum};
    use super::*;

    #[test]
    fn elements_that_come_in_parts_are_combined_when_they_are_whole() {
        let mut data = [1u32, 10, 100, 1000];
        let came: Vec<u8> = bytemuck::cast_slice(&[5u32, 6]).to_vec();
        let sum = |into: &mut [u8], others: &[u8], first: bool| merge::<u32>(&Sum, into, others, first);
        let reduction = Reduction::of::<u32, _>(&Sum, &sum);
        let memory = bytemuck::cast_slice_mut(&mut data);
        let mut traffic = Merge::new(memory, [0..4, 4..12], reduction, false);
        assert!((traffic.out_bytes(), traffic.in_bytes(), traffic.keeps_pace()) == (4, 8, false));
        for (at, bytes) in [(0, &came[..3]), (3, &came[3..7]), (7, &came[7..])] {
            traffic.take(at, bytes);
        }
        assert_eq!(data, [1, 15, 106, 1000]);
    }

    #[test]
    fn pieces_go_out_and_come_in_where_they_are() {
        let mut memory: Vec<u8> = (0..10).collect();
        let mut traffic =
            Pieces { memory: &mut memory, out: &[8..10, 0..1], into: &[3..4, 6..8], same: false };
        assert_eq!((traffic.out(0, 3), traffic.out(2, 1)), (&[8, 9][..], &[0][..]));
        traffic.take(0, &[50, 51]);
        traffic.take(2, &[52]);
        assert_eq!(memory, [0, 1, 2, 50, 4, 5, 51, 52, 8, 9]);
    }
}
