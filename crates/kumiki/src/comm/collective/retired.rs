//! Blocks of groups and halos, and areas of sparse exchanges, that this rank has left while others of its node may still touch them.
//!
//! The members of a node read and write each other's blocks without asking, in the middle of which the owner may leave: its block is given
//! back when each of them has said that it is done with it, or is gone.

use super::kept::Kept;
use super::untold::UntoldList;
use crate::{GlobalAddress, Rank, Region, Result, World};
use kumiki_mem::{Booking, Local};
use std::sync::{Mutex, PoisonError};

/// Says in the block of a neighbour, in the byte that is for this rank, that this rank will never touch it again. The last that it does there.
pub(in crate::comm) fn part(local: Local<'_>, block: GlobalAddress, at: u64) -> Result<()> {
    local.span(block, at + 1)?.write(at, &[1])
}

/// A block, and who may touch it: the byte in which it says that it will not any more, and a rank.
pub(in crate::comm) struct Retired {
    pub(in crate::comm) block: Region<u64>,
    /// What else goes with it.
    pub(in crate::comm) room: Option<Region<u64>>,
    pub(in crate::comm) guests: Vec<(u64, Rank)>,
    pub(in crate::comm) booked: Booking,
}

impl Retired {
    /// Whether somebody may touch it.
    fn is_used(&self, local: Local<'_>) -> bool {
        let has_parted = |at: u64| {
            let mut byte = [0];
            let whole = local.span(self.block.address(), 8 * self.block.len() as u64);
            whole.and_then(|block| block.read(at, &mut byte)).is_ok() && byte != [0]
        };
        self.guests.iter().any(|(at, rank)| local.can_touch(*rank) && !has_parted(*at))
    }
}

/// What a process keeps beside its groups.
#[derive(Default)]
pub(crate) struct Groups {
    retired: Mutex<Vec<Retired>>,
    pub(super) untold: UntoldList,
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
        self.tell_later();
        let mut retired = self.groups().retired.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, unused): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *retired).into_iter().partition(|block| block.is_used(self.local()));
        *retired = used;
        drop(retired);
        // Outside the lock: giving memory back takes others.
        unused.into_iter().for_each(|Retired { block, room, booked, .. }| drop((block, room, booked)));
    }
}
