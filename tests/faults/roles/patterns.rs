//! Ranks in the middle of a pattern of communication, until one of them is killed or rank 0 is told to stop.

use super::{argument, report, say, wait_for_word};
use kumiki::comm::{RelayOptions, SparseOptions};
use kumiki::{Result, World};
use std::thread::JoinHandle;

pub(crate) fn play() -> Result<()> {
    let world = World::init()?;
    let waiter = (world.rank() == 0).then(|| std::thread::spawn(wait_for_word));
    match argument("FAULTS_WHAT").as_str() {
        "sparse" => sparse(&world, waiter)?,
        "relay" => relay(&world, waiter)?,
        other => panic!("there is no pattern {other}"),
    }
    // The world may have lost a rank.
    world.finalize().or(Ok(()))
}

/// Says that all are in the middle of it.
fn begin(world: &World) -> Result<()> {
    super::is_here(world, 50)?;
    if world.rank() == 0 {
        super::all_are_here(world, 50)?;
        say("ready");
    }
    Ok(())
}

fn is_told(waiter: &Option<JoinHandle<()>>) -> bool {
    waiter.as_ref().is_some_and(|waiter| waiter.is_finished())
}

/// Everybody sends to everybody, more than there is room for; when rank 0 is told it sends something else.
fn sparse(world: &World, waiter: Option<JoinHandle<()>>) -> Result<()> {
    let mut exchange = world.sparse_exchange::<u64>(SparseOptions::default().room(300))?;
    begin(world)?;
    let mut step = |number: u64| -> Result<bool> {
        let word = if is_told(&waiter) { u64::MAX } else { number };
        for to in 0..world.ranks() {
            exchange.send(to, &[word; 100])?;
        }
        let came = exchange.finish()?;
        assert_eq!(came.len(), 100 * world.ranks() as usize);
        assert!(came.elements().iter().all(|word| [number, u64::MAX].contains(word)), "of another step");
        Ok(came.from(0)[0] == u64::MAX)
    };
    let ended = (0..).map(&mut step).find(|ended| !matches!(ended, Ok(false))).unwrap_or(Ok(true));
    let ended = ended.map(drop);
    report("call", &ended);
    let later = match ended {
        Ok(()) => exchange.free(),
        Err(_) => exchange.finish().map(drop),
    };
    report("later", &later);
    Ok(())
}

/// Buckets without end, until rank 0 is told to close.
fn relay(world: &World, waiter: Option<JoinHandle<()>>) -> Result<()> {
    let mut relay = world.relay::<u64>(RelayOptions::new(100, 2))?;
    begin(world)?;
    let mut step = |number: u64| -> Result<bool> {
        if relay.is_first() {
            return if is_told(&waiter) { Ok(true) } else { relay.send(&[number; 100]).map(|()| false) };
        }
        let Some(bucket) = relay.receive()? else { return Ok(true) };
        assert_eq!(bucket, [number; 100], "a bucket out of order");
        match relay.is_last() {
            true => Ok(false),
            false => relay.pass_on().map(|()| false),
        }
    };
    let ended = (0..).map(&mut step).find(|ended| !matches!(ended, Ok(false))).unwrap_or(Ok(true));
    report("call", &ended.map(drop));
    report("later", &relay.close());
    Ok(())
}
