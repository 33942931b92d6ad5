//! The barrier of the ranks of one node: a counter and a generation in shared memory.
//!
//! Every rank arrives by one atomic addition. The last arrival opens the barrier at once when there is one node;
//! with several nodes it only says *gathered*, and the leader of the node opens it after it has heard from the
//! other nodes. A SIGKILL before the addition leaves the barrier closed for good (the loss is announced
//! elsewhere and waiters give up); a SIGKILL after it changes nothing for the others.

use super::sync::{fence, AtomicU32, Ordering};

/// The shared words, zero at start; each on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct NodeBarrier {
    arrived: AtomicU32,
    pad0: [u32; 15],
    gathered: AtomicU32,
    pad1: [u32; 15],
    generation: AtomicU32,
    sleepers: AtomicU32,
    pad2: [u32; 14],
}

/// What an arrival found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The generation that must pass.
    pub generation: u32,
    /// Whether everybody else had arrived before.
    pub last: bool,
}

impl NodeBarrier {
    /// A barrier that nobody has reached.
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        NodeBarrier {
            arrived: AtomicU32::new(0),
            pad0: [0; 15],
            gathered: AtomicU32::new(0),
            pad1: [0; 15],
            generation: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            pad2: [0; 14],
        }
    }

    /// Arrives as one of `members`.
    #[inline]
    pub fn arrive(&self, members: u32) -> Ticket {
        // The generation cannot move on before we have arrived, so reading it first is safe.
        let generation = self.generation.load(Ordering::Acquire);
        let last = self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == members;
        Ticket { generation, last }
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

    /// Forgets everything, for a world that starts over. Only while no rank is inside.
    pub fn reset(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.gathered.store(0, Ordering::Relaxed);
        self.sleepers.store(0, Ordering::Relaxed);
        self.generation.store(0, Ordering::Release);
    }
}

#[cfg(any(test, loom))]
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
                    let ticket = barrier.arrive(2);
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

    /// A sleeper is never forgotten: it sees the open barrier, or the opener sees the sleeper.
    #[test]
    fn loom_barrier_never_forgets_a_sleeper() {
        loom::model(|| {
            let barrier = Arc::new(NodeBarrier::new());
            let ticket = barrier.arrive(2);
            let b = barrier.clone();
            let opener = loom::thread::spawn(move || {
                let ticket = b.arrive(2);
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
        let first = barrier.arrive(2);
        assert!(!first.last && !barrier.is_open(first));
        let second = barrier.arrive(2);
        assert!(second.last);
        barrier.open(second);
        assert!(barrier.is_open(first));
        let next = barrier.arrive(2);
        assert!(!next.last && !barrier.is_open(next));
    }
}
