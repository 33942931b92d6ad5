//! The hub without processes: messages and times in, effects out.

use super::*;
use proptest::prelude::*;

pub(super) fn hub_of(nodes: &[&[u32]]) -> Hub {
    hub_with(nodes, false)
}

fn hub_with(nodes: &[&[u32]], continue_on_loss: bool) -> Hub {
    let plan = Plan {
        ranks: nodes.iter().map(|ranks| ranks.len() as u32).sum(),
        nodes: nodes.iter().enumerate().map(|(n, ranks)| (format!("node {n}"), ranks.to_vec())).collect(),
        terms: Terms { continue_on_loss: continue_on_loss.into(), ..terms() },
        template: None,
    };
    Hub::new(plan, 0)
}

/// What the hub wants, as its owner does it: a message for all nodes is one for each.
pub(super) fn drain(hub: &mut Hub) -> Vec<Effect> {
    let mut effects = Vec::new();
    while let Some(effect) = hub.next_effect() {
        match effect {
            Effect::SendAll(except, message) => {
                let nodes =
                    (0..hub.nodes.len() as u32).filter(|&node| Some(node) != except && hub.listens(node));
                effects.extend(nodes.map(|node| Effect::Send(node, message.clone())));
            }
            other => effects.push(other),
        }
    }
    effects
}

pub(super) fn sends(effects: &[Effect], wanted: impl Fn(&ToNode) -> bool) -> Vec<u32> {
    let to = |effect: &Effect| match effect {
        Effect::Send(node, message) if wanted(message) => Some(*node),
        _ => None,
    };
    effects.iter().filter_map(to).collect()
}

pub(super) fn report(effects: &[Effect]) -> Option<&str> {
    effects.iter().find_map(|effect| match effect {
        Effect::Report(text) => Some(text.as_str()),
        _ => None,
    })
}

fn address(node: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8], 1000))
}

/// All agents are ready and all ranks have joined.
pub(super) fn ready(nodes: &[&[u32]], continue_on_loss: bool) -> Hub {
    let mut hub = hub_with(nodes, continue_on_loss);
    prepare(&mut hub, nodes.len() as u32);
    attach_all(&mut hub, nodes);
    let effects = drain(&mut hub);
    assert_eq!(sends(&effects, |m| *m == ToNode::Ready).len(), nodes.len());
    hub
}

fn prepare(hub: &mut Hub, nodes: u32) {
    (0..nodes).for_each(|node| hub.receive(node, ToHub::Prepared { address: address(node) }, 0));
}

pub(super) fn attach_all(hub: &mut Hub, nodes: &[&[u32]]) {
    for (node, ranks) in nodes.iter().enumerate() {
        (0..ranks.len() as u32).for_each(|local| hub.receive(node as u32, ToHub::Attached { local }, 0));
    }
}

#[test]
fn a_broken_connection_waits_for_news_of_the_process() {
    let mut hub = ready(&[&[0], &[1]], true);
    hub.receive(0, ToHub::Unreachable { local: 0, rank: Rank(1), cause: Cause::DISCONNECTED }, 10);
    hub.receive(1, ToHub::Ended { local: 0, ending: Ending::Signal(9) }, 20);
    hub.tick(10 + SUSPECT_MS);
    let effects = drain(&mut hub);
    let loss = ToNode::Loss { rank: Rank(1), cause: Cause::signal(9) };
    assert_eq!(sends(&effects, |message| *message == loss), [0]);
    assert_eq!(sends(&effects, |message| matches!(message, ToNode::Loss { .. })), [0]);
    assert!(report(&effects).is_some_and(|text| text.contains("SIGKILL")), "{effects:?}");
}

#[test]
fn an_agent_that_is_slow_is_waited_for_before_a_broken_connection_is_all_that_is_known() {
    let suspicious = || {
        let mut hub = ready(&[&[0], &[1]], true);
        hub.receive(0, ToHub::Unreachable { local: 0, rank: Rank(1), cause: Cause::DISCONNECTED }, 10);
        hub.tick(9 + PROBE_MS);
        assert!(sends(&drain(&mut hub), |message| matches!(message, ToNode::Loss { .. })).is_empty());
        hub
    };
    let loss = |cause| ToNode::Loss { rank: Rank(1), cause };
    let mut told = suspicious();
    told.receive(1, ToHub::Ended { local: 0, ending: Ending::Signal(9) }, 9 + PROBE_MS);
    told.tick(11 + PROBE_MS);
    assert_eq!(sends(&drain(&mut told), |message| *message == loss(Cause::signal(9))), [0]);
    let mut silent = suspicious();
    silent.tick(10 + PROBE_MS);
    assert_eq!(sends(&drain(&mut silent), |message| *message == ToNode::Fence { rank: Rank(1) }), [1]);
}

