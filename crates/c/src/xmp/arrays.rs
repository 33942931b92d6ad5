//! Distributed arrays: how they lie on the nodes, and the part of this one, in memory that neighbours reach.
//!
//! An array is made without a word to other nodes. Those that all nodes make together have a number, by which every node finds the parts of the
//! others without their help: each has a directory at a place that all know.

use super::asynchronous::{discard_into, Memory};
use super::directory;
use super::nodes::{dimensions, text};
use super::references::Tag;
use super::sections::Section;
use super::templates::Template;
use super::{edge, edge_or, session, sets, MOST_DIMENSIONS};
use crate::api::buffers::{list, size_for};
use crate::guard::misuse;
use kumiki::array::{Align, Mapping, Shadow};
use kumiki::{Region, Result};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// `*` as a size.
const STAR: c_long = -1;

/// `kxmp_dim`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct KxmpDim {
    extent: c_long,
    shift: c_long,
    lower: c_long,
    nodes: c_long,
    width: c_long,
    mine: c_long,
}

/// `kxmp_mapping`, as far as programs know it.
#[repr(C)]
#[derive(Debug)]
pub struct KxmpHead {
    ndims: c_int,
    dims: [KxmpDim; MOST_DIMENSIONS],
}

impl KxmpHead {
    /// Nothing of so many dimensions: of an array that has no memory.
    const fn nothing(ndims: c_int) -> KxmpHead {
        let none = KxmpDim { extent: 0, shift: 0, lower: 0, nodes: 1, width: 1, mine: 0 };
        KxmpHead { ndims, dims: [none; MOST_DIMENSIONS] }
    }
}

/// What arrays without memory have.
static NOTHING: [KxmpHead; MOST_DIMENSIONS + 1] = {
    let nothing = KxmpHead::nothing;
    [nothing(0), nothing(1), nothing(2), nothing(3), nothing(4), nothing(5), nothing(6), nothing(7)]
};

/// `kxmp_mapping`: shared by all arrays of one mapping.
#[repr(C)]
#[derive(Debug)]
pub struct KxmpMapping {
    head: KxmpHead,
    pub(super) space: Arc<Mapping>,
}

/// `kxmp_array`.
#[repr(C)]
#[derive(Debug)]
pub struct KxmpArray {
    pub(super) base: *mut u8,
    origin: *mut c_char,
    map: *const KxmpHead,
    pub(super) element: usize,
    pub(super) kind: c_int,
    pub(super) name: *const c_char,
    inside: *mut Inside,
}

/// What the library keeps of an array.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) template: &'static Template,
    aligns: Vec<Align>,
    /// By dimension of the template, the fastest first; none if the dimension of the array is collapsed.
    pub(super) axes: Vec<Option<(usize, i64)>>,
    pub(super) shadows: Vec<Shadow>,
    pub(super) map: Option<Arc<KxmpMapping>>,
    /// Until it is given back.
    region: Option<Region<u8>>,
    /// The number by which all nodes know it.
    pub(super) number: Option<u64>,
    /// The widths of `reflect_init`.
    pub(super) kept: Option<Kept>,
}

/// What an array takes beside its elements, at most, but for whole pages before very large ones; its mapping is shared by all arrays that have the same.
const MOST_BYTES: usize = 1024;
const _: () = assert!(described(MOST_DIMENSIONS) <= MOST_BYTES);

/// Bytes that describe an array of so many dimensions.
const fn described(dimensions: usize) -> usize {
    let each = size_of::<Align>() + size_of::<Option<(usize, i64)>>() + size_of::<Shadow>();
    size_of::<KxmpArray>() + size_of::<Inside>() + dimensions * each
}

/// What `reflect_init` was told: how much of each dimension, and whether corners are left out.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) widths: Option<Vec<KxmpWidth>>,
    pub(super) orthogonal: bool,
}

/// `kxmp_align`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpAlign {
    axis: c_int,
    offset: c_long,
}

