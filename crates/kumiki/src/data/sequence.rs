//! A vector or a deque as its handle sees it, in bytes: worked on directly when it is on this node, by its owner otherwise.
//!
//! An operation is one call, with its data in the request. Data that is longer than [`CALL_BYTES`] is copied to its place
//! instead, between a call that makes room for it and none after: the number of messages does not depend on the length.

use super::ring::{apply, Done, Kind, Op, Ring, Shape, END};
use crate::{Error, GlobalAddress, GlobalPtr, Order, Pod, Result, World};
use std::ops::Range;

/// Data up to this length travels in a request or a reply.
pub(crate) const CALL_BYTES: u64 = 64 << 10;

/// A handle to a sequence of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Sequence<'w> {
    pub(crate) world: &'w World,
    pub(crate) kind: Kind,
    pub(crate) address: GlobalAddress,
}

impl<'w> Sequence<'w> {
    /// Makes one on a rank: a vector of this size, a deque of this capacity.
    pub(crate) fn create(world: &'w World, kind: Kind, bytes: u64, rank: u32) -> Result<Self> {
        world.note(world.local().check_alive(rank))?;
        let somewhere = Sequence { world, kind, address: world.local().pool_address(rank, 0) };
        let done = somewhere.apply(Op::Create(bytes))?;
        Ok(Sequence { address: GlobalAddress::from_bits(done.at), ..somewhere })
    }

    /// The bytes of so many elements.
    #[inline]
    pub(crate) fn bytes_of<T>(&self, count: usize) -> Result<u64> {
        self.world.note(bytes_of_count::<T>(count))
    }

    /// The bytes of a range of elements: where they begin, and how many they are.
    pub(crate) fn bytes_of_range<T>(&self, range: &Range<usize>) -> Result<(u64, u64)> {
        self.world.note(bytes_of_range::<T>(range))
    }

    pub(crate) fn rank(&self) -> u32 {
        self.world.local().rank_of(self.address)
    }

    fn is_near(&self) -> bool {
        self.world.local().is_near(self.rank())
    }

