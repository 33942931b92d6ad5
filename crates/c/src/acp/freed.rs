//! What a program has freed a short time ago, for the message that it gets when it names it again.

use std::collections::VecDeque;

/// So many are remembered.
const KEPT: usize = 64;

/// The last handles that were freed, and what they were.
pub(super) struct Freed(VecDeque<(usize, String)>);

impl Freed {
    pub(super) const fn new() -> Freed {
        Freed(VecDeque::new())
    }

    /// Notes one that is gone.
    pub(super) fn note(&mut self, handle: usize, what: String) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((handle, what));
    }

    /// What a handle was.
    pub(super) fn find(&self, handle: usize) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| *known == handle).map(|(_, what)| what.as_str())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_remembered() {
        let mut freed = Freed::new();
        (0..100).for_each(|handle| freed.note(handle, format!("number {handle}")));
        assert_eq!((freed.find(99), freed.find(35)), (Some("number 99"), None));
        freed.clear();
        assert_eq!(freed.find(99), None);
    }
}
