//! What was sent on a stream and has not been acknowledged, and how much of the other direction has come: with both a stream goes
//! on over another connection when its own has broken, and nothing is lost, repeated or out of order.
//!
//! Bytes are counted from the handshake of the first connection on, in each direction by itself. They are kept in chunks of
//! whatever kind the user of the wire sends: copies, or memory that is read once more.

use std::collections::VecDeque;

/// The two directions of a stream that is kept, with chunks of bytes of some kind.
///
/// ```
/// use kumiki_net::wire::Kept;
/// let mut kept = Kept::default();
/// kept.push("all that was sent", 17);
/// kept.sent(12); // The socket took no more, and then the connection broke.
/// assert!(kept.rewind(9)); // The peer says that it has nine bytes.
/// assert_eq!(kept.unsent(), Some((&mut "all that was sent", 9)));
/// kept.sent(8);
/// assert!(kept.acknowledge(17));
/// assert_eq!((kept.release(), kept.release()), (Some("all that was sent"), None));
/// ```
#[derive(Debug)]
pub struct Kept<C> {
    /// Each with the number of the byte behind it.
    chunks: VecDeque<(C, u64)>,
    /// Where the next byte goes on: the chunk, and how many of the whole stream the socket has taken.
    at: usize,
    sent: u64,
    /// The most that a socket has taken: the peer may have more than what was sent since the stream went on behind something that it
    /// had said earlier.
    reached: u64,
    /// Bytes of chunks that have been released.
    released: u64,
    acknowledged: u64,
    received: u64,
    told: u64,
}

impl<C> Default for Kept<C> {
    fn default() -> Self {
        Kept {
            chunks: VecDeque::new(),
            at: 0,
            sent: 0,
            reached: 0,
            released: 0,
            acknowledged: 0,
            received: 0,
            told: 0,
        }
    }
}

impl<C> Kept<C> {
    /// Bytes that have been pushed.
    pub fn end(&self) -> u64 {
        self.chunks.back().map_or(self.released, |(_, end)| *end)
    }

    /// Puts a chunk of so many bytes behind the others.
    pub fn push(&mut self, chunk: C, bytes: u64) {
        let end = self.end() + bytes;
        self.chunks.push_back((chunk, end));
    }

    /// The last chunk, to put more into it: then [`grow`](Self::grow) must be told.
    pub fn last(&mut self) -> Option<&mut C> {
        self.chunks.back_mut().map(|(chunk, _)| chunk)
    }

    /// So many bytes were put into the last chunk.
    pub fn grow(&mut self, bytes: u64) {
        if let Some((_, end)) = self.chunks.back_mut() {
            *end += bytes;
        }
    }

    /// Whether something has not been given to the socket.
    pub fn has_unsent(&self) -> bool {
        self.sent < self.end()
    }

    /// Bytes that have not been given to the socket.
    pub fn unsent_bytes(&self) -> u64 {
        self.end() - self.sent
    }

    /// The chunk that must be sent next, and from which of its bytes on.
    pub fn unsent(&mut self) -> Option<(&mut C, u64)> {
        if !self.has_unsent() {
            return None;
        }
        while self.chunks.get(self.at).is_some_and(|(_, end)| *end <= self.sent) {
            self.at += 1;
        }
        let start = match self.at.checked_sub(1) {
            Some(before) => self.chunks.get(before).map_or(self.released, |(_, end)| *end),
            None => self.released,
        };
        let from = self.sent - start;
        self.chunks.get_mut(self.at).map(|(chunk, _)| (chunk, from))
    }

