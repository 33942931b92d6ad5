//! The random operations of one rank, and the check of each result.

use super::areas::{Area, Areas, Pending, Span};
use super::shared::Shared;
use super::{at, word, Tally};
use fastrand::Rng;
use kumiki::{AtomicOp, AtomicWord, GlobalAddress, GlobalPtr, Region, Registered, Result, World};
use std::hash::Hasher;
use std::time::Duration;

/// Operations of a rank between two barriers.
const PER_ROUND: u32 = 48;
/// Ranks that one rank has areas on.
const MOST_PARTNERS: u32 = 6;
/// Bytes of all areas in the arena, and as many in private memory, over all ranks.
const ALL_BYTES: u64 = 64 << 20;
/// The least and the most bytes of an area.
const AREA_BYTES: (u64, u64) = (32 << 10, 2 << 20);
/// Errors that a rank describes; the others are only counted.
const MOST_MESSAGES: u64 = 5;
/// How long one operation may take: far more than it does, even where a thousand ranks share a core.
const PATIENCE: Duration = Duration::from_secs(600);

/// Room for operations that write one range only.
const NOTHING: Span = Span { area: 0, start: 0, bytes: 0 };

/// One rank at work.
pub(super) struct Tester<'a> {
    world: &'a World,
    random: Rng,
    areas: Areas,
    pending: Pending,
    shared: Shared<'a>,
    /// The memory that this rank gives to others: one area for each of them.
    arena: Region<u8>,
    private: Registered<u8>,
    area_bytes: usize,
    /// Distances to the ranks that have areas here, and whose memory has areas of ours, in the same order.
    partners: Vec<u32>,
    pub(super) tally: Tally,
}

impl<'a> Tester<'a> {
    /// Sets up the areas of this rank on its partners, and gives them theirs.
    pub(super) fn new(world: &'a World, seed: u64) -> Result<Tester<'a>> {
        let partners = distances(world.ranks(), seed, MOST_PARTNERS);
        let area_bytes = ALL_BYTES / (world.ranks() as u64 * partners.len() as u64);
        let area_bytes = (area_bytes.clamp(AREA_BYTES.0, AREA_BYTES.1) & !63) as usize;
        let arena = world.alloc::<u8>(area_bytes * partners.len())?;
        let private = world.register(vec![0u8; area_bytes * partners.len()])?;
        world.put(at(world, world.rank(), word::ARENA)?, arena.address().bits())?;
        world.put(at(world, world.rank(), word::PRIVATE)?, private.address().bits())?;
        world.sync()?;
        let mut areas = Vec::new();
        for (index, &distance) in partners.iter().enumerate() {
            let rank = (world.rank() + distance) % world.ranks();
            for (place, is_private) in [(word::ARENA, false), (word::PRIVATE, true)] {
                let base = GlobalAddress::from_bits(world.get(at(world, rank, place)?)?);
                let address = base.add((index * area_bytes) as u64);
                areas.push(Area { rank, private: is_private, address, shadow: vec![0; area_bytes] });
            }
        }
        let random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ world.rank() as u64);
        Ok(Tester {
            world,
            random,
            areas: Areas(areas),
            pending: Pending::default(),
            shared: Shared::new(world, seed)?,
            arena,
            private,
            area_bytes,
            partners,
            tally: Tally::default(),
        })
    }

    /// The operations between two barriers.
    pub(super) fn round(&mut self, round: u64) -> Result<()> {
        for _ in 0..PER_ROUND {
            match self.random.u32(..100) {
                0..20 => self.put()?,
                20..35 => self.get()?,
                35..65 => self.copy()?,
                65..75 => self.atomic_by_handle()?,
                75..82 => self.atomic_at_once()?,
                82..92 => self.change_shared()?,
                92..98 => self.complete_some()?,
                _ => self.take_and_give_back()?,
            }
        }
        self.world.complete_all()?;
        self.pending.clear();
        let area = self.random.usize(..self.areas.0.len());
        self.verify(Span { area, start: 0, bytes: self.area_bytes })?;
        let next = (self.world.rank() + 1) % self.world.ranks();
        self.world.put(at(self.world, next, word::ROUND)?, round)?;
        self.shared.publish()
    }

