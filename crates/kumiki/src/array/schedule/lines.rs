//! One dimension of an exchange: which indices go from which node to which, as progressions of places.

use crate::array::space::{Dimension, Owned, Shadow, Span};

/// A dimension of one side, and the part of it that the exchange is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'m> {
    /// Its number in the array.
    pub(super) number: usize,
    pub(super) dimension: &'m Dimension,
    pub(super) span: Span,
}

/// One dimension of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line<'m> {
    /// Indices of the source that go to as many of the target, in their order.
    Pair { from: End<'m>, to: End<'m> },
    /// One index of the source: the target has no such dimension.
    FromOne(End<'m>),
    /// One index of the target: the source has no such dimension.
    ToOne(End<'m>),
    /// Indices of the target that all get the same: the source has no such dimension.
    ToAll(End<'m>),
    /// What a node has, and its shadow, which others have: so many below and above.
    Shadow { own: End<'m>, low: i64, high: i64, periodic: bool },
}

/// Indices that go from one node to another: where they are at the source, and where they go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    /// Where the source is in its dimension of the nodes.
    pub(super) source: u32,
    /// Whether it is about a shadow.
    pub(super) is_shadow: bool,
    pub(super) count: i64,
    /// The place of the first one, and from one to the next.
    pub(super) from: (i64, i64),
    pub(super) to: (i64, i64),
}

impl<'m> Line<'m> {
    /// The dimension of the source.
    pub(super) fn from(&self) -> Option<End<'m>> {
        match self {
            Line::Pair { from, .. } | Line::FromOne(from) => Some(*from),
            Line::Shadow { own, .. } => Some(*own),
            Line::ToOne(_) | Line::ToAll(_) => None,
        }
    }

    /// The dimension of the target.
    pub(super) fn to(&self) -> Option<End<'m>> {
        match self {
            Line::Pair { to, .. } | Line::ToOne(to) | Line::ToAll(to) => Some(*to),
            Line::Shadow { own, .. } => Some(*own),
            Line::FromOne(_) => None,
        }
    }

    /// What a receiver gets, from one source or from all. The order is the same in both cases.
    pub(super) fn steps(&self, receiver: u32, source: Option<u32>) -> Vec<Step> {
        let sources = |end: &End<'_>, base: i64, step: i64, count: i64| match source {
            Some(source) => vec![source],
            None => end.dimension.axis().owners(base, step, count),
        };
        match self {
            Line::Pair { from, to } => {
                let mut steps = Vec::new();
                let Span { base, step, count, .. } = to.span;
                for part in to.dimension.owned(receiver, base, step, count) {
                    let first = from.span.base + part.start * from.span.step;
                    let by = if part.count > 1 { part.stride * from.span.step } else { 1 };
                    for source in sources(from, first, by, part.count) {
                        let owned = from.dimension.owned(source, first, by, part.count);
                        steps.extend(owned.into_iter().map(|one| step_between(source, one, part)));
                    }
                }
                steps
            }
            Line::FromOne(from) => {
                let Span { base, .. } = from.span;
                let mut steps = Vec::new();
                for source in sources(from, base, 1, 1) {
                    let owned = from.dimension.owned(source, base, 1, 1);
                    steps.extend(owned.into_iter().map(|one| Step {
                        source,
                        is_shadow: false,
                        count: 1,
                        from: (one.local, 0),
                        to: (0, 0),
                    }));
                }
                steps
            }
            Line::ToOne(to) | Line::ToAll(to) => {
                let Span { base, step, count, .. } = to.span;
                let owned = to.dimension.owned(receiver, base, step, count);
                let step = |one: Owned| Step {
                    source: 0,
                    is_shadow: false,
                    count: one.count,
                    from: (0, 0),
                    to: (one.local, one.local_stride),
                };
                owned.into_iter().map(step).collect()
            }
            Line::Shadow { own, low, high, periodic } => {
                let steps = shadow_steps(own.dimension, receiver, (*low, *high), *periodic, source);
                steps.into_iter().filter(|step| source.is_none_or(|source| step.source == source)).collect()
            }
        }
    }

    /// Who may get something from a source.
    pub(super) fn receivers(&self, source: u32) -> Vec<u32> {
        match self {
            Line::Pair { from, to } => {
                let Span { base, step, count, .. } = from.span;
                let mut receivers = Vec::new();
                for part in from.dimension.owned(source, base, step, count) {
                    let first = to.span.base + part.start * to.span.step;
                    let by = if part.count > 1 { part.stride * to.span.step } else { 1 };
                    receivers.extend(to.dimension.axis().owners(first, by, part.count));
                }
                sorted(receivers)
            }
            Line::FromOne(from) => match from.dimension.axis().owner(from.span.base) {
                Some(owner) if owner == source => vec![0],
                _ => Vec::new(),
            },
            Line::ToOne(to) | Line::ToAll(to) => {
                let Span { base, step, count, .. } = to.span;
                to.dimension.axis().owners(base, step, count)
            }
            Line::Shadow { own, low, high, periodic } => {
                let axis = own.dimension.axis();
                let Some((first, last)) = own.dimension.ends(source) else { return Vec::new() };
                if own.dimension.shadow() == Shadow::Full || axis.is_cyclic() {
                    return (0..axis.nodes()).collect();
                }
                // Whoever has an index so near has some of these in its shadow.
                let size = own.dimension.size() as i64;
                let runs = inside(first - high, last + low, size, *periodic);
                sorted(runs.into_iter().flat_map(|(_, base, count)| axis.owners(base, 1, count)).collect())
            }
        }
    }
}

