//! Decorators over any transport: count, trace, inject faults. Free when off: nothing is wrapped.
//!
//! | file | what | switched on by |
//! |---|---|---|
//! | `count.rs` | frames and bytes, printed at the end | `KUMIKI_COUNT=yes` |
//! | `trace.rs` | every message as an event that Perfetto and Chrome read | `KUMIKI_TRACE=file` |
//! | `fault.rs` | drop, delay, reset, corrupt or stall at the n-th message | `KUMIKI_FAULT=reset@5` |

mod count;
mod fault;
mod trace;

use crate::contract::Transport;
use crate::{environment, Rank, Result};

pub use count::Count;
pub use fault::{FaultPlan, Inject};
pub use trace::Trace;

/// Wraps a transport in the hooks that the environment asks for.
pub fn wrap(transport: Box<dyn Transport>, rank: Rank) -> Result<Box<dyn Transport>> {
    let mut transport = transport;
    if let Some(text) = environment::text("KUMIKI_FAULT")? {
        transport = Box::new(Inject::new(transport, FaultPlan::parse(&text)?.of(rank)));
    }
    if let Some(path) = environment::text("KUMIKI_TRACE")? {
        transport = Box::new(Trace::new(transport, rank, path.into()));
    }
    if environment::choice("KUMIKI_COUNT", &["yes", "no"])? == Some("yes") {
        transport = Box::new(Count::new(transport, rank));
    }
    Ok(transport)
}

/// Passes the methods that a hook does not change on to the transport inside.
macro_rules! pass_on {
    () => {
        fn name(&self) -> &'static str {
            self.inner.name()
        }
        fn sleeper(&self) -> std::sync::Arc<dyn crate::contract::Sleeper> {
            self.inner.sleeper()
        }
        fn adopt(&mut self, socket: std::os::fd::OwnedFd) -> crate::Result<()> {
            self.inner.adopt(socket)
        }
        fn footprint(&self) -> crate::contract::Footprint {
            self.inner.footprint()
        }
        fn inject(&mut self, peer: crate::Rank, fault: crate::contract::Fault) {
            self.inner.inject(peer, fault);
        }
    };
}
pub(crate) use pass_on;
