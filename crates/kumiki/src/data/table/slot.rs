//! A slot and its elements: the algorithms of all three kinds of table, over the memory of the slot's node.
//!
//! A slot is changed under its lock only. It is read without: whoever reads looks at the slot's version before and
//! after, and reads again with the lock if somebody was there. An element that is appended, or a count that is changed, is
//! one store to such a reader, who sees it or not: the version is only for what takes elements away.
//!
//! A SIGKILL between two stores leaves a list that can be walked from its head by the `next` links, with whole elements: an element is written before the one store that links it, and the one store
//! that unlinks it comes before everything else. What may be wrong then is the tail, the count and a `previous` link;
//! whoever takes over the lock makes them anew from the `next` links. At worst a block that was not linked yet, or not
//! freed yet, stays taken: one for each rank that is killed. A swap of two slots changes two heads: what it is about to do
//! stands in their tails and counts meanwhile, so that whoever takes over the locks completes it or undoes it.

use super::layout::*;
use crate::data::heap::{self, Heap};
use crate::{Error, GlobalAddress, Result};
use kumiki_mem::{Change, Local, Locked, Pool, PoolAddresses, PoolSpan};

/// What can be done with one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// The address of its element, or 0.
    Find = 1,
    /// Map: the bytes of its value and one more, or 0; the value goes to the sink.
    Get = 2,
    /// Map and set: 1 if it was not there, and now is; otherwise 0, and nothing changes.
    Insert = 3,
    /// Map: 1 if it was not there; otherwise 0, and the value is replaced.
    Put = 4,
    /// 0 if it was not there; otherwise 1, of a multiset how often it was.
    Remove = 5,
    /// Multiset: counts it so many times more; how often it is there then.
    Add = 6,
    /// Multiset: counts it once less; how often it was there.
    Take = 7,
    /// Multiset: how often it is there.
    Count = 8,
}

impl Op {
    pub(super) fn from_code(code: u8) -> Option<Op> {
        use Op::*;
        [Find, Get, Insert, Put, Remove, Add, Take, Count].into_iter().find(|&op| op as u8 == code)
    }

    /// Whether it changes nothing.
    #[inline]
    pub(super) fn only_reads(self) -> bool {
        matches!(self, Op::Find | Op::Get | Op::Count)
    }

    /// Whether it never adds an element.
    #[inline]
    fn only_removes(self) -> bool {
        matches!(self, Op::Remove | Op::Take)
    }

    /// Whether a value goes with it.
    pub(super) fn takes_value(self) -> bool {
        matches!(self, Op::Insert | Op::Put)
    }

    /// Whether tables of a kind know it.
    pub(super) fn suits(self, kind: Kind) -> bool {
        match self {
            Op::Find | Op::Remove => true,
            Op::Get | Op::Put => kind == Kind::Map,
            Op::Insert => kind != Kind::Multiset,
            Op::Add | Op::Take | Op::Count => kind == Kind::Multiset,
        }
    }
}

/// One key and what goes with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'k> {
    pub(crate) key: &'k [u8],
    /// Of [`Op::Insert`] and [`Op::Put`].
    pub(crate) value: &'k [u8],
    /// Of [`Op::Add`].
    pub(crate) number: u64,
}

/// Where the value goes that [`Op::Get`] finds.
pub(crate) trait Sink {
    /// Takes a value out of a span.
    fn take(&mut self, span: PoolSpan<'_>, at: u64, bytes: u64) -> Result<()>;
    /// Takes a value that came in a message.
    fn accept(&mut self, value: &[u8]);
    /// Where it is now, for [`undo`](Self::undo).
    #[inline]
    fn mark(&self) -> usize {
        0
    }
    /// Forgets what was taken since the mark.
    #[inline]
    fn undo(&mut self, _mark: usize) {}
}

/// For operations without a value.
impl Sink for () {
    #[inline]
    fn take(&mut self, _span: PoolSpan<'_>, _at: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn accept(&mut self, _value: &[u8]) {}
}

/// Takes what fits.
impl Sink for &mut [u8] {
    #[inline]
    fn take(&mut self, span: PoolSpan<'_>, at: u64, bytes: u64) -> Result<()> {
        let fits = self.len().min(bytes as usize);
        span.read(at, &mut self[..fits])
    }

