//! A table of any kind, from the side of whoever uses it: which part a key belongs to, and doing things there.

use super::directory::{Directory, Entry};
use super::layout::*;
use super::part;
use super::slot::{self, Item, Op, Sink};
use super::{Cursor, RawTable};
use crate::data::crc::crc64;
use crate::data::message::{Reader, Writer};
use crate::data::TABLE;
use crate::{Error, GlobalAddress, GlobalPtr, Result, World};
use kumiki_mem::{Call, Local};
use std::collections::hash_map::RandomState;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, OnceLock};

/// A handle, and where the parts are.
#[derive(Debug)]
pub(crate) struct Core<'w> {
    pub(crate) world: &'w World,
    pub(crate) kind: Kind,
    pub(crate) raw: RawTable,
    directory: Arc<Directory>,
    /// The directory of a new table in the place of an old one, if what was known of it was old.
    renewed: OnceLock<Arc<Directory>>,
    /// Whether the handle came from elsewhere, so that what is known of it may be old.
    foreign: bool,
}

/// Which parts something is done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    Everywhere,
    /// Only the parts in the memory of this rank.
    Mine,
}

impl Scope {
    #[inline]
    pub(super) fn has(self, world: &World, entry: &Entry) -> bool {
        self == Scope::Everywhere || entry.rank == world.rank()
    }
}

/// A reply to a request about one part; `None` if the table has been destroyed.
pub(crate) fn read_reply(reply: &[u8]) -> Result<Option<Reader<'_>>> {
    let mut reply = Reader::new(reply);
    Ok((reply.byte()? == part::DONE).then_some(reply))
}

