//! Messages between any two ranks: tags, wildcards, probes, cancels, lanes that come and go, and random programs against a model.

use crate::stage::Stage;
use crate::way::SIMULATED;
use kumiki::comm::{MessageOptions, MessageWay, Messages};
use kumiki::{Error, Purpose};
use std::collections::VecDeque;
use std::time::Duration;

/// Lengths in words: of none, of short ones, of what is fetched.
const LENGTHS: [usize; 10] = [0, 1, 2, 9, 127, 128, 129, 600, 1000, 20_000];

fn message(from: u32, number: u64, length: usize) -> Vec<u64> {
    (0..length as u64).map(|at| u64::from(from) << 48 | number << 24 | at).collect()
}

/// Every rank sends to the next one, in all ways to send and to receive.
pub(crate) fn round(stage: &Stage) {
    let (me, ranks) = (stage.me(), stage.ranks());
    let (next, last) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let messages = stage.world.messages();
    for (number, length) in (0..).zip(LENGTHS) {
        let sent = message(me, number, length);
        let sending = messages.start_send(next, number, sent.clone()).expect("start_send");
        let came = messages.receive::<u64>(last, number).expect("receive");
        assert_eq!((came.from, came.tag), (last, number));
        assert_eq!(came.elements, message(last, number, length), "{length} words");
        sending.wait().expect("wait");
        // Both wait: whoever sends a long message is waited for by the one before it.
        let receiving = messages.start_receive::<u64>(None, 100 + number).expect("start_receive");
        messages.send(next, 100 + number, &sent).expect("send");
        assert_eq!(receiving.wait().expect("wait").elements, message(last, number, length));
        let sending = messages.start_send(next, 7, sent).expect("start_send");
        let info = messages.probe(None, None).expect("probe");
        assert_eq!((info.from, info.tag, info.bytes), (last, 7, 8 * length));
        let mut room = vec![0u64; length + 1];
        assert_eq!(messages.receive_into(&mut room, last, 7).expect("receive_into"), info);
        assert_eq!(room[..length], message(last, number, length));
        sending.wait().expect("wait");
    }
    several(stage, messages, next, last);
    stage.sync();
    assert_eq!(messages.try_probe(None, None).expect("try_probe"), None);
    stage.sync();
}

/// Every rank sends to the next one, and waits until that is done, before it receives; and some receive first what was sent last. Nothing is left of it.
pub(crate) fn sent_first(stage: &Stage) {
    let (me, ranks) = (stage.me(), stage.ranks());
    let (next, last) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let messages = stage.world.messages();
    for (number, length) in [129, 1000, 20_000, 60_000].into_iter().enumerate() {
        let of = |rank: u32, turn: u64| message(rank, 10 * number as u64 + turn, length);
        for turn in 0..3 {
            messages.send(next, turn % 2, &of(me, turn)).expect("send");
        }
        for turn in [1, 0, 2] {
            let came = messages.receive::<u64>(last, turn % 2).expect("receive");
            assert_eq!(came.elements, of(last, turn), "{length} words, turn {turn}");
        }
        // Whoever waits for the second message lets the first be sent.
        let order = |rank: u32| if rank.is_multiple_of(2) { [3, 4] } else { [4, 3] };
        for turn in order(me) {
            messages.send(next, turn, &of(me, turn)).expect("send");
        }
        // The same of whoever waits for any of several.
        let sends: Vec<_> =
            (0..2).map(|turn| messages.start_send(next, 5, of(me, turn)).expect("start_send")).collect();
        messages.wait_any(&sends).expect("wait_any");
        messages.wait_all(sends).expect("wait_all");
        for turn in 0..2 {
            assert_eq!(messages.receive::<u64>(last, 5).expect("receive").elements, of(last, turn));
        }
        for turn in [4, 3] {
            let came = messages.receive::<u64>(last, turn).expect("receive");
            assert_eq!(came.elements, of(last, turn), "{length} words, turn {turn}");
        }
    }
    stage.sync();
    assert_eq!(messages.try_probe(None, None).expect("try_probe"), None);
    stage.sync();
}