    #[inline]
    fn accept(&mut self, value: &[u8]) {
        let fits = self.len().min(value.len());
        self[..fits].copy_from_slice(&value[..fits]);
    }
}

/// Appends it.
impl Sink for Vec<u8> {
    fn take(&mut self, span: PoolSpan<'_>, at: u64, bytes: u64) -> Result<()> {
        // What is read without the lock may be anything.
        if bytes > LARGEST_ITEM as u64 {
            return Err(damaged());
        }
        let start = self.len();
        self.resize(start + bytes as usize, 0);
        span.read(at, &mut self[start..])
    }

    fn accept(&mut self, value: &[u8]) {
        self.extend_from_slice(value);
    }

    fn mark(&self) -> usize {
        self.len()
    }

    fn undo(&mut self, mark: usize) {
        self.truncate(mark);
    }
}

#[cold]
fn damaged() -> Error {
    Error::Misuse("a table is damaged: somebody wrote into its slots or elements".into())
}

/// The slots of one entry of a directory, in the memory of a rank of this node.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a> {
    local: Local<'a>,
    pool: Pool<'a>,
    rank: u32,
    kind: Kind,
    nonce: u64,
    /// How bytes of the pool are addressed.
    addresses: PoolAddresses,
    /// The offset of the first slot.
    at: u64,
    /// How many there are.
    pub(super) count: u64,
}

impl<'a> Slots<'a> {
    /// Finds them; `None` if the table has been destroyed.
    #[inline]
    pub(super) fn open(local: Local<'a>, part: Part) -> Result<Option<Slots<'a>>> {
        let rank = local.rank_of(part.address);
        let pool = local.pool(rank)?;
        let addresses = local.pool_addresses(rank);
        let at = addresses.offset(part.address);
        let header = at.checked_sub(HEADER_BYTES).map(|at| pool.span().part(at, HEADER_BYTES));
        let Some(Ok(header)) = header else { return Ok(None) };
        if header.load(MARK_AT)? != part.kind.slots_mark() || header.load(NONCE_AT)? != part.nonce {
            return Ok(None);
        }
        let count = header.load(SLOTS_AT)?;
        Ok(Some(Slots { local, pool, rank, kind: part.kind, nonce: part.nonce, addresses, at, count }))
    }

    /// Where the version of a slot is: behind the slots.
    #[inline]
    fn version_at(&self, slot: u64) -> u64 {
        self.at + SLOT_BYTES * self.count + VERSION_BYTES * slot
    }

    /// Locks one; `None` if the table has been destroyed meanwhile.
    #[inline]
    pub(super) fn lock(&self, slot: u64) -> Result<Option<Slot<'a>>> {
        if slot >= self.count {
            return Err(Error::Misuse(format!("slot {slot} of a {} with {}", self.kind.name(), self.count)));
        }
        let at = self.at + SLOT_BYTES * slot;
        let span = self.pool.span();
        let held = self.local.lock(span.word(at)?)?;
        let inherited = held.is_inherited();
        if span.load(self.at - HEADER_BYTES + NONCE_AT)? != self.nonce {
            if inherited {
                held.leave();
            }
            return Ok(None);
        }
        // The pool may have grown while we waited, and with it the elements of this slot.
        let span = self.pool.span();
        let slot = Slot { slots: *self, span, at, held: Some(Held { change: None, lock: held }) };
        if inherited {
            return slot.repaired().map(Some);
        }
        Ok(Some(slot))
    }

    /// The row of the slot at this offset, which is the `index`-th there: one of a table with as many slots on this rank.
    fn row_of(&self, at: u64, index: u64) -> Result<Slots<'a>> {
        let row =
            at.checked_sub(SLOT_BYTES * index).filter(|&row| row >= HEADER_BYTES).ok_or_else(damaged)?;
        let nonce = self.pool.span().load(row - HEADER_BYTES + NONCE_AT)?;
        Ok(Slots { at: row, nonce, ..*self })
    }

