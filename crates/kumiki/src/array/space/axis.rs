//! The arithmetic of one dimension: which node has an index, and where it lies there. Indices are those of an array or a template; what the formulas
//! compute with is the distance from the lower bound.

use super::misuse;
use super::template::Format;
use crate::Result;
use std::sync::Arc;

/// One dimension of an index space, spread over the nodes of one dimension of a set, or not spread.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    lower: i64,
    extent: i64,
    nodes: u32,
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    /// Every node has all of it.
    Whole,
    /// Blocks of this width.
    Block(i64),
    /// Blocks of this width in turn.
    Cyclic(i64),
    /// Where the block of each node begins, and where the last one ends.
    Irregular(Arc<[i64]>),
}

/// Those positions of a section that a node owns: `start`, `start + stride`, …, and where their elements lie. Positions count from the first index of the section.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owned {
    /// The first position.
    pub start: i64,
    /// From one position to the next; at least 1.
    pub stride: i64,
    /// How many there are; at least 1.
    pub count: i64,
    /// The place of the first one among what the node has, shadow left out.
    pub local: i64,
    /// From one place to the next.
    pub local_stride: i64,
}

impl Axis {
    /// A dimension with inclusive bounds that is spread over so many nodes.
    pub fn new(lower: i64, upper: i64, format: &Format, nodes: u32) -> Result<Axis> {
        let extent = i128::from(upper) - i128::from(lower) + 1;
        // One less than there could be: so the blocks of all nodes are never fewer.
        let extent = i64::try_from(extent.max(0)).ok().filter(|extent| *extent < i64::MAX);
        let extent =
            extent.ok_or_else(|| misuse(format!("bounds {lower}..={upper} are 2^63 - 1 indices or more")))?;
        let count = i64::from(nodes.max(1));
        let wide = |width: u64, what: &str| match i64::try_from(width) {
            Ok(width) if width > 0 => Ok(width.min(extent.max(1))),
            _ => Err(misuse(format!("{what}({width}): a width is at least 1"))),
        };
        let kind = match format {
            Format::None => Kind::Whole,
            Format::Block(None) => Kind::Block((extent / count + i64::from(extent % count > 0)).max(1)),
            Format::Block(Some(width)) => {
                let width = wide(*width, "block")?;
                if i128::from(width) * i128::from(count) < i128::from(extent) {
                    return Err(misuse(format!(
                        "block({width}) on {nodes} nodes does not cover {extent} indices"
                    )));
                }
                Kind::Block(width)
            }
            Format::Cyclic(width) => Kind::Cyclic(wide(*width, "cyclic")?),
            Format::Irregular(sizes) => Kind::Irregular(starts_of(sizes, nodes, extent)?),
        };
        let nodes = if kind == Kind::Whole { 1 } else { nodes };
        Ok(Axis { lower, extent, nodes, kind })
    }

    /// The same, with indices of an array that are added to `offset` to be its own.
    pub(super) fn shifted(&self, offset: i64) -> Result<Axis> {
        let lower = self
            .lower
            .checked_sub(offset)
            .ok_or_else(|| misuse(format!("an alignment with offset {offset}")))?;
        Ok(Axis { lower, ..self.clone() })
    }

    /// A dimension that every node has whole.
    pub(super) fn whole(extent: i64) -> Axis {
        Axis { lower: 0, extent, nodes: 1, kind: Kind::Whole }
    }

    /// The lower bound.
    pub fn lower(&self) -> i64 {
        self.lower
    }

    /// The upper bound: below the lower one if there are no indices.
    pub fn upper(&self) -> i64 {
        self.lower.wrapping_add(self.extent).wrapping_sub(1)
    }

    /// How many indices there are.
    pub fn extent(&self) -> u64 {
        self.extent as u64
    }

