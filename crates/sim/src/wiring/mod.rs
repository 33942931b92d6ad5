//! Routers, links and ways of a network, made from its description. A way is found hop by hop: [`Ways`] says which link a packet takes next and on
//! which class of virtual channels, so that no circle of buffers can wait for itself.
//!
//! | file | what |
//! |---|---|
//! | `grid` | tori and meshes: dimension order, or adaptive with an escape class |
//! | `tree` | fat trees: up, then down |
//! | `dragonfly` | within the group, over a global link, within the group |
//! | `table` | graphs, and every topology with a table of its own |

mod dragonfly;
mod grid;
mod table;
mod tree;

use crate::random::mix;
use crate::{Bandwidth, Error, Network, Parameters, Routing, Ties, Topology};
use dragonfly::Dragonfly;
pub(crate) use grid::{Grid, Move};
use table::{Distances, Table};
use tree::Tree;

/// No link, no router, no packet.
pub(crate) const NONE: u32 = u32::MAX;

/// A directed link between routers. A grid has some that lead nowhere: their `to` is [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// An index into [`Wiring::speeds`].
    pub(crate) speed: u16,
    /// Which of several parallel links it is.
    pub(crate) lane: u16,
}

/// How fast a kind of links is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speed {
    pub(crate) bandwidth: Bandwidth,
    /// Time of a head from one router to the next, in picoseconds.
    pub(crate) hop_ps: u64,
    /// Time of a full packet, in picoseconds.
    pub(crate) packet_ps: u64,
}

/// A network as routers and links.
pub(crate) struct Wiring {
    pub(crate) routers: u32,
    pub(crate) nodes: u32,
    /// Ordered by the router that they leave.
    pub(crate) links: Vec<Link>,
    /// For each router its first link, and the number of links at the end.
    pub(crate) first_link: Vec<u32>,
    pub(crate) speeds: Vec<Speed>,
    /// Whether heads take the same time on all links.
    hops_alike: bool,
    /// How many classes of virtual channels the ways need.
    pub(crate) classes: u8,
    /// Whether packets may have several ways open at once.
    pub(crate) several_ways: bool,
    pub(crate) ways: Ways,
    ties: Ties,
    routing: Choice,
    /// The router of each node, where it is not the node divided by `nodes_per_router`.
    node_routers: Option<Vec<u32>>,
    nodes_per_router: u32,
}

/// The routing without its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Deterministic,
    Adaptive,
    Random,
    Ecmp,
}

/// How packets find their way.
pub(crate) enum Ways {
    Grid(Grid),
    Tree(Tree),
    Dragonfly(Dragonfly),
    Table(Table),
    Distances(Distances),
}

/// What a packet carries to find its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// The node it goes to.
    pub(crate) dest: u32,
    /// Bits that decide where there is a choice; the low ones decide ties of the dimensions.
    pub(crate) salt: u32,
    /// In a grid: hops left in the dimension it is in, hops before the wrap-around link, and the port.
    left: u16,
    wrap: u16,
    port: u8,
    /// In a grid the next dimension, elsewhere the hops so far.
    pub(crate) stage: u8,
    class: u8,
    /// A byte that the way does not need, for whoever carries the packet.
    pub(crate) label: u8,
}

const _: () = assert!(size_of::<Way>() == 16);

impl Way {
    /// The beginning of a way to a node.
    #[inline]
    pub(crate) fn to(dest: u32, salt: u32) -> Way {
        Way { dest, salt, ..Way::default() }
    }

    /// Whether a packet in a grid goes on in its dimension.
    #[inline(always)]
    pub(crate) fn is_straight(&self) -> bool {
        self.left > 0
    }
}

/// A link that a packet may take next, and on which class of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) link: u32,
    pub(crate) class: u8,
}

impl Wiring {
    /// Builds a network, or says why it cannot be built.
    pub(crate) fn new(network: &Network) -> Result<Wiring, Error> {
        let parameters = &network.parameters;
        parameters.check()?;
        let nodes = u32::try_from(network.nodes())
            .ok()
            .filter(|&nodes| nodes > 0 && nodes <= 1 << 24)
            .ok_or_else(|| {
                Error::Network(format!(
                    "{} nodes: between 1 and {} can be simulated",
                    network.nodes(),
                    1 << 24
                ))
            })?;
        let bytes = u64::from(nodes) * crate::memory::NODE_BYTES;
        crate::memory::check(&format!("{nodes} nodes"), bytes).map_err(Error::Network)?;
        let routing = Choice::of(&parameters.routing);
        let mut wiring = match &network.topology {
            Topology::Grid(dimensions) => grid::build(dimensions, parameters, routing)?,
            Topology::FatTree { down, up, speed } => tree::build(down, up, speed, parameters, routing)?,
            Topology::Dragonfly { groups, routers, nodes, globals } => {
                dragonfly::build(*groups, *routers, *nodes, *globals, parameters, routing)?
            }
            Topology::Graph(graph) => table::build(graph, parameters, routing)?,
        };
        debug_assert_eq!(wiring.nodes, nodes);
        debug_assert_eq!(u64::from(wiring.routers), network.routers());
        if let Routing::Table(table) = &parameters.routing {
            table::use_table(&mut wiring, table)?;
        }
        Ok(wiring)
    }

