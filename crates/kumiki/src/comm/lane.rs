//! A lane: a ring of cells from one rank to another, in the memory of the one that receives.
//!
//! The sender writes cells and then the tail, the receiver reads cells and then moves the head: neither needs a lock. On a node both do it
//! with loads and stores, and wake each other; from another node cells come in a request, and the owner's side writes them. The sender
//! has a few words of its own, a [`Stub`], where the receiver tells a sender of another node how far it has come, and any sender which of
//! the messages that lie in memory of the sender it has fetched. The last that it tells is that it writes there no more.
//!
//! What is read of a lane or a stub may have been written by anybody who is in the job: every number is checked before it is used. A SIGKILL
//! leaves cells behind the tail that nobody reads.

use crate::{Error, GlobalAddress, Result};
use kumiki_mem::codec::{Reader, Writer};
use kumiki_mem::{Local, Span};
use std::sync::atomic::Ordering;

const MAGIC_AT: u64 = 0;
const FROM_AT: u64 = 8;
const SLOTS_AT: u64 = 16;
const SLOT_BYTES_AT: u64 = 24;
/// Written by the sender…
const TAIL_AT: u64 = 64;
const HUNGRY_AT: u64 = 72;
const BROKEN_AT: u64 = 80;
/// …and by the receiver: in lines of their own.
const HEAD_AT: u64 = 128;
const CELLS_AT: u64 = 192;
const MAGIC: u64 = u64::from_le_bytes(*b"lane\0\0\0\x01");

const PEER_AT: u64 = 8;
const CREDIT_AT: u64 = 16;
const FETCHED_AT: u64 = 24;
const CLOSED_AT: u64 = 32;
const STUB_MAGIC: u64 = u64::from_le_bytes(*b"stub\0\0\0\x01");
/// Bytes of a stub.
pub(crate) const STUB_BYTES: u64 = 40;

/// The most cells of a lane, and bytes of a cell.
pub(crate) const MOST_SLOTS: u64 = 1 << 16;
pub(crate) const LARGEST_SLOT: u64 = 1 << 20;
/// The most bytes of a lane: from another node all cells may come in one request.
const LARGEST_LANE: u64 = 8 << 20;

/// What a cell holds: the upper byte of its header; the rest is a number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell {
    /// The beginning of a message of so many bytes.
    First(u64),
    /// So many bytes more of it.
    More(u64),
    /// Where a message of so many bytes lies in memory of the sender.
    Fetch(u64),
    /// Nothing comes any more.
    End,
}

const LENGTH_BITS: u32 = 56;
const LENGTH: u64 = (1 << LENGTH_BITS) - 1;

impl Cell {
    fn word(self) -> u64 {
        let (kind, length) = match self {
            Cell::First(bytes) => (1, bytes),
            Cell::More(bytes) => (2, bytes),
            Cell::Fetch(bytes) => (3, bytes),
            Cell::End => (4, 0),
        };
        kind << LENGTH_BITS | length & LENGTH
    }

    fn from_word(word: u64) -> Option<Cell> {
        let bytes = word & LENGTH;
        match word >> LENGTH_BITS {
            1 => Some(Cell::First(bytes)),
            2 => Some(Cell::More(bytes)),
            3 => Some(Cell::Fetch(bytes)),
            4 => Some(Cell::End),
            _ => None,
        }
    }
}

fn broken() -> Error {
    Error::Refused("the memory of a channel holds what neither of its ends writes".into())
}

/// Where a lane is, and its measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lane {
    pub(crate) address: GlobalAddress,
    pub(crate) slots: u64,
    pub(crate) slot_bytes: u64,
}

impl Lane {
    /// Fails if there cannot be such a lane.
    pub(crate) fn new(address: GlobalAddress, slots: u64, slot_bytes: u64) -> Result<Lane> {
        let possible = (1..=MOST_SLOTS).contains(&slots) && (16..=LARGEST_SLOT).contains(&slot_bytes);
        let lane = Lane { address, slots, slot_bytes };
        match possible && lane.bytes() <= LARGEST_LANE {
            true => Ok(lane),
            false => Err(Error::Misuse(format!(
                "a channel of {slots} slots of {slot_bytes} bytes: at most {MOST_SLOTS} slots of 16 to {LARGEST_SLOT} bytes, \
                 and {LARGEST_LANE} bytes in all"
            ))),
        }
    }

