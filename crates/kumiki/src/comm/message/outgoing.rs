//! What a rank has to send to one other: messages, in order, and what is said about messages of the other.
//!
//! Messages go into the mailbox of the other rank, a few of them at a time until it says that they were received; or into a lane that it
//! has given for them, while there is room. What does not go waits here. To another node both are requests: one to a mailbox at a time,
//! because it may say that there is no room; several to a lane, because the room there is known.

mod lanes;

use super::record::{Note, Record};
use super::ring::Ring;
use super::{Results, CREDIT, EAGER_BYTES, LONGEST_SHORT, MAIL};
use crate::comm::COMM;
use crate::{Error, GlobalAddress, Rank, Result, World};
use kumiki_mem::codec::Writer;
use kumiki_mem::{Booking, Posted};
use std::collections::VecDeque;

/// Bytes of records in one request to another node.
const BATCH_BYTES: u64 = 32 << 10;

/// A message that is to be sent.
pub(super) struct Item {
    pub(super) request: u64,
    pub(super) note: Note,
    /// Its bytes, if it is short.
    pub(super) body: Vec<u8>,
    pub(super) _booked: Option<Booking>,
}

/// What goes into a mailbox.
enum Parcel {
    Control(Note),
    Begin(Ring),
    Message(Item),
}

/// A lane at the other rank.
#[derive(Clone, Copy, Debug)]
struct Lane {
    ring: Ring,
    /// Bytes that were ever written, and of which the other rank has said that it has read them: for a lane on another node.
    tail: u64,
    head: u64,
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
    /// Requests to a lane that are under way.
    posted: VecDeque<Posted>,
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

    /// Whether the other rank would miss something, if this one went.
    pub(super) fn is_missed(&self) -> bool {
        let is_missed = |note: &Note| matches!(note, Note::Fetched { .. });
        let mut mail = self.mail.iter().flat_map(|(_, parcels)| parcels);
        let sends = mail.any(|parcel| match parcel {
            Parcel::Message(_) => true,
            Parcel::Control(note) => is_missed(note),
            Parcel::Begin(_) => false,
        });
        sends || !self.queue.is_empty() || !self.posted.is_empty() || self.control.iter().any(is_missed)
    }

    /// Says something to the other rank, before all messages that wait.
    pub(super) fn say(&mut self, note: Note) {
        if let (Some(Note::Received { count }), Note::Received { count: more }) =
            (self.control.back_mut(), note)
        {
            *count += more;
            return;
        }
        self.control.push_back(note);
    }

    pub(super) fn send(&mut self, item: Item) {
        self.queue.push_back(item);
    }

    /// The longest message that can go without being lent.
    pub(super) fn longest_short(&self) -> u64 {
        self.lane.map_or(EAGER_BYTES, |lane| lane.ring.longest_body().clamp(EAGER_BYTES, LONGEST_SHORT))
    }

    /// The other rank offers a lane.
    pub(super) fn offer(&mut self, ring: Ring) {
        if !self.has_lane(None) {
            self.offered = Some(ring);
        }
    }

    /// The other rank wants a lane back.
    pub(super) fn leave(&mut self, lane: GlobalAddress) {
        self.is_leaving |= self.has_lane(Some(lane));
    }

    /// The other rank, on another node, has read its lane up to here.
    pub(super) fn room(&mut self, address: GlobalAddress, head: u64) {
        if let Some(lane) = self.lane.as_mut().filter(|lane| lane.ring.address == address) {
            // Anything else is no number that it could have.
            if head.wrapping_sub(lane.head) <= lane.tail.wrapping_sub(lane.head) {
                lane.head = head;
            }
        }
    }

    /// Whether a lane (this one, if one is named) is used or to be used.
    fn has_lane(&self, address: Option<GlobalAddress>) -> bool {
        let begun = self.mail.iter().flat_map(|(_, parcels)| parcels).filter_map(|parcel| match parcel {
            Parcel::Begin(ring) => Some(*ring),
            _ => None,
        });
        let mut lanes = self.lane.map(|lane| lane.ring).into_iter().chain(self.offered).chain(begun);
        lanes.any(|ring| address.is_none_or(|address| ring.address == address))
    }

