//! Primitives below patterns: copies of rows beside one of a range, a word that is waited for, a put with a signal.

use super::ours::{expect, text, word, Done, Kind, Ours, COUNT_WORD, LEAST_WORDS, SEED};
use super::worker::{Measured, Request};
use kumiki::{AtomicOp, Is, Shape, Wait};
use std::hint::black_box;
use std::time::Instant;

/// Bytes of all rows together: more than fits into a core's own cache. Of less, the rows, which lie on twice as many pages, may leave it
/// where one piece just fits in, and the cache is measured.
pub(super) const ROWS_BYTES: usize = 16 << 20;

impl Ours<'_> {
    /// [`ROWS_BYTES`] in rows of so many bytes, which lie twice as far apart at rank 1 and side by side here.
    pub(super) fn rows(&mut self, is_put: bool, row: &str, request: &Request) -> Measured {
        let wrong = || format!("no such row: {}", request.metric);
        let row: usize = row.parse().ok().filter(|row| ROWS_BYTES.is_multiple_of(*row)).ok_or_else(wrong)?;
        let world = self.world;
        self.prepare(Kind::Arena, ROWS_BYTES / 4)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        self.fill(regions, |_| SEED)?;
        if world.rank() != 0 {
            return Ok(Vec::new());
        }
        let (words, rows) = (row / 8, ROWS_BYTES / row);
        let there = Shape::section(&[(rows, 2 * words as isize), (words, 1)]).map_err(text)?;
        let here = Shape::contiguous(ROWS_BYTES / 8).map_err(text)?;
        let (target, mut memory) = (regions.target, vec![SEED; ROWS_BYTES / 8]);
        let mut copy = || match is_put {
            true => world.put_shape(black_box(target), &there, &memory, &here).map_err(text),
            false => world.get_shape(black_box(target), &there, &mut memory, &here).map_err(text),
        };
        // The pages of the other rank are seen for the first time here, which takes longer than the copy.
        copy()?;
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            for _ in 0..n {
                copy()?;
            }
            Ok(started.elapsed())
        })?;
        expect(memory[ROWS_BYTES / 8 - 1], SEED)?;
        Ok(seconds.into_iter().map(|s| ROWS_BYTES as f64 / s / 1e6).collect())
    }

    /// Half the time in which a word goes to rank 1 and back, each side waiting for its own; with 64 bytes in front of it if `signals`.
    pub(super) fn words_to_and_fro(&mut self, signals: bool, request: &Request) -> Measured {
        let world = self.world;
        self.prepare(Kind::Arena, LEAST_WORDS)?;
        let Some(regions) = self.regions.as_ref() else { return Err("no regions".into()) };
        self.fill(regions, |_| 0)?;
        let (me, mine) = (world.rank(), regions.mine.ptr());
        let other = if me == 0 { regions.target } else { self.first_region()? };
        let data = [SEED; 8];
        let send = |round: u64| match signals {
            true => world.put_signal(other.add(8), &data, other, AtomicOp::Swap(round)),
            false => world.put(other, round),
        };
        let rounds = |first: u64, count: u64| -> Done<()> {
            for round in first..first + count {
                if me == 0 {
                    send(round).map_err(text)?;
                }
                world.wait_until(mine, Is::AtLeast(round), Wait::FOREVER).map_err(text)?;
                if me == 1 {
                    send(round).map_err(text)?;
                }
            }
            Ok(())
        };
        // Rank 0 says how many come next; none is the end.
        let count_word = word(world, world.rank(), COUNT_WORD)?;
        let tell = |count: u64| -> Done<()> {
            for rank in 0..world.ranks() {
                world.put(word(world, rank, COUNT_WORD)?, count).map_err(text)?;
            }
            world.sync().map_err(text)
        };
        let mut next = 1;
        if me != 0 {
            loop {
                world.sync().map_err(text)?;
                let count = world.get(count_word).map_err(text)?;
                if count == 0 {
                    return Ok(Vec::new());
                }
                if me == 1 {
                    rounds(next, count)?;
                }
                next += count;
                world.sync().map_err(text)?;
            }
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, |count| {
            tell(count)?;
            let started = Instant::now();
            rounds(next, count)?;
            next += count;
            let time = started.elapsed();
            world.sync().map_err(text).map(|()| time / 2)
        });
        tell(0)?;
        Ok(seconds?.into_iter().map(|s| s * 1e9).collect())
    }
}
