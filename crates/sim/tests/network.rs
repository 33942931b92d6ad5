//! The packet network against what can be computed: exact cases, bounds, saturation, deadlock; and what must hold whatever runs on it.

use kumiki_sim::{
    run_pattern, simulate, Error, EventQueue, Gap, Network, Op, Options, Order, Pacing, Pattern, PatternKind,
    Report, Script, Steps, Time, View, Wait, Workload,
};
use proptest::prelude::*;

fn run(network: &str, kind: PatternKind, change: impl Fn(&mut Pattern), options: &Options<'_>) -> Report {
    let network = Network::parse_short(network).unwrap();
    let mut pattern = Pattern::new(kind, &network);
    change(&mut pattern);
    run_pattern(&network, &pattern, options).unwrap_or_else(|error| panic!("{}: {error}", network.name))
}

fn synchronised() -> Options<'static> {
    Options { sync_steps: true, ..Options::default() }
}

#[test]
fn a_ring_shift_takes_its_bound_and_its_hops() {
    // Rank order goes along the first dimension, and from the end of a row to the next: three hops at most.
    for (net, hops) in [("torus:4x4x4", 3), ("torus:8x8x8", 3), ("torus:64", 1)] {
        for ties in ["split", "plus"] {
            let report = run(
                &format!("{net},ties={ties}"),
                PatternKind::Ring,
                |pattern| pattern.messages = 16,
                &synchronised(),
            );
            assert_eq!(report.bound, Time::from_ps(16 * 13_107_200), "{net}");
            assert_eq!(report.time, report.bound + Time::from_ns(hops * 100), "{net}");
        }
    }
}

#[test]
fn schedules_keep_their_bounds_and_say_why_they_are_above() {
    for (ties, kind, bound_us) in [
        ("split", PatternKind::ShiftPairwise, 825.8),
        ("plus", PatternKind::ShiftPairwise, 1468.0),
        ("split", PatternKind::XorPairwise, 825.8),
        ("plus", PatternKind::XorPairwise, 1310.7),
        ("random", PatternKind::XorPairwise, 825.8),
    ] {
        let report = run(&format!("torus:4x4x4,buffers=2,ties={ties}"), kind, |_| (), &synchronised());
        assert!((report.bound.as_us() - bound_us).abs() < 0.1, "{ties}: {}", report.bound);
        assert!(report.time >= report.carried && report.carried >= report.bound);
        let explained: Time = report.causes.iter().map(|cause| cause.time).sum();
        assert_eq!(report.bound + explained, report.time);
        assert_eq!(report.steps.len(), 63);
        assert_eq!(report.steps.iter().map(|step| step.time).sum::<Time>(), report.time);
    }
}

#[test]
fn a_uniform_all_to_all_reaches_the_bound_where_packets_go_around_each_other() {
    let network = "torus:8x8x8,routing=adaptive,lanes=4,crossbar=free";
    let change = |pattern: &mut Pattern| (pattern.bytes, pattern.window) = (2048, 64);
    let report = run(network, PatternKind::Alltoall, change, &Options::default());
    assert!((report.bound.as_us() - 209.7).abs() < 0.1, "{}", report.bound);
    let ratio = report.ratio().unwrap();
    assert!(ratio < 1.05, "{ratio}");
}

#[test]
fn a_full_fat_tree_shifts_without_contention() {
    let options = synchronised();
    for net in ["fattree:levels=3,arity=4", "fattree:levels=2,arity=8,buffers=2"] {
        let report = run(net, PatternKind::ShiftPairwise, |_| (), &options);
        let most_hops = if net.contains("levels=3") { 4 } else { 2 };
        for step in &report.steps {
            assert!(
                step.time <= Time::from_ps(13_107_200) + Time::from_ns(100 * most_hops),
                "{net}: {step:?}"
            );
        }
        // Other pairings do contend: production trees reach 50 to 65 % of their bandwidth.
        let pairs = run(
            net,
            PatternKind::RandomPermutation,
            |pattern| pattern.steps = "8".parse().unwrap(),
            &options,
        );
        let part = 8.0 * 13.1072 / pairs.time.as_us();
        assert!((0.2..0.8).contains(&part), "{net}: {part}");
    }
    // Half the up-links: a shift to the other half of the tree takes twice as long.
    let tapered = run("fattree:levels=2,arity=8,taper=2", PatternKind::ShiftPairwise, |_| (), &options);
    assert!(tapered.steps.iter().any(|step| step.time >= Time::from_ps(2 * 13_107_200)));
}