    /// The barriers at the end of a round, and what can be checked between them. Whether this was the last round.
    pub(super) fn meet(&mut self, round: u64) -> Result<bool> {
        self.world.sync()?;
        let came = self.world.get(at(self.world, self.world.rank(), word::ROUND)?)?;
        if came != round {
            self.wrong(format!("behind the barrier of round {round} the rank before us is in round {came}"));
        }
        for message in self.shared.check()? {
            self.wrong(message);
        }
        let last = self.world.get(at(self.world, 0, word::LAST)?)?;
        self.world.sync()?;
        Ok(last == round)
    }

    /// Reads every area, and lets the owners of the memory look at it, too.
    pub(super) fn finish(&mut self) -> Result<()> {
        for area in 0..self.areas.0.len() {
            self.verify(Span { area, start: 0, bytes: self.area_bytes })?;
        }
        let sums = self.world.alloc::<u64>(self.areas.0.len())?;
        let own: Vec<u64> = self.areas.0.iter().map(|area| checksum(&area.shadow)).collect();
        sums.write(0, &own)?;
        self.world.put(at(self.world, self.world.rank(), word::ROUND)?, sums.address().bits())?;
        self.world.sync()?;
        let mut arena = vec![0u8; self.arena.len()];
        self.arena.read(0, &mut arena)?;
        // The memory comes back to its owner, who then sees it as any other memory.
        let empty = self.world.register(Vec::new())?;
        let private = std::mem::replace(&mut self.private, empty).take()?;
        for index in 0..self.partners.len() {
            let ranks = self.world.ranks();
            let rank = (self.world.rank() + ranks - self.partners[index]) % ranks;
            let theirs = GlobalAddress::from_bits(self.world.get(at(self.world, rank, word::ROUND)?)?);
            let theirs = GlobalPtr::<u64>::from_address(theirs).add(index * 2);
            let range = index * self.area_bytes..(index + 1) * self.area_bytes;
            for (place, memory) in [(0, &arena[..]), (1, &private[..])] {
                if self.world.get(theirs.add(place))? != checksum(&memory[range.clone()]) {
                    let name = ["arena", "private"][place];
                    self.wrong(format!("its own {name} memory does not hold what rank {rank} put there"));
                }
            }
        }
        self.world.sync()
    }

    fn count(&mut self, bytes: usize) {
        self.tally.operations += 1;
        self.tally.bytes += bytes as u64;
    }

    fn wrong(&mut self, message: String) {
        self.tally.errors += 1;
        if self.tally.errors <= MOST_MESSAGES {
            let (rank, operation) = (self.world.rank(), self.tally.operations);
            kumiki_run::report(&format!("selftest: rank {rank}, operation {operation}: {message}"));
        }
    }

    /// Waits for what an operation without a handle would disturb.
    fn make_way(&mut self, reads: Span, writes: [Span; 2]) -> Result<()> {
        if let Some(handle) = self.pending.last_conflict(reads, writes) {
            self.world.wait(handle, PATIENCE)?;
            self.pending.completed(handle);
        }
        Ok(())
    }

    fn put(&mut self) -> Result<()> {
        let span = self.areas.span(&mut self.random);
        self.make_way(NOTHING, [span, NOTHING])?;
        let mut bytes = vec![0; span.bytes];
        self.random.fill(&mut bytes);
        self.areas.shadow_mut(span).copy_from_slice(&bytes);
        self.world.put_slice(GlobalPtr::<u8>::from_address(self.areas.address(span)), &bytes)?;
        self.count(span.bytes);
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let span = self.areas.span(&mut self.random);
        self.make_way(span, [NOTHING; 2])?;
        self.verify(span)
    }

