//! What has come for a process: it reads its mailbox and its lanes, and gives lanes and takes them back.

use super::bytes::Bytes;
use super::incoming::{Lane, Stage, Step};
use super::matching::Envelope;
use super::outgoing::perhaps_done;
use super::post::{Body, Kept, Post, Wanted, Way};
use super::record::{Note, Record, LENT_BYTES};
use super::ring::{self, free_up_to, Reading, Ring, FRAME_BYTES};
use super::{
    Delivery, MessageOptions, MessageWay, Place, LONGEST_FAR, LONGEST_MAILED, LONGEST_NEAR, MOST_KEPT,
    WIDE_FAR, WIDE_NEAR,
};
use crate::{Error, Purpose, Rank, Result, World};

/// Whether somebody is gone whom nobody waits for right now is looked at every so many times.
const LOOKS_A_CHECK: usize = 4;
/// One of another node that a receive waits for is asked to tell when it goes after so many looks.
const CHECKS_A_QUESTION: usize = 16;

/// A wide lane is made where there is memory for so many of them.
const WIDE_SHARE: u64 = 8;

impl Post {
    pub(super) fn read_mailbox(&mut self, world: &World) -> Result<()> {
        let Some((ring, head)) = self.mailbox.filter(|_| self.broken.is_none()) else { return Ok(()) };
        let local = world.local();
        let mut reading = ring.read(local, head)?;
        let mut at = head;
        while let Some(record) = reading.record()? {
            if record.from >= world.ranks() {
                return Err(Error::Refused(format!(
                    "a message from rank {}, which there is not",
                    record.from
                )));
            }
            if !self.take(world, &record, &reading, Way::Mailbox)? {
                break;
            }
            at = reading.skip(&record);
            self.moves += 1;
        }
        if at != head {
            self.mailbox = Some((ring, at));
            if ring.free_up_to(local, at, true)? {
                // Nobody knows who it was.
                wake_neighbours(world);
            }
        }
        Ok(())
    }

    /// Does what a record says. False if it must stay where it is.
    fn take(&mut self, world: &World, record: &Record, reading: &Reading<'_>, way: Way) -> Result<bool> {
        let from = record.from;
        if record.note != Note::End && !record.can_be_mailed(world.local()) {
            let wrong = format!("rank {from} has left what cannot be in a mailbox");
            self.refuse(from, &Error::Refused(wrong));
            return Ok(true);
        }
        match record.note {
            Note::Short { .. } | Note::Lent { .. } => {
                return Ok((way != Way::Mailbox || self.finish_lane(world, from))
                    && self.message(world, record, reading, way)?)
            }
            Note::Received { count } => {
                let debt = u64::from(self.debts.get(from)).saturating_sub(count);
                self.debts.set(from, debt as u8);
            }
            Note::Fetched { number } => {
                if let Some(lending) = self.lent.get(&number).filter(|lending| lending.to == from) {
                    self.done.insert(lending.request, Ok(None));
                    self.lent.remove(&number);
                }
            }
            Note::Offer { lane, bytes } => {
                // What it has said of an earlier one, at the same place perhaps, it said before this.
                self.incoming.opposite(world, from).into_iter().for_each(|opposite| opposite.forget());
                self.outs.entry(from).or_default().offer(Ring::new(lane, bytes)?);
            }
            Note::Begin { lane } => {
                let mut lanes = self.incoming.lanes.iter_mut();
                let lane = lanes.find(|known| known.source == from && known.ring.address == lane);
                if let Some(lane) = lane.filter(|lane| lane.stage == Stage::Offered) {
                    lane.stage = Stage::Open;
                }
            }
            Note::Leave { lane } => self.outs.entry(from).or_default().leave(lane),
            Note::Room { lane, head } => self.outs.entry(from).or_default().room(lane, head),
            Note::Awaits if self.shuts > 0 => self.say(from, Note::Gone),
            Note::Awaits => drop(self.awaited_by.insert(from)),
            Note::Gone if self.leaving.contains(&from) => {}
            Note::Gone => self.leaving.push(from),
            Note::End => {}
        }
        Ok(true)
    }

