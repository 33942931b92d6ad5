//! `kumiki rank`: what the ranks of `kumiki demo`, `kumiki mem`, `kumiki bench comm --memory` and `kumiki sim predict` do. These commands start it; it is of no use by hand.
//!
//! It is recognised before the command line is parsed: what a parser leaves free in the heap would be taken again by
//! init, and hide what that costs.

use super::{demo, sim, touch, Outcome};
use crate::bench::comm::crowd;
use kumiki::World;
use std::ffi::OsString;

/// Does the work of a rank, if this process was started for that.
pub(crate) fn early() -> Option<Outcome> {
    let mut words = std::env::args_os();
    let called = words.next()?;
    // `acprun rank` starts a program of that name.
    if words.next()? != "rank" || crate::is_foreign(&called) {
        return None;
    }
    let work = words.next().unwrap_or_default();
    Some(match work.to_str() {
        Some("probe") => probe().map(|()| 0).map_err(|error| error.to_string()),
        Some("touch") => touch::rank(words.collect()),
        Some(crowd::WORK) => crowd::rank(&words.collect::<Vec<_>>()),
        Some("demo") => demo::rank(words.collect()),
        Some("sim") => sim::rank(words.collect()),
        _ => Err("`kumiki rank` is started by other commands, such as `kumiki demo`".into()),
    })
}

/// What `kumiki rank` must be given to do this work.
pub(crate) fn words(work: &str) -> Vec<OsString> {
    vec!["rank".into(), work.into()]
}

/// Joins the world, meets the others, and leaves.
fn probe() -> kumiki::Result<()> {
    let world = World::init()?;
    world.sync()?;
    world.finalize()
}
