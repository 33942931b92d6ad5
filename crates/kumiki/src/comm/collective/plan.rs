//! Plans: what a member does in a collective that was started and goes on bit by bit, as a list of exchanges over lanes.
//!
//! A plan is a value, and depends on nothing but the numbers of the members: the plans of all members of a group can be carried out in one
//! test.

use super::ring::split;
use super::tree::Place;
use super::Web;
use std::ops::Range;

/// What is done with what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// It goes to its place.
    Copy,
    /// It is combined with what is there, as what comes before it or behind it.
    Merge { others_first: bool },
}

/// An exchange with one or two partners: which pieces of the memory go out, and where goes what comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) to: Option<usize>,
    pub(super) from: Option<usize>,
    pub(super) out: Vec<Range<usize>>,
    pub(super) into: Vec<Range<usize>>,
    pub(super) how: How,
}

impl Step {
    fn send(to: usize, out: Range<usize>) -> Step {
        Step { to: Some(to), from: None, out: vec![out], into: Vec::new(), how: How::Copy }
    }

    fn receive(from: usize, into: Range<usize>, how: How) -> Step {
        Step { to: None, from: Some(from), out: Vec::new(), into: vec![into], how }
    }

    fn both([to, from]: [usize; 2], out: Vec<Range<usize>>, into: Vec<Range<usize>>, how: How) -> Step {
        Step { to: Some(to), from: Some(from), out, into, how }
    }
}

/// Waits for all.
pub(super) fn barrier(web: Web) -> Vec<Step> {
    let rounds = 0..web.rounds();
    rounds.map(|power| Step::both([web.up(power), web.down(power)], vec![], vec![], How::Copy)).collect()
}

/// Bytes of the root go to all.
pub(super) fn broadcast(web: Web, root: u32, bytes: usize) -> Vec<Step> {
    let place = Place::new(web, root);
    let comes = (!place.is_root()).then(|| Step::receive(web.down(place.power), 0..bytes, How::Copy));
    let goes = place.children().rev().map(|power| Step::send(web.up(power), 0..bytes));
    comes.into_iter().chain(goes).collect()
}

/// Elements of all come together on the root. If the order matters they do so on the first member, and go on from there.
pub(super) fn reduce(web: Web, root: u32, bytes: usize, commutes: bool) -> Vec<Step> {
    let top = if commutes { root } else { 0 };
    let (place, behind) = (Place::new(web, top), How::Merge { others_first: false });
    let mut steps: Vec<_> =
        place.children().map(|power| Step::receive(web.up(power), 0..bytes, behind)).collect();
    if !place.is_root() {
        steps.push(Step::send(web.down(place.power), 0..bytes));
    }
    let mut at = 0;
    for power in (0..web.rounds()).filter(|power| top != root && root >> power & 1 == 1) {
        if web.me == at {
            steps.push(Step::send(web.up(power), 0..bytes));
        }
        at += 1 << power;
        if web.me == at {
            steps.push(Step::receive(web.down(power), 0..bytes, How::Copy));
        }
    }
    steps
}

/// Combines elements of all, on all: by doubling, what is long in a ring; and by way of the first member if the order matters.
pub(super) fn allreduce(web: Web, bytes: usize, element: usize, commutes: bool, is_long: bool) -> Vec<Step> {
    match (commutes, is_long) {
        (false, _) => {
            let mut steps = reduce(web, 0, bytes, false);
            steps.extend(broadcast(web, 0, bytes));
            steps
        }
        (true, false) => doubling_allreduce(web, bytes),
        (true, true) => ring_allreduce(web, bytes, element.max(1)),
    }
}

fn doubling_allreduce(web: Web, bytes: usize) -> Vec<Step> {
    let most = web.count.ilog2();
    let beyond = web.count - (1 << most);
    if web.me >= 1 << most {
        let lane = web.down(most);
        return vec![Step::send(lane, 0..bytes), Step::receive(lane, 0..bytes, How::Copy)];
    }
    let mut steps = Vec::new();
    let is_partner = web.me < beyond;
    if is_partner {
        steps.push(Step::receive(web.up(most), 0..bytes, How::Merge { others_first: false }));
    }
    for power in 0..most {
        let others_first = web.me >> power & 1 == 1;
        let lane = if others_first { web.down(power) } else { web.up(power) };
        let how = How::Merge { others_first };
        steps.push(Step::both([lane; 2], piece(0..bytes), piece(0..bytes), how));
    }
    if is_partner {
        steps.push(Step::send(web.up(most), 0..bytes));
    }
    steps
}

