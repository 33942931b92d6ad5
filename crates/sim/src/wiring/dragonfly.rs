//! Dragonflies. Minimal ways: to the router of the group that has a link to the other group, over it, and to the router of the node. The class of
//! channels is the number of hops so far, at most three, so no circle of buffers can arise.

use super::{draw, Candidate, Choice, Link, Parts, Way, Ways, Wiring};
use crate::{Error, Parameters};

/// The shape of a dragonfly. The links of a router are those to the others of its group, then its global ones.
pub(crate) struct Dragonfly {
    groups: u32,
    routers: u32,
    globals: u32,
    nodes: u32,
    /// Links between each two groups.
    copies: u32,
    first_link: Vec<u32>,
}

pub(super) fn build(
    groups: u32,
    routers: u32,
    nodes: u32,
    globals: u32,
    parameters: &Parameters,
    routing: Choice,
) -> Result<Wiring, Error> {
    let ends = routers * globals;
    if groups == 0 || routers == 0 || nodes == 0 || (groups > 1 && ends < groups - 1) {
        return Err(Error::Network(format!(
            "a dragonfly of {groups} groups needs at least {} global links a group, not {ends}",
            groups.saturating_sub(1)
        )));
    }
    let copies = if groups > 1 { ends / (groups - 1) } else { 0 };
    let mut dragonfly = Dragonfly { groups, routers, globals, nodes, copies, first_link: vec![0] };
    let mut links = Vec::new();
    for from in 0..groups * routers {
        let (group, router) = (from / routers, from % routers);
        for other in (0..routers).filter(|&other| other != router) {
            links.push(Link { from, to: group * routers + other, speed: 0, lane: 0 });
        }
        for global in (0..globals).map(|index| router * globals + index) {
            if let Some((to, copy)) = dragonfly.other_end(group, global) {
                links.push(Link { from, to, speed: 0, lane: copy as u16 });
            }
        }
        dragonfly.first_link.push(links.len() as u32);
    }
    let parts = Parts {
        links,
        first_link: dragonfly.first_link.clone(),
        speeds: vec![super::speed_of(parameters, 1.0)],
        nodes: groups * routers * nodes,
        nodes_per_router: nodes,
        node_routers: None,
        classes: 3,
        several_ways: routing == Choice::Adaptive,
    };
    Ok(parts.finish(Ways::Dragonfly(dragonfly), parameters, routing))
}

impl Dragonfly {
    /// The router at the other end of a global link of a group, and which of the links between the two groups it is.
    fn other_end(&self, group: u32, global: u32) -> Option<(u32, u32)> {
        let others = self.groups - 1;
        let copy = global.checked_div(others)?;
        if copy >= self.copies {
            return None;
        }
        let distance = global % others;
        let other = (group + distance + 1) % self.groups;
        let back = copy * others + (others - 1 - distance);
        Some((other * self.routers + back / self.globals, copy))
    }

    /// The number of the global link that leads from a group to another, of several the given one.
    fn global(&self, group: u32, other: u32, copy: u32) -> u32 {
        let distance = (other + self.groups - group - 1) % self.groups;
        copy * (self.groups - 1) + distance
    }

    /// The next link on the way that takes the given link between the groups.
    fn toward(&self, router: u32, end: u32, copy: u32) -> u32 {
        let (group, other) = (router / self.routers, end / self.routers);
        if group == other {
            return self.local(router, end % self.routers);
        }
        let global = self.global(group, other, copy);
        let holder = global / self.globals;
        if holder == router % self.routers {
            return self.first_link[router as usize] + (self.routers - 1) + global % self.globals;
        }
        self.local(router, holder)
    }

    fn local(&self, router: u32, other: u32) -> u32 {
        let own = router % self.routers;
        self.first_link[router as usize] + other - u32::from(other > own)
    }

    pub(super) fn next(&self, way: &mut Way, router: u32, routing: Choice) -> Candidate {
        let end = way.dest / self.nodes;
        let copy = match routing {
            _ if self.copies <= 1 => 0,
            Choice::Deterministic => way.dest % self.copies,
            // The same for every router of the way: the packet must not change its mind half-way.
            _ => draw(way.salt, 0, self.copies),
        };
        Candidate { link: self.toward(router, end, copy), class: way.stage.min(2) }
    }

    /// Every link that a minimal way can begin with. A packet that has left its router for a global link takes one of those it finds there.
    pub(super) fn candidates(&self, way: &Way, router: u32, found: &mut Vec<Candidate>) {
        let end = way.dest / self.nodes;
        let class = way.stage.min(2);
        if router / self.routers == end / self.routers {
            found.push(Candidate { link: self.toward(router, end, 0), class });
            return;
        }
        for copy in 0..self.copies {
            let link = self.toward(router, end, copy);
            let is_global = link >= self.first_link[router as usize] + self.routers - 1;
            let candidate = Candidate { link, class };
            if (is_global || way.stage == 0) && !found.contains(&candidate) {
                found.push(candidate);
            }
        }
    }

    pub(super) fn hops(&self, start: u32, end: u32, dest: u32) -> u32 {
        let copy = if self.copies > 1 { dest % self.copies } else { 0 };
        let mut hops = 0;
        let mut at = start;
        while at != end {
            let link = self.toward(at, end, copy);
            let first = self.first_link[at as usize];
            at = match link - first {
                local if local < self.routers - 1 => {
                    at / self.routers * self.routers + local + u32::from(local >= at % self.routers)
                }
                global => {
                    let index = at % self.routers * self.globals + (global - (self.routers - 1));
                    self.other_end(at / self.routers, index).expect("a global link").0
                }
            };
            hops += 1;
        }
        hops
    }
}