    /// The sequence itself, when it is on this node.
    fn ring(&self) -> Result<Ring<'w>> {
        self.world.note(Ring::open(self.world.local(), self.kind, self.address))
    }

    pub(crate) fn apply(&self, op: Op<'_>) -> Result<Done> {
        self.apply_and_read(op).map(|(done, _)| done)
    }

    fn apply_and_read(&self, op: Op<'_>) -> Result<(Done, Vec<u8>)> {
        if self.address.is_null() {
            return self.world.note(Err(Error::Misuse("the null address is no vector or deque".into())));
        }
        if self.is_near() {
            let mut read = Vec::new();
            let done = apply(self.world.local(), self.kind, self.address, op, &mut read);
            return self.world.note(done).map(|done| (done, read));
        }
        Done::decode(self.world.call(self.rank(), self.kind.service(), op.encode(self.address))?)
    }

    pub(crate) fn shape(&self) -> Result<Shape> {
        if self.is_near() {
            return self.ring().map(|ring| ring.shape());
        }
        self.apply(Op::Look).map(|done| done.shape)
    }

    /// Where the bytes of a range are: one piece, or two when they wrap.
    pub(crate) fn locate(&self, at: u64, bytes: u64) -> Result<[(GlobalAddress, u64); 2]> {
        let shape = self.shape()?;
        if at.checked_add(bytes).is_none_or(|end| end > shape.size) {
            let wrong = format!("{bytes} bytes at {at} of a sequence of {}", shape.size);
            return self.world.note(Err(Error::Misuse(wrong)));
        }
        Ok(places(shape, at, bytes))
    }

    /// Puts data before an index; gives the index.
    pub(crate) fn insert(&self, at: u64, data: &[u8]) -> Result<u64> {
        let bytes = data.len() as u64;
        if self.is_near() || bytes <= CALL_BYTES {
            return self.apply(Op::Insert { at, bytes, data: Some(data) }).map(|done| done.at);
        }
        self.insert_by(at, bytes, |place, from, count| {
            let piece = &data[from as usize..(from + count) as usize];
            self.world.put_slice(GlobalPtr::from_address(place), piece)
        })
    }

    /// Puts what lies at an address anywhere before an index; gives the index.
    pub(crate) fn insert_from(&self, at: u64, source: GlobalAddress, bytes: u64) -> Result<u64> {
        if bytes <= CALL_BYTES || self.overlaps(source, bytes)? {
            return self.insert(at, &fetch(self.world, source, bytes)?);
        }
        self.insert_pieces(at, [(source, bytes), (source, 0)])
    }

    /// Puts pieces that lie anywhere before an index, one behind the other.
    fn insert_pieces(&self, at: u64, pieces: [(GlobalAddress, u64); 2]) -> Result<u64> {
        let [(first, head), (second, tail)] = pieces;
        self.insert_by(at, head + tail, |place, from, count| {
            let cut = head.clamp(from, from + count) - from;
            if cut > 0 {
                copy(self.world, place, first.add(from), cut)?;
            }
            if cut < count {
                copy(self.world, place.add(cut), second.add(from + cut - head), count - cut)?;
            }
            Ok(())
        })
    }

    /// Makes room, and lets the pieces of it be filled: (where, from which byte, how many).
    fn insert_by(
        &self,
        at: u64,
        bytes: u64,
        fill: impl Fn(GlobalAddress, u64, u64) -> Result<()>,
    ) -> Result<u64> {
        let done = self.apply(Op::Insert { at, bytes, data: None })?;
        let mut from = 0;
        for (place, count) in places(done.shape, done.at, bytes) {
            let filled = if count > 0 { fill(place, from, count) } else { Ok(()) };
            if let Err(error) = filled {
                let _ = self.apply(Op::Erase { at: done.at, bytes, give: false });
                return Err(error);
            }
            from += count;
        }
        Ok(done.at)
    }

    /// Whether an address range lies in this sequence, which moves when it grows.
    fn overlaps(&self, source: GlobalAddress, bytes: u64) -> Result<bool> {
        let Shape { body, capacity, .. } = self.shape()?;
        let (start, end) = (source.bits(), source.bits().saturating_add(bytes));
        Ok(start < body.bits().saturating_add(capacity) && body.bits() < end)
    }

    pub(crate) fn erase(&self, at: u64, bytes: u64) -> Result<Shape> {
        self.apply(Op::Erase { at, bytes, give: false }).map(|done| done.shape)
    }

    /// Takes bytes out; at [`END`], the last ones. Nothing if there are too few.
    pub(crate) fn take(&self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        self.apply_and_read(Op::Erase { at, bytes, give: true }).map(|(_, read)| read)
    }

    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        if self.is_near() {
            return self.world.note(self.ring()?.read(at, into));
        }
        let bytes = into.len() as u64;
        if bytes <= CALL_BYTES {
            into.copy_from_slice(&self.apply_and_read(Op::Read { at, bytes })?.1);
            return Ok(());
        }
        let mut rest = into;
        for (place, count) in self.locate(at, bytes)? {
            let (piece, after) = rest.split_at_mut(count as usize);
            self.world.get_slice(GlobalPtr::from_address(place), piece)?;
            rest = after;
        }
        Ok(())
    }

    pub(crate) fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        if self.is_near() {
            return self.world.note(self.ring()?.write(at, data));
        }
        let bytes = data.len() as u64;
        if bytes <= CALL_BYTES {
            return self.apply(Op::Write { at, data }).map(drop);
        }
        let mut rest = data;
        for (place, count) in self.locate(at, bytes)? {
            let (piece, after) = rest.split_at(count as usize);
            self.world.put_slice(GlobalPtr::from_address(place), piece)?;
            rest = after;
        }
        Ok(())
    }

    pub(crate) fn assign(&self, data: &[u8]) -> Result<()> {
        if self.is_near() || data.len() as u64 <= CALL_BYTES {
            return self.apply(Op::Assign(data)).map(drop);
        }
        self.replace(data.len() as u64, |block| self.world.put_slice(GlobalPtr::from_address(block), data))
    }

    /// Becomes a copy of a range of another sequence, or of itself.
    pub(crate) fn assign_range(&self, other: &Sequence<'_>, at: u64, bytes: u64) -> Result<()> {
        if bytes <= CALL_BYTES || other.address == self.address {
            return self.assign(&other.bytes(at, bytes)?);
        }
        let pieces = other.locate(at, bytes)?;
        self.replace(bytes, |block| copy_pieces(self.world, block, pieces))
    }

    /// Puts a range of another sequence, or of this one, before an index; gives the index.
    pub(crate) fn insert_range(&self, to: u64, other: &Sequence<'_>, at: u64, bytes: u64) -> Result<u64> {
        if bytes <= CALL_BYTES || other.address == self.address {
            return self.insert(to, &other.bytes(at, bytes)?);
        }
        self.insert_pieces(to, other.locate(at, bytes)?)
    }

    /// Bytes of a range.
    pub(crate) fn bytes(&self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        if self.is_near() || bytes > CALL_BYTES {
            // What cannot be there is not allocated for.
            self.locate(at, bytes)?;
            let mut read = vec![0; bytes as usize];
            self.read(at, &mut read)?;
            return Ok(read);
        }
        self.apply_and_read(Op::Read { at, bytes }).map(|(_, read)| read)
    }

    /// Replaces everything by a new block, which is filled first.
    fn replace(&self, bytes: u64, fill: impl FnOnce(GlobalAddress) -> Result<()>) -> Result<()> {
        let block = self.world.malloc(bytes.next_multiple_of(8) as usize, self.rank())?;
        let replaced = fill(block).and_then(|()| self.apply(Op::Adopt { block, size: bytes }));
        if let Err(error) = replaced {
            let _ = self.world.free(block);
            return Err(error);
        }
        Ok(())
    }

    /// Exchanges what two sequences hold. On one rank the headers are exchanged; otherwise the bytes change places.
    pub(crate) fn swap(&self, other: &Sequence<'_>) -> Result<()> {
        if self.rank() == other.rank() {
            return self.apply(Op::Swap(other.address)).map(drop);
        }
        let (mine, theirs) = (self.shape()?, other.shape()?);
        let mut blocks = [GlobalAddress::NULL; 2];
        let prepared = (|| {
            for (block, rank, size) in [(0, self.rank(), theirs.size), (1, other.rank(), mine.size)] {
                blocks[block] = self.world.malloc(size.next_multiple_of(8).max(8) as usize, rank)?;
            }
            copy_pieces(self.world, blocks[0], places(theirs, 0, theirs.size))?;
            copy_pieces(self.world, blocks[1], places(mine, 0, mine.size))
        })();
        let [first, second] = blocks;
        let swapped = prepared.and_then(|()| {
            self.apply(Op::Adopt { block: first, size: theirs.size })?;
            blocks[0] = GlobalAddress::NULL;
            other.apply(Op::Adopt { block: second, size: mine.size })?;
            blocks[1] = GlobalAddress::NULL;
            Ok(())
        });
        for block in blocks.into_iter().filter(|block| !block.is_null()) {
            let _ = self.world.free(block);
        }
        swapped
    }
}

