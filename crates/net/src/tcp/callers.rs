//! Sockets on which peers have called, on their way from the agent to the transport.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

/// Where whoever listens to the agent puts the sockets that it hands over.
#[derive(Debug, Default)]
pub struct Callers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    sockets: Vec<OwnedFd>,
    crowded: bool,
}

impl Callers {
    /// A peer has called on this socket.
    pub fn push(&self, socket: OwnedFd) {
        self.waiting().sockets.push(socket);
    }

    /// A socket could not be handed over, because this process has as many descriptors as it may have.
    pub fn crowd(&self) {
        self.waiting().crowded = true;
    }

    /// Those that have come, and whether one could not.
    pub(super) fn take(&self) -> (Vec<OwnedFd>, bool) {
        let mut waiting = self.waiting();
        (std::mem::take(&mut waiting.sockets), std::mem::take(&mut waiting.crowded))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing is done with it that could leave it half changed.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
