//! References: which nodes `p[..]` and `t(..)` mean in an on-clause, in a subset, in `post` and so on.

use super::loop_reductions::KxmpLevel;
use super::nodes::Nodes;
use super::sets::{self, Set};
use super::templates::Template;
use super::{session, MOST_DIMENSIONS};
use crate::guard::misuse;
use kumiki::array::{self, Sub};
use kumiki::{Members, Rank, Result, World};
use std::ffi::{c_int, c_long, c_void};
use std::sync::Arc;

/// `kxmp_sub`: one subscript.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KxmpSub {
    kind: c_int,
    lo: c_long,
    hi: c_long,
    step: c_long,
}

/// `kxmp_ref`: a reference.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KxmpRef {
    of: *const c_void,
    ndims: c_int,
    sub: [KxmpSub; MOST_DIMENSIONS],
}

/// What nodes and templates begin with.
#[repr(u64)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tag {
    Nodes = 0x6b78_6d70_5f6e_6f64,
    Template = 0x6b78_6d70_5f74_6d70,
}

/// A subscript, with what was left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subscript {
    At(i64),
    /// From the first to the last, inclusive, by a step that is not 0.
    Range {
        first: i64,
        last: i64,
        step: i64,
    },
    All,
    Any,
}

/// What a reference names.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Executing,
    Nodes(&'static Nodes),
    Template(&'static Template),
}

impl KxmpRef {
    /// What it names: nodes and templates live as long as the program.
    pub(super) fn of(&self) -> Result<Of> {
        if self.of.is_null() {
            return self.unnamed();
        }
        // SAFETY: a pointer that this library gave: nodes or a template, which begin with a tag, and are never freed.
        match unsafe { self.of.cast::<u64>().read() } {
            // SAFETY: the tag says so.
            tag if tag == Tag::Nodes as u64 => Ok(Of::Nodes(unsafe { &*self.of.cast() })),
            // SAFETY: likewise.
            tag if tag == Tag::Template as u64 => Ok(Of::Template(unsafe { &*self.of.cast() })),
            _ => Err(misuse(
                "the reference is neither to nodes nor to a template: declare it before it is used",
            )),
        }
    }

    /// What nothing is named by: those who execute. With subscripts there was a name, of what has not been made.
    fn unnamed(&self) -> Result<Of> {
        sets::executing()?;
        match self.ndims {
            0 => Ok(Of::Executing),
            _ => Err(misuse("the nodes or the template were not made: their directive was not executed")),
        }
    }

    /// The same with `:` where a loop variable stands.
    pub(super) fn without_variables(&self, levels: &[KxmpLevel]) -> KxmpRef {
        let mut reference = *self;
        for axis in levels.iter().filter_map(|level| usize::try_from(level.axis).ok()) {
            if let Some(sub) = reference.sub.get_mut(axis) {
                sub.kind = KxmpSub::ALL;
            }
        }
        reference
    }

    /// The subscripts, for something with these bounds, inclusive; none if it is meant as a whole.
    pub(super) fn subscripts(&self, name: &str, bounds: &[(i64, i64)]) -> Result<Option<Vec<Subscript>>> {
        if self.ndims == 0 {
            return Ok(None);
        }
        if usize::try_from(self.ndims) != Ok(bounds.len()) {
            let (has, wants) = (self.ndims, bounds.len());
            return Err(misuse(format!("{name} has {wants} dimensions, and the reference {has} subscripts")));
        }
        let subscripts = self.sub.iter().zip(bounds).enumerate();
        subscripts
            .map(|(axis, (sub, bounds))| sub.checked(name, axis, *bounds))
            .collect::<Result<_>>()
            .map(Some)
    }
}

impl KxmpSub {
    const AT: c_int = 0;
    const RANGE: c_int = 1;
    const ALL: c_int = 2;
    const ANY: c_int = 3;

    fn checked(&self, name: &str, axis: usize, (low, high): (i64, i64)) -> Result<Subscript> {
        let check = |index: i64| match (low..=high).contains(&index) {
            true => Ok(index),
            false => Err(misuse(format!(
                "{name}: {index} is not in dimension {} (the fastest is 1), which goes from {low} to {high}",
                axis + 1
            ))),
        };
        Ok(match self.kind {
            KxmpSub::AT => Subscript::At(check(self.lo)?),
            KxmpSub::ALL => Subscript::All,
            KxmpSub::ANY => Subscript::Any,
            KxmpSub::RANGE => {
                let step = self.step;
                if step == 0 {
                    return Err(misuse(format!("{name}: the step of a range is 0")));
                }
                let (from, to) = if step > 0 { (low, high) } else { (high, low) };
                let first = if self.lo == c_long::MIN { from } else { self.lo };
                let last = if self.hi == c_long::MAX { to } else { self.hi };
                // A range of nothing is nowhere.
                let count = (last.saturating_sub(first)) / step;
                if (last < first) == (step > 0) && last != first {
                    return Err(misuse(format!(
                        "{name}: the range from {first} to {last} by {step} is empty"
                    )));
                }
                check(first)?;
                let last = check(first + count * step)?;
                Subscript::Range { first, last, step }
            }
            kind => return Err(misuse(format!("{name}: there is no subscript of kind {kind}"))),
        })
    }
}

impl Subscript {
    /// The indices that it names between these bounds, in its order; `own` is what `*` means.
    pub(super) fn indices(self, (low, high): (i64, i64), own: i64) -> Vec<i64> {
        match self {
            Subscript::At(index) => vec![index],
            Subscript::Range { first, last, step } => {
                let count = (last - first) / step;
                (0..=count).map(|at| first + at * step).collect()
            }
            Subscript::All => (low..=high).collect(),
            Subscript::Any => vec![own],
        }
    }
}

/// The members of what a reference names; none where `*` means this node's own coordinate, and it has none.
pub(super) fn members(world: &World, reference: &KxmpRef) -> Result<Option<Members>> {
    match reference.of()? {
        Of::Executing => sets::executing().map(|set| Some(set.members.clone())),
        Of::Nodes(nodes) => nodes.members_of(world, reference),
        Of::Template(template) => {
            let space = template.space()?;
            match template.subscripts(&space, reference)? {
                Some(subscripts) => owners(&space, &subscripts),
                None => Ok(Some(space.nodes().members())),
            }
        }
    }
}

/// Who has some of a template: `*` means the indices that this node has, so that it is with those of its own coordinate there.
fn owners(space: &array::Template, subscripts: &[Sub]) -> Result<Option<Members>> {
    let members = space.owners(subscripts)?.members();
    let own: Vec<usize> = (subscripts.iter().enumerate())
        .filter(|(_, subscript)| **subscript == Sub::Own)
        .filter_map(|(dimension, _)| space.node_dimension(dimension))
        .collect();
    if own.is_empty() {
        return Ok(Some(members));
    }
    let Some(here) = space.nodes().coordinates(sets::rank()) else { return Ok(None) };
    let is_beside = |rank: &Rank| {
        (space.nodes().coordinates(*rank)).is_some_and(|there| own.iter().all(|&at| there[at] == here[at]))
    };
    Ok(Some(Members::from(members.iter().filter(is_beside).collect::<Vec<Rank>>())))
}

/// The set that a reference names; none if this node is not in it.
pub(super) fn set(reference: &KxmpRef) -> Result<Option<Arc<Set>>> {
    if let Of::Executing = reference.of()? {
        return sets::executing().map(Some);
    }
    session::with(|world| Ok(members(world, reference)?.and_then(|members| sets::of(world, members))))
}

/// The one node that a reference names.
pub(super) fn single(world: &World, reference: &KxmpRef) -> Result<Rank> {
    let members = members(world, reference)?;
    match members.as_ref().map(|members| (members.len(), members.get(0))) {
        Some((1, Some(rank))) => Ok(rank),
        Some((count, _)) => Err(misuse(format!("the reference must be to one node; it is to {count}"))),
        None => {
            Err(misuse("the reference is to this node's own coordinate, but the node is not among those"))
        }
    }
}

/// The set of those members that execute; none if this node is not among them.
fn executing_of(members: Members) -> Result<Option<Arc<Set>>> {
    let executing = sets::executing()?;
    let executes = |rank: &Rank| executing.members.position(*rank).is_some();
    session::with(|world| {
        let all_execute =
            executing.members.len() == world.ranks() || members.iter().all(|rank| executes(&rank));
        let members = match all_execute {
            true => members,
            false => Members::from(members.iter().filter(executes).collect::<Vec<Rank>>()),
        };
        Ok(sets::of(world, members))
    })
}

/// The set that shares the iterations of a loop: where no variable stands, only nodes with this one's coordinate are in it. In a task, only those that
/// execute it. One that was asked for lately is found.
pub(super) fn loop_set(reference: &KxmpRef, levels: &[KxmpLevel]) -> Result<Option<Arc<Set>>> {
    if let Of::Executing = reference.of()? {
        return sets::executing().map(Some);
    }
    let mut wish = LoopWish { on: *reference, axes: [-1; MOST_DIMENSIONS] };
    wish.axes.iter_mut().zip(levels).for_each(|(axis, level)| *axis = level.axis);
    if let Some(set) = sets::asked_lately(&wish) {
        return Ok(set);
    }
    let set = find_loop_set(reference, levels)?;
    sets::note_asked(wish, set.clone());
    Ok(set)
}

/// What a set that shares the iterations of a loop is known by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopWish {
    on: KxmpRef,
    axes: [c_int; MOST_DIMENSIONS],
}

