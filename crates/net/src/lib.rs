//! Bytes and file descriptors between the processes of a job.
//!
//! This crate knows nothing of global memory: it finds the other processes, proves that they belong to the
//! same job, and moves frames and shared mappings between them. `kumiki-mem` stands on it.
#![deny(unsafe_code)]

pub mod agent;
pub mod auth;
pub mod contract;
pub mod environment;
mod error;
pub mod hook;
pub mod os;
pub mod shm;
pub mod tcp;
pub mod wire;

pub use error::{Error, Rank, Result};