    /// A message has come. False if it must stay where it is.
    fn message(&mut self, world: &World, record: &Record, reading: &Reading<'_>, way: Way) -> Result<bool> {
        let Some(envelope) = record.envelope() else { return Ok(true) };
        let source = envelope.source;
        if !self.refused.is_empty() && self.refused.contains_key(&source) {
            return Ok(true);
        }
        if let Err(error) = self.book_tables(world) {
            self.blocked = Some(error);
            return Ok(false);
        }
        // Only when it leaves the mailbox: one that stays there is looked at again.
        let is_hungry = way == Way::Mailbox && record.hungry;
        if self.land(&envelope, record, reading)? {
            self.give_back(source, way, is_hungry);
            self.has_come(world, &envelope);
            return Ok(true);
        }
        let body = match record.note {
            Note::Lent { place, number, .. } => {
                let mut registration = [0; LENT_BYTES as usize];
                reading.body(record, &mut registration)?;
                let registration = u64::from_le_bytes(registration);
                Body::Lent(Place { address: place, registration }, number)
            }
            // It is looked at again and again, and copied when there is room for it.
            _ if envelope.bytes > LONGEST_MAILED
                && !self.is_closing
                && !self.matching.is_wanted(&envelope)
                && self.is_full(way, source) =>
            {
                return Ok(false)
            }
            _ => {
                let mut bytes = Bytes::zeros(envelope.bytes as usize, &mut self.spare);
                reading.body(record, bytes.as_mut_slice())?;
                Body::Here(bytes)
            }
        };
        if let Some(wanted) = self.matching.arrive(&envelope) {
            self.give_back(source, way, is_hungry);
            self.hand_over(wanted, envelope, body);
        } else if self.is_closing {
            self.drop_message(envelope, way, body, is_hungry);
        } else if !self.keep(world, envelope, way, body) {
            return Ok(false);
        } else if is_hungry {
            self.incoming.note_hungry(source);
        }
        if matches!(record.note, Note::Lent { .. }) {
            self.count_lent(world, &envelope);
        }
        self.has_come(world, &envelope);
        Ok(true)
    }

    /// Counts a message that has come.
    fn has_come(&mut self, world: &World, envelope: &Envelope) {
        self.traffic.received += 1;
        self.traffic.received_bytes += envelope.bytes;
        self.count(world, envelope.source);
    }

    /// A short message goes at once to the memory that the program has given for it, if it has, and there is enough of it.
    fn land(&mut self, envelope: &Envelope, record: &Record, reading: &Reading<'_>) -> Result<bool> {
        if self.rooms.is_empty() || !matches!(record.note, Note::Short { .. }) {
            return Ok(false);
        }
        let first = self.matching.first_for(envelope).map(Wanted::request);
        let Some(request) = first.filter(|request| !self.forgotten.contains(request)) else {
            return Ok(false);
        };
        let into =
            self.rooms.get_mut(&request).and_then(|room| room.bytes().get_mut(..envelope.bytes as usize));
        let Some(into) = into else { return Ok(false) };
        reading.body(record, into)?;
        self.matching.arrive(envelope);
        self.take_room(request);
        self.done.insert(request, Ok(Some(Delivery::Landed { envelope: *envelope })));
        Ok(true)
    }

    /// Whether as much as a lane holds, or as much as there may be, is kept of it: then what comes stays there.
    fn is_full(&mut self, way: Way, source: Rank) -> bool {
        let is_awaited = self.is_awaited(source);
        // Whoever waits for a message of this source may wait for one behind this.
        let reads_on = is_awaited && !self.keeps_much() || self.reads_all;
        let lane = self.incoming.lane_at(way, source);
        let is_full = lane.as_ref().is_some_and(|lane| lane.kept_bytes >= most_kept(lane.ring)) && !reads_on;
        if is_full && is_awaited {
            self.starved.insert(source);
        }
        is_full
    }

