//! `loop`: which iterations of a nest of loops this node executes, as boxes.

use super::loop_reductions::KxmpLevel;
use super::references::{KxmpRef, Of, Subscript};
use super::templates::Template;
use super::{edge, edge_or, sets, MOST_DIMENSIONS};
use crate::api::buffers::list;
use crate::guard::misuse;
use kumiki::array::{self, Axis, Progression, Sub};
use kumiki::Result;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::{Mutex, PoisonError};

/// `kxmp_widen`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpWiden {
    mode: c_int,
    unbound: [c_int; MOST_DIMENSIONS],
    lo: [c_long; MOST_DIMENSIONS],
    hi: [c_long; MOST_DIMENSIONS],
}

const MARGIN: c_int = 2;

/// `kxmp_range`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpRange {
    first: c_long,
    last: c_long,
    step: c_long,
}

/// `kxmp_nest`.
#[repr(C)]
#[derive(Debug)]
pub struct KxmpNest {
    ranges: [KxmpRange; MOST_DIMENSIONS],
    levels: c_int,
    /// The boxes that are left, if there is more than one.
    inside: [*mut c_void; 2],
    /// The first: how many boxes are left to be given.
    counters: [c_long; 4 * MOST_DIMENSIONS],
}

const NOTHING: KxmpRange = KxmpRange { first: 0, last: -1, step: 1 };

/// The boxes of a nest that are left: products of what each loop has.
#[derive(Debug)]
struct Left {
    /// For each part: for each loop, what it has.
    parts: Vec<Vec<Vec<Progression>>>,
    part: usize,
    /// Which of them comes next, for each loop.
    next: [usize; MOST_DIMENSIONS],
}

impl Left {
    /// The next box.
    fn next(&mut self, ranges: &mut [KxmpRange; MOST_DIMENSIONS]) -> bool {
        let Some(lists) = self.parts.get(self.part) else { return false };
        for ((range, list), &at) in ranges.iter_mut().zip(lists).zip(&self.next) {
            *range = KxmpRange { first: list[at].first, last: list[at].last, step: list[at].step };
        }
        for (at, list) in self.next.iter_mut().zip(lists).rev() {
            *at += 1;
            if *at < list.len() {
                return true;
            }
            *at = 0;
        }
        self.part += 1;
        true
    }
}

thread_local! {
    /// How many reductions are open that look for the first or the last of something: meanwhile nests are executed in the order of the sequential
    /// program. One loop of the program may be several nests, and have others inside.
    static ORDERED: Cell<usize> = const { Cell::new(0) };
}

/// From now on nests are executed in the order of the sequential program.
pub(super) fn begin_order() {
    ORDERED.set(ORDERED.get() + 1);
}

/// What began with [`begin_order`] ends.
pub(super) fn end_order() {
    ORDERED.set(ORDERED.get().saturating_sub(1));
}

/// The boxes that nests have left, by where the nest is. A nest that the program has left in the middle is never asked for the rest: what it had goes
/// when another begins in its place.
static LEFT: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Notes what a nest has left, and drops what an earlier one in its place had.
fn keep(nest: *const KxmpNest, left: Option<*mut Left>) {
    let mut all = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let earlier = match left {
        Some(left) => all.insert(nest as usize, left as usize),
        None => all.remove(&(nest as usize)),
    };
    if let Some(earlier) = earlier {
        // SAFETY: it was made for a nest in this place, which is not there any more or has come to its end, and is given up here, once.
        drop(unsafe { Box::from_raw(earlier as *mut Left) });
    }
}

/// What one loop comes to on this node.
enum Run {
    /// These, whatever the other loops do.
    Fixed(Vec<Progression>),
    /// What lies between bounds: the own ones, and those that they are widened or narrowed to.
    Bounds { loops: KxmpLevel, own: (i64, i64), widened: (i64, i64) },
}

/// Begins a nest.
///
/// # Safety
/// `nest` must be writable; `place` must be a text, or NULL; `level` must have `levels` loops; `widen` must be readable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_nest_begin(
    nest: *mut KxmpNest,
    place: *const c_char,
    on: KxmpRef,
    levels: c_int,
    level: *const KxmpLevel,
    widen: *const KxmpWiden,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "loop", || {
            let count = usize::try_from(levels).ok().filter(|count| (1..=MOST_DIMENSIONS).contains(count));
            let count =
                count.ok_or_else(|| misuse(format!("a nest of {levels} loops; there can be 1 to 7")))?;
            let level = list(level, count, "the loops")?;
            if level.iter().any(|level| level.step == 0) {
                return Err(misuse("the step of a loop is 0"));
            }
            let mut left = parts(&on, level, widen.as_ref().filter(|widen| widen.mode != 0))?;
            if ORDERED.get() > 0 {
                left.parts.iter_mut().for_each(|lists| order(lists));
            }
            let mut begun = KxmpNest {
                ranges: [NOTHING; MOST_DIMENSIONS],
                levels,
                inside: [std::ptr::null_mut(); 2],
                counters: [0; 4 * MOST_DIMENSIONS],
            };
            if let [lists] = &left.parts[..] {
                if lists.iter().all(|list| list.len() == 1) {
                    left.next(&mut begun.ranges);
                    begun.counters[0] = 1;
                    left.parts.clear();
                }
            }
            if !left.parts.is_empty() {
                let left = Box::into_raw(Box::new(left));
                keep(nest, Some(left));
                begun.inside[0] = left.cast();
            }
            nest.write(begun);
            Ok(())
        })
    }
}

