//! `gmove`: an assignment between sections of arrays, wherever they are.

use super::arrays::KxmpArray;
use super::asynchronous::{run, Memory};
use super::collectives::meet;
use super::sections::{KxmpPart, KxmpSide, REST};
use super::sets::Set;
use super::{alike, conversions, directory, edge, session, sets, tasks, MOST_DIMENSIONS};
use crate::api::buffers::{list, size_for};
use crate::guard::misuse;
use kumiki::array::{Layout, Mapping, Nodes, Plan, Reach, Section, Sub};
use kumiki::raw::Booking;
use kumiki::{Error, GlobalPtr, Purpose, Rank, Result, Shape, World};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_long};
use std::sync::Arc;

const COLLECTIVE: c_int = 0;
const IN: c_int = 1;
const OUT: c_int = 2;

/// One side: how it lies, what is meant of it, and what this node has.
pub(super) struct Side {
    pub(super) map: Arc<Mapping>,
    pub(super) section: Section,
    pub(super) memory: Memory,
    pub(super) element: usize,
    kind: c_int,
    name: String,
    /// By which other nodes find their parts.
    number: Option<u64>,
    is_array: bool,
}

fn sub(part: &KxmpPart) -> Sub {
    let said = |number: c_long| (number != REST).then_some(number);
    match part.is_range {
        0 => Sub::Index(part.base),
        _ => {
            Sub::Range { base: said(part.base), count: said(part.length), step: said(part.step).unwrap_or(1) }
        }
    }
}

impl Side {
    /// # Safety
    /// It must be a side; memory that is no array is on all of `nodes`.
    unsafe fn new(side: *const KxmpSide, what: &str, nodes: &Nodes) -> Result<Side> {
        // SAFETY: as the caller promises.
        unsafe {
            let side = side.as_ref().ok_or_else(|| misuse(format!("the {what} side is NULL")))?;
            let ndims = usize::try_from(side.ndims).ok().filter(|&ndims| ndims <= MOST_DIMENSIONS);
            let ndims =
                ndims.ok_or_else(|| misuse(format!("the {what} side has {} dimensions", side.ndims)))?;
            let subs: Vec<Sub> = side.part[..ndims].iter().map(sub).collect();
            if !side.array.is_null() {
                let (array, inside) = KxmpArray::get(side.array.cast())?;
                let kept = array.mapping(inside)?;
                let map = kept.space.clone();
                let name = array.name();
                let section = match ndims {
                    0 => map.whole(),
                    _ => map.section(&subs).map_err(|error| misuse(format!("{name}: {error}")))?,
                };
                let memory = Memory::of(array, array.memory(kept)?.len());
                let (element, kind, number) = (array.element, array.kind, inside.number);
                return Ok(Side { map, section, memory, element, kind, name, number, is_array: true });
            }
            let extents = list(side.extent, ndims, "the extents")?;
            let size = |&extent: &c_long| {
                u64::try_from(extent).map_err(|_| misuse(format!("an extent of {extent}")))
            };
            let sizes = extents.iter().map(size).collect::<Result<Vec<u64>>>()?;
            let map = Mapping::everywhere(nodes, &sizes)?;
            let section = map.section(&subs).map_err(|error| misuse(format!("the {what} side: {error}")))?;
            let bytes = size_for(usize::try_from(map.len()).unwrap_or(usize::MAX), side.element, what)?;
            let memory = Memory { start: side.base.cast(), bytes };
            let name = format!("the {what} side");
            Ok(Side {
                map,
                section,
                memory,
                element: side.element,
                kind: side.kind,
                name,
                number: None,
                is_array: false,
            })
        }
    }
}