#[test]
fn of_two_ranks_that_blame_each_other_one_stays() {
    let mut hub = ready(&[&[0], &[1]], true);
    hub.receive(0, ToHub::Unreachable { local: 0, rank: Rank(1), cause: Cause::DISCONNECTED }, 10);
    hub.receive(1, ToHub::Unreachable { local: 0, rank: Rank(0), cause: Cause::DISCONNECTED }, 11);
    assert_eq!(sends(&drain(&mut hub), |message| *message == ToNode::Probe { rank: Rank(1) }), [1]);
    hub.receive(1, ToHub::Probed { rank: Rank(1) }, 12);
    hub.tick(9 + SUSPECT_MS);
    assert!(sends(&drain(&mut hub), |message| matches!(message, ToNode::Loss { .. })).is_empty());
    hub.tick(11 + SUSPECT_MS);
    hub.receive(
        1,
        ToHub::Unreachable { local: 0, rank: Rank(0), cause: Cause::DISCONNECTED },
        11 + SUSPECT_MS,
    );
    hub.receive(1, ToHub::Ended { local: 0, ending: Ending::Signal(9) }, 12 + SUSPECT_MS);
    hub.tick(12 + SUSPECT_MS + PROBE_MS);
    let effects = drain(&mut hub);
    let losses =
        |rank| sends(&effects, |m| matches!(m, ToNode::Loss { rank: lost, .. } if *lost == Rank(rank)));
    assert!(losses(0).is_empty() && losses(1) == [0], "{effects:?}");
}

/// A job that goes on after losses, in which the hub has given up rank 1 and told its agent so.
fn given_up() -> Hub {
    let mut hub = ready(&[&[0], &[1], &[2]], true);
    hub.receive(0, ToHub::Unreachable { local: 0, rank: Rank(1), cause: Cause::DISCONNECTED }, 10);
    hub.receive(1, ToHub::Probed { rank: Rank(1) }, 11);
    hub.tick(10 + SUSPECT_MS);
    let effects = drain(&mut hub);
    assert_eq!(sends(&effects, |message| *message == ToNode::Fence { rank: Rank(1) }), [1]);
    assert!(
        sends(&effects, |message| matches!(message, ToNode::Loss { .. })).is_empty(),
        "it may still write"
    );
    hub
}

#[test]
fn nobody_takes_over_from_a_rank_that_is_given_up_before_it_has_ended() {
    let loss = ToNode::Loss { rank: Rank(1), cause: Cause::DISCONNECTED };
    for news in
        [ToHub::Ended { local: 0, ending: Ending::Signal(9) }, ToHub::Lost { local: 0, cause: Cause::EXITED }]
    {
        let mut hub = given_up();
        hub.receive(1, news, 300);
        let effects = drain(&mut hub);
        assert_eq!(sends(&effects, |message| *message == loss), [0, 2], "the reason is why it was given up");
        assert!(hub.failure().is_none() && hub.fences.is_empty(), "the others go on");
    }
    let mut hub = given_up();
    hub.node_gone(1, "it was killed", 300);
    assert_eq!(sends(&drain(&mut hub), |message| matches!(message, ToNode::Loss { .. })), [0, 2]);
}

#[test]
fn a_rank_that_is_given_up_and_cannot_be_ended_ends_the_job() {
    let mut hub = given_up();
    hub.receive(1, ToHub::Unfenced { local: 0, why: "it is not ours".into() }, 300);
    hub.tick(1_000);
    assert!(report(&drain(&mut hub)).is_some_and(|text| text.contains("cannot be ended: it is not ours")));
    let mut hub = given_up();
    for second in 1..11 {
        (0..3).for_each(|node| hub.receive(node, ToHub::Heartbeat, second * 1_000));
        hub.tick(second * 1_000);
    }
    assert!(hub.failure().is_none());
    hub.tick(10_000 + 10 + SUSPECT_MS);
    assert_eq!(hub.failure(), Some((1, Some(1))));
    assert!(hub.fences.is_empty(), "it is told once");
}

#[test]
fn a_node_that_falls_silent_when_it_should_end_a_rank_is_lost_as_a_whole() {
    let mut hub = given_up();
    let mut lost = Vec::new();
    for now_ms in (300..12_500).step_by(100) {
        [0, 2].into_iter().for_each(|node| hub.receive(node, ToHub::Heartbeat, now_ms));
        hub.tick(now_ms);
        let cause = Cause::UNREACHABLE;
        lost.extend(sends(&drain(&mut hub), |m| *m == ToNode::Loss { rank: Rank(1), cause }));
    }
    assert_eq!((lost, hub.failure()), (vec![0, 2], None));
    // The same time for the agent after the launcher was stopped.
    let mut hub = given_up();
    hub.tick(20_000);
    assert!(hub.failure().is_none() && !hub.fences.is_empty());
}

#[test]
fn ranks_start_only_when_every_node_is_prepared_and_are_ready_when_all_have_joined() {
    let mut hub = hub_of(&[&[0, 1], &[2]]);
    hub.receive(0, ToHub::Prepared { address: address(0) }, 0);
    assert!(drain(&mut hub).is_empty());
    hub.receive(1, ToHub::Prepared { address: address(1) }, 0);
    let effects = drain(&mut hub);
    assert_eq!(sends(&effects, |m| *m == ToNode::Start), [0, 1]);
    let table = Table { places: vec![(0, 0), (0, 1), (1, 0)], addresses: vec![address(0), address(1)] };
    assert_eq!(sends(&effects, |m| *m == ToNode::Begin(table.clone())), [0, 1]);
    hub.receive(0, ToHub::Attached { local: 0 }, 0);
    hub.receive(1, ToHub::Attached { local: 0 }, 0);
    assert!(drain(&mut hub).is_empty());
    hub.receive(0, ToHub::Attached { local: 1 }, 0);
    assert_eq!(sends(&drain(&mut hub), |m| *m == ToNode::Ready), [0, 1]);
}