/// The addresses of a range of a shape.
fn places(shape: Shape, at: u64, bytes: u64) -> [(GlobalAddress, u64); 2] {
    shape.pieces(at, bytes).map(|(offset, count)| (shape.body.add(offset), count))
}

/// What lies at an address anywhere.
fn fetch(world: &World, source: GlobalAddress, bytes: u64) -> Result<Vec<u8>> {
    world.get_vec(GlobalPtr::from_address(source), bytes as usize)
}

/// A copy that is complete when this returns.
fn copy(world: &World, to: GlobalAddress, from: GlobalAddress, bytes: u64) -> Result<()> {
    let handle = world.copy(to, from, bytes as usize, Order::None)?;
    world.complete_one(handle)
}

/// Copies pieces to one place, one behind the other, at the same time.
fn copy_pieces(world: &World, mut to: GlobalAddress, pieces: [(GlobalAddress, u64); 2]) -> Result<()> {
    let mut copied = Ok(());
    let mut handles = [None, None];
    for (handle, (from, bytes)) in handles.iter_mut().zip(pieces) {
        if bytes > 0 && copied.is_ok() {
            copied = world.copy(to, from, bytes as usize, Order::None).map(|issued| *handle = Some(issued));
        }
        to = to.add(bytes);
    }
    for handle in handles.into_iter().flatten() {
        copied = world.complete_one(handle).and(copied);
    }
    copied
}

/// The bytes of so many elements.
pub(crate) fn bytes_of_count<T>(count: usize) -> Result<u64> {
    const { assert!(std::mem::size_of::<T>() > 0, "elements of no bytes cannot be counted") };
    let bytes = (count as u64).checked_mul(std::mem::size_of::<T>() as u64).filter(|&bytes| bytes < END);
    bytes.ok_or_else(|| Error::Misuse(format!("{count} elements are more than memory can hold")))
}

/// The index and the bytes of a range of elements.
fn bytes_of_range<T>(range: &Range<usize>) -> Result<(u64, u64)> {
    let count = range.end.checked_sub(range.start);
    let count = count.ok_or_else(|| Error::Misuse(format!("the range {range:?} ends before it begins")))?;
    Ok((bytes_of_count::<T>(range.start)?, bytes_of_count::<T>(count)?))
}

/// One element from its bytes, if there are any.
pub(crate) fn element<T: Pod>(bytes: &[u8]) -> Option<T> {
    (!bytes.is_empty()).then(|| bytemuck::pod_read_unaligned(bytes))
}