/// `kxmp_width`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KxmpWidth {
    pub(super) lo: c_long,
    pub(super) hi: c_long,
    pub(super) periodic: c_int,
}

/// The mappings that arrays have, by the address of what they stand for.
static KNOWN: Mutex<Option<HashMap<usize, Weak<KxmpMapping>>>> = Mutex::new(None);

impl KxmpMapping {
    /// That of a mapping, on this node.
    fn of(space: Arc<Mapping>) -> Arc<KxmpMapping> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_with(HashMap::new);
        known.retain(|_, map| map.strong_count() > 0);
        let key = Arc::as_ptr(&space) as usize;
        if let Some(map) = known.get(&key).and_then(Weak::upgrade) {
            return map;
        }
        let part = space.part(sets::rank());
        let mut dims = [KxmpDim::default(); MOST_DIMENSIONS];
        for (at, (dim, dimension)) in dims.iter_mut().zip(space.dimensions()).enumerate() {
            let axis = dimension.axis();
            *dim = KxmpDim {
                extent: part.extents()[at] as c_long,
                shift: part.shift(at).unwrap_or(0),
                lower: axis.lower(),
                nodes: axis.nodes().into(),
                width: axis.width() as c_long,
                mine: part.node(at).map_or(-1, c_long::from),
            };
        }
        let ndims = space.dimensions().len() as c_int;
        let map = Arc::new(KxmpMapping { head: KxmpHead { ndims, dims }, space });
        known.insert(key, Arc::downgrade(&map));
        map
    }

    /// Elements of this node's part, with the shadow.
    fn elements(&self) -> Result<usize> {
        let count = self.space.part(sets::rank()).len();
        usize::try_from(count).map_err(|_| misuse(format!("{count} elements on a node")))
    }

    /// Where the elements lie that this node owns: sections of its part, in bytes.
    pub(super) fn owned(&self, element: usize) -> Vec<Section> {
        let part = self.space.part(sets::rank());
        if part.is_empty() {
            return Vec::new();
        }
        let mut sections = vec![Section { first: 0, ranges: Vec::new() }];
        for (at, dimension) in self.space.dimensions().iter().enumerate() {
            let stride = (part.strides()[at] as usize * element) as i64;
            let node = part.node(at).unwrap_or(0);
            let owned = dimension.owned(node, 0, 1, dimension.size() as i64);
            sections = sections
                .iter()
                .flat_map(|section| {
                    owned.iter().map(move |owned| {
                        let mut next = section.clone();
                        next.first += owned.local * stride;
                        next.ranges.push((owned.count, owned.local_stride * stride));
                        next
                    })
                })
                .collect();
        }
        sections
    }
}

impl KxmpArray {
    /// The array that a program means.
    ///
    /// # Safety
    /// It must be one, or NULL; nobody else may use it.
    pub(super) unsafe fn get<'a>(array: *mut KxmpArray) -> Result<(&'a mut KxmpArray, &'a mut Inside)> {
        if array.is_null() {
            return Err(misuse("the array is NULL"));
        }
        // SAFETY: whatever descriptor it is, it begins with a word.
        let first = unsafe { array.cast::<u64>().read() };
        if first == Tag::Nodes as u64 || first == Tag::Template as u64 {
            return Err(misuse("the descriptor is of nodes or of a template, and not of an array"));
        }
        // SAFETY: as the caller promises.
        let array = unsafe { &mut *array };
        // SAFETY: what the library has put there.
        match unsafe { array.inside.as_mut() } {
            Some(inside) => Ok((array, inside)),
            None => Err(misuse("the array was not made: its declaration was not executed")),
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        // SAFETY: a text of the program, or NULL.
        unsafe { text(self.name) }
    }

