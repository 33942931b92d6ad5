//! `template`, `distribute`, `template_fix`: index spaces, which arrays are aligned with and loops run on.

use super::nodes::{dimensions, text, Nodes};
use super::references::{KxmpRef, Subscript, Tag};
use super::{edge, edge_or, sets};
use crate::api::buffers::list;
use crate::guard::misuse;
use kumiki::array::{self, Sub};
use kumiki::Result;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockWriteGuard};

/// `kxmp_template`: it lives as long as the program.
#[repr(C)]
#[derive(Debug)]
pub struct Template {
    tag: Tag,
    pub(super) name: String,
    pub(super) ndims: usize,
    state: RwLock<State>,
    /// Those of the same directive with other bounds or another distribution: a function that calls itself has several at once.
    others: Mutex<Vec<&'static Template>>,
    /// The block that declared it has not ended yet: one that is fixed there is not fixed anew by another execution of the same directive.
    in_use: AtomicBool,
}

/// What is known of a template. Lists have the fastest dimension first.
#[derive(Clone, Default, Debug)]
pub(super) struct State {
    pub(super) bounds: Option<Vec<(i64, i64)>>,
    pub(super) formats: Option<Vec<Form>>,
    pub(super) onto: Option<&'static Nodes>,
    /// When all is known.
    pub(super) space: Option<array::Template>,
    /// Something was left to template_fix.
    was_open: bool,
}

/// How a dimension is spread, as far as it was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Form {
    None,
    Block(Option<u64>),
    Cyclic(u64),
    /// Blocks of these sizes; none until it is fixed.
    Irregular(Option<Vec<u64>>),
}

impl Form {
    /// As `xmp_dist_format` has it.
    pub(super) fn number(&self) -> c_int {
        match self {
            Form::None => 2100,
            Form::Block(_) => 2101,
            Form::Cyclic(_) => 2102,
            Form::Irregular(_) => 2103,
        }
    }

    fn format(&self) -> Option<array::Format> {
        Some(match self {
            Form::None => array::Format::None,
            Form::Block(width) => array::Format::Block(*width),
            Form::Cyclic(width) => array::Format::Cyclic(*width),
            Form::Irregular(sizes) => array::Format::Irregular(sizes.as_deref()?.into()),
        })
    }
}

/// `kxmp_format`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpFormat {
    kind: c_int,
    width: c_long,
    map: *const c_void,
    entry_bytes: usize,
}

impl KxmpFormat {
    /// # Safety
    /// A map must have an entry for each node of its dimension, of which there are `nodes`.
    unsafe fn form(&self, name: &str, nodes: impl FnOnce() -> Result<u32>) -> Result<Form> {
        let wrong = |what: &str| misuse(format!("template {name}: {what}"));
        Ok(match (self.kind, u64::try_from(self.width)) {
            (2100, _) => Form::None,
            (2101, Ok(0)) => Form::Block(None),
            (2101, Ok(width)) => Form::Block(Some(width)),
            (2102, Ok(width)) => Form::Cyclic(width.max(1)),
            (2103, _) if self.map.is_null() => Form::Irregular(None),
            (2103, _) => {
                let entry = |at: usize| -> Option<u64> {
                    // SAFETY: as the caller promises; entries may lie anywhere.
                    unsafe {
                        let entry = self.map.cast::<u8>().add(at * self.entry_bytes);
                        match self.entry_bytes {
                            1 => u64::try_from(entry.cast::<i8>().read()).ok(),
                            2 => u64::try_from(entry.cast::<i16>().read_unaligned()).ok(),
                            4 => u64::try_from(entry.cast::<i32>().read_unaligned()).ok(),
                            8 => u64::try_from(entry.cast::<i64>().read_unaligned()).ok(),
                            _ => None,
                        }
                    }
                };
                let sizes: Option<Vec<u64>> = (0..nodes()? as usize).map(entry).collect();
                Form::Irregular(Some(
                    sizes.ok_or_else(|| wrong("a block of gblock is negative, or no number"))?,
                ))
            }
            (2101 | 2102, Err(_)) => return Err(wrong("the width of blocks is negative")),
            (kind, _) => return Err(wrong(&format!("there is no distribution {kind}"))),
        })
    }
}

