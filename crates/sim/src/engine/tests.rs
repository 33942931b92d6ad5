//! What one message, a few operations, and a wrong program give.

use crate::{
    simulate, Engine, Error, EventQueue, Gap, Handle, Network, Op, Options, Order, Report, Script, Source,
    Time, View, Wait, Workload,
};

/// A program that is a list of operations for each rank.
struct Listed(Vec<Vec<Op>>);

struct Items<'a>(std::slice::Iter<'a, Op>);

impl Workload for Listed {
    fn name(&self) -> String {
        "listed".to_owned()
    }
    fn ranks(&self) -> u32 {
        self.0.len() as u32
    }
    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        Box::new(Items(self.0[rank as usize].iter()))
    }
}

impl Script for Items<'_> {
    fn next(&mut self, _view: &View<'_>) -> Op {
        self.0.next().copied().unwrap_or(Op::End)
    }
}

const DONE: Op = Op::Wait(Wait::All);

fn send(to: u32, bytes: u64, tag: u64) -> Op {
    Op::Send { to, bytes, tag, gap: Gap::Default, order: Order::None }
}

fn recv(from: u32, tag: u64) -> Op {
    Op::Recv { from: Source::Rank(from), bytes: u64::MAX, tag: Some(tag) }
}

fn put(to: u32, bytes: u64, flag: Option<u64>, order: Order) -> Op {
    Op::Put { to, bytes, flag, gap: Gap::Default, order }
}

fn run(network: &str, ranks: Vec<Vec<Op>>) -> Result<Report, Error> {
    let network = Network::parse_short(network).unwrap();
    simulate(&network, &Listed(ranks), &Options::default())
}

fn time(network: &str, ranks: Vec<Vec<Op>>) -> Time {
    run(network, ranks).unwrap().time
}

/// Ranks that do nothing, with a few that do something.
fn among(count: u32, busy: &[(u32, Vec<Op>)]) -> Vec<Vec<Op>> {
    let find =
        |rank| busy.iter().find(|(busy, _)| *busy == rank).map(|(_, ops)| ops.clone()).unwrap_or_default();
    (0..count).map(find).collect()
}

#[test]
fn one_message_takes_the_sum_of_its_parts() {
    // o_send + hops × (latency + router) + m / B + o_recv, on every topology and engine.
    for (net, ranks, to, hops) in [
        ("torus:8x8", 64, 36, 8),
        ("torus:8x8,channels=dateline", 64, 7, 1),
        ("mesh:8x8", 64, 63, 14),
        ("torus:8x8,routing=adaptive", 64, 36, 8),
        ("torus:4x4,nic_bandwidth=links", 16, 5, 2),
        ("fattree:levels=3,arity=4", 64, 63, 4),
        ("fattree:levels=3,arity=4,routing=adaptive", 64, 5, 2),
        ("fattree:levels=3,arity=4", 64, 1, 0),
        ("dragonfly:routers=4,nodes=2,globals=2", 72, 71, 3),
    ] {
        for bytes in [1u64, 2048, 5000, 65_536] {
            for engine in [Engine::Packets, Engine::Uncontended] {
                let mut network = Network::parse_short(net).unwrap();
                network.parameters.send_overhead = Time::from_ns(300);
                network.parameters.recv_overhead = Time::from_ns(200);
                let programs =
                    among(ranks, &[(0, vec![send(to, bytes, 1), DONE]), (to, vec![recv(0, 1), DONE])]);
                let options = Options { engine, ..Options::default() };
                let report = simulate(&network, &Listed(programs), &options).unwrap();
                let hops_time = network.parameters.hop() * hops;
                let bytes_time = network.parameters.link_bandwidth.time_of(bytes);
                assert_eq!(
                    report.time,
                    Time::from_ns(500) + hops_time + bytes_time,
                    "{net}, {bytes} bytes, {engine:?}"
                );
            }
        }
    }
}

