//! The transformational functions: transpose, matmul, sort, pack, unpack, by copies between arrays that lie differently.
//!
//! Each brings what it needs to where it can be done by a node alone, by a plan, and brings the result to where the program wants it.

use super::arrays::KxmpArray;
use super::asynchronous::{run, Memory, AT_ONCE};
use super::inquiry::Descriptor;
use super::sets::{self, Set};
use super::values::Type;
use super::{edge, session, tasks};
use crate::guard::misuse;
use kumiki::array::{Align, Format, Mapping, Nodes, Plan, Section, Shadow, Sub, Template};
use kumiki::comm::Group;
use kumiki::{Rank, Result};
use std::cmp::Ordering;
use std::ffi::c_int;
use std::sync::Arc;

/// Columns of the left matrix that are brought together at a time.
const PANEL: u64 = 128;

/// An array of the program, or one that is made for the time being.
pub(super) struct Whole {
    pub(super) map: Arc<Mapping>,
    pub(super) memory: Memory,
    pub(super) element: usize,
    pub(super) kind: c_int,
    pub(super) name: String,
    pub(super) number: Option<u64>,
    /// Of one that is made here.
    _own: Option<Vec<u128>>,
}

impl Whole {
    /// # Safety
    /// The descriptor must be that of an array, which the program leaves alone meanwhile.
    pub(super) unsafe fn of(descriptor: Descriptor) -> Result<Whole> {
        // SAFETY: as the caller promises.
        unsafe {
            let (array, inside) = KxmpArray::get(descriptor.cast_mut().cast())?;
            let map = array.mapping(inside)?;
            let memory = Memory::of(array, array.memory(map)?.len());
            let (element, kind, name) = (array.element, array.kind, array.name());
            Ok(Whole {
                map: map.space.clone(),
                memory,
                element,
                kind,
                name,
                number: inside.number,
                _own: None,
            })
        }
    }

    /// A new one of the same elements.
    pub(super) fn like(&self, map: Arc<Mapping>) -> Result<Whole> {
        let count = usize::try_from(map.part(sets::rank()).len()).unwrap_or(usize::MAX);
        let bytes = crate::api::buffers::size_for(count, self.element, "an array")?;
        let mut own = vec![0u128; bytes.div_ceil(size_of::<u128>())];
        let memory = Memory { start: own.as_mut_ptr().cast(), bytes };
        let (element, kind, name) = (self.element, self.kind, self.name.clone());
        Ok(Whole { map, memory, element, kind, name, number: None, _own: Some(own) })
    }

    fn dimensions(&self) -> usize {
        self.map.dimensions().len()
    }

    /// # Safety
    /// Nobody else may use it meanwhile.
    #[allow(clippy::mut_from_ref)] // Memory of the program, which it has lent.
    unsafe fn bytes(&self) -> &mut [u8] {
        // SAFETY: as the caller promises.
        unsafe { self.memory.slice() }
    }

    /// Brings a section of another array to one of this.
    pub(super) fn copy(
        &self,
        section: &Section,
        from: &Whole,
        source: &Section,
        among: &Nodes,
    ) -> Result<()> {
        session::with(|world| {
            let plan =
                Plan::copy_of(world.rank(), among, self.element, (&self.map, section), (&from.map, source))?;
            tasks::check_present(plan.peers())?;
            // SAFETY: the source is not used any more when the target is.
            let underway = Arc::new(plan).start(world, unsafe { from.bytes() })?;
            // SAFETY: as above.
            underway.finish(unsafe { self.bytes() })
        })
    }

    /// Brings all of another array here.
    pub(super) fn copy_all(&self, from: &Whole, among: &Nodes) -> Result<()> {
        self.copy(&self.map.whole(), from, &from.map.whole(), among)
    }

    /// What goes with a dimension, in the template.
    fn align(&self, at: usize) -> Align {
        self.map.dimensions()[at].align()
    }

    fn size(&self, at: usize) -> u64 {
        self.map.dimensions()[at].size()
    }

    fn template(&self) -> Result<&Template> {
        self.map.template().ok_or_else(|| misuse(format!("{} is no distributed array", self.name)))
    }

    fn check_same_type(&self, other: &Whole) -> Result<()> {
        match self.element == other.element && self.kind == other.kind {
            true => Ok(()),
            false => {
                Err(misuse(format!("{} and {} have elements of different types", self.name, other.name)))
            }
        }
    }
}

fn check(truth: bool, what: impl FnOnce() -> String) -> Result<()> {
    if truth {
        Ok(())
    } else {
        Err(misuse(what()))
    }
}

