//! What a rank has to send to one other: messages, in order, and what is said about messages of the other.
//!
//! Messages go into the mailbox of the other rank, a few of them at a time until it says that they were received; or into a lane that it
//! has given for them, while there is room. What does not go waits here. To another node both are requests: one to a mailbox at a time,
//! because it may say that there is no room; several to a lane, because the room there is known. Where nothing of it is unanswered, a message goes as a letter,
//! which nobody answers: how far a lane was read its reader says by itself, whenever that is half of it. A request that the other rank has no
//! memory for goes again later.

mod lanes;
mod mail;

use super::record::{Note, Record};
use super::ring::Ring;
use super::{Place, Results, CREDIT, EAGER_BYTES, LONGEST_FAR, LONGEST_MAILED, LONGEST_NEAR};
use crate::comm::spares::Spares;
use crate::{Error, Fate, GlobalAddress, Rank, Result, World};
use kumiki_mem::{Booking, Posted};
use lanes::{Batch, Lane, Refused};
use mail::Parcel;
use std::collections::{HashSet, VecDeque};

/// Bytes of records in one request to another node: what a rank takes, one or two at a time, even if its budget is spent.
const BATCH_BYTES: u64 = 24 << 10;
/// How long a rank that could not take something is left alone, at first and at most.
const PAUSES_NS: (u64, u64) = (50_000, 10_000_000);

/// A message that is to be sent.
pub(super) struct Item {
    /// The request for it; 0 if that is done.
    pub(super) request: u64,
    pub(super) note: Note,
    /// Its bytes, if it is short.
    pub(super) body: Vec<u8>,
    pub(super) _booked: Option<Booking>,
}

impl Item {
    fn is_lent(&self) -> bool {
        matches!(self.note, Note::Lent { .. })
    }
}

/// What is known of the rank that things are sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Other {
    IsThere,
    /// It takes no messages any more, and still answers.
    Closed,
    Gone,
}

/// When a rank that could not take something is asked again.
#[derive(Clone, Copy, Default)]
struct Pause {
    until_ns: u64,
    length_ns: u64,
}

impl Pause {
    /// Nothing is asked for a while, longer each time.
    fn begin(&mut self, world: &World) {
        // Where nobody is woken by time, one asks again at once: that takes the time of a message.
        if !world.memory.sleeps_at_once() {
            self.length_ns = (2 * self.length_ns).clamp(PAUSES_NS.0, PAUSES_NS.1);
            self.until_ns = world.memory.now_ns().saturating_add(self.length_ns);
        }
    }

    fn is_on(self, world: &World) -> bool {
        self.until_ns != 0 && world.memory.now_ns() < self.until_ns
    }
}

/// All of it for one rank.
#[derive(Default)]
pub(super) struct Out {
    control: VecDeque<Note>,
    queue: VecDeque<Item>,
    lane: Option<Lane>,
    /// A lane to go to.
    offered: Option<Ring>,
    /// Whether the lane is to be left.
    is_leaving: bool,
    /// The request to a mailbox that is under way, and what is in it.
    mail: Option<(Posted, VecDeque<Parcel>)>,
    /// Requests to a lane that are under way, and what is in them…
    posted: VecDeque<Batch>,
    /// …and those that were not taken, while others are under way behind them.
    refused: VecDeque<Refused>,
    pause: Pause,
}

