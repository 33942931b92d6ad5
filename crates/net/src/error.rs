//! The one error type of this crate: coarse enough to act on.

/// The number of a process in its world, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rank(pub u32);

impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

impl Rank {
    /// The rank as an index into a table.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What can go wrong between processes, and what the caller can do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A process of the job is gone. Nothing sent to it will be answered: give up on it or end the job.
    #[error("{rank} is lost: {why}")]
    PeerLost {
        /// Who is gone.
        rank: Rank,
        /// How it went, as far as anybody knows.
        why: String,
    },
    /// A deadline passed. The peer may be slow rather than dead: wait again, or give up.
    #[error("timed out after {after_ms} ms {what}")]
    Timeout {
        /// What was waited for, as the end of a sentence ("waiting for rank 3 to …").
        what: String,
        /// How long the wait lasted.
        after_ms: u64,
    },
    /// The budget or the machine has no more memory. Free something, raise the budget, or ask for less.
    #[error("out of memory: {asked} bytes asked, {left} bytes left ({what})")]
    OutOfMemory {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that are left.
        left: u64,
        /// Which limit was hit.
        what: &'static str,
    },
    /// The other side did not accept us, or we did not accept it; the reason is in the text.
    #[error("refused: {0}")]
    Refused(String),
    /// The connection, the world or the job has ended in an orderly way.
    #[error("closed: {0}")]
    Closed(String),
    /// The operating system said no. The message names the call; the remedy depends on the error.
    #[error("{call} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// The system call, and on what.
        call: &'static str,
        /// The error number.
        errno: i32,
    },
    /// The caller did something that can never work; the message names the argument.
    #[error("misuse: {0}")]
    Misuse(String),
}

impl Error {
    /// The error of the system call that has just failed.
    pub fn last_os(call: &'static str) -> Self {
        Self::from_io(call, &std::io::Error::last_os_error())
    }

    /// An error of the standard library, with the call that made it.
    pub fn from_io(call: &'static str, error: &std::io::Error) -> Self {
        Error::System { call, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// Whether the call would have blocked, or was interrupted: try again later.
    pub fn would_block(&self) -> bool {
        matches!(self, Error::System { errno, .. } if *errno == libc::EAGAIN || *errno == libc::EINTR)
    }

    /// Whether this process, or the machine, has as many open files as it may have.
    pub(crate) fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Error::System { errno: libc::EMFILE | libc::ENFILE, .. })
    }

    /// Whether there is no file or folder of that name, or no longer.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Error::System { errno: libc::ENOENT | libc::ESTALE, .. })
    }

    /// Whether a call to a peer failed because of this process or its machine, and not of the peer.
    pub(crate) fn is_own_trouble(&self) -> bool {
        let of_peers =
            [libc::ECONNREFUSED, libc::ECONNRESET, libc::ETIMEDOUT, libc::EHOSTUNREACH, libc::EPIPE];
        match self {
            Error::OutOfMemory { .. } => true,
            Error::System { errno, .. } => !of_peers.contains(errno),
            _ => false,
        }
    }

    /// Whether the system could not read the memory it was given.
    pub(crate) fn is_bad_memory(&self) -> bool {
        matches!(self, Error::System { errno: libc::EFAULT, .. })
    }
}

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;