impl State {
    /// Makes the index space when all is known.
    fn complete(&mut self, name: &str) -> Result<()> {
        self.space = None;
        let (Some(bounds), Some(formats), Some(onto)) = (&self.bounds, &self.formats, self.onto) else {
            return Ok(());
        };
        let known: Option<Vec<array::Format>> = formats.iter().rev().map(Form::format).collect();
        let (Some(formats), Some(nodes)) = (known, &onto.space) else { return Ok(()) };
        let bounds: Vec<(i64, i64)> = bounds.iter().rev().copied().collect();
        let space = array::Template::new(&bounds, &formats, nodes);
        self.space =
            Some(space.map_err(|error| misuse(format!("template {name} onto {}: {error}", onto.name)))?);
        Ok(())
    }
}

impl Template {
    /// The index space; an error before it is fixed.
    pub(super) fn space(&self) -> Result<array::Template> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.space.clone().ok_or_else(|| {
            let missing = match (&state.bounds, &state.formats) {
                (None, _) => "has no bounds yet: execute template_fix first",
                (_, None) => "is not distributed: add a distribute directive",
                _ => {
                    "is not fixed yet, or onto nodes that this one does not know: execute template_fix first"
                }
            };
            misuse(format!("template {} {missing}", self.name))
        })
    }

    /// What is known of it.
    pub(super) fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn new(name: String, ndims: usize, state: State) -> &'static Template {
        let (state, others, in_use) = (RwLock::new(state), Mutex::default(), AtomicBool::new(false));
        Box::leak(Box::new(Template { tag: Tag::Template, name, ndims, state, others, in_use }))
    }

    /// Whether it may be fixed to something that only one execution of its directive knows, which goes on.
    fn is_taken(&self, state: &State) -> bool {
        state.was_open && self.in_use.load(Ordering::Relaxed)
    }

    /// This one, or another of the same directive, whose state is so; a new one if there is none.
    fn other(&'static self, is_it: impl Fn(&Template, &State) -> bool, state: State) -> &'static Template {
        let is_so = |one: &Template| is_it(one, &one.state.read().unwrap_or_else(PoisonError::into_inner));
        if is_so(self) {
            return self;
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let found = others.iter().copied().find(|other| is_so(other));
        found.unwrap_or_else(|| {
            let made = Template::new(self.name.clone(), self.ndims, state);
            others.push(made);
            made
        })
    }

    fn change(&self) -> RwLockWriteGuard<'_, State> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        sets::forget_loops();
        state
    }

    /// The place in a list with the slowest dimension first of one in a list with the fastest first, and the other way round.
    pub(super) fn turned(&self, axis: usize) -> usize {
        self.ndims - 1 - axis
    }

    /// The subscripts of a reference, the slowest dimension first; none if it is meant as a whole.
    pub(super) fn subscripts(
        &self,
        space: &array::Template,
        reference: &KxmpRef,
    ) -> Result<Option<Vec<Sub>>> {
        let bounds: Vec<(i64, i64)> =
            (0..self.ndims).rev().map(|at| (space.axis(at).lower(), space.axis(at).upper())).collect();
        let subscripts = reference.subscripts(&self.name, &bounds)?;
        let sub = |subscript: &Subscript| match *subscript {
            Subscript::At(index) => Sub::Index(index),
            Subscript::Range { first, last, step } => Sub::triplet(first, last, step),
            Subscript::All => Sub::All,
            Subscript::Any => Sub::Own,
        };
        Ok(subscripts.map(|subscripts| subscripts.iter().rev().map(sub).collect()))
    }
}

/// Declares a template.
///
/// # Safety
/// `slot` must be writable; `place` and `name` must be texts, or NULL; `lo` and `hi` must have `ndims` numbers, or be NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_template_make(
    slot: *mut *const Template,
    place: *const c_char,
    name: *const c_char,
    ndims: c_int,
    lo: *const c_long,
    hi: *const c_long,
) -> *const Template {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "template", || {
            let ndims = dimensions(ndims)?;
            let name = text(name);
            let bounds = bounds(&name, ndims, lo, hi)?;
            let found: Option<&'static Template> = slot.as_ref().and_then(|slot| slot.as_ref());
            let Some(first) = found.filter(|known| known.ndims == ndims) else {
                let was_open = bounds.is_none();
                let made = Template::new(name, ndims, State { bounds, was_open, ..State::default() });
                made.in_use.store(true, Ordering::Relaxed);
                if !slot.is_null() {
                    slot.write(made);
                }
                return Ok(std::ptr::from_ref(made));
            };
            let fresh = State { bounds, was_open: lo.is_null(), ..State::default() };
            let is_it = |one: &Template, state: &State| match &fresh.bounds {
                Some(_) => state.bounds == fresh.bounds && !one.is_taken(state),
                None => state.was_open && !one.is_taken(state),
            };
            let known = first.other(is_it, fresh.clone());
            known.in_use.store(true, Ordering::Relaxed);
            if fresh.bounds.is_none() {
                // One that is to be fixed is fixed anew; arrays that were made go by what it was.
                *known.change() = fresh;
            }
            Ok(std::ptr::from_ref(known))
        })
    }
}