    /// Keeps a message until somebody asks for it. False if there is no room for it.
    fn keep(&mut self, world: &World, envelope: Envelope, way: Way, body: Body) -> bool {
        let source = envelope.source;
        let booked = match self.is_full(way, source) {
            true => None,
            false => match world.memory.book(Purpose::Comm, body.kept_bytes()) {
                Ok(booked) => Some(booked),
                Err(error) => {
                    self.blocked = Some(error);
                    None
                }
            },
        };
        let Some(booked) = booked else {
            if let Body::Here(bytes) = body {
                self.reuse(bytes);
            }
            return false;
        };
        if way == Way::Mailbox && !self.incoming.keeps(source) {
            // It has sent more than it may: nobody has to keep that.
            let wrong = format!("rank {source} sends messages for which it has no credit");
            self.refuse(source, &Error::Refused(wrong));
            return true;
        }
        let counted = body.kept_bytes();
        self.kept_bytes += counted;
        if let Some(lane) = self.incoming.lane_at(way, source) {
            lane.kept_bytes += counted;
        }
        self.early.is_kept(&body);
        let kept = Kept { body, way, _booked: booked, early: Default::default() };
        self.matching.keep(envelope, kept);
        true
    }

    /// Nobody will ask for a message any more.
    fn drop_message(&mut self, envelope: Envelope, way: Way, body: Body, is_hungry: bool) {
        self.give_back(envelope.source, way, is_hungry);
        if let Body::Lent(_, number) = body {
            self.say(envelope.source, Note::Fetched { number });
        }
    }

    // ---- lanes ----

    /// Counts a message that was lent: where many come that would not have to be, there is to be a wide lane for them.
    fn count_lent(&mut self, world: &World, envelope: &Envelope) {
        let (longest, _) = widest(world, envelope.source);
        if envelope.bytes > longest || self.is_closing || self.options.way == MessageWay::Mailbox {
            return;
        }
        if let Some(ring) = self.incoming.count_long(envelope.source, self.options.wide_pairs) {
            self.say(envelope.source, Note::Leave { lane: ring.address });
        }
    }

    /// Counts a message, and gives a lane or asks for one.
    pub(super) fn count(&mut self, world: &World, source: Rank) {
        if self.is_closing {
            return;
        }
        let MessageOptions { way, fast_pairs, lane_bytes, .. } = self.options;
        match self.incoming.count(source, way, fast_pairs) {
            Step::Nothing => {}
            Step::Give => {
                // Where there is no memory for it, one goes on without.
                let wide = self.wide_lane(world, source);
                let made =
                    wide.or_else(|| Ring::lane(world.local(), source, lane_bytes as u64 - FRAME_BYTES).ok());
                if let Some(ring) = made {
                    self.incoming.give(source, ring);
                    self.say(source, Note::Offer { lane: ring.address, bytes: ring.bytes });
                }
            }
            Step::Ask(ring, whose) => self.say(whose, Note::Leave { lane: ring.address }),
        }
    }

    /// Makes a wide lane for a source, if it is to have one, and that takes not much of the memory that is left.
    fn wide_lane(&mut self, world: &World, source: Rank) -> Option<Ring> {
        let (MessageOptions { lane_bytes, wide_pairs, .. }, (_, wide)) =
            (self.options, widest(world, source));
        if wide <= lane_bytes as u64 || !self.incoming.wants_wide(source, wide_pairs) {
            return None;
        }
        let has_room = world.memory.book(Purpose::Comm, WIDE_SHARE * wide).is_ok();
        let made = has_room.then(|| Ring::lane(world.local(), source, wide - FRAME_BYTES).ok()).flatten();
        if made.is_none() {
            self.incoming.never_widen();
        }
        made
    }

