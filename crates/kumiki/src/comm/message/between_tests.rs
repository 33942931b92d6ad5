//! Messages between simulated ranks that end early, have no memory, or do what they may not.

use super::record::{Note, Record};
use super::ring::FRAME_BYTES;
use super::{MessageOptions, MessageWay, CREDIT, MAIL, WIDE_FAR};
use crate::comm::COMM;
use crate::{Error, Purpose, Result, World};
use kumiki_mem::codec::Writer;
use kumiki_sim::{Cluster, Network};

/// Runs a program on so many ranks, each of its own node.
fn run<T: Send>(ranks: u32, budget: Option<u64>, program: impl Fn(World) -> Result<T> + Sync) -> Vec<T> {
    let cluster = Cluster::new(ranks, Network::torus(&[ranks]));
    let cluster = match budget {
        Some(bytes) => cluster.budget_bytes(bytes),
        None => cluster,
    };
    let outcome = cluster.run(|attachment| World::attach(attachment).and_then(&program));
    let values = outcome.expect("it runs").values().expect("nobody panicked");
    values.into_iter().map(|value| value.expect("no error")).collect()
}

fn receive_in(world: &World, way: MessageWay) -> Result<()> {
    world.messages().set_options(MessageOptions { way, ..MessageOptions::default() })
}

const WAYS: [MessageWay; 2] = [MessageWay::Mailbox, MessageWay::Lane];

#[test]
fn ranks_with_messages_that_nobody_received_finalize_together() {
    for way in WAYS {
        run(2, None, |world| {
            receive_in(&world, way)?;
            let other = 1 - world.rank();
            for number in 0..200u64 {
                drop(world.messages().start_send(other, 1, vec![number; 40])?);
            }
            drop(world.messages().start_send(other, 1, vec![7u64; 4000])?);
            world.finalize()
        });
    }
}

#[test]
fn whoever_sends_to_a_rank_that_has_finalized_gets_an_error_and_nobody_waits() {
    for length in [1usize, 4000] {
        run(2, None, |world| {
            assert_eq!(world.messages().try_probe(None, 77)?, None);
            if world.rank() == 1 {
                let sent = (0..200).try_for_each(|_| world.messages().send(0, 1, &vec![1u64; length]));
                // A message that came before the end was dropped.
                assert!(matches!(sent, Err(Error::PeerLost { rank: 0, .. })), "{sent:?}");
            }
            world.finalize()
        });
    }
}

#[test]
fn what_a_rank_has_received_before_it_finalized_is_sent_however_late_its_sender_looks() {
    // The answer to the send, and that its receiver goes, come while the sender computes.
    for (length, looks) in [(1usize, true), (1, false), (4000, true)] {
        run(2, None, |world| {
            let messages = world.messages();
            if world.rank() == 1 {
                assert_eq!(messages.receive::<u64>(0, 2)?.elements, vec![3; length]);
                return world.finalize();
            }
            let never = messages.start_receive::<u64>(1, 1)?;
            // Often enough for the other rank to be asked to say when it goes.
            for _ in 0..200 {
                assert!(!never.is_done());
                kumiki_sim::compute(kumiki_sim::Time::from_us(10));
            }
            let sending = messages.start_send(1, 2, vec![3u64; length])?;
            kumiki_sim::compute(kumiki_sim::Time::from_us(1_000_000));
            if looks {
                // This takes what has come, and does not look at messages.
                world.get(world.starter::<u64>(1)?)?;
            }
            sending.wait()?;
            assert!(matches!(never.wait(), Err(Error::PeerLost { rank: 1, .. })));
            world.finalize()
        });
    }
}

#[test]
fn a_world_that_is_dropped_sends_what_waits_to_be_sent() {
    for way in WAYS {
        run(2, None, |world| {
            receive_in(&world, way)?;
            for number in 0..100u64 {
                match world.rank() {
                    0 => drop(world.messages().start_send(1, 0, [number])?),
                    _ => assert_eq!(world.messages().receive::<u64>(0, 0)?.elements, [number]),
                }
            }
            drop(world);
            Ok(())
        });
    }
}

