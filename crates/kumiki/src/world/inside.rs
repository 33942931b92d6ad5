//! What the structures of this crate need of the memory below, and programs do not see.

use super::World;
use crate::{Error, Purpose, Rank, Result, Wait};
use kumiki_mem::{Booking, Call, Local};

impl World {
    /// Memory of this node in the hands of safe code.
    #[inline]
    pub(crate) fn local(&self) -> Local<'_> {
        self.memory.local()
    }

    /// Counts an error as one that this world has returned.
    #[inline]
    pub(crate) fn note<T>(&self, result: Result<T>) -> Result<T> {
        self.memory.note(result)
    }

    /// Waits until a look finds something; an error does not count as one that this world has returned.
    pub(crate) fn look_for<T>(&self, look: impl Fn() -> Option<Result<T>>, wait: Wait) -> Result<T> {
        self.memory.look_for(look, wait)
    }

    /// Asks the service of another rank, and waits for its answer.
    pub(crate) fn call(&self, rank: Rank, service: u8, request: Vec<u8>) -> Result<Vec<u8>> {
        self.memory.call(rank, service, request)
    }

    /// Asks the service of another rank.
    pub(crate) fn start_call(&self, rank: Rank, service: u8, request: Vec<u8>) -> Result<Call<'_>> {
        self.memory.start_call(rank, service, request)
    }

    /// Books memory of this process.
    pub(crate) fn book(&self, purpose: Purpose, bytes: u64) -> Result<Booking> {
        match self.memory.book(purpose, bytes) {
            // What arrays keep for their next messages may be in the way.
            Err(Error::OutOfMemory { .. }) if self.arrays().give_back() => self.memory.book(purpose, bytes),
            booked => booked,
        }
    }
}
