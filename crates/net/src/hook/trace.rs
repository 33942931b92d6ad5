//! Writes every message as an event of the Chrome trace format, which Perfetto reads too.
//!
//! All ranks append to one file: each collects its events and writes whole lines at a time. The launcher begins the
//! file with `[` and ends it; a reader of the format does not mind if the end is missing.

use super::pass_on;
use crate::contract::{Closing, Message, Outbox, Payload, Sink, Source, Transport};
use crate::os::time;
use crate::wire::Header;
use crate::{Error, Rank, Result};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// Events are written when this many bytes have come together.
const BATCH_BYTES: usize = 32 * 1024;

/// A transport that keeps a diary.
pub struct Trace {
    inner: Box<dyn Transport>,
    diary: Diary,
}

struct Diary {
    rank: Rank,
    path: PathBuf,
    text: String,
}

impl Trace {
    /// Traces what goes through `inner` into the file at `path`.
    pub fn new(inner: Box<dyn Transport>, rank: Rank, path: PathBuf) -> Trace {
        let mut diary = Diary { rank, path, text: String::new() };
        let _ = writeln!(
            diary.text,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"rank {0}\"}}}},",
            rank.0
        );
        Trace { inner, diary }
    }
}

impl Diary {
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

    fn sent(&mut self, to: Rank, message: &Message) {
        let bytes = match message.payload {
            Payload::None => 0,
            Payload::Inline(_, length) => length as u64,
            Payload::Lazy(_, bytes) => bytes,
        };
        self.event("send", to, &message.header, bytes);
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

struct Tracing<'a> {
    sink: &'a mut dyn Sink,
    diary: &'a mut Diary,
}

impl Sink for Tracing<'_> {
    fn part(&mut self, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        self.sink.part(from, header, at, bytes);
    }

    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        self.diary.event("receive", from, header, header.payload_bytes as u64);
        let before = out.messages.len();
        let answer = self.sink.frame(from, path, header, out);
        for (to, message) in &out.messages[before..] {
            self.diary.sent(*to, message);
        }
        answer
    }

    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> bool {
        self.sink.fill(source, offset, place)
    }

    fn withdrawn(&mut self, to: Rank, header: &Header, out: &mut Outbox) {
        self.sink.withdrawn(to, header, out);
    }

    fn lost(&mut self, peer: Rank, error: Error, out: &mut Outbox) {
        self.diary.event("lost", peer, &Header::default(), 0);
        self.sink.lost(peer, error, out);
    }

    fn agent(&mut self, out: &mut Outbox) {
        self.sink.agent(out);
    }
}

impl Transport for Trace {
    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        self.diary.sent(to, &message);
        self.inner.send(to, message, &mut Tracing { sink, diary: &mut self.diary })
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.inner.poll(&mut Tracing { sink, diary: &mut self.diary })
    }

    fn wake_up_at(&self) -> Option<u64> {
        self.inner.wake_up_at()
    }

    fn close(&mut self, sink: &mut dyn Sink) -> Closing {
        self.inner.close(sink)
    }

    pass_on!();
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.diary.write();
    }
}