/// Several under way, received out of order; a receive that is cancelled; another context.
fn several(stage: &Stage, messages: Messages<'_>, next: u32, last: u32) {
    let me = stage.me();
    let cancelled = messages.start_receive::<u64>(last, 55).expect("start_receive");
    let sends: Vec<_> = (0..30u64)
        .map(|number| messages.start_send(next, number % 3, message(me, number, 40)).expect("start_send"))
        .collect();
    messages.context(3).send(next, 0, &[1u8]).expect("send");
    for tag in [2, 0, 1] {
        let receives: Vec<_> =
            (0..10).map(|_| messages.start_receive::<u64>(last, tag).expect("start_receive")).collect();
        let first = messages.wait_any(&receives).expect("wait_any");
        assert!(receives[first].is_done());
        let all = messages.wait_all(receives).expect("wait_all");
        for (number, came) in (tag..).step_by(3).zip(all) {
            assert_eq!(came.elements, message(last, number, 40));
        }
    }
    messages.wait_all(sends).expect("wait_all");
    assert_eq!(messages.context(3).receive::<u8>(None, None).expect("receive").elements, [1]);
    assert!(cancelled.cancel().expect("cancel").is_none());
    let wrong = messages.send(stage.ranks(), 0, &[1u8]);
    assert!(matches!(wrong, Err(Error::Misuse(_))), "{wrong:?}");
}

/// Messages out of borrowed memory, and into such: all ranks send to all others, in all lengths at once, and receive in another order.
pub(crate) fn scoped(stage: &Stage) {
    let (me, ranks) = (stage.me(), stage.ranks());
    let messages = stage.world.messages();
    for turn in 0..3u64 {
        let lengths = || LENGTHS.into_iter().enumerate();
        let of =
            |from: u32, to: u32, number: usize| u64::from(to) * 100 + u64::from(from) + 1000 * number as u64;
        let sent: Vec<Vec<Vec<u64>>> = (0..ranks)
            .map(|to| {
                lengths().map(|(number, length)| message(me, turn + of(me, to, number), length)).collect()
            })
            .collect();
        let mut came: Vec<Vec<Vec<u64>>> =
            (0..ranks).map(|_| LENGTHS.into_iter().map(|length| vec![0; length]).collect()).collect();
        let receives = came.iter_mut().enumerate().rev();
        messages
            .scope(|scope| {
                for (to, all) in (0..).zip(&sent) {
                    for (number, one) in (0..).zip(all) {
                        scope.send(to, number, one)?;
                    }
                }
                for (from, all) in receives {
                    for (number, one) in all.iter_mut().enumerate().rev() {
                        scope.receive_into(one, from as u32, number as u64)?;
                    }
                }
                Ok(())
            })
            .expect("scope");
        for (from, all) in (0..).zip(&came) {
            for (number, length) in lengths() {
                let right = message(from, turn + of(from, me, number), length);
                assert_eq!(all[number], right, "{length} words of rank {from}");
            }
        }
    }
    stage.sync();
    given_up(stage, messages);
    stage.sync();
}

