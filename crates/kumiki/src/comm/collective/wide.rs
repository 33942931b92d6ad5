//! Wide rings: what is long between nodes comes in few pieces.
//!
//! The ring of a lane in the block of a member is short. Who is to receive on a lane of another node what is longer makes a wide ring for
//! it, outside of its block, and tells the sender, which does not wait for that: from some piece on all pieces of the lane go there. Where
//! there is no memory for it, or where there are enough, there is none, and nobody misses it.
//!
//! Only the owner touches a wide ring, with what others have it do: it goes when the block is closed.

use super::block::{Request, OFFERED_AT, WIDE_AT, WIDE_FROM_AT};
use super::lanes::Lane;
use super::{Group, Talk, LONG_BYTES};
use crate::{Purpose, Region, Result};
use kumiki_mem::Span;

/// Bytes of a piece in a wide ring.
pub(super) const WIDE_PIECE: usize = 32 << 10;
/// Bytes of a wide ring: some pieces.
pub(super) const WIDE_BYTES: u64 = 4 * (WIDE_PIECE as u64 + 64);
/// What is no longer than this goes through the rings of blocks.
pub(super) const SHORT_BYTES: usize = 1 << 10;
/// What is as long as this is not sent through rings between nodes, either.
pub(super) const FAR_LONG_BYTES: usize = 256 << 10;
/// How many a member has at most in a group.
pub(super) const MOST_WIDE: usize = 4;
/// One is made where there is memory for so many of them.
const WIDE_SHARE: u64 = 8;

/// What a member knows of the wide ring at its end of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Wide {
    #[default]
    Untried,
    Open,
    None,
}

/// A wide ring, and the lane that it is for.
pub(super) type WideRing = (usize, Region<u64>);

impl Group<'_> {
    /// Whether bytes between nodes go through wide rings, where there are some. The same on all members.
    pub(super) fn goes_wide(&self, bytes: usize) -> bool {
        self.nodes > 1 && bytes > SHORT_BYTES
    }

    /// Whether bytes that go from member to member are read from where they are. The same on all members.
    pub(super) fn is_read(&self, bytes: usize) -> bool {
        bytes >= if self.nodes > 1 { FAR_LONG_BYTES } else { LONG_BYTES }
    }
}

impl Talk<'_, '_> {
    /// Makes a wide ring for a lane of another node on which so many bytes are to come, if it is worth it and there is none.
    pub(super) fn widen(&mut self, lane: usize, bytes: usize) -> Result<()> {
        let at = &self.state.lanes[lane];
        if at.near || at.wide != Wide::Untried || bytes <= SHORT_BYTES {
            return Ok(());
        }
        let (world, here) = (self.group.world, at.here);
        let is_few = self.state.wide.len() < MOST_WIDE;
        // What the program may need is left to it.
        let has_room = is_few && world.memory.book(Purpose::Comm, WIDE_SHARE * WIDE_BYTES).is_ok();
        let made = has_room.then(|| world.memory.try_alloc::<u64>(WIDE_BYTES as usize / 8).ok()).flatten();
        let at = &mut self.state.lanes[lane];
        at.wide = if made.is_some() { Wide::Open } else { Wide::None };
        let Some(ring) = made else { return Ok(()) };
        let (rank, block, there) = (at.rank, at.block, at.there.into());
        self.own()?.store(here + WIDE_AT, ring.address().bits())?;
        self.state.wide.push((lane, ring));
        let offer = Request::Offer { lane: there, bytes: WIDE_BYTES };
        self.call(rank, offer.encode(block, self.group.number))
    }

    /// Whether what goes out on a lane from now on goes into the wide ring of the other end.
    pub(super) fn sends_wide(&mut self, lane: usize, bytes: usize) -> Result<bool> {
        let at = &self.state.lanes[lane];
        if at.near || at.sends_wide || bytes <= SHORT_BYTES {
            return Ok(at.sends_wide);
        }
        let offered = self.own()?.load(at.here + OFFERED_AT)? == WIDE_BYTES;
        self.state.lanes[lane].sends_wide = offered;
        Ok(offered)
    }

