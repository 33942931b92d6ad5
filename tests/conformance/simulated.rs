//! The same topics on simulated ranks: in virtual time, in this process, without faults and with faults that heal.
//!
//! Each topic runs once for every seed; `KUMIKI_SEEDS=100000 cargo test --test conformance sim` runs more. A seed that
//! fails is printed, and `KUMIKI_SEED=7` repeats it alone.

use crate::stage::Stage;
use crate::way::{Way, SIM};
use crate::{Body, TOPICS};
use kumiki::World;
use kumiki_sim::{Cluster, Faults, Network};
use libtest_mimic::{Failed, Trial};

/// Topics that need what simulated ranks have not: processes to stop or to measure, threads, system calls that wait, other
/// worlds.
const REAL_ONLY: &[&str] = &[
    "identity",
    "completion",
    "deadlines",
    "threads",
    "messages_of_threads",
    "fork",
    "reset",
    "late_barrier",
    "far_offsets",
    "heap_memory_goes_back",
    // Other groups of simulated ranks, without faults, are in the tests of the crate.
    "long_collectives",
    "broken_collectives",
    "many_collectives",
    "left_blocks",
    "collectives_of_threads",
    // So are halos of all shapes.
    "halos",
    "left_halos",
    "halos_and_panics",
    // So it is with what has no way of its own there.
    "left_exchange",
    "broken_relay",
];
/// Seeds of each topic, if nobody says how many.
const SEEDS: u64 = 12;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for way in SIM {
        for topic in TOPICS.iter().filter(|topic| !REAL_ONLY.contains(&topic.name)) {
            let Body::World(body) = topic.body else { continue };
            let trial = move || seeds().try_for_each(|seed| run(way, topic.ranks, body, seed));
            trials.push(Trial::test(format!("{}::{}", way.name, topic.name), trial));
        }
    }
    trials
}

/// The seeds to run: one that was asked for, or as many as were asked for.
fn seeds() -> impl Iterator<Item = u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("KUMIKI_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KUMIKI_SEEDS").unwrap_or(SEEDS),
    }
}

/// One run; the first is without faults.
fn run(way: &'static Way, ranks: u32, body: fn(&Stage), seed: u64) -> Result<(), Failed> {
    let faults = if seed == 0 { Faults::default() } else { Faults::harmless(seed, ranks) };
    let cluster = Cluster::new(ranks, Network::torus(&[ranks])).seed(seed).faults(faults);
    let outcome = cluster.run(|attachment| {
        let stage = Stage { world: World::attach(attachment).expect("attached"), way };
        body(&stage);
        stage.world.finalize().expect("finalized");
    });
    outcome.map_err(|error| error.to_string())?.values()?;
    Ok(())
}