/// What vectors and deques do alike, in elements.
macro_rules! typed_sequence {
    ($name:ident, $word:literal) => {
        impl<'w, T: Pod> $name<'w, T> {
            #[doc = concat!("The ", $word, " whose header is at an address that [`address`](Self::address) gave, on \
                             whichever rank.")]
            pub fn from_address(world: &'w World, address: GlobalAddress) -> Self {
                Self::new(Sequence { world, kind: Kind::$name, address })
            }

            #[doc = concat!("Makes a ", $word, " as `create` does, for all ranks: each gets a handle to the same. Collective: all \
                             ranks call it with the same arguments; if they do not, every rank gets an error.")]
            pub fn shared(world: &'w World, place: On) -> Result<Self> {
                let wish = Wish::of::<T>(concat!("a ", $word), place);
                share(world, wish, || Self::create(world, place))
            }

            /// The address of the header: what other ranks need to use it.
            pub fn address(&self) -> GlobalAddress {
                self.sequence.address
            }

            /// The rank that it lives on.
            pub fn rank(&self) -> Rank {
                self.sequence.rank()
            }

            /// The same bytes, seen as elements of another type.
            pub fn cast<U: Pod>(self) -> $name<'w, U> {
                $name::new(self.sequence)
            }

            /// How many elements it holds.
            pub fn len(&self) -> Result<usize> {
                Ok((self.sequence.shape()?.size / self.sequence.bytes_of::<T>(1)?) as usize)
            }

            /// Whether it holds none.
            pub fn is_empty(&self) -> Result<bool> {
                Ok(self.sequence.shape()?.size == 0)
            }

            /// How many elements fit before it must move to a longer block.
            pub fn capacity(&self) -> Result<usize> {
                Ok((self.sequence.shape()?.capacity / self.sequence.bytes_of::<T>(1)?) as usize)
            }

            /// Reads elements from an index on.
            pub fn read(&self, index: usize, into: &mut [T]) -> Result<()> {
                self.sequence.read(self.sequence.bytes_of::<T>(index)?, bytemuck::cast_slice_mut(into))
            }

            /// Writes elements from an index on; they must be there.
            pub fn write(&mut self, index: usize, values: &[T]) -> Result<()> {
                self.sequence.write(self.sequence.bytes_of::<T>(index)?, bytemuck::cast_slice(values))
            }

            /// Changes one element.
            pub fn set(&mut self, index: usize, value: T) -> Result<()> {
                self.write(index, &[value])
            }

            /// All elements.
            pub fn to_vec(&self) -> Result<Vec<T>> {
                let mut values = vec![T::zeroed(); self.len()?];
                self.read(0, &mut values)?;
                Ok(values)
            }

            /// All elements, one after the other, fetched in large pieces.
            pub fn iter(&self) -> Elements<'w, T> {
                Elements::new(self.sequence)
            }

            /// Adds elements at the end.
            pub fn extend(&mut self, values: &[T]) -> Result<()> {
                self.sequence.insert(END, bytemuck::cast_slice(values)).map(drop)
            }

            /// Adds elements at the end that lie anywhere in global memory.
            pub fn extend_from(&mut self, source: GlobalPtr<T>, count: usize) -> Result<()> {
                self.sequence.insert_from(END, source.address(), self.sequence.bytes_of::<T>(count)?).map(drop)
            }

            /// Takes the last element, if there is one.
            pub fn pop(&mut self) -> Result<Option<T>> {
                self.sequence.take(END, self.sequence.bytes_of::<T>(1)?).map(|bytes| element(&bytes))
            }

            /// Takes so many elements off the end, unread; they must be there.
            pub fn drop_back(&mut self, count: usize) -> Result<()> {
                self.sequence.erase(END, self.sequence.bytes_of::<T>(count)?).map(drop)
            }

            /// Puts elements before the one at an index.
            pub fn insert(&mut self, index: usize, values: &[T]) -> Result<()> {
                self.sequence.insert(self.sequence.bytes_of::<T>(index)?, bytemuck::cast_slice(values)).map(drop)
            }

            /// Puts elements that lie anywhere in global memory before the one at an index. They may be its own.
            pub fn insert_from(&mut self, index: usize, source: GlobalPtr<T>, count: usize) -> Result<()> {
                let (at, bytes) = (self.sequence.bytes_of::<T>(index)?, self.sequence.bytes_of::<T>(count)?);
                self.sequence.insert_from(at, source.address(), bytes).map(drop)
            }

            /// Puts a range of another one before the element at an index.
            pub fn insert_range(&mut self, index: usize, other: &$name<'_, T>, range: Range<usize>) -> Result<()> {
                let (at, bytes) = self.sequence.bytes_of_range::<T>(&range)?;
                self.sequence.insert_range(self.sequence.bytes_of::<T>(index)?, &other.sequence, at, bytes).map(drop)
            }

            /// Takes a range of elements out.
            pub fn erase(&mut self, range: Range<usize>) -> Result<()> {
                let (at, bytes) = self.sequence.bytes_of_range::<T>(&range)?;
                self.sequence.erase(at, bytes).map(drop)
            }

            /// Replaces everything.
            pub fn assign(&mut self, values: &[T]) -> Result<()> {
                self.sequence.assign(bytemuck::cast_slice(values))
            }

            /// Becomes a copy of a range of another one, or of a range of its own: see
            /// [`from_address`](Self::from_address) for a second handle.
            pub fn assign_range(&mut self, other: &$name<'_, T>, range: Range<usize>) -> Result<()> {
                let (at, bytes) = self.sequence.bytes_of_range::<T>(&range)?;
                self.sequence.assign_range(&other.sequence, at, bytes)
            }

            /// Becomes a copy of another one.
            pub fn assign_all(&mut self, other: &$name<'_, T>) -> Result<()> {
                self.sequence.assign_range(&other.sequence, 0, other.sequence.shape()?.size)
            }

            /// Takes everything out. The capacity stays.
            pub fn clear(&mut self) -> Result<()> {
                self.sequence.apply(Op::Clear).map(drop)
            }

            /// Makes room for so many elements in all.
            pub fn reserve(&mut self, count: usize) -> Result<()> {
                self.sequence.apply(Op::Reserve(self.sequence.bytes_of::<T>(count)?)).map(drop)
            }

            /// Exchanges what two of them hold; each stays on its rank. On one rank nothing is copied.
            pub fn swap(&mut self, other: &mut $name<'_, T>) -> Result<()> {
                self.sequence.swap(&other.sequence)
            }

            /// Frees its memory. Dropping a handle does not: other ranks may go on using it.
            pub fn destroy(self) -> Result<()> {
                self.sequence.apply(Op::Destroy).map(drop)
            }
        }

        impl<'w, T: Pod> Handed<'w> for $name<'w, T> {
            fn words(&self) -> [u64; 3] {
                [self.address().bits(), 0, 0]
            }

            fn open(world: &'w World, words: [u64; 3]) -> Result<Self> {
                Ok(Self::from_address(world, GlobalAddress::from_bits(words[0])))
            }

            fn discard(self) -> Result<()> {
                self.destroy()
            }
        }

        impl<T: Pod> std::fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:#x} on rank {})", stringify!($name), self.address(), self.rank())
            }
        }

        impl<'w, T: Pod> IntoIterator for &$name<'w, T> {
            type Item = Result<T>;
            type IntoIter = Elements<'w, T>;

            fn into_iter(self) -> Elements<'w, T> {
                self.iter()
            }
        }
    };
}
pub(crate) use typed_sequence;