    /// The ring in which the next piece of a lane is, and the most bytes of a piece there; nothing if it is the one in the block.
    pub(super) fn wide_ring(&self, at: &Lane, index: usize) -> Result<Option<Span<'_>>> {
        if at.wide != Wide::Open {
            return Ok(None);
        }
        let from = self.own()?.load(at.here + WIDE_FROM_AT)?;
        if from == 0 || at.received < from - 1 {
            return Ok(None);
        }
        let ring = self.state.wide.iter().find(|(lane, _)| *lane == index);
        ring.map(|(_, ring)| self.local().span(ring.address(), WIDE_BYTES)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::collective::SCRATCH_BYTES;
    use crate::comm::{Algorithm, Sum};
    use crate::World;
    use kumiki_sim::{Cluster, Network};
    use std::sync::PoisonError;

    /// Runs a program on so many ranks, each of its own node.
    fn run(ranks: u32, budget: Option<u64>, program: impl Fn(&World) -> Result<()> + Sync) {
        let cluster = Cluster::new(ranks, Network::torus(&[ranks]));
        let cluster = budget.map_or(cluster.clone(), |bytes| cluster.budget_bytes(bytes));
        let outcome = cluster.run(|attachment| {
            let world = World::attach(attachment)?;
            program(&world)?;
            world.finalize()
        });
        let values = outcome.expect("it runs").values().expect("nobody panicked");
        values.into_iter().for_each(|value| value.expect("no error"));
    }

    fn wide_rings(group: &Group<'_>) -> usize {
        group.state.lock().unwrap_or_else(PoisonError::into_inner).wide.len()
    }

    /// Sums of many lengths, some of which go wide and some not, in each way that there is.
    fn sums(group: &Group<'_>) -> Result<()> {
        for (number, count) in [5, 4000, 1, 9000, 30_000, 700, 513, 20_000].into_iter().enumerate() {
            for algorithm in [Algorithm::Doubling, Algorithm::Halving, Algorithm::Ring, Algorithm::Tree] {
                group.force(algorithm);
                let mut data: Vec<u64> = (0..count).map(|at| at * 3 + u64::from(group.rank())).collect();
                group.allreduce(&mut data, Sum)?;
                let (ranks, others) = (u64::from(group.ranks()), (0..u64::from(group.ranks())).sum::<u64>());
                let right = data.iter().zip(0..).all(|(sum, at)| *sum == at * 3 * ranks + others);
                assert!(right, "{algorithm}, sum {number}");
            }
        }
        Ok(())
    }

    #[test]
    fn what_is_long_goes_through_few_wide_rings_that_go_with_the_group() {
        for ranks in [2, 3, 9] {
            run(ranks, None, |world| {
                let heap = || world.ledger().of(Purpose::Heap);
                let before = heap();
                let group = world.group()?;
                group.force(Algorithm::Doubling);
                group.allreduce(&mut [1u64; 100], Sum)?;
                assert_eq!(wide_rings(&group), 0, "short things need none");
                sums(&group)?;
                assert!((1..=MOST_WIDE).contains(&wide_rings(&group)));
                // What is passed on comes out of wide rings and goes into others, or into those of the block.
                group.force(Algorithm::Tree);
                let (me, count) = (u64::from(group.rank()), group.ranks() as usize);
                let mut all = vec![0; 7000 * count];
                group.gather(1, &vec![me; 7000], &mut all)?;
                if me == 1 {
                    assert!(all.chunks(7000).zip(0..).all(|(part, of)| part.iter().all(|word| *word == of)));
                }
                let mut own = vec![0; 7000];
                group.scatter(1, &all, &mut own)?;
                assert!(own.iter().all(|word| *word == me));
                group.free()?;
                world.sync()?;
                assert_eq!(heap(), before);
                world.sync()
            });
        }
    }

    #[test]
    fn what_was_passed_on_took_memory_that_nobody_had_booked() {
        run(4, None, |world| {
            let group = world.group()?;
            group.force(Algorithm::Tree);
            group.allreduce(&mut [1u64; 9000], Sum)?;
            let state = || group.state.lock().unwrap_or_else(PoisonError::into_inner);
            state().scratch = Default::default();
            let (me, mut all) = (u64::from(group.rank()), vec![0; 4 * 7000]);
            group.gather(0, &[me; 7000], &mut all)?;
            if me == 0 {
                assert!(all.chunks(7000).zip(0..).all(|(part, of)| part.iter().all(|word| *word == of)));
            }
            // It has a wide ring, and what comes there for the root goes through what was booked with the group.
            let through = state().scratch.bytes().len();
            assert!(me != 2 || wide_rings(&group) > 0 && (1..=SCRATCH_BYTES).contains(&through), "{through}");
            group.free()
        });
    }

    #[test]
    fn a_wide_ring_is_not_made_where_memory_is_short() {
        run(3, Some(1 << 20), |world| {
            let group = world.group()?;
            sums(&group)?;
            assert_eq!(wide_rings(&group), 0);
            group.free()
        });
    }
}
