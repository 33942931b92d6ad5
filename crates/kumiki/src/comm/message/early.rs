//! Messages that are lent, and fetched before anybody asks for them.
//!
//! A long message stays with its sender until it is received: whoever sends it waits for that. Two ranks that both send first, and then receive, would
//! wait for each other for ever; so would many that send in a circle. So a rank that has waited for a moment fetches what others have lent to it, one message after the
//! other, if somebody may wait for that: what comes from the rank that it waits for; and while it waits for a message of its own to be fetched, what comes from anybody.
//! Such a message keeps its place among those that nobody has asked for.

use super::bytes::Bytes;
use super::post::{Body, Fetch, Kept, Post, Wanted};
use super::record::Note;
use super::Place;
use crate::{Purpose, Rank, Result, World};
use kumiki_mem::Booking;

/// So many bytes at a time of ranks that are not waited for at most. Of all ranks there are no more than are kept for a receive.
const MOST_BYTES: u64 = 256 << 20;

/// Whose messages a rank fetches early that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Takes {
    Nothing,
    /// Those of the rank that it waits for.
    Of(Rank),
    /// Those of anybody, for others may wait in a circle; of that rank, if there is one, as many as may be.
    All(Option<Rank>),
}

/// Those that are fetched early.
#[derive(Default)]
pub(super) struct Early {
    underway: Vec<Underway>,
    /// How many are kept that are lent, and may be fetched: where there are none nothing is looked for.
    lent: usize,
    /// Bytes of those that nobody has asked for.
    bytes: u64,
}

/// What a message that is kept has of this.
#[derive(Default)]
pub(super) enum State {
    #[default]
    None,
    /// It counts for so many bytes, booked when it is there.
    Fetched(Box<(u64, Option<Booking>)>),
    /// There was no memory for it, or it could not be fetched: whoever asks for it is told.
    Failed,
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
    /// Whether there is something that may have to be fetched.
    pub(super) fn may_be_due(&self) -> bool {
        self.lent > 0
    }

    /// A message is kept.
    pub(super) fn is_kept(&mut self, body: &Body) {
        self.lent += usize::from(matches!(body, Body::Lent(..)));
    }

    /// It is kept no more.
    pub(super) fn is_taken(&mut self, kept: &Kept) {
        match &kept.early {
            State::None => self.lent -= usize::from(matches!(kept.body, Body::Lent(..))),
            State::Fetched(of_it) => self.bytes -= of_it.0,
            State::Failed => {}
        }
    }

    /// Nothing is kept any more.
    pub(super) fn forget_kept(&mut self) {
        (self.lent, self.bytes) = (0, 0);
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
        self.asks_again || self.early.may_be_due()
    }

    /// Whether a rank that waits has something to fetch before it is asked for.
    pub(super) fn has_early(&mut self, takes: Takes) -> bool {
        self.early.may_be_due() && takes != Takes::Nothing && self.first_early(takes).is_some()
    }

    fn first_early(&mut self, takes: Takes) -> Option<(super::matching::Envelope, &mut Kept)> {
        let left = (self.options.kept_bytes as u64).saturating_sub(self.early.bytes);
        let left_of_others = left.min(MOST_BYTES.saturating_sub(self.early.bytes));
        self.matching.find_kept(|envelope, kept| {
            let most = match takes {
                Takes::Of(peer) | Takes::All(Some(peer)) if peer == envelope.source => Some(left),
                Takes::All(_) => Some(left_of_others),
                Takes::Nothing | Takes::Of(_) => None,
            };
            let is_lent = matches!((&kept.body, &kept.early), (Body::Lent(..), State::None));
            is_lent && most.is_some_and(|most| envelope.bytes <= most)
        })
    }

    /// Begins to fetch one that a rank that waits [has to](Self::has_early).
    pub(super) fn begin_early(&mut self, world: &World, takes: Takes) {
        if !self.has_early(takes) {
            return;
        }
        let request = self.number();
        let Some((envelope, kept)) = self.first_early(takes) else { return };
        let Body::Lent(place, number) = kept.body else { return };
        match world.memory.book(Purpose::Comm, envelope.bytes) {
            Ok(booked) => {
                kept.body = Body::Coming(request);
                kept.early = State::Fetched(Box::new((envelope.bytes, None)));
                self.early.bytes += envelope.bytes;
                self.early.underway.push(Underway { request, place, number, booked, wanted: None });
                self.fetches.push_back(Fetch { request, envelope, place, number, room: None });
            }
            Err(_) => kept.early = State::Failed,
        }
        self.early.lent -= 1;
    }

    /// What was fetched, if it was not fetched early. Otherwise it is kept, or goes to who has asked for it meanwhile.
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
        self.moves += 1;
        let bytes = fetched.map(|bytes| Body::Here(Bytes::Many(bytes.unwrap_or_default())));
        if let Some(wanted) = wanted {
            if bytes.is_ok() {
                self.say(envelope.source, Note::Fetched { number });
            }
            // One that could not be fetched early is fetched for that receive, which is told what is wrong.
            self.hand_over(wanted, envelope, bytes.unwrap_or(Body::Lent(place, number)));
            return None;
        }
        let kept = self.matching.find_kept(|_, kept| is_it(kept)).map(|(_, kept)| kept);
        match (kept, bytes) {
            (Some(kept), Ok(body)) => {
                kept.body = body;
                if let State::Fetched(of_it) = &mut kept.early {
                    of_it.1 = Some(booked);
                }
                self.say(envelope.source, Note::Fetched { number });
            }
            (Some(kept), Err(_)) => {
                (kept.body, kept.early) = (Body::Lent(place, number), State::Failed);
                self.early.bytes -= envelope.bytes;
            }
            // Nobody will ask any more.
            (None, _) => self.say(envelope.source, Note::Fetched { number }),
        }
        None
    }
}
