//! Letters between two ranks.

use super::*;
use crate::contract::{LETTER_BYTES, LONG_LETTER_BYTES, MOST_LETTERS};

/// A letter of so many bytes, with a number.
fn send(tcp: &mut Tcp, to: u32, op: u64, bytes: usize, sink: &mut Heard) -> bool {
    let header = Header { op, ..note().header };
    tcp.letter(Rank(to), header, &vec![7; bytes], sink).unwrap()
}

#[test]
fn letters_go_while_something_comes_and_keep_their_order_among_messages() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let numbered = |op| Message { header: Header { op, ..note().header }, ..note() };
    assert!(send(&mut caller, 1, 1, 0, &mut heard));
    assert!(send(&mut caller, 1, 2, LETTER_BYTES, &mut heard));
    assert!(!send(&mut caller, 1, 9, 8, &mut heard), "one of many goes with the others");
    caller.send(Rank(1), numbered(3), &mut heard).unwrap();
    while reached.frames.len() < 3 {
        callee.poll(&mut reached).unwrap();
    }
    // What is kept goes first.
    let index = callee.links.iter().flatten().next().unwrap().index;
    let kept = Message { path: Path::Answer(index), leeway: Leeway::Short, ..numbered(1) };
    callee.settle_outbox(&mut Outbox { messages: vec![(Rank(0), kept)] }, &mut reached);
    assert!(callee.keeps().is_some());
    assert!(send(&mut callee, 0, 2, 8, &mut reached));
    assert!(callee.keeps().is_none());
    while heard.frames.len() < 2 {
        caller.poll(&mut heard).unwrap();
    }
    assert!(heard.frames.iter().map(|header| header.op).eq(1..=2));
    assert!(send(&mut caller, 1, 4, 8, &mut heard), "something has come since");
    while reached.frames.len() < 4 {
        callee.poll(&mut reached).unwrap();
    }
    assert!(reached.frames.iter().map(|header| (header.op, header.payload_bytes)).eq([
        (1, 0),
        (2, LETTER_BYTES as u32),
        (3, 0),
        (4, 8)
    ]));
}

#[test]
fn whoever_hears_from_one_writes_to_another() {
    let port = listener();
    let arena = world(3, port.local_addr().unwrap());
    let (mut middle, mut heard) = (transport(&arena, 0, 8, 8), Heard::default());
    let mut others = [1, 2].map(|rank| (transport(&arena, rank, 8, 8), Heard::default()));
    others.iter_mut().for_each(|(other, reached)| other.send(Rank(0), note(), reached).unwrap());
    while heard.frames.len() < 2 {
        hand_over(&port, &mut middle);
        middle.poll(&mut heard).unwrap();
        for (other, reached) in &mut others {
            other.poll(reached).unwrap();
        }
    }
    let mut written = 0;
    for round in 1..=5 {
        while send(&mut middle, 1, written, 8, &mut heard) {
            written += 1;
        }
        assert_eq!(written, round * u64::from(MOST_LETTERS));
        let (other, reached) = &mut others[1];
        other.send(Rank(0), note(), reached).unwrap();
        while heard.frames.len() as u64 <= round + 1 {
            other.poll(reached).unwrap();
            middle.poll(&mut heard).unwrap();
        }
    }
}

#[test]
fn long_letters_go_one_after_the_other_until_the_socket_is_full_and_come_whole() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let booked = |tcp: &Tcp| tcp.links.iter().flatten().map(|link| link.booked_bytes()).sum::<u64>();
    let (mut sent, before) = (0, booked(&caller));
    while sent < 1000 && send(&mut caller, 1, sent + 1, LONG_LETTER_BYTES, &mut heard) {
        sent += 1;
    }
    assert!(sent > 2 && sent < 1000, "{sent}");
    assert!(booked(&caller) > before, "what the socket did not take is kept, and booked");
    while (reached.frames.len() as u64) < sent {
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    assert!(reached.frames.iter().map(|header| header.op).eq(1..=sent));
    assert!(reached.frames.iter().all(|header| header.payload_bytes as usize == LONG_LETTER_BYTES));
    assert!(send(&mut caller, 1, 9, LONG_LETTER_BYTES, &mut heard), "it has gone since");
    assert!(!send(&mut caller, 1, 9, LONG_LETTER_BYTES + 1, &mut heard));
}

#[test]
fn what_the_socket_did_not_take_of_a_long_letter_was_copied_beyond_the_budget() {
    let port = listener();
    let arena = world(2, port.local_addr().unwrap());
    let [(mut caller, purse), (mut callee, _)] = poor_pair(&arena);
    let (mut heard, mut reached) = (Heard::default(), Heard::default());
    caller.send(Rank(1), note(), &mut heard).unwrap();
    while reached.frames.is_empty() {
        hand_over(&port, &mut callee);
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    let booked = || purse.booked.load(Ordering::Relaxed);
    let before = booked();
    purse.budget.store(before + (100 << 10), Ordering::Relaxed);
    assert!(!send(&mut caller, 1, 9, LONG_LETTER_BYTES, &mut heard), "there may be no memory for its rest");
    assert!(!send(&mut caller, 1, 9, LETTER_BYTES + 1, &mut heard));
    assert!(send(&mut caller, 1, 1, LETTER_BYTES, &mut heard), "a short one needs none");
    assert_eq!(booked(), before);
    // With room for one, as many go as the socket takes, and a part of another.
    let budget = before + (150 << 10);
    purse.budget.store(budget, Ordering::Relaxed);
    let mut sent = 1;
    while send(&mut caller, 1, sent + 1, LONG_LETTER_BYTES, &mut heard) {
        sent += 1;
        assert!(booked() <= budget && sent < 1000, "{sent}");
        assert_booked(&caller, &purse);
    }
    while (reached.frames.len() as u64) <= sent {
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    assert!(
        reached.frames.iter().skip(1).map(|header| header.op).eq(1..=sent),
        "nothing came of those refused"
    );
    assert_booked(&caller, &purse);
    assert_eq!((heard.lost.len(), reached.lost.len()), (0, 0));
}

#[test]
fn a_letter_opens_no_connection_and_goes_on_none_that_has_parted() {
    let arena = world(2, "127.0.0.1:9".parse().unwrap());
    let (mut lone, mut heard) = (transport(&arena, 0, 8, 8), Heard::default());
    assert!(!send(&mut lone, 1, 1, 8, &mut heard));
    assert_eq!((lone.open, heard.lost.len()), (0, 0));
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    assert!(send(&mut caller, 1, 1, 8, &mut heard));
    caller.close(&mut heard);
    assert!(!send(&mut caller, 1, 2, 8, &mut heard), "it has said goodbye");
    while callee.open > 0 {
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
        callee.close(&mut reached);
    }
    assert!(reached.frames.iter().map(|header| header.op).eq([1]), "what was sent before has come");
    assert!(heard.lost.is_empty() && reached.lost.is_empty());
}
