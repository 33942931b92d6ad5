//! Kumiki for C: what `kumiki.h`, `acp.h`, `waitio.h`, `waitio_mpi.h` and `xmp.h` declare.
//!
//! Four interfaces on the same calls of [`kumiki`]. `kumiki.h` is our own: every call gives a status, and says why it
//! failed. `acp.h` is that of ACP 3.0.0, for programs that exist: where it has no place for an error, a line on standard
//! error says it. `waitio.h` is that of WaitIO, which joins programs under different MPI libraries. `xmp.h` is that of
//! XcalableMP.
//!
//! | file | what |
//! |---|---|
//! | `buffer.rs` | memory of the program that a message is written to |
//! | `complaints.rs` | what is said on standard error, and how often |
//! | `guard.rs` | the wrapper around every function: a panic never crosses |
//! | `place.rs` | where a world is kept between the calls of a C program |
//! | `things.rs` | what a program has of the patterns of communication, behind handles |
//! | `status.rs` | error codes, and the message of the last failure |
//! | `api/` | the functions of `kumiki.h` |
//! | `acp/` | the functions of `acp.h` |
//! | `waitio/` | the functions of `waitio.h` and `waitio_mpi.h`, and of Fortran |
//! | `xmp/` | the functions of `xmp.h`, and those that translated programs of XcalableMP call |
//!
//! `unsafe` is at this edge only, where pointers come from C; what lies behind is safe Rust.

pub mod acp;
pub mod api;
mod buffer;
mod complaints;
mod guard;
mod place;
mod status;
mod things;
pub mod waitio;
mod worlds;
pub mod xmp;

#[cfg(test)]
mod tests;