#[test]
fn pacing_gains_on_shallow_buffers() {
    let gain = |network: &str| {
        let change = |pattern: &mut Pattern| {
            pattern.bytes = 16_384;
            pattern.steps = "sample:9:1".parse().unwrap();
        };
        let off = run(network, PatternKind::ShiftPairwise, change, &synchronised());
        let paced = Options { pacing: Pacing::Overlap, ..synchronised() };
        let on = run(network, PatternKind::ShiftPairwise, change, &paced);
        // Of the smallest network a quarter is latency.
        assert!(on.ratio().unwrap() < 1.3, "{network}: {:?}", on.ratio());
        assert_eq!(on.sampling.unwrap().steps_total + 1, on.ranks);
        off.time.as_us() / on.time.as_us()
    };
    let (shallow, middle, deep) =
        (gain("torus:32x32,buffers=2"), gain("torus:32x32,buffers=4"), gain("torus:32x32,buffers=8"));
    assert!(shallow > middle && middle > deep, "{shallow} {middle} {deep}");
    assert!((1.6..2.6).contains(&shallow), "{shallow}");
    let small = gain("torus:4x4,buffers=2");
    assert!(small < shallow, "{small} {shallow}");
}

#[test]
fn rings_without_a_rule_deadlock_and_the_circle_is_named() {
    let network = Network::parse_short("torus:4x4,channels=none,buffers=2").unwrap();
    let pattern = Pattern::new(PatternKind::Alltoall, &network);
    let Err(Error::Deadlock(deadlock)) = run_pattern(&network, &pattern, &Options::default()) else {
        panic!("no deadlock")
    };
    assert_eq!(deadlock.credit_circle.len(), 4, "{deadlock}");
    assert!(deadlock.packets > 0 && deadlock.to_string().contains("the buffer of link ("), "{deadlock}");
    for rule in ["wrap", "dateline"] {
        run(
            &format!("torus:4x4,channels={rule},buffers=2,injection_room=1"),
            PatternKind::Alltoall,
            |_| (),
            &Options::default(),
        );
    }
}

#[test]
fn routers_and_packets_keep_to_their_budget() {
    let few_steps = |pattern: &mut Pattern| pattern.steps = "9".parse().unwrap();
    let report = run("torus:8x8x8", PatternKind::ShiftPairwise, few_steps, &synchronised());
    let (packets, routers) = (report.packets_in_flight, report.router_bytes);
    assert!(routers + 32 * packets <= 512 * 1024 + 64 * packets, "{routers} bytes, {packets} packets");
    assert!(routers <= 512 * 1100, "{} bytes a router", routers / 512);
}

#[test]
fn a_slow_link_behind_a_fast_one_sets_the_pace() {
    let report = run(
        "fattree:levels=2,arity=2,slow=4",
        PatternKind::Ring,
        |pattern| pattern.messages = 4,
        &synchronised(),
    );
    assert_eq!(report.bound, Time::from_ps(4 * 4 * 13_107_200));
    let slack = Time::from_us(3);
    assert!(report.time >= report.bound && report.time <= report.bound + slack, "{}", report.time);
}

#[test]
fn patterns_whose_steps_depend_on_each_other_run() {
    let barrier =
        run("torus:16", PatternKind::BarrierDissemination, |pattern| pattern.bytes = 0, &Options::default());
    // Rounds of 1, 2, 4 and 8 hops, and the last acknowledgement back.
    assert_eq!(barrier.time, Time::from_ns((1 + 2 + 4 + 8 + 8) * 100));
    let allreduce =
        run("torus:8", PatternKind::AllreduceRing, |pattern| pattern.bytes = 8 * 65_536, &Options::default());
    let step = Time::from_ps(13_107_200) + Time::from_ns(100);
    assert_eq!(allreduce.time, step * 14 + Time::from_ns(100));
}

/// Every rank puts messages of random sizes to random ranks.
#[derive(Debug)]
struct RandomTraffic {
    puts: Vec<Vec<(u32, u64)>>,
}

struct Puts<'a>(std::slice::Iter<'a, (u32, u64)>, bool);

impl Workload for RandomTraffic {
    fn name(&self) -> String {
        "random traffic".to_owned()
    }
    fn ranks(&self) -> u32 {
        self.puts.len() as u32
    }
    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        Box::new(Puts(self.puts[rank as usize].iter(), false))
    }
}