    fn stride(self) -> u64 {
        8 + self.slot_bytes.next_multiple_of(8)
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(self) -> u64 {
        CELLS_AT + self.slots * self.stride()
    }

    fn span(self, local: Local<'_>) -> Result<Span<'_>> {
        local.span(self.address, self.bytes())
    }

    fn cell_at(self, index: u64) -> u64 {
        CELLS_AT + index % self.slots * self.stride()
    }

    /// Lays out a block of this rank for a sender.
    pub(crate) fn lay_out(self, local: Local<'_>, from: u32) -> Result<()> {
        let span = self.span(local)?;
        span.clear(0, CELLS_AT)?;
        span.store(FROM_AT, from.into())?;
        span.store(SLOTS_AT, self.slots)?;
        span.store(SLOT_BYTES_AT, self.slot_bytes)?;
        span.word(MAGIC_AT)?.store(MAGIC, Ordering::Release);
        Ok(())
    }

    /// Nothing is a lane any more.
    pub(crate) fn raze(self, local: Local<'_>) -> Result<()> {
        self.span(local)?.store(MAGIC_AT, 0)
    }

    // ---- the sender, on the node ----

    /// How many cells the receiver has taken.
    pub(crate) fn head(self, local: Local<'_>) -> Result<u64> {
        Ok(self.span(local)?.word(HEAD_AT)?.load(Ordering::Acquire))
    }

    /// Writes the cells of a part of a message, from the cell `first` on, for which there is room.
    pub(crate) fn write(self, local: Local<'_>, first: u64, part: Part<'_>) -> Result<()> {
        let span = self.span(local)?;
        if span.load(MAGIC_AT)? != MAGIC {
            return Err(Error::Closed("the other end of the channel is gone".into()));
        }
        for (index, (cell, bytes)) in (first..).zip(part.cells(self.slot_bytes)) {
            self.write_cell(span, index, cell.word(), bytes)?;
        }
        span.word(TAIL_AT)?.store(first + part.cell_count(self.slot_bytes), Ordering::Release);
        Ok(())
    }

    fn write_cell(self, span: Span<'_>, index: u64, header: u64, bytes: &[u8]) -> Result<()> {
        let at = self.cell_at(index);
        span.store(at, header)?;
        span.write(at + 8, bytes)
    }

    // ---- the receiver ----

    /// Whether the sender has failed, and nothing comes behind what has come.
    pub(crate) fn is_broken(self, local: Local<'_>) -> Result<bool> {
        Ok(self.span(local)?.word(BROKEN_AT)?.load(Ordering::Acquire) != 0)
    }

    /// Says that the sender has failed.
    pub(crate) fn break_off(self, local: Local<'_>) -> Result<()> {
        self.span(local)?.word(BROKEN_AT)?.store(1, Ordering::Release);
        Ok(())
    }

    /// The request that says it.
    pub(crate) fn break_request(self, code: u8) -> Vec<u8> {
        Writer::new(code).long(self.address.bits()).finish()
    }

    /// Does what it says.
    pub(crate) fn serve_break(local: Local<'_>, from: u32, request: &mut Reader<'_>) -> Result<()> {
        Lane::of_sender(local, from, GlobalAddress::from_bits(request.long()?))?.break_off(local)
    }

    /// A lane of this rank, if it is one, and of that sender.
    fn of_sender(local: Local<'_>, from: u32, address: GlobalAddress) -> Result<Lane> {
        let head = local.span(address, CELLS_AT)?;
        if local.rank_of(address) != local.rank() || head.load(MAGIC_AT)? != MAGIC {
            return Err(Error::Closed("the other end of the channel is gone".into()));
        }
        if head.load(FROM_AT)? != u64::from(from) {
            return Err(Error::Misuse("a channel of another sender".into()));
        }
        Lane::new(address, head.load(SLOTS_AT)?, head.load(SLOT_BYTES_AT)?)
    }

    /// How many cells have come.
    pub(crate) fn tail(self, local: Local<'_>) -> Result<u64> {
        Ok(self.span(local)?.word(TAIL_AT)?.load(Ordering::Acquire))
    }

    /// What the cell behind so many that were taken holds, if it has come.
    pub(crate) fn next_cell(self, local: Local<'_>, taken: u64) -> Result<Option<Cell>> {
        let span = self.span(local)?;
        match span.word(TAIL_AT)?.load(Ordering::Acquire).wrapping_sub(taken) {
            0 => return Ok(None),
            come if come > self.slots => return Err(broken()),
            _ => {}
        }
        Cell::from_word(span.load(self.cell_at(taken))?).map(Some).ok_or_else(broken)
    }

    /// What a cell that has come holds.
    pub(crate) fn cell(self, local: Local<'_>, index: u64) -> Result<Cell> {
        Cell::from_word(self.span(local)?.load(self.cell_at(index))?).ok_or_else(broken)
    }

    /// Reads bytes of a cell.
    pub(crate) fn read(self, local: Local<'_>, index: u64, into: &mut [u8]) -> Result<()> {
        if into.len() as u64 > self.slot_bytes {
            return Err(broken());
        }
        self.span(local)?.read(self.cell_at(index) + 8, into)
    }

    /// Where a message lies that is to be fetched.
    pub(crate) fn place(self, local: Local<'_>, index: u64) -> Result<GlobalAddress> {
        Ok(GlobalAddress::from_bits(self.span(local)?.load(self.cell_at(index) + 8)?))
    }

    /// Gives cells back, up to this one. Whether the sender, of another node, waits for them.
    pub(crate) fn take_up_to(self, local: Local<'_>, head: u64) -> Result<bool> {
        let span = self.span(local)?;
        span.word(HEAD_AT)?.store(head, Ordering::Release);
        Ok(span.word(HUNGRY_AT)?.load(Ordering::Relaxed) != 0)
    }

    // ---- the sender, from another node ----

    /// The request that has cells written.
    pub(crate) fn request(self, code: u8, first: u64, part: Part<'_>, hungry: bool) -> Vec<u8> {
        let start = Writer::new(code).long(self.address.bits()).long(first).flag(hungry);
        let start = start.word(part.cell_count(self.slot_bytes) as u32);
        let cells = part.cells(self.slot_bytes);
        cells.fold(start, |request, (cell, bytes)| request.long(cell.word()).bytes(bytes)).finish()
    }

    /// Does what a request of a rank says.
    pub(crate) fn serve(local: Local<'_>, from: u32, request: &mut Reader<'_>) -> Result<()> {
        let address = GlobalAddress::from_bits(request.long()?);
        let (first, hungry, count) = (request.long()?, request.flag()?, request.word()?);
        let lane = Lane::of_sender(local, from, address)?;
        let (span, taken) = (lane.span(local)?, lane.head(local)?);
        let room = lane.slots.checked_sub(first.wrapping_sub(taken)).ok_or_else(broken)?;
        if lane.tail(local)? != first || u64::from(count) > room {
            return Err(Error::Misuse("cells for a channel that cannot be of its sender".into()));
        }
        for index in (first..).take(count as usize) {
            let header = request.long()?;
            let bytes = request.bytes()?;
            if bytes.len() as u64 > lane.slot_bytes {
                return Err(Error::Misuse("a cell that is longer than its slot".into()));
            }
            lane.write_cell(span, index, header, bytes)?;
        }
        // Before the tail: whoever sees that sees this.
        span.word(HUNGRY_AT)?.store(hungry.into(), Ordering::Relaxed);
        span.word(TAIL_AT)?.store(first.wrapping_add(count.into()), Ordering::Release);
        Ok(())
    }
}

/// A part of a message that is put into cells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    /// Bytes from somewhere in a message of so many.
    Bytes {
        /// Bytes of the whole message, if this is its beginning.
        whole: Option<u64>,
        bytes: &'a [u8],
    },
    /// Where a message lies.
    Fetch { place: &'a [u8; 8], bytes: u64 },
    /// Nothing more.
    End,
}

impl<'a> Part<'a> {
    pub(crate) fn cell_count(self, slot_bytes: u64) -> u64 {
        match self {
            Part::Bytes { bytes, .. } => (bytes.len() as u64).div_ceil(slot_bytes).max(1),
            Part::Fetch { .. } | Part::End => 1,
        }
    }

    fn cells(self, slot_bytes: u64) -> impl Iterator<Item = (Cell, &'a [u8])> {
        let (all, single): (&[u8], _) = match self {
            Part::Bytes { bytes, whole } if bytes.is_empty() => {
                (&[], whole.map(|whole| (Cell::First(whole), bytes)))
            }
            Part::Bytes { bytes, .. } => (bytes, None),
            Part::Fetch { place, bytes } => (&[], Some((Cell::Fetch(bytes), &place[..]))),
            Part::End => (&[], Some((Cell::End, &[][..]))),
        };
        let mut whole = match self {
            Part::Bytes { whole, .. } => whole,
            Part::Fetch { .. } | Part::End => None,
        };
        let pieces = all.chunks(slot_bytes as usize).map(move |piece| match whole.take() {
            Some(whole) => (Cell::First(whole), piece),
            None => (Cell::More(piece.len() as u64), piece),
        });
        single.into_iter().chain(pieces)
    }
}

/// The words of a sender that the receiver writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stub(pub(crate) GlobalAddress);

impl Stub {
    fn span(self, local: Local<'_>) -> Result<Span<'_>> {
        local.span(self.0, STUB_BYTES)
    }

    /// Lays out a block of this rank for a receiver.
    pub(crate) fn lay_out(self, local: Local<'_>, peer: u32) -> Result<()> {
        let span = self.span(local)?;
        span.clear(0, STUB_BYTES)?;
        span.store(PEER_AT, peer.into())?;
        span.word(MAGIC_AT)?.store(STUB_MAGIC, Ordering::Release);
        Ok(())
    }

    /// How many cells a receiver of another node has said to have taken.
    pub(crate) fn credit(self, local: Local<'_>) -> Result<u64> {
        Ok(self.span(local)?.word(CREDIT_AT)?.load(Ordering::Acquire))
    }

    /// How many messages have been fetched from memory of the sender.
    pub(crate) fn fetched(self, local: Local<'_>) -> Result<u64> {
        Ok(self.span(local)?.word(FETCHED_AT)?.load(Ordering::Acquire))
    }

    /// Whether the receiver writes here no more.
    pub(crate) fn is_closed(self, local: Local<'_>) -> Result<bool> {
        Ok(self.span(local)?.word(CLOSED_AT)?.load(Ordering::Acquire) != 0)
    }

    /// Tells the sender, on the node, how many cells were taken and messages fetched, and whether that was the last.
    pub(crate) fn tell(self, local: Local<'_>, credit: u64, fetched: u64, closed: bool) -> Result<()> {
        let span = self.span(local)?;
        span.word(CREDIT_AT)?.store(credit, Ordering::Release);
        span.word(FETCHED_AT)?.store(fetched, Ordering::Release);
        // The sender may free it all as soon as it sees this.
        span.word(CLOSED_AT)?.store(closed.into(), Ordering::Release);
        Ok(())
    }

    /// The request that tells it.
    pub(crate) fn request(self, code: u8, credit: u64, fetched: u64, closed: bool) -> Vec<u8> {
        Writer::new(code).long(self.0.bits()).long(credit).long(fetched).flag(closed).finish()
    }

    /// Does what a request of a rank says.
    pub(crate) fn serve(local: Local<'_>, from: u32, request: &mut Reader<'_>) -> Result<()> {
        let stub = Stub(GlobalAddress::from_bits(request.long()?));
        let span = stub.span(local)?;
        let is_own = local.rank_of(stub.0) == local.rank() && span.load(MAGIC_AT)? == STUB_MAGIC;
        if !is_own || span.load(PEER_AT)? != u64::from(from) {
            return Err(Error::Closed("the sender of the channel is gone".into()));
        }
        let (credit, fetched, closed) = (request.long()?, request.long()?, request.flag()?);
        stub.tell(local, credit, fetched, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    fn lane(world: &World, slots: u64, slot_bytes: u64) -> Lane {
        let sized = Lane::new(world.starter_address(0).unwrap(), slots, slot_bytes).unwrap();
        let lane = Lane { address: world.malloc(sized.bytes() as usize, 0).unwrap(), ..sized };
        lane.lay_out(world.local(), 0).unwrap();
        lane
    }

    #[test]
    fn messages_of_any_length_are_cut_into_cells_and_read_again() {
        let world = World::init().unwrap();
        let local = world.local();
        let lane = lane(&world, 8, 16);
        let mut at = 0;
        for length in [0usize, 1, 16, 17, 100, 128] {
            let message: Vec<u8> = (0..length as u8).collect();
            let part = Part::Bytes { whole: Some(length as u64), bytes: &message };
            let count = part.cell_count(16);
            assert_eq!(count, (length.div_ceil(16)).max(1) as u64);
            lane.write(local, at, part).unwrap();
            assert_eq!(lane.tail(local).unwrap(), at + count);
            let mut read = Vec::new();
            for index in at..at + count {
                let bytes = match lane.cell(local, index).unwrap() {
                    Cell::First(whole) => {
                        assert_eq!((whole, index), (length as u64, at));
                        whole.min(16)
                    }
                    Cell::More(bytes) => bytes,
                    other => panic!("{other:?}"),
                };
                let mut piece = vec![0; bytes as usize];
                lane.read(local, index, &mut piece).unwrap();
                read.extend(piece);
            }
            assert_eq!(read, message);
            at += count;
            lane.take_up_to(local, at).unwrap();
            assert_eq!(lane.head(local).unwrap(), at);
        }
        world.finalize().unwrap();
    }

    #[test]
    fn cells_of_a_request_are_written_and_wrong_requests_touch_nothing() {
        let world = World::init().unwrap();
        let local = world.local();
        let lane = lane(&world, 4, 32);
        let message = [7; 70];
        let part = Part::Bytes { whole: Some(70), bytes: &message };
        let request = lane.request(9, 0, part, true);
        let serve = |bytes: &[u8], from| Lane::serve(local, from, &mut Reader::new(&bytes[1..]));
        assert!(serve(&request, 3).is_err(), "it is of another sender");
        assert!(serve(&lane.request(9, 1, part, true), 0).is_err(), "a cell is left out");
        for cut in 1..request.len() {
            assert!(serve(&request[..cut], 0).is_err(), "cut after {cut}");
        }
        assert_eq!(lane.tail(local).unwrap(), 0, "none of these counts");
        serve(&request, 0).unwrap();
        assert_eq!(lane.tail(local).unwrap(), 3);
        assert!(serve(&request, 0).is_err(), "once more");
        assert!(serve(&lane.request(9, 3, part, true), 0).is_err(), "there is room for one");
        assert!(lane.take_up_to(local, 3).unwrap(), "the sender waits");
        lane.raze(local).unwrap();
        assert!(matches!(lane.write(local, 3, Part::End), Err(Error::Closed(_))), "a neighbour wrote there");
        let last = lane.request(9, 3, Part::End, false);
        assert!(matches!(serve(&last, 0), Err(Error::Closed(_))));
        world.finalize().unwrap();
    }

    #[test]
    fn a_stub_is_told_by_its_receiver_only() {
        let world = World::init().unwrap();
        let local = world.local();
        let stub = Stub(world.malloc(STUB_BYTES as usize, 0).unwrap());
        stub.lay_out(local, 5).unwrap();
        let request = stub.request(1, 12, 3, true);
        let serve = |from| Stub::serve(local, from, &mut Reader::new(&request[1..]));
        assert!(serve(4).is_err());
        assert_eq!((stub.credit(local).unwrap(), stub.fetched(local).unwrap()), (0, 0));
        serve(5).unwrap();
        assert_eq!((stub.credit(local).unwrap(), stub.fetched(local).unwrap()), (12, 3));
        assert!(stub.is_closed(local).unwrap());
        world.finalize().unwrap();
    }
}
