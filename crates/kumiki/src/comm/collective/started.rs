//! Collectives that are started, and go on while the program does something else.
//!
//! Each is a [plan](super::plan): a list of exchanges over lanes. Whoever starts, asks, waits or makes another call of the group carries on
//! with what was started, in the order in which it was: nothing goes on by itself, but what a member has sent is there when its partner
//! comes. All members start the same, in the same order as their other calls of the group.

use super::lanes::{Exchange, Needs};
use super::operation::{Merger, Operation, Reduction, Typed};
use super::plan::{self, How, Step};
use super::traffic::{Come, Merge, Pieces};
use super::{mix, Broken, Group, Guard, State, Talk, LONG_BYTES};
use crate::{Error, Pod, Purpose, Rank, Result};
use kumiki_mem::Booking;
use std::sync::{Arc, Mutex, PoisonError};

/// A collective that was started: from [`Group::start_allreduce`] and its like.
///
/// It goes on whenever this rank is in a call of its group, and in [`is_done`](Self::is_done). Dropping it forgets about it; it is carried on
/// all the same, by later calls of the group.
///
/// ```
/// use kumiki::comm::Sum;
/// # use kumiki::prelude::*;
/// # fn main() -> kumiki::Result<()> {
/// # let world = World::init()?;
/// # let group = world.group()?;
/// let residual = group.start_allreduce(vec![0.5], Sum)?;
/// // … something that does not need it …
/// while !residual.is_done() {
///     // … a little more …
/// }
/// assert_eq!(residual.wait()?, [0.5 * f64::from(group.ranks())]);
/// # group.free()?;
/// # world.finalize()
/// # }
/// ```
#[must_use = "it may still be under way: wait for it"]
pub struct Started<'g, 'w, T: Pod> {
    group: &'g Group<'w>,
    outcome: Outcome<T>,
}

/// What became of it, when something has.
type Outcome<T> = Arc<Mutex<Option<Result<Vec<T>>>>>;

impl<T: Pod> std::fmt::Debug for Started<'_, '_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Started({})", if self.has_ended() { "done" } else { "under way" })
    }
}

impl<T: Pod> Started<'_, '_, T> {
    fn has_ended(&self) -> bool {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Carries on with it; whether [`wait`](Self::wait) would not wait.
    pub fn is_done(&self) -> bool {
        if !self.has_ended() {
            if let Ok(_turn) = self.group.enter() {
                let _ = self.group.world.progress();
                self.group.world.look_after_messages();
                let mut state = self.group.state.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = self.group.carry_on(&mut state, |_| false);
            }
        }
        self.has_ended()
    }

    /// Waits for it, and gives the elements: what the collective that waits leaves in its memory.
    pub fn wait(self) -> Result<Vec<T>> {
        if !self.has_ended() {
            let _turn = self.group.enter()?;
            let mut state = self.group.state.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = self.group.carry_on(&mut state, |_| !self.has_ended());
        }
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        let lost = || Err(Error::Closed("the group has ended".into()));
        self.group.world.note(outcome.unwrap_or_else(lost))
    }
}

/// A collective under way, whatever its elements are.
pub(super) trait Job: Send {
    /// The number of the call, and what tells it from others.
    fn call(&self) -> [u64; 2];

    /// Goes on as far as it can without waiting; gives what it needs if it is not over.
    fn go_on(&mut self, talk: &mut Talk<'_, '_>) -> Result<Option<Needs>>;

    /// Says what became of it.
    fn end(self: Box<Self>, ended: Result<()>);
}

struct Running<T: Pod> {
    call: [u64; 2],
    data: Vec<T>,
    /// What the memory is at the end, if not what was worked in.
    finish: Finish<T>,
    merger: Box<dyn Merger>,
    steps: std::vec::IntoIter<Step>,
    now: Option<(Step, Option<Exchange>, Come)>,
    wrong: Option<Error>,
    outcome: Outcome<T>,
    _booked: Option<Booking>,
}

enum Finish<T> {
    AsItIs,
    /// What it was before.
    Kept(Vec<T>),
    /// From places by distance.
    ByMember(usize, usize),
}

impl<T: Pod + Send> Job for Running<T> {
    fn call(&self) -> [u64; 2] {
        self.call
    }

