//! `xmp_gather` and `xmp_scatter`: elements that arrays of indices name, straight from and to the memory of their owners.

use super::collectives::meet;
use super::inquiry::Descriptor;
use super::transforms::Whole;
use super::{conversions, directory, edge, session, sets, MOST_DIMENSIONS};
use crate::api::buffers::list;
use crate::guard::misuse;
use kumiki::{Rank, Result, Shape, World};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

/// Elements that go to, or come from, a node: where they lie there, and here.
type Pairs = BTreeMap<Rank, Vec<(usize, usize)>>;

/// What the lists of indices name: for each element of `near` that this node has, the place of one of `far`, or, for puts, the places of all its copies.
fn pairs(near: &Whole, far: &Whole, indices: &[Whole], is_get: bool) -> Result<Pairs> {
    if indices.len() != far.map.dimensions().len() {
        let (has, wants) = (indices.len(), far.map.dimensions().len());
        return Err(misuse(format!(
            "{} has {wants} dimensions, and there are {has} arrays of indices",
            far.name
        )));
    }
    for index in indices {
        if index.map.sizes() != near.map.sizes() {
            let (index, near) = (&index.name, &near.name);
            return Err(misuse(format!("the indices {index} must have the shape of {near}")));
        }
    }
    let part = near.map.part(sets::rank());
    let mut pairs = Pairs::new();
    let mut wrong = None;
    each_owned(near, |at| {
        let Some(place) = part.place(at) else { return };
        let index: Option<Vec<i64>> = indices.iter().map(|array| number(array, at)).collect();
        let Some(index) = index else {
            wrong = Some(misuse(format!("the arrays of indices of {} must be of integers", near.name)));
            return;
        };
        match places_of(far, &index, is_get) {
            Ok(places) => {
                places
                    .into_iter()
                    .for_each(|(rank, there)| pairs.entry(rank).or_default().push((there, place)));
            }
            Err(error) => wrong = Some(error),
        }
    });
    wrong.map_or(Ok(pairs), Err)
}

/// Calls something with the index of each element that this node has.
fn each_owned(array: &Whole, mut work: impl FnMut(&[i64])) {
    let part = array.map.part(sets::rank());
    let dimensions = array.map.dimensions();
    let lists: Vec<Vec<i64>> = (0..dimensions.len())
        .map(|at| {
            let ranges = part.ranges(at, 0, dimensions[at].size() as i64 - 1, 1);
            let mut indices: Vec<i64> = ranges.into_iter().flat_map(|range| range.indices()).collect();
            indices.sort_unstable();
            indices
        })
        .collect();
    if lists.iter().any(Vec::is_empty) {
        return;
    }
    let mut turn = [0; MOST_DIMENSIONS];
    loop {
        let index: Vec<i64> = lists.iter().zip(&turn).map(|(list, &at)| list[at]).collect();
        work(&index);
        let mut left = lists.len();
        loop {
            let Some(at) = left.checked_sub(1) else { return };
            left = at;
            turn[at] += 1;
            if turn[at] < lists[at].len() {
                break;
            }
            turn[at] = 0;
        }
    }
}

/// A number of an array that this node has.
fn number(array: &Whole, index: &[i64]) -> Option<i64> {
    let start = array.map.part(sets::rank()).place(index)? * array.element;
    // SAFETY: the program leaves the array alone meanwhile.
    let bytes = unsafe { array.memory.slice() }.get(start..start + array.element)?;
    conversions::whole(array.kind, bytes)
}

/// Who has an element, and where: one of them, the own if there is one, or all.
fn places_of(array: &Whole, index: &[i64], only_one: bool) -> Result<Vec<(Rank, usize)>> {
    let owners = array.map.owners(index)?;
    let own = sets::rank();
    let ranks: Vec<Rank> = match only_one {
        true if owners.contains(own) => vec![own],
        true => owners.first().into_iter().collect(),
        false => owners.ranks().collect(),
    };
    let place = |rank: Rank| Some((rank, array.map.part(rank).place(index)?));
    let places: Option<Vec<(Rank, usize)>> = ranks.into_iter().map(place).collect();
    let places = places.filter(|places| !places.is_empty());
    places.ok_or_else(|| misuse(format!("{} has no element {index:?}", array.name)))
}