/// What a scope has begun is given up if it fails, and the memory is the program's again; a message of another length is an error.
fn given_up(stage: &Stage, messages: Messages<'_>) {
    let (me, ranks) = (stage.me(), stage.ranks());
    let (next, last) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let (long, mut place) = (vec![u64::from(me); 100_000], vec![0u64; 100_000]);
    let failed = messages.scope(|scope| {
        scope.receive_into(&mut place[..], last, 900)?;
        scope.send(ranks, 900, &long)
    });
    assert!(matches!(failed, Err(Error::Misuse(_))), "{failed:?}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        messages.scope(|scope| -> kumiki::Result<()> {
            scope.receive_into(&mut place[..], last, 900)?;
            std::panic::resume_unwind(Box::new("given up"));
        })
    }));
    assert!(panicked.is_err());
    place.fill(7);
    stage.sync();
    let sending = messages.start_send(next, 900, long).expect("start_send");
    assert_eq!(place, vec![7; 100_000]);
    let mut short = vec![0u64; 99_999];
    let refused = messages.scope(|scope| scope.receive_into(&mut short[..], last, 900));
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    sending.wait().expect("wait");
    messages.send(next, 901, &[1u64, 2]).expect("send");
    let refused = messages.scope(|scope| scope.receive_into(&mut place[..3], last, 901));
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// What a rank is to receive of another, in the order in which it is sent.
type Due = VecDeque<(u64, u64, usize)>;

/// Random programs: what every rank sends to whom is known to all; each receives what is due, in an order and with wildcards of its own.
pub(crate) fn random(stage: &Stage) {
    let (me, ranks) = (stage.me(), stage.ranks());
    let messages = stage.world.messages();
    let (mut shared, mut own) = (Random(0x9e37_79b9_7f4a_7c15), Random(u64::from(me) + 1));
    let ways = [MessageWay::Automatic, MessageWay::Mailbox, MessageWay::Lane, MessageWay::Automatic];
    for (round, way) in (0u64..12).zip(ways.into_iter().cycle()) {
        let fast_pairs = 1 + (round % 4) as usize;
        messages
            .set_options(MessageOptions { way, fast_pairs, lane_bytes: 2400, ..MessageOptions::default() })
            .expect("options");
        // Who is ahead of the others sends what is due only in the next round.
        let messages = messages.context(round as u32);
        let (mut due, mut program) = (vec![Due::new(); ranks as usize], Vec::new());
        for number in 0..120u64 {
            // In bursts between pairs, so that lanes come and go.
            let burst = number / 20;
            let (from, to) = match shared.below(3) {
                0 => (shared.below(ranks.into()) as u32, shared.below(ranks.into()) as u32),
                _ => ((burst % u64::from(ranks)) as u32, ((burst * 7 + round) % u64::from(ranks)) as u32),
            };
            let (tag, length) = (shared.below(4), LENGTHS[shared.below(9) as usize]);
            if to == me {
                due[from as usize].push_back((number, tag, length));
            }
            if from == me {
                program.push((number, to, tag, length));
            }
        }
        let mut sends = Vec::new();
        for (number, to, tag, length) in program {
            sends.push(messages.start_send(to, tag, message(me, number, length)).expect("start_send"));
            if own.below(3) == 0 && messages.try_probe(None, None).expect("try_probe").is_some() {
                take(messages, &mut due, &mut own, true);
            }
        }
        while due.iter().any(|due| !due.is_empty()) {
            take(messages, &mut due, &mut own, false);
        }
        messages.wait_all(sends).expect("wait_all");
    }
    stage.sync();
    assert_eq!(messages.try_probe(None, None).expect("try_probe"), None, "everything was received");
    stage.sync();
}

/// Receives one message: any, or one that is due from somebody.
fn take(messages: Messages<'_>, due: &mut [Due], own: &mut Random, is_any: bool) {
    let (mut source, mut tag) = (None, None);
    if !is_any {
        let sources: Vec<usize> = (0..due.len()).filter(|from| !due[*from].is_empty()).collect();
        let from = sources[own.below(sources.len() as u64) as usize];
        let (_, wanted, _) = due[from][own.below(due[from].len() as u64) as usize];
        source = (own.below(2) == 0).then_some(from as u32);
        tag = (own.below(2) == 0).then_some(wanted);
    }
    let came = messages.receive::<u64>(source, tag).expect("receive");
    assert!(source.is_none_or(|source| source == came.from) && tag.is_none_or(|tag| tag == came.tag));
    let due = &mut due[came.from as usize];
    // Of those of its source that fit it is the first.
    let first = due.iter().position(|(_, due, _)| tag.is_none_or(|tag| tag == *due)).expect("it is due");
    let (number, tag, length) = due.remove(first).expect("it is there");
    assert_eq!(came.tag, tag, "number {number} from {}", came.from);
    assert_eq!(came.elements, message(came.from, number, length), "number {number}");
}

