//! Channels: messages of all lengths in order, several channels between a pair, ends that are made and freed in any order, and random
//! programs over all pairs against a model.

use crate::stage::Stage;
use kumiki::comm::{Receiver, Sender, Slots};
use kumiki::Error;
use std::collections::VecDeque;
use std::time::Duration;

fn message(from: u32, number: u64, length: usize) -> Vec<u64> {
    (0..length as u64).map(|at| u64::from(from) << 48 | number << 24 | at).collect()
}

/// Lengths in words: of none, of cells, of several, of all slots and more, and of what is fetched.
const LENGTHS: [usize; 12] = [0, 1, 2, 7, 8, 9, 100, 128, 1000, 3000, 5000, 20_000];

/// Every rank sends to the next one, and receives from the one before it.
pub(crate) fn round(stage: &Stage) {
    let world = &stage.world;
    let (me, ranks) = (stage.me(), stage.ranks());
    let (next, last) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    // Ends in either order: those of one pair meet all the same.
    let (right, left);
    if me % 2 == 0 {
        right = world.sender::<u64>(next).expect("a sender");
        left = world.receiver::<u64>(last, Slots::new(8, 64)).expect("a receiver");
    } else {
        left = world.receiver::<u64>(last, Slots::new(8, 64)).expect("a receiver");
        right = world.sender::<u64>(next).expect("a sender");
    }
    for (number, length) in (0..).zip(LENGTHS) {
        // More than there is room for: who waits to send must receive, so sends are begun first.
        let sending = right.start_send(message(me, number, length)).expect("start_send");
        assert_eq!(left.receive().expect("receive"), message(last, number, length), "{length} words");
        sending.wait().expect("wait");
    }
    // Several under way, waited for out of order.
    let sends: Vec<_> =
        (0..6).map(|number| right.start_send(message(me, number, 40)).expect("start_send")).collect();
    let receives: Vec<_> = (0..6).map(|_| left.start_receive().expect("start_receive")).collect();
    for (number, receiving) in (0..6).zip(receives).collect::<Vec<_>>().into_iter().rev() {
        assert_eq!(receiving.wait().expect("wait"), message(last, number, 40));
    }
    sends.into_iter().for_each(|sending| sending.wait().expect("wait"));
    // What is not taken is dropped with the channel.
    right.send(&message(me, 9, 3)).expect("send");
    let _ = right.start_send(message(me, 9, 5000)).expect("start_send");
    let freeing = right.start_free().expect("start_free");
    left.free().expect("free");
    freeing.wait().expect("freed");
    stage.sync();
    let late = world.receiver::<u64>(last, Slots::default()).expect("a receiver");
    let none = late.receive_for(Duration::from_millis(20));
    assert!(matches!(none, Err(Error::Timeout { .. })), "{none:?}");
    stage.sync();
}

/// Messages that are taken into memory that is there, of all lengths; ranks in pairs.
pub(crate) fn into_memory(stage: &Stage) {
    let world = &stage.world;
    let (me, peer) = (stage.me(), stage.me() ^ 1);
    let long = message(peer, 1, 8192);
    let mut room = vec![0u64; 8192];
    // The receiver comes to know its sender by nothing but the messages, and is in a barrier when the sender waits.
    if me % 2 == 0 {
        let left = world.receiver::<u64>(peer, Slots::new(4, 64)).expect("a receiver");
        stage.sync();
        for number in 0..40 {
            let length = [8192, 3, 20][number as usize % 3];
            let got = left.receive_into(&mut room).expect("receive_into");
            assert_eq!(room[..got], message(peer, number, length), "message {number}");
        }
        stage.sync();
        let short = left.receive_into(&mut room[..2]);
        assert!(matches!(short, Err(Error::Misuse(_))), "{short:?}");
        assert_eq!(left.receive_into(&mut room), Ok(1));
        left.free().expect("free");
    } else {
        let right = world.sender::<u64>(peer).expect("a sender");
        stage.sync();
        for number in 0..40 {
            right.send(&message(me, number, [8192, 3, 20][number as usize % 3])).expect("send");
        }
        stage.sync();
        right.send(&[1, 2, 3]).expect("send");
        right.send(&[1]).expect("send");
        right.free().expect("free");
    }
    // Whoever waits for one channel fetches what another one has asked for.
    if me % 2 == 0 {
        let ends = [0, 1].map(|_| world.receiver::<u64>(peer, Slots::new(4, 64)).expect("a receiver"));
        let first = ends[0].start_receive().expect("start_receive");
        assert_eq!(ends[1].receive_into(&mut room), Ok(1));
        assert_eq!(first.wait().expect("wait"), long);
        let first = ends[0].start_receive().expect("start_receive");
        assert_eq!(ends[1].receive_for(Duration::from_secs(60)).expect("receive_for"), [9]);
        assert_eq!(first.wait().expect("wait"), long);
        ends.into_iter().for_each(|end| end.free().expect("free"));
    } else {
        let ends = [0, 1].map(|_| world.sender::<u64>(peer).expect("a sender"));
        for _ in 0..2 {
            ends[0].send(&message(me, 1, 8192)).expect("send");
            ends[1].send(&[9]).expect("send");
        }
        ends.into_iter().for_each(|end| end.free().expect("free"));
    }
    // Two that send to each other do not wait for each other where there is room.
    let right = world.sender::<u64>(peer).expect("a sender");
    let left = world.receiver::<u64>(peer, Slots::new(48, 2048)).expect("a receiver");
    right.send(&[7]).expect("send");
    assert_eq!(left.receive_into(&mut room), Ok(1));
    stage.sync();
    right.send(&message(me, 1, 8192)).expect("send");
    assert_eq!(left.receive_into(&mut room), Ok(8192));
    assert_eq!(room, long);
    let freeing = right.start_free().expect("start_free");
    left.free().expect("free");
    freeing.wait().expect("freed");
    stage.sync();
}

