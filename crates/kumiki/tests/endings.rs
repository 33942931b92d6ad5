//! How sparse exchanges and relays end: by a panic that is survived, early, or while they are made. Each rank has a node of its own here.

use kumiki::comm::{RelayOptions, SparseOptions};
use kumiki::{Error, Result, World};
use kumiki_sim::{Cluster, Crash, End, Faults, Network, Time};
use std::panic::{catch_unwind, AssertUnwindSafe};

fn cluster(ranks: u32) -> Cluster {
    Cluster::new(ranks, Network::torus(&[ranks]))
}

/// Runs a program on all ranks of a small cluster; each must end well.
fn everywhere(ranks: u32, program: impl Fn(&World) -> Result<()> + Send + Sync) {
    let outcome = cluster(ranks).run(|attachment| {
        let world = World::attach(attachment)?;
        program(&world)?;
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); ranks as usize]);
}

/// Does something that panics.
fn survive(work: impl FnOnce()) {
    let caught = catch_unwind(AssertUnwindSafe(work));
    assert!(caught.is_err(), "it panics");
}

#[test]
fn a_panic_in_the_middle_of_a_run_breaks_the_exchange_for_all() {
    for in_closure in [false, true] {
        everywhere(3, |world| {
            let mut exchange = world.sparse_exchange::<u64>(SparseOptions::default().room(8))?;
            let all = |number: u64| {
                assert!(in_closure || world.rank() != 1 || number < 50, "a test");
                (number as u32 % 3, number)
            };
            let arrive = |_, _: &[u64]| assert!(!in_closure || world.rank() != 1, "a test");
            match world.rank() == 1 {
                true => {
                    survive(|| drop(exchange.run((0..20_000).map(all), arrive)));
                    let later = exchange.finish().map(drop);
                    assert!(
                        matches!(&later, Err(Error::Refused(why)) if why.contains("panicked")),
                        "{later:?}"
                    );
                }
                false => {
                    assert!(exchange.run((0..20_000).map(all), arrive).is_err());
                }
            }
            assert!(exchange.push(0, 1).is_err(), "it stays broken");
            Ok(())
        });
    }
}

#[test]
fn a_relay_that_is_dropped_by_a_panic_is_left() {
    everywhere(3, |world| {
        let mut relay = world.relay::<u64>(RelayOptions::new(4, 2))?;
        if world.rank() == 1 {
            survive(move || {
                let _relay = relay;
                panic!("a test");
            });
            drop(world.sender::<u8>(1)?.start_free()?);
            return world.sync();
        }
        let mut go_on = || match relay.is_first() {
            true => relay.send(&[1; 4]),
            false => relay.receive().map(drop),
        };
        let left = (0..10).try_for_each(|_| go_on());
        assert!(matches!(left, Err(Error::PeerLost { rank: 1, .. })), "{left:?}");
        world.sync()
    });
}

#[test]
fn what_a_slower_rank_sends_before_it_frees_an_exchange_is_dropped() {
    everywhere(3, |world| {
        let mut exchange = world.sparse_exchange::<u64>(SparseOptions::default())?;
        exchange.finish()?;
        if world.rank() == 1 {
            kumiki_sim::compute(Time::from_seconds(0.01));
            exchange.send(0, &[1; 10_000])?;
        }
        exchange.free()
    });
}

/// Nobody is to blame when the one at the end has enough.
#[test]
fn a_relay_that_is_closed_early_closes_up_the_line() {
    everywhere(4, |world| {
        let mut relay = world.relay::<u64>(RelayOptions::new(4, 2))?;
        let mut ended = Ok(());
        if relay.is_last() {
            relay.receive()?;
        }
        while !relay.is_last() && ended.is_ok() {
            ended = match relay.is_first() {
                true => relay.send(&[1; 4]),
                false => relay.receive().map(drop).and_then(|()| relay.pass_on()),
            };
        }
        assert!(relay.is_last() || matches!(ended, Err(Error::Closed(_))), "{ended:?}");
        if !relay.is_first() && !relay.is_last() {
            assert_eq!(relay.receive()?.map(|bucket| bucket.len()), Some(4), "what is there can be had");
        }
        relay.close()?;
        world.sync()
    });
}

/// Wherever a rank crashes, those who have the relay and those who have not do not wait for each other.
#[test]
fn a_rank_that_crashes_while_a_relay_is_made_is_missed_by_all() {
    for victim in [0, 3] {
        for operation in 1.. {
            let faults = Faults { crashes: vec![Crash { rank: victim, operation }], ..Faults::default() };
            let outcome = cluster(4).faults(faults).run(|attachment| -> Result<()> {
                let world = World::attach(attachment)?;
                let made = world.relay::<u64>(RelayOptions::new(4, 2)).and_then(|mut relay| {
                    if !relay.is_first() {
                        relay.receive()?;
                    }
                    if relay.is_last() { Ok(()) } else { relay.send(&[1]) }.and_then(|()| relay.close())
                });
                for _ in 0..3 {
                    kumiki_sim::compute(Time::from_seconds(1.0));
                    let _ = world.progress();
                }
                made
            });
            let outcome = outcome.expect("nobody hangs");
            let crashed = outcome.ends.iter().any(|end| matches!(end, End::Crashed));
            for (rank, end) in outcome.ends.iter().enumerate() {
                let is_fine = match end {
                    End::Crashed | End::Returned(Ok(())) => true,
                    End::Returned(Err(Error::PeerLost { rank, .. })) => *rank == victim,
                    _ => false,
                };
                assert!(is_fine, "rank {rank}, crash of {victim} at {operation}: {end:?}");
            }
            if !crashed {
                break;
            }
        }
    }
}