#[test]
fn messages_that_wait_to_be_sent_come_though_their_receiver_is_late() {
    for way in WAYS {
        run(2, None, |world| {
            receive_in(&world, way)?;
            let messages = world.messages();
            if world.rank() == 0 {
                for number in 0..200u64 {
                    drop(messages.start_send(1, 0, vec![number; 40])?);
                }
            } else {
                kumiki_sim::compute(kumiki_sim::Time::from_us(60_000_000));
                for number in 0..200u64 {
                    assert_eq!(messages.receive::<u64>(0, 0)?.elements, vec![number; 40]);
                }
            }
            world.finalize()
        });
    }
}

#[test]
fn whoever_waits_for_a_message_of_a_rank_that_has_finalized_is_told() {
    for used in [false, true] {
        run(3, None, |world| {
            let messages = world.messages();
            if world.rank() != 1 {
                // It is told too if it was never heard of.
                if used {
                    messages.send(1, 5, &[1u8])?;
                }
                return world.finalize();
            }
            if !used {
                let asked = messages.start_receive::<u8>(0, 1)?;
                assert!(matches!(messages.receive::<u8>(2, 1), Err(Error::PeerLost { rank: 2, .. })));
                assert!(matches!(asked.wait(), Err(Error::PeerLost { rank: 0, .. })));
            }
            let anybody = messages.receive::<u8>(None, 1);
            assert!(matches!(anybody, Err(Error::PeerLost { .. })), "{anybody:?}");
            assert!(matches!(messages.receive::<u8>(2, 1), Err(Error::PeerLost { rank: 2, .. })));
            assert!(matches!(messages.probe(0, 1), Err(Error::PeerLost { rank: 0, .. })));
            // Whoever only asks is not told: it may do so to the end.
            assert_eq!(messages.try_probe(0, 1)?, None);
            assert_eq!(messages.try_probe(None, 1)?, None);
            for from in [2, 0].into_iter().filter(|_| used) {
                assert_eq!(messages.receive::<u8>(from, 5)?.elements, [1], "it came before");
            }
            world.finalize()
        });
    }
}

#[test]
fn a_rank_without_memory_gives_credit_in_advance_once() {
    run(2, Some(1 << 20), |world| {
        receive_in(&world, MessageWay::Mailbox)?;
        let messages = world.messages();
        messages.send(1 - world.rank(), 4, &[0u64])?;
        messages.receive::<u64>(1 - world.rank(), 4)?;
        world.sync()?;
        if world.rank() == 0 {
            for number in 0..60u64 {
                drop(messages.start_send(1, 0, [number])?);
            }
            world.sync()?;
            world.sync()?;
        } else {
            let spent = spend(&world);
            world.sync()?;
            let receiving = messages.start_receive::<u64>(0, 9)?;
            assert!((0..50)
                .all(|_| !receiving.is_done() || world.comm().with_post(|post| post.blocked.is_some())));
            let advanced = world.comm().with_post(|post| post.incoming.source(0).advanced);
            assert!(advanced <= u32::from(CREDIT), "{advanced}");
            drop((spent, receiving));
            world.sync()?;
            for number in 0..60u64 {
                assert_eq!(messages.receive::<u64>(0, 0)?.elements, [number]);
            }
        }
        world.finalize()
    });
}

#[test]
fn messages_go_on_while_a_rank_waits_for_the_others() {
    for way in WAYS {
        run(2, None, |world| {
            receive_in(&world, way)?;
            let messages = world.messages();
            if world.rank() == 0 {
                let sends: Vec<_> =
                    (0..100u64).map(|number| messages.start_send(1, 0, [number])).collect::<Result<_>>()?;
                world.sync()?;
                messages.wait_all(sends)?;
                messages.send(1, 1, &vec![3u8; 5000])?;
                world.sync()?;
            } else {
                for number in 0..100u64 {
                    assert_eq!(messages.receive::<u64>(0, 0)?.elements, [number]);
                }
                world.sync()?;
                let receiving = messages.start_receive::<u8>(0, 1)?;
                world.sync()?;
                assert_eq!(receiving.wait()?.elements, vec![3; 5000]);
            }
            world.finalize()
        });
    }
}

