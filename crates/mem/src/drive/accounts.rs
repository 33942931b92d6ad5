//! Bytes that are booked for as long as somebody holds them, and the books as a transport sees them.

use crate::drive::world::World;
use crate::drive::Drive;
use crate::node::ledger::Purpose;
use crate::{Error, Result};
use kumiki_net::contract::Accounts;
use kumiki_net::os::process;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Bytes that stay booked until it is dropped: what a layer above takes for itself.
pub struct Booking {
    core: Arc<Drive>,
    purpose: Purpose,
    bytes: u64,
}

impl std::fmt::Debug for Booking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Booking({} bytes, {})", self.bytes, self.purpose.name())
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        // The books of a world that is closed, and those that a forked child cannot see, are not ours any more.
        if !process::is_forked_child() && !self.core.closed.load(Ordering::Acquire) {
            self.core.books.unbook(self.purpose, self.bytes);
        }
    }
}

/// The books as a transport sees them: it books for connections.
pub(crate) struct Connections(pub(crate) Weak<Drive>);

impl Accounts for Connections {
    fn book(&self, bytes: u64) -> kumiki_net::Result<()> {
        let Some(core) = self.0.upgrade() else { return Ok(()) };
        core.books.book(Purpose::Connection, bytes).map_err(|error| match error {
            Error::OutOfMemory { asked, left, what } => kumiki_net::Error::OutOfMemory { asked, left, what },
            other => kumiki_net::Error::Closed(other.to_string()),
        })
    }

    fn force(&self, bytes: u64) {
        if let Some(core) = self.0.upgrade() {
            core.books.force(Purpose::Connection, bytes);
        }
    }

    fn unbook(&self, bytes: u64) {
        if let Some(core) = self.0.upgrade() {
            core.books.unbook(Purpose::Connection, bytes);
        }
    }
}

impl Booking {
    pub(crate) fn new(core: &Arc<Drive>, purpose: Purpose, bytes: u64) -> Result<Booking> {
        core.books.book(purpose, bytes)?;
        Ok(Booking { core: core.clone(), purpose, bytes })
    }

    /// How many they are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Leaves the bytes booked: they are taken, and somebody else books them back.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl World {
    /// Books private memory that the caller is about to take.
    pub fn book(&self, purpose: Purpose, bytes: u64) -> Result<Booking> {
        Booking::new(self.core(), purpose, bytes)
    }
}