#[test]
fn a_stream_gets_the_bandwidth_of_its_link() {
    for buffers in [1, 2, 8] {
        let puts = (0..50).map(|_| put(3, 65_536, None, Order::None)).chain([DONE]).collect();
        let report = run(&format!("torus:8,buffers={buffers}"), among(8, &[(0, puts)])).unwrap();
        assert_eq!(report.time, Time::from_ps(50 * 13_107_200) + Time::from_ns(600), "{buffers}");
        assert_eq!((report.packets, report.packet_hops), (1600, 4800));
        assert_eq!(report.bound, Time::from_ps(50 * 13_107_200));
    }
}

#[test]
fn headers_count_on_the_wire() {
    let plain = time("torus:8,header=0", among(8, &[(0, vec![put(1, 4096, None, Order::None), DONE])]));
    let headers = time("torus:8,header=64", among(8, &[(0, vec![put(1, 4096, None, Order::None), DONE])]));
    assert_eq!(headers, plain + Time::from_ps(2 * 64 * 200));
}

#[test]
fn rendezvous_waits_for_the_receiver() {
    let late = Op::Compute(Time::from_us(50));
    let programs = || among(8, &[(0, vec![send(1, 65_536, 1), DONE]), (1, vec![late, recv(0, 1), DONE])]);
    // Eager: it is there when the receiver comes. Rendezvous: it is asked for then.
    assert_eq!(time("torus:8", programs()), Time::from_us(50));
    let asked = Time::from_us(50) + Time::from_ns(100);
    assert_eq!(
        time("torus:8,rendezvous=1024", programs()),
        asked + Time::from_ns(100) + Time::from_ps(13_107_200)
    );
}

#[test]
fn receives_match_by_sender_and_tag_in_order() {
    let any = |tag| Op::Recv { from: Source::Any, bytes: 64, tag };
    let senders = |rank: u64| vec![send(2, 64, 10 + rank), send(2, 64, 20 + rank), DONE];
    let receives = vec![recv(1, 21), recv(0, 10), any(Some(11)), any(None), DONE];
    let network = Network::parse_short("torus:4").unwrap();
    let options = Options { record_operations: true, ..Options::default() };
    let programs = Listed(vec![senders(0), senders(1), receives, vec![]]);
    let report = simulate(&network, &programs, &options).unwrap();
    let peers: Vec<_> =
        report.operations.iter().filter(|op| op.rank == 2).map(|op| (op.handle, op.peer)).collect();
    let expected = [Some(1), Some(0), Some(1), Some(0)];
    assert_eq!(peers, (0..4).map(|at| (Handle(at), expected[at as usize])).collect::<Vec<_>>());
}

#[test]
fn gets_copies_and_atomics_go_there_and_back() {
    let hop = 100;
    let bytes = Time::from_ps(13_107_200);
    let get = Op::Get { from: 2, bytes: 65_536, gap: Gap::Default, order: Order::None };
    assert_eq!(time("torus:8", among(8, &[(0, vec![get, DONE])])), Time::from_ns(4 * hop) + bytes);
    // Rank 0 has rank 2 push to rank 3, which tells rank 0.
    let copy = Op::Copy { to: 3, from: 2, bytes: 65_536, flag: None, gap: Gap::Default, order: Order::None };
    assert_eq!(time("torus:8", among(8, &[(0, vec![copy, DONE])])), Time::from_ns((2 + 1 + 3) * hop) + bytes);
    let atomic = Op::Atomic { to: 4, order: Order::None };
    let report = time("torus:8,atomic_time=30ns", among(8, &[(0, vec![atomic, DONE])]));
    assert_eq!(report, Time::from_ns(8 * hop + 30));
}

#[test]
fn orders_delay_what_they_should() {
    let bytes = Time::from_ps(13_107_200);
    let ack = Time::from_ns(200);
    let two = |order| vec![put(1, 65_536, None, Order::None), put(1, 65_536, Some(1), order), DONE];
    let pipelined = bytes * 2 + ack;
    let serial = (bytes + ack) * 2;
    for (order, expected) in [
        (Order::None, pipelined),
        (Order::Continue, pipelined),
        (Order::All, serial),
        (Order::Handle(Handle(0)), serial),
    ] {
        assert_eq!(time("torus:8", among(8, &[(0, two(order))])), expected, "{order:?}");
    }
    // A chain to two targets cannot pipeline.
    let apart = vec![put(1, 65_536, None, Order::None), put(7, 65_536, None, Order::Continue), DONE];
    assert_eq!(time("torus:8", among(8, &[(0, apart)])), serial);
}

