//! Running scripts: what each operation does to its rank, and when a rank that is blocked goes on.

use super::message::{Message, Receive};
use super::{kind, Blocked, Deferred, Posted, Simulation};
use crate::program::{Handle, Op, Order, Source, View, Wait};
use crate::queue::Queue;
use crate::report::{OperationKind, OperationRecord, Span};
use crate::wiring::NONE;
use crate::{Error, Time};

/// A script that issues more operations than this without any time passing will never let it pass.
const MOST_AT_ONCE: u64 = 1 << 27;

impl<Q: Queue> Simulation<'_, Q> {
    /// Asks a script for operations until one blocks or takes time.
    pub(super) fn resume(&mut self, index: u32) {
        for _ in 0..MOST_AT_ONCE {
            let now = self.now;
            let rank = &mut self.ranks[index as usize];
            if rank.cpu_ps > now {
                let at = rank.cpu_ps;
                self.events.push(at, kind::RESUME | u64::from(index));
                return;
            }
            let view = View { rank: index, now: Time::from_ps(now), state: &rank.state };
            let op = rank.script.next(&view);
            rank.operations += 1;
            if !self.perform(index, op) || self.failed.is_some() {
                return;
            }
        }
        self.fail(index, "the script issues operations without end while no time passes".to_owned());
    }

    /// Does one operation; returns whether the script may go on.
    fn perform(&mut self, index: u32, op: Op) -> bool {
        match op {
            Op::Compute(time) => {
                self.busy(index, time, "compute");
                true
            }
            Op::Wait(wait) => self.check_wait(index, wait) && self.block(index, Blocked::Wait(wait)),
            Op::WaitFlag { flag, count } => self.block(index, Blocked::Flag { flag, count }),
            Op::Barrier => {
                self.at_barrier += 1;
                self.block(index, Blocked::Barrier);
                self.try_barrier();
                false
            }
            Op::Step => {
                self.ranks[index as usize].step += 1;
                self.steps_passed += 1;
                if !self.run.options.sync_steps {
                    return true;
                }
                self.at_step += 1;
                self.block(index, Blocked::Step);
                self.try_step();
                false
            }
            Op::End => {
                let rank = &mut self.ranks[index as usize];
                rank.blocked = Blocked::Ended;
                rank.end_ps = self.now;
                self.ended += 1;
                self.try_barrier();
                self.try_step();
                false
            }
            Op::Recv { from, bytes, tag } => {
                self.receive(index, from, bytes, tag);
                true
            }
            transfer => {
                self.issue(index, transfer);
                true
            }
        }
    }

    /// The CPU of a rank is busy for a time.
    fn busy(&mut self, index: u32, time: Time, what: &'static str) {
        let rank = &mut self.ranks[index as usize];
        let start = rank.cpu_ps.max(self.now);
        rank.cpu_ps = start + time.as_ps();
        self.span(index, what, start, start + time.as_ps());
    }

    fn span(&mut self, rank: u32, what: &'static str, start_ps: u64, end_ps: u64) {
        if self.run.options.record_timeline && end_ps > start_ps {
            self.timeline.push(Span {
                rank,
                what,
                start: Time::from_ps(start_ps),
                end: Time::from_ps(end_ps),
            });
        }
    }

    /// A rank waits, unless what it waits for is there; returns whether it may go on.
    fn block(&mut self, index: u32, what: Blocked) -> bool {
        let rank = &mut self.ranks[index as usize];
        rank.blocked = what;
        rank.since_ps = self.now;
        self.take_what_is_there(index)
    }

    /// If what a rank waits for is there, takes it and unblocks the rank.
    fn take_what_is_there(&mut self, index: u32) -> bool {
        let rank = &mut self.ranks[index as usize];
        let state = &mut rank.state;
        let is_there = match rank.blocked {
            Blocked::No => true,
            Blocked::Wait(Wait::Handle(handle)) => state.is_complete(handle),
            Blocked::Wait(Wait::UpTo(handle)) => state.is_complete_up_to(handle),
            Blocked::Wait(Wait::All) => state.outstanding() == 0,
            Blocked::Wait(Wait::Outstanding(most)) => state.outstanding() <= most,
            Blocked::Flag { flag, count } => {
                let raised = state.take_flag(flag, count);
                if let Some(at) = raised {
                    rank.cpu_ps = rank.cpu_ps.max(at + self.run.parameters.flag_overhead.as_ps());
                }
                raised.is_some()
            }
            Blocked::Barrier | Blocked::Step | Blocked::Ended => false,
        };
        if is_there {
            rank.blocked = Blocked::No;
        }
        is_there
    }

    /// Something has happened that a rank may wait for.
    pub(super) fn wake(&mut self, index: u32) {
        let rank = &self.ranks[index as usize];
        let (what, since) = match rank.blocked {
            Blocked::Wait(_) => ("wait", rank.since_ps),
            Blocked::Flag { .. } => ("flag", rank.since_ps),
            _ => return,
        };
        if self.take_what_is_there(index) {
            self.span(index, what, since, self.now);
            self.events.push(self.now, kind::RESUME | u64::from(index));
        }
    }

    /// Lets everyone go on who stands at the barrier, if that is everyone.
    fn try_barrier(&mut self) {
        if self.at_barrier == 0 || self.at_barrier + self.ended < self.ranks.len() as u32 {
            return;
        }
        self.at_barrier = 0;
        let after = self.run.parameters.barrier_time.as_ps();
        self.release(Blocked::Barrier, "barrier", after);
    }

    /// Ends the step if everyone is at its end and nothing is under way.
    pub(super) fn try_step(&mut self) {
        if self.at_step == 0 || self.undelivered > 0 || self.at_step + self.ended < self.ranks.len() as u32 {
            return;
        }
        self.at_step = 0;
        self.end_step();
        self.release(Blocked::Step, "step", 0);
    }

    fn release(&mut self, from: Blocked, what: &'static str, after_ps: u64) {
        for index in 0..self.ranks.len() as u32 {
            let rank = &mut self.ranks[index as usize];
            if rank.blocked == from {
                rank.blocked = Blocked::No;
                let since = rank.since_ps;
                self.span(index, what, since, self.now + after_ps);
                self.push_in(after_ps, kind::RESUME, index);
            }
        }
    }

    /// A receive: takes a message that is there or announced, or waits for one.
    fn receive(&mut self, index: u32, from: Source, bytes: u64, tag: Option<u64>) {
        if let Source::Rank(rank) = from {
            if !self.check_rank(index, rank) {
                return;
            }
        }
        let handle = self.ranks[index as usize].state.issue();
        let peer = match from {
            Source::Rank(rank) => Some(rank),
            Source::Any => None,
        };
        let record = self.record(index, handle, OperationKind::Recv, peer, bytes);
        let receive = Receive { handle, bytes, record };
        let messages = &self.messages;
        let rank = &mut self.ranks[index as usize];
        let found = rank.unexpected.iter().position(|&message| messages.get(message).matches(from, tag));
        match found.and_then(|at| rank.unexpected.remove(at)) {
            Some(message) => self.matched(message, receive),
            None => rank.posted.push_back(Posted { from, tag, receive }),
        }
    }

    /// Issues a transfer or an atomic operation.
    fn issue(&mut self, index: u32, op: Op) {
        let (mut message, order) = match op {
            Op::Send { to, bytes, tag, gap, order } => {
                let message = Message::new(OperationKind::Send, index, index, to, bytes);
                (Message { tag, gap, ..message }, order)
            }
            Op::Put { to, bytes, flag, gap, order } => {
                let message = Message::new(OperationKind::Put, index, index, to, bytes);
                (Message { flag, gap, ..message }, order)
            }
            Op::Get { from, bytes, gap, order } => {
                (Message { gap, ..Message::new(OperationKind::Get, index, from, index, bytes) }, order)
            }
            Op::Copy { to, from, bytes, flag, gap, order } => {
                let message = Message::new(OperationKind::Copy, index, from, to, bytes);
                (Message { flag, gap, ..message }, order)
            }
            Op::Atomic { to, order } => (Message::new(OperationKind::Atomic, index, index, to, 8), order),
            _ => unreachable!("the caller has handled what is no transfer"),
        };
        if !self.check_rank(index, message.from) || !self.check_rank(index, message.to) {
            return;
        }
        if let Order::Handle(handle) = order {
            if self.ranks[index as usize].state.last_handle().is_none_or(|last| handle > last) {
                return self.fail(
                    index,
                    format!("is ordered after operation {}, which is not issued yet", handle.0),
                );
            }
        }
        if !self.check_size(index, message.bytes) {
            return;
        }
        let peer = if message.to == index { message.from } else { message.to };
        let rank = &mut self.ranks[index as usize];
        message.handle = rank.state.issue();
        message.step = rank.step;
        message.record = self.record(index, message.handle, message.kind, Some(peer), message.bytes);
        self.busy(index, self.run.parameters.send_overhead, "overhead");
        self.undelivered += 1;
        self.enqueue(index, message, order);
    }

    /// Keeps a message and starts it, now or when its order allows.
    fn enqueue(&mut self, index: u32, mut message: Message, order: Order) {
        let rank = &self.ranks[index as usize];
        let ready_ps = rank.cpu_ps.max(self.now);
        let before = Handle(message.handle.0.wrapping_sub(1));
        let mut order = order;
        let mut leader = NONE;
        if order == Order::Continue {
            // Behind a message on the same way the target keeps the order; behind any other, the start waits.
            order = if message.handle.0 == 0 { Order::None } else { Order::Handle(before) };
            if let Some((latest, serial)) = rank.latest {
                let ahead = self.messages.get(latest);
                let same_way = (ahead.from, ahead.to) == (message.from, message.to);
                if ahead.serial == serial && ahead.handle == before && same_way && !ahead.took_effect() {
                    order = Order::None;
                    message.follows = true;
                    leader = latest;
                }
            }
        }
        let handle = message.handle;
        let id = self.messages.keep(message);
        if leader != NONE {
            self.messages.get_mut(leader).follower = id;
        }
        let serial = self.messages.get(id).serial;
        let rank = &mut self.ranks[index as usize];
        rank.latest = Some((id, serial));
        if !rank.state.allows(order, handle) {
            rank.deferred.push(Deferred { message: id, order, ready_ps });
        } else if ready_ps > self.now {
            self.events.push(ready_ps, kind::LAUNCH | u64::from(id));
        } else {
            self.launch(id);
        }
    }

    /// An operation of a rank has completed: what waited for it goes on.
    pub(super) fn complete(&mut self, index: u32, handle: Handle, record: u32) {
        if let Some(entry) = self.operations.get_mut(record as usize) {
            entry.completed = Time::from_ps(self.now);
        }
        let rank = &mut self.ranks[index as usize];
        rank.state.finish(handle);
        let mut at = 0;
        while at < self.ranks[index as usize].deferred.len() {
            let rank = &mut self.ranks[index as usize];
            let Deferred { message, order, ready_ps } = rank.deferred[at];
            if rank.state.allows(order, self.messages.get(message).handle) {
                rank.deferred.remove(at);
                self.events.push(ready_ps.max(self.now), kind::LAUNCH | u64::from(message));
            } else {
                at += 1;
            }
        }
        self.wake(index);
    }

    /// Begins the record of an operation, if they are recorded.
    fn record(
        &mut self,
        rank: u32,
        handle: Handle,
        kind: OperationKind,
        peer: Option<u32>,
        bytes: u64,
    ) -> u32 {
        if !self.run.options.record_operations {
            return NONE;
        }
        let now = Time::from_ps(self.now);
        self.operations.push(OperationRecord {
            rank,
            handle,
            kind,
            peer,
            bytes,
            issued: now,
            started: now,
            completed: now,
        });
        self.operations.len() as u32 - 1
    }

    fn check_wait(&mut self, index: u32, wait: Wait) -> bool {
        let (Wait::Handle(handle) | Wait::UpTo(handle)) = wait else { return true };
        let issued = self.ranks[index as usize].state.last_handle().is_some_and(|last| handle <= last);
        if !issued {
            self.fail(index, format!("waits for operation {}, which is not issued yet", handle.0));
        }
        issued
    }

    /// Refuses messages that are too large to be counted in packets, and more of them than there is memory for.
    fn check_size(&mut self, index: u32, bytes: u64) -> bool {
        let packets = self.run.parameters.packets_of(bytes);
        if packets > u64::from(u32::MAX) {
            self.fail(
                index,
                format!("sends {bytes} bytes, which are {packets} packets: at most {} can be", u32::MAX),
            );
            return false;
        }
        let count = self.messages.count();
        if count as u64 >= self.most_messages {
            self.fail(
                index,
                format!("has no room for one more message: {count} are not complete; wait for some"),
            );
            return false;
        }
        true
    }

    fn check_rank(&mut self, index: u32, other: u32) -> bool {
        let count = self.ranks.len() as u32;
        if other >= count {
            self.fail(index, format!("names rank {other}, but there are only {count}"));
        }
        other < count
    }

    /// Ends the run with an error of a rank's program.
    pub(super) fn fail(&mut self, rank: u32, what: String) {
        let operation = self.ranks[rank as usize].operations.saturating_sub(1);
        self.failed.get_or_insert(Error::Program { rank, operation, what });
    }
}

impl Message {
    /// Whether a receive takes it.
    pub(super) fn matches(&self, from: Source, tag: Option<u64>) -> bool {
        (from == Source::Any || from == Source::Rank(self.from)) && tag.is_none_or(|tag| tag == self.tag)
    }

    /// Whether its data is there for everyone to see.
    pub(super) fn took_effect(&self) -> bool {
        self.arrived && !self.follows
    }
}
