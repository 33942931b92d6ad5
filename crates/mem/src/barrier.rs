//! The barrier over all ranks.
//!
//! Ranks of a node meet in the arena. The leader of each node (its first rank) then exchanges signals with the
//! leaders of the others in ⌈log2(nodes)⌉ rounds, and opens its node's barrier. A barrier that was given up because of
//! a deadline is not left: the next call goes on with it.

use crate::core::Core;
use crate::error::Fate;
use crate::progress::Patience;
use crate::protocol;
use crate::{Error, Result};
use kumiki_net::os::{futex, time};
use kumiki_net::shm::barrier::Ticket;
use kumiki_net::shm::control::{Activity, NOBODY};
use kumiki_net::shm::world::{Cause, Status};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long past the peer timeout a barrier waits after it has noticed that a rank left.
const LEFT_GRACE_MS: u64 = 900;
/// The longest sleep without looking at the job.
const SLICE_MS: u64 = 100;

/// A barrier that this rank has entered and not left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    ticket: Ticket,
    epoch: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The leader waits for the ranks of its node.
    Gather,
    /// The leader exchanges signals of this round; the flag says whether its own is sent.
    Round(u32, bool),
    /// Everybody else waits for the leader, or for the last arrival.
    Open,
}

impl Core {
    /// Enters a barrier, or goes on with one that was given up.
    pub(crate) fn barrier(&self, activity: Activity, deadline_ms: Option<u64>) -> Result<()> {
        self.check_usable()?;
        let mut place = self.passage.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut passage = match place.take() {
            Some(passage) => passage,
            None => {
                // A barrier that failed still counts who had come to it. Coming again would stand in for whoever is
                // missing, and the barrier would open without it. Nor does whoever has left come to a new one.
                let coming = self.barriers() + 1;
                if let Err(error) = self.missing_rank(coming, &mut Some(0)) {
                    // We have come, if in vain: whoever misses us later should blame who left before.
                    self.control().barriers.store(coming, Ordering::Relaxed);
                    return Err(error);
                }
                match self.enter() {
                    Some(passage) => passage,
                    None => return Ok(()),
                }
            }
        };
        let result = self.pass(&mut passage, activity, deadline_ms);
        if matches!(result, Err(Error::Timeout { .. })) {
            *place = Some(passage);
        }
        result
    }

    /// Arrives. `None` if that opened the barrier.
    fn enter(&self) -> Option<Passage> {
        let barrier = &self.arena.shared().barrier;
        let config = self.arena.config();
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        self.control().barriers.store(epoch as u32, Ordering::Relaxed);
        let ticket = barrier.arrive(config.local_ranks);
        if config.nodes == 1 {
            if ticket.last {
                self.open(ticket);
                return None;
            }
            return Some(Passage { ticket, epoch, stage: Stage::Open });
        }
        if ticket.last {
            barrier.gather(ticket);
            futex::wake_all(barrier.gathered_word());
        }
        let stage = if self.local == 0 { Stage::Gather } else { Stage::Open };
        Some(Passage { ticket, epoch, stage })
    }

    fn open(&self, ticket: Ticket) {
        let barrier = &self.arena.shared().barrier;
        if barrier.open(ticket) {
            futex::wake_all(barrier.sleep_word());
        }
    }

    fn pass(&self, passage: &mut Passage, activity: Activity, deadline_ms: Option<u64>) -> Result<()> {
        let barrier = &self.arena.shared().barrier;
        let ticket = passage.ticket;
        loop {
            match passage.stage {
                Stage::Gather => {
                    let word = barrier.gathered_word();
                    self.wait_on_arena(activity, deadline_ms, word, &|| barrier.is_gathered(ticket))?;
                    passage.stage = Stage::Round(0, false);
                }
                Stage::Round(round, _) if 1u64 << round >= self.arena.config().nodes as u64 => {
                    self.open(ticket);
                    return Ok(());
                }
                Stage::Round(round, false) => {
                    self.signal(round, passage.epoch)?;
                    passage.stage = Stage::Round(round, true);
                }
                Stage::Round(round, true) => {
                    let epoch = passage.epoch;
                    self.wait_for_signal(activity, deadline_ms, round, epoch)?;
                    passage.stage = Stage::Round(round + 1, false);
                }
                Stage::Open => {
                    let word = barrier.sleep_word();
                    return self.wait_on_arena(activity, deadline_ms, word, &|| barrier.is_open(ticket));
                }
            }
        }
    }

