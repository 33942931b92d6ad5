//! Writing into a lane of another rank.

use super::super::record::{Note, Record, HEAD_BYTES};
use super::super::ring::{Ring, Writing};
use super::super::{Results, LANE};
use super::{record, settle, Item, Out, BATCH_BYTES};
use crate::comm::COMM;
use crate::{Error, Rank, Result, World};
use kumiki_mem::codec::Writer;
use kumiki_mem::{Local, Mark, Posted};

/// Requests to a lane on another node that may be under way at once.
const MOST_POSTED: usize = 16;

/// A lane at the other rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) ring: Ring,
    pub(super) mark: Mark,
    /// Bytes that were ever written, and of which is known that the other rank has read them.
    pub(super) tail: u64,
    pub(super) head: u64,
    /// The end of it is under way.
    pub(super) has_ended: bool,
}

impl Lane {
    pub(super) fn new(ring: Ring) -> Lane {
        Lane { ring, mark: ring.mark(), tail: 0, head: 0, has_ended: false }
    }

    /// Begins to write into it on this node.
    #[inline]
    pub(super) fn write<'a>(&mut self, local: Local<'a>) -> Result<Writing<'a>> {
        self.ring.write_at(local, &mut self.mark, (self.tail, self.head))
    }

    /// So far is it on this node.
    #[inline]
    pub(super) fn has_written(&mut self, writing: &Writing<'_>) {
        (self.tail, self.head) = (writing.tail(), writing.head());
    }
}

/// Messages that are on their way to a lane on another node: they are kept until it has taken them.
pub(super) struct Batch {
    pub(super) posted: Posted,
    /// Where in the lane they are.
    pub(super) first: u64,
    pub(super) items: Vec<Item>,
    pub(super) is_end: bool,
}

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
    pub(super) fn post_to_lane(&mut self, world: &World, to: Rank, done: &mut Results) -> Result<u64> {
        if self.posted.len() >= MOST_POSTED || !self.refused.is_empty() {
            return Ok(0);
        }
        let Some(mut lane) = self.lane_to_fill() else { return Ok(0) };
        let under_way = lane.tail.wrapping_sub(lane.head);
        let mut room = lane.ring.bytes.saturating_sub(under_way);
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
        let hungry = room < HEAD_BYTES + lane.ring.longest_body();
        let start = Writer::new(LANE).long(lane.ring.address.bits()).long(first).flag(hungry);
        let bodies = items.iter().map(|item: &Item| &item.body[..]).chain([&[][..]]);
        let request =
            records.iter().zip(bodies).fold(start, |request, (record, body)| record.write(request, body));
        match world.memory.try_to_post_call(to, COMM, request.finish()) {
            Ok(posted) => {
                items.iter_mut().for_each(|item| settle(item, done));
                self.posted.push_back(Batch { posted, first, items, is_end });
            }
            Err(error) => {
                items.into_iter().rev().for_each(|item| self.queue.push_front(item));
                return Err(error);
            }
        }
        self.lane = Some(Lane { has_ended: is_end, ..lane });
        self.is_leaving &= !is_end;
        Ok(records.len() as u64)
    }

    /// Takes answers of a lane on another node that are there. What there was no memory for goes again, in its order, when all answers are
    /// there: what came behind it was not taken either, because it was not for that place.
    pub(super) fn reap_lane(&mut self, world: &World) -> Result<u64> {
        let mut moved = 0;
        while let Some(answer) = self.posted.front().and_then(|batch| world.memory.answer_of(batch.posted)) {
            let Some(batch) = self.posted.pop_front() else { break };
            match answer {
                Ok(_) if self.refused.is_empty() => {
                    self.pause = Default::default();
                    if batch.is_end {
                        self.lane = None;
                    }
                    moved += 1;
                }
                Err(Error::OutOfMemory { .. }) => self.refused.push_back(batch),
                Ok(_) | Err(Error::Misuse(_)) if !self.refused.is_empty() => self.refused.push_back(batch),
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
            self.is_leaving |= batch.is_end;
            batch.items.into_iter().rev().for_each(|item| self.queue.push_front(item));
        }
    }
}