    /// Says that an element will be added or removed soon: what that takes is fetched while the slot is.
    #[inline]
    fn prepare(&self, slot: u64, op: Op, item: Item<'_>) {
        if slot < self.count {
            self.pool.span().prepare(self.at + SLOT_BYTES * slot);
            if op.only_removes() {
                return self.pool.span().prepare(self.version_at(slot));
            }
        }
        heap::prepare(self.local, self.rank, self.element_bytes(item));
    }

    #[inline]
    fn element_bytes(&self, item: Item<'_>) -> u64 {
        self.kind.key_at() + (item.key.len() + item.value.len()) as u64
    }

    /// Does something with one key; `None` if the table has been destroyed.
    #[inline]
    pub(super) fn apply(
        &self,
        slot: u64,
        op: Op,
        item: Item<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<u64>> {
        if op.only_reads() {
            if let Some(found) = self.peek(slot, op, item, sink) {
                return Ok(Some(found));
            }
        } else {
            self.prepare(slot, op, item);
        }
        let Some(mut slot) = self.lock(slot)? else { return Ok(None) };
        slot.apply(op, item, sink).map(Some)
    }

    /// Does something that changes nothing, without the lock. `None` if that was not possible: somebody has the lock, or had
    /// it meanwhile, or the table is gone; with the lock it will be found out.
    #[inline]
    fn peek(&self, slot: u64, op: Op, item: Item<'_>, sink: &mut impl Sink) -> Option<u64> {
        self.look(slot, sink, |slot, sink| slot.apply(op, item, sink))
    }

    /// Reads a slot without its lock, as [`peek`](Self::peek) does; the sink has nothing more in it if that was not possible.
    #[inline]
    fn look<S: Sink, T>(
        &self,
        slot: u64,
        sink: &mut S,
        read: impl FnOnce(&mut Slot<'a>, &mut S) -> Result<T>,
    ) -> Option<T> {
        let (span, at) = (self.pool.span(), self.at + SLOT_BYTES * slot);
        let word = span.word(self.version_at(slot)).ok().filter(|_| slot < self.count)?;
        let version = self.local.version(word)?;
        let mark = sink.mark();
        // Links that change under us lead anywhere in the pool, and nowhere else.
        let found = read(&mut Slot { slots: *self, span, at, held: None }, sink);
        let nonce = span.load(self.at - HEADER_BYTES + NONCE_AT);
        match found {
            Ok(found)
                if nonce.is_ok_and(|nonce| nonce == self.nonce) && self.local.is_unchanged(word, version) =>
            {
                Some(found)
            }
            _ => {
                sink.undo(mark);
                None
            }
        }
    }

    /// The address of the element behind another one of a slot, or of the first one behind 0; 0 if there is none. `None` if
    /// the table has been destroyed.
    pub(super) fn after(&self, slot: u64, address: u64) -> Result<Option<u64>> {
        match self.look(slot, &mut (), |slot, ()| slot.after(address)) {
            None => self.lock(slot)?.map(|slot| slot.after(address)).transpose(),
            found => Ok(found),
        }
    }

    /// Writes elements of a slot to `into`, as [`Slot::list`] does; `None` if the table has been destroyed.
    pub(super) fn list(
        &self,
        slot: u64,
        skip: u64,
        limit: usize,
        into: &mut Vec<u8>,
    ) -> Result<Option<Option<u64>>> {
        match self.look(slot, into, |slot, into| slot.list(skip, limit, into)) {
            None => self.lock(slot)?.map(|slot| slot.list(skip, limit, into)).transpose(),
            listed => Ok(listed),
        }
    }

    /// Elements in all slots, as the counts say now; `None` if the table has been destroyed meanwhile.
    pub(super) fn elements(&self) -> Result<Option<u64>> {
        let span = self.pool.span();
        let mut sum = 0u64;
        for slot in 0..self.count {
            let at = self.at + SLOT_BYTES * slot;
            // Whoever holds the lock may be dead, and the count half-way.
            let waited = match span.load(at)? {
                0 => None,
                _ => match self.lock(slot)? {
                    None => return Ok(None),
                    locked => locked,
                },
            };
            sum = sum.wrapping_add(span.load(at + COUNT_AT)?);
            drop(waited);
        }
        Ok(Some(sum))
    }

    /// The first slot from `from` on that is not empty, as the heads say now; without locks.
    pub(super) fn first_used(&self, from: u64) -> Result<u64> {
        let span = self.pool.span();
        for slot in from..self.count {
            if span.load(self.at + SLOT_BYTES * slot + HEAD_AT)? != 0 {
                return Ok(slot);
            }
        }
        Ok(self.count)
    }

    /// From now on nobody finds the table here.
    pub(super) fn refuse(&mut self, nonce: u64) -> Result<()> {
        self.nonce = nonce;
        self.pool.span().store(self.at - HEADER_BYTES + NONCE_AT, nonce)
    }

    /// Gives their memory back; they must be empty.
    pub(super) fn release(self) -> Result<()> {
        let mut heap = Heap::open(self.local, self.rank)?;
        let header = self.pool.span().part(self.at - HEADER_BYTES, HEADER_BYTES)?;
        header.store(MARK_AT, 0)?;
        heap.free(GlobalAddress::from_bits(header.load(BLOCK_AT)?))
    }
}

/// Makes a row of empty slots in the memory of a rank of this node.
pub(super) fn make(local: Local<'_>, rank: u32, kind: Kind, nonce: u64, slots: u64) -> Result<GlobalAddress> {
    let bytes =
        slots.checked_mul(SLOT_BYTES + VERSION_BYTES).and_then(|bytes| bytes.checked_add(HEADER_BYTES));
    let too_many = || Error::Misuse(format!("a {} with {slots} slots on a rank", kind.name()));
    let bytes = bytes.filter(|&bytes| bytes < 1 << 60).ok_or_else(too_many)?;
    let block = heap::allocate(local, rank, bytes + ROW_ALIGNMENT)?;
    let row = (local.pool_offset(block) + HEADER_BYTES).next_multiple_of(ROW_ALIGNMENT);
    let header = local.pool_address(rank, row - HEADER_BYTES);
    let span = local.span(header, bytes)?;
    span.clear(0, bytes)?;
    span.store(BLOCK_AT, block.bits())?;
    span.store(SLOTS_AT, slots)?;
    span.store(NONCE_AT, nonce)?;
    span.store(MARK_AT, kind.slots_mark())?;
    Ok(header.add(HEADER_BYTES))
}

/// A slot whose lock we hold, or that we read and then see whether somebody held it meanwhile.
pub(super) struct Slot<'a> {
    slots: Slots<'a>,
    /// The whole pool.
    span: PoolSpan<'a>,
    /// The offset of the slot in the pool.
    at: u64,
    held: Option<Held<'a>>,
}

/// The lock of a slot. In this order: a change ends before the lock is freed.
struct Held<'a> {
    /// Whether those who read without the lock have been told that something changes.
    change: Option<Change<'a>>,
    lock: Locked<'a>,
}

