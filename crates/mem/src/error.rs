//! The errors of global memory: what happened, to whom, and what the caller can do.

/// Whether an operation that failed has taken effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It has not, and will not.
    NotDone,
    /// Nobody knows: the peer was lost between the request and the answer. It is never repeated.
    Unknown,
}

/// What is wrong with an address in [`Error::Bounds`], of memory that nobody may write.
pub(crate) const READ_ONLY: &str = "read-only memory";

/// Why a neighbour is lost whose process is no longer there, as long as its agent has not said how it ended.
pub(crate) const PROCESS_GONE: &str = "its process is gone";

/// What can go wrong with global memory.
///
/// `Debug` shows the message, as `Display` does: it is what `fn main() -> kumiki::Result<()>` and `unwrap` print.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank is gone: it was killed, left, or cannot be reached. Do without it, or end the job.
    #[error("rank {rank} is lost: {why}{}", fate_text(*fate))]
    PeerLost {
        /// Who is gone.
        rank: u32,
        /// Whether the operation took effect.
        fate: Fate,
        /// How it went, as far as is known.
        why: String,
    },
    /// A deadline passed before the end of a wait. The wait can be begun again.
    #[error("timed out after {after_ms} ms {what}")]
    Timeout {
        /// What was waited for, and for whom.
        what: String,
        /// How long the wait lasted.
        after_ms: u64,
    },
    /// The budget, the heap or the machine has no more memory, or the rank no more registrations. Free something, or ask for
    /// less.
    #[error("{}", shortage_text(*asked, *left, what))]
    OutOfMemory {
        /// Bytes that were asked for; registrations, if these have run out.
        asked: u64,
        /// How many are left.
        left: u64,
        /// Which limit was hit.
        what: &'static str,
    },
    /// The other side did not accept us, or we did not accept it.
    #[error("refused: {0}")]
    Refused(String),
    /// An address does not lie in a live region, or the access runs past its end or writes to memory that its owner may only
    /// read. Nothing was touched.
    #[error("out of bounds: {what} at {address:#x} (rank {rank}), {bytes} bytes")]
    Bounds {
        /// What is wrong with the address.
        what: &'static str,
        /// The address.
        address: u64,
        /// The rank it names.
        rank: u32,
        /// The length of the access.
        bytes: u64,
    },
    /// The world has been finalized, or the job is ending; the reason is in the text.
    #[error("closed: {0}")]
    Closed(String),
    /// The operating system said no.
    #[error("{call} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// The call.
        call: &'static str,
        /// The error number.
        errno: i32,
    },
    /// The program did something that can never work; the message names the argument.
    #[error("misuse: {0}")]
    Misuse(String),
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// What [`Error::OutOfMemory`] says when a rank has no more registrations.
pub(crate) const NO_SLOTS: &str = "a rank has at most 65532 at a time; unregister something";
const _: () = assert!(crate::node::slots::MOST_SLOTS == 65_532);

fn shortage_text(asked: u64, left: u64, what: &str) -> String {
    match what {
        NO_SLOTS => format!("out of registrations: {asked} asked, {left} left ({what})"),
        _ => format!("out of memory: {asked} bytes asked, {left} bytes left ({what})"),
    }
}

fn fate_text(fate: Fate) -> &'static str {
    match fate {
        Fate::NotDone => "",
        Fate::Unknown => "; whether the operation took effect is unknown",
    }
}

impl Error {
    /// A misuse, from its message.
    pub(crate) fn misuse(message: impl Into<String>) -> Error {
        Error::Misuse(message.into())
    }
}

impl From<kumiki_net::Error> for Error {
    fn from(error: kumiki_net::Error) -> Error {
        use kumiki_net::Error as Net;
        match error {
            Net::PeerLost { rank, why } => Error::PeerLost { rank: rank.0, fate: Fate::NotDone, why },
            Net::Timeout { what, after_ms } => Error::Timeout { what, after_ms },
            Net::OutOfMemory { asked, left, what } => Error::OutOfMemory { asked, left, what },
            Net::Refused(why) => Error::Refused(why),
            Net::Closed(why) => Error::Closed(why),
            Net::System { call, errno } => Error::System { call, errno },
            Net::Misuse(what) => Error::Misuse(what),
        }
    }
}

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    /// `fn main() -> kumiki::Result<()>` prints an error with `Debug`.
    #[test]
    fn main_that_returns_an_error_prints_its_message() {
        let lost = Error::PeerLost { rank: 3, fate: Fate::Unknown, why: "it was killed".into() };
        assert_eq!(
            format!("{lost:?}"),
            "rank 3 is lost: it was killed; whether the operation took effect is unknown"
        );
        let result: Result<()> = Err(Error::misuse("starter::<u64>(9): there are 4 ranks"));
        assert_eq!(format!("{result:?}"), "Err(misuse: starter::<u64>(9): there are 4 ranks)");
    }
}
