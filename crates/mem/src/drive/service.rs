//! The service thread: it answers for the rank while no thread of the program waits.

use crate::drive::patience::Patience;
use crate::drive::Drive;
use kumiki_net::contract::Sleeper;
use kumiki_net::os::{futex, time};
use std::sync::atomic::Ordering;

/// Naps of the service thread beside threads that poll inline, and beside one that sleeps and rings when it leaves.
const SHORTEST_NAP_US: u64 = 15;
const LONGEST_NAP_US: u64 = 1_000;
const SLEEPERS_NAP_US: u64 = 50_000;
/// The longest nap beside one that sleeps until a message comes.
const MESSAGE_NAP_US: u64 = 8_000;
/// The first nap is longer each time that it comes so soon after the last one, up to this.
const SOON_NS: u64 = 1_000_000;
const LONGEST_FIRST_NAP_US: u64 = 120;
/// How long messages that are kept to go out together wait for whoever issued them to send them…
const KEPT_US: u64 = 50;
/// …and in the midst of many, which whoever issues them sends: each look from here costs that thread a few microseconds.
const MOST_KEPT_US: u64 = 100;
/// While threads leave answers that may wait for long, it is looked at them so often.
const LATE_LOOK_MS: u64 = 2;
/// So many short waits between two looks of the service thread do not keep it from serving.
const FEW_TURNS: u64 = 4;

impl Drive {
    /// The loop of the service thread; ends when the world is closed.
    pub(crate) fn serve(&self, sleeper: &dyn Sleeper) {
        let mut nudged_ms = time::now_ms();
        let (mut first_nap_us, mut unparked_ns) = (SHORTEST_NAP_US, 0);
        while !self.closed.load(Ordering::Acquire) {
            let wake_up = self.machine().next_deadline_ms();
            let now_ms = time::now_ms();
            let slice_ms = wake_up.map_or(1000, |at| at.saturating_sub(now_ms).clamp(1, 1000));
            let minds_late = self.minds_late();
            let slice_ms = if minds_late { slice_ms.min(LATE_LOOK_MS) } else { slice_ms };
            let turns = self.waiting.inline_turns.load(Ordering::Relaxed);
            self.waiting.service_sleeps.store(true, Ordering::SeqCst);
            // Whoever keeps messages says so, then looks whether we sleep; we do it the other way round.
            let has_late = !minds_late && self.waiting.late.load(Ordering::SeqCst);
            if !has_late && self.waiting.kept.load(Ordering::SeqCst) == 0 {
                let _ = sleeper.sleep(slice_ms as i32);
            }
            self.waiting.service_sleeps.store(false, Ordering::SeqCst);
            self.send_kept();
            if self.waiting.inline.load(Ordering::SeqCst) == 0 {
                self.serve_while_busy();
            }
            // A thread that polls inline, now or again and again, is in no need of us.
            if self.waiting.inline.load(Ordering::SeqCst) > 0 || self.turns_since(turns) > FEW_TURNS {
                // A program that waits again and again has us up after each nap that is shorter than its waits are apart.
                let was_soon = time::now_ns().saturating_sub(unparked_ns) < SOON_NS;
                first_nap_us =
                    if was_soon { (2 * first_nap_us).min(LONGEST_FIRST_NAP_US) } else { SHORTEST_NAP_US };
                self.park_service(first_nap_us);
                unparked_ns = time::now_ns();
            }
            if self.waiting.futures.any() {
                self.mind_futures(&mut nudged_ms);
            }
        }
    }

    /// Does for futures what a thread that waits does for itself: asks those who owe an answer, and says so when none can come.
    #[cold]
    fn mind_futures(&self, nudged_ms: &mut u64) {
        let now_ms = time::now_ms();
        if now_ms - *nudged_ms >= self.nudge_every_ms() {
            *nudged_ms = now_ms;
            self.nudge();
        }
        if self.check_wait().is_err() {
            self.waiting.futures.wake();
        }
    }

    /// Answers are left that may wait for long. The service thread sees to it that they do not wait for ever: it is told, unless it looks soon.
    pub(crate) fn leave_late(&self, sleeper: Option<&dyn Sleeper>) {
        self.waiting.late.store(true, Ordering::SeqCst);
        match sleeper.filter(|_| self.waiting.poller.load(Ordering::SeqCst)) {
            // A thread of the program sleeps for all, and has to know for how long.
            Some(sleeper) => sleeper.wake(),
            None if !self.waiting.minds_late.load(Ordering::SeqCst) => self.rouse_service(sleeper),
            None => {}
        }
    }

    /// Whether some were left that nobody has looked at since.
    pub(crate) fn has_left_late(&self) -> bool {
        self.waiting.late.load(Ordering::SeqCst)
    }

    /// Whether the service thread is to look soon, because answers were left since the last look: those have been seen to.
    fn minds_late(&self) -> bool {
        // Whoever leaves some says so, then looks whether we mind; we do it the other way round.
        self.waiting.minds_late.store(false, Ordering::SeqCst);
        let minds = self.waiting.late.swap(false, Ordering::SeqCst);
        self.waiting.minds_late.store(minds, Ordering::SeqCst);
        minds
    }