impl<'a> Slot<'a> {
    /// The offset in the pool of an element whose address was found in memory.
    #[inline]
    fn offset(&self, address: u64) -> Result<u64> {
        let offset = self.slots.addresses.offset(GlobalAddress::from_bits(address));
        if offset < self.span.len() {
            Ok(offset)
        } else {
            Err(damaged())
        }
    }

    /// The address of an element, as it stands in memory.
    #[inline]
    fn address(&self, element: u64) -> u64 {
        self.slots.addresses.address(element).bits()
    }

    /// Tells those who read without the lock that elements are taken away, or links changed that they may be at.
    fn begin_change(&mut self) -> Result<()> {
        let index = (self.at - self.slots.at) / SLOT_BYTES;
        let version = self.span.word(self.slots.version_at(index))?;
        if let Some(held) = self.held.as_mut().filter(|held| held.change.is_none()) {
            held.change = Some(self.slots.local.begin_change(version));
        }
        Ok(())
    }

    #[inline]
    fn head(&self) -> Result<u64> {
        self.span.load(self.at + HEAD_AT)
    }

    /// Calls with the offset of each element, in the order of insertion, until that says true; gives that element.
    #[inline]
    fn walk(&self, mut wanted: impl FnMut(u64) -> Result<bool>) -> Result<Option<u64>> {
        let mut address = self.head()?;
        // More elements than the pool has room for: the list has been made a ring by somebody's stray write.
        let mut left = self.span.len() / 32;
        while address != 0 {
            let element = self.offset(address)?;
            if wanted(element)? {
                return Ok(Some(element));
            }
            address = self.span.load(element + NEXT_AT)?;
            left = left.checked_sub(1).ok_or_else(damaged)?;
        }
        Ok(None)
    }

