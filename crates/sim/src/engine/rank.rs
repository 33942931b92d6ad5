//! What is known about one rank: its outstanding operations and its flags.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::random::mix;
use crate::{Handle, Order};

/// The part of a rank's state that its script may look at.
#[derive(Default)]
pub(crate) struct RankState {
    /// Whether the operations from `first` on are complete; the first of them is not.
    complete: VecDeque<bool>,
    /// The oldest operation that is not complete.
    first: u64,
    /// How many are not complete.
    outstanding: u32,
    /// How often each flag is raised, and when it last was.
    flags: HashMap<u64, (u64, u64), BuildHasherDefault<FlagHasher>>,
}

/// Hashes the number of a flag: programs choose it, not strangers.
#[derive(Default)]
struct FlagHasher(u64);

impl Hasher for FlagHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl RankState {
    /// A new operation.
    pub(crate) fn issue(&mut self) -> Handle {
        let handle = Handle(self.first + self.complete.len() as u64);
        self.complete.push_back(false);
        self.outstanding += 1;
        handle
    }

    /// An operation has completed.
    pub(crate) fn finish(&mut self, handle: Handle) {
        let index = (handle.0 - self.first) as usize;
        debug_assert!(!self.complete[index], "an operation completes once");
        self.complete[index] = true;
        self.outstanding -= 1;
        while self.complete.front() == Some(&true) {
            self.complete.pop_front();
            self.first += 1;
        }
    }

    /// The latest operation.
    pub(crate) fn last_handle(&self) -> Option<Handle> {
        (self.first + self.complete.len() as u64).checked_sub(1).map(Handle)
    }

    /// Whether an operation that has been issued is complete.
    pub(crate) fn is_complete(&self, handle: Handle) -> bool {
        match handle.0.checked_sub(self.first) {
            None => true,
            Some(index) => self.complete.get(index as usize).copied().unwrap_or(false),
        }
    }

    /// Whether an operation and all before it are complete.
    pub(crate) fn is_complete_up_to(&self, handle: Handle) -> bool {
        handle.0 < self.first
    }

    /// Whether what an operation is ordered behind is complete.
    pub(crate) fn allows(&self, order: Order, own: Handle) -> bool {
        match order {
            Order::None => true,
            Order::Handle(before) => self.is_complete(before),
            Order::All => self.first >= own.0,
            Order::Continue => self.is_complete(Handle(own.0.wrapping_sub(1))),
        }
    }

    /// How many operations are not complete.
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// How often a flag is raised.
    pub(crate) fn flag(&self, flag: u64) -> u64 {
        self.flags.get(&flag).map_or(0, |flag| flag.0)
    }

    /// Raises a flag by one.
    pub(crate) fn raise(&mut self, flag: u64, now: u64) {
        let (count, at) = self.flags.entry(flag).or_default();
        (*count, *at) = (*count + 1, now);
    }

    /// Lowers a flag if it is high enough; gives the time at which it was last raised.
    pub(crate) fn take_flag(&mut self, flag: u64, count: u64) -> Option<u64> {
        let (raised, at) = self.flags.get(&flag).copied().unwrap_or_default();
        match raised.checked_sub(count)? {
            0 => self.flags.remove(&flag),
            left => self.flags.insert(flag, (left, at)),
        };
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_count_up_and_complete_in_any_order() {
        let mut state = RankState::default();
        assert_eq!(state.last_handle(), None);
        let handles: Vec<Handle> = (0..3).map(|_| state.issue()).collect();
        assert_eq!(handles, [Handle(0), Handle(1), Handle(2)]);
        state.finish(Handle(1));
        assert!(state.is_complete(Handle(1)) && !state.is_complete_up_to(Handle(1)));
        state.finish(Handle(0));
        assert!(state.is_complete_up_to(Handle(1)) && !state.is_complete(Handle(2)));
        assert_eq!((state.outstanding(), state.last_handle()), (1, Some(Handle(2))));
        assert!(!state.is_complete(Handle(3)), "not issued");
    }

    #[test]
    fn a_flag_is_lowered_by_what_was_waited_for() {
        let mut state = RankState::default();
        state.raise(7, 10);
        assert_eq!(state.take_flag(7, 2), None);
        state.raise(7, 20);
        state.raise(7, 30);
        assert_eq!(state.take_flag(7, 2), Some(30));
        assert_eq!(state.flag(7), 1);
        assert_eq!(state.take_flag(9, 0), Some(0));
    }
}
