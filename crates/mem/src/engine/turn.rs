//! Which operations may go before which: chains that pipeline, and copies that keep their turn.

use crate::engine::frames;
use crate::engine::operations::{Action, Operation, Operations, Side};
use crate::engine::order::Condition;
use crate::engine::start::{asks, reach_side};
use crate::node::access::Reach;
use crate::node::Node;
use kumiki_net::Rank;

/// Whether `next` may be sent right behind `previous`, which is not complete, and still take effect after it: both
/// first go to the same rank, which takes frames in order, and neither needs what the other brings back.
pub(crate) fn pipelines(node: &Node, previous: &Operation, next: Action) -> bool {
    let Some(peer) = previous.peer else { return false };
    if previous.action.may_be_repeated() {
        return false;
    }
    match (question_kind(node, previous.action), question_kind(node, next)) {
        (Some((frames::PUT, _)), Some((_, to))) => to == peer,
        // The old value comes back here before the answer to the next question, but no earlier: that is in time if
        // its place is ours, where neither the peer nor whoever the peer pushes to can meet it.
        (Some((frames::ATOMIC, _)), Some((frames::GET | frames::ATOMIC, to))) => {
            to == peer && old_value_stays_here(node, previous.action)
        }
        _ => false,
    }
}

/// What `next` must wait for so as not to overtake a copy from the same rank to the same rank (an atomic: any copy to the
/// rank of its word): nothing, if there is no such copy, or if the way itself keeps them in order.
pub(crate) fn turn(node: &Node, operations: &Operations, next: Action) -> Condition {
    let Some((from, to)) = ends(node, next) else { return Condition::Free };
    let same_way = |operation: &Operation| match operation.action {
        Action::Copy { .. } => ends(node, operation.action)
            .is_some_and(|ends| ends.1 == to && (ends.0 == from || matches!(next, Action::Atomic { .. }))),
        Action::Atomic { .. } | Action::Call { .. } | Action::Shape { .. } => false,
    };
    let keeps_order = |previous: &Operation| match (
        previous.peer,
        question_kind(node, previous.action),
        question_kind(node, next),
    ) {
        (None, ..) => false,
        _ if previous.action.may_be_repeated() => false,
        (_, Some((frames::PUT, one)), Some((frames::PUT | frames::ATOMIC, other))) => one == other,
        // Answers come back in the order of the questions.
        (_, Some((frames::GET, one)), Some((frames::GET, other))) => one == other,
        // The source's side pushes all of them over one connection, unless it can touch the destination itself.
        (_, Some((frames::COPY, one)), Some((frames::COPY, other))) => {
            one == other && node_of(node, from) != node_of(node, to)
        }
        _ => false,
    };
    // Those before the latest are in order with it, but for large ones, any of which may be sent again. Whether there is more than
    // one is all that matters, and the latest may be a large one.
    let latest = operations.latest().find(|(_, operation)| same_way(operation));
    let latest = latest.filter(|(_, operation)| !keeps_order(operation));
    let large = operations.latest_large().filter(|(_, operation)| same_way(operation));
    let mut ahead: Vec<u64> = latest.into_iter().chain(large).map(|(id, _)| id).take(3).collect();
    ahead.dedup();
    match ahead[..] {
        [] => Condition::Free,
        [id] => Condition::Exactly(id),
        [id, ..] => Condition::UpTo(id),
    }
}

/// From which rank to which rank an operation brings something.
fn ends(node: &Node, action: Action) -> Option<(Rank, Rank)> {
    let rank = |side: Side| match side {
        Side::Global(address, _) => Some(node.format.rank(address)),
        Side::Lent(_) => None,
    };
    match action {
        Action::Copy { dst, src, .. } => Some((rank(src)?, rank(dst)?)),
        Action::Atomic { call, .. } => Some((node.rank, node.format.rank(call.target))),
        Action::Call { .. } | Action::Shape { .. } => None,
    }
}

fn node_of(node: &Node, rank: Rank) -> Option<u32> {
    node.arena.place(rank).map(|word| word.load().node)
}

fn old_value_stays_here(node: &Node, action: Action) -> bool {
    match action {
        Action::Atomic { dst: Some(dst), .. } => node.format.rank(dst) == node.rank,
        Action::Atomic { dst: None, .. } => true,
        Action::Copy { .. } | Action::Call { .. } | Action::Shape { .. } => false,
    }
}

/// Which question an operation starts with, and to whom; `None` if it needs none.
fn question_kind(node: &Node, action: Action) -> Option<(u8, Rank)> {
    match action {
        Action::Atomic { call, .. } => {
            let reach = node.reach(call.target, call.registration, 4).ok()?;
            match reach {
                Reach::Direct(_) => None,
                Reach::Private(private) if private.rank() == node.rank => None,
                Reach::Private(private) => Some((frames::ATOMIC, private.rank())),
                Reach::Remote(rank) => Some((frames::ATOMIC, rank)),
            }
        }
        Action::Copy { dst, src, bytes } => {
            let to = asks(node, reach_side(node, dst, bytes).ok()?);
            let from = asks(node, reach_side(node, src, bytes).ok()?);
            match (to, from) {
                (Some(owner), None) => Some((frames::PUT, owner)),
                (None, Some(owner)) => Some((frames::GET, owner)),
                (Some(_), Some(owner)) => Some((frames::COPY, owner)),
                (None, None) => None,
            }
        }
        Action::Call { to, .. } => Some((frames::CALL, to)),
        Action::Shape { to, wants: true, .. } => Some((frames::GATHER, to)),
        Action::Shape { to, wants: false, .. } => Some((frames::SCATTER, to)),
    }
}