#[test]
fn somebody_who_only_probes_is_found_by_the_message_that_it_waits_for() {
    for way in WAYS {
        run(2, None, |world| {
            receive_in(&world, way)?;
            let messages = world.messages();
            if world.rank() == 0 {
                for number in 0..100u64 {
                    drop(messages.start_send(1, 0, [number])?);
                }
                messages.send(1, 9, &[9u64])?;
            } else {
                assert_eq!(messages.probe(0, 9)?.tag, 9);
                for number in 0..100u64 {
                    assert_eq!(messages.receive::<u64>(0, 0)?.elements, [number]);
                }
                assert_eq!(messages.receive::<u64>(0, None)?.elements, [9]);
            }
            world.finalize()
        });
    }
}

/// Has a record of this rank left in the mailbox of another one, whatever it is.
fn leave(world: &World, to: u32, note: Note, body: &[u8]) -> Result<Vec<u8>> {
    let record = Record { from: world.rank(), hungry: false, note };
    world.memory.call(to, COMM, record.write(Writer::new(MAIL), body).finish())
}

#[test]
fn a_rank_that_sends_without_credit_or_lies_is_not_heard_any_more_and_others_are() {
    run(3, None, |world| {
        let messages = world.messages();
        match world.rank() {
            0 => {
                world.sync()?;
                assert_eq!(messages.receive::<u64>(1, 0)?.elements, [1]);
                for _ in 0..CREDIT {
                    assert_eq!(messages.receive::<u8>(2, 0)?.elements, [2]);
                }
                let refused = messages.receive::<u8>(2, 0);
                assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
                assert!(matches!(messages.probe(2, 0), Err(Error::Refused(_))));
                messages.send(1, 0, &[2u64])?;
                assert_eq!(messages.receive::<u64>(None, 0)?.elements, [3]);
            }
            1 => {
                messages.send(0, 0, &[1u64])?;
                world.sync()?;
                assert_eq!(messages.receive::<u64>(0, 0)?.elements, [2]);
                messages.send(0, 0, &[3u64])?;
            }
            _ => {
                let short = Note::Short { context: 0, tag: 0, bytes: 1 };
                for _ in 0..5 * CREDIT {
                    leave(&world, 0, short, &[2])?;
                }
                let (mine, theirs) = (world.starter_address(2)?, world.starter_address(0)?);
                let lent = Note::Lent { context: 0, tag: 0, bytes: 8, place: theirs, number: 1 };
                let lies = [
                    (lent, &[0; 8][..]),
                    (Note::Offer { lane: theirs, bytes: 2880 }, &[]),
                    (Note::Offer { lane: mine, bytes: 256 }, &[]),
                    (Note::Offer { lane: mine, bytes: 2881 }, &[]),
                    (Note::End, &[]),
                ];
                for (note, body) in lies {
                    let told = leave(&world, 0, note, body);
                    assert!(matches!(told, Err(Error::Misuse(_))), "{note:?}: {told:?}");
                }
                world.sync()?;
            }
        }
        world.finalize()
    });
}

/// Takes all memory that this rank may have.
fn spend(world: &World) -> Vec<kumiki_mem::Booking> {
    let pieces = [64 << 10, 4096, 64].into_iter();
    pieces.flat_map(|bytes| std::iter::from_fn(move || world.book(Purpose::Comm, bytes).ok())).collect()
}

#[test]
fn a_send_that_fails_for_want_of_memory_is_not_received_and_one_that_does_not_fail_is() {
    run(2, Some(1 << 20), |world| {
        receive_in(&world, MessageWay::Mailbox)?;
        let messages = world.messages();
        messages.send(1 - world.rank(), 4, &[0u64])?;
        messages.receive::<u64>(1 - world.rank(), 4)?;
        world.sync()?;
        if world.rank() == 0 {
            let sends: Vec<_> =
                (0..20u64).map(|number| messages.start_send(1, 0, [number])).collect::<Result<_>>()?;
            let spent = spend(&world);
            world.sync()?;
            world.sync()?;
            let results: Vec<_> = sends.into_iter().map(|sending| sending.wait().is_ok()).collect();
            drop(spent);
            assert!(results.contains(&false), "there was memory");
            let went: Vec<u64> = (0u64..).zip(results).filter(|(_, went)| *went).map(|(at, _)| at).collect();
            for _ in 0..CREDIT / 2 {
                messages.receive::<u64>(1, 5)?;
            }
            messages.send(1, 1, &went)?;
        } else {
            world.sync()?;
            for number in 0..u64::from(CREDIT / 2) {
                messages.send(0, 5, &[number; 120])?;
            }
            world.sync()?;
            let mut came = Vec::new();
            let went = loop {
                let message = messages.receive::<u64>(0, None)?;
                match message.tag {
                    1 => break message.elements,
                    _ => came.extend(message.elements),
                }
            };
            assert_eq!(came, went);
        }
        world.finalize()
    });
}

