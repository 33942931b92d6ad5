//! How a thread sleeps until something comes on one of the connections, from the agent, or somebody wakes it.

use super::WAKE_TOKEN;
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
        let mut is_woken = false;
        let slept = self.epoll.wait(timeout_ms, |token, _| is_woken |= token == WAKE_TOKEN).map(drop);
        // Whoever slept has heard it. Others must not take it away before that.
        if is_woken {
            self.wake.clear();
        }
        self.slept.store(true, Ordering::Relaxed);
        slept
    }

    fn wake(&self) {
        self.wake.raise();
    }
}