#[test]
fn a_rank_that_joins_before_the_world_begins_is_not_forgotten() {
    let mut hub = hub_of(&[&[0], &[1]]);
    hub.receive(0, ToHub::Prepared { address: address(0) }, 0);
    hub.receive(0, ToHub::Attached { local: 0 }, 0);
    hub.receive(1, ToHub::Prepared { address: address(1) }, 0);
    hub.receive(1, ToHub::Attached { local: 0 }, 0);
    assert_eq!(sends(&drain(&mut hub), |m| *m == ToNode::Ready), [0, 1]);
}

#[test]
fn a_killed_rank_is_announced_elsewhere_and_ends_the_job_with_one_report() {
    let mut hub = ready(&[&[0, 1], &[2]], false);
    hub.receive(0, ToHub::Ended { local: 1, ending: Ending::Signal(9) }, 5);
    let effects = drain(&mut hub);
    let loss = ToNode::Loss { rank: Rank(1), cause: Cause::signal(9) };
    assert_eq!(sends(&effects, |m| *m == loss), [1]);
    let wait = |local, doing: &str| crate::agent::protocol::Wait {
        local,
        doing: doing.into(),
        peer: Some(Rank(1)),
        for_ms: 2_500,
    };
    hub.receive(0, ToHub::Waits { waits: vec![wait(0, "waits in a barrier")] }, 6);
    hub.receive(1, ToHub::Waits { waits: vec![wait(0, "waits in init")] }, 6);
    hub.tick(6);
    let effects = drain(&mut hub);
    let text = report(&effects).unwrap();
    assert!(text.starts_with("rank 1 on node 0 was killed by signal 9 (SIGKILL)"), "{text}");
    assert!(text.contains("rank 0 waits in a barrier for rank 1, for 2.5 s"), "{text}");
    assert!(text.contains("rank 2 waits in init"), "{text}");
    assert_eq!(sends(&effects, |m| matches!(m, ToNode::Terminate { .. })), [0, 1]);
    hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Signal(15) }, 7);
    hub.receive(0, ToHub::Done, 7);
    hub.receive(1, ToHub::Done, 7);
    assert_eq!(drain(&mut hub).last(), Some(&Effect::Finished(137)));
}

#[test]
fn a_report_does_not_wait_for_an_agent_that_does_not_answer() {
    let mut hub = ready(&[&[0], &[1]], false);
    hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Code(3) }, 5);
    drain(&mut hub);
    hub.tick(6);
    assert!(report(&drain(&mut hub)).is_none());
    hub.tick(600);
    assert!(report(&drain(&mut hub)).is_some());
}

#[test]
fn an_interrupt_in_the_middle_of_a_report_does_not_swallow_it() {
    let mut hub = ready(&[&[0], &[1]], false);
    hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Signal(9) }, 5);
    assert!(report(&drain(&mut hub)).is_none());
    hub.interrupt(libc::SIGINT, GRACE_MS, 6);
    let effects = drain(&mut hub);
    assert!(report(&effects).is_some_and(|text| text.contains("rank 0 on node 0 was killed")), "{effects:?}");
    hub.interrupt(libc::SIGINT, 0, 7);
    assert!(report(&drain(&mut hub)).is_none(), "once");
}

#[test]
fn programs_that_never_join_may_end_as_they_like() {
    let mut hub = hub_of(&[&[0, 1]]);
    prepare(&mut hub, 1);
    hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Code(0) }, 1);
    hub.receive(0, ToHub::Ended { local: 1, ending: Ending::Code(0) }, 1);
    hub.receive(0, ToHub::Done, 1);
    assert_eq!(drain(&mut hub).last(), Some(&Effect::Finished(0)));
}

#[test]
fn leaving_before_the_end_is_fine_and_ending_before_leaving_is_not() {
    for (leaves, code) in [(true, 0), (false, 1)] {
        let mut hub = ready(&[&[0]], false);
        if leaves {
            hub.receive(0, ToHub::Left { local: 0, barriers: 2 }, 1);
        }
        hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Code(0) }, 1);
        hub.receive(0, ToHub::Done, 1);
        assert_eq!(drain(&mut hub).last(), Some(&Effect::Finished(code)));
    }
}

