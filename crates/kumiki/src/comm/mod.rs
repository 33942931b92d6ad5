//! Patterns of communication on top of global memory.
//!
//! | folder | what |
//! |---|---|
//! | `collective/` | what all members of a group do together |

mod collective;

pub(crate) use collective::serve as serve_collective;
pub use collective::{
    Algorithm, And, Combine, Decision, Group, GroupOptions, Integer, Max, MaxAt, Min, MinAt, Number,
    Operation, Or, Product, Sum, Xor,
};
pub use kumiki_mem::Located;
