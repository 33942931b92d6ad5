//! How much a network carries when everybody sends all the time, against what is known of it on paper.

use kumiki_sim::{
    simulate, Gap, Network, Op, Options, Order, Pacing, Report, Script, Time, View, Wait, Workload,
};

/// Every rank puts messages to the targets that it is given, so many outstanding at a time.
struct Traffic {
    targets: Vec<Vec<u32>>,
    bytes: u64,
    window: u32,
}

struct Puts<'a> {
    targets: std::slice::Iter<'a, u32>,
    traffic: &'a Traffic,
    waited: bool,
    ended: bool,
}

impl Workload for Traffic {
    fn name(&self) -> String {
        "saturation".to_owned()
    }
    fn ranks(&self) -> u32 {
        self.targets.len() as u32
    }
    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        let targets = self.targets[rank as usize].iter();
        Box::new(Puts { targets, traffic: self, waited: false, ended: false })
    }
}

impl Script for Puts<'_> {
    fn next(&mut self, _view: &View<'_>) -> Op {
        self.waited = !self.waited;
        if self.waited {
            return Op::Wait(Wait::Outstanding(self.traffic.window - 1));
        }
        match self.targets.next() {
            Some(&to) => {
                let bytes = self.traffic.bytes;
                Op::Put { to, bytes, flag: None, gap: Gap::Default, order: Order::None }
            }
            None if std::mem::replace(&mut self.ended, true) => Op::End,
            None => Op::Wait(Wait::All),
        }
    }
}

/// Numbers below a limit, the same on every machine.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

fn run(net: &str, traffic: &Traffic, pacing: Pacing) -> Report {
    let network = Network::parse_short(net).unwrap();
    let options = Options { pacing, ..Options::default() };
    simulate(&network, traffic, &options).unwrap_or_else(|error| panic!("{net}: {error}"))
}

/// Packets that a node sends in the time of one packet.
fn rate(report: &Report) -> f64 {
    let packet = Time::from_ps(409_600);
    report.packets as f64 / f64::from(report.ranks) / (report.time.as_us() / packet.as_us())
}

#[test]
fn tornado_traffic_gets_its_share_of_the_ring() {
    // Everyone sends as far as it can in the same direction: each link carries ⌈k/2⌉ − 1 streams. Senders that keep the pace get all of it;
    // those that do not fill the buffers and lose a part.
    for (k, pacing, least) in [
        (4u32, Pacing::Off, 0.99),
        (7, Pacing::Hops, 0.99),
        (8, Pacing::Hops, 0.99),
        (16, Pacing::Hops, 0.99),
        (16, Pacing::Off, 0.65),
    ] {
        let hops = k.div_ceil(2) - 1;
        let targets = (0..k).map(|rank| vec![(rank + hops) % k; 20]).collect();
        let traffic = Traffic { targets, bytes: 65_536, window: 2 };
        let report = run(&format!("torus:{k},nics=1"), &traffic, pacing);
        let (rate, expected) = (rate(&report), 1.0 / f64::from(hops));
        println!("tornado on a ring of {k}, pacing {pacing}: {rate:.4} packets a node and packet time, of {expected:.4}");
        assert!(rate <= expected && rate > least * expected, "ring of {k}: {rate} of {expected}");
    }
}

/// Everyone sends single packets to anybody.
fn uniform(nodes: u32, packets: usize, window: u32) -> Traffic {
    let mut draw = Draw(7);
    let targets = (0..nodes)
        .map(|rank| (0..packets).map(|_| (rank + 1 + draw.below(nodes - 1)) % nodes).collect())
        .collect();
    Traffic { targets, bytes: 2048, window }
}

#[test]
fn uniform_random_traffic_saturates_at_the_bisection() {
    // 8/k packets a node and packet time; a node never sends to itself, which makes ways a little longer.
    for (net, nodes, k, least) in [
        ("torus:8x8,routing=adaptive,lanes=4,buffers=16,slots=8,crossbar=free", 64, 8.0, 0.9),
        ("torus:16,routing=adaptive,lanes=4,buffers=16,slots=8,crossbar=free", 16, 16.0, 0.9),
        ("torus:8x8", 64, 8.0, 0.5),
    ] {
        let report = run(net, &uniform(nodes, 400, 64), Pacing::Off);
        let most = 8.0 / k * f64::from(nodes - 1) / f64::from(nodes);
        let part = rate(&report) / most;
        println!(
            "uniform on {net}: {:.3} packets a node and packet time, {part:.3} of the bisection",
            rate(&report)
        );
        assert!(part < 1.02 && part > least, "{net}: {part}");
    }
}

#[test]
fn random_pairs_across_a_full_fat_tree_get_a_good_half_of_their_bandwidth() {
    // Every rank of a random half talks to one of the other half, as the measurements of effective bisection bandwidth do.
    for (net, nodes) in [("fattree:levels=3,arity=6", 216u32), ("fattree:levels=4,arity=4", 256)] {
        let mut draw = Draw(11);
        let mut parts = Vec::new();
        for _ in 0..6 {
            let mut order: Vec<u32> = (0..nodes).collect();
            for last in (1..order.len()).rev() {
                order.swap(last, draw.below(last as u32 + 1) as usize);
            }
            let mut targets = vec![Vec::new(); nodes as usize];
            for pair in order.chunks_exact(2) {
                targets[pair[0] as usize].push(pair[1]);
                targets[pair[1] as usize].push(pair[0]);
            }
            let report = run(net, &Traffic { targets, bytes: 1 << 20, window: 1 }, Pacing::Off);
            let alone = (1u64 << 20) as f64 / 5000.0;
            parts.extend(report.rank_times.iter().map(|time| alone / time.as_us()));
        }
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        println!("random pairs on {net}: {:.1} % of the bandwidth", 100.0 * mean);
        assert!((0.50..0.65).contains(&mean), "{net}: {mean}");
    }
}