    /// The socket has taken so many bytes.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.reached = self.reached.max(self.sent);
        debug_assert!(self.sent <= self.end());
    }

    /// The peer says, or has said some time ago, that so many bytes have come. False if that cannot be.
    #[must_use]
    pub fn acknowledge(&mut self, bytes: u64) -> bool {
        let right = bytes <= self.sent;
        if right {
            // What was said before the stream went on elsewhere may come once more.
            self.acknowledged = self.acknowledged.max(bytes);
        }
        right
    }

    /// All that was sent has come, as far as anybody will know: on a stream that does not outlive its connection.
    pub fn acknowledge_sent(&mut self) {
        self.acknowledged = self.sent;
    }

    /// Takes back a chunk that was acknowledged wholly, if there is one.
    pub fn release(&mut self) -> Option<C> {
        let (_, end) = self.chunks.front().filter(|(_, end)| *end <= self.acknowledged)?;
        self.released = *end;
        self.at = self.at.saturating_sub(1);
        if self.chunks.len() == 1 && self.chunks.capacity() > 64 {
            return std::mem::take(&mut self.chunks).pop_front().map(|(chunk, _)| chunk);
        }
        self.chunks.pop_front().map(|(chunk, _)| chunk)
    }

    /// Takes back every chunk: the stream is over.
    pub fn clear(&mut self) -> impl Iterator<Item = C> {
        self.released = self.end();
        (self.sent, self.acknowledged, self.at) = (self.released, self.released, 0);
        self.reached = self.released;
        std::mem::take(&mut self.chunks).into_iter().map(|(chunk, _)| chunk)
    }

    /// The stream goes on over another connection, behind so many bytes that have come to the peer. False if that cannot be.
    #[must_use]
    pub fn rewind(&mut self, bytes: u64) -> bool {
        if !(self.acknowledged..=self.reached).contains(&bytes) {
            return false;
        }
        self.acknowledged = bytes;
        (self.sent, self.at) = (bytes, 0);
        self.told = self.received;
        true
    }

    /// So many bytes of the other direction have come.
    pub fn took(&mut self, bytes: u64) {
        self.received += bytes;
    }

    /// Bytes of the other direction that have come.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes that the peer is known to have.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Bytes of the other direction that have come since the peer was told how many.
    pub fn untold(&self) -> u64 {
        self.received - self.told
    }

    /// The peer is told how many bytes have come: so many.
    pub fn tell(&mut self) -> u64 {
        self.told = self.received;
        self.received
    }

    /// Chunks that are kept.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One direction: what one side keeps, what the network has taken from it, and what has come to the other.
    #[derive(Default)]
    struct Direction {
        kept: Kept<Vec<u8>>,
        pushed: Vec<u8>,
        network: VecDeque<u8>,
        arrived: Vec<u8>,
    }

    impl Direction {
        fn push(&mut self, bytes: Vec<u8>, into_last: bool) {
            self.pushed.extend(&bytes);
            let count = bytes.len() as u64;
            match self.kept.last().filter(|_| into_last) {
                Some(last) => {
                    last.extend(bytes);
                    self.kept.grow(count);
                }
                None => self.kept.push(bytes, count),
            }
        }

        fn send(&mut self, most: usize) {
            let Some((chunk, from)) = self.kept.unsent() else { return };
            let taken: Vec<u8> = chunk[from as usize..].iter().take(most).copied().collect();
            self.network.extend(&taken);
            self.kept.sent(taken.len() as u64);
        }

        fn arrive(&mut self, most: usize) {
            let count = most.min(self.network.len());
            self.arrived.extend(self.network.drain(..count));
        }

        fn acknowledge(&mut self) {
            assert!(self.kept.acknowledge(self.arrived.len() as u64));
            while self.kept.release().is_some() {}
        }

        /// The stream goes on behind what the other side had said before it took what has come since, on a way that is dead.
        fn go_astray(&mut self, said: u64) {
            self.network.clear();
            assert!(self.kept.rewind(said));
            self.kept.unsent();
        }

        fn cut(&mut self) {
            self.network.clear();
            assert!(self.kept.rewind(self.arrived.len() as u64));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_cut_all_bytes_come_once_and_in_order(
            steps in prop::collection::vec((0u8..7, 0usize..40, any::<u8>()), 0..300),
        ) {
            let mut way = Direction::default();
            for (step, size, value) in steps {
                match step {
                    0 => way.push(vec![value; size], value % 2 == 0),
                    1 | 2 => way.send(size),
                    3 => way.arrive(size),
                    4 => way.acknowledge(),
                    5 => {
                        // Something that was said earlier, and is not older than the latest that was heard.
                        let (heard, true_one) = (way.kept.acknowledged(), way.arrived.len() as u64);
                        way.go_astray(heard + (size as u64).min(true_one - heard));
                        // What is sent there does not come.
                        way.send(usize::from(value));
                        way.cut();
                    }
                    _ => way.cut(),
                }
                prop_assert!(way.pushed.starts_with(&way.arrived));
            }
            way.cut();
            while way.kept.has_unsent() {
                way.send(7);
            }
            way.arrive(usize::MAX);
            prop_assert_eq!(&way.arrived, &way.pushed);
            way.acknowledge();
            prop_assert_eq!(way.kept.chunks(), 0);
        }
    }

    #[test]
    fn a_peer_that_had_more_than_it_had_said_was_not_believed() {
        let mut kept = Kept::default();
        kept.push((), 10);
        kept.sent(4);
        // Both have called: what the peer said in its own call is older than what it took on ours.
        assert!(kept.rewind(0));
        assert!(kept.rewind(4), "it was sent, and came");
        assert_eq!(kept.unsent(), Some((&mut (), 4)));
        assert!(!kept.rewind(5), "it was never sent");
    }

    #[test]
    fn what_cannot_have_come_is_not_believed() {
        let mut kept = Kept::default();
        kept.push((), 10);
        kept.sent(4);
        assert!(!kept.acknowledge(5), "it was never sent");
        assert!(!kept.rewind(5));
        assert!(kept.acknowledge(3));
        assert!(kept.acknowledge(2), "it is no news");
        assert!(!kept.rewind(2));
        assert!(kept.rewind(3));
        assert_eq!(kept.unsent(), Some((&mut (), 3)));
    }
}
