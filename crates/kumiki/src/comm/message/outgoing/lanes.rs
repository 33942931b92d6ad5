//! Writing into a lane of another rank.

use super::super::post::KEPT_BYTES;
use super::super::record::{Note, Record, HEAD_BYTES};
use super::super::ring::{Lap, Ring, Writing};
use super::super::{Results, LANE, LANE_LETTER, LONGEST_FAR, LONGEST_MAILED, NOT_SAID};
use super::{record, settle, Item, Out, BATCH_BYTES};
use crate::comm::spares::{Spares, LEAST_SPARE};
use crate::comm::COMM;
use crate::{Error, Purpose, Rank, Result, World};
use kumiki_mem::codec::{Reader, Writer};
use kumiki_mem::{Leeway, Local, Mark, Posted, LETTER_BYTES, LONG_LETTER_BYTES};

/// Requests to a lane on another node that may be under way at once.
const MOST_POSTED: usize = 32;

/// Buffers of long requests that are kept.
const MOST_SPARES: usize = 8;

/// A lane at the other rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) ring: Ring,
    pub(super) mark: Mark,
    pub(super) lap: Lap,
    /// Bytes that were ever written, and of which is known that the other rank has read them.
    pub(super) tail: u64,
    pub(super) head: u64,
    /// The end of it is under way.
    pub(super) has_ended: bool,
}

impl Lane {
    pub(super) fn new(ring: Ring) -> Lane {
        Lane { ring, mark: ring.mark(), lap: Lap::default(), tail: 0, head: 0, has_ended: false }
    }

    /// Begins to write into it on this node.
    #[inline]
    pub(super) fn write<'a>(&mut self, local: Local<'a>) -> Result<Writing<'a>> {
        self.ring.write_at(local, (&mut self.mark, &mut self.lap), (self.tail, self.head))
    }

    /// The other rank, on another node, says that it has read so far.
    pub(super) fn was_read_to(&mut self, head: u64) {
        // Anything else is no number that it could have, or an older one.
        if head.wrapping_sub(self.head) <= self.tail.wrapping_sub(self.head) {
            self.head = head;
        }
    }

    /// So far is it on this node.
    #[inline]
    pub(super) fn has_written(&mut self, writing: &Writing<'_>) {
        (self.tail, self.head) = (writing.tail(), writing.head());
    }
}

/// Messages that are on their way to a lane on another node: the request keeps them until it was taken.
pub(super) struct Batch {
    pub(super) posted: Posted,
    /// Where in the lane they are.
    first: u64,
    is_end: bool,
}

/// Messages that were not taken, and go again.
pub(super) struct Refused {
    pub(super) first: u64,
    pub(super) items: Vec<Item>,
    pub(super) is_end: bool,
}

impl Refused {
    /// Those of a request.
    fn of(world: &World, batch: &Batch, request: &[u8]) -> Result<Refused> {
        let mut items = Vec::new();
        let mut reader = Reader::new(request.get(LANE_HEAD_BYTES..).unwrap_or_default());
        while !batch.is_end && !reader.is_empty() {
            let (record, body) = Record::read(0, &mut reader)?;
            let request = match record.note {
                Note::Lent { number, .. } => number,
                // It is sent, as far as anybody knows.
                _ => 0,
            };
            // The request gave its own back just now. Where that was not enough it is kept all the same: it is sent, as far as anybody knows.
            let booked = world.memory.book(Purpose::Comm, KEPT_BYTES + body.len() as u64).ok();
            items.push(Item { request, note: record.note, body: body.to_vec(), _booked: booked });
        }
        Ok(Refused { first: batch.first, items, is_end: batch.is_end })
    }
}

/// Bytes of a request before its records: what it is, the lane, the place there, and whether its sender is hungry.
const LANE_HEAD_BYTES: usize = 1 + 8 + 8 + 1;
/// The same of a letter, which says how far its sender has read instead.
const LETTER_HEAD_BYTES: usize = 1 + 8 + 8 + 8;