fn sorted(mut nodes: Vec<u32>) -> Vec<u32> {
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// What of a part of the target comes from a part of the source: positions of the source count from the first one of the target.
fn step_between(source: u32, from: Owned, to: Owned) -> Step {
    Step {
        source,
        is_shadow: false,
        count: from.count,
        from: (from.local, from.local_stride),
        to: (to.local + from.start * to.local_stride, from.stride * to.local_stride),
    }
}

/// What is in the array of the indices from `low` to `high`, or, if it closes to a ring, what they stand for: the index that each run
/// begins with, what that stands for, and how many there are.
fn inside(low: i64, high: i64, size: i64, periodic: bool) -> Vec<(i64, i64, i64)> {
    if size == 0 || low > high {
        return Vec::new();
    }
    if !periodic {
        let (low, high) = (low.max(0), high.min(size - 1));
        return if low <= high { vec![(low, low, high - low + 1)] } else { Vec::new() };
    }
    let mut runs = Vec::new();
    let mut at = low;
    while at <= high {
        let base = at.rem_euclid(size);
        let count = (size - base).min(high - at + 1);
        runs.push((at, base, count));
        at += count;
    }
    runs
}

fn shadow_steps(
    dimension: &Dimension,
    receiver: u32,
    (low, high): (i64, i64),
    periodic: bool,
    source: Option<u32>,
) -> Vec<Step> {
    let size = dimension.size() as i64;
    let step = |source, one: Owned, is_shadow, to| Step {
        source,
        is_shadow,
        count: one.count,
        from: (one.local, one.local_stride),
        to,
    };
    let own = dimension.owned(receiver, 0, 1, size);
    let mut steps: Vec<Step> =
        own.into_iter().map(|one| step(receiver, one, false, (one.local, one.local_stride))).collect();
    if dimension.shadow() == Shadow::Full {
        if low > 0 || high > 0 {
            let all = source.map_or(0..dimension.axis().nodes(), |source| source..source + 1);
            for source in all.filter(|source| *source != receiver) {
                let owned = dimension.owned(source, 0, 1, size);
                // Places are indices.
                let to = |one: Owned| (one.start, one.stride);
                steps.extend(owned.into_iter().map(|one| step(source, one, true, to(one))));
            }
        }
        return steps;
    }
    let (Some((first, last)), Some(shift)) = (dimension.ends(receiver), dimension.shift(receiver)) else {
        return steps;
    };
    for (from, to) in [(first - low, first - 1), (last + 1, last + high)] {
        for (at, base, count) in inside(from, to, size, periodic) {
            for source in dimension.axis().owners(base, 1, count) {
                let owned = dimension.owned(source, base, 1, count);
                let to = |one: Owned| (at + one.start + shift, one.stride);
                steps.extend(owned.into_iter().map(|one| step(source, one, true, to(one))));
            }
        }
    }
    steps
}