/// Rank 1 finalized in a barrier of the others; rank 2 ends because of that before rank 1 does.
#[test]
fn the_report_names_the_rank_that_left_first_and_not_its_victim() {
    let left = |local| ToHub::Unreachable { local, rank: Rank(1), cause: Cause::LEFT };
    let ended = |local, code| ToHub::Ended { local, ending: Ending::Code(code) };
    for its_code in [Some(3), Some(0), None] {
        let mut hub = ready(&[&[0, 1], &[2]], false);
        hub.receive(1, left(0), 5);
        hub.receive(1, ended(0, 9), 6);
        hub.receive(0, left(0), 6);
        assert!(report(&drain(&mut hub)).is_none(), "rank 1 has a moment to end by itself");
        assert!(hub.wake_up_at() <= 5 + u64::from(GRACE_MS));
        match its_code {
            Some(code) => hub.receive(0, ended(1, code), 7),
            None => {
                // It does not end, and is ended: that is no ending of its own.
                hub.tick(5 + u64::from(GRACE_MS));
                hub.receive(0, ToHub::Ended { local: 1, ending: Ending::Signal(9) }, 6 + u64::from(GRACE_MS));
            }
        }
        hub.receive(0, ToHub::Waits { waits: vec![] }, 8);
        hub.receive(1, ToHub::Waits { waits: vec![] }, 8);
        hub.tick(10 + u64::from(GRACE_MS));
        let effects = drain(&mut hub);
        let text = report(&effects).expect("a report");
        let then = its_code.map_or(String::new(), |code| format!("; then it exited with code {code}"));
        let first = format!("rank 1 on node 0 is lost: {}{then}", Cause::LEFT);
        assert!(text.starts_with(&first), "{text}");
        assert!(text.contains("\n  then rank 2 on node 1 exited with code 9"), "{text}");
        assert_eq!(hub.failure(), Some((its_code.unwrap_or(1).max(1), Some(1))));
        let loss = |m: &ToNode| *m == ToNode::Loss { rank: Rank(1), cause: Cause::LEFT };
        assert_eq!(sends(&effects, loss), [1], "its own agent knows");
    }
}

#[test]
fn with_on_loss_continue_a_rank_that_left_while_others_went_on_is_lost_and_they_go_on() {
    let mut hub = ready(&[&[0], &[1]], true);
    hub.receive(1, ToHub::Unreachable { local: 0, rank: Rank(0), cause: Cause::LEFT }, 5);
    hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Code(4) }, 6);
    hub.receive(0, ToHub::Done, 6);
    let effects = drain(&mut hub);
    assert!(report(&effects).is_some_and(|text| text.starts_with("rank 0 on node 0 is lost")), "{effects:?}");
    assert!(sends(&effects, |m| matches!(m, ToNode::Terminate { .. })).is_empty());
    hub.receive(1, ToHub::Left { local: 0, barriers: 2 }, 7);
    hub.receive(1, ToHub::Ended { local: 0, ending: Ending::Code(0) }, 7);
    hub.receive(1, ToHub::Done, 7);
    assert_eq!(drain(&mut hub).last(), Some(&Effect::Finished(4)));
}

/// A job of two nodes that goes on after losses, in which rank 0 has left while rank 1 went on.
pub(super) fn deserted() -> Hub {
    let mut hub = ready(&[&[0], &[1]], true);
    hub.receive(1, ToHub::Unreachable { local: 0, rank: Rank(0), cause: Cause::LEFT }, 5);
    hub
}

fn is_loss(message: &ToNode) -> bool {
    matches!(message, ToNode::Loss { .. })
}

#[test]
fn a_rank_that_left_and_lives_is_ended_before_the_others_hear_that_it_is_lost() {
    let fence = |m: &ToNode| *m == ToNode::Fence { rank: Rank(0) };
    let over_ms = 5 + u64::from(GRACE_MS);
    for fenced_before in [false, true] {
        let mut hub = deserted();
        if fenced_before {
            hub.receive(1, ToHub::Unreachable { local: 0, rank: Rank(0), cause: Cause::DISCONNECTED }, 6);
            hub.tick(6 + PROBE_MS);
            assert_eq!(sends(&drain(&mut hub), fence), [0]);
        }
        hub.tick(over_ms);
        let effects = drain(&mut hub);
        assert_eq!(sends(&effects, fence).len(), usize::from(!fenced_before), "once");
        assert!(sends(&effects, is_loss).is_empty(), "it may still write");
        assert!(hub.wake_up_at() > over_ms, "nothing is to be done until it has ended");
        hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Signal(9) }, over_ms + 1);
        let loss = ToNode::Loss { rank: Rank(0), cause: Cause::LEFT };
        assert_eq!(sends(&drain(&mut hub), |m| *m == loss), [1]);
        assert_eq!(hub.exit_code, 1, "the signal was ours");
    }
    let given_up = || {
        let mut hub = deserted();
        hub.tick(over_ms);
        hub
    };
    let mut hub = given_up();
    hub.receive(0, ToHub::Unfenced { local: 0, why: "it is not ours".into() }, over_ms + 1);
    hub.tick(over_ms + 1_000);
    let effects = drain(&mut hub);
    assert!(report(&effects).is_some_and(|text| text.contains("cannot be ended")), "{effects:?}");
    assert!(sends(&effects, is_loss).is_empty());
    for is_gone in [true, false] {
        let mut hub = given_up();
        match is_gone {
            true => hub.node_gone(0, "it was killed", over_ms + 1),
            false => hub.receive(0, ToHub::Left { local: 0, barriers: 2 }, over_ms + 1),
        }
        hub.tick(over_ms + 2);
        let effects = drain(&mut hub);
        assert!(report(&effects).is_some_and(|text| text.starts_with("rank 0 on node 0 is lost")));
        assert!(sends(&effects, is_loss).contains(&1), "{effects:?}");
    }
}