impl Out {
    /// The lane, if something is to be written into it.
    fn lane_to_fill(&mut self) -> Option<Lane> {
        let lane = self.lane.filter(|lane| !lane.has_ended)?;
        let next = self.queue.front().map(|item| Record { from: 0, hungry: false, note: item.note });
        // One that is longer than what is long in this lane, because an earlier lane was longer, goes through the mailbox: nobody says
        // when there is room for it.
        let longest = HEAD_BYTES + lane.ring.longest_body();
        self.is_leaving |= next.is_some_and(|next| next.ring_bytes() > longest);
        (self.is_leaving || next.is_some()).then_some(lane)
    }

    /// Writes what there is room for into a lane on this node.
    pub(super) fn fill_lane(&mut self, world: &World, to: Rank, done: &mut Results) -> Result<u64> {
        let Some(mut lane) = self.lane_to_fill() else { return Ok(0) };
        let mut writing = lane.write(world.local())?;
        let (mut count, mut pushed) = (0, Ok(true));
        if self.is_leaving {
            if !writing.push(&record(world, Note::End, false), &[])? {
                return Ok(0);
            }
            (self.lane, self.is_leaving) = (None, false);
            count = 1;
        } else {
            while let Some(item) = self.queue.front() {
                pushed = writing.push(&record(world, item.note, false), &item.body);
                if pushed != Ok(true) {
                    break;
                }
                self.queue.pop_front().into_iter().for_each(|mut item| settle(&mut item, done));
                count += 1;
            }
        }
        if let Some(lane) = &mut self.lane {
            lane.has_written(&writing);
        }
        // What was written counts, whatever came behind it.
        if writing.publish()? {
            world.wake(to)?;
        }
        pushed.map(|_| count)
    }

    /// Has what there is room for written into a lane on another node.
    pub(super) fn post_to_lane(
        &mut self,
        world: &World,
        to: Rank,
        done: &mut Results,
        spares: &mut Spares,
    ) -> Result<u64> {
        if self.posted.len() >= MOST_POSTED || !self.refused.is_empty() {
            return Ok(0);
        }
        let Some(mut lane) = self.lane_to_fill() else { return Ok(0) };
        let mut room = lane.ring.room(lane.tail, lane.head);
        let (mut records, mut items, first, is_end) = (Vec::new(), Vec::new(), lane.tail, self.is_leaving);
        let mut push = |record: Record, room: &mut u64| {
            let bytes = record.ring_bytes();
            let fits = bytes <= *room && lane.tail.wrapping_sub(first) < BATCH_BYTES;
            if fits {
                records.push(record);
                *room -= bytes;
                lane.tail = lane.tail.wrapping_add(bytes);
            }
            fits
        };
        if is_end {
            push(record(world, Note::End, false), &mut room);
        } else {
            while let Some(item) =
                self.queue.front().filter(|item| push(record(world, item.note, false), &mut room))
            {
                let _ = item;
                items.extend(self.queue.pop_front());
            }
        }
        if records.is_empty() {
            return Ok(0);
        }
        let bodies = items.iter().map(|item: &Item| &item.body[..]).chain([&[][..]]);
        let posted = self.post_records(
            world,
            to,
            (Lane { has_ended: is_end, ..lane }, first),
            spares,
            records.iter().zip(bodies),
        );
        match posted {
            Ok(()) => items.iter_mut().for_each(|item| settle(item, done)),
            Err(error) => {
                items.into_iter().rev().for_each(|item| self.queue.push_front(item));
                return Err(error);
            }
        }
        self.is_leaving &= !is_end;
        Ok(records.len() as u64)
    }

