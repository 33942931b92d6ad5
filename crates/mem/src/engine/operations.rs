//! Handles: the numbers of operations, and the table of those that are not complete.
//!
//! Numbers run 1, 2, 3, … for the life of a world. An operation that completes at once leaves no trace, and has no number
//! either if everything before it is complete too; the others are kept here, with what to do when the answer comes, until they are complete and, if they failed, until the
//! failure was told.

use crate::engine::frames::Few;
use crate::engine::order::Condition;
use crate::engine::table::Table;
use crate::node::address::{GlobalAddress, Registration};
use crate::node::atomic::AtomicCall;
use crate::{Error, Result};
use kumiki_net::contract::{Leeway, IN_PLACE_BYTES};
use kumiki_net::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// Names an operation. Completing a handle completes every one before it.
///
/// Operations that were complete when issuing them returned, with everything before them, all have the same handle:
/// [`Handle::DONE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(u64);

impl Handle {
    /// The handle of operations that were complete at once, with everything before them: waiting for it is over, and what is
    /// ordered behind it may start.
    pub const DONE: Handle = Handle(0);

    /// The number of the operation; the first is 1. 0 of [`DONE`](Self::DONE).
    pub fn number(self) -> u64 {
        self.0
    }

    /// The handle with this number, as C programs keep them.
    pub fn from_number(number: u64) -> Handle {
        Handle(number)
    }
}

/// The operations that the library starts on its own have numbers from here on. A number fits in 56 bits, because the
/// source of a payload carries it beside a byte of its own.
pub(crate) const FIRST_INTERNAL: u64 = 1 << 55;

/// Memory on one side of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Global memory, and the registration it must belong to.
    Global(GlobalAddress, Registration),
    /// Memory of this process that the caller lends until the operation is complete or forgotten.
    Lent(usize),
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Copy {
        dst: Side,
        src: Side,
        bytes: u64,
    },
    Atomic {
        dst: Option<GlobalAddress>,
        call: AtomicCall,
    },
    /// Work that a rank does for us; the request and the reply are in the table of calls.
    Call {
        to: Rank,
        service: u8,
        /// How long the answer may take, because nobody waits for it just now.
        leeway: Leeway,
        bytes: u64,
        /// The request itself, if it fits in a header.
        few: Option<Few>,
    },
    /// A copy by recipe; that, and our side of it, are in the table of sections.
    Shape {
        to: Rank,
        /// Of the recipe.
        digest: u64,
        /// Without the recipe.
        bytes: u64,
        recipe_bytes: u32,
        /// Whether the bytes come to us.
        wants: bool,
    },
}

/// Copies of so many bytes may come torn. In tests and under the fuzzer that is few, so that random programs have many of them.
pub(crate) const TORN_BYTES: u64 = if cfg!(any(test, fuzzing)) { 100 } else { IN_PLACE_BYTES };

impl Action {
    /// Whether it may be asked for a second time, because its payload was sent in place and came torn. What was sent behind it
    /// would then come before it.
    pub(crate) fn may_be_repeated(&self) -> bool {
        matches!(self, Action::Copy { bytes, .. } if *bytes >= TORN_BYTES)
    }
}

/// Who is told when an operation is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    /// The program, by handle.
    Program,
    /// Another rank that asked for it: the path of the answer and its own number for it.
    Peer { rank: Rank, path: u32, op: u64 },
}

/// An operation that is not complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation {
    pub(crate) action: Action,
    pub(crate) client: Client,
    /// Who must answer; `None` while it has not been started.
    pub(crate) peer: Option<Rank>,
    /// What must be complete before it starts, while it has not been.
    pub(crate) condition: Condition,
    /// Whether it is under way for the second time, because its payload came torn.
    pub(crate) repeated: bool,
}

impl Operation {
    /// One that the program wants, not started yet.
    pub(crate) fn of_program(action: Action, condition: Condition) -> Operation {
        Operation { action, client: Client::Program, peer: None, condition, repeated: false }
    }
}