    /// The element of a key.
    #[inline]
    fn find(&self, key: &[u8]) -> Result<Option<u64>> {
        let (span, kind) = (self.span, self.slots.kind);
        self.walk(|element| {
            Ok(span.load(element + kind.key_bytes_at())? == key.len() as u64
                && span.matches(element + kind.key_at(), key)?)
        })
    }

    /// Where the value of an element of a map is: offset and bytes.
    #[inline]
    fn value(&self, element: u64) -> Result<(u64, u64)> {
        let whole = self.span.load(element + THIRD_AT)?;
        let key_bytes = self.span.load(element + self.slots.kind.key_bytes_at())?;
        let bytes = whole.checked_sub(8).and_then(|bytes| bytes.checked_sub(key_bytes));
        match bytes {
            Some(bytes) if whole <= self.span.len() => Ok((element + 32 + key_bytes, bytes)),
            _ => Err(damaged()),
        }
    }

    /// Writes a whole element into a block; nothing leads to it yet.
    fn fill(&self, element: u64, item: Item<'_>, next: u64, previous: u64) -> Result<()> {
        let (span, kind) = (self.span, self.slots.kind);
        let key_bytes = item.key.len() as u64;
        span.store(element + NEXT_AT, next)?;
        span.store(element + PREVIOUS_AT, previous)?;
        match kind {
            Kind::Map => span.store(element + THIRD_AT, 8 + key_bytes + item.value.len() as u64)?,
            Kind::Set => {}
            Kind::Multiset => span.store(element + THIRD_AT, item.number)?,
        }
        span.store(element + kind.key_bytes_at(), key_bytes)?;
        span.write(element + kind.key_at(), item.key)?;
        span.write(element + kind.key_at() + key_bytes, item.value)
    }

    /// Appends an element for a key that is not there.
    fn append(&mut self, item: Item<'_>) -> Result<()> {
        let address =
            heap::allocate(self.slots.local, self.slots.rank, self.slots.element_bytes(item))?.bits();
        self.span = self.slots.pool.span();
        let tail = self.span.load(self.at + TAIL_AT)?;
        self.fill(self.offset(address)?, item, 0, tail)?;
        match tail {
            0 => self.span.store(self.at + HEAD_AT, address)?,
            tail => self.span.store(self.offset(tail)? + NEXT_AT, address)?,
        }
        self.span.store(self.at + TAIL_AT, address)?;
        self.add_to_count(1)
    }

    fn add_to_count(&self, change: i64) -> Result<()> {
        let count = self.span.load(self.at + COUNT_AT)?;
        self.span.store(self.at + COUNT_AT, count.wrapping_add_signed(change))
    }

    /// Makes `new` stand between the neighbours of an element: the store to its predecessor does it.
    fn relink(&self, element: u64, new: Option<u64>) -> Result<()> {
        let (next, previous) = (self.span.load(element + NEXT_AT)?, self.span.load(element + PREVIOUS_AT)?);
        match previous {
            0 => self.span.store(self.at + HEAD_AT, new.unwrap_or(next))?,
            previous => self.span.store(self.offset(previous)? + NEXT_AT, new.unwrap_or(next))?,
        }
        match next {
            0 => self.span.store(self.at + TAIL_AT, new.unwrap_or(previous)),
            next => self.span.store(self.offset(next)? + PREVIOUS_AT, new.unwrap_or(previous)),
        }
    }

    /// Takes an element out. The heap is locked before anything changes: a service may be run again until then.
    fn remove(&mut self, element: u64) -> Result<()> {
        let mut heap = Heap::open(self.slots.local, self.slots.rank)?;
        self.begin_change()?;
        self.relink(element, None)?;
        self.add_to_count(-1)?;
        heap.free(self.slots.addresses.address(element))
    }

