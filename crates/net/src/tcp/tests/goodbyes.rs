//! Goodbyes that are not answered.

use super::*;
use crate::contract::LONG_LETTER_BYTES;

/// Says goodbye on the one connection there is.
fn part(tcp: &mut Tcp, heard: &mut Heard) {
    let mut out = Outbox::default();
    assert!(tcp.evict(|_| true, heard, &mut out));
    assert!(out.messages.is_empty());
}

/// Polls a rank for so long.
fn poll_for(tcp: &mut Tcp, heard: &mut Heard, milliseconds: u64) {
    let until_ms = time::now_ms() + milliseconds;
    while time::now_ms() < until_ms {
        tcp.poll(heard).unwrap();
        let _ = tcp.sleeper.sleep(1);
    }
}

#[test]
fn what_was_asked_behind_a_goodbye_that_vanished_waited_for_ever() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    caller.inject(Rank(1), Fault::Drop);
    part(&mut caller, &mut heard);
    caller.send(Rank(1), Message { expects_answer: true, ..note() }, &mut heard).unwrap();
    assert_eq!(caller.waiting.len(), 1, "nothing may be asked behind a goodbye");
    let until_ms = time::now_ms() + 100 * PATIENCE_MS;
    while reached.lost.is_empty() && time::now_ms() < until_ms {
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!(reached.lost.len(), 1, "whoever missed it learns that something is missing");
    while !caller.waiting.is_empty() {
        caller.poll(&mut heard).unwrap();
    }
    assert_eq!(heard.lost, Vec::new(), "whoever said it had nothing under way, and calls again");
}

#[test]
fn a_goodbye_that_is_answered_late_breaks_nothing() {
    for both in [false, true] {
        let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
        if both {
            part(&mut callee, &mut reached);
        } else {
            // It must wait for an answer before it may say its own.
            callee.send(Rank(0), Message { expects_answer: true, ..note() }, &mut reached).unwrap();
        }
        part(&mut caller, &mut heard);
        if both {
            poll_for(&mut callee, &mut reached, 0);
        }
        // It is stopped, for longer than the peer timeout, and is asked some times meanwhile.
        let before = caller.links.iter().flatten().next().unwrap().wake_up_at();
        poll_for(&mut caller, &mut heard, if both { 0 } else { 3 * PATIENCE_MS });
        let after = caller.links.iter().flatten().next().and_then(|link| link.wake_up_at());
        assert!(both || after > before, "it was not asked");
        poll_for(&mut callee, &mut reached, 10);
        let question = callee.links.iter().flatten().next().map(|link| link.index);
        if let Some(link) = callee.links.iter_mut().flatten().find(|_| !both) {
            assert_eq!((question, link.unanswered), (Some(0), 1), "it still waits for its answer");
            link.unanswered = 0;
        }
        let until_ms = time::now_ms() + 100 * PATIENCE_MS;
        while caller.open + callee.open > 0 && time::now_ms() < until_ms {
            caller.poll(&mut heard).unwrap();
            (0..callee.links.len() as u32)
                .for_each(|index| callee.answer_goodbye(index, &mut reached, &mut Outbox::default()));
            callee.poll(&mut reached).unwrap();
        }
        assert_eq!((caller.open, callee.open), (0, 0));
        assert!(heard.lost.is_empty() && reached.lost.is_empty(), "{:?} {:?}", heard.lost, reached.lost);
    }
}

#[test]
fn what_had_come_of_a_letter_was_kept_for_ever_where_its_sender_died_behind_a_goodbye() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    part(&mut callee, &mut reached);
    // It has not heard of that. The last letter is one of which the socket takes a part.
    let letter = vec![7; LONG_LETTER_BYTES];
    let mut sent = 0;
    while caller.letter(Rank(1), note().header, &letter, &mut heard).unwrap() {
        sent += 1;
    }
    let has_begun =
        |callee: &Tcp| callee.links.iter().flatten().next().is_some_and(|link| link.is_within_message());
    while reached.frames.len() + 1 < sent || !has_begun(&callee) {
        callee.poll(&mut reached).unwrap();
    }
    drop(caller);
    while callee.open > 0 {
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!(
        (reached.frames.len() + 1, reached.lost.len()),
        (sent, 1),
        "whoever keeps the part must hear of it"
    );
}

#[test]
fn what_was_sent_before_a_goodbye_that_answers_comes_though_its_reader_is_late_and_knocks() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let letter = vec![7; LONG_LETTER_BYTES];
    let sent =
        (0..3).filter(|_| callee.letter(Rank(0), note().header, &letter, &mut reached).unwrap()).count();
    part(&mut caller, &mut heard);
    while !callee.links.iter().flatten().all(|link| link.is_finished()) {
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!(callee.open, 1, "it stays until the other side has read all, and closes");
    // Another connection does not overtake it.
    callee.send(Rank(0), note(), &mut reached).unwrap();
    assert_eq!((callee.open, callee.waiting.len()), (1, 1));
    // The reader is late: its first look finds that nobody has answered for long.
    std::thread::sleep(std::time::Duration::from_millis(PATIENCE_MS));
    caller.tend(&mut heard, &mut Outbox::default());
    while caller.open > 0 {
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!((heard.frames.len(), heard.lost.len()), (sent, 0));
    while callee.links.iter().flatten().any(|link| link.is_finished()) {
        callee.poll(&mut reached).unwrap();
    }
    assert!(reached.lost.is_empty(), "{:?}", reached.lost);
}

#[test]
fn goodbyes_that_cross_lose_nothing_of_what_was_sent_before_them() {
    let [(mut caller, mut heard), (mut callee, mut reached)] = connected();
    let letter = vec![7; LONG_LETTER_BYTES];
    let write = |tcp: &mut Tcp, to, sink: &mut Heard| {
        (0..2).filter(|_| tcp.letter(Rank(to), note().header, &letter, sink).unwrap()).count()
    };
    let sent = [write(&mut caller, 1, &mut heard), write(&mut callee, 0, &mut reached)];
    part(&mut caller, &mut heard);
    part(&mut callee, &mut reached);
    while caller.open + callee.open > 0 {
        caller.poll(&mut heard).unwrap();
        callee.poll(&mut reached).unwrap();
    }
    assert_eq!([reached.frames.len(), heard.frames.len()], sent);
    assert!(heard.lost.is_empty() && reached.lost.is_empty(), "{:?} {:?}", heard.lost, reached.lost);
}
