//! Coarrays: memory of the same shape on every node, which all reach.

use super::nodes::{text, Nodes};
use super::sections::{check_shapes, KxmpPart, KxmpSide, Section};
use super::{conversions, edge, session, MOST_DIMENSIONS};
use crate::api::buffers::{list, size_for, writable};
use crate::guard::misuse;
use kumiki::data::SharedArray;
use kumiki::{GlobalPtr, Rank, Result, World};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_long, c_void};

/// Elements that were fetched and stay valid.
const FETCHED: usize = 64;

/// `kxmp_coarray`: it lives as long as the program.
#[derive(Debug)]
pub struct Coarray {
    pub(super) name: String,
    pub(super) kind: c_int,
    pub(super) element: usize,
    extents: Vec<c_long>,
    /// The fastest first; the last has as many as there are nodes for.
    codims: Vec<i64>,
    on: Option<&'static Nodes>,
    memory: SharedArray<u8>,
    /// The world that it is in.
    session: u64,
}

/// Makes a coarray. All nodes do so together.
///
/// # Safety
/// `slot` and `memory` must be writable, or NULL; texts must be texts; `extent` and `codim` must have so many numbers; `on` must be nodes, or NULL.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // As many as translated programs give.
pub unsafe extern "C" fn kxmp_coarray_make(
    slot: *mut *mut Coarray,
    memory: *mut *mut c_void,
    place: *const c_char,
    name: *const c_char,
    kind: c_int,
    element: usize,
    ndims: c_int,
    extent: *const c_long,
    codims: c_int,
    codim: *const c_long,
    on: *const Nodes,
) -> *mut Coarray {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "coarray", || {
            let found = slot.as_ref().and_then(|slot| slot.as_ref());
            if let Some(known) = found.filter(|known| known.session == session::number()) {
                give(memory, known.memory.own().as_mut_ptr().cast());
                return Ok(std::ptr::from_ref(known).cast_mut());
            }
            let ndims = usize::try_from(ndims).ok().filter(|&ndims| ndims <= MOST_DIMENSIONS);
            let ndims = ndims.ok_or_else(|| misuse("a coarray has 0 to 7 dimensions"))?;
            let codims =
                usize::try_from(codims).ok().filter(|&codims| (1..=MOST_DIMENSIONS).contains(&codims));
            let codims = codims.ok_or_else(|| misuse("a coarray has 1 to 7 codimensions"))?;
            let (extents, codim) =
                (list(extent, ndims, "the extents")?, list(codim, codims, "the codimensions")?);
            let made =
                session::with(|world| make(world, text(name), kind, element, extents, codim, on.as_ref()))?;
            let made: *mut Coarray = Box::into_raw(Box::new(made));
            give(memory, (*made).memory.own().as_mut_ptr().cast());
            give(slot, made);
            Ok(made)
        })
    }
}

/// Writes something where the program wants it, if it does.
unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: as the caller promises.
        unsafe { to.write(value) };
    }
}

fn make(
    world: &World,
    name: String,
    kind: c_int,
    element: usize,
    extents: &[c_long],
    codims: &[c_long],
    on: Option<&'static Nodes>,
) -> Result<Coarray> {
    let mut bytes = element;
    for &extent in extents {
        let extent =
            usize::try_from(extent).map_err(|_| misuse(format!("coarray {name}: {extent} elements")))?;
        bytes = size_for(bytes, extent, &name)?;
    }
    let images = i64::from(on.map_or(world.ranks(), |nodes| nodes.members.len()));
    let mut known: Vec<i64> = codims.to_vec();
    let (last, rest) = known.split_last_mut().ok_or_else(|| misuse("no codimension"))?;
    if let Some(wrong) = rest.iter().find(|&&size| size < 1) {
        return Err(misuse(format!("coarray {name}: a codimension of {wrong}")));
    }
    let inner: i64 = rest.iter().product();
    if *last < 1 {
        *last = (images + inner - 1) / inner;
    }
    let memory = world.shared_array::<u8>(bytes.max(1))?;
    let extents = extents.to_vec();
    Ok(Coarray { name, kind, element, extents, codims: known, on, memory, session: session::number() })
}

