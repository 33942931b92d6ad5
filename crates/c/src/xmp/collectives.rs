//! `barrier`, `reduction`, `bcast`: what the nodes of a set do together. With `*` in the on-clause there are several sets, each by itself.

use super::arrays::{KxmpArray, KxmpMapping};
use super::coarrays::{gather, scatter};
use super::references::{self, KxmpRef};
use super::sets::{self, Set};
use super::values::{Op, Type};
use super::{alike, edge, session};
use crate::api::buffers::{size_for, writable};
use crate::guard::misuse;
use kumiki::raw::groups;
use kumiki::Result;
use std::ffi::{c_char, c_int, c_long, c_void};

/// Waits for the nodes of a set.
///
/// # Safety
/// `place` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_barrier(place: *const c_char, on: KxmpRef) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "barrier", || match references::set(&on)? {
            Some(set) => alike(place, &set, || "barrier()".into()).and_then(|()| meet(&set)),
            None => Ok(()),
        })
    }
}

/// Waits for the nodes of a set; what they have put is at its place.
pub(super) fn meet(set: &Set) -> Result<()> {
    match set.is_single() {
        true => Ok(()),
        false => set.with_group(|group| group.barrier()),
    }
}

/// Combines values of all nodes of a set, in place.
///
/// # Safety
/// `place` must be a text, or NULL; `value` must have `count` elements of the type.
#[no_mangle]
pub unsafe extern "C" fn kxmp_reduction(
    place: *const c_char,
    on: KxmpRef,
    op: c_int,
    kind: c_int,
    value: *mut c_void,
    count: c_long,
    id: c_long,
) {
    // It is done when this returns: there is nothing to wait for by the id.
    let _ = id;
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "reduction", || {
            let (kind, op) = (Type::new(kind)?, Op::new(op)?);
            let value = writable(value, bytes_for(count, &kind)?, "the variable")?;
            match references::set(&on)? {
                Some(set) => {
                    alike(place, &set, || {
                        format!("reduction({op:?}, {count} values of {} bytes)", kind.bytes)
                    })?;
                    reduce(&set, value, &kind, op)
                }
                None => Ok(()),
            }
        })
    }
}

pub(super) fn bytes_for(count: c_long, kind: &Type) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_| misuse(format!("{count} elements")))?;
    size_for(count, kind.bytes, "the variable")
}

/// Combines bytes of all nodes of a set.
pub(super) fn reduce(set: &Set, value: &mut [u8], kind: &Type, op: Op) -> Result<()> {
    let how = kind.how(op)?;
    match set.is_single() || value.is_empty() {
        true => Ok(()),
        false => set.with_group(|group| groups::allreduce(group, value, &how)),
    }
}

/// Combines the parts of an array of all nodes of a set, in place: what each owns.
///
/// # Safety
/// `place` must be a text, or NULL; `array` must be one.
#[no_mangle]
pub unsafe extern "C" fn kxmp_reduction_array(
    place: *const c_char,
    on: KxmpRef,
    op: c_int,
    array: *mut KxmpArray,
    id: c_long,
) {
    let _ = id;
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "reduction", || {
            let (array, inside) = KxmpArray::get(array)?;
            let (kind, op) = (Type::new(array.kind)?, Op::new(op)?);
            let map = array.mapping(inside)?;
            let memory = array.memory(map)?;
            let Some(set) = references::set(&on)? else { return Ok(()) };
            alike(place, &set, || format!("reduction({op:?}, {})", array.name()))?;
            check_alike(&set, array, map, "reduction")?;
            for section in map.owned(array.element) {
                let bytes = section.count() as usize * array.element;
                if section.is_dense(array.element) {
                    let first = section.first as usize;
                    reduce(&set, &mut memory[first..first + bytes], &kind, op)?;
                    continue;
                }
                let mut values = gather(array.base, &section, array.element, section.count() as usize);
                reduce(&set, &mut values, &kind, op)?;
                scatter(array.base, &section, array.element, &values);
            }
            Ok(())
        })
    }
}

/// The nodes of a set must have the same elements of an array: else it would be different ones that are combined, or replaced.
fn check_alike(set: &Set, array: &KxmpArray, map: &KxmpMapping, what: &str) -> Result<()> {
    let dimensions = map.space.dimensions().len();
    let nodes = |rank| {
        let part = map.space.part(rank);
        (0..dimensions).map(|at| part.node(at)).collect::<Vec<_>>()
    };
    let mine = nodes(sets::rank());
    match set.members.iter().find(|rank| nodes(*rank) != mine) {
        None => Ok(()),
        Some(rank) => Err(misuse(format!(
            "{what} of {}, of which this node and rank {rank} have different elements: it is for arrays that all nodes of the on-clause have alike \
             (align it with * where the template is spread over them, or reduce within a loop into a variable)",
            array.name()
        ))),
    }
}

/// Gives an array of one node to all of a set, which have the same elements of it.
///
/// # Safety
/// `place` must be a text, or NULL; `from` must be readable, or NULL; `array` must be one.
#[no_mangle]
pub unsafe extern "C" fn kxmp_bcast_array(
    place: *const c_char,
    on: KxmpRef,
    from: *const KxmpRef,
    array: *mut KxmpArray,
    id: c_long,
) {
    let _ = id;
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "bcast", || {
            let (array, inside) = KxmpArray::get(array)?;
            let map = array.mapping(inside)?;
            let memory = array.memory(map)?;
            let Some(set) = references::set(&on)? else { return Ok(()) };
            alike(place, &set, || format!("bcast({})", array.name()))?;
            check_alike(&set, array, map, "bcast")?;
            broadcast(&set, from, memory)
        })
    }
}

/// Gives a value of one node to all of a set.
///
/// # Safety
/// `place` must be a text, or NULL; `from` must be readable, or NULL; `value` must have so many bytes.
#[no_mangle]
pub unsafe extern "C" fn kxmp_bcast(
    place: *const c_char,
    on: KxmpRef,
    from: *const KxmpRef,
    value: *mut c_void,
    bytes: usize,
    id: c_long,
) {
    let _ = id;
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "bcast", || {
            let value = writable(value, bytes, "the variable")?;
            let Some(set) = references::set(&on)? else { return Ok(()) };
            alike(place, &set, || format!("bcast({bytes} bytes)"))?;
            broadcast(&set, from, value)
        })
    }
}

/// # Safety
/// `from` must be readable, or NULL.
unsafe fn broadcast(set: &Set, from: *const KxmpRef, value: &mut [u8]) -> Result<()> {
    // SAFETY: as the caller promises.
    let root = match unsafe { from.as_ref() } {
        Some(from) => session::with(|world| {
            let rank = references::single(world, from)?;
            let stranger = || misuse("the node of the from-clause is not among those of the on-clause");
            set.members.position(rank).ok_or_else(stranger)
        })?,
        None => 0,
    };
    match set.is_single() || value.is_empty() {
        true => Ok(()),
        false => set.with_group(|group| group.broadcast(root, value)),
    }
}
