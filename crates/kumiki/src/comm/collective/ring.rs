//! Rings: each member gives to the one behind it what it got from the one before it. Where there are lanes from all to all, what need not be
//! combined on its way goes straight to all at the same time.

use super::direct::disjoint;
use super::lanes::Exchange;
use super::operation::Reduction;
use super::traffic::{Bytes, Merge, Pieces};
use super::tree::chunks;
use super::wide::MOST_WIDE;
use super::{Talk, Web};
use crate::Result;
use std::ops::Range;

impl Talk<'_, '_> {
    /// Bytes of the root go from member to member.
    pub(super) fn ring_broadcast(&mut self, web: Web, root: u32, data: &mut [u8]) -> Result<()> {
        let behind = (web.me + web.count - root) % web.count;
        if self.group.is_read(data.len()) {
            let next = (behind + 1 < web.count).then(|| web.up(0));
            return self.passed_on((behind > 0).then(|| web.down(0)), next.as_slice(), data);
        }
        let chunk = self.chunk(data.len(), 1);
        for range in chunks(data.len(), chunk) {
            if behind > 0 {
                self.receive(web.down(0), &mut data[range.clone()])?;
            }
            if behind + 1 < web.count {
                self.send(web.up(0), &data[range])?;
            }
        }
        Ok(())
    }

    /// Each part is combined while it goes round, and ends on the member of its number; the order must not matter.
    pub(super) fn ring_reduce_scatter(
        &mut self,
        web: Web,
        data: &mut [u8],
        parts: &[Range<usize>],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let count = web.count;
        for step in 1..count {
            let part = |back: u32| parts[((web.me + count - back) % count) as usize].clone();
            let mut traffic = Merge::new(data, [part(step), part((step + 1) % count)], reduction, true);
            self.exchange(Some(web.up(0)), Some(web.down(0)), &mut traffic)?;
        }
        Ok(())
    }

    /// The parts of all go round, until all have them; or, where there are few, and a lane to every one, straight to all.
    pub(super) fn ring_allgather(
        &mut self,
        web: Web,
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        let count = web.count;
        // More would take all the lanes for what is long, and leave none to other calls.
        if web.reaches_all() && web.count as usize <= MOST_WIDE {
            let mut parts = disjoint(into, places);
            let own = &*std::mem::take(&mut parts[web.me as usize]);
            return self.swap_all(web, |_| own, parts);
        }
        for step in 1..count {
            let part = |back: u32| [places[((web.me + count - back) % count) as usize].clone()];
            let (out, comes) = (part(step - 1), part(step));
            let mut traffic = Pieces { memory: into, out: &out, into: &comes, same: false };
            self.exchange(Some(web.up(0)), Some(web.down(0)), &mut traffic)?;
        }
        Ok(())
    }

    /// Combines elements of all, on all; the order must not matter.
    pub(super) fn ring_allreduce(
        &mut self,
        web: Web,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let size = reduction.element.max(1);
        let parts = split(data.len() / size, web.count).map(|part| part.start * size..part.end * size);
        let parts: Vec<_> = parts.collect();
        self.ring_reduce_scatter(web, data, &parts, reduction)?;
        self.ring_allgather(web, data, &parts)
    }
}

impl Web {
    /// The lanes to the member so many behind this one and from the one so many before it, if there are such.
    pub(super) fn at_distance(self, distance: u32) -> Option<[usize; 2]> {
        let back = self.count - distance;
        match (distance.is_power_of_two(), back.is_power_of_two()) {
            (true, _) => Some([self.up(distance.ilog2()), self.down(distance.ilog2())]),
            (_, true) => Some([self.down(back.ilog2()), self.up(back.ilog2())]),
            _ => None,
        }
    }

    /// Whether there is a lane to every member. The same on all.
    pub(super) fn reaches_all(self) -> bool {
        (1..self.count).all(|distance| self.at_distance(distance).is_some())
    }
}

impl Talk<'_, '_> {
    /// A part of each for each, where there is a lane to every member: all go straight there.
    pub(super) fn ring_alltoall(&mut self, web: Web, data: &[u8], into: &mut [u8]) -> Result<()> {
        let (me, count) = (web.me as usize, web.count as usize);
        let part = data.len() / count;
        let places: Vec<_> = (0..count).map(|member| member * part..(member + 1) * part).collect();
        let mut parts = disjoint(into, &places);
        parts[me].copy_from_slice(&data[places[me].clone()]);
        self.swap_all(web, |member| &data[places[member].clone()], parts)
    }

    /// Each gives something to each other one and takes its part from it, all at the same time, where there is a lane to every member.
    fn swap_all<'a>(
        &mut self,
        web: Web,
        out: impl Fn(usize) -> &'a [u8],
        mut parts: Vec<&mut [u8]>,
    ) -> Result<()> {
        let (me, count) = (web.me as usize, web.count as usize);
        let mut exchanges = Vec::with_capacity(count);
        for distance in 1..count {
            let Some([to, from]) = web.at_distance(distance as u32) else { continue };
            let into = std::mem::take(&mut parts[(me + count - distance) % count]);
            let traffic = Bytes { out: out((me + distance) % count), into };
            exchanges.push((Exchange::new(Some(to), Some(from), &traffic), traffic));
        }
        loop {
            // All go on; what the first that is not over needs is waited for.
            let (mut needs, mut at) = (None, 0);
            while let Some((exchange, traffic)) = exchanges.get_mut(at) {
                match self.advance(exchange, traffic)? {
                    Some(more) => (needs, at) = (needs.or(Some(more)), at + 1),
                    None => drop(exchanges.remove(at)),
                }
            }
            match needs {
                Some(needs) => self.wait(needs)?,
                None => return Ok(()),
            }
        }
    }
}

/// So many elements in parts that differ by at most one.
pub(super) fn split(len: usize, parts: u32) -> impl Iterator<Item = Range<usize>> {
    let parts = parts as usize;
    let start = move |part: usize| part * (len / parts) + part.min(len % parts);
    (0..parts).map(move |part| start(part)..start(part + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_are_almost_alike() {
        for (len, parts) in [(0, 3), (2, 3), (10, 3), (16, 4), (7, 1)] {
            let all: Vec<_> = split(len, parts).collect();
            assert_eq!((all[0].start, all[parts as usize - 1].end), (0, len));
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(all
                .iter()
                .all(|part| part.len() == len / parts as usize || part.len() == len / parts as usize + 1));
        }
    }
}
