//! Ranks that are killed or stopped in the middle of a sparse exchange, or of a relay.

use crate::job::Setup;
use crate::runner::tests;
use std::time::Duration;

tests![
    whoever_is_in_an_exchange_with_a_rank_that_was_killed_is_told,
    a_killed_rank_of_a_relay_is_named_along_the_line,
    a_stopped_rank_holds_an_exchange_up_and_no_more,
    a_stopped_rank_holds_a_relay_up_and_no_more,
];

const VICTIM: u32 = 1;

fn setup(what: &str, nodes: u32) -> Setup {
    Setup::new("patterns").ranks(4).nodes(nodes).variable("FAULTS_WHAT", what)
}

/// Everybody else gets an error that begins like this, and so does whatever he does later.
fn kill(what: &str, told: &str) {
    for nodes in [1, 2, 4] {
        let mut job = setup(what, nodes).continues().start();
        job.expect("ready");
        // Somewhere in the middle: steps follow each other without a pause.
        std::thread::sleep(Duration::from_millis(7));
        job.signal(job.rank(VICTIM), libc::SIGKILL);
        let ended = job.finish();
        ended.expect_code(137);
        let said = ended.said("got");
        for call in ["call", "later"] {
            let is_told = |line: &&&str| {
                let mut words = line.splitn(4, ' ').skip(2);
                words.next() == Some(call) && words.next().is_some_and(|text| text.starts_with(told))
            };
            assert_eq!(said.iter().filter(is_told).count(), 3, "{call} on {nodes} nodes: {}", ended.show());
        }
    }
}

fn whoever_is_in_an_exchange_with_a_rank_that_was_killed_is_told() {
    kill("sparse", "PeerLost(");
}

fn a_killed_rank_of_a_relay_is_named_along_the_line() {
    kill("relay", "PeerLost(1,");
}

/// Nothing is lost and nobody complains.
fn stop(what: &str) {
    for nodes in [1, 2] {
        let mut job = setup(what, nodes).variable("KUMIKI_PEER_TIMEOUT", "30s").start();
        job.expect("ready");
        let stopped = job.rank(VICTIM);
        job.signal(stopped, libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(500));
        job.signal(stopped, libc::SIGCONT);
        job.tell("stop");
        let ended = job.finish();
        ended.expect_code(0);
        let said = ended.said("got");
        let well = said.iter().filter(|line| line.ends_with(" ok")).count();
        assert_eq!((said.len(), well), (8, 8), "{nodes} nodes: {}", ended.show());
    }
}

fn a_stopped_rank_holds_an_exchange_up_and_no_more() {
    stop("sparse");
}

fn a_stopped_rank_holds_a_relay_up_and_no_more() {
    stop("relay");
}