    /// Puts another element in the place of one: its value is the old one or the new one, never a mixture.
    fn replace(&mut self, element: u64, item: Item<'_>) -> Result<()> {
        let mut heap = Heap::open(self.slots.local, self.slots.rank)?;
        let address = heap.allocate(self.slots.element_bytes(item))?.bits();
        self.span = self.slots.pool.span();
        let (next, previous) = (self.span.load(element + NEXT_AT)?, self.span.load(element + PREVIOUS_AT)?);
        self.fill(self.offset(address)?, item, next, previous)?;
        self.begin_change()?;
        self.relink(element, Some(address))?;
        heap.free(self.slots.addresses.address(element))
    }

    /// Does something with one key. Locks are taken before anything is changed.
    #[inline]
    pub(super) fn apply(&mut self, op: Op, item: Item<'_>, sink: &mut impl Sink) -> Result<u64> {
        let found = self.find(item.key)?;
        match (op, found) {
            (Op::Find, Some(element)) => Ok(self.address(element)),
            (Op::Get, Some(element)) => {
                let (at, bytes) = self.value(element)?;
                sink.take(self.span, at, bytes)?;
                Ok(bytes + 1)
            }
            (Op::Find | Op::Get | Op::Remove | Op::Take | Op::Count, None) => Ok(0),
            (Op::Insert, Some(_)) => Ok(0),
            (Op::Insert | Op::Put, None) => self.append(item).map(|()| 1),
            (Op::Put, Some(element)) => self.replace(element, item).map(|()| 0),
            (Op::Add, None) => match item.number {
                0 => Ok(0),
                number => self.append(item).map(|()| number),
            },
            (Op::Add, Some(element)) => {
                let count = self.span.load(element + THIRD_AT)?.saturating_add(item.number);
                self.span.store(element + THIRD_AT, count).map(|()| count)
            }
            (Op::Count, Some(element)) => self.span.load(element + THIRD_AT),
            (Op::Take, Some(element)) => {
                let count = self.span.load(element + THIRD_AT)?;
                match count {
                    0 | 1 => self.remove(element)?,
                    _ => self.span.store(element + THIRD_AT, count - 1)?,
                }
                Ok(count)
            }
            (Op::Remove, Some(element)) => {
                let count = match self.slots.kind {
                    Kind::Multiset => self.span.load(element + THIRD_AT)?,
                    Kind::Map | Kind::Set => 1,
                };
                self.remove(element).map(|()| count)
            }
        }
    }

    /// Removes everything, from the head on; gives how many there were.
    pub(super) fn clear(&mut self) -> Result<u64> {
        let mut removed = 0;
        if self.head()? == 0 {
            return Ok(removed);
        }
        let mut heap = Heap::open(self.slots.local, self.slots.rank)?;
        self.begin_change()?;
        loop {
            let head = self.head()?;
            if head == 0 {
                self.span.store(self.at + TAIL_AT, 0)?;
                self.span.store(self.at + COUNT_AT, 0)?;
                return Ok(removed);
            }
            let next = self.span.load(self.offset(head)? + NEXT_AT)?;
            self.span.store(self.at + HEAD_AT, next)?;
            heap.free(GlobalAddress::from_bits(head))?;
            // Freeing may cut the pool, but not below elements that are still there.
            removed += 1;
        }
    }

    /// Writes the elements behind the first `skip` to `into`, until it has `limit` bytes: number, key and value of each.
    /// Gives how many elements it has passed, or `None` at the end of the list.
    fn list(&self, skip: u64, limit: usize, into: &mut Vec<u8>) -> Result<Option<u64>> {
        let kind = self.slots.kind;
        let mut passed = 0;
        let stopped = self.walk(|element| {
            if passed >= skip {
                if into.len() >= limit {
                    return Ok(true);
                }
                let number = if kind == Kind::Multiset { self.span.load(element + THIRD_AT)? } else { 0 };
                let key_bytes = self.span.load(element + kind.key_bytes_at())?;
                into.extend_from_slice(&number.to_le_bytes());
                into.extend_from_slice(&key_bytes.to_le_bytes());
                into.take(self.span, element + kind.key_at(), key_bytes)?;
                let (at, bytes) = if kind == Kind::Map { self.value(element)? } else { (element, 0) };
                into.extend_from_slice(&bytes.to_le_bytes());
                into.take(self.span, at, bytes)?;
            }
            passed += 1;
            Ok(false)
        })?;
        Ok(stopped.map(|_| passed))
    }