    fn go_on(&mut self, talk: &mut Talk<'_, '_>) -> Result<Option<Needs>> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        loop {
            let now = self.now.take().or_else(|| self.steps.next().map(|step| (step, None, Come::default())));
            let Some((step, exchange, come)) = now else { return Ok(None) };
            let (needs, exchange, come) = self.advance(talk, &step, exchange, come)?;
            if let Some(needs) = needs {
                self.now = Some((step, Some(exchange), come));
                return Ok(Some(needs));
            }
        }
    }

    fn end(self: Box<Self>, ended: Result<()>) {
        let Running { data, finish, outcome, .. } = *self;
        let data = match finish {
            Finish::AsItIs => data,
            Finish::Kept(kept) => kept,
            Finish::ByMember(me, count) => plan::by_member(&data, me, count),
        };
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended.map(|()| data));
    }
}

impl<T: Pod> Running<T> {
    /// Goes on with a step.
    fn advance(
        &mut self,
        talk: &mut Talk<'_, '_>,
        step: &Step,
        exchange: Option<Exchange>,
        come: Come,
    ) -> Result<(Option<Needs>, Exchange, Come)> {
        let Running { merger, data, .. } = self;
        let data: &mut [u8] = bytemuck::cast_slice_mut(data);
        let whole = |pieces: &[std::ops::Range<usize>]| pieces.first().cloned().unwrap_or(0..0);
        match step.how {
            How::Copy => {
                let same = step.out == step.into;
                let mut traffic = Pieces { memory: data, out: &step.out, into: &step.into, same };
                let mut exchange = exchange.unwrap_or_else(|| Exchange::new(step.to, step.from, &traffic));
                let needs = talk.advance(&mut exchange, &mut traffic)?;
                Ok((needs, exchange, come))
            }
            How::Merge { others_first } => {
                let merge = |into: &mut [u8], others: &[u8], first: bool| merger.merge(into, others, first);
                let (element, commutes, mark) = merger.traits();
                let reduction = Reduction { element, commutes, mark, merge: &merge };
                let ranges = [whole(&step.out), whole(&step.into)];
                let mut traffic = Merge::new(data, ranges, reduction, others_first).go_on(come);
                let mut exchange = exchange.unwrap_or_else(|| Exchange::new(step.to, step.from, &traffic));
                let needs = talk.advance(&mut exchange, &mut traffic)?;
                Ok((needs, exchange, traffic.pause()))
            }
        }
    }
}

/// What is to be started.
struct Start<T> {
    name: &'static str,
    arguments: Vec<u64>,
    data: Vec<T>,
    finish: Finish<T>,
    /// What combines nothing if there is none.
    merger: Option<Box<dyn Merger>>,
    steps: Result<Vec<Step>>,
}

impl<'w> Group<'w> {
    /// Carries on with what was started, without waiting: not even for another thread that is in a call of the group, and does the same. Whether something is
    /// under way.
    pub(crate) fn look_after(&self) -> bool {
        let Some(_turn) = self.enter_if_free() else { return true };
        let _ = self.world.progress();
        self.world.look_after_messages();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.carry_on(&mut state, |_| false);
        !state.jobs.is_empty()
    }

    /// Starts a [`barrier`](Self::barrier). Gives no elements.
    pub fn start_barrier(&self) -> Result<Started<'_, 'w, u8>> {
        let steps = Ok(plan::barrier(self.all));
        self.start(Start {
            name: "start barrier",
            arguments: vec![],
            data: vec![],
            finish: Finish::AsItIs,
            merger: None,
            steps,
        })
    }

