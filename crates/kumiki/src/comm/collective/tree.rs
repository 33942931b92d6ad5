//! Trees over lanes: a member has those behind it at distances of powers of two as children, from the root on. A few bytes go from
//! the root straight to a few.

use super::lanes::differs;
use super::operation::{Aligned, Reduction};
use super::traffic::{Bytes, Merge};
use super::wide::WIDE_PIECE;
use super::{Talk, Web};
use crate::Result;
use std::ops::Range;

/// So much goes from the root straight to all, where there are lanes to all: beyond it the root would be busy while others wait.
const STAR_BYTES: usize = 1024;

/// The place of a member in the tree of a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// How many behind the root.
    behind: u32,
    count: u32,
    /// Children are at distances of powers below this; the parent is at this one.
    pub(super) power: u32,
}

impl Place {
    pub(super) fn new(web: Web, root: u32) -> Place {
        let behind = (web.me + web.count - root) % web.count;
        let power = if behind == 0 { web.rounds() } else { behind.trailing_zeros() };
        Place { behind, count: web.count, power }
    }

    pub(super) fn is_root(self) -> bool {
        self.behind == 0
    }

    /// The powers at which there are children.
    pub(super) fn children(self) -> impl DoubleEndedIterator<Item = u32> {
        (0..self.power).filter(move |power| self.behind + (1 << power) < self.count)
    }

    /// Those in the tree of the child at a power, as they are behind the root.
    fn tree_of(self, power: u32) -> Range<u32> {
        let first = self.behind + (1 << power);
        first..(first + (1 << power)).min(self.count)
    }
}

impl Talk<'_, '_> {
    /// Bytes of whole elements, of so many bytes, that go together down or up a tree, so that its levels work at once.
    pub(super) fn chunk(&self, bytes: usize, element: usize) -> usize {
        let whole = if self.group.goes_wide(bytes) { WIDE_PIECE } else { 2 * self.piece_bytes() };
        (whole / element.max(1)).max(1) * element.max(1)
    }

    pub(super) fn send(&mut self, lane: usize, bytes: &[u8]) -> Result<()> {
        self.exchange(Some(lane), None, &mut Bytes { out: bytes, into: &mut [] })
    }

    pub(super) fn receive(&mut self, lane: usize, into: &mut [u8]) -> Result<()> {
        self.exchange(None, Some(lane), &mut Bytes { out: &[], into })
    }

    /// Bytes of the root go to all.
    pub(super) fn tree_broadcast(&mut self, web: Web, root: u32, data: &mut [u8]) -> Result<()> {
        let place = Place::new(web, root);
        if self.group.is_read(data.len()) {
            let parent = (!place.is_root()).then(|| web.down(place.power));
            let children: Vec<_> = place.children().rev().map(|power| web.up(power)).collect();
            return self.passed_on(parent, &children, data);
        }
        if web.reaches_all() && data.len() <= STAR_BYTES {
            return self.star_broadcast(web, place.behind, data);
        }
        let chunk = self.chunk(data.len(), 1);
        for range in chunks(data.len(), chunk) {
            if !place.is_root() {
                self.receive(web.down(place.power), &mut data[range.clone()])?;
            }
            for power in place.children().rev() {
                self.send(web.up(power), &data[range.clone()])?;
            }
        }
        Ok(())
    }

    /// A few bytes of the root go to a few, straight to each: nobody waits for somebody who waits.
    fn star_broadcast(&mut self, web: Web, behind: u32, data: &mut [u8]) -> Result<()> {
        if behind == 0 {
            let lanes = (1..web.count).filter_map(|distance| web.at_distance(distance));
            return lanes.map(|[to, _]| to).try_for_each(|to| self.send(to, data));
        }
        web.at_distance(behind).map_or(Ok(()), |[_, from]| self.receive(from, data))
    }

