//! A transport between endpoints of one process, in memory: the whole contract in the fewest lines, one-sided operations included.
//!
//! It is for tests and for reading. Nothing is booked, and a fault that spoils or drops a frame ends the connection, as its receiver
//! would notice.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the transport |
//! | `room.rs` | what endpoints share, and how they sleep |

mod room;

use crate::contract::{
    Capabilities, Closing, Fault, Filled, Footprint, Key, Memory, Message, OneSided, Outbox, Payload, Sink,
    Sleeper, Spot, Transport, FLAG_MORE, PIECE_BYTES,
};
use crate::{Error, Rank, Result};
use room::{News, Rest, Room, Taken};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A one-sided copy is made in pieces of so many bytes.
const COPY_BYTES: u64 = 64 << 10;

/// One endpoint.
pub struct Loopback {
    rank: Rank,
    room: Arc<Room>,
    /// Messages that have not gone, or not wholly, and how far.
    queue: VecDeque<(Rank, Message, u64)>,
    /// Whom it has spoken to, and who has spoken to it.
    met: BTreeSet<Rank>,
    /// One-sided operations that are over, and not told.
    performed: VecDeque<(u64, Result<Option<u64>>)>,
    next_key: u64,
    /// Whether it has left in good order.
    closed: bool,
}

/// Endpoints for so many ranks, that reach each other.
pub fn endpoints(ranks: u32) -> Vec<Loopback> {
    let room = Arc::new(Room::new(ranks));
    let endpoint = |rank| Loopback {
        rank: Rank(rank),
        room: room.clone(),
        queue: VecDeque::new(),
        met: BTreeSet::new(),
        performed: VecDeque::new(),
        next_key: 1,
        closed: false,
    };
    (0..ranks).map(endpoint).collect()
}

/// How far a message has gone.
enum Gone {
    Wholly,
    /// This far: there is no room, or the rest is not there yet.
    Until(u64),
}

impl Loopback {
    fn unreachable(&self, rank: Rank) -> Error {
        Error::PeerLost { rank, why: "its endpoint is gone".into() }
    }

    /// Sends what can be sent of a message, from an offset of its payload on.
    fn transmit(
        &mut self,
        to: Rank,
        message: &Message,
        mut offset: u64,
        sink: &mut dyn Sink,
    ) -> Result<Gone> {
        loop {
            match self.room.has_room(to) {
                Taken::Yes => {}
                Taken::Full => return Ok(Gone::Until(offset)),
                Taken::Gone => return Err(self.unreachable(to)),
            }
            let mut header = message.header;
            let (bytes, last) = match message.payload {
                Payload::None => (Vec::new(), true),
                Payload::Lazy(source, total) => {
                    let mut bytes = vec![0; (total - offset).min(PIECE_BYTES as u64) as usize];
                    match sink.fill(source, offset, &mut bytes) {
                        Filled::Whole => {}
                        Filled::NotYet => return Ok(Gone::Until(offset)),
                        Filled::Gone => {
                            let mut out = Outbox::default();
                            sink.withdrawn(to, &message.header, &mut out);
                            self.send_all(out, sink);
                            return Ok(Gone::Wholly);
                        }
                    }
                    header.d = offset;
                    header.payload_bytes = bytes.len() as u32;
                    offset += bytes.len() as u64;
                    (bytes, offset == total)
                }
            };
            header.flags |= if last { 0 } else { FLAG_MORE };
            self.met.insert(to);
            self.room.tell(to, News::Frame { from: self.rank, header, bytes });
            if last {
                return Ok(Gone::Wholly);
            }
        }
    }

    /// Sends what a callback asked for.
    fn send_all(&mut self, out: Outbox, sink: &mut dyn Sink) {
        for (to, message) in out.messages {
            if let Err(error) = self.send(to, message, sink) {
                self.lose(to, error, sink);
            }
        }
    }

    /// A peer is gone: what waits for it is dropped.
    fn lose(&mut self, peer: Rank, error: Error, sink: &mut dyn Sink) {
        self.queue.retain(|(to, ..)| *to != peer);
        if self.met.remove(&peer) {
            let mut out = Outbox::default();
            sink.lost(peer, error, &mut out);
            self.send_all(out, sink);
        }
    }

    /// Sends what waits, each rank's in order.
    fn send_queued(&mut self, sink: &mut dyn Sink) {
        let mut stuck = BTreeSet::new();
        for (to, message, offset) in std::mem::take(&mut self.queue) {
            if stuck.contains(&to) {
                self.queue.push_back((to, message, offset));
                continue;
            }
            match self.transmit(to, &message, offset, sink) {
                Ok(Gone::Wholly) => {}
                Ok(Gone::Until(offset)) => {
                    stuck.insert(to);
                    self.queue.push_back((to, message, offset));
                }
                Err(error) => self.lose(to, error, sink),
            }
        }
    }

    fn memory(&self, rank: Rank, spot: Spot) -> Result<Arc<dyn Memory>> {
        let none = || Error::Misuse(format!("{rank} has registered no memory with {:?}", spot.key));
        self.room.memory_of(rank, spot.key).ok_or_else(none)
    }

