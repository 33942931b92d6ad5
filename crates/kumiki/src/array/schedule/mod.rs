//! Moving parts of arrays: who sends which elements to whom, known before it runs; and doing it.
//!
//! | file | what |
//! |---|---|
//! | `lines.rs` | one dimension of an exchange: which indices of the source go to which of the target, by node |
//! | `exchange.rs` | all dimensions together: pieces by rank |
//! | `plan.rs` | copies, reflects and their reverse as plans; what they cost; plans that are kept |
//! | `reach.rs` | pieces that one rank gets or puts without the others |
//! | `parcels.rs` | memory that messages are packed into |
//! | `gather.rs` | copies by which every node gets all |
//! | `run.rs` | packing, sending, receiving, unpacking |
//! | `growth.rs` | tests of what plans grow with, which print the figures |
//!
//! Both sides of a message compute its pieces by themselves, in the same order. What a rank computes and keeps grows with the pieces that it exchanges, and
//! with the number of nodes in a dimension, not with elements or pairs of ranks.

mod exchange;
mod gather;
#[cfg(test)]
mod growth;
mod lines;
mod parcels;
mod plan;
mod reach;
mod run;
#[cfg(test)]
mod tests;

pub(super) use plan::Plans;
pub use plan::{Cost, Plan, Width};
pub use reach::{Layout, Reach};
pub use run::Underway;