#[test]
fn a_small_put_that_continues_does_not_overtake() {
    // The large one is split over both ways around and contends; the flag must still come after it.
    let noise = |to| vec![put(to, 1 << 20, None, Order::None), DONE];
    let chain = vec![put(4, 1 << 20, Some(1), Order::None), put(4, 8, Some(2), Order::Continue), DONE];
    let target = vec![Op::WaitFlag { flag: 2, count: 1 }, Op::WaitFlag { flag: 1, count: 1 }];
    let network = Network::parse_short("torus:8,routing=adaptive,slots=8").unwrap();
    let programs = among(8, &[(0, chain), (1, noise(4)), (2, noise(4)), (4, target)]);
    let options = Options { record_timeline: true, ..Options::default() };
    let report = simulate(&network, &Listed(programs), &options).unwrap();
    let waits: Vec<_> = report.timeline.iter().filter(|span| span.rank == 4).collect();
    assert_eq!(waits.len(), 1, "the second flag was there when the first came: {waits:?}");
}

#[test]
fn flags_are_counted_and_barriers_wait_for_all() {
    let raise = |rank: u32| {
        vec![Op::Compute(Time::from_us(u64::from(rank))), put(0, 8, Some(5), Order::None), Op::Barrier]
    };
    let waits = vec![Op::WaitFlag { flag: 5, count: 3 }, Op::Barrier];
    let report = run("torus:4,barrier_time=1us", vec![waits, raise(1), raise(2), raise(3)]).unwrap();
    let last = Time::from_us(3) + Time::from_ns(100) + Time::from_ps(1600) + Time::from_us(1);
    assert_eq!(report.rank_times, vec![last; 4]);
}

#[test]
fn a_flag_is_seen_its_overhead_after_it_was_raised_and_at_once_if_that_is_long_ago() {
    let net = "torus:4,flag_overhead=1us";
    let there = Time::from_ns(100) + Time::from_ps(1600);
    let waits = |work: u64| vec![Op::Compute(Time::from_ns(work)), Op::WaitFlag { flag: 1, count: 1 }];
    let rank_time = |work| {
        let programs = among(4, &[(0, vec![put(1, 8, Some(1), Order::None)]), (1, waits(work))]);
        run(net, programs).unwrap().rank_times[1]
    };
    assert_eq!(rank_time(0), there + Time::from_us(1));
    assert_eq!(rank_time(500), there + Time::from_us(1));
    assert_eq!(rank_time(5000), Time::from_us(5));
}

#[test]
fn an_interface_rests_after_every_message() {
    let puts = |count| (0..count).map(|_| put(1, 64, None, Order::None)).chain([DONE]).collect::<Vec<_>>();
    let one = Time::from_ns(200) + Time::from_ps(12_800);
    for engine in [Engine::Packets, Engine::Uncontended] {
        for count in [1, 4] {
            let network = Network::parse_short("torus:4,nics=1,message_time=2us").unwrap();
            let options = Options { engine, ..Options::default() };
            let report = simulate(&network, &Listed(among(4, &[(0, puts(count))])), &options).unwrap();
            let rests = Time::from_us(2) + Time::from_ps(12_800);
            assert_eq!(report.time, one + rests * (count as u64 - 1), "{engine:?}");
        }
    }
}

#[test]
fn ranks_of_one_node_copy_through_memory() {
    let network = "torus:4,ranks_per_node=2,memory_bandwidth=10GB/s";
    let report = run(network, vec![vec![send(1, 10_000, 1), DONE], vec![recv(0, 1), DONE]]).unwrap();
    assert_eq!((report.time, report.packets), (Time::from_us(1), 0));
}