/// The next box of a nest, if there is one.
///
/// # Safety
/// `nest` must have been begun.
#[no_mangle]
pub unsafe extern "C" fn kxmp_nest_next(nest: *mut KxmpNest) -> c_int {
    edge_or("loop", 0, || {
        // SAFETY: as the caller promises.
        let nest = unsafe { &mut *nest };
        let more: *mut Left = nest.inside[0].cast();
        if more.is_null() {
            return Ok(std::mem::take(&mut nest.counters[0]) as c_int);
        }
        // SAFETY: it was made when the nest was begun, and is there until its end.
        let has_next = unsafe { (*more).next(&mut nest.ranges) };
        if !has_next {
            nest.inside[0] = std::ptr::null_mut();
            keep(nest, None);
        }
        Ok(has_next.into())
    })
}

/// Brings what each loop has into an order in which iterations come as in the sequential program: whatever encloses a loop that has several
/// pieces goes by single iterations.
fn order(lists: &mut [Vec<Progression>]) {
    for list in lists.iter_mut().filter(|list| list.len() > 1) {
        let step = list[0].step.signum();
        let mut indices: Vec<i64> = list.iter().flat_map(|range| range.indices()).collect();
        indices.sort_unstable_by_key(|index| index * step);
        *list = Vec::new();
        for index in indices {
            match list.last_mut() {
                Some(last) if last.first == last.last || index - last.last == last.step => {
                    // Two make a step, which the others keep.
                    (last.step, last.last) = (index - last.last, index);
                }
                _ => list.push(Progression { first: index, last: index, step }),
            }
        }
    }
    let Some(last) = lists.iter().rposition(|list| list.len() > 1) else { return };
    for list in &mut lists[..last] {
        // The sign says in which direction the program compares.
        let single = |range: &Progression| {
            let step = range.step.signum();
            range
                .indices()
                .map(move |index| Progression { first: index, last: index, step })
                .collect::<Vec<_>>()
        };
        *list = list.iter().flat_map(single).collect();
    }
}

/// All that this node has to do.
fn parts(on: &KxmpRef, levels: &[KxmpLevel], widen: Option<&KxmpWiden>) -> Result<Left> {
    let is_margin = widen.is_some_and(|widen| widen.mode == MARGIN);
    let on = &on.without_variables(levels);
    let runs = match on.of()? {
        Of::Executing => Some(levels.iter().map(|level| Run::Fixed(plain(level))).collect()),
        Of::Nodes(nodes) => {
            let own = nodes.coordinates(sets::rank());
            match (own, on.subscripts(&nodes.name, &nodes.bounds())?) {
                (None, _) => None,
                (Some(_), None) => Some(levels.iter().map(|level| Run::Fixed(plain(level))).collect()),
                (Some(own), Some(subscripts)) => on_nodes(&own, &subscripts, levels),
            }
        }
        Of::Template(template) => on_template(template, on, levels, widen)?,
    };
    let parts = runs.map_or(Vec::new(), |runs: Vec<Run>| combine(&runs, is_margin));
    Ok(Left { parts, part: 0, next: [0; MOST_DIMENSIONS] })
}

/// The loop itself.
fn plain(level: &KxmpLevel) -> Vec<Progression> {
    Progression::clipped(level.lo, level.hi, level.step, i64::MIN, i64::MAX).into_iter().collect()
}

/// A loop as far as it lies between bounds. Those may be beyond its own.
fn clipped(level: &KxmpLevel, (low, high): (i64, i64)) -> Option<Progression> {
    let (step, size) = (level.step, level.step.unsigned_abs() as i64);
    // As far as the bounds reach, with the same remainder.
    let before = |from: i64, to: i64| (from.saturating_sub(to)).max(0) / size * size;
    let (first, last) = match step > 0 {
        true => (level.lo - before(level.lo, low), level.hi.max(high)),
        false => (level.lo + before(high, level.lo), level.hi.min(low)),
    };
    Progression::clipped(first, last, step, low, high)
}

