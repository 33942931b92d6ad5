//! Puts and gets between memory of this process that need not be registered and any address, without waiting for them.
//!
//! While one is under way the engine reads or writes the memory of the process whenever messages come and go, so nobody else may have it.
//! [`Pending`] owns it, and gives it back at the end: whoever loses one (`mem::forget`) loses the memory, which is then never
//! freed. A [`Scope`] borrows it, and ends only when everything that was begun in it has ended, whatever became of the values that
//! its methods gave. An operation that is taken from the table, with the engine held, touches its memory no more.

use crate::drive::issue::{Launched, Number};
use crate::drive::loans::Loans;
use crate::drive::world::World;
use crate::drive::Drive;
use crate::engine::operations::{Action, Handle, Side};
use crate::engine::sections::Recipe;
use crate::engine::Engine;
use crate::node::address::{GlobalAddress, GlobalPtr, Registration};
use crate::node::atomic::{AtomicOp, AtomicWord};
use crate::{Error, Pod, Result};
use kumiki_net::os::process;
use kumiki_net::shm::control::Activity;
use kumiki_net::Rank;
use std::collections::HashMap;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A put or a get under way that owns its memory. [`complete`](Self::complete) waits for it and gives the memory back; so does awaiting it,
/// in any executor (its waker may be called by the service thread, which has a small stack). Dropping it gives it up: whether a put has taken
/// effect is then unknown. If it fails, the memory is freed.
#[must_use = "dropping it gives the operation up"]
pub struct Pending<'w, T: Pod> {
    // Before the memory: the operation is gone from the table when that is freed.
    flight: Flight<'w>,
    memory: Vec<T>,
}

/// A handle that is waited for: the future of [`World::completion`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct Completion<'w> {
    world: &'w World,
    handle: Handle,
    place: Place<'w>,
}

/// An operation of which only this knows.
struct Flight<'w> {
    core: &'w Drive,
    stage: Stage,
    place: Place<'w>,
}

enum Stage {
    /// It is in the table, and the memory is lent to it.
    Underway(u64),
    /// How it ended.
    Over(Result<()>),
}

/// Where puts and gets of borrowed memory are begun; from [`World::scope`]. When that returns all of them have ended.
pub struct Scope<'scope, 'env: 'scope> {
    pub(super) world: &'scope World,
    /// What is under way.
    begun: Mutex<Vec<u64>>,
    pub(super) loans: Loans,
    // As the scope of threads of the standard library: neither lifetime may shrink.
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

impl<T: Pod> std::fmt::Debug for Pending<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pending({} elements)", self.memory.len())
    }
}

impl std::fmt::Debug for Completion<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Completion({})", self.handle.number())
    }
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}

impl<'w> Flight<'w> {
    fn new(core: &'w Drive, id: Option<u64>) -> Flight<'w> {
        let stage = id.map_or(Stage::Over(Ok(())), Stage::Underway);
        Flight { core, stage, place: Place::of(core) }
    }

    /// How the operation ended, if it has. If nobody can wait for it any more that is an error, and it stays under way: only what is
    /// taken from the table touches its memory no more.
    fn look(&mut self) -> Option<Result<()>> {
        let id = match &self.stage {
            Stage::Underway(id) => *id,
            Stage::Over(result) => return Some(result.clone()),
        };
        if let Err(error) = self.core.check_usable() {
            return Some(Err(error));
        }
        let core = self.core;
        let mut take = |engine: &mut Engine| end_of(core, engine, id);
        let (mut found, mut polled) = self.core.look_once(&mut take);
        if found.is_none() && polled.is_ok() {
            match self.core.let_time_pass() {
                Ok(true) => (found, polled) = self.core.look_once(&mut take),
                Ok(false) => {}
                Err(error) => polled = Err(error),
            }
        }
        match found {
            Some(result) => {
                self.stage = Stage::Over(result.clone());
                Some(result)
            }
            None => polled.and_then(|_| self.core.check_wait()).err().map(Err),
        }
    }

    fn wait(&mut self) -> Result<()> {
        let id = match &self.stage {
            Stage::Underway(id) => *id,
            Stage::Over(result) => return result.clone(),
        };
        self.core.check_usable()?;
        let core = self.core;
        let ended = core.wait_until(Activity::Complete, None, |engine| end_of(core, engine, id))?;
        self.stage = Stage::Over(ended.clone());
        ended
    }
}

/// How an operation ended, if it has; nothing is kept of it then.
fn end_of(core: &Drive, engine: &mut Engine, id: u64) -> Option<Result<()>> {
    let result = engine.operations.take_result_of(id)?;
    if engine.sections.end(id) {
        engine.feed(core).settle();
    }
    Some(result)
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Stage::Underway(id) = self.stage {
            give_up(self.core, id);
        }
    }
}