fn ring_allreduce(web: Web, bytes: usize, element: usize) -> Vec<Step> {
    let (me, count) = (web.me as usize, web.count as usize);
    let parts: Vec<_> =
        split(bytes / element, web.count).map(|part| part.start * element..part.end * element).collect();
    let part = |back: usize| piece(parts[(me + 2 * count - back) % count].clone());
    let lanes = || [web.up(0), web.down(0)];
    let combined = (1..count)
        .map(|step| Step::both(lanes(), part(step), part(step + 1), How::Merge { others_first: true }));
    let gathered = (1..count).map(|step| Step::both(lanes(), part(step - 1), part(step), How::Copy));
    combined.chain(gathered).collect()
}

/// Brings a part of each to all, each to its place: in each step as many come as this member has.
pub(super) fn allgather(web: Web, part: usize) -> Vec<Step> {
    let step_of = |power: u32| {
        let step = 1 << power;
        let parts = step.min(web.count - step);
        let pieces = |first: u32| {
            (first..first + parts)
                .map(|index| (index % web.count) as usize)
                .map(|at| at * part..(at + 1) * part)
        };
        let lanes = [web.down(power), web.up(power)];
        Step::both(lanes, pieces(web.me).collect(), pieces(web.me + step).collect(), How::Copy)
    };
    (0..web.rounds()).map(step_of).collect()
}

/// A part of each for each: what is for a member at a distance is at that place, and goes there by its powers of two.
pub(super) fn alltoall(web: Web, part: usize) -> Vec<Step> {
    let step_of = |power: u32| {
        let parts = (0..web.count as usize).filter(|distance| distance >> power & 1 == 1);
        let pieces: Vec<_> = parts.map(|distance| distance * part..(distance + 1) * part).collect();
        Step::both([web.up(power), web.down(power)], pieces.clone(), pieces, How::Copy)
    };
    (0..web.rounds()).map(step_of).collect()
}

/// What is for the members at all distances, out of what is for all members: what an all-to-all begins with.
pub(super) fn by_distance<T: Copy>(data: &[T], me: usize, count: usize) -> Vec<T> {
    let part = data.len() / count;
    (0..count).flat_map(|distance| &data[(me + distance) % count * part..][..part]).copied().collect()
}

/// What has come from all members, out of what has come from those at all distances: what an all-to-all ends with.
pub(super) fn by_member<T: Copy>(data: &[T], me: usize, count: usize) -> Vec<T> {
    let part = data.len() / count;
    (0..count).flat_map(|from| &data[(me + count - from) % count * part..][..part]).copied().collect()
}