/// Ends that meet in the order in which they were made, and one rank with itself.
pub(crate) fn several(stage: &Stage) {
    let world = &stage.world;
    let (me, ranks) = (stage.me(), stage.ranks());
    let peers = || (0..ranks).flat_map(|peer| [peer, peer, peer]);
    let senders: Vec<_> = peers().map(|peer| world.sender::<u32>(peer).expect("a sender")).collect();
    stage.sync();
    let receivers: Vec<_> =
        peers().map(|peer| world.receiver::<u32>(peer, Slots::new(2, 16)).expect("a receiver")).collect();
    let sends: Vec<_> = (0u32..)
        .zip(&senders)
        .map(|(index, sender)| sender.start_send(vec![me, index % 3, 7, 8, 9]).expect("start_send"))
        .collect();
    for (index, receiver) in receivers.iter().enumerate().rev() {
        let index = index as u32;
        assert_eq!(receiver.receive().expect("receive"), [index / 3, index % 3, 7, 8, 9]);
    }
    sends.into_iter().for_each(|sending| sending.wait().expect("wait"));
    let frees: Vec<_> = senders.into_iter().map(|sender| sender.start_free().expect("free")).collect();
    receivers.into_iter().for_each(|receiver| receiver.free().expect("free"));
    frees.into_iter().for_each(|free| free.wait().expect("free"));
    let used = world.heap_use(me).expect("heap_use");
    stage.sync();
    // What channels take, others can have afterwards: but for the door, which stays.
    assert!(used.used_bytes < 16 << 10, "{used:?}");
    let wrong = world.sender::<u8>(ranks).map(drop);
    assert!(matches!(wrong, Err(Error::Misuse(_))), "{wrong:?}");
    let wrong = world.receiver::<u8>(0, Slots::new(0, 64)).map(drop);
    assert!(matches!(wrong, Err(Error::Misuse(_))), "{wrong:?}");
}

/// A sender that is faster than its receiver has no more under way than there is room for.
pub(crate) fn slow_receiver(stage: &Stage) {
    let world = &stage.world;
    let (me, ranks) = (stage.me(), stage.ranks());
    let half = ranks / 2;
    const MESSAGES: u64 = 300;
    if me < half {
        let sender: Sender<'_, u64> = world.sender(me + half).expect("a sender");
        let before = world.ledger().private_bytes();
        for number in 0..MESSAGES {
            sender.send(&message(me, number, 30)).expect("send");
            let now = world.ledger().private_bytes();
            assert!(now < before + (256 << 10), "{now} bytes, {before} before");
        }
        sender.free().expect("free");
    } else if me < 2 * half {
        let receiver: Receiver<'_, u64> = world.receiver(me - half, Slots::new(4, 128)).expect("a receiver");
        for number in 0..MESSAGES {
            if number % 100 == 0 && stage.way.nodes != crate::way::SIMULATED {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(receiver.receive().expect("receive"), message(me - half, number, 30));
        }
        receiver.free().expect("free");
    }
    stage.sync();
}

/// Random programs: what every rank sends to whom is known to all, and each receives what is due, in an order of its own.
pub(crate) fn random(stage: &Stage) {
    let world = &stage.world;
    let (me, ranks) = (stage.me(), stage.ranks());
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    };
    let senders: Vec<_> = (0..ranks).map(|to| world.sender::<u64>(to).expect("a sender")).collect();
    let slots = Slots::new(4, 48);
    let receivers: Vec<_> =
        (0..ranks).map(|from| world.receiver::<u64>(from, slots).expect("a receiver")).collect();
    for _ in 0..6 {
        let program: Vec<(u32, u32, u64, usize)> = (0..40)
            .map(|number| {
                let length = if next(10) == 0 { 4000 + next(2000) } else { next(60) };
                (next(ranks.into()) as u32, next(ranks.into()) as u32, number, length as usize)
            })
            .collect();
        let mut due: Vec<VecDeque<(u64, usize)>> = vec![VecDeque::new(); ranks as usize];
        let mut sends = Vec::new();
        for (from, to, number, length) in program {
            if from == me {
                let sending = senders[to as usize].start_send(message(me, number, length));
                sends.push(sending.expect("start_send"));
            }
            if to == me {
                due[from as usize].push_back((number, length));
            }
            // Now and then something is taken, whatever it is.
            let from = next(ranks.into()) as usize;
            if next(3) == 0 && receivers[from].has_mail().expect("has_mail") {
                if let Some((number, length)) = due[from].pop_front() {
                    let received = receivers[from].receive().expect("receive");
                    assert_eq!(received, message(from as u32, number, length));
                }
            }
        }
        for (from, left) in (0..ranks).zip(due) {
            for (number, length) in left {
                let received = receivers[from as usize].receive().expect("receive");
                assert_eq!(received, message(from, number, length), "from {from}");
            }
        }
        sends.into_iter().for_each(|sending| sending.wait().expect("wait"));
    }
    stage.sync();
}