/// The block ends that declared a template: `slot` is its variable.
///
/// # Safety
/// `slot` must be readable, and a template in it one of this library, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_template_leave(slot: *const *const Template) {
    edge_or("kxmp_template_leave", (), || {
        // SAFETY: as the caller promises.
        if let Some(template) = unsafe { slot.as_ref().and_then(|slot| slot.as_ref()) } {
            template.in_use.store(false, Ordering::Relaxed);
        }
        Ok(())
    });
}

/// Bounds that C gives.
unsafe fn bounds(
    name: &str,
    ndims: usize,
    lo: *const c_long,
    hi: *const c_long,
) -> Result<Option<Vec<(i64, i64)>>> {
    if lo.is_null() || hi.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let (lo, hi) = unsafe { (list(lo, ndims, "the lower bounds")?, list(hi, ndims, "the upper bounds")?) };
    let bounds: Vec<(i64, i64)> = lo.iter().copied().zip(hi.iter().copied()).collect();
    match bounds.iter().find(|(lo, hi)| *hi < lo.saturating_sub(1)) {
        Some((lo, hi)) => {
            Err(misuse(format!("template {name}: the bounds {lo}:{hi} are the wrong way round")))
        }
        None => Ok(Some(bounds)),
    }
}

/// Formats that C gives, for a template onto these nodes.
unsafe fn forms(
    template: &Template,
    ndims: c_int,
    formats: *const KxmpFormat,
    onto: &Nodes,
) -> Result<Option<Vec<Form>>> {
    if formats.is_null() {
        return Ok(None);
    }
    check_count(template, ndims)?;
    // SAFETY: as the caller promises.
    let formats = unsafe { list(formats, template.ndims, "the formats") }?;
    let mut used = 0;
    let mut forms = Vec::with_capacity(formats.len());
    for format in formats {
        let nodes = || {
            let size = onto.sizes.get(used).copied();
            let none = || {
                misuse(format!(
                    "more dimensions of template {} are spread than {} has",
                    template.name, onto.name
                ))
            };
            size.map(|size| size as u32).ok_or_else(none)
        };
        // SAFETY: as the caller promises.
        forms.push(unsafe { format.form(&template.name, nodes) }?);
        used += usize::from(format.kind != 2100);
    }
    Ok(Some(forms))
}

fn check_count(template: &Template, ndims: c_int) -> Result<()> {
    match usize::try_from(ndims) == Ok(template.ndims) {
        true => Ok(()),
        false => {
            Err(misuse(format!("template {} has {} dimensions, not {ndims}", template.name, template.ndims)))
        }
    }
}

/// Says how a template is spread. Gives the template that is spread so: another one if this one is spread in another way, since it may be in use.
///
/// # Safety
/// `place` must be a text, or NULL; `t` a template; `formats` must have `ndims` of them, with their maps; `onto` must be nodes.
#[no_mangle]
pub unsafe extern "C" fn kxmp_distribute(
    place: *const c_char,
    t: *const Template,
    ndims: c_int,
    formats: *const KxmpFormat,
    onto: *const Nodes,
) -> *const Template {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "distribute", || {
            let template: &'static Template =
                t.as_ref().ok_or_else(|| misuse("the template was not declared"))?;
            let onto: &'static Nodes = onto.as_ref().ok_or_else(|| misuse("the nodes were not declared"))?;
            let forms = forms(template, ndims, formats, onto)?.ok_or_else(|| misuse("no formats"))?;
            let spread = forms.iter().filter(|form| **form != Form::None).count();
            if spread != onto.sizes.len() {
                return Err(misuse(format!(
                    "{spread} dimensions of template {} are spread onto {}, which has {}: give as many formats that are not * as there are",
                    template.name, onto.name, onto.sizes.len()
                )));
            }
            let before = template.state();
            let is_open = before.bounds.is_none() || forms.iter().any(|form| form.format().is_none());
            if is_open || before.formats.is_none() {
                let mut state = template.change();
                state.was_open |= is_open;
                state.formats = Some(forms);
                state.onto = Some(onto);
                state.complete(&template.name)?;
                return Ok(std::ptr::from_ref(template));
            }
            let is_it = |_: &Template, state: &State| {
                state.bounds == before.bounds
                    && state.formats.as_ref() == Some(&forms)
                    && state.onto.is_some_and(|known| std::ptr::eq(known, onto))
            };
            let mut state = State {
                bounds: before.bounds.clone(),
                formats: Some(forms.clone()),
                onto: Some(onto),
                ..State::default()
            };
            state.complete(&template.name)?;
            Ok(std::ptr::from_ref(template.other(is_it, state)))
        })
    }
}