#[test]
fn with_on_loss_continue_ranks_of_a_node_that_failed_are_ended_before_they_are_lost() {
    let mut hub = ready(&[&[0], &[1]], true);
    hub.receive(1, ToHub::Failed { code: 3, message: "no memory".into() }, 5);
    let effects = drain(&mut hub);
    assert_eq!(sends(&effects, |m| *m == ToNode::Fence { rank: Rank(1) }), [1]);
    assert!(sends(&effects, is_loss).is_empty(), "it may still write");
    hub.receive(1, ToHub::Ended { local: 0, ending: Ending::Signal(9) }, 6);
    let loss = ToNode::Loss { rank: Rank(1), cause: Cause::AGENT };
    assert_eq!(sends(&drain(&mut hub), |m| *m == loss), [0]);
    assert_eq!((hub.exit_code, hub.failure()), (3, None));
}

#[test]
fn an_end_from_outside_keeps_its_code_when_a_rank_has_just_left() {
    for code in [255, 124] {
        let mut hub = ready(&[&[0, 1], &[2]], false);
        hub.receive(0, ToHub::Unreachable { local: 0, rank: Rank(1), cause: Cause::LEFT }, 5);
        hub.receive(1, ToHub::Ended { local: 0, ending: Ending::Code(9) }, 6);
        match code {
            255 => hub.receive(0, ToHub::Abort { local: 0, code: 255, message: "enough".into() }, 7),
            code => hub.end(code, "enough".into(), 7),
        }
        assert_eq!(hub.failure(), Some((code, Some(1))));
        hub.tick(1_000);
        let effects = drain(&mut hub);
        let text = report(&effects).expect("a report");
        assert!(text.lines().next().is_some_and(|line| line.ends_with("enough")), "{text}");
        assert!(text.contains("rank 1 on node 0") && text.contains("rank 2 on node 1 exited"), "{text}");
    }
}

#[test]
fn who_waits_for_a_rank_that_has_already_ended_is_told() {
    for late in [false, true] {
        let mut hub = hub_of(&[&[0, 1]]);
        prepare(&mut hub, 1);
        let ended = ToHub::Ended { local: 1, ending: Ending::Code(0) };
        let attached = ToHub::Attached { local: 0 };
        let (first, second) = if late { (attached, ended) } else { (ended, attached) };
        hub.receive(0, first, 1);
        hub.receive(0, second, 1);
        let loss = |m: &ToNode| matches!(m, ToNode::Loss { rank: Rank(1), .. });
        assert_eq!(sends(&drain(&mut hub), loss), [0]);
        assert_eq!(hub.exit_code, 1);
    }
}

#[test]
fn who_is_stopped_before_it_joins_is_lost_only_if_somebody_waits_for_it() {
    let mut hub = hub_of(&[&[0, 1]]);
    prepare(&mut hub, 1);
    drain(&mut hub);
    let stopped = ToHub::Lost { local: 1, cause: Cause::STOPPED };
    hub.receive(0, stopped.clone(), 1);
    assert!(drain(&mut hub).is_empty(), "a program may do without the world");
    hub.receive(0, ToHub::Attached { local: 0 }, 2);
    hub.receive(0, stopped, 3);
    let loss = ToNode::Loss { rank: Rank(1), cause: Cause::STOPPED };
    assert_eq!(sends(&drain(&mut hub), |m| *m == loss), [0], "its own agent ends it");
    assert_eq!(hub.failure(), Some((1, Some(1))));
}

#[test]
fn with_on_loss_continue_the_others_go_on_and_the_exit_code_remembers() {
    let mut hub = ready(&[&[0], &[1]], true);
    hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Code(5) }, 1);
    let effects = drain(&mut hub);
    assert!(sends(&effects, |m| matches!(m, ToNode::Terminate { .. })).is_empty());
    assert_eq!(sends(&effects, |m| matches!(m, ToNode::Loss { .. })), [1]);
    hub.receive(0, ToHub::Done, 1);
    hub.receive(1, ToHub::Left { local: 0, barriers: 2 }, 1);
    hub.receive(1, ToHub::Ended { local: 0, ending: Ending::Code(0) }, 1);
    hub.receive(1, ToHub::Done, 1);
    assert_eq!(drain(&mut hub).last(), Some(&Effect::Finished(5)));
}

#[test]
fn with_on_loss_continue_a_job_that_cannot_start_ends() {
    let mut hub = hub_with(&[&[0], &[1]], true);
    hub.receive(0, ToHub::Prepared { address: address(0) }, 0);
    hub.node_gone(1, "ssh exited with code 255", 1);
    assert_eq!(sends(&drain(&mut hub), |m| matches!(m, ToNode::Terminate { .. })), [0]);
    hub.receive(0, ToHub::Done, 2);
    assert_eq!(drain(&mut hub).last(), Some(&Effect::Finished(1)));
}

