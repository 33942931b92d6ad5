//! SIGKILL of a rank, wherever it is.

use crate::job::{can_share_copies, Ended, Job, Setup};
use crate::runner::{note, side_by_side, tests, LOAD_FACTOR};
use std::time::Duration;

tests![
    survivors_learn_who_was_killed_and_how,
    the_job_ends_with_one_report,
    without_a_kill_nobody_is_lost,
    a_killed_target_fails_the_put_and_spares_its_neighbour,
    a_killed_initiator_leaves_the_rest_of_the_target_alone,
    no_increment_is_lost_or_done_twice,
    memory_in_view_of_a_rank_that_was_killed_is_used_again,
    whoever_waits_for_a_word_of_a_rank_that_was_killed_is_told,
    a_team_learns_who_of_it_was_killed_and_others_meet_on,
    whoever_waits_for_messages_of_a_rank_that_was_killed_is_told,
    whoever_is_in_a_collective_with_a_rank_that_was_killed_is_told,
    whoever_exchanges_a_halo_with_a_rank_that_was_killed_is_told,
    whoever_shares_a_copy_with_a_rank_that_was_killed_is_told,
];

/// The one that copies, while the other does a part of it; and the other way round.
fn whoever_shares_a_copy_with_a_rank_that_was_killed_is_told() {
    for (victim, what) in [(0, "waits"), (1, "copies")] {
        let mut job = Setup::new("haul").ranks(2).continues().start();
        job.expect(if can_share_copies() { "helped" } else { "ready" });
        // Somewhere in the middle: copies follow each other without a pause.
        job.signal(job.rank(victim), libc::SIGKILL);
        let ended = job.finish();
        ended.expect_code(137);
        let lost = format!("PeerLost({victim},");
        let told = sights(&ended).iter().any(|sight| sight.what == what && sight.text.starts_with(&lost));
        assert!(told && ended.said("wrong").is_empty(), "{}", ended.show());
    }
}

/// What it sent before can be received; what somebody else sends comes; and if nobody else is left, nothing is waited for.
fn whoever_waits_for_messages_of_a_rank_that_was_killed_is_told() {
    for (ranks, nodes) in [(3, 1), (3, 3), (2, 1), (2, 2)] {
        let mut job = Setup::new("mail").ranks(ranks).nodes(nodes).continues().start();
        job.expect_all("ready", ranks);
        for rank in (0..ranks).filter(|rank| *rank != VICTIM) {
            let what = if rank == 0 { "waits for a message" } else { "waits for a message to be received" };
            job.until_report(&format!("rank {rank} {what} for rank 1"));
        }
        job.signal(job.rank(VICTIM), libc::SIGKILL);
        job.tell("go");
        let ended = job.finish();
        let told = ["named", "asked", "probe", "tried"].map(|what| (what, "PeerLost(1"));
        let mut wanted = vec![("before", "ok")];
        wanted.extend(told);
        match ranks {
            3 => wanted.extend([("flood", "PeerLost(1"), ("long", "PeerLost(1"), ("other", "ok")]),
            _ => wanted.push(("alone", "PeerLost(1")),
        }
        let seen = sights(&ended);
        for (what, text) in wanted {
            let told = seen.iter().any(|sight| sight.what == what && sight.text.starts_with(text));
            assert!(told, "{what} with {ranks} ranks on {nodes} nodes: {}", ended.show());
        }
    }
}

fn a_team_learns_who_of_it_was_killed_and_others_meet_on() {
    for nodes in [1, 2, 4] {
        let mut job = Setup::new("teams").ranks(4).nodes(nodes).continues().start();
        job.expect("ready");
        job.signal(job.rank(VICTIM), libc::SIGKILL);
        let ended = job.finish();
        ended.expect_code(137);
        let seen = sights(&ended);
        for (what, text) in [("team", "PeerLost(1,NotDone)"), ("others", "ok")] {
            let told = seen.iter().filter(|sight| sight.what == what && sight.text.starts_with(text));
            assert_eq!(told.count(), 3, "{what} on {nodes} nodes: {}", ended.show());
        }
    }
}

