//! Large payloads leave from where they lie, and arrive where they belong: memory that changes or goes meanwhile, and what is
//! ordered behind it.

use crate::job::Job;
use crate::stage::{assert_same, patterned, Stage};
use crate::way;
use kumiki::raw;
use kumiki::{GlobalPtr, Handle, Order};
use libtest_mimic::{Failed, Trial};
use std::sync::atomic::{AtomicBool, Ordering};

const BYTES: usize = 1 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    // Between two nodes alone nobody copies for a third rank.
    let ways: [(&str, &[u32]); 2] = [("tcp", &[0, 2, 3]), ("private_mixed", &[0, 3])];
    let orders = ["continue", "turn"];
    let trial = |(way, senders): (&'static str, &'static [u32]), order: &'static str| {
        Trial::test(format!("{way}::torn::{order}"), move || torn_once(way, senders, order))
    };
    ways.into_iter().flat_map(|way| orders.map(|order| trial(way, order))).collect()
}

/// The first large payload of each rank arrives as zeroes. It is sent again, and nothing else shows.
fn torn_once(way: &str, senders: &[u32], order: &str) -> Result<(), Failed> {
    let job = Job::new(way::named(way), "torn", 4)
        .env("KUMIKI_FAULT", "tear@1")
        .env("KUMIKI_COUNT", "yes")
        .env("TORN_ORDER", order);
    let ended = job.run().code(0)?;
    let sent = |rank: u32| {
        let line = format!("kumiki: rank {rank} over tcp: sent ");
        let line = ended.output.lines().find_map(|found| found.split_once(&line))?.1;
        line.split_whitespace().nth(3)?.parse::<usize>().ok()
    };
    for rank in senders {
        let twice = sent(*rank).is_some_and(|bytes| bytes >= 2 * BYTES);
        ended.expect(twice, &format!("rank {rank} sent its payload twice"))?;
    }
    Ok(())
}

/// A put of rank 0, a get of rank 1, and a copy that rank 2 makes for rank 0: between nodes, each with a sender of its own, who
/// copies nothing yet.
pub(crate) fn torn(stage: &Stage) {
    let (source, target) = (stage.block(BYTES), stage.block(BYTES));
    stage.write(source.address(), &patterned(stage.me() as u64, BYTES));
    let (sources, targets) = (stage.exchange(source.address()), stage.exchange(target.address()));
    let (flag, told) = (stage.starter(0).add(2), stage.starter(3));
    if stage.me() == 0 {
        stage.world.put(flag, 7).expect("put");
    }
    stage.sync();
    let bytes = BYTES as u64;
    let expect = |of: u64, what: &str| {
        assert_same(&stage.read(target.address(), BYTES), &patterned(of, BYTES), || what.into());
    };
    match stage.me() {
        0 => {
            // The word must not overtake the data, which is sent a second time.
            stage.copy(targets[3], sources[0], bytes);
            let (to, from) = (told.address(), flag.address());
            if std::env::var("TORN_ORDER").is_ok_and(|order| order == "continue") {
                stage.world.copy(to, from, 8, Order::Continue).expect("put");
            } else {
                // Another one in between, which may overtake it.
                stage.copy(to.add(8), from, 8);
                raw::memory(&stage.world).copy_in_turn(to, from, 8, Order::None).expect("put");
            }
            stage.complete_all();
            stage.copied(targets[1], sources[2], bytes).expect("third party");
        }
        3 => {
            while stage.world.get(told).expect("own memory") != 7 {
                stage.world.progress().expect("progress");
            }
            expect(0, "put");
        }
        _ => {}
    }
    stage.sync();
    if stage.me() == 1 {
        expect(2, "third party");
        stage.copied(targets[1], sources[3], bytes).expect("get");
        expect(3, "get");
    }
    stage.sync();
}

/// The source of a copy is written to all the time: what arrives was there at some time, and the connection holds.
pub(crate) fn racing(stage: &Stage) {
    const ROUNDS: u64 = 12;
    let (source, target) = (stage.block(BYTES), stage.block(BYTES));
    let all = stage.exchange(source.address());
    let targets = stage.exchange(target.address());
    let values = [vec![0x11u8; BYTES / 4], vec![0x22u8; BYTES / 4]];
    let write = |round: usize| {
        for part in 0..4 {
            stage.write(source.address().add((part * BYTES / 4) as u64), &values[round % 2]);
        }
    };
    write(0);
    stage.sync();
    let next = all[((stage.me() + 1) % stage.ranks()) as usize];
    let mine = target.address();
    let before = targets[((stage.me() + stage.ranks() - 1) % stage.ranks()) as usize];
    // Simulated ranks have one thread only.
    let (done, simulated) = (AtomicBool::new(false), stage.way.nodes == way::SIMULATED);
    stage.at_once([
        Box::new(|| {
            let mut round = 0;
            while !simulated && !done.load(Ordering::Relaxed) {
                round += 1;
                write(round);
            }
        }) as Box<dyn FnOnce() + Send>,
        Box::new(|| {
            for _ in 0..ROUNDS {
                stage.copied(mine, next, BYTES as u64).expect("a get of memory that changes");
                stage.copied(before, source.address(), BYTES as u64).expect("a put of memory that changes");
            }
            done.store(true, Ordering::Relaxed);
        }),
    ]);
    stage.sync();
    let found = stage.read::<u8>(mine, BYTES);
    assert!(found.iter().all(|byte| *byte == 0x11 || *byte == 0x22), "bytes that were never there");
    stage.sync();
    write(1);
    stage.sync();
    stage.copied(mine, next, BYTES as u64).expect("copy");
    assert!(stage.read::<u8>(mine, BYTES).iter().all(|byte| *byte == 0x22), "memory that is still");
    stage.sync();
}

