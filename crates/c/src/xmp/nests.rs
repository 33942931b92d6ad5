//! `loop`: which iterations of a nest of loops this node executes, as boxes.

use super::loop_reductions::KxmpLevel;
use super::references::{KxmpRef, Of, Subscript};
use super::templates::Template;
use super::{edge, edge_or, sets, MOST_DIMENSIONS};
use crate::api::buffers::list;
use crate::guard::misuse;
use kumiki::array::{self, Axis, Progression, Sub};
use kumiki::Result;
use std::ffi::{c_char, c_int, c_long, c_void};

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

type Box7 = [KxmpRange; MOST_DIMENSIONS];
const NOTHING: KxmpRange = KxmpRange { first: 0, last: -1, step: 1 };

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
            let mut boxes = boxes(&on, level, widen.as_ref().filter(|widen| widen.mode != 0))?;
            let mut begun = KxmpNest {
                ranges: [NOTHING; MOST_DIMENSIONS],
                levels,
                inside: [std::ptr::null_mut(); 2],
                counters: [0; 4 * MOST_DIMENSIONS],
            };
            begun.counters[0] = boxes.len() as c_long;
            if let [one] = boxes[..] {
                begun.ranges = one;
            } else if !boxes.is_empty() {
                boxes.reverse();
                begun.inside[0] = Box::into_raw(Box::new(boxes)).cast();
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
        let left = nest.counters[0];
        nest.counters[0] = (left - 1).max(0);
        let more: *mut Vec<Box7> = nest.inside[0].cast();
        if !more.is_null() {
            // SAFETY: it was made when the nest was begun, and is given up here, once.
            unsafe {
                match (*more).pop() {
                    Some(next) => nest.ranges = next,
                    None => {
                        drop(Box::from_raw(more));
                        nest.inside[0] = std::ptr::null_mut();
                    }
                }
            }
        }
        Ok(c_int::from(left > 0))
    })
}

/// All boxes of this node.
fn boxes(on: &KxmpRef, levels: &[KxmpLevel], widen: Option<&KxmpWiden>) -> Result<Vec<Box7>> {
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
    Ok(runs.map_or(Vec::new(), |runs: Vec<Run>| combine(&runs, is_margin)))
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

/// The boxes of all loops together.
fn combine(runs: &[Run], is_margin: bool) -> Vec<Box7> {
    let bounds = |pick: fn((i64, i64), (i64, i64)) -> (i64, i64)| -> Vec<(i64, i64)> {
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
    let mut boxes = Vec::new();
    for part in parts {
        let lists: Vec<Vec<Progression>> = runs
            .iter()
            .zip(&part)
            .map(|(run, bounds)| match run {
                Run::Fixed(list) => list.clone(),
                Run::Bounds { loops, .. } => clipped(loops, *bounds).into_iter().collect(),
            })
            .collect();
        let mut found = vec![[NOTHING; MOST_DIMENSIONS]];
        for (level, list) in lists.iter().enumerate() {
            let with = |start: &Box7, range: &Progression| {
                let mut next = *start;
                next[level] = KxmpRange { first: range.first, last: range.last, step: range.step };
                next
            };
            found = found.iter().flat_map(|start| list.iter().map(move |range| with(start, range))).collect();
        }
        boxes.append(&mut found);
    }
    boxes
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
                    boxes.iter().map(|found| (found[0].first, found[0].last)).collect::<Vec<_>>()
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
}
