//! Messages on simulated ranks: a rank that crashes at any of its messages, lanes under a cap, and what many senders cost.

use kumiki::comm::{MessageOptions, MessageWay};
use kumiki::{Error, Purpose, Result, World};
use kumiki_sim::{Cluster, Crash, End, Faults, Network};

const VICTIM: u32 = 1;
const RANKS: u32 = 3;

/// Everybody sends to everybody, short and long; whoever is lost ends it for those who need it.
fn exchange(world: &World) -> Result<()> {
    let (me, messages) = (world.rank(), world.messages());
    let others = || (0..RANKS).filter(|rank| *rank != me);
    for round in 0..8u64 {
        let length = if round % 4 == 2 { 1000 } else { 3 };
        let sends: Vec<_> =
            others().map(|to| messages.start_send(to, round, vec![round; length])).collect::<Result<_>>()?;
        let any = messages.start_receive::<u64>(None, round)?;
        let first = any.wait()?.from;
        for from in others().filter(|from| *from != first) {
            assert_eq!(messages.receive::<u64>(from, round)?.elements, vec![round; length]);
        }
        messages.wait_all(sends)?;
    }
    Ok(())
}

#[test]
fn a_rank_that_crashes_at_any_of_its_messages_leaves_nobody_waiting() {
    let mut crashes = 0;
    for operation in 1.. {
        let faults = Faults { crashes: vec![Crash { rank: VICTIM, operation }], ..Faults::default() };
        let cluster = Cluster::new(RANKS, Network::torus(&[RANKS])).faults(faults);
        let outcome = cluster.run(|attachment| {
            let world = World::attach(attachment)?;
            let done = exchange(&world);
            // Whoever has heard of the loss goes, and the others hear of that.
            let _ = world.finalize();
            done
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("message {operation}: {error}"));
        let crashed = outcome.ends[VICTIM as usize] == End::Crashed;
        for (rank, end) in outcome.ends.iter().enumerate() {
            match end {
                End::Crashed => assert_eq!(rank as u32, VICTIM, "message {operation}"),
                End::Returned(Ok(())) => {}
                End::Returned(Err(Error::PeerLost { .. } | Error::Closed(_))) if crashed => {}
                other => panic!("rank {rank}, message {operation}: {other:?}"),
            }
        }
        if !crashed {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 20, "only {crashes} messages to crash at");
}

/// Bytes of a rank for messages: of its process, and of its heap.
fn bytes(world: &World) -> (u64, u64) {
    let entries = world.ledger().entries;
    let comm = entries.iter().filter(|entry| entry.purpose == Purpose::Comm).map(|entry| entry.bytes).sum();
    (comm, world.heap_use(world.rank()).expect("heap_use").used_bytes)
}

#[test]
fn there_are_never_more_lanes_than_may_be_and_every_message_comes_in_order() {
    const MANY: u32 = 40;
    const LANES: usize = 8;
    let outcome = Cluster::new(MANY, Network::torus(&[MANY])).run(|attachment| {
        let world = World::attach(attachment)?;
        let (me, messages) = (world.rank(), world.messages());
        let options =
            MessageOptions { fast_pairs: LANES, way: MessageWay::Automatic, ..MessageOptions::default() };
        messages.set_options(options)?;
        let mut most = 0;
        if me == 0 {
            let mut next = vec![0u64; MANY as usize];
            for _ in 0..(MANY - 1) * 60 {
                let came = messages.receive::<u64>(None, 1)?;
                let next = &mut next[came.from as usize];
                assert_eq!(came.elements, [u64::from(came.from), *next]);
                *next += 1;
                most = most.max(bytes(&world).1);
            }
        } else {
            // Those with small numbers first, then the others: lanes go from these to those.
            let when = kumiki_sim::Time::from_us(u64::from(me) * 20);
            kumiki_sim::compute(when);
            for number in 0..60 {
                messages.send(0, 1, &[u64::from(me), number])?;
            }
        }
        world.sync()?;
        world.finalize()?;
        Ok::<u64, Error>(most)
    });
    let most = outcome.expect("it runs").values().expect("nobody panicked")[0].clone().expect("no error");
    let lanes = LANES as u64 * (3072 + 8);
    assert!(most > lanes, "{most} bytes: nobody got a lane");
    assert!(most <= lanes + (16 << 10) + 1024, "{most} bytes");
}

/// Each rank sends to every other once: what that takes at a rank in the end. `KUMIKI_MANY=1024` has it printed for as many.
#[test]
fn a_rank_that_hears_from_everybody_once_takes_little_memory() {
    let asked = std::env::var("KUMIKI_MANY").ok().and_then(|text| text.parse().ok());
    let many: u32 = asked.unwrap_or(64);
    let outcome = Cluster::new(many, Network::torus(&[many])).run(|attachment| {
        let world = World::attach(attachment)?;
        let (me, messages) = (world.rank(), world.messages());
        for distance in 1..many {
            let to = (me + distance) % many;
            let sending = messages.start_send(to, 0, [me])?;
            let from = (me + many - distance) % many;
            assert_eq!(messages.receive::<u32>(from, 0)?.elements, [from]);
            sending.wait()?;
        }
        world.sync()?;
        let bytes = bytes(&world);
        world.finalize()?;
        Ok::<_, Error>(bytes)
    });
    let values = outcome.expect("it runs").values().expect("nobody panicked");
    let most = values.into_iter().map(|bytes| bytes.expect("no error")).max().expect("there are some");
    println!("{many} ranks: {} bytes of the process, {} of the heap", most.0, most.1);
    assert!(most.0 <= 64 * 3 * u64::from(many) + 4096 && most.1 <= 24 << 10, "{most:?}");
}
