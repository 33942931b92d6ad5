//! The packet network against a model that was written apart from it and looks closer: steps of schedules on 64 nodes, with buffers of two
//! packets, random ties, 100 ns a hop and links of 5 GB/s. What deviates is printed as the table of docs/simulation.md.

mod flit_model;

use flit_model::{Model, Setup, FLIT_BYTES, PACKET_FLITS};
use kumiki_sim::{simulate, Gap, Network, Op, Options, Order, Script, View, Workload};

const NODES: usize = 64;

/// For each rank, to whom it sends in a step.
type Step = Vec<Vec<usize>>;

/// Steps as a program: every rank sends its messages, and all wait for each other.
struct Schedule<'a> {
    steps: &'a [Step],
    packets: usize,
}

struct Sender<'a> {
    schedule: &'a Schedule<'a>,
    rank: usize,
    step: usize,
    sent: usize,
}

impl Workload for Schedule<'_> {
    fn name(&self) -> String {
        "steps".to_owned()
    }

    fn ranks(&self) -> u32 {
        NODES as u32
    }

    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        Box::new(Sender { schedule: self, rank: rank as usize, step: 0, sent: 0 })
    }
}

impl Script for Sender<'_> {
    fn next(&mut self, _view: &View<'_>) -> Op {
        let Some(step) = self.schedule.steps.get(self.step) else { return Op::End };
        let Some(&to) = step[self.rank].get(self.sent) else {
            (self.step, self.sent) = (self.step + 1, 0);
            return Op::Step;
        };
        self.sent += 1;
        let bytes = (self.schedule.packets * PACKET_FLITS * FLIT_BYTES) as u64;
        Op::Put { to: to as u32, bytes, flag: None, gap: Gap::Default, order: Order::None }
    }
}

/// A pattern's steps: few enough to be looked at flit by flit, but many of short messages, whose time is a matter of what is drawn.
fn steps_of(pattern: &str, sizes: &[usize], wraps: bool, packets: usize) -> Vec<Step> {
    let (stride, permutations) = if packets > 4 || sizes[0] > 8 { (5, 8) } else { (1, 40) };
    let numbers = (1..NODES).step_by(stride);
    let each = |to: &dyn Fn(usize) -> Vec<usize>| (0..NODES).map(to).collect::<Step>();
    match pattern {
        "ring" => vec![each(&|rank| vec![(rank + 1) % NODES; 4])],
        "halo" => vec![each(&|rank| neighbours(rank, sizes, wraps))],
        "shift-pairwise" => numbers.map(|step| each(&|rank| vec![(rank + step) % NODES])).collect(),
        "xor-pairwise" => numbers.map(|step| each(&|rank| vec![rank ^ step])).collect(),
        _ => (1..=permutations)
            .map(|seed| permutation(seed).into_iter().map(|to| vec![to]).collect())
            .collect(),
    }
}

fn neighbours(rank: usize, sizes: &[usize], wraps: bool) -> Vec<usize> {
    let mut found = Vec::new();
    let mut stride = 1;
    for &size in sizes {
        let at = rank / stride % size;
        let place = |coordinate: usize| rank - at * stride + coordinate * stride;
        if wraps || at + 1 < size {
            found.push(place((at + 1) % size));
        }
        if wraps || at > 0 {
            found.push(place((at + size - 1) % size));
        }
        stride *= size;
    }
    found
}

/// Everybody sends to somebody else, and everybody to a different one.
fn permutation(seed: u64) -> Vec<usize> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut order: Vec<usize> = (0..NODES).collect();
    for index in (1..NODES).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(index, (random >> 33) as usize % (index + 1));
    }
    // Around one circle of all of them nobody sends to himself.
    let mut to = vec![0; NODES];
    (0..NODES).for_each(|index| to[order[index]] = order[(index + 1) % NODES]);
    to
}

/// Both models on one pattern with messages of one size, in microseconds. The set-up is that of the network in short form.
fn compare(net: &str, pattern: &str, packets: usize) -> (f64, f64) {
    let network = Network::parse_short(&format!("{net},buffers=2,ties=random")).unwrap();
    let (kind, rest) = net.split_once(':').unwrap();
    let text = rest.split(',').next().unwrap();
    let sizes: Vec<usize> = text.split('x').map(|size| size.parse().unwrap()).collect();
    let wraps = kind == "torus";
    let steps = steps_of(pattern, &sizes, wraps, packets);
    let options = Options { sync_steps: true, ..Options::default() };
    let report = simulate(&network, &Schedule { steps: &steps, packets }, &options).unwrap();
    assert_eq!(report.steps.len(), steps.len());
    let ours = report.steps.iter().map(|step| step.time.as_us()).sum();
    let entrances = network.parameters.injection_slots as usize;
    let in_flits = |(seed, step): (u64, &Step)| {
        Model::new(&sizes, wraps, Setup { buffer_packets: 2, entrances, seed }).exchange(packets, step)
    };
    (ours, (1..).zip(&steps).map(in_flits).sum())
}

/// Compares all patterns on a network, prints a line of the table for each, and gives what deviates by more than 10 %. With `KUMIKI_FLITS` in
/// the environment also those of 16 and 64 packets, which takes minutes.
fn deviations(net: &str, longest: usize) -> Vec<String> {
    let longest = if std::env::var_os("KUMIKI_FLITS").is_some() { 64 } else { longest };
    let mut wrong = Vec::new();
    for pattern in ["ring", "halo", "shift-pairwise", "xor-pairwise", "random-permutation"] {
        let mut line = format!("| {net} | {pattern} |");
        for packets in [1, 2, 4, 8, 16, 64].into_iter().filter(|&packets| packets <= longest) {
            let (ours, flits) = compare(net, pattern, packets);
            let deviation = 100.0 * (ours / flits - 1.0);
            line += &format!(" {ours:.1} | {deviation:+.1} % |");
            if deviation.abs() > 10.0 {
                wrong.push(format!("{net} {pattern} of {packets} packets: {ours:.1} against {flits:.1} µs"));
            }
        }
        println!("{line}");
    }
    wrong
}

#[test]
fn a_torus_of_4x4x4_agrees_with_flits_within_10_percent() {
    assert_eq!(deviations("torus:4x4x4", 8), [] as [String; 0]);
}

#[test]
fn a_torus_of_8x8_agrees_with_flits_within_10_percent() {
    assert_eq!(deviations("torus:8x8", 8), [] as [String; 0]);
}

#[test]
fn a_torus_with_one_slot_agrees_with_flits_that_enter_by_one_channel() {
    assert_eq!(deviations("torus:8x8,slots=1", 8), [] as [String; 0]);
}

#[test]
fn a_mesh_of_8x8_agrees_with_flits_within_10_percent() {
    assert_eq!(deviations("mesh:8x8", 8), [] as [String; 0]);
}

#[test]
fn long_rings_that_keep_no_place_free_agree_with_flits_within_10_percent() {
    for net in ["torus:64,injection_room=1", "torus:16x4,injection_room=1"] {
        assert_eq!(deviations(net, 4), [] as [String; 0]);
    }
}