impl Script for Puts<'_> {
    fn next(&mut self, _view: &View<'_>) -> Op {
        match self.0.next() {
            Some(&(to, bytes)) => Op::Put { to, bytes, flag: None, gap: Gap::Default, order: Order::None },
            None if std::mem::replace(&mut self.1, true) => Op::End,
            None => Op::Wait(Wait::All),
        }
    }
}

const NETWORKS: &[&str] = &[
    "torus:4x4",
    "torus:5x3,channels=dateline",
    "torus:16",
    "torus:4x4,routing=adaptive",
    "torus:6x2,routing=random",
    "torus:4x4,routing=ecmp,lanes=2",
    "mesh:4x4",
    "grid:4x2mx2,links=2",
    "fattree:levels=2,arity=4",
    "fattree:levels=2,arity=4,taper=2,routing=adaptive",
    "fattree:down=4x4,up=3,routing=random",
    "dragonfly:routers=2,nodes=2,globals=1,groups=3",
    "dragonfly:routers=2,nodes=2,globals=2,groups=3,routing=adaptive",
    "dragonfly:routers=2,nodes=2,globals=2,groups=3,routing=ecmp",
];

fn traffic() -> impl Strategy<Value = (String, RandomTraffic)> {
    let settings =
        (0..NETWORKS.len(), 1..4u32, 1..3u32, 1..3u32, prop_oneof!["split", "plus", "random"], any::<bool>());
    settings.prop_flat_map(|(at, buffers, slots, nics, ties, limited)| {
        let nic = if limited { "" } else { ",nic_bandwidth=links" };
        let net = format!("{},buffers={buffers},slots={slots},nics={nics},ties={ties}{nic}", NETWORKS[at]);
        let ranks = Network::parse_short(&net).unwrap().nodes() as u32;
        let puts =
            prop::collection::vec(prop::collection::vec((0..ranks, 0..20_000u64), 0..30), ranks as usize);
        puts.prop_map(move |puts| (net.clone(), RandomTraffic { puts }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// At saturation, with the shallowest buffers: everything comes, nothing twice, no deadlock, no faster than links allow, and the
    /// same again, whichever queue holds the events.
    #[test]
    fn whatever_is_sent_comes((net, traffic) in traffic(), seed in 0..1000u64) {
        let network = Network::parse_short(&net).unwrap();
        let run = |queue| {
            let options = Options { seed, queue, ..Options::default() };
            let mut report = simulate(&network, &traffic, &options).unwrap();
            report.cpu_seconds = 0.0;
            report
        };
        let report = run(EventQueue::Wheel);
        let across = |rank: usize| traffic.puts[rank].iter().filter(move |&&(to, _)| to as usize != rank);
        let packets: u64 = (0..traffic.puts.len()).flat_map(across).map(|&(_, bytes)| network.parameters.packets_of(bytes)).sum();
        let messages: usize = traffic.puts.iter().map(Vec::len).sum();
        prop_assert_eq!((report.packets, report.messages), (packets, messages as u64));
        prop_assert!(report.time >= report.carried && report.carried >= report.bound);
        let sent: u64 = report.links.iter().map(|link| link.bytes).sum();
        prop_assert!(sent <= report.packet_hops * 2048);
        prop_assert_eq!(report.queueing.total(), report.packet_hops + report.packets);
        prop_assert_eq!(report, run(EventQueue::Heap));
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_at_once() {
    let refused = |net: &str, change: &dyn Fn(&mut Pattern)| -> String {
        let network = match Network::parse_short(net) {
            Ok(network) => network,
            Err(error) => return error.to_string(),
        };
        let mut pattern = Pattern::new(PatternKind::Ring, &network);
        change(&mut pattern);
        run_pattern(&network, &pattern, &Options::default()).unwrap_err().to_string()
    };
    let none = |_: &mut Pattern| ();
    assert!(refused("torus:1000000x1000000", &none).contains("at most 16777216"));
    assert!(refused("torus:100000x100000x100000x100000x100000", &none).contains("at most 16777216"));
    assert!(refused("torus:8x8,packet=1G,bandwidth=1B/s", &none).contains("can be simulated"));
    assert!(refused("torus:8x8", &|pattern| pattern.bytes = u64::MAX).contains("packets"));
    assert!(refused("torus:8x8", &|pattern| pattern.messages = 0).contains("at least 1"));
    assert!(refused("torus:8x8", &|pattern| pattern.messages = u32::MAX).contains("memory"));
    assert!(refused("torus:8x8", &|pattern| pattern.steps = Steps::Some(u32::MAX)).contains("65536 times"));
}
