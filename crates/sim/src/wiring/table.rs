//! Ways by table: any graph, and any topology for which a site gives its own routing. Where links could wait for each other in a circle, the class
//! of channels is the number of hops so far; where they cannot, one class is enough.

use std::collections::VecDeque;

use super::{draw, Candidate, Choice, Link, Parts, Speed, Way, Ways, Wiring, NONE};
use crate::network::{Graph, RoutingTable};
use crate::{Error, Parameters};

/// More classes of channels than this would make buffers that no router has.
const MOST_CLASSES: usize = 32;
/// No way leads on from here.
const NO_PORT: u16 = u16::MAX;
/// Tables larger than this are refused.
const MOST_ENTRIES: u64 = 1 << 30;

/// For each router and node the port to take.
pub(crate) struct Table {
    ports: Vec<u16>,
    /// Whether the class is the number of hops.
    by_hops: bool,
}

/// For each router and each other one the number of hops between them; every link that brings a packet nearer is open.
pub(crate) struct Distances {
    hops: Vec<u16>,
    routers: u32,
    routing: Choice,
}

pub(super) fn build(graph: &Graph, parameters: &Parameters, routing: Choice) -> Result<Wiring, Error> {
    let wrong = |what: String| Error::Network(format!("graph: {what}"));
    if let Some(node) = graph.nodes.iter().position(|&router| router >= graph.routers) {
        let router = graph.nodes[node];
        return Err(wrong(format!(
            "node {node} hangs on router {router}, but there are only {}",
            graph.routers
        )));
    }
    let mut speeds = vec![super::speed_of(parameters, 1.0)];
    let mut links = Vec::with_capacity(graph.links.len());
    for (index, link) in graph.links.iter().enumerate() {
        if link.from >= graph.routers || link.to >= graph.routers || link.from == link.to {
            return Err(wrong(format!(
                "link {index} goes from router {} to {}: expected two different ones below {}",
                link.from, link.to, graph.routers
            )));
        }
        let bandwidth = link.bandwidth.unwrap_or(parameters.link_bandwidth);
        let wire_bytes = u64::from(parameters.packet_bytes) + u64::from(parameters.header_bytes);
        let latency = link.latency.unwrap_or(parameters.link_latency);
        let speed = Speed {
            bandwidth,
            hop_ps: (latency + parameters.router_delay).as_ps(),
            packet_ps: bandwidth.time_of(wire_bytes).as_ps(),
        };
        let known = speeds.iter().position(|other| *other == speed).unwrap_or_else(|| {
            speeds.push(speed);
            speeds.len() - 1
        });
        let speed =
            u16::try_from(known).map_err(|_| wrong("more than 65535 different kinds of links".to_owned()))?;
        links.push(Link { from: link.from, to: link.to, speed, lane: 0 });
    }
    links.sort_by_key(|link| (link.from, link.to));
    for index in 1..links.len() {
        if (links[index].from, links[index].to) == (links[index - 1].from, links[index - 1].to) {
            links[index].lane = links[index - 1].lane + 1;
        }
    }
    let mut first_link = vec![0u32; graph.routers as usize + 1];
    for link in &links {
        first_link[link.from as usize + 1] += 1;
    }
    for router in 0..graph.routers as usize {
        first_link[router + 1] += first_link[router];
    }
    let parts = Parts {
        links,
        first_link,
        speeds,
        nodes: graph.nodes.len() as u32,
        nodes_per_router: 1,
        node_routers: Some(graph.nodes.clone()),
        classes: 1,
        several_ways: routing == Choice::Adaptive,
    };
    let empty = Ways::Table(Table { ports: Vec::new(), by_hops: false });
    let mut wiring = parts.finish(empty, parameters, routing);
    let distances = distances(&wiring, routing)?;
    check_connected(&wiring, &distances)?;
    if routing == Choice::Deterministic {
        let ports = (0..wiring.routers)
            .flat_map(|router| (0..wiring.nodes).map(move |node| (router, node)))
            .map(|(router, node)| distances.first_port(router, wiring.router_of(node), &wiring))
            .collect();
        install(&mut wiring, ports)?;
    } else {
        wiring.classes = classes_for(distances.longest())?;
        wiring.ways = Ways::Distances(distances);
    }
    Ok(wiring)
}