impl Out {
    /// Whether nothing of it is to be kept.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_busy() && self.lane.is_none() && self.offered.is_none()
    }

    /// Whether something is to be done, or under way.
    pub(super) fn is_busy(&self) -> bool {
        let waits = !self.control.is_empty() || !self.queue.is_empty() || self.offered.is_some();
        waits || self.is_leaving || self.mail.is_some() || !self.posted.is_empty()
    }

    /// Whether the other rank is to be asked again for what it could not take.
    pub(super) fn asks_again(&self) -> bool {
        self.pause.until_ns != 0 && self.is_busy()
    }

    /// Whether messages are under way to a mailbox on another node.
    pub(super) fn is_mailing(&self) -> bool {
        let mut mail = self.mail.iter().flat_map(|(_, parcels)| parcels);
        mail.any(|parcel| matches!(parcel, Parcel::Message(_)))
    }

    /// Whether messages are to be sent, or under way.
    pub(super) fn has_messages(&self) -> bool {
        self.is_mailing() || !self.queue.is_empty() || !self.posted.is_empty()
    }

    /// Whether the other rank would miss something, if this one went.
    pub(super) fn is_missed(&self) -> bool {
        let mut mail = self.mail.iter().flat_map(|(_, parcels)| parcels);
        let says = mail.any(|parcel| matches!(parcel, Parcel::Control(note) if is_missed(note)));
        says || self.has_messages() || self.control.iter().any(is_missed)
    }

    /// Whether something that is said about messages of the other rank waits here.
    pub(super) fn keeps_notes(&self) -> bool {
        self.mail.is_some() || self.control.iter().any(is_missed)
    }

    /// Whether a message waits here, or may have to go again: what is on its way to a lane comes by itself.
    pub(super) fn keeps_back(&self, request: u64) -> bool {
        let mut mail = self.mail.iter().flat_map(|(_, parcels)| parcels);
        let is_it = |item: &Item| item.request == request;
        self.holds(request)
            || mail.any(|parcel| matches!(parcel, Parcel::Message(item) if is_it(item)))
            || self.refused.iter().flat_map(|batch| &batch.items).any(is_it)
    }

    /// How many short messages wait here.
    pub(super) fn waiting(&self) -> usize {
        self.queue.iter().filter(|item| matches!(item.note, Note::Short { .. })).count()
    }

    /// Says something to the other rank, before all messages that wait.
    pub(super) fn say(&mut self, note: Note) {
        if let (Some(Note::Received { count }), Note::Received { count: more }) =
            (self.control.back_mut(), note)
        {
            *count += more;
            return;
        }
        if let Note::Room { lane, .. } = note {
            let same = |said: &&mut Note| matches!(said, Note::Room { lane: other, .. } if *other == lane);
            if let Some(said) = self.control.iter_mut().find(same) {
                *said = note;
                return;
            }
        }
        self.control.push_back(note);
    }

    pub(super) fn send(&mut self, item: Item) {
        // As a rule it is the only one, and there may be many ranks.
        if self.queue.is_empty() {
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(item);
    }

    /// The longest message that can go without being lent.
    #[inline]
    pub(super) fn longest_short(&self, is_near: bool) -> u64 {
        let longest = if is_near { LONGEST_NEAR } else { LONGEST_FAR };
        self.lane.map_or(EAGER_BYTES, |lane| lane.ring.longest_body().clamp(EAGER_BYTES, longest))
    }

    /// A message that waits for a lane that is gone, and is too long for a mailbox: it is to be [lent](Self::lend_first).
    pub(super) fn has_to_lend(&self) -> bool {
        let first = self.queue.front().filter(|_| self.lane.is_none());
        first.is_some_and(|item| item.body.len() as u64 > LONGEST_MAILED)
    }

    /// The request for the first message that waits; 0 if that is done.
    pub(super) fn first_request(&self) -> u64 {
        self.queue.front().map_or(0, |item| item.request)
    }

    /// The first message that waits lies in memory that is registered now, and is fetched; `register` says where, or gives the memory
    /// back. Then there is nothing; else what was booked for it.
    pub(super) fn lend_first(
        &mut self,
        number: u64,
        register: impl FnOnce(Box<[u8]>) -> std::result::Result<Place, Box<[u8]>>,
    ) -> Option<Option<Booking>> {
        let item = self.queue.front_mut()?;
        let Note::Short { context, tag, bytes } = item.note else { return None };
        let Place { address, registration } = match register(std::mem::take(&mut item.body).into()) {
            Ok(place) => place,
            Err(body) => {
                item.body = body.into();
                return None;
            }
        };
        item.request = number;
        item.note = Note::Lent { context, tag, bytes, place: address, number };
        item.body = registration.to_le_bytes().to_vec();
        Some(item._booked.take())
    }

    /// Sends a short message at once, if nothing waits before it and there is room: whether it is gone.
    pub(super) fn send_now(
        &mut self,
        world: &World,
        to: Rank,
        (debt, spares): (&mut u8, &mut Spares),
        note: Note,
        body: &[u8],
    ) -> Result<bool> {
        let local = world.local();
        let sent = match local.can_touch(to) {
            true => self.write_in_lane(world, to, (note, body)),
            false => self.post_now(world, to, (spares, &mut None), (note, body)),
        };
        if let Some(sent) = sent {
            return sent;
        }
        if self.is_busy() {
            return Ok(false);
        }
        if !local.can_touch(to) {
            return local.check_alive(to).map(|()| false);
        }
        let mut record = Record { from: world.rank(), hungry: false, note };
        let sent = match self.lane {
            None if *debt < CREDIT => {
                record.hungry = *debt + 1 == CREDIT;
                let Some(mut writing) = Ring::mailbox_made(local, to)?.write_briefly(local)? else {
                    return Ok(false);
                };
                let sent = writing.push(&record, body)? && writing.publish()?;
                *debt += u8::from(sent);
                sent
            }
            _ => false,
        };
        if sent {
            world.wake(to)?;
        }
        Ok(sent)
    }

    /// The same into the lane of a rank of this node [that can be touched](kumiki_mem::Local::can_touch), if there is one, and nothing else is to be
    /// done. Nothing if it is not so.
    #[inline(always)]
    pub(super) fn write_in_lane(
        &mut self,
        world: &World,
        to: Rank,
        (note, body): (Note, &[u8]),
    ) -> Option<Result<bool>> {
        if self.is_busy() {
            return None;
        }
        let local = world.local();
        let lane = self.lane.as_mut()?;
        let record = Record { from: world.rank(), hungry: false, note };
        let mut write = || {
            let mut writing = lane.write(local)?;
            let has_room = writing.push(&record, body)?;
            lane.has_written(&writing);
            let sent = has_room && writing.publish()?;
            if sent {
                // Most times nobody of the node sleeps.
                world.memory.wake_all(std::iter::once(to))?;
            }
            Ok(sent)
        };
        Some(write())
    }

    /// Sends what can be sent. How much has moved.
    pub(super) fn advance(
        &mut self,
        world: &World,
        to: Rank,
        (debt, spares): (&mut u8, &mut Spares),
        done: &mut Results,
    ) -> Result<u64> {
        let local = world.local();
        let near = local.is_near(to);
        // What it has said counts before that it is gone.
        let mut moved = self.reap_lane(world, to, spares)? + self.reap_mail(world, debt, done)?;
        local.check_alive(to)?;
        loop {
            let now = match near {
                true => self.fill_lane(world, to, done)? + self.fill_mailbox(world, to, debt, done)?,
                false if self.pause.is_on(world) => 0,
                false => {
                    self.post_to_lane(world, to, done, spares)? + self.post_to_mailbox(world, to, debt)?
                }
            };
            moved += now;
            if now == 0 {
                break;
            }
        }
        if near && moved == 0 && !self.queue.is_empty() && to != world.rank() {
            // Whoever waits for room or credit waits for somebody who looks.
            Ring::check_open(local, to)?;
        }
        Ok(moved)
    }

    /// There is no memory to send anything: messages of which nothing is on its way are not sent. The requests for them.
    pub(super) fn refuse(&mut self, error: &Error, done: &mut Results, forgotten: &HashSet<u64>) -> Vec<u64> {
        let mut requests = Vec::new();
        self.queue.retain(|item| {
            // One of which is said that it is sent waits on; and so does one that nobody asks for: nobody would hear of it.
            let waits = item.request == 0 || forgotten.contains(&item.request);
            if !waits {
                done.insert(item.request, Err(error.clone()));
                requests.push(item.request);
            }
            waits
        });
        requests
    }

    /// Nothing can be sent any more: every message that waits has failed. What is said about messages of the other rank stays while that
    /// is there. Whether it is not known what has come, so that nothing can be sent behind it.
    pub(super) fn fail(&mut self, world: &World, error: &Error, done: &mut Results, other: Other) -> bool {
        let is_torn = self.lane.is_some() || self.mail.is_some() || !self.posted.is_empty();
        let mut fail = |item: Item, error: Error| {
            // What is lent fails with the rest that is lent, or was fetched.
            if item.request != 0 && !item.is_lent() {
                done.insert(item.request, Err(error));
            }
        };
        self.queue.drain(..).for_each(|item| fail(item, error.clone()));
        self.posted.drain(..).for_each(|batch| world.memory.forget_call(batch.posted));
        let refused = self.refused.drain(..).flat_map(|batch| batch.items);
        refused.for_each(|item| fail(item, error.clone()));
        (self.lane, self.is_leaving) = (None, false);
        if other != Other::IsThere {
            self.control.clear();
            self.offered = None;
        }
        // One that is only closed may have taken what is on its way, and says so.
        if other == Other::Gone {
            let (posted, parcels) = self.mail.take().unzip();
            posted.into_iter().for_each(|posted| world.memory.forget_call(posted));
            for parcel in parcels.into_iter().flatten() {
                if let Parcel::Message(item) = parcel {
                    fail(item, perhaps_done(error));
                }
            }
        }
        is_torn
    }

    /// The world ends: nothing is begun any more.
    pub(super) fn close(&mut self) {
        self.control.retain(is_missed);
        self.offered = None;
        let has_lane = self.lane.is_some() || self.begun().next().is_some();
        self.is_leaving &= has_lane;
    }

    /// Whether a message is not on its way.
    pub(super) fn holds(&self, request: u64) -> bool {
        self.queue.iter().any(|item| item.request == request)
    }

    /// Takes back a message that is not on its way.
    pub(super) fn withdraw(&mut self, request: u64) -> bool {
        let found = self.queue.iter().position(|item| item.request == request);
        found.and_then(|at| self.queue.remove(at)).is_some()
    }

    // ---- lanes ----

    /// The other rank offers a lane.
    pub(super) fn offer(&mut self, ring: Ring) {
        let has_lane = self.lane.is_some_and(|lane| !lane.has_ended) || self.begun().next().is_some();
        if !has_lane && self.offered.is_none() {
            self.offered = Some(ring);
        }
    }

    /// The other rank wants a lane back.
    pub(super) fn leave(&mut self, address: GlobalAddress) {
        let open = self.lane.filter(|lane| !lane.has_ended).map(|lane| lane.ring);
        let is_known =
            open.into_iter().chain(self.offered).chain(self.begun()).any(|ring| ring.address == address);
        self.is_leaving |= is_known;
    }

    /// The other rank, on another node, has read its lane up to here.
    pub(super) fn room(&mut self, address: GlobalAddress, head: u64) {
        if let Some(lane) = self.lane.as_mut().filter(|lane| lane.ring.address == address) {
            lane.was_read_to(head);
        }
    }

    /// The same, as it has said with its letters.
    #[inline]
    pub(super) fn was_read_to(&mut self, head: u64) {
        if let Some(lane) = &mut self.lane {
            lane.was_read_to(head);
        }
    }

    /// How much of what is in the lane was not read, as far as this rank knows.
    #[cfg(test)]
    pub(super) fn unread_bytes(&self) -> Option<u64> {
        self.lane.map(|lane| lane.tail.wrapping_sub(lane.head))
    }

    /// What is said next.
    #[cfg(test)]
    pub(super) fn first_said(&self) -> Option<Note> {
        self.control.front().copied()
    }

    /// Lanes that a request which is under way says are used from now on.
    fn begun(&self) -> impl Iterator<Item = Ring> + '_ {
        self.mail.iter().flat_map(|(_, parcels)| parcels).filter_map(|parcel| match parcel {
            Parcel::Begin(ring) => Some(*ring),
            _ => None,
        })
    }
}