/// Bytes of the table for one operation: the ledger's figure.
pub(crate) const OPERATION_BYTES: u64 = 192;
const _: () = assert!(std::mem::size_of::<(u64, Option<Operation>)>() <= OPERATION_BYTES as usize);

/// The operations that are not complete, and the failures not told yet.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// Those with handles…
    of_program: Table<Operation>,
    /// …and those that nobody has a handle to.
    internal: Table<Operation>,
    failures: BTreeMap<u64, Error>,
    /// Operations that may start now, by number.
    ready: BTreeSet<u64>,
    /// Operations that wait for one other: its number, and theirs.
    behind_one: BTreeSet<(u64, u64)>,
    /// Operations that wait for all up to a number: that, and theirs.
    behind_all: BTreeSet<(u64, u64)>,
    /// Operations of the program that may have to be asked for a second time.
    large: BTreeSet<u64>,
    /// Operations of which some data could not be put in its place.
    spoiled: BTreeSet<u64>,
    /// Old values of atomics whose caller waits for them, by number.
    values: Vec<(u64, u64)>,
}

impl Operations {
    pub(crate) fn insert(&mut self, id: u64, operation: Operation) {
        if operation.peer.is_none() {
            self.line_up(id, operation.condition);
        }
        if id >= FIRST_INTERNAL {
            return self.internal.insert(id, operation);
        }
        if operation.action.may_be_repeated() {
            self.large.insert(id);
        }
        self.of_program.insert(id, operation);
    }

    /// The table that has a number, or would have it.
    #[inline]
    fn table(&self, id: u64) -> &Table<Operation> {
        if id >= FIRST_INTERNAL {
            &self.internal
        } else {
            &self.of_program
        }
    }

    #[inline]
    fn table_mut(&mut self, id: u64) -> &mut Table<Operation> {
        if id >= FIRST_INTERNAL {
            &mut self.internal
        } else {
            &mut self.of_program
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<&Operation> {
        self.table(id).get(id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Operation> {
        self.table_mut(id).get_mut(id)
    }

    /// Whether an operation waits for an answer of this rank. Nobody else may answer it.
    #[inline]
    pub(crate) fn awaits(&self, id: u64, from: Rank) -> bool {
        self.get(id).is_some_and(|operation| operation.peer == Some(from))
    }

    /// The incomplete operations of the program, the latest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = (u64, &Operation)> {
        self.of_program.iter().rev()
    }

    /// Those of them that may have to be asked for a second time.
    pub(crate) fn latest_large(&self) -> impl Iterator<Item = (u64, &Operation)> {
        self.large.iter().rev().filter_map(|&id| self.get(id).map(|operation| (id, operation)))
    }

    /// Incomplete operations.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.of_program.len() + self.internal.len()
    }

    /// Bytes of the tables.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        (self.of_program.places() + self.internal.places()) as u64 * OPERATION_BYTES
    }

    /// Whether nothing is incomplete and no failure waits to be told.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.len() == 0 && self.failures.is_empty()
    }

    /// Some data of an operation could not be put in its place: it has failed, whatever the answer says.
    pub(crate) fn spoil(&mut self, id: u64) {
        if self.get(id).is_some() {
            self.spoiled.insert(id);
        }
    }

    /// Whether [`spoil`](Self::spoil) was called for an operation.
    pub(crate) fn is_spoiled(&self, id: u64) -> bool {
        self.spoiled.contains(&id)
    }

