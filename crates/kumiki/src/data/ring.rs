//! What vectors and deques share: bytes in one block of one rank, described by a header on the same rank.
//!
//! A [`Ring`] is such a sequence seen through [`Local`]: whoever is on the owner's node works on it directly, and the
//! owner does it for everybody else, one call for each operation. A vector is a ring that always begins at its first byte.
//!
//! Header of a vector: body, size, capacity, state. Header of a deque: body, offset, size, capacity, block, block
//! length, state. What stands before the state (for a deque: before the block) is read by programs. The body of a deque
//! lies somewhere in its block, so that it can grow at either end to exactly what is needed without being moved each time.
//!
//! A SIGKILL in the middle of a change leaves the state `CHANGING`: from then on every operation fails with an error,
//! until the sequence is assigned, cleared or destroyed. A change that is one store (adding to the end while there is
//! room, taking from the end of a vector) needs no such care. At worst one block stays taken.

use super::heap::Heap;
use super::message::{unknown, Reader, Writer};
use super::{DEQUE, VECTOR};
use crate::{Error, GlobalAddress, Result};
use kumiki_mem::{Local, Span};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The index that means the end, whatever the size is.
pub(crate) const END: u64 = u64::MAX;
/// The longest sequence: lengths are added without overflow.
const LONGEST: u64 = 1 << 56;

/// What stands in the state of a header that is whole.
const WHOLE: u64 = u64::from_le_bytes(*b"sequence");
/// While more than one word of it changes.
const CHANGING: u64 = u64::from_le_bytes(*b"changing");

/// Which of the two it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Vector,
    Deque,
}

impl Kind {
    pub(crate) fn service(self) -> u8 {
        match self {
            Kind::Vector => VECTOR,
            Kind::Deque => DEQUE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Vector => "vector",
            Kind::Deque => "deque",
        }
    }

    /// Where the words of a header are: size, capacity, state.
    const fn places(self) -> (u64, u64, u64) {
        match self {
            Kind::Vector => (8, 16, 24),
            Kind::Deque => (16, 24, 48),
        }
    }

    const fn header_bytes(self) -> u64 {
        self.places().2 + 8
    }

    /// What a capacity is rounded up to.
    fn round(self, bytes: u64) -> u64 {
        match self {
            Kind::Vector => bytes.next_multiple_of(8),
            Kind::Deque => bytes,
        }
    }
}

const OFFSET_AT: u64 = 8;
const BLOCK_AT: u64 = 32;
const ROOM_AT: u64 = 40;

/// What the header says: where the bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) body: GlobalAddress,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) capacity: u64,
}

impl Shape {
    /// Where the byte of an index lies in the body.
    #[inline]
    fn position(self, index: u64) -> u64 {
        let at = self.offset + index;
        if at >= self.capacity && self.capacity != 0 {
            at - self.capacity
        } else {
            at
        }
    }

    /// Where the bytes of a range lie in the body: one piece, or two when they wrap.
    pub(crate) fn pieces(self, index: u64, bytes: u64) -> [(u64, u64); 2] {
        let at = self.position(index);
        let first = bytes.min(self.capacity - at.min(self.capacity));
        [(at, first), (0, bytes - first)]
    }
}

/// Something to be done to a sequence, by whoever can touch it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op<'a> {
    /// Makes one, with this size (vector) or capacity (deque).
    Create(u64),
    Destroy,
    /// Only gives the shape.
    Look,
    /// Puts data before an index; with no data it makes room for so many bytes.
    Insert {
        at: u64,
        bytes: u64,
        data: Option<&'a [u8]>,
    },
    /// Takes bytes out. At the end: the last so many. If asked it gives them back, and then does nothing where there are
    /// too few.
    Erase {
        at: u64,
        bytes: u64,
        give: bool,
    },
    /// Replaces everything.
    Assign(&'a [u8]),
    /// Replaces everything by a block of the same rank, of this size.
    Adopt {
        block: GlobalAddress,
        size: u64,
    },
    Reserve(u64),
    Clear,
    Read {
        at: u64,
        bytes: u64,
    },
    Write {
        at: u64,
        data: &'a [u8],
    },
    /// Exchanges what two of them hold, on the same rank.
    Swap(GlobalAddress),
}