/// Copies a section to another.
///
/// # Safety
/// `place` must be a text, or NULL; both sides must be sides.
#[no_mangle]
pub unsafe extern "C" fn kxmp_gmove(
    place: *const c_char,
    mode: c_int,
    left: *const KxmpSide,
    right: *const KxmpSide,
    id: c_long,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "gmove", || {
            let set = sets::executing()?;
            let own = Nodes::single(sets::rank());
            let all = set.nodes()?;
            // What a node gets is its own; what it puts all have, and one of them puts it.
            let left = Side::new(left, "left", if mode == IN { &own } else { all })?;
            let right = Side::new(right, "right", all)?;
            // A variable is with those who execute, and each has its own.
            let mode = if mode == OUT && !left.is_array { COLLECTIVE } else { mode };
            check(&left, &right)?;
            if mode == COLLECTIVE {
                let of = |side: &Side| format!("{} {:?}", side.name, side.section);
                alike(place, &set, || format!("gmove({} = {})", of(&left), of(&right)))?;
            }
            match mode {
                COLLECTIVE => {
                    let plan = session::with(|world| {
                        let (to, from) = ((&left.map, &left.section), (&right.map, &right.section));
                        Plan::copy(world, all, left.element, to, from)
                    })?;
                    if !is_converted(&left, &right) {
                        return run(&plan, right.memory, left.memory, None, id);
                    }
                    let (plan, pieces) = plan.packed();
                    let (mut values, _booked) = converted(&left, &right, &pieces)?;
                    let source = Memory { start: values.as_mut_ptr(), bytes: values.len() };
                    run(&Arc::new(plan), source, left.memory, None, id)
                }
                _ => one_sided(&set, mode == IN, &left, &right),
            }
        })
    }
}

/// Whether the elements of the right side become those of another type.
fn is_converted(left: &Side, right: &Side) -> bool {
    left.kind != right.kind && conversions::is_possible(right.kind, left.kind)
}

/// Pieces of what this node has of the right side, one behind the other, as elements of the left.
fn converted(left: &Side, right: &Side, pieces: &[Layout]) -> Result<(Vec<u8>, Booking)> {
    let bytes = size_for(pieces.iter().map(Layout::len).sum(), left.element, &right.name)?;
    let booked = session::with(|world| kumiki::raw::book(world, Purpose::Comm, bytes))?;
    let mut values = Vec::new();
    let none = |_| Error::OutOfMemory { asked: bytes as u64, left: 0, what: "the memory of this machine" };
    values.try_reserve_exact(bytes).map_err(none)?;
    // SAFETY: the program leaves it alone meanwhile.
    let (memory, element) = (unsafe { right.memory.slice() }, right.element);
    let mut done = Ok(());
    for layout in pieces {
        each(layout, |at| {
            if done.is_ok() {
                let value = &memory[at * element..(at + 1) * element];
                done = conversions::convert(value, right.kind, left.kind, &mut values);
            }
        });
    }
    done.map(|()| (values, booked))
}

fn check(left: &Side, right: &Side) -> Result<()> {
    let is_alike = left.kind == right.kind || left.kind == 0 || right.kind == 0;
    let is_same = left.element == right.element && is_alike || is_converted(left, right);
    if !is_same {
        let why = conversions::why_not(left.kind, right.kind);
        return Err(misuse(format!(
            "{} and {} have elements of different types ({} and {} bytes) that {why}",
            left.name, right.name, left.element, right.element
        )));
    }
    let (wants, has) = (left.section.shape(), right.section.shape());
    match has.is_empty() || wants == has {
        true => Ok(()),
        false if wants.len() != has.len() => Err(misuse(format!(
            "{} has {} ranges and {} has {}: as many colons must stand on both sides (an index is no range of length 1)",
            left.name,
            wants.len(),
            right.name,
            has.len()
        ))),
        false => Err(misuse(format!("{} has {wants:?} elements and {} has {has:?}: give both the same lengths", left.name, right.name))),
    }
}

/// Without the help of those on the other side. Those who execute meet before and after; in a task with `nocomm` nobody knows who they are.
fn one_sided(set: &Set, is_get: bool, left: &Side, right: &Side) -> Result<()> {
    let theirs = if is_get { right } else { left };
    let meet = |set: &Set| if tasks::is_in_plain() { Ok(()) } else { meet(set) };
    meet(set)?;
    session::with(|world| {
        let me = world.rank();
        let (to, from) = ((&*left.map, &left.section), (&*right.map, &right.section));
        let pieces = match is_get {
            true => Reach::get(me, to, from)?,
            false => Reach::put(me, to, from)?,
        };
        let mut bases = HashMap::new();
        let mut moved = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let there = match bases.get(&piece.rank) {
                Some(base) => *base,
                None => {
                    let base = base_of(world, theirs, piece.rank)?;
                    bases.insert(piece.rank, base);
                    base
                }
            };
            moved.push((piece, there));
        }
        // Where an array is moved into itself, nobody writes before all have read.
        let is_inside = left.is_array && right.is_array && left.number == right.number;
        let have_read = || if is_inside { meet(set) } else { Ok(()) };
        match is_get {
            true => get_all(world, &moved, left, right, have_read),
            false => put_all(world, &moved, left, right, have_read),
        }
    })?;
    meet(set)
}

