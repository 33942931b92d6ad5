//! Orders: what must be complete before an operation starts.

use crate::handle::Handle;

/// What must be complete before an operation starts. Whatever the order, two copies from one rank to the same rank
/// arrive in the order in which they were issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Nothing.
    #[default]
    None,
    /// This handle and every one before it.
    After(Handle),
    /// Every operation issued before.
    All,
    /// The operation issued just before; enforced as near the target as possible, so that a chain does not wait for
    /// a round trip at each step.
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

impl Order {
    /// The condition for operation number `id`.
    pub(crate) fn condition(self, id: u64) -> Condition {
        match self {
            Order::None => Condition::Free,
            // A handle that was never issued orders nothing that comes later than it.
            Order::After(handle) => Condition::UpTo(handle.number().min(id - 1)),
            Order::All => Condition::UpTo(id - 1),
            Order::Continue => Condition::Exactly(id - 1),
        }
    }
}