    /// Over how many nodes they are spread: 1 if they are not.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The width of a block: of the widest one, if they differ; the extent if the dimension is not spread.
    pub fn width(&self) -> u64 {
        match &self.kind {
            Kind::Whole => self.extent as u64,
            Kind::Block(width) | Kind::Cyclic(width) => *width as u64,
            Kind::Irregular(starts) => {
                starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) as u64
            }
        }
    }

    /// Whether it is spread in turn: only then a node's part is not one block.
    pub fn is_cyclic(&self) -> bool {
        matches!(self.kind, Kind::Cyclic(_))
    }

    /// Whether it is spread at all.
    pub fn is_spread(&self) -> bool {
        self.kind != Kind::Whole
    }

    /// From where a node's block goes to where: positions from the lower bound on. Not of those in turn.
    fn block(&self, node: u32) -> (i64, i64) {
        let node = i64::from(node);
        match &self.kind {
            Kind::Whole | Kind::Cyclic(_) => (0, self.extent),
            Kind::Block(width) => {
                let end = |node: i64| node.saturating_mul(*width).min(self.extent);
                (end(node), end(node + 1))
            }
            Kind::Irregular(starts) => {
                let at = |node: i64| starts.get(node as usize).copied().unwrap_or(self.extent);
                (at(node), at(node + 1))
            }
        }
    }

    /// The blocks of all nodes once.
    fn period(&self, width: i64) -> i64 {
        width.saturating_mul(i64::from(self.nodes))
    }

    /// Who has an index: its coordinate in the dimension of the nodes. `None` beyond the bounds. If every node has all, that is 0.
    pub fn owner(&self, index: i64) -> Option<u32> {
        let at = self.position(index)?;
        Some(match &self.kind {
            Kind::Whole => 0,
            Kind::Block(width) => (at / width) as u32,
            Kind::Cyclic(width) => (at / width % i64::from(self.nodes)) as u32,
            Kind::Irregular(starts) => (starts.partition_point(|start| *start <= at) - 1) as u32,
        })
    }

    fn position(&self, index: i64) -> Option<i64> {
        let at = i128::from(index) - i128::from(self.lower);
        (0..i128::from(self.extent)).contains(&at).then_some(at as i64)
    }

    /// The place of an index among those that its owner has of the whole dimension.
    pub fn local(&self, index: i64) -> Option<i64> {
        let (at, owner) = (self.position(index)?, self.owner(index)?);
        Some(self.local_at(owner, at))
    }

    fn local_at(&self, owner: u32, at: i64) -> i64 {
        match &self.kind {
            Kind::Cyclic(width) => at / self.period(*width) * width + at % width,
            _ => at - self.block(owner).0,
        }
    }

    /// The index at a place of what a node has, if it has so many.
    pub fn global(&self, node: u32, local: i64) -> Option<i64> {
        let at = match &self.kind {
            Kind::Cyclic(width) if local >= 0 => {
                let blocks = (local / width).checked_mul(self.period(*width))?;
                blocks.checked_add(i64::from(node).checked_mul(*width)?)?.checked_add(local % width)?
            }
            _ => self.block(node).0.checked_add(local)?,
        };
        let index = self.lower.wrapping_add(at);
        (local >= 0 && node < self.nodes && at < self.extent && self.owner(index) == Some(node))
            .then_some(index)
    }

    /// The first and the last index from `low` to `high` that a node has. Between them it has all, unless the dimension is spread in turn.
    pub fn ends(&self, node: u32, low: i64, high: i64) -> Option<(i64, i64)> {
        let (low, high) = (low.max(self.lower), high.min(self.upper()));
        if self.extent == 0 || low > high || node >= self.nodes {
            return None;
        }
        let (from, to) = (low.wrapping_sub(self.lower), high.wrapping_sub(self.lower));
        let (first, last) = match &self.kind {
            Kind::Cyclic(width) => {
                let (period, start) = (self.period(*width), i64::from(node).saturating_mul(*width));
                let end = start.saturating_add(*width);
                let turn = from / period * period;
                let first = match from - turn {
                    at if at < start => turn.checked_add(start),
                    at if at < end => Some(from),
                    _ => turn.checked_add(period).and_then(|turn| turn.checked_add(start)),
                };
                let turn = to / period * period;
                let last = match to - turn {
                    at if at >= end => turn + end - 1,
                    at if at >= start => to,
                    _ => turn - period + end - 1,
                };
                (first?, last)
            }
            _ => {
                let (start, end) = self.block(node);
                (from.max(start), to.min(end - 1))
            }
        };
        (first <= last).then(|| (self.lower.wrapping_add(first), self.lower.wrapping_add(last)))
    }

    /// How many of all indices a node has.
    pub fn count(&self, node: u32) -> u64 {
        match &self.kind {
            _ if node >= self.nodes => 0,
            Kind::Cyclic(width) => {
                let (period, start) = (self.period(*width), i64::from(node).saturating_mul(*width));
                let rest = (self.extent % period - start).clamp(0, *width);
                (self.extent / period * width + rest) as u64
            }
            _ => {
                let (start, end) = self.block(node);
                (end - start) as u64
            }
        }
    }

    /// What a node has of the indices `base`, `base + step`, …: few progressions, without going through the indices. All of them must be inside the
    /// bounds. The order is the same whoever asks.
    pub fn owned(&self, node: u32, base: i64, step: i64, count: i64) -> Vec<Owned> {
        let first = base.wrapping_sub(self.lower);
        let Kind::Cyclic(width) = self.kind else {
            let (start, end) = self.block(node);
            return self.inside(node, (start, end), first, step, count).into_iter().collect();
        };
        if count <= 0 || node >= self.nodes {
            return Vec::new();
        }
        let (period, start) = (self.period(width), i64::from(node).saturating_mul(width));
        let last = first + step * (count - 1);
        let (low, high) = (first.min(last), first.max(last));
        // Either a progression a block, or one for each place in a block.
        let blocks = high / period - low / period + 1;
        let mut all = Vec::new();
        if blocks <= width {
            let mut turns = low / period..=high / period;
            let next = |turns: &mut std::ops::RangeInclusive<i64>| {
                if step > 0 {
                    turns.next()
                } else {
                    turns.next_back()
                }
            };
            while let Some(turn) = next(&mut turns) {
                let block = (turn * period).saturating_add(start).min(self.extent);
                let end = block.saturating_add(width).min(self.extent);
                all.extend(self.inside(node, (block, end), first, step, count));
            }
            return all;
        }
        let common = gcd(step.unsigned_abs(), period as u64) as i64;
        for place in start..start + width {
            let away = (place - first).rem_euclid(period);
            if away % common != 0 {
                continue;
            }
            // The first position whose index is at this place of a period, and how many lie between it and the next one.
            let every = period / common;
            let inverse = inverse((step / common).rem_euclid(every), every);
            let at = (i128::from(away / common) * i128::from(inverse)).rem_euclid(i128::from(every)) as i64;
            if at >= count {
                continue;
            }
            let number = (count - 1 - at) / every + 1;
            let turns = if number > 1 { step / common } else { 0 };
            let local = self.local_at(node, first + at * step);
            let stride = if number > 1 { every } else { 1 };
            all.push(Owned { start: at, stride, count: number, local, local_stride: turns * width });
        }
        all.sort_unstable_by_key(|owned| owned.start);
        all
    }

    /// Those positions of a progression that lie in a block of a node.
    fn inside(
        &self,
        node: u32,
        (start, end): (i64, i64),
        first: i64,
        step: i64,
        count: i64,
    ) -> Option<Owned> {
        if count <= 0 || start >= end {
            return None;
        }
        let (from, to) = match step > 0 {
            true => (ceil(start - first, step), (end - 1 - first).div_euclid(step)),
            false => (ceil(first - (end - 1), -step), (first - start).div_euclid(-step)),
        };
        let (from, to) = (from.max(0), to.min(count - 1));
        (from <= to).then(|| Owned {
            start: from,
            stride: 1,
            count: to - from + 1,
            local: self.local_at(node, first + from * step),
            local_stride: if from == to { 0 } else { step },
        })
    }

    /// Who may have some of the indices `base`, `base + step`, …: in order; it may be that some of them have none.
    pub fn owners(&self, base: i64, step: i64, count: i64) -> Vec<u32> {
        if count <= 0 {
            return Vec::new();
        }
        let last = base + step * (count - 1);
        let (Some(one), Some(other)) = (self.owner(base), self.owner(last)) else { return Vec::new() };
        match self.kind {
            Kind::Cyclic(_) if count < i64::from(self.nodes) => {
                let mut owners: Vec<u32> = (0..count).filter_map(|k| self.owner(base + k * step)).collect();
                owners.sort_unstable();
                owners.dedup();
                owners
            }
            Kind::Cyclic(_) => (0..self.nodes).collect(),
            _ => (one.min(other)..=one.max(other)).collect(),
        }
    }
}