/// The error of what may have come before its receiver went.
pub(super) fn perhaps_done(error: &Error) -> Error {
    match error.clone() {
        Error::PeerLost { rank, why, .. } => Error::PeerLost { rank, fate: Fate::Unknown, why },
        other => other,
    }
}

/// Whether the other rank may wait for this.
fn is_missed(note: &Note) -> bool {
    matches!(note, Note::Fetched { .. } | Note::Received { .. } | Note::Room { .. } | Note::Gone)
}

/// A short message that is on its way is sent; one that is lent is sent when it was fetched.
fn settle(item: &mut Item, done: &mut Results) {
    if matches!(item.note, Note::Short { .. }) && item.request != 0 {
        done.insert(std::mem::take(&mut item.request), Ok(None));
    }
}

fn record(world: &World, note: Note, hungry: bool) -> Record {
    Record { from: world.rank(), hungry, note }
}

#[cfg(test)]
mod tests {
    use super::super::ring::FRAME_BYTES;
    use super::*;

    fn short(request: u64, bytes: usize) -> Item {
        let note = Note::Short { context: 0, tag: request, bytes: bytes as u64 };
        Item { request, note, body: vec![0; bytes], _booked: None }
    }

    fn requests(out: &Out) -> Vec<u64> {
        out.queue.iter().map(|item| item.request).collect()
    }

