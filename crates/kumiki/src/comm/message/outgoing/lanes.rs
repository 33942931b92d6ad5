//! Writing into a lane of another rank.

use super::super::record::{Note, Record, HEAD_BYTES};
use super::super::{Results, LANE};
use super::{record, settle, Out};
use crate::comm::COMM;
use crate::{Rank, Result, World};
use kumiki_mem::codec::Writer;

/// Requests to a lane on another node that may be under way at once.
const MOST_POSTED: usize = 16;

impl Out {
    /// Writes what there is room for into a lane on this node.
    pub(super) fn fill_lane(&mut self, world: &World, to: Rank, done: &mut Results) -> Result<u64> {
        let Some(lane) = self.lane.filter(|_| self.is_leaving || !self.queue.is_empty()) else {
            return Ok(0);
        };
        let (mut writing, mut count) = (lane.ring.write(world.local())?, 0);
        if self.is_leaving {
            if !writing.push(&record(world, Note::End, false), &[])? {
                return Ok(0);
            }
            (self.lane, self.is_leaving) = (None, false);
            count = 1;
        } else {
            while let Some(item) = self.queue.front() {
                if !writing.push(&record(world, item.note, false), &item.body)? {
                    break;
                }
                self.queue.pop_front().into_iter().for_each(|item| settle(item, done));
                count += 1;
            }
        }
        if writing.publish()? {
            world.wake(to)?;
        }
        Ok(count)
    }

    /// Has what there is room for written into a lane on another node.
    pub(super) fn post_to_lane(&mut self, world: &World, to: Rank, done: &mut Results) -> Result<u64> {
        let Some(mut lane) = self.lane.filter(|_| self.is_leaving || !self.queue.is_empty()) else {
            return Ok(0);
        };
        if self.posted.len() >= MOST_POSTED {
            return Ok(0);
        }
        let under_way = lane.tail.wrapping_sub(lane.head);
        let mut room = lane.ring.bytes.saturating_sub(under_way);
        let (mut records, mut items, first) = (Vec::new(), Vec::new(), lane.tail);
        let mut push = |record: Record, room: &mut u64| {
            let bytes = record.ring_bytes();
            let fits = bytes <= *room;
            if fits {
                records.push(record);
                *room -= bytes;
                lane.tail = lane.tail.wrapping_add(bytes);
            }
            fits
        };
        if self.is_leaving {
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
        let bodies = items.iter().map(|item| &item.body[..]).chain([&[][..]]);
        let request =
            records.iter().zip(bodies).fold(start, |request, (record, body)| record.write(request, body));
        match world.memory.post_call(to, COMM, request.finish()) {
            Ok(posted) => self.posted.push_back(posted),
            Err(error) => {
                items.into_iter().rev().for_each(|item| self.queue.push_front(item));
                return Err(error);
            }
        }
        self.lane = Some(lane);
        if self.is_leaving {
            (self.lane, self.is_leaving) = (None, false);
        }
        items.into_iter().for_each(|item| settle(item, done));
        Ok(records.len() as u64)
    }
}
