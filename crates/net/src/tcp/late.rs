//! Answers that nobody waits for: they wait for each other, and go as one bundle, with the next message if there is one soon. Other messages
//! overtake them.

use crate::contract::{Leeway, Message};
use crate::os::time;
use crate::Rank;

/// So many go together: fewer than would let [messages wait for answers](super::sending::FEW_UNANSWERED).
const MOST: usize = 6;
const _: () = assert!(MOST < super::sending::FEW_UNANSWERED as usize);
/// They wait for so many polls at most; who yields to others between them polls often…
const MOST_POLLS: u32 = 512;
/// …or, where nobody polls all the time, so long; it is looked at the clock when somebody has slept, and at some of the other polls.
const MOST_MS: u64 = 2;
const POLLS_A_LOOK: u32 = 8;

/// Those of all connections.
#[derive(Default)]
pub(super) struct Late {
    answers: Vec<(Rank, Message)>,
    polls: u32,
    until_ms: u64,
}

impl Late {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.answers.len() >= MOST
    }

    /// Keeps a message if it may wait for long, and there is room.
    pub(super) fn takes(&mut self, to: Rank, message: &Message) -> bool {
        if message.leeway != Leeway::Long || self.is_full() {
            return false;
        }
        if self.is_empty() {
            self.answers.reserve_exact(MOST);
            (self.polls, self.until_ms) = (0, time::now_ms() + MOST_MS);
        }
        self.answers.push((to, *message));
        true
    }

    /// Whether they are enough, or have waited for long enough; asked at each poll.
    #[inline]
    pub(super) fn is_due(&mut self, slept: bool) -> bool {
        if self.is_empty() || self.is_full() {
            return !self.is_empty();
        }
        self.polls += 1;
        let looks_at_the_clock = slept || self.polls.is_multiple_of(POLLS_A_LOOK);
        self.polls >= MOST_POLLS || looks_at_the_clock && time::now_ms() >= self.until_ms
    }

    /// When they must be sent even if nobody polls.
    pub(super) fn until_ms(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.until_ms)
    }

    /// All of them, in their order.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (Rank, Message)> + '_ {
        self.answers.drain(..)
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.answers.capacity() * size_of::<(Rank, Message)>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Path, Payload};
    use crate::wire::Header;

    fn answer(leeway: Leeway) -> Message {
        let (header, payload) = (Header::default(), Payload::None);
        Message { header, payload, expects_answer: false, path: Path::Answer(0), leeway }
    }

    #[test]
    fn answers_wait_until_they_are_many_or_have_waited_for_long() {
        let mut late = Late::default();
        assert!(!late.takes(Rank(1), &answer(Leeway::None)) && !late.takes(Rank(1), &answer(Leeway::Short)));
        assert!(!late.is_due(true) && late.until_ms().is_none());
        for _ in 0..MOST {
            assert!(!late.is_full() && late.takes(Rank(1), &answer(Leeway::Long)));
        }
        assert!(late.is_full() && late.is_due(false) && !late.takes(Rank(1), &answer(Leeway::Long)));
        assert_eq!(late.take().count(), MOST);
        assert!(late.takes(Rank(1), &answer(Leeway::Long)) && late.until_ms().is_some());
        // The clock may have gone on meanwhile.
        assert!((1..).find(|_| late.is_due(false)).is_some_and(|polls| polls <= MOST_POLLS));
        assert_eq!((late.take().count(), late.is_empty()), (1, true));
    }
}
