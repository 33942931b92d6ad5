//! The barrier of the ranks of one node: counters in one word, and a generation, in shared memory.
//!
//! Every rank arrives by one atomic addition, which says what it came for: to go on, to finalize, or to reset. The last
//! arrival opens the barrier at once when there is one node; with several nodes it only says *gathered*, and the leader
//! of the node opens it after it has heard from the other nodes. If not all came for the same, the barrier never opens:
//! whoever sees that first says so in a word of its own (*broken*), where those who sleep find it.
//!
//! A SIGKILL before the addition leaves the barrier closed for good (the loss is announced elsewhere and waiters give
//! up); a SIGKILL after it changes nothing for the others, unless this was the arrival that could have told them that the
//! barrier is broken: then they give up because of the loss.

use super::sync::{fence, AtomicU32, AtomicU64, Ordering};
use crate::Rank;

/// Bits of each of the three counts of arrivals.
const LANE_BITS: u32 = 21;
const LANE: u64 = (1 << LANE_BITS) - 1;
/// The most ranks that can meet on a node.
pub const MOST_MEMBERS: u32 = LANE as u32;

/// What a rank comes to a barrier for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Intent {
    /// To go on when all have come.
    Sync = 0,
    /// To leave the world.
    Finalize = 1,
    /// To be renumbered.
    Reset = 2,
}

impl Intent {
    /// From its number.
    pub fn from_number(number: u8) -> Option<Intent> {
        [Intent::Sync, Intent::Finalize, Intent::Reset].into_iter().find(|&intent| intent as u8 == number)
    }

    /// What an arrival adds to the word of counts: one to all of them, and one to those of its kind.
    fn unit(self) -> u64 {
        match self {
            Intent::Sync => 1,
            Intent::Finalize => 1 | 1 << LANE_BITS,
            Intent::Reset => 1 | 1 << (2 * LANE_BITS),
        }
    }
}

/// Why a barrier can never open: a rank that came for something else than others did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Discord {
    /// The rank: one that finalized, if any did.
    pub rank: Rank,
    /// What it came for.
    pub intent: Intent,
}

/// The shared words, zero at start; each on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct NodeBarrier {
    /// All arrivals, those to finalize, and those to reset.
    arrived: AtomicU64,
    pad0: [u32; 14],
    gathered: AtomicU32,
    pad1: [u32; 15],
    generation: AtomicU32,
    sleepers: AtomicU32,
    /// 0, or a [`Discord`]: the rank and one in the low half, the intent above.
    broken: AtomicU64,
    pad2: [u32; 12],
}

const _: () = assert!(cfg!(loom) || std::mem::size_of::<NodeBarrier>() == 192);

/// What an arrival found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The generation that must pass.
    pub generation: u32,
    /// Whether everybody else had arrived before.
    pub last: bool,
    /// Whether not all who have arrived came for the same: the barrier never opens.
    pub mixed: bool,
}

impl NodeBarrier {
    /// A barrier that nobody has reached.
    pub fn new() -> Self {
        NodeBarrier {
            arrived: AtomicU64::new(0),
            pad0: [0; 14],
            gathered: AtomicU32::new(0),
            pad1: [0; 15],
            generation: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            broken: AtomicU64::new(0),
            pad2: [0; 12],
        }
    }

    /// Arrives as one of `members`. Whoever finds the arrivals mixed calls [`break_up`](Self::break_up); the last one
    /// opens or gathers only if they are not.
    #[inline]
    pub fn arrive(&self, members: u32, intent: Intent) -> Ticket {
        // The generation cannot move on before we have arrived, so reading it first is safe.
        let generation = self.generation.load(Ordering::Acquire);
        let arrived = self.arrived.fetch_add(intent.unit(), Ordering::AcqRel) + intent.unit();
        let (all, finalizing, resetting) =
            (arrived & LANE, arrived >> LANE_BITS & LANE, arrived >> (2 * LANE_BITS));
        let some = |count: u64| count != 0 && count != all;
        Ticket { generation, last: all == u64::from(members), mixed: some(finalizing) || some(resetting) }
    }

