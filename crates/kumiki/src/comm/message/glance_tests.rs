//! The short way of messages out of a lane: who gets which is as it is on the whole way.

use super::incoming::Stage;
use super::{MessageOptions, MessageReceiving, MessageWay};
use crate::{Error, World};

/// A world whose messages to itself go through a lane.
fn world_with_a_lane() -> World {
    let world = World::init().unwrap();
    let messages = world.messages();
    messages.set_options(MessageOptions { way: MessageWay::Lane, ..MessageOptions::default() }).unwrap();
    while !has_lane(&world) {
        messages.send(0, 0, &[0u64]).unwrap();
        messages.receive::<u64>(0, 0).unwrap();
    }
    world
}

fn has_lane(world: &World) -> bool {
    world.comm().with_post(|post| post.incoming.lanes.iter().any(|lane| lane.stage == Stage::Open))
}

/// How often something went the short way since everything went on, and how often that was.
fn ways(world: &World) -> (u32, usize) {
    world.comm().with_post(|post| (post.glances, post.turn.0))
}

fn receive(world: &World, tag: impl Into<Option<u64>>) -> u64 {
    let mut room = [0u64];
    assert_eq!(world.messages().receive_into(&mut room, 0, tag).unwrap().bytes, 8);
    room[0]
}

#[test]
fn a_message_that_stands_first_in_its_lane_goes_the_short_way() {
    let world = world_with_a_lane();
    let before = ways(&world);
    world.messages().send(0, 1, &[7u64]).unwrap();
    assert_eq!(receive(&world, 1), 7);
    assert_eq!(ways(&world), (before.0 + 1, before.1));
    world.messages().send(0, 1, &[8u64, 9]).unwrap();
    assert_eq!(world.messages().receive::<u64>(0, None).unwrap().elements, [8, 9]);
    assert_eq!(ways(&world), (before.0 + 2, before.1));
    world.finalize().unwrap();
}

#[test]
fn a_message_of_another_tag_or_context_that_came_before_stays_for_its_receive() {
    let world = world_with_a_lane();
    let messages = world.messages();
    messages.send(0, 2, &[20u64]).unwrap();
    messages.context(5).send(0, 1, &[50u64]).unwrap();
    messages.send(0, 1, &[10u64]).unwrap();
    assert_eq!((receive(&world, 1), receive(&world, 2)), (10, 20));
    assert_eq!(messages.context(5).receive::<u64>(0, 1).unwrap().elements, [50]);
    world.finalize().unwrap();
}

#[test]
fn a_message_that_is_kept_comes_before_one_in_the_lane() {
    let world = world_with_a_lane();
    let messages = world.messages();
    messages.send(0, 1, &[1u64]).unwrap();
    assert!(messages.try_probe(0, 1).unwrap().is_some(), "it is kept now");
    messages.send(0, 1, &[2u64]).unwrap();
    assert_eq!((receive(&world, None), receive(&world, 1)), (1, 2));
    world.finalize().unwrap();
}

#[test]
fn a_receive_that_another_thread_has_posted_earlier_gets_the_first_message() {
    let world = world_with_a_lane();
    let messages = world.messages();
    // Of any source and tag, of one tag, and one that wants something else.
    for (source, tag) in [(None, None), (Some(0), Some(1)), (None, Some(1))] {
        let other = messages.start_receive::<u64>(None, 3).unwrap();
        std::thread::scope(|scope| {
            let (posted, is_posted) = std::sync::mpsc::channel();
            let first = scope.spawn(move || {
                let receiving = messages.start_receive::<u64>(source, tag).unwrap();
                posted.send(()).unwrap();
                receiving.wait().unwrap().elements[0]
            });
            is_posted.recv().unwrap();
            let second = scope.spawn(|| receive(&world, 1));
            // It waits, too, or will.
            while world.comm().with_post(|post| post.matching.posted_count()) < 3 {
                std::thread::yield_now();
            }
            messages.send(0, 1, &[1u64]).unwrap();
            messages.send(0, 1, &[2u64]).unwrap();
            assert_eq!((first.join().unwrap(), second.join().unwrap()), (1, 2), "{source:?} {tag:?}");
        });
        assert!(other.cancel().unwrap().is_none());
    }
    world.finalize().unwrap();
}

#[test]
fn a_receive_that_waits_gets_the_first_message_and_one_posted_later_the_next() {
    let world = world_with_a_lane();
    let messages = world.messages();
    for number in 0..20u64 {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| receive(&world, 1));
            while world.comm().with_post(|post| post.matching.posted_count()) == 0 {
                std::thread::yield_now();
            }
            let later = messages.start_receive::<u64>(None, None).unwrap();
            messages.send(0, 1, &[2 * number]).unwrap();
            messages.send(0, 1, &[2 * number + 1]).unwrap();
            assert_eq!(waiting.join().unwrap(), 2 * number);
            assert_eq!(later.wait().unwrap().elements, [2 * number + 1]);
        });
    }
    world.finalize().unwrap();
}

