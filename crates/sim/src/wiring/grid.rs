//! Tori, meshes and mixtures. Dimension order goes through the first dimension first; rings stay free of deadlock by two classes of channels.
//! Adaptive ways add a class that any productive link may be taken on, with dimension order as the escape.

use super::{Candidate, Choice, Link, Parts, Way, Ways, Wiring, NONE};
use crate::network::Dimension;
use crate::{ChannelRule, Error, Parameters};

/// Bit `i` says whether the number `i` has an odd number of set bits.
const PARITY: u32 = 0x6996;

/// Where no wrap-around link lies ahead.
const NO_WRAP: u16 = u16::MAX;

/// A grid of routers, numbered with the first dimension fastest.
pub(crate) struct Grid {
    dimensions: Vec<Dim>,
    /// Links of a router, those that lead nowhere included.
    ports: u32,
    /// The coordinates of each router.
    coordinates: Vec<u16>,
    rule: ChannelRule,
    /// Classes of the escape ways; adaptive ways use the one after them.
    escape_classes: u8,
}

struct Dim {
    size: u16,
    wraps: bool,
    links: u16,
    first_port: u16,
}

/// A move within one dimension.
struct Leg {
    rising: bool,
    hops: u16,
    /// Hops before the wrap-around link, or [`NO_WRAP`].
    wrap: u16,
}

pub(super) fn build(
    dimensions: &[Dimension],
    parameters: &Parameters,
    routing: Choice,
) -> Result<Wiring, Error> {
    if dimensions.is_empty() || dimensions.len() > 8 {
        return Err(Error::Network(format!("a grid has 1 to 8 dimensions, not {}", dimensions.len())));
    }
    let mut dims = Vec::new();
    let mut first_port = 0;
    for dimension in dimensions {
        if dimension.size == 0 || dimension.size > 32_767 || dimension.links == 0 || dimension.links > 16 {
            return Err(Error::Network(format!(
                "a dimension has 1 to 32767 routers and 1 to 16 links in each direction, not {} and {}",
                dimension.size, dimension.links
            )));
        }
        let (size, links) = (dimension.size as u16, dimension.links as u16);
        dims.push(Dim { size, wraps: dimension.wraps, links, first_port });
        first_port += 2 * links;
    }
    let ports = u32::from(first_port);
    let routers: u32 = dimensions.iter().map(|dimension| dimension.size).product();
    // Shorter rings cannot close a circle: no way has two hops in them.
    let needs_rule = dimensions.iter().any(|dimension| dimension.wraps && dimension.size > 3);
    let rule = if needs_rule { parameters.channel_rule } else { ChannelRule::None };
    let escape_classes = if rule == ChannelRule::None { 1 } else { 2 };
    let mut coordinates = Vec::with_capacity(routers as usize * dims.len());
    for router in 0..routers {
        let mut rest = router;
        for dim in &dims {
            coordinates.push((rest % u32::from(dim.size)) as u16);
            rest /= u32::from(dim.size);
        }
    }
    let grid = Grid { dimensions: dims, ports, coordinates, rule, escape_classes };
    let links = (0..routers).flat_map(|router| (0..ports).map(move |port| (router, port)));
    let parts = Parts {
        links: links.map(|(router, port)| grid.link(router, port as u16)).collect(),
        first_link: (0..=routers).map(|router| router * ports).collect(),
        speeds: vec![super::speed_of(parameters, 1.0)],
        nodes: routers,
        nodes_per_router: 1,
        node_routers: None,
        classes: escape_classes + u8::from(routing != Choice::Deterministic),
        several_ways: routing != Choice::Deterministic,
    };
    Ok(parts.finish(Ways::Grid(grid), parameters, routing))
}

impl Grid {
    /// The link at a port of a router.
    fn link(&self, router: u32, port: u16) -> Link {
        let (dimension, rising, lane) = self.port(port);
        let dim = &self.dimensions[dimension];
        let at = u32::from(self.coordinate(router, dimension));
        let size = u32::from(dim.size);
        let stride: u32 = self.dimensions[..dimension].iter().map(|dim| u32::from(dim.size)).product();
        let next = if rising { at + 1 } else { at.wrapping_sub(1) };
        let to = match next {
            next if next < size => router - at * stride + next * stride,
            _ if dim.wraps && size > 1 => router - at * stride + (if rising { 0 } else { size - 1 }) * stride,
            _ => NONE,
        };
        Link { from: router, to, speed: 0, lane }
    }

