//! Workspaces: one block spread over all ranks.

use super::agreement::{share, Handed, Wish};
use super::Chunks;
use crate::{Error, GlobalAddress, GlobalPtr, Handle, Order, Result, World};
use kumiki_mem::{Booking, Purpose};
use std::sync::Arc;

/// Copies that are under way at once.
const WINDOW: usize = 64;
/// Bytes of this rank's heap that a read or write of many chunks borrows.
const BORROWED: u64 = 1 << 20;
/// Instead of the address of a rank's part: it has no memory for it.
const FAILED: GlobalAddress = GlobalAddress::from_bits(u64::MAX);

/// A block of bytes in chunks, which lie on consecutive ranks and wrap round. Every rank reads and writes at any offset.
///
/// Making and destroying it is collective: all ranks do it, with the same arguments. Reading and writing is each rank's
/// own business, in any order and at once; what overlaps is mixed by whole accesses of a chunk. The chunks of one access
/// are copied at the same time. When a rank dies, what is on other ranks stays; access to its chunks fails.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// use kumiki::{data::{Chunks, Workspace}, World};
///
/// let world = World::init()?;
/// let workspace = Workspace::shared_with(&world, 1000, Chunks::of(64))?;
/// if world.rank() == 0 {
///     workspace.write(100, b"over the edge of a chunk")?;
/// }
/// world.sync()?;
/// let mut text = [0; 24];
/// workspace.read(100, &mut text)?;
/// assert_eq!(&text, b"over the edge of a chunk");
/// workspace.destroy()?;
/// # world.finalize()
/// # }
/// ```
pub struct Workspace<'w> {
    world: &'w World,
    bytes: u64,
    start: u32,
    chunk: u64,
    /// On rank 0: the addresses of all parts.
    table: GlobalAddress,
    parts: Arc<Parts>,
}

/// Where the part of each rank is: memory of this process, booked as long as it is there.
#[derive(Debug)]
struct Parts {
    addresses: Box<[GlobalAddress]>,
    _booked: Option<Booking>,
}

impl PartialEq for Parts {
    fn eq(&self, other: &Parts) -> bool {
        self.addresses == other.addresses
    }
}

impl Eq for Parts {}

/// The addresses of all parts, on rank 0.
struct Table<'w>(&'w World, GlobalAddress);

impl<'w> Table<'w> {
    fn make(world: &'w World) -> Result<Self> {
        let ranks = world.ranks() as usize;
        let table = world.malloc(size_of::<GlobalAddress>() * ranks, 0)?;
        // Who cannot say where its part is leaves this there.
        world.put_slice(GlobalPtr::from_address(table), &vec![FAILED; ranks])?;
        Ok(Table(world, table))
    }
}

impl<'w> Handed<'w> for Table<'w> {
    fn words(&self) -> [u64; 3] {
        [self.1.bits(), 0, 0]
    }

    fn open(world: &'w World, words: [u64; 3]) -> Result<Self> {
        Ok(Table(world, GlobalAddress::from_bits(words[0])))
    }

    fn discard(self) -> Result<()> {
        self.0.free(self.1)
    }
}

/// What a rank knows of a workspace, without the world: for languages that cannot keep a [`Workspace`] itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawWorkspace {
    bytes: u64,
    start: u32,
    chunk: u64,
    table: GlobalAddress,
    parts: Arc<Parts>,
}

/// A chunk of a workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Where it is.
    pub address: GlobalAddress,
    /// The rank that it is on.
    pub rank: u32,
    /// Its length: that of all but the last are the same.
    pub bytes: usize,
}

impl std::fmt::Debug for Workspace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workspace({} bytes, chunks of {} from rank {})", self.bytes, self.chunk, self.start)
    }
}

impl<'w> Workspace<'w> {
    /// Makes a workspace of zeros, with one chunk on each rank. Collective.
    pub fn shared(world: &'w World, bytes: usize) -> Result<Self> {
        Self::shared_with(world, bytes, Chunks::of(bytes.div_ceil(world.ranks() as usize).max(1)))
    }