    #[test]
    fn what_a_lane_had_no_memory_for_goes_again_in_its_order_and_so_does_its_end() {
        let world = World::init().unwrap();
        let ring = Ring::new(GlobalAddress::from_bits(0), 2880).unwrap();
        let lane = Lane { tail: 600, has_ended: true, ..Lane::new(ring) };
        let mut out = Out { lane: Some(lane), ..Out::default() };
        out.send(short(5, 8));
        let batch = |first, items, is_end| Refused { first, items, is_end };
        out.refused.push_back(batch(100, vec![short(1, 8), short(2, 8)], false));
        out.refused.push_back(batch(300, vec![short(3, 8), short(4, 8)], false));
        out.refused.push_back(batch(550, vec![], true));
        assert_eq!(out.reap_lane(&world, 1, &mut Spares::default()).unwrap(), 1);
        let lane = out.lane.unwrap();
        assert_eq!((lane.tail, lane.has_ended, out.is_leaving), (100, false, true));
        assert_eq!(requests(&out), [1, 2, 3, 4, 5]);
        assert!(out.pause.until_ns != 0 && out.refused.is_empty());
        world.finalize().unwrap();
    }

    #[test]
    fn what_is_said_about_messages_of_the_other_rank_outlives_an_error() {
        let world = World::init().unwrap();
        let error = Error::OutOfMemory { asked: 1, left: 0, what: "a test" };
        let (mut out, mut done) = (Out::default(), Results::default());
        let notes = [Note::Fetched { number: 4 }, Note::Received { count: 2 }];
        notes.into_iter().for_each(|note| out.say(note));
        // One of which is said that it is sent, and one that waits.
        out.send(short(0, 8));
        out.send(short(7, 8));
        assert_eq!(out.refuse(&error, &mut done, &HashSet::new()), [7]);
        assert_eq!((requests(&out), out.control.len()), (vec![0], 2));
        assert!(!out.fail(&world, &error, &mut done, Other::IsThere), "nothing was on its way");
        assert_eq!((requests(&out).len(), out.control.len(), done.len()), (0, 2, 1));
        // One that was fetched already is not said to have failed.
        let place = GlobalAddress::from_bits(0);
        let lent = Note::Lent { context: 0, tag: 0, bytes: 64, place, number: 9 };
        out.send(Item { request: 9, note: lent, body: vec![0; 8], _booked: None });
        out.fail(&world, &error, &mut done, Other::IsThere);
        assert_eq!((requests(&out).len(), done.len()), (0, 1));
        assert!(out.is_missed() && !out.has_messages());
        out.fail(&world, &error, &mut done, Other::Gone);
        assert!(out.is_empty());
        world.finalize().unwrap();
    }

