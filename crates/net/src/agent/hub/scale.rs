//! A job of a million ranks, driven as a value: the hub's work and memory grow with the ranks, and no faster.

use super::*;
use crate::agent::link::Shared;
use crate::os::heap;

const RANKS: u32 = 1 << 20;
const NODES: u32 = 1 << 13;
const DEATHS: u32 = 1_000;

/// What the owner of the hub had to do.
#[derive(Default, Debug)]
struct Work {
    to_one: u64,
    to_all: u64,
    /// Bytes that each node is sent by messages to all.
    bytes_a_node: usize,
    most_bytes: usize,
    finished: Option<i32>,
}

impl Work {
    /// Does what the hub wants, as far as it can be done without agents: a message for all is made once.
    fn perform(&mut self, hub: &mut Hub) {
        while let Some(effect) = hub.next_effect() {
            match effect {
                Effect::Send(_, message) => {
                    let _ = message.encode();
                    self.to_one += 1;
                }
                Effect::SendAll(_, message) => {
                    let bytes = message.encode();
                    let _ = Shared::new(&bytes);
                    self.to_all += 1;
                    self.bytes_a_node += bytes.len();
                    self.most_bytes = self.most_bytes.max(bytes.len());
                }
                Effect::Report(_) => {}
                Effect::Finished(code) => self.finished = Some(code),
            }
        }
    }
}

/// Every node says these things of each of its ranks; then the hub goes on.
fn all_say(hub: &mut Hub, work: &mut Work, now_ms: &mut u64, say: impl Fn(u32, u32) -> Option<ToHub>) {
    let each = RANKS / NODES;
    for node in 0..NODES {
        for local in 0..each {
            if let Some(message) = say(node * each + local, local) {
                hub.receive(node, message, *now_ms);
            }
        }
        // Many nodes speak within a millisecond.
        *now_ms += (node % 16 == 0) as u64;
        hub.tick(*now_ms);
        work.perform(hub);
    }
}

#[test]
#[cfg_attr(miri, ignore = "a million ranks take too long")]
fn a_million_ranks_on_eight_thousand_nodes_start_lose_a_thousand_and_end() {
    let before = heap::bytes();
    heap::most_bytes();
    let each = RANKS / NODES;
    let nodes = (0..NODES).map(|node| (format!("node {node}"), (node * each..(node + 1) * each).collect()));
    let plan = Plan {
        ranks: RANKS,
        nodes: nodes.collect(),
        terms: Terms { continue_on_loss: 1, ..Terms::default() },
        template: None,
    };
    let (mut hub, mut work, mut now_ms) = (Hub::new(plan, 0), Work::default(), 0);
    for node in 0..NODES {
        let address = SocketAddr::from(([10, 0, (node >> 8) as u8, node as u8], 1000));
        hub.receive(node, ToHub::Prepared { address }, now_ms);
        work.perform(&mut hub);
    }
    all_say(&mut hub, &mut work, &mut now_ms, |_, local| Some(ToHub::Attached { local }));
    assert_eq!(hub.world, World::Ready);
    let dies = |rank: u32| rank % (RANKS / DEATHS) == 7 && rank / (RANKS / DEATHS) < DEATHS;
    all_say(&mut hub, &mut work, &mut now_ms, |rank, local| {
        dies(rank).then_some(ToHub::Ended { local, ending: Ending::Signal(9) })
    });
    assert_eq!(hub.members.count(Standing::Lost), DEATHS);
    all_say(&mut hub, &mut work, &mut now_ms, |rank, local| {
        (!dies(rank)).then_some(ToHub::Left { local, barriers: 2 })
    });
    all_say(&mut hub, &mut work, &mut now_ms, |rank, local| {
        (!dies(rank)).then_some(ToHub::Ended { local, ending: Ending::Code(0) })
    });
    for node in 0..NODES {
        hub.receive(node, ToHub::Done, now_ms);
    }
    work.perform(&mut hub);
    let bytes_a_rank = (heap::most_bytes() - before) as f64 / RANKS as f64;
    println!("{bytes_a_rank:.1} bytes a rank, {} walks over all ranks, {work:?}", hub.members.walks.get());
    assert_eq!(work.finished, Some(137));
    assert!(bytes_a_rank <= 128.0, "{bytes_a_rank}");
    assert!(hub.members.walks.get() <= 4, "{} walks over all ranks", hub.members.walks.get());
    assert!(work.to_all <= DEATHS as u64 + 200, "{work:?}");
    assert!(work.to_one == 0, "{work:?}");
}