/// Moves elements between this node and others.
fn transfer(world: &World, near: &Whole, far: &Whole, pairs: &Pairs, is_get: bool) -> Result<()> {
    let element = near.element;
    // SAFETY: the program leaves both arrays alone meanwhile.
    let (here, own) = unsafe { (near.memory.slice(), far.memory.slice()) };
    for (&rank, list) in pairs {
        let bytes = |at: usize| at * element..(at + 1) * element;
        if rank == world.rank() {
            for &(there, place) in list {
                match is_get {
                    true => here[bytes(place)].copy_from_slice(&own[bytes(there)]),
                    false => own[bytes(there)].copy_from_slice(&here[bytes(place)]),
                }
            }
            continue;
        }
        let number = far
            .number
            .ok_or_else(|| misuse(format!("{} was not declared by all nodes together", far.name)))?;
        let base = directory::find(world, rank, number)?;
        let base = base.ok_or_else(|| misuse(format!("{}: rank {rank} has no memory for it", far.name)))?;
        let pieces: Vec<(usize, usize)> = list.iter().map(|(there, _)| (there * element, element)).collect();
        let (shape, dense) = (Shape::pieces(&pieces)?, Shape::contiguous(list.len() * element)?);
        let mut values = vec![0u8; list.len() * element];
        if is_get {
            world.get_shape(base, &shape, &mut values, &dense)?;
            list.iter()
                .zip(values.chunks_exact(element))
                .for_each(|(&(_, place), value)| here[bytes(place)].copy_from_slice(value));
        } else {
            values.clear();
            list.iter().for_each(|&(_, place)| values.extend_from_slice(&here[bytes(place)]));
            world.put_shape(base, &shape, &values, &dense)?;
        }
    }
    Ok(())
}

unsafe fn indexed(
    near: Descriptor,
    far: Descriptor,
    indices: *const Descriptor,
    count: c_int,
    is_get: bool,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (near, far, mut indices) = unsafe {
        let count = usize::try_from(count).map_err(|_| misuse(format!("{count} arrays of indices")))?;
        let indices = list(indices, count, "the arrays of indices")?;
        let indices = indices.iter().map(|&index| Whole::of(index)).collect::<Result<Vec<Whole>>>()?;
        (Whole::of(near)?, Whole::of(far)?, indices)
    };
    if (near.element, near.kind) != (far.element, far.kind) {
        return Err(misuse(format!("{} and {} have elements of different types", near.name, far.name)));
    }
    let set = sets::executing()?;
    // Indices that lie in another way come to where the elements are.
    let is_elsewhere =
        |index: &&mut Whole| index.map.sizes() == near.map.sizes() && !Arc::ptr_eq(&index.map, &near.map);
    for index in indices.iter_mut().filter(is_elsewhere) {
        let moved = index.like(near.map.clone())?;
        moved.copy_all(index, set.nodes()?)?;
        *index = moved;
    }
    let pairs = pairs(&near, &far, &indices, is_get)?;
    meet(&set)?;
    session::with(|world| transfer(world, &near, &far, &pairs, is_get))?;
    meet(&set)
}

/// Each element of `x` becomes that of `a` which its indices name: `count` arrays of them, one for each dimension of `a`.
///
/// # Safety
/// All must be descriptors of arrays.
#[no_mangle]
pub unsafe extern "C" fn xmp_gather_list(
    x: Descriptor,
    a: Descriptor,
    indices: *const Descriptor,
    count: c_int,
) {
    // SAFETY: as the caller promises; there is no place.
    unsafe { edge(std::ptr::null(), "xmp_gather", || indexed(x, a, indices, count, true)) }
}

/// Each element of `a` goes to that of `x` which its indices name: `count` arrays of them, one for each dimension of `x`.
///
/// # Safety
/// All must be descriptors of arrays.
#[no_mangle]
pub unsafe extern "C" fn xmp_scatter_list(
    x: Descriptor,
    a: Descriptor,
    indices: *const Descriptor,
    count: c_int,
) {
    // SAFETY: as the caller promises; there is no place.
    unsafe { edge(std::ptr::null(), "xmp_scatter", || indexed(a, x, indices, count, false)) }
}