/// Takes an operation from the table: what still comes for it finds nothing.
fn give_up(core: &Drive, id: u64) {
    // In a forked child there is no engine, and nobody who touches the memory.
    if process::is_forked_child() {
        return;
    }
    let mut machine = core.machine();
    machine.engine.operations.remove(id);
    let _ = machine.engine.operations.take_result_of(id);
    machine.engine.sections.end(id);
    machine.engine.feed(core).settle();
}

impl<T: Pod> Pending<'_, T> {
    /// Waits for it, and gives the memory back: of a get, with what was read.
    pub fn complete(mut self) -> Result<Vec<T>> {
        let ended = self.flight.wait();
        self.flight.core.note(ended)?;
        Ok(std::mem::take(&mut self.memory))
    }

    /// As [`complete`](Self::complete), for whoever goes on after an error: it does not count as one that this world has returned.
    pub fn settle(mut self) -> Result<Vec<T>> {
        self.flight.wait()?;
        Ok(std::mem::take(&mut self.memory))
    }

    /// Why it has failed, if it is known to have. Takes nothing of what comes: for whoever looks again and again for something else.
    pub fn failure(&mut self) -> Option<Error> {
        let core = self.flight.core;
        if let Stage::Underway(id) = self.flight.stage {
            core.check_usable().ok()?;
            let ended = end_of(core, &mut core.machine().engine, id)?;
            self.flight.stage = Stage::Over(ended);
        }
        match &self.flight.stage {
            Stage::Over(ended) => ended.clone().err(),
            Stage::Underway(_) => None,
        }
    }

    /// Whether [`complete`](Self::complete) would not wait. Takes what has come.
    pub fn is_complete(&mut self) -> bool {
        self.flight.look().is_some()
    }
}

// The elements are in the vector's own memory, wherever the value is.
impl<T: Pod> Unpin for Pending<'_, T> {}

impl<T: Pod> Future for Pending<'_, T> {
    type Output = Result<Vec<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Pending { flight, memory } = this;
        let (core, place) = (flight.core, flight.place.number());
        let ended = core.look_or_be_woken(place, context, || flight.look());
        ended.map(|ended| core.note(ended).map(|()| std::mem::take(memory)))
    }
}

impl Future for Completion<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let place = this.place.number();
        this.world.core().look_or_be_woken(place, context, || match this.world.inquire(this.handle) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        })
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Begins to write elements, from memory that is borrowed until the scope ends.
    pub fn put<T: Pod>(&'scope self, to: GlobalPtr<T>, values: &'scope [T]) -> Result<()> {
        self.begin(self.world.put_of(to.address, to.registration, bytemuck::cast_slice(values)))
    }

    /// Begins to read elements, into memory that is borrowed until the scope ends.
    pub fn get<T: Pod>(&'scope self, from: GlobalPtr<T>, into: &'scope mut [T]) -> Result<()> {
        self.begin(self.world.get_of(from.address, from.registration, bytemuck::cast_slice_mut(into)))
    }

    fn begin(&self, action: Action) -> Result<()> {
        if let Some(id) = self.world.core().note(self.world.fly(action))? {
            self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
        Ok(())
    }
}

