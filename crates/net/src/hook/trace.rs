//! Writes every message as an event of the Chrome trace format, which Perfetto reads too.
//!
//! All ranks append to one file: each collects its events and writes whole lines at a time. The launcher begins the
//! file with `[` and ends it; a reader of the format does not mind if the end is missing.

use super::tap::{payload_bytes, Hook};
use crate::contract::Message;
use crate::os::time;
use crate::wire::Header;
use crate::Rank;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// Events are written when this many bytes have come together.
const BATCH_BYTES: usize = 32 * 1024;

/// The diary of a rank.
pub(super) struct Trace {
    rank: Rank,
    path: PathBuf,
    text: String,
}

impl Trace {
    /// A diary that goes into the file at `path`.
    pub(super) fn new(rank: Rank, path: PathBuf) -> Trace {
        let text = format!(
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"rank {0}\"}}}},\n",
            rank.0
        );
        Trace { rank, path, text }
    }

    fn event(&mut self, name: &str, peer: Rank, header: &Header, bytes: u64) {
        let microseconds = time::now_ns() as f64 / 1000.0;
        let _ = writeln!(
            self.text,
            "{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"{name} kind {}\",\"ts\":{microseconds:.3},\"pid\":{},\"tid\":0,\
             \"args\":{{\"peer\":{},\"op\":{},\"bytes\":{bytes}}}}},",
            header.kind, self.rank.0, peer.0, header.op
        );
        if self.text.len() > BATCH_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&self.path);
        let written = file.and_then(|mut file| file.write_all(self.text.as_bytes()));
        if let Err(error) = written {
            eprintln!("kumiki: {}: cannot write the trace {}: {error}", self.rank, self.path.display());
        }
        self.text.clear();
    }
}

impl Hook for Trace {
    fn sending(&mut self, to: Rank, message: &Message) -> bool {
        self.event("send", to, &message.header, payload_bytes(message));
        true
    }

    fn received(&mut self, from: Rank, header: &Header) {
        self.event("receive", from, header, header.payload_bytes as u64);
    }

    fn lost(&mut self, peer: Rank) {
        self.event("lost", peer, &Header::default(), 0);
    }

    fn ended(&mut self, _transport: &'static str) {
        self.write();
    }
}
