//! The node agent: arena, descriptors, deaths, the listening port; and how a rank finds it. In rooms:
//!
//! | room | what | what it may use |
//! |---|---|---|
//! | `talk/` | what ranks, agents and the hub say to each other, and the lines that carry it | |
//! | `hub/` | what holds the nodes of a job together: a value without I/O or clock | `talk/` |
//! | `node/` | the node's side: what every agent does, and the agent that is the parent of its ranks | `talk/` |
//! | `strangers/` | ranks that no launcher of ours started: their agent and their hub, as threads of ranks | `node/`, `hub/`, `talk/` |
//! | `rank/` | the rank's side: from the environment to an attachment | `strangers/`, `talk/` |
//! | `report.rs` | a word to the user that harms nobody when it cannot be said | |
//!
//! The launcher (`kumiki-run`) runs the hub and starts agents; ranks come in through [`bootstrap::attach`]. `cargo xtask tidy`
//! checks who uses whom.

pub mod hub;
mod node;
mod rank;
pub mod report;
mod strangers;
mod talk;

pub use node::process;
pub use rank::bootstrap;
pub use strangers::{blocks, host, meeting, portfile};
pub use talk::{channel, link, protocol};