fn starts_of(sizes: &[u64], nodes: u32, extent: i64) -> Result<Arc<[i64]>> {
    if sizes.len() != nodes as usize {
        let blocks = sizes.len();
        return Err(misuse(format!("{blocks} irregular blocks for {nodes} nodes")));
    }
    let mut starts = vec![0i64];
    let mut sum = 0u64;
    for size in sizes {
        sum = sum.saturating_add(*size);
        starts.push(sum.min(i64::MAX as u64) as i64);
    }
    if sum != extent as u64 {
        return Err(misuse(format!("irregular blocks of {sum} indices together for {extent}")));
    }
    Ok(starts.into())
}

fn ceil(number: i64, by: i64) -> i64 {
    -(-number).div_euclid(by)
}

fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The number that, times `number`, is 1 beyond a multiple of `modulus`: they have no common divisor.
fn inverse(number: i64, modulus: i64) -> i64 {
    let (mut old, mut rest) = (i128::from(number), i128::from(modulus));
    let (mut one, mut other) = (1i128, 0i128);
    while rest != 0 {
        let quotient = old / rest;
        (old, rest) = (rest, old - quotient * rest);
        (one, other) = (other, one - quotient * other);
    }
    one.rem_euclid(i128::from(modulus)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn formats(nodes: u32, extent: i64) -> impl Strategy<Value = Format> {
        let least = (extent as u64).div_ceil(nodes.into()).max(1);
        let blocks =
            proptest::collection::vec(0..=extent as u64, nodes as usize - 1).prop_map(move |mut cuts| {
                cuts.extend([0, extent as u64]);
                cuts.sort_unstable();
                Format::Irregular(cuts.windows(2).map(|pair| pair[1] - pair[0]).collect())
            });
        prop_oneof![
            Just(Format::None),
            Just(Format::Block(None)),
            (least..least + 4).prop_map(|width| Format::Block(Some(width))),
            (1u64..8).prop_map(Format::Cyclic),
            Just(Format::Cyclic(1000)),
            blocks,
        ]
    }

    /// Who has an index and where, by counting from the first one on.
    fn model(format: &Format, nodes: u32, extent: i64) -> Vec<(u32, i64)> {
        let mut counts = vec![0i64; nodes as usize];
        let block = (extent as u64).div_ceil(nodes.into()).max(1);
        (0..extent)
            .map(|at| {
                let at = at as u64;
                let owner = match format {
                    Format::None => 0,
                    Format::Block(None) => at / block,
                    Format::Block(Some(width)) => at / width,
                    Format::Cyclic(width) => at / width % u64::from(nodes),
                    Format::Irregular(sizes) => {
                        let mut sum = 0;
                        sizes
                            .iter()
                            .take_while(|size| {
                                sum += **size;
                                sum <= at
                            })
                            .count() as u64
                    }
                };
                counts[owner as usize] += 1;
                (owner as u32, counts[owner as usize] - 1)
            })
            .collect()
    }

    fn cases() -> impl Strategy<Value = (Format, u32, i64, i64)> {
        (1u32..6, 0i64..40, -50i64..50).prop_flat_map(|(nodes, extent, lower)| {
            (formats(nodes, extent), Just(nodes), Just(extent), Just(lower))
        })
    }

    proptest! {
        #[test]
        fn owners_and_places_are_as_counted((format, nodes, extent, lower) in cases()) {
            let axis = Axis::new(lower, lower + extent - 1, &format, nodes).unwrap();
            let model = model(&format, nodes, extent);
            for (at, (owner, local)) in model.iter().enumerate() {
                let index = lower + at as i64;
                prop_assert_eq!((axis.owner(index), axis.local(index)), (Some(*owner), Some(*local)));
                prop_assert_eq!(axis.global(*owner, *local), Some(index));
            }
            prop_assert_eq!((axis.owner(lower - 1), axis.owner(lower + extent)), (None, None));
            for node in 0..axis.nodes() {
                let own: Vec<i64> = (0..extent).filter(|at| model[*at as usize].0 == node).collect();
                prop_assert_eq!(axis.count(node), own.len() as u64);
                prop_assert_eq!(axis.global(node, own.len() as i64), None);
                for low in 0..extent {
                    for high in low..extent {
                        let mut between = own.iter().filter(|at| (low..=high).contains(*at));
                        let first = between.next();
                        let ends = first.map(|first| (lower + first, lower + between.next_back().unwrap_or(first)));
                        prop_assert_eq!(axis.ends(node, lower + low, lower + high), ends);
                    }
                }
            }
        }

        #[test]
        fn what_is_owned_of_a_section_is_as_counted(
            (format, nodes, extent, lower) in cases(),
            (base, step, count) in (0i64..40, prop_oneof![-9i64..0, 1i64..10], 0i64..40),
        ) {
            prop_assume!(extent > 0);
            let base = base % extent;
            let room = if step > 0 { (extent - 1 - base) / step } else { base / -step } + 1;
            let count = count.min(room);
            let axis = Axis::new(lower, lower + extent - 1, &format, nodes).unwrap();
            let model = model(&format, nodes, extent);
            let mut all = Vec::new();
            let owners = axis.owners(lower + base, step, count);
            for node in 0..axis.nodes() {
                let parts = axis.owned(node, lower + base, step, count);
                prop_assert!(parts.is_empty() || owners.contains(&node));
                if let Format::Cyclic(width) = &format {
                    prop_assert!(parts.len() as u64 <= *width);
                } else {
                    prop_assert!(parts.len() <= 1);
                }
                for part in parts {
                    prop_assert!(part.count > 0 && part.stride > 0);
                    for k in 0..part.count {
                        let at = part.start + k * part.stride;
                        let place = model[(base + at * step) as usize];
                        prop_assert_eq!(place, (node, part.local + k * part.local_stride));
                        all.push(at);
                    }
                }
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn bounds_may_be_anywhere_and_are_checked() {
        let far = Axis::new(i64::MIN, -3, &Format::Block(None), 3).unwrap();
        assert_eq!((far.owner(i64::MIN), far.owner(-3), far.owner(-2)), (Some(0), Some(2), None));
        let wide = Axis::new(0, i64::MAX - 2, &Format::Cyclic(1 << 62), 3).unwrap();
        assert_eq!((wide.owner(1 << 62), wide.local(1 << 62)), (Some(1), Some(0)));
        assert_eq!((wide.count(1), wide.count(2)), ((1 << 62) - 2, 0));
        assert_eq!(wide.ends(2, 0, i64::MAX), None);
        for wrong in [
            Axis::new(i64::MIN, i64::MAX, &Format::None, 1),
            Axis::new(0, 9, &Format::Block(Some(2)), 4),
            Axis::new(0, 9, &Format::Cyclic(0), 4),
            Axis::new(0, 9, &Format::Irregular(vec![5, 4].into()), 2),
            Axis::new(0, 9, &Format::Irregular(vec![10].into()), 2),
        ] {
            assert!(matches!(wrong, Err(crate::Error::Misuse(_))), "{wrong:?}");
        }
    }
}
