//! Orders: what must be complete before an operation starts.

use crate::engine::operations::Handle;
use std::cell::Cell;

/// What must be complete before an operation starts. Two puts (copies from memory of the caller's node) to the same rank
/// that start at once arrive in the order in which they were issued, even with [`Order::None`], if the first is of less than
/// 256 KiB: a larger one is sent again if its source was changed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Nothing.
    #[default]
    None,
    /// This handle and every one before it.
    After(Handle),
    /// Every operation issued before.
    All,
    /// The operation that this thread issued just before (every earlier one, if it has issued none); enforced as near
    /// the target as possible, so that a chain does not wait for a round trip at each step, but for those behind copies of
    /// 256 KiB and more.
    Continue,
}

thread_local! {
    /// The operation that this thread issued last: the life of its world, and its number. Operations that were complete
    /// when issuing them returned need not be here: continuing behind the one before them is as good.
    static LAST: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The operation that this thread issued last in a life of a world.
pub(crate) fn last_of_thread(life: u64) -> Option<u64> {
    let (of, number) = LAST.get();
    (of == life).then_some(number)
}

/// Remembers an operation as the last of this thread.
pub(crate) fn set_last_of_thread(life: u64, number: u64) {
    LAST.set((life, number));
}

/// An order in terms of operation numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    /// May start at once.
    Free,
    /// When no operation up to this number is incomplete.
    UpTo(u64),
    /// When this one operation is complete.
    Exactly(u64),
}

impl Condition {
    /// Both conditions.
    pub(crate) fn and(self, other: Condition) -> Condition {
        match (self, other) {
            (condition, Condition::Free) | (Condition::Free, condition) => condition,
            (one, other) if one == other => one,
            (
                Condition::UpTo(one) | Condition::Exactly(one),
                Condition::UpTo(other) | Condition::Exactly(other),
            ) => Condition::UpTo(one.max(other)),
        }
    }
}

impl Order {
    /// The condition for operation number `id` of a thread that issued `previous` just before.
    pub(crate) fn condition(self, id: u64, previous: Option<u64>) -> Condition {
        match self {
            Order::None => Condition::Free,
            // A handle that was never issued orders nothing that comes later than it.
            Order::After(handle) => Condition::UpTo(handle.number().min(id - 1)),
            Order::All => Condition::UpTo(id - 1),
            Order::Continue => previous.map_or(Condition::UpTo(id - 1), Condition::Exactly),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_adds_to_a_condition() {
        let turn = Condition::Exactly(5);
        assert_eq!(Condition::UpTo(3).and(Condition::Free), Condition::UpTo(3));
        assert_eq!(Condition::Free.and(turn), turn);
        assert_eq!(Condition::UpTo(3).and(turn), Condition::UpTo(5));
        assert_eq!(Condition::UpTo(8).and(turn), Condition::UpTo(8));
        assert_eq!(turn.and(turn), turn);
        assert_eq!(Condition::Exactly(7).and(turn), Condition::UpTo(7));
        assert_eq!(turn.and(Condition::UpTo(6)), Condition::UpTo(6));
    }

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