    /// The address of the element behind another one of this slot, or of the first one behind 0; 0 if there is none.
    fn after(&self, address: u64) -> Result<u64> {
        if address == 0 {
            return self.head();
        }
        // The list is looked through, because the element may have been removed, and its memory be something else's.
        let element = self.walk(|element| Ok(self.address(element) == address))?;
        element.map_or(Ok(0), |element| self.span.load(element + NEXT_AT))
    }

    /// Exchanges all elements with another slot of the same rank, whose offset is higher. What is about to be done stands in
    /// both before the store to the head of this one decides it; see [`settle`](Self::settle).
    pub(super) fn swap(&mut self, other: &mut Slot<'a>) -> Result<()> {
        let words = |slot: &Slot<'_>| -> Result<[u64; 3]> {
            let load = |at| slot.span.load(slot.at + at);
            Ok([load(HEAD_AT)?, load(TAIL_AT)?, load(COUNT_AT)?])
        };
        let (mine, theirs) = (words(self)?, words(other)?);
        if mine[0] == theirs[0] {
            return Ok(());
        }
        self.begin_change()?;
        other.begin_change()?;
        for (slot, partner, head) in [(&*self, other.at, theirs[0]), (&*other, self.at, mine[0])] {
            slot.span.store(slot.at + TAIL_AT, head)?;
            slot.span.store(slot.at + COUNT_AT, SWAPPING | partner)?;
        }
        self.span.store(self.at + HEAD_AT, theirs[0])?;
        other.span.store(other.at + HEAD_AT, mine[0])?;
        // The count first: a tail that is not what it was about to be must not be taken for it.
        for (slot, words) in [(&*other, mine), (&*self, theirs)] {
            slot.span.store(slot.at + COUNT_AT, words[2])?;
            slot.span.store(slot.at + TAIL_AT, words[1])?;
        }
        Ok(())
    }

    /// After a death in a swap: gives this slot the head that it had before, or that it should have got. The swap was
    /// done if the lower slot of the two has its new head. The lower one keeps what it says about the swap until the
    /// higher one is settled, so that it can be asked.
    fn settle(&self) -> Result<()> {
        let count = self.span.load(self.at + COUNT_AT)?;
        let partner = count & !SWAPPING;
        if count & SWAPPING == 0 {
            return Ok(());
        }
        if partner > self.at {
            // Whoever dies in a swap holds both locks: whoever takes the other over settles it, and it may be us.
            let index = (self.at - self.slots.at) / SLOT_BYTES;
            return self.slots.row_of(partner, index)?.lock(index).map(drop);
        }
        let of_partner = |at| self.span.load(partner + at);
        let names_us = of_partner(COUNT_AT)? == SWAPPING | self.at;
        if names_us && of_partner(HEAD_AT)? == of_partner(TAIL_AT)? {
            self.span.store(self.at + HEAD_AT, self.span.load(self.at + TAIL_AT)?)?;
        }
        Ok(())
    }

    /// Makes right what a dead holder of the lock left. If that cannot be done now, whoever comes next tries.
    #[cold]
    fn repaired(mut self) -> Result<Slot<'a>> {
        match self.repair() {
            Ok(()) => Ok(self),
            Err(error) => {
                if let Some(Held { change, lock }) = self.held.take() {
                    // Who reads without the lock must not think that all is well: the version stays as it is.
                    std::mem::forget(change);
                    lock.leave();
                }
                Err(error)
            }
        }
    }

    /// Makes tail, count and `previous` links anew.
    fn repair(&mut self) -> Result<()> {
        self.begin_change()?;
        self.settle()?;
        let (mut previous, mut count) = (0, 0);
        self.walk(|element| {
            self.span.store(element + PREVIOUS_AT, previous)?;
            previous = self.address(element);
            count += 1;
            Ok(false)
        })?;
        self.span.store(self.at + COUNT_AT, count)?;
        self.span.store(self.at + TAIL_AT, previous)
    }
}