fn level_of(levels: &[KxmpLevel], axis: usize) -> Option<&KxmpLevel> {
    levels.iter().find(|level| usize::try_from(level.axis) == Ok(axis))
}

fn on_nodes(own: &[i64], subscripts: &[Subscript], levels: &[KxmpLevel]) -> Option<Vec<Run>> {
    let is_named = |(axis, subscript): (usize, &Subscript)| {
        let at = own[axis];
        level_of(levels, axis).is_some()
            || match *subscript {
                Subscript::At(index) => index == at,
                Subscript::Range { first, last, step } => {
                    (first.min(last)..=first.max(last)).contains(&at) && (at - first) % step == 0
                }
                Subscript::All | Subscript::Any => true,
            }
    };
    if !subscripts.iter().enumerate().all(is_named) {
        return None;
    }
    let run = |level: &KxmpLevel| match usize::try_from(level.axis).ok().and_then(|axis| own.get(axis)) {
        Some(at) => {
            let at = at - level.offset;
            Run::Fixed(Progression::clipped(level.lo, level.hi, level.step, at, at).into_iter().collect())
        }
        None => Run::Fixed(plain(level)),
    };
    Some(levels.iter().map(run).collect())
}

fn on_template(
    template: &Template,
    on: &KxmpRef,
    levels: &[KxmpLevel],
    widen: Option<&KxmpWiden>,
) -> Result<Option<Vec<Run>>> {
    let space = template.space()?;
    let Some(own) = space.nodes().coordinates(sets::rank()) else { return Ok(None) };
    let node = |dimension: usize| space.node_dimension(dimension).map_or(0, |at| own[at]);
    for (dimension, subscript) in template.subscripts(&space, on)?.iter().flatten().enumerate() {
        if level_of(levels, template.turned(dimension)).is_some() || space.node_dimension(dimension).is_none()
        {
            continue;
        }
        let axis = space.axis(dimension);
        let has = match *subscript {
            Sub::Index(index) => axis.owner(index) == Some(node(dimension)),
            Sub::Range { base: Some(base), count: Some(count), step } => {
                !axis.owned(node(dimension), base, step, count).is_empty()
            }
            _ => true,
        };
        if !has {
            return Ok(None);
        }
    }
    let mut runs = Vec::with_capacity(levels.len());
    for level in levels {
        let Ok(axis) = usize::try_from(level.axis) else {
            runs.push(Run::Fixed(plain(level)));
            continue;
        };
        if axis >= template.ndims {
            return Err(misuse(format!("template {} has no dimension {}", template.name, axis + 1)));
        }
        let dimension = template.turned(axis);
        let widths = widen.map(|widen| (widen.lo[axis], widen.hi[axis], widen.unbound[axis] != 0));
        let is_spread = space.node_dimension(dimension).is_some();
        runs.push(match widths.filter(|(low, high, _)| (*low, *high) != (0, 0)) {
            None if is_spread => Run::Fixed(own_ranges(space.axis(dimension), node(dimension), level)),
            None => Run::Fixed(plain(level)),
            Some(widths) => match widened(space.axis(dimension), node(dimension), level, widths)? {
                Some(run) => run,
                None => return Ok(None),
            },
        });
    }
    Ok(Some(runs))
}

/// The iterations whose index of the template a node has.
fn own_ranges(axis: &Axis, node: u32, level: &KxmpLevel) -> Vec<Progression> {
    let there = |index: i64| index.saturating_add(level.offset);
    let ranges = axis.ranges(node, there(level.lo), there(level.hi), level.step);
    let back = |range: Progression| Progression {
        first: range.first - level.offset,
        last: range.last - level.offset,
        step: range.step,
    };
    ranges.into_iter().map(back).collect()
}

/// The own iterations of a loop, and what they are widened to; none if the node has nothing at all.
fn widened(
    axis: &Axis,
    node: u32,
    level: &KxmpLevel,
    (low, high, unbound): (i64, i64, bool),
) -> Result<Option<Run>> {
    if axis.is_cyclic() {
        return Err(misuse("expand, margin and peel_and_wait are for dimensions that are spread in blocks, not for cyclic ones"));
    }
    let Some((first, last)) = axis.ends(node, axis.lower(), axis.upper()) else { return Ok(None) };
    let (first, last) = (first - level.offset, last - level.offset);
    let (lower, upper) = (level.lo.min(level.hi), level.lo.max(level.hi));
    let own = (first.max(lower), last.min(upper));
    let widened = match unbound && own.0 <= own.1 {
        true => (own.0.saturating_sub(low), own.1.saturating_add(high)),
        false => (first.saturating_sub(low).max(lower), last.saturating_add(high).min(upper)),
    };
    Ok(Some(Run::Bounds { loops: *level, own, widened }))
}