    /// Starts a [`broadcast`](Self::broadcast), which gives the elements of the root.
    pub fn start_broadcast<T: Pod + Send>(&self, root: Rank, data: Vec<T>) -> Result<Started<'_, 'w, T>> {
        let bytes = size_of_val(&data[..]);
        let steps = self.check_root(root).map(|()| plan::broadcast(self.all, root, bytes));
        let arguments = vec![root.into(), bytes as u64];
        let (finish, merger) = (Finish::AsItIs, None);
        self.start(Start { name: "start broadcast", arguments, data, finish, merger, steps })
    }

    /// Starts a [`reduce`](Self::reduce): gives the root what was combined, and the others what they gave.
    pub fn start_reduce<T: Pod + Send>(
        &self,
        root: Rank,
        data: Vec<T>,
        operation: impl Operation<T> + Send + 'static,
    ) -> Result<Started<'_, 'w, T>> {
        self.start_reduce_by(root, data, Box::new(Typed::<T, _>::new(operation)))
    }

    pub(crate) fn start_reduce_by<T: Pod + Send>(
        &self,
        root: Rank,
        data: Vec<T>,
        merger: Box<dyn Merger>,
    ) -> Result<Started<'_, 'w, T>> {
        let (bytes, (_, commutes, mark)) = (size_of_val(&data[..]), merger.traits());
        let steps = self.check_root(root).map(|()| plan::reduce(self.all, root, bytes, commutes));
        let arguments = vec![root.into(), bytes as u64, mark];
        let finish = if self.me == root { Finish::AsItIs } else { Finish::Kept(data.clone()) };
        self.start(Start { name: "start reduce", arguments, data, finish, merger: Some(merger), steps })
    }

    /// Starts an [`allreduce`](Self::allreduce).
    pub fn start_allreduce<T: Pod + Send>(
        &self,
        data: Vec<T>,
        operation: impl Operation<T> + Send + 'static,
    ) -> Result<Started<'_, 'w, T>> {
        self.start_allreduce_by(data, Box::new(Typed::<T, _>::new(operation)))
    }

    pub(crate) fn start_allreduce_by<T: Pod + Send>(
        &self,
        data: Vec<T>,
        merger: Box<dyn Merger>,
    ) -> Result<Started<'_, 'w, T>> {
        let (bytes, (element, commutes, mark)) = (size_of_val(&data[..]), merger.traits());
        let is_long = bytes >= LONG_BYTES;
        let steps = Ok(plan::allreduce(self.all, bytes, element, commutes, is_long));
        let (arguments, finish) = (vec![bytes as u64, mark], Finish::AsItIs);
        self.start(Start { name: "start allreduce", arguments, data, finish, merger: Some(merger), steps })
    }

    /// Starts an [`allgather`](Self::allgather), which gives the elements of all.
    pub fn start_allgather<T: Pod + Send>(&self, data: &[T]) -> Result<Started<'_, 'w, T>> {
        let (me, count, part) = (self.me as usize, self.count as usize, data.len());
        let mut all = vec![T::zeroed(); part * count];
        all[me * part..(me + 1) * part].copy_from_slice(data);
        let steps = Ok(plan::allgather(self.all, size_of_val(data)));
        let arguments = vec![size_of_val(data) as u64];
        self.start(Start {
            name: "start allgather",
            arguments,
            data: all,
            finish: Finish::AsItIs,
            merger: None,
            steps,
        })
    }

    /// Starts an [`alltoall`](Self::alltoall), which gives what has come.
    pub fn start_alltoall<T: Pod + Send>(&self, data: &[T]) -> Result<Started<'_, 'w, T>> {
        let (me, count) = (self.me as usize, self.count as usize);
        let is_whole = data.len().is_multiple_of(count);
        let wrong = || Error::Misuse(format!("{} elements for {count} members", data.len()));
        let turned = if is_whole { plan::by_distance(data, me, count) } else { Vec::new() };
        let part = size_of_val(data) / count;
        let steps = if is_whole { Ok(plan::alltoall(self.all, part)) } else { Err(wrong()) };
        let (arguments, finish) = (vec![size_of_val(data) as u64], Finish::ByMember(me, count));
        self.start(Start { name: "start alltoall", arguments, data: turned, finish, merger: None, steps })
    }

