//! The engine: operations that need another rank, and what is done for other ranks.
//!
//! | file | what |
//! |---|---|
//! | `operations.rs`, `table.rs`, `order.rs` | operations that are not complete, and what they wait for |
//! | `frames.rs` | what frames mean |
//! | `serve.rs` | what is done when an operation starts or a frame comes |
//! | `calls.rs` | work that another rank does for us: services and calls |

pub(crate) mod calls;
pub(crate) mod frames;
#[cfg(test)]
pub(crate) mod hostile;
pub(crate) mod operations;
pub(crate) mod order;
pub(crate) mod serve;
pub(crate) mod table;