impl Coarray {
    /// A coarray that the program names, and what it says of it.
    ///
    /// # Safety
    /// `coarray` must be one; `image` must have as many numbers as there are codimensions, or be NULL: this image; `part` as there are dimensions.
    pub(super) unsafe fn at<'a>(
        coarray: *const Coarray,
        world: &World,
        image: *const c_long,
        part: *const KxmpPart,
    ) -> Result<(&'a Coarray, Rank, Section)> {
        // SAFETY: as the caller promises.
        unsafe {
            let coarray = coarray
                .as_ref()
                .ok_or_else(|| misuse("the coarray was not made: its declaration was not executed"))?;
            let rank = match image.is_null() {
                true => world.rank(),
                false => coarray.rank(world, list(image, coarray.codims.len(), "the image")?)?,
            };
            let parts = list(part, coarray.extents.len(), "the subscripts")?;
            let section = Section::new(&coarray.name, &coarray.extents, parts, coarray.element)?;
            Ok((coarray, rank, section))
        }
    }

    /// The rank of an image.
    fn rank(&self, world: &World, image: &[c_long]) -> Result<Rank> {
        let (mut number, mut stride) = (0i64, 1i64);
        for (&index, &size) in image.iter().zip(&self.codims) {
            if !(0..size).contains(&index) {
                return Err(misuse(format!(
                    "{}: there is no image {index}, counted from 0; there are {size}. Old programs count from 1: `xmpcc --images-from-1` takes 1 off",
                    self.name
                )));
            }
            number += index * stride;
            stride *= size;
        }
        let rank = match self.on {
            Some(nodes) => u32::try_from(number).ok().and_then(|number| nodes.members.get(number)),
            None => u32::try_from(number).ok().filter(|&number| number < world.ranks()),
        };
        rank.ok_or_else(|| {
            misuse(format!("{}: there is no image {number}, counted from 0, among the nodes. Old programs count from 1: `xmpcc --images-from-1` takes 1 off", self.name))
        })
    }

    /// Where a byte of an image's memory lies.
    pub(super) fn pointer(&self, rank: Rank, byte: i64) -> GlobalPtr<u8> {
        self.memory.at(rank, byte as usize)
    }

    /// Writes a section of memory with elements of so many bytes, or one element as often as needed.
    pub(super) fn put(
        &self,
        world: &World,
        rank: Rank,
        (mut to, element): (Section, usize),
        from: *const u8,
        mut section: Section,
    ) -> Result<()> {
        check_shapes(&to, &section)?;
        let count = to.count();
        if count == 0 {
            return Ok(());
        }
        if section.ranges.is_empty() && !to.ranges.is_empty() || rank == world.rank() {
            // As if it were read first.
            let gathered = gather(from, &section, element, count as usize);
            return self.put_bytes(world, rank, (&to, element), &gathered);
        }
        section.ascend(&mut to);
        // SAFETY: the section lies in memory of the program, between its first element and the end of its last one.
        let local =
            unsafe { std::slice::from_raw_parts(from.offset(section.first as isize), section.span(element)) };
        let there = self.pointer(rank, to.first);
        match to.is_dense(element) && section.is_dense(element) {
            true => world.put_slice(there, local),
            false => world.put_shape(there, &to.shape(element)?, local, &section.shape(element)?),
        }
    }

    /// Writes elements that lie side by side.
    fn put_bytes(
        &self,
        world: &World,
        rank: Rank,
        (to, element): (&Section, usize),
        bytes: &[u8],
    ) -> Result<()> {
        let there = self.pointer(rank, to.first);
        match to.is_dense(element) {
            true => world.put_slice(there, bytes),
            false => {
                world.put_shape(there, &to.shape(element)?, bytes, &kumiki::Shape::contiguous(bytes.len())?)
            }
        }
    }

    /// Writes what a side has to a section with elements of so many bytes and of this type.
    ///
    /// # Safety
    /// `from` must be a side whose memory is readable.
    unsafe fn put_side(
        &self,
        world: &World,
        rank: Rank,
        (to, element, kind): (Section, usize, c_int),
        from: &KxmpSide,
    ) -> Result<()> {
        self.check(from, element, kind)?;
        // SAFETY: as the caller promises.
        let (base, source) = (from.base.cast::<u8>(), unsafe { from.section("the right side") }?);
        if !converts(from, kind) {
            return self.put(world, rank, (to, element), base, source);
        }
        check_shapes(&to, &source)?;
        let values = gather(base, &source, from.element, to.count() as usize);
        let values = conversions::converted(&values, from.element, from.kind, kind)?;
        match values.is_empty() {
            true => Ok(()),
            false => self.put_bytes(world, rank, (&to, element), &values),
        }
    }

    /// Reads a section into new memory, side by side.
    fn get_bytes(&self, world: &World, rank: Rank, from: &Section) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; from.count() as usize * self.element];
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let there = self.pointer(rank, from.first);
        match from.is_dense(self.element) {
            true => world.get_slice(there, &mut bytes)?,
            false => {
                let here = kumiki::Shape::contiguous(bytes.len())?;
                world.get_shape(there, &from.shape(self.element)?, &mut bytes, &here)?;
            }
        }
        Ok(bytes)
    }

    fn get(&self, world: &World, rank: Rank, from: Section, to: *mut u8, section: Section) -> Result<()> {
        check_shapes(&section, &from)?;
        let (count, element) = (section.count(), self.element);
        if count == 0 {
            return Ok(());
        }
        if from.is_dense(element)
            && section.is_dense(element)
            && rank != world.rank()
            && from.count() == count
        {
            // SAFETY: so many elements side by side in memory of the program.
            let local = unsafe {
                std::slice::from_raw_parts_mut(to.offset(section.first as isize), count as usize * element)
            };
            return world.get_slice(self.pointer(rank, from.first), local);
        }
        let bytes = self.get_bytes(world, rank, &from)?;
        scatter(to, &section, element, &bytes);
        Ok(())
    }

    /// An error if a side cannot be assigned to elements of so many bytes and of this type, or from them.
    fn check(&self, side: &KxmpSide, element: usize, kind: c_int) -> Result<()> {
        if !side.array.is_null() {
            return Err(misuse(format!(
                "{}: the other side is a distributed array; assign it to local memory first",
                self.name
            )));
        }
        let is_alike = side.kind == kind || side.kind == 0 || kind == 0;
        match side.element == element && is_alike || conversions::is_possible(side.kind, kind) {
            true => Ok(()),
            false => Err(misuse(format!(
                "{}: both sides must have elements of the same type ({} bytes against {}); assign through a variable of that type",
                self.name, element, side.element
            ))),
        }
    }
}

