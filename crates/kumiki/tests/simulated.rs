//! Real programs in virtual time, with and without faults.

use kumiki::{Error, GlobalAddress, GlobalPtr, World};
use kumiki_sim::{
    simulate, Cluster, Crash, End, Faults, LinkOutage, Network, Op, Options, Order, Outage, Pacing, Script,
    Time, View, Wait, Wire, Workload,
};
use std::time::Duration;

fn network(short: &str) -> Network {
    Network::parse_short(short).expect("a network")
}

fn now() -> Time {
    kumiki_sim::now().expect("a simulated rank")
}

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
fn a_put_without_load_takes_the_sum_of_its_parts() {
    for (short, to, hops) in [("mesh:8", 7, 7), ("torus:4x4", 10, 4), ("fattree:levels=2,arity=4", 15, 2)] {
        // A few bytes would ride in the header, which takes no time.
        for words in [16, 1000, 8000] {
            let mut network = network(short);
            network.parameters.send_overhead = Time::from_ns(300);
            network.parameters.recv_overhead = Time::from_ns(200);
            let parts = Time::from_ns(500)
                + network.parameters.hop() * hops
                + network.parameters.link_bandwidth.time_of(words * 8);
            let ranks = network.ranks() as u32;
            let outcome = Cluster::new(ranks, network).starter_bytes(1 << 16).run(|attachment| {
                let world = World::attach(attachment).expect("attached");
                world.sync().expect("met");
                kumiki_sim::compute(Time::from_us(1000).max(now()) - now());
                let began = now();
                let there = world.starter::<u64>(to).expect("starter memory");
                if world.rank() == 0 {
                    world.put_slice(there, &vec![7u64; words as usize]).expect("put");
                } else if world.rank() == to {
                    while world.get(there.add((words - 1) as usize)).expect("get") != 7 {}
                }
                let took = now() - began;
                world.finalize().expect("finalized");
                took
            });
            let took = outcome.expect("it runs").values().expect("nobody panicked");
            assert_eq!(took[to as usize], parts, "{words} words on {short}");
        }
    }
}

/// Ranks that put to others, and nothing else.
struct Puts {
    ranks: u32,
    flows: Vec<(u32, u32)>,
    bytes: u64,
}

struct PutOnce<'a>(&'a Puts, u32, u32);

impl Workload for Puts {
    fn name(&self) -> String {
        "puts".to_owned()
    }
    fn ranks(&self) -> u32 {
        self.ranks
    }
    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        Box::new(PutOnce(self, rank, 0))
    }
}

impl Script for PutOnce<'_> {
    fn next(&mut self, _view: &View<'_>) -> Op {
        let PutOnce(puts, rank, turn) = self;
        *turn += 1;
        let flow = puts.flows.iter().find(|(from, _)| from == rank);
        match (flow, *turn) {
            (Some(&(_, to)), 1) => {
                Op::Put { to, bytes: puts.bytes, flag: None, gap: Default::default(), order: Order::None }
            }
            (Some(_), 2) => Op::Wait(Wait::All),
            _ => Op::End,
        }
    }
}

/// How long it takes until everybody has put its bytes: a real program in virtual time, and a script of the simulator.
fn time_of_flows(network: &Network, flows: &[(u32, u32)], bytes: u64, pacing: Pacing) -> (Time, Time) {
    let ranks = network.ranks() as u32;
    let cluster = Cluster::new(ranks, network.clone()).starter_bytes(bytes).pacing(pacing);
    let outcome = cluster.run(|attachment| {
        let world = World::attach(attachment).expect("attached");
        world.sync().expect("met");
        kumiki_sim::compute(Time::from_us(10_000).max(now()) - now());
        let began = now();
        if let Some(&(_, to)) = flows.iter().find(|(from, _)| *from == world.rank()) {
            let there = world.starter::<u8>(to).expect("starter memory");
            world.put_slice(there, &vec![1; bytes as usize]).expect("put");
        }
        let took = now() - began;
        world.finalize().expect("finalized");
        took
    });
    let real = outcome.expect("it runs").values().expect("nobody panicked").into_iter().max();
    let puts = Puts { ranks, flows: flows.to_vec(), bytes };
    let scripted = simulate(network, &puts, &Options { pacing, ..Options::default() }).expect("it runs").time;
    (real.expect("ranks"), scripted)
}

fn is_near(one: Time, other: Time, part: f64) -> bool {
    (one.as_us() / other.as_us() - 1.0).abs() < part
}

#[test]
fn flows_that_share_a_link_share_its_bandwidth() {
    // Both go over the link from 1 to 2.
    let mesh = network("mesh:4,nics=1");
    let bytes = 1_000_000;
    let (alone, alone_scripted) = time_of_flows(&mesh, &[(0, 3)], bytes, Pacing::Off);
    let (shared, shared_scripted) = time_of_flows(&mesh, &[(0, 3), (1, 2)], bytes, Pacing::Off);
    let (apart, _) = time_of_flows(&mesh, &[(0, 1), (2, 3)], bytes, Pacing::Off);
    assert!(is_near(shared, alone * 2, 0.02), "{shared} is about twice {alone}");
    assert!(is_near(apart, alone, 0.02), "{apart} is as {alone}");
    assert!(is_near(alone, alone_scripted, 0.02), "{alone} is as {alone_scripted}");
    assert!(is_near(shared, shared_scripted, 0.02), "{shared} is as {shared_scripted}");
}

