//! Waiting for a word of this rank's memory that somebody else writes: awake for a moment, then asleep until a write rings.
//!
//! Writes that come over a transport are done by this process, which rings its own bell then; neighbours ring it themselves.

use crate::drive::patience::Patience;
use crate::drive::wait::Shown;
use crate::drive::world::{deadline_after, World};
use crate::drive::Drive;
use crate::error::Fate;
use crate::node::access::Reach;
use crate::node::address::GlobalPtr;
use crate::node::atomic::{self, AtomicWord};
use crate::node::copy;
use crate::{Error, Result};
use kumiki_net::os::{futex, time};
use kumiki_net::shm::board::Traffic;
use kumiki_net::shm::control::{Activity, NOBODY};
use kumiki_net::shm::world::Status;
use kumiki_net::Rank;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The sleep right behind an announcement: the store of whoever did not see it is seen by then.
const FIRST_NAP_MS: u64 = 1;
/// The longest sleep without looking at the job.
const SLICE_MS: u64 = 50;
/// Turns after which a wait sleeps even if something comes for others at every turn.
const TRAFFIC_TURNS: u32 = 1024;

/// What a word is compared with. Of floating-point numbers a NaN is equal to nothing, and neither less nor greater.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Is<W> {
    /// It is this.
    Equal(W),
    /// It is anything else.
    NotEqual(W),
    /// It is less than this.
    Less(W),
    /// It is this, or less.
    AtMost(W),
    /// It is greater than this.
    Greater(W),
    /// It is this, or greater.
    AtLeast(W),
}

/// What a word is waited for to be: a comparison, or a closure that says whether a value will do.
pub trait Until<W> {
    /// Whether the wait is over with this value.
    fn holds(&self, value: W) -> bool;
}

impl<W: AtomicWord> Until<W> for Is<W> {
    fn holds(&self, value: W) -> bool {
        match *self {
            Is::Equal(other) => value == other,
            Is::NotEqual(other) => value != other,
            Is::Less(other) => value < other,
            Is::AtMost(other) => value <= other,
            Is::Greater(other) => value > other,
            Is::AtLeast(other) => value >= other,
        }
    }
}

impl<W, F: Fn(W) -> bool> Until<W> for F {
    fn holds(&self, value: W) -> bool {
        self(value)
    }
}

/// How long a word is waited for, and from whom it must come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Wait {
    from: Option<u32>,
    limit: Option<Duration>,
    /// What others are told that this rank does, and whether it does so with anybody.
    doing: Activity,
    with_anybody: bool,
}

impl Default for Wait {
    fn default() -> Wait {
        Wait::FOREVER
    }
}

impl Wait {
    /// As long as it takes, while no rank is lost.
    pub const FOREVER: Wait = Wait { from: None, limit: None, doing: Activity::Word, with_anybody: false };

    /// For at most so long; then the wait ends with [`Error::Timeout`].
    pub const fn at_most(limit: Duration) -> Wait {
        Wait { limit: Some(limit), ..Wait::FOREVER }
    }

    /// The word is written by this rank: the wait ends when that is lost or leaves, and goes on when another one is lost.
    pub const fn from(self, rank: u32) -> Wait {
        Wait { from: Some(rank), ..self }
    }

    /// As it is, but for at most so long.
    pub const fn for_at_most(self, limit: Duration) -> Wait {
        Wait { limit: Some(limit), ..self }
    }

    /// What this is a part of, for reports and for whoever looks from outside.
    #[doc(hidden)]
    pub const fn doing(self, activity: Activity) -> Wait {
        Wait { doing: activity, ..self }
    }

    /// The rank that is named is only one of those who could end it, and reports do not name it.
    #[doc(hidden)]
    pub const fn with_anybody(self) -> Wait {
        Wait { with_anybody: true, ..self }
    }

    /// The rank that others are told is waited for.
    fn shown(self) -> u32 {
        self.from.filter(|_| !self.with_anybody).unwrap_or(NOBODY)
    }
}

impl World {
    /// Waits until a word of this rank's memory is what it is waited for to be, and gives it. Puts, atomics and copies of any rank to
    /// memory of this one wake it; what is written through views, cells and own regions does not: it is seen within 50 ms, or at once
    /// if the writer calls [`wake`](Self::wake).
    pub fn wait_until<W: AtomicWord>(
        &self,
        word: GlobalPtr<W>,
        until: impl Until<W>,
        wait: Wait,
    ) -> Result<W> {
        let core = self.core();
        core.note(core.wait_for_word(word, &until, wait))
    }

