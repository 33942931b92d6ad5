//! What only shows between nodes: many operations in flight at once, and two ranks that ask each other.

use super::ours::{expect, text, word, Done, Kind, Ours, COUNT_WORD, LEAST_WORDS, SEED};
use super::worker::{Measured, Request};
use kumiki::{GlobalPtr, Order};
use std::hint::black_box;
use std::time::Instant;

impl Ours<'_> {
    /// Puts of one word each, of which as many are in flight as the library allows.
    pub(super) fn many_puts(&mut self, request: &Request) -> Measured {
        let world = self.world;
        self.prepare(Kind::Arena, LEAST_WORDS)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        self.fill(regions, |i| if world.rank() == 1 { 0 } else { i + 1 })?;
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let (here, there) = (regions.mine.ptr(), regions.target);
        let mask = LEAST_WORDS as u64 - 1;
        let seconds = self.sampler.sample(&request.metric, request.reps, |count| {
            let started = Instant::now();
            for i in 0..count {
                let word = (i & mask) as usize;
                let (to, from) = (there.add(word).address(), here.add(word).address());
                world.copy(black_box(to), black_box(from), 8, Order::None).map_err(text)?;
            }
            world.complete_all().map_err(text)?;
            let time = started.elapsed();
            let last = (count - 1) & mask;
            expect(world.get(there.add(last as usize)).map_err(text)?, last + 1).map(|()| time)
        })?;
        Ok(seconds.into_iter().map(|s| s * 1e9).collect())
    }

    /// Gets of one word, one after the other, by two ranks from each other at once.
    pub(super) fn gets_both_ways(&mut self, request: &Request) -> Measured {
        let world = self.world;
        self.prepare(Kind::Arena, LEAST_WORDS)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        self.fill(regions, |_| SEED)?;
        let other = if world.rank() == 0 { regions.target } else { self.first_region()? };
        let count_word = word(world, world.rank(), COUNT_WORD)?;
        let ask = |count: u64| -> Done<()> {
            let mut wrong = 0;
            for _ in 0..count {
                wrong |= world.get(black_box(other)).map_err(text)? ^ SEED;
            }
            expect(wrong, 0)
        };
        // Rank 0 says how many come next; none is the end.
        let tell = |count: u64| -> Done<()> {
            for rank in 0..world.ranks() {
                world.put(word(world, rank, COUNT_WORD)?, count).map_err(text)?;
            }
            world.sync().map_err(text)
        };
        if world.rank() != 0 {
            loop {
                world.sync().map_err(text)?;
                match world.get(count_word).map_err(text)? {
                    0 => return Ok(Vec::new()),
                    count if world.rank() == 1 => ask(count)?,
                    _ => {}
                }
                world.sync().map_err(text)?;
            }
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, |count| {
            tell(count)?;
            let started = Instant::now();
            ask(count)?;
            // The other may have begun a little later.
            world.sync().map_err(text).map(|()| started.elapsed())
        });
        tell(0)?;
        Ok(seconds?.into_iter().map(|s| s * 1e9).collect())
    }

    /// The region of rank 0.
    pub(super) fn first_region(&self) -> Done<GlobalPtr<u64>> {
        let address = self.world.get(word(self.world, 0, super::ours::REGION_WORD)?).map_err(text)?;
        Ok(GlobalPtr::from_address(kumiki::GlobalAddress::from_bits(address)))
    }
}