/// What came of it: the place (of the sequence itself, when it was made), and the shape after it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) at: u64,
    pub(crate) shape: Shape,
}

impl<'a> Op<'a> {
    /// As a request.
    pub(crate) fn encode(self, address: GlobalAddress) -> Vec<u8> {
        let request = |code: u8| Writer::new(code).word(address.bits());
        match self {
            Op::Create(bytes) => request(0).word(bytes),
            Op::Destroy => request(1),
            Op::Look => request(2),
            Op::Insert { at, bytes, data: None } => request(3).word(at).word(bytes),
            Op::Insert { at, data: Some(data), .. } => request(4).word(at).bytes(data),
            Op::Erase { at, bytes, give } => request(5).word(at).word(bytes).word(give as u64),
            Op::Assign(data) => request(6).bytes(data),
            Op::Adopt { block, size } => request(7).word(block.bits()).word(size),
            Op::Reserve(bytes) => request(8).word(bytes),
            Op::Clear => request(9),
            Op::Read { at, bytes } => request(10).word(at).word(bytes),
            Op::Write { at, data } => request(11).word(at).bytes(data),
            Op::Swap(other) => request(12).word(other.bits()),
        }
        .finish()
    }

    fn decode(request: &'a [u8]) -> Result<(GlobalAddress, Op<'a>)> {
        let mut request = Reader::new(request);
        let code = request.byte()?;
        let address = GlobalAddress::from_bits(request.word()?);
        let op = match code {
            0 => Op::Create(request.word()?),
            1 => Op::Destroy,
            2 => Op::Look,
            3 => Op::Insert { at: request.word()?, bytes: request.word()?, data: None },
            4 => {
                let (at, data) = (request.word()?, request.bytes()?);
                Op::Insert { at, bytes: data.len() as u64, data: Some(data) }
            }
            5 => Op::Erase { at: request.word()?, bytes: request.word()?, give: request.word()? != 0 },
            6 => Op::Assign(request.bytes()?),
            7 => Op::Adopt { block: GlobalAddress::from_bits(request.word()?), size: request.word()? },
            8 => Op::Reserve(request.word()?),
            9 => Op::Clear,
            10 => Op::Read { at: request.word()?, bytes: request.word()? },
            11 => Op::Write { at: request.word()?, data: request.bytes()? },
            12 => Op::Swap(GlobalAddress::from_bits(request.word()?)),
            code => return Err(unknown(code)),
        };
        Ok((address, op))
    }
}

impl Done {
    /// The words of a reply; what was read comes behind them.
    const BYTES: usize = 40;

    pub(crate) fn decode(mut reply: Vec<u8>) -> Result<(Done, Vec<u8>)> {
        let mut words = Reader::new(&reply);
        let at = words.word()?;
        let body = GlobalAddress::from_bits(words.word()?);
        let shape = Shape { body, offset: words.word()?, size: words.word()?, capacity: words.word()? };
        reply.drain(..Self::BYTES);
        Ok((Done { at, shape }, reply))
    }
}

/// Does what another rank asks of a vector.
pub(crate) fn serve_vector(local: Local<'_>, _: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    serve(local, Kind::Vector, request, reply)
}

/// Does what another rank asks of a deque.
pub(crate) fn serve_deque(local: Local<'_>, _: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    serve(local, Kind::Deque, request, reply)
}

fn serve(local: Local<'_>, kind: Kind, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    let (address, op) = Op::decode(request)?;
    let address = if matches!(op, Op::Create(_)) { local.pool_address(local.rank(), 0) } else { address };
    reply.resize(Done::BYTES, 0);
    let Done { at, shape } = apply(local, kind, address, op, reply)?;
    let words = [at, shape.body.bits(), shape.offset, shape.size, shape.capacity];
    for (place, word) in reply.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Ok(())
}