    /// Forgets an operation: its answer, if one comes, is thrown away.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Operation> {
        self.spoiled.remove(&id);
        let operation = self.table_mut(id).remove(id)?;
        if operation.peer.is_none() {
            self.step_out(id, operation.condition);
        }
        self.large.remove(&id);
        self.release(id);
        Some(operation)
    }

    /// Puts an operation where its condition lets it wait.
    fn line_up(&mut self, id: u64, condition: Condition) {
        match condition {
            _ if self.holds(condition) => self.ready.insert(id),
            Condition::Exactly(other) => self.behind_one.insert((other, id)),
            Condition::UpTo(last) => self.behind_all.insert((last, id)),
            Condition::Free => false,
        };
    }

    /// Takes an operation from where it waits.
    fn step_out(&mut self, id: u64, condition: Condition) {
        self.ready.remove(&id);
        match condition {
            Condition::Exactly(other) => self.behind_one.remove(&(other, id)),
            Condition::UpTo(last) => self.behind_all.remove(&(last, id)),
            Condition::Free => false,
        };
    }

    /// Lets those go on that waited for an operation which is gone.
    fn release(&mut self, gone: u64) {
        while let Some(&(other, id)) = self.behind_one.range((gone, 0)..=(gone, u64::MAX)).next() {
            self.behind_one.remove(&(other, id));
            self.ready.insert(id);
        }
        while let Some(&(last, id)) = self.behind_all.first().filter(|(last, _)| self.is_past(*last)) {
            self.behind_all.remove(&(last, id));
            self.ready.insert(id);
        }
    }

    /// Whether no operation of the program up to this number is incomplete.
    #[inline]
    fn is_past(&self, last: u64) -> bool {
        self.of_program.first().is_none_or(|first| first > last)
    }

    /// Keeps the old value of an atomic until its caller takes it.
    pub(crate) fn keep_value(&mut self, id: u64, value: u64) {
        self.values.push((id, value));
    }

    /// The old value of an atomic, given once.
    pub(crate) fn take_value(&mut self, id: u64) -> Option<u64> {
        let index = self.values.iter().position(|(number, _)| *number == id)?;
        Some(self.values.swap_remove(index).1)
    }

    /// Keeps a failure of an operation of the program until it is told.
    pub(crate) fn keep_failure(&mut self, id: u64, error: Error) {
        self.failures.insert(id, error);
    }

    /// Whether a condition holds.
    pub(crate) fn holds(&self, condition: Condition) -> bool {
        match condition {
            Condition::Free => true,
            Condition::UpTo(id) => self.is_past(id),
            Condition::Exactly(id) => self.get(id).is_none(),
        }
    }

    /// The next operation that has waited and whose condition holds.
    pub(crate) fn next_ready(&mut self) -> Option<u64> {
        while let Some(id) = self.ready.pop_first() {
            let Some(condition) = self.get(id).map(|operation| operation.condition) else { continue };
            if self.holds(condition) {
                return Some(id);
            }
            // What it waited for goes on in another way, under the same number.
            self.line_up(id, condition);
        }
        None
    }

    /// Whether everything up to `id` is complete; the first failure among them is told once and all are forgotten.
    pub(crate) fn take_result_up_to(&mut self, id: u64) -> Option<Result<()>> {
        if !self.holds(Condition::UpTo(id)) {
            return None;
        }
        if self.failures.is_empty() {
            return Some(Ok(()));
        }
        let later = self.failures.split_off(&(id.saturating_add(1)));
        let told = std::mem::replace(&mut self.failures, later);
        Some(told.into_values().next().map_or(Ok(()), Err))
    }

    /// Whether this one operation is complete, and how it ended.
    pub(crate) fn take_result_of(&mut self, id: u64) -> Option<Result<()>> {
        if self.get(id).is_some() {
            return None;
        }
        Some(self.failures.remove(&id).map_or(Ok(()), Err))
    }

    fn all(&self) -> impl Iterator<Item = (u64, &Operation)> {
        self.of_program.iter().chain(self.internal.iter())
    }

    /// Numbers of the incomplete operations that wait for an answer of `peer`.
    pub(crate) fn waiting_for(&self, peer: Rank) -> Vec<u64> {
        self.all().filter(|(_, op)| op.peer == Some(peer)).map(|(id, _)| id).collect()
    }

    /// Who must answer the oldest incomplete operation up to `id`.
    pub(crate) fn oldest_peer(&self, id: u64) -> Option<Rank> {
        self.all().take_while(|(number, _)| *number <= id).find_map(|(_, op)| op.peer)
    }

    /// Every peer that must answer something.
    pub(crate) fn peers(&self) -> Vec<Rank> {
        let mut peers: Vec<Rank> = self.all().filter_map(|(_, op)| op.peer).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(peer: Option<u32>, condition: Condition) -> Operation {
        let side = Side::Lent(0);
        let action = Action::Copy { dst: side, src: side, bytes: 0 };
        Operation { peer: peer.map(Rank), ..Operation::of_program(action, condition) }
    }

    #[test]
    fn completing_a_handle_completes_those_before_it_and_tells_the_first_failure() {
        let mut table = Operations::default();
        (1..=3).for_each(|id| table.insert(id, copy(Some(id as u32), Condition::Free)));
        assert_eq!(table.take_result_up_to(2), None);
        table.remove(1);
        table.remove(2);
        table.keep_failure(1, Error::Misuse("one".into()));
        table.keep_failure(2, Error::Misuse("two".into()));
        assert_eq!(table.take_result_up_to(2), Some(Err(Error::Misuse("one".into()))));
        assert_eq!(table.take_result_up_to(2), Some(Ok(())));
        assert_eq!(table.take_result_of(3), None);
        assert_eq!(table.oldest_peer(9), Some(Rank(3)));
    }

    #[test]
    fn deferred_operations_start_when_their_condition_holds() {
        let mut table = Operations::default();
        table.insert(1, copy(Some(0), Condition::Free));
        table.insert(2, copy(None, Condition::Exactly(1)));
        table.insert(3, copy(None, Condition::UpTo(2)));
        assert_eq!(table.next_ready(), None);
        table.remove(1);
        assert_eq!(table.next_ready(), Some(2));
        assert_eq!(table.next_ready(), None);
        table.remove(2);
        assert_eq!(table.next_ready(), Some(3));
    }

    #[test]
    fn an_operation_that_goes_on_under_its_number_is_still_waited_for() {
        let mut table = Operations::default();
        table.insert(1, copy(Some(0), Condition::Free));
        table.insert(2, copy(None, Condition::Exactly(1)));
        table.insert(3, copy(None, Condition::UpTo(1)));
        // An atomic is done, and its old value goes on to another rank.
        table.remove(1);
        table.insert(1, copy(Some(4), Condition::Free));
        assert_eq!(table.next_ready(), None);
        table.remove(1);
        assert_eq!((table.next_ready(), table.next_ready(), table.next_ready()), (Some(2), Some(3), None));
    }

    #[test]
    fn what_is_forgotten_before_it_started_does_not_start() {
        let mut table = Operations::default();
        table.insert(1, copy(Some(0), Condition::Free));
        table.insert(2, copy(None, Condition::Exactly(1)));
        table.insert(3, copy(None, Condition::UpTo(2)));
        table.remove(2);
        assert_eq!(table.next_ready(), None);
        table.remove(1);
        assert_eq!((table.next_ready(), table.next_ready()), (Some(3), None));
    }

    #[test]
    fn thousands_in_flight_leave_in_any_order_and_those_behind_them_start_in_theirs() {
        let mut table = Operations::default();
        let count = if cfg!(miri) { 128 } else { 4096 };
        (1..=count).for_each(|id| table.insert(id, copy(Some(id as u32 % 5), Condition::Free)));
        for id in 1..=count {
            let condition = if id % 2 == 0 { Condition::Exactly(id) } else { Condition::UpTo(id) };
            table.insert(count + id, copy(None, condition));
        }
        table.insert(FIRST_INTERNAL, copy(Some(1), Condition::Free));
        let mut started = Vec::new();
        for peer in [3, 1, 4, 0, 2] {
            for id in table.waiting_for(Rank(peer)) {
                table.remove(id);
                started.extend(std::iter::from_fn(|| table.next_ready()));
            }
        }
        assert_eq!((started.len() as u64, table.len() as u64), (count, count));
        let up_to: Vec<u64> = started.iter().copied().filter(|id| id % 2 == 1).collect();
        assert!(up_to.is_sorted(), "all of them wait for all that came before");
    }
}