// SAFETY: what its pointer points to lives as long as the program, and is only compared.
unsafe impl Send for LoopWish {}

fn find_loop_set(reference: &KxmpRef, levels: &[KxmpLevel]) -> Result<Option<Arc<Set>>> {
    let has_variable = |axis: usize| levels.iter().any(|level| usize::try_from(level.axis) == Ok(axis));
    match reference.of()? {
        Of::Executing => sets::executing().map(Some),
        Of::Nodes(_) => {
            let mut reference = reference.without_variables(levels);
            let count = usize::try_from(reference.ndims).unwrap_or(0);
            for (axis, sub) in reference.sub.iter_mut().enumerate().take(count) {
                if sub.kind == KxmpSub::ALL && !has_variable(axis) {
                    sub.kind = KxmpSub::ANY;
                }
            }
            match session::with(|world| members(world, &reference))? {
                Some(members) => executing_of(members),
                None => Ok(None),
            }
        }
        Of::Template(template) => {
            let space = template.space()?;
            let Some(own) = space.nodes().coordinates(sets::rank()) else { return Ok(None) };
            let Some(subscripts) = template.subscripts(&space, &reference.without_variables(levels))? else {
                return executing_of(space.nodes().members());
            };
            let mut coordinates: Vec<Vec<u32>> = own.iter().map(|&at| vec![at]).collect();
            for (dimension, subscript) in subscripts.iter().enumerate() {
                let Some(at) = space.node_dimension(dimension) else { continue };
                if has_variable(template.turned(dimension)) {
                    coordinates[at] = (0..space.nodes().sizes()[at]).collect();
                } else if let Sub::Index(index) = subscript {
                    coordinates[at] = space.axis(dimension).owner(*index).into_iter().collect();
                }
            }
            executing_of(space.nodes().product(&coordinates)?.members())
        }
    }
}