/// Does it here: the sequence is on this node. To make one, the address is any of its rank. What is read is appended to
/// `out`.
pub(crate) fn apply(
    local: Local<'_>,
    kind: Kind,
    address: GlobalAddress,
    op: Op<'_>,
    out: &mut Vec<u8>,
) -> Result<Done> {
    let open = || Ring::open(local, kind, address);
    let (ring, at) = match op {
        Op::Create(bytes) => return create(local, kind, local.rank_of(address), bytes),
        Op::Destroy => return Ring::open_any(local, kind, address)?.destroy(),
        Op::Look => (open()?, 0),
        Op::Insert { at, bytes, data } => {
            let mut ring = open()?;
            let at = if at == END { ring.shape.size } else { at };
            ring.insert(at, bytes, data)?;
            (ring, at)
        }
        Op::Erase { at, bytes, give } => {
            let mut ring = open()?;
            let at = if at == END { ring.shape.size.saturating_sub(bytes) } else { at };
            if !give {
                ring.erase(at, bytes)?;
            } else if ring.check(at, bytes).is_ok() {
                ring.read_into(at, bytes, out)?;
                ring.erase(at, bytes)?;
            }
            (ring, at)
        }
        Op::Assign(data) => (Ring::open_any(local, kind, address)?.assign(data)?, 0),
        Op::Adopt { block, size } => (Ring::open_any(local, kind, address)?.adopt(block, size)?, 0),
        Op::Clear => (Ring::open_any(local, kind, address)?.clear()?, 0),
        Op::Reserve(bytes) => {
            let mut ring = open()?;
            ring.reserve(bytes)?;
            (ring, 0)
        }
        Op::Read { at, bytes } => {
            let ring = open()?;
            ring.read_into(at, bytes, out)?;
            (ring, at)
        }
        Op::Write { at, data } => {
            let ring = open()?;
            ring.write(at, data)?;
            (ring, at)
        }
        Op::Swap(other) => (swap(open()?, Ring::open(local, kind, other)?)?, 0),
    };
    Ok(Done { at, shape: ring.shape })
}

fn too_long(kind: Kind, bytes: u64) -> Error {
    Error::Misuse(format!("a {} of {bytes} bytes; the longest has {LONGEST}", kind.name()))
}

fn create(local: Local<'_>, kind: Kind, rank: u32, bytes: u64) -> Result<Done> {
    if bytes > LONGEST {
        return Err(too_long(kind, bytes));
    }
    let capacity = kind.round(bytes);
    let mut heap = Heap::open(local, rank)?;
    let address = heap.allocate(kind.header_bytes())?;
    let body = match capacity {
        0 => GlobalAddress::NULL,
        _ => heap.allocate(capacity).inspect_err(|_| drop(heap.free(address)))?,
    };
    let header = local.span(address, kind.header_bytes())?;
    header.clear(0, kind.header_bytes())?;
    let size = if kind == Kind::Vector { bytes } else { 0 };
    let shape = Shape { body, offset: 0, size, capacity };
    let ring =
        Ring { local, kind, rank, header, body: header.part(0, 0)?, shape, block: body, room: capacity };
    ring.store_shape()?;
    header.store(kind.places().2, WHOLE)?;
    Ok(Done { at: address.bits(), shape })
}

/// A sequence on this node. What its header said was read once and checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    local: Local<'a>,
    kind: Kind,
    rank: u32,
    header: Span<'a>,
    body: Span<'a>,
    shape: Shape,
    /// The block that the body lies in, and its length.
    block: GlobalAddress,
    room: u64,
}