#[test]
fn interfaces_share_the_messages_of_a_node() {
    let puts = |_| vec![put(1, 65_536, None, Order::None), put(7, 65_536, None, Order::None), DONE];
    let bytes = Time::from_ps(13_107_200);
    let ack = Time::from_ns(200);
    let net = |nics| format!("torus:8,nic_bandwidth=5GB/s,nics={nics}");
    assert_eq!(time(&net(1), among(8, &[(0, puts(0))])), bytes * 2 + ack);
    assert_eq!(time(&net(2), among(8, &[(0, puts(0))])), bytes + ack);
}

#[test]
fn a_gap_delays_the_packets_of_a_message() {
    let gap = Time::from_ns(500);
    let paced = Op::Put { to: 1, bytes: 8192, flag: None, gap: Gap::Fixed(gap), order: Order::None };
    let plain = time("torus:8", among(8, &[(0, vec![put(1, 8192, None, Order::None), DONE])]));
    assert_eq!(time("torus:8", among(8, &[(0, vec![paced, DONE])])), plain + gap * 3);
}

#[test]
fn wrong_programs_are_named() {
    let error = |ranks| run("torus:4", ranks).unwrap_err().to_string();
    assert_eq!(
        error(vec![vec![Op::Compute(Time::from_ns(1)), put(9, 1, None, Order::None)], vec![]]),
        "rank 0, operation 1: names rank 9, but there are only 2"
    );
    let early = vec![vec![Op::Wait(Wait::Handle(Handle(3)))], vec![]];
    assert!(error(early).contains("waits for operation 3, which is not issued yet"));
    let small = Op::Recv { from: Source::Any, bytes: 10, tag: None };
    assert!(error(vec![vec![send(1, 11, 0)], vec![small, DONE]])
        .contains("receives 11 bytes from rank 0 (tag 0) into room for 10"));
    assert!(error(vec![vec![]; 5]).contains("has room for 1 to 4"));
}

#[test]
fn an_unmatched_receive_is_a_deadlock_that_names_it() {
    let Err(Error::Deadlock(deadlock)) = run("torus:4", vec![vec![recv(1, 7), DONE], vec![send(0, 1, 8)]])
    else {
        panic!("no deadlock")
    };
    assert_eq!(deadlock.blocked.len(), 1);
    assert_eq!(deadlock.blocked[0].on, Some(1));
    assert_eq!(deadlock.blocked[0].what, "a message from rank 1, which has ended with tag 7; none is sent");
}

#[test]
fn a_cyclic_wait_is_a_deadlock_that_names_the_circle() {
    let ring = |rank: u32| vec![recv((rank + 1) % 3, 0), DONE, send((rank + 2) % 3, 8, 0)];
    let error = run("torus:4", (0..3).map(ring).collect()).unwrap_err();
    assert!(error.to_string().ends_with("they wait in a circle: 0 → 1 → 2 → 0"), "{error}");
    let lonely =
        run("torus:4", vec![vec![Op::Barrier], vec![Op::WaitFlag { flag: 3, count: 2 }]]).unwrap_err();
    assert!(
        lonely.to_string().contains("rank 1 waits for flag 3 to be raised 2 times (it is at 0)"),
        "{lonely}"
    );
    assert!(lonely.to_string().contains("rank 0 waits for rank 1 to come to the barrier"), "{lonely}");
}

#[test]
fn both_queues_give_the_same_report() {
    let network = Network::parse_short("torus:4x4,buffers=1,ties=random").unwrap();
    let mut pattern = crate::Pattern::new(crate::PatternKind::Alltoall, &network);
    pattern.bytes = 10_000;
    let run = |queue| {
        let options = Options { queue, record_operations: true, ..Options::default() };
        let mut report = crate::run_pattern(&network, &pattern, &options).unwrap();
        report.cpu_seconds = 0.0;
        report
    };
    assert_eq!(run(EventQueue::Wheel), run(EventQueue::Heap));
}
