//! Copies of memory whose owner waits until they are done: on its node it may do a part of them (see `node/haul.rs`).

use crate::drive::world::World;
use crate::node::address::GlobalPtr;
use crate::Result;
use bytemuck::Pod;
use std::sync::atomic::Ordering;

impl World {
    /// As [`get_slice`](Self::get_slice), where the owner waits for this to be done: on its node it may do a part of it, and this waits for that.
    #[doc(hidden)]
    pub fn get_awaited<T: Pod>(&self, from: GlobalPtr<T>, into: &mut [T]) -> Result<()> {
        match self.core().get_awaited(from.address, from.registration, bytemuck::cast_slice_mut(into)) {
            true => Ok(()),
            // What stood in the way is found out there.
            false => self.get_slice(from, into),
        }
    }

    /// How many pieces of such copies of its neighbours this rank has done.
    #[doc(hidden)]
    pub fn shares_done(&self) -> u64 {
        self.core().shares.load(Ordering::Relaxed)
    }

    /// As [`put_slice`](Self::put_slice), likewise.
    #[doc(hidden)]
    pub fn put_awaited<T: Pod>(&self, to: GlobalPtr<T>, values: &[T]) -> Result<()> {
        match self.core().put_awaited(to.address, to.registration, bytemuck::cast_slice(values)) {
            true => Ok(()),
            false => self.put_slice(to, values),
        }
    }

    /// As [`get_vec`](Self::get_vec), where the owner [waits](Self::get_awaited).
    #[doc(hidden)]
    pub fn get_vec_awaited<T: Pod>(&self, from: GlobalPtr<T>, count: u64) -> Result<Vec<T>> {
        self.new_vec(from, count, |values| self.get_awaited(from, values))
    }
}
