//! Fat trees with several roots. A switch of level `l` belongs to a part of the nodes and has a number among the switches of that part; going up
//! means choosing a parent, going down follows from the destination. Up, then down: no circle of buffers can arise.

use super::{draw, Candidate, Choice, Link, Parts, Way, Ways, Wiring};
use crate::{Error, Parameters};

/// The shape of a tree.
pub(crate) struct Tree {
    levels: Vec<Level>,
}

/// One level of switches, from the lowest.
struct Level {
    /// Children of a switch.
    down: u32,
    /// Parents of a switch.
    up: u32,
    /// Nodes below a switch.
    below: u32,
    /// Switches that stand over the same nodes.
    width: u32,
    first_switch: u32,
    /// The first link of this level, and links of a switch.
    first_link: u32,
    links: u32,
}

pub(super) fn build(
    down: &[u32],
    up: &[u32],
    speed: &[f64],
    parameters: &Parameters,
    routing: Choice,
) -> Result<Wiring, Error> {
    let whole = |numbers: &[u32]| numbers.iter().all(|&number| (1..=1024).contains(&number));
    if down.is_empty() || up.len() + 1 != down.len() || speed.len() != up.len() || !whole(down) || !whole(up)
    {
        return Err(Error::Network(
            "a fat tree has children for each level, and up-links and their speed for each level but the highest, \
             all between 1 and 1024"
                .to_owned(),
        ));
    }
    if speed.iter().any(|&factor| !(factor > 0.0 && factor.is_finite())) {
        return Err(Error::Network("the speed of up-links is a factor above zero".to_owned()));
    }
    let nodes: u32 = down.iter().product();
    let mut tree = Tree { levels: Vec::new() };
    let (mut below, mut width, mut first_switch, mut first_link) = (1, 1, 0, 0);
    for (index, &children) in down.iter().enumerate() {
        below *= children;
        if index > 0 {
            width *= up[index - 1];
        }
        let parents = up.get(index).copied().unwrap_or(0);
        // The children of the lowest switches are nodes: no links lead there.
        let links = parents + if index == 0 { 0 } else { children };
        tree.levels.push(Level {
            down: children,
            up: parents,
            below,
            width,
            first_switch,
            first_link,
            links,
        });
        let switches = nodes / below * width;
        first_switch += switches;
        first_link += switches * links;
    }
    let mut links = Vec::with_capacity(first_link as usize);
    let mut starts = vec![0];
    for (index, level) in tree.levels.iter().enumerate() {
        for switch in 0..nodes / level.below * level.width {
            links.extend((0..level.links).map(|port| tree.link(index, switch, port)));
            starts.push(links.len() as u32);
        }
    }
    let speeds = std::iter::once(1.0).chain(speed.iter().copied());
    let parts = Parts {
        links,
        first_link: starts,
        speeds: speeds.map(|factor| super::speed_of(parameters, factor)).collect(),
        nodes,
        nodes_per_router: down[0],
        node_routers: None,
        classes: 1,
        several_ways: routing == Choice::Adaptive,
    };
    Ok(parts.finish(Ways::Tree(tree), parameters, routing))
}

impl Tree {
    /// The link at a port of a switch: children first (not of the lowest level), then parents.
    fn link(&self, index: usize, switch: u32, port: u32) -> Link {
        let level = &self.levels[index];
        let (part, number) = (switch / level.width, switch % level.width);
        let from = level.first_switch + switch;
        let children = level.links - level.up;
        if port < children {
            let lower = &self.levels[index - 1];
            let child = (part * level.down + port) * lower.width + number % lower.width;
            return Link { from, to: lower.first_switch + child, speed: index as u16, lane: 0 };
        }
        let upper = &self.levels[index + 1];
        let parent = part / upper.down * upper.width + number + (port - children) * level.width;
        Link { from, to: upper.first_switch + parent, speed: index as u16 + 1, lane: 0 }
    }

    /// The level of a router and its number in it.
    fn place(&self, router: u32) -> (usize, u32) {
        let index = self.levels.iter().rposition(|level| level.first_switch <= router).expect("a switch");
        (index, router - self.levels[index].first_switch)
    }

    /// The port down to a node, if the switch stands over it.
    fn down(&self, index: usize, switch: u32, dest: u32) -> Option<u32> {
        let level = &self.levels[index];
        let part = switch / level.width;
        (dest / level.below == part).then(|| {
            let lower = &self.levels[index - 1];
            level.first_link + switch * level.links + dest / lower.below % level.down
        })
    }

    pub(super) fn next(&self, way: &mut Way, router: u32, routing: Choice) -> Candidate {
        let (index, switch) = self.place(router);
        if let Some(link) = self.down(index, switch, way.dest) {
            return Candidate { link, class: 0 };
        }
        let level = &self.levels[index];
        // D-mod-k: the digits of the destination choose the parents, so that all packets for a node come down one tree, and
        // nodes in a row come down different ones.
        let parent = match routing {
            Choice::Deterministic => way.dest / level.width % level.up,
            _ => draw(way.salt, router, level.up),
        };
        Candidate {
            link: level.first_link + switch * level.links + (level.links - level.up) + parent,
            class: 0,
        }
    }

    pub(super) fn candidates(&self, way: &Way, router: u32, found: &mut Vec<Candidate>) {
        let (index, switch) = self.place(router);
        if let Some(link) = self.down(index, switch, way.dest) {
            found.push(Candidate { link, class: 0 });
            return;
        }
        let level = &self.levels[index];
        let first = level.first_link + switch * level.links + (level.links - level.up);
        found.extend((0..level.up).map(|parent| Candidate { link: first + parent, class: 0 }));
    }

    pub(super) fn hops(&self, from: u32, to: u32) -> u32 {
        let common = self.levels.iter().position(|level| from / level.below == to / level.below);
        2 * common.expect("the highest level stands over all") as u32
    }
}
