//! `reflect`, `reflect_init` and `reflect_do`, `reduce_shadow`.

use super::arrays::{Kept, KxmpArray, KxmpMapping, KxmpWidth};
use super::asynchronous::{run, Memory};
use super::values::{Op, Type};
use super::{alike, edge, session, sets};
use crate::api::buffers::list;
use crate::guard::misuse;
use kumiki::array::{Plan, Width};
use kumiki::Result;
use std::ffi::{c_char, c_int, c_long};
use std::sync::Arc;

/// How wide: what the program says, or all of the shadow.
fn widths(array: &KxmpArray, map: &KxmpMapping, said: Option<&[KxmpWidth]>) -> Result<Vec<Width>> {
    let all = Width::all(&map.space);
    let Some(said) = said else { return Ok(all) };
    let one = |(at, (width, all)): (usize, (&KxmpWidth, &Width))| {
        let periodic = width.periodic != 0;
        let is_full = map.space.dimensions()[at].shadow().widths().is_none();
        if is_full && periodic {
            return Err(misuse(format!("{}: a full shadow cannot be periodic", array.name())));
        }
        if (width.lo, width.hi) == (-1, -1) || is_full && (width.lo, width.hi) != (0, 0) {
            return Ok(Width { periodic, ..*all });
        }
        match (u64::try_from(width.lo), u64::try_from(width.hi)) {
            (Ok(low), Ok(high)) if is_full || low <= all.low && high <= all.high => Ok(Width { low, high, periodic }),
            (Ok(low), Ok(high)) => Err(misuse(format!(
                "{}: the width {low}:{high} of dimension {} is larger than its shadow, {}:{}; make the shadow as wide",
                array.name(),
                at + 1,
                all.low,
                all.high
            ))),
            _ => Err(misuse(format!("{}: a negative width of dimension {}", array.name(), at + 1))),
        }
    };
    said.iter().zip(&all).enumerate().map(one).collect()
}

/// An array, how it lies, and what the program says of widths.
type Prepared<'a> = (&'a mut KxmpArray, Arc<KxmpMapping>, Option<Vec<KxmpWidth>>);

/// The array, and what the program says of widths.
unsafe fn prepared<'a>(array: *mut KxmpArray, width: *const KxmpWidth) -> Result<Prepared<'a>> {
    // SAFETY: as the caller promises.
    unsafe {
        let (array, inside) = KxmpArray::get(array)?;
        let map = array.mapping(inside)?.clone();
        let count = map.space.dimensions().len();
        let said = (!width.is_null()).then(|| list(width, count, "the widths").map(<[KxmpWidth]>::to_vec));
        Ok((array, map, said.transpose()?))
    }
}

/// An error if a node would wait for one that does not execute the directive.
fn check_executing(array: &KxmpArray, plan: &Plan) -> Result<()> {
    let set = sets::executing()?;
    let outside = plan.peers().find(|&rank| set.members.position(rank).is_none());
    outside.map_or(Ok(()), |rank| {
        Err(misuse(format!(
            "{}: the node of rank {rank} has a neighbouring part, and does not execute this task; let all nodes of the array execute it",
            array.name()
        )))
    })
}

fn reflect(array: &KxmpArray, map: &KxmpMapping, kept: &Kept, id: c_long) -> Result<()> {
    let widths = widths(array, map, kept.widths.as_deref())?;
    let plan =
        session::with(|world| Plan::reflect(world, array.element, &map.space, &widths, !kept.orthogonal))?;
    check_executing(array, &plan)?;
    // SAFETY: the program leaves the array alone until it has waited.
    unsafe {
        let memory = Memory::of(array, array.memory(map)?.len());
        run(&plan, memory, memory, None, id)
    }
}

/// Fills the shadow of an array with what its owners have.
///
/// # Safety
/// `place` must be a text, or NULL; `array` must be one; `width` must have one for each dimension, or be NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_reflect(
    place: *const c_char,
    array: *mut KxmpArray,
    width: *const KxmpWidth,
    orthogonal: c_int,
    id: c_long,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "reflect", || {
            let (array, map, widths) = prepared(array, width)?;
            alike(place, &*sets::executing()?, || {
                format!("reflect({}, {widths:?}, orthogonal: {})", array.name(), orthogonal != 0)
            })?;
            reflect(array, &map, &Kept { widths, orthogonal: orthogonal != 0 }, id)
        })
    }
}

/// Says how `reflect_do` fills the shadow.
///
/// # Safety
/// As [`kxmp_reflect`].
#[no_mangle]
pub unsafe extern "C" fn kxmp_reflect_init(
    place: *const c_char,
    array: *mut KxmpArray,
    width: *const KxmpWidth,
    orthogonal: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "reflect_init", || {
            let (found, map, said) = prepared(array, width)?;
            // What is wrong is told now.
            widths(found, &map, said.as_deref())?;
            let (_, inside) = KxmpArray::get(array)?;
            inside.kept = Some(Kept { widths: said, orthogonal: orthogonal != 0 });
            Ok(())
        })
    }
}

/// Fills the shadow of an array as `reflect_init` has said.
///
/// # Safety
/// `place` must be a text, or NULL; `array` must be one.
#[no_mangle]
pub unsafe extern "C" fn kxmp_reflect_do(place: *const c_char, array: *mut KxmpArray, id: c_long) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "reflect_do", || {
            let (array, inside) = KxmpArray::get(array)?;
            let none = || misuse(format!("{}: there was no reflect_init", array.name()));
            let kept = inside.kept.clone().ok_or_else(none)?;
            let map = array.mapping(inside)?.clone();
            alike(place, &*sets::executing()?, || format!("reflect_do({}, {kept:?})", array.name()))?;
            reflect(array, &map, &kept, id)
        })
    }
}

/// Adds what is in the shadow of an array to what the owners have.
///
/// # Safety
/// As [`kxmp_reflect`].
#[no_mangle]
pub unsafe extern "C" fn kxmp_reduce_shadow(
    place: *const c_char,
    array: *mut KxmpArray,
    width: *const KxmpWidth,
    orthogonal: c_int,
    id: c_long,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "reduce_shadow", || {
            let (array, map, said) = prepared(array, width)?;
            alike(place, &*sets::executing()?, || {
                format!("reduce_shadow({}, {said:?}, orthogonal: {})", array.name(), orthogonal != 0)
            })?;
            let how = Type::new(array.kind)?.how(Op::Sum)?;
            let widths = widths(array, &map, said.as_deref())?;
            let plan = session::with(|world| {
                Plan::reduce_shadow(world, array.element, &map.space, &widths, orthogonal == 0)
            })?;
            check_executing(array, &plan)?;
            let memory = Memory::of(array, array.memory(&map)?.len());
            run(&plan, memory, memory, Some(how), id)
        })
    }
}
