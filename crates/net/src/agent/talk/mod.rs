//! What ranks, agents and the hub say to each other, and the lines that carry it. Who says what when is decided in the other
//! rooms; nothing here uses them.
//!
//! | file | what |
//! |---|---|
//! | `protocol.rs` | messages between an agent and the hub of the job |
//! | `link.rs` | the byte stream that carries those |
//! | `channel.rs` | messages between an agent and a rank, one packet each, and the rank's end of their line |

pub mod channel;
pub mod link;
pub mod protocol;
