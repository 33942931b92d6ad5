//! A small value for each of some ranks. Those of neighbours lie side by side, since a rank that has to do with one often has to do with
//! many: then they take little more than they are. What is as it was at first takes nothing.

use crate::Rank;
use std::collections::BTreeMap;

/// Ranks that lie side by side.
const BESIDE: usize = 16;

/// Values by rank.
#[derive(Debug)]
pub(super) struct ByRank<V> {
    rows: BTreeMap<Rank, Box<[V; BESIDE]>>,
}

impl<V> Default for ByRank<V> {
    fn default() -> Self {
        ByRank { rows: BTreeMap::new() }
    }
}

/// The row of a rank, and its place there.
fn place(rank: Rank) -> (Rank, usize) {
    (rank / BESIDE as Rank, rank as usize % BESIDE)
}

fn is_empty<V: Copy + Default + PartialEq>(row: &[V; BESIDE]) -> bool {
    *row == [V::default(); BESIDE]
}

impl<V: Copy + Default + PartialEq> ByRank<V> {
    /// How many rows of neighbours there are.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn get(&self, rank: Rank) -> V {
        let (row, at) = place(rank);
        self.rows.get(&row).map_or(V::default(), |row| row[at])
    }

    /// The value of a rank, which is going to change.
    pub(super) fn of(&mut self, rank: Rank) -> &mut V {
        let (row, at) = place(rank);
        &mut self.rows.entry(row).or_insert_with(|| Box::new([V::default(); BESIDE]))[at]
    }

    pub(super) fn set(&mut self, rank: Rank, value: V) {
        if value != V::default() {
            *self.of(rank) = value;
            return;
        }
        let (at, place) = place(rank);
        if let Some(row) = self.rows.get_mut(&at) {
            row[place] = value;
            if is_empty(row) {
                self.rows.remove(&at);
            }
        }
    }

    /// Changes all values.
    pub(super) fn change(&mut self, change: impl Fn(&mut V)) {
        self.rows.retain(|_, row| {
            row.iter_mut().for_each(&change);
            !is_empty(row)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_its_own_value_and_none_is_left_behind() {
        let mut values = ByRank::<u8>::default();
        assert_eq!((values.get(7), values.rows()), (0, 0));
        for rank in [7, 8, 16, 1_000_000] {
            values.set(rank, rank as u8 | 1);
        }
        assert_eq!((values.rows(), values.get(7), values.get(8), values.get(9)), (3, 7, 9, 0));
        *values.of(7) += 1;
        values.set(9, 0);
        values.change(|value| *value /= 2);
        assert_eq!((values.get(7), values.get(8), values.get(1_000_000)), (4, 4, 32));
        for rank in [7, 8, 16, 1_000_000, 5_000] {
            values.set(rank, 0);
        }
        assert_eq!(values.rows(), 0);
        values.set(3, 1);
        values.change(|value| *value /= 2);
        assert_eq!(values.rows(), 0);
    }
}
