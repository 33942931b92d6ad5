//! Bytes and file descriptors between the processes of a job.
//!
//! This crate knows nothing of global memory: it finds the other processes, proves that they belong to the
//! same job, and moves frames and shared mappings between them. `kumiki-mem` stands on it.
//!
//! Under `--cfg loom` only the structures that are model-checked are built: see `shm`.
#![deny(unsafe_code)]

#[cfg(not(loom))]
pub mod agent;
#[cfg(not(loom))]
pub mod auth;
#[cfg(not(loom))]
pub mod codec;
#[cfg(not(loom))]
pub mod contract;
#[cfg(not(loom))]
pub mod environment;
mod error;
#[cfg(not(loom))]
pub mod event;
#[cfg(not(loom))]
pub mod hook;
#[cfg(not(loom))]
pub mod loopback;
#[cfg(not(loom))]
pub mod os;
#[cfg(not(loom))]
pub mod route;
pub mod shm;
#[cfg(not(loom))]
pub mod stub;
#[cfg(not(loom))]
pub mod tcp;
#[cfg(not(loom))]
pub mod terms;
#[cfg(not(loom))]
pub mod wire;

pub use error::{Error, Rank, Result};

/// What the fuzzer runs.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::agent::blocks::storm::run as roll_call;
}
