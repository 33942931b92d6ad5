//! Orders: what must be complete before an operation starts.

use crate::engine::operations::Handle;

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
    fn a_chain_waits_for_what_was_issued_just_before() {
        assert_eq!(Order::Continue.condition(9, Some(3)), Condition::Exactly(3));
        assert_eq!(Order::Continue.condition(9, None), Condition::UpTo(8));
        assert_eq!(Order::All.condition(9, Some(3)), Condition::UpTo(8));
        let never_issued = Order::After(Handle::from_number(100));
        assert_eq!(never_issued.condition(9, None), Condition::UpTo(8));
    }
}
