//! A lane: a ring of cells from one rank to another, in the memory of the one that receives.
//!
//! The sender writes cells, the receiver reads cells and then moves the head: neither needs a lock. The header of a cell, which is written last,
//! says in which lap it was, so that whoever waits for one looks at it alone. On a node both do it
//! with loads and stores, and wake each other; from another node cells come in a request, and the owner's side writes them, in their order. The sender
//! has a few words of its own, a [`Stub`], where the receiver tells a sender of another node how far it has come, and any sender which of
//! the messages that lie in memory of the sender it has fetched. The last that it tells is that it writes there no more.
//!
//! What is read of a lane or a stub may have been written by anybody who is in the job: every number is checked before it is used. A SIGKILL
//! leaves a cell without its header, which nobody reads.

use crate::{Error, GlobalAddress, Result};
use kumiki_mem::codec::{Reader, Writer};
use kumiki_mem::{Local, Mark, Span};
use std::sync::atomic::Ordering;

const MAGIC_AT: u64 = 0;
const FROM_AT: u64 = 8;
const SLOTS_AT: u64 = 16;
const SLOT_BYTES_AT: u64 = 24;
/// Written for the sender, on this side if it is of another node: how many cells have come from there, and whether it waits…
const TAIL_AT: u64 = 64;
const HUNGRY_AT: u64 = 72;
const BROKEN_AT: u64 = 80;
/// …and by the receiver: in lines of their own.
const HEAD_AT: u64 = 128;
const CELLS_AT: u64 = 192;
const MAGIC: u64 = u64::from_le_bytes(*b"lane\0\0\0\x02");

const PEER_AT: u64 = 8;
const CREDIT_AT: u64 = 16;
const FETCHED_AT: u64 = 24;
const CLOSED_AT: u64 = 32;
const STUB_MAGIC: u64 = u64::from_le_bytes(*b"stub\0\0\0\x01");
/// Bytes of a stub.
pub(crate) const STUB_BYTES: u64 = 40;

/// Bytes of a request that has cells written, before them.
const REQUEST_BYTES: usize = 1 + 8 + 8 + 1 + 4;

/// The most cells of a lane, and bytes of a cell.
pub(crate) const MOST_SLOTS: u64 = 1 << 16;
pub(crate) const LARGEST_SLOT: u64 = 1 << 20;
/// The most bytes of a lane: from another node all cells may come in one request.
const LARGEST_LANE: u64 = 8 << 20;

/// What a cell holds: the upper bits of its header; the lower ones are a number of bytes, and between both is the lap.
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

const KIND_AT: u32 = 60;
const LAP_AT: u32 = 46;
const LENGTH: u64 = (1 << LAP_AT) - 1;
const LAP: u64 = (1 << KIND_AT) - 1 - LENGTH;

impl Cell {
    fn word(self) -> u64 {
        let (kind, length) = match self {
            Cell::First(bytes) => (1, bytes),
            Cell::More(bytes) => (2, bytes),
            Cell::Fetch(bytes) => (3, bytes),
            Cell::End => (4, 0),
        };
        kind << KIND_AT | length & LENGTH
    }

    /// Whether it holds all of a message.
    #[inline]
    pub(crate) fn is_whole(self, slot_bytes: u64) -> bool {
        matches!(self, Cell::First(whole) if whole <= slot_bytes)
    }

    #[inline]
    fn from_word(word: u64) -> Option<Cell> {
        let bytes = word & LENGTH;
        match word >> KIND_AT {
            1 => Some(Cell::First(bytes)),
            2 => Some(Cell::More(bytes)),
            3 => Some(Cell::Fetch(bytes)),
            4 => Some(Cell::End),
            _ => None,
        }
    }
}