    /// Dimension, direction and lane of a port.
    fn port(&self, port: u16) -> (usize, bool, u16) {
        let dimension =
            self.dimensions.iter().rposition(|dim| dim.first_port <= port).expect("a port of the grid");
        let dim = &self.dimensions[dimension];
        let within = port - dim.first_port;
        (dimension, within < dim.links, within % dim.links)
    }

    #[inline]
    fn coordinate(&self, router: u32, dimension: usize) -> u16 {
        self.coordinates[router as usize * self.dimensions.len() + dimension]
    }

    /// How a packet moves in one dimension; `None` when it is where it should be.
    #[inline(always)]
    fn leg(&self, dimension: usize, from: u32, to: u32, salt: u32) -> Option<Leg> {
        let (at, end) = (self.coordinate(from, dimension), self.coordinate(to, dimension));
        (at != end).then(|| self.dimensions[dimension].leg(at, end, salt >> dimension))
    }

    /// The first port of a direction, moved on by the lane that the packet takes.
    #[inline(always)]
    fn port_of(&self, dimension: usize, rising: bool, salt: u32) -> u16 {
        let dim = &self.dimensions[dimension];
        let lane = if dim.links == 1 { 0 } else { (salt >> 8) as u16 % dim.links };
        dim.first_port + if rising { 0 } else { dim.links } + lane
    }

    #[inline(always)]
    pub(crate) fn next(&self, way: &mut Way, router: u32) -> Candidate {
        if way.left == 0 {
            self.turn(way, router);
        }
        way.left -= 1;
        if self.rule == ChannelRule::Dateline {
            if way.wrap == 0 {
                way.class = 1;
            }
            way.wrap = way.wrap.wrapping_sub(1);
        }
        Candidate { link: router * self.ports + u32::from(way.port), class: way.class }
    }

    /// Enters the next dimension.
    #[inline(always)]
    fn turn(&self, way: &mut Way, router: u32) {
        let count = self.dimensions.len();
        let at = &self.coordinates[router as usize * count..][..count];
        let end = &self.coordinates[way.dest as usize * count..][..count];
        let mut dimension = usize::from(way.dimension);
        while at[dimension] == end[dimension] {
            dimension += 1;
        }
        let leg = self.dimensions[dimension].leg(at[dimension], end[dimension], way.salt >> dimension);
        way.dimension = dimension as u8 + 1;
        way.port = self.port_of(dimension, leg.rising, way.salt);
        way.left = leg.hops;
        way.wrap = leg.wrap;
        way.class = u8::from((self.rule == ChannelRule::Wrap) & (leg.wrap != NO_WRAP));
    }

    /// Every productive link on the adaptive class (one of them, drawn, unless the routing is adaptive), and dimension order on an escape class.
    pub(super) fn candidates(&self, way: &Way, router: u32, routing: Choice, found: &mut Vec<Candidate>) {
        let adaptive = self.escape_classes;
        let first = router * self.ports;
        let mut escape = None;
        for dimension in 0..self.dimensions.len() {
            let Some(leg) = self.leg(dimension, router, way.dest, way.salt) else { continue };
            let link = first + u32::from(self.port_of(dimension, leg.rising, way.salt));
            found.push(Candidate { link, class: adaptive });
            let dim = &self.dimensions[dimension];
            if routing == Choice::Adaptive && dim.wraps && 2 * leg.hops == dim.size {
                let other = first + u32::from(self.port_of(dimension, !leg.rising, way.salt));
                found.push(Candidate { link: other, class: adaptive });
            }
            // The class says whether the wrap-around link is still ahead: it can be told at every router, wherever the packet came from.
            let class = u8::from(self.escape_classes == 2 && leg.wrap != NO_WRAP);
            escape.get_or_insert(Candidate { link, class });
        }
        if routing != Choice::Adaptive {
            let drawn = found[super::draw(way.salt, router, found.len() as u32) as usize];
            found.clear();
            found.push(drawn);
        }
        found.extend(escape);
    }

    pub(super) fn hops(&self, from: u32, to: u32) -> u32 {
        let leg = |dimension| self.leg(dimension, from, to, 0).map_or(0, |leg| u32::from(leg.hops));
        (0..self.dimensions.len()).map(leg).sum()
    }