/// A sender that is faster than its receiver has no more under way than it has credit for, and its memory does not grow.
pub(crate) fn slow_receiver(stage: &Stage) {
    let world = &stage.world;
    let (me, half) = (stage.me(), stage.ranks() / 2);
    let messages = world.messages();
    // Together they are several times as long as what may be kept of them.
    const MESSAGES: u64 = 1500;
    // The buffers of connections are for all that comes.
    let private_bytes = || {
        let ledger = world.ledger();
        ledger.private_bytes() - ledger.of(Purpose::Connection)
    };
    let length = |number: u64| if number.is_multiple_of(10) { 600 } else { 30 };
    if me < half {
        messages.send(me + half, 1, &[0u64]).expect("send");
        let before = private_bytes();
        for number in 0..MESSAGES {
            messages.send(me + half, 0, &message(me, number, length(number))).expect("send");
            let now = private_bytes();
            assert!(now < before + (256 << 10), "{now} bytes, {before} before");
        }
    } else if me < 2 * half {
        messages.receive::<u64>(me - half, 1).expect("receive");
        let before = private_bytes();
        for number in 0..MESSAGES {
            if number % 100 == 0 && stage.way.nodes != SIMULATED {
                std::thread::sleep(Duration::from_millis(5));
            }
            let came = messages.receive::<u64>(me - half, 0).expect("receive");
            assert_eq!(came.elements, message(me - half, number, length(number)));
            let now = private_bytes();
            assert!(now < before + (256 << 10), "{now} bytes, {before} before");
        }
    }
    stage.sync();
}

/// Messages that wait at their sender are found by whoever wants them; more than a mailbox holds come from many at once.
pub(crate) fn unexpected(stage: &Stage) {
    let (me, ranks) = (stage.me(), stage.ranks());
    let messages = stage.world.messages();
    let sends: Vec<_> = (0..40u64)
        .flat_map(|number| (0..ranks).map(move |to| (number, to)))
        .map(|(number, to)| messages.start_send(to, number, message(me, number, 100)).expect("start_send"))
        .collect();
    for number in (0..40).rev() {
        let mut seen = vec![false; ranks as usize];
        for _ in 0..ranks {
            let came = messages.receive::<u64>(None, number).expect("receive");
            assert_eq!(came.elements, message(came.from, number, 100));
            assert!(!std::mem::replace(&mut seen[came.from as usize], true));
        }
    }
    messages.wait_all(sends).expect("wait_all");
    stage.sync();
}

/// Messages that nobody waits for are sent before their rank goes, though their receiver is late; and those that nobody receives hold up
/// nobody.
pub(crate) fn left_alone(stage: &Stage) {
    let (me, messages) = (stage.me(), stage.world.messages());
    if me % 2 == 0 {
        for number in 0..30 {
            let length = if number == 17 { 700 } else { 20 };
            drop(messages.start_send(me + 1, 1, message(me, number, length)).expect("start_send"));
            drop(messages.start_send(me + 1, 2, message(me, number, 1)).expect("start_send"));
        }
        return;
    }
    if stage.way.nodes != SIMULATED {
        std::thread::sleep(Duration::from_millis(5));
    }
    for number in 0..30 {
        let length = if number == 17 { 700 } else { 20 };
        let came = messages.receive::<u64>(me - 1, 1).expect("receive");
        assert_eq!(came.elements, message(me - 1, number, length));
    }
}