#[test]
fn messages_for_a_rank_whose_memory_is_spent_come_when_there_is_some() {
    run(2, Some(2 << 20), |world| {
        let options =
            MessageOptions { way: MessageWay::Lane, lane_bytes: 256 << 10, ..MessageOptions::default() };
        world.messages().set_options(options)?;
        let messages = world.messages();
        messages.send(1 - world.rank(), 4, &[0u64])?;
        messages.receive::<u64>(1 - world.rank(), 4)?;
        world.sync()?;
        if world.rank() == 0 {
            for number in 0..150u64 {
                drop(messages.start_send(1, 0, vec![number; 900])?);
            }
            world.sync()?;
            world.sync()?;
        } else {
            let spent = spend(&world);
            world.sync()?;
            drop(spent);
            world.sync()?;
            for number in 0..150u64 {
                assert_eq!(messages.receive::<u64>(0, 0)?.elements, vec![number; 900]);
            }
        }
        world.finalize()
    });
}

/// Bytes of the lane of rank 0 at this rank.
fn lane_bytes(world: &World) -> Option<u64> {
    world.comm().with_post(|post| post.incoming.lanes.first().map(|lane| lane.ring.bytes))
}

/// Has rank 1 give rank 0 a wide lane: all long messages come as they were sent, those of before and those of after.
fn widen(world: &World) -> Result<()> {
    let messages = world.messages();
    for number in 0..40u64 {
        let length = 1 + (number as usize * 613) % 16_000;
        if world.rank() == 0 {
            messages.send(1, 3, &vec![number; length])?;
        } else {
            assert_eq!(messages.receive::<u64>(0, 3)?.elements, vec![number; length]);
        }
    }
    if world.rank() == 1 {
        assert_eq!(lane_bytes(world), Some(WIDE_FAR - FRAME_BYTES));
    }
    world.sync()
}

#[test]
fn who_sends_middle_sized_messages_gets_a_wide_lane() {
    run(2, None, |world| {
        widen(&world)?;
        let messages = world.messages();
        if world.rank() == 0 {
            // They go before anybody receives them, as far as there is room.
            (0..2u64).try_for_each(|number| messages.send(1, 4, &vec![number; 16_000]))?;
        }
        world.sync()?;
        if world.rank() == 1 {
            for number in 0..2u64 {
                assert_eq!(messages.receive::<u64>(0, 4)?.elements, vec![number; 16_000]);
            }
        }
        world.finalize()
    });
}

#[test]
fn a_wide_lane_is_not_made_where_memory_is_short() {
    run(2, Some(2 << 20), |world| {
        let messages = world.messages();
        for number in 0..20u64 {
            if world.rank() == 0 {
                messages.send(1, 3, &vec![number; 4000])?;
            } else {
                assert_eq!(messages.receive::<u64>(0, 3)?.elements, vec![number; 4000]);
                assert!(lane_bytes(&world).is_none_or(|bytes| bytes < WIDE_FAR - FRAME_BYTES));
            }
        }
        world.finalize()
    });
}

#[test]
fn what_a_wide_lane_has_no_memory_for_is_fetched_and_nothing_is_overtaken() {
    run(2, Some(16 << 20), |world| {
        widen(&world)?;
        let messages = world.messages();
        let length = |number: u64| if number.is_multiple_of(3) { 5 } else { 15_000 };
        if world.rank() == 0 {
            world.sync()?;
            let begin = |number| messages.start_send(1, 0, vec![number; length(number)]);
            let sends = (0..30u64).map(begin).collect::<Result<Vec<_>>>()?;
            world.sync()?;
            messages.wait_all(sends)?;
        } else {
            let spent = spend(&world);
            world.sync()?;
            world.sync()?;
            drop(spent);
            for number in 0..30u64 {
                assert_eq!(messages.receive::<u64>(0, 0)?.elements, vec![number; length(number)]);
            }
        }
        world.finalize()
    });
}