    /// Sends a short message at once, if nothing waits before it and there is room: whether it is gone.
    pub(super) fn send_now(
        &mut self,
        world: &World,
        to: Rank,
        debt: &mut u8,
        note: Note,
        body: &[u8],
    ) -> Result<bool> {
        if self.is_busy() || !world.local().is_near(to) {
            return Ok(false);
        }
        let local = world.local();
        local.check_alive(to)?;
        let mut record = Record { from: world.rank(), hungry: false, note };
        let sent = match self.lane {
            Some(lane) => {
                let mut writing = lane.ring.write(local)?;
                writing.push(&record, body)? && writing.publish()?
            }
            None if *debt < CREDIT => {
                record.hungry = *debt + 1 == CREDIT;
                let mut writing = Ring::mailbox_made(local, to)?.write_locked(local)?;
                let sent = writing.push(&record, body)? && writing.publish()?;
                *debt += u8::from(sent);
                sent
            }
            None => false,
        };
        if sent {
            world.wake(to)?;
        }
        Ok(sent)
    }

    /// Sends what can be sent. How much has moved.
    pub(super) fn advance(
        &mut self,
        world: &World,
        to: Rank,
        debt: &mut u8,
        done: &mut Results,
    ) -> Result<u64> {
        let local = world.local();
        local.check_alive(to)?;
        let near = local.is_near(to);
        let mut moved = self.reap(world, debt, done)?;
        loop {
            let now = match near {
                true => self.fill_lane(world, to, done)? + self.fill_mailbox(world, to, debt, done)?,
                false => self.post_to_lane(world, to, done)? + self.post_to_mailbox(world, to, debt)?,
            };
            moved += now;
            if now == 0 {
                return Ok(moved);
            }
        }
    }

    /// The other rank is gone, or nothing can be sent to it: every message that waits has failed. Whether it is not known what of it has
    /// come, so that nothing can be sent behind it.
    pub(super) fn fail(mut self, world: &World, error: &Error, done: &mut Results) -> bool {
        let is_torn = self.lane.is_some() || self.mail.is_some() || !self.posted.is_empty();
        let mut fail = |item: Item| drop(done.insert(item.request, Err(error.clone())));
        if let Some((posted, parcels)) = self.mail.take() {
            world.memory.forget_call(posted);
            for parcel in parcels {
                if let Parcel::Message(item) = parcel {
                    fail(item);
                }
            }
        }
        self.queue.drain(..).for_each(fail);
        self.posted.drain(..).for_each(|posted| world.memory.forget_call(posted));
        is_torn
    }

    /// The world ends: the other rank need not know how far this one has read.
    pub(super) fn close(&mut self) {
        self.control.retain(|note| matches!(note, Note::Fetched { .. }));
        self.offered = None;
    }

    /// Takes back a message that is not on its way.
    pub(super) fn withdraw(&mut self, request: u64) -> bool {
        let found = self.queue.iter().position(|item| item.request == request);
        found.and_then(|at| self.queue.remove(at)).is_some()
    }

    /// The next that goes into the mailbox.
    fn next_parcel(&mut self, debt: &mut u8) -> Option<Parcel> {
        if let Some(note) = self.control.pop_front() {
            return Some(Parcel::Control(note));
        }
        if self.lane.is_some() {
            return None;
        }
        if let Some(ring) = self.offered.take() {
            return Some(Parcel::Begin(ring));
        }
        let item = if *debt < CREDIT { self.queue.pop_front()? } else { return None };
        *debt += 1;
        Some(Parcel::Message(item))
    }

    fn put_back(&mut self, parcel: Parcel, debt: &mut u8) {
        match parcel {
            Parcel::Control(note) => self.control.push_front(note),
            Parcel::Begin(ring) => self.offered = Some(ring),
            Parcel::Message(item) => {
                *debt = debt.saturating_sub(1);
                self.queue.push_front(item);
            }
        }
    }

    /// A parcel is in the mailbox.
    fn settle(&mut self, parcel: Parcel, done: &mut Results) {
        match parcel {
            Parcel::Control(_) => {}
            Parcel::Begin(ring) => self.lane = Some(Lane { ring, tail: 0, head: 0 }),
            Parcel::Message(item) => settle(item, done),
        }
    }