/// Who is in a collective takes what others send, and sends on what they wait for: they come only then.
pub(crate) fn beside_collectives(stage: &Stage) {
    let (me, messages) = (stage.me(), stage.world.messages());
    let group = stage.world.group().expect("group");
    let (is_first, other) = (me % 2 == 0, if me % 2 == 0 { me + 1 } else { me - 1 });
    let split = || drop(group.split(0, 0).expect("split"));
    if other >= stage.world.ranks() {
        (0..5).for_each(|_| group.barrier().expect("barrier"));
        return split();
    }
    group.barrier().expect("barrier");
    for round in 0..2 {
        // Long: it stays where it is until the receiver fetches it.
        if is_first {
            let receiving = messages.start_receive::<u64>(other, 1).expect("start_receive");
            group.barrier().expect("barrier");
            assert_eq!(receiving.wait().expect("wait").elements, message(other, round, 40_000));
        } else {
            messages.send(other, 1, &message(me, round, 40_000)).expect("send");
            group.barrier().expect("barrier");
        }
        // Short, and more of it than goes at once.
        if is_first {
            let sending: Vec<_> = (0..300)
                .map(|number| messages.start_send(other, 2, message(me, number, 20)).expect("start_send"))
                .collect();
            group.barrier().expect("barrier");
            sending.into_iter().for_each(|one| one.wait().expect("wait"));
        } else {
            for number in 0..300 {
                let came = messages.receive::<u64>(other, 2).expect("receive");
                assert_eq!(came.elements, message(other, number, 20));
            }
            group.barrier().expect("barrier");
        }
    }
    // To make groups is one, too.
    if is_first {
        let receiving = messages.start_receive::<u64>(other, 3).expect("start_receive");
        split();
        assert_eq!(receiving.wait().expect("wait").elements, message(other, 9, 40_000));
    } else {
        messages.send(other, 3, &message(me, 9, 40_000)).expect("send");
        split();
    }
}

/// Whoever waits for a message of a rank that has finalized, or sends it more than it takes, is told; what it sent before is there.
pub(crate) fn went(stage: &Stage) {
    let (me, messages) = (stage.me(), stage.world.messages());
    if me % 2 == 0 {
        return messages.send(me + 1, 1, &[me]).expect("send");
    }
    // One probes; another has a receive of somebody who is there, and asks about the next one all the same.
    let idle = match me % 4 {
        1 => {
            let probed = messages.probe(me - 1, 2);
            assert!(matches!(probed, Err(Error::PeerLost { rank, .. }) if rank == me - 1), "{probed:?}");
            None
        }
        _ => Some(messages.start_receive::<u32>(me, 9).expect("start_receive")),
    };
    for from in [me - 1, me - 1] {
        let waited = messages.receive::<u32>(from, 2);
        assert!(matches!(waited, Err(Error::PeerLost { rank, .. }) if rank == from), "{waited:?}");
    }
    let mut sent = (0..100).map(|_| messages.send(me - 1, 2, &[me]));
    assert!(sent.any(|sent| matches!(sent, Err(Error::PeerLost { .. }))));
    assert_eq!(messages.receive::<u32>(me - 1, 1).expect("receive").elements, [me - 1]);
    drop(idle);
}

/// Threads of a rank that send and receive at once, each with a tag of its own: whoever waits is woken by the others.
pub(crate) fn threads(stage: &Stage) {
    let (me, ranks) = (stage.me(), stage.ranks());
    let (next, last) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let messages = stage.world.messages();
    let work = |tag: u64| {
        for number in 0..50 {
            let length = LENGTHS[((number + tag) % 10) as usize].min(2000);
            let sending = messages.start_send(next, tag, message(me, number, length)).expect("start_send");
            let came = messages.receive::<u64>(last, tag).expect("receive");
            assert_eq!(came.elements, message(last, number, length), "tag {tag}");
            sending.wait().expect("wait");
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|tag| scope.spawn(move || work(tag))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    });
    stage.sync();
}
