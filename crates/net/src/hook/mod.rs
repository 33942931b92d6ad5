//! Decorators over any transport: count, trace, inject faults. Free when off: nothing is wrapped.
//!
//! | file | what | switched on by |
//! |---|---|---|
//! | `count.rs` | frames and bytes, printed at the end | `KUMIKI_COUNT=yes` |
//! | `trace.rs` | every message as an event that Perfetto and Chrome read | `KUMIKI_TRACE=file` |
//! | `tap.rs` | the decorator, which shows the traffic to one of the others | |
//! | `fault.rs` | drop, delay, reset, corrupt, tear or stall at the n-th message | `KUMIKI_FAULT=reset@5` |

mod count;
mod fault;
mod tap;
mod trace;

use crate::contract::Transport;
use crate::{environment, Rank, Result};

use count::Count;
use fault::{FaultPlan, Inject};
use tap::Tap;
use trace::Trace;

/// Wraps a transport in the hooks that the environment asks for. `name` says what a kind of frame is called in a trace.
pub fn wrap(
    transport: Box<dyn Transport>,
    rank: Rank,
    name: fn(u8) -> &'static str,
) -> Result<Box<dyn Transport>> {
    let mut transport = transport;
    if let Some(text) = environment::text("KUMIKI_FAULT")? {
        transport = Box::new(Tap::new(transport, Inject::new(FaultPlan::parse(&text)?.of(rank))));
    }
    if let Some(path) = environment::text("KUMIKI_TRACE")? {
        transport = Box::new(Tap::new(transport, Trace::new(rank, path.into(), name)));
    }
    if environment::choice("KUMIKI_COUNT", &["yes", "no"])? == Some("yes") {
        transport = Box::new(Tap::new(transport, Count::new(rank)));
    }
    Ok(transport)
}