/// The source goes while it is being sent, its owner's or another's: an error, or all of it; and whatever comes behind is right.
pub(crate) fn vanishing(stage: &Stage) {
    const LARGE: usize = 16 << 20;
    let target = stage.block(LARGE);
    let targets = stage.exchange(target.address());
    let number = (stage.me() + 1) % stage.ranks();
    let (next, word) = (targets[number as usize], stage.starter(number).add(stage.me() as usize));
    let may_fail =
        |issued: kumiki::Result<Handle>| match issued.and_then(|handle| stage.world.complete(handle)) {
            Ok(()) | Err(kumiki::Error::Bounds { .. }) => {}
            Err(other) => panic!("the source of a copy went: {other}"),
        };
    for round in 0..6u64 {
        let source = stage.block(LARGE);
        stage.write(source.address(), &vec![0x33u8; LARGE]);
        let sources = stage.exchange(source.address());
        if round % 2 == 0 {
            let issued = stage.world.copy(next, source.address(), LARGE, Order::None);
            // Sometimes a little of it has gone by then.
            for _ in 0..round * 20 {
                stage.world.progress().expect("progress");
            }
            drop(source);
            may_fail(issued);
        } else {
            let from = sources[number as usize];
            let issued = stage.world.copy(target.address(), from, LARGE, Order::None);
            drop(source);
            may_fail(issued);
        }
        // What comes next on the same connection is small.
        stage.world.put(word, round).expect("a word behind it");
        assert_eq!(stage.world.fetch_add(word, 1).expect("an atomic behind it"), round);
        stage.sync();
        let kept = stage.block(BYTES);
        stage.write(kept.address(), &patterned(round, BYTES));
        stage.copied(next, kept.address(), BYTES as u64).expect("copy");
        stage.sync();
        assert_same(&stage.read(target.address(), BYTES), &patterned(round, BYTES), || "behind it".into());
        stage.sync();
    }
}

/// The destination of a get is written to while it comes, and goes while it comes: an error, or all of it; and what comes next is
/// right.
pub(crate) fn disturbed(stage: &Stage) {
    const ROUNDS: u64 = 8;
    const LARGE: usize = 4 << 20;
    let (source, target) = (stage.block(LARGE), stage.block(LARGE));
    stage.write(source.address(), &vec![0x11u8; LARGE]);
    let all = stage.exchange(source.address());
    stage.sync();
    let next = all[((stage.me() + 1) % stage.ranks()) as usize];
    let mine = target.address();
    // Simulated ranks have one thread only.
    let (done, simulated) = (AtomicBool::new(false), stage.way.nodes == way::SIMULATED);
    stage.at_once([
        Box::new(|| {
            let other = vec![0x22u8; BYTES];
            while !simulated && !done.load(Ordering::Relaxed) {
                stage.write(mine.add((LARGE - BYTES) as u64), &other);
            }
        }) as Box<dyn FnOnce() + Send>,
        Box::new(|| {
            for _ in 0..ROUNDS {
                stage.copied(mine, next, LARGE as u64).expect("a get to memory that is written to");
            }
            done.store(true, Ordering::Relaxed);
        }),
    ]);
    let found = stage.read::<u8>(mine, LARGE);
    let (still, busy) = found.split_at(LARGE - BYTES);
    assert!(still.iter().all(|byte| *byte == 0x11), "what nobody else wrote to");
    assert!(busy.iter().all(|byte| *byte == 0x11 || *byte == 0x22), "bytes that nobody wrote");
    stage.sync();
    for round in 0..ROUNDS {
        let place = stage.block(LARGE);
        let issued = stage.world.copy(place.address(), next, LARGE, Order::None);
        for _ in 0..round * 10 {
            stage.world.progress().expect("progress");
        }
        drop(place);
        match issued.and_then(|handle| stage.world.complete(handle)) {
            Ok(()) | Err(kumiki::Error::Bounds { .. }) => {}
            Err(other) => panic!("the destination of a get went: {other}"),
        }
        stage.write(mine, &vec![0x33u8; LARGE]);
        stage.copied(mine, next, LARGE as u64).expect("a get behind it");
        let found = stage.read::<u8>(mine, LARGE);
        assert!(found.iter().all(|byte| *byte == 0x11), "a get behind it");
    }
    stage.sync();
}

/// Whoever is put to sees the last word come, before the put is complete, and answers in its place at once: the answer stays.
pub(crate) fn answered(stage: &Stage) {
    const ROUNDS: u64 = 24;
    const ANSWER: u64 = 1 << 32;
    let words = BYTES / 8;
    let (source, target) = (stage.block(BYTES), stage.block(BYTES));
    let targets = stage.exchange(target.address());
    let next = targets[((stage.me() + 1) % stage.ranks()) as usize];
    let last = GlobalPtr::<u64>::from_address(target.address().add(BYTES as u64 - 8));
    for round in 1..=ROUNDS {
        stage.write(source.address(), &vec![round; words]);
        stage.write(target.address(), &vec![0u64; words]);
        stage.sync();
        let put = stage.copy(next, source.address(), BYTES as u64);
        while stage.world.get(last).expect("own memory") != round {
            stage.world.progress().expect("progress");
        }
        stage.world.put(last, ANSWER + round).expect("own memory");
        stage.world.complete(put).expect("put");
        stage.sync();
        let found = stage.read::<u64>(target.address(), words);
        assert!(found[..words - 1].iter().all(|word| *word == round), "the put");
        assert_eq!(found[words - 1], ANSWER + round, "the answer");
        stage.sync();
    }
}