    fn fill_mailbox(&mut self, world: &World, to: Rank, debt: &mut u8, done: &mut Results) -> Result<u64> {
        let Some(mut parcel) = self.next_parcel(debt) else { return Ok(0) };
        let (local, mut count) = (world.local(), 0);
        let mut writing = match Ring::mailbox_made(local, to).and_then(|ring| ring.write_locked(local)) {
            Ok(writing) => writing,
            Err(error) => {
                self.put_back(parcel, debt);
                return Err(error);
            }
        };
        loop {
            let pushed = match &parcel {
                Parcel::Message(item) => writing.push(&record(world, item.note, *debt == CREDIT), &item.body),
                Parcel::Control(note) => writing.push(&record(world, *note, false), &[]),
                Parcel::Begin(ring) => {
                    writing.push(&record(world, Note::Begin { lane: ring.address }, false), &[])
                }
            };
            match pushed {
                Ok(true) => self.settle(parcel, done),
                full => {
                    self.put_back(parcel, debt);
                    full?;
                    break;
                }
            }
            count += 1;
            match self.next_parcel(debt) {
                Some(next) => parcel = next,
                None => break,
            }
        }
        if writing.publish()? {
            world.wake(to)?;
        }
        Ok(count)
    }

    fn post_to_mailbox(&mut self, world: &World, to: Rank, debt: &mut u8) -> Result<u64> {
        if self.mail.is_some() {
            return Ok(0);
        }
        let (mut request, mut parcels, mut bytes) = (Writer::new(MAIL), VecDeque::new(), 0);
        while bytes < BATCH_BYTES {
            let Some(parcel) = self.next_parcel(debt) else { break };
            let (record, body) = match &parcel {
                Parcel::Message(item) => (record(world, item.note, *debt == CREDIT), &item.body[..]),
                Parcel::Control(note) => (record(world, *note, false), &[][..]),
                Parcel::Begin(ring) => (record(world, Note::Begin { lane: ring.address }, false), &[][..]),
            };
            request = record.write(request, body);
            bytes += record.ring_bytes();
            let is_last = matches!(parcel, Parcel::Begin(_));
            parcels.push_back(parcel);
            if is_last {
                break;
            }
        }
        let count = parcels.len() as u64;
        if count > 0 {
            match world.memory.post_call(to, COMM, request.finish()) {
                Ok(posted) => self.mail = Some((posted, parcels)),
                Err(error) => {
                    parcels.into_iter().rev().for_each(|parcel| self.put_back(parcel, debt));
                    return Err(error);
                }
            }
        }
        Ok(count)
    }

    /// Takes answers that are there: of a request to a mailbox how much of it was taken.
    fn reap(&mut self, world: &World, debt: &mut u8, done: &mut Results) -> Result<u64> {
        while let Some(first) = self.posted.front() {
            let Some(answer) = world.memory.answer_of(*first) else { break };
            self.posted.pop_front();
            answer?;
        }
        let Some((posted, mut parcels)) = self.mail.take() else { return Ok(0) };
        let Some(answer) = world.memory.answer_of(posted) else {
            self.mail = Some((posted, parcels));
            return Ok(0);
        };
        let taken = match &answer {
            Ok(reply) => reply.first_chunk().map_or(0, |count| u32::from_le_bytes(*count)) as usize,
            Err(_) => 0,
        };
        let taken = taken.min(parcels.len());
        parcels.drain(..taken).for_each(|parcel| self.settle(parcel, done));
        parcels.into_iter().rev().for_each(|parcel| self.put_back(parcel, debt));
        answer.map(|_| taken as u64)
    }
}

/// A short message that is on its way is sent; one that is lent is sent when it was fetched.
fn settle(item: Item, done: &mut Results) {
    if matches!(item.note, Note::Short { .. }) {
        done.insert(item.request, Ok(None));
    }
}

fn record(world: &World, note: Note, hungry: bool) -> Record {
    Record { from: world.rank(), hungry, note }
}