    /// Its mapping; an error before it has memory.
    pub(super) fn mapping<'i>(&self, inside: &'i Inside) -> Result<&'i Arc<KxmpMapping>> {
        inside
            .map
            .as_ref()
            .ok_or_else(|| misuse(format!("array {} has no memory yet: call xmp_malloc first", self.name())))
    }

    /// The part of this node.
    ///
    /// # Safety
    /// The program must not use it before the call returns, and other nodes only as the program has them do.
    pub(super) unsafe fn memory<'a>(&self, map: &KxmpMapping) -> Result<&'a mut [u8]> {
        let bytes = size_for(map.elements()?, self.element, "the array")?;
        match self.base.is_null() || bytes == 0 {
            true => Ok(&mut []),
            // SAFETY: it has so many bytes from its base on.
            false => Ok(unsafe { std::slice::from_raw_parts_mut(self.base, bytes) }),
        }
    }

    /// Gives it a mapping and memory.
    fn settle(&mut self, map: Arc<KxmpMapping>, base: *mut u8) {
        let part = map.space.part(sets::rank());
        let moved: i64 = (0..map.space.dimensions().len())
            .map(|at| part.shift(at).unwrap_or(0).wrapping_mul(part.strides()[at] as i64))
            .sum();
        // Also where nothing is here: a function that is handed the array finds by it which one it is.
        self.base = base;
        self.origin = base.wrapping_offset((moved * self.element as i64) as isize).cast();
        self.map = Arc::as_ptr(&map).cast();
        // SAFETY: what the library has put there.
        if let Some(inside) = unsafe { self.inside.as_mut() } {
            inside.map = Some(map);
        }
    }
}

impl Inside {
    fn map_for(&self, sizes: &[u64]) -> Result<Arc<KxmpMapping>> {
        let space = self.template.space()?;
        Ok(KxmpMapping::of(Mapping::new(&space, sizes, &self.aligns, &self.shadows)?))
    }

    /// The memory stays, under its number, though nothing here knows of it any more.
    fn leave_memory(&mut self) {
        std::mem::forget(self.region.take());
        self.number = None;
    }

    /// Memory for the part of this node: all nodes have the same number for it, if all make it.
    fn allocate(&mut self, map: &KxmpMapping, element: usize, name: &str) -> Result<*mut u8> {
        let bytes = size_for(map.elements()?, element, "the array")?;
        session::with(|world| {
            let lead = lead(bytes, self.aligns.len());
            let region = world.alloc::<u8>(bytes.max(1) + lead)?;
            // SAFETY: it has so many bytes, and more.
            let base = unsafe { region.as_mut_ptr().add(lead) };
            let what = (name, element, map.space.sizes());
            self.number = directory::enter(world, region.ptr() + lead, base as usize, what)?;
            self.region = Some(region);
            Ok(base)
        })
    }
}

/// Bytes that are left before an array: large ones begin a few lines of the cache apart, so that elements with the same index do not drive each other out of
/// it when a loop goes over many arrays. (Arrays in Rust do the same.) Those so large that it is nothing to them begin pages apart as well: what is known of
/// pages has its places by their numbers.
fn lead(bytes: usize, dimensions: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if bytes < LARGE {
        return 0;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let lines = PLACES.min((MOST_BYTES - described(dimensions)) / LINE + 1);
    let pages = PLACES.min(bytes / SHARE / PAGE + 1);
    number % lines * LINE + number % pages * PAGE
}

const PAGE: usize = 4096;
/// One part in so many of an array may be left before it for pages.
const SHARE: usize = 256;
const LINE: usize = 64;
const PLACES: usize = 8;
const LARGE: usize = 32 << 10;

/// Makes an array.
///
/// # Safety
/// `array` must be writable; texts must be texts; lists must have `ndims` entries, or be NULL where that is said; `t` must be a template.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // As many as translated programs give.
pub unsafe extern "C" fn kxmp_array_make(
    array: *mut KxmpArray,
    place: *const c_char,
    name: *const c_char,
    kind: c_int,
    element: usize,
    ndims: c_int,
    sizes: *const c_long,
    t: *const Template,
    align: *const KxmpAlign,
    shadow: *const KxmpWidth,
    storage: c_int,
    memory: *mut c_void,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, &format!("align {}", text(name)), || {
            let ndims = dimensions(ndims)?;
            let template: &'static Template =
                t.as_ref().ok_or_else(|| misuse("the template was not declared"))?;
            let aligns = list(align, ndims, "the alignment")?;
            let shadow = if shadow.is_null() { &[] } else { list(shadow, ndims, "the shadow")? };
            let inside = describe(template, aligns, shadow)?;
            array.write(KxmpArray {
                base: std::ptr::null_mut(),
                origin: std::ptr::null_mut(),
                map: &raw const NOTHING[ndims],
                element,
                kind,
                name,
                inside: Box::into_raw(Box::new(inside)),
            });
            let (array, inside) = KxmpArray::get(array)?;
            if storage == LATER {
                return Ok(());
            }
            let sizes = list(sizes, ndims, "the sizes")?;
            let sizes =
                sizes.iter().zip(aligns).map(|(&size, align)| size_of_dimension(template, size, align));
            let map = inside.map_for(&sizes.collect::<Result<Vec<u64>>>()?)?;
            let base = match storage {
                BOUND => {
                    inside.number = directory::number_of(memory as usize);
                    memory.cast()
                }
                _ => inside.allocate(&map, element, &array.name())?,
            };
            array.settle(map, base);
            Ok(())
        })
    }
}

