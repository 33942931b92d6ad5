//! Waiting: a thread that waits polls by itself, then sleeps.
//!
//! Nobody sleeps while holding the machine.

use crate::drive::patience::Patience;
use crate::drive::{Busy, Drive};
use crate::engine::{frames, Engine};
use crate::{Error, Result};
use kumiki_net::agent::channel::{Channel, FromAgent};
use kumiki_net::contract::Payload;
use kumiki_net::os::{futex, time};
use kumiki_net::shm::control::{Activity, NOBODY};
use kumiki_net::tcp::Callers;
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::sync::atomic::Ordering;

/// The longest sleep without looking at the job.
const SLICE_MS: u64 = 100;
/// Turns after which a wait looks at the clock and at the job even if something happens at every turn.
const LOOK_UP_TURNS: u32 = 256;
/// So soon after the end of its time a wait is gone on with.
const GOES_ON_MS: u64 = 20;

/// A wait that others are told of.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    doing: Activity,
    whom: u32,
    since_ms: u64,
}

impl Drive {
    /// Waits until `done` gives a value, polling inline. `deadline_ms` is of the monotonic clock.
    pub(crate) fn wait_until<T>(
        &self,
        activity: Activity,
        deadline_ms: Option<u64>,
        mut done: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Result<T> {
        if let Some(value) = done(&mut self.machine().engine) {
            return Ok(value);
        }
        let mut patience = Patience::new(self);
        // What others are told, and since when this call waits, once that is long enough to look at the clock.
        let mut shown = None;
        let nudge_every_ms = self.nudge_every_ms();
        let mut nudge_at_ms = 0;
        let (mut hushed, mut slept) = (false, false);
        self.waiting.inline_turns.fetch_add(1, Ordering::Relaxed);
        let busy = self.waiting.busy();
        let result = loop {
            let seen = self.waiting.progress.load(Ordering::SeqCst);
            let (found, happened) = self.poll_once(&mut done);
            match (found, happened) {
                (Some(value), _) => break Ok(value),
                (None, Err(error)) => break Err(error),
                (None, Ok(count)) if count > 0 => patience.renew(),
                _ => {}
            }
            self.make_way();
            let tired = patience.exhausted();
            if !hushed && patience.spins_on() {
                hushed = self.hush();
            }
            if !tired && !patience.must_look_up(LOOK_UP_TURNS) {
                continue;
            }
            let now_ms = time::now_ms();
            let (wait, started_ms) = *shown.get_or_insert_with(|| {
                let peer = self.machine().engine.operations.oldest_peer(u64::MAX);
                let wait = self.begin_wait(activity, peer.map_or(NOBODY, |peer| peer.0), now_ms);
                self.control().board.tell_operations(self.pending.load(Ordering::Relaxed));
                nudge_at_ms = now_ms + nudge_every_ms;
                (wait, now_ms)
            });
            self.go_on_waiting(wait);
            if deadline_ms.is_some_and(|deadline_ms| now_ms >= deadline_ms) {
                break Err(self.timeout(activity, now_ms - started_ms));
            }
            if let Err(error) = self.check_wait() {
                break Err(error);
            }
            if now_ms >= nudge_at_ms {
                nudge_at_ms = now_ms + nudge_every_ms;
                self.nudge();
            }
            if tired {
                (hushed, slept) = (false, true);
                self.sleep(seen, deadline_ms, now_ms);
            }
        };
        if let Some((wait, _)) = shown {
            self.end_wait(wait, matches!(result, Err(Error::Timeout { .. })));
        }
        if result.is_err() {
            self.machine().leave_kept(self);
        }
        self.leave_wait(busy, slept);
        result
    }

    /// Tells others that a thread waits from now on; from earlier on if it goes on with what its time was over for.
    pub(crate) fn begin_wait(&self, doing: Activity, whom: u32, now_ms: u64) -> Shown {
        let what = u64::from(whom) << 32 | doing as u64;
        let was = self.waiting.paused.swap(what, Ordering::Relaxed);
        let is_same = was == what && now_ms < self.waiting.paused_until_ms.load(Ordering::Relaxed);
        let since_ms = if is_same { self.waiting.paused_since_ms.load(Ordering::Relaxed) } else { now_ms };
        self.control().begin_wait(doing, whom, since_ms);
        Shown { doing, whom, since_ms }
    }

    /// Tells them again, if another thread's wait was over meanwhile.
    #[inline]
    pub(crate) fn go_on_waiting(&self, Shown { doing, whom, since_ms }: Shown) {
        self.control().go_on_waiting(doing, whom, since_ms);
    }

    /// Tells others that a wait is over: what it waited for has come, or its time is over, and perhaps it `goes_on` soon.
    pub(crate) fn end_wait(&self, shown: Shown, goes_on: bool) {
        let until_ms = if goes_on { time::now_ms() + GOES_ON_MS } else { 0 };
        self.waiting.paused_since_ms.store(shown.since_ms, Ordering::Relaxed);
        self.waiting.paused_until_ms.store(until_ms, Ordering::Relaxed);
        self.control().end_wait();
    }

    /// One look at the engine: what `done` found, and how much happened. Whoever finds nothing looks again.
    #[inline]
    pub(crate) fn poll_once<T>(
        &self,
        done: &mut impl FnMut(&mut Engine) -> Option<T>,
    ) -> (Option<T>, Result<usize>) {
        self.poll_with(done, false)
    }

    /// The same for whoever goes on with something else, whatever was found.
    #[inline]
    pub(crate) fn look_once<T>(
        &self,
        done: &mut impl FnMut(&mut Engine) -> Option<T>,
    ) -> (Option<T>, Result<usize>) {
        self.poll_with(done, true)
    }

    #[inline]
    fn poll_with<T>(
        &self,
        done: &mut impl FnMut(&mut Engine) -> Option<T>,
        goes_on: bool,
    ) -> (Option<T>, Result<usize>) {
        let mut machine = self.machine();
        let happened = machine.poll(self);
        let found = done(&mut machine.engine);
        match found {
            // What comes next may well be a message of ours.
            Some(_) => machine.leave_kept(self),
            None => machine.send_kept(self, goes_on),
        }
        let stirred = machine.engine.take_stirred();
        drop(machine);
        // What has come may be what a thread that sleeps where messages come in looks for.
        let came = || matches!(happened, Ok(1..)) && self.waiting.for_messages.load(Ordering::SeqCst) > 0;
        if stirred || came() {
            self.wake_sleepers();
        }
        (found, happened)
    }

    fn leave_wait(&self, busy: Busy<'_>, slept: bool) {
        drop(busy);
        // A thread that slept took the service thread's place: give it back. After it has looked for a while, and where ranks
        // outnumber cores given its core away, the service thread comes back by itself.
        if slept && self.waiting.service_parked.load(Ordering::SeqCst) {
            self.waiting.service.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.waiting.service);
        }
        if slept {
            self.wake_sleepers();
        }
    }

