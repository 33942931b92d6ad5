//! Operations of the program: copies, atomics, completion, and the typed calls that wait for themselves.

use crate::drive::world::{deadline_after, World};
use crate::drive::{Drive, Held};
use crate::engine::operations::{Action, Handle, Operation, Side, OPERATION_BYTES};
use crate::engine::order::{Condition, Order};
use crate::engine::start::{self, Started};
use crate::engine::{turn, Engine};
use crate::node::address::{GlobalAddress, GlobalPtr, Registration};
use crate::node::atomic::{self, AtomicCall, AtomicOp, AtomicWord};
use crate::node::batch::{Alone, WordTask};
use crate::node::copy;
use crate::{Error, Result};
use bytemuck::Pod;
use kumiki_net::contract::Outbox;
use kumiki_net::os::descriptor::Event;
use kumiki_net::os::process;
use kumiki_net::shm::control::Activity;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most bytes that memory is taken for before it is known that there are so many to be read.
const UNPROVEN_BYTES: u64 = 64 << 10;

/// What became of an operation that was launched.
pub(crate) enum Launched {
    /// It is complete; an atomic has its old value.
    Done(Option<u64>),
    /// It is in the table and will be completed by an answer.
    Underway,
}

/// Which number an operation gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// The next handle of the program.
    Handle,
    /// One that nobody holds a handle to.
    Internal,
    /// This one, which was taken before.
    Given(u64),
}

/// Whether an operation may overtake others that were issued before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// As its order and its way allow.
    Any,
    /// Not a copy from the same rank to the same rank.
    Kept,
}