/// The cell of a header, if it was written in this lap.
#[inline]
fn come(header: u64, lap: u64) -> Result<Option<Cell>> {
    match header {
        // None has ever been written there, or one of the lap before.
        header if header == 0 || header & LAP != lap => Ok(None),
        header => Cell::from_word(header).map(Some).ok_or_else(broken),
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
        self.cell_and_lap(index).0
    }

    /// Where a cell is, and the lap as it stands in its header.
    #[inline]
    fn cell_and_lap(self, index: u64) -> (u64, u64) {
        // A division takes longer than all the rest.
        let (lap, slot) = match self.slots.is_power_of_two() {
            true => (index >> self.slots.trailing_zeros(), index & (self.slots - 1)),
            false => (index / self.slots, index % self.slots),
        };
        (CELLS_AT + slot * self.stride(), lap << LAP_AT & LAP)
    }

    /// A mark for an end, which uses it again and again.
    pub(crate) fn mark(self) -> Mark {
        Mark::new(self.address, self.bytes())
    }

    /// Lays out a block of this rank for a sender.
    pub(crate) fn lay_out(self, local: Local<'_>, from: u32) -> Result<()> {
        let span = self.span(local)?;
        span.clear(0, CELLS_AT)?;
        // What lay there before may look like a cell.
        (0..self.slots).try_for_each(|index| span.store(self.cell_at(index), 0))?;
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
    pub(crate) fn write(self, span: Span<'_>, first: u64, part: Part<'_>) -> Result<()> {
        if span.load(MAGIC_AT)? != MAGIC {
            return Err(Error::Closed("the other end of the channel is gone".into()));
        }
        if let Part::Bytes { whole: Some(whole), bytes } = part {
            if whole <= self.slot_bytes && whole == bytes.len() as u64 {
                return self.write_cell(span, first, Cell::First(whole).word(), bytes);
            }
        }
        for (index, (cell, bytes)) in (first..).zip(part.cells(self.slot_bytes)) {
            self.write_cell(span, index, cell.word(), bytes)?;
        }
        Ok(())
    }

    #[inline]
    fn write_cell(self, span: Span<'_>, index: u64, header: u64, bytes: &[u8]) -> Result<()> {
        let (at, lap) = self.cell_and_lap(index);
        span.write(at + 8, bytes)?;
        span.store(at, header & !LAP | lap)
    }

    // ---- the receiver ----

    /// Whether the sender has failed, and nothing comes behind what has come.
    pub(crate) fn is_broken(self, local: Local<'_>) -> Result<bool> {
        Ok(self.span(local)?.word(BROKEN_AT)?.load(Ordering::Acquire) != 0)
    }

    /// Says that the sender has failed.
    pub(crate) fn break_off(self, local: Local<'_>) -> Result<()> {
        let span = self.span(local)?;
        match span.load(MAGIC_AT)? == MAGIC {
            true => span.store(BROKEN_AT, 1),
            // The memory may be somebody else's.
            false => Ok(()),
        }
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

    /// What the cell behind so many that were taken holds, if it has come.
    pub(crate) fn next_cell(self, local: Local<'_>, taken: u64) -> Result<Option<Cell>> {
        let (at, lap) = self.cell_and_lap(taken);
        come(self.span(local)?.load(at)?, lap)
    }

    /// The same; and if it holds a whole message, as much of that is read as there is room for.
    #[inline]
    pub(crate) fn take(self, span: Span<'_>, taken: u64, into: &mut [u8]) -> Result<Option<Cell>> {
        let (at, lap) = self.cell_and_lap(taken);
        let cell = come(span.load(at)?, lap)?;
        if let Some(Cell::First(whole)) = cell.filter(|cell| cell.is_whole(self.slot_bytes)) {
            let length = into.len().min(whole as usize);
            span.read(at + 8, &mut into[..length])?;
        }
        Ok(cell)
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

    /// Gives cells back, up to this one.
    pub(crate) fn take_up_to(self, span: Span<'_>, head: u64) -> Result<()> {
        span.store(HEAD_AT, head)
    }

    /// Whether the sender, of another node, waits for them.
    pub(crate) fn is_sender_hungry(self, local: Local<'_>) -> Result<bool> {
        Ok(self.span(local)?.word(HUNGRY_AT)?.load(Ordering::Relaxed) != 0)
    }

    // ---- the sender, from another node ----

    /// The request that has cells written.
    pub(crate) fn request(
        self,
        code: u8,
        buffer: Vec<u8>,
        first: u64,
        part: Part<'_>,
        hungry: bool,
    ) -> Vec<u8> {
        let bytes = part.bytes() + 16 * part.cell_count(self.slot_bytes) as usize;
        let start = Writer::in_buffer(code, buffer, REQUEST_BYTES + bytes);
        let start = start.long(self.address.bits()).long(first).flag(hungry);
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
        if span.load(TAIL_AT)? != first || u64::from(count) > room {
            return Err(Error::Misuse("cells for a channel that cannot be of its sender".into()));
        }
        // All of them are looked at before one is written, which counts at once.
        let mut ahead = *request;
        for _ in 0..count {
            if Cell::from_word(ahead.long()?).is_none() {
                return Err(Error::Misuse("a cell of no kind".into()));
            }
            if ahead.bytes()?.len() as u64 > lane.slot_bytes {
                return Err(Error::Misuse("a cell that is longer than its slot".into()));
            }
        }
        // Before the cells: whoever sees them sees this, and may give the memory back behind the last of them.
        span.word(HUNGRY_AT)?.store(hungry.into(), Ordering::Relaxed);
        span.store(TAIL_AT, first.wrapping_add(count.into()))?;
        for index in (first..).take(count as usize) {
            let header = request.long()?;
            lane.write_cell(span, index, header, request.bytes()?)?;
        }
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
    /// Bytes of the message in it.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Part::Bytes { bytes, .. } => bytes.len(),
            Part::Fetch { place, .. } => place.len(),
            Part::End => 0,
        }
    }

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
            assert_eq!(lane.next_cell(local, at).unwrap(), None);
            lane.write(lane.span(local).unwrap(), at, part).unwrap();
            assert_eq!(lane.next_cell(local, at).unwrap(), Some(Cell::First(length as u64)));
            assert_eq!(
                lane.next_cell(local, at + count).unwrap(),
                None,
                "what lies there is of the lap before"
            );
            let mut read = Vec::new();
            for index in at..at + count {
                let bytes = match lane.next_cell(local, index).unwrap().expect("it has come") {
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
            lane.take_up_to(lane.span(local).unwrap(), at).unwrap();
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
        let request = lane.request(9, Vec::new(), 0, part, true);
        let serve = |bytes: &[u8], from| Lane::serve(local, from, &mut Reader::new(&bytes[1..]));
        assert!(serve(&request, 3).is_err(), "it is of another sender");
        assert!(serve(&lane.request(9, Vec::new(), 1, part, true), 0).is_err(), "a cell is left out");
        for cut in 1..request.len() {
            assert!(serve(&request[..cut], 0).is_err(), "cut after {cut}");
        }
        assert_eq!(lane.next_cell(local, 0).unwrap(), None, "none of these counts");
        serve(&request, 0).unwrap();
        assert_eq!([2, 3].map(|cell| lane.next_cell(local, cell).unwrap()), [Some(Cell::More(6)), None]);
        assert!(serve(&request, 0).is_err(), "once more");
        assert!(serve(&lane.request(9, Vec::new(), 3, part, true), 0).is_err(), "there is room for one");
        let span = lane.span(local).unwrap();
        lane.take_up_to(span, 3).unwrap();
        assert!(lane.is_sender_hungry(local).unwrap(), "the sender waits");
        lane.raze(local).unwrap();
        assert!(matches!(lane.write(span, 3, Part::End), Err(Error::Closed(_))), "a neighbour wrote there");
        let last = lane.request(9, Vec::new(), 3, Part::End, false);
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
