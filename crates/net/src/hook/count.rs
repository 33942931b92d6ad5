//! Counts messages and bytes, and prints one line when the transport ends.

use super::pass_on;
use crate::contract::{Closing, Message, Outbox, Payload, Sink, Source, Transport};
use crate::wire::Header;
use crate::{Error, Rank, Result};

/// What was counted: messages sent (answers included) and frames received, with their payload bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Totals {
    sent_messages: u64,
    sent_bytes: u64,
    received_frames: u64,
    received_bytes: u64,
    lost_peers: u64,
}

/// A transport that counts.
pub struct Count {
    inner: Box<dyn Transport>,
    rank: Rank,
    totals: Totals,
}

impl Count {
    /// Counts what goes through `inner`.
    pub fn new(inner: Box<dyn Transport>, rank: Rank) -> Count {
        Count { inner, rank, totals: Totals::default() }
    }
}

impl Totals {
    fn sent(&mut self, message: &Message) {
        self.sent_messages += 1;
        self.sent_bytes += match message.payload {
            Payload::None => 0,
            Payload::Inline(_, length) => length as u64,
            Payload::Lazy(_, bytes) => bytes,
        };
    }
}

struct Counting<'a> {
    sink: &'a mut dyn Sink,
    totals: &'a mut Totals,
}

impl Counting<'_> {
    fn count_new(&mut self, out: &Outbox, before: usize) {
        out.messages[before.min(out.messages.len())..]
            .iter()
            .for_each(|(_, message)| self.totals.sent(message));
    }
}

impl Sink for Counting<'_> {
    fn part(&mut self, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        self.totals.received_bytes += bytes.len() as u64;
        self.sink.part(from, header, at, bytes);
    }

    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        self.totals.received_frames += 1;
        let before = out.messages.len();
        let answer = self.sink.frame(from, path, header, out);
        self.count_new(out, before);
        answer
    }

    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> bool {
        self.sink.fill(source, offset, place)
    }

    fn withdrawn(&mut self, to: Rank, header: &Header, out: &mut Outbox) {
        self.sink.withdrawn(to, header, out);
    }

    fn lost(&mut self, peer: Rank, error: Error, out: &mut Outbox) {
        self.totals.lost_peers += 1;
        self.sink.lost(peer, error, out);
    }

    fn agent(&mut self, out: &mut Outbox) {
        self.sink.agent(out);
    }
}

impl Transport for Count {
    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        self.totals.sent(&message);
        self.inner.send(to, message, &mut Counting { sink, totals: &mut self.totals })
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.inner.poll(&mut Counting { sink, totals: &mut self.totals })
    }

    fn wake_up_at(&self) -> Option<u64> {
        self.inner.wake_up_at()
    }

    fn close(&mut self, sink: &mut dyn Sink) -> Closing {
        self.inner.close(sink)
    }

    pass_on!();
}

impl Drop for Count {
    fn drop(&mut self) {
        let totals = &self.totals;
        eprintln!(
            "kumiki: {} over {}: sent {} messages with {} bytes, received {} frames with {} bytes, lost {} peers",
            self.rank,
            self.inner.name(),
            totals.sent_messages,
            totals.sent_bytes,
            totals.received_frames,
            totals.received_bytes,
            totals.lost_peers
        );
    }
}
