//! Messages of a rank with itself: everything but the ways between ranks, which the conformance suite has.

use super::matching::Selector;
use super::post::Body;
use super::record::{Note, Record};
use super::ring::Ring;
use super::{MessageOptions, MessageWay, CREDIT};
use crate::{Error, Purpose, World};

fn booked(world: &World) -> u64 {
    let ledger = world.ledger();
    ledger.entries.iter().filter(|entry| entry.purpose == Purpose::Comm).map(|entry| entry.bytes).sum()
}

#[test]
fn messages_are_received_by_tag_and_in_order() {
    let world = World::init().unwrap();
    let messages = world.messages();
    messages.send(0, 1, &[10u64]).unwrap();
    messages.send(0, 2, &[20u64, 21]).unwrap();
    messages.send(0, 1, &[11u64]).unwrap();
    messages.context(5).send(0, 1, &[50u64]).unwrap();
    assert_eq!(messages.probe(0, 2).unwrap().bytes, 16);
    assert_eq!(messages.receive::<u64>(0, 2).unwrap().elements, [20, 21]);
    assert_eq!(messages.receive::<u64>(None, None).unwrap().elements, [10]);
    assert_eq!(messages.receive::<u64>(None, 1).unwrap().elements, [11]);
    assert_eq!(messages.try_probe(None, None).unwrap(), None);
    assert_eq!(messages.context(5).receive::<u64>(0, None).unwrap().elements, [50]);
    let mut room = [0u64; 3];
    messages.send(0, 3, &[7u64, 8]).unwrap();
    let info = messages.receive_into(&mut room, 0, 3).unwrap();
    assert_eq!((info.from, info.tag, info.bytes, room), (0, 3, 16, [7, 8, 0]));
    world.finalize().unwrap();
}

#[test]
fn a_message_that_is_no_number_of_elements_or_too_long_is_an_error_and_the_next_one_comes() {
    let world = World::init().unwrap();
    let messages = world.messages();
    for bytes in [3usize, 5001] {
        messages.start_send(0, 0, vec![1u8; bytes]).unwrap().wait_or_leave();
        assert!(matches!(messages.receive::<u32>(0, 0), Err(Error::Misuse(_))));
        messages.start_send(0, 0, vec![1u8; bytes]).unwrap().wait_or_leave();
        assert!(matches!(messages.receive_into(&mut [0u8; 2], 0, 0), Err(Error::Misuse(_))));
    }
    messages.send(0, 0, &[9u8]).unwrap();
    assert_eq!(messages.receive::<u8>(0, 0).unwrap().elements, [9]);
    assert!(matches!(messages.send(1, 0, &[1u8]), Err(Error::Misuse(_))));
    assert!(matches!(messages.receive::<u8>(1, 0), Err(Error::Misuse(_))));
    drop(world);
}

impl super::MessageSending<'_> {
    /// Leaves a long message to whoever fetches it.
    fn wait_or_leave(self) {
        drop(self);
    }
}

#[test]
fn a_receive_that_is_cancelled_or_dropped_gets_no_message() {
    let world = World::init().unwrap();
    let messages = world.messages();
    let first = messages.start_receive::<u8>(0, None).unwrap();
    let second = messages.start_receive::<u8>(0, None).unwrap();
    let third = messages.start_receive::<u8>(0, None).unwrap();
    assert!(!third.is_done());
    drop(second);
    assert_eq!(first.cancel().unwrap(), None);
    messages.send(0, 4, &[1u8]).unwrap();
    assert!(third.is_done());
    let late = third.cancel().unwrap().unwrap();
    assert_eq!((late.tag, late.elements), (4, vec![1]));
    world.finalize().unwrap();
}

#[test]
fn long_messages_are_fetched_whoever_waits() {
    let world = World::init().unwrap();
    let messages = world.messages();
    let long: Vec<u64> = (0..50_000).collect();
    let sending = messages.start_send(0, 1, long.clone()).unwrap();
    assert!(!sending.is_done());
    let receiving = messages.start_receive::<u64>(0, 1).unwrap();
    // Whoever waits for the send fetches what the receive has got.
    sending.wait().unwrap();
    assert_eq!(receiving.wait().unwrap().elements, long);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| messages.send(0, 2, &long[..]));
        let mut room = vec![0u64; 50_000];
        messages.receive_into(&mut room, 0, 2).unwrap();
        assert_eq!(room, long);
        sender.join().unwrap().unwrap();
        let sender = scope.spawn(|| messages.send(0, 3, &long[..]));
        assert_eq!(messages.receive::<u64>(0, None).unwrap().elements, long);
        sender.join().unwrap().unwrap();
    });
    world.finalize().unwrap();
}

