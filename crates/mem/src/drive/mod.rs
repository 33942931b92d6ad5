//! The drive: who polls, who sleeps, and the world that a program holds.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | [`World`](crate::World): init, finalize, who is who, the ledger |
//! | `issue.rs` | what a program does with memory |
//! | `core.rs` | what every part of a world shares |
//! | `wait.rs` | waiting, and the service thread |
//! | `barrier.rs` | how all ranks meet |
//! | `errand.rs` | atomics on private memory of a neighbour |
//! | `measure.rs` | what joining a world costs |

pub(crate) mod barrier;
pub(crate) mod core;
pub(crate) mod errand;
pub(crate) mod issue;
pub(crate) mod measure;
pub(crate) mod naps;
pub(crate) mod wait;
pub(crate) mod world;
