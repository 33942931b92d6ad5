//! Operations that are under way: waiting for them, and asking.

use super::World;
use crate::{Handle, Result};
use std::os::fd::BorrowedFd;
use std::time::Duration;

impl World {
    /// Waits until this operation and every one before it is complete. Tells the first failure among them.
    #[inline(always)]
    pub fn complete(&self, handle: Handle) -> Result<()> {
        self.memory.complete(handle)
    }

    /// Waits until every operation is complete.
    #[inline]
    pub fn complete_all(&self) -> Result<()> {
        self.memory.complete_all()
    }

    /// Waits for this operation alone, whatever came before it.
    #[inline]
    pub fn complete_one(&self, handle: Handle) -> Result<()> {
        self.memory.complete_one(handle)
    }

    /// As [`complete`](Self::complete), for at most this long.
    pub fn wait(&self, handle: Handle, limit: Duration) -> Result<()> {
        self.memory.wait(handle, limit)
    }

    /// Whether this operation and every one before it is complete. A failure is told once, here or by
    /// [`complete`](Self::complete).
    pub fn inquire(&self, handle: Handle) -> Result<bool> {
        self.memory.inquire(handle)
    }

    /// Takes what has come for this rank, and says whether anything had. Whoever looks at memory that others write should
    /// call it between two looks: what comes from other nodes is then at its place at once, and not when the service
    /// thread, which leaves the field to threads that wait, looks next.
    pub fn progress(&self) -> Result<bool> {
        self.tell_later();
        self.memory.progress()
    }

    /// A descriptor that becomes readable when an operation completes, for event loops and async runtimes: wait until
    /// it is readable, call [`clear_completion`](Self::clear_completion), then [`inquire`](Self::inquire).
    pub fn completion_fd(&self) -> Result<BorrowedFd<'_>> {
        self.memory.completion_fd()
    }

    /// Makes the completion descriptor unreadable until the next completion.
    pub fn clear_completion(&self) {
        self.memory.clear_completion();
    }
}