/// Replaces the ways of a topology by those of a table.
pub(super) fn use_table(wiring: &mut Wiring, table: &RoutingTable) -> Result<(), Error> {
    let wanted = wiring.routers as usize * wiring.nodes as usize;
    if table.next.len() != wanted {
        return Err(Error::Network(format!(
            "the routing table has {} entries: expected {wanted}, one for each of {} routers and {} nodes",
            table.next.len(),
            wiring.routers,
            wiring.nodes
        )));
    }
    let mut ports = vec![NO_PORT; wanted];
    for router in 0..wiring.routers {
        for node in 0..wiring.nodes {
            let end = wiring.router_of(node);
            if end == router {
                continue;
            }
            let index = router as usize * wiring.nodes as usize + node as usize;
            let next = table.next[index];
            let mut links = wiring.links_of(router);
            let first = links.start;
            let link = links.find(|&link| wiring.links[link as usize].to == next && next != NONE).ok_or_else(|| {
                Error::Network(format!(
                    "the routing table sends packets for node {node} from router {router} to {next}, but no link goes there"
                ))
            })?;
            ports[index] = (link - first) as u16;
        }
    }
    wiring.several_ways = false;
    install(wiring, ports)
}

/// Takes ports as the ways of a network, after a look at whether all of them arrive, and whether they could deadlock.
fn install(wiring: &mut Wiring, ports: Vec<u16>) -> Result<(), Error> {
    let mut longest = 0;
    for node in 0..wiring.nodes {
        let end = wiring.router_of(node);
        // Hops from each router, found by following its way to one that is known.
        let mut known = vec![usize::MAX; wiring.routers as usize];
        known[end as usize] = 0;
        for start in 0..wiring.routers {
            let mut passed = Vec::new();
            let mut at = start;
            while known[at as usize] == usize::MAX {
                let port = ports[at as usize * wiring.nodes as usize + node as usize];
                if port == NO_PORT {
                    break; // A router that nothing comes through; that nodes reach each other is checked before.
                }
                passed.push(at);
                if passed.len() > wiring.routers as usize {
                    return Err(Error::Network(format!(
                        "packets for node {node} that come to router {start} go round in a circle and never arrive"
                    )));
                }
                at = wiring.links[wiring.first_link[at as usize] as usize + port as usize].to;
            }
            if known[at as usize] == usize::MAX {
                continue;
            }
            for router in passed.into_iter().rev() {
                known[router as usize] = known[at as usize] + 1;
                at = router;
            }
        }
        longest = (0..wiring.nodes)
            .map(|from| known[wiring.router_of(from) as usize])
            .filter(|&hops| hops != usize::MAX)
            .fold(longest, usize::max);
    }
    let by_hops = can_deadlock(wiring, &ports);
    wiring.classes = if by_hops { classes_for(longest)? } else { 1 };
    wiring.ways = Ways::Table(Table { ports, by_hops });
    Ok(())
}

fn classes_for(longest: usize) -> Result<u8, Error> {
    if longest > MOST_CLASSES {
        return Err(Error::Network(format!(
            "the longest way has {longest} hops, and each needs a class of channels: at most {MOST_CLASSES} are possible; \
             give a routing table whose links cannot wait for each other in a circle"
        )));
    }
    Ok(longest.max(1) as u8)
}

/// Whether links can wait for each other in a circle: a link waits for those that packets take after it.
fn can_deadlock(wiring: &Wiring, ports: &[u16]) -> bool {
    let count = wiring.links.len();
    let mut after: Vec<Vec<u32>> = vec![Vec::new(); count];
    for node in 0..wiring.nodes {
        let end = wiring.router_of(node);
        for (index, link) in wiring.links.iter().enumerate() {
            if link.to == NONE || link.to == end || link.from == end {
                continue;
            }
            let step = |router: u32| {
                let port = ports[router as usize * wiring.nodes as usize + node as usize];
                (port != NO_PORT).then(|| wiring.first_link[router as usize] + u32::from(port))
            };
            if step(link.from) != Some(index as u32) {
                continue;
            }
            if let Some(next) = step(link.to) {
                if !after[index].contains(&next) {
                    after[index].push(next);
                }
            }
        }
    }
    // Links that nothing waits for are taken away until none is left; what remains is a circle.
    let mut waited = vec![0u32; count];
    after.iter().flatten().for_each(|&next| waited[next as usize] += 1);
    let mut free: Vec<u32> = (0..count as u32).filter(|&link| waited[link as usize] == 0).collect();
    let mut taken = 0;
    while let Some(link) = free.pop() {
        taken += 1;
        for &next in &after[link as usize] {
            waited[next as usize] -= 1;
            if waited[next as usize] == 0 {
                free.push(next);
            }
        }
    }
    taken < count
}

