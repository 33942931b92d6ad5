//! What a process wants to receive, and what it is given.

use super::bytes::Bytes;
use super::matching::{Envelope, Selector};
use super::post::{Body, Fetch, Kept, Post, Wanted, Way};
use super::record::Note;
use super::Delivery;
use crate::comm::ends::Room;
use crate::{Error, Rank, Result};
use std::collections::VecDeque;

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
                Some(error) => {
                    let error = error.clone();
                    self.take_room(wanted.request());
                    self.done.insert(wanted.request(), Err(error));
                }
                None => self.matching.post(selector, wanted),
            }
            return;
        };
        self.release(envelope.source, &kept);
        self.hand_over(wanted, envelope, kept.body);
    }

    /// Whether a message is kept that a receive would get.
    pub(super) fn has_kept(&self, selector: &Selector) -> bool {
        self.mailbox.is_some() && self.matching.probe(selector).is_some()
    }

    pub(super) fn probe(&self, selector: &Selector) -> Option<Envelope> {
        self.matching.probe(selector)
    }

    /// Takes back a receive that has got nothing.
    pub(super) fn withdraw(&mut self, request: u64) -> bool {
        let is_withdrawn = self.matching.withdraw(|wanted| wanted.request() == request).is_some();
        if is_withdrawn {
            self.take_room(request);
        }
        is_withdrawn
    }

    /// The memory that the program has given for a request.
    pub(super) fn take_room(&mut self, request: u64) -> Option<Box<dyn Room>> {
        match self.rooms.is_empty() {
            true => None,
            false => self.rooms.remove(&request),
        }
    }

    /// Nobody will ask for a receive, which takes its message all the same: that is gone then. Behind an empty one nothing comes.
    pub(super) fn throw_away(&mut self, request: u64) {
        if self.matching.find(|wanted| wanted.request() == request).is_some() {
            self.forgotten.insert(request);
            return;
        }
        let came = match self.done.get(request) {
            Some(Ok(Some(Delivery::Here { envelope, .. }))) => Some(*envelope),
            _ => None,
        };
        self.forget(request);
        came.iter().for_each(|envelope| self.was_thrown_away(envelope));
    }

    /// A message was thrown away. If it was empty, no receive of its source and tag that throws away what comes gets anything any more: one that stayed
    /// would make every later wait look for it.
    fn was_thrown_away(&mut self, envelope: &Envelope) {
        let Envelope { context, source, tag, bytes } = *envelope;
        if bytes > 0 {
            return;
        }
        let same = Selector { context, source: Some(source), tag: Some(tag) };
        let Post { matching, forgotten, .. } = self;
        matching.withdraw_all(|selector, wanted| *selector == same && forgotten.remove(&wanted.request()));
    }

    /// Nobody will ask for a request. A receive that has got nothing is taken back; a send goes on all the same.
    pub(super) fn forget(&mut self, request: u64) {
        match self.done.remove(request) {
            Some(Ok(Some(Delivery::Lent { envelope, number, .. }))) => {
                self.say(envelope.source, Note::Fetched { number });
            }
            Some(_) => {}
            None if self.withdraw(request) => {}
            None => {
                self.forgotten.insert(request);
                // What nobody has begun to fetch nobody shall: its memory is the program's again.
                if let Some(at) = self.fetches.iter().position(|fetch| fetch.request == request) {
                    let fetch = self.fetches.remove(at);
                    fetch.into_iter().for_each(|fetch| {
                        self.fetched(fetch, Err(Error::Closed("nobody waits for it".into())))
                    });
                }
            }
        }
    }

    /// A message was fetched, or could not be.
    pub(crate) fn fetched(&mut self, fetch: Fetch, fetched: Result<Option<Vec<u8>>>) {
        self.under_way.retain(|under_way| *under_way != fetch.request);
        let Some((fetch, fetched)) = self.fetched_early(fetch, fetched) else { return };
        let Fetch { request, envelope, number, .. } = fetch;
        self.say(envelope.source, Note::Fetched { number });
        let outcome = fetched.map(|bytes| match bytes {
            Some(bytes) => Some(Delivery::Here { envelope, bytes: Bytes::Many(bytes) }),
            None => Some(Delivery::Landed { envelope }),
        });
        if !self.forgotten.remove(&request) {
            self.done.insert(request, outcome);
        }
        self.moves += 1;
    }

    /// Memory of the program that messages would be written to is gone: what it has asked to receive there is dropped.
    pub(crate) fn abandon_rooms(&mut self) {
        let ended = || Error::Closed("the program has ended".into());
        // Those of requests that wait for their message; others have theirs with them.
        for request in std::mem::take(&mut self.rooms).into_keys() {
            if self.withdraw(request) {
                self.done.insert(request, Err(ended()));
            }
        }
        let (given, others) =
            std::mem::take(&mut self.fetches).into_iter().partition(|fetch| fetch.room.is_some());
        self.fetches = others;
        let given: VecDeque<Fetch> = given;
        given.into_iter().for_each(|fetch| self.fetched(fetch, Err(ended())));
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
        if let Body::Coming(early) = body {
            return self.early.is_wanted_by(early, wanted);
        }
        let (request, fetches) = (wanted.request(), wanted.fetches());
        let mut room = self.take_room(request);
        if self.forgotten.remove(&request) {
            match body {
                Body::Lent(_, number) => self.say(envelope.source, Note::Fetched { number }),
                Body::Here(bytes) => self.reuse(bytes),
                Body::Coming(_) => {}
            }
            self.was_thrown_away(&envelope);
            return;
        }
        if let Some(room) = &mut room {
            let (bytes, room) = (envelope.bytes, room.bytes().len());
            if bytes > room as u64 {
                let wrong = format!("a message of {bytes} bytes, and room for {room}");
                self.done.insert(request, Err(Error::Misuse(wrong)));
                if let Body::Lent(_, number) = body {
                    self.say(envelope.source, Note::Fetched { number });
                }
                return;
            }
        }
        let delivery = match body {
            Body::Here(bytes) => match room {
                Some(mut room) => {
                    room.bytes()[..envelope.bytes as usize].copy_from_slice(bytes.as_slice());
                    self.reuse(bytes);
                    Delivery::Landed { envelope }
                }
                None => Delivery::Here { envelope, bytes },
            },
            Body::Lent(place, number) if fetches => Delivery::Lent { envelope, place, number },
            Body::Coming(_) => return,
            Body::Lent(place, number) => {
                return self.fetches.push_back(Fetch { request, envelope, place, number, room });
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
        self.kept_bytes -= kept.counted();
        self.early.is_taken(kept);
        if kept.way == Way::Mailbox {
            self.incoming.keeps_no_more(source);
        }
        if let Some(lane) = self.incoming.lane_at(kept.way, source) {
            lane.kept_bytes = lane.kept_bytes.saturating_sub(kept.counted());
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