    /// Elements of all come together on the root; the others keep theirs. If the order matters they come together on the first member,
    /// and go on from there.
    pub(super) fn tree_reduce(
        &mut self,
        web: Web,
        root: u32,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let top = if reduction.commutes { root } else { 0 };
        let place = Place::new(web, top);
        let chunk = self.chunk(data.len(), reduction.element);
        let _booked = self.scratch(chunk.min(data.len()))?;
        let mut kept = Aligned::default();
        for range in chunks(data.len(), chunk) {
            kept.resize(range.len());
            kept.bytes_mut().copy_from_slice(&data[range.clone()]);
            for power in place.children() {
                let mut traffic = Merge::new(kept.bytes_mut(), [0..0, 0..range.len()], reduction, false);
                self.exchange(None, Some(web.up(power)), &mut traffic)?;
            }
            if !place.is_root() {
                self.send(web.down(place.power), kept.bytes())?;
            }
            if top != root {
                self.carry(web, root, kept.bytes_mut())?;
            }
            if web.me == root {
                data[range].copy_from_slice(kept.bytes());
            }
        }
        Ok(())
    }

    /// Bytes of the first member go to another one, by way of those whose numbers are made of its lowest bits.
    fn carry(&mut self, web: Web, to: u32, bytes: &mut [u8]) -> Result<()> {
        let mut at = 0;
        for power in (0..web.rounds()).filter(|power| to >> power & 1 == 1) {
            if web.me == at {
                self.send(web.up(power), bytes)?;
            }
            at += 1 << power;
            if web.me == at {
                self.receive(web.down(power), bytes)?;
            }
        }
        Ok(())
    }

    /// Bytes of all come to the root, each to its place. The places are known to the root only.
    pub(super) fn tree_gather(
        &mut self,
        web: Web,
        root: u32,
        data: &[u8],
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        let place = Place::new(web, root);
        if !place.is_root() {
            self.send(web.down(place.power), data)?;
            for power in place.children() {
                for _ in place.tree_of(power) {
                    self.relay(web.up(power), web.down(place.power))?;
                }
            }
            return Ok(());
        }
        let own = &places[web.me as usize];
        if own.len() != data.len() {
            return Err(differs(format!("the root has {} bytes instead of {}", data.len(), own.len())));
        }
        into[own.clone()].copy_from_slice(data);
        for power in place.children() {
            for behind in place.tree_of(power) {
                let range = places[((root + behind) % web.count) as usize].clone();
                self.receive(web.up(power), &mut into[range])?;
            }
        }
        Ok(())
    }

    /// Bytes of the root go to all, to each its own.
    pub(super) fn tree_scatter(
        &mut self,
        web: Web,
        root: u32,
        data: &[u8],
        places: &[Range<usize>],
        into: &mut [u8],
    ) -> Result<()> {
        let place = Place::new(web, root);
        if !place.is_root() {
            self.receive(web.down(place.power), into)?;
            for power in place.children() {
                for _ in place.tree_of(power) {
                    self.relay(web.down(place.power), web.up(power))?;
                }
            }
            return Ok(());
        }
        let own = &data[places[web.me as usize].clone()];
        if own.len() != into.len() {
            return Err(differs(format!("the root takes {} bytes instead of {}", into.len(), own.len())));
        }
        into.copy_from_slice(own);
        for power in place.children() {
            for behind in place.tree_of(power) {
                let range = places[((root + behind) % web.count) as usize].clone();
                self.send(web.up(power), &data[range])?;
            }
        }
        Ok(())
    }
}

/// Ranges of at most so many; one that is empty if there is nothing.
pub(super) fn chunks(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len.max(1)).step_by(most).map(move |start| start..(start + most).min(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_in_the_tree_of_one_child_and_has_one_parent() {
        for count in 1..40 {
            for root in [0, count / 2, count - 1] {
                let mut parents = vec![0; count as usize];
                for me in 0..count {
                    let place = Place::new(Web { me, count, first: 0 }, root);
                    let mut below: Vec<u32> = vec![place.behind];
                    for power in place.children() {
                        parents[((me + (1 << power)) % count) as usize] += 1;
                        below.extend(place.tree_of(power));
                    }
                    assert!(below.windows(2).all(|pair| pair[1] == pair[0] + 1), "in order: {below:?}");
                    assert!(!place.is_root() || below.len() == count as usize);
                }
                assert_eq!(parents.iter().sum::<u32>(), count - 1);
                assert!(parents
                    .iter()
                    .enumerate()
                    .all(|(me, parents)| *parents == u32::from(me as u32 != root)));
            }
        }
        assert!(chunks(0, 4).eq(std::iter::once(0..0)));
        assert_eq!(chunks(9, 4).collect::<Vec<_>>(), [0..4, 4..8, 8..9]);
    }
}