/// Wherever in a collective it is: every survivor gets an error, and every later call fails at once.
fn whoever_is_in_a_collective_with_a_rank_that_was_killed_is_told() {
    let cases = [(1, "short"), (2, "short"), (4, "short"), (1, "long"), (2, "long"), (2, "started")];
    let spinning = [(1, "short", "5"), (2, "long", "5")];
    for (nodes, what, spin) in cases.map(|(nodes, what)| (nodes, what, "auto")).into_iter().chain(spinning) {
        let setup = Setup::new("collectives").ranks(4).nodes(nodes).continues();
        let mut job = setup.variable("FAULTS_WHAT", what).variable("KUMIKI_SPIN", spin).start();
        job.expect("ready");
        // Somewhere in the middle: calls follow each other without a pause.
        std::thread::sleep(Duration::from_millis(7));
        job.signal(job.rank(VICTIM), libc::SIGKILL);
        let ended = job.finish();
        ended.expect_code(137);
        let seen = sights(&ended);
        for call in ["call", "later"] {
            let told = seen.iter().filter(|sight| sight.what == call && sight.text.starts_with("PeerLost("));
            assert_eq!(told.count(), 3, "{call}, {what} on {nodes} nodes: {}", ended.show());
        }
    }
}

/// Its neighbours are told, and theirs; also while a helper thread waits.
fn whoever_exchanges_a_halo_with_a_rank_that_was_killed_is_told() {
    for (nodes, what) in [(1, "plain"), (2, "plain"), (4, "plain"), (1, "thread"), (2, "thread")] {
        let setup = Setup::new("halos").ranks(4).nodes(nodes).continues().variable("FAULTS_WHAT", what);
        let mut job = setup.start();
        job.expect("ready");
        // Somewhere in the middle: exchanges follow each other without a pause.
        std::thread::sleep(Duration::from_millis(7));
        job.signal(job.rank(VICTIM), libc::SIGKILL);
        let ended = job.finish();
        ended.expect_code(137);
        let seen = sights(&ended);
        for call in ["exchange", "later"] {
            let told =
                seen.iter().filter(|sight| sight.what == call && sight.text.starts_with("PeerLost(1,"));
            assert_eq!(told.count(), 3, "{call}, {what} on {nodes} nodes: {}", ended.show());
        }
    }
}

/// The pins of a rank stay where they are when it is killed: they do not count any more.
fn memory_in_view_of_a_rank_that_was_killed_is_used_again() {
    let mut job = Setup::new("viewer").continues().start();
    assert_eq!(job.expect("held"), (8 << 16).to_string());
    job.signal(job.rank(VICTIM), libc::SIGKILL);
    job.tell("go");
    job.expect("free");
    job.finish();
}

/// A wait for a word ends with the rank that was to write it, and not with another one if it is named.
fn whoever_waits_for_a_word_of_a_rank_that_was_killed_is_told() {
    for nodes in [1, 3] {
        let mut job = Setup::new("listener").ranks(3).nodes(nodes).continues().start();
        (0..3).for_each(|_| drop(job.expect("listens")));
        for rank in 0..3 {
            job.until_report(&format!("rank {rank} waits for a word of its memory for rank 1"));
        }
        job.signal(job.rank(VICTIM), libc::SIGKILL);
        job.tell("go");
        let ended = job.finish();
        for (what, count, came_to) in
            [("named", 2, "PeerLost(1"), ("any", 2, "PeerLost(1"), ("late", 2, "Timeout"), ("other", 1, "ok")]
        {
            let said = ended.said("got");
            let of_what = |line: &&&str| line.split(' ').nth(2) == Some(what);
            let right = said.iter().filter(of_what).filter(|line| line.contains(came_to)).count();
            assert_eq!(right, count, "{what}: {}", ended.show());
        }
    }
}

/// Who is killed in these jobs.
const VICTIM: u32 = 1;

/// Where the victim is killed, and what somebody must be seen to do before that.
const PLACES: &[(&str, &str)] = &[
    ("compute", "rank 0 waits in a barrier"),
    ("barrier", "rank 1 waits in a barrier"),
    ("put", ""),
    ("wait", "rank 1 waits for an operation to complete for rank 0"),
    ("awaited", "rank 0 waits for an operation to complete for rank 1"),
    ("before", "rank 0 waits in init"),
    ("between", "rank 1 waits in init"),
    ("finalize", "rank 1 waits in finalize"),
];

