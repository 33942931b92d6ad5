//! Doubling: in each step a member knows of twice as many others as before.

use super::operation::Reduction;
use super::traffic::{Bytes, Merge, Pieces};
use super::{Talk, Web};
use crate::{Purpose, Result};
use std::ops::Range;

impl Talk<'_, '_> {
    /// Waits for all.
    pub(super) fn doubling_barrier(&mut self, web: Web) -> Result<()> {
        for power in 0..web.rounds() {
            let (to, from) = (web.up(power), web.down(power));
            self.exchange(Some(to), Some(from), &mut Bytes { out: &[], into: &mut [] })?;
        }
        Ok(())
    }

    /// Combines elements of all, on all; the order must not matter. Those beyond the largest power of two hand theirs to others first, and
    /// get the result of them.
    pub(super) fn doubling_allreduce(
        &mut self,
        web: Web,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let (most, all) = (web.count.ilog2(), 0..data.len());
        let beyond = web.count - (1 << most);
        if web.me >= 1 << most {
            let lane = web.down(most);
            self.send(lane, data)?;
            return self.receive(lane, data);
        }
        if web.me < beyond {
            let mut traffic = Merge::new(data, [0..0, all.clone()], reduction, false);
            self.exchange(None, Some(web.up(most)), &mut traffic)?;
        }
        for power in 0..most {
            let is_behind = web.me >> power & 1 == 1;
            let lane = if is_behind { web.down(power) } else { web.up(power) };
            let mut traffic = Merge::new(data, [all.clone(), all.clone()], reduction, is_behind);
            self.exchange(Some(lane), Some(lane), &mut traffic)?;
        }
        if web.me < beyond {
            self.send(web.up(most), data)?;
        }
        Ok(())
    }

    /// Combines elements of all, on all (Rabenseifner): in each step members at half the distance part what they have and combine a half
    /// each, and then get the other halves in the same way back. The order must not matter.
    pub(super) fn halving_allreduce(
        &mut self,
        web: Web,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let (most, size) = (web.count.ilog2(), reduction.element.max(1));
        let beyond = web.count - (1 << most);
        if web.me >= 1 << most {
            let lane = web.down(most);
            self.send(lane, data)?;
            return self.receive(lane, data);
        }
        if web.me < beyond {
            let mut traffic = Merge::new(data, [0..0, 0..data.len()], reduction, false);
            self.exchange(None, Some(web.up(most)), &mut traffic)?;
        }
        let mut halvings = Vec::with_capacity(most as usize);
        let mut own = 0..data.len();
        for power in (0..most).rev() {
            let is_behind = web.me >> power & 1 == 1;
            let middle = own.start + own.len() / size / 2 * size;
            let (low, high) = (own.start..middle, middle..own.end);
            let (kept, given) = if is_behind { (high, low) } else { (low, high) };
            let lane = if is_behind { web.down(power) } else { web.up(power) };
            let mut traffic = Merge::new(data, [given.clone(), kept.clone()], reduction, is_behind);
            self.exchange(Some(lane), Some(lane), &mut traffic)?;
            halvings.push((lane, kept.clone(), given));
            own = kept;
        }
        for (lane, kept, given) in halvings.into_iter().rev() {
            let (out, into) = ([kept], [given]);
            let mut traffic = Pieces { memory: data, out: &out, into: &into, same: false };
            self.exchange(Some(lane), Some(lane), &mut traffic)?;
        }
        if web.me < beyond {
            self.send(web.up(most), data)?;
        }
        Ok(())
    }

    /// Combines elements of all members up to each, in their order.
    pub(super) fn doubling_scan(
        &mut self,
        web: Web,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        for power in 0..web.rounds() {
            let step = 1 << power;
            let to = (web.me + step < web.count).then(|| web.up(power));
            let from = (web.me >= step).then(|| web.down(power));
            let all = 0..data.len();
            let mut traffic = Merge::new(data, [all.clone(), all], reduction, true);
            self.exchange(to, from, &mut traffic)?;
        }
        Ok(())
    }

    /// Gives each member what the one before it has; the first keeps what it has.
    pub(super) fn shift(&mut self, web: Web, data: &mut [u8]) -> Result<()> {
        if web.count == 1 {
            return Ok(());
        }
        let to = (web.me + 1 < web.count).then(|| web.up(0));
        let from = (web.me > 0).then(|| web.down(0));
        let all = 0..data.len();
        let all = std::slice::from_ref(&all);
        self.exchange(to, from, &mut Pieces { memory: data, out: all, into: all, same: true })
    }

    /// Gathers the parts of all on all (Bruck): in each step as many parts come as this member has.
    pub(super) fn doubling_allgather(
        &mut self,
        web: Web,
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        for power in 0..web.rounds() {
            let step = 1 << power;
            let parts = step.min(web.count - step);
            let [out, into_pieces] = [web.me, web.me + step].map(|first| {
                let parts = (first..first + parts).map(|part| places[(part % web.count) as usize].clone());
                parts.collect::<Vec<_>>()
            });
            let mut traffic = Pieces { memory: into, out: &out, into: &into_pieces, same: false };
            self.exchange(Some(web.down(power)), Some(web.up(power)), &mut traffic)?;
        }
        Ok(())
    }

    /// A part of each for each (Bruck): what is for a member at a distance goes there by its powers of two. Takes memory for as much as
    /// there is to send.
    pub(super) fn doubling_alltoall(&mut self, web: Web, data: &[u8], into: &mut [u8]) -> Result<()> {
        let (me, count) = (web.me as usize, web.count as usize);
        let part = data.len() / count;
        let _booked = self.group.world.book(Purpose::Comm, data.len() as u64 + 16 * count as u64)?;
        let mut memory = Vec::with_capacity(data.len());
        for distance in 0..count {
            memory.extend_from_slice(&data[(me + distance) % count * part..][..part]);
        }
        for power in 0..web.rounds() {
            let parts = (0..count).filter(|distance| distance >> power & 1 == 1);
            let pieces: Vec<_> = parts.map(|distance| distance * part..(distance + 1) * part).collect();
            let mut traffic = Pieces { memory: &mut memory, out: &pieces, into: &pieces, same: true };
            self.exchange(Some(web.up(power)), Some(web.down(power)), &mut traffic)?;
        }
        for distance in 0..count {
            let from = (me + count - distance) % count;
            into[from * part..][..part].copy_from_slice(&memory[distance * part..][..part]);
        }
        Ok(())
    }
}