#[test]
fn what_nobody_receives_is_a_few_messages_and_the_rest_waits_at_the_sender() {
    let world = World::init().unwrap();
    let messages = world.messages();
    messages.set_options(MessageOptions { way: MessageWay::Mailbox, ..MessageOptions::default() }).unwrap();
    let sends: Vec<_> = (0..100u64).map(|number| messages.start_send(0, 1, [number]).unwrap()).collect();
    let last = messages.start_send(0, 2, [100u64]).unwrap();
    let waiting = sends.iter().filter(|sending| !sending.is_done()).count();
    assert_eq!(waiting, 100 - usize::from(CREDIT));
    // But a receive that wants something of the rest gets it.
    assert_eq!(messages.receive::<u64>(0, 2).unwrap().elements, [100]);
    assert!(last.is_done());
    for number in 0..100u64 {
        assert_eq!(messages.receive::<u64>(None, 1).unwrap().elements, [number]);
    }
    messages.wait_all(sends).unwrap();
    last.wait().unwrap();
    world.finalize().unwrap();
}

#[test]
fn a_receive_that_waits_gets_its_message_though_another_one_got_the_last_that_came() {
    let world = World::init().unwrap();
    let messages = world.messages();
    messages.set_options(MessageOptions { way: MessageWay::Mailbox, ..MessageOptions::default() }).unwrap();
    let sends: Vec<_> = (0..11u64).map(|number| messages.start_send(0, 0, [number]).unwrap()).collect();
    let nine = messages.start_send(0, 9, [9u64]).unwrap();
    let ten = messages.start_send(0, 10, [10u64]).unwrap();
    let first = messages.start_receive::<u64>(0, 9).unwrap();
    let second = messages.start_receive::<u64>(0, 10).unwrap();
    assert_eq!(first.wait().unwrap().elements, [9]);
    assert_eq!(second.wait().unwrap().elements, [10]);
    for number in 0..11u64 {
        assert_eq!(messages.receive::<u64>(0, 0).unwrap().elements, [number]);
    }
    messages.wait_all(sends.into_iter().chain([nine, ten])).unwrap();
    world.finalize().unwrap();
}

#[test]
fn who_asks_again_and_again_finds_a_message_that_is_behind_others() {
    let world = World::init().unwrap();
    let messages = world.messages();
    for way in [MessageWay::Mailbox, MessageWay::Lane] {
        messages.set_options(MessageOptions { way, ..MessageOptions::default() }).unwrap();
        let sends: Vec<_> = (0..100u64).map(|number| messages.start_send(0, 1, [number]).unwrap()).collect();
        let last = messages.start_send(0, 2, [100u64]).unwrap();
        let found = (0..1000).find_map(|_| messages.try_probe(0, 2).unwrap()).expect("it comes");
        assert_eq!((found.tag, found.bytes), (2, 8));
        for number in 0..101u64 {
            assert_eq!(messages.receive::<u64>(0, None).unwrap().elements, [number]);
        }
        messages.wait_all(sends.into_iter().chain([last])).unwrap();
    }
    world.finalize().unwrap();
}

#[test]
fn a_long_message_that_was_given_up_is_not_received_as_what_lies_there_later() {
    let world = World::init().unwrap();
    let messages = world.messages();
    let sending = messages.start_send(0, 1, vec![1u64; 1000]).unwrap();
    let request = sending.ticket.as_ref().unwrap().request;
    let any = Selector { context: 0, source: None, tag: None };
    assert!(messages.try_probe(0, 1).unwrap().is_some());
    let kept = world.comm().with_post(|post| post.matching.take(&any)).expect("its record is here");
    let Body::Lent(place, _) = kept.1.body else { panic!("it is short") };
    assert_eq!(world.get_vec(place.ptr::<u64>(), 1000).unwrap(), [1; 1000]);
    world.end_lending(0, request);
    // Registrations are given out in turn: one of the next lies where the message was.
    let later = (0..1 << 20).find_map(|_| {
        let region = world.register(vec![2u64; 1000]).unwrap();
        (region.ptr().address() == place.address).then_some(region)
    });
    if let Some(later) = later {
        assert_eq!(world.get_vec(later.ptr(), 1000).unwrap(), [2; 1000]);
    }
    assert!(matches!(world.get_vec(place.ptr::<u64>(), 1000), Err(Error::Bounds { .. })));
    drop(sending);
    drop(world);
}

#[test]
fn a_neighbour_that_is_stopped_while_it_writes_stops_only_its_own_message() {
    let world = World::init().unwrap();
    let messages = world.messages();
    messages.send(0, 0, &[1u8]).unwrap();
    let local = world.local();
    let ring = Ring::mailbox(local, 0).unwrap().unwrap();
    let stopped = ring.write_locked(local).unwrap();
    assert!(ring.write_briefly(local).unwrap().is_none());
    let sending = messages.start_send(0, 0, [2u8]).unwrap();
    assert!(!sending.is_done());
    drop(stopped);
    sending.wait().unwrap();
    assert_eq!(messages.receive::<u8>(0, 0).unwrap().elements, [1]);
    assert_eq!(messages.receive::<u8>(0, 0).unwrap().elements, [2]);
    world.finalize().unwrap();
}