impl<'w> Core<'w> {
    pub(crate) fn create(
        world: &'w World,
        kind: Kind,
        ranks: &[u32],
        slots: u64,
        rank: u32,
    ) -> Result<Core<'w>> {
        if ranks.is_empty() || slots == 0 {
            let what = format!("a {} needs at least one rank and one slot", kind.name());
            return world.note(Err(Error::Misuse(what)));
        }
        if let Some(wrong) = ranks.iter().chain([&rank]).find(|&&rank| rank >= world.ranks()) {
            let what = format!("there is no rank {wrong}: the last is {}", world.ranks() - 1);
            return world.note(Err(Error::Misuse(what)));
        }
        let booked = world.note(Directory::book(world, ranks.len() as u64))?;
        let block = world.malloc((HEADER_BYTES + 8 * ranks.len() as u64) as usize, rank)?;
        let address = block.add(HEADER_BYTES);
        let nonce = new_nonce(address);
        let made = world.note(make_parts(world, kind, nonce, address, ranks, slots));
        let written = made.and_then(|addresses| {
            let header = [kind.directory_mark(), nonce, ranks.len() as u64, slots];
            let words: Vec<u64> = header.into_iter().chain(addresses.iter().copied()).collect();
            match world.put_slice(GlobalPtr::from_address(block), &words) {
                Ok(()) => Ok(addresses),
                Err(error) => {
                    unmake_parts(world, kind, nonce, &addresses);
                    Err(error)
                }
            }
        });
        let addresses = match written {
            Ok(addresses) => addresses,
            Err(error) => {
                let _ = world.free(block);
                return Err(error);
            }
        };
        let raw = RawTable { address, ranks: ranks.len() as u64, slots };
        let directory = Arc::new(Directory::new(world, kind, nonce, slots, &addresses, booked));
        Ok(Core { world, kind, raw, directory, renewed: OnceLock::new(), foreign: false })
    }

    pub(crate) fn from_raw(world: &'w World, kind: Kind, raw: RawTable) -> Result<Core<'w>> {
        let directory = match world.tables().find(kind, raw) {
            Some(directory) => directory,
            None => world.tables().keep(raw, world.note(Directory::read(world, kind, raw))?),
        };
        Ok(Core { world, kind, raw, directory, renewed: OnceLock::new(), foreign: true })
    }

    pub(crate) fn destroy(self) -> Result<()> {
        let directory = self.current()?;
        // Nobody can find the table from here on.
        let block = GlobalAddress::from_bits(self.raw.address.bits() - HEADER_BYTES);
        self.world.put(GlobalPtr::from_address(block), 0u64)?;
        self.world.tables().forget(self.raw.address);
        let swept = self.sweep(&directory, Scope::Everywhere, part::UNMAKE, part::unmake);
        swept.and(self.world.free(block))
    }

    /// The directory as it was last read.
    #[inline]
    pub(crate) fn known(&self) -> &Arc<Directory> {
        self.renewed.get().unwrap_or(&self.directory)
    }

    /// The directory as it is now: read again, if the handle came from elsewhere.
    pub(crate) fn current(&self) -> Result<Arc<Directory>> {
        if !self.foreign {
            return Ok(self.directory.clone());
        }
        let fresh = self.world.note(Directory::read(self.world, self.kind, self.raw))?;
        if fresh.nonce == self.known().nonce {
            return Ok(self.known().clone());
        }
        let fresh = self.world.tables().keep(self.raw, fresh);
        // Only the first is remembered here: a handle that outlives more tables than that reads the directory each time.
        let _ = self.renewed.set(fresh.clone());
        Ok(fresh)
    }

    /// The same for a scope: for the parts of this rank it is known here whether the table still exists.
    pub(crate) fn current_for(&self, scope: Scope) -> Result<Arc<Directory>> {
        let is_here = |index| part::is_there(self.world.local(), self.known().part(index));
        let entries = || self.known().entries.iter().enumerate();
        let mut mine = entries().filter(|(_, entry)| Scope::Mine.has(self.world, entry));
        match scope == Scope::Mine && mine.all(|(index, _)| is_here(index)) {
            true => Ok(self.known().clone()),
            false => self.current(),
        }
    }

    /// Tries something with the directory that is known, and again with a new one if that is of a table that is gone.
    pub(crate) fn try_both<T>(&self, try_with: impl Fn(&Directory) -> Result<Option<T>>) -> Result<T> {
        let known = self.known().clone();
        if let Some(done) = self.world.note(try_with(&known))? {
            return Ok(done);
        }
        let fresh = self.current()?;
        let done = if fresh.nonce == known.nonce { None } else { self.world.note(try_with(&fresh))? };
        self.world.note(done.ok_or_else(|| part::destroyed(self.kind)))
    }

    /// Where a key belongs: the index of its part, and its slot.
    #[inline]
    pub(crate) fn place(&self, key: &[u8]) -> (usize, u64) {
        let hash = crc64(key) >> 16;
        ((hash / self.raw.slots % self.raw.ranks) as usize, hash % self.raw.slots)
    }

    /// Does something with one key, where it belongs: here, or in one round trip.
    #[inline]
    pub(crate) fn run(&self, op: Op, item: Item<'_>, sink: &mut impl Sink) -> Result<u64> {
        self.world.note(check_item(item))?;
        let (index, slot) = self.place(item.key);
        let known = self.known();
        if let Some(answer) = self.world.note(self.run_at(known, index, slot, op, item, sink))? {
            return Ok(answer);
        }
        self.run_again(known.nonce, index, slot, op, item, sink)
    }

    #[inline]
    fn run_at(
        &self,
        directory: &Directory,
        index: usize,
        slot: u64,
        op: Op,
        item: Item<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<u64>> {
        let (entry, part) = (&directory.entries[index], directory.part(index));
        if entry.near {
            return part::apply(self.world.local(), part, slot, op, item, sink);
        }
        let request = write_item(part.request(part::EXECUTE).byte(op as u8), slot, op, item);
        let reply = self.world.call(entry.rank, TABLE, request.finish())?;
        let Some(mut reply) = read_reply(&reply)? else { return Ok(None) };
        let (_done, answer) = (reply.long()?, reply.long()?);
        sink.accept(part::read_value(&mut reply, op, answer)?);
        Ok(Some(answer))
    }

    /// The table was not there: it has been destroyed, or this handle is of a new one in the place of an old one.
    #[cold]
    fn run_again(
        &self,
        old: u64,
        index: usize,
        slot: u64,
        op: Op,
        item: Item<'_>,
        sink: &mut impl Sink,
    ) -> Result<u64> {
        let fresh = self.current()?;
        let is_new = fresh.nonce != old;
        let answer = if is_new { self.run_at(&fresh, index, slot, op, item, sink) } else { Ok(None) };
        self.world.note(answer.and_then(|answer| answer.ok_or_else(|| part::destroyed(self.kind))))
    }

    /// Where a key is.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Cursor>> {
        let element = self.run(Op::Find, Item { key, value: &[], number: 0 }, &mut ())?;
        let (index, slot) = self.place(key);
        let cursor = Cursor { index: index as u64, slot, element: GlobalAddress::from_bits(element) };
        Ok((element != 0).then_some(cursor))
    }

    /// Elements of all parts, those of other nodes asked at the same time.
    pub(crate) fn size(&self, scope: Scope) -> Result<u64> {
        self.try_both(|directory| self.size_of(directory, scope))
    }

    fn size_of(&self, directory: &Directory, scope: Scope) -> Result<Option<u64>> {
        let (mut calls, mut sum) = (Vec::new(), 0u64);
        for (index, entry) in directory.entries.iter().enumerate() {
            if !scope.has(self.world, entry) {
                continue;
            }
            let part = directory.part(index);
            if entry.near {
                let Some(elements) = part::size(self.world.local(), part)? else { return Ok(None) };
                sum += elements;
            } else {
                let request = part.request(part::SIZE).finish();
                calls.push(self.world.start_call(entry.rank, TABLE, request)?);
            }
        }
        for call in calls {
            let reply = call.wait()?;
            let Some(mut reply) = read_reply(&reply)? else { return Ok(None) };
            sum += reply.long()?;
        }
        Ok(Some(sum))
    }

    pub(crate) fn clear(&self, scope: Scope) -> Result<()> {
        let directory = self.current_for(scope)?;
        self.sweep(&directory, scope, part::CLEAR, part::clear)
    }

    /// Does something with all slots of the parts, piece by piece. A part that fails does not keep the others from it.
    fn sweep(
        &self,
        directory: &Directory,
        scope: Scope,
        code: u8,
        here: fn(Local<'_>, Part, u64) -> Result<Option<u64>>,
    ) -> Result<()> {
        let request = |part: Part, from| part.request(code).long(from).finish();
        self.for_each_part(directory, scope, request, here)
    }

    /// Exchanges the elements with another table of the same kind.
    pub(crate) fn swap(&self, other: &Core<'_>) -> Result<()> {
        if self.raw == other.raw {
            return Ok(());
        }
        let (mine, theirs) = (self.current()?, other.current()?);
        let alike = self.raw.slots == other.raw.slots && mine.entries.len() == theirs.entries.len();
        let pairs = || mine.entries.iter().zip(&theirs.entries);
        if alike && pairs().all(|(mine, theirs)| mine.rank == theirs.rank) {
            return self.swap_slots(&mine, &theirs);
        }
        // Different places: what each will hold is copied first, so that nothing is lost if memory runs out.
        let for_self = self.copy_like(self, other)?;
        let for_other = match self.copy_like(other, self) {
            Ok(copy) => copy,
            Err(error) => return for_self.destroy().and(Err(error)),
        };
        let exchanged = self
            .clear(Scope::Everywhere)
            .and_then(|()| other.clear(Scope::Everywhere))
            .and_then(|()| self.swap(&for_self))
            .and_then(|()| other.swap(&for_other));
        exchanged.and(for_self.destroy()).and(for_other.destroy())
    }

    /// A new table that is laid out like `shape` and holds what `contents` does.
    fn copy_like(&self, shape: &Core<'_>, contents: &Core<'_>) -> Result<Core<'w>> {
        let ranks: Vec<u32> = shape.current()?.entries.iter().map(|entry| entry.rank).collect();
        let rank = self.world.local().rank_of(shape.raw.address);
        let copy = Core::create(self.world, self.kind, &ranks, shape.raw.slots, rank)?;
        match copy.merge(contents, Scope::Everywhere) {
            Ok(()) => Ok(copy),
            Err(error) => copy.destroy().and(Err(error)),
        }
    }

    fn swap_slots(&self, mine: &Directory, theirs: &Directory) -> Result<()> {
        // The part of the other table at the same index.
        let other = |part: Part| {
            let index = mine.entries.iter().position(|entry| entry.address == part.address).unwrap_or(0);
            theirs.part(index)
        };
        let request = |part: Part, from| {
            let other = other(part);
            let request = part.request(part::SWAP).byte(other.kind as u8).long(other.nonce);
            request.long(other.address.bits()).long(from).finish()
        };
        let here = |local: Local<'_>, part: Part, from| part::swap(local, part, other(part), from);
        self.for_each_part(mine, Scope::Everywhere, request, here)
    }

    /// Runs something piece by piece on all parts of a scope, on those of other nodes at the same time.
    fn for_each_part(
        &self,
        directory: &Directory,
        scope: Scope,
        request: impl Fn(Part, u64) -> Vec<u8>,
        here: impl Fn(Local<'_>, Part, u64) -> Result<Option<u64>>,
    ) -> Result<()> {
        let mut failed = Ok(());
        let mut note = |error: Error| {
            if failed.is_ok() {
                failed = Err(error);
            }
        };
        let mut calls: VecDeque<(u32, Part, Call<'_>)> = VecDeque::new();
        let start = |rank, part, from| {
            self.world.start_call(rank, TABLE, request(part, from)).map(|call| (rank, part, call))
        };
        let chosen = |entry: &Entry| scope.has(self.world, entry);
        for (index, entry) in directory.entries.iter().enumerate().filter(|(_, entry)| chosen(entry)) {
            if !entry.near {
                match start(entry.rank, directory.part(index), 0) {
                    Ok(call) => calls.push_back(call),
                    Err(error) => note(error),
                }
            }
        }
        for (index, entry) in directory.entries.iter().enumerate().filter(|(_, entry)| chosen(entry)) {
            let mut from = if entry.near { 0 } else { part::FINISHED };
            while from != part::FINISHED {
                from = match here(self.world.local(), directory.part(index), from) {
                    Ok(Some(from)) => from,
                    other => {
                        note(other.err().unwrap_or_else(|| part::destroyed(self.kind)));
                        part::FINISHED
                    }
                };
            }
        }
        while let Some((rank, part, call)) = calls.pop_front() {
            let reply = call.wait();
            let next = reply.and_then(|reply| match read_reply(&reply)? {
                Some(mut reply) => Ok(reply.long()?),
                None => Err(part::destroyed(self.kind)),
            });
            match next {
                Ok(part::FINISHED) => {}
                Ok(from) => match start(rank, part, from) {
                    Ok(call) => calls.push_back(call),
                    Err(error) => note(error),
                },
                Err(error) => note(error),
            }
        }
        self.world.note(failed)
    }
}

/// Refuses what is too long for a message, wherever it would go: placement changes no behaviour.
#[inline]
pub(crate) fn check_item(item: Item<'_>) -> Result<()> {
    let bytes = item.key.len() + item.value.len();
    match bytes <= LARGEST_ITEM {
        true => Ok(()),
        false => Err(Error::Misuse(format!(
            "a key and value of {bytes} bytes; at most {LARGEST_ITEM}: keep the address of a block instead"
        ))),
    }
}

pub(crate) fn write_item(request: Writer, slot: u64, op: Op, item: Item<'_>) -> Writer {
    let mut request = request.long(slot).bytes(item.key);
    if op.takes_value() {
        request = request.bytes(item.value);
    }
    if op == Op::Add {
        request = request.long(item.number);
    }
    request
}

/// A number that no other table has had.
fn new_nonce(address: GlobalAddress) -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(address.bits());
    // 0 is what memory holds that was never a table.
    hasher.finish().clamp(1, u64::MAX - 1)
}

/// Makes the rows of slots, those on other nodes at the same time. When one fails the others are given back.
fn make_parts(
    world: &World,
    kind: Kind,
    nonce: u64,
    owner: GlobalAddress,
    ranks: &[u32],
    slots: u64,
) -> Result<Vec<u64>> {
    enum Made<'w> {
        Here(Result<u64>),
        There(Result<Call<'w>>),
    }
    let local = world.local();
    let request = Part { kind, nonce, address: owner }.request(part::MAKE).long(slots).finish();
    let make = |&rank: &u32| match local.is_near(rank) {
        true => Made::Here(slot::make(local, rank, kind, nonce, slots).map(GlobalAddress::bits)),
        false => Made::There(world.start_call(rank, TABLE, request.clone())),
    };
    let started: Vec<Made<'_>> = ranks.iter().map(make).collect();
    let finish = |made: Made<'_>| match made {
        Made::Here(made) => made,
        Made::There(call) => {
            let reply = call?.wait()?;
            Ok(read_reply(&reply)?.ok_or_else(|| part::destroyed(kind))?.long()?)
        }
    };
    let made: Vec<Result<u64>> = started.into_iter().map(finish).collect();
    match made.iter().find_map(|made| made.as_ref().err().cloned()) {
        None => Ok(made.into_iter().flatten().collect()),
        Some(error) => {
            let addresses: Vec<u64> = made.into_iter().flatten().collect();
            unmake_parts(world, kind, nonce, &addresses);
            Err(error)
        }
    }
}