    /// Reads all lanes that are used.
    pub(super) fn read_lanes(&mut self, world: &World) {
        let mut at = 0;
        while let Some(lane) = self.incoming.lanes.get(at) {
            let source = lane.source;
            if self.leaves_lanes && !self.is_awaited(source) && !self.is_closing {
                at += 1;
                continue;
            }
            match self.read_lane(world, at) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => self.refuse(source, &error),
            }
            at += 1;
        }
    }

    /// Reads a lane. Whether it has ended, and is gone.
    fn read_lane(&mut self, world: &World, at: usize) -> Result<bool> {
        let Lane { source, ring, stage, head, .. } = self.incoming.lanes[at];
        if stage != Stage::Open {
            return Ok(false);
        }
        let local = world.local();
        let mut reading = self.incoming.lanes[at].read(local)?;
        let mut now = head;
        while let Some(record) = reading.record()? {
            let is_message =
                record.envelope().is_some() && record.from == source && record.can_be_mailed(local);
            match record.note {
                Note::End => {
                    if let (Some(opposite), Some(out)) =
                        (self.incoming.opposite(world, source), self.outs.get_mut(&source))
                    {
                        opposite.learn(out);
                    }
                    self.incoming.lanes.remove(at);
                    ring.raze(local);
                    self.moves += 1;
                    return Ok(true);
                }
                _ if !is_message => {
                    let wrong = format!("rank {source} has written what is no message");
                    return Err(Error::Refused(wrong));
                }
                _ if !self.message(world, &record, &reading, Way::Lane(ring.address))? => break,
                _ => now = reading.skip(&record),
            }
            self.moves += 1;
        }
        if now != head {
            self.free_lane_up_to(world, at, now)?;
        }
        Ok(false)
    }

    /// Gives room in a lane back, and wakes or tells a sender that waits for it.
    pub(super) fn free_lane_up_to(&mut self, world: &World, at: usize, now: u64) -> Result<()> {
        let (local, lane) = (world.local(), &mut self.incoming.lanes[at]);
        let (ring, source) = (lane.ring, lane.source);
        lane.head = now;
        // Its sender waits for room of a quarter, or for more.
        let is_thorough = now.wrapping_sub(lane.looked) >= ring.bytes / 4;
        if is_thorough {
            lane.looked = now;
        }
        let span = lane.span(local)?;
        let hungry = free_up_to(span, now, is_thorough)?;
        if local.is_near(source) {
            if hungry {
                // Somebody who is gone need not be woken.
                let _ = world.memory.wake(source);
            }
            return Ok(());
        }
        if hungry || now.wrapping_sub(ring::told(span)?) >= ring.bytes / 2 {
            ring::tell(span, now)?;
            self.say(source, Note::Room { lane: ring.address, head: now });
        }
        Ok(())
    }

    /// A message of this source is in the mailbox: what it sent in a lane was before that. False if that cannot be kept now.
    fn finish_lane(&mut self, world: &World, source: Rank) -> bool {
        let used = |at: &usize| self.incoming.lanes[*at].stage == Stage::Open;
        let Some(at) = self.incoming.lane_of(source).filter(used) else { return true };
        self.reads_all = true;
        let ended = self.read_lane(world, at);
        self.reads_all = false;
        match ended {
            Ok(true) => return true,
            Ok(false) if self.blocked.is_some() => return false,
            Ok(false) => {
                let wrong = format!("rank {source} has left a lane without saying so");
                self.refuse(source, &Error::Refused(wrong));
            }
            Err(error) => self.refuse(source, &error),
        }
        true
    }

    /// A rank has written what it may not: nothing of it is received any more. Messages of others are.
    pub(super) fn refuse(&mut self, source: Rank, error: &Error) {
        self.refused.entry(source).or_insert_with(|| error.clone());
        if let Some(at) = self.incoming.lane_of(source) {
            // Its sender may still write to it: it stays, and nobody reads it.
            self.incoming.lanes[at].stage = Stage::Broken;
        }
        self.fail_receives(source, error);
    }

    // ---- ends ----

    /// A rank that is gone, of those that somebody waits for: one is looked at each time.
    pub(super) fn somebody_gone(&mut self, world: &World) -> Option<(Rank, Error)> {
        let (turn, number) = &mut self.turn;
        *turn = turn.wrapping_add(1);
        if !turn.is_multiple_of(LOOKS_A_CHECK) {
            return None;
        }
        let turn = *turn / LOOKS_A_CHECK;
        let posted = self.matching.posted(turn % self.matching.posted_count().max(1));
        let posted = posted.and_then(|(selector, _)| selector.source);
        let lending = self.lent.range(*number + 1..).next().or(self.lent.first_key_value());
        let lent = lending.map(|(next, lending)| {
            *number = *next;
            lending.to
        });
        if turn.is_multiple_of(CHECKS_A_QUESTION) && self.matching.posted_count() > 0 {
            // One after the other, and not always the same one.
            let asked = self.matching.posted(turn / CHECKS_A_QUESTION % self.matching.posted_count());
            let asked = asked.and_then(|(selector, _)| selector.source).or_else(|| self.somebody(world));
            asked.into_iter().for_each(|rank| self.ask_about(world, rank));
        }
        let lane = self.incoming.lanes.get(turn % self.incoming.lanes.len().max(1));
        let ranks = [posted, lent, lane.map(|lane| lane.source)].into_iter().flatten();
        let mut over = ranks.filter(|rank| !self.closed.contains_key(rank));
        over.find_map(|rank| self.check_there(world, rank).err().map(|error| (rank, error)))
    }

    /// Fails if a rank is gone, or has begun to finalize: then it has sent everything, and takes nothing. One of another node
    /// [says so](Self::ask_about).
    pub(super) fn check_there(&self, world: &World, rank: Rank) -> Result<()> {
        let local = world.local();
        if rank == world.rank() {
            return Ok(());
        }
        if let Some(error) = self.closed.get(&rank) {
            return Err(error.clone());
        }
        local.check_alive(rank)?;
        match local.is_near(rank).then(|| Ring::check_open(local, rank)) {
            Some(Err(error @ Error::PeerLost { .. })) => Err(error),
            _ => Ok(()),
        }
    }

    /// Somebody who is there and may send something.
    pub(super) fn somebody(&self, world: &World) -> Option<Rank> {
        let me = world.rank();
        let alone = (world.ranks() == 1).then_some(me);
        alone
            .or_else(|| (0..world.ranks()).find(|rank| *rank != me && self.check_there(world, *rank).is_ok()))
    }

    /// Has a rank of another node tell this one when it sends nothing any more.
    pub(super) fn ask_about(&mut self, world: &World, rank: Rank) {
        let is_far = rank != world.rank() && !world.local().is_near(rank);
        if is_far && !self.is_closing && !self.closed.contains_key(&rank) && self.asked.insert(rank) {
            self.say(rank, Note::Awaits);
        }
    }

    /// A rank is gone, or nothing can come from it or go to it: whoever waits for that is told.
    pub(super) fn lose(&mut self, world: &World, rank: Rank, error: &Error) {
        // What it left in the mailbox before it went; whoever calls may have looked there before that.
        self.read_what_came(world);
        self.reads_all = true;
        let is_gone = world.local().check_alive(rank).is_err();
        if let Some(at) = self.incoming.lane_of(rank) {
            // What it sent before it went is received first.
            let ended = self.read_lane(world, at).unwrap_or(false);
            if !ended && self.blocked.is_none() && is_gone {
                let ring = self.incoming.lanes.remove(at).ring;
                // What one of another node has asked for may be written at this moment: that memory stays as it is.
                if world.local().is_near(rank) {
                    ring.raze(world.local());
                }
            }
        }
        self.reads_all = false;
        // Something of it may be there for which there is no memory now.
        if self.blocked.is_none() {
            self.fail_receives(rank, error);
            self.incoming.forget(rank);
            self.starved.remove(&rank);
            self.closed.entry(rank).or_insert_with(|| error.clone());
        } else if !self.leaving.contains(&rank) {
            // It is said again when what it has sent can be kept.
            self.leaving.push(rank);
        }
        self.fail_out(world, rank, error);
        self.debts.set(rank, 0);
    }

    fn fail_receives(&mut self, source: Rank, error: &Error) {
        for wanted in self.matching.withdraw_source(source) {
            self.take_room(wanted.request());
            self.done.insert(wanted.request(), Err(error.clone()));
        }
    }

    /// What was lent to a rank is not fetched any more. It may have been, but for what was not even said.
    pub(super) fn fail_lendings(&mut self, to: Rank, error: &Error, unsaid: &[u64]) {
        let done = &mut self.done;
        self.lent.retain(|number, lending| {
            if lending.to == to {
                let error = if unsaid.contains(number) { error.clone() } else { perhaps_done(error) };
                done.insert(lending.request, Err(error));
            }
            lending.to != to
        });
    }

    /// What nobody has asked for is dropped from now on.
    pub(super) fn close(&mut self) {
        if std::mem::replace(&mut self.is_closing, true) {
            return;
        }
        self.outs.values_mut().for_each(|out| out.close());
        let kept: Vec<_> = self.matching.drain().collect();
        self.kept_bytes = 0;
        self.early.forget_kept();
        self.incoming.lanes.iter_mut().for_each(|lane| lane.kept_bytes = 0);
        for (envelope, kept) in kept {
            if kept.way == Way::Mailbox {
                self.incoming.keeps_no_more(envelope.source);
            }
            self.drop_message(envelope, kept.way, kept.body, false);
        }
    }

    /// Nothing comes from now on: whoever sends, or waits, is told so. What had come is dropped, and whoever waits for that is told, too.
    /// False if that is done: it takes two calls, one before and one behind the beginning of a barrier, because others may have made a
    /// mailbox for a rank that had none.
    pub(super) fn shut(&mut self, world: &World) -> bool {
        if self.shuts == 2 {
            return false;
        }
        self.shuts += 1;
        let local = world.local();
        if let (Ok(Some(ring)), None) = (Ring::close_mailbox(local), self.mailbox) {
            // Others have left something for a rank that never looked.
            self.mailbox = Some((ring, 0));
        }
        if self.shuts == 1 {
            for lane in &self.incoming.lanes {
                let _ = lane.ring.close(local);
            }
            for rank in std::mem::take(&mut self.awaited_by) {
                self.say(rank, Note::Gone);
            }
        }
        if self.mailbox.is_some() {
            wake_neighbours(world);
        }
        true
    }

    /// Somebody to whom something is to be sent. What was lent is fetched without this rank's help.
    /// Whether something that others wait for waits here: a message, or what is said about theirs.
    pub(super) fn keeps_back(&self, rank: Rank, request: Option<u64>) -> bool {
        self.outs.get(&rank).is_some_and(|out| match request {
            Some(request) => out.keeps_back(request),
            None => out.keeps_notes(),
        })
    }

    pub(super) fn busy_with(&self) -> Option<Rank> {
        self.outs.iter().find(|(_, out)| out.is_missed()).map(|(rank, _)| *rank)
    }
}

/// So much of what came through a lane is kept, unless somebody waits for more.
pub(super) fn most_kept(ring: Ring) -> u64 {
    ring.bytes.min(MOST_KEPT)
}

/// The longest message of a source that need not be lent if there is a wide lane, and the bytes of that.
fn widest(world: &World, source: Rank) -> (u64, u64) {
    match world.local().is_near(source) {
        true => (LONGEST_NEAR, WIDE_NEAR),
        false => (LONGEST_FAR, WIDE_FAR),
    }
}

fn wake_neighbours(world: &World) {
    let local = world.local();
    let near = (0..world.ranks()).filter(|rank| local.can_touch(*rank));
    near.for_each(|rank| drop(world.memory.wake(rank)));
}
