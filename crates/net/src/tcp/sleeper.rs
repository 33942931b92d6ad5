//! How a thread sleeps until something comes on one of the connections, from the agent, or somebody wakes it.

use crate::contract::Sleeper;
use crate::os::descriptor::{Epoll, Event};
use crate::Result;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sleeps on the descriptors of a transport.
pub(super) struct EpollSleeper {
    pub(super) epoll: Epoll,
    pub(super) wake: Event,
    /// Set by a sleep: whatever ended it, the next poll looks at everything.
    pub(super) slept: AtomicBool,
}

impl Sleeper for EpollSleeper {
    fn sleep(&self, timeout_ms: i32) -> Result<()> {
        let slept = self.epoll.wait(timeout_ms, |_, _| ()).map(drop);
        self.slept.store(true, Ordering::Relaxed);
        slept
    }

    fn wake(&self) {
        self.wake.raise();
    }
}
