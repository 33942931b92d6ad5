//! Peers whose connection broke, and of whom the agents have said nothing yet.
//!
//! A process that dies takes its connections with it, and the agents know how it ended a moment later: a broken connection is
//! only a suspicion for as long as that takes. The engine has no clock: the time runs from the first that it is told after
//! the break.

use crate::Error;
use kumiki_net::Rank;

/// How long a broken connection is only a suspicion. The promise is 1 s.
const SUSPECT_MS: u64 = 900;

/// The suspects of a rank.
#[derive(Debug, Default)]
pub(crate) struct Suspects(Vec<Suspect>);

/// A peer whose connection broke.
#[derive(Debug)]
struct Suspect {
    peer: Rank,
    /// What the operations that wait for it come to, if nothing better is known by then.
    error: Error,
    /// `None` until a time is told.
    until_ms: Option<u64>,
}

impl Suspects {
    /// Suspects a peer. False if it is suspected already.
    pub(crate) fn add(&mut self, peer: Rank, error: Error) -> bool {
        if self.0.iter().any(|suspect| suspect.peer == peer) {
            return false;
        }
        self.0.push(Suspect { peer, error, until_ms: None });
        true
    }

    /// The agents have said what became of a peer.
    pub(crate) fn clear(&mut self, peer: Rank) {
        self.0.retain(|suspect| suspect.peer != peer);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When a time must be told: at once, if some suspicion has not begun to run.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.0.iter().map(|suspect| suspect.until_ms.unwrap_or(0)).min()
    }

    /// The time is `now_ms`: one whom nothing better was heard of in time.
    pub(crate) fn judge(&mut self, now_ms: u64) -> Option<(Rank, Error)> {
        for suspect in &mut self.0 {
            suspect.until_ms.get_or_insert(now_ms + SUSPECT_MS);
        }
        let over = |suspect: &Suspect| suspect.until_ms.is_some_and(|until_ms| until_ms <= now_ms);
        let index = self.0.iter().position(over)?;
        let Suspect { peer, error, .. } = self.0.swap_remove(index);
        Some((peer, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_is_given_up_when_its_time_is_over_and_not_before() {
        let mut suspects = Suspects::default();
        let error = || Error::Closed("the connection broke".into());
        assert!(suspects.add(Rank(1), error()) && !suspects.add(Rank(1), error()));
        assert_eq!(suspects.next_deadline_ms(), Some(0), "a time is wanted at once");
        assert_eq!(suspects.judge(5_000), None);
        suspects.add(Rank(2), error());
        assert_eq!(suspects.judge(5_500), None);
        assert_eq!(suspects.next_deadline_ms(), Some(5_000 + SUSPECT_MS));
        assert_eq!(suspects.judge(5_000 + SUSPECT_MS), Some((Rank(1), error())));
        assert_eq!(suspects.judge(5_000 + SUSPECT_MS), None);
        suspects.clear(Rank(2));
        assert!(suspects.is_empty() && suspects.next_deadline_ms().is_none());
    }
}
