//! Handles: the numbers of operations, and the table of those that are not complete.
//!
//! Numbers run 1, 2, 3, … for the life of a world. An operation that completes at once leaves no trace; the others are
//! kept here, with what to do when the answer comes, until they are complete and, if they failed, until the
//! failure was told.

use crate::engine::frames::Few;
use crate::engine::order::Condition;
use crate::node::address::{GlobalAddress, Registration};
use crate::node::atomic::AtomicCall;
use crate::{Error, Result};
use kumiki_net::Rank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Names an operation. Completing a handle completes every one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(u64);

impl Handle {
    /// The number of the operation; the first is 1.
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
/// The most operations that may be incomplete at once; issuing one more waits for the oldest.
pub(crate) const MAX_OPERATIONS: usize = 1024;

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
        bytes: u64,
        /// The request itself, if it fits in a header.
        few: Option<Few>,
    },
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

/// So many places of the table stay when it is empty.
const KEPT_OPERATIONS: usize = 16;
/// Bytes of the table for one operation: the ledger's figure.
pub(crate) const OPERATION_BYTES: u64 = 192;
const _: () = assert!(std::mem::size_of::<Operation>() + 8 <= OPERATION_BYTES as usize);

/// The operations that are not complete, and the failures not told yet.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// By number, in order. Most are added at one end and leave at the other, and the memory stays for the next.
    incomplete: VecDeque<(u64, Operation)>,
    failures: BTreeMap<u64, Error>,
    /// Numbers of operations that wait for their condition, in the order issued.
    deferred: VecDeque<u64>,
    /// Operations of which some data could not be put in its place.
    spoiled: BTreeSet<u64>,
    /// Old values of atomics whose caller waits for them, by number.
    values: Vec<(u64, u64)>,
}

impl Operations {
    pub(crate) fn insert(&mut self, id: u64, operation: Operation) {
        if operation.peer.is_none() {
            self.deferred.push_back(id);
        }
        match self.find(id) {
            Ok(index) => self.incomplete[index].1 = operation,
            Err(index) if index == self.incomplete.len() => self.incomplete.push_back((id, operation)),
            Err(index) => self.incomplete.insert(index, (id, operation)),
        }
    }

    /// Where an operation is, or where it would be. Mostly it is the oldest, or would be the only one.
    #[inline]
    fn find(&self, id: u64) -> std::result::Result<usize, usize> {
        match self.incomplete.front() {
            None => return Err(0),
            Some((first, _)) if *first == id => return Ok(0),
            Some(_) => {}
        }
        self.incomplete.binary_search_by_key(&id, |(number, _)| *number)
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Operation> {
        self.find(id).ok().map(|index| &self.incomplete[index].1)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Operation> {
        self.find(id).ok().map(|index| &mut self.incomplete[index].1)
    }

    /// Whether an operation waits for an answer of this rank. Nobody else may answer it.
    #[inline]
    pub(crate) fn awaits(&self, id: u64, from: Rank) -> bool {
        self.get(id).is_some_and(|operation| operation.peer == Some(from))
    }

    /// The incomplete operations of the program, the latest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = (u64, &Operation)> {
        let of_program = self.find(FIRST_INTERNAL).unwrap_or_else(|index| index);
        self.incomplete.range(..of_program).rev().map(|(id, operation)| (*id, operation))
    }

    /// Incomplete operations of the program.
    pub(crate) fn len(&self) -> usize {
        self.incomplete.len()
    }

    /// Whether nothing is incomplete and no failure waits to be told.
    pub(crate) fn is_quiet(&self) -> bool {
        self.incomplete.is_empty() && self.failures.is_empty()
    }

    /// Some data of an operation could not be put in its place: it has failed, whatever the answer says.
    pub(crate) fn spoil(&mut self, id: u64) {
        if self.find(id).is_ok() {
            self.spoiled.insert(id);
        }
    }

    /// Whether [`spoil`](Self::spoil) was called for an operation.
    pub(crate) fn is_spoiled(&self, id: u64) -> bool {
        self.spoiled.contains(&id)
    }

    /// Forgets an operation: its answer, if one comes, is thrown away.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Operation> {
        if !self.deferred.is_empty() {
            self.deferred.retain(|&deferred| deferred != id);
        }
        self.spoiled.remove(&id);
        let (_, operation) = self.find(id).ok().and_then(|index| self.incomplete.remove(index))?;
        if self.incomplete.is_empty() && self.incomplete.capacity() > KEPT_OPERATIONS {
            self.incomplete = VecDeque::new();
        }
        Some(operation)
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
            Condition::UpTo(id) => self.incomplete.front().is_none_or(|(first, _)| *first > id),
            Condition::Exactly(id) => self.find(id).is_err(),
        }
    }

    /// The next deferred operation whose condition holds.
    pub(crate) fn next_ready(&mut self) -> Option<u64> {
        let ready = |id: &u64| self.get(*id).is_some_and(|operation| self.holds(operation.condition));
        let index = self.deferred.iter().position(ready)?;
        self.deferred.remove(index)
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
        if self.find(id).is_ok() {
            return None;
        }
        Some(self.failures.remove(&id).map_or(Ok(()), Err))
    }

    /// Numbers of the incomplete operations that wait for an answer of `peer`.
    pub(crate) fn waiting_for(&self, peer: Rank) -> Vec<u64> {
        self.incomplete.iter().filter(|(_, op)| op.peer == Some(peer)).map(|(id, _)| *id).collect()
    }

    /// Who must answer the oldest incomplete operation up to `id`.
    pub(crate) fn oldest_peer(&self, id: u64) -> Option<Rank> {
        self.incomplete.iter().take_while(|(number, _)| *number <= id).find_map(|(_, op)| op.peer)
    }

    /// Every peer that must answer something.
    pub(crate) fn peers(&self) -> Vec<Rank> {
        let mut peers: Vec<Rank> = self.incomplete.iter().filter_map(|(_, op)| op.peer).collect();
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
}