/// The promise: a death is known within 100 ms on the node, and within 1 s elsewhere.
const KNOWN_ON_NODE: Duration = Duration::from_millis(100);
const KNOWN_ELSEWHERE: Duration = Duration::from_millis(1000);

fn setup(place: &str, nodes: u32) -> Setup {
    Setup::new("victim")
        .ranks(if nodes == 1 { 3 } else { 4 })
        .nodes(nodes)
        .variable("FAULTS_PLACE", place)
        // So that there is something to wait for on one node, too.
        .variable("KUMIKI_PROCESS_VM", "off")
}

fn combinations() -> Vec<(&'static str, &'static str, u32)> {
    let both = |&(place, sight): &(&'static str, &'static str)| [1, 2].map(|nodes| (place, sight, nodes));
    PLACES.iter().flat_map(both).collect()
}

/// Brings the victim to its place and kills it. Gives the time of the kill.
fn kill(job: &mut Job, place: &str, sight: &str) -> u64 {
    job.expect("there");
    let stopped = match place {
        "wait" => Some(job.rank(0)),
        "awaited" => Some(job.rank(VICTIM)),
        _ => None,
    };
    if let Some(stopped) = stopped {
        job.signal(stopped, libc::SIGSTOP);
    }
    if !sight.is_empty() {
        job.until_report(sight);
    }
    let killed_ns = job.signal(job.rank(VICTIM), libc::SIGKILL);
    if let Some(stopped) = stopped.filter(|_| place == "wait") {
        job.signal(stopped, libc::SIGCONT);
    }
    killed_ns
}

/// `got 2 123456 barrier PeerLost(1,NotDone) rank 1 is lost: …`
struct Sight<'a> {
    rank: u32,
    at_ns: u64,
    what: &'a str,
    text: &'a str,
}

fn sights(ended: &Ended) -> Vec<Sight<'_>> {
    let sight = |line| match str::splitn(line, 4, ' ').collect::<Vec<_>>()[..] {
        [rank, at_ns, what, text] => {
            Sight { rank: rank.parse().unwrap(), at_ns: at_ns.parse().unwrap(), what, text }
        }
        _ => panic!("{line}: {}", ended.show()),
    };
    ended.said("got").into_iter().map(sight).collect()
}

fn survivors_learn_who_was_killed_and_how() {
    side_by_side(2, combinations(), |(place, sight, nodes)| {
        let mut job = setup(place, nodes).continues().start();
        let killed_ns = kill(&mut job, place, sight);
        // Rank 0 comes late to some of these places: when the loss is known, so that it cannot slip through.
        job.expect("got 2");
        job.tell("go");
        let ended = job.finish();
        ended.expect_code(137).expect_error("rank 1");
        let seen = sights(&ended);
        let survivors = if nodes == 1 { vec![0, 2] } else { vec![0, 2, 3] };
        let mut latest = Duration::ZERO;
        for survivor in survivors {
            let first = seen.iter().find(|sight| sight.rank == survivor);
            let Some(first) = first else {
                panic!("{place}, {nodes} nodes: {survivor} says nothing: {}", ended.show())
            };
            // Whoever asks to join a world that is already broken is refused; the others were in it.
            let named = first.text.starts_with("PeerLost(1,")
                || (first.what == "init" && first.text.starts_with("Refused"));
            let told = named && first.text.contains("rank 1") && first.text.contains("signal 9 (SIGKILL)");
            assert!(told, "{place}, {nodes} nodes, rank {survivor}: {}", ended.show());
            let after = Duration::from_nanos(first.at_ns.saturating_sub(killed_ns));
            let promise = if nodes == 1 { KNOWN_ON_NODE } else { KNOWN_ELSEWHERE };
            assert!(
                after < promise * LOAD_FACTOR,
                "{place}, {nodes} nodes: known after {after:?}: {}",
                ended.show()
            );
            latest = latest.max(after);
        }
        // Nobody but the victim counts as lost, and leaving without it is no failure.
        let blamed = ended.reports().into_iter().filter(|line| !line.starts_with("who waits"));
        let wrong: Vec<&str> = blamed.filter(|line| !line.starts_with("rank 1")).collect();
        assert!(wrong.is_empty(), "{place}, {nodes} nodes: {wrong:?}: {}", ended.show());
        note(&format!("{place}, {nodes} nodes: everybody knows after {} ms", latest.as_millis()));
    });
}