    /// Tells the leader 2^round nodes further on that we have come this far.
    fn signal(&self, round: u32, epoch: u64) -> Result<()> {
        let nodes = self.arena.config().nodes as u64;
        let node = ((self.node as u64 + (1 << round)) % nodes) as u32;
        let leader = self.leader(node)?;
        let header = Header { kind: protocol::SIGNAL, a: round as u64, b: epoch, ..Header::default() };
        self.engine().send(self, leader, protocol::notice(header))
    }

    /// The first rank of a node, as its agent wrote it into the table of nodes. Where there is no agent it is looked for; there
    /// each rank is a node.
    fn leader(&self, node: u32) -> Result<Rank> {
        if let Some(leader) = self.arena.node(node).and_then(|word| word.leader()) {
            return Ok(leader);
        }
        let leads = |rank: &Rank| {
            self.arena.place(*rank).is_some_and(|word| {
                let place = word.load();
                place.node == node && place.local == 0
            })
        };
        let found = std::iter::once(node).chain(0..self.ranks()).map(Rank).find(leads);
        found.ok_or_else(|| Error::Closed(format!("node {node} has no ranks")))
    }

    fn wait_for_signal(
        &self,
        activity: Activity,
        deadline_ms: Option<u64>,
        round: u32,
        epoch: u64,
    ) -> Result<()> {
        let nodes = self.arena.config().nodes as u64;
        let node = ((self.node as u64 + nodes - (1 << round) % nodes) % nodes) as u32;
        let leader = self.leader(node)?;
        let mut left_since = None;
        let mut failed = None;
        self.engine().state.awaited = Some(leader);
        let result = self.wait_until(activity, deadline_ms, |engine| {
            if engine.state.signals[round as usize] >= epoch {
                return Some(Ok(()));
            }
            failed = self.missing_rank(epoch as u32, &mut left_since).err();
            failed.take().map(Err)
        });
        self.engine().state.awaited = None;
        match result {
            Err(Error::Timeout { after_ms, .. }) => {
                let what = format!("({activity}): {leader}, or another of node {node}, has not come");
                Err(Error::Timeout { what, after_ms })
            }
            other => other?,
        }
    }

    /// Fails if a rank is lost, or left before it came to this barrier. It may have left through this very one, which then
    /// opens as soon as everybody who passes on that all have come is given a processor; whoever is not for longer than
    /// the peer timeout is lost.
    fn missing_rank(&self, barrier: u32, left_since: &mut Option<u64>) -> Result<()> {
        let shared = self.arena.shared();
        if shared.losses() == 0 {
            return Ok(());
        }
        if let Some(rank) = shared.first_lost() {
            let cause = self.arena.place(rank).map_or(Cause::UNKNOWN, |word| word.load().cause);
            return Err(Error::PeerLost { rank, fate: Fate::NotDone, why: cause.to_string() });
        }
        let place = |rank: u32| self.arena.place(Rank(rank)).map(|word| (Rank(rank), word.load()));
        let left = (0..self.ranks()).filter_map(place).filter(|(_, place)| place.status == Status::Left);
        let Some((first, _)) = left.clone().next() else { return Ok(()) };
        // Whoever left through the barrier before this one is to blame, and not who gave up because of that.
        let last = Cause::left_after(barrier.wrapping_sub(1));
        let culprit = left.clone().find(|(_, place)| place.cause == last);
        let now_ms = time::now_ms();
        let missed =
            match culprit.or_else(|| left.clone().find(|(_, place)| !place.may_have_come_to(barrier))) {
                Some((rank, _)) => rank,
                None if now_ms - *left_since.get_or_insert(now_ms) > self.left_grace_ms() => first,
                None => return Ok(()),
            };
        let why = "it has finalized and will not come to this barrier".to_string();
        Err(Error::PeerLost { rank: missed, fate: Fate::NotDone, why })
    }

