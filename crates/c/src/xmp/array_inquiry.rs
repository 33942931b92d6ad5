//! What templates and arrays are, and where the part of this node is.

use super::arrays::{Inside, KxmpArray, KxmpMapping};
use super::inquiry::{answer_edge, axis, give, int, Descriptor};
use super::references::Tag;
use super::templates::{Form, Template};
use super::{edge_or, sets};
use crate::guard::misuse;
use kumiki::array::{Dimension, Part};
use kumiki::{Error, Result};
use std::ffi::{c_int, c_void};

/// The template of a descriptor.
///
/// # Safety
/// It must be one of this library, or NULL.
unsafe fn template(descriptor: Descriptor) -> Result<&'static Template> {
    let wrong =
        || misuse("the descriptor is none of a template: use xmp_desc_of with the name of a template");
    if descriptor.is_null() {
        return Err(wrong());
    }
    // SAFETY: as the caller promises: it begins with a tag, which says what it is.
    match unsafe { descriptor.cast::<u64>().read() } == Tag::Template as u64 {
        // SAFETY: the tag says so, and templates are never freed.
        true => Ok(unsafe { &*descriptor.cast() }),
        false => Err(wrong()),
    }
}

/// A question about a template, or an array, that is answered with one number.
macro_rules! questions {
    ($($name:ident($place:ident) of $what:ident, $doc:literal = $ask:expr;)*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        /// The descriptor must be one, and the place for the answer writable.
        #[no_mangle]
        pub unsafe extern "C" fn $name(d: Descriptor, dim: c_int, $place: *mut c_int) -> c_int {
            // SAFETY: as the caller promises.
            answer_edge(stringify!($name), || unsafe { give($place, int($ask($what(d)?, dim)?)?) })
        }
    )*};
}

/// The same without a dimension.
macro_rules! plain_questions {
    ($($name:ident($place:ident) of $what:ident, $doc:literal = $ask:expr;)*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        /// The descriptor must be one, and the place for the answer writable.
        #[no_mangle]
        pub unsafe extern "C" fn $name(d: Descriptor, $place: *mut c_int) -> c_int {
            // SAFETY: as the caller promises.
            answer_edge(stringify!($name), || unsafe { give($place, int($ask($what(d)?)?)?) })
        }
    )*};
}

plain_questions! {
    xmp_template_fixed(fixed) of template, "Whether a template is fixed." =
        |t: &Template| -> Result<i64> { Ok(t.state().space.is_some().into()) };
    xmp_template_ndims(ndims) of template, "How many dimensions a template has." =
        |t: &Template| -> Result<i64> { Ok(t.ndims as i64) };
    xmp_array_ndims(ndims) of array, "How many dimensions an array has." =
        |a: Array| -> Result<i64> { Ok(a.inside.axes.len() as i64) };
}

questions! {
    xmp_template_lbound(lbound) of template, "The lower bound of a dimension of a template." =
        |t: &Template, dim| bounds(t, dim).map(|(lower, _)| lower);
    xmp_template_ubound(ubound) of template, "The upper bound of a dimension of a template." =
        |t: &Template, dim| bounds(t, dim).map(|(_, upper)| upper);
    xmp_dist_format(format) of template, "How a dimension of a template is spread." =
        |t: &Template, dim| form(t, dim).map(|form| i64::from(form.number()));
    xmp_dist_blocksize(size) of template, "The width of a block of a dimension of a template." = block;
    xmp_dist_axis(axis) of template, "The dimension of the nodes that a dimension of a template is spread over." = spread;
    xmp_align_axis(axis) of array, "The dimension of the template that a dimension of an array goes with." =
        |a: Array, dim| aligned(&a, dim).map(|(axis, _)| axis);
    xmp_align_offset(offset) of array, "How far a dimension of an array is from that of the template." =
        |a: Array, dim| aligned(&a, dim).map(|(_, offset)| offset);
    xmp_align_replicated(replicated) of array, "Whether an array is replicated over a dimension of its template." = is_replicated;
    xmp_array_lshadow(lshadow) of array, "The width of the shadow below." = |a: Array, dim| shadow(&a, dim).map(|(low, _)| low);
    xmp_array_ushadow(ushadow) of array, "The width of the shadow above." = |a: Array, dim| shadow(&a, dim).map(|(_, high)| high);
    xmp_array_lbound(lbound) of array, "The lower bound of a dimension of an array." =
        |a: Array, dim| a.dimension(dim).map(|_| 0);
    xmp_array_lbound_global(lbound) of array, "The lower bound of a dimension of an array." =
        |a: Array, dim| a.dimension(dim).map(|_| 0);
    xmp_array_ubound(ubound) of array, "The upper bound of a dimension of an array." =
        |a: Array, dim| a.dimension(dim).map(|(_, dimension)| dimension.size() as i64 - 1);
    xmp_array_ubound_global(ubound) of array, "The upper bound of a dimension of an array." =
        |a: Array, dim| a.dimension(dim).map(|(_, dimension)| dimension.size() as i64 - 1);
    xmp_array_lsize(lsize) of array, "How many elements of a dimension of an array this node has, without the shadow." =
        |a: Array, dim| a.dimension(dim).map(|(at, _)| a.part().map_or(0, |part| part.count(at) as i64));
}