/// Ends what was begun in a scope, also when that unwinds.
struct Ending<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Ending<'_, '_, '_> {
    /// Waits for everything; tells the failure of what was begun first.
    fn wait(&self) -> Result<()> {
        let core = self.0.world.core();
        let mut first = Ok(());
        while let Some(id) = self.0.begun.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            let ended = Flight::new(core, Some(id)).wait();
            first = ended.and(first);
        }
        core.note(first)
    }
}

impl Drop for Ending<'_, '_, '_> {
    fn drop(&mut self) {
        // Nothing is left after the end of a scope; of one that unwinds nobody asks how it ended.
        let begun = std::mem::take(&mut *self.0.begun.lock().unwrap_or_else(PoisonError::into_inner));
        begun.into_iter().for_each(|id| give_up(self.0.world.core(), id));
        self.0.loans.wait();
    }
}

impl World {
    /// Begins to write elements, from memory that is handed over until the end. Neither [`complete_all`](Self::complete_all) nor the order of
    /// other operations knows of it.
    pub fn put_vec<T: Pod>(&self, to: GlobalPtr<T>, values: impl Into<Vec<T>>) -> Result<Pending<'_, T>> {
        let memory: Vec<T> = values.into();
        let action = self.put_of(to.address, to.registration, bytemuck::cast_slice(&memory));
        self.pend(action, memory)
    }

    /// Begins to read as many elements as a vector has into it; as [`put_vec`](Self::put_vec).
    pub fn get_into<T: Pod>(&self, from: GlobalPtr<T>, into: impl Into<Vec<T>>) -> Result<Pending<'_, T>> {
        let mut memory: Vec<T> = into.into();
        let action = self.get_of(from.address, from.registration, bytemuck::cast_slice_mut(&mut memory));
        self.pend(action, memory)
    }

    /// Begins to write elements, from memory that is handed over until the end, and then to change a word of the same rank: as
    /// [`put_signal`](Self::put_signal), without waiting. Between nodes it is one message.
    pub fn put_vec_signal<T: Pod, W: AtomicWord>(
        &self,
        to: GlobalPtr<T>,
        values: impl Into<Vec<T>>,
        word: GlobalPtr<W>,
        signal: AtomicOp<W>,
    ) -> Result<Pending<'_, T>> {
        let memory: Vec<T> = values.into();
        let core: &Drive = self.core();
        let put = core.note(self.put_here_or_recipe(to, &memory, word, signal))?;
        let flight = match put {
            None => Flight::new(core, None),
            Some((owner, recipe, near)) => {
                let _busy = core.waiting.busy();
                let flight = Flight::new(core, Some(self.note_recipe(&recipe, near, false)));
                core.note(self.launch_recipe(&flight, owner, &recipe))?;
                flight
            }
        };
        Ok(Pending { flight, memory })
    }

    /// Sends a recipe of which the engine knows.
    fn launch_recipe(&self, flight: &Flight<'_>, owner: Rank, recipe: &Recipe) -> Result<()> {
        let Stage::Underway(id) = flight.stage else { return Ok(()) };
        self.launch(Number::Given(id), recipe.action(owner, false)).map(drop)
    }

    /// Runs `work`, which may begin puts and gets of memory that it borrows, and waits until all of them have ended, also if it panics.
    /// The first failure is told, if `work` has not told it.
    pub fn scope<'env, R>(
        &self,
        work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        let (begun, loans) = (Mutex::default(), Loans::default());
        let scope = Scope { world: self, begun, loans, _scope: PhantomData, _env: PhantomData };
        let ending = Ending(&scope);
        let worked = work(&scope);
        let ended = ending.wait();
        worked.and_then(|value| ended.map(|()| value))
    }

    /// A future of what [`complete`](Self::complete) waits for.
    pub fn completion(&self, handle: Handle) -> Completion<'_> {
        Completion { world: self, handle, place: Place::of(self.core()) }
    }

    fn put_of(&self, to: GlobalAddress, registration: Registration, bytes: &[u8]) -> Action {
        let src = Side::Lent(bytes.as_ptr() as usize);
        Action::Copy { dst: Side::Global(to, registration), src, bytes: bytes.len() as u64 }
    }

    fn get_of(&self, from: GlobalAddress, registration: Registration, bytes: &mut [u8]) -> Action {
        let dst = Side::Lent(bytes.as_mut_ptr() as usize);
        Action::Copy { dst, src: Side::Global(from, registration), bytes: bytes.len() as u64 }
    }

    fn pend<T: Pod>(&self, action: Action, memory: Vec<T>) -> Result<Pending<'_, T>> {
        let core: &Drive = self.core();
        let id = core.note(self.fly(action))?;
        Ok(Pending { flight: Flight::new(core, id), memory })
    }

    /// Starts an operation whose memory the caller keeps from everybody else; `None` if it is complete.
    fn fly(&self, action: Action) -> Result<Option<u64>> {
        let core = self.core();
        core.check_usable()?;
        let _busy = core.waiting.busy();
        match self.launch(Number::Internal, action)? {
            (_, Launched::Done(_)) => Ok(None),
            (id, Launched::Underway) => Ok(Some(id)),
        }
    }
}