/// The places in memory of the elements that this node has, in the order of their indices: of a line of them for each dimension.
fn owned_places(map: &Mapping, at: usize) -> Vec<(i64, usize)> {
    let part = map.part(sets::rank());
    let dimension = &map.dimensions()[at];
    let Some(node) = part.node(at) else { return Vec::new() };
    let owned = dimension.owned(node, 0, 1, dimension.size() as i64);
    let each = owned.iter().flat_map(|owned| {
        (0..owned.count)
            .map(|k| (owned.start + k * owned.stride, (owned.local + k * owned.local_stride) as usize))
    });
    let mut places: Vec<(i64, usize)> = each.collect();
    places.sort_unstable();
    places
}

/// `x` becomes `a`, turned.
///
/// # Safety
/// Both must be descriptors of arrays.
#[no_mangle]
pub unsafe extern "C" fn xmp_transpose(x: Descriptor, a: Descriptor, opt: c_int) {
    // Whether `a` may be spoilt: it is not.
    let _ = opt;
    // SAFETY: as the caller promises; there is no place.
    unsafe {
        edge(std::ptr::null(), "xmp_transpose", || {
            let (x, a) = (Whole::of(x)?, Whole::of(a)?);
            x.check_same_type(&a)?;
            let is_turned = x.dimensions() == 2
                && a.dimensions() == 2
                && x.size(0) == a.size(1)
                && x.size(1) == a.size(0);
            check(is_turned, || {
                format!("{} must have two dimensions, as long as those of {} turned round", x.name, a.name)
            })?;
            let set = sets::executing()?;
            let plan = session::with(|world| {
                let (to, from) = ((&x.map, &x.map.whole()), (&a.map, &a.map.whole()));
                Plan::copy_ordered(world, set.nodes()?, x.element, to, from, &[1, 0])
            })?;
            run(&plan, a.memory, x.memory, None, AT_ONCE)
        })
    }
}

/// Adds the product of a row and a column, element by element.
type Multiply = fn(&mut [u8], &[u8], &[u8], usize);

fn multiply<T: kumiki::comm::Number>(into: &mut [u8], left: &[u8], right: &[u8], columns: usize) {
    let element = size_of::<T>();
    let inner = left.len() / element;
    for at in 0..columns {
        let mut sum: T = super::values::read(&into[at * element..]);
        for k in 0..inner {
            let one: T = super::values::read(&left[k * element..]);
            let other: T = super::values::read(&right[(k * columns + at) * element..]);
            sum = sum.plus(one.times(other));
        }
        into[at * element..(at + 1) * element].copy_from_slice(&super::values::bytes_of(sum)[..element]);
    }
}

fn multiplier(kind: c_int) -> Result<Multiply> {
    Ok(match kind {
        1 | 18 => multiply::<i8>,
        2 => multiply::<u8>,
        3 => multiply::<i16>,
        4 => multiply::<u16>,
        5 => multiply::<i32>,
        6 => multiply::<u32>,
        7 | 9 => multiply::<i64>,
        8 | 10 => multiply::<u64>,
        11 => multiply::<f32>,
        12 => multiply::<f64>,
        _ => return Err(misuse("matrices of this type are not multiplied: use integers, float or double")),
    })
}