impl<'a> Ring<'a> {
    /// One that is whole.
    pub(crate) fn open(local: Local<'a>, kind: Kind, address: GlobalAddress) -> Result<Ring<'a>> {
        let ring = Self::open_any(local, kind, address)?;
        if ring.header.load(kind.places().2)? != WHOLE {
            return Err(Error::Refused(format!(
                "the {} at {address:#x} is half changed: a rank died in the middle, or two ranks use it at once; \
                 assign, clear or destroy it",
                kind.name()
            )));
        }
        Ok(ring)
    }

    /// One that may be half changed.
    fn open_any(local: Local<'a>, kind: Kind, address: GlobalAddress) -> Result<Ring<'a>> {
        let no = || Error::Misuse(format!("there is no {} at {address:#x}", kind.name()));
        if address.is_null() {
            return Err(no());
        }
        let header = local.span(address, kind.header_bytes())?;
        let (size_at, capacity_at, state_at) = kind.places();
        let state = header.load(state_at)?;
        if state != WHOLE && state != CHANGING {
            return Err(no());
        }
        let body = GlobalAddress::from_bits(header.load(0)?);
        let (size, capacity) = (header.load(size_at)?, header.load(capacity_at)?);
        let (offset, block, room) = match kind {
            Kind::Vector => (0, body, capacity),
            Kind::Deque => (
                header.load(OFFSET_AT)?,
                GlobalAddress::from_bits(header.load(BLOCK_AT)?),
                header.load(ROOM_AT)?,
            ),
        };
        let shape = Shape { body, offset, size, capacity };
        let rank = local.rank_of(address);
        let mut ring = Ring { local, kind, rank, header, body: header.part(0, 0)?, shape, block, room };
        if state == WHOLE {
            let inside = body.bits().checked_sub(block.bits()).and_then(|at| at.checked_add(capacity));
            let fits = inside.is_some_and(|end| end <= room) && (room == 0 || local.rank_of(block) == rank);
            if !fits || size > capacity || offset > capacity {
                return Err(Error::Misuse(format!(
                    "the header of the {} at {address:#x} is damaged",
                    kind.name()
                )));
            }
            if capacity > 0 {
                ring.body = local.span(body, capacity)?;
            }
        }
        Ok(ring)
    }

    /// What a handle of a vector keeps to add to its end quickly.
    pub(crate) fn tail(&self) -> Result<Tail<'a>> {
        let (size_at, capacity_at, state_at) = Kind::Vector.places();
        let word = |at: u64| self.header.word(at);
        Ok(Tail {
            body_word: word(0)?,
            size: word(size_at)?,
            capacity: word(capacity_at)?,
            state: word(state_at)?,
            body: self.body,
            rank: self.rank,
        })
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    fn check(&self, at: u64, bytes: u64) -> Result<()> {
        let size = self.shape.size;
        if at.checked_add(bytes).is_some_and(|end| end <= size) {
            return Ok(());
        }
        Err(Error::Misuse(format!(
            "bytes {at} to {} of a {} of {size}",
            at.saturating_add(bytes),
            self.kind.name()
        )))
    }

    /// Copies bytes out.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.check(at, into.len() as u64)?;
        let [(first, count), (second, _)] = self.shape.pieces(at, into.len() as u64);
        let (head, tail) = into.split_at_mut(count as usize);
        self.body.read(first, head)?;
        self.body.read(second, tail)
    }

    fn read_into(&self, at: u64, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        self.check(at, bytes)?;
        let from = out.len();
        out.resize(from + bytes as usize, 0);
        self.read(at, &mut out[from..])
    }

    /// Copies bytes in.
    pub(crate) fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        self.check(at, data.len() as u64)?;
        self.fill(at, data)
    }

    /// Copies bytes in, wherever there is room.
    fn fill(&self, at: u64, data: &[u8]) -> Result<()> {
        let [(first, count), (second, _)] = self.shape.pieces(at, data.len() as u64);
        let (head, tail) = data.split_at(count as usize);
        self.body.write(first, head)?;
        self.body.write(second, tail)
    }

    /// Moves a range to higher indices.
    fn move_up(&self, at: u64, mut bytes: u64, by: u64) -> Result<()> {
        while bytes > 0 {
            let last = |at: u64| self.shape.position(at + bytes - 1) + 1;
            let piece = bytes.min(last(at)).min(last(at + by));
            bytes -= piece;
            self.body.shift(self.shape.position(at + by + bytes), self.shape.position(at + bytes), piece)?;
        }
        Ok(())
    }

    /// Moves a range to lower indices.
    fn move_down(&self, mut at: u64, mut bytes: u64, by: u64) -> Result<()> {
        while bytes > 0 {
            let (from, to) = (self.shape.position(at), self.shape.position(at - by));
            let piece = bytes.min(self.shape.capacity - from).min(self.shape.capacity - to);
            self.body.shift(to, from, piece)?;
            (at, bytes) = (at + piece, bytes - piece);
        }
        Ok(())
    }

