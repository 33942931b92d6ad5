//! Writing into the mailbox of another rank.

use super::super::record::Note;
use super::super::ring::Ring;
use super::super::{Results, CREDIT, MAIL};
use super::lanes::Lane;
use super::{record, settle, Item, Out, BATCH_BYTES};
use crate::comm::COMM;
use crate::{Error, Rank, Result, World};
use kumiki_mem::codec::Writer;
use kumiki_mem::Leeway;
use std::collections::VecDeque;

/// What goes into a mailbox.
pub(super) enum Parcel {
    Control(Note),
    Begin(Ring),
    Message(Item),
}

impl Parcel {
    fn note(&self) -> Note {
        match self {
            Parcel::Control(note) => *note,
            Parcel::Begin(ring) => Note::Begin { lane: ring.address },
            Parcel::Message(item) => item.note,
        }
    }

    fn body(&self) -> &[u8] {
        match self {
            Parcel::Message(item) => &item.body,
            _ => &[],
        }
    }

    /// Whether its sender can send no more behind it.
    fn is_hungry(&self, debt: u8) -> bool {
        matches!(self, Parcel::Message(_)) && debt == CREDIT
    }
}

impl Out {
    /// The next that goes into the mailbox.
    fn next_parcel(&mut self, debt: &mut u8) -> Option<Parcel> {
        if let Some(note) = self.control.pop_front() {
            return Some(Parcel::Control(note));
        }
        // Messages behind a lane go when all of it has come.
        if self.lane.is_some() {
            return None;
        }
        if let Some(ring) = self.offered.take() {
            return Some(Parcel::Begin(ring));
        }
        if *debt >= CREDIT || self.has_to_lend() {
            return None;
        }
        let item = self.queue.pop_front()?;
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
            Parcel::Begin(ring) => self.lane = Some(Lane::new(ring)),
            Parcel::Message(mut item) => settle(&mut item, done),
        }
    }

    pub(super) fn fill_mailbox(
        &mut self,
        world: &World,
        to: Rank,
        debt: &mut u8,
        done: &mut Results,
    ) -> Result<u64> {
        let Some(mut parcel) = self.next_parcel(debt) else { return Ok(0) };
        let (local, mut count, mut failed) = (world.local(), 0, None);
        let mut writing = match Ring::mailbox_made(local, to).and_then(|ring| ring.write_briefly(local)) {
            Ok(Some(writing)) => writing,
            // Somebody else holds it for longer: it is tried again.
            held => {
                self.put_back(parcel, debt);
                self.pause.begin(world);
                return held.map(|_| 0);
            }
        };
        self.pause = Default::default();
        loop {
            match writing.push(&record(world, parcel.note(), parcel.is_hungry(*debt)), parcel.body()) {
                Ok(true) => self.settle(parcel, done),
                full => {
                    self.put_back(parcel, debt);
                    failed = full.err();
                    break;
                }
            }
            count += 1;
            match self.next_parcel(debt) {
                Some(next) => parcel = next,
                None => break,
            }
        }
        // What was written counts, whatever came behind it.
        if writing.publish()? {
            world.wake(to)?;
        }
        failed.map_or(Ok(count), Err)
    }

    pub(super) fn post_to_mailbox(&mut self, world: &World, to: Rank, debt: &mut u8) -> Result<u64> {
        if self.mail.is_some() {
            return Ok(0);
        }
        let (mut request, mut parcels, mut bytes) = (Writer::new(MAIL), VecDeque::new(), 0);
        while bytes < BATCH_BYTES {
            let Some(parcel) = self.next_parcel(debt) else { break };
            let record = record(world, parcel.note(), parcel.is_hungry(*debt));
            request = record.write(request, parcel.body());
            bytes += record.ring_bytes();
            let is_last = matches!(parcel, Parcel::Begin(_));
            parcels.push_back(parcel);
            if is_last {
                break;
            }
        }
        let count = parcels.len() as u64;
        if count > 0 {
            match world.memory.try_to_post_call(to, COMM, request.finish(), Leeway::Short) {
                Ok(posted) => self.mail = Some((posted, parcels)),
                Err(error) => {
                    parcels.into_iter().rev().for_each(|parcel| self.put_back(parcel, debt));
                    return Err(error);
                }
            }
        }
        Ok(count)
    }

    /// Takes the answer to the request that is under way, if it is there: how much of it was taken.
    pub(in super::super) fn reap_mail(
        &mut self,
        world: &World,
        debt: &mut u8,
        done: &mut Results,
    ) -> Result<u64> {
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
        let had_lane = self.lane.is_some();
        parcels.drain(..taken).for_each(|parcel| self.settle(parcel, done));
        if let Some(lane) = self.lane.filter(|_| !had_lane) {
            // What came back from an earlier lane at the same place is not about this one.
            while world.memory.refused_letter(lane.ring.address.bits(), |_| true).is_some() {}
        }
        match &answer {
            Ok(_) if parcels.is_empty() => self.pause = Default::default(),
            // There was no room in the mailbox, or no memory for the request.
            Ok(_) | Err(Error::OutOfMemory { .. }) => self.pause.begin(world),
            // What it does not want to hear is not said again.
            Err(_) => parcels.retain(|parcel| !matches!(parcel, Parcel::Control(_))),
        }
        parcels.into_iter().rev().for_each(|parcel| self.put_back(parcel, debt));
        match answer {
            Ok(_) | Err(Error::OutOfMemory { .. }) => Ok(taken as u64),
            Err(error) => Err(error),
        }
    }
}
