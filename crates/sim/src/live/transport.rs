//! The contract of `kumiki-net` over the hall: what a simulated rank sends and receives.

use super::hall::{Frame, Hall, News};
use crate::Time;
use kumiki_net::contract::{
    Closing, Fault, Footprint, Message, Outbox, Payload, Server, Sink, Sleeper, Transport, FLAG_MORE,
    PIECE_BYTES,
};
use kumiki_net::{Error, Rank, Result};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};

/// The transport of one rank.
pub(super) struct Link {
    hall: Arc<Hall>,
    rank: u32,
    /// The thread of the rank: others poll on its behalf, and do not crash for it.
    home: ThreadId,
}

impl Link {
    pub(super) fn new(hall: Arc<Hall>, rank: u32) -> Link {
        Link { hall, rank, home: thread::current().id() }
    }

    /// Time and turns belong to the threads of ranks: another one would act outside of both.
    fn check_thread(&self) -> Result<()> {
        match super::is_rank() {
            true => Ok(()),
            false => Err(Error::Misuse(format!(
                "a second thread of simulated rank {}: a simulated rank has one thread, in which its function was called",
                self.rank
            ))),
        }
    }

    fn is_home(&self) -> bool {
        thread::current().id() == self.home
    }

    /// Sends what a callback asked for.
    fn send_all(&mut self, out: Outbox, sink: &mut dyn Sink) {
        for (to, message) in out.messages {
            if let Err(error) = self.transmit(to, &message, sink) {
                let mut more = Outbox::default();
                sink.lost(to, error, &mut more);
                self.send_all(more, sink);
            }
        }
    }

    fn transmit(&mut self, to: Rank, message: &Message, sink: &mut dyn Sink) -> Result<()> {
        let from = Rank(self.rank);
        let whole = |bytes: Vec<u8>| Frame { from, to, header: message.header, bytes };
        let (source, length) = match message.payload {
            Payload::None => return self.hall.send(whole(Vec::new())),
            Payload::Lazy(source, length) => (source, length),
        };
        let mut offset = 0;
        loop {
            let count = (length - offset).min(PIECE_BYTES as u64);
            let mut bytes = vec![0; count as usize];
            if !sink.fill(source, offset, &mut bytes) {
                let mut out = Outbox::default();
                sink.withdrawn(to, &message.header, &mut out);
                self.send_all(out, sink);
                return Ok(());
            }
            let mut header = message.header;
            header.d = offset;
            offset += count;
            if offset < length {
                header.flags |= FLAG_MORE;
            }
            self.hall.send(Frame { from, to, header, bytes })?;
            if offset >= length {
                return Ok(());
            }
        }
    }
}

impl Transport for Link {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        self.check_thread()?;
        if self.is_home() {
            self.hall.count(self.rank);
        }
        self.transmit(to, &message, sink)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.check_thread()?;
        let mut happened = 0;
        while let Some(news) = self.hall.next_news(self.rank) {
            happened += 1;
            let mut out = Outbox::default();
            match news {
                News::Frame(frame) => {
                    if !frame.bytes.is_empty() {
                        sink.part(frame.from, &frame.header, 0, &frame.bytes);
                    }
                    sink.frame(frame.from, 0, &frame.header, &mut out);
                }
                News::Lost(peer, error) => sink.lost(peer, error, &mut out),
            }
            self.send_all(out, sink);
        }
        Ok(happened)
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        Arc::new(Rest { hall: self.hall.clone(), rank: self.rank })
    }

    fn adopt(&mut self, _socket: OwnedFd) -> Result<()> {
        Err(Error::Misuse("a simulated rank has no sockets".into()))
    }

    fn wake_up_at(&self) -> Option<u64> {
        None
    }

    fn close(&mut self, _sink: &mut dyn Sink) -> Closing {
        Closing::Closed
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    fn inject(&mut self, peer: Rank, fault: Fault) {
        // A frame that vanishes or is spoilt ends a connection, as its receiver notices; a stall does not, and nothing is sent
        // in place here that could be torn.
        if !matches!(fault, Fault::Stall { .. } | Fault::Tear) {
            self.hall.break_connection(self.rank, peer.0);
        }
    }

    fn serve_with(&mut self, server: Weak<dyn Server>) -> bool {
        self.hall.set_server(self.rank, server);
        true
    }
}

/// How a simulated rank sleeps.
struct Rest {
    hall: Arc<Hall>,
    rank: u32,
}

impl Sleeper for Rest {
    fn sleep(&self, timeout_ms: i32) -> Result<()> {
        if self.hall.is_crashed(self.rank) || !super::is_rank() {
            return Ok(());
        }
        self.hall.sleep(self.rank, Time::from_us(timeout_ms.max(0) as u64 * 1000));
        Ok(())
    }

    fn wake(&self) {
        self.hall.call(self.rank);
    }
}
