//! How sparse exchanges and relays end: by a panic that is survived, early, or while they are made. Each rank has a node of its own here.

use kumiki::comm::{RelayOptions, Slots, SparseOptions};
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

/// A rank that is late by a second.
fn late() {
    kumiki_sim::compute(Time::from_us(1_000_000));
}

#[test]
fn what_a_rank_has_begun_to_send_through_a_channel_comes_though_it_finalizes_before_the_other_makes_its_end()
{
    for (messages, length) in [(1u64, 3), (40, 3), (3, 20_000)] {
        everywhere(2, |world| {
            if world.rank() == 0 {
                let sender = world.sender::<u64>(1)?;
                for number in 0..messages {
                    drop(sender.start_send(vec![number; length])?);
                }
                drop(sender.start_free()?);
                return Ok(());
            }
            late();
            let receiver = world.receiver::<u64>(0, Slots::default())?;
            for number in 0..messages {
                late();
                assert_eq!(receiver.receive()?, vec![number; length]);
            }
            assert!(matches!(receiver.receive(), Err(Error::Closed(_))));
            receiver.free()
        });
    }
}

#[test]
fn a_sender_that_waits_for_room_gets_on_when_its_receiver_finalizes() {
    for is_made in [true, false] {
        everywhere(2, |world| {
            if world.rank() == 0 {
                // What comes here nobody takes; or nobody ever makes an end for it.
                return is_made.then(|| world.receiver::<u64>(1, Slots::default())).transpose().map(drop);
            }
            late();
            let sender = world.sender::<u64>(0)?;
            let sent = (0..1000).try_for_each(|_| sender.send(&[7; 100]));
            match is_made {
                true => assert_eq!(sent, Ok(())),
                false => assert!(matches!(sent, Err(Error::PeerLost { rank: 0, .. })), "{sent:?}"),
            }
            Ok(())
        });
    }
}

#[test]
fn whoever_waits_for_a_channel_of_which_the_other_end_is_never_made_is_told() {
    for is_early in [true, false] {
        everywhere(2, |world| {
            if world.rank() == 0 {
                if is_early {
                    late();
                }
                return Ok(());
            }
            if !is_early {
                late();
            }
            let receiver = world.receiver::<u64>(0, Slots::default())?;
            let came = receiver.receive();
            assert!(matches!(came, Err(Error::Closed(_) | Error::PeerLost { rank: 0, .. })), "{came:?}");
            Ok(())
        });
    }
}

#[test]
fn whoever_meets_the_end_of_a_segment_buffer_that_was_freed_before_it_made_its_own_is_told() {
    everywhere(2, |world| {
        if world.rank() == 0 {
            return world.segment_source::<u64>(1, 8, 2)?.free().map(drop);
        }
        late();
        let mut destination = world.segment_destination::<u64>(0, 8, 2)?;
        let waited = destination.wait();
        assert!(matches!(waited, Err(Error::Closed(_) | Error::PeerLost { rank: 0, .. })), "{waited:?}");
        Ok(())
    });
}

#[test]
fn whoever_waits_for_a_segment_buffer_of_which_the_other_end_is_never_made_is_told() {
    for is_early in [true, false] {
        everywhere(2, |world| {
            if (world.rank() == 0) == is_early {
                late();
            }
            if world.rank() == 0 {
                return Ok(());
            }
            let mut source = world.segment_source::<u64>(0, 8, 2)?;
            let waited = source.wait();
            assert!(matches!(waited, Err(Error::Closed(_) | Error::PeerLost { rank: 0, .. })), "{waited:?}");
            Ok(())
        });
    }
}

#[test]
fn ends_that_refuse_each_other_do_so_once() {
    everywhere(3, |world| {
        let next = (world.rank() + 1) % 3;
        // Nobody makes the other end of any of these.
        world.sender::<u64>(next)?;
        world.receiver::<u64>(next, Slots::default())?;
        if world.rank() == 0 {
            late();
        }
        Ok(())
    });
}