#[test]
fn everybody_to_everybody_meets_the_same_network_as_a_script() {
    // With one slot: of two packets of a node that ask at once, it would be a matter of chance which goes first.
    for (short, near) in [
        ("torus:8,nics=1,slots=1", 0.02),
        ("torus:4x4,slots=1", 0.05),
        ("fattree:levels=2,arity=4,taper=2", 0.02),
    ] {
        let network = network(short);
        let ranks = network.ranks() as u32;
        let flows: Vec<(u32, u32)> = (0..ranks).map(|rank| (rank, (rank + ranks / 2 - 1) % ranks)).collect();
        let (real, scripted) = time_of_flows(&network, &flows, 140_000, Pacing::Off);
        assert!(is_near(real, scripted, near), "{short}: {real} is as {scripted}");
    }
}

#[test]
fn pacing_spreads_the_packets_of_real_programs() {
    let mesh = network("mesh:4,nics=1");
    let gap = Time::from_ns(1000);
    let (plain, _) = time_of_flows(&mesh, &[(0, 3)], 102_400, Pacing::Off);
    let (paced, scripted) = time_of_flows(&mesh, &[(0, 3)], 102_400, Pacing::Fixed(gap));
    assert_eq!(paced - plain, gap * 49, "fifty packets");
    assert_eq!(paced, scripted);
    let (hops, scripted) = time_of_flows(&mesh, &[(0, 3)], 102_400, Pacing::Hops);
    assert!(hops > plain && hops == scripted, "{hops} {scripted}");
    let refused = Cluster::new(4, mesh).pacing(Pacing::Overlap).run(|_| ()).expect_err("no steps");
    assert!(refused.to_string().contains("pacing by overlap"), "{refused}");
}

/// One put from rank 0 to rank 5 of a 4×4 torus while the link from 0 to 1 is down.
fn put_past_a_broken_link(routing: &str, until: Time) -> kumiki_sim::Outcome<(kumiki::Result<()>, Time)> {
    let down = LinkOutage { wire: Wire::Between(0, 1), from: Time::from_us(500), until };
    let faults = Faults { links: vec![down], ..Faults::default() };
    let cluster = Cluster::new(16, network(&format!("torus:4x4,routing={routing}")));
    let outcome = cluster.faults(faults).peer_timeout(Duration::from_secs(2)).run(|attachment| {
        let world = World::attach(attachment).expect("attached");
        world.sync().expect("met");
        kumiki_sim::compute(Time::from_us(1000).max(now()) - now());
        let began = now();
        let there = world.starter::<u64>(5).expect("starter memory");
        let result = if world.rank() == 0 { world.put(there, 1) } else { Ok(()) };
        let took = now() - began;
        kumiki_sim::compute(Time::from_seconds(5.0));
        (result, took)
    });
    outcome.expect("it runs")
}

#[test]
fn packets_go_around_a_broken_link_or_wait_for_it() {
    let heals = Time::from_us(11_000);
    let took = |routing| put_past_a_broken_link(routing, heals).values().expect("nobody panicked")[0].1;
    assert!(took("adaptive") < Time::from_us(10), "there is another way");
    let waited = took("deterministic");
    assert!(waited >= Time::from_us(10_000) && waited < Time::from_us(10_010), "{waited}");
    let ends = put_past_a_broken_link("deterministic", Time::from_seconds(100.0)).values();
    let (result, took) = &ends.expect("nobody panicked")[0];
    assert!(matches!(result, Err(Error::PeerLost { .. })), "{result:?}");
    assert!(*took >= Time::from_seconds(1.9) && *took < Time::from_seconds(2.1), "{took}");
}

#[test]
fn lost_packets_are_sent_again_and_a_deaf_peer_is_lost() {
    let run = |loss: f64| {
        let faults = Faults { loss, retry: Time::from_us(200), ..Faults::default() };
        let cluster = Cluster::new(2, network("mesh:2,nics=1")).seed(5).starter_bytes(1 << 20);
        let cluster = cluster.faults(faults).peer_timeout(Duration::from_secs(1));
        let outcome = cluster.run(|attachment| {
            let world = World::attach(attachment)?;
            let there = world.starter::<u64>(1)?;
            if world.rank() == 0 {
                world.put_slice(there, &(0..100_000).collect::<Vec<u64>>())?;
            }
            world.sync()?;
            let mut found = vec![0u64; 100_000];
            world.get_slice(there, &mut found)?;
            world.finalize()?;
            Ok::<_, Error>(found.into_iter().eq(0..100_000))
        });
        outcome.expect("it runs")
    };
    let (whole, lossy, deaf) = (run(0.0), run(0.05), run(1.0));
    assert_eq!(whole.lost, 0);
    assert!(lossy.lost > 10 && lossy.time > whole.time + Time::from_us(200), "{} {}", lossy.lost, lossy.time);
    // What was lost has gone through the network twice, and nothing else: messages whose last packet is short apart.
    assert!(lossy.packets > whole.packets + lossy.lost / 2, "{} {}", lossy.packets, whole.packets);
    assert_eq!(lossy.values().expect("nobody panicked"), vec![Ok(true); 2]);
    for end in deaf.ends {
        assert!(matches!(end, End::Returned(Err(Error::PeerLost { .. }))), "{end:?}");
    }
}