    /// Makes a workspace of zeros, in chunks of a length, the first of them on a rank. Collective.
    pub fn shared_with(world: &'w World, bytes: usize, chunks: Chunks) -> Result<Self> {
        let (bytes, start, chunk) = (bytes as u64, chunks.start, chunks.bytes as u64);
        let none = Arc::new(Parts { addresses: Box::default(), _booked: None });
        let mut workspace = Workspace { world, bytes, start, chunk, table: GlobalAddress::NULL, parts: none };
        let wish = Wish::new("a workspace", (bytes, start, chunk));
        let make = || {
            match start >= world.ranks() || chunk == 0 {
            true => Err(Error::Misuse(format!(
                "a workspace from rank {start} on in chunks of {chunk} bytes; there are {} ranks, and a chunk has bytes",
                world.ranks()
            ))),
            false => Table::make(world),
        }
        };
        let Table(_, table) = share(world, wish, make)?;
        workspace.table = table;
        let booked = world.book(Purpose::Directory, size_of::<GlobalAddress>() as u64 * world.ranks() as u64);
        let own = booked.and_then(|booked| Ok((workspace.make_part()?, booked)));
        let table = GlobalPtr::<GlobalAddress>::from_address(workspace.table);
        let said = match &own {
            Ok((part, _)) => world.put(table.add(world.rank() as usize), *part),
            Err(_) => Ok(()),
        };
        let own = own.and_then(|own| match said {
            Ok(()) => Ok(own),
            Err(error) => {
                let _ = world.free(own.0);
                Err(error)
            }
        });
        world.sync()?;
        let (part, booked) = match own {
            Ok(own) => own,
            Err(error) => {
                // Everybody sees it, and frees its own.
                world.sync()?;
                workspace.free_own(GlobalAddress::NULL)?;
                return world.note(Err(error));
            }
        };
        let all = match world.get_vec(table, world.ranks() as usize) {
            Ok(all) => all,
            Err(error) => {
                // The others know nothing of it, and are in no barrier with us.
                let _ = world.free(part);
                return Err(error);
            }
        };
        if all.contains(&FAILED) {
            world.sync()?;
            workspace.free_own(part)?;
            return world.note(Err(no_memory(bytes, "another rank has none for its part of a workspace")));
        }
        workspace.parts = Arc::new(Parts { addresses: all.into(), _booked: Some(booked) });
        Ok(workspace)
    }

    /// It without the world.
    pub fn into_raw(self) -> RawWorkspace {
        let Workspace { bytes, start, chunk, table, parts, .. } = self;
        RawWorkspace { bytes, start, chunk, table, parts }
    }

    /// What [`into_raw`](Self::into_raw) gave, in the same world.
    pub fn from_raw(world: &'w World, raw: RawWorkspace) -> Workspace<'w> {
        let RawWorkspace { bytes, start, chunk, table, parts } = raw;
        Workspace { world, bytes, start, chunk, table, parts }
    }

    /// This rank's part, zeroed.
    fn make_part(&self) -> Result<GlobalAddress> {
        let (me, ranks) = (self.world.rank(), self.world.ranks());
        let chunks = self.bytes.div_ceil(self.chunk);
        let first = (me + ranks - self.start) % ranks;
        let own = chunks.saturating_sub(first as u64).div_ceil(ranks as u64);
        let Some(bytes) = own.checked_mul(self.chunk) else {
            return Err(no_memory(self.bytes, "a workspace is longer than memory can be"));
        };
        if bytes == 0 {
            return Ok(GlobalAddress::NULL);
        }
        let part = self.world.malloc(bytes as usize, me)?;
        self.world.local().span(part, bytes)?.clear(0, bytes)?;
        Ok(part)
    }

    fn free_own(&self, part: GlobalAddress) -> Result<()> {
        let freed = if part.is_null() { Ok(()) } else { self.world.free(part) };
        if self.world.rank() == 0 {
            self.world.free(self.table)?;
        }
        freed
    }

    /// Frees it. Collective.
    pub fn destroy(self) -> Result<()> {
        self.world.sync()?;
        self.free_own(self.parts.addresses[self.world.rank() as usize])
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The length of its chunks.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk as usize
    }

    /// Its chunks, in order.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + '_ {
        self.pieces(0, self.bytes)
    }

