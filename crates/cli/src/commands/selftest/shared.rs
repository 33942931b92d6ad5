//! Words that all ranks change at once by atomics, and whose end is known all the same: sums, exclusive ors, one bit a
//! rank, and values that are only ever exchanged.

use super::operations::distances;
use super::{at, word, Tally};
use fastrand::Rng;
use kumiki::{AtomicOp, AtomicWord, GlobalAddress, GlobalPtr, Order, Region, Registered, World};

/// What is done to a shared word, and so what it must hold in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Numbers are added: their sum.
    Sum,
    /// Numbers are combined by exclusive or: all of them combined.
    Xor,
    /// Values are exchanged: what went in and did not come out.
    Swap,
    /// One is added by compare-and-swap: how often.
    Count,
    /// Each rank sets and clears a bit of its own.
    Bits,
}

const KINDS: [Kind; 5] = [Kind::Sum, Kind::Xor, Kind::Swap, Kind::Count, Kind::Bits];
/// Words of 8 bytes of each rank: each kind once with 8 bytes and once with 4, in the arena and in private memory.
const WORDS: usize = KINDS.len() * 2;
/// Attempts to count before leaving it to the others.
const ATTEMPTS: u32 = 100;
/// Ranks whose words one rank changes: all, if they are few. Each rank that is touched costs page tables and perhaps a
/// connection, so that all ranks touching all would test little more than the size of the machine.
const MOST_SHARERS: u32 = 64;