#[test]
fn a_message_for_which_there_is_no_room_is_lost_on_the_short_way_too() {
    let world = world_with_a_lane();
    let messages = world.messages();
    messages.send(0, 1, &[1u64, 2]).unwrap();
    messages.send(0, 1, &[3u8]).unwrap();
    messages.send(0, 1, &[4u64]).unwrap();
    let wrong = messages.receive_into(&mut [0u64], 0, 1);
    assert!(matches!(&wrong, Err(Error::Misuse(why)) if why.contains("16 bytes")), "{wrong:?}");
    assert!(matches!(messages.receive::<u64>(0, 1), Err(Error::Misuse(_))));
    assert_eq!(receive(&world, 1), 4);
    world.finalize().unwrap();
}

#[test]
fn a_long_message_and_the_end_of_a_lane_go_the_whole_way() {
    let world = world_with_a_lane();
    let messages = world.messages();
    let long = messages.start_send(0, 1, vec![1u64; 5000]).unwrap();
    messages.send(0, 1, &[2u64]).unwrap();
    assert_eq!(messages.receive::<u64>(0, 1).unwrap().elements.len(), 5000);
    long.wait().unwrap();
    assert_eq!(receive(&world, 1), 2);
    // This rank asks for its lane back, and goes on with the mailbox: no message is lost, and none overtakes another.
    let options = MessageOptions { way: MessageWay::Mailbox, ..MessageOptions::default() };
    messages.set_options(options).unwrap();
    let address = world.comm().with_post(|post| post.incoming.lanes[0].ring.address);
    for number in 0..60u64 {
        drop(messages.start_send(0, 1, [2 * number]).unwrap());
        drop(messages.start_send(0, 1, [2 * number + 1]).unwrap());
        if number == 20 {
            world.comm().with_post(|post| post.say(0, super::record::Note::Leave { lane: address }));
        }
        assert_eq!((receive(&world, 1), receive(&world, None)), (2 * number, 2 * number + 1));
    }
    assert!(!has_lane(&world));
    world.finalize().unwrap();
}

#[test]
fn whoever_receives_again_and_again_has_everything_go_on() {
    let world = world_with_a_lane();
    let sends: Vec<_> =
        (0..90u64).map(|number| world.messages().start_send(0, 1, [number]).unwrap()).collect();
    let before = ways(&world).1;
    (0..90).for_each(|number| assert_eq!(receive(&world, 1), number));
    assert!(ways(&world).1 >= before + 2, "it went on {} times", ways(&world).1 - before);
    world.messages().wait_all(sends).unwrap();
    world.finalize().unwrap();
}

/// What was sent goes to the receives of any program as it would without a short way.
#[test]
fn any_program_of_sends_and_receives_through_a_lane_gets_its_messages_in_order() {
    let world = world_with_a_lane();
    let messages = world.messages();
    let fits = |wanted: Option<u64>, tag: u64| wanted.is_none_or(|wanted| wanted == tag);
    for seed in 1..=50u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % limit
        };
        let mut open: Vec<(u64, u64)> = Vec::new();
        let mut posted: Vec<(Option<u64>, MessageReceiving<'_, u64>)> = Vec::new();
        for value in 0..100u64 {
            let tag = 1 + next(3);
            let wanted = (next(3) > 0).then_some(tag);
            match next(8) {
                0..4 if open.len() < 20 => {
                    messages.send(0, tag, &[value]).unwrap();
                    match posted.iter().position(|(wanted, _)| fits(*wanted, tag)) {
                        Some(at) => assert_eq!(posted.remove(at).1.wait().unwrap().elements, [value]),
                        None => open.push((tag, value)),
                    }
                }
                4 => drop(messages.try_probe(0, tag).unwrap()),
                what => match open.iter().position(|(tag, _)| fits(wanted, *tag)) {
                    Some(at) => assert_eq!(receive(&world, wanted), open.remove(at).1, "seed {seed}"),
                    None if what < 6 => {
                        let source = (next(2) == 0).then_some(0);
                        posted.push((wanted, messages.start_receive(source, wanted).unwrap()));
                    }
                    None => {}
                },
            }
        }
        posted.into_iter().for_each(|(_, receiving)| assert!(receiving.cancel().unwrap().is_none()));
        open.into_iter().for_each(|(_, value)| assert_eq!(receive(&world, None), value, "seed {seed}"));
    }
    world.finalize().unwrap();
}
