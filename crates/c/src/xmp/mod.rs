//! The run time of XcalableMP: what C programs call that `kumiki xmpcc` has translated (`kumiki_xmp.h`), and the public functions (`xmp.h`).
//!
//! | file | what |
//! |---|---|
//! | `session.rs` | start and end of the program, and its world |
//! | `sets.rs` | sets of nodes, their groups, and the stack of those that execute |
//! | `references.rs` | `p[..]` and `t(..)`: which nodes are meant |
//! | `nodes.rs` | `nodes` |
//! | `templates.rs` | `template`, `distribute`, `template_fix` |
//! | `arrays.rs`, `directory.rs` | distributed arrays, and where others find their parts |
//! | `nests.rs` | `loop`: the iterations of this node |
//! | `tasks.rs` | `task` |
//! | `values.rs` | types of elements, and how reductions combine them |
//! | `extended.rs` | `long double`, which Rust has not |
//! | `collectives.rs` | `barrier`, `reduction`, `bcast` |
//! | `loop_reductions.rs` | the reduction clause of loops |
//! | `reflects.rs` | `reflect`, `reduce_shadow` |
//! | `gmoves.rs` | `gmove` |
//! | `transforms.rs`, `indexed.rs` | the transformational functions |
//! | `conversions.rs` | numbers of one type as those of another |
//! | `asynchronous.rs` | `wait_async` |
//! | `sections.rs` | parts of memory: base, length, step |
//! | `coarrays.rs` | coarrays: memory, put, get, copies |
//! | `locks.rs` | atomics and locks |
//! | `events.rs` | `post`, `wait`, and the synchronisation of images |
//! | `interoperation.rs` | MPI beside it |
//! | `inquiry.rs`, `array_inquiry.rs` | who and where this node is; what templates and arrays are |
//!
//! No function gives an error back: what goes wrong ends the job, with one message that begins with the place in the program.

pub mod array_inquiry;
pub mod arrays;
pub mod asynchronous;
pub mod coarrays;
pub mod collectives;
mod conversions;
mod directory;
pub mod events;
#[cfg(target_arch = "x86_64")]
mod extended;

pub mod gmoves;
pub mod indexed;
pub mod inquiry;
pub mod interoperation;
pub mod locks;
pub mod loop_reductions;
pub mod nests;
pub mod nodes;
pub mod references;
pub mod reflects;
mod sections;
pub mod session;
mod sets;
pub mod tasks;
pub mod templates;
pub mod transforms;
mod values;

use crate::guard::guard;
use crate::place::Place;
use kumiki::Result;
use std::ffi::{c_char, CStr};

/// The world of the program.
pub(crate) static WORLD: Place = Place::new();

/// The most dimensions that anything has.
pub(crate) const MOST_DIMENSIONS: usize = 7;

/// The world ends: what borrows it is dropped. Nobody is in it.
pub(crate) fn end_all() {
    asynchronous::end_all();
    directory::end_all();
    sets::end_all();
}

/// The body of a function: what goes wrong ends the job, with the place in the program and what was to be done there.
///
/// # Safety
/// `place` must be a text, or NULL.
unsafe fn edge<T>(place: *const c_char, what: &str, body: impl FnOnce() -> Result<T>) -> T {
    match guard(body) {
        Ok(value) => value,
        Err(failure) => {
            // SAFETY: not NULL, so it is a text.
            let place = (!place.is_null()).then(|| unsafe { CStr::from_ptr(place) }.to_string_lossy());
            let place =
                place.filter(|place| !place.is_empty()).map_or(String::new(), |place| format!("{place}: "));
            session::abort(1, &format!("{place}{what}: {failure}"))
        }
    }
}

/// In the checked mode (`KUMIKI_CHECK=1`) what the nodes of a set do together is compared, with the places in the program.
///
/// # Safety
/// `place` must be a text, or NULL.
unsafe fn alike(place: *const c_char, set: &sets::Set, call: impl FnOnce() -> String) -> Result<()> {
    if set.is_single() {
        return Ok(());
    }
    tasks::check_present(set.members.iter())?;
    if !set.is_checked()? {
        return Ok(());
    }
    let place = || match place.is_null() {
        true => "an unknown place".to_owned(),
        // SAFETY: not NULL, so it is a text.
        false => unsafe { CStr::from_ptr(place) }.to_string_lossy().into_owned(),
    };
    session::with(|world| kumiki::array::check_alike(world, set.nodes()?, call, place))
}

/// The body of a function of `xmp.h` that gives `failed` when something is wrong, after a line on standard error.
fn edge_or<T>(name: &str, failed: T, body: impl FnOnce() -> Result<T>) -> T {
    guard(body).unwrap_or_else(|failure| {
        crate::complaints::complain(&format!("xmp: {name}: {failure}"));
        failed
    })
}