    /// Waits until a look finds something, or fails. It looks when it begins, and whenever something was written to memory of this rank
    /// that would wake [`wait_until`](Self::wait_until): for whoever waits for one of several words. The look should be short, and must
    /// not wait.
    pub fn wait_for<T>(&self, look: impl Fn() -> Option<Result<T>>, wait: Wait) -> Result<T> {
        self.wait_for_quick_or_whole(|_| look(), wait)
    }

    /// The same with a look that is told when it may be a quick one: while this rank only looks again and again, most looks are. One that
    /// is whole makes sure that nothing was missed.
    pub fn wait_for_quick_or_whole<T>(
        &self,
        look: impl Fn(bool) -> Option<Result<T>>,
        wait: Wait,
    ) -> Result<T> {
        let core = self.core();
        core.note(core.wait_for(&look, wait))
    }

    /// Nanoseconds of the clock by which this rank lives: the machine's, or that of a simulation.
    pub fn now_ns(&self) -> u64 {
        time::now_ns()
    }

    /// How long a peer may say nothing before it counts as lost.
    pub fn peer_timeout(&self) -> Duration {
        Duration::from_millis(self.core().arena.config().peer_timeout_ms.into())
    }

    /// Whether other threads of this rank can wait while one computes: not where it is simulated.
    pub fn has_threads(&self) -> bool {
        !self.core().pace.sleeps_at_once()
    }

    /// As [`wait_for`](Self::wait_for), for whoever goes on after an error: it does not count as one that this world has returned.
    pub fn look_for<T>(&self, look: impl Fn() -> Option<Result<T>>, wait: Wait) -> Result<T> {
        self.core().wait_for(&|_| look(), wait)
    }

    /// The same where only messages of other nodes bring what is looked for. The look may not use the world: who sleeps does it where messages
    /// come in, and takes them itself.
    pub fn look_for_message<T>(&self, look: impl Fn() -> Option<Result<T>>, wait: Wait) -> Result<T> {
        self.core().wait_for_message(&|_| look(), wait)
    }

    /// The same with a look that is told [when it may be a quick one](Self::wait_for_quick_or_whole).
    pub fn look_for_quick_or_whole<T>(
        &self,
        look: impl Fn(bool) -> Option<Result<T>>,
        wait: Wait,
    ) -> Result<T> {
        self.core().wait_for(&look, wait)
    }

    /// Tells whoever looks from outside what the messages of this rank have come to.
    pub fn tell(&self, traffic: &Traffic) {
        self.core().control().board.tell(traffic);
    }

    /// Tells others that this rank waits for a rank, until what this gives is dropped: for whoever looks again and again by itself.
    pub fn show_wait(&self, activity: Activity, rank: u32) -> ShownWait<'_> {
        self.core().control().begin_wait(activity, rank, time::now_ms());
        ShownWait(self)
    }

    /// Wakes the threads of this rank that wait for a word: for whoever has written to its memory.
    #[inline]
    pub fn wake_own(&self) {
        self.core().ring_own();
    }

    /// Wakes the threads of a rank of this node that wait for a word: for whoever writes to its memory without a put, an atomic or a
    /// copy. Nothing happens if none waits, or if the rank is on another node.
    pub fn wake(&self, rank: u32) -> Result<()> {
        let core = self.core();
        core.note(core.check_usable())?;
        let place = core.arena.place(Rank(rank)).map(|word| word.load());
        match place {
            Some(place) if place.node == core.node => core.ring_if_any(place.local),
            Some(_) => {}
            None => return core.note(Err(Error::misuse(format!("wake: there is no rank {rank}")))),
        }
        Ok(())
    }

    /// The same for many, who are only looked at if anybody of the node waits.
    #[inline]
    pub fn wake_all(&self, mut ranks: impl Iterator<Item = u32>) -> Result<()> {
        match self.core().anybody_listens() {
            true => ranks.try_for_each(|rank| self.wake(rank)),
            false => Ok(()),
        }
    }
}

/// A wait that others are told of: from [`World::show_wait`].
#[derive(Debug)]
#[must_use]
pub struct ShownWait<'w>(&'w World);

