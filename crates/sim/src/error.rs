//! What can go wrong in a simulation: a network that cannot be built, a program that cannot run on it, and a deadlock, which is a result too.

use crate::deadlock::Deadlock;

/// Why a simulation gave no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The description of a network cannot be understood or built; the text says what was wrong and what would be right.
    #[error("network: {0}")]
    Network(String),
    /// Options contradict each other, the workload or the network.
    #[error("{0}")]
    Options(String),
    /// A rank did something that has no meaning, like sending to a rank that does not exist.
    #[error("rank {rank}, operation {operation}: {what}")]
    Program {
        /// The rank whose script did it.
        rank: u32,
        /// The number of the operation, from 0.
        operation: u64,
        /// What was wrong and what would be right.
        what: String,
    },
    /// A real program in virtual time is stuck, or could not be started.
    #[error("{what} (seed {seed})")]
    Stuck {
        /// To repeat it.
        seed: u64,
        /// Who waits for whom.
        what: String,
    },
    /// Nothing can move any more: the program waits in a circle, a receive has no send, or the network's buffers wait for each other.
    #[error("{0}")]
    Deadlock(Box<Deadlock>),
}