    /// Reads a range and compares it with its shadow.
    fn verify(&mut self, span: Span) -> Result<()> {
        // What is not written must show.
        let mut bytes: Vec<u8> = self.areas.shadow(span).iter().map(|byte| !byte).collect();
        self.world.get_slice(GlobalPtr::<u8>::from_address(self.areas.address(span)), &mut bytes)?;
        self.count(span.bytes);
        let shadow = self.areas.shadow(span);
        if bytes != shadow {
            let first = bytes.iter().zip(shadow).position(|(got, right)| got != right).unwrap_or(0);
            let count = bytes.iter().zip(shadow).filter(|(got, right)| got != right).count();
            let Area { rank, private, .. } = &self.areas.0[span.area];
            let kind = if *private { "private" } else { "arena" };
            self.wrong(format!(
                "{count} of {} bytes wrong in {kind} memory of rank {rank}, {}..{} of the area; the first is {} at {} \
                 and should be {}",
                span.bytes,
                span.start,
                span.end(),
                bytes[first],
                span.start + first,
                self.areas.shadow(span)[first],
            ));
        }
        Ok(())
    }

    /// A copy between any two ranges, in any order that is strict enough.
    fn copy(&mut self) -> Result<()> {
        let src = self.areas.span(&mut self.random);
        let dst = self.areas.other(&mut self.random, src);
        let order = self.pending.order(&mut self.random, src, [dst, NOTHING]);
        let (to, from) = (self.areas.address(dst), self.areas.address(src));
        let handle = self.world.copy(to, from, src.bytes, order)?;
        self.pending.issued(handle, order, src, [dst, NOTHING]);
        self.areas.copy(dst, src);
        self.count(src.bytes);
        Ok(())
    }

    /// An atomic whose old value goes to a global address.
    fn atomic_by_handle(&mut self) -> Result<()> {
        let bytes = if self.random.bool() { 8 } else { 4 };
        let target = self.areas.word(&mut self.random, bytes);
        let mut dst = self.areas.word(&mut self.random, bytes);
        if dst == target {
            dst.start = if dst.start == 0 { bytes } else { 0 };
        }
        let order = self.pending.order(&mut self.random, target, [target, dst]);
        let old = self.areas.value(target);
        let (to, at) = (self.areas.address(dst), self.areas.address(target));
        let (handle, new) = if bytes == 8 {
            let (operation, new) = operation::<u64>(&mut self.random, old);
            (self.world.atomic(to, at, operation, order)?, new)
        } else {
            let (operation, new) = operation::<u32>(&mut self.random, old as u32);
            (self.world.atomic(to, at, operation, order)?, new as u64)
        };
        self.pending.issued(handle, order, target, [target, dst]);
        self.areas.set_value(target, new);
        self.areas.set_value(dst, old);
        self.count(bytes);
        Ok(())
    }

    /// An atomic that gives its old value back.
    fn atomic_at_once(&mut self) -> Result<()> {
        let bytes = if self.random.bool() { 8 } else { 4 };
        let target = self.areas.word(&mut self.random, bytes);
        self.make_way(target, [target, NOTHING])?;
        let before = self.areas.value(target);
        let address = self.areas.address(target);
        let (old, new) = if bytes == 8 {
            let (operation, new) = operation::<u64>(&mut self.random, before);
            (fetch(self.world, GlobalPtr::from_address(address), operation)?, new)
        } else {
            let (operation, new) = operation::<u32>(&mut self.random, before as u32);
            (fetch(self.world, GlobalPtr::from_address(address), operation)? as u64, new as u64)
        };
        self.areas.set_value(target, new);
        self.count(bytes);
        if old != before {
            self.wrong(format!("an atomic on {bytes} bytes gave back {old:#x} instead of {before:#x}"));
        }
        Ok(())
    }

    fn change_shared(&mut self) -> Result<()> {
        self.pending.interrupt();
        if let Some(message) = self.shared.change(&mut self.random, &mut self.tally)? {
            self.wrong(message);
        }
        Ok(())
    }

