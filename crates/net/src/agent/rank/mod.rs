//! The rank's side: how a process becomes one, and what it then holds.
//!
//! | file | what |
//! |---|---|
//! | `bootstrap.rs` | from the environment to an attachment, in any of the ways there are |
//! | `secrecy.rs` | a test: no secret crosses the network while ranks meet |

pub mod bootstrap;
#[cfg(test)]
mod secrecy;
