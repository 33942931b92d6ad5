//! The barrier over all ranks: does what a [`Passage`] says, and waits.
//!
//! A barrier is left only by passing it: if a deadline or an error kept a rank from that, its next call goes on with it, and
//! does not arrive a second time.

use crate::drive::patience::Patience;
use crate::drive::wait::Shown;
use crate::drive::Drive;
use crate::engine::barrier::{leader, signalled, signaller, News, Passage, Step, WORLD};
use crate::engine::frames::{self, Signal};
use crate::error::Fate;
use crate::{Error, Result};
use kumiki_net::agent::channel::ToAgent;
use kumiki_net::os::{futex, time};
use kumiki_net::shm::barrier::{Discord, Intent, NodeBarrier, Ticket};
use kumiki_net::shm::control::{Activity, Control, NOBODY};
use kumiki_net::shm::world::{Cause, Status};
use kumiki_net::Rank;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long past the peer timeout a barrier waits after it has noticed that a rank left.
const LEFT_GRACE_MS: u64 = 900;
/// How long whoever has work to do in a barrier sleeps there…
const WORK_MS: u64 = 1;
/// …and for how long it works on if the barrier never opens.
const WORK_ON_MS: u64 = 10_000;
/// Turns after which a wait for memory sleeps even if something comes for others at every turn.
const TRAFFIC_TURNS: u32 = 1024;
/// The longest sleep without looking at the job.
const SLICE_MS: u64 = 100;

/// A barrier of this node, for whoever waits there.
pub(crate) trait Gate {
    /// The words.
    fn barrier(&self) -> &NodeBarrier;

    /// Fails if it can never open.
    fn check(&self, left_since: &mut Option<u64>) -> Result<()>;

    /// Who has not come, for a message.
    fn absent(&self) -> String;

    /// Tells the leader that a round is for that we have come this far.
    fn signal(&self, round: u32, signal: Signal) -> Result<()>;

    /// Waits for the signal of a round; gives what it said.
    fn wait_for_signal(
        &self,
        activity: Activity,
        passage: &Passage,
        deadline_ms: Option<u64>,
        round: u32,
    ) -> Result<Signal>;

    /// A signal said that it is broken: what that comes to.
    fn heard_of_discord(&self, discord: Discord) -> Error;
}

/// The barrier of all ranks, for one that has come to it for this.
struct Everybody<'a> {
    drive: &'a Drive,
    intent: Intent,
}

impl Gate for Everybody<'_> {
    fn barrier(&self) -> &NodeBarrier {
        &self.drive.arena.shared().barrier
    }

    fn check(&self, left_since: &mut Option<u64>) -> Result<()> {
        if let Some(discord) = self.barrier().broken() {
            return Err(self.drive.discord_error(discord, self.intent));
        }
        self.drive.missing_rank(self.intent, self.drive.barriers(), left_since)
    }

    fn absent(&self) -> String {
        self.drive.absent()
    }

    fn signal(&self, round: u32, signal: Signal) -> Result<()> {
        self.drive.signal(round, signal)
    }

    fn wait_for_signal(
        &self,
        activity: Activity,
        passage: &Passage,
        deadline_ms: Option<u64>,
        round: u32,
    ) -> Result<Signal> {
        self.drive.wait_for_signal(activity, passage, deadline_ms, round)
    }

    fn heard_of_discord(&self, discord: Discord) -> Error {
        self.drive.break_up(discord);
        self.drive.discord_error(discord, self.intent)
    }
}

/// Lets everybody of this node through.
pub(crate) fn open(barrier: &NodeBarrier, ticket: Ticket) {
    if barrier.open(ticket) {
        futex::wake_all(barrier.sleep_word());
    }
}