/// The elements of a vector or a deque, one after the other. They are fetched in large pieces: what changes meanwhile may
/// or may not be seen. It ends after an error.
pub struct Elements<'w, T> {
    sequence: Sequence<'w>,
    fetched: std::vec::IntoIter<T>,
    next: u64,
    ended: bool,
}

impl<T> std::fmt::Debug for Elements<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Elements(of {:#x}, next byte {})", self.sequence.address, self.next)
    }
}

impl<'w, T: Pod> Elements<'w, T> {
    pub(crate) fn new(sequence: Sequence<'w>) -> Self {
        Elements { sequence, fetched: Vec::new().into_iter(), next: 0, ended: false }
    }

    fn fetch(&mut self) -> Result<()> {
        let each = bytes_of_count::<T>(1)?;
        let left = self.sequence.shape()?.size.saturating_sub(self.next) / each;
        let mut values = vec![T::zeroed(); left.min((CALL_BYTES / each).max(1)) as usize];
        self.sequence.read(self.next, bytemuck::cast_slice_mut(&mut values))?;
        self.next += values.len() as u64 * each;
        self.ended = values.is_empty();
        self.fetched = values.into_iter();
        Ok(())
    }
}

impl<T: Pod> Iterator for Elements<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if let Some(value) = self.fetched.next() {
            return Some(Ok(value));
        }
        if self.ended {
            return None;
        }
        if let Err(error) = self.fetch() {
            self.ended = true;
            return Some(Err(error));
        }
        self.fetched.next().map(Ok)
    }
}