#[test]
fn with_on_loss_continue_ranks_that_could_not_be_started_are_lost() {
    let mut hub = hub_with(&[&[0], &[1, 2]], true);
    prepare(&mut hub, 2);
    hub.receive(0, ToHub::Attached { local: 0 }, 1);
    drain(&mut hub);
    hub.receive(1, ToHub::Failed { code: 126, message: "cannot start it".into() }, 2);
    let effects = drain(&mut hub);
    assert_eq!(sends(&effects, |m| matches!(m, ToNode::Terminate { .. })), [1]);
    assert_eq!(sends(&effects, |m| matches!(m, ToNode::Loss { .. })), [0, 1, 0, 1]);
    assert!(sends(&effects, |m| matches!(m, ToNode::Refuse { .. })).contains(&0), "nobody waits for them");
    assert_eq!((hub.exit_code, hub.failure()), (126, None));
}

#[test]
fn with_on_loss_continue_who_joins_again_after_a_loss_is_refused() {
    for joins_first in [true, false] {
        let mut hub = ready(&[&[0], &[1], &[2]], true);
        hub.receive(0, ToHub::Left { local: 0, barriers: 2 }, 1);
        let again = ToHub::Attached { local: 0 };
        let dead = ToHub::Ended { local: 0, ending: Ending::Signal(9) };
        let [first, second] = if joins_first { [(0, again), (1, dead)] } else { [(1, dead), (0, again)] };
        hub.receive(first.0, first.1, 2);
        hub.receive(second.0, second.1, 3);
        let about = |m: &ToNode| matches!(m, ToNode::Refuse { why } if why.contains("rank 1") && why.contains("SIGKILL"));
        let effects = drain(&mut hub);
        let refusals = sends(&effects, |m| matches!(m, ToNode::Refuse { .. }));
        assert!(refusals.contains(&0), "{effects:?}");
        assert_eq!(sends(&effects, about), refusals, "all say why");
        // It has left in an orderly way, and may go.
        hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Code(0) }, 4);
        assert!(report(&drain(&mut hub)).is_none());
    }
}

#[test]
fn with_on_loss_continue_an_abort_still_ends_the_job() {
    let mut hub = ready(&[&[0], &[1]], true);
    hub.receive(1, ToHub::Abort { local: 0, code: 255, message: "enough".into() }, 1);
    hub.tick(1_000);
    let effects = drain(&mut hub);
    assert_eq!(sends(&effects, |m| matches!(m, ToNode::Terminate { .. })), [0, 1]);
    assert!(report(&effects).is_some_and(|text| text.contains("aborted the job: enough")));
    assert_eq!(hub.failure(), Some((255, None)), "the code is the aborting rank's");
}

#[test]
fn a_part_numbered_its_ranks_by_itself() {
    let mut hub = hub_of(&[&[0, 1]]);
    hub.count_from(3);
    prepare(&mut hub, 1);
    hub.receive(0, ToHub::Ended { local: 1, ending: Ending::Code(42) }, 1);
    hub.tick(1_000);
    let effects = drain(&mut hub);
    assert!(report(&effects).is_some_and(|text| text.starts_with("rank 4 ")), "{effects:?}");
}

#[test]
fn a_silent_node_is_lost_and_a_launcher_that_slept_blames_nobody() {
    let mut hub = ready(&[&[0], &[1, 2]], false);
    let mut lost = Vec::new();
    for second in 1..=12 {
        hub.receive(0, ToHub::Heartbeat, second * 1_000);
        hub.tick(second * 1_000);
        let cause = Cause::UNREACHABLE;
        lost.extend(sends(&drain(&mut hub), |m| matches!(m, ToNode::Loss { cause: c, .. } if *c == cause)));
    }
    assert_eq!(lost, [0, 0], "both ranks of the silent node, told to the other node");

    let mut hub = ready(&[&[0], &[1]], false);
    hub.tick(3_600_000);
    assert!(sends(&drain(&mut hub), |m| matches!(m, ToNode::Loss { .. })).is_empty());
}

#[test]
fn an_agent_that_ends_takes_its_ranks_with_it() {
    let mut hub = ready(&[&[0], &[1, 2]], false);
    hub.node_gone(1, "it was killed by signal 9", 1);
    let effects = drain(&mut hub);
    assert_eq!(sends(&effects, |m| matches!(m, ToNode::Loss { .. })), [0, 0]);
    hub.receive(1, ToHub::Attached { local: 0 }, 1);
    hub.receive(0, ToHub::Done, 2);
    let effects = drain(&mut hub);
    assert!(report(&effects).unwrap().contains("the agent of node 1 ended unexpectedly"));
    assert_eq!(effects.last(), Some(&Effect::Finished(1)));
}

#[test]
fn a_program_that_is_not_there_stops_everything_before_it_starts() {
    let mut hub = hub_of(&[&[0], &[1]]);
    hub.receive(0, ToHub::Prepared { address: address(0) }, 0);
    hub.receive(1, ToHub::Failed { code: 127, message: "there is no program x".into() }, 0);
    let effects = drain(&mut hub);
    assert!(sends(&effects, |m| *m == ToNode::Start).is_empty());
    assert_eq!(sends(&effects, |m| matches!(m, ToNode::Terminate { .. })), [0, 1]);
    hub.receive(0, ToHub::Done, 0);
    hub.receive(1, ToHub::Done, 0);
    assert_eq!(drain(&mut hub), [Effect::Finished(127)]);
}

