//! The contract of `kumiki-net` over the hall: what a simulated rank sends and receives.

use super::hall::{Frame, Hall, News};
use crate::Time;
use kumiki_net::contract::{
    Capabilities, Closing, Fault, Filled, Footprint, Message, Outbox, Payload, Server, Sink, Sleeper,
    Transport, FLAG_MORE, LETTER_BYTES, LONG_LETTER_BYTES, MOST_LETTERS, MOST_UNHEARD, PIECE_BYTES,
};
use kumiki_net::os::time;
use kumiki_net::wire::Header;
use kumiki_net::{Error, Rank, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};

/// The transport of one rank.
pub(super) struct Link {
    hall: Arc<Hall>,
    rank: u32,
    /// The thread of the rank: others poll on its behalf, and do not crash for it.
    home: ThreadId,
    /// Messages whose payload is not there yet, those behind them to the same rank, and how far the first has gone.
    held: VecDeque<Held>,
    /// How often something has come.
    comings: u64,
    /// To whom short letters went: how many since something came, and at which coming that was, and how many since something came from there.
    letters: BTreeMap<u32, (u64, u8, u8)>,
}

/// A message that waits for its payload, or for one that does.
struct Held {
    to: Rank,
    message: Message,
    offset: u64,
}

impl Link {
    pub(super) fn new(hall: Arc<Hall>, rank: u32) -> Link {
        Link {
            hall,
            rank,
            home: thread::current().id(),
            held: VecDeque::new(),
            comings: 0,
            letters: BTreeMap::new(),
        }
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
            if let Err(error) = self.queue(to, message, sink) {
                let mut more = Outbox::default();
                sink.lost(to, error, &mut more);
                self.send_all(more, sink);
            }
        }
    }

    /// Sends a message, or holds it behind those to the same rank that wait.
    fn queue(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        if self.held.iter().any(|held| held.to == to) {
            self.held.push_back(Held { to, message, offset: 0 });
            return Ok(());
        }
        if let Some(offset) = self.transmit(to, &message, 0, sink)? {
            self.held.push_back(Held { to, message, offset });
        }
        Ok(())
    }

    /// Asks again for the payloads that were not there.
    fn send_held(&mut self, sink: &mut dyn Sink) {
        let mut stuck: Vec<Rank> = Vec::new();
        for held in std::mem::take(&mut self.held) {
            let Held { to, message, offset } = held;
            if stuck.contains(&to) {
                self.held.push_back(Held { to, message, offset });
                continue;
            }
            match self.transmit(to, &message, offset, sink) {
                Ok(None) => {}
                Ok(Some(offset)) => {
                    stuck.push(to);
                    self.held.push_back(Held { to, message, offset });
                }
                Err(error) => {
                    let mut out = Outbox::default();
                    sink.lost(to, error, &mut out);
                    self.send_all(out, sink);
                }
            }
        }
    }

    /// Sends a message from an offset of its payload on. `Some`: the rest, from there, is not there yet.
    fn transmit(
        &mut self,
        to: Rank,
        message: &Message,
        mut offset: u64,
        sink: &mut dyn Sink,
    ) -> Result<Option<u64>> {
        let from = Rank(self.rank);
        let (source, length) = match message.payload {
            Payload::None => {
                self.hall.send(Frame { from, to, header: message.header, bytes: Vec::new() })?;
                return Ok(None);
            }
            Payload::Lazy(source, length) => (source, length),
        };
        loop {
            let count = (length - offset).min(PIECE_BYTES as u64);
            let mut bytes = vec![0; count as usize];
            match sink.fill(source, offset, &mut bytes) {
                Filled::Whole => {}
                Filled::NotYet => return Ok(Some(offset)),
                Filled::Gone => {
                    let mut out = Outbox::default();
                    sink.withdrawn(to, &message.header, &mut out);
                    self.send_all(out, sink);
                    return Ok(None);
                }
            }
            let mut header = message.header;
            header.d = offset;
            offset += count;
            if offset < length {
                header.flags |= FLAG_MORE;
            }
            self.hall.send(Frame { from, to, header, bytes })?;
            if offset >= length {
                return Ok(None);
            }
        }
    }
}

impl Transport for Link {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { serves_by_itself: true, sleeps_at_once: true, ..Capabilities::default() }
    }

    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        self.check_thread()?;
        if self.is_home() {
            self.hall.count(self.rank);
        }
        self.queue(to, message, sink)
    }

    fn letter(&mut self, to: Rank, header: Header, payload: &[u8], _sink: &mut dyn Sink) -> Result<bool> {
        self.check_thread()?;
        let is_short = payload.len() <= LETTER_BYTES;
        let (at, gone, unheard) = self.letters.get(&to.0).copied().unwrap_or_default();
        let gone = if at == self.comings { gone } else { 0 };
        let waits = self.held.iter().any(|held| held.to == to);
        if waits
            || payload.len() > LONG_LETTER_BYTES
            || is_short && (gone >= MOST_LETTERS || unheard >= MOST_UNHEARD)
        {
            return Ok(false);
        }
        if self.is_home() {
            self.hall.count(self.rank);
        }
        let header = Header { payload_bytes: payload.len() as u32, ..header };
        self.hall.send(Frame { from: Rank(self.rank), to, header, bytes: payload.to_vec() })?;
        if is_short {
            self.letters.insert(to.0, (self.comings, gone + 1, unheard + 1));
        }
        Ok(true)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.check_thread()?;
        if !self.held.is_empty() {
            self.send_held(sink);
        }
        let mut happened = 0;
        while let Some(news) = self.hall.next_news(self.rank) {
            happened += 1;
            let mut out = Outbox::default();
            match news {
                News::Frame(frame) => {
                    self.letters.remove(&frame.from.0);
                    self.comings += 1;
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

    fn sleeper(&self) -> Option<Arc<dyn Sleeper>> {
        Some(Arc::new(Rest { hall: self.hall.clone(), rank: self.rank }))
    }

    fn wake_up_at(&self) -> Option<u64> {
        (!self.held.is_empty()).then(|| time::now_ms() + 1)
    }

    fn close(&mut self, _sink: &mut dyn Sink) -> Closing {
        if self.held.is_empty() {
            Closing::Closed
        } else {
            Closing::Sending
        }
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

    fn serve_with(&mut self, server: Weak<dyn Server>) {
        self.hall.set_server(self.rank, server);
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

#[cfg(test)]
mod tests {
    use crate::{Cluster, Network};
    use kumiki_net::contract::suite;
    use kumiki_net::Rank;

    #[test]
    fn a_simulated_transport_keeps_the_contract() {
        let outcome = Cluster::new(2, Network::torus(&[2])).run(|mut attachment| {
            let (rank, mut transport) = (attachment.rank, attachment.transport.take().unwrap());
            suite::check(rank, Rank(1 - rank.0), &mut *transport, &mut || {});
        });
        outcome.unwrap().values().unwrap();
    }
}