/// Gives rows of slots back that nobody has seen.
fn unmake_parts(world: &World, kind: Kind, nonce: u64, addresses: &[u64]) {
    let directory = Arc::new(Directory::new(world, kind, nonce, 1, addresses, None));
    let raw = RawTable { address: GlobalAddress::NULL, ranks: addresses.len() as u64, slots: 1 };
    let core =
        Core { world, kind, raw, directory: directory.clone(), renewed: OnceLock::new(), foreign: false };
    let _ = core.sweep(&directory, Scope::Everywhere, part::UNMAKE, part::unmake);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Insert, Map, Spread};
    use crate::GlobalPtr;

    /// The words of the only slot of a map.
    fn slot(world: &World, map: &Map<'_>) -> GlobalPtr<u64> {
        let row = world.get(GlobalPtr::<u64>::from_address(map.raw().address)).expect("the directory");
        GlobalPtr::from_address(GlobalAddress::from_bits(row))
    }

    /// Who goes through a table holds nobody up: nothing that a lock would change has changed.
    #[test]
    fn reading_takes_no_lock() {
        let world = World::init().expect("a world of one");
        let map = Map::create(&world, Spread::over(&[0]).slots(1)).expect("a map");
        for key in 0..3u8 {
            map.insert(&[key], &[key]).expect("insert");
        }
        // Lock, head, tail, count, version.
        let words = |world: &World| -> Vec<u64> {
            (0..5).map(|word| world.get(slot(world, &map).add(word)).expect("a word of the slot")).collect()
        };
        let before = words(&world);
        let mut cursor = map.begin().expect("begin");
        for _ in 0..3 {
            assert_ne!(cursor, map.end());
            cursor = map.next(cursor).expect("next");
        }
        assert_eq!(cursor, map.end());
        assert_eq!(map.iter().expect("iterate").count(), 3);
        assert!(map.get(&[1]).expect("get").is_some());
        assert_eq!(words(&world), before);
    }

    /// A lock whose holder is gone, and everything behind it that a kill can leave wrong.
    fn abandon(world: &World, map: &Map<'_>) {
        let slot = slot(world, map);
        let head =
            GlobalPtr::<u64>::from_address(GlobalAddress::from_bits(world.get(slot.add(1)).expect("head")));
        // The tag of a thread of the thousandth rank of this node.
        world.put(slot, 1000 << 32).expect("lock");
        world.put(slot.add(2), head.address().bits()).expect("tail");
        world.put(slot.add(3), 77).expect("count");
        if !head.address().is_null() {
            world.put(head.add(1), head.address().bits()).expect("previous");
        }
    }

    #[test]
    fn what_a_dead_rank_left_is_repaired_by_whoever_comes_next() {
        let world = World::init().expect("a world of one");
        let map = Map::create(&world, Spread::over(&[0]).slots(1)).expect("a map");
        abandon(&world, &map);
        assert!(map.is_empty().expect("a length"));
        for number in 0..10u8 {
            assert_eq!(map.insert(&[number], b"value").expect("inserted"), Insert::New);
        }
        abandon(&world, &map);
        assert_eq!(map.len().expect("a length"), 10);
        abandon(&world, &map);
        assert!(map.remove(&[0]).expect("removed") && map.remove(&[9]).expect("removed"));
        abandon(&world, &map);
        map.put(&[20], b"last").expect("put");
        let keys: Vec<u8> = map.iter().expect("a scan").map(|pair| pair.expect("a pair").0[0]).collect();
        assert_eq!(keys, [1, 2, 3, 4, 5, 6, 7, 8, 20]);
        let words: Vec<u64> =
            (0..4).map(|at| world.get(slot(&world, &map).add(at)).expect("a word")).collect();
        let last = map.find(&[20]).expect("found").expect("there").element.bits();
        assert_eq!((words[0], words[2], words[3]), (0, last, 9));
        abandon(&world, &map);
        map.destroy().expect("destroyed");
        assert_eq!(world.heap_use(0).expect("use").blocks, 0);
    }

    /// A swap that was killed between any two of its stores is done or not done: nothing is lost.
    #[test]
    fn a_swap_that_was_cut_off_is_completed_or_undone() {
        let world = World::init().expect("a world of one");
        for stores in 0..=10 {
            for look_at_second_first in [false, true] {
                let (one, two) = (
                    Map::create(&world, Spread::over(&[0]).slots(1)),
                    Map::create(&world, Spread::over(&[0]).slots(1)),
                );
                let (one, two) = (one.expect("a map"), two.expect("a map"));
                // In the order of their places, as whoever swaps them locks them.
                let (low, high) = if slot(&world, &one).address() < slot(&world, &two).address() {
                    (one, two)
                } else {
                    (two, one)
                };
                (0..3u8).for_each(|key| assert_eq!(low.insert(&[key], b"low"), Ok(Insert::New)));
                high.insert(&[9], b"high").expect("inserted");
                cut_off_swap(&world, slot(&world, &low), slot(&world, &high), stores);
                let lens = match look_at_second_first {
                    true => [high.len().expect("a length"), low.len().expect("a length")],
                    false => {
                        let low = low.len().expect("a length");
                        [high.len().expect("a length"), low]
                    }
                };
                assert_eq!(lens, if stores < 5 { [1, 3] } else { [3, 1] }, "after {stores} stores");
                let (few, many) = if stores < 5 { (&high, &low) } else { (&low, &high) };
                assert_eq!(few.get(&[9]).expect("read").as_deref(), Some(&b"high"[..]));
                assert!((0..3u8).all(|key| many.contains(&[key]).expect("read")));
                assert_eq!(many.iter().expect("a scan").count(), 3);
                low.destroy().expect("destroyed");
                high.destroy().expect("destroyed");
            }
        }
        assert_eq!(world.heap_use(0).expect("use").blocks, 0);
    }

    /// Does the first so many stores of a swap, holding both locks, and dies.
    fn cut_off_swap(world: &World, low: GlobalPtr<u64>, high: GlobalPtr<u64>, stores: usize) {
        let get = |place: GlobalPtr<u64>| world.get(place).expect("a word");
        let offset = |place: GlobalPtr<u64>| world.local().pool_offset(place.address());
        let (low_was, high_was) =
            ([1, 2, 3].map(|at| get(low.add(at))), [1, 2, 3].map(|at| get(high.add(at))));
        let swap = [
            (low.add(2), high_was[0]),
            (low.add(3), SWAPPING | offset(high)),
            (high.add(2), low_was[0]),
            (high.add(3), SWAPPING | offset(low)),
            (low.add(1), high_was[0]),
            (high.add(1), low_was[0]),
            (high.add(3), low_was[2]),
            (high.add(2), low_was[1]),
            (low.add(3), high_was[2]),
            (low.add(2), high_was[1]),
        ];
        for (place, word) in swap.into_iter().take(stores).chain([(low, 1000 << 32), (high, 1000 << 32)]) {
            world.put(place, word).expect("a word");
        }
    }

    #[test]
    fn a_list_that_was_made_a_ring_is_an_error_and_no_hang() {
        let world = World::init().expect("a world of one");
        let map = Map::create(&world, Spread::over(&[0]).slots(1)).expect("a map");
        map.insert(b"one", b"1").expect("inserted");
        let head = world.get(slot(&world, &map).add(1)).expect("head");
        world.put(GlobalPtr::from_address(GlobalAddress::from_bits(head)), head).expect("a ring");
        assert!(matches!(map.contains(b"other"), Err(Error::Misuse(_))));
        world.put(GlobalPtr::from_address(GlobalAddress::from_bits(head)), 5u64).expect("nowhere");
        assert!(matches!(map.contains(b"other"), Err(Error::Misuse(_))));
    }
}