fn distances(wiring: &Wiring, routing: Choice) -> Result<Distances, Error> {
    let routers = wiring.routers;
    if u64::from(routers) * u64::from(routers.max(wiring.nodes)) > MOST_ENTRIES {
        return Err(Error::Network(format!(
            "a graph of {routers} routers and {} nodes is too large",
            wiring.nodes
        )));
    }
    let mut back: Vec<Vec<u32>> = vec![Vec::new(); routers as usize];
    for link in &wiring.links {
        back[link.to as usize].push(link.from);
    }
    let mut hops = vec![u16::MAX; routers as usize * routers as usize];
    let mut queue = VecDeque::new();
    for end in 0..routers {
        let mut set = |from: u32, value: u16| hops[from as usize * routers as usize + end as usize] = value;
        let mut seen = vec![false; routers as usize];
        seen[end as usize] = true;
        set(end, 0);
        queue.push_back((end, 0));
        while let Some((at, distance)) = queue.pop_front() {
            for &from in &back[at as usize] {
                if !std::mem::replace(&mut seen[from as usize], true) {
                    set(from, distance + 1);
                    queue.push_back((from, distance + 1));
                }
            }
        }
    }
    Ok(Distances { hops, routers, routing })
}

fn check_connected(wiring: &Wiring, distances: &Distances) -> Result<(), Error> {
    let Some(first) = (wiring.nodes > 0).then(|| wiring.router_of(0)) else { return Ok(()) };
    for node in 1..wiring.nodes {
        let router = wiring.router_of(node);
        for (from, to) in [(first, router), (router, first)] {
            if distances.between(from, to) == u16::MAX {
                return Err(Error::Network(format!(
                    "the graph is not connected: no way leads from router {from} to router {to} (nodes 0 and {node})"
                )));
            }
        }
    }
    Ok(())
}

impl Table {
    pub(super) fn next(&self, way: &mut Way, router: u32, wiring: &Wiring) -> Candidate {
        let port = self.ports[router as usize * wiring.nodes as usize + way.dest as usize];
        let class = if self.by_hops { way.stage.min(wiring.classes - 1) } else { 0 };
        Candidate { link: wiring.first_link[router as usize] + u32::from(port), class }
    }

    pub(super) fn bytes(&self) -> usize {
        self.ports.len() * size_of::<u16>()
    }
}

impl Distances {
    #[inline]
    fn between(&self, from: u32, to: u32) -> u16 {
        self.hops[from as usize * self.routers as usize + to as usize]
    }

    pub(super) fn hops(&self, start: u32, end: u32) -> u32 {
        u32::from(self.between(start, end))
    }

    fn longest(&self) -> usize {
        self.hops.iter().filter(|&&hops| hops != u16::MAX).max().map_or(0, |&hops| usize::from(hops))
    }

    fn nearer<'a>(&'a self, router: u32, end: u32, wiring: &'a Wiring) -> impl Iterator<Item = u32> + 'a {
        let here = self.between(router, end);
        wiring.links_of(router).filter(move |&link| {
            let there = self.between(wiring.links[link as usize].to, end);
            there != u16::MAX && there + 1 == here
        })
    }

    fn first_port(&self, router: u32, end: u32, wiring: &Wiring) -> u16 {
        let first = wiring.first_link[router as usize];
        self.nearer(router, end, wiring).next().map_or(NO_PORT, |link| (link - first) as u16)
    }

    pub(super) fn next(&self, way: &mut Way, router: u32, wiring: &Wiring) -> Candidate {
        debug_assert!(self.routing != Choice::Adaptive, "adaptive packets have several ways");
        let end = wiring.router_of(way.dest);
        let count = self.nearer(router, end, wiring).count() as u32;
        let drawn = draw(way.salt, router, count) as usize;
        let link = self.nearer(router, end, wiring).nth(drawn).expect("the graph is connected");
        Candidate { link, class: way.stage.min(wiring.classes - 1) }
    }

    pub(super) fn candidates(&self, way: &Way, router: u32, wiring: &Wiring, found: &mut Vec<Candidate>) {
        let class = way.stage.min(wiring.classes - 1);
        let end = wiring.router_of(way.dest);
        found.extend(self.nearer(router, end, wiring).map(|link| Candidate { link, class }));
    }

    pub(super) fn bytes(&self) -> usize {
        self.hops.len() * size_of::<u16>()
    }
}
