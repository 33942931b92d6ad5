//! Index spaces: which rank has which element of an array, and where. Pure values: nothing here communicates.
//!
//! | file | what |
//! |---|---|
//! | `nodes.rs` | ordered n-dimensional sets of ranks, and subsets of them |
//! | `axis.rs` | the arithmetic of one dimension: owners, local indices, parts of sections |
//! | `template.rs` | a template: an index space and its distribution onto nodes |
//! | `section.rs` | subscripts, and what they name |
//! | `mapping.rs` | an array in a template: alignment, shadow; interned once a process |
//! | `part.rs` | what one rank has of an array |
//! | `ranges.rs` | loops: progressions of global indices, and margins |

mod axis;
mod mapping;
mod nodes;
mod part;
mod ranges;
mod section;
mod template;

pub use axis::{Axis, Owned};
pub use mapping::{Align, Dimension, Mapping, Shadow};
pub(crate) use nodes::combinations;
pub use nodes::Nodes;
pub use part::Part;
pub use ranges::{margin, Progression};
pub use section::{Section, Span, Sub};
pub use template::{Format, Template};

use crate::Error;

/// The most dimensions that node sets, templates and arrays have.
pub const MAX_DIMENSIONS: usize = 7;

pub(crate) fn misuse(what: impl Into<String>) -> Error {
    Error::Misuse(what.into())
}