impl Drop for ShownWait<'_> {
    fn drop(&mut self) {
        self.0.core().control().end_wait();
    }
}

/// While a rank looks again and again, one look of so many is a whole one.
const TURNS_PER_WHOLE_LOOK: u32 = 16;

impl Drive {
    fn wait_for_word<W: AtomicWord>(
        &self,
        word: GlobalPtr<W>,
        until: &impl Until<W>,
        wait: Wait,
    ) -> Result<W> {
        self.check_usable()?;
        if self.format.rank(word.address) != self.rank {
            let whose = format!("wait_until: the word at {:#x} is not this rank's own", word.address.bits());
            return Err(Error::misuse(whose));
        }
        let look = |_| {
            let value = self.look_at(word);
            value.map(|value| until.holds(value).then_some(value)).transpose()
        };
        self.wait_for(&look, wait)
    }

    /// Looks until there is something, and sleeps in between while nobody writes to memory of this rank.
    fn wait_for<T>(&self, look: &impl Fn(bool) -> Option<Result<T>>, wait: Wait) -> Result<T> {
        self.check_usable()?;
        if wait.from.is_some_and(|rank| rank >= self.ranks()) {
            return Err(Error::misuse(format!("there are {} ranks to wait for", self.ranks())));
        }
        let deadline_ms = wait.limit.map(deadline_after);
        if self.pace.sleeps_at_once() {
            return self.wait_asleep(look, wait, deadline_ms);
        }
        match self.spin_for(look) {
            Some(found) => found,
            None => self.sleep_for(look, wait, deadline_ms),
        }
    }

    /// Looks until there is something that comes in a message, and sleeps in between until one does.
    fn wait_for_message<T>(&self, look: &impl Fn(bool) -> Option<Result<T>>, wait: Wait) -> Result<T> {
        if self.pace.sleeps_at_once() || !self.has_transport.load(Ordering::Relaxed) {
            return self.wait_for(look, wait);
        }
        self.check_usable()?;
        if let Some(found) = self.spin_for(look) {
            return found;
        }
        let since_ms = time::now_ms();
        let deadline_ms = wait.limit.map(deadline_after);
        let shown = self.begin_wait(wait.doing, wait.shown(), since_ms);
        self.waiting.for_messages.fetch_add(1, Ordering::SeqCst);
        let busy = self.waiting.busy();
        let found = self.sleep_for_message(look, wait.from, (shown, since_ms), deadline_ms);
        drop(busy);
        self.waiting.for_messages.fetch_sub(1, Ordering::SeqCst);
        if found.is_err() {
            self.machine().leave_kept(self);
        }
        self.end_wait(shown, matches!(found, Err(Error::Timeout { .. })));
        // Others may have left the looking to this thread. The service thread naps, and is back soon by itself.
        self.wake_sleepers();
        found
    }

    fn sleep_for_message<T>(
        &self,
        look: &impl Fn(bool) -> Option<Result<T>>,
        from: Option<u32>,
        (shown, since_ms): (Shown, u64),
        deadline_ms: Option<u64>,
    ) -> Result<T> {
        loop {
            let seen = self.waiting.progress.load(Ordering::SeqCst);
            self.waiting.inline_turns.fetch_add(1, Ordering::Relaxed);
            let (found, happened) = self.poll_once(&mut |_| look(false));
            if let Some(found) = found {
                return found;
            }
            let has_come = happened? > 0;
            if let Some(found) = has_come.then(|| self.spin_for(look)).flatten() {
                return found;
            }
            // However much traffic there is: somebody may be lost, or the deadline past.
            if let Err(gone) = self.missing_writer(from) {
                // It may have written before it went.
                return look(false).unwrap_or(Err(gone));
            }
            self.check_wait()?;
            let now_ms = time::now_ms();
            if deadline_ms.is_some_and(|deadline_ms| now_ms >= deadline_ms) {
                return Err(not_written(from, now_ms - since_ms));
            }
            self.go_on_waiting(shown);
            if has_come || self.helps_awake() {
                continue;
            }
            // Neighbours, who may have something to say as well, do not wake it.
            let until_ms = deadline_ms.unwrap_or(u64::MAX).min(now_ms + SLICE_MS);
            self.sleep(seen, Some(until_ms), now_ms);
        }
    }