/// A question that is answered by the number itself, as the Omni compiler has it; -1, and a line on standard error, if there is none.
macro_rules! values {
    ($($name:ident of $what:ident, $doc:literal = $ask:expr;)*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        /// The descriptor must be one.
        #[no_mangle]
        pub unsafe extern "C" fn $name(d: Descriptor, dim: c_int) -> c_int {
            // SAFETY: as the caller promises.
            edge_or(stringify!($name), -1, || unsafe { int($ask($what(d)?, dim)?) })
        }
    )*};
}

values! {
    xmp_template_gsize of template, "How many indices a dimension of a template has." =
        |t: &Template, dim| bounds(t, dim).map(|(lower, upper)| upper - lower + 1);
    xmp_template_lsize of template, "How many indices of a dimension of a template this node has." =
        own_indices;
    xmp_array_gsize of array, "How many elements a dimension of an array has." =
        |a: Array, dim| a.dimension(dim).map(|(_, dimension)| dimension.size() as i64);
    xmp_array_gcllbound of array, "The first index of a dimension that this node has." =
        |a: Array, dim| ends(&a, dim).map(|(first, _)| first);
    xmp_array_gclubound of array, "The last index of a dimension that this node has." =
        |a: Array, dim| ends(&a, dim).map(|(_, last)| last);
    xmp_array_lcllbound of array, "Where the first element that this node has of a dimension is in its part." =
        |a: Array, dim| places(&a, dim).map(|(first, _)| first);
    xmp_array_lclubound of array, "Where the last element that this node has of a dimension is in its part." =
        |a: Array, dim| places(&a, dim).map(|(_, last)| last);
}

fn bounds(t: &Template, dim: c_int) -> Result<(i64, i64)> {
    let none = || Error::Refused(format!("template {} has no bounds yet", t.name));
    let axis = axis(dim, t.ndims)?;
    t.state().bounds.map(|bounds| bounds[axis]).ok_or_else(none)
}

fn form(t: &Template, dim: c_int) -> Result<Form> {
    let none = || Error::Refused(format!("template {} is not distributed", t.name));
    let axis = axis(dim, t.ndims)?;
    t.state().formats.map(|forms| forms[axis].clone()).ok_or_else(none)
}

fn own_indices(t: &Template, dim: c_int) -> Result<i64> {
    let (axis, space) = (axis(dim, t.ndims)?, t.space()?);
    let own = space.coordinate(t.turned(axis), sets::rank());
    Ok(own.map_or(0, |own| space.axis(t.turned(axis)).count(own) as i64))
}

fn block(t: &Template, dim: c_int) -> Result<i64> {
    match form(t, dim)? {
        // One block, which every node has.
        Form::None => bounds(t, dim).map(|(lower, upper)| upper - lower + 1),
        Form::Irregular(_) => {
            Err(Error::Refused(format!("dimension {dim} of template {} has no blocks of one width", t.name)))
        }
        _ => Ok(t.space()?.axis(t.turned(axis(dim, t.ndims)?)).width() as i64),
    }
}

/// From 1, the fastest first; 0 if it is not spread.
fn spread(t: &Template, dim: c_int) -> Result<i64> {
    let axis = axis(dim, t.ndims)?;
    let forms =
        t.state().formats.ok_or_else(|| Error::Refused(format!("template {} is not distributed", t.name)))?;
    match forms[axis] {
        Form::None => Ok(0),
        _ => Ok(forms[..=axis].iter().filter(|form| **form != Form::None).count() as i64),
    }
}