const LATER: c_int = 1;
const BOUND: c_int = 2;

/// How many elements a dimension has: `*` goes as far as the template.
fn size_of_dimension(template: &Template, size: c_long, align: &KxmpAlign) -> Result<u64> {
    if size == STAR {
        let axis = usize::try_from(align.axis).ok().filter(|&axis| axis < template.ndims);
        let axis = axis.ok_or_else(|| misuse("a dimension that is not aligned needs a size"))?;
        let upper = template.space()?.axis(template.turned(axis)).upper();
        return Ok(u64::try_from(upper - align.offset + 1).unwrap_or(0));
    }
    u64::try_from(size).map_err(|_| misuse(format!("a dimension of {size} elements")))
}

fn describe(template: &'static Template, aligns: &[KxmpAlign], shadows: &[KxmpWidth]) -> Result<Inside> {
    let mut axes = Vec::with_capacity(aligns.len());
    for align in aligns {
        axes.push(match usize::try_from(align.axis) {
            Ok(axis) if axis < template.ndims => Some((axis, align.offset)),
            Ok(axis) => {
                return Err(misuse(format!("template {} has no dimension {}", template.name, axis + 1)))
            }
            Err(_) => None,
        });
    }
    let with = |axis: &Option<(usize, i64)>| match axis {
        Some((axis, offset)) => Align::with(template.turned(*axis), *offset),
        None => Align::COLLAPSED,
    };
    let shadow = |at: usize| match shadows.get(at) {
        None => Ok(Shadow::NONE),
        Some(KxmpWidth { lo: -1, hi: -1, .. }) => Ok(Shadow::Full),
        Some(KxmpWidth { lo, hi, .. }) => match (u64::try_from(*lo), u64::try_from(*hi)) {
            (Ok(low), Ok(high)) => Ok(Shadow::Width { low, high }),
            _ => Err(misuse(format!("shadow: the widths {lo}:{hi} are negative"))),
        },
    };
    let shadows = (0..aligns.len()).map(shadow).collect::<Result<Vec<Shadow>>>()?;
    let aligns = axes.iter().map(with).collect();
    Ok(Inside { template, aligns, axes, shadows, map: None, region: None, number: None, kept: None })
}

/// An array of a unit, before the program starts: loops find that there is nothing of it before they are told that nobody has started.
///
/// # Safety
/// `array` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_array_await(array: *mut KxmpArray) {
    // SAFETY: as the caller promises.
    if let Some(array) = unsafe { array.as_mut() }.filter(|array| array.map.is_null()) {
        array.map = &raw const NOTHING[MOST_DIMENSIONS];
    }
}

/// A loop needs an array that has no memory.
///
/// # Safety
/// `place` must be a text, or NULL; `array` must be one.
#[no_mangle]
pub unsafe extern "C" fn kxmp_no_memory(place: *const c_char, array: *mut KxmpArray) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "loop", || {
            let (array, inside) = KxmpArray::get(array)?;
            array.mapping(inside).map(drop)
        })
    }
}

