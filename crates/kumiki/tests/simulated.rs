//! Real programs in virtual time, with and without faults.

use kumiki::{Error, GlobalAddress, GlobalPtr, World};
use kumiki_sim::{Cluster, Crash, End, Faults, Network, Outage, Time};
use std::time::Duration;

/// Every rank puts, counts and looks; what it finds must be right.
fn ring(world: &World) -> kumiki::Result<u64> {
    let (me, ranks) = (world.rank(), world.ranks());
    let counter = world.starter::<u64>(0)?;
    for round in 1..=3u64 {
        world.put(world.starter::<u64>((me + 1) % ranks)?.add(1), round * 1000 + u64::from(me))?;
        world.fetch_add(counter, 1)?;
        world.sync()?;
        let from = (me + ranks - 1) % ranks;
        assert_eq!(world.get(world.starter::<u64>(me)?.add(1))?, round * 1000 + u64::from(from));
        assert_eq!(world.get(counter)?, round * u64::from(ranks));
        world.sync()?;
    }
    let place = world.malloc(100_000, (me + 1) % ranks)?;
    world.put_slice(GlobalPtr::from_address(place), &vec![me as u8; 100_000])?;
    let mut back = vec![0u8; 100_000];
    world.get_slice(GlobalPtr::from_address(place), &mut back)?;
    assert!(back.iter().all(|&byte| byte == me as u8));
    world.free(place)?;
    world.get(counter)
}

#[test]
fn an_ordinary_program_runs_in_virtual_time_and_twice_the_same() {
    let once = || {
        let cluster = Cluster::new(12, Network::torus(&[4, 4])).seed(3);
        cluster.run(|attachment| {
            let world = World::attach(attachment)?;
            let found = ring(&world)?;
            world.finalize()?;
            Ok::<u64, Error>(found)
        })
    };
    let (first, second) = (once().expect("it runs"), once().expect("it runs"));
    assert_eq!((first.time, first.messages, first.bytes), (second.time, second.messages, second.bytes));
    assert!(first.time > Time::from_us(40), "two transfers of 100 kB at 5 GB/s: {}", first.time);
    assert_eq!(first.values().expect("nobody panicked"), vec![Ok(36); 12]);
}

#[test]
fn a_computing_rank_is_served_and_time_is_the_simulators() {
    let outcome = kumiki_sim::run(2, Network::torus(&[2]), |attachment| {
        let world = World::attach(attachment).expect("attached");
        let word = world.starter::<u64>(1).expect("starter memory");
        let began = kumiki_sim::now().expect("a simulated rank");
        let took = if world.rank() == 0 {
            world.put(word, 7).expect("put");
            kumiki_sim::now().expect("a simulated rank").since(began)
        } else {
            kumiki_sim::compute(Time::from_us(1_000_000));
            assert_eq!(world.get(word).expect("get"), 7);
            kumiki_sim::now().expect("a simulated rank").since(began)
        };
        world.finalize().expect("finalized");
        took
    });
    let took = outcome.expect("it runs").values().expect("nobody panicked");
    assert!(took[0] < Time::from_us(10), "a put to a rank that computes takes a round trip, not {}", took[0]);
    assert!(took[1] >= Time::from_us(1_000_000), "{}", took[1]);
}

#[test]
fn whoever_looks_at_its_own_memory_sees_what_comes() {
    let outcome = kumiki_sim::run(2, Network::torus(&[2]), |attachment| {
        let world = World::attach(attachment).expect("attached");
        let flag = world.starter::<u64>(1).expect("starter memory");
        if world.rank() == 0 {
            kumiki_sim::compute(Time::from_us(500));
            world.put(flag, 1).expect("put");
        } else {
            while world.get(flag).expect("get") == 0 {}
        }
        world.finalize().expect("finalized");
    });
    let outcome = outcome.expect("it runs");
    assert!(outcome.time >= Time::from_us(500) && outcome.time < Time::from_us(520), "{}", outcome.time);
}

#[test]
fn faults_that_heal_change_nothing_but_the_time() {
    for seed in 0..500 {
        let cluster = Cluster::new(5, Network::torus(&[5])).seed(seed).faults(Faults::harmless(seed, 5));
        let outcome = cluster.run(|attachment| {
            let world = World::attach(attachment).expect("attached");
            let found = ring(&world).expect("every operation succeeds");
            world.finalize().expect("finalized");
            found
        });
        let values = outcome.unwrap_or_else(|error| panic!("{error}")).values();
        assert_eq!(values, Ok(vec![15; 5]), "seed {seed}");
    }
}

