//! The link-load bound: each message puts its bytes on the links of its way, and no schedule is faster than the busiest link. Also says how many
//! messages share the links of a way, which is what pacing needs.
//!
//! On a grid in dimension order a message is a few straight moves, and only their ends are marked; the loads are summed along the rows
//! when asked for. So a step of thousands of messages costs little more than its messages.

use crate::wiring::{Grid, Move, Ways, Wiring};
use crate::{Bandwidth, Parameters, Time};

/// Loads are counted in this part of a unit, so that ties and other choices can be split.
const PARTS: u64 = 256;

/// What the messages of a step, or of a whole run, put on links and interfaces.
pub(crate) struct Loads<'a> {
    wiring: &'a Wiring,
    kind: Kind,
    /// Units that enter and leave at each node.
    sent: Vec<u64>,
    received: Vec<u64>,
    split_ties: bool,
    nic_bandwidth: Option<Bandwidth>,
}

enum Kind {
    /// For each dimension, direction and router: where loads begin and end, in parts. Sums of rows once settled.
    Rows { marks: Vec<i64>, settled: bool },
    /// For each dimension and direction of a grid whose packets choose their way: all of it together, in parts.
    Totals(Vec<u64>),
    /// For each link, in parts.
    Links(Vec<u64>),
}

impl<'a> Loads<'a> {
    /// No loads.
    pub(crate) fn new(wiring: &'a Wiring, parameters: &Parameters) -> Loads<'a> {
        let nic_bandwidth = parameters.nic_bandwidth.map(|bandwidth| {
            Bandwidth::from_bytes_per_second(bandwidth.bytes_per_second() * u64::from(parameters.nics))
        });
        let kind = match &wiring.ways {
            Ways::Grid(grid) if wiring.several_ways => Kind::Totals(vec![0; 2 * grid.shape().count()]),
            Ways::Grid(grid) => Kind::Rows {
                marks: vec![0; 2 * grid.shape().count() * wiring.routers as usize],
                settled: false,
            },
            _ => Kind::Links(vec![0; wiring.links.len()]),
        };
        Loads {
            wiring,
            kind,
            sent: vec![0; wiring.nodes as usize],
            received: vec![0; wiring.nodes as usize],
            split_ties: parameters.ties != crate::Ties::Plus,
            nic_bandwidth,
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        match &mut self.kind {
            Kind::Rows { marks, settled } => {
                marks.fill(0);
                *settled = false;
            }
            Kind::Totals(loads) | Kind::Links(loads) => loads.fill(0),
        }
        self.sent.fill(0);
        self.received.fill(0);
    }

    /// A message of so many units from node to node.
    pub(crate) fn add(&mut self, from: u32, to: u32, units: u64) {
        if from == to {
            return;
        }
        self.sent[from as usize] += units;
        self.received[to as usize] += units;
        match (&mut self.kind, &self.wiring.ways) {
            (Kind::Rows { marks, settled }, Ways::Grid(grid)) => {
                debug_assert!(!*settled, "loads are cleared before new ones are added");
                add_rows(grid, marks, self.wiring.routers, from, to, units * PARTS, self.split_ties);
            }
            (Kind::Totals(totals), Ways::Grid(grid)) => grid.legs(from, to, |leg| {
                let parts = u64::from(leg.hops) * units * PARTS;
                let direction = 2 * leg.dimension + usize::from(!leg.rising);
                match leg.tied && self.split_ties {
                    true => {
                        totals[direction] += parts / 2;
                        totals[direction ^ 1] += parts / 2;
                    }
                    false => totals[direction] += parts,
                }
            }),
            (Kind::Links(links), _) => add_links(self.wiring, links, from, to, units * PARTS),
            _ => unreachable!("rows and totals are of grids"),
        }
    }

    /// Sums the rows up. Afterwards loads can be asked for, but not added.
    pub(crate) fn settle(&mut self) {
        let (Kind::Rows { marks, settled: settled @ false }, Ways::Grid(grid)) =
            (&mut self.kind, &self.wiring.ways)
        else {
            return;
        };
        *settled = true;
        let routers = self.wiring.routers as usize;
        let mut stride = 1;
        for (dimension, (size, _)) in grid.shape().enumerate() {
            for direction in 0..2 {
                let row = &mut marks[(2 * dimension + direction) * routers..][..routers];
                for router in 0..routers {
                    if router / stride % size as usize != 0 {
                        row[router] += row[router - stride];
                    }
                }
            }
            stride *= size as usize;
        }
    }

    /// The time that the busiest link needs for its load, taken as bytes. Call [`Loads::settle`] first.
    pub(crate) fn link_time(&self) -> Time {
        let speed = |link: usize| self.wiring.speeds[usize::from(self.wiring.links[link].speed)].bandwidth;
        match (&self.kind, &self.wiring.ways) {
            (Kind::Rows { marks, .. }, Ways::Grid(grid)) => {
                let routers = self.wiring.routers as usize;
                let busiest = grid.shape().enumerate().map(|(dimension, _)| {
                    let both = &marks[2 * dimension * routers..][..2 * routers];
                    let most = both.iter().copied().max().unwrap_or(0).max(0) as u64;
                    most / u64::from(grid.lanes(dimension))
                });
                parts_time(busiest.max().unwrap_or(0), speed(0))
            }
            (Kind::Totals(totals), Ways::Grid(grid)) => {
                let shares = totals.iter().enumerate().map(|(direction, &total)| {
                    let (size, wraps) = grid.shape().nth(direction / 2).expect("a dimension");
                    let rows = self.wiring.routers / size * if wraps { size } else { size.max(2) - 1 };
                    total / u64::from(rows * grid.lanes(direction / 2))
                });
                parts_time(shares.max().unwrap_or(0), speed(0))
            }
            (Kind::Links(links), _) => links
                .iter()
                .enumerate()
                .map(|(link, &parts)| parts_time(parts, speed(link)))
                .max()
                .unwrap_or(Time::ZERO),
            _ => unreachable!("rows and totals are of grids"),
        }
    }

    /// The time that the busiest interface needs.
    pub(crate) fn nic_time(&self) -> Time {
        let most = self.sent.iter().chain(&self.received).copied().max().unwrap_or(0);
        self.nic_bandwidth.map_or(Time::ZERO, |bandwidth| bandwidth.time_of(most))
    }

    /// The largest load on the way between two nodes, as a number of units and 1/256 of one. Call [`Loads::settle`] first.
    pub(crate) fn largest_on_way(&self, from: u32, to: u32) -> u64 {
        let mut most = 0;
        match (&self.kind, &self.wiring.ways) {
            (Kind::Rows { marks, .. }, Ways::Grid(grid)) => grid.legs(from, to, |leg| {
                let directions = [leg.rising, !leg.rising];
                let count = if leg.tied && self.split_ties { 2 } else { 1 };
                for &rising in &directions[..count] {
                    let row =
                        &marks[(2 * leg.dimension + usize::from(!rising)) * self.wiring.routers as usize..];
                    let mut router = leg.from;
                    for _ in 0..leg.hops {
                        most = most.max(row[router as usize] as u64 / u64::from(grid.lanes(leg.dimension)));
                        router = grid.step(router, leg.dimension, rising);
                    }
                }
            }),
            (Kind::Totals(totals), Ways::Grid(grid)) => grid.legs(from, to, |leg| {
                let total = totals[2 * leg.dimension + usize::from(!leg.rising)];
                most = most.max(total / u64::from(self.wiring.routers * grid.lanes(leg.dimension)));
            }),
            (Kind::Links(links), _) if !self.wiring.several_ways => {
                let salt = self.wiring.salt(from, to, 0, || 0);
                self.wiring.walk(from, to, salt, |link| most = most.max(links[link as usize]));
            }
            (Kind::Links(links), _) => {
                spread(self.wiring, from, to, |link, _| most = most.max(links[link as usize]));
            }
            _ => unreachable!("rows and totals are of grids"),
        }
        most
    }

    /// The largest load of any link, in parts. Call [`Loads::settle`] first.
    pub(crate) fn largest(&self) -> u64 {
        match (&self.kind, &self.wiring.ways) {
            (Kind::Rows { marks, .. }, Ways::Grid(grid)) => {
                let rows = marks.chunks(2 * self.wiring.routers as usize).enumerate();
                let most = rows.map(|(dimension, both)| {
                    both.iter().copied().max().unwrap_or(0).max(0) as u64 / u64::from(grid.lanes(dimension))
                });
                most.max().unwrap_or(0)
            }
            (Kind::Totals(totals), Ways::Grid(grid)) => {
                let share = |(direction, &total): (usize, &u64)| {
                    total / u64::from(self.wiring.routers * grid.lanes(direction / 2))
                };
                totals.iter().enumerate().map(share).max().unwrap_or(0)
            }
            (Kind::Links(links), _) => links.iter().copied().max().unwrap_or(0),
            _ => unreachable!("rows and totals are of grids"),
        }
    }

    /// How many parts [`Loads::largest_on_way`] gives for one unit.
    pub(crate) const UNIT: u64 = PARTS;
}

fn parts_time(parts: u64, bandwidth: Bandwidth) -> Time {
    // Rounded down: a bound must not be above what it bounds.
    bandwidth.time_of(parts / PARTS)
}

fn add_rows(grid: &Grid, marks: &mut [i64], routers: u32, from: u32, to: u32, parts: u64, split: bool) {
    grid.legs(from, to, |leg| {
        let Move { at, size, stride, .. } = leg;
        let base = leg.from - at * stride;
        let hops = u32::from(leg.hops);
        let mut mark = |rising: bool, parts: i64| {
            let row = &mut marks[(2 * leg.dimension + usize::from(!rising)) * routers as usize..]
                [..routers as usize];
            // The routers whose links are used lie from here on, around the end.
            let start = match at + 1 {
                _ if rising => at,
                next if next >= hops => next - hops,
                next => next + size - hops,
            };
            let end = start + hops;
            row[(base + start * stride) as usize] += parts;
            if end < size {
                row[(base + end * stride) as usize] -= parts;
            } else if end > size {
                row[base as usize] += parts;
                row[(base + (end - size) * stride) as usize] -= parts;
            }
        };
        match leg.tied && split {
            true => {
                mark(true, parts as i64 / 2);
                mark(false, parts as i64 / 2);
            }
            false => mark(leg.rising, parts as i64),
        }
    });
}

fn add_links(wiring: &Wiring, links: &mut [u64], from: u32, to: u32, parts: u64) {
    if wiring.is_fixed() {
        let salt = wiring.salt(from, to, 0, || 0);
        wiring.walk(from, to, salt, |link| links[link as usize] += parts);
    } else {
        spread(wiring, from, to, |link, share| links[link as usize] += (parts as f64 * share) as u64);
    }
}

/// Calls `link(link, share)` for every link of every way between two nodes, each choice taken alike.
fn spread(wiring: &Wiring, from: u32, to: u32, mut link: impl FnMut(u32, f64)) {
    use crate::wiring::Way;
    use std::collections::BTreeMap;
    let end = wiring.router_of(to);
    let mut here = BTreeMap::from([(wiring.router_of(from), 1.0)]);
    let mut found = Vec::new();
    let mut way = Way::to(to, 0);
    while !here.is_empty() {
        let mut next = BTreeMap::new();
        for (router, share) in here.into_iter().filter(|&(router, _)| router != end) {
            wiring.candidates(&way, router, &mut found);
            for candidate in &found {
                let part = share / found.len() as f64;
                link(candidate.link, part);
                *next.entry(wiring.links[candidate.link as usize].to).or_insert(0.0) += part;
            }
        }
        way.stage += 1;
        here = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use crate::random::Random;

    /// The bounds of synchronised steps of an all-to-all, in message times.
    fn sum_of_steps(network: &Network, partner: impl Fn(u32, u32) -> u32) -> f64 {
        let wiring = Wiring::new(network).unwrap();
        let mut loads = Loads::new(&wiring, &network.parameters);
        let mut sum = Time::ZERO;
        for step in 1..wiring.nodes {
            loads.clear();
            (0..wiring.nodes).for_each(|rank| loads.add(rank, partner(rank, step), 65_536));
            loads.settle();
            sum += loads.link_time();
        }
        sum.as_us()
    }

    #[test]
    fn the_reference_table_of_synchronised_steps() {
        for (size, ties, shift_us, xor_us) in [
            (4, "split", 825.8, 825.8),
            (4, "plus", 1468.0, 1310.7),
            (8, "split", 18_533.6, 13_303.8),
            (8, "plus", 22_125.0, 17_734.0),
        ] {
            let mut network = Network::torus(&[size; 3]);
            network.parameters.ties = ties.parse().unwrap();
            let nodes = size * size * size;
            let shift = sum_of_steps(&network, |rank, step| (rank + step) % nodes);
            let xor = sum_of_steps(&network, |rank, step| rank ^ step);
            assert!(
                (shift - shift_us).abs() < 0.1 && (xor - xor_us).abs() < 0.1,
                "{size} {ties}: {shift} {xor}"
            );
        }
    }

    #[test]
    fn an_all_to_all_loads_a_torus_as_the_formula_says() {
        for (ties, expected) in [("split", 6710.9), ("plus", 8388.6)] {
            let mut network = Network::torus(&[8, 8, 8]);
            network.parameters.ties = ties.parse().unwrap();
            let wiring = Wiring::new(&network).unwrap();
            let mut loads = Loads::new(&wiring, &network.parameters);
            for from in 0..512 {
                (0..512).for_each(|to| loads.add(from, to, 65_536));
            }
            loads.settle();
            assert!((loads.link_time().as_us() - expected).abs() < 0.1, "{ties}: {}", loads.link_time());
        }
    }

    #[test]
    fn marked_rows_are_what_walking_gives() {
        let mut random = Random::of(3, 0, 0);
        for text in
            ["torus:5x4,ties=plus", "mesh:3x4x2,ties=plus", "torus:7,ties=plus", "grid:4x3mx2,ties=plus"]
        {
            let network = Network::parse_short(text).unwrap();
            let wiring = Wiring::new(&network).unwrap();
            let mut loads = Loads::new(&wiring, &network.parameters);
            let mut walked = vec![0u64; wiring.links.len()];
            for _ in 0..200 {
                let from = random.below(u64::from(wiring.nodes)) as u32;
                let to = random.below(u64::from(wiring.nodes)) as u32;
                loads.add(from, to, 1);
                wiring.walk(from, to, 0, |link| walked[link as usize] += 1);
            }
            loads.settle();
            let (Kind::Rows { marks, .. }, Ways::Grid(grid)) = (&loads.kind, &wiring.ways) else {
                panic!("a grid")
            };
            for (dimension, _) in grid.shape().enumerate() {
                for (direction, rising) in [true, false].into_iter().enumerate() {
                    for router in 0..wiring.routers {
                        let mark =
                            marks[((2 * dimension + direction) as u32 * wiring.routers + router) as usize];
                        let link = grid.link_at(router, dimension, rising);
                        assert_eq!(
                            mark as u64 / PARTS,
                            walked[link as usize],
                            "{text}: {}",
                            wiring.link_name(link)
                        );
                    }
                }
            }
        }
    }
}
