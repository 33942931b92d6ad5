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
    fn port_of(&self, dimension: usize, rising: bool, salt: u32) -> u8 {
        let dim = &self.dimensions[dimension];
        let lane = if dim.links == 1 { 0 } else { (salt >> 8) as u16 % dim.links };
        // Eight dimensions of 16 links to either side are 256 ports.
        (dim.first_port + if rising { 0 } else { dim.links } + lane) as u8
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

    /// Takes back [`Grid::next`]: it would say the same again.
    pub(super) fn back(&self, way: &mut Way) {
        way.left += 1;
        if self.rule == ChannelRule::Dateline {
            way.wrap = way.wrap.wrapping_add(1);
        }
    }

    /// Enters the next dimension.
    #[inline(always)]
    fn turn(&self, way: &mut Way, router: u32) {
        let (at, end) = (self.coordinates_of(router), self.coordinates_of(way.dest));
        let mut dimension = usize::from(way.stage);
        while at[dimension] == end[dimension] {
            dimension += 1;
        }
        let leg = self.dimensions[dimension].leg(at[dimension], end[dimension], way.salt >> dimension);
        way.stage = dimension as u8 + 1;
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
        let (from, to) = (self.coordinates_of(from), self.coordinates_of(to));
        let ends = from.iter().zip(to);
        self.dimensions.iter().zip(ends).map(|(dim, (&at, &end))| u32::from(dim.distance(at, end))).sum()
    }

    #[inline]
    fn coordinates_of(&self, router: u32) -> &[u16] {
        let count = self.dimensions.len();
        &self.coordinates[router as usize * count..][..count]
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
        let mut router = from;
        let mut stride = 1;
        let ends = self.coordinates_of(from).iter().zip(self.coordinates_of(to));
        for (dimension, (dim, (&at, &end))) in self.dimensions.iter().zip(ends).enumerate() {
            let size = u32::from(dim.size);
            if at != end {
                let leg = dim.leg(at, end, 0);
                let tied = dim.wraps && 2 * u32::from(leg.hops) == size;
                let at = u32::from(at);
                leg_of(Move {
                    dimension,
                    from: router,
                    at,
                    size,
                    stride,
                    rising: leg.rising,
                    hops: leg.hops,
                    tied,
                });
            }
            router = router - u32::from(at) * stride + u32::from(end) * stride;
            stride *= size;
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
    /// How many hops lie between two coordinates.
    #[inline(always)]
    fn distance(&self, at: u16, end: u16) -> u16 {
        let straight = at.abs_diff(end);
        match self.wraps {
            true => straight.min(self.size - straight),
            false => straight,
        }
    }

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
    /// Its coordinate in the dimension, the size of that, and how far apart the numbers of neighbours are in it.
    pub(crate) at: u32,
    pub(crate) size: u32,
    pub(crate) stride: u32,
    pub(crate) rising: bool,
    pub(crate) hops: u16,
    /// Whether the other direction is as short.
    pub(crate) tied: bool,
}
