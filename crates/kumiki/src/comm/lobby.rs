//! Who has knocked at this rank, and at whom this rank has to knock.

use super::door::{self, Knock, What};
use super::message::closed;
use super::{COMM, KNOCK};
use crate::{Error, Purpose, Rank, Result, World};
use kumiki_mem::codec::Writer;
use kumiki_mem::{Booking, Posted};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// An end is kept for others to meet if it is not further than this beyond those that this rank has made.
const MOST_AHEAD: u64 = 4096;
/// Bytes of the tables for a knock that is kept, or an end that was counted.
const ENTRY_BYTES: u64 = 128;

/// What this process knows of ends that were made and have not met.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    /// How many ends of a kind this rank has made towards another.
    made: HashMap<(What, Rank), (u64, Booking)>,
    /// Knocks for which this rank has made no end yet.
    kept: HashMap<(What, Rank, u64), (Knock, Booking)>,
    /// Knocks of this rank that are not at their place yet, and the request that is under way for one.
    unsent: VecDeque<(Rank, Knock, Option<Posted>)>,
    /// Knocks of this rank that can never be at their place, though the other rank is there, and why.
    refused: HashMap<(What, Rank, u64), Error>,
    /// Why knocks at this rank cannot be kept.
    blocked: Option<Error>,
}

impl Lobby {
    /// Books what is known of ends of this kind towards a rank: then [`number`](Self::number) does not fail.
    pub(super) fn reserve(&mut self, world: &World, what: What, peer: Rank) -> Result<()> {
        if let Entry::Vacant(place) = self.made.entry((what, peer)) {
            place.insert((0, world.book(Purpose::Comm, ENTRY_BYTES)?));
        }
        Ok(())
    }

    /// The number of the next end of this kind towards a rank.
    pub(super) fn number(&mut self, world: &World, what: What, peer: Rank) -> Result<u64> {
        self.reserve(world, what, peer)?;
        let count = self.made.get_mut(&(what, peer)).map(|(count, _)| count);
        Ok(count.map_or(0, |count| std::mem::replace(count, *count + 1)))
    }

    /// Says to a rank that an end was made, as soon as that is possible.
    pub(super) fn knock(&mut self, at: Rank, knock: Knock) {
        self.unsent.push_back((at, knock, None));
    }

    /// What the other end of one that this rank has made has said, if it has.
    pub(super) fn answer(&mut self, what: What, peer: Rank, number: u64) -> Option<Knock> {
        self.kept.remove(&(what.other(), peer, number)).map(|(knock, _)| knock)
    }

    /// Whether it has.
    pub(super) fn has_answer(&self, what: What, peer: Rank, number: u64) -> bool {
        self.kept.contains_key(&(what.other(), peer, number))
    }

    /// A rank at which this one still has to knock.
    pub(super) fn has_to_knock_at(&self) -> Option<Rank> {
        self.unsent.front().map(|(at, ..)| *at)
    }

    /// Fails if a knock of this rank can never be at its place.
    pub(super) fn check_refused(&self, what: What, peer: Rank, number: u64) -> Result<()> {
        self.refused.get(&(what, peer, number)).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Tells whoever has made an end to which this rank has never made the other one that it never will.
    pub(super) fn refuse(&mut self, world: &World) {
        let me = world.rank();
        let (kept, unsent) = (&mut self.kept, &mut self.unsent);
        for ((what, from, number), (knock, _)) in kept.drain() {
            // Who has refused wants no answer.
            if !knock.is_refusal() {
                unsent.push_back((from, Knock { what: what.other(), from: me, number, words: [0; 3] }, None));
            }
        }
    }

    /// Knocks, and opens to whoever knocks. Those who are gone are missed by whoever waits for them.
    pub(super) fn advance(&mut self, world: &World) {
        for _ in 0..self.unsent.len() {
            let Some((at, knock, posted)) = self.unsent.pop_front() else { break };
            match try_knock(world, at, knock, posted) {
                Ok(Some(posted)) => self.unsent.push_back((at, knock, posted)),
                Ok(None) => {}
                Err(Error::Timeout { .. }) => self.unsent.push_back((at, knock, None)),
                Err(error) => drop(self.refused.insert((knock.what, at, knock.number), error)),
            }
        }
        let local = world.local();
        if !door::is_knocked_at(local) {
            return;
        }
        let Lobby { made, kept, .. } = self;
        let opened = door::open(local, |knock| {
            let made = made.get(&(knock.what.other(), knock.from)).map_or(0, |(count, _)| *count);
            let is_near = match knock.what.is_agreed() {
                true => kept_of(kept, knock) < MOST_AHEAD as usize,
                false => knock.number < made.saturating_add(MOST_AHEAD),
            };
            if is_near {
                let booking = world.memory.book(Purpose::Comm, ENTRY_BYTES)?;
                kept.insert((knock.what, knock.from, knock.number), (knock, booking));
            }
            Ok(())
        });
        // One that cannot be kept stays at the door.
        self.blocked = opened.err();
    }

    /// Why an end that this rank has made cannot meet the other one; if nothing is known to be in the way, nothing.
    pub(super) fn trouble(&self, what: What, peer: Rank, number: u64) -> Result<()> {
        let refused = self.refused.get(&(what, peer, number)).or(self.blocked.as_ref());
        refused.map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// How many knocks of a kind by a rank are kept.
fn kept_of(kept: &HashMap<(What, Rank, u64), (Knock, Booking)>, knock: Knock) -> usize {
    kept.keys().filter(|(what, from, _)| (*what, *from) == (knock.what, knock.from)).count()
}

/// One try: the request that is under way, if it is to be tried again.
fn try_knock(
    world: &World,
    at: Rank,
    knock: Knock,
    posted: Option<Posted>,
) -> Result<Option<Option<Posted>>> {
    let local = world.local();
    let tried = if local.is_near(at) {
        door::leave(local, at, knock).map(|left| (!left).then_some(None))
    } else if let Some(posted) = posted {
        match world.memory.answer_of(posted) {
            None => Ok(Some(Some(posted))),
            // There is no room: once more, when this rank looks next.
            Some(Ok(reply)) => Ok((reply.first() == Some(&0)).then_some(None)),
            Some(Err(error)) => Err(error),
        }
    } else {
        let request = knock.write(Writer::new(KNOCK)).finish();
        world.memory.post_call(at, COMM, request).map(|posted| Some(Some(posted)))
    };
    match tried {
        Ok(None) => {
            let _ = world.memory.wake(at);
            Ok(None)
        }
        // Whoever waits for one that is gone is told so; of one that only finalizes nobody else says it.
        Err(Error::PeerLost { .. } | Error::Closed(_)) => match local.check_alive(at) {
            Err(_) => Ok(None),
            Ok(()) => Err(closed(at)),
        },
        tried => tried,
    }
}
