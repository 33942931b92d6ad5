//! A transport that reaches nobody: what a new one begins with, and the least that the contract asks for.
//!
//! It passes the suite, because everything that it is given comes back as an error.

use crate::contract::{Capabilities, Closing, Fault, Footprint, Message, Sink, Sleeper, Transport};
use crate::{Error, Rank, Result};
use std::sync::Arc;

/// The transport.
#[derive(Debug, Default)]
pub struct Stub;

impl Transport for Stub {
    fn name(&self) -> &'static str {
        "stub"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { largest_message: 0, ..Capabilities::default() }
    }

    fn send(&mut self, to: Rank, _: Message, _: &mut dyn Sink) -> Result<()> {
        Err(Error::PeerLost { rank: to, why: "a stub reaches nobody".into() })
    }

    fn poll(&mut self, _: &mut dyn Sink) -> Result<usize> {
        Ok(0)
    }

    fn sleeper(&self) -> Option<Arc<dyn Sleeper>> {
        None
    }

    fn wake_up_at(&self) -> Option<u64> {
        None
    }

    fn close(&mut self, _: &mut dyn Sink) -> Closing {
        Closing::Closed
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    fn inject(&mut self, _: Rank, _: Fault) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::suite;

    #[test]
    fn a_stub_keeps_the_contract() {
        suite::check(Rank(0), Rank(1), &mut Stub, &mut || {});
    }
}