/// Where the part of a node is.
fn base_of(world: &World, side: &Side, rank: Rank) -> Result<Option<GlobalPtr<u8>>> {
    if rank == world.rank() {
        return Ok(None);
    }
    let number = match (side.is_array, side.number) {
        (true, Some(number)) => number,
        (true, None) => {
            return Err(misuse(format!(
                "{}: in and out are for arrays that all nodes have declared together",
                side.name
            )))
        }
        // A variable that every node has is taken from this one.
        (false, _) => return Ok(None),
    };
    let found = directory::find(world, rank, number)?;
    let gone = || misuse(format!("{}: rank {rank} has no memory for it, or has none any more", side.name));
    found.map(Some).ok_or_else(gone)
}

fn shape(layout: &Layout, element: usize) -> Result<Shape> {
    let wide = layout.loops.iter().map(|&(count, stride)| (count, stride * element as isize));
    Shape::section(&wide.filter(|(count, _)| *count != 1).chain([(element, 1)]).collect::<Vec<_>>())
}

/// Everything is read before anything is written.
fn get_all(
    world: &World,
    pieces: &[(Reach, Option<GlobalPtr<u8>>)],
    to: &Side,
    from: &Side,
    have_read: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let element = from.element;
    let mut values = Vec::with_capacity(pieces.len());
    for (piece, there) in pieces {
        values.push(match there {
            Some(base) => {
                let mut bytes = vec![0u8; piece.there.len() * element];
                if !bytes.is_empty() {
                    let start = *base + piece.there.start * element;
                    let dense = Shape::contiguous(bytes.len())?;
                    world.get_shape(start, &shape(&piece.there, element)?, &mut bytes, &dense)?;
                }
                bytes
            }
            None => read(from, &piece.there),
        });
    }
    have_read()?;
    for ((piece, _), bytes) in pieces.iter().zip(values) {
        write(to, &piece.here, &as_left(to, from, bytes)?);
    }
    Ok(())
}

/// Elements of the right side as those of the left.
fn as_left(left: &Side, right: &Side, bytes: Vec<u8>) -> Result<Vec<u8>> {
    match is_converted(left, right) {
        true => conversions::converted(&bytes, right.element, right.kind, left.kind),
        false => Ok(bytes),
    }
}

fn put_all(
    world: &World,
    pieces: &[(Reach, Option<GlobalPtr<u8>>)],
    to: &Side,
    from: &Side,
    have_read: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let mut values = Vec::with_capacity(pieces.len());
    for (piece, _) in pieces {
        values.push(as_left(to, from, read(from, &piece.here))?);
    }
    have_read()?;
    for ((piece, there), bytes) in pieces.iter().zip(&values) {
        match there {
            Some(base) if !bytes.is_empty() => {
                let start = *base + piece.there.start * to.element;
                world.put_shape(
                    start,
                    &shape(&piece.there, to.element)?,
                    bytes,
                    &Shape::contiguous(bytes.len())?,
                )?;
            }
            Some(_) => {}
            None => write(to, &piece.there, bytes),
        }
    }
    Ok(())
}

/// The elements of a piece of this node's memory, one behind the other.
fn read(side: &Side, layout: &Layout) -> Vec<u8> {
    // SAFETY: the program leaves it alone meanwhile.
    let (memory, element) = (unsafe { side.memory.slice() }, side.element);
    let mut bytes = Vec::with_capacity(layout.len() * element);
    each(layout, |at| bytes.extend_from_slice(&memory[at * element..(at + 1) * element]));
    bytes
}

/// Elements that lie one behind the other to their places in this node's memory.
fn write(side: &Side, layout: &Layout, bytes: &[u8]) {
    // SAFETY: the program leaves it alone meanwhile.
    let (memory, element) = (unsafe { side.memory.slice() }, side.element);
    let mut elements = bytes.chunks_exact(element);
    each(layout, |at| {
        if let Some(value) = elements.next() {
            memory[at * element..(at + 1) * element].copy_from_slice(value);
        }
    });
}

/// Calls something with the place of each element, in order.
fn each(layout: &Layout, mut work: impl FnMut(usize)) {
    let ranges = layout.loops.iter().map(|&(count, stride)| (count as i64, stride as i64)).collect();
    super::sections::Section { first: layout.start as i64, ranges }.each(|at| work(at as usize));
}
