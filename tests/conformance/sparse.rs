//! Elements that go from any ranks to any ranks, where only those who send know who receives, against a model; and what they take.

use crate::job::Job;
use crate::stage::Stage;
use crate::way::NODES;
use kumiki::comm::{SparseExchange, SparseOptions};
use kumiki::{Error, Purpose, Rank};
use libtest_mimic::Trial;
use std::cell::Cell;

/// A particle: who sent it, in which step, which it is; and what fills it up to a length that is no number of words.
type Particle = [u32; 5];

const STEPS: u64 = 9;

fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    }
}

/// What a rank sends in a step, in its order. Now and then everybody sends much to the same rank.
fn sent(from: Rank, ranks: u32, step: u64) -> Vec<(Rank, Particle)> {
    let mut next = numbers(u64::from(from) << 32 | step);
    let mut all = Vec::new();
    for _ in 0..next(5) {
        let to = if step % 4 == 3 { (step / 4) as Rank % ranks } else { next(ranks.into()) as Rank };
        for _ in 0..if next(4) == 0 { 200 + next(500) } else { next(20) } {
            let number = all.len() as u32;
            all.push((to, [from, step as u32, number, !from, !number]));
        }
    }
    all
}

fn due(me: Rank, ranks: u32, step: u64) -> Vec<(Rank, Vec<Particle>)> {
    let from = |source| sent(source, ranks, step).into_iter().filter(|(to, _)| *to == me).map(|(_, one)| one);
    let all = (0..ranks).map(|source| (source, from(source).collect::<Vec<_>>()));
    all.filter(|(_, particles)| !particles.is_empty()).collect()
}

fn take_step(stage: &Stage, exchange: &mut SparseExchange<'_, Particle>, step: u64) {
    let (me, ranks) = (stage.me(), stage.ranks());
    let all = sent(me, ranks, step);
    if step % 3 == 1 {
        let mut came = vec![Vec::new(); ranks as usize];
        let take = |source: Rank, particles: &[Particle]| came[source as usize].extend_from_slice(particles);
        exchange.run(all, take).expect("run");
        let came = (0..).zip(came).filter(|(_, particles)| !particles.is_empty());
        return assert_eq!(came.collect::<Vec<_>>(), due(me, ranks, step), "step {step}");
    }
    for same in all.chunk_by(|one, two| one.0 == two.0) {
        let particles: Vec<Particle> = same.iter().map(|(_, particle)| *particle).collect();
        match step % 3 {
            0 => exchange.send(same[0].0, &particles).expect("send"),
            _ => particles.iter().for_each(|one| exchange.push(same[0].0, *one).expect("push")),
        }
    }
    let came = exchange.finish().expect("finish");
    let came: Vec<_> = came.iter().map(|(source, particles)| (source, particles.to_vec())).collect();
    assert_eq!(came, due(me, ranks, step), "step {step}");
}

/// Random exchanges, with much room and with little.
pub(crate) fn sparse(stage: &Stage) {
    let world = &stage.world;
    let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
    stage.sync();
    let before = of();
    for room in [20, 1000] {
        let mut exchange =
            world.sparse_exchange::<Particle>(SparseOptions::default().room(room)).expect("an exchange");
        (0..STEPS).for_each(|step| take_step(stage, &mut exchange, step));
        exchange.free().expect("free");
    }
    stage.sync();
    drop(world.team(0..1).expect("a team"));
    assert_eq!(of(), before);
}

/// However much goes through an exchange, it takes what it took when it was made.
pub(crate) fn much_through_little(stage: &Stage) {
    let (world, me, ranks) = (&stage.world, stage.me(), stage.ranks());
    const EACH: u64 = 20_000;
    let mut exchange = world.sparse_exchange::<u64>(SparseOptions::default().room(500)).expect("an exchange");
    let booked = || world.ledger().of(Purpose::Comm);
    let (before, most, sum) = (booked(), Cell::new(0), Cell::new(0u64));
    let outgoing = (0..EACH).map(|number| ((number % 2) as Rank % ranks, number));
    let run = exchange.run(outgoing, |_, numbers| {
        sum.set(sum.get() + numbers.iter().sum::<u64>());
        most.set(most.get().max(booked()));
    });
    run.expect("run");
    let parity =
        |parity: u64| (0..EACH).filter(|number| number % 2 == parity).sum::<u64>() * u64::from(ranks);
    assert_eq!(sum.get(), if me < 2 { parity(me.into()) } else { 0 });
    // What records need beside their elements.
    assert!(most.get() <= before + (16 << 10), "{before} bytes have become {}", most.get());
    exchange.free().expect("free");
}

/// A rank that leaves in the middle, and one that fails, are errors for all; nothing is left of it.
pub(crate) fn left_exchange(stage: &Stage) {
    let world = &stage.world;
    let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
    stage.sync();
    let before = of();
    for leaver in [0, stage.ranks() - 1] {
        let mut exchange =
            world.sparse_exchange::<u64>(SparseOptions::default().room(50)).expect("an exchange");
        exchange.push(leaver, 1).expect("push");
        exchange.finish().expect("finish");
        // Whoever leaves before would break the call of the others.
        stage.sync();
        let kept = (stage.me() != leaver).then(|| {
            let _ = exchange.send(leaver, &[5; 200]);
            exchange.finish().expect_err("one has left");
            exchange.push(0, 1).expect_err("it stays broken");
            exchange
        });
        stage.sync();
        drop(kept);
        stage.sync();
    }
    world.sparse_exchange::<u8>(SparseOptions::default()).expect("another").free().expect("free");
    stage.sync();
    drop(world.team(0..1).expect("a team"));
    assert_eq!(of(), before);
}

/// Under a budget: what cannot be had is an error on all ranks, before and in the middle.
pub(crate) fn sparse_budget(stage: &Stage) {
    let world = &stage.world;
    let of = || [Purpose::Comm, Purpose::Team, Purpose::Heap].map(|purpose| world.ledger().of(purpose));
    stage.sync();
    let before = of();
    let much = world.sparse_exchange::<u64>(SparseOptions::default().room(1 << 18)).map(drop);
    assert!(matches!(much, Err(Error::OutOfMemory { .. })), "{much:?}");
    stage.sync();
    let mut exchange =
        world.sparse_exchange::<u64>(SparseOptions::default().room(8000)).expect("an exchange");
    // All together are too much for the one that they send to.
    let short = exchange.send(0, &[1; 40_000]).and_then(|()| exchange.finish().map(drop));
    assert!(stage.me() > 0 || matches!(short, Err(Error::OutOfMemory { .. })), "{short:?}");
    // Those who were done when it failed are told with their next call.
    assert!(short.is_err() || exchange.finish().is_err());
    drop(exchange);
    stage.sync();
    world.sparse_exchange::<u8>(SparseOptions::default()).expect("another").free().expect("free");
    stage.sync();
    drop(world.team(0..1).expect("a team"));
    assert_eq!(of(), before);
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |way: &'static crate::way::Way| {
        Trial::test(format!("{}::sparse_budget", way.name), move || {
            Job::new(way, "sparse_budget", 4).env("KUMIKI_BUDGET", "2M").run().success()
        })
    };
    NODES.iter().map(trial).collect()
}