/// `x` becomes the product of two matrices.
///
/// # Safety
/// All must be descriptors of arrays.
#[no_mangle]
pub unsafe extern "C" fn xmp_matmul(x: Descriptor, a: Descriptor, b: Descriptor) {
    // SAFETY: as the caller promises; there is no place.
    unsafe {
        edge(std::ptr::null(), "xmp_matmul", || {
            let (x, a, b) = (Whole::of(x)?, Whole::of(a)?, Whole::of(b)?);
            x.check_same_type(&a)?;
            x.check_same_type(&b)?;
            let multiply = multiplier(x.kind)?;
            let all_two = [&x, &a, &b].iter().all(|array| array.dimensions() == 2);
            let fits = all_two && a.size(1) == b.size(0) && (x.size(0), x.size(1)) == (a.size(0), b.size(1));
            check(fits, || format!("{} times {} does not have the shape of {}", a.name, b.name, x.name))?;
            let (set, element) = (sets::executing()?, x.element);
            let among = set.nodes()?;
            let (rows, columns) = (owned_places(&x.map, 0), owned_places(&x.map, 1));
            let mut product = vec![0u8; rows.len() * columns.len() * element];
            let inner = a.size(1);
            for from in (0..inner).step_by(PANEL as usize) {
                let width = PANEL.min(inner - from);
                let part = Sub::range(from as i64, width as i64, 1);
                let none = [Shadow::NONE; 2];
                let left =
                    Mapping::new(x.template()?, &[x.size(0), width], &[x.align(0), Align::COLLAPSED], &none)?;
                let right =
                    Mapping::new(x.template()?, &[width, x.size(1)], &[Align::COLLAPSED, x.align(1)], &none)?;
                let (left, right) = (x.like(left)?, x.like(right)?);
                left.copy(&left.map.whole(), &a, &a.map.section(&[Sub::All, part.clone()])?, among)?;
                right.copy(&right.map.whole(), &b, &b.map.section(&[part, Sub::All])?, among)?;
                // What of it this node has, one behind the other.
                let (left_rows, right_columns) = (owned_places(&left.map, 0), owned_places(&right.map, 1));
                let wide =
                    right.map.part(sets::rank()).strides().first().map_or(1, |&stride| stride as usize);
                let dense: Vec<u8> = (0..width as usize)
                    .flat_map(|k| right_columns.iter().map(move |(_, column)| (k * wide + column) * element))
                    .flat_map(|at| right.bytes()[at..at + element].iter().copied())
                    .collect();
                for ((_, row), into) in
                    left_rows.iter().zip(product.chunks_exact_mut((columns.len() * element).max(1)))
                {
                    let start = row * width as usize * element;
                    multiply(
                        into,
                        &left.bytes()[start..start + width as usize * element],
                        &dense,
                        columns.len(),
                    );
                }
            }
            let stride = x.map.part(sets::rank()).strides().first().map_or(1, |&stride| stride as usize);
            let places = rows.iter().flat_map(|(_, row)| {
                columns.iter().map(move |(_, column)| (row * stride + column) * element)
            });
            for (place, value) in places.zip(product.chunks_exact(element)) {
                x.bytes()[place..place + element].copy_from_slice(value);
            }
            Ok(())
        })
    }
}

/// The elements of an array in the order of their indices, spread over the nodes of a set in blocks: those of this node, one behind the other.
fn in_blocks(array: &Whole, set: &Set) -> Result<Whole> {
    let sizes = array.map.sizes();
    let first = sizes.first().copied().ok_or_else(|| misuse(format!("{} has no dimensions", array.name)))?;
    let template = Template::block(&[first], set.nodes()?)?;
    let aligns: Vec<Align> =
        (0..sizes.len()).map(|at| if at == 0 { Align::with(0, 0) } else { Align::COLLAPSED }).collect();
    let blocks = array.like(Mapping::new(&template, &sizes, &aligns, &vec![Shadow::NONE; sizes.len()])?)?;
    blocks.copy_all(array, set.nodes()?)?;
    Ok(blocks)
}

/// A line of so many elements of each node, in their order.
fn in_pieces(array: &Whole, counts: &[u64], set: &Set) -> Result<Option<Whole>> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return Ok(None);
    }
    let template =
        Template::new(&[(0, total as i64 - 1)], &[Format::Irregular(counts.into())], set.nodes()?)?;
    array.like(Mapping::new(&template, &[total], &[Align::with(0, 0)], &[Shadow::NONE])?).map(Some)
}

/// What each node of a set says.
fn all_counts(set: &Set, own: u64) -> Result<Vec<u64>> {
    let mut counts = vec![own; set.members.len() as usize];
    if !set.is_single() {
        set.with_group(|group| group.allgather(&[own], &mut counts))?;
    }
    Ok(counts)
}

/// Whether each element of a mask is not 0, in the order of `in_blocks`.
fn truths(mask: &Whole, set: &Set) -> Result<Vec<bool>> {
    let blocks = in_blocks(mask, set)?;
    // SAFETY: it was made here.
    let bytes = unsafe { blocks.bytes() };
    Ok(bytes.chunks_exact(mask.element).map(|element| element.iter().any(|byte| *byte != 0)).collect())
}

/// The mask of a program; without one everything is meant.
unsafe fn masked(mask: Descriptor, array: &Whole, set: &Set) -> Result<Option<Vec<bool>>> {
    if mask.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let mask = unsafe { Whole::of(mask) }?;
    check(mask.map.sizes() == array.map.sizes(), || {
        format!("the mask {} must have the shape of {}", mask.name, array.name)
    })?;
    truths(&mask, set).map(Some)
}