    /// Where time passes only in sleep, memory changes only when something comes. One looks without the engine, which the look may use.
    fn wait_asleep<T>(
        &self,
        look: &impl Fn(bool) -> Option<Result<T>>,
        wait: Wait,
        deadline_ms: Option<u64>,
    ) -> Result<T> {
        loop {
            let before = self.pace.comings();
            if let Some(found) = look(false) {
                return found;
            }
            self.wait_until(wait.doing, deadline_ms, |_| match self.pace.comings() == before {
                true => self.missing_writer(wait.from).err().map(Err),
                false => Some(Ok(())),
            })??;
        }
    }

    /// The word as it is now. Each look finds it anew: its region may be gone meanwhile.
    #[inline]
    fn look_at<W: AtomicWord>(&self, word: GlobalPtr<W>) -> Result<W> {
        let bytes = size_of::<W>() as u64;
        let aligned = |pointer: *mut u8| match (pointer as u64).is_multiple_of(bytes) {
            // SAFETY: the word was checked to be in bounds; it is aligned, and private memory is pinned by the caller.
            true => Ok(unsafe { copy::load_aligned(pointer, Ordering::Acquire) }),
            false => Err(atomic::misaligned(word.address, bytes)),
        };
        if let Some(pointer) = self.here(word.address, word.registration, bytes) {
            return aligned(pointer);
        }
        let (reach, _pin) = self.pin_own(self.reach(word.address, word.registration, bytes)?)?;
        match reach {
            Reach::Direct(pointer) => aligned(pointer),
            Reach::Private(_) | Reach::Remote(_) => Err(Error::misuse("a word of another rank")),
        }
    }

    /// Looks again and again for a moment, and takes what comes meanwhile.
    fn spin_for<T>(&self, look: &impl Fn(bool) -> Option<T>) -> Option<T> {
        let polls = self.has_transport.load(Ordering::Relaxed);
        let _busy = polls.then(|| self.waiting.busy());
        let mut patience = Patience::new(self);
        let (mut turn, mut has_come) = (0u32, false);
        loop {
            turn = turn.wrapping_add(1);
            let found = look(!turn.is_multiple_of(TURNS_PER_WHOLE_LOOK));
            // Who has found it goes on. Behind what has come there may be more: nobody gives the core away before it has looked.
            let ends = found.is_some()
                || (!has_come && patience.exhausted())
                || patience.must_look_up(TRAFFIC_TURNS);
            if ends {
                self.leave_kept();
                return found;
            }
            if turn == 1 && polls {
                // Who finds at once what it looks for has polled for nobody.
                self.waiting.inline_turns.fetch_add(1, Ordering::Relaxed);
            }
            has_come = polls && self.poll_for_others();
            if has_come {
                patience.renew();
            }
        }
    }

    fn sleep_for<W>(
        &self,
        look: &impl Fn(bool) -> Option<Result<W>>,
        wait: Wait,
        deadline_ms: Option<u64>,
    ) -> Result<W> {
        let since_ms = time::now_ms();
        let mut listening = Listening::begin(self, wait, since_ms);
        if self.waiting.service_parked.load(Ordering::SeqCst) {
            // It kept out of our way while we polled.
            self.waiting.service.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.waiting.service);
        }
        let found = self.listen_for(look, (wait.from, listening.shown), deadline_ms, since_ms);
        listening.goes_on = matches!(found, Err(Error::Timeout { .. }));
        found
    }

    fn listen_for<W>(
        &self,
        look: &impl Fn(bool) -> Option<Result<W>>,
        (from, shown): (Option<u32>, Shown),
        deadline_ms: Option<u64>,
        since_ms: u64,
    ) -> Result<W> {
        let (bell, listeners) = (&self.control().bell, &self.arena.shared().signs.listeners);
        let mut is_first = true;
        loop {
            let seen = bell.rings();
            // Another thread may have announced the rank: but the look that may come too early is our own.
            let nap_ms = if bell.announce(listeners) || is_first { FIRST_NAP_MS } else { SLICE_MS };
            is_first = false;
            if let Some(found) = look(false) {
                return found;
            }
            if let Err(gone) = self.missing_writer(from) {
                // It may have written before it went.
                return look(false).unwrap_or(Err(gone));
            }
            self.check_wait()?;
            let now_ms = time::now_ms();
            let left_ms = deadline_ms.map_or(nap_ms, |deadline_ms| deadline_ms.saturating_sub(now_ms));
            if left_ms == 0 {
                return Err(not_written(from, now_ms - since_ms));
            }
            self.go_on_waiting(shown);
            if self.helps_awake() {
                continue;
            }
            futex::wait(bell.word(), seen, left_ms.min(nap_ms));
            if bell.rings() != seen {
                is_first = true;
                // Whoever rang may well write again soon: for a moment it need not ring for that.
                if let Some(found) = self.spin_for(look) {
                    return found;
                }
            }
        }
    }

    /// Does a piece for a neighbour before it sleeps, where it would have done so before: whether there was one.
    pub(crate) fn helps_awake(&self) -> bool {
        self.waiting.spin_ns.load(Ordering::Relaxed) != 0 && self.helps()
    }

    /// Fails if the rank that a word must come from is gone; if it may come from any, if any is lost.
    fn missing_writer(&self, from: Option<u32>) -> Result<()> {
        if self.arena.shared().losses() == 0 {
            return Ok(());
        }
        if let Some(rank) = from.map(Rank) {
            let place = self.arena.place(rank).map(|word| word.load());
            return place.map_or(Ok(()), |place| self.check_alive(rank, place));
        }
        let Some(rank) = self.arena.shared().first_lost() else { return Ok(()) };
        let place =
            self.arena.place(rank).map(|word| word.load()).filter(|place| place.status == Status::Lost);
        let why = place.map_or("it is gone".into(), |place| place.cause.to_string());
        Err(Error::PeerLost { rank: rank.0, fate: Fate::NotDone, why })
    }
}

