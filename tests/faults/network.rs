//! Faults of single connections, injected at every frame of a short exchange.

use crate::job::{Ended, Setup};
use crate::runner::{note, side_by_side, tests};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

tests![
    a_broken_connection_gives_the_right_result_or_a_loss,
    a_slow_connection_gives_the_right_result,
    an_exchange_without_faults_is_right,
];

/// Messages that a rank sends in the exchange, with a few to spare: the faults behind the end must do nothing.
const MESSAGES: u32 = 14;

fn setup(fault: &str) -> Setup {
    Setup::new("exchange")
        .ranks(2)
        .nodes(2)
        .continues()
        // A frame that was dropped shows after half of this; an agent that does not run for so long counts as lost.
        .variable("KUMIKI_PEER_TIMEOUT", "3s")
        .variable("KUMIKI_FAULT", fault)
}

/// What each rank came to; checks that nothing was wrong, whatever else it was.
fn outcomes(ended: &Ended, fault: &str) -> BTreeMap<u32, String> {
    let shown = || format!("{fault}: {}", ended.show());
    assert!(!ended.output.iter().any(|line| line.starts_with("wrong")), "{}", shown());
    let mut outcomes = BTreeMap::new();
    for line in ended.said("outcome") {
        let (rank, text) = line.split_once(' ').unwrap_or_default();
        outcomes.insert(rank.parse().unwrap_or(9), text.to_string());
    }
    // Increments: at least those that were acknowledged, at most those and the ones whose fate is unknown.
    let words = |words: &str, of: u32| -> Vec<u64> {
        let lines = ended.said(words);
        let mine = lines.iter().find_map(|line| line.strip_prefix(&format!("{of} ")));
        mine.unwrap_or_default().split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    for rank in [0, 1] {
        if let ([acknowledged, unknown], [found]) = (&words("sums", rank)[..], &words("found", 1 - rank)[..])
        {
            assert!(acknowledged <= found && *found <= acknowledged + unknown, "{}", shown());
        }
    }
    outcomes
}

fn a_broken_connection_gives_the_right_result_or_a_loss() {
    let mut cases = Vec::new();
    for kind in ["reset", "corrupt", "drop"] {
        for rank in [0, 1] {
            cases.extend((1..=MESSAGES).map(|at| format!("{rank}:{kind}@{at}")));
        }
    }
    let (right, lost) = (AtomicU32::new(0), AtomicU32::new(0));
    side_by_side(3, cases, |fault| {
        let ended = setup(&fault).finish();
        let outcomes = outcomes(&ended, &fault);
        for outcome in outcomes.values() {
            let counter = match outcome.split(['(', ' ']).next() {
                Some("right") => &right,
                Some("PeerLost") => &lost,
                _ => panic!("{fault}: {}", ended.show()),
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        // A rank that the world gave up is killed; the other one must have said how it went.
        assert!(!outcomes.is_empty(), "{fault}: {}", ended.show());
    });
    let (right, lost) = (right.into_inner(), lost.into_inner());
    // The canary: faults that nobody notices would not be faults.
    assert!(right > 0 && lost > 0, "{right} right, {lost} lost");
    note(&format!("{right} exchanges were right, {lost} ended with a loss"));
}

fn a_slow_connection_gives_the_right_result() {
    let all = |what: &str| (1..=MESSAGES).map(|at| format!("{what}@{at}")).collect::<Vec<_>>().join(",");
    let cases = ["delay=20ms", "stall=20ms"].map(all).to_vec();
    side_by_side(2, cases, |fault| {
        let ended = setup(&fault).finish();
        let outcomes = outcomes(&ended, &fault);
        ended.expect_code(0);
        assert!(
            outcomes.len() == 2 && outcomes.values().all(|outcome| outcome == "right"),
            "{}",
            ended.show()
        );
    });
}

/// The canary: losses come from the faults.
fn an_exchange_without_faults_is_right() {
    let ended = setup("reset@1000000").finish();
    ended.expect_code(0);
    let outcomes = outcomes(&ended, "none");
    assert!(outcomes.len() == 2 && outcomes.values().all(|outcome| outcome == "right"), "{}", ended.show());
}