/// The blocks of a dimension of a template that is spread irregularly.
///
/// # Safety
/// `d` must be a descriptor, and `map` writable for a number for each node of the dimension.
#[no_mangle]
pub unsafe extern "C" fn xmp_dist_gblockmap(d: Descriptor, dim: c_int, map: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_dist_gblockmap", || unsafe {
        let template = template(d)?;
        match form(template, dim)? {
            Form::Irregular(Some(sizes)) => sizes
                .iter()
                .enumerate()
                .try_for_each(|(at, &size)| give(map.wrapping_add(at), int(size as i64)?)),
            _ => Err(Error::Refused(format!(
                "dimension {dim} of template {} has no map, or none yet",
                template.name
            ))),
        }
    })
}

/// The nodes that a template is spread over.
///
/// # Safety
/// `d` must be a descriptor, and `dn` writable.
#[no_mangle]
pub unsafe extern "C" fn xmp_dist_nodes(d: Descriptor, dn: *mut Descriptor) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_dist_nodes", || unsafe {
        let template = template(d)?;
        let none = || Error::Refused(format!("template {} is not distributed", template.name));
        give(dn, std::ptr::from_ref(template.state().onto.ok_or_else(none)?).cast())
    })
}

/// An array that a program asks about.
struct Array {
    array: &'static KxmpArray,
    inside: &'static Inside,
}

/// The array of a descriptor.
///
/// # Safety
/// It must be one, or NULL.
unsafe fn array(descriptor: Descriptor) -> Result<Array> {
    // SAFETY: as the caller promises; it is used before the call returns only.
    let (array, inside) = unsafe { KxmpArray::get(descriptor.cast_mut().cast()) }?;
    Ok(Array { array, inside })
}

impl Array {
    fn map(&self) -> Result<&'static KxmpMapping> {
        self.array.mapping(self.inside).map(|map| &**map)
    }

    /// What this node has, if it has memory.
    fn part(&self) -> Option<Part<'static>> {
        self.map().ok().map(|map| map.space.part(sets::rank()))
    }

    fn dimension(&self, dim: c_int) -> Result<(usize, &'static Dimension)> {
        let at = axis(dim, self.inside.axes.len())?;
        Ok((at, &self.map()?.space.dimensions()[at]))
    }
}

/// The dimension of the template, from 1, and the offset; 0 if it is collapsed.
fn aligned(a: &Array, dim: c_int) -> Result<(i64, i64)> {
    let at = axis(dim, a.inside.axes.len())?;
    Ok(a.inside.axes[at].map_or((0, 0), |(axis, offset)| (axis as i64 + 1, offset)))
}

fn is_replicated(a: Array, dim: c_int) -> Result<i64> {
    let axis = axis(dim, a.inside.template.ndims)?;
    Ok((!a.inside.axes.iter().flatten().any(|(own, _)| *own == axis)).into())
}

fn shadow(a: &Array, dim: c_int) -> Result<(i64, i64)> {
    let at = axis(dim, a.inside.axes.len())?;
    Ok(match a.inside.shadows[at].widths() {
        Some((low, high)) => (low as i64, high as i64),
        // All that others have.
        None => {
            let (at, dimension) = a.dimension(dim)?;
            let ends = a.part().and_then(|part| part.ends(at));
            ends.map_or((0, 0), |(first, last)| (first, dimension.size() as i64 - 1 - last))
        }
    })
}

fn ends(a: &Array, dim: c_int) -> Result<(i64, i64)> {
    let (at, _) = a.dimension(dim)?;
    // Nothing: from 0 to -1.
    Ok(a.part().and_then(|part| part.ends(at)).unwrap_or((0, -1)))
}

fn places(a: &Array, dim: c_int) -> Result<(i64, i64)> {
    let (at, dimension) = a.dimension(dim)?;
    let found = a.part().and_then(|part| {
        let (node, (first, last)) = (part.node(at)?, part.ends(at)?);
        Some((dimension.place(node, first)? as i64, dimension.place(node, last)? as i64))
    });
    Ok(found.unwrap_or((0, -1)))
}

/// The template that an array is aligned with.
///
/// # Safety
/// `d` must be the descriptor of an array, and `dt` writable.
#[no_mangle]
pub unsafe extern "C" fn xmp_align_template(d: Descriptor, dt: *mut Descriptor) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_align_template", || unsafe {
        give(dt, std::ptr::from_ref(array(d)?.inside.template).cast())
    })
}

/// Where this node's part is.
///
/// # Safety
/// `d` must be the descriptor of an array, and `laddr` writable.
#[no_mangle]
pub unsafe extern "C" fn xmp_array_laddr(d: Descriptor, laddr: *mut *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_array_laddr", || unsafe {
        let found = array(d)?;
        let is_empty = found.part().is_none_or(|part| part.is_empty());
        give(laddr, if is_empty { std::ptr::null_mut() } else { found.array.base.cast() })
    })
}