#[test]
fn nothing_stays_booked_for_messages_that_are_gone() {
    let world = World::init().unwrap();
    let messages = world.messages();
    messages.set_options(MessageOptions { way: MessageWay::Mailbox, ..MessageOptions::default() }).unwrap();
    messages.send(0, 0, &[0u8]).unwrap();
    messages.receive::<u8>(0, 0).unwrap();
    let before = booked(&world);
    for round in 0..10 {
        let sends: Vec<_> = (0..20).map(|_| messages.start_send(0, round, vec![1u8; 500]).unwrap()).collect();
        let long = messages.start_send(0, round, vec![1u8; 5000]).unwrap();
        assert!(booked(&world) > before + 20 * 500);
        for _ in 0..21 {
            messages.receive::<u8>(0, round).unwrap();
        }
        messages.wait_all(sends).unwrap();
        long.wait().unwrap();
    }
    assert_eq!(booked(&world), before);
    world.finalize().unwrap();
}

#[test]
fn one_of_several_requests_is_waited_for() {
    let world = World::init().unwrap();
    let messages = world.messages();
    let receives: Vec<_> = (0..4).map(|tag| messages.start_receive::<u8>(None, tag).unwrap()).collect();
    messages.send(0, 2, &[2u8]).unwrap();
    assert_eq!(messages.wait_any(&receives).unwrap(), 2);
    for tag in [0, 1, 3] {
        messages.send(0, tag, &[tag as u8]).unwrap();
    }
    let all = messages.wait_all(receives).unwrap();
    assert_eq!(all.iter().map(|message| message.elements[0]).collect::<Vec<_>>(), [0, 1, 2, 3]);
    world.finalize().unwrap();
}

#[test]
fn a_mailbox_that_holds_nonsense_fails_whoever_waits_and_nobody_hangs() {
    let world = World::init().unwrap();
    let messages = world.messages();
    messages.send(0, 0, &[1u8]).unwrap();
    let local = world.local();
    let ring = Ring::mailbox(local, 0).unwrap().unwrap();
    let mut writing = ring.write_locked(local).unwrap();
    let stranger = Record { from: 9, hungry: false, note: Note::Short { context: 0, tag: 0, bytes: 0 } };
    writing.push(&stranger, &[]).unwrap();
    writing.publish().unwrap();
    assert_eq!(messages.receive::<u8>(0, 0).unwrap().elements, [1], "it came before");
    assert!(matches!(messages.receive::<u8>(0, 0), Err(Error::Refused(_))));
    assert!(matches!(messages.probe(0, 0), Err(Error::Refused(_))));
    drop(world);
}

#[test]
fn notes_about_what_never_was_change_nothing() {
    let world = World::init().unwrap();
    let messages = world.messages();
    messages.send(0, 0, &[1u8]).unwrap();
    let nowhere = world.starter_address(0).unwrap();
    let notes = [
        Note::Received { count: u64::MAX },
        Note::Fetched { number: 77 },
        Note::Begin { lane: nowhere },
        Note::Leave { lane: nowhere },
        Note::Room { lane: nowhere, head: 1 << 50 },
        Note::End,
    ];
    let local = world.local();
    let ring = Ring::mailbox(local, 0).unwrap().unwrap();
    for note in notes {
        let mut writing = ring.write_locked(local).unwrap();
        writing.push(&Record { from: 0, hungry: true, note }, &[]).unwrap();
        writing.publish().unwrap();
    }
    for number in 0..100u64 {
        messages.send(0, 1, &[number]).unwrap();
        assert_eq!(messages.receive::<u64>(0, 1).unwrap().elements, [number]);
    }
    assert_eq!(messages.receive::<u8>(0, 0).unwrap().elements, [1]);
    let any = Selector { context: 0, source: None, tag: None };
    assert_eq!(world.comm().with_post(|post| post.probe(&any)), None);
    world.finalize().unwrap();
}

#[test]
fn a_receive_that_would_have_too_much_kept_for_it_fails_and_what_was_kept_can_be_received() {
    let world = World::init().unwrap();
    let messages = world.messages();
    for way in [MessageWay::Mailbox, MessageWay::Lane] {
        let options = MessageOptions { way, kept_bytes: 20_000, ..MessageOptions::default() };
        messages.set_options(options).unwrap();
        let sends: Vec<_> = (0..100u64).map(|at| messages.start_send(0, 1, vec![at; 100]).unwrap()).collect();
        let refused = messages.receive::<u64>(0, 2);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
        assert!(matches!(messages.probe(0, 2), Err(Error::OutOfMemory { .. })));
        for at in 0..100u64 {
            assert_eq!(messages.receive::<u64>(0, None).unwrap().elements, vec![at; 100]);
        }
        messages.wait_all(sends).unwrap();
    }
    drop(world);
}