    fn start<T: Pod + Send>(&self, start: Start<T>) -> Result<Started<'_, 'w, T>> {
        let _turn = self.enter()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        if let Some(broken) = state.broken {
            Talk { group: self, state, mark: 0, call: 0 }.tell();
            return self.world.note(Err(broken.error()));
        }
        let Start { name, arguments, data, finish, merger, steps } = start;
        let element = merger.as_ref().map_or(size_of::<T>(), |merger| merger.traits().0);
        let (steps, wrong) = match (steps, self.book_plan(&data, &finish)) {
            (Ok(steps), Ok(booked)) => ((steps, booked), None),
            (Err(error), _) | (_, Err(error)) => ((Vec::new(), None), Some(error)),
        };
        let (steps, booked) = steps;
        let given = arguments.iter().fold(element as u64, |mark, argument| mix(mark, *argument));
        let mark = state.begin(self.number, name, given);
        let outcome: Outcome<T> = Arc::default();
        state.jobs.push_back(Box::new(Running {
            call: [state.call, mark],
            data,
            finish,
            merger: merger.unwrap_or_else(|| Box::new(Keep)),
            steps: steps.into_iter(),
            now: None,
            wrong,
            outcome: outcome.clone(),
            _booked: booked,
        }));
        // An error is told by whoever waits for it.
        let _ = self.carry_on(state, |_| false);
        Ok(Started { group: self, outcome })
    }

    /// Books what the program has not given: copies, and the plan.
    fn book_plan<T>(&self, data: &[T], finish: &Finish<T>) -> Result<Option<Booking>> {
        let copies = match finish {
            Finish::AsItIs => 0,
            Finish::Kept(_) => size_of_val(data),
            Finish::ByMember(..) => 2 * size_of_val(data),
        };
        // Two steps a member at most, with a piece in and out.
        let plan = 2 * self.count as usize * (size_of::<Step>() + 32);
        self.world.book(Purpose::Comm, (copies + plan) as u64).map(Some)
    }

    /// Carries on with what was started, in its order, and waits for it as long as `waits` says. Whether all of it is over.
    pub(super) fn carry_on(&self, state: &mut State, waits: impl Fn(&State) -> bool) -> Result<bool> {
        while let Some(mut job) = state.jobs.pop_front() {
            if let Some(broken) = state.broken {
                job.end(Err(broken.error()));
                continue;
            }
            let [call, mark] = job.call();
            let must_wait = waits(state);
            let mut guard = Guard(Talk { group: self, state, mark, call }, true);
            let went = guard.begin().and_then(|()| carry(&mut guard.0, &mut *job, must_wait));
            guard.1 = false;
            let ended = match went {
                Ok(true) => Some(guard.0.post(true)),
                Ok(false) => None,
                Err(error) => Some(Err(guard.0.give_up(error))),
            };
            drop(guard);
            match ended {
                Some(ended) => job.end(ended),
                None => {
                    state.jobs.push_front(job);
                    return Ok(false);
                }
            }
        }
        match state.broken {
            Some(broken) => Err(broken.error()),
            None => Ok(true),
        }
    }
}

/// Goes on with a job, and waits for it if it must. Whether it is over.
fn carry(talk: &mut Talk<'_, '_>, job: &mut dyn Job, must_wait: bool) -> Result<bool> {
    loop {
        match job.go_on(talk)? {
            None => return Ok(true),
            Some(needs) if must_wait => talk.wait(needs)?,
            Some(_) => return Ok(false),
        }
    }
}

/// For what combines nothing.
struct Keep;

impl Merger for Keep {
    fn traits(&self) -> (usize, bool, u64) {
        (1, true, 0)
    }

    fn merge(&self, _: &mut [u8], _: &[u8], _: bool) {}
}

impl State {
    /// What was started ends with the group.
    pub(super) fn end_jobs(&mut self, broken: Broken) {
        self.jobs.drain(..).for_each(|job| job.end(Err(broken.error())));
    }
}