/// How many elements this node has room for in each dimension, with the shadow.
///
/// # Safety
/// `d` must be the descriptor of an array, and `size` writable for a number for each dimension.
#[no_mangle]
pub unsafe extern "C" fn xmp_array_lead_dim(d: Descriptor, size: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_array_lead_dim", || unsafe {
        let part = array(d)?.map()?.space.part(sets::rank());
        part.extents()
            .iter()
            .enumerate()
            .try_for_each(|(at, &extent)| give(size.wrapping_add(at), int(extent as i64)?))
    })
}

/// Where an element is in this node's part: an index for each dimension. -1 if this node has not got it.
///
/// # Safety
/// `d` must be the descriptor of an array; both lists must have a number for each dimension.
#[no_mangle]
pub unsafe extern "C" fn xmp_array_gtol(d: Descriptor, g_idx: *const c_int, l_idx: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer_edge("xmp_array_gtol", || unsafe {
        let array = array(d)?;
        let map = array.map()?;
        let part = map.space.part(sets::rank());
        for (at, dimension) in map.space.dimensions().iter().enumerate() {
            let index = i64::from(g_idx.add(at).read());
            let place = part.node(at).and_then(|node| dimension.place(node, index));
            let name = array.array.name();
            let none = || {
                Error::Refused(format!(
                    "array {name}: this node has no index {index} of dimension {}",
                    at + 1
                ))
            };
            give(l_idx.wrapping_add(at), int(place.ok_or_else(none)? as i64)?)?;
        }
        Ok(())
    })
}

/// The node that has an element: its number among those of the template, from 0. -1 if none has.
///
/// # Safety
/// `d` must be the descriptor of an array; `index` must have a number for each dimension, of which there are `ndims`.
#[no_mangle]
pub unsafe extern "C" fn xmp_array_owner(
    d: Descriptor,
    ndims: c_int,
    index: *const c_int,
    dim: c_int,
) -> c_int {
    edge_or("xmp_array_owner", -1, || {
        // SAFETY: as the caller promises.
        unsafe {
            let array = array(d)?;
            let map = array.map()?;
            let index = crate::api::buffers::list(index, usize::try_from(ndims).unwrap_or(0), "the index")?;
            if dim > 0 {
                let (at, dimension) = array.dimension(dim)?;
                let at =
                    index.get(at).copied().ok_or_else(|| misuse("an index for each dimension is needed"))?;
                let is_there = u64::try_from(at).is_ok_and(|at| at < dimension.size());
                let owner = dimension.axis().owner(at.into()).filter(|_| is_there);
                return Ok(owner.map_or(-1, |owner| owner as c_int));
            }
            let index: Vec<i64> = index.iter().map(|&at| at.into()).collect();
            let owners = map.space.owners(&index)?;
            let first = owners.first().and_then(|rank| map.space.nodes().position(rank));
            Ok(first.map_or(-1, |first| first as c_int))
        }
    })
}

/// The iterations of a loop from one index of a template to another that this node has: the first and the last place in its part.
///
/// # Safety
/// `first` and `last` must be writable; `t` must be the descriptor of a template.
#[no_mangle]
pub unsafe extern "C" fn xmp_sched_template_index(
    first: *mut c_int,
    last: *mut c_int,
    global_first: c_int,
    global_last: c_int,
    step: c_int,
    t: Descriptor,
    dim: c_int,
) {
    edge_or("xmp_sched_template_index", (), || {
        // SAFETY: as the caller promises.
        unsafe {
            let template = template(t)?;
            // This one is counted from 0.
            let at = usize::try_from(dim).ok().filter(|&at| at < template.ndims);
            let at = at.ok_or_else(|| misuse(format!("there is no dimension {dim}, counted from 0")))?;
            let space = template.space()?;
            let (axis, own) =
                (space.axis(template.turned(at)), space.coordinate(template.turned(at), sets::rank()));
            let ranges = own.map_or(Vec::new(), |own| {
                axis.ranges(own, global_first.into(), global_last.into(), step.into())
            });
            let (from, to) = match (ranges.first(), ranges.last()) {
                (Some(one), Some(other)) => {
                    let place = |index| axis.local(index).unwrap_or(0);
                    (place(one.first), place(other.last) + i64::from(step.signum()))
                }
                _ => (0, 0),
            };
            give(first, int(from)?)?;
            give(last, int(to)?)
        }
    });
}