fn the_job_ends_with_one_report() {
    side_by_side(2, combinations(), |(place, sight, nodes)| {
        let mut job = setup(place, nodes).start();
        kill(&mut job, place, sight);
        let ended = job.finish();
        ended.expect_code(137);
        let reports = ended.reports();
        let about: Vec<&&str> = reports.iter().filter(|line| !line.starts_with("who waits")).collect();
        assert_eq!(about.len(), 1, "{place}, {nodes} nodes: {}", ended.show());
        let named = about[0].starts_with("rank 1") && about[0].contains("was killed by signal 9 (SIGKILL)");
        assert!(named, "{place}, {nodes} nodes: {}", ended.show());
        // After the headline, what the others were doing.
        let headline = ended.errors.iter().rposition(|line| line.contains("was killed by signal 9"));
        let doing = ended.errors[headline.unwrap() + 1..].iter().filter(|line| line.starts_with("  rank "));
        let others = if nodes == 1 { 2 } else { 3 };
        assert_eq!(doing.count(), others, "{place}, {nodes} nodes: {}", ended.show());
    });
}

/// The canary: the same jobs, not killed, show no loss.
fn without_a_kill_nobody_is_lost() {
    let mut job = setup("finalize", 2).start();
    job.expect("there");
    job.tell("go");
    let ended = job.finish();
    ended.expect_code(0);
    assert!(sights(&ended).iter().all(|sight| sight.text == "ok"), "{}", ended.show());
    assert!(ended.reports().is_empty(), "{}", ended.show());
}

/// The three or four ranks of these jobs: 0 writes, 1 is written to, 2 has memory beside it.
fn big_put(nodes: u32, victim: u32) -> Ended {
    let ranks = if nodes == 1 { 3 } else { 4 };
    let mut job =
        Setup::new("big-put").ranks(ranks).nodes(nodes).continues().variable("FAULTS_VICTIM", victim).start();
    job.expect("putting");
    // Somewhere in the middle of some put: they follow each other without a pause.
    std::thread::sleep(Duration::from_millis(30));
    job.signal(job.rank(victim), libc::SIGKILL);
    job.tell("go");
    let ended = job.finish();
    ended.expect_code(137);
    assert!(ended.said("torn").is_empty(), "{}", ended.show());
    ended
}

fn a_killed_target_fails_the_put_and_spares_its_neighbour() {
    for nodes in [1, 2] {
        let target = if nodes == 1 { 1 } else { 2 };
        let ended = big_put(nodes, target);
        let put = ended.said("came to");
        let lost = format!("PeerLost({target},");
        assert!(put.len() == 1 && put[0].starts_with(&lost), "{nodes} nodes: {}", ended.show());
        assert_eq!(ended.said("intact").len(), 1, "{nodes} nodes: {}", ended.show());
    }
}

fn a_killed_initiator_leaves_the_rest_of_the_target_alone() {
    for nodes in [1, 2] {
        let ended = big_put(nodes, 0);
        // The target and its neighbour both look.
        assert_eq!(ended.said("intact").len(), 2, "{nodes} nodes: {}", ended.show());
    }
}

fn no_increment_is_lost_or_done_twice() {
    let mut job = Setup::new("atomic-storm").ranks(4).nodes(2).continues().start();
    job.expect("storming");
    std::thread::sleep(Duration::from_millis(200));
    job.signal(job.rank(2), libc::SIGKILL);
    let ended = job.finish();
    ended.expect_code(137);
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text}: {}", ended.show()));
    let total = |words: &str| ended.said(words).into_iter().map(number).sum::<u64>();
    let (acknowledged, unknown, found) = (total("acknowledged"), total("unknown"), total("found"));
    assert_eq!(ended.said("found").len(), 1, "{}", ended.show());
    assert!(acknowledged > 0, "{}", ended.show());
    assert!(acknowledged <= found && found <= acknowledged + unknown, "{}", ended.show());
    note(&format!("{acknowledged} acknowledged, {unknown} unknown, {found} done"));
}