    fn insert(&mut self, at: u64, bytes: u64, data: Option<&[u8]>) -> Result<()> {
        self.check(at, 0)?;
        if bytes == 0 {
            return Ok(());
        }
        let needed = self.shape.size.checked_add(bytes).filter(|&needed| needed <= LONGEST);
        let needed = needed.ok_or_else(|| too_long(self.kind, bytes))?;
        if needed > self.shape.capacity && !self.widen(at, bytes)? {
            return self.grow(at, bytes, data);
        }
        self.slide(at, bytes)?;
        let Shape { size, offset, capacity, .. } = self.shape;
        if at == size {
            self.put(at, data)?;
            return self.store_size(needed);
        }
        self.begin()?;
        if self.kind == Kind::Deque && at < size - at {
            // Those before it move to the front; indices count from the new front.
            self.shape.offset = if offset >= bytes { offset - bytes } else { offset + capacity - bytes };
            self.move_down(bytes, at, bytes)?;
        } else {
            self.move_up(at, size - at, bytes)?;
        }
        self.put(at, data)?;
        self.shape.size = needed;
        self.end()
    }

    fn put(&self, at: u64, data: Option<&[u8]>) -> Result<()> {
        data.map_or(Ok(()), |data| self.fill(at, data))
    }

    /// The capacity of a deque that is too small grows inside its block to exactly what is needed, if the bytes do not
    /// wrap and there is room at the right end.
    fn widen(&mut self, at: u64, bytes: u64) -> Result<bool> {
        let Shape { body, offset, size, capacity } = self.shape;
        if self.kind == Kind::Vector || offset + size > capacity {
            return Ok(false);
        }
        let start = body.bits() - self.block.bits() + offset;
        let needed = size + bytes;
        let (start, offset) = if at == 0 && start >= bytes {
            (start - bytes, bytes)
        } else if start + needed <= self.room {
            (start, 0)
        } else {
            return Ok(false);
        };
        self.begin()?;
        self.set_window(start, Shape { body, offset, size, capacity: needed })?;
        self.end()?;
        Ok(true)
    }

    /// Shifts the window of a deque inside its block, if that keeps what comes from wrapping.
    fn slide(&mut self, at: u64, bytes: u64) -> Result<()> {
        let Shape { body, offset, size, capacity } = self.shape;
        if self.kind == Kind::Vector || offset + size > capacity {
            return Ok(());
        }
        let window = body.bits() - self.block.bits();
        let (window, offset) = if at == size && offset + size + bytes > capacity {
            (window + offset, 0)
        } else if at == 0 && offset < bytes && window >= bytes - offset {
            (window - (bytes - offset), bytes)
        } else {
            return Ok(());
        };
        if window + capacity > self.room {
            return Ok(());
        }
        self.begin()?;
        self.set_window(window, Shape { body, offset, size, capacity })?;
        self.end()
    }

    /// Lets the body begin so far into the block.
    fn set_window(&mut self, start: u64, shape: Shape) -> Result<()> {
        self.shape = Shape { body: self.block.add(start), ..shape };
        self.body = self.local.span(self.shape.body, shape.capacity)?;
        Ok(())
    }

    /// Moves everything to a longer block, with a gap for `bytes` (or the data) at `at`.
    fn grow(&mut self, at: u64, bytes: u64, data: Option<&[u8]>) -> Result<()> {
        let needed = self.shape.size + bytes;
        let wished = match self.kind {
            Kind::Vector => needed.max(2 * self.shape.capacity).max(64).next_multiple_of(8),
            Kind::Deque => (needed + needed / 2).max(64).next_multiple_of(8),
        };
        let shortest = self.kind.round(needed);
        self.rebuild([wished, shortest], at, bytes, data)
    }