    /// How often those who owe an answer are asked.
    pub(crate) fn nudge_every_ms(&self) -> u64 {
        (self.arena.config().peer_timeout_ms as u64 / 2).max(1)
    }

    /// Sends something to everybody who owes an answer: a connection on which a frame was lost shows it then.
    pub(crate) fn nudge(&self) {
        let mut machine = self.machine();
        let awaited: Vec<Rank> = machine.engine.barriers.awaited().collect();
        for peer in machine.engine.operations.peers().into_iter().chain(awaited) {
            let header = Header { kind: frames::NUDGE, ..Header::default() };
            // A peer that cannot be reached is reported through the operations that wait for it.
            let _ = machine.send(self, peer, frames::question(header, Payload::None));
        }
    }

    fn timeout(&self, activity: Activity, after_ms: u64) -> Error {
        let peer = self.machine().engine.operations.oldest_peer(u64::MAX);
        let whom = peer.map_or(String::new(), |peer| format!(" of {peer}"));
        let what = match activity {
            Activity::Complete => {
                format!("waiting for an operation to complete (an answer{whom} is missing)")
            }
            other => format!("({other})"),
        };
        Error::Timeout { what, after_ms }
    }

    /// Fails when the job is ending or the agent is gone.
    pub(crate) fn check_wait(&self) -> Result<()> {
        self.check_job()?;
        let machine = self.machine();
        if let Some(trouble) = machine.engine.trouble(self) {
            return Err(trouble.clone());
        }
        match &machine.channel {
            // With the machine held no transport is made meanwhile, which would look for callers once and not again.
            Some(channel) if machine.transports.is_empty() => listen(channel, &machine.callers),
            Some(channel) if channel.is_closed() => {
                Err(Error::Closed("the node agent of this process is gone; the job is ending".into()))
            }
            _ => Ok(()),
        }
    }

    /// Keeps what comes from waking anybody while this thread alone looks for it, turn after turn. The service thread
    /// must be out of the way, as it is soon after the first message; it sees to it afterwards that it is woken again.
    /// Whether that was asked of the transport.
    #[cold]
    fn hush(&self) -> bool {
        let mut machine = self.machine();
        let alone = self.waiting.inline.load(Ordering::SeqCst) == 1;
        if !alone || !self.waiting.service_parked.load(Ordering::SeqCst) {
            return false;
        }
        machine.transports.hush();
        true
    }

    /// Sleeps until something may have happened: as the poller, or on the word that the poller changes.
    /// `seen` is what `progress` was before the last look: if it has changed, somebody else got what we wait for.
    pub(crate) fn sleep(&self, seen: u32, deadline_ms: Option<u64>, now_ms: u64) {
        let mut machine = self.machine();
        machine.transports.watch();
        let until = machine.next_deadline_ms().into_iter().chain(deadline_ms).min().unwrap_or(u64::MAX);
        let slice_ms = until.saturating_sub(now_ms).clamp(1, SLICE_MS);
        let sleeper = machine.sleeper.clone();
        drop(machine);
        match sleeper {
            Some(sleeper) if !self.waiting.poller.swap(true, Ordering::SeqCst) => {
                // Whoever makes progress changes the word, then looks for a poller to wake; we are the poller, then
                // look at the word. One of us sees the other.
                if self.waiting.progress.load(Ordering::SeqCst) == seen {
                    let _ = sleeper.sleep(slice_ms as i32);
                }
                self.waiting.poller.store(false, Ordering::SeqCst);
            }
            _ => {
                self.waiting.sleepers.fetch_add(1, Ordering::SeqCst);
                futex::wait(&self.waiting.progress, seen, slice_ms.min(10));
                self.waiting.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Wakes the threads that wait for somebody else to poll.
    pub(crate) fn wake_sleepers(&self) {
        self.waiting.progress.fetch_add(1, Ordering::SeqCst);
        if self.waiting.sleepers.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&self.waiting.progress);
        }
        if self.waiting.poller.load(Ordering::SeqCst) {
            let sleeper = self.machine().sleeper.clone();
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
        }
    }
}

/// Reads what the agent sent when there is no transport that would.
fn listen(channel: &Channel, callers: &Callers) -> Result<()> {
    while let Some(message) = channel.try_receive().map_err(Error::from)? {
        if let FromAgent::Socket(socket) = message {
            callers.push(socket);
        }
    }
    Ok(())
}