/// `v` becomes those elements of `a` whose mask is not 0, one behind the other.
///
/// # Safety
/// All must be descriptors of arrays; that of the mask may be NULL.
#[no_mangle]
pub unsafe extern "C" fn xmp_pack(v: Descriptor, a: Descriptor, mask: Descriptor) {
    // SAFETY: as the caller promises; there is no place.
    unsafe {
        edge(std::ptr::null(), "xmp_pack", || {
            let (v, a, set) = (Whole::of(v)?, Whole::of(a)?, sets::executing()?);
            v.check_same_type(&a)?;
            check(v.dimensions() == 1, || format!("{} must have one dimension", v.name))?;
            let mask = masked(mask, &a, &set)?;
            let blocks = in_blocks(&a, &set)?;
            let is_meant = |at: usize| mask.as_ref().is_none_or(|mask| mask[at]);
            let elements = blocks.bytes().chunks_exact(a.element).enumerate();
            let kept: Vec<u8> =
                elements.filter(|(at, _)| is_meant(*at)).flat_map(|(_, element)| element.to_vec()).collect();
            let counts = all_counts(&set, (kept.len() / a.element) as u64)?;
            let Some(pieces) = in_pieces(&a, &counts, &set)? else { return Ok(()) };
            let total = pieces.size(0);
            check(total <= v.size(0), || {
                format!("{} has {} elements, and {total} are packed", v.name, v.size(0))
            })?;
            pieces.bytes().copy_from_slice(&kept);
            v.copy(
                &v.map.section(&[Sub::range(0, total as i64, 1)])?,
                &pieces,
                &pieces.map.whole(),
                set.nodes()?,
            )
        })
    }
}

/// Those elements of `a` whose mask is not 0 become the elements of `v`, in their order.
///
/// # Safety
/// As [`xmp_pack`].
#[no_mangle]
pub unsafe extern "C" fn xmp_unpack(a: Descriptor, v: Descriptor, mask: Descriptor) {
    // SAFETY: as the caller promises; there is no place.
    unsafe {
        edge(std::ptr::null(), "xmp_unpack", || {
            let (v, a, set) = (Whole::of(v)?, Whole::of(a)?, sets::executing()?);
            v.check_same_type(&a)?;
            check(v.dimensions() == 1, || format!("{} must have one dimension", v.name))?;
            let mask = masked(mask, &a, &set)?;
            let blocks = in_blocks(&a, &set)?;
            let is_meant = |at: usize| mask.as_ref().is_none_or(|mask| mask[at]);
            let own = (0..blocks.bytes().len() / a.element).filter(|at| is_meant(*at)).count();
            let counts = all_counts(&set, own as u64)?;
            let Some(pieces) = in_pieces(&a, &counts, &set)? else { return Ok(()) };
            let total = pieces.size(0);
            check(total <= v.size(0), || {
                format!("{} has {} elements, and {total} are unpacked", v.name, v.size(0))
            })?;
            pieces.copy(
                &pieces.map.whole(),
                &v,
                &v.map.section(&[Sub::range(0, total as i64, 1)])?,
                set.nodes()?,
            )?;
            let mut values = pieces.bytes().chunks_exact(a.element);
            for (at, element) in blocks.bytes().chunks_exact_mut(a.element).enumerate() {
                if is_meant(at) {
                    values.next().into_iter().for_each(|value| element.copy_from_slice(value));
                }
            }
            a.copy_all(&blocks, set.nodes()?)
        })
    }
}

/// How elements of a type are sorted: what is no number is the largest.
struct Sorting {
    kind: Type,
    down: bool,
}

impl Sorting {
    fn order(&self, one: &[u8], other: &[u8]) -> Ordering {
        let is_number = |value: &[u8]| self.kind.order(value, value).is_some();
        let order = self.kind.order(one, other).unwrap_or_else(|| is_number(other).cmp(&is_number(one)));
        match self.down {
            true => order.reverse(),
            false => order,
        }
    }

    /// Elements that lie one behind the other, in order.
    fn sorted(&self, values: &[u8], element: usize) -> Vec<u8> {
        let mut chunks: Vec<&[u8]> = values.chunks_exact(element).collect();
        chunks.sort_by(|one, other| self.order(one, other));
        chunks.concat()
    }

    /// As many elements of two sorted lists, from the front or from the back, as one of them has. Equal ones of the first come first.
    fn merged(&self, first: &[u8], second: &[u8], element: usize, from_front: bool) -> Vec<u8> {
        let bytes = if from_front { first.len() } else { second.len() };
        let skipped = if from_front { 0 } else { first.len() };
        let (mut first, mut second) =
            (first.chunks_exact(element).peekable(), second.chunks_exact(element).peekable());
        let merge = std::iter::from_fn(|| match (first.peek(), second.peek()) {
            (Some(one), Some(other)) if self.order(other, one).is_lt() => second.next(),
            (Some(_), _) => first.next(),
            (None, _) => second.next(),
        });
        let mut result = Vec::with_capacity(bytes);
        merge.skip(skipped / element).take(bytes / element).for_each(|value| result.extend_from_slice(value));
        result
    }
}

