//! What to say when no event is left but packets are still in the network: the buffers wait for each other's space in a circle.

use super::Fabric;
use crate::wiring::{Wiring, NONE};
use std::ops::Deref;

impl<W: Deref<Target = Wiring>> Fabric<W> {
    /// The circle of buffers, each named by the link that feeds it and what its first packet waits for.
    pub(crate) fn credit_circle(&self) -> Vec<String> {
        let mut seen = vec![false; self.inputs.len()];
        for start in 0..self.inputs.len() {
            let mut path = Vec::new();
            let mut at = start;
            // Follow what each first packet waits for until a buffer comes again: what lies between is the circle.
            while !seen[at] {
                seen[at] = true;
                path.push(at);
                match self.waits_for(at) {
                    Some(next) => at = next,
                    None => break,
                }
            }
            if let Some(first) = path
                .iter()
                .position(|&queue| queue == at && self.waits_for(*path.last().unwrap()) == Some(at))
            {
                let circle = &path[first..];
                debug_assert!(circle.iter().all(|&queue| queue < self.link_queues));
                return (0..circle.len())
                    .map(|index| self.describe(circle[index], circle[(index + 1) % circle.len()]))
                    .collect();
            }
        }
        Vec::new()
    }

    /// The full buffer that the first packet of a queue waits for.
    fn waits_for(&self, queue: usize) -> Option<usize> {
        let input = &self.inputs[queue];
        if input.head == NONE {
            return None;
        }
        for link in self.wiring.links_of(input.router) {
            for class in 0..self.classes {
                if self.asks(link as usize, class, input.place.bit()) {
                    return Some(link as usize * self.channels + class * self.lanes);
                }
            }
        }
        None
    }

    fn describe(&self, queue: usize, next: usize) -> String {
        let name = |queue: usize| {
            let link = self.wiring.link_name((queue / self.channels) as u32);
            format!("{link} channel {}", queue % self.channels)
        };
        format!("the buffer of {} waits for room in that of {}", name(queue), name(next))
    }
}