    /// Moves everything to a block of another length; of a shorter one, when that is too much.
    fn rebuild(&mut self, lengths: [u64; 2], at: u64, bytes: u64, data: Option<&[u8]>) -> Result<()> {
        let old = *self;
        let needed = self.shape.size + bytes;
        let mut heap = Heap::open(self.local, self.rank)?;
        let (block, room) = match heap.allocate(lengths[0]) {
            Ok(block) => (block, lengths[0]),
            Err(_) => (heap.allocate(lengths[1])?, lengths[1]),
        };
        let capacity = if self.kind == Kind::Vector { room } else { needed };
        // What was added at the front will be added there again.
        let start = if at == 0 && old.shape.size > 0 { room - capacity } else { 0 };
        (self.block, self.room) = (block, room);
        let shape = Shape { body: block, offset: 0, size: needed, capacity };
        let moved = (|| {
            self.set_window(start, shape)?;
            self.copy_straight(0, &old, 0, at)?;
            self.copy_straight(at + bytes, &old, at, old.shape.size - at)?;
            self.put(at, data)
        })();
        if let Err(error) = moved {
            let _ = heap.free(block);
            *self = old;
            return Err(error);
        }
        self.begin()?;
        self.end()?;
        old.give_up(&mut heap)
    }

    /// Copies a range of another ring to this one, which does not wrap.
    fn copy_straight(&self, mut to: u64, other: &Ring<'_>, from: u64, bytes: u64) -> Result<()> {
        for (piece, count) in other.shape.pieces(from, bytes) {
            self.body.copy_from(to, other.body, piece, count)?;
            to += count;
        }
        Ok(())
    }

    /// Frees the block.
    fn give_up(&self, heap: &mut Heap<'_>) -> Result<()> {
        if self.block.is_null() {
            return Ok(());
        }
        heap.free(self.block)
    }

    fn erase(&mut self, at: u64, bytes: u64) -> Result<()> {
        self.check(at, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let Shape { size, offset, capacity, .. } = self.shape;
        let behind = size - at - bytes;
        if behind == 0 {
            return self.store_size(at);
        }
        self.begin()?;
        if self.kind == Kind::Deque && at < behind {
            self.move_up(0, at, bytes)?;
            let moved = offset + bytes;
            self.shape.offset = if moved >= capacity { moved - capacity } else { moved };
        } else {
            self.move_down(at + bytes, behind, bytes)?;
        }
        self.shape.size = size - bytes;
        self.end()
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        if bytes > LONGEST {
            return Err(too_long(self.kind, bytes));
        }
        let bytes = self.kind.round(bytes);
        if bytes <= self.shape.capacity {
            return Ok(());
        }
        self.rebuild([bytes, bytes], self.shape.size, 0, None)?;
        if self.kind == Kind::Deque {
            self.begin()?;
            let start = self.shape.body.bits() - self.block.bits();
            self.set_window(start, Shape { capacity: self.room, ..self.shape })?;
            self.end()?;
        }
        Ok(())
    }

    fn assign(mut self, data: &[u8]) -> Result<Self> {
        let bytes = data.len() as u64;
        let whole = self.header.load(self.kind.places().2)? == WHOLE;
        if whole && bytes <= self.shape.capacity {
            self.begin()?;
            self.shape = Shape { offset: 0, size: bytes, ..self.shape };
            self.fill(0, data)?;
            self.end()?;
            return Ok(self);
        }
        let capacity = self.kind.round(bytes);
        let mut heap = Heap::open(self.local, self.rank)?;
        let block = if capacity == 0 { GlobalAddress::NULL } else { heap.allocate(capacity)? };
        let ring = self.with_block(block, capacity, bytes)?;
        ring.fill(0, data)?;
        ring.begin()?;
        ring.end()?;
        self.give_up(&mut heap)?;
        Ok(ring)
    }

    /// The same with another block.
    fn with_block(mut self, block: GlobalAddress, capacity: u64, size: u64) -> Result<Self> {
        (self.block, self.room) = (block, capacity);
        self.shape = Shape { body: block, offset: 0, size, capacity };
        self.body = match capacity {
            0 => self.header.part(0, 0)?,
            _ => self.local.span(block, capacity)?,
        };
        Ok(self)
    }

    fn adopt(self, block: GlobalAddress, size: u64) -> Result<Self> {
        if self.local.rank_of(block) != self.rank {
            return Err(Error::Misuse(format!("{block:#x} is not of rank {}", self.rank)));
        }
        let mut heap = Heap::open(self.local, self.rank)?;
        let ring = self.with_block(block, self.kind.round(size), size)?;
        ring.begin()?;
        ring.end()?;
        self.give_up(&mut heap)?;
        Ok(ring)
    }

    fn clear(mut self) -> Result<Self> {
        if self.header.load(self.kind.places().2)? != WHOLE {
            return self.assign(&[]);
        }
        self.begin()?;
        (self.shape.offset, self.shape.size) = (0, 0);
        self.end()?;
        Ok(self)
    }

    fn destroy(self) -> Result<Done> {
        let mut heap = Heap::open(self.local, self.rank)?;
        self.header.store(self.kind.places().2, 0)?;
        self.header.store(0, 0)?;
        self.header.store(self.kind.places().1, 0)?;
        self.give_up(&mut heap)?;
        heap.free(self.header.address())?;
        Ok(Done::default())
    }

    /// From here on until [`end`](Self::end) several words change.
    fn begin(&self) -> Result<()> {
        self.header.store(self.kind.places().2, CHANGING)
    }

    /// Writes the header, which is whole again.
    fn end(&self) -> Result<()> {
        self.store_shape()?;
        self.header.store(self.kind.places().2, WHOLE)
    }

    /// A change that is a single store.
    fn store_size(&mut self, size: u64) -> Result<()> {
        self.shape.size = size;
        self.header.store(self.kind.places().0, size)
    }

    fn store_shape(&self) -> Result<()> {
        let (size_at, capacity_at, _) = self.kind.places();
        self.header.store(0, self.shape.body.bits())?;
        self.header.store(capacity_at, self.shape.capacity)?;
        self.header.store(size_at, self.shape.size)?;
        if self.kind == Kind::Deque {
            self.header.store(OFFSET_AT, self.shape.offset)?;
            self.header.store(BLOCK_AT, self.block.bits())?;
            self.header.store(ROOM_AT, self.room)?;
        }
        Ok(())
    }
}

/// The end of a vector on this node, kept for the next element. It holds only while the header still names the same body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail<'a> {
    body_word: &'a AtomicU64,
    size: &'a AtomicU64,
    capacity: &'a AtomicU64,
    state: &'a AtomicU64,
    body: Span<'a>,
    rank: u32,
}