/// Sorts: each node its block, and then neighbours exchange theirs, as often as there are nodes.
unsafe fn sort(to: Descriptor, from: Descriptor, down: bool) -> Result<()> {
    // SAFETY: as the caller promises.
    let (to, from, set) = unsafe { (Whole::of(to)?, Whole::of(from)?, sets::executing()?) };
    to.check_same_type(&from)?;
    let is_line = to.dimensions() == 1 && from.dimensions() == 1 && to.size(0) == from.size(0);
    check(is_line, || format!("{} and {} must have one dimension, and the same length", to.name, from.name))?;
    let sorting = Sorting { kind: Type::new(from.kind)?, down };
    let zero = vec![0; from.element];
    check(sorting.kind.order(&zero, &zero).is_some(), || {
        format!("{} has complex numbers, which have no order", from.name)
    })?;
    let blocks = in_blocks(&from, &set)?;
    // SAFETY: it was made here.
    let bytes = unsafe { blocks.bytes() };
    let mut values = sorting.sorted(bytes, from.element);
    let counts = all_counts(&set, (values.len() / from.element) as u64)?;
    if !set.is_single() {
        // Those who have nothing are at the end.
        let holders = counts.iter().filter(|count| **count > 0).count() as Rank;
        set.with_group(|group| merge_with_neighbours(group, &mut values, from.element, holders, &sorting))?;
    }
    bytes[..values.len()].copy_from_slice(&values);
    to.copy_all(&blocks, set.nodes()?)
}

/// Odd and even pairs in turn: the lower one keeps what comes first.
fn merge_with_neighbours(
    group: &Group<'_>,
    values: &mut Vec<u8>,
    element: usize,
    holders: Rank,
    sorting: &Sorting,
) -> Result<()> {
    const CONTEXT: u32 = 0x8000_0012;
    let me = group.rank();
    for turn in 0..holders {
        let is_lower = me % 2 == turn % 2;
        let partner = if is_lower { Some(me + 1) } else { me.checked_sub(1) };
        let Some(partner) = partner.filter(|&partner| partner < holders && me < holders) else { continue };
        let theirs = session::with(|world| {
            let mail = world.messages().context(CONTEXT);
            let rank = group.world_rank(partner).ok_or_else(|| misuse("there is no such neighbour"))?;
            let sending = mail.start_send::<u8>(rank, 0, values.clone())?;
            let came = mail.receive::<u8>(rank, 0)?.elements;
            sending.wait()?;
            Ok(came)
        })?;
        *values = match is_lower {
            true => sorting.merged(values, &theirs, element, true),
            false => sorting.merged(&theirs, values, element, false),
        };
    }
    Ok(())
}

/// `v1` becomes `v2`, in ascending order.
///
/// # Safety
/// Both must be descriptors of arrays.
#[no_mangle]
pub unsafe extern "C" fn xmp_sort_up(v1: Descriptor, v2: Descriptor) {
    // SAFETY: as the caller promises; there is no place.
    unsafe { edge(std::ptr::null(), "xmp_sort_up", || sort(v1, v2, false)) }
}

/// `v1` becomes `v2`, in descending order.
///
/// # Safety
/// Both must be descriptors of arrays.
#[no_mangle]
pub unsafe extern "C" fn xmp_sort_down(v1: Descriptor, v2: Descriptor) {
    // SAFETY: as the caller promises; there is no place.
    unsafe { edge(std::ptr::null(), "xmp_sort_down", || sort(v1, v2, true)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_the_largest() {
        let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let numbers = |bytes: &[u8]| -> Vec<String> {
            bytes.chunks_exact(8).map(|value| super::super::values::read::<f64>(value).to_string()).collect()
        };
        let sorting = |down| Sorting { kind: Type::new(12).unwrap(), down };
        let sorted = sorting(false).sorted(&bytes(&[3.0, f64::NAN, -1.0, f64::INFINITY, 2.0]), 8);
        assert_eq!(numbers(&sorted), ["-1", "2", "3", "inf", "NaN"]);
        let (front, back) = (bytes(&[1.0, 4.0, f64::NAN]), bytes(&[0.0, 2.0]));
        assert_eq!(numbers(&sorting(false).merged(&front, &back, 8, true)), ["0", "1", "2"]);
        assert_eq!(numbers(&sorting(false).merged(&front, &back, 8, false)), ["4", "NaN"]);
        assert_eq!(numbers(&sorting(true).sorted(&sorted, 8)), ["NaN", "inf", "3", "2", "-1"]);
    }
}
