//! What a rank does in a pattern: in each step perhaps a delay, then its puts, then waiting for what comes, unless the engine synchronises the steps.

use std::ops::Range;

use super::{PatternKind, Prepared};
use crate::random::Random;
use crate::{Gap, Op, Order, Script, Time, View, Wait};

/// The script of one rank.
pub(super) struct PatternScript<'a> {
    prepared: &'a Prepared,
    rank: u32,
    steps: Range<usize>,
    phase: Phase,
    partners: Vec<u32>,
    /// Puts of this step so far.
    sent: u32,
    /// Puts of all steps so far, where they are waited for at the end.
    sent_before: u64,
}

/// Where in its step a rank is.
#[derive(Clone, Copy)]
enum Phase {
    Delay,
    Window,
    Put,
    Flag,
    Complete,
    Step,
    LastFlag,
    LastComplete,
    End,
}

/// The flag of patterns that wait once, at the end; the others use a flag a step.
const ONE_FLAG: u64 = u64::MAX;

impl<'a> PatternScript<'a> {
    pub(super) fn new(prepared: &'a Prepared, rank: u32, steps: Range<usize>) -> PatternScript<'a> {
        let mut script = PatternScript {
            prepared,
            rank,
            steps,
            phase: Phase::Delay,
            partners: Vec::new(),
            sent: 0,
            sent_before: 0,
        };
        script.enter_step();
        script
    }

    fn enter_step(&mut self) {
        self.partners.clear();
        self.sent = 0;
        if self.steps.is_empty() {
            self.phase = Phase::LastFlag;
            return;
        }
        self.phase = Phase::Delay;
        self.prepared.partners(self.rank, self.steps.start, |to| self.partners.push(to));
    }

    fn flag(&self) -> u64 {
        match self.runs_free() {
            true => ONE_FLAG,
            false => self.steps.start as u64,
        }
    }

    /// Whether a rank goes on to the next step without waiting for what comes in this one.
    fn runs_free(&self) -> bool {
        self.prepared.pattern.kind == PatternKind::Alltoall
    }

    fn puts(&self) -> u32 {
        self.partners.len() as u32 * self.prepared.pattern.messages
    }

    fn put(&mut self) -> Op {
        let to = self.partners[self.sent as usize % self.partners.len()];
        self.sent += 1;
        let flag = (!self.prepared.sync_steps).then(|| self.flag());
        Op::Put { to, bytes: self.prepared.message_bytes(), flag, gap: Gap::Default, order: Order::None }
    }

    fn delay(&self) -> Time {
        let limit = self.prepared.pattern.imbalance.as_ps();
        if limit == 0 {
            return Time::ZERO;
        }
        let step = u64::from(self.prepared.chosen[self.steps.start]);
        let mut random = Random::of(self.prepared.pattern.seed ^ 0xde1a, u64::from(self.rank), step);
        Time::from_ps(random.below(limit))
    }
}

impl Script for PatternScript<'_> {
    fn next(&mut self, _view: &View<'_>) -> Op {
        loop {
            match self.phase {
                Phase::Delay => {
                    self.phase = Phase::Window;
                    let delay = self.delay();
                    if delay > Time::ZERO {
                        return Op::Compute(delay);
                    }
                }
                Phase::Window => {
                    self.phase = Phase::Put;
                    if self.runs_free() && !self.prepared.sync_steps {
                        return Op::Wait(Wait::Outstanding(self.prepared.pattern.window - 1));
                    }
                }
                Phase::Put if self.sent < self.puts() => {
                    self.phase = Phase::Window;
                    return self.put();
                }
                Phase::Put => {
                    self.sent_before += u64::from(self.sent);
                    self.phase = match self.prepared.sync_steps || self.runs_free() {
                        true => Phase::Step,
                        false => Phase::Flag,
                    };
                }
                Phase::Flag => {
                    self.phase = match self.prepared.pattern.kind.steps_depend() {
                        true => Phase::Step,
                        false => Phase::Complete,
                    };
                    return Op::WaitFlag { flag: self.flag(), count: u64::from(self.sent) };
                }
                Phase::Complete => {
                    self.phase = Phase::Step;
                    return Op::Wait(Wait::All);
                }
                Phase::Step => {
                    self.steps.start += 1;
                    self.enter_step();
                    return Op::Step;
                }
                Phase::LastFlag => {
                    self.phase = Phase::LastComplete;
                    if self.runs_free() && !self.prepared.sync_steps {
                        return Op::WaitFlag { flag: ONE_FLAG, count: self.sent_before };
                    }
                }
                Phase::LastComplete => {
                    self.phase = Phase::End;
                    if !self.prepared.sync_steps {
                        return Op::Wait(Wait::All);
                    }
                }
                Phase::End => return Op::End,
            }
        }
    }
}