    /// Says that the barrier never opens, and why; the first reason counts. Everybody who sleeps must be woken.
    #[cold]
    pub fn break_up(&self, discord: Discord) {
        let word = (u64::from(discord.rank.0) + 1) | ((discord.intent as u64) << 32);
        let _ = self.broken.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Why the barrier never opens, if that is so.
    pub fn broken(&self) -> Option<Discord> {
        let word = self.broken.load(Ordering::Acquire);
        let rank = (word as u32).checked_sub(1).map(Rank)?;
        Some(Discord { rank, intent: Intent::from_number((word >> 32) as u8).unwrap_or(Intent::Finalize) })
    }

    /// Says that all members have arrived; for the last arrival when a leader opens the barrier.
    #[inline]
    pub fn gather(&self, ticket: Ticket) {
        self.gathered.store(ticket.generation.wrapping_add(1), Ordering::Release);
    }

    /// Whether [`gather`](Self::gather) was called in this generation.
    #[inline]
    pub fn is_gathered(&self, ticket: Ticket) -> bool {
        self.gathered.load(Ordering::Acquire) == ticket.generation.wrapping_add(1)
    }

    /// Opens the barrier. Returns whether somebody sleeps and must be woken.
    #[inline]
    pub fn open(&self, ticket: Ticket) -> bool {
        self.arrived.store(0, Ordering::Relaxed);
        self.generation.store(ticket.generation.wrapping_add(1), Ordering::Release);
        // Pairs with the fence of the sleeper below: either it sees the new generation, or we see it.
        fence(Ordering::SeqCst);
        self.sleepers.load(Ordering::Relaxed) != 0
    }

    /// Whether the barrier of this ticket is open.
    #[inline]
    pub fn is_open(&self, ticket: Ticket) -> bool {
        self.generation.load(Ordering::Acquire) != ticket.generation
    }

    /// Announces that the caller is about to sleep; it must look once more whether the barrier is open, and then not
    /// sleep.
    pub fn announce_sleeper(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends what [`announce_sleeper`](Self::announce_sleeper) began.
    pub fn end_sleep(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// The word to sleep on while it holds `ticket.generation`.
    #[cfg(not(loom))]
    pub fn sleep_word(&self) -> &AtomicU32 {
        &self.generation
    }

    /// The word to sleep on while waiting for [`gather`](Self::gather).
    #[cfg(not(loom))]
    pub fn gathered_word(&self) -> &AtomicU32 {
        &self.gathered
    }

    /// How many have arrived and wait for the others.
    pub fn arrivals(&self) -> u32 {
        (self.arrived.load(Ordering::Relaxed) & LANE) as u32
    }

    /// Forgets everything, for a world that starts over. Only while no rank is inside.
    pub fn reset(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.gathered.store(0, Ordering::Relaxed);
        self.sleepers.store(0, Ordering::Relaxed);
        self.broken.store(0, Ordering::Relaxed);
        self.generation.store(0, Ordering::Release);
    }
}

impl Default for NodeBarrier {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    /// What one rank wrote before the barrier is seen by the other after it, twice in a row.
    #[test]
    fn loom_barrier_orders_what_came_before_it() {
        loom::model(|| {
            let barrier = Arc::new(NodeBarrier::new());
            let data = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let run = |me: usize, barrier: &NodeBarrier, data: &[AtomicU32; 2]| {
                for round in 1..=2 {
                    data[me].store(round, Ordering::Relaxed);
                    let ticket = barrier.arrive(2, Intent::Sync);
                    if ticket.last {
                        barrier.open(ticket);
                    }
                    while !barrier.is_open(ticket) {
                        loom::thread::yield_now();
                    }
                    assert!(data[1 - me].load(Ordering::Relaxed) >= round);
                }
            };
            let (b, d) = (barrier.clone(), data.clone());
            let other = loom::thread::spawn(move || run(1, &b, &d));
            run(0, &barrier, &data);
            other.join().unwrap();
        });
    }

    /// A rank that finalizes never opens the barrier for one that goes on, whoever comes first: both learn that it is broken.
    #[test]
    fn loom_a_finalize_never_satisfies_a_sync() {
        loom::model(|| {
            let barrier = Arc::new(NodeBarrier::new());
            let run = |rank: u32, intent: Intent, barrier: &NodeBarrier| {
                let ticket = barrier.arrive(2, intent);
                if ticket.mixed {
                    barrier.break_up(Discord { rank: Rank(1), intent: Intent::Finalize });
                } else if ticket.last {
                    barrier.open(ticket);
                }
                while barrier.broken().is_none() {
                    assert!(!barrier.is_open(ticket), "rank {rank} is let through");
                    loom::thread::yield_now();
                }
                assert!(!barrier.is_open(ticket));
                barrier.broken()
            };
            let b = barrier.clone();
            let leaver = loom::thread::spawn(move || run(1, Intent::Finalize, &b));
            let seen = run(0, Intent::Sync, &barrier);
            assert_eq!(seen, Some(Discord { rank: Rank(1), intent: Intent::Finalize }));
            assert_eq!(leaver.join().unwrap(), seen);
        });
    }

    /// A sleeper is never forgotten: it sees the open barrier, or the opener sees the sleeper.
    #[test]
    fn loom_barrier_never_forgets_a_sleeper() {
        loom::model(|| {
            let barrier = Arc::new(NodeBarrier::new());
            let ticket = barrier.arrive(2, Intent::Sync);
            let b = barrier.clone();
            let opener = loom::thread::spawn(move || {
                let ticket = b.arrive(2, Intent::Sync);
                assert!(ticket.last);
                b.open(ticket)
            });
            barrier.announce_sleeper();
            let sleeps = !barrier.is_open(ticket);
            let woken = opener.join().unwrap();
            assert!(!sleeps || woken, "would sleep for ever");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_arrival_opens_and_the_next_round_starts_closed() {
        let barrier = NodeBarrier::new();
        let first = barrier.arrive(2, Intent::Sync);
        assert!(!first.last && !barrier.is_open(first));
        let second = barrier.arrive(2, Intent::Sync);
        assert!(second.last);
        barrier.open(second);
        assert!(barrier.is_open(first));
        let next = barrier.arrive(2, Intent::Sync);
        assert!(!next.last && !barrier.is_open(next));
    }

    #[test]
    fn arrivals_for_different_things_are_mixed_and_equal_ones_are_not() {
        use Intent::{Finalize, Reset, Sync};
        for intent in [Sync, Finalize, Reset] {
            assert_eq!(Intent::from_number(intent as u8), Some(intent));
            let barrier = NodeBarrier::new();
            for round in 0..3 {
                let tickets = [0, 1, 2].map(|_| barrier.arrive(3, intent));
                assert!(tickets.iter().all(|ticket| !ticket.mixed && ticket.generation == round));
                assert!(tickets[2].last && !tickets[1].last);
                barrier.open(tickets[2]);
            }
        }
        for intents in
            [[Sync, Sync, Finalize], [Finalize, Sync, Sync], [Reset, Finalize, Reset], [Sync, Reset, Reset]]
        {
            let barrier = NodeBarrier::new();
            let tickets = intents.map(|intent| barrier.arrive(3, intent));
            assert!(tickets[2].mixed && !tickets[0].mixed, "{intents:?}");
            assert_eq!(barrier.broken(), None);
            let discord = Discord { rank: Rank(7), intent: intents[0] };
            barrier.break_up(discord);
            barrier.break_up(Discord { rank: Rank(8), intent: Finalize });
            assert_eq!(barrier.broken(), Some(discord), "the first reason counts");
            barrier.reset();
            assert_eq!(barrier.broken(), None);
        }
    }
}