fn piece(range: Range<usize>) -> Vec<Range<usize>> {
    vec![range]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, VecDeque};

    /// Carries out the plans of all members: `data` of each, and what one element is combined to.
    fn carry_out(
        plan: impl Fn(Web) -> Vec<Step>,
        mut data: Vec<Vec<u64>>,
        merge: impl Fn(u64, u64) -> u64,
    ) -> Vec<Vec<u64>> {
        let count = data.len() as u32;
        let webs: Vec<_> = (0..count).map(|me| Web { me, count, first: 0 }).collect();
        let mut plans: Vec<VecDeque<Step>> = webs.iter().map(|web| plan(*web).into()).collect();
        let mut sent = vec![false; data.len()];
        // By the member that receives, and its lane.
        let mut under_way: HashMap<(u32, usize), VecDeque<Vec<u64>>> = HashMap::new();
        let words = |ranges: &[Range<usize>]| {
            ranges.iter().flat_map(|range| range.start / 8..range.end / 8).collect::<Vec<_>>()
        };
        while plans.iter().any(|plan| !plan.is_empty()) {
            let mut moved = false;
            for me in 0..count as usize {
                let Some(step) = plans[me].front().cloned() else { continue };
                if let Some(lane) = step.to.filter(|_| !sent[me]) {
                    let power = lane as u32 / 2;
                    let is_up = lane % 2 == 1;
                    let distance = (1 << power) % count;
                    let to = if is_up { me as u32 + distance } else { me as u32 + count - distance } % count;
                    let there = webs[0].lane(power, !is_up);
                    let bytes = words(&step.out).into_iter().map(|word| data[me][word]).collect();
                    under_way.entry((to, there)).or_default().push_back(bytes);
                    moved = true;
                }
                sent[me] = true;
                if let Some(lane) = step.from {
                    let Some(came) = under_way.get_mut(&(me as u32, lane)).and_then(VecDeque::pop_front)
                    else {
                        continue;
                    };
                    let places = words(&step.into);
                    assert_eq!(came.len(), places.len());
                    for (word, value) in places.into_iter().zip(came) {
                        let own = &mut data[me][word];
                        *own = match step.how {
                            How::Copy => value,
                            How::Merge { others_first: true } => merge(value, *own),
                            How::Merge { others_first: false } => merge(*own, value),
                        };
                    }
                }
                (moved, sent[me]) = (true, false);
                plans[me].pop_front();
            }
            assert!(moved, "nobody can go on");
        }
        assert!(under_way.values().all(VecDeque::is_empty), "what was sent is received");
        data
    }

    #[test]
    fn the_plans_of_all_members_together_are_the_collective() {
        let add = |one: u64, other: u64| one + other;
        // Strings of digits: the order counts.
        let join = |one: u64, other: u64| one * 17_u64.pow(other.ilog(17) + 1) + other;
        for count in (1..=9u32).chain([16]) {
            let n = count as usize;
            let of = |len: usize| {
                (0..n as u64)
                    .map(|me| (0..len as u64).map(|at| 100 * me + at + 1).collect())
                    .collect::<Vec<Vec<u64>>>()
            };
            carry_out(barrier, of(0), add);
            for root in 0..count {
                for data in carry_out(|web| broadcast(web, root, 40), of(5), add) {
                    assert_eq!(data, of(5)[root as usize]);
                }
                let sum: Vec<u64> = (0..5).map(|at| of(5).iter().map(|data| data[at]).sum()).collect();
                assert_eq!(carry_out(|web| reduce(web, root, 40, true), of(5), add)[root as usize], sum);
                let digits: Vec<Vec<u64>> = (0..n as u64).map(|me| vec![me % 16 + 1]).collect();
                let text = digits.iter().map(|digit| digit[0]).reduce(join).expect("one at least");
                if count <= 9 {
                    assert_eq!(
                        carry_out(|web| reduce(web, root, 8, false), digits.clone(), join)[root as usize],
                        [text]
                    );
                    assert_eq!(
                        carry_out(|web| allreduce(web, 8, 8, false, true), digits, join),
                        vec![vec![text]; n]
                    );
                }
            }
            for (len, is_long) in [(0, false), (5, false), (5, true), (23, true)] {
                let sum: Vec<u64> = (0..len).map(|at| of(len).iter().map(|data| data[at]).sum()).collect();
                let all = carry_out(|web| allreduce(web, 8 * len, 8, true, is_long), of(len), add);
                assert_eq!(all, vec![sum; n]);
            }
            let mut own = vec![vec![0; 2 * n]; n];
            own.iter_mut().enumerate().for_each(|(me, own)| own[2 * me..2 * me + 2].fill(me as u64 + 1));
            let whole: Vec<u64> = (0..2 * n as u64).map(|at| at / 2 + 1).collect();
            assert_eq!(carry_out(|web| allgather(web, 16), own, add), vec![whole; n]);
            let data = of(2 * n);
            let turned = data.iter().enumerate().map(|(me, data)| by_distance(data, me, n)).collect();
            let came = carry_out(|web| alltoall(web, 16), turned, add);
            for (me, came) in came.iter().enumerate() {
                let wanted: Vec<u64> =
                    data.iter().flat_map(|from| &from[2 * me..2 * me + 2]).copied().collect();
                assert_eq!(by_member(came, me, n), wanted);
            }
        }
    }
}