/// Gives an array up.
///
/// # Safety
/// `array` must be one, or all zeros, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_array_drop(array: *mut KxmpArray) {
    edge_or("the end of an array", (), || {
        // SAFETY: as the caller promises.
        let Some(array) = (unsafe { array.as_mut() }) else { return Ok(()) };
        release(array);
        if !array.inside.is_null() {
            // SAFETY: it was made with the array, and is given up here, once.
            drop(unsafe { Box::from_raw(array.inside) });
        }
        (array.inside, array.map) = (std::ptr::null_mut(), std::ptr::null());
        Ok(())
    });
}

/// Gives up what describes an array of `xmp_malloc`. Its memory stays, as that of `malloc` does: the pointer may have gone elsewhere.
///
/// # Safety
/// As [`kxmp_array_drop`].
#[no_mangle]
pub unsafe extern "C" fn kxmp_pointer_drop(array: *mut KxmpArray) {
    edge_or("the end of a pointer", (), || {
        // SAFETY: as the caller promises, and what the library has put there.
        if let Some(inside) = unsafe { array.as_mut().and_then(|array| array.inside.as_mut()) } {
            inside.leave_memory();
        }
        // SAFETY: as the caller promises.
        unsafe { kxmp_array_drop(array) };
        Ok(())
    });
}

/// Gives the memory of an array back.
pub(super) fn release(array: &mut KxmpArray) {
    let mut map: *const KxmpHead = std::ptr::null();
    // SAFETY: what the library has put there.
    if let Some(inside) = unsafe { array.inside.as_mut() } {
        map = &raw const NOTHING[inside.axes.len().min(MOST_DIMENSIONS)];
        if let (Some(region), number) = (inside.region.take(), inside.number.take()) {
            let _ = session::with(|world| directory::leave(world, number));
            let _ = discard_into(Memory { start: region.as_mut_ptr(), bytes: region.len() });
            drop(region);
        }
        inside.map = None;
        inside.kept = None;
    }
    (array.base, array.origin, array.map) = (std::ptr::null_mut(), std::ptr::null_mut(), map);
}

/// Gives an array memory.
///
/// # Safety
/// `place` must be a text, or NULL; `array` must be one; `sizes` must have `ndims` numbers.
#[no_mangle]
pub unsafe extern "C" fn kxmp_malloc(
    place: *const c_char,
    array: *mut KxmpArray,
    ndims: c_int,
    sizes: *const c_long,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "xmp_malloc", || {
            let ndims = dimensions(ndims)?;
            let sizes = list(sizes, ndims, "the sizes")?;
            let (array, inside) = KxmpArray::get(array)?;
            // As after a second malloc: the program may have kept the pointer.
            inside.leave_memory();
            release(array);
            let (array, inside) = KxmpArray::get(array)?;
            if inside.aligns.len() != ndims {
                let (name, has) = (array.name(), inside.aligns.len());
                return Err(misuse(format!(
                    "array {name} has {has} dimensions, and {ndims} sizes are given"
                )));
            }
            let size = |&size: &c_long| {
                u64::try_from(size).map_err(|_| misuse(format!("a dimension of {size} elements")))
            };
            let map = inside.map_for(&sizes.iter().map(size).collect::<Result<Vec<u64>>>()?)?;
            let base = inside.allocate(&map, array.element, &array.name())?;
            array.settle(map, base);
            Ok(base.cast())
        })
    }
}

/// Gives the memory of an array of `xmp_malloc` back.
///
/// # Safety
/// `d` must be the descriptor of an array.
#[no_mangle]
pub unsafe extern "C" fn xmp_free(d: *mut c_void) {
    edge_or("xmp_free", (), || {
        // SAFETY: as the caller promises.
        let (array, _) = unsafe { KxmpArray::get(d.cast()) }?;
        release(array);
        Ok(())
    });
}
