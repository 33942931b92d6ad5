//! Global-view distributed arrays: index spaces, how they lie on ranks, and moving parts of them.
//!
//! | folder | what |
//! |---|---|
//! | `space/` | node sets, templates, alignments, shadows, sections: values without communication |
//!
//! Lists of dimensions are in C's order everywhere: the last one is the fastest. Whoever has them the other way round turns them round at the edge.

mod space;

pub use space::{
    margin, Align, Axis, Dimension, Format, Mapping, Nodes, Owned, Part, Progression, Section, Shadow, Span,
    Sub, Template, MAX_DIMENSIONS,
};
