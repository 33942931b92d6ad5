//! A table by number, for what is under way: numbers come in rising order, nearly, and leave in any order.
//!
//! Whatever leaves from the middle leaves its place behind, which is taken away when it comes to the front, or when as many are
//! empty as are not: so that thousands may be under way, and each leaves at the cost of one.

use std::collections::VecDeque;

/// So many places stay when the table is empty.
const KEPT_PLACES: usize = 16;

/// Values by number.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// In the order of their numbers; the first is never empty.
    places: VecDeque<(u64, Option<T>)>,
    full: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { places: VecDeque::new(), full: 0 }
    }
}

impl<T> Table<T> {
    /// Puts a value at its number, in place of the one that is there.
    pub(crate) fn insert(&mut self, id: u64, value: T) {
        let is_last = self.places.back().is_none_or(|(last, _)| *last < id);
        if is_last {
            self.places.push_back((id, Some(value)));
            self.full += 1;
            return;
        }
        match self.find(id) {
            Ok(index) => self.full += self.places[index].1.replace(value).is_none() as usize,
            Err(index) => {
                self.places.insert(index, (id, Some(value)));
                self.full += 1;
            }
        }
    }

    /// Where a number is, or where it would be. Mostly there are no gaps before it.
    #[inline]
    fn find(&self, id: u64) -> Result<usize, usize> {
        let Some((first, _)) = self.places.front() else { return Err(0) };
        let guess = usize::try_from(id.wrapping_sub(*first)).unwrap_or(usize::MAX);
        match self.places.get(guess) {
            Some((number, _)) if *number == id => Ok(guess),
            _ => self.places.binary_search_by_key(&id, |(number, _)| *number),
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        self.find(id).ok().and_then(|index| self.places[index].1.as_ref())
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.find(id).ok().and_then(|index| self.places[index].1.as_mut())
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let index = self.find(id).ok()?;
        let value = self.places[index].1.take()?;
        self.full -= 1;
        while self.places.front().is_some_and(|(_, value)| value.is_none()) {
            self.places.pop_front();
        }
        if self.places.len() > 2 * self.full + KEPT_PLACES {
            self.places.retain(|(_, value)| value.is_some());
        }
        if self.full == 0 && self.places.capacity() > KEPT_PLACES {
            self.places = VecDeque::new();
        }
        Some(value)
    }

    /// How many values there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.full
    }

    /// How many places they take.
    #[inline]
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// The lowest number.
    #[inline]
    pub(crate) fn first(&self) -> Option<u64> {
        self.places.front().map(|(id, _)| *id)
    }

    /// All values, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.places.iter().filter_map(|(id, value)| value.as_ref().map(|value| (*id, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_leave_in_any_order_and_are_found_until_then() {
        let mut table = Table::default();
        // Every pair of them is looked at, which is too much for Miri.
        let end = if cfg!(miri) { 25 } else { 200 };
        let numbers: Vec<u64> = (1..end).filter(|number| number % 7 != 0).collect();
        numbers.iter().for_each(|&number| table.insert(number, number * 10));
        // A stride that visits every one of them.
        let order: Vec<u64> = (0..numbers.len()).map(|i| numbers[i * 50 % numbers.len()]).collect();
        for (gone, &number) in order.iter().enumerate() {
            assert_eq!(table.get(number), Some(&(number * 10)));
            assert_eq!(table.remove(number), Some(number * 10));
            assert!(table.get(number).is_none() && table.remove(number).is_none());
            let left = &order[gone + 1..];
            assert_eq!((table.len(), table.first()), (left.len(), left.iter().min().copied()));
            assert!(table.iter().all(|(number, value)| number * 10 == *value && left.contains(&number)));
        }
        assert_eq!((table.places(), table.iter().count()), (0, 0));
    }

    #[test]
    fn one_that_stays_does_not_keep_the_places_of_those_that_go() {
        let mut table = Table::default();
        table.insert(1, ());
        for number in 2..if cfg!(miri) { 300 } else { 10_000 } {
            table.insert(number, ());
            table.remove(number);
        }
        assert!(table.places() <= 2 + KEPT_PLACES, "{}", table.places());
    }

    #[test]
    fn a_number_may_come_late_or_again() {
        let mut table = Table::default();
        [5, 9, 7].into_iter().for_each(|number| table.insert(number, number));
        table.remove(5);
        table.insert(5, 50);
        table.insert(7, 70);
        assert_eq!(table.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [50, 70, 9]);
        assert_eq!((table.len(), table.first()), (3, Some(5)));
    }
}