fn not_written(from: Option<u32>, after_ms: u64) -> Error {
    let whom = from.map_or(String::new(), |rank| format!(" by rank {rank}"));
    Error::Timeout { what: format!("({}): it was not written{whom}", Activity::Word), after_ms }
}

/// A thread that may sleep until its word is written; also if what it waits for panics.
struct Listening<'a> {
    core: &'a Drive,
    shown: Shown,
    /// Whether its time is over: who waits on for the same has waited all along.
    goes_on: bool,
}

impl<'a> Listening<'a> {
    fn begin(core: &'a Drive, wait: Wait, now_ms: u64) -> Listening<'a> {
        let shown = core.begin_wait(wait.doing, wait.shown(), now_ms);
        core.control().board.tell_operations(core.pending.load(Ordering::Relaxed));
        core.waiting.arena_sleepers.fetch_add(1, Ordering::SeqCst);
        Listening { core, shown, goes_on: false }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let Listening { core, shown, goes_on } = *self;
        core.waiting.arena_sleepers.fetch_sub(1, Ordering::SeqCst);
        core.end_wait(shown, goes_on);
        // Other threads of this rank may still listen: they announce themselves again.
        core.ring(core.local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AtomicOp, Order};

    #[test]
    fn a_word_is_compared_and_a_closure_says_what_will_do() {
        let table: [(Is<i32>, [bool; 3]); 6] = [
            (Is::Equal(5), [false, true, false]),
            (Is::NotEqual(5), [true, false, true]),
            (Is::Less(5), [true, false, false]),
            (Is::AtMost(5), [true, true, false]),
            (Is::Greater(5), [false, false, true]),
            (Is::AtLeast(5), [false, true, true]),
        ];
        for (is, wanted) in table {
            assert_eq!([-4, 5, 6].map(|value| is.holds(value)), wanted, "{is:?}");
        }
        assert!(!Is::Equal(f64::NAN).holds(f64::NAN) && Is::NotEqual(f64::NAN).holds(1.0));
        assert!(Until::<u32>::holds(&|value: u32| value.is_power_of_two(), 8));
    }

    #[test]
    fn a_word_that_cannot_be_waited_for_is_refused_and_one_that_never_comes_ends_with_the_time() {
        let world = World::init().unwrap();
        let region = world.alloc::<u64>(2).unwrap();
        let (word, soon) = (region.ptr(), Wait::at_most(Duration::from_millis(3)));
        assert_eq!(world.wait_until(word, Is::Equal(0), Wait::FOREVER), Ok(0));
        let late = world.wait_until(word, Is::Equal(1), soon);
        assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
        let odd = GlobalPtr::<u64>::from_address(word.address().add(4));
        for (word, wait) in [(odd, soon), (word, soon.from(1))] {
            let wrong = world.wait_until(word, Is::Equal(1), wait);
            assert!(matches!(wrong, Err(Error::Misuse(_))), "{wrong:?}");
        }
        let (beyond, stale) = (word + 2, region.ptr());
        drop(region);
        for gone in [beyond, stale] {
            let gone = world.wait_until(gone, Is::Equal(1), soon);
            assert!(matches!(gone, Err(Error::Bounds { .. })), "{gone:?}");
        }
        assert!(world.wake(0).is_ok() && world.wake(1).is_err());
        drop(world);
    }

    #[test]
    fn a_thread_that_waits_on_is_shown_when_another_has_ended_its_wait() {
        let world = World::init().unwrap();
        let words = world.alloc::<u64>(2).unwrap();
        let (first, second) = (words.ptr(), words.ptr() + 1);
        let until_shown = |what: Activity| {
            while world.core().control().waiting().0 != what {
                std::thread::yield_now();
            }
        };
        let wait = Wait::FOREVER.doing(Activity::Halo);
        std::thread::scope(|scope| {
            let long = scope.spawn(|| world.wait_until(first, Is::Equal(1), wait));
            until_shown(Activity::Halo);
            let short = scope.spawn(|| world.wait_until(second, Is::Equal(1), Wait::FOREVER));
            until_shown(Activity::Word);
            world.put(second, 1).unwrap();
            assert_eq!(short.join().unwrap(), Ok(1));
            until_shown(Activity::Halo);
            world.put(first, 1).unwrap();
            assert_eq!(long.join().unwrap(), Ok(1));
        });
        assert_eq!(world.core().control().waiting().0, Activity::Computing);
        drop(words);
        world.finalize().unwrap();
    }

    #[test]
    fn a_wait_that_goes_on_after_its_time_has_lasted_from_the_beginning() {
        let world = World::init().unwrap();
        let core = world.core();
        let since_ms = || core.control().waiting().2;
        let now_ms = time::now_ms();
        let barrier = core.begin_wait(Activity::Barrier, NOBODY, now_ms - 5000);
        core.end_wait(barrier, true);
        let barrier = core.begin_wait(Activity::Barrier, NOBODY, now_ms);
        assert_eq!(since_ms(), now_ms - 5000);
        core.end_wait(barrier, false);
        let barrier = core.begin_wait(Activity::Barrier, NOBODY, now_ms);
        assert_eq!(since_ms(), now_ms, "another barrier");
        core.end_wait(barrier, true);
        core.end_wait(core.begin_wait(Activity::Word, NOBODY, now_ms + 1), false);
        assert_eq!(since_ms(), now_ms + 1, "another wait");
        world.finalize().unwrap();
    }

    /// Whoever waits is asleep, and woken by each kind of write; nobody is counted afterwards.
    #[test]
    fn every_way_to_write_a_word_wakes_whoever_waits_for_it() {
        let world = World::init().unwrap();
        let (arena, private) = (world.alloc::<u64>(2).unwrap(), world.register(vec![0u64; 2]).unwrap());
        let source = world.alloc::<u64>(1).unwrap();
        world.put(source.ptr(), 9).unwrap();
        for word in [arena.ptr(), private.ptr()] {
            let (at, from, plus) = (word.address(), source.address(), AtomicOp::Add(1u64));
            let writes: [&(dyn Fn() -> Result<()> + Sync); 5] = [
                &|| world.put(word, 1),
                &|| world.put_slice(word, &[2, 0]),
                &|| world.fetch_add(word, 1).map(drop),
                &|| world.copy(at, from, 8, Order::None).map(drop),
                &|| world.atomic(from, at, plus, Order::None).map(drop),
            ];
            for (write, wanted) in writes.into_iter().zip([1, 2, 3, 9, 10]) {
                std::thread::scope(|scope| {
                    let waiter = scope.spawn(|| world.wait_until(word, Is::Equal(wanted), Wait::FOREVER));
                    while !world.core().control().bell.is_listened_to() {
                        std::thread::yield_now();
                    }
                    let rings = world.core().control().bell.rings();
                    write().unwrap();
                    assert!(world.core().control().bell.rings() != rings, "nobody rang for {wanted}");
                    assert_eq!(waiter.join().unwrap(), Ok(wanted));
                });
                assert!(!world.core().arena.shared().signs.listeners.any());
            }
        }
        drop((arena, private, source));
        world.finalize().unwrap();
    }
}