    /// Bits that let the packets of a message take both directions of a tie in turn, in each dimension on its own, and that let neighbours
    /// begin with different directions.
    pub(super) fn split_bits(&self, from: u32, index: u32) -> u32 {
        let mut bits = index << 8;
        for dimension in 0..self.dimensions.len() {
            // Each mask has the lowest bit, so that two packets in a row always differ, and no two masks are alike.
            let mask = 1 | (dimension as u32) << 1;
            let turn = (PARITY >> (index & mask)) ^ u32::from(self.coordinate(from, dimension));
            bits |= (turn & 1) << dimension;
        }
        bits
    }

    /// Calls `line(dimension, rising, first link, start, hops, is tied)` for every move of the way in dimension order. The links of a move are
    /// those of the routers `start`, `start ± 1`, … of one row.
    pub(crate) fn legs(&self, from: u32, to: u32, mut leg_of: impl FnMut(Move)) {
        let mut at = from;
        let mut stride = 1;
        for dimension in 0..self.dimensions.len() {
            let dim = &self.dimensions[dimension];
            if let Some(leg) = self.leg(dimension, at, to, 0) {
                let tied = dim.wraps && 2 * u32::from(leg.hops) == u32::from(dim.size);
                leg_of(Move { dimension, from: at, rising: leg.rising, hops: leg.hops, tied });
            }
            let (old, new) = (self.coordinate(at, dimension), self.coordinate(to, dimension));
            at = at - u32::from(old) * stride + u32::from(new) * stride;
            stride *= u32::from(dim.size);
        }
    }

    /// The link of a router in a direction (the first, where several are parallel).
    #[cfg(test)]
    pub(crate) fn link_at(&self, router: u32, dimension: usize, rising: bool) -> u32 {
        let dim = &self.dimensions[dimension];
        router * self.ports + u32::from(dim.first_port + if rising { 0 } else { dim.links })
    }

    /// How many parallel links a dimension has in each direction.
    pub(crate) fn lanes(&self, dimension: usize) -> u32 {
        u32::from(self.dimensions[dimension].links)
    }

    /// Sizes, and whether they wrap.
    pub(crate) fn shape(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        self.dimensions.iter().map(|dim| (u32::from(dim.size), dim.wraps))
    }

    /// The router after another in a direction, around the end.
    pub(crate) fn step(&self, router: u32, dimension: usize, rising: bool) -> u32 {
        let stride: u32 = self.dimensions[..dimension].iter().map(|dim| u32::from(dim.size)).product();
        let size = u32::from(self.dimensions[dimension].size);
        let at = u32::from(self.coordinate(router, dimension));
        let next = if rising { (at + 1) % size } else { (at + size - 1) % size };
        router - at * stride + next * stride
    }

    pub(super) fn direction(&self, link: u32) -> (u32, bool) {
        let (dimension, rising, _) = self.port((link % self.ports) as u16);
        (dimension as u32, rising)
    }

    /// The coordinates of a router, for people.
    pub(super) fn place(&self, router: u32) -> String {
        let numbers: Vec<String> = (0..self.dimensions.len())
            .map(|dimension| self.coordinate(router, dimension).to_string())
            .collect();
        format!("({})", numbers.join(","))
    }

    pub(super) fn bytes(&self) -> usize {
        self.coordinates.len() * size_of::<u16>()
    }
}

impl Dim {
    /// The move from one coordinate to another; the lowest bit of the salt decides a tie. Which way it is nobody can foresee: without branches it
    /// takes less time.
    #[inline(always)]
    fn leg(&self, at: u16, end: u16, salt: u32) -> Leg {
        let straight = at.abs_diff(end);
        let around = self.size.wrapping_sub(straight);
        let rising_inside = end > at;
        let chosen = (straight == around) & (rising_inside == (salt & 1 == 0));
        let inside = !self.wraps | (straight < around) | chosen;
        let rising = rising_inside == inside;
        let ahead = if rising { self.size - 1 - at } else { at };
        Leg {
            rising,
            hops: if inside { straight } else { around },
            wrap: if inside { NO_WRAP } else { ahead },
        }
    }
}

/// A straight part of a way: in one dimension from a router on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) dimension: usize,
    pub(crate) from: u32,
    pub(crate) rising: bool,
    pub(crate) hops: u16,
    /// Whether the other direction is as short.
    pub(crate) tied: bool,
}