    /// Has records written into a lane on another node, from a place on; the lane is as it is behind them.
    fn post_records<'a>(
        &mut self,
        world: &World,
        to: Rank,
        (lane, first): (Lane, u64),
        spares: &mut Spares,
        records: impl Iterator<Item = (&'a Record, &'a [u8])>,
    ) -> Result<()> {
        let room = lane.ring.room(lane.tail, lane.head);
        let hungry = room < HEAD_BYTES + lane.ring.longest_body().min(LONGEST_FAR);
        // Each of them has its length, and few are many.
        let bytes = lane.tail.wrapping_sub(first) as usize;
        let start = Writer::in_buffer(LANE, spares.take(bytes), LANE_HEAD_BYTES + bytes + bytes / 4);
        let start = start.long(lane.ring.address.bits()).long(first).flag(hungry);
        let request = records.fold(start, |request, (record, body)| record.write(request, body));
        let is_end = lane.has_ended;
        // Nobody waits for the answer, but to the end of a lane. Where there is only one, letters may follow when it is there.
        let leeway = if is_end || self.posted.is_empty() { Leeway::Short } else { Leeway::Long };
        let posted = world.memory.try_to_post_call(to, COMM, request.finish(), leeway)?;
        self.posted.push_back(Batch { posted, first, is_end });
        self.lane = Some(lane);
        Ok(())
    }

    /// Has a message written into a lane on another node at once, if nothing waits before it and there is room. Nothing if it is not so.
    pub(in super::super) fn post_now(
        &mut self,
        world: &World,
        to: Rank,
        (spares, news): (&mut Spares, &mut Option<u64>),
        (note, body): (Note, &[u8]),
    ) -> Option<Result<bool>> {
        let waits = !self.control.is_empty() || !self.queue.is_empty() || self.offered.is_some();
        self.lane.filter(|lane| !lane.has_ended && !self.is_leaving)?;
        if waits || !self.refused.is_empty() || self.pause.until_ns != 0 {
            return None;
        }
        let record = record(world, note, false);
        match self.write_letter(world, to, (spares, news), (&record, body)) {
            Ok(false) => {}
            sent => return Some(sent),
        }
        // Answers that were taken may have changed everything.
        if !self.queue.is_empty() || !self.refused.is_empty() || self.pause.until_ns != 0 {
            return None;
        }
        let mut lane = self.lane.filter(|lane| !lane.has_ended && !self.is_leaving)?;
        let first = lane.tail;
        let longest = HEAD_BYTES + lane.ring.longest_body();
        let has_room = |lane: &Lane| record.ring_bytes() <= lane.ring.room(lane.tail, lane.head).min(longest);
        // What is long gives its memory back soon.
        if self.posted.len() >= MOST_POSTED / 2 || body.len() >= LEAST_SPARE || !has_room(&lane) {
            match self.reap_lane(world, to, spares) {
                Ok(_) if self.posted.len() >= MOST_POSTED || self.pause.until_ns != 0 => return None,
                // What was refused goes first.
                Ok(_) if !self.queue.is_empty() || !self.refused.is_empty() => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        lane.head = self.lane.map_or(lane.head, |lane| lane.head);
        if !has_room(&lane) {
            return None;
        }
        lane.tail = lane.tail.wrapping_add(record.ring_bytes());
        let alive = world.local().check_alive(to);
        let records = [(&record, body)].into_iter();
        match alive.and_then(|()| self.post_records(world, to, (lane, first), spares, records)) {
            Err(Error::OutOfMemory { .. }) => {
                // The long way asks again, or says so.
                spares.clear();
                None
            }
            posted => Some(posted.map(|()| true)),
        }
    }

    /// Has a message written into a lane on another node by a letter, if that can go at once: whether it has. The `news` of how far this rank has read the
    /// other's lane go with it, and are taken then. Nobody answers: the other rank says by itself how far it has read, with its own letters or whenever that is
    /// half of the lane, and nothing is longer than that.
    fn write_letter(
        &mut self,
        world: &World,
        to: Rank,
        (spares, news): (&mut Spares, &mut Option<u64>),
        (record, body): (&Record, &[u8]),
    ) -> Result<bool> {
        let bytes = LETTER_HEAD_BYTES + record.ring_bytes() as usize + 8;
        if bytes > LONG_LETTER_BYTES {
            return Ok(false);
        }
        self.check_letters(world, to)?;
        // What is under way to the lane may have to go again, and before this. Of much of it some is.
        if self.posted.len() == 1 {
            self.reap_lane(world, to, spares)?;
        }
        let is_next = self.posted.is_empty() && self.queue.is_empty() && !self.is_leaving;
        let open = self.lane.as_mut().filter(|lane| is_next && !lane.has_ended);
        let Some(lane) = open else { return Ok(false) };
        let (first, longest) = (lane.tail, HEAD_BYTES + lane.ring.longest_body());
        if record.ring_bytes() > lane.ring.room(first, lane.head).min(longest) {
            return Ok(false);
        }
        let name = lane.ring.address.bits();
        let is_short = bytes <= LETTER_BYTES;
        let buffer = if is_short { spares.take_letter() } else { spares.take(bytes) };
        let start = Writer::in_buffer(LANE_LETTER, buffer, bytes);
        let letter = record.write(start.long(name).long(first).long(news.unwrap_or(NOT_SAID)), body).finish();
        let sent = world.memory.send_letter(to, COMM, name, &letter);
        match is_short {
            true => spares.give_letter(world, letter),
            false => spares.keep(world, letter, MOST_SPARES),
        }
        if sent == Ok(true) {
            *news = None;
            lane.tail = first.wrapping_add(record.ring_bytes());
        }
        sent
    }

    /// Fails if a letter to the lane came back.
    pub(in super::super) fn check_letters(&self, world: &World, to: Rank) -> Result<()> {
        let lane = self.lane.map(|lane| lane.ring.address.bits());
        lane.and_then(|lane| world.memory.refused_letter(lane, |from| from == to)).map_or(Ok(()), Err)
    }

    /// Takes answers of a lane on another node that are there. What there was no memory for goes again, in its order, when all answers are
    /// there: what came behind it was not taken either, because it was not for that place.
    pub(super) fn reap_lane(&mut self, world: &World, to: Rank, spares: &mut Spares) -> Result<u64> {
        self.check_letters(world, to)?;
        let mut moved = 0;
        let answer_of = |batch: &Batch| world.memory.answer_and_request_of(batch.posted);
        while let Some((answer, request)) = self.posted.front().and_then(answer_of) {
            let Some(batch) = self.posted.pop_front() else { break };
            match answer {
                Ok(reply) if self.refused.is_empty() => {
                    self.pause = Default::default();
                    spares.keep(world, request, MOST_SPARES);
                    if let (Some(lane), Some(head)) = (&mut self.lane, reply.first_chunk()) {
                        lane.was_read_to(u64::from_le_bytes(*head));
                    }
                    if batch.is_end {
                        self.lane = None;
                    }
                    moved += 1;
                }
                Err(Error::OutOfMemory { .. }) => {
                    self.refused.push_back(Refused::of(world, &batch, &request)?);
                }
                Ok(_) | Err(Error::Misuse(_)) if !self.refused.is_empty() => {
                    self.refused.push_back(Refused::of(world, &batch, &request)?);
                }
                answer => {
                    answer?;
                }
            }
        }
        if self.posted.is_empty() && !self.refused.is_empty() {
            self.take_refused_back();
            self.pause.begin(world);
            moved += 1;
        }
        Ok(moved)
    }

    fn take_refused_back(&mut self) {
        if let (Some(lane), Some(batch)) = (&mut self.lane, self.refused.front()) {
            (lane.tail, lane.has_ended) = (batch.first, false);
        }
        for batch in self.refused.drain(..).rev() {
            // For a long one there may not be memory for long: it is fetched.
            let is_long = batch.items.iter().any(|item| item.body.len() as u64 > LONGEST_MAILED);
            self.is_leaving |= batch.is_end || is_long;
            batch.items.into_iter().rev().for_each(|item| self.queue.push_front(item));
        }
    }
}
