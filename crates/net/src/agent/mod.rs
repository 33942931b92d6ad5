//! The node agent: arena, descriptors, deaths, the listening port; and how a rank finds it.
//!
//! | file | what |
//! |---|---|
//! | `codec.rs` | numbers, text and lists to bytes and back; bad input is an error |
//! | `protocol.rs` | messages between an agent and the hub of the job |
//! | `channel.rs` | messages between an agent and a rank, one packet each |
//! | `link.rs` | the byte stream that carries the messages of `protocol.rs` |
//! | `hub/` | what holds the nodes of a job together: a value without I/O |
//! | `seat.rs` | what an agent knows of one local rank |
//! | `node.rs` | what every agent does: arena, announcements, rank channels |
//! | `report.rs` | a word to the user that harms nobody when it cannot be said |
//! | `port.rs` | the node's listening port: strangers out, sockets to their ranks |
//! | `process/` | the agent as a process of its own, the parent of its ranks |
//! | `stranger.rs` | how ranks that no launcher of ours started find each other |
//! | `greet.rs` | the handshake of control connections |
//! | `host.rs` | the agent as a thread of the first stranger of a node |
//! | `host_hub.rs` | the hub of strangers, as a thread of the process of rank 0 |
//! | `meeting.rs` | the same in a process that starts several launchers |
//! | `portfile.rs` | the file in which the parts of a job find each other |
//! | `bootstrap.rs` | the rank's side: from the environment to an attachment |
//!
//! The launcher (`kumiki-run`) runs the hub and starts agents; ranks come in through [`bootstrap::attach`].

pub mod bootstrap;
pub mod channel;
pub mod codec;
mod greet;
mod host;
mod host_hub;
pub mod hub;
pub mod link;
pub mod meeting;
mod node;
mod port;
pub mod portfile;
pub mod process;
pub mod protocol;
pub mod report;
mod seat;
mod stranger;
