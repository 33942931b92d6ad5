//! What a process wants to receive, and what it is given.

use super::bytes::Bytes;
use super::matching::{Envelope, Selector};
use super::post::{Body, Fetch, Kept, Post, Wanted, Way};
use super::record::Note;
use super::Delivery;
use crate::{Rank, Result};

/// Buffers for short messages that are kept for the next ones, and the longest of them.
const SPARE_BUFFERS: usize = 4;
const SPARE_BYTES: usize = 8 << 10;

impl Post {
    /// Takes the first message that fits, or posts the receive.
    pub(super) fn receive(&mut self, selector: Selector, wanted: Wanted) {
        let Some((envelope, kept)) = self.matching.take(&selector) else {
            let refused =
                selector.source.and_then(|source| self.refused.get(&source).or(self.closed.get(&source)));
            match refused {
                Some(error) => self.done.insert(wanted.request(), Err(error.clone())),
                None => self.matching.post(selector, wanted),
            }
            return;
        };
        self.release(envelope.source, &kept);
        self.hand_over(wanted, envelope, kept.body);
    }

    pub(super) fn probe(&self, selector: &Selector) -> Option<Envelope> {
        self.matching.probe(selector)
    }

    /// Takes back a receive that has got nothing.
    pub(super) fn withdraw(&mut self, request: u64) -> bool {
        self.matching.withdraw(|wanted| wanted.request() == request).is_some()
    }

    /// Nobody will ask for a request. A receive that has got nothing is taken back; a send goes on all the same.
    pub(super) fn forget(&mut self, request: u64) {
        match self.done.remove(request) {
            Some(Ok(Some(Delivery::Lent { envelope, number, .. }))) => {
                self.say(envelope.source, Note::Fetched { number });
            }
            Some(_) => {}
            None if self.withdraw(request) => {}
            None => drop(self.forgotten.insert(request)),
        }
    }

    /// A message was fetched, or could not be.
    pub(crate) fn fetched(&mut self, fetch: &Fetch, fetched: Result<Vec<u8>>) {
        let Fetch { request, envelope, number, .. } = *fetch;
        self.say(envelope.source, Note::Fetched { number });
        let outcome = fetched.map(|bytes| Some(Delivery::Here { envelope, bytes: Bytes::Many(bytes) }));
        if !self.forgotten.remove(&request) {
            self.done.insert(request, outcome);
        }
        self.moves += 1;
    }

    /// A message that whoever waited for it has fetched.
    pub(super) fn fetched_directly(&mut self, source: Rank, number: u64) {
        self.say(source, Note::Fetched { number });
    }

    /// A buffer of a short message that was read.
    pub(super) fn reuse(&mut self, bytes: Bytes) {
        let Some(mut buffer) = bytes.into_buffer() else { return };
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() <= SPARE_BYTES {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    pub(super) fn hand_over(&mut self, wanted: Wanted, envelope: Envelope, body: Body) {
        let (request, fetches) = (wanted.request(), wanted.fetches());
        let delivery = match body {
            Body::Here(bytes) => Delivery::Here { envelope, bytes },
            Body::Lent(place, number) if fetches => Delivery::Lent { envelope, place, number },
            Body::Lent(place, number) => {
                return self.fetches.push(Fetch { request, envelope, place, number });
            }
        };
        self.done.insert(request, Ok(Some(delivery)));
    }

    /// A message that came like this is received: its source may send another one.
    pub(super) fn give_back(&mut self, source: Rank, way: Way, is_hungry: bool) {
        if is_hungry {
            self.incoming.note_hungry(source);
        }
        let count = if way == Way::Mailbox { self.incoming.received(source) } else { 0 };
        if count > 0 {
            self.say(source, Note::Received { count });
        }
    }

    /// A message is kept no more.
    fn release(&mut self, source: Rank, kept: &Kept) {
        self.kept_bytes -= kept.body.kept_bytes();
        if kept.way == Way::Mailbox {
            self.incoming.keeps_no_more(source);
        }
        if let Some(lane) = self.incoming.lane_at(kept.way, source) {
            lane.kept_bytes = lane.kept_bytes.saturating_sub(kept.body.kept_bytes());
        }
        self.give_back(source, kept.way, false);
    }

    pub(super) fn give_in_advance(&mut self, source: Rank) {
        let count = if self.keeps_much() { 0 } else { self.incoming.advance_credit(source) };
        if count > 0 {
            self.say(source, Note::Received { count });
        }
    }
}
