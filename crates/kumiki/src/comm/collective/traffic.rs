//! What goes out of the memory of a member and what comes into it while two members exchange something.

use super::operation::{Aligned, Reduction};
use std::ops::Range;

/// Bytes that do not lie together and are sent together all the same; booked with the group.
pub(super) const GATHERED_BYTES: usize = 2048;

/// What is sent, and where goes what is received.
pub(super) trait Traffic {
    /// Bytes that go out.
    fn out_bytes(&self) -> usize;

    /// Bytes that come in.
    fn in_bytes(&self) -> usize;

    /// The bytes that go out from a place: at most so many. If they do not lie together they are gathered, and may be fewer.
    fn out<'a>(&'a self, at: usize, most: usize, gathered: &'a mut Vec<u8>) -> &'a [u8];

    /// Takes bytes that came for a place.
    fn take(&mut self, at: usize, bytes: &[u8]);

    /// Where bytes that come for a place go as they are, if that is one piece of memory.
    fn place(&mut self, _at: usize, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

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

    fn out<'a>(&'a self, at: usize, most: usize, _: &'a mut Vec<u8>) -> &'a [u8] {
        &self.out[at..at + most]
    }

    fn take(&mut self, at: usize, bytes: &[u8]) {
        self.into[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn place(&mut self, at: usize, bytes: usize) -> Option<&mut [u8]> {
        self.into.get_mut(at..at + bytes)
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

/// The ranges behind a byte of a list of pieces, those that touch each other as one.
fn behind(pieces: &[Range<usize>], mut at: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut next = 0;
    while pieces.get(next).is_some_and(|piece| at >= piece.len()) {
        at -= pieces[next].len();
        next += 1;
    }
    std::iter::from_fn(move || {
        let mut run = pieces.get(next)?.clone();
        run.start += std::mem::take(&mut at);
        next += 1;
        while let Some(piece) = pieces.get(next).filter(|piece| piece.start == run.end) {
            run.end = piece.end;
            next += 1;
        }
        Some(run)
    })
}

impl Traffic for Pieces<'_> {
    fn out_bytes(&self) -> usize {
        self.out.iter().map(Range::len).sum()
    }

    fn in_bytes(&self) -> usize {
        self.into.iter().map(Range::len).sum()
    }

    fn out<'a>(&'a self, at: usize, most: usize, gathered: &'a mut Vec<u8>) -> &'a [u8] {
        let run = behind(self.out, at).next().unwrap_or_default();
        let enough = most.min(GATHERED_BYTES);
        if run.len() >= enough {
            return &self.memory[run.start..run.start + run.len().min(most)];
        }
        gathered.clear();
        for run in behind(self.out, at) {
            let room = enough - gathered.len();
            gathered.extend_from_slice(&self.memory[run.start..run.start + run.len().min(room)]);
            if gathered.len() == enough {
                break;
            }
        }
        gathered
    }

    fn take(&mut self, at: usize, mut bytes: &[u8]) {
        for run in behind(self.into, at) {
            let (now, later) = bytes.split_at(run.len().min(bytes.len()));
            self.memory[run.start..run.start + now.len()].copy_from_slice(now);
            bytes = later;
            if bytes.is_empty() {
                break;
            }
        }
    }

    fn place(&mut self, at: usize, bytes: usize) -> Option<&mut [u8]> {
        let run = behind(self.into, at).next().filter(|run| run.len() >= bytes)?;
        self.memory.get_mut(run.start..run.start + bytes)
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

    fn out<'a>(&'a self, at: usize, most: usize, _: &'a mut Vec<u8>) -> &'a [u8] {
        &self.data[self.out.clone()][at..at + most]
    }

    fn take(&mut self, _: usize, bytes: &[u8]) {
        let Come { waiting: kept, done } = &mut self.come;
        let before = kept.bytes().len();
        if before == 0 && bytes.len().is_multiple_of(self.reduction.element.max(1)) {
            let start = self.into.start + *done;
            *done += bytes.len();
            return (self.reduction.merge)(
                &mut self.data[start..start + bytes.len()],
                bytes,
                self.others_first,
            );
        }
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
            Pieces { memory: &mut memory, out: &[8..10, 0..1, 1..2], into: &[3..4, 6..8], same: false };
        let out = |at, most| traffic.out(at, most, &mut Vec::new()).to_vec();
        assert_eq!(
            [out(0, 4), out(0, 2), out(1, 2), out(2, 2)],
            [vec![8, 9, 0, 1], vec![8, 9], vec![9, 0], vec![0, 1]]
        );
        traffic.take(0, &[50, 51]);
        traffic.take(2, &[52]);
        assert_eq!(memory, [0, 1, 2, 50, 4, 5, 51, 52, 8, 9]);
    }
}
