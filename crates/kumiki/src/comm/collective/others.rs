//! What other patterns need of a group, and numbers by which members see whether they do the same.

use super::{Group, Talk};
use crate::{Error, Result};
use std::sync::PoisonError;

impl Group<'_> {
    /// The number that all members know it by, and no other group.
    pub(in crate::comm) fn number(&self) -> u64 {
        self.number
    }

    /// Breaks the group because of an error of this member, and gives the error.
    pub(in crate::comm) fn fail(&self, error: Error) -> Error {
        let fail = || -> Result<()> {
            let _turn = self.enter()?;
            self.run("failing", 0, |_| Err(error.clone()))
        };
        fail().err().unwrap_or(error)
    }

    /// The same for whoever unwinds: members of other nodes are told with the next call, or when the group is dropped.
    pub(in crate::comm) fn abandon(&self, error: Error) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut talk = Talk { group: self, state: &mut state, mark: 0, call: 0 };
        if talk.state.broken.is_none() {
            let _ = talk.give_up(error);
        }
    }
}

/// Makes one number of two, in which every bit of both counts.
pub(in crate::comm) fn mix(one: u64, other: u64) -> u64 {
    let mixed = (one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0xd1b5_4a32_d192_ed03);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 31
}

pub(in crate::comm) fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
