//! The short way of a message to a receive that waits for it: out of the lane of its source, into memory of the program.
//!
//! Whoever waits for one source looks at its lane alone, most times. What stands there first is taken at once if it is a short message for this
//! receive, and if all that goes before has its due: no message that came earlier fits, and no receive that was posted earlier wants it.
//! Everything else goes the whole way ([`Post::advance`]), which is also gone every so many messages, so that nothing else waits for long.

use super::bytes::Short;
use super::incoming::Stage;
use super::matching::{Envelope, Selector};
use super::post::{Post, Wanted};
use super::record::Note;
use crate::{Rank, Result, World};

/// So many receives go the short way before everything else goes on: each is begun, and has its message.
const GLANCES_A_TOUR: u32 = 32;

/// What a look at one lane has found.
pub(in crate::comm) enum Glance<T> {
    Found(T),
    /// Nothing has come there.
    Nothing,
    /// That only the whole way can say.
    Unclear,
}

/// A receive that is waited for.
pub(super) struct Waiting<'a, F> {
    pub(super) selector: &'a Selector,
    /// Its request; 0 if it is not posted.
    pub(super) request: u64,
    /// Reads the message.
    pub(super) short: &'a F,
}

impl Post {
    /// Whether so much was received the short way that everything must go on.
    pub(crate) fn is_tour_due(&self) -> bool {
        self.glances >= GLANCES_A_TOUR
    }

    /// Everything has gone on.
    pub(crate) fn has_toured(&mut self) {
        self.glances = 0;
    }

    /// Takes the message of a receive out of the lane of its source, if it stands there first.
    #[inline]
    pub(super) fn glance<R, F>(
        &mut self,
        world: &World,
        wait: &Waiting<'_, F>,
    ) -> Glance<(Envelope, Result<R>)>
    where
        F: Fn(Envelope, Short<'_>) -> Result<R>,
    {
        let Waiting { selector, request, short } = *wait;
        let Some(source) = selector.source else { return Glance::Unclear };
        let open = |at: &usize| self.incoming.lanes[*at].stage == Stage::Open;
        let Some(at) = self.incoming.lane_of(source).filter(open) else { return Glance::Unclear };
        // Others may have found it, or it is on a way that ends.
        let has_more_to_do = request != 0 && self.done.len() > 0 || !self.fetches.is_empty();
        if has_more_to_do || self.is_ending(source) {
            return Glance::Unclear;
        }
        let lane = &mut self.incoming.lanes[at];
        let Ok(mut reading) = lane.read(world.local()) else { return Glance::Unclear };
        if reading.is_empty() {
            return Glance::Nothing;
        }
        let Some(record) = reading.short() else { return Glance::Unclear };
        let Note::Short { context, tag, bytes } = record.note else { return Glance::Unclear };
        let envelope = Envelope { context, source, tag, bytes };
        if record.from != source || !selector.fits(&envelope) {
            return Glance::Unclear;
        }
        let is_next = match request {
            // One that is not posted is behind all that are, and its message behind all that are kept.
            0 => !self.matching.is_wanted(&envelope) && self.matching.probe(selector).is_none(),
            _ => self.matching.arrive_for(&envelope, |wanted| wanted.request() == request),
        };
        if !is_next {
            return Glance::Unclear;
        }
        let read = short(envelope, Short::InRing(&reading, &record));
        let now = reading.skip(&record);
        self.moves += 1;
        self.glances += 1;
        self.traffic.received += 1;
        self.traffic.received_bytes += bytes;
        if !self.incoming.counts_on(at) {
            self.count(world, source);
        }
        if let Err(error) = self.free_lane_up_to(world, at, now) {
            self.refuse(source, &error);
        }
        Glance::Found((envelope, read))
    }

    /// Begins to receive, and has nothing go on: whoever waits does that. The request.
    pub(super) fn want(&mut self, selector: Selector, fetches: bool) -> u64 {
        let request = self.number();
        self.receive(selector, Wanted::new(request, fetches));
        self.glances += 1;
        request
    }

    /// Whether this rank or a source ends, or something has gone wrong: then every look is a whole one.
    fn is_ending(&self, source: Rank) -> bool {
        let has_gone = !self.closed.is_empty() && self.closed.contains_key(&source);
        self.is_closing || self.broken.is_some() || !self.leaving.is_empty() || has_gone
    }
}
