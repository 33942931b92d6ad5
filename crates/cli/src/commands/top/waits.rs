//! Who waits for whom: chains, and circles in which nobody goes on by what is known. A value.

use super::worlds::World;
use std::collections::{BTreeMap, BTreeSet};

/// A wait in a circle counts when it has lasted for so long: before that a message may be on its way.
const LASTING_MS: u64 = 1000;

/// Whom each rank waits for.
pub(super) type Edges = BTreeMap<u32, Vec<u32>>;

/// Ranks that wait for the same one, and for whom that waits, and so on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// For whom nobody waits.
    pub(super) ranks: Vec<u32>,
    /// One behind the other.
    pub(super) then: Vec<u32>,
}

/// Who waits for whom in a world, those left out who have not for long.
pub(super) fn edges(world: &World, at_least_ms: u64) -> Edges {
    let waits = world.members.iter().filter_map(|member| Some((member.rank, member.wait.as_ref()?)));
    let lasting = waits.filter(|(_, wait)| wait.for_ms >= at_least_ms && !wait.whom.is_empty());
    lasting.map(|(rank, wait)| (rank, wait.whom.clone())).collect()
}

/// The circles of a world.
pub(super) fn circles_of(world: &World) -> Vec<Vec<u32>> {
    circles(edges(world, LASTING_MS))
}

/// Circles, each as its ranks in order, the first one waiting for the second. There is one if, and only if, somebody waits for itself in the end.
pub(super) fn circles(mut edges: Edges) -> Vec<Vec<u32>> {
    // Whoever waits only for those who go on will go on: what is left always leads back.
    loop {
        let waiting: BTreeSet<u32> = edges.keys().copied().collect();
        edges.values_mut().for_each(|whom| whom.retain(|rank| waiting.contains(rank)));
        edges.retain(|_, whom| !whom.is_empty());
        if edges.len() == waiting.len() {
            break;
        }
    }
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for start in edges.keys() {
        let mut path: Vec<u32> = Vec::new();
        let mut at = *start;
        while seen.insert(at) {
            path.push(at);
            at = edges[&at][0];
        }
        if let Some(first) = path.iter().position(|rank| *rank == at) {
            found.push(path.split_off(first));
        }
    }
    found
}

/// The chains that are no circles, the longest first.
pub(super) fn chains(edges: &Edges) -> Vec<Chain> {
    let awaited: BTreeSet<u32> = edges.values().flatten().copied().collect();
    let mut chains: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, whom) in edges.iter().filter(|(rank, _)| !awaited.contains(rank)) {
        chains.entry(whom[0]).or_default().push(*rank);
    }
    let mut chains: Vec<Chain> =
        chains.into_iter().map(|(next, ranks)| Chain { ranks, then: follow(edges, next) }).collect();
    chains.sort_by_key(|chain| std::cmp::Reverse((chain.then.len(), chain.ranks.len())));
    chains
}

/// A rank, for whom it waits, and so on, until somebody does not wait or comes a second time.
fn follow(edges: &Edges, start: u32) -> Vec<u32> {
    let (mut path, mut seen) = (vec![start], BTreeSet::from([start]));
    let mut at = start;
    while let Some(next) = edges.get(&at).and_then(|whom| whom.first()) {
        path.push(*next);
        if !seen.insert(*next) {
            break;
        }
        at = *next;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edges(pairs: &[(u32, &[u32])]) -> Edges {
        pairs.iter().map(|(rank, whom)| (*rank, whom.to_vec())).collect()
    }

    #[test]
    fn a_chain_ends_with_who_does_not_wait_and_a_circle_is_named_once() {
        let chain = edges(&[(0, &[1]), (1, &[2]), (5, &[1])]);
        assert_eq!(circles(chain.clone()), Vec::<Vec<u32>>::new());
        assert_eq!(chains(&chain), [Chain { ranks: vec![0, 5], then: vec![1, 2] }]);
        let both = edges(&[(0, &[1]), (1, &[0]), (2, &[1]), (3, &[9, 3])]);
        assert_eq!(circles(both.clone()), [vec![0, 1], vec![3]]);
        assert_eq!(chains(&both), [Chain { ranks: vec![2], then: vec![1, 0, 1] }]);
    }

    proptest! {
        #[test]
        fn there_is_a_circle_if_somebody_waits_for_itself_in_the_end(
            pairs in proptest::collection::vec((0u32..9, 0u32..9), 0..16),
        ) {
            let mut edges = Edges::new();
            for (rank, whom) in &pairs {
                edges.entry(*rank).or_default().push(*whom);
            }
            let mut reach: BTreeSet<(u32, u32)> = pairs.iter().copied().collect();
            for _ in 0..9 {
                let more: Vec<_> = reach.iter().flat_map(|(a, b)| {
                    let next = reach.iter().filter(move |(c, _)| b == c);
                    next.map(move |(_, d)| (*a, *d))
                }).collect();
                reach.extend(more);
            }
            let found = circles(edges.clone());
            prop_assert_eq!(!found.is_empty(), reach.iter().any(|(a, b)| a == b));
            for circle in &found {
                for (at, rank) in circle.iter().enumerate() {
                    let next = circle[(at + 1) % circle.len()];
                    prop_assert!(edges[rank].contains(&next), "{:?}", circle);
                }
            }
            let _ = chains(&edges);
        }
    }
}
