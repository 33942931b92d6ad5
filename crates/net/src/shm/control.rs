//! The control block of a rank: one page of words that the ranks and the agent of its node read.
//!
//! The owner writes what it waits for, and the agent reads it. Every field is one atomic word, so a SIGKILL leaves each
//! old or new; the wait that a dead rank was in is shown as its last known one.

use super::bell::Bell;
use super::board::Board;
use super::errand::Errands;
use super::haul::Haul;
use super::hazard::Hazards;
use super::pin::Pins;
use super::sync::{AtomicU32, AtomicU64, Ordering};
use super::team::TeamNotes;

/// What a rank waits for, as others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Activity {
    /// It computes, or has not called us.
    Computing = 0,
    /// It is in `init`.
    Init = 1,
    /// It is in a barrier.
    Barrier = 2,
    /// It waits for operations to complete.
    Complete = 3,
    /// It is in `finalize`.
    Finalize = 4,
    /// It is in `reset`.
    Reset = 5,
    /// It waits until nobody touches a region that it unregisters.
    Unregister = 6,
    /// It waits for a word of its memory to be written.
    Word = 7,
    /// It waits for a message to come.
    Receive = 8,
    /// It waits for a message that it has sent to be received.
    Send = 9,
    /// It waits for others in a collective.
    Collective = 10,
    /// It waits for the other end of a channel.
    Channel = 11,
    /// It waits for cells of a halo.
    Halo = 12,
    /// It is in a barrier of a team.
    Team = 13,
    /// It leaves joined programs, and waits for those with whom it had collectives.
    Leave = 14,
}

impl Activity {
    pub(super) fn from_word(word: u32) -> Activity {
        match word {
            1 => Activity::Init,
            2 => Activity::Barrier,
            3 => Activity::Complete,
            4 => Activity::Finalize,
            5 => Activity::Reset,
            6 => Activity::Unregister,
            7 => Activity::Word,
            8 => Activity::Receive,
            9 => Activity::Send,
            10 => Activity::Collective,
            11 => Activity::Channel,
            12 => Activity::Halo,
            13 => Activity::Team,
            14 => Activity::Leave,
            _ => Activity::Computing,
        }
    }
}

impl std::fmt::Display for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Activity::Computing => "computes",
            Activity::Init => "waits in init",
            Activity::Barrier => "waits in a barrier",
            Activity::Complete => "waits for an operation to complete",
            Activity::Finalize => "waits in finalize",
            Activity::Reset => "waits in reset",
            Activity::Unregister => "waits to unregister a region",
            Activity::Word => "waits for a word of its memory",
            Activity::Receive => "waits for a message",
            Activity::Send => "waits for a message to be received",
            Activity::Collective => "waits in a collective",
            Activity::Channel => "waits at a channel",
            Activity::Halo => "waits for cells of a halo",
            Activity::Team => "waits in a barrier of a team",
            Activity::Leave => "waits to leave",
        })
    }
}

/// A rank that no one in particular is waited for.
pub const NOBODY: u32 = u32::MAX;

/// What whoever allocates in a rank's pool touches first, in a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct PoolWords {
    /// The lock of the pool (see `lock.rs`).
    pub lock: AtomicU64,
    /// Blocks in use; changed under the lock.
    pub blocks: AtomicU64,
    /// Bytes that the pool has; changed under the lock. Its region entries say the same of its parts, but whoever allocates has
    /// this cache line anyway.
    pub bytes: AtomicU64,
}

/// The shared words; all zero at start.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Control {
    pub(super) activity: AtomicU32,
    pub(super) waits_for: AtomicU32,
    pub(super) since_ms: AtomicU64,
    /// The process id, for the same-node accelerator only; never used as proof of life.
    pub pid: AtomicU32,
    /// How many barriers the rank has come to.
    pub barriers: AtomicU32,
    /// What it came to the latest of them for: a number of `barrier::Intent`. Written before it arrives there.
    pub intent: AtomicU32,
    /// Bytes that the rank's ledger holds against its budget. Here, because neighbours that allocate in the rank's pool
    /// book there what they take.
    pub booked: AtomicU64,
    /// Rung by whoever writes to memory of the rank while it listens.
    pub bell: Bell,
    /// For whoever looks from outside.
    pub board: Board,
    /// What guards the rank's pool.
    pub pool: PoolWords,
    /// Regions that this rank touches in other ranks' private memory.
    pub hazards: Hazards,
    /// Regions that this rank has in view.
    pub pins: Pins,
    /// What neighbours want done to this rank's private memory.
    pub errands: Errands,
    /// What a neighbour copies into or out of this rank's private memory, and shares with it.
    pub haul: Haul,
    /// Where neighbours find what they share of a team that is being made.
    pub teams: TeamNotes,
}

#[cfg(not(loom))]
const _: () = assert!(std::mem::size_of::<Control>() == 4096);

impl Control {
    /// Tells the others what this rank is about to wait for.
    #[inline]
    pub fn begin_wait(&self, activity: Activity, peer: u32, now_ms: u64) {
        self.since_ms.store(now_ms, Ordering::Relaxed);
        self.waits_for.store(peer, Ordering::Relaxed);
        self.activity.store(activity as u32, Ordering::Release);
    }

    /// Tells the others once more what this rank waits for, if another of its threads has told them meanwhile that a wait is over.
    #[inline]
    pub fn go_on_waiting(&self, activity: Activity, peer: u32, since_ms: u64) {
        if self.activity.load(Ordering::Relaxed) == Activity::Computing as u32 {
            self.begin_wait(activity, peer, since_ms);
        }
    }

    /// Tells the others that the wait is over.
    #[inline]
    pub fn end_wait(&self) {
        self.activity.store(Activity::Computing as u32, Ordering::Release);
    }

    /// What the rank waits for: the activity, the peer ([`NOBODY`] if none in particular), and since when.
    pub fn waiting(&self) -> (Activity, u32, u64) {
        let activity = Activity::from_word(self.activity.load(Ordering::Acquire));
        (activity, self.waits_for.load(Ordering::Relaxed), self.since_ms.load(Ordering::Relaxed))
    }
}
