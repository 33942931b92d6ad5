//! Which operations may go before which: chains that pipeline, and copies that keep their turn.

use crate::engine::frames;
use crate::engine::operations::{Action, Operation, Operations, Side};
use crate::engine::order::Condition;
use crate::engine::start::{asks, reach_side};
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
            let owner = reach.owner().filter(|&owner| owner != node.rank);
            owner.map(|owner| (frames::ATOMIC, owner))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stage::Stage;
    use kumiki_net::contract::IN_PLACE_BYTES;

    /// An operation that has been sent.
    fn sent(action: Action, peer: u32) -> Operation {
        Operation { peer: Some(Rank(peer)), ..Operation::of_program(action, Condition::Free) }
    }

    /// So many bytes of starter memory that a payload of [`IN_PLACE_BYTES`] has room for are not there; where an operation goes is
    /// asked of its addresses alone if they are far.
    fn large(stage: &Stage) -> Action {
        stage.copy((2, 0), (1, 0), IN_PLACE_BYTES)
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn what_goes_the_same_way_goes_right_behind_unless_it_needs_an_answer() {
        let stage = Stage::new(3);
        let node = &stage.nodes[0];
        let [put, other_put] = [1, 2].map(|rank| stage.copy((rank, 0), (0, 0), 64));
        let [get, other_get] = [1, 2].map(|rank| stage.copy((0, 0), (rank, 0), 64));
        let copy = stage.copy((2, 0), (1, 0), 64);
        let atomic = |dst| Action::Atomic { dst, call: stage.adding(1, 0, 1) };
        let (kept, sent_on) = (atomic(Some(stage.address(0, 8))), atomic(Some(stage.address(2, 8))));
        for (previous, next, may) in [
            (put, put, true),
            (put, get, true),
            (put, copy, true),
            (put, atomic(None), true),
            (put, other_put, false),
            (put, other_get, false),
            // What a get brings is here only with its answer.
            (get, put, false),
            (get, get, false),
            (copy, put, false),
            (atomic(None), get, true),
            (kept, atomic(None), true),
            (kept, other_get, false),
            // A put could come to the peer before the old value is at its place.
            (kept, put, false),
            (sent_on, get, false),
            // Nothing has to be asked for that.
            (put, stage.copy((0, 0), (0, 64), 64), false),
        ] {
            assert_eq!(pipelines(node, &sent(previous, 1), next), may, "{previous:?} then {next:?}");
        }
        let waiting = Operation::of_program(put, Condition::Free);
        assert!(!pipelines(node, &waiting, put), "what has not been sent is overtaken");
        assert!(!pipelines(node, &sent(large(&stage), 1), put), "what may be sent again is overtaken");
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_copy_waits_for_the_one_before_it_only_where_the_way_keeps_no_order() {
        let mut stage = Stage::new(3);
        let put = stage.copy((1, 0), (0, 0), 64);
        let get = stage.copy((0, 0), (1, 0), 64);
        let copy = stage.copy((2, 0), (1, 0), 64);
        let turn_of = |stage: &Stage, next| turn(&stage.nodes[0], &stage.engines[0].operations, next);
        assert_eq!(turn_of(&stage, put), Condition::Free);
        for (id, action, peer) in [(1, put, 1), (2, get, 1), (3, copy, 1)] {
            stage.enter(0, id, action, Some(peer));
            assert_eq!(turn_of(&stage, action), Condition::Free, "the way keeps {action:?} in order");
        }
        let adding = Action::Atomic { dst: None, call: stage.adding(2, 0, 1) };
        assert_eq!(turn_of(&stage, adding), Condition::Exactly(3), "somebody else pushes that copy");
        stage.enter(0, 4, put, None);
        assert_eq!(turn_of(&stage, put), Condition::Exactly(4), "what is not sent yet comes first");
        assert_eq!(turn_of(&stage, get), Condition::Free, "but for what goes another way");
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn whatever_goes_the_way_of_a_large_copy_waits_for_it() {
        let mut stage = Stage::new(3);
        let (large, small) = (large(&stage), stage.copy((2, 0), (1, 0), 64));
        let turn_of = |stage: &Stage, next| turn(&stage.nodes[0], &stage.engines[0].operations, next);
        stage.enter(0, 1, large, Some(1));
        assert_eq!(turn_of(&stage, small), Condition::Exactly(1));
        stage.enter(0, 2, small, Some(1));
        assert_eq!(
            turn_of(&stage, small),
            Condition::Exactly(1),
            "the small one between them does not matter"
        );
        stage.enter(0, 3, large, Some(1));
        assert_eq!(turn_of(&stage, small), Condition::UpTo(3), "either may be sent again");
    }
}