/// Whether numbers of a side and numbers of this type become each other.
fn converts(side: &KxmpSide, kind: c_int) -> bool {
    side.kind != kind && conversions::is_possible(side.kind, kind)
}

/// The elements of a section side by side; one element so often.
pub(super) fn gather(from: *const u8, section: &Section, element: usize, count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * element);
    section.each(|place| {
        // SAFETY: the section lies in memory of the program.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(from.offset(place as isize), element) });
    });
    if section.ranges.is_empty() && count > 1 {
        bytes = bytes.repeat(count);
    }
    bytes
}

/// Elements that lie side by side to the places of a section; one element to all of them.
pub(super) fn scatter(to: *mut u8, section: &Section, element: usize, bytes: &[u8]) {
    let mut elements = bytes.chunks_exact(element.max(1)).cycle();
    section.each(|place| {
        if let Some(value) = elements.next() {
            // SAFETY: the section lies in memory of the program.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to.offset(place as isize), element) };
        }
    });
}

/// Writes to an image.
///
/// # Safety
/// As `Coarray::at`; `place` must be a text, or NULL; `from` must be a side whose memory is readable.
#[no_mangle]
pub unsafe extern "C" fn kxmp_coarray_put(
    place: *const c_char,
    coarray: *const Coarray,
    image: *const c_long,
    part: *const KxmpPart,
    from: *const KxmpSide,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "assignment to a coarray", || {
            session::with(|world| {
                let (coarray, rank, section) = Coarray::at(coarray, world, image, part)?;
                coarray.put_side(world, rank, (section, coarray.element, coarray.kind), &*from)
            })
        })
    }
}

/// `kxmp_inside`: a member of each element, or elements of one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpInside {
    /// From the beginning of the coarray's element to the first of these.
    offset: usize,
    element: usize,
    kind: c_int,
    ranges: c_int,
    range: [KxmpInsideRange; MOST_DIMENSIONS],
}

/// One range of them: how many, and how many bytes apart.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpInsideRange {
    count: c_long,
    stride: c_long,
}

impl KxmpInside {
    /// Where the elements are: those of each element of a section of the coarray.
    fn section(&self, coarray: &Coarray, mut outer: Section) -> Result<Section> {
        let ranges = usize::try_from(self.ranges).ok().and_then(|count| self.range.get(..count));
        let ranges = ranges.ok_or_else(|| misuse(format!("{} ranges", self.ranges)))?;
        let (mut low, mut high) = (self.offset as i64, (self.offset + self.element) as i64);
        for range in ranges {
            if range.count < 0 {
                return Err(misuse(format!("{}: a length of {}", coarray.name, range.count)));
            }
            let way = (range.count - 1).max(0).saturating_mul(range.stride);
            low = low.saturating_add(way.min(0));
            high = high.saturating_add(way.max(0));
            outer.ranges.push((range.count, range.stride));
        }
        if low < 0 || high > coarray.element as i64 {
            return Err(misuse(format!("{}: the section leaves the member", coarray.name)));
        }
        outer.first += self.offset as i64;
        Ok(outer)
    }
}