thread_local! {
    /// The operation that this thread issued last: the life of its world, and its number. Operations that were complete
    /// when issuing them returned need not be here: continuing behind the one before them is as good.
    static LAST: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The operation that this thread issued last in a life of a world.
fn last_of_thread(life: u64) -> Option<u64> {
    let (of, number) = LAST.get();
    (of == life).then_some(number)
}

/// Remembers an operation as the last of this thread.
fn set_last_of_thread(life: u64, number: u64) {
    LAST.set((life, number));
}

/// A copy between two addresses, whatever regions they lie in.
fn copy_of(dst: GlobalAddress, src: GlobalAddress, bytes: u64) -> Action {
    let side = |address| Side::Global(address, Registration::ANY);
    Action::Copy { dst: side(dst), src: side(src), bytes }
}

/// Changes a word, and gives back its old value; `None` if it is not aligned.
///
/// # Safety
/// The pointer must be valid for a `W`.
#[inline(always)]
unsafe fn change_aligned<W: AtomicWord>(pointer: *mut u8, code: u8, first: u64, second: u64) -> Option<u64> {
    match (pointer as usize).is_multiple_of(size_of::<W>()) {
        // SAFETY: valid, as the caller promises, and aligned.
        true => Some(unsafe { atomic::change::<W>(pointer, code, first, second) }),
        false => None,
    }
}

impl World {
    /// Starts an operation in its order and gives its handle.
    fn issue(&self, action: Action, order: Order, turn: Turn) -> Result<Handle> {
        self.core().note(self.try_issue(action, order, turn))
    }

    fn try_issue(&self, action: Action, order: Order, turn: Turn) -> Result<Handle> {
        let core = self.core();
        core.check_usable()?;
        let busy = core.waiting.busy();
        let unordered = order == Order::None && turn == Turn::Any;
        let id = if unordered || core.pending.load(Ordering::Acquire) == 0 {
            self.launch(Number::Handle, action)?.0
        } else {
            self.issue_in_order(action, order, turn)?
        };
        set_last_of_thread(core.life, id);
        drop(busy);
        self.look_around();
        Ok(Handle::from_number(id))
    }

    /// A program that issues one operation after the other looks for answers itself, now and then: the service thread, which they
    /// would wake, would only stand in its way.
    fn look_around(&self) {
        let core = self.core();
        let turn = core.waiting.inline_turns.fetch_add(1, Ordering::Relaxed);
        let keeps = core.waiting.kept.load(Ordering::Relaxed) != 0;
        if core.pace.is_time_to_look(turn, core.pending.load(Ordering::Relaxed), keeps) {
            // What went wrong is told to whoever waits for it.
            let _ = core.look_once(&mut |_| None::<()>);
        }
    }

    /// Starts an operation now. One of the program gets its number when it is complete, or as it enters the table: what
    /// is in the table is then in the order of its numbers, and whoever waits for lower ones never waits for itself.
    pub(crate) fn launch(&self, number: Number, action: Action) -> Result<(u64, Launched)> {
        let core = self.core();
        if let Action::Atomic { dst: Some(dst), call } = action {
            // The word is changed before its old value goes to another rank: what that needs must be there first.
            if start::needs_delivery(core, dst, call.code)? {
                self.ensure_transport()?;
                self.machine_with_room().map(drop)?;
            }
        }
        let started = match core.run_beside(action)? {
            Some(old) => Started::Complete(Some(old)),
            None => start::start(core, action)?,
        };
        let (peer, message, rest) = match started {
            Started::Sent(peer, message) => (peer, message, action),
            Started::Complete(value) => {
                let elsewhere = match (value, action) {
                    (Some(old), Action::Atomic { dst: Some(dst), call }) => {
                        start::store_value(core, dst, old, call.code)?
                    }
                    _ => None,
                };
                let Some((peer, message)) = elsewhere else {
                    core.raise_completion();
                    let id = if number == Number::Handle { core.new_handle() } else { 0 };
                    return Ok((id, Launched::Done(value)));
                };
                // The atomic is done; what goes on is the delivery of its old value.
                (peer, message, start::DELIVERY)
            }
        };
        self.ensure_transport()?;
        let mut machine = self.machine_with_room()?;
        let id = match number {
            Number::Handle => core.new_handle(),
            Number::Internal => machine.engine.new_internal(),
            Number::Given(id) => id,
        };
        let message = machine.engine.enter(id, peer, rest, message);
        let sent = machine.post(core, peer, message);
        if sent.is_err() {
            machine.engine.operations.remove(id);
        }
        // The message is on its way: the rest need not be hurried.
        machine.engine.feed(core).settle();
        sent.map(|()| (id, Launched::Underway))
    }

    /// Starts an operation of the program that may have to wait for others: at once if it need not, otherwise it is put in
    /// the table and started when its condition holds.
    fn issue_in_order(&self, action: Action, order: Order, turn: Turn) -> Result<u64> {
        self.ensure_transport()?;
        let core = self.core();
        let ahead = |engine: &Engine| match turn {
            Turn::Any => Condition::Free,
            Turn::Kept => turn::turn(core, &engine.operations, action),
        };
        let mut machine = core.machine();
        let mut condition = ahead(&machine.engine);
        // An atomic that keeps its turn by the way that it takes must take that way.
        let is_copy = matches!(action, Action::Copy { .. });
        if order == Order::None && condition == Condition::Free && is_copy {
            drop(machine);
            return Ok(self.launch(Number::Handle, action)?.0);
        }
        if !core.has_room(&machine.engine) {
            drop(machine);
            machine = self.machine_with_room()?;
            condition = ahead(&machine.engine);
        }
        // With the engine held, whatever is in the table has a lower number, and so has whatever this one waits for.
        let id = core.new_handle();
        let condition = order.condition(id, last_of_thread(core.life)).and(condition);
        let pipelines = match condition {
            Condition::Exactly(previous) => {
                let previous = machine.engine.operations.get(previous);
                previous.is_some_and(|previous| turn::pipelines(core, previous, action))
            }
            _ => false,
        };
        let condition = if pipelines { Condition::Free } else { condition };
        machine.engine.operations.insert(id, Operation::of_program(action, condition));
        let mut out = Outbox::default();
        let mut feed = machine.engine.feed(core);
        feed.settle();
        feed.start_ready(&mut out);
        machine.post_all(core, out);
        Ok(id)
    }

    /// The machine, with room for one more operation. Waits while as many are incomplete as may be, and while the budget is
    /// spent but something is under way that gives memory back.
    fn machine_with_room(&self) -> Result<Held<'_>> {
        let core = self.core();
        let machine = core.machine();
        if core.has_room(&machine.engine) {
            return Ok(machine);
        }
        drop(machine);
        loop {
            core.wait_until(Activity::Complete, None, |engine| {
                // What has been sent or taken since may not be booked off yet.
                engine.feed(core).settle();
                (core.has_room(engine) || !engine.gives_memory_back()).then_some(())
            })?;
            let machine = core.machine();
            if core.has_room(&machine.engine) {
                return Ok(machine);
            }
            if !machine.engine.gives_memory_back() {
                return Err(Error::OutOfMemory {
                    asked: OPERATION_BYTES,
                    left: core.books.left(),
                    what: "the budget, for an operation",
                });
            }
        }
    }

    /// Copies `bytes` from `src` to `dst`, which may be anybody's. Ranges of one region may overlap.
    #[inline(always)]
    pub fn copy(&self, dst: GlobalAddress, src: GlobalAddress, bytes: u64, order: Order) -> Result<Handle> {
        let core: &Drive = self.core();
        if bytes == 8 && core.pending.load(Ordering::Acquire) == 0 && copy::move_word(core, dst, src) {
            core.raise_completion();
            return Ok(Handle::DONE);
        }
        self.copy_otherwise(dst, src, bytes, order)
    }

    #[inline(never)]
    fn copy_otherwise(
        &self,
        dst: GlobalAddress,
        src: GlobalAddress,
        bytes: u64,
        order: Order,
    ) -> Result<Handle> {
        let core = self.core();
        let quiet = core.pending.load(Ordering::Acquire) == 0;
        if (quiet || order == Order::None) && copy::move_near(core, dst, src, bytes) {
            core.raise_completion();
            return Ok(core.handle_of_done(quiet));
        }
        self.issue(copy_of(dst, src, bytes), order, Turn::Any)
    }

    /// As [`copy`](Self::copy), and it arrives behind every copy from the same rank to the same rank that was issued
    /// before it, wherever they are and whatever its order. Each has a number of its own, one more than that before it: what
    /// programs written for ACP count on.
    pub fn copy_in_turn(
        &self,
        dst: GlobalAddress,
        src: GlobalAddress,
        bytes: u64,
        order: Order,
    ) -> Result<Handle> {
        let core = self.core();
        let quiet = core.pending.load(Ordering::Acquire) == 0;
        if quiet && copy::move_near(core, dst, src, bytes) {
            core.raise_completion();
            return Ok(core.handle_of_done(false));
        }
        let turn = if quiet { Turn::Any } else { Turn::Kept };
        self.issue(copy_of(dst, src, bytes), order, turn)
    }

    /// Does an atomic operation on the word at `target`, which must be aligned where it lies, and puts its old value at
    /// `dst`.
    pub fn atomic<W: AtomicWord>(
        &self,
        dst: GlobalAddress,
        target: GlobalAddress,
        operation: AtomicOp<W>,
        order: Order,
    ) -> Result<Handle> {
        self.issue_atomic(dst, target, operation, order, Turn::Any)
    }

    /// As [`atomic`](Self::atomic), and it takes effect behind every copy to the rank of `target` that was issued
    /// before it.
    pub fn atomic_in_turn<W: AtomicWord>(
        &self,
        dst: GlobalAddress,
        target: GlobalAddress,
        operation: AtomicOp<W>,
        order: Order,
    ) -> Result<Handle> {
        self.issue_atomic(dst, target, operation, order, Turn::Kept)
    }

    fn issue_atomic<W: AtomicWord>(
        &self,
        dst: GlobalAddress,
        target: GlobalAddress,
        operation: AtomicOp<W>,
        order: Order,
        turn: Turn,
    ) -> Result<Handle> {
        let (core, bytes) = (self.core(), std::mem::size_of::<W>() as u64);
        let quiet = core.pending.load(Ordering::Acquire) == 0;
        let at_once = quiet || order == Order::None && turn == Turn::Any;
        let (code, first, second) = operation.encode();
        let words = (core.here_any(dst, bytes), core.here_any(target, bytes));
        if let (true, (Some(place), Some(word))) = (at_once, words) {
            // SAFETY: both were checked for a word.
            unsafe {
                if let Some(old) = change_aligned::<W>(word, code, first, second) {
                    core.wrote(word);
                    copy::store(place, W::narrow(old));
                    core.wrote(place);
                    core.raise_completion();
                    return Ok(core.handle_of_done(quiet && turn == Turn::Any));
                }
            }
        }
        // A place for the old value that cannot be is refused before the word is changed, as far as can be told here.
        core.note(core.reach(dst, Registration::ANY, bytes)?.check_writable(bytes))?;
        if !target.bits().is_multiple_of(bytes) {
            core.note(core.check_aligned(target, bytes))?;
        }
        let call = AtomicCall { target, registration: Registration::ANY, code, first, second };
        self.issue(Action::Atomic { dst: Some(dst), call }, order, turn)
    }

    /// The handle of the operation issued last, by whichever thread; number 0 if there was none.
    pub fn last_issued(&self) -> Handle {
        Handle::from_number(self.core().next_handle.load(Ordering::Relaxed) - 1)
    }

    /// Waits until this operation and every one before it is complete. Tells the first failure among them.
    #[inline(always)]
    pub fn complete(&self, handle: Handle) -> Result<()> {
        let is_done = handle == Handle::DONE || self.core().pending.load(Ordering::Acquire) == 0;
        if is_done && !process::is_forked_child() {
            return Ok(());
        }
        self.complete_otherwise(handle)
    }

    #[inline(never)]
    fn complete_otherwise(&self, handle: Handle) -> Result<()> {
        if self.core().is_quiet()? {
            return Ok(());
        }
        self.complete_until(handle.number(), None)
    }

    /// Waits until every operation is complete.
    pub fn complete_all(&self) -> Result<()> {
        self.complete(Handle::from_number(self.core().next_handle.load(Ordering::Relaxed)))
    }

    /// As [`complete`](Self::complete), for at most this long.
    pub fn wait(&self, handle: Handle, limit: Duration) -> Result<()> {
        if self.core().is_quiet()? {
            return Ok(());
        }
        self.complete_until(handle.number(), Some(deadline_after(limit)))
    }

    fn complete_until(&self, id: u64, deadline_ms: Option<u64>) -> Result<()> {
        let core = self.core();
        let completed = core
            .wait_until(Activity::Complete, deadline_ms, |engine| engine.operations.take_result_up_to(id));
        core.note(completed.and_then(|result| result))
    }

    /// Waits for this operation alone, whatever came before it.
    pub fn complete_one(&self, handle: Handle) -> Result<()> {
        if self.core().is_quiet()? {
            return Ok(());
        }
        let core = self.core();
        let completed = core
            .wait_until(Activity::Complete, None, |engine| engine.operations.take_result_of(handle.number()));
        core.note(completed.and_then(|result| result))
    }

    /// What became of this operation alone, if it is complete; a failure is told once. Nothing is looked for, and an error does not
    /// count as one that this world has returned: for whoever goes on with something beside what the program does.
    pub fn result_of(&self, handle: Handle) -> Option<Result<()>> {
        match self.core().check_usable() {
            Ok(()) => self.core().machine().engine.operations.take_result_of(handle.number()),
            Err(error) => Some(Err(error)),
        }
    }

    /// Whether this operation and every one before it is complete. A failure is told once, here or by
    /// [`complete`](Self::complete).
    pub fn inquire(&self, handle: Handle) -> Result<bool> {
        if self.core().is_quiet()? {
            return Ok(true);
        }
        self.core().check_usable()?;
        let ask = || -> Result<Option<Result<()>>> {
            let mut done = |engine: &mut Engine| engine.operations.take_result_up_to(handle.number());
            let (result, polled) = self.core().look_once(&mut done);
            polled.map(|_| result)
        };
        let mut result = ask()?;
        if result.is_none() && self.core().let_time_pass()? {
            result = ask()?;
        }
        if result.is_none() && self.core().waiting.crowd > 1 {
            // Whoever asks again at once would only keep from its core who is to answer.
            process::yield_now();
        }
        self.core().note(result.map_or(Ok(false), |result| result.map(|()| true)))
    }

    /// Takes what has come for this rank, and says whether anything had. Whoever looks at memory that others write should
    /// call it between two looks: what comes from other nodes is then at its place at once, and not when the service
    /// thread, which leaves the field to threads that wait, looks next.
    pub fn progress(&self) -> Result<bool> {
        let core = self.core();
        core.check_usable()?;
        if !core.has_transport.load(Ordering::Acquire) {
            return Ok(false);
        }
        core.waiting.inline_turns.fetch_add(1, Ordering::Relaxed);
        let mut happened = core.look_once(&mut |_| None::<()>).1?;
        if happened == 0 && core.let_time_pass()? {
            happened = core.look_once(&mut |_| None::<()>).1?;
        }
        Ok(happened > 0)
    }

    /// A descriptor that becomes readable when an operation completes, for event loops and async runtimes: wait until
    /// it is readable, call [`clear_completion`](Self::clear_completion), then [`inquire`](Self::inquire).
    pub fn completion_fd(&self) -> Result<BorrowedFd<'_>> {
        self.core().check_usable()?;
        if self.core().completion.get().is_none() {
            let _ = self.core().completion.set(Event::new()?);
        }
        let event = self.core().completion.get();
        event
            .map(|event| event.as_fd())
            .ok_or_else(|| Error::Closed("the completion descriptor is gone".into()))
    }

    /// Makes the completion descriptor unreadable until the next completion.
    pub fn clear_completion(&self) {
        if let Some(event) = self.core().completion.get() {
            event.clear();
        }
    }

    /// Writes one element; it is at its place when this returns.
    #[inline(always)]
    pub fn put<T: Pod>(&self, to: GlobalPtr<T>, value: T) -> Result<()> {
        let core: &Drive = self.core();
        let glance = core.glance();
        let Some(pointer) = core.recent(glance, to.address, to.registration, size_of::<T>() as u64) else {
            return self.put_one_otherwise(to, value);
        };
        // SAFETY: the destination was checked for a `T`.
        unsafe { copy::store(pointer, value) };
        core.wrote_after(glance, pointer);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn put_one_otherwise<T: Pod>(&self, to: GlobalPtr<T>, value: T) -> Result<()> {
        let core = self.core();
        if let Some(pointer) = core.meet(to.address, to.registration, size_of::<T>() as u64) {
            // SAFETY: the destination was checked for a `T`.
            unsafe { copy::store(pointer.as_ptr(), value) };
            core.wrote(pointer.as_ptr());
            return Ok(());
        }
        self.put_otherwise(to.address, to.registration, bytemuck::bytes_of(&value))
    }

    /// Writes bytes to a place that has not been found by the short way.
    #[inline(never)]
    fn put_otherwise(&self, to: GlobalAddress, registration: Registration, bytes: &[u8]) -> Result<()> {
        if let Some(pointer) = self.core().direct(to, registration, bytes.len() as u64) {
            // SAFETY: the destination was checked for all of them; they are only read.
            unsafe { copy::move_bytes(pointer, bytes.as_ptr(), bytes.len()) };
            self.core().wrote(pointer);
            return Ok(());
        }
        let src = Side::Lent(bytes.as_ptr() as usize);
        let (dst, bytes) = (Side::Global(to, registration), bytes.len() as u64);
        self.perform(Action::Copy { dst, src, bytes }).map(drop)
    }

    /// Reads one element.
    #[inline(always)]
    pub fn get<T: Pod>(&self, from: GlobalPtr<T>) -> Result<T> {
        let core: &Drive = self.core();
        match core.recent(core.glance(), from.address, from.registration, size_of::<T>() as u64) {
            // SAFETY: the source was checked for a `T`.
            Some(pointer) => Ok(unsafe { copy::load(pointer) }),
            None => self.get_one_otherwise(from),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_one_otherwise<T: Pod>(&self, from: GlobalPtr<T>) -> Result<T> {
        if let Some(pointer) = self.core().meet(from.address, from.registration, size_of::<T>() as u64) {
            // SAFETY: the source was checked for a `T`.
            return Ok(unsafe { copy::load(pointer.as_ptr()) });
        }
        let mut value = T::zeroed();
        self.get_otherwise(from.address, from.registration, bytemuck::bytes_of_mut(&mut value))?;
        Ok(value)
    }

    /// Reads bytes of a place that has not been found by the short way.
    #[inline(never)]
    fn get_otherwise(&self, from: GlobalAddress, registration: Registration, bytes: &mut [u8]) -> Result<()> {
        self.core().breathe(from)?;
        if let Some(pointer) = self.core().direct(from, registration, bytes.len() as u64) {
            // SAFETY: the source was checked for all of them; the destination is the caller's.
            unsafe { copy::move_bytes(bytes.as_mut_ptr(), pointer, bytes.len()) };
            return Ok(());
        }
        let dst = Side::Lent(bytes.as_mut_ptr() as usize);
        let (src, bytes) = (Side::Global(from, registration), bytes.len() as u64);
        self.perform(Action::Copy { dst, src, bytes }).map(drop)
    }

    /// Writes elements from memory that need not be registered; they are at their place when this returns.
    pub fn put_slice<T: Pod>(&self, to: GlobalPtr<T>, values: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        if let Some(pointer) = self.core().here(to.address, to.registration, bytes.len() as u64) {
            // SAFETY: the destination was checked for all of them; they are only read.
            unsafe { copy::move_bytes(pointer, bytes.as_ptr(), bytes.len()) };
            self.core().wrote(pointer);
            return Ok(());
        }
        self.put_otherwise(to.address, to.registration, bytes)
    }

    /// Reads elements into memory that need not be registered.
    pub fn get_slice<T: Pod>(&self, from: GlobalPtr<T>, into: &mut [T]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        if let Some(pointer) = self.core().here(from.address, from.registration, bytes.len() as u64) {
            // SAFETY: the source was checked for all of them; the destination is the caller's.
            unsafe { copy::move_bytes(bytes.as_mut_ptr(), pointer, bytes.len()) };
            return Ok(());
        }
        self.get_otherwise(from.address, from.registration, bytes)
    }

    /// Copies bytes from one place to another, and waits for that alone: whoever completes what the program has under way hears nothing of it.
    pub fn copy_now(&self, to: GlobalPtr<u8>, from: GlobalPtr<u8>, bytes: usize) -> Result<()> {
        let [dst, src] = [to, from].map(|place| Side::Global(place.address, place.registration));
        self.perform(Action::Copy { dst, src, bytes: bytes as u64 }).map(drop)
    }

    /// Reads elements into new memory. A count that cannot be there, from a program that is wrong or from memory that was
    /// overwritten, is an error: nothing is allocated for it.
    ///
    /// ```
    /// # let world = kumiki_mem::World::init()?;
    /// let field = world.alloc::<u32>(100)?;
    /// assert_eq!(world.get_vec(field.ptr(), 100)?, vec![0; 100]);
    /// assert!(world.get_vec(field.ptr(), u64::MAX / 8).is_err());
    /// # drop(field);
    /// # world.finalize()?;
    /// # Ok::<(), kumiki_mem::Error>(())
    /// ```
    pub fn get_vec<T: Pod>(&self, from: GlobalPtr<T>, count: u64) -> Result<Vec<T>> {
        self.new_vec(from, count, |values| self.get_slice(from, values))
    }

    /// New memory with what is read into it.
    pub(super) fn new_vec<T: Pod>(
        &self,
        from: GlobalPtr<T>,
        count: u64,
        read: impl FnOnce(&mut [T]) -> Result<()>,
    ) -> Result<Vec<T>> {
        let too_much = || Error::OutOfMemory { asked: count, left: 0, what: "the memory of this process" };
        let bytes = count.checked_mul(std::mem::size_of::<T>() as u64).ok_or_else(too_much)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if bytes > UNPROVEN_BYTES {
            self.check_end(from, count, bytes)?;
        }
        let mut values = Vec::new();
        let length = usize::try_from(count).map_err(|_| too_much())?;
        values.try_reserve_exact(length).map_err(|_| too_much())?;
        values.resize(length, T::zeroed());
        read(&mut values)?;
        Ok(values)
    }

    /// Refuses a range whose last element is not there.
    fn check_end<T: Pod>(&self, from: GlobalPtr<T>, count: u64, bytes: u64) -> Result<()> {
        let (last, address) = (from.add((count - 1) as usize), from.address.bits());
        let rank = self.core().format.rank(from.address);
        let past = || Error::Bounds { what: "past the end of the region", address, rank: rank.0, bytes };
        // Addresses wrap round: so far on there is a region of another rank, perhaps.
        if bytes > u64::MAX / u64::from(self.ranks()) || self.core().format.rank(last.address) != rank {
            return Err(past());
        }
        self.get(last).map(drop).map_err(|error| match error {
            Error::Bounds { .. } => past(),
            error => error,
        })
    }

    /// Does one operation that nobody holds a handle to, and waits for it. Memory that the caller lends for it is the caller's again
    /// when this returns.
    fn perform(&self, action: Action) -> Result<Option<u64>> {
        let core = self.core();
        let launched = core.check_usable().and_then(|()| self.launch(Number::Internal, action));
        let id = match core.note(launched)? {
            (_, Launched::Done(value)) => return Ok(value),
            (id, Launched::Underway) => id,
        };
        let waited = core.wait_until(Activity::Complete, None, |engine| {
            let result = engine.operations.take_result_of(id);
            result.map(|result| result.map(|()| engine.operations.take_value(id)))
        });
        core.note(waited.unwrap_or_else(|error| {
            // An answer that still comes must find nothing.
            let mut machine = core.machine();
            machine.engine.operations.remove(id);
            machine.engine.feed(core).settle();
            Err(error)
        }))
    }

    /// Changes a word and gives back its old value.
    #[inline(always)]
    pub fn fetch<W: AtomicWord>(&self, target: GlobalPtr<W>, operation: AtomicOp<W>) -> Result<W> {
        let core: &Drive = self.core();
        let (code, first, second) = operation.encode();
        let glance = core.glance();
        let word = core.recent(glance, target.address, target.registration, size_of::<W>() as u64);
        // SAFETY: the word was checked to be in bounds.
        let changed = word.and_then(|word| unsafe { change_aligned::<W>(word, code, first, second) });
        match (word, changed) {
            (Some(word), Some(old)) => {
                core.wrote_after(glance, word);
                Ok(W::narrow(old))
            }
            _ => {
                let (target, registration) = (target.address, target.registration);
                let call = AtomicCall { target, registration, code, first, second };
                self.fetch_otherwise(&call, size_of::<W>() as u64).map(W::narrow)
            }
        }
    }

    /// Changes a word of so many bytes that this thread has not used lately, or that is not aligned.
    #[cold]
    #[inline(never)]
    fn fetch_otherwise(&self, call: &AtomicCall, bytes: u64) -> Result<u64> {
        let (core, call) = (self.core(), *call);
        if let Some(word) = core.meet(call.target, call.registration, bytes) {
            if let Ok(old) = atomic::perform(word.as_ptr(), &call) {
                core.wrote(word.as_ptr());
                return Ok(old);
            }
        }
        core.breathe(call.target)?;
        // Whether the word is aligned is for its owner to say: private memory begins where the program has it.
        let old = self.perform(Action::Atomic { dst: None, call })?;
        old.ok_or_else(|| Error::Refused("an atomic was answered without a value".into()))
    }

    /// Does what is to be done to a single word, wherever it is, and gives back what it held.
    pub fn perform_word(&self, task: &WordTask) -> Result<u64> {
        match task.alone() {
            Alone::Change(call) => self.fetch_otherwise(&call, atomic::width(call.code)?),
            Alone::Write(address, registration, word, bytes) => {
                self.put_otherwise(address, registration, &word[..bytes]).map(|()| 0)
            }
            Alone::Read(address, registration, bytes) => {
                let mut word = [0; 8];
                self.get_otherwise(address, registration, &mut word[..bytes])?;
                Ok(u64::from_le_bytes(word))
            }
        }
    }

    /// Adds to a word; integers wrap around. Gives back the old value.
    #[inline]
    pub fn fetch_add<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Add(value))
    }

    /// Stores `new` if the word holds `old`; gives back what it held.
    #[inline]
    pub fn compare_swap<W: AtomicWord>(&self, target: GlobalPtr<W>, old: W, new: W) -> Result<W> {
        self.fetch(target, AtomicOp::CompareSwap(old, new))
    }

    /// Stores a value; gives back the old one.
    #[inline]
    pub fn swap<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Swap(value))
    }

    /// Keeps the smaller of a word and a value; gives back the old value.
    #[inline]
    pub fn fetch_min<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Min(value))
    }

    /// Keeps the larger of a word and a value; gives back the old value.
    #[inline]
    pub fn fetch_max<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Max(value))
    }

    /// Exclusive or; gives back the old value.
    pub fn fetch_xor<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Xor(value))
    }

    /// Or; gives back the old value.
    pub fn fetch_or<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Or(value))
    }

    /// And; gives back the old value.
    pub fn fetch_and<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::And(value))
    }
}

impl Drive {
    /// Whether one more operation may be in the table, by its length and by the budget.
    #[inline]
    pub(crate) fn has_room(&self, engine: &Engine) -> bool {
        engine.operations.len() < self.most_operations && self.books.left() >= OPERATION_BYTES
    }

    /// The next number for an operation of the program: for one that is complete, or with the machine held for one that enters
    /// the table now.
    #[inline]
    pub(crate) fn new_handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// The handle of an operation that is complete, with everything before it if `all` was, and that needs no number of its own
    /// then: nobody ever has to wait for it. Threads that copy on the node would get in each other's way at the counter.
    #[inline]
    pub(crate) fn handle_of_done(&self, all: bool) -> Handle {
        match all {
            true => Handle::DONE,
            false => Handle::from_number(self.new_handle()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_belongs_to_the_thread_that_issues_it() {
        set_last_of_thread(7, 3);
        let previous = last_of_thread(7);
        assert_eq!(Order::Continue.condition(9, previous), Condition::Exactly(3));
        let elsewhere = std::thread::spawn(|| last_of_thread(7)).join().unwrap();
        assert_eq!(Order::Continue.condition(9, elsewhere), Condition::UpTo(8));
        assert_eq!(last_of_thread(8), None);
    }
}