    /// The router that a node hangs on.
    #[inline]
    pub(crate) fn router_of(&self, node: u32) -> u32 {
        match &self.node_routers {
            Some(routers) => routers[node as usize],
            None if self.nodes_per_router == 1 => node,
            None => node / self.nodes_per_router,
        }
    }

    /// The links that leave a router.
    pub(crate) fn links_of(&self, router: u32) -> std::ops::Range<u32> {
        self.first_link[router as usize]..self.first_link[router as usize + 1]
    }

    /// The bits that decide where a packet has a choice.
    #[inline]
    pub(crate) fn salt(&self, from: u32, to: u32, index: u32, drawn: impl FnOnce() -> u64) -> u32 {
        match (self.routing, self.ties, &self.ways) {
            (Choice::Ecmp, _, _) => mix(u64::from(from) << 32 | u64::from(to)) as u32,
            (Choice::Random, _, _) | (_, Ties::Random, _) => drawn() as u32,
            (_, Ties::Split, Ways::Grid(grid)) => grid.split_bits(self.router_of(from), index),
            _ => index << 8,
        }
    }

    /// The link that a packet at a router takes next. Call it once a hop: the packet remembers where it is.
    /// The packet must not be at its destination, and there must be one way only ([`Wiring::several_ways`]).
    #[inline(always)]
    pub(crate) fn next(&self, way: &mut Way, router: u32) -> Candidate {
        let candidate = match &self.ways {
            Ways::Grid(grid) => return grid.next(way, router),
            Ways::Tree(tree) => tree.next(way, router, self.routing),
            Ways::Dragonfly(dragonfly) => dragonfly.next(way, router, self.routing),
            Ways::Table(table) => table.next(way, router, self),
            Ways::Distances(distances) => distances.next(way, router, self),
        };
        way.stage = way.stage.saturating_add(1);
        candidate
    }

    /// Takes back the latest [`Wiring::next`] of a packet that has not moved since.
    pub(crate) fn back(&self, way: &mut Way) {
        match &self.ways {
            Ways::Grid(grid) => grid.back(way),
            _ => way.stage = way.stage.saturating_sub(1),
        }
    }

    /// Every link that a packet at a router may take next, when there are several ways.
    pub(crate) fn candidates(&self, way: &Way, router: u32, found: &mut Vec<Candidate>) {
        found.clear();
        match &self.ways {
            Ways::Grid(grid) => grid.candidates(way, router, self.routing, found),
            Ways::Tree(tree) => tree.candidates(way, router, found),
            Ways::Dragonfly(dragonfly) => dragonfly.candidates(way, router, found),
            Ways::Table(table) => {
                let mut copy = *way;
                found.push(table.next(&mut copy, router, self));
            }
            Ways::Distances(distances) => distances.candidates(way, router, self, found),
        }
    }

    /// How many links lie between two nodes on the way that packets take.
    pub(crate) fn hops(&self, from: u32, to: u32) -> u32 {
        let (start, end) = (self.router_of(from), self.router_of(to));
        match &self.ways {
            Ways::Grid(grid) => grid.hops(start, end),
            Ways::Tree(tree) => tree.hops(from, to),
            Ways::Dragonfly(dragonfly) => dragonfly.hops(start, end, to),
            Ways::Distances(distances) => distances.hops(start, end),
            Ways::Table(_) => {
                let mut hops = 0;
                self.walk(from, to, 0, |_| hops += 1);
                hops
            }
        }
    }

    /// The time of a head between two nodes, in picoseconds.
    pub(crate) fn flight_ps(&self, from: u32, to: u32) -> u64 {
        if self.several_ways || self.hops_alike {
            return u64::from(self.hops(from, to)) * self.speeds[0].hop_ps;
        }
        let mut sum = 0;
        self.walk(from, to, 0, |link| {
            sum += self.speeds[usize::from(self.links[link as usize].speed)].hop_ps
        });
        sum
    }

