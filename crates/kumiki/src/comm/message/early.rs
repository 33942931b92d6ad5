//! Messages that are lent, and fetched before anybody asks for them.
//!
//! A long message stays with its sender until it is received: whoever sends it waits for that. Two ranks that both send first, and then receive, would
//! wait for each other for ever; so do many that send in a circle. So a rank that has waited for a moment fetches what others have lent to it, if somebody may wait for
//! that: what comes from the rank that it waits for; and while it waits for a message of its own to be fetched, what comes from anybody, up to [`MOST_BYTES`] in
//! all. Such a message keeps its place among those that nobody has asked for, and its bytes count among them. Who waits for a message of its own to be taken takes
//! in short ones, too, that wait at their senders for credit, or in lanes that are full, as a receive does that may want them.

use super::arrivals::most_kept;
use super::bytes::Bytes;
use super::matching::Envelope;
use super::post::{Body, Fetch, Kept, Post, Wanted};
use super::Place;
use crate::{Purpose, Rank, Result, World};
use kumiki_mem::{Activity, Booking};

/// So many bytes of ranks that are not waited for at most.
const MOST_BYTES: u64 = 256 << 20;

/// Those that are being fetched.
#[derive(Default)]
pub(super) struct Early {
    underway: Vec<Underway>,
    /// How many are kept that are lent: where there are none nothing is looked for.
    lent: usize,
    /// There was no memory for one, or it could not be fetched: nothing is tried again before something else has come.
    has_failed: bool,
}

struct Underway {
    /// The request of the fetch.
    request: u64,
    place: Place,
    number: u64,
    booked: Booking,
    /// The receive that has asked for it meanwhile.
    wanted: Option<Wanted>,
}

impl Early {
    /// A message is kept.
    pub(super) fn is_kept(&mut self, body: &Body) {
        if matches!(body, Body::Lent(..)) {
            self.lent += 1;
            self.has_failed = false;
        }
    }

    /// It is kept no more.
    pub(super) fn is_taken(&mut self, body: &Body) {
        self.lent -= usize::from(matches!(body, Body::Lent(..)));
    }

    /// Nothing is kept any more.
    pub(super) fn forget_kept(&mut self) {
        self.lent = 0;
    }

    /// A receive asks for what is being fetched: it gets that when it is there.
    pub(super) fn is_wanted_by(&mut self, request: u64, wanted: Wanted) {
        if let Some(underway) = self.underway.iter_mut().find(|underway| underway.request == request) {
            underway.wanted = Some(wanted);
        }
    }
}

impl Post {
    /// Whether somebody who waits may have to look again soon, though nobody wakes it.
    pub(crate) fn may_nap(&self) -> bool {
        self.asks_again || self.kept_bytes > 0 || self.incoming.hungry().next().is_some()
    }

    /// Whether a rank that waits for a peer, or for anybody, has something to fetch before it is asked for.
    pub(super) fn has_early(&mut self, doing: Activity, peer: Option<Rank>) -> bool {
        let has_lent = self.early.lent > 0 && !self.early.has_failed;
        has_lent && self.first_early(doing, peer).is_some() || doing == Activity::Send && self.holds_back()
    }

    /// Whether short messages wait at their senders, or in lanes, because so many are here that nobody has asked for, and more may be kept.
    fn holds_back(&self) -> bool {
        let is_full = || self.incoming.lanes.iter().any(|lane| lane.kept_bytes >= most_kept(lane.ring));
        !self.keeps_much() && (self.incoming.hungry().next().is_some() || is_full())
    }

    fn first_early(&mut self, doing: Activity, peer: Option<Rank>) -> Option<(Envelope, &mut Kept)> {
        let left = (self.options.kept_bytes as u64).saturating_sub(self.kept_bytes);
        let sends = doing == Activity::Send;
        let most = MOST_BYTES.saturating_sub(self.kept_bytes);
        self.matching.find_kept(|envelope, kept| {
            let is_peer = peer == Some(envelope.source);
            let is_due = is_peer || sends && envelope.bytes <= most;
            is_due && envelope.bytes <= left && matches!(kept.body, Body::Lent(..))
        })
    }

    /// Begins to fetch what a rank that waits [has to](Self::has_early), and takes in short messages.
    pub(super) fn begin_early(&mut self, world: &World, doing: Activity, peer: Option<Rank>) {
        if doing == Activity::Send && self.holds_back() {
            // As for somebody who waits for any message.
            self.probes += 1;
            self.advance(world);
            self.probes -= 1;
        }
        while !self.early.has_failed {
            let request = self.number();
            let Some((envelope, kept)) = self.first_early(doing, peer) else { return };
            let Body::Lent(place, number) = kept.body else { return };
            let Ok(booked) = world.memory.book(Purpose::Comm, envelope.bytes) else {
                self.early.has_failed = true;
                return;
            };
            (kept.body, kept.early_bytes) = (Body::Coming(request), envelope.bytes);
            // It counts from now on, so that not too many are begun.
            self.kept_bytes += envelope.bytes;
            self.early.lent -= 1;
            self.early.underway.push(Underway { request, place, number, booked, wanted: None });
            self.fetches.push_back(Fetch { request, envelope, place, number, room: None });
        }
    }

    /// What was fetched, if it was not fetched early, or not to be kept. Otherwise it is kept, or goes to who has asked for it meanwhile.
    pub(super) fn fetched_early(
        &mut self,
        fetch: Fetch,
        fetched: Result<Option<Vec<u8>>>,
    ) -> Option<(Fetch, Result<Option<Vec<u8>>>)> {
        let of_it = |underway: &Underway| underway.request == fetch.request;
        let Some(at) = self.early.underway.iter().position(of_it) else { return Some((fetch, fetched)) };
        let Underway { request, place, number, booked, wanted } = self.early.underway.swap_remove(at);
        let envelope = fetch.envelope;
        let is_it = |kept: &Kept| matches!(kept.body, Body::Coming(coming) if coming == request);
        if let Some(wanted) = wanted {
            self.moves += 1;
            match fetched {
                Ok(bytes) => {
                    self.say(envelope.source, super::record::Note::Fetched { number });
                    self.hand_over(wanted, envelope, Body::Here(Bytes::Many(bytes.unwrap_or_default())));
                    return None;
                }
                // As if it had been fetched for that receive.
                Err(error) => {
                    let room = self.take_room(wanted.request());
                    return Some((Fetch { request: wanted.request(), room, ..fetch }, Err(error)));
                }
            }
        }
        let kept = self.matching.find_kept(|_, kept| is_it(kept)).map(|(_, kept)| kept);
        match (kept, fetched) {
            (Some(kept), Ok(bytes)) => {
                kept.body = Body::Here(Bytes::Many(bytes.unwrap_or_default()));
                kept.early_booked = Some(booked);
                self.say(envelope.source, super::record::Note::Fetched { number });
                self.moves += 1;
            }
            // Whoever asks for it is told what is wrong.
            (Some(kept), Err(_)) => {
                (kept.body, kept.early_bytes) = (Body::Lent(place, number), 0);
                self.kept_bytes -= envelope.bytes;
                self.early.lent += 1;
                self.early.has_failed = true;
            }
            // Nobody will ask any more.
            (None, _) => self.say(envelope.source, super::record::Note::Fetched { number }),
        }
        None
    }
}
