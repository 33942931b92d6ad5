//! The heat problem: a cold square plate in which woven bars are kept hot.
//!
//! One step is the same arithmetic in the same order for every row, whoever does it; so many processes and one get the
//! same bits.

use std::ops::Range;

/// The highest temperature, in degrees.
pub(super) const HOTTEST: f64 = 100.0;
/// How much of the difference to its neighbours a point takes over in a step; up to 0.25 it is stable.
const RATE: f64 = 0.24;

/// The points of one row that are kept at a temperature.
#[derive(Clone, PartialEq, Debug)]
struct Kept {
    row: usize,
    columns: Range<usize>,
    temperature: f64,
}

/// Some rows of the plate, with a row above and a row below that belong to others.
#[derive(Debug)]
pub(super) struct Block {
    width: usize,
    rows: usize,
    now: Vec<f64>,
    next: Vec<f64>,
    kept: Vec<Kept>,
}

impl Block {
    /// These rows of a plate of `size` × `size`, at the start.
    pub(super) fn new(size: usize, rows: Range<usize>) -> Block {
        let count = rows.len();
        let mut block = Block {
            width: size,
            rows: count,
            now: vec![0.0; (count + 2) * size],
            next: vec![0.0; (count + 2) * size],
            kept: kept(size, rows),
        };
        block.keep();
        std::mem::swap(&mut block.now, &mut block.next);
        block
    }

    /// Row `index` of those that are ours.
    pub(super) fn row(&self, index: usize) -> &[f64] {
        &self.now[(index + 1) * self.width..(index + 2) * self.width]
    }

    pub(super) fn first(&self) -> &[f64] {
        self.row(0)
    }

    pub(super) fn last(&self) -> &[f64] {
        self.row(self.rows - 1)
    }

    /// The row above ours.
    pub(super) fn above(&mut self) -> &mut [f64] {
        &mut self.now[..self.width]
    }

    /// The row below ours.
    pub(super) fn below(&mut self) -> &mut [f64] {
        let start = (self.rows + 1) * self.width;
        &mut self.now[start..]
    }

    /// All rows that are ours.
    pub(super) fn field(&self) -> &[f64] {
        &self.now[self.width..(self.rows + 1) * self.width]
    }

    /// One step in time.
    pub(super) fn step(&mut self) {
        let width = self.width;
        for row in 1..=self.rows {
            let old = &self.now[(row - 1) * width..(row + 2) * width];
            relax(old, &mut self.next[row * width..(row + 1) * width]);
        }
        self.keep();
        std::mem::swap(&mut self.now, &mut self.next);
    }

    fn keep(&mut self) {
        for Kept { row, columns, temperature } in &self.kept {
            let start = (row + 1) * self.width;
            self.next[start + columns.start..start + columns.end].fill(*temperature);
        }
    }
}

/// The rows of one rank.
pub(super) fn rows_of(size: usize, rank: usize, ranks: usize) -> Range<usize> {
    size * rank / ranks..size * (rank + 1) / ranks
}

/// The new values of a row from three old rows. Beyond the edges it is cold.
fn relax(old: &[f64], new: &mut [f64]) {
    let width = new.len();
    let (above, rest) = old.split_at(width);
    let (here, below) = rest.split_at(width);
    let point = |column: usize, left: f64, right: f64| {
        let around = above[column] + below[column] + left + right;
        here[column] + RATE * (around - 4.0 * here[column])
    };
    for column in 1..width - 1 {
        new[column] = point(column, here[column - 1], here[column + 1]);
    }
    new[0] = point(0, 0.0, here[1]);
    new[width - 1] = point(width - 1, here[width - 2], 0.0);
}

/// The bars: two upright and two across, woven.
fn kept(size: usize, rows: Range<usize>) -> Vec<Kept> {
    let at = |part: f64| (part * size as f64).round() as usize;
    let bars = [0.30..0.35, 0.65..0.70].map(|bar: Range<f64>| at(bar.start)..at(bar.end));
    let long = at(0.14)..at(0.86);
    let mut list = Vec::new();
    for (index, row) in rows.enumerate() {
        let across = bars.iter().position(|bar| bar.contains(&row));
        if across.is_some() {
            list.push(Kept { row: index, columns: long.clone(), temperature: 0.55 * HOTTEST });
        }
        for (upright, bar) in bars.iter().enumerate() {
            // At every other crossing the upright bar is the upper one.
            let covered = across.is_some_and(|across| (across + upright) % 2 == 1);
            if long.contains(&row) && !covered {
                list.push(Kept { row: index, columns: bar.clone(), temperature: HOTTEST });
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_that_exchange_rows_get_the_bits_of_one() {
        let size = 40;
        let mut whole = Block::new(size, 0..size);
        let mut parts: Vec<Block> = (0..3).map(|rank| Block::new(size, rows_of(size, rank, 3))).collect();
        for _ in 0..50 {
            whole.step();
            for lower in 1..3 {
                let (down, up) = (parts[lower - 1].last().to_vec(), parts[lower].first().to_vec());
                parts[lower].above().copy_from_slice(&down);
                parts[lower - 1].below().copy_from_slice(&up);
            }
            parts.iter_mut().for_each(Block::step);
        }
        let joined: Vec<f64> = parts.iter().flat_map(|part| part.field().to_vec()).collect();
        assert_eq!(joined, whole.field());
        assert!(joined.iter().any(|&value| value > 1.0 && value < 50.0));
        assert!(joined.iter().all(|&value| (0.0..=HOTTEST).contains(&value)));
    }
}
