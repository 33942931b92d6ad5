//! Global-view distributed arrays: index spaces, how they lie on ranks, and moving parts of them.
//!
//! | folder | what |
//! |---|---|
//! | `space/` | node sets, templates, alignments, shadows, sections: values without communication |
//! | `schedule/` | who sends which elements to whom, and doing it |
//!
//! Lists of dimensions are in C's order everywhere: the last one is the fastest. Whoever has them the other way round turns them round at the edge.

mod schedule;
mod space;

pub(crate) use schedule::Plans;
pub use schedule::{Cost, Layout, Plan, Reach, Underway, Width};
pub use space::{
    margin, Align, Axis, Dimension, Format, Mapping, Nodes, Owned, Part, Progression, Section, Shadow, Span,
    Sub, Template, MAX_DIMENSIONS,
};