    /// Completes something, in one of the ways there are.
    fn complete_some(&mut self) -> Result<()> {
        let Some(handle) = self.pending.any(&mut self.random) else { return Ok(()) };
        match self.random.u32(..4) {
            0 => self.world.complete(handle)?,
            1 => self.world.wait(handle, PATIENCE)?,
            2 => while !self.world.inquire(handle)? {},
            _ => {
                self.world.complete_one(handle)?;
                self.pending.completed_one(handle);
                return Ok(());
            }
        }
        self.pending.completed(handle);
        if !self.world.inquire(handle)? {
            self.wrong("an operation that was complete is incomplete".into());
        }
        Ok(())
    }

    /// Takes memory, uses it and gives it back; memory from the arena must be clear.
    fn take_and_give_back(&mut self) -> Result<()> {
        let words = self.random.usize(1..=4096);
        let region = self.world.alloc::<u64>(words)?;
        let mut found = vec![1u64; words];
        self.world.get_slice(region.ptr(), &mut found)?;
        if found.iter().any(|&word| word != 0) {
            self.wrong(format!("new memory of {words} words is not clear"));
        }
        let index = self.random.usize(..words) as u64;
        let mut lent = vec![7u64; words];
        self.world.lend(&mut lent, |lent| self.world.put(lent.ptr().add(index as usize), 99))??;
        self.world.put_slice(region.ptr(), &lent)?;
        self.count(words * 16);
        if self.world.get(region.ptr().add(index as usize))? != 99 {
            self.wrong("memory that was lent lost a put".into());
        }
        if self.pending.is_empty() && self.random.bool() {
            self.world.complete_all()?;
        }
        Ok(())
    }
}

/// Distances to the ranks that have something to do with each other: all if they are no more than `most`, else our own and
/// random ones.
pub(super) fn distances(ranks: u32, seed: u64, most: u32) -> Vec<u32> {
    let mut distances: Vec<u32> = (1..ranks).collect();
    Rng::with_seed(seed).shuffle(&mut distances);
    distances.truncate(most as usize - 1);
    distances.insert(0, 0);
    distances
}

/// A random operation on a word that holds `old`, and what it then holds.
fn operation<W>(random: &mut Rng, old: W) -> (AtomicOp<W>, W)
where
    W: AtomicWord + Number,
{
    let value = W::random(random);
    match random.u32(..9) {
        0 => (AtomicOp::CompareSwap(old, value), value),
        1 => {
            // One that must fail.
            let other = old ^ W::ONE;
            (AtomicOp::CompareSwap(other, value), old)
        }
        2 => (AtomicOp::Swap(value), value),
        3 => (AtomicOp::Add(value), old.plus(value)),
        4 => (AtomicOp::Xor(value), old ^ value),
        5 => (AtomicOp::Or(value), old | value),
        6 => (AtomicOp::And(value), old & value),
        7 => (AtomicOp::Min(value), old.min(value)),
        _ => (AtomicOp::Max(value), old.max(value)),
    }
}

fn fetch<W: AtomicWord>(world: &World, target: GlobalPtr<W>, operation: AtomicOp<W>) -> Result<W> {
    match operation {
        AtomicOp::CompareSwap(old, new) => world.compare_swap(target, old, new),
        AtomicOp::Swap(value) => world.swap(target, value),
        AtomicOp::Add(value) => world.fetch_add(target, value),
        AtomicOp::Xor(value) => world.fetch_xor(target, value),
        AtomicOp::Or(value) => world.fetch_or(target, value),
        AtomicOp::And(value) => world.fetch_and(target, value),
        AtomicOp::Min(value) => world.fetch_min(target, value),
        AtomicOp::Max(value) => world.fetch_max(target, value),
    }
}

/// What `u32` and `u64` have in common here.
trait Number:
    std::ops::BitXor<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitAnd<Output = Self>
    + Copy
    + Ord
{
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn random(random: &mut Rng) -> Self;
}

impl Number for u32 {
    const ONE: u32 = 1;

    fn plus(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }

    fn random(random: &mut Rng) -> u32 {
        random.u32(..)
    }
}

impl Number for u64 {
    const ONE: u64 = 1;

    fn plus(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }

    fn random(random: &mut Rng) -> u64 {
        random.u64(..)
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    // With fixed keys, so that every process computes the same.
    #[allow(clippy::disallowed_methods)]
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
