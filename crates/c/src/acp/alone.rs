//! Channels of a process with itself, whose two ends the program may have made one by one.
//!
//! Each has both ends. Most programs send and receive by one and the same. Others make a channel to the next rank and one from the last,
//! which in a ring of one process are two: one is sent on, the other one receives. The first uses tell: what receives and was never sent on
//! meets, of those that were sent on and never received, the one that was made first, by an exchange of their ends; and the other way round.

use super::channels::{Ends, Kind, Tables};
use kumiki::raw::channels::ChannelEnd;
use kumiki::Result;

/// What a channel of a process with itself is used for, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing yet.
    Unknown,
    Sends,
    Receives,
    /// It is used for both, or has met another one. Channels between two processes are always so.
    Settled,
}

impl Tables {
    /// The ends of a channel, for a use of it; one that is used for the first time may meet another one.
    pub(super) fn ends_for(&mut self, channel: usize, kind: Kind) -> Result<Ends> {
        let used = match (self.ends(channel)?.used, kind) {
            (Use::Unknown, Kind::Send) if self.meet_receiver(channel) => Use::Settled,
            (Use::Unknown, Kind::Send) => Use::Sends,
            (Use::Unknown, Kind::Receive) if self.meet_sender(channel) => Use::Settled,
            (Use::Unknown, Kind::Receive) => Use::Receives,
            (Use::Sends, Kind::Receive) | (Use::Receives, Kind::Send) => Use::Settled,
            (used, _) => used,
        };
        let ends = self.ends(channel)?;
        ends.used = used;
        Ok(*ends)
    }

    /// The channel that was made first of those that are used so.
    fn first(&self, used: Use) -> Option<usize> {
        self.channels.iter().find(|(_, ends)| ends.used == used).map(|(number, _)| *number)
    }

    /// A channel that is sent on meets one that receives, if there is one: the two exchange the ends that send.
    fn meet_receiver(&mut self, channel: usize) -> bool {
        let first = self.first(Use::Receives);
        first.is_some_and(|first| self.exchange(channel, first, |ends| &mut ends.sender))
    }

    /// A channel that receives meets one that was sent on, if there is one: the two exchange the ends that receive.
    fn meet_sender(&mut self, channel: usize) -> bool {
        let (first, left) = (self.first(Use::Sends), self.left.keys().next().copied());
        match (first, left) {
            (first, Some(left)) if first.is_none_or(|first| left < first) => self.take_over(channel, left),
            (Some(first), _) => self.exchange(channel, first, |ends| &mut ends.receiver),
            (None, _) => false,
        }
    }

    fn exchange(
        &mut self,
        one: usize,
        other: usize,
        end: impl Fn(&mut Ends) -> &mut Option<ChannelEnd>,
    ) -> bool {
        let [mine, theirs] =
            [one, other].map(|channel| self.channels.get_mut(&channel).and_then(|ends| *end(ends)));
        for (channel, now) in [(one, theirs), (other, mine)] {
            if let Some(ends) = self.channels.get_mut(&channel) {
                *end(ends) = now;
                ends.used = Use::Settled;
            }
        }
        true
    }

    /// A channel receives what was sent on one that has been freed.
    fn take_over(&mut self, channel: usize, left: usize) -> bool {
        let receiver = self.left.remove(&left);
        let before =
            self.channels.get_mut(&channel).and_then(|ends| std::mem::replace(&mut ends.receiver, receiver));
        self.spare.extend(before);
        true
    }

    /// A channel is freed: whether what was sent on it is left for another one, which may still receive it.
    pub(super) fn leave(&mut self, channel: usize, receiver: ChannelEnd) -> bool {
        let sends = self.channels.get(&channel).is_some_and(|ends| ends.used == Use::Sends);
        let is_left = sends && self.first(Use::Unknown).is_some();
        if is_left {
            self.left.insert(channel, receiver);
        }
        is_left
    }

    /// The ends that are to be freed: nobody can have what was left when each channel is known to be used otherwise.
    pub(super) fn take_spare(&mut self) -> Vec<ChannelEnd> {
        if !self.left.is_empty() && self.first(Use::Unknown).is_none() {
            self.spare.extend(std::mem::take(&mut self.left).into_values());
        }
        std::mem::take(&mut self.spare)
    }
}
