//! What happens to ranks and nodes while something else is under way: a loss between two worlds, in the middle of a reset, or
//! while the job is ending.

use super::tests::{drain, ready, report, sends};
use super::*;

const NODES: &[&[u32]] = &[&[0], &[1]];

fn is_fence(message: &ToNode) -> bool {
    matches!(message, ToNode::Fence { .. })
}

#[test]
fn who_joins_again_does_not_wait_for_ever_for_a_rank_whose_node_died_after_it_had_left() {
    for joins_first in [false, true] {
        let mut hub = ready(NODES, true);
        [0, 1].into_iter().for_each(|node| hub.receive(node, ToHub::Left { local: 0, barriers: 2 }, 1));
        let again = |hub: &mut Hub| hub.receive(0, ToHub::Attached { local: 0 }, 2);
        if joins_first {
            again(&mut hub);
        }
        hub.node_gone(1, "it was killed by signal 9", 2);
        if !joins_first {
            again(&mut hub);
        }
        let effects = drain(&mut hub);
        let about = |m: &ToNode| match m {
            ToNode::Refuse { why } => why.contains("rank 1"),
            _ => false,
        };
        assert!(sends(&effects, about).contains(&0), "{joins_first}: {effects:?}");
    }
}

#[test]
fn who_finalized_early_is_not_killed_within_the_grace_of_an_interrupt_and_is_still_reported() {
    let mut hub = ready(&[&[0, 1], &[2]], false);
    hub.receive(0, ToHub::Unreachable { local: 0, rank: Rank(1), cause: Cause::LEFT }, 5);
    hub.receive(1, ToHub::Ended { local: 0, ending: Ending::Code(9) }, 6);
    hub.interrupt(libc::SIGINT, 4 * GRACE_MS, 1_000);
    let effects = drain(&mut hub);
    let text = report(&effects).expect("what was held back is shown");
    assert!(text.contains("rank 1 on node 0") && text.contains("rank 2 on node 1 exited"), "{text}");
    hub.tick(5 + u64::from(GRACE_MS));
    let effects = drain(&mut hub);
    assert!(sends(&effects, is_fence).is_empty(), "{effects:?}");
    assert_eq!(hub.exit_code, 128 + libc::SIGINT);
}

#[test]
fn a_rank_whose_connection_breaks_while_the_job_ends_keeps_its_grace() {
    let blame = ToHub::Unreachable { local: 0, rank: Rank(1), cause: Cause::DISCONNECTED };
    for suspected_before in [false, true] {
        let mut hub = ready(NODES, true);
        let blame_at = |hub: &mut Hub, now_ms| hub.receive(0, blame.clone(), now_ms);
        if suspected_before {
            blame_at(&mut hub, 5);
        }
        hub.interrupt(libc::SIGTERM, GRACE_MS, 10);
        if !suspected_before {
            blame_at(&mut hub, 15);
        }
        hub.tick(15 + PROBE_MS);
        let effects = drain(&mut hub);
        assert!(sends(&effects, is_fence).is_empty(), "{effects:?}");
    }
}

/// All ranks have wished for new numbers, and the nodes have been told to take them over.
fn renumbering() -> Hub {
    let mut hub = ready(NODES, true);
    (0..2).for_each(|node| hub.receive(node, ToHub::Reset { local: 0, new_rank: 1 - node }, 1));
    assert_eq!(sends(&drain(&mut hub), |m| matches!(m, ToNode::ResetPrepare(_))), [0, 1]);
    hub
}

#[test]
fn a_reset_does_not_wait_for_a_node_that_died_in_the_middle_of_it() {
    for is_prepared in [false, true] {
        let mut hub = renumbering();
        let prepared = |hub: &mut Hub| hub.receive(0, ToHub::ResetPrepared, 2);
        if is_prepared {
            prepared(&mut hub);
        }
        hub.node_gone(1, "it was killed by signal 9", 3);
        if !is_prepared {
            prepared(&mut hub);
        }
        let effects = drain(&mut hub);
        let refused = |m: &ToNode| matches!(m, ToNode::ResetRefused { why } if why.contains("rank 0"));
        assert_eq!(sends(&effects, refused), [0], "{effects:?}");
        assert!(sends(&effects, |m| *m == ToNode::ResetGo).is_empty(), "one answer");
    }
}

#[test]
fn a_loss_after_a_reset_is_no_refusal_of_it() {
    let mut hub = renumbering();
    [0, 1].into_iter().for_each(|node| hub.receive(node, ToHub::ResetPrepared, 2));
    assert_eq!(sends(&drain(&mut hub), |m| *m == ToNode::ResetGo), [0, 1]);
    hub.node_gone(1, "it was killed by signal 9", 3);
    assert!(sends(&drain(&mut hub), |m| matches!(m, ToNode::ResetRefused { .. })).is_empty());
}