    fn do_one_sided(&self, to: Rank, operation: OneSided) -> Result<Option<u64>> {
        let past = || Error::Misuse("past the end of registered memory, or not aligned".into());
        let (source, from, target, into, bytes) = match operation {
            OneSided::Put { here, there, bytes } => {
                (self.memory(self.rank, here)?, here, self.memory(to, there)?, there, bytes)
            }
            OneSided::Get { here, there, bytes } => {
                (self.memory(to, there)?, there, self.memory(self.rank, here)?, here, bytes)
            }
            OneSided::Atomic { there, update } => {
                return self.memory(to, there)?.update(there.offset, update).map(Some).ok_or_else(past);
            }
        };
        let fits = |memory: &Arc<dyn Memory>, spot: Spot| {
            spot.offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes())
        };
        if !fits(&source, from) || !fits(&target, into) {
            return Err(past());
        }
        let mut done = 0;
        while done < bytes {
            let mut piece = vec![0; (bytes - done).min(COPY_BYTES) as usize];
            let moved =
                source.read(from.offset + done, &mut piece) && target.write(into.offset + done, &piece);
            if !moved {
                return Err(past());
            }
            done += piece.len() as u64;
        }
        Ok(None)
    }
}

impl Transport for Loopback {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { one_sided_copies: true, one_sided_atomics: true, ..Capabilities::default() }
    }

    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        if self.queue.iter().any(|(rank, ..)| *rank == to) {
            self.queue.push_back((to, message, 0));
            return Ok(());
        }
        if let Gone::Until(offset) = self.transmit(to, &message, 0, sink)? {
            self.met.insert(to);
            self.queue.push_back((to, message, offset));
        }
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.send_queued(sink);
        let mut happened = 0;
        while let Some((op, result)) = self.performed.pop_front() {
            happened += 1;
            let mut out = Outbox::default();
            sink.performed(op, result, &mut out);
            self.send_all(out, sink);
        }
        while let Some(news) = self.room.next(self.rank) {
            happened += 1;
            match news {
                News::Frame { from, header, bytes } => {
                    self.met.insert(from);
                    let mut out = Outbox::default();
                    if !bytes.is_empty() {
                        sink.part(from, &header, 0, &bytes);
                    }
                    sink.frame(from, 0, &header, &mut out);
                    self.send_all(out, sink);
                }
                News::Lost(peer) => {
                    let error = self.unreachable(peer);
                    self.lose(peer, error, sink);
                }
            }
        }
        Ok(happened)
    }

    fn sleeper(&self) -> Option<Arc<dyn Sleeper>> {
        Some(Arc::new(Rest(self.room.clone(), self.rank)))
    }

    fn register(&mut self, memory: Arc<dyn Memory>) -> Result<Key> {
        let key = Key(self.next_key);
        self.next_key += 1;
        self.room.keep(self.rank, key, memory);
        Ok(key)
    }

    fn unregister(&mut self, key: Key) -> Result<()> {
        match self.room.forget(self.rank, key) {
            true => Ok(()),
            false => Err(Error::Misuse(format!("no memory is registered with {key:?}"))),
        }
    }

    fn perform(&mut self, to: Rank, op: u64, operation: OneSided, _: &mut dyn Sink) -> Result<()> {
        let result = self.do_one_sided(to, operation);
        self.performed.push_back((op, result));
        Ok(())
    }

    fn wake_up_at(&self) -> Option<u64> {
        let waits = !self.queue.is_empty() || !self.performed.is_empty();
        waits.then(|| crate::os::time::now_ms() + 1)
    }

    fn close(&mut self, _: &mut dyn Sink) -> Closing {
        self.closed = self.queue.is_empty();
        if self.closed {
            Closing::Closed
        } else {
            Closing::Sending
        }
    }

    fn footprint(&self) -> Footprint {
        let queue = self.queue.capacity() * std::mem::size_of::<(Rank, Message, u64)>();
        Footprint {
            fixed_bytes: std::mem::size_of::<Loopback>() as u64,
            connected: self.met.len() as u64,
            bytes_per_connection: std::mem::size_of::<Rank>() as u64,
            queued_bytes: queue as u64 + self.room.waiting_bytes(self.rank),
        }
    }

    fn inject(&mut self, peer: Rank, fault: Fault) {
        if !matches!(fault, Fault::Stall { .. } | Fault::Tear) {
            self.room.tell(peer, News::Lost(self.rank));
            self.room.tell(self.rank, News::Lost(peer));
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.met.extend(self.room.leave(self.rank));
        if !self.closed {
            self.met.iter().for_each(|&peer| self.room.tell(peer, News::Lost(self.rank)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{suite, Leeway};

    #[test]
    fn a_loopback_keeps_the_contract() {
        std::thread::scope(|scope| {
            for (mut endpoint, peer) in endpoints(2).into_iter().zip([1, 0]) {
                scope.spawn(move || suite::check(Rank(1 - peer), Rank(peer), &mut endpoint, &mut || {}));
            }
        });
    }

    #[test]
    fn an_endpoint_that_goes_without_a_word_is_lost_to_those_it_has_met() {
        let mut all = endpoints(3);
        let (mut quiet, mut silent) = (|| {}, || {});
        let mut heard = suite::Recorder::new(&mut quiet);
        let header = crate::wire::Header { kind: suite::FIRST_KIND, ..Default::default() };
        let path = crate::contract::Path::Route;
        let note =
            Message { header, payload: Payload::None, expects_answer: false, path, leeway: Leeway::None };
        let (mut one, two) = (all.remove(0), all.remove(0));
        one.send(Rank(1), note, &mut heard).unwrap();
        drop(two);
        one.poll(&mut heard).unwrap();
        assert_eq!(heard.lost, [Rank(1)], "and nobody else");
        assert!(one.send(Rank(1), note, &mut heard).is_err());
        let mut other = suite::Recorder::new(&mut silent);
        all[0].poll(&mut other).unwrap();
        assert!(other.lost.is_empty());
    }
}