/// Writes to a member of elements of an image, or to a section of one: what else is in the elements is left alone.
///
/// # Safety
/// As [`kxmp_coarray_put`]; `inside` must be readable.
#[no_mangle]
pub unsafe extern "C" fn kxmp_coarray_put_inside(
    place: *const c_char,
    coarray: *const Coarray,
    image: *const c_long,
    part: *const KxmpPart,
    inside: *const KxmpInside,
    from: *const KxmpSide,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "assignment to a member of a coarray", || {
            session::with(|world| {
                let (coarray, rank, section) = Coarray::at(coarray, world, image, part)?;
                let inside = &*inside;
                let section = inside.section(coarray, section)?;
                coarray.put_side(world, rank, (section, inside.element, inside.kind), &*from)
            })
        })
    }
}

/// Reads from an image.
///
/// # Safety
/// As [`kxmp_coarray_put`]; the memory of `to` must be writable.
#[no_mangle]
pub unsafe extern "C" fn kxmp_coarray_get(
    place: *const c_char,
    coarray: *const Coarray,
    image: *const c_long,
    part: *const KxmpPart,
    to: *const KxmpSide,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "assignment from a coarray", || {
            session::with(|world| {
                let (coarray, rank, section) = Coarray::at(coarray, world, image, part)?;
                coarray.check(&*to, coarray.element, coarray.kind)?;
                let (base, target) = ((*to).base.cast::<u8>(), (*to).section("the left side")?);
                if !converts(&*to, coarray.kind) {
                    return coarray.get(world, rank, section, base, target);
                }
                check_shapes(&target, &section)?;
                let values = coarray.get_bytes(world, rank, &section)?;
                let values = conversions::converted(&values, coarray.element, coarray.kind, (*to).kind)?;
                scatter(base, &target, (*to).element, &values);
                Ok(())
            })
        })
    }
}

/// Copies between two images, neither of which need be this one.
///
/// # Safety
/// As `Coarray::at` for both; `place` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_coarray_copy(
    place: *const c_char,
    to: *const Coarray,
    to_image: *const c_long,
    to_part: *const KxmpPart,
    from: *const Coarray,
    from_image: *const c_long,
    from_part: *const KxmpPart,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "assignment between coarrays", || {
            session::with(|world| {
                let (to, to_rank, to_section) = Coarray::at(to, world, to_image, to_part)?;
                let (from, from_rank, from_section) = Coarray::at(from, world, from_image, from_part)?;
                check_shapes(&to_section, &from_section)?;
                let is_alike = to.element == from.element && to.kind == from.kind;
                let is_converted = !is_alike && conversions::is_possible(from.kind, to.kind);
                if !is_alike && !is_converted {
                    return Err(misuse(format!(
                        "{} and {} have elements of types that {}",
                        to.name,
                        from.name,
                        conversions::why_not(from.kind, to.kind)
                    )));
                }
                let mut bytes = from.get_bytes(world, from_rank, &from_section)?;
                if is_converted {
                    bytes = conversions::converted(&bytes, from.element, from.kind, to.kind)?;
                }
                if from_section.ranges.is_empty() {
                    bytes = bytes.repeat(to_section.count() as usize);
                }
                match bytes.is_empty() {
                    true => Ok(()),
                    false => to.put_bytes(world, to_rank, (&to_section, to.element), &bytes),
                }
            })
        })
    }
}

thread_local! {
    /// What this thread has fetched last, and how often it has.
    static LAST: RefCell<(Vec<Box<[u128]>>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

/// One element of an image, in memory that stays as it is until this thread has fetched 64 more.
///
/// # Safety
/// As `Coarray::at`; `place` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_coarray_fetch(
    place: *const c_char,
    coarray: *const Coarray,
    image: *const c_long,
    part: *const KxmpPart,
) -> *const c_void {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "reference to a coarray", || {
            session::with(|world| {
                let (coarray, rank, section) = Coarray::at(coarray, world, image, part)?;
                if !section.ranges.is_empty() {
                    return Err(misuse(format!("{}: a section has no single value", coarray.name)));
                }
                let words = coarray.element.div_ceil(size_of::<u128>()).max(1);
                LAST.with_borrow_mut(|(kept, count)| {
                    let at = *count % FETCHED;
                    *count += 1;
                    if kept.len() <= at {
                        kept.push(vec![0; words].into());
                    } else if kept[at].len() < words {
                        kept[at] = vec![0; words].into();
                    }
                    let memory = kept[at].as_mut_ptr();
                    let room = writable(memory.cast(), coarray.element, "the value")?;
                    world.get_slice(coarray.pointer(rank, section.first), room)?;
                    Ok(memory.cast_const().cast())
                })
            })
        })
    }
}
