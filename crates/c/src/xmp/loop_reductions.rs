//! The reduction clause of a loop: the value from before counts once, and a location is that of the first or last iteration of the sequential loop.

use super::collectives::{bytes_for, reduce};
use super::references::{self, KxmpRef};
use super::sets::Set;
use super::values::{Op, Type};
use super::{alike, edge, nests};
use crate::api::buffers::{list, readable, writable};
use crate::guard::misuse;
use kumiki::raw::groups::{allreduce, Combination};
use kumiki::Result;
use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::Arc;

/// `kxmp_level`: one loop of a nest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpLevel {
    pub(super) axis: c_int,
    pub(super) offset: c_long,
    pub(super) lo: c_long,
    pub(super) hi: c_long,
    pub(super) step: c_long,
}

/// `kxmp_place`: a location variable.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpPlace {
    variable: *mut c_void,
    bytes: usize,
}

/// The set that combines what a loop has found, and how.
struct Clause {
    set: Option<Arc<Set>>,
    kind: Type,
    op: Op,
}

unsafe fn clause(
    on: &KxmpRef,
    levels: c_int,
    level: *const KxmpLevel,
    op: c_int,
    kind: c_int,
) -> Result<(Clause, &'static [KxmpLevel])> {
    let count = usize::try_from(levels).map_err(|_| misuse(format!("{levels} loops")))?;
    // SAFETY: as the caller promises; used before the call returns only.
    let level = unsafe { list(level, count, "the loops") }?;
    let set = references::loop_set(on, level)?;
    Ok((Clause { set, kind: Type::new(kind)?, op: Op::new(op)? }, level))
}

/// Before the loop: all nodes but the first begin with what changes nothing.
///
/// # Safety
/// `place` must be a text, or NULL; `level` must have `levels` loops; `value` must have `count` elements of the type.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // As many as translated programs give.
pub unsafe extern "C" fn kxmp_loop_reduction_begin(
    place: *const c_char,
    on: KxmpRef,
    levels: c_int,
    level: *const KxmpLevel,
    op: c_int,
    kind: c_int,
    value: *mut c_void,
    count: c_long,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "the reduction of a loop", || {
            let (clause, level) = clause(&on, levels, level, op, kind)?;
            let value = writable(value, bytes_for(count, &clause.kind)?, "the variable")?;
            if let Some(set) = &clause.set {
                // All of them come by, so the bounds of the loops can be compared, too.
                let bounds = |level: &KxmpLevel| format!("{} to {} by {}", level.lo, level.hi, level.step);
                alike(place, set, || {
                    let bounds: Vec<String> = level.iter().map(bounds).collect();
                    format!("loop({}; reduction {:?} of {count})", bounds.join(", "), clause.op)
                })?;
            }
            if clause.op.located().is_some() {
                nests::begin_order();
            }
            if clause.set.is_some_and(|set| set.me > 0) {
                let identity = clause.kind.identity(clause.op)?;
                value.chunks_exact_mut(identity.len()).for_each(|element| element.copy_from_slice(&identity));
            }
            Ok(())
        })
    }
}

/// After the loop: what all nodes have found becomes one.
///
/// # Safety
/// As [`kxmp_loop_reduction_begin`]; `location` must have `places` variables, and `iteration` a number for each loop, or be NULL.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // As many as translated programs give.
pub unsafe extern "C" fn kxmp_loop_reduction_end(
    place: *const c_char,
    on: KxmpRef,
    levels: c_int,
    level: *const KxmpLevel,
    op: c_int,
    kind: c_int,
    value: *mut c_void,
    count: c_long,
    places: c_int,
    location: *const KxmpPlace,
    was_set: c_int,
    iteration: *const c_long,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "the reduction of a loop", || {
            let (clause, level) = clause(&on, levels, level, op, kind)?;
            if clause.op.located().is_some() {
                nests::end_order();
            }
            let value = writable(value, bytes_for(count, &clause.kind)?, "the variable")?;
            let Some(set) = clause.set else { return Ok(()) };
            let Some((extremum, is_first)) = clause.op.located() else {
                return reduce(&set, value, &clause.kind, clause.op);
            };
            if value.len() != clause.kind.bytes {
                return Err(misuse("a reduction with a location is of one number, not of an array"));
            }
            let places = list(location, usize::try_from(places).unwrap_or(0), "the locations")?;
            let order = match (was_set != 0, set.me) {
                (true, _) if iteration.is_null() => return Err(misuse("an iteration is missing")),
                (true, _) => Found::Iteration(turns(level, list(iteration, level.len(), "the iteration")?)),
                (false, 0) => Found::Before,
                (false, _) => Found::Nothing,
            };
            locate(&set, value, places, Rule { kind: clause.kind, extremum, is_first, bytes: 0 }, order)
        })
    }
}