#[test]
fn a_new_round_begins_when_all_have_left() {
    let nodes: &[&[u32]] = &[&[0, 1], &[2]];
    let mut hub = ready(nodes, false);
    hub.receive(0, ToHub::Left { local: 0, barriers: 2 }, 1);
    hub.receive(0, ToHub::Attached { local: 0 }, 1);
    hub.receive(0, ToHub::Left { local: 1, barriers: 2 }, 1);
    assert!(sends(&drain(&mut hub), |m| matches!(m, ToNode::Begin(_))).is_empty());
    hub.receive(1, ToHub::Left { local: 0, barriers: 2 }, 1);
    assert_eq!(sends(&drain(&mut hub), |m| matches!(m, ToNode::Begin(_))), [0, 1]);
    hub.receive(0, ToHub::Attached { local: 1 }, 1);
    hub.receive(1, ToHub::Attached { local: 0 }, 1);
    assert_eq!(sends(&drain(&mut hub), |m| *m == ToNode::Ready), [0, 1]);
}

#[test]
fn what_was_said_of_a_rank_is_forgotten_in_the_next_round() {
    let nodes: &[&[u32]] = &[&[0], &[1]];
    let blame = ToHub::Unreachable { local: 0, rank: Rank(1), cause: Cause::DISCONNECTED };
    let mut hub = ready(nodes, true);
    hub.receive(0, blame.clone(), 10);
    [0, 1].into_iter().for_each(|node| hub.receive(node, ToHub::Left { local: 0, barriers: 2 }, 11));
    attach_all(&mut hub, nodes);
    hub.tick(10 + PROBE_MS);
    let effects = drain(&mut hub);
    assert!(sends(&effects, |m| matches!(m, ToNode::Fence { .. })).is_empty(), "{effects:?}");
    hub.receive(0, blame, 20 + PROBE_MS);
    assert_eq!(sends(&drain(&mut hub), |m| matches!(m, ToNode::Probe { .. })), [1], "it can be said again");
    // But who left too early fails the job, though it has come again.
    let mut hub = deserted();
    [0, 1].into_iter().for_each(|node| hub.receive(node, ToHub::Left { local: 0, barriers: 2 }, 11));
    attach_all(&mut hub, nodes);
    assert_eq!((hub.world, hub.exit_code), (World::Broken, 1));
}

#[test]
fn a_reset_is_refused_while_it_is_open_whether_a_rank_is_lost() {
    for (cause, until_ms) in [(Cause::DISCONNECTED, 11), (Cause::DISCONNECTED, 1_000), (Cause::LEFT, 11)] {
        let mut hub = ready(&[&[0], &[1]], true);
        hub.receive(0, ToHub::Unreachable { local: 0, rank: Rank(1), cause }, 10);
        hub.tick(until_ms);
        drain(&mut hub);
        [0, 1]
            .into_iter()
            .for_each(|node| hub.receive(node, ToHub::Reset { local: 0, new_rank: 1 - node }, until_ms));
        let effects = drain(&mut hub);
        let about = |m: &ToNode| matches!(m, ToNode::ResetRefused { why } if why.contains("rank 1"));
        assert_eq!(sends(&effects, about), [0, 1], "{effects:?}");
        assert_eq!(hub.rank_at(1, 0), Some(Rank(1)));
    }
}

#[test]
fn a_reset_renumbers_in_two_steps() {
    let mut hub = ready(&[&[0, 1], &[2]], false);
    for (node, local, new_rank) in [(0, 0, 2), (0, 1, 0), (1, 0, 1)] {
        assert!(drain(&mut hub).is_empty());
        hub.receive(node, ToHub::Reset { local, new_rank }, 1);
    }
    let effects = drain(&mut hub);
    let places = vec![(0, 1), (1, 0), (0, 0)];
    let prepare = |m: &ToNode| matches!(m, ToNode::ResetPrepare(table) if table.places == places);
    assert_eq!(sends(&effects, prepare), [0, 1]);
    hub.receive(0, ToHub::ResetPrepared, 1);
    assert!(drain(&mut hub).is_empty());
    hub.receive(1, ToHub::ResetPrepared, 1);
    assert_eq!(sends(&drain(&mut hub), |m| *m == ToNode::ResetGo), [0, 1]);
    assert_eq!(hub.rank_at(0, 0), Some(Rank(2)));
    hub.receive(0, ToHub::Ended { local: 0, ending: Ending::Signal(9) }, 1);
    let loss = ToNode::Loss { rank: Rank(2), cause: Cause::signal(9) };
    assert_eq!(sends(&drain(&mut hub), |m| *m == loss), [1], "the new number is used");
}