impl Drive {
    /// What a future finds, or its waker remembered, to be called when something has completed.
    fn look_or_be_woken<R>(
        &self,
        place: u64,
        context: &mut Context<'_>,
        mut look: impl FnMut() -> Option<Result<R>>,
    ) -> Poll<Result<R>> {
        if let Some(found) = look() {
            return Poll::Ready(found);
        }
        if self.pace.sleeps_at_once() {
            // Looking takes time there, and nothing comes by itself.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.waiting.futures.add(place, context.waker());
        // What came in between has woken nobody.
        match look() {
            Some(found) => Poll::Ready(found),
            None => Poll::Pending,
        }
    }
}

/// The place of a future among those to be woken, if it has one; it goes with the future.
struct Place<'w> {
    futures: &'w Futures,
    number: Option<u64>,
}

impl<'w> Place<'w> {
    fn of(core: &'w Drive) -> Place<'w> {
        Place { futures: &core.waiting.futures, number: None }
    }

    fn number(&mut self) -> u64 {
        *self.number.get_or_insert_with(|| self.futures.next.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.futures.remove(number);
        }
    }
}

/// Whom to wake when an operation completes, or when nobody can wait for any.
#[derive(Debug, Default)]
pub(crate) struct Futures {
    /// Whether there is one.
    any: AtomicBool,
    /// The next place.
    next: AtomicU64,
    wakers: Mutex<HashMap<u64, Waker>>,
}

impl Futures {
    fn wakers(&self) -> MutexGuard<'_, HashMap<u64, Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, place: u64, waker: &Waker) {
        let waker = waker.clone();
        let before = self.wakers().insert(place, waker);
        self.any.store(true, Ordering::Relaxed);
        // What it does when it is dropped is its own, and done without our lock.
        drop(before);
    }

    fn remove(&self, place: u64) {
        let removed = self.wakers().remove(&place);
        drop(removed);
    }

    /// Whether somebody is to be woken.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Wakes all of them: which one waits for what, they find out themselves. Nobody holds the machine meanwhile, as an executor may hold
    /// its own lock while it polls a future.
    #[inline]
    pub(crate) fn wake(&self) {
        // Whoever is added looks once more with the machine held, and so finds what had completed before.
        if self.any() {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let mut added = self.wakers();
        self.any.store(false, Ordering::Relaxed);
        let wakers = std::mem::take(&mut *added);
        drop(added);
        for waker in wakers.into_values() {
            // It is foreign code, and runs in whatever wait of the library, where memory is lent: a panic must not unwind through that.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}
