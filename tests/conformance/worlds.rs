//! Processes that are ranks of two worlds: that of the job that started them, and one that several jobs have in common.

use crate::job::{Ended, Job, Running};
use crate::strangers::SecretFile;
use crate::way::{self, Way};
use kumiki::{Error, Part, World};
use libtest_mimic::{Failed, Trial};

/// Where a process finds the world that the jobs have in common, and how many ranks of it come before its job's.
const PORTFILE: &str = "TWO_WORLDS_PORTFILE";
const OFFSET: &str = "TWO_WORLDS_OFFSET";

pub(crate) fn trials() -> Vec<Trial> {
    let two = |name: &'static str| {
        Trial::test(format!("worlds::{name}::two_worlds"), move || run(way::named(name)))
    };
    let lost = Trial::test("worlds::a_loss_in_one_world_was_seen_in_the_other", loss);
    ["shm", "mixed"].into_iter().map(two).chain([lost]).collect()
}

/// Two jobs, of two and of three ranks, with a world of five in common.
fn run(way: &'static Way) -> Result<(), Failed> {
    let portfile = SecretFile::portfile(&format!("worlds-{}", way.name), 5);
    let start = |(ranks, offset): (u32, u32)| {
        let job = common(Job::new(way, "two_worlds", ranks), &portfile, offset);
        // In the common world each job is a node, or all are one.
        job.env("KUMIKI_NODE", &format!("node {}", if way.nodes == 1 { 0 } else { offset })).start()
    };
    let running: Vec<Running> = [(2, 0), (3, 2)].into_iter().map(start).collect();
    running.into_iter().map(Running::wait).collect::<Vec<_>>().into_iter().try_for_each(Ended::success)
}

/// A job of two ranks, and a process that is in the world that they have in common with it, and dies there.
fn loss() -> Result<(), Failed> {
    let portfile = SecretFile::portfile("worlds-loss", 3);
    let way = way::named("shm");
    let job = common(Job::new(way, "lost_in_one", 2), &portfile, 0).start();
    let other = common(Job::alone(way, "lost"), &portfile, 2).start();
    let (job, other) = (job.wait(), other.wait());
    other.code(3)?;
    job.success()
}

fn common(job: Job, portfile: &SecretFile, offset: u32) -> Job {
    job.env(PORTFILE, portfile.0.to_str().unwrap_or_default()).env(OFFSET, &offset.to_string())
}

/// Joins the world that the jobs have in common.
fn join() -> World {
    let variable = |name| std::env::var(name).expect("the test sets it");
    let part = Part { portfile: variable(PORTFILE), offset: variable(OFFSET).parse().expect("a number") };
    World::options().part(part).init().expect("the common world")
}

/// Everybody adds to a counter of everybody, and all come to the same.
fn count(world: &World, rounds: u64) {
    let counters = world.shared_array::<u64>(1).expect("an array");
    for round in 1..=rounds {
        for rank in 0..world.ranks() {
            world.fetch_add(counters.at(rank, 0), 1).expect("add");
        }
        world.sync().expect("sync");
        assert_eq!(counters.get(0).expect("get"), round * u64::from(world.ranks()), "in {world:?}");
        world.sync().expect("sync");
    }
    counters.free(world).expect("free");
}

pub(crate) fn two_worlds(_: &'static Way) {
    let own = World::init().expect("init");
    let common = join();
    assert_eq!(common.ranks(), 5);
    let first: u32 = std::env::var(OFFSET).expect("the test sets it").parse().expect("a number");
    assert_eq!(common.rank(), first + own.rank());
    let again = World::init().expect_err("it is in that world");
    assert!(matches!(again, Error::Misuse(_)), "{again}");

    // In turns.
    for _ in 0..5 {
        count(&own, 3);
        count(&common, 3);
    }
    // At once.
    std::thread::scope(|scope| {
        scope.spawn(|| count(&own, 100));
        scope.spawn(|| count(&common, 100));
    });
    // A team of the common world that has the ranks of the job, and a region of the wrong world.
    let job = common.team_split(first, 0).expect("a split").expect("a colour");
    assert_eq!((job.rank(), job.ranks()), (own.rank(), own.ranks()));
    let wrong = job.team(&own, 0..1).expect_err("a team of another world");
    assert!(matches!(wrong, Error::Misuse(_)), "{wrong}");
    let region = own.alloc::<u64>(4).expect("memory");
    let wrong = common.view_of(&region).expect_err("a region of another world");
    assert!(matches!(wrong, Error::Misuse(_)), "{wrong}");
    drop(region);
    job.free().expect("free");

    // One ends while the other goes on.
    if first == 0 {
        own.finalize().expect("finalize");
        count(&common, 20);
        common.finalize().expect("finalize");
    } else {
        count(&common, 20);
        common.finalize().expect("finalize");
        count(&own, 20);
        own.finalize().expect("finalize");
    }
}

pub(crate) fn lost_in_one(_: &'static Way) {
    let own = World::init().expect("init");
    let common = join();
    common.sync().expect("sync");
    let lost = common.sync().expect_err("rank 2 is gone");
    assert!(matches!(lost, Error::PeerLost { rank: 2, .. } | Error::Closed(_)), "{lost}");
    count(&own, 50);
    drop(common);
    count(&own, 50);
    assert!(!own.has_returned_an_error());
    own.finalize().expect("finalize");
}

/// Comes to the common world, and dies in it.
pub(crate) fn lost(_: &'static Way) {
    let common = join();
    common.sync().expect("sync");
    std::process::exit(3);
}