    /// Gets the service thread up, if it sleeps, because messages are kept: it sends them in a moment.
    pub(crate) fn rouse_service(&self, sleeper: Option<&dyn Sleeper>) {
        if self.waiting.service_naps.load(Ordering::SeqCst) {
            self.waiting.service.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.waiting.service);
        } else if let Some(sleeper) = sleeper.filter(|_| self.waiting.service_sleeps.load(Ordering::SeqCst)) {
            sleeper.wake();
        }
    }

    /// While messages are kept to go out together, time and again: leaves it to whoever issues them to send them, and sends what is
    /// kept from one look to the next. Nobody need wake this thread meanwhile. Whether there were any.
    fn send_kept(&self) -> bool {
        if self.waiting.kept.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut nap_us = KEPT_US;
        while !self.closed.load(Ordering::Acquire) {
            let times = self.waiting.times_kept.load(Ordering::SeqCst);
            let kept = self.waiting.kept.load(Ordering::SeqCst);
            let seen = self.waiting.service.load(Ordering::SeqCst);
            futex::wait_us(&self.waiting.service, seen, nap_us);
            nap_us = MOST_KEPT_US;
            let still = self.waiting.kept.load(Ordering::SeqCst);
            if still == 0 && self.waiting.times_kept.load(Ordering::SeqCst) == times {
                break;
            }
            if still != 0 && still == kept {
                let _ = self.poll_once(&mut |_| None::<()>);
                nap_us = KEPT_US;
            }
        }
        // What a world that is closed has kept is nobody's business any more.
        !self.closed.load(Ordering::Acquire)
    }

    /// How often threads began to poll inline since there were `turns`.
    fn turns_since(&self, turns: u64) -> u64 {
        self.waiting.inline_turns.load(Ordering::Relaxed).wrapping_sub(turns)
    }

    /// Polls once, and goes on while there is traffic and the program only waits.
    fn serve_while_busy(&self) {
        let mut patience = Patience::new(self);
        loop {
            let (_, happened) = self.poll_once(&mut |_| None::<()>);
            match happened {
                Ok(count) if count > 0 => patience.renew(),
                Ok(_) => {}
                Err(_) => return,
            }
            let may_spin = self.waiting.arena_sleepers.load(Ordering::Relaxed) > 0
                && self.waiting.spin_ns.load(Ordering::Relaxed) > 0
                && self.waiting.inline.load(Ordering::Relaxed) == 0;
            if !may_spin || patience.exhausted() || self.closed.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Gets out of the way of threads that poll inline, until a nap passes with few of them: short naps first, since a
    /// program may wait once and then look at its memory; longer ones while threads go on polling.
    fn park_service(&self, first_nap_us: u64) {
        self.waiting.service_parked.store(true, Ordering::SeqCst);
        // Whoever polls inline sends them, or we do when nobody does any more.
        self.waiting.minds_late.store(true, Ordering::SeqCst);
        let mut nap_us = first_nap_us;
        // All service threads of a core together wake as often as one alone would.
        let longest_us = (LONGEST_NAP_US * u64::from(self.waiting.crowd.max(1))).min(SLEEPERS_NAP_US);
        loop {
            let seen = self.waiting.service.load(Ordering::SeqCst);
            let turns = self.waiting.inline_turns.load(Ordering::Relaxed);
            let for_messages = || self.waiting.for_messages.load(Ordering::SeqCst) > 0;
            let is_for_messages = for_messages();
            let asleep = self.waiting.poller.load(Ordering::SeqCst);
            // Who sleeps for a message does not ring when it leaves, for it is back soon, or this thread is. It may have come or gone meanwhile.
            let rings =
                asleep && !is_for_messages && !for_messages() && self.waiting.poller.load(Ordering::SeqCst);
            let most_us = if asleep { longest_us.max(MESSAGE_NAP_US) } else { longest_us };
            self.waiting.service_naps.store(true, Ordering::SeqCst);
            if !self.closed.load(Ordering::Acquire) && self.waiting.kept.load(Ordering::SeqCst) == 0 {
                futex::wait_us(&self.waiting.service, seen, if rings { SLEEPERS_NAP_US } else { nap_us });
            }
            self.waiting.service_naps.store(false, Ordering::SeqCst);
            if self.send_kept() {
                nap_us = first_nap_us;
                continue;
            }
            nap_us = (nap_us * 2).min(most_us);
            let rung = self.waiting.service.load(Ordering::SeqCst) != seen;
            let quiet = rung || self.turns_since(turns) <= FEW_TURNS;
            let idle = || quiet && self.waiting.inline.load(Ordering::SeqCst) == 0;
            if !idle() && !self.closed.load(Ordering::Acquire) {
                continue;
            }
            // With the engine held nobody hushes the transport behind our back.
            let mut machine = self.machine();
            if idle() || self.closed.load(Ordering::Acquire) {
                machine.transports.watch();
                self.waiting.service_parked.store(false, Ordering::SeqCst);
                return;
            }
        }
    }
}