/// How many turns each loop had taken at an iteration.
fn turns(levels: &[KxmpLevel], iteration: &[c_long]) -> Vec<i64> {
    let turn =
        |(level, at): (&KxmpLevel, &c_long)| at.wrapping_sub(level.lo).checked_div(level.step).unwrap_or(0);
    levels.iter().zip(iteration).map(turn).collect()
}

/// What a node has.
enum Found {
    Nothing,
    /// The value from before the loop.
    Before,
    /// What an iteration has set.
    Iteration(Vec<i64>),
}

/// How two records become one.
struct Rule {
    kind: Type,
    extremum: Op,
    is_first: bool,
    /// Of a record.
    bytes: usize,
}

/// A record: what it is (0 nothing, 1 from before, 2 an iteration) and the turns of seven loops, in words; the value in 32 bytes; the locations.
const WORDS: usize = 8;
const HEAD: usize = 8 * WORDS;
const VALUE: usize = 32;

/// Combines a value and its locations.
fn locate(set: &Set, value: &mut [u8], places: &[KxmpPlace], rule: Rule, found: Found) -> Result<()> {
    let mut record = vec![0u8; HEAD + VALUE];
    let words = match &found {
        Found::Nothing => vec![0],
        Found::Before => vec![1],
        Found::Iteration(turns) => std::iter::once(2).chain(turns.iter().copied()).collect(),
    };
    for (at, word) in words.into_iter().take(WORDS).enumerate() {
        record[8 * at..8 * at + 8].copy_from_slice(&word.to_ne_bytes());
    }
    record[HEAD..HEAD + value.len()].copy_from_slice(value);
    for place in places {
        // SAFETY: a variable of the program with so many bytes.
        record.extend_from_slice(unsafe { readable(place.variable, place.bytes, "a location") }?);
    }
    // Whole words.
    record.resize(record.len().next_multiple_of(8), 0);
    let rule = Rule { bytes: record.len(), ..rule };
    if !set.is_single() {
        set.with_group(|group| allreduce(group, &mut record, &rule))?;
    }
    value.copy_from_slice(&record[HEAD..HEAD + value.len()]);
    let mut at = HEAD + VALUE;
    for place in places {
        // SAFETY: as above.
        unsafe { writable(place.variable, place.bytes, "a location") }?
            .copy_from_slice(&record[at..at + place.bytes]);
        at += place.bytes;
    }
    Ok(())
}

impl Rule {
    /// Whether the second of two records is the one to keep.
    fn prefers(&self, one: &[u8], other: &[u8]) -> bool {
        let words = |record: &[u8]| -> Vec<i64> {
            record[..HEAD].chunks_exact(8).map(super::values::read::<i64>).collect()
        };
        let (left, right) = (words(one), words(other));
        if left[0] == 0 || right[0] == 0 {
            return left[0] == 0;
        }
        let order = self.kind.order(&other[HEAD..HEAD + self.kind.bytes], &one[HEAD..HEAD + self.kind.bytes]);
        match order {
            Some(Ordering::Equal) => match self.is_first {
                true => right < left,
                false => right > left,
            },
            Some(Ordering::Greater) => self.extremum == Op::Max,
            Some(Ordering::Less) => self.extremum == Op::Min,
            // What is no number loses.
            None => self
                .kind
                .order(&one[HEAD..HEAD + self.kind.bytes], &one[HEAD..HEAD + self.kind.bytes])
                .is_none(),
        }
    }
}

impl Combination for Rule {
    fn element_bytes(&self) -> usize {
        self.bytes
    }

    fn commutes(&self) -> bool {
        true
    }

    fn mark(&self) -> u64 {
        48 + u64::from(self.is_first) + 2 * u64::from(self.extremum == Op::Max)
    }

    fn merge(&self, into: &mut [u8], others: &[u8], others_first: bool) {
        for (into, other) in into.chunks_exact_mut(self.bytes).zip(others.chunks_exact(self.bytes)) {
            // Of two that nothing tells apart all nodes take the same one, from whichever side they look.
            let takes = match others_first {
                true => !self.prefers(other, into),
                false => self.prefers(into, other),
            };
            if takes {
                into.copy_from_slice(other);
            }
        }
    }
}