impl Tail<'_> {
    /// The size, if the vector is what it was.
    #[inline]
    fn size(&self, local: Local<'_>) -> Option<u64> {
        let same = self.body_word.load(Acquire) == self.body.address().bits()
            && self.capacity.load(Acquire) == self.body.len()
            && self.state.load(Acquire) == WHOLE;
        let size = self.size.load(Acquire);
        (same && size <= self.body.len() && local.can_touch(self.rank)).then_some(size)
    }

    /// Adds bytes at the end; false if that is not so simple.
    #[inline]
    pub(crate) fn push(&self, local: Local<'_>, bytes: &[u8]) -> bool {
        let Some(size) = self.size(local) else { return false };
        // What does not fit is refused by the span, and nothing is written.
        if self.body.write(size, bytes).is_err() {
            return false;
        }
        self.size.store(size + bytes.len() as u64, Release);
        true
    }

    /// Reads bytes; false if that is not so simple.
    #[inline]
    pub(crate) fn read(&self, local: Local<'_>, at: u64, into: &mut [u8]) -> bool {
        let Some(size) = self.size(local) else { return false };
        at.checked_add(into.len() as u64).is_some_and(|end| end <= size) && self.body.read(at, into).is_ok()
    }
}

/// Exchanges what two sequences of one rank hold.
fn swap<'a>(one: Ring<'a>, two: Ring<'a>) -> Result<Ring<'a>> {
    if one.rank != two.rank {
        return Err(Error::Misuse("a swap within a rank of two sequences that are not on one".into()));
    }
    if one.header.address() == two.header.address() {
        return Ok(one);
    }
    let exchanged = Ring { header: one.header, ..two };
    let other = Ring { header: two.header, ..one };
    one.begin()?;
    two.begin()?;
    exchanged.end()?;
    other.end()?;
    Ok(exchanged)
}