impl Drive {
    /// Enters a barrier, or goes on with one that was given up: first to its end, if it was of another kind.
    pub(crate) fn barrier(&self, activity: Activity, deadline_ms: Option<u64>) -> Result<()> {
        self.check_usable()?;
        let intent = intent_of(activity);
        if intent != Intent::Sync {
            self.leave_teams();
        }
        let mut place = self.passage.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            let mut passage = match *place {
                Some(passage) => passage,
                None => match self.begin_passage(intent)? {
                    Some(passage) => passage,
                    None => return Ok(()),
                },
            };
            let gate = Everybody { drive: self, intent: passage.intent };
            let passed = self.pass(&gate, &mut passage, activity, deadline_ms);
            if passed.is_err() {
                self.tell_of_discord(&mut passage);
            }
            *place = passed.is_err().then_some(passage);
            passed?;
            if passage.intent == intent {
                return Ok(());
            }
        }
    }

    /// Enters a barrier, and works there until all have come: `work` says whether it has something left to do. If a rank is lost, so that
    /// they never will, the work is done all the same, for a while.
    pub(crate) fn meet_while(&self, activity: Activity, mut work: impl FnMut() -> bool) -> Result<()> {
        let mut lost = None;
        loop {
            let before = (self.pace.comings(), self.arena.shared().losses());
            match (work(), lost.take()) {
                (true, Some((error, until_ms))) if time::now_ms() < until_ms => {
                    lost = Some((error, until_ms))
                }
                (_, Some((error, _))) => return Err(error),
                (false, None) => return self.barrier(activity, None),
                (true, None) => match self.barrier(activity, Some(self.next_look_ms())) {
                    Err(Error::Timeout { .. }) => {}
                    Err(error @ Error::PeerLost { .. }) => lost = Some((error, time::now_ms() + WORK_ON_MS)),
                    met => return met,
                },
            }
            if let Err(error) = self.await_work(before, lost.is_some()) {
                return Err(lost.map_or(error, |(lost, _)| lost));
            }
        }
    }

    /// When whoever works in a barrier looks at its work again, though nobody has come.
    fn next_look_ms(&self) -> u64 {
        time::now_ms() + if self.pace.sleeps_at_once() { 0 } else { WORK_MS }
    }

    /// Waits until there may be something to do.
    fn await_work(&self, (comings, losses): (u64, u32), is_alone: bool) -> Result<()> {
        let has_come = || self.pace.comings() != comings || self.arena.shared().losses() != losses;
        let limit_ms = match (self.pace.sleeps_at_once(), is_alone) {
            (true, false) => None,
            (_, true) => Some(time::now_ms() + WORK_MS),
            (false, false) => return Ok(()),
        };
        match self.wait_until(Activity::Word, limit_ms, |_| has_come().then_some(())) {
            Err(Error::Timeout { .. }) => Ok(()),
            waited => waited,
        }
    }

    /// Comes to a new barrier, which whoever is lost or has left does not. `None` if this opened it.
    fn begin_passage(&self, intent: Intent) -> Result<Option<Passage>> {
        let coming = self.barriers() + 1;
        if let Err(error) = self.missing_rank(intent, coming, &mut Some(0)) {
            // We have come, if in vain: whoever misses us later should blame who left before.
            self.control().barriers.store(coming, Ordering::Relaxed);
            // Whoever comes to a barrier that is broken already has not broken it, whatever for it comes: it may have been told
            // in a barrier before, and finalize because of that.
            let deserted = self.arena.shared().barrier.broken().filter(|by| by.intent == Intent::Finalize);
            return Err(deserted.map_or(error, |by| self.discord_error(by, Intent::Sync)));
        }
        Ok(self.enter(intent))
    }

    /// Arrives. `None` if that opened the barrier.
    fn enter(&self, intent: Intent) -> Option<Passage> {
        let barrier = &self.arena.shared().barrier;
        let config = self.arena.config();
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        self.control().intent.store(intent as u32, Ordering::Relaxed);
        self.control().barriers.store(epoch as u32, Ordering::Relaxed);
        let ticket = barrier.arrive(config.local_ranks, intent);
        if ticket.last && !ticket.mixed && config.nodes == 1 {
            open(barrier, ticket);
            return None;
        }
        let is_leader = config.nodes > 1 && self.local == 0;
        if ticket.mixed {
            self.break_up(self.who_differs(epoch as u32));
        } else if ticket.last {
            barrier.gather(ticket);
            // Only who leads waits for that.
            if !is_leader {
                futex::wake_all(barrier.gathered_word());
            }
        }
        if is_leader {
            self.hear_of_discord(epoch);
        }
        Some(Passage::new(ticket, epoch, intent, self.rank, config.nodes, is_leader))
    }

    /// Goes through a barrier that was entered, as the passage says.
    pub(crate) fn pass(
        &self,
        gate: &dyn Gate,
        passage: &mut Passage,
        activity: Activity,
        deadline_ms: Option<u64>,
    ) -> Result<()> {
        let (barrier, ticket) = (gate.barrier(), passage.ticket);
        let mut news = News::Nothing;
        loop {
            news = match passage.advance(news) {
                Step::AwaitNode => {
                    let word = barrier.gathered_word();
                    self.wait_on_arena(gate, activity, deadline_ms, word, &|| barrier.is_gathered(ticket))?;
                    News::NodeCame
                }
                Step::Send(round, signal) => {
                    gate.signal(round, signal)?;
                    News::Sent
                }
                Step::AwaitSignal(round) => {
                    News::Heard(gate.wait_for_signal(activity, passage, deadline_ms, round)?)
                }
                Step::Open => {
                    open(barrier, ticket);
                    return Ok(());
                }
                Step::AwaitOpening => {
                    let word = barrier.sleep_word();
                    return self
                        .wait_on_arena(gate, activity, deadline_ms, word, &|| barrier.is_open(ticket));
                }
                Step::Broken(discord) => return Err(gate.heard_of_discord(discord)),
            }
        }
    }

    /// Tells the ranks of this node that the barrier never opens.
    pub(crate) fn break_up(&self, discord: Discord) {
        kumiki_net::event!(warn, rank = self.rank.0, by = discord.rank.0, "a barrier is broken");
        let barrier = &self.arena.shared().barrier;
        barrier.break_up(discord);
        futex::wake_all(barrier.sleep_word());
        futex::wake_all(barrier.gathered_word());
    }

    /// A leader has come to a barrier that another node may have found broken before.
    fn hear_of_discord(&self, epoch: u64) {
        let heard = self.machine().engine.barriers.world.discord(epoch);
        if let Some(discord) = heard {
            self.break_up(discord);
        }
    }

    /// Which rank of this node came to a barrier for something else than others did: to finalize, if any did, and the first
    /// of them; else to reset.
    fn who_differs(&self, barrier: u32) -> Discord {
        let came_for = |intent: Intent| {
            let came = self
                .neighbours_at(barrier)
                .filter(|(_, control)| control.intent.load(Ordering::Relaxed) == intent as u32);
            // Who came first has waited longest; who does not wait yet has just come.
            let since_ms = |control: &Control| match control.waiting() {
                (Activity::Computing, _, _) => u64::MAX,
                (_, _, since_ms) => since_ms,
            };
            came.min_by_key(|(_, control)| since_ms(control)).map(|(rank, _)| Discord { rank, intent })
        };
        let own = Discord { rank: self.rank, intent: Intent::Reset };
        came_for(Intent::Finalize).or_else(|| came_for(Intent::Reset)).unwrap_or(own)
    }

    /// The ranks of this node that have come to a barrier as their latest.
    fn neighbours_at(&self, barrier: u32) -> impl Iterator<Item = (Rank, &Control)> {
        (0..self.ranks()).filter_map(move |rank| {
            let place = self.arena.place(Rank(rank))?.load();
            let control = self.arena.control(place.local).filter(|_| place.node == self.node)?;
            (control.barriers.load(Ordering::Relaxed) == barrier).then_some((Rank(rank), control))
        })
    }

    /// What a barrier that is broken comes to: whoever left is lost to those who go on.
    fn discord_error(&self, discord: Discord, intent: Intent) -> Error {
        if discord.intent == Intent::Finalize && intent != Intent::Finalize {
            let (rank, why) = (discord.rank, Cause::LEFT.to_string());
            return Error::PeerLost { rank: rank.0, fate: Fate::NotDone, why };
        }
        let what = match intent {
            Intent::Sync => "sync",
            Intent::Finalize => "finalize",
            Intent::Reset => "reset",
        };
        Error::misuse(format!(
            "{what}: not all ranks have called it, others wait in another barrier; all ranks finalize together, and reset \
             together, and one that gives up while others go on calls abort"
        ))
    }

    /// After an error: if the barrier is broken, the other leaders and the agents learn of it, before the program can end
    /// because of that.
    #[cold]
    fn tell_of_discord(&self, passage: &mut Passage) {
        let Some(discord) = self.arena.shared().barrier.broken() else { return };
        let Some((rounds, signal)) = passage.break_off(discord) else { return };
        for round in rounds {
            // Whoever cannot be reached hears of it from its agent.
            let _ = self.signal(round, signal);
        }
        let channel = self.machine().channel.clone();
        if let Some(channel) = channel.filter(|_| discord.intent == Intent::Finalize) {
            let _ = channel.send(&ToAgent::ReportLost { rank: discord.rank, cause: Cause::LEFT });
        }
    }

    /// Tells the leader 2^round nodes further on that we have come this far.
    fn signal(&self, round: u32, signal: Signal) -> Result<()> {
        let node = signalled(self, round);
        let leader = leader(self, node)?;
        self.machine().send(self, leader, frames::notice(signal.header(WORLD, round)))
    }

    /// Waits for the signal of a round; gives what it said.
    fn wait_for_signal(
        &self,
        activity: Activity,
        passage: &Passage,
        deadline_ms: Option<u64>,
        round: u32,
    ) -> Result<Signal> {
        let (epoch, intent) = (passage.epoch, passage.intent);
        let node = signaller(self, round);
        let leader = leader(self, node)?;
        let mut left_since = None;
        let mut failed = None;
        self.machine().engine.barriers.world.awaited = Some(leader);
        let result = self.wait_until(activity, deadline_ms, |engine| {
            let heard = engine.barriers.world.signal(round);
            if heard.epoch >= epoch {
                return Some(Ok(heard));
            }
            if let Some(discord) = self.arena.shared().barrier.broken() {
                return Some(Err(self.discord_error(discord, intent)));
            }
            failed = self.missing_rank(intent, epoch as u32, &mut left_since).err();
            failed.take().map(Err)
        });
        self.machine().engine.barriers.world.awaited = None;
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
    /// the peer timeout is lost. But nobody leaves through a barrier of those who go on.
    fn missing_rank(&self, intent: Intent, barrier: u32, left_since: &mut Option<u64>) -> Result<()> {
        let shared = self.arena.shared();
        if shared.losses() == 0 {
            return Ok(());
        }
        // Who ended because another rank left is not to blame.
        if let Some(discord) = shared.barrier.broken() {
            return Err(self.discord_error(discord, intent));
        }
        if let Some(rank) = shared.first_lost() {
            let cause = self.arena.place(rank).map_or(Cause::UNKNOWN, |word| word.load().cause);
            return Err(Error::PeerLost { rank: rank.0, fate: Fate::NotDone, why: cause.to_string() });
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
                None if intent == Intent::Sync => first,
                None if now_ms - *left_since.get_or_insert(now_ms) > self.left_grace_ms() => first,
                None => return Ok(()),
            };
        let why = "it has finalized and will not come to this barrier".to_string();
        Err(Error::PeerLost { rank: missed.0, fate: Fate::NotDone, why })
    }

    /// How many barriers this rank has come to.
    fn barriers(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed) as u32
    }

    /// How long a barrier waits after it has noticed that a rank left.
    pub(crate) fn left_grace_ms(&self) -> u64 {
        u64::from(self.arena.config().peer_timeout_ms) + LEFT_GRACE_MS
    }

    /// Waits for a word of the arena: spins (and polls, if there is a transport), then sleeps on it.
    pub(crate) fn wait_on_arena(
        &self,
        gate: &dyn Gate,
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
            if patience.must_look_up(TRAFFIC_TURNS) {
                break;
            }
        }
        drop(busy);
        self.leave_kept();
        if found {
            return Ok(());
        }
        let since_ms = time::now_ms();
        let shown = self.begin_wait(activity, NOBODY, since_ms);
        self.waiting.arena_sleepers.fetch_add(1, Ordering::SeqCst);
        let result = self.sleep_on_arena(gate, (activity, shown), deadline_ms, since_ms, word, done);
        self.waiting.arena_sleepers.fetch_sub(1, Ordering::SeqCst);
        self.end_wait(shown, matches!(result, Err(Error::Timeout { .. })));
        result
    }

    fn sleep_on_arena(
        &self,
        gate: &dyn Gate,
        (activity, shown): (Activity, Shown),
        deadline_ms: Option<u64>,
        since_ms: u64,
        word: &AtomicU32,
        done: &dyn Fn() -> bool,
    ) -> Result<()> {
        let barrier = gate.barrier();
        let mut left_since = None;
        loop {
            let seen = word.load(Ordering::Acquire);
            if done() {
                return Ok(());
            }
            if let Err(error) = gate.check(&mut left_since) {
                // Whoever has passed may have left since, which is no reason that others do not pass.
                return if done() { Ok(()) } else { Err(error) };
            }
            self.check_wait()?;
            let now_ms = time::now_ms();
            let left_ms = deadline_ms.map_or(SLICE_MS, |deadline_ms| deadline_ms.saturating_sub(now_ms));
            if left_ms == 0 {
                let after_ms = now_ms - since_ms;
                return Err(Error::Timeout { what: format!("({activity}): {}", gate.absent()), after_ms });
            }
            self.go_on_waiting(shown);
            if self.helps_awake() {
                continue;
            }
            // Announced before the last look, so that whoever opens the barrier sees us or we see it open.
            barrier.announce_sleeper();
            if !done() && barrier.broken().is_none() {
                futex::wait(word, seen, left_ms.min(SLICE_MS));
            }
            barrier.end_sleep();
        }
    }

    /// Polls the engine on behalf of others while this thread waits for memory. Whether something happened. Who polls no more
    /// [leaves](Self::leave_kept) what was kept.
    pub(crate) fn poll_for_others(&self) -> bool {
        let Some(mut machine) = self.free_machine() else { return false };
        let happened = machine.poll(self).unwrap_or(0) > 0;
        self.waiting.keeps.store(machine.transports.keep().is_some(), Ordering::Relaxed);
        drop(machine);
        if happened {
            self.wake_sleepers();
        }
        happened
    }

    /// Answers that were kept go with the next message of this rank, or the service thread sends them soon.
    #[inline]
    pub(crate) fn leave_kept(&self) {
        if self.waiting.keeps.load(Ordering::Relaxed) {
            self.waiting.keeps.store(false, Ordering::Relaxed);
            self.machine().leave_kept(self);
        }
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

/// What a rank that does this comes to a barrier for.
fn intent_of(activity: Activity) -> Intent {
    match activity {
        Activity::Finalize => Intent::Finalize,
        Activity::Reset => Intent::Reset,
        _ => Intent::Sync,
    }
}
