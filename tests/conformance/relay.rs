//! Buckets that go along a line of ranks: in order, with a bounded number of them under way.

use crate::stage::Stage;
use crate::way::SIMULATED;
use kumiki::comm::{Relay, RelayOptions};
use kumiki::{Error, Members, Purpose, Rank};
use std::time::Duration;

/// The elements of a bucket when it leaves the first rank; each rank adds one.
fn bucket(number: u64, length: usize) -> Vec<u64> {
    (0..length as u64).map(|index| number << 20 | index << 8).collect()
}

fn length(number: u64, segment: usize) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % (segment + 1)
}

/// Sends, passes on, or takes so many buckets.
fn carry(relay: &mut Relay<'_, u64>, buckets: u64, segment: usize, mut pause: impl FnMut(u64)) {
    for number in 0..buckets {
        let mut right = bucket(number, length(number, segment).max(1));
        pause(number);
        if relay.is_first() {
            relay.send(&right).expect("send");
            continue;
        }
        let position = u64::from(relay.position());
        right.iter_mut().for_each(|value| *value += position - 1);
        let came = relay.receive().expect("receive").expect("there is more");
        assert_eq!(came, right, "bucket {number}");
        came.iter_mut().for_each(|value| *value += 1);
        if !relay.is_last() {
            relay.pass_on().expect("pass_on");
        }
    }
}

/// Along all ranks, backwards, and along some of them.
pub(crate) fn relay(stage: &Stage) {
    let (world, ranks) = (&stage.world, stage.ranks());
    let backwards: Vec<Rank> = (0..ranks).rev().collect();
    let lines: [Members; 3] = [(0..ranks).into(), backwards.into(), Members::from([2, 0, 3])];
    for (line, (segment, depth)) in lines.into_iter().zip([(100, 3), (1, 1), (1000, 2)]) {
        let options = RelayOptions::new(segment, depth);
        let relay = world.relay_over::<u64>(line.clone(), options).expect("a relay");
        let Some(mut relay) = relay else { continue };
        assert_eq!((relay.ranks(), line.position(stage.me())), (line.len(), Some(relay.position())));
        assert_eq!(relay.next(), line.get(relay.position() + 1));
        carry(&mut relay, 60, segment, |_| {});
        if !relay.is_first() {
            assert!(relay.receive().expect("the end").is_none());
        }
        relay.close().expect("close");
    }
    stage.sync();
}

/// Long messages are cut, and put together.
pub(crate) fn long_relay(stage: &Stage) {
    let mut relay = stage.world.relay::<f32>(RelayOptions::new(1000, 2)).expect("a relay");
    let mut message = vec![0.0; 25_500];
    for round in 0..4 {
        match relay.is_first() {
            true => message
                .iter_mut()
                .zip(0u16..)
                .for_each(|(value, index)| *value = f32::from(index) + round as f32),
            false => relay.receive_into(&mut message).expect("receive_into"),
        }
        assert!(message.iter().zip(0u16..).all(|(value, index)| *value == f32::from(index) + round as f32));
        if !relay.is_last() {
            relay.send(&message).expect("send");
        }
    }
    // Whoever is done may leave the world while others still take what he sent.
    relay.close().expect("close");
}

/// A rank that is slow holds up those before it, whose memory does not grow.
pub(crate) fn slow_relay(stage: &Stage) {
    let world = &stage.world;
    let mut relay = world.relay::<u64>(RelayOptions::new(50, 2)).expect("a relay");
    let is_slow = relay.is_last() && stage.way.nodes != SIMULATED;
    let taken = || world.ledger().private_bytes() + world.ledger().of(Purpose::Heap);
    let before = taken();
    carry(&mut relay, 400, 50, |number| {
        if is_slow && number % 100 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Connections to other nodes are made meanwhile.
        let now = taken();
        assert!(now < before + (256 << 10), "{before} bytes have become {now}");
    });
    relay.close().expect("close");
    stage.sync();
}

/// Whoever leaves without a word is named to all, wherever he was.
pub(crate) fn broken_relay(stage: &Stage) {
    for leaver in 0..stage.ranks() {
        let mut relay = stage.world.relay::<u64>(RelayOptions::new(4, 2)).expect("a relay");
        if stage.me() == leaver {
            drop(relay);
            stage.sync();
            continue;
        }
        let lost = loop {
            let done = match relay.is_first() {
                true => relay.send(&[1; 4]),
                false => relay.receive().map(drop).and_then(|()| match relay.is_last() {
                    true => Ok(()),
                    false => relay.pass_on(),
                }),
            };
            if let Err(error) = done {
                break error;
            }
        };
        assert!(matches!(lost, Error::PeerLost { rank, .. } if rank == leaver), "{leaver} has left: {lost}");
        stage.sync();
    }
}