    #[test]
    fn a_message_that_nobody_asks_for_outlives_a_moment_without_memory() {
        let error = Error::OutOfMemory { asked: 1, left: 0, what: "a test" };
        let (mut out, mut done) = (Out::default(), Results::default());
        (5..8).for_each(|request| out.send(short(request, 8)));
        assert_eq!(out.refuse(&error, &mut done, &HashSet::from([5, 7])), [6]);
        assert_eq!((requests(&out), done.len()), (vec![5, 7], 1));
    }

    #[test]
    fn a_message_that_is_longer_than_half_of_the_lane_leaves_it() {
        let world = World::init().unwrap();
        let local = world.local();
        let ring = Ring::lane(local, 0, 10_048).unwrap();
        let mut out = Out { lane: Some(Lane::new(ring)), ..Out::default() };
        out.send(short(1, 8000));
        let (mut debt, mut done) = (0, Results::default());
        // There is room for it now: but nobody says when there is room for it again.
        assert_eq!(out.advance(&world, 0, (&mut debt, &mut Spares::default()), &mut done).unwrap(), 2);
        assert_eq!((debt, done.len(), out.lane.is_none()), (1, 1, true));
        ring.raze(local);
        world.finalize().unwrap();
    }

    #[test]
    fn a_message_that_is_longer_than_the_lane_leaves_it() {
        let world = World::init().unwrap();
        let local = world.local();
        let ring = Ring::lane(local, 0, 2880 - FRAME_BYTES).unwrap();
        let mut out = Out { lane: Some(Lane::new(ring)), ..Out::default() };
        out.send(short(1, 8));
        out.send(short(2, 8000));
        let (mut debt, mut done) = (0, Results::default());
        assert_eq!(out.advance(&world, 0, (&mut debt, &mut Spares::default()), &mut done).unwrap(), 3);
        assert_eq!((debt, done.len(), out.lane.is_none()), (1, 2, true));
        let mut reading = ring.read(local, 0).unwrap();
        let first = reading.record().unwrap().unwrap();
        assert!(matches!(first.note, Note::Short { tag: 1, .. }));
        reading.skip(&first);
        assert_eq!(reading.record().unwrap().unwrap().note, Note::End);
        ring.raze(local);
        world.finalize().unwrap();
    }
}
