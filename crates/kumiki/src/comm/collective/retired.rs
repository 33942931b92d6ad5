//! Blocks of groups, and areas of sparse exchanges, that this rank has left while others of its node may still touch them.
//!
//! The members of a node read and write each other's blocks without asking, in the middle of which the owner may leave: its block is given
//! back when each of them has said that it is done with it, or is gone.

use super::kept::Kept;
use crate::{GlobalAddress, Rank, Region, Result, World};
use kumiki_mem::{Booking, Local};
use std::sync::{Mutex, PoisonError};

/// Says in the block of a neighbour that this rank will never touch it again. The last that it does there.
pub(in crate::comm) fn part(local: Local<'_>, block: GlobalAddress, guests: u64, guest: u32) -> Result<()> {
    let at = guests + u64::from(guest);
    local.span(block, at + 1)?.write(at, &[1])
}

/// A block, and who may touch it: a number on the node, and a rank.
pub(in crate::comm) struct Retired {
    pub(in crate::comm) block: Region<u64>,
    /// Where they say that they are done with it: a byte each.
    pub(in crate::comm) guests_at: u64,
    pub(in crate::comm) guests: Vec<(u32, Rank)>,
    pub(in crate::comm) booked: Booking,
}

impl Retired {
    /// Whether somebody may touch it.
    fn is_used(&self, local: Local<'_>) -> bool {
        let has_parted = |guest: u32| {
            let (at, mut byte) = (self.guests_at + u64::from(guest), [0]);
            let read = local.span(self.block.address(), at + 1).and_then(|block| block.read(at, &mut byte));
            read.is_ok() && byte != [0]
        };
        self.guests.iter().any(|(guest, rank)| local.can_touch(*rank) && !has_parted(*guest))
    }
}

/// What a process keeps beside its groups.
#[derive(Default)]
pub(crate) struct Groups {
    retired: Mutex<Vec<Retired>>,
    pub(super) kept: Kept,
}

impl World {
    /// Gives a block back when nobody touches it any more.
    pub(in crate::comm) fn retire(&self, block: Retired) {
        self.groups().retired.lock().unwrap_or_else(PoisonError::into_inner).push(block);
        self.sweep_groups();
    }

    /// Gives back what nobody touches any more.
    pub(in crate::comm) fn sweep_groups(&self) {
        let mut retired = self.groups().retired.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, unused): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *retired).into_iter().partition(|block| block.is_used(self.local()));
        *retired = used;
        drop(retired);
        // Outside the lock: giving memory back takes others.
        unused.into_iter().for_each(|Retired { block, booked, .. }| drop((block, booked)));
    }
}