    /// How many barriers this rank has come to.
    fn barriers(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed) as u32
    }

    /// How long a barrier waits after it has noticed that a rank left.
    fn left_grace_ms(&self) -> u64 {
        u64::from(self.arena.config().peer_timeout_ms) + LEFT_GRACE_MS
    }

    /// Waits for a word of the arena: spins (and polls, if there is a transport), then sleeps on it.
    pub(crate) fn wait_on_arena(
        &self,
        activity: Activity,
        deadline_ms: Option<u64>,
        word: &AtomicU32,
        done: &dyn Fn() -> bool,
    ) -> Result<()> {
        if done() {
            return Ok(());
        }
        let polls = self.has_transport.load(Ordering::Relaxed);
        let busy = polls.then(|| {
            self.waiting.inline_turns.fetch_add(1, Ordering::Relaxed);
            self.waiting.busy()
        });
        let mut patience = Patience::new(self);
        let mut found = false;
        while !found {
            found = done();
            if found || patience.exhausted() {
                break;
            }
            if polls && self.poll_for_others() {
                patience.renew();
            }
            // However much traffic there is: somebody may be lost, or the deadline past.
            if patience.must_look_up() {
                break;
            }
        }
        drop(busy);
        if found {
            return Ok(());
        }
        let since_ms = time::now_ms();
        self.control().begin_wait(activity, NOBODY, since_ms);
        self.waiting.arena_sleepers.fetch_add(1, Ordering::SeqCst);
        let result = self.sleep_on_arena(activity, deadline_ms, since_ms, word, done);
        self.waiting.arena_sleepers.fetch_sub(1, Ordering::SeqCst);
        self.control().end_wait();
        result
    }

    fn sleep_on_arena(
        &self,
        activity: Activity,
        deadline_ms: Option<u64>,
        since_ms: u64,
        word: &AtomicU32,
        done: &dyn Fn() -> bool,
    ) -> Result<()> {
        let barrier = &self.arena.shared().barrier;
        let mut left_since = None;
        loop {
            let seen = word.load(Ordering::Acquire);
            if done() {
                return Ok(());
            }
            self.missing_rank(self.barriers(), &mut left_since)?;
            self.check_wait()?;
            let now_ms = time::now_ms();
            let left_ms = deadline_ms.map_or(SLICE_MS, |deadline_ms| deadline_ms.saturating_sub(now_ms));
            if left_ms == 0 {
                let after_ms = now_ms - since_ms;
                return Err(Error::Timeout { what: format!("({activity}): {}", self.absent()), after_ms });
            }
            // Announced before the last look, so that whoever opens the barrier sees us or we see it open.
            barrier.announce_sleeper();
            if !done() {
                futex::wait(word, seen, left_ms.min(SLICE_MS));
            }
            barrier.end_sleep();
        }
    }

    /// Polls the engine on behalf of others while this thread waits for memory. Whether something happened.
    fn poll_for_others(&self) -> bool {
        let Ok(mut engine) = self.engine.try_lock() else { return false };
        let happened = engine.poll(self).unwrap_or(0) > 0;
        drop(engine);
        if happened {
            self.wake_sleepers();
        }
        happened
    }

    /// Which ranks of this node are not in a barrier, for a message.
    fn absent(&self) -> String {
        let computing: Vec<String> = (0..self.ranks())
            .filter(|&rank| rank != self.rank.0)
            .filter_map(|rank| {
                let place = self.arena.place(Rank(rank))?.load();
                let control = self.arena.control(place.local).filter(|_| place.node == self.node)?;
                (control.waiting().0 == Activity::Computing).then(|| rank.to_string())
            })
            .take(8)
            .collect();
        if computing.is_empty() {
            return "ranks of other nodes have not come".into();
        }
        format!("rank {} has not come", computing.join(", "))
    }
}