/// Fixes what was left open.
///
/// # Safety
/// As [`kxmp_distribute`]; `formats`, `lo` and `hi` may be NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_template_fix(
    place: *const c_char,
    t: *const Template,
    ndims: c_int,
    formats: *const KxmpFormat,
    lo: *const c_long,
    hi: *const c_long,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "template_fix", || {
            let template = t.as_ref().ok_or_else(|| misuse("the template was not declared"))?;
            check_count(template, ndims)?;
            let before = template.state();
            let onto = before.onto.ok_or_else(|| {
                misuse(format!("template {} is not distributed: add a distribute directive", template.name))
            })?;
            let mut after = State { onto: Some(onto), ..before.clone() };
            if let Some(bounds) = bounds(&template.name, template.ndims, lo, hi)? {
                after.bounds = Some(bounds);
            }
            if let Some(forms) = forms(template, ndims, formats, onto)? {
                // Loops are translated for the width that the directive has.
                let width = |form: &Form| if let Form::Cyclic(width) = form { *width } else { 0 };
                let known = |forms: &Vec<Form>| {
                    forms.iter().map(|form| (form.number(), width(form))).collect::<Vec<_>>()
                };
                if before.formats.as_ref().map(known) != Some(known(&forms)) {
                    return Err(misuse(format!(
                        "template {}: the formats must be those of its distribute directive",
                        template.name
                    )));
                }
                // What is left open here, too, stays.
                let old = before.formats.iter().flatten();
                let merged = forms.into_iter().zip(old).map(|(new, old)| match new {
                    Form::Irregular(None) | Form::Block(None) => old.clone(),
                    new => new,
                });
                after.formats = Some(merged.collect());
            }
            if before.space.is_some() && (before.bounds != after.bounds || before.formats != after.formats) {
                return Err(misuse(format!(
                    "template {} is fixed already, to something else",
                    template.name
                )));
            }
            after.complete(&template.name)?;
            *template.change() = after;
            Ok(())
        })
    }
}

/// A bound of a dimension of a template that is fixed.
///
/// # Safety
/// `t` must be a template.
unsafe fn bound(t: *const Template, axis: c_int, pick: fn((i64, i64)) -> i64) -> Result<c_long> {
    // SAFETY: as the caller promises.
    let template = unsafe { t.as_ref() }.ok_or_else(|| misuse("the template was not declared"))?;
    template.space()?;
    let bounds = template.state().bounds.unwrap_or_default();
    let found = usize::try_from(axis).ok().and_then(|axis| bounds.get(axis).copied());
    found
        .map(pick)
        .ok_or_else(|| misuse(format!("template {} has no dimension {axis}, counted from 0", template.name)))
}

/// The lower bound of a dimension, counted from 0, the fastest first.
///
/// # Safety
/// `t` must be a template.
#[no_mangle]
pub unsafe extern "C" fn kxmp_template_lower(t: *const Template, axis: c_int) -> c_long {
    // SAFETY: as the caller promises; there is no place.
    unsafe { edge(std::ptr::null(), "the lower bound of a template", || bound(t, axis, |(lower, _)| lower)) }
}

/// The upper bound of a dimension, counted from 0, the fastest first.
///
/// # Safety
/// `t` must be a template.
#[no_mangle]
pub unsafe extern "C" fn kxmp_template_upper(t: *const Template, axis: c_int) -> c_long {
    // SAFETY: as the caller promises; there is no place.
    unsafe { edge(std::ptr::null(), "the upper bound of a template", || bound(t, axis, |(_, upper)| upper)) }
}
