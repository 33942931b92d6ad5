//! Writes every message as an event of the Chrome trace format, which Perfetto reads too.
//!
//! All ranks append to one file: each collects its events and writes whole lines at a time. The launcher begins the
//! file with `[` and ends it; a reader of the format does not mind if the end is missing.
//!
//! An event says how long its thread had waited for it (`waited`, in microseconds), so that a replay can tell waiting
//! from computing. Events of the service thread have `tid` 1: the program was doing something else meanwhile.

use super::tap::{payload_bytes, Hook};
use crate::agent::report;
use crate::contract::Message;
use crate::os::file::open_to_append;
use crate::os::time;
use crate::wire::Header;
use crate::Rank;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

/// Events are written when this many bytes have come together.
const BATCH_BYTES: usize = 32 * 1024;

/// The diary of a rank.
pub(super) struct Trace {
    rank: Rank,
    path: PathBuf,
    /// Open from the first piece on: later ones go to the same file, whatever becomes of its path.
    file: Option<File>,
    text: String,
    /// What a kind of frame is called.
    name: fn(u8) -> &'static str,
    /// Whether it was said that the file cannot be written.
    complained: bool,
    /// Since when the program has looked for traffic and found none.
    waits_since_ns: Option<u64>,
}

/// The thread that serves others while the program computes.
const SERVICE_THREAD: &str = "kumiki-service";

fn is_service_thread() -> bool {
    std::thread::current().name() == Some(SERVICE_THREAD)
}

impl Trace {
    /// A diary that goes into the file at `path`.
    pub(super) fn new(rank: Rank, path: PathBuf, name: fn(u8) -> &'static str) -> Trace {
        let text = format!(
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"rank {0}\"}}}},\n",
            rank.0
        );
        Trace { rank, path, file: None, text, name, complained: false, waits_since_ns: None }
    }

    fn event(&mut self, what: &str, peer: Rank, header: &Header, bytes: u64) {
        let now_ns = time::now_ns();
        let thread = is_service_thread() as u8;
        let since_ns = if thread == 0 { self.waits_since_ns.take() } else { None };
        let waited = since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns)) as f64 / 1000.0;
        let _ = writeln!(
            self.text,
            "{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"{what} {}\",\"ts\":{:.3},\"pid\":{},\"tid\":{thread},\
             \"args\":{{\"kind\":{},\"peer\":{},\"op\":{},\"bytes\":{bytes},\"waited\":{waited:.3}}}}},",
            (self.name)(header.kind),
            now_ns as f64 / 1000.0,
            self.rank.0,
            header.kind,
            peer.0,
            header.op
        );
        if self.text.len() > BATCH_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        let written = self.write_text();
        if let (Err(error), false) = (&written, self.complained) {
            self.complained = true;
            let path = self.path.display();
            report::print(&format!("{}: cannot write the trace {path}: {error}", self.rank));
        }
        self.text.clear();
    }

    fn write_text(&mut self) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            empty => empty.insert(open_to_append(&self.path)?),
        };
        file.write_all(self.text.as_bytes())
    }
}

impl Hook for Trace {
    fn sending(&mut self, to: Rank, message: &Message) -> bool {
        self.event("send", to, &message.header, payload_bytes(message));
        true
    }

    fn written(&mut self, to: Rank, header: &Header, bytes: u64) {
        self.event("send", to, header, bytes);
    }

    fn received(&mut self, from: Rank, header: &Header) {
        self.event("receive", from, header, header.payload_bytes as u64);
    }

    fn lost(&mut self, peer: Rank) {
        self.event("lost", peer, &Header::default(), 0);
    }

    fn polled(&mut self, happened: usize) {
        if happened == 0 && self.waits_since_ns.is_none() && !is_service_thread() {
            self.waits_since_ns = Some(time::now_ns());
        }
    }

    fn ended(&mut self, _transport: &'static str) {
        self.write();
    }
}
