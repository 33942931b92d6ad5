//! What became of requests that nobody has asked for yet: a receive has got something.
//!
//! There are few as a rule. When there are many, they are those of receives that were posted one after the other: so they lie in rows of
//! neighbours, which are full then, and not in the nodes of a tree, which are not.

use super::Outcome;
use std::collections::BTreeMap;

/// So many results are looked through.
const FEW: usize = 16;
/// Requests whose results lie in one row.
const BESIDE: u64 = 16;

#[derive(Debug, Default)]
pub(super) struct Results {
    few: Vec<(u64, Outcome)>,
    /// When there are many: by the number of the row.
    rows: BTreeMap<u64, Vec<(u64, Outcome)>>,
    /// How many are in rows.
    in_rows: usize,
}

impl Results {
    pub(super) fn len(&self) -> usize {
        self.few.len() + self.in_rows
    }

    pub(super) fn get(&self, request: u64) -> Option<&Outcome> {
        let find = |list: &'_ Vec<(u64, Outcome)>| list.iter().position(|(known, _)| *known == request);
        if let Some(at) = find(&self.few) {
            return Some(&self.few[at].1);
        }
        let row = self.rows.get(&(request / BESIDE))?;
        find(row).map(|at| &row[at].1)
    }

    pub(super) fn insert(&mut self, request: u64, outcome: Outcome) {
        // A message that is lent may fail twice.
        self.remove(request);
        if self.few.len() < FEW {
            return self.few.push((request, outcome));
        }
        self.rows.entry(request / BESIDE).or_default().push((request, outcome));
        self.in_rows += 1;
    }

    pub(super) fn remove(&mut self, request: u64) -> Option<Outcome> {
        let is_it = |(known, _): &(u64, Outcome)| *known == request;
        if let Some(at) = self.few.iter().position(is_it) {
            return Some(self.few.swap_remove(at).1);
        }
        if self.in_rows == 0 {
            return None;
        }
        let row = self.rows.get_mut(&(request / BESIDE))?;
        let outcome = row.iter().position(is_it).map(|at| row.swap_remove(at).1)?;
        if row.is_empty() {
            self.rows.remove(&(request / BESIDE));
        }
        self.in_rows -= 1;
        Some(outcome)
    }

    /// Keeps those requests of which this is said.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(u64) -> bool) {
        self.few.retain(|(request, _)| keeps(*request));
        self.rows.retain(|_, row| {
            row.retain(|(request, _)| keeps(*request));
            !row.is_empty()
        });
        self.in_rows = self.rows.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_results_are_found_replaced_and_taken() {
        let mut results = Results::default();
        for request in (1..=100).rev() {
            results.insert(request, Ok(None));
        }
        results.insert(50, Err(crate::Error::Misuse("twice".into())));
        assert!(results.len() == 100 && matches!(results.get(50), Some(Err(_))));
        assert!(matches!(results.get(1), Some(Ok(None))) && results.get(101).is_none());
        results.retain(|request| request % 3 != 0);
        assert_eq!(results.len(), 67);
        for request in 1..=100 {
            assert_eq!(results.remove(request).is_some(), request % 3 != 0, "{request}");
            assert!(results.remove(request).is_none());
        }
        assert!(results.len() == 0 && results.rows.is_empty());
    }
}
