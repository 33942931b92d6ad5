//! The board of a rank: what it tells whoever looks at its world from outside (`kumiki top`), beside what it waits for.
//!
//! One cache line in the control block, which the rank alone writes, and nobody who runs reads. It is written when a rank joins, when it waits for a
//! message, and after some dozen messages: never for a single one. So what stands here is as of then, and may be old. Every field is one atomic word; a
//! SIGKILL leaves each old or new, and the line as it was when it was written last.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use crate::Rank;

/// How a rank came into its world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// Nobody has said so.
    #[default]
    Unknown,
    /// It is a world of one.
    Alone,
    /// `kumiki run` started it.
    Run,
    /// It is in one part of a job that several launchers start (`macprun`, a portfile).
    Part,
    /// Another launcher started it.
    Launcher,
    /// It is a process of a block, with this rank in it, of several programs that have joined.
    Block {
        /// The number of the block.
        block: u32,
        /// The rank in it.
        rank: u32,
    },
}

impl Origin {
    /// As three words.
    fn words(self) -> [u32; 3] {
        match self {
            Origin::Unknown => [0; 3],
            Origin::Alone => [1, 0, 0],
            Origin::Run => [2, 0, 0],
            Origin::Part => [3, 0, 0],
            Origin::Launcher => [4, 0, 0],
            Origin::Block { block, rank } => [5, block, rank],
        }
    }

    pub(super) fn from_words([kind, block, rank]: [u32; 3]) -> Origin {
        match kind {
            1 => Origin::Alone,
            2 => Origin::Run,
            3 => Origin::Part,
            4 => Origin::Launcher,
            5 => Origin::Block { block, rank },
            _ => Origin::Unknown,
        }
    }
}

/// Messages of a rank: how many it has sent and received, and how many wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Messages that it has sent, and their bytes.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Messages that have come.
    pub received: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Messages that have come and that nobody has asked for.
    pub unexpected: u32,
    /// Receives for which no message has come.
    pub receives: u32,
    /// Messages that are not on their way, or that nobody has fetched.
    pub sends: u32,
}

/// The board; all zero at the start.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Board {
    /// The rank, plus one: 0 until it has come.
    pub(super) rank: AtomicU32,
    pub(super) origin: [AtomicU32; 3],
    pub(super) unexpected: AtomicU32,
    pub(super) receives: AtomicU32,
    pub(super) sends: AtomicU32,
    /// Operations that are not complete.
    pub(super) operations: AtomicU32,
    pub(super) sent: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) received_bytes: AtomicU64,
}

const _: () = assert!(cfg!(loom) || std::mem::size_of::<Board>() == 64);

impl Board {
    /// Who this is.
    pub fn introduce(&self, rank: Rank, origin: Origin) {
        for (word, value) in self.origin.iter().zip(origin.words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.rank.store(rank.0.wrapping_add(1), Ordering::Release);
    }

    /// What its messages have come to.
    pub fn tell(&self, traffic: &Traffic) {
        let counts = [&self.sent, &self.sent_bytes, &self.received, &self.received_bytes];
        let values = [traffic.sent, traffic.sent_bytes, traffic.received, traffic.received_bytes];
        counts.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        let queues = [&self.unexpected, &self.receives, &self.sends];
        let values = [traffic.unexpected, traffic.receives, traffic.sends];
        queues.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// How many of its operations are not complete.
    pub fn tell_operations(&self, count: u64) {
        self.operations.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}
