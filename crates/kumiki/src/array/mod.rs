//! Global-view distributed arrays: index spaces, how they lie on ranks, and moving parts of them.
//!
//! | folder | what |
//! |---|---|
//! | `space/` | node sets, templates, alignments, shadows, sections: values without communication |
//! | `schedule/` | who sends which elements to whom, and doing it |
//! | `club.rs` | what the nodes of arrays do together |
//! | `coarray.rs` | coarrays |
//! | `check.rs` | the checked mode |
//! | `global/` | arrays as programs have them |
//!
//! Lists of dimensions are in C's order everywhere: the last one is the fastest. Whoever has them the other way round turns them round at the edge.

mod check;
mod club;
mod coarray;
mod global;
mod schedule;
mod space;

pub use check::{check_alike, is_checked, set_check};
pub use coarray::Coarray;
pub use global::{Array, Copying, Near, NpyElement, Reflected, Reflecting, Rows, Shared};
pub use schedule::{Cost, Layout, Plan, Reach, Underway, Width};
pub use space::{
    margin, Align, Axis, Dimension, Format, Mapping, Nodes, Owned, Part, Progression, Section, Shadow, Span,
    Sub, Template, MAX_DIMENSIONS,
};

/// What a world keeps for its arrays.
#[derive(Default, Debug)]
pub(crate) struct State {
    plans: schedule::Plans,
    left: club::Left,
    checked: check::Checked,
}

impl State {
    /// Gives back memory that is kept for the next messages. Whether there was any.
    pub(crate) fn give_back(&self) -> bool {
        self.plans.give_back()
    }
}
