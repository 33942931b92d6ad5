//! A sequence of bytes in one block: inserting, erasing, growing, over the memory of its node.

use super::{Done, Kind, Shape, Tail, BLOCK_AT, CHANGING, LONGEST, OFFSET_AT, ROOM_AT, WHOLE};
use crate::data::heap::{self, Heap};
use crate::{Error, GlobalAddress, Result};
use kumiki_mem::{Local, Span};

fn too_long(kind: Kind, bytes: u64) -> Error {
    Error::Misuse(format!("a {} of {bytes} bytes; the longest has {LONGEST}", kind.name()))
}

pub(super) fn create(local: Local<'_>, kind: Kind, rank: u32, bytes: u64) -> Result<Done> {
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
    pub(super) shape: Shape,
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
    pub(super) fn open_any(local: Local<'a>, kind: Kind, address: GlobalAddress) -> Result<Ring<'a>> {
        let no = || Error::Misuse(format!("there is no {} at {address:#x}", kind.name()));
        if address.is_null() {
            return Err(no());
        }
        let header = heap::header(local, address, kind.header_bytes(), no)?;
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
        Tail::new(self.header, self.body, self.rank)
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn check(&self, at: u64, bytes: u64) -> Result<()> {
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

    pub(super) fn read_into(&self, at: u64, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
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

    pub(super) fn insert(&mut self, at: u64, bytes: u64, data: Option<&[u8]>) -> Result<()> {
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
    /// wrap and there is room at the right end. An empty one begins at its first byte.
    fn widen(&mut self, at: u64, bytes: u64) -> Result<bool> {
        let Shape { body, offset, size, capacity } = self.shape;
        if self.kind == Kind::Vector || offset + size > capacity {
            return Ok(false);
        }
        let start = body.bits() - self.block.bits() + offset;
        let needed = size + bytes;
        let (start, offset) = if size == 0 && bytes <= self.room {
            (start.min(self.room - bytes), 0)
        } else if at == 0 && start >= bytes {
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

    /// Shifts the window of a deque inside its block, if that keeps what comes from wrapping. In an empty one nothing needs to stay where it is.
    fn slide(&mut self, at: u64, bytes: u64) -> Result<()> {
        let Shape { body, offset, size, capacity } = self.shape;
        if self.kind == Kind::Vector || offset + size > capacity {
            return Ok(());
        }
        let window = body.bits() - self.block.bits();
        let (window, offset) = if size == 0 && offset + bytes > capacity {
            (window, 0)
        } else if at == size && offset + size + bytes > capacity {
            (window + offset, 0)
        } else if size > 0 && at == 0 && offset < bytes && window >= bytes - offset {
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

    pub(super) fn erase(&mut self, at: u64, bytes: u64) -> Result<()> {
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

    pub(super) fn reserve(&mut self, bytes: u64) -> Result<()> {
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

    pub(super) fn assign(mut self, data: &[u8]) -> Result<Self> {
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

    pub(super) fn adopt(self, block: GlobalAddress, size: u64) -> Result<Self> {
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

    pub(super) fn clear(mut self) -> Result<Self> {
        if self.header.load(self.kind.places().2)? != WHOLE {
            return self.assign(&[]);
        }
        self.begin()?;
        (self.shape.offset, self.shape.size) = (0, 0);
        self.end()?;
        Ok(self)
    }

    pub(super) fn destroy(self) -> Result<Done> {
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

/// Exchanges what two sequences of one rank hold.
pub(super) fn swap<'a>(one: Ring<'a>, two: Ring<'a>) -> Result<Ring<'a>> {
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
    // No block is ever in both headers: whoever frees what a dead rank left must not free it twice.
    Ring { shape: Shape::default(), block: GlobalAddress::NULL, room: 0, ..two }.store_shape()?;
    exchanged.end()?;
    other.end()?;
    Ok(exchanged)
}