#[test]
fn waiting_loops_that_make_progress_see_what_comes_in_virtual_time() {
    let outcome = kumiki_sim::run(2, network("torus:2"), |attachment| {
        let world = World::attach(attachment).expect("attached");
        let (me, other) = (world.rank(), 1 - world.rank());
        let word = |rank| world.starter::<u64>(rank).expect("starter memory");
        for turn in 1..=10u64 {
            world.put(word(other), turn).expect("put");
            while world.get(word(me)).expect("get") < turn {
                world.progress().expect("progress");
            }
        }
        world.finalize().expect("finalized");
    });
    let time = outcome.expect("it runs").time;
    assert!(time < Time::from_us(100), "ten round trips of some hundred nanoseconds: {time}");
}

#[test]
fn a_simulated_rank_keeps_its_number_and_has_one_thread() {
    let outcome = kumiki_sim::run(2, network("torus:2"), |attachment| {
        let world = World::attach(attachment).expect("attached");
        let other = world.starter::<u64>(1 - world.rank()).expect("starter memory");
        let by_thread = std::thread::scope(|scope| scope.spawn(|| world.put(other, 1)).join());
        let by_thread = by_thread.expect("a thread").expect_err("a second thread");
        world.put(other, 2).expect("the rank's own thread still can");
        world.sync().expect("met");
        let reset = world.reset(0).expect_err("not simulated");
        (by_thread, reset)
    });
    for (by_thread, reset) in outcome.expect("it runs").values().expect("nobody panicked") {
        assert!(matches!(&by_thread, Error::Misuse(text) if text.contains("one thread")), "{by_thread:?}");
        assert!(matches!(&reset, Error::Misuse(text) if text.contains("simulated rank")), "{reset:?}");
    }
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
                    assert!(*lost < 4, "seed {seed}");
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
fn puts_without_end_are_reported_with_who_sends_them() {
    let body = |attachment| {
        let world = World::attach(attachment).expect("attached");
        let word = world.starter::<u64>(1 - world.rank()).expect("starter memory");
        for round in 0.. {
            world.put(word, round).expect("put");
        }
    };
    let cluster = Cluster::new(2, Network::torus(&[2])).seed(12);
    let text = cluster.clone().most_messages(20_000).run(body).expect_err("no end").to_string();
    assert!(text.contains("no end") && text.contains("20000 messages") && text.contains("seed 12"), "{text}");
    let text = cluster.limit(Time::from_us(2000)).run(body).expect_err("no end").to_string();
    assert!(text.contains("no end in 2 ms") && text.contains("rank 0"), "{text}");
}

#[test]
fn what_cannot_be_is_refused() {
    let body = |_| ();
    let error = Cluster::new(9, Network::torus(&[8])).run(body).expect_err("too many").to_string();
    assert!(error.contains("9 ranks") && error.contains("1 to 8"), "{error}");
    let faults = Faults { crashes: vec![Crash { rank: 9, operation: 1 }], ..Faults::default() };
    let refused =
        |faults| Cluster::new(2, Network::torus(&[8])).faults(faults).run(body).expect_err("refused");
    let error = refused(faults).to_string();
    assert!(error.contains("rank 9"), "{error}");
    let down = LinkOutage { wire: Wire::Between(0, 2), from: Time::ZERO, until: Time::from_us(1) };
    let error = refused(Faults { links: vec![down], ..Faults::default() }).to_string();
    assert!(error.contains("between routers 0 and 2"), "{error}");
}

/// Whoever leaves then is announced to the others before what was still to happen, and was looked at already.
#[test]
fn ranks_that_wait_in_vain_are_reported_though_something_is_to_happen_later() {
    let cluster = Cluster::new(3, Network::torus(&[3])).patience(Time::from_us(5_000));
    let stuck = cluster.run(|attachment| {
        let world = World::attach(attachment)?;
        if world.rank() == 2 {
            return world.finalize();
        }
        world.messages().receive::<u8>(None, None).map(drop)
    });
    let error = stuck.expect_err("nobody sends anything").to_string();
    assert!(error.contains("stuck") && error.contains("rank 0") && error.contains("rank 1"), "{error}");
}

/// `KUMIKI_RANKS=4096` makes it as large as can be.
#[test]
fn many_ranks_meet_in_a_barrier() {
    let ranks = std::env::var("KUMIKI_RANKS").ok().and_then(|text| text.parse().ok()).unwrap_or(512u32);
    let network = Network::torus(&[16, 16, ranks.div_ceil(256)]);
    let outcome = kumiki_sim::run(ranks, network, |attachment| {
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
    assert!(values.iter().all(|&value| value == values[0] && value.0 == u64::from(ranks)));
}