/// Of what is own and what is wider, from the first to the last, one or the other.
type Pick = fn((i64, i64), (i64, i64)) -> (i64, i64);

/// All loops together: for each part, what each loop has. Parts in which one has nothing are left out.
fn combine(runs: &[Run], is_margin: bool) -> Vec<Vec<Vec<Progression>>> {
    let bounds = |pick: Pick| -> Vec<(i64, i64)> {
        let one = |run: &Run| match run {
            Run::Fixed(_) => (0, 0),
            Run::Bounds { own, widened, .. } => pick(*own, *widened),
        };
        runs.iter().map(one).collect()
    };
    let parts = match is_margin {
        false => vec![bounds(|_, widened| widened)],
        true => {
            let outer = bounds(|own, widened| (own.0.min(widened.0), own.1.max(widened.1)));
            let inner = bounds(|own, widened| (own.0.max(widened.0), own.1.min(widened.1)));
            array::margin(&outer, &inner)
        }
    };
    let lists = |part: &Vec<(i64, i64)>| -> Vec<Vec<Progression>> {
        let list = |(run, bounds): (&Run, &(i64, i64))| match run {
            Run::Fixed(list) => list.clone(),
            Run::Bounds { loops, .. } => clipped(loops, *bounds).into_iter().collect(),
        };
        runs.iter().zip(part).map(list).collect()
    };
    parts.iter().map(lists).filter(|lists| lists.iter().all(|list| !list.is_empty())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widened_loops_and_margins() {
        let level = KxmpLevel { axis: 0, offset: 0, lo: 1, hi: 8, step: 1 };
        let axis = |node| {
            let axis = array::Template::block(&[10], &array::Nodes::line(2)).unwrap().axis(0).clone();
            move |widths| {
                let run = widened(&axis, node, &level, widths).unwrap().unwrap();
                let list = |is_margin| {
                    let boxes = combine(std::slice::from_ref(&run), is_margin);
                    boxes.iter().map(|found| (found[0][0].first, found[0][0].last)).collect::<Vec<_>>()
                };
                (list(false), list(true))
            }
        };
        assert_eq!(axis(0)((1, 1, false)), (vec![(1, 5)], vec![(5, 5)]));
        assert_eq!(axis(0)((1, 1, true)), (vec![(0, 5)], vec![(0, 0), (5, 5)]));
        assert_eq!(axis(0)((-1, -1, false)), (vec![(1, 3)], vec![(4, 4)]));
        assert_eq!(axis(1)((-2, -2, false)), (vec![(7, 7)], vec![(5, 6), (8, 8)]));
        let down = KxmpLevel { lo: 8, hi: 1, step: -3, ..level };
        assert_eq!(clipped(&down, (0, 12)).map(|range| (range.first, range.last)), Some((11, 2)));
        assert_eq!(clipped(&down, (3, 7)).map(|range| (range.first, range.last)), Some((5, 5)));
    }

    #[test]
    fn a_nest_in_order_has_the_order_of_the_program() {
        let range = |first, last, step| Progression { first, last, step };
        let mut lists = vec![vec![range(1, 2, 1)], vec![range(0, 6, 6), range(1, 7, 6), range(2, 8, 6)]];
        order(&mut lists);
        let mut left = Left { parts: vec![lists], part: 0, next: [0; MOST_DIMENSIONS] };
        let (mut ranges, mut seen) = ([NOTHING; MOST_DIMENSIONS], Vec::new());
        while left.next(&mut ranges) {
            for i in ranges[0].first..=ranges[0].last {
                seen.extend(
                    (ranges[1].first..=ranges[1].last).step_by(ranges[1].step as usize).map(|j| (i, j)),
                );
            }
        }
        let model: Vec<(i64, i64)> = (1..3).flat_map(|i| [0, 1, 2, 6, 7, 8].map(|j| (i, j))).collect();
        assert_eq!(seen, model);
    }

    #[test]
    fn a_nest_in_order_that_goes_down_keeps_its_direction() {
        let range = |first, last, step| Progression { first, last, step };
        let mut lists = vec![vec![range(5, 1, -2)], vec![range(6, 0, -6), range(7, 1, -6)]];
        order(&mut lists);
        assert_eq!(lists[0], [range(5, 5, -1), range(3, 3, -1), range(1, 1, -1)]);
        assert!(lists[1].iter().all(|range| range.step < 0));
        let inner: Vec<i64> = lists[1].iter().flat_map(|range| range.indices()).collect();
        assert_eq!(inner, [7, 6, 1, 0]);
    }
}