#[test]
fn a_reset_that_is_no_permutation_is_refused_for_everybody() {
    for wishes in [[0, 0], [1, 2]] {
        let mut hub = ready(&[&[0], &[1]], false);
        (0..2).for_each(|node| {
            hub.receive(node, ToHub::Reset { local: 0, new_rank: wishes[node as usize] }, 1);
        });
        let effects = drain(&mut hub);
        assert_eq!(sends(&effects, |m| matches!(m, ToNode::ResetRefused { .. })), [0, 1]);
    }
    let mut hub = ready(&[&[0], &[1]], true);
    hub.receive(0, ToHub::Reset { local: 0, new_rank: 0 }, 1);
    hub.receive(1, ToHub::Ended { local: 0, ending: Ending::Signal(9) }, 1);
    let effects = drain(&mut hub);
    assert_eq!(
        sends(&effects, |m| matches!(m, ToNode::ResetRefused { .. })),
        [0, 1],
        "nobody waits for the dead"
    );
}

#[test]
fn strangers_are_placed_as_they_come_and_doubles_are_refused() {
    let launch = Launch { ranks: 3, ..empty_launch() };
    let plan = Plan { ranks: 3, nodes: Vec::new(), terms: terms(), template: Some(Box::new(launch)) };
    let mut hub = Hub::new(plan.clone(), 0);
    assert_eq!((hub.add_node("a".into(), 1, 0), hub.add_node("b".into(), 2, 0)), (0, 1));
    assert_eq!(hub.missing(), [0; 0], "nobody waits");
    hub.receive(1, ToHub::Arrived { rank: 2, ranks: 3 }, 0);
    hub.receive(0, ToHub::Arrived { rank: 1, ranks: 3 }, 0);
    assert!(drain(&mut hub).is_empty());
    assert_eq!((hub.missing(), hub.failure()), (vec![0], None));
    hub.receive(1, ToHub::Arrived { rank: 0, ranks: 3 }, 0);
    assert_eq!(hub.missing(), [0; 0]);
    let effects = drain(&mut hub);
    let second =
        |m: &ToNode| matches!(m, ToNode::Launch(l) if l.here == [2, 0] && l.node == 1 && l.nodes == 2);
    assert_eq!(sends(&effects, second), [1]);
    hub.node_gone(1, "it is gone", 0);
    assert_eq!(hub.failure(), Some((1, Some(2))), "the agent's process went first");

    for wrong in [ToHub::Arrived { rank: 0, ranks: 3 }, ToHub::Arrived { rank: 1, ranks: 4 }] {
        let mut hub = Hub::new(plan.clone(), 0);
        hub.add_node("a".into(), 0, 0);
        hub.receive(0, ToHub::Arrived { rank: 0, ranks: 3 }, 0);
        hub.receive(0, wrong, 0);
        assert!(report(&drain(&mut hub)).is_some());
        assert_eq!(hub.failure(), Some((1, None)));
    }
}

/// The terms of these tests.
fn terms() -> Terms {
    Terms { peer_timeout_ms: 10_000, ..Terms::default() }
}

fn empty_launch() -> Launch {
    Launch::of_strangers(1, terms())
}

/// Any message an agent could send, sensible or not.
fn any_message() -> impl Strategy<Value = (u32, ToHub)> {
    let local = 0..3u32;
    let message = prop_oneof![
        local.clone().prop_map(|local| ToHub::Attached { local }),
        local.clone().prop_map(|local| ToHub::Left { local, barriers: 2 }),
        local.clone().prop_map(|local| ToHub::Lost { local, cause: Cause::STOPPED }),
        (local.clone(), 0..3i32).prop_map(|(local, c)| ToHub::Ended { local, ending: Ending::Code(c) }),
        (local.clone(), 0..6u32).prop_map(|(local, new_rank)| ToHub::Reset { local, new_rank }),
        (local.clone(), 0..6u32, any::<bool>()).prop_map(|(local, rank, left)| ToHub::Unreachable {
            local,
            rank: Rank(rank),
            cause: if left { Cause::LEFT } else { Cause::DISCONNECTED }
        }),
        local.clone().prop_map(|local| ToHub::Unfenced { local, why: "it is not ours".into() }),
        local.prop_map(|local| ToHub::Abort { local, code: 1, message: "enough".into() }),
        Just(ToHub::ResetPrepared),
        (0..6u32).prop_map(|rank| ToHub::Probed { rank: Rank(rank) }),
        Just(ToHub::Heartbeat),
        Just(ToHub::Waits { waits: Vec::new() }),
        Just(ToHub::Prepared { address: address(1) }),
    ];
    (0..3u32, message)
}

proptest! {
    /// Whatever agents say in whatever order, the job ends, once, when all agents are done.
    #[test]
    fn no_order_of_messages_keeps_a_job_from_ending(
        messages in proptest::collection::vec(any_message(), 0..60),
        continue_on_loss: bool,
    ) {
        let mut hub = hub_with(&[&[0, 1], &[2, 3], &[4]], continue_on_loss);
        let mut effects = Vec::new();
        for (step, (node, message)) in messages.into_iter().enumerate() {
            hub.receive(node, message, step as u64 * 10);
            hub.tick(step as u64 * 10);
            effects.extend(drain(&mut hub));
        }
        (0..3).for_each(|node| hub.receive(node, ToHub::Done, 1_000));
        hub.tick(1_000);
        effects.extend(drain(&mut hub));
        let ends = effects.iter().filter(|effect| matches!(effect, Effect::Finished(_))).count();
        prop_assert_eq!(ends, 1);
    }
}