#[test]
fn a_crash_anywhere_ends_in_errors_that_name_it_and_never_in_a_hang() {
    let mut crashes = 0;
    for seed in 0..500 {
        let faults = Faults::deadly(seed, 4, 40);
        let victim = faults.crashes[0].rank;
        let cluster = Cluster::new(4, Network::torus(&[4])).seed(seed).faults(faults);
        let outcome = cluster.run(|attachment| {
            let world = World::attach(attachment)?;
            let found = ring(&world)?;
            world.finalize()?;
            Ok::<u64, Error>(found)
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        if outcome.ends[victim as usize] == End::Crashed {
            crashes += 1;
        }
        for (rank, end) in outcome.ends.iter().enumerate() {
            match end {
                End::Crashed => assert_eq!(rank as u32, victim, "seed {seed}"),
                End::Returned(Ok(count)) => {
                    assert_eq!(*count, 12, "seed {seed}: a result is right or not there")
                }
                End::Returned(Err(Error::PeerLost { rank: lost, .. })) => {
                    assert!(lost.0 < 4, "seed {seed}");
                }
                other => panic!("seed {seed}, rank {rank}: {other:?}"),
            }
        }
    }
    assert!(crashes > 100, "the faults do crash ranks: {crashes} of 500");
}

#[test]
fn a_partition_that_does_not_heal_is_reported_after_the_peer_timeout() {
    let apart =
        Outage { side: vec![1], other: vec![], from: Time::from_us(100), until: Time::from_seconds(100.0) };
    let faults = Faults { outages: vec![apart], ..Faults::default() };
    let cluster = Cluster::new(2, Network::torus(&[2])).faults(faults).peer_timeout(Duration::from_secs(2));
    let outcome = cluster.run(|attachment| {
        let world = World::attach(attachment).expect("attached before it");
        kumiki_sim::compute(Time::from_us(200));
        let other = world.starter::<u64>(1 - world.rank()).expect("starter memory");
        let began = kumiki_sim::now().expect("a simulated rank");
        let result = world.put(other, 1);
        (result, kumiki_sim::now().expect("a simulated rank").since(began))
    });
    for (result, took) in outcome.expect("it runs").values().expect("nobody panicked") {
        assert!(matches!(result, Err(Error::PeerLost { .. })), "{result:?}");
        assert!(took >= Time::from_seconds(1.9) && took <= Time::from_seconds(3.0), "{took}");
    }
}

#[test]
fn ranks_that_wait_for_nothing_are_reported_as_stuck_with_the_seed() {
    let cluster = Cluster::new(2, Network::torus(&[2])).seed(11).patience(Time::from_seconds(5.0));
    let error = cluster.run(|attachment| {
        let world = World::attach(attachment).expect("attached");
        let word = world.starter::<u64>(world.rank()).expect("starter memory");
        while world.get(word).expect("get") == 0 {}
    });
    let text = error.expect_err("stuck").to_string();
    assert!(text.contains("stuck") && text.contains("seed 11") && text.contains("rank 1"), "{text}");
}

#[test]
fn what_cannot_be_is_refused() {
    let body = |_| ();
    let error = Cluster::new(9, Network::torus(&[8])).run(body).expect_err("too many").to_string();
    assert!(error.contains("9 ranks") && error.contains("1 to 8"), "{error}");
    let faults = Faults { crashes: vec![Crash { rank: 9, operation: 1 }], ..Faults::default() };
    let error =
        Cluster::new(2, Network::torus(&[8])).faults(faults).run(body).expect_err("no rank 9").to_string();
    assert!(error.contains("rank 9"), "{error}");
}

#[test]
fn many_ranks_meet_in_a_barrier() {
    let outcome = kumiki_sim::run(512, Network::torus(&[8, 8, 8]), |attachment| {
        let world = World::attach(attachment).expect("attached");
        let counter = world.starter::<u64>(0).expect("starter memory");
        world.fetch_add(counter, 1).expect("add");
        world.sync().expect("met");
        let count = world.get(counter).expect("get");
        let address: GlobalAddress = counter.address();
        world.finalize().expect("finalized");
        (count, address)
    });
    let values = outcome.expect("it runs").values().expect("nobody panicked");
    assert!(values.iter().all(|&value| value == values[0] && value.0 == 512));
}
