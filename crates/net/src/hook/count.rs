//! Counts messages and bytes, and prints one line when the transport ends.

use super::tap::{payload_bytes, Hook};
use crate::agent::report;
use crate::contract::Message;
use crate::wire::Header;
use crate::Rank;

/// What was counted: messages sent (answers included) and frames received, with their payload bytes.
#[derive(Default)]
pub(super) struct Count {
    rank: Rank,
    sent_messages: u64,
    sent_bytes: u64,
    received_frames: u64,
    received_bytes: u64,
    lost_peers: u64,
}

impl Count {
    pub(super) fn new(rank: Rank) -> Count {
        Count { rank, ..Count::default() }
    }
}

impl Hook for Count {
    fn sending(&mut self, _to: Rank, message: &Message) -> bool {
        self.sent_messages += 1;
        self.sent_bytes += payload_bytes(message);
        true
    }

    fn written(&mut self, _to: Rank, _header: &Header, bytes: u64) {
        self.sent_messages += 1;
        self.sent_bytes += bytes;
    }

    fn received(&mut self, _from: Rank, header: &Header) {
        self.received_frames += 1;
        self.received_bytes += header.payload_bytes as u64;
    }

    fn lost(&mut self, _peer: Rank) {
        self.lost_peers += 1;
    }

    fn ended(&mut self, transport: &'static str) {
        report::print(&format!(
            "{} over {transport}: sent {} messages with {} bytes, received {} frames with {} bytes, lost {} peers",
            self.rank,
            self.sent_messages,
            self.sent_bytes,
            self.received_frames,
            self.received_bytes,
            self.lost_peers
        ));
    }
}