    /// The parts of chunks that a range is made of; the range must be inside.
    fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Chunk> + '_ {
        let (mut at, end) = (offset, offset + bytes);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (number, inside) = (at / self.chunk, at % self.chunk);
            let ranks = self.parts.addresses.len() as u64;
            let rank = (self.start as u64 + number) % ranks;
            let address = self.parts.addresses[rank as usize].add(number / ranks * self.chunk + inside);
            let bytes = (self.chunk - inside).min(end - at);
            at += bytes;
            Some(Chunk { address, rank: rank as u32, bytes: bytes as usize })
        })
    }

    fn check(&self, offset: u64, bytes: u64) -> Result<()> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        let wrong = format!("{bytes} bytes at {offset} of a workspace of {}", self.bytes);
        self.world.note(Err(Error::Misuse(wrong)))
    }

    /// Copies bytes from an offset on to any place in global memory.
    pub fn read_to(&self, offset: usize, place: GlobalAddress, bytes: usize) -> Result<()> {
        let (offset, bytes) = (offset as u64, bytes as u64);
        self.check(offset, bytes)?;
        self.copy_all(offset, place, bytes, |there, here| (here, there))
    }

    /// Copies bytes of any place in global memory to an offset.
    pub fn write_from(&self, offset: usize, place: GlobalAddress, bytes: usize) -> Result<()> {
        let (offset, bytes) = (offset as u64, bytes as u64);
        self.check(offset, bytes)?;
        self.copy_all(offset, place, bytes, |there, here| (there, here))
    }

    /// Copies between chunks and a place, many at the same time. `direct` gives destination and source.
    fn copy_all(
        &self,
        offset: u64,
        mut place: GlobalAddress,
        bytes: u64,
        direct: impl Fn(GlobalAddress, GlobalAddress) -> (GlobalAddress, GlobalAddress),
    ) -> Result<()> {
        let mut handles: std::collections::VecDeque<Handle> = std::collections::VecDeque::new();
        let mut copied = Ok(());
        for piece in self.pieces(offset, bytes) {
            let (to, from) = direct(piece.address, place);
            match self.world.copy(to, from, piece.bytes, Order::None) {
                Ok(handle) => handles.push_back(handle),
                Err(error) => {
                    copied = Err(error);
                    break;
                }
            }
            place = place.add(piece.bytes as u64);
            if handles.len() >= WINDOW {
                let oldest = handles.pop_front().map_or(Ok(()), |handle| self.world.complete_one(handle));
                copied = oldest.and(copied);
            }
        }
        handles.into_iter().fold(copied, |copied, handle| self.world.complete_one(handle).and(copied))
    }

    /// Reads bytes from an offset on.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.check(offset as u64, into.len() as u64)?;
        if !self.is_worth_borrowing(offset as u64, into.len() as u64) {
            return self.read_in_turn(offset as u64, into);
        }
        let borrowed = BORROWED.min(into.len() as u64);
        let Some(place) = self.world.try_malloc(borrowed, self.world.rank()) else {
            return self.read_in_turn(offset as u64, into);
        };
        let mut at = offset;
        let mut read = Ok(());
        for piece in into.chunks_mut(borrowed as usize) {
            read = read.and_then(|()| self.read_to(at, place, piece.len()));
            read = read.and_then(|()| self.world.get_slice(GlobalPtr::from_address(place), piece));
            at += piece.len();
        }
        self.world.free(place).and(read)
    }

    /// Writes bytes to an offset.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.check(offset as u64, from.len() as u64)?;
        if !self.is_worth_borrowing(offset as u64, from.len() as u64) {
            return self.write_in_turn(offset as u64, from);
        }
        let borrowed = BORROWED.min(from.len() as u64);
        let Some(place) = self.world.try_malloc(borrowed, self.world.rank()) else {
            return self.write_in_turn(offset as u64, from);
        };
        let mut at = offset;
        let mut written = Ok(());
        for piece in from.chunks(borrowed as usize) {
            written = written.and_then(|()| self.world.put_slice(GlobalPtr::from_address(place), piece));
            written = written.and_then(|()| self.write_from(at, place, piece.len()));
            at += piece.len();
        }
        self.world.free(place).and(written)
    }

    /// Whether several pieces are on other nodes: they are copied at the same time, from or to memory that can be named.
    fn is_worth_borrowing(&self, offset: u64, bytes: u64) -> bool {
        let local = self.world.local();
        self.pieces(offset, bytes).filter(|piece| !local.is_near(piece.rank)).nth(1).is_some()
    }

    fn read_in_turn(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut rest = into;
        for piece in self.pieces(offset, rest.len() as u64) {
            let (part, after) = rest.split_at_mut(piece.bytes);
            self.world.get_slice(GlobalPtr::from_address(piece.address), part)?;
            rest = after;
        }
        Ok(())
    }

    fn write_in_turn(&self, offset: u64, from: &[u8]) -> Result<()> {
        let mut rest = from;
        for piece in self.pieces(offset, rest.len() as u64) {
            let (part, after) = rest.split_at(piece.bytes);
            self.world.put_slice(GlobalPtr::from_address(piece.address), part)?;
            rest = after;
        }
        Ok(())
    }
}

fn no_memory(asked: u64, what: &'static str) -> Error {
    Error::OutOfMemory { asked, left: 0, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_parts_is_in_the_ledger_while_somebody_has_it() {
        let world = World::init().unwrap();
        let booked = || world.ledger().of(Purpose::Directory);
        let workspace = Workspace::shared(&world, 1000).unwrap();
        assert_eq!(booked(), 8);
        let raw = workspace.into_raw();
        let again = Workspace::from_raw(&world, raw.clone());
        again.write(990, b"0123456789").unwrap();
        assert_eq!(booked(), 8);
        again.destroy().unwrap();
        assert_eq!(booked(), 8, "the clone has it");
        drop(raw);
        assert_eq!(booked(), 0);
        world.finalize().unwrap();
    }
}