/// The shared words of a rank, and what it has done to those of the others.
pub(super) struct Shared<'a> {
    world: &'a World,
    words: Region<u64>,
    private: Registered<u64>,
    /// What this rank has done to each word of each rank that it shares words with, for those to read.
    ledger: Region<u64>,
    done: Vec<u64>,
    /// How far on those ranks are, and where their words lie.
    distances: Vec<u32>,
    addresses: Vec<[GlobalAddress; 2]>,
    /// A place for old values that nobody looks at.
    sink: Region<u64>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(world: &'a World, seed: u64) -> kumiki::Result<Shared<'a>> {
        let distances = distances(world.ranks(), seed, MOST_SHARERS);
        let words = world.alloc::<u64>(WORDS)?;
        let private = world.register(vec![0u64; WORDS])?;
        let ledger = world.alloc::<u64>(distances.len() * WORDS * 2)?;
        let sink = world.alloc::<u64>(1)?;
        // Until the ledger is in use, it says where the private words are.
        world.put(at(world, world.rank(), word::WORDS)?, words.address().bits())?;
        world.put(at(world, world.rank(), word::LEDGER)?, ledger.address().bits())?;
        ledger.write(0, &[private.address().bits()])?;
        world.sync()?;
        let mut addresses = Vec::new();
        for distance in &distances {
            let rank = (world.rank() + distance) % world.ranks();
            let arena = GlobalAddress::from_bits(world.get(at(world, rank, word::WORDS)?)?);
            let ledger = GlobalAddress::from_bits(world.get(at(world, rank, word::LEDGER)?)?);
            let private = world.get(GlobalPtr::<u64>::from_address(ledger))?;
            addresses.push([arena, GlobalAddress::from_bits(private)]);
        }
        world.sync()?;
        let done = vec![0; distances.len() * WORDS * 2];
        Ok(Shared { world, words, private, ledger, done, distances, addresses, sink })
    }

    /// Changes a random word of a random one of those ranks. Returns a message if the answer was wrong.
    pub(super) fn change(&mut self, random: &mut Rng, tally: &mut Tally) -> kumiki::Result<Option<String>> {
        let sharer = random.usize(..self.addresses.len());
        let (place, index) = (random.usize(..2), random.usize(..WORDS));
        let address = self.addresses[sharer][place].add(index as u64 * 8);
        let entry = (sharer * 2 + place) * WORDS + index;
        tally.operations += 1;
        if index % 2 == 0 {
            tally.bytes += 8;
            self.change_word(GlobalPtr::<u64>::from_address(address), KINDS[index / 2], entry, random)
        } else {
            tally.bytes += 4;
            self.change_word(GlobalPtr::<u32>::from_address(address), KINDS[index / 2], entry, random)
        }
    }

    fn change_word<W: AtomicWord + Word>(
        &mut self,
        target: GlobalPtr<W>,
        kind: Kind,
        entry: usize,
        random: &mut Rng,
    ) -> kumiki::Result<Option<String>> {
        let value = W::of(random.u64(..));
        let done = W::of(self.done[entry]);
        let (now, wrong) = match kind {
            Kind::Sum => {
                self.add(target, value, random)?;
                (done.plus(value), None)
            }
            Kind::Xor => {
                self.world.fetch_xor(target, value)?;
                (done.xor(value), None)
            }
            Kind::Swap => {
                let old = self.world.swap(target, value)?;
                (done.xor(old).xor(value), None)
            }
            Kind::Count => (if self.count(target)? { done.plus(W::of(1)) } else { done }, None),
            Kind::Bits => self.flip(target, done)?,
        };
        self.done[entry] = now.wide();
        Ok(wrong)
    }

    /// Adds, by a handle or without.
    fn add<W: AtomicWord + Word>(
        &self,
        target: GlobalPtr<W>,
        value: W,
        random: &mut Rng,
    ) -> kumiki::Result<()> {
        if random.bool() {
            return self.world.fetch_add(target, value).map(drop);
        }
        let (sink, address) = (self.sink.address(), target.address());
        let handle = self.world.atomic(sink, address, AtomicOp::Add(value), Order::None)?;
        self.world.complete_one(handle)
    }

    /// Adds one by compare-and-swap; false if the others were always faster.
    fn count<W: AtomicWord + Word>(&self, target: GlobalPtr<W>) -> kumiki::Result<bool> {
        let mut seen = self.world.get(target)?;
        for _ in 0..ATTEMPTS {
            let old = self.world.compare_swap(target, seen, seen.plus(W::of(1)))?;
            if old == seen {
                return Ok(true);
            }
            seen = old;
        }
        Ok(false)
    }

    /// Sets this rank's bit if it is clear, clears it if it is set; the old value must show which it was.
    fn flip<W: AtomicWord + Word>(
        &self,
        target: GlobalPtr<W>,
        done: W,
    ) -> kumiki::Result<(W, Option<String>)> {
        let bits = std::mem::size_of::<W>() as u32 * 8;
        if self.world.ranks() > bits {
            // Not enough bits for all: this word is left alone.
            return Ok((done, None));
        }
        let mine = W::of(1 << self.world.rank());
        let set = done.and(mine) == mine;
        let old = match set {
            true => self.world.fetch_and(target, W::of(!mine.wide()))?,
            false => self.world.fetch_or(target, mine)?,
        };
        let was = old.and(mine) == mine;
        let wrong = format!("bit {} of {target:?} was {was} and should have been {set}", self.world.rank());
        Ok((done.xor(mine), (was != set).then_some(wrong)))
    }

    /// Publishes what this rank has done; to be called before a barrier.
    pub(super) fn publish(&self) -> kumiki::Result<()> {
        self.ledger.write(0, &self.done)
    }

    /// Compares this rank's words with what all ranks have done to them; between two barriers.
    pub(super) fn check(&self) -> kumiki::Result<Vec<String>> {
        let mut expected = [0u64; WORDS * 2];
        let mut theirs = [0u64; WORDS * 2];
        let ranks = self.world.ranks();
        for (sharer, distance) in self.distances.iter().enumerate() {
            // Whoever has us as far on as this.
            let rank = (self.world.rank() + ranks - distance) % ranks;
            let ledger = self.world.get(at(self.world, rank, word::LEDGER)?)?;
            let ledger = GlobalPtr::<u64>::from_address(GlobalAddress::from_bits(ledger));
            self.world.get_slice(ledger.add(sharer * WORDS * 2), &mut theirs)?;
            for (index, (sum, value)) in expected.iter_mut().zip(theirs).enumerate() {
                *sum = match KINDS[index % WORDS / 2] {
                    Kind::Sum | Kind::Count => sum.wrapping_add(value),
                    Kind::Xor | Kind::Swap | Kind::Bits => *sum ^ value,
                };
            }
        }
        let mut found = [0u64; WORDS * 2];
        self.words.read(0, &mut found[..WORDS])?;
        self.world.get_slice(self.private.ptr(), &mut found[WORDS..])?;
        let wrong = (0..WORDS * 2).filter_map(|index| {
            let narrow = index % 2 == 1;
            let expected = if narrow { expected[index] as u32 as u64 } else { expected[index] };
            let (kind, bytes) = (KINDS[index % WORDS / 2], if narrow { 4 } else { 8 });
            let place = if index < WORDS { "arena" } else { "private" };
            (found[index] != expected).then(|| {
                format!(
                    "the shared {place} word {kind:?} of {bytes} bytes holds {:#x} and should hold {expected:#x}",
                    found[index]
                )
            })
        });
        Ok(wrong.collect())
    }
}

/// What this test needs of `u32` and `u64` alike.
trait Word: Copy + PartialEq {
    fn of(value: u64) -> Self;
    fn wide(self) -> u64;

    fn plus(self, other: Self) -> Self {
        Self::of(self.wide().wrapping_add(other.wide()))
    }

    fn xor(self, other: Self) -> Self {
        Self::of(self.wide() ^ other.wide())
    }

    fn and(self, other: Self) -> Self {
        Self::of(self.wide() & other.wide())
    }
}

impl Word for u32 {
    fn of(value: u64) -> u32 {
        value as u32
    }

    fn wide(self) -> u64 {
        self as u64
    }
}

impl Word for u64 {
    fn of(value: u64) -> u64 {
        value
    }

    fn wide(self) -> u64 {
        self
    }
}