    /// The bandwidth of a link.
    pub(crate) fn bandwidth(&self, link: usize) -> Bandwidth {
        self.speeds[usize::from(self.links[link].speed)].bandwidth
    }

    /// Calls `link` for every link of the way of one packet. Not where there are several ways.
    pub(crate) fn walk(&self, from: u32, to: u32, salt: u32, mut link: impl FnMut(u32)) {
        let mut way = Way::to(to, salt);
        let (mut router, end) = (self.router_of(from), self.router_of(to));
        while router != end {
            let next = self.next(&mut way, router);
            link(next.link);
            router = self.links[next.link as usize].to;
        }
    }

    /// Whether the way between two nodes is always the same, ties aside.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.routing, Choice::Deterministic | Choice::Ecmp) || matches!(self.ways, Ways::Table(_))
    }

    /// Routers of the longest ring of a grid; 0 where there is none.
    pub(crate) fn longest_ring(&self) -> u32 {
        let Ways::Grid(grid) = &self.ways else { return 0 };
        grid.shape().filter(|&(_, wraps)| wraps).map(|(size, _)| size).max().unwrap_or(0)
    }

    /// The name of a link, for people.
    pub(crate) fn link_name(&self, link: u32) -> String {
        let Link { from, to, lane, .. } = self.links[link as usize];
        let lane = if lane == 0 { String::new() } else { format!(" lane {lane}") };
        match &self.ways {
            Ways::Grid(grid) => format!("link {} → {}{lane}", grid.place(from), grid.place(to)),
            _ => format!("link {from} → {to}{lane}"),
        }
    }

    /// The dimension and direction of a link of a grid.
    pub(crate) fn direction(&self, link: u32) -> Option<(u32, bool)> {
        match &self.ways {
            Ways::Grid(grid) => Some(grid.direction(link)),
            _ => None,
        }
    }

    /// Bytes of everything here that grows with the network.
    pub(crate) fn bytes(&self) -> usize {
        let ways = match &self.ways {
            Ways::Grid(grid) => grid.bytes(),
            Ways::Tree(_) | Ways::Dragonfly(_) => 0,
            Ways::Table(table) => table.bytes(),
            Ways::Distances(distances) => distances.bytes(),
        };
        self.links.len() * size_of::<Link>() + self.first_link.len() * 4 + ways
    }
}

impl Choice {
    fn of(routing: &Routing) -> Choice {
        match routing {
            Routing::Deterministic | Routing::Table(_) => Choice::Deterministic,
            Routing::Adaptive => Choice::Adaptive,
            Routing::Random => Choice::Random,
            Routing::Ecmp => Choice::Ecmp,
        }
    }
}

/// The parts of a wiring that each topology makes for itself.
struct Parts {
    links: Vec<Link>,
    first_link: Vec<u32>,
    speeds: Vec<Speed>,
    nodes: u32,
    nodes_per_router: u32,
    node_routers: Option<Vec<u32>>,
    classes: u8,
    several_ways: bool,
}

impl Parts {
    fn finish(self, ways: Ways, parameters: &Parameters, routing: Choice) -> Wiring {
        Wiring {
            routers: self.first_link.len() as u32 - 1,
            nodes: self.nodes,
            links: self.links,
            first_link: self.first_link,
            hops_alike: self.speeds.windows(2).all(|two| two[0].hop_ps == two[1].hop_ps),
            speeds: self.speeds,
            classes: self.classes,
            several_ways: self.several_ways,
            ways,
            ties: parameters.ties,
            routing,
            node_routers: self.node_routers,
            nodes_per_router: self.nodes_per_router,
        }
    }
}

/// The speed of links that are like the network's but so many times as fast.
fn speed_of(parameters: &Parameters, factor: f64) -> Speed {
    let bandwidth = parameters.link_bandwidth.scaled(factor);
    let wire_bytes = u64::from(parameters.packet_bytes) + u64::from(parameters.header_bytes);
    Speed { bandwidth, hop_ps: parameters.hop().as_ps(), packet_ps: bandwidth.time_of(wire_bytes).as_ps() }
}

/// One of so many choices, by the packet's salt and where it is.
#[inline]
fn draw(salt: u32, router: u32, choices: u32) -> u32 {
    let bits = mix(u64::from(salt) << 32 | u64::from(router)) as u32;
    ((u64::from(bits) * u64::from(choices)) >> 32) as u32
}
